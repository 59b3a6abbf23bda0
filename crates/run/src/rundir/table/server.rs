//! Rows of `server.csv`: what the server's own counters say of a step, and of `metrics.csv`: the series of `[[metrics]]`.

use super::{Cells, Row};
use anyhow::Result;
use goodput_stats::stats::step::{ClientSide, MetricRow, ServerLatency, ServerSide, Step};

/// The cells of a step's row in `server.csv`; `None` where the server told nothing.
pub(crate) fn server_cells(step: &Step) -> Option<Cells> {
    let s = &step.server;
    if !s.is_known() {
        return None;
    }
    let mut c = Cells::of(step);
    c.opt("samples", s.samples);
    for (name, value) in [
        ("seconds", s.seconds),
        ("running_mean", s.running_mean),
        ("running_max", s.running_max),
        ("waiting_mean", s.waiting_mean),
        ("waiting_max", s.waiting_max),
        ("kv_mean", s.kv_mean),
        ("kv_max", s.kv_max),
        ("preemptions", s.preemptions),
        ("finished", s.finished),
        ("prompt_tokens", s.prompt_tokens),
        ("generation_tokens", s.generation_tokens),
        ("hit_rate", s.hit_rate),
    ] {
        c.opt(name, value);
    }
    for (name, l) in s.latencies() {
        c.opt(format!("{name}_n"), l.map(|l| l.n));
        c.opt(format!("{name}_mean_ms"), l.map(|l| l.mean_ms));
        c.opt(format!("{name}_p50_ms"), l.and_then(|l| l.p50_ms));
        c.opt(format!("{name}_p99_ms"), l.and_then(|l| l.p99_ms));
    }
    c.put("restarted", s.restarted);
    let own = s.client;
    c.opt("client_first_tokens", own.map(|c| c.first_tokens));
    c.opt("client_ttft_mean_ms", own.and_then(|c| c.ttft_mean_ms));
    c.opt("client_prompt_tokens", own.map(|c| c.prompt_tokens));
    c.opt("client_output_tokens", own.map(|c| c.output_tokens));
    c.opt("client_in_flight_mean", own.and_then(|c| c.in_flight_mean));
    Some(c)
}

/// The step that a row of `server.csv` belongs to (series, number), and what it says.
pub(crate) fn read_server(row: &Row<'_>) -> Result<((String, u32), ServerSide)> {
    let latency = |name: &str| -> Result<Option<ServerLatency>> {
        let cell = |what: &str| row.opt::<f64>(&format!("{name}_{what}"));
        let Some((n, mean_ms)) = cell("n")?.zip(cell("mean_ms")?) else { return Ok(None) };
        Ok(Some(ServerLatency { n, mean_ms, p50_ms: cell("p50_ms")?, p99_ms: cell("p99_ms")? }))
    };
    let client = match row.opt("client_first_tokens")? {
        Some(first_tokens) => Some(ClientSide {
            first_tokens,
            ttft_mean_ms: row.opt("client_ttft_mean_ms")?,
            prompt_tokens: row.get("client_prompt_tokens")?,
            output_tokens: row.get("client_output_tokens")?,
            in_flight_mean: row.opt("client_in_flight_mean")?,
        }),
        None => None,
    };
    let side = ServerSide {
        samples: row.opt("samples")?,
        seconds: row.opt("seconds")?,
        running_mean: row.opt("running_mean")?,
        running_max: row.opt("running_max")?,
        waiting_mean: row.opt("waiting_mean")?,
        waiting_max: row.opt("waiting_max")?,
        kv_mean: row.opt("kv_mean")?,
        kv_max: row.opt("kv_max")?,
        preemptions: row.opt("preemptions")?,
        finished: row.opt("finished")?,
        prompt_tokens: row.opt("prompt_tokens")?,
        generation_tokens: row.opt("generation_tokens")?,
        hit_rate: row.opt("hit_rate")?,
        ttft: latency("ttft")?,
        queue: latency("queue")?,
        prefill: latency("prefill")?,
        decode: latency("decode")?,
        itl: latency("itl")?,
        e2e: latency("e2e")?,
        client,
        restarted: row.get("restarted")?,
    };
    Ok((row.step()?, side))
}

/// The cells of a row of `metrics.csv`.
pub(crate) fn metric_cells(step: &Step, m: &MetricRow) -> Cells {
    let mut c = Cells::of(step);
    c.put("source", &m.source);
    c.put("name", &m.name);
    c.put("labels", &m.labels);
    c.put("n", m.n);
    for (name, value) in [("min", m.min), ("mean", m.mean), ("max", m.max), ("per_s", m.per_s)] {
        c.opt(name, value);
    }
    c
}

/// The step that a row of `metrics.csv` belongs to (series, number), and the row.
pub(crate) fn read_metric(row: &Row<'_>) -> Result<((String, u32), MetricRow)> {
    let metric = MetricRow {
        source: row.text("source")?.to_owned(),
        name: row.text("name")?.to_owned(),
        labels: row.text("labels")?.to_owned(),
        n: row.get("n")?,
        min: row.opt("min")?,
        mean: row.opt("mean")?,
        max: row.opt("max")?,
        per_s: row.opt("per_s")?,
    };
    Ok((row.step()?, metric))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use proptest::prelude::*;

    proptest! {
        /// Whatever the floats are that can be measured, every bit of them comes back, and what is not known stays so.
        #[test]
        fn the_servers_side_reads_back_the_same(x in any::<[Option<f64>; 6]>(), restarted: bool) {
            let x = x.map(|x| x.filter(|x| x.is_finite()).map(|x| x % 1e30));
            let (_, run) = fixture::cases().into_iter().find(|(name, _)| *name == "found").unwrap();
            let mut step = run.steps[0].clone();
            let latency = x[0].map(|mean_ms| ServerLatency { n: 3.0, mean_ms, p50_ms: x[1], p99_ms: x[2] });
            step.server = ServerSide {
                samples: Some(9), seconds: x[3], running_mean: x[4], waiting_max: x[5], hit_rate: x[0], preemptions: x[1],
                ttft: latency, e2e: latency, restarted,
                client: x[2].map(|tokens| ClientSide {
                    first_tokens: 4, ttft_mean_ms: x[3], prompt_tokens: tokens, output_tokens: 0.1 + 0.2, in_flight_mean: x[4],
                }),
                ..ServerSide::default()
            };
            let cells = server_cells(&step).unwrap();
            let ((series, number), read) = read_server(&Row::back(&cells)).unwrap();
            prop_assert_eq!((&series, number, read), (&step.series, step.step, step.server));
            let row = MetricRow {
                source: "gpu".into(), name: "a".into(), labels: "x=\"1, 2\"".into(), n: 2, min: x[0], mean: x[1], max: x[2], per_s: x[3],
            };
            let cells = metric_cells(&step, &row);
            let ((series, number), read) = read_metric(&Row::back(&cells)).unwrap();
            prop_assert_eq!((&series, number, read), (&step.series, step.step, row));
        }
    }

    #[test]
    fn a_silent_server_has_no_row() {
        let (_, run) = fixture::cases().into_iter().find(|(name, _)| *name == "found").unwrap();
        let step = Step { server: ServerSide::default(), ..run.steps[0].clone() };
        assert!(server_cells(&step).is_none());
    }
}
