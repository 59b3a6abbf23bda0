//! ShareGPT: `{ "id": …, "conversations": [ { "from": "human", "value": "…" }, … ] }`.

use super::Parsed;
use crate::data::fields::{Fault, Object, kind, text};
use crate::data::sample::{TurnSample, turns};
use crate::trace::shown;
use goodput_core::message::{Message, Role};
use serde_json::Value;

/// A conversation up to the first turn that lacks a question or an answer. The public files are cut in places: an entry may begin
/// with an answer, end with a question, or hold nothing; such parts are left away, as others do who use these files.
pub(super) fn read(row: &Object) -> Result<Parsed, Fault> {
    let list = match row.get("conversations") {
        Some(Value::Array(list)) => list,
        Some(other) => {
            return Err(Fault::field("conversations", format!("is {}, a list is needed", kind(other))));
        }
        None => return Err(Fault::field("conversations", "is missing")),
    };
    let mut messages = Vec::with_capacity(list.len());
    for (i, entry) in list.iter().enumerate() {
        messages.push(message(entry).map_err(|f| {
            let inner = f.field.map(|f| format!(".{f}")).unwrap_or_default();
            Fault::field(format!("conversations[{i}]{inner}"), f.reason)
        })?);
    }
    let asked = messages.iter().position(|m| m.role == Role::User).unwrap_or(messages.len());
    let mut at = 0;
    messages.retain(|m| {
        at += 1;
        at > asked || m.role == Role::System
    });
    let whole = |t: &TurnSample| {
        let said = |s: &str| !s.trim().is_empty();
        t.messages.iter().all(|m| said(&m.content)) && t.reference.as_deref().is_some_and(said)
    };
    let turns: Vec<TurnSample> = turns(messages).into_iter().take_while(whole).collect();
    Ok(if turns.is_empty() { Parsed::Nothing } else { Parsed::Turns(turns, None) })
}

fn message(entry: &Value) -> Result<Message, Fault> {
    let Value::Object(entry) = entry else {
        return Err(Fault::row(format!("is {}, an object is needed", kind(entry))));
    };
    let from = text(entry, "from")?.ok_or_else(|| Fault::field("from", "is missing"))?;
    let role = match from.as_str() {
        "human" | "user" => Role::User,
        "gpt" | "assistant" | "chatgpt" | "bing" | "bard" | "model" => Role::Assistant,
        "system" => Role::System,
        "tool" | "observation" => Role::Tool,
        _ => {
            return Err(Fault::field(
                "from",
                format!("{} is none of human, gpt, user, assistant, system", shown(&from)),
            ));
        }
    };
    let content = text(entry, "value")?.ok_or_else(|| Fault::field("value", "is missing"))?;
    Ok(Message { role, content })
}
