//! The answers of a matrix: a table, and below it each row's question with its answer and the check of its expectation.

use crate::document::{
    Block, Bullet, Cell, Column, Entry, Field, Mark, Place, Section, Setting, Table, Text, UNKNOWN, emphasis,
    plain,
};
use crate::escape::clip;
use crate::words::{self, capital, latency_part::LatencyComponent};
use goodput_core::slo::AnswerPart;
use goodput_run::rundir::Run;
use goodput_run::rundir::matrix::{Figures, Parts, RowAnswer};
use goodput_stats::stats::step::Verdict;

fn number(x: Option<f64>) -> String {
    x.filter(|x| x.is_finite()).map_or(UNKNOWN.into(), words::figure)
}

/// Formats two percentiles of a latency: `9.8 / 14.1`.
fn both(p50: Option<f64>, p99: Option<f64>) -> Cell {
    match (p50, p99) {
        (None, None) => Cell::Unknown,
        (p50, p99) => Cell::figure(format!("{} / {}", number(p50), number(p99)), p50),
    }
}

fn expectation(r: &RowAnswer) -> Cell {
    match (r.held, r.expected) {
        (Some(true), _) => Cell::marked(Mark::Good, "held"),
        (Some(false), _) => Cell::marked(Mark::Bad, "not held"),
        (None, Some(_)) => Cell::marked(Mark::Open, "undecided"),
        (None, None) => Cell::Unknown,
    }
}

/// Returns the component that dominates a latency, and its metric: `decode (e2e)`.
fn limited(r: &RowAnswer) -> Cell {
    let what = r.measured.map_or("undecided", |b| b.name());
    Cell::text(format!("{what} ({})", r.metric.title()))
}

fn expected(r: &RowAnswer) -> Cell {
    r.expected.map_or(Cell::Unknown, |b| Cell::text(b.name()))
}

fn share(x: Option<f64>) -> Cell {
    let text = |x: f64| format!("{} %", words::figure((1000.0 * x).round() / 10.0));
    x.map_or(Cell::Unknown, |x| Cell::figure(text(x), Some(100.0 * x)))
}

/// Returns the rows of the matrix.
fn table(run: &Run) -> Table {
    let judged = run.matrix.iter().any(|r| r.figures.is_some_and(|f| f.verdict.is_some()));
    let hits = run.matrix.iter().any(|r| r.figures.is_some_and(|f| f.hit_rate.is_some()));
    let field = |column: Column, of: fn(&Figures) -> Cell| {
        Field::new(column, move |r: &RowAnswer| r.figures.as_ref().map_or(Cell::Unknown, of))
    };
    let number = |head: &str| Column::number(head);
    let mut fields = vec![
        Field::new(Column::text("row").only(Place::Page), |r: &RowAnswer| Cell::text(clip(&r.row, 60))),
        Field::new(Column::text("row").only(Place::Terminal), |r: &RowAnswer| Cell::text(clip(&r.row, 24))),
        Field::new(Column::text("what ran").only(Place::Page), |r: &RowAnswer| Cell::text(r.ran.as_str())),
        field(number("requests"), |f| Cell::Count(f.requests as f64)),
        field(number("TTFT p50 / p99 ms").short("TTFT\np50 / p99 ms"), |f| {
            both(f.ttft_p50_ms, f.ttft_p99_ms)
        }),
        field(number("TPOT p50 / p99 ms").only(Place::Page), |f| both(f.tpot_p50_ms, f.tpot_p99_ms)),
        field(number("TPOT p50 ms").short("TPOT\np50 ms").only(Place::Terminal), |f| {
            Cell::number(f.tpot_p50_ms)
        }),
        field(number("e2e p50 ms").short("e2e\np50 ms"), |f| Cell::number(f.e2e_p50_ms)),
        field(number("output tokens/s").short("output\ntokens/s"), |f| {
            Cell::number(Some(f.output_tokens_per_s))
        }),
        field(number("requests/s").only(Place::Page), |f| Cell::number(Some(f.achieved_rate))),
    ];
    fields.extend(hits.then(|| field(number("cache hits").only(Place::Page), |f| share(f.hit_rate))));
    fields.extend(judged.then(|| {
        field(Column::text("SLO").only(Place::Page), |f| {
            f.verdict.map_or(Cell::Unknown, |v| Cell::text(Verdict::name(v)))
        })
    }));
    fields.extend([
        Field::new(Column::text("set by"), |r: &RowAnswer| limited(r)),
        Field::new(Column::text("expected"), |r: &RowAnswer| expected(r)),
        Field::new(Column::text("held?").short(""), |r: &RowAnswer| expectation(r)),
    ]);
    Table::of(fields, &run.matrix).sorted_by_readers(0).set(Setting::Tight)
}

/// Returns the blocks that replace the answer; `None` if the run is not a matrix.
pub(super) fn blocks(run: &Run) -> Option<Vec<Block>> {
    if run.matrix.is_empty() {
        return None;
    }
    let mut blocks = vec![table(run).into()];
    for r in &run.matrix {
        let question = r.question.as_ref().map(|q| format!(": {q}")).unwrap_or_default();
        blocks.push(Block::Heading(format!("{}{question}", clip(&r.row, 60)).into()));
        blocks.extend([Block::paragraph(answer(r)), Block::paragraph(verdict(r))]);
        blocks.extend(r.parts.map(|p| Block::paragraph(parts(&p))));
    }
    let term = |word: &str, meaning: &str| [emphasis(word), plain(format!(": {meaning}"))];
    let terms = [
        term("Set by", "what the latency is made of, at its median and as the client sees it. "),
        term("Overhead", "what any request costs. "),
        term("Prefill", "reading the prompt. "),
        term("Decode", "writing the answer at the pace of one request alone. "),
        term("Batching", "tokens come slower than to one request alone. "),
        term("Queue", "the first token comes later than to one request alone. "),
        term("Cache", "it comes sooner than the whole prompt could be read."),
    ];
    blocks.push(Block::Paragraph(Text::of(terms.into_iter().flatten())));
    Some(blocks)
}

/// Returns the table for a terminal.
pub(super) fn brief_table(run: &Run) -> Block {
    table(run).into()
}

/// Returns the questions with their answers, for a terminal.
pub(super) fn brief(run: &Run) -> Vec<Section> {
    let head = Section::untitled(vec![Block::paragraph(format!("{}.", words::headline_of_matrix(run)))]);
    let one = |r: &RowAnswer| {
        let question = r.question.as_deref().unwrap_or("What was measured?");
        let entry = Entry::new(Bullet::None, format!("{}: {question}", clip(&r.row, 60)));
        let below = vec![Entry::line(answer(r)), Entry::line(verdict(r))];
        Section::untitled(vec![Block::Outline(vec![entry.over(below)])])
    };
    std::iter::once(head).chain(run.matrix.iter().map(one)).collect()
}

/// Returns the answer to the question of a row, with its figures.
fn answer(r: &RowAnswer) -> String {
    let Some(f) = r.figures else { return "It was not measured.".into() };
    let time = |ms: Option<f64>| ms.map_or_else(|| UNKNOWN.to_owned(), words::latency);
    let first = format!("the first token comes after {} (p99 {})", time(f.ttft_p50_ms), time(f.ttft_p99_ms));
    let tokens = f.tpot_p50_ms.map_or_else(String::new, |tpot| {
        format!(", then one every {} ({} tokens/s)", words::latency(tpot), words::figure(1e3 / tpot))
    });
    let whole = format!("the answer is whole after {} (p99 {})", time(f.e2e_p50_ms), time(f.e2e_p99_ms));
    let said = match r.metric.part() {
        AnswerPart::First => format!("For the median request {first}; {whole}."),
        AnswerPart::Pace => format!("For the median request {first}{tokens}."),
        AnswerPart::Whole => format!("For the median request {whole}: {first}{tokens}."),
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

/// Returns the dominant component of the latency, if it was expected, and the evidence.
fn verdict(r: &RowAnswer) -> String {
    let evidence = words::bottleneck(&r.evidence);
    match (r.measured, r.expected) {
        (Some(measured), Some(expected)) if measured == expected => {
            format!("Expected {expected}, and it holds: {evidence}.")
        }
        (Some(measured), Some(expected)) => {
            format!("Expected {expected}, and it does not hold: it is {measured}. {}.", capital(&evidence))
        }
        (Some(measured), None) => format!("Set by {measured}: {evidence}."),
        (None, Some(expected)) => format!("Expected {expected}; undecided: {evidence}."),
        (None, None) => format!("What sets it is undecided: {evidence}."),
    }
}

/// Returns the components of a latency: `Of the median e2e: overhead 5.2 ms, prefill …`.
fn parts(p: &Parts) -> String {
    let name = |part: LatencyComponent| match part {
        // The first token of the unloaded server: its overhead is part of it.
        LatencyComponent::Prefill if p.overhead.is_none() => "first token, unloaded",
        _ => part.name(),
    };
    let all =
        LatencyComponent::ALL.into_iter().map(|part| (part, part.duration_ms(p))).filter(|(_, ms)| *ms > 0.0);
    let shown: Vec<String> = all.map(|(part, ms)| format!("{} {}", name(part), words::latency(ms))).collect();
    let saved = p.saved.filter(|ms| *ms > 0.0);
    let saved = saved.map(|ms| format!("; saved by the cache: {}", words::latency(ms))).unwrap_or_default();
    format!("Where the time of the median request goes: {}{saved}.", shown.join(", "))
}
