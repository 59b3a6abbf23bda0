//! `report.md`: a decision record. What was asked, what was found and how sure that is, and how to measure it again.

use super::charts::{Chart, thousands};
use super::escape::{fence, markdown, plain};
use super::{tables, words};
use crate::rundir::Run;
use crate::search::answer::Answer;
use crate::stats::step::Step;
use crate::units::short;

/// The report of a run as Markdown, with the charts that the run has: those of [`super::charts::of`].
pub fn render(run: &Run, made: &[&Chart]) -> String {
    let mut out = format!("# {}\n\n", markdown(&words::headline(run)));
    out.push_str(&format!("{}\n\n", markdown(&run.name)));
    for (title, body) in [
        ("Question", question(run)),
        ("Answer", answer(run)),
        ("Charts", charts(run, made)),
        ("Caveats", caveats(run)),
        ("Steps", tables::steps(run)),
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
        "- measured: {} steps, {requests} requests, {}\n",
        run.steps.len(),
        markdown(&m.started)
    ));
    out
}

fn answer(run: &Run) -> String {
    let Some(first) = run.answers.first() else {
        return "There is none: no step was finished.".into();
    };
    let mut out = format!(
        "**{}** {}\n\n",
        markdown(&words::sentences(run, first)[0]),
        markdown(&words::sentences(run, first)[1])
    );
    out.push_str(&format!("Evidence: {}.\n\n", markdown(first.goodput.reason.trim_end_matches('.'))));
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
    let target = words::tier_of(run, a).map_or(0.99, crate::slo::Slo::joint_target);
    let rates = words::steps_of(run, a).into_iter().map(|s| (good_rate(s, &a.tier), s.level.value));
    let good = rates.max_by(|x, y| x.0.total_cmp(&y.0)).map_or("none".into(), |(good, level)| {
        format!("at most {} req/s, at {}", short(good), words::level(a.control, level))
    });
    let knee = a.knee.as_ref().map(|k| {
        format!("- knee{whose}: {} at {} req/s achieved (more load stops buying throughput there; not the SLO answer)\n", words::level(a.control, k.rate), short(k.throughput))
    });
    format!(
        "- **goodput**{whose}, each limit at its own percentile: {}\n- **joint goodput**{whose}, at least {} % of the requests within all limits together: {}\n- **good requests/s**{whose}, at each step: {good}\n{}",
        words::goodput_cell(a.control, &a.goodput),
        short(target * 100.0),
        words::goodput_cell(a.control, &a.joint_goodput),
        knee.unwrap_or_default()
    )
}

/// Requests per second within all limits of a tier together; a step's own figure is that of the first tier.
fn good_rate(s: &Step, tier: &str) -> f64 {
    match s.limits.iter().find(|r| r.tier == tier && r.limit == "joint") {
        Some(r) if s.measure_s > 0.0 => r.n.saturating_sub(r.misses + r.censored) as f64 / s.measure_s,
        _ => s.good_rate,
    }
}

fn charts(run: &Run, made: &[&Chart]) -> String {
    let alt = markdown(&words::headline(run));
    made.iter().map(|c| format!("![{}: {alt}](charts/{}.png)\n\n", c.caption, c.name)).collect()
}

fn caveats(run: &Run) -> String {
    run.caveats.iter().map(|c| format!("- {} *{}*\n", markdown(&c.text()), markdown(c.advice()))).collect()
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
    let open = run.steps.iter().any(|s| s.latency.values().any(|q| q.n > 0 && q.p99_high.is_none()));
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
        "Milliseconds from `due`; order statistics of the exact values. The p99 lies between “from” and “to” with 95 % confidence, by rank, assuming independent requests.{note}\n\n{table}{missing}"
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
