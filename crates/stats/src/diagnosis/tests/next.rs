//! Tests of what to measure next, and of what is not decided.

use super::*;

/// An undecidable kind is reported if a limit was missed, or if several GPUs hold one copy of the model.
#[test]
fn what_cannot_be_told_is_said() {
    let untold = |change: Change| {
        let (mut steps, mut facts) = usual();
        change(&mut steps, &mut facts);
        let all = diagnose(&steps, &facts).untold;
        all.iter().map(|u| u.kind.name()).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(untold(|_, _| ()), "preemption, kv-exhaustion, batch-too-small");
    assert_eq!(untold(|_, f| f.curves[0].limit = None), "", "no limit was missed");
    let told: Change = |s, _| {
        let page = ServerSide {
            kv_max: Some(0.4),
            waiting_mean: Some(0.0),
            waiting_max: Some(0.0),
            running_mean: Some(3.0),
            preemptions: Some(0.0),
            queue: histogram(1.0),
            prefill: histogram(3.0),
            ttft: histogram(14.0),
            ..ServerSide::default()
        };
        s.iter_mut().for_each(|s| s.server = page.clone());
    };
    assert_eq!(untold(told), "", "the counters tell");
    let four: Change = |_, f| (f.curves[0].limit, f.curves[0].tensor_parallel) = (None, Some(4));
    assert_eq!(untold(four), "communication-bound");
    let near: Change = |s, f| {
        (f.curves[0].limit, f.curves[0].tensor_parallel) = (None, Some(4));
        f.curves[0].hardware = hardware(4, EIGHT);
        s[0] = step(1, Level::concurrency(1), (15.0, 20.0), 9.0);
    };
    assert_eq!(untold(near), "", "so near its floor they do not wait for one another");
}

#[test]
fn what_to_measure_next_is_a_command_for_this_plan() {
    let next = |change: Change| {
        let (mut steps, mut facts) = usual();
        facts.again = "goodput sweep plan.toml --virtual-time".into();
        change(&mut steps, &mut facts);
        diagnose(&steps, &facts).findings.remove(0).next.command
    };
    let arrivals = next(|s, _| queue_of_short_prompts(s));
    assert_eq!(arrivals, "goodput sweep plan.toml --set 'workload.arrivals=constant' --virtual-time");
    let seats = next(|s, f| {
        seats(s);
        (f.curves[0].seats, f.curves[0].flags) = (Some(8), Some(Flags::Simulated));
        f.curves[0].settings.set(Knob::Sequences, Value::Count(8), Origin::Plan);
    });
    assert_eq!(seats, "goodput sweep plan.toml --set 'server.simulated.max-num-seqs=16' --virtual-time");
    let row = next(|s, f| {
        on_tpot(s, f, 26.0);
        (f.curves[0].limit, f.curves[0].question) = (None, Some("tpot".into()));
    });
    assert_eq!(row, "goodput sweep plan.toml --virtual-time", "rows have levels of their own");
    let refused = next(|s, f| {
        queue_of_short_prompts(s);
        f.accepts = Accepts::new(|sets| !sets.iter().any(|set| set.starts_with("workload.arrivals")));
    });
    assert!(refused.contains("--set 'search.rates=["), "another measurement: {refused}");
    let nothing = next(|s, f| {
        queue_of_short_prompts(s);
        f.accepts = Accepts::new(|_| false);
    });
    assert_eq!(nothing, "goodput sweep plan.toml --virtual-time");
}

/// Returns a server that the plan starts, with eight seats taken, and the room of its KV cache unknown.
pub(super) fn started(steps: &mut [Step], facts: &mut Facts) {
    seats(steps);
    let line = "vllm serve m --max-num-seqs 8 --gpu-memory-utilization 0.9";
    let command: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let curve = &mut facts.curves[0];
    curve.flags = curve.settings.read_command(&command, Origin::CommandLine);
    (curve.command, curve.seats) = (Some(command), Some(8));
    facts.try_advice = "goodput sweep --resume . --try-advice".into();
    facts.trial_again = "goodput sweep advice/plan.toml".into();
}

/// Returns the findings of a started server: kind, first advised value, next command.
fn of_started(change: Change) -> Vec<(Kind, Option<Value>, String)> {
    let (mut steps, mut facts) = usual();
    started(&mut steps, &mut facts);
    change(&mut steps, &mut facts);
    let value = |f: &Finding| Some(f.advice.first()?.to.clone()?.value);
    let findings = diagnose(&steps, &facts).findings;
    findings.iter().map(|f| (f.kind, value(f), f.next.command.clone())).collect()
}

#[test]
fn advice_is_tried_on_a_server_that_the_plan_starts() {
    let usual = of_started(|_, _| ());
    let try_advice = "goodput sweep --resume . --try-advice";
    assert_eq!(usual[0], (Kind::BatchTooSmall, Some(Value::Count(16)), try_advice.to_owned()));
    let full = of_started(|s, _| s[2].server.preemptions = Some(50.0));
    let second = full.iter().find(|(kind, ..)| *kind == Kind::BatchTooSmall).unwrap();
    assert_eq!((&full[0].0, full[0].2.as_str()), (&Kind::Preemption, try_advice));
    assert!(second.2.starts_with("goodput sweep --resume . --try-advice="), "not the first: {second:?}");
    let script = of_started(|_, f| {
        let words = ["sh", "-c", "vllm serve m --max-num-seqs 8"];
        f.curves[0].command = Some(words.map(str::to_owned).to_vec());
    });
    assert_eq!(script[0].2, "goodput sweep plan.toml", "the flags of a script cannot be changed");
}

#[test]
fn the_next_number_of_sequences_is_the_advised_one() {
    let (mut steps, mut facts) = usual();
    started(&mut steps, &mut facts);
    facts.curves[0].command = None;
    facts.forecasts = vec![forecasts::forecast(30.0, &[(Altered::MoreSequences(48), 90.0)])];
    let first = diagnose(&steps, &facts).findings.remove(0);
    assert_eq!(first.advice[0].to.as_ref().unwrap().value, Value::Count(48));
    let Measurement::OtherSequences { sequences, .. } = first.next.measurement else { panic!("{first:?}") };
    assert_eq!(sequences, 48);
}

#[test]
fn what_gained_comes_first_and_what_gained_nothing_last() {
    let trial = |remedy: &str, gain| Trial { series: "main".into(), remedy: remedy.into(), gain };
    let order = |trials: Vec<Trial>| {
        let (mut steps, mut facts) = usual();
        started(&mut steps, &mut facts);
        steps[2].server.preemptions = Some(50.0);
        facts.trials = trials;
        diagnose(&steps, &facts).findings
    };
    let kinds = |findings: &[Finding]| findings.iter().map(|f| f.kind).collect::<Vec<_>>();
    let untried = order(vec![]);
    let first = Remedy::of(&untried[0].advice[0]).unwrap().name;
    let second = Remedy::of(&untried[0].advice[1]).unwrap().name;
    assert_eq!(kinds(&untried)[..2], [Kind::Preemption, Kind::BatchTooSmall]);
    let failed = order(vec![trial(&first, Gain::NoGain)]);
    assert_eq!(kinds(&failed).last(), Some(&Kind::Preemption), "{:?}", kinds(&failed));
    let preemption = failed.last().unwrap();
    let last = preemption.advice.last().and_then(Remedy::of).map(|remedy| remedy.name);
    assert_eq!(last, Some(first.clone()), "failed ones come last");
    let unmeasured = order(vec![trial(&first, Gain::Unmeasured)]);
    assert_eq!(
        kinds(&unmeasured),
        kinds(&untried),
        "a server that did not start says nothing about the cause"
    );
    assert_ne!(Remedy::of(&unmeasured[0].advice[0]).unwrap().name, first);
    let gained = order(vec![trial("max-num-seqs=16", Gain::Gained(40.0)), trial(&first, Gain::NoGain)]);
    assert_eq!(kinds(&gained)[0], Kind::BatchTooSmall);
    assert_eq!(gained[0].next.command, "goodput sweep advice/plan.toml");
    let more = order(vec![trial("max-num-seqs=16", Gain::Gained(40.0)), trial(&second, Gain::Gained(41.0))]);
    assert_eq!(kinds(&more)[..2], [Kind::Preemption, Kind::BatchTooSmall], "the most gained first");
    assert_eq!(Remedy::of(&more[0].advice[0]).unwrap().name, second);
    let again = order(vec![trial("max-num-seqs=16", Gain::NoGain)]);
    let seats = again.iter().find(|f| f.kind == Kind::BatchTooSmall).unwrap();
    assert_eq!(seats.next.command, "goodput sweep plan.toml", "what gained nothing is not tried again");
    let open = order(vec![trial(&first, Gain::Open)]);
    assert_eq!(kinds(&open), kinds(&untried), "what was not decided stays");
}

/// Rows: a change of the usual steps with a missed limit on TTFT, and what the kind lacks.
#[test]
fn what_is_missing_is_told_from_what_is_too_little() {
    let missing = |kind: Kind, change: Change| {
        let (mut steps, mut facts) = usual();
        queue(&mut steps);
        change(&mut steps, &mut facts);
        let all = diagnose(&steps, &facts).untold;
        all.into_iter().find(|u| u.kind == kind).map(|u| u.missing)
    };
    let few = |by| Some(vec![Source::UnloadedRequests { requests: 3, least: 6, by }]);
    let none: Change = |s, _| drop(s.drain(..2));
    assert_eq!(missing(Kind::DecodeBound, none), Some(vec![Source::UnloadedStep]));
    let listed: Change = |s, _| {
        s[0].completed = 3;
        s.remove(1);
    };
    assert_eq!(missing(Kind::DecodeBound, listed), few(LongerBy::StepLength));
    let adaptive: Change = |s, _| {
        s[0].completed = 3;
        s[2].kind = StepKind::Refine;
        s.remove(1);
    };
    assert_eq!(missing(Kind::DecodeBound, adaptive), few(LongerBy::Budget));
    let overloaded: Change = |s, _| s[2].stable = Some(false);
    let steady = Source::SteadyStep { step: 3 };
    assert_eq!(missing(Kind::Queueing, overloaded), Some(vec![steady, Source::ServerTimes]));
    let short: Change = |s, _| s[2].stable = None;
    assert_eq!(missing(Kind::Unstable, short), Some(vec![Source::LongerStep]));
}

/// With the prefix cache off, the tokens that prompts share take room for every request.
#[test]
fn shared_tokens_count_where_the_cache_is_off() {
    fn with_room(steps: &mut [Step], facts: &mut Facts, cache: bool) {
        (steps[2].input_tokens_mean, steps[2].output_tokens_mean) = (Some(900.0), Some(100.0));
        let curve = &mut facts.curves[0];
        (curve.shared, curve.settings.kv_tokens) = (Some(0.9), Some(20_000));
        curve.settings.set(Knob::PrefixCache, Value::Switch(cache), Origin::CommandLine);
    }
    let seats = |change: Change| {
        let all = of_started(change);
        all.into_iter().find(|(kind, ..)| *kind == Kind::BatchTooSmall).unwrap().1
    };
    assert_eq!(seats(|s, f| with_room(s, f, false)), Some(Value::Count(20)), "20 requests of 1,000 tokens");
    assert_eq!(
        seats(|s, f| with_room(s, f, true)),
        Some(Value::Count(52)),
        "room for 105, and TPOT allows 53"
    );
}
