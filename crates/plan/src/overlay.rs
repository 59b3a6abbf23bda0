//! The plan of each variant: the plan itself, with what the variant sets otherwise.

use super::{Plan, Variant, set};
use crate::server::Target;
use std::fmt;

/// What is wrong with a variant, and where in the plan's text it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    /// What to look for in the text.
    at: String,
    text: String,
}

impl Fault {
    fn new(at: &str, text: String) -> Self {
        Self { at: at.to_owned(), text }
    }

    /// In words, with the line of the plan where it is found in it.
    pub(super) fn words(&self, plan: &str) -> String {
        let line =
            plan.lines().position(|line| !line.trim_start().starts_with('#') && line.contains(&self.at));
        line.map_or_else(|| self.text.clone(), |n| format!("line {}: {}", n + 1, self.text))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Plan {
    /// The variants of the plan: those that it names, and the points of its grid.
    pub fn variants(&self) -> Vec<Variant> {
        let points = self.grid.iter().flat_map(super::Grid::points);
        self.variants.iter().cloned().chain(points).collect()
    }

    /// The plan of one variant.
    ///
    /// # Errors
    /// What the variant sets is no plan; in words that name it and the key.
    pub(super) fn of_variant(&self, v: &Variant) -> Result<Self, Fault> {
        let of = |at: &str, problem: String| Fault::new(at, format!("{}: {problem}", v.title()));
        let base = Self { variants: Vec::new(), grid: None, ..self.clone() }.in_turns();
        let table = toml::Table::try_from(&base).map_err(|e| of(&v.place(), e.to_string()))?;
        let with = |keys: &mut dyn Iterator<Item = (&String, &toml::Value)>| {
            let mut table = table.clone();
            for (key, value) in keys {
                set::insert_at(&mut table, key, value.clone())
                    .map_err(|e| of(key, format!("set \"{key}\": {e:#}")))?;
            }
            if let Some(url) = &v.url {
                let url = toml::Value::String(url.to_string());
                set::insert_at(&mut table, "server.url", url)
                    .map_err(|e| of(&v.place(), format!("{e:#}")))?;
            }
            Ok(Self::parse(&table.to_string()))
        };
        with(&mut v.set.iter())?.map_err(|e| {
            // The key that is wrong by itself, where there is one.
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
                Some(key) => of(key, format!("set \"{key}\": {}{}", e.message(), hint(key))),
                None => of(&v.place(), e.message().to_owned()),
            }
        })
    }

    /// What is wrong with the variants of a plan as it is written, if anything.
    pub(super) fn variant_fault(&self) -> Option<Fault> {
        let all = self.variants();
        let mut names: Vec<String> = Vec::new();
        for v in &all {
            let lower = v.name.to_lowercase();
            if names.contains(&lower) {
                let text = format!(
                    "two variants are called {:?} (capital letters make no difference): each needs a name of its own",
                    v.name
                );
                return Some(Fault::new(&v.place(), text));
            }
            names.push(lower);
            if v.set.keys().any(|key| key.trim() == "slo.profile") {
                let text = format!(
                    "{}: set \"slo.profile\" would add to the limits that the plan has: set the whole of it, slo = {{ profile = \"…\" }}",
                    v.title()
                );
                return Some(Fault::new("slo.profile", text));
            }
            let own = ["variant", "grid", "row", "name"];
            if let Some(key) =
                v.set.keys().find(|key| own.contains(&key.split('.').next().unwrap_or_default().trim()))
            {
                return Some(Fault::new(
                    key,
                    format!("{}: set \"{key}\": a variant cannot change that", v.title()),
                ));
            }
            if v.set.keys().any(|key| key.replace([' ', '"'], "") == "search.deadline") {
                let text = format!(
                    "{}: set \"search.deadline\": the plan's own holds for all variants together",
                    v.title()
                );
                return Some(Fault::new("search.deadline", text));
            }
            match self.of_variant(v) {
                Err(fault) => return Some(fault),
                Ok(plan) if v.start.is_some() && matches!(plan.server.target, Target::Simulated(_)) => {
                    let text = format!(
                        "{}: it starts a command, but asks the simulated server: give it url = \"http://127.0.0.1:8000\"",
                        v.title()
                    );
                    return Some(Fault::new(&v.place(), text));
                }
                Ok(_) => {}
            }
        }
        None
    }
}
