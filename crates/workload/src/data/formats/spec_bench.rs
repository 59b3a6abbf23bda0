//! Spec-Bench and MT-bench: `{ "question_id": …, "category": …, "turns": ["…", …] }`.

use super::Parsed;
use crate::data::fields::{Fault, Object, kind, list};
use crate::data::sample::TurnSample;
use goodput_core::message::Message;
use serde_json::Value;

/// Every turn is a user's message. Answers are in `reference` for some of the questions.
pub(super) fn read(row: &Object) -> Result<Parsed, Fault> {
    let Some(asked) = list(row, "turns")? else { return Err(Fault::field("turns", "is missing")) };
    let answers = match row.get("reference") {
        Some(Value::Array(answers)) => answers.as_slice(),
        _ => &[],
    };
    let mut turns = Vec::with_capacity(asked.len());
    for (i, turn) in asked.iter().enumerate() {
        let field = || format!("turns[{i}]");
        let Value::String(text) = turn else {
            return Err(Fault::field(field(), format!("is {}, a text is needed", kind(turn))));
        };
        if text.trim().is_empty() {
            return Err(Fault::field(field(), "is empty"));
        }
        turns.push(TurnSample {
            messages: vec![Message::user(text)],
            reference: answers.get(i).and_then(Value::as_str).map(str::to_owned),
            ..TurnSample::default()
        });
    }
    if turns.is_empty() {
        return Err(Fault::field("turns", "is empty"));
    }
    Ok(Parsed::Turns(turns, None))
}
