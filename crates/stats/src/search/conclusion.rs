//! The conclusions of a sweep for one SLO, and what each of them states.

use serde::{Deserialize, Serialize};

/// The kind of a conclusion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// See [`Conclusion::Found`].
    Found,
    /// See [`Conclusion::None`].
    None,
    /// See [`Conclusion::NotReached`].
    NotReached,
    /// See [`Conclusion::Undecided`].
    Undecided,
    /// See [`Conclusion::Invalid`].
    Invalid,
}

impl Status {
    /// Returns the name used in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::None => "none",
            Self::NotReached => "not-reached",
            Self::Undecided => "undecided",
            Self::Invalid => "invalid",
        }
    }
}

/// The conclusion of a sweep for one SLO.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Conclusion {
    /// A level is safe and the boundary has an interval; for listed levels, one is shown to meet below one shown to
    /// fail.
    Found(Located),
    /// No level that the steps can judge meets the SLO, or every request failed; for listed levels, the lowest is shown
    /// to fail, and not by overload.
    None,
    /// The highest level meets: that of the plan, or for listed levels the highest measured one.
    NotReached {
        /// The highest level.
        highest: AnswerLevel,
        /// The level that is safe, if a posterior was fitted and supports one.
        safe: Option<f64>,
    },
    /// The steps do not show enough for an answer.
    Undecided(Undecided),
    /// The client was the limit.
    Invalid {
        /// The level below the client's limit that is safe, if there is one.
        safe: Option<f64>,
    },
}

/// The boundary that was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Located {
    /// The fitted posterior locates it.
    Estimate {
        /// Median of the posterior; the middle of the bracket of decided steps if the fitted curve contradicts a step
        /// that fails.
        median: AnswerLevel,
        /// 90 % interval of the boundary.
        interval: [f64; 2],
        /// The level that is safe at the plan's confidence.
        safe: f64,
        /// Seconds of further budget that would about halve the interval.
        halve_s: Option<f64>,
    },
    /// The verdicts of single levels locate it; this is the highest level shown to meet.
    Bracket(AnswerLevel),
}

/// Facts that a sweep shows without an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Undecided {
    /// Neither a level nor an interval.
    Open,
    /// A level is safe, but nothing shows where the boundary above it is.
    Safe(f64),
    /// The posterior bounds the boundary from above, but no level is shown to be safe: the interval begins at 0.
    Below {
        /// Median of the posterior; `None` if it is less than one request in flight.
        median: Option<AnswerLevel>,
        /// Upper end of the 90 % interval.
        high: f64,
        /// Seconds of further budget that would about halve the interval.
        halve_s: Option<f64>,
    },
    /// This level was the answer, without an interval, until a step contradicted that it is safe.
    Contradicted(AnswerLevel),
}

/// The level that an answer states, and what the server completes there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AnswerLevel {
    /// The level.
    pub level: f64,
    /// Completed requests per second: for a closed loop, its throughput; else the level itself.
    pub throughput: Option<f64>,
    /// The level per GPU, if the plan declares GPUs.
    pub per_gpu: Option<f64>,
}

impl AnswerLevel {
    /// Returns a level of which no figures are known.
    pub const fn new(level: f64) -> Self {
        Self { level, throughput: None, per_gpu: None }
    }
}

impl Conclusion {
    /// An undecided conclusion of which nothing else is known.
    pub const OPEN: Self = Self::Undecided(Undecided::Open);

    /// Returns the conclusion that states these values. If they contradict one another, it is the nearest one that
    /// promises no more: values that it has no place for are dropped.
    pub(crate) const fn nearest(
        status: Status,
        level: Option<AnswerLevel>,
        interval: Option<[f64; 2]>,
        safe: Option<f64>,
        halve_s: Option<f64>,
    ) -> Self {
        match (status, level, interval, safe) {
            (Status::None, ..) => Self::None,
            (Status::Invalid, ..) => Self::Invalid { safe },
            (Status::NotReached, Some(highest), ..) => Self::NotReached { highest, safe },
            (Status::Found, Some(median), Some(interval), Some(safe)) => {
                Self::Found(Located::Estimate { median, interval, safe, halve_s })
            }
            (Status::Found, Some(met), None, _) => Self::Found(Located::Bracket(met)),
            (Status::Found | Status::NotReached | Status::Undecided, median, Some([_, high]), _) => {
                Self::Undecided(Undecided::Below { median, high, halve_s })
            }
            (Status::Undecided, Some(level), None, _) => Self::Undecided(Undecided::Contradicted(level)),
            (Status::Found | Status::NotReached | Status::Undecided, None, None, Some(safe)) => {
                Self::Undecided(Undecided::Safe(safe))
            }
            (Status::Found | Status::NotReached | Status::Undecided, None, None, None) => Self::OPEN,
        }
    }

    /// Returns the level of the answer.
    pub fn level(mut self) -> Option<AnswerLevel> {
        self.level_mut().copied()
    }

    /// Returns the level of the answer, to add figures to it.
    pub const fn level_mut(&mut self) -> Option<&mut AnswerLevel> {
        match self {
            Self::Found(Located::Estimate { median: level, .. } | Located::Bracket(level))
            | Self::NotReached { highest: level, .. }
            | Self::Undecided(Undecided::Contradicted(level)) => Some(level),
            Self::Undecided(Undecided::Below { median, .. }) => median.as_mut(),
            Self::Undecided(Undecided::Open | Undecided::Safe(_)) | Self::None | Self::Invalid { .. } => None,
        }
    }

    /// Returns what remains if a failed step contradicts the safe level.
    pub(super) const fn contradicted(self) -> Self {
        Self::Undecided(match self {
            Self::Found(Located::Estimate { median, interval: [_, high], halve_s, .. }) => {
                Undecided::Below { median: Some(median), high, halve_s }
            }
            Self::Found(Located::Bracket(level)) | Self::NotReached { highest: level, .. } => {
                Undecided::Contradicted(level)
            }
            Self::Undecided(Undecided::Safe(_)) | Self::None | Self::Invalid { .. } => Undecided::Open,
            Self::Undecided(known) => known,
        })
    }
}
