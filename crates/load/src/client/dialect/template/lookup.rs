//! Finds the values at several paths of a JSON document in one pass over its bytes, without building a tree of it.

use crate::client::event::wire::{Count, Finish};
use crate::client::event::{Event, Text, Usage, message};
use goodput_plan::server::json_path::{JsonPath, Step};
use goodput_plan::server::template::Template;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use std::fmt;

/// The places that a template names.
#[derive(Debug, Clone, Copy)]
enum Place {
    Text,
    Tokens,
    InputTokens,
    Finish,
    Error,
    Results,
}

const PLACES: usize = 6;

/// A value of a document, as far as any path leads to it or through it.
#[derive(Debug, Default)]
struct Node {
    /// The places that are this value.
    places: Vec<Place>,
    /// The values within it that paths lead to.
    children: Vec<(Step, Node)>,
}

impl Node {
    fn add(&mut self, steps: &[Step], place: Place) {
        let [step, rest @ ..] = steps else { return self.places.push(place) };
        let index = self.children.iter().position(|(known, _)| known == step).unwrap_or_else(|| {
            self.children.push((step.clone(), Self::default()));
            self.children.len() - 1
        });
        self.children[index].1.add(rest, place);
    }

    fn member(&self, name: &str) -> Option<&Self> {
        let is_child = |step: &Step| matches!(step, Step::Member(member) if member == name);
        self.children.iter().find(|(step, _)| is_child(step)).map(|(_, node)| node)
    }

    fn element(&self, index: usize) -> Option<&Self> {
        self.children.iter().find(|(step, _)| *step == Step::Index(index)).map(|(_, node)| node)
    }
}

/// The paths of a template, as a tree.
#[derive(Debug)]
pub(super) struct Lookup(Node);

/// The values found in one document.
#[derive(Debug, Default)]
pub(super) struct Found<'de>([Option<&'de RawValue>; PLACES]);

impl Lookup {
    pub(super) fn new(template: &Template) -> Self {
        let mut root = Node::default();
        let mut add = |path: Option<&JsonPath>, place| {
            if let Some(path) = path {
                root.add(path.steps(), place);
            }
        };
        add(template.text.as_ref(), Place::Text);
        add(template.tokens.as_ref(), Place::Tokens);
        add(template.input_tokens.as_ref(), Place::InputTokens);
        add(template.finish.as_ref(), Place::Finish);
        add(Some(&template.error), Place::Error);
        add(template.results.as_ref(), Place::Results);
        Self(root)
    }

    /// Returns the values of a document; `None` if it is not JSON.
    pub(super) fn find<'de>(&self, json: &'de [u8]) -> Option<Found<'de>> {
        let mut found = Found::default();
        // One UTF-8 check of the whole is faster than serde_json's check of each string.
        match str::from_utf8(json) {
            Ok(text) => visit(&self.0, &mut found, serde_json::Deserializer::from_str(text)),
            Err(_) => visit(&self.0, &mut found, serde_json::Deserializer::from_slice(json)),
        }
        .ok()?;
        Some(found)
    }
}

fn visit<'de, R: serde_json::de::Read<'de>>(
    node: &Node,
    found: &mut Found<'de>,
    mut json: serde_json::Deserializer<R>,
) -> serde_json::Result<()> {
    Visit { node, found }.deserialize(&mut json)?;
    json.end()
}

/// Reads a value as far as paths lead into it.
struct Visit<'n, 'f, 'de> {
    node: &'n Node,
    found: &'f mut Found<'de>,
}

impl<'de> DeserializeSeed<'de> for Visit<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        if self.node.places.is_empty() {
            return d.deserialize_any(self);
        }
        let raw = <&'de RawValue>::deserialize(d)?;
        for place in &self.node.places {
            self.found.0[*place as usize] = Some(raw);
        }
        // Only where one path is the beginning of another is a value read twice.
        if self.node.children.is_empty() {
            return Ok(());
        }
        serde_json::Deserializer::from_str(raw.get()).deserialize_any(self).map_err(serde::de::Error::custom)
    }
}

impl<'de> Visitor<'de> for Visit<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(child) = map.next_key_seed(Key(self.node))? {
            match child {
                Some(node) => map.next_value_seed(Visit { node, found: &mut *self.found })?,
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        for index in 0.. {
            let more = match self.node.element(index) {
                Some(node) => list.next_element_seed(Visit { node, found: &mut *self.found })?.is_some(),
                None => list.next_element::<IgnoredAny>()?.is_some(),
            };
            if !more {
                break;
            }
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// The name of a member, read as the child of that name.
struct Key<'n>(&'n Node);

impl<'n, 'de> DeserializeSeed<'de> for Key<'n> {
    type Value = Option<&'n Node>;

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Self::Value, D::Error> {
        d.deserialize_str(self)
    }
}

impl<'n> Visitor<'_> for Key<'n> {
    type Value = Option<&'n Node>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.member(name))
    }
}

impl Found<'_> {
    fn get(&self, place: Place) -> Option<&str> {
        self.0[place as usize].map(RawValue::get)
    }

    /// Returns true if there is nothing at any place.
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// Returns the text.
    pub(super) fn text(&self) -> Option<String> {
        serde_json::from_str(self.get(Place::Text)?).ok()
    }

    /// Returns what the document says of an answer.
    pub(super) fn event(&self) -> Event {
        let (text, text_bytes) = match self.get(Place::Text).map(str::as_bytes) {
            Some([b'"', inner @ .., b'"']) => (Text::of(inner.is_empty()), inner.len() as u64),
            _ => (Text::Absent, 0),
        };
        let count =
            |place| self.get(place).and_then(|raw| serde_json::from_str::<Count>(raw).ok()).and_then(|n| n.0);
        let (prompt, completion) = (count(Place::InputTokens), count(Place::Tokens));
        let usage = Usage { prompt, completion, ..Usage::default() };
        let error = self.get(Place::Error).and_then(|raw| serde_json::from_str::<Value>(raw).ok());
        Event {
            text,
            text_bytes,
            results: self.get(Place::Results).map_or(0, results),
            // A count beside text may be a running one, of which text must be part.
            has_choice: text.some(),
            finish_reason: self.finish(),
            usage: (prompt.is_some() || completion.is_some()).then_some(usage),
            error: error.as_ref().and_then(message),
            ..Event::default()
        }
    }

    /// Returns the finish reason: a text, or `true`.
    fn finish(&self) -> Option<Box<str>> {
        match self.get(Place::Finish)? {
            "true" => Some("done".into()),
            raw => serde_json::from_str::<Finish>(raw).ok()?.0,
        }
    }
}

/// Returns the number of results in a list, without those that are null or empty.
fn results(list: &str) -> u32 {
    let all = serde_json::from_str::<Vec<&RawValue>>(list).unwrap_or_default();
    let is_result = |raw: &&&RawValue| !matches!(raw.get(), "null" | "[]" | "{}" | "\"\"");
    all.iter().filter(is_result).count() as u32
}
