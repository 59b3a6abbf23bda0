//! The adaptive search against servers whose truth is known, on the bare engine model and in virtual time.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use goodput::level::{Control, Level};
use goodput::plan::Plan;
use goodput::search::Search;
use goodput::search::answer::{Goodput, Status};
use goodput::slo::Metric;
use goodput::stats::step::{Abort, Step, StepKind, Verdict};
use goodput::sweep::{self, Options, bare};
use tokio_util::sync::CancellationToken;

fn plan(server: &str, slo: &str, search: &str) -> Plan {
    let text = format!(
        "name = \"x\"\n[server]\nsimulated = {{ {server} }}\nwarmup-requests = 0\n[slo]\n{slo}\n\
         [workload.prompts.synthetic]\ninput-tokens = {{ fixed = 30 }}\noutput-tokens = {{ fixed = 2 }}\n\
         [step]\nsettle = \"5s\"\n[search]\n{search}\n"
    );
    Plan::from_text(&text).unwrap()
}

fn run(plan: &Plan) -> (Goodput, Vec<Step>) {
    let steps = bare::steps(plan).unwrap();
    let search = Search::new(&plan.search, &plan.step, plan.slo.as_slice(), None).unwrap();
    (search.answers("main", &steps).remove(0).goodput, steps)
}

const MD1: &str = "preset = \"md1\"";

fn budget(time: &str, max_rate: f64) -> String {
    format!("adaptive = {{ budget = \"{time}\" }}\nmax-rate = {max_rate}")
}

/// Queues of known truth; an hour is enough for the bracket to be narrow.
#[test]
fn the_bracket_holds_the_truth() {
    for (server, slo, truth) in [
        (MD1, "ttft.p99 = \"200ms\"", 9.2576),
        ("preset = \"mm1\"", "ttft.p99 = \"500ms\"", 10.7897),
        ("preset = \"mmc\"", "ttft.p99 = \"200ms\"", 10.713),
        // Ten times as fast: requests are plenty.
        ("preset = \"md1\", service = \"5ms\"", "ttft.p99 = \"20ms\"", 92.576),
    ] {
        let (g, steps) = run(&plan(server, slo, &budget("1h", 1000.0)));
        let (met, failed) = (g.met.unwrap_or(0.0), g.failed.unwrap_or(f64::INFINITY));
        assert_eq!(g.status, Status::Found, "{server}: {}", g.reason);
        assert!(met < truth && truth < failed, "{server}: {met} to {failed} for {truth}");
        assert!(failed / met < 2.0, "{server}: {met} to {failed}");
        assert_eq!(g.binding.as_deref(), Some("ttft.p99"), "{server}: {}", g.reason);
        phases(&steps, 3600.0);
    }
}

/// A baseline first, then the ramp from below, then the refinement; never a rate above one that failed, and in time.
fn phases(steps: &[Step], budget_s: f64) {
    let rank = |s: &Step| match s.kind {
        StepKind::Baseline => 0,
        StepKind::Ramp => 1,
        StepKind::Refine => 2,
        StepKind::List => 9,
    };
    assert!(
        steps.windows(2).all(|w| rank(&w[0]) <= rank(&w[1])),
        "{:?}",
        steps.iter().map(rank).collect::<Vec<_>>()
    );
    assert_eq!((steps[0].kind, steps[0].level), (StepKind::Baseline, Level::concurrency(1)));
    let mut failed = f64::INFINITY;
    for s in steps.iter().filter(|s| s.level.control == Control::Rate) {
        assert!(s.level.value < failed, "step {} at {} after {failed} failed", s.step, s.level);
        if s.verdict == Verdict::Fails {
            failed = failed.min(s.level.value);
        }
    }
    let end = steps.last().unwrap().ended_s;
    assert!(end <= budget_s, "{end} s of {budget_s}");
}

#[test]
fn a_limit_that_the_unloaded_server_misses_is_met_at_no_rate() {
    for slo in ["ttft.p99 = \"49ms\"", "ttft.p50 = \"20ms\"\ntpot.p99 = \"1s\""] {
        let (g, steps) = run(&plan(MD1, slo, &budget("15m", 1000.0)));
        assert_eq!((g.status, g.met, g.failed), (Status::None, None, None), "{}", g.reason);
        assert!(g.reason.contains("one request at a time already misses ttft.p"), "{}", g.reason);
        assert!(g.binding.as_deref().is_some_and(|b| b.starts_with("ttft")), "{:?}", g.binding);
        let s = steps.last().unwrap();
        assert!(s.ended_s < 60.0 && s.abort == Some(Abort::Gross), "within a minute: {} s", s.ended_s);
    }
}

#[test]
fn a_limit_that_never_binds_below_max_rate_is_not_reached() {
    let (g, steps) =
        run(&plan("preset = \"md1\", service = \"5ms\"", "ttft.p99 = \"100ms\"", &budget("15m", 60.0)));
    assert_eq!((g.status, g.rate, g.failed), (Status::NotReached, Some(60.0), None), "{}", g.reason);
    assert!(g.reason.contains("max-rate, 60 req/s"), "{}", g.reason);
    phases(&steps, 900.0);
}

/// TPOT of M/D/1 does not know the queue: only the backlog says that 20 requests/s are the end.
#[test]
fn a_server_that_saturates_is_bound_by_stability() {
    let (g, steps) =
        run(&plan("preset = \"md1\", decode = \"5ms\"", "tpot.p99 = \"50ms\"", &budget("1h", 1000.0)));
    assert_eq!((g.status, g.binding.as_deref()), (Status::Found, Some("stability")), "{}", g.reason);
    let (met, failed) = (g.met.unwrap(), g.failed.unwrap());
    assert!(met < 20.0 && (20.0..30.0).contains(&failed), "{met} to {failed}");
    assert!(met > 12.0, "{met} to {failed}");
    phases(&steps, 3600.0);
}

#[test]
fn too_small_a_budget_is_undecided_and_says_what_it_takes() {
    let (g, steps) = run(&plan(MD1, "ttft.p99 = \"200ms\"", &budget("3m", 1000.0)));
    assert_eq!((g.status, g.rate), (Status::Undecided, None), "{}", g.reason);
    assert!(g.reason.contains("budget of 3m"), "{}", g.reason);
    phases(&steps, 180.0);
}

#[test]
fn the_same_plan_and_seed_search_the_same() {
    let plan = plan("preset = \"mm1\"", "ttft.p99 = \"500ms\"", &budget("15m", 1000.0));
    let [a, b] = [(); 2].map(|()| run(&plan).1);
    assert!(a.len() >= 4);
    assert_eq!(a, b);
}

/// Rates that are no round numbers, and ones just above or below a doubling: the highest is offered exactly, and never more.
#[test]
fn max_rate_is_reached_exactly() {
    for max in [60.54, 60.56, 64.0, 51.2] {
        let (g, steps) =
            run(&plan("preset = \"md1\", service = \"5ms\"", "ttft.p99 = \"100ms\"", &budget("15m", max)));
        assert_eq!((g.status, g.met), (Status::NotReached, Some(max)), "{max}: {}", g.reason);
        assert!(steps.iter().all(|s| s.level.value <= max), "{max}");
    }
}

/// Answers that take twenty seconds: nothing is complete within a step of the ramp, and that is no plateau.
#[test]
fn slow_answers_are_no_overload() {
    let server = "preset = \"fixed\", ttft = \"100ms\", tpot = \"20s\"";
    let (g, steps) = run(&plan(server, "ttft.p90 = \"1s\"", &budget("1h", 8.0)));
    assert_eq!((g.status, g.met), (Status::NotReached, Some(8.0)), "{}", g.reason);
    phases(&steps, 3600.0);
}

/// A loaded step that fails says nothing of lower rates, even where hardly anything is in flight.
#[test]
fn only_the_unloaded_server_says_that_no_rate_meets() {
    // A request behind another misses: the truth is at about 0.2 requests/s.
    let (g, steps) = run(&plan(MD1, "ttft.p99 = \"60ms\"", &budget("15m", 1000.0)));
    assert_eq!(g.status, Status::Undecided, "{}", g.reason);
    assert!(g.failed.is_some_and(|f| f > 0.2), "{}", g.reason);
    phases(&steps, 900.0);
}

/// A client that may have eight requests in flight: what is beyond it is not tried again, and below it something is met.
#[test]
fn a_client_that_gives_out_is_told_from_a_server_that_does() {
    let mut plan = plan("preset = \"mmc\", service = \"1s\"", "ttft.p90 = \"500ms\"", &budget("15m", 1000.0));
    plan.step.max_in_flight = 8;
    let (g, steps) = run(&plan);
    assert_eq!(g.status, Status::Invalid, "{}", g.reason);
    assert!(g.met.is_some_and(|met| met < 8.0), "{}", g.reason);
    let worst = steps.iter().filter(|s| s.verdict == Verdict::Invalid).map(|s| s.level.value);
    let least = worst.fold(f64::INFINITY, f64::min);
    assert!(g.met < Some(least), "{least}");
}

/// Errors that have nothing to do with the load, on a limit that counts nothing else: the sweep ends by its budget.
#[test]
fn a_limit_on_errors_alone_is_bound_by_stability() {
    let (g, steps) = run(&plan(MD1, "error-rate = 0.05", &budget("30m", 1000.0)));
    assert_eq!((g.status, g.binding.as_deref()), (Status::Found, Some("stability")), "{}", g.reason);
    assert!(g.met.is_some_and(|met| met < 20.6) && g.failed.is_some_and(|f| f > 19.5), "{}", g.reason);
    phases(&steps, 1800.0);
}

/// The whole client in process on the paused clock.
fn full(plan: &Plan) -> Vec<Step> {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { out: dir.path().join("run"), virtual_time: true, ..Options::default() };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(sweep::run(plan, &options, CancellationToken::new())).unwrap().steps
}

fn assert_alike(name: &str, bare: &[Step], full: &[Step]) {
    let levels = |steps: &[Step]| steps.iter().map(|s| s.level.to_string()).collect::<Vec<_>>();
    assert_eq!(levels(bare), levels(full), "{name}");
    for (a, b) in bare.iter().zip(full) {
        let of = |s: &Step| (s.verdict, s.abort, s.stable);
        assert_eq!(of(a), of(b), "{name}, step {} at {}", a.step, a.level);
        // What is left of a budget is a millisecond more or less, and so are the windows that it is spent on.
        let alike = |x: u64, y: u64| x.abs_diff(y) <= 1;
        assert!(alike(a.due_n, b.due_n) && alike(a.completed, b.completed), "{name}, step {}", a.step);
        for (metric, q) in &a.latency {
            let other = b.quantiles(*metric);
            assert!(alike(q.n, other.n), "{name}: {metric:?}");
            for (x, y) in [(q.p50, other.p50), (q.p90, other.p90), (q.p99, other.p99)] {
                let (x, y) = (x.unwrap_or(0.0), y.unwrap_or(0.0));
                assert!(
                    (x - y).abs() <= 1.01,
                    "{name}: {metric:?} of step {} ({}): {x} and {y} ms",
                    a.step,
                    a.level
                );
            }
        }
    }
}

/// Through the whole client and on the model alone a sweep has the same steps, to the millisecond of the clock.
#[test]
fn in_process_and_on_the_bare_model_a_sweep_is_the_same() {
    for (server, search) in [
        (MD1, "rates = [4, 9, 15]"),
        ("preset = \"md1\", service = \"20ms\", decode = \"3ms\"", "concurrency = [1, 3]"),
        ("preset = \"md1\", service = \"4ms\"", "adaptive = { budget = \"3m\" }\nmax-rate = 1000"),
    ] {
        let mut plan = plan(server, "ttft.p99 = \"200ms\"", search);
        plan.step.measure.0 = std::time::Duration::from_secs(60);
        assert_alike(search, &bare::steps(&plan).unwrap(), &full(&plan));
    }
}

/// The same of an engine that preempts, with a warm prefix cache too small for its prefixes. Iterations are noisy by the seed,
/// and a millisecond late here is another batch there, so only the steps' figures are compared, and not to the millisecond.
#[test]
fn engines_agree_with_their_caches() {
    for (name, cache) in [("cold", "cold"), ("warm", "warm")] {
        let text = format!(
            "name = \"x\"\n[server]\nsimulated = {{ preset = \"a40-qwen3-0.6b\", kv-blocks = 700 }}\nwarmup-requests = 0\n\
             [slo]\nttft.p99 = \"500ms\"\n[workload]\ncache = \"{cache}\"\n[workload.prompts.synthetic]\n\
             input-tokens = {{ fixed = 1200 }}\noutput-tokens = {{ fixed = 60 }}\n\
             shared-prefix = {{ tokens = 320, groups = 20 }}\n[step]\nmeasure = \"60s\"\n[search]\nrates = [4, 12]\n"
        );
        let plan = Plan::from_text(&text).unwrap();
        let (bare, full) = (bare::steps(&plan).unwrap(), full(&plan));
        for (a, b) in bare.iter().zip(&full) {
            assert_eq!((a.due_n, a.completed), (b.due_n, b.completed), "{name} at {}", a.level);
            for metric in [Metric::Ttft, Metric::Tpot, Metric::E2e] {
                let (x, y) = (a.quantiles(metric).p50.unwrap(), b.quantiles(metric).p50.unwrap());
                assert!((x / y).ln().abs() < 0.1, "{name}: {metric:?} at {}: {x} and {y} ms", a.level);
            }
        }
    }
}
