//! Counts requests against every limit of the SLO, judges the counts, and guards the verdicts against faults of the client
//! (design §6, rule 9).

mod tally;

use super::client::{tighter, tightest_by_lag, tightest_from_due};
use super::client_fault;
use super::client_faults::{ClientFaults, client_limit_at, is_unsent};
use super::cluster::{clusters, gap, pooled_inflation, scatter};
use super::co_misses::CoMisses;
use super::compact_record::CompactRecord;
use super::itl::JudgedRequests;
use super::steady::{GROWTH_OF_DUE, Steady, Window, stable};
use super::step::{Abort, LimitRow, StepKind, Verdict};
use super::summary::StepInput;
use super::verdict::{GROSS, GROSS_INFLATION, INFLATION, Judgement, UNLOADED_INFLATION, gross, judge};
use goodput_core::caveat::OwnFault;
use goodput_core::level::Control;
use goodput_core::record::{Outcome, Phase, Record};
use goodput_core::slo::{ALL, AnswerPart, Judged, Limit, LimitGroup, Metric, Slo};
use goodput_core::units::short;
use std::time::Duration;
use tally::{Tally, View};

/// A judged row, with the numbers needed to explain its verdict.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct JudgedRow {
    pub(super) row: LimitRow,
    /// Allowed share of misses.
    pub(super) p0: f64,
    /// Inflation used in the verdict: how many requests count as one independent request.
    pub(super) inflation: f64,
    /// The limit as shown to users: `p99 TTFT ≤ 200 ms`.
    pub(super) title: String,
    /// Reason why the row is invalid; `None` if it is valid.
    pub(super) fault: Option<String>,
    /// True if any request of the row was answered.
    pub(super) answered: bool,
    /// Measured requests that missed the limit, as positions in order of `due`; emptied once the limits of a tier have been
    /// compared.
    pub(super) missed: Vec<u32>,
}

/// The measured records of a step, with the client's faults.
struct Judge<'a> {
    input: &'a StepInput<'a>,
    /// Measured records, in order of `due`.
    measured: Vec<&'a CompactRecord>,
    /// Number of them that were due before the client reached a limit of its own.
    before_limit: usize,
    client: ClientFaults,
    error: f64,
}

/// Returns, for each tier, one row per latency limit, `error-rate` if it is set, `joint` and `stability`. Limits of a class are
/// judged over the requests of that class; `joint` over all requests, each by the limits of its class. Also returns for how many
/// milliseconds the client stood still, if that touched a measured request.
pub(super) fn rows(input: &StepInput<'_>, steady: &Steady) -> (Vec<JudgedRow>, Option<f64>) {
    let judge = Judge::new(input);
    let mut rows = vec![];
    for slo in input.tiers {
        rows.extend(judge.tier(slo));
        rows.push(judge.joint(slo));
        rows.push(judge.stability(slo, steady));
    }
    let halted_ms = judge.client.halted.map(|halted| halted.excess());
    (rows, halted_ms)
}

/// Judges the records of a step against tiers other than those it was measured for: one row per limit, without `joint` and
/// `stability`. ITL limits are left undecided, since records do not hold the gaps.
pub fn rejudged(input: &StepInput<'_>) -> Vec<LimitRow> {
    let judge = Judge::new(input);
    input.tiers.iter().flat_map(|slo| judge.tier(slo)).map(|c| c.row).collect()
}

impl<'a> Judge<'a> {
    fn new(input: &'a StepInput<'a>) -> Self {
        let mut measured: Vec<&CompactRecord> =
            input.records.iter().filter(|r| r.phase == Phase::Measure).collect();
        measured.sort_unstable_by_key(|r| (r.due, r.id));
        let limit_at = client_limit_at(input);
        let before_limit =
            limit_at.map_or(measured.len(), |at| measured.partition_point(|r| r.due.get() < at));
        let client = ClientFaults::of(input, &measured);
        let error = (1.0 - input.confidence).clamp(1e-9, 0.5);
        Self { input, measured, before_limit, client, error }
    }

    /// Iterates over the measured requests that a part of the SLO judges; over all of them for `None`.
    fn judged_by(&self, part: Option<LimitGroup<'a>>) -> impl Iterator<Item = &'a CompactRecord> {
        self.measured.iter().copied().filter(move |r| part.is_none_or(|part| part.judges(r.class)))
    }

    /// Returns the mean end-to-end time of the answered requests in seconds; 0 without any.
    fn mean_e2e_s(own: impl Iterator<Item = &'a CompactRecord>) -> f64 {
        let told = own.filter(|r| r.ok()).filter_map(|r| Some(r.record().e2e()?.as_secs_f64()));
        let (n, sum) = told.fold((0_u64, 0.0), |(n, sum), s| (n + 1, sum + s));
        sum / n.max(1) as f64
    }

    /// Returns the rows of a tier's limits, each with how its misses coincide with those of the limits before it.
    fn tier(&self, slo: &'a Slo) -> Vec<JudgedRow> {
        let mut all: Vec<JudgedRow> =
            slo.limit_groups().into_iter().flat_map(|part| self.counts(slo, part)).collect();
        let n = self.measured.len() as u64;
        let rate = n as f64 / self.input.measure.as_secs_f64().max(1e-9);
        let e2e_s = if all.len() > 1 { Self::mean_e2e_s(self.judged_by(None)) } else { 0.0 };
        for at in 1..all.len() {
            let (before, own) = all.split_at_mut(at);
            let with = |other: &JudgedRow| {
                let gap = |either| gap(rate, e2e_s, either, n);
                CoMisses::of(other.row.key(), &own[0].missed, &other.missed, gap)
            };
            own[0].row.co_misses = before.iter().map(with).collect();
        }
        all.iter_mut().for_each(|c| c.missed = Vec::new());
        all
    }

    fn counts(&self, slo: &'a Slo, part: LimitGroup<'a>) -> Vec<JudgedRow> {
        let latencies = part.slo.limits().into_iter().map(|limit| self.latency(slo, part, &limit));
        latencies.chain(part.slo.error_rate.map(|p0| self.errors(slo, part, p0.get()))).collect()
    }

    fn latency(&self, slo: &Slo, part: LimitGroup<'a>, limit: &Limit) -> JudgedRow {
        let of_gaps = !limit.metric.is_per_request();
        let count = |view| {
            if of_gaps {
                self.gaps(part, limit, view)
            } else {
                self.requests(Some(part), view, |r| self.judged(limit, view, r))
            }
        };
        let (from_due, own) = (tightest_from_due(slo), &self.client);
        let doubt = if limit.metric.is_from_due() {
            own.doubt(from_due, from_due)
        } else {
            own.doubt(None, tightest_by_lag(slo))
        };
        let row = (limit.name(), Some(limit.limit_ms()), part.title(&limit.to_string()));
        let mut counted = self.counted((slo, Some(part)), row, limit.percentile.miss_share(), doubt, count);
        if of_gaps {
            counted.missed = self.missed_gaps(part, limit);
        }
        if counted.row.n == 0 && counted.row.verdict == Verdict::Undecided && self.void(part, limit.metric) {
            counted.row.verdict = self.after_abort(Verdict::Meets, Some(part), counted.p0);
        }
        counted
    }

    /// Counts failed requests against the error rate. A request ended by the default timeout might still have been answered, so
    /// it is unknown, like one cut off by the end of the step. One ended by the plan's own timeout is an error.
    fn errors(&self, slo: &Slo, part: LimitGroup<'a>, p0: f64) -> JudgedRow {
        let count = |view| self.requests(Some(part), view, |r| part.slo.judge_error(r.outcome, r.attempts));
        let title = part.title(&format!("error rate ≤ {} %", short(p0 * 100.0)));
        let halted = self.client.halted;
        self.counted((slo, Some(part)), ("error-rate".into(), None, title), p0, halted, count)
    }

    fn joint(&self, slo: &'a Slo) -> JudgedRow {
        let count = |view: View| {
            let slack = if view.ideal { self.client.lag() } else { Duration::ZERO };
            let of_part = |part: LimitGroup<'a>| {
                let limits = part.slo.joint_limits();
                let of_gaps = limits.iter().filter(|l| !l.metric.is_per_request());
                let gaps: Vec<JudgedRequests> = of_gaps.map(|l| self.input.itl.judged(l, slack)).collect();
                (part, limits, gaps)
            };
            let parts: Vec<_> = slo.limit_groups().into_iter().map(of_part).collect();
            self.requests(None, view, |r| {
                let Some((_, limits, gaps)) = parts.iter().find(|(part, ..)| part.judges(r.class)) else {
                    return Judged::NotApplicable;
                };
                let by_gaps = gaps.iter().map(|g| g.get(r.id.into()).unwrap_or(Judged::Unknown));
                let record = r.record();
                together(&record, limits.iter().map(|l| self.judged(l, view, r)).chain(by_gaps))
            })
        };
        let from_due = tightest_from_due(slo);
        let doubt = self.client.doubt(from_due, tighter(from_due, tightest_by_lag(slo)));
        let p0 = (1.0 - slo.joint_target()).max(0.0);
        let title = format!("all limits together for {} %", short(slo.joint_target() * 100.0));
        self.counted((slo, None), ("joint".into(), None, title), p0, doubt, count)
    }

    fn stability(&self, slo: &Slo, steady: &Steady) -> JudgedRow {
        let held_back = self.client.limited.or(self.client.behind);
        let any = tighter(tightest_from_due(slo), tightest_by_lag(slo));
        let plain = match steady.stable {
            Some(true) => Verdict::Meets,
            Some(false) => Verdict::Fails,
            None => Verdict::Undecided,
        };
        // A client that holds requests back may hide a backlog, or cause one; a late client may cause one.
        let fault = held_back.or_else(|| self.client.doubt(any, any).filter(|_| plain == Verdict::Fails));
        let (verdict, fault) = match fault {
            None => (plain, None),
            Some(_) if !self.client.timing.overwhelmed() && self.unstable_by_itself() => {
                (Verdict::Fails, None)
            }
            Some(fault) => (Verdict::Invalid, Some(client_fault::reason(&fault))),
        };
        let row = LimitRow {
            tier: slo.tier().into(),
            class: ALL.into(),
            limit: "stability".into(),
            limit_ms: None,
            n: self.measured.len() as u64,
            misses: 0,
            censored: 0,
            clusters: 0,
            cluster_sq: 0,
            co_misses: Vec::new(),
            attainment: None,
            low: None,
            high: None,
            verdict: self.broken_off(verdict),
        };
        JudgedRow {
            row,
            p0: 0.0,
            inflation: 1.0,
            title: "stability".into(),
            fault,
            answered: self.answered(None),
            missed: Vec::new(),
        }
    }

    /// Returns true if the backlog grew before the client's limit, or grows when counted from `sent`, by more than the client's
    /// receive lag can explain: unread answers look like requests that wait for their first token.
    fn unstable_by_itself(&self) -> bool {
        let lag_explains = self.client.lag() > self.input.measure.mul_f64(GROWTH_OF_DUE);
        if lag_explains || self.input.level.control == Control::Concurrency {
            return false;
        }
        let end = self.input.settle + self.input.measure;
        let (from, to) = self.client.halts.calm(self.input.settle, end);
        let (from, to) = (self.client.halts.awake(from), self.client.halts.awake(to));
        let mut window = Window::new(from, to.saturating_sub(from));
        let limit_at = client_limit_at(self.input);
        if let Some(at) = limit_at {
            window.to = window.to.min(self.client.halts.awake(at).as_secs_f64());
        }
        let before = self.input.records.iter();
        let before = before.filter(|r| limit_at.is_none_or(|at| r.due.get() < at) && !is_unsent(r));
        stable(before.map(|r| self.client.ideal(r, Duration::ZERO, Metric::Ttft)), window) == Some(false)
    }

    fn counted(
        &self,
        (slo, part): (&Slo, Option<LimitGroup<'a>>),
        (limit, limit_ms, title): (String, Option<f64>, String),
        p0: f64,
        doubt: Option<OwnFault>,
        count: impl Fn(View) -> Tally,
    ) -> JudgedRow {
        let tally = count(View::default());
        let mut row = self.row((slo, part), limit, limit_ms, &tally);
        let inflation = tally.inflation.max(1.0) * self.inflation(&row, p0);
        let judgement = self.judge_tally(&tally, p0, inflation);
        let judged = |view| self.judge_tally(&count(view), p0, inflation).verdict;
        let ideal = View { ideal: true, before_limit: false };
        // Every request in flight has one gap as long as the halt of the client, and no view of the gaps tells which.
        let gaps = Metric::of_limit(&row.limit).is_some_and(|m| !m.is_per_request())
            || (part.is_none() && slo.smallest(Metric::Itl).is_some());
        let halted_gaps = gaps && !self.client.halts.is_empty();
        let (verdict, fault) = match (self.client.limited, self.client.behind, doubt) {
            // The verdict of requests due before the client held any back stands, unless those were late already.
            (Some(_), _, doubt)
                if !halted_gaps
                    && judged(View { before_limit: true, ideal: doubt.is_some() }) == Verdict::Fails =>
            {
                (Verdict::Fails, None)
            }
            (None, Some(_), _)
                if !halted_gaps
                    && !self.client.timing.overwhelmed()
                    && judgement.verdict == Verdict::Fails
                    && judged(ideal) == Verdict::Fails =>
            {
                (Verdict::Fails, None)
            }
            // The server was not offered the load that the level asks for: not even *meets* would be meaningful.
            (Some(fault), ..) => (Verdict::Invalid, Some(fault)),
            (None, Some(behind), _) => (Verdict::Invalid, Some(self.client.halted.unwrap_or(behind))),
            (None, None, Some(fault)) if halted_gaps && judgement.verdict == Verdict::Fails => {
                (Verdict::Invalid, Some(fault))
            }
            // The client's lateness is included, so a step that meets would meet without it.
            (None, None, Some(fault))
                if judgement.verdict != Verdict::Meets && judged(ideal) != judgement.verdict =>
            {
                (Verdict::Invalid, Some(fault))
            }
            // What a halt touched is no evidence, so that the step is measured again rather than left undecided.
            (None, None, _) if judgement.verdict == Verdict::Undecided && self.client.halted.is_some() => {
                (Verdict::Invalid, self.client.halted)
            }
            _ => (judgement.verdict, None),
        };
        let fault = fault.as_ref().map(client_fault::reason);
        (row.low, row.high, row.verdict) =
            (judgement.low, judgement.high, self.after_abort(verdict, part, p0));
        JudgedRow { row, p0, inflation, title, fault, answered: self.answered(part), missed: tally.missed }
    }

    /// Turns a tally into a row that is not yet judged.
    fn row(
        &self,
        (slo, part): (&Slo, Option<LimitGroup<'a>>),
        limit: String,
        limit_ms: Option<f64>,
        tally: &Tally,
    ) -> LimitRow {
        let hit = tally.by_request.iter().filter(|m| **m > 0).count() as u64;
        let n = tally.by_request.len() as u64;
        let rate = self.judged_by(part).count() as f64 / self.input.measure.as_secs_f64().max(1e-9);
        let together = gap(rate, Self::mean_e2e_s(self.judged_by(part)), hit, n);
        let clusters = clusters(tally.by_request.iter().copied(), together);
        LimitRow {
            tier: slo.tier().into(),
            class: part.map_or(ALL, |part| part.class()).into(),
            limit,
            limit_ms,
            n: tally.counts.n,
            misses: tally.counts.misses,
            censored: tally.counts.censored,
            clusters: clusters.count,
            cluster_sq: clusters.sum_sq.max(scatter(&tally.by_request)),
            co_misses: Vec::new(),
            attainment: tally.counts.attainment(),
            low: None,
            high: None,
            verdict: Verdict::Undecided,
        }
    }

    /// Returns how many requests count as one independent request for a limit. Gaps between tokens have no clusters of their own:
    /// all gaps of a request already form one.
    fn inflation(&self, row: &LimitRow, p0: f64) -> f64 {
        match self.input.kind {
            StepKind::Baseline => UNLOADED_INFLATION,
            _ if row.limit.starts_with("itl.") => INFLATION,
            _ => pooled_inflation(self.input.earlier, Some(row), &row.tier, &row.key(), p0),
        }
    }

    fn answered(&self, part: Option<LimitGroup<'a>>) -> bool {
        self.judged_by(part).any(CompactRecord::ok)
    }

    /// Returns true if a limit of this metric cannot apply by plan: it is about gaps between tokens, and every request asked for
    /// at most one token. Such a limit is met. A limit that could apply but for which no answer could be judged (no content token
    /// came, or all of them in one event) stays undecided.
    fn void(&self, part: LimitGroup<'a>, metric: Metric) -> bool {
        metric.part() == AnswerPart::Pace
            && self.answered(Some(part))
            && self.judged_by(Some(part)).all(|r| r.output_asked <= 1)
    }

    /// Judges a tally by its confidence bounds, or as failed by gross misses.
    fn judge_tally(&self, tally: &Tally, p0: f64, inflation: f64) -> Judgement {
        let counts = tally.counts;
        let mut judgement = judge(counts, p0, self.error, inflation);
        let gross_inflation = match self.input.kind {
            StepKind::Baseline => UNLOADED_INFLATION,
            _ => GROSS_INFLATION,
        };
        if judgement.verdict == Verdict::Undecided
            && gross(counts.misses, counts.n, p0, gross_inflation * tally.inflation.max(1.0)) > GROSS
        {
            judgement.verdict = Verdict::Fails;
        }
        judgement
    }

    /// Adjusts a verdict for the reason why the step was stopped.
    ///
    /// - Every request failed: every limit that judges a request fails.
    /// - No answer, from too few requests to say why: never meets.
    /// - Stopped for errors: never meets. A limit fails if it allows no larger share of misses (`p0`) than the plan's share of
    ///   errors, and if more than that share of the requests it judges failed; answers under way when the plan's timeout ended
    ///   them do not count as failed ([`CompactRecord::is_lost`]).
    fn after_abort(&self, verdict: Verdict, part: Option<LimitGroup<'a>>, p0: f64) -> Verdict {
        match (self.input.abort, verdict) {
            (Some(Abort::AllFailed), Verdict::Undecided | Verdict::Meets) => {
                if self.judged_by(part).next().is_some() { Verdict::Fails } else { Verdict::Undecided }
            }
            (Some(Abort::NoAnswer), Verdict::Meets) => Verdict::Undecided,
            (Some(Abort::Errors), Verdict::Undecided | Verdict::Meets) => {
                let (failed, of) = self.judged_by(part).fold((0.0, 0.0), |(failed, of), r| {
                    (failed + f64::from(u8::from(r.is_lost())), of + 1.0)
                });
                let beyond = self.input.max_error_share.is_some_and(|most| p0 <= most && failed > most * of);
                if beyond { Verdict::Fails } else { Verdict::Undecided }
            }
            (_, verdict) => self.broken_off(verdict),
        }
    }

    /// Adjusts a verdict for a step that ended early for reasons outside its load: a broken-off step never meets, and one in
    /// which the server went away decides nothing, whatever its last requests looked like.
    fn broken_off(&self, verdict: Verdict) -> Verdict {
        match (self.input.abort, verdict) {
            (Some(Abort::ServerGone), _) => Verdict::Undecided,
            (Some(why), Verdict::Meets) if why.is_broken_off() => Verdict::Undecided,
            (_, verdict) => verdict,
        }
    }
}

/// Combines the judgements of all limits of one request: missed if any is missed, else unknown if any is unknown.
pub(super) fn together(r: &Record, by_limit: impl Iterator<Item = Judged>) -> Judged {
    let own = match r.outcome {
        Outcome::Ok => Judged::Met,
        Outcome::Failed => Judged::Missed,
        Outcome::Cut => Judged::Unknown,
    };
    by_limit.fold(own, |all, one| match (all, one) {
        (Judged::Missed, _) | (_, Judged::Missed) => Judged::Missed,
        (Judged::Unknown, _) | (_, Judged::Unknown) => Judged::Unknown,
        _ => Judged::Met,
    })
}
