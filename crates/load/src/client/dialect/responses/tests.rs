use super::*;
use crate::client::encoder::Encoder;
use crate::client::event::Text;
use crate::client::payload::Payload;
use goodput_core::endpoint::Api;
use serde_json::json;

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
fn deltas_carry_the_text_and_nothing_else_does() {
    let (n, e, s) = (Text::Absent, Text::Empty, Text::Some);
    for (kind, fields, content, reasoning, calls) in [
        ("response.output_text.delta", r#""delta":"hi","logprobs":[]"#, s, n, n),
        ("response.output_text.delta", r#""delta":"""#, e, n, n),
        ("response.output_text.delta", r#""delta":null"#, n, n, n),
        ("response.output_text.delta", r#""item_id":"x""#, n, n, n),
        ("response.refusal.delta", r#""delta":"no""#, s, n, n),
        ("response.reasoning_text.delta", r#""delta":"hm""#, n, s, n),
        ("response.reasoning_summary_text.delta", r#""delta":"hm""#, n, s, n),
        ("response.function_call_arguments.delta", r#""delta":"{\"a\"""#, n, n, s),
        ("response.mcp_call_arguments.delta", r#""delta":"{""#, n, n, s),
        ("response.created", r#""response":{"status":"in_progress","usage":null,"error":null}"#, n, n, n),
        ("response.in_progress", r#""response":null"#, n, n, n),
        ("response.output_item.added", r#""item":{"type":"function_call","name":"f"}"#, n, n, n),
        ("response.content_part.added", r#""part":{"text":"","type":"output_text"}"#, n, n, n),
        ("response.output_text.done", r#""text":"hi""#, n, n, n),
        ("response.function_call_arguments.done", r#""arguments":"{}""#, n, n, n),
        ("response.output_item.done", r#""item":{"content":[{"text":"hi"}]}"#, n, n, n),
        ("response.of_tomorrow", r#""delta":{"any":["thing"]},"response":7"#, n, n, n),
    ] {
        let data = format!(r#"{{{fields},"sequence_number":4,"type":"{kind}"}}"#);
        let got = event_of(&data);
        assert_eq!((got.content, got.reasoning, got.tool_calls), (content, reasoning, calls), "{data}");
        assert_eq!(
            (got.error, got.usage, got.is_last, got.finish_reason),
            (None, None, false, None),
            "{data}"
        );
    }
    assert_eq!(event_of(r#"{"delta":"a\nb","type":"response.output_text.delta"}"#).text_bytes, 4);
}

/// Rows: the event, its response, and the finish reason.
#[test]
fn the_last_event_has_the_finish_reason_and_the_usage() {
    for (kind, response, finish) in [
        ("completed", r#"{"status":"completed","incomplete_details":null}"#, "stop"),
        ("completed", "{}", "stop"),
        (
            "completed",
            r#"{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}"#,
            "length",
        ),
        (
            "incomplete",
            r#"{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}"#,
            "length",
        ),
        ("incomplete", r#"{"incomplete_details":{"reason":"content_filter"}}"#, "content_filter"),
        ("incomplete", r#"{"incomplete_details":{"reason":null}}"#, "incomplete"),
        ("incomplete", "null", "incomplete"),
        ("completed", r#"{"status":"cancelled"}"#, "cancelled"),
    ] {
        let got = event_of(&format!(r#"{{"response":{response},"type":"response.{kind}"}}"#));
        assert_eq!((got.finish_reason.as_deref(), got.is_last), (Some(finish), true), "{kind} {response}");
        assert!(!got.has_choice && got.error.is_none() && got.usage.is_none());
    }
    let u = |prompt, completion, cached, reasoning| Usage { prompt, completion, cached, reasoning };
    for (usage, expected) in [
        (
            r#"{"input_tokens":9,"input_tokens_details":{"cached_tokens":4},"output_tokens":7,"output_tokens_details":{"reasoning_tokens":3},"total_tokens":16}"#,
            u(Some(9), Some(7), Some(4), Some(3)),
        ),
        (
            r#"{"input_tokens":9,"output_tokens":null,"input_tokens_details":null}"#,
            u(Some(9), None, None, None),
        ),
        (r#"{"input_tokens":-1,"output_tokens":1e30}"#, u(None, Some(u64::MAX), None, None)),
        ("{}", Usage::default()),
    ] {
        let data = format!(r#"{{"response":{{"usage":{usage}}},"type":"response.completed"}}"#);
        assert_eq!(event_of(&data).usage, Some(expected), "{usage}");
    }
}

#[test]
fn errors_in_all_their_forms() {
    for (data, says) in [
        (
            r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"boom"}}}"#,
            "boom",
        ),
        (r#"{"type":"response.failed","response":{"error":null}}"#, "response.failed"),
        (r#"{"type":"response.failed"}"#, "response.failed"),
        (
            r#"{"type":"error","code":"server_error","message":"boom","param":null,"sequence_number":3}"#,
            "boom",
        ),
        (r#"{"type":"error","error":{"message":"boom"}}"#, "boom"),
        (r#"{"type":"error"}"#, "error"),
        (r#"{"error":{"message":"boom","code":500}}"#, "boom"),
        (r#"{"error":"boom"}"#, "boom"),
        (r#"{"type":"response.completed","response":{"error":{"message":"boom"}}}"#, "boom"),
    ] {
        assert_eq!(event_of(data).error.as_deref(), Some(says), "{data}");
    }
    let item = Item { data: br#"{"type":"error","message":"boom"}"#, error: true };
    let Parsed::Event(got) = event(item) else { panic!("an event") };
    assert_eq!(got.error.as_deref(), Some("boom"), "after `event: error`");
    for (data, expected) in [
        ("[DONE]", Parsed::Ignored),
        (": ping", Parsed::Ignored),
        ("", Parsed::Ignored),
        ("{}", Parsed::Event(Event::default())),
        (r#"{"type":null,"error":null}"#, Parsed::Event(Event::default())),
        (r#"{"type":"response.completed","response":7}"#, Parsed::Malformed),
        ("7", Parsed::Malformed),
        ("[]", Parsed::Malformed),
        (r#"{"type":"response.output_text.delta","delta":"a"#, Parsed::Malformed),
    ] {
        assert_eq!(read(data), expected, "{data:?}");
    }
}

#[test]
fn documents_are_read() {
    let usage = Usage { prompt: Some(5), completion: Some(2), cached: Some(0), reasoning: Some(0) };
    for (body, expected) in [
        (
            r#"{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"error":null,"output":[{"type":"message","content":[
                {"type":"output_text","text":"hi","annotations":[]}]}],"usage":{"input_tokens":5,"output_tokens":2,
                "input_tokens_details":{"cached_tokens":0},"output_tokens_details":{"reasoning_tokens":0}}}"#,
            Event {
                content: Text::Some,
                text_bytes: 2,
                finish_reason: Some("length".into()),
                usage: Some(usage),
                ..Event::default()
            },
        ),
        (
            r#"{"status":"completed","output":[{"type":"reasoning","summary":[{"text":"so"}],"content":null},
                {"type":"function_call","name":"f","arguments":"{}"},{"type":"message","content":[{"type":"refusal","refusal":"no"}]}]}"#,
            Event {
                content: Text::Some,
                reasoning: Text::Some,
                tool_calls: Text::Some,
                text_bytes: 7,
                finish_reason: Some("stop".into()),
                ..Event::default()
            },
        ),
        (r#"{"output":[]}"#, Event { finish_reason: Some("stop".into()), ..Event::default() }),
    ] {
        assert_eq!(
            document(body.as_bytes()),
            Parsed::Event(Event { has_choice: true, ..expected }),
            "{body}"
        );
    }
    let failed = br#"{"status":"failed","error":{"code":"server_error","message":"boom"},"output":[]}"#;
    let Parsed::Event(got) = document(failed) else { panic!("an event") };
    assert_eq!(got.error.as_deref(), Some("boom"));
    for body in ["", "[]", "{}", r#"{"output":null}"#, r#"{"choices":[]}"#, r#"{"output":7}"#] {
        assert_eq!(document(body.as_bytes()), Parsed::Malformed, "{body}");
    }
}

#[test]
fn texts_are_put_together() {
    let events = [
        r#"{"type":"response.reasoning_text.delta","delta":"so "}"#,
        r#"{"type":"response.output_item.added","item":{"type":"function_call","name":"f","arguments":""}}"#,
        r#"{"type":"response.function_call_arguments.delta","delta":"{}"}"#,
        r#"{"type":"response.output_text.delta","delta":"one \"two\""}"#,
        "",
        "no json",
        r#"{"type":"response.output_text.delta","delta":"\n"}"#,
        r#"{"type":"response.output_text.done","text":"all"}"#,
        r#"{"type":"response.completed","response":{"output":[]}}"#,
        r#"{"type":"response.output_text.delta","delta":"after the end"}"#,
    ];
    let body: String = events.iter().map(|e| format!("event: x\ndata: {e}\n\n")).collect();
    let got = answer_text(body.as_bytes(), true);
    assert_eq!((got.text.as_str(), got.other_channels.as_str()), ("one \"two\"\n", "so f{}"));
    let body = br#"{"output":[{"type":"reasoning","summary":[{"text":"a"}],"content":[{"text":"b"}]},
        {"type":"function_call","name":"f","arguments":"{}"},
        {"type":"message","content":[{"type":"output_text","text":"one"},{"type":"refusal","refusal":" two"}]}]}"#;
    let got = answer_text(body, false);
    assert_eq!((got.text.as_str(), got.other_channels.as_str()), ("one two", "baf{}"));
    assert_eq!(answer_text(b"no json", false), AnswerText::default());
}

fn sent(payload: &Payload) -> Value {
    serde_json::from_slice(&[&payload.head[..], &payload.tail[..]].concat()).unwrap()
}

#[test]
fn requests() {
    let e = Encoder::new(Api::Responses, "m", &Map::new(), Pinning::FULL, true);
    let prefix = e.prefix(Some("be \"brief\"\n"));
    let (a, b) = (e.request(&prefix, "hé\\llo", 7), e.request(&prefix, "", 7));
    assert_eq!(a.head.as_ptr(), b.head.as_ptr(), "the prefix is shared, not copied");
    let expected = json!({ "model": "m", "stream": true, "store": false, "ignore_eos": true,
        "input": [{ "role": "system", "content": "be \"brief\"\n" }, { "role": "user", "content": "hé\\llo" }],
        "max_output_tokens": 7 });
    assert_eq!(sent(&a), expected);
    assert_eq!(a.asked.map(|asked| (asked.tokens, asked.is_pinned)), Some((7, true)));
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
    let roles: Vec<_> =
        got["input"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "system", "user", "assistant", "user", "system"]);
    // A prompt and its messages encode to the same request.
    let one = sent(&e.request(&e.prefix(Some("s")), "u", 3));
    assert_eq!(one, sent(&e.messages(&[Message::system("s"), Message::user("u")], 3)));
    let own = json!({ "max_output_tokens": 5, "store": true }).as_object().unwrap().clone();
    let e = Encoder::new(Api::Responses, "m", &own, Pinning::NONE, false).whole();
    let got = e.request(&e.prefix(None), "x", 7);
    let input = json!([{ "role": "user", "content": "x" }]);
    assert_eq!(sent(&got), json!({ "model": "m", "store": true, "input": input, "max_output_tokens": 5 }));
    assert_eq!(got.asked.map(|asked| (asked.tokens, asked.is_pinned)), Some((5, false)));
}
