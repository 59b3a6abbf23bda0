//! The messages of charts: what each shows, in one line. `None` where a chart shows no more than the answer of its run.

mod first_token;
mod levels;
mod scale;
mod several;
mod user_speed;

use super::class_limit::{ClassLimit, of_class};
use super::levels::level;
use super::names::{steps_of, subject};
use super::units::{capital, count, level_number, list, percent, span, thousands, value_of};
use super::{answer, estimate};
use goodput_core::level::Control;
use goodput_core::units::short;
use goodput_run::rundir::Run;
use goodput_run::rundir::derive::usable_safe_rate;
use goodput_stats::capacity::demand::DAY_S;
use goodput_stats::search::answer::{Answer, Status};
use goodput_stats::stats::step::{Step, Verdict};
use goodput_stats::stats::summary::tier_verdict;

pub(crate) use first_token::{FirstToken, first_tokens};
pub(crate) use levels::{attainment, latency_against_load, server, throughput, timelines};
pub(crate) use scale::slo_scale;
pub(crate) use several::{attained, overlay};
pub(crate) use user_speed::{UserSpeed, pareto, per_gpu, tokens_at_goodput};

/// Returns the steps of an answer that carry its kind of load and are valid, ascending by their level.
fn loaded<'a>(run: &'a Run, a: &Answer) -> Vec<&'a Step> {
    let own = |s: &&Step| {
        !s.kind.is_outside_search() && s.level.control == a.control && s.verdict != Verdict::Invalid
    };
    let mut all: Vec<&Step> = steps_of(run, a).into_iter().filter(own).collect();
    all.sort_by(|a, b| a.level.value.total_cmp(&b.level.value));
    all
}

/// Returns true for a step that ran its full time with a level backlog.
fn is_steady(s: &Step) -> bool {
    !s.overloaded()
}

/// Returns the share of requests within a limit in a sentence: `At 32 requests/s 99.7 % of requests have a TTFT of at most
/// 80 ms`.
fn share_within(a: &Answer, s: &Step, l: &ClassLimit<'_>) -> Option<String> {
    let share = l.row(s, &a.tier)?.attainment?;
    Some(format!(
        "At {} {} of {} have {} of at most {}",
        level(a.control, s.level.value),
        percent(share),
        of_class("requests", l.class),
        with_article(l.limit.metric.title()),
        value_of(l.limit.metric, l.limit.limit_ms())
    ))
}

/// Returns the title of a metric with its article, by its sound: `a TTFT`, `an ITL`, `an e2e`, `an RTF`.
fn with_article(title: &str) -> String {
    let article = if title.starts_with(['e', 'I', 'R']) { "an" } else { "a" };
    format!("{article} {title}")
}

/// Least number of requests of the step of the answer, unless all have fewer: a p99 of fewer is one request.
const FEW: u64 = 100;

/// Returns the step of the answer and its verdict: of the steps that `is_known` holds for, the highest shown to meet the SLO; else
/// the highest steady one below the lowest failure that is undecided, of those with [`FEW`] requests or more if there are any.
pub(crate) fn answer_step<'a>(
    run: &'a Run,
    a: &Answer,
    is_known: impl Fn(&Step) -> bool,
) -> Option<(&'a Step, Verdict)> {
    let failed = a.goodput.bracket.failed.unwrap_or(f64::INFINITY);
    let near: Vec<(&Step, Verdict)> = loaded(run, a)
        .into_iter()
        .filter(|s| is_steady(s) && s.level.value < failed && is_known(s))
        .map(|s| (s, tier_verdict(&s.limits, &a.tier).0))
        .collect();
    let highest = |wanted, least| near.iter().rfind(|(s, v)| *v == wanted && s.due_n >= least).copied();
    highest(Verdict::Meets, 0)
        .or_else(|| highest(Verdict::Undecided, FEW))
        .or_else(|| highest(Verdict::Undecided, 0))
}

/// Returns what the step of the answer shows: the share of its requests within the limit that binds.
pub(crate) fn distribution(run: &Run) -> Option<String> {
    let a = run.answers.first()?;
    let judged = ClassLimit::main(run, a)?;
    let (step, _) = answer_step(run, a, |_| true)?;
    let (q, limit) = (judged.quantiles(step), judged.limit);
    let share = limit.percentile.share();
    let tail = q.at(share).filter(|_| share > 0.5);
    let Some((p50, tail)) = q.p50.zip(tail) else { return share_within(a, step, &judged) };
    Some(format!(
        "At {} half of the {} have {} of at most {}, {} % of at most {}; the limit is {}",
        level(a.control, step.level.value),
        of_class("requests", judged.class),
        with_article(limit.metric.title()),
        value_of(limit.metric, p50),
        short(100.0 * share),
        value_of(limit.metric, tail),
        value_of(limit.metric, limit.limit_ms())
    ))
}

/// Returns what the search came to: `14 steps in 24 min narrow the limit down to 33.5 – 35.9 requests/s`.
pub(crate) fn search(run: &Run) -> Option<String> {
    let a = run.answers.first().filter(|a| a.goodput.status() == Status::Found)?;
    let ([_, low, high], _) = estimate::ends(a.control, &a.goodput)?;
    let [_, top] = a.goodput.interval90()?;
    let steps = loaded(run, a);
    let spent = steps.iter().map(|s| s.ended_s).fold(0.0, f64::max);
    let high = level(a.control, top).replacen(&level_number(top), &high, 1);
    Some(format!("{} steps in {} narrow the limit down to {low} – {high}", steps.len(), span(spent)))
}

/// Returns the median and the tail of the lengths: `Prompts: 601 tokens at p50, 1,190 at p99; answers: …`.
pub(crate) fn lengths(run: &Run) -> Option<String> {
    let sent = run.meta.sent.first()?;
    let of = |name: &str, d: &Option<goodput_core::distribution::Distribution>| {
        let d = d.as_ref()?;
        let [p50, p99] = [d.p50, d.p99].map(|n| thousands(n as f64));
        Some(format!("{name}: {p50} tokens at p50, {p99} at p99"))
    };
    let said: Vec<String> =
        [of("prompts", &sent.input), of("answers", &sent.output)].into_iter().flatten().collect();
    (!said.is_empty()).then(|| capital(&said.join("; ")))
}

/// Returns the requests a day that the measured server takes: `One A40 takes 2.9 million requests a day at the safe rate`.
pub(crate) fn capacity(run: &Run) -> Option<String> {
    let a = run.answers.first().filter(|a| a.control == Control::Rate)?;
    run.capacity(a)?;
    let safe = usable_safe_rate(&a.goodput);
    let rate = safe.or(a.goodput.rate()).or(a.goodput.bracket.met)?;
    let at = match (safe, a.goodput.interval90()) {
        (Some(_), _) => "at the safe rate",
        (None, Some(_)) => "at the goodput",
        (None, None) => "at the highest rate shown to meet the SLO",
    };
    let who = subject(&run.meta);
    Some(format!("{who} {} {} requests a day {at}", answer::verb(&run.meta, "take"), count(rate * DAY_S)))
}

/// Returns a verb for one or several requests.
fn wait(n: f64) -> String {
    match n {
        n if n < 0.5 => "no request waits".into(),
        n if n < 1.5 => "at most one request waits".into(),
        n => format!("at most {} requests wait", thousands(n)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charts::{of, over};
    use goodput_run::fixture;
    use goodput_stats::stats::step::StepKind;

    fn case(name: &str) -> Run {
        fixture::cases().into_iter().find(|(n, _)| *n == name).map(|(_, r)| r).unwrap()
    }

    /// The messages of the charts of some runs, as somebody reads them who sees the charts alone. Only one chart of a run says the answer.
    #[test]
    fn every_chart_has_a_message_of_its_own() {
        let mut run = case("soak");
        run.view.recovery = fixture::surged(true).view.recovery;
        run.view.sensitivity = fixture::moved().view.sensitivity;
        let mut said: Vec<(&str, String)> = Vec::new();
        for (run, may_repeat) in
            [(run, "latency"), (fixture::served(), "latency"), (fixture::pair(), "goodputs")]
        {
            let traces = fixture::traces(&run);
            let charts = if run.parts.is_empty() { of(&run, &traces) } else { over(&run, &traces) };
            for chart in charts {
                let message = chart.message(&run);
                assert!(
                    chart.name == may_repeat || message != crate::words::headline(&run),
                    "{}",
                    chart.name
                );
                if said.iter().all(|(name, _)| *name != chart.name || !run.parts.is_empty()) {
                    said.push((chart.name, message));
                }
            }
        }
        let text: String = said.iter().map(|(name, message)| format!("{name}: {message}\n")).collect();
        insta::assert_snapshot!(text, @r#"
        latency: One A40 serves 34.1 requests/s within the SLO; TPOT is the limit
        latency-offered: p99 TPOT rises from 8.22 ms at 19.4 to 123 ms at 40.5 requests/s; the limit is 20 ms
        throughput: At most 40.4 requests/s and 1,210 output tokens/s are completed, however much is offered
        pareto: At 33 requests/s 99 % of requests get 56.2 tokens/s or more; the SLO asks for 50; one A40 gives 990 output tokens/s
        attainment: At 35 requests/s 98.6 % of requests have a TPOT of at most 20 ms; the SLO asks for 99 %
        search: 14 steps in 23 min narrow the limit down to 33 – 35.3 requests/s
        sensitivity: What moves the goodput most: with prompts 20 % longer it changes by −18 %
        recovery: After a surge to 28 requests/s the server recovers within 41 s
        distribution: At 33 requests/s half of the requests have a TPOT of at most 9.73 ms, 99 % of at most 17.8 ms; the limit is 20 ms
        timelines: Requests pile up from 58.3 requests/s on; up to 40.5 they do not
        capacity: One A40 takes 2.85 million requests a day at the safe rate
        server: Up to 36 requests/s at most 13 requests wait, the KV cache is at most 79 % full and at most 0.37 preemptions come on 100 requests
        goodputs: One A40 within the SLO: 33.6 requests/s cold and at least 48 warm
        overlay: At 36 requests/s p99 TPOT is 9.54 ms with warm and 26.1 ms with cold
        attained: At 36 requests/s 99.91 % of requests keep every limit with warm, 97.8 % with cold
        pareto: Within the SLO warm gives 1,440 output tokens/s, cold gives 1,010
        "#);
    }

    /// The highest load is more than the server can take, but not by so much that its rates show it.
    #[test]
    fn a_server_that_sinks_does_not_complete_all() {
        let mut run = case("soak");
        run.steps.retain(|s| s.stable != Some(false));
        assert_eq!(throughput(&run).unwrap().split(',').next(), Some("All that is offered is completed"));
        let last = run.steps.iter_mut().filter(|s| s.kind != StepKind::Baseline);
        let last = last.max_by(|a, b| a.level.value.total_cmp(&b.level.value)).unwrap();
        last.stable = Some(false);
        let (at, message) = (last.level.value, throughput(&run).unwrap());
        assert!(
            message.starts_with("Up to ")
                && message.ends_with(&format!("; at {at} offered requests pile up")),
            "{message}"
        );
    }

    /// Rows: good requests/s at a load above the best throughput, and what is said of it.
    #[test]
    fn answers_that_come_late_are_told_apart() {
        let mut run = case("soak");
        run.steps.retain(|s| s.stable != Some(false));
        for (good, said) in [(2.0, "; of 60 only 2 are in time"), (0.0, "; of 60 none are in time")] {
            let last = run.steps.iter_mut().filter(|s| s.kind != StepKind::Baseline);
            let last = last.max_by(|a, b| a.level.value.total_cmp(&b.level.value)).unwrap();
            (last.offered_rate, last.achieved_rate, last.good_rate) = (60.0, 10.0, good);
            let message = throughput(&run).unwrap();
            assert!(message.ends_with(said), "{message}");
        }
    }

    #[test]
    fn a_run_without_an_answer_has_no_message_but_that() {
        let run = case("no-step");
        for chart in crate::charts::CHARTS {
            assert_eq!(chart.message(&run), "No answer: no step was finished", "{}", chart.name);
        }
    }
}
