//! Steps far above all others, which are listed in words instead of drawn.

use super::curves::{Curve, steady};
use super::mark::Mark;
use goodput_core::units::short;
use goodput_stats::stats::step::Step;

/// Ratio to the highest steady level above which an aborted or overloaded step is listed in words instead of drawn.
const AFAR: f64 = 1.6;

/// Removes aborted or overloaded steps far above all others from the curves, since they would squash the relevant
/// range. Returns a sentence that lists them, if any.
pub(crate) fn without_afar(curves: &mut [Curve<'_>], boundary: impl Iterator<Item = f64>) -> Option<String> {
    let all = || curves.iter().flat_map(|c| c.steps.iter().copied());
    let near = all().filter(|s| steady(s)).map(|s| s.level.value).chain(boundary).fold(0.0, f64::max);
    let mut afar: Vec<&Step> = all().filter(|s| !steady(s) && s.level.value > AFAR * near).collect();
    if near <= 0.0 || afar.is_empty() {
        return None;
    }
    for c in curves {
        c.steps.retain(|s| steady(s) || s.level.value <= AFAR * near);
    }
    afar.sort_by(|a, b| a.level.value.total_cmp(&b.level.value));
    let of = |mark: Mark| afar.iter().filter(|s| Mark::of(s) == mark).count();
    let what = match (of(Mark::Overloaded), of(Mark::Fails)) {
        (n, _) if n == afar.len() => "overloaded",
        (_, n) if n == afar.len() => "fails",
        _ => "cut short or overloaded",
    };
    let mut levels: Vec<String> = afar.iter().map(|s| short(s.level.value)).collect();
    levels.dedup();
    let shown = if levels.len() > 3 {
        format!("{} steps up to {}", levels.len(), levels[levels.len() - 1])
    } else {
        levels.join(", ")
    };
    Some(format!("{what} beyond this axis: {shown} →"))
}

#[cfg(test)]
mod tests {
    use super::super::curves::curves;
    use super::*;
    use goodput_run::fixture;

    #[test]
    fn an_overload_far_above_is_named_instead() {
        let mut run = fixture::found();
        let mut all = curves(&run);
        assert_eq!(without_afar(&mut all, [34.0].into_iter()), None, "48 is not far above 36");
        run.steps[10].level.value = 81.0;
        let mut all = curves(&run);
        let said = without_afar(&mut all, std::iter::empty()).unwrap();
        assert!(said.contains("overloaded") && said.contains("81") && all[0].steps.len() == 10, "{said}");
        run.steps[10].stable = None;
        let said = without_afar(&mut curves(&run), std::iter::empty()).unwrap();
        assert!(said.starts_with("fails beyond"), "cut short, and no backlog: {said}");
        run.steps.drain(..10);
        let mut only = curves(&run);
        assert_eq!(without_afar(&mut only, std::iter::empty()), None, "where nothing else is, it is drawn");
    }
}
