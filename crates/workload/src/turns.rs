//! Drawing the turns of one chain, for each kind of request.

use super::chain::{Recipe, Text, Turn};
use super::conversation::{Conversation, Think};
use super::data::config::Sampling;
use super::data::{DataSet, Order, TurnSample};
use super::draw::StepKey;
use super::images::OpenedImages;
use super::seed::{Purpose, stream};
use super::synthetic::Synthetic;
use super::trace::{Replayed, Trace, TraceRow};
use super::traffic::{OpenedSource, Traffic};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::time::Duration;

/// Random numbers of a step, one stream per purpose.
#[derive(Clone)]
pub(super) struct Draws {
    pub(super) class: ChaCha8Rng,
    pub(super) input: ChaCha8Rng,
    pub(super) output: ChaCha8Rng,
    pub(super) group: ChaCha8Rng,
    images: ChaCha8Rng,
    turns: ChaCha8Rng,
    think: ChaCha8Rng,
    /// Order of rows for each kind that has a data set.
    pub(super) rows: Vec<Option<Order>>,
}

impl Draws {
    /// Creates the streams of a step.
    pub(super) fn new(traffic: &Traffic, key: &StepKey) -> Self {
        let rng = |purpose| stream(key.seed, &key.series, key.step, purpose);
        let rows = traffic.kinds().iter().enumerate().map(|(i, kind)| match &kind.source {
            OpenedSource::Data(set) => {
                let mut order_rng = rng(Purpose::Rows);
                order_rng.set_stream(i as u64);
                Some(set.order(order_rng.random()))
            }
            OpenedSource::Recordings(all) => {
                let mut order_rng = rng(Purpose::Rows);
                order_rng.set_stream(i as u64);
                Some(Order::new(Sampling::Shuffled, all.count(), order_rng.random()))
            }
            OpenedSource::Synthetic(_)
            | OpenedSource::Items(_)
            | OpenedSource::Audio(_)
            | OpenedSource::Text(..)
            | OpenedSource::Trace(_) => None,
        });
        Self {
            class: rng(Purpose::Class),
            input: rng(Purpose::Input),
            output: rng(Purpose::Output),
            group: rng(Purpose::Group),
            images: rng(Purpose::Images),
            turns: rng(Purpose::Turns),
            think: rng(Purpose::Think),
            rows: rows.collect(),
        }
    }

    /// Draws the turns of a synthetic chain.
    pub(super) fn synthetic(
        &mut self,
        s: &Synthetic,
        images: Option<&OpenedImages>,
        groups: u32,
        first: Turn,
        group: Option<u32>,
        conversation: Option<Conversation>,
    ) -> Vec<Turn> {
        let n = conversation.and_then(|c| c.turns).map_or(1, |t| t.draw(&mut self.turns));
        let mut images = images.map(|images| images.draw_turns(n, &mut self.images));
        let mut history = 0_u32;
        let mut turns = Vec::with_capacity(n as usize);
        for k in 0..n {
            let images = images.as_mut().and_then(Iterator::next);
            let (text, input) = if k == 0 {
                let group = group.unwrap_or_else(|| self.group.random_range(0..groups));
                let text = match images {
                    Some(images) => Text::Illustrated { group, images },
                    None => Text::Words { group },
                };
                (text, s.input_tokens.draw(&mut self.input))
            } else {
                let follow_up = conversation.and_then(|c| c.input_tokens);
                let tokens = follow_up.map_or(1, |t| t.draw(&mut self.input));
                (Text::FollowUp { tokens, images }, tokens)
            };
            let think = conversation.filter(|_| k > 0).map(|c| c.think.draw(None, &mut self.think));
            let output_tokens = s.output_tokens.draw(&mut self.output);
            let input_tokens = history.saturating_add(input);
            history = input_tokens.saturating_add(output_tokens);
            let request = Recipe { id: first.request.id + u64::from(k), input_tokens, output_tokens, text };
            turns.push(Turn { after: think.unwrap_or(Duration::ZERO), class: first.class, request });
        }
        turns
    }

    /// Returns the request of a trace with its follow-ups: each with the history before it, and after the recorded
    /// delay, whatever the replay speed.
    pub(super) fn recorded(&mut self, trace: &Trace, replayed: Replayed, first: Turn) -> Vec<Turn> {
        let (round, rows) = (replayed.round, [replayed.row].into_iter().chain(replayed.follow_ups));
        let mut history = 0_u32;
        let turn = |(k, row): (usize, TraceRow)| {
            let planned = trace.source().output_tokens.map(|l| l.draw(&mut self.output));
            let text = match trace.block_tokens() {
                _ if k > 0 => Text::FollowUp { tokens: row.input_tokens, images: None },
                Some(tokens) => Text::Blocks { ids: row.blocks, tokens, round },
                None => Text::Words { group: 0 },
            };
            let input_tokens = history.saturating_add(row.input_tokens);
            let output_tokens = row.output_tokens.or(planned).unwrap_or(1);
            history = input_tokens.saturating_add(output_tokens);
            let request = Recipe { id: first.request.id + k as u64, input_tokens, output_tokens, text };
            Turn { after: if k == 0 { Duration::ZERO } else { row.at }, class: first.class, request }
        };
        rows.enumerate().map(turn).collect()
    }

    /// Returns the turns of a row of a data set; empty and without reading the row if it is not `wanted`.
    pub(super) fn data_row(
        &mut self,
        set: &DataSet,
        row: u64,
        think: Think,
        first: Turn,
        wanted: bool,
    ) -> anyhow::Result<Vec<Turn>> {
        // One stream per row: the number of draws is unknown until the row is read.
        let (mut thinks, mut outputs) = (self.think.clone(), self.output.clone());
        thinks.set_stream(first.request.id);
        outputs.set_stream(first.request.id);
        if !wanted {
            return Ok(Vec::new());
        }
        let planned = set.source().output_tokens;
        let turn = |(k, sample): (usize, TurnSample)| {
            let plan = planned.map(|l| l.draw(&mut outputs));
            let after = if k == 0 { Duration::ZERO } else { think.draw(sample.delay, &mut thinks) };
            let request = Recipe {
                id: first.request.id + k as u64,
                // Filled in by the prompter, which knows the server's token rates.
                input_tokens: 0,
                output_tokens: sample.output_tokens.or(plan).unwrap_or(1).max(1),
                text: Text::Messages(sample.messages),
            };
            Turn { after, class: first.class, request }
        };
        Ok(set.get(row)?.conversation.into_iter().enumerate().map(turn).collect())
    }
}
