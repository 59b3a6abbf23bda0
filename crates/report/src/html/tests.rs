//! The page of whole runs: what stands first, that nothing of it is from elsewhere, and that it says what the report says.

use super::*;
use crate::{charts, markdown, several};
use goodput_run::fixture;
use goodput_stats::search::answer::Status;
use std::collections::BTreeSet;

/// The page and the report of a run, with all its charts.
fn page(run: &Run) -> (String, String) {
    let traces = Traces::default();
    let mut drawn = Charts::default();
    let document = if run.parts.is_empty() {
        let made = charts::of(run, &traces);
        drawn.draw(run, &traces, &made, "charts");
        markdown::document(run, &made)
    } else {
        let over = charts::over(run, &traces);
        let parts: Vec<_> =
            several::slugs(run).into_iter().zip(run.parts.iter().map(|p| charts::of(p, &traces))).collect();
        drawn.draw(run, &traces, &over, "charts");
        for (part, (folder, made)) in run.parts.iter().zip(&parts) {
            drawn.draw(part, &traces, made, &format!("charts/{folder}"));
        }
        several::document(run, &over, &parts)
    };
    (render(run, &document, &drawn).unwrap(), document.markdown())
}

fn cases() -> Vec<(&'static str, Run)> {
    let mut all = fixture::cases();
    all.push(("pair", fixture::pair()));
    all
}

/// The values of an attribute.
fn attributes<'a>(page: &'a str, name: &str) -> Vec<&'a str> {
    let start = format!(" {name}=\"");
    page.split(start.as_str()).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

/// The words of a page without its tags, entities resolved.
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
        assert!(first.contains(&plain(&words::headline(&run))), "{name}: {first}");
        assert!(page.find("id=\"charts\"").is_none_or(|c| page.find("id=\"steps\"").is_none_or(|s| c < s)));
    }
}

/// The exit code hangs on the limit, so it stands in the first view, whatever the status of the SLO.
#[test]
fn a_limit_on_the_cost_stands_beside_the_answer() {
    let (_, mut run) = cases().into_iter().find(|(n, _)| *n == "interval").unwrap();
    run.price_per_hour = Some(0.39);
    let facts = |run: &Run| super::cards::cards(run)[0].facts.clone();
    assert!(facts(&run).iter().all(|(name, _)| name != "cost limit"));
    run.hardware.max_cost_per_mtok = Some(0.1.try_into().unwrap());
    for (status, says) in [(Status::Found, "✕ rejected"), (Status::NotReached, "○ undecided")] {
        run.answers[0].goodput.status = status;
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

/// Every cell of every table of the report, and every line of its lists.
#[test]
fn the_page_says_all_that_the_report_says() {
    for (name, run) in cases() {
        let (page, report) = page(&run);
        let said = words_of(&page);
        for line in report.lines().filter(|l| l.starts_with("| ") && !l.contains("---")) {
            let text = super::body::text(&format!("| a |\n| --- |\n{}\n", line.replace(" | ", " |\n| ")));
            let cells: Vec<String> = line
                .trim_matches('|')
                .split(" | ")
                .map(|c| super::body::text(c.trim()))
                .filter(|c| !c.is_empty())
                .collect();
            assert!(!text.is_empty(), "{name}: {line}");
            for cell in cells {
                assert!(said.contains(&cell), "{name}: {cell:?} of {line}");
            }
        }
        for line in report.lines().filter_map(|l| l.strip_prefix("- ")) {
            let line = super::body::text(line);
            assert!(said.contains(&line), "{name}: {line}");
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

#[test]
fn only_its_own_script_runs() {
    let (page, _) = page(&fixture::found());
    let policy = attributes(&page, "content").into_iter().find(|c| c.starts_with("default-src")).unwrap();
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

/// A reader of the page must be able to read it: 4.5 : 1 for every colour of text on both grounds, light and dark.
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
