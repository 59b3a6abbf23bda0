//! Messages of charts that compare several series.

use super::{Answer, Run, Step, is_steady, loaded, percent};
use crate::escape::clip;
use crate::words::class_limit::{ClassLimit, class_quantiles, of_class};
use crate::words::levels::level;
use crate::words::units::{level_number, value_of};
use goodput_core::level::Control;

/// Levels within this ratio count as one level.
const SAME: f64 = 1.015;
/// Length of the name of a series.
const NAME: usize = 24;

/// The value of each series at one level, the lowest first.
struct AtLevel<'a> {
    control: Control,
    level: f64,
    values: Vec<(&'a str, f64)>,
}

/// The highest and the lowest level that the series keep.
struct LevelsReached {
    most: String,
    best: String,
    /// `None` if it is the same as the highest.
    least: Option<String>,
    worst: String,
}

/// Returns the value of each series at the highest level that at least two of them were measured at.
fn at_common_level<'a>(
    run: &'a Run,
    value: impl Fn(&'a Run, &'a Step) -> Option<f64>,
) -> Option<AtLevel<'a>> {
    let steps: Vec<(&Run, Vec<&Step>)> = run
        .parts
        .iter()
        .filter_map(|p| Some((p, loaded(p, p.answers.first()?))))
        .map(|(p, all)| (p, all.into_iter().filter(|s| is_steady(s)).collect()))
        .collect();
    let mut levels: Vec<(Control, f64)> =
        steps.iter().flat_map(|(_, all)| all).map(|s| (s.level.control, s.level.value)).collect();
    levels.sort_by(|a, b| b.1.total_cmp(&a.1));
    levels.into_iter().find_map(|(control, wanted)| {
        let is_near = |s: &&&Step| {
            s.level.control == control && s.level.value <= wanted * SAME && wanted <= s.level.value * SAME
        };
        let own = |(p, all): &(&'a Run, Vec<&'a Step>)| {
            let step: &'a Step = all.iter().find(is_near)?;
            Some((p.series(), value(p, step)?))
        };
        let mut found: Vec<(&str, f64)> = steps.iter().filter_map(own).collect();
        found.sort_by(|a, b| a.1.total_cmp(&b.1));
        (found.len() > 1).then_some(AtLevel { control, level: wanted, values: found })
    })
}

/// Returns the latency that binds at one level, for the best and the worst series: `At 32 requests/s p99 TTFT is 61 ms with
/// warm and 190 ms with cold`. Without a common level, where the series reach their limit.
pub(crate) fn overlay(run: &Run) -> Option<String> {
    let part = run.parts.iter().find(|p| p.answers.first().is_some_and(|a| a.goodput.binding.is_some()));
    let part = part.or(run.parts.first())?;
    let (class, metric) = ClassLimit::told(ClassLimit::main(part, part.answers.first()?));
    let title = of_class(metric.title(), class);
    let quantiles = |s: &Step| class_quantiles(s, class, metric);
    if let Some(AtLevel { control, level: at, values }) = at_common_level(run, |_, s| quantiles(s).p99) {
        let ((best, low), (worst, high)) = (values.first()?, values.last()?);
        return Some(format!(
            "At {} p99 {title} is {} with {} and {} with {}",
            level(control, at),
            value_of(metric, *low),
            clip(best, NAME),
            value_of(metric, *high),
            clip(worst, NAME)
        ));
    }
    let LevelsReached { most, best, least, worst } = kept_up_to(run, |a| a.goodput.rate())?;
    Some(match least {
        Some(least) => format!("The SLO is kept up to {most} with {best}, up to {least} with {worst}"),
        None => format!("The SLO is kept up to about {most}, whatever the series"),
    })
}

/// Returns the highest level of any answer with the name of its series, and the lowest, if it differs.
fn kept_up_to(run: &Run, rate: impl Fn(&Answer) -> Option<f64>) -> Option<LevelsReached> {
    let answers: Vec<&Answer> = run.parts.iter().filter_map(|p| p.answers.first()).collect();
    let control = answers.first()?.control;
    let mut rates: Vec<(f64, &str)> =
        answers.iter().filter_map(|a| Some((rate(a)?, a.series.as_str()))).collect();
    rates.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ((low, worst), (high, best)) = (rates.first()?, rates.last()?);
    if rates.len() < 2 || answers.iter().any(|a| a.control != control) {
        return None;
    }
    let least = (*high > low * SAME).then(|| level_number(*low));
    Some(LevelsReached {
        most: level(control, *high),
        best: clip(best, NAME),
        least,
        worst: clip(worst, NAME),
    })
}

/// Returns the share of requests within every limit at one level, for the best and the worst series.
pub(crate) fn attained(run: &Run) -> Option<String> {
    if let Some(AtLevel { control, level: at, values }) = at_common_level(run, |_, s| s.joint_attainment) {
        let ((worst, low), (best, high)) = (values.first()?, values.last()?);
        return Some(format!(
            "At {} {} of requests keep every limit with {}, {} with {}",
            level(control, at),
            percent(*high),
            clip(best, NAME),
            percent(*low),
            clip(worst, NAME)
        ));
    }
    let target = percent(run.tiers.first()?.joint_target());
    let LevelsReached { most, best, least, worst } = kept_up_to(run, |a| a.joint_goodput.rate())?;
    Some(match least {
        Some(least) => {
            format!(
                "{target} of requests keep every limit up to {most} with {best}, up to {least} with {worst}"
            )
        }
        None => format!("{target} of requests keep every limit up to about {most}, whatever the series"),
    })
}
