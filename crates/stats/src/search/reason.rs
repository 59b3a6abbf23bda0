//! The reason for an answer: the evidence it rests on, and why the search ended. Facts only; the reports put them into
//! words.

use super::change::Change;
use super::stop::{MissedUnloaded, Stop};
use goodput_core::level::Level;
use serde::{Deserialize, Serialize};

/// The evidence behind an answer, and why the search ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "AnswerReason")]
pub struct Reason {
    /// The evidence, the most decisive first.
    evidence: Vec<Evidence>,
    /// Why the search ended.
    ended: Ended,
}

impl Reason {
    /// Returns a reason of this evidence.
    pub fn new(evidence: impl IntoIterator<Item = Evidence>, ended: Ended) -> Self {
        Self { evidence: evidence.into_iter().collect(), ended }
    }

    /// Puts evidence before the present one.
    pub(super) fn preceded_by(mut self, first: Evidence) -> Self {
        self.evidence.insert(0, first);
        self
    }

    /// Returns the evidence, the most decisive first.
    pub fn evidence(&self) -> &[Evidence] {
        &self.evidence
    }

    /// Returns why the search ended.
    pub const fn ended(&self) -> &Ended {
        &self.ended
    }

    /// Returns the stop rule that ended the search, if one did.
    pub const fn stop(&self) -> Option<&Stop> {
        match &self.ended {
            Ended::Stopped(stop) => Some(stop),
            Ended::LevelsLeft | Ended::NotSearched | Ended::NotAsked | Ended::NoSlo | Ended::NoStep => None,
        }
    }
}

/// Why a search ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// A stop rule fired.
    Stopped(Stop),
    /// The sweep ended before the search did.
    LevelsLeft,
    /// No search was made for this SLO: its answer is read from steps chosen for another SLO.
    NotSearched,
    /// The command measures latency or throughput, and no SLO.
    NotAsked,
    /// The plan is a matrix; its rows have no SLO.
    NoSlo,
    /// No step finished.
    NoStep,
}

impl Ended {
    /// Returns true if a search ended, rather than none having been made.
    pub const fn is_of_a_search(&self) -> bool {
        match self {
            Self::Stopped(_) | Self::LevelsLeft => true,
            Self::NotSearched | Self::NotAsked | Self::NoSlo | Self::NoStep => false,
        }
    }
}

/// One statement that an answer rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "AnswerEvidence")]
pub enum Evidence {
    /// The verdicts of single levels.
    Levels(LevelsEvidence),
    /// The posterior of the adaptive search.
    Search(SearchEvidence),
    /// A curve fitted to levels that were chosen beforehand.
    Fit(FitEvidence),
    /// The server changed while it was measured; only later steps count.
    ServerChanged(Change),
    /// No level is called safe, because a step contradicts the one that would be.
    NotSafe(NotSafe),
    /// The server refused requests (429, or 503 with `Retry-After`): a limit on requests, not on its speed.
    Refused {
        /// Requests refused.
        refused: u64,
        /// Requests due.
        due: u64,
        /// The step's level.
        level: Level,
    },
    /// A single request at a time already misses a limit.
    MissedUnloaded(MissedUnloaded),
    /// The server that was kept full completed no more than this: the boundary is not above it.
    Saturated {
        /// Completed requests per second.
        level: Level,
    },
}

/// Joint evidence of the verdicts of single levels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LevelsEvidence {
    /// No level was measured.
    Unmeasured,
    /// The highest level that meets lies below the lowest that fails.
    Bracket {
        /// The highest level shown to meet.
        met: LevelEvidence,
        /// The lowest level shown to fail.
        failed: LevelEvidence,
    },
    /// No level was shown to fail; this is the highest that meets.
    MetUpTo(LevelEvidence),
    /// The lowest level fails, and not by overload: lower levels would fail as well.
    LowestFails(LevelEvidence),
    /// The lowest level fails by overload: lower levels may meet.
    LowestOverloaded(LevelEvidence),
    /// A level fails, and none below it is shown to meet.
    NoneMeetsBelow(LevelEvidence),
    /// No level was shown to meet or to fail.
    NothingShown,
    /// Undecided levels between the highest that meets and the lowest that fails.
    Undecided(Vec<LevelEvidence>),
    /// Levels in that range in which the client was the limit, or the server was restarted.
    Invalid(Vec<LevelEvidence>),
    /// Levels that meet above one that fails; they are not trusted.
    MetAboveFailed(Vec<LevelEvidence>),
    /// The single levels reported together with an estimate: the highest shown to meet and the lowest shown to fail, if
    /// any.
    Decided {
        /// The highest level shown to meet.
        met: Option<LevelEvidence>,
        /// The lowest level shown to fail.
        failed: Option<LevelEvidence>,
    },
}

/// One measured level with the counts that decide it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LevelEvidence {
    /// The level.
    pub level: Level,
    /// Completed requests per second at this level.
    pub achieved_rate: f64,
    /// The counts behind its verdict.
    pub counts: StepEvidence,
}

/// The counts behind the verdict of one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StepEvidence {
    /// The client was the limit.
    ClientLimit,
    /// The server was restarted during the step.
    Restarted,
    /// Every request failed.
    AllFailed,
    /// The failed requests alone decide the verdict.
    Failed {
        /// Requests that failed.
        failed: u64,
        /// Requests due.
        due: u64,
    },
    /// The backlog grew.
    Unstable,
    /// The step is too short to show whether the backlog grows.
    StabilityUnknown,
    /// The misses of the limit that decides; if none does, of the one closest to deciding.
    Misses {
        /// The limit's key.
        limit: String,
        /// Number of requests that missed it.
        misses: u64,
        /// Number of requests counted.
        n: u64,
    },
    /// No request was counted.
    NoCounts,
}

/// The result of the adaptive search's posterior. Intervals have a probability of 90 %, one-sided bounds 95 %.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SearchEvidence {
    /// Hardly any request was measured near the boundary.
    FarFromBoundary,
    /// No level from this one on meets the SLO.
    NoneFrom {
        /// The lowest level that the budget allows to judge.
        level: Level,
    },
    /// The plan's highest level meets the SLO.
    HighestMeets {
        /// The plan's highest level.
        level: Level,
    },
    /// The client was the limit below the possible boundary.
    ClientLimit,
    /// The boundary lies between these levels.
    Between {
        /// 5 % quantile.
        low: Level,
        /// 95 % quantile.
        high: Level,
    },
    /// No level was shown to be safe; the boundary lies below this one.
    Below {
        /// 95 % quantile.
        high: Level,
    },
    /// The fitted curve puts the boundary above a level shown to fail. The answer is the bracket of decided steps
    /// instead.
    AboveFailed {
        /// The lowest level shown to fail.
        failed: Level,
    },
    /// The fitted curve puts the boundary below a level shown to meet. The answer is the bracket of decided steps
    /// instead.
    BelowMet {
        /// The highest level shown to meet.
        met: Level,
    },
}

/// The result of a curve fitted to levels chosen beforehand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FitEvidence {
    /// The highest level meets the SLO.
    HighestMeets {
        /// The highest measured level.
        level: Level,
        /// Probability that the boundary lies above it.
        chance: f64,
    },
    /// The highest level may meet the SLO: the boundary may lie above.
    HighestMayMeet {
        /// The highest measured level.
        level: Level,
        /// Probability that the boundary lies above it.
        chance: f64,
    },
    /// The boundary lies below the lowest level.
    BelowLowest {
        /// The lowest measured level.
        level: Level,
    },
    /// The fit contradicts the verdicts of single levels; only the verdicts are used.
    Contradicted {
        /// Median of the boundary by the fit.
        about: Level,
    },
    /// The boundary lies between these levels with a probability of 90 %.
    Between {
        /// 5 % quantile.
        low: Level,
        /// 95 % quantile.
        high: Level,
        /// True if the interval reaches above the highest measured level.
        above_highest: bool,
    },
    /// No level was shown to be safe; the boundary lies below this one with a probability of 95 %.
    Below {
        /// 95 % quantile.
        high: Level,
    },
}

/// The reason why no level is called safe.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NotSafe {
    /// A step at or below the safe rate is shown to fail.
    StepFailed {
        /// Its level.
        level: Level,
    },
    /// The soak failed.
    SoakFailed {
        /// Its level.
        level: Level,
    },
}
