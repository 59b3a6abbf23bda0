//! Tests of the HTML page of whole runs: its order, that it loads nothing from elsewhere, and that it agrees with the
//! report.

use super::*;
use crate::document::{Block, Section};
use crate::escape::plain;
use goodput_run::fixture;
use goodput_stats::fixture::conclusion;
use goodput_stats::search::answer::Status;
use std::collections::BTreeSet;

/// Returns the page and the report of a run, with all its charts.
fn page(run: &Run) -> (String, String) {
    let traces = Traces::default();
    let sets = Sets::of(run, &traces);
    let (document, charts) = (document(run, &sets), inline(&pictures(&sets, &traces)));
    (html::render(&document, &charts, "").unwrap(), markdown::render(&document))
}

fn cases() -> Vec<(&'static str, Run)> {
    let mut all = fixture::cases();
    all.push(("pair", fixture::pair()));
    all.push(("workers", fixture::workers()));
    all
}

/// Returns the values of an attribute.
fn attributes<'a>(page: &'a str, name: &str) -> Vec<&'a str> {
    let start = format!(" {name}=\"");
    page.split(start.as_str()).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

/// Returns the words of a page without its tags, entities resolved.
fn words_of(page: &str) -> String {
    let words = page.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text));
    let text: String = words.collect::<Vec<_>>().join("");
    let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
    entities.iter().fold(text, |text, (from, to)| text.replace(from, to))
}

#[test]
fn the_answer_stands_first() {
    for (name, status, value, fact) in [
        ("found", "● found", "at least 32", "32 meets, 36 fails; no interval"),
        ("interval", "● found", "33.4", "31.6 to 35.3"),
        ("none", "✕ none: no level keeps the SLO", "none", "p99 TTFT"),
        ("not-reached", "● kept up to the highest level", "at least 24", "none is shown"),
        ("undecided", "○ undecided: too little was measured", "not known", "none is shown"),
        ("open", "○ undecided", "about 5.2", "none is shown"),
        ("invalid", "△ invalid", "at least 20", "none is shown"),
        ("estimates", "● found", "22.4", "11.2"),
        ("tiers", "● found", "at least ", "none is shown"),
    ] {
        let (_, run) = cases().into_iter().find(|(n, _)| *n == name).unwrap();
        let (page, _) = page(&run);
        let (before, _) = page.split_once("<section id=\"question\"").unwrap();
        let first = words_of(before.split_once("<main").unwrap().1);
        for want in [status, value, fact, "SLO", "limit that binds", "safe rate", "p99 TTFT ≤ "] {
            assert!(first.contains(want), "{name}: {want}: {first}");
        }
        assert!(first.contains(&plain(&crate::words::headline(&run))), "{name}: {first}");
        assert!(page.find("id=\"charts\"").is_none_or(|c| page.find("id=\"steps\"").is_none_or(|s| c < s)));
    }
}

/// The exit code depends on the limit, so it is in the first view, whatever the status of the SLO.
#[test]
fn a_limit_on_the_cost_stands_beside_the_answer() {
    let (_, mut run) = cases().into_iter().find(|(n, _)| *n == "interval").unwrap();
    run.price_per_hour = Some(0.39);
    let facts = |run: &Run| document(run, &Sets::of(run, &Traces::default())).cards[0].facts.clone();
    assert!(facts(&run).iter().all(|(name, _)| name != "cost limit"));
    run.hardware.max_cost_per_mtok = Some(0.1.try_into().unwrap());
    let found = run.answers[0].goodput.conclusion;
    let reached = conclusion(Status::NotReached, Some(33.4), None, Some(31.6));
    for (conclusion, says) in [(found, "✕ rejected"), (reached, "○ undecided")] {
        run.answers[0].goodput.conclusion = conclusion;
        let said = facts(&run).into_iter().find(|(name, _)| name == "cost limit").unwrap().1;
        assert!(said.starts_with(says), "{said}");
        assert!(words_of(&page(&run).0).contains(&said), "{said}");
    }
}

#[test]
fn every_case_is_a_whole_page_that_needs_nothing_else() {
    for (name, run) in cases() {
        let (page, report) = page(&run);
        let ids = attributes(&page, "id");
        let unique: BTreeSet<&str> = ids.iter().copied().collect();
        assert_eq!(unique.len(), ids.len(), "{name}: an id stands there twice");
        for to in attributes(&page, "href").into_iter().chain(attributes(&page, "src")) {
            let known = to.strip_prefix('#').is_some_and(|id| unique.contains(id));
            assert!(known || to == "data:,", "{name}: {to}");
        }
        assert!(!page.contains("url(") && !page.contains("@import"), "{name}");
        for element in ["section", "details", "table", "figure", "ul", "p", "svg", "div", "dl", "h2", "h3"] {
            let (open, bare) = (page.matches(&format!("<{element} ")).count(), format!("<{element}>"));
            let all = open + page.matches(&bare).count();
            assert_eq!(all, page.matches(&format!("</{element}>")).count(), "{name}: {element}");
        }
        assert_eq!(page.matches("<h1").count(), 1, "{name}");
        assert!(
            !page.contains("NaN") && !page.contains("![") && page.len() < 2_000_000,
            "{name}: {}",
            page.len()
        );
        let images = report.matches("](charts/").count();
        assert_eq!(page.matches("<figure ").count(), images, "{name}: every chart is in the page");
        assert_eq!(page.matches("<table").count(), page.matches("<caption>").count(), "{name}");
    }
}

/// Returns every cell of every table of the document, and every line of its lists.
#[test]
fn the_page_says_all_that_the_document_says() {
    fn of(sections: &[Section], said: &mut Vec<String>) {
        for section in sections {
            for block in &section.blocks {
                match block {
                    Block::Table(table) => {
                        let cells =
                            table.rows.iter().flat_map(|row| table.in_pages().map(|i| row[i].words()));
                        said.extend(cells);
                    }
                    Block::List(items) => said.extend(items.iter().map(|item| item.words())),
                    Block::Paragraph(text) => said.push(text.words()),
                    _ => {}
                }
            }
            of(&section.parts, said);
        }
    }
    for (name, run) in cases() {
        let shown = words_of(&page(&run).0);
        let mut said = Vec::new();
        of(&document(&run, &Sets::of(&run, &Traces::default())).sections, &mut said);
        for text in said {
            assert!(shown.contains(&plain(&text)), "{name}: {text}");
        }
    }
}

#[test]
fn text_from_outside_stays_text() {
    let evil =
        "<script>alert(1)</script> & \"q\" 'a' ](javascript:x) `c` |\u{1b}[31m\n<img src=//x.y onerror=z>";
    let mut run = fixture::found();
    run.name = evil.into();
    run.meta.model = evil.into();
    run.meta.server = goodput_plan::MeasuredServer::Urls(vec![evil.into()]);
    run.meta.gpu = Some(evil.into());
    run.meta.notes = Some(format!("{evil}\n</code></pre><script>"));
    run.plan_toml = format!("name = '''{evil}'''\n");
    run.steps[7].reason = evil.into();
    run.failures = fixture::cases().into_iter().find(|(n, _)| *n == "all-failed").unwrap().1.failures;
    run.failures[0].sample = evil.into();
    run.currency = Some(evil.into());
    run.price_per_hour = Some(1.0);
    let (page, _) = page(&run);
    let inside = page.split_once("</style>").unwrap().1;
    assert_eq!(inside.matches("<script").count(), 1, "our own");
    assert!(!inside.contains("<img") && !inside.contains('\u{1b}'), "no element of theirs, no escape");
    assert!(inside.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "it is shown");
    assert!(words_of(inside).contains("<script>alert(1)</script> & \"q\" 'a' ](javascript:x) `c` |␛[31m"));
    let title = page.split_once("<title>").unwrap().1.split_once("</title>").unwrap().0;
    assert!(!title.contains('<'), "{title}");
}
