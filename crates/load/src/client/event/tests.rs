use super::*;

fn read(data: &str) -> Parsed {
    parse(Item { data: data.as_bytes(), error: false })
}

fn event(data: &str) -> Event {
    match read(data) {
        Parsed::Event(e) => e,
        other => panic!("{data}: {other:?}"),
    }
}

#[test]
fn channels_are_told_apart() {
    let (n, e, s) = (Text::Absent, Text::Empty, Text::Some);
    for (delta, content, reasoning, tools) in [
        (r#"{"role":"assistant","content":null}"#, n, n, n),
        (r#"{"role":"assistant","content":""}"#, e, n, n),
        (r#"{"role":"assistant"}"#, n, n, n),
        (r#"{"content":"hi"}"#, s, n, n),
        (r#"{"content":"\u00e9\n"}"#, s, n, n),
        (r#"{"content":[{"type":"text","text":"hi"}]}"#, s, n, n),
        (r#"{"refusal":"no"}"#, s, n, n),
        (r#"{"content":"","reasoning_content":"hm"}"#, e, s, n),
        (r#"{"content":null,"reasoning":"hm"}"#, n, s, n),
        (r#"{"reasoning":"hm","reasoning_content":"hm"}"#, n, s, n),
        (r#"{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":""}}]}"#, n, n, s),
        (r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\""}}]}"#, n, n, s),
        (r#"{"tool_calls":[{"index":0,"function":{"arguments":""}}]}"#, n, n, e),
        (r#"{"tool_calls":[]}"#, n, n, e),
        (r#"{"tool_calls":null}"#, n, n, n),
        (r#"{"function_call":{"name":"f"}}"#, n, n, s),
        ("null", n, n, n),
    ] {
        let got = event(&format!(r#"{{"choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}"#));
        assert_eq!((got.content, got.reasoning, got.tool_calls), (content, reasoning, tools), "{delta}");
        assert!(got.has_choice && got.finish_reason.is_none());
    }
}

#[test]
fn absent_and_null_parts_are_tolerated() {
    for data in [
        r#"{"choices":[],"usage":null}"#,
        r#"{"choices":null}"#,
        r#"{"usage":{}}"#,
        r#"{"id":"","object":"","model":"","prompt_filter_results":[{"a":1}],"choices":[]}"#,
        "{}",
        r#"{"error":null}"#,
        r#"{"error":""}"#,
        r#"{"error":false}"#,
        r#"{"error":{}}"#,
        r#"{"error":[]}"#,
        r#"{"error":0}"#,
    ] {
        let got = event(data);
        assert!(!got.has_choice && got.error.is_none(), "{data}");
    }
    let got = event(r#"{"choices":[{"index":0,"content_filter_results":{}}]}"#);
    assert!(got.has_choice && got.content == Text::Absent, "a choice without a delta");
}

#[test]
fn usage_is_read_in_all_its_forms() {
    let u = |prompt, completion, cached, reasoning| Usage { prompt, completion, cached, reasoning };
    for (data, expected) in [
        (r#"{"prompt_tokens":5,"completion_tokens":3}"#, u(Some(5), Some(3), None, None)),
        (r#"{"prompt_tokens":5.0,"completion_tokens":null}"#, u(Some(5), None, None, None)),
        (r#"{"prompt_tokens":-1,"completion_tokens":"3"}"#, u(None, None, None, None)),
        (
            r#"{"prompt_tokens":5,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":2}}"#,
            u(Some(5), None, Some(4), Some(2)),
        ),
        (r#"{"prompt_tokens_details":null,"completion_tokens_details":null}"#, u(None, None, None, None)),
        (r#"{"prompt_cache_hit_tokens":7}"#, u(None, None, Some(7), None)),
        (
            r#"{"prompt_tokens":1000000000000000000,"completion_tokens":1e30}"#,
            u(Some(1_000_000_000_000_000_000), Some(u64::MAX), None, None),
        ),
    ] {
        assert_eq!(event(&format!(r#"{{"choices":[],"usage":{data}}}"#)).usage, Some(expected), "{data}");
    }
}

#[test]
fn finish_reasons() {
    for (value, expected) in [
        ("\"length\"", Some("length")),
        ("null", None),
        ("\"\"", None),
        (r#"{"type":"abort","message":"x"}"#, Some("abort")),
    ] {
        let got = event(&format!(r#"{{"choices":[{{"text":"","finish_reason":{value}}}]}}"#));
        assert_eq!((got.finish_reason.as_deref(), got.text), (expected, Text::Empty), "{value}");
    }
    let two = event(r#"{"choices":[{"text":"a","finish_reason":"stop"},{"text":"","finish_reason":null}]}"#);
    assert_eq!((two.finish_reason.as_deref(), two.text), (Some("stop"), Text::Some), "several choices");
}

#[test]
fn errors_under_200() {
    for (data, says) in [
        (r#"{"error":{"message":"out of blocks","type":"x","code":500}}"#, "out of blocks"),
        (r#"{"error":"overloaded","error_type":"y"}"#, "overloaded"),
        (r#"{"error":{"code":7}}"#, "{\"code\":7}"),
        (r#"{"error":true}"#, "true"),
        (r#"{"object":"error","message":"engine dead","code":500}"#, "engine dead"),
    ] {
        assert_eq!(event(data).error.as_deref(), Some(says), "{data}");
    }
    for (data, says) in
        [("{\"error\":{\"message\":\"m\"}}", "m"), ("{\"message\":\"m\"}", "m"), ("boom", "boom")]
    {
        let Parsed::Event(e) = parse(Item { data: data.as_bytes(), error: true }) else { panic!("{data}") };
        assert_eq!(e.error.as_deref(), Some(says), "after `event: error`: {data}");
    }
}

#[test]
fn what_is_no_event() {
    for (data, expected) in [
        ("[DONE]", Parsed::Done),
        (" [DONE] ", Parsed::Done),
        ("", Parsed::Ignored),
        (": OPENROUTER PROCESSING", Parsed::Ignored),
        ("processing", Parsed::Malformed),
        ("{\"choices\":[", Parsed::Malformed),
        ("{\"choices\":[]} x", Parsed::Malformed),
        ("[]", Parsed::Malformed),
        ("7", Parsed::Malformed),
    ] {
        assert_eq!(read(data), expected, "{data:?}");
    }
}

#[test]
fn error_bodies() {
    for (body, says) in [
        (r#"{"error":{"message":"m"}}"#, Some("m")),
        (r#"{"error":"e"}"#, Some("e")),
        (r#"{"choices":[]}"#, None),
        (r#"{"error":null}"#, None),
        ("<html>", None),
    ] {
        assert_eq!(error_message(body.as_bytes()).as_deref(), says, "{body}");
    }
}

#[test]
fn a_reason_is_one_line() {
    let text = serde_json::json!({"choices": [{"delta": {}, "finish_reason": format!("st\u{1b}[31m\nop{}", "x".repeat(900))}]});
    let text = text.to_string();
    let Parsed::Event(event) = parse(Item { data: text.as_bytes(), error: false }) else { panic!("{text}") };
    let reason = event.finish_reason.unwrap();
    assert!(reason.starts_with("st\u{fffd}[31m\u{fffd}opx") && reason.chars().count() == 200, "{reason}");
}
