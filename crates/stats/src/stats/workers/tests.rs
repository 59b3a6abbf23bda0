//! Faults of workers, and the comparison of their TTFT.

use super::*;
use crate::stats::compact_record::compact;
use crate::stats::itl::ItlTally;
use crate::stats::summary::summarize;
use crate::stats::summary::tests::input;
use goodput_core::level::Level;
use goodput_core::record::Record;
use goodput_core::slo::Slo;

fn report(worker: u16) -> WorkerReport {
    WorkerReport {
        worker,
        id: format!("node-{worker}"),
        start_late_ms: 0.1,
        clock_offset_ms: -3.0,
        clock_drift_ms: 0.02,
        clock_tolerance_ms: 2.0,
        fault: None,
    }
}

/// Returns requests dealt in turn to `of` workers, each sent when due; `ttft` returns the TTFT of the i-th in milliseconds.
fn records(n: u64, of: u64, ttft: impl Fn(u64) -> f64) -> Vec<Record> {
    let one = |id: u64| {
        let mut r = Record::due(id, Phase::Measure, Duration::from_secs(10) + Duration::from_millis(10 * id));
        let first = r.due + Duration::from_secs_f64(ttft(id) / 1e3);
        (r.worker, r.outcome, r.output_asked) = (Some((id % of) as u16 + 1), Outcome::Ok, 10);
        (r.sent, r.first_token, r.last_token, r.end) = (Some(r.due), Some(first), Some(first), first);
        r
    };
    (0..n).map(one).collect()
}

#[test]
fn rows_count_the_requests_of_each_worker() {
    let mut all = records(300, 3, |id| 20.0 * (id % 3 + 1) as f64);
    all[0].phase = Phase::Settle;
    (all[1].outcome, all[4].sent) = (Outcome::Failed, all[4].sent.map(|t| t + Duration::from_millis(7)));
    // In any order, and one without a request: a worker of an earlier step.
    let got = step_workers(&compact(&all), &[report(3), report(1), report(2), report(4)]);
    let of: Vec<_> = got.iter().map(|w| (w.worker, w.n, w.failed, w.ttft_p50_ms)).collect();
    assert_eq!(
        of,
        [(3, 100, 0, Some(60.0)), (1, 99, 0, Some(20.0)), (2, 100, 1, Some(40.0)), (4, 0, 0, None)]
    );
    assert_eq!(
        got.iter().map(|w| w.lateness_p99_ms).collect::<Vec<_>>(),
        [Some(0.0), Some(0.0), Some(0.0), None]
    );
    assert_eq!((got[0].id.as_str(), got[0].clock_offset_ms, got[0].clock_drift_ms), ("node-3", -3.0, 0.02));
    assert!(step_workers(&compact(&all), &[]).is_empty(), "a single load machine");
}

/// Rows: delay of the start, drift of the clock, the fault in the report, and that in the row.
#[test]
fn clocks_are_a_fault_beyond_their_bounds() {
    use WorkerFault::{LateStart, Lost, UnstableClock};
    for (late, drift, reported, want) in [
        (10.0, 2.0, None, None),
        (10.1, 0.0, None, Some(LateStart)),
        (0.0, 2.1, None, Some(UnstableClock)),
        (0.0, -2.1, None, Some(UnstableClock)),
        (900.0, 90.0, None, Some(LateStart)),
        (900.0, 90.0, Some(Lost), Some(Lost)),
    ] {
        let one = WorkerReport { start_late_ms: late, clock_drift_ms: drift, fault: reported, ..report(1) };
        let got = step_workers(&[], &[one])[0].fault;
        assert_eq!(got, want, "{late} ms late, drift of {drift} ms, {reported:?}");
    }
}

#[test]
fn each_fault_names_the_worker() {
    let row = |fault| StepWorker {
        fault,
        lateness_p99_ms: Some(14.0),
        ..step_workers(&[], &[WorkerReport { start_late_ms: 31.0, clock_drift_ms: -2.5, ..report(3) }])
            .remove(0)
    };
    assert_eq!(row(None).fault_text(), None);
    for (fault, want) in WorkerFault::ALL.into_iter().zip([
        "the worker node-3 was lost",
        "the worker node-3 stood still",
        "the worker node-3 was replaced by another process",
        "records of the worker node-3 are missing",
        "the worker node-3 reported requests that are not its own, or one of them twice",
        "the worker node-3 refused the step",
        "the worker node-3 ran out of descriptors or ports, or reached its max-in-flight",
        "the worker node-3 started 31 ms late",
        "the clock of the worker node-3 drifted by 2.5 ms",
        "the worker node-3 sent late: p99 14 ms",
    ]) {
        assert_eq!(row(Some(fault)).fault_text().as_deref(), Some(want));
    }
}

/// Rows: case, requests, workers, TTFT of a request, and the worker that is apart.
#[test]
fn only_a_worker_that_is_materially_slower_is_apart() {
    type Ttft = fn(u64) -> f64;
    // The requests that are near in time, one for each worker, vary alike.
    fn noise(id: u64) -> f64 {
        20.0 + ((id * 7919) % 1009) as f64 / 100.0
    }
    for (what, n, of, ttft, want) in [
        ("all alike", 4_000, 4, noise as Ttft, None),
        (
            "one in a farther zone",
            4_000,
            4,
            |id| noise(id) + if id % 4 == 2 { 12.0 } else { 0.0 },
            Some("node-3"),
        ),
        ("20 µs among many", 400_000, 4, |id| noise(id) + if id % 4 == 2 { 0.02 } else { 0.0 }, None),
        ("12 %, but half a millisecond", 40_000, 4, |id| 4.0 + if id % 4 == 2 { 0.5 } else { 0.0 }, None),
        ("2 ms, but 5 %", 40_000, 4, |id| 2.0 * noise(id) + if id % 4 == 2 { 2.0 } else { 0.0 }, None),
        ("too few to tell", 16, 4, |id| noise(id) + if id % 4 == 2 { 50.0 } else { 0.0 }, None),
        (
            "half of them: the slower",
            4_000,
            4,
            |id| noise(id) + 12.0 * (id % 4 / 2) as f64 + (id % 4 / 3) as f64,
            Some("node-4"),
        ),
        ("of two", 2_000, 2, |id| noise(id) + 12.0 * (id % 2) as f64, Some("node-2")),
        ("one", 2_000, 1, noise, None),
    ] {
        let reports: Vec<WorkerReport> = (1..=of as u16).map(report).collect();
        let step =
            Step { workers: step_workers(&compact(&records(n, of, ttft)), &reports), ..Step::default() };
        let apart = step.workers_apart();
        assert_eq!(apart.map(|a| a.worker.id.as_str()), want, "{what}");
        assert!(apart.is_none_or(|a| a.ttft_ms > a.others_ms && a.worker.apart_p < Some(0.001)), "{what}");
    }
}

fn tiers(text: &[&str]) -> Vec<Slo> {
    text.iter().map(|slo| toml::from_str(slo).unwrap()).collect()
}

/// Summarises a step of 6,000 requests from 16 workers under two tiers.
fn step(records: &[Record], reports: &[WorkerReport], abort: Option<Abort>) -> Step {
    step_after(&[], records, reports, abort)
}

/// As [`step`], after other steps of the series.
fn step_after(earlier: &[Step], records: &[Record], reports: &[WorkerReport], abort: Option<Abort>) -> Step {
    let records = compact(records);
    let tiers = tiers(&["name = \"a\"\nttft.'p99.9' = \"100ms\"", "name = \"b\"\nttft.p99 = \"10s\""]);
    let itl = ItlTally::new(&tiers);
    summarize(&StepInput { earlier, workers: reports, abort, ..input(100.0, &records, &itl, &tiers) })
}

fn verdicts(s: &Step) -> [Verdict; 2] {
    ["a", "b"].map(|tier| tier_verdict(&s.limits, tier).0)
}

/// Rows: case; faults of workers 2 and 3; why the step was aborted; the reason.
#[test]
fn a_worker_fault_makes_the_step_invalid_for_every_tier() {
    use WorkerFault::{ClientLimit, LateStart, Lost, Refused};
    let all = records(6_000, 16, |_| 20.0);
    for (what, second, third, abort, want) in [
        ("one", None, Some(Lost), None, "the worker node-3 was lost"),
        ("the gravest of two", Some(LateStart), Some(Refused), None, "the worker node-3 refused the step"),
        (
            "and of two more",
            Some(Lost),
            Some(ClientLimit),
            Some(Abort::WorkerLost),
            "the worker node-2 was lost",
        ),
        ("nobody knows which", None, None, Some(Abort::WorkerLost), "a worker was lost or failed"),
        ("a broken-off step", None, Some(Lost), Some(Abort::Interrupted), "the worker node-3 was lost"),
    ] {
        let mut reports: Vec<WorkerReport> = (1..=16).map(report).collect();
        (reports[1].fault, reports[2].fault) = (second, third);
        let s = step(&all, &reports, abort);
        assert_eq!((verdicts(&s), s.verdict), ([Verdict::Invalid; 2], Verdict::Invalid), "{what}");
        assert_eq!((s.reason.as_str(), s.binding.as_deref(), s.stable), (want, None, None), "{what}");
        assert!(s.is_worker_fault() && s.is_void(), "{what}");
    }
    let reports: Vec<WorkerReport> = (1..=16).map(report).collect();
    let s = step(&all, &reports, None);
    assert_eq!(
        (verdicts(&s), s.is_worker_fault(), s.workers.len()),
        ([Verdict::Undecided, Verdict::Meets], false, 16)
    );
    let mut reports = reports;
    reports[0].fault = Some(Lost);
    let gone = step(&all, &reports, Some(Abort::ServerGone));
    assert_eq!(
        (verdicts(&gone), gone.is_worker_fault()),
        ([Verdict::Undecided; 2], false),
        "the server is gone"
    );
}

/// A worker that sends late is less than a hundredth of the requests, so that the lateness of all shows nothing.
#[test]
fn a_late_worker_is_found_among_many() {
    let reports: Vec<WorkerReport> = (1..=16).map(report).collect();
    let late = |ms: u64| {
        let mut all = records(6_000, 16, |_| 60.0);
        for r in all.iter_mut().filter(|r| r.id % 112 == 5) {
            let by = Duration::from_millis(ms);
            for t in [&mut r.sent, &mut r.first_token, &mut r.last_token] {
                *t = t.map(|t| t + by);
            }
            r.end += by;
        }
        all
    };
    for (ms, want, reason) in [
        (50, Verdict::Invalid, "the worker node-6 sent late: p99 50 ms"),
        // As late, but no request misses a limit for it.
        (30, Verdict::Undecided, "p99.9 TTFT ≤ 100 ms: 0 misses of 6,000 requests"),
    ] {
        let s = step(&late(ms), &reports, None);
        assert_eq!(s.lateness_p99_ms, Some(0.0), "of all requests");
        assert_eq!(
            (verdicts(&s)[0], s.is_worker_fault()),
            (want, want == Verdict::Invalid),
            "{ms} ms: {}",
            s.reason
        );
        assert!(s.reason.starts_with(reason), "{}", s.reason);
    }
    // The third time the load is too much for the workers: the step is judged as if one machine had been late.
    let first = step(&late(50), &reports, None);
    let lost = {
        let mut reports: Vec<WorkerReport> = (1..=16).map(report).collect();
        reports[3].fault = Some(WorkerFault::Lost);
        step(&late(50), &reports, None)
    };
    for (earlier, is_repeated) in [
        (vec![first.clone()], true),
        (vec![lost, first.clone()], true),
        (vec![first.clone(), Step { level: Level::rate(7.0), ..first.clone() }], true),
        (vec![first.clone(), first.clone()], false),
    ] {
        let s = step_after(&earlier, &late(50), &reports, None);
        assert_eq!((verdicts(&s)[0], s.is_worker_fault()), (Verdict::Invalid, is_repeated), "{}", s.reason);
    }
    // Without workers, the client as a whole was not late: the misses are the server's.
    let mut alone = late(50);
    alone.iter_mut().for_each(|r| r.worker = None);
    assert_eq!(step(&alone, &[], None).verdict, Verdict::Fails);
}

/// Rows: seconds between two measurements, their errors in milliseconds, and the tolerated drift in milliseconds.
#[test]
fn a_clock_may_drift_as_quartz_does() {
    for (apart, error, want) in [(0.0, 0.0, 2.0), (30.0, 0.1, 2.1), (3_600.0, 0.0, 180.0)] {
        let tolerance = clock_tolerance(Duration::from_secs_f64(apart), Duration::from_secs_f64(error / 1e3));
        assert!((ms(tolerance) - want).abs() < 1e-9, "{apart} s: {tolerance:?}");
    }
}
