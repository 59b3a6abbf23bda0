//! The message of the chart of scaled limits: the price of a tighter SLO.

use super::{Answer, Run};
use crate::words::units::level_number;
use goodput_core::slo::Limit;
use goodput_run::rundir::{Reach, SloScale};
use goodput_stats::search::answer::Status;

/// Change of the goodput that counts as none.
const NONE: f64 = 0.015;

/// Returns the price of half the limits, else the gain of twice the limits: `Halving the TTFT limit costs 63 % of the
/// capacity`.
pub(crate) fn slo_scale(run: &Run) -> Option<String> {
    let (scale, a) = (run.view.scale.as_ref()?, run.answers.first()?);
    let what = what_is_scaled(run)?;
    let base = rate(&reach(scale, 1.0)?)?;
    halved(scale, a, &what, base).or_else(|| doubled(scale, &what, base))
}

/// Returns the limits that are scaled, in words.
fn what_is_scaled(run: &Run) -> Option<String> {
    let limits: Vec<Limit> = run.tiers.first()?.scaled(1.0, "").limits();
    Some(match &limits[..] {
        [one] => format!("the {} limit", one.metric.title()),
        _ => "every latency limit".into(),
    })
}

fn reach(scale: &SloScale, factor: f64) -> Option<Reach> {
    scale.points.iter().find(|p| (p.factor - factor).abs() < 1e-9).map(|p| scale.reach(p))
}

/// Returns the rate that stands for an answer; `None` if it is only bounded.
const fn rate(reach: &Reach) -> Option<f64> {
    match reach {
        Reach::Between { rate, .. } | Reach::Bracket { met: rate, .. } => Some(*rate),
        Reach::AtLeast(_) | Reach::Below(_) | Reach::Nothing | Reach::Unknown => None,
    }
}

fn halved(scale: &SloScale, a: &Answer, what: &str, base: f64) -> Option<String> {
    let half = reach(scale, 0.5)?;
    if matches!(half, Reach::Nothing) {
        return Some(format!("With {what} halved, no rate meets the SLO").replacen("rate", noun(a), 1));
    }
    let cost = 1.0 - rate(&half)? / base;
    let about = if matches!(half, Reach::Between { low, .. } if low <= 0.0) { "about " } else { "" };
    let why = match a.goodput.binding.as_deref() {
        Some("stability") if a.goodput.status() == Status::Found => ": the backlog grows first",
        _ => "",
    };
    Some(match cost > NONE {
        true => format!("Halving {what} costs {about}{:.0} % of the capacity", 100.0 * cost),
        false => format!("Halving {what} costs hardly any capacity{why}"),
    })
}

fn noun(a: &Answer) -> &'static str {
    crate::words::levels::noun(a.control)
}

fn doubled(scale: &SloScale, what: &str, base: f64) -> Option<String> {
    let (twice, at_least) = match reach(scale, 2.0)? {
        Reach::AtLeast(rate) => (rate, true),
        other => (rate(&other)?, false),
    };
    let gain = twice / base - 1.0;
    match (gain > NONE, at_least) {
        (true, true) => Some(format!("Doubling {what} gains at least {:.0} % of capacity", 100.0 * gain)),
        (true, false) => Some(format!("Doubling {what} gains {:.0} % of capacity", 100.0 * gain)),
        (false, false) => {
            Some(format!("Doubling {what} gains hardly any capacity above {}", level_number(base)))
        }
        (false, true) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_run::fixture;
    use goodput_run::rundir::Scaled;
    use goodput_stats::fixture::conclusion;
    use goodput_stats::search::answer::{Bracket, Conclusion};

    /// Rows: the estimate at × 0.5, × 1 and × 2 (0: no level meets; absent: not known), and the message.
    #[test]
    fn the_price_of_a_tighter_limit_is_named() {
        for (rates, message) in [
            ([Some(10.0), Some(34.0), None], "Halving every latency limit costs 71 % of the capacity"),
            ([Some(33.9), Some(34.0), None], "Halving every latency limit costs hardly any capacity"),
            ([Some(0.0), Some(34.0), None], "With every latency limit halved, no rate meets the SLO"),
            ([None, Some(34.0), Some(51.0)], "Doubling every latency limit gains 50 % of capacity"),
            (
                [None, Some(34.0), Some(34.1)],
                "Doubling every latency limit gains hardly any capacity above 34",
            ),
            ([Some(10.0), None, None], ""),
        ] {
            let mut run = fixture::found();
            let point = |(factor, rate): (f64, Option<f64>)| {
                let mut goodput = run.answers[0].goodput.clone();
                goodput.bracket = Bracket::default();
                goodput.conclusion = match rate {
                    None => Conclusion::OPEN,
                    Some(r) if r <= 0.0 => Conclusion::None,
                    Some(r) => conclusion(Status::Found, Some(r), Some([0.9 * r, 1.1 * r]), Some(0.9 * r)),
                };
                Scaled { factor, goodput }
            };
            let points = [0.5, 1.0, 2.0].into_iter().zip(rates).map(point).collect();
            run.view.scale =
                Some(SloScale { points, without: vec![], untold: 0, measured: [1.0, 60.0], estimated: true });
            assert_eq!(slo_scale(&run).unwrap_or_default(), message);
        }
    }
}
