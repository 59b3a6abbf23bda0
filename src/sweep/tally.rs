//! What the director counts while requests of a step come home.

use crate::caveat::Caveat;
use crate::record::{Failure, Finished, Outcome, Phase, Record, TokenSource};
use crate::slo::{Judged, Limit, Slo};
use crate::stats::itl::ItlTally;
use crate::stats::verdict::{GROSS, GROSS_INFLATION, gross};
use crate::units::ms;
use hdrhistogram::Histogram;
use std::time::Duration;

/// So many failures in a row, every one of them to connect, raise the question whether the server is still there …
const GONE: u32 = 10;
/// … or fewer, when no other answer came for so long.
const GONE_FEW: u32 = 3;
const GONE_AFTER: Duration = Duration::from_secs(5);
/// So many requests, all failed, end a step.
const ALL_FAILED: u64 = 50;

/// The requests of one step that are home.
pub(crate) struct StepTally {
    pub(crate) records: Vec<Record>,
    pub(crate) itl: ItlTally,
    limits: Vec<Limit>,
    /// TTFT of measured requests in microseconds, for the progress line.
    ttft: Histogram<u64>,
    good: u64,
    /// Failures to connect since the last answer, and when the first of them was due.
    unreachable: (u32, Duration),
}

impl StepTally {
    /// For a step judged by these tiers; the first one decides whether to end it early.
    pub(crate) fn new(tiers: &[Slo]) -> Self {
        Self {
            records: Vec::new(),
            itl: ItlTally::new(tiers),
            limits: tiers.first().map(Slo::limits).unwrap_or_default(),
            ttft: Histogram::new(3).expect("three significant digits are allowed"),
            good: 0,
            unreachable: (0, Duration::ZERO),
        }
    }

    /// Counts one request and keeps its record.
    pub(crate) fn add(&mut self, finished: Finished) {
        let r = &finished.record;
        self.good += u64::from(r.ok());
        if r.phase == Phase::Measure {
            self.itl.add(&finished);
            if let Some(ttft) = r.ttft() {
                self.ttft.saturating_record(ttft.as_micros() as u64);
            }
        }
        match r.failure {
            Some(Failure::Connect | Failure::Dns) => {
                if self.unreachable.0 == 0 {
                    self.unreachable.1 = r.due;
                }
                self.unreachable.0 += 1;
            }
            _ if r.outcome != Outcome::Cut => self.unreachable.0 = 0,
            _ => {}
        }
        self.records.push(finished.record);
    }

    /// Requests that are home.
    pub(crate) fn home(&self) -> u64 {
        self.records.len() as u64
    }

    /// Whether the last answers were all failures to connect, so that somebody should ask if the server is there.
    pub(crate) fn seems_gone(&self) -> bool {
        let (n, since) = self.unreachable;
        let last = self.records.last().map_or(Duration::ZERO, |r| r.end);
        n >= GONE || (n >= GONE_FEW && last.saturating_sub(since) >= GONE_AFTER)
    }

    /// Whether there were many requests and not one answer.
    pub(crate) fn all_failed(&self) -> bool {
        self.home() >= ALL_FAILED && self.nothing_came()
    }

    /// Whether there were requests and not one answer.
    pub(crate) fn nothing_came(&self) -> bool {
        self.good == 0 && self.home() > 0 && self.records.iter().all(|r| r.outcome == Outcome::Failed)
    }

    /// The limit whose misses are gross (design §7), if there is one, with the count.
    pub(crate) fn gross(&self) -> Option<String> {
        self.limits.iter().find_map(|limit| {
            let (mut k, mut n) = (0, 0);
            for r in self.records.iter().filter(|r| r.phase == Phase::Measure) {
                match limit.judge(r) {
                    Judged::Missed => (k, n) = (k + 1, n + 1),
                    Judged::Met => n += 1,
                    Judged::Unknown | Judged::NotApplicable => {}
                }
            }
            (gross(k, n, limit.percentile.miss_share(), GROSS_INFLATION) > GROSS)
                .then(|| format!("{limit}: {k} of {n} missed"))
        })
    }

    /// p99 TTFT of the measured requests so far, in milliseconds.
    pub(crate) fn ttft_p99(&self) -> Option<f64> {
        (!self.ttft.is_empty()).then(|| ms(Duration::from_micros(self.ttft.value_at_quantile(0.99))))
    }

    /// Measured requests that are home.
    pub(crate) fn measured(&self) -> u64 {
        self.records.iter().filter(|r| r.phase == Phase::Measure).count() as u64
    }
}

/// Counts over the whole sweep that no file tells.
#[derive(Debug, Default)]
pub(crate) struct SweepTally {
    estimated: u64,
    unfinished: u64,
    input: u64,
    cached: Option<u64>,
}

impl SweepTally {
    /// Counts the requests of a step.
    pub(crate) fn add(&mut self, records: &[Record]) {
        for r in records.iter().filter(|r| r.ok()) {
            self.estimated += u64::from(r.token_source == Some(TokenSource::Events));
            self.unfinished += u64::from(r.finish.as_deref() == Some("done"));
            self.input += u64::from(r.input_tokens.unwrap_or(0));
            if let Some(cached) = r.cached_tokens {
                *self.cached.get_or_insert(0) += u64::from(cached);
            }
        }
    }

    /// What the reader must know of them.
    pub(crate) fn caveats(&self, cold: bool) -> Vec<Caveat> {
        let mut found = Vec::new();
        if self.estimated > 0 {
            found.push(Caveat::TokensEstimated { requests: self.estimated });
        }
        if self.unfinished > 0 {
            found.push(Caveat::NoFinishReason { requests: self.unfinished });
        }
        let share = self.cached.unwrap_or(0) as f64 / self.input.max(1) as f64;
        // The chat template is the same in every prompt: a few tokens always hit.
        if cold && share > 0.05 {
            found.push(Caveat::ColdCacheHits { share });
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(ms: u64, failure: Option<Failure>) -> Finished {
        let mut record = Record::due(0, Phase::Measure, Duration::from_millis(ms));
        record.end = record.due;
        record.failure = failure;
        record.outcome = if failure.is_some() { Outcome::Failed } else { Outcome::Ok };
        record.first_token = Some(record.due + Duration::from_millis(10));
        Finished { record, gaps_us: vec![], sample: None }
    }

    fn tally() -> StepTally {
        StepTally::new(&[toml::from_str("ttft.p99 = \"200ms\"").unwrap()])
    }

    #[test]
    fn a_dead_server_is_noticed_and_a_refusing_one_is_not_dead() {
        let mut t = tally();
        t.add(finished(0, None));
        for i in 0..9 {
            t.add(finished(i, Some(Failure::Connect)));
        }
        assert!(!t.seems_gone(), "nine within ten milliseconds");
        t.add(finished(10, Some(Failure::Connect)));
        assert!(t.seems_gone());
        t.add(finished(11, Some(Failure::RateLimited)));
        assert!(!t.seems_gone(), "somebody answered");
        for i in 0..3 {
            t.add(finished(12 + i * 3000, Some(Failure::Connect)));
        }
        assert!(t.seems_gone(), "three over six seconds");
    }

    #[test]
    fn all_failed_needs_many_and_no_answer() {
        let mut t = tally();
        for i in 0..49 {
            t.add(finished(i, Some(Failure::ServerError)));
        }
        assert!(!t.all_failed());
        t.add(finished(50, Some(Failure::ServerError)));
        assert!(t.all_failed());
        t.add(finished(51, None));
        assert!(!t.all_failed());
    }

    #[test]
    fn gross_misses_are_named() {
        let mut t = tally();
        for i in 0..200 {
            t.add(finished(i, (i % 2 == 0).then_some(Failure::Timeout)));
        }
        assert!(t.gross().is_some_and(|g| g.contains("100 of 200")), "{:?}", t.gross());
    }
}
