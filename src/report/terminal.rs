//! The answer and the steps for a terminal.

use super::escape::{clip, plain};
use super::tables::{UNKNOWN as NOTHING, verdict};
use super::words;
use crate::level::Control;
use crate::rundir::Run;
use crate::search::answer::Answer;
use crate::slo::Metric;
use crate::stats::step::{Quantiles, Step, StepKind, Verdict};
use crate::units::short;
use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use std::path::{Path, PathBuf};

/// Columns of a terminal that does not tell its width.
const WIDTH: u16 = 100;
/// Below this width the table leaves out which limit decided.
const NARROW: u16 = 96;
/// Marks a step whose backlog grows.
const GROWS: &str = " ↗";

/// Percentiles that a step has.
const PERCENTILES: [&str; 4] = ["p50", "p90", "p95", "p99"];

/// Lines above, below and under the head; none between rows, so that a sweep of twenty steps stays on one screen.
const STYLE: TableStyle = {
    let line = LineStyle::none().fill('─').junction('─');
    TableStyle::new().top_border(line).header_separator(line).bottom_border(line)
};

/// A column of the table of steps.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Column {
    Series,
    Level(Control),
    Kind,
    Requests,
    Achieved,
    Good,
    /// A metric at one of [`PERCENTILES`].
    Latency(Metric, &'static str),
    InFlight,
    /// Whether with the limit that decided.
    Verdict(bool),
}

/// The steps as a table that fits into `width` columns (100 where it is not known), in order of their levels.
pub fn table(run: &Run, width: Option<u16>) -> String {
    let width = width.unwrap_or(WIDTH);
    let columns = columns(run, width);
    let mut table = Table::new();
    table.load_style(STYLE).set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    table.set_header(columns.iter().map(|c| head(*c)));
    for s in sorted(run) {
        table.add_row(columns.iter().map(|c| cell(*c, s)));
    }
    let tight = room(&columns, 3) > width;
    for (column, of) in table.column_iter_mut().zip(&columns) {
        let text = matches!(of, Column::Series | Column::Kind | Column::Verdict(_));
        column.set_cell_alignment(if text { CellAlignment::Left } else { CellAlignment::Right });
        if tight {
            column.set_padding((0, 1));
        }
    }
    let mut lines: Vec<String> = table.to_string().lines().map(|l| l.trim_end().to_owned()).collect();
    lines.extend(legend(run, usize::from(width)));
    lines.join("\n")
}

/// Steps by series, the unloaded server first, then by level; those of one level as they were measured.
fn sorted(run: &Run) -> Vec<&Step> {
    let series: Vec<&str> = run.steps.iter().map(|s| s.series.as_str()).collect();
    let place = |s: &Step| series.iter().position(|name| *name == s.series);
    let mut steps: Vec<&Step> = run.steps.iter().collect();
    steps.sort_by(|a, b| {
        let key = |s: &Step| (place(s), s.kind != StepKind::Baseline);
        key(a).cmp(&key(b)).then(a.level.value.total_cmp(&b.level.value)).then(a.step.cmp(&b.step))
    });
    steps
}

/// The columns that fit, the least telling ones left out first.
fn columns(run: &Run, width: u16) -> Vec<Column> {
    let level = run.answers.first().map(|a| a.control).or(run.steps.first().map(|s| s.level.control));
    let several = run.steps.iter().any(|s| s.series != run.steps[0].series);
    let mixed = words::mixed(run);
    let limits = run.tiers.iter().flat_map(|t| t.limits());
    let limited: Vec<Column> = limits
        .filter_map(|l| {
            let name = l.percentile.to_string();
            PERCENTILES.into_iter().find(|p| *p == name).map(|p| Column::Latency(l.metric, p))
        })
        .collect();
    let (median, tail) = (Column::Latency(Metric::Ttft, "p50"), Column::Latency(Metric::Ttft, "p99"));
    let tpot = Column::Latency(Metric::Tpot, "p99");
    // A limit on anything else needs its column: without it the reader cannot see what decided.
    let other = limited.iter().copied().find(|c| ![median, tail, tpot].contains(c));
    let measured = |m: Metric| run.steps.is_empty() || run.steps.iter().any(|s| s.quantiles(m).n > 0);
    let all = [
        several.then_some(Column::Series),
        Some(Column::Level(level.unwrap_or(Control::Rate))),
        mixed.then_some(Column::Kind),
        mixed.then_some(Column::Requests),
        Some(Column::Achieved),
        Some(Column::Good),
        Some(median),
        Some(tail),
        measured(Metric::Tpot).then_some(tpot),
        other,
        Some(Column::InFlight),
        Some(Column::Verdict(width >= NARROW)),
    ];
    let mut columns: Vec<Column> = all.into_iter().flatten().collect();
    for least in [Column::InFlight, median, Column::Good, tpot, Column::Requests] {
        if room(&columns, 2) > width && !limited.contains(&least) {
            columns.retain(|c| *c != least);
        }
    }
    columns
}

/// Characters that columns take up, each with so many between it and the next.
fn room(columns: &[Column], between: u16) -> u16 {
    let wide = |c: &Column| match c {
        Column::Series => 16,
        Column::Good => 5,
        Column::InFlight => 7,
        Column::Verdict(true) => 21,
        Column::Verdict(false) => 11,
        _ => 8,
    };
    columns.iter().map(|c| wide(c) + between).sum()
}

fn head(column: Column) -> String {
    match column {
        Column::Series => "series".into(),
        Column::Level(Control::Rate) => "offered\nreq/s".into(),
        Column::Level(Control::Concurrency) => "in\nflight".into(),
        Column::Level(Control::Sessions) => "level\nsessions/s".into(),
        Column::Level(Control::TraceScale) => "level\n× speed".into(),
        Column::Kind => "step".into(),
        Column::Requests => "requests".into(),
        Column::Achieved => "achieved\nreq/s".into(),
        Column::Good => "good\nreq/s".into(),
        Column::Latency(metric, percentile) => format!("{} {percentile}\nms", metric.title()),
        Column::InFlight => "mean in\nflight".into(),
        Column::Verdict(_) => "verdict".into(),
    }
}

fn cell(column: Column, s: &Step) -> String {
    // Ten seconds and more are an overload: to the second is enough, and keeps the column narrow.
    let ms =
        |x: Option<f64>| x.map_or("–".into(), |x| if x < 9_999.5 { short(x) } else { words::latency(x) });
    match column {
        Column::Series => clip(&s.series, 16),
        Column::Level(_) if s.kind == StepKind::Baseline => "unloaded".into(),
        Column::Level(_) => short(s.level.value),
        Column::Kind => s.kind.name().into(),
        Column::Requests => super::charts::thousands(s.due_n as f64),
        Column::Achieved => short(s.achieved_rate),
        Column::Good => short(s.good_rate),
        Column::Latency(metric, percentile) => ms(quantile(&s.quantiles(metric), percentile)),
        Column::InFlight => short(s.in_flight_mean),
        Column::Verdict(detail) => verdict_cell(s, detail),
    }
}

fn quantile(q: &Quantiles, percentile: &str) -> Option<f64> {
    match percentile {
        "p50" => q.p50,
        "p90" => q.p90,
        "p95" => q.p95,
        _ => q.p99,
    }
}

/// The verdict, the limit that decided (where a ramp is undecided, that is no news), and whether the backlog grows.
fn verdict_cell(s: &Step, detail: bool) -> String {
    let undecided = s.verdict == Verdict::Undecided;
    let quiet = s.verdict == Verdict::Meets || (undecided && s.kind == StepKind::Ramp);
    let decided = s.binding.as_deref().filter(|_| detail && !quiet);
    let decided = decided.map(|b| format!(": {}", clip(&words::binding(b), 18))).unwrap_or_default();
    let grows = if s.stable == Some(false) { GROWS } else { "" };
    match verdict(s) {
        NOTHING => NOTHING.into(),
        said => format!("{said}{decided}{grows}"),
    }
}

/// What the marks of the table mean, where it has any.
fn legend(run: &Run, width: usize) -> Vec<String> {
    let any = |of: fn(&Step) -> bool| run.steps.iter().any(of);
    let marks = [
        (any(|s| s.kind == StepKind::Baseline), "unloaded: one request at a time"),
        (any(|s| s.stable == Some(false)), "↗ the backlog grows"),
        (
            any(|s| s.verdict == Verdict::Undecided && s.kind != StepKind::Baseline),
            "undecided: too few requests to tell",
        ),
    ];
    let marks = marks.into_iter().filter(|(is, _)| *is).map(|(_, mark)| mark);
    let mut lines: Vec<String> = Vec::new();
    for mark in marks {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 3 + mark.chars().count() <= width => {
                line.push_str(&format!(" · {mark}"));
            }
            _ => lines.push(format!(" {mark}")),
        }
    }
    lines
}

/// The answer in words, its figures, caveats with advice, and where the files are.
pub fn answer(run: &Run, files: &[PathBuf]) -> String {
    let mut out = String::new();
    match run.answers.first() {
        None => out.push_str("No answer: no step was finished.\n"),
        Some(a) => {
            let [first, second] = words::sentences(run, a);
            out.push_str(&format!("{}\n{}\n\n", plain(&first), plain(&second)));
            out.push_str(&figures(run, a));
        }
    }
    for a in run.answers.iter().skip(1) {
        let whose = plain(&format!("{}, {}, {}", a.series, a.tier, a.class));
        out.push_str(&format!("{whose}: goodput {}\n", words::goodput_cell(a.control, &a.goodput)));
    }
    let caveats = words::caveats(run);
    if !caveats.is_empty() {
        out.push_str("\nRead this with care:\n");
    }
    for (text, advice) in caveats {
        out.push_str(&format!("! {}\n  → {}\n", plain(&text), plain(advice)));
    }
    out.push_str(&places(files));
    out
}

/// The three goodputs, the knee, and what the level shown to meet amounts to.
fn figures(run: &Run, a: &Answer) -> String {
    let cell = |g| words::goodput_cell(a.control, g);
    let target = words::joint_target(run, a);
    let mut rows: Vec<(&str, String)> = vec![
        ("goodput", format!("{} · each limit on its own", cell(&a.goodput))),
        ("joint goodput", format!("{} · {target} of requests within all limits", cell(&a.joint_goodput))),
        ("good requests/s", format!("{} · within all limits", words::good_requests(run, a))),
    ];
    if let Some(k) = &a.knee {
        let level = words::level(a.control, k.rate);
        rows.push(("knee", format!("{level}, {} req/s achieved · not the SLO answer", short(k.throughput))));
    }
    let out = listed(&rows);
    let Some(c) = run.capacity(a) else { return out };
    let basis = words::basis(a, &c);
    format!(
        "{out}\nHeld all the time {basis}, with nothing in reserve:\n{}",
        listed(&words::in_short(run, &c))
    )
}

/// Lines of a name and what it is, in two columns.
fn listed(rows: &[(&str, String)]) -> String {
    let widest = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    rows.iter().map(|(name, text)| format!("{name:widest$}  {}\n", plain(text))).collect()
}

/// Where the files are: a line per folder.
fn places(files: &[PathBuf]) -> String {
    let mut folders: Vec<(&Path, Vec<String>)> = Vec::new();
    for f in files {
        let folder = f.parent().unwrap_or(Path::new(""));
        let name = f.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match folders.iter_mut().find(|(known, _)| *known == folder) {
            Some((_, names)) => names.push(name),
            None => folders.push((folder, vec![name])),
        }
    }
    let line = |(folder, names): &(&Path, Vec<String>)| match names.as_slice() {
        [one] => format!("{}\n", plain(&folder.join(one).display().to_string())),
        names => format!("{}: {}\n", plain(&folder.display().to_string()), plain(&names.join(", "))),
    };
    let lines: String = folders.iter().map(line).collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

/// Verdicts and caveats of a text in colour, where `color` is set; nothing is told by colour alone. An undecided step
/// is coloured only where the limit stands behind it: those of a ramp are no news.
pub fn paint(text: &str, color: bool) -> String {
    if !color {
        return text.to_owned();
    }
    [("● meets", 32), ("✕ fails", 31), ("○ undecided:", 33), ("△ invalid", 90), ("\n! ", 33)]
        .into_iter()
        .fold(text.to_owned(), |t, (word, code)| {
            let (before, word) = word.strip_prefix('\n').map_or(("", word), |w| ("\n", w));
            t.replace(&format!("{before}{word}"), &format!("{before}\u{1b}[{code}m{word}\u{1b}[0m"))
        })
}

#[cfg(test)]
mod tests;
