//! Serves a router on a TCP socket. Faults can refuse, close or reset connections from within a request.

use crate::pages::HEAD_TIMEOUT;
use axum::{Router, body::Body};
use goodput_engine::fault::FaultInjector;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
};
use std::{
    future::Future,
    io,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::Notify,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt;

/// Pause before accepting again after an error: descriptors have run out.
const AGAIN: Duration = Duration::from_millis(100);

/// Number of bytes of the preface of HTTP/2, which tell it from HTTP/1.1.
const PREFACE: usize = 24;

const SOUND: u8 = 0;
const CLOSED: u8 = 1;
const RESET: u8 = 2;

/// Handle by which a request can break its connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConnectionHandle(Arc<State>);

#[derive(Debug, Default)]
struct State {
    end: AtomicU8,
    leave: Notify,
    /// Number of bytes read, up to [`PREFACE`].
    read: AtomicUsize,
    /// True once a request has arrived.
    asked: AtomicBool,
}

impl ConnectionHandle {
    /// Closes the connection in order, without writing anything more.
    pub(super) fn close(&self) {
        self.0.end.store(CLOSED, Ordering::Release);
    }

    /// Resets the connection.
    pub(super) fn reset(&self) {
        self.0.end.store(RESET, Ordering::Release);
    }

    /// Announces that the connection takes no further request, and closes it after the answers in progress.
    pub(super) fn leave(&self) {
        self.0.leave.notify_one();
    }

    /// Returns true if the connection has not even told its version of HTTP.
    fn is_mute(&self) -> bool {
        !self.0.asked.load(Ordering::Acquire) && self.0.read.load(Ordering::Acquire) < PREFACE
    }

    fn ended(&self) -> io::Result<()> {
        match self.0.end.load(Ordering::Acquire) {
            SOUND => Ok(()),
            _ => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }
}

/// Serves until `shutdown` completes, then lets open streams finish for at most `grace`. Every request has its [`ConnectionHandle`]
/// among its extensions.
pub(crate) async fn serve(
    router: Router,
    injector: Arc<FaultInjector>,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send,
    grace: Duration,
) {
    let (open, stop) = (TaskTracker::new(), CancellationToken::new());
    let mut shutdown = pin!(shutdown);
    loop {
        let taken = tokio::select! {
            biased;
            () = &mut shutdown => break,
            taken = listener.accept() => taken,
        };
        match taken {
            // Nothing was read; closing with a reset notifies the client at once.
            Ok((stream, _)) if injector.refuses_next_connection() => {
                drop(BreakableStream { stream, handle: reset() })
            }
            Ok((stream, _)) => {
                open.spawn(connection(stream, router.clone(), stop.clone()));
            }
            Err(error) => {
                tracing::warn!("the simulated server could not take a connection: {error}");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
    drop(listener);
    stop.cancel();
    open.close();
    let _ = tokio::time::timeout(grace, open.wait()).await;
}

fn reset() -> ConnectionHandle {
    let handle = ConnectionHandle::default();
    handle.reset();
    handle
}

async fn connection(stream: TcpStream, router: Router, stop: CancellationToken) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::warn!("no TCP_NODELAY on a connection of the simulated server: {error}");
    }
    let handle = ConnectionHandle::default();
    let state = handle.0.clone();
    let io = TokioIo::new(BreakableStream { stream, handle: handle.clone() });
    let opened = handle.clone();
    let service = hyper::service::service_fn(move |mut request: http::Request<hyper::body::Incoming>| {
        handle.0.asked.store(true, Ordering::Release);
        request.extensions_mut().insert(handle.clone());
        router.clone().oneshot(request.map(Body::new))
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    let mut served = pin!(builder.serve_connection(io, service));
    // The timeout of heads begins once the version is known.
    let mut version = pin!(tokio::time::sleep(HEAD_TIMEOUT));
    let (mut leaves, mut waited) = (false, false);
    loop {
        tokio::select! {
            biased;
            // An error of the connection is visible to the client.
            _ = served.as_mut() => return,
            () = version.as_mut(), if !waited => {
                if opened.is_mute() {
                    return;
                }
                waited = true;
                continue;
            }
            () = state.leave.notified(), if !leaves => {}
            () = stop.cancelled(), if !leaves => {}
        }
        leaves = true;
        served.as_mut().graceful_shutdown();
    }
}

/// A connection that fails, and is closed, as its [`ConnectionHandle`] demands.
struct BreakableStream {
    stream: TcpStream,
    handle: ConnectionHandle,
}

impl Drop for BreakableStream {
    fn drop(&mut self) {
        if self.handle.0.end.load(Ordering::Acquire) == RESET {
            // If this fails, the connection is gone already.
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for BreakableStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.handle.ended()?;
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let read = &self.handle.0.read;
        if read.load(Ordering::Relaxed) < PREFACE {
            read.fetch_add(buffer.filled().len() - before, Ordering::Release);
        }
        polled
    }
}

impl AsyncWrite for BreakableStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.handle.ended()?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.handle.ended()?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.handle.ended()?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
