use super::*;
use crate::client::event::{Event, Parsed};
use crate::client::sse::Parser;
use crate::client::{Client, Encoder, Pinning, Shot, parse_document, parse_event};
use crate::sim::choice_writers::ChoiceWriters;
use crate::sim::request::StreamOptions;
use crate::sim::rules::Order;
use crate::sim::writer::{Thought, document};
use goodput_core::message::{Message, Role};
use goodput_core::record::{Failure, Finished, Phase, Record};
use goodput_engine::config::Reasoning;
use goodput_plan::server::{Server, Target};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

fn thought(reasoning: &str, answer: u32) -> Thought {
    let reasoning: Option<Reasoning> = (!reasoning.is_empty()).then(|| toml::from_str(reasoning).unwrap());
    Thought::of(reasoning, answer)
}

fn streamed(api: TextApi, reasoning: &str) -> String {
    let head = (Dialect::of(api).head)(1, true, 7, "\"m\"");
    let mut writer = ChoiceWriters::new(1, || {
        Writer::new(api, &head, 9, StreamOptions::default()).thinking(thought(reasoning, 4))
    });
    writer.cached(Some(5));
    let mut out = String::new();
    (1..=4).for_each(|i| writer.event(&mut out, 0, 1, i == 4));
    out
}

/// The kinds of the events, as the line before their data has them.
fn kinds(stream: &str) -> Vec<&str> {
    stream.lines().filter_map(|line| line.strip_prefix("event: ")).collect()
}

#[test]
fn responses_have_vllms_events_in_its_order() {
    let (text, reasoning) = ("response.output_text.delta", "response.reasoning_text.delta");
    let opening = ["response.created", "response.in_progress"];
    let begin = ["response.output_item.added", "response.content_part.added"];
    let end = |what| [what, "response.content_part.done", "response.output_item.done"];
    let (text_done, reasoning_done) = (end("response.output_text.done"), end("response.reasoning_text.done"));
    let completed = ["response.completed"];
    assert_eq!(
        kinds(&streamed(TextApi::Responses, "")),
        [&opening[..], &begin, &[text; 4], &text_done, &completed].concat()
    );
    assert_eq!(
        kinds(&streamed(TextApi::Responses, "share = 0.5")),
        [&opening[..], &begin, &[reasoning; 2], &reasoning_done, &begin, &[text; 2], &text_done, &completed]
            .concat()
    );
    assert_eq!(
        kinds(&streamed(TextApi::Responses, "share = 1\nhidden = true")),
        [&opening[..], &completed].concat(),
        "nothing is shown"
    );
    let all = streamed(TextApi::Responses, "share = 0.5");
    let numbers: Vec<u64> = all
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|json| {
            serde_json::from_str::<serde_json::Value>(json).unwrap()["sequence_number"].as_u64().unwrap()
        })
        .collect();
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
    // As in tests/fixtures/wire/vllm/responses-stream.txt, save for the ids and the text.
    let delta = all.split("\n\n").find(|event| event.contains("\"delta\":\" of\"")).unwrap();
    insta::assert_snapshot!(delta, @r#"
    event: response.output_text.delta
    data: {"content_index":0,"delta":" of","item_id":"msg_0000000000000001","logprobs":[],"output_index":1,"sequence_number":11,"type":"response.output_text.delta"}
    "#);
    let last = all.trim_end().rsplit("\n\n").next().unwrap();
    insta::assert_snapshot!(last, @r#"
    event: response.completed
    data: {"response":{"id":"resp_0000000000000001","created_at":7,"incomplete_details":{"reason":"max_output_tokens"},"instructions":null,"metadata":null,"model":"m","object":"response","output":[{"id":"rs_0000000000000001","summary":[],"type":"reasoning","content":[{"text":" the rate","type":"reasoning_text"}],"encrypted_content":null,"status":"completed"},{"id":"msg_0000000000000001","content":[{"annotations":[],"text":" of a","type":"output_text","logprobs":null}],"role":"assistant","status":"completed","type":"message","phase":null}],"parallel_tool_calls":true,"temperature":1.0,"tool_choice":"none","tools":[],"top_p":1.0,"background":false,"max_output_tokens":null,"max_tool_calls":null,"previous_response_id":null,"prompt":null,"reasoning":null,"service_tier":"auto","status":"incomplete","text":null,"top_logprobs":null,"truncation":"disabled","usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":5,"cache_write_tokens":0,"input_tokens_per_turn":[],"cached_tokens_per_turn":[]},"output_tokens":4,"output_tokens_details":{"reasoning_tokens":2,"tool_output_tokens":0,"output_tokens_per_turn":[],"tool_output_tokens_per_turn":[]},"total_tokens":13},"user":null,"presence_penalty":0.0,"frequency_penalty":0.0,"kv_transfer_params":null,"ec_transfer_params":null,"input_messages":null,"output_messages":null},"sequence_number":16,"type":"response.completed"}
    "#);
}

#[test]
fn messages_have_vllms_events_in_its_order() {
    insta::assert_snapshot!(streamed(TextApi::Messages, "share = 0.5"), @r#"
    event: message_start
    data: {"type":"message_start","message":{"id":"chatcmpl-0000000000000001","type":"message","role":"assistant","content":[],"model":"m","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":0}}}

    event: content_block_start
    data: {"type":"content_block_start","content_block":{"type":"thinking","thinking":""},"index":0}

    event: content_block_delta
    data: {"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":" the"},"index":0}

    event: content_block_delta
    data: {"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":" rate"},"index":0}

    event: content_block_delta
    data: {"type":"content_block_delta","delta":{"type":"signature_delta","signature":"0000000000000001"},"index":0}

    event: content_block_stop
    data: {"type":"content_block_stop","index":0}

    event: content_block_start
    data: {"type":"content_block_start","content_block":{"type":"text","text":""},"index":1}

    event: content_block_delta
    data: {"type":"content_block_delta","delta":{"type":"text_delta","text":" of"},"index":1}

    event: content_block_delta
    data: {"type":"content_block_delta","delta":{"type":"text_delta","text":" a"},"index":1}

    event: content_block_stop
    data: {"type":"content_block_stop","index":1}

    event: message_delta
    data: {"type":"message_delta","delta":{"stop_reason":"max_tokens","stop_sequence":null},"usage":{"input_tokens":4,"output_tokens":4,"cache_read_input_tokens":5}}

    event: message_stop
    data: {"type":"message_stop"}
    "#);
    assert_eq!(
        kinds(&streamed(TextApi::Messages, "share = 1\nhidden = true")),
        ["message_start", "message_delta", "message_stop"]
    );
}

#[test]
fn endpoints_that_templates_reach_have_their_own_forms() {
    let two = |api| {
        let head = (Dialect::of(api).head)(1, true, 7, "\"m\"");
        let mut writer = ChoiceWriters::new(1, || Writer::new(api, &head, 9, StreamOptions::default()));
        let mut out = String::new();
        (1..=2).for_each(|i| writer.event(&mut out, 0, 1, i == 2));
        let order = Order {
            api,
            stream: false,
            input: 9,
            output: 2,
            choices: 1,
            images: Arc::default(),
            options: StreamOptions::default(),
        };
        format!("{out}\n{}", document(&order, &head, 2, None, Thought::default()))
    };
    insta::assert_snapshot!(two(TextApi::TgiStream), @r#"
    data:{"index":1,"token":{"id":1,"text":" the","logprob":-0.1,"special":false},"generated_text":null,"details":null}

    data:{"index":2,"token":{"id":2,"text":" rate","logprob":-0.1,"special":false},"generated_text":" the rate","details":{"finish_reason":"length","generated_tokens":2,"seed":null,"input_length":9}}


    {"generated_text":" the rate","details":{"finish_reason":"length","generated_tokens":2,"seed":null,"prefill":[],"tokens":[]}}
    "#);
    insta::assert_snapshot!(two(TextApi::Ollama), @r#"
    {"model":"m","created_at":"1970-01-01T00:00:07Z","response":" the","done":false}
    {"model":"m","created_at":"1970-01-01T00:00:07Z","response":" rate","done":false}
    {"model":"m","created_at":"1970-01-01T00:00:07Z","response":"","done":true,"done_reason":"length","prompt_eval_count":9,"eval_count":2}

    {"model":"m","created_at":"1970-01-01T00:00:07Z","response":" the rate","done":true,"done_reason":"length","prompt_eval_count":9,"eval_count":2}
    "#);
}

/// The client parses the answers, streamed and whole.
#[test]
fn the_client_reads_them() {
    for (api, text) in [(Api::Responses, TextApi::Responses), (Api::Messages, TextApi::Messages)] {
        let stream = streamed(text, "share = 0.5");
        let (mut content, mut reasoning, mut ends, mut last) = (0, 0, 0, Event::default());
        let mut parser = Parser::new();
        parser
            .feed(stream.as_bytes(), |item| match parse_event(api, item) {
                Parsed::Event(event) => {
                    content += u32::from(event.content.some());
                    reasoning += u32::from(event.reasoning.some());
                    ends += u32::from(event.is_last);
                    assert!(event.error.is_none(), "{event:?}");
                    if event.finish_reason.is_some() {
                        last = event;
                    }
                }
                Parsed::Done => ends += 1,
                other => panic!("{other:?}"),
            })
            .unwrap();
        let usage = last.usage.unwrap();
        assert_eq!((content, reasoning, ends), (2, 2, 1), "{api:?}");
        assert_eq!((usage.prompt, usage.completion, usage.cached), (Some(9), Some(4), Some(5)), "{api:?}");

        let order = Order {
            api: text,
            stream: false,
            input: 9,
            output: 4,
            choices: 1,
            options: StreamOptions::default(),
            images: Arc::default(),
        };
        let head = (Dialect::of(text).head)(1, false, 7, "\"m\"");
        let whole = document(&order, &head, 4, Some(5), thought("share = 0.5", 4));
        let Parsed::Event(event) = parse_document(api, whole.as_bytes()) else { panic!("{whole}") };
        assert_eq!(event.usage, Some(usage), "{whole}");
        assert!(event.content.some() && event.reasoning.some() && event.finish_reason == last.finish_reason);
    }
}

/// Rows: the API, a request, and its prompt's tokens or the field that is missing; then the length that it asks for.
#[test]
fn prompts_are_where_the_api_has_them() {
    let both = r#""instructions":"be brief","system":"s","input":"a b c","prompt":"p q","messages":[{"content":"m"}]"#;
    let list = r#""input":[{"role":"system","content":"x"},{"role":"user","content":[{"type":"input_text","text":"a b"}]}]"#;
    for (api, fields, expected, asked) in [
        (TextApi::Chat, both, Ok(1), Some(3)),
        (TextApi::Completions, both, Ok(2), Some(3)),
        (TextApi::Responses, both, Ok(5), Some(4)),
        (TextApi::Messages, both, Ok(2), Some(3)),
        (TextApi::Responses, list, Ok(3), Some(4)),
        (TextApi::Responses, "\"n\":1", Err("input"), Some(4)),
        (TextApi::Messages, "\"n\":1", Err("messages"), Some(3)),
        (TextApi::TgiStream, r#""inputs":"a b","parameters":{"max_new_tokens":5}"#, Ok(2), Some(5)),
        (TextApi::Tgi, "\"n\":1", Err("inputs"), None),
        (TextApi::Ollama, r#""prompt":"a b","options":{"num_predict":6}"#, Ok(2), Some(6)),
    ] {
        let json = format!(r#"{{{fields},"max_tokens":3,"max_output_tokens":4}}"#);
        let request: ApiRequest = serde_json::from_str(&json).unwrap();
        let got = prompt(api, &request).map(|(parts, texts)| {
            assert_eq!(texts, 1);
            parts.map(|words| words.count).sum::<usize>()
        });
        assert_eq!((got, asked_tokens(api, &request).0), (expected, asked), "{api:?} {json}");
    }
    let request: ApiRequest = serde_json::from_str(r#"{"messages":[]}"#).unwrap();
    assert_eq!(prompt(TextApi::Messages, &request).err(), Some("max_tokens"), "it is required");
}

/// A request of the client to the simulated server, streamed or not.
async fn ask(api: Api, stream: bool, router: &axum::Router, model: &str, messages: &[Message]) -> Finished {
    let server = Server { api, stream, ..Server::new(Target::Simulated(toml::Table::new())) };
    let mut encoder = Encoder::new(api, model, &serde_json::Map::new(), Pinning::FULL, true);
    if !stream {
        encoder = encoder.whole();
    }
    let shot = Shot {
        record: Record::due(0, Phase::Measure, Duration::ZERO),
        payload: encoder.messages(messages, 32),
        began: Instant::now(),
        timeout: Duration::from_secs(60),
        timeout_is_error: true,
        cut: CancellationToken::new(),
        itl_limit: None,
        keep_text: true,
    };
    Client::in_process(router.clone(), &server).send(shot).await
}

/// A turn that quotes the server's answer finds it in the prefix cache: the text is what the server sent, and the order of the prompt holds.
#[tokio::test(start_paused = true)]
async fn conversations_quote_the_answer() {
    for api in [Api::Chat, Api::Completions, Api::Responses, Api::Messages] {
        for stream in [true, false] {
            let sim = toml::from_str("preset = \"demo\"\nmodel = \"m\"").unwrap();
            let router = crate::sim::router::router(&sim);
            let mut messages = vec![Message::system("be brief"), Message::user("word ".repeat(38))];
            let first = ask(api, stream, &router, "m", &messages).await;
            let prompt = template_tokens(api) as u32 + 40;
            let r = &first.record;
            assert_eq!(
                (r.failure, r.input_tokens, r.output_tokens),
                (None, Some(prompt), Some(32)),
                "{api:?} {r:?}"
            );
            let finish = if api == Api::Messages { "max_tokens" } else { "length" };
            assert_eq!((r.finish.as_deref(), r.cached_tokens), (Some(finish), Some(0)), "{api:?}");
            messages.extend([Message::new(Role::Assistant, first.text.unwrap()), Message::user("and")]);
            let second = ask(api, stream, &router, "m", &messages).await.record;
            // The first prompt and the answer but its last token, in whole blocks of 16.
            assert_eq!(
                (second.input_tokens, second.cached_tokens),
                (Some(prompt + 33), Some(64)),
                "{api:?} {stream}"
            );
        }
    }
}

/// Rows: the API, and the beginning of its error.
#[tokio::test(start_paused = true)]
async fn errors_have_the_form_of_the_api() {
    for (api, begins) in [
        (Api::Chat, r#"{"error":{"message":"The model `x` does not exist."#),
        (Api::Responses, r#"{"error":{"message":"The model `x` does not exist."#),
        (
            Api::Messages,
            r#"{"type":"error","error":{"type":"NotFoundError","message":"The model `x` does not exist."#,
        ),
    ] {
        let router = crate::sim::router::router(&toml::from_str("preset = \"demo\"").unwrap());
        let got = ask(api, true, &router, "x", &[Message::user("a")]).await;
        assert_eq!((got.record.status, got.record.failure), (Some(404), Some(Failure::ClientError)));
        assert!(got.sample.as_deref().unwrap().starts_with(begins), "{api:?}: {:?}", got.sample);
    }
}
