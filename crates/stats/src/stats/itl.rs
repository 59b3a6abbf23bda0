//! Gaps between successive token events (inter-token latency): pooled in a histogram, and counted per request against each ITL
//! limit.

use super::percentile::quantiles_by;
use super::step::Quantiles;
use super::verdict::Counts;
use goodput_core::record::{Finished, Outcome, Phase};
use goodput_core::slo::{Judged, Limit, Slo};
use hdrhistogram::Histogram;
use std::time::Duration;

/// The gaps of a step's measured requests. Memory grows with the number of requests only if the SLO limits ITL.
#[derive(Debug, Clone)]
pub struct ItlTally {
    /// Gaps of all answered requests.
    pooled: Pool,
    /// Gaps of the answered requests of each class of a mix.
    classes: Vec<Pool>,
    /// Every ITL limit of any tier and class, without duplicates.
    limits: Vec<Limit>,
    requests: Vec<RequestGaps>,
    /// By request and limit, `limits.len()` per entry of `requests`.
    missed: Vec<Missed>,
}

/// How a request stands to a limit.
#[derive(Debug, Clone, Copy)]
struct Missed {
    /// Gaps above the limit.
    gaps: u32,
    /// The gap that decides whether there are too many of them, in µs: the longest after those that may miss.
    deciding_us: u32,
}

/// Histogram of the gaps of many answered requests.
#[derive(Debug, Clone)]
pub struct Pool {
    /// Gaps in µs, to three significant figures.
    gaps: Histogram<u64>,
    /// Number of requests with gaps in the histogram.
    requests: u64,
}

/// Gaps of one measured request.
#[derive(Debug, Clone, Copy)]
struct RequestGaps {
    id: u64,
    outcome: Outcome,
    /// Number of gaps that count: those observed, and for a failed or cut request those that did not come.
    gaps: u32,
    /// Number of gaps that a cut request did not get to.
    censored: u32,
    /// How long the first of those had been open at the cut, in µs; 0 if there is none.
    open_us: u32,
}

impl RequestGaps {
    /// Returns true if the gap that was open at the cut already exceeded this limit.
    fn is_open_over(&self, limit: &Limit) -> bool {
        Duration::from_micros(u64::from(self.open_us)) > limit.limit
    }

    /// Returns the longest gap after those that may miss a limit, in µs; 0 if there are no more than may.
    fn deciding_us(&self, limit: &Limit, gaps_us: &[u32]) -> u32 {
        let may_miss = (limit.percentile.miss_share() * f64::from(self.gaps) + 1e-9) as usize;
        let all = gaps_us.iter().copied().chain((self.open_us > 0).then_some(self.open_us));
        if may_miss == 0 {
            return all.max().unwrap_or(0);
        }
        let mut all: Vec<u32> = all.collect();
        match all.len().checked_sub(may_miss + 1) {
            Some(rank) => *all.select_nth_unstable(rank).1,
            None => 0,
        }
    }
}

/// Counts of one ITL limit over a step.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ItlCounts {
    /// Number of gaps, with the misses and the censored among them.
    pub counts: Counts,
    /// Number of requests with gaps.
    pub requests: u64,
    /// Misses of each request, in order of `due`.
    pub by_request: Vec<u64>,
}

/// Judgements of one ITL limit by request id.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgedRequests(
    /// Sorted by id: half the memory of a map for a million requests, at the same speed.
    Vec<(u64, Judged)>,
);

impl JudgedRequests {
    /// Returns the judgement of a request; `None` if it was not measured.
    pub fn get(&self, id: u64) -> Option<Judged> {
        let at = self.0.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(self.0[at].1)
    }
}

impl Default for Pool {
    fn default() -> Self {
        let gaps = Histogram::new_with_bounds(1, u64::from(u32::MAX), 3).expect("the bounds are in order");
        Self { gaps, requests: 0 }
    }
}

impl Pool {
    fn reset(&mut self) {
        self.gaps.reset();
        self.requests = 0;
    }

    fn add(&mut self, gaps_us: &[u32]) {
        self.requests += 1;
        for gap in gaps_us {
            self.gaps.saturating_record(u64::from(*gap));
        }
    }

    /// Returns the percentiles of the gaps, in ms. For their bounds, all gaps of a request count as one, and `inflation` requests
    /// as one.
    ///
    /// `inflation` is that of the TPOT, since long gaps are the iterations that slow a request's TPOT (on simulated batching
    /// engines at 0.5 to 0.8 of their capacity the gaps of 19, 38 and 93 requests counted as one, the TPOTs of 21, 37 and 101).
    pub fn quantiles(&self, inflation: f64) -> Quantiles {
        let n = self.gaps.len();
        let per_request = n as f64 / self.requests.max(1) as f64;
        quantiles_by(n, per_request * inflation, |rank| {
            let mut left = rank;
            let bucket = self.gaps.iter_recorded().find(|b| {
                left = left.saturating_sub(b.count_since_last_iteration());
                left == 0
            });
            bucket.map_or(0.0, |b| b.value_iterated_to() as f64 / 1e3)
        })
    }

    /// Returns the non-empty buckets of the histogram: lowest and highest value in µs, and the number of gaps.
    pub fn buckets(&self) -> Vec<(u64, u64, u64)> {
        let bounds = |v| (self.gaps.lowest_equivalent(v), self.gaps.highest_equivalent(v));
        let recorded = self.gaps.iter_recorded();
        recorded
            .map(|b| (bounds(b.value_iterated_to()), b.count_at_value()))
            .map(|((low, high), count)| (low, high, count))
            .collect()
    }
}

impl ItlTally {
    /// Creates an empty tally for the ITL limits of these tiers.
    pub fn new(tiers: &[Slo]) -> Self {
        let (limits, pooled) = (limits(tiers), Pool::default());
        Self { pooled, classes: Vec::new(), limits, requests: vec![], missed: vec![] }
    }

    /// Adds a pool for each of `n` classes of a mix.
    pub fn of_classes(self, n: usize) -> Self {
        Self { classes: vec![Pool::default(); n], ..self }
    }

    /// Returns true if the tally was made for the ITL limits of these tiers and this number of classes.
    pub fn counts_for(&self, tiers: &[Slo], classes: usize) -> bool {
        self.classes.len() == classes && self.limits == limits(tiers)
    }

    /// Clears the tally and reserves memory for `n` requests, as [`super::compact_record::CompactRecord::reserve`] does.
    pub fn begin(&mut self, n: usize) {
        self.pooled.reset();
        self.classes.iter_mut().for_each(Pool::reset);
        let n = if self.limits.is_empty() { 0 } else { n };
        self.requests.clear();
        self.requests
            .resize(n, RequestGaps { id: 0, outcome: Outcome::Cut, gaps: 0, censored: 1, open_us: 0 });
        self.requests.clear();
        self.missed.clear();
        self.missed.resize(n * self.limits.len(), Missed { gaps: 1, deciding_us: 1 });
        self.missed.clear();
    }

    /// Adds a measured request; ignores requests of other phases.
    ///
    /// A failed request counts a miss for every gap it was asked for, at least one. A cut one counts the gaps it had, plus a miss
    /// if the open gap already exceeds the limit, and is censored for the rest. The histogram takes answered requests only, as
    /// the other percentiles do.
    pub fn add(&mut self, finished: &Finished) {
        let r = &finished.record;
        if r.phase != Phase::Measure {
            return;
        }
        if r.ok() && !finished.gaps_us.is_empty() {
            self.pooled.add(&finished.gaps_us);
            if let Some(class) = self.classes.get_mut(usize::from(r.class)) {
                class.add(&finished.gaps_us);
            }
        }
        if self.limits.is_empty() {
            return;
        }
        let observed = finished.gaps_us.len() as u32;
        let asked = r.output_asked.saturating_sub(r.choice_count());
        let outcome = if r.is_cut_off() { Outcome::Cut } else { r.outcome };
        let (gaps, censored) = match outcome {
            Outcome::Ok => (observed, 0),
            Outcome::Failed => (asked.max(1), 0),
            Outcome::Cut => (observed.max(asked), asked.saturating_sub(observed)),
        };
        let open = r.last_token.filter(|_| censored > 0).map_or(Duration::ZERO, |t| r.end.saturating_sub(t));
        let open_us = u32::try_from(open.as_micros()).unwrap_or(u32::MAX);
        let entry = RequestGaps { id: r.id, outcome, gaps, censored, open_us };
        self.requests.push(entry);
        for limit in &self.limits {
            let over = |us: &&u32| Duration::from_micros(u64::from(**us)) > limit.limit;
            let missed =
                finished.gaps_us.iter().filter(over).count() as u32 + u32::from(entry.is_open_over(limit));
            self.missed.push(Missed {
                gaps: if outcome == Outcome::Failed { gaps } else { missed },
                deciding_us: entry.deciding_us(limit, &finished.gaps_us),
            });
        }
    }

    /// Returns the gaps of all requests.
    pub const fn pooled(&self) -> &Pool {
        &self.pooled
    }

    /// Returns the gaps of a class of the mix, by its index.
    pub fn of_class(&self, class: usize) -> Option<&Pool> {
        self.classes.get(class)
    }

    /// Returns the counts of a limit over the requests whose id `counts` accepts; empty for a limit of no tier.
    pub fn counts(&self, limit: &Limit, counts: impl Fn(u64) -> bool) -> ItlCounts {
        let counted = self.entries(limit).filter(|(e, _)| e.gaps > 0 && counts(e.id));
        let mut rows: Vec<(RequestGaps, u32)> = counted.map(|(e, missed)| (e, missed.gaps)).collect();
        rows.sort_unstable_by_key(|(e, _)| e.id);
        let sum =
            |of: &dyn Fn(&(RequestGaps, u32)) -> u32| rows.iter().map(|r| u64::from(of(r))).sum::<u64>();
        let censored = |r: &(RequestGaps, u32)| r.0.censored - u32::from(r.0.is_open_over(limit));
        ItlCounts {
            counts: Counts { n: sum(&|r| r.0.gaps), misses: sum(&|r| r.1), censored: sum(&censored) },
            requests: rows.len() as u64,
            by_request: rows.iter().map(|r| u64::from(r.1)).collect(),
        }
    }

    /// Returns the misses of a limit enlarged by `slack`; for answered requests they are read from the histogram.
    pub fn misses_with_slack(&self, limit: &Limit, slack: Duration) -> u64 {
        let failed: u64 = self
            .entries(limit)
            .filter(|(e, _)| e.outcome != Outcome::Ok)
            .map(|(_, missed)| u64::from(missed.gaps))
            .sum();
        let above = u64::try_from((limit.limit + slack).as_micros()).unwrap_or(u64::MAX).saturating_add(1);
        let highest = self.pooled.gaps.high();
        failed + if above <= highest { self.pooled.gaps.count_between(above, highest) } else { 0 }
    }

    /// Judges each request by a limit enlarged by `slack`: met if its own gaps miss no more than the limit allows.
    pub fn judged(&self, limit: &Limit, slack: Duration) -> JudgedRequests {
        let one = |(e, missed): (RequestGaps, Missed)| {
            let too_many = Duration::from_micros(missed.deciding_us.into()) > limit.limit + slack;
            let judged = match e.outcome {
                Outcome::Failed => Judged::Missed,
                _ if e.gaps == 0 => Judged::NotApplicable,
                _ if too_many => Judged::Missed,
                _ if e.censored > 0 => Judged::Unknown,
                _ => Judged::Met,
            };
            (e.id, judged)
        };
        let mut judged: Vec<(u64, Judged)> = self.entries(limit).map(one).collect();
        judged.sort_unstable_by_key(|(id, _)| *id);
        JudgedRequests(judged)
    }

    fn entries(&self, limit: &Limit) -> impl Iterator<Item = (RequestGaps, Missed)> + '_ {
        let width = self.limits.len();
        let at = self.limits.iter().position(|l| l == limit);
        at.into_iter().flat_map(move |at| {
            self.requests.iter().enumerate().map(move |(i, entry)| (*entry, self.missed[i * width + at]))
        })
    }
}

/// Returns every ITL limit of any tier and class, without duplicates.
fn limits(tiers: &[Slo]) -> Vec<Limit> {
    let all = tiers.iter().flat_map(Slo::limit_groups).flat_map(|part| part.slo.limits());
    let mut limits: Vec<Limit> = all.filter(|l| !l.metric.is_per_request()).collect();
    limits.sort_unstable();
    limits.dedup();
    limits
}

#[cfg(test)]
mod tests;
