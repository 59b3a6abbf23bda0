//! Rows whose fields the plan names: JSON objects and CSV records.

use super::Parsed;
use crate::data::config::{Delimiter, Fields};
use crate::data::fields::{Fault, Object, find, list, messages, millis, name, text, tokens};
use crate::data::sample::{TurnSample, turns};
use goodput_core::message::Message;
use serde_json::Value;

/// Fields that are looked for where the plan names none.
const PROMPT: &str = "prompt";
const MESSAGES: &str = "messages";
const INSTRUCTION: &str = "instruction";
const INPUT: &str = "input";
const SYSTEM: &str = "system";
const OUTPUT: &str = "output";
const OUTPUT_TOKENS: &str = "output_tokens";

/// Where the prompt stands in a row.
enum Body<'a> {
    Prompt(&'a str),
    Messages(&'a str),
    Instruction(&'a str),
}

type Named = fn(&'static str) -> Body<'static>;

/// The turns of a row.
pub(super) fn read(row: &Object, fields: &Fields) -> Result<Parsed, Fault> {
    let mut turns = match body(row, fields)? {
        Body::Messages(field) => {
            let list = list(row, field)?.ok_or_else(|| Fault::field(field, "is missing or empty"))?;
            turns(messages(&list, field)?)
        }
        Body::Prompt(field) => one(required(row, field)?),
        Body::Instruction(field) => {
            let mut prompt = required(row, field)?;
            let input = text(row, fields.input.as_deref().unwrap_or(INPUT))?;
            if let Some(input) = input.filter(|i| !i.trim().is_empty()) {
                prompt.push_str("\n\n");
                prompt.push_str(&input);
            }
            one(prompt)
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
    // What a row says of its answer is about the last one.
    if let Some(last) = turns.last_mut() {
        last.output_tokens = tokens(row, fields.output_tokens.as_deref().unwrap_or(OUTPUT_TOKENS))?;
        if last.reference.is_none() {
            last.reference = text(row, fields.output.as_deref().unwrap_or(OUTPUT))?;
        }
    }
    let session = match &fields.session {
        Some(field) => Some(name(row, field)?.ok_or_else(|| Fault::field(field, "is missing"))?),
        None => None,
    };
    Ok(Parsed::Turns(turns, session))
}

fn one(prompt: String) -> Vec<TurnSample> {
    vec![TurnSample { messages: vec![Message::user(prompt)], ..TurnSample::default() }]
}

fn required(row: &Object, field: &str) -> Result<String, Fault> {
    match text(row, field)? {
        Some(text) if !text.trim().is_empty() => Ok(text),
        None if !row.contains_key(field) => Err(Fault::field(field, "is missing")),
        _ => Err(Fault::field(field, "is empty")),
    }
}

fn body<'a>(row: &Object, fields: &'a Fields) -> Result<Body<'a>, Fault> {
    if let Some(f) = &fields.prompt {
        return Ok(Body::Prompt(f));
    }
    if let Some(f) = &fields.messages {
        return Ok(Body::Messages(f));
    }
    if let Some(f) = &fields.instruction {
        return Ok(Body::Instruction(f));
    }
    // A row may have several, of which one is filled; where none is, the first is what is wrong.
    let known: [(&str, Named); 3] =
        [(MESSAGES, Body::Messages), (PROMPT, Body::Prompt), (INSTRUCTION, Body::Instruction)];
    let filled = known.iter().find(|(field, _)| find(row, field).is_some());
    if let Some((field, body)) = filled.or_else(|| known.iter().find(|(field, _)| row.contains_key(*field))) {
        return Ok(body(field));
    }
    let has: Vec<&str> = row.keys().map(String::as_str).take(12).collect();
    let has = if has.is_empty() { "none".into() } else { has.join(", ") };
    let say = "has none of the fields prompt, messages, instruction";
    Err(Fault::row(format!("{say}: name yours with `fields`; it has {has}")))
}

/// Fields that the plan names and a row need not have, as (key of the plan, field).
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

/// A record of CSV as an object of texts; an empty value is null.
pub(super) fn record(bytes: &[u8], header: &[String], delimiter: Delimiter) -> Result<Object, Fault> {
    let values = split(bytes, delimiter)?;
    if values.len() != header.len() {
        let (n, m) = (values.len(), header.len());
        return Err(Fault::row(format!("has {n} values, the header names {m}")));
    }
    let row = header.iter().cloned().zip(values);
    let value = |text: String| if text.is_empty() { Value::Null } else { Value::String(text) };
    Ok(row.map(|(name, text)| (name, value(text))).collect())
}

/// Columns of a table, at most: each is held against the others.
const MOST_COLUMNS: usize = 10_000;

/// The names of the columns. Those that the plan names must be among them.
pub(crate) fn header(bytes: &[u8], fields: &Fields, delimiter: Delimiter) -> Result<Vec<String>, Fault> {
    let names: Vec<String> = split(bytes, delimiter)?.into_iter().map(|n| n.trim().to_owned()).collect();
    if names.len() > MOST_COLUMNS {
        return Err(Fault::row(format!("has {} columns, which no table has", names.len())));
    }
    let required =
        [&fields.prompt, &fields.messages, &fields.instruction, &fields.session].into_iter().flatten();
    let optional = optional(fields).into_iter().map(|(_, field)| field);
    for field in required.map(String::as_str).chain(optional) {
        if !names.iter().any(|n| n == field) {
            return Err(Fault::row(format!("no column is named {field:?}; there are {}", names.join(", "))));
        }
    }
    if let Some((i, twice)) = names.iter().enumerate().find(|(i, n)| names[..*i].contains(*n)) {
        return Err(Fault::row(format!("columns {} and an earlier one are both named {twice:?}", i + 1)));
    }
    Ok(names)
}

/// The values of one record.
fn split(bytes: &[u8], delimiter: Delimiter) -> Result<Vec<String>, Fault> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .delimiter(delimiter.byte())
        .buffer_capacity(bytes.len().clamp(64, 1 << 16))
        .from_reader(bytes);
    let mut record = csv::ByteRecord::new();
    let read = |reader: &mut csv::Reader<&[u8]>, record: &mut csv::ByteRecord| {
        reader.read_byte_record(record).map_err(|e| Fault::row(format!("no CSV: {e}")))
    };
    read(&mut reader, &mut record)?;
    let values = record.iter().enumerate().map(|(i, value)| {
        let text = std::str::from_utf8(value);
        text.map(str::to_owned).map_err(|_| Fault::row(format!("value {} is no UTF-8", i + 1)))
    });
    let values = values.collect();
    if read(&mut reader, &mut record)? {
        return Err(Fault::row(
            "holds carriage returns without line feeds: end lines with either \\n or \\r\\n",
        ));
    }
    values
}
