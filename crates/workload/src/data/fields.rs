//! Typed access to the fields of a row, with errors that name the field.

use super::calls::CallIds;
use crate::trace::shown;
use goodput_core::message::{Message, Role, Tools};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::time::Duration;

/// Longest reason kept, in characters; it may quote data.
const MAX_REASON_CHARS: usize = 600;

/// An error in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RowError {
    /// Line relative to the row's first.
    pub(super) line: u64,
    /// Byte in that line, from 1, for syntax errors.
    pub(super) column: Option<u64>,
    /// Field with an invalid value.
    pub(super) field: Option<String>,
    pub(super) reason: String,
}

impl RowError {
    pub(super) fn row(reason: impl Into<String>) -> Self {
        Self { line: 0, column: None, field: None, reason: truncated(reason.into()) }
    }

    pub(super) fn field(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { field: Some(field.into()), ..Self::row(reason) }
    }

    /// Returns the error with the path of the object that contains the field.
    pub(super) fn within(self, path: &str) -> Self {
        let field = self.field.map_or_else(|| path.to_owned(), |field| format!("{path}.{field}"));
        Self::field(field, self.reason)
    }

    pub(super) fn json(e: &serde_json::Error) -> Self {
        // serde_json appends the position, which counts from the row and is reported separately.
        let text = e.to_string();
        let reason = text.split(" at line ").next().unwrap_or(&text);
        Self {
            line: (e.line() as u64).saturating_sub(1),
            column: Some(e.column() as u64),
            field: None,
            reason: truncated(format!("invalid JSON: {reason}")),
        }
    }
}

/// A JSON object.
pub(super) type Object = Map<String, Value>;

/// Returns the value of a field: by its literal name, else along its dots, where a number is an index from 0. `None`
/// for `null` and empty cells.
pub(super) fn find<'a>(row: &'a Object, name: &str) -> Option<&'a Value> {
    let value = row.get(name).or_else(|| {
        let mut path = name.split('.');
        let first = row.get(path.next()?)?;
        path.try_fold(first, |value, key| match value {
            Value::Object(o) => o.get(key),
            Value::Array(a) => a.get(key.parse::<usize>().ok()?),
            _ => None,
        })
    });
    value.filter(|v| !v.is_null())
}

/// Returns a text field, if present.
pub(super) fn text(row: &Object, name: &str) -> Result<Option<String>, RowError> {
    match find(row, name) {
        None => Ok(None),
        Some(Value::String(s)) => Ok(Some(s.clone())),
        Some(other) => Err(RowError::field(name, format!("is {}, a text is needed", kind(other)))),
    }
}

/// Returns a text or number that identifies something, as text.
pub(super) fn name(row: &Object, field: &str) -> Result<Option<String>, RowError> {
    match find(row, field) {
        Some(Value::Number(n)) => Ok(Some(n.to_string())),
        _ => text(row, field),
    }
}

/// Returns a number of tokens, at least 1; accepts text, for CSV.
pub(super) fn tokens(row: &Object, name: &str) -> Result<Option<u32>, RowError> {
    let Some(x) = number(row, name)? else { return Ok(None) };
    if x.fract() == 0.0 && (1.0..=f64::from(u32::MAX)).contains(&x) {
        Ok(Some(x as u32))
    } else {
        Err(RowError::field(name, format!("is {x}, a whole number of at least 1 token is needed")))
    }
}

/// Returns a duration given in milliseconds.
pub(super) fn millis(row: &Object, name: &str) -> Result<Option<Duration>, RowError> {
    let Some(x) = number(row, name)? else { return Ok(None) };
    Duration::try_from_secs_f64(x / 1e3)
        .map(Some)
        .map_err(|_| RowError::field(name, format!("is {x}, milliseconds of at least 0 are needed")))
}

fn number(row: &Object, name: &str) -> Result<Option<f64>, RowError> {
    let wrong = |value: &Value| RowError::field(name, format!("is {}, a number is needed", kind(value)));
    match find(row, name) {
        None => Ok(None),
        Some(v @ Value::Number(n)) => n.as_f64().ok_or_else(|| wrong(v)).map(Some),
        Some(Value::String(s)) if s.trim().is_empty() => Ok(None),
        Some(v @ Value::String(s)) => s.trim().parse().map_err(|_| wrong(v)).map(Some),
        Some(v) => Err(wrong(v)),
    }
}

/// Returns a list, if present; a text is parsed as JSON, for CSV.
pub(super) fn list<'a>(row: &'a Object, name: &str) -> Result<Option<Cow<'a, [Value]>>, RowError> {
    match find(row, name) {
        None => Ok(None),
        Some(Value::Array(a)) => Ok(Some(Cow::Borrowed(a))),
        Some(Value::String(s)) if s.trim_start().starts_with('[') => serde_json::from_str(s)
            .map(|list| Some(Cow::Owned(list)))
            .map_err(|e| RowError { line: 0, column: None, field: Some(name.into()), ..RowError::json(&e) }),
        Some(other) => Err(RowError::field(name, format!("is {}, a list is needed", kind(other)))),
    }
}

/// Describes a value for a message.
pub(super) fn kind(value: &Value) -> Cow<'static, str> {
    match value {
        Value::Null => "null".into(),
        Value::Bool(b) => b.to_string().into(),
        Value::Number(n) => n.to_string().into(),
        Value::String(s) if s.chars().count() <= 20 => format!("{s:?}").into(),
        Value::String(_) => "a text".into(),
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
    }
}

/// Parses chat messages in the format of the OpenAI API; accepts only text and calls of tools.
pub(super) fn messages(list: &[Value], name: &str) -> Result<Vec<Message>, RowError> {
    let mut all = Vec::with_capacity(list.len());
    let mut ids = CallIds::default();
    for (i, value) in list.iter().enumerate() {
        let at = |part: &str| format!("{name}[{i}]{part}");
        let Value::Object(m) = value else {
            return Err(RowError::field(at(""), format!("is {}, a message is needed", kind(value))));
        };
        let role = match m.get("role") {
            Some(Value::String(role)) => role_of(role).ok_or_else(|| {
                RowError::field(
                    at(".role"),
                    format!("{} is not system, user, assistant or tool", shown(role)),
                )
            })?,
            _ => return Err(RowError::field(at(".role"), "is missing")),
        };
        let tools = ids.tools(m, role, i).map_err(|e| e.within(&at("")))?;
        let content = match m.get("content") {
            Some(Value::String(s)) => s.clone(),
            Some(Value::Array(parts)) => parts_text(parts, &at(".content"))?,
            None | Some(Value::Null) if matches!(tools, Some(Tools::Calls(_))) => String::new(),
            None | Some(Value::Null) => return Err(RowError::field(at(".content"), "is missing")),
            Some(other) => {
                return Err(RowError::field(at(".content"), format!("is {}, a text is needed", kind(other))));
            }
        };
        if content.trim().is_empty() && role == Role::User {
            return Err(RowError::field(at(".content"), "is empty"));
        }
        all.push(Message { tools: tools.map(Box::new), ..Message::new(role, content) });
    }
    Ok(all)
}

fn parts_text(parts: &[Value], name: &str) -> Result<String, RowError> {
    let texts: Result<Vec<&str>, RowError> = parts
        .iter()
        .enumerate()
        .map(|(i, part)| {
            let text = part.get("text").and_then(Value::as_str);
            text.ok_or_else(|| {
                let kind = part.get("type").and_then(Value::as_str).unwrap_or("unknown");
                RowError::field(format!("{name}[{i}]"), format!("is of type {kind}: only text can be sent"))
            })
        })
        .collect();
    Ok(texts?.join("\n"))
}

/// Truncates a long reason.
fn truncated(mut reason: String) -> String {
    if let Some((end, _)) = reason.char_indices().nth(MAX_REASON_CHARS) {
        reason.truncate(end);
        reason.push('…');
    }
    reason
}

fn role_of(name: &str) -> Option<Role> {
    Some(match name {
        "system" | "developer" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" | "function" => Role::Tool,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> Object {
        let Value::Object(o) = value else { panic!("an object") };
        o
    }

    #[test]
    fn long_reasons_are_truncated() {
        let long = "r".repeat(1 << 20);
        let error = messages(&[json!({ "role": long, "content": "x" })], "m").unwrap_err();
        let ends = error.reason.ends_with("r\"… is not system, user, assistant or tool");
        assert!(ends && error.reason.len() < 100, "{}", error.reason);
        assert_eq!(RowError::row(long).reason.chars().count(), MAX_REASON_CHARS + 1);
    }

    #[test]
    fn literal_names_precede_dotted_paths() {
        let row = object(json!({ "a.b": 1, "a": { "b": 2, "c": [{ "d": 3 }], "n": null }, "s": "x" }));
        for (name, expected) in [
            ("a.b", Some(json!(1))),
            ("a.c.0.d", Some(json!(3))),
            ("a.c.1.d", None),
            ("a.n", None),
            ("s.x", None),
            ("none", None),
        ] {
            assert_eq!(find(&row, name), expected.as_ref(), "{name}");
        }
    }

    #[test]
    fn numbers_may_be_text() {
        let row = object(
            json!({ "n": 7, "f": 7.0, "s": " 8 ", "e": "", "z": 0, "h": 1.5, "x": "many", "b": true }),
        );
        for (name, expected) in [("n", Some(7)), ("f", Some(7)), ("s", Some(8)), ("e", None), ("none", None)]
        {
            assert_eq!(tokens(&row, name).unwrap(), expected, "{name}");
        }
        for (name, message) in [
            ("z", "is 0, a whole number"),
            ("h", "is 1.5, a whole number"),
            ("x", "is \"many\", a number is needed"),
            ("b", "is true, a number is needed"),
        ] {
            let error = tokens(&row, name).unwrap_err();
            assert!(error.reason.contains(message) && error.field.as_deref() == Some(name), "{error:?}");
        }
        assert_eq!(millis(&row, "h").unwrap(), Some(Duration::from_micros(1500)));
        assert!(millis(&object(json!({ "d": -1 })), "d").is_err());
    }

    /// Cases: messages, and the error; empty if they are valid.
    #[test]
    fn messages_must_be_text() {
        for (list, message) in [
            (json!([{ "role": "user", "content": "Hi" }]), ""),
            (
                json!([{ "role": "developer", "content": [{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }] }]),
                "",
            ),
            (json!(["Hi"]), "messages[0]: is \"Hi\", a message is needed"),
            (json!([{ "content": "Hi" }]), "messages[0].role: is missing"),
            (json!([{ "role": "narrator", "content": "Hi" }]), "messages[0].role: \"narrator\" is not"),
            (
                json!([{ "role": "user", "content": "a" }, { "role": "user" }]),
                "messages[1].content: is missing",
            ),
            (json!([{ "role": "user", "content": " " }]), "messages[0].content: is empty"),
            (json!([{ "role": "user", "content": 3 }]), "messages[0].content: is 3, a text"),
            (
                json!([{ "role": "user", "content": [{ "type": "image_url" }] }]),
                "messages[0].content[0]: is of type image_url",
            ),
            (
                json!([{ "role": "assistant", "content": null, "tool_calls": [{ "id": "x" }] }]),
                "messages[0].tool_calls[0].function: is missing",
            ),
            (json!([{ "role": "assistant", "tool_calls": [{ "function": { "name": "f" } }] }]), ""),
        ] {
            let got = messages(list.as_array().unwrap(), "messages");
            let got = got
                .err()
                .map(|f| format!("{}: {}", f.field.unwrap_or_default(), f.reason))
                .unwrap_or_default();
            assert!(got.starts_with(message) && got.is_empty() == message.is_empty(), "{list}: {got}");
        }
    }
}
