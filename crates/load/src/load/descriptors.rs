//! How many files, sockets among them, this process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limits of open files; `None` where there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptors {
    /// What holds now.
    pub soft: Option<u64>,
    /// How far it may be raised without more rights.
    pub hard: Option<u64>,
}

impl Descriptors {
    /// Raises the soft limit to the hard one, as far as the system lets it, and says what holds then.
    pub fn raise() -> Self {
        let now = getrlimit(Resource::Nofile);
        let limit = |current| Rlimit { current, maximum: now.maximum };
        // macOS has no hard limit by its own word, and refuses more than this.
        const MACOS: u64 = 10_240;
        if now.current != now.maximum && setrlimit(Resource::Nofile, limit(now.maximum)).is_err() {
            // A limit that cannot be raised is no error: the one that holds is reported.
            let _ = setrlimit(Resource::Nofile, limit(Some(now.current.unwrap_or(MACOS).max(MACOS))));
        }
        let now = getrlimit(Resource::Nofile);
        Self { soft: now.current, hard: now.maximum }
    }
}

/// Ports that connections to one address may have at their own end, where the system tells.
pub fn ports() -> Option<u64> {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut ends = range.split_whitespace().map(str::parse::<u64>);
    let (first, last) = (ends.next()?.ok()?, ends.next()?.ok()?);
    Some((last + 1).saturating_sub(first))
}

/// What is said where a step could come to have more requests in flight than this machine has ports for connections to so many
/// addresses; `None` where it has enough, or the system does not tell.
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
