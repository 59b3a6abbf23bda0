//! Reads the events of one stream. Most of them differ from an earlier one in nothing but their text, and those are not parsed again.
//!
//! The place of the text is found by trial: the one string that, made longer by a byte, makes the text of the parsed event longer by a byte and
//! changes nothing else. Whatever valid string stands there, the JSON around it means the same, so that only the length has to be read. Any
//! event that does not match byte for byte is parsed.

use super::{Event, Parsed};
use crate::client::sse::Item;
use memchr::{memchr_iter, memchr2};

/// Number of events of a stream whose text is looked for: one for each channel, and one in reserve. A stream whose events differ in more than
/// their text costs no more than these.
const TRIES: u8 = 3;
/// Number of strings of an event that are tried.
const STRINGS: usize = 3;
/// Largest size of an event whose text is looked for, in bytes.
const LARGEST: usize = 4 << 10;

/// A reader of the events of one stream.
#[derive(Debug, Default)]
pub struct EventReader {
    known: Option<Box<Frame>>,
    tries: u8,
}

/// An event around its text.
#[derive(Debug)]
struct Frame {
    /// The JSON up to the text, with its opening quotation mark.
    before: Box<[u8]>,
    /// The JSON after it, from the closing one.
    after: Box<[u8]>,
    /// The event without its text.
    event: Event,
}

impl EventReader {
    /// Makes a reader that parses every event, for a stream that has an end which may look like an event with text.
    pub fn parsing_all() -> Self {
        Self { known: None, tries: TRIES }
    }

    /// Returns what `parse` returns for this event. `parse` has to be the same function for all events of a stream, to which texts of the same
    /// length are the same.
    pub fn read(&mut self, item: Item<'_>, parse: impl Fn(Item<'_>) -> Parsed) -> Parsed {
        if item.error {
            return parse(item);
        }
        if let Some(event) = self.known.as_ref().and_then(|frame| frame.with_text_of(item.data)) {
            return Parsed::Event(event);
        }
        let parsed = parse(item);
        if let Parsed::Event(event) = &parsed
            && event.text_bytes > 0
            && event.finish_reason.is_none()
            && event.error.is_none()
            && self.tries < TRIES
        {
            self.tries += 1;
            self.known = Frame::around_text(item.data, event, parse).map(Box::new);
        }
        parsed
    }
}

impl Frame {
    /// Finds the text of an event.
    fn around_text(data: &[u8], event: &Event, parse: impl Fn(Item<'_>) -> Parsed) -> Option<Self> {
        let length = usize::try_from(event.text_bytes).ok().filter(|_| data.len() <= LARGEST)?;
        let longer = Parsed::Event(Event { text_bytes: event.text_bytes + 1, ..event.clone() });
        let is_text = |start: &usize| {
            let data = [&data[..*start], b"x", &data[*start..]].concat();
            parse(Item { data: &data, error: false }) == longer
        };
        let starts = memchr_iter(b'"', data).map(|quote| quote + 1);
        // The name of a member is followed by a colon.
        let is_value = |end: usize| data.get(end + 1).is_some_and(|next| *next != b':');
        let mut strings =
            starts.filter(|&start| is_value(start + length) && string_length(&data[start..]) == Some(length));
        let start = strings.by_ref().take(STRINGS).find(is_text)?;
        Some(Self {
            before: data[..start].into(),
            after: data[start + length..].into(),
            event: Event { text_bytes: 0, ..event.clone() },
        })
    }

    /// Returns the event of a payload that differs in nothing but its text.
    fn with_text_of(&self, data: &[u8]) -> Option<Event> {
        let text = data.strip_prefix(&*self.before)?.strip_suffix(&*self.after)?;
        let text_bytes = text.len() as u64;
        // The string ends where the text does: its closing quotation mark is the first byte after it.
        let is_string = !text.is_empty() && string_length(&data[self.before.len()..]) == Some(text.len());
        is_string.then(|| Event { text_bytes, ..self.event.clone() })
    }
}

/// Returns the length in bytes of a JSON string that begins after its opening quotation mark; `None` if it is not valid or has no end.
fn string_length(json: &[u8]) -> Option<usize> {
    let mut end = 0;
    loop {
        end += memchr2(b'"', b'\\', json.get(end..)?)?;
        if json[end] == b'"' {
            break;
        }
        end += match json.get(end + 1)? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => 2,
            b'u' if json.get(end + 2..end + 6)?.iter().all(u8::is_ascii_hexdigit) => 6,
            _ => return None,
        };
    }
    let text = str::from_utf8(&json[..end]).ok()?;
    text.bytes().all(|byte| byte >= b' ').then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{TemplateReader, parse_event};
    use goodput_core::endpoint::Api;
    use proptest::prelude::*;
    use std::cell::Cell;

    fn item(data: &str) -> Item<'_> {
        Item { data: data.as_bytes(), error: false }
    }

    fn chat(delta: &str) -> String {
        format!(
            r#"{{"id":"tokens","choices":[{{"index":0,"delta":{{{delta}}},"finish_reason":null}}],"object":"tokens"}}"#
        )
    }

    /// Reads payloads, and returns how many of them the parser saw, trials not counted.
    fn parsed(api: Api, payloads: &[String]) -> usize {
        let (mut reader, seen) = (EventReader::default(), Cell::new(0));
        for payload in payloads {
            let read = reader.read(item(payload), |i| {
                seen.set(seen.get() + usize::from(i.data == payload.as_bytes()));
                parse_event(api, i)
            });
            assert_eq!(read, parse_event(api, item(payload)), "{payload}");
        }
        seen.get()
    }

    /// Rows: an API, and what its events have around their texts.
    #[test]
    fn events_that_differ_in_their_text_are_parsed_once() {
        let around = [
            (Api::Chat, chat(r#""content":"TEXT""#)),
            (Api::Chat, chat(r#""reasoning_content":"TEXT","content":null"#)),
            (Api::Chat, chat(r#""tool_calls":[{"index":0,"function":{"arguments":"TEXT"}}]"#)),
            (Api::Completions, r#"{"id":"x","choices":[{"text": "TEXT"}]}"#.into()),
            (
                Api::Messages,
                r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"TEXT"}}"#.into(),
            ),
            (Api::Responses, r#"{"type":"response.output_text.delta","delta":"TEXT"}"#.into()),
        ];
        let texts = ["tokens", "é…😀", "a", r#"\"\\\n\/\b\f\r\t"#, r"\u00e9\ud83d", "content", " "];
        for (api, around) in around {
            let payloads: Vec<String> = texts.iter().map(|text| around.replace("TEXT", text)).collect();
            assert_eq!(parsed(api, &payloads), 1, "{around}");
        }
    }

    /// Rows: events after one with text, each of which is parsed.
    #[test]
    fn any_other_event_is_parsed() {
        let text = |text: &str| chat(&format!(r#""content":"{text}""#));
        for other in [
            text(""),
            text(r"\x"),
            text(r"\u12g4"),
            text("\u{1}"),
            text(r#"","refusal":"no"#),
            text(r#"a","content":"b"#),
            text(r#"a"},"finish_reason":"stop","x":{"y":"z"#),
            chat(r#""content":null"#),
            text("a").replace("null", "\"stop\""),
            format!("{} ", text("a")),
            text("a").replace("index\":0", "index\":1"),
            text("a").replace("\"object", "\"error\":\"boom\",\"object"),
            "[DONE]".into(),
            String::new(),
        ] {
            assert_eq!(parsed(Api::Chat, &[text("tokens"), text("more"), other.clone()]), 2, "{other}");
        }
        let mut reader = EventReader::default();
        let parse = |i: Item<'_>| parse_event(Api::Chat, i);
        reader.read(item(&text("a")), parse);
        let error = text("b");
        let error = Item { error: true, ..item(&error) };
        assert_eq!(reader.read(error, parse), parse(error), "an error by name");
    }

    /// Neither a changing count nor a changing number is ever part of the frame, and the tries end.
    #[test]
    fn events_that_differ_in_more_are_tried_a_few_times() {
        let payloads: Vec<String> = (0..50).map(|n| chat(&format!(r#""n":{n},"content":"a""#))).collect();
        let (mut reader, calls) = (EventReader::default(), Cell::new(0));
        for payload in &payloads {
            reader.read(item(payload), |i| {
                calls.set(calls.get() + 1);
                parse_event(Api::Chat, i)
            });
        }
        assert!(calls.get() <= 50 + usize::from(TRIES) * STRINGS, "{}", calls.get());
    }

    #[test]
    fn events_of_a_template_are_read_alike() {
        let table = "path = \"/x\"\ntext = \"$.text\"\nfinish = \"$.end\"\ntokens = \"$.n\"\nbody = '{\"p\": \"{{prompt}}\"}'\n";
        let template = toml::from_str(table).unwrap();
        let template = TemplateReader::new(&template);
        let mut reader = EventReader::default();
        for payload in [
            r#"{"text":"a","n":3}"#,
            r#"{"text":"bc","n":3}"#,
            r#"{"text":"bc","n":4}"#,
            r#"{"text":"d","end":"x"}"#,
        ] {
            assert_eq!(
                reader.read(item(payload), |i| template.event(i)),
                template.event(item(payload)),
                "{payload}"
            );
        }
    }

    /// The end of a stream may look like an event with text. Rows: the place of the text, and the events before the end and the end.
    #[test]
    fn the_end_of_a_template_is_no_text() {
        for (text, payloads) in [
            ("$.text", [r#"{"text":"a"}"#, r#"{"text":"bc"}"#, r#"{"text":"END"}"#]),
            ("$", [r#""a""#, r#""bc""#, r#""END""#]),
        ] {
            let end = payloads[2];
            let table = format!(
                "path = \"/x\"\ntext = \"{text}\"\ndone = '{end}'\nbody = '{{\"p\": \"{{{{prompt}}}}\"}}'\n"
            );
            let template = TemplateReader::new(&toml::from_str(&table).unwrap());
            let mut reader = template.event_reader();
            for payload in payloads {
                let read = reader.read(item(payload), |i| template.event(i));
                assert_eq!(read, template.event(item(payload)), "{payload}");
                assert_eq!(read == Parsed::Done, payload == end);
            }
        }
    }

    const PIECES: [&str; 14] = [
        "a",
        "é",
        "\\n",
        "\\u00e9",
        "\\u00",
        "\\",
        "\"",
        "\u{1}",
        "content",
        "\",\"refusal\":\"",
        "\"}",
        "{",
        "tokens",
        "xx",
    ];

    proptest! {
        /// Whatever stands in the place of a text, and whatever it was learned from: the reader returns what the parser does.
        #[test]
        fn the_reader_agrees_with_the_parser(
            texts in prop::collection::vec(prop::collection::vec(0..PIECES.len(), 0..4), 1..8),
            deltas in prop::collection::vec(0..4_usize, 8),
        ) {
            let mut reader = EventReader::default();
            for (text, delta) in texts.iter().zip(deltas) {
                let text: String = text.iter().map(|&piece| PIECES[piece]).collect();
                let payload = chat(&match delta {
                    0 | 1 => format!(r#""content":"{text}""#),
                    2 => format!(r#""reasoning":"{text}","content":"{text}""#),
                    _ => format!(r#""tool_calls":[{{"function":{{"name":"{text}","arguments":"a"}}}}]"#),
                });
                let parse = |i: Item<'_>| parse_event(Api::Chat, i);
                prop_assert_eq!(reader.read(item(&payload), parse), parse(item(&payload)), "{}", payload);
            }
        }
    }
}
