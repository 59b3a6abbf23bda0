//! Counts of the requests of a step, which the director updates as requests finish.

mod sweep;

pub(crate) use sweep::SweepTally;

use goodput_core::record::{Failure, Finished, Outcome, Phase, Record};
use goodput_core::slo::{Judged, Limit, LimitGroup, Slo};
use goodput_core::units::ms;
use goodput_stats::stats::compact_record::{CompactRecord, Tokens};
use goodput_stats::stats::itl::ItlTally;
use goodput_stats::stats::step::Abort;
use goodput_stats::stats::verdict::{GROSS, GROSS_INFLATION, gross};
use hdrhistogram::Histogram;
use std::num::NonZeroU8;
use std::time::Duration;
use sweep::Buffers;

/// Consecutive connection failures after which the director checks if the server is still there.
const GONE: u32 = 10;
/// A smaller number of consecutive connection failures, which suffices after [`GONE_AFTER`] without another answer.
const GONE_FEW: u32 = 3;
const GONE_AFTER: Duration = Duration::from_secs(5);
/// Factor by which misses must exceed the allowed number for a step to be far over a limit.
const FAR_OVER: f64 = 8.0;
/// Number of misses that must be exceeded in addition to [`FAR_OVER`] times the allowed number.
const FAR_OVER_LEAST: f64 = 5.0;
/// Number of requests after which a step ends if all of them have failed.
const ALL_FAILED: u64 = 50;

/// The longest response time that the progress line resolves, in microseconds.
const HOUR_US: u64 = 3_600_000_000;

/// The finished requests of one step.
///
/// Everything that is queried while the step runs is counted as requests finish, so the cost of a look does not grow
/// with their number.
pub(crate) struct StepTally {
    pub(crate) kept: Vec<CompactRecord>,
    pub(crate) itl: ItlTally,
    tiers: Vec<TierCounts>,
    measured: u64,
    /// TTFT (or e2e, where answers come in one piece) of measured requests in microseconds, for the progress line.
    response: Histogram<u64>,
    /// Number of connection failures since the last answer, and the due time of the first of them.
    unreachable: (u32, Duration),
    /// End time of the request that finished last, from the start of the step.
    last_home: Duration,
    /// Latest end time of a request that was not cancelled, and true if that request failed because the server was
    /// unreachable.
    last_end: Option<(Duration, bool)>,
    /// Number of failures caused by the server ([`CompactRecord::is_lost`]).
    theirs: u64,
    /// Number of requests that reached the default timeout before the first token.
    silent: u64,
    /// Number of all other requests, except those cancelled before their first token.
    others: u64,
    /// True if a request was not sent because the client had reached a limit.
    pub(crate) held: bool,
    /// Requests that the server refused for now (429, or 503 with `Retry-After`): those measured, and those in other
    /// phases.
    refused: (u64, u64),
    /// Latest time until which a `Retry-After` asked the client to wait, from the start of the step.
    pub(crate) wait_until: Option<Duration>,
    /// Input tokens of measured answers that came from the server's prefix cache, and all of their input tokens. `None`
    /// if the server does not report them with answers.
    cached: Option<(u64, u64)>,
    /// Upload times of measured requests in microseconds: sent → uploaded; `None` if no request was large enough to be timed.
    uploads: Option<Histogram<u64>>,
}

/// Counts of the finished measured requests under one tier.
struct TierCounts {
    parts: Vec<LimitCounts>,
}

/// Counts under those limits of a tier that apply to the same set of requests.
struct LimitCounts {
    /// The class that the limits apply to; `None` for the limits of all classes that have none of their own.
    class: Option<u16>,
    others: Vec<u16>,
    /// Number of measured requests that the limits apply to.
    seen: u64,
    limits: Vec<(Limit, JudgedCount)>,
    /// The allowed error rate and its counts, if there is a limit on errors.
    errors: Option<(f64, JudgedCount)>,
    /// The limits, which say what an error is.
    slo: Slo,
}

/// The number of requests that could be judged, and of those that missed.
#[derive(Debug, Clone, Copy, Default)]
struct JudgedCount {
    misses: u64,
    n: u64,
}

impl JudgedCount {
    fn add(&mut self, judged: Judged) {
        self.misses += u64::from(judged == Judged::Missed);
        self.n += u64::from(matches!(judged, Judged::Met | Judged::Missed));
    }
}

impl TierCounts {
    fn new(slo: &Slo) -> Self {
        Self { parts: slo.limit_groups().iter().map(LimitCounts::new).collect() }
    }

    fn add(&mut self, r: &Record) {
        self.parts.iter_mut().filter(|part| part.judges(r.class)).for_each(|part| part.add(r));
    }
}

impl LimitCounts {
    fn new(part: &LimitGroup<'_>) -> Self {
        Self {
            class: part.class_index(),
            others: part.classes_with_limits(),
            seen: 0,
            limits: part.slo.limits().into_iter().map(|limit| (limit, JudgedCount::default())).collect(),
            errors: part.slo.error_rate.map(|p0| (p0.get(), JudgedCount::default())),
            slo: part.slo.clone(),
        }
    }

    fn judges(&self, class: u16) -> bool {
        self.class.map_or_else(|| !self.others.contains(&class), |own| own == class)
    }

    fn add(&mut self, r: &Record) {
        self.seen += 1;
        for (limit, judged) in &mut self.limits {
            judged.add(limit.judge(r));
        }
        if let Some((_, judged)) = &mut self.errors {
            judged.add(self.slo.judge_error(r.outcome, r.attempts));
        }
    }

    /// Returns the counts of each limit, with the share of misses that the limit allows.
    fn judged(&self) -> impl Iterator<Item = (JudgedCount, f64)> {
        let limits = self.limits.iter().map(|(limit, judged)| (*judged, limit.percentile.miss_share()));
        limits.chain(self.errors.map(|(p0, judged)| (judged, p0)))
    }
}

/// Makes a histogram of times in microseconds.
fn microseconds() -> Histogram<u64> {
    Histogram::new_with_max(HOUR_US, 3).expect("an hour at three digits is a valid range")
}

impl StepTally {
    /// Makes an empty tally for a step that these tiers judge.
    pub(crate) fn new(tiers: &[Slo]) -> Self {
        Self::with_buffers(tiers, Buffers::default())
    }

    fn with_buffers(tiers: &[Slo], buffers: Buffers) -> Self {
        Self {
            kept: buffers.kept,
            itl: buffers.itl.unwrap_or_else(|| ItlTally::new(tiers)),
            tiers: tiers.iter().map(TierCounts::new).collect(),
            measured: 0,
            response: microseconds(),
            unreachable: (0, Duration::ZERO),
            last_home: Duration::ZERO,
            last_end: None,
            theirs: 0,
            silent: 0,
            others: 0,
            held: false,
            refused: (0, 0),
            wait_until: None,
            cached: None,
            uploads: None,
        }
    }

    /// Counts one request and keeps the parts of its record that the statistics need.
    pub(crate) fn add(&mut self, finished: &Finished) {
        let r = &finished.record;
        if r.phase == Phase::Measure {
            self.measured += 1;
            self.itl.add(finished);
            self.tiers.iter_mut().for_each(|tier| tier.add(r));
            // A non-streaming answer has no TTFT.
            if let Some(response) = r.ttft().or_else(|| r.e2e()) {
                self.response.saturating_record(response.as_micros() as u64);
            }
            if let (Some(sent), Some(uploaded)) = (r.sent, r.uploaded) {
                let uploads = self.uploads.get_or_insert_with(microseconds);
                uploads.saturating_record(uploaded.saturating_sub(sent).as_micros() as u64);
            }
            if let (Some(cached), Some(input)) = (r.cached_tokens, r.input_tokens) {
                let sums = self.cached.get_or_insert((0, 0));
                *sums = (sums.0 + u64::from(cached), sums.1 + u64::from(input));
            }
        }
        let kept = CompactRecord::from(r);
        self.ended(r, &kept);
        if finished.retry_after.is_some() || r.failure == Some(Failure::RateLimited) {
            match r.phase {
                Phase::Measure => self.refused.0 += 1,
                _ => self.refused.1 += 1,
            }
        }
        self.wait_until = self.wait_until.max(finished.retry_after.map(|wait| r.end.saturating_add(wait)));
        self.kept.push(kept);
    }

    /// Counts the way in which a request ended.
    fn ended(&mut self, r: &Record, kept: &CompactRecord) {
        let own = r.failure == Some(Failure::ClientLimit);
        let nobody = matches!(r.failure, Some(Failure::Connect | Failure::Dns));
        self.held |= own;
        self.last_home = r.end;
        match r.outcome {
            _ if nobody && self.unreachable.0 == 0 => self.unreachable = (1, r.due),
            _ if nobody => self.unreachable.0 += 1,
            Outcome::Ok | Outcome::Failed => self.unreachable.0 = 0,
            Outcome::Cut => {}
        }
        match r.outcome {
            Outcome::Failed if !own && kept.is_lost() => self.theirs += 1,
            Outcome::Cut if r.first_token.is_none() => self.silent += u64::from(kept.is_timed_out()),
            Outcome::Ok | Outcome::Failed | Outcome::Cut => self.others += 1,
        }
        if r.outcome != Outcome::Cut && self.last_end.is_none_or(|(end, _)| end <= r.end) {
            self.last_end = Some((r.end, nobody || r.failure == Some(Failure::Reset)));
        }
    }

    /// Returns the number of finished requests.
    pub(crate) fn home(&self) -> u64 {
        self.kept.len() as u64
    }

    /// Returns true if the last outcomes were all connection failures, so that the director should check the server.
    pub(crate) fn seems_gone(&self) -> bool {
        let (n, since) = self.unreachable;
        n >= GONE || (n >= GONE_FEW && self.last_home.saturating_sub(since) >= GONE_AFTER)
    }

    /// Returns true if the request that ended last failed because the server was unreachable.
    pub(crate) fn ended_unreachable(&self) -> bool {
        self.last_end.is_some_and(|(_, unreachable)| unreachable)
    }

    /// Returns true if the evidence is strong that more than `share` of the requests fail. The `in_flight` requests
    /// count as successes: failures arrive sooner than answers, so their share among finished requests alone is too
    /// large.
    ///
    /// Returns false if there was no answer at all; [`StepTally::all_failed`] covers that case.
    pub(crate) fn fails_beyond(&self, share: f64, in_flight: u64) -> bool {
        // Asked at every event of a simulated step: without a failure there is no evidence to weigh.
        self.theirs > 0
            && !self.nothing_came()
            && gross(self.theirs, self.home() + in_flight, share, GROSS_INFLATION) > GROSS
    }

    /// Returns true if at least 50 requests, and at least as many as are in flight, have finished without a single
    /// answer. Answers may take longer than failures, so the step goes on while most requests are in flight.
    pub(crate) fn all_failed(&self, in_flight: u64) -> bool {
        self.home() >= ALL_FAILED.max(in_flight) && self.nothing_came()
    }

    /// Returns true if requests have finished and none of them was answered.
    pub(crate) fn nothing_came(&self) -> bool {
        self.theirs + self.silent > 0 && self.others == 0
    }

    /// Returns true if some limit of every tier has gross misses (design §7), so that no tier needs more of this step.
    /// `inflation` is the number of requests that carry as much information as one independent request.
    pub(crate) fn gross(&self, inflation: f64) -> bool {
        self.every_tier(|judged, p0, _| gross(judged.misses, judged.n, p0, inflation) > GROSS)
    }

    /// Returns true if some limit of every tier has more than eight times the misses that `planned` requests may have,
    /// plus five.
    pub(crate) fn far_over(&self, planned: f64) -> bool {
        // For a median, eight times the allowed share exceeds 1: half of the remaining share counts as far over as
        // well.
        let most = |p0: f64| (FAR_OVER * p0).min(0.5 * (1.0 + p0));
        let most = |p0: f64, share: f64| most(p0) * planned * share + FAR_OVER_LEAST;
        self.every_tier(|judged, p0, share| judged.misses as f64 > most(p0, share))
    }

    /// Returns true if `shows` returns true for at least one limit of every tier. Its arguments are the counts, the
    /// allowed share of misses, and the share of the measured requests that the limit applies to.
    fn every_tier(&self, shows: impl Fn(JudgedCount, f64, f64) -> bool) -> bool {
        let share = |part: &LimitCounts| part.seen as f64 / self.measured.max(1) as f64;
        let part = |part: &LimitCounts| part.judged().any(|(judged, p0)| shows(judged, p0, share(part)));
        let tier = |tier: &TierCounts| tier.parts.iter().any(part);
        !self.tiers.is_empty() && self.tiers.iter().all(tier)
    }

    /// Returns the misses of every limit of every tier, and the number of requests that count for it: for each group of limits those on
    /// latencies, then that on errors.
    pub(crate) fn misses(&self) -> impl Iterator<Item = (u64, u64)> {
        let parts = self.tiers.iter().flat_map(|tier| &tier.parts);
        parts.flat_map(|part| part.judged().map(|(judged, _)| (judged.misses, judged.n)))
    }

    /// Returns the p99 TTFT of the measured requests so far, in milliseconds; p99 e2e if answers are not streamed.
    pub(crate) fn response_p99(&self) -> Option<f64> {
        (!self.response.is_empty()).then(|| ms(Duration::from_micros(self.response.value_at_quantile(0.99))))
    }

    /// Returns a percentile of the upload times of measured requests in milliseconds, if any was timed.
    pub(crate) fn upload_ms(&self, percentile: f64) -> Option<f64> {
        self.uploads.as_ref().map(|uploads| uploads.value_at_percentile(percentile) as f64 / 1e3)
    }

    /// Returns the share of the measured requests' input tokens that came from the server's prefix cache, if the server
    /// reports it.
    pub(crate) fn cached_share(&self) -> Option<f64> {
        self.cached.filter(|(_, input)| *input > 0).map(|(cached, input)| cached as f64 / input as f64)
    }

    /// Returns an upper bound of the input tokens that the server has looked up for this step's requests since `at`:
    /// the sum over all requests that were sent and had no first token by then. A request for `choices` choices looks its prompt up for each
    /// of them, and once more where the engine reads it ahead of them (SGLang). Infinite if one of them has images and was not answered: only
    /// the server knows how many tokens these are.
    pub(crate) fn asked_since(&self, at: Duration, choices: NonZeroU8) -> f64 {
        let lookups = if choices > NonZeroU8::MIN { f64::from(choices.get()) + 1.0 } else { 1.0 };
        let open = |r: &&CompactRecord| r.sent.is_some() && r.first_token.is_none_or(|t| t.get() > at);
        let tokens = |r: &CompactRecord| match r.input_tokens {
            None if r.items > 0 && r.output_asked > 0 => f64::INFINITY,
            counted => f64::from(r.attempts.max(1)) * f64::from(counted.map_or(r.input_asked, Tokens::get)),
        };
        lookups * self.kept.iter().filter(open).map(tokens).sum::<f64>()
    }

    /// Returns the number of measured requests that the server refused for now. With `all`, those of other phases count
    /// too, for a step that ended before its window.
    pub(crate) fn refused(&self, all: bool) -> u64 {
        self.refused.0 + if all { self.refused.1 } else { 0 }
    }

    /// Returns the reason to treat a step that ran to its end as aborted because there was no answer: all of many
    /// requests failed, or all of few.
    pub(crate) fn ended_without(&self) -> Option<Abort> {
        let why = if self.all_failed(0) { Abort::AllFailed } else { Abort::NoAnswer };
        self.nothing_came().then_some(why)
    }

    /// Returns the number of measured requests that have finished.
    pub(crate) fn measured(&self) -> u64 {
        self.measured
    }
}

#[cfg(test)]
mod tests;
