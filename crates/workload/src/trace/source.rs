//! `[workload.trace]`: which recording of requests is replayed, and how its file is read.

use super::format::Format;
use crate::lengths::{Lengths, TokenCount};
use goodput_core::units::Span;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// A recorded trace of requests: a file, and what its own content does not tell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", try_from = "Raw", into = "Raw")]
pub struct TraceSource {
    /// The file; gzip and zstd are noticed by their first bytes.
    pub file: PathBuf,
    /// Its format; by default told from its first row.
    pub format: Option<Format>,
    /// The part that is replayed, counted from the first row; by default all of it.
    pub window: Option<Window>,
    /// Names of columns, where the format leaves them open.
    pub columns: Columns,
    /// Unit of timestamps that are plain numbers; by default that of the format.
    pub unit: Option<Unit>,
    /// Tokens in a prefix block; by default those of the format.
    pub block_tokens: Option<TokenCount>,
    /// Length of the answer of rows that do not tell it.
    pub output_tokens: Option<Lengths>,
    /// Whether rows that cannot be read are counted and left out, in place of an error.
    pub skip_bad_rows: bool,
    /// Where the replay of a step begins.
    pub start: Start,
}

/// Where the replay of a step begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// At a place of its own, from the plan's seed: steps show different parts of the trace.
    #[default]
    Drawn,
    /// At the first request of the window: every step shows the same part.
    First,
}

impl Start {
    fn is_drawn(&self) -> bool {
        *self == Self::Drawn
    }
}

#[derive(Clone, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(rename = "TraceTable")]
struct Raw {
    /// The file; gzip and zstd are noticed by their first bytes.
    file: PathBuf,
    /// Its format; told from its first row where it is left out.
    format: Option<Format>,
    /// The part that is replayed, counted from the first row; all of it where it is left out.
    window: Option<Window>,
    /// Names of columns, where the format leaves them open.
    #[serde(default, skip_serializing_if = "Columns::is_empty")]
    columns: Columns,
    /// Unit of timestamps that are plain numbers; that of the format where it is left out.
    unit: Option<Unit>,
    /// Tokens in a prefix block; those of the format where it is left out.
    block_tokens: Option<TokenCount>,
    /// Length of the answer of rows that do not tell it.
    output_tokens: Option<Lengths>,
    /// Leaves out and counts rows that cannot be read, in place of an error.
    #[serde(default)]
    skip_bad_rows: bool,
    /// Where the replay of a step begins; `"drawn"` where it is left out.
    #[serde(default, skip_serializing_if = "Start::is_drawn")]
    start: Start,
}

impl TraceSource {
    /// A file of which everything else is left to its content.
    pub fn of(file: impl Into<PathBuf>) -> Self {
        Self {
            file: file.into(),
            format: None,
            window: None,
            columns: Columns::default(),
            unit: None,
            block_tokens: None,
            output_tokens: None,
            skip_bad_rows: false,
            start: Start::Drawn,
        }
    }

    /// Whether what is said fits together.
    ///
    /// # Errors
    ///
    /// Names the key that does not go with the format, and what to do.
    pub fn check(&self) -> Result<(), String> {
        let Some(format) = self.format else { return Ok(()) };
        if !self.columns.is_empty() && !format.names_are_open() {
            return Err(format!(
                "columns go with the formats csv, jsonl and vllm; those of {format} are fixed: leave columns out, or \
                 write format = \"csv\" or \"jsonl\""
            ));
        }
        if self.unit.is_some() && format.dated() {
            return Err(format!("unit is of timestamps that are numbers; those of {format} are dates"));
        }
        if self.block_tokens.is_some() && !format.may_have_blocks() {
            return Err(format!("block-tokens: traces of {format} have no prefix blocks"));
        }
        Ok(())
    }
}

impl TryFrom<Raw> for TraceSource {
    type Error = String;
    fn try_from(r: Raw) -> Result<Self, String> {
        let source = Self {
            file: r.file,
            format: r.format,
            window: r.window,
            columns: r.columns,
            unit: r.unit,
            block_tokens: r.block_tokens,
            output_tokens: r.output_tokens,
            skip_bad_rows: r.skip_bad_rows,
            start: r.start,
        };
        source.check()?;
        Ok(source)
    }
}

impl From<TraceSource> for Raw {
    fn from(s: TraceSource) -> Self {
        Self {
            file: s.file,
            format: s.format,
            window: s.window,
            columns: s.columns,
            unit: s.unit,
            block_tokens: s.block_tokens,
            output_tokens: s.output_tokens,
            skip_bad_rows: s.skip_bad_rows,
            start: s.start,
        }
    }
}

/// A part of a trace, counted from its first row: from the first moment up to before the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "RawWindow", into = "RawWindow")]
pub struct Window {
    from: Option<Span>,
    to: Option<Span>,
}

#[derive(Clone, Copy, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct RawWindow {
    /// Where it begins.
    from: Option<Span>,
    /// Where it ends.
    to: Option<Span>,
}

impl Window {
    /// A window between two moments, either of which may be left open.
    ///
    /// # Errors
    ///
    /// Both are open, or the first does not lie before the second.
    pub fn new(from: Option<Span>, to: Option<Span>) -> Result<Self, String> {
        match (from, to) {
            (None, None) => Err("a window needs from, to, or both".into()),
            (from, Some(to)) if from.unwrap_or(Span::secs(0)) >= to => Err(format!(
                "the window is empty: from {} is not before to {to}",
                from.unwrap_or(Span::secs(0))
            )),
            _ => Ok(Self { from, to }),
        }
    }

    /// Where it begins.
    pub fn from(&self) -> Duration {
        self.from.map_or(Duration::ZERO, |s| s.0)
    }

    /// Where it ends, if before the last row.
    pub fn to(&self) -> Option<Duration> {
        self.to.map(|s| s.0)
    }
}

impl TryFrom<RawWindow> for Window {
    type Error = String;
    fn try_from(r: RawWindow) -> Result<Self, String> {
        Self::new(r.from, r.to)
    }
}

impl From<Window> for RawWindow {
    fn from(w: Window) -> Self {
        Self { from: w.from, to: w.to }
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
    /// When the request came.
    pub timestamp: Option<String>,
    /// Tokens of the prompt.
    pub input_tokens: Option<String>,
    /// Tokens of the answer.
    pub output_tokens: Option<String>,
    /// Ids of the prompt's prefix blocks, as a JSON list.
    pub hash_ids: Option<String>,
    /// Which conversation the request belongs to.
    pub session: Option<String>,
    /// Whether the request failed: `true`, `1` or `yes`. Such rows are counted and left out.
    pub failed: Option<String>,
}

impl Columns {
    /// Whether none is named.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Names one column by its key in the plan.
    ///
    /// # Errors
    ///
    /// There is no such key; the message lists those that exist.
    pub fn set(&mut self, key: &str, name: &str) -> Result<(), String> {
        let place = match key {
            "timestamp" => &mut self.timestamp,
            "input-tokens" => &mut self.input_tokens,
            "output-tokens" => &mut self.output_tokens,
            "hash-ids" => &mut self.hash_ids,
            "session" => &mut self.session,
            "failed" => &mut self.failed,
            _ => {
                return Err(format!(
                    "{key} is no column; there are timestamp, input-tokens, output-tokens, hash-ids, session, failed"
                ));
            }
        };
        *place = Some(name.to_owned());
        Ok(())
    }
}

/// Unit of a timestamp that is a plain number.
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
    /// Nanoseconds in one.
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
            _ => Err(format!("a unit is s, ms, us or ns, got {s}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_says_only_what_its_file_does_not() {
        let source: TraceSource = toml::from_str("file = \"a.jsonl\"").unwrap();
        assert_eq!(source, TraceSource::of("a.jsonl"));
        let full = "file = \"a.csv\"\nformat = \"csv\"\nunit = \"ms\"\nblock-tokens = 32\nskip-bad-rows = true\n\
                    window = { from = \"10m\", to = \"40m\" }\noutput-tokens = { fixed = 30 }\n\
                    columns = { timestamp = \"t\", input-tokens = \"prompt_len\", failed = \"err\" }";
        let source: TraceSource = toml::from_str(full).unwrap();
        assert_eq!(source.window, Some("10m..40m".parse().unwrap()));
        assert_eq!(source.columns.input_tokens.as_deref(), Some("prompt_len"));
        let again: TraceSource = toml::from_str(&toml::to_string(&source).unwrap()).unwrap();
        assert_eq!(again, source, "what is written reads back");
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        for (text, says) in [
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
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn windows_are_written_with_two_dots() {
        let of = |text: &str| text.parse::<Window>();
        assert_eq!(of("10m..").unwrap().from(), Duration::from_secs(600));
        assert_eq!(of("..40m").unwrap().to(), Some(Duration::from_secs(2400)));
        for bad in ["10m", "..", "5m..5m", "a..b", "10m..5m"] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }
}
