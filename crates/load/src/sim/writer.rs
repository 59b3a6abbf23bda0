//! Answers of the simulated server, written by inserting numbers and words between preformatted pieces.

use crate::sim::dialect::{Dialect, TextApi};
use crate::sim::request::StreamOptions;
use crate::sim::rules::Order;
use goodput_engine::blocks::token_of;
use goodput_engine::config::Reasoning;

/// Writer of one answer, event by event or as one document.
#[derive(Debug)]
pub(super) struct Writer {
    dialect: &'static Dialect,
    /// Number of its choice, in an API with choices.
    pub(super) index: u32,
    /// Number of choices of a document, all alike.
    pub(super) choices: u32,
    /// Fields common to all events, or those of the document (see [`Dialect::head`]).
    pub(super) head: String,
    pub(super) options: StreamOptions,
    pub(super) input_tokens: u32,
    /// Output tokens so far, hidden ones included.
    pub(super) output_tokens: u32,
    /// Prompt tokens found in the prefix cache; `None` without such a cache.
    pub(super) cached_tokens: Option<u32>,
    pub(super) thought: Thought,
    /// True once the opening events have been written.
    opened: bool,
    /// The blocks of the answer so far, in an API that has them, and of a document.
    pub(super) blocks: Vec<Block>,
    /// Number of events so far, in an API that numbers them.
    pub(super) sequence: u32,
}

/// The channel of tokens, in an API that has channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Channel {
    Reasoning,
    Content,
}

/// Successive tokens on one channel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    pub(super) channel: Channel,
    /// Number of the first token in the answer, counted from zero.
    pub(super) from: u32,
    /// Number of tokens.
    pub(super) tokens: u32,
}

/// The reasoning of one answer.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Thought {
    /// Number of reasoning tokens, which precede all others.
    pub(super) tokens: u32,
    /// True if they are not streamed.
    pub(super) hidden: bool,
    /// Number of reasoning tokens in the usage; `None` if the usage omits them.
    pub(super) reported: Option<u32>,
}

impl Thought {
    /// Returns the reasoning of an answer of `answer` tokens.
    pub(super) fn of(reasoning: Option<Reasoning>, answer: u32) -> Self {
        reasoning.map_or_else(Self::default, |r| {
            let tokens = r.tokens(answer);
            Self { tokens, hidden: r.hidden, reported: r.counted.then_some(tokens) }
        })
    }
}

const WORDS: [&str; 16] = [
    " the", " rate", " of", " a", " server", " is", " not", " what", " it", " can", " take", " but", " what",
    " its", " users", " feel",
];

/// Appends one word each for `n` tokens from token `from` on.
pub(super) fn words(out: &mut String, from: u32, n: u32) {
    for i in 0..n {
        out.push_str(WORDS[from.wrapping_add(i) as usize % WORDS.len()]);
    }
}

/// Returns the token ids of an answer, so that a prompt that quotes it has the same tokens.
pub(super) fn answer_tokens() -> impl Iterator<Item = u64> {
    WORDS.iter().map(|word| token_of(word.trim_start())).cycle()
}

impl Writer {
    /// Makes a writer; `head` is that of [`Dialect::head`].
    pub(super) fn new(api: TextApi, head: &str, input_tokens: u32, options: StreamOptions) -> Self {
        // As in vLLM, continuous usage requires `include_usage`.
        let continuous_usage_stats = options.include_usage && options.continuous_usage_stats;
        let options = StreamOptions { continuous_usage_stats, ..options };
        Self {
            dialect: Dialect::of(api),
            index: 0,
            choices: 1,
            head: head.to_owned(),
            options,
            input_tokens,
            output_tokens: 0,
            cached_tokens: None,
            thought: Thought::default(),
            opened: false,
            blocks: Vec::new(),
            sequence: 0,
        }
    }

    /// Sets the number of its choice.
    pub(super) fn numbered(self, index: u32) -> Self {
        Self { index, ..self }
    }

    /// Makes the answer begin with reasoning.
    pub(super) fn thinking(self, thought: Thought) -> Self {
        Self { thought, ..self }
    }

    /// Sets the number of prompt tokens found in the prefix cache; `None` without such a cache.
    pub(super) fn cached(&mut self, tokens: Option<u32>) {
        self.cached_tokens = tokens;
    }

    /// Appends the opening of the stream, once.
    pub(super) fn open(&mut self, out: &mut String) {
        if !std::mem::replace(&mut self.opened, true) {
            (self.dialect.open)(self, out);
        }
    }

    /// Appends an event of `tokens` tokens, preceded by the opening of the stream if it is the first. Hidden reasoning makes no event;
    /// tokens that are partly reasoning and partly content make two.
    pub(super) fn tokens(&mut self, out: &mut String, tokens: u32, finished: bool) {
        self.open(out);
        let thinking = self.thought.tokens.saturating_sub(self.output_tokens).min(tokens);
        let (hidden, content) = (thinking > 0 && self.thought.hidden, tokens - thinking);
        if hidden {
            self.output_tokens += thinking;
        } else if thinking > 0 {
            (self.dialect.delta)(self, out, thinking, finished && content == 0, Channel::Reasoning);
        }
        // An answer that ends in hidden reasoning ends with an event without text.
        if content > 0 || (hidden && finished) || tokens == 0 {
            (self.dialect.delta)(self, out, content, finished, Channel::Content);
        }
    }

    /// Appends the words of the next `tokens` tokens.
    pub(super) fn words(&mut self, out: &mut String, tokens: u32) {
        words(out, self.output_tokens, tokens);
        self.output_tokens += tokens;
        if let Some(block) = self.blocks.last_mut() {
            block.tokens += tokens;
        }
    }

    /// Returns true if tokens on this channel begin a block.
    pub(super) fn begins_block(&self, channel: Channel) -> bool {
        self.blocks.last().is_none_or(|block| block.channel != channel)
    }

    /// Begins a block at the next token.
    pub(super) fn begin_block(&mut self, channel: Channel) {
        self.blocks.push(Block { channel, from: self.output_tokens, tokens: 0 });
    }

    /// Counts tokens as sent that were written elsewhere.
    pub(super) fn skip(&mut self, tokens: u32) {
        self.output_tokens += tokens;
        self.opened |= tokens > 0;
    }

    /// Appends the end of the stream after the last token.
    pub(super) fn close(&mut self, out: &mut String) {
        (self.dialect.close)(self, out);
    }

    /// Formats an answer of `tokens` tokens as one document.
    fn document(mut self, tokens: u32) -> String {
        let reasoning = self.thought.tokens.min(tokens);
        let shown = if self.thought.hidden { 0 } else { reasoning };
        let blocks = [
            Block { channel: Channel::Reasoning, from: 0, tokens: shown },
            Block { channel: Channel::Content, from: reasoning, tokens: tokens - reasoning },
        ];
        self.blocks.extend(blocks.into_iter().filter(|block| block.tokens > 0));
        self.output_tokens = tokens;
        (self.dialect.document)(&self)
    }
}

/// Formats the document of a request that does not stream, with `output_tokens` in each choice. `head` is as for [`Writer::new`]; `cached_tokens` is `None`
/// without a prefix cache.
pub(super) fn document(
    order: &Order,
    head: &str,
    output_tokens: u32,
    cached_tokens: Option<u32>,
    thought: Thought,
) -> String {
    let mut writer = Writer::new(order.api, head, order.input, order.options).thinking(thought);
    writer.cached(cached_tokens);
    writer.choices = order.choices;
    writer.document(output_tokens)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::choice_writers::ChoiceWriters;
    use std::sync::Arc;

    /// The events of an answer of four tokens in events of one each, as delta, text and running count.
    fn events(api: TextApi, reasoning: &str) -> Vec<String> {
        let reasoning: Reasoning = toml::from_str(reasoning).unwrap();
        let options = StreamOptions { include_usage: true, continuous_usage_stats: true };
        let writer =
            || Writer::new(api, "\"id\":\"x\"", 7, options).thinking(Thought::of(Some(reasoning), 4));
        let mut writer = ChoiceWriters::new(1, writer);
        let mut out = String::new();
        (1..=4).for_each(|i| writer.event(&mut out, 0, 1, i == 4));
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
        assert_eq!(events(TextApi::Chat, "share = 0.5"), streamed);
        let hidden = ["role - 0 2", "content - 3 2", "content length 4 2", "- - 4 2"];
        assert_eq!(events(TextApi::Chat, "share = 0.5\nhidden = true"), hidden);
        let never = ["role - 0 null", "content length 4 null", "- - 4 null"];
        assert_eq!(events(TextApi::Chat, "share = 1\nhidden = true\ncounted = false"), never);
        assert_eq!(
            events(TextApi::Completions, "share = 0.5\nhidden = true").len(),
            3,
            "two tokens, and the usage"
        );
        let reasoning: Reasoning = toml::from_str("share = 0.5").unwrap();
        let order = Order {
            api: TextApi::Chat,
            stream: false,
            input: 7,
            output: 4,
            choices: 1,
            options: StreamOptions::default(),
            images: Arc::default(),
        };
        let document = document(&order, "\"id\":\"x\"", 4, None, Thought::of(Some(reasoning), 4));
        let document: serde_json::Value = serde_json::from_str(&document).unwrap();
        let message = &document["choices"][0]["message"];
        assert_eq!(
            (message["reasoning"].as_str(), message["content"].as_str()),
            (Some(" the rate"), Some(" of a"))
        );
        assert_eq!(document["usage"]["completion_tokens_details"]["reasoning_tokens"], 2);
    }

    #[test]
    fn usage_is_sent_as_asked() {
        let stream = |include_usage, continuous_usage_stats| {
            let options = StreamOptions { include_usage, continuous_usage_stats };
            let writer = || Writer::new(TextApi::Completions, "\"id\":\"cmpl-1\"", 7, options);
            let mut writer = ChoiceWriters::new(1, writer);
            let mut out = String::new();
            writer.event(&mut out, 0, 2, false);
            writer.event(&mut out, 0, 1, true);
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
