//! The requests of one step, drawn lazily: an endless, seeded sequence of chains.

use super::arrivals::Times;
use super::chain::{Chain, Recipe, Start, Turn};
use super::config::Workload;
use super::seed::{Purpose, stream};
use crate::level::{Control, Level};
use crate::units::Rate;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::time::Duration;

/// Which step the requests are for: the key of its random numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct StepKey {
    /// The plan's seed.
    pub seed: u32,
    /// The series.
    pub series: String,
    /// The step's number; 0 is what comes before the first step.
    pub step: u32,
}

/// The chains of one step. Never ends: the load takes as many as it needs, so that a step can be extended.
#[derive(Clone)]
pub struct Chains {
    times: Option<Times>,
    workload: Workload,
    input: ChaCha8Rng,
    output: ChaCha8Rng,
    group: ChaCha8Rng,
    /// Whether the shared prefixes are taken in turn, so that warming up reaches every one of them.
    in_turn: bool,
    next_id: u64,
}

impl Chains {
    /// Draws for a step at `level`. Fails for a level that this workload cannot step through, or a rate that is none.
    pub fn new(workload: &Workload, key: &StepKey, level: Level) -> Result<Self, String> {
        let rng = |purpose| stream(key.seed, &key.series, key.step, purpose);
        let times = match level.control {
            Control::Rate => {
                Some(Times::new(workload.arrivals, Rate::try_from(level.value)?, rng(Purpose::Arrivals)))
            }
            Control::Concurrency => None,
            Control::Sessions | Control::TraceScale => {
                return Err(format!("synthetic prompts cannot be stepped by {}", level.control.name()));
            }
        };
        Ok(Self {
            times,
            workload: workload.clone(),
            input: rng(Purpose::Input),
            output: rng(Purpose::Output),
            group: rng(Purpose::Group),
            in_turn: key.step == 0,
            next_id: 0,
        })
    }
}

impl Iterator for Chains {
    type Item = Chain;

    fn next(&mut self) -> Option<Chain> {
        let start = match &mut self.times {
            Some(times) => Start::At(times.next()?),
            None => Start::WhenFree,
        };
        let s = self.workload.synthetic();
        let request = Recipe {
            id: self.next_id,
            input_tokens: s.input_tokens.draw(&mut self.input),
            output_tokens: s.output_tokens.draw(&mut self.output),
            group: if self.in_turn {
                (self.next_id % u64::from(self.workload.groups())) as u32
            } else {
                self.group.random_range(0..self.workload.groups())
            },
        };
        self.next_id += 1;
        Some(Chain {
            start,
            turns: vec![Turn { after: Duration::ZERO, class: 0, keep_text: false, request }],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload() -> Workload {
        toml::from_str(
            "prompts.synthetic = { input-tokens = { lognormal = { mean = 600, cv = 0.4 } }, output-tokens = { fixed = 30 }, \
             shared-prefix = { tokens = 100, groups = 3 } }",
        )
        .unwrap()
    }

    fn draw(seed: u32, step: u32, level: Level) -> Vec<Chain> {
        let key = StepKey { seed, series: "main".into(), step };
        Chains::new(&workload(), &key, level).unwrap().take(500).collect()
    }

    #[test]
    fn the_same_seed_draws_the_same_requests() {
        assert_eq!(draw(1, 1, Level::rate(5.0)), draw(1, 1, Level::rate(5.0)));
        assert_ne!(draw(1, 1, Level::rate(5.0)), draw(2, 1, Level::rate(5.0)));
        assert_ne!(draw(1, 1, Level::rate(5.0)), draw(1, 2, Level::rate(5.0)));
    }

    #[test]
    fn warming_up_reaches_every_prefix() {
        let groups: Vec<u32> =
            draw(1, 0, Level::concurrency(1))[..3].iter().map(|c| c.turns[0].request.group).collect();
        assert_eq!(groups, [0, 1, 2]);
    }

    #[test]
    fn prompts_do_not_depend_on_the_arrivals() {
        let open = draw(1, 1, Level::rate(5.0));
        let closed = draw(1, 1, Level::concurrency(4));
        assert!(open.iter().zip(&closed).all(|(a, b)| a.turns == b.turns));
        assert!(closed.iter().all(|c| c.start == Start::WhenFree));
        assert!(open.iter().any(|c| c.turns[0].request.group == 2), "all groups are used");
    }
}
