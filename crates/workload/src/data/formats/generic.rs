//! Rows with fields named in the plan: JSON objects and CSV records.

use super::Parsed;
use crate::data::config::{Delimiter, Fields};
use crate::data::fields::{Object, RowError, find, list, messages, millis, name, text, tokens};
use crate::data::sample::{TurnSample, turns};
use crate::files::Record;
use goodput_core::message::Message;
use serde_json::Value;

/// Default names of fields.
const PROMPT: &str = "prompt";
const MESSAGES: &str = "messages";
const INSTRUCTION: &str = "instruction";
const INPUT: &str = "input";
const SYSTEM: &str = "system";
const OUTPUT: &str = "output";
const OUTPUT_TOKENS: &str = "output_tokens";

/// Field of a row that contains the prompt.
enum Body<'a> {
    Prompt(&'a str),
    Messages(&'a str),
    Instruction(&'a str),
}

type Named = fn(&'static str) -> Body<'static>;

/// Reads the turns of a row.
pub(super) fn read(row: &Object, fields: &Fields) -> Result<Parsed, RowError> {
    let mut turns = match body(row, fields)? {
        Body::Messages(field) => {
            let list = list(row, field)?.ok_or_else(|| RowError::field(field, "is missing or empty"))?;
            turns(messages(&list, field)?)
        }
        Body::Prompt(field) => single_turn(required(row, field)?),
        Body::Instruction(field) => {
            let mut prompt = required(row, field)?;
            let input = text(row, fields.input.as_deref().unwrap_or(INPUT))?;
            if let Some(input) = input.filter(|i| !i.trim().is_empty()) {
                prompt.push_str("\n\n");
                prompt.push_str(&input);
            }
            single_turn(prompt)
        }
    };
    let system = text(row, fields.system.as_deref().unwrap_or(SYSTEM))?.filter(|s| !s.trim().is_empty());
    if let (Some(system), Some(first)) = (system, turns.first_mut()) {
        first.messages.insert(0, Message::system(system));
    }
    if let Some(delay) = &fields.delay
        && let Some(first) = turns.first_mut()
    {
        first.delay = millis(row, delay)?;
    }
    // Answer fields belong to the last turn.
    if let Some(last) = turns.last_mut() {
        last.output_tokens = tokens(row, fields.output_tokens.as_deref().unwrap_or(OUTPUT_TOKENS))?;
        if last.reference.is_none() {
            last.reference = text(row, fields.output.as_deref().unwrap_or(OUTPUT))?;
        }
    }
    let session = match &fields.session {
        Some(field) => Some(name(row, field)?.ok_or_else(|| RowError::field(field, "is missing"))?),
        None => None,
    };
    Ok(Parsed::Turns(turns, session))
}

fn single_turn(prompt: String) -> Vec<TurnSample> {
    vec![TurnSample { messages: vec![Message::user(prompt)], ..TurnSample::default() }]
}

fn required(row: &Object, field: &str) -> Result<String, RowError> {
    match text(row, field)? {
        Some(text) if !text.trim().is_empty() => Ok(text),
        None if !row.contains_key(field) => Err(RowError::field(field, "is missing")),
        _ => Err(RowError::field(field, "is empty")),
    }
}

fn body<'a>(row: &Object, fields: &'a Fields) -> Result<Body<'a>, RowError> {
    if let Some(f) = &fields.prompt {
        return Ok(Body::Prompt(f));
    }
    if let Some(f) = &fields.messages {
        return Ok(Body::Messages(f));
    }
    if let Some(f) = &fields.instruction {
        return Ok(Body::Instruction(f));
    }
    // A row may have several of the fields, with one filled in; if none is, the first one is reported.
    let known: [(&str, Named); 3] =
        [(MESSAGES, Body::Messages), (PROMPT, Body::Prompt), (INSTRUCTION, Body::Instruction)];
    let filled = known.iter().find(|(field, _)| find(row, field).is_some());
    if let Some((field, body)) = filled.or_else(|| known.iter().find(|(field, _)| row.contains_key(*field))) {
        return Ok(body(field));
    }
    let keys: Vec<&str> = row.keys().map(String::as_str).take(12).collect();
    let keys = if keys.is_empty() { "none".into() } else { keys.join(", ") };
    let problem = "has none of the fields prompt, messages, instruction";
    Err(RowError::row(format!("{problem}: name its fields with `fields`; it has {keys}")))
}

/// Returns the fields that the plan names and a row may lack, as (key of the plan, field).
pub(crate) fn optional(fields: &Fields) -> Vec<(&'static str, &str)> {
    [
        ("input", &fields.input),
        ("system", &fields.system),
        ("output", &fields.output),
        ("output-tokens", &fields.output_tokens),
        ("delay", &fields.delay),
    ]
    .into_iter()
    .filter_map(|(key, field)| Some((key, field.as_deref()?)))
    .collect()
}

/// Parses a CSV record to an object of texts; an empty value is null.
pub(super) fn record(bytes: &[u8], header: &[String], delimiter: Delimiter) -> Result<Object, RowError> {
    let values = split(bytes, delimiter)?;
    if values.len() != header.len() {
        let (n, m) = (values.len(), header.len());
        return Err(RowError::row(format!("has {n} values, but the header has {m}")));
    }
    let row = header.iter().cloned().zip(values);
    let value = |text: String| if text.is_empty() { Value::Null } else { Value::String(text) };
    Ok(row.map(|(name, text)| (name, value(text))).collect())
}

/// Largest number of columns, since the check for duplicates compares each with all others.
const MAX_COLUMNS: usize = 10_000;

/// Reads the column names, and checks that those named in the plan exist.
pub(crate) fn header(bytes: &[u8], fields: &Fields, delimiter: Delimiter) -> Result<Vec<String>, RowError> {
    let names: Vec<String> = split(bytes, delimiter)?.into_iter().map(|n| n.trim().to_owned()).collect();
    if names.len() > MAX_COLUMNS {
        return Err(RowError::row(format!("has {} columns, more than {MAX_COLUMNS}", names.len())));
    }
    let required =
        [&fields.prompt, &fields.messages, &fields.instruction, &fields.session].into_iter().flatten();
    let optional = optional(fields).into_iter().map(|(_, field)| field);
    for field in required.map(String::as_str).chain(optional) {
        if !names.iter().any(|n| n == field) {
            return Err(RowError::row(format!(
                "there is no column {field:?}; the columns are {}",
                names.join(", ")
            )));
        }
    }
    if let Some((i, twice)) = names.iter().enumerate().find(|(i, n)| names[..*i].contains(*n)) {
        return Err(RowError::row(format!(
            "column {} has the same name as an earlier one, {twice:?}",
            i + 1
        )));
    }
    Ok(names)
}

/// Splits one record into its values.
fn split(bytes: &[u8], delimiter: Delimiter) -> Result<Vec<String>, RowError> {
    let mut record = Record::new(delimiter.byte());
    record.split(bytes).map_err(|e| RowError::row(e.to_string()))?;
    let text = |(i, value): (usize, &[u8])| {
        let text = std::str::from_utf8(value).map(str::to_owned);
        text.map_err(|_| RowError::row(format!("value {} is not UTF-8", i + 1)))
    };
    record.iter().enumerate().map(text).collect()
}
