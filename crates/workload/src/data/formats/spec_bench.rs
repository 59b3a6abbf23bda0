//! Spec-Bench and MT-bench: `{ "question_id": …, "category": …, "turns": ["…", …] }`.

use super::Parsed;
use crate::data::fields::{Object, RowError, kind, list};
use crate::data::sample::TurnSample;
use goodput_core::message::Message;
use serde_json::Value;

/// Reads a row; every turn is a user's message. Some questions have answers in `reference`.
pub(super) fn read(row: &Object) -> Result<Parsed, RowError> {
    let Some(questions) = list(row, "turns")? else { return Err(RowError::field("turns", "is missing")) };
    let answers = match row.get("reference") {
        Some(Value::Array(answers)) => answers.as_slice(),
        _ => &[],
    };
    let mut turns = Vec::with_capacity(questions.len());
    for (i, turn) in questions.iter().enumerate() {
        let field = || format!("turns[{i}]");
        let Value::String(text) = turn else {
            return Err(RowError::field(field(), format!("is {}, a text is needed", kind(turn))));
        };
        if text.trim().is_empty() {
            return Err(RowError::field(field(), "is empty"));
        }
        turns.push(TurnSample {
            messages: vec![Message::user(text)],
            reference: answers.get(i).and_then(Value::as_str).map(str::to_owned),
            ..TurnSample::default()
        });
    }
    if turns.is_empty() {
        return Err(RowError::field("turns", "is empty"));
    }
    Ok(Parsed::Turns(turns, None))
}
