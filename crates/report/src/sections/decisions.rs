//! Accepted and rejected levels and variants with the evidence for each, and why the search stopped.

use super::cells;
use crate::document::{Block, Cell, Column, Field, Mark, Table, Text, emphasis, plain};
use crate::escape::clip;
use crate::words::{self, capital};
use goodput_core::units::thousands;
use goodput_run::rundir::derive::{interval, usable_safe_rate};
use goodput_run::rundir::variants::{Best, State, VariantAnswer};
use goodput_run::rundir::{Run, VariantRun};
use goodput_stats::search::answer::{Answer, Status};
use goodput_stats::stats::step::{LimitRow, Step, StepKind, Verdict};

/// A level of an answer with its verdict, and the steps that show it, the most informative first.
struct Decided<'a> {
    level: f64,
    verdict: Verdict,
    steps: Vec<&'a Step>,
}

/// Returns the levels by verdict, with the evidence for each; for each answer.
pub(super) fn section(run: &Run) -> Vec<Block> {
    let (whole, run) = (run, &*run.in_levels());
    let several = run.answers.len() > 1;
    let mut blocks = Vec::new();
    for a in &run.answers {
        let all = decided(run, a);
        if several {
            blocks.push(Block::paragraph(format!("{}:", words::whose(run, a))));
        }
        let mut lines = by_fit(run, a);
        lines.extend(in_short(run, a, &all));
        blocks.push(Block::List(lines));
        blocks.extend(evidence(&Windows { run, whole }, a, &all));
    }
    blocks
}

/// A run with the windows of each level combined, and the run as measured.
struct Windows<'a> {
    run: &'a Run,
    whole: &'a Run,
}

/// Returns each level of an answer once, from the lowest. If a level was measured several times, a fail has priority
/// and is never outweighed.
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

/// Returns the levels that an estimate accepts and rejects beyond the single steps; empty without an estimate.
fn by_fit(run: &Run, a: &Answer) -> Vec<Text> {
    let g = &a.goodput;
    let unit = a.control.unit();
    let ends = words::ends(a.control, g);
    let safe = usable_safe_rate(g)
        .map(|s| ends.as_ref().and_then(|e| e.1.clone()).unwrap_or(words::level_number(s)));
    let mut out: Vec<Text> = Vec::new();
    if let Some(safe) = safe {
        let said = format!(
            "accepted by all steps together: up to {safe}{unit}, the safe {} ({}{}{})",
            words::noun(a.control),
            words::chance_clause(run, g),
            words::flat_clause(g),
            words::scatter_clause(g),
        );
        out.push(said.into());
    }
    if let Some(([.., high], _)) = ends.filter(|_| g.status() != Status::NotReached) {
        let said =
            format!("rejected by all steps together: above {high}{unit}, the upper end of the 90 % interval");
        out.push(said.into());
    }
    out
}

/// Returns the levels in a line for each verdict.
fn in_short(run: &Run, a: &Answer, all: &[Decided<'_>]) -> Vec<Text> {
    let mut out = Vec::new();
    // Accepted levels first: readers look for these.
    for verdict in [Verdict::Meets, Verdict::Fails, Verdict::Invalid, Verdict::Undecided] {
        let say = |d: &Decided<'_>| {
            let mut notes: Vec<String> = words::measured(run, a, d.level).into_iter().collect();
            let binding = d.steps.first().and_then(|s| run.judged(a, s).1);
            notes.extend(binding.filter(|_| verdict == Verdict::Fails).map(|b| words::binding(&b)));
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
        out.push(format!("{title} ({}): {}", a.control.unit().trim(), levels.join(", ")).into());
    }
    out
}

/// Returns the evidence for each level: the limit that decides it with its counts and bounds, and the reason.
fn evidence(of: &Windows<'_>, a: &Answer, all: &[Decided<'_>]) -> Vec<Block> {
    let Windows { run, .. } = of;
    // If nothing was tried under load, the unloaded server decides.
    let unloaded = run.steps.iter().rfind(|s| s.series == a.series && s.kind == StepKind::Baseline);
    let unloaded = unloaded.filter(|_| all.is_empty() && a.goodput.status() == Status::None);
    let unloaded: Vec<Decided<'_>> = unloaded
        .map(|s| Decided { level: 0.0, verdict: Verdict::Fails, steps: vec![s] })
        .into_iter()
        .collect();
    let rows: Vec<Row<'_>> = all.iter().chain(&unloaded).filter_map(|d| Row::of(of, a, d)).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let mut said = Text::from(
        "The evidence for each. Bounds are those of the verdict, for the true share of requests within the limit; neighbours that missed \
         together count as fewer.",
    );
    if rows.iter().any(|r| decision(a, r.decided).by_fit) {
        said.push_str(" ");
        said.push(emphasis("(fit)"));
        said.push(plain(": its own requests are too few to tell; the fit to all steps together tells."));
    }
    vec![Block::Paragraph(said), table(run, a, &rows).into()]
}

/// A row of the table of evidence: a level.
struct Row<'a> {
    decided: &'a Decided<'a>,
    /// The most informative step.
    first: &'a Step,
    /// The numbers of all its steps.
    steps: Vec<u32>,
    limit: Option<&'a LimitRow>,
    /// True if it fails because the backlog grows.
    grows: bool,
}

impl<'a> Row<'a> {
    fn of(of: &Windows<'a>, a: &Answer, d: &'a Decided<'a>) -> Option<Self> {
        let Windows { run, whole } = of;
        let first: &'a Step = d.steps.first()?;
        // A level that was measured in windows has more steps than the one counted here.
        let in_windows = run.steps.len() < whole.steps.len();
        let steps = if in_windows { whole.steps_at(a, first.level.value) } else { d.steps.clone() };
        Some(Self {
            decided: d,
            first,
            steps: steps.iter().map(|s| s.step).collect(),
            limit: limit(run, a, first).filter(|l| l.limit != "stability" || l.n == 0),
            grows: d.verdict == Verdict::Fails && run.judged(a, first).1.as_deref() == Some("stability"),
        })
    }
}

fn table(run: &Run, a: &Answer, rows: &[Row<'_>]) -> Table {
    let share = |head: &str, of: fn(&LimitRow) -> Option<f64>| {
        Field::new(Column::number(head), move |r: &Row<'_>| Cell::share(r.limit.and_then(of)))
    };
    let missed = |l: &LimitRow| {
        let words = format!("{} of {}", thousands(l.misses as f64), thousands(l.n as f64));
        Cell::figure(words, Some(l.misses as f64 / l.n as f64))
    };
    let fields = vec![
        Field::new(Column::text("decision"), |r: &Row<'_>| decision(a, r.decided).cell()),
        Field::new(Column::level(), |r: &Row<'_>| cells::bare_level(r.first)),
        Field::new(Column::number("steps"), |r: &Row<'_>| {
            let numbers: Vec<String> = r.steps.iter().map(u32::to_string).collect();
            Cell::figure(numbers.join(", "), r.steps.first().map(|n| f64::from(*n)))
        }),
        Field::new(Column::number("requests"), |r: &Row<'_>| Cell::Count(r.first.due_n as f64)),
        Field::new(Column::text("limit"), |r: &Row<'_>| match r.limit {
            _ if r.grows => Cell::text(words::binding("stability")),
            limit => limit.map_or(Cell::Unknown, |l| Cell::text(words::binding(&l.key()))),
        }),
        Field::new(Column::number("missed"), |r: &Row<'_>| {
            r.limit.filter(|l| l.n > 0).map_or(Cell::Unknown, missed)
        }),
        share("within", |l| l.attainment),
        share("at least", |l| l.low),
        share("at most", |l| l.high),
        Field::new(Column::text("why"), |r: &Row<'_>| Cell::text(words::why(run, a, r.first))),
    ];
    Table::of(fields, rows).sorted_by_readers(1)
}

/// The decision on a level.
struct Decision {
    mark: Mark,
    word: &'static str,
    /// True if its requests alone are too few, and the fit of all steps decides.
    by_fit: bool,
}

impl Decision {
    fn cell(&self) -> Cell {
        Cell::marked(self.mark, format!("{}{}", self.word, if self.by_fit { " (fit)" } else { "" }))
    }
}

/// Returns the decision on a level: by its own requests, else by all steps together, if these decide.
fn decision(a: &Answer, d: &Decided<'_>) -> Decision {
    let g = &a.goodput;
    let high = interval(g).filter(|_| g.status() != Status::NotReached).map(|(_, [_, high])| high);
    let (mark, word, by_fit) = match d.verdict {
        Verdict::Meets => (Mark::Good, "accepted", false),
        Verdict::Fails => (Mark::Bad, "rejected", false),
        Verdict::Invalid => (Mark::Invalid, "invalid", false),
        Verdict::Undecided if usable_safe_rate(g).is_some_and(|safe| d.level <= safe) => {
            (Mark::Good, "accepted", true)
        }
        Verdict::Undecided if high.is_some_and(|high| d.level > high) => (Mark::Bad, "rejected", true),
        Verdict::Undecided => (Mark::Open, "undecided", false),
    };
    Decision { mark, word, by_fit }
}

/// Returns the limit that decides a step: the one that binds there, else that of the answer, else the one nearest to
/// being missed.
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

/// Returns accepted and rejected variants, each with its evidence; empty if the run has none.
pub(super) fn variants(run: &Run) -> Vec<Block> {
    let best = Best::of(&run.variants);
    let top = best.at_slo.and_then(|i| run.variants.get(i));
    let judged: Vec<(VariantDecision, &VariantAnswer)> =
        run.variants.iter().enumerate().map(|(i, v)| (VariantDecision::of(&best, top, i, v), v)).collect();
    type Judged<'a> = (VariantDecision, &'a VariantAnswer);
    let evidence = |v: &VariantAnswer| {
        let part = run.parts.iter().find(|p| p.series() == v.series);
        let evidence = part.zip(v.answer.as_ref()).map(|(p, a)| words::evidence_of(p, a));
        evidence.map_or(Cell::Unknown, Cell::text)
    };
    let settings = |v: &VariantAnswer| {
        let made = run.meta.variants.iter().find(|m| m.name == v.variant);
        Cell::known(made.map(settings).unwrap_or_default())
    };
    let fields = vec![
        Field::new(Column::text("decision"), |(d, _): &Judged<'_>| Cell::marked(d.mark, d.word)),
        Field::new(Column::text("variant"), |(_, v): &Judged<'_>| Cell::text(clip(&v.series, 40))),
        Field::new(Column::text("settings"), |(_, v): &Judged<'_>| settings(v)),
        Field::new(Column::text("why"), |(d, _): &Judged<'_>| Cell::text(d.why.as_str())),
        Field::new(Column::text("evidence"), |(_, v): &Judged<'_>| evidence(v)),
    ];
    vec![Table::of(fields, &judged).sorted_by_readers(1).into()]
}

/// Returns the settings of a variant's knobs.
fn settings(v: &VariantRun) -> String {
    let all: Vec<String> = v.knobs.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    clip(&all.join(", "), 120)
}

/// The decision on a variant, and the reason.
struct VariantDecision {
    mark: Mark,
    word: &'static str,
    why: String,
}

impl VariantDecision {
    fn accepted(why: String) -> Self {
        Self { mark: Mark::Good, word: "accepted", why }
    }

    fn rejected(why: String) -> Self {
        Self { mark: Mark::Bad, word: "rejected", why }
    }

    fn undecided(why: String) -> Self {
        Self { mark: Mark::Open, word: "undecided", why }
    }

    fn of(best: &Best, top: Option<&VariantAnswer>, at: usize, v: &VariantAnswer) -> Self {
        let goodput = |v: &VariantAnswer| {
            let cell = |a: &Answer| words::goodput_cell(a.control, &a.goodput);
            v.answer.as_ref().map_or(crate::document::UNKNOWN.into(), cell)
        };
        let reason = || v.reason.as_deref().map(|r| clip(r.trim_end_matches('.'), 300));
        match (v.state, v.answer.as_ref().map(|a| a.goodput.status())) {
            (State::Failed, _) => {
                Self::rejected(reason().unwrap_or_else(|| "it could not be measured".into()))
            }
            (State::Died, _) => Self::rejected(reason().unwrap_or_else(|| "its server died".into())),
            (State::Waiting | State::Running, _) | (State::Done, None) => {
                Self::undecided("it was not measured to the end".into())
            }
            (State::Done, Some(Status::None)) => {
                let binding =
                    v.answer.as_ref().and_then(|a| a.goodput.binding.as_deref()).map(words::binding);
                let binding = binding.map(|b| format!("; {b} binds")).unwrap_or_default();
                Self::rejected(format!("it keeps the SLO at no level{binding}"))
            }
            (State::Done, Some(_)) if best.at_slo == Some(at) => {
                Self::accepted(format!("the highest goodput: {}", goodput(v)))
            }
            (State::Done, Some(_)) if best.not_told_apart.contains(&at) => {
                Self::undecided(format!("not told apart from the best: {}", goodput(v)))
            }
            (State::Done, Some(Status::Undecided | Status::Invalid)) => Self::undecided(goodput(v)),
            (State::Done, Some(_)) => {
                let than =
                    top.map(|t| format!(", less than that of {}", clip(&t.series, 40))).unwrap_or_default();
                Self::rejected(format!("{}{than}", goodput(v)))
            }
        }
    }
}

/// Returns why the search stopped, what it had used by then, and the benefit of more time; for each answer.
pub(super) fn stopped(run: &Run) -> Vec<Block> {
    let several = run.answers.len() > 1;
    let one = |a: &Answer| -> Text {
        let whose = if several { format!("{}: ", words::whose(run, a)) } else { String::new() };
        format!("{whose}{}", sentence(run, a)).into()
    };
    let all: Vec<Text> = run.answers.iter().map(one).collect();
    if all.is_empty() {
        return Vec::new();
    }
    let measured: f64 = run.steps.iter().map(|s| s.measure_s).sum();
    let until = run.steps.iter().map(|s| s.ended_s).fold(0.0, f64::max);
    let clock = if run.meta.virtual_time { " of simulated time" } else { "" };
    let steps = if run.steps.len() == 1 { "step" } else { "steps" };
    let time = format!(
        "By then {} {steps} had taken {}{clock}, of which {} were measured.",
        run.steps.len(),
        words::span(until),
        words::span(measured)
    );
    vec![Block::List(all), Block::paragraph(time)]
}

/// Returns the end of a search in a sentence or two: `The search ended because the budget of 15m is spent.`
fn sentence(run: &Run, a: &Answer) -> String {
    let g = &a.goodput;
    let ended = if g.reason.ended().is_of_a_search() {
        format!("The search {}.", words::ended(g.reason.ended()))
    } else {
        format!("{}.", words::reason(&g.reason))
    };
    let meant = match g.status() {
        Status::Found => "The limit lies within what was measured.",
        Status::None => "No level was left that could keep the SLO.",
        Status::NotReached => "The limit lies above all that was tried.",
        Status::Undecided => "The limit was not closed in upon.",
        Status::Invalid => "More load would have told of the client, or of a server started anew.",
    };
    let halve = g.halve_s().filter(|s| *s > 0.0 && interval(g).is_some());
    let halve =
        halve.map(|s| format!(" Another {} of measuring would about halve the interval.", words::span(s)));
    let more = words::remedy(run, a).map(|r| format!(" {}.", capital(&r)));
    format!("{ended} {meant}{}{}", halve.unwrap_or_default(), more.unwrap_or_default()).replace("..", ".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::markdown::blocks;
    use goodput_run::fixture;

    fn text(section: &[Block]) -> String {
        blocks(section, 3)
    }

    fn case(name: &str) -> Run {
        fixture::cases().into_iter().find(|(n, _)| *n == name).map(|(_, r)| r).unwrap()
    }

    #[test]
    fn every_level_has_its_evidence() {
        insta::assert_snapshot!(text(&section(&case("two-steps"))), @r#"
        - accepted, shown to meet the SLO (req/s): 20
        - rejected, shown to fail (req/s): 45 (p99 TTFT)

        The evidence for each. Bounds are those of the verdict, for the true share of requests within the limit; neighbours that missed together count as fewer.

        | decision | level | steps | requests | limit | missed | within | at least | at most | why |
        | --- | --- | ---: | ---: | --- | ---: | ---: | ---: | ---: | --- |
        | ● accepted | 20 req/s | 1 | 2,400 | p99 TTFT | 0 of 2,400 | 100 % | 99.60 % | 100 % | every limit is shown to be met |
        | ✕ rejected | 45 req/s | 2 | 5,400 | p99 TTFT | 5,400 of 5,400 | 0 % | 0 % | 0.4 % | the backlog grows |
        "#);
        let soak = text(&section(&case("soak")));
        assert!(
            soak.starts_with("- accepted by all steps together: up to 33 req/s, the safe rate (5 % chance"),
            "{soak}"
        );
        assert!(soak.contains("- rejected by all steps together: above 35.3 req/s"), "{soak}");
        assert!(soak.contains("all steps count together"), "{soak}");
        let top = text(&section(&case("top")));
        assert!(!top.contains("rejected by all steps"), "{top}");
        assert!(top.contains("measured 3 times: undecided, meets, meets"), "{top}");
    }

    /// In every case, rows have as many cells as their heads.
    #[test]
    fn every_case_has_whole_rows() {
        for (name, run) in fixture::cases() {
            let text = text(&section(&run));
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
        let said: String = names.map(|n| format!("{n}:\n{}\n", text(&stopped(&case(n))))).concat();
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
