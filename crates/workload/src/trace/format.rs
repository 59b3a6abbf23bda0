//! Trace formats: their column names, and recognition from the first row.

use super::json;
use super::source::{TraceSource, Unit};
use crate::files::open::open;
use crate::files::{Framing, Scanner};
use anyhow::{Context, Result, anyhow, bail};
use goodput_core::named_enum;
use std::fmt;
use std::str::FromStr;

/// Tokens per prefix block of a format that sets none.
const DEFAULT_BLOCK_TOKENS: u32 = 512;

named_enum! {
    /// A trace format.
    pub enum Format {
        /// Mooncake's JSONL, and AIPerf's rows with the same names: milliseconds, prefix blocks of 512 tokens. A row of a
        /// session without a timestamp follows the answer to the previous one.
        Mooncake = "mooncake",
        /// Azure's CSV of 2023 and 2024, and of 2025 with `NumImages`: dates.
        Azure = "azure",
        /// `BurstGPT`'s CSV, with or without sessions: seconds. Rows without an answer are failures.
        Burstgpt = "burstgpt",
        /// vLLM's timed trace, JSONL: seconds, prefix blocks of 16 tokens, column names not fixed.
        Vllm = "vllm",
        /// Weka's agent traces, JSONL: seconds, prefix blocks of 64 tokens, identified within one `id`.
        Weka = "weka",
        /// GitHub Copilot's agent sessions, JSONL: one session per line, each of its calls a request.
        Copilot = "copilot",
        /// A JSONL log of requests with their text; only times and lengths are used.
        Requests = "requests",
        /// Any CSV with named columns.
        Csv = "csv",
        /// Any JSONL of flat objects with named fields.
        Jsonl = "jsonl",
    }
}

/// A field of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Timestamp,
    Input,
    Output,
    HashIds,
    Session,
    Failed,
    /// Delay of a follow-up, a row without timestamp, after the previous answer.
    Delay,
}

/// Number of fields.
pub(super) const FIELDS: usize = 7;

/// The properties of a format.
#[derive(Debug, Clone, Copy)]
pub(super) struct Properties {
    /// True for CSV; other formats are JSONL.
    pub(super) csv: bool,
    /// True if timestamps are dates, which have no unit.
    pub(super) dated: bool,
    /// True if column names can be set.
    pub(super) custom_names: bool,
    /// True if a row without a timestamp may follow another of its conversation.
    follow_ups: bool,
    /// Default unit of numeric timestamps.
    unit: Unit,
    /// Default tokens per prefix block; `None` if rows cannot identify the blocks of their prompts.
    pub(super) block_tokens: Option<u32>,
    /// Default names of timestamp, input, output, block ids and session; empty where the format has none.
    names: [&'static str; 5],
}

impl Format {
    /// Returns the properties of the format.
    pub(super) const fn properties(self) -> Properties {
        const USUAL: Properties = Properties {
            csv: false,
            dated: false,
            custom_names: false,
            follow_ups: false,
            unit: Unit::S,
            block_tokens: Some(512),
            names: ["timestamp", "input_length", "output_length", "hash_ids", "session_id"],
        };
        match self {
            Self::Mooncake => Properties { unit: Unit::Ms, follow_ups: true, ..USUAL },
            Self::Azure => Properties {
                csv: true,
                dated: true,
                block_tokens: None,
                names: ["TIMESTAMP", "ContextTokens", "GeneratedTokens", "", ""],
                ..USUAL
            },
            Self::Burstgpt => Properties {
                csv: true,
                block_tokens: None,
                names: ["Timestamp", "Request tokens", "Response tokens", "", "Session ID"],
                ..USUAL
            },
            Self::Vllm => Properties {
                custom_names: true,
                block_tokens: Some(16),
                names: ["timestamp", "input_length", "output_length", "hash_ids", "chat_id"],
                ..USUAL
            },
            Self::Weka => {
                Properties { block_tokens: Some(64), names: ["t", "in", "out", "hash_ids", "id"], ..USUAL }
            }
            Self::Copilot => Properties { dated: true, block_tokens: None, ..USUAL },
            Self::Requests => Properties { block_tokens: None, ..USUAL },
            Self::Csv => Properties { csv: true, custom_names: true, ..USUAL },
            Self::Jsonl => Properties { custom_names: true, follow_ups: true, ..USUAL },
        }
    }

    /// Returns the default name of a field; `None` if the format has no such field.
    pub(super) fn field_name(self, field: Field) -> Option<&'static str> {
        let Properties { names, follow_ups, .. } = self.properties();
        match field {
            Field::Failed => None,
            Field::Delay => follow_ups.then_some("delay"),
            Field::Timestamp | Field::Input | Field::Output | Field::HashIds | Field::Session => {
                Some(names[field as usize]).filter(|name| !name.is_empty())
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
    /// Names of the fields, in the order of [`Field`].
    pub(super) names: [Option<String>; FIELDS],
    /// True if column names were given, so that these columns must exist.
    pub(super) named: bool,
    pub(super) unit: Unit,
    pub(super) block_tokens: u32,
    /// Separator between cells of a CSV.
    pub(super) delimiter: u8,
}

impl Layout {
    /// Returns the name of a field; empty if there is none.
    pub(super) fn name(&self, field: Field) -> &str {
        self.names[field as usize].as_deref().unwrap_or_default()
    }
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
    if format.properties().csv == json {
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
    let columns = &source.columns;
    let named = |field: Field, column: &Option<String>| {
        column.clone().or_else(|| format.field_name(field).map(str::to_owned))
    };
    let names = [
        named(Field::Timestamp, &columns.timestamp),
        named(Field::Input, &columns.input_tokens),
        named(Field::Output, &columns.output_tokens),
        named(Field::HashIds, &columns.hash_ids),
        named(Field::Session, &columns.session),
        named(Field::Failed, &columns.failed),
        named(Field::Delay, &None),
    ];
    let head = first.trim_end();
    let delimiter = [b'\t', b';'].into_iter().find(|d| head.as_bytes().contains(d) && !head.contains(','));
    // Our own anonymised traces describe themselves.
    let first_row = if format == Format::Jsonl { row } else { json::FirstRow::default() };
    let properties = format.properties();
    Ok(Layout {
        format,
        names,
        named: !columns.is_empty(),
        unit: source.unit.or(first_row.unit).unwrap_or(properties.unit),
        block_tokens: source
            .block_tokens
            .map(|t| t.get())
            .or(first_row.block_tokens)
            .or(properties.block_tokens)
            .unwrap_or(DEFAULT_BLOCK_TOKENS),
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
    let path = source.file.display();
    let mut scanner = Scanner::new(open(&source.file)?, Framing::Lines);
    let row = scanner.next().with_context(|| format!("failed to read {path}"))?;
    let Some(row) = row else { bail!("{path} contains no rows") };
    String::from_utf8(row.bytes.to_vec())
        .map_err(|_| anyhow!("{path}, line 1: is not UTF-8 text; {}", advice()))
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
