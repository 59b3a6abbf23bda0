//! Limits on the open files (including sockets) and local ports of this process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limits on open files; `None` means unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptors {
    /// The limit in force.
    pub soft: Option<u64>,
    /// The maximum to which an unprivileged process may raise it.
    pub hard: Option<u64>,
}

impl Descriptors {
    /// Raises the soft limit as far as the system permits, at most to the hard one. Returns the resulting limits.
    pub fn raise() -> Self {
        let now = getrlimit(Resource::Nofile);
        let limit = |current| Rlimit { current, maximum: now.maximum };
        // macOS reports no hard limit, but refuses more than this.
        const MACOS: u64 = 10_240;
        if now.current != now.maximum && setrlimit(Resource::Nofile, limit(now.maximum)).is_err() {
            // Failing to raise the limit is no error: the limit in force is returned.
            let _ = setrlimit(Resource::Nofile, limit(Some(now.current.unwrap_or(MACOS).max(MACOS))));
        }
        let now = getrlimit(Resource::Nofile);
        Self { soft: now.current, hard: now.maximum }
    }
}

/// Returns the number of local ports for connections to one address, if the system reports it.
pub fn ports() -> Option<u64> {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut ends = range.split_whitespace().map(str::parse::<u64>);
    let (first, last) = (ends.next()?.ok()?, ends.next()?.ok()?);
    Some((last + 1).saturating_sub(first))
}

/// Returns a warning if a step may have more requests in flight than this machine has local ports for connections to
/// `addresses` addresses; `None` if there are enough, or the system does not report it.
pub fn short_of_ports(max_in_flight: u32, addresses: usize) -> Option<String> {
    let most = ports()?.saturating_mul(addresses.max(1) as u64);
    (most < u64::from(max_in_flight)).then(|| {
        format!(
            "this machine has {most} ports for connections to the server, fewer than [step] max-in-flight = {max_in_flight}: widen \
             net.ipv4.ip_local_port_range, name several addresses of the server (server.urls), or lower max-in-flight"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn ports_are_counted_for_each_address() {
        let all = u32::try_from(ports().unwrap()).unwrap();
        assert_eq!((short_of_ports(all, 1), short_of_ports(all + 1, 2)), (None, None));
        assert!(short_of_ports(all + 1, 1).unwrap().contains("ip_local_port_range"));
    }

    #[test]
    fn the_soft_limit_is_raised_to_the_hard_one() {
        let raised = Descriptors::raise();
        assert!(raised.soft == raised.hard || cfg!(target_os = "macos"), "{raised:?}");
        assert_eq!(Descriptors::raise(), raised, "once is enough");
    }
}
