use super::super::Encoder;
use super::*;
use crate::client::encoder::tests::plain;
use goodput_core::message::Role;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn template(body: &str) -> Template {
    let path = if body.contains("{{texts}}") { "results = \"$\"" } else { "text = \"$.t\"" };
    toml::from_str(&format!("path = \"/x\"\nbody = '''{body}'''\n{path}")).unwrap()
}

fn encoder(body: &str) -> Encoder {
    Encoder::of_template(&template(body), "m \"1\"")
}

fn sent(payload: &Payload) -> String {
    String::from_utf8([&payload.head[..], &payload.tail[..]].concat()).unwrap()
}

fn json_of(payload: &Payload) -> Value {
    serde_json::from_str(&sent(payload)).unwrap()
}

const PROMPT: &str = r#"{"model": "{{model}}", "inputs": "<s>{{prompt}}</s>", "n": {{max_tokens}}}"#;
/// The length comes before the prompt, so that requests share no beginning.
const LENGTH_FIRST: &str = r#"{"n": {{max_tokens}}, "inputs": "{{prompt}}"}"#;
const MESSAGES: &str = r#"{"messages": {{messages}}, "options": {"n": {{max_tokens}}}}"#;
const ITEMS: &str = r#"{"query": "{{query}}", "texts": {{texts}}}"#;

#[test]
fn requests_fill_the_body() {
    for (body, system, expected) in [
        (PROMPT, Some("be "), json!({ "model": "m \"1\"", "inputs": "<s>be \"x\"\n</s>", "n": 7 })),
        (PROMPT, None, json!({ "model": "m \"1\"", "inputs": "<s>\"x\"\n</s>", "n": 7 })),
        (LENGTH_FIRST, Some("be "), json!({ "n": 7, "inputs": "be \"x\"\n" })),
        (
            MESSAGES,
            Some("be"),
            json!({ "messages": [{ "role": "system", "content": "be" }, { "role": "user", "content": "\"x\"\n" }], "options": { "n": 7 } }),
        ),
        (
            MESSAGES,
            None,
            json!({ "messages": [{ "role": "user", "content": "\"x\"\n" }], "options": { "n": 7 } }),
        ),
        (ITEMS, None, json!({ "query": "about", "texts": ["\"x\"\n"] })),
    ] {
        let encoder = encoder(body);
        let payload = encoder.request(&encoder.prefix(system), "\"x\"\n", 7);
        assert_eq!(json_of(&payload), expected, "{body}");
    }
}

#[test]
fn the_beginning_is_shared_where_it_is_the_same() {
    for (body, shares) in [(PROMPT, true), (MESSAGES, true), (LENGTH_FIRST, false)] {
        let encoder = encoder(body);
        let prefix = encoder.prefix(Some("shared"));
        let (a, b) = (encoder.request(&prefix, "one", 3), encoder.request(&prefix, "two", 4));
        assert_eq!(!a.head.is_empty() && a.head.as_ptr() == b.head.as_ptr(), shares, "{body}");
        assert!(sent(&b).contains("shared") && sent(&b).contains("two"));
    }
}

#[test]
fn conversations_are_messages_or_one_text() {
    let all = [
        Message::new(Role::System, "s"),
        Message::new(Role::User, "u\""),
        Message::new(Role::Assistant, " a"),
        Message::new(Role::User, "v"),
    ];
    assert_eq!(json_of(&encoder(PROMPT).messages(&all, 2))["inputs"], "<s>s\nu\" a\nv</s>");
    assert_eq!(json_of(&encoder(LENGTH_FIRST).messages(&all, 2)), json!({ "n": 2, "inputs": "s\nu\" a\nv" }));
    assert_eq!(json_of(&encoder(MESSAGES).messages(&all, 2))["messages"], plain(&all));
}

#[test]
fn items_have_a_result_each() {
    let items = ItemTexts { query: Some("q\"".into()), texts: vec!["a".into(), "b".into()] };
    let payload = encoder(ITEMS).items(&items);
    assert_eq!(json_of(&payload), json!({ "query": "q\"", "texts": ["a", "b"] }));
    assert_eq!((payload.expected, payload.asked), (Some(Expected::Results(2)), None));
    let best = encoder(r#"{"texts": {{texts}}, "top_n": 1}"#).items(&items);
    assert_eq!(best.expected, None);
    assert_eq!((encoder(ITEMS).needs_query(), encoder(PROMPT).needs_query()), (true, false));
}

#[test]
fn a_length_is_asked_for_where_the_body_says_it() {
    let asked = |body: &str| {
        let encoder = encoder(body);
        encoder.request(&encoder.prefix(None), "x", 9).asked
    };
    assert_eq!(asked(PROMPT), Some(AskedLength { tokens: 9, is_pinned: false }));
    assert_eq!(asked(r#"{"inputs": "{{prompt}}"}"#), None);
}

#[test]
fn a_class_has_its_own_model() {
    let varied = encoder(PROMPT).varied(Some("lora"), &Map::new());
    assert_eq!(json_of(&varied.request(&varied.prefix(None), "x", 1))["model"], "lora");
    let same = encoder(PROMPT).varied(None, &Map::new());
    assert_eq!(json_of(&same.request(&same.prefix(None), "x", 1))["model"], "m \"1\"");
}

#[test]
fn text_is_not_escaped_in_a_body_that_is_not_json() {
    let plain: Template = toml::from_str(
        "path = \"/x\"\ncontent-type = \"text/plain\"\nbody = \"> {{prompt}}\"\ntext = \"$.t\"",
    )
    .unwrap();
    let encoder = Encoder::of_template(&plain, "m");
    assert_eq!(sent(&encoder.request(&encoder.prefix(Some("a\"")), "b\n", 1)), "> a\"b\n");
}

proptest! {
    #[test]
    fn any_text_survives(system in ".*", user in ".*", model in ".*") {
        for body in [PROMPT, LENGTH_FIRST, MESSAGES] {
            let e = Encoder::of_template(&template(body), &model);
            let got = json_of(&e.request(&e.prefix(Some(&system)), &user, 1));
            let messages = [Message::new(Role::System, &*system), Message::new(Role::User, &*user)];
            let conversation = json_of(&e.messages(&messages, 1));
            if body == MESSAGES {
                prop_assert_eq!(&got["messages"], &plain(&messages));
                prop_assert_eq!(&conversation["messages"], &plain(&messages));
            } else {
                let text = got["inputs"].as_str().unwrap().trim_start_matches("<s>").trim_end_matches("</s>");
                let expected = format!("{system}{user}");
                prop_assert_eq!(text, expected.trim_start_matches("<s>").trim_end_matches("</s>"));
                prop_assert!(conversation["inputs"].as_str().unwrap().contains(&user));
            }
            if body == PROMPT {
                prop_assert_eq!(got["model"].as_str(), Some(&*model));
            }
        }
    }
}
