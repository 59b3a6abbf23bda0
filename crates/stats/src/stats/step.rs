//! A measured step: what `steps.csv` and `limits.csv` hold of it, and all that the search and the reports may see.

use super::co_misses::CoMisses;
use super::groups::{By, Group};
pub use super::server::{ClientSide, MetricRow, ServerLatency, ServerSide};
use goodput_core::level::{Control, Level};
use goodput_core::slo::{ALL, Metric, key, split};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(into = "&'static str", try_from = "String")]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            /// Every one of them.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The name used in files.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// The one of that name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|v| v.name() == name)
            }
        }

        impl From<$name> for &'static str {
            fn from(v: $name) -> Self { v.name() }
        }

        impl TryFrom<String> for $name {
            type Error = String;

            fn try_from(name: String) -> Result<Self, String> {
                let known = || Self::ALL.iter().map(|v| v.name()).collect::<Vec<_>>().join(", ");
                Self::from_name(&name).ok_or_else(|| format!("must be one of {}, not {name:?}", known()))
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.pad(self.name()) }
        }
    };
}

named!(
    /// What a step was measured for.
    StepKind {
        /// A level that the plan lists.
        List = "list",
        /// So many requests at once: its window ends with the last answer.
        Burst = "burst",
        /// A level of the ramp.
        Ramp = "ramp",
        /// One request at a time, before the adaptive search offers any load, or again where it doubts that any level meets: what the server
        /// does unloaded.
        Baseline = "baseline",
        /// A level at the likely boundary, chosen by the adaptive search.
        Refine = "refine",
        /// The safe rate, held for the last fifth of the budget.
        Hold = "hold",
        /// A soak at the safe rate, after the search.
        Confirm = "confirm",
        /// The safe rate, a surge, and the safe rate again, in one step after the search: how the server recovers.
        Recovery = "recovery",
        /// A closed loop with so many in flight that the server is always full, after the search: the most that it completes.
        Peak = "peak",
        /// A level that the server can take, under its profiler, after all else: the profiler slows it down.
        Profile = "profile",
    }
);

impl StepKind {
    /// Whether it is measured for its own sake: no verdict and no answer hangs on it.
    pub const fn is_beside(self) -> bool {
        matches!(self, Self::Recovery | Self::Peak | Self::Profile)
    }

    /// Returns true for steps that the adaptive search chose near the likely boundary.
    pub const fn is_near_boundary(self) -> bool {
        matches!(self, Self::Refine | Self::Hold)
    }

    /// Whether it is none of the levels of the search: the unloaded server, and what is measured for its own sake.
    pub const fn is_aside(self) -> bool {
        matches!(self, Self::Baseline) || self.is_beside()
    }
}

named!(
    /// What a step shows about the SLO.
    Verdict {
        /// Every limit is shown to be met.
        Meets = "meets",
        /// A limit is shown to be missed, or the step is not stable.
        Fails = "fails",
        /// Too few requests to tell.
        Undecided = "undecided",
        /// The client was the limit, or the server was started anew: the step says nothing about the server.
        Invalid = "invalid",
    }
);

named!(
    /// Why a step ended before its time.
    Abort {
        /// Its misses were far beyond what the SLO allows.
        Gross = "gross",
        /// Every request failed, and there were enough of them to say that nobody is there to be measured.
        AllFailed = "all-failed",
        /// Not one answer came by its end, of too few requests to say why.
        NoAnswer = "no-answer",
        /// More of its requests failed than the plan puts up with.
        Errors = "errors",
        /// The server went away.
        ServerGone = "server-gone",
        /// The user interrupted the sweep.
        Interrupted = "interrupted",
        /// The sweep had come to its deadline.
        Deadline = "deadline",
        /// The disk of the run folder was nearly full.
        Disk = "disk",
    }
);

impl Abort {
    /// Whether the step was broken off for a reason that has nothing to do with its load: its window was cut, and it is measured again
    /// when the sweep goes on.
    pub const fn is_broken_off(self) -> bool {
        matches!(self, Self::Interrupted | Self::Deadline | Self::Disk)
    }
}

/// Percentiles of one latency over the measured requests of a step, in milliseconds.
///
/// Order statistics ⌈p·n⌉ of the exact values; `p99_low` and `p99_high` are 95 % bounds of the p99 by rank, at the effective number
/// n / `inflation`. `p99_high` is `None` where that is too small for one (below 368).
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Quantiles {
    /// How many values.
    pub n: u64,
    /// Median.
    pub p50: Option<f64>,
    /// 90th percentile.
    pub p90: Option<f64>,
    /// 95th percentile.
    pub p95: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// Lower 95 % bound of the p99.
    pub p99_low: Option<f64>,
    /// Upper 95 % bound of the p99.
    pub p99_high: Option<f64>,
    /// How many values are worth one independent value in these bounds; `None` in folders of earlier versions, whose bounds assume
    /// independent requests.
    pub inflation: Option<f64>,
}

impl Quantiles {
    /// Returns how many independent values these are worth in the bounds of their p99, where that was estimated.
    pub fn effective(&self) -> Option<f64> {
        self.inflation.map(|inflation| self.n as f64 / inflation)
    }
}

/// The counts of one limit in one step, and what they show: a row of `limits.csv`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LimitRow {
    /// Tier of the SLO.
    pub tier: String,
    /// Class of requests; `all` where there is only one.
    pub class: String,
    /// `ttft.p99`, `error-rate`, `joint`, `stability`.
    pub limit: String,
    /// The limit in milliseconds, where it is a latency.
    pub limit_ms: Option<f64>,
    /// Requests (gaps, for ITL) that count.
    pub n: u64,
    /// Misses among them.
    pub misses: u64,
    /// Requests cut off before it could be told.
    pub censored: u64,
    /// Clusters of misses: runs in order of `due` that are close together.
    pub clusters: u64,
    /// Sum of the squared sizes of the clusters, or the scatter of misses over batches of the step where that is larger
    /// ([`super::cluster::scatter`]).
    pub cluster_sq: u64,
    /// How its misses coincide with those of each latency and error limit before it in its tier; empty for others, and in folders of
    /// earlier versions.
    pub co_misses: Vec<CoMisses>,
    /// Share that met the limit, censored ones left out.
    pub attainment: Option<f64>,
    /// Lower bound of the true attainment, at the verdict's confidence.
    pub low: Option<f64>,
    /// Upper bound of the true attainment.
    pub high: Option<f64>,
    /// What the counts show.
    pub verdict: Verdict,
}

named!(
    /// In what one replica of a service is far worse than the others.
    Apart {
        /// Its TTFT.
        Ttft = "ttft",
        /// Its TPOT.
        Tpot = "tpot",
        /// More of its requests fail.
        Failures = "failures",
    }
);

/// What one of several servers of a service did in a step, latencies in milliseconds: a row of `replicas.csv`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Replica {
    /// Its place in `urls`, from 0.
    pub target: u16,
    /// Its URL, which holds no secret.
    pub url: String,
    /// Measured requests that it was dealt; without those that the client could not send.
    pub n: u64,
    /// Those that failed.
    pub failed: u64,
    /// Those that were cut off.
    pub cut: u64,
    /// Percentiles by metric: TTFT, TPOT and e2e.
    #[serde(flatten, serialize_with = "by_column")]
    pub latency: BTreeMap<Metric, Quantiles>,
    /// In what it is far worse than the others, if it is.
    pub apart: Option<Apart>,
    /// What that is measured by in the others: milliseconds, or the share of requests that failed.
    pub others: Option<f64>,
}

impl Apart {
    /// The name for people.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Ttft => "TTFT",
            Self::Tpot => "TPOT",
            Self::Failures => "failures",
        }
    }
}

impl Replica {
    /// The metrics that it has percentiles of.
    pub const METRICS: [Metric; 3] = [Metric::Ttft, Metric::Tpot, Metric::E2e];

    /// Percentiles of a metric; empty where nothing was measured.
    pub fn quantiles(&self, metric: Metric) -> Quantiles {
        self.latency.get(&metric).copied().unwrap_or_default()
    }

    /// The share of its requests that failed.
    pub fn failed_share(&self) -> f64 {
        self.failed as f64 / self.n.max(1) as f64
    }
}

/// Each metric under its name with the unit, as everywhere in `result.json`.
pub(super) fn by_column<S: serde::Serializer>(
    of: &BTreeMap<Metric, Quantiles>,
    to: S,
) -> Result<S::Ok, S::Error> {
    to.collect_map(of.iter().map(|(metric, q)| (format!("{}_ms", metric.name()), q)))
}

/// Which part of a trace a step replayed, in requests that come at a time of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TracePart {
    /// Number of the first, from 0.
    pub from: u64,
    /// How many, settling and tail included; behind the last of the trace comes its first again.
    pub n: u64,
    /// How many the trace has.
    pub of: u64,
}

/// The use of this machine's cores in the measured window of a step, while the server ran on it. Shares are of the time of all cores
/// that the client may use.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct HostLoad {
    /// Number of those cores.
    pub cores: u32,
    /// Share that was busy, with anything.
    pub busy: f64,
    /// Share that the server had; `None` where its processes cannot be told.
    pub server: Option<f64>,
    /// Share that neither the server nor the client had; `None` where the server's is not known.
    pub others: Option<f64>,
    /// Share that a hypervisor gave to other machines.
    pub steal: f64,
    /// Share of the window in which something that could run had no core; `None` where the system does not tell.
    pub waiting: Option<f64>,
}

/// What became of one check of the plan in a step: a row of `checks.csv`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckRow {
    /// Class of requests; `all` where there is only one.
    pub class: String,
    /// The check's name.
    pub check: String,
    /// Measured answers that were asked.
    pub n: u64,
    /// Those that failed it.
    pub failed: u64,
    /// The beginning of the first answer that failed, control characters escaped.
    pub sample: String,
}

/// One measured step. Rates are per second of the measured window; `None` is "not known" and an empty cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    /// The curve it belongs to.
    pub series: String,
    /// Number within the sweep, from 1.
    pub step: u32,
    /// What it was measured for.
    pub kind: StepKind,
    /// What was held.
    pub level: Level,
    /// When it started (RFC 3339).
    pub started_at: String,
    /// Seconds from the start of the sweep to its start and to its end, drain included.
    pub started_s: f64,
    /// See `started_s`.
    pub ended_s: f64,
    /// Seconds of load before the measured window.
    pub settle_s: f64,
    /// Seconds of the measured window.
    pub measure_s: f64,
    /// Seconds that the load was kept on afterwards.
    pub tail_s: f64,
    /// Seconds until the server was empty again.
    pub drain_s: f64,
    /// Why it ended early, if it did.
    pub abort: Option<Abort>,
    /// Requests due in the measured window.
    pub due_n: u64,
    /// Due per second. For a closed loop this is what the loop asked for.
    pub offered_rate: f64,
    /// Sent per second.
    pub sent_rate: f64,
    /// Completed within the window per second.
    pub achieved_rate: f64,
    /// Requests per second that met every limit together.
    pub good_rate: f64,
    /// Measured requests that completed.
    pub completed: u64,
    /// Measured requests that failed.
    pub failed: u64,
    /// Measured requests that were cut off.
    pub cut: u64,
    /// Of those that failed, the ones that the plan's own timeout ended.
    pub failed_timeout: u64,
    /// Of those that were cut off, the ones that the default timeout ended.
    pub cut_timeout: u64,
    /// Of those that failed, the ones that the server refused: 429, or 503 with `Retry-After`.
    pub refused: u64,
    /// Requests sent a second time because their connection closed before a byte came back.
    pub retried: u64,
    /// Output tokens of requests completed within the window, per second.
    pub output_tokens_per_s: f64,
    /// Prompt tokens of requests completed within the window, per second.
    pub prompt_tokens_per_s: f64,
    /// Mean input tokens of a completed request.
    pub input_tokens_mean: Option<f64>,
    /// Mean output tokens of a completed request.
    pub output_tokens_mean: Option<f64>,
    /// Percentiles by metric.
    pub latency: BTreeMap<Metric, Quantiles>,
    /// Share of requests that met every limit together.
    pub joint_attainment: Option<f64>,
    /// Mean requests in flight over the window.
    pub in_flight_mean: f64,
    /// Most requests in flight.
    pub in_flight_max: u64,
    /// Growth of the requests in flight, per second.
    pub in_flight_slope: Option<f64>,
    /// Growth of TTFT, in seconds per second.
    pub ttft_slope: Option<f64>,
    /// Little's law: (mean in flight − rate × mean time in system) / mean in flight.
    pub little_residual: Option<f64>,
    /// Median of sent − due, in milliseconds.
    pub lateness_p50_ms: Option<f64>,
    /// 99th percentile of sent − due, in milliseconds.
    pub lateness_p99_ms: Option<f64>,
    /// 99th percentile of socket readable → stamp, in milliseconds.
    pub receive_lag_p99_ms: Option<f64>,
    /// Connections opened during the measured window.
    pub conn_new: u64,
    /// The server's own view.
    pub server: ServerSide,
    /// Cost per million output tokens, where the plan has a price.
    pub cost_per_mtok: Option<f64>,
    /// Whether the backlog stayed level; `None` where the step is too short to tell.
    pub stable: Option<bool>,
    /// What the step shows.
    pub verdict: Verdict,
    /// The limit that decided, or that is nearest; `errors` where failed requests make up at least half of its misses.
    pub binding: Option<String>,
    /// Why, in words.
    pub reason: String,
    /// Share of the measured window that the busiest sending thread was on a core.
    pub client_busy: Option<f64>,
    /// Largest share of the measured window in which a sending thread wanted to run and had no core.
    pub client_waiting: Option<f64>,
    /// The use of this machine's cores in the measured window, where the server runs on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostLoad>,
    /// Counts per tier, class and limit.
    pub limits: Vec<LimitRow>,
    /// Each class of a mix, and each turn of conversations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Group>,
    /// Each server, where the plan names several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<Replica>,
    /// What became of each check of the plan, where it has any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckRow>,
    /// The series of `[[metrics]]`, where the plan has any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<MetricRow>,
    /// Which part of a trace it replayed, where the workload is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<TracePart>,
}

impl LimitRow {
    /// Its name among the rows of its tier: `ttft.p99`, or `short/ttft.p99` where it is of the class `short`.
    pub fn key(&self) -> String {
        key(&self.class, &self.limit)
    }

    /// Whether it goes by this key.
    pub fn is(&self, key: &str) -> bool {
        split(key) == (&self.class, &self.limit)
    }

    /// How many of what the row counts belong to one of its `due_n` requests: gaps between tokens, which stall together; 1 for a limit on
    /// requests.
    pub fn per_request(&self, due_n: u64) -> f64 {
        if Metric::of_limit(&self.limit) == Some(Metric::Itl) {
            (self.n as f64 / due_n.max(1) as f64).max(1.0)
        } else {
            1.0
        }
    }
}

impl Step {
    /// Percentiles of a metric; empty where nothing was measured.
    pub fn quantiles(&self, metric: Metric) -> Quantiles {
        self.latency.get(&metric).copied().unwrap_or_default()
    }

    /// By what its response times are told: TTFT, or e2e where every answer came in one piece.
    pub fn response(&self) -> Metric {
        let whole = self.quantiles(Metric::Ttft).n == 0 && self.quantiles(Metric::E2e).n > 0;
        if whole { Metric::E2e } else { Metric::Ttft }
    }

    /// The counts of a limit of a tier, by its [`LimitRow::key`].
    pub fn row(&self, tier: &str, key: &str) -> Option<&LimitRow> {
        self.limits.iter().find(|r| r.tier == tier && r.is(key))
    }

    /// Requests per second that met every limit of a tier together; its own figure is that of the first tier.
    pub fn good_rate_of(&self, tier: &str) -> f64 {
        match self.row(tier, "joint") {
            Some(r) if self.measure_s > 0.0 => {
                r.n.saturating_sub(r.misses + r.censored) as f64 / self.measure_s
            }
            _ => self.good_rate,
        }
    }

    /// What is known of a class of the mix apart from the others.
    pub fn class(&self, class: &str) -> Option<&Group> {
        self.groups.iter().find(|g| g.by == By::Class && g.name == class)
    }

    /// Percentiles of a metric over the requests that a limit of this class judges; empty where nothing was measured, or they are not
    /// known apart.
    ///
    /// What is the plan's own ([`ALL`]) judges classes without limits of their own: where that is one, it is told apart as well.
    pub fn quantiles_of(&self, class: &str, metric: Metric) -> Quantiles {
        let own = |name: &str| self.limits.iter().any(|r| r.class == name);
        let mut rest = self.groups.iter().filter(|g| g.by == By::Class && !own(&g.name));
        let group = match (class, rest.next(), rest.next()) {
            (ALL, Some(only), None) => Some(only),
            (ALL, ..) => return self.quantiles(metric),
            (class, ..) => self.class(class),
        };
        group.map(|g| g.quantiles(metric)).unwrap_or_default()
    }

    /// Measured requests that failed, of those that a limit of this class judges; those that the plan's timeout ended aside, whose metrics
    /// count as far as they are known.
    pub fn failed_of(&self, class: &str) -> u64 {
        let broken = |failed: u64, by_timeout: u64| failed.saturating_sub(by_timeout);
        if class == ALL {
            return broken(self.failed, self.failed_timeout);
        }
        self.class(class).map_or(0, |g| broken(g.failed, g.failed_timeout))
    }

    /// Returns true if every measured request failed, and not only because the plan's timeout ended it.
    pub fn all_failed(&self) -> bool {
        let broken = self.failed_of(ALL);
        self.abort == Some(Abort::AllFailed) || (broken > 0 && broken == self.due_n)
    }

    /// Whether its latencies are those of an overload, or of a step that was broken off.
    pub fn overloaded(&self) -> bool {
        self.stable == Some(false) || self.abort.is_some()
    }

    /// Whether it was broken off from outside, and shows no more than what came until then.
    pub fn broken_off(&self) -> bool {
        self.abort.is_some_and(Abort::is_broken_off)
    }

    /// Whether it was too much for the server: its backlog grew, its misses were gross, too many of its requests failed, or nothing was answered.
    pub fn too_much(&self) -> bool {
        self.stable == Some(false)
            || matches!(self.abort, Some(Abort::Gross | Abort::Errors | Abort::AllFailed | Abort::NoAnswer))
    }

    /// Whether not one answer came.
    pub const fn unanswered(&self) -> bool {
        matches!(self.abort, Some(Abort::AllFailed | Abort::NoAnswer))
    }

    /// Whether its failures are mostly refusals: a limit of requests, at the server or before it, and no word on how fast the server is.
    pub const fn mostly_refused(&self) -> bool {
        self.refused > 0 && 2 * self.refused >= self.failed
    }

    /// Whether refusals stopped it, or were more than this share of its requests.
    pub fn refused_beyond(&self, share: f64) -> bool {
        let stopped = self.unanswered() || self.abort == Some(Abort::Errors);
        self.mostly_refused() && (stopped || self.refused as f64 > share * self.due_n as f64)
    }

    /// The level that it held, as the horizontal axis of a miss curve: what was due where it ran its time, since that is what its misses
    /// come from; else what was asked for, since when it was ended is an accident of the arrivals that came.
    pub fn held(&self) -> f64 {
        let ran = self.level.control == Control::Rate && self.abort.is_none() && self.offered_rate > 0.0;
        if ran { self.offered_rate } else { self.level.value }
    }
}
