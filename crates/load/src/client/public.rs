//! Detects servers on the public internet, to which load must not be sent by mistake.

use super::proxy::proxy_for;
use goodput_core::endpoint::BaseUrl;
use goodput_plan::server::proxy::Proxy;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs};

/// The location of a server on the public internet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Public {
    /// A public address.
    Address(IpAddr),
    /// A name that only a proxy resolves, not this machine.
    Name(String),
}

impl fmt::Display for Public {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "the public address {address}"),
            Self::Name(name) => {
                write!(f, "a name that only a proxy resolves, and may be a public one ({name})")
            }
        }
    }
}

/// Returns the public location of a URL. Returns `None` for addresses of this machine and of private networks, Unix sockets, and names that do not
/// resolve here, unless a proxy is in front of them. Looks every name up, which takes as long as the system's resolver does: a name of one
/// label, or one that ends in `.lan`, may have a public address too.
pub fn public(url: &BaseUrl, proxy: &Proxy) -> Option<Public> {
    let resolve = |host: &str, port: u16| {
        (host, port).to_socket_addrs().map_or_else(|_| Vec::new(), |all| all.map(|a| a.ip()).collect())
    };
    public_by(url, resolve, || proxy_for(proxy, url).is_some())
}

fn public_by(
    url: &BaseUrl,
    resolve: impl FnOnce(&str, u16) -> Vec<IpAddr>,
    by_proxy: impl FnOnce() -> bool,
) -> Option<Public> {
    if url.socket().is_some() {
        return None;
    }
    let url = url.join("/");
    let host = url.host_str()?.trim_matches(['[', ']']).trim_end_matches('.');
    if let Ok(address) = host.parse::<IpAddr>() {
        return Some(address).filter(|a| is_public(*a)).map(Public::Address);
    }
    let port = url.port_or_known_default().unwrap_or(80);
    let addresses = resolve(host, port);
    if addresses.is_empty() {
        return by_proxy().then(|| Public::Name(host.to_owned()));
    }
    addresses.into_iter().find(|a| is_public(*a)).map(Public::Address)
}

/// Returns true if an address is routed on the public internet (RFC 6890 and its registries). Documentation addresses
/// count as public, since a plan that names one is a mistake.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => is_public_v4(v4),
            None => {
                !(v6.is_loopback()
                    || v6.is_unspecified()
                    || v6.is_unique_local()
                    || v6.is_unicast_link_local())
            }
        },
    }
}

fn is_public_v4(a: Ipv4Addr) -> bool {
    let [first, second, ..] = a.octets();
    // Shared address space of carriers (100.64.0.0/10), and network benchmarks (198.18.0.0/15).
    let shared = first == 100 && (64..128).contains(&second);
    let benchmarks = first == 198 && (18..20).contains(&second);
    !(a.is_loopback() || a.is_unspecified() || a.is_private() || a.is_link_local() || shared || benchmarks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (url, public) in [
            ("http://127.0.0.1:8000", false),
            ("http://127.8.9.1:8000", false),
            ("http://0.0.0.0:8000", false),
            ("http://[::1]:8000", false),
            ("http://10.1.2.3", false),
            ("http://172.16.0.1", false),
            ("http://172.31.255.1", false),
            ("http://172.32.0.1", true),
            ("http://192.168.7.1", false),
            ("http://169.254.1.1", false),
            ("http://100.64.0.1", false),
            ("http://100.127.9.9", false),
            ("http://100.128.0.1", true),
            ("http://198.19.0.1", false),
            ("https://8.8.8.8", true),
            ("http://203.0.113.7", true),
            ("http://[fd00::1]", false),
            ("http://[fe80::1]", false),
            ("http://[2001:4860:4860::8888]", true),
            ("http://[::ffff:10.0.0.1]", false),
            ("http://[::ffff:8.8.8.8]", true),
            ("unix:/run/vllm.sock", false),
        ] {
            let none = |_: &str, _| panic!("{url} is looked up");
            assert_eq!(public_by(&url.parse().unwrap(), none, || true).is_some(), public, "{url}");
        }
    }

    #[test]
    fn every_name_is_looked_up() {
        for host in
            ["localhost", "vllm", "gpu7.lan", "llm.internal", "vllm.prod.svc.cluster.local", "VLLM.Prod.SVC."]
        {
            let leads = |address: [u8; 4]| {
                let resolve = |_: &str, _| vec![IpAddr::from(address)];
                public_by(&format!("http://{host}:8000").parse().unwrap(), resolve, || false)
            };
            assert_eq!(leads([10, 0, 0, 1]), None, "{host}");
            assert_eq!(leads([203, 0, 113, 7]), Some(Public::Address([203, 0, 113, 7].into())), "{host}");
        }
    }

    /// Rows: the addresses of a name, whether a proxy is in front of it, and the expected location.
    #[test]
    fn names_are_looked_up_here_or_by_a_proxy() {
        let public = Some(Public::Address([8, 8, 8, 8].into()));
        let name = Some(Public::Name("api.example.com".into()));
        for (addresses, by_proxy, leads) in [
            (&[[10, 0, 0, 1], [8, 8, 8, 8]][..], false, &public),
            (&[[8, 8, 8, 8]], true, &public),
            (&[[10, 0, 0, 1]], true, &None),
            (&[], false, &None),
            (&[], true, &name),
        ] {
            let url = "https://api.example.com/v1".parse().unwrap();
            let resolve = |host: &str, port: u16| {
                assert_eq!((host, port), ("api.example.com", 443));
                addresses.iter().map(|a| IpAddr::from(*a)).collect()
            };
            assert_eq!(&public_by(&url, resolve, || by_proxy), leads, "{addresses:?}, {by_proxy}");
        }
    }
}
