//! Settings from the command line of a server.

use super::super::flags::{Flags, Form, Knob, Spelling};
use super::{Origin, Settings, Value};

/// Parts of a program, module or image by which an engine is recognised.
const PROGRAMS: [(&str, Flags); 6] = [
    ("sglang", Flags::Sglang),
    ("text-generation-", Flags::Tgi),
    ("llama-server", Flags::LlamaCpp),
    ("llama.cpp", Flags::LlamaCpp),
    ("trtllm-serve", Flags::TensorRtLlm),
    ("vllm", Flags::Vllm),
];

/// Flags that name a file of further settings, of any engine.
const FILES: [&str; 2] = ["--config", "--extra-llm-api-options"];

impl Settings {
    /// Adds the settings of a command line, which may be a script (`sh -c …`) or start a container, and returns the
    /// engine that it starts. Adds nothing and returns `None` if it is no known engine.
    pub fn read_command(&mut self, command: &[String], origin: Origin) -> Option<Flags> {
        let words = words(command);
        let (start, flags) = words.iter().enumerate().find_map(|(i, word)| Some((i, engine(word)?)))?;
        let arguments = &words[start + 1..];
        let (mut whole, mut unified) = (true, false);
        for (i, word) in arguments.iter().enumerate().filter(|(_, word)| word.starts_with('-')) {
            let (name, attached) = match word.split_once('=') {
                Some((name, value)) => (normalized(name), Some(value)),
                None => (normalized(word), None),
            };
            whole &= !FILES.contains(&name.as_str());
            unified |= ["-kvu", "--kv-unified"].contains(&name.as_str());
            let value = attached.or_else(|| arguments.get(i + 1).map(String::as_str));
            self.read_flag(flags, &name, value, origin);
        }
        if whole && origin == Origin::CommandLine {
            for spelling in flags.spellings().iter().filter(|s| s.on_by_default) {
                self.set(spelling.knob, Value::Switch(true), Origin::Default);
            }
        }
        // Slots share the context if their number is left to llama-server.
        let own_slots = self.get(Knob::Sequences).is_some_and(|c| c.origin == origin);
        self.divided_context |= flags == Flags::LlamaCpp && own_slots && !unified;
        if let (Flags::Tgi, Some(tokens)) = (flags, self.count(Knob::KvSize)) {
            self.kv_tokens = Some(tokens);
        }
        Some(flags)
    }

    /// Adds the setting of one flag, if it is known.
    fn read_flag(&mut self, flags: Flags, name: &str, value: Option<&str>, origin: Origin) {
        let negated = name.strip_prefix("--no-").map(|rest| format!("--{rest}"));
        let called = |s: &&Spelling, wanted: &str| s.names.iter().any(|n| normalized(n) == wanted);
        let find = |wanted: &str| flags.spellings().iter().find(|s| called(s, wanted));
        if let Some(s) = find(name) {
            if let Some(value) = s.form.read(value) {
                // `-1` leaves the number of llama-server's slots, or SGLang's chunk, without a limit.
                self.set(s.knob, value, origin);
            } else if (flags, s.knob, value) == (Flags::Sglang, Knob::Tokens, Some("-1")) {
                self.set(Knob::ChunkedPrefill, Value::Switch(false), origin);
            }
        } else if let Some(s) = negated.as_deref().and_then(find) {
            let on = match s.form {
                Form::On => false,
                Form::Off => true,
                Form::Count | Form::Share | Form::Word(_) | Form::OnWith | Form::Sizes | Form::Elsewhere => {
                    return;
                }
            };
            self.set(s.knob, Value::Switch(on), origin);
        }
    }
}

impl Form {
    /// Returns the value that a flag of this form gives; `None` if the text is none.
    pub(super) fn read(self, text: Option<&str>) -> Option<Value> {
        match self {
            Self::On => Some(Value::Switch(true)),
            Self::Off => Some(Value::Switch(false)),
            Self::OnWith => text.map(|text| Value::Switch(!["none", "0"].contains(&text))),
            Self::Sizes => text.map(|text| Value::Switch(text != "0")),
            Self::Word(_) => text.map(|text| Value::Word(text.to_lowercase().into())),
            Self::Count => whole(text?).map(Value::Count),
            Self::Share => {
                let share = text?.parse::<f64>().ok()?;
                (0.0..=1.0).contains(&share).then_some(Value::Share(share))
            }
            Self::Elsewhere => None,
        }
    }
}

/// Returns the engine that a word of a command starts, if it does.
fn engine(word: &str) -> Option<Flags> {
    let name = word.rsplit('/').next().unwrap_or(word);
    let option = word.starts_with('-') || word.contains('=');
    let owner = word.split(':').next().unwrap_or(word);
    let of = |text: &str| PROGRAMS.iter().find(|(part, _)| text.starts_with(part)).map(|(_, flags)| *flags);
    // An image such as `vllm/vllm-openai:v0.32.0`, or `ghcr.io/ggml-org/llama.cpp:server`.
    (!option).then(|| of(name).or_else(|| owner.rsplit('/').find_map(of))).flatten()
}

/// Returns the name of a flag with dashes: Python's engines take dashes and underscores alike.
fn normalized(name: &str) -> String {
    name.replace('_', "-")
}

/// Returns a whole number, also with a suffix as vLLM and SGLang take it: `k` is 1,000 and `K` 1,024.
fn whole(text: &str) -> Option<u64> {
    let (digits, factor) = match text.char_indices().last()? {
        (at, 'k') => (&text[..at], 1e3),
        (at, 'K') => (&text[..at], 1024.0),
        (at, 'm') => (&text[..at], 1e6),
        (at, 'M') => (&text[..at], 1_048_576.0),
        _ => return text.parse().ok(),
    };
    let number = digits.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0)?;
    Some((number * factor).round() as u64)
}

/// Returns the words of a command, with those of the script of a shell (`sh -c "…"`).
fn words(command: &[String]) -> Vec<String> {
    let mut all = Vec::new();
    for (i, word) in command.iter().enumerate() {
        let after_c = i > 0 && command[i - 1].starts_with('-') && command[i - 1].ends_with('c');
        if after_c && word.contains(char::is_whitespace) {
            all.extend(split(word));
        } else {
            all.push(word.clone());
        }
    }
    all
}

/// Splits a command line into words, as a shell does as far as quotes and backslashes go.
pub(super) fn split(line: &str) -> Vec<String> {
    let (mut all, mut word, mut quote) = (Vec::new(), None::<String>, None::<char>);
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\\', None | Some('"')) => match chars.next() {
                None | Some('\n') => {}
                Some(next) => word.get_or_insert_default().push(next),
            },
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (_, Some(open)) if c == open => quote = None,
            (c, None) if c.is_whitespace() => all.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    all.extend(word);
    all
}

impl Settings {
    /// Adds the settings of a command line in one text, as [`Settings::read_command`] does.
    pub fn read_command_line(&mut self, line: &str, origin: Origin) -> Option<Flags> {
        self.read_command(&split(line), origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the settings of a command line that is split at blanks, without the defaults, as text.
    fn read(line: &str) -> (Option<Flags>, String) {
        let mut settings = Settings::default();
        let flags = settings.read_command_line(line, Origin::CommandLine);
        let shown = |(knob, current): (Knob, &super::super::Current)| {
            let value = match &current.value {
                Value::Count(n) => n.to_string(),
                Value::Share(share) => share.to_string(),
                Value::Switch(on) => on.to_string(),
                Value::Word(word) => word.to_string(),
            };
            (current.origin != Origin::Default).then(|| format!("{} {value}", knob.name()))
        };
        (flags, settings.iter().filter_map(shown).collect::<Vec<_>>().join(", "))
    }

    /// Rows: a command line, the engine, its settings.
    #[test]
    fn command_lines_of_every_engine_are_read() {
        for (line, flags, settings) in [
            (
                "vllm serve m --max-num-seqs 64 --gpu-memory-utilization=0.85 --no-enable-prefix-caching -tp 2",
                Flags::Vllm,
                "memory 0.85, sequences 64, tensor-parallel 2, prefix-cache false",
            ),
            (
                "python -m vllm.entrypoints.openai.api_server --max_num_batched_tokens 8K --enforce-eager --kv-cache-dtype fp8",
                Flags::Vllm,
                "tokens 8192, kv-type fp8, graphs false",
            ),
            (
                "docker run --gpus all -p 8000:8000 vllm/vllm-openai:v0.32.0 --model m --max-model-len 32k --max-num-queued-reqs 300",
                Flags::Vllm,
                "max-length 32000, max-queued 300",
            ),
            ("vllm serve m --speculative-config '{\"method\": \"ngram\"}'", Flags::Vllm, "speculative true"),
            (
                "sh -c 'HF_HOME=/x exec vllm serve m --max-num-seqs=8 --enable-chunked-prefill'",
                Flags::Vllm,
                "sequences 8, chunked-prefill true",
            ),
            (
                "python3 -m sglang.launch_server --tp 4 --mem-fraction-static 0.8 --disable-radix-cache --chunked-prefill-size -1",
                Flags::Sglang,
                "memory 0.8, chunked-prefill false, tensor-parallel 4, prefix-cache false",
            ),
            (
                "docker run lmsysorg/sglang:latest python3 -m sglang.launch_server --max-queued-requests 32",
                Flags::Sglang,
                "max-queued 32",
            ),
            (
                "text-generation-launcher --model-id m --max-batch-total-tokens 64000 --num-shard 2 --cuda-graphs 0 --quantize eetq",
                Flags::Tgi,
                "kv-size 64000, quantisation eetq, tensor-parallel 2, graphs false",
            ),
            (
                "/opt/llama/llama-server -m m.gguf -c 16384 -np 4 -b 512 --cache-type-k q8_0 --no-cache-prompt",
                Flags::LlamaCpp,
                "kv-size 16384, sequences 4, tokens 512, kv-type q8_0, prefix-cache false",
            ),
            (
                "trtllm-serve serve m --max_batch_size 32 --kv_cache_free_gpu_memory_fraction 0.8 --tp_size=2",
                Flags::TensorRtLlm,
                "memory 0.8, sequences 32, tensor-parallel 2",
            ),
        ] {
            assert_eq!(read(line), (Some(flags), settings.to_owned()), "{line}");
        }
        for line in ["", "my-server --max-num-seqs 8", "sh -c", "run --name=vllm --max-num-seqs 8"] {
            assert_eq!(read(line), (None, String::new()), "{line}");
        }
        let broken = "vllm serve m --max-num-seqs --gpu-memory-utilization 85 --max-model-len auto -tp";
        assert_eq!(read(broken), (Some(Flags::Vllm), String::new()));
    }

    #[test]
    fn what_the_command_leaves_out_has_its_default_unless_a_file_may_set_it() {
        let of = |line: &str, knob| {
            let mut settings = Settings::default();
            settings.read_command_line(line, Origin::CommandLine);
            settings.get(knob).map(|c| (c.value.clone(), c.origin))
        };
        let on = Some((Value::Switch(true), Origin::Default));
        assert_eq!(of("vllm serve m", Knob::PrefixCache), on);
        assert_eq!(of("vllm serve m", Knob::Graphs), on);
        assert_eq!(of("vllm serve m --config c.yaml", Knob::PrefixCache), None);
        assert_eq!(of("trtllm-serve m", Knob::PrefixCache), None, "its file may set it");
    }

    #[test]
    fn the_slots_of_llama_server_divide_its_context() {
        let divided = |line: &str| {
            let mut settings = Settings::default();
            settings.read_command_line(line, Origin::CommandLine);
            settings.divided_context
        };
        assert!(divided("llama-server -np 4 -c 8192"));
        assert!(!divided("llama-server -c 8192") && !divided("llama-server -np 4 -kvu"));
    }

    proptest::proptest! {
        #[test]
        fn no_command_line_is_too_odd(words in proptest::collection::vec("(vllm|llama-server|-c|--max-num-seqs|--[a-z_=-]{0,9}|[a-z0-9.'\"\\\\ ]{0,9})", 0..8)) {
            Settings::default().read_command(&words, Origin::CommandLine);
            split(&words.join(" "));
        }
    }
}
