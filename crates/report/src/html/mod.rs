//! `report.html`: the report as one page that needs nothing else, made from the same sections as `report.md`. The answer stands first,
//! then the charts, then what they rest on.

mod body;
mod cards;
mod table;

use super::charts::{Chart, dark_variables};
use super::document::{Document, Section};
use super::escape::{html, plain};
use super::words;
use anyhow::{Context, Result};
use askama::Template;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use body::Figures;
use cards::{Card, cards};
use goodput_run::rundir::{Run, Traces};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

const STYLE: &str = include_str!("../../templates/report.css");
const DARK: &str = include_str!("../../templates/dark.css");
const SCRIPT: &str = include_str!("../../templates/report.js");

/// Sections that say what an answer rests on in full: folded until somebody asks, open on paper.
const FOLDED: [&str; 10] = [
    "Limits",
    "Percentiles",
    "Throughput",
    "Against the hardware",
    "What was sent",
    "What was replayed",
    "Answer checks",
    "The client",
    "The server's own view",
    "Steps",
];

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    policy: String,
    version: &'a str,
    style: String,
    script: &'a str,
    title: String,
    name: String,
    cards: Vec<Card>,
    outlines: String,
    blocks: Vec<Block>,
}

/// A section as it stands in the page; `title` and `html` are HTML.
struct Block {
    id: String,
    title: String,
    html: String,
    folded: bool,
    parts: Vec<Block>,
}

/// The charts of a page as figures, by the path that the report gives each.
#[derive(Default)]
pub struct Charts {
    figures: Figures,
    /// The outlines of letters, which are the same in all charts, by what they draw: each stands in the page once, under its number.
    outlines: BTreeMap<String, usize>,
}

impl Charts {
    /// Draws charts of a run, or of one of its series, which lie in `folder` (`charts`, or `charts/SERIES`).
    pub fn draw(&mut self, run: &Run, traces: &Traces, made: &[&Chart], folder: &str) {
        for chart in made {
            let id = format!("{}-{}", folder.replace('/', "-"), chart.name);
            let svg = chart.svg_inline(run, traces);
            let svg = self.share(&svg).unwrap_or(svg);
            let caption = html(chart.caption);
            let figure = format!(
                "<figure id=\"{id}\"><figcaption>{caption}</figcaption>\n<div class=\"plot\" tabindex=\"0\" role=\"group\" \
                 aria-label=\"Chart: {caption}\">{svg}</div></figure>\n",
            );
            self.figures.insert(format!("{folder}/{}.png", chart.name), figure);
        }
    }

    /// Takes the outlines out of a chart, for the whole page to use; `None` where it has none of its own.
    fn share(&mut self, svg: &str) -> Option<String> {
        let (before, rest) = svg.split_once("<defs>\n")?;
        let (defs, after) = rest.split_once("</defs>\n")?;
        let mut numbers = BTreeMap::new();
        for line in defs.lines() {
            let (id, outline) =
                line.strip_prefix("<path id=\"")?.strip_suffix("\"/>")?.split_once("\" d=\"")?;
            let next = self.outlines.len();
            numbers.insert(id, *self.outlines.entry(outline.to_owned()).or_insert(next));
        }
        let mut out = before.to_owned();
        for (i, part) in after.split(" href=\"#").enumerate() {
            if i == 0 {
                out.push_str(part);
                continue;
            }
            let (id, rest) = part.split_once('"')?;
            out.push_str(&format!(" href=\"#o{}\"{rest}", numbers.get(id)?));
        }
        Some(out)
    }

    /// The outlines that the charts share.
    fn outlines(&self) -> String {
        let path = |(d, n): (&String, &usize)| format!("<path id=\"o{n}\" d=\"{d}\"/>");
        self.outlines.iter().map(path).collect()
    }
}

/// The page of a run.
///
/// # Errors
/// The template could not be filled in.
pub fn render(run: &Run, document: &Document, charts: &Charts) -> Result<String> {
    let mut ids = Ids::default();
    let blocks = ordered(&document.sections).map(|s| block(s, 2, false, &charts.figures, &mut ids)).collect();
    let page = Page {
        policy: policy(),
        version: env!("CARGO_PKG_VERSION"),
        style: style(),
        script: SCRIPT,
        title: plain(&words::headline(run)),
        name: plain(&run.name),
        cards: cards(run),
        outlines: charts.outlines(),
        blocks,
    };
    page.render().context("failed to fill in the page")
}

/// People look before they read: the charts stand behind the answer.
fn ordered(sections: &[Section]) -> impl Iterator<Item = &Section> {
    let shown = |s: &&Section| !s.is_empty();
    let (charts, others): (Vec<&Section>, Vec<&Section>) =
        sections.iter().filter(shown).partition(|s| s.title == "Charts");
    let at = others.iter().position(|s| s.title == "Answer").map_or(0, |i| i + 1);
    let (first, rest) = others.split_at(at);
    [first, &charts, rest].concat().into_iter()
}

fn block(section: &Section, depth: usize, fold: bool, charts: &Figures, ids: &mut Ids) -> Block {
    let title = body::text(&section.title);
    let id = ids.of(&title);
    let parts = ordered(&section.parts).map(|p| block(p, depth + 1, true, charts, ids)).collect();
    // Of one of several series all but its answer is asked for.
    let folded = FOLDED.contains(&title.as_str()) && (fold || title != "Steps");
    let html = body::body(&section.body, &title, depth, charts);
    Block { id, title: body::inline(&section.title), html, folded, parts }
}

/// Ids that occur, each once.
#[derive(Default)]
struct Ids(std::collections::BTreeSet<String>);

impl Ids {
    fn of(&mut self, title: &str) -> String {
        let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { ' ' };
        let words: String = title.chars().map(letter).collect();
        let words = words.split(' ').filter(|w| !w.is_empty()).collect::<Vec<_>>().join("-");
        let own = if words.is_empty() { "section".to_owned() } else { words };
        let free = |id: &String| !["main", "theme", "said"].contains(&id.as_str()) && !self.0.contains(id);
        let mut all = std::iter::once(own.clone()).chain((2..).map(|i| format!("{own}-{i}")));
        let id = all.find(free).unwrap_or(own);
        self.0.insert(id.clone());
        id
    }
}

/// The styles, with the dark colours both for a system that asks for them and for who chooses them; never on paper.
fn style() -> String {
    let dark = format!("{DARK}{}", dark_variables());
    format!(
        "{STYLE}\n@media screen {{\n:root[data-theme=dark] {{\n{dark}}}\n@media (prefers-color-scheme: dark) {{\n\
         :root:not([data-theme=light]) {{\n{dark}}}\n}}\n}}\n"
    )
}

/// What the page may do: run its own script and nothing else, and fetch nothing.
fn policy() -> String {
    let hash = STANDARD.encode(Sha256::digest(SCRIPT));
    format!(
        "default-src 'none'; script-src 'sha256-{hash}'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    )
}

#[cfg(test)]
mod tests;
