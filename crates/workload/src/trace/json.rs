//! Rows of JSONL traces.

use super::format::{Field, Layout};
use super::row::{BadRow, Item, check};
use super::source::Unit;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

/// Time and line of the first row of each conversation, in formats with follow-ups.
#[derive(Debug, Default)]
pub(super) struct Conversations(HashMap<u64, (i64, u64)>);

impl Conversations {
    /// Gives a follow-up the time and line of its conversation's first row.
    pub(super) fn place(&mut self, item: Item, line: u64, layout: &Layout) -> Item {
        let Item::Row(mut row) = item else { return item };
        let Some(session) = row.session else { return Item::Row(row) };
        if row.after.is_none() {
            row.conversation_line = line;
            self.0.insert(session, (row.at, line));
            return Item::Row(row);
        }
        let Some(first) = self.0.get(&session) else {
            let session = layout.names[Field::Session as usize].as_deref().unwrap_or("session");
            let reason =
                format!("is missing: only a follow-up, a row after another of its {session}, may omit it");
            return Item::Bad(BadRow { line, field: layout.name(Field::Timestamp).to_owned(), reason });
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

/// Parses a flat object.
pub(super) fn flat_row(line: &[u8], number: u64, layout: &Layout) -> Item {
    let object: RawObject<'_> = match serde_json::from_slice(line) {
        Ok(object) => object,
        Err(e) => return bad_json(&e, number),
    };
    let value = |name: &Option<String>| object.get(name.as_deref()?).and_then(text);
    check(&layout.names.each_ref().map(value), layout, number)
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

/// The fields of an object, unparsed.
#[derive(Debug, Default)]
struct RawObject<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> RawObject<'a> {
    /// Returns the value of a field, the last one if there are several.
    fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().rfind(|(key, _)| key == name).map(|(_, value)| *value)
    }

    /// Parses the value of a field.
    fn parse<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.get(name).and_then(text)?.parse().ok()
    }
}

impl<'de> Deserialize<'de> for RawObject<'de> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_map(RawObjectVisitor)
    }
}

struct RawObjectVisitor;

impl<'de> Visitor<'de> for RawObjectVisitor {
    type Value = RawObject<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        #[derive(serde::Deserialize)]
        struct Key<'a>(#[serde(borrow)] Cow<'a, str>);
        let mut fields = Vec::with_capacity(8);
        while let Some((Key(key), value)) = map.next_entry()? {
            fields.push((key, value));
        }
        Ok(RawObject(fields))
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
    let object: RawObject<'_> = serde_json::from_str(line).unwrap_or_default();
    let blocks =
        object.get("hash_ids").and_then(|ids| serde_json::from_str::<Vec<IgnoredAny>>(ids.get()).ok());
    FirstRow {
        unit: object.parse("unit"),
        block_tokens: object.parse("block_tokens").filter(|n| *n > 0),
        input: object.parse("input_length"),
        blocks: blocks.and_then(|ids| ids.len().try_into().ok()),
        keys: object.0.into_iter().map(|(key, _)| key.into_owned()).collect(),
    }
}
