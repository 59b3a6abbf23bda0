//! `alternate`: variants measured in turns.

use super::{Plan, Purpose};
use goodput_core::units::NonEmpty;
use goodput_stats::search::config::Mode;

impl Plan {
    /// Returns the reason why the variants cannot be measured in turns.
    pub(super) fn turns_problem(&self) -> Option<String> {
        self.alternate?;
        let problem = |text: &str| Some(format!("alternate measures variants in turns: {text}"));
        let variants = self.variants();
        if variants.len() < 2 {
            return problem("add two or more [[variant]]");
        }
        if let Some(started) = variants.iter().find(|v| v.start().is_some()) {
            return problem(&format!(
                "all servers must run at the same time, but {} is started by a command; start the servers yourself and set each variant's url",
                started.name
            ));
        }
        if !self.server.adapters.is_empty() || variants.iter().any(|v| sets_adapters(&v.set)) {
            return problem(
                "server.adapters are loaded for one variant at a time: leave them out, and have the servers load them",
            );
        }
        if !matches!(self.search.mode, Mode::Rates(_)) || self.search.baseline {
            return problem("write a list of rates, search.rates = [4, 8], without a baseline");
        }
        if self.search.peak.is_some()
            || self.search.confirm.is_some()
            || self.profile.is_some()
            || self.recovery.is_some()
            || !self.rows.is_empty()
        {
            return problem("leave out search.peak, search.confirm, profile, recovery and [[row]]");
        }
        if self.purpose == Purpose::Sensitivity {
            // The variants of a sensitivity run have different workloads on purpose.
            return None;
        }
        let sets = |key: &String| {
            ["search", "workload", "slo", "step", "seed"]
                .contains(&key.split('.').next().unwrap_or_default().trim())
        };
        let other = variants.iter().find_map(|v| Some((v, v.set.keys().find(|k| sets(k))?)));
        other.and_then(|(v, key)| {
            problem(&format!(
                "all get the same load and the same SLO, so {} cannot set {key:?}; leave it out",
                v.name
            ))
        })
    }

    /// Returns the plan of each variant, with the list of rates repeated once per turn.
    pub(super) fn in_turns(mut self) -> Self {
        if let (Some(turns), Mode::Rates(rates)) = (self.alternate.take(), &self.search.mode) {
            let each = rates.iter().copied().collect::<Vec<_>>();
            let all = (0..turns.get()).flat_map(|_| each.iter().copied()).collect::<Vec<_>>();
            // Cannot fail: the list is at least as long as the original one.
            if let Ok(all) = NonEmpty::try_from(all) {
                self.search.mode = Mode::Rates(all);
            }
        }
        self
    }
}

/// Returns true if the overrides of a variant load adapters.
fn sets_adapters(set: &toml::Table) -> bool {
    set.iter().any(|(key, value)| {
        let key = key.replace([' ', '"'], "");
        key.starts_with("server.adapters") || (key == "server" && value.get("adapters").is_some())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Result<Plan, String> {
        let whole = format!(
            "name = \"x\"\nalternate = 3\nslo.ttft.p99 = \"200ms\"\n{text}\n[server]\nsimulated.preset = \"md1\"\n[workload]\n\
             prompts.synthetic = {{ input-tokens = {{ fixed = 9 }}, output-tokens = {{ fixed = 3 }} }}"
        );
        Plan::from_text(&whole).map_err(|e| e.to_string())
    }

    const TWO: &str =
        "variant = [{ name = \"A\" }, { name = \"B\", set = { \"server.simulated.slow-down\" = 1.15 } }]";

    #[test]
    fn rates_are_repeated_once_per_turn() {
        let plan = plan(&format!("search.rates = [4, 8]\n{TWO}")).unwrap();
        let series = plan.series();
        let Mode::Rates(rates) = &series[1].plan.search.mode else { panic!("a list") };
        let rates: Vec<f64> = rates.iter().map(|r| r.get()).collect();
        assert_eq!(rates, [4.0, 8.0, 4.0, 8.0, 4.0, 8.0]);
        assert!(series.iter().all(|s| s.plan.alternate.is_none()), "each is a separate plan");
    }

    #[test]
    fn variants_that_cannot_run_in_turns_are_refused() {
        let started =
            "variant = [{ name = \"A\" }, { name = \"B\", url = \"http://127.0.0.1:9\", command = [\"x\"] }]";
        let other =
            "variant = [{ name = \"A\" }, { name = \"B\", set = { \"slo.ttft\" = { p99 = \"1s\" } } }]";
        for (text, message) in [
            ("search.rates = [4]", "two or more [[variant]]"),
            (&format!("search.ramp.start = 1\n{TWO}"), "a list of rates"),
            (&format!("search.rates = [4]\n{started}"), "B is started by a command"),
            (&format!("search.rates = [4]\n{other}"), "cannot set \"slo.ttft\""),
        ] {
            let e = plan(text).unwrap_err();
            assert!(e.contains(message), "{text}: {e}");
        }
    }
}
