//! The requests of a running step: their send times and their records.

use super::super::early_stop::drain;
use super::super::step_context::EarlyEnd;
use super::super::tally::StepTally;
use super::choices::{EngineIds, OpenChoices};
use super::lengths::Requests;
use goodput_core::level::Control;
use goodput_core::record::{Failure, Finished, Outcome, Phase, Record, TokenSource};
use goodput_engine::{Emission, IdMap, Model};
use goodput_plan::{Plan, Timeout};
use goodput_stats::search::Ask;
use goodput_workload::chain::Chain;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// A running step. Times count from its start.
pub(super) struct ModelLoad {
    /// The step's number.
    pub(super) step: u32,
    requests: Requests,
    /// The next chain of an open loop.
    next: Option<(Duration, Chain)>,
    /// Later turns of conversations whose previous turn was answered, by due time and request number.
    later: BTreeMap<(Duration, u64), DueRequest>,
    /// Times at which the free slots of a closed loop became free.
    idle: VecDeque<Duration>,
    pub(super) open: IdMap<OpenRequest>,
    pub(super) ids: EngineIds,
    /// Timeouts of open requests, in order of time. Some of these requests have already finished.
    pub(super) deadlines: VecDeque<(Duration, u64)>,
    pub(super) measured_open: u64,
    pub(super) settle: Duration,
    pub(super) window: Duration,
    pub(super) ask: Ask,
    /// Time at which sending ended.
    pub(super) sent_all: Option<Duration>,
    pub(super) abort: Option<EarlyEnd>,
    pub(super) client_limit: bool,
    closed: bool,
    /// True if answers are not streamed.
    whole: bool,
    /// Request timeout.
    pub(super) timeout: Timeout,
    /// Minimum time between two requests of a closed loop; `paced` is the earliest time for the next one.
    gap: Duration,
    paced: Duration,
}

/// A request to send: one turn of a chain.
pub(super) struct DueRequest {
    pub(super) at: Duration,
    pub(super) chain: Chain,
    /// Index of the turn.
    pub(super) turn: usize,
    /// The phase in which it is due. A measured request counts as open from the time at which its due time is known.
    phase: Phase,
}

pub(super) struct OpenRequest {
    pub(super) record: Record,
    gaps_us: Vec<u32>,
    pub(super) choices: OpenChoices,
    chain: Chain,
    turn: usize,
}

impl ModelLoad {
    pub(super) fn new(mut requests: Requests, ask: Ask, step: u32, plan: &Plan, timeout: Timeout) -> Self {
        let gap = plan.pace(ask.kind).map_or(Duration::ZERO, |pace| Duration::from_secs_f64(1.0 / pace));
        let closed = ask.level.control == Control::Concurrency;
        let slots = if closed { ask.level.value as usize } else { 0 };
        let next = if closed { None } else { requests.draw() };
        Self {
            step,
            next,
            later: BTreeMap::new(),
            requests,
            idle: vec![Duration::ZERO; slots].into(),
            open: IdMap::default(),
            ids: EngineIds::of(plan),
            deadlines: VecDeque::new(),
            measured_open: 0,
            settle: ask.settle,
            window: ask.measure,
            ask,
            whole: !plan.server.streams(),
            timeout,
            gap,
            paced: Duration::ZERO,
            sent_all: None,
            abort: None,
            client_limit: false,
            closed,
        }
    }

    /// Returns the due time of the next request of the step, if it is known.
    pub(super) fn next_due(&self) -> Option<Duration> {
        let chain = if self.closed { self.next_free() } else { self.next.as_ref().map(|(at, _)| *at) };
        [chain, self.next_turn()].into_iter().flatten().min()
    }

    /// Returns the due time of the next chain of a closed loop, if a slot is free: not before the pace allows it.
    fn next_free(&self) -> Option<Duration> {
        self.idle.front().map(|freed| (*freed).max(self.paced))
    }

    fn next_turn(&self) -> Option<Duration> {
        self.later.first_key_value().map(|((at, _), _)| *at)
    }

    /// Returns the next request, if it is due by now.
    pub(super) fn take_due(&mut self, now: Duration) -> Option<DueRequest> {
        let at = self.next_due().filter(|at| *at <= now)?;
        if self.next_turn() == Some(at) {
            return self.later.pop_first().map(|(_, due)| due);
        }
        let chain = if self.closed {
            self.idle.pop_front();
            self.paced = at + self.gap;
            self.requests.draw()?.1
        } else {
            let next = self.requests.draw();
            std::mem::replace(&mut self.next, next)?.1
        };
        let phase = self.promise(at);
        Some(DueRequest { at, chain, turn: 0, phase })
    }

    /// Returns the phase in which a request is due, and counts a measured one as open.
    fn promise(&mut self, due: Duration) -> Phase {
        let phase = match due {
            t if t < self.settle => Phase::Settle,
            t if t < self.settle + self.window => Phase::Measure,
            _ => Phase::Tail,
        };
        self.measured_open += u64::from(phase == Phase::Measure);
        phase
    }

    /// Sends a request. Returns false if the client has reached its limit of open requests.
    pub(super) fn send(&mut self, due: DueRequest, plan: &Plan, tally: &mut StepTally) -> bool {
        let DueRequest { at, chain, turn, phase } = due;
        let Some(next) = chain.turns.get(turn) else { return false };
        let (class, recipe) = (next.class, &next.request);
        let mut record = Record::due(recipe.id, phase, at);
        (record.input_asked, record.output_asked) = (recipe.input_tokens, recipe.output_tokens);
        (record.items, record.audio) = (recipe.items(), recipe.audio());
        (record.class, record.session) = (class, chain.session);
        record.turn = chain.session.map_or(0, |_| turn as u16 + 1);
        record.ask_for_choices(plan.choices(class));
        let choices = OpenChoices::new(record.choice_count());
        let mut open = OpenRequest { record, gaps_us: Vec::new(), choices, chain, turn };
        if self.open.len() >= plan.step.max_in_flight as usize {
            self.client_limit = true;
            (open.record.outcome, open.record.failure) = (Outcome::Failed, Some(Failure::ClientLimit));
            self.over(open, at, tally);
            return false;
        }
        self.deadlines.push_back((at + self.timeout.after, open.record.id));
        (open.record.sent, open.record.attempts) = (Some(at), 1);
        self.open.insert(open.record.id, open);
        true
    }

    pub(super) fn token(&mut self, emission: Emission, started: Duration, tally: &mut StepTally) {
        let (id, choice) = self.ids.split(emission.id);
        let Some(open) = self.open.get_mut(&id) else { return };
        let at = emission.at.saturating_sub(started);
        if emission.tokens == 0 {
            // The prompt is longer than the whole KV cache. Over HTTP, the server answers with a 400.
            let Some(mut open) = self.open.remove(&id) else { return };
            (open.record.outcome, open.record.failure) = (Outcome::Failed, Some(Failure::ClientError));
            return self.over(open, at, tally);
        }
        let r = &mut open.record;
        if choice == 0 {
            r.cached_tokens = emission.cached_tokens;
        }
        if let Some(gap) = open.choices.add(choice, at, emission.finished) {
            open.gaps_us.push(u32::try_from(gap.as_micros()).unwrap_or(u32::MAX));
        } else {
            if r.first_token.is_none() {
                (r.headers, r.first_event, r.first_token, r.first_content) =
                    (Some(at), Some(at), Some(at), Some(at));
            }
            r.first_event_tokens = Some(r.first_event_tokens.unwrap_or(0) + emission.tokens);
        }
        r.last_token = Some(at);
        r.events += 1;
        if r.output_asked > 0 {
            r.output_tokens = Some(r.output_tokens.unwrap_or(0) + emission.tokens);
        }
        if open.choices.have_finished()
            && let Some(mut open) = self.open.remove(&id)
        {
            open.record.outcome = Outcome::Ok;
            open.record.input_tokens = Some(open.record.input_asked);
            open.record.status = Some(200);
            if open.record.output_asked > 0 {
                open.record.token_source = Some(TokenSource::Usage);
                open.record.finish = Some("length".into());
            }
            self.over(open, at, tally);
        }
    }

    /// Finishes a request: counts its record, and schedules the next turn of its conversation if it was answered
    /// completely.
    pub(super) fn over(&mut self, mut open: OpenRequest, at: Duration, tally: &mut StepTally) {
        open.record.end = at;
        open.record.decoding = open.record.first_token.and_then(|_| open.choices.decoding(at));
        if self.whole {
            let r = &mut open.record;
            (r.first_event, r.first_token, r.first_content, r.first_event_tokens) = (None, None, None, None);
            r.decoding = None;
            // A non-streaming answer arrives as a whole.
            r.last_token = r.last_token.filter(|_| r.ok());
            open.gaps_us.clear();
        }
        self.measured_open -= u64::from(open.record.phase == Phase::Measure);
        let OpenRequest { record, gaps_us, chain, turn, .. } = open;
        match chain.turns.get(turn + 1).filter(|_| record.ok()) {
            Some(next) => {
                let (at, id) = (at + next.after, next.request.id);
                let phase = self.promise(at);
                self.later.insert((at, id), DueRequest { at, chain, turn: turn + 1, phase });
            }
            None if self.closed => self.idle.push_back(at),
            None => {}
        }
        tally.add(&Finished::new(record, gaps_us));
    }

    /// Stops sending at the end of the step, and cancels the requests that are still open at the end of the drain.
    pub(super) fn end_sending(
        &mut self,
        at: Duration,
        now: Duration,
        model: &mut Model,
        tally: &mut StepTally,
    ) {
        let end = self.settle + self.window;
        let done = at >= end && (self.measured_open == 0 || at >= end + self.ask.tail);
        if self.abort.is_some() || done {
            self.sent_all.get_or_insert(at);
        }
        if self.sent_all.is_some_and(|t| at >= t + drain(&self.ask, self.abort.map(|end| end.why))) {
            let mut open: Vec<u64> = self.open.keys().copied().collect();
            open.sort_unstable();
            for id in open {
                if let Some(cut) = self.open.remove(&id) {
                    self.ids.cancel(model, now, id, cut.choices.len());
                    self.over(cut, at, tally);
                }
            }
        }
    }
}
