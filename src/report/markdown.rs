//! `report.md`: a decision record. What was asked, what was found and how sure that is, and how to measure it again.

use super::charts::{Chart, thousands};
use super::escape::{fence, markdown, plain};
use super::{tables, words};
use crate::rundir::Run;
use crate::search::answer::Answer;
use crate::stats::step::{Step, StepKind, Verdict};
use crate::units::short;

/// The report of a run as Markdown, with the charts that the run has: those of [`super::charts::of`].
pub fn render(run: &Run, made: &[&Chart]) -> String {
    let mut out = format!("# {}\n\n", markdown(&words::headline(run)));
    out.push_str(&format!("{}\n\n", markdown(&run.name)));
    for (title, body) in [
        ("Question", question(run)),
        ("Answer", answer(run)),
        ("Capacity", capacity(run)),
        ("Caveats", caveats(run)),
        ("Charts", charts(run, made)),
        ("Accepted and rejected", decided(run)),
        ("Steps", steps(run)),
        ("Limits", limits(run)),
        ("Percentiles", percentiles(run)),
        ("Throughput", tables::throughput(run)),
        ("Failures", tables::failures(run)),
        ("The client", client(run)),
        ("The server's own counters", tables::server(run)),
        ("How to reproduce", reproduce(run)),
        ("Notes", run.meta.notes.as_deref().map(|n| fence("text", n)).unwrap_or_default()),
    ] {
        if !body.is_empty() {
            out.push_str(&format!("## {title}\n\n{}\n\n", body.trim_end()));
        }
    }
    format!("{}\n", out.trim_end())
}

fn question(run: &Run) -> String {
    let m = &run.meta;
    let control = run.answers.first().map_or(crate::level::Control::Rate, |a| a.control);
    let what = match control {
        crate::level::Control::Rate => "How many requests per second can",
        crate::level::Control::Concurrency => "How many requests in flight can",
        crate::level::Control::Sessions => "How many conversations per second can",
        crate::level::Control::TraceScale => "How much faster than recorded can the trace be replayed while",
    };
    let verb = if control == crate::level::Control::TraceScale { "keeps" } else { "take while it keeps" };
    let who = words::subject(m).replacen("One ", "one ", 1).replacen("The ", "the ", 1);
    let slo = run.tiers.iter().map(words::slo).collect::<Vec<_>>().join("; ");
    let slo = if slo.is_empty() { m.slo.clone() } else { slo };
    let mut out = format!("{what} {} {verb} its SLO?\n\n", markdown(&who));
    let workload = words::workload(run);
    for (key, value) in [("SLO", &slo), ("workload", &workload), ("model", &m.model), ("server", &m.server)] {
        out.push_str(&format!("- {key}: {}\n", markdown(value)));
    }
    let hardware = m.gpu.as_ref().map(|g| format!("{} × {}", m.gpus.unwrap_or(1), markdown(g)));
    out.push_str(&hardware.map(|h| format!("- hardware: {h}\n")).unwrap_or_default());
    let requests = thousands(words::requests(run) as f64);
    out.push_str(&format!(
        "- measured: {} {}, {requests} requests, {}\n",
        run.steps.len(),
        if run.steps.len() == 1 { "step" } else { "steps" },
        markdown(&m.started)
    ));
    out
}

fn answer(run: &Run) -> String {
    let Some(first) = run.answers.first() else {
        return "There is none: no step was finished.".into();
    };
    let [first_sentence, second] = words::sentences(run, first);
    let mut out = format!("**{}** {}\n\n", markdown(&first_sentence), markdown(&second));
    out.push_str("Three numbers are called goodput; these are all of them:\n\n");
    let several = run.answers.len() > 1;
    for a in &run.answers {
        out.push_str(&three(run, a, several));
    }
    out
}

fn three(run: &Run, a: &Answer, several: bool) -> String {
    let whose = if several {
        format!(" ({}, {}, {})", markdown(&a.series), markdown(&a.tier), markdown(&a.class))
    } else {
        String::new()
    };
    let knee = a.knee.as_ref().map(|k| {
        format!("- knee{whose}: {} at {} req/s achieved (more load stops buying throughput there; not the SLO answer)\n", words::level(a.control, k.rate), short(k.throughput))
    });
    format!(
        "- **goodput**{whose}, each limit at its own percentile: {}\n- **joint goodput**{whose}, at least {} of the requests within all limits together: {}\n- **good requests/s**{whose}, those within all limits together: {}\n{}",
        words::goodput_cell(a.control, &a.goodput),
        words::joint_target(run, a),
        words::goodput_cell(a.control, &a.joint_goodput),
        words::good_requests(run, a),
        knee.unwrap_or_default()
    )
}

/// What each answer amounts to; empty where no level is shown to meet.
fn capacity(run: &Run) -> String {
    let several = run.answers.len() > 1;
    let known = run.answers.iter().filter_map(|a| run.capacity(a).map(|c| (a, c)));
    let one = |(a, c): (&Answer, crate::capacity::Capacity)| {
        let whose = if several {
            format!("{}, {}, {}: ", markdown(&a.series), markdown(&a.tier), markdown(&a.class))
        } else {
            String::new()
        };
        format!(
            "{whose}Held all the time {}, with nothing in reserve.\n\n{}\n",
            markdown(&words::basis(a, &c)),
            tables::capacity(run, &c)
        )
    };
    known.map(one).collect()
}

/// The levels by what they are shown to do, and the limit at those that fail.
fn decided(run: &Run) -> String {
    let Some(a) = run.answers.first() else { return String::new() };
    let mut steps = words::steps_of(run, a);
    steps.sort_by(|x, y| x.level.value.total_cmp(&y.level.value));
    let mut out = String::new();
    let mut told: Vec<f64> = Vec::new();
    for (verdict, title) in [
        (Verdict::Meets, "accepted, shown to meet the SLO"),
        (Verdict::Fails, "rejected, shown to fail"),
        (Verdict::Invalid, "invalid, where the client was the limit"),
        (Verdict::Undecided, "undecided, with too few requests to tell"),
    ] {
        let mut levels: Vec<String> = Vec::new();
        // A level that was decided by another step is not undecided.
        for s in steps.iter().filter(|s| s.verdict == verdict) {
            if !told.iter().any(|t| (t - s.level.value).abs() <= 1e-9 * t) {
                told.push(s.level.value);
                let why = s.binding.as_deref().filter(|_| verdict == Verdict::Fails);
                let why = why.map(|b| format!(" ({})", markdown(&words::binding(b)))).unwrap_or_default();
                levels.push(format!("{}{why}", short(s.level.value)));
            }
        }
        if !levels.is_empty() {
            out.push_str(&format!("- {title} ({}): {}\n", a.control.unit().trim(), levels.join(", ")));
        }
    }
    out
}

fn steps(run: &Run) -> String {
    let table = tables::steps(run);
    let has = |of: fn(&Step) -> bool| run.steps.iter().any(of);
    let mut notes = Vec::new();
    if has(|s| s.kind == StepKind::Baseline) {
        notes.push("*unloaded* is one request at a time, before any load.");
    }
    if has(|s| s.kind == StepKind::Refine) {
        notes.push("Steps of the ramp are short: they look for where the boundary lies, and those that refine decide.");
    }
    if has(|s| s.stable == Some(false)) {
        notes.push("↗: the backlog grows, so the latencies have no steady value.");
    }
    if notes.is_empty() {
        table
    } else {
        format!("In the order they were measured. {}\n\n{table}", notes.join(" "))
    }
}

fn charts(run: &Run, made: &[&Chart]) -> String {
    let alt = markdown(&words::headline(run));
    made.iter().map(|c| format!("![{}: {alt}](charts/{}.png)\n\n", c.caption, c.name)).collect()
}

fn caveats(run: &Run) -> String {
    words::caveats(run)
        .iter()
        .map(|(text, advice)| format!("- {} *{}*\n", markdown(text), markdown(advice)))
        .collect()
}

fn limits(run: &Run) -> String {
    let table = tables::limits(run);
    if table.is_empty() {
        return table;
    }
    format!(
        "Requests that missed each limit, of those that count; a request that failed is a miss.\n\n{table}"
    )
}

fn percentiles(run: &Run) -> String {
    let table = tables::percentiles(run);
    if table.is_empty() {
        return table;
    }
    let left_out = match run.steps.len() - tables::telling(run).len() {
        0 => "",
        _ => " Of the answer's levels and those between them; all others stand in steps.csv.",
    };
    let open =
        tables::telling(run).iter().any(|s| s.latency.values().any(|q| q.n > 0 && q.p99_high.is_none()));
    let note = if open {
        " Where there are too few requests for an upper bound (below 368) it is printed as “–”."
    } else {
        ""
    };
    let sum = |of: fn(&Step) -> u64| run.steps.iter().map(of).sum::<u64>();
    let missing = [(sum(|s| s.failed), "failed"), (sum(|s| s.cut), "cut off")]
        .into_iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!("{} {what}", thousands(n as f64)))
        .collect::<Vec<_>>()
        .join(", ");
    let missing = if missing.is_empty() {
        missing
    } else {
        format!(
            "\nOf answered requests, TTFT and TTFC also of those cut off after it was known; {missing}.\n"
        )
    };
    format!(
        "Milliseconds from `due`; order statistics of the exact values. The p99 lies between “from” and “to” with 95 % confidence, by rank, assuming independent requests.{note}{left_out}\n\n{table}{missing}"
    )
}

fn client(run: &Run) -> String {
    let table = tables::client(run);
    if table.is_empty() {
        return table;
    }
    format!("Lateness is sent − due: the client's own fault. It is part of every latency above.\n\n{table}")
}

fn reproduce(run: &Run) -> String {
    let m = &run.meta;
    let clock = if m.virtual_time { "simulated" } else { "real" };
    let command =
        if m.virtual_time { "goodput sweep plan.toml --virtual-time" } else { "goodput sweep plan.toml" };
    format!(
        "{}\n- goodput {}\n- client: {}\n- seed: {}\n- clock: {clock}\n\nThe plan as resolved, `plan.toml` of the run folder:\n\n{}",
        fence("sh", command),
        markdown(&m.goodput_version),
        markdown(&m.host),
        m.seed,
        fence("toml", &clean(&run.plan_toml)),
    )
}

/// Line by line, since a fenced block keeps its lines.
fn clean(text: &str) -> String {
    let line = |l: &str| {
        let indent: String = l.chars().take_while(|c| *c == ' ').collect();
        format!(
            "{indent}{}",
            if l.trim().is_empty() { String::new() } else { plain_keeping_blanks(l.trim_start_matches(' ')) }
        )
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn plain_keeping_blanks(line: &str) -> String {
    if line.contains(|c: char| c.is_control()) { plain(line) } else { line.to_owned() }
}

#[cfg(test)]
mod tests;
