//! The rules: which figures show which cause, and their thresholds. The only table of thresholds, each with its source.

use super::advice::{HIGHEST_LIMIT, IDLE};
use super::figure::Figure::{self, *};
use super::figure::Side;
use super::{Confidence, Kind};

/// The condition on the limit or question of a curve for a rule to apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    /// Any curve, even if no limit was missed.
    Always,
    /// A curve on which any limit was missed.
    Missed,
    /// The time to the first token is limited or asked about; the backlog counts as that.
    First,
    /// The time of the later tokens is limited or asked about.
    Rest,
}

/// The steps that a rule examines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The examined step.
    Step,
    /// The examined step, or else the worst of those with no more load: the server's counters show a cause whether or not a
    /// limit was missed yet.
    Any,
}

/// A figure with a threshold that it must be above or below.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Test {
    /// The figure.
    pub figure: Figure,
    above: bool,
    threshold: f64,
}

impl Test {
    /// Returns true if a value passes.
    pub fn holds(&self, value: f64) -> bool {
        if self.above { value > self.threshold } else { value < self.threshold }
    }

    /// Returns true if the true value passes wherever a reading on this side of it does.
    pub(super) const fn is_shown_by(&self, side: Side) -> bool {
        match side {
            Side::Exact => true,
            Side::AtMost => !self.above,
            Side::AtLeast => self.above,
        }
    }
}

const fn over(figure: Figure, threshold: f64) -> Test {
    Test { figure, above: true, threshold }
}

const fn under(figure: Figure, threshold: f64) -> Test {
    Test { figure, above: false, threshold }
}

/// A rule: it fires if all of `when` are known and hold; with a confidence that is not high if one of them is known only as a
/// bound that the true value may miss. Several rules of a kind are different ways to detect it; the
/// one with the highest confidence counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// Kind that the rule finds.
    pub kind: Kind,
    /// Condition on the curve.
    pub about: About,
    /// Steps that the rule examines.
    pub scope: Scope,
    /// Tests that must all hold.
    pub when: &'static [Test],
    /// Tests that show the mechanism itself: if all of them hold the confidence is high.
    pub shown: &'static [Test],
    /// Confidence if some of `shown` are unknown.
    pub blind: Confidence,
    /// Confidence if some of `shown` are known not to hold; `None`: the rule then does not fire.
    pub denied: Option<Confidence>,
    /// Figures added to the evidence.
    pub also: &'static [Figure],
    /// Figure for the share of the limited latency; `None` for a cause that makes other parts worse.
    pub weight: Option<Figure>,
}

/// The defaults that most rules share.
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
    // The verdict of a step has separated the client's delay from the server's by the client's clocks (stats/fault.rs).
    Rule { kind: Kind::ClientLimited, when: &[over(ClientWasLimit, 0.5)], ..USUAL },
    // Half of the misses: most of them are failures then, which miss every limit however fast the server is.
    Rule { kind: Kind::Errors, about: About::Missed, when: &[over(FailedOfMisses, 0.5)], ..USUAL },
    // As many failures as a limit allows misses: no latency can keep it.
    Rule {
        kind: Kind::Errors,
        about: About::Missed,
        when: &[over(FailedOfAllowed, 1.0)],
        also: &[FailedOfMisses],
        ..USUAL
    },
    // 1 % of requests: the project's brief. A p99 allows as many misses. A preempted request is computed again: vLLM,
    // "Optimization and Tuning", Preemption.
    Rule {
        kind: Kind::Preemption,
        scope: Scope::Any,
        when: &[over(Preempted, 0.01)],
        // Where prompts are read for most of the time, memory fills because nothing else can keep up.
        shown: &[under(PrefillBusy, 0.6)],
        denied: Some(Confidence::Low),
        also: &[KvMost, WaitingMost],
        ..USUAL
    },
    // 95 %: the project's brief. SGLang's "Hyperparameter Tuning" calls more than 90 % good use of the cache, and
    // advises to look for retracted requests above that. A full cache is no fault if no request waits: it is then
    // reported with low confidence.
    Rule {
        kind: Kind::KvExhaustion,
        scope: Scope::Any,
        when: &[over(KvMost, 0.95)],
        shown: &[over(WaitingMost, 0.0), under(PrefillBusy, 0.6)],
        denied: Some(Confidence::Low),
        also: &[RunningMost],
        ..USUAL
    },
    // All seats are taken at times while requests wait, and KV cache and TPOT have room: a tail is made of such times, so
    // the largest number counts and not the mean. Less than 90 % of the KV cache: a tenth has room for at least a tenth
    // more sequences. TPOT below 90 % of its limit: at the limit more sequences would miss it (examples/advice). Where
    // prompts are read for most of the time, seats fill because nothing keeps up.
    Rule {
        kind: Kind::BatchTooSmall,
        about: About::First,
        scope: Scope::Any,
        when: &[over(SeatsReached, 0.99), over(WaitingMost, 0.0), under(TpotOfLimit, 0.9)],
        shown: &[over(SeatsTold, 0.5), under(KvMost, 0.9), under(PrefillBusy, 0.6)],
        also: &[SeatsTaken, WaitingMean],
        ..USUAL
    },
    // Nothing but TPOT is limited, and it allows fewer sequences than can run: those that wait for a place then cost
    // nothing that is limited, and those that have one are faster. 80 %: the estimate is good to some ten per cent.
    Rule {
        kind: Kind::BatchTooLarge,
        about: About::Rest,
        when: &[under(FirstIsLimited, 0.5), under(TpotAloneOfLimit, 0.8), under(SeatsWithinTpot, 0.8)],
        ..USUAL
    },
    // 2 %, as below. A cache that is off has no hits to count.
    Rule {
        kind: Kind::CacheMisses,
        about: About::First,
        when: &[over(CacheIsOff, 0.5), over(SharedByPrompts, 0.02)],
        ..USUAL
    },
    // A cache that is off where tokens wait for the reading of prompts, a fifth of the time or more.
    Rule {
        kind: Kind::CacheMisses,
        about: About::Rest,
        when: &[over(CacheIsOff, 0.5), over(SharedByPrompts, 0.02), over(PrefillBusy, 0.2)],
        ..USUAL
    },
    // A quarter of the TTFT of one request alone: less is noise of two clocks' different ends (the server's begins after
    // it has read the request, the client's before it has sent it). A tenth of the TTFT that misses: a smaller part cannot be
    // what binds; a quick server on the same machine has a millisecond between the clocks.
    Rule {
        kind: Kind::Network,
        about: About::First,
        when: &[over(NetworkOfTtft, 0.25), over(NetworkOfMissed, 0.1)],
        ..USUAL
    },
    // A tenth: reading prompts is bound by computing, whose rate is that of the clock (roofline), so that it loses as much; less is
    // within the 90 % interval of a search. That clocks dip is no fault by itself: a counter has to show what holds them down
    // (NVML's violation times and clock event reasons).
    Rule {
        kind: Kind::Throttled,
        when: &[over(ClockLost, 0.1), over(HeldByHeat, 0.5)],
        also: &[PowerOfLimit],
        weight: Some(ClockLost),
        ..USUAL
    },
    Rule {
        kind: Kind::Throttled,
        when: &[over(ClockLost, 0.1), over(HeldBySetting, 0.5)],
        weight: Some(ClockLost),
        ..USUAL
    },
    // A board whose limit is the highest that it accepts does what it can: that is a sign of load.
    Rule {
        kind: Kind::Throttled,
        when: &[over(ClockLost, 0.1), over(HeldByPower, 0.5)],
        shown: &[under(LimitOfMost, HIGHEST_LIMIT)],
        denied: Some(Confidence::Low),
        also: &[PowerOfLimit],
        weight: Some(ClockLost),
        ..USUAL
    },
    // Without counters: mean power at its limit. The driver holds the power of a capped board a few per cent below the limit,
    // hence 95 %.
    Rule {
        kind: Kind::Throttled,
        when: &[over(ClockLost, 0.1), over(PowerOfLimit, 0.95)],
        shown: &[under(LimitOfMost, HIGHEST_LIMIT)],
        denied: Some(Confidence::Low),
        weight: Some(ClockLost),
        ..USUAL
    },
    // Utilisation counts the time in which any kernel ran (NVML), so that an engine with requests to work on shows nearly all of
    // it. Half: more of an iteration is then spent without the GPU than with it.
    Rule { kind: Kind::IdleGpus, about: About::Missed, when: &[over(GpusIdle, IDLE)], ..USUAL },
    // Below the break-even of drafting (figure/drafting.rs), which takes the time of a draft as Leviathan et al. (2023) measured it
    // at most; where checking alone takes longer than the accepted tokens gain, that time does not matter.
    Rule {
        kind: Kind::DraftingCosts,
        when: &[under(WrittenOfBreakEven, 1.0)],
        shown: &[under(WrittenOfChecking, 1.0)],
        denied: Some(Confidence::Medium),
        also: &[AcceptedOfDrafted],
        ..USUAL
    },
    // An iteration full of prompt tokens spends a third of its time on its fixed part, or more: twice the tokens then read
    // prompts a fifth faster (2·(1 + r) / (2 + r) with r = fixed / reading is 1.2 at r = 0.5). Not where TPOT is at its
    // limit: larger iterations lengthen it. Half: with fewer tokens on average only a few iterations are full.
    Rule {
        kind: Kind::SmallIterations,
        about: About::First,
        when: &[over(BaseOfChunk, 0.5), over(IterationFilled, 0.5), under(TpotOfLimit, 0.7)],
        also: &[ServerQueueOfTtft],
        ..USUAL
    },
    // Tokens that wait for a part of the longest prompt take longer than the limit on TPOT, which one request alone keeps
    // with a quarter to spare (an iteration with prompts has costs of its own), and smaller parts would keep the limit and
    // still read the prompts in time.
    Rule {
        kind: Kind::PrefillStalls,
        about: About::Rest,
        when: &[over(ChunkOfLimit, 0.9), under(TpotAloneOfLimit, 0.75), under(ChunkWithinLimit, 0.75)],
        also: &[PrefillBusy],
        ..USUAL
    },
    // 70 % of what prompts share: a prefix ends within a block, and the last block is computed anyway (the caveat on
    // warm caches has this bound too). 2 %: a smaller share is no prefix worth caching.
    Rule {
        kind: Kind::CacheMisses,
        when: &[over(SharedByPrompts, 0.02), under(HitsOfShared, 0.7)],
        also: &[WarmTimesCold],
        ..USUAL
    },
    // A warm cache is as slow as a cold one: less than a tenth sooner, although at least a quarter of the prompt need
    // not be read. A median of a hundred requests is accurate to a few per cent, hence a tenth. If the server had its
    // hits, the cache is not the cause.
    Rule {
        kind: Kind::CacheMisses,
        when: &[over(SharedByPrompts, 0.25), over(WarmTimesCold, 0.9)],
        shown: &[under(HitsOfShared, 0.7)],
        ..USUAL
    },
    // Hits that halve under load were cached and were evicted. 30 %: a cache with fewer hits is not warm.
    Rule {
        kind: Kind::CacheMisses,
        when: &[over(HitsAlone, 0.3), under(HitsTimesAlone, 0.5)],
        shown: &[over(KvMost, 0.8)],
        denied: Some(Confidence::Medium),
        ..USUAL
    },
    // With more GPUs per token, less than half of what they add is gained: by definition more is lost than won. It is
    // lost to communication if the time beyond the floor grew by a quarter of the token's time; else host work, which
    // does not shrink, may be the cause.
    Rule {
        kind: Kind::CommunicationBound,
        when: &[over(GpusTogether, 1.5), under(GainOfGpus, 0.5)],
        shown: &[over(LostBetweenGpus, 0.25)],
        ..USUAL
    },
    // Three times the floor: less than a third of a token's time is reading memory. With several GPUs, communication is
    // one possible cause, and host work another.
    Rule {
        kind: Kind::CommunicationBound,
        when: &[over(GpusTogether, 1.5), over(TpotTimesFloor, 3.0)],
        shown: &[over(LostBetweenGpus, 0.25)],
        blind: Confidence::Low,
        ..USUAL
    },
    // Half: it is then the largest part of the unloaded TTFT. A tenth of the TTFT that misses: a smaller part cannot be
    // what binds (rundir/matrix has this bound too). The line is steady if no longer group of prompts is faster than a
    // shorter one.
    Rule {
        kind: Kind::PrefillBound,
        about: About::First,
        when: &[over(PrefillOfTtft, 0.5), over(PrefillOfMissed, 0.1)],
        shown: &[over(LineRises, 0.5)],
        denied: Some(Confidence::Low),
        weight: Some(PrefillOfMissed),
        ..USUAL
    },
    // The server's histogram of prefill against its TTFT, unloaded: half, as above. It does not show that prefill grows
    // with the length.
    Rule {
        kind: Kind::PrefillBound,
        about: About::First,
        when: &[over(ServerPrefillOfTtft, 0.5), over(ServerPrefillOfMissed, 0.1)],
        shown: &[over(LineRises, 0.5)],
        weight: Some(ServerPrefillOfMissed),
        ..USUAL
    },
    // Requests wait for their first token behind others, each of which takes longer to read than a token to write.
    Rule {
        kind: Kind::PrefillBound,
        about: About::First,
        when: &[over(ReadingOverBase, 1.0), over(TtftTailTimesAlone, 2.0), over(TailTimesMedian, 1.5)],
        shown: &[over(PrefillBusy, 0.4)],
        denied: Some(Confidence::Medium),
        weight: Some(WaitOfMissed),
        ..USUAL
    },
    // Prompts are read for two fifths of the time: tokens of other requests wait that long. More than that is the largest
    // part of a TPOT that is twice that of one request alone.
    Rule {
        kind: Kind::PrefillBound,
        about: About::Rest,
        when: &[over(PrefillBusy, 0.4)],
        weight: Some(PrefillBusy),
        ..USUAL
    },
    // A tail of TPOT half as long again as its median, where some prompts are several times as long as most: only their
    // prompts make some answers that much slower than others (a batch that varies moves p99 TPOT by a fifth or a third).
    Rule {
        kind: Kind::PrefillBound,
        about: About::Rest,
        when: &[over(TpotTailTimesMedian, 1.5), over(LongestTimesMean, 5.0), under(TpotAloneOfLimit, 0.9)],
        also: &[PrefillBusy],
        ..USUAL
    },
    // Prefill that stalls decoding, where smaller parts would not help: reading is a fifth of the limit at least.
    Rule {
        kind: Kind::PrefillBound,
        about: About::Rest,
        when: &[over(ChunkOfLimit, 0.9), over(ReadingOfLimit, 0.2), under(TpotAloneOfLimit, 0.9)],
        also: &[PrefillBusy],
        ..USUAL
    },
    // Half of the TPOT is present for one request alone: the larger part. Memory is shown to be the cause if the plan
    // declares what must be read, and reading it takes more than half of the TPOT (the floor's bound).
    Rule {
        kind: Kind::DecodeBound,
        about: About::Rest,
        when: &[over(TpotAloneOfLoaded, 0.5)],
        shown: &[under(TpotTimesFloor, 2.0)],
        denied: Some(Confidence::Medium),
        weight: Some(TpotAloneOfLoaded),
        ..USUAL
    },
    // Requests wait for their first token, and a token takes longer to write than a prompt to read: they wait for iterations
    // that mostly write.
    Rule {
        kind: Kind::DecodeBound,
        about: About::First,
        when: &[under(ReadingOverBase, 1.0), over(TtftTailTimesAlone, 2.0), over(TailTimesMedian, 1.5)],
        shown: &[under(TpotTimesFloor, 2.0)],
        denied: Some(Confidence::Medium),
        also: &[PrefillBusy],
        weight: Some(WaitOfMissed),
        ..USUAL
    },
    // A quarter more: medians of a few dozen requests scatter by some per cent from step to step (rundir/matrix has
    // this bound too).
    Rule {
        kind: Kind::BatchingTradeOff,
        about: About::Rest,
        when: &[over(TokensTimesLow, 1.25), over(TpotTimesLow, 1.25)],
        weight: Some(TpotAddedByLoad),
        ..USUAL
    },
    // Twice, and half as much again as the median: in M/D/1, where waiting is the only effect, from 30 to 95 % of its
    // capacity the p99 of wait and service grows more than 2.4 times as much as its median (a test computes it), while
    // a server that is slower as a whole moves both alike. Samples once a second hardly ever meet a queue of tens of
    // milliseconds: if none was seen, confidence is low, not nil.
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
    // The server's histogram of its queue: half of the TTFT and more is the larger part.
    Rule {
        kind: Kind::Queueing,
        about: About::First,
        when: &[over(ServerQueueOfTtft, 0.5)],
        also: &[WaitingMost, TtftTailTimesAlone],
        weight: Some(ServerQueueOfTtft),
        ..USUAL
    },
    // Growth of the backlog has a separate test (stats/steady.rs). 95 %: a stable step has as many requests in flight
    // at its end as at its start, so it completes what was due in it but for a few requests; a twentieth is more than
    // that in any step of a hundred.
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
