//! The server's view: the facts it reports, and its metrics for every step.

use super::at_the_answer::at_the_answer;
use super::cells::step_table;
use crate::document::{Block, Cell, Column, Field, Table, Text, code, emphasis, plain};
use crate::escape::clip;
use crate::words::{self, percent};
use goodput_core::units::thousands;
use goodput_run::rundir::Run;
use goodput_stats::search::answer::Answer;
use goodput_stats::server::facts::Facts;
use goodput_stats::stats::gpu::{gpu_use, gpu_watts};
use goodput_stats::stats::step::{ClientSide, MetricRow, ServerLatency, Step, Verdict};
use std::collections::BTreeMap;

/// Maximum number of `[[metrics]]` series shown.
const MOST: usize = 40;

/// Returns all data from the server's side; empty if there is none.
pub(super) fn section(run: &Run) -> Vec<Block> {
    let parts = [gauges(run), drafting(run), latencies(run), agreement(run), gpus(run), series(run)];
    parts.concat()
}

/// Returns the server's metrics at the step of an answer and at the lowest step shown to fail: its queue, its KV cache,
/// preemptions, and its GPUs; `None` if there are none.
pub(super) fn in_short(run: &Run, a: &Answer) -> Option<String> {
    let met = at_the_answer(run, |s| s.server.kv_max.is_some() || s.server.waiting_max.is_some());
    let failed = a.goodput.bracket.failed.and_then(|f| run.step_at(a, f, Verdict::Fails));
    let both = [met, failed.filter(|f| met.is_none_or(|m| m.step != f.step))];
    let said: Vec<String> = both.into_iter().flatten().filter_map(step_in_short).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

/// Returns `at 30 req/s at most 4 waiting, KV cache up to 83 %, 12 preemptions, 2 GPUs 91 % busy, 540 W`.
fn step_in_short(s: &Step) -> Option<String> {
    let v = &s.server;
    let (used, watts) = (gpu_use(&s.metrics), gpu_watts(&s.metrics));
    let parts = [
        v.waiting_max.map(|n| format!("at most {} waiting", thousands(n))),
        v.kv_max.map(|share| format!("KV cache up to {}", percent(share))),
        v.preemptions.map(|n| {
            format!("{} {}", thousands(n), if (n - 1.0).abs() < 0.5 { "preemption" } else { "preemptions" })
        }),
        used.map(|(share, n)| {
            let gpus = if n == 1 { "the GPU".into() } else { format!("{n} GPUs") };
            format!("{gpus} {} busy", percent(share))
        }),
        watts.map(|w| format!("{} W", thousands(w))),
    ];
    let said: Vec<String> = parts.into_iter().flatten().collect();
    (!said.is_empty()).then(|| format!("at {} {}", words::step_level(s), said.join(", ")))
}

/// Returns the facts about the server: those it reported, and those that the plan declares.
pub(super) fn facts(run: &Run) -> Vec<Block> {
    let mut blocks: Vec<Block> =
        run.meta.facts.iter().map(|f| facts_of(f, run.meta.facts.len() > 1)).collect();
    for variant in run.meta.variants.iter().filter(|v| !v.facts.is_empty()) {
        blocks.push(Block::paragraph(format!("{}:", clip(&variant.name, 60))));
        blocks.extend(variant.facts.iter().map(|f| facts_of(f, variant.facts.len() > 1)));
    }
    if !run.meta.environment.is_empty() {
        blocks.push(Block::paragraph("Declared by the plan:"));
        let declared = run.meta.environment.iter();
        blocks.push(Block::facts(declared.map(|(key, value)| (clip(key, 60), clip(value, 500)))));
    }
    blocks
}

fn facts_of(f: &Facts, several: bool) -> Block {
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
    Block::facts(known.map(|(name, text)| (name, clip(&text, 1500))))
}

/// Returns a table of the steps for which `tells` is true, below its explanation; nothing if there is no such step.
fn table<'s>(
    run: &'s Run,
    tells: fn(&Step) -> bool,
    caption: &str,
    said: impl Into<Text>,
    fields: Vec<Field<'s, &'s Step>>,
) -> Vec<Block> {
    let steps: Vec<&Step> = run.steps.iter().filter(|s| tells(s)).collect();
    if steps.is_empty() {
        return Vec::new();
    }
    vec![Block::paragraph(said), step_table(run, &steps, fields).captioned(caption).into()]
}

fn field<'s>(head: &str, of: fn(&Step) -> Cell) -> Field<'s, &'s Step> {
    Field::new(Column::number(head), move |s: &&Step| of(s))
}

/// Returns queue, cache and preemptions.
fn gauges(run: &Run) -> Vec<Block> {
    let fields = vec![
        field("running", |s| Cell::number(s.server.running_mean)),
        field("waiting", |s| Cell::number(s.server.waiting_mean)),
        field("most waiting", |s| Cell::number(s.server.waiting_max)),
        field("KV cache", |s| Cell::share(s.server.kv_mean)),
        field("most used", |s| Cell::share(s.server.kv_max)),
        field("preemptions", |s| Cell::count(s.server.preemptions)),
        field("% of requests", |s| Cell::share(words::preempted(s))),
        field("prefix cache hits", |s| Cell::share(s.server.hit_rate)),
    ];
    let said = "Means and largest values of samples within the measured window; preemptions between the readings nearest to its ends.";
    table(run, |s| s.server.is_known(), "Queue, cache and preemptions", said, fields)
}

/// Returns the drafted and accepted tokens of speculative decoding.
fn drafting(run: &Run) -> Vec<Block> {
    let fields = vec![
        field("drafted", |s| Cell::number(s.server.drafted_mean)),
        field("accepted", |s| Cell::number(s.server.accepted_mean)),
        field("share", |s| {
            let drafted = s.server.drafted_mean.filter(|n| *n > 0.0);
            Cell::share(s.server.accepted_mean.zip(drafted).map(|(accepted, drafted)| accepted / drafted))
        }),
        field("tokens of an iteration", |s| Cell::number(s.server.accepted_mean.map(|n| n + 1.0))),
    ];
    let said = "Speculative decoding: tokens drafted before each check by the model, and those of them that it accepted. An iteration writes \
                these and one of its own.";
    table(run, |s| s.server.accepted_mean.is_some(), "Drafted and accepted tokens", said, fields)
}

/// Returns the phases of a request's latency, by the server's clock.
fn latencies(run: &Run) -> Vec<Block> {
    let mean = |head: &str, of: fn(&Step) -> Option<ServerLatency>| {
        Field::new(Column::number(head), move |s: &&Step| Cell::number(of(s).map(|l| l.mean_ms)))
    };
    let p99 = |of: fn(&Step) -> Option<ServerLatency>| {
        Field::new(Column::number("p99"), move |s: &&Step| Cell::number(of(s).and_then(|l| l.p99_ms)))
    };
    let item = run.result_item();
    let mut fields = vec![
        mean("queue", |s| s.server.queue),
        p99(|s| s.server.queue),
        mean("prefill", |s| s.server.prefill),
    ];
    // Items have neither a first token nor a pace, although servers count their end as both.
    if item.is_none() {
        fields.splice(0..0, [mean("TTFT", |s| s.server.ttft), p99(|s| s.server.ttft)]);
        fields.extend([mean("decode", |s| s.server.decode), mean("per token", |s| s.server.itl)]);
    }
    fields.push(mean("e2e", |s| s.server.e2e));
    fields.push(field("requests", |s| Cell::count(s.server.finished.or(s.server.e2e.map(|e| e.n)))));
    let clock = "By the server's own clock, milliseconds. Means are exact; p99s are read off its buckets and as coarse as these.";
    let said = match item {
        None => format!(
            "{clock} Its TTFT counts from a request's arrival there, its queue included.{}",
            of_choices(run)
        ),
        Some(item) => format!("{clock} vLLM counts each {} as a request of its own.", item.name()),
    };
    table(
        run,
        |s| s.server.latencies().iter().any(Option::is_some),
        "Latencies by the server's own clock",
        said,
        fields,
    )
}

/// Returns a sentence on what servers count, if requests asked for several choices.
fn of_choices(run: &Run) -> &'static str {
    if run.has_choices() { " Servers such as vLLM count each choice as a request of its own." } else { "" }
}

/// Returns the client's figures next to the server's, over one time span.
fn agreement(run: &Run) -> Vec<Block> {
    let of_client = |head: &str, cell: fn(&ClientSide) -> Cell| {
        Field::new(Column::number(head), move |s: &&Step| {
            s.server.client.as_ref().map_or(Cell::Unknown, cell)
        })
    };
    let has_tokens = run.result_item().is_none();
    let ttft = [
        of_client("TTFT of the client", |c| Cell::number(c.ttft_mean_ms)),
        field("of the server", |s| Cell::number(s.server.ttft.map(|t| t.mean_ms))),
    ];
    let output = [
        of_client("output tokens", |c| Cell::Count(c.output_tokens)),
        field("by the server", |s| Cell::count(s.server.generation_tokens)),
    ];
    let requests = [
        of_client("in flight", |c| Cell::number(c.in_flight_mean)),
        field("in the server", |s| {
            Cell::number(s.server.running_mean.zip(s.server.waiting_mean).map(|(r, w)| r + w))
        }),
    ];
    let prompts = [
        of_client("prompt tokens", |c| Cell::Count(c.prompt_tokens)),
        field("by the server", |s| Cell::count(s.server.prompt_tokens)),
    ];
    let mut fields: Vec<_> = requests.into();
    if has_tokens {
        fields.splice(0..0, ttft);
        fields.extend(output);
    }
    fields.extend(prompts);
    let ends = "mean requests, tokens. What is too far apart is told among the caveats.";
    let between = "The client against the server between the same two readings:";
    let said = match has_tokens {
        true => Text::of([
            plain(format!("{between} mean TTFT in milliseconds (from ")),
            emphasis("sent"),
            plain(format!("), {ends}{}", of_choices(run))),
        ]),
        false => Text::of([plain(format!("{between} {ends}"))]),
    };
    table(run, |s| s.server.client.is_some(), "The client against the server", said, fields)
}

/// Returns use and power of GPUs, if `[[metrics]]` names a page that has them.
fn gpus(run: &Run) -> Vec<Block> {
    let tells = |s: &&Step| gpu_use(&s.metrics).is_some() || gpu_watts(&s.metrics).is_some();
    let steps: Vec<&Step> = run.steps.iter().filter(tells).collect();
    let fields = vec![
        field("GPUs", |s| {
            gpu_use(&s.metrics).map_or(Cell::Unknown, |(_, n)| Cell::figure(n.to_string(), Some(n as f64)))
        }),
        field("mean use", |s| Cell::share(gpu_use(&s.metrics).map(|(share, _)| share))),
        field("power of all, W", |s| Cell::number(gpu_watts(&s.metrics))),
        field("output tokens/J", |s| {
            Cell::number(gpu_watts(&s.metrics).filter(|w| *w > 0.0).map(|w| s.output_tokens_per_s / w))
        }),
    ];
    vec![step_table(run, &steps, fields).captioned("Use and power of GPUs").into()]
}

/// A series of `[[metrics]]` over all steps.
struct Series<'a> {
    page: &'a str,
    name: &'a str,
    labels: &'a str,
    rows: Vec<&'a MetricRow>,
}

impl Series<'_> {
    fn over(&self, of: fn(&MetricRow) -> Option<f64>, pick: fn(f64, f64) -> f64) -> Cell {
        Cell::number(self.rows.iter().filter_map(|m| of(m)).reduce(pick))
    }
}

/// Returns the series of `[[metrics]]`, each over all steps; `metrics.csv` has every step.
fn series(run: &Run) -> Vec<Block> {
    type Key<'a> = (&'a str, &'a str, &'a str);
    let mut all: BTreeMap<Key<'_>, Vec<&MetricRow>> = BTreeMap::new();
    for m in run.steps.iter().flat_map(|s| &s.metrics) {
        all.entry((&m.source, &m.name, &m.labels)).or_default().push(m);
    }
    if all.is_empty() {
        return Vec::new();
    }
    let left = all.len().saturating_sub(MOST);
    let shown: Vec<Series<'_>> = all
        .into_iter()
        .take(MOST)
        .map(|((page, name, labels), rows)| Series { page, name, labels, rows })
        .collect();
    let fields = vec![
        Field::new(Column::text("page"), |s: &Series<'_>| Cell::text(clip(s.page, 40))),
        Field::new(Column::text("series"), |s: &Series<'_>| Cell::text(clip(s.name, 60))),
        Field::new(Column::text("labels"), |s: &Series<'_>| Cell::text(clip(s.labels, 80))),
        Field::new(Column::number("least"), |s: &Series<'_>| s.over(|m| m.min, f64::min)),
        Field::new(Column::number("highest mean"), |s: &Series<'_>| s.over(|m| m.mean, f64::max)),
        Field::new(Column::number("most"), |s: &Series<'_>| s.over(|m| m.max, f64::max)),
        Field::new(Column::number("highest growth/s"), |s: &Series<'_>| s.over(|m| m.per_s, f64::max)),
    ];
    let left = if left > 0 { format!(" {left} series are left out.") } else { String::new() };
    let said = Text::of([
        plain("The series of "),
        code("[[metrics]]"),
        plain(format!(" over all steps; metrics.csv has every step.{left}")),
    ]);
    vec![Block::Paragraph(said), Table::of(fields, &shown).captioned("Series of [[metrics]]").into()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::markdown::blocks;
    use goodput_run::fixture;

    #[test]
    fn the_server_has_its_say() {
        let mut run = fixture::served();
        run.steps.truncate(2);
        insta::assert_snapshot!(blocks(&section(&run), 3), @r#"
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
        let facts = blocks(&facts(&run), 3);
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
    fn drafts_have_a_table_of_their_own() {
        let mut run = fixture::served();
        run.steps.truncate(1);
        (run.steps[0].server.drafted_mean, run.steps[0].server.accepted_mean) = (Some(5.0), Some(0.3));
        let section = blocks(&section(&run), 3);
        assert!(section.contains("| 1 | 5 req/s | 5 | 0.3 | 6 % | 1.3 |"), "{section}");
    }

    #[test]
    fn a_silent_server_has_no_section() {
        let mut run = fixture::found();
        assert!(section(&run).iter().chain(&facts(&run)).all(Block::is_empty));
        let silent = Facts { metrics: "none: GET /metrics: HTTP 404".into(), ..Facts::default() };
        run.meta.facts.push(silent);
        assert_eq!(blocks(&facts(&run), 3), "- metrics: none: GET /metrics: HTTP 404\n");
    }
}
