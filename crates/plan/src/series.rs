//! The series of a plan: one curve each, made from the plan by setting some of it otherwise.

use super::{Plan, Tiers, Variant};
use crate::server::extras::ExtraBody;
use goodput_workload::config::{Cache, Class, Source};

/// The name of the only series of a plan that asks for one curve.
pub const MAIN: &str = "main";

/// One curve of a plan: a name, and the plan as it is for that curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name in files and reports.
    pub name: String,
    /// The variant that it is measured on, where the plan has any.
    pub variant: Option<Variant>,
    /// The plan, with what this series sets otherwise.
    pub plan: Plan,
}

impl Plan {
    /// The series of the plan, in the order in which they are measured; [`MAIN`] alone where it asks for one curve.
    ///
    /// Each variant has its own, of its name. A matrix has one for each row, of its name. A mix whose classes are measured alone as well
    /// has `mix` and `only CLASS`, a pair of caches `cold` and `warm`; where it asks for several of these, each with each: `mix, cold`.
    pub fn series(&self) -> Vec<Series> {
        self.try_series().expect("the variants were checked as the plan was read")
    }

    /// The series of the plan.
    ///
    /// # Errors
    /// A variant is no sound plan; in words that name it. Not of a plan that was loaded, or read from its text.
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

/// Each variant, its plan as resolved.
fn variants(of: Series) -> Result<Vec<Series>, String> {
    let all = of.plan.variants();
    if all.is_empty() {
        return Ok(vec![of]);
    }
    let one = |v: Variant| {
        let plan = of.plan.of_variant(&v).map_err(|fault| fault.to_string())?;
        let plan = plan.resolve().map_err(|problem| format!("{}: {problem}", v.title()))?;
        Ok(Series { name: v.name.clone(), variant: Some(v), plan })
    };
    all.into_iter().map(one).collect()
}

/// Each row of the matrix.
fn rows(of: Series) -> Vec<Series> {
    if of.plan.rows.is_empty() {
        return vec![of];
    }
    of.plan.rows.iter().map(|row| part(&of, &row.name, |plan| row.apply(plan))).collect()
}

/// The series further set apart: its name grows by a part.
fn part(of: &Series, name: &str, change: impl FnOnce(&mut Plan)) -> Series {
    let mut plan = of.plan.clone();
    change(&mut plan);
    let name = if of.name.is_empty() { name.to_owned() } else { format!("{}, {name}", of.name) };
    Series { name, variant: of.variant.clone(), plan }
}

/// The mix, and each of its classes by itself.
fn alone(of: Series) -> Vec<Series> {
    if !of.plan.workload.alone {
        return vec![of];
    }
    let mut all = vec![part(&of, "mix", |plan| plan.workload.alone = false)];
    for class in of.plan.workload.classes() {
        all.push(part(&of, &format!("only {}", class.name), |plan| only(plan, class.clone())));
    }
    all
}

/// A class by itself: everything that is the class's own becomes the plan's.
fn only(plan: &mut Plan, class: Class) {
    plan.workload.alone = false;
    let place = plan.workload.classes().iter().position(|c| c.name == class.name);
    plan.workload.file_summaries =
        place.and_then(|i| plan.workload.file_summaries.get(i).cloned()).into_iter().collect();
    plan.workload.only = Some(class.name);
    plan.workload.source = Source::Prompts(class.prompts);
    plan.workload.conversation = class.conversation;
    plan.server.model = class.model.or(plan.server.model.take());
    // Checked as the plan was read.
    if let Ok(body) = ExtraBody::try_from(class.body) {
        plan.server.body.merge(body);
    }
    if let Some(slo) = class.slo {
        plan.slo = Tiers::of(slo);
    }
    plan.settle_classes();
}

/// Cold and warm.
fn caches(of: Series) -> Vec<Series> {
    if of.plan.workload.cache != Cache::Pair {
        return vec![of];
    }
    [Cache::Cold, Cache::Warm].map(|cache| part(&of, cache.name(), |plan| plan.workload.cache = cache)).into()
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
    const MIX: &str = "class = [
        { name = \"a\", weight = 1, prompts.synthetic = { input-tokens = { fixed = 9 }, output-tokens = { fixed = 3 } } },
        { name = \"b\", weight = 1, prompts.synthetic = { input-tokens = { fixed = 8 }, output-tokens = { fixed = 3 } }, \
          model = \"lora\", slo.ttft.p99 = \"5s\" },
    ]";

    #[test]
    fn a_plan_has_the_series_that_it_asks_for() {
        assert_eq!(names(ONE), ["main"]);
        assert_eq!(names(&format!("cache = \"pair\"\n{ONE}")), ["cold", "warm"]);
        assert_eq!(names(MIX), ["main"]);
        assert_eq!(names(&format!("alone = true\n{MIX}")), ["mix", "only a", "only b"]);
        let all = names(&format!("alone = true\ncache = \"pair\"\n{MIX}"));
        assert_eq!((all.len(), all[0].as_str(), all[5].as_str()), (6, "mix, cold", "only b, warm"));
    }

    #[test]
    fn a_class_by_itself_is_a_plan_of_its_own() {
        let all = plan(&format!("alone = true\n{MIX}")).series();
        assert_eq!(all[0].plan.workload.classes().len(), 2);
        let only = &all[2].plan;
        assert!(only.workload.classes().is_empty() && only.server.model.as_deref() == Some("lora"));
        assert_eq!(only.slo.summary(), "p99 TTFT ≤ 5 s");
        assert_eq!(all[1].plan.slo.summary(), "p99 TTFT ≤ 200 ms", "the plan's own");
        assert!(all.iter().all(|s| s.plan.series()[0].name == MAIN), "each is one curve");
    }
}
