//! The pages of finished runs: an index with the trend of the goodput, comparisons, and messages. They run no script.

mod trend;

use crate::document::Section;
use crate::escape::{lines, plain};
use crate::render::html;
use crate::sections::comparison;
use crate::words;
use anyhow::{Context, Result};
use askama::Template;
use goodput_run::compare::Comparison;
use goodput_run::rundir::Run;
use goodput_stats::search::answer::Answer;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Maximum number of answers of a run in the index.
const MOST_ANSWERS: usize = 6;

const STYLE: &str = include_str!("../templates/watch.css");
/// Styles of these pages alone.
const OWN: &str = ".lines { white-space: pre-line; max-width: none; } .go { padding: .35rem 1rem; cursor: pointer; } .plot { background: var(--ground); } .plot > svg { border: 0; }\n";

/// Characters of a run's name that are encoded in its address.
const ESCAPED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'/');

/// The content security policy of these pages.
pub const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// A run as the index shows it.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Path of its folder below the folder that is viewed.
    pub name: String,
    /// Its facts, or the reason why it cannot be read.
    pub summary: Result<Summary, String>,
}

/// The facts of a run that the index shows.
#[derive(Debug, Clone)]
pub struct Summary {
    /// Start time (RFC 3339).
    pub started: String,
    server: String,
    headline: String,
    answers: Vec<(String, Answer)>,
    /// The plan, limits, model and workload: runs with the same text belong to one trend.
    question: String,
}

impl Summary {
    /// Returns the facts of a run.
    pub fn of(run: &Run) -> Self {
        let meta = &run.meta;
        let engine = meta.facts.iter().find_map(|facts| Some((facts.engine?, facts.version.as_deref())));
        let engine =
            engine.map(|(engine, version)| format!("{} {}", engine.title(), version.unwrap_or_default()));
        Self {
            started: meta.started.clone(),
            server: engine.unwrap_or_else(|| meta.server.to_string()),
            headline: words::headline(run),
            answers: run.answers.iter().map(|a| (words::whose(run, a), a.clone())).collect(),
            question: format!("{}: {} on {}, {}", run.name, meta.slo, meta.model, meta.workload),
        }
    }
}

#[derive(Template, Default)]
#[template(path = "runs.html")]
struct Page {
    title: String,
    style: String,
    text: String,
    back: bool,
    /// The runs to compare although they did not measure the same thing.
    anyway: Option<(String, String)>,
    rows: Vec<RunRow>,
    trends: Vec<trend::Trend>,
}

struct RunRow {
    name: String,
    link: String,
    readable: bool,
    started: String,
    server: String,
    answers: Vec<String>,
}

impl RunRow {
    fn of(entry: &Entry) -> Self {
        let link = utf8_percent_encode(&entry.name, &ESCAPED).to_string();
        let name = entry.name.clone();
        match &entry.summary {
            Ok(s) => {
                let line = |(whose, a): &(String, Answer)| {
                    let cell = words::goodput_cell(a.control, &a.goodput);
                    plain(&if whose.is_empty() { cell } else { format!("{whose}: {cell}") })
                };
                let mut answers: Vec<String> = s.answers.iter().take(MOST_ANSWERS).map(line).collect();
                if answers.is_empty() {
                    answers.push(plain(&s.headline));
                }
                if s.answers.len() > MOST_ANSWERS {
                    answers.push(format!("and {} more", s.answers.len() - MOST_ANSWERS));
                }
                let started = plain(&words::moment(&s.started));
                Self { name, link, readable: true, started, server: plain(&s.server), answers }
            }
            Err(why) => Self {
                name,
                link,
                readable: false,
                started: String::new(),
                server: String::new(),
                answers: vec![plain(why)],
            },
        }
    }
}

fn render(page: Page) -> Result<String> {
    let style = format!("{}{STYLE}{OWN}", html::style(""));
    Page { style, ..page }.render().context("failed to fill in the page")
}

/// Returns the index of runs, which are in the order to show.
///
/// # Errors
/// The template cannot be filled in.
pub fn index(title: &str, entries: &[Entry]) -> Result<String> {
    let text = if entries.is_empty() { "There is no run folder here." } else { "" };
    let rows = entries.iter().map(RunRow::of).collect();
    render(Page {
        title: plain(title),
        text: text.into(),
        rows,
        trends: trend::trends(entries),
        ..Page::default()
    })
}

/// Returns a page with a message. `anyway` are two runs that can be compared although they differ.
///
/// # Errors
/// The template cannot be filled in.
pub fn message(title: &str, text: &str, anyway: Option<(String, String)>) -> Result<String> {
    render(Page { title: plain(title), text: lines(text), back: true, anyway, ..Page::default() })
}

/// Returns a comparison as a page.
///
/// # Errors
/// The template cannot be filled in.
pub fn compared(c: &Comparison) -> Result<String> {
    let mut page = comparison::page(c, &[]);
    // Pages show sections only.
    let lead = std::mem::take(&mut page.lead);
    page.sections.insert(0, Section::titled("Result", lead));
    html::render(&page, &html::Charts::default(), "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_run::fixture;

    fn entry(name: &str, started: &str, factor: f64) -> Entry {
        let mut run = fixture::adaptive();
        run.meta.started = started.into();
        for a in &mut run.answers {
            use goodput_stats::search::answer::{Conclusion, Located};
            if let Conclusion::Found(Located::Estimate { median: at, interval, safe, .. }) =
                &mut a.goodput.conclusion
            {
                at.level *= factor;
                *safe *= factor;
                interval.iter_mut().for_each(|end| *end *= factor);
            }
        }
        Entry { name: name.into(), summary: Ok(Summary::of(&run)) }
    }

    #[test]
    fn the_index_shows_answers_and_tells_a_change() {
        let first = entry("a/run-01", "2026-11-20T10:00:00Z", 1.0);
        let same = entry("<b>", "2026-11-21T10:00:00Z", 1.001);
        let page = index("Runs", &[first.clone(), same.clone()]).unwrap();
        assert!(page.contains("href=\"/run/a/run-01\"") && page.contains("href=\"/run/%3Cb%3E\""), "{page}");
        assert!(!page.contains("<b>"), "names are escaped");
        assert!(page.contains("No change is shown"), "{page}");
        let faster = entry("c", "2026-11-22T10:00:00Z", 4.0);
        let broken = Entry { name: "d".into(), summary: Err("it has no plan.toml".into()) };
        let page = index("Runs", &[first, same, faster, broken]).unwrap();
        assert!(page.contains("do not overlap") && page.contains("it has no plan.toml"), "{page}");
    }
}
