//! Request bodies, built a little ahead of their due times, but never all before the step.

use crate::client::encoder::Encoder;
use crate::client::payload::Payload;
use bytes::Bytes;
use goodput_core::message::{Message, Role, begins_with_calls};
use goodput_core::tokens::Tokenizer;
use goodput_workload::chain::Chain;
use goodput_workload::draw::Chains;
use goodput_workload::prompts::{Prompt, Prompter};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tokio::sync::mpsc;

/// Number of seconds of load for which bodies are built ahead …
const AHEAD_S: f64 = 2.0;
/// … limited to this many bytes …
const AHEAD_BYTES: usize = 64 << 20;
/// … but at least this number of chains.
const AHEAD_LEAST: usize = 16;
/// Number of batches that wait in the channel.
const BATCHES: usize = 4;

/// A chain with its first request body.
#[derive(Debug, Clone)]
pub struct Ready {
    /// The chain.
    pub chain: Chain,
    /// The body of its first turn.
    pub first: Payload,
    /// The later turns; `None` if the chain has one turn.
    pub dialogue: Option<Box<Dialogue>>,
}

/// The later turns of a conversation. Its history grows by the answers of the server.
#[derive(Debug, Clone)]
pub struct Dialogue {
    encoder: Encoder,
    history: Vec<Message>,
    /// The images of each message of the history, in the form of the API; messages beyond the end have none.
    images: Vec<Bytes>,
    /// The messages that each later turn adds, in order, with the images of the last of them.
    further: std::vec::IntoIter<(Vec<Message>, Bytes)>,
}

impl Dialogue {
    /// Returns the body of the next turn, given the answer to the one before. Writing it takes some microseconds for a
    /// history of thousands of tokens; with think time, it is done before the turn is due.
    pub fn follow(&mut self, answer: &str, output_tokens: u32) -> Payload {
        let (messages, images) = self.further.next().unwrap_or_default();
        if !begins_with_calls(&messages) {
            self.history.push(Message::new(Role::Assistant, answer));
        }
        self.history.extend(messages);
        add_images(&mut self.images, &self.history, images);
        self.encoder.illustrated(&self.history, &self.images, output_tokens)
    }
}

/// Adds the images of the last message.
fn add_images(all: &mut Vec<Bytes>, history: &[Message], images: Bytes) {
    if !images.is_empty() {
        all.resize(history.len().saturating_sub(1), Bytes::new());
        all.push(images);
    }
}

/// Builds the bodies of one step's chains, in order.
#[derive(Clone)]
pub struct Builder {
    chains: Chains,
    prompter: Prompter,
    /// One encoder for each class; the last one serves all further classes.
    encoders: Vec<Encoder>,
    heads: HashMap<(u16, Option<Arc<str>>), Bytes>,
    /// Turns prompts into token ids, if the plan wants them.
    ids: Option<Tokenizer>,
    /// Number of chains to skip before the next one …
    skip: usize,
    /// … and between any two after it.
    others: usize,
    /// Set once chains are only counted: from then on they have no bodies.
    without_bodies: Arc<AtomicBool>,
}

impl Builder {
    /// Makes a builder for these chains, with this text, in the dialect of each class. `encoders` must not be empty.
    pub fn new(chains: Chains, prompter: Prompter, encoders: Vec<Encoder>) -> Self {
        let (heads, ids) = (HashMap::new(), None);
        Self { chains, prompter, encoders, heads, ids, skip: 0, others: 0, without_bodies: Arc::default() }
    }

    /// With a tokenizer, makes prompts of token ids, with exactly the requested number of tokens.
    pub(crate) fn with_token_ids(self, ids: Option<Tokenizer>) -> Self {
        Self { ids, ..self }
    }

    /// Selects every `of`-th chain from the `thread`-th on, as the share of one of several threads. All threads
    /// together send the same chains, regardless of their number.
    pub fn thread(self, thread: usize, of: usize) -> Self {
        let without_bodies = Arc::default();
        Self { skip: thread, others: of.saturating_sub(1), without_bodies, ..self }
    }
}

impl Iterator for Builder {
    type Item = Ready;

    fn next(&mut self) -> Option<Ready> {
        let mut chain = self.chains.nth(std::mem::replace(&mut self.skip, self.others))?;
        self.prompter.measure(&mut chain);
        if self.without_bodies.load(Relaxed) {
            return Some(Ready { chain, first: Payload::default(), dialogue: None });
        }
        let turn = chain.turns.first()?;
        let encoder = &self.encoders[usize::from(turn.class).min(self.encoders.len() - 1)];
        let prompt = self.prompter.prompt(turn);
        let tokens = turn.request.output_tokens;
        let has_history = chain.turns.len() > 1 || !prompt.images().is_empty();
        let history = if has_history { prompt.messages() } else { Vec::new() };
        let mut images = Vec::new();
        let first = match (&prompt, &self.ids) {
            (Prompt::Messages(messages), _) => encoder.messages(messages, tokens),
            (Prompt::Items(items), _) => encoder.items(items),
            (Prompt::Audio(clip), _) => encoder.audio(clip),
            (Prompt::Plain(text), _) if !text.images.is_empty() => {
                add_images(&mut images, &history, encoder.images(&text.images));
                encoder.illustrated(&history, &images, tokens)
            }
            (Prompt::Plain(text), Some(tokenizer)) => {
                let length = turn.request.input_tokens as usize;
                encoder.tokens(&tokenizer.prompt(text.system.as_deref(), &text.user, length), tokens)
            }
            (Prompt::Plain(text), None) => {
                let head = match &text.system {
                    // One copy in memory for all requests with the same beginning.
                    system if text.shared => {
                        let prefix = || encoder.prefix(system.as_deref());
                        self.heads.entry((turn.class, system.clone())).or_insert_with(prefix).clone()
                    }
                    system => encoder.prefix(system.as_deref()),
                };
                encoder.request(&head, &text.user, tokens)
            }
        };
        let dialogue = (chain.turns.len() > 1).then(|| {
            let further = chain.turns[1..].iter().map(|turn| {
                let prompt = self.prompter.prompt(turn);
                (prompt.messages(), encoder.images(prompt.images()))
            });
            let further = further.collect::<Vec<_>>().into_iter();
            Box::new(Dialogue { encoder: encoder.clone(), history, images, further })
        });
        if self.prompter.failed() {
            return None;
        }
        Some(Ready { chain, first, dialogue })
    }
}

/// The source of a load's chains.
pub(crate) enum Source {
    /// Built ahead by another thread, so that the sending thread never builds any.
    Ahead(Ahead),
    /// Built on demand: under the paused clock, building takes no time.
    Inline(Box<Builder>),
}

/// Chains that a thread builds ahead. They come in batches, with few batches in the channel, so that the sending thread
/// rarely wakes the building thread, which would take the core on which the server answers.
pub(crate) struct Ahead {
    batches: mpsc::Receiver<Vec<Ready>>,
    batch: std::vec::IntoIter<Ready>,
    without_bodies: Arc<AtomicBool>,
}

impl Source {
    /// Starts the building thread. `rate` is the expected number of chains taken per second, `parts` the number of such
    /// threads. Fails if the system refuses a thread.
    pub(crate) fn ahead(mut builder: Builder, rate: f64, parts: usize) -> std::io::Result<Self> {
        let first = builder.next();
        let bytes = first.as_ref().map_or(1, |r| r.first.len() * r.chain.turns.len()).max(1);
        let most = AHEAD_BYTES / bytes / parts.max(1);
        let wanted = ((rate * AHEAD_S) as usize).min(most).max(AHEAD_LEAST);
        let batch = wanted / BATCHES;
        let (send, batches) = mpsc::channel(BATCHES);
        let without_bodies = builder.without_bodies.clone();
        std::thread::Builder::new().name("bodies".into()).spawn(move || {
            let mut chains = first.into_iter().chain(builder);
            // Batches double in size, so that the first request waits for a single body.
            for n in (0..).map(|i| batch.min(1 << i.min(20))) {
                let batch: Vec<Ready> = chains.by_ref().take(n).collect();
                // The receiver is gone: the step is over.
                if batch.is_empty() || send.blocking_send(batch).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self::Ahead(Ahead { batches, batch: Vec::new().into_iter(), without_bodies }))
    }

    /// Builds no further bodies: the next chains are not sent, only counted.
    pub(crate) fn stop_building(&self) {
        let without_bodies = match self {
            Self::Ahead(ahead) => &ahead.without_bodies,
            Self::Inline(builder) => &builder.without_bodies,
        };
        without_bodies.store(true, Relaxed);
    }

    /// Returns the next chain; `None` when there are no more.
    pub(crate) async fn next(&mut self) -> Option<Ready> {
        match self {
            Self::Ahead(Ahead { batches, batch, .. }) => {
                if batch.as_slice().is_empty() {
                    *batch = batches.recv().await?.into_iter();
                }
                batch.next()
            }
            Self::Inline(builder) => builder.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::encoder::Pinning;
    use goodput_core::endpoint::Api;
    use goodput_core::level::{Control, Level};
    use goodput_core::message::{ToolCall, Tools};
    use goodput_workload::config::Workload;
    use goodput_workload::data::Counter;
    use goodput_workload::draw::StepKey;
    use goodput_workload::rate::WordRate;
    use goodput_workload::traffic::Traffic;
    use serde_json::Value;
    use std::collections::HashSet;

    fn builder() -> Builder {
        first(u64::MAX)
    }

    fn first(n: u64) -> Builder {
        let text = "prompts.synthetic = { input-tokens = { uniform = { min = 4, max = 40 } }, output-tokens = { fixed = 3 } }";
        let workload = toml::from_str::<Workload>(text).unwrap();
        let builder = of(&workload, Api::Chat, Level::rate(5.0));
        Builder { chains: builder.chains.first(n), ..builder }
    }

    fn of(workload: &Workload, api: Api, level: Level) -> Builder {
        let key = StepKey { seed: 1, series: "main".into(), step: 1 };
        let traffic = Traffic::open(workload, &Counter::default()).unwrap();
        let chains = Chains::new(&traffic, &key, level).unwrap();
        let encoder = Encoder::new(api, "m", &serde_json::Map::new(), Pinning::NONE, true);
        Builder::new(chains, Prompter::new(&traffic, key, WordRate::UNKNOWN), vec![encoder])
    }

    /// Returns the messages of a request, without a system text that stands outside.
    fn messages(payload: &Payload) -> Vec<Value> {
        let body = [&payload.head[..], &payload.tail[..]].concat();
        let body: Value = serde_json::from_slice(&body).unwrap();
        [&body["messages"], &body["input"]].into_iter().find_map(Value::as_array).unwrap().clone()
    }

    /// Returns the number of images of each message.
    fn images(messages: &[Value]) -> Vec<usize> {
        let parts = |message: &Value| message["content"].as_array().map_or(0, |parts| parts.len() - 1);
        messages.iter().map(parts).collect()
    }

    /// The answer of the server is part of the history, unless a recorded one calls the tools whose outputs follow.
    #[test]
    fn a_recorded_call_stands_in_for_the_answer_of_the_server() {
        let call = ToolCall { id: "a".into(), name: "f".into(), arguments: "{}".into() };
        let with = |role, tools| Message { tools: Some(Box::new(tools)), ..Message::new(role, "x") };
        let call = with(Role::Assistant, Tools::Calls(vec![call]));
        let output = with(Role::Tool, Tools::OutputOf("a".into()));
        let further = vec![(vec![call, output], Bytes::new()), (vec![Message::user("thanks")], Bytes::new())];
        let mut dialogue = Dialogue {
            encoder: Encoder::new(Api::Chat, "m", &serde_json::Map::new(), Pinning::NONE, true),
            history: vec![Message::user("q")],
            images: Vec::new(),
            further: further.into_iter(),
        };
        dialogue.follow("first", 3);
        let sent = messages(&dialogue.follow("second", 3));
        let contents: Vec<_> = sent.iter().map(|m| m["content"].as_str().unwrap()).collect();
        assert_eq!(contents, ["q", "x", "x", "second", "thanks"]);
        assert_eq!((&sent[1]["tool_calls"][0]["id"], &sent[2]["tool_call_id"]), (&"a".into(), &"a".into()));
    }

    #[test]
    fn a_conversation_sends_its_images_again_with_its_history() {
        const TALK: &str = "cache = \"CACHE\"\nconversation = { turns = { fixed = 3 }, input-tokens = { fixed = 9 } }\n[prompts.synthetic]\n\
            input-tokens = { fixed = 40 }\noutput-tokens = { fixed = 3 }\nshared-prefix = { tokens = 10 }\n\
            images = { count = { fixed = 2 }, width = { fixed = 9 }, height = { fixed = 8 }, turns = \"TURNS\" }";
        for (api, turns, added) in [
            (Api::Chat, "first", [2, 0, 0]),
            (Api::Chat, "every", [2, 2, 2]),
            (Api::Responses, "every", [2, 2, 2]),
            (Api::Messages, "every", [2, 2, 2]),
        ] {
            for (cache, kinds) in [("cold", added.iter().sum()), ("warm", 1)] {
                let text = TALK.replace("TURNS", turns).replace("CACHE", cache);
                let level = Level { control: Control::Sessions, ..Level::rate(1.0) };
                let Ready { chain, first, dialogue } =
                    of(&toml::from_str(&text).unwrap(), api, level).next().unwrap();
                let mut dialogue = dialogue.unwrap();
                let system = usize::from(api != Api::Messages);
                let mut sent = messages(&first);
                assert_eq!(images(&sent)[system..], added[..1], "{api:?}");
                for turn in 1..3 {
                    let next = messages(&dialogue.follow("an answer", 3));
                    assert_eq!(next[..sent.len()], sent, "{api:?}: the history as it was sent");
                    let own: Vec<usize> = images(&next)[system..].iter().copied().step_by(2).collect();
                    assert_eq!(own, added[..=turn], "{api:?}");
                    assert_eq!(usize::from(chain.turns[turn].request.items()), own.iter().sum::<usize>());
                    sent = next;
                }
                let parts = sent.iter().filter_map(|message| message["content"].as_array()).flatten();
                let files: HashSet<String> =
                    parts.filter(|part| part.get("text").is_none()).map(Value::to_string).collect();
                assert_eq!(files.len(), kinds, "{api:?}, {cache}");
            }
        }
    }

    #[tokio::test]
    async fn what_is_built_ahead_comes_in_order_and_ends() {
        for (rate, parts) in [(0.1, 1), (100.0, 2), (1e6, 1)] {
            let mut ahead = Source::ahead(first(300), rate, parts).unwrap();
            for id in 0..300 {
                assert_eq!(ahead.next().await.unwrap().chain.turns[0].request.id, id);
            }
            assert!(ahead.next().await.is_none());
        }
    }

    #[test]
    fn the_parts_of_several_threads_are_the_chains_of_one() {
        let whole: Vec<Ready> = builder().take(12).collect();
        for of in [1, 2, 3, 4] {
            let mut dealt: Vec<Ready> = (0..of)
                .flat_map(|part| builder().thread(part, of).take(12 / of).collect::<Vec<_>>())
                .collect();
            dealt.sort_by_key(|r| r.chain.turns[0].request.id);
            let bytes = |ready: &Ready| (ready.first.head.clone(), ready.first.tail.clone());
            let same = |(a, b): (&Ready, &Ready)| a.chain == b.chain && bytes(a) == bytes(b);
            assert!(dealt.len() == 12 && whole.iter().zip(&dealt).all(same), "dealt to {of}");
            let mut sent: Vec<u64> = (0..of)
                .flat_map(|part| first(10).thread(part, of))
                .map(|r| r.chain.turns[0].request.id)
                .collect();
            sent.sort_unstable();
            assert_eq!(sent, (0..10).collect::<Vec<_>>(), "the first ten and no more, dealt to {of}");
        }
    }
}
