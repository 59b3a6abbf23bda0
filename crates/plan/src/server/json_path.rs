//! Paths to values of a JSON document: the part of JSONPath (RFC 9535) that names one place, with members and indices.
//!
//! A crate for all of JSONPath evaluates paths on a parsed `serde_json::Value`, and brings filters, functions and a parser framework along. These paths are
//! looked up in every event of every stream, so the client follows all of them in one pass over the bytes instead, for which it needs only the steps.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::str::FromStr;

/// One step of a path, from a value into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The member of an object with this name.
    Member(String),
    /// The element of a list with this index, from 0.
    Index(usize),
}

/// A path to a value, such as `$.choices[0].text`; `$` alone is the whole document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct JsonPath {
    text: String,
    steps: Vec<Step>,
}

impl schemars::JsonSchema for JsonPath {
    fn schema_name() -> Cow<'static, str> {
        "JsonPath".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^\\$" })
    }
}

impl JsonPath {
    /// Returns the steps from the document to the value.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns the path as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// The rest of a path that is being parsed.
struct Rest<'a> {
    whole: &'a str,
    /// Offset of the next character, in bytes.
    at: usize,
}

impl<'a> Rest<'a> {
    fn rest(&self) -> &'a str {
        &self.whole[self.at..]
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest().chars().next()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn eat(&mut self, c: char) -> bool {
        let found = self.rest().starts_with(c);
        self.at += if found { c.len_utf8() } else { 0 };
        found
    }

    /// Takes the characters that satisfy `is`.
    fn take(&mut self, is: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let taken = rest.find(|c| !is(c)).map_or(rest, |end| &rest[..end]);
        self.at += taken.len();
        taken
    }

    /// Describes a problem at the next character.
    fn problem(&self, problem: &str) -> String {
        let at = self.whole[..self.at].chars().count() + 1;
        format!("{problem} at character {at} of the path {:?}", self.whole)
    }

    fn step(&mut self) -> Result<Step, String> {
        if self.eat('.') {
            if self.rest().starts_with(['.', '*']) {
                return Err(self.problem(
                    "only one place can be named: a member (.name) or an index ([0]) is needed, not a wildcard,",
                ));
            }
            let name = self.take(|c| c.is_alphanumeric() || c == '_' || (c as u32) >= 0x80);
            if name.is_empty() {
                return Err(self.problem("a name is needed"));
            }
            if name.starts_with(|c: char| c.is_ascii_digit()) {
                self.at -= name.len();
                return Err(self.problem("a name cannot begin with a digit: write an index as [0],"));
            }
            return Ok(Step::Member(name.to_owned()));
        }
        if !self.eat('[') {
            return Err(self.problem("a step (.name, ['name'] or [0]) is needed"));
        }
        let step = match self.rest().chars().next() {
            Some(quote @ ('\'' | '"')) => Step::Member(self.quoted(quote)?),
            _ => {
                let digits = self.take(|c| c.is_ascii_digit());
                let index = digits
                    .parse()
                    .map_err(|_| self.problem("a name in quotes or an index from 0 on is needed"))?;
                Step::Index(index)
            }
        };
        if self.eat(']') { Ok(step) } else { Err(self.problem("a closing bracket is needed")) }
    }

    /// Parses a name in quotes, in which a backslash escapes a quote or a backslash.
    fn quoted(&mut self, quote: char) -> Result<String, String> {
        self.next();
        let mut name = String::new();
        loop {
            match self.next() {
                Some(c) if c == quote => return Ok(name),
                Some('\\') => match self.next() {
                    Some(c @ ('\\' | '\'' | '"' | '/')) => name.push(c),
                    _ => return Err(self.problem("only a quote or a backslash can follow a backslash")),
                },
                Some(c) => name.push(c),
                None => return Err(self.problem("a closing quote is needed")),
            }
        }
    }
}

impl FromStr for JsonPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut rest = Rest { whole: text, at: 0 };
        if !rest.eat('$') {
            return Err(
                rest.problem("a JSONPath begins with $, such as $.token.text; this has something else")
            );
        }
        let mut steps = Vec::new();
        while !rest.rest().is_empty() {
            steps.push(rest.step()?);
        }
        Ok(Self { text: text.to_owned(), steps })
    }
}

impl TryFrom<String> for JsonPath {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<JsonPath> for String {
    fn from(path: JsonPath) -> Self {
        path.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_are_steps() {
        let member = |name: &str| Step::Member(name.into());
        for (text, steps) in [
            ("$", vec![]),
            ("$.token.text", vec![member("token"), member("text")]),
            ("$[0].generated_text", vec![Step::Index(0), member("generated_text")]),
            (
                "$.choices[12]['a.b'][\"c\\\"d\"]",
                vec![member("choices"), Step::Index(12), member("a.b"), member("c\"d")],
            ),
            ("$.größe", vec![member("größe")]),
        ] {
            assert_eq!(text.parse::<JsonPath>().unwrap().steps(), steps, "{text}");
        }
    }

    #[test]
    fn a_mistake_has_its_place() {
        for (text, part) in [
            ("token.text", "begins with $"),
            ("", "character 1"),
            ("$.", "a name is needed at character 3"),
            ("$..text", "wildcard, at character 3"),
            ("$.a.*", "at character 5"),
            ("$.a[*]", "index from 0 on is needed at character 5"),
            ("$.a[-1]", "at character 5"),
            ("$.a[0", "a closing bracket is needed at character 6"),
            ("$.a['b", "a closing quote is needed at character 7"),
            ("$.ä b", "a step (.name, ['name'] or [0]) is needed at character 4"),
            ("$.0", "write an index as [0], at character 3"),
            ("$[99999999999999999999999]", "index"),
        ] {
            let got = text.parse::<JsonPath>().unwrap_err();
            assert!(got.contains(part), "{text}: {got}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_path_or_an_error(text in "\\$?[.\\[\\]'\"\\\\*a0-9é ]{0,12}") {
            if let Ok(path) = text.parse::<JsonPath>() {
                prop_assert_eq!(path.as_str(), text);
            }
        }
    }
}
