//! The support of the steps for an answer, in words: the chance that the safe rate is too high, the step that held it,
//! and a flat curve.

use super::levels::level;
use super::units::{span, thousands};
use goodput_core::units::short;
use goodput_run::rundir::Run;
use goodput_stats::search::answer::{Answer, Goodput};
use goodput_stats::stats::step::Verdict;

/// Chance of a flat curve above which no chance is given that the safe rate is too high: on such curves it is too high
/// more often than its confidence says (`docs/accuracy.md`).
const FLAT: f64 = 0.5;
/// Chances below this are omitted.
const NEGLIGIBLE: f64 = 0.05;

/// Returns the clause behind a safe rate: the chance that it is too high, or why none is given.
pub(crate) fn chance_clause(run: &Run, g: &Goodput) -> String {
    if g.support.misfit.is_some() {
        return "single steps contradict the fitted curve, so no chance is given that it is too much".into();
    }
    if g.support.flat.is_some_and(|p| p > FLAT) {
        return "the curve is flat there, where a rate half as high again has hardly more misses: no chance is given that it is too much".into();
    }
    let chance = run.terms.map_or(5.0, |t| 100.0 * (1.0 - t.confidence));
    format!("{} % chance that it is too much", short((chance * 1e3).round() / 1e3))
}

/// Returns the chance that the curve is flat at the boundary, as a clause; empty if it is negligible or already
/// mentioned.
pub(crate) fn flat_clause(g: &Goodput) -> String {
    match g.support.flat {
        Some(p) if (NEGLIGIBLE..=FLAT).contains(&p) => {
            format!("; chance of a flat curve there: {:.0} %", 100.0 * p)
        }
        _ => String::new(),
    }
}

/// Returns by how much scatter between the steps widens the interval, as a clause; empty if it does not.
pub(crate) fn scatter_clause(g: &Goodput) -> String {
    g.support.scatter.map_or_else(String::new, |by| {
        format!(
            "; steps scatter more than chance explains: interval {} times as wide",
            short((10.0 * by).round() / 10.0)
        )
    })
}

/// Returns the step that held the safe rate at the end of the budget, as a sentence; empty if there was none.
pub(super) fn held_at_end(a: &Answer) -> String {
    let Some(held) = &a.goodput.support.held else { return String::new() };
    let verdict = match held.verdict {
        Verdict::Meets => ", which meets",
        Verdict::Fails => ", which fails",
        Verdict::Undecided => "",
        Verdict::Invalid => ", in which the client was the limit",
    };
    let (misses, n) = (thousands(held.misses as f64), thousands(held.n as f64));
    let seconds = span(held.seconds);
    format!(
        " Held at the end for {seconds} at {}: {misses} of {n} requests missed{verdict}.",
        level(a.control, held.level)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_run::fixture;
    use goodput_stats::search::answer::{HoldingStep, Misfit, Support};

    #[test]
    fn a_chance_is_given_only_where_the_evidence_supports_one() {
        let mut run = fixture::adaptive();
        let mut said = |support: Support| {
            run.answers[0].goodput.support = support;
            (chance_clause(&run, &run.answers[0].goodput), flat_clause(&run.answers[0].goodput))
        };
        let flat = |p| Support { flat: Some(p), ..Support::default() };
        assert_eq!(said(flat(0.01)), ("5 % chance that it is too much".into(), String::new()));
        let (chance, also) = said(flat(0.2));
        assert!(chance.starts_with("5 %") && also.ends_with("flat curve there: 20 %"), "{chance}{also}");
        let (chance, also) = said(flat(0.8));
        assert!(chance.starts_with("the curve is flat there") && also.is_empty(), "{chance}{also}");
        assert_eq!(
            scatter_clause(&Goodput {
                support: Support { scatter: Some(1.414), ..Support::default() },
                ..run.answers[0].goodput.clone()
            }),
            "; steps scatter more than chance explains: interval 1.4 times as wide"
        );
        let mut said = |support: Support| {
            run.answers[0].goodput.support = support;
            (chance_clause(&run, &run.answers[0].goodput), flat_clause(&run.answers[0].goodput))
        };
        let (chance, _) = said(Support { misfit: Some(Misfit::BelowMet), ..Support::default() });
        assert!(chance.contains("no chance is given"), "{chance}");
    }

    #[test]
    fn the_held_step_is_told_with_its_counts() {
        let mut run = fixture::adaptive();
        let step = HoldingStep { level: 30.0, seconds: 170.0, verdict: Verdict::Meets, misses: 3, n: 5100 };
        run.answers[0].goodput.support.held = Some(step);
        assert_eq!(
            held_at_end(&run.answers[0]),
            " Held at the end for 3 min at 30 requests/s: 3 of 5,100 requests missed, which meets."
        );
    }
}
