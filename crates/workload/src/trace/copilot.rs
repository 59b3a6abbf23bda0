//! GitHub Copilot's agent sessions: one session per line, its calls grouped in turns.

use super::format::Layout;
use super::json::{bad_json, error_text};
use super::row::{BadRow, Item, UncheckedRow, session, tokens};
use super::time;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::VecDeque;

/// Largest number of calls in one session.
const MAX_CALLS: usize = 100_000;

#[derive(Deserialize)]
struct Session<'a> {
    #[serde(borrow)]
    session_id: Cow<'a, str>,
    #[serde(borrow)]
    turns: Vec<Turn<'a>>,
}

#[derive(Deserialize)]
struct Turn<'a> {
    /// Unparsed calls: parsed ones take far more memory than their text.
    #[serde(borrow, default)]
    llm_calls: Vec<&'a RawValue>,
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

/// Appends the calls of one session. A call without answer tokens counts as failed.
pub(super) fn calls(line: &[u8], number: u64, layout: &Layout, into: &mut VecDeque<Item>) {
    let read: Session<'_> = match serde_json::from_slice(line) {
        Ok(read) => read,
        Err(e) => return into.push_back(bad_json(&e, number)),
    };
    let id = session(&read.session_id);
    if read.turns.iter().map(|turn| turn.llm_calls.len()).sum::<usize>() > MAX_CALLS {
        let reason = "has more than 100,000 calls in one session".into();
        return into.push_back(Item::Bad(BadRow { line: number, field: "turns".into(), reason }));
    }
    for (t, turn) in read.turns.iter().enumerate() {
        for (c, call) in turn.llm_calls.iter().enumerate() {
            let call: Call<'_> = match serde_json::from_str(call.get()) {
                Ok(call) => call,
                Err(e) => {
                    let (field, reason) =
                        (format!("turns[{t}].llm_calls[{c}]"), format!("is not a call: {}", error_text(&e)));
                    into.push_back(Item::Bad(BadRow { line: number, field, reason }));
                    continue;
                }
            };
            into.push_back(match parse_call(&call, id, layout) {
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

fn parse_call(
    call: &Call<'_>,
    id: u64,
    layout: &Layout,
) -> Result<Option<UncheckedRow>, (&'static str, String)> {
    let missing = || "is missing".to_owned();
    let at = call.timestamp.as_deref().ok_or(("timestamp", missing()))?;
    let at = time::parse(at, layout.unit).map_err(|e| ("timestamp", e))?;
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
    Ok(Some(UncheckedRow {
        at,
        input,
        output: Some(output),
        session: Some(id),
        cached,
        ..UncheckedRow::default()
    }))
}

#[cfg(test)]
mod tests {
    use super::super::format::detect;
    use super::super::source::TraceSource;
    use super::*;

    fn items(line: &str) -> VecDeque<Item> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.jsonl");
        std::fs::write(&path, "{\"session_id\":\"a\",\"turns\":[]}\n").unwrap();
        let mut into = VecDeque::new();
        calls(line.as_bytes(), 7, &detect(&TraceSource::of(&path)).unwrap(), &mut into);
        into
    }

    #[test]
    fn a_session_with_too_many_calls_is_one_bad_row() {
        let line = |n: usize| {
            format!("{{\"session_id\":\"a\",\"turns\":[{{\"llm_calls\":[{}1]}}]}}", "{},".repeat(n - 1))
        };
        let few = items(&line(3));
        let messages: Vec<String> = few
            .iter()
            .map(|item| match item {
                Item::Bad(bad) => bad.to_string(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(messages[0], "line 7, turns[0].llm_calls[0].timestamp: is missing");
        assert!(messages[2].starts_with("line 7, turns[0].llm_calls[2]: is not a call"), "{}", messages[2]);
        let many = items(&line(MAX_CALLS + 1));
        assert!(
            matches!(&many[0], Item::Bad(bad) if bad.reason.contains("100,000 calls")) && many.len() == 1
        );
        assert_eq!(items(&line(MAX_CALLS)).len(), MAX_CALLS);
    }
}
