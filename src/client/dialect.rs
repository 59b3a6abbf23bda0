//! The request as JSON: what all requests of a series share is written once, the rest per request.

use super::config::Api;
use super::payload::Payload;
use bytes::Bytes;
use serde_json::{Map, Value};

/// Which fields hold the output at its planned length. Servers differ in what they know; either suffices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pinning {
    /// `ignore_eos`: go on after an end-of-sequence token.
    pub ignore_eos: bool,
    /// `min_tokens`: no end before that many.
    pub min_tokens: bool,
}

impl Pinning {
    /// Both fields.
    pub const FULL: Self = Self { ignore_eos: true, min_tokens: true };
    /// Neither.
    pub const NONE: Self = Self { ignore_eos: false, min_tokens: false };

    /// Whether the output's length is held at all.
    pub const fn holds(self) -> bool {
        self.ignore_eos || self.min_tokens
    }
}

/// Writes requests of one API for one model.
#[derive(Debug, Clone)]
pub struct Encoder {
    api: Api,
    /// `{"model":…,` and everything else that is the same in every request.
    common: String,
    pinning: Pinning,
    /// Whether the plan's body sets the output's length itself.
    own_length: bool,
}

impl Encoder {
    /// An encoder; fields of `extra` take the place of ours, whole.
    pub fn new(api: Api, model: &str, extra: &Map<String, Value>, pinning: Pinning, usage: bool) -> Self {
        let mut fields = Map::new();
        fields.insert("model".into(), model.into());
        fields.insert("stream".into(), true.into());
        if usage {
            fields.insert("stream_options".into(), serde_json::json!({ "include_usage": true }));
        }
        if pinning.ignore_eos {
            fields.insert("ignore_eos".into(), true.into());
        }
        fields.extend(extra.iter().map(|(k, v)| (k.clone(), v.clone())));
        let own_length = extra.contains_key("max_tokens") || extra.contains_key("max_completion_tokens");
        let min_tokens = pinning.min_tokens && !own_length && !extra.contains_key("min_tokens");
        let object = Value::Object(fields).to_string();
        let mut common = object.strip_suffix('}').expect("an object ends in a brace").to_owned();
        common.push(',');
        Self { api, common, pinning: Pinning { min_tokens, ..pinning }, own_length }
    }

    /// The request up to where the user's text begins. `system` is what many requests share: a system message in chat, the
    /// beginning of the prompt in completions.
    pub fn prefix(&self, system: Option<&str>) -> Bytes {
        let mut out = self.common.clone().into_bytes();
        match self.api {
            Api::Chat => {
                out.extend_from_slice(b"\"messages\":[");
                if let Some(system) = system {
                    out.extend_from_slice(b"{\"role\":\"system\",\"content\":\"");
                    escape(&mut out, system);
                    out.extend_from_slice(b"\"},");
                }
                out.extend_from_slice(b"{\"role\":\"user\",\"content\":\"");
            }
            Api::Completions => {
                out.extend_from_slice(b"\"prompt\":\"");
                escape(&mut out, system.unwrap_or_default());
            }
        }
        out.into()
    }

    /// One request: a prefix of this encoder, the user's text, and how many tokens to answer with.
    pub fn request(&self, prefix: &Bytes, user: &str, output_tokens: u32) -> Payload {
        let mut out = Vec::with_capacity(user.len() + user.len() / 16 + 64);
        escape(&mut out, user);
        out.extend_from_slice(match self.api {
            Api::Chat => b"\"}]",
            Api::Completions => b"\"",
        });
        if !self.own_length {
            out.extend_from_slice(format!(",\"max_tokens\":{output_tokens}").as_bytes());
        }
        if self.pinning.min_tokens {
            out.extend_from_slice(format!(",\"min_tokens\":{output_tokens}").as_bytes());
        }
        out.push(b'}');
        Payload { head: prefix.clone(), tail: out.into() }
    }
}

/// Appends `text` as the inside of a JSON string. Escapes are per character, so pieces may be joined.
fn escape(out: &mut Vec<u8>, text: &str) {
    let start = out.len();
    serde_json::to_writer(&mut *out, text).expect("writing a string to memory cannot fail");
    out.remove(start);
    out.pop();
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn whole(p: &Payload) -> Value {
        serde_json::from_slice(&[&p.head[..], &p.tail[..]].concat()).expect("a request is JSON")
    }

    fn extra(v: Value) -> Map<String, Value> {
        v.as_object().unwrap().clone()
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

    proptest! {
        #[test]
        fn any_text_survives(system in ".*", user in ".*", model in ".*") {
            for api in [Api::Chat, Api::Completions] {
                let e = Encoder::new(api, &model, &Map::new(), Pinning::FULL, true);
                let got = whole(&e.request(&e.prefix(Some(&system)), &user, 1));
                prop_assert_eq!(got["model"].as_str(), Some(&*model));
                match api {
                    Api::Chat => prop_assert_eq!(got["messages"][1]["content"].as_str(), Some(&*user)),
                    Api::Completions => prop_assert_eq!(got["prompt"].as_str(), Some(&*format!("{system}{user}"))),
                }
            }
        }
    }
}
