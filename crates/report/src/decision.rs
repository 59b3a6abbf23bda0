//! What was accepted and what was rejected, each level and each variant with the evidence for it, and why the search stopped there.

use super::charts::thousands;
use super::escape::{clip, markdown};
use super::tables::{UNKNOWN, percent, table};
use super::{why, words};
use goodput_run::rundir::derive::{interval, usable_safe_rate};
use goodput_run::rundir::variants::{Best, State, VariantAnswer};
use goodput_run::rundir::{Run, VariantRun};
use goodput_stats::search::answer::{Answer, Status};
use goodput_stats::stats::step::{LimitRow, Step, StepKind, Verdict};

/// A level of an answer with what it is shown to do, and the steps that show it, the telling one first.
struct Decided<'a> {
    level: f64,
    verdict: Verdict,
    steps: Vec<&'a Step>,
}

/// The levels by what they are shown to do, with the evidence for each; for each answer.
pub(super) fn section(run: &Run) -> String {
    let (whole, run) = (run, &*run.in_levels());
    let several = run.answers.len() > 1;
    let one = |a: &Answer| {
        let title = if several { format!("{}:\n\n", markdown(&words::whose(run, a))) } else { String::new() };
        let all = decided(run, a);
        format!("{title}{}{}\n{}\n", by_fit(run, a), in_short(run, a, &all), evidence((run, whole), a, &all))
    };
    let all: String = run.answers.iter().map(one).collect();
    if all.trim().is_empty() { String::new() } else { all }
}

/// Each level of an answer once, from the lowest. Of a level that was measured several times a fail counts first: it is never outweighed.
fn decided<'a>(run: &'a Run, a: &Answer) -> Vec<Decided<'a>> {
    let mut steps = words::steps_of(run, a);
    steps.retain(|s| !s.kind.is_outside_search());
    let mut out: Vec<Decided<'a>> = Vec::new();
    for verdict in [Verdict::Fails, Verdict::Meets, Verdict::Invalid, Verdict::Undecided] {
        for s in steps.iter().filter(|s| run.judged(a, s).0 == verdict) {
            let same = |d: &&mut Decided<'_>| (d.level - s.level.value).abs() <= 1e-9 * d.level;
            match out.iter_mut().find(same) {
                Some(known) => known.steps.push(s),
                None => out.push(Decided { level: s.level.value, verdict, steps: vec![s] }),
            }
        }
    }
    out.sort_by(|x, y| x.level.total_cmp(&y.level));
    out
}

/// What an estimate accepts and rejects beyond the single steps; empty where there is none.
fn by_fit(run: &Run, a: &Answer) -> String {
    let g = &a.goodput;
    let unit = a.control.unit();
    let ends = words::ends(a.control, g);
    let safe = usable_safe_rate(g)
        .map(|s| ends.as_ref().and_then(|e| e.1.clone()).unwrap_or(words::level_number(s)));
    let mut out = String::new();
    if let Some(safe) = safe {
        out.push_str(&format!(
            "- accepted by all steps together: up to {safe}{unit}, the safe {} ({}{}{})\n",
            words::noun(a.control),
            words::chance_clause(run, g),
            words::flat_clause(g),
            words::scatter_clause(g),
        ));
    }
    if let Some(([.., high], _)) = ends.filter(|_| g.status != Status::NotReached) {
        out.push_str(&format!(
            "- rejected by all steps together: above {high}{unit}, the upper end of the 90 % interval\n"
        ));
    }
    out
}

/// The levels in a line for each verdict.
fn in_short(run: &Run, a: &Answer, all: &[Decided<'_>]) -> String {
    let mut out = String::new();
    // The accepted ones are what a reader looks for first.
    for verdict in [Verdict::Meets, Verdict::Fails, Verdict::Invalid, Verdict::Undecided] {
        let say = |d: &Decided<'_>| {
            let mut notes: Vec<String> = words::measured(run, a, d.level).into_iter().collect();
            let binding = d.steps.first().and_then(|s| run.judged(a, s).1);
            notes
                .extend(binding.filter(|_| verdict == Verdict::Fails).map(|b| markdown(&words::binding(&b))));
            let notes = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join("; ")) };
            format!("{}{notes}", words::level_number(d.level))
        };
        let levels: Vec<String> = all.iter().filter(|d| d.verdict == verdict).map(say).collect();
        if levels.is_empty() {
            continue;
        }
        let fitted = interval(&a.goodput).is_some() || usable_safe_rate(&a.goodput).is_some();
        let restarted = all.iter().flat_map(|d| &d.steps).any(|s| s.server.restarted);
        let title = match verdict {
            Verdict::Meets => "accepted, shown to meet the SLO",
            Verdict::Fails => "rejected, shown to fail",
            Verdict::Invalid if restarted => {
                "invalid, where the server was started anew or the client was the limit"
            }
            Verdict::Invalid => "invalid, where the client was the limit",
            Verdict::Undecided if fitted => "undecided by their own requests alone; all steps count together",
            Verdict::Undecided => "undecided, with too few requests to tell",
        };
        out.push_str(&format!("- {title} ({}): {}\n", a.control.unit().trim(), levels.join(", ")));
    }
    out
}

/// The evidence for each level: the limit that decides it with its counts and bounds, and why.
fn evidence((run, whole): (&Run, &Run), a: &Answer, all: &[Decided<'_>]) -> String {
    let head =
        ["decision", "level", "steps", "requests", "limit", "missed", "within", "at least", "at most", "why"];
    let mut rows: Vec<Vec<String>> = all.iter().map(|d| row((run, whole), a, d)).collect();
    // Where nothing was tried under load, the unloaded server decides.
    let unloaded = run.steps.iter().rfind(|s| s.series == a.series && s.kind == StepKind::Baseline);
    if let Some(s) = unloaded.filter(|_| rows.is_empty() && a.goodput.status == Status::None) {
        rows.push(row((run, whole), a, &Decided { level: 0.0, verdict: Verdict::Fails, steps: vec![s] }));
    }
    let table = table(&head, &["decision", "level", "limit", "why"], rows);
    if table.is_empty() {
        return table;
    }
    let fit = if table.contains(" (fit) |") {
        " *(fit)*: its own requests are too few to tell; the fit to all steps together tells."
    } else {
        ""
    };
    format!(
        "The evidence for each. Bounds are those of the verdict, for the true share of requests within the limit; neighbours that missed \
         together count as fewer.{fit}\n\n{table}"
    )
}

/// `whole` is the run with each window of a level by itself.
fn row((run, whole): (&Run, &Run), a: &Answer, d: &Decided<'_>) -> Vec<String> {
    let Some(first) = d.steps.first() else { return Vec::new() };
    let limit = limit(run, a, first).filter(|l| l.limit != "stability" || l.n == 0);
    let grows = d.verdict == Verdict::Fails && run.judged(a, first).1.as_deref() == Some("stability");
    // A level that was measured in windows has more steps than are counted as one here.
    let in_windows = run.steps.len() < whole.steps.len();
    let steps = if in_windows { whole.steps_at(a, first.level.value) } else { d.steps.clone() };
    let numbers: Vec<String> = steps.iter().map(|s| s.step.to_string()).collect();
    let share = |of: fn(&LimitRow) -> Option<f64>| percent(limit.and_then(of));
    vec![
        decision(a, d).into(),
        words::step_level(first),
        numbers.join(", "),
        thousands(first.due_n as f64),
        match limit {
            _ if grows => words::binding("stability"),
            l => l.map_or(UNKNOWN.into(), |l| markdown(&words::binding(&l.key()))),
        },
        limit.filter(|l| l.n > 0).map_or(UNKNOWN.into(), |l| {
            format!("{} of {}", thousands(l.misses as f64), thousands(l.n as f64))
        }),
        share(|l| l.attainment),
        share(|l| l.low),
        share(|l| l.high),
        markdown(&words::why(run, a, first)),
    ]
}

/// What is decided of a level: by its own requests, else by all steps together, where these tell.
fn decision(a: &Answer, d: &Decided<'_>) -> &'static str {
    let g = &a.goodput;
    let high = interval(g).filter(|_| g.status != Status::NotReached).map(|(_, [_, high])| high);
    match d.verdict {
        Verdict::Meets => "● accepted",
        Verdict::Fails => "✕ rejected",
        Verdict::Invalid => "△ invalid",
        Verdict::Undecided if usable_safe_rate(g).is_some_and(|safe| d.level <= safe) => "● accepted (fit)",
        Verdict::Undecided if high.is_some_and(|high| d.level > high) => "✕ rejected (fit)",
        Verdict::Undecided => "○ undecided",
    }
}

/// The limit that decides a step: the one that binds there, else that of the answer, else the one nearest to being missed.
fn limit<'a>(run: &Run, a: &Answer, s: &'a Step) -> Option<&'a LimitRow> {
    let own = || s.limits.iter().filter(|l| l.tier == a.tier);
    let named = |name: Option<&str>| own().find(|l| name.is_some_and(|key| l.is(key)));
    let binding = run.judged(a, s).1;
    let worst = || {
        let judged = own().filter(|l| l.attainment.is_some() && l.limit != "joint");
        judged.min_by(|x, y| x.attainment.unwrap_or(1.0).total_cmp(&y.attainment.unwrap_or(1.0)))
    };
    named(binding.as_deref()).or_else(|| named(a.goodput.binding.as_deref())).or_else(worst)
}

/// Which variants are accepted and which rejected, each with its evidence; empty where the run has none.
pub(super) fn variants(run: &Run) -> String {
    let best = Best::of(&run.variants);
    let top = best.at_slo.and_then(|i| run.variants.get(i));
    let row = |(i, v): (usize, &VariantAnswer)| {
        let (decision, why) = of_variant(&best, top, i, v);
        let part = run.parts.iter().find(|p| p.series() == v.series);
        let evidence = part.zip(v.answer.as_ref()).map(|(p, a)| words::sentences(p, a).evidence);
        let evidence = evidence.map_or(UNKNOWN.into(), |e| markdown(e.trim_start_matches("Evidence: ")));
        let made = run.meta.variants.iter().find(|m| m.name == v.variant);
        let made = made.map(settings).filter(|s| !s.is_empty()).unwrap_or_else(|| UNKNOWN.into());
        vec![decision.to_owned(), markdown(&clip(&v.series, 40)), made, markdown(&why), evidence]
    };
    let rows: Vec<Vec<String>> = run.variants.iter().enumerate().map(row).collect();
    let head = ["decision", "variant", "settings", "why", "evidence"];
    table(&head, &head, rows)
}

/// What a variant was made with: its knobs.
fn settings(v: &VariantRun) -> String {
    let all: Vec<String> = v.knobs.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    markdown(&clip(&all.join(", "), 120))
}

fn of_variant(
    best: &Best,
    top: Option<&VariantAnswer>,
    at: usize,
    v: &VariantAnswer,
) -> (&'static str, String) {
    let goodput = |v: &VariantAnswer| {
        v.answer.as_ref().map_or(UNKNOWN.into(), |a| words::goodput_cell(a.control, &a.goodput))
    };
    let reason = || v.reason.as_deref().map(|r| clip(r.trim_end_matches('.'), 300));
    match (v.state, v.answer.as_ref().map(|a| a.goodput.status)) {
        (State::Failed, _) => ("✕ rejected", reason().unwrap_or_else(|| "it could not be measured".into())),
        (State::Died, _) => ("✕ rejected", reason().unwrap_or_else(|| "its server died".into())),
        (State::Waiting | State::Running, _) | (State::Done, None) => {
            ("○ undecided", "it was not measured to the end".into())
        }
        (State::Done, Some(Status::None)) => {
            let binding = v.answer.as_ref().and_then(|a| a.goodput.binding.as_deref()).map(words::binding);
            let binding = binding.map(|b| format!("; {b} binds")).unwrap_or_default();
            ("✕ rejected", format!("it keeps the SLO at no level{binding}"))
        }
        (State::Done, Some(_)) if best.at_slo == Some(at) => {
            ("● accepted", format!("the highest goodput: {}", goodput(v)))
        }
        (State::Done, Some(_)) if best.not_told_apart.contains(&at) => {
            ("○ undecided", format!("not told apart from the best: {}", goodput(v)))
        }
        (State::Done, Some(Status::Undecided | Status::Invalid)) => ("○ undecided", goodput(v)),
        (State::Done, Some(_)) => {
            let than =
                top.map(|t| format!(", less than that of {}", clip(&t.series, 40))).unwrap_or_default();
            ("✕ rejected", format!("{}{than}", goodput(v)))
        }
    }
}

/// Why the search stopped where it did, what it had used by then, and what more would buy; for each answer.
pub(super) fn stopped(run: &Run) -> String {
    let several = run.answers.len() > 1;
    let one = |a: &Answer| {
        let whose = if several { format!("{}: ", words::whose(run, a)) } else { String::new() };
        let text = format!("{whose}{}", sentence(run, a));
        format!("- {}\n", markdown(&text))
    };
    let all: String = run.answers.iter().map(one).collect();
    if all.is_empty() {
        return all;
    }
    let measured: f64 = run.steps.iter().map(|s| s.measure_s).sum();
    let until = run.steps.iter().map(|s| s.ended_s).fold(0.0, f64::max);
    let clock = if run.meta.virtual_time { " of simulated time" } else { "" };
    let steps = if run.steps.len() == 1 { "step" } else { "steps" };
    format!(
        "{all}\nBy then {} {steps} had taken {}{clock}, of which {} were measured.\n",
        run.steps.len(),
        words::span(until),
        words::span(measured)
    )
}

/// The end of a search in a sentence or two: `The search ended because the budget of 15m is spent.`
fn sentence(run: &Run, a: &Answer) -> String {
    let g = &a.goodput;
    let ended = match g.reason.ended() {
        Some(ended) if ended.is_of_a_search() => format!("The search {}.", words::ended(ended)),
        Some(_) | None => format!("{}.", words::reason(&g.reason)),
    };
    let meant = match g.status {
        Status::Found => "The limit lies within what was measured.",
        Status::None => "No level was left that could keep the SLO.",
        Status::NotReached => "The limit lies above all that was tried.",
        Status::Undecided => "The limit was not closed in upon.",
        Status::Invalid => "More load would have told of the client, or of a server started anew.",
    };
    let halve = g.halve_s.filter(|s| *s > 0.0 && interval(g).is_some());
    let halve =
        halve.map(|s| format!(" Another {} of measuring would about halve the interval.", words::span(s)));
    let more = words::remedy(run, a).map(|r| format!(" {}.", why::capital(&r)));
    format!("{ended} {meant}{}{}", halve.unwrap_or_default(), more.unwrap_or_default()).replace("..", ".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_run::fixture;

    fn case(name: &str) -> Run {
        fixture::cases().into_iter().find(|(n, _)| *n == name).map(|(_, r)| r).unwrap()
    }

    #[test]
    fn every_level_has_its_evidence() {
        insta::assert_snapshot!(section(&case("two-steps")), @r#"
        - accepted, shown to meet the SLO (req/s): 20
        - rejected, shown to fail (req/s): 45 (p99 TTFT)

        The evidence for each. Bounds are those of the verdict, for the true share of requests within the limit; neighbours that missed together count as fewer.

        | decision | level | steps | requests | limit | missed | within | at least | at most | why |
        | --- | --- | ---: | ---: | --- | ---: | ---: | ---: | ---: | --- |
        | ● accepted | 20 req/s | 1 | 2,400 | p99 TTFT | 0 of 2,400 | 100 % | 99.60 % | 100 % | every limit is shown to be met |
        | ✕ rejected | 45 req/s | 2 | 5,400 | p99 TTFT | 5,400 of 5,400 | 0 % | 0 % | 0.4 % | the backlog grows |
        "#);
        let soak = section(&case("soak"));
        assert!(
            soak.starts_with("- accepted by all steps together: up to 33 req/s, the safe rate (5 % chance"),
            "{soak}"
        );
        assert!(soak.contains("- rejected by all steps together: above 35.3 req/s"), "{soak}");
        assert!(soak.contains("all steps count together"), "{soak}");
        let top = section(&case("top"));
        assert!(!top.contains("rejected by all steps"), "{top}");
        assert!(top.contains("measured 3 times: undecided, meets, meets"), "{top}");
    }

    /// Rows have as many cells as their heads, whatever the run.
    #[test]
    fn every_case_has_whole_rows() {
        for (name, run) in fixture::cases() {
            let text = section(&run);
            let cells: Vec<usize> = text
                .lines()
                .filter(|l| l.starts_with('|'))
                .map(|l| l.replace("\\|", "").matches('|').count())
                .collect();
            assert!(cells.windows(2).all(|w| w[0] == w[1]), "{name}: {text}");
            assert_eq!(text.is_empty(), run.answers.is_empty(), "{name}");
        }
    }

    #[test]
    fn why_a_search_stopped() {
        let names =
            ["two-steps", "soak", "open", "none", "top", "undecided", "invalid", "no-rate-unloaded", "tiers"];
        let said: String = names.map(|n| format!("{n}:\n{}\n", stopped(&case(n)))).concat();
        insta::assert_snapshot!(said, @r#"
        two-steps:
        - The search ended because all 2 levels of the list are measured. The limit lies within what was measured.

        By then 2 steps had taken 5 min, of which 4 min were measured.

        soak:
        - The search ended because the budget of 15m is spent. The limit lies within what was measured. Another 45 min of measuring would about halve the interval.

        By then 15 steps had taken 23 min, of which 22 min were measured.

        open:
        - The search ended because the budget of 15m is spent. The limit was not closed in upon. Another 90 min of measuring would about halve the interval.

        By then 5 steps had taken 3 min, of which 3 min were measured.

        none:
        - The search ended because all 4 levels of the list are measured. No level was left that could keep the SLO.

        By then 4 steps had taken 9 min, of which 8 min were measured.

        top:
        - The search ended because the budget of 15m is spent. The limit lies above all that was tried. A higher search.max-rate would tell how much more.

        By then 6 steps had taken 4 min, of which 3 min were measured.

        undecided:
        - The search ended because all 4 levels of the list are measured. The limit was not closed in upon. Longer steps at the undecided levels would decide it (step.measure, step.min-requests): at 25 req/s 4,600 more requests without a miss would do.

        By then 4 steps had taken 9 min, of which 40 s were measured.

        invalid:
        - The search ended because all 4 levels of the list are measured. More load would have told of the client, or of a server started anew. A client on an idle machine with more cores, or a higher step.max-in-flight, would tell.

        By then 4 steps had taken 9 min, of which 8 min were measured.

        no-rate-unloaded:
        - The search ended because the budget of 15m is spent. No level was left that could keep the SLO.

        By then 4 steps had taken 3 min, of which 3 min were measured.

        tiers:
        - gold: The search ended because all 8 levels of the list are measured. The limit lies within what was measured.
        - bulk: The search ended because all 8 levels of the list are measured. The limit lies within what was measured.

        By then 8 steps had taken 19 min, of which 16 min were measured.
        "#);
    }
}
