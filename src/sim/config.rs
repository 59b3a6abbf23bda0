//! `[server.simulated]` of the plan: a preset by name, and what differs from it.

use crate::sim::engine::{
    Model,
    queue::{Dist, Queue, Settings},
};
use crate::units::Span;
use serde::{Deserialize, Serialize};
use std::{fmt, num::NonZeroU32, str::FromStr, time::Duration};

/// A simulated server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Raw", into = "Raw")]
pub struct Simulated {
    /// The engine behind it, with every setting filled in.
    pub engine: Engine,
    /// The model name that it serves.
    pub model: String,
    /// Longest prompt and answer together, in tokens.
    pub max_model_len: NonZeroU32,
    /// Seed of everything random in it.
    pub seed: u64,
}

/// The engines by preset, each with the settings that it uses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Engine {
    /// M/D/1: one server, a fixed holding time, after which the first token comes; then one each `decode`.
    Md1 {
        /// Holding time of the server.
        service: Span,
        /// From token to token after the first.
        decode: Span,
    },
    /// M/M/1: one server, an exponential holding time, after which the first token comes; then one each `decode`.
    Mm1 {
        /// Mean holding time of the server.
        service: Span,
        /// From token to token after the first.
        decode: Span,
    },
    /// M/M/c: exponential holding times; the first token after `prefill`, the others spread over the rest of the holding time.
    Mmc {
        /// Servers.
        servers: NonZeroU32,
        /// Mean holding time of a server.
        service: Span,
        /// From the start of service to the first token.
        prefill: Span,
    },
    /// No queue: the first token after `ttft`, then one each `tpot`, whatever the load.
    Fixed {
        /// From arrival to the first token.
        ttft: Span,
        /// From token to token.
        tpot: Span,
    },
    /// Everything at once: for measuring the client.
    Null,
}

/// The names that `preset` knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// See [`Engine::Md1`].
    Md1,
    /// See [`Engine::Mm1`].
    Mm1,
    /// See [`Engine::Mmc`].
    Mmc,
    /// See [`Engine::Fixed`].
    Fixed,
    /// See [`Engine::Null`].
    Null,
}

impl Preset {
    /// All of them, in the order of the documentation.
    pub const ALL: [Self; 5] = [Self::Md1, Self::Mm1, Self::Mmc, Self::Fixed, Self::Null];

    /// The name in plans and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Md1 => "md1",
            Self::Mm1 => "mm1",
            Self::Mmc => "mmc",
            Self::Fixed => "fixed",
            Self::Null => "null",
        }
    }
}

impl FromStr for Preset {
    type Err = String;
    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|p| p.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("there is no preset \"{name}\" of the simulated server; the presets are {names}")
        })
    }
}

/// The table as written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Raw {
    preset: Preset,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    servers: Option<NonZeroU32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    service: Option<Span>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prefill: Option<Span>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    decode: Option<Span>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ttft: Option<Span>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tpot: Option<Span>,
    #[serde(default = "default_model")]
    model: String,
    #[serde(default = "default_len")]
    max_model_len: NonZeroU32,
    #[serde(default = "default_seed")]
    seed: u64,
}

fn default_model() -> String {
    "simulated".into()
}

const fn default_len() -> NonZeroU32 {
    NonZeroU32::new(131_072).expect("it is not zero")
}

const fn default_seed() -> u64 {
    1
}

const fn millis(ms: u64) -> Span {
    Span(Duration::from_millis(ms))
}

impl Raw {
    /// The preset as it stands.
    fn preset(preset: Preset) -> Self {
        Self {
            preset,
            servers: None,
            service: None,
            prefill: None,
            decode: None,
            ttft: None,
            tpot: None,
            model: default_model(),
            max_model_len: default_len(),
            seed: default_seed(),
        }
    }
}

impl TryFrom<Raw> for Simulated {
    type Error = String;
    fn try_from(mut raw: Raw) -> Result<Self, String> {
        let service = |raw: &mut Raw, ms| raw.service.take().unwrap_or(millis(ms));
        let engine = match raw.preset {
            Preset::Md1 => {
                Engine::Md1 { service: service(&mut raw, 50), decode: raw.decode.take().unwrap_or(millis(0)) }
            }
            Preset::Mm1 => {
                Engine::Mm1 { service: service(&mut raw, 50), decode: raw.decode.take().unwrap_or(millis(0)) }
            }
            Preset::Mmc => Engine::Mmc {
                servers: raw.servers.take().unwrap_or(const { NonZeroU32::new(32).expect("it is not zero") }),
                service: service(&mut raw, 2000),
                prefill: raw.prefill.take().unwrap_or(millis(50)),
            },
            Preset::Fixed => Engine::Fixed {
                ttft: raw.ttft.take().unwrap_or(millis(20)),
                tpot: raw.tpot.take().unwrap_or(millis(5)),
            },
            Preset::Null => Engine::Null,
        };
        // What no arm took, the preset has no use for.
        let left = [
            ("servers", raw.servers.is_some()),
            ("service", raw.service.is_some()),
            ("prefill", raw.prefill.is_some()),
            ("decode", raw.decode.is_some()),
            ("ttft", raw.ttft.is_some()),
            ("tpot", raw.tpot.is_some()),
        ];
        if let Some((key, _)) = left.into_iter().find(|(_, set)| *set) {
            let name = raw.preset.name();
            let uses = match engine.settings() {
                s if s.is_empty() => "it has no settings".into(),
                s => format!("it has {}", s.iter().map(|(key, _)| *key).collect::<Vec<_>>().join(", ")),
            };
            return Err(format!("the preset \"{name}\" has no use for {key}; {uses}"));
        }
        Ok(Self { engine, model: raw.model, max_model_len: raw.max_model_len, seed: raw.seed })
    }
}

impl From<Simulated> for Raw {
    fn from(sim: Simulated) -> Self {
        let mut raw = Self::preset(sim.engine.preset());
        (raw.model, raw.max_model_len, raw.seed) = (sim.model, sim.max_model_len, sim.seed);
        match sim.engine {
            Engine::Md1 { service, decode } | Engine::Mm1 { service, decode } => {
                (raw.service, raw.decode) = (Some(service), Some(decode));
            }
            Engine::Mmc { servers, service, prefill } => {
                (raw.servers, raw.service, raw.prefill) = (Some(servers), Some(service), Some(prefill));
            }
            Engine::Fixed { ttft, tpot } => (raw.ttft, raw.tpot) = (Some(ttft), Some(tpot)),
            Engine::Null => {}
        }
        raw
    }
}

impl Engine {
    /// The preset that it is a case of.
    pub const fn preset(&self) -> Preset {
        match self {
            Self::Md1 { .. } => Preset::Md1,
            Self::Mm1 { .. } => Preset::Mm1,
            Self::Mmc { .. } => Preset::Mmc,
            Self::Fixed { .. } => Preset::Fixed,
            Self::Null => Preset::Null,
        }
    }

    /// The keys of its settings and their values, as written in a plan.
    fn settings(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Md1 { service, decode } | Self::Mm1 { service, decode } => {
                vec![("service", service.to_string()), ("decode", decode.to_string())]
            }
            Self::Mmc { servers, service, prefill } => vec![
                ("servers", servers.to_string()),
                ("service", service.to_string()),
                ("prefill", prefill.to_string()),
            ],
            Self::Fixed { ttft, tpot } => vec![("ttft", ttft.to_string()), ("tpot", tpot.to_string())],
            Self::Null => vec![],
        }
    }
}

impl Simulated {
    /// The preset of this name as it stands.
    ///
    /// # Errors
    /// There is no such preset; the message lists them.
    pub fn named(preset: &str) -> Result<Self, String> {
        Raw::preset(preset.parse()?).try_into()
    }

    /// The engine model, empty, at time zero.
    pub fn build(&self) -> Model {
        let settings = |servers, service, prefill, decode: Span| Settings {
            servers,
            service,
            prefill,
            decode: decode.0,
            seed: self.seed,
        };
        Model::Queue(Queue::new(match self.engine {
            Engine::Md1 { service, decode } => settings(1, Dist::Fixed(service.0), None, decode),
            Engine::Mm1 { service, decode } => settings(1, Dist::Exponential(service.0), None, decode),
            Engine::Mmc { servers, service, prefill } => {
                settings(servers.get(), Dist::Exponential(service.0), Some(prefill.0), millis(0))
            }
            Engine::Fixed { ttft, tpot } => settings(u32::MAX, Dist::Fixed(ttft.0), None, tpot),
            Engine::Null => settings(u32::MAX, Dist::Fixed(Duration::ZERO), None, millis(0)),
        }))
    }
}

impl fmt::Display for Simulated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "simulated {}", self.engine.preset().name())?;
        // A decode time of zero is the rule and would only be in the way.
        let settings =
            self.engine.settings().into_iter().filter(|(key, value)| *key != "decode" || value != "0s");
        let settings: Vec<String> = settings.map(|(key, value)| format!("{key} {value}")).collect();
        if settings.is_empty() { Ok(()) } else { write!(f, " ({})", settings.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::engine::Request;

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
        ] {
            let sim = parse(text).unwrap();
            assert_eq!(sim.to_string(), shown, "{text}");
            // Written out, every setting is there, and reads back the same.
            let written = toml::to_string(&sim).unwrap();
            assert_eq!(parse(&written).unwrap(), sim, "{written}");
            assert_eq!(written.lines().count(), 4 + sim.engine.settings().len(), "{written}");
        }
        let sim = Simulated::named("md1").unwrap();
        assert_eq!((sim.model.as_str(), sim.max_model_len.get(), sim.seed), ("simulated", 131_072, 1));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, said) in [
            ("preset = \"md2\"", "`md1`, `mm1`, `mmc`, `fixed`, `null`"),
            ("preset = \"md1\"\nservers = 2", "\"md1\" has no use for servers; it has service, decode"),
            ("preset = \"mmc\"\ndecode = \"1ms\"", "no use for decode"),
            ("preset = \"null\"\nttft = \"1ms\"", "no use for ttft; it has no settings"),
            ("preset = \"mmc\"\nservers = 0", "nonzero"),
            ("preset = \"md1\"\nmax-model-len = 0", "nonzero"),
            ("preset = \"md1\"\nservice = \"soon\"", "soon"),
            ("preset = \"md1\"\nserver = 1", "unknown field `server`"),
            ("seed = 1", "missing field `preset`"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
        assert!(Simulated::named("demo").unwrap_err().contains("the presets are md1, mm1, mmc, fixed, null"));
    }

    #[test]
    fn every_preset_answers() {
        // TTFT and end of four tokens, unloaded, in ms; exponential ones differ by seed.
        for (preset, expected) in [("md1", (50, 50)), ("fixed", (20, 35)), ("null", (0, 0))] {
            let mut model = Simulated::named(preset).unwrap().build();
            model.arrive(Duration::ZERO, Request { id: 0, input_tokens: 1, output_tokens: 4 });
            let out = model.advance(Duration::MAX);
            let (first, last) = (out[0].at.as_millis(), out[3].at.as_millis());
            assert_eq!((first, last, out.len()), (expected.0, expected.1, 4), "{preset}");
        }
        let second = |seed| {
            let mut model = Simulated { seed, ..Simulated::named("mm1").unwrap() }.build();
            model.arrive(Duration::ZERO, Request { id: 0, input_tokens: 1, output_tokens: 1 });
            model.advance(Duration::MAX)[0].at
        };
        assert_eq!(second(1), second(1));
        assert_ne!(second(1), second(2), "the seed reaches the model");
    }
}
