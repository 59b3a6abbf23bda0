//! Parsing rows into turns: dispatch by format, and processing that all formats share.

mod aiperf;
mod generic;
mod sharegpt;
mod spec_bench;

pub(super) use generic::{header, optional};

use super::config::{DataSource, Format, OutputFrom, Turns};
use super::estimate::Counter;
use super::fields::{Object, RowError};
use super::sample::TurnSample;
use goodput_core::message::{Message, Role, begins_with_calls};
use serde_json::Value;

/// Parser of the rows of one data set.
#[derive(Debug, Clone)]
pub(super) struct Parser {
    pub(super) format: Format,
    pub(super) turns: Turns,
    pub(super) output_from: Option<OutputFrom>,
    /// True if the plan sets lengths for answers without one.
    pub(super) plan_lengths: bool,
    pub(super) counter: Counter,
}

/// Contents of a row.
#[derive(Debug, PartialEq)]
pub(super) enum Parsed {
    /// Turns in the order of the row, and the session id that the rows of a conversation share.
    Turns(Vec<TurnSample>, Option<String>),
    /// A valid row with nothing to send.
    Empty,
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

    /// Parses a row to an object. `header` has the column names of CSV.
    pub(super) fn object(&self, bytes: &[u8], header: &[String]) -> Result<Object, RowError> {
        if let Format::Csv(_, delimiter) = &self.format {
            return generic::record(bytes, header, *delimiter);
        }
        match serde_json::from_slice(bytes) {
            Ok(Value::Object(object)) => Ok(object),
            Ok(other) => {
                Err(RowError::row(format!("is {}, an object is needed", super::fields::kind(&other))))
            }
            Err(e) => Err(RowError::json(&e)),
        }
    }

    /// Reads the turns of a row in their order.
    pub(super) fn read(&self, row: &Object) -> Result<Parsed, RowError> {
        match &self.format {
            Format::ShareGpt => sharegpt::read(row),
            Format::Jsonl(fields) | Format::Csv(fields, _) => generic::read(row, fields),
            Format::Aiperf => aiperf::read(row),
            Format::SpecBench => spec_bench::read(row),
        }
    }

    /// Selects the turns to send, each with its answer length; `None` if the plan sets it.
    pub(super) fn finish(&self, mut turns: Vec<TurnSample>) -> Result<Vec<TurnSample>, RowError> {
        for turn in &mut turns {
            self.set_output_length(turn);
        }
        let lacks_length = |t: &TurnSample| t.output_tokens.is_none() && !self.plan_lengths;
        match self.turns {
            Turns::First => turns.truncate(1),
            // A final question without an answer is dropped.
            Turns::All if turns.len() > 1 && turns.last().is_some_and(lacks_length) => {
                turns.pop();
            }
            Turns::All => {}
            Turns::Last => turns = last_turn(turns),
        }
        let Some(first) = turns.first_mut() else {
            return Err(RowError::row("has no text of a user"));
        };
        // There is no answer before the first turn to wait after.
        first.delay = None;
        if turns.iter().any(lacks_length) {
            let reason = match self.output_from {
                Some(OutputFrom::Field) => "has no field with the length of the answer",
                Some(OutputFrom::Reference) => "has no reference answer to take the length from",
                Some(OutputFrom::Plan) | None => "has no answer length: set output-tokens in the plan",
            };
            return Err(RowError::row(reason));
        }
        Ok(turns)
    }

    fn set_output_length(&self, turn: &mut TurnSample) {
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

/// Returns only the last turn, with the conversation before it as messages.
fn last_turn(turns: Vec<TurnSample>) -> Vec<TurnSample> {
    let mut history = Vec::new();
    let mut turns = turns.into_iter().peekable();
    while let Some(mut turn) = turns.next() {
        history.append(&mut turn.messages);
        match turns.peek() {
            None => return vec![TurnSample { messages: history, ..turn }],
            Some(next) if begins_with_calls(&next.messages) => {}
            Some(_) => history.push(Message::new(Role::Assistant, turn.reference.unwrap_or_default())),
        }
    }
    Vec::new()
}

/// Appends a row to its conversation.
///
/// Request logs repeat the conversation so far in every row. In that case only the new turns are appended, and the
/// row's answers complete the earlier turns. A repeated system message is dropped.
pub(super) fn join(conversation: &mut Vec<TurnSample>, mut row: Vec<TurnSample>) {
    let n = conversation.len();
    let repeats = row.len() > n && conversation.iter().zip(&row).all(|(a, b)| a.messages == b.messages);
    if repeats {
        let new = row.split_off(n);
        for (turn, repeated) in conversation.iter_mut().zip(row) {
            turn.reference = turn.reference.take().or(repeated.reference);
        }
        row = new;
    } else if let (Some(first), Some(more)) = (conversation.first(), row.first_mut()) {
        more.messages.retain(|m| m.role != Role::System || !first.messages.contains(m));
    }
    conversation.append(&mut row);
}

#[cfg(test)]
mod tests;
