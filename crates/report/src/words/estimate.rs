//! An answer that is an estimate: its rate with the 90 % interval, the rate to plan with, and the soak that confirms
//! it.

use super::answer::{binds, in_other_units, limits_met, verb};
use super::levels::{level, noun};
use super::limits;
use super::names::{lower, several_tiers, slo_name, steps_of, subject, tier_of};
use super::support::{chance_clause, held_at_end};
use super::units::{figure, latency, level_number, span, thousands, value_of};
use goodput_core::level::Control;
use goodput_core::slo::Metric;
use goodput_run::rundir::Run;
use goodput_run::rundir::derive::{interval, usable_safe_rate};
use goodput_stats::search::answer::{Answer, Basis, Goodput, Status};
use goodput_stats::stats::reason::requests_needed;
use goodput_stats::stats::step::{Step, StepKind, Verdict};

/// Formats numbers for people with three significant figures each, and more only if two different ones would look
/// equal.
pub(crate) fn numbers<const N: usize>(values: [f64; N]) -> [String; N] {
    let say = |digits: i32| {
        values.map(|x| {
            if x <= 0.0 || !x.is_finite() || (digits == 3 && x >= 999.5) {
                return figure(x);
            }
            let decimals = (digits - 1 - x.log10().floor() as i32).clamp(0, 9) as usize;
            let text = format!("{x:.decimals$}");
            if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
        })
    };
    let told_apart = |texts: &[String; N]| {
        let same = |i: usize, j: usize| (values[i] - values[j]).abs() <= 1e-9 * values[i].abs();
        (0..N).all(|i| (0..i).all(|j| same(i, j) || texts[i] != texts[j]))
    };
    (3..6).map(say).find(told_apart).unwrap_or_else(|| say(5))
}

/// Returns the rate and both ends of the interval (rounded outwards to whole numbers for a closed loop), and the safe
/// rate, if any.
pub(crate) fn ends(control: Control, g: &Goodput) -> Option<([String; 3], Option<String>)> {
    let (rate, [low, high]) = interval(g)?;
    let [low, high] = if control == Control::Concurrency { [low.floor(), high.ceil()] } else { [low, high] };
    let [r, l, h, s] = numbers([rate, low, high, usable_safe_rate(g).unwrap_or(low)]);
    Some(([r, l, h], usable_safe_rate(g).map(|_| s)))
}

/// Returns a level with its unit: `9.41 requests/s`; in a closed loop with the rate achieved there.
fn estimated(run: &Run, a: &Answer, value: f64, number: &str) -> String {
    let whole = level(a.control, value);
    let said = whole.replacen(&level_number(value), number, 1);
    let several = matches!(a.control, Control::Concurrency | Control::Sessions);
    let got = run.throughput(a, value).filter(|_| several);
    got.map_or(said.clone(), |t| format!("{said}, which get {} requests/s,", figure(t)))
}

/// Returns the answer of an estimate, if it is one: the rate served, the limit that binds, and the interval.
pub(super) fn sentence(run: &Run, a: &Answer) -> Option<String> {
    let g = &a.goodput;
    let who = subject(&run.meta);
    if g.status() == Status::NotReached {
        let rate = g.rate().filter(|_| g.safe_rate().is_some())?;
        return Some(format!(
            "{who} {} at least {}{}, the highest {} of the plan, {}; more was not tried, so where the limit lies is not known",
            verb(&run.meta, "serve"),
            estimated(run, a, rate, &level_number(rate)).trim_end_matches(','),
            in_other_units(run, a, rate),
            noun(a.control),
            keeping(run, a),
        ));
    }
    let Some(([rate, low, high], safe)) = ends(a.control, g) else {
        let safe = usable_safe_rate(g).filter(|_| g.status() == Status::Undecided)?;
        let open = match g.basis {
            Basis::Fit => "whether the highest measured level keeps it is open".to_owned(),
            Basis::Search | Basis::Bracket => match g.bracket.failed {
                Some(failed) => format!("the limit lies between that and {}", level(a.control, failed)),
                None if g.support.change.is_some() => {
                    "the limit lies above all that was measured since the server changed".to_owned()
                }
                None => "the limit lies above all that was measured".to_owned(),
            },
        };
        return Some(format!(
            "It is undecided how much {} can take while keeping {}: {} is safe, and {open}",
            lower(&who),
            limits_met(run, a),
            level(a.control, safe).replacen(&level_number(safe), &numbers([safe])[0], 1),
        ));
    };
    let (value, _) = interval(g)?;
    let rate = estimated(run, a, value, &rate);
    if safe.is_none() {
        return Some(format!(
            "It is undecided what {} can take while keeping {}: about {rate}, with 90 % confidence at most {high}; no {} is shown to be safe",
            lower(&who),
            limits_met(run, a),
            noun(a.control),
        )
        .replace(",,", ","));
    }
    Some(format!(
        "{who} {} {rate}{} {}{}; {} the true limit lies between {low} and {high}",
        verb(&run.meta, "serve"),
        in_other_units(run, a, value),
        keeping(run, a),
        binds(g),
        match (g.support.misfit, g.basis) {
            (Some(_), _) => "by what single steps show",
            (None, Basis::Fit) => "with 90 % confidence, by a fit to the measured levels,",
            (None, Basis::Search | Basis::Bracket) => "with 90 % confidence",
        },
    ))
}

fn keeping(run: &Run, a: &Answer) -> String {
    format!("{} {}", if several_tiers(run) { "within" } else { "while keeping" }, limits_met(run, a))
}

/// Returns the rate to plan with and the benefit of more time, as a sentence; empty if there is nothing to say.
pub(super) fn plan(run: &Run, a: &Answer) -> String {
    let g = &a.goodput;
    let time = g.halve_s().filter(|s| *s > 0.0 && interval(g).is_some());
    let time = time.map(|s| format!("nother {} of measuring would about halve the interval", span(s)));
    let Some(safe) = usable_safe_rate(g) else {
        return time.map(|t| format!("A{t}.")).unwrap_or_default();
    };
    let number = ends(a.control, g).and_then(|e| e.1).unwrap_or_else(|| level_number(safe));
    let time = time.map(|t| format!("; a{t}")).unwrap_or_default();
    let of = if several_tiers(run) { format!(" for {}", slo_name(run, a)) } else { String::new() };
    format!(
        "Plan with {}{of} (safe {}: {}){time}.{}",
        estimated(run, a, safe, &number).trim_end_matches(','),
        noun(a.control),
        chance_clause(run, g),
        held_at_end(a),
    )
}

/// Returns the soak after the search: the last one of the answer's series that ran its time, or failed before.
pub(crate) fn soak<'a>(run: &'a Run, a: &Answer) -> Option<&'a Step> {
    let own = |s: &&&Step| s.kind == StepKind::Confirm && !s.broken_off();
    steps_of(run, a).iter().rfind(own).copied()
}

/// Returns the result of the soak, as a sentence: its verdict, the limit that binds with its counts, and any drift.
/// Only the first answer has one, since the soak ran at its safe rate.
pub(super) fn confirmed(run: &Run, a: &Answer) -> String {
    let first = run.answers.first().is_some_and(|f| std::ptr::eq(f, a) || f == a);
    let Some(s) = soak(run, a).filter(|_| first) else { return String::new() };
    let at = format!("{} at {}", span(s.measure_s), level(s.level.control, s.level.value));
    let (verdict, binding) = run.judged(a, s);
    let said = match verdict {
        Verdict::Meets => format!("Confirmed by a soak of {at}"),
        Verdict::Fails => format!("Not confirmed: the soak of {at} failed"),
        Verdict::Undecided => {
            format!(
                "Not confirmed: the soak of {at} was too short to tell{}",
                enough(run, a, s, binding.as_deref())
            )
        }
        Verdict::Invalid => format!("Not confirmed: in the soak of {at} {}", s.fault()),
    };
    let figures = figures(run, a, s, binding.as_deref());
    format!("{said}: {figures}; {}.", drift(s))
}

/// Returns how long an undecided soak would have to be, as a clause; empty if that is not known.
fn enough(run: &Run, a: &Answer, s: &Step, binding: Option<&str>) -> String {
    let error = run.terms.map_or(0.05, |t| 1.0 - t.confidence);
    let row = binding.and_then(|b| s.row(&a.tier, b)).filter(|r| r.n > 0 && s.measure_s > 0.0);
    let needed = row.and_then(|r| Some((r, requests_needed(r, &run.steps, error)?)));
    needed.map_or_else(String::new, |(row, all)| {
        let seconds = all as f64 / row.n as f64 * s.measure_s;
        let time = if seconds < 120.0 {
            format!("{}s", seconds.ceil())
        } else {
            format!("{}m", (seconds / 60.0).ceil())
        };
        format!(" (--confirm {time} would be about enough)")
    })
}

/// Returns the figures of the limit that binds, else of the first one: `p99 TTFT 151 ms, 12 of 5,220 missed`.
fn figures(run: &Run, a: &Answer, s: &Step, binding: Option<&str>) -> String {
    if binding == Some("stability") && s.stable == Some(false) {
        return "the backlog grew".into();
    }
    let tier = tier_of(run, a);
    let parts = tier.map(goodput_core::slo::Slo::limit_groups).unwrap_or_default();
    let all = parts.iter().flat_map(|p| p.slo.limits().into_iter().map(|l| (p.class(), p.key(&l.name()), l)));
    let all: Vec<_> = all.collect();
    let named = |name: &str| all.iter().find(|(_, key, _)| key == name);
    let limit = binding.and_then(named).or_else(|| a.goodput.binding.as_deref().and_then(named));
    let Some((class, key, limit)) = limit.or(all.first()) else {
        return format!("{} requests", thousands(s.due_n as f64));
    };
    let value = s.quantiles_of(class, limit.metric).at(limit.percentile.share());
    let name = limits::binding(key);
    let value = value.map(|v| format!("{name} {}, ", value_of(limit.metric, v))).unwrap_or_default();
    let counts = s.row(&a.tier, key).map_or_else(
        || format!("{} requests", thousands(s.due_n as f64)),
        |r| format!("{} of {} missed", thousands(r.misses as f64), thousands(r.n as f64)),
    );
    let of = if value.is_empty() { format!(" {name}") } else { String::new() };
    format!("{value}{counts}{of}")
}

/// Relative growth over a soak above which it is called drift: a smaller trend may well be chance.
const DRIFT: f64 = 0.25;

/// Returns the drift over the soak, from the step's slopes: growth over its window of TTFT and of requests in flight.
fn drift(s: &Step) -> String {
    let ttft = s.ttft_slope.map(|slope| slope * 1e3 * s.measure_s);
    let ttft = ttft.zip(s.quantiles(Metric::Ttft).p50).filter(|(grew, usual)| grew.abs() > DRIFT * usual);
    let flight = s.in_flight_slope.map(|slope| slope * s.measure_s);
    let flight = flight.filter(|grew| grew.abs() > (DRIFT * s.in_flight_mean).max(1.0));
    let verb = |grew: f64| if grew > 0.0 { "grew" } else { "fell" };
    let mut parts: Vec<String> = Vec::new();
    parts.extend(
        ttft.map(|(grew, _)| format!("TTFT {} by {} over the soak", verb(grew), latency(grew.abs()))),
    );
    parts.extend(flight.map(|grew| format!("requests in flight {} by {}", verb(grew), figure(grew.abs()))));
    match (parts.is_empty(), s.ttft_slope.is_some() || s.in_flight_slope.is_some()) {
        (true, true) => "no drift".into(),
        (true, false) => "whether it drifted is not known".into(),
        _ => parts.join(", "),
    }
}

/// Returns the assumptions behind the interval, and a reference to its measured coverage; empty if no answer has an
/// interval.
pub(crate) fn assumptions(run: &Run) -> String {
    if !run.answers.iter().any(|a| interval(&a.goodput).is_some()) {
        return String::new();
    }
    let fit = run.answers.iter().any(|a| a.goodput.basis == Basis::Fit);
    let measured = if fit {
        "It speaks of the levels that were measured and of none above them. The levels were chosen beforehand: what docs/accuracy.md of \
         goodput says of intervals is about levels that a search chose."
    } else {
        "How often it holds the truth is measured on servers whose truth is known: docs/accuracy.md of goodput."
    };
    format!(
        "The interval is Bayesian: a curve of misses against load is fitted to all steps together. It holds for a server that stays as \
         it was, for this workload with arrivals as planned, and for misses that rise smoothly with the load; a change of the server, \
         its caches or the requests is not in it. {measured}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::{headline, sentences};
    use goodput_run::fixture;

    fn case(name: &str) -> Run {
        fixture::cases().into_iter().find(|(n, _)| *n == name).map(|(_, r)| r).unwrap()
    }

    #[test]
    fn digits_are_few_but_tell_numbers_apart() {
        assert_eq!(numbers([9.412, 8.709, 10.08]), ["9.41", "8.71", "10.1"]);
        assert_eq!(numbers([783.2, 782.9]), ["783.2", "782.9"], "one more where they look the same");
        assert_eq!(numbers([5.0, 5.0]), ["5", "5"], "they are the same");
        assert_eq!(numbers([0.0, 0.33222]), ["0", "0.332"]);
        assert_eq!(numbers([1234.0, 1530.0]), ["1,230", "1,530"]);
    }

    /// Rows: case; then headline, answer, plan, soak. Review them as somebody who buys GPUs by them.
    #[test]
    fn every_kind_of_estimate_as_sentences() {
        let names = [
            "interval",
            "soak",
            "open",
            "safe-only",
            "no-rate",
            "no-rate-unloaded",
            "top",
            "closed-loop",
            "estimates",
        ];
        let said: String = names
            .iter()
            .map(|name| {
                let run = case(name);
                let told = |a: &Answer| {
                    let s = sentences(&run, a);
                    format!("{}\n{}\n{}\n{}\n", s.answer, s.plan, s.soak, s.evidence)
                };
                let all: String = run.answers.iter().map(told).collect();
                format!("{name}: {}\n{all}", headline(&run))
            })
            .collect();
        insta::assert_snapshot!(said.replace("\n\n", "\n"), @r#"
        interval: One A40 serves 33.4 requests/s within the SLO; TTFT is the limit
        One A40 serves 33.4 requests/s while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms, where p99 TTFT is the limit that binds; with 90 % confidence the true limit lies between 31.6 and 35.3.
        Plan with 31.6 requests/s (safe rate: 5 % chance that it is too much).
        Evidence: a fit to 11 steps under load with 32,760 requests; 32 req/s meets (p99 TTFT: 9 of 3,840 missed); 36 req/s fails (p99 TTFT: 65 of 4,320 missed); ended because all 11 levels of the list are measured.
        soak: One A40 serves 34.1 requests/s within the SLO; TPOT is the limit
        One A40 serves 34.1 requests/s while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms, where p99 TPOT is the limit that binds; with 90 % confidence the true limit lies between 33 and 35.3.
        Plan with 33 requests/s (safe rate: 5 % chance that it is too much); another 45 min of measuring would about halve the interval.
        Confirmed by a soak of 10 min at 33 requests/s: p99 TTFT 144 ms, 73 of 19,800 missed; no drift.
        Evidence: a fit to 14 steps under load with 43,910 requests; 33 req/s meets (p99 TTFT: 73 of 19,800 missed); 35 req/s fails (p99 TPOT: 37 of 2,625 missed); ended because the budget of 15m is spent.
        open: Undecided: at most 9.1 requests/s within the SLO, and no rate is shown to be safe
        It is undecided what one A40 can take while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms: about 5.2 requests/s, with 90 % confidence at most 9.1; no rate is shown to be safe.
        Another 90 min of measuring would about halve the interval.
        Evidence: a fit to 4 steps under load with 772 requests; 5.3 req/s meets (p99 TTFT: 0 of 397 missed); ended because the budget of 15m is spent.
        safe-only: One A40 serves at least 8.64 requests/s within the SLO; above is undecided
        It is undecided how much one A40 can take while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms: 8.64 requests/s is safe, and the limit lies above all that was measured.
        Plan with 8.64 requests/s (safe rate: 5 % chance that it is too much).
        Evidence: a fit to 4 steps under load with 1,308 requests; 8.64 req/s meets (p99 TTFT: 0 of 648 missed); ended because the budget of 15m is spent; more time (--budget) would decide it.
        no-rate: One A40 keeps the SLO at no rate from 0.332 requests/s on; TTFT is the limit
        With 90 % confidence no rate at or above 0.332 requests/s keeps p99 TTFT ≤ 24 ms, where p99 TTFT is the limit that binds; unloaded, 1 of 41 requests missed it.

        Evidence: 0.33 req/s fails (p99 TTFT: 0 of 2 missed); ended because the budget of 15m is spent.
        no-rate-unloaded: One A40 keeps the SLO at no rate from 0.332 requests/s on; TTFT is the limit
        With 90 % confidence no rate at or above 0.332 requests/s keeps p99 TTFT ≤ 24 ms, where p99 TTFT is the limit that binds; unloaded, 4 of 81 requests missed it.

        Evidence: 0.36 req/s fails (p99 TTFT: 0 of 27 missed); ended because the budget of 15m is spent.
        top: One A40 serves at least 10 requests/s within the SLO; more was not tried
        One A40 serves at least 10 requests/s, the highest rate of the plan, while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms; more was not tried, so where the limit lies is not known.
        Plan with 9.6 requests/s (safe rate: 5 % chance that it is too much).
        Evidence: a fit to 5 steps under load with 1,648 requests; 10 req/s meets (p99 TTFT: 0 of 750 missed; measured 3 times: undecided, meets, meets); ended because the budget of 15m is spent; a higher search.max-rate would tell how much more.
        closed-loop: One A40 serves 45 requests in flight within the SLO; TTFT is the limit
        One A40 serves 45 requests in flight, which get 32.4 requests/s, while keeping p99 TTFT ≤ 200 ms and p99 TPOT ≤ 20 ms, where p99 TTFT is the limit that binds; with 90 % confidence the true limit lies between 40 and 50.
        Plan with 40 requests in flight, which get 31.5 requests/s (safe concurrency: 5 % chance that it is too much); another 25 min of measuring would about halve the interval.
        Evidence: a fit to 9 steps under load with 15,118 requests; 52 in flight (33.2 req/s) meet (p99 TTFT: 12 of 2,998 missed); 81 in flight (35.6 req/s) fail (p99 TTFT: 3 of 285 missed); ended because the budget of 15m is spent.
        estimates: 2 × A40 serve 22.4 requests/s within the SLO of gold; TTFT is the limit
        2 × A40 serve 22.4 requests/s (11.2 per GPU) within the SLO of gold (p99 TTFT ≤ 60 ms), where p99 TTFT is the limit that binds; with 90 % confidence the true limit lies between 20.9 and 24.1.
        Plan with 20.9 requests/s for the SLO of gold (safe rate: 5 % chance that it is too much).
        Evidence: a fit to 10 steps under load with 13,063 requests; 24 req/s fails (p99 TTFT: 24 of 1,800 missed); ended because the budget of 15m is spent.
        2 × A40 serve 33.2 requests/s (16.6 per GPU) within the SLO of bulk (p99 TTFT ≤ 300 ms and p99 TPOT ≤ 20 ms), where p99 TPOT is the limit that binds; with 90 % confidence the true limit lies between 31.4 and 34.9.
        Plan with 31.4 requests/s for the SLO of bulk (safe rate: 5 % chance that it is too much).
        Evidence: a fit to 10 steps under load with 13,063 requests; 30.5 req/s meets (p99 TPOT: 8 of 2,287 missed); 34 req/s fails (p99 TPOT: 25 of 2,550 missed); ended because the budget of 15m is spent.
        "#);
    }

    /// Rows: growth of TTFT in s/s, of requests in flight in 1/s; the expected sentence.
    #[test]
    fn a_drift_is_told_in_what_it_came_to() {
        let run = case("soak");
        let soak = soak(&run, &run.answers[0]).unwrap();
        for (ttft, flight, want) in [
            (Some(1e-7), Some(0.0), "no drift"),
            (Some(5e-5), Some(0.001), "TTFT grew by 30 ms over the soak"),
            (Some(-5e-5), None, "TTFT fell by 30 ms over the soak"),
            (Some(5e-5), Some(0.1), "TTFT grew by 30 ms over the soak, requests in flight grew by 60"),
            (None, None, "whether it drifted is not known"),
        ] {
            let s = Step { ttft_slope: ttft, in_flight_slope: flight, ..soak.clone() };
            assert_eq!(drift(&s), want);
        }
    }

    #[test]
    fn a_soak_that_was_too_short_says_how_long_it_takes() {
        let (_, mut run) = fixture::cases().into_iter().find(|(name, _)| *name == "soak").unwrap();
        let step = run.steps.iter_mut().find(|s| s.kind == StepKind::Confirm).unwrap();
        (step.measure_s, step.verdict, step.binding) = (10.0, Verdict::Undecided, Some("ttft.p99".into()));
        for row in &mut step.limits {
            (row.n, row.misses, row.cluster_sq, row.clusters) = (330, 0, 0, 0);
            (row.verdict, row.low, row.high) = (Verdict::Undecided, Some(0.95), Some(1.0));
        }
        let said = confirmed(&run, &run.answers[0]);
        assert!(said.contains("was too short to tell (--confirm "), "{said}");
        let time = said.split("--confirm ").nth(1).unwrap().split(' ').next().unwrap();
        let seconds: f64 = match time.strip_suffix('m') {
            Some(minutes) => 60.0 * minutes.parse::<f64>().unwrap(),
            None => time.trim_end_matches('s').parse().unwrap(),
        };
        assert!((11.0..600.0).contains(&seconds), "{time} at 33 requests/s");
    }

    #[test]
    fn a_soak_says_how_it_ended() {
        let mut run = case("soak");
        let at = run.steps.len() - 1;
        for (verdict, want) in [
            (Verdict::Fails, "Not confirmed: the soak of 10 min at 33 requests/s failed: p99 TTFT "),
            (Verdict::Undecided, "Not confirmed: the soak of 10 min at 33 requests/s was too short to tell"),
            (
                Verdict::Invalid,
                "Not confirmed: in the soak of 10 min at 33 requests/s the client was the limit",
            ),
        ] {
            run.steps[at].verdict = verdict;
            let said = confirmed(&run, &run.answers[0]);
            assert!(said.starts_with(want), "{said}");
        }
        run.steps[at].abort = Some(goodput_stats::stats::step::Abort::Interrupted);
        assert_eq!(confirmed(&run, &run.answers[0]), "", "one that was interrupted says nothing");
    }
}
