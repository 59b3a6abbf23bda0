//! Calls of tools in recorded messages, in the format of the OpenAI API and as data sets shorten it.

use super::fields::{Object, RowError, kind, name};
use goodput_core::message::{Role, ToolCall, Tools};
use serde_json::Value;
use std::collections::VecDeque;

/// The ids of calls whose output has not come yet, so that outputs without an id belong to them in order.
#[derive(Debug, Default)]
pub(super) struct CallIds(VecDeque<String>);

impl CallIds {
    /// Reads the part of a message, the `at`-th of its list, in calls of tools.
    pub(super) fn tools(
        &mut self,
        message: &Object,
        role: Role,
        at: usize,
    ) -> Result<Option<Tools>, RowError> {
        let calls = calls(message, at)?;
        match role {
            Role::Assistant => {
                self.0 = calls.iter().map(|call| call.id.clone()).collect();
                Ok(Some(calls).filter(|calls| !calls.is_empty()).map(Tools::Calls))
            }
            _ if !calls.is_empty() => Err(RowError::field(
                "tool_calls",
                format!("are of the role {}, only assistants call tools", role.name()),
            )),
            Role::Tool => {
                let id = name(message, "tool_call_id")?;
                if let Some(id) = &id {
                    self.0.retain(|open| open != id);
                }
                Ok(id.or_else(|| self.0.pop_front()).map(Tools::OutputOf))
            }
            Role::System | Role::User => Ok(None),
        }
    }
}

/// Reads the calls of a message: a list, or the one that was the only one in older recordings.
fn calls(message: &Object, at: usize) -> Result<Vec<ToolCall>, RowError> {
    let list = match (message.get("tool_calls"), message.get("function_call")) {
        (Some(Value::Array(list)), _) => list.as_slice(),
        (None | Some(Value::Null), None | Some(Value::Null)) => &[],
        (None | Some(Value::Null), Some(function)) => {
            return Ok(vec![call(function, "function_call", format!("call-{at}-0"))?]);
        }
        (Some(other), _) => {
            return Err(RowError::field("tool_calls", format!("is {}, a list is needed", kind(other))));
        }
    };
    let of = |(k, value): (usize, &Value)| {
        let place = format!("tool_calls[{k}]");
        let Value::Object(entry) = value else {
            return Err(RowError::field(place, format!("is {}, a call is needed", kind(value))));
        };
        let id = name(entry, "id").map_err(|e| e.within(&place))?;
        let id = id.unwrap_or_else(|| format!("call-{at}-{k}"));
        match entry.get("function") {
            Some(function) => call(function, &format!("{place}.function"), id),
            // Without a table of its own, the function is the call.
            None if entry.contains_key("name") => call(value, &place, id),
            None => Err(RowError::field(format!("{place}.function"), "is missing")),
        }
    };
    list.iter().enumerate().map(of).collect()
}

/// Reads the name and the arguments of a call.
fn call(function: &Value, place: &str, id: String) -> Result<ToolCall, RowError> {
    let Some(called) = function.get("name").and_then(Value::as_str).filter(|name| !name.is_empty()) else {
        return Err(RowError::field(format!("{place}.name"), "is missing"));
    };
    let wrong = |what: &str| {
        RowError::field(format!("{place}.arguments"), format!("{what}, a JSON object or its text is needed"))
    };
    let arguments = match function.get("arguments") {
        None | Some(Value::Null) => "{}".to_owned(),
        Some(Value::String(text)) if text.trim().is_empty() => "{}".to_owned(),
        Some(Value::String(text)) => match serde_json::from_str::<Object>(text) {
            Ok(_) => text.clone(),
            Err(_) => return Err(wrong("is another text")),
        },
        Some(value @ Value::Object(_)) => value.to_string(),
        Some(other) => return Err(wrong(&format!("is {}", kind(other)))),
    };
    Ok(ToolCall { id, name: called.to_owned(), arguments })
}

#[cfg(test)]
mod tests {
    use crate::data::fields::messages;
    use goodput_core::message::{Message, Tools};
    use serde_json::{Value, json};

    fn read(list: Value) -> Result<Vec<Message>, String> {
        messages(list.as_array().unwrap(), "m")
            .map_err(|e| format!("{}: {}", e.field.unwrap_or_default(), e.reason))
    }

    /// Returns the calls as `id:name(arguments)`, and outputs as `>id`.
    fn shown(list: Value) -> String {
        let shown = |message: Message| match message.tools.map(|tools| *tools) {
            None => "-".to_owned(),
            Some(Tools::OutputOf(id)) => format!(">{id}"),
            Some(Tools::Calls(calls)) => {
                let of = |c: goodput_core::message::ToolCall| format!("{}:{}({})", c.id, c.name, c.arguments);
                calls.into_iter().map(of).collect::<Vec<_>>().join("+")
            }
        };
        read(list).unwrap().into_iter().map(shown).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn calls_and_outputs_find_one_another() {
        let output = |id: Value| json!({ "role": "tool", "tool_call_id": id, "content": "x" });
        for (list, expected) in [
            (
                json!([
                    { "role": "assistant", "content": null, "tool_calls": [
                        { "id": "a", "type": "function", "function": { "name": "f", "arguments": "{\"x\": 1}" } },
                        { "id": "b", "type": "function", "function": { "name": "g", "arguments": "" } },
                    ] },
                    output(json!("b")), output(json!("a")),
                ]),
                "a:f({\"x\": 1})+b:g({}) >b >a",
            ),
            // Without ids, and with arguments as an object.
            (
                json!([
                    { "role": "user", "content": "q" },
                    { "role": "assistant", "content": "I look.", "tool_calls": [
                        { "name": "f", "arguments": { "x": 1 } }, { "name": "g" },
                    ] },
                    output(Value::Null), output(Value::Null), output(Value::Null),
                ]),
                "- call-1-0:f({\"x\":1})+call-1-1:g({}) >call-1-0 >call-1-1 -",
            ),
            // As before there were lists.
            (
                json!([
                    { "role": "assistant", "content": null, "function_call": { "name": "f", "arguments": "{}" } },
                    { "role": "function", "name": "f", "content": "x" },
                ]),
                "call-0-0:f({}) >call-0-0",
            ),
            (json!([{ "role": "assistant", "content": "a", "tool_calls": [] }, output(json!(7))]), "- >7"),
        ] {
            assert_eq!(shown(list.clone()), expected, "{list}");
        }
    }

    #[test]
    fn what_cannot_be_sent_is_named() {
        let calls = |calls: Value| json!([{ "role": "assistant", "content": "", "tool_calls": calls }]);
        for (list, expected) in [
            (calls(json!("f")), "m[0].tool_calls: is \"f\", a list"),
            (calls(json!(["f"])), "m[0].tool_calls[0]: is \"f\", a call"),
            (calls(json!([{ "id": "a" }])), "m[0].tool_calls[0].function: is missing"),
            (calls(json!([{ "id": "a", "function": {} }])), "m[0].tool_calls[0].function.name: is missing"),
            (
                calls(json!([{ "function": { "name": "f", "arguments": "x=1" } }])),
                "m[0].tool_calls[0].function.arguments: is another text",
            ),
            (
                calls(json!([{ "function": { "name": "f", "arguments": [1] } }])),
                "m[0].tool_calls[0].function.arguments: is a list",
            ),
            (
                json!([{ "role": "user", "content": "q", "tool_calls": [{ "name": "f" }] }]),
                "m[0].tool_calls: are of the role user",
            ),
        ] {
            let error = read(list.clone()).unwrap_err();
            assert!(error.starts_with(expected), "{list}: {error}");
        }
    }
}
