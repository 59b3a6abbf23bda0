//! Trace formats: their column names, and recognition from the first row.

use super::json::{self, MAX_LINE_BYTES};
use super::source::{TraceSource, Unit};
use crate::bytes;
use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{BufRead, Read};
use std::str::FromStr;

/// A trace format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Mooncake's JSONL, and AIPerf's rows with the same names: milliseconds, prefix blocks of 512 tokens. A row of a
    /// session without a timestamp follows the answer to the previous one.
    Mooncake,
    /// Azure's CSV of 2023 and 2024, and of 2025 with `NumImages`: dates.
    Azure,
    /// `BurstGPT`'s CSV, with or without sessions: seconds. Rows without an answer are failures.
    Burstgpt,
    /// vLLM's timed trace, JSONL: seconds, prefix blocks of 16 tokens, column names not fixed.
    Vllm,
    /// Weka's agent traces, JSONL: seconds, prefix blocks of 64 tokens, identified within one `id`.
    Weka,
    /// GitHub Copilot's agent sessions, JSONL: one session per line, each of its calls a request.
    Copilot,
    /// A JSONL log of requests with their text; only times and lengths are used.
    Requests,
    /// Any CSV with named columns.
    Csv,
    /// Any JSONL of flat objects with named fields.
    Jsonl,
}

/// Names of a row's fields, in the order of [`super::row::Values`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) timestamp: String,
    pub(super) input: String,
    pub(super) output: Option<String>,
    pub(super) hash_ids: Option<String>,
    pub(super) session: Option<String>,
    pub(super) failed: Option<String>,
    /// Delay of a follow-up, a row without timestamp, after the previous answer.
    pub(super) delay: Option<String>,
}

impl Format {
    /// All formats, as in the plan.
    pub const ALL: [Self; 9] = [
        Self::Mooncake,
        Self::Azure,
        Self::Burstgpt,
        Self::Vllm,
        Self::Weka,
        Self::Copilot,
        Self::Requests,
        Self::Csv,
        Self::Jsonl,
    ];

    /// Returns the name in plans and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mooncake => "mooncake",
            Self::Azure => "azure",
            Self::Burstgpt => "burstgpt",
            Self::Vllm => "vllm",
            Self::Weka => "weka",
            Self::Copilot => "copilot",
            Self::Requests => "requests",
            Self::Csv => "csv",
            Self::Jsonl => "jsonl",
        }
    }

    /// Returns true if column names can be set.
    pub(super) const fn has_custom_names(self) -> bool {
        matches!(self, Self::Csv | Self::Jsonl | Self::Vllm)
    }

    /// Returns true if timestamps are dates, which have no unit.
    pub(super) const fn dated(self) -> bool {
        matches!(self, Self::Azure | Self::Copilot)
    }

    /// Returns true if rows may identify the blocks of their prompts.
    pub(super) const fn may_have_blocks(self) -> bool {
        matches!(self, Self::Mooncake | Self::Vllm | Self::Weka | Self::Csv | Self::Jsonl)
    }

    /// Returns true for CSV; other formats are JSONL.
    pub(super) const fn is_csv(self) -> bool {
        matches!(self, Self::Azure | Self::Burstgpt | Self::Csv)
    }

    /// Returns the default unit of numeric timestamps.
    pub(super) const fn unit(self) -> Unit {
        match self {
            Self::Mooncake => Unit::Ms,
            Self::Azure
            | Self::Burstgpt
            | Self::Vllm
            | Self::Weka
            | Self::Copilot
            | Self::Requests
            | Self::Csv
            | Self::Jsonl => Unit::S,
        }
    }

    /// Returns the default tokens per prefix block.
    pub(super) const fn block_tokens(self) -> u32 {
        match self {
            Self::Vllm => 16,
            Self::Weka => 64,
            Self::Mooncake
            | Self::Azure
            | Self::Burstgpt
            | Self::Copilot
            | Self::Requests
            | Self::Csv
            | Self::Jsonl => 512,
        }
    }

    /// Returns the default names of the fields.
    pub(super) fn names(self) -> Names {
        let names = |timestamp: &str, input: &str, output: &str, hash_ids: &str, session: &str| {
            let some = |name: &str| Some(name.to_owned()).filter(|n| !n.is_empty());
            Names {
                timestamp: timestamp.into(),
                input: input.into(),
                output: some(output),
                hash_ids: some(hash_ids),
                session: some(session),
                failed: None,
                delay: matches!(self, Self::Mooncake | Self::Jsonl).then(|| "delay".to_owned()),
            }
        };
        match self {
            Self::Azure => names("TIMESTAMP", "ContextTokens", "GeneratedTokens", "", ""),
            Self::Burstgpt => names("Timestamp", "Request tokens", "Response tokens", "", "Session ID"),
            Self::Vllm => names("timestamp", "input_length", "output_length", "hash_ids", "chat_id"),
            Self::Weka => names("t", "in", "out", "hash_ids", "id"),
            Self::Mooncake | Self::Copilot | Self::Requests | Self::Csv | Self::Jsonl => {
                names("timestamp", "input_length", "output_length", "hash_ids", "session_id")
            }
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let unknown = || format!("{s} is not a trace format; the formats are {}", names());
        Self::ALL.into_iter().find(|f| f.name() == s).ok_or_else(unknown)
    }
}

fn names() -> String {
    Format::ALL.map(Format::name).join(", ")
}

/// The layout of a file, once its format is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) format: Format,
    pub(super) names: Names,
    /// True if column names were given, so that these columns must exist.
    pub(super) named: bool,
    pub(super) unit: Unit,
    pub(super) block_tokens: u32,
    /// Separator between cells of a CSV.
    pub(super) delimiter: u8,
}

/// Determines the layout of a file from the plan and its first row.
///
/// # Errors
///
/// The file cannot be read, is empty, or its format is not recognised; the message lists the formats.
pub(super) fn detect(source: &TraceSource) -> Result<Layout> {
    let first = first_line(source)?;
    let json = first.trim_start().starts_with('{');
    let row = if json { json::first_row(&first) } else { json::FirstRow::default() };
    let format = match source.format {
        Some(format) => format,
        None => recognise(source, &first, json, &row)?,
    };
    if format.is_csv() == json {
        bail!(
            "{}: its first line is {}, but {format} is {}; {}",
            source.file.display(),
            if json { "a JSON object" } else { "not a JSON object" },
            if json { "CSV with a header" } else { "JSONL" },
            advice()
        );
    }
    if let Some(why) = unsupported(&row) {
        bail!("{}: {why}", source.file.display());
    }
    if format == Format::Mooncake && source.format.is_none() && source.block_tokens.is_some() {
        bail!(
            "{}: block-tokens needs an explicit format: the rows of mooncake (milliseconds, blocks of 512 tokens) and of vllm \
             (seconds, 16) have the same names; add format = \"mooncake\" or \"vllm\" (--format)",
            source.file.display()
        );
    }
    let with_format = TraceSource { format: Some(format), ..source.clone() };
    with_format.check().map_err(|e| anyhow!("{}: {e}", source.file.display()))?;
    let (mut names, columns) = (format.names(), &source.columns);
    let set = |name: &Option<String>, target: &mut Option<String>| {
        if name.is_some() {
            target.clone_from(name);
        }
    };
    names.timestamp = columns.timestamp.clone().unwrap_or(names.timestamp);
    names.input = columns.input_tokens.clone().unwrap_or(names.input);
    set(&columns.output_tokens, &mut names.output);
    set(&columns.hash_ids, &mut names.hash_ids);
    set(&columns.session, &mut names.session);
    set(&columns.failed, &mut names.failed);
    let head = first.trim_end();
    let delimiter = [b'\t', b';'].into_iter().find(|d| head.as_bytes().contains(d) && !head.contains(','));
    let self_described = |f: Format| f == Format::Jsonl;
    Ok(Layout {
        format,
        names,
        named: !columns.is_empty(),
        unit: source.unit.or(row.unit.filter(|_| self_described(format))).unwrap_or(format.unit()),
        block_tokens: source
            .block_tokens
            .map(|t| t.get())
            .or(row.block_tokens.filter(|_| self_described(format)))
            .unwrap_or(format.block_tokens()),
        delimiter: delimiter.unwrap_or(b','),
    })
}

/// Returns why a file whose first row has these fields is a recording that cannot be replayed; `None` for other files.
fn unsupported(row: &json::FirstRow) -> Option<&'static str> {
    let has = |name: &str| row.keys.iter().any(|k| k == name);
    if has("requests") && !has("t") {
        return Some(
            "a line is a whole conversation (`requests`) with its own clock, so arrivals are unknown; write one row \
             per request with t on a common clock",
        );
    }
    (has("spans") || has("resourceSpans")).then_some(
        "OpenTelemetry spans are not supported; write one row per request with timestamp, input_length and output_length, and with \
         session_id and delay for follow-ups",
    )
}

/// Returns the first line that is not empty.
fn first_line(source: &TraceSource) -> Result<String> {
    let mut bytes = bytes::open(&source.file)?;
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = bytes.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line);
        if read.with_context(|| format!("failed to read {}", source.file.display()))? == 0 {
            bail!("{} contains no rows", source.file.display());
        }
        if !line.trim_ascii().is_empty() {
            return String::from_utf8(std::mem::take(&mut line))
                .map_err(|_| anyhow!("{}, line 1: is not UTF-8 text; {}", source.file.display(), advice()));
        }
    }
}

fn recognise(source: &TraceSource, first: &str, json: bool, row: &json::FirstRow) -> Result<Format> {
    let named = source.columns.timestamp.is_some() || source.columns.input_tokens.is_some();
    if named {
        return Ok(if json { Format::Jsonl } else { Format::Csv });
    }
    let cells: Vec<&str> = first.trim_end().split(',').map(|c| c.trim().trim_matches('"')).collect();
    let has = |name: &str| if json { row.keys.iter().any(|k| k == name) } else { cells.contains(&name) };
    let all = |names: &[&str]| names.iter().all(|n| has(n));
    let found = if json {
        match () {
            () if unsupported(row).is_some() => Some(Format::Weka),
            () if has("prompt") || has("messages") => Some(Format::Requests),
            () if all(&["session_id", "turns"]) => Some(Format::Copilot),
            () if all(&["in", "out"]) => Some(Format::Weka),
            () if all(&["timestamp", "input_length", "unit"]) => Some(Format::Jsonl),
            () if all(&["timestamp", "input_length", "chat_id"]) => Some(Format::Vllm),
            () if all(&["timestamp", "input_length"]) && row.has_small_blocks() => Some(Format::Vllm),
            () if all(&["timestamp", "input_length"]) => Some(Format::Mooncake),
            () => None,
        }
    } else if all(&["TIMESTAMP", "ContextTokens", "GeneratedTokens"]) {
        Some(Format::Azure)
    } else if all(&["Timestamp", "Request tokens", "Response tokens"]) {
        Some(Format::Burstgpt)
    } else {
        None
    };
    let keys = if json { row.keys.join(", ") } else { cells.join(", ") };
    found.ok_or_else(|| {
        let shown: String = keys.chars().take(200).collect();
        anyhow!(
            "{}: its format is not recognised from the first row ({shown}); {}",
            source.file.display(),
            advice()
        )
    })
}

fn advice() -> String {
    format!(
        "set the format ({}), and for csv and jsonl the columns: format = \"csv\", columns = {{ timestamp = \"…\", \
         input-tokens = \"…\", output-tokens = \"…\" }} in a plan, or --format csv --column timestamp=… --column \
         input-tokens=…",
        names()
    )
}
