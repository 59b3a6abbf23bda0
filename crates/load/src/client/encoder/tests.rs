use super::*;
use crate::client::payload::AskedLength;
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
            e.messages(&[Message::user("hello")], 30),
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

/// Returns messages without calls of tools as they are sent.
pub(super) fn plain(messages: &[Message]) -> Value {
    messages.iter().map(|m| json!({ "role": m.role.name(), "content": m.content })).collect()
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
        assert_eq!(got["messages"], plain(&messages));
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
                Api::Chat => prop_assert_eq!(&got["messages"], &plain(&messages)),
                Api::Completions => prop_assert_eq!(got["prompt"].as_str(), Some(&*format!("{system}\n{user}"))),
                Api::Responses => prop_assert_eq!(&got["input"], &plain(&messages)),
                _ => prop_assert_eq!(&got["messages"], &plain(&messages[1..])),
            }
        }
    }
}
