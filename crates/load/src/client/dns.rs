//! DNS resolution that uses all addresses of a name in turn, so that several servers behind one name share the load, and that refuses public
//! addresses which nobody has allowed.

use super::consent::Gate;
use hyper_util::client::legacy::connect::dns::Name as ConnectName;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::{
    collections::HashMap,
    future::Future,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{self, Poll},
    time::Duration,
};
use tokio::time::Instant;
use tower::Service;

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

/// A resolver that puts a different address first each time. The client connects to no other addresses, so that those that are checked here are those
/// that are connected to.
#[derive(Clone, Default)]
pub(crate) struct InTurn {
    inner: Arc<Inner>,
    gate: Gate,
}

impl InTurn {
    /// Makes a resolver that checks every address at a gate.
    pub(crate) fn behind(gate: Gate) -> Self {
        Self { inner: Arc::default(), gate }
    }

    /// Looks a name up as the system does. Returns its addresses in the order in which to try them.
    async fn looked_up(
        &self,
        name: &str,
    ) -> Result<std::vec::IntoIter<SocketAddr>, Box<dyn std::error::Error + Send + Sync>> {
        Ok(self.resolved(name, looked_up(name)).await?.into_iter())
    }

    /// Returns the addresses of a name in the order in which to try them.
    async fn resolved(
        &self,
        name: &str,
        lookup: impl Future<Output = io::Result<Vec<SocketAddr>>>,
    ) -> Result<Vec<SocketAddr>, Box<dyn std::error::Error + Send + Sync>> {
        let list = self.inner.addresses(name, lookup).await.map_err(Unresolved)?;
        self.gate.check(name, list.iter().map(SocketAddr::ip))?;
        Ok(rotated(&list, self.inner.turn.fetch_add(1, Ordering::Relaxed)))
    }
}

impl Inner {
    async fn addresses(
        &self,
        name: &str,
        lookup: impl Future<Output = io::Result<Vec<SocketAddr>>>,
    ) -> io::Result<Arc<[SocketAddr]>> {
        if let Some((asked, list)) = self.known.lock().expect("no panic while held").get(name)
            && asked.elapsed() < FRESH
        {
            return Ok(list.clone());
        }
        let list = lookup.await?;
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

/// Looks a name up as the system does.
async fn looked_up(name: &str) -> io::Result<Vec<SocketAddr>> {
    Ok(tokio::net::lookup_host((name, 0)).await?.collect())
}

impl Resolve for InTurn {
    fn resolve(&self, name: Name) -> Resolving {
        let names = self.clone();
        Box::pin(async move {
            let addrs: Addrs = Box::new(names.looked_up(name.as_str()).await?);
            Ok(addrs)
        })
    }
}

/// Resolves names for the connector of plain HTTP.
impl Service<ConnectName> for InTurn {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = Box<dyn std::error::Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: ConnectName) -> Self::Future {
        let names = self.clone();
        Box::pin(async move { names.looked_up(name.as_str()).await })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::consent::NotAllowed;

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
        let first = inner.addresses("localhost", looked_up("localhost")).await.unwrap();
        assert!(first.iter().all(|a| a.ip().is_loopback()));
        let second = inner.addresses("localhost", looked_up("localhost")).await.unwrap();
        assert!(Arc::ptr_eq(&first, &second));
    }

    /// A name that leads to this machine when the sweep begins, and to a public address afterwards.
    #[tokio::test(start_paused = true)]
    async fn a_name_that_changes_to_a_public_address_is_refused() {
        let gate = Gate::of_load([]);
        let names = InTurn::behind(gate.clone());
        let ask = async |address: &str| {
            let list = addrs(&[address]);
            names.resolved("rebinding.lan", async move { Ok(list) }).await
        };
        assert_eq!(ask("127.0.0.1").await.unwrap(), addrs(&["127.0.0.1"]));
        assert!(ask("203.0.113.7").await.is_ok_and(|known| known == addrs(&["127.0.0.1"])), "known for 5 s");
        assert!(gate.refused().is_none());
        tokio::time::sleep(FRESH).await;
        let refused = ask("203.0.113.7").await.unwrap_err();
        assert!(refused.is::<NotAllowed>(), "{refused}");
        assert_eq!(gate.refused().map(ToString::to_string), Some(refused.to_string()));
        assert!(ask("127.0.0.1").await.is_err(), "still the address that is known");
    }
}
