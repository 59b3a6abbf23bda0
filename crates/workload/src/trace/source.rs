//! The plan's `[workload.trace]` table.

use super::format::Format;
use crate::lengths::{Lengths, TokenCount};
use goodput_core::checked;
use goodput_core::units::Span;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// A trace file and how to read and replay it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(rename = "TraceTable")]
pub struct TraceSource {
    /// Path of the file; gzip and zstd are recognised by their first bytes.
    pub file: PathBuf,
    /// Format; recognised from the first row by default.
    pub format: Option<Format>,
    /// Part to replay, counted from the first row; everything by default.
    pub window: Option<Window>,
    /// Names of columns, in formats where they are not fixed.
    #[serde(default, skip_serializing_if = "Columns::is_empty")]
    pub columns: Columns,
    /// Unit of numeric timestamps; that of the format by default.
    pub unit: Option<Unit>,
    /// Tokens per prefix block; those of the format by default.
    pub block_tokens: Option<TokenCount>,
    /// Answer length for rows that have none.
    pub output_tokens: Option<Lengths>,
    /// Skips and counts rows that cannot be read, instead of failing.
    #[serde(default)]
    pub skip_bad_rows: bool,
    /// Position at which the replay of a step begins; `"drawn"` by default.
    #[serde(default, skip_serializing_if = "Start::is_drawn")]
    pub start: Start,
}

checked!(TraceSource);

/// Position at which the replay of a step begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// At a position drawn for each step from the plan's seed, so that steps replay different parts of the trace.
    #[default]
    Drawn,
    /// At the first request of the window, so that every step replays the same part.
    First,
}

impl Start {
    fn is_drawn(&self) -> bool {
        *self == Self::Drawn
    }
}

impl TraceSource {
    /// Creates a source with default settings.
    pub fn of(file: impl Into<PathBuf>) -> Self {
        Self { file: file.into(), ..Self::default() }
    }

    /// Checks that the settings fit the format.
    ///
    /// # Errors
    ///
    /// A key does not apply to the format; the message says what to do.
    pub fn check(&self) -> Result<(), String> {
        let Some(format) = self.format else { return Ok(()) };
        if !self.columns.is_empty() && !format.properties().custom_names {
            return Err(format!(
                "columns can be named in the formats csv, jsonl and vllm; those of {format} are fixed: remove columns, or \
                 set format = \"csv\" or \"jsonl\""
            ));
        }
        if self.unit.is_some() && format.properties().dated {
            return Err(format!(
                "unit applies to numeric timestamps; those of {format} are dates: remove unit"
            ));
        }
        if self.block_tokens.is_some() && format.properties().block_tokens.is_none() {
            return Err(format!("block-tokens: traces of {format} have no prefix blocks: remove it"));
        }
        Ok(())
    }
}

/// Part of a trace, in times from its first row, excluding its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
pub struct Window {
    /// Start of the window.
    from: Option<Span>,
    /// End of the window, exclusive.
    to: Option<Span>,
}

checked!(Window);

impl Window {
    /// Creates a window; either end may be open.
    ///
    /// # Errors
    ///
    /// Both ends are open, or the window is empty.
    pub fn new(from: Option<Span>, to: Option<Span>) -> Result<Self, String> {
        let window = Self { from, to };
        window.check().map(|()| window)
    }

    fn check(&self) -> Result<(), String> {
        match (self.from, self.to) {
            (None, None) => Err("a window needs from, to, or both".into()),
            (from, Some(to)) if from.unwrap_or(Span::secs(0)) >= to => Err(format!(
                "the window is empty: from {} is not before to {to}",
                from.unwrap_or(Span::secs(0))
            )),
            _ => Ok(()),
        }
    }

    /// Returns the start.
    pub fn from(&self) -> Duration {
        self.from.map_or(Duration::ZERO, |s| s.0)
    }

    /// Returns the end, if set.
    pub fn to(&self) -> Option<Duration> {
        self.to.map(|s| s.0)
    }
}

impl FromStr for Window {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let (from, to) = s.split_once("..").ok_or("a window is written 10m..40m, 10m.. or ..40m")?;
        let end = |text: &str| if text.is_empty() { Ok(None) } else { text.parse().map(Some) };
        Self::new(end(from)?, end(to)?)
    }
}

/// Names of columns (CSV) or fields (JSONL).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Columns {
    /// Arrival time of the request.
    pub timestamp: Option<String>,
    /// Length of the prompt in tokens.
    pub input_tokens: Option<String>,
    /// Length of the answer in tokens.
    pub output_tokens: Option<String>,
    /// Ids of the prompt's prefix blocks, as a JSON list.
    pub hash_ids: Option<String>,
    /// Conversation of the request.
    pub session: Option<String>,
    /// Failure of the request: `true`, `1` or `yes`. Such rows are counted and skipped.
    pub failed: Option<String>,
}

impl Columns {
    /// Returns true if no column is named.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Sets the name of a column by its key in the plan.
    ///
    /// # Errors
    ///
    /// The key does not exist; the message lists those that do.
    pub fn set(&mut self, key: &str, name: &str) -> Result<(), String> {
        let column = match key {
            "timestamp" => &mut self.timestamp,
            "input-tokens" => &mut self.input_tokens,
            "output-tokens" => &mut self.output_tokens,
            "hash-ids" => &mut self.hash_ids,
            "session" => &mut self.session,
            "failed" => &mut self.failed,
            _ => {
                return Err(format!(
                    "{key} is not a column; the columns are timestamp, input-tokens, output-tokens, hash-ids, session, failed"
                ));
            }
        };
        *column = Some(name.to_owned());
        Ok(())
    }
}

/// Unit of a numeric timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Seconds.
    S,
    /// Milliseconds.
    Ms,
    /// Microseconds.
    Us,
    /// Nanoseconds.
    Ns,
}

impl Unit {
    /// Returns the nanoseconds in one unit.
    pub const fn ns(self) -> i64 {
        match self {
            Self::S => 1_000_000_000,
            Self::Ms => 1_000_000,
            Self::Us => 1_000,
            Self::Ns => 1,
        }
    }
}

impl FromStr for Unit {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "s" => Ok(Self::S),
            "ms" => Ok(Self::Ms),
            "us" => Ok(Self::Us),
            "ns" => Ok(Self::Ns),
            _ => Err(format!("a unit must be s, ms, us or ns, got {s}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_round_trip_with_and_without_settings() {
        let source: TraceSource = toml::from_str("file = \"a.jsonl\"").unwrap();
        assert_eq!(source, TraceSource::of("a.jsonl"));
        let full = "file = \"a.csv\"\nformat = \"csv\"\nunit = \"ms\"\nblock-tokens = 32\nskip-bad-rows = true\n\
                    window = { from = \"10m\", to = \"40m\" }\noutput-tokens = { fixed = 30 }\n\
                    columns = { timestamp = \"t\", input-tokens = \"prompt_len\", failed = \"err\" }";
        let source: TraceSource = toml::from_str(full).unwrap();
        assert_eq!(source.window, Some("10m..40m".parse().unwrap()));
        assert_eq!(source.columns.input_tokens.as_deref(), Some("prompt_len"));
        let again: TraceSource = toml::from_str(&toml::to_string(&source).unwrap()).unwrap();
        assert_eq!(again, source);
    }

    #[test]
    fn inconsistent_settings_are_rejected() {
        for (text, message) in [
            ("format = \"mooncake\"\ncolumns = { timestamp = \"t\" }", "those of mooncake are fixed"),
            ("format = \"azure\"\nunit = \"ms\"", "are dates"),
            ("format = \"burstgpt\"\nblock-tokens = 16", "no prefix blocks"),
            ("format = \"csv\"\ncolumns = { time = \"t\" }", "unknown field `time`"),
            ("format = \"parquet\"", "unknown variant"),
            ("window = { from = \"40m\", to = \"10m\" }", "not before"),
            ("window = {}", "needs from, to, or both"),
            ("unit = \"minutes\"", "unknown variant"),
            ("block-tokens = 0", "at least 1"),
            ("skip = true", "unknown field `skip`"),
        ] {
            let error =
                toml::from_str::<TraceSource>(&format!("file = \"x\"\n{text}")).unwrap_err().to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
    }

    #[test]
    fn windows_are_written_with_two_dots() {
        let window = |text: &str| text.parse::<Window>();
        assert_eq!(window("10m..").unwrap().from(), Duration::from_secs(600));
        assert_eq!(window("..40m").unwrap().to(), Some(Duration::from_secs(2400)));
        for bad in ["10m", "..", "5m..5m", "a..b", "10m..5m"] {
            assert!(window(bad).is_err(), "{bad}");
        }
    }
}
