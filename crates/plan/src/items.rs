//! Plans whose requests are answered item by item (embeddings, rerank, score, pooling, classify), or with the text of their audio.

use crate::Plan;
use goodput_core::endpoint::{Answer, Api, Item};
use goodput_core::slo::{AnswerPart, Metric, Slo};
use goodput_workload::config::Cache;
use goodput_workload::kind::{Kind, RequestSource};
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

    /// Returns the reason why the plan's body cannot have a system text: the workload has its own in the same field.
    fn system_problem(&self) -> Option<String> {
        let has_own = |kind: &Kind<'_>| match kind.source {
            RequestSource::Prompts(Prompts::Synthetic(s)) => s.shared_prefix.is_some(),
            RequestSource::Prompts(Prompts::Text(_)) => false,
            RequestSource::Prompts(_) | RequestSource::Trace(_) => true,
        };
        let is_set = self.server.body.names("system")
            || self.workload.classes().iter().any(|class| class.body.contains_key("system"));
        let twice = self.server.api == Api::Messages && is_set && self.workload.kinds().iter().any(has_own);
        twice.then(|| {
            "[server] body.system: api = \"messages\" has one field for system text, in which the workload puts its own (shared prefixes, system \
             messages): leave it out"
                .into()
        })
    }

    /// Returns the reason why the API cannot send the workload or be judged by the limits.
    pub(super) fn items_problem(&self) -> Option<String> {
        if let Some(problem) = self.real_time_factor_problem().or_else(|| self.choices_problem()) {
            return Some(problem);
        }
        let item = match self.server.answer() {
            Answer::Tokens => {
                return self
                    .prompt_problem()
                    .or_else(|| self.images_problem())
                    .or_else(|| self.system_problem());
            }
            Answer::Items(item) => item,
        };
        if let Some(problem) = self.contents_problem(item) {
            return Some(problem);
        }
        let api = self.server.api.name();
        if self.workload.cache != Cache::Cold {
            return Some(format!(
                "[workload] cache = \"{}\": requests of api = \"{api}\" share no prefix that a cache could hold: leave it out",
                self.workload.cache.name()
            ));
        }
        if let Some(check) = self.check.first().filter(|_| item != Item::AudioSecond) {
            return Some(format!(
                "[[check]] {}: an answer of api = \"{api}\" has no text to check: leave the check out",
                check.name
            ));
        }
        let of_form = (item == Item::AudioSecond).then(|| self.form_problem()).flatten();
        of_form.or_else(|| self.item_limit_problem(item))
    }

    /// Returns the problem if an API that generates tokens is to send something other than prompts.
    fn prompt_problem(&self) -> Option<String> {
        let api = self.server.api.name();
        self.workload.kinds().iter().find_map(|kind| match Contents::of(&kind.source) {
            Contents::Prompts => None,
            Contents::Items { .. } => Some(format!(
                "[workload.prompts.items] has requests with a result for each item, but [server] api = \"{api}\" generates tokens: \
                 write api = {}, or prompts.synthetic",
                item_apis()
            )),
            Contents::Audio => Some(no_audio(api)),
        })
    }

    /// Returns the problem if the requests are not those of an API with these items.
    fn contents_problem(&self, item: Item) -> Option<String> {
        let api = self.server.api.name();
        self.workload.kinds().iter().find_map(|kind| match (item, Contents::of(&kind.source)) {
            (Item::AudioSecond, Contents::Audio)
            | (Item::Document, Contents::Items { has_query: true })
            | (Item::Text, Contents::Items { has_query: false }) => None,
            (Item::AudioSecond, _) => Some(format!(
                "[server] api = \"{api}\" transcribes audio: describe it in [workload.prompts.audio], with seconds = {{ fixed = 30 }} or \
                 files = [\"recordings\"]"
            )),
            (_, Contents::Audio) => Some(no_audio(api)),
            (Item::Document, Contents::Items { .. }) => Some(format!(
                "[server] api = \"{api}\" ranks documents by a query: set its length in [workload.prompts.items], such as \
                 query-tokens = {{ fixed = 20 }}"
            )),
            (_, Contents::Items { .. }) => Some(format!(
                "[workload.prompts.items] query-tokens: api = \"{api}\" has no query: leave it out, or write api = \"rerank\""
            )),
            (_, Contents::Prompts) => Some(format!(
                "[server] api = \"{api}\" has a result for each of the {} of a request: describe them in [workload.prompts.items], with \
                 input-tokens and count",
                item.plural()
            )),
        })
    }

    /// Returns the problem if a limit is on a real-time factor, but requests have no audio.
    fn real_time_factor_problem(&self) -> Option<String> {
        let mut limits =
            self.slo.as_slice().iter().flat_map(Slo::limit_groups).flat_map(|group| group.slo.limits());
        let limit =
            limits.find(|l| l.metric == Metric::Rtf && self.server.item() != Some(Item::AudioSecond))?;
        Some(format!(
            "{limit}: a real-time factor is e2e per second of audio, but requests of [server] api = \"{}\" have none: write a limit on \
             another latency, such as slo.e2e.p99 = \"5s\"",
            self.server.api.name()
        ))
    }

    /// Returns the problem with a field of a form to transcribe audio.
    fn form_problem(&self) -> Option<String> {
        let classes = self.workload.classes().iter().map(|class| class.body.clone());
        let bodies = [toml::Table::from(self.server.body.clone())].into_iter().chain(classes);
        bodies.into_iter().find_map(|body| {
            if body.contains_key("file") {
                return Some("body.file is written by goodput itself: leave it out".to_owned());
            }
            let format = body.get("response_format")?;
            let is_json = format.as_str().is_some_and(|name| ["json", "verbose_json"].contains(&name));
            (!is_json).then(|| {
                format!("body.response_format = {format}: the answer would have no text in JSON; leave it out, or write \"verbose_json\"")
            })
        })
    }

    /// Returns the problem if a limit is on a latency that an answer with results does not have.
    fn item_limit_problem(&self, item: Item) -> Option<String> {
        let mut limits = self.slo.as_slice().iter().flat_map(Slo::limits);
        let limit = limits.find(|limit| limit.metric.part() != AnswerPart::Whole)?;
        let answer = match item {
            Item::AudioSecond => "a transcript".to_owned(),
            Item::Text | Item::Document | Item::Image => {
                format!("an answer with a result for each {}", item.name())
            }
        };
        Some(format!(
            "[server] api = \"{}\": {limit} cannot be judged, since {answer} comes in one piece: it has no first \
             token and no tokens to pace. Write limits on e2e and error-rate, such as slo.e2e.p99 = \"500ms\"",
            self.server.api.name()
        ))
    }
}

/// The contents of requests, as far as an API must take them.
#[derive(Clone, Copy)]
enum Contents {
    /// A prompt, or messages.
    Prompts,
    /// Texts, or documents with a query.
    Items { has_query: bool },
    /// Audio.
    Audio,
}

impl Contents {
    const fn of(source: &RequestSource<'_>) -> Self {
        match source {
            RequestSource::Prompts(Prompts::Items(items)) => {
                Self::Items { has_query: items.query_tokens.is_some() }
            }
            RequestSource::Prompts(Prompts::Audio(_)) => Self::Audio,
            RequestSource::Prompts(Prompts::Synthetic(_) | Prompts::Data(_) | Prompts::Text(_))
            | RequestSource::Trace(_) => Self::Prompts,
        }
    }
}

/// Returns the problem of audio in an API that takes none.
fn no_audio(api: &str) -> String {
    format!(
        "[workload.prompts.audio] is audio to transcribe, but [server] api = \"{api}\" takes none: write api = \"transcriptions\", or \
         other prompts"
    )
}

/// Returns the names of the APIs that answer item by item, for a message.
fn item_apis() -> String {
    let is_wanted =
        |api: &Api| matches!(api.answer(), Some(Answer::Items(item)) if item != Item::AudioSecond);
    let apis = Api::ALL.into_iter().filter(is_wanted);
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
    const AUDIO: &str = "prompts.audio = { seconds = { fixed = 30 } }";
    const SYNTHETIC: &str =
        "prompts.synthetic = { input-tokens = { fixed = 9 }, output-tokens = { fixed = 9 } }";

    #[test]
    fn a_request_has_one_system_text() {
        let shared = SYNTHETIC.replacen(
            "prompts.synthetic = {",
            "prompts.synthetic = { shared-prefix = { tokens = 4 },",
            1,
        );
        for (api, workload, twice) in
            [("messages", SYNTHETIC, false), ("messages", &*shared, true), ("responses", &*shared, false)]
        {
            let body = format!("{workload}\n[server.body]\nsystem = \"Be brief.\"");
            let problem = problem(api, &body, "");
            let is_told = problem.as_ref().is_some_and(|p| p.contains("[server] body.system"));
            assert_eq!((is_told, problem.is_some()), (twice, twice), "{api}: {problem:?}");
        }
    }

    #[test]
    fn an_api_is_sent_what_it_takes() {
        assert_eq!(problem("transcriptions", AUDIO, "slo.rtf.p99 = 0.2"), None);
        for (api, workload) in [
            ("embeddings", TEXTS),
            ("pooling", TEXTS),
            ("classify", TEXTS),
            ("rerank", DOCUMENTS),
            ("score", DOCUMENTS),
            ("transcriptions", AUDIO),
            (
                "transcriptions",
                &format!("{AUDIO}\n[server.body]\nresponse_format = \"verbose_json\"\nlanguage = \"en\""),
            ),
            ("transcriptions", &format!("{AUDIO}\n[[check]]\nname = \"c\"\nnon-empty = true")),
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
            ("chat", AUDIO, "", "takes none: write api = \"transcriptions\""),
            ("embeddings", AUDIO, "", "takes none: write api = \"transcriptions\""),
            ("transcriptions", TEXTS, "", "describe it in [workload.prompts.audio]"),
            ("transcriptions", SYNTHETIC, "", "describe it in [workload.prompts.audio]"),
            (
                "chat",
                SYNTHETIC,
                "slo.rtf.p99 = 0.2",
                "p99 RTF ≤ 0.2: a real-time factor is e2e per second of audio",
            ),
            ("embeddings", TEXTS, "slo.rtf.p99 = 0.2", "have none: write a limit on another latency"),
            ("transcriptions", AUDIO, "slo.ttft.p99 = \"1s\"", "a transcript comes in one piece"),
            ("transcriptions", &format!("cache = \"warm\"\n{AUDIO}"), "", "share no prefix"),
            (
                "transcriptions",
                &format!("{AUDIO}\n[server.body]\nresponse_format = \"srt\""),
                "",
                "response_format",
            ),
            ("transcriptions", &format!("{AUDIO}\n[server.body]\nfile = \"a.wav\""), "", "body.file"),
        ] {
            let got = problem(api, workload, more).unwrap_or_default();
            assert!(got.to_lowercase().contains(&part.to_lowercase()), "{api}: {got}");
        }
    }
}
