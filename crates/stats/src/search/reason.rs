//! Why an answer is what it is: the evidence it rests on, and why the search ended. Facts only; the words are made where reports are.

use super::change::Change;
use super::stop::{MissedUnloaded, Stop};
use goodput_core::level::Level;
use serde::{Deserialize, Serialize};

/// The evidence behind an answer, and why the search ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Reason {
    /// What the search found.
    Facts {
        /// The evidence, the most decisive first.
        evidence: Vec<Evidence>,
        /// Why the search ended.
        ended: Ended,
    },
    /// The sentence that earlier versions wrote into run folders.
    Legacy(String),
}

impl Reason {
    /// Returns a reason of this evidence.
    pub fn new(evidence: impl IntoIterator<Item = Evidence>, ended: Ended) -> Self {
        Self::Facts { evidence: evidence.into_iter().collect(), ended }
    }

    /// Puts evidence before what there is.
    pub(super) fn preceded_by(mut self, first: Evidence) -> Self {
        if let Self::Facts { evidence, .. } = &mut self {
            evidence.insert(0, first);
        }
        self
    }

    /// The evidence; none in a folder of an earlier version.
    pub fn evidence(&self) -> &[Evidence] {
        match self {
            Self::Facts { evidence, .. } => evidence,
            Self::Legacy(_) => &[],
        }
    }

    /// Why the search ended; `None` in a folder of an earlier version.
    pub const fn ended(&self) -> Option<&Ended> {
        match self {
            Self::Facts { ended, .. } => Some(ended),
            Self::Legacy(_) => None,
        }
    }

    /// The stop rule that ended the search, if one did.
    pub const fn stop(&self) -> Option<&Stop> {
        match self.ended() {
            Some(Ended::Stopped(stop)) => Some(stop),
            Some(Ended::LevelsLeft | Ended::NotSearched | Ended::NotAsked | Ended::NoSlo | Ended::NoStep)
            | None => None,
        }
    }
}

/// Why a search ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// A stop rule fired.
    Stopped(Stop),
    /// The sweep ended before the search did.
    LevelsLeft,
    /// No search was made for this SLO: it is read off the steps that another one chose.
    NotSearched,
    /// The command measures latency or throughput, and no SLO.
    NotAsked,
    /// The plan is a matrix, whose rows have no SLO.
    NoSlo,
    /// No step was finished.
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// The verdicts of single levels.
    Levels(LevelsEvidence),
    /// The posterior of the adaptive search.
    Search(SearchEvidence),
    /// A curve fitted to levels that were chosen beforehand.
    Fit(FitEvidence),
    /// The server changed while it was measured; only later steps count.
    ServerChanged(Change),
    /// No level is called safe, because a step speaks against the one that would be.
    NotSafe(NotSafe),
    /// The server refused requests (429, or 503 with `Retry-After`), which is a limit of requests and not of its speed.
    Refused {
        /// Requests refused.
        refused: u64,
        /// Requests due.
        due: u64,
        /// The step's level.
        level: Level,
    },
    /// One request at a time misses a limit.
    MissedUnloaded(MissedUnloaded),
}

/// What the verdicts of single levels show together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// No level is shown to fail.
    MetUpTo(LevelEvidence),
    /// The lowest level fails, and not by overload: lower ones would fail as well.
    LowestFails(LevelEvidence),
    /// The lowest level fails by overload: lower ones may meet.
    LowestOverloaded(LevelEvidence),
    /// A level fails, and none below it is shown to meet.
    NoneMeetsBelow(LevelEvidence),
    /// No level is shown to meet or to fail.
    NothingShown,
    /// Levels above the highest that meets, and below the lowest that fails, that are undecided.
    Undecided(Vec<LevelEvidence>),
    /// Levels there in which the client was the limit, or the server was restarted.
    Invalid(Vec<LevelEvidence>),
    /// Levels that meet above one that fails, and are not trusted.
    MetAboveFailed(Vec<LevelEvidence>),
    /// The single levels beside an estimate: the highest shown to meet and the lowest shown to fail, if any.
    Decided {
        /// The highest level shown to meet.
        met: Option<LevelEvidence>,
        /// The lowest level shown to fail.
        failed: Option<LevelEvidence>,
    },
}

/// One measured level with the counts that decide it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LevelEvidence {
    /// The level.
    pub level: Level,
    /// Requests completed per second there.
    pub achieved_rate: f64,
    /// The counts behind its verdict.
    pub counts: StepEvidence,
}

/// The counts behind the verdict of one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepEvidence {
    /// The client was the limit.
    ClientLimit,
    /// The server was restarted within the step.
    Restarted,
    /// Every request failed.
    AllFailed,
    /// So many requests failed that they decide.
    Failed {
        /// Requests that failed.
        failed: u64,
        /// Requests due.
        due: u64,
    },
    /// The backlog grew.
    Unstable,
    /// The step is too short to tell whether the backlog grows.
    StabilityUnknown,
    /// The misses of the limit that decides, or that is nearest.
    Misses {
        /// The limit's key.
        limit: String,
        /// Requests that missed it.
        misses: u64,
        /// Requests counted.
        n: u64,
    },
    /// Nothing was counted.
    NoCounts,
}

/// What the posterior of the adaptive search says. Chances of intervals are 90 %, of one-sided bounds 95 %.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SearchEvidence {
    /// Hardly anything was measured near the boundary.
    FarFromBoundary,
    /// No level from this one on meets the SLO.
    NoneFrom {
        /// The lowest level the budget can speak of.
        level: Level,
    },
    /// The plan's highest level meets the SLO.
    HighestMeets {
        /// That level.
        level: Level,
    },
    /// The client was the limit below where the boundary may lie.
    ClientLimit,
    /// The boundary lies between these levels.
    Between {
        /// 5 % quantile.
        low: Level,
        /// 95 % quantile.
        high: Level,
    },
    /// No level is shown to be safe, and the boundary lies below this one.
    Below {
        /// 95 % quantile.
        high: Level,
    },
    /// The fitted curve puts the boundary above a level that is shown to fail: the bracket of decided steps is the answer.
    AboveFailed {
        /// The lowest level shown to fail.
        failed: Level,
    },
    /// The fitted curve puts the boundary below a level that is shown to meet: the bracket of decided steps is the answer.
    BelowMet {
        /// The highest level shown to meet.
        met: Level,
    },
}

/// What a curve fitted to levels chosen beforehand says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FitEvidence {
    /// The highest level meets the SLO.
    HighestMeets {
        /// That level.
        level: Level,
        /// The chance.
        chance: f64,
    },
    /// The highest level may meet the SLO: the boundary may lie above.
    HighestMayMeet {
        /// That level.
        level: Level,
        /// The chance.
        chance: f64,
    },
    /// The boundary lies below the lowest level.
    BelowLowest {
        /// That level.
        level: Level,
    },
    /// The fit contradicts the verdicts of single levels, so only these count.
    Contradicted {
        /// The fitted median.
        about: Level,
    },
    /// The boundary lies between these levels, with a chance of 90 %.
    Between {
        /// 5 % quantile.
        low: Level,
        /// 95 % quantile.
        high: Level,
        /// True if the interval reaches above the highest measured level.
        above_highest: bool,
    },
    /// No level is shown to be safe; the boundary lies below this one with a chance of 95 %.
    Below {
        /// 95 % quantile.
        high: Level,
    },
}

/// Why no level is called safe.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
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
