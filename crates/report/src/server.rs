//! The server's own view: what it told of itself, and what its counters say of every step.

use super::charts::{preempted, thousands};
use super::escape::{clip, markdown};
use super::replicas::at_the_answer;
use super::tables::{self, UNKNOWN, number, percent};
use super::words;
use goodput_run::rundir::Run;
use goodput_stats::search::answer::Answer;
use goodput_stats::server::facts::Facts;
use goodput_stats::stats::server::{gpu_use, gpu_watts};
use goodput_stats::stats::step::{ClientSide, MetricRow, ServerLatency, Step, Verdict};
use std::collections::BTreeMap;

/// So many series of `[[metrics]]` are shown at most.
const MOST: usize = 40;

/// Everything that is known from the server's side; empty where nothing is.
pub(super) fn section(run: &Run) -> String {
    let parts = [gauges(run), latencies(run), agreement(run), gpus(run), series(run)];
    parts.into_iter().filter(|p| !p.is_empty()).collect::<Vec<_>>().join("\n")
}

/// What the server says of the step of an answer, and of the lowest that is shown to fail: its queue, its KV cache, preemptions, and its
/// GPUs; `None` where it says nothing.
pub(super) fn in_short(run: &Run, a: &Answer) -> Option<String> {
    let met = at_the_answer(run, |s| s.server.kv_max.is_some() || s.server.waiting_max.is_some());
    let failed = a.goodput.failed.and_then(|f| run.step_at(a, f, Verdict::Fails));
    let both = [met, failed.filter(|f| met.is_none_or(|m| m.step != f.step))];
    let said: Vec<String> = both.into_iter().flatten().filter_map(step_in_short).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

/// `at 30 req/s at most 4 waiting, KV cache up to 83 %, 12 preemptions, 2 GPUs 91 % busy, 540 W`.
fn step_in_short(s: &Step) -> Option<String> {
    let v = &s.server;
    let (used, watts) = (gpu_use(&s.metrics), gpu_watts(&s.metrics));
    let parts = [
        v.waiting_max.map(|n| format!("at most {} waiting", thousands(n))),
        v.kv_max.map(|share| format!("KV cache up to {}", percent(Some(share)))),
        v.preemptions.map(|n| {
            format!("{} {}", thousands(n), if (n - 1.0).abs() < 0.5 { "preemption" } else { "preemptions" })
        }),
        used.map(|(share, n)| {
            let gpus = if n == 1 { "the GPU".into() } else { format!("{n} GPUs") };
            format!("{gpus} {} busy", percent(Some(share)))
        }),
        watts.map(|w| format!("{} W", thousands(w))),
    ];
    let said: Vec<String> = parts.into_iter().flatten().collect();
    (!said.is_empty()).then(|| format!("at {} {}", words::step_level(s), said.join(", ")))
}

/// What the server is: what it told, and what the plan declares.
pub(super) fn facts(run: &Run) -> String {
    let mut out: String = run.meta.facts.iter().map(|f| told(f, run.meta.facts.len() > 1)).collect();
    for variant in run.meta.variants.iter().filter(|v| !v.facts.is_empty()) {
        out.push_str(&format!("\n{}:\n\n", markdown(&clip(&variant.name, 60))));
        out.extend(variant.facts.iter().map(|f| told(f, variant.facts.len() > 1)));
    }
    if !run.meta.environment.is_empty() {
        out.push_str("\nDeclared by the plan:\n\n");
        for (key, value) in &run.meta.environment {
            out.push_str(&format!("- {}: {}\n", markdown(&clip(key, 60)), markdown(&clip(value, 500))));
        }
    }
    out.trim_start().to_owned()
}

fn told(f: &Facts, several: bool) -> String {
    let mut lines: Vec<(&str, String)> = Vec::new();
    if several && !f.servers.is_empty() {
        lines.push(("servers", f.servers.join(", ")));
    }
    let engine = f.engine.map(|e| e.title().to_owned());
    let engine = [engine, f.version.clone()].into_iter().flatten().collect::<Vec<_>>().join(" ");
    lines.push(("engine", engine));
    lines.push(("model", f.model.clone().unwrap_or_default()));
    lines.push((
        "longest context",
        f.max_model_len.map(|n| format!("{} tokens", thousands(f64::from(n)))).unwrap_or_default(),
    ));
    lines.push(("engines", f.engines.filter(|n| *n > 1).map(|n| n.to_string()).unwrap_or_default()));
    let flags: Vec<String> = f.flags.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    lines.push(("settings", flags.join(", ")));
    lines.push(("metrics", f.metrics.clone()));
    let known = lines.into_iter().filter(|(_, text)| !text.is_empty());
    known.map(|(name, text)| format!("- {name}: {}\n", markdown(&clip(&text, 1500)))).collect::<String>()
        + "\n"
}

/// The steps of which `tells` holds.
fn known(run: &Run, tells: impl Fn(&Step) -> bool) -> Vec<&Step> {
    run.steps.iter().filter(|s| tells(s)).collect()
}

/// Queue, cache and what was preempted.
fn gauges(run: &Run) -> String {
    let head = [
        "#",
        "level",
        "running",
        "waiting",
        "most waiting",
        "KV cache",
        "most used",
        "preemptions",
        "% of requests",
        "prefix cache hits",
    ];
    let row = |s: &&Step| {
        let v = s.server;
        vec![
            tables::number_of(s),
            tables::name(run, s),
            number(v.running_mean),
            number(v.waiting_mean),
            number(v.waiting_max),
            percent(v.kv_mean),
            percent(v.kv_max),
            v.preemptions.map_or(UNKNOWN.into(), thousands),
            percent(preempted(s)),
            percent(v.hit_rate),
        ]
    };
    let rows: Vec<Vec<String>> = known(run, |s| s.server.is_known()).iter().map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    format!(
        "Means and largest values of samples within the measured window; preemptions between the readings nearest to its ends.\n\n{}",
        tables::table(&head, &["level"], rows)
    )
}

/// Where a request's time goes, by the server's own clock.
fn latencies(run: &Run) -> String {
    let steps = known(run, |s| s.server.latencies().iter().any(|(_, l)| l.is_some()));
    let head =
        ["#", "level", "TTFT", "p99", "queue", "p99", "prefill", "decode", "per token", "e2e", "requests"];
    let row = |s: &&Step| {
        let v = &s.server;
        let mean = |l: Option<ServerLatency>| number(l.map(|l| l.mean_ms));
        let p99 = |l: Option<ServerLatency>| number(l.and_then(|l| l.p99_ms));
        vec![
            tables::number_of(s),
            tables::name(run, s),
            mean(v.ttft),
            p99(v.ttft),
            mean(v.queue),
            p99(v.queue),
            mean(v.prefill),
            mean(v.decode),
            mean(v.itl),
            mean(v.e2e),
            v.finished.or(v.e2e.map(|e| e.n)).map_or(UNKNOWN.into(), thousands),
        ]
    };
    let table = tables::table(&head, &["level"], steps.iter().map(row).collect());
    if table.is_empty() {
        return table;
    }
    format!(
        "By the server's own clock, milliseconds. Means are exact; p99s are read off its buckets and as coarse as these. Its TTFT counts from \
         a request's arrival there, its queue included.\n\n{table}"
    )
}

/// The client's figures beside the server's, over the same time.
fn agreement(run: &Run) -> String {
    let head = [
        "#",
        "level",
        "TTFT of the client",
        "of the server",
        "in flight",
        "in the server",
        "output tokens",
        "by the server",
        "prompt tokens",
        "by the server",
    ];
    let row = |(s, c): (&Step, ClientSide)| {
        let v = &s.server;
        let count = |n: Option<f64>| n.map_or(UNKNOWN.into(), thousands);
        vec![
            tables::number_of(s),
            tables::name(run, s),
            number(c.ttft_mean_ms),
            number(v.ttft.map(|t| t.mean_ms)),
            number(c.in_flight_mean),
            number(v.running_mean.zip(v.waiting_mean).map(|(r, w)| r + w)),
            count(Some(c.output_tokens)),
            count(v.generation_tokens),
            count(Some(c.prompt_tokens)),
            count(v.prompt_tokens),
        ]
    };
    let both = run.steps.iter().filter_map(|s| Some((s, s.server.client?)));
    let table = tables::table(&head, &["level"], both.map(row).collect());
    if table.is_empty() {
        return table;
    }
    format!(
        "The client against the server between the same two readings: mean TTFT in milliseconds (from *sent*), mean requests, tokens. What is \
         too far apart is told among the caveats.\n\n{table}"
    )
}

/// Use and power of GPUs, where `[[metrics]]` names a page that has them.
fn gpus(run: &Run) -> String {
    let steps = known(run, |s| gpu_use(&s.metrics).is_some() || gpu_watts(&s.metrics).is_some());
    let head = ["#", "level", "GPUs", "mean use", "power of all, W", "output tokens/J"];
    let row = |s: &&Step| {
        let (used, watts) = (gpu_use(&s.metrics), gpu_watts(&s.metrics));
        vec![
            tables::number_of(s),
            tables::name(run, s),
            used.map_or(UNKNOWN.into(), |(_, n)| n.to_string()),
            percent(used.map(|(share, _)| share)),
            number(watts),
            number(watts.filter(|w| *w > 0.0).map(|w| s.output_tokens_per_s / w)),
        ]
    };
    tables::table(&head, &["level"], steps.iter().map(row).collect())
}

/// The series of `[[metrics]]`, each over all steps; every step stands in `metrics.csv`.
fn series(run: &Run) -> String {
    type Key<'a> = (&'a str, &'a str, &'a str);
    let mut all: BTreeMap<Key<'_>, Vec<&MetricRow>> = BTreeMap::new();
    for m in run.steps.iter().flat_map(|s| &s.metrics) {
        all.entry((&m.source, &m.name, &m.labels)).or_default().push(m);
    }
    let fold = |rows: &[&MetricRow], of: fn(&MetricRow) -> Option<f64>, pick: fn(f64, f64) -> f64| {
        rows.iter().filter_map(|m| of(m)).reduce(pick)
    };
    let rows: Vec<Vec<String>> = all
        .iter()
        .take(MOST)
        .map(|((source, name, labels), rows)| {
            vec![
                markdown(&clip(source, 40)),
                markdown(&clip(name, 60)),
                markdown(&clip(labels, 80)),
                number(fold(rows, |m| m.min, f64::min)),
                number(fold(rows, |m| m.mean, f64::max)),
                number(fold(rows, |m| m.max, f64::max)),
                number(fold(rows, |m| m.per_s, f64::max)),
            ]
        })
        .collect();
    let left = all.len().saturating_sub(MOST);
    let left = if left > 0 { format!(" {left} series are left out.") } else { String::new() };
    let head = ["page", "series", "labels", "least", "highest mean", "most", "highest growth/s"];
    let table = tables::table(&head, &["page", "series", "labels"], rows);
    if table.is_empty() {
        return table;
    }
    format!("The series of `[[metrics]]` over all steps; metrics.csv has every step.{left}\n\n{table}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_run::fixture;

    #[test]
    fn the_server_has_its_say() {
        let mut run = fixture::served();
        run.steps.truncate(2);
        insta::assert_snapshot!(section(&run), @r#"
        Means and largest values of samples within the measured window; preemptions between the readings nearest to its ends.

        | # | level | running | waiting | most waiting | KV cache | most used | preemptions | % of requests | prefix cache hits |
        | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
        | 1 | 5 req/s | 0.976 | 0 | 0 | 7.3 % | 11 % | 0 | 0 % | 12.5 % |
        | 2 | 10 req/s | 1.95 | 0 | 0 | 14.6 % | 22 % | 0 | 0 % | 12.5 % |

        By the server's own clock, milliseconds. Means are exact; p99s are read off its buckets and as coarse as these. Its TTFT counts from a request's arrival there, its queue included.

        | # | level | TTFT | p99 | queue | p99 | prefill | decode | per token | e2e | requests |
        | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
        | 1 | 5 req/s | 18 | 54 | 1 | 3 | 16 | 180 | 6 | 200 | 600 |
        | 2 | 10 req/s | 18 | 54 | 1 | 3 | 16 | 180 | 6 | 200 | 1,200 |

        The client against the server between the same two readings: mean TTFT in milliseconds (from *sent*), mean requests, tokens. What is too far apart is told among the caveats.

        | # | level | TTFT of the client | of the server | in flight | in the server | output tokens | by the server | prompt tokens | by the server |
        | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
        | 1 | 5 req/s | 19 | 18 | 1.01 | 0.976 | 17,964 | 17,964 | 359,280 | 359,280 |
        | 2 | 10 req/s | 19 | 18 | 2.02 | 1.95 | 35,928 | 35,928 | 718,560 | 718,560 |

        | # | level | GPUs | mean use | power of all, W | output tokens/J |
        | ---: | --- | ---: | ---: | ---: | ---: |
        | 1 | 5 req/s | 2 | 11.6 % | 229 | 0.654 |
        | 2 | 10 req/s | 2 | 23.2 % | 278 | 1.08 |

        The series of `[[metrics]]` over all steps; metrics.csv has every step.

        | page | series | labels | least | highest mean | most | highest growth/s |
        | --- | --- | --- | ---: | ---: | ---: | ---: |
        | gpus | DCGM_FI_DEV_GPU_UTIL | gpu="0" | 5.79 | 23.2 | 27.8 | – |
        | gpus | DCGM_FI_DEV_GPU_UTIL | gpu="1" | 5.79 | 23.2 | 27.8 | – |
        | gpus | DCGM_FI_DEV_POWER_USAGE | gpu="0" | 57.2 | 139 | 167 | – |
        | gpus | DCGM_FI_DEV_POWER_USAGE | gpu="1" | 57.2 | 139 | 167 | – |
        "#);
        let facts = facts(&run);
        for want in [
            "- engine: vLLM 0.32.0",
            "4,096 tokens",
            "block_size = 16, max_num_seqs = 64",
            "/metrics every 1s",
            "- driver: 560.35",
            "--api-key",
        ] {
            assert!(facts.contains(want), "{want}: {facts}");
        }
    }

    #[test]
    fn a_silent_server_has_no_section() {
        let mut run = fixture::found();
        assert_eq!((section(&run), facts(&run)), (String::new(), String::new()));
        let silent = Facts { metrics: "none: GET /metrics: HTTP 404".into(), ..Facts::default() };
        run.meta.facts.push(silent);
        assert_eq!(facts(&run), "- metrics: none: GET /metrics: HTTP 404\n\n");
    }
}
