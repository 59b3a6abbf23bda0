//! The page of a running sweep, and the English of its state. The page is a template with its own script; everything that changes arrives as
//! events.

use crate::escape::plain;
use crate::render::html;
use crate::words;
use anyhow::{Context, Result};
use askama::Template;
use goodput_run::rundir::Run;
use serde_json::{Value, json};

const STYLE: &str = include_str!("../templates/watch.css");
const SCRIPT: &str = include_str!("../templates/watch.js");

#[derive(Template)]
#[template(path = "watch.html")]
struct Page<'a> {
    policy: &'a str,
    style: String,
    script: &'static str,
}

/// Returns the page and its content security policy: it runs only its own script, and reads only from the server that it came from.
///
/// # Errors
/// The template cannot be filled in.
pub fn page() -> Result<(String, String)> {
    let policy = format!("{}; connect-src 'self'", html::policy(SCRIPT));
    let style = format!("{}{STYLE}", html::style(""));
    let page = Page { policy: &policy, style, script: SCRIPT };
    // Browsers ignore this directive in the page itself.
    Ok((page.render().context("failed to fill in the page")?, format!("{policy}; frame-ancestors 'none'")))
}

/// Returns the headline and the caveats of a run so far.
pub fn told(run: &Run) -> Value {
    let caveats = words::caveats(run).into_iter();
    let caveats: Vec<Value> =
        caveats.map(|c| json!({ "text": plain(&c.text), "advice": plain(c.advice) })).collect();
    json!({ "headline": plain(&words::headline(run)), "caveats": caveats })
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_run::fixture;

    #[test]
    fn the_page_runs_only_its_own_script() {
        let (page, policy) = page().unwrap();
        let script = page.split_once("<script>").unwrap().1.split_once("</script>").unwrap().0;
        assert_eq!(script, SCRIPT);
        assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
        for means in ["innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval("] {
            assert!(!SCRIPT.contains(means), "{means} would let a text become code");
        }
        let foreign = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!foreign.contains("http://") && !foreign.contains("https://"), "nothing from elsewhere");
    }

    #[test]
    fn every_run_has_its_words() {
        for (case, run) in fixture::cases() {
            let told = told(&run);
            assert!(told["headline"].as_str().is_some_and(|h| !h.is_empty()), "{case}: {told}");
            assert_eq!(told["caveats"].as_array().unwrap().is_empty(), run.caveats.is_empty(), "{case}");
        }
    }
}
