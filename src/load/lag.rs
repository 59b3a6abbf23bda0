//! The receive lag: how long bytes lie in a socket before the runtime that receives answers looks at them.
//!
//! A thread writes its clock into a socket of its own every ten milliseconds. The receiving runtime reads it as it reads
//! answers: one task takes the bytes from the socket and hands them to another, which stamps them. What passes between is
//! what every timestamp of an answer suffers as well.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const EVERY: Duration = Duration::from_millis(10);

/// One sample: when it was taken, counted from the start of sampling, and the lag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// When.
    pub at: Duration,
    /// How long the bytes had lain there.
    pub lag: Duration,
}

/// Samples the lag on the calling runtime until `stop`; returns every sample.
///
/// Fails if the system gives no socket pair or thread.
pub async fn sample(stop: CancellationToken) -> std::io::Result<Vec<Sample>> {
    let (mut near, far) = UnixStream::pair()?;
    far.set_nonblocking(true)?;
    let mut far = tokio::net::UnixStream::from_std(far)?;
    let origin = Instant::now();
    std::thread::Builder::new().name("receive-lag".into()).spawn(move || {
        loop {
            let stamp = origin.elapsed().as_nanos() as u64;
            // The reading end closes when the step is over.
            if near.write_all(&stamp.to_le_bytes()).is_err() {
                return;
            }
            std::thread::sleep(EVERY);
        }
    })?;
    let (hand, mut stamps) = mpsc::channel(16);
    let reader = tokio::spawn(async move {
        let mut stamp = [0u8; 8];
        loop {
            far.read_exact(&mut stamp).await?;
            if hand.send(stamp).await.is_err() {
                return Ok::<(), std::io::Error>(());
            }
        }
    });
    let mut lags = Vec::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => {
                reader.abort();
                return Ok(lags);
            }
            stamp = stamps.recv() => {
                let now = origin.elapsed();
                let Some(stamp) = stamp else {
                    return reader.await.unwrap_or_else(|e| Err(std::io::Error::other(e))).map(|()| lags);
                };
                let written = Duration::from_nanos(u64::from_le_bytes(stamp));
                lags.push(Sample { at: now, lag: now.saturating_sub(written) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_blocked_runtime_shows() {
        let stop = CancellationToken::new();
        let sampler = tokio::spawn(sample(stop.clone()));
        tokio::time::sleep(Duration::from_millis(50)).await;
        // What a runtime that is too busy does to its sockets.
        std::thread::sleep(Duration::from_millis(60));
        tokio::time::sleep(Duration::from_millis(30)).await;
        stop.cancel();
        let lags = sampler.await.unwrap().unwrap();
        assert!(lags.len() >= 5, "{lags:?}");
        assert!(lags.iter().any(|l| l.lag >= Duration::from_millis(40)), "{lags:?}");
    }
}
