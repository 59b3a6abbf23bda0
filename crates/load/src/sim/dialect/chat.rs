//! `/v1/chat/completions`.

use super::{Dialect, choices};
use crate::sim::rules::EVENTS;
use crate::sim::writer::{Channel, Writer};

pub(super) const DIALECT: Dialect = Dialect {
    template_tokens: 8,
    default_output: None,
    streams: super::if_asked,
    stream_type: EVENTS,
    head,
    open,
    delta,
    close: choices::close,
    document,
    error: choices::error,
};

fn head(id: u64, stream: bool, created: u64, model: &str) -> String {
    let object = if stream { "chat.completion.chunk" } else { "chat.completion" };
    choices::head("chatcmpl", object, id, created, model)
}

fn open(writer: &mut Writer, out: &mut String) {
    choices::event(
        writer,
        out,
        r#""delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]"#,
        ",\"prompt_token_ids\":null,\"prompt_text\":null}\n\n",
    );
}

fn delta(writer: &mut Writer, out: &mut String, tokens: u32, finished: bool, channel: Channel) {
    let begin = match channel {
        Channel::Content => r#""delta":{"content":""#,
        Channel::Reasoning => r#""delta":{"reasoning":""#,
    };
    let end = if finished {
        r#""},"logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null}]"#
    } else {
        r#""},"logprobs":null,"finish_reason":null,"token_ids":null}]"#
    };
    choices::delta(writer, out, tokens, [begin, end]);
}

fn document(writer: &Writer) -> String {
    choices::document(writer, |out| {
        out.push_str(r#""message":{"role":"assistant","content":""#);
        choices::block(writer, out, Channel::Content);
        out.push_str(r#"","refusal":null,"reasoning":"#);
        let mut reasoning = String::new();
        if choices::block(writer, &mut reasoning, Channel::Reasoning) {
            out.extend(["\"", &reasoning, "\"}"]);
        } else {
            out.push_str("null}");
        }
    })
}
