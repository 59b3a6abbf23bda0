//! Reads an answer off the verdicts of measured levels: the highest shown to meet below the lowest shown to fail.

use super::answer::{Basis, Goodput, Status};
use crate::stats::step::Verdict;

/// What one step says of one tier.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Point {
    /// The level's number.
    pub(super) value: f64,
    /// The level in words: `8 req/s`, `8 in flight (12.3 req/s)`.
    pub(super) level: String,
    pub(super) verdict: Verdict,
    pub(super) binding: Option<String>,
    /// The counts behind it: `ttft.p99: 41 of 1200 missed`.
    pub(super) evidence: String,
    /// Whether a fail here tells of lower levels too: the step was not overloaded by its load, or nothing was answered.
    pub(super) inherent: bool,
}

/// The bracket that the verdicts leave.
///
/// A level above one shown to fail is never trusted, so `met` lies below `failed` or there is none.
///
/// | | no level fails | a level fails |
/// |---|---|---|
/// | some meet (below it) | *not reached* if the highest measured level does; else *invalid* if the client gave out above `met`, else *undecided* | *found* |
/// | none meets (below it) | *invalid* if every step is, else *undecided* | if it is the lowest, *none* where the fail is `inherent`, else *undecided*; else *invalid* if all below it are, else *undecided* |
pub(super) fn bracket(points: &[Point], ended: &str, gpus: Option<u32>) -> Goodput {
    let mut points: Vec<&Point> = points.iter().collect();
    points.sort_by(|a, b| a.value.total_cmp(&b.value));
    let failed = points.iter().copied().find(|p| p.verdict == Verdict::Fails);
    let below = |p: &&&Point| failed.is_none_or(|f| p.value < f.value);
    let met = points.iter().copied().rfind(|p| below(&p) && p.verdict == Verdict::Meets);
    // What was measured below the fail, or anywhere where nothing fails.
    let under: Vec<&Point> = points.iter().copied().filter(|p| below(&p)).collect();
    let beyond: Vec<&Point> =
        under.iter().copied().filter(|p| met.is_none_or(|m| p.value > m.value)).collect();
    let all_invalid = |of: &[&Point]| !of.is_empty() && of.iter().all(|p| p.verdict == Verdict::Invalid);
    let status = match (met, failed) {
        (Some(_), Some(_)) => Status::Found,
        (Some(_), None) if beyond.iter().any(|p| p.verdict == Verdict::Invalid) => Status::Invalid,
        (Some(_), None) if !beyond.is_empty() => Status::Undecided,
        (Some(_), None) => Status::NotReached,
        (None, Some(f)) if under.is_empty() && f.inherent => Status::None,
        (None, _) if all_invalid(&under) => Status::Invalid,
        (None, _) => Status::Undecided,
    };
    let rate = met.map(|m| m.value).filter(|_| matches!(status, Status::Found | Status::NotReached));
    Goodput {
        status,
        rate,
        interval90: None,
        throughput: None,
        halve_s: None,
        support: Default::default(),
        safe_rate: None,
        met: met.map(|m| m.value),
        failed: failed.map(|f| f.value),
        binding: failed.and_then(|f| f.binding.clone()),
        per_gpu: per_gpu(rate, gpus),
        reason: words(met, failed, &beyond, &points, ended),
        basis: Basis::Bracket,
    }
}

/// A rate per GPU, where the plan declares them.
pub(super) fn per_gpu(rate: Option<f64>, gpus: Option<u32>) -> Option<f64> {
    rate.zip(gpus.filter(|g| *g > 0)).map(|(rate, gpus)| rate / f64::from(gpus))
}

/// The highest level shown to meet and the lowest shown to fail, each with its evidence.
pub(super) fn shown(points: &[Point]) -> String {
    let least =
        points.iter().filter(|p| p.verdict == Verdict::Fails).min_by(|a, b| a.value.total_cmp(&b.value));
    let met = points
        .iter()
        .filter(|p| p.verdict == Verdict::Meets && least.is_none_or(|f| p.value < f.value))
        .max_by(|a, b| a.value.total_cmp(&b.value));
    let say = |p: Option<&Point>, what: &str| match p {
        Some(p) => format!("{} is shown to {what} ({})", p.level, p.evidence),
        None => format!("no level alone is shown to {what}"),
    };
    format!("{}; {}", say(met, "meet"), say(least, "fail"))
}

fn words(
    met: Option<&Point>,
    failed: Option<&Point>,
    beyond: &[&Point],
    all: &[&Point],
    ended: &str,
) -> String {
    if all.is_empty() {
        return format!("no level was measured: {ended}");
    }
    let mut parts = vec![];
    match (met, failed) {
        (Some(m), Some(f)) => parts.push(format!("{} meets, {} fails ({})", m.level, f.level, f.evidence)),
        (Some(m), None) => {
            parts.push(format!("met up to {} ({}), and no level is shown to fail", m.level, m.evidence))
        }
        (None, Some(f)) if beyond.is_empty() && f.inherent => {
            parts.push(format!("the lowest level, {}, already fails ({})", f.level, f.evidence));
        }
        (None, Some(f)) if beyond.is_empty() => parts
            .push(format!("fails at {}, the lowest level tried: try lower levels ({})", f.level, f.evidence)),
        (None, Some(f)) => {
            parts.push(format!("{} fails ({}), and no level below it is shown to meet", f.level, f.evidence))
        }
        (None, None) => parts.push("no level is shown to meet or to fail".into()),
    }
    for (verdict, say) in [(Verdict::Undecided, "undecided"), (Verdict::Invalid, "invalid")] {
        let of: Vec<&&Point> = beyond.iter().filter(|p| p.verdict == verdict).collect();
        let levels: Vec<&str> = of.iter().map(|p| p.level.as_str()).collect();
        if let Some(last) = of.last() {
            parts.push(format!("{say}: {} ({})", levels.join(", "), last.evidence));
        }
    }
    let distrusted =
        all.iter().filter(|p| failed.is_some_and(|f| p.value > f.value) && p.verdict == Verdict::Meets);
    let distrusted: Vec<&str> = distrusted.map(|p| p.level.as_str()).collect();
    if !distrusted.is_empty() {
        parts.push(format!("{} met above a level that fails, and is not trusted", distrusted.join(", ")));
    }
    parts.push(ended.to_owned());
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `m`eets, `f`ails, fails by `o`verload, `u`ndecided, `i`nvalid at levels 1, 2, 3 …
    fn answer(verdicts: &str) -> Goodput {
        let points: Vec<Point> = verdicts.chars().enumerate().map(|(i, c)| point(i, c)).collect();
        bracket(&points, "all levels of the list are measured", Some(2))
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
        Point {
            value,
            level: format!("{value} req/s"),
            verdict,
            binding,
            evidence: "ttft.p99: 5 of 9 missed".into(),
            inherent: c != 'o',
        }
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
                (a.status, level(a.met), level(a.failed)),
                (status, met, failed),
                "{verdicts}: {}",
                a.reason
            );
            let trusted = matches!(status, Found | NotReached);
            assert_eq!(a.rate, a.met.filter(|_| trusted), "{verdicts}");
            assert_eq!(a.per_gpu, a.rate.map(|r| r / 2.0), "{verdicts}");
            assert_eq!(a.binding.is_some(), failed > 0, "{verdicts}");
            assert!(a.reason.ends_with("all levels of the list are measured"), "{verdicts}: {}", a.reason);
        }
    }

    #[test]
    fn reasons_say_what_the_answer_rests_on() {
        for (verdicts, says) in [
            ("mf", "1 req/s meets, 2 req/s fails (ttft.p99: 5 of 9 missed)"),
            ("mm", "met up to 2 req/s"),
            ("f", "the lowest level, 1 req/s, already fails"),
            ("o", "fails at 1 req/s, the lowest level tried: try lower levels"),
            ("muf", "undecided: 2 req/s (ttft.p99: 5 of 9 missed)"),
            ("uf", "no level below it is shown to meet"),
            ("mfm", "3 req/s met above a level that fails, and is not trusted"),
            ("mi", "invalid: 2 req/s"),
            ("", "no level was measured"),
        ] {
            let reason = answer(verdicts).reason;
            assert!(reason.contains(says), "{verdicts}: {reason}");
        }
    }

    #[test]
    fn two_steps_at_one_level_are_one_word() {
        let mut points = vec![point(0, 'm'), point(1, 'u'), point(1, 'm'), point(2, 'f')];
        assert_eq!(
            bracket(&points, "", None).met.map(|m| m as u32),
            Some(2),
            "measured again after an interruption"
        );
        points.push(point(1, 'f'));
        let a = bracket(&points, "", None);
        assert_eq!((a.met, a.failed), (Some(1.0), Some(2.0)), "a fail at the same level wins");
    }

    proptest! {
        #[test]
        fn the_order_of_steps_does_not_matter(verdicts in "[mfoui]{0,8}", turn in 0_usize..8) {
            let points: Vec<Point> = verdicts.chars().enumerate().map(|(i, c)| point(i, c)).collect();
            let mut turned = points.clone();
            turned.rotate_left(turn.min(points.len()));
            prop_assert_eq!(bracket(&points, "", None), bracket(&turned, "", None));
        }
    }
}
