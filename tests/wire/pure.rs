//! The recordings through the parser and the tally alone: every figure of the record, and its recorded time.

use crate::audio::TRANSCRIPTS;
use crate::expected::{PAGES, REFUSED, STREAMS, Stream};
use crate::items::ANSWERED;
use crate::recording::{Ending, Recording, folder};
use goodput::client::{
    Api, Tally, parse_document, parse_event,
    sse::Parser,
    tally::{End, Tallied},
};
use goodput::record::{Failure, Outcome, Phase, Record, TokenSource};
use std::{fs, num::NonZeroU8, time::Duration};

fn api_of(recording: &Recording) -> Api {
    Api::of_path(&recording.path).unwrap()
}

fn tallied(name: &str) -> (Record, Tallied) {
    tallied_with(name, None)
}

/// Reads a recording as the answer to a request for so many choices; `None` for one.
fn tallied_with(name: &str, choices: Option<NonZeroU8>) -> (Record, Tallied) {
    let recording = Recording::load(name);
    let api = api_of(&recording);
    let mut tally = Tally::new(api, None);
    assert!(recording.asked.is_some(), "{name}: its counts are compared with what was asked for");
    tally.expect(recording.asked);
    tally.expect_choices(choices);
    let mut parser = Parser::new();
    let mut end = Duration::ZERO;
    for (at, bytes) in recording.body_reads() {
        parser.feed(&bytes, |item| tally.feed(at, parse_event(api, item), item.data)).unwrap();
        end = at;
    }
    let mut record = Record::due(0, Phase::Measure, Duration::ZERO);
    let why = if recording.ending == Ending::Abort { End::Cut } else { End::Eof };
    let tallied = tally.finish(why, end, &mut record);
    (record, tallied)
}

fn record(name: &str) -> Record {
    tallied(name).0
}

/// Checks all that does not depend on the clock.
pub(crate) fn check(s: &Stream, r: &Record) {
    let name = s.name;
    assert_eq!((r.output_tokens, r.token_source), (s.tokens, s.source), "{name}");
    assert_eq!((r.input_tokens, r.cached_tokens), (s.input, s.cached), "{name}");
    assert_eq!((r.events, r.first_event_tokens), (s.events, s.first_tokens), "{name}");
    assert_eq!(r.finish.as_deref(), s.finish, "{name}");
}

#[test]
fn every_stream_yields_its_record() {
    for s in STREAMS {
        let (r, tallied) = tallied(s.name);
        check(s, &r);
        let expected = if s.finish.is_some() { Outcome::Ok } else { Outcome::Cut };
        assert_eq!((r.outcome, r.failure), (expected, None), "{}", s.name);
        let ms = |d: Option<Duration>| d.unwrap().as_secs_f64() * 1e3;
        assert!((ms(r.first_token) - s.first_ms).abs() < 1e-6, "{}: {r:?}", s.name);
        assert!((ms(r.last_token) - s.last_ms).abs() < 1e-6, "{}: {r:?}", s.name);
        assert_eq!(r.first_content, r.first_token, "{}", s.name);
        assert_eq!(tallied.gaps_us.len() as u32, s.events - 1, "{}", s.name);
        let gaps: f64 = tallied.gaps_us.iter().map(|&g| f64::from(g) / 1e3).sum();
        assert!((gaps - (s.last_ms - s.first_ms)).abs() < 0.001 * f64::from(s.events), "{}: {gaps}", s.name);
    }
}

/// Rows: a recording of two choices of four tokens, the times of the first and of the last token, and the time that each choice decoded, in µs.
#[test]
fn two_choices_are_told_apart() {
    for (name, first, last, decoding) in [
        ("vllm/completions-stream-n2", 7_416, 13_606, [13_523 - 7_416, 13_606 - 7_509]),
        ("llamacpp/completions-stream-n2", 1_770, 6_253, [6_253 - 1_895, 5_971 - 1_770]),
    ] {
        let (r, tallied) = tallied_with(name, NonZeroU8::new(2));
        let us = Duration::from_micros;
        assert_eq!(
            (r.outcome, r.failure, r.finish.as_deref()),
            (Outcome::Ok, None, Some("length")),
            "{name}"
        );
        assert_eq!((r.first_token, r.last_token), (Some(us(first)), Some(us(last))), "{name}");
        assert_eq!(
            (r.output_tokens, r.token_source, r.events),
            (Some(8), Some(TokenSource::Usage), 8),
            "{name}"
        );
        let all: u64 = decoding.iter().sum();
        assert!(r.decoding.unwrap().abs_diff(us(all)) <= us(5), "{name}: {:?}", r.decoding);
        assert!(r.tpot().unwrap().abs_diff(us(all) / 6) <= us(1), "{name}: {:?}", r.tpot());
        assert_eq!((tallied.gaps_us.len(), tallied.gaps_us.iter().sum::<u32>()), (6, all as u32), "{name}");
        let (r, tallied) = tallied_with(name, NonZeroU8::new(3));
        assert_eq!(r.failure, Some(Failure::Miscounted), "{name}");
        let said = String::from_utf8(tallied.seen.unwrap().into()).unwrap();
        assert_eq!(said, "the answer has 2 choices where n = 3 asks for 3");
    }
}

#[test]
fn every_recording_has_its_expectation() {
    let mut names: Vec<String> = Vec::new();
    for server in ["vllm", "llamacpp"] {
        for file in fs::read_dir(folder().join(server)).unwrap() {
            let file = file.unwrap().file_name().into_string().unwrap();
            names.push(format!("{server}/{}", file.strip_suffix(".txt").unwrap()));
        }
    }
    names.sort();
    let expected = STREAMS.iter().map(|s| s.name).chain(REFUSED.iter().map(|r| r.name));
    let expected = expected.chain(ANSWERED.iter().map(|a| a.name)).chain(TRANSCRIPTS.iter().map(|t| t.name));
    let mut expected: Vec<&str> = expected.chain(PAGES.iter().map(|p| p.0)).collect();
    expected.sort_unstable();
    assert_eq!(names, expected);
}

#[test]
fn quirk_1_the_first_chunk_is_the_role_only() {
    // vLLM sends it with content "", in a read of its own; llama.cpp with null, in one read with the first token.
    for (name, apart) in [("vllm/chat-stream-usage", true), ("llamacpp/chat-stream-usage", false)] {
        let r = record(name);
        assert_eq!(r.first_event < r.first_token, apart, "{name}: {r:?}");
    }
}

#[test]
fn quirk_2_usage_comes_with_no_choice() {
    for name in ["vllm/chat-stream-usage", "llamacpp/chat-stream-usage", "vllm/completions-stream-usage"] {
        assert_eq!(record(name).token_source, Some(TokenSource::Usage), "{name}");
    }
}

#[test]
fn quirk_3_usage_in_every_chunk_or_only_at_the_end_or_never() {
    for (name, source) in [
        ("vllm/chat-stream-continuous-usage", TokenSource::Continuous),
        ("vllm/completions-stream-continuous-usage", TokenSource::Continuous),
        // llama.cpp does not know the option, and puts the total into the last chunk with a choice.
        ("llamacpp/completions-stream-continuous-usage", TokenSource::Usage),
        ("llamacpp/completions-stream-nousage", TokenSource::Usage),
        ("vllm/chat-stream-nousage", TokenSource::Events),
    ] {
        let r = record(name);
        assert_eq!((r.token_source, r.output_tokens), (Some(source), Some(12)), "{name}");
    }
}

#[test]
fn quirk_12_two_tokens_in_one_chunk() {
    let r = record("vllm/chat-stream-continuous-usage");
    assert_eq!((r.output_tokens, r.events), (Some(12), 11));
    let r = record("vllm/chat-stream-usage");
    assert_eq!((r.output_tokens, r.events), (Some(12), 11));
}

#[test]
fn quirk_13_a_token_without_text() {
    // The first chunk of this answer has empty text: half a character.
    let r = record("vllm/abort-midflight");
    assert_eq!((r.events, r.first_token), (9, r.first_event));
}

#[test]
fn quirk_13_the_last_token_comes_with_the_reason_or_before_it() {
    // vLLM: 12 events, the last with text and reason. llama.cpp: 12 events, then one with the reason alone.
    for name in ["vllm/completions-stream-usage", "llamacpp/completions-stream-usage"] {
        let r = record(name);
        assert_eq!(
            (r.events, r.output_tokens, r.finish.as_deref()),
            (12, Some(12), Some("length")),
            "{name}"
        );
    }
}

#[test]
fn quirk_15_timings_are_skipped() {
    let r = record("llamacpp/chat-stream-nousage");
    assert_eq!((r.token_source, r.output_tokens), (Some(TokenSource::Events), Some(12)));
}

#[test]
fn quirk_19_events_of_one_read_share_one_time() {
    let r = record("llamacpp/chat-stream-usage");
    assert_eq!(r.first_event, r.first_token, "role and first token in one read");
}

#[test]
fn one_token_has_no_tpot() {
    for name in ["vllm/chat-stream-one-token", "llamacpp/chat-stream-one-token"] {
        let r = record(name);
        assert_eq!((r.output_tokens, r.tpot()), (Some(1), None), "{name}");
    }
}

#[test]
fn reads_cut_anywhere_count_the_same() {
    for s in STREAMS.iter().filter(|s| s.events < 20) {
        let recording = Recording::load(s.name);
        let body: Vec<u8> = recording.body_reads().into_iter().flat_map(|(_, b)| b).collect();
        for size in [1, 2, 7, 64, 1000, body.len()] {
            let api = api_of(&recording);
            let mut tally = Tally::new(api, None);
            let mut parser = Parser::new();
            for piece in body.chunks(size) {
                parser.feed(piece, |i| tally.feed(Duration::ZERO, parse_event(api, i), i.data)).unwrap();
            }
            let mut r = Record::due(0, Phase::Measure, Duration::ZERO);
            tally.finish(End::Cut, Duration::ZERO, &mut r);
            check(s, &r);
        }
    }
}

/// Rows: a recording, the number of its reads that arrive, and the events with tokens among them. In the last two, all that is missing is the
/// event that ends the answer.
#[test]
fn a_stream_cut_short_is_truncated() {
    for (name, reads, events) in [
        ("vllm/chat-stream-usage", 5, 4),
        ("vllm/responses-stream", 5, 4),
        ("vllm/messages-stream", 5, 4),
        ("vllm/responses-stream", 14, 10),
        ("vllm/messages-stream", 12, 11),
    ] {
        let recording = Recording::load(name);
        let (api, all) = (api_of(&recording), recording.body_reads());
        let mut tally = Tally::new(api, None);
        let mut parser = Parser::new();
        for (at, bytes) in &all[..reads] {
            parser.feed(bytes, |i| tally.feed(*at, parse_event(api, i), i.data)).unwrap();
        }
        let mut r = Record::due(0, Phase::Measure, Duration::ZERO);
        tally.finish(End::Eof, all[reads - 1].0, &mut r);
        assert_eq!(
            (r.outcome, r.failure, r.events),
            (Outcome::Failed, Some(Failure::Truncated), events),
            "{name} {reads}"
        );
    }
}

/// Rows: a recorded document, its input and output tokens, and its finish reason.
#[test]
fn documents_yield_their_records() {
    for (name, input, output, finish) in [
        ("vllm/chat-nostream", 52, 12, "length"),
        ("vllm/completions-nostream", 40, 12, "length"),
        ("vllm/responses-nostream", 52, 12, "length"),
        ("vllm/messages-nostream", 52, 12, "max_tokens"),
    ] {
        let recording = Recording::load(name);
        let body: Vec<u8> = recording.body_reads().into_iter().flat_map(|(_, b)| b).collect();
        let api = api_of(&recording);
        let mut tally = Tally::new(api, None);
        tally.expect(recording.asked);
        tally.document(Duration::from_millis(9), parse_document(api, &body), &body);
        let mut r = Record::due(0, Phase::Measure, Duration::ZERO);
        tally.finish(End::Eof, Duration::from_millis(9), &mut r);
        assert_eq!((r.outcome, r.failure, r.finish.as_deref()), (Outcome::Ok, None, Some(finish)), "{name}");
        assert_eq!((r.input_tokens, r.output_tokens), (Some(input), Some(output)), "{name}");
    }
}
