//! `[profile]`: one more step after the search, under the server's profiler. A profiler slows a server down, so no
//! verdict and no answer depends on that step.

use super::ask::{Ask, Ends};
use super::reason::Ended;
use super::series::Search;
use super::single_step::interrupted;
use crate::stats::step::{Abort, Step, StepKind};
use goodput_core::level::{Control, Level};
use goodput_core::secrets::masked;
use goodput_core::units::{Positive, Span};
use schemars::{Schema, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;

/// The settings of the profiled step. In a plan, `profile = "step"` takes all defaults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(rename = "Profile", transform = word_or_table)]
pub struct Profile {
    /// Level of the step; by default the safe rate, else the highest level shown to meet, else the lowest measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<Positive>,
    /// Length of the measured window: short, because traces grow by megabytes per second.
    #[serde(default = "measure")]
    pub measure: Span,
    /// Path that starts the server's own profiler, by POST; `/start_profile` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<String>,
    /// Path that stops it; `/stop_profile` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    stop: Option<String>,
    /// Command to run before the load begins, instead of the server's own profiler.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<Vec<String>>,
    /// Command to run after the step has drained.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<Vec<String>>,
}

const fn measure() -> Span {
    Span::secs(10)
}

fn word_or_table(schema: &mut Schema) {
    let table = std::mem::take(schema);
    *schema = json_schema!({ "anyOf": [{ "const": "step" }, table] });
}

/// The means of starting and stopping a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum By {
    /// The server's profiler, started and stopped by POST to these paths; by default those of vLLM and SGLang.
    Server {
        /// Path that starts it.
        start: String,
        /// Path that stops it.
        stop: String,
    },
    /// Commands of this machine, before and after the load.
    Commands {
        /// Command to run before the load begins; empty if there is none.
        before: Vec<String>,
        /// Command to run after the step has drained; empty if there is none.
        after: Vec<String>,
    },
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            level: None,
            measure: measure(),
            start: Some("/start_profile".into()),
            stop: Some("/stop_profile".into()),
            before: None,
            after: None,
        }
    }
}

impl Profile {
    /// Returns the means of starting and stopping the profile.
    pub fn by(&self) -> By {
        let text = |path: &Option<String>| path.clone().unwrap_or_default();
        let command = |argv: &Option<Vec<String>>| argv.clone().unwrap_or_default();
        match (&self.before, &self.after) {
            (None, None) => By::Server { start: text(&self.start), stop: text(&self.stop) },
            (before, after) => By::Commands { before: command(before), after: command(after) },
        }
    }

    /// Checks the table as written, and fills in the paths of the server.
    fn checked(mut self) -> Result<Self, String> {
        if self.measure.0.is_zero() {
            return Err("[profile] measure is zero: nothing would be sent".into());
        }
        let commands: Vec<&Vec<String>> = self.before.iter().chain(&self.after).collect();
        if commands.is_empty() {
            if let Some(path) = self.start.iter().chain(&self.stop).find(|path| !path.starts_with('/')) {
                return Err(format!("[profile] {path:?} is no path on the server: write \"/start_profile\""));
            }
            let Self { start, stop, .. } = Self::default();
            self.start = self.start.or(start);
            self.stop = self.stop.or(stop);
            return Ok(self);
        }
        if self.start.is_some() || self.stop.is_some() {
            return Err(
                "[profile] takes either paths of the server (start, stop) or commands (before, after)".into(),
            );
        }
        if commands.iter().all(|argv| argv.is_empty()) {
            return Err("[profile] before and after are empty: name a command, such as before = [\"nsys\", \"start\"]".into());
        }
        if commands.iter().any(|argv| masked(&argv.join(" ")) != argv.join(" ")) {
            return Err("[profile] before or after holds something like a key, a token or a password, which would end up in the run \
                        folder: put it into an environment variable and have a script read it"
                .into());
        }
        Ok(self)
    }
}

impl Serialize for Profile {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        // The inherent function that `remote = "Self"` derives.
        Self::serialize(self, to)
    }
}

impl<'de> Deserialize<'de> for Profile {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct WordOrTable;
        impl<'de> Visitor<'de> for WordOrTable {
            type Value = Profile;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"step\", or a table with level, measure, start, stop, before, after")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Profile, E> {
                match text {
                    "step" => Ok(Profile::default()),
                    other => Err(E::invalid_value(de::Unexpected::Str(other), &self)),
                }
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Profile, A::Error> {
                let profile = Profile::deserialize(MapAccessDeserializer::new(map))?;
                profile.checked().map_err(de::Error::custom)
            }
        }
        from.deserialize_any(WordOrTable)
    }
}

impl Search {
    /// Returns this search with a step under the profiler after all others.
    #[must_use]
    pub fn profiled(mut self, profile: Option<&Profile>) -> Self {
        self.profile = profile.map(|p| (p.level.map(Positive::get), p.measure.0));
        self
    }

    /// Returns the step under the profiler once everything else is measured, unless it was measured already or the
    /// server is gone. `own` are the steps of the search.
    pub(super) fn under_profiler(&self, own: &[&Step], series: &str, steps: &[Step]) -> Option<Ask> {
        let (level, measure) = self.profile?;
        let measured = |s: &Step| s.series == series && s.kind == StepKind::Profile && !interrupted(s);
        let gone = own.iter().any(|s| s.abort == Some(Abort::ServerGone));
        if gone || steps.iter().any(measured) {
            return None;
        }
        let value = level.or_else(|| self.held(own))?;
        let level = match self.control() {
            Control::Concurrency => Level::concurrency(value.round().max(1.0) as u32),
            open => Level::new(open, value),
        };
        let ask = self.ask(level, StepKind::Profile, Ends::AtItsTime);
        Some(Ask { measure, extend: false, ..ask })
    }

    /// Returns a level that the server can sustain, as far as is known.
    fn held(&self, own: &[&Step]) -> Option<f64> {
        let found = self.tiers.first().map(|slo| self.goodput(own, &Ended::NotSearched, slo));
        let lowest = || {
            let loaded = own.iter().filter(|s| !s.kind.is_outside_search());
            loaded.map(|s| s.level.value).reduce(f64::min)
        };
        found.and_then(|g| g.safe_rate().filter(|r| *r > 0.0).or(g.bracket.met)).or_else(lowest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize, Serialize)]
    struct Holder {
        profile: Profile,
    }

    fn read(text: &str) -> Result<Profile, String> {
        toml::from_str::<Holder>(text).map(|h| h.profile).map_err(|e| e.to_string())
    }

    #[test]
    fn commands_hold_no_secret() {
        for command in
            [r#"["curl", "-H", "authorization: Bearer hunter2"]"#, r#"["nsys", "--api-key", "hunter2"]"#]
        {
            let e = read(&format!("[profile]\nbefore = {command}")).unwrap_err();
            assert!(e.contains("environment variable"), "{e}");
        }
    }

    #[test]
    fn a_profile_is_a_word_or_a_table_and_reads_back() {
        let commands = |before: &[&str], after: &[&str]| By::Commands {
            before: before.iter().map(ToString::to_string).collect(),
            after: after.iter().map(ToString::to_string).collect(),
        };
        for (text, level, seconds, by) in [
            ("profile = \"step\"", None, 10, Profile::default().by()),
            ("[profile]\nlevel = 12.5\nmeasure = \"5s\"", Some(12.5), 5, Profile::default().by()),
            (
                "[profile]\nstart = \"/prof/on\"\nstop = \"/prof/off\"",
                None,
                10,
                By::Server { start: "/prof/on".into(), stop: "/prof/off".into() },
            ),
            ("[profile]\nbefore = [\"nsys\", \"start\"]", None, 10, commands(&["nsys", "start"], &[])),
            ("[profile]\nafter = [\"x\"]", None, 10, commands(&[], &["x"])),
        ] {
            let profile = read(text).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(
                (profile.level.map(Positive::get), profile.measure.0.as_secs()),
                (level, seconds),
                "{text}"
            );
            assert_eq!(profile.by(), by, "{text}");
            let again = toml::to_string(&Holder { profile: profile.clone() }).unwrap();
            assert_eq!(read(&again).unwrap(), profile, "{again}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, says) in [
            ("profile = \"all\"", "\"step\", or a table"),
            ("profile = 3", "\"step\", or a table"),
            ("[profile]\nlevels = 3", "unknown field"),
            ("[profile]\nlevel = 0", "positive"),
            ("[profile]\nmeasure = \"0s\"", "measure is zero"),
            ("[profile]\nstart = \"start\"", "no path on the server"),
            ("[profile]\nstart = \"/a\"\nbefore = [\"b\"]", "either paths"),
            ("[profile]\nbefore = []", "name a command"),
        ] {
            let e = read(text).unwrap_err();
            assert!(e.contains(says) && e.contains("line "), "{text}: {e}");
        }
    }
}
