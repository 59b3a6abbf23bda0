//! The table of steps: each column is defined once, for pages and for terminals.

use super::cells::{of_step, value_of, verdict, verdict_by_fit};
use crate::document::{Block, Cell, Column, Field, Place, Priority, Table, Text, emphasis, plain};
use crate::escape::clip;
use crate::words;
use goodput_core::endpoint::Item;
use goodput_core::level::Control;
use goodput_core::slo::Metric;
use goodput_run::rundir::Run;
use goodput_stats::stats::step::{Quantiles, Step, StepKind, Verdict};

/// Width below which a terminal omits the limit that decided.
const NARROW: u16 = 96;

/// A percentile of a latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Percentile {
    P50,
    P90,
    P95,
    P99,
}

impl Percentile {
    const ALL: [Self; 4] = [Self::P50, Self::P90, Self::P95, Self::P99];

    const fn name(self) -> &'static str {
        match self {
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P95 => "p95",
            Self::P99 => "p99",
        }
    }

    const fn of(self, q: &Quantiles) -> Option<f64> {
        match self {
            Self::P50 => q.p50,
            Self::P90 => q.p90,
            Self::P95 => q.p95,
            Self::P99 => q.p99,
        }
    }
}

/// The latency of a column: a metric at one of its percentiles.
type Latency = (Metric, Percentile);

/// Returns the blocks of the section of the report; empty if there is no step.
pub(super) fn section(run: &Run) -> Vec<Block> {
    let steps: Vec<&Step> = run.steps.iter().collect();
    let table = table(run, &steps);
    if steps.is_empty() { Vec::new() } else { vec![Block::Paragraph(notes(run)), table.into()] }
}

/// Returns the table for a terminal, in the order of the levels, and the meaning of its signs.
pub(super) fn brief(run: &Run) -> Vec<Block> {
    vec![table(run, &sorted(run)).into(), Block::Legend(legend(run))]
}

/// Returns the completed requests per second; `None` if none ended within the window, but some did afterwards: a window that is
/// shorter than an answer tells nothing of throughput.
fn achieved_rate(s: &Step) -> Option<f64> {
    Some(s.achieved_rate).filter(|rate| *rate > 0.0 || s.completed == 0)
}

/// Returns the steps as a table, in the order of `steps`.
fn table(run: &Run, steps: &[&Step]) -> Table {
    let several = run.steps.iter().any(|s| s.series != run.steps[0].series);
    let mixed = words::mixed(run);
    let hits = run.steps.iter().any(|s| s.server.hit_rate.is_some());
    let [number, level] = of_step_columns(run);
    let mut fields = vec![number, level];
    if several {
        let series = Column::text("series").only(Place::Terminal).wide(16);
        fields.insert(0, Field::new(series, |s: &&Step| Cell::text(clip(&s.series, 16))));
    }
    let kind = Column::text("step for").short("step");
    fields.extend(mixed.then(|| Field::new(kind, |s: &&Step| Cell::text(s.kind.name()))));
    let requests = Column::number("requests").with(Priority::Droppable(5));
    let requests = if mixed { requests } else { requests.only(Place::Page) };
    let offered = Column::number("offered req/s").only(Place::Page);
    let achieved = Column::number("achieved req/s").short("achieved\nreq/s");
    let good = Column::number("good req/s").short("good\nreq/s").wide(5).with(Priority::Droppable(3));
    fields.extend([
        Field::new(requests, |s: &&Step| Cell::Count(s.due_n as f64)),
        Field::new(offered, |s: &&Step| Cell::number(Some(s.offered_rate))),
        Field::new(achieved, |s: &&Step| Cell::number(achieved_rate(s))),
        Field::new(good, |s: &&Step| Cell::number(Some(s.good_rate))),
    ]);
    fields.extend(run.item().map(|item| {
        let column =
            Column::number(format!("{}/s", item.plural())).short(format!("{}\nper s", item.plural()));
        Field::new(column.with(Priority::Droppable(4)), |s: &&Step| Cell::number(Some(s.items_per_s)))
    }));
    fields.extend(latencies(run));
    let in_flight = Column::number("mean in flight").short("mean in\nflight").wide(7);
    let in_flight = in_flight.only(Place::Terminal).with(Priority::Droppable(1));
    fields.push(Field::new(in_flight, |s: &&Step| Cell::number(Some(s.in_flight_mean))));
    let cached = Column::number("cache hits").short("cache\nhits").wide(5);
    fields.extend(hits.then(|| Field::new(cached, |s: &&Step| Cell::share(s.server.hit_rate))));
    fields.extend(verdicts(run));
    Table::of(fields, steps).sorted_by_readers(1)
}

/// Returns the columns of number and level; on a terminal the head of the level has the unit.
fn of_step_columns(run: &Run) -> [Field<'_, &Step>; 2] {
    let control = run.answers.first().map(|a| a.control).or(run.steps.first().map(|s| s.level.control));
    let head = match control.unwrap_or(Control::Rate) {
        Control::Rate => "level\nreq/s",
        Control::Concurrency => "level\nin flight",
        Control::Sessions => "level\nsessions/s",
        Control::TraceScale => "level\n× speed",
    };
    of_step(run, Column::level().short(head))
}

/// Returns the latencies that mostly decide, and on a terminal any other one that the SLO limits: without it the reader
/// could not see the deciding figure.
fn latencies(run: &Run) -> Vec<Field<'_, &'_ Step>> {
    let limits = run.tiers.iter().flat_map(|t| t.limits());
    let limited: Vec<Latency> = limits
        .filter_map(|l| {
            let name = l.percentile.to_string();
            Percentile::ALL.into_iter().find(|p| p.name() == name).map(|p| (l.metric, p))
        })
        .collect();
    // If responses were not streamed, e2e is the main latency; TTFT is shown as unknown.
    let whole = run.steps.iter().any(|s| s.response_metric() == Metric::E2e);
    let (first, beside) = if whole { (Metric::E2e, Metric::Ttft) } else { (Metric::Ttft, Metric::Tpot) };
    let (median, tail) = ((first, Percentile::P50), (first, Percentile::P99));
    let second = (beside, Percentile::P99);
    let measured = |m: Metric| run.steps.is_empty() || run.steps.iter().any(|s| s.quantiles(m).n > 0);
    let column = |of: Latency, place: Place, goes: Option<u8>| {
        let (metric, percentile) = of;
        let title = format!("{} {}", metric.title(), percentile.name());
        let goes = goes.filter(|_| !limited.contains(&of)).map_or(Priority::Always, Priority::Droppable);
        let (full, short) = match metric.is_ratio() {
            true => (title.clone(), format!("{}\n{}", metric.title(), percentile.name())),
            false => (format!("{title} ms"), format!("{title}\nms")),
        };
        let column = Column::number(full).short(short).only(place).with(goes);
        Field::new(column, move |s: &&Step| value_of(s, metric, percentile.of(&s.quantiles(metric))))
    };
    let mut all = Vec::new();
    let has_tokens = run.result_item().is_none();
    if whole && has_tokens {
        all.push(column((Metric::Ttft, Percentile::P99), Place::Page, None));
    }
    all.push(column(median, Place::Terminal, Some(2)));
    all.push(column(tail, Place::Everywhere, None));
    let place = match (whole, measured(Metric::Tpot)) {
        (true, _) => Place::Terminal,
        (false, true) => Place::Everywhere,
        (false, false) => Place::Page,
    };
    all.extend(has_tokens.then(|| column(second, place, Some(4))));
    // How many times faster than speech the server is matters as much as how long a request takes.
    let factors = [(Metric::Rtf, Percentile::P50), (Metric::Rtf, Percentile::P99)];
    if run.item() == Some(Item::AudioSecond) {
        all.push(column(factors[0], Place::Everywhere, Some(2)));
        all.push(column(factors[1], Place::Everywhere, Some(4)));
    }
    let shown = [median, tail, second, factors[0], factors[1]];
    let other = limited.iter().copied().find(|of| !shown.contains(of));
    all.extend(other.map(|of| column(of, Place::Terminal, None)));
    all
}

/// Returns the verdict, on wide terminals with the limit that decided.
fn verdicts(run: &Run) -> [Field<'_, &'_ Step>; 2] {
    let (head, short) = match run.tiers.first() {
        Some(t) if words::several_tiers(run) => {
            (format!("verdict ({})", clip(t.tier(), 40)), format!("verdict\n({})", clip(t.tier(), 18)))
        }
        _ => ("verdict".to_owned(), "verdict".to_owned()),
    };
    let column = || Column::text(head.clone()).short(short.clone());
    let narrow = column().wide(11).only(Place::Terminal).with(Priority::Below(NARROW));
    let bare = |s: &Step| match verdict_by_fit(run, s) {
        Cell::Verdict { mark, word, grows, expected, .. } => {
            Cell::Verdict { mark, word, limit: None, grows, expected }
        }
        other => other,
    };
    [
        Field::new(column().wide(21).with(Priority::From(NARROW)), move |s: &&Step| verdict_by_fit(run, s)),
        Field::new(narrow, move |s: &&Step| bare(s)),
    ]
}

/// Returns steps by series, the unloaded server first, then by level; those of one level in the order of measurement.
fn sorted(run: &Run) -> Vec<&Step> {
    let series: Vec<&str> = run.steps.iter().map(|s| s.series.as_str()).collect();
    let place = |s: &Step| series.iter().position(|name| *name == s.series);
    let mut steps: Vec<&Step> = run.steps.iter().collect();
    steps.sort_by(|a, b| {
        let key = |s: &Step| (place(s), s.kind != StepKind::Baseline, s.kind.is_auxiliary());
        key(a).cmp(&key(b)).then(a.level.value.total_cmp(&b.level.value)).then(a.step.cmp(&b.step))
    });
    steps
}

/// Returns the notes on the table for pages.
fn notes(run: &Run) -> Text {
    let has = |of: fn(&Step) -> bool| run.steps.iter().any(of);
    let kind = |kind: StepKind| run.steps.iter().any(|s| s.kind == kind);
    let mut text = Text::from("In the order they were measured.");
    let mut note = |spans: &[(&str, &str)]| {
        for (i, (term, meaning)) in spans.iter().enumerate() {
            text.push(plain(if i == 0 { " " } else { "; " }));
            text.push(emphasis(*term));
            text.push(plain(format!(": {meaning}")));
        }
        text.push(plain("."));
    };
    if kind(StepKind::Baseline) {
        note(&[("baseline", "one request at a time, before any load")]);
    }
    if kind(StepKind::Refine) {
        note(&[("ramp", "short, to find the range"), ("refine", "to decide")]);
    }
    if kind(StepKind::Confirm) {
        note(&[("confirm", "a soak at the safe rate, after the search")]);
    }
    if kind(StepKind::Recovery) {
        note(&[(
            "recovery",
            "the safe rate, a surge, and the safe rate again, in one step; no part of the answer",
        )]);
    }
    if kind(StepKind::Peak) {
        note(&[("peak", "a closed loop that keeps the server full, after the search")]);
    }
    if kind(StepKind::Profile) {
        note(&[("profile", "under the server's profiler, which slows it down; no part of the answer")]);
    }
    if run.steps.iter().any(|s| is_told_by_fit(run, s)) {
        note(&[(
            "fit meets, fit fails",
            "too few requests to tell by itself; the curve fitted to all steps tells",
        )]);
    }
    if has(|s| s.stable == Some(false)) {
        text.push_str(
            " ↗: the backlog grows, so the latencies have no steady value; what was seen stands in steps.csv.",
        );
    }
    text
}

fn is_undecided(s: &Step) -> bool {
    s.verdict == Verdict::Undecided && !s.kind.is_outside_search()
}

fn is_told_by_fit(run: &Run, s: &Step) -> bool {
    is_undecided(s) && verdict_by_fit(run, s) != verdict(s)
}

/// Returns the notes on the table for terminals.
fn legend(run: &Run) -> Vec<Text> {
    let any = |of: fn(&Step) -> bool| run.steps.iter().any(of);
    [
        (any(|s| s.kind == StepKind::Baseline), "baseline: one request at a time"),
        (any(|s| s.kind == StepKind::Refine), "ramp: short, to find the range"),
        (any(|s| s.kind == StepKind::Refine), "refine: to decide"),
        (any(|s| s.kind == StepKind::Confirm), "confirm: a soak at the safe rate"),
        (any(|s| s.kind == StepKind::Recovery), "recovery: the safe rate, a surge, and the safe rate again"),
        (any(|s| s.kind == StepKind::Peak), "peak: a closed loop that keeps the server full"),
        (any(|s| s.kind == StepKind::Profile), "profile: under the server's profiler"),
        (any(|s| s.stable == Some(false)), "↗ the backlog grows: no steady latency"),
        (
            run.steps.iter().any(|s| is_told_by_fit(run, s)),
            "fit meets, fit fails: told by the curve fitted to all steps",
        ),
        (
            run.steps.iter().any(|s| is_undecided(s) && !is_told_by_fit(run, s)),
            "undecided: too few requests to tell",
        ),
    ]
    .into_iter()
    .filter(|(is, _)| *is)
    .map(|(_, meaning)| meaning.into())
    .collect()
}
