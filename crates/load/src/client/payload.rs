//! A request body in two pieces: a prefix that many requests share, and the tail of the single request.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

/// A request body. Cheap to clone, and sent without joining its pieces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Payload {
    /// The shared prefix.
    pub head: Bytes,
    /// The rest of the body.
    pub tail: Bytes,
    /// Number of tokens, over all choices, beyond which the answer is aborted; `None` if the answer's length is open.
    pub most_tokens: Option<u64>,
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
                most_tokens: None,
            };
            assert_eq!(p.size_hint().exact(), Some(p.len() as u64));
            let whole = p.collect().await.unwrap().to_bytes();
            assert_eq!(whole, format!("{head}{tail}"));
        }
    }
}
