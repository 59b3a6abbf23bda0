//! The answers of a matrix: a table, and below it each row's question with its answer and whether what was expected held.

use super::escape::{clip, markdown, plain};
use super::tables::{UNKNOWN, table};
use super::terminal::STYLE;
use super::words;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use goodput_core::slo::Metric;
use goodput_run::rundir::Run;
use goodput_run::rundir::matrix::{Figures, Parts, RowAnswer};
use goodput_stats::stats::step::Verdict;

/// The matrix in one line, for above a report and its charts; `None` where the run is none.
pub fn headline(run: &Run) -> Option<String> {
    if run.matrix.is_empty() {
        return None;
    }
    let count = |held| run.matrix.iter().filter(|r| r.held == Some(held)).count();
    let stated = run.matrix.iter().filter(|r| r.expected.is_some()).count();
    let (rows, open) = (run.matrix.len(), stated - count(true) - count(false));
    let of_rows = if rows == 1 { "A matrix of 1 row".into() } else { format!("A matrix of {rows} rows") };
    if stated == 0 {
        return Some(of_rows);
    }
    let open = if open > 0 { format!("; {open} undecided") } else { String::new() };
    Some(format!("{of_rows}: {} of {stated} expectations held{open}", count(true)))
}

fn number(x: Option<f64>) -> String {
    x.filter(|x| x.is_finite()).map_or(UNKNOWN.into(), words::figure)
}

/// Two percentiles of a latency: `9.8 / 14.1`.
fn both(p50: Option<f64>, p99: Option<f64>) -> String {
    match (p50, p99) {
        (None, None) => UNKNOWN.into(),
        (p50, p99) => format!("{} / {}", number(p50), number(p99)),
    }
}

fn held(r: &RowAnswer) -> &'static str {
    match (r.held, r.expected) {
        (Some(true), _) => "● held",
        (Some(false), _) => "✕ not held",
        (None, Some(_)) => "○ undecided",
        (None, None) => UNKNOWN,
    }
}

/// What sets the latency, and which: `decode (e2e)`.
fn limited(r: &RowAnswer) -> String {
    let what = r.measured.map_or("undecided", |b| b.name());
    format!("{what} ({})", r.metric.title())
}

fn expected(r: &RowAnswer) -> &'static str {
    r.expected.map_or(UNKNOWN, |b| b.name())
}

fn share(x: Option<f64>) -> String {
    x.map_or(UNKNOWN.into(), |x| format!("{} %", words::figure((1000.0 * x).round() / 10.0)))
}

fn of(r: &RowAnswer, figure: fn(&Figures) -> String) -> String {
    r.figures.as_ref().map_or(UNKNOWN.into(), figure)
}

/// The section of the Markdown report; `None` where the run is no matrix.
pub(super) fn section(run: &Run) -> Option<String> {
    if run.matrix.is_empty() {
        return None;
    }
    let judged = run.matrix.iter().any(|r| r.figures.is_some_and(|f| f.verdict.is_some()));
    let hits = run.matrix.iter().any(|r| r.figures.is_some_and(|f| f.hit_rate.is_some()));
    let mut head = vec![
        "row",
        "what ran",
        "requests",
        "TTFT p50 / p99 ms",
        "TPOT p50 / p99 ms",
        "e2e p50 ms",
        "output tokens/s",
        "requests/s",
    ];
    head.extend(hits.then_some("cache hits"));
    head.extend(judged.then_some("SLO"));
    head.extend(["set by", "expected", "held?"]);
    let row = |r: &RowAnswer| {
        let mut cells = vec![
            markdown(&clip(&r.row, 60)),
            markdown(&r.ran),
            of(r, |f| super::charts::thousands(f.requests as f64)),
            of(r, |f| both(f.ttft_p50_ms, f.ttft_p99_ms)),
            of(r, |f| both(f.tpot_p50_ms, f.tpot_p99_ms)),
            of(r, |f| number(f.e2e_p50_ms)),
            of(r, |f| number(Some(f.output_tokens_per_s))),
            of(r, |f| number(Some(f.achieved_rate))),
        ];
        cells.extend(hits.then(|| of(r, |f| share(f.hit_rate))));
        cells.extend(judged.then(|| of(r, |f| f.verdict.map_or(UNKNOWN, Verdict::name).into())));
        cells.extend([limited(r), expected(r).into(), held(r).into()]);
        cells
    };
    let left = ["row", "what ran", "set by", "expected", "held?", "SLO"];
    let mut out = table(&head, &left, run.matrix.iter().map(row).collect());
    for r in &run.matrix {
        let question = r.question.as_ref().map(|q| format!(": {}", markdown(q))).unwrap_or_default();
        out.push_str(&format!("\n### {}{question}\n\n", markdown(&clip(&r.row, 60))));
        out.push_str(&format!("{}\n\n{}\n", markdown(&answer(r)), markdown(&verdict(r))));
        if let Some(p) = r.parts {
            out.push_str(&format!("\n{}\n", markdown(&parts(&p))));
        }
    }
    out.push_str(
        "\n*Set by*: what the latency is made of, at its median and as the client sees it. *Overhead*: what any request costs. *Prefill*: reading \
         the prompt. *Decode*: writing the answer at the pace of one request alone. *Batching*: tokens come slower than to one request \
         alone. *Queue*: the first token comes later than to one request alone. *Cache*: it comes sooner than the whole prompt could be read.\n",
    );
    Some(out)
}

/// The table for a terminal of so many columns, and the questions with their answers.
pub fn terminal(run: &Run, width: u16) -> (String, String) {
    let mut all = Table::new();
    all.load_style(STYLE).set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    all.set_header([
        "row",
        "requests",
        "TTFT\np50 / p99 ms",
        "TPOT\np50 ms",
        "e2e\np50 ms",
        "output\ntokens/s",
        "set by",
        "expected",
        "",
    ]);
    for r in &run.matrix {
        all.add_row([
            plain(&clip(&r.row, 24)),
            of(r, |f| super::charts::thousands(f.requests as f64)),
            of(r, |f| both(f.ttft_p50_ms, f.ttft_p99_ms)),
            of(r, |f| number(f.tpot_p50_ms)),
            of(r, |f| number(f.e2e_p50_ms)),
            of(r, |f| number(Some(f.output_tokens_per_s))),
            limited(r),
            expected(r).into(),
            held(r).into(),
        ]);
    }
    for column in all.column_iter_mut().skip(1).take(5) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for column in all.column_iter_mut() {
        column.set_padding((0, 1));
    }
    let table: Vec<String> = all.to_string().lines().map(|l| l.trim_end().to_owned()).collect();
    let mut out = format!("{}.\n", plain(&headline(run).unwrap_or_default()));
    for r in &run.matrix {
        let question = r.question.as_deref().unwrap_or("What was measured?");
        out.push_str(&format!("\n{}: {}\n", plain(&clip(&r.row, 60)), plain(question)));
        out.push_str(&format!("  {}\n  {}\n", plain(&answer(r)), plain(&verdict(r))));
    }
    (table.join("\n"), out)
}

/// The answer to the question of a row, with its figures.
fn answer(r: &RowAnswer) -> String {
    let Some(f) = r.figures else { return "It was not measured.".into() };
    let time = |ms: Option<f64>| ms.map_or_else(|| UNKNOWN.to_owned(), words::latency);
    let first = format!("the first token comes after {} (p99 {})", time(f.ttft_p50_ms), time(f.ttft_p99_ms));
    let tokens = f.tpot_p50_ms.map_or_else(String::new, |tpot| {
        format!(", then one every {} ({} tokens/s)", words::latency(tpot), words::figure(1e3 / tpot))
    });
    let whole = format!("the answer is whole after {} (p99 {})", time(f.e2e_p50_ms), time(f.e2e_p99_ms));
    let said = match r.metric {
        Metric::Ttft => format!("For the median request {first}; {whole}."),
        Metric::Tpot | Metric::Itl => format!("For the median request {first}{tokens}."),
        Metric::E2e | Metric::Ttfc => format!("For the median request {whole}: {first}{tokens}."),
    };
    let failed = if f.failed > 0 {
        format!(" {} of {} requests failed.", f.failed, f.requests)
    } else {
        String::new()
    };
    format!(
        "{said} The server completes {} requests/s and {} output tokens/s.{failed}",
        words::figure(f.achieved_rate),
        words::figure(f.output_tokens_per_s)
    )
}

/// What sets the latency, whether it was expected, and the evidence.
fn verdict(r: &RowAnswer) -> String {
    let evidence = &r.evidence;
    match (r.measured, r.expected) {
        (Some(measured), Some(expected)) if measured == expected => {
            format!("Expected {expected}, and it holds: {evidence}.")
        }
        (Some(measured), Some(expected)) => {
            format!("Expected {expected}, and it does not hold: it is {measured}. {}.", capital(evidence))
        }
        (Some(measured), None) => format!("Set by {measured}: {evidence}."),
        (None, Some(expected)) => format!("Expected {expected}; undecided: {evidence}."),
        (None, None) => format!("What sets it is undecided: {evidence}."),
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |c| c.to_uppercase().chain(chars).collect())
}

/// Where the time goes: `Of the median e2e: overhead 5.2 ms, prefill …`.
fn parts(p: &Parts) -> String {
    let first = if p.overhead.is_some() { "reading the prompt" } else { "first token, unloaded" };
    let all = [
        ("overhead", p.overhead.unwrap_or(0.0)),
        (first, p.prefill),
        ("waiting", p.queue),
        ("writing alone", p.decode),
        ("slowed down by others", p.batching),
    ];
    let shown =
        all.iter().filter(|(_, ms)| *ms > 0.0).map(|(name, ms)| format!("{name} {}", words::latency(*ms)));
    let saved = p.saved.filter(|ms| *ms > 0.0);
    let saved = saved.map(|ms| format!("; saved by the cache: {}", words::latency(ms))).unwrap_or_default();
    format!("Where the time of the median request goes: {}{saved}.", shown.collect::<Vec<_>>().join(", "))
}
