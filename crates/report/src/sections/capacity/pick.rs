//! Which answers of a run are planned with: those that it is about, unless others are named.

use crate::escape::clip;
use anyhow::{Result, bail};
use goodput_run::rundir::Run;
use goodput_stats::search::answer::Answer;
use goodput_workload::config::Cache;

/// The answers of a run that is called `name`: of each series that the run is about the one of the first tier, or those that `select`
/// names by series, tier, or `series/tier`.
///
/// What is measured beside them is taken only where it is named: a class of a mix by itself is another demand, and the warm cache of a
/// pair is another case of the same server, which has to be there all the time.
///
/// # Errors
///
/// What `select` names is not there.
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

/// The variant that a series was measured on, where the run has any.
pub(super) fn variant<'a>(run: &'a Run, series: &str) -> Option<&'a str> {
    run.variants.iter().find(|v| v.series == series).map(|v| v.variant.as_str())
}

/// What the name of a series says behind that of its variant: `mix`, `only chat, warm`; empty where the variant is all of it.
fn rest<'a>(run: &Run, series: &'a str) -> &'a str {
    let own = variant(run, series).and_then(|v| series.strip_prefix(v));
    own.map_or(series, |rest| rest.strip_prefix(", ").unwrap_or(rest))
}

/// The other series of the same server.
fn others<'a>(run: &'a Run, series: &str) -> Vec<&'a str> {
    let mut found: Vec<&str> = Vec::new();
    for a in run.answers.iter().filter(|a| variant(run, &a.series) == variant(run, series)) {
        if a.series != series && !found.contains(&a.series.as_str()) {
            found.push(&a.series);
        }
    }
    found
}

/// Whether a series stands beside another one of the same server: a class by itself beside its mix, a warm cache beside the cold one.
fn aside(run: &Run, series: &str) -> bool {
    let [cold, warm] = [Cache::Cold, Cache::Warm].map(Cache::name);
    let own = rest(run, series);
    let beside = |is: &dyn Fn(&str) -> bool| others(run, series).iter().any(|other| is(rest(run, other)));
    let mix = |other: &str| other == "mix" || other.starts_with("mix, ");
    let twin = own.strip_suffix(warm).filter(|head| head.is_empty() || head.ends_with(", "));
    (own.starts_with("only ") && beside(&mix))
        || twin.is_some_and(|head| beside(&|other| other == format!("{head}{cold}")))
}

/// The series that are measured beside the one of an answer, in words, and how they are planned with; `None` where there are none.
pub(super) fn left_out(run: &Run, answer: &Answer) -> Option<String> {
    let others = others(run, &answer.series);
    (!others.is_empty())
        .then(|| format!("RUN#SERIES plans with another of its series: {}", clip(&others.join("; "), 160)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_run::fixture;

    /// A run whose series have these names, each with the answer of the pair's first one.
    fn named(names: &[&str]) -> Run {
        let mut run = fixture::pair();
        let first = run.answers.swap_remove(0);
        run.answers = names.iter().map(|n| Answer { series: (*n).into(), ..first.clone() }).collect();
        run
    }

    fn series(run: &Run, select: Option<&str>) -> Vec<String> {
        picked(run, "r", select).unwrap().into_iter().map(|a| a.series.clone()).collect()
    }

    /// Rows: the series of a run, and those that are planned with.
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

    /// Variants are rivals, whatever they are called; the series of each are cases.
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
