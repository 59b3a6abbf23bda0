//! A run of several series: what each came to beside the others, and the report that sets them side by side.

mod markdown;
pub mod terminal;

use super::escape::clip;
use super::words::{self, ends};
use goodput_core::caveat::Caveat;
use goodput_core::level::Control;
use goodput_run::rundir::derive::{interval, usable_safe_rate};
use goodput_run::rundir::{At, Pair, Run, common_level};
use goodput_stats::search::answer::{Answer, Status};
use goodput_stats::stats::step::StepKind;

pub(super) use markdown::document;

/// Series whose hit rates are further apart differ by their caches as well.
const ALIKE: f64 = 0.05;
/// So many series have their figures in the headline.
const IN_HEADLINE: usize = 4;

/// What an answer came to, as cells.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    /// The series, with the tier or class where there are several.
    pub(super) name: String,
    /// The goodput with its unit.
    pub(super) goodput: String,
    /// Both ends of its 90 % interval; empty where there is none.
    pub(super) interval: String,
    /// The rate to plan with; empty where there is none.
    pub(super) safe: String,
    /// The limit that binds.
    pub(super) binding: String,
    /// TTFT at the common level, or empty.
    pub(super) ttft: [String; 2],
    /// Share of the prompt tokens from the server's prefix cache there; empty where it is not known.
    pub(super) hit_rate: String,
}

/// The series beside one another.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Table {
    /// The level at which latencies are compared, with its unit, where there is one.
    pub(super) level: Option<String>,
    /// A row for each answer.
    pub(super) rows: Vec<Row>,
    /// What the reader must know to compare them.
    pub(super) notes: Vec<String>,
}

/// A share in per cent: `66.6 %`.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// What each answer of a run of several series came to.
pub(super) fn table(run: &Run) -> Table {
    let parts: Vec<&Run> = run.parts.iter().collect();
    let level = common_level(&parts);
    let at = |part: &Run| level.and_then(|level| part.at(level));
    let mut rows = Vec::new();
    for part in &parts {
        let shown = at(part);
        if part.answers.is_empty() {
            rows.push(Row {
                goodput: "not measured".into(),
                ..Row::of(part.series().to_owned(), shown.as_ref(), part)
            });
        }
        for a in &part.answers {
            let name = words::whose(run, a);
            rows.push(Row::of(name, shown.as_ref(), part).with(a));
        }
    }
    let control = run.answers.first().map_or(Control::Rate, |a| a.control);
    let between = parts.iter().filter_map(|p| at(p)).any(|a| a.steps.len() > 1);
    Table { level: level.map(|l| words::level(control, l)), rows, notes: notes(run, level, between) }
}

fn notes(run: &Run, level: Option<f64>, between: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let control = run.answers.first().map_or(Control::Rate, |a| a.control);
    match level {
        Some(level) => notes.push(format!(
            "TTFT is compared at {}, the highest {} that was measured and that every series can take{}.",
            words::level(control, level),
            words::noun(control),
            if between { "; ≈ lies between two steps, in proportion" } else { "" }
        )),
        None => notes.push(
            "There is no level that every series was measured at and can take, so no latencies are compared."
                .into(),
        ),
    }
    let rates: Vec<f64> = run.parts.iter().filter_map(mean_hit_rate).collect();
    let ends = rates.iter().fold((1.0_f64, 0.0_f64), |(l, h), r| (l.min(*r), h.max(*r)));
    // What a pair is about is said of it at length.
    let pair_alone = run.parts.len() == 2 && Pair::all(run).len() == 1;
    if !pair_alone && rates.len() > 1 && ends.1 - ends.0 > ALIKE {
        notes.push(format!(
            "The server had between {} and {} of the prompt tokens in its prefix cache: part of what differs between series is the cache's.",
            percent(ends.0),
            percent(ends.1)
        ));
    }
    notes
}

/// The hit rate of a series, as far as its steps know it: the mean over the steps under load.
fn mean_hit_rate(part: &Run) -> Option<f64> {
    let known: Vec<f64> = part
        .steps
        .iter()
        .filter(|s| s.kind != StepKind::Baseline)
        .filter_map(|s| s.server.hit_rate)
        .collect();
    (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
}

impl Row {
    fn of(name: String, at: Option<&At>, part: &Run) -> Self {
        let about = if at.is_some_and(|a| a.steps.len() > 1) { "≈ " } else { "" };
        let cell = |ms: Option<f64>| ms.map_or(String::new(), |ms| format!("{about}{}", words::figure(ms)));
        let hit_rate = at.and_then(|a| a.hit_rate).or_else(|| mean_hit_rate(part));
        Self {
            name,
            goodput: String::new(),
            interval: String::new(),
            safe: String::new(),
            binding: String::new(),
            ttft: [cell(at.map(|a| a.p50)), cell(at.and_then(|a| a.p99))],
            hit_rate: hit_rate.map(percent).unwrap_or_default(),
        }
    }

    fn with(self, a: &Answer) -> Self {
        let g = &a.goodput;
        let binding = g.binding.as_deref().map(words::binding).unwrap_or_default();
        match ends(a.control, g) {
            Some(([rate, low, high], safe)) => {
                let open = if g.status == Status::Undecided { "undecided: " } else { "" };
                Self {
                    goodput: format!("{open}{rate}{}", a.control.unit()),
                    interval: format!("{low} – {high}"),
                    safe: safe.unwrap_or_else(|| "none".into()),
                    binding,
                    ..self
                }
            }
            None => Self {
                goodput: words::goodput_cell(a.control, g),
                safe: usable_safe_rate(g).map(words::level_number).unwrap_or_default(),
                binding,
                ..self
            },
        }
    }
}

/// What an answer came to in a word or two, and whether it is a figure: `31.5`, `at least 30`, `undecided`, and `at most 2.79` where no
/// level is shown to be safe. What is undecided is never told as a rate that is served.
fn brief(a: &Answer) -> (String, bool) {
    let g = &a.goodput;
    let known = matches!(g.status, Status::Found | Status::NotReached);
    let from_zero = interval(g).is_some_and(|(_, [low, _])| low <= 0.0);
    match (ends(a.control, g), g.rate.or(g.met)) {
        (Some(([_, _, high], _)), _) if from_zero => (format!("at most {high}"), true),
        (Some(([rate, ..], _)), _) if known => (rate, true),
        (None, Some(rate)) if known => (format!("at least {}", words::level_number(rate)), true),
        _ => (g.status.name().to_owned(), false),
    }
}

/// The answers of several series in one line, for above a chart; `None` where there is one.
pub(super) fn headline(run: &Run) -> Option<String> {
    let firsts: Vec<&Answer> = run.parts.iter().filter_map(|p| p.answers.first()).collect();
    let control = firsts.first()?.control;
    let unit = match control {
        Control::Rate => " requests/s",
        Control::Concurrency => " requests in flight",
        Control::Sessions | Control::TraceScale => control.unit(),
    };
    let alike = firsts.iter().all(|a| a.control == control);
    let told = firsts.iter().position(|a| brief(a).1);
    // The unit stands behind the first figure alone.
    let say = |(i, a): (usize, &&Answer)| {
        let unit = if alike && told == Some(i) { unit } else { "" };
        format!("{}{unit} {}", brief(a).0, clip(&a.series, 24))
    };
    let mut said: Vec<String> = firsts.iter().enumerate().take(IN_HEADLINE).map(say).collect();
    if firsts.len() > IN_HEADLINE {
        said.push(format!("{} more series", firsts.len() - IN_HEADLINE));
    }
    Some(format!("{} within the SLO: {}", words::subject(&run.meta), words::list(&said)))
}

/// The pairs of cold and warm caches, in sentences.
pub(super) fn pairs(run: &Run) -> Vec<String> {
    Pair::all(run).iter().flat_map(|pair| super::pair::sentences(run, pair)).collect()
}

/// The caveats of a part that are not about the whole run, for its own section.
pub(super) fn own_caveats(run: &Run, part: &Run) -> Vec<Caveat> {
    let own = |c: &&Caveat| run.series_of(c).contains(&part.series());
    part.caveats.iter().filter(own).cloned().collect()
}

/// Folder names for the series, each once: `mix-cold`.
pub(super) fn slugs(run: &Run) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for part in &run.parts {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let text: String = part.series().chars().map(plain).collect();
        let words: Vec<&str> = text.split('-').filter(|w| !w.is_empty()).collect();
        let own = if words.is_empty() || words == ["slides"] { "series".to_owned() } else { words.join("-") };
        let free = |name: &String| !out.contains(name);
        let name = std::iter::once(own.clone()).chain((2..).map(|i| format!("{own}-{i}"))).find(free);
        out.extend(name);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_core::caveat::{OriginCaveat, ServerCaveat};
    use goodput_run::fixture;

    #[test]
    fn series_stand_beside_one_another() {
        let run = fixture::pair();
        let table = table(&run);
        let rows: Vec<[&str; 4]> =
            table.rows.iter().map(|r| [r.name.as_str(), &r.goodput, &r.ttft[0], &r.hit_rate]).collect();
        assert_eq!((rows[0][0], rows[1][0]), ("cold", "warm"));
        assert_eq!((rows[0][3], rows[1][3]), ("0.4 %", "66.0 %"));
        assert!(rows[0][1].starts_with("33.6 req/s"), "{rows:?}");
        assert!(table.level.is_some_and(|l| l.ends_with(" requests/s")));
        assert!(
            !table.notes.iter().any(|n| n.contains("prefix cache")),
            "the pair says it: {:?}",
            table.notes
        );
        let mut named = run.clone();
        named.parts[1].answers[0].series = "only chat".into();
        let notes = super::table(&named).notes.join(" ");
        assert!(notes.contains("between 0.4 % and 66.0 % of the prompt tokens"), "{notes}");
        let head = headline(&run).unwrap();
        assert!(
            head.starts_with("One A40 within the SLO: 33.6") && head.contains(" requests/s cold and "),
            "{head}"
        );
        assert_eq!(headline(&fixture::found()), None);
    }

    #[test]
    fn what_is_undecided_is_no_rate_that_is_served() {
        let mut run = fixture::pair();
        let mut told = |status, rate: Option<f64>, interval90| {
            let g = &mut run.parts[0].answers[0].goodput;
            (g.status, g.rate, g.interval90, g.safe_rate) = (status, rate, interval90, None);
            headline(&run).unwrap()
        };
        for (status, rate, interval90, says) in [
            (
                Status::Undecided,
                Some(1.83),
                Some([0.0, 2.79]),
                "SLO: at most 2.79 requests/s cold and at least ",
            ),
            (Status::Undecided, Some(18.3), Some([11.0, 27.9]), "SLO: undecided cold and at least "),
            (Status::Undecided, None, None, "SLO: undecided cold and at least "),
            (Status::Invalid, Some(18.3), None, "SLO: invalid cold and at least "),
            (Status::Found, Some(18.3), Some([11.0, 27.9]), "SLO: 18.3 requests/s cold and at least "),
        ] {
            let head = told(status, rate, interval90);
            assert!(head.contains(says), "{says}: {head}");
            assert_eq!(head.matches(" requests/s").count(), 1, "behind the first figure: {head}");
        }
    }

    #[test]
    fn the_hit_rate_of_a_series_is_that_under_load() {
        let run = fixture::pair();
        let mut part = run.parts[1].clone();
        (part.steps[0].kind, part.steps[0].server.hit_rate) = (StepKind::Baseline, Some(0.0));
        assert!(mean_hit_rate(&part).is_some_and(|rate| (rate - 0.66).abs() < 1e-9));
    }

    #[test]
    fn names_become_folders() {
        let mut run = fixture::pair();
        let (one, two) = (run.parts[0].clone(), run.parts[1].clone());
        run.parts = vec![one.clone(), two, one];
        run.parts[0].answers[0].series = "mix, Cold/..".into();
        run.parts[1].answers[0].series = "slides".into();
        run.parts[2].answers[0].series = "mix cold".into();
        assert_eq!(slugs(&run), ["mix-cold", "series", "mix-cold-2"]);
    }

    #[test]
    fn a_caveat_of_one_series_stands_in_its_section() {
        let late = Caveat::Server(ServerCaveat::NotDrained { step: 13, left: 1.0 });
        let run = fixture::pair_with(vec![Caveat::Origin(OriginCaveat::VirtualTime), late.clone()]);
        assert!(!own_caveats(&run, &run.parts[0]).contains(&late));
        assert!(own_caveats(&run, &run.parts[1]).contains(&late));
        assert!(!own_caveats(&run, &run.parts[1]).contains(&Caveat::Origin(OriginCaveat::VirtualTime)));
    }
}
