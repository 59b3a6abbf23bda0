//! A request body in two pieces: a prefix that many requests share, and the tail of the single request.

use super::event::Event;
use bytes::Bytes;
use goodput_core::units::short;
use http_body::{Body, Frame, SizeHint};
use std::{
    convert::Infallible,
    num::NonZeroU8,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};
use tokio::time::Instant;

/// Size in bytes from which the upload of a body is timed. A smaller one fits into the buffers of a socket at once.
const LARGE: usize = 256 << 10;
/// Size in bytes of the pieces that a large body is sent in: its upload is over when the last of them is taken by the connection.
const PIECE: usize = 64 << 10;

/// A request body. Cheap to clone, and sent without joining its pieces.
#[derive(Debug, Clone, Default)]
pub struct Payload {
    /// The shared prefix.
    pub head: Bytes,
    /// The rest of the body.
    pub tail: Bytes,
    /// The length asked for; `None` if the plan's body leaves it open.
    pub asked: Option<AskedLength>,
    /// Facts that the answer must agree with; `None` if none are known.
    pub expected: Option<Expected>,
    /// Number of choices asked for; `None` for one.
    pub choices: Option<NonZeroU8>,
    /// Notes the times of the upload, where they are asked for.
    upload: Option<Upload>,
}

/// The times at which the connection took the first and the last piece of a body.
#[derive(Debug, Clone, Default)]
pub(crate) struct Upload(Arc<Mutex<Uploaded>>);

#[derive(Debug, Clone, Copy, Default)]
struct Uploaded {
    began: Option<Instant>,
    ended: Option<Instant>,
}

impl Upload {
    fn times(&self) -> MutexGuard<'_, Uploaded> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a piece was taken, and whether it was the last.
    fn take(&self, is_last: bool) {
        let (mut times, now) = (self.times(), Instant::now());
        times.began.get_or_insert(now);
        if is_last {
            times.ended = Some(now);
        }
    }

    /// Returns the time of the first piece, in the first attempt that came so far. In HTTP/2 it is that at which the stream was opened: until
    /// then the client holds the body back.
    pub(crate) fn began(&self) -> Option<Instant> {
        self.times().began
    }

    /// Returns the time of the last piece, in the last attempt that came so far. What the connection has taken may wait in its buffers, some
    /// hundred KiB, and in those of the system.
    pub(crate) fn ended(&self) -> Option<Instant> {
        self.times().ended
    }
}

/// A fact that an answer in one piece must agree with, if it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// The number of results, unless the plan's body asks for some of them only.
    Results(u32),
    /// The length of the audio.
    Audio(Duration),
}

/// Largest difference between the lengths of audio by the server and by goodput: servers round up to a second.
const AUDIO_TOLERANCE: Duration = Duration::from_secs(1);

impl Expected {
    /// Returns the evidence that an answer is not that of its request.
    pub(crate) fn problem(self, event: &Event) -> Option<String> {
        match self {
            Self::Results(asked) => (event.results > 0 && event.results != asked)
                .then(|| format!("the answer has {} results for {asked} items", event.results)),
            Self::Audio(sent) => {
                let counted = Duration::from_millis(event.audio_ms?.get().into());
                (counted.abs_diff(sent) > AUDIO_TOLERANCE).then(|| {
                    let [counted, sent] = [counted, sent].map(|length| short(length.as_secs_f64()));
                    format!("the server counts {counted} s of audio in a file of {sent} s")
                })
            }
        }
    }
}

/// The multiple of the requested tokens beyond which an answer is aborted …
const OVERRUN_TIMES: u64 = 4;
/// … plus this number of tokens.
const OVERRUN_LEAST: u64 = 1024;

/// The length that a request asks an answer to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AskedLength {
    /// Output tokens, over all choices.
    pub tokens: u64,
    /// True if the request pins the length, so that a sound answer is no shorter.
    pub is_pinned: bool,
}

impl AskedLength {
    /// Returns the number of tokens beyond which an answer is aborted. The margin is far larger than the differences between servers' ways of
    /// counting (special tokens, reasoning, events of tool calls), and than the length of a normal answer whose length is not pinned.
    pub const fn most_tokens(self) -> u64 {
        OVERRUN_LEAST.saturating_add(self.tokens.saturating_mul(OVERRUN_TIMES))
    }
}

impl Payload {
    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// Makes a body.
    pub(crate) fn new(
        head: Bytes,
        tail: Bytes,
        asked: Option<AskedLength>,
        expected: Option<Expected>,
    ) -> Self {
        Self { head, tail, asked, expected, choices: None, upload: None }
    }

    /// Sets the number of choices asked for.
    pub(crate) fn with_choices(self, choices: Option<NonZeroU8>) -> Self {
        Self { choices, ..self }
    }

    /// Times the upload from now on, if the body is large or may have to wait for a stream.
    pub(crate) fn time_upload(&mut self, may_wait: bool) -> Option<Upload> {
        self.upload = (self.is_large() || may_wait).then(Upload::default);
        self.upload.clone()
    }

    /// Returns true if the upload takes time by itself.
    pub(crate) fn is_large(&self) -> bool {
        self.len() >= LARGE
    }

    /// Returns true if there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Body for Payload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        let rest = if this.head.is_empty() { &mut this.tail } else { &mut this.head };
        let piece = match &this.upload {
            Some(_) if rest.len() > PIECE => rest.split_to(PIECE),
            Some(_) | None => std::mem::take(rest),
        };
        if let Some(upload) = this.upload.as_ref().filter(|_| !piece.is_empty()) {
            upload.take(this.head.is_empty() && this.tail.is_empty());
        }
        Poll::Ready((!piece.is_empty()).then(|| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    #[tokio::test]
    async fn both_pieces_are_sent_in_order_and_announced() {
        for (head, tail) in [("ab", "cd"), ("", "cd"), ("ab", ""), ("", "")] {
            let [h, t] = [head, tail].map(|text| Bytes::from_static(text.as_bytes()));
            let p = Payload::new(h, t, None, None);
            assert_eq!(p.size_hint().exact(), Some(p.len() as u64));
            let whole = p.collect().await.unwrap().to_bytes();
            assert_eq!(whole, format!("{head}{tail}"));
        }
    }

    #[tokio::test]
    async fn the_upload_of_a_large_body_ends_with_its_last_piece() {
        let body = |head: usize, tail: usize| {
            let bytes: Vec<u8> = (0..head + tail).map(|i| (i % 251) as u8).collect();
            let mut payload = Payload::new(
                Bytes::copy_from_slice(&bytes[..head]),
                Bytes::copy_from_slice(&bytes[head..]),
                None,
                None,
            );
            let upload = payload.time_upload(false);
            (payload, upload, bytes)
        };
        for (head, tail) in [(0, 1 << 20), (300_000, 1), (100_000, 200_000)] {
            let (mut payload, upload, bytes) = body(head, tail);
            let upload = upload.unwrap();
            assert!(upload.began().is_none());
            let mut sent = Vec::new();
            while let Some(frame) = payload.frame().await {
                assert_eq!(upload.ended().is_some(), payload.is_end_stream(), "{head}, {tail}");
                assert!(upload.began().is_some());
                let piece = frame.unwrap().into_data().unwrap();
                assert!(piece.len() <= PIECE);
                sent.extend_from_slice(&piece);
            }
            assert!(sent == bytes && upload.ended().is_some());
        }
        assert!(body(1000, 200_000).1.is_none());
    }
}
