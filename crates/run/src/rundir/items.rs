//! The parts of requests that rates and costs are told in besides requests.

use super::Run;
use goodput_core::endpoint::Item;
use goodput_plan::MeasuredWorkload;
use goodput_workload::summary::{PromptSource, RequestKind};

impl Run {
    /// Returns the parts of requests that rates and costs are told in besides requests: texts, documents, images, seconds of audio.
    pub fn item(&self) -> Option<Item> {
        let image = |prompts: &PromptSource| {
            matches!(prompts, PromptSource::Illustrated(_))
                || matches!(prompts, PromptSource::Synthetic(s) if s.images.is_some())
        };
        self.result_item().or_else(|| self.prompt_sources().any(image).then_some(Item::Image))
    }

    /// Returns the items of requests that are answered with one document, with a result for each or the text of their audio; `None` if answers
    /// are generated. Such an answer has neither a first token nor a pace.
    pub fn result_item(&self) -> Option<Item> {
        self.prompt_sources().find_map(|prompts| match prompts {
            PromptSource::Items(items) => Some(items.item()),
            PromptSource::Audio(_) | PromptSource::Recordings(_) => Some(Item::AudioSecond),
            PromptSource::Synthetic(_)
            | PromptSource::Measured(_)
            | PromptSource::Files(_)
            | PromptSource::Illustrated(_) => None,
        })
    }

    /// Returns true if requests asked for several choices.
    pub fn has_choices(&self) -> bool {
        self.kinds().any(|kind| kind.choices.is_some())
    }

    fn prompt_sources(&self) -> impl Iterator<Item = &PromptSource> {
        self.kinds().map(|kind| &kind.prompts)
    }

    fn kinds(&self) -> impl Iterator<Item = &RequestKind> {
        let kinds = match &self.meta.workload {
            MeasuredWorkload::Traffic(workload) => &workload.requests[..],
            MeasuredWorkload::Matrix { .. } | MeasuredWorkload::Legacy(_) => &[],
        };
        kinds.iter()
    }
}
