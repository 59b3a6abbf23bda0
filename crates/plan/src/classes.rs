//! Limits of the classes of a mix: put beside those of the tiers, and checked with them.

use super::{Plan, Tiers};
use goodput_core::slo::ClassSlo;
use goodput_workload::config::Class;

impl Plan {
    /// Copies the limits of the classes of the workload into every tier. A plan that is deserialized without being resolved lacks them there.
    pub fn settle_classes(&mut self) {
        let own =
            |(class, c): (u16, &Class)| Some(ClassSlo { class, name: c.name.clone(), slo: c.slo.clone()? });
        let classes: Vec<ClassSlo> = (0..).zip(self.workload.classes()).filter_map(own).collect();
        self.slo.set_classes(&classes);
    }
}

/// What is wrong with the limits of the classes, or with the tiers beside them, if anything.
pub(super) fn problem(tiers: &Tiers, classes: &[Class]) -> Option<String> {
    for class in classes {
        let Some(slo) = &class.slo else { continue };
        let table = format!("[workload.class.slo] of class {}", class.name);
        if slo.name.is_some() {
            return Some(format!("{table} has a name: its limits hold in every tier, leave it out"));
        }
        if let Some(problem) = slo.problem_of(&table) {
            return Some(problem);
        }
    }
    let without = classes.iter().find(|c| c.slo.is_none());
    let tiers = tiers.as_slice();
    match without {
        _ if classes.is_empty() => None,
        Some(class) if tiers.iter().any(|slo| !slo.is_any()) => Some(format!(
            "nothing is asked of class {}: it has no [workload.class.slo], and [slo] has no limit for classes without one",
            class.name
        )),
        None if tiers.iter().any(super::Slo::is_any) => Some(
            "the limits of [slo] judge nothing, since every [[workload.class]] has limits of its own: take [slo] out, or the \
             [workload.class.slo] of those that it is meant for"
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
    fn classes_have_limits_of_their_own_or_the_plans() {
        let p = plan("slo.ttft.p99 = \"5s\"", "slo.profile = \"chat\"", "").unwrap();
        let parts = p.slo.as_slice()[0].parts();
        assert_eq!(parts.iter().map(|p| p.class()).collect::<Vec<_>>(), ["all", "a"]);
        assert!(!parts[1].slo.tpot.is_empty(), "the profile is filled in");
        let again = Plan::from_text(&p.to_toml().unwrap()).unwrap();
        assert_eq!(again, p, "as resolved");
        assert_eq!(
            Plan::parse(&p.to_toml().unwrap()).unwrap(),
            p,
            "and read back without resolving it again"
        );
        let both = plan("", "slo.ttft.p99 = \"1s\"", "slo.ttft.p99 = \"90s\"").unwrap();
        assert_eq!(both.slo.summary(), "class a: p99 TTFT ≤ 1 s; class b: p99 TTFT ≤ 1 m 30 s");
        assert!(
            both.timeout() >= std::time::Duration::from_secs(180),
            "that of the longest: {:?}",
            both.timeout()
        );
        assert!(!both.to_toml().unwrap().contains("[slo]"));
        assert_eq!(Plan::from_text(&both.to_toml().unwrap()).unwrap(), both);
    }

    #[test]
    fn limits_that_judge_nothing_are_refused() {
        for (slo, a, b, say) in [
            ("", "", "slo.ttft.p99 = \"1s\"", "nothing is asked of class a"),
            ("slo.ttft.p99 = \"1s\"", "slo.ttft.p99 = \"1s\"", "slo.ttft.p99 = \"1s\"", "judge nothing"),
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
            assert!(error.contains(say), "{slo}, {a}, {b}: {error}");
        }
    }
}
