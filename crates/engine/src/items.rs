//! Requests of several items on any engine: each item is a prompt of its own, and the request is answered when the last one has
//! been read, or when the text of each has been written.

use super::{Emission, IdMap, Model, Request};
use std::time::Duration;

/// Number of bits of an engine's request id that count the items of a request.
const ITEM_BITS: u32 = 16;

/// An engine that also takes requests of items. Other requests pass through unchanged.
#[derive(Debug, Clone)]
pub struct ItemModel {
    model: Model,
    /// The open requests of items.
    open: IdMap<OpenItems>,
}

/// An open request of items.
#[derive(Debug, Clone, Copy)]
struct OpenItems {
    /// Number of items.
    of: u64,
    /// Number of items that have not been read.
    left: u64,
    /// When the engine began to work on the first item.
    started: Duration,
    /// True if the engine refused an item.
    refused: bool,
    /// Tokens of text so far; `None` if the items are only read.
    text: Option<u32>,
}

impl ItemModel {
    /// Makes it on an engine.
    pub fn new(model: Model) -> Self {
        Self { model, open: IdMap::default() }
    }

    /// Returns the engine.
    pub const fn model(&self) -> &Model {
        &self.model
    }

    /// See [`Model::arrive`]. Ids must be below 2⁴⁸, and a request has fewer than 2¹⁶ items. Each item is answered with the output tokens of the
    /// request; with none, it is only read.
    pub fn arrive(&mut self, at: Duration, request: Request) {
        let first = request.id << ITEM_BITS;
        if request.items.is_empty() {
            return self.model.arrive(at, Request { id: first, ..request });
        }
        let of = request.items.len() as u64;
        let text = (request.output_tokens > 0).then_some(0);
        let open = OpenItems { of, left: of, started: Duration::MAX, refused: false, text };
        self.open.insert(request.id, open);
        for (id, tokens) in (first..).zip(request.items.iter()) {
            self.model.arrive(at, Request::new(id, *tokens, request.output_tokens.max(1)));
        }
    }

    /// See [`Model::cancel`].
    pub fn cancel(&mut self, at: Duration, id: u64) {
        let items = self.open.remove(&id).map_or(1, |open| open.of);
        for item in 0..items {
            self.model.cancel(at, (id << ITEM_BITS) + item);
        }
    }

    /// See [`Model::advance`]. A request of items emits once, when it is finished: with the tokens of all texts, with one if the items were only
    /// read, and without any if one was refused.
    pub fn advance(&mut self, to: Duration) -> Vec<Emission> {
        let emissions = self.model.advance(to);
        emissions.into_iter().filter_map(|emission| self.gather(emission)).collect()
    }

    fn gather(&mut self, emission: Emission) -> Option<Emission> {
        let emission = Emission { id: emission.id >> ITEM_BITS, ..emission };
        let Some(open) = self.open.get_mut(&emission.id) else { return Some(emission) };
        open.started = open.started.min(emission.started);
        open.refused |= emission.tokens == 0;
        open.text = open.text.map(|tokens| tokens + emission.tokens);
        open.left -= u64::from(emission.finished);
        if open.left > 0 {
            return None;
        }
        let OpenItems { started, refused, text, .. } = self.open.remove(&emission.id)?;
        let tokens = if refused { 0 } else { text.unwrap_or(1) };
        Some(Emission { started, tokens, ..emission })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Simulated;

    const MS: Duration = Duration::from_millis(1);

    fn md1() -> Model {
        let sim: Simulated = toml::from_str("preset = \"md1\"\nservice = \"10ms\"").unwrap();
        sim.build().with_items()
    }

    /// Ids and times in ms at which requests are finished.
    fn ends(emissions: &[Emission]) -> Vec<(u64, u128)> {
        emissions.iter().filter(|e| e.finished).map(|e| (e.id, e.at.as_millis())).collect()
    }

    #[test]
    fn a_request_is_answered_with_its_last_item() {
        let mut model = md1();
        model.arrive(Duration::ZERO, Request::new(7, 0, 0).with_items([5, 5, 5].into()));
        model.arrive(MS, Request::new(8, 9, 1));
        model.arrive(2 * MS, Request::new(9, 0, 0).with_items([5].into()));
        let emissions = model.advance(Duration::MAX);
        // One server, 10 ms for each item and for the prompt between them.
        assert_eq!(ends(&emissions), [(7, 30), (8, 40), (9, 50)]);
        assert_eq!(emissions.len(), 3, "an item by itself emits nothing");
        assert_eq!((emissions[0].started, emissions[0].tokens), (Duration::ZERO, 1));
    }

    #[test]
    fn a_cancelled_request_frees_the_server_of_all_its_items() {
        let mut model = md1();
        model.arrive(Duration::ZERO, Request::new(7, 0, 0).with_items([5, 5, 5].into()));
        model.arrive(Duration::ZERO, Request::new(8, 9, 1));
        model.advance(5 * MS);
        model.cancel(5 * MS, 7);
        let emissions = model.advance(Duration::MAX);
        assert_eq!(ends(&emissions).iter().map(|(id, _)| *id).collect::<Vec<_>>(), [8]);
        assert!(emissions[0].at <= 20 * MS, "{emissions:?}");
    }
}
