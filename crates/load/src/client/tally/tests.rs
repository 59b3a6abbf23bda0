use super::*;
use crate::client::{event::parse, sse::Item};
use goodput_core::record::Phase;

const ROLE: &str = r#"{"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#;

fn ms(x: u64) -> Duration {
    Duration::from_millis(x)
}

fn chat(delta: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}"#)
}

fn content(text: &str) -> String {
    chat(&format!("{{\"content\":\"{text}\"}}"))
}

fn text(text: &str, finish: &str, usage: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"text":"{text}","finish_reason":{finish}}}],"usage":{usage}}}"#)
}

fn count(n: u32) -> String {
    format!("{{\"prompt_tokens\":5,\"completion_tokens\":{n}}}")
}

const STOP: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
const USAGE: &str = r#"{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":3}}"#;
const DONE: &str = "[DONE]";

/// Feeds one payload every 10 ms, from 10 ms on.
fn run_until<S: AsRef<str>>(api: Api, end: End, payloads: &[S]) -> (Record, Tallied) {
    let mut tally = Tally::new(api, Some(ms(15)));
    let mut at = Duration::ZERO;
    for p in payloads {
        at += ms(10);
        let data = p.as_ref().as_bytes();
        tally.feed(at, parse(Item { data, error: false }), data);
    }
    let mut record = Record::due(0, Phase::Measure, Duration::ZERO);
    let tallied = tally.finish(end, at + ms(10), &mut record);
    (record, tallied)
}

fn run<S: AsRef<str>>(api: Api, payloads: &[S]) -> Record {
    run_until(api, End::Eof, payloads).0
}

fn ok(r: &Record, tokens: u32, source: TokenSource, events: u32) {
    assert_eq!((r.outcome, r.failure), (Outcome::Ok, None), "{r:?}");
    assert_eq!((r.output_tokens, r.token_source, r.events), (Some(tokens), Some(source), events), "{r:?}");
}

/// Rows: the events, and the exceeded limit if 1,024 tokens more than the length are too many.
#[test]
fn what_goes_on_beyond_its_tokens_is_noticed_unless_it_ends() {
    let counted: Vec<String> = (1..=1025).map(|n| text("a", "null", &count(n))).collect();
    let ended = [vec![content("a"); 5000], vec![STOP.to_owned()]].concat();
    for (events, beyond) in [
        (counted[..1024].to_vec(), None),
        (counted, Some(1024)),
        (vec![content("a"); 4096], None),
        (vec![content("a"); 4097], Some(4096)),
        (ended, None),
    ] {
        let mut tally = Tally::new(if beyond == Some(1024) { Api::Completions } else { Api::Chat }, None);
        let asked = Some(AskedLength { tokens: 0, is_pinned: false });
        tally.expect(asked);
        for event in &events {
            let data = event.as_bytes();
            tally.feed(ms(10), parse(Item { data, error: false }), data);
        }
        assert_eq!(tally.overrun(), beyond, "{} events", events.len());
    }
}

#[test]
fn a_plain_chat_answer() {
    let (r, tallied) = run_until(
        Api::Chat,
        End::Eof,
        &[ROLE, &content("a"), ROLE, &content("b"), &content("c"), STOP, USAGE, DONE],
    );
    ok(&r, 3, TokenSource::Usage, 3);
    assert_eq!((r.first_event, r.first_token, r.first_content), (Some(ms(10)), Some(ms(20)), Some(ms(20))));
    assert_eq!((r.last_token, r.end), (Some(ms(50)), ms(80)));
    assert_eq!((r.input_tokens, r.finish.as_deref(), r.first_event_tokens), (Some(5), Some("stop"), None));
    assert_eq!(tallied.gaps_us, [20_000, 10_000]);
    assert_eq!((r.itl_max, r.itl_over), (Some(ms(20)), 1), "one gap above 15 ms");
}

#[test]
fn quirk_3_no_usage_is_an_estimate() {
    let r = run(Api::Chat, &[ROLE, &content("a"), &content("b"), STOP, DONE]);
    ok(&r, 2, TokenSource::Events, 2);
}

#[test]
fn quirk_3_continuous_usage_counts_what_rose() {
    let with = |delta: &str, n: u32| {
        format!(r#"{{"choices":[{{"delta":{delta},"finish_reason":null}}],"usage":{}}}"#, count(n))
    };
    let end = [STOP, r#"{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":7}}"#, DONE];
    let mut events = vec![
        with(r#"{"content":""}"#, 0),
        with(r#"{"content":""}"#, 2),  // two tokens, no text yet: half a character
        with(r#"{"content":"é"}"#, 3), // first text
        with(r#"{"content":"y"}"#, 7),
    ];
    events.extend(end.map(str::to_owned));
    let r = run(Api::Chat, &events);
    ok(&r, 7, TokenSource::Continuous, 3);
    assert_eq!((r.first_token, r.first_event_tokens), (Some(ms(20)), Some(2)));
    assert_eq!((r.first_content, r.last_token), (Some(ms(30)), Some(ms(40))));
    // Text that a parser held back: without a new token. From then on, events with text count, and the total at the end.
    events.insert(3, with(r#"{"content":"x"}"#, 3));
    let r = run(Api::Chat, &events);
    ok(&r, 7, TokenSource::Usage, 3);
    assert_eq!((r.first_token, r.first_event_tokens), (Some(ms(30)), None));
    assert_eq!((r.first_content, r.last_token), (Some(ms(30)), Some(ms(50))));
}

#[test]
fn quirk_3_a_running_count_that_stays_zero_is_none() {
    // A proxy that sends zeros until the end.
    let with = |t: &str| {
        format!(
            r#"{{"choices":[{{"delta":{{"content":"{t}"}},"finish_reason":null}}],"usage":{}}}"#,
            count(0)
        )
    };
    let r = run(Api::Chat, &[with("a"), with("b"), STOP.into(), USAGE.into(), DONE.into()]);
    ok(&r, 3, TokenSource::Usage, 2);
}

#[test]
fn quirk_3_usage_in_some_events_only() {
    let counted = |n| {
        format!(r#"{{"choices":[{{"delta":{{"content":"x"}},"finish_reason":null}}],"usage":{}}}"#, count(n))
    };
    let r = run(
        Api::Chat,
        &[content("a"), content("b"), counted(4), content("c"), counted(6), STOP.into(), DONE.into()],
    );
    ok(&r, 6, TokenSource::Continuous, 5);
}

#[test]
fn quirk_2_and_4_chunks_without_choices() {
    for usage in [
        r#"{"choices":[],"usage":{"completion_tokens":2}}"#,
        r#"{"choices":null,"usage":{"completion_tokens":2}}"#,
        r#"{"usage":{"completion_tokens":2}}"#,
    ] {
        let filter = r#"{"choices":[],"prompt_filter_results":[{"prompt_index":0}]}"#;
        let no_delta = r#"{"choices":[{"index":0,"content_filter_results":{}}],"id":""}"#;
        let r = run(Api::Chat, &[filter, ROLE, &content("a"), &content("b"), STOP, no_delta, usage, DONE]);
        ok(&r, 2, TokenSource::Usage, 2);
        assert_eq!((r.first_event, r.first_token), (Some(ms(10)), Some(ms(30))), "{usage}");
    }
}

#[test]
fn quirk_6_wrapped_comments_are_no_events() {
    let r = run(Api::Chat, &[": PROCESSING", "", ROLE, &content("a"), STOP, DONE]);
    ok(&r, 1, TokenSource::Events, 1);
    assert_eq!(r.first_event, Some(ms(30)));
    let (r, t) =
        run_until(Api::Chat, End::Eof, &[ROLE, &content("a"), "processing…", &content("b"), STOP, DONE]);
    assert_eq!((r.outcome, r.failure, r.events), (Outcome::Failed, Some(Failure::Malformed), 1));
    assert_eq!(t.seen.as_deref(), Some("processing…".as_bytes()));
}

#[test]
fn quirk_8_errors_under_200() {
    for error in [r#"{"error":{"message":"boom","code":500}}"#, r#"{"error":"boom"}"#] {
        let (r, t) = run_until(Api::Chat, End::Eof, &[ROLE, &content("a"), error, DONE]);
        assert_eq!((r.outcome, r.failure, r.end), (Outcome::Failed, Some(Failure::StreamError), ms(30)));
        assert_eq!(t.seen.as_deref(), Some(error.as_bytes()));
    }
    let r = run(
        Api::Chat,
        &[content("a").replace("{\"choices\"", "{\"error\":null,\"choices\""), STOP.into(), DONE.into()],
    );
    ok(&r, 1, TokenSource::Events, 1);
}

#[test]
fn quirk_9_how_a_stream_ends() {
    let finish = |f: &str| format!(r#"{{"choices":[{{"delta":{{}},"finish_reason":"{f}"}}]}}"#);
    let a = content("a");
    for (payloads, failure, reason) in [
        (vec![&*a, DONE], None, Some("done")),
        (vec![&*a, STOP], None, Some("stop")),
        (vec![&*a, &finish("length"), DONE], None, Some("length")),
        (vec![&*a, &finish("abort"), DONE], Some(Failure::Aborted), Some("abort")),
        (vec![&*a, &finish("error")], Some(Failure::Aborted), Some("error")),
        (vec![&*a], Some(Failure::Truncated), None),
        (vec![], Some(Failure::Truncated), None),
        (vec![ROLE, STOP, USAGE, DONE], Some(Failure::Empty), Some("stop")),
        (vec![DONE], Some(Failure::Empty), Some("done")),
    ] {
        let r = run(Api::Chat, &payloads);
        assert_eq!((r.failure, r.finish.as_deref()), (failure, reason), "{payloads:?}");
        assert_eq!(r.outcome, if failure.is_some() { Outcome::Failed } else { Outcome::Ok });
    }
}

#[test]
fn interrupted_answers() {
    let a = content("a");
    for (end, outcome, failure) in [
        (End::Cut, Outcome::Cut, None),
        (End::Timeout, Outcome::Failed, Some(Failure::Timeout)),
        (End::Broken, Outcome::Failed, Some(Failure::Reset)),
    ] {
        let (r, _) = run_until(Api::Chat, end, &[ROLE, &a]);
        assert_eq!((r.outcome, r.failure, r.end), (outcome, failure, ms(30)));
        assert_eq!((r.first_token, r.output_tokens), (Some(ms(20)), None), "no estimate for half an answer");
        let (r, _) = run_until(Api::Chat, end, &[ROLE, &a, STOP]);
        assert_eq!((r.outcome, r.failure), (Outcome::Ok, None), "whole by then");
    }
}

#[test]
fn quirk_10_reasoning_comes_before_content() {
    let r = run(
        Api::Chat,
        &[
            ROLE.to_owned(),
            chat(r#"{"reasoning_content":"hm","content":""}"#),
            chat(r#"{"reasoning":"hm"}"#),
            content("a"),
            STOP.into(),
            r#"{"choices":[],"usage":{"completion_tokens":3,"completion_tokens_details":{"reasoning_tokens":2}}}"#.into(),
        ],
    );
    ok(&r, 3, TokenSource::Usage, 3);
    assert_eq!((r.first_token, r.first_content, r.reasoning_tokens), (Some(ms(20)), Some(ms(40)), Some(2)));
}

#[test]
fn quirk_11_an_answer_of_tool_calls_begins_with_the_first() {
    let call = chat(r#"{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":""}}]}"#);
    let rest = chat(r#"{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}"#);
    let r = run(Api::Chat, &[ROLE, &call, &rest, &STOP.replace("stop", "tool_calls"), DONE]);
    ok(&r, 2, TokenSource::Events, 2);
    assert_eq!((r.first_token, r.first_content), (Some(ms(20)), Some(ms(20))));
    let hm = chat(r#"{"reasoning":"hm"}"#);
    let r = run(Api::Chat, &[ROLE, &hm, &call, &rest, &STOP.replace("stop", "tool_calls"), DONE]);
    assert_eq!((r.first_token, r.first_content), (Some(ms(20)), Some(ms(30))), "reasoning is none of it");
    let r = run(Api::Chat, &[ROLE, &call, &content("a"), STOP, DONE]);
    assert_eq!((r.first_token, r.first_content), (Some(ms(20)), Some(ms(30))), "content, where there is any");
}

fn reasoned(of: u32, reasoning: u32) -> String {
    format!(
        r#"{{"choices":[],"usage":{{"completion_tokens":{of},"completion_tokens_details":{{"reasoning_tokens":{reasoning}}}}}}}"#
    )
}

/// Rows: the events, the usage, tokens by the first event, and TPOT in ms.
#[test]
fn reasoning_that_was_never_sent_is_no_part_of_tpot() {
    let (a, hm) = (content("a"), chat(r#"{"reasoning":"hm"}"#));
    let top = r#"{"choices":[],"usage":{"completion_tokens":12,"reasoning_tokens":9}}"#;
    for (why, events, usage, by_first, tpot) in [
        ("nothing is said of reasoning", vec![&a; 3], reasoned(12, 0), None, Some(20.0 / 11.0)),
        ("hidden: 9 of 12", vec![&a; 3], reasoned(12, 9), Some(10), Some(10.0)),
        ("the same in SGLang's words", vec![&a; 3], top.to_owned(), Some(10), Some(10.0)),
        ("it was sent", vec![&hm, &hm, &a, &a], reasoned(4, 2), None, Some(10.0)),
        (
            "many tokens an event, and it was sent",
            vec![&hm, &a, &a],
            reasoned(12, 9),
            None,
            Some(20.0 / 11.0),
        ),
        ("sent unmarked, as content", vec![&a; 12], reasoned(12, 9), None, Some(10.0)),
        ("beside the total, not in it", vec![&a; 3], reasoned(3, 9), None, Some(10.0)),
        ("one event", vec![&a], reasoned(12, 9), Some(12), None),
    ] {
        let mut all: Vec<String> = events.into_iter().cloned().collect();
        all.extend([STOP.to_owned(), usage, DONE.to_owned()]);
        let r = run(Api::Chat, &all);
        assert_eq!(r.first_event_tokens, by_first, "{why}");
        let got = r.tpot().map(|t| t.as_secs_f64() * 1e3);
        assert!(
            got.zip(tpot).is_none_or(|(a, b)| (a - b).abs() < 1e-6) && got.is_some() == tpot.is_some(),
            "{why}: {got:?}"
        );
    }
}

#[test]
fn a_running_count_knows_what_came_before_the_first_event() {
    let with = |n| {
        format!(r#"{{"choices":[{{"delta":{{"content":"x"}},"finish_reason":null}}],"usage":{}}}"#, count(n))
    };
    let r = run(Api::Chat, &[with(901), with(902), with(903), STOP.into(), reasoned(903, 900), DONE.into()]);
    ok(&r, 903, TokenSource::Continuous, 3);
    assert_eq!((r.first_event_tokens, r.tpot(), r.hidden_tokens()), (Some(901), Some(ms(10)), Some(900)));
}

#[test]
fn an_answer_that_is_all_reasoning_has_no_content() {
    let hm = chat(r#"{"reasoning":"hm"}"#);
    let r = run(Api::Chat, &[ROLE, &hm, &hm, &STOP.replace("stop", "length"), DONE]);
    assert_eq!((r.outcome, r.first_token, r.first_content), (Outcome::Ok, Some(ms(20)), None));
}

#[test]
fn quirk_12_many_tokens_in_one_event() {
    let r = run(Api::Chat, &[ROLE, &content("a b c"), STOP, USAGE, DONE]);
    ok(&r, 3, TokenSource::Usage, 1);
    assert_eq!((r.first_event_tokens, r.tpot()), (Some(3), None), "all of them in the first event: no TPOT");
}

#[test]
fn quirk_13_completions_count_tokens_without_text() {
    let null = "null";
    let r = run(
        Api::Completions,
        &[
            text("", null, null),
            text("é", null, null),
            text("b", "\"length\"", null), // vLLM: the last token comes with the reason
            r#"{"choices":[],"usage":{"completion_tokens":3}}"#.into(),
            DONE.into(),
        ],
    );
    ok(&r, 3, TokenSource::Usage, 3);
    assert_eq!((r.first_token, r.first_content, r.last_token), (Some(ms(10)), Some(ms(10)), Some(ms(30))));
    // llama.cpp: the last event has no text, the reason, and the total.
    let r = run(Api::Completions, &[text("a", null, null), text("", "\"length\"", &count(2)), DONE.into()]);
    ok(&r, 2, TokenSource::Usage, 1);
}

#[test]
fn quirk_15_progress_before_the_first_token() {
    let progress = r#"{"choices":[{"delta":{"role":"assistant","content":null},"finish_reason":null}],"prompt_progress":{"total":9}}"#;
    let r = run(Api::Chat, &[progress, progress, &content("a"), STOP, DONE]);
    ok(&r, 1, TokenSource::Events, 1);
    assert_eq!(r.first_token, Some(ms(30)));
}

#[test]
fn a_zero_at_the_end_undoes_nothing() {
    let r = run(
        Api::Chat,
        &[&content("a"), USAGE, STOP, r#"{"usage":{"prompt_tokens":0,"completion_tokens":0}}"#, DONE],
    );
    ok(&r, 3, TokenSource::Usage, 1);
    assert_eq!(r.input_tokens, Some(5));
}

/// Rows: the results of an answer, the items of its request, and how it ends.
#[test]
fn an_answer_has_a_result_for_each_item() {
    for (results, items, failure) in [
        (2, Some(2), None),
        (1, Some(2), Some(Failure::Miscounted)),
        (3, Some(2), Some(Failure::Miscounted)),
        (0, Some(2), Some(Failure::Empty)),
        (1, None, None), // the plan's body asks for some of them
    ] {
        let body = format!(r#"{{"data":[{}]}}"#, vec![r#"{"embedding":[1]}"#; results].join(","));
        let mut tally = Tally::new(Api::Embeddings, None);
        tally.expect_contents(items.map(Expected::Results));
        tally.document(ms(7), (Dialect::of(Api::Embeddings).document)(body.as_bytes()), body.as_bytes());
        let mut record = Record::due(0, Phase::Measure, Duration::ZERO);
        let tallied = tally.finish(End::Eof, ms(8), &mut record);
        assert_eq!(record.failure, failure, "{results} of {items:?}");
        let known = (record.first_token, record.e2e(), record.finish);
        assert_eq!(known, (None, failure.is_none().then_some(ms(7)), None));
        let seen = tallied.seen.map(|seen| String::from_utf8_lossy(&seen).into_owned());
        assert_eq!(seen.is_some(), failure == Some(Failure::Miscounted), "{seen:?}");
    }
}

/// Rows: the answer to 30 s of audio, and how it ends.
#[test]
fn a_transcript_is_that_of_its_audio() {
    let counted =
        |seconds: &str| format!(r#"{{"text":"a","usage":{{"type":"duration","seconds":{seconds}}}}}"#);
    for (body, failure) in [
        (counted("30"), None),
        (counted("31"), None),
        (counted("28.9"), Some(Failure::Miscounted)),
        (counted("31.1"), Some(Failure::Miscounted)),
        (r#"{"text":"a"}"#.to_owned(), None),
        (r#"{"text":""}"#.to_owned(), None), // no speech
        (r#"{"text":null}"#.to_owned(), Some(Failure::Empty)),
        ("{}".to_owned(), Some(Failure::Empty)),
        (r#"{"error":"busy"}"#.to_owned(), Some(Failure::StreamError)),
        ("[]".to_owned(), Some(Failure::Malformed)),
        ("1\n00:00:00,000 --> 00:00:01,000\na".to_owned(), Some(Failure::Malformed)),
    ] {
        let mut tally = Tally::new(Api::Transcriptions, None);
        tally.expect_contents(Some(Expected::Audio(Duration::from_secs(30))));
        tally.document(ms(7), (Dialect::of(Api::Transcriptions).document)(body.as_bytes()), body.as_bytes());
        let mut record = Record::due(0, Phase::Measure, Duration::ZERO);
        tally.finish(End::Eof, ms(8), &mut record);
        assert_eq!(record.failure, failure, "{body}");
        let known = (record.first_token, record.e2e(), record.output_tokens, record.finish);
        assert_eq!(known, (None, failure.is_none().then_some(ms(7)), None, None), "{body}");
    }
}
