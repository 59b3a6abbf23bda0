//! Fault injection into the body of an answer, event by event.

use crate::sim::socket::ConnectionHandle;
use axum::body::Body;
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use futures_util::stream::{Stream, unfold};
use goodput_engine::fault::Fault;
use http_body_util::BodyExt;
use memchr::memmem;
use std::{collections::VecDeque, future::pending, io, io::Write, time::Duration};
use tokio::{task::yield_now, time::sleep};

/// Number of events before a fault within the stream, unless the last token comes earlier.
const SOUND: usize = 2;
/// Number of events in one write, for [`Fault::Bundled`].
const BUNDLE: usize = 4;
/// Time between two bytes of [`Fault::SlowDrip`] …
const DRIP: Duration = Duration::from_millis(50);
/// … and between two tokens of [`Fault::Endless`].
const TOKEN: Duration = Duration::from_millis(1);
/// Sizes for [`Fault::LongLine`] and [`Fault::HugeBody`], in bytes: the pieces, the line, and the body.
const PIECE: usize = 64 << 10;
const LINE: usize = 64 << 20;
const HUGE: usize = 1 << 30;
/// Count of the first event of [`Fault::UsageFalling`], in tokens.
const FALLS_FROM: u64 = 100;
/// The finish reasons in the simulated server's events, each with what is in its place in an answer that has none.
const FINISH: [[&[u8]; 2]; 4] = [
    [br#""finish_reason":"length""#, br#""finish_reason":null"#],
    [br#""done_reason":"length""#, br#""done_reason":null"#],
    [br#""stop_reason":"max_tokens""#, br#""stop_reason":null"#],
    [br#""incomplete_details":{"reason":"max_output_tokens"}"#, br#""incomplete_details":null"#],
];
/// Endings of the names of events with tokens, in an API whose events have names.
const DELTAS: [&[u8]; 2] = [b".delta", b"content_block_delta"];

/// The parts of a body that a fault counts and alters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// Server-sent events.
    Events,
    /// Lines of JSON.
    Lines,
    /// The halves of one document.
    Document,
}

impl Framing {
    /// Returns the end of an event.
    const fn separator(self) -> Option<&'static [u8]> {
        match self {
            Self::Events => Some(b"\n\n"),
            Self::Lines => Some(b"\n"),
            Self::Document => None,
        }
    }

    fn is_stream(self) -> bool {
        self != Self::Document
    }
}

/// Returns the body with a fault in it.
pub(super) fn faulty(
    fault: Fault,
    connection: Option<ConnectionHandle>,
    body: Body,
    framing: Framing,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    let source = Source { body, framing, rest: Vec::new(), pieces: VecDeque::new(), ended: false };
    let state = Faulty {
        fault,
        connection,
        source,
        seen: 0,
        struck: false,
        over: false,
        out: VecDeque::new(),
        last: Bytes::new(),
        token: Bytes::new(),
        bundle: Vec::new(),
        gzip: GzEncoder::new(Vec::new(), Compression::fast()),
    };
    unfold(state, |mut state| async move { Some((state.next().await?, state)) })
}

/// The sound body, split into events, or, for a document, into halves.
struct Source {
    body: Body,
    framing: Framing,
    rest: Vec<u8>,
    pieces: VecDeque<Bytes>,
    ended: bool,
}

impl Source {
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            if let Some(piece) = self.pieces.pop_front() {
                return Ok(Some(piece));
            }
            if self.ended {
                return Ok(None);
            }
            match self.body.frame().await {
                Some(frame) => {
                    let data = frame.map_err(io::Error::other)?.into_data().unwrap_or_default();
                    self.rest.extend_from_slice(&data);
                }
                None => self.ended = true,
            }
            self.cut();
        }
    }

    fn cut(&mut self) {
        if let Some(separator) = self.framing.separator() {
            while let Some(end) = memmem::find(&self.rest, separator) {
                self.pieces.push_back(self.rest.drain(..end + separator.len()).collect());
            }
        }
        if self.ended && !self.rest.is_empty() {
            let rest = std::mem::take(&mut self.rest);
            let (a, b) = rest.split_at(rest.len() / 2);
            self.pieces.extend([Bytes::copy_from_slice(a), Bytes::copy_from_slice(b)]);
        }
    }
}

struct Faulty {
    fault: Fault,
    connection: Option<ConnectionHandle>,
    source: Source,
    /// Number of events that have passed.
    seen: usize,
    /// True once the fault within the stream has occurred.
    struck: bool,
    over: bool,
    /// Output queue: pieces, each with the number of times that it is sent.
    out: VecDeque<(usize, Bytes)>,
    /// The last event with a token once the stream would end, for [`Fault::Endless`].
    last: Bytes,
    /// The latest event with a token, in an API whose events have names.
    token: Bytes,
    /// Events that wait to be bundled, for [`Fault::Bundled`].
    bundle: Vec<u8>,
    gzip: GzEncoder<Vec<u8>>,
}

impl Faulty {
    /// Returns the next write.
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            if let Some((times, piece)) = self.out.pop_front() {
                if times > 1 {
                    self.out.push_front((times - 1, piece.clone()));
                }
                match self.fault {
                    Fault::SlowDrip => sleep(DRIP).await,
                    // Without a yield, pieces that are ready together would be written together.
                    _ => yield_now().await,
                }
                return Some(Ok(piece));
            }
            if self.over {
                return None;
            }
            if let Err(error) = self.step().await {
                self.over = true;
                return Some(Err(error));
            }
        }
    }

    /// Takes the next event and queues it as altered by the fault.
    async fn step(&mut self) -> io::Result<()> {
        if self.fault == Fault::HeadersOnly {
            pending::<()>().await;
        }
        let Some(event) = self.source.next().await? else { return self.ends().await };
        // For a document, this is its second half; an error replaces all of it.
        let last = match self.source.framing.is_stream() {
            true => has_finish(&event),
            false => self.seen > 0 || self.fault == Fault::ErrorEvent,
        };
        if !self.struck && (self.seen == SOUND || last) {
            self.struck = true;
            self.strike(&event).await?;
            if self.over {
                return Ok(());
            }
        }
        self.seen += 1;
        self.pass(event)
    }

    /// Injects a fault that occurs once within the stream, before `event`.
    async fn strike(&mut self, event: &Bytes) -> io::Result<()> {
        match self.fault {
            Fault::Stall => pending().await,
            Fault::Truncated => self.over = true,
            Fault::CutShort if self.source.framing == Framing::Lines => self.over = true,
            Fault::CutShort if self.source.framing == Framing::Events => {
                self.put(Bytes::from_static(b"data: [DONE]\n\n"));
                self.over = true;
            }
            Fault::ResetMidstream => {
                // Lets the bytes written so far go out first.
                yield_now().await;
                self.connection.iter().for_each(ConnectionHandle::reset);
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            Fault::StreamReset => {
                yield_now().await;
                return Err(io::Error::other("a fault: the stream is reset"));
            }
            Fault::BadJson => {
                let half = &event[..event.len() / 2];
                let half = [half, b"\n\n"].concat();
                self.put(half);
            }
            Fault::ErrorEvent => {
                const ERROR: &str = r#"{"error":{"message":"a fault: out of blocks","type":"InternalServerError","code":500}}"#;
                let written = match self.source.framing {
                    Framing::Events => format!("data: {ERROR}\n\ndata: [DONE]\n\n"),
                    Framing::Lines => format!("{ERROR}\n"),
                    Framing::Document => ERROR.into(),
                };
                self.put(written);
                self.over = true;
            }
            Fault::LongLine => {
                self.put(Bytes::from_static(b"data: "));
                self.out.push_back((LINE / PIECE, vec![b'x'; PIECE].into()));
                self.put(Bytes::from_static(b"\n\n"));
            }
            Fault::HugeBody => {
                let comment = format!(": {}\n", "keep-alive ".repeat(5));
                let piece = comment.repeat(PIECE / comment.len());
                self.out.push_back((HUGE.div_ceil(piece.len()), piece.into()));
            }
            _ => {}
        }
        Ok(())
    }

    /// Queues an event as altered by the fault.
    fn pass(&mut self, event: Bytes) -> io::Result<()> {
        match self.fault {
            Fault::SlowDrip | Fault::ByteByByte => {
                self.out.extend((0..event.len()).map(|i| (1, event.slice(i..=i))))
            }
            Fault::NoFinish => self.put(without_finish(event)),
            Fault::OneChoice if is_further_choice(&event) => {}
            Fault::UsageOwn => {
                let tokens = u64::from(memmem::find(&event, b"\"role\":").is_none());
                self.put(with_usage(&event, tokens));
            }
            Fault::UsageFalling => {
                self.put(with_usage(&event, FALLS_FROM.saturating_sub(self.seen as u64)));
            }
            Fault::UsageHuge if self.source.framing.is_stream() => {
                const COUNT: &[u8] = b"\"completion_tokens\":";
                const HUGE_COUNT: &[u8] = b"\"completion_tokens\":1000000000000000000,\"true_count\":";
                let event = replaced(&event, COUNT, HUGE_COUNT);
                const TYPED: &[u8] = b"\"output_tokens\":";
                const HUGE_TYPED: &[u8] = b"\"output_tokens\":1000000000000000000,\"true_count\":";
                let event = replaced(&event, TYPED, HUGE_TYPED);
                const TGI: &[u8] = b"\"generated_tokens\":";
                const HUGE_TGI: &[u8] = b"\"generated_tokens\":1000000000000000000,\"true_count\":";
                self.put(replaced(&event, TGI, HUGE_TGI));
            }
            Fault::SplitUtf8 => {
                // Characters of two, three and four bytes.
                let text = replaced(&event, br#""content":""#, "\"content\":\"é…😀".as_bytes());
                let text = replaced(&text, br#""text":""#, "\"text\":\"é…😀".as_bytes());
                let text = replaced(&text, br#""delta":""#, "\"delta\":\"é…😀".as_bytes());
                let within = |i: &usize| text[*i] & 0b1100_0000 == 0b1000_0000;
                let mut from = 0;
                for to in (0..text.len()).filter(within).chain([text.len()]) {
                    self.put(text.slice(from..to));
                    from = to;
                }
            }
            Fault::Crlf => self.put(replaced(&event, b"\n", b"\r\n")),
            Fault::Comments if self.source.framing == Framing::Events => {
                let within = replaced(&event, b"\n\n", b"\n: within\n:\n\n");
                self.put([b": keep-alive\n\n", &within[..]].concat());
            }
            Fault::Bundled => {
                self.bundle.extend_from_slice(&event);
                if self.seen.is_multiple_of(BUNDLE) {
                    let bundle = std::mem::take(&mut self.bundle);
                    self.put(bundle);
                }
            }
            Fault::Endless if self.source.framing.is_stream() => {
                if is_delta(&event) {
                    self.token = event.clone();
                }
                if has_finish(&event) || !self.last.is_empty() {
                    // From here on only tokens, and no end: the events that would close the stream are discarded.
                    if self.last.is_empty() {
                        let is_named = !self.token.is_empty();
                        self.last = if is_named { self.token.clone() } else { without_finish(event) };
                        self.put(self.last.clone());
                    }
                } else {
                    self.put(event);
                }
            }
            Fault::Compressed => {
                self.gzip.write_all(&event)?;
                self.gzip.flush()?;
                let written = std::mem::take(self.gzip.get_mut());
                self.put(written);
            }
            _ => self.put(event),
        }
        Ok(())
    }

    fn put(&mut self, piece: impl Into<Bytes>) {
        self.out.push_back((1, piece.into()));
    }

    /// Continues after the end of the sound body.
    async fn ends(&mut self) -> io::Result<()> {
        match self.fault {
            Fault::Endless if !self.last.is_empty() => {
                sleep(TOKEN).await;
                self.put(self.last.clone());
            }
            Fault::Compressed => {
                self.gzip.try_finish()?;
                let written = std::mem::take(self.gzip.get_mut());
                self.put(written);
                self.over = true;
            }
            _ => {
                if !self.bundle.is_empty() {
                    let bundle = std::mem::take(&mut self.bundle);
                    self.put(bundle);
                }
                self.over = true;
            }
        }
        Ok(())
    }
}

/// Returns a copy of an event that has a choice with a count of output tokens; others unchanged.
fn with_usage(event: &Bytes, tokens: u64) -> Bytes {
    let end: &[u8] = b"}\n\n";
    if memmem::find(event, b"\"choices\":[{").is_none() || !event.ends_with(end) {
        return event.clone();
    }
    let usage = format!(",\"usage\":{{\"prompt_tokens\":9,\"completion_tokens\":{tokens}}}");
    [&event[..event.len() - end.len()], usage.as_bytes(), end].concat().into()
}

/// Returns true if an event has the finish reason.
fn has_finish(event: &[u8]) -> bool {
    FINISH.iter().any(|[finish, _]| memmem::find(event, finish).is_some())
}

/// Returns true for an event of another choice than the first.
fn is_further_choice(event: &[u8]) -> bool {
    const CHOICE: &[u8] = b"\"choices\":[{\"index\":";
    memmem::find(event, CHOICE).is_some_and(|at| !event[at + CHOICE.len()..].starts_with(b"0,"))
}

/// Returns an event without the finish reason.
fn without_finish(event: Bytes) -> Bytes {
    FINISH.iter().fold(event, |event, [finish, none]| replaced(&event, finish, none))
}

/// Returns true if the name of an event says that it has tokens.
fn is_delta(event: &[u8]) -> bool {
    let name = event.split(|&b| b == b'\n').next().unwrap_or_default();
    name.starts_with(b"event: ") && DELTAS.iter().any(|delta| name.ends_with(delta))
}

/// Returns a copy with every occurrence of `what` replaced.
fn replaced(event: &[u8], what: &[u8], with: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(event.len() + 16);
    let mut from = 0;
    for at in memmem::find_iter(event, what) {
        out.extend_from_slice(&event[from..at]);
        out.extend_from_slice(with);
        from = at + what.len();
    }
    out.extend_from_slice(&event[from..]);
    out.into()
}
