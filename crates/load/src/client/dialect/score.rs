//! `/score`, as served by vLLM: a query and documents, with a score for each pair.

use super::{Dialect, PromptWriter, items_dialect, query, text_list};
use crate::client::event::{Parsed, parse_items};
use goodput_workload::items::ItemTexts;

pub(super) const DIALECT: Dialect = items_dialect(PromptWriter::Items { write, needs_query: true }, document);

/// The score of a pair.
#[derive(serde::Deserialize)]
struct Score {
    score: Option<f64>,
}

fn write(out: &mut Vec<u8>, items: &ItemTexts) {
    query(out, "text_1", items);
    text_list(out, "text_2", &items.texts);
}

fn document(body: &[u8]) -> Parsed {
    parse_items(body, |result: &Score| result.score.is_some())
}
