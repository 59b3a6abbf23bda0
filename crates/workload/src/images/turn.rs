//! Images of conversations: each turn sends those of earlier turns again, as part of the history.

use super::PlannedImage;
use std::sync::Arc;

/// The images that a turn sends. Cheap to clone: the turns of a conversation share one list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnImages {
    conversation: Arc<[PlannedImage]>,
    /// Number of images of earlier turns.
    earlier: usize,
    /// Number of images up to this turn.
    sent: usize,
}

impl TurnImages {
    /// Makes the images of each turn of a conversation from those that it adds.
    pub(crate) fn of_turns(added: Vec<Vec<PlannedImage>>) -> impl Iterator<Item = Self> {
        let conversation: Arc<[PlannedImage]> = added.iter().flatten().copied().collect();
        added.into_iter().scan(0, move |sent, own| {
            let earlier = *sent;
            *sent += own.len();
            Some(Self { conversation: conversation.clone(), earlier, sent: *sent })
        })
    }

    /// Returns all images of the turn's request, in order.
    pub fn sent(&self) -> &[PlannedImage] {
        &self.conversation[..self.sent]
    }

    /// Returns the images of earlier turns, which the request sends again.
    pub fn resent(&self) -> &[PlannedImage] {
        &self.conversation[..self.earlier]
    }

    /// Returns the images that the turn adds.
    pub fn added(&self) -> &[PlannedImage] {
        &self.conversation[self.earlier..self.sent]
    }
}

#[cfg(test)]
mod tests {
    use super::super::ImageSize;
    use super::*;

    #[test]
    fn a_turn_sends_the_images_of_earlier_turns_too() {
        let image = |width| PlannedImage { size: ImageSize { width, height: 9 }, file: None };
        let turns: Vec<TurnImages> =
            TurnImages::of_turns(vec![vec![image(1), image(2)], vec![], vec![image(3)]]).collect();
        let widths = |images: &[PlannedImage]| images.iter().map(|i| i.size.width).collect::<Vec<_>>();
        let all: Vec<_> = turns.iter().map(|t| (widths(t.resent()), widths(t.added()))).collect();
        assert_eq!(all, [(vec![], vec![1, 2]), (vec![1, 2], vec![]), (vec![1, 2], vec![3])]);
        assert_eq!(widths(turns[2].sent()), [1, 2, 3]);
    }
}
