//! `server.csv`: one row per step with the server's own counters, if it exports any.

use super::decode::{OtherCells, known};
use super::{StepKey, TableRow};
use crate::rundir::SERVER;
use goodput_stats::stats::step::{ClientSide, ServerLatency, ServerSide, Step};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The columns of `server.csv`, in order; for their meaning see the fields of [`ServerSide`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ServerColumns {
    series: String,
    step: u32,
    samples: Option<u64>,
    seconds: Option<f64>,
    running_mean: Option<f64>,
    running_max: Option<f64>,
    waiting_mean: Option<f64>,
    waiting_max: Option<f64>,
    kv_mean: Option<f64>,
    kv_max: Option<f64>,
    preemptions: Option<f64>,
    finished: Option<f64>,
    prompt_tokens: Option<f64>,
    generation_tokens: Option<f64>,
    hit_rate: Option<f64>,
    #[serde(flatten)]
    latency: ServerLatencyColumns,
    #[serde(default)]
    restarted: bool,
    client_first_tokens: Option<u64>,
    client_ttft_mean_ms: Option<f64>,
    client_prompt_tokens: Option<f64>,
    client_output_tokens: Option<f64>,
    client_in_flight_mean: Option<f64>,
}

/// Latency histograms of the server: the columns `ttft_n`, `ttft_mean_ms`, `ttft_p50_ms`, `ttft_p99_ms`, and so on.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct ServerLatencyColumns {
    ttft: Option<ServerLatency>,
    queue: Option<ServerLatency>,
    prefill: Option<ServerLatency>,
    decode: Option<ServerLatency>,
    itl: Option<ServerLatency>,
    e2e: Option<ServerLatency>,
}

impl ServerLatencyColumns {
    /// Returns each latency with the prefix of its column names.
    fn by_name(&mut self) -> [(&'static str, &mut Option<ServerLatency>); 6] {
        let Self { ttft, queue, prefill, decode, itl, e2e } = self;
        [
            ("ttft", ttft),
            ("queue", queue),
            ("prefill", prefill),
            ("decode", decode),
            ("itl", itl),
            ("e2e", e2e),
        ]
    }
}

impl Serialize for ServerLatencyColumns {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut all = *self;
        let columns = all.by_name().into_iter().flat_map(|(name, l)| {
            let l = *l;
            [
                (format!("{name}_n"), l.map(|l| l.n)),
                (format!("{name}_mean_ms"), l.map(|l| l.mean_ms)),
                (format!("{name}_p50_ms"), l.and_then(|l| l.p50_ms)),
                (format!("{name}_p99_ms"), l.and_then(|l| l.p99_ms)),
            ]
        });
        to.collect_map(columns)
    }
}

impl<'de> Deserialize<'de> for ServerLatencyColumns {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let cells = OtherCells::deserialize(from)?;
        let mut all = Self::default();
        for (name, latency) in all.by_name() {
            let cell = |what: &str| known(&cells, &format!("{name}_{what}"));
            if let (Some(n), Some(mean_ms)) = (cell("n")?, cell("mean_ms")?) {
                *latency =
                    Some(ServerLatency { n, mean_ms, p50_ms: cell("p50_ms")?, p99_ms: cell("p99_ms")? });
            }
        }
        Ok(all)
    }
}

impl TableRow for ServerColumns {
    const FILE: &'static str = SERVER;
}

impl ServerColumns {
    /// Returns the row of a step; `None` if the server reported nothing.
    pub(crate) fn new(step: &Step) -> Option<Self> {
        let s = &step.server;
        let latency = ServerLatencyColumns {
            ttft: s.ttft,
            queue: s.queue,
            prefill: s.prefill,
            decode: s.decode,
            itl: s.itl,
            e2e: s.e2e,
        };
        s.is_known().then(|| Self {
            series: step.series.clone(),
            step: step.step,
            samples: s.samples,
            seconds: s.seconds,
            running_mean: s.running_mean,
            running_max: s.running_max,
            waiting_mean: s.waiting_mean,
            waiting_max: s.waiting_max,
            kv_mean: s.kv_mean,
            kv_max: s.kv_max,
            preemptions: s.preemptions,
            finished: s.finished,
            prompt_tokens: s.prompt_tokens,
            generation_tokens: s.generation_tokens,
            hit_rate: s.hit_rate,
            latency,
            restarted: s.restarted,
            client_first_tokens: s.client.map(|c| c.first_tokens),
            client_ttft_mean_ms: s.client.and_then(|c| c.ttft_mean_ms),
            client_prompt_tokens: s.client.map(|c| c.prompt_tokens),
            client_output_tokens: s.client.map(|c| c.output_tokens),
            client_in_flight_mean: s.client.and_then(|c| c.in_flight_mean),
        })
    }

    /// Returns the client's figures between the same two readings; `None` if they were not counted.
    fn client(&self) -> Option<ClientSide> {
        Some(ClientSide {
            first_tokens: self.client_first_tokens?,
            ttft_mean_ms: self.client_ttft_mean_ms,
            prompt_tokens: self.client_prompt_tokens?,
            output_tokens: self.client_output_tokens?,
            in_flight_mean: self.client_in_flight_mean,
        })
    }

    /// Returns the step of the row, and the counters.
    pub(crate) fn into_server(self) -> (StepKey, ServerSide) {
        let ServerLatencyColumns { ttft, queue, prefill, decode, itl, e2e } = self.latency;
        let side = ServerSide {
            samples: self.samples,
            seconds: self.seconds,
            running_mean: self.running_mean,
            running_max: self.running_max,
            waiting_mean: self.waiting_mean,
            waiting_max: self.waiting_max,
            kv_mean: self.kv_mean,
            kv_max: self.kv_max,
            preemptions: self.preemptions,
            finished: self.finished,
            prompt_tokens: self.prompt_tokens,
            generation_tokens: self.generation_tokens,
            hit_rate: self.hit_rate,
            ttft,
            queue,
            prefill,
            decode,
            itl,
            e2e,
            client: self.client(),
            restarted: self.restarted,
        };
        ((self.series, self.step), side)
    }
}
