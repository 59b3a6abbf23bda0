//! AIPerf: `{"text": …}` (single_turn, random_pool) and `{"session_id": …, "turns": [{"text": …, "delay": ms}, …]}` (multi_turn).

use super::Parsed;
use crate::data::fields::{Fault, Object, find, kind, list, millis, name, text, tokens};
use crate::data::sample::TurnSample;
use crate::trace::shown;
use goodput_core::message::{Message, Role};
use serde_json::Value;

/// A row with `turns` is a part of a conversation, any other a prompt of its own: AIPerf sends single turns of one session without
/// the ones before.
pub(super) fn read(row: &Object) -> Result<Parsed, Fault> {
    match text(row, "type")?.as_deref() {
        None | Some("single_turn" | "multi_turn" | "random_pool") => {}
        Some(other) => {
            let say =
                "is none of single_turn, multi_turn, random_pool; a trace is replayed as workload.trace";
            return Err(Fault::field("type", format!("{} {say}", shown(other))));
        }
    }
    let Some(list) = list(row, "turns")? else {
        let Said::Turn(turn) = said(row)? else {
            return Err(Fault::field("role", "is system: a single turn needs a user's text"));
        };
        return Ok(Parsed::Turns(vec![turn], None));
    };
    let mut turns = Vec::with_capacity(list.len());
    let mut before = Vec::new();
    for (i, turn) in list.iter().enumerate() {
        let Value::Object(turn) = turn else {
            return Err(Fault::field(
                format!("turns[{i}]"),
                format!("is {}, an object is needed", kind(turn)),
            ));
        };
        let said = said(turn).map_err(|f| {
            let inner = f.field.map(|f| format!(".{f}")).unwrap_or_default();
            Fault::field(format!("turns[{i}]{inner}"), f.reason)
        })?;
        match said {
            Said::System(message) => before.push(message),
            Said::Turn(mut turn) => {
                turn.messages.splice(..0, before.drain(..));
                turns.push(turn);
            }
        }
    }
    if turns.is_empty() {
        return Err(Fault::field("turns", "holds no user's turn"));
    }
    Ok(Parsed::Turns(turns, name(row, "session_id")?))
}

enum Said {
    /// Goes before the next turn.
    System(Message),
    Turn(TurnSample),
}

fn said(turn: &Object) -> Result<Said, Fault> {
    let media = ["image", "images", "audio", "audios", "video", "videos"];
    if let Some(medium) = media.iter().find(|m| find(turn, m).is_some_and(|v| !is_empty(v))) {
        return Err(Fault::field(*medium, "cannot be sent: only text can"));
    }
    if find(turn, "extra").is_some_and(|v| !is_empty(v)) {
        return Err(Fault::field(
            "extra",
            "cannot differ by row: put such fields into server.body of the plan",
        ));
    }
    let content = content(turn)?;
    match text(turn, "role")?.as_deref() {
        None | Some("user") => Ok(Said::Turn(TurnSample {
            messages: vec![Message::user(content)],
            output_tokens: tokens(turn, "output_length")?,
            reference: None,
            delay: millis(turn, "delay")?,
        })),
        Some("system") => Ok(Said::System(Message { role: Role::System, content })),
        Some(other) => Err(Fault::field("role", format!("{} is none of user, system", shown(other)))),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(a) => a.is_empty(),
        Value::Object(o) => o.is_empty(),
        Value::String(s) => s.is_empty(),
        _ => false,
    }
}

/// `text`, or the `texts` of a batch: texts or `{ name, contents }`, each on lines of its own.
fn content(turn: &Object) -> Result<String, Fault> {
    let content = match (text(turn, "text")?, list(turn, "texts")?) {
        (Some(_), Some(_)) => return Err(Fault::field("texts", "stands beside text: only one can be sent")),
        (Some(text), None) => text,
        (None, None) => return Err(Fault::field("text", "is missing")),
        (None, Some(list)) => {
            let mut texts = Vec::new();
            for (i, entry) in list.iter().enumerate() {
                let wrong =
                    || Fault::field(format!("texts[{i}]"), "is neither a text nor { name, contents }");
                match entry {
                    Value::String(s) => texts.push(s.as_str()),
                    Value::Object(o) => {
                        let contents = o.get("contents").and_then(Value::as_array).ok_or_else(wrong)?;
                        for c in contents {
                            texts.push(c.as_str().ok_or_else(wrong)?);
                        }
                    }
                    _ => return Err(wrong()),
                }
            }
            texts.join("\n")
        }
    };
    if content.trim().is_empty() {
        return Err(Fault::field("text", "is empty"));
    }
    Ok(content)
}
