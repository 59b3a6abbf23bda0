//! Requests of items at the simulated server, and their answers in vLLM's format. The engine reads each item as a prompt of
//! its own and is done with it at the end of the prefill.

use crate::sim::request::{Discarded, Words};
use crate::sim::rules::{Refusal, ServedModel};
use goodput_core::endpoint::Api;
use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use std::fmt::{self, Write};
use std::sync::Arc;

/// Special tokens around a text.
const AROUND_TEXT: u32 = 2;
/// Special tokens around and between a query and a document.
const AROUND_PAIR: u32 = 3;
/// Default size of a vector.
const DIMENSIONS: usize = 768;
/// Largest size of a vector.
const MOST_DIMENSIONS: usize = 1 << 14;
/// Number of classes.
const CLASSES: usize = 2;

/// The fields of a request that the simulated server uses.
#[derive(Debug, serde::Deserialize)]
struct ItemsRequest {
    model: Option<String>,
    input: Option<Texts>,
    query: Option<Texts>,
    documents: Option<Texts>,
    text_1: Option<Texts>,
    text_2: Option<Texts>,
    dimensions: Option<usize>,
    encoding_format: Option<Encoding>,
    top_n: Option<usize>,
}

/// Encoding of vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Encoding {
    #[default]
    Float,
    Base64,
}

/// The number of words or token ids of each text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Texts(Vec<u32>);

/// An accepted request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ItemOrder {
    api: Api,
    /// Input tokens of each item.
    pub(super) items: Arc<[u32]>,
    dimensions: usize,
    encoding: Encoding,
    /// Number of results to return.
    results: usize,
}

impl ItemOrder {
    /// Parses and checks a request.
    pub(super) fn accept(model: &ServedModel, api: Api, body: &[u8]) -> Result<Self, Refusal> {
        let request: ItemsRequest = serde_json::from_slice(body).map_err(|e| Refusal::unreadable(&e))?;
        model.check_name(request.model.as_deref())?;
        let needed = |texts: Option<Texts>, field| texts.ok_or_else(|| Refusal::missing(field));
        let (query, texts) = match api {
            Api::Rerank => (Some(needed(request.query, "query")?), needed(request.documents, "documents")?),
            Api::Score => (Some(needed(request.text_1, "text_1")?), needed(request.text_2, "text_2")?),
            _ => (None, needed(request.input, "input")?),
        };
        let before = match &query {
            Some(query) => AROUND_PAIR.saturating_add(query.0.iter().sum()),
            None => AROUND_TEXT,
        };
        let items: Arc<[u32]> = texts.0.iter().map(|words| words.saturating_add(before)).collect();
        if items.is_empty() {
            return Err(Refusal::bad(None, "at least one text is needed".into()));
        }
        if let Some(tokens) = items.iter().find(|tokens| **tokens > model.max_model_len()) {
            return Err(Refusal::too_long(model.max_model_len(), *tokens));
        }
        let results = request.top_n.filter(|n| *n > 0).unwrap_or(items.len()).min(items.len());
        Ok(Self {
            api,
            dimensions: request.dimensions.unwrap_or(DIMENSIONS).clamp(1, MOST_DIMENSIONS),
            encoding: request.encoding_format.unwrap_or_default(),
            results,
            items,
        })
    }

    /// Returns the input tokens of all items.
    pub(super) fn tokens(&self) -> u32 {
        self.items.iter().fold(0, |sum, tokens| sum.saturating_add(*tokens))
    }

    /// Formats the answer. `created` is a Unix time in seconds, `model` a JSON string.
    pub(super) fn document(&self, id: u64, created: u64, model: &str) -> String {
        let vector = self.vector();
        let (prefix, list) = match self.api {
            Api::Rerank => ("rerank", "results"),
            Api::Embeddings | Api::Score => ("embd", "data"),
            _ => ("pool", "data"),
        };
        let mut out = format!(
            r#"{{"id":"{prefix}-{id:016x}","object":"list","created":{created},"model":{model},"{list}":["#
        );
        for index in 0..self.results {
            out.push_str(if index == 0 { "" } else { "," });
            let _ = match self.api {
                Api::Rerank => write!(
                    out,
                    r#"{{"index":{index},"document":{{"text":null}},"relevance_score":{}}}"#,
                    score(index)
                ),
                Api::Score => {
                    write!(out, r#"{{"index":{index},"object":"score","score":{}}}"#, score(index))
                }
                Api::Pooling => write!(out, r#"{{"index":{index},"object":"pooling","data":{vector}}}"#),
                Api::Classify => write!(
                    out,
                    r#"{{"index":{index},"label":"LABEL_0","probs":[0.75,0.25],"num_classes":{CLASSES}}}"#
                ),
                _ => write!(out, r#"{{"index":{index},"object":"embedding","embedding":{vector}}}"#),
            };
        }
        let tokens = self.tokens();
        let _ = write!(
            out,
            r#"],"usage":{{"prompt_tokens":{tokens},"total_tokens":{tokens},"completion_tokens":0,"prompt_tokens_details":null}}}}"#
        );
        out
    }

    /// Formats a vector.
    fn vector(&self) -> String {
        let mut out = String::with_capacity(self.dimensions * 12);
        match self.encoding {
            Encoding::Float => {
                out.push('[');
                for i in 0..self.dimensions {
                    let _ = write!(out, "{}{}", if i == 0 { "" } else { "," }, component(i));
                }
                out.push(']');
            }
            Encoding::Base64 => {
                use base64::Engine as _;
                let bytes: Vec<u8> = (0..self.dimensions).flat_map(|i| component(i).to_le_bytes()).collect();
                let _ = write!(out, "\"{}\"", base64::engine::general_purpose::STANDARD.encode(bytes));
            }
        }
        out
    }
}

/// Returns a component of a vector of about unit length.
fn component(i: usize) -> f32 {
    ((i as f32 * 0.7).sin()) * 0.05
}

/// Returns the score of an item, which falls with its place.
fn score(index: usize) -> f64 {
    1.0 / (index as f64 + 2.0)
}

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(TextsVisitor)
    }
}

struct TextsVisitor;

impl<'de> Visitor<'de> for TextsVisitor {
    type Value = Texts;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, token ids, or a list of them")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Texts, E> {
        Ok(Texts(vec![count(text)]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Texts, A::Error> {
        let (mut texts, mut ids) = (Vec::new(), 0);
        while let Some(part) = list.next_element::<Words<Discarded>>()? {
            match part.texts {
                // A token id.
                0 => ids += 1,
                _ => texts.push(u32::try_from(part.count).unwrap_or(u32::MAX)),
            }
        }
        if ids > 0 {
            texts.push(ids);
        }
        Ok(Texts(texts))
    }
}

/// Returns the number of words of a text.
fn count(text: &str) -> u32 {
    u32::try_from(text.split_ascii_whitespace().count()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::rules::Page;
    use serde_json::Value;
    use std::num::NonZeroU32;

    fn accept(api: Api, body: &str) -> Result<ItemOrder, String> {
        let model = ServedModel::new("m", NonZeroU32::new(512).unwrap());
        ItemOrder::accept(&model, api, body.as_bytes())
            .map_err(|refusal| Page::from(refusal).body.into_owned())
    }

    #[test]
    fn items_have_the_tokens_of_their_texts() {
        for (api, body, items) in [
            (Api::Embeddings, r#"{"model":"m","input":"one two"}"#, vec![4]),
            (Api::Embeddings, r#"{"input":["one two","three"]}"#, vec![4, 3]),
            (Api::Embeddings, r#"{"input":[1,2,3]}"#, vec![5]),
            (Api::Pooling, r#"{"input":[[1,2,3],[4]]}"#, vec![5, 3]),
            (Api::Classify, r#"{"input":["one"]}"#, vec![3]),
            (Api::Rerank, r#"{"query":"one two","documents":["three","four five"]}"#, vec![6, 7]),
            (Api::Score, r#"{"text_1":"one","text_2":["two"]}"#, vec![5]),
        ] {
            assert_eq!(accept(api, body).map(|order| order.items.to_vec()), Ok(items), "{body}");
        }
    }

    #[test]
    fn what_cannot_be_answered_is_refused() {
        let long = format!(r#"{{"input":"{}"}}"#, "word ".repeat(600));
        for (api, body, part) in [
            (Api::Embeddings, r#"{"input":[]}"#, "at least one text"),
            (Api::Embeddings, r#"{"model":"other","input":"a"}"#, "does not exist"),
            (Api::Embeddings, r#"{"query":"a"}"#, "body.input"),
            (Api::Rerank, r#"{"query":"a"}"#, "body.documents"),
            (Api::Embeddings, r#"{"input":true}"#, "wrong type"),
            (Api::Embeddings, &long, "maximum context length is 512"),
        ] {
            let refusal = accept(api, body).unwrap_err();
            assert!(refusal.contains(part), "{body}: {refusal}");
        }
    }

    #[test]
    fn answers_have_a_result_for_each_item() {
        for (api, body, list, field) in [
            (Api::Embeddings, r#"{"input":["a","b"],"dimensions":4}"#, "data", "embedding"),
            (Api::Embeddings, r#"{"input":["a","b"],"encoding_format":"base64"}"#, "data", "embedding"),
            (Api::Pooling, r#"{"input":["a","b"]}"#, "data", "data"),
            (Api::Classify, r#"{"input":["a","b"]}"#, "data", "probs"),
            (Api::Rerank, r#"{"query":"q","documents":["a","b"]}"#, "results", "relevance_score"),
            (Api::Score, r#"{"text_1":"q","text_2":["a","b"]}"#, "data", "score"),
        ] {
            let order = accept(api, body).unwrap();
            let document: Value = serde_json::from_str(&order.document(7, 1, "\"m\"")).unwrap();
            let results = document[list].as_array().unwrap();
            assert!(
                results.len() == 2 && results.iter().all(|result| !result[field].is_null()),
                "{document}"
            );
            assert_eq!(document["usage"]["prompt_tokens"], order.tokens());
        }
        let four = accept(Api::Embeddings, r#"{"input":["a"],"dimensions":4}"#).unwrap();
        let document: Value = serde_json::from_str(&four.document(7, 1, "\"m\"")).unwrap();
        assert_eq!(document["data"][0]["embedding"].as_array().map(Vec::len), Some(4));
        let first = accept(Api::Rerank, r#"{"query":"q","documents":["a","b","c"],"top_n":1}"#).unwrap();
        assert_eq!(first.document(7, 1, "\"m\"").matches("relevance_score").count(), 1);
    }
}
