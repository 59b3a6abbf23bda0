//! `/v1/audio/transcriptions`, as OpenAI and vLLM serve it: a form with an audio file, answered with its text in one document.

use super::{Dialect, PromptWriter, items_dialect};
use crate::client::answer_text::AnswerText;
use crate::client::encoder::FORM_TYPE;
use crate::client::event::{Event, Text, parse_transcript};
use serde_json::{Map, Value};

pub(super) const DIALECT: Dialect = Dialect {
    content_type: FORM_TYPE,
    fields: |model, _, _| {
        Map::from_iter([("model".to_owned(), model.into()), ("response_format".to_owned(), "json".into())])
    },
    answer_text,
    document_has_tokens,
    ..items_dialect(PromptWriter::Audio, parse_transcript)
};

/// Returns true for any text: audio without speech has an empty one.
fn document_has_tokens(event: &Event) -> bool {
    event.content != Text::Absent
}

fn answer_text(body: &[u8], _stream: bool) -> AnswerText {
    let document: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = document.get("text").and_then(Value::as_str).unwrap_or_default();
    AnswerText::only(text.to_owned())
}
