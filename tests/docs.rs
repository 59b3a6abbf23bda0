//! The README and the book in `docs/`: the table of contents is complete, every relative link and anchor resolves, every quoted command
//! parses, and the README stays short.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use clap::Parser;
use goodput::cli::Cli;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The most words that the README may have, counted like `wc -w`.
const README_WORDS: usize = 1_800;

/// The pages outside the book whose links are checked as well.
const TOP_LEVEL: [&str; 4] = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"];

/// The book's table of contents, which mdBook reads.
const SUMMARY: &str = "docs/SUMMARY.md";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(page: &str) -> String {
    fs::read_to_string(root().join(page)).unwrap_or_else(|e| panic!("{page}: {e}"))
}

/// Returns the Markdown files of `docs/`, as paths from the root of the repository.
fn book() -> BTreeSet<String> {
    let names =
        fs::read_dir(root().join("docs")).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".md")).map(|name| format!("docs/{name}")).collect()
}

/// The lines of a page, split into text and code blocks (fenced, or indented by four spaces).
struct Page {
    text: Vec<String>,
    code: Vec<String>,
}

impl Page {
    fn parse(page: &str) -> Page {
        let mut parsed = Page { text: Vec::new(), code: Vec::new() };
        let mut fenced = false;
        for line in read(page).lines() {
            if line.starts_with("```") {
                fenced = !fenced;
            } else if fenced || line.starts_with("    ") {
                parsed.code.push(line.trim().to_owned());
            } else {
                parsed.text.push(line.to_owned());
            }
        }
        assert!(!fenced, "{page}: a fenced block has no end");
        parsed
    }

    /// Returns the targets of all links and images. Code spans are skipped: what stands in them is no link.
    fn targets(&self) -> Vec<String> {
        let mut targets = Vec::new();
        for paragraph in self.text.split(|line| line.is_empty()) {
            let joined = paragraph.join("\n");
            let without_code: String = joined.split('`').step_by(2).collect();
            let after = without_code.split("](").skip(1);
            targets.extend(after.filter_map(|rest| Some(rest.split_once(')')?.0.to_owned())));
        }
        targets
    }

    /// Returns the anchors of the headings, as GitHub and mdBook make them.
    fn anchors(&self) -> BTreeSet<String> {
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        let headings = self.text.iter().filter_map(|line| {
            line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#'))
        });
        let anchor = |heading: &str| {
            let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            let slug = kept.collect::<String>().to_lowercase().replace(' ', "-");
            let repeated = seen.entry(slug.clone()).or_default();
            *repeated += 1;
            if *repeated == 1 { slug } else { format!("{slug}-{}", *repeated - 1) }
        };
        headings.map(anchor).collect()
    }
}

/// Returns the path that `target` leads to from `page`, without `.` and `..`.
fn resolve(page: &str, target: &str) -> PathBuf {
    let mut path = PathBuf::new();
    for part in Path::new(page).parent().unwrap().join(target).components() {
        match part {
            std::path::Component::ParentDir => assert!(path.pop(), "{page}: {target} leaves the repository"),
            std::path::Component::CurDir => {}
            other => path.push(other),
        }
    }
    path
}

#[test]
fn the_summary_lists_every_page_once() {
    let mut listed: Vec<String> = Page::parse(SUMMARY).targets();
    listed.sort();
    let mut pages: Vec<String> = book().into_iter().filter(|page| page != SUMMARY).collect();
    pages.sort();
    let listed: Vec<String> = listed.iter().map(|name| format!("docs/{name}")).collect();
    assert_eq!(listed, pages, "{SUMMARY} (left) is not what docs/ holds (right)");
}

#[test]
fn every_link_and_anchor_resolves() {
    let pages: Vec<String> = book().into_iter().chain(TOP_LEVEL.map(str::to_owned)).collect();
    let (mut broken, mut checked) = (Vec::new(), 0);
    for page in &pages {
        for target in Page::parse(page).targets() {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            checked += 1;
            let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let file = if path.is_empty() { PathBuf::from(page) } else { resolve(page, path) };
            let named = file.to_str().unwrap();
            if !root().join(&file).exists() {
                broken.push(format!("{page}: no {named}"));
            } else if !anchor.is_empty() && !Page::parse(named).anchors().contains(anchor) {
                broken.push(format!("{page}: no heading #{anchor} in {named}"));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(checked > 100, "only {checked} links were found");
}

#[test]
fn the_readme_is_short() {
    let words = read("README.md").split_whitespace().count();
    assert!(
        words <= README_WORDS,
        "README.md has {words} words, {README_WORDS} are allowed: move text into docs/"
    );
}

/// Returns the words of a quoted command, without the remark behind it: a comment, or text after two or more spaces.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut quote, mut spaces, mut quoted) = (String::new(), None, 0, false);
    for c in command.chars() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (Some(_), c) => word.push(c),
            (None, '\'' | '"') => (quote, quoted) = (Some(c), true),
            (None, ' ') => {
                if !word.is_empty() || quoted {
                    words.push(std::mem::take(&mut word));
                    quoted = false;
                }
                spaces += 1;
                if spaces == 2 {
                    return words;
                }
                continue;
            }
            (None, '#' | '|' | '&' | '>') if word.is_empty() && !quoted => return words,
            (None, c) => word.push(c),
        }
        spaces = 0;
    }
    if !word.is_empty() || quoted {
        words.push(word);
    }
    words
}

#[test]
fn every_quoted_command_parses() {
    let mut commands = Vec::new();
    for page in book().iter().map(String::as_str).chain(["README.md"]) {
        let code = Page::parse(page).code.join("\n").replace("\\\n", "");
        let lines = code
            .lines()
            .filter(|line| line.starts_with("goodput ") || line.starts_with("target/release/goodput "));
        commands.extend(lines.map(|line| (page.to_owned(), line.to_owned())));
    }
    assert!(commands.len() > 50, "only {} commands were found", commands.len());
    let wrong = commands.iter().filter_map(|(page, line)| {
        let error = Cli::try_parse_from(words(line)).err()?;
        Some(format!("{page}: {line}\n{error}"))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_readme_has_the_command_that_shows_it_and_the_one_that_tests_it() {
    let code = Page::parse("README.md").code;
    for command in ["cargo run --release -- sweep sweeps/demo.toml", "cargo test"] {
        assert!(code.iter().any(|line| line == command), "README.md lacks `{command}`");
    }
}
