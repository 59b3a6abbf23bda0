//! The routes of the simulated server: OpenAI's API, with the paths, formats and error texts of vLLM.

use crate::sim::actor::{Answer, Handle};
use crate::sim::fault::play::play;
use crate::sim::fault::socket::Wire;
use crate::sim::metrics::prometheus;
use crate::sim::rules::{Limits, MAX_BODY, Refusal};
use crate::sim::wire::{self, Api, Ask, Thought, Writer, json_string};
use axum::{
    Extension, Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, State},
    http::{HeaderValue, StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use goodput_engine::blocks::blocks_of;
use goodput_engine::config::{Reasoning, Simulated};
use goodput_engine::fault::FaultInjector;
use goodput_engine::{KvCache, Request};
use http_body::{Frame, SizeHint};
use std::{
    future::poll_fn,
    io, iter,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::time::{Instant, sleep_until};

/// Number of tokens that the chat template adds to the words of the messages.
pub const TEMPLATE_TOKENS: usize = 8;
/// ID of every template token: none that a word or a given token id has.
pub const TEMPLATE_TOKEN: u64 = u64::MAX;
/// Maximum size in bytes of the events that are sent together because they are ready together.
const MAX_FRAME: usize = 64 << 10;
/// Duration of an answer that the engine has no part in. If it were zero, a closed loop in simulated time would send
/// requests forever within one instant.
const AT_ONCE: Duration = Duration::from_millis(1);

/// Makes the router of the simulated server, to be served on a socket or called in process
/// (`tower::ServiceExt::oneshot`).
///
/// One task owns the engine model. It starts here, at the engine's time zero, and ends with the last clone of the
/// router. For a paused clock, start the runtime paused (`start_paused`): a clock that is paused later stops between
/// two of tokio's milliseconds, which delays every timer by the difference.
///
/// # Panics
/// Outside a tokio runtime with a timer, like `tokio::spawn`.
pub fn router(sim: &Simulated) -> Router {
    with_faults(sim, fault_injector(sim))
}

/// Makes the fault injector of a server.
pub(super) fn fault_injector(sim: &Simulated) -> Arc<FaultInjector> {
    Arc::new(FaultInjector::new(sim.faults.clone(), sim.fault_after, sim.seed))
}

/// Makes the router with a fault injector that it shares with a listener.
pub(super) fn with_faults(sim: &Simulated, faults: Arc<FaultInjector>) -> Router {
    let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let engine = sim.build();
    let server = Server {
        kv_cache: engine.kv_cache(),
        engine: Handle::start(engine),
        started: Instant::now(),
        created,
        model: sim.model.clone(),
        model_json: json_string(&sim.model),
        max_model_len: sim.max_model_len.get(),
        reasoning: sim.reasoning,
        requests: AtomicU64::new(0),
        faults,
    };
    Router::new()
        .route("/v1/chat/completions", post(chat))
        .route("/v1/completions", post(completions))
        .route("/v1/models", get(models))
        .route("/health", get(async || StatusCode::OK))
        .route("/version", get(version))
        .route("/metrics", get(metrics))
        .fallback(async || (StatusCode::NOT_FOUND, JSON, r#"{"detail":"Not Found"}"#))
        .method_not_allowed_fallback(async || {
            (StatusCode::METHOD_NOT_ALLOWED, JSON, r#"{"detail":"Method Not Allowed"}"#)
        })
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(Arc::new(server))
}

type Headers = [(http::HeaderName, HeaderValue); 1];
const JSON: Headers = [(CONTENT_TYPE, HeaderValue::from_static("application/json"))];
const EVENTS: Headers = [(CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"))];
const TEXT: Headers = [(CONTENT_TYPE, HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"))];

struct Server {
    engine: Handle,
    kv_cache: Option<KvCache>,
    started: Instant,
    /// Unix time of the start, in seconds.
    created: u64,
    model: String,
    /// The model's name as a JSON string.
    model_json: String,
    max_model_len: u32,
    reasoning: Option<Reasoning>,
    /// Number of requests accepted so far, which is the next one's id.
    requests: AtomicU64,
    faults: Arc<FaultInjector>,
}

type Connection = Option<Extension<Wire>>;

async fn chat(State(server): State<Arc<Server>>, wire: Connection, body: Bytes) -> Response {
    tokens(&server, Api::Chat, wire, &body).await
}

async fn completions(State(server): State<Arc<Server>>, wire: Connection, body: Bytes) -> Response {
    tokens(&server, Api::Completions, wire, &body).await
}

/// Answers a request, possibly with a fault.
async fn tokens(server: &Server, api: Api, wire: Connection, body: &[u8]) -> Response {
    let sound = async { answer(server, api, body).await.unwrap_or_else(IntoResponse::into_response) };
    let begun = Instant::now();
    let fault = server.faults.fault_of_next_request();
    let answer = match fault {
        None => sound.await,
        Some(fault) => play(fault, wire.map(|w| w.0), sound).await,
    };
    if fault.is_some() || answer.status() != StatusCode::OK {
        sleep_until(begun + AT_ONCE).await;
    }
    answer
}

async fn answer(server: &Server, api: Api, body: &[u8]) -> Result<Response, Refusal> {
    // The request has arrived: parsing it is server time, not client time.
    let at = Instant::now();
    let ask: Ask = serde_json::from_slice(body).map_err(|e| Refusal::unreadable(&e))?;
    let prompt = Prompt::of(api, &ask).ok_or_else(|| Refusal::missing(api.field()))?;
    let limits = Limits { model: &server.model, max_model_len: server.max_model_len };
    let (input_tokens, output_tokens) = limits.check(api, &ask, prompt.len(), prompt.texts)?;
    let id = server.requests.fetch_add(1, Ordering::Relaxed);
    let request = Request::new(id, input_tokens, output_tokens);
    let request = request.with_blocks(server.blocks(&prompt, output_tokens));
    let mut events = server.engine.submit(at, request);
    let stream = ask.stream.unwrap_or(false);
    let thought = Thought::of(server.reasoning, output_tokens);
    let head = server.head(api, id, stream);
    if stream {
        let writer = Writer::new(api, &head, input_tokens, ask.stream_options.unwrap_or_default());
        let writer = writer.thinking(thought);
        return Ok((EVENTS, Body::new(Stream { events, writer })).into_response());
    }
    let (mut tokens, mut cached) = (0, None);
    while let Some(event) = poll_fn(|cx| events.poll_next(cx)).await {
        tokens += event.tokens;
        cached = event.cached_tokens;
    }
    if !events.over() {
        return Err(Refusal::gone());
    }
    Ok((JSON, wire::whole(api, &head, input_tokens, tokens, cached, thought)).into_response())
}

/// The tokens of a request's prompt.
struct Prompt<'a> {
    /// Number of tokens of the chat template, which come first.
    template: usize,
    parts: Vec<&'a [u64]>,
    texts: u32,
}

impl<'a> Prompt<'a> {
    /// Returns the prompt of a request; `None` if the field with the prompt is missing.
    fn of(api: Api, ask: &'a Ask) -> Option<Self> {
        match api {
            Api::Chat => {
                let contents = ask.messages.as_ref()?.iter().filter_map(|m| m.content.as_ref());
                let parts = contents.map(|words| &*words.tokens).collect();
                Some(Self { template: TEMPLATE_TOKENS, parts, texts: 1 })
            }
            Api::Completions => {
                let words = ask.prompt.as_ref()?;
                Some(Self { template: 0, parts: vec![&words.tokens], texts: words.texts })
            }
        }
    }

    fn len(&self) -> u32 {
        let tokens = self.template + self.parts.iter().map(|part| part.len()).sum::<usize>();
        u32::try_from(tokens).unwrap_or(u32::MAX)
    }

    fn tokens(&self) -> impl Iterator<Item = u64> {
        let template = iter::repeat_n(TEMPLATE_TOKEN, self.template);
        template.chain(self.parts.iter().flat_map(|part| part.iter().copied()))
    }
}

impl Server {
    fn prefix_cache(&self) -> Option<KvCache> {
        self.kv_cache.filter(|cache| cache.prefix_cache)
    }

    /// Returns the block hashes by which the prefix cache identifies a request, including its answer, which is known in
    /// advance.
    fn blocks(&self, prompt: &Prompt<'_>, output_tokens: u32) -> Arc<[u64]> {
        self.prefix_cache().map_or_else(Arc::default, |cache| {
            let answer = wire::answer_tokens().take(output_tokens as usize);
            blocks_of(prompt.tokens().chain(answer), cache.block_size)
        })
    }

    fn head(&self, api: Api, id: u64, stream: bool) -> String {
        let created = self.created + self.started.elapsed().as_secs();
        wire::head(api, id, stream, created, &self.model_json)
    }
}

/// The body of a stream. Dropping it cancels the request.
struct Stream {
    events: Answer,
    writer: Writer,
}

impl http_body::Body for Stream {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.events.over() {
            return Poll::Ready(None);
        }
        let Self { events, writer } = &mut *self;
        let mut out = String::with_capacity(512);
        // Hidden reasoning makes no event.
        while out.is_empty() {
            let Some(event) = ready!(events.poll_next(cx)) else {
                return Poll::Ready(Some(Err(io::Error::other("the engine stopped"))));
            };
            writer.cached(event.cached_tokens);
            writer.event(&mut out, event.tokens, event.finished);
        }
        while out.len() < MAX_FRAME
            && let Poll::Ready(Some(event)) = events.poll_next(cx)
        {
            writer.event(&mut out, event.tokens, event.finished);
        }
        Poll::Ready(Some(Ok(Frame::data(out.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.events.over()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status, JSON, self.body()).into_response()
    }
}

async fn models(State(server): State<Arc<Server>>) -> impl IntoResponse {
    let Server { created, model_json: model, max_model_len, .. } = &*server;
    (JSON, wire::models(model, *created, *max_model_len))
}

async fn version() -> impl IntoResponse {
    (JSON, concat!(r#"{"version":""#, env!("CARGO_PKG_VERSION"), r#""}"#))
}

async fn metrics(State(server): State<Arc<Server>>) -> Response {
    match server.engine.counters().await {
        Some(counters) => (TEXT, prometheus(&counters, server.kv_cache, &server.model)).into_response(),
        None => Refusal::gone().into_response(),
    }
}

#[cfg(test)]
mod tests;
