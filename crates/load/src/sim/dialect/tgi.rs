//! The native endpoints of Hugging Face's Text Generation Inference: `/generate` and `/generate_stream`.

use super::{Dialect, choices};
use crate::sim::rules::{EVENTS, Refusal, json_string};
use crate::sim::writer::{Channel, Writer, words};
use std::fmt::Write;

/// `/generate`.
pub(super) const WHOLE: Dialect = Dialect {
    template_tokens: 0,
    default_output: Some(100),
    streams: |_| false,
    stream_type: EVENTS,
    head: |_, _, _, _| String::new(),
    open: |_, _| {},
    delta,
    close: |_, _| {},
    document,
    error,
};

/// `/generate_stream`.
pub(super) const STREAM: Dialect = Dialect { streams: |_| true, ..WHOLE };

/// Appends tokens. The last event has the whole text and the details of the answer; nothing follows it.
fn delta(writer: &mut Writer, out: &mut String, tokens: u32, finished: bool, _: Channel) {
    let index = writer.output_tokens + tokens;
    let _ = write!(out, r#"data:{{"index":{index},"token":{{"id":{index},"text":""#);
    writer.words(out, tokens);
    out.push_str(r#"","logprob":-0.1,"special":false},"generated_text":"#);
    if finished {
        out.push('"');
        let hidden = if writer.thought.hidden { writer.thought.tokens } else { 0 };
        words(out, hidden, writer.output_tokens - hidden);
        let (input, output) = (writer.input_tokens, writer.output_tokens);
        let _ = write!(
            out,
            r#"","details":{{"finish_reason":"length","generated_tokens":{output},"seed":null,"input_length":{input}}}}}"#
        );
    } else {
        out.push_str(r#"null,"details":null}"#);
    }
    out.push_str("\n\n");
}

fn document(writer: &Writer) -> String {
    let mut out = r#"{"generated_text":""#.to_owned();
    for channel in [Channel::Reasoning, Channel::Content] {
        choices::block(writer, &mut out, channel);
    }
    let output = writer.output_tokens;
    let _ = write!(
        out,
        r#"","details":{{"finish_reason":"length","generated_tokens":{output},"seed":null,"prefill":[],"tokens":[]}}}}"#
    );
    out
}

fn error(refusal: &Refusal) -> String {
    let message = json_string(&format!("Input validation error: {}", refusal.message));
    format!(r#"{{"error":{message},"error_type":"validation"}}"#)
}
