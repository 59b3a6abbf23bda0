use super::*;
use proptest::prelude::*;

const ENGINES: [Flags; 5] = [Flags::Vllm, Flags::Sglang, Flags::Tgi, Flags::LlamaCpp, Flags::TensorRtLlm];

fn load(running: f64) -> Load {
    Load { running: Some(running), running_most: Some(running), ..Load::default() }
}

/// Returns the suggestion for a server with a command line: `flag from -> to`, or why there is none.
fn suggested(
    flags: Flags,
    line: &str,
    load: Load,
    kv_tokens: Option<u64>,
    change: (Knob, Direction),
) -> String {
    let mut settings = Settings::default();
    let engine = settings.read_command_line(line, Origin::CommandLine);
    assert!(engine.is_none_or(|engine| engine == flags), "{line}");
    settings.kv_tokens = settings.kv_tokens.or(kv_tokens);
    let server = Server { flags, is_guess: false, settings: &settings, load };
    let text = |value: &Value| match value {
        Value::Count(n) => n.to_string(),
        Value::Share(share) => format!("{share:.2}"),
        Value::Switch(on) => on.to_string(),
        Value::Word(word) => word.to_string(),
    };
    let from = |from: &Option<Current>| from.as_ref().map_or("?".into(), |c| text(&c.value));
    match server.suggestion(change.0, change.1) {
        Suggestion::Set(new) => {
            let with = new.with.map(|(flag, value)| format!(", {} {}", flag.name, text(&value)));
            let with = with.unwrap_or_default();
            format!("{} {} -> {}{with}", new.flag.name, from(&new.from), text(&new.to))
        }
        Suggestion::Toward { flag, from: now } => format!("{} {}", flag.name, from(&now)),
        Suggestion::AlreadySet(now) => format!("already {}", text(&now.value)),
        Suggestion::AtBound(now, bound) => format!("bound {bound:?} {}", text(&now.value)),
        Suggestion::NoFlag => "no flag".into(),
    }
}

const RAISE: Direction = Direction::Raise;
const LOWER: Direction = Direction::Lower;
const ON: Direction = Direction::On;

/// Rows: arguments of vLLM, change, suggestion. Eight requests run, and a request has 1,000 tokens.
const VLLM: &[(&str, Knob, Direction, &str)] = &[
    // Twice as many where the room of the KV cache is not known.
    ("--max-num-seqs 8", Knob::Sequences, RAISE, "--max-num-seqs 8 -> 16"),
    ("--max-num-seqs 64", Knob::Sequences, RAISE, "bound Unused 64"),
    ("--max-num-seqs 8 --max-num-batched-tokens 8", Knob::Sequences, RAISE, "bound Range 8"),
    ("", Knob::Sequences, RAISE, "--max-num-seqs ?"),
    // A number of blocks that is set makes the share of memory idle.
    (
        "--num-gpu-blocks-override 20 --gpu-memory-utilization 0.9",
        Knob::Memory,
        RAISE,
        "--num-gpu-blocks-override 20 -> 40",
    ),
    ("--num-gpu-blocks-override 20", Knob::KvType, ON, "no flag"),
    // Fewer than ran, whatever the flag says.
    ("--max-num-seqs 256", Knob::Sequences, LOWER, "--max-num-seqs 256 -> 4"),
    ("--max-num-seqs 1", Knob::Sequences, LOWER, "bound Range 1"),
    ("", Knob::Sequences, LOWER, "--max-num-seqs ? -> 4"),
    // Tokens of an iteration: not below the sequences, nor above the longest request.
    (
        "--max-num-batched-tokens 2048 --max-model-len 5000",
        Knob::Tokens,
        RAISE,
        "--max-num-batched-tokens 2048 -> 4608",
    ),
    ("--max-num-batched-tokens 2048", Knob::Tokens, LOWER, "--max-num-batched-tokens 2048 -> 1024"),
    (
        "--max-num-batched-tokens 300 --max-num-seqs 256",
        Knob::Tokens,
        LOWER,
        "--max-num-batched-tokens 300 -> 256",
    ),
    ("--max-num-batched-tokens 256 --max-num-seqs 256", Knob::Tokens, LOWER, "bound Range 256"),
    ("--max-num-batched-tokens 2048", Knob::PrefillChunk, LOWER, "--long-prefill-token-threshold ? -> 1024"),
    // Shares of memory, or the size that replaces them.
    ("--gpu-memory-utilization 0.85", Knob::Memory, RAISE, "--gpu-memory-utilization 0.85 -> 0.90"),
    ("--gpu-memory-utilization 0.92", Knob::Memory, RAISE, "--gpu-memory-utilization 0.92 -> 0.95"),
    ("--gpu-memory-utilization 0.95", Knob::Memory, RAISE, "bound Range 0.95"),
    ("--gpu-memory-utilization 0.98", Knob::Memory, RAISE, "bound Range 0.98"),
    ("--kv-cache-memory-bytes 1000", Knob::Memory, RAISE, "--kv-cache-memory-bytes 1000"),
    // Settings that are on or off, and words.
    ("", Knob::PrefixCache, ON, "already true"),
    ("--enforce-eager", Knob::Graphs, ON, "leave out --enforce-eager false -> true"),
    ("--kv-cache-dtype auto", Knob::KvType, ON, "--kv-cache-dtype fp8 auto -> fp8"),
    ("--kv-cache-dtype fp8_e5m2", Knob::KvType, ON, "already fp8_e5m2"),
    ("-tp 1", Knob::TensorParallel, LOWER, "bound Range 1"),
    ("-tp 2", Knob::TensorParallel, RAISE, "--tensor-parallel-size 2 -> 4"),
];

/// Rows: engine, command line, change, suggestion, as for vLLM.
const OTHERS: &[(Flags, &str, Knob, Direction, &str)] = &[
    (
        Flags::Sglang,
        "sglang serve --mem-fraction-static 0.85",
        Knob::Memory,
        RAISE,
        "--mem-fraction-static 0.85 -> 0.87",
    ),
    (
        Flags::Sglang,
        "sglang serve --disable-radix-cache",
        Knob::PrefixCache,
        ON,
        "leave out --disable-radix-cache false -> true",
    ),
    // TGI takes all of the memory by default, and its batch has no limit unless one is given.
    (Flags::Tgi, "text-generation-launcher", Knob::Memory, RAISE, "bound Range 1.00"),
    (Flags::Tgi, "text-generation-launcher", Knob::Sequences, RAISE, "no flag"),
    (
        Flags::Tgi,
        "text-generation-launcher --max-batch-size 8",
        Knob::Sequences,
        RAISE,
        "--max-batch-size 8 -> 16",
    ),
    // A context that slots divide grows with them.
    (Flags::LlamaCpp, "llama-server -c 8192", Knob::Memory, RAISE, "--ctx-size 8192 -> 16384"),
    (
        Flags::LlamaCpp,
        "llama-server -np 8 -c 8192",
        Knob::Sequences,
        RAISE,
        "--parallel 8 -> 16, --ctx-size 16384",
    ),
    (Flags::LlamaCpp, "llama-server -np 8 -c 8192 -kvu", Knob::Sequences, RAISE, "--parallel 8 -> 16"),
    (Flags::LlamaCpp, "llama-server", Knob::Graphs, ON, "no flag"),
    (
        Flags::TensorRtLlm,
        "trtllm-serve m",
        Knob::PrefixCache,
        ON,
        "kv_cache_config.enable_block_reuse in the file of --config ?",
    ),
];

#[test]
fn values_follow_from_the_present_ones() {
    let load = Load { request_tokens: Some(1000.0), ..load(8.0) };
    for (arguments, knob, direction, wanted) in VLLM {
        let line = format!("vllm serve m {arguments}");
        let got = suggested(Flags::Vllm, &line, load, None, (*knob, *direction));
        assert_eq!(got, *wanted, "{line} {knob:?} {direction:?}");
    }
    for (flags, line, knob, direction, wanted) in OTHERS {
        let got = suggested(*flags, line, load, None, (*knob, *direction));
        assert_eq!(got, *wanted, "{line} {knob:?} {direction:?}");
    }
}

/// Eight times as many sequences, but no more than the KV cache has room for.
#[test]
fn the_cache_decides_how_many_sequences_are_added() {
    let load = Load { request_tokens: Some(1000.0), ..load(8.0) };
    let change = (Knob::Sequences, Direction::Raise);
    let of = |kv| suggested(Flags::Vllm, "vllm serve m --max-num-seqs 8", load, Some(kv), change);
    assert_eq!(of(99_000), "--max-num-seqs 8 -> 64");
    assert_eq!(of(12_500), "--max-num-seqs 8 -> 12");
    assert_eq!(of(8_400), "bound KvCache 8");
}

/// While requests are preempted, sequences are lowered to what the cache has room for.
#[test]
fn a_full_cache_decides_how_many_sequences_remain() {
    let full = Load { request_tokens: Some(1000.0), short_of_memory: true, ..load(90.0) };
    let change = (Knob::Sequences, Direction::Lower);
    let of = |kv| suggested(Flags::Vllm, "vllm serve m --max-num-seqs 128", full, kv, change);
    assert_eq!(of(Some(50_000)), "--max-num-seqs 128 -> 48");
    assert_eq!(of(Some(500_000)), "--max-num-seqs 128 -> 64", "three quarters of those that ran");
    assert_eq!(of(None), "--max-num-seqs 128 -> 64");
}

fn settings() -> impl Strategy<Value = Settings> {
    let count = || {
        prop::option::of(prop::sample::select(&[0u64, 1, 2, 7, 8, 64, 100, 256, 2048, 8192, 1_000_000][..]))
    };
    let share = prop::option::of(0.0..=1.0_f64);
    let switch = || prop::option::of(any::<bool>());
    let word = || prop::option::of(prop::sample::select(&["auto", "fp8", "none", "q8_0", "layer"][..]));
    (prop::collection::vec(count(), 8), share, switch(), switch(), (word(), word()), count(), any::<bool>())
        .prop_map(|(counts, share, cache, chunks, (kv, weights), kv_tokens, divided)| {
            let mut all = Settings::default();
            (all.kv_tokens, all.divided_context) = (kv_tokens, divided);
            let knobs = [
                Knob::KvSize,
                Knob::Sequences,
                Knob::Tokens,
                Knob::PrefillChunk,
                Knob::TensorParallel,
                Knob::Replicas,
                Knob::MaxLength,
                Knob::MaxQueued,
            ];
            for (knob, count) in knobs.into_iter().zip(counts) {
                count.into_iter().for_each(|n| all.set(knob, Value::Count(n), Origin::CommandLine));
            }
            let words = [(Knob::KvType, kv), (Knob::Quantisation, weights)];
            for (knob, word) in words {
                word.into_iter().for_each(|w| all.set(knob, Value::Word(w.into()), Origin::CommandLine));
            }
            for (knob, on) in [(Knob::PrefixCache, cache), (Knob::ChunkedPrefill, chunks)] {
                on.into_iter().for_each(|on| all.set(knob, Value::Switch(on), Origin::CommandLine));
            }
            share
                .into_iter()
                .for_each(|share| all.set(Knob::Memory, Value::Share(share), Origin::CommandLine));
            all
        })
}

proptest! {
    /// A suggested value differs from the present one, lies in the direction asked for, and within the engine's range.
    #[test]
    fn a_suggestion_moves_within_the_range_of_its_engine(
        engine in prop::sample::select(&ENGINES[..]),
        settings in settings(),
        running in prop::option::of(0.0..2000.0_f64),
        running_most in prop::option::of(0.0..2000.0_f64),
        request_tokens in prop::option::of(0.0..9000.0_f64),
        short_of_memory in any::<bool>(),
    ) {
        let load = Load { running, running_most, request_tokens, short_of_memory, ..Load::default() };
        let server = Server { flags: engine, is_guess: false, settings: &settings, load };
        for knob in Knob::ALL {
            for (direction, sign) in [(Direction::Raise, 1.0), (Direction::Lower, -1.0)] {
                let Suggestion::Set(new) = server.suggestion(knob, direction) else { continue };
                let told = format!("{engine:?} {knob:?}: {new:?}");
                let Some(to) = new.to.number() else { continue };
                if let Some(from) = new.from.as_ref().and_then(|from| from.value.number()) {
                    prop_assert!(sign * (to - from) > 0.0, "{told}");
                }
                match new.to {
                    Value::Share(share) => prop_assert!(share > 0.0 && share <= 1.0, "{told}"),
                    Value::Count(n) => prop_assert!(n >= 1, "{told}"),
                    Value::Switch(_) | Value::Word(_) => {}
                }
                if engine == Flags::Vllm {
                    let other = |knob| settings.count(knob).map_or(0.0, |n| n as f64);
                    match knob {
                        Knob::Tokens => prop_assert!(to >= other(Knob::Sequences), "{told}"),
                        Knob::Sequences if other(Knob::Tokens) > 0.0 => prop_assert!(to <= other(Knob::Tokens), "{told}"),
                        Knob::Memory => prop_assert!(to <= 0.95, "{told}"),
                        _ => {}
                    }
                }
            }
        }
    }
}
