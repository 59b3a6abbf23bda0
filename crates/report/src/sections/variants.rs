//! Variants side by side: a table, the best by several criteria, and the causes of failures.

use super::cells::mark;
use crate::document::{
    Block, Bullet, Cell, Column, Entry, Field, Mark, Place, Priority, Section, Setting, Table, Text, plain,
    strong,
};
use crate::escape::clip;
use crate::words::{self, NAME, brief_variant};
use goodput_core::slo::{AnswerPart, Limit};
use goodput_run::rundir::variants::{Best, Peak, State, VariantAnswer};
use goodput_run::rundir::{Run, VariantRun};
use goodput_stats::search::answer::{Answer, Goodput, Status};

/// Width below which a terminal's table has fewer columns: with all of them, heads would be broken within words.
const NARROW: u16 = 124;
/// Maximum number of last log lines on a terminal.
const LINES: usize = 6;

/// Number of columns above which a page has two tables: with more it would be wider than a usual window.
const MOST_COLUMNS: usize = 11;

/// Returns the variants side by side, with the columns that have a value for any of them, for a terminal.
fn table(run: &Run) -> Table {
    let [room, peak] = server_columns();
    of_fields(run, [name_columns(run), room, answer_columns(run), peak].into_iter().flatten().collect())
}

/// Returns the variants side by side for a page: their answers and what is known of their servers, in two tables if one would be too wide.
fn tables(run: &Run) -> Vec<Table> {
    let whole = table(run);
    if whole.columns.iter().filter(|c| c.place != Place::Terminal).count() <= MOST_COLUMNS {
        return vec![whole];
    }
    let answers = name_columns(run).into_iter().chain(answer_columns(run)).collect();
    let name = Field::new(Column::text("variant"), |v: &VariantAnswer| Cell::text(v.series.as_str()));
    let [room, peak] = server_columns();
    vec![of_fields(run, answers), of_fields(run, std::iter::once(name).chain(room).chain(peak).collect())]
}

/// Returns a table of the fields that any variant has.
fn of_fields(run: &Run, mut fields: Vec<VariantField<'_>>) -> Table {
    fields.retain(|f| run.variants.iter().any(|v| f.cell(v) != Cell::Unknown));
    Table::of(fields, &run.variants).sorted_by_readers(0).set(Setting::Tight)
}

/// Returns the columns of the name and the outcome.
fn name_columns(run: &Run) -> Vec<VariantField<'_>> {
    let knob = only_knob(run);
    let name = Column::text("variant").short(knob.unwrap_or("variant"));
    let short_name = move |v: &VariantAnswer| {
        let value = v.series.split_once('=').filter(|_| knob.is_some()).map(|(_, value)| value.to_owned());
        Cell::text(value.unwrap_or_else(|| v.series.clone()))
    };
    vec![
        field(name.clone().only(Place::Page), |v| Cell::text(v.series.as_str())),
        Field::new(name.only(Place::Terminal), short_name),
        field(Column::text("status"), status),
    ]
}

/// Returns the columns of the answers. At one level there is no search, so the latencies there are the result.
fn answer_columns<'a>(run: &Run) -> Vec<VariantField<'a>> {
    if one_level(&run.variants) { level_columns() } else { goodput_columns() }
}

/// Returns the columns of the room in the KV cache, and those of the saturated server.
fn server_columns<'a>() -> [Vec<VariantField<'a>>; 2] {
    let room = vec![
        field(Column::number("KV blocks").short("KV\nblocks").with(Priority::Droppable(4)), |v| {
            Cell::count(v.room.map(|room| room.blocks as f64))
        }),
        field(
            Column::number("requests of full length that fit")
                .short("full-length\nreqs fit")
                .with(Priority::Droppable(5)),
            |v| Cell::count(v.room.and_then(|room| room.sequences).map(|n| n as f64)),
        ),
    ];
    let peak = vec![
        field(Column::number("raw peak, output tokens/s").short("raw peak\ntok/s"), |v| {
            of_peak(v, |p| Some(p.output_tokens_per_s))
        }),
        field(
            Column::number("TPOT p50 / p99 at the peak, ms").short("TPOT p50 / p99\nat the peak, ms"),
            |v| v.peak.as_ref().map_or(Cell::Unknown, |p| both(p.tpot_p50_ms, p.tpot_p99_ms)),
        ),
        field(Column::number("preemptions").short("preemp-\ntions").with(Priority::Droppable(3)), |v| {
            Cell::count(v.preemptions)
        }),
    ];
    [room, peak]
}

/// A column with its cell for each variant.
type VariantField<'a> = Field<'a, VariantAnswer>;

fn field<'a>(column: Column, cell: fn(&VariantAnswer) -> Cell) -> VariantField<'a> {
    Field::new(column, cell)
}

/// Returns the columns of the answers: goodput with its interval, and what the server does there.
fn goodput_columns<'a>() -> Vec<VariantField<'a>> {
    let wide = Priority::From(NARROW);
    vec![
        field(Column::text("goodput").only(Place::Page), |v| answered(v, |a| goodput(a, &a.goodput))),
        field(Column::text("goodput").only(Place::Terminal), |v| answered(v, |a| in_short(a, &a.goodput))),
        field(Column::number("90 % interval").short("90 %\ninterval"), |v| answered(v, interval)),
        field(Column::number("safe rate").short("safe\nrate"), |v| answered(v, safe)),
        field(Column::text("limit that binds").short("limit\nthat binds").with(wide), |v| {
            answered(v, |a| {
                a.goodput.binding.as_deref().map_or(Cell::Unknown, |b| Cell::text(words::binding(b)))
            })
        }),
        field(Column::text("joint goodput").only(Place::Page), |v| answered(v, joint)),
        field(Column::text("joint goodput").short("joint\ngoodput").only(Place::Terminal).with(wide), |v| {
            answered(v, |a| in_short(a, &a.joint_goodput))
        }),
        field(Column::number("output tokens/s at the limit").short("tok/s at\nthe limit"), |v| {
            Cell::number(v.output_tokens_per_s)
        }),
        field(Column::number("TTFT p50 / p99 at the limit, ms").only(Place::Page), ttft),
        field(
            Column::number("TTFT p99 at the limit, ms")
                .short("TTFT p99\nat limit, ms")
                .only(Place::Terminal)
                .with(Priority::Droppable(2)),
            |v| Cell::number(v.at.and_then(|at| at.ttft_p99_ms)),
        ),
        field(Column::number("TPOT p50 / p99 at the limit, ms").only(Place::Page), tpot),
    ]
}

/// Returns the columns of variants that were all measured at one level only: its verdict and latencies.
fn level_columns<'a>() -> Vec<VariantField<'a>> {
    vec![
        field(Column::text("goodput").only(Place::Page), |v| answered(v, |a| goodput(a, &a.goodput))),
        field(Column::text("measured at"), |v| {
            v.at.map_or(Cell::Unknown, |at| Cell::text(words::level(at.level.control, at.level.value)))
        }),
        field(Column::text("verdict"), |v| {
            v.at.map_or(Cell::Unknown, |at| Cell::marked(mark(at.verdict), at.verdict.name()))
        }),
        field(Column::number("TTFT p50 / p99, ms").short("TTFT p50 /\np99, ms"), ttft),
        field(Column::number("TPOT p50 / p99, ms").short("TPOT p50 /\np99, ms"), tpot),
    ]
}

/// Returns true if every variant that was measured under load was measured at one level only.
fn one_level(all: &[VariantAnswer]) -> bool {
    let mut measured = all.iter().filter(|v| v.answer.is_some()).peekable();
    measured.peek().is_some() && measured.all(|v| v.at.is_some_and(|at| at.only))
}

fn ttft(v: &VariantAnswer) -> Cell {
    v.at.map_or(Cell::Unknown, |at| both(at.ttft_p50_ms, at.ttft_p99_ms))
}

fn tpot(v: &VariantAnswer) -> Cell {
    v.at.map_or(Cell::Unknown, |at| both(at.tpot_p50_ms, at.tpot_p99_ms))
}

/// Returns a cell on the answer of a variant; unknown if nothing was measured.
fn answered(v: &VariantAnswer, cell: impl Fn(&Answer) -> Cell) -> Cell {
    v.answer.as_ref().map_or(Cell::Unknown, cell)
}

fn of_peak(v: &VariantAnswer, of: fn(&Peak) -> Option<f64>) -> Cell {
    Cell::number(v.peak.as_ref().and_then(of))
}

fn status(v: &VariantAnswer) -> Cell {
    let memory = if v.out_of_memory { ", out of memory" } else { "" };
    match v.state {
        State::Failed | State::Died => Cell::marked(Mark::Bad, format!("{}{memory}", v.state.name())),
        State::Waiting | State::Running => Cell::marked(Mark::Open, v.state.name()),
        State::Done => Cell::text(v.state.name()),
    }
}

/// Returns a cell with two percentiles of a latency, in milliseconds: `9.8 / 14.1`.
fn both(p50: Option<f64>, p99: Option<f64>) -> Cell {
    let number = |x: Option<f64>| x.filter(|x| x.is_finite()).map(words::figure).unwrap_or_default();
    match (p50, p99) {
        (None, None) => Cell::Unknown,
        (p50, p99) => Cell::figure(format!("{} / {}", number(p50), number(p99)), p50),
    }
}

/// Returns the sort key of a goodput.
fn sorted_by(g: &Goodput) -> Option<f64> {
    g.rate().or(g.bracket.met).or(g.safe_rate())
}

fn goodput(a: &Answer, g: &Goodput) -> Cell {
    let text = match words::ends(a.control, g) {
        Some(([rate, ..], _)) => {
            let open = if g.status() == Status::Undecided { "undecided: " } else { "" };
            format!("{open}{rate}{}", a.control.unit())
        }
        None => words::goodput_cell(a.control, g),
    };
    Cell::figure(text, sorted_by(g))
}

fn joint(a: &Answer) -> Cell {
    let g = &a.joint_goodput;
    let text = match words::ends(a.control, g) {
        Some(([rate, ..], _)) => format!("{rate}{}", a.control.unit()),
        None => words::goodput_cell(a.control, g),
    };
    Cell::figure(text, sorted_by(g))
}

fn interval(a: &Answer) -> Cell {
    let ends = words::ends(a.control, &a.goodput);
    ends.map_or(Cell::Unknown, |([_, low, high], _)| {
        Cell::figure(format!("{low} – {high}"), a.goodput.interval90().map(|[low, _]| low))
    })
}

fn safe(a: &Answer) -> Cell {
    let usable = goodput_run::rundir::derive::usable_safe_rate(&a.goodput);
    match words::ends(a.control, &a.goodput) {
        Some((_, safe)) => Cell::figure(safe.unwrap_or_else(|| "none".into()), usable),
        None => usable.map_or(Cell::Unknown, |safe| Cell::figure(words::level_number(safe), Some(safe))),
    }
}

/// Returns an answer for a narrow column: `34.1 req/s`, `at least 30 req/s`, `undecided`.
fn in_short(a: &Answer, g: &Goodput) -> Cell {
    let (control, known) = (a.control, matches!(g.status(), Status::Found | Status::NotReached));
    let text = match (words::ends(control, g), g.rate().or(g.bracket.met)) {
        (Some(([rate, ..], _)), _) if known => format!("{rate}{}", control.unit()),
        (None, Some(rate)) if known => format!("at least {}{}", words::level_number(rate), control.unit()),
        _ => g.status().name().to_owned(),
    };
    Cell::figure(text, sorted_by(g))
}

/// Returns true if the run has variants.
pub(crate) fn any(run: &Run) -> bool {
    !run.variants.is_empty()
}

/// Returns the limits on the token pace of the first tier: `p99 TPOT ≤ 20 ms`.
fn pace(run: &Run) -> String {
    let paced = |l: &Limit| l.metric.part() == AnswerPart::Pace;
    let limits = run.tiers.first().map(goodput_core::slo::Slo::limits).unwrap_or_default();
    words::list(&limits.iter().filter(|l| paced(l)).map(words::limit).collect::<Vec<_>>())
}

/// Returns the best variant at the SLO, the best at raw throughput, and the causes of failures.
fn sentences(run: &Run) -> Vec<String> {
    let best = Best::of(&run.variants);
    let name = |i: usize| clip(&run.variants[i].series, NAME);
    let mut out = Vec::new();
    match best.at_slo {
        Some(i) => {
            let v = &run.variants[i];
            let tokens = v.output_tokens_per_s;
            let tokens =
                tokens.map(|t| format!(", {} output tokens/s", words::figure(t))).unwrap_or_default();
            let ends = v.answer.as_ref().and_then(|a| words::ends(a.control, &a.goodput));
            let ends = ends.map(|([_, low, high], _)| format!(" (90 % interval {low} – {high})"));
            let ends = ends.unwrap_or_default();
            let others: Vec<String> = best.not_told_apart.iter().map(|i| name(*i)).collect();
            let others = match others.len() {
                0 => String::new(),
                _ => format!(" Not told apart from it by these steps: {}.", words::list(&others)),
            };
            out.push(format!(
                "Best within the SLO: {} with {}{ends}{tokens}.{others}",
                name(i),
                brief_variant(v)
            ));
        }
        None if run.variants.iter().any(|v| v.answer.is_some()) => {
            out.push("No variant is shown to keep the SLO at any rate that was measured.".into());
        }
        None => {}
    }
    if let Some(i) = best.raw_peak {
        out.push(peaks(run, &best, i));
    }
    out.extend(super::knobs::sentences(run));
    for v in run.variants.iter().filter(|v| matches!(v.state, State::Failed | State::Died)) {
        let what = if v.state == State::Died { "died" } else { "could not be measured" };
        let why = v.reason.as_deref().unwrap_or("for a reason that is not known");
        let kept = if v.answer.is_some() { " What was measured before stands." } else { "" };
        out.push(format!(
            "{} {what}: {}.{kept}",
            clip(&v.series, NAME),
            clip(why.trim_end_matches('.'), 500)
        ));
    }
    out
}

/// Returns the raw peak, and the highest peak of the variants that meet the limits on token pace.
fn peaks(run: &Run, best: &Best, raw: usize) -> String {
    let name = |i: usize| clip(&run.variants[i].series, NAME);
    let at = |i: usize| {
        let p99 = run.variants[i].peak.as_ref().and_then(|p| p.tpot_p99_ms);
        let p99 = p99.map(|ms| format!(" at a p99 TPOT of {}", words::latency(ms))).unwrap_or_default();
        format!("{} output tokens/s{p99}", words::peak_of(&run.variants[i]))
    };
    let first = format!("Raw peak, with the server kept full: {} with {}", name(raw), at(raw));
    let pace = pace(run);
    match best.peak_within_pace {
        _ if pace.is_empty() => format!("{first}."),
        Some(i) if i == raw => format!("{first}, which keeps {pace}."),
        Some(i) => format!(
            "{first}, which misses {pace}; of those that keep it full as well, the best is {} with {}.",
            name(i),
            at(i)
        ),
        None => format!("{first}; full, no variant keeps {pace}."),
    }
}

/// Returns the blocks of the section of the report; empty if the run has no variants.
pub(super) fn section(run: &Run) -> Vec<Block> {
    if !any(run) {
        return Vec::new();
    }
    let mut blocks = Block::paragraphs(sentences(run));
    blocks.extend(tables(run).into_iter().map(Block::from));
    blocks
}

/// Returns the cause and the last log lines of a variant that failed or died, for the report.
pub(super) fn failed(run: &Run, series: &str) -> Option<Vec<Block>> {
    let v = run.variants.iter().find(|v| v.series == series)?;
    if !matches!(v.state, State::Failed | State::Died) {
        return None;
    }
    let why = v.reason.as_deref().unwrap_or("The reason is not known");
    let said = [strong(status(v).words()), plain(format!(": {}.", why.trim_end_matches('.')))];
    let mut blocks = vec![Block::Paragraph(Text::of(said))];
    if let Some(log) = v.log.as_deref().filter(|_| !v.last_lines.is_empty()) {
        blocks.push(Block::paragraph(format!("The last lines of {log}:")));
        blocks.push(Block::Code { language: "text", text: v.last_lines.join("\n") });
    }
    Some(blocks)
}

/// Returns the knob of a grid with one knob: its points can be identified by their values.
fn only_knob(run: &Run) -> Option<&str> {
    let knob = |m: &'_ VariantRun| match &m.knobs[..] {
        [(name, _)] => Some(name.clone()),
        _ => None,
    };
    let first = run.meta.variants.first()?;
    let alike = run.meta.variants.iter().all(|m| knob(m).is_some() && knob(m) == knob(first));
    let name = first.knobs.first().map(|(name, _)| name.as_str());
    name.filter(|_| alike && run.variants.len() == run.meta.variants.len())
}

/// Returns the table for a terminal.
pub(super) fn brief_table(run: &Run) -> Block {
    table(run).into()
}

/// Returns sentences about the table, and the last log lines of failed variants, for a terminal.
pub(super) fn brief(run: &Run) -> Vec<Section> {
    let said = Block::paragraphs(sentences(run));
    let last = |v: &VariantAnswer| {
        let log = v.log.as_deref().unwrap_or("its log");
        let from = v.last_lines.len().saturating_sub(LINES);
        let lines = v.last_lines[from..].iter().map(|l| Entry::new(Bullet::Bar, clip(l, 160))).collect();
        let title = Entry::line(format!("{}, the last lines of {log}:", v.series));
        Section::untitled(vec![Block::Outline(vec![title.over(lines)])])
    };
    let logs = run.variants.iter().filter(|v| !v.last_lines.is_empty()).map(last);
    std::iter::once(Section::untitled(said)).chain(logs).collect()
}

#[cfg(test)]
#[path = "variants_tests.rs"]
mod tests;
