//! A socket that notes when it was read from.

use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// The time at which a socket was last read from. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct LastRead {
    opened: Instant,
    /// Nanoseconds from `opened` to the last read; 0 before the first one.
    after: Arc<AtomicU64>,
}

impl Default for LastRead {
    fn default() -> Self {
        Self { opened: Instant::now(), after: Arc::default() }
    }
}

impl LastRead {
    /// Returns the time of the last read that had bytes.
    pub(super) fn get(&self) -> Option<Instant> {
        let after = self.after.load(Relaxed);
        (after > 0).then(|| self.opened + Duration::from_nanos(after))
    }

    /// Returns the time at which the socket was opened.
    #[cfg(test)]
    pub(super) const fn opened(&self) -> Instant {
        self.opened
    }

    fn note(&self) {
        let after = u64::try_from(self.opened.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.after.store(after.max(1), Relaxed);
    }
}

/// A socket that notes when it was read from.
pub(super) struct Stamped<S> {
    socket: S,
    last_read: LastRead,
}

impl<S> Stamped<S> {
    pub(super) fn new(socket: S, last_read: LastRead) -> Self {
        Self { socket, last_read }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stamped<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.socket).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.last_read.note();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stamped<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, pieces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::{advance, sleep};

    #[tokio::test(start_paused = true)]
    async fn the_last_read_with_bytes_is_noted() {
        let (mut far, near) = tokio::io::duplex(64);
        let (opened, read) = (Instant::now(), LastRead::default());
        let mut near = Stamped::new(near, read.clone());
        let mut buffer = [0; 8];
        assert_eq!(read.get(), None);
        for at in [10, 30] {
            advance(Duration::from_millis(at) - opened.elapsed()).await;
            far.write_all(b"data").await.unwrap();
            assert_eq!(near.read(&mut buffer).await.unwrap(), 4);
            sleep(Duration::from_millis(5)).await;
            assert_eq!(read.get(), Some(opened + Duration::from_millis(at)));
        }
        drop(far);
        assert_eq!(near.read(&mut buffer).await.unwrap(), 0);
        assert_eq!(read.get(), Some(opened + Duration::from_millis(30)), "the end has no bytes");
    }
}
