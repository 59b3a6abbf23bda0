//! Measured latencies compared with the lower bounds of the hardware, in words and as a table.

use crate::document::{Block, Cell, Column, Field, Table, Text, emphasis, plain, strong};
use crate::escape::clip;
use crate::words::{self, percent};
use goodput_run::rundir::Run;
use goodput_stats::diagnosis::{Measured, Reading, Roofline};
use goodput_stats::roofline::{Decode, Prefill};

/// Returns a line for the terminal for each series with a `[model]`.
pub(super) fn lines(run: &Run) -> Vec<String> {
    run.why.roofline.iter().filter_map(|r| line(run, r)).collect()
}

/// Returns one request alone compared with its floor, and the goodput compared with its bound.
fn line(run: &Run, r: &Roofline) -> Option<String> {
    let several = run.why.roofline.len() > 1;
    let whose = if several { format!(" of {}", clip(&r.series, 40)) } else { String::new() };
    let first = r.decode.first()?;
    let beside = |m: &Measured<Decode>| {
        let who = if m.alone {
            "one request alone".to_owned()
        } else {
            format!("{} at a time", words::figure(m.floor.batch))
        };
        let (measured, least) = (words::latency(m.measured_ms), words::latency(m.floor.floor_ms));
        format!("{who} {measured}, {} × the least of {least} (step {})", words::figure(m.ratio), m.step)
    };
    let all: Vec<String> = r.decode.iter().map(beside).collect();
    let first = says(r, first.reading, first.ratio, first.alone, true);
    Some(format!("TPOT{whose} against memory bandwidth: {}. Alone it is {first}.", all.join("; ")))
}

/// Returns `A token takes 5.9 ms for one request alone (step 1), 3.2 times what reading …`.
fn decode(r: &Roofline, m: &Measured<Decode>) -> String {
    let when = if m.alone {
        format!("for one request alone (step {})", m.step)
    } else {
        format!("with {} at a time (step {})", words::figure(m.floor.batch), m.step)
    };
    let what = if m.floor.kv_ms.is_some() { "weights and KV cache" } else { "the weights" };
    format!(
        "A token takes {} {when}, {} times the least that reading {what} allows ({}): {}.",
        words::latency(m.measured_ms),
        words::figure(m.ratio),
        words::latency(m.floor.floor_ms),
        says(r, m.reading, m.ratio, m.alone, true)
    )
}

/// Returns the interpretation of a ratio, for use within a sentence.
fn says(r: &Roofline, reading: Reading, ratio: f64, alone: bool, decode: bool) -> String {
    let share = percent((100.0 / ratio).round() / 100.0);
    match reading {
        Reading::BelowFloor => "faster than can be, so that what was served is not what [hardware] and [model] declare, or several tokens are \
                                written at a time (speculative decoding)"
            .into(),
        Reading::MemoryBound => format!("bound by memory, of whose bandwidth it uses {share}; a good engine comes to about 72 %"),
        Reading::ComputeBound => format!("bound by computing, of whose peak it uses {share}"),
        Reading::Above if alone => {
            let gpus = if r.machine.tensor_parallel > 1 { ", GPUs that wait for one another" } else { "" };
            let what = if decode { "sampling" } else { "waiting for the iteration to begin" };
            format!("mostly something else: look at kernels launched one by one, the host's work, {what}{gpus}")
        }
        Reading::Above => match r.prefill_share {
            Some(share) if share > 0.05 => format!(
                "mostly something else: reading prompts alone takes {} of the time at this rate at the least, and delays the tokens of others",
                percent((share * 100.0).round() / 100.0)
            ),
            _ => "mostly something else: look at prompts that are read in between, the host's work and sampling".into(),
        },
    }
}

/// Returns the blocks of the section of the report; empty if the plan has no `[model]`.
pub(super) fn section(run: &Run) -> Vec<Block> {
    let several = run.why.roofline.len() > 1;
    run.why.roofline.iter().flat_map(|r| of_series(r, several)).collect()
}

fn of_series(r: &Roofline, several: bool) -> Vec<Block> {
    let mut blocks = Vec::new();
    if several {
        blocks.push(Block::paragraph(strong(clip(&r.series, 40))));
    }
    blocks.push(Block::paragraph(hardware(r)));
    blocks.extend(r.too_large_gb.map(|over| {
        Block::paragraph(format!(
            "The weights are {} GB more than the memory of these GPUs: what [hardware] and [model] declare cannot be all of it.",
            words::figure(over)
        ))
    }));
    blocks.push(table(r).into());
    let mut said: Vec<Text> = r.decode.iter().map(|d| decode(r, d).into()).collect();
    said.extend(r.prefill.as_ref().map(|p| prefill(r, p).into()));
    blocks.push(Block::List(said));
    blocks.push(Block::Paragraph(Text::of([
        emphasis("Least"),
        plain(
            ": the longer of reading memory (the weights once for all sequences of the batch, and the keys and values of each) and computing \
             (two operations for each parameter and token). Attention's own products, launching kernels, sampling and communication only add \
             to it.",
        ),
    ])));
    blocks
}

/// Returns the limits of the hardware and the model.
fn hardware(r: &Roofline) -> String {
    let m = &r.machine;
    let gpus =
        if m.tensor_parallel > 1 { format!("{} GPUs, each with ", m.tensor_parallel) } else { String::new() };
    let rate = m.tflop_s.map(|t| format!(" and {} TFLOP/s", words::figure(t))).unwrap_or_default();
    let active = r
        .active_gb
        .map(|gb| format!(", of which a token goes through {} GB", words::figure(gb)))
        .unwrap_or_default();
    let kv = r
        .kv_bytes_per_token
        .map(|b| format!("; a token leaves {} KiB in the KV cache", words::figure(b / 1024.0)))
        .unwrap_or_default();
    format!(
        "{gpus}{} GB/s{rate} ({}); {} GB of weights{active}{kv}. Reading the weights once takes {}: no single request can be written faster than \
         {} tokens/s.",
        words::figure(m.bandwidth_gb_s),
        m.source,
        words::figure(r.weights_gb),
        words::latency(r.least_tpot_ms),
        words::figure(1e3 / r.least_tpot_ms)
    )
}

/// A measured latency compared with its floor.
struct FloorRow {
    what: String,
    step: u32,
    measured_ms: f64,
    weights_ms: f64,
    kv_ms: Option<f64>,
    compute_ms: Option<f64>,
    floor_ms: f64,
    ratio: f64,
}

impl FloorRow {
    fn of_decode(m: &Measured<Decode>) -> Self {
        let f = &m.floor;
        let context = words::figure(f.context.round());
        let what = if m.alone {
            format!("TPOT, one request alone, {context} tokens of context")
        } else {
            format!("TPOT, {} sequences, {context} tokens of context each", words::figure(f.batch))
        };
        Self {
            what,
            step: m.step,
            measured_ms: m.measured_ms,
            weights_ms: f.weights_ms,
            kv_ms: f.kv_ms,
            compute_ms: f.compute_ms,
            floor_ms: f.floor_ms,
            ratio: m.ratio,
        }
    }

    fn of_prefill(m: &Measured<Prefill>) -> Self {
        let f = &m.floor;
        Self {
            what: format!("TTFT, one request alone, {} tokens to read", words::figure(f.tokens.round())),
            step: m.step,
            measured_ms: m.measured_ms,
            weights_ms: f.weights_ms,
            kv_ms: None,
            compute_ms: f.compute_ms,
            floor_ms: f.floor_ms,
            ratio: m.ratio,
        }
    }
}

fn table(r: &Roofline) -> Table {
    let number = |head: &str, of: fn(&FloorRow) -> Option<f64>| {
        Field::new(Column::number(head), move |r: &FloorRow| of(r).map_or(Cell::Unknown, Cell::Number))
    };
    let fields = vec![
        Field::new(Column::text("what"), |r: &FloorRow| Cell::text(r.what.as_str())),
        Field::new(Column::number("step"), |r: &FloorRow| Cell::figure(r.step.to_string(), None)),
        number("measured, p50 ms", |r| Some(r.measured_ms)),
        number("weights ms", |r| Some(r.weights_ms)),
        number("KV cache ms", |r| r.kv_ms),
        number("computing ms", |r| r.compute_ms),
        number("least ms", |r| Some(r.floor_ms)),
        number("measured / least", |r| Some(r.ratio)),
    ];
    let mut rows: Vec<FloorRow> = r.decode.iter().map(FloorRow::of_decode).collect();
    rows.extend(r.prefill.as_ref().map(FloorRow::of_prefill));
    Table::of(fields, &rows)
}

fn prefill(r: &Roofline, m: &Measured<Prefill>) -> String {
    format!(
        "The first token takes {} for one request alone (step {}), {} times the least that reading {} tokens allows ({}): {}.",
        words::latency(m.measured_ms),
        m.step,
        words::figure(m.ratio),
        words::figure(m.floor.tokens.round()),
        words::latency(m.floor.floor_ms),
        says(r, m.reading, m.ratio, true, false)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::markdown::blocks;
    use goodput_run::fixture;
    use goodput_run::rundir::Why;
    use goodput_stats::diagnosis::Curve;
    use goodput_stats::roofline::{Machine, Model};

    fn run(model: &str, gpu: &str) -> Run {
        let run = fixture::adaptive();
        let model: Model = toml::from_str(model).unwrap();
        let machine = Machine::of(Some(gpu), None, None, 1, &model).unwrap();
        let curve = Curve { series: "main".into(), hardware: Some((machine, model)), ..Curve::default() };
        let at = run.steps.iter().rfind(|s| s.stable == Some(true));
        let roofline = Roofline::of(&curve, &run.steps, at).into_iter().collect();
        Run { why: Why { roofline, ..Why::default() }, ..run }
    }

    #[test]
    fn what_was_measured_is_held_against_the_least() {
        let qwen = "parameters = \"0.6B\"\nprecision = \"bf16\"\nlayers = 28\nkv-heads = 8\nhead-size = 128";
        let of = run(qwen, "A40");
        let line = lines(&of).remove(0);
        assert!(line.contains("one request alone 5.5 ms, 3.01 × the least of 1.83 ms (step 1); "), "{line}");
        assert!(line.contains("something else"), "{line}");
        let section = blocks(&section(&of), 3);
        assert!(
            section.contains("696 GB/s and 150 TFLOP/s (data sheet of the A40); 1.2 GB of weights"),
            "{section}"
        );
        assert!(section.contains("112 KiB") && section.contains("faster than 580 tokens/s"), "{section}");
        let cells: Vec<usize> =
            section.lines().filter(|l| l.starts_with('|')).map(|l| l.matches('|').count()).collect();
        assert!(cells.len() == 5 && cells.windows(2).all(|w| w[0] == w[1]), "{section}");
    }

    #[test]
    fn bounds_and_contradictions_are_named() {
        let small = lines(&run("parameters = \"1.6B\"\nprecision = \"bf16\"", "A40")).remove(0);
        assert!(small.contains("bound by memory, of whose bandwidth it uses 84 %"), "{small}");
        let large = run("parameters = \"70B\"\nprecision = \"bf16\"", "A40");
        assert!(lines(&large)[0].contains("faster than can be"), "{:?}", lines(&large));
        let text = blocks(&section(&large), 3);
        assert!(text.contains("92 GB more than the memory"), "{text}");
        assert!(lines(&fixture::found()).is_empty() && section(&fixture::found()).is_empty(), "no [model]");
    }
}
