//! `report.html`: the report as one self-contained page, made from the same sections as `report.md`. The answer comes
//! first, then the charts, then the evidence.

mod body;
mod escape;
mod table;

use crate::document::{Block as Content, Card, Document, Kind, Section};
use crate::escape::plain;
use anyhow::{Context, Result};
use askama::Template;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use body::{Figures, Place};
pub(crate) use escape::escape;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

const STYLE: &str = include_str!("../../../templates/report.css");
const DARK: &str = include_str!("../../../templates/dark.css");
const SCRIPT: &str = include_str!("../../../templates/report.js");

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

/// A section of the page; `title` and `html` are HTML.
struct Block {
    id: String,
    title: String,
    html: String,
    folded: bool,
    parts: Vec<Block>,
}

/// A chart embedded in a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Inline {
    /// The path by which the report refers to it.
    pub(crate) path: String,
    /// Unique id.
    pub(crate) id: String,
    /// Caption.
    pub(crate) caption: &'static str,
    /// The SVG.
    pub(crate) svg: String,
}

/// The charts of a page as figures, by the path by which the report refers to each.
#[derive(Default)]
pub(crate) struct Charts {
    figures: Figures,
    /// The outlines of glyphs, which all charts share, and their numbers: each is in the page once.
    outlines: BTreeMap<String, usize>,
}

impl Charts {
    /// Adds a chart.
    pub(crate) fn add(&mut self, chart: &Inline) {
        let svg = self.share(&chart.svg).unwrap_or_else(|| chart.svg.clone());
        let (id, caption) = (&chart.id, escape(chart.caption));
        let figure = format!(
            "<figure id=\"{id}\"><figcaption>{caption}</figcaption>\n<div class=\"plot\" tabindex=\"0\" role=\"group\" \
             aria-label=\"Chart: {caption}\">{svg}</div></figure>\n",
        );
        self.figures.insert(chart.path.clone(), figure);
    }

    /// Moves the outlines of a chart into the set shared by the page and returns the chart without them; `None` if it
    /// has none.
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

    /// Returns the outlines that the charts share.
    fn outlines(&self) -> String {
        let path = |(d, n): (&String, &usize)| format!("<path id=\"o{n}\" d=\"{d}\"/>");
        self.outlines.iter().map(path).collect()
    }
}

/// Returns a document as a page; `dark` are the CSS custom properties with the dark colours of its charts.
///
/// # Errors
/// The template cannot be filled in.
pub(crate) fn render(document: &Document, charts: &Charts, dark: &str) -> Result<String> {
    let mut ids = Ids::default();
    let mut builder = Builder { figures: &charts.figures, ids: &mut ids };
    let blocks = ordered(&document.sections).map(|s| builder.block(s, false)).collect();
    let name = document.lead.first().and_then(Content::text).map(|text| plain(&text.words()));
    let page = Page {
        policy: policy(SCRIPT),
        version: env!("CARGO_PKG_VERSION"),
        style: style(dark),
        script: SCRIPT,
        title: plain(&document.title.words()),
        name: name.unwrap_or_default(),
        cards: document.cards.iter().map(shown).collect(),
        outlines: charts.outlines(),
        blocks,
    };
    page.render().context("failed to fill in the page")
}

/// Returns a card whose texts are cleaned with [`plain`].
fn shown(card: &Card) -> Card {
    Card {
        whose: plain(&card.whose),
        facts: card.facts.iter().map(|(name, text)| (plain(name), plain(text))).collect(),
        ..card.clone()
    }
}

/// Returns the sections with the charts after the answer: people look before they read.
fn ordered(sections: &[Section]) -> impl Iterator<Item = &Section> {
    let shown = |s: &&Section| !s.is_empty();
    let (charts, others): (Vec<&Section>, Vec<&Section>) =
        sections.iter().filter(shown).partition(|s| s.kind == Kind::Charts);
    let at = others.iter().position(|s| s.kind == Kind::Answer).map_or(0, |i| i + 1);
    let (first, rest) = others.split_at(at);
    [first, &charts, rest].concat().into_iter()
}

struct Builder<'a> {
    figures: &'a Figures,
    ids: &'a mut Ids,
}

impl Builder<'_> {
    fn block(&mut self, section: &Section, is_part: bool) -> Block {
        let title = plain(&section.title.words());
        let id = self.ids.of(&title);
        let parts = ordered(&section.parts).map(|p| self.block(p, true)).collect();
        // In a report of several series, readers want only the answer of each.
        let folded = section.kind.is_detail() && (is_part || section.kind != Kind::Steps);
        let depth = if is_part { 4 } else { 3 };
        let html = body::blocks(&section.blocks, &Place { title: &title, depth, figures: self.figures });
        Block { id, title: body::inline(&section.title), html, folded, parts }
    }
}

/// The ids in use.
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

/// Returns the styles, with the dark colours for systems and for readers that choose them; never for print.
pub(crate) fn style(dark: &str) -> String {
    let dark = format!("{DARK}{dark}");
    format!(
        "{STYLE}\n@media screen {{\n:root[data-theme=dark] {{\n{dark}}}\n@media (prefers-color-scheme: dark) {{\n\
         :root:not([data-theme=light]) {{\n{dark}}}\n}}\n}}\n"
    )
}

/// Returns the content security policy: the page may run only this inline script, and may fetch nothing.
pub(crate) fn policy(script: &str) -> String {
    let hash = STANDARD.encode(Sha256::digest(script));
    format!(
        "default-src 'none'; script-src 'sha256-{hash}'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_own_script_runs() {
        let page = render(&Document::default(), &Charts::default(), "").unwrap();
        let mut contents = page.split(" content=\"").skip(1).filter_map(|rest| rest.split('"').next());
        let policy = contents.find(|c| c.starts_with("default-src")).unwrap();
        assert!(
            policy.starts_with("default-src &#39;none&#39;; script-src &#39;sha256-")
                || policy.starts_with("default-src &#x27;none"),
            "{policy}"
        );
        let script = page.split_once("<script>").unwrap().1.split_once("</script>").unwrap().0;
        assert_eq!(script, SCRIPT);
        let hash = STANDARD.encode(Sha256::digest(script));
        assert!(policy.replace("&#43;", "+").contains(&hash), "{policy}: {hash}");
    }

    /// Checks WCAG contrast, 4.5 : 1 for every colour of text on both backgrounds, light and dark.
    #[test]
    fn text_has_contrast() {
        let colour = |css: &str, name: &str| {
            let hex = css.split_once(&format!("--{name}: #")).unwrap().1;
            let channel = |i: usize| {
                let v = f64::from(u8::from_str_radix(&hex[i..i + 2], 16).unwrap()) / 255.0;
                if v <= 0.04045 { v / 12.92 } else { ((v + 0.055) / 1.055).powf(2.4) }
            };
            0.2126 * channel(0) + 0.7152 * channel(2) + 0.0722 * channel(4)
        };
        for css in [STYLE, DARK] {
            for ground in ["ground", "raised"] {
                for ink in ["ink", "soft", "link", "good", "bad", "open"] {
                    let (a, b) = (colour(css, ink), colour(css, ground));
                    let contrast = (a.max(b) + 0.05) / (a.min(b) + 0.05);
                    assert!(contrast >= 4.5, "{ink} on {ground}: {contrast}");
                }
            }
            let (a, b) = (colour(css, "tip-ink"), colour(css, "tip"));
            assert!((a.max(b) + 0.05) / (a.min(b) + 0.05) >= 4.5);
        }
    }
}
