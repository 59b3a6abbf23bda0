//! The chains of a step by their numbers alone: the part that each falls to, and how many are due. With it, a leader checks the requests that
//! several machines sent.

use super::draw::Chains;
use super::part::Parts;
use std::time::Duration;

/// The numbers of a step's chains.
#[derive(Clone)]
pub struct Schedule(Chains);

impl Schedule {
    /// Makes the schedule of all chains of a step, of which none has been drawn.
    pub const fn new(chains: Chains) -> Self {
        Self(chains)
    }

    /// Returns the number of the chain that a request belongs to.
    pub fn chain(&self, request: u64) -> u64 {
        self.0.traffic().chain(request)
    }

    /// Returns the number of the first request of a chain.
    pub fn first_request(&self, chain: u64) -> u64 {
        self.0.traffic().first_id(chain)
    }

    /// Returns the parts that the step's chains are divided into.
    pub fn parts(&self, of: u32) -> Parts {
        self.0.parts(of)
    }

    /// Returns the number of chains that are due before a time from the start of the step; `None` in a closed loop, whose chains start when
    /// others have ended. Draws all of them, without reading data sets.
    pub fn due_before(&self, end: Duration) -> Option<u64> {
        self.0.clone().due_before(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::{Chain, Start};
    use crate::data::Counter;
    use crate::draw::StepKey;
    use crate::part::StepPart;
    use crate::traffic::Traffic;
    use goodput_core::level::{Control, Level};

    const TALK: &str = "prompts.synthetic = { input-tokens = { fixed = 50 }, output-tokens = { fixed = 10 } }\n\
        conversation = { turns = { fixed = 3 }, input-tokens = { fixed = 20 }, think = { fixed = \"2s\" } }";

    fn step(level: Level, part: StepPart) -> (Chains, Schedule) {
        let traffic = Traffic::open(&toml::from_str(TALK).unwrap(), &Counter::default()).unwrap();
        let key = StepKey { seed: 3, series: "main".into(), step: 2 };
        let chains = || Chains::new(&traffic, &key, level).unwrap();
        (chains().part(&key, part), Schedule::new(chains()))
    }

    #[test]
    fn the_schedule_numbers_the_chains_that_are_drawn() {
        let end = Duration::from_secs(20);
        let (mut due, mut of_all) = (Vec::new(), 0);
        for i in 0..3 {
            let (chains, schedule) = step(Level::new(Control::Sessions, 5.0), StepPart::new(i, 3).unwrap());
            let parts = schedule.parts(3);
            let is_early = |chain: &Chain| matches!(chain.start, Start::At(at) if at < end);
            for chain in chains.take_while(is_early) {
                let request = chain.turns[0].request.id;
                let number = schedule.chain(request);
                assert_eq!((parts.part_of(number), schedule.first_request(number)), (i, request));
                assert_eq!(schedule.chain(chain.turns[2].request.id), number, "a later turn");
                due.push(number);
            }
            of_all = schedule.due_before(end).unwrap();
        }
        due.sort_unstable();
        assert_eq!(due, (0..of_all).collect::<Vec<_>>());
        assert!(of_all > 50, "{of_all}");
    }

    #[test]
    fn a_closed_loop_has_no_due_times() {
        let (_, schedule) = step(Level::concurrency(4), StepPart::WHOLE);
        assert_eq!(schedule.due_before(Duration::from_secs(1)), None);
    }
}
