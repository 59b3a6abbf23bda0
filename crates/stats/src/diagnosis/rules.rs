//! The rules: which figures show what, and from where on. The one table of thresholds, each with where it comes from.

use super::figure::Figure::{self, *};
use super::{Confidence, Kind};

/// What a curve must be about for a rule to apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    /// Whatever it is about, also where no limit was missed.
    Always,
    /// Where a limit was missed, whichever.
    Missed,
    /// The time to the first token is what is limited or asked about; the backlog counts as that.
    First,
    /// The time of the tokens after it.
    Rest,
}

/// Which steps a rule looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The one that is looked into.
    Step,
    /// That one, else the worst of those with no more load than a quarter above it: what the server's counters show is so whether or not a
    /// limit was missed yet.
    Any,
}

/// A figure and the threshold that it is above or below.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Test {
    /// The figure.
    pub figure: Figure,
    above: bool,
    threshold: f64,
}

impl Test {
    /// Whether a value passes.
    pub fn holds(&self, value: f64) -> bool {
        if self.above { value > self.threshold } else { value < self.threshold }
    }
}

const fn over(figure: Figure, threshold: f64) -> Test {
    Test { figure, above: true, threshold }
}

const fn under(figure: Figure, threshold: f64) -> Test {
    Test { figure, above: false, threshold }
}

/// A rule: it fires where all of `when` are known and hold. Several rules of a kind are different ways to see it; the surest counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// What it finds.
    pub kind: Kind,
    /// What a curve must be about.
    pub about: About,
    /// Which steps it looks at.
    pub scope: Scope,
    /// What must hold.
    pub when: &'static [Test],
    /// What shows the mechanism itself: with all of it the confidence is high.
    pub shown: &'static [Test],
    /// The confidence where some of `shown` is not known.
    pub blind: Confidence,
    /// The confidence where some of `shown` is known not to hold; `None`: then it is something else.
    pub denied: Option<Confidence>,
    /// What is told besides.
    pub also: &'static [Figure],
    /// Its share in the latency that is limited; none for what makes others worse.
    pub weight: Option<Figure>,
}

/// What most rules have.
const USUAL: Rule = Rule {
    kind: Kind::Unstable,
    about: About::Always,
    scope: Scope::Step,
    when: &[],
    shown: &[],
    blind: Confidence::Medium,
    denied: None,
    also: &[],
    weight: None,
};

/// The table.
pub const RULES: &[Rule] = &[
    // The verdict of a step has told the client's delay from the server's by the client's own clocks (stats/fault.rs).
    Rule { kind: Kind::ClientLimited, when: &[over(ClientWasLimit, 0.5)], ..USUAL },
    // 1 % of requests: the project's brief. A p99 has room for as many. That a preempted request is computed again: vLLM, "Optimization and
    // Tuning", Preemption.
    Rule {
        kind: Kind::Preemption,
        scope: Scope::Any,
        when: &[over(Preempted, 0.01)],
        also: &[KvMost, WaitingMost],
        ..USUAL
    },
    // 95 %: the project's brief. SGLang's "Hyperparameter Tuning" calls more than 90 % good use of the cache, and says to look for
    // retracted requests above that. Full is no fault where nobody waits: then it is said with low confidence.
    Rule {
        kind: Kind::KvExhaustion,
        scope: Scope::Any,
        when: &[over(KvMost, 0.95)],
        shown: &[over(WaitingMost, 0.0)],
        denied: Some(Confidence::Low),
        also: &[RunningMost],
        ..USUAL
    },
    // Requests wait (half of one at any time is no accident of sampling), the seats are taken (nine of ten over the whole window), and yet a
    // token takes less than twice what it takes one request alone: below that, two requests at once get more done than one after the
    // other, so that more of them would still. KV use below 80 %: a fifth of the cache has room for a fifth more sequences at least.
    Rule {
        kind: Kind::BatchTooSmall,
        about: About::First,
        when: &[over(WaitingMean, 0.5), over(SeatsTaken, 0.9), under(TpotTimesAlone, 2.0)],
        shown: &[over(SeatsTold, 0.5), under(KvMost, 0.8)],
        ..USUAL
    },
    // 70 % of what prompts share: a prefix ends within a block, and the last block is computed anyway (the caveat on warm caches has the
    // same bound). 2 %: less is no prefix to speak of.
    Rule {
        kind: Kind::CacheMisses,
        when: &[over(SharedByPrompts, 0.02), under(HitsOfShared, 0.7)],
        also: &[WarmTimesCold],
        ..USUAL
    },
    // Warm is as cold: less than a tenth sooner, where at least a quarter of the prompt need not be read. A median of a hundred requests is
    // sure to a few per cent, hence a tenth. Where the server had its hits, it is not the cache.
    Rule {
        kind: Kind::CacheMisses,
        when: &[over(SharedByPrompts, 0.25), over(WarmTimesCold, 0.9)],
        shown: &[under(HitsOfShared, 0.7)],
        ..USUAL
    },
    // Hits that halve under load were there and are not any more: evicted. 30 %: less than that is no warm cache.
    Rule {
        kind: Kind::CacheMisses,
        when: &[over(HitsAlone, 0.3), under(HitsTimesAlone, 0.5)],
        shown: &[over(KvMost, 0.8)],
        denied: Some(Confidence::Medium),
        ..USUAL
    },
    // With more GPUs to a token, less than half of what they add is gained: by definition more is lost than won. It is lost to communication
    // where what exceeds the floor grew by a quarter of the token's time; else host work, which does not shrink, may be it.
    Rule {
        kind: Kind::CommunicationBound,
        when: &[over(GpusTogether, 1.5), under(GainOfGpus, 0.5)],
        shown: &[over(LostBetweenGpus, 0.25)],
        ..USUAL
    },
    // Three times the floor: less than a third of a token's time is reading memory. With several GPUs communication is one of the causes,
    // and host work another.
    Rule {
        kind: Kind::CommunicationBound,
        when: &[over(GpusTogether, 1.5), over(TpotTimesFloor, 3.0)],
        shown: &[over(LostBetweenGpus, 0.25)],
        blind: Confidence::Low,
        ..USUAL
    },
    // Half: then it is the largest part of the unloaded TTFT. A tenth of the TTFT that misses: less cannot be what binds (rundir/matrix has
    // the same bound). The line is steady where no longer group of prompts is sooner than a shorter one.
    Rule {
        kind: Kind::PrefillBound,
        about: About::First,
        when: &[over(PrefillOfTtft, 0.5), over(PrefillOfMissed, 0.1)],
        shown: &[over(LineRises, 0.5)],
        denied: Some(Confidence::Low),
        weight: Some(PrefillOfMissed),
        ..USUAL
    },
    // The server's own histogram of prefill against its TTFT, unloaded: the same half. That it grows with the length is not shown.
    Rule {
        kind: Kind::PrefillBound,
        about: About::First,
        when: &[over(ServerPrefillOfTtft, 0.5), over(ServerPrefillOfMissed, 0.1)],
        shown: &[over(LineRises, 0.5)],
        weight: Some(ServerPrefillOfMissed),
        ..USUAL
    },
    // Half of the TPOT is there for one request alone: the larger part. It is shown to be memory where the plan says what must be read and
    // that takes more than half of it (the floor's own bound).
    Rule {
        kind: Kind::DecodeBound,
        about: About::Rest,
        when: &[over(TpotAloneOfLoaded, 0.5)],
        shown: &[under(TpotTimesFloor, 2.0)],
        denied: Some(Confidence::Medium),
        weight: Some(TpotAloneOfLoaded),
        ..USUAL
    },
    // A quarter more: medians of a few dozen requests scatter by some per cent from step to step (rundir/matrix has the same bound).
    Rule {
        kind: Kind::BatchingTradeOff,
        about: About::Rest,
        when: &[over(TokensTimesLow, 1.25), over(TpotTimesLow, 1.25)],
        weight: Some(TpotAddedByLoad),
        ..USUAL
    },
    // Twice, and half as much again as the median: in M/D/1, where waiting is all there is, from 30 to 95 % of its capacity the p99 of
    // wait and service grows more than 2.4 times as much as its median (a test computes it), and a server that is slower as a whole moves both
    // alike. A queue of tens of milliseconds is hardly ever met by a sample a second: where none was seen, confidence is low, not nil.
    Rule {
        kind: Kind::Queueing,
        about: About::First,
        when: &[over(TtftTailTimesAlone, 2.0), over(TailTimesMedian, 1.5)],
        shown: &[over(WaitingMost, 0.0)],
        denied: Some(Confidence::Low),
        also: &[ServerQueueOfTtft],
        weight: Some(WaitOfMissed),
        ..USUAL
    },
    // The server's own histogram of its queue: half of the TTFT and more is the larger part.
    Rule {
        kind: Kind::Queueing,
        about: About::First,
        when: &[over(ServerQueueOfTtft, 0.5)],
        also: &[WaitingMost, TtftTailTimesAlone],
        weight: Some(ServerQueueOfTtft),
        ..USUAL
    },
    // That the backlog grows was tested on its own (stats/steady.rs). 95 %: what is in flight at both ends of a stable step comes to the
    // same, so that it completes what was due in it but for a few requests; a twentieth is more than that in any step of a hundred.
    Rule {
        kind: Kind::Unstable,
        about: About::Missed,
        when: &[over(BacklogGrows, 0.5)],
        shown: &[under(CompletedOfOffered, 0.95)],
        denied: Some(Confidence::Medium),
        ..USUAL
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_rule_and_every_rule_a_threshold() {
        for kind in Kind::ALL {
            assert!(RULES.iter().any(|r| r.kind == kind), "{kind:?}");
        }
        assert!(RULES.iter().all(|r| !r.when.is_empty()));
        let unknown_is_less = |r: &&Rule| r.shown.is_empty() || r.blind < Confidence::High;
        assert!(RULES.iter().all(|r| unknown_is_less(&r) && r.denied != Some(Confidence::High)));
    }
}
