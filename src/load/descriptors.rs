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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_is_raised_to_the_hard_one() {
        let raised = Descriptors::raise();
        assert!(raised.soft == raised.hard || cfg!(target_os = "macos"), "{raised:?}");
        assert_eq!(Descriptors::raise(), raised, "once is enough");
    }
}
