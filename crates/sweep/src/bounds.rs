//! Upper bounds on the duration of a sweep and on the bytes that it writes.

use goodput_core::level::Level;
use goodput_core::units::Span;
use goodput_plan::{Plan, Series, Variant};
use goodput_stats::search::Ask;
use goodput_stats::search::config::Mode;
use goodput_stats::search::ramp::REFINED;
use goodput_stats::stats::step::StepKind;
use std::time::Duration;

/// Minimum allowance for making a server ready: reading pages, finding the supported fields, calibrating lengths,
/// warm-up.
const READY: Duration = Duration::from_secs(600);
/// Maximum number of sequential requests before the first step: tests of fields, and calibration of lengths.
const PROBES: u32 = 16;
/// Number of warm-up requests in flight at once.
const AT_ONCE: u32 = 4;
/// Allowance for starting and stopping a profiler.
const PROFILER: Duration = Duration::from_secs(600);
/// Highest request rate of any client, in requests per second: a ramp without `max-rate` ends here at the latest.
const HIGHEST_RATE: f64 = 1e6;
/// Measured length of a row of `requests.csv` in bytes, with ten-digit times and names of usual length.
const ROW: u64 = 280;
/// Upper bound of the other bytes written per second of a sweep: samples of metrics.
const PER_SECOND: u64 = 4 << 10;
/// Upper bound of the settling time, and of the window, of a ladder step: both follow from the answers of the step
/// before.
const LADDER_SPAN: Duration = Duration::from_secs(3600);
/// Other bytes written per step.
const PER_STEP: u64 = 64 << 10;

/// The time limit of a sweep, counted from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    /// Time limit, from the start of the sweep.
    pub after: Duration,
    /// True if the plan sets it (`search.deadline`).
    pub named: bool,
}

/// Returns the longest time that a step of this plan at `level` can take, including tail and drain.
pub fn longest_step(plan: &Plan, level: Level) -> Duration {
    let window = if plan.step.min_requests > 0 {
        plan.step.max_duration.0.max(plan.step.window(level.per_s()))
    } else {
        plan.step.window(level.per_s())
    };
    let listed = matches!(plan.search.mode, Mode::Rates(_) | Mode::Concurrency(_));
    let windows = if listed { plan.step.windows(level.per_s()).0 } else { 1 };
    let around = plan.step.tail() + plan.step.drain.0;
    match &plan.search.mode {
        // All requests are sent at once and answered within the longest window.
        Mode::Burst(_) => plan.step.max_duration.0 + plan.step.drain.0,
        // The first step has no earlier answers to derive its times from.
        Mode::Ladder(ladder) if level.value > f64::from(ladder.level(0)) => {
            window.max(LADDER_SPAN) + plan.step.settle.0.max(LADDER_SPAN) + around
        }
        _ => window + (plan.step.settle.0 + around) * windows,
    }
}

/// Returns true if a step that begins after `spent` could end after the budget. Confirmation and recovery steps are not
/// part of the budget.
pub(super) fn over_budget(plan: &Plan, budget: Option<Span>, spent: Duration, ask: &Ask) -> bool {
    // A level that is measured in several windows takes at most the window in `ask`.
    let most = longest_step(plan, ask.level);
    let own = ask.settle + ask.measure + ask.tail + ask.drain;
    let takes = match plan.search.mode {
        // A ladder step takes the times in `ask`, unless its window is extended.
        Mode::Ladder(_) if plan.step.min_requests == 0 => own,
        Mode::Ladder(_) => own + plan.step.max_duration.0.saturating_sub(ask.measure),
        _ if ask.extend => most,
        _ => own.min(most),
    };
    let late = |budget: Span| spent + takes > budget.0;
    !matches!(ask.kind, StepKind::Confirm | StepKind::Recovery) && budget.is_some_and(late)
}

/// Returns the deadline of a sweep of this plan. `budget` is the time budget of a plan that lists its levels.
pub fn deadline(plan: &Plan, budget: Option<Duration>) -> Deadline {
    if let Some(named) = plan.search.deadline {
        return Deadline { after: named.0, named: true };
    }
    let series = plan.series();
    let steps: Duration =
        series.iter().map(|one| longest(&one.plan)).fold(Duration::ZERO, Duration::saturating_add);
    let steps = match budget {
        Some(budget) => steps.min(budget.saturating_add(after_search(plan))),
        None => steps,
    };
    let servers = series.iter().map(getting_ready).fold(Duration::ZERO, Duration::saturating_add);
    // The added half covers the time between steps, and a machine that is short of CPU.
    Deadline { after: steps.saturating_add(steps / 2).saturating_add(servers), named: false }
}

/// Returns the longest time that the server of a series may take to start, to get ready, and to stop.
fn getting_ready(one: &Series) -> Duration {
    let (plan, server) = (&one.plan, &one.plan.server);
    let asked = PROBES + server.warmup_requests.div_ceil(AT_ONCE);
    let ready = READY.max(plan.timeout().saturating_mul(asked));
    let start = one.variant.as_ref().and_then(Variant::start);
    ready + start.map_or(Duration::ZERO, |s| s.timeout.0 + s.stop_timeout.0 + s.cool_down.0)
}

/// Returns the duration of the steps after the search: soak, surge, peak and profile.
fn after_search(plan: &Plan) -> Duration {
    let around = plan.step.settle.0 + plan.step.tail() + plan.step.drain.0;
    let soak = plan.search.confirm.map_or(Duration::ZERO, |span| span.0 + around);
    let peak = plan.search.peak.map_or(Duration::ZERO, |peak| {
        peak.settle.map_or(Duration::ZERO, |s| s.0) + peak.measure.unwrap_or(plan.step.measure).0 + around
    });
    let profile = plan.profile.as_ref().map_or(Duration::ZERO, |_| PROFILER + plan.step.measure.0 + around);
    let recovery = plan.recovery.map_or(Duration::ZERO, |recovery| recovery.measure() + around);
    soak + recovery + peak + profile
}

/// Returns the longest time that all steps of a plan with one series can take.
fn longest(plan: &Plan) -> Duration {
    let levels = levels(plan);
    let steps = match &plan.search.mode {
        Mode::Adaptive(adaptive) if plan.rows.is_empty() => adaptive.budget.0,
        _ => levels
            .iter()
            .map(|level| longest_step(plan, *level))
            .fold(Duration::ZERO, Duration::saturating_add),
    };
    // The baseline step runs first and takes as long as the longest step; in a matrix, before each row, as long as the
    // row.
    let unloaded = match levels.iter().map(|level| longest_step(plan, *level)).max() {
        Some(longest) if plan.search.baseline || !plan.rows.is_empty() => longest,
        _ => Duration::ZERO,
    };
    steps.saturating_add(unloaded).saturating_add(after_search(plan))
}

/// Returns the levels that a plan of one series can measure; none for an adaptive search, which chooses its levels.
fn levels(plan: &Plan) -> Vec<Level> {
    let open = |rate: f64| Level::new(plan.workload.control(), rate);
    match &plan.search.mode {
        Mode::Adaptive(_) => Vec::new(),
        Mode::Rates(rates) => rates.iter().map(|r| open(r.get())).collect(),
        Mode::Concurrency(slots) => slots.iter().map(|n| Level::concurrency(n.get())).collect(),
        Mode::Burst(n) => vec![Level::concurrency(n.get())],
        Mode::Ladder(ladder) => {
            let most = ladder.max.get();
            let below = (0..32).map(|i| ladder.level(i)).take_while(|n| *n < most);
            below.chain([most]).map(Level::concurrency).collect()
        }
        Mode::Ramp(ramp) => {
            let most = plan.search.max_rate.map_or(HIGHEST_RATE, |r| r.get());
            let rates = std::iter::successors(Some(ramp.start.get()), |r| Some(r * ramp.factor.get()));
            // After the knee, a ramp measures some more levels below it.
            let again = std::iter::repeat_n(most, REFINED);
            rates.take_while(|r| *r < most).chain([most]).chain(again).map(open).collect()
        }
    }
}

/// Returns the number of bytes that a sweep will write, if its requests are known in advance: for lists of rates.
pub fn written(plan: &Plan) -> Option<u64> {
    let of_series = |one: &Plan| {
        let listed = matches!(one.search.mode, Mode::Rates(_)) && one.rows.is_empty();
        if !listed {
            return None;
        }
        let bytes = levels(one).into_iter().map(|level| {
            let seconds = (one.step.settle.0 + one.step.window(level.per_s())).as_secs_f64();
            seconds * (level.value * one.workload.per_level() * ROW as f64 + PER_SECOND as f64)
                + PER_STEP as f64
        });
        Some(bytes.sum::<f64>() as u64)
    };
    plan.series().iter().map(|one| of_series(&one.plan)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(search: &str) -> Plan {
        Plan::from_text(&format!(
            "name = \"x\"\nserver.url = \"http://127.0.0.1:1\"\nslo.ttft.p99 = \"200ms\"\n[workload.prompts.synthetic]\n\
             input-tokens.fixed = 9\noutput-tokens.fixed = 3\n[step]\nsettle = \"10s\"\nmeasure = \"60s\"\ndrain = \"30s\"\ntimeout = \"60s\"\n\
             [search]\n{search}"
        ))
        .unwrap()
    }

    /// Row: the search, and the longest time that its steps take in seconds, 130 per step.
    #[test]
    fn what_steps_can_take_follows_from_the_plan() {
        for (search, longest_s) in [
            ("adaptive = { budget = \"15m\" }", 900),
            ("adaptive = { budget = \"15m\" }\nconfirm = \"10m\"", 900 + 600 + 70),
            ("rates = [1, 2]", 260),
            ("concurrency = [1, 2]\nbaseline = true", 390),
            // Four refining steps between the last two levels.
            ("ramp = { start = 1, factor = 2 }\nmax-rate = 8", (4 + 4) * 130),
            ("ramp = { start = 1, factor = 10 }", (7 + 4) * 130),
            // After the first step, settling and window may take an hour each.
            ("ladder = { max = 5 }", 130 + 3 * (7200 + 60)),
            ("burst = 50", 600 + 30),
            ("rates = [1]\npeak = { concurrency = 9 }", 260),
            // Two phases of three minutes and a surge of one minute, with 70 s around them.
            ("rates = [1]\n[recovery]", 130 + 420 + 70),
        ] {
            assert_eq!(longest(&plan(search)).as_secs(), longest_s, "{search}");
        }
    }

    #[test]
    fn a_deadline_is_the_plans_or_reckoned() {
        let named = deadline(&plan("rates = [1]\ndeadline = \"2m\""), None);
        assert_eq!(named, Deadline { after: Duration::from_secs(120), named: true });
        // Half as long again, and (16 + 20 / 4) requests of a minute each to get ready.
        let own = deadline(&plan("rates = [1, 2]"), None);
        assert_eq!(own, Deadline { after: Duration::from_secs(390 + 21 * 60), named: false });
        let short = deadline(&plan("rates = [1, 2]"), Some(Duration::from_secs(100)));
        assert_eq!(short.after.as_secs(), 150 + 21 * 60, "a budget ends it earlier");
    }

    /// Row: plan, measured window in seconds, seconds spent of a budget of 400, and true if the step could end after
    /// the budget.
    #[test]
    fn a_step_of_a_ladder_takes_what_it_asks_for() {
        let (of_plan, extended) = (plan("ladder = { max = 5 }"), {
            let mut plan = plan("ladder = { max = 5 }");
            plan.step.min_requests = 1;
            plan
        });
        let (level, ends) = (Level::concurrency(2), goodput_stats::search::Ends::AtItsTime);
        let span = Duration::from_secs;
        for (plan, measure, spent, over) in [
            (&of_plan, 60, 270, false),
            (&of_plan, 60, 271, true),
            (&of_plan, 330, 0, false),
            (&of_plan, 331, 0, true),
            (&extended, 60, 0, true),
        ] {
            let ask = Ask {
                level,
                kind: StepKind::List,
                settle: span(10),
                measure: span(measure),
                extend: true,
                tail: span(30),
                drain: span(30),
                ends,
                confidence: 0.95,
            };
            let got = over_budget(plan, Some(Span::secs(400)), span(spent), &ask);
            assert_eq!(got, over, "{measure} s after {spent} s");
        }
    }

    #[test]
    fn what_is_written_is_known_of_listed_rates_alone() {
        assert_eq!(written(&plan("adaptive = {}")), None);
        assert_eq!(written(&plan("concurrency = [1]")), None);
        let bytes = written(&plan("rates = [100, 200]")).unwrap();
        assert!((5_900_000..7_000_000).contains(&bytes), "{bytes}: 21,000 requests");
    }
}
