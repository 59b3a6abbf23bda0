//! The requests of one step, drawn lazily: an endless, seeded sequence of chains.

use super::arrivals::Times;
use super::chain::{Chain, Recipe, Start, Text, Turn};
use super::conversation::Conversation;
use super::seed::{Purpose, stream};
use super::traffic::{Kind, Traffic, What};
use crate::level::{Control, Level};
use crate::units::Rate;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
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

/// The chains of one step. Never ends: the load takes as many as it needs, so that a step can be extended.
#[derive(Clone)]
pub struct Chains {
    times: Option<Times>,
    traffic: Traffic,
    draws: Draws,
    /// Whether the shared prefixes are taken in turn, so that warming up reaches every one of them.
    in_turn: bool,
    hurried: bool,
    /// Whether all that is wanted of a request is the shared prefix that its prompt begins with.
    prefixes: bool,
    next: u64,
}

/// One stream of random numbers for each purpose.
#[derive(Clone)]
struct Draws {
    class: ChaCha8Rng,
    input: ChaCha8Rng,
    output: ChaCha8Rng,
    group: ChaCha8Rng,
    turns: ChaCha8Rng,
    think: ChaCha8Rng,
}

impl Chains {
    /// Draws for a step at `level`. Fails for a level that this workload cannot step through, or a rate that is none.
    pub fn new(traffic: &Traffic, key: &StepKey, level: Level) -> Result<Self, String> {
        let rng = |purpose| stream(key.seed, &key.series, key.step, purpose);
        let workload = traffic.workload();
        let times = match level.control {
            Control::Concurrency => None,
            open if open == workload.control() => {
                Some(Times::new(workload.arrivals, Rate::try_from(level.value)?, rng(Purpose::Arrivals)))
            }
            other => return Err(format!("this workload cannot be stepped by {}", other.name())),
        };
        let draws = Draws {
            class: rng(Purpose::Class),
            input: rng(Purpose::Input),
            output: rng(Purpose::Output),
            group: rng(Purpose::Group),
            turns: rng(Purpose::Turns),
            think: rng(Purpose::Think),
        };
        Ok(Self {
            times,
            traffic: traffic.clone(),
            draws,
            in_turn: key.step == 0,
            hurried: false,
            prefixes: false,
            next: 0,
        })
    }

    /// One request of a single output token for every shared prefix, in turn: what brings them into a prefix cache. Kinds that
    /// share nothing are passed over; [`Traffic::shared`] tells how many there are, which must not be none.
    pub fn prefixes(self) -> Self {
        Self { in_turn: true, prefixes: true, ..self }
    }

    /// Without the users' thinking, for what a server does with one request at a time.
    pub fn hurried(self) -> Self {
        Self { hurried: true, ..self }
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
}

impl Iterator for Chains {
    type Item = Chain;

    fn next(&mut self) -> Option<Chain> {
        let start = match &mut self.times {
            Some(times) => Start::At(times.next()?),
            None => Start::WhenFree,
        };
        let (class, group) = self.kind();
        let kind = &self.traffic.kinds()[class];
        // What comes before the first step is about prompts, not conversations.
        let conversation = kind.conversation.filter(|_| !self.in_turn);
        let number = self.next;
        self.next += 1;
        let mut turns = self.draws.turns(kind, class as u16, number, group, conversation);
        if self.hurried {
            turns.iter_mut().for_each(|turn| turn.after = Duration::ZERO);
        }
        if self.prefixes {
            turns.iter_mut().for_each(|turn| turn.request.output_tokens = 1);
        }
        Some(Chain { start, session: conversation.map(|_| number), turns })
    }
}

impl Draws {
    /// The turns of chain `number`.
    fn turns(
        &mut self,
        kind: &Kind,
        class: u16,
        number: u64,
        group: Option<u32>,
        conversation: Option<Conversation>,
    ) -> Vec<Turn> {
        let What::Synthetic(s) = &kind.what;
        // Numbers are the same whatever the chains before it have turned out to be.
        let first = number * u64::from(kind.most_turns());
        let n = conversation.and_then(|c| c.turns).map_or(1, |t| t.draw(&mut self.turns));
        let mut history = 0_u32;
        let mut turns = Vec::with_capacity(n as usize);
        for k in 0..n {
            let (text, input) = if k == 0 {
                let group = group.unwrap_or_else(|| self.group.random_range(0..kind.groups()));
                (Text::Words { group }, s.input_tokens.draw(&mut self.input))
            } else {
                let further = conversation.and_then(|c| c.input_tokens);
                let tokens = further.map_or(1, |t| t.draw(&mut self.input));
                (Text::Further { tokens }, tokens)
            };
            let think = conversation.filter(|_| k > 0).map(|c| c.think.draw(None, &mut self.think));
            let output_tokens = s.output_tokens.draw(&mut self.output);
            let input_tokens = history.saturating_add(input);
            history = input_tokens.saturating_add(output_tokens);
            let request = Recipe { id: first + u64::from(k), input_tokens, output_tokens, text };
            turns.push(Turn { after: think.unwrap_or(Duration::ZERO), class, request });
        }
        turns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "prompts.synthetic = { input-tokens = { lognormal = { mean = 600, cv = 0.4 } }, output-tokens = { fixed = 30 }, \
             shared-prefix = { tokens = 100, groups = 3 } }";

    fn of(text: &str, seed: u32, step: u32, level: Level) -> Vec<Chain> {
        let key = StepKey { seed, series: "main".into(), step };
        let traffic = Traffic::open(&toml::from_str(text).unwrap()).unwrap();
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
        let traffic = Traffic::open(&toml::from_str(TALK).unwrap()).unwrap();
        assert!((traffic.workload().per_level() - 2.0).abs() < 1e-9 && traffic.longest() == (200, 30));
        let key = StepKey { seed: 1, series: "main".into(), step: 1 };
        assert!(Chains::new(&traffic, &key, Level::rate(1.0)).is_err(), "its rate is that of conversations");
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
        let traffic = Traffic::open(&toml::from_str(mix).unwrap()).unwrap();
        assert_eq!((traffic.shared(), traffic.groups()), (5, 6));
        let key = StepKey { seed: 1, series: "warm".into(), step: 0 };
        let chains = Chains::new(&traffic, &key, Level::concurrency(4)).unwrap().prefixes();
        let sent: Vec<(u16, Text, u32)> = chains
            .take(5)
            .map(|c| c.turns.into_iter().next().unwrap())
            .map(|t| (t.class, t.request.text, t.request.output_tokens))
            .collect();
        let group = |class, group| (class, Text::Words { group }, 1);
        assert_eq!(sent, [group(0, 0), group(0, 1), group(0, 2), group(2, 0), group(2, 1)]);
        let share = traffic.workload().shared_share().unwrap();
        assert!((share - 44.0 / 106.2).abs() < 1e-9, "{share}: 0.1 · 40 + 0.1 · 400 of 9 + 0.8 · 9 + 90");
    }
}
