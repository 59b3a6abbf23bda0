//! The maximum throughput of a server, whatever the latency: numbers in flight that double until throughput stops
//! growing, or everything at once.

use super::ask::{Ask, Ends};
use super::config::Ladder;
use super::stop::{HighestKey, Stop};
use crate::stats::step::{Step, StepKind};
use goodput_core::level::Level;
use goodput_core::slo::Metric;
use goodput_core::times::StepTimes;
use std::time::Duration;

/// Settling period and least window of a ladder step, in answers one after the other. All slots of a closed loop begin
/// at once, and a window shorter than an answer would show their rhythm instead of a rate.
const SETTLE_ANSWERS: f64 = 1.5;
const WINDOW_ANSWERS: f64 = 4.0;

/// Confidence of the verdict on a burst, for which the plan has no setting.
const CONFIDENCE: f64 = 0.95;

/// Returns the throughput of a ladder step: output tokens per second, or requests per second if tokens are unknown.
fn throughput(step: &Step) -> f64 {
    if step.output_tokens_per_s > 0.0 { step.output_tokens_per_s } else { step.achieved_rate }
}

/// Returns the next number in flight with its least settling period and window, or why the ladder ends. `dead` is the
/// reason why the series cannot continue, if there is one.
pub(super) fn ladder(
    ladder: &Ladder,
    done: &[&Step],
    dead: Option<Stop>,
) -> Result<(Level, (Duration, Duration)), Stop> {
    if let Some(stop) = dead {
        return Err(stop);
    }
    let level = ladder.level(done.len());
    let Some(last) = done.last() else { return Ok((Level::concurrency(level), Default::default())) };
    // A step without an answer shows no throughput; it may have had too few requests to show why.
    if let [.., before, last] = done
        && !(before.unanswered() || last.unanswered())
    {
        let growth = throughput(last) / throughput(before).max(f64::MIN_POSITIVE) - 1.0;
        if growth < ladder.growth.get() {
            return Err(Stop::Flat { level: last.level, growth });
        }
    }
    if last.level.value >= f64::from(level) {
        return Err(Stop::Highest { key: HighestKey::LadderMax, level: last.level });
    }
    // If the server completes no more of them, twice as many in flight take at most twice as long.
    let longest = 2.0 * last.quantiles(Metric::E2e).p50.unwrap_or(0.0) / 1e3;
    let answers = |n: f64| Duration::try_from_secs_f64(n * longest).unwrap_or_default();
    Ok((Level::concurrency(level), (answers(SETTLE_ANSWERS), answers(WINDOW_ANSWERS))))
}

/// Returns a step that sends everything at once. The window ends with the last answer, at the latest after
/// `max-duration`.
pub(super) fn burst(n: u32, times: &StepTimes) -> Ask {
    let longest = times.max_duration.0;
    Ask {
        level: Level::concurrency(n),
        kind: StepKind::Burst,
        settle: Duration::ZERO,
        measure: longest,
        extend: false,
        tail: Duration::ZERO,
        drain: longest,
        ends: Ends::AtItsTime,
        confidence: CONFIDENCE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::series::tests::step;
    use crate::stats::step::Verdict;

    fn at(level: u32, tokens_per_s: f64, e2e_ms: f64) -> Step {
        let mut s = step(Level::concurrency(level), Verdict::Meets);
        s.output_tokens_per_s = tokens_per_s;
        s.latency.entry(Metric::E2e).or_default().p50 = Some(e2e_ms);
        s
    }

    /// Cases: tokens/s at each level so far; the next level, or the end of the ladder: at its top (true) or for lack of
    /// growth (false).
    #[test]
    fn it_doubles_until_throughput_stops_growing() {
        let plan: Ladder = toml::from_str("max = 12").unwrap();
        for (done, next) in [
            (vec![], Ok(1)),
            (vec![100.0], Ok(2)),
            (vec![100.0, 190.0], Ok(4)),
            (vec![100.0, 190.0, 199.0], Err(false)), // 4.7 % more
            (vec![100.0, 190.0, 360.0, 500.0], Ok(12)),
            (vec![100.0, 190.0, 360.0, 500.0, 600.0], Err(true)),
            (vec![100.0, 80.0], Err(false)),
        ] {
            let steps: Vec<Step> =
                done.iter().enumerate().map(|(i, t)| at(plan.level(i), *t, 1000.0)).collect();
            let steps: Vec<&Step> = steps.iter().collect();
            match (ladder(&plan, &steps, None), next) {
                (Ok((level, _)), Ok(n)) => assert_eq!(level, Level::concurrency(n), "{done:?}"),
                (Err(Stop::Highest { key: HighestKey::LadderMax, .. }), Err(true)) => {}
                (Err(Stop::Flat { growth, .. }), Err(false)) => assert!(growth < 0.05, "{growth}"),
                (got, _) => panic!("{done:?}: {got:?}"),
            }
        }
    }

    #[test]
    fn a_step_outlasts_its_answers() {
        let plan: Ladder = toml::from_str("max = 64").unwrap();
        let one = at(1, 100.0, 5000.0);
        let (_, (settle, measure)) = ladder(&plan, &[&one], None).unwrap();
        assert_eq!((settle, measure), (Duration::from_secs(15), Duration::from_secs(40)));
    }
}
