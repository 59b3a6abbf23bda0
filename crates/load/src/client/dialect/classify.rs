//! `/classify`, as served by vLLM: the class of each text.

use super::{Dialect, PromptWriter, items_dialect, text_list};
use crate::client::event::{Parsed, VectorSize, parse_items};
use goodput_workload::items::ItemTexts;

pub(super) const DIALECT: Dialect =
    items_dialect(PromptWriter::Items { write, needs_query: false }, document);

/// The probabilities of the classes.
#[derive(serde::Deserialize)]
struct Classified {
    #[serde(default)]
    probs: VectorSize,
}

fn write(out: &mut Vec<u8>, items: &ItemTexts) {
    text_list(out, "input", &items.texts);
}

fn document(body: &[u8]) -> Parsed {
    parse_items(body, |result: &Classified| result.probs.0 > 0)
}
