//! Rows of JSONL: flat objects, by the names of their fields.

use super::copilot;
use super::format::{Format, Names, Reading};
use super::requests::{self, Hashing};
use super::row::{BadRow, Item, Values, check};
use super::source::Unit;
use crate::workload::bytes::Bytes;
use anyhow::{Context, Result};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;
use std::io::{BufRead, Read};

/// Bytes of one line, at most.
pub(super) const LONGEST_LINE: u64 = 64 << 20;

/// A JSONL file being read.
pub(super) struct JsonRows {
    bytes: Bytes,
    line: Vec<u8>,
    number: u64,
}

impl JsonRows {
    /// Begins at the first line.
    pub(super) fn new(bytes: Bytes) -> Self {
        Self { bytes, line: Vec::new(), number: 0 }
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
            _ => into.push_back(flat(line, number, how)),
        }
        Ok(true)
    }
}

/// What is wrong with a line that is no such JSON; never a part of the line itself, which may be confidential.
pub(super) fn broken(e: &serde_json::Error, line: u64) -> Item {
    let reason = format!("is no such JSON object at column {}: {}", e.column(), said(e));
    Item::Bad(BadRow { line, field: String::new(), reason })
}

fn said(e: &serde_json::Error) -> String {
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
    let [timestamp, input, output, hash_ids, session, failed] = fields.map(|f| f.and_then(text));
    check(&Values { timestamp, input, output, hash_ids, session, failed }, how, number)
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
    type Value = [Option<&'de RawValue>; 6];
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Self::Value, D::Error> {
        d.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = [Option<&'de RawValue>; 6];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut found = [None; 6];
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
