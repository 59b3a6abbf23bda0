//! Events per second that the client can read: splitting bytes into events, parsing them, and counting tokens.
//!
//! `cargo bench --bench sse`. The stream is vLLM's for a chat of 31 tokens: 34 events including the role, the usage and
//! `[DONE]`.

use divan::{Bencher, black_box, counter::ItemsCount};
use goodput::client::{Api, Tally, event, sse::Parser};
use std::{fmt, time::Duration};

fn main() {
    divan::main();
}

const TOKENS: u32 = 31;

/// The sizes of reads.
#[derive(Debug, Clone, Copy)]
enum Reads {
    /// An event in each read, as under load.
    Each,
    /// The whole stream in one read.
    Whole,
    /// Ethernet segments: one event in six is split.
    Segments,
    /// Reads of a few bytes: nearly all end within an event, and no event fits into one.
    Shreds,
}

impl Reads {
    fn cut(self, stream: &str) -> Vec<&[u8]> {
        match self {
            Self::Each => stream.split_inclusive("\n\n").map(str::as_bytes).collect(),
            Self::Whole => vec![stream.as_bytes()],
            Self::Segments => stream.as_bytes().chunks(1448).collect(),
            Self::Shreds => stream.as_bytes().chunks(61).collect(),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Case {
    reads: Reads,
    /// True if each event reports the usage so far.
    continuous: bool,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}{}", self.reads, if self.continuous { ", usage in each" } else { "" })
    }
}

const CASES: [Case; 8] = {
    const fn case(reads: Reads, continuous: bool) -> Case {
        Case { reads, continuous }
    }
    [
        case(Reads::Each, false),
        case(Reads::Whole, false),
        case(Reads::Segments, false),
        case(Reads::Shreds, false),
        case(Reads::Each, true),
        case(Reads::Whole, true),
        case(Reads::Segments, true),
        case(Reads::Shreds, true),
    ]
};

fn stream(continuous: bool) -> String {
    let head = r#"data: {"id":"chatcmpl-8f2b5c1d9e7a4f60","object":"chat.completion.chunk","created":1763640000,"model":"Qwen/Qwen3-0.6B","choices":["#;
    let usage = |n: u32| {
        format!(r#","usage":{{"prompt_tokens":50,"total_tokens":{},"completion_tokens":{n}}}"#, 50 + n)
    };
    let running = |n| if continuous { usage(n) } else { String::new() };
    let mut out = format!(
        "{head}{{\"index\":0,\"delta\":{{\"role\":\"assistant\",\"content\":\"\"}},\"logprobs\":null,\"finish_reason\":null}}]{},\"prompt_token_ids\":null}}\n\n",
        running(0)
    );
    for n in 1..=TOKENS {
        let text = if n % 10 == 0 { r" line\n" } else { " token" };
        let finish = if n == TOKENS { r#""length","stop_reason":null"# } else { "null" };
        out.push_str(&format!(
            "{head}{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}},\"logprobs\":null,\"finish_reason\":{finish},\"token_ids\":null}}]{}}}\n\n",
            running(n)
        ));
    }
    out + &format!("{head}]{}}}\n\ndata: [DONE]\n\n", usage(TOKENS))
}

/// Bytes to tally: all of the client's work on a stream.
#[divan::bench(args = CASES)]
fn tally(bencher: Bencher<'_, '_>, case: Case) {
    let stream = stream(case.continuous);
    let pieces = case.reads.cut(&stream);
    bencher.counter(ItemsCount::new(stream.matches("\n\n").count())).bench_local(|| {
        let (mut parser, mut tally) = (Parser::new(), Tally::new(Api::Chat, None));
        let mut reader = event::EventReader::default();
        for (n, piece) in pieces.iter().enumerate() {
            let at = Duration::from_micros(1000 * n as u64);
            let fed = parser.feed(black_box(piece), |item| {
                tally.feed(at, reader.read(item, event::parse), item.data);
            });
            assert!(fed.is_ok());
        }
        assert!(tally.whole() && tally.sealed());
        tally
    });
}

/// Bytes to events only.
#[divan::bench(args = [Reads::Each, Reads::Whole, Reads::Segments, Reads::Shreds])]
fn split(bencher: Bencher<'_, '_>, reads: Reads) {
    let stream = stream(false);
    let pieces = reads.cut(&stream);
    bencher.counter(ItemsCount::new(stream.matches("\n\n").count())).bench_local(|| {
        let (mut parser, mut bytes) = (Parser::new(), 0);
        for piece in &pieces {
            let fed = parser.feed(black_box(piece), |item| bytes += item.data.len());
            assert!(fed.is_ok());
        }
        bytes
    });
}

/// Parsing of one payload.
#[divan::bench(args = [false, true])]
fn parse(bencher: Bencher<'_, '_>, continuous: bool) {
    let stream = stream(continuous);
    let payload = stream.split("\n\n").nth(5).and_then(|event| event.strip_prefix("data: "));
    let data = payload.expect("a stream has more events").as_bytes();
    bencher
        .counter(ItemsCount::new(1_u32))
        .bench_local(|| event::parse(goodput::client::sse::Item { data: black_box(data), error: false }));
}
