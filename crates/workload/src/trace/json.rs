//! Rows of JSONL: flat objects, by the names of their fields.

use super::copilot;
use super::format::{Format, Names, Reading};
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

/// Bytes of one line, at most.
pub(super) const LONGEST_LINE: u64 = 64 << 20;

/// A JSONL file being read.
pub(super) struct JsonRows {
    bytes: Bytes,
    line: Vec<u8>,
    number: u64,
    /// Where each conversation begins, time and line, of formats whose rows follow one another.
    begun: HashMap<u64, (i64, u64)>,
}

impl JsonRows {
    /// Begins at the first line.
    pub(super) fn new(bytes: Bytes) -> Self {
        Self { bytes, line: Vec::new(), number: 0, begun: HashMap::new() }
    }

    /// Adds what the next line holds; `false` at the end.
    ///
    /// # Errors
    ///
    /// The file cannot be read on.
    pub(super) fn next(
        &mut self,
        how: &Reading,
        hashing: Option<&Hashing>,
        into: &mut VecDeque<Item>,
    ) -> Result<bool> {
        self.line.clear();
        self.number += 1;
        let number = self.number;
        let read = self.bytes.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut self.line);
        let read = read.with_context(|| format!("line {number}: failed to read on"))?;
        if read == 0 {
            return Ok(false);
        }
        if read as u64 == LONGEST_LINE && !self.line.ends_with(b"\n") {
            anyhow::bail!("line {number}: is longer than 64 MiB: a row a line is needed");
        }
        let line = self.line.trim_ascii();
        if line.is_empty() {
            return Ok(true);
        }
        match how.format {
            Format::Copilot => copilot::calls(line, number, how, into),
            Format::Requests => into.push_back(requests::request(line, number, how, hashing)),
            _ => {
                let item = flat(line, number, how);
                into.push_back(if how.names.delay.is_some() { self.placed(item, how) } else { item });
            }
        }
        Ok(true)
    }

    /// Puts a row that follows another where its conversation begins.
    fn placed(&mut self, item: Item, how: &Reading) -> Item {
        let Item::Row(mut row) = item else { return item };
        let Some(session) = row.session else { return Item::Row(row) };
        if row.after.is_none() {
            row.place = self.number;
            self.begun.insert(session, (row.at, row.place));
            return Item::Row(row);
        }
        let Some(begun) = self.begun.get(&session) else {
            let reason = format!(
                "is missing: only a row behind another of its {} may leave it out",
                how.names.session.as_deref().unwrap_or("session")
            );
            return Item::Bad(BadRow { line: self.number, field: how.names.timestamp.clone(), reason });
        };
        (row.at, row.place) = *begun;
        Item::Row(row)
    }
}

/// What is wrong with a line that is no such JSON; never a part of the line itself, which may be confidential.
pub(super) fn broken(e: &serde_json::Error, line: u64) -> Item {
    let reason = format!("is no such JSON object at column {}: {}", e.column(), said(e));
    Item::Bad(BadRow { line, field: String::new(), reason })
}

/// The same without the place in the text.
pub(super) fn said(e: &serde_json::Error) -> String {
    let text = e.to_string();
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(head, _)| head).to_owned();
    // `invalid type: string "…", expected …` quotes the value.
    match (text.find(": string \""), text.rfind("\", expected")) {
        (Some(from), Some(to)) if from < to => format!("{}: string{}", &text[..from], &text[to + 1..]),
        _ => text,
    }
}

fn flat(line: &[u8], number: u64, how: &Reading) -> Item {
    let mut parser = serde_json::Deserializer::from_slice(line);
    let fields = match Fields(&how.names).deserialize(&mut parser).and_then(|f| parser.end().map(|()| f)) {
        Ok(fields) => fields,
        Err(e) => return broken(&e, number),
    };
    let [timestamp, input, output, hash_ids, session, failed, delay] = fields.map(|f| f.and_then(text));
    check(&Values { timestamp, input, output, hash_ids, session, failed, delay }, how, number)
}

/// A value's text: that of a string without its quotes, of everything else as it stands; none of `null`.
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

/// The fields with these names, unparsed; all others are passed over.
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
        while let Some(place) = map.next_key_seed(Place(self.0))? {
            match place {
                Some(i) => found[i] = Some(map.next_value()?),
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(found)
    }
}

/// Which of the fields a key names.
struct Place<'n>(&'n Names);

impl<'de> DeserializeSeed<'de> for Place<'_> {
    type Value = Option<usize>;
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Self::Value, D::Error> {
        d.deserialize_str(self)
    }
}

impl Visitor<'_> for Place<'_> {
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

/// What the first row of a JSONL file tells of the rest.
#[derive(Debug, Default)]
pub(super) struct First {
    pub(super) keys: Vec<String>,
    /// The unit that a row names itself, as our own anonymised traces do.
    pub(super) unit: Option<Unit>,
    pub(super) block_tokens: Option<u32>,
    /// Tokens of its prompt.
    input: Option<u32>,
    /// Blocks of its prompt.
    blocks: Option<u32>,
}

impl First {
    /// Whether the row has a block for every 16 tokens, and so more than blocks of 512 could be.
    pub(super) fn has_small_blocks(&self) -> bool {
        let sized = |tokens: u32| self.input.map(|n| n.div_ceil(tokens));
        self.blocks.is_some_and(|n| Some(n) == sized(16) && Some(n) > sized(512))
    }
}

/// Looks at the first row; a line that is no object tells nothing.
pub(super) fn first_row(line: &str) -> First {
    serde_json::from_str::<Keys>(line).map(|k| k.0).unwrap_or_default()
}

struct Keys(First);

impl<'de> serde::Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_map(Firsts).map(Self)
    }
}

struct Firsts;

impl<'de> Visitor<'de> for Firsts {
    type Value = First;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<First, M::Error> {
        let mut first = First::default();
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
