//! The plan's `[[metrics]]`: metrics pages besides the server's own.

use crate::server::pages::{PageUrl, ServerMetrics};
use goodput_core::units::{NonEmpty, Span};
use goodput_stats::server::selected::Selector;
use serde::{Deserialize, Serialize};

/// A page of metrics in Prometheus text format, such as those of GPUs, nodes or a load balancer, and the series to read from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct MetricsPage {
    /// Name in files and reports; host and port of the URL by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// URL of the page.
    pub url: PageUrl,
    /// The series to read, by name and optionally labels.
    pub series: NonEmpty<Selector>,
    /// Time between two readings; `server.metrics-interval` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Span>,
}

impl MetricsPage {
    /// Returns the name in files and reports.
    pub fn title(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.url.host())
    }
}

/// Returns the first problem with the `[[metrics]]` of a plan.
pub(super) fn problem(pages: &[MetricsPage]) -> Option<String> {
    let titles: Vec<String> = pages.iter().map(MetricsPage::title).collect();
    for (i, page) in pages.iter().enumerate() {
        let title = &titles[i];
        if title.trim().is_empty() {
            return Some(
                "[[metrics]] name is empty: write a name, or leave it out to use host and port of the url"
                    .into(),
            );
        }
        // Numbers name the plan's servers in the files.
        if title.chars().all(|c| c.is_ascii_digit()) {
            return Some(format!(
                "[[metrics]] name = {title:?}: use a word; numbers name the plan's servers"
            ));
        }
        if titles[..i].contains(title) {
            return Some(format!("two [[metrics]] are named {title:?}: give each its own name"));
        }
        if let Some(problem) = page.interval.and_then(ServerMetrics::problem) {
            return Some(format!("[[metrics]] {title}: interval {problem}"));
        }
    }
    None
}
