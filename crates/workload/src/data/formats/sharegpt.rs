//! ShareGPT: `{ "id": …, "conversations": [ { "from": "human", "value": "…" }, … ] }`.

use super::Parsed;
use crate::data::fields::{Object, RowError, kind, text};
use crate::data::sample::{TurnSample, turns};
use crate::trace::shown;
use goodput_core::message::{Message, Role};
use serde_json::Value;

/// Reads a conversation up to the first turn without a question or an answer. The public files have incomplete entries,
/// which begin with an answer, end with a question, or are empty; such parts are dropped, as other users of these files
/// do.
pub(super) fn read(row: &Object) -> Result<Parsed, RowError> {
    let list = match row.get("conversations") {
        Some(Value::Array(list)) => list,
        Some(other) => {
            return Err(RowError::field("conversations", format!("is {}, a list is needed", kind(other))));
        }
        None => return Err(RowError::field("conversations", "is missing")),
    };
    let mut messages = Vec::with_capacity(list.len());
    for (i, entry) in list.iter().enumerate() {
        messages.push(message(entry).map_err(|e| e.within(&format!("conversations[{i}]")))?);
    }
    let asked = messages.iter().position(|m| m.role == Role::User).unwrap_or(messages.len());
    let mut at = 0;
    messages.retain(|m| {
        at += 1;
        at > asked || m.role == Role::System
    });
    let is_complete = |t: &TurnSample| {
        let has_text = |s: &str| !s.trim().is_empty();
        t.messages.iter().all(|m| has_text(&m.content)) && t.reference.as_deref().is_some_and(has_text)
    };
    let turns: Vec<TurnSample> = turns(messages).into_iter().take_while(is_complete).collect();
    Ok(if turns.is_empty() { Parsed::Empty } else { Parsed::Turns(turns, None) })
}

fn message(entry: &Value) -> Result<Message, RowError> {
    let Value::Object(entry) = entry else {
        return Err(RowError::row(format!("is {}, an object is needed", kind(entry))));
    };
    let from = text(entry, "from")?.ok_or_else(|| RowError::field("from", "is missing"))?;
    let role = match from.as_str() {
        "human" | "user" => Role::User,
        "gpt" | "assistant" | "chatgpt" | "bing" | "bard" | "model" => Role::Assistant,
        "system" => Role::System,
        "tool" | "observation" => Role::Tool,
        _ => {
            return Err(RowError::field(
                "from",
                format!("{} is not human, gpt, user, assistant or system", shown(&from)),
            ));
        }
    };
    let content = text(entry, "value")?.ok_or_else(|| RowError::field("value", "is missing"))?;
    Ok(Message::new(role, content))
}
