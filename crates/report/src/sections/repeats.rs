//! Several runs of one plan, for people: a table of the runs, and their pooled result.

use crate::document::{Block, Cell, Column, Document, Field, Section, Setting, Table, Text, code, plain};
use crate::escape::argument;
use crate::words::{binding_in_short, date, goodput_cell, precise};
use goodput_core::units::short;
use goodput_run::rundir::repeats::{PooledAnswer, RepeatedRun, Repeats, Shortfall, State};
use goodput_stats::search::answer::{Answer, Status};
use std::path::Path;

/// Returns the whole report for a terminal: the table of runs, and the pooled result for each series and tier.
pub fn brief(repeats: &Repeats, files: &[String]) -> Document {
    let mut sections = Vec::new();
    for pooled in &repeats.pooled {
        let heading = Block::paragraph(whose(repeats, pooled));
        sections.push(Section::untitled(vec![heading, table(repeats, pooled).into()]));
        sections.push(Section::untitled(vec![Block::facts(lines(pooled))]));
    }
    if repeats.pooled.is_empty() {
        let none = format!("None of the {} runs has an answer yet.", repeats.settings.repeats);
        sections.push(Section::untitled(vec![Block::paragraph(none)]));
    }
    sections.push(Section::untitled(vec![Block::list(files.iter().map(String::as_str))]));
    Document::of(sections)
}

/// Returns the runs with the answer of each.
fn table(repeats: &Repeats, pooled: &PooledAnswer) -> Table {
    let is_own =
        |a: &&Answer| (&a.series, &a.tier, &a.class) == (&pooled.series, &pooled.tier, &pooled.class);
    let of = |run: &RepeatedRun, cell: fn(&Answer) -> Cell| {
        run.answers.iter().find(is_own).map_or(Cell::Unknown, cell)
    };
    let fields = vec![
        Field::new(Column::text("run"), |run: &RepeatedRun| Cell::text(run.folder.as_str())),
        Field::new(Column::text("seed"), |run: &RepeatedRun| Cell::text(run.seed.to_string())),
        Field::new(Column::text("goodput"), |run: &RepeatedRun| {
            of(run, |a| Cell::text(goodput_cell(a.control, &a.goodput)))
        }),
        Field::new(Column::text("status"), |run: &RepeatedRun| {
            of(run, |a| Cell::text(a.goodput.status().name()))
        }),
        Field::new(Column::text("binds"), |run: &RepeatedRun| {
            of(run, |a| {
                a.goodput.binding.as_deref().map_or(Cell::Unknown, |b| Cell::text(binding_in_short(b)))
            })
        }),
        Field::new(Column::text("state"), |run: &RepeatedRun| Cell::text(run.state.name())),
    ];
    Table::of(fields, &repeats.runs).captioned("Runs").set(Setting::Whole)
}

/// Returns one line for a run that has just ended: its first answer.
pub fn line(run: &RepeatedRun) -> String {
    match run.answers.first() {
        Some(answer) => goodput_cell(answer.control, &answer.goodput),
        None => format!("no answer ({})", run.state.name()),
    }
}

/// Returns the page for people; `dir` is the folder of all runs.
pub fn page(repeats: &Repeats, dir: &Path) -> Document {
    let mut lead = Vec::new();
    let mut sections = Vec::new();
    for pooled in &repeats.pooled {
        let blocks = vec![named(lines(pooled)).into(), table(repeats, pooled).into()];
        match whose(repeats, pooled) {
            whose if whose.is_empty() => lead.extend(blocks),
            whose => sections.push(Section::titled(whose, blocks)),
        }
    }
    if repeats.pooled.is_empty() {
        lead.push(Block::paragraph("No run has an answer yet."));
    }
    // Facts common to all are given after the last.
    let mut rest = method(repeats);
    rest.extend(about(repeats, dir));
    match sections.last_mut() {
        Some(last) => last.blocks.extend(rest),
        None => lead.extend(rest),
    }
    let title = format!("{}: {} runs", repeats.name, repeats.settings.repeats);
    Document { title: title.into(), lead, sections, ..Document::default() }
}

/// A name with its value.
type Fact = (&'static str, String);

/// Returns names and values in two columns.
fn named(facts: Vec<Fact>) -> Table {
    let rows = facts.into_iter().map(|(name, text)| vec![Cell::text(name), Cell::text(text)]).collect();
    Table::new(vec![Column::text(""), Column::text("")], rows)
}

/// Returns how the runs are pooled.
fn method(repeats: &Repeats) -> Vec<Block> {
    let pooled = "Each run is a sweep with a seed of its own. The runs are pooled as logarithms by a random-effects model: the variance between runs by \
         Paule and Mandel, the interval of the mean by Hartung and Knapp (Student's distribution, one degree of freedom less than there are \
         runs), the interval of the next run by Higgins, Thompson and Spiegelhalter (two less), widened where what is not known of the variance \
         asks for it. A run without a rate and an interval is counted and shown, and no part of the mean.";
    let between = if repeats.settings.restart {
        "The server was stopped and started anew between runs."
    } else {
        "The server was not started anew between runs: what a restart changes is in none of these figures."
    };
    vec![Block::paragraph(pooled), Block::paragraph(between)]
}

/// Returns the subject of the measurement, and how to repeat it.
fn about(repeats: &Repeats, dir: &Path) -> Vec<Block> {
    let about = &repeats.about;
    let started = repeats.runs.iter().find_map(|run| run.started.as_deref()).map(date);
    let facts = [
        ("server", about.server.as_ref().map(ToString::to_string).unwrap_or_default()),
        ("model", about.model.clone()),
        ("workload", about.workload.as_ref().map(ToString::to_string).unwrap_or_default()),
        ("SLO", about.slo.clone()),
        ("first run", started.unwrap_or_default()),
    ];
    let facts = facts.into_iter().filter(|(_, text)| !text.is_empty()).collect();
    let shown = argument(&dir.display().to_string());
    let made = Text::of([
        plain(format!("Made by goodput {}. ", repeats.goodput_version)),
        code(format!("goodput report {shown}")),
        plain(" makes this page again; "),
        code(format!("goodput sweep --resume {shown}")),
        plain(" measures runs that are not done, and with "),
        code("--repeat N"),
        plain(" more of them."),
    ]);
    vec![named(facts).into(), Block::Paragraph(made)]
}

/// Returns the series and tier of an answer, if there are several; else nothing.
fn whose(repeats: &Repeats, pooled: &PooledAnswer) -> String {
    if repeats.pooled.len() < 2 {
        return String::new();
    }
    let parts = [&pooled.series, &pooled.tier, &pooled.class];
    let named: Vec<&str> =
        parts.iter().map(|p| p.as_str()).filter(|p| !p.is_empty() && *p != "all").collect();
    named.join(", ")
}

/// Returns the pooled result, each line with its name.
pub(super) fn lines(p: &PooledAnswer) -> Vec<Fact> {
    let unit = p.control.unit();
    let mut all = Vec::new();
    let reach = |[low, high]: [f64; 2]| format!("{} – {}", precise(low), precise(high));
    match (p.rate, p.interval90) {
        (Some(rate), Some(ends)) => all.push((
            "mean over runs",
            format!(
                "{}{unit} (90 % interval {}), from {} of {} runs",
                precise(rate),
                reach(ends),
                p.pooled,
                p.runs
            ),
        )),
        _ => all.push(("goodput", without_mean(p))),
    }
    if let (Some(between), Some(within)) = (p.between_sd, p.within_sd) {
        let percent = |x: f64| short(100.0 * x);
        let text = format!(
            "standard deviation {} % between runs, about {} % within one",
            percent(between),
            percent(within)
        );
        all.push(("scatter", text));
    }
    match p.prediction90 {
        Some(ends) => all
            .push(("next run", format!("{}{unit} (90 % prediction interval of its boundary)", reach(ends)))),
        None if p.shortfalls.contains(&Shortfall::NoPrediction) => all.push((
            "next run",
            "cannot be told: a prediction needs three runs with a rate and an interval".to_owned(),
        )),
        None => {}
    }
    let confidence = short(100.0 * p.confidence);
    match p.safe_rate {
        Some(safe) => {
            all.push(("safe, next run", format!("{}{unit} ({confidence} % confidence)", precise(safe))));
        }
        None => all.push(("safe, next run", format!("none: {}", why_not_safe(p)))),
    }
    if p.pooled < p.runs {
        all.push(("other runs", others(p)));
    }
    all
}

/// Returns the answer of runs that have no mean.
fn without_mean(p: &PooledAnswer) -> String {
    let unit = p.control.unit();
    match (p.status, p.bracket) {
        (Status::None, _) => format!("none: no rate meets the SLO in any of {} runs", p.runs),
        (Status::NotReached, Some([Some(met), None])) => {
            format!("at least {}{unit}: each of {} runs met its highest level", precise(met), p.runs)
        }
        (Status::Found, Some([Some(met), Some(failed)])) => format!(
            "between {} and {}{unit}: brackets of {} runs, without intervals",
            precise(met),
            precise(failed),
            p.runs
        ),
        _ => format!("undecided: {} of {} runs has a rate with an interval", p.pooled, p.runs),
    }
}

/// Returns why no rate is called safe for the next run.
fn why_not_safe(p: &PooledAnswer) -> String {
    let reason = |s: &Shortfall| match s {
        Shortfall::TooFewRates => format!("{} of {} runs have a rate with an interval", p.pooled, p.runs),
        Shortfall::NoPrediction => "two runs do not tell how the next one will differ".to_owned(),
        Shortfall::Contradiction => {
            format!(
                "{} of {} runs found that no rate meets the SLO, so the mean of the others is too high",
                p.none, p.runs
            )
        }
        Shortfall::Minority => format!("only {} of {} runs have a rate with an interval", p.pooled, p.runs),
    };
    let all: Vec<String> = p.shortfalls.iter().map(reason).collect();
    if all.is_empty() { "the runs give brackets and no intervals".to_owned() } else { all.join("; ") }
}

/// Returns the runs that are excluded from the mean, by the kind of their answer.
fn others(p: &PooledAnswer) -> String {
    let open = p.found - p.pooled.min(p.found);
    let kinds = [
        (open, "found without a closed interval"),
        (p.none, "none (no rate meets the SLO)"),
        (p.not_reached, "not reached (the boundary lies above the highest level)"),
        (p.undecided, "undecided"),
        (p.invalid, "invalid (the client was the limit)"),
    ];
    let told: Vec<String> =
        kinds.into_iter().filter(|(n, _)| *n > 0).map(|(n, kind)| format!("{n} {kind}")).collect();
    format!("{}: no part of the mean", told.join(", "))
}

/// Returns true if all runs are done.
pub fn is_complete(repeats: &Repeats) -> bool {
    repeats.runs.iter().all(|run| run.state == State::Done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_core::level::Control;

    fn pooled() -> PooledAnswer {
        PooledAnswer {
            series: "main".into(),
            tier: String::new(),
            class: "all".into(),
            control: Control::Rate,
            status: Status::Found,
            runs: 4,
            pooled: 3,
            found: 3,
            none: 0,
            not_reached: 0,
            undecided: 1,
            invalid: 0,
            rate: Some(36.2),
            interval90: Some([35.1, 37.3]),
            prediction90: Some([32.0, 40.9]),
            safe_rate: Some(32.0),
            between_sd: Some(0.021),
            within_sd: Some(0.025),
            bracket: None,
            confidence: 0.95,
            shortfalls: Vec::new(),
        }
    }

    fn said(p: &PooledAnswer) -> String {
        lines(p).into_iter().map(|(name, text)| format!("{name}: {text}\n")).collect()
    }

    #[test]
    fn a_pooled_answer_says_what_it_rests_on() {
        assert_eq!(
            said(&pooled()),
            "mean over runs: 36.2 req/s (90 % interval 35.1 – 37.3), from 3 of 4 runs\n\
             scatter: standard deviation 2.1 % between runs, about 2.5 % within one\n\
             next run: 32 – 40.9 req/s (90 % prediction interval of its boundary)\n\
             safe, next run: 32 req/s (95 % confidence)\n\
             other runs: 1 undecided: no part of the mean\n"
        );
    }

    #[test]
    fn what_cannot_be_told_is_said_with_its_reason() {
        let two = PooledAnswer {
            pooled: 2,
            prediction90: None,
            safe_rate: None,
            shortfalls: vec![Shortfall::NoPrediction],
            ..pooled()
        };
        assert!(
            said(&two).contains("next run: cannot be told: a prediction needs three runs"),
            "{}",
            said(&two)
        );
        let against = PooledAnswer {
            none: 1,
            undecided: 0,
            status: Status::Undecided,
            safe_rate: None,
            shortfalls: vec![Shortfall::Contradiction],
            ..pooled()
        };
        assert!(
            said(&against).contains("none: 1 of 4 runs found that no rate meets the SLO"),
            "{}",
            said(&against)
        );
        let nothing = PooledAnswer {
            rate: None,
            interval90: None,
            prediction90: None,
            between_sd: None,
            safe_rate: None,
            pooled: 0,
            found: 0,
            none: 4,
            undecided: 0,
            status: Status::None,
            shortfalls: vec![Shortfall::TooFewRates],
            ..pooled()
        };
        assert!(
            said(&nothing).starts_with("goodput: none: no rate meets the SLO in any of 4 runs"),
            "{}",
            said(&nothing)
        );
    }
}
