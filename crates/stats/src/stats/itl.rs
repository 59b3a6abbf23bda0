//! Gaps between successive events with tokens: pooled into a histogram, and counted per request against each ITL limit.

use super::percentile::quantiles_by;
use super::step::Quantiles;
use super::verdict::Counts;
use goodput_core::record::{Finished, Outcome, Phase};
use goodput_core::slo::{Judged, Limit, Metric, Slo};
use hdrhistogram::Histogram;
use std::time::Duration;

/// The gaps of a step's measured requests. Memory grows with the number of requests only where the SLO limits ITL.
#[derive(Debug, Clone)]
pub struct ItlTally {
    /// Gaps of all answered requests …
    pooled: Pool,
    /// … and of those of each class of a mix.
    classes: Vec<Pool>,
    /// Every ITL limit of every tier and class, each once.
    limits: Vec<Limit>,
    requests: Vec<Entry>,
    /// Misses by request and limit: `limits.len()` numbers for each entry.
    misses: Vec<u32>,
}

/// Gaps of many answered requests.
#[derive(Debug, Clone)]
pub struct Pool {
    /// In µs, to three significant figures.
    gaps: Histogram<u64>,
    /// Requests that gave gaps to the histogram.
    requests: u64,
}

/// One measured request.
#[derive(Debug, Clone, Copy)]
struct Entry {
    id: u64,
    outcome: Outcome,
    /// Gaps that count: those that came, and those of a failed or cut request that did not.
    gaps: u32,
    /// Gaps that a cut request did not live to show.
    censored: u32,
    /// How long the first of those had been open by then, in µs; 0 where there is none.
    open_us: u32,
}

impl Entry {
    /// Returns true if the gap that was open when the request was cut off was beyond this limit already.
    fn is_open_over(&self, limit: &Limit) -> bool {
        Duration::from_micros(u64::from(self.open_us)) > limit.limit
    }
}

/// What one ITL limit counts over a step.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ItlCounts {
    /// Gaps, misses and censored among them.
    pub counts: Counts,
    /// Requests that have gaps.
    pub requests: u64,
    /// Misses of each of them, in order of `due`.
    pub by_request: Vec<u64>,
}

/// What a limit says of requests by their number.
#[derive(Debug, Clone, PartialEq)]
pub struct ByRequest(
    /// In order of the number: of a million requests half as large as a map, and found as fast.
    Vec<(u64, Judged)>,
);

impl ByRequest {
    /// What it says of one; `None` of a request that was not measured.
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

    /// Percentiles of the gaps, in ms. In their bounds all gaps of a request are worth one, and `inflation` requests are: that of the
    /// TPOT, as long gaps are the iterations that slow a request's TPOT (on simulated batching engines at 0.5 to 0.8 of their capacity
    /// the gaps of 19, 38 and 93 requests were worth one, the TPOTs of 21, 37 and 101).
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

    /// The histogram: lowest and highest value of each bucket that holds anything, in µs, and how many gaps it holds.
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
    /// An empty tally for the ITL limits of these tiers.
    pub fn new(tiers: &[Slo]) -> Self {
        let (limits, pooled) = (limits(tiers), Pool::default());
        Self { pooled, classes: Vec::new(), limits, requests: vec![], misses: vec![] }
    }

    /// The same for a mix of so many classes, each of which has its gaps pooled as well.
    pub fn of_classes(self, n: usize) -> Self {
        Self { classes: vec![Pool::default(); n], ..self }
    }

    /// Whether it counts for these tiers, and so many classes of a mix.
    pub fn counts_for(&self, tiers: &[Slo], classes: usize) -> bool {
        self.classes.len() == classes && self.limits == limits(tiers)
    }

    /// Forgets everything, and makes room for `n` requests as [`super::kept::Kept::room`] does.
    pub fn begin(&mut self, n: usize) {
        self.pooled.reset();
        self.classes.iter_mut().for_each(Pool::reset);
        let n = if self.limits.is_empty() { 0 } else { n };
        self.requests.clear();
        self.requests.resize(n, Entry { id: 0, outcome: Outcome::Cut, gaps: 0, censored: 1, open_us: 0 });
        self.requests.clear();
        self.misses.clear();
        self.misses.resize(n * self.limits.len(), 1);
        self.misses.clear();
    }

    /// Adds a measured request; one of another phase is passed over.
    ///
    /// A failed request counts a miss for every gap it was asked for, one at least; a cut one counts the gaps it had, a miss where the gap
    /// that was open exceeds the limit already, and is censored for the rest. The histogram takes answered requests only, as the other percentiles do.
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
        let came = finished.gaps_us.len() as u32;
        let asked = r.output_asked.saturating_sub(1);
        let outcome = if r.is_cut_off() { Outcome::Cut } else { r.outcome };
        let (gaps, censored) = match outcome {
            Outcome::Ok => (came, 0),
            Outcome::Failed => (asked.max(1), 0),
            Outcome::Cut => (came.max(asked), asked.saturating_sub(came)),
        };
        let open = r.last_token.filter(|_| censored > 0).map_or(Duration::ZERO, |t| r.end.saturating_sub(t));
        let open_us = u32::try_from(open.as_micros()).unwrap_or(u32::MAX);
        let entry = Entry { id: r.id, outcome, gaps, censored, open_us };
        self.requests.push(entry);
        for limit in &self.limits {
            let over = |us: &&u32| Duration::from_micros(u64::from(**us)) > limit.limit;
            let missed =
                finished.gaps_us.iter().filter(over).count() as u32 + u32::from(entry.is_open_over(limit));
            self.misses.push(if outcome == Outcome::Failed { gaps } else { missed });
        }
    }

    /// The gaps of all requests.
    pub const fn pooled(&self) -> &Pool {
        &self.pooled
    }

    /// Those of a class of the mix, by its index.
    pub fn of_class(&self, class: usize) -> Option<&Pool> {
        self.classes.get(class)
    }

    /// What a limit counts, over the requests that `counts` accepts by their number; nothing for a limit of no tier.
    pub fn counts(&self, limit: &Limit, counts: impl Fn(u64) -> bool) -> ItlCounts {
        let mut rows: Vec<(Entry, u32)> =
            self.rows(limit).filter(|(e, _)| e.gaps > 0 && counts(e.id)).collect();
        rows.sort_unstable_by_key(|(e, _)| e.id);
        let sum = |of: &dyn Fn(&(Entry, u32)) -> u32| rows.iter().map(|r| u64::from(of(r))).sum::<u64>();
        let censored = |r: &(Entry, u32)| r.0.censored - u32::from(r.0.is_open_over(limit));
        ItlCounts {
            counts: Counts { n: sum(&|r| r.0.gaps), misses: sum(&|r| r.1), censored: sum(&censored) },
            requests: rows.len() as u64,
            by_request: rows.iter().map(|r| u64::from(r.1)).collect(),
        }
    }

    /// Misses of a limit that was `slack` larger, taken from the histogram for answered requests.
    pub fn misses_with_slack(&self, limit: &Limit, slack: Duration) -> u64 {
        let failed: u64 = self
            .rows(limit)
            .filter(|(e, _)| e.outcome != Outcome::Ok)
            .map(|(_, missed)| u64::from(missed))
            .sum();
        let above = u64::try_from((limit.limit + slack).as_micros()).unwrap_or(u64::MAX).saturating_add(1);
        let highest = self.pooled.gaps.high();
        failed + if above <= highest { self.pooled.gaps.count_between(above, highest) } else { 0 }
    }

    /// What a limit says of each request: met where its own gaps miss no more than the limit allows.
    pub fn judged(&self, limit: &Limit) -> ByRequest {
        let allowed = limit.percentile.miss_share();
        let one = |(e, missed): (Entry, u32)| {
            let too_many = f64::from(missed) > allowed * f64::from(e.gaps) + 1e-9;
            let judged = match e.outcome {
                Outcome::Failed => Judged::Missed,
                _ if e.gaps == 0 => Judged::NotApplicable,
                _ if too_many => Judged::Missed,
                _ if e.censored > 0 => Judged::Unknown,
                _ => Judged::Met,
            };
            (e.id, judged)
        };
        let mut judged: Vec<(u64, Judged)> = self.rows(limit).map(one).collect();
        judged.sort_unstable_by_key(|(id, _)| *id);
        ByRequest(judged)
    }

    fn rows(&self, limit: &Limit) -> impl Iterator<Item = (Entry, u32)> + '_ {
        let width = self.limits.len();
        let at = self.limits.iter().position(|l| l == limit);
        at.into_iter().flat_map(move |at| {
            self.requests.iter().enumerate().map(move |(i, entry)| (*entry, self.misses[i * width + at]))
        })
    }
}

/// Every ITL limit of every tier and class, each once.
fn limits(tiers: &[Slo]) -> Vec<Limit> {
    let all = tiers.iter().flat_map(Slo::parts).flat_map(|part| part.slo.limits());
    let mut limits: Vec<Limit> = all.filter(|l| l.metric == Metric::Itl).collect();
    limits.sort_unstable();
    limits.dedup();
    limits
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_core::record::{Failure, Record};

    fn tiers(text: &str) -> Vec<Slo> {
        vec![toml::from_str(text).unwrap()]
    }

    fn finished(id: u64, outcome: Outcome, asked: u32, gaps_us: &[u32]) -> Finished {
        let mut record = Record::due(id, Phase::Measure, Duration::from_millis(id));
        (record.outcome, record.output_asked) = (outcome, asked);
        record.failure = (outcome == Outcome::Failed).then_some(Failure::Reset);
        Finished::new(record, gaps_us.to_vec())
    }

    #[test]
    fn gaps_are_counted_by_request_in_order_of_due() {
        let slo = tiers("itl.p95 = \"10ms\"");
        let mut tally = ItlTally::new(&slo);
        tally.add(&finished(3, Outcome::Ok, 4, &[10_000, 10_001, 30_000])); // at the limit is within it
        tally.add(&finished(1, Outcome::Failed, 5, &[1_000])); // four gaps asked for, all missed
        tally.add(&finished(2, Outcome::Cut, 5, &[20_000])); // one miss, three unknown
        tally.add(&finished(0, Outcome::Ok, 1, &[])); // one token: no gap
        tally.add(&finished(4, Outcome::Failed, 0, &[])); // length unknown: one miss
        let mut warm = finished(9, Outcome::Ok, 4, &[90_000]);
        warm.record.phase = Phase::Settle;
        tally.add(&warm);
        let limit = slo[0].limits()[0];
        let got = tally.counts(&limit, |_| true);
        assert_eq!(got.counts, Counts { n: 4 + 4 + 3 + 1, misses: 4 + 1 + 2 + 1, censored: 3 });
        assert_eq!((got.by_request, got.requests), (vec![4, 1, 2, 1], 4));
        assert_eq!(tally.counts(&limit, |id| id < 2).counts.n, 4, "only some of them");
        let judged = tally.judged(&limit);
        assert_eq!((judged.get(0), judged.get(9)), (Some(Judged::NotApplicable), None));
        assert!([1, 2, 3, 4].iter().all(|id| judged.get(*id) == Some(Judged::Missed)));
        let other = tiers("itl.p95 = \"11ms\"")[0].limits()[0];
        assert_eq!(tally.counts(&other, |_| true), ItlCounts::default(), "a limit of no tier");
    }

    /// Rows: how the request ended, when (its last token came after 50 ms), and its gaps, misses and censored ones of a limit of 10 ms.
    #[test]
    fn a_gap_that_is_open_too_long_is_a_miss() {
        let slo = tiers("itl.p95 = \"10ms\"");
        let timeout = Some(Failure::Timeout);
        for (outcome, failure, end_ms, want) in [
            (Outcome::Cut, None, 55, (9, 0, 7)),
            (Outcome::Cut, None, 61, (9, 1, 6)),
            (Outcome::Cut, timeout, 61, (9, 1, 6)),
            (Outcome::Failed, timeout, 61, (9, 1, 6)),
            (Outcome::Failed, Some(Failure::Reset), 61, (9, 9, 0)),
        ] {
            let mut one = finished(0, outcome, 10, &[1_000, 2_000]);
            one.record.failure = failure;
            (one.record.last_token, one.record.end) =
                (Some(Duration::from_millis(50)), Duration::from_millis(end_ms));
            let mut tally = ItlTally::new(&slo);
            tally.add(&one);
            let got = tally.counts(&slo[0].limits()[0], |_| true).counts;
            assert_eq!((got.n, got.misses, got.censored), want, "{outcome:?} {failure:?} {end_ms}");
        }
    }

    #[test]
    fn slack_takes_gaps_off_the_misses() {
        let slo = tiers("itl.p95 = \"10ms\"");
        let limit = slo[0].limits()[0];
        let mut tally = ItlTally::new(&slo);
        tally.add(&finished(0, Outcome::Ok, 4, &[9_000, 11_000, 30_000]));
        tally.add(&finished(1, Outcome::Failed, 3, &[]));
        assert_eq!(tally.counts(&limit, |_| true).counts.misses, 4);
        assert_eq!(tally.misses_with_slack(&limit, Duration::ZERO), 4);
        assert_eq!(tally.misses_with_slack(&limit, Duration::from_millis(2)), 3, "11 ms is within 12");
        assert_eq!(tally.misses_with_slack(&limit, Duration::from_secs(9000)), 2, "beyond the histogram");
    }

    #[test]
    fn percentiles_are_those_of_the_gaps() {
        let mut tally = ItlTally::new(&[]);
        for id in 0..100 {
            let gaps: Vec<u32> = (1..=100).map(|i| i * 1000).collect();
            tally.add(&finished(id, Outcome::Ok, 101, &gaps));
        }
        let q = tally.pooled().quantiles(1.0);
        for (got, want) in [(q.p50, 50.0), (q.p90, 90.0), (q.p99, 99.0)] {
            assert!((got.unwrap() / want - 1.0).abs() < 2e-3, "{got:?} for {want}");
        }
        assert_eq!((q.n, q.p99_high), (10_000, None), "a hundred requests have no upper bound");
        assert_eq!(q.inflation, Some(100.0), "the gaps of each are worth one");
        assert_eq!(tally.pooled().quantiles(4.0).effective(), Some(25.0));
        let buckets = tally.pooled().buckets();
        assert_eq!(buckets.iter().map(|b| b.2).sum::<u64>(), 10_000);
        assert!(
            buckets.iter().all(|(low, high, _)| low <= high) && buckets.windows(2).all(|w| w[0].1 < w[1].0)
        );
        assert_eq!(Pool::default().quantiles(1.0), Quantiles::default());
    }
    #[test]
    fn each_class_has_its_own_gaps() {
        let slo = tiers("itl.p95 = \"10ms\"");
        let mut tally = ItlTally::new(&slo).of_classes(2);
        for id in 0..40 {
            let mut one =
                finished(id, Outcome::Ok, 3, if id % 4 == 0 { &[50_000, 50_000] } else { &[5_000, 5_000] });
            one.record.class = u16::from(id % 4 == 0);
            tally.add(&one);
        }
        let of = |class| {
            tally
                .of_class(class)
                .map(|pool| (pool.quantiles(1.0).n, pool.quantiles(1.0).p50.unwrap().round()))
        };
        assert_eq!([of(0), of(1), of(2)], [Some((60, 5.0)), Some((20, 50.0)), None]);
        assert_eq!(tally.pooled().quantiles(1.0).n, 80);
        assert!(
            tally.counts_for(&slo, 2)
                && !tally.counts_for(&slo, 0)
                && !tally.counts_for(&tiers("itl.p95 = \"9ms\""), 2)
        );
        tally.begin(10);
        assert_eq!(tally.of_class(0).unwrap().buckets(), []);
    }
}
