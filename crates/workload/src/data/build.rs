//! Builds a data set: checks every row once, and collects index and summary.

use super::config::{DataSource, Delimiter, Fields, Format};
use super::estimate::Counter;
use super::fields::{RowError, find};
use super::formats::{Parsed, Parser, header, join, optional};
use super::index::{Entry, Index};
use super::sample::TurnSample;
use super::summary::{BadRow, Summary};
use crate::files::{Framing, MAX_EXAMPLES, RowBytes, ScanError, Scanner, StoredFile};
use crate::lengths::TokenCount;
use anyhow::{Context, Result, anyhow, bail};
use goodput_core::distribution::LengthHistogram;
use goodput_core::message::{Message, begins_with_calls};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// One file of the set.
#[derive(Debug)]
pub(super) struct DataFile {
    /// Byte offset of the file among the bytes of all files.
    pub(super) base: u64,
    pub(super) stored: StoredFile,
    /// Column names of CSV.
    pub(super) header: Vec<String>,
}

/// Reads the turns of a conversation from all its rows.
pub(super) fn conversation(parser: &Parser, files: &[DataFile], rows: &[Entry]) -> Result<Vec<TurnSample>> {
    let mut turns = Vec::new();
    for row in rows {
        let file = &files[files.partition_point(|f| f.base <= row.at) - 1];
        let mut bytes = vec![0; row.len as usize];
        let path = file.stored.path().display();
        file.stored.read_at(row.at - file.base, &mut bytes).with_context(|| format!("cannot read {path}"))?;
        let read = parser.object(&bytes, &file.header).and_then(|object| parser.read(&object));
        match read.map_err(|e| anyhow!("{path}, line {}: {}", row.line, e.reason))? {
            Parsed::Turns(more, _) => join(&mut turns, more),
            Parsed::Empty => bail!("{path}, line {}: has nothing to send", row.line),
        }
    }
    Ok(turns)
}

/// Accumulator of the index and the summary.
pub(super) struct Builder<'a> {
    source: &'a DataSource,
    parser: &'a Parser,
    entries: Vec<Entry>,
    sessions: Option<Sessions>,
    /// Fields that the plan names and that no row has had so far.
    unseen: Vec<(&'static str, &'a str)>,
    summary: Summary,
    input: LengthHistogram,
    output: LengthHistogram,
    longest: u64,
}

/// Grouping of rows into conversations.
#[derive(Default)]
struct Sessions {
    numbers: HashMap<u64, u32>,
    next: u32,
    of_row: Vec<u32>,
}

impl Sessions {
    fn add(&mut self, session: Option<&str>) {
        let fresh = self.next;
        let number = match session {
            None => fresh,
            Some(name) => {
                let mut hasher = DefaultHasher::new();
                name.hash(&mut hasher);
                *self.numbers.entry(hasher.finish()).or_insert(fresh)
            }
        };
        self.next += u32::from(number == fresh);
        self.of_row.push(number);
    }
}

impl<'a> Builder<'a> {
    pub(super) fn new(source: &'a DataSource, parser: &'a Parser) -> Self {
        let grouped = match &source.format {
            Format::Aiperf => true,
            Format::Jsonl(f) | Format::Csv(f, _) => f.session.is_some(),
            Format::ShareGpt | Format::SpecBench => false,
        };
        let unseen = match &source.format {
            Format::Jsonl(f) | Format::Csv(f, _) => optional(f),
            Format::ShareGpt | Format::Aiperf | Format::SpecBench => Vec::new(),
        };
        Self {
            source,
            parser,
            entries: Vec::new(),
            sessions: grouped.then(Sessions::default),
            unseen,
            summary: Summary { exact: parser.counter.is_exact(), ..Summary::default() },
            input: LengthHistogram::default(),
            output: LengthHistogram::default(),
            longest: 0,
        }
    }

    /// Reads one file, whose bytes begin at `base` among those of all files.
    pub(super) fn scan(&mut self, base: u64, stored: StoredFile) -> Result<DataFile> {
        let mut file = DataFile { base, header: Vec::new(), stored };
        let path = file.stored.path().to_owned();
        let framing = match &self.source.format {
            Format::Csv(fields, delimiter) => {
                file.header = columns(&file.stored, fields, *delimiter)?;
                Framing::Csv(delimiter.byte())
            }
            Format::ShareGpt | Format::Jsonl(_) | Format::Aiperf | Format::SpecBench => {
                Framing::detect_json(file.stored.reader())
                    .with_context(|| format!("cannot read {}", path.display()))?
            }
        };
        let mut header = matches!(framing, Framing::Csv(_));
        let mut scanner = Scanner::new(file.stored.reader(), framing);
        loop {
            match scanner.next() {
                Ok(None) => break,
                Ok(Some(_)) if header => header = false,
                Ok(Some(row)) => {
                    self.summary.rows += 1;
                    if let Err(error) = self.row(&file, &row) {
                        self.bad(bad_row(&file, &row, error))?;
                    }
                }
                Err(ScanError::Io(e)) => {
                    return Err(e).with_context(|| format!("cannot read {}", path.display()));
                }
                Err(ScanError::Malformed { line, element, reason }) => {
                    self.summary.rows += 1;
                    self.bad(BadRow { file: path, line, column: None, element, field: None, reason })?;
                    break;
                }
            }
        }
        drop(scanner);
        Ok(file)
    }

    fn row(&mut self, file: &DataFile, row: &RowBytes<'_>) -> Result<(), RowError> {
        let object = self.parser.object(row.bytes, &file.header)?;
        self.unseen.retain(|(_, field)| find(&object, field).is_none());
        let (turns, session) = match self.parser.read(&object)? {
            Parsed::Turns(turns, session) => (turns, session),
            Parsed::Empty => {
                self.summary.nothing += 1;
                return Ok(());
            }
        };
        let entry = Entry {
            at: file.base + file.stored.start() + row.at,
            len: row.bytes.len() as u32,
            line: u32::try_from(row.line).unwrap_or(u32::MAX),
        };
        if let Some(sessions) = &mut self.sessions {
            // Answer lengths may be in a later row, so limits apply to the complete conversation.
            if turns.is_empty() {
                return Err(RowError::row("has no text of a user"));
            }
            sessions.add(session.as_deref());
            self.entries.push(entry);
        } else {
            let turns = self.parser.finish(turns)?;
            if self.keep(file, entry, &turns) {
                self.entries.push(entry);
            }
        }
        Ok(())
    }

    fn bad(&mut self, row: BadRow) -> Result<()> {
        if !self.source.skip_bad_rows {
            return Err(anyhow!(row).context(
                "a row of the data set cannot be used (`skip-bad-rows = true` skips and counts such rows)",
            ));
        }
        self.summary.bad += 1;
        if self.summary.bad_rows.len() < MAX_EXAMPLES {
            self.summary.bad_rows.push(row);
        }
        Ok(())
    }

    /// Counts a conversation; returns false if a turn is outside the limits.
    fn keep(&mut self, file: &DataFile, entry: Entry, turns: &[TurnSample]) -> bool {
        let limits = self.source.limits;
        let within = |n: u64, min: Option<u64>, max: Option<u64>| {
            min.is_none_or(|m| n >= m) && max.is_none_or(|m| n <= m)
        };
        let wide = |t: Option<TokenCount>| t.map(|t| u64::from(t.get()));
        let lengths = measure(turns, &self.parser.counter);
        let inside = lengths.iter().all(|(input, output)| {
            within(*input, wide(limits.min_input), wide(limits.max_input))
                && output.is_none_or(|o| within(o, wide(limits.min_output), wide(limits.max_output)))
        });
        if !inside {
            self.summary.filtered += 1;
            return false;
        }
        for (input, output) in &lengths {
            self.input.push(u32::try_from(*input).unwrap_or(u32::MAX));
            match output {
                Some(output) => self.output.push(u32::try_from(*output).unwrap_or(u32::MAX)),
                None => self.summary.output_from_plan += 1,
            }
            if *input > self.longest {
                self.longest = *input;
                self.summary.longest = Some((file.stored.path().to_owned(), u64::from(entry.line)));
            }
        }
        self.summary.samples += 1;
        self.summary.turns += turns.len() as u64;
        self.summary.turns_max = self.summary.turns_max.max(turns.len() as u64);
        true
    }

    /// Joins and filters conversations of several rows. Fails if there is nothing to send.
    pub(super) fn finish(mut self, files: &[DataFile]) -> Result<(Index, Summary)> {
        if let Some((key, field)) = self.unseen.first()
            && self.summary.rows > self.summary.bad
        {
            bail!("fields.{key} = {field:?}: no row has this field");
        }
        let entries = std::mem::take(&mut self.entries);
        let index = match self.sessions.take() {
            None => Index::single(entries),
            Some(sessions) => {
                let mut index = Index::grouped(&entries, &sessions.of_row);
                let keep = (0..index.len())
                    .map(|k| self.keep_conversation(files, index.rows(k).unwrap_or_default()))
                    .collect::<Result<Vec<bool>>>()?;
                index.retain(&keep);
                index
            }
        };
        if index.len() == 0 {
            let s = &self.summary;
            let counts = format!(
                "{} rows, {} bad, {} with nothing to send, {} outside the length limits",
                s.rows, s.bad, s.nothing, s.filtered
            );
            let first = s.bad_rows.first().map(|b| format!("; the first bad row: {b}")).unwrap_or_default();
            bail!("the data set has nothing to send: {counts}{first}");
        }
        self.summary.input = self.input.finish().unwrap_or_default();
        self.summary.output = self.output.finish().unwrap_or_default();
        Ok((index, self.summary))
    }

    /// Counts a conversation of several rows; returns false if it is bad or outside the limits.
    fn keep_conversation(&mut self, files: &[DataFile], rows: &[Entry]) -> Result<bool> {
        let Some(first) = rows.first() else { return Ok(false) };
        let file = &files[files.partition_point(|f| f.base <= first.at) - 1];
        let turns = conversation(self.parser, files, rows)?;
        match self.parser.finish(turns) {
            Ok(turns) => Ok(self.keep(file, *first, &turns)),
            Err(error) => {
                let row = RowBytes { at: first.at, line: u64::from(first.line), element: None, bytes: &[] };
                self.bad(bad_row(file, &row, error))?;
                Ok(false)
            }
        }
    }
}

/// Reads the column names from the first record of a CSV file.
fn columns(stored: &StoredFile, fields: &Fields, delimiter: Delimiter) -> Result<Vec<String>> {
    let path = stored.path().display();
    let mut scanner = Scanner::new(stored.reader(), Framing::Csv(delimiter.byte()));
    let first = match scanner.next() {
        Ok(Some(row)) => row,
        Ok(None) => bail!("{path} is empty: the first line must name the columns"),
        Err(ScanError::Io(e)) => return Err(e).with_context(|| format!("cannot read {path}")),
        Err(ScanError::Malformed { line, reason, .. }) => bail!("{path}, line {line}: {reason}"),
    };
    header(first.bytes, fields, delimiter).map_err(|e| anyhow!("{path}, line {}: {}", first.line, e.reason))
}

/// Returns input and output tokens of each turn; the input includes the conversation before it.
fn measure(turns: &[TurnSample], counter: &Counter) -> Vec<(u64, Option<u64>)> {
    let (mut before, mut answer) = (0.0, 0.0);
    turns
        .iter()
        .map(|turn| {
            if !begins_with_calls(&turn.messages) {
                before += answer;
            }
            before += turn.messages.iter().flat_map(Message::texts).map(|t| counter.tokens(t)).sum::<f64>();
            let output = turn.output_tokens.map(u64::from);
            answer = turn.reference.as_deref().map_or(output.unwrap_or(0) as f64, |r| counter.tokens(r));
            (before.round().max(1.0) as u64, output)
        })
        .collect()
}

fn bad_row(file: &DataFile, row: &RowBytes<'_>, error: RowError) -> BadRow {
    BadRow {
        file: file.stored.path().to_owned(),
        line: row.line + error.line,
        column: error.column,
        element: row.element,
        field: error.field,
        reason: error.reason,
    }
}
