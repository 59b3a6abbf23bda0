//! What is counted over the whole sweep, and the memory that its steps share.

use super::StepTally;
use crate::caveat::Caveat;
use crate::distribution;
use crate::record::{Record, TokenSource};
use crate::rundir::Sent;
use crate::search::Ask;
use crate::slo::Slo;
use crate::stats::itl::ItlTally;
use crate::stats::kept::Kept;
use std::time::Duration;

/// Room is made for at most so many requests before a step, 192 MB; with more the memory grows as they come home.
const ROOM: usize = 2_000_000;
/// The part of its tail that a step is likely to need: measured requests are long over by then, unless the server is overloaded.
const LIKELY_TAIL: Duration = Duration::from_secs(10);

/// The memory of a step's requests, which the next step uses again.
#[derive(Debug, Default)]
pub(super) struct Room {
    pub(super) kept: Vec<Kept>,
    pub(super) itl: Option<ItlTally>,
}

/// How many requests a step is likely to come to, with some to spare: rate × (settle + window + tail). A window that is
/// extended is already foreseen as long as its rate needs on average. Zero where the rate is not known beforehand.
fn foreseen(ask: &Ask) -> usize {
    let Some(rate) = ask.level.per_s() else { return 0 };
    let load = ask.settle + ask.measure + ask.tail.min(LIKELY_TAIL);
    // Bursts, and what an extension adds.
    (1.05 * rate * load.as_secs_f64() + 1000.0).min(ROOM as f64) as usize
}

/// Counts over the whole sweep that no file tells.
#[derive(Debug, Default)]
pub(crate) struct SweepTally {
    estimated: u64,
    uncounted: u64,
    unfinished: u64,
    input: Lengths,
    output: Lengths,
    /// Tokens of prompts and answers, as the server counts them.
    sent: (distribution::Lengths, distribution::Lengths),
    room: Room,
}

/// Tokens asked for and got, over the requests of which both are known.
#[derive(Debug, Default)]
struct Lengths {
    requests: u64,
    asked: u64,
    got: u64,
}

impl Lengths {
    fn add(&mut self, asked: u32, got: Option<u32>) {
        if let Some(got) = got {
            self.requests += 1;
            self.asked += u64::from(asked);
            self.got += u64::from(got);
        }
    }

    /// Mean asked for and mean got, where they are further apart than max(2 %, `tokens`).
    fn off(&self, tokens: f64) -> Option<(f64, f64)> {
        let mean = |sum: u64| sum as f64 / self.requests.max(1) as f64;
        let (asked, got) = (mean(self.asked), mean(self.got));
        ((got - asked).abs() > (0.02 * asked).max(tokens)).then_some((asked, got))
    }
}

impl SweepTally {
    /// An empty tally for a step of these tiers. Room is made now for as many requests as it is likely to come to, so that the
    /// memory of a step does not grow while it runs, and nothing is copied from a smaller room into a larger one meanwhile: a
    /// client that waits for memory is late.
    ///
    /// Takes some 50 ms for a million requests: before the load starts.
    pub(crate) fn begin(&mut self, tiers: &[Slo], ask: &Ask) -> StepTally {
        let (mut room, n) = (std::mem::take(&mut self.room), foreseen(ask));
        Kept::room(&mut room.kept, n);
        room.itl.get_or_insert_with(|| ItlTally::new(tiers)).begin(n);
        StepTally::in_room(tiers, room)
    }

    /// Takes the memory of a step back, once it is summed up.
    pub(crate) fn end(&mut self, step: StepTally) {
        self.room = Room { kept: step.kept, itl: Some(step.itl) };
    }

    /// Counts a request of a step.
    pub(crate) fn add(&mut self, r: &Record) {
        if !r.ok() {
            return;
        }
        self.estimated += u64::from(r.token_source == Some(TokenSource::Events));
        self.uncounted += u64::from(r.output_tokens.is_none());
        self.unfinished += u64::from(r.finish.as_deref() == Some("done"));
        self.input.add(r.input_asked, r.input_tokens);
        self.output.add(r.output_asked, r.output_tokens);
        if let Some(n) = r.input_tokens {
            self.sent.0.push(n);
        }
        if let Some(n) = r.output_tokens {
            self.sent.1.push(n);
        }
    }

    /// How long prompts and answers were, by the server's counts; `None` where it counted nothing.
    pub(crate) fn sent(&self) -> Option<Sent> {
        let (input, output) = (self.sent.0.finish(), self.sent.1.finish());
        (input.is_some() || output.is_some()).then_some(Sent { input, output })
    }

    /// Whether a caveat is one of those that are counted here.
    pub(crate) const fn counts(caveat: &Caveat) -> bool {
        matches!(
            caveat,
            Caveat::TokensEstimated { .. }
                | Caveat::TokensUnknown { .. }
                | Caveat::NoFinishReason { .. }
                | Caveat::InputLengthOff { .. }
                | Caveat::LengthsNotPinned { .. }
                | Caveat::ColdCacheHits { .. }
        )
    }

    /// What the reader must know of them.
    pub(crate) fn caveats(&self) -> Vec<Caveat> {
        let mut found = Vec::new();
        if self.estimated > 0 {
            found.push(Caveat::TokensEstimated { requests: self.estimated });
        }
        if self.uncounted > 0 {
            found.push(Caveat::TokensUnknown { requests: self.uncounted });
        }
        if self.unfinished > 0 {
            found.push(Caveat::NoFinishReason { requests: self.unfinished });
        }
        found.extend(self.input.off(2.0).map(|(asked, got)| Caveat::InputLengthOff { asked, got }));
        // Rule 5 of the design allows inputs 2 tokens; outputs are pinned to the token. Estimates are not compared.
        if self.estimated == 0 {
            found.extend(self.output.off(0.5).map(|(asked, got)| Caveat::LengthsNotPinned { asked, got }));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::Level;
    use crate::record::{Finished, Outcome, Phase};
    use crate::search::Ends;
    use crate::stats::step::StepKind;

    fn ask(level: Level, measure_s: u64, tail_s: u64) -> Ask {
        Ask {
            level,
            kind: StepKind::List,
            settle: Duration::from_secs(10),
            measure: Duration::from_secs(measure_s),
            extend: true,
            tail: Duration::from_secs(tail_s),
            drain: Duration::from_secs(30),
            ends: Ends::AtItsTime,
            confidence: 0.95,
        }
    }

    #[test]
    fn requests_are_foreseen() {
        for (ask, least, most) in [
            (ask(Level::rate(500.0), 600, 5), 307_500, 325_000), // 615 s of load
            (ask(Level::rate(500.0), 600, 300), 310_000, 328_000), // no more of the tail than is likely
            (ask(Level::rate(1.0), 60, 5), 500, 2_000),          // bursts of a few
            (ask(Level::rate(1e6), 600, 5), ROOM, ROOM),         // not all that there is
            (ask(Level::concurrency(64), 600, 5), 0, 0),         // its rate will show
        ] {
            let n = foreseen(&ask);
            assert!((least..=most).contains(&n), "{ask:?}: {n}");
        }
    }

    /// The memory of a step stands before it starts, and the next one has the same.
    #[test]
    fn a_step_does_not_grow_while_it_runs() {
        let tiers: [Slo; 1] = [toml::from_str("ttft.p99 = \"200ms\"\nitl.p95 = \"10ms\"").unwrap()];
        let mut sweep = SweepTally::default();
        let ask = ask(Level::rate(10.0), 60, 5);
        let mut places = Vec::new();
        for _ in 0..2 {
            let mut step = sweep.begin(&tiers, &ask);
            let (place, room) = (step.kept.as_ptr(), step.kept.capacity());
            assert!(room >= 750 && step.home() == 0 && step.measured() == 0 && step.itl.buckets().is_empty());
            for id in 0..750 {
                let mut record = Record::due(id, Phase::Measure, Duration::from_millis(100 * id));
                record.outcome = Outcome::Ok;
                step.add(&Finished::new(record, vec![20_000]));
            }
            assert_eq!((step.kept.as_ptr(), step.kept.capacity()), (place, room));
            let counted = step.itl.counts(&tiers[0].limits()[1], |_| true);
            assert_eq!((step.home(), counted.counts.misses), (750, 750), "of this step alone");
            places.push(place);
            sweep.end(step);
        }
        assert_eq!(places[0], places[1], "the second step has the memory of the first");
    }
}
