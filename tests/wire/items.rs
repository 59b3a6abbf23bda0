//! Recordings of the APIs that answer each item of a request, and the requests that they answered.

use crate::recording::Recording;
use crate::serve::{Act, client, serve, shot_to};
use goodput::client::event::Parsed;
use goodput::client::{Api, Encoder, Pinning, parse_document};
use goodput::record::{Failure, Outcome};
use goodput::workload::items::ItemTexts;
use serde_json::Value;

/// A recorded answer.
pub(crate) struct Answered {
    pub(crate) name: &'static str,
    /// Number of items of the request.
    items: u32,
    /// Number of results.
    results: u32,
    /// Input tokens by the answer's `usage`.
    input: u32,
}

#[rustfmt::skip]
pub(crate) const ANSWERED: &[Answered] = &[
    Answered { name: "llamacpp/embeddings-base64", items: 2, results: 2, input: 36 },
    Answered { name: "llamacpp/embeddings-float", items: 2, results: 2, input: 36 },
    Answered { name: "llamacpp/rerank", items: 3, results: 3, input: 60 },
    Answered { name: "llamacpp/rerank-top_n", items: 3, results: 2, input: 60 },
    Answered { name: "vllm/classify", items: 2, results: 2, input: 36 },
    Answered { name: "vllm/embeddings-base64", items: 2, results: 2, input: 36 },
    Answered { name: "vllm/embeddings-empty-text", items: 1, results: 1, input: 2 },
    Answered { name: "vllm/embeddings-float", items: 2, results: 2, input: 36 },
    Answered { name: "vllm/pooling", items: 2, results: 2, input: 36 },
    Answered { name: "vllm/rerank", items: 3, results: 3, input: 60 },
    Answered { name: "vllm/rerank-top_n", items: 3, results: 2, input: 60 },
    Answered { name: "vllm/score", items: 3, results: 3, input: 60 },
    // An embedder compares two vectors: it reads the query once, a cross-encoder once for each document.
    Answered { name: "vllm/score-bi-encoder", items: 3, results: 3, input: 51 },
];

/// Returns the items of a recorded request, and its other fields. A single text may be sent as such.
fn request(recording: &Recording) -> (ItemTexts, serde_json::Map<String, Value>) {
    let mut fields = recording.body.clone().unwrap().as_object().unwrap().clone();
    fields.remove("model");
    let query = ["query", "text_1"].iter().find_map(|field| fields.remove(*field));
    let texts = ["input", "documents", "text_2"].iter().find_map(|field| fields.remove(*field)).unwrap();
    let texts = serde_json::from_value(texts).unwrap();
    (ItemTexts { query: query.map(|q| q.as_str().unwrap().to_owned()), texts }, fields)
}

fn body(recording: &Recording) -> Vec<u8> {
    recording.body_reads().into_iter().flat_map(|(_, bytes)| bytes).collect()
}

#[test]
fn results_and_usage_are_read() {
    for a in ANSWERED {
        let recording = Recording::load(a.name);
        let api = Api::of_path(&recording.path).unwrap();
        let Parsed::Event(event) = parse_document(api, &body(&recording)) else { panic!("{}", a.name) };
        let input = event.usage.and_then(|usage| usage.prompt);
        assert_eq!((event.results, input), (a.results, Some(a.input.into())), "{}", a.name);
        assert_eq!(event.error, None, "{}", a.name);
    }
}

/// The server has accepted a request that is equal to what goodput writes for its items.
#[test]
fn requests_are_written_as_the_server_took_them() {
    for a in ANSWERED {
        let recording = Recording::load(a.name);
        let api = Api::of_path(&recording.path).unwrap();
        let (items, fields) = request(&recording);
        assert_eq!(items.texts.len(), a.items as usize, "{}", a.name);
        let sent = recording.body.unwrap();
        let model = sent["model"].as_str().unwrap();
        let payload = Encoder::new(api, model, &fields, Pinning::FULL, true).items(&items);
        let written: Value =
            serde_json::from_slice(&[&payload.head[..], &payload.tail[..]].concat()).unwrap();
        assert_eq!(written, sent, "{}", a.name);
    }
}

#[tokio::test]
async fn answers_complete_their_requests() {
    for a in ANSWERED {
        let recording = Recording::load(a.name);
        let api = Api::of_path(&recording.path).unwrap();
        let (items, fields) = request(&recording);
        let more = ItemTexts { texts: [&items.texts[..], &["one more".into()]].concat(), ..items.clone() };
        // With `top_n`, fewer results than documents are no fault.
        let is_counted = !fields.contains_key("top_n");
        for (items, failure) in [(items, None), (more, is_counted.then_some(Failure::Miscounted))] {
            let script = recording.reads.iter().map(|(_, bytes)| Act::Write(bytes.clone()));
            let server = serve(vec![script.chain([Act::Close]).collect()]).await;
            let mut shot = shot_to(api, "m");
            shot.payload = Encoder::new(api, "m", &fields, Pinning::FULL, true).items(&items);
            let r = client(&server.url, api).send(shot).await.record;
            let outcome = if failure.is_some() { Outcome::Failed } else { Outcome::Ok };
            assert_eq!((r.outcome, r.failure, r.status), (outcome, failure, Some(200)), "{}", a.name);
            if failure.is_none() {
                assert_eq!(r.input_tokens, Some(a.input), "{}", a.name);
            }
        }
    }
}
