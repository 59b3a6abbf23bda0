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
    assert_eq!(long.turns[1].request.text, Text::FollowUp { tokens: 20, images: None });
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
    let row =
        |i: u32| format!("{{\"timestamp\":{},\"input_length\":{},\"output_length\":5}}\n", i * 1000, i + 1);
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
        assert_eq!(step, sent(&traffic, 1, "warm", n + 8, n, speed), "equal in the other series of a pair");
        assert!(step.windows(2).all(|w| w[1].0 == w[0].0 % 4000 + 1 && w[1].1 == w[0].1 + 500), "in order");
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
