//! The logic of the null server: maps requests to replies, without any I/O.

use super::{
    Settings,
    answers::{Answers, Events, Kind},
    http::Request,
};
use crate::sim::{
    metrics::{Counters, prometheus},
    router::TEMPLATE_TOKENS,
    rules::{Limits, Refusal},
    wire::{self, Api, Ask, Counted, StreamOptions, Thought, Words},
};
use std::{
    borrow::Cow,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// The state shared by all connections. One thread serves them, so the lock is never contended.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) settings: Settings,
    /// Unix time of the start, in seconds.
    created: u64,
    /// The model's name as a JSON string.
    model: String,
    /// The beginnings of events: of a chat, of a completion.
    heads: [String; 2],
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    counters: Counters,
    answers: Answers,
}

/// The reply to a request.
#[derive(Debug)]
pub(super) enum Reply {
    /// An answer of a model.
    Tokens(Order),
    /// Any other response.
    Page(Page),
}

/// The answer that a request asks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Order {
    pub(super) api: Api,
    pub(super) stream: bool,
    pub(super) input: u32,
    pub(super) output: u32,
    pub(super) options: StreamOptions,
}

/// A response other than a model's answer.
#[derive(Debug)]
pub(super) struct Page {
    /// The status line's code and reason.
    pub(super) status: Cow<'static, str>,
    pub(super) kind: &'static str,
    pub(super) body: Cow<'static, str>,
}

pub(super) const JSON: &str = "application/json";
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

impl Page {
    pub(super) fn new(
        status: impl Into<Cow<'static, str>>,
        kind: &'static str,
        body: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { status: status.into(), kind, body: body.into() }
    }
}

impl From<Refusal> for Page {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.status.to_string(), JSON, refusal.body())
    }
}

/// A guard that counts a request as running until it is dropped.
#[derive(Debug)]
pub(super) struct Running<'a> {
    server: &'a Server,
    finished: bool,
}

impl Running<'_> {
    /// Counts the request as answered in full, after `took`.
    pub(super) fn finish(mut self, took: Duration) {
        self.finished = true;
        self.server.state().counters.e2e.record(took);
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let counters = &mut self.server.state().counters;
        counters.running -= 1;
        if self.finished {
            counters.finished += 1;
        } else {
            counters.aborted += 1;
        }
    }
}

impl Server {
    pub(super) fn new(settings: Settings) -> Self {
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let model = wire::json_string(&settings.model);
        let heads = [Api::Chat, Api::Completions].map(|api| wire::head(api, 0, true, created, &model));
        let state = State { counters: Counters::new(), answers: Answers::default() };
        Self { settings, created, model, heads, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Counters stay valid after a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of requests being answered.
    pub(super) fn running(&self) -> usize {
        self.state().counters.running
    }

    pub(super) fn start(&self) -> Running<'_> {
        self.state().counters.running += 1;
        Running { server: self, finished: false }
    }

    /// Counts a prompt's first token, and the other tokens of the same write.
    pub(super) fn first(&self, ttft: Duration, input: u32, tokens: u32) {
        let counters = &mut self.state().counters;
        counters.ttft.record(ttft);
        counters.prompt_tokens += u64::from(input);
        counters.generation_tokens += u64::from(tokens);
        counters.itl.record_many(Duration::ZERO, tokens - 1);
    }

    /// Counts further tokens of one write, `gap` after the previous write.
    pub(super) fn further(&self, gap: Duration, tokens: u32) {
        let counters = &mut self.state().counters;
        counters.generation_tokens += u64::from(tokens);
        counters.itl.record(gap);
        counters.itl.record_many(Duration::ZERO, tokens - 1);
    }

    /// Returns the beginning of the events of a stream.
    pub(super) fn head(&self, api: Api) -> &str {
        match api {
            Api::Chat => &self.heads[0],
            Api::Completions => &self.heads[1],
        }
    }

    /// Returns the events of a stream up to its last token.
    pub(super) fn events(&self, order: &Order) -> Arc<Events> {
        let Order { api, input, output, options, .. } = *order;
        let continuous = (options.include_usage && options.continuous_usage_stats).then_some(input);
        self.state().answers.events(Kind { api, output_tokens: output, continuous }, self.head(api))
    }

    /// Formats an answer that does not stream.
    pub(super) fn whole(&self, order: &Order) -> String {
        let head = wire::head(order.api, 0, false, self.created, &self.model);
        wire::whole(order.api, &head, order.input, order.output, None, Thought::default())
    }

    /// Returns the reply to a request.
    pub(super) fn reply(&self, request: &Request<'_>) -> Reply {
        let get = matches!(request.method, "GET" | "HEAD");
        Reply::Page(match (request.path, get, request.method == "POST") {
            ("/v1/chat/completions", _, true) => return self.order(Api::Chat, &request.body),
            ("/v1/completions", _, true) => return self.order(Api::Completions, &request.body),
            ("/v1/models", true, _) => {
                let limit = self.settings.max_model_len.get();
                Page::new("200 OK", JSON, wire::models(&self.model, self.created, limit))
            }
            ("/health", true, _) => Page::new("200 OK", TEXT, ""),
            ("/version", true, _) => {
                Page::new("200 OK", JSON, concat!(r#"{"version":""#, env!("CARGO_PKG_VERSION"), r#""}"#))
            }
            ("/metrics", true, _) => {
                Page::new("200 OK", TEXT, prometheus(&self.state().counters, None, &self.settings.model))
            }
            (
                "/v1/chat/completions"
                | "/v1/completions"
                | "/v1/models"
                | "/health"
                | "/version"
                | "/metrics",
                ..,
            ) => Page::new("405 Method Not Allowed", JSON, r#"{"detail":"Method Not Allowed"}"#),
            _ => Page::new("404 Not Found", JSON, r#"{"detail":"Not Found"}"#),
        })
    }

    fn order(&self, api: Api, body: &[u8]) -> Reply {
        self.read(api, body).map_or_else(|refusal| Reply::Page(refusal.into()), Reply::Tokens)
    }

    fn read(&self, api: Api, body: &[u8]) -> Result<Order, Refusal> {
        let ask: Ask<Counted> = serde_json::from_slice(body).map_err(|e| Refusal::unreadable(&e))?;
        let (tokens, texts) = prompt(api, &ask).ok_or_else(|| Refusal::missing(api.field()))?;
        let limits = Limits { model: &self.settings.model, max_model_len: self.settings.max_model_len.get() };
        let (input, output) = limits.check(api, &ask, tokens, texts)?;
        let (stream, options) = (ask.stream.unwrap_or(false), ask.stream_options.unwrap_or_default());
        Ok(Order { api, stream, input, output, options })
    }
}

/// Counts the tokens and texts of a prompt as the simulated server does; `None` if the prompt is missing.
fn prompt(api: Api, ask: &Ask<Counted>) -> Option<(u32, u32)> {
    let (tokens, texts) = match api {
        Api::Chat => {
            let contents = ask.messages.as_ref()?.iter().filter_map(|m| m.content.as_ref());
            (TEMPLATE_TOKENS + contents.map(|Words { tokens, .. }| tokens.0).sum::<usize>(), 1)
        }
        Api::Completions => {
            let words = ask.prompt.as_ref()?;
            (words.tokens.0, words.texts)
        }
    };
    Some((u32::try_from(tokens).unwrap_or(u32::MAX), texts))
}
