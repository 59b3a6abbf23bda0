//! Encodes requests as JSON: the fields common to a series are written once, the rest per request.

use super::dialect::{Dialect, PromptWriter, token_ids};
use super::payload::{AskedLength, Payload};
use bytes::Bytes;
use goodput_core::endpoint::Api;
use goodput_core::message::Message;
use goodput_workload::items::ItemTexts;
use goodput_workload::prompts::PromptText;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The request fields that fix the output at its planned length. Servers support different ones; either suffices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pinning {
    /// `ignore_eos`: continue after an end-of-sequence token.
    pub ignore_eos: bool,
    /// `min_tokens`: do not end before this many tokens.
    pub min_tokens: bool,
}

impl Pinning {
    /// Both fields.
    pub const FULL: Self = Self { ignore_eos: true, min_tokens: true };
    /// Neither.
    pub const NONE: Self = Self { ignore_eos: false, min_tokens: false };

    /// Returns the fields that both have.
    pub(super) const fn and(self, other: Self) -> Self {
        Self {
            ignore_eos: self.ignore_eos && other.ignore_eos,
            min_tokens: self.min_tokens && other.min_tokens,
        }
    }

    /// Returns true if the output length is fixed by any field.
    pub const fn holds(self) -> bool {
        self.ignore_eos || self.min_tokens
    }
}

/// Query of a request that measures something else.
const QUERY: &str = "about";

/// Encoder of requests to one API for one model.
#[derive(Debug, Clone)]
pub struct Encoder {
    dialect: &'static Dialect,
    /// Fields common to all requests …
    fields: Map<String, Value>,
    /// … and their text: `{"model":…,`.
    common: String,
    pinning: Pinning,
    /// True if the plan's body sets the output length.
    own_length: bool,
}

impl Encoder {
    /// Makes an encoder. Fields of `extra` replace those that goodput sets, as a whole. Fields of `pinning` that the API
    /// does not have are left out.
    pub fn new(api: Api, model: &str, extra: &Map<String, Value>, pinning: Pinning, usage: bool) -> Self {
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
    pub fn varied(&self, model: Option<&str>, extra: &Map<String, Value>) -> Self {
        let mut fields = self.fields.clone();
        fields.extend(model.map(|model| ("model".into(), model.into())));
        fields.extend(extra.iter().map(|(k, v)| (k.clone(), v.clone())));
        Self::of(self.dialect, fields, self.pinning)
    }

    /// Returns an encoder that asks for the answer as one document instead of a stream.
    pub fn whole(&self) -> Self {
        let mut fields = self.fields.clone();
        fields.remove("stream");
        fields.remove("stream_options");
        Self::of(self.dialect, fields, self.pinning)
    }

    /// Returns true if `min_tokens` is written: unless the plan's body sets the output length or `min_tokens`.
    fn min_tokens(&self) -> bool {
        self.pinning.min_tokens
            && self.generates()
            && !self.own_length
            && !self.fields.contains_key("min_tokens")
    }

    /// Writes the request up to the user's text. `system` is text that many requests share: a system message, or the
    /// beginning of the prompt in completions.
    pub fn prefix(&self, system: Option<&str>) -> Bytes {
        let mut out = self.common.clone().into_bytes();
        if let PromptWriter::Text { begin, .. } = self.dialect.prompt {
            begin(&mut out, system);
        }
        out.into()
    }

    /// Writes a request from a prefix of this encoder, the user's text, and the number of tokens to answer with.
    pub fn request(&self, prefix: &Bytes, user: &str, output_tokens: u32) -> Payload {
        let mut out = Vec::with_capacity(user.len() + user.len() / 16 + 64);
        match self.dialect.prompt {
            PromptWriter::Text { end, .. } => end(&mut out, user),
            PromptWriter::Items { .. } => return self.items(&self.single(user)),
        }
        self.close(&mut out, output_tokens);
        Payload { head: prefix.clone(), tail: out.into(), asked: self.asked(output_tokens), results: None }
    }

    /// Writes a request with images before the user's text. A plan that asks for them in an API without images is refused.
    pub fn illustrated(&self, prompt: &PromptText, output_tokens: u32) -> Payload {
        let PromptWriter::Text { begin, parts: Some(parts), .. } = &self.dialect.prompt else {
            return self.request(&self.prefix(prompt.system.as_deref()), &prompt.user, output_tokens);
        };
        let images: usize = prompt.images.iter().map(|image| image.bytes.len().div_ceil(3) * 4 + 100).sum();
        let text = prompt.user.len() + prompt.user.len() / 16 + prompt.system.as_ref().map_or(0, |s| s.len());
        self.whole_prompt(images + text, output_tokens, |out| {
            begin(out, prompt.system.as_deref());
            parts.write(out, &prompt.images, &prompt.user);
        })
    }

    /// Writes a request with a whole conversation and the number of tokens to answer with.
    pub fn messages(&self, messages: &[Message], output_tokens: u32) -> Payload {
        let text: usize = messages.iter().map(|m| m.content.len() + m.content.len() / 16 + 40).sum();
        match self.dialect.prompt {
            PromptWriter::Text { conversation, .. } => {
                self.whole_prompt(text, output_tokens, |out| conversation(out, messages))
            }
            PromptWriter::Items { .. } => {
                let texts = messages.iter().map(|m| m.content.clone()).collect();
                self.items(&ItemTexts { texts, ..self.single("") })
            }
        }
    }

    /// Writes a request whose prompt is a list of token ids, with the number of tokens to answer with. Only completions
    /// accepts such a prompt; a plan that asks for it in chat is refused.
    pub fn tokens(&self, ids: &[u32], output_tokens: u32) -> Payload {
        self.whole_prompt(ids.len() * 7, output_tokens, |out| token_ids(out, ids))
    }

    /// Writes a request of items. In an API that generates answers, it has the first text as its prompt.
    pub fn items(&self, items: &ItemTexts) -> Payload {
        match self.dialect.prompt {
            PromptWriter::Items { write, .. } => {
                let size = items.texts.iter().map(|text| text.len() + 8).sum();
                let payload = self.whole_prompt(size, 0, |out| write(out, items));
                let all = !self.fields.contains_key("top_n");
                Payload { results: all.then_some(items.texts.len() as u32), ..payload }
            }
            PromptWriter::Text { .. } => {
                self.request(&self.prefix(None), items.texts.first().map_or("", String::as_str), 1)
            }
        }
    }

    /// Returns the item of a text, with a query of one word if the API needs one.
    fn single(&self, text: &str) -> ItemTexts {
        let query = self.needs_query().then(|| QUERY.to_owned());
        ItemTexts { query, texts: vec![text.to_owned()] }
    }

    /// Returns true if a request has a query. [`Encoder::request`] adds one of its own.
    pub const fn needs_query(&self) -> bool {
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
        Payload { head: Bytes::new(), tail: out.into(), asked: self.asked(output_tokens), results: None }
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
        let choices = field("n").unwrap_or(1).max(1);
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

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_core::message::Role;
    use proptest::prelude::*;
    use serde_json::json;

    fn whole(p: &Payload) -> Value {
        serde_json::from_slice(&[&p.head[..], &p.tail[..]].concat()).expect("a request is JSON")
    }

    fn extra(v: Value) -> Map<String, Value> {
        v.as_object().unwrap().clone()
    }

    #[test]
    fn fields_of_the_body_are_sent_as_they_are_written() {
        let expected = json!({
            "temperature": 0.7, "top_p": 1, "seed": 7, "n": 1, "stop": ["a", "b"],
            "tool_choice": { "type": "function", "function": { "name": "f" } },
            "response_format": { "type": "json_schema", "json_schema": {
                "name": "c", "strict": true,
                "schema": { "type": "object", "properties": { "a": { "type": "integer" } } }
            } },
            "tools": [
                { "type": "function", "function": { "name": "f", "parameters":
                    { "type": "object", "properties": { "city": { "enum": ["x", "y"] } } } } },
                { "type": "function", "function": { "name": "g" } }
            ]
        });
        for api in [Api::Chat, Api::Completions] {
            let e = Encoder::new(api, "m", &extra(expected.clone()), Pinning::FULL, true);
            let payload = e.request(&e.prefix(None), "x", 3);
            let sent: Value = whole(&payload);
            for (field, value) in expected.as_object().unwrap() {
                assert_eq!(&sent[field], value, "{field}");
            }
        }
    }

    #[test]
    fn chat_requests() {
        let e = Encoder::new(Api::Chat, "m", &Map::new(), Pinning::FULL, true);
        let got = whole(&e.request(&e.prefix(Some("be \"brief\"\n")), "hé\\llo", 7));
        assert_eq!(
            got,
            json!({ "model": "m", "stream": true, "stream_options": { "include_usage": true }, "ignore_eos": true,
                "messages": [{ "role": "system", "content": "be \"brief\"\n" }, { "role": "user", "content": "hé\\llo" }],
                "max_tokens": 7, "min_tokens": 7 })
        );
        let e = Encoder::new(Api::Chat, "m", &Map::new(), Pinning::NONE, false);
        let got = whole(&e.request(&e.prefix(None), "", 1));
        let messages = json!([{ "role": "user", "content": "" }]);
        assert_eq!(got, json!({ "model": "m", "stream": true, "messages": messages, "max_tokens": 1 }));
    }

    #[test]
    fn what_is_too_long_follows_from_what_is_asked() {
        for (body, most, why) in [
            (json!({}), Some(1024 + 4 * 30), "what the plan asks for"),
            (json!({ "n": 3 }), Some(1024 + 3 * 4 * 30), "for each choice"),
            (json!({ "max_tokens": 500 }), Some(1024 + 4 * 500), "the body's own length"),
            (
                json!({ "max_tokens": 5, "max_completion_tokens": 7, "n": 2 }),
                Some(1024 + 2 * 4 * 7),
                "the newer field",
            ),
            (json!({ "max_tokens": null }), None, "no length at all"),
        ] {
            let e = Encoder::new(Api::Chat, "m", &extra(body), Pinning::FULL, true);
            let got = [
                e.request(&e.prefix(None), "hello", 30),
                e.messages(&[Message { role: Role::User, content: "hello".into() }], 30),
                e.tokens(&[1, 2], 30),
            ];
            assert!(got.iter().all(|p| p.asked.map(AskedLength::most_tokens) == most), "{why}: {got:?}");
        }
    }

    /// Rows: fields of the body, the fields that pin lengths, and whether they are pinned.
    #[test]
    fn a_length_is_pinned_where_the_server_may_not_end_before_it() {
        let eos_only = Pinning { min_tokens: false, ..Pinning::FULL };
        for (body, pinning, is_pinned) in [
            (json!({}), Pinning::FULL, true),
            (json!({}), eos_only, true),
            (json!({ "stop": ["a"] }), eos_only, false),
            (json!({ "stop": ["a"] }), Pinning::FULL, true),
            (json!({ "ignore_eos": false, "min_tokens": 1 }), Pinning::FULL, false),
            (json!({ "max_tokens": 500 }), Pinning::FULL, true),
            (json!({}), Pinning::NONE, false),
        ] {
            let e = Encoder::new(Api::Chat, "m", &extra(body.clone()), pinning, true);
            let asked = e.request(&e.prefix(None), "hello", 30).asked;
            assert_eq!(asked.map(|asked| asked.is_pinned), Some(is_pinned), "{body} {pinning:?}");
        }
    }

    #[test]
    fn completions_join_prefix_and_text() {
        let e = Encoder::new(
            Api::Completions,
            "m",
            &Map::new(),
            Pinning { min_tokens: false, ..Pinning::FULL },
            false,
        );
        let prefix = e.prefix(Some("shared \t"));
        let (a, b) = (e.request(&prefix, "one", 3), e.request(&prefix, "two", 4));
        assert_eq!(a.head.as_ptr(), b.head.as_ptr(), "the prefix is shared, not copied");
        let expected = json!({ "model": "m", "stream": true, "ignore_eos": true, "prompt": "shared \tone", "max_tokens": 3 });
        assert_eq!(whole(&a), expected);
        assert_eq!(whole(&b)["prompt"], "shared \ttwo");
    }

    #[test]
    fn the_plans_body_overrides_ours() {
        for (body, field, expected) in [
            (json!({ "temperature": 0.0 }), "temperature", json!(0.0)),
            (json!({ "ignore_eos": false }), "ignore_eos", json!(false)),
            (json!({ "stream_options": { "a": 1 } }), "stream_options", json!({ "a": 1 })),
            (json!({ "max_completion_tokens": 5 }), "max_tokens", Value::Null),
            (json!({ "max_completion_tokens": 5 }), "max_completion_tokens", json!(5)),
            (json!({ "max_completion_tokens": 5 }), "min_tokens", Value::Null),
            (json!({ "max_tokens": 5 }), "max_tokens", json!(5)),
            (json!({ "min_tokens": 2 }), "min_tokens", json!(2)),
        ] {
            let e = Encoder::new(Api::Chat, "m", &extra(body.clone()), Pinning::FULL, true);
            let p = e.request(&e.prefix(None), "x", 9);
            let got = whole(&p);
            assert_eq!(got.get(field).unwrap_or(&Value::Null), &expected, "{body} {field}");
            let text = String::from_utf8([&p.head[..], &p.tail[..]].concat()).unwrap();
            assert!(text.matches(&format!("\"{field}\"")).count() <= 1, "{field} twice in {text}");
        }
    }

    #[test]
    fn conversations_are_sent_whole() {
        let said = |turns: &[(Role, &str)]| -> Vec<Message> {
            turns.iter().map(|(role, text)| Message::new(*role, *text)).collect()
        };
        let all = [
            (Role::System, "be \"brief\""),
            (Role::User, "one\ntwo"),
            (Role::Assistant, " three"),
            (Role::Tool, "{}"),
            (Role::User, "hé"),
        ];
        for (turns, joined) in
            [(&all[..], "be \"brief\"\none\ntwo three\n{}\nhé"), (&all[1..2], "one\ntwo"), (&[], "")]
        {
            let messages = said(turns);
            let chat = Encoder::new(Api::Chat, "m", &Map::new(), Pinning::FULL, true);
            let got = whole(&chat.messages(&messages, 7));
            assert_eq!(got["messages"], json!(messages));
            assert_eq!(
                (&got["max_tokens"], &got["min_tokens"], &got["stream"]),
                (&json!(7), &json!(7), &json!(true))
            );
            let completions = Encoder::new(Api::Completions, "m", &Map::new(), Pinning::FULL, true);
            assert_eq!(whole(&completions.messages(&messages, 7))["prompt"], joined);
        }
        // A prompt and a single message encode to the same request.
        let e = Encoder::new(Api::Chat, "m", &Map::new(), Pinning::NONE, true);
        let one = whole(&e.request(&e.prefix(Some("s")), "u", 3));
        assert_eq!(one, whole(&e.messages(&said(&[(Role::System, "s"), (Role::User, "u")]), 3)));
    }

    #[test]
    fn token_ids_are_numbers() {
        let e = Encoder::new(Api::Completions, "m", &Map::new(), Pinning::NONE, false);
        let expected =
            json!({ "model": "m", "stream": true, "prompt": [1, 22, 4_000_000_000_u32], "max_tokens": 2 });
        assert_eq!(whole(&e.tokens(&[1, 22, 4_000_000_000], 2)), expected);
        assert_eq!(whole(&e.tokens(&[], 2))["prompt"], json!([]));
    }

    #[test]
    fn a_class_has_its_own_model_and_fields() {
        let body = extra(json!({ "temperature": 1.0, "stop": ["a"] }));
        let e = Encoder::new(Api::Chat, "m", &body, Pinning::FULL, true);
        for (model, own, field, expected) in [
            (None, json!({}), "model", json!("m")),
            (Some("lora"), json!({}), "model", json!("lora")),
            (None, json!({}), "temperature", json!(1.0)),
            (None, json!({ "temperature": 0.5 }), "temperature", json!(0.5)),
            (None, json!({ "top_p": 0.5 }), "stop", json!(["a"])),
            (None, json!({ "max_tokens": 3 }), "max_tokens", json!(3)),
            (None, json!({ "max_tokens": 3 }), "min_tokens", Value::Null),
            (None, json!({}), "min_tokens", json!(9)),
            (None, json!({}), "stream_options", json!({ "include_usage": true })),
        ] {
            let varied = e.varied(model, &extra(own.clone()));
            let got = whole(&varied.request(&varied.prefix(None), "x", 9));
            assert_eq!(got.get(field).unwrap_or(&Value::Null), &expected, "{own} {field}");
        }
    }

    #[test]
    fn without_a_stream_nothing_is_said_of_one() {
        for usage in [true, false] {
            let e = Encoder::new(Api::Chat, "m", &Map::new(), Pinning::FULL, usage).whole();
            let got = whole(&e.request(&e.prefix(None), "x", 9));
            assert!(got.get("stream").is_none() && got.get("stream_options").is_none(), "{got}");
            assert_eq!((&got["ignore_eos"], &got["min_tokens"]), (&json!(true), &json!(9)));
        }
    }

    proptest! {
        #[test]
        fn any_text_survives(system in ".*", user in ".*", model in ".*") {
            for api in [Api::Chat, Api::Completions, Api::Responses, Api::Messages] {
                let e = Encoder::new(api, &model, &Map::new(), Pinning::FULL, true);
                let got = whole(&e.request(&e.prefix(Some(&system)), &user, 1));
                prop_assert_eq!(got["model"].as_str(), Some(&*model));
                match api {
                    Api::Chat => prop_assert_eq!(got["messages"][1]["content"].as_str(), Some(&*user)),
                    Api::Completions => prop_assert_eq!(got["prompt"].as_str(), Some(&*format!("{system}{user}"))),
                    Api::Responses => prop_assert_eq!(got["input"][1]["content"].as_str(), Some(&*user)),
                    _ => prop_assert_eq!(got["system"].as_str(), Some(&*system)),
                }
                let messages = [Message::new(Role::System, &system), Message::new(Role::User, &user)];
                let got = whole(&e.messages(&messages, 1));
                match api {
                    Api::Chat => prop_assert_eq!(&got["messages"], &json!(messages)),
                    Api::Completions => prop_assert_eq!(got["prompt"].as_str(), Some(&*format!("{system}\n{user}"))),
                    Api::Responses => prop_assert_eq!(&got["input"], &json!(messages)),
                    _ => prop_assert_eq!(&got["messages"], &json!(messages[1..])),
                }
            }
        }
    }
}
