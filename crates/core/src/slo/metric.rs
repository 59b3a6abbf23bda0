//! The latencies that a limit can be set on, and everything that follows from which of them it is.

use super::split_limit_key;
use crate::named_enum;
use crate::record::Record;
use std::time::Duration;

named_enum! {
    /// Latency that a limit can be set on.
    ///
    /// A new metric is added at the end: the order of declaration is the order of limits and of columns.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Metric {
        /// Time to first token on any channel.
        Ttft = "ttft",
        /// Time to first content token.
        Ttfc = "ttfc",
        /// Time per output token, per request.
        Tpot = "tpot",
        /// Gap between successive events with tokens, pooled over the step.
        Itl = "itl",
        /// Due → last token.
        E2e = "e2e",
        /// Real-time factor of a transcript: e2e per second of its audio.
        Rtf = "rtf",
    }
}

/// The stretch of an answer that a metric times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerPart {
    /// From `due` to one of the first tokens. The value is known as soon as that token is there, so it also counts for a request
    /// that is cut off later.
    First,
    /// Between tokens. Lateness does not affect it, and an answer of one token has none.
    Pace,
    /// From `due` to the last token. Only a complete answer has it, and an answer in one piece has nothing else.
    Whole,
}

impl AnswerPart {
    /// All parts, in the order of [`Self::metric`].
    pub const ALL: [Self; 3] = [Self::First, Self::Pace, Self::Whole];

    /// Returns the metric that stands for this part wherever one is enough.
    pub const fn metric(self) -> Metric {
        match self {
            Self::First => Metric::Ttft,
            Self::Pace => Metric::Tpot,
            Self::Whole => Metric::E2e,
        }
    }

    /// Returns true if it counts from `due`; false if it counts between tokens.
    pub const fn is_from_due(self) -> bool {
        match self {
            Self::First | Self::Whole => true,
            Self::Pace => false,
        }
    }
}

/// The properties of a metric.
struct Description {
    /// See [`Metric::title`].
    title: &'static str,
    /// See [`Metric::part`].
    part: AnswerPart,
    /// See [`Metric::is_per_request`].
    per_request: bool,
    /// See [`Metric::is_always_shown`].
    always_shown: bool,
}

impl Metric {
    /// The metric of each part of an answer: TTFT, TPOT and e2e. They are measured and compared in every breakdown, with or without
    /// a limit.
    pub const PRINCIPAL: [Self; 3] =
        [AnswerPart::First.metric(), AnswerPart::Pace.metric(), AnswerPart::Whole.metric()];

    const fn description(self) -> Description {
        let (title, part, per_request, always_shown) = match self {
            Self::Ttft => ("TTFT", AnswerPart::First, true, true),
            Self::Ttfc => ("TTFC", AnswerPart::First, true, false),
            Self::Tpot => ("TPOT", AnswerPart::Pace, true, true),
            Self::Itl => ("ITL", AnswerPart::Pace, false, true),
            Self::E2e => ("e2e", AnswerPart::Whole, true, true),
            Self::Rtf => ("RTF", AnswerPart::Whole, true, false),
        };
        Description { title, part, per_request, always_shown }
    }

    /// Parses the metric out of a limit's name in `limits.csv`, such as `ttft.p99`, or out of its [`limit_key`](super::limit_key).
    pub fn of_limit(limit: &str) -> Option<Self> {
        let (name, _) = split_limit_key(limit).1.split_once('.')?;
        Self::from_name(name)
    }

    /// Returns the name shown to users.
    pub const fn title(self) -> &'static str {
        self.description().title
    }

    /// Returns the stretch of an answer that it times.
    pub const fn part(self) -> AnswerPart {
        self.description().part
    }

    /// Returns true if it counts from `due`; false if it counts between tokens.
    pub const fn is_from_due(self) -> bool {
        self.part().is_from_due()
    }

    /// Returns true if each request has at most one value; false if a request has many, which are pooled over the step. Of those, run
    /// folders keep the distribution and not which request had them.
    pub const fn is_per_request(self) -> bool {
        self.description().per_request
    }

    /// Returns true if tables without an SLO show it; false if it is only of interest with a limit on it.
    pub const fn is_always_shown(self) -> bool {
        self.description().always_shown
    }

    /// Returns true if it stands for its part of an answer; see [`Metric::PRINCIPAL`].
    pub fn is_principal(self) -> bool {
        self == self.part().metric()
    }

    /// Returns the metrics that have one value per request.
    pub fn per_request() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|m| m.is_per_request())
    }

    /// Returns the value of this metric for one request; `None` if it is unknown or undefined. ITL has no value per
    /// request.
    pub fn of(self, r: &Record) -> Option<Duration> {
        match self {
            Self::Ttft => r.ttft(),
            Self::Ttfc => r.ttfc(),
            Self::Tpot => r.tpot(),
            Self::Itl => None,
            Self::E2e => r.e2e(),
            Self::Rtf => Some(self.per_unit(r.e2e()?, r.audio?)),
        }
    }

    /// Returns the value of a request that took so long: for a real-time factor the time per second of its audio, else the time itself.
    pub(super) fn per_unit(self, took: Duration, audio: Duration) -> Duration {
        match self {
            Self::Rtf => took.div_f64(audio.as_secs_f64().max(1e-3)),
            Self::Ttft | Self::Ttfc | Self::Tpot | Self::Itl | Self::E2e => took,
        }
    }

    /// Returns true if its values are ratios of times, shown without a unit. They are kept as times per second: a real-time factor of 0.2 as
    /// 200 ms.
    pub const fn is_ratio(self) -> bool {
        matches!(self, Self::Rtf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_has_one_principal_metric() {
        let principal: Vec<Metric> = Metric::ALL.into_iter().filter(|m| m.is_principal()).collect();
        assert_eq!(principal, Metric::PRINCIPAL);
        assert_eq!(AnswerPart::ALL.map(AnswerPart::metric), Metric::PRINCIPAL);
        for metric in Metric::PRINCIPAL {
            assert!(metric.is_per_request() && metric.is_always_shown(), "{metric:?}");
        }
    }
}
