//! Variants side by side: a table, which is best by what, and what became of those that failed.

use super::escape::{clip, fence, markdown, plain};
use super::tables::{UNKNOWN, table};
use super::terminal::STYLE;
use super::words;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use goodput_core::level::Control;
use goodput_core::slo::{Limit, Metric};
use goodput_run::rundir::variants::{Best, Peak, State, VariantAnswer};
use goodput_run::rundir::{Run, VariantRun};
use goodput_stats::search::answer::{Goodput, Status};

/// Names longer than this are cut.
const NAME: usize = 40;
/// Below this width the terminal's table has fewer columns: with all of them heads would be broken within words.
const NARROW: u16 = 124;

/// A cell of the comparison: its head in the report and in the terminal, whether it is text, whether a narrow terminal has it, and
/// what it says of a variant.
type Column = (&'static str, &'static str, bool, bool, fn(&VariantAnswer) -> String);

const COLUMNS: [Column; 11] = [
    ("variant", "variant", true, true, |v| v.series.clone()),
    ("status", "status", true, true, status),
    ("goodput", "goodput", true, true, goodput),
    ("90 % interval", "90 %\ninterval", false, true, interval),
    ("safe rate", "safe\nrate", false, true, safe),
    ("limit that binds", "limit\nthat binds", true, false, binding),
    ("joint goodput", "joint\ngoodput", true, false, joint),
    ("output tokens/s at the limit", "tok/s at\nthe limit", false, true, |v| number(v.output_tokens_per_s)),
    ("raw peak, output tokens/s", "raw peak\ntok/s", false, true, |v| {
        of_peak(v, |p| Some(p.output_tokens_per_s))
    }),
    ("TPOT p50 / p99 at the peak, ms", "TPOT p50 / p99\nat the peak, ms", false, true, tpot),
    ("preemptions", "preemp-\ntions", false, true, preemptions),
];

fn number(x: Option<f64>) -> String {
    x.filter(|x| x.is_finite()).map(words::figure).unwrap_or_default()
}

fn of_peak(v: &VariantAnswer, of: fn(&Peak) -> Option<f64>) -> String {
    number(v.peak.as_ref().and_then(of))
}

fn status(v: &VariantAnswer) -> String {
    let memory = if v.out_of_memory { ", out of memory" } else { "" };
    match v.state {
        State::Failed | State::Died => format!("✕ {}{memory}", v.state.name()),
        State::Waiting | State::Running => format!("○ {}", v.state.name()),
        State::Done => v.state.name().into(),
    }
}

fn tpot(v: &VariantAnswer) -> String {
    let Some(p) = &v.peak else { return String::new() };
    match (p.tpot_p50_ms, p.tpot_p99_ms) {
        (None, None) => String::new(),
        (p50, p99) => format!("{} / {}", number(p50), number(p99)),
    }
}

/// In all steps; of those at the peak, where they are some.
fn preemptions(v: &VariantAnswer) -> String {
    let Some(all) = v.preemptions else { return String::new() };
    super::charts::thousands(all)
}

/// The answer of a variant that has one to show: not where nothing was measured.
fn answer(v: &VariantAnswer) -> Option<&goodput_stats::search::answer::Answer> {
    v.answer.as_ref()
}

fn goodput(v: &VariantAnswer) -> String {
    let Some(a) = answer(v) else { return String::new() };
    match words::ends(a.control, &a.goodput) {
        Some(([rate, ..], _)) => {
            let open = if a.goodput.status == Status::Undecided { "undecided: " } else { "" };
            format!("{open}{rate}{}", a.control.unit())
        }
        None => words::goodput_cell(a.control, &a.goodput),
    }
}

fn interval(v: &VariantAnswer) -> String {
    let of = |a: &goodput_stats::search::answer::Answer| words::ends(a.control, &a.goodput);
    answer(v).and_then(of).map(|([_, low, high], _)| format!("{low} – {high}")).unwrap_or_default()
}

fn safe(v: &VariantAnswer) -> String {
    let Some(a) = answer(v) else { return String::new() };
    match words::ends(a.control, &a.goodput) {
        Some((_, safe)) => safe.unwrap_or_else(|| "none".into()),
        None => goodput_run::rundir::derive::usable_safe_rate(&a.goodput)
            .map(words::level_number)
            .unwrap_or_default(),
    }
}

fn binding(v: &VariantAnswer) -> String {
    answer(v).and_then(|a| a.goodput.binding.as_deref()).map(words::binding).unwrap_or_default()
}

fn joint(v: &VariantAnswer) -> String {
    let Some(a) = answer(v) else { return String::new() };
    match words::ends(a.control, &a.joint_goodput) {
        Some(([rate, ..], _)) => format!("{rate}{}", a.control.unit()),
        None => words::goodput_cell(a.control, &a.joint_goodput),
    }
}

/// The columns that say something of any variant.
fn columns(run: &Run) -> impl Iterator<Item = &'static Column> {
    COLUMNS.iter().filter(|(.., of)| run.variants.iter().any(|v| !of(v).is_empty()))
}

/// Whether there is anything to say of variants.
pub fn any(run: &Run) -> bool {
    !run.variants.is_empty()
}

/// The variants in one line, for above a report and its charts; `None` where the run has none.
pub fn headline(run: &Run) -> Option<String> {
    if !any(run) {
        return None;
    }
    let best = Best::of(&run.variants);
    let at_slo = best.at_slo.map(|i| {
        let v = &run.variants[i];
        format!("best within the SLO: {} ({})", clip(&v.series, NAME), brief(v))
    });
    let raw = best.raw_peak.map(|i| {
        let v = &run.variants[i];
        format!("raw peak: {} ({} output tokens/s)", clip(&v.series, NAME), peak_of(v))
    });
    let said: Vec<String> = at_slo.into_iter().chain(raw).collect();
    let n = run.meta.variants.len();
    let variants = if n == 1 { "1 variant".to_owned() } else { format!("{n} variants") };
    Some(match said.is_empty() {
        true if run.variants.iter().all(|v| v.answer.is_none()) => {
            format!("{variants}, and none could be measured")
        }
        true => format!("{variants}, and none is shown to keep the SLO"),
        false => format!("Of {variants} {}", said.join("; ")),
    })
}

/// The goodput in short: `31.5 req/s`, `at least 30 req/s`.
fn brief(v: &VariantAnswer) -> String {
    let Some(a) = answer(v) else { return v.state.name().into() };
    match words::ends(a.control, &a.goodput) {
        Some(([rate, ..], _)) => format!("{rate}{}", a.control.unit()),
        None => {
            let met = v.goodput().map(|(rate, _)| words::level_number(rate)).unwrap_or_default();
            format!("at least {met}{}", a.control.unit())
        }
    }
}

fn peak_of(v: &VariantAnswer) -> String {
    of_peak(v, |p| Some(p.output_tokens_per_s))
}

/// Limits on the pace of tokens of the first tier: `p99 TPOT ≤ 20 ms`.
fn pace(run: &Run) -> String {
    let paced = |l: &Limit| matches!(l.metric, Metric::Tpot | Metric::Itl);
    let limits = run.tiers.first().map(goodput_core::slo::Slo::limits).unwrap_or_default();
    words::list(&limits.iter().filter(|l| paced(l)).map(words::limit).collect::<Vec<_>>())
}

/// Which variant is best at the SLO, which at raw throughput, and what became of those that failed.
pub fn sentences(run: &Run) -> Vec<String> {
    let best = Best::of(&run.variants);
    let name = |i: usize| clip(&run.variants[i].series, NAME);
    let mut out = Vec::new();
    match best.at_slo {
        Some(i) => {
            let v = &run.variants[i];
            let tokens = v.output_tokens_per_s;
            let tokens =
                tokens.map(|t| format!(", {} output tokens/s", words::figure(t))).unwrap_or_default();
            let ends = interval(v);
            let ends = if ends.is_empty() { ends } else { format!(" (90 % interval {ends})") };
            let others: Vec<String> = best.not_told_apart.iter().map(|i| name(*i)).collect();
            let others = match others.len() {
                0 => String::new(),
                _ => format!(" Not told apart from it by these steps: {}.", words::list(&others)),
            };
            out.push(format!("Best within the SLO: {} with {}{ends}{tokens}.{others}", name(i), brief(v)));
        }
        None if run.variants.iter().any(|v| v.answer.is_some()) => {
            out.push("No variant is shown to keep the SLO at any rate that was measured.".into());
        }
        None => {}
    }
    if let Some(i) = best.raw_peak {
        out.push(peaks(run, &best, i));
    }
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

/// The raw peak, and the highest of those that keep the pace of tokens within the SLO.
fn peaks(run: &Run, best: &Best, raw: usize) -> String {
    let name = |i: usize| clip(&run.variants[i].series, NAME);
    let at = |i: usize| {
        let p99 = run.variants[i].peak.as_ref().and_then(|p| p.tpot_p99_ms);
        let p99 = p99.map(|ms| format!(" at a p99 TPOT of {}", words::latency(ms))).unwrap_or_default();
        format!("{} output tokens/s{p99}", peak_of(&run.variants[i]))
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

/// The section of the Markdown report.
pub(super) fn section(run: &Run) -> String {
    let columns: Vec<&Column> = columns(run).collect();
    let head: Vec<&str> = columns.iter().map(|c| c.0).collect();
    let left: Vec<&str> = columns.iter().filter(|c| c.2).map(|c| c.0).collect();
    let cell = |text: String| if text.is_empty() { UNKNOWN.to_owned() } else { markdown(&text) };
    let row = |v: &VariantAnswer| columns.iter().map(|c| cell((c.4)(v))).collect();
    let said: Vec<String> = sentences(run).iter().map(|s| markdown(s)).collect();
    format!("{}\n\n{}", said.join("\n\n"), table(&head, &left, run.variants.iter().map(row).collect()))
}

/// What is to be said of a variant that failed or died, in the report: why, and its last lines.
pub(super) fn failed(run: &Run, series: &str) -> Option<String> {
    let v = run.variants.iter().find(|v| v.series == series)?;
    if !matches!(v.state, State::Failed | State::Died) {
        return None;
    }
    let why = v.reason.as_deref().unwrap_or("The reason is not known");
    let log = v.log.as_deref().filter(|_| !v.last_lines.is_empty());
    let log = log.map(|log| {
        format!("\n\nThe last lines of {}:\n\n{}", markdown(log), fence("text", &v.last_lines.join("\n")))
    });
    Some(format!(
        "**{}**: {}.{}",
        markdown(&status(v)),
        markdown(why.trim_end_matches('.')),
        log.unwrap_or_default()
    ))
}

/// The knob of a grid that has one: its points are told by their values alone where there is little room.
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

/// An answer where there is little room: `34.1 req/s`, `at least 30 req/s`, `undecided`.
fn in_short(control: Control, g: &Goodput) -> String {
    let known = matches!(g.status, Status::Found | Status::NotReached);
    match (words::ends(control, g), g.rate.or(g.met)) {
        (Some(([rate, ..], _)), _) if known => format!("{rate}{}", control.unit()),
        (None, Some(rate)) if known => format!("at least {}{}", words::level_number(rate), control.unit()),
        _ => g.status.name().to_owned(),
    }
}

/// The table for a terminal of so many columns, and what it says in sentences.
pub fn terminal(run: &Run, width: u16) -> (String, String) {
    let columns: Vec<&Column> = columns(run).filter(|c| width >= NARROW || c.3).collect();
    let mut all = Table::new();
    all.load_style(STYLE).set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    let knob = only_knob(run);
    all.set_header(columns.iter().map(|c| knob.filter(|_| c.0 == "variant").unwrap_or(c.1)));
    for v in &run.variants {
        let cell = |text: String| if text.is_empty() { UNKNOWN.to_owned() } else { plain(&text) };
        let short = |c: &Column| match (c.0, &v.answer) {
            ("variant", _) if knob.is_some() => {
                v.series.split_once('=').map_or(v.series.clone(), |(_, value)| value.to_owned())
            }
            ("goodput", Some(a)) => in_short(a.control, &a.goodput),
            ("joint goodput", Some(a)) => in_short(a.control, &a.joint_goodput),
            _ => (c.4)(v),
        };
        all.add_row(columns.iter().map(|c| cell(short(c))));
    }
    for (column, c) in all.column_iter_mut().zip(&columns) {
        column.set_cell_alignment(if c.2 { CellAlignment::Left } else { CellAlignment::Right });
        column.set_padding((0, 1));
    }
    let table: Vec<String> = all.to_string().lines().map(|l| l.trim_end().to_owned()).collect();
    let mut out: String = sentences(run).iter().map(|s| format!("{}\n", plain(s))).collect();
    for v in run.variants.iter().filter(|v| !v.last_lines.is_empty()) {
        out.push_str(&format!(
            "\n{}, the last lines of {}:\n",
            plain(&v.series),
            plain(v.log.as_deref().unwrap_or("its log"))
        ));
        let from = v.last_lines.len().saturating_sub(6);
        out.push_str(
            &v.last_lines[from..].iter().map(|l| format!("  │ {}\n", clip(l, 160))).collect::<String>(),
        );
    }
    (table.join("\n"), out)
}

#[cfg(test)]
#[path = "variants_tests.rs"]
mod tests;
