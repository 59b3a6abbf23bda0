//! Whole streams of the APIs whose events name their type, from bytes to the record.

use super::*;
use crate::client::encoder::Encoder;
use crate::client::payload::AskedLength;
use crate::client::sse::Parser;
use crate::client::tally::{End, Tally};
use goodput_core::message::{Message, Role, ToolCall, Tools};
use goodput_core::record::{Failure, Outcome, Phase, Record, TokenSource};
use proptest::prelude::*;
use std::time::Duration;

/// The events of an answer of three tokens in one API.
struct Events {
    api: Api,
    begin: &'static [&'static str],
    text: &'static str,
    empty: &'static str,
    thought: &'static str,
    call: &'static str,
    /// The end, with usage.
    end: &'static [&'static str],
    /// The end without usage.
    uncounted: &'static [&'static str],
    /// The end with 10^18 output tokens.
    huge: &'static [&'static str],
    error: &'static str,
    finish: &'static str,
}

const RESPONSES: Events = Events {
    api: Api::Responses,
    begin: &[
        r#"{"type":"response.created","response":{"status":"in_progress","usage":null}}"#,
        r#"{"type":"response.output_item.added","item":{"type":"message","content":[]}}"#,
    ],
    text: r#"{"type":"response.output_text.delta","delta":"é \"x\""}"#,
    empty: r#"{"type":"response.output_text.delta","delta":""}"#,
    thought: r#"{"type":"response.reasoning_text.delta","delta":"hm"}"#,
    call: r#"{"type":"response.function_call_arguments.delta","delta":"{}"}"#,
    end: &[
        r#"{"type":"response.output_text.done","text":"all of it"}"#,
        r#"{"type":"response.completed","response":{"incomplete_details":{"reason":"max_output_tokens"},"usage":{"input_tokens":5,"output_tokens":3}}}"#,
    ],
    uncounted: &[
        r#"{"type":"response.incomplete","response":{"incomplete_details":{"reason":"max_output_tokens"},"usage":null}}"#,
    ],
    huge: &[r#"{"type":"response.completed","response":{"usage":{"output_tokens":1000000000000000000}}}"#],
    error: r#"{"type":"response.failed","response":{"error":{"message":"boom"}}}"#,
    finish: "length",
};

const MESSAGES: Events = Events {
    api: Api::Messages,
    begin: &[
        r#"{"type":"message_start","message":{"usage":{"input_tokens":5,"output_tokens":1}}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        r#"{"type":"ping"}"#,
    ],
    text: r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"é \"x\""}}"#,
    empty: r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":""}}"#,
    thought: r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}"#,
    call: r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{}"}}"#,
    end: &[
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":3}}"#,
        r#"{"type":"message_stop"}"#,
    ],
    uncounted: &[
        r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":null}"#,
        r#"{"type":"message_stop"}"#,
    ],
    huge: &[
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1000000000000000000}}"#,
        r#"{"type":"message_stop"}"#,
    ],
    error: r#"{"type":"error","error":{"type":"overloaded_error","message":"boom"}}"#,
    finish: "max_tokens",
};

/// Writes events as a stream, with their names.
fn stream(events: &[&str]) -> String {
    let name = |data: &str| {
        let json: serde_json::Value = serde_json::from_str(data).ok()?;
        Some(format!("event: {}\n", json["type"].as_str()?))
    };
    events.iter().map(|e| format!("{}data: {e}\n\n", name(e).unwrap_or_default())).collect()
}

/// Reads a stream in pieces of this size, of which each takes a millisecond.
fn read(api: Api, bytes: &[u8], piece: usize, asked: Option<AskedLength>) -> Record {
    let (mut tally, mut parser) = (Tally::new(api, None), Parser::new());
    tally.expect(asked);
    let mut at = Duration::ZERO;
    for piece in bytes.chunks(piece.max(1)) {
        at += Duration::from_millis(1);
        parser.feed(piece, |item| tally.feed(at, parse_event(api, item), item.data)).unwrap();
    }
    parser.finish(|item| tally.feed(at, parse_event(api, item), item.data));
    let mut record = Record::due(0, Phase::Measure, Duration::ZERO);
    tally.finish(End::Eof, at, &mut record);
    record
}

fn whole(events: &Events, parts: &[&[&str]]) -> Record {
    read(events.api, stream(&parts.concat()).as_bytes(), usize::MAX, None)
}

#[test]
fn a_plain_answer_in_pieces_of_any_size() {
    for events in [RESPONSES, MESSAGES] {
        let sound = stream(&[events.begin, &[events.text; 3], events.end].concat());
        let crlf = sound.replace('\n', "\r\n");
        let comments = sound.replace("\n\n", "\n: within\n\n: keep-alive\n\n: \n");
        let bare = sound.replace("data: ", "data:");
        let split = sound.replace(r#"{"type""#, "{\ndata: \"type\"");
        for text in [&sound, &crlf, &comments, &bare, &split] {
            // Pieces end within events, within UTF-8 and within CR LF.
            for piece in [1, 2, 3, 7, 64, usize::MAX] {
                let r = read(events.api, text.as_bytes(), piece, None);
                let why = format!("{:?} {piece} {r:?}", events.api);
                assert_eq!(
                    (r.outcome, r.failure, r.finish.as_deref()),
                    (Outcome::Ok, None, Some(events.finish)),
                    "{why}"
                );
                assert_eq!((r.input_tokens, r.output_tokens, r.events), (Some(5), Some(3), 3), "{why}");
                assert_eq!(r.token_source, Some(TokenSource::Usage), "{why}");
                assert!(r.first_event <= r.first_token && r.first_token == r.first_content, "{why}");
            }
        }
    }
}

/// Rows: the parts of the stream, its failure, the output tokens, and the events with tokens.
#[test]
fn quirks() {
    let (other, choices) = (
        r#"{"type":"response.of_tomorrow","delta":"x","usage":{"output_tokens":99}}"#,
        r#"{"choices":[{"delta":{"content":"x"}}]}"#,
    );
    let chat_error = r#"{"error":{"message":"boom","code":500}}"#;
    for e in [RESPONSES, MESSAGES] {
        let (text, begin, end) = (&[e.text][..], e.begin, e.end);
        let last = end.len() - 1;
        for (why, parts, failure, tokens, n) in [
            (
                "events of another kind",
                vec![begin, &[other, choices], text, text, text, end],
                None,
                Some(3),
                3,
            ),
            (
                "nulls",
                vec![begin, &[r#"{"type":null,"delta":null,"usage":null,"error":null}"#], text, end],
                None,
                Some(3),
                1,
            ),
            ("empty deltas are no tokens", vec![begin, &[e.empty; 4], text, text, end], None, Some(3), 2),
            ("reasoning and a call are tokens", vec![begin, &[e.thought, e.call], end], None, Some(3), 2),
            ("no usage: an estimate", vec![begin, text, text, e.uncounted], None, Some(2), 2),
            ("[DONE] after the end", vec![begin, text, end, &["[DONE]"]], None, Some(3), 1),
            ("events after the end", vec![begin, text, end, text, &[e.error]], None, Some(3), 1),
            ("nothing but the end", vec![begin, end], Some(Failure::Empty), Some(3), 0),
            ("an error", vec![begin, text, &[e.error], end], Some(Failure::StreamError), None, 1),
            ("an error as in a chat", vec![begin, text, &[chat_error]], Some(Failure::StreamError), None, 1),
            ("no end", vec![begin, text, text], Some(Failure::Truncated), None, 2),
            ("[DONE] in place of an end", vec![begin, text, &["[DONE]"]], Some(Failure::Truncated), None, 1),
            ("all but the last event", vec![begin, text, &end[..last]], Some(Failure::Truncated), None, 1),
            ("half an event", vec![begin, text, &[r#"{"type":"respon"#]], Some(Failure::Malformed), None, 1),
            ("no event at all", vec![], Some(Failure::Truncated), None, 0),
            ("a huge count", vec![begin, text, e.huge], Some(Failure::Overrun), None, 1),
            (
                "more events than tokens",
                vec![begin, &[e.text; 13], end],
                Some(Failure::Miscounted),
                Some(3),
                13,
            ),
        ] {
            let r = whole(&e, &parts);
            let why = format!("{:?}, {why}: {r:?}", e.api);
            assert_eq!((r.failure, r.events), (failure, n), "{why}");
            // An unfinished answer may know some of its tokens, which nothing uses.
            if failure.is_none() {
                assert_eq!((r.outcome, r.output_tokens), (Outcome::Ok, tokens), "{why}");
            }
        }
        // `event: error`, whatever its data are.
        let r = read(e.api, b"event: error\ndata: boom\n\n", 9, None);
        assert_eq!(r.failure, Some(Failure::StreamError));
    }
}

/// Rows: the length asked for, the tokens that the server counts, and the failure. The text is of one word.
#[test]
fn counts_are_checked_against_the_length_asked_for() {
    for (asked, counted, failure) in
        [(3, 3, None), (3, 11, None), (3, 30, Some(Failure::Miscounted)), (3, 2000, Some(Failure::Overrun))]
    {
        for e in [RESPONSES, MESSAGES] {
            let text = stream(&[e.begin, &[e.text; 3], e.end].concat())
                .replace("\"output_tokens\":3", &format!("\"output_tokens\":{counted}"));
            let asked = Some(AskedLength { tokens: asked, is_pinned: false });
            let r = read(e.api, text.as_bytes(), 64, asked);
            assert_eq!(r.failure, failure, "{:?} {counted}: {r:?}", e.api);
        }
    }
}

proptest! {
    /// No input makes a parser panic, and the size of the reads changes nothing.
    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..200), piece in 1..9_usize) {
        for api in Api::ALL {
            let _ = parse_document(api, &bytes);
            let _ = (Dialect::of(api).answer_text)(&bytes, true);
            let _ = (Dialect::of(api).answer_text)(&bytes, false);
            let ends = |r: Record| (r.outcome, r.failure, r.output_tokens, r.events, r.finish);
            prop_assert_eq!(ends(read(api, &bytes, piece, None)), ends(read(api, &bytes, usize::MAX, None)));
        }
    }

    /// Neither does any JSON value in a field of an event.
    #[test]
    fn any_json_is_read(kind in "response\\.[a-z_.]{0,20}|message_(start|delta|stop)|content_block_(start|delta)|error", value in any_json()) {
        for api in Api::ALL {
            for field in ["delta", "response", "message", "content_block", "usage", "error", "item", "output", "content"] {
                let data = format!(r#"{{"type":"{kind}","{field}":{value}}}"#);
                let _ = (parse_event(api, Item { data: data.as_bytes(), error: false }), parse_document(api, data.as_bytes()));
                let _ = (Dialect::of(api).answer_text)(data.as_bytes(), false);
                let _ = (Dialect::of(api).answer_text)(stream(&[&data]).as_bytes(), true);
            }
        }
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    let key = prop::sample::select(vec![
        "type",
        "text",
        "thinking",
        "name",
        "input",
        "usage",
        "status",
        "error",
        "message",
        "reason",
        "stop_reason",
        "output_tokens",
        "input_tokens",
        "content",
        "output",
        "summary",
        "incomplete_details",
        "input_tokens_details",
        "cached_tokens",
    ]);
    leaf.prop_recursive(4, 32, 4, move |inner| {
        let object = prop::collection::vec((key.clone(), inner.clone()), 0..4);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            object.prop_map(|pairs| pairs
                .into_iter()
                .map(|(k, v)| (k.to_owned(), v))
                .collect::<Map<_, _>>()
                .into()),
        ]
    })
}

/// The plan refuses images where there is no form for them.
#[test]
fn an_api_takes_images_if_it_has_a_form_for_them() {
    for api in Api::ALL {
        let has_form = matches!(Dialect::of(api).prompt, PromptWriter::Text { parts: Some(_), .. });
        assert_eq!(api.takes_images(), has_form, "{api:?}");
    }
}

/// Each API has its own form for calls of tools and their outputs; text APIs read them as text.
#[test]
fn tool_calls_are_sent_in_the_form_of_each_api() {
    let call =
        |id: &str, arguments: &str| ToolCall { id: id.into(), name: "f".into(), arguments: arguments.into() };
    let with =
        |role, content: &str, tools| Message { tools: Some(Box::new(tools)), ..Message::new(role, content) };
    let messages = [
        Message::user("q"),
        with(Role::Assistant, "", Tools::Calls(vec![call("a", r#"{"x": 1}"#), call("b", "{}")])),
        with(Role::Tool, "one", Tools::OutputOf("a".into())),
        with(Role::Assistant, "more", Tools::Calls(vec![call("c", "{}")])),
    ];
    let user = json!({ "role": "user", "content": "q" });
    let chat_call = |id: &str, arguments: &str| json!({ "id": id, "type": "function", "function": { "name": "f", "arguments": arguments } });
    let item = |id: &str, arguments: &str| json!({ "type": "function_call", "call_id": id, "name": "f", "arguments": arguments });
    let block = |id: &str, input: Value| json!({ "type": "tool_use", "id": id, "name": "f", "input": input });
    for (api, field, expected) in [
        (
            Api::Chat,
            "messages",
            json!([user,
                { "role": "assistant", "content": null, "tool_calls": [chat_call("a", r#"{"x": 1}"#), chat_call("b", "{}")] },
                { "role": "tool", "tool_call_id": "a", "content": "one" },
                { "role": "assistant", "content": "more", "tool_calls": [chat_call("c", "{}")] }]),
        ),
        (
            Api::Responses,
            "input",
            json!([user, item("a", r#"{"x": 1}"#), item("b", "{}"),
                { "type": "function_call_output", "call_id": "a", "output": "one" },
                { "role": "assistant", "content": "more" }, item("c", "{}")]),
        ),
        (
            Api::Messages,
            "messages",
            json!([user,
                { "role": "assistant", "content": [block("a", json!({ "x": 1 })), block("b", json!({}))] },
                { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "a", "content": "one" }] },
                { "role": "assistant", "content": [{ "type": "text", "text": "more" }, block("c", json!({}))] }]),
        ),
        (Api::Completions, "prompt", json!("qf{\"x\": 1}f{}\nonemoref{}")),
    ] {
        let payload = Encoder::new(api, "m", &Map::new(), Pinning::NONE, true).messages(&messages, 7);
        let sent: Value = serde_json::from_slice(&[&payload.head[..], &payload.tail[..]].concat()).unwrap();
        assert_eq!(sent[field], expected, "{}", api.name());
    }
}
