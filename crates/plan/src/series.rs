//! The series of a plan: one for each variant, row, class alone and cache setting.

use super::{Plan, Tiers, Variant};
use crate::server::extras::ExtraBody;
use goodput_workload::config::{Cache, Class, Source};

/// Name of the series of a plan that has only one.
pub const MAIN: &str = "main";

/// One series of a plan: a set of steps that gives one answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Name in files and reports.
    pub name: String,
    /// The variant that the series measures; `None` if the plan has no variants.
    pub variant: Option<Variant>,
    /// The plan of the series being measured, with its overrides applied.
    pub plan: Plan,
}

impl Plan {
    /// Returns the series of a validated plan, in the order of measurement. A plan with one series calls it [`MAIN`].
    ///
    /// Each variant and each row of a matrix is a series of the same name. `alone = true` makes `mix` and an `only CLASS` for each class;
    /// `cache = "pair"` makes `cold` and `warm`. Combinations have names such as `mix, cold`.
    pub fn series(&self) -> Vec<Series> {
        self.try_series().expect("parsing the plan has checked the variants")
    }

    /// Returns the series of the plan, as [`Plan::series`] does.
    ///
    /// # Errors
    /// A variant is not valid; the message names it. Cannot happen for a plan from [`Plan::load`] or [`Plan::from_text`].
    pub fn try_series(&self) -> Result<Vec<Series>, String> {
        let whole = Series { name: String::new(), variant: None, plan: self.clone() };
        let mut all: Vec<Series> =
            variants(whole)?.into_iter().flat_map(rows).flat_map(alone).flat_map(caches).collect();
        if let [only] = &mut all[..]
            && only.name.is_empty()
        {
            only.name = MAIN.into();
        }
        Ok(all)
    }
}

/// Splits a plan into its variants, with resolved plans.
fn variants(of: Series) -> Result<Vec<Series>, String> {
    let all = of.plan.variants();
    if all.is_empty() {
        return Ok(vec![of]);
    }
    let one = |v: Variant| {
        let plan = of.plan.of_variant(&v).map_err(|problem| problem.to_string())?;
        let plan = plan.resolve().map_err(|problem| format!("{}: {problem}", v.title()))?;
        Ok(Series { name: v.name.clone(), variant: Some(v), plan })
    };
    all.into_iter().map(one).collect()
}

/// Splits a matrix into its rows.
fn rows(of: Series) -> Vec<Series> {
    if of.plan.rows.is_empty() {
        return vec![of];
    }
    of.plan.rows.iter().map(|row| derived(&of, &row.name, |plan| row.apply(plan))).collect()
}

/// Returns a series with a changed plan, and `name` appended to its name.
fn derived(of: &Series, name: &str, change: impl FnOnce(&mut Plan)) -> Series {
    let mut plan = of.plan.clone();
    change(&mut plan);
    let name = if of.name.is_empty() { name.to_owned() } else { format!("{}, {name}", of.name) };
    Series { name, variant: of.variant.clone(), plan }
}

/// Splits a mix with `alone = true` into the mix and each class alone.
fn alone(of: Series) -> Vec<Series> {
    if !of.plan.workload.alone {
        return vec![of];
    }
    let mut all = vec![derived(&of, MIX, |plan| plan.workload.alone = false)];
    for class in of.plan.workload.classes() {
        all.push(derived(&of, &only(&class.name), |plan| reduce_to(plan, class.clone())));
    }
    all
}

/// Name of the mix beside its classes alone.
const MIX: &str = "mix";

/// Beginning of the name of a class alone.
const ONLY: &str = "only ";

/// Returns the name of a class alone.
fn only(class: &str) -> String {
    format!("{ONLY}{class}")
}

/// Returns the class that a series measures alone: `chat` of `only chat, warm`; `None` for a series of another kind.
pub fn measured_alone(series: &str) -> Option<&str> {
    series.split(", ").find_map(|part| part.strip_prefix(ONLY))
}

/// Returns the name of the series that measures a class of a mix alone: `only chat, warm` of `mix, warm`; `None` if the series
/// is no mix whose classes are measured alone.
pub fn class_alone(series: &str, class: &str) -> Option<String> {
    let mut parts: Vec<&str> = series.split(", ").collect();
    let (at, only) = (parts.iter().rposition(|part| *part == MIX)?, only(class));
    parts[at] = &only;
    Some(parts.join(", "))
}

/// Reduces the plan of a mix to one class, whose settings replace the plan's.
fn reduce_to(plan: &mut Plan, class: Class) {
    plan.workload.alone = false;
    let index = plan.workload.classes().iter().position(|c| c.name == class.name);
    plan.workload.file_summaries =
        index.and_then(|i| plan.workload.file_summaries.get(i).cloned()).into_iter().collect();
    plan.workload.only = Some(class.name);
    plan.workload.source = Source::Prompts(class.prompts);
    plan.workload.conversation = class.conversation;
    plan.server.model = class.model.or(plan.server.model.take());
    // Cannot fail: resolving the plan has checked the body.
    if let Ok(body) = ExtraBody::try_from(class.body) {
        plan.server.body.merge(body);
    }
    if let Some(slo) = class.slo {
        plan.slo = Tiers::of(slo);
    }
    plan.apply_class_limits();
}

/// Splits a plan with `cache = "pair"` into a cold and a warm one.
fn caches(of: Series) -> Vec<Series> {
    if of.plan.workload.cache != Cache::Pair {
        return vec![of];
    }
    [Cache::Cold, Cache::Warm]
        .map(|cache| derived(&of, cache.name(), |plan| plan.workload.cache = cache))
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(workload: &str) -> Plan {
        Plan::from_text(&format!(
            "name = \"x\"\nserver.url = \"http://127.0.0.1:1\"\nslo.ttft.p99 = \"200ms\"\nsearch.rates = [1]\n[workload]\n{workload}"
        ))
        .unwrap()
    }

    fn names(workload: &str) -> Vec<String> {
        plan(workload).series().into_iter().map(|s| s.name).collect()
    }

    const ONE: &str = "prompts.synthetic = { input-tokens = { fixed = 9 }, output-tokens = { fixed = 3 } }";
    const CLASSES: &str = "class = [
        { name = \"a\", weight = 1, prompts.synthetic = { input-tokens = { fixed = 9 }, output-tokens = { fixed = 3 } } },
        { name = \"b\", weight = 1, prompts.synthetic = { input-tokens = { fixed = 8 }, output-tokens = { fixed = 3 } }, \
          model = \"lora\", slo.ttft.p99 = \"5s\" },
    ]";

    #[test]
    fn classes_alone_and_cache_pairs_are_series() {
        assert_eq!(names(ONE), ["main"]);
        assert_eq!(names(&format!("cache = \"pair\"\n{ONE}")), ["cold", "warm"]);
        assert_eq!(names(CLASSES), ["main"]);
        assert_eq!(names(&format!("alone = true\n{CLASSES}")), ["mix", "only a", "only b"]);
        let all = names(&format!("alone = true\ncache = \"pair\"\n{CLASSES}"));
        assert_eq!((all.len(), all[0].as_str(), all[5].as_str()), (6, "mix, cold", "only b, warm"));
    }

    #[test]
    fn a_class_alone_replaces_the_settings_of_the_plan() {
        let all = plan(&format!("alone = true\n{CLASSES}")).series();
        assert_eq!(all[0].plan.workload.classes().len(), 2);
        let only = &all[2].plan;
        assert!(only.workload.classes().is_empty() && only.server.model.as_deref() == Some("lora"));
        assert_eq!(only.slo.summary(), "p99 TTFT ≤ 5 s");
        assert_eq!(all[1].plan.slo.summary(), "p99 TTFT ≤ 200 ms", "the plan's limits");
        assert!(all.iter().all(|s| s.plan.series()[0].name == MAIN), "each plan has one series");
    }

    #[test]
    fn the_series_of_a_class_alone_is_named_after_that_of_the_mix() {
        for (series, want) in [
            ("mix", Some("only chat")),
            ("mix, warm", Some("only chat, warm")),
            ("few, mix, cold", Some("few, only chat, cold")),
            ("main", None),
        ] {
            assert_eq!(class_alone(series, "chat").as_deref(), want);
            assert_eq!(want.and_then(measured_alone), want.map(|_| "chat"));
            assert_eq!(measured_alone(series), None);
        }
    }
}
