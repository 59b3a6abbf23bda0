//! `/pooling`, as served by vLLM: the pooled hidden states of each text.

use super::{Dialect, PromptWriter, items_dialect, text_list};
use crate::client::event::{Parsed, VectorSize, parse_items};
use goodput_workload::items::ItemTexts;

pub(super) const DIALECT: Dialect =
    items_dialect(PromptWriter::Items { write, needs_query: false }, document);

/// A vector, or one for each token.
#[derive(serde::Deserialize)]
struct Pooled {
    #[serde(default)]
    data: VectorSize,
}

fn write(out: &mut Vec<u8>, items: &ItemTexts) {
    text_list(out, "input", &items.texts);
}

fn document(body: &[u8]) -> Parsed {
    parse_items(body, |result: &Pooled| result.data.0 > 0)
}
