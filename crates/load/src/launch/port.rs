//! Checks for a listener at a server's address.

use goodput_core::endpoint::BaseUrl;
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, sleep, timeout};

/// Connect timeout. A port that takes longer is filtered, not taken.
const CONNECT: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(50);

/// Returns true if something accepts connections at an address.
pub async fn answers(url: &BaseUrl) -> bool {
    if let Some(path) = url.socket() {
        return UnixStream::connect(path).await.is_ok();
    }
    let url = url.join("/");
    let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else { return false };
    let host = host.trim_matches(['[', ']']);
    matches!(timeout(CONNECT, TcpStream::connect((host, port))).await, Ok(Ok(_)))
}

/// Waits until nothing accepts connections at any of the addresses. Errors: the address that still does after `within`.
pub async fn closed(urls: &[BaseUrl], within: Duration) -> Result<(), &BaseUrl> {
    let deadline = Instant::now() + within;
    for url in urls {
        while answers(url).await {
            if Instant::now() >= deadline {
                return Err(url);
            }
            sleep(LOOK).await;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_open_port_answers_and_a_closed_one_does_not() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url: BaseUrl = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        assert!(answers(&url).await);
        let urls = std::slice::from_ref(&url);
        assert_eq!(closed(urls, Duration::from_millis(120)).await, Err(&url));
        drop(listener);
        assert_eq!(closed(urls, Duration::from_secs(5)).await, Ok(()));
        assert!(!answers(&"unix:/nowhere/at.sock".parse().unwrap()).await);
    }
}
