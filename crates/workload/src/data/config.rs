//! The plan's table of a data set, such as `[workload.prompts.sharegpt]`.

use crate::lengths::{Lengths, TokenCount};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// A data set as described in the plan.
#[derive(Debug, Clone, PartialEq)]
pub struct DataSource {
    /// Format of the rows.
    pub format: Format,
    /// Files, or directories of files, in order; at least one.
    pub files: Vec<PathBuf>,
    /// Turns of a conversation to send.
    pub turns: Turns,
    /// Answer lengths where the data has none.
    pub output_tokens: Option<Lengths>,
    /// Source of answer lengths; by default a row's field, else its reference answer, else the plan.
    pub output_from: Option<OutputFrom>,
    /// Order in which rows are used.
    pub order: Sampling,
    /// Limits on the lengths of rows.
    pub limits: LengthLimits,
    /// Skips and counts rows that cannot be read, instead of failing.
    pub skip_bad_rows: bool,
}

/// Format of the rows.
#[derive(Debug, Clone, PartialEq)]
pub enum Format {
    /// An array (or lines) of `{ id, conversations: [{ from, value }] }`.
    ShareGpt,
    /// Lines, or an array, of JSON objects with fields named in the plan.
    Jsonl(Fields),
    /// Comma-separated values with a header.
    Csv(Fields, Delimiter),
    /// AIPerf's `single_turn`, `multi_turn` and `random_pool`.
    Aiperf,
    /// Lines of `{ question_id, category, turns: [text] }`.
    SpecBench,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ShareGpt => "ShareGPT",
            Self::Jsonl(_) => "JSONL",
            Self::Csv(..) => "CSV",
            Self::Aiperf => "AIPerf",
            Self::SpecBench => "Spec-Bench",
        })
    }
}

/// Turns of a conversation to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Turns {
    /// Only the first, as one request.
    First,
    /// All, in order, each with the server's own answers before it.
    All,
    /// Only the last, as one request with the recorded conversation before it.
    Last,
}

/// Source of answer lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OutputFrom {
    /// A field of the row.
    Field,
    /// The tokens of the reference answer.
    Reference,
    /// The plan's `output-tokens`.
    Plan,
}

/// Order in which rows are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sampling {
    /// Random order, each row once per round.
    #[default]
    Shuffled,
    /// File order, over and over.
    File,
    /// Random with replacement: a row may repeat before others are used.
    Random,
}

/// Delimiter of a CSV file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Delimiter {
    /// `,`
    #[default]
    Comma,
    /// `;`
    Semicolon,
    /// A tab.
    Tab,
    /// `|`
    Pipe,
}

impl Delimiter {
    pub(super) const fn byte(self) -> u8 {
        match self {
            Self::Comma => b',',
            Self::Semicolon => b';',
            Self::Tab => b'\t',
            Self::Pipe => b'|',
        }
    }
}

/// Limits on the lengths of rows, in tokens by the set's counter. A conversation with a turn outside the limits is
/// skipped as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LengthLimits {
    /// Fewest tokens of a prompt, including the conversation before it.
    pub min_input: Option<TokenCount>,
    /// Most tokens of a prompt, including the conversation before it.
    pub max_input: Option<TokenCount>,
    /// Fewest tokens of an answer, if the data has its length.
    pub min_output: Option<TokenCount>,
    /// Most tokens of an answer, if the data has its length.
    pub max_output: Option<TokenCount>,
}

/// Names of a row's fields: a key of the object or a column, or a dotted path into it (`request.messages`,
/// `turns.0.text`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Fields {
    /// The prompt as text.
    pub prompt: Option<String>,
    /// List of chat messages (in CSV as JSON).
    pub messages: Option<String>,
    /// Instruction of an Alpaca row.
    pub instruction: Option<String>,
    /// Input of the instruction; appended to it.
    pub input: Option<String>,
    /// A system message.
    pub system: Option<String>,
    /// Text of the reference answer.
    pub output: Option<String>,
    /// Length of the answer in tokens.
    pub output_tokens: Option<String>,
    /// Id that the rows of one conversation share.
    pub session: Option<String>,
    /// Milliseconds that the user waited after the previous answer.
    pub delay: Option<String>,
}

impl Fields {
    fn check(&self) -> Result<(), String> {
        let named = [&self.prompt, &self.messages, &self.instruction].into_iter().flatten().count();
        if named > 1 {
            return Err("fields: set only one of prompt, messages and instruction".into());
        }
        if self.input.is_some() && named == 1 && self.instruction.is_none() {
            return Err("fields.input needs fields.instruction".into());
        }
        Ok(())
    }
}

/// A data set: its files and how to read their rows.
// A mirror of `DataSource`: five keys of the table, which only some formats have, become parts of its format and of its limits.
#[derive(Clone, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(rename = "DataSet")]
pub(crate) struct RawTable {
    /// The file, or a directory of files; relative paths count from the plan's directory. Exactly one of `file` and
    /// `files` is needed.
    file: Option<PathBuf>,
    /// Several files or directories, in order.
    files: Option<Vec<PathBuf>>,
    /// Turns of a conversation to send.
    turns: Option<Turns>,
    /// Names of a row's fields.
    pub(crate) fields: Option<Fields>,
    /// Delimiter of a CSV file.
    pub(crate) delimiter: Option<Delimiter>,
    /// Answer lengths where the data has none.
    output_tokens: Option<Lengths>,
    /// Source of answer lengths; by default a row's field, else its reference answer, else the plan.
    output_from: Option<OutputFrom>,
    /// Order in which rows are used.
    order: Option<Sampling>,
    /// Skips rows with fewer tokens in the prompt.
    min_input_tokens: Option<TokenCount>,
    /// Skips rows with more tokens in the prompt.
    max_input_tokens: Option<TokenCount>,
    /// Skips rows with fewer tokens in the answer.
    min_output_tokens: Option<TokenCount>,
    /// Skips rows with more tokens in the answer.
    max_output_tokens: Option<TokenCount>,
    /// Skips and counts rows that cannot be read, instead of failing.
    skip_bad_rows: Option<bool>,
}

impl DataSource {
    /// Checks a table. `format` takes what belongs to the format out of it.
    pub(crate) fn from_table(
        mut raw: RawTable,
        format: impl FnOnce(&mut RawTable) -> Format,
    ) -> Result<Self, String> {
        let format = format(&mut raw);
        if raw.fields.is_some() {
            return Err(format!("the fields of {format} are fixed: fields applies to jsonl and csv"));
        }
        if raw.delimiter.is_some() {
            return Err("delimiter applies to csv only".into());
        }
        if let Format::Jsonl(fields) | Format::Csv(fields, _) = &format {
            fields.check()?;
        }
        let files = match (raw.file, raw.files) {
            (Some(file), None) => vec![file],
            (None, Some(files)) if !files.is_empty() => files,
            _ => return Err("set exactly one of file and files, with at least one path".into()),
        };
        let has_no_answers = !matches!(format, Format::ShareGpt | Format::Jsonl(_) | Format::Csv(..));
        if raw.turns == Some(Turns::Last) && has_no_answers {
            return Err(format!(
                "{format} has no answers, so its last turn cannot be sent alone: set another turns"
            ));
        }
        if raw.output_from == Some(OutputFrom::Plan) && raw.output_tokens.is_none() {
            return Err("output-from = \"plan\" needs output-tokens".into());
        }
        let limits = LengthLimits {
            min_input: raw.min_input_tokens,
            max_input: raw.max_input_tokens,
            min_output: raw.min_output_tokens,
            max_output: raw.max_output_tokens,
        };
        for (what, min, max) in
            [("input", limits.min_input, limits.max_input), ("output", limits.min_output, limits.max_output)]
        {
            if let (Some(min), Some(max)) = (min, max)
                && min > max
            {
                let (min, max) = (min.get(), max.get());
                return Err(format!("min-{what}-tokens {min} is above max-{what}-tokens {max}"));
            }
        }
        Ok(Self {
            turns: raw.turns.unwrap_or_else(|| format.default_turns()),
            format,
            files,
            output_tokens: raw.output_tokens,
            output_from: raw.output_from,
            order: raw.order.unwrap_or_default(),
            limits,
            skip_bad_rows: raw.skip_bad_rows.unwrap_or(false),
        })
    }
}

impl Format {
    /// Returns the default: first turns for ShareGPT and Spec-Bench, as other tools use them; the last turn for a row
    /// of messages, which is a recorded request; all turns for conversations of AIPerf or with a session id.
    fn default_turns(&self) -> Turns {
        match self {
            Self::ShareGpt | Self::SpecBench => Turns::First,
            Self::Jsonl(f) | Self::Csv(f, _) if f.session.is_none() => Turns::Last,
            Self::Jsonl(_) | Self::Csv(..) | Self::Aiperf => Turns::All,
        }
    }
}

impl From<DataSource> for RawTable {
    fn from(s: DataSource) -> Self {
        let (mut file, mut files) = (None, None);
        if s.files.len() == 1 {
            file = s.files.into_iter().next()
        } else {
            files = Some(s.files)
        }
        let (fields, delimiter) = match s.format {
            Format::Jsonl(f) => (Some(f), None),
            Format::Csv(f, d) => (Some(f), Some(d)),
            Format::ShareGpt | Format::Aiperf | Format::SpecBench => (None, None),
        };
        Self {
            file,
            files,
            turns: Some(s.turns),
            fields: fields.filter(|f| *f != Fields::default()),
            delimiter: delimiter.filter(|d| *d != Delimiter::Comma),
            output_tokens: s.output_tokens,
            output_from: s.output_from,
            order: Some(s.order),
            min_input_tokens: s.limits.min_input,
            max_input_tokens: s.limits.max_input,
            min_output_tokens: s.limits.min_output,
            max_output_tokens: s.limits.max_output,
            skip_bad_rows: s.skip_bad_rows.then_some(true),
        }
    }
}

#[cfg(test)]
impl DataSource {
    /// Parses a table of `[workload.prompts]` by its name.
    pub(crate) fn parse(name: &str, table: &str) -> Result<Self, toml::de::Error> {
        let prompts = toml::from_str(&format!("[{name}]\n{table}"))?;
        let crate::sources::Prompts::Data(source) = prompts else { panic!("{name} is a data set") };
        Ok(*source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::Prompts;

    #[test]
    fn tables_round_trip() {
        let text = "files = [\"a.csv\", \"b.csv.gz\"]\nfields = { prompt = \"question\", output = \"answer\" }\n\
                    delimiter = \"tab\"\noutput-tokens = { fixed = 9 }\norder = \"random\"\nmax-input-tokens = 400";
        let again = |source: &DataSource| {
            let table = toml::to_string(&Prompts::Data(Box::new(source.clone()))).unwrap();
            toml::from_str::<Prompts>(&table).unwrap()
        };
        let table = DataSource::parse("csv", text).unwrap();
        assert_eq!(table.turns, Turns::Last);
        assert_eq!(table.limits.max_input.map(TokenCount::get), Some(400));
        assert_eq!(again(&table), Prompts::Data(Box::new(table)));
        let plain = DataSource::parse("sharegpt", "file = \"s.json\"").unwrap();
        assert_eq!((plain.turns, plain.order), (Turns::First, Sampling::Shuffled));
        assert_eq!(again(&plain), Prompts::Data(Box::new(plain)));
        let sessions = DataSource::parse("jsonl", "file = \"s\"\nfields.session = \"id\"").unwrap();
        assert_eq!(sessions.turns, Turns::All);
    }

    /// Cases: a table of JSONL, and a part of the error message.
    #[test]
    fn invalid_tables_are_rejected_with_a_reason() {
        for (text, message) in [
            ("", "exactly one of file and files"),
            ("file = \"a\"\nfiles = [\"b\"]", "exactly one of file and files"),
            ("files = []", "exactly one of file and files"),
            ("file = \"a\"\nfields = { prompt = \"p\", messages = \"m\" }", "only one of prompt, messages"),
            ("file = \"a\"\nfields = { prompt = \"p\", input = \"i\" }", "needs fields.instruction"),
            ("file = \"a\"\nfields = { question = \"p\" }", "unknown field `question`"),
            ("file = \"a\"\nturns = \"second\"", "unknown variant `second`"),
            ("file = \"a\"\noutput-from = \"plan\"", "needs output-tokens"),
            ("file = \"a\"\nmin-input-tokens = 9\nmax-input-tokens = 8", "min-input-tokens 9 is above"),
            ("file = \"a\"\nmin-output-tokens = 0", "at least 1 token"),
            ("file = \"a\"\ndelimiter = \"tab\"", "delimiter applies to csv"),
            ("file = \"a\"\nskip = true", "unknown field `skip`"),
        ] {
            let error = DataSource::parse("jsonl", text).unwrap_err().to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
        let error =
            DataSource::parse("aiperf", "file = \"a\"\nfields.prompt = \"p\"").unwrap_err().to_string();
        assert!(error.contains("the fields of AIPerf are fixed"), "{error}");
        let error =
            DataSource::parse("spec-bench", "file = \"a\"\nturns = \"last\"").unwrap_err().to_string();
        assert!(error.contains("has no answers"), "{error}");
    }
}
