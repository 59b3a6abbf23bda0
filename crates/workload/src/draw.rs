//! Lazily drawn requests of one step: an endless, seeded sequence of chains.

use super::arrivals::Times;
use super::chain::{Chain, Recipe, Start, Text, Turn};
use super::conversation::Think;
use super::part::{PartFilter, Parts, StepPart};
use super::seed::{Purpose, stream};
use super::trace::{Begin, Replay, Replayed, Start as TraceStart, Trace};
use super::traffic::{Kind, OpenedSource, Traffic};
use super::turns::Draws;
use goodput_core::level::{Control, Level};
use goodput_core::units::Rate;
use rand::RngExt;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Key of a step's random numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepKey {
    /// The plan's seed.
    pub seed: u32,
    /// Name of the series.
    pub series: String,
    /// Number of the step; 0 for warm-up before the first step.
    pub step: u32,
}

/// The chains of one step. Endless while its files can be read, so that a step can be extended. A clone continues with
/// the same chains.
#[derive(Clone)]
pub struct Chains {
    starts: Starts,
    traffic: Traffic,
    draws: Draws,
    /// Uses the shared prefixes in turn, so that warm-up reaches each of them.
    round_robin: bool,
    /// Drops think times.
    no_think: bool,
    /// Temporary increase of the arrival rate.
    surge: Option<Surge>,
    /// Reduces every prompt to its shared prefix.
    prefixes_only: bool,
    /// Chooses the chains that are wanted. The others are drawn and passed over.
    part_filter: PartFilter,
    /// Number of the next chain of the step, whichever part it falls to.
    next: u64,
    /// Number of the chain before which the step ends.
    end: u64,
}

/// A period of higher load within a step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Surge {
    /// Start of the surge, from the start of the step.
    pub from: Duration,
    /// Duration of the surge.
    pub length: Duration,
    /// Rate during the surge divided by the rate before and after it.
    pub factor: f64,
}

impl Surge {
    /// Returns when an arrival is due that would be due at `at` without the surge. Within the surge, time passes
    /// `factor` times as fast, so that arrivals of any shape keep their shape at the higher rate.
    pub fn due(&self, at: Duration) -> Duration {
        let within = self.length.mul_f64(self.factor);
        match at.checked_sub(self.from) {
            None => at,
            Some(since) if since <= within => self.from + since.div_f64(self.factor),
            Some(since) => self.from + self.length + (since - within),
        }
    }
}

/// Send times of chains.
#[derive(Clone)]
enum Starts {
    Drawn(Box<Times>),
    WhenFree,
    /// As recorded, at `speed`; in a closed loop without times.
    Recorded {
        replay: Box<Replay>,
        speed: Option<f64>,
    },
}

impl Chains {
    /// Creates the chains of a step at `level`.
    ///
    /// # Errors
    /// The workload cannot be stepped by this control, or the rate is invalid.
    pub fn new(traffic: &Traffic, key: &StepKey, level: Level) -> Result<Self, String> {
        let workload = traffic.workload();
        let closed = level.control == Control::Concurrency;
        if !closed && level.control != workload.control() {
            return Err(format!("this workload cannot be stepped by {}", level.control.name()));
        }
        let starts = match &traffic.kinds()[0].source {
            OpenedSource::Trace(trace) => {
                let speed = if closed { None } else { Some(Rate::try_from(level.value)?.get()) };
                let replay = trace.replay(replay_start(trace, key, key.step, closed));
                Starts::Recorded { replay: Box::new(replay), speed }
            }
            _ if closed => Starts::WhenFree,
            _ => {
                let rate = Rate::try_from(level.value)?;
                let rng = stream(key.seed, &key.series, key.step, Purpose::Arrivals);
                Starts::Drawn(Box::new(Times::new(workload.arrivals, rate, rng)))
            }
        };
        let draws = Draws::new(traffic, key);
        let round_robin = key.step == 0;
        Ok(Self {
            starts,
            traffic: traffic.clone(),
            draws,
            round_robin,
            no_think: false,
            surge: None,
            prefixes_only: false,
            part_filter: PartFilter::new(key, StepPart::WHOLE),
            next: 0,
            end: u64::MAX,
        })
    }

    /// Reduces the chains to one request of a single output token for every shared prefix in turn, to warm a prefix
    /// cache. Kinds without a shared prefix are skipped; there must be at least one prefix
    /// ([`Traffic::shared_prefixes`]).
    pub fn prefixes_only(self) -> Self {
        Self { round_robin: true, prefixes_only: true, ..self }
    }

    /// Makes this the `n`-th step of its series. A trace begins at a position that depends on this number and the seed,
    /// so that series are compared over the same parts of it.
    pub fn in_series(mut self, key: &StepKey, n: u32) -> Self {
        if let (Starts::Recorded { replay, speed }, OpenedSource::Trace(trace)) =
            (&mut self.starts, &self.traffic.kinds()[0].source)
        {
            **replay = trace.replay(replay_start(trace, key, n, speed.is_none()));
        }
        self
    }

    /// Returns the index of the trace's request that the step begins with, from 0, and the number of requests of the
    /// trace.
    pub fn trace_position(&self) -> Option<(u64, u64)> {
        match (&self.starts, &self.traffic.kinds()[0].source) {
            (Starts::Recorded { replay, .. }, OpenedSource::Trace(trace)) => {
                Some((replay.start_index(), trace.summary().arrivals()))
            }
            _ => None,
        }
    }

    /// Drops think times, for measuring one request at a time.
    pub fn without_think_times(self) -> Self {
        Self { no_think: true, ..self }
    }

    /// Adds a surge.
    pub fn with_surge(self, surge: Surge) -> Self {
        Self { surge: Some(surge), ..self }
    }

    /// Ends after the first `n` chains of the step.
    pub fn first(self, n: u64) -> Self {
        Self { end: n, ..self }
    }

    /// Keeps the chains of the step with this key that fall to a part of it.
    pub fn part(self, key: &StepKey, part: StepPart) -> Self {
        Self { part_filter: PartFilter::new(key, part), ..self }
    }

    /// Returns the requests that the chains are drawn from.
    pub(crate) const fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Returns so many parts of the step.
    pub(crate) const fn parts(&self, of: u32) -> Parts {
        self.part_filter.parts(of)
    }

    /// Returns the number of chains that are due before a time, from the next one on; `None` in a closed loop.
    pub(crate) fn due_before(mut self, end: Duration) -> Option<u64> {
        let first = self.next;
        while self.next < self.end {
            match self.step(false).map(|chain| chain.start) {
                Some(Start::At(due)) if due < end => {}
                Some(Start::At(_)) => return Some(self.next - 1 - first),
                Some(Start::WhenFree) => return None,
                None => break,
            }
        }
        Some(self.next - first)
    }

    /// Draws the kind of the next chain; in round-robin order also its shared prefix.
    fn draw_kind(&mut self) -> (usize, Option<u32>) {
        let kinds = self.traffic.kinds();
        if self.round_robin {
            let count = if self.prefixes_only { Kind::shared_prefixes } else { Kind::groups };
            let all: u32 = kinds.iter().map(count).sum();
            let mut left = (self.next % u64::from(all.max(1))) as u32;
            for (i, kind) in kinds.iter().enumerate() {
                if left < count(kind) {
                    return (i, Some(left));
                }
                left -= count(kind);
            }
        }
        if kinds.len() == 1 {
            return (0, None);
        }
        let u: f64 = self.draws.class.random();
        (kinds.iter().position(|k| u < k.cumulative_share).unwrap_or(kinds.len() - 1), None)
    }

    /// Returns when the next chain starts, and its request if a trace is replayed.
    fn start(&mut self) -> Option<(Start, Option<Replayed>)> {
        let (start, recorded) = match &mut self.starts {
            Starts::Drawn(times) => (Start::At(times.next()?), None),
            Starts::WhenFree => (Start::WhenFree, None),
            Starts::Recorded { replay, speed } => {
                let Some(replayed) = replay.next() else {
                    self.traffic.fail(replay.error().map_or_else(String::new, |e| format!("{e:#}")));
                    return None;
                };
                let at = replayed.row.at;
                (speed.map_or(Start::WhenFree, |speed| Start::At(at.div_f64(speed))), Some(replayed))
            }
        };
        let start = match (start, self.surge) {
            (Start::At(at), Some(surge)) => Start::At(surge.due(at)),
            (start, _) => start,
        };
        Some((start, recorded))
    }

    /// Draws the next chain. If it is not `wanted`, draws the same random numbers without reading a row of a data set.
    fn step(&mut self, wanted: bool) -> Option<Chain> {
        let (start, recorded) = self.start()?;
        let (class, group) = self.draw_kind();
        let number = self.next;
        self.next += 1;
        let traffic = self.traffic.clone();
        let kind = &traffic.kinds()[class];
        let first = Turn {
            after: Duration::ZERO,
            class: class as u16,
            // Ids do not depend on the numbers of turns of earlier chains.
            request: Recipe {
                id: self.traffic.first_id(number),
                input_tokens: 0,
                output_tokens: 0,
                text: Text::Words { group: 0 },
            },
        };
        let mut turns = match (&kind.source, recorded) {
            // Warm-up needs prompts, not conversations.
            (OpenedSource::Synthetic(s), _) => self.draws.synthetic(
                s,
                kind.images.as_ref(),
                kind.groups(),
                first,
                group,
                kind.conversation.filter(|_| !self.round_robin),
            ),
            (OpenedSource::Items(items), _) => {
                let Draws { output, input, group, .. } = &mut self.draws;
                vec![items.draw(first, [output, input, group])]
            }
            (OpenedSource::Audio(audio), _) => {
                vec![first.with_audio(audio.draw(&mut self.draws.input), None)]
            }
            (OpenedSource::Recordings(all), _) => {
                let index = self.draws.rows[class].as_mut()?.next()? as u32;
                vec![first.with_audio(all.length(index), Some(index))]
            }
            (OpenedSource::Text(_, input, output), _) => {
                let request = Recipe {
                    input_tokens: input.draw(&mut self.draws.input),
                    output_tokens: output.draw(&mut self.draws.output),
                    text: Text::Excerpt { at: self.draws.group.random() },
                    ..first.request
                };
                vec![Turn { request, ..first }]
            }
            (OpenedSource::Trace(trace), Some(replayed)) => self.draws.recorded(trace, replayed, first),
            (OpenedSource::Trace(_), None) => return None,
            (OpenedSource::Data(set), _) => {
                let row = self.draws.rows[class].as_mut()?.next()?;
                let think = kind.conversation.map_or(Think::Recorded, |c| c.think);
                match self.draws.data_row(set, row, think, first, wanted) {
                    Ok(turns) => turns,
                    Err(e) => {
                        self.traffic.fail(format!("{e:#}"));
                        return None;
                    }
                }
            }
        };
        if self.round_robin {
            turns.truncate(1);
        }
        if self.prefixes_only {
            turns.iter_mut().for_each(|turn| reduce_to_prefix(&mut turn.request, kind));
        }
        if self.no_think {
            turns.iter_mut().for_each(|turn| turn.after = Duration::ZERO);
        }
        let session = (kind.conversation.is_some() || kind.max_turns() > 1).then_some(number);
        Some(Chain { start, session: session.filter(|_| !self.round_robin), turns })
    }
}

/// Reduces a request to its shared prefix and one output token, extending it if it is too short for the whole prefix.
fn reduce_to_prefix(request: &mut Recipe, kind: &Kind) {
    if let (Text::Words { group } | Text::Illustrated { group, .. }, Some(prefix)) =
        (&request.text, kind.prefix())
    {
        request.text = Text::Prefix { group: *group };
        request.input_tokens = request.input_tokens.max(prefix.tokens.get() + 1);
    }
    request.output_tokens = 1;
}

/// Returns where in a trace the `n`-th step of a series begins. Positions are multiples of the golden ratio from one
/// drawn by the seed, which spreads any number of steps evenly. In an open loop the position is a moment, since a
/// random request is more likely to lie in a burst than a random moment; in a closed loop, which has no times, it is a
/// request.
fn replay_start(trace: &Trace, key: &StepKey, n: u32, closed: bool) -> Begin {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    if n == 0 || trace.source().start == TraceStart::First {
        return Begin::First;
    }
    let first: f64 = stream(key.seed, "", 0, Purpose::Position).random();
    let position = (first + f64::from(n) * GOLDEN).fract();
    if closed { Begin::Request(position) } else { Begin::Moment(position) }
}

impl Iterator for Chains {
    type Item = Chain;

    fn next(&mut self) -> Option<Chain> {
        self.nth(0)
    }

    fn nth(&mut self, n: usize) -> Option<Chain> {
        let mut before = n;
        while self.next < self.end {
            let falls_here = self.part_filter.includes(self.next);
            let chain = self.step(falls_here && before == 0)?;
            match (falls_here, before) {
                (true, 0) => return Some(chain),
                (true, _) => before -= 1,
                (false, _) => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
