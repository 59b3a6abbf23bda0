//! Extracts the text of a complete answer from its body. Runs only for answers whose text is wanted.

use super::splitter::Splitter;
use super::sse::Parser;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::iter;
use std::ops::ControlFlow;

/// The texts of an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AnswerText {
    /// The answer itself: the content of a chat (or the refusal in its place), the text of a completion. Of several choices, that
    /// of the first.
    pub(crate) text: String,
    /// Other text that the model wrote: reasoning, names and arguments of tool calls. Of several choices, that of the first.
    pub(crate) other_channels: String,
    /// The texts of the choices after the first, whose events come in any order.
    others: BTreeMap<u8, Texts>,
}

/// The texts of a choice after the first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Texts {
    text: String,
    other_channels: String,
}

impl AnswerText {
    /// Makes one of nothing but the answer itself.
    pub(crate) fn only(text: String) -> Self {
        Self { text, ..Self::default() }
    }

    /// Extracts the texts from a stream of events with `choices`, up to `[DONE]`.
    pub(crate) fn of_stream(body: &[u8]) -> Self {
        Self::of_events(body, |answer, data| {
            if data == b"[DONE]" {
                return ControlFlow::Break(());
            }
            answer.add(data);
            ControlFlow::Continue(())
        })
    }

    /// Extracts the texts from a stream of server-sent events: `add` adds those of one payload, and breaks at the end of the answer.
    pub(super) fn of_events(body: &[u8], add: impl Fn(&mut Self, &[u8]) -> ControlFlow<()>) -> Self {
        Self::of_split(body, Splitter::Events(Parser::new()), add)
    }

    /// Extracts the texts from a stream in the format of a splitter, as [`AnswerText::of_events`].
    pub(super) fn of_split(
        body: &[u8],
        mut splitter: Splitter,
        add: impl Fn(&mut Self, &[u8]) -> ControlFlow<()>,
    ) -> Self {
        let (mut answer, mut over) = (Self::default(), false);
        let mut each = |data: &[u8]| over = over || add(&mut answer, data.trim_ascii()).is_break();
        // An event that is too large has failed the request before.
        if splitter.feed(body, |item| each(item.data)).is_ok() {
            splitter.finish(|item| each(item.data));
        }
        answer
    }

    /// Extracts the texts from one JSON document.
    pub(crate) fn of_document(body: &[u8]) -> Self {
        let mut answer = Self::default();
        answer.add(body);
        answer
    }

    /// Returns the text of the first choice, and all others that have any.
    pub(crate) fn into_texts(self) -> (Box<str>, Vec<Box<str>>) {
        let others = self.others.into_values().flat_map(|texts| [texts.text, texts.other_channels]);
        let others = iter::once(self.other_channels).chain(others).filter(|text| !text.is_empty());
        (self.text.into(), others.map(Into::into).collect())
    }

    /// Returns where the text of a choice and its other text belong.
    fn texts_of(&mut self, choice: u8) -> (&mut String, &mut String) {
        if choice == 0 {
            return (&mut self.text, &mut self.other_channels);
        }
        let texts = self.others.entry(choice).or_default();
        (&mut texts.text, &mut texts.other_channels)
    }

    fn add(&mut self, json: &[u8]) {
        let Ok(document) = serde_json::from_slice::<Document<'_>>(json) else { return };
        for choice in document.choices.into_iter().flatten() {
            let (text, other_channels) = self.texts_of(choice.number());
            add(text, choice.text);
            for part in [choice.delta, choice.message].into_iter().flatten() {
                add(text, part.content);
                add(text, part.refusal);
                let before = other_channels.len();
                add(other_channels, part.reasoning);
                if other_channels.len() == before {
                    add(other_channels, part.reasoning_content);
                }
                let calls =
                    part.tool_calls.and_then(|raw| serde_json::from_str::<Vec<Call<'_>>>(raw.get()).ok());
                let calls = calls.into_iter().flatten().filter_map(|call| call.function);
                for function in calls.chain(part.function_call) {
                    add(other_channels, function.name);
                    add(other_channels, function.arguments);
                }
            }
        }
    }
}

/// Appends a string, or the texts of a list of parts. An object, as some servers send a tool's arguments, is appended
/// as raw JSON.
pub(super) fn add(out: &mut String, raw: Option<&RawValue>) {
    let Some(raw) = raw.map(RawValue::get) else { return };
    match raw.as_bytes().first() {
        Some(b'"') => out.push_str(&serde_json::from_str::<String>(raw).unwrap_or_default()),
        Some(b'[') => {
            let parts = serde_json::from_str::<Vec<ContentPart<'_>>>(raw).unwrap_or_default();
            parts.into_iter().for_each(|part| add(out, part.text.or(part.refusal)));
        }
        Some(b'{') => out.push_str(raw),
        _ => {}
    }
}

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow)]
    choices: Option<Vec<Choice<'a>>>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    index: Option<&'a RawValue>,
    #[serde(borrow)]
    delta: Option<Message<'a>>,
    #[serde(borrow)]
    message: Option<Message<'a>>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
}

impl Choice<'_> {
    /// Returns which choice it is: the first one if it has no index. No request asks for more than 255.
    fn number(&self) -> u8 {
        self.index.and_then(|index| index.get().parse().ok()).unwrap_or_default()
    }
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning_content: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<&'a RawValue>,
    #[serde(borrow)]
    function_call: Option<Function<'a>>,
}

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    function: Option<Function<'a>>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ContentPart<'a> {
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    refusal: Option<&'a RawValue>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_put_together() {
        let chat = r#"{"choices":[{"delta":{"content":"one "}}]}"#;
        for (payloads, text, other_channels, why) in [
            (vec![chat, r#"{"choices":[{"delta":{"content":"\"two\"\n"}}]}"#], "one \"two\"\n", "", "deltas"),
            (
                vec![
                    r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#,
                    chat,
                    r#"{"choices":[]}"#,
                    "[DONE]",
                    chat,
                ],
                "one ",
                "",
                "up to the end",
            ),
            (
                vec![r#"{"choices":[{"text":" a","finish_reason":null}]}"#, r#"{"choices":[{"text":"é"}]}"#],
                " aé",
                "",
                "text",
            ),
            (
                vec![
                    r#"{"choices":[{"delta":{"reasoning":"so","reasoning_content":"so","content":null}}]}"#,
                    chat,
                ],
                "one ",
                "so",
                "reasoning told twice",
            ),
            (
                vec![
                    r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":""}}]}}]}"#,
                    r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":1}"}}]}}]}"#,
                ],
                "",
                "f{\"a\":1}",
                "tool calls",
            ),
            (vec![r#"{"choices":[{"delta":{"content":[{"type":"text","text":"p"}]}}]}"#], "p", "", "parts"),
            (vec![": ping", "", r#"{"choices":null}"#, r#"{"usage":{}}"#, "no json"], "", "", "no text"),
        ] {
            let body: String = payloads.iter().map(|p| format!("data: {p}\n\n")).collect();
            let got = AnswerText::of_stream(body.as_bytes());
            assert_eq!((got.text.as_str(), got.other_channels.as_str()), (text, other_channels), "{why}");
        }
        let document = r#"{"choices":[{"message":{"content":"all","reasoning":"since"}}]}"#;
        let got = AnswerText::of_document(document.as_bytes());
        assert_eq!((got.text.as_str(), got.other_channels.as_str()), ("all", "since"));
    }

    #[test]
    fn choices_are_kept_apart() {
        let body = [
            r#"{"choices":[{"index":1,"delta":{"reasoning":"si"}},{"index":2,"delta":{"content":"th"}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"content":"first"}},{"index":2,"delta":{"content":"ird"}}]}"#,
            r#"{"choices":[{"index":1,"delta":{"reasoning":"nce"}}]}"#,
            r#"{"choices":[{"index":1,"delta":{"content":"second"}}]}"#,
        ];
        let body: String = body.iter().map(|payload| format!("data: {payload}\n\n")).collect();
        let (text, others) = AnswerText::of_stream(body.as_bytes()).into_texts();
        assert_eq!((&*text, others), ("first", ["second", "since", "third"].map(Box::from).to_vec()));
    }
}
