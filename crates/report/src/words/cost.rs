//! A limit on the cost in words: the rate from which it is met, and the verdict.

use super::figures::number_and_currency;
use super::units::{figure, precise};
use crate::document::{Cell, Mark};
use goodput_run::rundir::Run;
use goodput_run::rundir::derive::adaptive;
use goodput_stats::capacity::{CostRange, CostVerdict};
use goodput_stats::search::answer::{Answer, Status};
use goodput_stats::stats::step::Step;

/// Returns whether the plan's limit on the cost of tokens is met at a rate that meets the SLO; `None` if it has no such
/// limit.
pub(crate) fn cost_limit(run: &Run, a: &Answer) -> Option<String> {
    let max = number_and_currency(run, run.hardware.max_cost_per_mtok?.get());
    let limit = format!("at most {max} for a million output tokens");
    let Some(r) = run.cost_range(a) else {
        return Some(match run.capacity(a) {
            None => format!("not judged: {limit}, and no rate is shown to meet the SLO"),
            Some(_) => format!("not judged: {limit}, and what they cost is not known"),
        });
    };
    let from = format!("{} requests/s on", precise(r.from_rate));
    let met = match r.safe_rate {
        Some(safe) => format!("the SLO is met up to {}, {} is safe", precise(r.to_rate), precise(safe)),
        None => format!("the SLO is shown to be met up to {}", precise(r.to_rate)),
    };
    let at = if r.safe_rate.is_some() { "at the safe rate" } else { "there" };
    let cost = number_and_currency(run, r.cost_per_mtok);
    Some(match r.verdict {
        CostVerdict::Accepted => {
            format!("accepted: {limit}, which is kept from {from}; {met}, and {at} they cost {cost}")
        }
        CostVerdict::Undecided => {
            let open = why_open(run, a, &r).unwrap_or_else(|| "above the safe rate".into());
            format!(
                "undecided: {limit}, which is kept only from {from}, {open}; {met}, and {at} they cost {cost}"
            )
        }
        CostVerdict::Rejected => {
            format!("rejected: {limit}, which is kept only from {from}; {met}, and {at} they cost {cost}")
        }
    })
}

/// Returns the verdict on the cost limit for a narrow column: `✕ rejected: kept only from 36.11 requests/s on`.
pub(crate) fn cost_verdict(run: &Run, a: &Answer) -> Option<String> {
    let max = number_and_currency(run, run.hardware.max_cost_per_mtok?.get());
    let Some(r) = run.cost_range(a) else { return Some(format!("○ not judged: at most {max}")) };
    let from = format!("{} requests/s on", precise(r.from_rate));
    Some(match r.verdict {
        CostVerdict::Accepted => format!("● accepted: at most {max}, kept from {from}"),
        CostVerdict::Undecided => {
            let open = why_open(run, a, &r).unwrap_or_else(|| "above the safe rate".into());
            format!("○ undecided: at most {max}, kept only from {from}, {open}")
        }
        CostVerdict::Rejected => format!("✕ rejected: at most {max}, kept only from {from}"),
    })
}

/// Returns why it is unknown whether the SLO is met at rates that meet the cost limit; `None` if it is met there.
fn why_open(run: &Run, a: &Answer, r: &CostRange) -> Option<String> {
    if r.from_rate <= r.to_rate * (1.0 + 1e-9) {
        return None;
    }
    let top = precise(r.to_rate);
    Some(match a.goodput.status() {
        Status::NotReached if adaptive(&run.steps) => {
            format!("not tried above {top} (raise search.max-rate)")
        }
        Status::NotReached => format!("not tried above {top} (add higher levels)"),
        _ => format!("and above {top} it is not shown whether the SLO is met"),
    })
}

/// Returns the cost of a million output tokens at a step, marked if it is above the plan's limit.
pub(crate) fn step_cost(run: &Run, s: &Step) -> Cell {
    let Some(cost) = s.cost_per_mtok.filter(|c| c.is_finite()) else { return Cell::Unknown };
    match run.hardware.max_cost_per_mtok.is_some_and(|max| cost > max.get() * (1.0 + 1e-9)) {
        true => Cell::Marked { mark: Mark::Bad, words: figure(cost), value: Some(cost) },
        false => Cell::Number(cost),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_run::fixture;
    use goodput_stats::fixture::conclusion;

    #[test]
    fn a_limit_on_the_cost_is_told_with_its_range() {
        let (_, mut run) = fixture::cases().into_iter().find(|(n, _)| *n == "interval").unwrap();
        (run.price_per_hour, run.currency) = (Some(0.39), Some("USD".into()));
        assert_eq!(cost_limit(&run, &run.answers[0]), None);
        let mut said = |limit: f64| {
            run.hardware.max_cost_per_mtok = Some(limit.try_into().unwrap());
            cost_limit(&run, &run.answers[0]).unwrap()
        };
        // 0.39 an hour for 30 output tokens a request.
        for (limit, want) in [
            (
                0.2,
                "accepted: at most 0.2 USD for a million output tokens, which is kept from 18.06 requests/s on; the SLO is met up to 33.4, \
                 31.6 is safe, and at the safe rate they cost 0.114 USD",
            ),
            (
                0.11,
                "undecided: at most 0.11 USD for a million output tokens, which is kept only from 32.83 requests/s on, above the safe rate; \
                 the SLO is met up to 33.4, 31.6 is safe, and at the safe rate they cost 0.114 USD",
            ),
            (
                0.1,
                "rejected: at most 0.1 USD for a million output tokens, which is kept only from 36.11 requests/s on; the SLO is met up to \
                 33.4, 31.6 is safe, and at the safe rate they cost 0.114 USD",
            ),
        ] {
            assert_eq!(said(limit), want);
        }
        let (_, mut none) = fixture::cases().into_iter().find(|(n, _)| *n == "none").unwrap();
        none.hardware.max_cost_per_mtok = Some(0.1.try_into().unwrap());
        assert!(cost_limit(&none, &none.answers[0]).unwrap().starts_with("not judged"));
    }

    /// If the plan ended below the limit's rate, the text says only that and what would decide it.
    #[test]
    fn what_was_not_tried_is_said() {
        let case = |name: &str, limit: f64| {
            let (_, mut run) = fixture::cases().into_iter().find(|(n, _)| *n == name).unwrap();
            (run.price_per_hour, run.currency) = (Some(0.39), Some("USD".into()));
            run.hardware.max_cost_per_mtok = Some(limit.try_into().unwrap());
            run
        };
        let both = |run: &Run| [cost_limit, cost_verdict].map(|of| of(run, &run.answers[0]).unwrap());
        // 0.361 USD at 10 requests/s, where the plan's max-rate ended the search.
        let mut run = case("top", 0.3);
        let [long, brief] = both(&run);
        assert!(
            long.starts_with(
                "undecided: at most 0.3 USD for a million output tokens, which is kept only from 12.04 requests/s on, not tried above 10 \
                 (raise search.max-rate); the SLO is met up to 10, 9.6 is safe"
            ),
            "{long}"
        );
        assert_eq!(
            brief,
            "○ undecided: at most 0.3 USD, kept only from 12.04 requests/s on, not tried above 10 (raise search.max-rate)"
        );
        run.answers[0].goodput.conclusion = conclusion(Status::Undecided, None, None, Some(9.6));
        run.answers[0].goodput.bracket.failed = None;
        let [long, brief] = both(&run);
        let says = "and above 9.6 it is not shown whether the SLO is met";
        assert!(long.contains(says) && brief.ends_with(says), "{long}; {brief}");
        run.answers[0].goodput.conclusion =
            conclusion(Status::Found, Some(10.0), Some([9.6, 10.4]), Some(9.6));
        assert_eq!(both(&run)[1], "✕ rejected: at most 0.3 USD, kept only from 12.04 requests/s on");
        // A list has no max-rate to raise.
        assert!(both(&case("not-reached", 0.1))[1].ends_with(" (add higher levels)"));
    }

    #[test]
    fn a_step_above_the_limit_is_marked() {
        let mut run = fixture::found();
        run.hardware.max_cost_per_mtok = Some(0.4.try_into().unwrap());
        for (cost, said) in [(Some(0.41), "✕ 0.41"), (Some(0.4), "0.4"), (None, "–")] {
            run.steps[0].cost_per_mtok = cost;
            assert_eq!(step_cost(&run, &run.steps[0]).words(), said);
        }
    }
}
