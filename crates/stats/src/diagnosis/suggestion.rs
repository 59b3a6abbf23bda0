//! The value to which a setting should be changed.

mod number;

use super::flags::{Flags, Form, Knob};
use super::settings::{Current, Origin, Settings, Value};
use super::subject::Subject;
use serde::Serialize;

/// The direction in which a setting is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// To a larger number.
    Raise,
    /// To a smaller number.
    Lower,
    /// On, or to the word that is advised.
    On,
    /// Off.
    Off,
}

impl Direction {
    /// Returns true for more of a setting, or on.
    pub(super) const fn is_up(self) -> bool {
        match self {
            Self::Raise | Self::On => true,
            Self::Lower | Self::Off => false,
        }
    }
}

/// A flag of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flag {
    /// Name of the flag, as written on the command line; for a simulated server, the key of the plan.
    pub name: &'static str,
    /// True if the engine is unknown and the flag is vLLM's.
    pub is_guess: bool,
}

/// The basis of a suggested value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "SettingBasis")]
pub enum Basis {
    /// A multiple or a part of the present value.
    Multiple,
    /// As many requests as the KV cache has room for.
    KvRoom {
        /// Number of requests of mean length.
        requests: f64,
        /// Input and output tokens of a mean request that no other shares.
        tokens: f64,
        /// Tokens of a block of the cache, of which a request takes whole ones; `None` if they are not known.
        block_tokens: Option<u32>,
    },
    /// Below the mean number of requests that ran.
    Running {
        /// Mean number of running requests.
        running: f64,
    },
    /// As many as the limit on TPOT allows.
    TpotLimit {
        /// The limit, in milliseconds.
        limit_ms: f64,
    },
    /// The next step towards the bound.
    Step,
    /// The longest request that was sent.
    LongestRequest {
        /// Its input and output tokens.
        tokens: u64,
    },
    /// Half of the tokens of an iteration.
    HalfIteration,
    /// The best of the values that were simulated with a model of the server.
    Forecast,
    /// There is no other value.
    Only,
}

/// A bound that leaves no room for a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "SettingBound")]
pub enum Bound {
    /// The range that the engine or the simulated server's preset accepts, or that is safe.
    Range,
    /// The room of the KV cache.
    KvCache,
    /// Far fewer requests run than the present value allows.
    Unused,
}

/// A new value of a setting.
#[derive(Debug, Clone, PartialEq)]
pub struct NewValue {
    /// The flag.
    pub flag: Flag,
    /// The present value, if it is known.
    pub from: Option<Current>,
    /// The suggested value.
    pub to: Value,
    /// Its basis.
    pub basis: Basis,
    /// Another flag that must change with it, with its value.
    pub with: Option<(Flag, Value)>,
}

/// The change of a setting, or the reason why there is none.
#[derive(Debug, Clone, PartialEq)]
pub enum Suggestion {
    /// Set it to a value.
    Set(NewValue),
    /// Change it in the given direction; too little is known for a value.
    Toward {
        /// The flag.
        flag: Flag,
        /// The present value, if it is known.
        from: Option<Current>,
    },
    /// It has the advised value already.
    AlreadySet(Current),
    /// Its value cannot be changed in this direction.
    AtBound(Current, Bound),
    /// The server has no such setting.
    NoFlag,
}

/// The load of one copy of the server, as far as a value depends on it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Load {
    /// Mean number of running requests.
    pub running: Option<f64>,
    /// Largest number of running requests that was sampled.
    pub running_most: Option<f64>,
    /// Input and output tokens of a mean request, without those that requests share in the cache.
    pub request_tokens: Option<f64>,
    /// The limit on TPOT or ITL, in milliseconds.
    pub tpot_limit_ms: Option<f64>,
    /// Sequences that can run within that limit.
    pub sequences_within_tpot: Option<f64>,
    /// Prompt tokens that an iteration can read within that limit.
    pub tokens_within_tpot: Option<f64>,
    /// True if requests were preempted, or the KV cache was full.
    pub short_of_memory: bool,
}

/// A server with its present settings and its load.
#[derive(Debug, Clone, Copy)]
pub struct Server<'a> {
    /// The engine whose flags are used.
    pub flags: Flags,
    /// True if the engine is unknown and `flags` are a guess.
    pub is_guess: bool,
    /// The present settings.
    pub settings: &'a Settings,
    /// The load.
    pub load: Load,
}

impl<'a> Server<'a> {
    /// Returns the setting by which this server takes what `knob` stands for: without a share of memory, the size of the
    /// KV cache.
    fn resolved(&self, knob: Knob) -> Knob {
        if knob != Knob::Memory {
            return knob;
        }
        let is_set = |knob| self.settings.get(knob).is_some();
        // A number of blocks replaces both a size in bytes and a share.
        if self.flags == Flags::Vllm && is_set(Knob::KvBlocks) {
            return Knob::KvBlocks;
        }
        let size = match self.flags {
            Flags::Simulated => !is_set(Knob::Memory),
            // A size in bytes replaces the share.
            Flags::Vllm => is_set(Knob::KvSize),
            Flags::LlamaCpp => true,
            Flags::Sglang | Flags::Tgi | Flags::TensorRtLlm | Flags::SimulatedQueue => false,
        };
        if size { Knob::KvSize } else { knob }
    }

    /// Returns the flag for a setting; `None` if the server has none, or its preset does not take the key.
    pub fn flag(&self, knob: Knob) -> Option<Flag> {
        // So many blocks are no more of them with values of fewer bits.
        if knob == Knob::KvType && self.settings.get(Knob::KvBlocks).is_some() {
            return None;
        }
        let knob = self.resolved(knob);
        let takes = !self.flags.is_simulated() || self.settings.get(knob).is_some();
        let name = self.flags.flag(knob).filter(|_| takes)?;
        Some(Flag { name, is_guess: self.is_guess })
    }

    /// Returns the present value of a setting, or the one that its engine has in every version.
    fn current(&self, knob: Knob) -> Option<Current> {
        let fixed = match (self.flags, knob) {
            (Flags::Tgi, Knob::Memory) => Some(Value::Share(1.0)),
            _ => None,
        };
        let fixed = fixed.map(|value| Current { value, origin: Origin::Default });
        self.settings.get(knob).cloned().or(fixed)
    }

    /// Returns the value to which a setting should be changed.
    pub fn suggestion(&self, knob: Knob, direction: Direction) -> Suggestion {
        let knob = self.resolved(knob);
        let Some(flag) = self.flag(knob) else { return Suggestion::NoFlag };
        let from = self.current(knob);
        let form = self.flags.spelling(knob).map_or(Form::Elsewhere, |s| s.form);
        match form {
            Form::Word(word) => to_word(flag, from, word),
            Form::On | Form::Off | Form::OnWith | Form::Sizes => self.switched(flag, knob, from, direction),
            Form::Elsewhere => match from {
                Some(current) if is_set(&current) => Suggestion::AlreadySet(current),
                from => Suggestion::Toward { flag, from },
            },
            Form::Count | Form::Share => self.number(flag, knob, from, direction.is_up()),
        }
    }

    /// Returns the suggestion for a setting that is on or off.
    fn switched(&self, flag: Flag, knob: Knob, from: Option<Current>, direction: Direction) -> Suggestion {
        let on = direction.is_up();
        if let Some(current) = from.clone().filter(|c| c.value == Value::Switch(on)) {
            return Suggestion::AlreadySet(current);
        }
        let number = f64::from(u8::from(on));
        let range = self.settings.range(knob);
        let beyond = range.min.is_some_and(|min| number < min) || range.max.is_some_and(|max| number > max);
        match from {
            Some(current) if beyond => Suggestion::AtBound(current, Bound::Range),
            from => Suggestion::Set(NewValue {
                flag,
                from,
                to: Value::Switch(on),
                basis: Basis::Only,
                with: self.chunk_with(knob, on),
            }),
        }
    }

    /// Returns the tokens of an iteration within the limit on TPOT: one of each running sequence, and those of prompts.
    fn iteration_within_tpot(&self) -> Option<f64> {
        Some(self.load.tokens_within_tpot? + self.load.running.unwrap_or(0.0))
    }

    /// Returns the tokens of an iteration that must come down as prompts are read in chunks, if the limit on TPOT asks for
    /// fewer.
    fn chunk_with(&self, knob: Knob, on: bool) -> Option<(Flag, Value)> {
        let tokens = self.iteration_within_tpot().filter(|_| knob == Knob::ChunkedPrefill && on)?;
        let now = self.settings.count(Knob::Tokens)? as f64;
        let least = self.settings.count(Knob::Sequences).unwrap_or(1) as f64;
        let tokens = tokens.max(least);
        (tokens < now).then(|| Some((self.flag(Knob::Tokens)?, Value::Count(tokens as u64))))?
    }
}

/// Returns true if a setting that is not a number is on, or has a value of its own.
fn is_set(current: &Current) -> bool {
    match &current.value {
        Value::Switch(on) => *on,
        Value::Word(_) | Value::Count(_) | Value::Share(_) => true,
    }
}

/// Returns the suggestion for a data type, or another word: it is left alone if one has been chosen.
fn to_word(flag: Flag, from: Option<Current>, word: &'static str) -> Suggestion {
    /// Words for the model's own type, or for one of 16 and 32 bits.
    const WIDE: [&str; 15] = [
        "auto", "none", "model", "half", "float", "fp16", "fp32", "bf16", "f16", "f32", "float16", "float32",
        "bfloat16", "unquant", "layer",
    ];
    match from {
        Some(current) if !matches!(&current.value, Value::Word(word) if WIDE.contains(&word.as_ref())) => {
            Suggestion::AlreadySet(current)
        }
        from => Suggestion::Set(NewValue {
            flag,
            from,
            to: Value::Word(word.into()),
            basis: Basis::Only,
            with: None,
        }),
    }
}

/// Returns the settings of a curve's server, with those that follow from the plan's declarations and from the counters.
fn settings(s: &Subject<'_>) -> Settings {
    let mut all = s.curve.settings.clone();
    let copies = s.counted_copies();
    let each = |total: f64| Value::Count((total / copies).round().max(1.0) as u64);
    if let Some(seats) = super::figure::seats(s) {
        let origin = if s.curve.seats.is_some() { Origin::Server } else { Origin::Seen };
        // The simulated server has this key only if its preset does.
        if !flags(s).is_simulated() {
            all.set(Knob::Sequences, each(seats), origin);
        }
    }
    if s.curve.hardware.as_ref().is_some_and(|(_, model)| model.bytes() < 1.5) {
        all.set(Knob::Quantisation, Value::Word("8 bits or fewer".into()), Origin::Declared);
    }
    all
}

/// Returns the flags of a curve's server; vLLM's if its engine is unknown.
pub(super) fn flags(s: &Subject<'_>) -> Flags {
    s.curve.flags.unwrap_or(Flags::Vllm)
}

fn load(s: &Subject<'_>) -> Load {
    let (at, copies) = (&s.at.server, s.counted_copies());
    let tokens = s.at.input_tokens_mean.zip(s.at.output_tokens_mean);
    let shared = s.curve.shared.filter(|_| !s.curve.settings.is_off(Knob::PrefixCache)).unwrap_or(0.0);
    Load {
        running: at.running_mean.map(|n| n / copies),
        running_most: at.running_max.map(|n| n / copies),
        tpot_limit_ms: s.tpot_limit(),
        sequences_within_tpot: super::pace::sequences_within_tpot(s),
        tokens_within_tpot: super::pace::tokens_within_tpot(s),
        request_tokens: tokens.map(|(input, output)| input * (1.0 - shared) + output),
        short_of_memory: at.preemptions.is_some_and(|n| n > 0.0) || at.kv_max.is_some_and(|use_| use_ > 0.95),
    }
}

/// Calls a function with the server of a curve.
fn with_server<T>(s: &Subject<'_>, of: impl FnOnce(Server<'_>) -> T) -> T {
    let settings = settings(s);
    let load = load(s);
    of(Server { flags: flags(s), is_guess: s.curve.flags.is_none(), settings: &settings, load })
}

/// Returns the flag for a setting of a curve's server; `None` if it has none.
pub(super) fn flag(s: &Subject<'_>, knob: Knob) -> Option<Flag> {
    with_server(s, |server| server.flag(knob))
}

/// Returns the value to which a setting of a curve's server should be changed.
pub(super) fn suggestion(s: &Subject<'_>, knob: Knob, direction: Direction) -> Suggestion {
    with_server(s, |server| server.suggestion(knob, direction))
}

#[cfg(test)]
mod tests;
