//! Extra headers and body fields that a plan adds to every request, without secrets and without what goodput sets itself.

use goodput_core::record::MOST_CHOICES;
use goodput_core::secrets::{is_key, is_named, is_secret, is_secret_header, masked, normalized};
use http::{HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::num::NonZeroU8;

/// Extra request headers. None is a secret, and none belongs to the transport.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "BTreeMap<String, String>", into = "BTreeMap<String, String>")]
pub struct Headers(BTreeMap<String, String>);

impl Headers {
    /// Iterates over names and values.
    pub fn iter(&self) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
        self.0.iter().filter_map(|(n, v)| Some((n.parse().ok()?, v.parse().ok()?)))
    }

    /// Returns true if there are no headers.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl TryFrom<BTreeMap<String, String>> for Headers {
    type Error = String;
    fn try_from(map: BTreeMap<String, String>) -> Result<Self, String> {
        for (name, value) in &map {
            let lower = name.to_ascii_lowercase();
            if is_secret_header(name) {
                return Err(format!(
                    "headers.{name} would put a secret into the plan: store it in an environment variable and write \
                     api-key-env = \"ITS_NAME\", or in a file and write api-key-file = \"ITS_PATH\"; goodput sends it as \
                     `authorization: Bearer …`"
                ));
            }
            if is_key(value) || masked(value) != *value {
                return Err(format!(
                    "headers.{name} seems to contain a key, a token or a password, which would end up in files: store it in an \
                     environment variable and write api-key-env = \"ITS_NAME\""
                ));
            }
            let transport =
                ["accept-encoding", "connection", "content-length", "content-type", "transfer-encoding"];
            if transport.contains(&lower.as_str()) {
                return Err(format!("headers.{name} is set by goodput itself: leave it out"));
            }
            if name.parse::<HeaderName>().is_err() {
                return Err(format!("headers: \"{name}\" is not a valid name of an HTTP header"));
            }
            if value.parse::<HeaderValue>().is_err() {
                return Err(format!(
                    "headers.{name} has characters that an HTTP header cannot contain: remove them"
                ));
            }
        }
        Ok(Self(map))
    }
}

impl From<Headers> for BTreeMap<String, String> {
    fn from(h: Headers) -> Self {
        h.0
    }
}

/// Extra fields of the request body. They override the fields that goodput writes, except those that it refuses, such as `messages`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "toml::Table", into = "toml::Table")]
pub struct ExtraBody(toml::Table);

impl ExtraBody {
    /// Returns the fields as JSON.
    pub fn json(&self) -> serde_json::Map<String, serde_json::Value> {
        // Drops nothing: parsing has refused values that JSON does not have.
        self.0.iter().filter_map(|(k, v)| Some((k.clone(), json(v)?))).collect()
    }

    /// Returns the number of choices that a request asks for (`n`).
    pub fn choices(&self) -> NonZeroU8 {
        choices_asked(&self.0)
    }

    /// Returns true if there is a field of this name.
    pub fn names(&self, field: &str) -> bool {
        self.0.contains_key(field)
    }

    /// Adds the fields of another body, which take precedence.
    pub fn merge(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Returns true if there are no fields.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Returns the number of choices that the field `n` asks for; `None` if it is no number, or out of range.
fn choices_of(value: &toml::Value) -> Option<NonZeroU8> {
    let n = u8::try_from(value.as_integer()?).ok().and_then(NonZeroU8::new)?;
    (n.get() <= MOST_CHOICES).then_some(n)
}

/// Returns the number of choices that a body asks for: one if it does not say.
pub fn choices_asked(body: &toml::Table) -> NonZeroU8 {
    body.get("n").and_then(choices_of).unwrap_or(NonZeroU8::MIN)
}

/// Returns the path of the first secret in a field of the body, known by its name or the form of its value; `at` is the path of the field. A table
/// with the name of a secret is not one by itself: it may be the JSON schema of an answer.
pub(super) fn secret_in(at: &str, name: &str, value: &toml::Value) -> Option<String> {
    let top = at == name;
    let of = |(key, value): (&String, &toml::Value)| secret_in(&format!("{at}.{key}"), key, value);
    match value {
        _ if top && is_secret(name) => Some(at.to_owned()),
        toml::Value::Table(table) => table.iter().find_map(of),
        toml::Value::Array(all) => all.iter().find_map(|value| secret_in(at, name, value)),
        toml::Value::String(text) => {
            // `prompt_cache_key` is not a secret.
            let other = if top { "key" } else { "cachekey" };
            let named = is_named(name) && (name == "key" || !normalized(name).ends_with(other));
            (((named || is_secret(name)) && !text.is_empty()) || is_key(text)).then(|| at.to_owned())
        }
        toml::Value::Integer(_) | toml::Value::Float(_) if is_secret(name) => Some(at.to_owned()),
        _ => None,
    }
}

/// Converts a value to JSON. `None` for dates, infinities and NaN, which JSON does not have.
fn json(value: &toml::Value) -> Option<serde_json::Value> {
    Some(match value {
        toml::Value::String(s) => s.as_str().into(),
        toml::Value::Integer(i) => (*i).into(),
        toml::Value::Float(x) => serde_json::Number::from_f64(*x)?.into(),
        toml::Value::Boolean(b) => (*b).into(),
        toml::Value::Datetime(_) => return None,
        toml::Value::Array(a) => a.iter().map(json).collect::<Option<Vec<_>>>()?.into(),
        toml::Value::Table(t) => {
            let fields: Option<serde_json::Map<_, _>> =
                t.iter().map(|(k, v)| Some((k.clone(), json(v)?))).collect();
            fields?.into()
        }
    })
}

impl TryFrom<toml::Table> for ExtraBody {
    type Error = String;
    fn try_from(table: toml::Table) -> Result<Self, String> {
        for (name, value) in &table {
            match name.as_str() {
                "stream" => {
                    return Err("body.stream is written by goodput itself: leave it out, and write stream = false in [server] for \
                                answers in one piece"
                        .into());
                }
                "messages" | "prompt" | "input" => {
                    return Err(format!("body.{name} is written by goodput itself: leave it out"));
                }
                "model" => return Err("body.model: write server.model = \"…\" instead".into()),
                "n" if choices_of(value).is_none() => {
                    return Err(format!(
                        "body.n = {value}: write a number of choices from 1 to {MOST_CHOICES}, or leave it out for one"
                    ));
                }
                // The server would generate more answers than it sends, and wait for all of them before the first token.
                "best_of" if value.as_integer() != Some(1) => {
                    return Err(
                        "body.best_of: such answers cannot be streamed, and the server does not count those that it drops; leave it out, \
                         or write n for several choices"
                            .into(),
                    );
                }
                "echo" if value.as_bool() != Some(false) => {
                    return Err(
                        "body.echo would make the prompt look like the first token: leave it out".into()
                    );
                }
                _ if let Some(place) = secret_in(name, name, value) => {
                    return Err(format!(
                        "body.{place} would put a secret into the plan: store it in an environment variable and write \
                         api-key-env = \"ITS_NAME\"; goodput sends it as a bearer token"
                    ));
                }
                _ if json(value).is_none() => {
                    return Err(format!(
                        "body.{name} has a date, an infinity or a NaN, which JSON does not have: write a number or a string"
                    ));
                }
                _ => {}
            }
        }
        Ok(Self(table))
    }
}

impl From<ExtraBody> for toml::Table {
    fn from(b: ExtraBody) -> Self {
        b.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(text: &str) -> Result<Headers, String> {
        toml::from_str(text).map_err(|e| e.message().to_owned())
    }

    fn body(text: &str) -> Result<ExtraBody, String> {
        toml::from_str(text).map_err(|e| e.message().to_owned())
    }

    /// Cases: fields of the body, and the path that the error names.
    #[test]
    fn secrets_in_the_body_are_refused_at_any_depth() {
        for (text, place) in [
            ("api_key = \"x\"", "body.api_key "),
            ("auth_token = \"x\"", "body.auth_token "),
            ("extra_body = { api_key = \"hunter2\" }", "body.extra_body.api_key "),
            ("headers = { Authorization = \"hunter2\" }", "body.headers.Authorization "),
            ("a = [{ b = [{ token = \"hunter2\" }] }]", "body.a.b.token "),
            ("a = { password = 1234 }", "body.a.password "),
            ("a = [\"x\", \"sk-hunter2hunter2\"]", "body.a "),
            ("a = { b = \"Bearer hunter2\" }", "body.a.b "),
        ] {
            let error = body(text).unwrap_err();
            assert!(error.starts_with(place) && !error.contains("hunter2"), "{text}: {error}");
        }
        for text in [
            "prompt_cache_key = \"x\"\nmax_tokens = 9\nstop = [\"</s>\"]\nignore_eos = true\nadd_bos_token = true",
            "extra_body = { prompt_cache_key = \"x\", eos_token = \"</s>\", min_tokens = 3 }",
            "guided_json = { properties = { password = { type = \"string\" } }, required = [\"password\"] }",
            "chat_template = \"{{ bos_token }} the bearer of news, token by token\"",
        ] {
            assert!(body(text).is_ok(), "{text}: {:?}", body(text));
        }
    }

    #[test]
    fn secrets_in_header_values_are_refused() {
        for value in [
            "Bearer hunter2",
            "Basic aHVudGVyMg==",
            "sk-hunter2hunter2",
            "a=1&token=hunter2",
            "http://u:hunter2@h",
        ] {
            let error = headers(&format!("x-foo = {value:?}")).unwrap_err();
            assert!(
                error.starts_with("headers.x-foo seems to contain") && !error.contains("hunter2"),
                "{error}"
            );
        }
        for value in [
            "serving",
            "a=1, b=2",
            "text/plain; q=0.5",
            "http://h/x?a=1",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-01",
        ] {
            assert!(headers(&format!("x-foo = {value:?}")).is_ok(), "{value}");
        }
    }
}
