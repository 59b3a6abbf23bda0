//! The description of a trace, for a reader who must know the load that its replay puts on a server.

use crate::document::{
    Block, Bullet, Cell, Column, Document, Entry, Field, Section, Setting, Table, UNKNOWN,
};
use goodput_core::units::{short, thousands};
use goodput_workload::trace::{Dispersion, Distribution, Summary, Trace, duration_text};
use serde_json::{Value, json};

/// Ratio of the index of dispersion to that of Poisson arrivals: below the range arrivals are called steady, above
/// bursty.
const POISSON: std::ops::Range<f64> = 0.7..1.5;
/// With fewer intervals than this, counts that look like Poisson's are no proof.
const ENOUGH: u64 = 100;
/// Width of the chart of the rate over time, in characters.
const LINE: usize = 60;

/// Returns the whole description for a terminal: tables, and sentences that interpret them.
pub fn brief(trace: &Trace) -> Document {
    let s = trace.summary();
    let rate = format!(
        "{} req/s in the mean, {} prompt tokens/s, {} output tokens/s",
        short(s.rate),
        thousands(s.input_tokens_per_s),
        if s.output.is_some() { thousands(s.output_tokens_per_s) } else { UNKNOWN.into() }
    );
    let blocks = format!("    {}", over_time(s));
    let rate = vec![Block::facts([("Rate", rate)]), Block::Code { language: "text", text: blocks }];
    let mut said = vec![Block::paragraph(bursts(s)), Block::paragraph(trace.prefix_note())];
    said.extend(notes(s).into_iter().map(|n| Block::Outline(vec![n])));
    let sections = vec![
        Section::untitled(vec![Block::paragraph(trace.title())]),
        Section::untitled(vec![lengths(s).into()]),
        Section::untitled(rate),
        Section::untitled(vec![dispersion(s).into()]),
        Section::untitled(said),
    ];
    Document::of(sections)
}

/// Returns a note with the lines below it.
fn in_one_text(note: &Entry) -> String {
    let below = note.below.iter().map(|line| format!("\n    {}", line.text.words()));
    format!("{}{}", note.text.words(), below.collect::<String>())
}

/// Returns the description as JSON.
pub fn json(trace: &Trace) -> Value {
    json!({
        "file": trace.source().file,
        "title": trace.title(),
        "summary": trace.summary(),
        "prefix_note": trace.prefix_note(),
        "burstiness": bursts(trace.summary()),
        "notes": notes(trace.summary()).iter().map(in_one_text).collect::<Vec<_>>(),
    })
}

fn lengths(s: &Summary) -> Table {
    /// Lengths of prompts or of answers.
    struct LengthRow<'a> {
        what: &'static str,
        lengths: &'a Distribution,
    }
    let mut rows = vec![LengthRow { what: "prompt", lengths: &s.input }];
    rows.extend(s.output.as_ref().map(|lengths| LengthRow { what: "answer", lengths }));
    let count = |head: &str, of: fn(&Distribution) -> f64| {
        Field::new(Column::number(head), move |r: &LengthRow<'_>| Cell::Count(of(r.lengths)))
    };
    let fields = vec![
        Field::new(Column::text("tokens"), |r: &LengthRow<'_>| Cell::text(r.what)),
        count("requests", |d| d.n as f64),
        count("mean", |d| d.mean),
        count("p50", |d| d.p50 as f64),
        count("p90", |d| d.p90 as f64),
        count("p99", |d| d.p99 as f64),
        count("max", |d| d.max as f64),
    ];
    Table::of(fields, &rows).set(Setting::Whole)
}

fn dispersion(s: &Summary) -> Table {
    let number = |x: f64| Cell::figure(short(x), Some(x));
    let fields = vec![
        Field::new(Column::text("counts over"), |d: &Dispersion| Cell::text(duration_text(d.width_s))),
        Field::new(Column::number("intervals"), |d: &Dispersion| Cell::Count(d.intervals as f64)),
        Field::new(Column::number("busiest req/s"), |d: &Dispersion| number(d.peak_rate)),
        Field::new(Column::number("× mean"), |d: &Dispersion| number(d.peak_rate / s.rate)),
        Field::new(Column::number("variance ÷ mean"), |d: &Dispersion| {
            d.index.map_or(Cell::Unknown, number)
        }),
    ];
    Table::of(fields, &s.dispersion).set(Setting::Whole)
}

/// Returns the rate over time as a line of block characters, each for an equal part of the time.
fn over_time(s: &Summary) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let bins = &s.over_time.bins;
    let each = bins.len().div_ceil(LINE).max(1);
    let rate = |c: &[goodput_workload::trace::Bin]| {
        c.iter().map(|b| b.requests).sum::<u64>() as f64 / (c.len() as f64 * s.over_time.width_s)
    };
    // The last bin is cut by the end of the trace: it is drawn, but does not count as the lowest rate.
    let rates: Vec<f64> = bins.chunks(each).map(rate).collect();
    let whole = if rates.len() > 1 { &rates[..rates.len() - 1] } else { &rates };
    let (most, least) =
        (rates.iter().copied().fold(0.0, f64::max), whole.iter().copied().fold(f64::INFINITY, f64::min));
    let block = |r: &f64| {
        if *r <= 0.0 { ' ' } else { BLOCKS[((r / most * 8.0).ceil() as usize).clamp(1, 8) - 1] }
    };
    format!(
        "{}  {} to {} req/s, {} a mark",
        rates.iter().map(block).collect::<String>(),
        short(least.min(most)),
        short(most),
        duration_text(each as f64 * s.over_time.width_s)
    )
}

/// Returns the effect of the burstiness of arrivals on the capacity.
fn bursts(s: &Summary) -> String {
    let Some(d) = s.telling_dispersion() else {
        return "Burstiness: too short a time to tell.".into();
    };
    let index = short(d.index.unwrap_or(1.0));
    let cv = s.gap_cv.map_or(String::new(), |cv| format!("; cv of gaps {}", short(cv)));
    let width = duration_text(d.width_s);
    match Burstiness::of(d) {
        Burstiness::Steady => format!(
            "Burstiness: counts over {width} vary only {index} times as much as those of Poisson arrivals{cv}. Arrivals are \
             steady: Poisson arrivals of the same mean would ask more of the server than this trace does."
        ),
        Burstiness::Unknown => format!(
            "Burstiness: counts over {width} vary {index} times as much as those of Poisson arrivals{cv}; with {} intervals that \
             could be chance, so nothing is said of bursts.",
            d.intervals
        ),
        Burstiness::Poisson => format!(
            "Burstiness: counts over {width} vary about as those of Poisson arrivals ({index} times){cv}: a capacity measured \
             with Poisson arrivals holds for this trace, as far as its arrivals go."
        ),
        Burstiness::Bursty => bursty(d, &cv),
    }
}

/// How counts of arrivals vary, against those of Poisson arrivals.
enum Burstiness {
    /// Less.
    Steady,
    /// By chance perhaps: too few intervals to tell.
    Unknown,
    /// As much.
    Poisson,
    /// More.
    Bursty,
}

impl Burstiness {
    fn of(d: &Dispersion) -> Self {
        let (index, chance) = (d.index.unwrap_or(1.0), chance(d));
        if index < POISSON.start.min(1.0 - chance) {
            Self::Steady
        } else if index < POISSON.end.max(1.0 + chance) && d.intervals < ENOUGH {
            Self::Unknown
        } else if index < POISSON.end {
            Self::Poisson
        } else {
            Self::Bursty
        }
    }
}

/// Returns the distance from 1 within which the index of as many Poisson counts lies in nineteen of twenty cases.
fn chance(d: &Dispersion) -> f64 {
    2.0 * (2.0 / d.intervals as f64).sqrt()
}

fn bursty(d: &Dispersion, cv: &str) -> String {
    format!(
        "Burstiness: counts over {} vary {} times as much as those of Poisson arrivals{cv}. A server sized for the mean \
         rate queues in the bursts: measure the capacity by replaying the trace, not by Poisson arrivals of the same mean.",
        duration_text(d.width_s),
        short(d.index.unwrap_or(1.0))
    )
}

/// Returns the warning of a trace whose arrivals come in bursts, as the description of the trace has it; `None` for others.
pub(crate) fn bursts_warning(d: &Dispersion) -> Option<String> {
    matches!(Burstiness::of(d), Burstiness::Bursty).then(|| bursty(d, ""))
}

/// Returns further notes.
fn notes(s: &Summary) -> Vec<Entry> {
    let count = |n: u64| thousands(n as f64);
    let requests = |n: u64| if n == 1 { "1 request".into() } else { format!("{} requests", count(n)) };
    let mut notes: Vec<Entry> = Vec::new();
    // Unreadable rows have no time, so they cannot be assigned to a window.
    let whole = if s.rows < s.rows_in_file { " of the whole file" } else { "" };
    if s.rows < s.rows_in_file {
        notes.push(Entry::line(format!("The file holds {} in all.", requests(s.rows_in_file))));
    }
    if s.failures > 0 {
        notes.push(Entry::line(format!(
            "{}{whole} failed where they were recorded and are left out.",
            requests(s.failures)
        )));
    }
    if s.bad_rows > 0 {
        let rows = if s.bad_rows == 1 { "1 row".into() } else { format!("{} rows", count(s.bad_rows)) };
        let said = format!("{rows}{whole} could not be read and are left out, first:");
        let first = s.first_bad_rows.iter().map(|b| Entry::line(b.to_string())).collect();
        notes.push(Entry::new(Bullet::None, said).over(first));
    }
    if s.out_of_order > 0 {
        notes.push(Entry::line(format!(
            "{}{whole} stood behind later ones, by up to {}; they are read in the order of time.",
            requests(s.out_of_order),
            duration_text(s.out_of_order_s)
        )));
    }
    if let Some(grid) = s.grid_s {
        notes.push(Entry::line(format!(
            "All times are multiples of {}: requests of one step ({} % come with the one before) are replayed at one moment, \
             and nothing is known of the traffic in between.",
            duration_text(grid),
            short((s.same_moment * 100.0).round())
        )));
    }
    if s.without_output > 0 {
        notes.push(Entry::line(format!(
            "{} do not tell the length of their answer: a plan that replays them needs output-tokens.",
            requests(s.without_output)
        )));
    }
    if s.estimated > 0 {
        notes.push(Entry::line(format!(
            "Lengths of {} are estimated: a token for four characters.",
            requests(s.estimated)
        )));
    }
    if let Some(sessions) = s.sessions {
        notes.push(Entry::line(format!("{} conversations.", count(sessions))));
    }
    if s.following > 0 {
        notes.push(Entry::line(format!(
            "{} follow the answer to the one before, in conversations of up to {}: they are replayed with the history before them, \
             and their times are those of the first.",
            requests(s.following),
            s.turns_max
        )));
    }
    notes.push(Entry::line(format!(
        "Longest request: {} tokens, prompt and answer together.",
        count(s.longest)
    )));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::terminal::{Screen, render};
    use goodput_workload::trace::TraceSource;
    use std::fmt::Write;

    fn described(times: impl Iterator<Item = u64>) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut text = String::new();
        for t in times {
            writeln!(text, "{{\"timestamp\":{t},\"input_length\":600,\"output_length\":30}}").unwrap();
        }
        std::fs::write(file.path(), text).unwrap();
        render(&brief(&Trace::open(&TraceSource::of(file.path())).unwrap()), &Screen::default())
    }

    /// Rows: the index of dispersion, the number of intervals, and whether a capacity warns of bursts.
    #[test]
    fn bursts_are_warned_of_where_they_are_no_chance() {
        for (index, intervals, warns) in [
            (Some(5.0), 1_000, true),
            (Some(1.2), 1_000, false),
            (Some(1.6), 20, false),
            (Some(2.5), 20, true),
            (None, 20, false),
        ] {
            let d = Dispersion { width_s: 10.0, intervals, index, peak_rate: 9.0 };
            let said = bursts_warning(&d);
            assert_eq!(said.is_some(), warns, "{index:?} {intervals}");
            assert!(said.is_none_or(|s| s.contains("over 10 s vary") && s.contains("replaying the trace")));
        }
    }

    /// Rows: times in milliseconds, and the expected text.
    #[test]
    fn bursts_are_told_from_steady_arrivals_and_from_chance() {
        let mut x = 7u64;
        let mut random = move || {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            -((x >> 11) as f64 / (1u64 << 53) as f64).max(1e-12).ln()
        };
        let mut poisson = 0.0;
        let poisson: Vec<u64> = (0..4_000)
            .map(|_| {
                poisson += 500.0 * random();
                poisson as u64
            })
            .collect();
        for (times, says) in [
            ((0..4_000).map(|i| i * 500).collect(), "Arrivals are steady"),
            (poisson.clone(), "about as those of Poisson arrivals"),
            (poisson[..500].to_vec(), "could be chance"),
            (
                (0..4_000).map(|i| i / 400 * 200_000 + i % 400 * 50).collect(),
                "measure the capacity by replaying",
            ),
            ((0..400).map(|i| i / 10 * 30_000).collect::<Vec<u64>>(), "All times are multiples of 30 s"),
            (vec![5], "too short a time to tell"),
            (vec![5, 5, 5], "too short a time to tell"),
        ] {
            let text = described(times.into_iter());
            assert!(text.contains(says), "{says}: {text}");
            assert!(text.contains("prompt") && text.contains("generator's choice"), "{text}");
        }
    }
}
