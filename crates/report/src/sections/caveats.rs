//! Caveats with advice.

use crate::document::{Advice, Block, Section};
use crate::words;
use goodput_core::caveat::Caveat;
use goodput_run::rundir::Run;

/// Returns the blocks of the section of the report; empty if there are no caveats.
pub(super) fn section(run: &Run) -> Vec<Block> {
    vec![block(run)]
}

/// Returns the blocks of the section of the report of several series: the caveats of the run as a whole. Those of one series are in
/// its section.
pub(super) fn of_all(run: &Run) -> Vec<Block> {
    let of_all = run.caveats.iter().filter(|c| run.series_of(c).is_empty()).cloned().collect();
    section(&Run { caveats: of_all, ..run.clone() })
}

/// Returns the caveats for a terminal.
pub(super) fn brief(run: &Run) -> Section {
    Section::titled("Caveats", vec![block(run)])
}

fn block(run: &Run) -> Block {
    let one = |said: words::CaveatWords| Advice::new(said.text, said.advice);
    Block::Caveats(words::caveats(run).into_iter().map(one).collect())
}

/// Returns the caveats of a part that are not about the whole run, for the section of that part.
pub(super) fn of_series(run: &Run, part: &Run) -> Vec<Caveat> {
    let own = |c: &&Caveat| run.series_of(c).contains(&part.series());
    part.caveats.iter().filter(own).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_core::caveat::{OriginCaveat, ServerCaveat};
    use goodput_run::fixture;

    #[test]
    fn a_caveat_of_one_series_stands_in_its_section() {
        let late = Caveat::Server(ServerCaveat::NotDrained { step: 13, left: 1.0 });
        let run = fixture::pair_with(vec![Caveat::Origin(OriginCaveat::VirtualTime), late.clone()]);
        assert!(!of_series(&run, &run.parts[0]).contains(&late));
        assert!(of_series(&run, &run.parts[1]).contains(&late));
        assert!(!of_series(&run, &run.parts[1]).contains(&Caveat::Origin(OriginCaveat::VirtualTime)));
    }
}
