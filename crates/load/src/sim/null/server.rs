//! The logic of the null server: maps requests to replies, without any I/O.

use super::Settings;
use super::answers::{Answers, Events, Kind};
use super::http::Request;
use crate::sim::dialect::TextApi;
use crate::sim::metrics::Counters;
use crate::sim::request::Discarded;
use crate::sim::rules::{Order, Page, Route, ServedModel};
use crate::sim::writer::{self, Thought};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// The state shared by all connections. One thread serves them, so the lock is never contended.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) settings: Settings,
    model: ServedModel,
    /// The beginnings of events, in the order of [`TextApi::ALL`].
    heads: [String; TextApi::ALL.len()],
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
    /// An answer of the model.
    Answer(Order),
    /// Any other response.
    Page(Page),
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
        let model = ServedModel::new(&settings.model, settings.max_model_len);
        let heads = TextApi::ALL.map(|api| model.head(api, 0, true, model.created));
        let state = State { counters: Counters::new(), answers: Answers::default() };
        Self { settings, model, heads, state: Mutex::new(state) }
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
    pub(super) fn head(&self, api: TextApi) -> &str {
        &self.heads[api as usize]
    }

    /// Returns the events of a stream up to its last token.
    pub(super) fn events(&self, order: &Order) -> Arc<Events> {
        let Order { api, input, output, choices, options, .. } = *order;
        let continuous = (options.include_usage && options.continuous_usage_stats).then_some(input);
        let kind = Kind { api, output_tokens: output, choices, continuous };
        self.state().answers.events(kind, self.head(api))
    }

    /// Formats an answer that does not stream.
    pub(super) fn document(&self, order: &Order) -> String {
        let head = self.model.head(order.api, 0, false, self.model.created);
        writer::document(order, &head, order.output, None, Thought::default())
    }

    /// Returns the reply to a request.
    pub(super) fn reply(&self, request: &Request<'_>) -> Reply {
        match self.model.route(request.method, request.path) {
            Route::Page(page) => Reply::Page(page),
            Route::Metrics => Reply::Page(self.model.metrics(&self.state().counters, None)),
            Route::Adapter(_)
            | Route::Items(_)
            | Route::Audio
            | Route::Answer(
                TextApi::Responses | TextApi::Messages | TextApi::Tgi | TextApi::TgiStream | TextApi::Ollama,
            ) => Reply::Page(Page::not_found()),
            Route::Answer(api @ (TextApi::Chat | TextApi::Completions)) => {
                match self.model.accept::<Discarded>(api, &request.body) {
                    Ok((_, order)) => Reply::Answer(order),
                    Err(refusal) => Reply::Page(refusal.page(api)),
                }
            }
        }
    }
}
