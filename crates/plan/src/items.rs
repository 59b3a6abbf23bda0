//! Plans whose requests are answered item by item: embeddings, rerank, score, pooling, classify.

use crate::Plan;
use goodput_core::endpoint::{Answer, Api, Item};
use goodput_core::slo::{AnswerPart, Slo};
use goodput_workload::config::Cache;
use goodput_workload::kind::RequestSource;
use goodput_workload::sources::Prompts;

impl Plan {
    /// Returns the reason why the API cannot send the images of the workload.
    fn images_problem(&self) -> Option<String> {
        let api = self.server.api;
        (self.workload.has_images() && !api.takes_images()).then(|| {
            format!(
                "[workload.prompts.synthetic.images]: api = \"{}\" takes no images: write api = \"chat\", \"responses\" or \"messages\"",
                api.name()
            )
        })
    }

    /// Returns the reason why the API cannot send the workload or be judged by the limits.
    pub(super) fn items_problem(&self) -> Option<String> {
        let api = self.server.api;
        let kinds = self.workload.kinds();
        let prompts = |source: &RequestSource<'_>| match source {
            RequestSource::Prompts(Prompts::Items(items)) => Some(items.query_tokens.is_some()),
            RequestSource::Prompts(_) | RequestSource::Trace(_) => None,
        };
        let queries: Vec<Option<bool>> = kinds.iter().map(|kind| prompts(&kind.source)).collect();
        let item = match self.server.answer() {
            Answer::Tokens if queries.iter().all(Option::is_none) => return self.images_problem(),
            Answer::Tokens => {
                return Some(format!(
                    "[workload.prompts.items] has requests with a result for each item, but [server] api = \"{}\" generates tokens: \
                     write api = {}, or prompts.synthetic",
                    api.name(),
                    item_apis()
                ));
            }
            Answer::Items(item) => item,
        };
        if queries.iter().any(Option::is_none) {
            return Some(format!(
                "[server] api = \"{}\" has a result for each of the {} of a request: describe them in [workload.prompts.items], with \
                 input-tokens and count",
                api.name(),
                item.plural()
            ));
        }
        match item {
            Item::Document if queries.contains(&Some(false)) => {
                return Some(format!(
                    "[server] api = \"{}\" ranks documents by a query: set its length in [workload.prompts.items], such as \
                     query-tokens = {{ fixed = 20 }}",
                    api.name()
                ));
            }
            Item::Text if queries.contains(&Some(true)) => {
                return Some(format!(
                    "[workload.prompts.items] query-tokens: api = \"{}\" has no query: leave it out, or write api = \"rerank\"",
                    api.name()
                ));
            }
            Item::Document | Item::Text | Item::Image => {}
        }
        if self.workload.cache != Cache::Cold {
            return Some(format!(
                "[workload] cache = \"{}\": requests of items share no prefix that a cache could hold: leave it out",
                self.workload.cache.name()
            ));
        }
        if let Some(check) = self.check.first() {
            return Some(format!(
                "[[check]] {}: an answer of api = \"{}\" has no text to check: leave the check out",
                check.name,
                api.name()
            ));
        }
        self.item_limit_problem(item)
    }

    /// Returns the problem if a limit is on a latency that an answer with results does not have.
    fn item_limit_problem(&self, item: Item) -> Option<String> {
        let mut limits = self.slo.as_slice().iter().flat_map(Slo::limits);
        let limit = limits.find(|limit| limit.metric.part() != AnswerPart::Whole)?;
        Some(format!(
            "[server] api = \"{}\": {limit} cannot be judged, since an answer with a result for each {} comes in one piece: it has no first \
             token and no tokens to pace. Write limits on e2e and error-rate, such as slo.e2e.p99 = \"500ms\"",
            self.server.api.name(),
            item.name()
        ))
    }
}

/// Returns the names of the APIs that answer item by item, for a message.
fn item_apis() -> String {
    let apis = Api::ALL.into_iter().filter(|api| matches!(api.answer(), Some(Answer::Items(_))));
    apis.map(|api| format!("{:?}", api.name())).collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(api: &str, workload: &str, more: &str) -> Option<String> {
        let text = format!(
            "name = \"t\"\nslo.e2e.p99 = \"1s\"\n{more}\n[server]\nurl = \"http://127.0.0.1:1\"\napi = \"{api}\"\n[search]\nrates = [1]\n\
             [step]\nmeasure = \"60s\"\n[workload]\n{workload}"
        );
        Plan::parse(&text)
            .and_then(|plan| plan.resolve().map_err(serde::de::Error::custom))
            .err()
            .map(|e| e.to_string())
    }

    const TEXTS: &str = "prompts.items = { input-tokens = { fixed = 300 }, count = { fixed = 8 } }";
    const DOCUMENTS: &str = "prompts.items = { input-tokens = { fixed = 300 }, count = { fixed = 8 }, query-tokens = { fixed = 20 } }";
    const SYNTHETIC: &str =
        "prompts.synthetic = { input-tokens = { fixed = 9 }, output-tokens = { fixed = 9 } }";

    #[test]
    fn an_api_is_sent_what_it_takes() {
        for (api, workload) in [
            ("embeddings", TEXTS),
            ("pooling", TEXTS),
            ("classify", TEXTS),
            ("rerank", DOCUMENTS),
            ("score", DOCUMENTS),
        ] {
            assert_eq!(problem(api, workload, ""), None, "{api}");
        }
        for (api, workload, more, part) in [
            ("chat", TEXTS, "", "generates tokens: write api = \"embeddings\" or \"rerank\""),
            ("embeddings", SYNTHETIC, "", "[workload.prompts.items], with input-tokens"),
            ("embeddings", DOCUMENTS, "", "has no query: leave it out"),
            ("rerank", TEXTS, "", "query-tokens = { fixed = 20 }"),
            ("embeddings", TEXTS, "slo.ttft.p99 = \"1s\"", "TTFT"),
            ("score", DOCUMENTS, "slo.tpot.p99 = \"1s\"", "no tokens to pace"),
            ("embeddings", &format!("cache = \"warm\"\n{TEXTS}"), "", "share no prefix"),
        ] {
            let got = problem(api, workload, more).unwrap_or_default();
            assert!(got.to_lowercase().contains(&part.to_lowercase()), "{api}: {got}");
        }
    }
}
