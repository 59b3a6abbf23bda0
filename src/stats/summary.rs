//! A step's records become one [`Step`]: the row of `steps.csv`, the rows of `limits.csv`, and the verdict.

use super::fault::{lateness_ms, sent_in_window};
use super::itl::ItlTally;
use super::limits::{Counted, rows};
use super::percentile::quantiles;
use super::reason::reason;
pub use super::reason::{tier_verdict, worst};
use super::steady::{Window, steady};
use super::step::{Abort, LimitRow, Quantiles, ServerSide, Step, StepKind, Verdict};
use crate::level::{Control, Level};
use crate::record::{Conn, Outcome, Phase, Record};
use crate::slo::{Metric, Slo};
use crate::units::ms;
use std::{collections::BTreeMap, time::Duration};

/// What is known of a step when it has ended.
#[derive(Debug, Clone)]
pub struct StepInput<'a> {
    /// The curve it belongs to.
    pub series: &'a str,
    /// Number within the sweep, from 1.
    pub step: u32,
    /// What it was measured for.
    pub kind: StepKind,
    /// What was held.
    pub level: Level,
    /// When it started (RFC 3339).
    pub started_at: &'a str,
    /// Seconds from the start of the sweep to its start.
    pub started_s: f64,
    /// Seconds from the start of the sweep to its end, drain included.
    pub ended_s: f64,
    /// Load before the measured window.
    pub settle: Duration,
    /// The measured window, as it was: shorter than planned where the step was aborted.
    pub measure: Duration,
    /// How long the load was kept on afterwards.
    pub tail: Duration,
    /// How long it took until the server was empty.
    pub drain: Duration,
    /// Why it ended early, if it did.
    pub abort: Option<Abort>,
    /// Every record of the step, in any order, with times from its start.
    pub records: &'a [Record],
    /// The gaps of its measured requests.
    pub itl: &'a ItlTally,
    /// The tiers of the SLO, resolved; the step's own verdict is that of the first.
    pub tiers: &'a [Slo],
    /// 99th percentile of socket readable → stamp.
    pub receive_lag_p99_ms: Option<f64>,
    /// How often a verdict may be taken of the step while it runs, the end included; they share the error.
    pub looks: u32,
    /// Confidence of every verdict, on each side.
    pub confidence: f64,
    /// Whether `max-in-flight` was reached, or descriptors or ports ran out.
    pub client_limit: bool,
    /// Price of the server per hour.
    pub price_per_hour: Option<f64>,
}

impl StepInput<'_> {
    fn measured(&self) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(|r| r.phase == Phase::Measure)
    }

    /// Answers, of any phase, whose last token came within the measured window.
    fn completed_in_window(&self) -> impl Iterator<Item = &Record> {
        let window = self.settle..self.settle + self.measure;
        let loaded = self.records.iter().filter(|r| r.phase != Phase::Warmup && r.ok());
        loaded.filter(move |r| window.contains(&r.last_token.unwrap_or(r.end)))
    }

    fn per_s(&self, n: f64) -> f64 {
        let s = self.measure.as_secs_f64();
        if s > 0.0 { n / s } else { 0.0 }
    }
}

/// Sums a step up. The server's own counters are left empty: the director fills them in.
pub fn summarize(input: &StepInput<'_>) -> Step {
    let closed = input.level.control == Control::Concurrency;
    let steady = steady(input.records, Window::new(input.settle, input.measure), closed);
    let counted = rows(input, &steady);
    let tier = input.tiers.first().map_or("main", Slo::tier).to_owned();
    let limits: Vec<LimitRow> = counted.iter().map(|c| c.row.clone()).collect();
    let (verdict, binding) = tier_verdict(&limits, &tier);
    let reason = match (input.abort, verdict) {
        (Some(abort @ (Abort::Interrupted | Abort::ServerGone)), Verdict::Undecided) => {
            format!("broken off ({abort}) before it could be shown that the SLO is met")
        }
        _ => reason(&counted, &tier, verdict, binding.as_deref(), steady.in_flight_slope),
    };
    let measured: Vec<&Record> = input.measured().collect();
    let count = |outcome| measured.iter().filter(|r| r.outcome == outcome).count() as u64;
    let (output_tokens_per_s, prompt_tokens_per_s) = token_rates(input);
    let joint = limits.iter().find(|r| r.tier == tier && r.limit == "joint");
    let good = joint.map_or(0, |r| r.n.saturating_sub(r.misses + r.censored));
    Step {
        series: input.series.to_owned(),
        step: input.step,
        kind: input.kind,
        level: input.level,
        started_at: input.started_at.to_owned(),
        started_s: input.started_s,
        ended_s: input.ended_s,
        settle_s: input.settle.as_secs_f64(),
        measure_s: input.measure.as_secs_f64(),
        tail_s: input.tail.as_secs_f64(),
        drain_s: input.drain.as_secs_f64(),
        abort: input.abort,
        due_n: measured.len() as u64,
        offered_rate: input.per_s(measured.len() as f64),
        sent_rate: input.per_s(sent_in_window(input) as f64),
        achieved_rate: input.per_s(input.completed_in_window().count() as f64),
        good_rate: input.per_s(good as f64),
        completed: count(Outcome::Ok),
        failed: count(Outcome::Failed),
        cut: count(Outcome::Cut),
        retried: measured.iter().filter(|r| r.attempts > 1).count() as u64,
        output_tokens_per_s,
        prompt_tokens_per_s,
        input_tokens_mean: mean(measured.iter().filter(|r| r.ok()).filter_map(|r| r.input_tokens)),
        output_tokens_mean: mean(measured.iter().filter(|r| r.ok()).filter_map(|r| r.output_tokens)),
        latency: latencies(&measured, input.itl),
        joint_attainment: joint.and_then(|r| r.attainment),
        in_flight_mean: steady.in_flight_mean,
        in_flight_max: steady.in_flight_max,
        in_flight_slope: steady.in_flight_slope,
        ttft_slope: steady.ttft_slope,
        little_residual: steady.little_residual,
        lateness_p50_ms: lateness_ms(&measured, 500),
        lateness_p99_ms: lateness_ms(&measured, 990),
        receive_lag_p99_ms: input.receive_lag_p99_ms,
        conn_new: measured.iter().filter(|r| r.conn == Some(Conn::New)).count() as u64,
        server: ServerSide::default(),
        cost_per_mtok: cost(input.price_per_hour, output_tokens_per_s),
        stable: told(steady.stable, &counted, &tier),
        verdict,
        binding,
        reason,
        limits,
    }
}

/// Stability as the step shows it: not known where the backlog was the client's.
fn told(stable: Option<bool>, rows: &[Counted], tier: &str) -> Option<bool> {
    let row = rows.iter().find(|c| c.row.tier == tier && c.row.limit == "stability")?;
    stable.filter(|stable| *stable || row.row.verdict != Verdict::Invalid)
}

/// Output and prompt tokens per second of the answers completed within the window. Where the server does not tell the
/// prompt's tokens, those that were asked for.
fn token_rates(input: &StepInput<'_>) -> (f64, f64) {
    let (mut output, mut prompt) = (0_u64, 0_u64);
    for r in input.completed_in_window() {
        output += u64::from(r.output_tokens.unwrap_or(0));
        prompt += u64::from(r.input_tokens.unwrap_or(r.input_asked));
    }
    (input.per_s(output as f64), input.per_s(prompt as f64))
}

/// Cost per million output tokens at this many a second.
fn cost(price_per_hour: Option<f64>, tokens_per_s: f64) -> Option<f64> {
    price_per_hour.filter(|_| tokens_per_s > 0.0).map(|price| price / 3600.0 / tokens_per_s * 1e6)
}

fn latencies(measured: &[&Record], itl: &ItlTally) -> BTreeMap<Metric, Quantiles> {
    let of = |metric: Metric| match metric {
        Metric::Itl => itl.quantiles(),
        _ => {
            let answered = measured.iter().filter(|r| r.ok());
            let mut values: Vec<f64> = answered.filter_map(|r| metric.of(r)).map(ms).collect();
            quantiles(&mut values, 1.0)
        }
    };
    Metric::ALL.into_iter().map(|m| (m, of(m))).collect()
}

fn mean(values: impl Iterator<Item = u32>) -> Option<f64> {
    let (n, sum) = values.fold((0_u64, 0_u64), |(n, sum), v| (n + 1, sum + u64::from(v)));
    (n > 0).then(|| sum as f64 / n as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Failure, Finished};
    use crate::stats::queues::{Queue, Service};

    const FAST: Queue = Queue { servers: 1, mean_s: 0.002, service: Service::Fixed };

    fn tiers(text: &str) -> Vec<Slo> {
        vec![toml::from_str(text).unwrap()]
    }

    fn input<'a>(rate: f64, records: &'a [Record], itl: &'a ItlTally, tiers: &'a [Slo]) -> StepInput<'a> {
        StepInput {
            series: "main",
            step: 1,
            kind: StepKind::List,
            level: Level::rate(rate),
            started_at: "2026-11-01T00:00:00Z",
            started_s: 0.0,
            ended_s: 90.0,
            settle: Duration::from_secs(10),
            measure: Duration::from_secs(60),
            tail: Duration::from_secs(5),
            drain: Duration::from_secs(1),
            abort: None,
            records,
            itl,
            tiers,
            receive_lag_p99_ms: Some(0.1),
            looks: 1,
            confidence: 0.95,
            client_limit: false,
            price_per_hour: Some(3.6),
        }
    }

    /// A step of FAST at 100 req/s with each record changed by `change`, and its input by `set`.
    fn step(slo: &str, change: impl Fn(&mut Record), set: impl Fn(&mut StepInput<'_>)) -> Step {
        let mut records = FAST.records(100.0, 10.0, 60.0, 3);
        records.iter_mut().for_each(change);
        let (tiers, itl) = (tiers(slo), ItlTally::new(&tiers(slo)));
        let mut input = input(100.0, &records, &itl, &tiers);
        set(&mut input);
        summarize(&input)
    }

    const TTFT: &str = "ttft.p99 = \"100ms\"";

    fn fail(r: &mut Record, failure: Failure) {
        (r.outcome, r.failure, r.first_token, r.last_token) = (Outcome::Failed, Some(failure), None, None);
    }

    fn every(n: u64, change: impl Fn(&mut Record)) -> impl Fn(&mut Record) {
        move |r| {
            if r.id % n == 0 {
                change(r)
            }
        }
    }

    #[test]
    fn a_quiet_step_meets_and_its_figures_agree() {
        let s = step(TTFT, |_| (), |_| ());
        assert_eq!(
            (s.verdict, s.binding.as_deref(), s.stable),
            (Verdict::Meets, Some("ttft.p99"), Some(true)),
            "{}",
            s.reason
        );
        assert_eq!(
            s.reason,
            format!("p99 TTFT ≤ 100ms: 0 misses of {} requests: at most 0.79 %, allowed 1 %", s.due_n)
        );
        for (what, got, want, within) in [
            ("offered", s.offered_rate, 100.0, 5.0),
            ("sent", s.sent_rate, s.offered_rate, 0.1),
            ("achieved", s.achieved_rate, s.offered_rate, 0.1),
            ("good", s.good_rate, s.offered_rate, 1e-9),
            ("output tokens", s.output_tokens_per_s, 2.0 * s.achieved_rate, 1e-9),
            ("in flight", s.in_flight_mean, 0.225, 0.03), // ρ + ρ²/2(1−ρ) at ρ = 0.2
            ("cost", s.cost_per_mtok.unwrap(), 1e-3 / s.output_tokens_per_s * 1e6, 1e-9),
            ("TPOT", s.quantiles(Metric::Tpot).p50.unwrap(), 2.0, 1e-3),
        ] {
            assert!((got - want).abs() <= within, "{what}: {got}, not {want}");
        }
        assert_eq!((s.completed, s.failed, s.cut, s.joint_attainment), (s.due_n, 0, 0, Some(1.0)));
        assert_eq!(s.quantiles(Metric::Ttft).n, s.due_n);
        assert_eq!(
            s.limits.iter().map(|r| r.limit.as_str()).collect::<Vec<_>>(),
            ["ttft.p99", "joint", "stability"]
        );
    }

    #[test]
    fn verdicts_follow_the_records() {
        let slow = |r: &mut Record| r.first_token = Some(r.due + Duration::from_millis(150));
        let keep = |_: &mut StepInput<'_>| ();
        for (what, step, want, binding) in [
            ("20 % too slow", step(TTFT, every(5, slow), keep), Verdict::Fails, Some("ttft.p99")),
            ("1 % too slow", step(TTFT, every(100, slow), keep), Verdict::Undecided, Some("ttft.p99")),
            (
                "20 % refused",
                step(
                    "ttft.p99 = \"100ms\"\nerror-rate = 0.01",
                    every(5, |r| fail(r, Failure::RateLimited)),
                    keep,
                ),
                Verdict::Fails,
                Some("error-rate"),
            ),
            (
                "one refused of none allowed",
                step("error-rate = 0.0", every(3000, |r| fail(r, Failure::ServerError)), keep),
                Verdict::Fails,
                Some("error-rate"),
            ),
            (
                "too short to tell",
                step(TTFT, |_| (), |i| i.records = &i.records[..2000]),
                Verdict::Undecided,
                Some("ttft.p99"),
            ),
            (
                "interrupted",
                step(TTFT, |_| (), |i| i.abort = Some(Abort::Interrupted)),
                Verdict::Undecided,
                Some("ttft.p99"),
            ),
            (
                "server gone",
                step(TTFT, every(5, slow), |i| i.abort = Some(Abort::ServerGone)),
                Verdict::Fails,
                Some("ttft.p99"),
            ),
            (
                "all failed at once",
                step(
                    TTFT,
                    |r| fail(r, Failure::Connect),
                    |i| (i.abort, i.records) = (Some(Abort::AllFailed), &i.records[1100..1110]),
                ),
                Verdict::Fails,
                Some("ttft.p99"),
            ),
            (
                "TPOT of one-token answers",
                step("tpot.p99 = \"1ms\"", |r| r.output_tokens = Some(1), keep),
                Verdict::Meets,
                None,
            ),
        ] {
            assert_eq!((step.verdict, step.binding.as_deref()), (want, binding), "{what}: {}", step.reason);
        }
    }

    #[test]
    fn an_overload_is_unstable_whatever_the_limits() {
        let q = Queue { servers: 1, mean_s: 0.05, service: Service::Fixed };
        let records = q.records(24.0, 10.0, 60.0, 1);
        let (tiers, itl) = (tiers("e2e.p99 = \"1h\""), ItlTally::new(&[]));
        let s = summarize(&input(24.0, &records, &itl, &tiers));
        assert_eq!(
            (s.verdict, s.binding.as_deref(), s.stable),
            (Verdict::Fails, Some("stability"), Some(false))
        );
        assert!(s.reason.starts_with("not stable") && s.overloaded(), "{}", s.reason);
        let mut closed = input(24.0, &records, &itl, &tiers);
        closed.level = Level::concurrency(8);
        assert_eq!(summarize(&closed).stable, Some(true), "a closed loop is bounded");
    }

    #[test]
    fn a_late_client_is_no_slow_server() {
        let late = |ms| {
            move |r: &mut Record| {
                let by = Duration::from_millis(ms);
                (r.sent, r.end) = (r.sent.map(|t| t + by), r.end + by);
                (r.first_token, r.last_token) = (r.first_token.map(|t| t + by), r.last_token.map(|t| t + by));
            }
        };
        let keep = |_: &mut StepInput<'_>| ();
        let s = step(TTFT, late(150), keep);
        assert_eq!(
            (s.verdict, s.binding.clone()),
            (Verdict::Invalid, None),
            "the limit is passed before anything is sent"
        );
        assert!(s.reason.contains("p99 lateness of 150 ms is above 5 % of 100 ms"), "{}", s.reason);
        assert_eq!(
            step(TTFT, late(50), keep).verdict,
            Verdict::Meets,
            "its lateness included, it still meets"
        );
        let slow = |r: &mut Record| {
            late(50)(r);
            r.first_token = r.sent.map(|t| t + Duration::from_millis(150));
        };
        assert_eq!(step(TTFT, slow, keep).verdict, Verdict::Fails, "it fails counted from sent as well");
        // 50 ms a token, 2 of them lag: the limit of 49 ms is missed by the client.
        let stretched = |r: &mut Record| r.last_token = r.first_token.map(|t| t + Duration::from_millis(50));
        for (lag, want) in [(0.1, Verdict::Fails), (3.0, Verdict::Invalid)] {
            let s = step("tpot.p99 = \"49ms\"", stretched, |i| i.receive_lag_p99_ms = Some(lag));
            assert_eq!(s.verdict, want, "lag of {lag} ms: {}", s.reason);
        }
    }

    #[test]
    fn a_client_at_its_limit_says_nothing_of_the_server() {
        let held = |from: u64| {
            move |r: &mut Record| {
                if r.due >= Duration::from_secs(from) {
                    (r.sent, r.end) = (None, r.due);
                    fail(r, Failure::ClientLimit);
                }
            }
        };
        let limited = |i: &mut StepInput<'_>| i.client_limit = true;
        let s = step(TTFT, held(40), limited);
        assert_eq!(s.verdict, Verdict::Invalid);
        assert!(s.reason.contains("max-in-flight") && s.sent_rate < 60.0, "{}", s.reason);
        let slow_then_held = |r: &mut Record| {
            r.first_token = Some(r.due + Duration::from_millis(150));
            held(40)(r);
        };
        assert_eq!(step(TTFT, slow_then_held, limited).verdict, Verdict::Fails, "shown by those due before");
        let unsent = every(10, |r| {
            (r.sent, r.first_token, r.last_token, r.outcome) = (None, None, None, Outcome::Cut)
        });
        let s = step(TTFT, unsent, |_| ());
        assert_eq!(s.verdict, Verdict::Invalid);
        assert!(s.reason.starts_with("the client sent"), "{}", s.reason);
        let refused = step(
            TTFT,
            |r| {
                fail(r, Failure::Connect);
                r.sent = None
            },
            |_| (),
        );
        assert_eq!(refused.verdict, Verdict::Fails, "a refused connection is the server's");
    }

    #[test]
    fn gaps_and_tiers_have_rows_of_their_own() {
        let mut records = FAST.records(100.0, 10.0, 60.0, 3);
        let mut two = tiers("name = \"gold\"\nitl.p95 = \"5ms\"");
        two.extend(tiers("name = \"best-effort\"\nitl.p95 = \"50ms\"\nttft.p50 = \"1s\""));
        let mut itl = ItlTally::new(&two);
        for r in &mut records {
            r.output_asked = 11;
            let stalled = r.id % 4 == 0; // a quarter of the requests, each with three of ten gaps: 7.5 %
            let gaps_us = (0..10).map(|i| if stalled && i < 3 { 20_000 } else { 1_000 }).collect();
            itl.add(&Finished { record: r.clone(), gaps_us, sample: None });
        }
        let s = summarize(&input(100.0, &records, &itl, &two));
        let row = |tier: &str, limit: &str| {
            s.limits.iter().find(|r| r.tier == tier && r.limit == limit).unwrap().clone()
        };
        let gold = row("gold", "itl.p95");
        assert_eq!((gold.n, s.quantiles(Metric::Itl).n), (10 * s.due_n, 10 * s.due_n));
        assert!(
            (gold.attainment.unwrap() - 0.925).abs() < 1e-3 && gold.verdict == Verdict::Fails,
            "{gold:?}"
        );
        assert!(gold.cluster_sq >= 9 * gold.clusters, "three misses at a time: {gold:?}");
        assert_eq!(tier_verdict(&s.limits, "best-effort").0, Verdict::Meets);
        assert_eq!(
            (s.verdict, s.binding.as_deref()),
            (Verdict::Fails, Some("itl.p95")),
            "the first tier is the step's"
        );
        assert!((s.joint_attainment.unwrap() - 0.75).abs() < 0.01, "a request is good if its own gaps are");
    }

    #[test]
    fn nothing_measured_is_undecided() {
        let s = step(TTFT, |_| (), |i| i.records = &[]);
        assert_eq!((s.verdict, s.due_n, s.stable, s.cost_per_mtok), (Verdict::Undecided, 0, None, None));
        assert_eq!(s.reason, "p99 TTFT ≤ 100ms: no requests to judge");
    }
}
