//! The answer and the steps for a terminal.

use super::escape::{clip, plain};
use super::tables::{UNKNOWN as NOTHING, latency, verdict};
use super::{checks, groups, matrix, offline, recovery, roofline, sensitivity, server, why, words};
use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use goodput_core::level::Control;
use goodput_core::slo::Metric;
use goodput_run::rundir::Run;
use goodput_stats::search::answer::Answer;
use goodput_stats::stats::groups::GroupBy;
use goodput_stats::stats::step::{Quantiles, Step, StepKind, Verdict};
use std::path::{Path, PathBuf};

/// Columns of a terminal that does not tell its width.
pub(super) const WIDTH: u16 = 100;
/// Below this width the table leaves out which limit decided.
const NARROW: u16 = 96;
/// Marks a step whose backlog grows.
const GROWS: &str = " ↗";

/// Percentiles that a step has.
const PERCENTILES: [&str; 4] = ["p50", "p90", "p95", "p99"];

/// Lines above, below and under the head; none between rows, so that a sweep of twenty steps stays on one screen.
pub(super) const STYLE: TableStyle = {
    let line = LineStyle::none().fill('─').junction('─');
    TableStyle::new().top_border(line).header_separator(line).bottom_border(line)
};

/// A column of the table of steps.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Column {
    Series,
    /// The step's number.
    Number,
    Level(Control),
    Kind,
    Requests,
    Achieved,
    Good,
    /// A metric at one of [`PERCENTILES`].
    Latency(Metric, &'static str),
    InFlight,
    /// Share of the prompt tokens from the server's prefix cache.
    HitRate,
    /// Whether with the limit that decided.
    Verdict(bool),
}

/// The steps as a table that fits into `width` columns (100 where it is not known), in order of their levels.
pub fn table(run: &Run, width: Option<u16>) -> String {
    let width = width.unwrap_or(WIDTH);
    let columns = columns(run, width);
    let mut table = Table::new();
    table.load_style(STYLE).set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    table.set_header(columns.iter().map(|c| head(run, *c)));
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
        let key = |s: &Step| (place(s), s.kind != StepKind::Baseline, s.kind.is_auxiliary());
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
    let whole = run.steps.iter().any(|s| s.response_metric() == Metric::E2e);
    // Where answers came in one piece e2e is what there is; that TTFT is not known is shown.
    let (first, beside) = if whole { (Metric::E2e, Metric::Ttft) } else { (Metric::Ttft, Metric::Tpot) };
    let (median, tail) = (Column::Latency(first, "p50"), Column::Latency(first, "p99"));
    let tpot = Column::Latency(beside, "p99");
    // A limit on anything else needs its column: without it the reader cannot see what decided.
    let other = limited.iter().copied().find(|c| ![median, tail, tpot].contains(c));
    let measured = |m: Metric| run.steps.is_empty() || run.steps.iter().any(|s| s.quantiles(m).n > 0);
    let all = [
        several.then_some(Column::Series),
        Some(Column::Number),
        Some(Column::Level(level.unwrap_or(Control::Rate))),
        mixed.then_some(Column::Kind),
        mixed.then_some(Column::Requests),
        Some(Column::Achieved),
        Some(Column::Good),
        Some(median),
        Some(tail),
        (whole || measured(Metric::Tpot)).then_some(tpot),
        other,
        Some(Column::InFlight),
        run.steps.iter().any(|s| s.server.hit_rate.is_some()).then_some(Column::HitRate),
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
        Column::Number => 2,
        Column::Good => 5,
        Column::InFlight => 7,
        Column::HitRate => 5,
        Column::Verdict(true) => 21,
        Column::Verdict(false) => 11,
        _ => 8,
    };
    columns.iter().map(|c| wide(c) + between).sum()
}

fn head(run: &Run, column: Column) -> String {
    match column {
        Column::Series => "series".into(),
        Column::Number => "#".into(),
        Column::Level(Control::Rate) => "level\nreq/s".into(),
        Column::Level(Control::Concurrency) => "level\nin flight".into(),
        Column::Level(Control::Sessions) => "level\nsessions/s".into(),
        Column::Level(Control::TraceScale) => "level\n× speed".into(),
        Column::Kind => "step".into(),
        Column::Requests => "requests".into(),
        Column::Achieved => "achieved\nreq/s".into(),
        Column::Good => "good\nreq/s".into(),
        Column::Latency(metric, percentile) => format!("{} {percentile}\nms", metric.title()),
        Column::InFlight => "mean in\nflight".into(),
        Column::HitRate => "cache\nhits".into(),
        Column::Verdict(_) => match run.tiers.first() {
            Some(t) if words::several_tiers(run) => format!("verdict\n({})", clip(t.tier(), 18)),
            _ => "verdict".into(),
        },
    }
}

fn cell(column: Column, s: &Step) -> String {
    match column {
        Column::Series => clip(&s.series, 16),
        Column::Level(_) if s.kind == StepKind::Baseline => "unloaded".into(),
        Column::Level(_) if s.kind == StepKind::Peak => "full".into(),
        Column::Number => s.step.to_string(),
        Column::Level(_) => words::level_number(s.level.value),
        Column::Kind => s.kind.name().into(),
        Column::Requests => super::charts::thousands(s.due_n as f64),
        Column::Achieved => words::figure(s.achieved_rate),
        Column::Good => words::figure(s.good_rate),
        Column::Latency(metric, percentile) => latency(s, quantile(&s.quantiles(metric), percentile)),
        Column::InFlight => words::figure(s.in_flight_mean),
        Column::HitRate => s.server.hit_rate.map_or(NOTHING.into(), |r| format!("{:.0} %", 100.0 * r)),
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
    let decided = decided.map(|b| format!(": {}", clip(&words::binding_in_short(b), 18))).unwrap_or_default();
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
        (any(|s| s.kind == StepKind::Baseline), "baseline: one request at a time"),
        (any(|s| s.kind == StepKind::Refine), "ramp: short, to find the range"),
        (any(|s| s.kind == StepKind::Refine), "refine: to decide"),
        (any(|s| s.kind == StepKind::Confirm), "confirm: a soak at the safe rate"),
        (any(|s| s.kind == StepKind::Recovery), "recovery: the safe rate, a surge, and the safe rate again"),
        (any(|s| s.kind == StepKind::Peak), "peak: a closed loop that keeps the server full"),
        (any(|s| s.kind == StepKind::Profile), "profile: under the server's profiler"),
        (any(|s| s.stable == Some(false)), "↗ the backlog grows: no steady latency"),
        (
            any(|s| s.verdict == Verdict::Undecided && !s.kind.is_outside_search()),
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
            let s = words::sentences(run, a);
            let said = [s.answer, s.plan, s.soak, s.with, s.evidence].map(|s| plain(&s));
            out.push_str(
                &said.iter().filter(|s| !s.is_empty()).map(|s| format!("{s}\n")).collect::<String>(),
            );
            out.push_str(&format!("\n{}", figures(run, a)));
        }
    }
    out.push_str(&run.answers.iter().skip(1).map(|a| other(run, a)).collect::<String>());
    for line in [groups::in_short(run, GroupBy::Class), groups::in_short(run, GroupBy::Turn)] {
        if !line.is_empty() {
            out.push_str(&format!("\n{}\n", plain(&line)));
        }
    }
    out.push_str(&checks::lines(run));
    out.push_str(&sensitivity::terminal(run));
    out.push_str(&recovery::terminal(run));
    out.push_str(&causes(run));
    out.push_str(&caveats(run));
    out.push_str(&places(files));
    out
}

/// What is printed of a run that has questions of its own, a table and an answer: those of a matrix, and of what has no limit to keep.
pub fn own(run: &Run, files: &[PathBuf], width: Option<u16>) -> Option<(String, String)> {
    let width = width.unwrap_or(WIDTH);
    let (table, said) = match (run.purpose.is_goodput(), run.matrix.is_empty()) {
        (true, true) => return None,
        (true, false) => matrix::terminal(run, width),
        (false, _) => offline::terminal(run, width),
    };
    Some((table, format!("{said}{}{}{}", causes(run), caveats(run), places(files))))
}

/// What was measured beside what the hardware allows, and why limits were missed.
pub(super) fn causes(run: &Run) -> String {
    let floors: String = roofline::lines(run).iter().map(|line| format!("\n{}\n", plain(line))).collect();
    format!("{floors}{}", why::terminal(run))
}

/// What to read with care, each with what to do about it.
pub(super) fn caveats(run: &Run) -> String {
    let caveats = words::caveats(run);
    let mut out = String::new();
    if !caveats.is_empty() {
        out.push_str("\nCaveats:\n");
    }
    for said in caveats {
        out.push_str(&format!("! {}\n  → {}\n", plain(&said.text), plain(said.advice)));
    }
    out
}

/// What is said of an answer that is not the first: the answer, and what it amounts to.
pub(super) fn other(run: &Run, a: &Answer) -> String {
    let words::Said { answer, plan, .. } = words::sentences(run, a);
    let said = format!("{answer} {plan}");
    let limit = words::cost_limit(run, a).map(|c| format!("; cost limit {c}")).unwrap_or_default();
    let amounts = format!("{}{limit}", amounts(run, a));
    format!("\n{}\n  {}: {}\n", plain(said.trim_end()), plain(&words::whose(run, a)), plain(&amounts))
}

/// What an answer amounts to, in one line.
pub(super) fn amounts(run: &Run, a: &Answer) -> String {
    run.capacity(a).map_or_else(
        || format!("goodput {}", words::goodput_cell(a.control, &a.goodput)),
        |c| {
            let part = |(name, text): (&str, String)| match name {
                "requests" => text,
                _ => format!("{name} {text}"),
            };
            // Where there is a safe rate it is the one to plan with.
            let (c, basis) = match run.capacity_at_safe_rate(a) {
                Some(safe) => (safe.clone(), words::safe_basis(a, &safe)),
                None => (c.clone(), words::basis(a, &c)),
            };
            let parts: Vec<String> = words::in_short(run, &c).into_iter().map(part).collect();
            format!("held all the time {basis}: {}", parts.join("; "))
        },
    )
}

/// The three goodputs, the knee, how far the client was from its limits, and what the level shown to meet amounts to.
fn figures(run: &Run, a: &Answer) -> String {
    let cell = |g| words::goodput_cell(a.control, g);
    let target = words::joint_target(run, a);
    let mut rows: Vec<(&str, String)> = vec![
        ("goodput", format!("{} · each limit on its own", cell(&a.goodput))),
        ("joint goodput", format!("{} · {target} of requests within all limits", cell(&a.joint_goodput))),
        (
            "good requests/s",
            format!("{} · due in the window and within all limits", words::good_requests(run, a)),
        ),
    ];
    rows.extend(words::knee(a).map(|k| ("knee", k)));
    rows.extend(words::client_in_short(run).map(|c| ("client", c)));
    rows.extend(server::in_short(run, a).map(|s| ("server", s)));
    rows.extend(words::cost_limit(run, a).map(|c| ("cost limit", c)));
    let whose = words::whose(run, a);
    let of = if whose.is_empty() { whose } else { format!("{}:\n", plain(&whose)) };
    let out = format!("{of}{}", listed(&rows));
    let Some(c) = run.capacity(a) else { return out };
    let within = if words::several_tiers(run) {
        format!("within {} ", plain(&words::slo_name(run, a)))
    } else {
        String::new()
    };
    let Some(safe) = run.capacity_at_safe_rate(a) else {
        let (basis, rows) = (words::basis(a, &c), words::in_short(run, &c));
        return format!(
            "{out}\nHeld all the time {within}{basis}, with nothing in reserve:\n{}",
            listed(&rows)
        );
    };
    let beside = words::in_short(run, &c).into_iter().map(|(name, text)| match name {
        "requests" => text,
        _ => format!("{name} {text}"),
    });
    let beside = beside.filter(|text| !text.starts_with("per GPU")).collect::<Vec<_>>().join("; ");
    format!(
        "{out}\nHeld all the time {within}{}:\n{}And {}, with nothing in reserve: {}\n",
        words::safe_basis(a, &safe),
        listed(&words::in_short(run, &safe)),
        words::basis(a, &c),
        plain(&beside)
    )
}

/// Lines of a name and what it is, in two columns.
fn listed(rows: &[(&str, String)]) -> String {
    let widest = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    rows.iter().map(|(name, text)| format!("{name:widest$}  {}\n", plain(text))).collect()
}

/// Where the files are: those that stand alone by name, of a folder of charts how many.
pub(super) fn places(files: &[PathBuf]) -> String {
    let folder = |f: &Path| f.parent().unwrap_or(Path::new("")).to_path_buf();
    let ends = |f: &Path, ending: &str| f.extension().is_some_and(|e| e == ending);
    let slides = |f: &Path| folder(f).ends_with("slides");
    let charts = |f: &Path| ends(f, "png") && !slides(f);
    let mut lines: Vec<String> = files
        .iter()
        .filter(|f| !ends(f, "png") && !ends(f, "svg"))
        .map(|f| plain(&f.display().to_string()))
        .collect();
    if let Some(first) = files.iter().find(|f| charts(f)) {
        let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let mut parts =
            vec![format!("{} as PNG and SVG", count(files.iter().filter(|f| charts(f)).count(), "chart"))];
        let slides = files.iter().filter(|f| ends(f, "png") && slides(f)).count();
        parts.extend((slides > 0).then(|| count(slides, "slide")));
        lines.push(format!("{}: {}", plain(&folder(first).display().to_string()), parts.join(", ")));
    }
    if lines.is_empty() { String::new() } else { format!("\n{}\n", lines.join("\n")) }
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
