//! A sweep on the bare engine model: no HTTP, no clock, no tasks. The same search, arrivals, looks and statistics as any other
//! sweep, some hundred times as fast: for finding out how good the search is on servers whose truth is known.

use super::ended::StepSoFar;
use super::looks::{Looks, TICK, drain};
use super::tally::StepTally;
use crate::client::config::Api;
use crate::level::Control;
use crate::load::lag::OwnDelay;
use crate::plan::{MAIN, Plan, Timeout};
use crate::record::{Failure, Finished, Outcome, Phase, Record, TokenSource};
use crate::search::{Ask, Next};
use crate::sim::engine::blocks::blocks_of;
use crate::sim::engine::{Emission, KvCache, Model, Request};
use crate::sim::router::{TEMPLATE_TOKEN, TEMPLATE_TOKENS};
use crate::stats::step::{Abort, Step};
use crate::units::Fraction;
use crate::workload::chain::{Recipe, Start, Text};
use crate::workload::config::{Cache, Source};
use crate::workload::data::Counter;
use crate::workload::draw::{Chains, StepKey};
use crate::workload::sources::Prompts;
use crate::workload::traffic::Traffic;
use anyhow::{Context, Result, bail};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Measures all steps of a plan's search on its simulated server, without a client: what a perfect one would have seen.
///
/// Requests find the server empty at the start (there is no warm-up), and time is exact, where the same plan with
/// `--virtual-time` has a grain of 1 ms.
///
/// # Errors
/// The plan's server is not simulated, its search has no end of its own, or its workload cannot be drawn.
pub fn steps(plan: &Plan) -> Result<Vec<Step>> {
    let search = plan.searcher().map_err(anyhow::Error::msg)?;
    let mut sweep = Bare::new(plan)?;
    while let Next::Measure(ask) = search.next(MAIN, sweep.steps()) {
        sweep.measure(ask)?;
    }
    Ok(sweep.steps)
}

/// A sweep on the bare model that is driven from outside: another search than the plan's own can be tried on it.
#[derive(Debug)]
pub struct Bare<'a> {
    plan: &'a Plan,
    traffic: Traffic,
    model: Model,
    /// Time of the sweep, and of the model.
    now: Duration,
    steps: Vec<Step>,
}

/// What the prefix cache knows a request by: the tokens that its prompt would have over HTTP, in the same order, each named by
/// a number. Empty where there is no prefix cache.
fn blocks(plan: &Plan, kv: Option<KvCache>, step: u32, recipe: &Recipe) -> Arc<[u64]> {
    let Some(kv) = kv.filter(|kv| kv.prefix_cache) else { return Arc::default() };
    let template = if plan.server.api == Api::Chat { TEMPLATE_TOKENS } else { 0 };
    let (Source::Prompts(Prompts::Synthetic(s)), Text::Words { group }) =
        (&plan.workload.source, &recipe.text)
    else {
        return Arc::default();
    };
    let shared = s.shared_prefix.filter(|_| plan.workload.cache == Cache::Warm);
    // A prompt too short for the whole prefix has its beginning, and a word of its own.
    let room = u64::from(recipe.input_tokens).saturating_sub(template as u64 + 1);
    let shared = shared.map_or(0, |p| u64::from(p.tokens.get()).min(room));
    // A prompt has at least one word of its own, and the answer behind it is nobody else's either.
    let least = template as u64 + shared + u64::from(shared > 0);
    let all = u64::from(recipe.input_tokens).max(least) + u64::from(recipe.output_tokens);
    let of_group = (0..shared).map(|i| (1 << 62) | (u64::from(*group) << 32) | i);
    let own = (0..all.saturating_sub(template as u64 + shared))
        .map(|i| (u64::from(step) << 52) ^ (recipe.id << 22) ^ i);
    blocks_of(std::iter::repeat_n(TEMPLATE_TOKEN, template).chain(of_group).chain(own), kv.block_size)
}

/// A step that runs. Times count from its start.
struct Load {
    /// The step's number.
    step: u32,
    chains: Chains,
    /// The next request of an open loop.
    next: Option<(Duration, Recipe)>,
    /// Slots of a closed loop that are free, by when they became so.
    idle: VecDeque<Duration>,
    open: HashMap<u64, Open>,
    /// When open requests run out of time, in order; some are over by then.
    deadlines: VecDeque<(Duration, u64)>,
    measured_open: u64,
    settle: Duration,
    window: Duration,
    ask: Ask,
    /// When the sending ended.
    sent_all: Option<Duration>,
    abort: Option<(Abort, Duration)>,
    client_limit: bool,
    closed: bool,
    /// Whether answers come in one piece.
    whole: bool,
    /// How long a request may take.
    timeout: Timeout,
    /// Of a closed loop: the time between two requests at the least, and when the next may be sent.
    gap: Duration,
    paced: Duration,
}

struct Open {
    record: Record,
    gaps_us: Vec<u32>,
    last: Option<Duration>,
}

impl<'a> Bare<'a> {
    /// The plan's simulated server, empty, at time zero.
    ///
    /// # Errors
    /// The plan's server is not simulated, or does not start.
    pub fn new(plan: &'a Plan) -> Result<Self> {
        plan.check_virtual()?;
        let sim = plan.simulated()?.context("the plan has no simulated server")?;
        sim.starts().map_err(anyhow::Error::msg)?;
        anyhow::ensure!(sim.faults.is_empty(), "the engine by itself has no HTTP, and so plays no faults");
        anyhow::ensure!(
            sim.reasoning.is_none(),
            "the engine by itself has no HTTP, and so hides no reasoning"
        );
        Self::on(plan, sim.build())
    }

    /// An engine that no preset describes, in place of the plan's server.
    ///
    /// # Errors
    /// A file of the plan's workload cannot be read, or it has conversations, which need answers.
    pub fn on(plan: &'a Plan, model: Model) -> Result<Self> {
        let traffic = Traffic::open(&plan.workload, &Counter::default())?;
        if plan.workload.control() == Control::Sessions {
            bail!("the bare model has no answers that a conversation could go on with");
        }
        Ok(Self { plan, traffic, model, now: Duration::ZERO, steps: Vec::new() })
    }

    /// The steps measured so far.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Measures one more step, after those so far.
    ///
    /// # Errors
    /// The workload cannot be drawn at this level.
    pub fn measure(&mut self, ask: Ask) -> Result<&Step> {
        self.measure_each(ask, |_| {})
    }

    /// The same, and tells every measured request of the step.
    ///
    /// # Errors
    /// As [`Bare::measure`].
    pub fn measure_each(&mut self, ask: Ask, mut each: impl FnMut(&Record)) -> Result<&Step> {
        let number = self.steps.len() as u32 + 1;
        let key = StepKey { seed: self.plan.seed, series: MAIN.into(), step: number };
        let chains = Chains::new(&self.traffic, &key, ask.level).map_err(anyhow::Error::msg)?;
        let timeout = self.plan.step_timeout(&self.steps);
        let mut load = Load::new(chains, ask, number, self.plan, timeout);
        let mut tally = StepTally::new(self.plan.slo.as_slice());
        let mut looks = Looks::new(&ask);
        let started = self.now;
        while !(load.sent_all.is_some() && load.open.is_empty()) {
            let at = self.next_time(&load, &looks, started);
            self.pass(at, &mut load, &mut tally, started);
            self.look(at, &mut load, &mut looks, &tally);
            load.end_sending(at, started + at, &mut self.model, &mut tally);
        }
        let without = tally.ended_without().map(|why| (why, self.now - started));
        load.abort = load.abort.or(without);
        let measured = tally.kept.iter().filter(|r| r.phase == Phase::Measure);
        measured.map(|r| r.record()).for_each(|r| each(&r));
        let step = self.so_far(&load, started).conclude(&mut tally);
        self.steps.push(step);
        Ok(&self.steps[self.steps.len() - 1])
    }

    /// When something happens next.
    fn next_time(&self, load: &Load, looks: &Looks, started: Duration) -> Duration {
        let sending = load.sent_all.is_none();
        let end = load.settle + load.window;
        let look = looks.due().map(|share| on_tick(load.settle + load.window.mul_f64(share)));
        [
            self.model.next_event().map(|t| t.saturating_sub(started)),
            load.next.as_ref().map(|(due, _)| *due).filter(|_| sending),
            load.next_free().filter(|_| sending),
            look.filter(|_| sending && load.abort.is_none()),
            load.deadlines.front().map(|d| d.0),
            Some(if sending && self.now < started + end { end } else { end + load.ask.tail })
                .filter(|_| sending),
            load.sent_all.map(|t| t + drain(&load.ask, load.abort.map(|a| a.0))),
        ]
        .into_iter()
        .flatten()
        .min()
        .map_or(end, |t| t.max(self.now.saturating_sub(started)))
    }

    /// Lets time run to `at`: tokens come, requests run out of time, and the next ones are sent.
    fn pass(&mut self, at: Duration, load: &mut Load, tally: &mut StepTally, started: Duration) {
        self.now = started + at;
        for emission in self.model.advance(self.now) {
            load.token(emission, started, tally);
        }
        while let Some((deadline, id)) = load.deadlines.front().copied().filter(|d| d.0 <= at) {
            load.deadlines.pop_front();
            if let Some(mut open) = load.open.remove(&id) {
                self.model.cancel(self.now, id);
                let outcome = if load.timeout.is_error { Outcome::Failed } else { Outcome::Cut };
                (open.record.outcome, open.record.failure) = (outcome, Some(Failure::Timeout));
                load.over(open, deadline, tally);
            }
        }
        while load.sent_all.is_none() {
            let over = at >= load.settle + load.window && load.measured_open == 0;
            let Some((due, recipe)) = load.take_due(at).filter(|_| !over) else { break };
            load.send(due, &recipe, self.plan, tally);
            if load.open.contains_key(&recipe.id) {
                let blocks = blocks(self.plan, self.model.kv_cache(), load.step, &recipe);
                let request =
                    Request::new(recipe.id, recipe.input_tokens, recipe.output_tokens).with_blocks(blocks);
                self.model.arrive(started + due, request);
            }
        }
    }

    fn look(&self, at: Duration, load: &mut Load, looks: &mut Looks, tally: &StepTally) {
        let most = self.plan.step.max_error_share.map_or(1.0, Fraction::get);
        if tally.all_failed(load.open.len() as u64) {
            load.abort.get_or_insert((Abort::AllFailed, at));
        }
        if tally.fails_beyond(most, load.open.len() as u64) {
            load.abort.get_or_insert((Abort::Errors, at));
        }
        // As the director does: not before its tick.
        let due = looks.due().map(|share| on_tick(load.settle + load.window.mul_f64(share)));
        let share = at.saturating_sub(load.settle).as_secs_f64() / load.window.as_secs_f64();
        if load.abort.is_none() && due.is_some_and(|due| at >= due) && looks.take(share.min(1.0), tally) {
            load.abort = Some((Abort::Gross, at));
        }
    }

    fn so_far(&self, load: &Load, started: Duration) -> StepSoFar<'_> {
        StepSoFar {
            plan: self.plan,
            ask: load.ask,
            series: MAIN,
            number: load.step,
            earlier: &self.steps,
            started_at: String::new(),
            started,
            ended: self.now,
            settle: load.settle,
            window: load.window,
            abort: load.abort,
            // Nothing lies between the engine and its records.
            own: OwnDelay { lag_p99: Some(Duration::ZERO), share: None },
            client_limit: load.client_limit,
        }
    }
}

impl Load {
    fn new(mut chains: Chains, ask: Ask, step: u32, plan: &Plan, timeout: Timeout) -> Self {
        let gap = plan.pace(ask.kind).map_or(Duration::ZERO, |pace| Duration::from_secs_f64(1.0 / pace));
        let closed = ask.level.control == Control::Concurrency;
        let slots = if closed { ask.level.value as usize } else { 0 };
        let next = if closed { None } else { draw(&mut chains) };
        Self {
            step,
            next,
            chains,
            idle: vec![Duration::ZERO; slots].into(),
            open: HashMap::new(),
            deadlines: VecDeque::new(),
            measured_open: 0,
            settle: ask.settle,
            window: ask.measure,
            ask,
            whole: !plan.server.stream,
            timeout,
            gap,
            paced: Duration::ZERO,
            sent_all: None,
            abort: None,
            client_limit: false,
            closed,
        }
    }

    /// When the next request of a closed loop is due, where a slot is free: not before its pace allows it.
    fn next_free(&self) -> Option<Duration> {
        self.idle.front().map(|freed| (*freed).max(self.paced))
    }

    /// The next request, if it is due by now.
    fn take_due(&mut self, now: Duration) -> Option<(Duration, Recipe)> {
        if self.closed {
            let due = self.next_free().filter(|due| *due <= now)?;
            self.idle.pop_front();
            self.paced = due + self.gap;
            return draw(&mut self.chains).map(|(_, recipe)| (due, recipe));
        }
        let due = self.next.take_if(|(due, _)| *due <= now)?;
        self.next = draw(&mut self.chains);
        Some(due)
    }

    fn send(&mut self, due: Duration, recipe: &Recipe, plan: &Plan, tally: &mut StepTally) {
        let phase = match due {
            t if t < self.settle => Phase::Settle,
            t if t < self.settle + self.window => Phase::Measure,
            _ => Phase::Tail,
        };
        let mut record = Record::due(recipe.id, phase, due);
        (record.input_asked, record.output_asked) = (recipe.input_tokens, recipe.output_tokens);
        let open = Open { record, gaps_us: Vec::new(), last: None };
        self.measured_open += u64::from(phase == Phase::Measure);
        if self.open.len() >= plan.step.max_in_flight as usize {
            self.client_limit = true;
            let mut open = open;
            (open.record.outcome, open.record.failure) = (Outcome::Failed, Some(Failure::ClientLimit));
            self.over(open, due, tally);
            return;
        }
        self.deadlines.push_back((due + self.timeout.after, recipe.id));
        self.open.insert(
            recipe.id,
            Open { record: Record { sent: Some(due), attempts: 1, ..open.record }, ..open },
        );
    }

    fn token(&mut self, emission: Emission, started: Duration, tally: &mut StepTally) {
        let Some(open) = self.open.get_mut(&emission.id) else { return };
        let at = emission.at.saturating_sub(started);
        if emission.tokens == 0 {
            // Longer than the whole KV cache: over HTTP a 400.
            let Some(mut open) = self.open.remove(&emission.id) else { return };
            (open.record.outcome, open.record.failure) = (Outcome::Failed, Some(Failure::ClientError));
            return self.over(open, at, tally);
        }
        let r = &mut open.record;
        r.cached_tokens = emission.cached_tokens;
        if let Some(last) = open.last {
            open.gaps_us.push(u32::try_from((at - last).as_micros()).unwrap_or(u32::MAX));
        } else {
            (r.headers, r.first_event, r.first_token, r.first_content) =
                (Some(at), Some(at), Some(at), Some(at));
            r.first_event_tokens = Some(emission.tokens);
        }
        (open.last, r.last_token) = (Some(at), Some(at));
        r.events += 1;
        r.output_tokens = Some(r.output_tokens.unwrap_or(0) + emission.tokens);
        if emission.finished
            && let Some(mut open) = self.open.remove(&emission.id)
        {
            open.record.outcome = Outcome::Ok;
            open.record.input_tokens = Some(open.record.input_asked);
            (open.record.token_source, open.record.status) = (Some(TokenSource::Usage), Some(200));
            open.record.finish = Some("length".into());
            self.over(open, at, tally);
        }
    }

    /// A request is over: its record goes home.
    fn over(&mut self, mut open: Open, at: Duration, tally: &mut StepTally) {
        open.record.end = at;
        if self.whole {
            let r = &mut open.record;
            (r.first_event, r.first_token, r.first_content, r.first_event_tokens) = (None, None, None, None);
            // Nothing comes before all of it does.
            r.last_token = r.last_token.filter(|_| r.ok());
            open.gaps_us.clear();
        }
        self.measured_open -= u64::from(open.record.phase == Phase::Measure);
        if self.closed {
            self.idle.push_back(at);
        }
        tally.add(&Finished::new(open.record, open.gaps_us));
    }

    /// Stops sending where the step is over, and cuts off what is still open when the drain is.
    fn end_sending(&mut self, at: Duration, now: Duration, model: &mut Model, tally: &mut StepTally) {
        let end = self.settle + self.window;
        let done = at >= end && (self.measured_open == 0 || at >= end + self.ask.tail);
        if self.abort.is_some() || done {
            self.sent_all.get_or_insert(at);
        }
        if self.sent_all.is_some_and(|t| at >= t + drain(&self.ask, self.abort.map(|a| a.0))) {
            let mut open: Vec<u64> = self.open.keys().copied().collect();
            open.sort_unstable();
            for id in open {
                model.cancel(now, id);
                if let Some(cut) = self.open.remove(&id) {
                    self.over(cut, at, tally);
                }
            }
        }
    }
}

/// When the director looks up: at the next of its ticks.
fn on_tick(at: Duration) -> Duration {
    let ticks = at.as_nanos().div_ceil(TICK.as_nanos());
    TICK.saturating_mul(u32::try_from(ticks).unwrap_or(u32::MAX))
}

fn draw(chains: &mut Chains) -> Option<(Duration, Recipe)> {
    let chain = chains.next()?;
    let at = match chain.start {
        Start::At(at) => at,
        Start::WhenFree => Duration::ZERO,
    };
    chain.turns.into_iter().next().map(|turn| (at, turn.request))
}
