//! Serves pages over HTTP/1.1 to anyone who asks, without letting a connection that never finishes its request hold anything up.

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::HOST;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use std::pin::pin;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// Time within which the head of a request must be complete. An idle connection is closed after it too, later than clients close theirs.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause before accepting again after an error: descriptors have run out.
const AGAIN: Duration = Duration::from_millis(100);

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
