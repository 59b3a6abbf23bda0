//! One page of a server's metrics, normalised across engines.

use super::engine::{Aggregation, Engine, Signal, Source, SourceKind};
use super::histogram::Histogram;
use super::latency::Latency;
use super::prometheus::{Sample, label, samples};
use serde_json::Value;

/// Upper bound of counts and seconds, single or summed: anything above is not a count of a real server.
pub(super) const MAX_VALUE: f64 = 1e15;
/// Largest number of engines that are counted.
const MAX_ENGINES: usize = 1_000;

/// A server's metrics at one moment. Counters count from its start.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// The engine that the server runs.
    pub engine: Engine,
    /// Number of engines (data-parallel ranks) of the server; at least one.
    pub engines: u32,
    values: [Option<f64>; Signal::ALL.len()],
    histograms: [Option<Histogram>; Latency::ALL.len()],
}

/// A counter went back between two readings: the server restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restarted;

impl Reading {
    /// Parses a page, in Prometheus' text format or TensorRT-LLM's JSON; `None` if it has no metrics of a known engine.
    ///
    /// Ignores values that are not a number, negative or above 10^15, single or summed, and shares above one.
    pub fn read(page: &str) -> Option<Self> {
        let page = page.trim_start_matches('\u{feff}').trim_start();
        if page.starts_with(['[', '{']) { json(page) } else { text(page) }
    }

    /// Returns a value; `None` if the server does not report it.
    pub fn value(&self, signal: Signal) -> Option<f64> {
        self.values[signal as usize]
    }

    /// Returns a histogram of latencies; `None` if the server does not report it.
    pub fn histogram(&self, latency: Latency) -> Option<&Histogram> {
        self.histograms[latency as usize].as_ref()
    }

    /// Returns the requests in the server, running and waiting. If only one of the two gauges is missing, it counts as zero.
    pub fn in_server(&self) -> Option<f64> {
        let (running, waiting) = (self.value(Signal::Running), self.value(Signal::Waiting));
        (running.is_some() || waiting.is_some()).then(|| running.unwrap_or(0.0) + waiting.unwrap_or(0.0))
    }

    /// Returns the share of looked-up prompt tokens that were found in the prefix cache; `None` if none were looked up.
    pub fn hit_rate(&self) -> Option<f64> {
        let queries = self.value(Signal::Queries).filter(|q| *q > 0.0);
        let counted = queries.zip(self.value(Signal::Hits)).map(|(q, hits)| (hits / q).clamp(0.0, 1.0));
        counted.or_else(|| self.value(Signal::HitRate).filter(|_| self.value(Signal::Queries).is_none()))
    }

    /// Adds the metrics of another server; those that only one of them reports become unknown.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let values = std::array::from_fn(|i| {
            let (a, b) = self.values[i].zip(other.values[i])?;
            Some(match Signal::ALL[i] {
                Signal::KvUse => a.max(b),
                Signal::HitRate | Signal::AcceptedLength | Signal::AcceptedShare => 0.5 * (a + b),
                Signal::Running
                | Signal::Waiting
                | Signal::Preemptions
                | Signal::Queries
                | Signal::Hits
                | Signal::PromptTokens
                | Signal::GenerationTokens
                | Signal::Finished
                | Signal::Drafts
                | Signal::DraftTokens
                | Signal::AcceptedTokens => a + b,
            })
        });
        let histograms = std::array::from_fn(|i| {
            let (a, b) = (self.histograms[i].as_ref()?, other.histograms[i].as_ref()?);
            Some(a.and(b))
        });
        Self { engine: self.engine, engines: self.engines + other.engines, values, histograms }
    }

    /// Returns what was counted since an earlier reading of the same server; gauges keep their current value.
    ///
    /// # Errors
    /// A counter went back, or the engine is another one.
    pub fn since(&self, earlier: &Self) -> Result<Self, Restarted> {
        if self.engine != earlier.engine {
            return Err(Restarted);
        }
        let mut gone = self.clone();
        for signal in Signal::ALL.into_iter().filter(|s| s.is_counter()) {
            let i = signal as usize;
            gone.values[i] = match self.values[i].zip(earlier.values[i]) {
                Some((now, then)) if now < then => return Err(Restarted),
                both => both.map(|(now, then)| now - then),
            };
        }
        for (i, histogram) in gone.histograms.iter_mut().enumerate() {
            *histogram = match (self.histograms[i].as_ref(), earlier.histograms[i].as_ref()) {
                (Some(now), Some(then)) => Some(now.since(then).ok_or(Restarted)?),
                _ => None,
            };
        }
        Ok(gone)
    }

    fn of(engine: Engine) -> Self {
        Self { engine, engines: 1, values: [None; Signal::ALL.len()], histograms: Default::default() }
    }

    /// Sets a value that is plausible and not known yet.
    fn set(&mut self, signal: Signal, value: Option<f64>) {
        let sane = |v: &f64| (0.0..=MAX_VALUE).contains(v) && (!signal.is_share() || *v <= 1.0 + 1e-9);
        let slot = &mut self.values[signal as usize];
        *slot = slot.or(value.filter(sane));
    }

    fn is_empty(&self) -> bool {
        self.values.iter().all(Option::is_none) && self.histograms.iter().all(Option::is_none)
    }
}

/// Samples of one source on the page so far.
#[derive(Debug, Clone, Default)]
struct SourceSamples {
    /// Index of the source's name under which they were found; an earlier name takes precedence.
    rank: usize,
    value: Option<f64>,
    histogram: Histogram,
}

fn text(page: &str) -> Option<Reading> {
    let mut found: Vec<Vec<Option<SourceSamples>>> =
        Engine::ALL.iter().map(|e| vec![None; e.sources().len()]).collect();
    let mut engines: Vec<&str> = Vec::new();
    for sample in samples(page).filter(|s| (0.0..=MAX_VALUE).contains(&s.value)) {
        let Some((engine, name)) = Engine::of_name(sample.name) else { continue };
        for (source, found) in engine.sources().iter().zip(&mut found[engine as usize]) {
            add_sample(source, found, name, &sample);
        }
        if let Some(id) = label(sample.labels, "engine").or_else(|| label(sample.labels, "dp_rank"))
            && engines.len() < MAX_ENGINES
            && !engines.contains(&id)
        {
            engines.push(id);
        }
    }
    let all = Engine::ALL.into_iter().zip(found);
    all.map(|(engine, found)| combine(engine, &found)).find(|reading| !reading.is_empty()).map(
        |mut reading| {
            reading.engines = engines.len().max(1) as u32;
            reading
        },
    )
}

/// Adds a sample to those of a source, if it belongs to it.
fn add_sample(source: &Source, found: &mut Option<SourceSamples>, name: &str, sample: &Sample<'_>) {
    let histogram = matches!(source.what, SourceKind::Histogram(_));
    let base = if histogram { histogram_part(name).map_or(name, |(base, _)| base) } else { name };
    let Some(rank) = source.rank(base, sample.labels) else { return };
    // Ranks other than the first work on the same requests.
    let again = |key| label(sample.labels, key).is_some_and(|rank| rank != "0");
    if source.how == Aggregation::Sum && ["tp_rank", "pp_rank", "moe_ep_rank"].into_iter().any(again) {
        return;
    }
    if found.as_ref().is_none_or(|f| rank < f.rank) {
        *found = Some(SourceSamples { rank, ..SourceSamples::default() });
    }
    let Some(f) = found.as_mut().filter(|f| f.rank == rank) else { return };
    if histogram {
        if let Some((_, part)) = histogram_part(name) {
            f.histogram.add(part, label(sample.labels, "le"), sample.value);
        }
    } else {
        f.value = Some(match (source.how, f.value) {
            (_, None) => sample.value,
            (Aggregation::Sum, Some(sum)) => sum + sample.value,
            (Aggregation::Max, Some(most)) => most.max(sample.value),
        });
    }
}

/// Splits the name of a histogram's sample into the histogram and the part of it.
fn histogram_part(name: &str) -> Option<(&str, &str)> {
    name.rsplit_once('_').filter(|(_, part)| ["sum", "count", "bucket"].contains(part))
}

/// Combines the samples of all sources of an engine.
fn combine(engine: Engine, found: &[Option<SourceSamples>]) -> Reading {
    let mut reading = Reading::of(engine);
    let (mut used, mut all, mut missed) = (None, None, None);
    for (source, found) in engine.sources().iter().zip(found) {
        let Some(found) = found else { continue };
        match source.what {
            SourceKind::Value(signal) => reading.set(signal, found.value),
            SourceKind::Used => used = found.value,
            SourceKind::All => all = found.value,
            SourceKind::Missed => missed = found.value,
            SourceKind::Histogram(latency) => {
                reading.histograms[latency as usize] = found.histogram.clone().validated();
            }
        }
    }
    reading.set(Signal::KvUse, used.zip(all).filter(|(_, all)| *all > 0.0).map(|(used, all)| used / all));
    let asked = missed.zip(reading.value(Signal::Hits)).map(|(missed, hits)| missed + hits);
    reading.set(Signal::Queries, asked);
    if engine == Engine::LlamaCpp {
        // Builds without a count of cached tokens report computed tokens only.
        reading.set(Signal::PromptTokens, asked);
    }
    reading
}

/// Parses TensorRT-LLM's own page: the iterations since the last request, the newest last; none while it is idle.
fn json(page: &str) -> Option<Reading> {
    let page: Value = serde_json::from_str(page).ok()?;
    let mut reading = Reading::of(Engine::TensorRtLlm);
    let newest = match &page {
        Value::Array(all) if all.is_empty() => return Some(reading),
        Value::Array(all) => all.last()?,
        other => other,
    };
    let at = |path: &str| newest.pointer(path).and_then(Value::as_f64);
    reading.set(Signal::Running, at("/numActiveRequests"));
    reading.set(Signal::Waiting, at("/numQueuedRequests"));
    let blocks = at("/kvCacheStats/usedNumBlocks").zip(at("/kvCacheStats/maxNumBlocks"));
    reading.set(Signal::KvUse, blocks.filter(|(_, all)| *all > 0.0).map(|(used, all)| used / all));
    reading.set(Signal::HitRate, at("/kvCacheStats/cacheHitRate"));
    (!reading.is_empty()).then_some(reading)
}

#[cfg(test)]
#[path = "reading_tests.rs"]
mod tests;
