//! SLO limits of the classes of a mix.

use super::{Plan, Tiers};
use goodput_core::slo::ClassSlo;
use goodput_workload::config::Class;

impl Plan {
    /// Copies the limits of the workload's classes into every SLO tier. A plan that is deserialized without being resolved
    /// lacks them there.
    pub fn apply_class_limits(&mut self) {
        let limits =
            |(class, c): (u16, &Class)| Some(ClassSlo { class, name: c.name.clone(), slo: c.slo.clone()? });
        let classes: Vec<ClassSlo> = (0..).zip(self.workload.classes()).filter_map(limits).collect();
        self.slo.set_classes(&classes);
    }
}

/// Returns the first problem with the limits of the classes and the tiers of the plan.
pub(super) fn problem(tiers: &Tiers, classes: &[Class]) -> Option<String> {
    for class in classes {
        let Some(slo) = &class.slo else { continue };
        let table = format!("[workload.class.slo] of class {}", class.name);
        if slo.name.is_some() {
            return Some(format!("{table} has a name: leave it out; its limits apply in every tier"));
        }
        if let Some(problem) = slo.problem_of(&table) {
            return Some(problem);
        }
    }
    let without = classes.iter().find(|c| c.slo.is_none());
    let tiers = tiers.as_slice();
    match without {
        _ if classes.is_empty() => None,
        Some(class) if tiers.iter().any(|slo| !slo.has_limits()) => Some(format!(
            "class {} has no limit: add [workload.class.slo] to it, or a limit to [slo], which applies to classes without one",
            class.name
        )),
        None if tiers.iter().any(super::Slo::has_limits) => Some(
            "the limits of [slo] apply to no request, since every [[workload.class]] has its own: remove [slo], or the \
             [workload.class.slo] of the classes that it is meant for"
                .into(),
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::Plan;

    fn plan(slo: &str, a: &str, b: &str) -> Result<Plan, String> {
        let class = |name: &str, more: &str| {
            format!(
                "[[workload.class]]\nname = \"{name}\"\nweight = 1\n{more}\n[workload.class.prompts.synthetic]\n\
                 input-tokens = {{ fixed = 9 }}\noutput-tokens = {{ fixed = 3 }}\n"
            )
        };
        let text = format!(
            "name = \"x\"\nserver.url = \"http://127.0.0.1:1\"\n{slo}\nsearch.rates = [1]\n{}{}",
            class("a", a),
            class("b", b)
        );
        Plan::from_text(&text).map_err(|e| e.to_string())
    }

    #[test]
    fn a_class_has_its_own_limits_or_those_of_the_plan() {
        let p = plan("slo.ttft.p99 = \"5s\"", "slo.profile = \"chat\"", "").unwrap();
        let parts = p.slo.as_slice()[0].limit_groups();
        assert_eq!(parts.iter().map(|p| p.class()).collect::<Vec<_>>(), ["all", "a"]);
        assert!(!parts[1].slo.tpot.is_empty(), "the profile is filled in");
        let again = Plan::from_text(&p.to_toml().unwrap()).unwrap();
        assert_eq!(again, p);
        assert_eq!(Plan::parse(&p.to_toml().unwrap()).unwrap(), p, "without resolving again");
        let both = plan("", "slo.ttft.p99 = \"1s\"", "slo.ttft.p99 = \"90s\"").unwrap();
        assert_eq!(both.slo.summary(), "class a: p99 TTFT ≤ 1 s; class b: p99 TTFT ≤ 1 m 30 s");
        assert!(
            both.timeout() >= std::time::Duration::from_secs(180),
            "the longest class sets the timeout: {:?}",
            both.timeout()
        );
        assert!(!both.to_toml().unwrap().contains("[slo]"));
        assert_eq!(Plan::from_text(&both.to_toml().unwrap()).unwrap(), both);
    }

    #[test]
    fn missing_and_unused_limits_are_refused() {
        for (slo, a, b, message) in [
            ("", "", "slo.ttft.p99 = \"1s\"", "class a has no limit"),
            (
                "slo.ttft.p99 = \"1s\"",
                "slo.ttft.p99 = \"1s\"",
                "slo.ttft.p99 = \"1s\"",
                "apply to no request",
            ),
            ("slo.ttft.p99 = \"1s\"", "slo = {}", "", "of class a has no limit"),
            ("slo.ttft.p99 = \"1s\"", "slo = { name = \"x\", ttft.p99 = \"1s\" }", "", "has a name"),
            (
                "step.timeout = \"2s\"\nslo.ttft.p99 = \"1s\"",
                "slo.ttft.p99 = \"3s\"",
                "",
                "p99 TTFT ≤ 3 s of class a",
            ),
        ] {
            let error = plan(slo, a, b).unwrap_err();
            assert!(error.contains(message), "{slo}, {a}, {b}: {error}");
        }
    }
}
