//! `server.csv`: one row per step with the server's own counters, if it exports any.

use super::{Cell, CellError, Columns, TableRow};
use crate::rundir::SERVER;
use goodput_stats::stats::step::{Buckets, ClientSide, ServerLatency, ServerSide};
use std::fmt::Write;

/// The columns of `server.csv`; for their meaning see the fields of [`ServerSide`].
impl TableRow for ServerSide {
    const FILE: &'static str = SERVER;

    fn empty() -> Self {
        Self::default()
    }

    fn columns(&mut self, c: &mut impl Columns) -> Result<(), CellError> {
        c.cell("samples", &mut self.samples)?;
        c.cell("seconds", &mut self.seconds)?;
        c.cell("running_mean", &mut self.running_mean)?;
        c.cell("running_max", &mut self.running_max)?;
        c.cell("waiting_mean", &mut self.waiting_mean)?;
        c.cell("waiting_max", &mut self.waiting_max)?;
        c.cell("kv_mean", &mut self.kv_mean)?;
        c.cell("kv_max", &mut self.kv_max)?;
        c.cell("preemptions", &mut self.preemptions)?;
        c.cell("finished", &mut self.finished)?;
        c.cell("prompt_tokens", &mut self.prompt_tokens)?;
        c.cell("generation_tokens", &mut self.generation_tokens)?;
        c.cell("hit_rate", &mut self.hit_rate)?;
        latency(c, "ttft", &mut self.ttft)?;
        latency(c, "queue", &mut self.queue)?;
        latency(c, "prefill", &mut self.prefill)?;
        latency(c, "decode", &mut self.decode)?;
        latency(c, "itl", &mut self.itl)?;
        latency(c, "e2e", &mut self.e2e)?;
        c.later("restarted", &mut self.restarted)?;
        client(c, &mut self.client)?;
        c.cell("drafted_mean", &mut self.drafted_mean)?;
        c.cell("accepted_mean", &mut self.accepted_mean)?;
        latency(c, "tpot", &mut self.tpot)?;
        c.later("ttft_buckets", &mut self.ttft_buckets)?;
        c.later("tpot_buckets", &mut self.tpot_buckets)?;
        c.later("itl_buckets", &mut self.itl_buckets)?;
        c.later("e2e_buckets", &mut self.e2e_buckets)
    }
}

/// Written as `0.04=12;0.08=40;inf=41`: upper bound in seconds, and number of observations at or below it.
impl Cell for Buckets {
    fn write(&self, to: &mut String) {
        for (i, (bound, n)) in self.0.iter().enumerate() {
            let separator = if i > 0 { ";" } else { "" };
            let _ = write!(to, "{separator}{bound}={n}");
        }
    }

    fn parse(cell: &str) -> Result<Self, CellError> {
        let bucket = |entry: &str| {
            let (bound, n) = entry.split_once('=')?;
            let (bound, n): (f64, f64) = (bound.parse().ok()?, n.parse().ok()?);
            (!bound.is_nan() && (0.0..=1e15).contains(&n)).then_some((bound, n))
        };
        let parsed = |entry| bucket(entry).ok_or_else(|| CellError::new(format_args!("holds {entry:?}")));
        let all: Vec<_> =
            cell.split(';').filter(|entry| !entry.is_empty()).map(parsed).collect::<Result<_, _>>()?;
        let rising = all.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1);
        if rising { Ok(Self(all)) } else { Err(CellError::new("holds buckets that do not rise")) }
    }
}

/// Visits a latency histogram of the server: the columns `ttft_n`, `ttft_mean_ms`, `ttft_p50_ms`, `ttft_p99_ms`.
fn latency(c: &mut impl Columns, name: &str, of: &mut Option<ServerLatency>) -> Result<(), CellError> {
    let (mut n, mut mean_ms) = (of.map(|l| l.n), of.map(|l| l.mean_ms));
    let (mut p50_ms, mut p99_ms) = (of.and_then(|l| l.p50_ms), of.and_then(|l| l.p99_ms));
    c.cell(&format!("{name}_n"), &mut n)?;
    c.cell(&format!("{name}_mean_ms"), &mut mean_ms)?;
    c.cell(&format!("{name}_p50_ms"), &mut p50_ms)?;
    c.cell(&format!("{name}_p99_ms"), &mut p99_ms)?;
    *of = n.zip(mean_ms).map(|(n, mean_ms)| ServerLatency { n, mean_ms, p50_ms, p99_ms });
    Ok(())
}

/// Visits the client's figures between the same two readings; `None` if they were not counted.
fn client(c: &mut impl Columns, client: &mut Option<ClientSide>) -> Result<(), CellError> {
    let [mut prompt, mut output] = [client.map(|c| c.prompt_tokens), client.map(|c| c.output_tokens)];
    let mut first_tokens = client.map(|c| c.first_tokens);
    let mut ttft_mean_ms = client.and_then(|c| c.ttft_mean_ms);
    let mut in_flight_mean = client.and_then(|c| c.in_flight_mean);
    c.cell("client_first_tokens", &mut first_tokens)?;
    c.cell("client_ttft_mean_ms", &mut ttft_mean_ms)?;
    c.cell("client_prompt_tokens", &mut prompt)?;
    c.cell("client_output_tokens", &mut output)?;
    c.cell("client_in_flight_mean", &mut in_flight_mean)?;
    let counted = |((first_tokens, prompt_tokens), output_tokens)| ClientSide {
        first_tokens,
        ttft_mean_ms,
        prompt_tokens,
        output_tokens,
        in_flight_mean,
    };
    *client = first_tokens.zip(prompt).zip(output).map(counted);
    Ok(())
}
