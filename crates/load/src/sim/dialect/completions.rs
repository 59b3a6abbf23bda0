//! `/v1/completions`.

use super::{Dialect, choices};
use crate::sim::rules::EVENTS;
use crate::sim::writer::{Channel, Writer};

pub(super) const DIALECT: Dialect = Dialect {
    template_tokens: 0,
    default_output: Some(16),
    streams: super::if_asked,
    stream_type: EVENTS,
    head: |id, _, created, model| choices::head("cmpl", "text_completion", id, created, model),
    open: |_, _| {},
    delta,
    close: choices::close,
    document,
    error: choices::error,
};

/// Appends tokens to the only channel.
fn delta(writer: &mut Writer, out: &mut String, tokens: u32, finished: bool, _: Channel) {
    let end = if finished {
        r#"","logprobs":null,"finish_reason":"length","stop_reason":null,"prompt_token_ids":null,"token_ids":null}]"#
    } else {
        r#"","logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":null}]"#
    };
    choices::delta(writer, out, tokens, [r#""text":""#, end]);
}

fn document(writer: &Writer) -> String {
    choices::document(writer, |out| {
        out.push_str(r#""text":""#);
        for channel in [Channel::Reasoning, Channel::Content] {
            choices::block(writer, out, channel);
        }
        out.push('"');
    })
}
