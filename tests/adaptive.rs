//! The adaptive search against servers whose truth is known, on the bare engine model and in virtual time.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use goodput::level::{Control, Level};
use goodput::plan::Plan;
use goodput::search::Search;
use goodput::search::answer::{Goodput, Status};
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

/// The whole client in process on the paused clock, and the model alone: the same steps, to the millisecond of the clock.
#[test]
fn in_process_and_on_the_bare_model_a_sweep_is_the_same() {
    for (server, search) in [
        (MD1, "rates = [4, 9, 15]"),
        ("preset = \"md1\", service = \"20ms\", decode = \"3ms\"", "concurrency = [1, 3]"),
    ] {
        let mut plan = plan(server, "ttft.p99 = \"200ms\"", search);
        plan.step.measure.0 = std::time::Duration::from_secs(60);
        let bare = bare::steps(&plan).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let options = Options { out: dir.path().join("run"), virtual_time: true, ..Options::default() };
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let full = runtime.block_on(sweep::run(&plan, &options, CancellationToken::new())).unwrap();
        assert_eq!(bare.len(), full.steps.len());
        for (a, b) in bare.iter().zip(&full.steps) {
            assert_eq!((a.due_n, a.level, a.verdict), (b.due_n, b.level, b.verdict), "step {}", a.step);
            for (metric, q) in &a.latency {
                let other = b.quantiles(*metric);
                assert_eq!(q.n, other.n, "{metric:?}");
                for (x, y) in [(q.p50, other.p50), (q.p90, other.p90), (q.p99, other.p99)] {
                    let (x, y) = (x.unwrap_or(0.0), y.unwrap_or(0.0));
                    assert!(
                        (x - y).abs() <= 1.01,
                        "{metric:?} of step {} ({}): {x} and {y} ms",
                        a.step,
                        a.level
                    );
                }
            }
        }
    }
}
