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

/// Rows: engine, command line, tokens in the KV cache, change, suggestion. Eight requests run, and a request has
/// 1,000 tokens.
#[test]
fn values_follow_from_the_present_ones() {
    let load = Load { request_tokens: Some(1000.0), ..load(8.0) };
    let (raise, lower, on) = (Direction::Raise, Direction::Lower, Direction::On);
    for (flags, line, kv, change, wanted) in [
        // Four times as many, but no more than the cache has room for; twice as many if that is not known.
        (
            Flags::Vllm,
            "vllm serve m --max-num-seqs 8",
            Some(99_000),
            (Knob::Sequences, raise),
            "--max-num-seqs 8 -> 32",
        ),
        (
            Flags::Vllm,
            "vllm serve m --max-num-seqs 4",
            Some(99_000),
            (Knob::Sequences, raise),
            "--max-num-seqs 4 -> 16",
        ),
        (
            Flags::Vllm,
            "vllm serve m --max-num-seqs 8",
            Some(12_500),
            (Knob::Sequences, raise),
            "--max-num-seqs 8 -> 12",
        ),
        (
            Flags::Vllm,
            "vllm serve m --max-num-seqs 8",
            None,
            (Knob::Sequences, raise),
            "--max-num-seqs 8 -> 16",
        ),
        (
            Flags::Vllm,
            "vllm serve m --max-num-seqs 8",
            Some(8_400),
            (Knob::Sequences, raise),
            "bound KvCache 8",
        ),
        (Flags::Vllm, "vllm serve m --max-num-seqs 64", None, (Knob::Sequences, raise), "bound Unused 64"),
        (
            Flags::Vllm,
            "vllm serve m --max-num-seqs 8 --max-num-batched-tokens 8",
            None,
            (Knob::Sequences, raise),
            "bound Range 8",
        ),
        (Flags::Vllm, "vllm serve m", None, (Knob::Sequences, raise), "--max-num-seqs ?"),
        // Fewer than ran, whatever the flag says.
        (
            Flags::Vllm,
            "vllm serve m --max-num-seqs 256",
            None,
            (Knob::Sequences, lower),
            "--max-num-seqs 256 -> 4",
        ),
        (Flags::Vllm, "vllm serve m --max-num-seqs 1", None, (Knob::Sequences, lower), "bound Range 1"),
        (Flags::Vllm, "vllm serve m", None, (Knob::Sequences, lower), "--max-num-seqs ? -> 4"),
        // Tokens of an iteration: not below the sequences, nor above the longest request.
        (
            Flags::Vllm,
            "vllm serve m --max-num-batched-tokens 2048 --max-model-len 5000",
            None,
            (Knob::Tokens, raise),
            "--max-num-batched-tokens 2048 -> 4608",
        ),
        (
            Flags::Vllm,
            "vllm serve m --max-num-batched-tokens 2048",
            None,
            (Knob::Tokens, lower),
            "--max-num-batched-tokens 2048 -> 1024",
        ),
        (
            Flags::Vllm,
            "vllm serve m --max-num-batched-tokens 300 --max-num-seqs 256",
            None,
            (Knob::Tokens, lower),
            "--max-num-batched-tokens 300 -> 256",
        ),
        (
            Flags::Vllm,
            "vllm serve m --max-num-batched-tokens 256 --max-num-seqs 256",
            None,
            (Knob::Tokens, lower),
            "bound Range 256",
        ),
        // Shares of memory.
        (
            Flags::Vllm,
            "vllm serve m --gpu-memory-utilization 0.85",
            None,
            (Knob::Memory, raise),
            "--gpu-memory-utilization 0.85 -> 0.90",
        ),
        (
            Flags::Vllm,
            "vllm serve m --gpu-memory-utilization 0.92",
            None,
            (Knob::Memory, raise),
            "--gpu-memory-utilization 0.92 -> 0.95",
        ),
        (
            Flags::Vllm,
            "vllm serve m --gpu-memory-utilization 0.95",
            None,
            (Knob::Memory, raise),
            "bound Range 0.95",
        ),
        (
            Flags::Vllm,
            "vllm serve m --gpu-memory-utilization 0.98",
            None,
            (Knob::Memory, raise),
            "bound Range 0.98",
        ),
        (
            Flags::Vllm,
            "vllm serve m --kv-cache-memory-bytes 1000",
            None,
            (Knob::Memory, raise),
            "--kv-cache-memory-bytes 1000",
        ),
        (
            Flags::Sglang,
            "sglang serve --mem-fraction-static 0.85",
            None,
            (Knob::Memory, raise),
            "--mem-fraction-static 0.85 -> 0.87",
        ),
        (Flags::Tgi, "text-generation-launcher", None, (Knob::Memory, raise), "bound Range 1.00"),
        (Flags::LlamaCpp, "llama-server -c 8192", None, (Knob::Memory, raise), "--ctx-size 8192 -> 16384"),
        // What is on already, or is no setting of the engine.
        (Flags::Vllm, "vllm serve m", None, (Knob::PrefixCache, on), "already true"),
        (
            Flags::Sglang,
            "sglang serve --disable-radix-cache",
            None,
            (Knob::PrefixCache, on),
            "leave out --disable-radix-cache false -> true",
        ),
        (
            Flags::Vllm,
            "vllm serve m --enforce-eager",
            None,
            (Knob::Graphs, on),
            "leave out --enforce-eager false -> true",
        ),
        (Flags::LlamaCpp, "llama-server", None, (Knob::Graphs, on), "no flag"),
        (
            Flags::Vllm,
            "vllm serve m --kv-cache-dtype auto",
            None,
            (Knob::KvType, on),
            "--kv-cache-dtype fp8 auto -> fp8",
        ),
        (Flags::Vllm, "vllm serve m --kv-cache-dtype fp8_e5m2", None, (Knob::KvType, on), "already fp8_e5m2"),
        (
            Flags::TensorRtLlm,
            "trtllm-serve m",
            None,
            (Knob::PrefixCache, on),
            "kv_cache_config.enable_block_reuse in the file of --config ?",
        ),
        (Flags::Vllm, "vllm serve m -tp 1", None, (Knob::TensorParallel, lower), "bound Range 1"),
        (
            Flags::Vllm,
            "vllm serve m -tp 2",
            None,
            (Knob::TensorParallel, raise),
            "--tensor-parallel-size 2 -> 4",
        ),
        (
            Flags::Vllm,
            "vllm serve m --max-num-batched-tokens 2048",
            None,
            (Knob::PrefillChunk, lower),
            "--long-prefill-token-threshold ? -> 1024",
        ),
        // A context that slots divide grows with them.
        (
            Flags::LlamaCpp,
            "llama-server -np 8 -c 8192",
            None,
            (Knob::Sequences, raise),
            "--parallel 8 -> 16, --ctx-size 16384",
        ),
        (
            Flags::LlamaCpp,
            "llama-server -np 8 -c 8192 -kvu",
            None,
            (Knob::Sequences, raise),
            "--parallel 8 -> 16",
        ),
        // TGI's batch has no limit unless it is given.
        (Flags::Tgi, "text-generation-launcher", None, (Knob::Sequences, raise), "no flag"),
        (
            Flags::Tgi,
            "text-generation-launcher --max-batch-size 8",
            None,
            (Knob::Sequences, raise),
            "--max-batch-size 8 -> 16",
        ),
    ] {
        assert_eq!(suggested(flags, line, load, kv, change), wanted, "{line} {change:?}");
    }
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
        let load = Load { running, running_most, request_tokens, short_of_memory };
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
