//! AIPerf: `{"text": …}` (single_turn, random_pool) and `{"session_id": …, "turns": [{"text": …, "delay": ms}, …]}` (multi_turn).

use super::Parsed;
use crate::data::fields::{Object, RowError, find, kind, list, millis, name, text, tokens};
use crate::data::sample::TurnSample;
use crate::trace::shown;
use goodput_core::message::Message;
use serde_json::Value;

/// Reads a row. With `turns` it is a part of a conversation; any other row is a separate prompt, since AIPerf sends
/// single turns of one session without the earlier ones.
pub(super) fn read(row: &Object) -> Result<Parsed, RowError> {
    match text(row, "type")?.as_deref() {
        None | Some("single_turn" | "multi_turn" | "random_pool") => {}
        Some(other) => {
            let problem = "is not single_turn, multi_turn or random_pool; replay a trace with workload.trace";
            return Err(RowError::field("type", format!("{} {problem}", shown(other))));
        }
    }
    let Some(list) = list(row, "turns")? else {
        let ParsedTurn::Turn(turn) = parse_turn(row)? else {
            return Err(RowError::field("role", "is system: a single turn needs a user's text"));
        };
        return Ok(Parsed::Turns(vec![turn], None));
    };
    let mut turns = Vec::with_capacity(list.len());
    let mut system = Vec::new();
    for (i, turn) in list.iter().enumerate() {
        let Value::Object(turn) = turn else {
            return Err(RowError::field(
                format!("turns[{i}]"),
                format!("is {}, an object is needed", kind(turn)),
            ));
        };
        let parsed = parse_turn(turn).map_err(|e| e.within(&format!("turns[{i}]")))?;
        match parsed {
            ParsedTurn::System(message) => system.push(message),
            ParsedTurn::Turn(mut turn) => {
                turn.messages.splice(..0, system.drain(..));
                turns.push(turn);
            }
        }
    }
    if turns.is_empty() {
        return Err(RowError::field("turns", "has no turn of a user"));
    }
    Ok(Parsed::Turns(turns, name(row, "session_id")?))
}

enum ParsedTurn {
    /// A system message, which belongs to the next turn.
    System(Message),
    Turn(TurnSample),
}

fn parse_turn(turn: &Object) -> Result<ParsedTurn, RowError> {
    let media = ["image", "images", "audio", "audios", "video", "videos"];
    if let Some(medium) = media.iter().find(|m| find(turn, m).is_some_and(|v| !is_empty(v))) {
        return Err(RowError::field(*medium, "cannot be sent: only text can"));
    }
    if find(turn, "extra").is_some_and(|v| !is_empty(v)) {
        return Err(RowError::field(
            "extra",
            "cannot differ by row: put such fields into server.body of the plan",
        ));
    }
    let content = content(turn)?;
    match text(turn, "role")?.as_deref() {
        None | Some("user") => Ok(ParsedTurn::Turn(TurnSample {
            messages: vec![Message::user(content)],
            output_tokens: tokens(turn, "output_length")?,
            reference: None,
            delay: millis(turn, "delay")?,
        })),
        Some("system") => Ok(ParsedTurn::System(Message::system(content))),
        Some(other) => Err(RowError::field("role", format!("{} is not user or system", shown(other)))),
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

/// Returns `text`, or the joined lines of `texts`, a list of texts or `{ name, contents }`.
fn content(turn: &Object) -> Result<String, RowError> {
    let content = match (text(turn, "text")?, list(turn, "texts")?) {
        (Some(_), Some(_)) => return Err(RowError::field("texts", "cannot be sent together with text")),
        (Some(text), None) => text,
        (None, None) => return Err(RowError::field("text", "is missing")),
        (None, Some(list)) => {
            let mut texts = Vec::new();
            for (i, entry) in list.iter().enumerate() {
                let wrong =
                    || RowError::field(format!("texts[{i}]"), "is neither a text nor { name, contents }");
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
        return Err(RowError::field("text", "is empty"));
    }
    Ok(content)
}
