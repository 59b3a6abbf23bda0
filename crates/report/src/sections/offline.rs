//! The reports of `goodput latency` and `goodput throughput`: a table, its interpretation in words, and why it is not
//! capacity.

use super::percentiles::effective;
use crate::document::{Block, Cell, Column, Field, Section, Setting, Table, UNKNOWN, strong};
use crate::words;
use goodput_core::slo::Metric;
use goodput_plan::Purpose;
use goodput_run::rundir::Run;
use goodput_run::rundir::offline::{LevelFigures, is_burst, levels, most, shown};
use goodput_stats::stats::step::Quantiles;

/// Share of a burst's time above which its last tenth of requests counts as a long tail; about a tenth is expected.
const LONG_TAIL: f64 = 0.15;

fn number(x: Option<f64>) -> String {
    x.filter(|x| x.is_finite()).map_or(UNKNOWN.into(), words::figure)
}

fn time(ms: Option<f64>) -> String {
    ms.map_or_else(|| UNKNOWN.to_owned(), words::latency)
}

/// Formats the duration of a step for people.
fn seconds(s: f64) -> String {
    words::latency(1e3 * s)
}

/// Returns findings beyond the headline.
fn findings(run: &Run) -> Vec<String> {
    let all = levels(run);
    let Some(first) = all.first() else { return Vec::new() };
    match run.purpose {
        Purpose::Goodput | Purpose::Sensitivity => Vec::new(),
        Purpose::Latency => all.iter().filter(|l| l.in_flight <= 1.0).map(alone).collect(),
        Purpose::Throughput if is_burst(run) => vec![drained(first)],
        Purpose::Throughput => ceiling(run, &all),
    }
}

/// Returns a sentence on one request without contention.
fn alone(l: &LevelFigures) -> String {
    format!(
        "Without contention the median request has its first token after {}, then one every {}, and is whole after {}: {} output tokens \
         a second of its time.",
        time(l.quantiles(Metric::Ttft).p50),
        time(l.quantiles(Metric::Tpot).p50),
        time(l.quantiles(Metric::E2e).p50),
        number(l.tokens_per_s_of_a_request)
    )
}

/// Returns sentences on the progress of a burst, and the duration of its tail.
fn drained(l: &LevelFigures) -> String {
    let q = l.quantiles(Metric::E2e);
    let tail = q.p90.map(|p90| (1e3 * l.seconds - p90).max(0.0));
    let tail = tail.map_or_else(String::new, |tail| {
        let share = tail / (1e3 * l.seconds).max(1e-9);
        let why = if share > LONG_TAIL {
            ": as the batch drains the server has less and less to do at once"
        } else {
            ""
        };
        let percent = words::figure((1000.0 * share).round() / 10.0);
        format!(" The last tenth took {} ({percent} % of the time){why}.", words::latency(tail))
    });
    format!(
        "Half of the requests were done after {}, nine tenths after {}, the last after {}.{tail}",
        time(q.p50),
        time(q.p90),
        seconds(l.seconds)
    )
}

/// Returns where the ladder ended, and the latency at the ceiling.
fn ceiling(run: &Run, all: &[LevelFigures]) -> Vec<String> {
    let (Some(best), Some(first), Some(last)) = (most(all), all.first(), all.last()) else {
        return Vec::new();
    };
    let mut out = Vec::new();
    let wait = |l: &LevelFigures| {
        format!(
            "{} to the first token, {} a token",
            time(l.quantiles(Metric::Ttft).p50),
            time(l.quantiles(Metric::Tpot).p50)
        )
    };
    if best.in_flight > first.in_flight {
        out.push(format!(
            "There the median request takes {}; with {} in flight it takes {}.",
            wait(best),
            words::level_number(first.in_flight),
            wait(first)
        ));
    }
    let before = all.iter().rev().nth(1);
    if let Some(before) = before.filter(|_| all.len() > 1) {
        let growth =
            100.0 * (last.output_tokens_per_s / before.output_tokens_per_s.max(f64::MIN_POSITIVE) - 1.0);
        out.push(format!(
            "From {} to {} in flight output tokens/s changed by {} %{}.",
            words::level_number(before.in_flight),
            words::level_number(last.in_flight),
            words::figure((10.0 * growth).round() / 10.0),
            if growth < 5.0 {
                ": more in flight buys no more"
            } else {
                ": it still grew, so the ceiling may lie higher"
            }
        ));
    }
    if let Some([requests, tokens]) = best.per_gpu.filter(|_| run.meta.gpus.is_some_and(|n| n > 1)) {
        out.push(format!(
            "Of each GPU: {} requests/s and {} output tokens/s.",
            words::figure(requests),
            words::figure(tokens)
        ));
    }
    out
}

/// Returns the throughput of each level.
fn throughput(run: &Run, all: &[LevelFigures]) -> Table {
    let gpus = run.meta.gpus.is_some_and(|n| n > 1);
    let number = |head: &str, short: &str, of: fn(&LevelFigures) -> Option<f64>| {
        Field::new(Column::number(head).short(short), move |l: &LevelFigures| Cell::number(of(l)))
    };
    let mut fields = vec![
        Field::new(Column::number(if is_burst(run) { "at once" } else { "in flight" }), in_flight),
        Field::new(Column::number("requests"), |l: &LevelFigures| Cell::Count(l.requests as f64)),
        Field::new(Column::number("time"), |l: &LevelFigures| {
            Cell::figure(seconds(l.seconds), Some(l.seconds))
        }),
        number("requests/s", "requests/s", |l| Some(l.requests_per_s)),
        number("output tokens/s", "output\ntokens/s", |l| Some(l.output_tokens_per_s)),
        number("total tokens/s", "total\ntokens/s", |l| Some(l.total_tokens_per_s)),
    ];
    fields.extend(
        gpus.then(|| {
            number("output tokens/s per GPU", "output\ntokens/s per GPU", |l| l.per_gpu.map(|g| g[1]))
        }),
    );
    fields.extend([
        number("TTFT p50 ms", "TTFT p50\nms", |l| l.quantiles(Metric::Ttft).p50),
        number("TPOT p50 ms", "TPOT p50\nms", |l| l.quantiles(Metric::Tpot).p50),
        number("e2e p50 ms", "e2e p50\nms", |l| l.quantiles(Metric::E2e).p50),
        number("e2e p99 ms", "e2e p99\nms", |l| l.quantiles(Metric::E2e).p99),
    ]);
    Table::of(fields, all).set(Setting::Tight)
}

fn in_flight(l: &LevelFigures) -> Cell {
    Cell::figure(words::level_number(l.in_flight), Some(l.in_flight))
}

/// Formats the bounds of a p99: `12.1 to 15.9`; an open upper end if there are too few requests for one.
fn bounds(q: &Quantiles) -> Cell {
    match (q.p99_low, q.p99_high) {
        (None, None) => Cell::Unknown,
        (low, high) => Cell::figure(format!("{} to {}", number(low), number(high)), low),
    }
}

/// One latency of a level; the first row of a level also has the figures common to all of them.
struct LatencyRow<'a> {
    level: &'a LevelFigures,
    metric: Metric,
    quantiles: Quantiles,
    is_first: bool,
}

/// Returns the latencies: one row for each level and metric.
fn latencies(all: &[LevelFigures]) -> Table {
    let of_level = |level| {
        let measured = shown().filter(|m: &Metric| LevelFigures::quantiles(level, *m).n > 0);
        let row =
            |(i, metric)| LatencyRow { level, metric, quantiles: level.quantiles(metric), is_first: i == 0 };
        measured.enumerate().map(row).collect::<Vec<_>>()
    };
    let rows: Vec<LatencyRow<'_>> = all.iter().flat_map(of_level).collect();
    let once = |column: Column, of: fn(&LevelFigures) -> Cell| {
        Field::new(column, move |r: &LatencyRow<'_>| if r.is_first { of(r.level) } else { Cell::Empty })
    };
    let number = |head: &str, short: &str, of: fn(&Quantiles) -> Option<f64>| {
        Field::new(Column::number(head).short(short), move |r: &LatencyRow<'_>| {
            Cell::number(of(&r.quantiles))
        })
    };
    let mut fields = vec![
        once(Column::number("in flight"), in_flight),
        once(Column::number("requests"), |l| Cell::Count(l.requests as f64)),
        Field::new(Column::text("metric"), |r: &LatencyRow<'_>| Cell::text(r.metric.title())),
        number("p50 ms", "p50\nms", |q| q.p50),
        number("p90 ms", "p90\nms", |q| q.p90),
        number("p99 ms", "p99\nms", |q| q.p99),
        Field::new(Column::number("p99 from, to"), |r: &LatencyRow<'_>| bounds(&r.quantiles)),
    ];
    let clustered = has_effective(all);
    fields
        .extend(clustered.then(|| {
            Field::new(Column::number("effective n"), |r: &LatencyRow<'_>| effective(&r.quantiles))
        }));
    fields.push(once(Column::number("tokens/s each"), |l| Cell::number(l.tokens_per_s_of_a_request)));
    Table::of(fields, &rows).set(Setting::Tight)
}

/// Returns true if the bounds account for the clustering of slow requests.
fn has_effective(all: &[LevelFigures]) -> bool {
    all.iter().any(|l| shown().any(|m| l.quantiles(m).inflation.is_some()))
}

fn table(run: &Run) -> Table {
    let all = levels(run);
    if run.purpose == Purpose::Latency { latencies(&all) } else { throughput(run, &all) }
}

/// Returns an explanation of the columns.
fn notes(run: &Run) -> &'static str {
    if run.purpose == Purpose::Latency && has_effective(&levels(run)) {
        "All latency counts from when a slot of the loop was free. The p99 lies between “from” and “to” with 95 % confidence, at the effective \
         n: slow requests come in clusters, so they are worth fewer independent ones. Where that is below 368 the upper bound is “–”. \
         “Tokens/s each”: the mean answer over the median e2e."
    } else if run.purpose == Purpose::Latency {
        "All latency counts from when a slot of the loop was free. The p99 lies between “from” and “to” with 95 % confidence, \
         assuming independent requests; where there are too few for an upper bound (below 368) it is “–”. “Tokens/s each”: the mean answer over the median e2e."
    } else if is_burst(run) {
        "Rates are over the whole time, from the start to the last answer, the draining of the last requests included."
    } else {
        "Rates are of the requests that were completed within each window, with the number in flight held."
    }
}

/// Returns the table for a terminal.
pub(super) fn brief_table(run: &Run) -> Block {
    table(run).into()
}

/// Returns the text below the table, for a terminal.
pub(super) fn brief(run: &Run) -> Vec<Section> {
    let mut said = vec![format!("{}.", words::headline_of_levels(run))];
    said.extend(findings(run));
    vec![
        Section::untitled(Block::paragraphs(said)),
        Section::untitled(vec![Block::paragraph(words::not_capacity(run)), Block::paragraph(notes(run))]),
    ]
}

/// Returns the blocks that replace the answer; `None` if the run is about the goodput.
pub(super) fn blocks(run: &Run) -> Option<Vec<Block>> {
    if run.purpose.is_goodput() {
        return None;
    }
    let m = &run.meta;
    let asked =
        [("workload", m.workload.to_string()), ("model", m.model.clone()), ("server", m.server.to_string())];
    Some(vec![
        Block::paragraph(findings(run).join(" ")),
        Block::paragraph(strong(words::not_capacity(run))),
        Block::facts(asked),
        table(run).into(),
        Block::paragraph(notes(run)),
    ])
}
