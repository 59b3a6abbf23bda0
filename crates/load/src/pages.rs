//! Serves pages over HTTP/1.1 to anyone who asks, without letting a connection that never finishes its request hold anything up.

use anyhow::{Context, Result};
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CACHE_CONTROL, HOST, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// Time within which the head of a request must be complete. An idle connection is closed after it too, later than clients close theirs.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause before accepting again after an error: descriptors have run out.
const AGAIN: Duration = Duration::from_millis(100);

/// Binds the address of a `--listen`, for [`serve`] on any runtime. Also returns the address with the port that it got.
///
/// # Errors
/// The address is in use, or does not belong to this machine.
pub fn bind(address: SocketAddr) -> Result<(std::net::TcpListener, SocketAddr)> {
    let context = || format!("--listen {address}: cannot listen there; name another port");
    let socket = std::net::TcpListener::bind(address).with_context(context)?;
    socket.set_nonblocking(true).with_context(context)?;
    let bound = socket.local_addr().with_context(context)?;
    Ok((socket, bound))
}

/// Serves a router until `end`; connections are tasks of the runtime, and end with it.
pub async fn serve(router: Router, listener: TcpListener, end: CancellationToken) {
    loop {
        let taken = tokio::select! {
            biased;
            () = end.cancelled() => return,
            taken = listener.accept() => taken,
        };
        match taken {
            Ok((stream, _)) => {
                tokio::spawn(connection(stream, router.clone(), end.clone()));
            }
            Err(_) => tokio::time::sleep(AGAIN).await,
        }
    }
}

/// Adds the headers that every page has: it is not kept, is what its type says, and names itself to nobody.
pub async fn guarded(request: Request, next: Next) -> Response {
    let mut answer = next.run(request).await;
    for (name, value) in
        [(CACHE_CONTROL, "no-store"), (X_CONTENT_TYPE_OPTIONS, "nosniff"), (REFERRER_POLICY, "no-referrer")]
    {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// Answers only requests that name this machine by a number or as `localhost`: a page on the web whose name was turned to this machine's
/// loopback address must not read what is served there.
pub async fn local_names_only(request: Request, next: Next) -> Response {
    let host = request.headers().get(HOST).and_then(|h| h.to_str().ok()).unwrap_or_default();
    let name = host
        .rsplit_once(':')
        .filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()))
        .map_or(host, |(n, _)| n);
    let is_number = name.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok();
    if is_number || name == "localhost" {
        return next.run(request).await;
    }
    (StatusCode::FORBIDDEN, "ask for this page at 127.0.0.1 or localhost").into_response()
}

async fn connection(stream: TcpStream, router: Router, end: CancellationToken) {
    let service = hyper::service::service_fn(move |request: http::Request<hyper::body::Incoming>| {
        router.clone().oneshot(request.map(Body::new))
    });
    let mut builder = Builder::new(TokioExecutor::new()).http1_only();
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    let mut served = pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        // An error of the connection is visible to the client.
        _ = served.as_mut() => return,
        () = end.cancelled() => {}
    }
    served.as_mut().graceful_shutdown();
    let _ = served.await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::Instant;

    async fn start() -> (TcpStream, CancellationToken) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let end = CancellationToken::new();
        let router = Router::new().route("/", get(async || "a page"));
        tokio::spawn(serve(router, listener, end.clone()));
        (TcpStream::connect(address).await.unwrap(), end)
    }

    #[tokio::test]
    async fn a_page_is_served() {
        let (mut stream, end) = start().await;
        stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("a page"), "{text}");
        end.cancel();
    }

    /// In simulated time.
    #[tokio::test(start_paused = true)]
    async fn half_a_head_is_dropped_after_ten_seconds() {
        for half in ["GET / HTTP/1.1\r\nhost: x\r\nx-slow: ", "G", "P"] {
            let (mut stream, _end) = start().await;
            let began = Instant::now();
            stream.write_all(half.as_bytes()).await.unwrap();
            let closed = stream.read(&mut [0; 64]).await;
            assert!(closed.is_err() || closed.is_ok_and(|n| n == 0), "{half}");
            assert!(
                (HEAD_TIMEOUT..2 * HEAD_TIMEOUT).contains(&began.elapsed()),
                "{half}: {:?}",
                began.elapsed()
            );
        }
    }
}
