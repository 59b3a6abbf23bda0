//! The receive lag: the time that bytes wait in a socket before the receiving runtime reads them.
//!
//! A thread writes its clock into a socket every ten milliseconds. The receiving runtime reads it as it reads answers:
//! one task takes the bytes from the socket and hands them to another, which timestamps them. Every timestamp of an
//! answer suffers the same delay. The clocks of the receiving thread are sampled too, to explain the delay: on a
//! single-threaded runtime, the sampler runs on the thread that sends and receives.

use super::thread_clock::{Share, ThreadClock};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const EVERY: Duration = Duration::from_millis(10);
/// Longest time between two beats of a thread that runs: without a stamp to read, it beats all the same.
const BEAT: Duration = Duration::from_millis(50);
/// Shortest time between two beats for which a thread counts as having stood still.
const STOOD_STILL: Duration = Duration::from_millis(100);
/// Number of stamps between two readings of the thread's clocks: ten readings per second, of some microseconds each.
const CLOCK_EVERY: usize = 10;

/// One sample of the lag, with its time since the start of sampling. It takes eight bytes because a soak of hours has
/// millions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    at_ms: u32,
    lag_us: u32,
}

impl Sample {
    /// Makes a sample of a lag observed at `at`, stored to the microsecond and the millisecond.
    pub fn new(at: Duration, lag: Duration) -> Self {
        let whole = |n: u128| u32::try_from(n).unwrap_or(u32::MAX);
        Self { at_ms: whole(at.as_millis()), lag_us: whole(lag.as_micros()) }
    }

    /// Returns the time of the sample since the start of sampling.
    pub fn at(self) -> Duration {
        Duration::from_millis(self.at_ms.into())
    }

    /// Returns the time that the bytes waited.
    pub fn lag(self) -> Duration {
        Duration::from_micros(self.lag_us.into())
    }
}

/// The samples of one receiving thread.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Samples {
    /// Every lag, in order.
    pub lags: Vec<Sample>,
    /// The thread's clocks, in order; counted as those of the samples.
    pub clocks: Vec<(Duration, ThreadClock)>,
    /// Stretches in which the thread did not run, in order.
    pub still: Vec<Range<Instant>>,
}

/// The delay that the client itself causes over a part of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct OwnDelay {
    /// 99th percentile of the receive lag, an order statistic; `None` without a sample.
    pub lag_p99: Option<Duration>,
    /// CPU time and waiting of the threads; `None` if unknown.
    pub share: Option<Share>,
}

impl OwnDelay {
    /// Returns the larger of each figure of two threads, or machines.
    pub fn worse(self, other: Self) -> Self {
        Self {
            lag_p99: self.lag_p99.max(other.lag_p99),
            share: self.share.into_iter().chain(other.share).reduce(Share::worse),
        }
    }
}

impl Samples {
    /// Records a beat of the thread, and that it stood still if the `last` one is long ago. Returns the time of the beat.
    fn beat_after(&mut self, last: Instant) -> Instant {
        let now = Instant::now();
        if now - last >= STOOD_STILL {
            self.still.push(last..now);
        }
        now
    }

    /// Returns the delay of this thread between two times since the start of sampling.
    pub fn between(&self, from: Duration, to: Duration) -> OwnDelay {
        let mut lags: Vec<Duration> =
            self.lags.iter().filter(|s| (from..to).contains(&s.at())).map(|s| s.lag()).collect();
        let rank = (lags.len() * 99).div_ceil(100);
        let lag_p99 = (rank > 0).then(|| *lags.select_nth_unstable(rank - 1).1);
        // The readings that enclose the interval, or else the nearest ones within it.
        let first = self.clocks.iter().rfind(|(at, _)| *at <= from).or_else(|| self.clocks.first());
        let last = self.clocks.iter().find(|(at, _)| *at >= to).or_else(|| self.clocks.last());
        OwnDelay { lag_p99, share: first.zip(last).and_then(|(a, b)| b.1.since(&a.1)) }
    }
}

/// Returns the delay of a client with several threads: the largest value of any thread, for each figure.
///
/// The samples are not pooled: one starved thread of eight delays one request in eight, far more than the 1 % that may
/// miss a p99 limit. Yet if the thread is slow in only a tenth of its samples, the pooled p99 looks as good as that of
/// the other seven threads. The largest value calls for a check of the verdict; it does not overturn it by itself.
pub fn worst(threads: &[Samples], from: Duration, to: Duration) -> OwnDelay {
    threads.iter().map(|t| t.between(from, to)).fold(OwnDelay::default(), OwnDelay::worse)
}

/// Returns the stretches in which no thread ran, in order: the whole client stood still. One slow thread of several is no halt.
pub fn halts(threads: &[Samples]) -> Vec<Range<Instant>> {
    let Some((first, others)) = threads.split_first() else { return Vec::new() };
    others.iter().fold(first.still.clone(), |common, thread| {
        let overlaps =
            common.iter().flat_map(|a| thread.still.iter().map(|b| a.start.max(b.start)..a.end.min(b.end)));
        overlaps.filter(|o| o.end.saturating_duration_since(o.start) >= STOOD_STILL).collect()
    })
}

/// Samples the lag on the calling runtime until `stop`. Returns every sample.
///
/// Fails if the system refuses a socket pair or a thread.
pub async fn sample(stop: CancellationToken) -> std::io::Result<Samples> {
    let (mut near, far) = UnixStream::pair()?;
    far.set_nonblocking(true)?;
    let mut far = tokio::net::UnixStream::from_std(far)?;
    let origin = Instant::now();
    std::thread::Builder::new().name("receive-lag".into()).spawn(move || {
        loop {
            let stamp = origin.elapsed().as_nanos() as u64;
            // The reading end is closed when the step is over.
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
    let mut samples = Samples::default();
    samples.clocks.push((origin.elapsed(), ThreadClock::now()));
    let mut beat = origin;
    loop {
        beat = samples.beat_after(beat);
        tokio::select! {
            () = tokio::time::sleep(BEAT) => {}
            () = stop.cancelled() => {
                reader.abort();
                samples.beat_after(beat);
                samples.clocks.push((origin.elapsed(), ThreadClock::now()));
                return Ok(samples);
            }
            stamp = stamps.recv() => {
                let now = origin.elapsed();
                let Some(stamp) = stamp else {
                    return reader.await.unwrap_or_else(|e| Err(std::io::Error::other(e))).map(|()| samples);
                };
                let written = Duration::from_nanos(u64::from_le_bytes(stamp));
                samples.lags.push(Sample::new(now, now.saturating_sub(written)));
                if samples.lags.len().is_multiple_of(CLOCK_EVERY) {
                    samples.clocks.push((now, ThreadClock::now()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_blocked_runtime_shows() {
        let late = |lags: &[Sample]| lags.iter().any(|l| l.lag() >= Duration::from_millis(40));
        let mut rounds = 0;
        // If the writing thread got no CPU time, there was nothing that could be late.
        let samples = loop {
            let stop = CancellationToken::new();
            let sampler = tokio::spawn(sample(stop.clone()));
            tokio::time::sleep(Duration::from_millis(50)).await;
            // Blocks the runtime, as if it were too busy to read its sockets.
            std::thread::sleep(Duration::from_millis(120));
            tokio::time::sleep(Duration::from_millis(30)).await;
            stop.cancel();
            let samples = sampler.await.unwrap().unwrap();
            if samples.lags.len() >= 5 && late(&samples.lags) && !samples.still.is_empty() {
                break samples;
            }
            rounds += 1;
            assert!(rounds < 100, "{:?}", samples.lags);
        };
        let still = |s: &Range<Instant>| s.end - s.start >= STOOD_STILL;
        assert!(samples.still.iter().all(still), "{:?}", samples.still);
        let all = samples.between(Duration::ZERO, Duration::from_secs(9));
        assert!(all.share.is_some_and(|s| s.busy < 0.9), "it slept for most of the time: {all:?}");
    }

    const SECOND: Duration = Duration::from_secs(1);

    /// A thread whose lag is so many µs in each of 100 samples a second, for three seconds; slow ones in the second
    /// second.
    fn thread(lag_us: u64, slow: usize) -> Samples {
        let sample = |i: usize| {
            let late = (100..100 + slow).contains(&i);
            let us = if late { 1_000 * lag_us } else { lag_us };
            Sample::new(SECOND / 100 * i as u32, Duration::from_micros(us))
        };
        Samples { lags: (0..300).map(sample).collect(), ..Samples::default() }
    }

    /// Rows: when each thread stood still, in tenths of a second, and when the client did.
    #[tokio::test(start_paused = true)]
    async fn the_client_stood_still_where_all_threads_did() {
        let origin = Instant::now();
        let at = |tenths: u32| origin + SECOND * tenths / 10;
        let spans = |of: &[(u32, u32)]| of.iter().map(|(a, b)| at(*a)..at(*b)).collect::<Vec<_>>();
        for (threads, want) in [
            (vec![vec![(10, 50), (70, 72)]], vec![(10, 50), (70, 72)]),
            (vec![vec![(10, 50), (70, 72)], vec![(12, 40)]], vec![(12, 40)]),
            (vec![vec![(10, 50)], vec![]], vec![]),
            (vec![vec![(10, 50)], vec![(10, 20), (30, 60)]], vec![(10, 20), (30, 50)]),
            (vec![], vec![]),
        ] {
            let samples = threads.iter().map(|t: &Vec<_>| Samples { still: spans(t), ..Samples::default() });
            assert_eq!(halts(&samples.collect::<Vec<_>>()), spans(&want), "{threads:?}");
        }
    }

    /// Rows: the case, the threads, the interval, and the p99 in µs.
    #[test]
    fn the_worst_thread_counts() {
        let us = Duration::from_micros;
        for (what, threads, from, to, want) in [
            ("one thread", vec![thread(50, 0)], 0, 3, Some(us(50))),
            ("one slow sample of 300", vec![thread(50, 1)], 0, 3, Some(us(50))), // rank 297
            ("four of 300", vec![thread(50, 4)], 0, 3, Some(us(50_000))),
            ("outside of the window", vec![thread(50, 90)], 2, 3, Some(us(50))),
            (
                "one slow thread of three",
                vec![thread(50, 0), thread(50, 4), thread(50, 0)],
                0,
                3,
                Some(us(50_000)),
            ),
            ("no sample in the window", vec![thread(50, 0)], 5, 9, None),
            (
                "a thread without a sample beside another",
                vec![Samples::default(), thread(50, 0)],
                0,
                3,
                Some(us(50)),
            ),
            ("no thread", vec![], 0, 3, None),
        ] {
            let delay = worst(&threads, SECOND * from, SECOND * to);
            assert_eq!((delay.lag_p99, delay.share), (want, None), "{what}");
        }
    }

    /// The share is computed from the readings that enclose the interval.
    #[tokio::test(start_paused = true)]
    async fn shares_are_of_the_window() {
        let mut samples = Samples::default();
        for i in 0..4_u32 {
            samples.clocks.push((SECOND * i, ThreadClock::now()));
            tokio::time::advance(SECOND).await;
        }
        let wall = |from: f64, to: f64| {
            let delay = samples.between(Duration::from_secs_f64(from), Duration::from_secs_f64(to));
            delay.share.is_some()
        };
        assert!(wall(0.5, 2.5) && wall(0.0, 9.0) && wall(2.2, 2.3));
        assert!(!wall(3.0, 3.0) && !wall(7.0, 9.0), "a single reading is no time");
    }
}
