use crate::client::event::parse;
use crate::client::payload::AskedLength;
use crate::client::sse::Item;
use crate::client::tally::{End, Tally};
use goodput_core::endpoint::Api;
use goodput_core::record::{Failure, Outcome, Phase, Record, TokenSource};
use std::time::Duration;

const DONE: &str = "[DONE]";
const LENGTH: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}"#;
const STOP: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
/// The length that each of the answers is asked for.
const ASKED: AskedLength = AskedLength { tokens: 16, is_pinned: true };

fn text(text: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"{text}"}},"finish_reason":null}}]}}"#)
}

/// An event with text and a count of output tokens.
fn counted(word: &str, tokens: u64) -> String {
    let event = text(word);
    format!("{},\"usage\":{{\"completion_tokens\":{tokens}}}}}", event.strip_suffix('}').unwrap())
}

fn total(tokens: u64) -> String {
    format!(r#"{{"choices":[],"usage":{{"prompt_tokens":5,"completion_tokens":{tokens}}}}}"#)
}

/// Sixteen events with text, and the counts of `count`.
fn sixteen(count: impl Fn(u64) -> u64) -> Vec<String> {
    (1..=16).map(|n| counted("word", count(n))).collect()
}

fn plain(n: usize) -> Vec<String> {
    vec![text("word"); n]
}

/// Feeds one payload every 10 ms, from 10 ms on.
fn run(asked: Option<AskedLength>, events: &[String], end: &[&str]) -> Record {
    let mut tally = Tally::new(Api::Chat, None);
    tally.expect(asked);
    let mut at = Duration::ZERO;
    for data in events.iter().map(String::as_bytes).chain(end.iter().map(|e| e.as_bytes())) {
        at += Duration::from_millis(10);
        tally.feed(at, parse(Item { data, error: false }), data);
    }
    let mut record = Record::due(0, Phase::Measure, Duration::ZERO);
    tally.finish(End::Eof, at, &mut record);
    record
}

/// Rows: the counts of the sixteen events, a total of its own, and the source of the count.
#[test]
fn counts_that_are_no_running_count_make_no_server_faster() {
    for (what, events, end, source) in [
        ("a running count", sixteen(|n| n), Some(16), TokenSource::Continuous),
        ("each event its own", sixteen(|_| 1), None, TokenSource::Events),
        ("each event its own, and a total", sixteen(|_| 1), Some(16), TokenSource::Usage),
        ("the total in every event", sixteen(|_| 16), None, TokenSource::Events),
        ("the total in every event, and at the end", sixteen(|_| 16), Some(16), TokenSource::Usage),
        ("falling", sixteen(|n| 17 - n), Some(16), TokenSource::Usage),
        ("rising at first", sixteen(|n| n.min(3)), None, TokenSource::Events),
    ] {
        let total = end.map(total);
        let end: Vec<&str> = [LENGTH].into_iter().chain(total.as_deref()).chain([DONE]).collect();
        let r = run(Some(ASKED), &events, &end);
        assert_eq!((r.outcome, r.failure), (Outcome::Ok, None), "{what}: {r:?}");
        assert_eq!((r.output_tokens, r.token_source, r.events), (Some(16), Some(source), 16), "{what}");
        let ms = |t: Option<Duration>| t.map(|t| t.as_millis());
        assert_eq!((ms(r.ttft()), ms(r.tpot()), ms(r.e2e())), (Some(10), Some(10), Some(160)), "{what}");
    }
}

/// A count that rises before there is any text, and not with it, is no token: it would make the first token come too soon.
#[test]
fn a_refuted_count_credits_no_event_without_text() {
    let mut events = vec![counted("", 1), counted("", 2)];
    events.extend([counted("word", 2), counted("word", 2)]);
    let total = total(2);
    let r = run(None, &events, &[LENGTH, &total, DONE]);
    let ms = Duration::from_millis;
    assert_eq!((r.outcome, r.events, r.output_tokens), (Outcome::Ok, 2, Some(2)));
    assert_eq!((r.first_token, r.last_token), (Some(ms(30)), Some(ms(40))));
    assert_eq!((r.first_event_tokens, r.itl_max), (None, Some(ms(10))));
    // Hidden reasoning that a true running count has counted stays known, whatever a parser holds back at the end.
    let mut events: Vec<String> = (1..=900).step_by(100).map(|n| counted("", n)).collect();
    events.extend([counted("word", 901), counted("word", 902), counted("word", 902)]);
    let r = run(None, &events, &[LENGTH, r#"{"choices":[],"usage":{"completion_tokens":903}}"#, DONE]);
    assert_eq!((r.first_event_tokens, r.tpot()), (Some(901), Some(ms(10))), "{r:?}");
}

/// Rows: the events and the end of an answer that was asked for sixteen tokens, and the failure.
#[test]
fn counts_must_agree_with_the_answer() {
    let huge = 1_000_000_000_000_000_000;
    let (m, o, t) = (Some(Failure::Miscounted), Some(Failure::Overrun), Some(Failure::Truncated));
    let totals: Vec<String> = (0..=2000).map(total).collect();
    let huge_total = total(huge);
    let huge_prompt =
        r#"{"choices":[],"usage":{"prompt_tokens":1000000000000000000,"completion_tokens":16}}"#;
    let reasoned = r#"{"choices":[],"usage":{"completion_tokens":900,"completion_tokens_details":{"reasoning_tokens":884}}}"#;
    for (what, events, end, failure) in [
        ("10^18 at the end", plain(16), vec![LENGTH, &huge_total, DONE], o),
        ("10^18 in every event", sixteen(|_| huge), vec![LENGTH, DONE], o),
        ("just above 4 × 16 + 1,024", plain(16), vec![LENGTH, &totals[1089], DONE], o),
        ("10^18 input tokens", plain(16), vec![LENGTH, huge_prompt, DONE], m),
        ("[DONE] at half of the length", plain(8), vec![DONE], t),
        ("[DONE] at the length", plain(16), vec![DONE], None),
        ("half of the length, and a finish reason", plain(8), vec![STOP, DONE], None),
        ("half of the length, and usage", plain(8), vec![&totals[8], DONE], None),
        ("a thousand tokens in 64 bytes", plain(16), vec![STOP, &totals[1000], DONE], m),
        ("more than its length", plain(32), vec![LENGTH, &totals[32], DONE], m),
        ("twice as fast as it was", sixteen(|n| 2 * n), vec![LENGTH, &totals[32], DONE], m),
        ("a length that is not kept", plain(32), vec![STOP, &totals[32], DONE], None),
        ("some special tokens", plain(16), vec![LENGTH, &totals[18], DONE], None),
        ("fewer at the end than before", sixteen(|n| n), vec![LENGTH, &totals[2], DONE], m),
        ("a zero at the end", sixteen(|n| n), vec![LENGTH, &totals[0], DONE], None),
        ("three tokens in sixteen events", plain(16), vec![LENGTH, &totals[3], DONE], m),
        ("an event for each character", plain(16), vec![STOP, &totals[4], DONE], None),
        ("tokens without text, several in one event", plain(3), vec![LENGTH, &totals[16], DONE], None),
        ("hidden reasoning", plain(16), vec![LENGTH, reasoned, DONE], None),
    ] {
        let r = run(Some(ASKED), &events, &end);
        assert_eq!(r.failure, failure, "{what}: {r:?}");
        assert_eq!(r.outcome == Outcome::Ok, failure.is_none(), "{what}");
        assert!(r.output_tokens.is_none_or(|n| n < u32::MAX), "{what}: {r:?}");
    }
    let open = AskedLength { is_pinned: false, ..ASKED };
    assert_eq!(run(Some(open), &plain(8), &[DONE]).failure, None, "the server may end where it likes");
    assert_eq!(run(None, &plain(8), &[DONE]).failure, None, "no length was asked for");
    assert_eq!(run(None, &plain(8), &[LENGTH, &huge_total]).failure, o, "no count is 10^18");
}
