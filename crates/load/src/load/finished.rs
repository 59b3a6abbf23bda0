//! The finished requests of a load, on their way to the director.

use goodput_core::record::Finished;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::sleep;

/// Number of finished requests that may wait for the director. Further ones wait in their own tasks, never in the sending loop.
const WAITING: usize = 1 << 16;

/// Time that requests are left to gather while none is there. A request that finishes while nobody waits for it wakes no thread: at
/// thousands of requests a second a wake-up for each would cost a tenth of the client's CPU time. One millisecond is also the resolution of
/// the runtime's timers.
const GATHER: Duration = Duration::from_millis(1);

/// The receiving end of the finished requests of a load, in the order in which they finished.
#[derive(Debug)]
pub struct FinishedRequests {
    requests: mpsc::Receiver<Finished>,
    /// False in simulated time, in which waiting would be part of the result.
    gathers: bool,
}

impl FinishedRequests {
    /// Makes both ends for a load, in real or in simulated time.
    pub(crate) fn channel(is_simulated_time: bool) -> (mpsc::Sender<Finished>, Self) {
        let (sender, requests) = mpsc::channel(WAITING);
        (sender, Self { requests, gathers: !is_simulated_time })
    }

    /// Returns the next request that is over; `None` when all are. Nothing is lost if the caller stops waiting.
    pub async fn recv(&mut self) -> Option<Finished> {
        self.gather().await;
        self.requests.recv().await
    }

    /// Appends the next requests that are over, `limit` at most, and returns their number: 0 when all are over. Nothing is lost if the caller
    /// stops waiting.
    pub async fn recv_many(&mut self, into: &mut Vec<Finished>, limit: usize) -> usize {
        self.gather().await;
        self.requests.recv_many(into, limit).await
    }

    async fn gather(&self) {
        if self.gathers && self.requests.is_empty() && !self.requests.is_closed() {
            sleep(GATHER).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_core::record::{Phase, Record};
    use tokio::time::Instant;

    fn request(id: u64) -> Finished {
        Finished::new(Record::due(id, Phase::Measure, Duration::ZERO), Vec::new())
    }

    /// Rows: if time is simulated, and how many of two requests that finish one after the other arrive at once.
    #[tokio::test(start_paused = true)]
    async fn requests_gather_in_real_time_only() {
        for (is_simulated, at_once) in [(true, 1), (false, 2)] {
            let (sender, mut finished) = FinishedRequests::channel(is_simulated);
            let sending = tokio::spawn(async move {
                for id in 0..2 {
                    sender.send(request(id)).await.unwrap();
                    tokio::task::yield_now().await;
                }
            });
            let mut all = Vec::new();
            assert_eq!(finished.recv_many(&mut all, 10).await, at_once, "{is_simulated}");
            sending.await.unwrap();
            while let Some(request) = finished.recv().await {
                all.push(request);
            }
            assert_eq!(all.iter().map(|f| f.record.id).collect::<Vec<_>>(), [0, 1]);
            let over = Instant::now();
            assert_eq!(finished.recv_many(&mut all, 10).await, 0);
            assert_eq!(over.elapsed(), Duration::ZERO, "the end is not waited for");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_stops_waiting_loses_nothing() {
        let (sender, mut finished) = FinishedRequests::channel(false);
        let timeout = Duration::from_micros(100);
        assert!(tokio::time::timeout(timeout, finished.recv()).await.is_err());
        sender.send(request(7)).await.unwrap();
        let mut all = Vec::new();
        assert_eq!(finished.recv_many(&mut all, 10).await, 1);
        assert_eq!(all[0].record.id, 7);
    }
}
