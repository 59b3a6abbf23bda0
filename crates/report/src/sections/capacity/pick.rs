//! Selection of the answers of a run to plan with: the main ones, unless others are named.

use crate::escape::clip;
use anyhow::{Result, bail};
use goodput_run::rundir::Run;
use goodput_stats::search::answer::Answer;
use goodput_workload::config::Cache;

/// Returns the answers of a run called `name`: for each main series the one of the first tier, or those that `select`
/// names by series, tier, or `series/tier`.
///
/// Auxiliary series are selected only if named: a class of a mix alone is another demand, and the warm cache of a pair
/// is another case of the same server, which cannot be relied on all the time.
///
/// # Errors
///
/// `select` names something that does not exist.
pub(super) fn picked<'a>(run: &'a Run, name: &str, select: Option<&str>) -> Result<Vec<&'a Answer>> {
    let of = |pick: &dyn Fn(&Answer) -> bool| run.answers.iter().filter(|a| pick(a)).collect::<Vec<_>>();
    let Some(select) = select else {
        let mut first: Vec<&Answer> = Vec::new();
        for a in run.answers.iter().filter(|a| !aside(run, &a.series)) {
            if !first.iter().any(|f| f.series == a.series) {
                first.push(a);
            }
        }
        return Ok(first);
    };
    let mut series = of(&|a| a.series == select);
    series.truncate(1);
    let ways = [
        series,
        of(&|a| a.tier == select && !aside(run, &a.series)),
        of(&|a| a.tier == select),
        of(&|a| format!("{}/{}", a.series, a.tier) == select),
    ];
    if let Some(found) = ways.into_iter().find(|f| !f.is_empty()) {
        return Ok(found);
    }
    let all: Vec<String> = run.answers.iter().map(|a| format!("{}/{}", a.series, a.tier)).collect();
    bail!(
        "{name} has no answer {select:?}: write RUN#SERIES, RUN#TIER or RUN#SERIES/TIER; its answers are {}",
        all.join(", ")
    )
}

/// Returns the variant on which a series was measured, if the run has variants.
pub(super) fn variant<'a>(run: &'a Run, series: &str) -> Option<&'a str> {
    run.variants.iter().find(|v| v.series == series).map(|v| v.variant.as_str())
}

/// Returns the name of a series without that of its variant: `mix`, `only chat, warm`; empty if they are equal.
fn rest<'a>(run: &Run, series: &'a str) -> &'a str {
    let own = variant(run, series).and_then(|v| series.strip_prefix(v));
    own.map_or(series, |rest| rest.strip_prefix(", ").unwrap_or(rest))
}

/// Returns the other series of the same server.
fn others<'a>(run: &'a Run, series: &str) -> Vec<&'a str> {
    let mut found: Vec<&str> = Vec::new();
    for a in run.answers.iter().filter(|a| variant(run, &a.series) == variant(run, series)) {
        if a.series != series && !found.contains(&a.series.as_str()) {
            found.push(&a.series);
        }
    }
    found
}

/// Returns true if a series supplements another one of the same server: a single class its mix, a warm cache the cold
/// one.
fn aside(run: &Run, series: &str) -> bool {
    let [cold, warm] = [Cache::Cold, Cache::Warm].map(Cache::name);
    let own = rest(run, series);
    let beside = |is: &dyn Fn(&str) -> bool| others(run, series).iter().any(|other| is(rest(run, other)));
    let mix = |other: &str| other == "mix" || other.starts_with("mix, ");
    let twin = own.strip_suffix(warm).filter(|head| head.is_empty() || head.ends_with(", "));
    (own.starts_with("only ") && beside(&mix))
        || twin.is_some_and(|head| beside(&|other| other == format!("{head}{cold}")))
}

/// Returns the supplementary series of an answer in words, and how to plan with them; `None` if there are none.
pub(super) fn left_out(run: &Run, answer: &Answer) -> Option<String> {
    let others = others(run, &answer.series);
    (!others.is_empty())
        .then(|| format!("RUN#SERIES plans with another of its series: {}", clip(&others.join("; "), 160)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_run::fixture;

    /// Returns a run whose series have these names, each with the answer of the pair's first one.
    fn named(names: &[&str]) -> Run {
        let mut run = fixture::pair();
        let first = run.answers.swap_remove(0);
        run.answers = names.iter().map(|n| Answer { series: (*n).into(), ..first.clone() }).collect();
        run
    }

    fn series(run: &Run, select: Option<&str>) -> Vec<String> {
        picked(run, "r", select).unwrap().into_iter().map(|a| a.series.clone()).collect()
    }

    /// Rows: the series of a run, and those to plan with.
    #[test]
    fn what_a_run_is_about_is_planned_with() {
        for (all, want) in [
            (&["main"][..], &["main"][..]),
            (&["cold", "warm"], &["cold"]),
            (&["mix", "only chat", "only mix"], &["mix"]),
            (&["mix, cold", "mix, warm", "only a, cold", "only a, warm"], &["mix, cold"]),
            (&["only warm"], &["only warm"]), // no mix beside it
            (&["warm"], &["warm"]),
        ] {
            assert_eq!(series(&named(all), None), want, "{all:?}");
            for one in all {
                assert_eq!(series(&named(all), Some(one)), [*one], "by its name");
            }
        }
        let mix = named(&["mix", "only chat"]);
        assert_eq!(series(&mix, Some(&mix.answers[0].tier.clone())), ["mix"], "a tier is no class");
    }

    /// Variants are alternatives, whatever their names; the series of each are cases.
    #[test]
    fn each_variant_is_planned_with() {
        let mut run = named(&["mix", "only gpu"]);
        let mut known = fixture::variants().variants;
        known.truncate(2);
        let mut measured = |run: &mut Run, all: &[(&str, &str)]| {
            for (v, (variant, series)) in known.iter_mut().zip(all) {
                (v.variant, v.series) = ((*variant).into(), (*series).into());
            }
            run.variants = known.clone();
        };
        measured(&mut run, &[("mix", "mix"), ("only gpu", "only gpu")]);
        assert_eq!(series(&run, None), ["mix", "only gpu"]);
        assert_eq!(left_out(&run, &run.answers[0]), None);
        let mut run = named(&["fp8, cold", "fp8, warm"]);
        measured(&mut run, &[("fp8", "fp8, cold"), ("fp8", "fp8, warm")]);
        assert_eq!(series(&run, None), ["fp8, cold"]);
        assert!(left_out(&run, &run.answers[0]).is_some_and(|said| said.contains("fp8, warm")));
    }
}
