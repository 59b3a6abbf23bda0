//! The answer in one line for runs with a special headline: a matrix, measurements without an SLO, variants and several
//! series.

use super::estimate::ends;
use super::names::{steps_of, subject};
use super::series_names::short_names;
use super::units::{figure, latency, level_number, list, thousands};
use crate::document::UNKNOWN;
use goodput_core::level::Control;
use goodput_core::slo::Metric;
use goodput_plan::Purpose;
use goodput_run::rundir::Run;
use goodput_run::rundir::derive::interval;
use goodput_run::rundir::offline::{LevelFigures, is_burst, levels, most};
use goodput_run::rundir::variants::{Best, VariantAnswer};
use goodput_stats::search::answer::{Answer, Status};
use goodput_stats::stats::step::{Step, Verdict};
use goodput_stats::stats::summary::tier_verdict;

/// Maximum number of series whose figures are in the headline.
const IN_HEADLINE: usize = 4;
/// Length of the name of a variant in a headline.
pub(crate) const NAME: usize = 40;

/// Returns a headline that says if its results are imported.
pub(crate) fn with_origin(run: &Run, line: String) -> String {
    match &run.meta.imported {
        Some(imported) => format!("{line} (imported from {})", imported.title()),
        None => line,
    }
}

/// Returns the limit that a reader sees bind in the charts: the growing backlog, where that is what every failing step
/// shows, although the fit may cross a limit of latency just before it; else the limit that binds.
pub(super) fn seen<'a>(run: &Run, a: &'a Answer) -> Option<&'a str> {
    let binding = a.goodput.binding.as_deref()?;
    let fails = |s: &&Step| {
        s.limits.iter().any(|l| l.tier == a.tier) && tier_verdict(&s.limits, &a.tier).0 == Verdict::Fails
    };
    let failing: Vec<&Step> = steps_of(run, a).into_iter().filter(fails).collect();
    let all_grow = !failing.is_empty() && failing.iter().all(|s| s.stable == Some(false));
    let of_latency = Metric::of_limit(binding).is_some();
    Some(if all_grow && of_latency { "stability" } else { binding })
}

/// Returns the headline of a matrix, for a report and its charts; `None` for other runs.
pub(super) fn of_matrix(run: &Run) -> Option<String> {
    if run.matrix.is_empty() {
        return None;
    }
    let count = |held| run.matrix.iter().filter(|r| r.held == Some(held)).count();
    let stated = run.matrix.iter().filter(|r| r.expected.is_some()).count();
    let (rows, open) = (run.matrix.len(), stated - count(true) - count(false));
    let of_rows = if rows == 1 { "A matrix of 1 row".into() } else { format!("A matrix of {rows} rows") };
    if stated == 0 {
        return Some(of_rows);
    }
    let open = if open > 0 { format!("; {open} undecided") } else { String::new() };
    Some(format!("{of_rows}: {} of {stated} expectations held{open}", count(true)))
}

/// Returns the headline of a run without an SLO; `None` for a run about the goodput.
pub(super) fn of_levels(run: &Run) -> Option<String> {
    let all = levels(run);
    let (Some(first), Some(last)) = (all.first(), all.last()) else {
        return (!run.purpose.is_goodput()).then(|| "No answer: no step was finished".into());
    };
    match run.purpose {
        Purpose::Goodput => None,
        Purpose::Sensitivity => {
            Some("Pairs of steps: the run that they belong to has what moves its answer".into())
        }
        Purpose::Latency => {
            let time = |ms: Option<f64>| ms.map_or_else(|| UNKNOWN.to_owned(), latency);
            let said = |l: &LevelFigures| {
                let who = if l.in_flight > 1.0 {
                    format!("{} at once", level_number(l.in_flight))
                } else {
                    "One request alone".into()
                };
                format!(
                    "{who}: first token after {}, whole answer after {}",
                    time(l.quantiles(Metric::Ttft).p50),
                    time(l.quantiles(Metric::E2e).p50)
                )
            };
            let more =
                if last.in_flight > first.in_flight { format!("; {}", said(last)) } else { String::new() };
            Some(format!("{}{more}", said(first)))
        }
        Purpose::Throughput if is_burst(run) => Some(format!(
            "{} requests at once: done after {}, {} output tokens/s",
            thousands(first.in_flight),
            latency(1e3 * first.seconds),
            figure(first.output_tokens_per_s)
        )),
        Purpose::Throughput => most(&all).map(|best| {
            format!(
                "The ceiling: {} output tokens/s, {} requests/s, with {} requests in flight",
                figure(best.output_tokens_per_s),
                figure(best.requests_per_s),
                level_number(best.in_flight)
            )
        }),
    }
}

/// Returns the headline of the variants, for a report and its charts; `None` for a run without variants.
pub(super) fn of_variants(run: &Run) -> Option<String> {
    if run.variants.is_empty() {
        return None;
    }
    let best = Best::of(&run.variants);
    let names = short_names(run.variants.iter().map(|v| v.series.as_str()), NAME);
    let at_slo = best.at_slo.map(|i| {
        let v = &run.variants[i];
        format!("best within the SLO: {} ({})", names[i], brief_variant(v))
    });
    let raw = best.raw_peak.map(|i| {
        let v = &run.variants[i];
        format!("raw peak: {} ({} output tokens/s)", names[i], peak_of(v))
    });
    let said: Vec<String> = at_slo.into_iter().chain(raw).collect();
    let n = run.meta.variants.len();
    let variants = if n == 1 { "1 variant".to_owned() } else { format!("{n} variants") };
    Some(match said.is_empty() {
        true if run.variants.iter().all(|v| v.answer.is_none()) => {
            format!("{variants}, and none could be measured")
        }
        true => format!("{variants}, and none is shown to keep the SLO"),
        false => format!("Of {variants} {}", said.join("; ")),
    })
}

/// Returns the goodput of a variant in short: `31.5 req/s`, `at least 30 req/s`.
pub(crate) fn brief_variant(v: &VariantAnswer) -> String {
    let Some(a) = &v.answer else { return v.state.name().into() };
    match ends(a.control, &a.goodput) {
        Some(([rate, ..], _)) => format!("{rate}{}", a.control.unit()),
        None => {
            let met = v.goodput().map(|(rate, _)| level_number(rate)).unwrap_or_default();
            format!("at least {met}{}", a.control.unit())
        }
    }
}

/// Returns the peak output tokens per second of a variant, measured at full load.
pub(crate) fn peak_of(v: &VariantAnswer) -> String {
    let peak = v.peak.as_ref().map(|p| p.output_tokens_per_s).filter(|x| x.is_finite());
    peak.map(figure).unwrap_or_default()
}

/// Returns an answer in a few words, and true if they are a figure: `31.5`, `at least 30`, `undecided`, and `at most
/// 2.79` if no level is shown to be safe. An undecided answer is never given as a rate that is served.
pub(crate) fn brief_answer(a: &Answer) -> (String, bool) {
    let g = &a.goodput;
    let known = matches!(g.status(), Status::Found | Status::NotReached);
    let from_zero = interval(g).is_some_and(|(_, [low, _])| low <= 0.0);
    match (ends(a.control, g), g.rate().or(g.bracket.met)) {
        (Some(([_, _, high], _)), _) if from_zero => (format!("at most {high}"), true),
        (Some(([rate, ..], _)), _) if known => (rate, true),
        (None, Some(rate)) if known => (format!("at least {}", level_number(rate)), true),
        _ => (g.status().name().to_owned(), false),
    }
}

/// Returns the headline of a matrix; empty for other runs.
pub(crate) fn headline_of_matrix(run: &Run) -> String {
    of_matrix(run).unwrap_or_default()
}

/// Returns the headline of a run without an SLO; empty for a run about the goodput.
pub(crate) fn headline_of_levels(run: &Run) -> String {
    of_levels(run).unwrap_or_default()
}

/// Returns the answers of several series in one line, for above a chart; `None` if there is only one.
pub(super) fn of_series(run: &Run) -> Option<String> {
    let firsts: Vec<&Answer> = run.parts.iter().filter_map(|p| p.answers.first()).collect();
    let control = firsts.first()?.control;
    let unit = match control {
        Control::Rate => " requests/s",
        Control::Concurrency => " requests in flight",
        Control::Sessions | Control::TraceScale => control.unit(),
    };
    let alike = firsts.iter().all(|a| a.control == control);
    let told = firsts.iter().position(|a| brief_answer(a).1);
    let names = short_names(firsts.iter().map(|a| a.series.as_str()), 24);
    // Only the first figure has the unit.
    let say = |(i, a): (usize, &&Answer)| {
        let unit = if alike && told == Some(i) { unit } else { "" };
        format!("{}{unit} {}", brief_answer(a).0, names[i])
    };
    let mut said: Vec<String> = firsts.iter().enumerate().take(IN_HEADLINE).map(say).collect();
    if firsts.len() > IN_HEADLINE {
        said.push(format!("{} more series", firsts.len() - IN_HEADLINE));
    }
    Some(format!("{} within the SLO: {}", subject(&run.meta), list(&said)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_run::fixture;
    use goodput_stats::fixture::conclusion;
    use goodput_stats::search::answer::Conclusion;

    #[test]
    fn the_headline_names_each_series() {
        let run = fixture::pair();
        let head = of_series(&run).unwrap();
        assert!(
            head.starts_with("One A40 within the SLO: 33.6") && head.contains(" requests/s cold and "),
            "{head}"
        );
        assert_eq!(of_series(&fixture::found()), None);
    }

    #[test]
    fn a_growing_backlog_is_named_where_it_is_all_that_is_seen() {
        let mut run = fixture::found();
        run.answers[0].goodput.binding = Some("ttft.p99".into());
        assert_eq!(
            seen(&run, &run.answers[0]),
            Some("ttft.p99"),
            "the step at 36 fails with a level backlog"
        );
        run.steps.retain(|s| s.level.value < 35.0 || s.stable == Some(false));
        assert_eq!(seen(&run, &run.answers[0]), Some("stability"));
        run.answers[0].goodput.binding = Some("error-rate".into());
        assert_eq!(seen(&run, &run.answers[0]), Some("error-rate"), "errors are not latency");
        run.steps.retain(|s| s.stable != Some(false));
        run.answers[0].goodput.binding = Some("ttft.p99".into());
        assert_eq!(seen(&run, &run.answers[0]), Some("ttft.p99"), "no step fails");
    }

    #[test]
    fn what_is_undecided_is_no_rate_that_is_served() {
        let mut run = fixture::pair();
        let mut told = |conclusion| {
            let g = &mut run.parts[0].answers[0].goodput;
            g.conclusion = conclusion;
            of_series(&run).unwrap()
        };
        let below = conclusion(Status::Undecided, Some(1.83), Some([0.0, 2.79]), None);
        let found = conclusion(Status::Found, Some(18.3), Some([11.0, 27.9]), Some(11.0));
        for (conclusion, says) in [
            (below, "SLO: at most 2.79 requests/s cold and at least "),
            (Conclusion::OPEN, "SLO: undecided cold and at least "),
            (Conclusion::Invalid { safe: None }, "SLO: invalid cold and at least "),
            (found, "SLO: 18.3 requests/s cold and at least "),
        ] {
            let head = told(conclusion);
            assert!(head.contains(says), "{says}: {head}");
            assert_eq!(head.matches(" requests/s").count(), 1, "behind the first figure: {head}");
        }
    }
}
