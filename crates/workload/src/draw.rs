//! Lazily drawn requests of one step: an endless, seeded sequence of chains.

use super::arrivals::Times;
use super::chain::{Chain, Recipe, Start, Text, Turn};
use super::conversation::Think;
use super::part::{PartFilter, StepPart};
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
                kind.groups(),
                first,
                group,
                kind.conversation.filter(|_| !self.round_robin),
            ),
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
    if let (Text::Words { group }, Some(prefix)) = (&request.text, kind.prefix()) {
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
mod tests {
    use super::*;
    use crate::data::Counter;

    const ONE: &str = "prompts.synthetic = { input-tokens = { lognormal = { mean = 600, cv = 0.4 } }, output-tokens = { fixed = 30 }, \
             shared-prefix = { tokens = 100, groups = 3 } }";

    fn draw_from(text: &str, seed: u32, step: u32, level: Level) -> Vec<Chain> {
        let key = StepKey { seed, series: "main".into(), step };
        let traffic = Traffic::open(&toml::from_str(text).unwrap(), &Counter::default()).unwrap();
        Chains::new(&traffic, &key, level).unwrap().take(500).collect()
    }

    fn draw(seed: u32, step: u32, level: Level) -> Vec<Chain> {
        draw_from(ONE, seed, step, level)
    }

    fn group(chain: &Chain) -> u32 {
        match chain.turns[0].request.text {
            Text::Words { group } => group,
            _ => panic!("words"),
        }
    }

    #[test]
    fn chains_depend_on_seed_and_step_alone() {
        assert_eq!(draw(1, 1, Level::rate(5.0)), draw(1, 1, Level::rate(5.0)));
        assert_ne!(draw(1, 1, Level::rate(5.0)), draw(2, 1, Level::rate(5.0)));
        assert_ne!(draw(1, 1, Level::rate(5.0)), draw(1, 2, Level::rate(5.0)));
    }

    #[test]
    fn a_surge_raises_the_rate_for_its_duration() {
        let key = StepKey { seed: 1, series: "main".into(), step: 1 };
        let traffic = Traffic::open(&toml::from_str(ONE).unwrap(), &Counter::default()).unwrap();
        let surge = Surge { from: Duration::from_secs(200), length: Duration::from_secs(100), factor: 3.0 };
        let all = Chains::new(&traffic, &key, Level::rate(20.0)).unwrap().with_surge(surge).take(16_000);
        let due: Vec<f64> = all
            .filter_map(|c| match c.start {
                Start::At(at) => Some(at.as_secs_f64()),
                Start::WhenFree => None,
            })
            .collect();
        assert!(due.is_sorted());
        let rate =
            |from: f64, to: f64| due.iter().filter(|t| (from..to).contains(*t)).count() as f64 / (to - from);
        for (from, to, want) in [(0.0, 200.0, 20.0), (200.0, 300.0, 60.0), (300.0, 500.0, 20.0)] {
            assert!((rate(from, to) / want - 1.0).abs() < 0.07, "{from}: {}", rate(from, to));
        }
    }

    #[test]
    fn warm_up_reaches_every_prefix() {
        let groups: Vec<u32> = draw(1, 0, Level::concurrency(1))[..3].iter().map(group).collect();
        assert_eq!(groups, [0, 1, 2]);
    }

    #[test]
    fn prompts_do_not_depend_on_the_arrivals() {
        let open = draw(1, 1, Level::rate(5.0));
        let closed = draw(1, 1, Level::concurrency(4));
        assert!(open.iter().zip(&closed).all(|(a, b)| a.turns == b.turns));
        assert!(closed.iter().all(|c| c.start == Start::WhenFree));
        assert!(open.iter().any(|c| group(c) == 2), "all groups are used");
    }

    /// Returns the first chains of a workload by number, dealt to so many parts.
    fn dealt(traffic: &Traffic, level: Level, of: u32) -> Vec<Chain> {
        let key = StepKey { seed: 7, series: "main".into(), step: 3 };
        let part = |i| {
            let chains = Chains::new(traffic, &key, level).unwrap().in_series(&key, 3).first(400);
            chains.part(&key, StepPart::new(i, of).unwrap()).collect::<Vec<_>>()
        };
        let mut all: Vec<Chain> = (0..of).flat_map(part).collect();
        all.sort_by_key(|chain| chain.turns[0].request.id);
        all
    }

    #[test]
    fn the_parts_of_a_step_are_the_step() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, row: &dyn Fn(u32) -> String| {
            let path = dir.path().join(name);
            std::fs::write(&path, (0..700).map(row).collect::<String>()).unwrap();
            path
        };
        let trace = file("trace.jsonl", &|i| {
            format!("{{\"timestamp\":{},\"input_length\":{},\"output_length\":5}}\n", i * 700, i + 9)
        });
        let said = file("said.jsonl", &|i| {
            format!(
                "{{\"id\":\"{i}\",\"conversations\":[{{\"from\":\"human\",\"value\":\"say number {i}, please\"}},\
                 {{\"from\":\"gpt\",\"value\":\"this is it: {i}\"}}]}}\n"
            )
        });
        let gamma = format!("arrivals = {{ gamma = {{ cv = 2.5 }} }}\n{ONE}");
        let sessions = Level::new(Control::Sessions, 5.0);
        for (text, level) in [
            (ONE.to_owned(), Level::rate(5.0)),
            (gamma, Level::rate(5.0)),
            (MIX.to_owned(), Level::rate(5.0)),
            (ONE.to_owned(), Level::concurrency(8)),
            (TALK.to_owned(), sessions),
            (format!("prompts.sharegpt = {{ file = {said:?} }}"), Level::rate(5.0)),
            (format!("trace = {{ file = {trace:?} }}"), Level::new(Control::TraceScale, 2.0)),
        ] {
            let traffic = Traffic::open(&toml::from_str(&text).unwrap(), &Counter::default()).unwrap();
            let whole = dealt(&traffic, level, 1);
            assert_eq!(whole.len(), 400, "{text}");
            for of in [2, 3, 16, 64] {
                assert!(dealt(&traffic, level, of) == whole, "{of} parts of {text}");
            }
        }
    }

    const MIX: &str = "class = [
        { name = \"chat\", weight = 3, prompts.synthetic = { input-tokens = { fixed = 100 }, output-tokens = { fixed = 30 } } },
        { name = \"rag\", weight = 1, prompts.synthetic = { input-tokens = { fixed = 4000 }, output-tokens = { fixed = 90 }, \
          shared-prefix = { tokens = 1000, groups = 2 } } },
    ]";

    #[test]
    fn classes_are_drawn_by_weight() {
        let chains = draw_from(MIX, 1, 1, Level::rate(5.0));
        let rag: Vec<&Chain> = chains.iter().filter(|c| c.turns[0].class == 1).collect();
        assert!((100..150).contains(&rag.len()), "a quarter of 500: {}", rag.len());
        assert!(rag.iter().all(|c| c.turns[0].request.input_tokens == 4000));
        let warm: Vec<(u16, u32)> = draw_from(MIX, 1, 0, Level::concurrency(1))[..4]
            .iter()
            .map(|c| (c.turns[0].class, group(c)))
            .collect();
        assert_eq!(warm, [(0, 0), (1, 0), (1, 1), (0, 0)], "every prefix of every class in turn");
    }

    const TALK: &str = "prompts.synthetic = { input-tokens = { fixed = 100 }, output-tokens = { fixed = 30 } }
        conversation = { turns = { uniform = { min = 1, max = 3 } }, input-tokens = { fixed = 20 }, think = { fixed = \"2s\" } }";

    #[test]
    fn a_conversation_grows_by_answers_and_messages() {
        let chains = draw_from(TALK, 1, 1, Level { control: Control::Sessions, value: 5.0 });
        let long = chains.iter().find(|c| c.turns.len() == 3).unwrap();
        let inputs: Vec<u32> = long.turns.iter().map(|t| t.request.input_tokens).collect();
        assert_eq!(inputs, [100, 150, 200]);
        assert_eq!(long.turns[1].request.text, Text::FollowUp { tokens: 20 });
        assert_eq!((long.turns[0].after, long.turns[2].after), (Duration::ZERO, Duration::from_secs(2)));
        assert!((0..2).all(|t| long.needs_text(t)) && !long.needs_text(2));
        let mut ids: Vec<u64> = chains.iter().flat_map(|c| &c.turns).map(|t| t.request.id).collect();
        let n = ids.len();
        ids.dedup();
        assert!(ids.len() == n && ids.is_sorted());
        assert!(chains.iter().enumerate().all(|(i, c)| c.session == Some(i as u64)));
        let traffic = Traffic::open(&toml::from_str(TALK).unwrap(), &Counter::default()).unwrap();
        assert!((traffic.workload().per_level() - 2.0).abs() < 1e-9 && traffic.longest() == (200, 30));
        let key = StepKey { seed: 1, series: "main".into(), step: 1 };
        assert!(
            Chains::new(&traffic, &key, Level::rate(1.0)).is_err(),
            "it is stepped by conversations per second"
        );
    }

    /// Each step of a search replays another part of a trace, equal in each series.
    #[test]
    fn steps_begin_at_different_positions_of_a_trace() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace.jsonl");
        let row = |i: u32| {
            format!("{{\"timestamp\":{},\"input_length\":{},\"output_length\":5}}\n", i * 1000, i + 1)
        };
        std::fs::write(&path, (0..4000).map(row).collect::<String>()).unwrap();
        let open = |more: &str| {
            let text = format!("trace = {{ file = {path:?}{more} }}");
            Traffic::open(&toml::from_str(&text).unwrap(), &Counter::default()).unwrap()
        };
        let traffic = open("");
        let sent = |traffic: &Traffic, seed, series: &str, step, n, level| -> Vec<(u32, u128)> {
            let key = StepKey { seed, series: series.into(), step };
            let chains = Chains::new(traffic, &key, level).unwrap().in_series(&key, n);
            assert_eq!(chains.trace_position().map(|b| b.1), Some(4000));
            let due = |s| if let Start::At(at) = s { at.as_millis() } else { 0 };
            chains.take(500).map(|c| (c.turns[0].request.input_tokens, due(c.start))).collect()
        };
        let speed = Level::new(Control::TraceScale, 2.0);
        let mut rows = std::collections::HashSet::new();
        for n in 1..=8 {
            let step = sent(&traffic, 1, "main", n, n, speed);
            assert_eq!(step, sent(&traffic, 1, "main", n, n, speed), "equal when measured again");
            assert_eq!(
                step,
                sent(&traffic, 1, "warm", n + 8, n, speed),
                "equal in the other series of a pair"
            );
            assert!(
                step.windows(2).all(|w| w[1].0 == w[0].0 % 4000 + 1 && w[1].1 == w[0].1 + 500),
                "in order"
            );
            assert!(step[0].1 < 500, "begins with the next request after its moment");
            rows.extend(step.iter().map(|r| r.0));
        }
        assert!(rows.len() > 3000, "8 steps of 500 send {} of 4,000 rows", rows.len());
        let first = |seed, n, level| sent(&traffic, seed, "main", n, n, level)[0].0;
        assert_ne!(first(1, 1, speed), first(2, 1, speed), "depends on the seed");
        assert_ne!(first(1, 1, Level::concurrency(3)), first(1, 2, Level::concurrency(3)));
        let whole = open(", start = \"first\"");
        assert!(
            (1..9).all(|n| sent(&whole, 1, "main", n, n, speed)[0] == (1, 0)),
            "start = \"first\" begins every step with the first request"
        );
    }

    #[test]
    fn prefixes_only_sends_every_shared_prefix_once() {
        let mix = "class = [
            { name = \"chat\", weight = 1, prompts.synthetic = { input-tokens = { fixed = 90 }, output-tokens = { fixed = 30 }, \
              shared-prefix = { tokens = 40, groups = 3 } } },
            { name = \"plain\", weight = 8, prompts.synthetic = { input-tokens = { fixed = 9 }, output-tokens = { fixed = 3 } } },
            { name = \"rag\", weight = 1, prompts.synthetic = { input-tokens = { fixed = 900 }, output-tokens = { fixed = 7 }, \
              shared-prefix = { tokens = 400, groups = 2 } } },
        ]";
        let traffic = Traffic::open(&toml::from_str(mix).unwrap(), &Counter::default()).unwrap();
        assert_eq!((traffic.shared_prefixes(), traffic.groups()), (5, 6));
        let key = StepKey { seed: 1, series: "warm".into(), step: 0 };
        let chains = Chains::new(&traffic, &key, Level::concurrency(4)).unwrap().prefixes_only();
        let sent: Vec<(u16, Text, u32)> = chains
            .take(5)
            .map(|c| c.turns.into_iter().next().unwrap())
            .map(|t| (t.class, t.request.text, t.request.output_tokens))
            .collect();
        let group = |class, group| (class, Text::Prefix { group }, 1);
        assert_eq!(sent, [group(0, 0), group(0, 1), group(0, 2), group(2, 0), group(2, 1)]);
        let share = traffic.workload().shared_share().unwrap();
        assert!((share - 44.0 / 106.2).abs() < 1e-9, "{share}: 0.1 · 40 + 0.1 · 400 of 9 + 0.8 · 9 + 90");
    }
}
