use super::*;
use crate::client::event::{Event, Text, Usage};
use crate::client::payload::AskedLength;
use crate::client::tally::{End, Tally};
use goodput_core::record::{Failure, Outcome, Phase, Record, TokenSource};
use proptest::prelude::*;
use std::time::Duration;

const TGI: &str = r#"text = "$.token.text"
tokens = "$.details.generated_tokens"
input-tokens = "$.details.input_length"
finish = "$.details.finish_reason""#;
const OLLAMA: &str = r#"stream-format = "lines"
text = "$.response"
tokens = "$.eval_count"
input-tokens = "$.prompt_eval_count"
finish = "$.done_reason""#;
/// Triton's ensembles send no end but that of the body.
const TRITON: &str = "text = \"$.text_output\"";
/// Paths of which one is the beginning of another, indices, and a payload at the end.
const NESTED: &str = r#"text = "$.outputs[1].text"
tokens = "$.n"
finish = "$.outputs[1]['end']"
error = "$.outputs"
done = "<END>""#;
const TEI: &str = "results = \"$\"";
const DATA: &str = "results = \"$.data\"\ninput-tokens = \"$.usage.tokens\"";

fn reader(paths: &str) -> TemplateReader {
    let prompt = if paths.contains("results") { "{{texts}}" } else { "\"{{prompt}}\"" };
    let text = format!("path = \"/x\"\nbody = '{{\"a\": {prompt}, \"n\": 1}}'\n{paths}");
    TemplateReader::new(&toml::from_str(&text).unwrap())
}

/// Returns the event of a payload.
fn event_of(paths: &str, payload: &str) -> Event {
    match reader(paths).event(Item { data: payload.as_bytes(), error: false }) {
        Parsed::Event(event) => event,
        other => panic!("{payload}: {other:?}"),
    }
}

#[test]
fn values_are_found_at_their_paths() {
    let usage = |prompt, completion| Some(Usage { prompt, completion, ..Usage::default() });
    for (paths, json, event) in [
        (
            TGI,
            r#"{"index":1,"token":{"id":7,"text":" \"a\"","special":false},"generated_text":null,"details":null}"#,
            Event { text: Text::Some, text_bytes: 6, has_choice: true, ..Event::default() },
        ),
        (
            TGI,
            r#"{"details":{"finish_reason":"length","generated_tokens":4,"input_length":9},"token":{"text":""}}"#,
            Event {
                text: Text::Empty,
                finish_reason: Some("length".into()),
                usage: usage(Some(9), Some(4)),
                ..Event::default()
            },
        ),
        (
            TGI,
            r#"{"error":"out of memory"}"#,
            Event { error: Some("out of memory".into()), ..Event::default() },
        ),
        (TGI, r#"{"error":null,"token":[1,{"text":"x"}]}"#, Event::default()),
        (TGI, "\"ping\"", Event::default()),
        (
            OLLAMA,
            r#"{"response":"","done":true,"done_reason":"stop","eval_count":3.0}"#,
            Event {
                text: Text::Empty,
                finish_reason: Some("stop".into()),
                usage: usage(None, Some(3)),
                ..Event::default()
            },
        ),
        (
            NESTED,
            r#"{"outputs":[{"text":"no"},{"text":"ab","end":true},7],"n":2}"#,
            Event {
                text: Text::Some,
                text_bytes: 2,
                has_choice: true,
                finish_reason: Some("done".into()),
                usage: usage(None, Some(2)),
                // The path of the error leads to the list, which is no error only when it is empty.
                error: Some(r#"[{"text":"no"},{"end":true,"text":"ab"},7]"#.into()),
                ..Event::default()
            },
        ),
        (NESTED, r#"{"outputs":[],"n":"two"}"#, Event::default()),
    ] {
        assert_eq!(event_of(paths, json), event, "{json}");
    }
}

#[test]
fn results_are_counted() {
    for (paths, body, results) in [
        (TEI, r#"[{"index":0,"score":0.9},{"index":1,"score":0.1}]"#, Some(2)),
        (TEI, "[[0.1,0.2],[],null,[0.3]]", Some(2)),
        (DATA, r#"{"data":[1,2,3],"usage":{"tokens":9}}"#, Some(3)),
        (DATA, r#"{"data":{}}"#, Some(0)),
        (DATA, r#"{"other":[1]}"#, None),
        (TEI, "[1,", None),
    ] {
        let got = match reader(paths).document(body.as_bytes()) {
            Parsed::Event(event) => Some(event.results),
            _ => None,
        };
        assert_eq!(got, results, "{body}");
    }
}

/// Reads a stream in pieces of this size, of which each takes a millisecond.
fn read(paths: &str, bytes: &[u8], piece: usize) -> Record {
    let reader = reader(paths);
    let (mut tally, mut splitter) = (Tally::of_template(&reader, None), reader.splitter());
    tally.expect(Some(AskedLength { tokens: 4, is_pinned: false }));
    let mut at = Duration::ZERO;
    for piece in bytes.chunks(piece.max(1)) {
        at += Duration::from_millis(1);
        splitter.feed(piece, |item| tally.feed(at, reader.event(item), item.data)).unwrap();
    }
    splitter.finish(|item| match reader.event(item) {
        Parsed::Malformed => tally.torn(),
        parsed => tally.feed(at, parsed, item.data),
    });
    let mut record = Record::due(0, Phase::Measure, Duration::ZERO);
    tally.finish(End::Eof, at, &mut record);
    record
}

/// Rows: the template, the stream, its failure, output tokens and their source, events, and finish reason.
#[test]
fn streams_become_records() {
    const TOKEN: &str = "data:{\"token\":{\"text\":\" a\"},\"generated_text\":null,\"details\":null}\n\n";
    const LAST: &str = "data:{\"token\":{\"text\":\" b\"},\"generated_text\":\" a a b\",\"details\":{\"finish_reason\":\"length\",\"generated_tokens\":3,\"input_length\":9}}\n\n";
    let tgi = [TOKEN, TOKEN, LAST].concat();
    let (done, cut) = (format!("{tgi}data: [DONE]\n\n"), format!("{TOKEN}{TOKEN}data: [DONE]\n\n"));
    let ollama = "{\"response\":\"a\",\"done\":false}\n{\"response\":\"b\",\"done\":false}\r\n{\"response\":\"\",\"done\":true,\"done_reason\":\"stop\",\"eval_count\":2}\n";
    let triton =
        "data: {\"text_output\":\"a\"}\n\ndata: {\"text_output\":\"\"}\n\ndata: {\"text_output\":\"b\"}\n\n";
    let nested = "data: {\"outputs\":[0,{\"text\":\"x\"}],\"n\":2}\n\ndata: {\"outputs\":[0,{\"text\":\"x\"}],\"n\":4}\n\ndata: <END>\n\n";
    // Here the list is no error.
    let nested_paths = NESTED.replace("\"$.outputs\"", "\"$.problem\"");
    let (usage, events, running) =
        (Some(TokenSource::Usage), Some(TokenSource::Events), Some(TokenSource::Continuous));
    for (paths, stream, failure, tokens, source, n, finish) in [
        (TGI, &*tgi, None, Some(3), usage, 3, Some("length")),
        (TGI, &tgi[..tgi.len() - LAST.len()], Some(Failure::Truncated), None, None, 2, None),
        (
            TGI,
            "data:{\"error\":\"boom\",\"error_type\":\"generation\"}\n\n",
            Some(Failure::StreamError),
            None,
            None,
            0,
            None,
        ),
        (TGI, &*done, None, Some(3), usage, 3, Some("length")),
        (TGI, &*cut, Some(Failure::Truncated), None, None, 2, None),
        (OLLAMA, ollama, None, Some(2), usage, 2, Some("stop")),
        (OLLAMA, "{\"error\":\"boom\"}\n", Some(Failure::StreamError), None, None, 0, None),
        (OLLAMA, "data: {}\n", Some(Failure::Malformed), None, None, 0, None),
        (TRITON, triton, None, Some(2), events, 2, Some("done")),
        (TRITON, &triton[..triton.len() - 8], Some(Failure::Truncated), None, None, 1, None),
        (TRITON, "data: {\"text_out\":\"a\"}\n\n", Some(Failure::Empty), None, None, 0, Some("done")),
        (TRITON, "", Some(Failure::Empty), None, None, 0, Some("done")),
        (&nested_paths, nested, None, Some(4), running, 2, Some("done")),
        (&nested_paths, &nested[..nested.len() - 13], Some(Failure::Truncated), Some(4), running, 2, None),
    ] {
        for piece in [1, 7, usize::MAX] {
            let r = read(paths, stream.as_bytes(), piece);
            let why = format!("{paths}\n{stream}\n{r:?}");
            assert_eq!((r.failure, r.events, r.finish.as_deref()), (failure, n, finish), "{why}");
            assert_eq!((r.output_tokens, r.token_source), (tokens, source), "{why}");
            assert_eq!(r.outcome == Outcome::Ok, failure.is_none(), "{why}");
        }
    }
}

#[test]
fn the_text_of_an_answer_is_put_together() {
    for (paths, body, stream, text) in [
        (
            TGI,
            "data:{\"token\":{\"text\":\" a\"}}\n\ndata:{\"token\":{\"text\":\"\\u00e9\"}}\n\n",
            true,
            " aé",
        ),
        (OLLAMA, "{\"response\":\"a\"}\n{\"response\":\"b\"}\n", true, "ab"),
        (
            NESTED,
            "data: {\"outputs\":[0,{\"text\":\"x\"}]}\n\ndata: <END>\n\ndata: {\"outputs\":[0,{\"text\":\"y\"}]}\n\n",
            true,
            "x",
        ),
        ("text = \"$[0].generated_text\"", "[{\"generated_text\":\"all\"}]", false, "all"),
        (TGI, "no json", false, ""),
    ] {
        assert_eq!(reader(paths).answer_text(body.as_bytes(), stream).text, text, "{body}");
    }
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::Value;
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
    ];
    let key =
        prop::sample::select(vec!["token", "text", "details", "error", "outputs", "end", "n", "data", "é\""]);
    leaf.prop_recursive(4, 32, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..4).prop_map(|pairs| pairs
                .into_iter()
                .map(|(k, v)| (k.to_owned(), v))
                .collect::<Map<_, _>>()
                .into()),
        ]
    })
}

proptest! {
    /// No bytes make the reader panic, and the size of the reads changes nothing.
    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..200), piece in 1..9_usize) {
        for paths in [TGI, OLLAMA, TRITON, NESTED, TEI, DATA] {
            let reader = reader(paths);
            let _ = reader.document(&bytes);
            let _ = (reader.answer_text(&bytes, true), reader.answer_text(&bytes, false));
            let ends = |r: Record| (r.outcome, r.failure, r.output_tokens, r.events, r.finish);
            prop_assert_eq!(ends(read(paths, &bytes, piece)), ends(read(paths, &bytes, usize::MAX)));
        }
    }

    /// One pass over the bytes finds what a walk through the tree of the document finds.
    #[test]
    fn a_pass_finds_what_a_walk_finds(value in any_json()) {
        let json = value.to_string();
        for paths in [TGI, NESTED, DATA, TEI] {
            let _ = event_of(paths, &json);
        }
        let got = reader(TGI).lookup.find(json.as_bytes()).unwrap().text();
        prop_assert_eq!(got.as_deref(), value["token"]["text"].as_str());
        let got = reader(NESTED).lookup.find(json.as_bytes()).unwrap().text();
        prop_assert_eq!(got.as_deref(), value["outputs"][1]["text"].as_str());
    }
}
