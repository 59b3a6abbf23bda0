//! Reasoning that is streamed, hidden, or all there is: streams as servers document them, over a socket, through the whole client. No server
//! that hides its reasoning could be recorded; the events are written after the definitions of OpenAI (`completion_tokens_details`) and of
//! SGLang (`UsageInfo.reasoning_tokens`).

use crate::serve::{Act, chunk, client, head, serve, shot};
use goodput::client::payload::AskedLength;
use goodput::client::{Api, Shot};
use goodput::record::{Outcome, Record};
use goodput::slo::{Judged, Slo};
use std::time::Duration;

fn delta(delta: &str, finish: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{delta},"finish_reason":{finish}}}]}}"#)
}

async fn answered(events: &[String]) -> Record {
    let body: String = events.iter().map(|e| format!("data: {e}\n\n")).collect();
    let whole = [head(), chunk(&body), chunk("data: [DONE]\n\n"), b"0\r\n\r\n".to_vec()].concat();
    let server = serve(vec![vec![Act::Write(whole), Act::Close]]).await;
    let timeout = Duration::from_secs(300);
    let mut shot = Shot { timeout, ..shot() };
    // The answers have the length that they were asked for, by their finish reason.
    shot.payload.asked = Some(AskedLength { tokens: 1000, is_pinned: false });
    client(&server.url, Api::Chat).send(shot).await.record
}

/// Rows: deltas before the end, the usage, tokens by the first event with any, and what a limit on TTFC says.
#[tokio::test]
async fn reasoning_in_all_its_forms() {
    let content = r#"{"content":"a"}"#;
    let (vllm, deepseek) = (r#"{"reasoning":"hm"}"#, r#"{"reasoning_content":"hm","content":""}"#);
    let call = r#"{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{}"}}]}"#;
    let openai = r#"{"completion_tokens":1000,"completion_tokens_details":{"reasoning_tokens":900}}"#;
    let sglang = r#"{"completion_tokens":1000,"reasoning_tokens":900}"#;
    let none = r#"{"completion_tokens":1000,"completion_tokens_details":null,"reasoning_tokens":0}"#;
    for (why, deltas, usage, by_first, ttfc) in [
        ("hidden, by OpenAI", vec![content; 4], openai, Some(901), Judged::Met),
        ("hidden, by SGLang", vec![content; 4], sglang, Some(901), Judged::Met),
        ("not told of", vec![content; 4], none, None, Judged::Met),
        ("streamed, by vLLM", vec![vllm, vllm, content, content], openai, None, Judged::Met),
        ("streamed, by DeepSeek", vec![deepseek, content, content], openai, None, Judged::Met),
        ("ended while thinking", vec![vllm; 4], openai, None, Judged::Missed),
        ("a call, and nothing else", vec![call; 2], none, None, Judged::Met),
        ("a call after thinking", vec![vllm, call, call], openai, None, Judged::Met),
    ] {
        let usage = format!(r#"{{"choices":[],"usage":{usage}}}"#);
        let mut events = vec![delta(r#"{"role":"assistant","content":""}"#, "null")];
        events.extend(deltas.into_iter().map(|d| delta(d, "null")));
        events.extend([delta("{}", "\"length\""), usage]);
        let r = answered(&events).await;
        assert_eq!((r.outcome, r.output_tokens), (Outcome::Ok, Some(1000)), "{why}: {r:?}");
        assert_eq!(r.first_event_tokens, by_first, "{why}");
        let slo: Slo = toml::from_str("ttfc.p99 = \"1h\"").unwrap();
        assert_eq!(slo.limits()[0].judge(&r), ttfc, "{why}: {r:?}");
    }
}
