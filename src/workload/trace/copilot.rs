//! GitHub Copilot's sessions of agents: a session a line, its calls in turns.

use super::format::Reading;
use super::json::broken;
use super::row::{BadRow, Item, RawRow, session, tokens};
use super::time;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::VecDeque;

#[derive(Deserialize)]
struct Session<'a> {
    #[serde(borrow)]
    session_id: Cow<'a, str>,
    #[serde(borrow)]
    turns: Vec<Turn<'a>>,
}

#[derive(Deserialize)]
struct Turn<'a> {
    #[serde(borrow, default)]
    llm_calls: Vec<Call<'a>>,
}

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    timestamp: Option<Cow<'a, str>>,
    #[serde(borrow)]
    tokens: Option<Tokens<'a>>,
}

#[derive(Deserialize)]
struct Tokens<'a> {
    #[serde(borrow)]
    prompt: Option<&'a RawValue>,
    #[serde(borrow)]
    completion: Option<&'a RawValue>,
    #[serde(borrow)]
    cached: Option<&'a RawValue>,
}

/// Adds the calls of one session. One without an answer failed.
pub(super) fn calls(line: &[u8], number: u64, how: &Reading, into: &mut VecDeque<Item>) {
    let read: Session<'_> = match serde_json::from_slice(line) {
        Ok(read) => read,
        Err(e) => return into.push_back(broken(&e, number)),
    };
    let id = session(&read.session_id);
    for (t, turn) in read.turns.iter().enumerate() {
        for (c, call) in turn.llm_calls.iter().enumerate() {
            into.push_back(match one(call, id, how) {
                Ok(Some(row)) => Item::Row(row),
                Ok(None) => Item::Failed,
                Err((field, reason)) => {
                    let field = format!("turns[{t}].llm_calls[{c}].{field}");
                    Item::Bad(BadRow { line: number, field, reason })
                }
            });
        }
    }
}

fn one(call: &Call<'_>, id: u64, how: &Reading) -> Result<Option<RawRow>, (&'static str, String)> {
    let missing = || "is missing".to_owned();
    let at = call.timestamp.as_deref().ok_or(("timestamp", missing()))?;
    let at = time::parse(at, how.unit).map_err(|e| ("timestamp", e))?;
    let counts = call.tokens.as_ref().ok_or(("tokens", missing()))?;
    let number = |value: Option<&RawValue>, field: &'static str| {
        value.map(|v| tokens(v.get()).map_err(|e| (field, e))).transpose()
    };
    let input = number(counts.prompt, "tokens.prompt")?.ok_or(("tokens.prompt", missing()))?;
    let output = number(counts.completion, "tokens.completion")?.ok_or(("tokens.completion", missing()))?;
    let cached = number(counts.cached, "tokens.cached")?;
    if input == 0 || output == 0 {
        return Ok(None);
    }
    Ok(Some(RawRow { at, input, output: Some(output), session: Some(id), cached, ..RawRow::default() }))
}
