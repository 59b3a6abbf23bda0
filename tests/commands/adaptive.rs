//! The adaptive search against servers whose truth is known, on the bare engine model and in virtual time.

use goodput::level::{Control, Level};
use goodput::plan::Plan;
use goodput::search::answer::{Goodput, Status};
use goodput::search::reason::Evidence;
use goodput::search::stop::{HighestKey, Stop};
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
    let search = plan.searcher().unwrap();
    (search.answers("main", &steps).remove(0).goodput, steps)
}

const MD1: &str = "preset = \"md1\"";

fn budget(time: &str, max_rate: f64) -> String {
    format!("adaptive = {{ budget = \"{time}\" }}\nmax-rate = {max_rate}")
}

/// Queues with a known truth: an hour gives a narrow interval, which contains the truth with these seeds.
#[test]
fn the_interval_holds_the_truth() {
    for (server, slo, truth) in [
        (MD1, "ttft.p99 = \"200ms\"", 9.2576),
        ("preset = \"mm1\"", "ttft.p99 = \"500ms\"", 10.7897),
        ("preset = \"mmc\", seed = 2", "ttft.p99 = \"200ms\"", 10.713),
        // Ten times as fast, so there are many requests.
        ("preset = \"md1\", service = \"5ms\"", "ttft.p99 = \"20ms\"", 92.576),
    ] {
        let (g, steps) = run(&plan(server, slo, &budget("1h", 1000.0)));
        assert_eq!(g.status(), Status::Found, "{server}: {:?}", g.reason);
        let (rate, safe, [low, high]) = (g.rate().unwrap(), g.safe_rate().unwrap(), g.interval90().unwrap());
        assert!(low < truth && truth < high, "{server}: {low} to {high} for {truth}");
        // What was held at the end is cut off to three digits, and may be a little below the lower end that all steps
        // come to.
        assert!(safe <= low && safe > 0.9 * low, "{server}: {safe}, {low}");
        assert!(low < rate && rate < high, "{server}: {low}, {rate}, {high}");
        assert!((rate / truth).ln().abs() < 0.08 && high / low < 1.4, "{server}: {low}, {rate}, {high}");
        let (met, failed) = (g.bracket.met.unwrap_or(0.0), g.bracket.failed.unwrap_or(f64::INFINITY));
        assert!(met < truth && truth < failed, "{server}: {met} to {failed} for {truth}");
        assert_eq!(g.binding.as_deref(), Some("ttft.p99"), "{server}: {:?}", g.reason);
        phases(&steps, 3600.0);
        let held = g.support.held.as_ref().unwrap();
        let last = steps.iter().rfind(|s| s.kind == StepKind::Hold).unwrap();
        assert!(
            held.level.to_bits() == last.level.value.to_bits() && safe <= held.level,
            "{server}: {held:?}"
        );
        assert_eq!(g.support.change, None, "{server}: it is the same all the time");
    }
}

/// A baseline first, then the ramp, then the refinement; never a rate above one that overloaded the server, and in
/// time.
fn phases(steps: &[Step], budget_s: f64) {
    let rank = |s: &Step| match s.kind {
        StepKind::Baseline => 0,
        StepKind::Ramp => 1,
        StepKind::Refine | StepKind::Hold => 2,
        StepKind::List
        | StepKind::Burst
        | StepKind::Confirm
        | StepKind::Recovery
        | StepKind::Peak
        | StepKind::Profile => 9,
    };
    // After the refinement has begun, the baseline may be measured again.
    let ranks: Vec<i32> = steps.iter().map(rank).collect();
    let refined = ranks.iter().position(|r| *r == 2).unwrap_or(ranks.len());
    assert!(ranks[..refined].is_sorted() && ranks[refined..].iter().all(|r| *r != 1), "{ranks:?}");
    assert_eq!((steps[0].kind, steps[0].level), (StepKind::Baseline, Level::concurrency(1)));
    let mut too_much = f64::INFINITY;
    // A ramp step that failed by one burst is measured once more.
    let retried = |s: &Step| {
        let next = steps.iter().find(|n| n.step == s.step + 1);
        s.kind == StepKind::Ramp && next.is_some_and(|n| n.kind == StepKind::Ramp && n.level == s.level)
    };
    for s in steps.iter().filter(|s| s.level.control == Control::Rate && !retried(s)) {
        assert!(s.level.value < too_much, "step {} at {} after {too_much}", s.step, s.level);
        if s.stable == Some(false) || s.abort == Some(Abort::Gross) {
            too_much = too_much.min(s.level.value);
        }
    }
    let end = steps.last().unwrap().ended_s;
    assert!(end <= budget_s, "{end} s of {budget_s}");
}

#[test]
fn a_limit_that_the_unloaded_server_misses_is_met_at_no_rate() {
    for slo in ["ttft.p99 = \"49ms\"", "ttft.p50 = \"20ms\"\ntpot.p99 = \"1s\""] {
        let (g, steps) = run(&plan(MD1, slo, &budget("15m", 1000.0)));
        assert_eq!(
            (g.status(), g.bracket.met, g.bracket.failed),
            (Status::None, None, None),
            "{:?}",
            g.reason
        );
        assert!(
            matches!(g.reason.evidence(), [Evidence::MissedUnloaded(m)] if m.limit.starts_with("ttft.p"))
        );
        assert!(g.binding.as_deref().is_some_and(|b| b.starts_with("ttft")), "{:?}", g.binding);
        let s = steps.last().unwrap();
        assert!(s.ended_s < 60.0 && s.abort == Some(Abort::Gross), "within a minute: {} s", s.ended_s);
    }
}

#[test]
fn a_limit_that_never_binds_below_max_rate_is_not_reached() {
    let (g, steps) =
        run(&plan("preset = \"md1\", service = \"5ms\"", "ttft.p99 = \"100ms\"", &budget("15m", 60.0)));
    assert_eq!(
        (g.status(), g.rate(), g.bracket.failed),
        (Status::NotReached, Some(60.0), None),
        "{:?}",
        g.reason
    );
    let highest = Stop::Highest { key: HighestKey::MaxRate, level: Level::rate(60.0) };
    assert_eq!(g.reason.stop(), Some(&highest));
    phases(&steps, 900.0);
}

/// TPOT of M/D/1 does not know the queue: only the backlog says that 20 requests/s are the end.
#[test]
fn a_server_that_saturates_is_bound_by_stability() {
    let (g, steps) =
        run(&plan("preset = \"md1\", decode = \"5ms\"", "tpot.p99 = \"50ms\"", &budget("1h", 1000.0)));
    assert_eq!((g.status(), g.binding.as_deref()), (Status::Found, Some("stability")), "{:?}", g.reason);
    let (rate, [low, high]) = (g.rate().unwrap(), g.interval90().unwrap());
    assert!(low < 20.0 && 20.0 < high && high / low < 1.3, "{low} to {high}");
    assert!((rate / 20.0).ln().abs() < 0.1, "{rate}");
    assert!(
        g.bracket.met.is_none_or(|met| met < 20.6) && g.bracket.failed.is_some_and(|f| f > 19.5),
        "{:?}",
        g.reason
    );
    phases(&steps, 3600.0);
}

#[test]
fn a_small_budget_has_a_wide_interval_and_says_what_more_would_buy() {
    let of = |time: &str| run(&plan("preset = \"mm1\"", "ttft.p99 = \"500ms\"", &budget(time, 1000.0)));
    let (g, steps) = of("3m");
    assert_eq!(g.reason.stop(), Some(&Stop::Budget { budget_s: 180.0 }));
    phases(&steps, 180.0);
    let halve = g.halve_s().unwrap();
    assert!((180.0..540.0).contains(&halve), "three times what the refinement has taken: {halve} s");
    let width = |g: &Goodput| g.interval90().map(|[low, high]| high - low).unwrap();
    assert!(width(&of("1h").0) < 0.5 * width(&g));
}

/// A tenth of the seeds that the harness runs, on queues with a closed form: the figures that the documentation quotes,
/// roughly.
#[test]
fn the_published_accuracy_holds_roughly() {
    let (mut errors, mut held, mut violated, mut runs) = (Vec::new(), 0, 0, 0);
    for (server, slo, truth) in [
        (MD1, "ttft.p99 = \"200ms\"", 9.2576),
        ("preset = \"mm1\"", "ttft.p99 = \"500ms\"", 10.7897),
        ("preset = \"mmc\"", "ttft.p99 = \"200ms\"", 10.713),
    ] {
        for seed in 1..=8 {
            let server = format!("{server}, seed = {seed}");
            let mut plan = plan(&server, slo, &budget("15m", 1000.0));
            plan.seed = seed;
            let g = run(&plan).0;
            let [low, high] = g.interval90().unwrap();
            errors.push((g.rate().unwrap() / truth).ln());
            held += u32::from(low <= truth && truth <= high);
            violated += u32::from(g.safe_rate().is_some_and(|s| s > truth));
            runs += 1;
        }
    }
    let rmse = (errors.iter().map(|e: &f64| e * e).sum::<f64>() / f64::from(runs)).sqrt();
    assert!(rmse < 0.1, "{rmse}");
    assert!(held >= 20 && violated <= 3, "{held} held and {violated} violated of {runs}");
}

/// Two SLOs share the steps: each has a separate answer, and the stricter one does not impair the other.
#[test]
fn tiers_share_the_steps_and_have_their_own_answers() {
    let slo = |name: &str, limit: &str| format!("[[slo]]\nname = \"{name}\"\nttft.p99 = \"{limit}\"\n");
    let answers = |tiers: &str| {
        let text = format!(
            "name = \"x\"\n[server]\nsimulated = {{ preset = \"md1\", service = \"5ms\" }}\nwarmup-requests = 0\n{tiers}\
             [workload.prompts.synthetic]\ninput-tokens = {{ fixed = 30 }}\noutput-tokens = {{ fixed = 2 }}\n\
             [search]\n{}\n",
            budget("15m", 1000.0)
        );
        let plan = Plan::from_text(&text).unwrap();
        let steps = bare::steps(&plan).unwrap();
        phases(&steps, 900.0);
        plan.searcher().unwrap().answers("main", &steps)
    };
    // Crommelin: 20 ms, of which 5 are service, at 92.576/s; 40 ms at 143.2/s (within its error).
    let both = answers(&(slo("tight", "20ms") + &slo("loose", "40ms")));
    let of = |i: usize| both[i].goodput.interval90().unwrap();
    assert!(of(0)[0] < 92.576 && 92.576 < of(0)[1], "{:?}", both[0].goodput);
    assert!(of(1)[0] > of(0)[1], "{:?} and {:?}", of(0), of(1));
    // The step that held the safe rate of the tight one tells nothing about the loose one, whose safe rate is its own.
    let safe = |i: usize| both[i].goodput.safe_rate().unwrap();
    assert!(
        both[0].goodput.support.held.as_ref().is_some_and(|h| (h.level - safe(0)).abs() < 0.02 * safe(0))
    );
    assert!(safe(1) > of(0)[1] && safe(1) <= of(1)[0] * 1.01, "{} of {:?}", safe(1), of(1));
    assert_eq!(both[1].goodput.support.held, None);
    // One that nothing can meet does not end the sweep for the other.
    let one = answers(&(slo("never", "4ms") + &slo("tight", "20ms")));
    assert_eq!(one[0].goodput.status(), Status::None, "{:?}", one[0].goodput.reason);
    let [low, high] = one[1].goodput.interval90().unwrap();
    assert!(low < 92.576 && 92.576 < high, "{low} to {high}");
}

/// A closed loop of N on one server with fixed service waits for N services: TTFT of four is 200 ms, of five 250.
#[test]
fn a_closed_loop_finds_how_many_requests_in_flight() {
    let text = "adaptive = { over = \"concurrency\", budget = \"10m\" }";
    let (g, steps) = run(&plan(MD1, "ttft.p99 = \"220ms\"", text));
    assert_eq!((g.status(), g.rate()), (Status::Found, Some(4.0)), "{:?}", g.reason);
    assert!(g.throughput().is_some_and(|t| (19.0..21.0).contains(&t)), "{:?}", g.throughput());
    assert!(steps.iter().all(|s| s.level.control == Control::Concurrency));
    assert!(g.safe_rate().is_some_and(|s| (2.0..=4.0).contains(&s)), "{:?}", g.safe_rate());
    let answer = plan(MD1, "ttft.p99 = \"220ms\"", text).searcher().unwrap().answers("main", &steps);
    assert_eq!(answer[0].control, Control::Concurrency);
    // 40 ms: not even one.
    let (g, _) = run(&plan(MD1, "ttft.p99 = \"40ms\"", text));
    assert_eq!(g.status(), Status::None, "{:?}", g.reason);
}

/// The soak comes after the search, at the safe rate, lasts as long as was asked for, and is the last step.
#[test]
fn a_soak_confirms_the_safe_rate() {
    let with = |search: &str| {
        let mut plan = plan("preset = \"md1\", service = \"5ms\"", "ttft.p99 = \"20ms\"", search);
        plan.step.measure.0 = std::time::Duration::from_secs(120);
        run(&plan)
    };
    let (g, steps) = with(&(budget("5m", 1000.0) + "\nconfirm = \"10m\""));
    let soak = steps.last().unwrap();
    assert_eq!((soak.kind, soak.verdict), (StepKind::Confirm, Verdict::Meets), "{:?}", soak.reason);
    assert!((soak.measure_s - 600.0).abs() < 1e-9 && soak.level.value < 92.576, "{}", soak.level);
    assert_eq!(steps.iter().filter(|s| s.kind == StepKind::Confirm).count(), 1);
    assert!(
        g.bracket.met.is_some_and(|met| met >= soak.level.value),
        "it is a step that meets like any other"
    );
    let before = &steps[..steps.len() - 1];
    assert!(before.last().unwrap().ended_s <= 300.0, "the soak is not taken out of the budget");
    // Of a list it confirms what the fit to all levels calls safe: the truth is 92.6.
    let (g, steps) = with("rates = [20, 60, 150]\nconfirm = \"1m\"");
    let soak = steps.last().unwrap();
    assert_eq!(soak.kind, StepKind::Confirm, "{:?}", soak.reason);
    assert!((60.0..=92.6).contains(&soak.level.value), "{}: {:?}", soak.level, g.reason);
    // Without a safe rate there is nothing to confirm.
    let (g, steps) = with("rates = [500]\nconfirm = \"1m\"");
    assert!(g.bracket.met.is_none() && steps.iter().all(|s| s.kind != StepKind::Confirm));
}

/// Limits that have no curve, or one of another kind, are no obstacle to those that have. Row: the SLO, the status, and
/// whether a rate is called safe.
#[test]
fn odd_limits_do_not_spoil_the_answer() {
    let base = "ttft.p99 = \"200ms\"";
    for (slo, status, safe) in [
        (format!("{base}\nerror-rate = 1.0"), Status::Found, true), // all may fail
        (format!("{base}\nerror-rate = 0"), Status::Found, true),   // and none does
        (format!("{base}\njoint-attainment = 0"), Status::Found, true),
        (format!("{base}\njoint-attainment = 1.0"), Status::Found, true),
        ("ttft.p50 = \"200ms\"".into(), Status::Found, true),
        ("ttft.\"p99.9\" = \"400ms\"".into(), Status::Found, true),
        ("ttft.p1 = \"60ms\"".into(), Status::Found, true), // nearly all may miss
    ] {
        let (g, steps) = run(&plan(
            "preset = \"md1\", service = \"5ms\"",
            &slo.replace("200ms", "20ms").replace("400ms", "40ms").replace("60ms", "6ms"),
            &budget("15m", 1000.0),
        ));
        assert_eq!((g.status(), g.safe_rate().is_some()), (status, safe), "{slo}: {:?}", g.reason);
        assert!(
            g.interval90().is_some_and(|[low, high]| low < high && high < 1000.0),
            "{slo}: {:?}",
            g.interval90()
        );
        phases(&steps, 900.0);
    }
}

/// Answers of one token have no TPOT: such a limit is met by plan, and says nothing of the rate.
#[test]
fn a_limit_that_asks_for_nothing_is_left_out() {
    let text = "name = \"x\"\n[server]\nsimulated = { preset = \"md1\", service = \"5ms\" }\nwarmup-requests = 0\n\
        [slo]\nttft.p99 = \"20ms\"\ntpot.p99 = \"5ms\"\n[workload.prompts.synthetic]\ninput-tokens = { fixed = 30 }\n\
        output-tokens = { fixed = 1 }\n[search]\nadaptive = { budget = \"5m\" }\nmax-rate = 1000\n";
    let (g, steps) = run(&Plan::from_text(text).unwrap());
    assert_eq!(g.status(), Status::Found, "{:?}", g.reason);
    assert!(
        g.safe_rate().is_some_and(|s| s > 80.0) && g.binding.as_deref() == Some("ttft.p99"),
        "{:?}",
        g.reason
    );
    let first = steps.iter().position(|s| s.kind != StepKind::Baseline);
    assert_eq!(first, Some(1), "one baseline is enough before the ramp");
}

/// Gaps between tokens come by the hundred and stall together: they are no hundred pieces of evidence.
#[test]
fn gaps_count_by_the_request() {
    let text = "name = \"x\"\n[server]\nsimulated = { preset = \"a40-qwen3-0.6b\" }\nwarmup-requests = 0\n\
        [slo]\nitl.p99 = \"30ms\"\n[workload.prompts.synthetic]\ninput-tokens = { fixed = 600 }\n\
        output-tokens = { fixed = 30 }\n[search]\nadaptive = { budget = \"5m\" }\nmax-rate = 200\n";
    let (g, _) = run(&Plan::from_text(text).unwrap());
    let [low, high] = g.interval90().unwrap();
    assert!(high / low > 1.02, "{low} to {high}: {:?}", g.reason);
}

/// A soak ends the series, even if the budget was raised afterwards.
#[test]
fn nothing_follows_a_soak() {
    let search = |time: &str| budget(time, 1000.0) + "\nconfirm = \"1m\"";
    let server = "preset = \"md1\", service = \"5ms\"";
    let (_, steps) = run(&plan(server, "ttft.p99 = \"20ms\"", &search("2m")));
    assert_eq!(steps.last().unwrap().kind, StepKind::Confirm);
    let longer = plan(server, "ttft.p99 = \"20ms\"", &search("1h")).searcher().unwrap();
    assert_eq!(longer.next("main", &steps), goodput::search::Next::Done);
    let g = longer.answers("main", &steps).remove(0).goodput;
    assert!(matches!(g.reason.stop(), Some(Stop::Soaked { .. })), "{:?}", g.reason);
}

#[test]
fn the_same_plan_and_seed_search_the_same() {
    let plan = plan("preset = \"mm1\"", "ttft.p99 = \"500ms\"", &budget("15m", 1000.0));
    let [a, b] = [(); 2].map(|()| run(&plan).1);
    assert!(a.len() >= 4);
    assert_eq!(a, b);
}

/// Rates that are no round numbers, and ones just above or below a doubling: the highest is offered exactly, and never
/// more.
#[test]
fn max_rate_is_reached_exactly() {
    for max in [60.54, 60.56, 64.0, 51.2] {
        let (g, steps) =
            run(&plan("preset = \"md1\", service = \"5ms\"", "ttft.p99 = \"100ms\"", &budget("15m", max)));
        assert_eq!((g.status(), g.bracket.met), (Status::NotReached, Some(max)), "{max}: {:?}", g.reason);
        assert!(steps.iter().all(|s| s.level.value <= max), "{max}");
    }
}

/// Answers that take twenty seconds: nothing is complete within a step of the ramp, and that is no plateau.
#[test]
fn slow_answers_are_no_overload() {
    let server = "preset = \"fixed\", ttft = \"100ms\", tpot = \"20s\"";
    let (g, steps) = run(&plan(server, "ttft.p90 = \"1s\"", &budget("1h", 8.0)));
    assert_eq!((g.status(), g.bracket.met), (Status::NotReached, Some(8.0)), "{:?}", g.reason);
    phases(&steps, 3600.0);
}

/// A loaded step that fails says nothing of lower rates, even where hardly anything is in flight.
#[test]
fn only_the_unloaded_server_says_that_no_rate_meets() {
    // A request behind another misses: the truth is at about 0.2 requests/s.
    let (g, steps) = run(&plan(MD1, "ttft.p99 = \"60ms\"", &budget("15m", 1000.0)));
    assert_eq!(g.status(), Status::Undecided, "{:?}", g.reason);
    assert!(g.interval90().is_none_or(|[low, _]| low < 1e-9) && g.safe_rate().is_none(), "{:?}", g.reason);
    phases(&steps, 900.0);
}

/// On a server so slow that one request at a time tells as much as a step under load, the two take turns.
#[test]
fn one_request_at_a_time_takes_turns_with_load() {
    for (server, slo) in
        [(MD1, "ttft.p99 = \"60ms\""), ("preset = \"md1\", service = \"2s\"", "ttft.p90 = \"3s\"")]
    {
        let (g, steps) = run(&plan(server, slo, &budget("15m", 1000.0)));
        let first = steps.iter().position(|s| s.kind == StepKind::Refine).unwrap();
        let kinds: Vec<StepKind> = steps[first..].iter().map(|s| s.kind).collect();
        assert!(kinds.contains(&StepKind::Baseline), "{server}: {kinds:?}");
        assert!(
            kinds.windows(2).all(|two| two != [StepKind::Baseline; 2]),
            "{server}: {kinds:?}, {:?}",
            g.reason
        );
    }
}

/// A client that may have eight requests in flight: what is beyond it is not tried again, and below it something is
/// met.
#[test]
fn a_client_that_gives_out_is_told_from_a_server_that_does() {
    let mut plan = plan("preset = \"mmc\", service = \"1s\"", "ttft.p90 = \"500ms\"", &budget("15m", 1000.0));
    plan.step.max_in_flight = 8;
    let (g, steps) = run(&plan);
    assert_eq!((g.status(), g.interval90()), (Status::Invalid, None), "{:?}", g.reason);
    let worst = steps.iter().filter(|s| s.verdict == Verdict::Invalid).map(|s| s.level.value);
    let least = worst.fold(f64::INFINITY, f64::min);
    assert!(
        g.bracket.met.is_none_or(|met| met < least) && g.safe_rate().is_none_or(|s| s < least),
        "{least}"
    );
}

/// Errors that have nothing to do with the load, on a limit that counts nothing else: the sweep ends by its budget.
#[test]
fn a_limit_on_errors_alone_is_bound_by_stability() {
    let (g, steps) = run(&plan(MD1, "error-rate = 0.05", &budget("30m", 1000.0)));
    assert_eq!((g.status(), g.binding.as_deref()), (Status::Found, Some("stability")), "{:?}", g.reason);
    let [low, high] = g.interval90().unwrap();
    assert!(low < 20.0 && 20.0 < high, "{:?}", g.reason);
    phases(&steps, 1800.0);
}

/// Runs the whole client in process on the paused clock.
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
    ] {
        let mut plan = plan(server, "ttft.p99 = \"200ms\"", search);
        plan.step.measure.0 = std::time::Duration::from_secs(60);
        assert_alike(search, &bare::steps(&plan).unwrap(), &full(&plan));
    }
}

/// A search is as sensitive as its counts, and the grain of the clock moves some of them: what the two find is the
/// same.
#[test]
fn in_process_and_on_the_bare_model_the_answer_is_the_same() {
    let plan = plan("preset = \"md1\", service = \"4ms\"", "ttft.p99 = \"30ms\"", &budget("3m", 1000.0));
    let (bare, steps) = run(&plan);
    let full = full(&plan);
    assert_eq!(
        steps[..3].iter().map(|s| s.level).collect::<Vec<_>>(),
        full[..3].iter().map(|s| s.level).collect::<Vec<_>>()
    );
    let other = plan.searcher().unwrap().answers("main", &full).remove(0).goodput;
    let (a, b) = (bare.rate().unwrap(), other.rate().unwrap());
    assert!((a / b).ln().abs() < 0.1, "{a} and {b}");
}

/// In-process and bare results agree for an engine that preempts, with a warm prefix cache too small for its prefixes.
/// Iterations are noisy by the seed, and a delay of a millisecond can change a batch, so only the steps' figures are
/// compared, with a tolerance.
#[test]
fn engines_agree_with_their_caches() {
    const PREFIX: &str = "shared-prefix = { tokens = 320, groups = 20 }";
    const TALK: &str = "conversation = { turns = { fixed = 3 }, input-tokens = { fixed = 40 } }";
    let images = |turns: &str| {
        format!(
            "images = {{ width = {{ fixed = 448 }}, height = {{ fixed = 224 }}, content = \"flat\", turns = \"{turns}\" }}"
        )
    };
    for (name, workload, prompts, rates) in [
        ("cold", "cache = \"cold\"", PREFIX, "[4, 12]"),
        ("warm", "cache = \"warm\"", PREFIX, "[4, 12]"),
        ("images first", TALK, &images("first"), "[1, 3]"),
        ("images in every turn", TALK, &images("every"), "[1, 3]"),
    ] {
        let text = format!(
            "name = \"x\"\n[server]\nwarmup-requests = 0\n\
             simulated = {{ preset = \"a40-qwen3-0.6b\", kv-blocks = 700, vision = {{ token-time = \"1ms\" }} }}\n\
             [slo]\nttft.p99 = \"500ms\"\n[workload]\n{workload}\n[workload.prompts.synthetic]\n\
             input-tokens = {{ fixed = 1200 }}\noutput-tokens = {{ fixed = 60 }}\n{prompts}\n\
             [step]\nmeasure = \"60s\"\n[search]\nrates = {rates}\n"
        );
        let plan = Plan::from_text(&text).unwrap();
        let (bare, full) = (bare::steps(&plan).unwrap(), full(&plan));
        for (a, b) in bare.iter().zip(&full) {
            // Over HTTP a follow-up comes some milliseconds later than the answer before it, and may fall behind the end of the window.
            let few = if workload == TALK { 5 } else { 0 };
            let counts = [(a.due_n, b.due_n), (a.completed, b.completed)];
            assert!(counts.iter().all(|(x, y)| x.abs_diff(*y) <= few), "{name} at {}: {counts:?}", a.level);
            for metric in [Metric::Ttft, Metric::Tpot, Metric::E2e] {
                let (x, y) = (a.quantiles(metric).p50.unwrap(), b.quantiles(metric).p50.unwrap());
                let is_near = (x / y).ln().abs() < 0.1 || (workload == TALK && (x - y).abs() < 8.0);
                assert!(is_near, "{name}: {metric:?} at {}: {x} and {y} ms", a.level);
            }
        }
    }
}
