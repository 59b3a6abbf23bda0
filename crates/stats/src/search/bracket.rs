//! Reads an answer off the verdicts of measured levels: the highest shown to meet below the lowest shown to fail.

use super::answer::{AnswerLevel, Basis, Bracket, Conclusion, Goodput, Located, Support};
use super::reason::{Ended, Evidence, LevelEvidence, LevelsEvidence, Reason};
use crate::stats::step::Verdict;

/// The verdict of one step on one tier.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Point {
    /// The level, with the counts behind its verdict.
    pub(crate) evidence: LevelEvidence,
    pub(crate) verdict: Verdict,
    pub(crate) binding: Option<String>,
    /// True if a failure here implies that lower levels fail too: the step was not overloaded by its load, or nothing
    /// was answered.
    pub(crate) inherent: bool,
}

impl Point {
    const fn value(&self) -> f64 {
        self.evidence.level.value
    }
}

/// Returns the bracket that the verdicts leave.
///
/// A level above one shown to fail is never trusted, so `met` lies below `failed` or there is none.
///
/// | | no level fails | a level fails |
/// |---|---|---|
/// | some meet (below it) | *not reached* if the highest measured level does; else *invalid* if the client was the limit above `met`, else *undecided* | *found* |
/// | none meets (below it) | *invalid* if every step is, else *undecided* | if it is the lowest, *none* if the failure is `inherent`, else *undecided*; else *invalid* if all below it are, else *undecided* |
pub(crate) fn bracket(points: &[Point], ended: Ended) -> Goodput {
    let mut points: Vec<&Point> = points.iter().collect();
    points.sort_by(|a, b| a.value().total_cmp(&b.value()));
    let failed = points.iter().copied().find(|p| p.verdict == Verdict::Fails);
    let below = |p: &&&Point| failed.is_none_or(|f| p.value() < f.value());
    let met = points.iter().copied().rfind(|p| below(&p) && p.verdict == Verdict::Meets);
    // The levels below the lowest that fails; all levels if none fails.
    let under: Vec<&Point> = points.iter().copied().filter(|p| below(&p)).collect();
    let beyond: Vec<&Point> =
        under.iter().copied().filter(|p| met.is_none_or(|m| p.value() > m.value())).collect();
    let all_invalid = |of: &[&Point]| !of.is_empty() && of.iter().all(|p| p.verdict == Verdict::Invalid);
    let invalid = Conclusion::Invalid { safe: None };
    let conclusion = match (met, failed) {
        (Some(m), Some(_)) => Conclusion::Found(Located::Bracket(AnswerLevel::new(m.value()))),
        (Some(_), None) if beyond.iter().any(|p| p.verdict == Verdict::Invalid) => invalid,
        (Some(_), None) if !beyond.is_empty() => Conclusion::OPEN,
        (Some(m), None) => Conclusion::NotReached { highest: AnswerLevel::new(m.value()), safe: None },
        (None, Some(f)) if under.is_empty() && f.inherent => Conclusion::None,
        (None, _) if all_invalid(&under) => invalid,
        (None, _) => Conclusion::OPEN,
    };
    Goodput {
        conclusion,
        bracket: Bracket { met: met.map(|m| m.value()), failed: failed.map(|f| f.value()) },
        binding: failed.and_then(|f| f.binding.clone()),
        support: Support::default(),
        reason: Reason::new(evidence(met, failed, &beyond, &points), ended),
        basis: Basis::Bracket,
    }
}

/// Returns the highest level shown to meet and the lowest shown to fail, each with its counts.
pub(super) fn decided(points: &[Point]) -> Evidence {
    let least =
        points.iter().filter(|p| p.verdict == Verdict::Fails).min_by(|a, b| a.value().total_cmp(&b.value()));
    let met = points
        .iter()
        .filter(|p| p.verdict == Verdict::Meets && least.is_none_or(|f| p.value() < f.value()))
        .max_by(|a, b| a.value().total_cmp(&b.value()));
    let counts = |p: Option<&Point>| p.map(|p| p.evidence.clone());
    Evidence::Levels(LevelsEvidence::Decided { met: counts(met), failed: counts(least) })
}

/// Returns the verdicts of single levels as evidence: the decisive ones first, then the undecided ones, then those that
/// are not trusted.
fn evidence(met: Option<&Point>, failed: Option<&Point>, beyond: &[&Point], all: &[&Point]) -> Vec<Evidence> {
    if all.is_empty() {
        return vec![Evidence::Levels(LevelsEvidence::Unmeasured)];
    }
    let level = |p: &Point| p.evidence.clone();
    let decisive = match (met, failed) {
        (Some(m), Some(f)) => LevelsEvidence::Bracket { met: level(m), failed: level(f) },
        (Some(m), None) => LevelsEvidence::MetUpTo(level(m)),
        (None, Some(f)) if beyond.is_empty() && f.inherent => LevelsEvidence::LowestFails(level(f)),
        (None, Some(f)) if beyond.is_empty() => LevelsEvidence::LowestOverloaded(level(f)),
        (None, Some(f)) => LevelsEvidence::NoneMeetsBelow(level(f)),
        (None, None) => LevelsEvidence::NothingShown,
    };
    let of = |points: &[&Point], verdict| -> Vec<LevelEvidence> {
        points.iter().filter(|p| p.verdict == verdict).map(|p| level(p)).collect()
    };
    let above: Vec<&Point> =
        all.iter().copied().filter(|p| failed.is_some_and(|f| p.value() > f.value())).collect();
    let others = [
        (
            LevelsEvidence::Undecided as fn(Vec<LevelEvidence>) -> LevelsEvidence,
            of(beyond, Verdict::Undecided),
        ),
        (LevelsEvidence::Invalid, of(beyond, Verdict::Invalid)),
        (LevelsEvidence::MetAboveFailed, of(&above, Verdict::Meets)),
    ];
    let others = others.into_iter().filter(|(_, levels)| !levels.is_empty()).map(|(of, levels)| of(levels));
    std::iter::once(decisive).chain(others).map(Evidence::Levels).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::answer::Status;
    use crate::search::reason::StepEvidence;
    use crate::search::stop::Stop;
    use goodput_core::level::Level;
    use proptest::prelude::*;

    /// `m`eets, `f`ails, fails by `o`verload, `u`ndecided, `i`nvalid at levels 1, 2, 3 …
    fn answer(verdicts: &str) -> Goodput {
        let points: Vec<Point> = verdicts.chars().enumerate().map(|(i, c)| point(i, c)).collect();
        bracket(&points, Ended::Stopped(Stop::ListDone { levels: points.len() }))
    }

    fn point(i: usize, c: char) -> Point {
        let verdict = match c {
            'm' => Verdict::Meets,
            'f' | 'o' => Verdict::Fails,
            'u' => Verdict::Undecided,
            _ => Verdict::Invalid,
        };
        let value = (i + 1) as f64;
        let binding = "fo".contains(c).then(|| "ttft.p99".to_owned());
        let counts = StepEvidence::Misses { limit: "ttft.p99".into(), misses: 5, n: 9 };
        let evidence = LevelEvidence { level: Level::rate(value), achieved_rate: value, counts };
        Point { evidence, verdict, binding, inherent: c != 'o' }
    }

    #[test]
    fn every_combination_has_its_status() {
        use Status::{Found, Invalid, None as Nothing, NotReached, Undecided};
        for (verdicts, status, met, failed) in [
            ("", Undecided, 0, 0),
            ("m", NotReached, 1, 0),
            ("f", Nothing, 0, 1),
            ("o", Undecided, 0, 1), // overloaded: what lies below was not tried
            ("of", Undecided, 0, 1),
            ("mo", Found, 1, 2),
            ("u", Undecided, 0, 0),
            ("i", Invalid, 0, 0),
            ("mf", Found, 1, 2),
            ("mmff", Found, 2, 3),
            ("muf", Found, 1, 3),  // a wide bracket is one
            ("mif", Found, 1, 3),  // likewise: both ends are shown
            ("fm", Nothing, 0, 1), // nothing above a fail is trusted
            ("mfm", Found, 1, 2),
            ("ufm", Undecided, 0, 2),
            ("uf", Undecided, 0, 2),
            ("if", Invalid, 0, 2),
            ("iuf", Undecided, 0, 3),
            ("uif", Undecided, 0, 3),
            ("mu", Undecided, 1, 0), // the highest level may fail
            ("mmu", Undecided, 2, 0),
            ("mi", Invalid, 1, 0), // the client gave out before the server
            ("mui", Invalid, 1, 0),
            ("im", NotReached, 2, 0), // what lies below does not matter
            ("um", NotReached, 2, 0),
            ("imf", Found, 2, 3),
            ("uu", Undecided, 0, 0),
            ("ui", Undecided, 0, 0),
            ("ii", Invalid, 0, 0),
        ] {
            let a = answer(verdicts);
            let level = |v: Option<f64>| v.map_or(0, |v| v as u32);
            assert_eq!(
                (a.status(), level(a.bracket.met), level(a.bracket.failed)),
                (status, met, failed),
                "{verdicts}: {:?}",
                a.reason
            );
            let trusted = matches!(status, Found | NotReached);
            assert_eq!(a.rate(), a.bracket.met.filter(|_| trusted), "{verdicts}");
            assert_eq!(a.binding.is_some(), failed > 0, "{verdicts}");
        }
    }

    #[test]
    fn the_evidence_is_what_decides_then_what_is_open() {
        use LevelsEvidence::{
            Bracket, Invalid, LowestFails, LowestOverloaded, MetAboveFailed, MetUpTo, NoneMeetsBelow,
            Undecided, Unmeasured,
        };
        let at = |i: usize, c| point(i - 1, c).evidence;
        for (verdicts, want) in [
            ("mf", vec![Bracket { met: at(1, 'm'), failed: at(2, 'f') }]),
            ("mm", vec![MetUpTo(at(2, 'm'))]),
            ("f", vec![LowestFails(at(1, 'f'))]),
            ("o", vec![LowestOverloaded(at(1, 'o'))]),
            ("muf", vec![Bracket { met: at(1, 'm'), failed: at(3, 'f') }, Undecided(vec![at(2, 'u')])]),
            ("uf", vec![NoneMeetsBelow(at(2, 'f')), Undecided(vec![at(1, 'u')])]),
            ("mfm", vec![Bracket { met: at(1, 'm'), failed: at(2, 'f') }, MetAboveFailed(vec![at(3, 'm')])]),
            ("mi", vec![MetUpTo(at(1, 'm')), Invalid(vec![at(2, 'i')])]),
            ("", vec![Unmeasured]),
        ] {
            let want: Vec<Evidence> = want.into_iter().map(Evidence::Levels).collect();
            let got = answer(verdicts).reason;
            assert_eq!(got.evidence(), want, "{verdicts}");
            assert_eq!(got.stop(), Some(&Stop::ListDone { levels: verdicts.len() }));
        }
    }

    #[test]
    fn two_steps_at_one_level_are_one_word() {
        let mut points = vec![point(0, 'm'), point(1, 'u'), point(1, 'm'), point(2, 'f')];
        assert_eq!(
            bracket(&points, Ended::LevelsLeft).bracket.met.map(|m| m as u32),
            Some(2),
            "measured again after an interruption"
        );
        points.push(point(1, 'f'));
        let ends = bracket(&points, Ended::LevelsLeft).bracket;
        assert_eq!((ends.met, ends.failed), (Some(1.0), Some(2.0)), "a fail at the same level wins");
    }

    proptest! {
        #[test]
        fn the_order_of_steps_does_not_matter(verdicts in "[mfoui]{0,8}", turn in 0_usize..8) {
            let points: Vec<Point> = verdicts.chars().enumerate().map(|(i, c)| point(i, c)).collect();
            let mut turned = points.clone();
            turned.rotate_left(turn.min(points.len()));
            prop_assert_eq!(bracket(&points, Ended::LevelsLeft), bracket(&turned, Ended::LevelsLeft));
        }
    }
}
