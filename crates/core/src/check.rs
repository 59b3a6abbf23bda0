//! Checks of answers: what a plan says an answer must be, and whether one is. Apart from the outcome of a request: an answer that
//! fails a check came all the same, and its latency counts.

use boon::{Compiler, SchemaIndex, Schemas, UrlLoader};
use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::error::Error;
use std::path::{Path, PathBuf};

/// The longest answer that is looked at, in bytes: a check of a longer one must not hold back those behind it. A regex sees no
/// more than this; a longer answer is no JSON.
const LOOKED_AT: usize = 1 << 20;
/// The memory that one compiled regex may take.
const REGEX_MAX: usize = 4 << 20;

/// One `[[check]]` of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "RawCheck", into = "RawCheck")]
pub struct Check {
    /// What it is called in reports.
    pub name: String,
    /// What an answer must be.
    pub rule: Rule,
}

/// What an answer must be.
#[derive(Debug, Clone, PartialEq)]
pub enum Rule {
    /// It has text other than white space.
    NonEmpty,
    /// Somewhere in it this regular expression matches.
    Regex(String),
    /// It is JSON that a schema describes, which stands in this file.
    SchemaFile(PathBuf),
    /// It is JSON that this schema describes.
    Schema(Value),
}

#[derive(Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct RawCheck {
    /// What reports call the check.
    name: String,
    /// `true`: the answer has text other than white space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    non_empty: Option<bool>,
    /// Somewhere in the answer this regular expression matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    regex: Option<String>,
    /// The answer is JSON that this schema describes: the path of a file, or a table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    json_schema: Option<toml::Value>,
}

impl TryFrom<RawCheck> for Check {
    type Error = String;
    fn try_from(raw: RawCheck) -> Result<Self, String> {
        let name = raw.name;
        if name.trim().is_empty() {
            return Err("a [[check]] needs a name, which reports call it by".into());
        }
        let rule = match (raw.non_empty, raw.regex, raw.json_schema) {
            (Some(true), None, None) => Rule::NonEmpty,
            (Some(false), None, None) => {
                return Err(format!("the check \"{name}\" says non-empty = false: leave the check out"));
            }
            (None, Some(regex), None) => Rule::Regex(regex),
            (None, None, Some(schema)) => Rule::of_schema(schema, &name)?,
            _ => {
                return Err(format!(
                    "the check \"{name}\" needs exactly one of non-empty = true, regex = \"…\", json-schema = \"file.json\""
                ));
            }
        };
        rule.compile(&name)?;
        Ok(Self { name, rule })
    }
}

impl From<Check> for RawCheck {
    fn from(check: Check) -> Self {
        let (mut non_empty, mut regex, mut json_schema) = (None, None, None);
        match check.rule {
            Rule::NonEmpty => non_empty = Some(true),
            Rule::Regex(text) => regex = Some(text),
            Rule::SchemaFile(path) => json_schema = Some(path.display().to_string().into()),
            // As text, since TOML has no null.
            Rule::Schema(schema) => json_schema = Some(schema.to_string().into()),
        }
        Self { name: check.name, non_empty, regex, json_schema }
    }
}

impl Rule {
    /// A schema as a table, as JSON in a string (which begins with a brace), or the path of a file with it.
    fn of_schema(schema: toml::Value, name: &str) -> Result<Self, String> {
        match schema {
            toml::Value::String(text) if text.trim_start().starts_with('{') => {
                let schema = serde_json::from_str(&text);
                schema
                    .map(Self::Schema)
                    .map_err(|e| format!("the json-schema of the check \"{name}\" is no JSON: {e}"))
            }
            toml::Value::String(path) => Ok(Self::SchemaFile(path.into())),
            toml::Value::Table(table) => {
                let schema = serde_json::to_value(table);
                schema
                    .map(Self::Schema)
                    .map_err(|e| format!("the json-schema of the check \"{name}\" is no JSON: {e}"))
            }
            _ => Err(format!(
                "json-schema of the check \"{name}\" is a file (\"schema.json\"), a table, or JSON in a string ('{{…}}')"
            )),
        }
    }

    /// Made ready; a file with a schema is not read here and is ready for nothing.
    fn compile(&self, name: &str) -> Result<Option<Ready>, String> {
        Ok(Some(match self {
            Self::NonEmpty => Ready::NonEmpty,
            Self::Regex(text) => {
                let built = RegexBuilder::new(text).size_limit(REGEX_MAX).build();
                Ready::Regex(
                    built.map_err(|e| format!("the regex of the check \"{name}\" does not parse: {e}"))?,
                )
            }
            Self::Schema(schema) => Ready::Schema(Schema::new(schema, name)?),
            Self::SchemaFile(_) => return Ok(None),
        }))
    }
}

/// A JSON Schema, compiled. Its patterns are matched in linear time.
struct Schema {
    all: Schemas,
    index: SchemaIndex,
}

/// Nothing is fetched, neither from the network nor from files: a schema stands by itself.
struct Nowhere;

impl UrlLoader for Nowhere {
    fn load(&self, _: &str) -> Result<Value, Box<dyn Error>> {
        Err("a schema refers to nothing outside of it".into())
    }
}

impl Schema {
    fn new(schema: &Value, name: &str) -> Result<Self, String> {
        // Where it is said to lie: nobody looks there.
        const PLACE: &str = "http://goodput.invalid/schema.json";
        let (mut compiler, mut all) = (Compiler::new(), Schemas::new());
        compiler.use_loader(Box::new(Nowhere));
        let none = |e| format!("the json-schema of the check \"{name}\" is no JSON Schema: {e}");
        compiler.add_resource(PLACE, schema.clone()).map_err(none)?;
        let index = compiler.compile(PLACE, &mut all).map_err(none)?;
        Ok(Self { all, index })
    }

    fn describes(&self, json: &Value) -> bool {
        self.all.validate(json, self.index).is_ok()
    }
}

impl Check {
    /// The check with its schema in it, where that stands in a file, so that the plan says all by itself.
    ///
    /// # Errors
    /// The file cannot be read, or holds no JSON Schema; with its path.
    pub fn resolve(self) -> Result<Self, String> {
        let Rule::SchemaFile(path) = &self.rule else { return Ok(self) };
        let schema =
            read(path).map_err(|e| format!("the json-schema of the check \"{}\": {e}", self.name))?;
        let rule = Rule::Schema(schema);
        rule.compile(&self.name).map_err(|e| format!("in {}: {e}", path.display()))?;
        Ok(Self { rule, ..self })
    }
}

fn read(path: &Path) -> Result<Value, String> {
    let text =
        std::fs::read_to_string(path).map_err(|e| format!("failed to read {}: {e}", path.display()))?;
    serde_json::from_str(&text).map_err(|e| format!("{} is no JSON: {e}", path.display()))
}

enum Ready {
    NonEmpty,
    Regex(Regex),
    Schema(Schema),
}

/// The checks of a plan, ready to be asked.
pub struct Checks(Vec<(String, Ready)>);

impl Checks {
    /// Of resolved checks.
    ///
    /// # Errors
    /// A check that cannot be made ready; one whose schema still stands in a file among them.
    pub fn new(checks: &[Check]) -> Result<Self, String> {
        let one = |check: &Check| {
            let check = check.clone().resolve()?;
            let ready = check.rule.compile(&check.name)?;
            ready.map(|r| (check.name, r)).ok_or_else(|| "a schema was read and is not there".to_owned())
        };
        checks.iter().map(one).collect::<Result<_, _>>().map(Self)
    }

    /// Whether there is nothing to ask.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names, in the order of the plan.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// Whether an answer passes each of them, in the order of the plan.
    pub fn ask(&self, text: &str) -> Vec<bool> {
        let schemas = self.0.iter().any(|(_, ready)| matches!(ready, Ready::Schema(_)));
        // Parsed once for all schemas.
        let json = if schemas && text.len() <= LOOKED_AT { serde_json::from_str(text).ok() } else { None };
        self.0.iter().map(|(_, ready)| ready.passes(text, json.as_ref())).collect()
    }
}

/// As much of a text as is looked at, cut between two characters.
fn beginning(text: &str) -> &str {
    let end = (0..4).filter_map(|back| LOOKED_AT.checked_sub(back)).find(|at| text.is_char_boundary(*at));
    end.filter(|at| *at < text.len()).map_or(text, |at| &text[..at])
}

impl Ready {
    fn passes(&self, text: &str, json: Option<&Value>) -> bool {
        match self {
            Self::NonEmpty => !text.trim_start().is_empty(),
            Self::Regex(regex) => regex.is_match(beginning(text)),
            Self::Schema(schema) => json.is_some_and(|json| schema.describes(json)),
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
            assert_eq!(checks.ask(text), [passes], "{rule}: {text}");
        }
    }

    #[test]
    fn the_work_on_a_long_answer_is_bounded() {
        let long = format!("{}{}", "é".repeat(LOOKED_AT), "end");
        let checks = Checks::new(&[
            check("regex = 'end$'").unwrap(),
            check("json-schema = {}").unwrap(),
            check("non-empty = true").unwrap(),
        ])
        .unwrap();
        assert_eq!(checks.ask(&long), [false, false, true]);
        let json = format!("\"{}\"", "x".repeat(LOOKED_AT));
        assert_eq!(checks.ask(&json), [false, false, true]);
    }

    /// Row: the check, and what the message must say.
    #[test]
    fn mistakes_are_named() {
        for (toml, say) in [
            ("", "exactly one of"),
            ("non-empty = true\nregex = 'a'", "exactly one of"),
            ("non-empty = false", "leave the check out"),
            ("regex = '('", "does not parse"),
            ("regex = 'a'\nclass = 'x'", "unknown field `class`"),
            ("json-schema = 5", "is a file"),
            ("json-schema = '{'", "is no JSON"),
            ("json-schema = { type = \"thing\" }", "is no JSON Schema"),
            ("json-schema = { \"$ref\" = \"http://example.com/schema.json\" }", "is no JSON Schema"),
        ] {
            let e = check(toml).unwrap_err();
            assert!(e.contains(say), "{toml}: {e}");
        }
        let nameless = toml::from_str::<Check>("name = \" \"\nnon-empty = true").unwrap_err().to_string();
        assert!(nameless.contains("needs a name"), "{nameless}");
        let missing = check("json-schema = 'nowhere.json'").unwrap().resolve().unwrap_err();
        assert!(missing.contains("nowhere.json") && missing.contains("\"c\""), "{missing}");
    }

    #[test]
    fn a_check_reads_back_the_same_and_carries_its_schema() {
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
