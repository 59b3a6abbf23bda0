//! The JSON of vLLM's API: parses requests with typed structs that retain a number for each word, and writes events by
//! inserting numbers and words between preformatted pieces.

use goodput_engine::blocks::token_of;
use goodput_engine::config::Reasoning;
use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use std::fmt::{self, Write};

/// The API of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Api {
    Chat,
    Completions,
}

impl Api {
    /// The field of the request that holds the prompt.
    pub(super) const fn field(self) -> &'static str {
        match self {
            Self::Chat => "messages",
            Self::Completions => "prompt",
        }
    }
}

/// The fields of a request that the simulated server uses; like vLLM, it ignores any other. `T` collects the tokens.
#[derive(Debug, Deserialize)]
#[serde(bound = "T: Default + Extend<u64>")]
pub(super) struct Ask<T = Vec<u64>> {
    pub(super) model: Option<String>,
    pub(super) messages: Option<Vec<Message<T>>>,
    pub(super) prompt: Option<Words<T>>,
    pub(super) stream: Option<bool>,
    pub(super) stream_options: Option<StreamOptions>,
    pub(super) max_tokens: Option<u32>,
    pub(super) max_completion_tokens: Option<u32>,
    pub(super) min_tokens: Option<u32>,
    pub(super) n: Option<u32>,
}

/// A message of a chat.
#[derive(Debug, Deserialize)]
#[serde(bound = "T: Default + Extend<u64>")]
pub(super) struct Message<T> {
    pub(super) content: Option<Words<T>>,
}

/// The stream options of a request.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(super) struct StreamOptions {
    #[serde(default)]
    pub(super) include_usage: bool,
    #[serde(default)]
    pub(super) continuous_usage_stats: bool,
}

/// A prompt, or the content of a message: a text; a list of texts, parts or token ids; or a list of such lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Words<T = Vec<u64>> {
    /// The tokens: words separated by white space, and token ids.
    pub(super) tokens: T,
    /// Number of texts and of id lists within a list.
    pub(super) texts: u32,
}

/// A number of tokens, whose values are discarded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counted(pub(super) usize);

impl Extend<u64> for Counted {
    fn extend<I: IntoIterator<Item = u64>>(&mut self, tokens: I) {
        self.0 += tokens.into_iter().count();
    }
}

impl<'de, T: Default + Extend<u64>> Deserialize<'de> for Words<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let mut words = Self::default();
        Gather(&mut words).deserialize(d)?;
        Ok(words)
    }
}

/// Deserializer that adds all texts and ids to `Words`.
struct Gather<'a, T>(&'a mut Words<T>);

impl<'de, T: Extend<u64>> DeserializeSeed<'de> for Gather<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de, T: Extend<u64>> Visitor<'de> for Gather<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, token ids, or a list of them")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<(), E> {
        self.0.tokens.extend(text.split_ascii_whitespace().map(token_of));
        self.0.texts = self.0.texts.saturating_add(1);
        Ok(())
    }

    fn visit_u64<E: de::Error>(self, token: u64) -> Result<(), E> {
        self.0.tokens.extend([token]);
        Ok(())
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let before = self.0.texts;
        while list.next_element_seed(Gather(self.0))?.is_some() {}
        self.0.texts = self.0.texts.max(before.saturating_add(1));
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut part: A) -> Result<(), A::Error> {
        while let Some(key) = part.next_key::<String>()? {
            if key == "text" {
                part.next_value_seed(Gather(self.0))?;
            } else {
                part.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// Writer of the events of one answer.
#[derive(Debug)]
pub(super) struct Writer {
    api: Api,
    /// The beginning of every event, up to its choices.
    head: String,
    options: StreamOptions,
    input_tokens: u32,
    output_tokens: u32,
    /// Prompt tokens found in the prefix cache; `None` without such a cache.
    cached_tokens: Option<u32>,
    thought: Thought,
    /// True once a chat's first event has been written.
    opened: bool,
}

/// The reasoning of one answer.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Thought {
    /// Number of reasoning tokens, which precede all others.
    tokens: u32,
    /// True if they are not streamed.
    hidden: bool,
    /// Number of reasoning tokens in the usage; `None` if the usage omits them.
    told: Option<u32>,
}

impl Thought {
    /// Returns the reasoning of an answer of `answer` tokens.
    pub(super) fn of(reasoning: Option<Reasoning>, answer: u32) -> Self {
        reasoning.map_or_else(Self::default, |r| {
            let tokens = r.tokens(answer);
            Self { tokens, hidden: r.hidden, told: r.counted.then_some(tokens) }
        })
    }

    /// Formats the reasoning details of the usage, if any.
    fn details(self) -> String {
        let details = |n| format!(r#","completion_tokens_details":{{"reasoning_tokens":{n}}}"#);
        self.told.map_or_else(String::new, details)
    }
}

const WORDS: [&str; 16] = [
    " the", " rate", " of", " a", " server", " is", " not", " what", " it", " can", " take", " but", " what",
    " its", " users", " feel",
];

const FINGERPRINT: &str = concat!("goodput-", env!("CARGO_PKG_VERSION"));

/// Appends one word each for `n` tokens from token `from` on.
fn words(out: &mut String, from: u32, n: u32) {
    for i in 0..n {
        out.push_str(WORDS[from.wrapping_add(i) as usize % WORDS.len()]);
    }
}

/// Returns the token ids of an answer, so that a prompt that quotes it has the same tokens.
pub(super) fn answer_tokens() -> impl Iterator<Item = u64> {
    WORDS.iter().map(|word| token_of(word.trim_start())).cycle()
}

impl Writer {
    /// Makes a writer. `head` is `"id":…,"object":…,"created":…,"model":…` of this answer.
    pub(super) fn new(api: Api, head: &str, input_tokens: u32, options: StreamOptions) -> Self {
        // As in vLLM, continuous usage requires `include_usage`.
        let continuous_usage_stats = options.include_usage && options.continuous_usage_stats;
        let options = StreamOptions { continuous_usage_stats, ..options };
        Self {
            api,
            head: format!("data: {{{head},\"choices\":["),
            options,
            input_tokens,
            output_tokens: 0,
            cached_tokens: None,
            thought: Thought::default(),
            opened: false,
        }
    }

    /// Makes the answer begin with reasoning.
    pub(super) fn thinking(self, thought: Thought) -> Self {
        Self { thought, ..self }
    }

    /// Sets the number of prompt tokens found in the prefix cache; `None` without such a cache.
    pub(super) fn cached(&mut self, tokens: Option<u32>) {
        self.cached_tokens = tokens;
    }

    /// Appends an event of `tokens` tokens, preceded by the opening of a chat if it is the first, and followed by the
    /// end of the stream if `finished`.
    pub(super) fn event(&mut self, out: &mut String, tokens: u32, finished: bool) {
        self.tokens(out, tokens, finished);
        if finished {
            self.close(out);
        }
    }

    /// Appends tokens like [`Writer::event`], but without the end of the stream. Hidden reasoning makes no event;
    /// tokens that are partly reasoning and partly content make two.
    pub(super) fn tokens(&mut self, out: &mut String, tokens: u32, finished: bool) {
        self.open(out);
        let thinking = self.thought.tokens.saturating_sub(self.output_tokens).min(tokens);
        let (hidden, content) = (thinking > 0 && self.thought.hidden, tokens - thinking);
        if hidden {
            self.output_tokens += thinking;
        } else if thinking > 0 {
            self.delta(out, thinking, finished && content == 0, "reasoning");
        }
        // An answer that ends in hidden reasoning ends with an event without text.
        if content > 0 || (hidden && finished) || tokens == 0 {
            self.delta(out, content, finished, "content");
        }
    }

    /// Appends the opening event of a chat, once.
    fn open(&mut self, out: &mut String) {
        if self.api == Api::Chat && !std::mem::replace(&mut self.opened, true) {
            out.push_str(&self.head);
            out.push_str(
                r#"{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]"#,
            );
            self.usage(out, self.options.continuous_usage_stats, None);
            out.push_str(",\"prompt_token_ids\":null,\"prompt_text\":null}\n\n");
        }
    }

    /// Appends an event of `tokens` tokens on a channel of a chat; completions has a single channel.
    fn delta(&mut self, out: &mut String, tokens: u32, finished: bool, channel: &str) {
        let chat = self.api == Api::Chat;
        out.push_str(&self.head);
        if chat {
            let _ = write!(out, r#"{{"index":0,"delta":{{"{channel}":""#);
        } else {
            out.push_str(r#"{"index":0,"text":""#);
        }
        words(out, self.output_tokens, tokens);
        self.output_tokens += tokens;
        out.push_str(match (chat, finished) {
            (true, false) => r#""},"logprobs":null,"finish_reason":null,"token_ids":null}]"#,
            (true, true) => {
                r#""},"logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null}]"#
            }
            (false, false) => {
                r#"","logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":null}]"#
            }
            (false, true) => {
                r#"","logprobs":null,"finish_reason":"length","stop_reason":null,"prompt_token_ids":null,"token_ids":null}]"#
            }
        });
        self.usage(out, self.options.continuous_usage_stats, None);
        out.push_str("}\n\n");
    }

    /// Counts tokens as sent that were written elsewhere.
    pub(super) fn skip(&mut self, tokens: u32) {
        self.output_tokens += tokens;
        self.opened |= tokens > 0;
    }

    /// Appends the end of the stream after the last token: usage, if requested, and `[DONE]`.
    pub(super) fn close(&self, out: &mut String) {
        if self.options.include_usage {
            out.push_str(&self.head);
            out.push(']');
            self.usage(out, true, self.cached_tokens);
            let _ = write!(out, ",\"system_fingerprint\":\"{FINGERPRINT}\"}}\n\n");
        }
        out.push_str("data: [DONE]\n\n");
    }

    fn usage(&self, out: &mut String, wanted: bool, cached_tokens: Option<u32>) {
        if wanted {
            let (input, output) = (self.input_tokens, self.output_tokens);
            let total = u64::from(input) + u64::from(output);
            let _ = write!(
                out,
                r#","usage":{{"prompt_tokens":{input},"total_tokens":{total},"completion_tokens":{output}"#
            );
            if let Some(cached) = cached_tokens {
                let _ = write!(out, r#","prompt_tokens_details":{{"cached_tokens":{cached}}}"#);
            }
            out.push_str(&self.thought.details());
            out.push('}');
        }
    }
}

/// Formats the beginning of an answer or of its events. `created` is a Unix time in seconds, `model` a JSON string.
pub(super) fn head(api: Api, id: u64, stream: bool, created: u64, model: &str) -> String {
    let (prefix, object) = match (api, stream) {
        (Api::Chat, true) => ("chatcmpl", "chat.completion.chunk"),
        (Api::Chat, false) => ("chatcmpl", "chat.completion"),
        (Api::Completions, _) => ("cmpl", "text_completion"),
    };
    format!(r#""id":"{prefix}-{id:016x}","object":"{object}","created":{created},"model":{model}"#)
}

/// Formats the list of models, with a single entry; `model` is a JSON string.
pub(super) fn models(model: &str, created: u64, max_model_len: u32) -> String {
    format!(
        r#"{{"object":"list","data":[{{"id":{model},"object":"model","created":{created},"owned_by":"goodput","root":{model},"parent":null,"max_model_len":{max_model_len},"permission":[]}}]}}"#
    )
}

/// Formats a text as a JSON string.
pub(super) fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Formats the document of a request that does not stream. `head` is as for [`Writer::new`]; `cached_tokens` is `None`
/// without a prefix cache.
pub(super) fn whole(
    api: Api,
    head: &str,
    input_tokens: u32,
    output_tokens: u32,
    cached_tokens: Option<u32>,
    thought: Thought,
) -> String {
    let thinking = thought.tokens.min(output_tokens);
    let mut out = format!("{{{head},\"choices\":[{{\"index\":0,");
    out.push_str(match api {
        Api::Chat => r#""message":{"role":"assistant","content":""#,
        Api::Completions => r#""text":""#,
    });
    // Completions has one channel for both.
    let one = api == Api::Completions && !thought.hidden;
    let from = if one { 0 } else { thinking };
    words(&mut out, from, output_tokens - from);
    out.push('"');
    if api == Api::Chat {
        out.push_str(r#","refusal":null,"reasoning":"#);
        if thinking > 0 && !thought.hidden {
            out.push('"');
            words(&mut out, 0, thinking);
            out.push_str("\"}");
        } else {
            out.push_str("null}");
        }
    }
    let total = u64::from(input_tokens) + u64::from(output_tokens);
    let details = cached_tokens.map_or("null".into(), |n| format!(r#"{{"cached_tokens":{n}}}"#));
    let _ = write!(
        out,
        concat!(
            r#","logprobs":null,"finish_reason":"length","stop_reason":null}}],"system_fingerprint":"{}","#,
            r#""usage":{{"prompt_tokens":{},"total_tokens":{},"completion_tokens":{},"prompt_tokens_details":{}{}}}}}"#
        ),
        FINGERPRINT,
        input_tokens,
        total,
        output_tokens,
        details,
        thought.details()
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_counted() {
        for (json, tokens, texts) in [
            (r#""one two\n three""#, 3, 1),
            (r#""""#, 0, 1),
            ("[1, 22, 333]", 3, 1),
            (r#"["one two", "three"]"#, 3, 2),
            ("[[1, 2], [3]]", 3, 2),
            (
                r#"[{"type": "text", "text": "one two"}, {"type": "image_url", "image_url": {"url": "x y"}}]"#,
                2,
                1,
            ),
            ("[]", 0, 1),
        ] {
            let words: Words = serde_json::from_str(json).unwrap();
            assert_eq!((words.tokens.len(), words.texts), (tokens, texts), "{json}");
        }
        for json in ["true", "[-1]", r#"{"text": 1.5}"#] {
            assert!(serde_json::from_str::<Words>(json).is_err(), "{json}");
        }
    }

    /// The events of an answer of four tokens in events of one each, as delta, text and running count.
    fn events(api: Api, reasoning: &str) -> Vec<String> {
        let reasoning: Reasoning = toml::from_str(reasoning).unwrap();
        let options = StreamOptions { include_usage: true, continuous_usage_stats: true };
        let mut writer =
            Writer::new(api, "\"id\":\"x\"", 7, options).thinking(Thought::of(Some(reasoning), 4));
        let mut out = String::new();
        (1..=4).for_each(|i| writer.event(&mut out, 1, i == 4));
        let payloads = out.split("\n\n").filter_map(|e| e.strip_prefix("data: ")).filter(|e| *e != "[DONE]");
        let events = payloads.map(|e| serde_json::from_str::<serde_json::Value>(e).unwrap());
        let said = |e: serde_json::Value| {
            let (choice, usage) = (&e["choices"][0], &e["usage"]);
            let delta =
                choice["delta"].as_object().map(|d| d.keys().next_back().cloned().unwrap_or_default());
            let finish = choice["finish_reason"].as_str().unwrap_or("-");
            let reasoning = &usage["completion_tokens_details"]["reasoning_tokens"];
            format!(
                "{} {finish} {} {reasoning}",
                delta.unwrap_or_else(|| "-".into()),
                usage["completion_tokens"]
            )
        };
        events.map(said).collect()
    }

    #[test]
    fn reasoning_comes_first_or_not_at_all() {
        let streamed = [
            "role - 0 2",
            "reasoning - 1 2",
            "reasoning - 2 2",
            "content - 3 2",
            "content length 4 2",
            "- - 4 2",
        ];
        assert_eq!(events(Api::Chat, "share = 0.5"), streamed);
        let hidden = ["role - 0 2", "content - 3 2", "content length 4 2", "- - 4 2"];
        assert_eq!(events(Api::Chat, "share = 0.5\nhidden = true"), hidden);
        let never = ["role - 0 null", "content length 4 null", "- - 4 null"];
        assert_eq!(events(Api::Chat, "share = 1\nhidden = true\ncounted = false"), never);
        assert_eq!(
            events(Api::Completions, "share = 0.5\nhidden = true").len(),
            3,
            "two tokens, and the usage"
        );
        let reasoning: Reasoning = toml::from_str("share = 0.5").unwrap();
        let whole = whole(Api::Chat, "\"id\":\"x\"", 7, 4, None, Thought::of(Some(reasoning), 4));
        let whole: serde_json::Value = serde_json::from_str(&whole).unwrap();
        let message = &whole["choices"][0]["message"];
        assert_eq!(
            (message["reasoning"].as_str(), message["content"].as_str()),
            (Some(" the rate"), Some(" of a"))
        );
        assert_eq!(whole["usage"]["completion_tokens_details"]["reasoning_tokens"], 2);
    }

    #[test]
    fn usage_is_sent_as_asked() {
        let stream = |include_usage, continuous_usage_stats| {
            let options = StreamOptions { include_usage, continuous_usage_stats };
            let mut writer = Writer::new(Api::Completions, "\"id\":\"cmpl-1\"", 7, options);
            let mut out = String::new();
            writer.event(&mut out, 2, false);
            writer.event(&mut out, 1, true);
            out
        };
        assert_eq!(stream(false, true).matches("usage").count(), 0, "continuous alone is nothing");
        assert_eq!(stream(true, false).matches("\"usage\"").count(), 1);
        let all = stream(true, true).replace(env!("CARGO_PKG_VERSION"), "VERSION");
        insta::assert_snapshot!(all, @r#"
        data: {"id":"cmpl-1","choices":[{"index":0,"text":" the rate","logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":null}],"usage":{"prompt_tokens":7,"total_tokens":9,"completion_tokens":2}}

        data: {"id":"cmpl-1","choices":[{"index":0,"text":" of","logprobs":null,"finish_reason":"length","stop_reason":null,"prompt_token_ids":null,"token_ids":null}],"usage":{"prompt_tokens":7,"total_tokens":10,"completion_tokens":3}}

        data: {"id":"cmpl-1","choices":[],"usage":{"prompt_tokens":7,"total_tokens":10,"completion_tokens":3},"system_fingerprint":"goodput-VERSION"}

        data: [DONE]
        "#);
    }
}
