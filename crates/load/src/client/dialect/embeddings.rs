//! `/v1/embeddings`.

use super::{Dialect, PromptWriter, items_dialect, text_list};
use crate::client::event::{Parsed, VectorSize, parse_items};
use goodput_workload::items::ItemTexts;

pub(super) const DIALECT: Dialect =
    items_dialect(PromptWriter::Items { write, needs_query: false }, document);

/// A vector, as a list of numbers or in base64.
#[derive(serde::Deserialize)]
struct Embedding {
    #[serde(default)]
    embedding: VectorSize,
}

fn write(out: &mut Vec<u8>, items: &ItemTexts) {
    text_list(out, "input", &items.texts);
}

fn document(body: &[u8]) -> Parsed {
    parse_items(body, |result: &Embedding| result.embedding.0 > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::event::Event;

    #[test]
    fn vectors_are_counted_in_both_encodings() {
        for (body, results) in [
            (
                r#"{"object":"list","data":[{"index":0,"object":"embedding","embedding":[0.1,-0.2]},{"index":1,"embedding":[1,2]}]}"#,
                2,
            ),
            (r#"{"object":"list","data":[{"index":0,"object":"embedding","embedding":"zczMPQ=="}]}"#, 1),
            (r#"{"data":[{"index":0,"embedding":[]},{"index":1},{"embedding":null}]}"#, 0),
        ] {
            assert_eq!(
                document(body.as_bytes()),
                Parsed::Event(Event { results, ..Event::default() }),
                "{body}"
            );
        }
    }

    #[test]
    fn texts_are_written_as_a_list() {
        let items = ItemTexts { query: None, texts: vec!["one \"two\"".into(), "three".into()] };
        let mut out = Vec::new();
        write(&mut out, &items);
        assert_eq!(String::from_utf8(out).unwrap(), r#""input":["one \"two\"","three"]"#);
    }
}
