use super::*;
use crate::client::encoder::Encoder;
use crate::client::event::Text;
use crate::client::payload::Payload;
use goodput_core::endpoint::Api;
use serde_json::{Map, json};

fn read(data: &str) -> Parsed {
    event(Item { data: data.as_bytes(), error: false })
}

fn event_of(data: &str) -> Event {
    match read(data) {
        Parsed::Event(event) => event,
        other => panic!("{data}: {other:?}"),
    }
}

/// Rows: the event, and the text of its content, reasoning and tool calls.
#[test]
fn blocks_and_their_deltas_carry_the_text() {
    let (n, e, s) = (Text::Absent, Text::Empty, Text::Some);
    for (kind, fields, content, reasoning, calls) in [
        ("content_block_delta", r#""delta":{"type":"text_delta","text":"hi"},"index":0"#, s, n, n),
        ("content_block_delta", r#""delta":{"type":"text_delta","text":""}"#, e, n, n),
        ("content_block_delta", r#""delta":{"type":"text_delta","text":null}"#, n, n, n),
        ("content_block_delta", r#""delta":null"#, n, n, n),
        ("content_block_delta", r#""index":0"#, n, n, n),
        ("content_block_delta", r#""delta":{"type":"thinking_delta","thinking":"hm"}"#, n, s, n),
        ("content_block_delta", r#""delta":{"type":"signature_delta","signature":"ab"}"#, n, n, n),
        ("content_block_delta", r#""delta":{"type":"input_json_delta","partial_json":"{\""}"#, n, n, s),
        ("content_block_delta", r#""delta":{"type":"input_json_delta","partial_json":""}"#, n, n, e),
        ("content_block_start", r#""content_block":{"type":"text","text":""}"#, e, n, n),
        ("content_block_start", r#""content_block":{"type":"thinking","thinking":""}"#, n, e, n),
        (
            "content_block_start",
            r#""content_block":{"type":"tool_use","id":"c","name":"f","input":{}}"#,
            n,
            n,
            s,
        ),
        ("content_block_stop", r#""index":0"#, n, n, n),
        ("of_tomorrow", r#""delta":{"text":"x"}"#, n, n, n),
        ("of_tomorrow", r#""delta":"x","message":1,"content_block":[],"usage":"none""#, n, n, n),
    ] {
        let data = format!(r#"{{"type":"{kind}",{fields}}}"#);
        let got = event_of(&data);
        assert_eq!((got.content, got.reasoning, got.tool_calls), (content, reasoning, calls), "{data}");
        assert_eq!((got.error, got.usage, got.finish_reason), (None, None, None), "{data}");
    }
    let delta = r#"{"type":"content_block_delta","delta":{"text":"a\nb"}}"#;
    assert_eq!(event_of(delta).text_bytes, 4);
}

/// Rows: the event, its usage, and the finish reason.
#[test]
fn usage_and_stop_reasons() {
    let u = |prompt, completion, cached| Some(Usage { prompt, completion, cached, reasoning: None });
    let start = |usage| format!(r#"{{"type":"message_start","message":{{"content":[],"usage":{usage}}}}}"#);
    let delta = |reason, usage| {
        format!(r#"{{"type":"message_delta","delta":{{"stop_reason":{reason}}},"usage":{usage}}}"#)
    };
    for (data, usage, finish) in [
        (start(r#"{"input_tokens":9,"output_tokens":1}"#), u(Some(9), None, None), None),
        (
            start(r#"{"input_tokens":9,"cache_read_input_tokens":4,"cache_creation_input_tokens":2}"#),
            u(Some(15), None, Some(4)),
            None,
        ),
        (start("null"), None, None),
        (r#"{"type":"message_start","message":null}"#.into(), None, None),
        (delta(r#""max_tokens""#, r#"{"output_tokens":7}"#), u(None, Some(7), None), Some("max_tokens")),
        (
            delta(r#""end_turn""#, r#"{"input_tokens":5,"output_tokens":7,"cache_read_input_tokens":4}"#),
            u(Some(9), Some(7), Some(4)),
            Some("end_turn"),
        ),
        (
            delta("null", r#"{"output_tokens":1e30,"cache_read_input_tokens":null}"#),
            u(None, Some(u64::MAX), None),
            None,
        ),
        (delta(r#""tool_use""#, "null"), None, Some("tool_use")),
        (r#"{"type":"message_delta"}"#.into(), None, None),
    ] {
        let got = event_of(&data);
        assert_eq!(
            (got.usage, got.finish_reason.as_deref(), got.has_choice),
            (usage, finish, false),
            "{data}"
        );
    }
    for (data, expected) in [
        (r#"{"type":"message_stop"}"#, Parsed::Done),
        (r#"{"type":"ping"}"#, Parsed::Ignored),
        ("[DONE]", Parsed::Ignored),
        (": ping", Parsed::Ignored),
        ("", Parsed::Ignored),
        ("{}", Parsed::Event(Event::default())),
        (r#"{"type":null,"error":null}"#, Parsed::Event(Event::default())),
        (r#"{"type":"message_start","message":7}"#, Parsed::Malformed),
        ("7", Parsed::Malformed),
        (r#"{"type":"content_block_delta","delta":{"text":"a"#, Parsed::Malformed),
    ] {
        assert_eq!(read(data), expected, "{data:?}");
    }
}

#[test]
fn errors_in_all_their_forms() {
    for (data, says) in [
        (r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, "Overloaded"),
        (r#"{"type":"error","message":"boom"}"#, "boom"),
        (r#"{"type":"error"}"#, "error"),
        (r#"{"error":{"message":"boom"}}"#, "boom"),
    ] {
        assert_eq!(event_of(data).error.as_deref(), Some(says), "{data}");
    }
    let data = br#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let Parsed::Event(got) = event(Item { data, error: true }) else { panic!("an event") };
    assert_eq!(got.error.as_deref(), Some("Overloaded"), "after `event: error`");
}

#[test]
fn documents_are_read() {
    for (body, expected) in [
        (
            r#"{"type":"message","content":[{"type":"text","text":"hi"}],"stop_reason":"max_tokens","usage":{"input_tokens":5,"output_tokens":2}}"#,
            Event {
                content: Text::Some,
                text_bytes: 2,
                finish_reason: Some("max_tokens".into()),
                usage: Some(Usage { prompt: Some(5), completion: Some(2), cached: None, reasoning: None }),
                ..Event::default()
            },
        ),
        (
            r#"{"content":[{"type":"thinking","thinking":"so","signature":"x"},{"type":"tool_use","name":"f","input":{"a":1}}],"stop_reason":null}"#,
            Event { reasoning: Text::Some, tool_calls: Text::Some, text_bytes: 8, ..Event::default() },
        ),
        (r#"{"content":[]}"#, Event::default()),
    ] {
        assert_eq!(
            document(body.as_bytes()),
            Parsed::Event(Event { has_choice: true, ..expected }),
            "{body}"
        );
    }
    let Parsed::Event(got) = document(br#"{"type":"error","error":{"message":"boom"}}"#) else {
        panic!("an event")
    };
    assert_eq!(got.error.as_deref(), Some("boom"));
    for body in ["", "[]", "{}", r#"{"content":null}"#, r#"{"choices":[]}"#, r#"{"content":"x"}"#] {
        assert_eq!(document(body.as_bytes()), Parsed::Malformed, "{body}");
    }
}

#[test]
fn texts_are_put_together() {
    let events = [
        r#"{"type":"message_start","message":{"content":[]}}"#,
        r#"{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"so "}}"#,
        r#"{"type":"content_block_start","content_block":{"type":"tool_use","name":"f","input":{}}}"#,
        r#"{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{}"}}"#,
        r#"{"type":"content_block_start","content_block":{"type":"text","text":""}}"#,
        r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"one \"two\""}}"#,
        r#"{"type":"ping"}"#,
        "no json",
        r#"{"type":"message_stop"}"#,
        r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"after the end"}}"#,
    ];
    let body: String = events.iter().map(|e| format!("event: x\ndata: {e}\n\n")).collect();
    let got = answer_text(body.as_bytes(), true);
    assert_eq!((got.text.as_str(), got.other_channels.as_str()), ("one \"two\"", "so f{}"));
    let body = br#"{"content":[{"type":"thinking","thinking":"so"},{"type":"text","text":"one"},{"type":"tool_use","name":"f","input":{"a":1}}]}"#;
    let got = answer_text(body, false);
    assert_eq!((got.text.as_str(), got.other_channels.as_str()), ("one", "sof{\"a\":1}"));
    assert_eq!(answer_text(b"no json", false), AnswerText::default());
}

fn sent(payload: &Payload) -> Value {
    serde_json::from_slice(&[&payload.head[..], &payload.tail[..]].concat()).unwrap()
}

#[test]
fn requests() {
    let e = Encoder::new(Api::Messages, "m", &Map::new(), Pinning::FULL, true);
    let prefix = e.prefix(Some("be \"brief\"\n"));
    let (a, b) = (e.request(&prefix, "hé\\llo", 7), e.request(&prefix, "", 7));
    assert_eq!(a.head.as_ptr(), b.head.as_ptr(), "the prefix is shared, not copied");
    let expected = json!({ "model": "m", "stream": true, "system": "be \"brief\"\n",
        "messages": [{ "role": "user", "content": "hé\\llo" }], "max_tokens": 7 });
    assert_eq!(sent(&a), expected);
    assert_eq!(a.asked.map(|asked| (asked.tokens, asked.is_pinned)), Some((7, false)));
    let said = [
        (Role::System, "be"),
        (Role::System, "brief"),
        (Role::User, "one"),
        (Role::Assistant, " two"),
        (Role::Tool, "{}"),
        (Role::System, "go on"),
    ];
    let messages: Vec<Message> = said.iter().map(|(role, text)| Message::new(*role, *text)).collect();
    let got = sent(&e.messages(&messages, 7));
    assert_eq!(got["system"], "be\nbrief");
    let roles: Vec<_> =
        got["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "user", "user"]);
    // A prompt and its messages encode to the same request.
    let one = sent(&e.request(&e.prefix(Some("s")), "u", 3));
    assert_eq!(one, sent(&e.messages(&[Message::system("s"), Message::user("u")], 3)));
    let e = Encoder::new(Api::Messages, "m", &Map::new(), Pinning::NONE, false).whole();
    let messages = json!([{ "role": "user", "content": "x" }]);
    let got = sent(&e.request(&e.prefix(None), "x", 7));
    assert_eq!(got, json!({ "model": "m", "messages": messages, "max_tokens": 7 }));
}
