use super::*;
use crate::fixture;
use goodput_engine::config::Preset;
use goodput_plan::Plan;
use goodput_stats::diagnosis::{Direction, Load, Server, Suggestion};
use goodput_stats::server::Engine as ServedBy;
use goodput_stats::server::facts::Facts;
use proptest::prelude::*;

const REST: &str = "name = \"x\"\nslo.ttft.p99 = \"200ms\"\nsearch.rates = [5]\n\
    workload.prompts.synthetic = { input-tokens = { fixed = 600 }, output-tokens = { fixed = 30 } }\n";

fn plan(server: &str) -> Plan {
    Plan::from_text(&format!("{REST}{server}")).unwrap()
}

fn read(plan: &Plan, run: &Run) -> (Option<Flags>, Settings) {
    of(&plan.series()[0], run)
}

/// Returns the settings as text: `sequences 8 plan`.
fn shown(settings: &Settings) -> String {
    let text = |value: &Value| match value {
        Value::Count(n) => n.to_string(),
        Value::Share(share) => share.to_string(),
        Value::Switch(on) => on.to_string(),
        Value::Word(word) => word.to_string(),
    };
    let one = |(knob, c): (Knob, &goodput_stats::diagnosis::Current)| {
        format!("{} {} {}", knob.name(), text(&c.value), c.origin.name())
    };
    settings.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Rows: the server of a plan, and its settings.
#[test]
fn settings_of_a_simulated_server_come_from_its_table_and_its_preset() {
    let run = fixture::found();
    for (server, flags, settings) in [
        (
            "server.simulated = { preset = \"a40-qwen3-0.6b\", max-num-seqs = 8 }",
            Flags::Simulated,
            "kv-size 21800 preset, sequences 8 plan, tokens 2048 preset, chunked-prefill true preset, \
             prefix-cache true preset, max-length 40960 preset",
        ),
        (
            "server.simulated = { preset = \"4xa100-llama-70b-util\", gpu-memory-utilization = 0.85 }",
            Flags::Simulated,
            "memory 0.85 plan, sequences 32 preset, tokens 8192 preset, chunked-prefill true preset, \
             prefix-cache false preset, max-length 1024 preset",
        ),
        ("server.simulated.preset = \"mmc\"", Flags::SimulatedQueue, "sequences 32 preset"),
        ("server.simulated.preset = \"md1\"", Flags::SimulatedQueue, ""),
    ] {
        let (read_flags, read) = read(&plan(server), &run);
        assert_eq!((read_flags, shown(&read)), (Some(flags), settings.to_owned()), "{server}");
    }
}

#[test]
fn settings_of_a_real_server_come_from_its_command_and_from_itself() {
    let text = "server.url = \"http://127.0.0.1:8000\"\nhardware.tensor-parallel = 2\nhardware.gpus = 2\n\
        [[variant]]\nname = \"few\"\ncommand = [\"vllm\", \"serve\", \"m\", \"--max-num-seqs=8\", \"--enforce-eager\"]\n";
    let plan = plan(text);
    let mut run = fixture::found();
    let flags = [("gpu_memory_utilization", "0.92"), ("max_num_seqs", "9")];
    run.meta.facts = vec![Facts {
        engine: Some(ServedBy::Vllm),
        flags: flags.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
        ..Facts::default()
    }];
    let (flags, settings) = read(&plan, &run);
    assert_eq!(flags, Some(Flags::Vllm));
    assert_eq!(
        shown(&settings),
        "memory 0.92 server, sequences 8 command-line, chunked-prefill true default, tensor-parallel 2 declared, \
         prefix-cache true default, graphs false command-line"
    );
    run.meta.facts.clear();
    assert_eq!(read_flags(&plan, &run), Some(Flags::Vllm), "the command tells the engine too");
    let told = self::plan(
        "server.url = \"http://127.0.0.1:8000\"\n[environment]\ncommand = \"trtllm-serve m --max_batch_size 16\"\n",
    );
    let (flags, settings) = read(&told, &run);
    assert_eq!((flags, shown(&settings).as_str()), (Some(Flags::TensorRtLlm), "sequences 16 declared"));
}

fn read_flags(plan: &Plan, run: &Run) -> Option<Flags> {
    read(plan, run).0
}

fn load() -> impl Strategy<Value = Load> {
    let number = |most| prop::option::of(0.0..most);
    let by_memory = (number(600.0), number(600.0), number(9000.0), any::<bool>());
    let by_tpot = (number(100.0), number(2000.0), number(20_000.0));
    (by_memory, by_tpot).prop_map(
        |(
            (running, running_most, request_tokens, short_of_memory),
            (tpot_limit_ms, sequences_within_tpot, tokens_within_tpot),
        )| Load {
            running,
            running_most,
            request_tokens,
            tpot_limit_ms,
            sequences_within_tpot,
            tokens_within_tpot,
            short_of_memory,
        },
    )
}

/// Returns the tables of a preset with some of its keys set.
fn tables() -> impl Strategy<Value = String> {
    let presets = prop::sample::select(&Preset::ALL[..]);
    let key = |name: &'static str, values: &'static [&'static str]| {
        prop::option::of(prop::sample::select(values)).prop_map(move |v| v.map(|v| format!(", {name} = {v}")))
    };
    (
        presets,
        key("max-num-seqs", &["1", "2", "8", "13", "64", "300", "512"]),
        key("max-num-batched-tokens", &["512", "600", "2048", "8192", "50000"]),
        key("max-model-len", &["700", "1000", "4096"]),
        key("chunked-prefill", &["true", "false"]),
        key("gpu-memory-utilization", &["0.46", "0.5", "0.8", "0.9", "0.92", "0.93"]),
        key("kv-blocks", &["64", "1000", "9999", "4000000000"]),
    )
        .prop_map(|(preset, a, b, c, d, e, f)| {
            let keys: String = [a, b, c, d, e, f].into_iter().flatten().collect();
            format!("server.simulated = {{ preset = \"{}\"{keys} }}", preset.name())
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Every suggestion for a simulated server is another value than the present one, parses, and lets the server start.
    #[test]
    fn every_preset_takes_the_value_that_is_suggested_for_it(table in tables(), load in load()) {
        let Ok(plan) = Plan::from_text(&format!("{REST}{table}\n")) else { return Ok(()) };
        let starts = |plan: &Plan| plan.simulated().unwrap().unwrap().check_startup();
        prop_assume!(starts(&plan).is_ok());
        let (flags, settings) = read(&plan, &fixture::found());
        let server = Server { flags: flags.unwrap(), is_guess: false, settings: &settings, load };
        for knob in Knob::ALL {
            for direction in [Direction::Raise, Direction::Lower, Direction::On, Direction::Off] {
                let Suggestion::Set(new) = server.suggestion(knob, direction) else { continue };
                prop_assert!(new.from.as_ref().is_none_or(|from| from.value != new.to), "{table}: {new:?}");
                let value = match &new.to {
                    Value::Count(n) => n.to_string(),
                    Value::Share(share) => share.to_string(),
                    Value::Switch(on) => on.to_string(),
                    Value::Word(word) => word.to_string(),
                };
                let set = format!("{}={value}", new.flag.name);
                let changed = plan.with_overrides(std::slice::from_ref(&set));
                prop_assert!(changed.is_ok(), "{table}, {set}: {:#}", changed.unwrap_err());
                let started = starts(&changed.unwrap());
                prop_assert!(started.is_ok(), "{table}, {set}: {started:?}");
            }
        }
    }
}

#[test]
fn the_longest_prompt_is_known_beside_the_longest_request() {
    use crate::rundir::Sent;
    use goodput_core::distribution::Distribution;
    let lengths = |max| Distribution { n: 9, mean: 1.0, p50: 1, p90: 1, p99: 1, max, bars: Vec::new() };
    let sent = |series: &str, input, output: Option<u64>| Sent {
        series: series.into(),
        class: "all".into(),
        input: Some(lengths(input)),
        output: output.map(lengths),
    };
    let mut run = fixture::found();
    for (sent, request, prompt) in [
        (vec![sent("main", 600, Some(900)), sent("main", 4_000, Some(30))], Some(4_030), Some(4_000)),
        (vec![sent("", 600, None)], None, Some(600)),
        (vec![sent("another", 600, Some(30))], None, None),
    ] {
        run.meta.sent = sent;
        let (_, settings) = read(&plan("server.url = \"http://127.0.0.1:8000\"\n"), &run);
        assert_eq!((settings.longest_request, settings.longest_prompt), (request, prompt));
    }
}
