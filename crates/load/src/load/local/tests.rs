use super::*;
use crate::client::encoder::Pinning;
use crate::client::preflight;
use crate::load::spec::{Status, StepSpec};
use crate::sim::router::router;
use goodput_core::endpoint::Api;
use goodput_core::record::{Failure, Finished, Outcome, Phase, Record};
use goodput_plan::Timeout;
use goodput_workload::draw::{StepKey, Surge};
use goodput_workload::part::StepPart;
use goodput_workload::rate::WordRate;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;
use tokio::time::interval;

const SETTLE: Duration = Duration::from_secs(2);
const MEASURE: Duration = Duration::from_secs(20);

const ONE: &str = "prompts.synthetic = { input-tokens = { lognormal = { mean = 60, cv = 0.4 } }, output-tokens = { fixed = 3 } }";
const TALK: &str = "prompts.synthetic = { input-tokens.fixed = 90, output-tokens.fixed = 3 }\n\
                    conversation = { turns.fixed = 3, input-tokens.fixed = 9, think.fixed = \"1s\" }";
const MIX: &str = "class = [{ name = \"a\", weight = 1, prompts.synthetic = { input-tokens.fixed = 9, output-tokens.fixed = 3 } },\n\
                   { name = \"b\", weight = 1, model = \"lora\", body = { top_k = 7 }, \
                   prompts.synthetic = { input-tokens.fixed = 9, output-tokens.fixed = 3 } }]";

/// Returns the plan of a simulated server with this workload.
fn plan(workload: &str) -> Plan {
    let text = format!(
        "name = \"x\"\nserver.simulated = {{ preset = \"md1\", service = \"20ms\" }}\nslo.ttft.p99 = \"200ms\"\nslo.itl.p99 = \"40ms\"\n\
         search.rates = [1]\n[workload]\n{workload}"
    );
    Plan::from_text(&text).unwrap()
}

/// Returns the load of a step.
fn spec(load: &Load, level: Level, part: StepPart) -> Spec {
    let key = StepKey { seed: 5, series: "main".into(), step: 3 };
    let step = StepSpec {
        prompts: key.clone(),
        arrivals: key,
        in_series: 3,
        selection: Selection::All,
        hurried: false,
        surge: None,
        pace: None,
        phase: None,
        settle: SETTLE,
        measure: MEASURE,
        timeout: Timeout { after: Duration::from_secs(60), is_error: false },
    };
    Spec { plan: load.plan().clone(), terms: load.terms().clone(), step, level, part }
}

/// Returns a load with a new simulated server.
async fn load(plan: &Plan) -> Load {
    let sim = plan.simulated().unwrap().unwrap();
    let client = Client::in_process(router(&sim), &plan.server);
    let model = preflight::check_models(&client, None).await.unwrap().id;
    let terms = Terms {
        model,
        pinning: Pinning::FULL,
        usage: true,
        words: WordRate::UNKNOWN.into(),
        resumed: 0,
        keep_text: false,
    };
    let mut plan = plan.clone();
    let traffic = plan.open_files().unwrap();
    let connected = Connected { host: Arc::new(Host::paused()), clients: vec![client], tokenizer: None };
    Load::new(connected, &plan, terms, &traffic).unwrap()
}

/// Fires a part of a step to its end, and returns its requests, warm-up and tail left out.
async fn fired(plan: &Plan, level: Level, part: StepPart) -> Vec<Record> {
    let load = load(plan).await;
    let mut firing = load.fire(&spec(&load, level, part)).unwrap();
    let mut ticks = interval(Duration::from_millis(100));
    let mut all = Vec::new();
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                if firing.began.elapsed() >= SETTLE + MEASURE && firing.status().measured_open == 0 {
                    firing.stop();
                }
            }
            finished = firing.finished.recv() => match finished {
                Some(finished) => all.push(finished.record),
                None => break,
            }
        }
    }
    firing.ended().await.unwrap();
    assert_eq!(firing.status(), Status { sent_all: true, ..Status::default() });
    all.retain(|r| matches!(r.phase, Phase::Settle | Phase::Measure));
    all
}

/// The client stands still from the eighth second until long after the window, and then the load is stopped: requests due meanwhile were never
/// sent, and all are reported.
#[tokio::test(start_paused = true)]
async fn what_was_due_and_never_sent_is_accounted_for() {
    for (workload, level) in [(ONE, Level::rate(9.0)), (TALK, Level::new(Control::Sessions, 9.0))] {
        let (plan, halt) = (plan(workload), Duration::from_secs(8));
        let load = load(&plan).await;
        let mut firing = load.fire(&spec(&load, level, StepPart::WHOLE)).unwrap();
        tokio::time::sleep(halt).await;
        firing.stop();
        tokio::time::advance(Duration::from_secs(60)).await;
        let mut all = Vec::new();
        while let Some(finished) = firing.finished.recv().await {
            all.push(finished.record);
        }
        firing.ended().await.unwrap();
        let unsent: Vec<&Record> = all.iter().filter(|r| r.sent.is_none()).collect();
        assert!(
            unsent.iter().all(|r| r.due >= halt && r.outcome == Outcome::Cut && r.end > SETTLE + MEASURE)
        );
        assert!(unsent.len() > 50, "{} of {}", unsent.len(), all.len());
        all.retain(|r| r.phase != Phase::Tail);
        let whole = fired(&plan, level, StepPart::WHOLE).await;
        assert_eq!(first_turns(all), first_turns(whole), "{workload}");
    }
}

/// Returns the facts about the first turns of some requests: number, due time, class, conversation, and lengths. Later
/// turns are due when the server has answered.
fn first_turns(mut all: Vec<Record>) -> Vec<(u64, Duration, u16, Option<u64>, u32, u32)> {
    all.retain(|r| r.turn <= 1);
    all.sort_by_key(|r| r.id);
    all.iter().map(|r| (r.id, r.due, r.class, r.session, r.input_asked, r.output_asked)).collect()
}

#[tokio::test(start_paused = true)]
async fn the_parts_of_a_step_send_the_requests_of_one_machine() {
    let gamma = format!("arrivals = {{ gamma = {{ cv = 2.5 }} }}\n{ONE}");
    for (workload, level, least) in [
        (ONE, Level::rate(15.0), 250),
        (&gamma, Level::rate(15.0), 150),
        (TALK, Level::new(Control::Sessions, 4.0), 60),
    ] {
        let plan = plan(workload);
        let whole = fired(&plan, level, StepPart::WHOLE).await;
        let wanted = first_turns(whole);
        assert!(wanted.len() > least, "{}", wanted.len());
        for of in [2, 3] {
            let mut union = Vec::new();
            for i in 0..of {
                let part = fired(&plan, level, StepPart::new(i, of).unwrap()).await;
                assert!(part.len() < wanted.len() * 3, "a part is not the whole");
                union.extend(part);
            }
            let mut turns: Vec<(Option<u64>, u16)> = union.iter().map(|r| (r.session, r.turn)).collect();
            turns.sort_unstable();
            turns.dedup();
            assert!(workload != TALK || turns.len() == union.len(), "no turn is sent twice");
            assert_eq!(first_turns(union), wanted, "{of} parts of {workload}");
        }
    }
}

/// In a closed loop the parts share the slots.
#[tokio::test(start_paused = true)]
async fn the_parts_of_a_closed_loop_share_its_slots() {
    let plan = plan(ONE);
    let ids = |all: Vec<Record>| all.into_iter().map(|r| r.id).collect::<Vec<u64>>();
    let [a, b] = [0, 1].map(|i| StepPart::new(i, 2).unwrap());
    let level = Level::concurrency(3);
    let (a, b) = (ids(fired(&plan, level, a).await), ids(fired(&plan, level, b).await));
    assert!(a.len() > 100 && b.len() > 100 && !a.iter().any(|id| b.contains(id)), "{} {}", a.len(), b.len());
}

#[tokio::test(start_paused = true)]
async fn a_window_can_be_extended_and_a_load_be_stopped_and_cut() {
    let plan = plan(ONE);
    let load = load(&plan).await;
    let mut firing = load.fire(&spec(&load, Level::rate(40.0), StepPart::WHOLE)).unwrap();
    firing.extend(2 * MEASURE);
    let (mut last, mut records) = (firing.began, Vec::new());
    let mut sent_all = std::pin::pin!(firing.sent_all());
    let mut cut = false;
    loop {
        tokio::select! {
            () = &mut sent_all, if !cut => {
                cut = true;
                assert!(firing.status().sent_all && firing.status().in_flight > 0);
                firing.cut();
            }
            finished = firing.finished.recv() => match finished {
                Some(finished) => records.push(finished.record),
                None => break,
            },
            () = tokio::time::sleep_until(last + Duration::from_secs(1)), if !cut => {
                last += Duration::from_secs(1);
                if firing.began.elapsed() >= SETTLE + 2 * MEASURE {
                    firing.stop();
                }
            }
        }
    }
    firing.ended().await.unwrap();
    let measured: Vec<&Record> = records.iter().filter(|r| r.phase == Phase::Measure).collect();
    let last = measured.iter().map(|r| r.due).max().unwrap();
    assert!(last > SETTLE + 2 * MEASURE - Duration::from_secs(1), "the window was extended: {last:?}");
    assert!(measured.iter().any(|r| r.outcome == Outcome::Cut), "an overloaded server is cut off");
}

#[tokio::test(start_paused = true)]
async fn a_load_is_of_one_series() {
    let (one, other) = (load(&plan(ONE)).await, load(&plan(TALK)).await);
    assert!(one.fire(&spec(&other, Level::rate(1.0), StepPart::WHOLE)).is_err());
}

/// Returns a value that went through JSON.
fn through_json<T: Serialize + DeserializeOwned>(value: &T) -> T {
    serde_json::from_str(&serde_json::to_string(value).unwrap()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_spec_is_the_same_on_another_machine() {
    for workload in [
        ONE,
        TALK,
        MIX,
        "alone = true\ncache = \"pair\"\nclass = [\n{ name = \"a\", weight = 1, prompts.synthetic = { \
                     input-tokens.fixed = 900, output-tokens.fixed = 3, shared-prefix = { tokens = 40, groups = 3 } }, slo.ttft.p90 = \"3s\" },\n{ name = \"b\", \
                     weight = 3, prompts.synthetic = { input-tokens.fixed = 9, output-tokens.fixed = 3 } }]",
    ] {
        let whole = plan(workload);
        for series in whole.series() {
            let load = load(&series.plan).await;
            let mut spec = spec(&load, Level::concurrency(9), StepPart::new(2, 7).unwrap());
            spec.step.selection = Selection::First(9);
            spec.step.surge = Some(Surge { from: SETTLE, length: MEASURE / 3, factor: 1.1 });
            spec.step.phase = Some(Phase::Warmup);
            let there = through_json(&spec);
            assert_eq!(there, spec, "{} of {workload}", series.name);
            load.fire(&there).map(drop).unwrap();
        }
    }
}

#[test]
fn finished_requests_and_states_are_sent_from_another_machine() {
    let mut record = Record::due(7, Phase::Measure, Duration::from_nanos(1_234_567_891));
    (record.first_token, record.itl_max) = (Some(Duration::MAX), Some(Duration::from_nanos(1)));
    (record.outcome, record.failure) = (Outcome::Failed, Some(Failure::RateLimited));
    (record.status, record.finish) = (Some(429), Some("length".into()));
    let mut finished = Finished::new(record, vec![0, 7, u32::MAX]);
    (finished.sample, finished.text) = (Some("no: \u{1f600}".into()), Some(String::new().into()));
    finished.retry_after = Some(Duration::from_secs(3));
    assert_eq!(through_json(&finished), finished);
    let status =
        Status { in_flight: 3, measured_open: u64::MAX, to_come: true, client_limit: true, sent_all: false };
    assert_eq!(through_json(&status), status);
}

#[test]
fn a_class_measured_alone_asks_for_its_own_model() {
    let plan = plan(&format!("alone = true\n{MIX}"));
    let base = Encoder::new(Api::Chat, "base", &serde_json::Map::new(), Pinning::FULL, true);
    let sent: Vec<Vec<String>> = plan
        .series()
        .iter()
        .map(|s| {
            let bodies = encoders(&base, &s.plan).unwrap();
            let text = |e: &Encoder| format!("{:?}", e.request(&e.prefix(None), "hello", 3));
            bodies.iter().map(text).collect()
        })
        .collect();
    let own = |body: &str| body.contains("lora") && body.contains("top_k");
    let shape: Vec<Vec<bool>> = sent.iter().map(|s| s.iter().map(|b| own(b)).collect()).collect();
    assert_eq!(shape, [vec![false, true], vec![false], vec![true]], "{sent:?}");
}
