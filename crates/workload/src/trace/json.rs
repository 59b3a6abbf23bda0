//! Rows of JSONL traces.

use super::copilot;
use super::format::{Format, Layout, Names};
use super::requests::{self, Hashing};
use super::row::{BadRow, Item, Values, check};
use super::source::Unit;
use crate::bytes::Bytes;
use anyhow::{Context, Result};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io::{BufRead, Read};

/// Longest line in bytes.
pub(super) const MAX_LINE_BYTES: u64 = 64 << 20;

/// Reader of a JSONL trace.
pub(super) struct JsonRows {
    bytes: Bytes,
    line: Vec<u8>,
    number: u64,
    /// Time and line of each conversation's first row, in formats with follow-ups.
    conversations: HashMap<u64, (i64, u64)>,
}

impl JsonRows {
    /// Creates a reader at the first line.
    pub(super) fn new(bytes: Bytes) -> Self {
        Self { bytes, line: Vec::new(), number: 0, conversations: HashMap::new() }
    }

    /// Appends the items of the next line; returns false at the end.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub(super) fn next(
        &mut self,
        layout: &Layout,
        hashing: Option<&Hashing>,
        into: &mut VecDeque<Item>,
    ) -> Result<bool> {
        self.line.clear();
        self.number += 1;
        let number = self.number;
        let read = self.bytes.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut self.line);
        let read = read.with_context(|| format!("line {number}: failed to read"))?;
        if read == 0 {
            return Ok(false);
        }
        if read as u64 == MAX_LINE_BYTES && !self.line.ends_with(b"\n") {
            anyhow::bail!("line {number}: exceeds 64 MiB: write one row per line");
        }
        let line = self.line.trim_ascii();
        if line.is_empty() {
            return Ok(true);
        }
        match layout.format {
            Format::Copilot => copilot::calls(line, number, layout, into),
            Format::Requests => into.push_back(requests::request(line, number, layout, hashing)),
            Format::Mooncake
            | Format::Azure
            | Format::Burstgpt
            | Format::Vllm
            | Format::Weka
            | Format::Csv
            | Format::Jsonl => {
                let item = flat_row(line, number, layout);
                into.push_back(if layout.names.delay.is_some() {
                    self.place_follow_up(item, layout)
                } else {
                    item
                });
            }
        }
        Ok(true)
    }

    /// Gives a follow-up the time and line of its conversation's first row.
    fn place_follow_up(&mut self, item: Item, layout: &Layout) -> Item {
        let Item::Row(mut row) = item else { return item };
        let Some(session) = row.session else { return Item::Row(row) };
        if row.after.is_none() {
            row.conversation_line = self.number;
            self.conversations.insert(session, (row.at, row.conversation_line));
            return Item::Row(row);
        }
        let Some(first) = self.conversations.get(&session) else {
            let reason = format!(
                "is missing: only a follow-up, a row after another of its {}, may omit it",
                layout.names.session.as_deref().unwrap_or("session")
            );
            return Item::Bad(BadRow { line: self.number, field: layout.names.timestamp.clone(), reason });
        };
        (row.at, row.conversation_line) = *first;
        Item::Row(row)
    }
}

/// Describes a line that is not valid JSON of the expected form, without quoting it: it may be confidential.
pub(super) fn bad_json(e: &serde_json::Error, line: u64) -> Item {
    let reason = format!("is not a valid JSON object at column {}: {}", e.column(), error_text(e));
    Item::Bad(BadRow { line, field: String::new(), reason })
}

/// Returns the text of a JSON error without its position and without quoted values.
pub(super) fn error_text(e: &serde_json::Error) -> String {
    let text = e.to_string();
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(head, _)| head).to_owned();
    // `invalid type: string "…", expected …` quotes the value.
    match (text.find(": string \""), text.rfind("\", expected")) {
        (Some(from), Some(to)) if from < to => format!("{}: string{}", &text[..from], &text[to + 1..]),
        _ => text,
    }
}

fn flat_row(line: &[u8], number: u64, layout: &Layout) -> Item {
    let mut parser = serde_json::Deserializer::from_slice(line);
    let fields = match Fields(&layout.names).deserialize(&mut parser).and_then(|f| parser.end().map(|()| f)) {
        Ok(fields) => fields,
        Err(e) => return bad_json(&e, number),
    };
    let [timestamp, input, output, hash_ids, session, failed, delay] = fields.map(|f| f.and_then(text));
    check(&Values { timestamp, input, output, hash_ids, session, failed, delay }, layout, number)
}

/// Returns the text of a value: of a string without quotes, of any other as written; `None` for `null`.
pub(super) fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    match raw.get() {
        "null" => None,
        s if s.starts_with('"') => match serde_json::from_str::<&str>(s) {
            Ok(plain) => Some(Cow::Borrowed(plain)),
            Err(_) => serde_json::from_str::<String>(s).ok().map(Cow::Owned),
        },
        s => Some(Cow::Borrowed(s)),
    }
}

/// Deserializes the fields with these names, unparsed, and skips all others.
struct Fields<'n>(&'n Names);

impl<'de> DeserializeSeed<'de> for Fields<'_> {
    type Value = [Option<&'de RawValue>; 7];
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Self::Value, D::Error> {
        d.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = [Option<&'de RawValue>; 7];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut found = [None; 7];
        while let Some(index) = map.next_key_seed(FieldIndex(self.0))? {
            match index {
                Some(i) => found[i] = Some(map.next_value()?),
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(found)
    }
}

/// Deserializes a key to the index of its field.
struct FieldIndex<'n>(&'n Names);

impl<'de> DeserializeSeed<'de> for FieldIndex<'_> {
    type Value = Option<usize>;
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Self::Value, D::Error> {
        d.deserialize_str(self)
    }
}

impl Visitor<'_> for FieldIndex<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        let n = self.0;
        let is = |name: &Option<String>| name.as_deref() == Some(key);
        Ok(match () {
            () if n.timestamp == key => Some(0),
            () if n.input == key => Some(1),
            () if is(&n.output) => Some(2),
            () if is(&n.hash_ids) => Some(3),
            () if is(&n.session) => Some(4),
            () if is(&n.failed) => Some(5),
            () if is(&n.delay) => Some(6),
            () => None,
        })
    }
}

/// Facts from the first row of a JSONL file that determine its layout.
#[derive(Debug, Default)]
pub(super) struct FirstRow {
    pub(super) keys: Vec<String>,
    /// The unit that the row names, as in our own anonymised traces.
    pub(super) unit: Option<Unit>,
    pub(super) block_tokens: Option<u32>,
    /// Length of its prompt in tokens.
    input: Option<u32>,
    /// Number of blocks of its prompt.
    blocks: Option<u32>,
}

impl FirstRow {
    /// Returns true if the row has one block per 16 tokens, which is more than blocks of 512 tokens could give.
    pub(super) fn has_small_blocks(&self) -> bool {
        let sized = |tokens: u32| self.input.map(|n| n.div_ceil(tokens));
        self.blocks.is_some_and(|n| Some(n) == sized(16) && Some(n) > sized(512))
    }
}

/// Reads the first row; a line that is not an object gives the defaults.
pub(super) fn first_row(line: &str) -> FirstRow {
    serde_json::from_str(line).unwrap_or_default()
}

impl<'de> serde::Deserialize<'de> for FirstRow {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_map(FirstRowVisitor)
    }
}

struct FirstRowVisitor;

impl<'de> Visitor<'de> for FirstRowVisitor {
    type Value = FirstRow;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<FirstRow, M::Error> {
        let mut first = FirstRow::default();
        while let Some(key) = map.next_key::<String>()? {
            let value: &RawValue = map.next_value()?;
            match key.as_str() {
                "unit" => first.unit = text(value).and_then(|t| t.parse().ok()),
                "input_length" => first.input = text(value).and_then(|t| t.parse().ok()),
                "hash_ids" => {
                    let ids: Option<Vec<IgnoredAny>> = serde_json::from_str(value.get()).ok();
                    first.blocks = ids.and_then(|ids| ids.len().try_into().ok());
                }
                "block_tokens" => {
                    first.block_tokens = text(value).and_then(|t| t.parse().ok()).filter(|n| *n > 0)
                }
                _ => {}
            }
            first.keys.push(key);
        }
        Ok(first)
    }
}
