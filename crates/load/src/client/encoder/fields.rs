//! Encodes requests to the built-in APIs: an object whose fields are written once for a series, and a prompt and a length for each request.

use super::{Pinning, plain_items};
use crate::client::dialect::{Dialect, PromptWriter, token_ids};
use crate::client::payload::{AskedLength, Expected, Payload};
use bytes::Bytes;
use goodput_core::endpoint::Api;
use goodput_core::message::Message;
use goodput_workload::images::Image;
use goodput_workload::items::ItemTexts;
use serde_json::{Map, Value};
use std::num::NonZeroU8;

/// Encoder of requests to one built-in API for one model.
#[derive(Debug, Clone)]
pub(super) struct FieldsEncoder {
    dialect: &'static Dialect,
    /// Fields common to all requests …
    fields: Map<String, Value>,
    /// … and their text: `{"model":…,`.
    common: String,
    pinning: Pinning,
    /// True if the plan's body sets the output length.
    own_length: bool,
}

impl FieldsEncoder {
    /// Makes an encoder. Fields of `extra` replace those that goodput sets, as a whole. Fields of `pinning` that the API
    /// does not have are left out.
    pub(super) fn new(
        api: Api,
        model: &str,
        extra: &Map<String, Value>,
        pinning: Pinning,
        usage: bool,
    ) -> Self {
        let dialect = Dialect::of(api);
        let pinning = pinning.and(dialect.pinning);
        let mut fields = (dialect.fields)(model, pinning, usage);
        fields.extend(extra.iter().map(|(k, v)| (k.clone(), v.clone())));
        Self::of(dialect, fields, pinning)
    }

    fn of(dialect: &'static Dialect, fields: Map<String, Value>, pinning: Pinning) -> Self {
        let own_length = dialect.length_fields.iter().any(|name| fields.contains_key(*name));
        let object = serde_json::to_string(&fields).expect("a map of JSON values is JSON");
        let mut common = object.strip_suffix('}').expect("an object ends in a brace").to_owned();
        common.push(',');
        Self { dialect, fields, common, pinning, own_length }
    }

    /// Returns an encoder for another model, or for a LoRA by its name, with further fields. Those of `extra` replace
    /// existing ones as a whole. Fields that goodput writes itself (`stream`, the output length) stay unchanged.
    pub(super) fn varied(&self, model: Option<&str>, extra: &Map<String, Value>) -> Self {
        let mut fields = self.fields.clone();
        fields.extend(model.map(|model| ("model".into(), model.into())));
        fields.extend(extra.iter().map(|(k, v)| (k.clone(), v.clone())));
        Self::of(self.dialect, fields, self.pinning)
    }

    /// Returns an encoder that asks for the answer as one document instead of a stream.
    pub(super) fn whole(&self) -> Self {
        let mut fields = self.fields.clone();
        fields.remove("stream");
        fields.remove("stream_options");
        Self::of(self.dialect, fields, self.pinning)
    }

    /// Returns true if `min_tokens` is written: unless the plan's body sets the output length or `min_tokens`.
    fn min_tokens(&self) -> bool {
        self.pinning.min_tokens && !self.own_length && !self.fields.contains_key("min_tokens")
    }

    /// Writes the request up to the user's text. `system` is text that many requests share: a system message, or the
    /// beginning of the prompt in completions.
    pub(super) fn prefix(&self, system: Option<&str>) -> Bytes {
        let mut out = self.common.clone().into_bytes();
        if let PromptWriter::Text { begin, .. } = self.dialect.prompt {
            begin(&mut out, system);
        }
        out.into()
    }

    /// Writes a request from a prefix of this encoder, the user's text, and the number of tokens to answer with.
    pub(super) fn request(&self, prefix: &Bytes, user: &str, output_tokens: u32) -> Payload {
        let mut out = Vec::with_capacity(user.len() + user.len() / 16 + 64);
        match self.dialect.prompt {
            PromptWriter::Text { end, .. } => end(&mut out, user),
            PromptWriter::Items { .. } => return self.items(&plain_items(self.needs_query(), [user])),
            // Forms have an encoder of their own.
            PromptWriter::Audio => {}
        }
        self.close(&mut out, output_tokens);
        Payload::new(prefix.clone(), out.into(), self.asked(output_tokens), None).with_choices(self.choices())
    }

    /// As [`Encoder::images`](super::Encoder::images).
    pub(super) fn images(&self, images: &[Image]) -> Bytes {
        match &self.dialect.prompt {
            PromptWriter::Text { parts: Some(parts), .. } => parts.images(images),
            PromptWriter::Text { .. } | PromptWriter::Items { .. } | PromptWriter::Audio => Bytes::new(),
        }
    }

    /// As [`Encoder::illustrated`](super::Encoder::illustrated).
    pub(super) fn illustrated(&self, messages: &[Message], images: &[Bytes], output_tokens: u32) -> Payload {
        let text: usize =
            messages.iter().flat_map(Message::texts).map(|text| text.len() + text.len() / 16 + 80).sum();
        let size = text + images.iter().map(Bytes::len).sum::<usize>();
        match self.dialect.prompt {
            PromptWriter::Text { conversation, .. } => {
                self.whole_prompt(size, output_tokens, |out| conversation(out, messages, images))
            }
            PromptWriter::Items { .. } => {
                self.items(&plain_items(self.needs_query(), messages.iter().map(|m| m.content.as_str())))
            }
            PromptWriter::Audio => self.whole_prompt(0, output_tokens, |_| {}),
        }
    }

    /// Writes a request whose prompt is a list of token ids, with the number of tokens to answer with. Only completions
    /// accepts such a prompt; a plan that asks for it in chat is refused.
    pub(super) fn tokens(&self, ids: &[u32], output_tokens: u32) -> Payload {
        self.whole_prompt(ids.len() * 7, output_tokens, |out| token_ids(out, ids))
    }

    /// Writes a request of items. In an API that generates answers, it has the first text as its prompt.
    pub(super) fn items(&self, items: &ItemTexts) -> Payload {
        match self.dialect.prompt {
            PromptWriter::Items { write, .. } => {
                let size = items.texts.iter().map(|text| text.len() + 8).sum();
                let mut payload = self.whole_prompt(size, 0, |out| write(out, items));
                let all = !self.fields.contains_key("top_n");
                payload.expected = all.then_some(Expected::Results(items.texts.len() as u32));
                payload
            }
            PromptWriter::Text { .. } | PromptWriter::Audio => {
                self.request(&self.prefix(None), items.texts.first().map_or("", String::as_str), 1)
            }
        }
    }

    /// Returns true if a request has a query. [`FieldsEncoder::request`] adds one of its own.
    pub(super) const fn needs_query(&self) -> bool {
        matches!(self.dialect.prompt, PromptWriter::Items { needs_query: true, .. })
    }

    /// Returns true if answers are generated tokens.
    const fn generates(&self) -> bool {
        !self.dialect.length_fields.is_empty()
    }

    /// Writes a request that shares no prefix; `prompt` appends about `size` bytes.
    fn whole_prompt(&self, size: usize, output_tokens: u32, prompt: impl FnOnce(&mut Vec<u8>)) -> Payload {
        let mut out = Vec::with_capacity(self.common.len() + size + 64);
        out.extend_from_slice(self.common.as_bytes());
        prompt(&mut out);
        self.close(&mut out, output_tokens);
        Payload::new(Bytes::new(), out.into(), self.asked(output_tokens), None).with_choices(self.choices())
    }

    /// Returns the number of choices that a request asks for; `None` for one.
    fn choices(&self) -> Option<NonZeroU8> {
        let n = self.fields.get("n").filter(|_| self.generates())?.as_u64()?;
        NonZeroU8::new(u8::try_from(n).ok()?).filter(|n| *n > NonZeroU8::MIN)
    }

    /// Returns the length that a request asks for, given the plan's number of tokens; `None` if the plan's body leaves the length open.
    fn asked(&self, output_tokens: u32) -> Option<AskedLength> {
        if !self.generates() {
            return None;
        }
        let field = |name: &str| self.fields.get(name).and_then(Value::as_u64);
        let asked = match self.own_length {
            true => self.dialect.length_fields.iter().find_map(|name| field(name))?,
            false => u64::from(output_tokens),
        };
        let choices = self.choices().map_or(1, |n| n.get().into());
        let ignores_eos = self.fields.get("ignore_eos") == Some(&Value::Bool(true));
        let is_pinned = self.min_tokens() || (ignores_eos && !self.fields.contains_key("stop"));
        Some(AskedLength { tokens: asked.saturating_mul(choices), is_pinned })
    }

    /// Appends the rest of the object after the prompt: the output length and the closing brace.
    fn close(&self, out: &mut Vec<u8>, output_tokens: u32) {
        if let Some(field) = self.dialect.length_fields.last().filter(|_| !self.own_length) {
            out.extend_from_slice(format!(",\"{field}\":{output_tokens}").as_bytes());
        }
        if self.min_tokens() {
            out.extend_from_slice(format!(",\"min_tokens\":{output_tokens}").as_bytes());
        }
        out.push(b'}');
    }
}
