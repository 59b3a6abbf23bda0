//! Parses an answer that is one JSON document.

use super::wire::{Count, Delta, Field, Finish, IsError, WireUsage, error_of};
use super::{Event, Parsed};
use serde_json::Value;

#[derive(serde::Deserialize, Default)]
#[serde(default)]
struct Document {
    choices: Option<Vec<Choice>>,
    usage: Option<WireUsage>,
    error: Option<Value>,
    object: IsError,
    message: Option<Value>,
}

#[derive(serde::Deserialize, Default)]
#[serde(default)]
struct Choice {
    index: Count,
    message: Option<Delta>,
    text: Field,
    finish_reason: Finish,
}

/// Parses a complete answer as one event. It is malformed if it is not a JSON object, or has neither a choice nor an
/// error.
pub fn parse_whole(body: &[u8]) -> Parsed {
    let Ok(document) = serde_json::from_slice::<Document>(body) else { return Parsed::Malformed };
    let mut event = Event { usage: document.usage.map(WireUsage::usage), ..Event::default() };
    for (place, choice) in (0..).zip(document.choices.into_iter().flatten()) {
        let index = choice.index.0.unwrap_or(place);
        event.add_choice(index, choice.text, choice.message, choice.finish_reason);
    }
    event.error = error_of(document.error.as_ref(), &document.object, document.message.as_ref());
    if event.has_choice || event.error.is_some() { Parsed::Event(event) } else { Parsed::Malformed }
}

#[cfg(test)]
mod tests {
    use super::super::{ChoiceSets, Text, Usage};
    use super::*;

    #[test]
    fn whole_answers_are_read() {
        let usage = Usage { prompt: Some(3), completion: Some(2), cached: Some(1), reasoning: None };
        let stop = Some("stop".into());
        let choices = ChoiceSets { present: 1, with_text: 1, finished: 1 };
        let event = Event { has_choice: true, choices, finish_reason: stop, ..Event::default() };
        for (body, expected) in [
            (
                r#"{"choices":[{"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":
                    {"prompt_tokens":3,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":1}}}"#,
                Event { content: Text::Some, text_bytes: 2, usage: Some(usage), ..event.clone() },
            ),
            (
                r#"{"choices":[{"text":"hi","finish_reason":"stop"}],"usage":null}"#,
                Event { text: Text::Some, text_bytes: 2, ..event.clone() },
            ),
            (
                r#"{"choices":[{"message":{"content":null,"reasoning_content":"so","tool_calls":[{"function":
                    {"name":"f","arguments":"{}"}}]},"finish_reason":"stop"}]}"#,
                Event { reasoning: Text::Some, tool_calls: Text::Some, text_bytes: 5, ..event.clone() },
            ),
        ] {
            assert_eq!(parse_whole(body.as_bytes()), Parsed::Event(expected), "{body}");
        }
        for (body, error) in [
            (r#"{"error":{"message":"out of memory"}}"#, "out of memory"),
            (r#"{"object":"error","message":"too long"}"#, "too long"),
        ] {
            let Parsed::Event(event) = parse_whole(body.as_bytes()) else { panic!("{body}") };
            assert_eq!(event.error.as_deref(), Some(error));
        }
        for body in ["", "[]", "hello", r#"{"choices":[]}"#, r#"{"choices":null}"#, r#"{"a":1}"#] {
            assert_eq!(parse_whole(body.as_bytes()), Parsed::Malformed, "{body}");
        }
    }
}
