//! The plan's `[[metrics]]`: pages of metrics besides the server's own.

use crate::server::pages::{OwnMetrics, PageUrl};
use goodput_core::units::{NonEmpty, Span};
use goodput_stats::server::selected::Selector;
use serde::{Deserialize, Serialize};

/// A page of metrics in Prometheus' text format, and what is wanted of it: GPUs, nodes, a balancer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Extra {
    /// What it is called in files and reports; host and port where it has no name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where it is.
    pub url: PageUrl,
    /// The series that are wanted, by name and perhaps labels.
    pub series: NonEmpty<Selector>,
    /// From one reading to the next; as for the server's own where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Span>,
}

impl Extra {
    /// What it is called.
    pub fn title(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.url.host())
    }
}

/// What is wrong with the entries of a plan, if anything is.
pub(super) fn problem(all: &[Extra]) -> Option<String> {
    let titles: Vec<String> = all.iter().map(Extra::title).collect();
    for (i, extra) in all.iter().enumerate() {
        let title = &titles[i];
        if title.trim().is_empty() {
            return Some("[[metrics]] name is empty: leave it out for host and port of its url".into());
        }
        // Servers of the plan are named by their place.
        if title.chars().all(|c| c.is_ascii_digit()) {
            return Some(format!(
                "[[metrics]] name = {title:?}: numbers stand for the plan's servers, use a word"
            ));
        }
        if titles[..i].contains(title) {
            return Some(format!("two [[metrics]] are called {title:?}: give each a name of its own"));
        }
        if let Some(problem) = extra.interval.and_then(OwnMetrics::problem) {
            return Some(format!("[[metrics]] {title}: interval {problem}"));
        }
    }
    None
}
