//! DNS resolution that uses all addresses of a name in turn, so that several servers behind one name share the load.

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

/// Time for which a result is cached: a burst of new connections resolves once, and a sweep still notices a change of
/// address.
const FRESH: Duration = Duration::from_secs(5);

/// The error of a name that does not resolve. A separate type, so that it can be found in a chain of errors.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unresolved(pub(crate) io::Error);

/// A cached result, with the time of the query.
type Known = (Instant, Arc<[SocketAddr]>);

#[derive(Default)]
struct Inner {
    turn: AtomicUsize,
    known: Mutex<HashMap<String, Known>>,
}

/// A resolver that puts a different address first each time.
#[derive(Clone, Default)]
pub(crate) struct InTurn(Arc<Inner>);

impl Inner {
    async fn addresses(&self, name: &str) -> io::Result<Arc<[SocketAddr]>> {
        if let Some((asked, list)) = self.known.lock().expect("no panic while held").get(name)
            && asked.elapsed() < FRESH
        {
            return Ok(list.clone());
        }
        let list: Vec<SocketAddr> = tokio::net::lookup_host((name, 0)).await?.collect();
        if list.is_empty() {
            return Err(io::Error::other("the name has no address"));
        }
        let list: Arc<[SocketAddr]> = in_order(list).into();
        self.known
            .lock()
            .expect("no panic while held")
            .insert(name.to_owned(), (Instant::now(), list.clone()));
        Ok(list)
    }
}

/// Sorts the addresses: the system's preferred family first, each family in a fixed order, since the system may shuffle
/// its results.
fn in_order(mut list: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let v6_first = list.first().is_some_and(SocketAddr::is_ipv6);
    list.sort_by_key(|a| (a.is_ipv6() != v6_first, *a));
    list.dedup();
    list
}

/// Rotates the preferred family by `turn`. The other family stays behind it as a fallback, since a machine may have
/// addresses of a family that it cannot reach.
fn rotated(list: &[SocketAddr], turn: usize) -> Vec<SocketAddr> {
    let mut list = list.to_vec();
    let preferred = list.iter().take_while(|a| a.is_ipv6() == list[0].is_ipv6()).count();
    if preferred > 0 {
        list[..preferred].rotate_left(turn % preferred);
    }
    list
}

impl Resolve for InTurn {
    fn resolve(&self, name: Name) -> Resolving {
        let inner = self.0.clone();
        Box::pin(async move {
            let list = inner.addresses(name.as_str()).await.map_err(Unresolved)?;
            let turn = inner.turn.fetch_add(1, Ordering::Relaxed);
            let addrs: Addrs = Box::new(rotated(&list, turn).into_iter());
            Ok(addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addrs(list: &[&str]) -> Vec<SocketAddr> {
        list.iter().map(|a| SocketAddr::new(a.parse().unwrap(), 0)).collect()
    }

    #[test]
    fn addresses_are_used_in_turn() {
        let list = in_order(addrs(&["10.0.0.3", "::1", "10.0.0.1", "10.0.0.2", "10.0.0.1"]));
        assert_eq!(
            list,
            addrs(&["10.0.0.1", "10.0.0.2", "10.0.0.3", "::1"]),
            "sorted, once each, v4 preferred"
        );
        for (turn, expected) in [
            (0, ["10.0.0.1", "10.0.0.2", "10.0.0.3", "::1"]),
            (1, ["10.0.0.2", "10.0.0.3", "10.0.0.1", "::1"]),
            (5, ["10.0.0.3", "10.0.0.1", "10.0.0.2", "::1"]),
        ] {
            assert_eq!(rotated(&list, turn), addrs(&expected), "turn {turn}");
        }
        let v6 = in_order(addrs(&["::2", "10.0.0.1", "::1"]));
        assert_eq!(
            rotated(&v6, 1),
            addrs(&["::2", "::1", "10.0.0.1"]),
            "v6 preferred where the system says so"
        );
        assert_eq!(rotated(&[], 3), []);
    }

    #[tokio::test]
    async fn a_local_name_resolves_from_the_second_time_on_without_asking() {
        let inner = Inner::default();
        let first = inner.addresses("localhost").await.unwrap();
        assert!(first.iter().all(|a| a.ip().is_loopback()));
        let second = inner.addresses("localhost").await.unwrap();
        assert!(Arc::ptr_eq(&first, &second));
    }
}
