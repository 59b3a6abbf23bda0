//! `/v1/rerank`, in the form of Jina and Cohere.

use super::{Dialect, PromptWriter, items_dialect, query, text_list};
use crate::client::event::{Parsed, parse_items};
use goodput_workload::items::ItemTexts;

pub(super) const DIALECT: Dialect = items_dialect(PromptWriter::Items { write, needs_query: true }, document);

/// The relevance of a document.
#[derive(serde::Deserialize)]
struct Relevance {
    relevance_score: Option<f64>,
}

fn write(out: &mut Vec<u8>, items: &ItemTexts) {
    query(out, "query", items);
    text_list(out, "documents", &items.texts);
}

fn document(body: &[u8]) -> Parsed {
    parse_items(body, |result: &Relevance| result.relevance_score.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::event::Event;

    #[test]
    fn documents_follow_their_query() {
        let mut out = Vec::new();
        write(&mut out, &ItemTexts { query: Some("q".into()), texts: vec!["a".into(), "b".into()] });
        assert_eq!(String::from_utf8(out).unwrap(), r#""query":"q","documents":["a","b"]"#);
    }

    #[test]
    fn the_forms_of_vllm_and_cohere_are_read() {
        for (body, results) in [
            (
                r#"{"id":"rerank-1","model":"m","results":[{"index":1,"document":{"text":"a"},"relevance_score":0.9},
                    {"index":0,"document":{"text":"b"},"relevance_score":0.1}]}"#,
                2,
            ),
            (
                r#"{"results":[{"index":0,"relevance_score":0.99}],"id":"x","meta":{"api_version":{"version":"2"}}}"#,
                1,
            ),
            (r#"{"results":[{"index":0,"relevance_score":null}]}"#, 0),
        ] {
            assert_eq!(
                document(body.as_bytes()),
                Parsed::Event(Event { results, ..Event::default() }),
                "{body}"
            );
        }
    }
}
