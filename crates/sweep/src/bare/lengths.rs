//! Requests of a plan with other lengths.

use goodput_workload::chain::{Chain, Start, Text};
use goodput_workload::draw::Chains;
use std::time::Duration;

/// Factors on the tokens of prompts, shared prefixes included, and of answers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Lengths {
    pub(crate) prompts: f64,
    pub(crate) answers: f64,
}

impl Lengths {
    /// The lengths of the plan.
    pub(crate) const AS_PLANNED: Self = Self { prompts: 1.0, answers: 1.0 };

    /// Changes the lengths of the requests of a chain; none becomes empty.
    fn apply(self, mut chain: Chain) -> Chain {
        for turn in &mut chain.turns {
            let request = &mut turn.request;
            request.input_tokens = scaled(request.input_tokens, self.prompts);
            request.output_tokens = scaled(request.output_tokens, self.answers);
            match &mut request.text {
                Text::Items { lengths, .. } => {
                    *lengths = lengths.iter().map(|tokens| scaled(*tokens, self.prompts)).collect();
                }
                Text::Audio { length, .. } => {
                    *length = Duration::from_millis((length.as_millis() as f64 * self.prompts) as u64);
                }
                _ => {}
            }
        }
        chain
    }
}

/// Returns a number of tokens times a factor; at least one if there was one.
fn scaled(tokens: u32, factor: f64) -> u32 {
    ((f64::from(tokens) * factor).round() as u32).max(tokens.min(1))
}

/// The requests of a step, drawn one after the other.
pub(super) struct Requests {
    pub(super) chains: Chains,
    pub(super) lengths: Lengths,
}

impl Requests {
    /// Draws the next chain, with its due time; zero in a closed loop.
    pub(super) fn draw(&mut self) -> Option<(Duration, Chain)> {
        let chain = self.lengths.apply(self.chains.next()?);
        let at = match chain.start {
            Start::At(at) => at,
            Start::WhenFree => Duration::ZERO,
        };
        Some((at, chain))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_rounded_and_no_request_becomes_empty() {
        for (tokens, factor, expected) in
            [(100, 0.5, 50), (3, 0.5, 2), (1, 0.25, 1), (0, 0.5, 0), (7, 1.0, 7)]
        {
            assert_eq!(scaled(tokens, factor), expected, "{tokens} x {factor}");
        }
    }
}
