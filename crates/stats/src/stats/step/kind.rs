//! The kinds of steps, their verdicts, and the reasons why they end early.

use goodput_core::named_enum;

text_by_name!(StepKind, Verdict, Abort);

named_enum! {
    /// Purpose of a step.
    #[derive(Default, Hash, PartialOrd, Ord)]
    #[serde(try_from = "String")]
    pub enum StepKind {
        /// A level that the plan lists.
        #[default]
        List = "list",
        /// A given number of requests at once; the window ends with the last answer.
        Burst = "burst",
        /// A level of the ramp.
        Ramp = "ramp",
        /// One request at a time: the unloaded server. Measured before the adaptive search offers load, and again if the search
        /// doubts that any level meets.
        Baseline = "baseline",
        /// A level near the likely boundary, chosen by the adaptive search.
        Refine = "refine",
        /// The safe rate, held for the last fifth of the budget.
        Hold = "hold",
        /// A soak at the safe rate, after the search.
        Confirm = "confirm",
        /// The safe rate, a surge, and the safe rate again, in one step after the search: how the server recovers.
        Recovery = "recovery",
        /// A closed loop with enough requests in flight to keep the server full, after the search: its maximum throughput.
        Peak = "peak",
        /// A level that the server sustains, measured under its profiler after everything else, since the profiler slows it down.
        Profile = "profile",
    }
}

impl StepKind {
    /// Returns true for steps that produce no verdict and do not affect the answer: recovery, peak and profile.
    pub const fn is_auxiliary(self) -> bool {
        matches!(self, Self::Recovery | Self::Peak | Self::Profile)
    }

    /// Returns true for steps that the adaptive search chose near the likely boundary.
    pub const fn is_near_boundary(self) -> bool {
        matches!(self, Self::Refine | Self::Hold)
    }

    /// Returns true for steps the search did not ask for: the baseline and auxiliary steps.
    pub const fn is_outside_search(self) -> bool {
        matches!(self, Self::Baseline) || self.is_auxiliary()
    }
}

named_enum! {
    /// Outcome of judging a step or a limit against the SLO.
    #[derive(Default, Hash, PartialOrd, Ord)]
    #[serde(try_from = "String")]
    pub enum Verdict {
        /// Every limit is shown to be met.
        Meets = "meets",
        /// A limit is shown to be missed, or the step is not stable.
        Fails = "fails",
        /// Too few requests to decide.
        #[default]
        Undecided = "undecided",
        /// The client was the bottleneck, a worker failed, or the server restarted: the step says nothing about the server.
        Invalid = "invalid",
    }
}

named_enum! {
    /// Reason why a step ended early.
    #[derive(Hash, PartialOrd, Ord)]
    #[serde(try_from = "String")]
    pub enum Abort {
        /// The misses were far more than the SLO allows.
        Gross = "gross",
        /// Every request failed, and there were enough of them to conclude that no server is there to be measured.
        AllFailed = "all-failed",
        /// No answer came before the end, from too few requests to say why.
        NoAnswer = "no-answer",
        /// More requests failed than the plan tolerates.
        Errors = "errors",
        /// The server went away.
        ServerGone = "server-gone",
        /// The user interrupted the sweep.
        Interrupted = "interrupted",
        /// The sweep reached its deadline.
        Deadline = "deadline",
        /// The disk that holds the run folder was nearly full.
        Disk = "disk",
        /// A worker was lost or failed.
        WorkerLost = "worker-lost",
    }
}

impl Abort {
    /// Returns true if the step was stopped for a reason unrelated to its load. Its window is cut short, and a resumed sweep
    /// measures it again.
    pub const fn is_broken_off(self) -> bool {
        matches!(self, Self::Interrupted | Self::Deadline | Self::Disk)
    }
}
