//! A sweep on the bare engine model, without HTTP, clock or tasks. It uses the search, arrivals, looks and statistics
//! of any other sweep and is some hundred times as fast, to find out how accurate the search is on servers whose true
//! goodput is known.

mod blocks;
pub mod boundary;
mod choices;
mod lengths;
mod load;

use super::early_stop::{Looks, TICK, drain, failing};
use super::step_context::{EarlyEnd, StepContext};
use super::tally::StepTally;
use anyhow::{Context, Result, bail};
use blocks::blocks;
use boundary::is_met;
use goodput_core::level::{Control, Level};
use goodput_core::record::{Failure, Outcome, Phase, Record};
use goodput_engine::audio::Transcription;
use goodput_engine::config::{Vision, image_tokens};
use goodput_engine::{EncodedImage, Model, Request};
use goodput_load::load::lag::OwnDelay;
use goodput_plan::{MAIN, Plan};
use goodput_stats::search::{Ask, Ends, Next};
use goodput_stats::stats::step::{Abort, Step, StepKind};
use goodput_workload::chain::Recipe;
use goodput_workload::config::Source;
use goodput_workload::data::Counter;
use goodput_workload::draw::{Chains, StepKey};
use goodput_workload::images::{PlannedImage, TurnImages};
use goodput_workload::sources::Prompts;
use goodput_workload::traffic::Traffic;
pub(crate) use lengths::Lengths;
use lengths::Requests;
use load::{DueRequest, ModelLoad};
use std::sync::Arc;
use std::time::Duration;

/// Measures all steps of a plan's search on its simulated server, without a client, as a perfect client would.
///
/// Requests find the server empty at the start (there is no warm-up), and time is exact, whereas `--virtual-time` has a
/// resolution of 1 ms.
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

/// A sweep on the bare model that the caller drives step by step, to try a search other than that of the plan.
#[derive(Debug)]
pub struct Bare<'a> {
    plan: &'a Plan,
    traffic: Traffic,
    lengths: Lengths,
    /// The encoder of images.
    vision: Option<Vision>,
    model: Model,
    /// Current time of the sweep, and of the model.
    now: Duration,
    steps: Vec<Step>,
}

impl<'a> Bare<'a> {
    /// Makes a sweep on the plan's simulated server, empty, at time zero.
    ///
    /// # Errors
    /// The plan's server is not simulated, or does not start.
    pub fn new(plan: &'a Plan) -> Result<Self> {
        plan.check_virtual()?;
        let sim = plan.simulated()?.context("the plan has no simulated server")?;
        sim.check_startup().map_err(anyhow::Error::msg)?;
        anyhow::ensure!(sim.faults.is_empty(), "the engine by itself has no HTTP, and so plays no faults");
        anyhow::ensure!(sim.network.0.is_zero(), "the engine by itself has no network");
        anyhow::ensure!(
            sim.reasoning.is_none(),
            "the engine by itself has no HTTP, and so hides no reasoning"
        );
        Self::on(plan, sim.build())
    }

    /// Makes a sweep on another engine than the plan's server, such as one that no preset describes.
    ///
    /// # Errors
    /// A file of the plan's workload cannot be read, or it has conversations that are not synthetic: their text is
    /// needed.
    pub fn on(plan: &'a Plan, model: Model) -> Result<Self> {
        Ok(Self::drawing(plan, traffic(plan)?, Lengths::AS_PLANNED, model))
    }

    /// Makes a sweep like [`Bare::on`], with the plan's requests from files that are open already ([`traffic`]), but of other
    /// lengths.
    pub(crate) fn drawing(plan: &'a Plan, traffic: Traffic, lengths: Lengths, model: Model) -> Self {
        let model = if plan.server.item().is_some() { model.with_items() } else { model };
        let vision = plan.simulated().ok().flatten().and_then(|sim| sim.vision);
        Self { plan, traffic, lengths, vision, model, now: Duration::ZERO, steps: Vec::new() }
    }

    /// Returns the steps measured so far.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns the current time of the sweep: the start of the next step.
    pub const fn now(&self) -> Duration {
        self.now
    }

    /// Returns the server, for changes of its speed between steps.
    pub const fn model_mut(&mut self) -> &mut Model {
        &mut self.model
    }

    /// Measures one more step.
    ///
    /// # Errors
    /// The workload cannot be drawn at this level.
    pub fn measure(&mut self, ask: Ask) -> Result<&Step> {
        self.measure_each(ask, |_| {})
    }

    /// Measures one more step at a rate, which nothing ends before its time.
    ///
    /// # Errors
    /// As [`Bare::measure`].
    pub fn measure_whole(&mut self, rate: f64, settle: Duration, measure: Duration) -> Result<&Step> {
        self.measure(whole(self.plan, Level::rate(rate), StepKind::List, [settle, measure]))
    }

    /// Measures one more step at a rate, and returns true if it meets the limits of one tier, or of all of them, as [`is_met`]
    /// tells. It ends before its time only with so many misses that nothing after them could make it meet.
    ///
    /// # Errors
    /// As [`Bare::measure`].
    pub fn meets(
        &mut self,
        rate: f64,
        times: [Duration; 2],
        tier: Option<&str>,
        failed: f64,
    ) -> Result<bool> {
        let ask = whole(self.plan, Level::rate(rate), StepKind::List, times);
        Ok(is_met(self.measure(Ask { ends: Ends::WhenFarOver, ..ask })?, tier, failed))
    }

    /// Measures one more step and passes every measured request to `each`.
    ///
    /// # Errors
    /// As [`Bare::measure`].
    pub fn measure_each(&mut self, ask: Ask, each: impl FnMut(&Record)) -> Result<&Step> {
        let number = self.steps.len() as u32 + 1;
        self.measure_drawn(StepKey { seed: self.plan.seed, series: MAIN.into(), step: number }, ask, each)
    }

    /// Measures one more step with the requests of a step of the plan's own sweep, the same as were sent there.
    ///
    /// # Errors
    /// As [`Bare::measure`].
    pub fn measure_again(&mut self, series: &str, step: u32, ask: Ask) -> Result<&Step> {
        self.measure_drawn(StepKey { seed: self.plan.seed, series: series.into(), step }, ask, |_| {})
    }

    fn measure_drawn(&mut self, key: StepKey, ask: Ask, mut each: impl FnMut(&Record)) -> Result<&Step> {
        let number = self.steps.len() as u32 + 1;
        let chains = Chains::new(&self.traffic, &key, ask.level).map_err(anyhow::Error::msg)?;
        // The baseline measures single requests, so think times do not matter.
        let chains = if ask.kind == StepKind::Baseline { chains.without_think_times() } else { chains };
        let timeout = self.plan.step_timeout(&self.steps);
        let requests = Requests { chains, lengths: self.lengths };
        let mut load = ModelLoad::new(requests, ask, number, self.plan, timeout);
        let mut tally = StepTally::new(self.plan.slo.as_slice());
        let mut looks = Looks::new(&ask);
        let started = self.now;
        while !(load.sent_all.is_some() && load.open.is_empty()) {
            let at = self.next_time(&load, &looks, started);
            self.pass(at, &mut load, &mut tally, started);
            self.look(at, &mut load, &mut looks, &tally);
            load.end_sending(at, started + at, &mut self.model, &mut tally);
        }
        let without = tally.ended_without().map(|why| EarlyEnd { why, at: self.now - started });
        load.abort = load.abort.or(without);
        let measured = tally.kept.iter().filter(|r| r.phase == Phase::Measure);
        measured.map(|r| r.record()).for_each(|r| each(&r));
        let step = self.context(&load, started).conclude(&mut tally);
        self.steps.push(step);
        Ok(&self.steps[self.steps.len() - 1])
    }

    /// Returns the time of the next event.
    fn next_time(&self, load: &ModelLoad, looks: &Looks, started: Duration) -> Duration {
        let sending = load.sent_all.is_none();
        let end = load.settle + load.window;
        let look = looks.due().map(|share| on_tick(load.settle + load.window.mul_f64(share)));
        [
            self.model.next_event().map(|t| t.saturating_sub(started)),
            load.next_due().filter(|_| sending),
            look.filter(|_| sending && load.abort.is_none()),
            load.deadlines.front().map(|d| d.0),
            Some(if sending && self.now < started + end { end } else { end + load.ask.tail })
                .filter(|_| sending),
            load.sent_all.map(|t| t + drain(&load.ask, load.abort.map(|end| end.why))),
        ]
        .into_iter()
        .flatten()
        .min()
        .map_or(end, |t| t.max(self.now.saturating_sub(started)))
    }

    /// Advances time to `at`: tokens arrive, requests time out, and due requests are sent.
    fn pass(&mut self, at: Duration, load: &mut ModelLoad, tally: &mut StepTally, started: Duration) {
        self.now = started + at;
        for emission in self.model.advance(self.now) {
            load.token(emission, started, tally);
        }
        while let Some((deadline, id)) = load.deadlines.front().copied().filter(|d| d.0 <= at) {
            load.deadlines.pop_front();
            if let Some(mut open) = load.open.remove(&id) {
                load.ids.cancel(&mut self.model, self.now, id, open.choices.len());
                let outcome = if load.timeout.is_error { Outcome::Failed } else { Outcome::Cut };
                (open.record.outcome, open.record.failure) = (outcome, Some(Failure::Timeout));
                load.over(open, deadline, tally);
            }
        }
        while load.sent_all.is_none() {
            let over = at >= load.settle + load.window && load.measured_open == 0;
            let Some(due) = load.take_due(at).filter(|_| !over) else { break };
            let DueRequest { at, chain, turn, .. } = &due;
            let (at, recipe) = (*at, &chain.turns[*turn].request);
            let turns = &chain.turns[..=*turn];
            let blocks = blocks(self.plan, self.lengths, self.model.kv_cache(), load.step, turns);
            let request = engine_request(recipe, self.vision).with_blocks(blocks);
            let choices = self.plan.choices(chain.turns[*turn].class).get().into();
            if load.send(due, self.plan, tally) {
                load.ids.arrive(&mut self.model, started + at, request, choices);
            }
        }
    }

    fn look(&self, at: Duration, load: &mut ModelLoad, looks: &mut Looks, tally: &StepTally) {
        let failing = failing(self.plan, tally, load.open.len() as u64).map(|why| EarlyEnd { why, at });
        load.abort = load.abort.or(failing);
        // Like the director, which looks only at its ticks.
        let due = looks.due().map(|share| on_tick(load.settle + load.window.mul_f64(share)));
        let share = at.saturating_sub(load.settle).as_secs_f64() / load.window.as_secs_f64();
        if load.abort.is_none() && due.is_some_and(|due| at >= due) && looks.take(share.min(1.0), tally) {
            load.abort = Some(EarlyEnd { why: Abort::Gross, at });
        }
    }

    fn context(&self, load: &ModelLoad, started: Duration) -> StepContext<'_> {
        StepContext {
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
            // There is no client that could add a delay.
            client_delay: OwnDelay { lag_p99: Some(Duration::ZERO), share: None },
            halts: Vec::new(),
            workers: Vec::new(),
            client_limit: load.client_limit,
        }
    }
}

/// Returns the request that an engine gets: with the tokens of its items, of its audio, or of its images and the time to encode them.
pub fn engine_request(recipe: &Recipe, vision: Option<Vision>) -> Request {
    if let Some(length) = recipe.audio() {
        return Transcription::of(length).request(recipe.id);
    }
    let sent = recipe.images().map_or(&[][..], TurnImages::sent);
    let input = recipe.input_tokens.saturating_add(tokens_of(sent));
    Request::new(recipe.id, input, recipe.output_tokens)
        .with_items(recipe.item_tokens())
        .with_images(encoded_images(recipe, vision))
}

/// Returns the tokens of images.
fn tokens_of(images: &[PlannedImage]) -> u32 {
    let tokens = images.iter().map(|image| image_tokens(image.size.width, image.size.height));
    tokens.fold(0, u32::saturating_add)
}

/// Returns the images that an encoder reads: those of earlier turns in the history, which a prefix cache has from its beginning on, and new
/// ones, which it does not have.
fn encoded_images(recipe: &Recipe, vision: Option<Vision>) -> Arc<[EncodedImage]> {
    let (Some(images), Some(vision)) = (recipe.images(), vision) else { return Arc::default() };
    let encoded = |start| {
        move |image: &PlannedImage| {
            let tokens = image_tokens(image.size.width, image.size.height);
            EncodedImage { start, time: vision.encode_time(tokens) }
        }
    };
    let resent = images.resent().iter().map(encoded(0));
    resent.chain(images.added().iter().map(encoded(u32::MAX))).collect()
}

/// Opens the files of a plan's workload, to draw its requests without their text.
///
/// # Errors
/// As [`Bare::on`].
pub(crate) fn traffic(plan: &Plan) -> Result<Traffic> {
    let synthetic = matches!(plan.workload.source, Source::Prompts(Prompts::Synthetic(_)));
    if plan.workload.control() == Control::Sessions && !synthetic {
        bail!("the bare model has no text, which conversations of a data set or a mix need");
    }
    Traffic::open(&plan.workload, &Counter::default())
}

/// Returns a step that nothing ends before its time.
pub(crate) fn whole(plan: &Plan, level: Level, kind: StepKind, [settle, measure]: [Duration; 2]) -> Ask {
    Ask {
        level,
        kind,
        settle,
        measure,
        extend: false,
        tail: plan.step.tail(),
        drain: plan.timeout(),
        ends: Ends::AtItsTime,
        confidence: 0.95,
    }
}

/// Returns the time of the director's next tick at or after `at`.
fn on_tick(at: Duration) -> Duration {
    let ticks = at.as_nanos().div_ceil(TICK.as_nanos());
    TICK.saturating_mul(u32::try_from(ticks).unwrap_or(u32::MAX))
}
