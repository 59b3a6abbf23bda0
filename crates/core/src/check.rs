//! Answer checks: the plan's `[[check]]` tables, and their evaluation. A failed check does not change a request's
//! outcome: its answer still arrived, and its latency counts.

use crate::checked;
use boon::{Compiler, SchemaIndex, Schemas, UrlLoader};
use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::error::Error;
use std::path::{Path, PathBuf};

/// Longest answer that is checked, in bytes, so that one long answer does not delay the checks of others. A regex sees
/// only this much; a longer answer fails every schema.
const MAX_CHECKED_BYTES: usize = 1 << 20;
/// Memory limit of one compiled regex, in bytes.
const REGEX_MAX: usize = 4 << 20;

/// One `[[check]]` of a plan: exactly one condition that an answer must meet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(rename = "Check")]
pub struct Check {
    /// Name of the check in reports.
    pub name: String,
    /// `true`: the answer has text other than white space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    non_empty: Option<bool>,
    /// A regular expression that matches somewhere in the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    regex: Option<String>,
    /// A JSON Schema that the answer is valid under: the path of a file, or a table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    json_schema: Option<toml::Value>,
}

checked!(Check);

impl Check {
    fn check(&self) -> Result<(), String> {
        if self.name.trim().is_empty() {
            return Err("a [[check]] needs a name, which reports show".into());
        }
        self.compile().map(|_| ())
    }

    /// Compiles the condition; `None` for a schema file that is not resolved yet.
    fn compile(&self) -> Result<Option<CompiledRule>, String> {
        let name = &self.name;
        Ok(Some(match (self.non_empty, &self.regex, &self.json_schema) {
            (Some(true), None, None) => CompiledRule::NonEmpty,
            (Some(false), None, None) => {
                return Err(format!("the check \"{name}\" has non-empty = false: remove the check instead"));
            }
            (None, Some(text), None) => {
                let built = RegexBuilder::new(text).size_limit(REGEX_MAX).build();
                CompiledRule::Regex(
                    built.map_err(|e| format!("the regex of the check \"{name}\" does not parse: {e}"))?,
                )
            }
            (None, None, Some(schema)) => match SchemaSource::of(schema, name)? {
                SchemaSource::File(_) => return Ok(None),
                SchemaSource::Inline(schema) => CompiledRule::Schema(Schema::new(&schema, name)?),
            },
            _ => {
                return Err(format!(
                    "the check \"{name}\" needs exactly one of non-empty = true, regex = \"…\", json-schema = \"file.json\""
                ));
            }
        }))
    }

    /// Loads the schema file of the check, if it has one, so that the resolved plan is self-contained.
    ///
    /// # Errors
    /// The file cannot be read, or is not a valid JSON Schema; names the path.
    pub fn resolve(self) -> Result<Self, String> {
        let Some(schema) = &self.json_schema else { return Ok(self) };
        let (schema, file) = match SchemaSource::of(schema, &self.name)? {
            SchemaSource::Inline(schema) => (schema, None),
            SchemaSource::File(path) => {
                let schema = read(&path)
                    .map_err(|e| format!("the json-schema of the check \"{}\": {e}", self.name))?;
                (schema, Some(path))
            }
        };
        // As text, since TOML has no null.
        let resolved = Self { json_schema: Some(schema.to_string().into()), ..self };
        match (resolved.compile(), file) {
            (Err(e), Some(path)) => Err(format!("in {}: {e}", path.display())),
            (Err(e), None) => Err(e),
            (Ok(_), _) => Ok(resolved),
        }
    }
}

/// The JSON Schema of a check.
enum SchemaSource {
    File(PathBuf),
    Inline(Value),
}

impl SchemaSource {
    /// Reads a schema given as a table, as JSON in a string (which begins with a brace), or as the path of a file.
    fn of(schema: &toml::Value, name: &str) -> Result<Self, String> {
        let parsed = match schema {
            toml::Value::String(text) if text.trim_start().starts_with('{') => serde_json::from_str(text),
            toml::Value::String(path) => return Ok(Self::File(path.into())),
            toml::Value::Table(table) => serde_json::to_value(table),
            _ => {
                return Err(format!(
                    "json-schema of the check \"{name}\" must be a file (\"schema.json\"), a table, or JSON in a string ('{{…}}')"
                ));
            }
        };
        parsed
            .map(Self::Inline)
            .map_err(|e| format!("the json-schema of the check \"{name}\" is not valid JSON: {e}"))
    }
}

/// A compiled JSON Schema. Its patterns match in linear time.
struct Schema {
    all: Schemas,
    index: SchemaIndex,
}

/// Loader that refuses references to other schemas, so that a check never reads the network or a file.
struct NoExternalSchemas;

impl UrlLoader for NoExternalSchemas {
    fn load(&self, _: &str) -> Result<Value, Box<dyn Error>> {
        Err("a schema must not refer to other schemas".into())
    }
}

impl Schema {
    fn new(schema: &Value, name: &str) -> Result<Self, String> {
        // The compiler needs an address; nothing is loaded from it.
        const SCHEMA_URL: &str = "http://goodput.invalid/schema.json";
        let (mut compiler, mut all) = (Compiler::new(), Schemas::new());
        compiler.use_loader(Box::new(NoExternalSchemas));
        let invalid = |e| format!("the json-schema of the check \"{name}\" is not a valid JSON Schema: {e}");
        compiler.add_resource(SCHEMA_URL, schema.clone()).map_err(invalid)?;
        let index = compiler.compile(SCHEMA_URL, &mut all).map_err(invalid)?;
        Ok(Self { all, index })
    }

    fn is_valid(&self, json: &Value) -> bool {
        self.all.validate(json, self.index).is_ok()
    }
}

fn read(path: &Path) -> Result<Value, String> {
    let text =
        std::fs::read_to_string(path).map_err(|e| format!("failed to read {}: {e}", path.display()))?;
    serde_json::from_str(&text).map_err(|e| format!("{} is not valid JSON: {e}", path.display()))
}

enum CompiledRule {
    NonEmpty,
    Regex(Regex),
    Schema(Schema),
}

/// The compiled checks of a plan.
pub struct Checks(Vec<(String, CompiledRule)>);

impl Checks {
    /// Resolves and compiles the checks.
    ///
    /// # Errors
    /// A schema cannot be read, or a rule does not compile.
    pub fn new(checks: &[Check]) -> Result<Self, String> {
        let compiled = |check: &Check| {
            let check = check.clone().resolve()?;
            let rule = check.compile()?;
            rule.map(|r| (check.name, r))
                .ok_or_else(|| "the schema file of a check was not resolved".to_owned())
        };
        checks.iter().map(compiled).collect::<Result<_, _>>().map(Self)
    }

    /// Returns true if the plan has no checks.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the names of the checks, in the order of the plan.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// Returns for each check, in the order of the plan, if the answer passes.
    pub fn evaluate(&self, text: &str) -> Vec<bool> {
        let schemas = self.0.iter().any(|(_, rule)| matches!(rule, CompiledRule::Schema(_)));
        let json =
            if schemas && text.len() <= MAX_CHECKED_BYTES { serde_json::from_str(text).ok() } else { None };
        self.0.iter().map(|(_, rule)| rule.passes(text, json.as_ref())).collect()
    }
}

/// Returns the part of a text that is checked, cut at a character boundary.
fn checked_prefix(text: &str) -> &str {
    let end =
        (0..4).filter_map(|back| MAX_CHECKED_BYTES.checked_sub(back)).find(|at| text.is_char_boundary(*at));
    end.filter(|at| *at < text.len()).map_or(text, |at| &text[..at])
}

impl CompiledRule {
    fn passes(&self, text: &str, json: Option<&Value>) -> bool {
        match self {
            Self::NonEmpty => !text.trim_start().is_empty(),
            Self::Regex(regex) => regex.is_match(checked_prefix(text)),
            Self::Schema(schema) => json.is_some_and(|json| schema.is_valid(json)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(toml: &str) -> Result<Check, String> {
        toml::from_str(&format!("name = \"c\"\n{toml}")).map_err(|e| e.to_string())
    }

    #[test]
    fn answers_pass_or_fail() {
        let schema =
            "json-schema = { type = \"object\", required = [\"a\"], properties.a = { type = \"integer\" } }";
        for (rule, text, passes) in [
            ("non-empty = true", "x", true),
            ("non-empty = true", " \n", false),
            ("regex = '^\\d+$'", "123", true),
            ("regex = '^\\d+$'", "12 3", false),
            ("regex = '(?i)yes'", "oh YES", true),
            (schema, "{\"a\": 1}", true),
            (schema, "{\"a\": \"1\"}", false),
            (schema, "no json", false),
            ("json-schema = '{\"type\": [\"null\", \"array\"]}'", "null", true),
            ("json-schema = '{\"type\": \"string\", \"pattern\": \"^a+$\"}'", "\"aab\"", false),
        ] {
            let checks = Checks::new(&[check(rule).unwrap()]).unwrap();
            assert_eq!(checks.evaluate(text), [passes], "{rule}: {text}");
        }
    }

    #[test]
    fn the_work_on_a_long_answer_is_bounded() {
        let long = format!("{}{}", "é".repeat(MAX_CHECKED_BYTES), "end");
        let checks = Checks::new(&[
            check("regex = 'end$'").unwrap(),
            check("json-schema = {}").unwrap(),
            check("non-empty = true").unwrap(),
        ])
        .unwrap();
        assert_eq!(checks.evaluate(&long), [false, false, true]);
        let json = format!("\"{}\"", "x".repeat(MAX_CHECKED_BYTES));
        assert_eq!(checks.evaluate(&json), [false, false, true]);
    }

    /// Cases: the check, and a part of the error message.
    #[test]
    fn invalid_checks_are_rejected_with_a_reason() {
        for (toml, message) in [
            ("", "exactly one of"),
            ("non-empty = true\nregex = 'a'", "exactly one of"),
            ("non-empty = false", "remove the check"),
            ("regex = '('", "does not parse"),
            ("regex = 'a'\nclass = 'x'", "unknown field `class`"),
            ("json-schema = 5", "must be a file"),
            ("json-schema = '{'", "is not valid JSON"),
            ("json-schema = { type = \"thing\" }", "is not a valid JSON Schema"),
            ("json-schema = { \"$ref\" = \"http://example.com/schema.json\" }", "is not a valid JSON Schema"),
        ] {
            let e = check(toml).unwrap_err();
            assert!(e.contains(message), "{toml}: {e}");
        }
        let nameless = toml::from_str::<Check>("name = \" \"\nnon-empty = true").unwrap_err().to_string();
        assert!(nameless.contains("needs a name"), "{nameless}");
        let missing = check("json-schema = 'nowhere.json'").unwrap().resolve().unwrap_err();
        assert!(missing.contains("nowhere.json") && missing.contains("\"c\""), "{missing}");
    }

    #[test]
    fn a_resolved_check_round_trips_with_its_schema_inlined() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("s.json");
        std::fs::write(&file, "{\"enum\": [null, 1]}").unwrap();
        for toml in [
            "non-empty = true".to_owned(),
            "regex = 'a\"b'".to_owned(),
            "json-schema = { enum = [1, \"x\"] }".to_owned(),
            format!("json-schema = '{}'", file.display()),
        ] {
            let resolved = check(&toml).unwrap().resolve().unwrap();
            let written = toml::to_string(&resolved).unwrap();
            assert_eq!(toml::from_str::<Check>(&written).unwrap(), resolved, "{written}");
            assert!(!written.contains("s.json"), "{written}");
        }
    }
}
