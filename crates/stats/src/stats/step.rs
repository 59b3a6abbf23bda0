//! A measured step: the content of its rows in `steps.csv` and `limits.csv`, and everything the search and the reports know of
//! it.

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

mod kind;
mod limit_row;
mod quantiles;
mod replica;

use super::groups::{Group, GroupBy};
pub use super::latency_columns::{AllColumns, SomeColumns};
pub use super::server::{Buckets, ClientSide, MetricRow, ServerLatency, ServerSide};
use super::workers::StepWorker;
use goodput_core::level::{Control, Level};
use goodput_core::slo::{ALL, Metric};
pub use kind::{Abort, StepKind, Verdict};
pub use limit_row::LimitRow;
pub use quantiles::Quantiles;
pub use replica::{OutlierMetric, Replica, by_column};
use serde::Serialize;
use std::collections::BTreeMap;

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

impl Step {
    /// Creates the first step of the series `main`, in which nothing was measured, for readers and tests to fill in.
    pub fn blank(level: Level) -> Self {
        Self { series: "main".into(), step: 1, level, ..Self::default() }
    }

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
