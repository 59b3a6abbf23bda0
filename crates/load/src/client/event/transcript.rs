//! Parses the transcript of an audio file.

use super::wire::{IsError, error_of};
use super::{Event, Parsed, Text};
use serde_json::Value;
use std::num::NonZeroU32;

#[derive(serde::Deserialize, Default)]
#[serde(default)]
struct Document {
    text: Value,
    usage: Value,
    error: Option<Value>,
    object: IsError,
    message: Option<Value>,
}

/// Parses a complete answer. It is malformed if it is not a JSON object. Without a text, it carries nothing.
///
/// Token counts of `usage` are not read: they are those of models that hear in tokens, and no limit of a transcript is on tokens.
pub(in crate::client) fn parse_transcript(body: &[u8]) -> Parsed {
    let is_object = body.trim_ascii_start().first() == Some(&b'{');
    let Some(document) = serde_json::from_slice::<Document>(body).ok().filter(|_| is_object) else {
        return Parsed::Malformed;
    };
    let error = error_of(document.error.as_ref(), &document.object, document.message.as_ref());
    let text = document.text.as_str();
    Parsed::Event(Event {
        content: text.map_or(Text::Absent, |text| Text::of(text.is_empty())),
        text_bytes: text.map_or(0, |text| text.len() as u64),
        audio_ms: length(&document.usage),
        error,
        ..Event::default()
    })
}

/// Returns the length of the audio from `{"type": "duration", "seconds": 30}`.
fn length(usage: &Value) -> Option<NonZeroU32> {
    let is_length = usage.get("type").and_then(Value::as_str) == Some("duration");
    let seconds = usage.get("seconds").filter(|_| is_length)?.as_f64()?;
    // A number beyond the range is that of no audio either: it becomes the largest.
    NonZeroU32::new((1e3 * seconds) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(body: &str) -> Parsed {
        parse_transcript(body.as_bytes())
    }

    /// Rows: the answer, its text, and the seconds of audio that the server counts.
    #[test]
    fn texts_and_lengths_are_read() {
        for (body, text, seconds) in [
            (r#"{"text":" Hello.","usage":{"type":"duration","seconds":12}}"#, Text::Some, Some(12.0)),
            (r#"{"text":"","usage":{"type":"duration","seconds":0.5}}"#, Text::Empty, Some(0.5)),
            (r#"{"text":"a","usage":{"type":"tokens","input_tokens":14,"seconds":3}}"#, Text::Some, None),
            (r#"{"text":"a","usage":null}"#, Text::Some, None),
            (
                r#"{"text":"a","language":"english","duration":8.47,"segments":[{"text":"a"}]}"#,
                Text::Some,
                None,
            ),
            (r#"{"text":"a","usage":[{"seconds":3}]}"#, Text::Some, None),
            (r#"{"text":"a","usage":{"type":"duration","seconds":-3}}"#, Text::Some, None),
            (r#"{"text":"a","usage":{"type":"duration","seconds":1e300}}"#, Text::Some, Some(4_294_967.295)),
            (r#"{"text":"a","usage":{"type":"duration","seconds":"3"}}"#, Text::Some, None),
            (r#"{"text":null}"#, Text::Absent, None),
            (r#"{"text":["a"]}"#, Text::Absent, None),
            (r#"{"text":7}"#, Text::Absent, None),
            ("{}", Text::Absent, None),
        ] {
            let Parsed::Event(event) = parse(body) else { panic!("{body}") };
            let got = event.audio_ms.map(|ms| f64::from(ms.get()) / 1e3);
            assert_eq!((event.content, got, event.error), (text, seconds, None), "{body}");
        }
    }

    #[test]
    fn errors_and_other_documents_are_told_apart() {
        let Parsed::Event(event) = parse(r#"{"error":{"message":"no audio","code":400}}"#) else {
            panic!("error")
        };
        assert_eq!(event.error.as_deref(), Some("no audio"));
        for body in ["", "null", "[]", r#"[{"text":"a"}]"#, "\"text\"", r#"{"text":"a"} x"#, "1\n00:00 --> a"]
        {
            assert_eq!(parse(body), Parsed::Malformed, "{body}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed(body in proptest::collection::vec(any::<u8>(), 0..100)) {
            parse_transcript(&body);
        }
    }
}
