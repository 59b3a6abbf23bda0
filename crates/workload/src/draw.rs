//! The requests of one step, drawn lazily: an endless, seeded sequence of chains.

use super::arrivals::Times;
use super::chain::{Chain, Recipe, Start, Text, Turn};
use super::conversation::Think;
use super::seed::{Purpose, stream};
use super::trace::{Begin, Replay, Replayed, Start as TraceStart, Trace};
use super::traffic::{Kind, Traffic, What};
use super::turns::Draws;
use goodput_core::level::{Control, Level};
use goodput_core::units::Rate;
use rand::RngExt;
use std::time::Duration;

/// Which step the requests are for: the key of its random numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct StepKey {
    /// The plan's seed.
    pub seed: u32,
    /// The series.
    pub series: String,
    /// The step's number; 0 is what comes before the first step.
    pub step: u32,
}

/// The chains of one step. Never ends while its files can be read: the load takes as many as it needs, so that a step can be
/// extended. Clones go on alike.
#[derive(Clone)]
pub struct Chains {
    starts: Starts,
    traffic: Traffic,
    draws: Draws,
    /// Whether the shared prefixes are taken in turn, so that warming up reaches every one of them.
    in_turn: bool,
    hurried: bool,
    /// When arrivals come faster, where they do for a while.
    surge: Option<Surge>,
    /// Whether all that is wanted of a request is the shared prefix that its prompt begins with.
    prefixes: bool,
    next: u64,
}

/// A time of higher load within a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Surge {
    /// When it begins, from the start of the step.
    pub from: Duration,
    /// How long it lasts.
    pub length: Duration,
    /// The rate during it over the rate before and after it.
    pub factor: f64,
}

impl Surge {
    /// Returns when an arrival is due that would be due at `at` without the surge: within it time passes `factor` times as fast, so that
    /// arrivals of any shape keep their shape and have the higher rate.
    pub fn at(&self, at: Duration) -> Duration {
        let within = self.length.mul_f64(self.factor);
        match at.checked_sub(self.from) {
            None => at,
            Some(since) if since <= within => self.from + since.div_f64(self.factor),
            Some(since) => self.from + self.length + (since - within),
        }
    }
}

/// When chains start.
#[derive(Clone)]
enum Starts {
    Drawn(Box<Times>),
    WhenFree,
    /// As recorded, so many times as fast; at any speed in a closed loop.
    Recorded {
        replay: Box<Replay>,
        speed: Option<f64>,
    },
}

impl Chains {
    /// Draws for a step at `level`. Fails for a level that this workload cannot step through, or a rate that is none.
    pub fn new(traffic: &Traffic, key: &StepKey, level: Level) -> Result<Self, String> {
        let workload = traffic.workload();
        let closed = level.control == Control::Concurrency;
        if !closed && level.control != workload.control() {
            return Err(format!("this workload cannot be stepped by {}", level.control.name()));
        }
        let starts = match &traffic.kinds()[0].what {
            What::Trace(trace) => {
                let speed = if closed { None } else { Some(Rate::try_from(level.value)?.get()) };
                let replay = trace.replay(begin(trace, key, key.step, closed));
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
        let in_turn = key.step == 0;
        Ok(Self {
            starts,
            traffic: traffic.clone(),
            draws,
            in_turn,
            hurried: false,
            surge: None,
            prefixes: false,
            next: 0,
        })
    }

    /// One request of a single output token for every shared prefix, in turn: what brings them into a prefix cache. Kinds that
    /// share nothing are passed over; [`Traffic::shared`] tells how many there are, which must not be none.
    pub fn prefixes(self) -> Self {
        Self { in_turn: true, prefixes: true, ..self }
    }

    /// As the `n`-th step of its series: where in a trace it begins hangs on that number and the seed, so that series are compared
    /// over the same parts of it.
    pub fn in_series(mut self, key: &StepKey, n: u32) -> Self {
        if let (Starts::Recorded { replay, speed }, What::Trace(trace)) =
            (&mut self.starts, &self.traffic.kinds()[0].what)
        {
            **replay = trace.replay(begin(trace, key, n, speed.is_none()));
        }
        self
    }

    /// The number of the request of a trace that it begins with, from 0, and how many there are.
    pub fn began(&self) -> Option<(u64, u64)> {
        match (&self.starts, &self.traffic.kinds()[0].what) {
            (Starts::Recorded { replay, .. }, What::Trace(trace)) => {
                Some((replay.began(), trace.summary().arrivals()))
            }
            _ => None,
        }
    }

    /// Without the users' thinking, for what a server does with one request at a time.
    pub fn hurried(self) -> Self {
        Self { hurried: true, ..self }
    }

    /// The same chains with a surge: between two times arrivals come `factor` times as fast.
    pub fn surging(self, surge: Surge) -> Self {
        Self { surge: Some(surge), ..self }
    }

    /// The kind of the next chain, and which of its shared prefixes it begins with where they are taken in turn.
    fn kind(&mut self) -> (usize, Option<u32>) {
        let kinds = self.traffic.kinds();
        if self.in_turn {
            let count = if self.prefixes { Kind::shared } else { Kind::groups };
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
        (kinds.iter().position(|k| u < k.up_to).unwrap_or(kinds.len() - 1), None)
    }

    /// Returns when the next chain starts, with its row of a trace.
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
            (Start::At(at), Some(surge)) => Start::At(surge.at(at)),
            (start, _) => start,
        };
        Some((start, recorded))
    }

    /// The next chain. Where it is not `wanted`, the same numbers are drawn, and no row of a data set is read for it.
    fn step(&mut self, wanted: bool) -> Option<Chain> {
        let (start, recorded) = self.start()?;
        let (class, group) = self.kind();
        let number = self.next;
        self.next += 1;
        let traffic = self.traffic.clone();
        let kind = &traffic.kinds()[class];
        let first = Turn {
            after: Duration::ZERO,
            class: class as u16,
            // Numbers are the same whatever the chains before it have turned out to be.
            request: Recipe {
                id: self.traffic.first_id(number),
                input_tokens: 0,
                output_tokens: 0,
                text: Text::Words { group: 0 },
            },
        };
        let turns = match (&kind.what, recorded) {
            // What comes before the first step is about prompts, not conversations.
            (What::Synthetic(s), _) => self.draws.synthetic(
                s,
                kind.groups(),
                first,
                group,
                kind.conversation.filter(|_| !self.in_turn),
            ),
            (What::Text(_, input, output), _) => {
                let request = Recipe {
                    input_tokens: input.draw(&mut self.draws.input),
                    output_tokens: output.draw(&mut self.draws.output),
                    text: Text::Piece { at: self.draws.group.random() },
                    ..first.request
                };
                vec![Turn { request, ..first }]
            }
            (What::Trace(trace), Some(replayed)) => self.draws.recorded(trace, replayed, first),
            (What::Trace(_), None) => return None,
            (What::Data(set), _) => {
                let row = self.draws.rows[class].as_mut()?.next()?;
                let think = kind.conversation.map_or(Think::Recorded, |c| c.think);
                match self.draws.said(set, row, think, first, wanted) {
                    Ok(turns) => turns,
                    Err(e) => {
                        self.traffic.fail(format!("{e:#}"));
                        return None;
                    }
                }
            }
        };
        let mut turns = turns;
        if self.in_turn {
            turns.truncate(1);
        }
        if self.prefixes {
            turns.iter_mut().for_each(|turn| only_prefix(&mut turn.request, kind));
        }
        if self.hurried {
            turns.iter_mut().for_each(|turn| turn.after = Duration::ZERO);
        }
        let session = (kind.conversation.is_some() || kind.most_turns() > 1).then_some(number);
        Some(Chain { start, session: session.filter(|_| !self.in_turn), turns })
    }
}

/// Makes a request one for its shared prefix alone, however short a prompt was drawn.
fn only_prefix(request: &mut Recipe, kind: &Kind) {
    if let (Text::Words { group }, Some(prefix)) = (&request.text, kind.prefix()) {
        request.text = Text::Prefix { group: *group };
        request.input_tokens = request.input_tokens.max(prefix.tokens.get() + 1);
    }
    request.output_tokens = 1;
}

/// Where in a trace the `n`-th step of a series begins: steps are spread over it as evenly as their number allows (multiples of
/// the golden ratio from a place drawn by the seed). In an open loop it is a moment, since by requests a step would begin in a
/// burst more often than time does; in a closed loop, which knows no time, it is a request.
fn begin(trace: &Trace, key: &StepKey, n: u32, closed: bool) -> Begin {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    if n == 0 || trace.source().start == TraceStart::First {
        return Begin::First;
    }
    let first: f64 = stream(key.seed, "", 0, Purpose::Place).random();
    let place = (first + f64::from(n) * GOLDEN).fract();
    if closed { Begin::Request(place) } else { Begin::Moment(place) }
}

impl Iterator for Chains {
    type Item = Chain;

    fn next(&mut self) -> Option<Chain> {
        self.step(true)
    }

    fn nth(&mut self, n: usize) -> Option<Chain> {
        for _ in 0..n {
            self.step(false)?;
        }
        self.step(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Counter;

    const ONE: &str = "prompts.synthetic = { input-tokens = { lognormal = { mean = 600, cv = 0.4 } }, output-tokens = { fixed = 30 }, \
             shared-prefix = { tokens = 100, groups = 3 } }";

    fn of(text: &str, seed: u32, step: u32, level: Level) -> Vec<Chain> {
        let key = StepKey { seed, series: "main".into(), step };
        let traffic = Traffic::open(&toml::from_str(text).unwrap(), &Counter::default()).unwrap();
        Chains::new(&traffic, &key, level).unwrap().take(500).collect()
    }

    fn draw(seed: u32, step: u32, level: Level) -> Vec<Chain> {
        of(ONE, seed, step, level)
    }

    fn group(chain: &Chain) -> u32 {
        match chain.turns[0].request.text {
            Text::Words { group } => group,
            _ => panic!("words"),
        }
    }

    #[test]
    fn the_same_seed_draws_the_same_requests() {
        assert_eq!(draw(1, 1, Level::rate(5.0)), draw(1, 1, Level::rate(5.0)));
        assert_ne!(draw(1, 1, Level::rate(5.0)), draw(2, 1, Level::rate(5.0)));
        assert_ne!(draw(1, 1, Level::rate(5.0)), draw(1, 2, Level::rate(5.0)));
    }

    #[test]
    fn a_surge_is_a_time_of_higher_rate() {
        let key = StepKey { seed: 1, series: "main".into(), step: 1 };
        let traffic = Traffic::open(&toml::from_str(ONE).unwrap(), &Counter::default()).unwrap();
        let surge = Surge { from: Duration::from_secs(200), length: Duration::from_secs(100), factor: 3.0 };
        let all = Chains::new(&traffic, &key, Level::rate(20.0)).unwrap().surging(surge).take(16_000);
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
    fn warming_up_reaches_every_prefix() {
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

    const MIX: &str = "class = [
        { name = \"chat\", weight = 3, prompts.synthetic = { input-tokens = { fixed = 100 }, output-tokens = { fixed = 30 } } },
        { name = \"rag\", weight = 1, prompts.synthetic = { input-tokens = { fixed = 4000 }, output-tokens = { fixed = 90 }, \
          shared-prefix = { tokens = 1000, groups = 2 } } },
    ]";

    #[test]
    fn classes_are_drawn_by_weight_and_jointly() {
        let chains = of(MIX, 1, 1, Level::rate(5.0));
        let rag: Vec<&Chain> = chains.iter().filter(|c| c.turns[0].class == 1).collect();
        assert!((100..150).contains(&rag.len()), "a quarter of 500: {}", rag.len());
        assert!(rag.iter().all(|c| c.turns[0].request.input_tokens == 4000));
        let warm: Vec<(u16, u32)> =
            of(MIX, 1, 0, Level::concurrency(1))[..4].iter().map(|c| (c.turns[0].class, group(c))).collect();
        assert_eq!(warm, [(0, 0), (1, 0), (1, 1), (0, 0)], "every prefix of every class in turn");
    }

    const TALK: &str = "prompts.synthetic = { input-tokens = { fixed = 100 }, output-tokens = { fixed = 30 } }
        conversation = { turns = { uniform = { min = 1, max = 3 } }, input-tokens = { fixed = 20 }, think = { fixed = \"2s\" } }";

    #[test]
    fn a_conversation_grows_by_answers_and_messages() {
        let chains = of(TALK, 1, 1, Level { control: Control::Sessions, value: 5.0 });
        let long = chains.iter().find(|c| c.turns.len() == 3).unwrap();
        let asked: Vec<u32> = long.turns.iter().map(|t| t.request.input_tokens).collect();
        assert_eq!(asked, [100, 150, 200]);
        assert_eq!(long.turns[1].request.text, Text::Further { tokens: 20 });
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
        assert!(Chains::new(&traffic, &key, Level::rate(1.0)).is_err(), "its rate is that of conversations");
    }

    /// Each step of a search shows another part of a trace, and in each series the same one.
    #[test]
    fn steps_begin_at_places_of_their_own() {
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
            assert_eq!(chains.began().map(|b| b.1), Some(4000));
            let due = |s| if let Start::At(at) = s { at.as_millis() } else { 0 };
            chains.take(500).map(|c| (c.turns[0].request.input_tokens, due(c.start))).collect()
        };
        let speed = Level::new(Control::TraceScale, 2.0);
        let mut rows = std::collections::HashSet::new();
        for n in 1..=8 {
            let step = sent(&traffic, 1, "main", n, n, speed);
            assert_eq!(step, sent(&traffic, 1, "main", n, n, speed), "measured again it is the same");
            assert_eq!(step, sent(&traffic, 1, "warm", n + 8, n, speed), "as in the other series of a pair");
            assert!(
                step.windows(2).all(|w| w[1].0 == w[0].0 % 4000 + 1 && w[1].1 == w[0].1 + 500),
                "in order"
            );
            assert!(step[0].1 < 500, "the next request after the moment at which it begins");
            rows.extend(step.iter().map(|r| r.0));
        }
        assert!(rows.len() > 3000, "8 steps of 500 send {} of 4,000 rows", rows.len());
        let first = |seed, n, level| sent(&traffic, seed, "main", n, n, level)[0].0;
        assert_ne!(first(1, 1, speed), first(2, 1, speed), "another seed, other places");
        assert_ne!(first(1, 1, Level::concurrency(3)), first(1, 2, Level::concurrency(3)));
        let whole = open(", start = \"first\"");
        assert!(
            (1..9).all(|n| sent(&whole, 1, "main", n, n, speed)[0] == (1, 0)),
            "where the plan has it so"
        );
    }

    #[test]
    fn every_shared_prefix_comes_once_and_nothing_else() {
        let mix = "class = [
            { name = \"chat\", weight = 1, prompts.synthetic = { input-tokens = { fixed = 90 }, output-tokens = { fixed = 30 }, \
              shared-prefix = { tokens = 40, groups = 3 } } },
            { name = \"plain\", weight = 8, prompts.synthetic = { input-tokens = { fixed = 9 }, output-tokens = { fixed = 3 } } },
            { name = \"rag\", weight = 1, prompts.synthetic = { input-tokens = { fixed = 900 }, output-tokens = { fixed = 7 }, \
              shared-prefix = { tokens = 400, groups = 2 } } },
        ]";
        let traffic = Traffic::open(&toml::from_str(mix).unwrap(), &Counter::default()).unwrap();
        assert_eq!((traffic.shared(), traffic.groups()), (5, 6));
        let key = StepKey { seed: 1, series: "warm".into(), step: 0 };
        let chains = Chains::new(&traffic, &key, Level::concurrency(4)).unwrap().prefixes();
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
