//! The reports of `goodput latency` and `goodput throughput`: a table, what it says in words, and why it is not capacity.

use super::charts::thousands;
use super::escape::{markdown, plain};
use super::tables::{UNKNOWN, effective, table};
use super::terminal::STYLE;
use super::words;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use goodput_core::slo::Metric;
use goodput_plan::Purpose;
use goodput_run::rundir::Run;
use goodput_run::rundir::offline::{LevelFigures, is_burst, levels, most, not_capacity};
use goodput_stats::stats::step::Quantiles;

/// The last tenth of a burst takes about a tenth of its time; where it takes more than this share the draining shows.
const LONG_TAIL: f64 = 0.15;

/// The latencies that are shown.
const METRICS: [Metric; 4] = [Metric::Ttft, Metric::Tpot, Metric::Itl, Metric::E2e];

fn number(x: Option<f64>) -> String {
    x.filter(|x| x.is_finite()).map_or(UNKNOWN.into(), words::figure)
}

fn time(ms: Option<f64>) -> String {
    ms.map_or_else(|| UNKNOWN.to_owned(), words::latency)
}

/// How long a step took, for people.
fn seconds(s: f64) -> String {
    words::latency(1e3 * s)
}

/// What was found, in one line; `None` where the run is about the goodput.
pub fn headline(run: &Run) -> Option<String> {
    let all = levels(run);
    let (Some(first), Some(last)) = (all.first(), all.last()) else {
        return (!run.purpose.is_goodput()).then(|| "No answer: no step was finished".into());
    };
    match run.purpose {
        Purpose::Goodput => None,
        Purpose::Sensitivity => {
            Some("Pairs of steps: the run that they belong to has what moves its answer".into())
        }
        Purpose::Latency => {
            let said = |l: &LevelFigures| {
                let who = if l.in_flight > 1.0 {
                    format!("{} at once", words::level_number(l.in_flight))
                } else {
                    "One request alone".into()
                };
                format!(
                    "{who}: first token after {}, whole answer after {}",
                    time(l.ttft_ms.p50),
                    time(l.e2e_ms.p50)
                )
            };
            let more =
                if last.in_flight > first.in_flight { format!("; {}", said(last)) } else { String::new() };
            Some(format!("{}{more}", said(first)))
        }
        Purpose::Throughput if is_burst(run) => Some(format!(
            "{} requests at once: done after {}, {} output tokens/s",
            thousands(first.in_flight),
            seconds(first.seconds),
            words::figure(first.output_tokens_per_s)
        )),
        Purpose::Throughput => most(&all).map(|best| {
            format!(
                "The ceiling: {} output tokens/s, {} requests/s, with {} requests in flight",
                words::figure(best.output_tokens_per_s),
                words::figure(best.requests_per_s),
                words::level_number(best.in_flight)
            )
        }),
    }
}

/// What the figures say beyond the headline.
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

/// One request without contention.
fn alone(l: &LevelFigures) -> String {
    format!(
        "Without contention the median request has its first token after {}, then one every {}, and is whole after {}: {} output tokens \
         a second of its time.",
        time(l.ttft_ms.p50),
        time(l.tpot_ms.p50),
        time(l.e2e_ms.p50),
        number(l.tokens_per_s_of_a_request)
    )
}

/// How a burst was worked off, and how long its end took.
fn drained(l: &LevelFigures) -> String {
    let q = l.e2e_ms;
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

/// Where the ladder ended, and what the ceiling costs.
fn ceiling(run: &Run, all: &[LevelFigures]) -> Vec<String> {
    let (Some(best), Some(first), Some(last)) = (most(all), all.first(), all.last()) else {
        return Vec::new();
    };
    let mut out = Vec::new();
    let wait = |l: &LevelFigures| {
        format!("{} to the first token, {} a token", time(l.ttft_ms.p50), time(l.tpot_ms.p50))
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

/// Heads and rows of the throughput.
fn throughput(run: &Run, all: &[LevelFigures]) -> (Vec<String>, Vec<Vec<String>>) {
    let burst = is_burst(run);
    let gpus = run.meta.gpus.is_some_and(|n| n > 1);
    let mut head = vec![
        if burst { "at once" } else { "in flight" },
        "requests",
        "time",
        "requests/s",
        "output tokens/s",
        "total tokens/s",
    ];
    head.extend(gpus.then_some("output tokens/s per GPU"));
    head.extend(["TTFT p50 ms", "TPOT p50 ms", "e2e p50 ms", "e2e p99 ms"]);
    let row = |l: &LevelFigures| {
        let mut cells = vec![
            words::level_number(l.in_flight),
            thousands(l.requests as f64),
            seconds(l.seconds),
            words::figure(l.requests_per_s),
            words::figure(l.output_tokens_per_s),
            words::figure(l.total_tokens_per_s),
        ];
        cells.extend(gpus.then(|| number(l.per_gpu.map(|g| g[1]))));
        cells.extend([l.ttft_ms.p50, l.tpot_ms.p50, l.e2e_ms.p50, l.e2e_ms.p99].map(number));
        cells
    };
    (head.into_iter().map(str::to_owned).collect(), all.iter().map(row).collect())
}

/// The bounds of a p99: `12.1–15.9`; an open upper end where there are too few requests for one.
fn bounds(q: &Quantiles) -> String {
    match (q.p99_low, q.p99_high) {
        (None, None) => UNKNOWN.into(),
        (low, high) => format!("{} to {}", number(low), number(high)),
    }
}

/// Heads and rows of the latencies: one row for each level and metric.
fn latencies(all: &[LevelFigures]) -> (Vec<String>, Vec<Vec<String>>) {
    let clustered = has_effective(all);
    let mut head = vec!["in flight", "requests", "metric", "p50 ms", "p90 ms", "p99 ms", "p99 from, to"];
    head.extend(clustered.then_some("effective n"));
    head.push("tokens/s each");
    let rows = all.iter().flat_map(|l| {
        METRICS.into_iter().filter(|m| l.quantiles(*m).n > 0).enumerate().map(move |(i, metric)| {
            let q = l.quantiles(metric);
            let once = |text: String| if i == 0 { text } else { String::new() };
            let mut cells = vec![
                once(words::level_number(l.in_flight)),
                once(thousands(l.requests as f64)),
                metric.title().to_owned(),
                number(q.p50),
                number(q.p90),
                number(q.p99),
                bounds(&q),
            ];
            cells.extend(clustered.then(|| effective(&q)));
            cells.push(once(number(l.tokens_per_s_of_a_request)));
            cells
        })
    });
    (head.into_iter().map(str::to_owned).collect(), rows.collect())
}

/// Returns true if the bounds take into account how slow requests cluster.
fn has_effective(all: &[LevelFigures]) -> bool {
    all.iter().any(|l| METRICS.into_iter().any(|m| l.quantiles(m).inflation.is_some()))
}

fn cells(run: &Run) -> (Vec<String>, Vec<Vec<String>>) {
    let all = levels(run);
    if run.purpose == Purpose::Latency { latencies(&all) } else { throughput(run, &all) }
}

/// What the columns mean.
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

/// The table for a terminal of so many columns, and what is said below it.
pub fn terminal(run: &Run, width: u16) -> (String, String) {
    let (head, rows) = cells(run);
    let mut all = Table::new();
    all.load_style(STYLE).set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    all.set_header(head.iter().map(|h| h.replacen(" ms", "\nms", 1).replacen(" tokens/s", "\ntokens/s", 1)));
    for row in rows {
        all.add_row(row);
    }
    for (column, name) in all.column_iter_mut().zip(&head) {
        column.set_padding((0, 1));
        column.set_cell_alignment(if name == "metric" { CellAlignment::Left } else { CellAlignment::Right });
    }
    let table: Vec<String> = all.to_string().lines().map(|l| l.trim_end().to_owned()).collect();
    let mut said = vec![format!("{}.", headline(run).unwrap_or_default())];
    said.extend(findings(run));
    let said: String = said.iter().map(|s| format!("{}\n", plain(s))).collect();
    (table.join("\n"), format!("{said}\n{}\n{}\n", not_capacity(run), notes(run)))
}

/// The section of the Markdown report; `None` where the run is about the goodput.
pub(super) fn section(run: &Run) -> Option<String> {
    if run.purpose.is_goodput() {
        return None;
    }
    let (head, rows) = cells(run);
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let found: Vec<String> = findings(run).iter().map(|s| markdown(s)).collect();
    let found = if found.is_empty() { String::new() } else { format!("{}\n\n", found.join(" ")) };
    let m = &run.meta;
    let (workload, server) = (m.workload.to_string(), m.server.to_string());
    let asked = [("workload", &workload), ("model", &m.model), ("server", &server)];
    let asked: String = asked.iter().map(|(key, value)| format!("- {key}: {}\n", markdown(value))).collect();
    Some(format!(
        "{found}**{}**\n\n{asked}\n{}\n{}\n",
        not_capacity(run),
        table(&head, &["metric"], rows),
        markdown(notes(run))
    ))
}
