//! `report.md`: a decision record. What was asked, what was found and how sure that is, and how to measure it again.

use super::charts::{Chart, thousands};
use super::document::{Document, Section};
use super::escape::{clip, fence, markdown, plain};
use super::{
    checks, decision, groups, recovery, replayed, replicas, roofline, scale, sensitivity, sent, server,
    tables, why, words,
};
use goodput_core::level::Control;
use goodput_run::rundir::{Imported, Run};
use goodput_stats::search::answer::Answer;
use goodput_stats::stats::groups::GroupBy;
use goodput_stats::stats::step::{Step, StepKind};

/// The report of a run as Markdown, with the charts that the run has: those of [`super::charts::of`].
pub fn render(run: &Run, made: &[&Chart]) -> String {
    document(run, made).markdown()
}

/// The report of a run of one series, as sections.
pub fn document(run: &Run, made: &[&Chart]) -> Document {
    // A matrix and what has no limit to keep have questions and answers of their own.
    let own = super::matrix::section(run).or_else(|| super::offline::section(run));
    let first = if own.is_some() { String::new() } else { question(run) };
    let judged = !run.answers.is_empty() || own.is_none();
    let mut body = sections(run, made, "charts");
    if !judged {
        body.retain(|s| !["Answer", "Steps", "Limits"].contains(&s.title.as_str()));
    }
    if let Some(own) = own {
        body.retain(|s| s.title != "Answer");
        body.insert(0, Section::new("Answer", own));
    }
    let mut all = vec![Section::new("Question", first)];
    all.extend(body);
    all.extend([
        Section::new("The server", server::facts(run)),
        Section::new("How to reproduce", reproduce(run)),
        Section::new("Notes", notes(run)),
    ]);
    Document { title: markdown(&words::headline(run)), name: markdown(&run.name), sections: all }
}

/// What was found and what it rests on, by title, empty where there is nothing to say; the charts lie in `folder`.
pub(super) fn sections(run: &Run, made: &[&Chart], folder: &str) -> Vec<Section> {
    [
        ("Answer", answer(run)),
        ("Accepted and rejected", decision::section(run)),
        ("Why it stopped", decision::stopped(run)),
        ("Capacity and cost", capacity(run)),
        ("What moves the answer", sensitivity::section(run)),
        ("Recovery from a surge", recovery::section(run)),
        ("Why, and what to change", why::section(run)),
        ("Caveats", caveats(run)),
        ("Charts", charts(run, made, folder)),
        ("Steps", steps(run)),
        ("Limits", limits(run)),
        ("Percentiles", percentiles(run)),
        ("Tighter and looser limits", scale::section(run)),
        ("Throughput", tables::throughput(run)),
        ("Against the hardware", roofline::section(run)),
        ("What was sent", sent::section(run)),
        ("What was replayed", replayed::section(run)),
        ("By class", groups::section(run, GroupBy::Class)),
        ("By turn", groups::section(run, GroupBy::Turn)),
        ("Replicas", replicas::section(run)),
        ("Failures", tables::failures(run)),
        ("Answer checks", checks::section(run)),
        ("The client", client(run)),
        ("The server's own view", server::section(run)),
    ]
    .map(|(title, body)| Section::new(title, body))
    .into()
}

/// The plan's free text.
pub(super) fn notes(run: &Run) -> String {
    run.meta.notes.as_deref().map(|n| fence("text", n)).unwrap_or_default()
}

/// What was asked, and of what.
pub(super) fn question(run: &Run) -> String {
    let m = &run.meta;
    let control = run.answers.first().map_or(Control::Rate, |a| a.control);
    let what = match control {
        Control::Rate => "How many requests per second can",
        Control::Concurrency => "How many requests in flight can",
        Control::Sessions => "How many conversations per second can",
        Control::TraceScale => "How much faster than recorded can the trace be replayed while",
    };
    let many = words::plural(m);
    let verb = match (control, many) {
        (Control::TraceScale, true) => "keep",
        (Control::TraceScale, false) => "keeps",
        (_, true) => "take while they keep",
        (_, false) => "take while it keeps",
    };
    let its = if many { "their" } else { "its" };
    let mut out = format!("{what} {} {verb} {its} SLO?\n\n", markdown(&words::lower(&words::subject(m))));
    match run.tiers.as_slice() {
        [] => out.push_str(&format!("- SLO: {}\n", markdown(&m.slo))),
        [one] => out.push_str(&format!("- SLO: {}\n", markdown(&words::slo(one)))),
        all => {
            for t in all {
                let (tier, limits) = (markdown(&clip(t.tier(), 40)), markdown(&words::slo(t)));
                out.push_str(&format!("- SLO of {tier}: {limits}\n"));
            }
        }
    }
    let (workload, server) = (words::workload(run), m.server.to_string());
    for (key, value) in [("workload", &workload), ("model", &m.model), ("server", &server)] {
        out.push_str(&format!("- {key}: {}\n", markdown(value)));
    }
    let hardware = m.gpu.as_ref().map(|g| format!("{} × {}", m.gpus.unwrap_or(1), markdown(g)));
    out.push_str(&hardware.map(|h| format!("- hardware: {h}\n")).unwrap_or_default());
    let requests = thousands(words::requests(run) as f64);
    out.push_str(&format!(
        "- measured: {} {}, {requests} requests, {}\n",
        run.steps.len(),
        if run.steps.len() == 1 { "step" } else { "steps" },
        markdown(&words::moment(&m.started))
    ));
    out
}

fn answer(run: &Run) -> String {
    let Some(first) = run.answers.first() else {
        return "There is none: no step was finished.".into();
    };
    let mut out = String::new();
    for (i, a) in run.answers.iter().enumerate() {
        let s = words::sentences(run, a);
        let with = if i > 0 { String::new() } else { s.with };
        let rest = [s.plan, s.soak, with].into_iter().filter(|s| !s.is_empty());
        let rest: String = rest.map(|s| format!(" {}", markdown(&s))).collect();
        out.push_str(&format!("**{}**{rest}\n\n{}\n\n", markdown(&s.answer), markdown(&s.evidence)));
    }
    let assumed = words::assumptions(run);
    if !assumed.is_empty() {
        out.push_str(&format!("*{}*\n\n", markdown(&assumed)));
    }
    out.push_str("Three numbers are called goodput; these are all of them:\n\n");
    out.push_str(&run.answers.iter().map(|a| three(run, a)).collect::<String>());
    let counted = run.steps.iter().any(|s| s.good_rate > s.achieved_rate);
    if first.goodput.met.is_some() || counted {
        out.push_str(
            "\n*Good* counts requests due in the measured window, *achieved* those completed in it: by chance the one can be a \
             little above the other.\n",
        );
    }
    out
}

/// Whose an answer is, behind a word for it: ` of gold`; nothing where there is one answer.
fn of(run: &Run, a: &Answer) -> String {
    let whose = words::whose(run, a);
    if whose.is_empty() { whose } else { format!(" of {}", markdown(&whose)) }
}

fn three(run: &Run, a: &Answer) -> String {
    let of = of(run, a);
    let knee = words::knee(a).map(|k| format!("- knee{of}: {}\n", markdown(&k)));
    format!(
        "- **goodput**{of}, each limit at its own percentile: {}\n- **joint goodput**{of}, at least {} of the requests within all limits together: {}\n- **good requests/s**{of}, those within all limits together: {}\n{}",
        words::goodput_cell(a.control, &a.goodput),
        words::joint_target(run, a),
        words::goodput_cell(a.control, &a.joint_goodput),
        words::good_requests(run, a),
        knee.unwrap_or_default()
    )
}

/// What each answer amounts to; empty where no level is shown to meet.
fn capacity(run: &Run) -> String {
    let known = run.answers.iter().filter_map(|a| run.capacity(a).map(|c| (a, c)));
    let price = words::price(run).map_or_else(
        || " Cost is not known: the plan has no price (hardware.price-per-hour).".to_owned(),
        |p| format!(" Cost {}.", markdown(&p)),
    );
    let one = |(a, c): (&Answer, goodput_stats::capacity::Capacity)| {
        let within = of(run, a).replacen(" of ", " within the SLO of ", 1);
        if let Some(safe) = run.capacity_at_safe_rate(a) {
            return format!(
                "Held all the time{within} {}, and beside it {}, with nothing in reserve.{price} Tokens per request as in step {}.\n\n{}\n",
                markdown(&words::safe_basis(a, &safe)),
                markdown(&words::basis(a, &c)),
                safe.step,
                tables::capacity_at_both(run, &safe, &c)
            );
        }
        format!(
            "Held all the time{within} {}, with nothing in reserve.{price}\n\n{}\n",
            markdown(&words::basis(a, &c)),
            tables::capacity(run, &c)
        )
    };
    let mut out: String = known.map(one).collect();
    for a in &run.answers {
        let whose = of(run, a);
        let said =
            words::cost_limit(run, a).map(|said| format!("\nCost limit{whose}: **{}**\n", markdown(&said)));
        out.push_str(&said.unwrap_or_default());
    }
    out
}

fn steps(run: &Run) -> String {
    let table = tables::steps(run);
    let has = |of: fn(&Step) -> bool| run.steps.iter().any(of);
    let mut notes = Vec::new();
    if has(|s| s.kind == StepKind::Baseline) {
        notes.push("*baseline*: one request at a time, before any load.");
    }
    if has(|s| s.kind == StepKind::Refine) {
        notes.push("*ramp*: short, to find the range; *refine*: to decide.");
    }
    if has(|s| s.kind == StepKind::Confirm) {
        notes.push("*confirm*: a soak at the safe rate, after the search.");
    }
    if has(|s| s.kind == StepKind::Recovery) {
        notes.push("*recovery*: the safe rate, a surge, and the safe rate again, in one step; no part of the answer.");
    }
    if has(|s| s.kind == StepKind::Peak) {
        notes.push("*peak*: a closed loop that keeps the server full, after the search.");
    }
    if has(|s| s.kind == StepKind::Profile) {
        notes.push("*profile*: under the server's profiler, which slows it down; no part of the answer.");
    }
    if has(|s| s.stable == Some(false)) {
        notes.push(
            "↗: the backlog grows, so the latencies have no steady value; what was seen stands in steps.csv.",
        );
    }
    let notes: String = notes.iter().map(|n| format!(" {n}")).collect();
    if table.is_empty() { table } else { format!("In the order they were measured.{notes}\n\n{table}") }
}

/// The charts, which lie in `folder`.
pub(super) fn charts(run: &Run, made: &[&Chart], folder: &str) -> String {
    let alt = markdown(&words::headline(run));
    made.iter().map(|c| format!("![{}: {alt}]({folder}/{}.png)\n\n", c.caption, c.name)).collect()
}

/// What to read with care.
pub(super) fn caveats(run: &Run) -> String {
    words::caveats(run)
        .iter()
        .map(|said| format!("- {} *{}*\n", markdown(&said.text), markdown(said.advice)))
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
    let clustered = tables::has_effective(run);
    let note = match (open, clustered) {
        (false, _) => "",
        (true, true) => " An effective n below 368 is too small for an upper bound: it is printed as “–”.",
        (true, false) => {
            " Where there are too few requests for an upper bound (below 368) it is printed as “–”."
        }
    };
    let by = if clustered {
        "at the effective n: slow requests come in clusters, so n of them are worth fewer independent ones."
    } else {
        "assuming independent requests."
    };
    let grows = if tables::telling(run).iter().any(|s| s.stable == Some(false)) {
        " Where the backlog grows there is no steady value to print."
    } else {
        ""
    };
    let sum = |of: fn(&Step) -> u64| run.steps.iter().map(of).sum::<u64>();
    let missing = [
        (sum(|s| s.failed), "that failed"),
        (sum(|s| s.cut), "that were cut off, at the end of their step or by the default timeout (but for the TTFT and TTFC of those whose token had come)"),
    ]
        .into_iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!("{} {what}", thousands(n as f64)))
        .collect::<Vec<_>>()
        .join(" and ");
    let missing = if missing.is_empty() {
        missing
    } else {
        format!("\nNot in these percentiles, of all steps: requests {missing}. The verdicts count them.\n")
    };
    format!(
        "Milliseconds from `due`; order statistics of the exact values. The p99 lies between “from” and “to” with 95 % confidence, by rank, {by}{note}{grows}{left_out}\n\n{table}{missing}"
    )
}

fn client(run: &Run) -> String {
    let table = tables::client(run);
    if table.is_empty() {
        return table;
    }
    let lines: String = words::client_lines(run).iter().map(|l| format!("- {}\n", markdown(l))).collect();
    format!(
        "Lateness is sent − due: the client's own fault. It is part of every latency above. How far the client was from its own limits:\n\n{lines}\n{table}"
    )
}

/// How to measure it again.
pub(super) fn reproduce(run: &Run) -> String {
    let m = &run.meta;
    if let Some(imported) = &m.imported {
        return of_import(run, imported);
    }
    let clock = if m.virtual_time { "simulated" } else { "real" };
    let command =
        if m.virtual_time { "goodput sweep plan.toml --virtual-time" } else { "goodput sweep plan.toml" };
    format!(
        "In the run folder, where `plan.toml` stands:\n\n{}\n- goodput {}\n- client: {}\n- seed: {}\n- clock: {clock}\n\nThe plan as resolved, which is what `plan.toml` says:\n\n{}",
        fence("sh", command),
        markdown(&m.goodput_version),
        markdown(&m.host),
        m.seed,
        fence("toml", &clean(&run.plan_toml)),
    )
}

/// Where an imported run comes from. Its plan says what was measured, as far as that is known: it is none to measure the same again.
fn of_import(run: &Run, imported: &Imported) -> String {
    let files: String = imported.files.iter().map(|f| format!("- {}\n", markdown(&plain(f)))).collect();
    format!(
        "{} measured it; imported by goodput {} on {} from\n\n{files}\nThe plan that describes what was measured, as far as it is known:\n\n{}",
        markdown(&imported.title()),
        markdown(&run.meta.goodput_version),
        markdown(&words::moment(&imported.at)),
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
