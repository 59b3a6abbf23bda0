//! The plan's `[server.template]` table: an endpoint that no built-in API describes.

mod body;

pub use body::{Body, Piece, Placeholder};

use super::extras::secret_in;
use super::json_path::JsonPath;
use goodput_core::endpoint::{Answer, Item};
use goodput_core::named_enum;
use goodput_core::secrets::{is_key, masked, query_holds_secret};
use http::HeaderValue;
use serde::{Deserialize, Serialize};

named_enum! {
    /// HTTP method of requests.
    #[derive(Default)]
    pub enum Method {
        /// The usual method.
        #[default]
        Post = "POST",
        /// For an endpoint that takes nothing else.
        Put = "PUT",
    }
}

named_enum! {
    /// How the events of a stream are separated.
    #[derive(Default)]
    pub enum StreamFormat {
        /// Server-sent events, with `data:` lines and a blank line.
        #[default]
        Sse = "sse",
        /// A JSON document in each line.
        Lines = "lines",
    }
}

/// The `[server.template]` table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "RawTemplate", into = "RawTemplate")]
pub struct Template {
    /// Path of the endpoint, with a leading slash and perhaps a query.
    pub path: String,
    /// HTTP method.
    pub method: Method,
    /// Content type of requests.
    pub content_type: String,
    /// Body of requests.
    pub body: Body,
    /// Format of streams.
    pub stream_format: StreamFormat,
    /// The text of an event or a document; `None` if the answer has results.
    pub text: Option<JsonPath>,
    /// Number of output tokens: so far, or the total.
    pub tokens: Option<JsonPath>,
    /// Number of input tokens.
    pub input_tokens: Option<JsonPath>,
    /// The finish reason.
    pub finish: Option<JsonPath>,
    /// The message of an error.
    pub error: JsonPath,
    /// Payload that ends a stream.
    pub done: Option<String>,
    /// The list of results, one for each item of a request.
    pub results: Option<JsonPath>,
}

impl Template {
    /// Returns what a request is answered with.
    pub fn answer(&self) -> Answer {
        match (&self.results, self.body.count(Placeholder::Query)) {
            (None, _) => Answer::Tokens,
            (Some(_), 0) => Answer::Items(Item::Text),
            (Some(_), _) => Answer::Items(Item::Document),
        }
    }

    /// Returns true if requests name the model.
    pub fn names_model(&self) -> bool {
        self.body.count(Placeholder::Model) > 0
    }

    /// Returns true if requests are JSON, so that text in them is escaped.
    pub fn is_json(&self) -> bool {
        let kind = self.content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        kind.ends_with("json")
    }

    /// Returns the problem of a path that no request can have.
    fn path_problem(&self) -> Option<String> {
        let path = &self.path;
        if !path.starts_with('/') {
            return Some(format!(
                "template.path {path:?} must begin with a slash, such as \"/generate_stream\""
            ));
        }
        if let Some(c) = path.chars().find(|c| c.is_control() || " #{}".contains(*c)) {
            return Some(format!(
                "template.path has the character {c:?}, which a path cannot contain: write it as %{:02X}, or leave it out; placeholders \
                 belong into template.body",
                u32::from(c)
            ));
        }
        let url = url::Url::parse(&format!("http://localhost{path}")).ok()?;
        query_holds_secret(&url, path).then(|| {
            "template.path seems to have a secret in its query: store it in an environment variable and write api-key-env = \
             \"ITS_NAME\"; goodput sends it as a bearer token"
                .into()
        })
    }

    /// Returns the problem of a combination of placeholders and paths.
    fn slots_problem(&self) -> Option<String> {
        use Placeholder as P;
        let has = |slot: P| self.body.count(slot) > 0;
        match (&self.text, &self.results) {
            (None, None) => {
                return Some(
                    "[server.template] needs text, the JSONPath of the text in an event (such as text = \"$.token.text\"); or results, that of a \
                     list with a result for each item of a request"
                        .into(),
                );
            }
            (Some(_), Some(_)) => {
                return Some(
                    "[server.template] takes only one of text (generated answers) and results (a result for each item)"
                        .into(),
                );
            }
            (Some(_), None) => {
                if let Some(slot) = [P::Texts, P::Query].into_iter().find(|slot| has(*slot)) {
                    return Some(format!(
                        "template.body has {{{{{}}}}}, which needs results, the JSONPath of the list of results, in place of text",
                        slot.name()
                    ));
                }
                if self.body.count(P::Prompt) + self.body.count(P::Messages) != 1 {
                    return Some(
                        "template.body needs exactly one {{prompt}} (a text, in quotes) or {{messages}} (a list of messages, without quotes)"
                            .into(),
                    );
                }
            }
            (None, Some(_)) => {
                if let Some(slot) = [P::Prompt, P::Messages, P::MaxTokens].into_iter().find(|slot| has(*slot))
                {
                    return Some(format!(
                        "template.body has {{{{{}}}}}, which needs text in place of results: with results, a request has {{{{texts}}}}",
                        slot.name()
                    ));
                }
                if self.body.count(P::Texts) != 1 {
                    return Some(
                        "template.body needs exactly one {{texts}}, without quotes, since results is set"
                            .into(),
                    );
                }
                let unused = [
                    ("tokens", self.tokens.is_some()),
                    ("finish", self.finish.is_some()),
                    ("done", self.done.is_some()),
                    ("stream-format", self.stream_format != StreamFormat::Sse),
                ];
                if let Some((key, _)) = unused.into_iter().find(|(_, set)| *set) {
                    return Some(format!(
                        "template.{key} has no effect with results, since such an answer is one document: leave it out"
                    ));
                }
            }
        }
        None
    }

    /// Returns the problem of a body that cannot be sent, or must not be written into a plan.
    fn body_problem(&self) -> Option<String> {
        let secret = |place: &str| {
            Some(format!(
                "template.{place} would put a secret into the plan: store it in an environment variable and write api-key-env = \
                 \"ITS_NAME\"; goodput sends it as a bearer token"
            ))
        };
        let text = self.body.as_str();
        if !self.is_json() {
            return if is_key(text) || masked(text) != text { secret("body") } else { None };
        }
        let example = match self.body.example() {
            Ok(example) => example,
            Err(problem) => {
                return Some(format!(
                    "template.body is not JSON after its placeholders are filled in: {problem}. Correct it, or set content-type if it is not to be \
                     JSON"
                ));
            }
        };
        let found = match example {
            serde_json::Value::Object(fields) => {
                fields.iter().find_map(|(name, value)| secret_in(name, name, &toml_of(value)))
            }
            other => secret_in("list", "list", &toml_of(&other)),
        };
        found.and_then(|place| secret(&format!("body.{place}")))
    }
}

/// Converts JSON to TOML, for the search for secrets; null becomes an empty text.
fn toml_of(value: &serde_json::Value) -> toml::Value {
    use serde_json::Value as V;
    match value {
        V::Null => toml::Value::String(String::new()),
        V::Bool(b) => toml::Value::Boolean(*b),
        V::Number(n) => n
            .as_i64()
            .map_or_else(|| toml::Value::Float(n.as_f64().unwrap_or_default()), toml::Value::Integer),
        V::String(s) => toml::Value::String(s.clone()),
        V::Array(all) => toml::Value::Array(all.iter().map(toml_of).collect()),
        V::Object(map) => toml::Value::Table(map.iter().map(|(k, v)| (k.clone(), toml_of(v))).collect()),
    }
}

/// The `[server.template]` table as written.
#[derive(Clone, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct RawTemplate {
    /// Path of the endpoint; it begins with a slash and may have a query.
    path: String,
    /// HTTP method; `"POST"` by default.
    #[serde(default, skip_serializing_if = "is_default")]
    method: Method,
    /// Content type of requests; `"application/json"` by default. The texts in a body of another type are not escaped.
    #[serde(default = "json", skip_serializing_if = "is_json")]
    content_type: String,
    /// Body of a request, with `{{prompt}}` or `{{messages}}` (or `{{texts}}` and `{{query}}` with `results`), and perhaps `{{model}}` and `{{max_tokens}}`.
    /// Secrets are refused.
    body: String,
    /// Separation of the events of a stream; `"sse"` by default.
    #[serde(default, skip_serializing_if = "is_default")]
    stream_format: StreamFormat,
    /// Place of the text in an event (in the document with `stream = false`). An event with a text that is not empty carries tokens.
    text: Option<JsonPath>,
    /// Place of the number of output tokens, running or total. Without it, tokens are counted by the tokenizer or estimated by events.
    tokens: Option<JsonPath>,
    /// Place of the number of input tokens.
    input_tokens: Option<JsonPath>,
    /// Place of the finish reason: a text, or `true`. An answer that has one is complete.
    finish: Option<JsonPath>,
    /// Place of an error; `"$.error"` by default.
    #[serde(default = "error", skip_serializing_if = "is_error")]
    error: JsonPath,
    /// Payload that ends a stream, such as `"[DONE]"`. If neither this nor `finish` is set, a stream is complete when its body ends.
    done: Option<String>,
    /// Place of the list of results (`"$"` for the whole document), in place of `text`: the request has items, `{{texts}}`, and each has a result.
    results: Option<JsonPath>,
}

const JSON: &str = "application/json";

fn json() -> String {
    JSON.into()
}

fn is_json(content_type: &str) -> bool {
    content_type == JSON
}

fn error() -> JsonPath {
    "$.error".parse().expect("a fixed path is one")
}

fn is_error(path: &JsonPath) -> bool {
    *path == error()
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl TryFrom<RawTemplate> for Template {
    type Error = String;
    fn try_from(r: RawTemplate) -> Result<Self, String> {
        let body = Body::parse(&r.body).map_err(|e| format!("template.body: {e}"))?;
        let template = Self {
            path: r.path,
            method: r.method,
            content_type: r.content_type,
            body,
            stream_format: r.stream_format,
            text: r.text,
            tokens: r.tokens,
            input_tokens: r.input_tokens,
            finish: r.finish,
            error: r.error,
            done: r.done,
            results: r.results,
        };
        if template.content_type.parse::<HeaderValue>().is_err() || template.content_type.is_empty() {
            return Err(
                "template.content-type is not the value of a header, such as \"application/json\"".into()
            );
        }
        if template.done.as_ref().is_some_and(|done| done.trim().is_empty()) {
            return Err(
                "template.done is empty: write the payload that ends a stream, or leave it out".into()
            );
        }
        let problem = template.path_problem().or_else(|| template.slots_problem());
        problem.or_else(|| template.body_problem()).map_or(Ok(template), Err)
    }
}

impl From<Template> for RawTemplate {
    fn from(t: Template) -> Self {
        Self {
            path: t.path,
            method: t.method,
            content_type: t.content_type,
            body: t.body.as_str().to_owned(),
            stream_format: t.stream_format,
            text: t.text,
            tokens: t.tokens,
            input_tokens: t.input_tokens,
            finish: t.finish,
            error: t.error,
            done: t.done,
            results: t.results,
        }
    }
}

#[cfg(test)]
mod tests;
