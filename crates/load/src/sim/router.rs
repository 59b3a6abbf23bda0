//! The simulated server as a [`Router`], called in process or served on a socket: carries the answers of
//! `sim/rules.rs` from an engine model.

use crate::load::pacer::Clock;
use crate::sim::actor::{Answer, Handle};
use crate::sim::adapters::AdapterCall;
use crate::sim::audio::AudioOrder;
use crate::sim::choice_writers::ChoiceWriters;
use crate::sim::dialect::{self, TEMPLATE_TOKEN, TextApi};
use crate::sim::fault::play;
use crate::sim::items::ItemOrder;
use crate::sim::request::ApiRequest;
use crate::sim::rules::{JSON, MAX_BODY, Order, Page, Refusal, Route, ServedModel};
use crate::sim::socket::ConnectionHandle;
use crate::sim::writer::{self, Thought, Writer};
use axum::{
    Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, FromRequest, Request as Call, State},
    http::{
        HeaderName, HeaderValue, StatusCode,
        header::{ALLOW, CONTENT_TYPE},
    },
    response::{IntoResponse, Response},
};
use goodput_core::endpoint::Api;
use goodput_core::hash::fnv1a;
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
    task::{Context, Poll},
    time::Duration,
};
use tokio::time::{Instant, sleep, sleep_until};

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
    with_faults(sim, fault_injector(sim), Clock::Paused)
}

/// Makes the fault injector of a server.
pub(super) fn fault_injector(sim: &Simulated) -> Arc<FaultInjector> {
    Arc::new(FaultInjector::new(sim.faults.clone(), sim.fault_after, sim.seed))
}

/// Makes the router on a clock, with a fault injector that it shares with a listener.
pub(super) fn with_faults(sim: &Simulated, faults: Arc<FaultInjector>, clock: Clock) -> Router {
    let engine = sim.build().with_items();
    let server = Server {
        kv_cache: engine.kv_cache(),
        engine: Handle::start(engine, sim.network.0, clock),
        network: sim.network.0,
        started: Instant::now(),
        model: ServedModel::new(&sim.model, sim.max_model_len)
            .with_vision(sim.vision)
            .with_adapters(sim.adapters.as_ref()),
        reasoning: sim.reasoning,
        requests: AtomicU64::new(0),
        faults,
    };
    Router::new().fallback(respond).layer(DefaultBodyLimit::max(MAX_BODY)).with_state(Arc::new(server))
}

struct Server {
    engine: Handle,
    /// Time of a request between client and server.
    network: Duration,
    kv_cache: Option<KvCache>,
    started: Instant,
    model: ServedModel,
    reasoning: Option<Reasoning>,
    /// Number of requests accepted so far, which is the next one's id.
    requests: AtomicU64,
    faults: Arc<FaultInjector>,
}

/// An API that a request is addressed to.
#[derive(Clone, Copy)]
enum Served {
    Text(TextApi),
    Items(Api),
    Audio,
}

/// Answers any request.
async fn respond(State(server): State<Arc<Server>>, call: Call) -> Response {
    let api = match server.model.route(call.method().as_str(), call.uri().path()) {
        Route::Page(page) => return page.into_response(),
        Route::Metrics => return server.metrics().await.into_response(),
        Route::Answer(api) => Served::Text(api),
        Route::Items(api) => Served::Items(api),
        Route::Adapter(adapter) => return server.adapter(adapter, call).await.into_response(),
        Route::Audio => Served::Audio,
    };
    let form = call.headers().get(CONTENT_TYPE).cloned();
    let connection = call.extensions().get::<ConnectionHandle>().cloned();
    let body = match Bytes::from_request(call, &()).await {
        Ok(body) => body,
        Err(rejection) => return rejection.into_response(),
    };
    let sound = async {
        match api {
            Served::Text(text) => {
                server.answer(text, &body).await.unwrap_or_else(|refusal| refusal.page(text).into_response())
            }
            Served::Items(items) => {
                server.items(items, &body).await.unwrap_or_else(|refusal| Page::from(refusal).into_response())
            }
            Served::Audio => {
                let form = form.as_ref().and_then(|value| value.to_str().ok());
                server.audio(form, &body).await.unwrap_or_else(|refusal| Page::from(refusal).into_response())
            }
        }
    };
    let begun = Instant::now();
    let fault = server.faults.fault_of_next_request();
    let answer = match fault {
        None => sound.await,
        Some(fault) => play(fault, connection, sound).await,
    };
    if fault.is_some() || answer.status() != StatusCode::OK {
        sleep_until(begun + AT_ONCE).await;
    }
    answer
}

/// Waits for the end of an answer of one choice. Returns its tokens, and how many of the prompt's were found in the prefix cache.
async fn whole(answer: &mut Answer) -> Result<(u32, Option<u32>), Refusal> {
    let (mut tokens, mut cached) = (0, None);
    while let Some(event) = poll_fn(|cx| answer.poll_next(cx)).await {
        tokens += event.tokens;
        cached = event.cached_tokens;
    }
    if answer.over() { Ok((tokens, cached)) } else { Err(Refusal::gone()) }
}

impl Server {
    /// Waits until a request has come through the simulated network, and returns the time. Parsing it is server time, not client time.
    async fn arrival(&self) -> Instant {
        // A timer of no time would still wait for a whole millisecond.
        if !self.network.is_zero() {
            sleep(self.network).await;
        }
        Instant::now()
    }

    /// Returns the Unix time in seconds.
    fn unix_time(&self) -> u64 {
        self.model.created + self.started.elapsed().as_secs()
    }

    async fn answer(&self, api: TextApi, body: &[u8]) -> Result<Response, Refusal> {
        let at = self.arrival().await;
        let (request, order) = self.model.accept::<Vec<u64>>(api, body)?;
        let at = at + self.load_adapter(request.model.as_deref()).await;
        let id = self.requests.fetch_add(order.choices.into(), Ordering::Relaxed);
        let blocks = self.blocks(&request, &order);
        let request =
            Request::new(id, order.input, order.output).with_blocks(blocks).with_images(order.images.clone());
        let block_size = self.kv_cache.map_or(1, |cache| cache.block_size);
        let submit = |request| self.engine.submit(at, request);
        let mut events: Vec<Answer> = request.into_choices(order.choices, block_size).map(submit).collect();
        let thought = Thought::of(self.reasoning, order.output);
        let head = self.model.head(api, id, order.stream, self.unix_time());
        if order.stream {
            let writer = || Writer::new(api, &head, order.input, order.options).thinking(thought);
            let stream = Stream { writers: ChoiceWriters::new(order.choices, writer), events };
            return Ok((content_type(dialect::stream_type(api)), Body::new(stream)).into_response());
        }
        let (mut tokens, mut cached) = (0, None);
        for (i, choice) in events.iter_mut().enumerate() {
            let (of_choice, found) = whole(choice).await?;
            // All choices have the same length.
            tokens = of_choice;
            cached = if i == 0 { found } else { cached };
        }
        Ok((content_type(JSON), writer::document(&order, &head, tokens, cached, thought)).into_response())
    }

    /// Answers a request of items: each is a prompt of its own, and the answer comes when the last one has been read.
    async fn items(&self, api: Api, body: &[u8]) -> Result<Response, Refusal> {
        let at = self.arrival().await;
        let order = ItemOrder::accept(&self.model, api, body)?;
        let id = self.requests.fetch_add(1, Ordering::Relaxed);
        let request = Request::new(id, order.tokens(), 0).with_items(order.items.clone());
        let mut answer = self.engine.submit(at, request);
        whole(&mut answer).await?;
        Ok((content_type(JSON), order.document(id, self.unix_time(), self.model.name_json())).into_response())
    }

    /// Answers a request to transcribe audio, when the text of its last window has been written.
    async fn audio(&self, content_type: Option<&str>, body: &[u8]) -> Result<Response, Refusal> {
        let at = self.arrival().await;
        let order = AudioOrder::accept(&self.model, content_type, body)?;
        let id = self.requests.fetch_add(1, Ordering::Relaxed);
        let mut answer = self.engine.submit(at, order.work.request(id));
        whole(&mut answer).await?;
        Ok((self::content_type(JSON), order.document()).into_response())
    }

    /// Returns the block hashes by which the prefix cache identifies a request, including its answer, which is known in
    /// advance; empty without a prefix cache.
    fn blocks(&self, request: &ApiRequest, order: &Order) -> Arc<[u64]> {
        let Some(cache) = self.kv_cache.filter(|cache| cache.prefix_cache) else { return Arc::default() };
        let parts = dialect::prompt(order.api, request).into_iter().flat_map(|(parts, _)| parts);
        let template = iter::repeat_n(TEMPLATE_TOKEN, dialect::own_template_tokens(order.api));
        let prompt = template.chain(parts.flat_map(|words| words.tokens.iter().copied()));
        // Other weights make other keys and values of the same tokens.
        let adapter = request.model.as_deref().filter(|name| self.model.adapters.has(name));
        let salt = adapter.map_or(0, |name| fnv1a(name.as_bytes()));
        let tokens = prompt.chain(writer::answer_tokens().take(order.output as usize));
        blocks_of(tokens.map(|token| token ^ salt), cache.block_size)
    }

    /// Loads the adapter that a request names, if that has not been done yet, and returns the time that it took.
    async fn load_adapter(&self, name: Option<&str>) -> Duration {
        let wait = self.model.adapters.wait_for(name);
        if !wait.is_zero() {
            sleep(wait).await;
        }
        wait
    }

    /// Loads or unloads an adapter on request.
    async fn adapter(&self, which: AdapterCall, call: Call) -> Page {
        let Ok(body) = Bytes::from_request(call, &()).await else {
            return Refusal::bad(None, "the body of the request cannot be read".into()).into();
        };
        match self.model.adapters.call(which, self.model.name(), &body) {
            Ok((page, time)) => {
                sleep(time).await;
                page
            }
            Err(refusal) => refusal.into(),
        }
    }

    async fn metrics(&self) -> Page {
        match self.engine.counters().await {
            Some(counters) => self.model.metrics(&counters, self.kv_cache),
            None => Refusal::gone().into(),
        }
    }
}

impl IntoResponse for Page {
    fn into_response(self) -> Response {
        let mut response = (self.status, content_type(self.content_type), self.body).into_response();
        if let Some(methods) = self.allow {
            response.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
        }
        response
    }
}

const fn content_type(name: &'static str) -> [(HeaderName, HeaderValue); 1] {
    [(CONTENT_TYPE, HeaderValue::from_static(name))]
}

/// The body of a stream. Dropping it cancels the request.
struct Stream {
    /// The events of each choice.
    events: Vec<Answer>,
    writers: ChoiceWriters,
}

impl Stream {
    fn is_over(&self) -> bool {
        self.events.iter().all(Answer::over)
    }

    /// Appends the next event of each choice that has one. Returns the number of events; `None` if the engine has stopped.
    fn take_round(&mut self, cx: &mut Context<'_>, out: &mut String) -> Option<usize> {
        let Self { events, writers } = self;
        let mut taken = 0;
        for (choice, answer) in events.iter_mut().enumerate().filter(|(_, answer)| !answer.over()) {
            let Poll::Ready(event) = answer.poll_next(cx) else { continue };
            let event = event?;
            if choice == 0 {
                writers.cached(event.cached_tokens);
            }
            writers.event(out, choice, event.tokens, event.finished);
            taken += 1;
        }
        Some(taken)
    }
}

impl http_body::Body for Stream {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.is_over() {
            return Poll::Ready(None);
        }
        let mut out = String::with_capacity(512);
        while out.len() < MAX_FRAME {
            match self.take_round(cx, &mut out) {
                Some(0) => break,
                // Hidden reasoning makes no event.
                Some(_) => {}
                None if out.is_empty() => {
                    return Poll::Ready(Some(Err(io::Error::other("the engine stopped"))));
                }
                None => break,
            }
        }
        if out.is_empty() { Poll::Pending } else { Poll::Ready(Some(Ok(Frame::data(out.into())))) }
    }

    fn is_end_stream(&self) -> bool {
        self.is_over()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

#[cfg(test)]
mod tests;
