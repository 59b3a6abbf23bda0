//! A request body in two pieces: a prefix that many requests share, and the tail of the single request.

use super::event::Event;
use bytes::Bytes;
use goodput_core::units::short;
use http_body::{Body, Frame, SizeHint};
use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

/// A request body. Cheap to clone, and sent without joining its pieces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Payload {
    /// The shared prefix.
    pub head: Bytes,
    /// The rest of the body.
    pub tail: Bytes,
    /// The length asked for; `None` if the plan's body leaves it open.
    pub asked: Option<AskedLength>,
    /// What the answer must agree with; `None` if nothing is known of it.
    pub expected: Option<Expected>,
}

/// What an answer in one piece must agree with, if it counts it.
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
        let piece = if this.head.is_empty() { &mut this.tail } else { &mut this.head };
        let piece = std::mem::take(piece);
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
            let p = Payload {
                head: Bytes::from_static(head.as_bytes()),
                tail: Bytes::from_static(tail.as_bytes()),
                ..Payload::default()
            };
            assert_eq!(p.size_hint().exact(), Some(p.len() as u64));
            let whole = p.collect().await.unwrap().to_bytes();
            assert_eq!(whole, format!("{head}{tail}"));
        }
    }
}
