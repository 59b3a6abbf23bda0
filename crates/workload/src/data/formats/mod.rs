//! From a row's bytes to its turns: what all formats have in common, and which one reads what.

mod aiperf;
mod generic;
mod sharegpt;
mod spec_bench;

pub(super) use generic::{header, optional};

use super::config::{DataSource, Format, OutputFrom, Turns};
use super::estimate::Counter;
use super::fields::{Fault, Object};
use super::sample::TurnSample;
use goodput_core::message::{Message, Role};
use serde_json::Value;

/// Reads rows of one data set.
#[derive(Debug, Clone)]
pub(super) struct Parser {
    pub(super) format: Format,
    pub(super) turns: Turns,
    pub(super) output_from: Option<OutputFrom>,
    /// Whether the plan has lengths for answers of which the data says nothing.
    pub(super) plan_lengths: bool,
    pub(super) counter: Counter,
}

/// What a row holds.
#[derive(Debug, PartialEq)]
pub(super) enum Parsed {
    /// Turns as they stand in the row, and what binds it to others: one conversation's rows have the same session.
    Turns(Vec<TurnSample>, Option<String>),
    /// A sound row without anything to send.
    Nothing,
}

impl Parser {
    pub(super) fn new(source: &DataSource, counter: Counter) -> Self {
        Self {
            format: source.format.clone(),
            turns: source.turns,
            output_from: source.output_from,
            plan_lengths: source.output_tokens.is_some(),
            counter,
        }
    }

    /// The row as an object. `header` names the columns of CSV.
    pub(super) fn object(&self, bytes: &[u8], header: &[String]) -> Result<Object, Fault> {
        if let Format::Csv(_, delimiter) = &self.format {
            return generic::record(bytes, header, *delimiter);
        }
        match serde_json::from_slice(bytes) {
            Ok(Value::Object(object)) => Ok(object),
            Ok(other) => Err(Fault::row(format!("is {}, an object is needed", super::fields::kind(&other)))),
            Err(e) => Err(Fault::json(&e)),
        }
    }

    /// The turns of a row, as they stand in it.
    pub(super) fn read(&self, row: &Object) -> Result<Parsed, Fault> {
        match &self.format {
            Format::ShareGpt => sharegpt::read(row),
            Format::Jsonl(fields) | Format::Csv(fields, _) => generic::read(row, fields),
            Format::Aiperf => aiperf::read(row),
            Format::SpecBench => spec_bench::read(row),
        }
    }

    /// The turns that are sent, each with the length of its answer; `None` where the plan gives it.
    pub(super) fn finish(&self, mut turns: Vec<TurnSample>) -> Result<Vec<TurnSample>, Fault> {
        for turn in &mut turns {
            self.settle_output(turn);
        }
        let open = |t: &TurnSample| t.output_tokens.is_none() && !self.plan_lengths;
        match self.turns {
            Turns::First => turns.truncate(1),
            // The data ends with a question: all that came before it is a conversation of its own.
            Turns::All if turns.len() > 1 && turns.last().is_some_and(open) => {
                turns.pop();
            }
            Turns::All => {}
            Turns::Last => turns = last(turns),
        }
        let Some(first) = turns.first_mut() else {
            return Err(Fault::row("holds nothing that a user says"));
        };
        // There is no answer before it that anybody could have read.
        first.delay = None;
        if turns.iter().any(open) {
            let reason = match self.output_from {
                Some(OutputFrom::Field) => "has no field with the length of the answer",
                Some(OutputFrom::Reference) => "has no reference answer to take the length from",
                _ => "says nothing of the answer's length: give output-tokens in the plan",
            };
            return Err(Fault::row(reason));
        }
        Ok(turns)
    }

    fn settle_output(&self, turn: &mut TurnSample) {
        turn.reference = turn.reference.take().filter(|r| !r.trim().is_empty());
        let counted = || {
            let text = turn.reference.as_deref()?;
            Some(self.counter.tokens(text).round().clamp(1.0, f64::from(u32::MAX)) as u32)
        };
        turn.output_tokens = match self.output_from {
            None => turn.output_tokens.or_else(counted),
            Some(OutputFrom::Field) => turn.output_tokens,
            Some(OutputFrom::Reference) => counted(),
            Some(OutputFrom::Plan) => None,
        };
    }
}

/// The last turn alone, with all that was said before it.
fn last(turns: Vec<TurnSample>) -> Vec<TurnSample> {
    let mut said = Vec::new();
    let n = turns.len();
    for (i, mut turn) in turns.into_iter().enumerate() {
        said.append(&mut turn.messages);
        if i + 1 == n {
            return vec![TurnSample { messages: said, ..turn }];
        }
        let answer = turn.reference.unwrap_or_default();
        said.push(Message { role: Role::Assistant, content: answer });
    }
    Vec::new()
}

/// Joins a further row to its conversation.
///
/// Logs of requests repeat the conversation so far in every row. Where a row does so, only what follows is new, and the answers
/// that it tells are those to the turns before. A system message that was said already is not said again.
pub(super) fn join(conversation: &mut Vec<TurnSample>, mut row: Vec<TurnSample>) {
    let n = conversation.len();
    let repeats = row.len() > n && conversation.iter().zip(&row).all(|(a, b)| a.messages == b.messages);
    if repeats {
        let new = row.split_off(n);
        for (had, told) in conversation.iter_mut().zip(row) {
            had.reference = had.reference.take().or(told.reference);
        }
        row = new;
    } else if let (Some(first), Some(more)) = (conversation.first(), row.first_mut()) {
        more.messages.retain(|m| m.role != Role::System || !first.messages.contains(m));
    }
    conversation.append(&mut row);
}

#[cfg(test)]
mod tests;
