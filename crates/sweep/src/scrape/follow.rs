//! Reading the metrics of one step, from its start until all of its requests have finished.

use super::{ExtraPage, PATIENCE, Page, Scraper, read_all};
use anyhow::{Context, Result};
use goodput_run::rundir::Sample;
use goodput_stats::server::selected::{Selected, SeriesSums, select};
use goodput_stats::server::watch::{ObservedWindow, Watch, since};
use goodput_stats::server::{Latency, Reading, Signal};
use goodput_stats::stats::step::MetricRow;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// Capacity of the channel to the director, in values; further values are dropped from `server-metrics.csv`.
const ROOM: usize = 1 << 14;

/// The readings of a running step.
pub(crate) struct Following {
    samples: mpsc::Receiver<Sample>,
    /// End of the window, from the start of the step, as currently planned.
    end: watch::Sender<Duration>,
    stop: CancellationToken,
    own: Option<JoinHandle<Watch>>,
    extra: Vec<JoinHandle<(String, SeriesSums)>>,
}

/// All readings of a step.
#[derive(Default)]
pub(crate) struct MetricsRead {
    watch: Option<Watch>,
    extra: Vec<(String, SeriesSums)>,
}

impl Scraper {
    /// Starts to read metrics at the start of a step, `settle` before its window. `before` is the reading of the
    /// servers just before it.
    pub(crate) fn follow(
        &self,
        began: Instant,
        settle: Duration,
        end: Duration,
        before: Option<Vec<Reading>>,
    ) -> Following {
        let (send, samples) = mpsc::channel(ROOM);
        let (end, ends) = watch::channel(end);
        let stop = CancellationToken::new();
        let mut clock = Clock { began, settle, interval: self.interval, ends, stop: stop.clone() };
        let out = SampleSender { began, samples: send };
        let own = (!self.own.is_empty()).then(|| {
            let (pages, ailing) = (self.own.clone(), self.ailing.clone());
            self.host.spawn(follow_own(pages, ailing, clock.clone(), out.clone(), Watch::new(settle, before)))
        });
        let extra = self.extra.iter().map(|extra| {
            clock.interval = extra.interval;
            self.host.spawn(follow_extra(extra.clone(), clock.clone(), out.clone()))
        });
        Following { samples, end, stop, own, extra: extra.collect() }
    }
}

impl Following {
    /// Updates the end of the window.
    pub(crate) fn until(&self, end: Duration) {
        self.end.send_if_modified(|old| std::mem::replace(old, end) != end);
    }

    /// Returns the samples read since the last call.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = Sample> {
        std::iter::from_fn(|| self.samples.try_recv().ok())
    }

    /// Stops reading, without waiting for a page that hangs.
    pub(crate) async fn ended(self) -> Result<MetricsRead> {
        const FAILED: &str = "the reading of metrics has failed";
        self.stop.cancel();
        let watch = match self.own {
            Some(own) => Some(own.await.context(FAILED)?),
            None => None,
        };
        let mut extra = Vec::new();
        for one in self.extra {
            extra.push(one.await.context(FAILED)?);
        }
        Ok(MetricsRead { watch, extra })
    }
}

impl MetricsRead {
    /// Returns the servers' metrics over a part of the step.
    pub(crate) fn over(&self, window: &Range<Duration>) -> Option<ObservedWindow> {
        self.watch.as_ref()?.over(window)
    }

    /// Returns the change of the servers' counters from the beginning of the window until now, and the time of the
    /// reading at its beginning. `None` without such a reading.
    pub(crate) fn since_start(&self, now: &[Reading]) -> Option<(Duration, Reading)> {
        let (at, start) = self.watch.as_ref()?.at_start()?;
        Some((at, since(start, now)?))
    }

    /// Returns the series of `[[metrics]]` over the window.
    pub(crate) fn rows(&self) -> Vec<MetricRow> {
        let all = self.extra.iter().flat_map(|(source, sums)| sums.summaries().map(move |s| (source, s)));
        all.map(|(source, (name, labels, s))| {
            let of = |i: usize| (!s.counter).then_some(s.range[i]);
            MetricRow {
                source: source.clone(),
                name: name.to_owned(),
                labels: labels.to_owned(),
                n: u64::from(s.n),
                min: of(0),
                mean: of(1),
                max: of(2),
                per_s: s.per_s,
            }
        })
        .collect()
    }
}

/// The schedule for reading the pages of a step.
#[derive(Clone)]
struct Clock {
    began: Instant,
    settle: Duration,
    interval: Duration,
    ends: watch::Receiver<Duration>,
    stop: CancellationToken,
}

impl Clock {
    /// Waits until the next reading is due: at the beginning of the window, a whole number of intervals before and
    /// after it, and at its end. Then sets `next` to the time of the following one. Returns `None` when the step is
    /// over.
    async fn next(&mut self, next: &mut Duration) -> Option<()> {
        loop {
            let end = *self.ends.borrow_and_update();
            let now = self.began.elapsed();
            let at = if now < end { end.min(*next) } else { *next };
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return None,
                moved = self.ends.changed() => {
                    moved.ok()?;
                    continue;
                }
                () = sleep_until(self.began + at) => {}
            }
            // After a slow reading, skip those that are already past.
            let now = self.began.elapsed().max(at);
            while *next <= now {
                *next += self.interval;
            }
            return Some(());
        }
    }

    /// Returns the time of the first reading that is not before the start of the step.
    fn first(&self) -> Duration {
        let steps = self.settle.as_nanos() / self.interval.as_nanos().max(1);
        self.settle.saturating_sub(self.interval * u32::try_from(steps).unwrap_or(u32::MAX))
    }
}

/// Sends values to the director.
#[derive(Clone)]
struct SampleSender {
    began: Instant,
    samples: mpsc::Sender<Sample>,
}

impl SampleSender {
    fn put(&self, at: Duration, source: &str, name: impl Into<String>, value: f64) {
        let time_s = (at.as_secs_f64() * 1e3).round() / 1e3;
        // Values are dropped if the director is far behind: reading must not wait for it.
        let _ = self.samples.try_send(Sample { time_s, name: name.into(), value, source: source.to_owned() });
    }

    fn reading(&self, at: Duration, source: &str, reading: &Reading) {
        for signal in Signal::ALL {
            if let Some(value) = reading.value(signal) {
                self.put(at, source, signal.name(), value);
            }
        }
        for latency in Latency::ALL {
            if let Some(h) = reading.histogram(latency) {
                let [sum, count] = latency.names();
                self.put(at, source, sum, h.sum);
                self.put(at, source, count, h.count);
            }
        }
    }
}

async fn follow_own(
    pages: Arc<[Page]>,
    ailing: Arc<AtomicBool>,
    mut clock: Clock,
    out: SampleSender,
    mut watch: Watch,
) -> Watch {
    let mut next = clock.first();
    while clock.next(&mut next).await.is_some() {
        let stop = clock.stop.clone();
        let read = tokio::select! {
            biased;
            // The page hangs, so the next reading waits for a shorter time.
            () = stop.cancelled() => {
                ailing.store(true, Relaxed);
                break;
            }
            read = read_all(&pages, out.began, PATIENCE) => read,
        };
        let (together, each) = read;
        for (i, (at, reading)) in each.iter().enumerate().filter_map(|(i, r)| Some((i, r.as_ref()?))) {
            out.reading(*at, &i.to_string(), reading);
        }
        ailing.store(together.is_none(), Relaxed);
        if let Some((at, readings)) = together {
            let end = *clock.ends.borrow();
            watch.add(at, readings, end);
        }
    }
    watch
}

async fn follow_extra(extra: ExtraPage, mut clock: Clock, out: SampleSender) -> (String, SeriesSums) {
    let (mut sums, mut next) = (SeriesSums::default(), clock.first());
    while clock.next(&mut next).await.is_some() {
        let (stop, asked) = (clock.stop.clone(), out.began.elapsed());
        let page = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            page = extra.page.fetch(PATIENCE) => page,
        };
        let at = (asked + out.began.elapsed()) / 2;
        let Ok(page) = page else { continue };
        let mut all = select(&page, &extra.series);
        for selected in &mut all {
            selected.labels = extra.page.redacted(&selected.labels);
        }
        for Selected { name, labels, value, .. } in &all {
            let name = if labels.is_empty() { name.clone() } else { format!("{name}{{{labels}}}") };
            out.put(at, &extra.title, name, *value);
        }
        let end = *clock.ends.borrow();
        if (clock.settle..=end + clock.interval / 2).contains(&at) {
            sums.add(at, &all);
        }
    }
    (extra.title, sums)
}
