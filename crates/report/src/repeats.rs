//! Several runs of one plan, for people: a table of the runs, and what they come to together.

use super::escape::{markdown as escaped, plain};
use super::terminal::STYLE;
use super::words::{date, goodput_cell, precise};
use comfy_table::Table;
use goodput_core::units::short;
use goodput_run::rundir::repeats::{PooledAnswer, RepeatedRun, Repeats, Shortfall, State};
use goodput_stats::search::answer::{Answer, Status};
use std::fmt::Write;
use std::path::Path;

/// The columns of the table of runs.
const HEADS: [&str; 6] = ["run", "seed", "goodput", "status", "binds", "state"];

/// Returns everything for a terminal: the table of runs, and what they come to, for each series and tier.
pub fn terminal(repeats: &Repeats, files: &[String]) -> String {
    let mut out = String::new();
    for pooled in &repeats.pooled {
        let mut table = Table::new();
        table.load_style(STYLE);
        table.set_header(HEADS);
        for run in &repeats.runs {
            table.add_row(cells(run, pooled).iter().map(|cell| plain(cell)));
        }
        let whose = whose(repeats, pooled);
        let heading = if whose.is_empty() { String::new() } else { format!("{}\n", plain(&whose)) };
        let _ = write!(out, "{heading}{table}\n\n");
        for (name, text) in lines(pooled) {
            let _ = writeln!(out, "{name:15}  {text}");
        }
        out.push('\n');
    }
    if repeats.pooled.is_empty() {
        let _ = write!(out, "None of the {} runs has an answer yet.\n\n", repeats.settings.repeats);
    }
    for file in files {
        let _ = writeln!(out, "  {file}");
    }
    out.trim_end().to_owned()
}

/// Returns one line for a run that has just ended: its first answer.
pub fn line(run: &RepeatedRun) -> String {
    match run.answers.first() {
        Some(answer) => goodput_cell(answer.control, &answer.goodput),
        None => format!("no answer ({})", run.state.name()),
    }
}

/// Returns the page for people; `dir` is the folder of all runs.
pub fn page(repeats: &Repeats, dir: &Path) -> String {
    let mut out = format!("# {}: {} runs\n\n", escaped(&repeats.name), repeats.settings.repeats);
    for pooled in &repeats.pooled {
        let whose = whose(repeats, pooled);
        if !whose.is_empty() {
            let _ = write!(out, "## {}\n\n", escaped(&whose));
        }
        out.push_str("| | |\n|---|---|\n");
        for (name, text) in lines(pooled) {
            let _ = writeln!(out, "| {name} | {} |", escaped(&text));
        }
        let _ = write!(out, "\n| {} |\n|{}\n", HEADS.join(" | "), "---|".repeat(HEADS.len()));
        for run in &repeats.runs {
            let cells = cells(run, pooled).map(|cell| escaped(&cell));
            let _ = writeln!(out, "| {} |", cells.join(" | "));
        }
        out.push('\n');
    }
    if repeats.pooled.is_empty() {
        out.push_str("No run has an answer yet.\n\n");
    }
    method(&mut out, repeats);
    about(&mut out, repeats, dir);
    out
}

/// Adds how the runs are pooled.
fn method(out: &mut String, repeats: &Repeats) {
    out.push_str(
        "Each run is a sweep with a seed of its own. The runs are pooled as logarithms by a random-effects model: the variance between runs by \
         Paule and Mandel, the interval of the mean by Hartung and Knapp (Student's distribution, one degree of freedom less than there are \
         runs), the interval of the next run by Higgins, Thompson and Spiegelhalter (two less), widened where what is not known of the variance \
         asks for it. A run without a rate and an interval is counted and shown, and no part of the mean.\n\n",
    );
    let between = if repeats.settings.restart {
        "The server was stopped and started anew between runs."
    } else {
        "The server was not started anew between runs: what a restart changes is in none of these figures."
    };
    let _ = write!(out, "{between}\n\n");
}

/// Adds what was measured, and how to make this again.
fn about(out: &mut String, repeats: &Repeats, dir: &Path) {
    let about = &repeats.about;
    out.push_str("| | |\n|---|---|\n");
    let started = repeats.runs.iter().find_map(|run| run.started.as_deref()).map(date);
    let server = about.server.as_ref().map(ToString::to_string).unwrap_or_default();
    let workload = about.workload.as_ref().map(ToString::to_string).unwrap_or_default();
    for (name, text) in [
        ("server", server.as_str()),
        ("model", &about.model),
        ("workload", &workload),
        ("SLO", &about.slo),
        ("first run", started.as_deref().unwrap_or_default()),
    ] {
        if !text.is_empty() {
            let _ = writeln!(out, "| {name} | {} |", escaped(text));
        }
    }
    let shown = super::comparison::markdown::quoted(&dir.display().to_string());
    let _ = write!(
        out,
        "\nMade by goodput {}. `goodput report {shown}` makes this page again; `goodput sweep --resume {shown}` measures runs that are not done, \
         and with `--repeat N` more of them.\n",
        repeats.goodput_version
    );
}

/// Returns the series and tier of an answer, where there are several; else nothing.
fn whose(repeats: &Repeats, pooled: &PooledAnswer) -> String {
    if repeats.pooled.len() < 2 {
        return String::new();
    }
    let parts = [&pooled.series, &pooled.tier, &pooled.class];
    let named: Vec<&str> =
        parts.iter().map(|p| p.as_str()).filter(|p| !p.is_empty() && *p != "all").collect();
    named.join(", ")
}

/// Returns the row of a run in the table.
fn cells(run: &RepeatedRun, of: &PooledAnswer) -> [String; 6] {
    let is_own = |a: &&Answer| (&a.series, &a.tier, &a.class) == (&of.series, &of.tier, &of.class);
    let answer = run.answers.iter().find(is_own);
    let goodput = answer.map(|a| &a.goodput);
    [
        run.folder.clone(),
        run.seed.to_string(),
        answer.map_or("–".to_owned(), |a| goodput_cell(a.control, &a.goodput)),
        goodput.map_or("–", |g| g.status.name()).to_owned(),
        goodput.and_then(|g| g.binding.as_deref()).map_or("–".to_owned(), super::words::binding_in_short),
        run.state.name().to_owned(),
    ]
}

/// Returns what the runs come to together, each line with its name.
pub fn lines(p: &PooledAnswer) -> Vec<(&'static str, String)> {
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

/// Returns the reason why no rate is called safe for the next run.
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

/// Returns the runs that are no part of the mean, by the kind of their answer.
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
