//! The plan of each variant: the base plan with the variant's overrides applied.

use super::parser_message::reworded;
use super::{Plan, Variant, set};
use crate::server::Target;
use std::fmt;

/// A problem with a variant, and a text to find its line in the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VariantProblem {
    /// Part of the line that has the problem.
    marker: String,
    message: String,
}

impl VariantProblem {
    fn new(marker: &str, message: String) -> Self {
        Self { marker: marker.to_owned(), message }
    }

    /// Returns the message, preceded by the line number if the marker is in the text of the plan.
    pub(super) fn with_line(&self, plan: &str) -> String {
        let line =
            plan.lines().position(|line| !line.trim_start().starts_with('#') && line.contains(&self.marker));
        line.map_or_else(|| self.message.clone(), |n| format!("line {}: {}", n + 1, self.message))
    }
}

impl fmt::Display for VariantProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Plan {
    /// Returns the variants of the plan: the `[[variant]]` tables, then the points of the grid.
    pub fn variants(&self) -> Vec<Variant> {
        let points = self.grid.iter().flat_map(super::Grid::points);
        self.variants.iter().cloned().chain(points).collect()
    }

    /// Returns the plan of one variant.
    ///
    /// # Errors
    /// The overrides do not give a valid plan; the message names the variant and the key.
    pub(super) fn of_variant(&self, v: &Variant) -> Result<Self, VariantProblem> {
        let of =
            |marker: &str, problem: String| VariantProblem::new(marker, format!("{}: {problem}", v.title()));
        let base = Self { variants: Vec::new(), grid: None, ..self.clone() }.in_turns();
        let table = toml::Table::try_from(&base).map_err(|e| of(&v.marker(), e.to_string()))?;
        let with = |keys: &mut dyn Iterator<Item = (&String, &toml::Value)>| {
            let mut table = table.clone();
            for (key, value) in keys {
                set::insert_at(&mut table, key, value.clone())
                    .map_err(|e| of(key, format!("set \"{key}\": {e:#}")))?;
            }
            if let Some(url) = &v.url {
                let url = toml::Value::String(url.to_string());
                set::insert_at(&mut table, "server.url", url)
                    .map_err(|e| of(&v.marker(), format!("{e:#}")))?;
            }
            Ok(Self::parse(&table.to_string()))
        };
        with(&mut v.set.iter())?.map_err(|e| {
            // Finds the key that is wrong by itself, if there is one.
            let alone = |key: &&String| {
                let one = v.set.iter().find(|(k, _)| k == key);
                matches!(with(&mut one.into_iter()), Ok(Err(_)))
            };
            let hint = |key: &str| {
                if key.contains('.') {
                    ""
                } else {
                    " (a key without a dot sets the whole table: write \"server.model\", quoted)"
                }
            };
            match v.set.keys().find(alone) {
                Some(key) => of(key, format!("set \"{key}\": {}{}", reworded(e.message()), hint(key))),
                None => of(&v.marker(), reworded(e.message())),
            }
        })
    }

    /// Returns the first problem with the variants of the plan.
    pub(super) fn variant_problem(&self) -> Option<VariantProblem> {
        let all = self.variants();
        let mut names: Vec<String> = Vec::new();
        for v in &all {
            let lower = v.name.to_lowercase();
            if names.contains(&lower) {
                let text = format!(
                    "two variants are named {:?} (upper and lower case count as equal): give each its own name",
                    v.name
                );
                return Some(VariantProblem::new(&v.marker(), text));
            }
            names.push(lower);
            if v.set.keys().any(|key| key.trim() == "slo.profile") {
                let text = format!(
                    "{}: set \"slo.profile\" would add to the plan's limits: set the whole table instead, slo = {{ profile = \"…\" }}",
                    v.title()
                );
                return Some(VariantProblem::new("slo.profile", text));
            }
            let fixed = ["variant", "grid", "row", "name"];
            if let Some(key) =
                v.set.keys().find(|key| fixed.contains(&key.split('.').next().unwrap_or_default().trim()))
            {
                return Some(VariantProblem::new(
                    key,
                    format!("{}: set \"{key}\": a variant cannot change this key; leave it out", v.title()),
                ));
            }
            if v.set.keys().any(|key| set::is_at(key, "search.deadline")) {
                let text = format!(
                    "{}: set \"search.deadline\": the deadline covers all variants together; set it in [search]",
                    v.title()
                );
                return Some(VariantProblem::new("search.deadline", text));
            }
            let named = self.workload.classes();
            if !named.is_empty()
                && named.iter().all(|class| class.model.is_some())
                && let Some(key) = v.set.keys().find(|key| set::is_at(key, "server.model"))
            {
                let text = format!(
                    "{}: set \"server.model\" has no effect, since workload.model or each [[workload.class]] names the model of its requests: \
                     set \"workload\" as a table",
                    v.title()
                );
                return Some(VariantProblem::new(key, text));
            }
            match self.of_variant(v) {
                Err(problem) => return Some(problem),
                Ok(plan) if v.start().is_some() && matches!(plan.server.target, Target::Simulated(_)) => {
                    let text = format!(
                        "{}: it has a command, but the simulated server is the target: add url = \"http://127.0.0.1:8000\"",
                        v.title()
                    );
                    return Some(VariantProblem::new(&v.marker(), text));
                }
                Ok(_) => {}
            }
        }
        None
    }
}
