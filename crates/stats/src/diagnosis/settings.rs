//! The present settings of a server, each with its source.

mod command;
mod reported;

use super::flags::Knob;
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The value of a setting.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "SettingValue")]
pub enum Value {
    /// A number of sequences, tokens, blocks, bytes, GPUs or requests.
    Count(u64),
    /// A share from 0 to 1.
    Share(f64),
    /// On or off.
    Switch(bool),
    /// A word, such as a data type.
    Word(Cow<'static, str>),
}

impl Value {
    /// Returns the value as written in a plan; `None` for a word, which no key of a plan takes.
    pub fn toml(&self) -> Option<String> {
        match self {
            Self::Count(n) => Some(n.to_string()),
            Self::Share(share) => Some(share.to_string()),
            Self::Switch(on) => Some(on.to_string()),
            Self::Word(_) => None,
        }
    }

    /// Returns the number of a count or a share; 1 or 0 for a switch; `None` for a word.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Count(n) => Some(*n as f64),
            Self::Share(share) => Some(*share),
            Self::Switch(on) => Some(f64::from(u8::from(*on))),
            Self::Word(_) => None,
        }
    }
}

/// The source of a setting's value, the most reliable first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "SettingOrigin")]
pub enum Origin {
    /// The command with which the plan starts the server.
    CommandLine,
    /// A key of the plan's `[server.simulated]`.
    Plan,
    /// The default of the simulated server's preset.
    Preset,
    /// The server itself: its metrics or a page with its settings.
    Server,
    /// The plan's `[hardware]` or `[environment]`.
    Declared,
    /// The engine's documented default, for a flag that its command line leaves out.
    Default,
    /// Inferred from the counters: the most requests that ran while others waited.
    Seen,
}

impl Origin {
    /// Returns the name used in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CommandLine => "command-line",
            Self::Plan => "plan",
            Self::Preset => "preset",
            Self::Server => "server",
            Self::Declared => "declared",
            Self::Default => "default",
            Self::Seen => "seen",
        }
    }
}

/// The present value of a setting.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Current {
    /// The value.
    pub value: Value,
    /// Its source.
    pub origin: Origin,
}

/// The values that a server accepts for a setting, beyond the range of its engine.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Range {
    /// The smallest value.
    pub min: Option<f64>,
    /// The largest value.
    pub max: Option<f64>,
}

/// The present settings of one copy of a server, as far as they are known.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    known: BTreeMap<Knob, Current>,
    ranges: BTreeMap<Knob, Range>,
    /// Tokens per block of the KV cache.
    pub block_tokens: Option<u32>,
    /// Tokens that the KV cache holds.
    pub kv_tokens: Option<u64>,
    /// Number of engines that together count as the server, each with these settings.
    pub copies: Option<u32>,
    /// True if every slot has its own part of the context, as in llama-server without `--kv-unified`.
    pub divided_context: bool,
    /// Input and output tokens of the longest request that was sent.
    pub longest_request: Option<u64>,
    /// Input tokens of the longest prompt that was sent.
    pub longest_prompt: Option<u64>,
}

impl Settings {
    /// Returns the value of a setting, if it is known.
    pub fn get(&self, knob: Knob) -> Option<&Current> {
        self.known.get(&knob)
    }

    /// Returns true if a setting is known to be off.
    pub fn is_off(&self, knob: Knob) -> bool {
        self.get(knob).is_some_and(|current| current.value == Value::Switch(false))
    }

    /// Returns the number of engines that together count as the server; 1 if it is not known.
    pub fn copies(&self) -> u32 {
        self.copies.unwrap_or(1).max(1)
    }

    /// Returns the number of a setting that is a count.
    pub fn count(&self, knob: Knob) -> Option<u64> {
        match self.get(knob)?.value {
            Value::Count(n) => Some(n),
            Value::Share(_) | Value::Switch(_) | Value::Word(_) => None,
        }
    }

    /// Sets the value of a setting, unless a more reliable source has set it.
    pub fn set(&mut self, knob: Knob, value: Value, origin: Origin) {
        if self.get(knob).is_none_or(|known| known.origin > origin) {
            self.known.insert(knob, Current { value, origin });
        }
    }

    /// Limits the values that the server accepts for a setting.
    pub fn limit(&mut self, knob: Knob, range: Range) {
        self.ranges.insert(knob, range);
    }

    /// Returns the limits of a setting; unlimited by default.
    pub fn range(&self, knob: Knob) -> Range {
        self.ranges.get(&knob).copied().unwrap_or_default()
    }

    /// Iterates over the known settings.
    pub fn iter(&self) -> impl Iterator<Item = (Knob, &Current)> {
        self.known.iter().map(|(knob, current)| (*knob, current))
    }
}
