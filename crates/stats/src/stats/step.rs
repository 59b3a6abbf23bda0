//! A measured step: the content of its rows in `steps.csv` and `limits.csv`, and everything the search and the reports know of
//! it.

use super::co_misses::CoMisses;
use super::groups::{Group, GroupBy};
pub use super::latency_columns::{AllColumns, SomeColumns};
pub use super::server::{Buckets, ClientSide, MetricRow, ServerLatency, ServerSide};
use super::workers::StepWorker;
use goodput_core::level::{Control, Level};
use goodput_core::named_enum;
use goodput_core::slo::{ALL, Metric, limit_key, split_limit_key};
use serde::Serialize;
use std::collections::BTreeMap;

/// Implements the reading of a name, with an error that lists all names, and `Display` as that name.
macro_rules! text_by_name {
    ($($type:ident),+) => {
        $(impl TryFrom<String> for $type {
            type Error = String;

            fn try_from(name: String) -> Result<Self, String> {
                let known = || Self::ALL.map(Self::name).join(", ");
                Self::from_name(&name).ok_or_else(|| format!("must be one of {}, not {name:?}", known()))
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        })+
    };
}

text_by_name!(StepKind, Verdict, Abort, OutlierMetric);

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

/// Percentiles of one latency over the measured requests of a step, in milliseconds.
///
/// Percentiles are the order statistics ⌈p·n⌉ of the exact values. `p99_low` and `p99_high` are 95 % bounds of the p99 by rank,
/// at the effective sample size n / `inflation`; `p99_high` is `None` if that is too small for a bound (below 368).
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, schemars::JsonSchema)]
#[schemars(rename = "LatencyQuantiles")]
pub struct Quantiles {
    /// Number of values.
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
    /// Number of values that count as one independent value in these bounds; `None` in folders of earlier versions, whose bounds
    /// assume independent requests.
    pub inflation: Option<f64>,
}

impl Quantiles {
    /// The percentiles that are kept, as shares of the values.
    pub const SHARES: [f64; 4] = [0.5, 0.9, 0.95, 0.99];

    /// Returns the percentile that a share of the values does not exceed; `None` if it is unknown or not among
    /// [`Quantiles::SHARES`].
    pub fn at(&self, share: f64) -> Option<f64> {
        let values = [self.p50, self.p90, self.p95, self.p99];
        let kept = Self::SHARES.into_iter().zip(values).find(|(kept, _)| is_same_share(*kept, share));
        kept.and_then(|(_, value)| value)
    }

    /// Returns true if the percentile of a share of the values is among those kept.
    pub fn keeps(share: f64) -> bool {
        Self::SHARES.into_iter().any(|kept| is_same_share(kept, share))
    }

    /// Returns the effective sample size: how many independent values these count as in the bounds of the p99; `None` if not
    /// estimated.
    pub fn effective(&self) -> Option<f64> {
        self.inflation.map(|inflation| self.n as f64 / inflation)
    }
}

/// Compares shares that were computed from a percentile in different ways.
fn is_same_share(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

/// Counts and verdict of one limit in one step: a row of `limits.csv`.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct LimitRow {
    /// Tier of the SLO.
    pub tier: String,
    /// Class of requests; `all` if the workload has only one.
    pub class: String,
    /// Name of the limit: `ttft.p99`, `error-rate`, `joint`, `stability`.
    pub limit: String,
    /// The limit in milliseconds; `None` unless it is a latency.
    pub limit_ms: Option<f64>,
    /// Number of requests (gaps, for ITL) judged.
    pub n: u64,
    /// Number of misses among them.
    pub misses: u64,
    /// Number of requests cut off before they could be judged.
    pub censored: u64,
    /// Number of clusters of misses: misses that are close together in order of `due`.
    pub clusters: u64,
    /// Sum of the squared cluster sizes, or the scatter of misses over batches of the step if that is larger
    /// ([`super::cluster::scatter`]).
    pub cluster_sq: u64,
    /// How the misses coincide with those of each latency and error limit before this one in its tier; empty for other limits,
    /// and in folders of earlier versions.
    pub co_misses: Vec<CoMisses>,
    /// Share that met the limit, without the censored ones.
    pub attainment: Option<f64>,
    /// Lower bound of the true attainment, at the verdict's confidence.
    pub low: Option<f64>,
    /// Upper bound of the true attainment, at the verdict's confidence.
    pub high: Option<f64>,
    /// Verdict of these counts.
    pub verdict: Verdict,
}

named_enum! {
    /// The metric in which one replica is much worse than the rest.
    #[derive(Hash, PartialOrd, Ord)]
    #[serde(try_from = "String")]
    pub enum OutlierMetric {
        /// Higher TTFT.
        Ttft = "ttft",
        /// Higher TPOT.
        Tpot = "tpot",
        /// A larger share of failed requests.
        Failures = "failures",
    }
}

/// Results of one of several servers of a service in one step, latencies in milliseconds: a row of `replicas.csv`.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Replica {
    /// Index of the server in `urls`, from 0.
    pub target: u16,
    /// URL of the server, without secrets.
    pub url: String,
    /// Measured requests dealt to it, without those that the client could not send.
    pub n: u64,
    /// Number of requests that failed.
    pub failed: u64,
    /// Number of requests that were cut off.
    pub cut: u64,
    /// Percentiles by metric: TTFT, TPOT and e2e.
    #[serde(flatten, serialize_with = "by_column")]
    #[schemars(with = "SomeColumns")]
    pub latency: BTreeMap<Metric, Quantiles>,
    /// The metric in which this replica is much worse than the others; `None` if it is not.
    #[serde(rename = "apart")]
    pub outlier: Option<OutlierMetric>,
    /// Value of that metric for the other replicas: milliseconds, or the share of failed requests.
    pub others: Option<f64>,
}

impl OutlierMetric {
    /// Returns the name shown to users.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Ttft => "TTFT",
            Self::Tpot => "TPOT",
            Self::Failures => "failures",
        }
    }
}

impl Replica {
    /// Returns the percentiles of a metric; empty if nothing was measured.
    pub fn quantiles(&self, metric: Metric) -> Quantiles {
        self.latency.get(&metric).copied().unwrap_or_default()
    }

    /// Returns the share of its requests that failed.
    pub fn failed_share(&self) -> f64 {
        self.failed as f64 / self.n.max(1) as f64
    }
}

/// Serialises the percentiles of each metric under its name with the unit, as everywhere in `result.json`.
pub fn by_column<S: serde::Serializer>(of: &BTreeMap<Metric, Quantiles>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(of.iter().map(|(metric, q)| (format!("{}_ms", metric.name()), q)))
}

/// The part of a trace that a step replayed, counted in requests with an arrival time of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct TracePart {
    /// Index of the first request, from 0.
    pub from: u64,
    /// Number of requests, settling and tail included. The replay wraps around at the end of the trace.
    pub n: u64,
    /// Number of requests in the trace.
    pub of: u64,
}

/// Use of this machine's cores in the measured window of a step, when the server ran on it too. Shares are of the time of all
/// cores that the client may use.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct HostLoad {
    /// Number of cores that the client may use.
    pub cores: u32,
    /// Share of time busy, with any process.
    pub busy: f64,
    /// Share used by the server; `None` if its processes are not known.
    pub server: Option<f64>,
    /// Share used by neither the server nor the client; `None` if the server's share is not known.
    pub others: Option<f64>,
    /// Share taken by the hypervisor for other machines (steal time).
    pub steal: f64,
    /// Share of the window in which a runnable process had no core; `None` if the system does not report it.
    pub waiting: Option<f64>,
}

/// Result of one check of the plan in a step: a row of `checks.csv`.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct CheckRow {
    /// Class of requests; `all` if the workload has only one.
    pub class: String,
    /// Name of the check.
    pub check: String,
    /// Number of measured answers checked.
    pub n: u64,
    /// Number of answers that failed the check.
    pub failed: u64,
    /// Beginning of the first answer that failed, control characters escaped.
    pub sample: String,
}

/// One measured step. Rates are per second of the measured window; `None` means "not known" and is written as an empty cell.
#[derive(Debug, Clone, PartialEq, Default, Serialize, schemars::JsonSchema)]
pub struct Step {
    /// Name of the series the step belongs to.
    pub series: String,
    /// Number within the sweep, from 1.
    pub step: u32,
    /// Purpose of the step.
    pub kind: StepKind,
    /// The load that was offered.
    #[serde(skip)]
    pub level: Level,
    /// When it started (RFC 3339).
    pub started_at: String,
    /// Seconds from the start of the sweep to the start of the step.
    pub started_s: f64,
    /// Seconds from the start of the sweep to the end of the step, drain included.
    pub ended_s: f64,
    /// Seconds of load before the measured window.
    pub settle_s: f64,
    /// Seconds of the measured window.
    pub measure_s: f64,
    /// Seconds of load after the measured window.
    pub tail_s: f64,
    /// Seconds until the server was empty after the load stopped.
    pub drain_s: f64,
    /// Why the step ended early; `None` if it ran its full time.
    pub abort: Option<Abort>,
    /// Requests due in the measured window.
    pub due_n: u64,
    /// Requests due per second; for a closed loop, the rate that the loop produced.
    pub offered_rate: f64,
    /// Requests sent per second.
    pub sent_rate: f64,
    /// Requests completed within the window, per second.
    pub achieved_rate: f64,
    /// Requests per second that met all limits together.
    pub good_rate: f64,
    /// Measured requests that completed.
    pub completed: u64,
    /// Measured requests that failed.
    pub failed: u64,
    /// Measured requests that were cut off by the end of the step or by the default timeout.
    pub cut: u64,
    /// Failed requests that the plan's own timeout ended.
    pub failed_timeout: u64,
    /// Cut-off requests that the default timeout ended.
    pub cut_timeout: u64,
    /// Cut-off requests that were due, and that the client never sent.
    pub unsent: u64,
    /// Time that the whole client stood still, in milliseconds, if that touched a measured request.
    pub halted_ms: Option<f64>,
    /// Failed requests that the server refused: 429, or 503 with `Retry-After`.
    pub refused: u64,
    /// Requests sent a second time because their connection closed before a byte came back.
    pub retried: u64,
    /// Number of times that the measured requests were sent, retries included.
    pub attempts: u64,
    /// Attempts whose connection closed or was reset before the answer was complete.
    pub resets: u64,
    /// Output tokens of requests completed within the window, per second.
    pub output_tokens_per_s: f64,
    /// Prompt tokens of requests completed within the window, per second.
    pub prompt_tokens_per_s: f64,
    /// Items (texts, documents, images) of requests completed within the window, per second; 0 if requests are plain text.
    pub items_per_s: f64,
    /// Mean input tokens of a completed request.
    pub input_tokens_mean: Option<f64>,
    /// Mean output tokens of a completed request.
    pub output_tokens_mean: Option<f64>,
    /// Percentiles by metric.
    #[serde(skip)]
    pub latency: BTreeMap<Metric, Quantiles>,
    /// Share of requests that met all limits together.
    pub joint_attainment: Option<f64>,
    /// Mean requests in flight over the window.
    pub in_flight_mean: f64,
    /// Largest number of requests in flight.
    pub in_flight_max: u64,
    /// Growth of the requests in flight, in requests per second.
    pub in_flight_slope: Option<f64>,
    /// Growth of TTFT, in seconds per second.
    pub ttft_slope: Option<f64>,
    /// Little's law: (mean in flight − rate × mean time in system) / mean in flight.
    pub little_residual: Option<f64>,
    /// Median of sent − due, in milliseconds.
    pub lateness_p50_ms: Option<f64>,
    /// 99th percentile of sent − due, in milliseconds.
    pub lateness_p99_ms: Option<f64>,
    /// 99th percentile of the delay between "socket readable" and the timestamp, in milliseconds.
    pub receive_lag_p99_ms: Option<f64>,
    /// Median of the time to upload a measured request of at least 256 KiB, which is part of its TTFT, in milliseconds; `None` if all requests
    /// were smaller.
    pub upload_p50_ms: Option<f64>,
    /// 99th percentile of the time to upload a request, in milliseconds.
    pub upload_p99_ms: Option<f64>,
    /// Connections opened during the measured window.
    pub conn_new: u64,
    /// Summary of the server's own counters.
    pub server: ServerSide,
    /// Cost per million output tokens, in the plan's currency; `None` without a price.
    pub cost_per_mtok: Option<f64>,
    /// True if the backlog stayed level; `None` if the step is too short to tell.
    pub stable: Option<bool>,
    /// Verdict of the first tier.
    pub verdict: Verdict,
    /// The limit that decided the verdict, or is closest to it; `errors` if failed requests make up at least half of its misses.
    pub binding: Option<String>,
    /// Explanation of the verdict.
    pub reason: String,
    /// Share of the measured window that the busiest sending thread spent on a core.
    #[serde(skip)]
    pub client_busy: Option<f64>,
    /// Largest share of the measured window in which a sending thread was runnable but had no core.
    #[serde(skip)]
    pub client_waiting: Option<f64>,
    /// Use of this machine's cores in the measured window; `None` unless the server runs on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostLoad>,
    /// Counts per tier, class and limit.
    pub limits: Vec<LimitRow>,
    /// One group per class of a mix, and per turn of conversations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Group>,
    /// One entry per server, if the plan names several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<Replica>,
    /// One entry per worker; empty with a single load machine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<StepWorker>,
    /// One entry per check of the plan.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckRow>,
    /// The series of `[[metrics]]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<MetricRow>,
    /// The part of a trace that was replayed; `None` unless the workload is a trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<TracePart>,
}

impl LimitRow {
    /// Returns the name that identifies the row within its tier: `ttft.p99`, or `short/ttft.p99` for a limit of the class
    /// `short`.
    pub fn key(&self) -> String {
        limit_key(&self.class, &self.limit)
    }

    /// Returns true if the row has this key.
    pub fn is(&self, key: &str) -> bool {
        split_limit_key(key) == (&self.class, &self.limit)
    }

    /// Returns how many of the counted values belong to one of `due_n` requests: for ITL the gaps per request, since they stall
    /// together; 1 for a limit on requests.
    pub fn per_request(&self, due_n: u64) -> f64 {
        if Metric::of_limit(&self.limit).is_some_and(|m| !m.is_per_request()) {
            (self.n as f64 / due_n.max(1) as f64).max(1.0)
        } else {
            1.0
        }
    }
}

impl Step {
    /// Creates the first step of the series `main`, in which nothing was measured, for readers and tests to fill in.
    pub fn blank(level: Level) -> Self {
        Self { series: "main".into(), step: 1, level, ..Self::default() }
    }
}

impl Step {
    /// Returns the percentiles of a metric; empty if nothing was measured.
    pub fn quantiles(&self, metric: Metric) -> Quantiles {
        self.latency.get(&metric).copied().unwrap_or_default()
    }

    /// Returns the metric that stands for response time: TTFT, or e2e if every answer came in one piece.
    pub fn response_metric(&self) -> Metric {
        let whole = self.quantiles(Metric::Ttft).n == 0 && self.quantiles(Metric::E2e).n > 0;
        if whole { Metric::E2e } else { Metric::Ttft }
    }

    /// Finds the counts of a limit of a tier by its [`LimitRow::key`].
    pub fn row(&self, tier: &str, key: &str) -> Option<&LimitRow> {
        self.limits.iter().find(|r| r.tier == tier && r.is(key))
    }

    /// Returns the requests per second that met all limits of a tier together; `good_rate` is that of the first tier.
    pub fn good_rate_of(&self, tier: &str) -> f64 {
        match self.row(tier, "joint") {
            Some(r) if self.measure_s > 0.0 => {
                r.n.saturating_sub(r.misses + r.censored) as f64 / self.measure_s
            }
            _ => self.good_rate,
        }
    }

    /// Returns the group of a class of the mix; `None` if the class is not measured separately.
    pub fn class(&self, class: &str) -> Option<&Group> {
        self.groups.iter().find(|g| g.by == GroupBy::Class && g.name == class)
    }

    /// Returns the percentiles of a metric over the requests that a limit of this class judges; empty if nothing was measured, or
    /// if the class is not measured separately.
    ///
    /// A limit of the plan itself ([`ALL`]) judges the classes without limits of their own. If that is a single class, its group
    /// is used.
    pub fn quantiles_of(&self, class: &str, metric: Metric) -> Quantiles {
        let own = |name: &str| self.limits.iter().any(|r| r.class == name);
        let mut rest = self.groups.iter().filter(|g| g.by == GroupBy::Class && !own(&g.name));
        let group = match (class, rest.next(), rest.next()) {
            (ALL, Some(only), None) => Some(only),
            (ALL, ..) => return self.quantiles(metric),
            (class, ..) => self.class(class),
        };
        group.map(|g| g.quantiles(metric)).unwrap_or_default()
    }

    /// Returns the number of failed requests among those that a limit of this class judges, without those that the plan's timeout
    /// ended: their metrics count as far as they are known.
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

    /// Returns true if the latencies are those of an overload, or of a step that ended early.
    pub fn overloaded(&self) -> bool {
        self.stable == Some(false) || self.abort.is_some()
    }

    /// Returns true if the step was stopped for a reason unrelated to its load; it shows only what came until then.
    pub fn broken_off(&self) -> bool {
        self.abort.is_some_and(Abort::is_broken_off)
    }

    /// Returns true if the client stood still, so that the step shows nothing of the server.
    pub fn is_spoilt_by_halt(&self) -> bool {
        self.verdict == Verdict::Invalid && self.halted_ms.is_some()
    }

    /// Returns true if the load exceeded what the server can take: the backlog grew, misses were gross, too many requests failed,
    /// or nothing was answered.
    pub fn too_much(&self) -> bool {
        self.stable == Some(false)
            || matches!(self.abort, Some(Abort::Gross | Abort::Errors | Abort::AllFailed | Abort::NoAnswer))
    }

    /// Returns true if no answer came at all.
    pub const fn unanswered(&self) -> bool {
        matches!(self.abort, Some(Abort::AllFailed | Abort::NoAnswer))
    }

    /// Returns true if at least half of the failures are refusals. They show a rate limit, at the server or before it, and say
    /// nothing about the speed of the server.
    pub const fn mostly_refused(&self) -> bool {
        self.refused > 0 && 2 * self.refused >= self.failed
    }

    /// Returns true if refusals stopped the step, or were more than this share of its requests.
    pub fn refused_beyond(&self, share: f64) -> bool {
        let stopped = self.unanswered() || self.abort == Some(Abort::Errors);
        self.mostly_refused() && (stopped || self.refused as f64 > share * self.due_n as f64)
    }

    /// Returns the load of the step for the horizontal axis of a miss curve. For a rate step that ran its full time, that is the
    /// rate actually due, since the misses come from it; else the level asked for, since the rate due until an early end depends
    /// on the chance of the arrivals.
    pub fn effective_level(&self) -> f64 {
        let ran = self.level.control == Control::Rate && self.abort.is_none() && self.offered_rate > 0.0;
        if ran { self.offered_rate } else { self.level.value }
    }
}
