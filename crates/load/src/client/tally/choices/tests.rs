use crate::client::event::{parse, parse_whole};
use crate::client::payload::AskedLength;
use crate::client::sse::Item;
use crate::client::tally::{End, Tallied, Tally};
use goodput_core::endpoint::Api;
use goodput_core::record::{Failure, Outcome, Phase, Record, TokenSource};
use proptest::prelude::*;
use std::num::NonZeroU8;
use std::time::Duration;

const DONE: &str = "[DONE]";

fn ms(x: u64) -> Duration {
    Duration::from_millis(x)
}

/// An event of a chat with an entry for each of these choices: index, text, and finish reason if it has one.
fn chat(choices: &[(u32, &str, &str)]) -> String {
    let entry = |(index, text, finish): &(u32, &str, &str)| {
        let finish = if finish.is_empty() { "null".into() } else { format!("\"{finish}\"") };
        format!(r#"{{"index":{index},"delta":{{"content":"{text}"}},"finish_reason":{finish}}}"#)
    };
    format!(r#"{{"choices":[{}]}}"#, choices.iter().map(entry).collect::<Vec<_>>().join(","))
}

/// Returns such an event of a completion, with the running count of its only choice.
fn completion(index: u32, text: &str, finish: &str, count: u32) -> String {
    format!(
        r#"{{"choices":[{{"index":{index},"text":"{text}","finish_reason":{finish}}}],"usage":{{"completion_tokens":{count}}}}}"#
    )
}

fn total(tokens: u32) -> String {
    format!(r#"{{"choices":[],"usage":{{"prompt_tokens":5,"completion_tokens":{tokens}}}}}"#)
}

fn tally(api: Api, n: u8, tokens: u64) -> Tally {
    let mut tally = Tally::new(api, Some(ms(15)));
    tally.expect(Some(AskedLength { tokens, is_pinned: true }));
    tally.expect_choices(NonZeroU8::new(n));
    tally
}

/// Feeds payloads at times in ms to the tally of an answer with `n` choices of `tokens` in all.
fn run(api: Api, n: u8, tokens: u64, end: End, payloads: &[(u64, String)]) -> (Record, Tallied) {
    let mut tally = tally(api, n, tokens);
    for (at, payload) in payloads {
        let data = payload.as_bytes();
        tally.feed(ms(*at), parse(Item { data, error: false }), data);
    }
    let mut record = Record::due(0, Phase::Measure, Duration::ZERO);
    record.output_asked = tokens as u32;
    let last = payloads.last().map_or(0, |(at, _)| *at);
    let tallied = tally.finish(end, ms(last), &mut record);
    (record, tallied)
}

/// As vLLM writes it: a role for each choice, then their tokens in turn, each event for one choice; the second ends early. A usage without
/// a choice counts all of them.
fn interleaved() -> Vec<(u64, String)> {
    vec![
        (40, chat(&[(0, "", "")])),
        (40, chat(&[(1, "", "")])),
        (40, chat(&[(0, "a", "")])),
        (42, chat(&[(1, "b", "")])),
        (50, chat(&[(0, "a", "")])),
        (53, chat(&[(1, "b", "stop")])),
        (70, chat(&[(0, "a", "")])),
        (80, chat(&[(0, "a", "length")])),
        (81, total(6)),
        (81, DONE.into()),
    ]
}

#[test]
fn interleaved_choices_have_gaps_and_paces_of_their_own() {
    let (r, tallied) = run(Api::Chat, 2, 8, End::Eof, &interleaved());
    assert_eq!(
        (r.outcome, r.failure, r.finish.as_deref()),
        (Outcome::Ok, None, Some("length+stop")),
        "{r:?}"
    );
    assert_eq!((r.ttft(), r.e2e()), (Some(ms(40)), Some(ms(80))));
    assert_eq!((r.output_tokens, r.token_source, r.events), (Some(6), Some(TokenSource::Usage), 6));
    assert_eq!((r.first_event_tokens, r.choices), (Some(2), NonZeroU8::new(2)));
    assert_eq!(tallied.gaps_us, [10_000, 11_000, 20_000, 10_000], "never from one choice to the other");
    assert_eq!((r.itl_max, r.itl_over), (Some(ms(20)), 1));
    assert_eq!(r.decoding, Some(ms(40 + 11)));
    assert_eq!(r.tpot(), Some(ms(51) / 4), "51 ms over the four tokens after the first of each");
}

/// Two choices of two tokens. Rows: what is different, the events, and the tokens with their source.
#[test]
fn only_a_total_is_believed_of_what_a_server_counts() {
    let both = |text| chat(&[(0, text, ""), (1, text, "")]);
    let ended = chat(&[(0, "a", "length"), (1, "a", "length")]);
    let single = |i, finish: &str, count| completion(i, "a", finish, count);
    let (usage, estimate) = (TokenSource::Usage, TokenSource::Events);
    for (what, api, events, tokens, source) in [
        ("both in one event", Api::Chat, vec![both("a"), ended.clone(), total(4)], 4, usage),
        ("no usage at all", Api::Chat, vec![both("a"), ended.clone()], 4, estimate),
        ("several tokens an event", Api::Chat, vec![both("a a"), ended, total(6)], 6, usage),
        (
            "running counts of single choices",
            Api::Completions,
            vec![
                single(0, "null", 1),
                single(1, "null", 1),
                single(0, "\"length\"", 2),
                single(1, "\"length\"", 2),
            ],
            4,
            estimate,
        ),
        (
            "counts at the end of each choice",
            Api::Completions,
            vec![
                completion(0, "a", "null", 0),
                completion(1, "a", "null", 0),
                single(1, "\"length\"", 3),
                single(0, "\"length\"", 2),
            ],
            5,
            usage,
        ),
        (
            "a count at the end of one choice only",
            Api::Completions,
            vec![
                chat(&[]),
                single(0, "null", 0),
                single(1, "null", 0),
                single(0, "\"length\"", 9),
                chat(&[(1, "a", "length")]),
            ],
            4,
            estimate,
        ),
        (
            "and a total",
            Api::Completions,
            vec![
                single(0, "null", 1),
                single(1, "null", 1),
                single(0, "\"length\"", 2),
                single(1, "\"length\"", 2),
                total(5),
            ],
            5,
            usage,
        ),
    ] {
        let timed = (1..).map(|i| 10 * i).zip(events.into_iter().chain([DONE.into()]));
        let (r, _) = run(api, 2, 4, End::Eof, &timed.collect::<Vec<_>>());
        assert_eq!((r.outcome, r.failure), (Outcome::Ok, None), "{what}: {r:?}");
        assert_eq!((r.output_tokens, r.token_source), (Some(tokens), Some(source)), "{what}");
        assert_eq!((r.events, r.first_event_tokens), (4, Some(2)), "{what}");
    }
}

/// A token may have empty text in a completion, but not with a finish reason.
#[test]
fn tokens_without_text_count_where_they_may_be() {
    let event = |index, finish: &str| {
        format!(r#"{{"choices":[{{"index":{index},"text":"","finish_reason":{finish}}}]}}"#)
    };
    let events = [(0, "null"), (1, "null"), (0, "null"), (0, "\"stop\""), (1, "\"stop\"")];
    let events: Vec<_> = events.iter().map(|(index, finish)| (10, event(*index, finish))).collect();
    assert_eq!(run(Api::Completions, 2, 3, End::Eof, &events).0.events, 3);
    assert_eq!(run(Api::Chat, 2, 3, End::Eof, &events).0.failure, Some(Failure::Empty));
}

/// Rows: what is different, the events, how the body ends, the failure, and a part of its evidence.
#[test]
fn choices_that_are_missing_fail_the_answer() {
    let whole = |n: u32| -> Vec<String> {
        let all = || (0..n).map(|i| chat(&[(i, "a", "")]));
        all().chain((0..n).map(|i| chat(&[(i, "a", "length")]))).collect()
    };
    let with = |mut events: Vec<String>, more: &[String]| {
        events.extend_from_slice(more);
        events
    };
    let done = || DONE.to_owned();
    let (m, t, a) = (Some(Failure::Miscounted), Some(Failure::Truncated), Some(Failure::Aborted));
    let half = vec![chat(&[(0, "a", "")]), chat(&[(1, "a", "")]), chat(&[(0, "a", "length")])];
    for (what, events, end, failure, evidence) in [
        ("all of them", with(whole(2), &[total(4), done()]), End::Eof, None, ""),
        ("all of them, and no [DONE]", with(whole(2), &[total(4)]), End::Eof, None, ""),
        ("one", with(whole(1), &[total(2), done()]), End::Eof, m, "has 1 choice where n = 2 asks for 2"),
        ("one, and no [DONE]", whole(1), End::Eof, m, "has 1 choice where"),
        ("three", with(whole(3), &[total(6), done()]), End::Eof, m, "has 3 choices where"),
        (
            "other indices",
            with(vec![chat(&[(1, "a", "stop"), (2, "a", "stop")])], &[done()]),
            End::Eof,
            m,
            "from 0 to 1",
        ),
        (
            "far indices",
            with(vec![chat(&[(0, "a", "stop"), (4_000_000_000, "a", "stop")])], &[done()]),
            End::Eof,
            m,
            "from 0 to 1",
        ),
        ("one ends, the other does not", half.clone(), End::Eof, t, ""),
        ("a reset after the first end", half.clone(), End::Broken, Some(Failure::Reset), ""),
        ("one is given up", with(half.clone(), &[chat(&[(1, "", "abort")]), done()]), End::Eof, a, ""),
        ("a finish reason lacks", with(half, &[total(4), done()]), End::Eof, None, ""),
    ] {
        let timed = (1..).map(|i| 10 * i).zip(events);
        let (r, tallied) = run(Api::Chat, 2, 4, end, &timed.collect::<Vec<_>>());
        assert_eq!(r.failure, failure, "{what}: {r:?}");
        let seen = String::from_utf8(tallied.seen.unwrap_or_default().into()).unwrap();
        assert!(seen.contains(evidence), "{what}: {seen}");
        if what == "a finish reason lacks" {
            assert_eq!(r.finish.as_deref(), Some("done"), "as of a single choice");
        }
    }
}

/// Choices that had begun and not ended were decoding until the end of the request.
#[test]
fn an_answer_that_is_cut_off_has_decoded_until_then() {
    let events = [
        (10, chat(&[(0, "a", "")])),
        (20, chat(&[(1, "a", "")])),
        (30, chat(&[(1, "a", "stop")])),
        (35, chat(&[(0, "a", "")])),
    ];
    let mut tally = tally(Api::Chat, 3, 30);
    for (at, payload) in &events {
        tally.feed(ms(*at), parse(Item { data: payload.as_bytes(), error: false }), payload.as_bytes());
    }
    let mut r = Record::due(0, Phase::Measure, Duration::ZERO);
    tally.finish(End::Cut, ms(100), &mut r);
    assert_eq!((r.outcome, r.first_event_tokens, r.output_tokens), (Outcome::Cut, Some(2), None));
    assert_eq!(r.decoding, Some(ms(90 + 10)), "and the third has not begun");
}

#[test]
fn hidden_reasoning_is_no_part_of_the_pace() {
    let mut events: Vec<(u64, String)> = Vec::new();
    for i in 0..4 {
        let finish = if i == 3 { "stop" } else { "" };
        events.push((10 + 10 * i, chat(&[(0, "a", finish), (1, "a", finish)])));
    }
    let usage = r#"{"choices":[],"usage":{"completion_tokens":48,"completion_tokens_details":{"reasoning_tokens":40}}}"#;
    events.extend([(50, usage.to_owned()), (50, DONE.to_owned())]);
    let (r, _) = run(Api::Chat, 2, 48, End::Eof, &events);
    assert_eq!((r.first_event_tokens, r.hidden_tokens()), (Some(42), Some(40)));
    assert_eq!(r.tpot(), Some(ms(10)), "60 ms over the six tokens after the first of each");
}

/// Rows: the choices of a document, the failure, and the tokens.
#[test]
fn a_document_has_all_choices() {
    let choice =
        |i: usize| format!(r#"{{"index":{i},"message":{{"content":"a b"}},"finish_reason":"stop"}}"#);
    let plain = r#"{"message":{"content":"a b"},"finish_reason":"stop"}"#.to_owned();
    for (choices, failure) in [
        (vec![choice(0), choice(1)], None),
        (vec![choice(1), choice(0)], None),
        (vec![plain.clone(), plain], None),
        (vec![choice(0)], Some(Failure::Miscounted)),
        (vec![choice(0), choice(0)], Some(Failure::Miscounted)),
    ] {
        let body = format!(r#"{{"choices":[{}],"usage":{{"completion_tokens":4}}}}"#, choices.join(","));
        let mut tally = tally(Api::Chat, 2, 4);
        tally.document(ms(90), parse_whole(body.as_bytes()), body.as_bytes());
        let mut r = Record::due(0, Phase::Measure, Duration::ZERO);
        tally.finish(End::Eof, ms(90), &mut r);
        assert_eq!(r.failure, failure, "{body}");
        assert_eq!((r.output_tokens, r.token_source), (Some(4), Some(TokenSource::Usage)), "{body}");
        assert_eq!((r.ttft(), r.tpot(), r.decoding, r.e2e()), (None, None, None, Some(ms(90))), "{body}");
    }
}

proptest! {
    /// However the events of the choices are mixed, TTFT is that of the first, and TPOT and the gaps are those of each choice alone.
    #[test]
    fn choices_are_measured_as_if_each_came_alone(
        streams in prop::collection::vec(prop::collection::vec(1_u64..50, 2..20), 2..=8),
    ) {
        let n = streams.len() as u8;
        let mut events: Vec<(u64, u32, usize, bool)> = Vec::new();
        for (index, gaps) in (0..).zip(&streams) {
            let mut at = 0;
            for (i, gap) in gaps.iter().enumerate() {
                at += gap;
                events.push((at, index, i, i + 1 == gaps.len()));
            }
        }
        events.sort_unstable();
        let mut payloads: Vec<(u64, String)> = events
            .iter()
            .map(|(at, index, _, last)| (*at, chat(&[(*index, "a", if *last { "length" } else { "" })])))
            .collect();
        let tokens = events.len() as u32;
        let end = events.last().map_or(0, |(at, ..)| *at);
        payloads.extend([(end, total(tokens)), (end, DONE.to_owned())]);
        let (r, tallied) = run(Api::Chat, n, tokens.into(), End::Eof, &payloads);
        prop_assert_eq!((r.outcome, r.failure), (Outcome::Ok, None));
        let first = streams.iter().map(|gaps| gaps[0]).min();
        prop_assert_eq!(r.ttft(), first.map(ms));
        let mut gaps: Vec<u32> = streams.iter().flat_map(|gaps| &gaps[1..]).map(|gap| *gap as u32 * 1000).collect();
        let mut got = tallied.gaps_us;
        gaps.sort_unstable();
        got.sort_unstable();
        let decoding: u32 = gaps.iter().sum();
        let after = tokens - u32::from(n);
        prop_assert_eq!(r.tpot(), Some(Duration::from_micros(decoding.into()).div_f64(after.into())));
        prop_assert_eq!(got, gaps);
    }
}
