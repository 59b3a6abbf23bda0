use super::*;
use crate::Request;

fn parse(text: &str) -> Result<Simulated, String> {
    toml::from_str(text).map_err(|e| e.to_string())
}

#[test]
fn presets_and_overrides() {
    for (text, shown) in [
        ("preset = \"md1\"", "simulated md1 (service 50ms)"),
        ("preset = \"md1\"\ndecode = \"2ms\"", "simulated md1 (service 50ms, decode 2ms)"),
        ("preset = \"mm1\"\nservice = \"80ms\"", "simulated mm1 (service 80ms)"),
        ("preset = \"mmc\"", "simulated mmc (servers 32, service 2s, prefill 50ms)"),
        ("preset = \"mmc\"\nservers = 4", "simulated mmc (servers 4, service 2s, prefill 50ms)"),
        ("preset = \"fixed\"\ntpot = \"1ms\"", "simulated fixed (ttft 20ms, tpot 1ms)"),
        ("preset = \"null\"", "simulated null"),
        ("preset = \"demo\"", "simulated demo"),
        (
            "preset = \"a40-qwen3-0.6b\"\nkv-blocks = 100\nprefix-cache = false",
            "simulated a40-qwen3-0.6b (kv-blocks 100, prefix-cache false, max-model-len 1584)",
        ),
        ("preset = \"demo\"\nmax-model-len = 32768", "simulated demo"),
        ("preset = \"demo\"\nmax-model-len = 900", "simulated demo (max-model-len 900)"),
        ("preset = \"null\"\nmax-model-len = 64", "simulated null (max-model-len 64)"),
        ("preset = \"4xa100-llama-70b\"\nmax-num-seqs = 64", "simulated 4xa100-llama-70b (max-num-seqs 64)"),
        (
            "preset = \"4xa100-llama-70b-util\"\ngpu-memory-utilization = 0.9",
            "simulated 4xa100-llama-70b-util",
        ),
        // Blocks follow from the share of memory, and seats from the blocks and the longest request; given settings
        // stay.
        (
            "preset = \"4xa100-llama-70b-util\"\ngpu-memory-utilization = 0.8",
            "simulated 4xa100-llama-70b-util (max-num-seqs 28, gpu-memory-utilization 0.8)",
        ),
        (
            "preset = \"4xa100-llama-70b-util\"\ngpu-memory-utilization = 0.8\nmax-model-len = 512",
            "simulated 4xa100-llama-70b-util (max-num-seqs 57, gpu-memory-utilization 0.8, max-model-len 512)",
        ),
        (
            "preset = \"4xa100-llama-70b-util\"\nmax-num-seqs = 256",
            "simulated 4xa100-llama-70b-util (max-num-seqs 256)",
        ),
        // Valid as a plan, although the server would not start.
        (
            "preset = \"4xa100-llama-70b-util\"\ngpu-memory-utilization = 0.95",
            "simulated 4xa100-llama-70b-util (max-num-seqs 41, gpu-memory-utilization 0.95)",
        ),
        // As in vLLM, open settings follow given ones.
        (
            "preset = \"demo\"\nchunked-prefill = false",
            "simulated demo (max-num-batched-tokens 32768, chunked-prefill false)",
        ),
        (
            "preset = \"demo\"\nchunked-prefill = false\nmax-model-len = 900",
            "simulated demo (chunked-prefill false, max-model-len 900)",
        ),
        (
            "preset = \"a40-qwen3-0.6b\"\nmax-num-batched-tokens = 100",
            "simulated a40-qwen3-0.6b (max-num-seqs 100, max-num-batched-tokens 100)",
        ),
    ] {
        let sim = parse(text).unwrap();
        assert_eq!(sim.to_string(), shown, "{text}");
        // The written form has every setting and reads back equal.
        let written = toml::to_string(&sim).unwrap();
        assert_eq!(parse(&written).unwrap(), sim, "{written}");
        assert_eq!(written.lines().count(), 4 + sim.engine.settings().len(), "{written}");
    }
    let sim = Simulated::named("md1").unwrap();
    assert_eq!((sim.model.as_str(), sim.max_model_len.get(), sim.seed), ("simulated", 131_072, 1));
}

/// As with vLLM's `--max-model-len auto`.
#[test]
fn the_longest_request_fits_into_the_kv_cache() {
    for (text, longest) in [
        ("preset = \"a40-qwen3-0.6b\"", 40_960),
        ("preset = \"a40-qwen3-0.6b\"\nkv-blocks = 100", 1584),
        ("preset = \"a40-qwen3-0.6b\"\nkv-blocks = 100\nmax-model-len = 900", 900),
        ("preset = \"a40-qwen3-0.6b\"\nkv-blocks = 100\nmax-model-len = 1584", 1584),
        ("preset = \"a40-qwen3-0.6b\"\nkv-blocks = 2", 16),
        ("preset = \"a40-qwen3-0.6b\"\nmax-model-len = 100000", 100_000),
        ("preset = \"md1\"\nmax-model-len = 1000000", 1_000_000),
    ] {
        assert_eq!(parse(text).unwrap().max_model_len.get(), longest, "{text}");
    }
}

#[test]
fn invalid_tables_are_rejected_with_a_reason() {
    for (text, message) in [
        (
            "preset = \"md2\"",
            "`demo`, `a40-qwen3-0.6b`, `l4-bge-large`, `l4-whisper-large-v3`, `4xa100-llama-70b`, `4xa100-llama-70b-util`, `md1`, `mm1`, `mmc`, `fixed`, `null`",
        ),
        ("preset = \"md1\"\nservers = 2", "\"md1\" does not use servers; it has service, decode"),
        ("preset = \"mmc\"\ndecode = \"1ms\"", "does not use decode"),
        ("preset = \"mmc\"\nkv-blocks = 9", "does not use kv-blocks; it has servers, service, prefill"),
        (
            "preset = \"demo\"\nservers = 9",
            "does not use servers; it has max-num-seqs, max-num-batched-tokens",
        ),
        ("preset = \"demo\"\nmax-num-seqs = 0", "a whole number from 1 to 4294967295, got 0"),
        ("preset = \"demo\"\nmax-num-seqs = -3", "a whole number from 1 to 4294967295, got -3"),
        ("preset = \"demo\"\nkv-blocks = 4294967296", "4294967295, got 4294967296"),
        ("preset = \"demo\"\nkv-blocks = 1.5", "expected a whole number from 1 to 4294967295"),
        (
            "preset = \"demo\"\nkv-blocks = 1",
            "kv-blocks is 1, but vLLM reserves one block: set it to at least 2",
        ),
        ("preset = \"demo\"\nmodel = \" \"", "model is empty"),
        ("preset = \"demo\"\nprefix-cache = \"on\"", "boolean"),
        ("preset = \"null\"\nttft = \"1ms\"", "does not use ttft; it has no settings"),
        ("preset = \"demo\"\ngpu-memory-utilization = 0.9", "does not use gpu-memory-utilization; it has"),
        (
            "preset = \"4xa100-llama-70b-util\"\nkv-blocks = 9",
            "does not use kv-blocks; it has max-num-seqs, max-num-batched-tokens, gpu-memory-utilization",
        ),
        (
            "preset = \"4xa100-llama-70b-util\"\ngpu-memory-utilization = 90",
            "a share must lie between 0 and 1, got 90",
        ),
        ("preset = \"mmc\"\nservers = 0", "from 1 to 4294967295, got 0"),
        ("preset = \"md1\"\nmax-model-len = 0", "from 1 to 4294967295, got 0"),
        // Limits that vLLM does not start with.
        (
            "preset = \"demo\"\nkv-blocks = 100\nmax-model-len = 1585",
            "max-model-len (1585) exceeds the KV cache: 99 of kv-blocks (100) are usable (one is the null block) and hold 1584 tokens",
        ),
        (
            "preset = \"demo\"\nchunked-prefill = false\nmax-num-batched-tokens = 899\nmax-model-len = 900",
            "max-num-batched-tokens (899) is below max-model-len (900)",
        ),
        (
            "preset = \"demo\"\nmax-num-seqs = 9\nmax-num-batched-tokens = 8",
            "max-num-batched-tokens (8) is below max-num-seqs (9)",
        ),
        (
            "preset = \"demo\"\nmax-num-seqs = 3000",
            "max-num-batched-tokens (2048) is below max-num-seqs (3000)",
        ),
        ("preset = \"md1\"\nservice = \"soon\"", "soon"),
        ("preset = \"md1\"\nserver = 1", "unknown field `server`"),
        ("seed = 1", "missing field `preset`"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.contains(message), "{text}: {error}");
    }
    assert!(Simulated::named("a40").unwrap_err().contains(
        "the presets are demo, a40-qwen3-0.6b, l4-bge-large, l4-whisper-large-v3, 4xa100-llama-70b, "
    ));
}

#[test]
fn every_preset_answers_a_request() {
    // TTFT and end of four tokens, unloaded, in ms; exponential ones depend on the seed.
    for (preset, expected) in [
        ("md1", (50, 50)),
        ("fixed", (20, 35)),
        ("null", (0, 0)),
        ("demo", (1, 6)),
        ("a40-qwen3-0.6b", (5, 20)),
    ] {
        let mut model = Simulated::named(preset).unwrap().build();
        model.arrive(Duration::ZERO, Request::new(0, 1, 4));
        let out = model.advance(Duration::MAX);
        let (first, last) = (out[0].at.as_millis(), out[3].at.as_millis());
        assert_eq!((first, last, out.len()), (expected.0, expected.1, 4), "{preset}");
    }
    let second = |seed| {
        let mut model = Simulated { seed, ..Simulated::named("mm1").unwrap() }.build();
        model.arrive(Duration::ZERO, Request::new(0, 1, 1));
        model.advance(Duration::MAX)[0].at
    };
    assert_eq!(second(1), second(1));
    assert_ne!(second(1), second(2), "the seed reaches the model");
}

#[test]
fn faults_are_displayed_and_read_back() {
    let sim = parse("preset = \"md1\"\nfault = { stall = 0.02, status-500 = 0.5 }\nfault-after = 7").unwrap();
    assert!(sim.to_string().ends_with("faults: stall 0.02, status-500 0.5)"), "{sim}");
    let text = toml::to_string(&sim).unwrap();
    assert_eq!(parse(&text).unwrap(), sim);
    assert!(!toml::to_string(&parse("preset = \"md1\"").unwrap()).unwrap().contains("fault"));
    for (fault, message) in [
        ("stall = 0.6, silent = 0.6", "add up to 1.200"),
        ("teapot = 0.1", "unknown variant `teapot`, expected one of `refused`"),
        ("stall = 1.2", "1.2"),
    ] {
        let error = parse(&format!("preset = \"md1\"\nfault = {{ {fault} }}")).unwrap_err();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn speed_divides_the_parts_of_the_times() {
    let sim = |text: &str| parse(&format!("preset = \"a40-qwen3-0.6b\"\n{text}")).unwrap();
    // End of one long prompt, and of one token more, in µs; without noise they follow from the formula.
    let times = |sim: &Simulated| {
        let Engine::Batch { deployment, preset } = &sim.engine else { panic!("it is one") };
        let calm = Deployment { cv: 0.0, drift: None, ..deployment.clone() };
        let mut model =
            Simulated { engine: Engine::Batch { preset: *preset, deployment: calm }, ..sim.clone() }.build();
        model.arrive(Duration::ZERO, Request::new(0, 2000, 2));
        let out = model.advance(Duration::MAX);
        [out[0].at.as_micros(), (out[1].at - out[0].at).as_micros()]
    };
    // 4 ms and 40 µs of host, 2,000 × 16 µs and 6 ns × 2,000² / 2 of compute; then 1.7 ms and 2,001 × 165 ns of memory.
    let base = times(&sim(""));
    assert_eq!(base, [4040 + 32_000 + 12_000, 4040 + 1700 + 330], "{base:?}");
    let [compute, memory, host] =
        ["compute", "memory", "host"].map(|part| times(&sim(&format!("speed.{part} = 2"))));
    assert_eq!(compute, [4040 + 22_000, base[1]]);
    assert_eq!(memory, [base[0], 4040 + 850 + 165]);
    assert_eq!(host, [base[0] - 2020, base[1] - 2020]);
    let all = sim("speed = { compute = 2, memory = 2, host = 2 }\nslow-down = 2");
    assert_eq!(times(&all), base, "both apply");
    assert_eq!(parse(&toml::to_string(&all).unwrap()).unwrap(), all);
    assert!(all.to_string().contains("speed.memory 2, speed.compute 2, speed.host 2"), "{all}");
    for preset in ["demo", "md1"] {
        let error = parse(&format!("preset = \"{preset}\"\nspeed.memory = 2")).unwrap_err();
        assert!(error.contains("have no parts"), "{error}");
    }
}
