use super::*;
use crate::fixture;
use goodput_stats::diagnosis::Flags;

fn plan(rest: &str) -> Plan {
    Plan::from_text(&format!(
        "name = \"x\"\nserver.url = \"http://127.0.0.1:8000\"\nslo = {{ ttft.p99 = \"200ms\", tpot.p99 = \"20ms\" }}\n\
         search.rates = [5, 10]\nhardware = {{ gpu = \"A40\", gpus = 1 }}\n{rest}"
    ))
    .unwrap()
}

const WORKLOAD: &str =
    "workload.prompts.synthetic = { input-tokens = { fixed = 600 }, output-tokens = { fixed = 30 } }\n";
const MODEL: &str =
    "model = { parameters = \"0.6B\", precision = \"bf16\", layers = 28, kv-heads = 8, head-size = 128 }\n";

fn why(plan: &Plan, run: &Run) -> Why {
    Why::of(plan, run, tempfile::tempdir().unwrap().path()).unwrap()
}

fn case(name: &str) -> Run {
    fixture::cases().into_iter().find(|(n, _)| *n == name).map(|(_, run)| run).unwrap()
}

/// Rows: the run, the step to be diagnosed, and the limit that binds there.
#[test]
fn the_step_that_shows_what_binds_is_looked_into() {
    for (name, level, limit) in [
        ("found", Some(36.0), Some("ttft.p99")),
        ("not-reached", Some(30.0), None),
        ("unloaded-misses", Some(1.0), Some("ttft.p99")),
        ("no-step", None, None),
    ] {
        let run = case(name);
        let got = run.answers.first().and_then(|a| examined(&run, a));
        assert_eq!(got.as_ref().map(|(s, _)| s.level.value).is_some(), level.is_some(), "{name}");
        if let Some((step, binding)) = got {
            assert!(
                level.is_some_and(|l| (step.level.value - l).abs() < 1e-9) || name == "not-reached",
                "{name}: {}",
                step.level
            );
            assert_eq!(binding.as_deref(), limit, "{name}: step {} at {}", step.step, step.level);
        }
    }
    let run = case("interval");
    let (step, limit) = examined(&run, &run.answers[0]).unwrap();
    let rate = run.answers[0].goodput.rate().unwrap();
    assert!((step.level.value / rate).ln().abs() < NEAR.ln() && !step.overloaded(), "{}", step.level);
    assert!(limit.is_some());
}

#[test]
fn what_most_requests_miss_is_looked_into_without_a_verdict() {
    let run = case("interval");
    let row = &run.steps.iter().find(|s| !s.limits.is_empty()).unwrap().limits[0];
    let tier = row.tier.clone();
    for (n, misses, most) in [(9, 9, true), (9, 5, true), (10, 5, false), (4, 4, false), (9, 0, false)] {
        let row = LimitRow { n, misses, ..row.clone() };
        let (limit, joint) = (row.limit.clone(), LimitRow { limit: "joint".into(), ..row.clone() });
        let step = Step { limits: vec![row, joint], verdict: Verdict::Undecided, ..Step::default() };
        let found = mostly_missed(&step, &tier).map(|row| row.limit.clone());
        assert_eq!(found, most.then_some(limit), "{misses} of {n}");
        let invalid = Step { verdict: Verdict::Invalid, ..step };
        assert!(mostly_missed(&invalid, &tier).is_none());
    }
}

#[test]
fn every_case_has_a_diagnosis() {
    let plan = plan(&format!("{WORKLOAD}{MODEL}"));
    for (name, run) in fixture::cases() {
        let why = why(&plan, &run);
        for f in &why.findings {
            assert!(run.steps.iter().any(|s| s.step == f.step), "{name}: {f:?}");
            assert!(
                f.evidence.iter().flat_map(|e| &e.steps).all(|n| run.steps.iter().any(|s| s.step == *n)),
                "{name}"
            );
        }
        serde_json::to_string(&(&why.findings, &why.untold, &why.roofline)).unwrap();
    }
    let found = why(&plan, &fixture::adaptive());
    assert_eq!(found.roofline.len(), 1);
    assert!(found.roofline[0].decode[0].alone, "{:?}", found.roofline);
    let bare = self::plan(WORKLOAD);
    assert!(why(&bare, &fixture::adaptive()).roofline.is_empty(), "no [model]");
}

#[test]
fn each_series_has_its_own() {
    let text = "[workload]\ncache = \"pair\"\nprompts.synthetic = { input-tokens = { fixed = 600 }, output-tokens = { fixed = 30 }, \
                shared-prefix = { tokens = 400 } }\n";
    let (plan, run) = (plan(text), fixture::pair());
    let curves: Vec<Curve> = plan.series().iter().flat_map(|one| curves(&run, one)).collect();
    let told: Vec<_> =
        curves.iter().map(|c| (c.series.as_str(), c.cold.as_deref(), c.shared.is_some())).collect();
    assert_eq!(told, [("cold", None, false), ("warm", Some("cold"), true)]);
    let all = why(&plan, &run);
    assert!(
        all.findings.iter().all(|f| f.kind != goodput_stats::diagnosis::Kind::CacheMisses),
        "it has its hits: {:?}",
        all.findings
    );
    for series in ["cold", "warm"] {
        assert!(all.part(series).findings.iter().all(|f| f.series == series));
    }
}

#[test]
fn what_the_plan_tells_of_the_server_is_known() {
    let of = |plan: &Plan, run: &Run| {
        let one = &plan.series()[0];
        let (flags, settings) = settings::of(one, run);
        (flags, seats(&one.plan, run).or_else(|| started_seats(&one.plan, &settings)))
    };
    let run = fixture::found();
    let simulated = "name = \"x\"\nslo.ttft.p99 = \"200ms\"\nsearch.rates = [5]\nserver.simulated = { preset = \"a40-qwen3-0.6b\", max-num-seqs = 64 }\n";
    let plan = Plan::from_text(&format!("{simulated}{WORKLOAD}")).unwrap();
    assert_eq!((of(&plan, &run), fixed_input(&plan)), ((Some(Flags::Simulated), Some(64)), Some(600)));
    let queue = Plan::from_text(&format!(
        "{}{WORKLOAD}",
        simulated.replace("a40-qwen3-0.6b\", max-num-seqs = 64", "md1\"")
    ))
    .unwrap();
    assert_eq!(of(&queue, &run), (Some(Flags::SimulatedQueue), None), "a queue has no seats");
    let real = self::plan(WORKLOAD);
    assert_eq!(of(&real, &run), (None, None), "nothing was told");
    let told = goodput_stats::server::facts::Facts {
        engine: Some(goodput_stats::server::Engine::Vllm),
        engines: Some(2),
        flags: [("max_num_seqs".to_owned(), "64".to_owned())].into(),
        ..goodput_stats::server::facts::Facts::default()
    };
    let run = Run { meta: crate::rundir::Meta { facts: vec![told], ..run.meta.clone() }, ..run };
    assert_eq!(of(&real, &run), (Some(Flags::Vllm), Some(128)), "of both engines");
    let started = "[[variant]]\nname = \"a\"\ncommand = [\"sglang\", \"serve\", \"--max-running-requests\", \"8\", \"--dp-size\", \"2\"]\n";
    let started = self::plan(&format!("{WORKLOAD}{started}"));
    assert_eq!(of(&started, &fixture::found()), (Some(Flags::Sglang), Some(16)), "of its command");
}

#[test]
fn an_answer_of_several_choices_is_looked_into_as_one_of_them() {
    let run = case("found");
    let (one, four) = (plan(WORKLOAD), plan(&format!("{WORKLOAD}server.body.n = 4")));
    assert!(matches!(of_one_choice(&one, &run.steps), Cow::Borrowed(_)));
    for (whole, choice) in run.steps.iter().zip(of_one_choice(&four, &run.steps).iter()) {
        assert_eq!(choice.output_tokens_mean, whole.output_tokens_mean.map(|n| n / 4.0));
        assert_eq!(*choice, Step { output_tokens_mean: choice.output_tokens_mean, ..whole.clone() });
    }
}
