//! Logs of requests with their text. Times and lengths are kept; the text is counted, hashed on request, and dropped.

use super::format::Layout;
use super::json::{bad_json, text};
use super::row::{BadRow, Item, UncheckedRow, session, tokens};
use super::time;
use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use std::borrow::Cow;

/// Assumed characters per token where the log has no count.
const CHARS_PER_TOKEN: usize = 4;

/// Salted hashing of prompts into block ids, which identify shared prefixes without revealing text.
#[derive(Clone)]
pub struct Hashing {
    block_tokens: u32,
    salt: Vec<u8>,
}

impl Hashing {
    /// Creates a hashing of blocks of `block_tokens` tokens. Without the salt nobody can test guessed texts against the
    /// ids.
    pub fn new(block_tokens: u32, salt: &[u8]) -> Self {
        Self { block_tokens: block_tokens.max(1), salt: salt.to_vec() }
    }

    /// Returns the tokens per block.
    pub fn block_tokens(&self) -> u32 {
        self.block_tokens
    }

    /// Returns the block ids of a text. Each id covers the text up to the end of its block.
    fn blocks(&self, prompt: &str) -> Vec<u64> {
        let length = self.block_tokens as usize * CHARS_PER_TOKEN;
        let (mut ids, mut before, mut rest) = (Vec::new(), 0, prompt);
        while !rest.is_empty() {
            let end = rest.char_indices().nth(length).map_or(rest.len(), |(i, _)| i);
            let (block, tail) = rest.split_at(end);
            before = self.mix(before, block.as_bytes());
            ids.push(before);
            rest = tail;
        }
        ids
    }

    /// Returns the salted replacement of a recorded id, which may itself be a hash that guessed texts can be tested
    /// against.
    pub(super) fn salted(&self, id: u64) -> u64 {
        self.mix(id, b"")
    }

    /// Returns 63 bits, so that every reader of JSON integers can represent the id.
    fn mix(&self, before: u64, block: &[u8]) -> u64 {
        let mut hash = Sha256::new();
        hash.update((self.salt.len() as u64).to_le_bytes());
        hash.update(&self.salt);
        hash.update(before.to_le_bytes());
        hash.update(block);
        let mut first = [0; 8];
        first.copy_from_slice(&hash.finalize()[..8]);
        u64::from_le_bytes(first) >> 1
    }
}

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    timestamp: Option<&'a RawValue>,
    #[serde(borrow)]
    time: Option<&'a RawValue>,
    #[serde(borrow)]
    created: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt: Option<&'a RawValue>,
    #[serde(borrow)]
    messages: Option<&'a RawValue>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
    #[serde(borrow)]
    completion: Option<&'a RawValue>,
    #[serde(borrow)]
    choices: Option<&'a RawValue>,
    #[serde(borrow)]
    session_id: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
struct Usage<'a> {
    #[serde(borrow)]
    prompt_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    completion_tokens: Option<&'a RawValue>,
}

/// A response in the format of the OpenAI API.
#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    choices: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow)]
    message: Option<Message<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    role: Option<Cow<'a, str>>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<&'a RawValue>,
}

/// A call of a tool, of which the model reads or writes the name and the arguments.
#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    function: Option<Function<'a>>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    arguments: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct ContentPart<'a> {
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
}

/// Parses one line of the log.
pub(super) fn request(line: &[u8], number: u64, layout: &Layout, hashing: Option<&Hashing>) -> Item {
    let read: Request<'_> = match serde_json::from_slice(line) {
        Ok(read) => read,
        Err(e) => return bad_json(&e, number),
    };
    match parse(&read, layout, hashing) {
        Ok(row) => Item::Row(row),
        Err((field, reason)) => Item::Bad(BadRow { line: number, field: field.into(), reason }),
    }
}

/// Field and reason of an error.
type FieldError = (&'static str, String);

fn parse(r: &Request<'_>, layout: &Layout, hashing: Option<&Hashing>) -> Result<UncheckedRow, FieldError> {
    let at = r.timestamp.or(r.time).or(r.created).and_then(text);
    let at = at.ok_or(("timestamp", "is missing, and so are time and created".to_owned()))?;
    let at = time::parse(&at, layout.unit).map_err(|e| ("timestamp", e))?;
    let answer: Option<Answer<'_>> = r.response.and_then(|a| serde_json::from_str(a.get()).ok());
    let usage = r.usage.or(answer.as_ref().and_then(|a| a.usage)).map(RawValue::get).unwrap_or("{}");
    let usage: Usage<'_> = match usage {
        "null" => Usage::default(),
        text => serde_json::from_str(text).map_err(|_| ("usage", "is not an object".to_owned()))?,
    };
    let counted = |value: Option<&RawValue>, field: &'static str| {
        let value =
            value.and_then(text).map(|t| tokens(&t).map_err(|_| (field, "is not a number".to_owned())));
        Ok::<_, FieldError>(value.transpose()?.filter(|n| *n > 0))
    };
    let input = counted(usage.prompt_tokens, "usage.prompt_tokens")?;
    let output = counted(usage.completion_tokens, "usage.completion_tokens")?;
    let mut estimated = false;
    let mut prompt = CollectedText::default();
    if input.is_none() || hashing.is_some() {
        prompt = prompt_text(r)?;
    }
    let input = input.map_or_else(|| prompt.tokens(&mut estimated), Ok).map_err(|e| ("prompt", e))?;
    let output = match output {
        Some(n) => Some(n),
        None => {
            let mut answered = CollectedText::default();
            let choices = r.choices.or(answer.as_ref().and_then(|a| a.choices));
            choices.iter().for_each(|c| answered.add_choices(c));
            r.completion.iter().for_each(|t| answered.add_value(t));
            r.response.filter(|t| t.get().starts_with('"')).iter().for_each(|t| answered.add_value(t));
            if answered.is_empty() {
                None
            } else {
                Some(answered.tokens(&mut estimated).map_err(|e| ("response", e))?)
            }
        }
    };
    let mut blocks = hashing.map(|h| h.blocks(&prompt.text)).unwrap_or_default();
    // Blocks are counted by characters, the prompt in tokens: drop blocks beyond its length.
    blocks.truncate(hashing.map_or(0, |h| input.div_ceil(h.block_tokens) as usize));
    let session = r.session_id.and_then(text).map(|t| session(&t));
    Ok(UncheckedRow { at, input, output, blocks, session, estimated, ..UncheckedRow::default() })
}

fn prompt_text(r: &Request<'_>) -> Result<CollectedText, FieldError> {
    let mut prompt = CollectedText::default();
    match (r.messages, r.prompt) {
        (Some(messages), _) => {
            let all: Vec<Message<'_>> = serde_json::from_str(messages.get())
                .map_err(|_| ("messages", "is not a list of messages with role and content".to_owned()))?;
            all.iter().for_each(|m| prompt.add_message(m));
        }
        (None, Some(text)) => prompt.add_value(text),
        (None, None) => return Err(("prompt", "is missing, and so is messages".into())),
    }
    Ok(prompt)
}

/// Text or token ids of a prompt or an answer.
#[derive(Default)]
struct CollectedText {
    text: String,
    /// Characters in `text` that mark structure or stand for token ids, and do not count for its length.
    markers: usize,
    token_ids: usize,
}

impl CollectedText {
    fn is_empty(&self) -> bool {
        self.text.chars().count() == self.markers && self.token_ids == 0
    }

    /// Adds a string, a list of strings, a list of token ids, or a list of message parts.
    fn add_value(&mut self, raw: &RawValue) {
        let json = raw.get();
        if json.starts_with('"') {
            self.text.push_str(&text(raw).unwrap_or_default());
        } else if let Ok(ids) = serde_json::from_str::<Vec<u32>>(json) {
            self.token_ids += ids.len();
            // Hashed like text, so that equal ids share blocks; four digits are about as long as a token.
            for id in ids {
                let digits = format!("{id:04x}");
                self.text.push_str(&digits);
                self.markers += digits.len();
            }
        } else if let Ok(texts) = serde_json::from_str::<Vec<Cow<'_, str>>>(json) {
            texts.iter().for_each(|t| self.text.push_str(t));
        } else if let Ok(parts) = serde_json::from_str::<Vec<ContentPart<'_>>>(json) {
            parts.iter().filter_map(|p| p.text.as_deref()).for_each(|t| self.text.push_str(t));
        }
    }

    fn add_message(&mut self, m: &Message<'_>) {
        for marker in [m.role.as_deref().unwrap_or_default(), "\u{1}"] {
            self.text.push_str(marker);
            self.markers += marker.chars().count();
        }
        m.content.iter().for_each(|c| self.add_value(c));
        m.tool_calls.iter().for_each(|c| self.add_calls(c));
        self.text.push('\u{2}');
        self.markers += 1;
    }

    fn add_calls(&mut self, raw: &RawValue) {
        let calls: Vec<Call<'_>> = serde_json::from_str(raw.get()).unwrap_or_default();
        for function in calls.into_iter().filter_map(|call| call.function) {
            [function.name, function.arguments].iter().flatten().for_each(|t| self.text.push_str(t));
        }
    }

    fn add_choices(&mut self, raw: &RawValue) {
        for choice in serde_json::from_str::<Vec<Choice<'_>>>(raw.get()).unwrap_or_default() {
            choice.text.iter().for_each(|t| self.text.push_str(t));
            if let Some(message) = choice.message {
                message.content.iter().for_each(|c| self.add_value(c));
                message.tool_calls.iter().for_each(|c| self.add_calls(c));
            }
        }
    }

    /// Returns the number of token ids plus an estimate for the text; sets `estimated` if there is text.
    fn tokens(&self, estimated: &mut bool) -> Result<u32, String> {
        let chars = self.text.chars().count().saturating_sub(self.markers);
        *estimated |= chars > 0;
        let n = (self.token_ids + chars.div_ceil(CHARS_PER_TOKEN)).max(1);
        u32::try_from(n).map_err(|_| "is too long".into())
    }
}

#[cfg(test)]
mod tests {
    use super::super::format::Format;
    use super::super::source::Unit;
    use super::*;

    fn read(line: &str, hashing: Option<&Hashing>) -> Item {
        let layout = Layout {
            format: Format::Requests,
            names: Default::default(),
            named: false,
            unit: Unit::S,
            block_tokens: 2,
            delimiter: b',',
        };
        request(line.as_bytes(), 3, &layout, hashing)
    }

    /// Cases: a line of a log, tokens of prompt and answer, and if they were estimated.
    #[test]
    fn lengths_are_taken_from_usage_or_estimated() {
        for (line, input, output, estimated) in [
            (
                r#"{"time":1,"prompt":"hello","usage":{"prompt_tokens":7,"completion_tokens":9}}"#,
                7,
                Some(9),
                false,
            ),
            (r#"{"created":1,"prompt":"12345678","completion":"12345"}"#, 2, Some(2), true),
            (
                r#"{"timestamp":1,"messages":[{"role":"user","content":"1234"}],"response":"1"}"#,
                1,
                Some(1),
                true,
            ),
            (
                r#"{"timestamp":"2026-01-02T03:04:05Z","messages":[{"role":"user","content":[{"type":"text","text":"12345"}]}],
                   "response":{"usage":{"prompt_tokens":20,"completion_tokens":5},"choices":[{"message":{"content":"x"}}]}}"#,
                20,
                Some(5),
                false,
            ),
            (r#"{"time":1,"prompt":[5,6,7],"choices":[{"text":"12345678"}]}"#, 3, Some(2), true),
            // Calls of tools: names and arguments.
            (
                r#"{"time":1,"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"a","function":{"name":"find","arguments":"{\"x\": 1}"}}]},
                   {"role":"tool","content":"1234"}],"response":{"choices":[{"message":{"content":null,"tool_calls":[{"function":{"name":"f","arguments":"{\"y\":22}"}}]}}]}}"#,
                4,
                Some(3),
                true,
            ),
            (r#"{"time":1,"prompt":"abcd","usage":null}"#, 1, None, true),
            (r#"{"time":1,"prompt":"","response":null}"#, 1, None, false),
        ] {
            let Item::Row(row) = read(line, None) else { panic!("{line}: {:?}", read(line, None)) };
            assert_eq!((row.input, row.output, row.estimated), (input, output, estimated), "{line}");
            assert!(row.blocks.is_empty());
        }
    }

    #[test]
    fn errors_do_not_quote_the_text() {
        for (line, field, message) in [
            (r#"{"prompt":"secret"}"#, "timestamp", "missing"),
            (r#"{"time":1}"#, "prompt", "missing"),
            (r#"{"time":1,"messages":"secret"}"#, "messages", "not a list"),
            (
                r#"{"time":1,"prompt":"secret","usage":{"prompt_tokens":"secret"}}"#,
                "usage.prompt_tokens",
                "number",
            ),
            (r#"{"time":1,"prompt":"secret"#, "", "column"),
            (r#""secret""#, "", "column"),
        ] {
            let Item::Bad(bad) = read(line, None) else { panic!("{line}") };
            assert!(bad.field == field && bad.reason.contains(message) && bad.line == 3, "{line}: {bad}");
            assert!(!bad.to_string().contains("secret"), "{bad}");
        }
    }

    #[test]
    fn block_ids_identify_prefixes() {
        let hashing = Hashing::new(2, b"salt");
        let blocks = |prompt: &str, hashing: &Hashing| {
            let line = format!(r#"{{"time":1,"prompt":"{prompt}"}}"#);
            let Item::Row(row) = read(&line, Some(hashing)) else { panic!("{prompt}") };
            row.blocks
        };
        let (a, b) = (blocks("12345678abcdefghX", &hashing), blocks("12345678abcdefghYZ", &hashing));
        assert_eq!((a.len(), b.len()), (3, 3), "17 and 18 characters in blocks of 8");
        assert_eq!(a[..2], b[..2]);
        assert_ne!(a[2], b[2]);
        assert_ne!(blocks("x2345678abcdefgh", &hashing)[1], a[1], "an id covers all text before it");
        assert_ne!(blocks("12345678", &Hashing::new(2, b"pepper"))[0], a[0]);
        assert!(a.iter().all(|id| *id < 1 << 63));
    }
}
