//! A data set: checked and indexed once, then read row by row.

use super::build::{Builder, DataFile, conversation};
use super::config::{DataSource, Turns};
use super::estimate::Counter;
use super::formats::Parser;
use super::index::Index;
use super::order::Order;
use super::sample::Sample;
use super::summary::Summary;
use crate::files::{StoredFile, expand};
use anyhow::{Context, Result, anyhow};
use goodput_core::units::thousands;
use std::sync::Arc;

/// A data set. Cheap to clone; can be read from any thread.
#[derive(Debug, Clone)]
pub struct DataSet {
    inner: Arc<Inner>,
    parser: Arc<Parser>,
}

#[derive(Debug)]
struct Inner {
    source: DataSource,
    files: Vec<DataFile>,
    index: Index,
    summary: Summary,
}

impl DataSet {
    /// Opens the files, checks every row and indexes it.
    ///
    /// Fails if a file or row cannot be read (unless bad rows are skipped), if no row has a field that the plan names,
    /// or if there is nothing to send.
    pub fn open(source: &DataSource, counter: Counter) -> Result<Self> {
        let parser = Parser::new(source, counter);
        let mut builder = Builder::new(source, &parser);
        let mut data_files = Vec::new();
        let mut base = 0;
        for path in expand(&source.files)? {
            let stored = StoredFile::open(&path)?;
            let end = base + stored.len();
            data_files.push(builder.scan(base, stored)?);
            base = end;
        }
        let (index, summary) = builder.finish(&data_files)?;
        let inner = Inner { source: source.clone(), files: data_files, index, summary };
        Ok(Self { inner: Arc::new(inner), parser: Arc::new(parser) })
    }

    /// Returns this set with another counter for the lengths of reference answers, such as one calibrated by the
    /// server. Filters and summary do not change.
    pub(crate) fn with_counter(&self, counter: Counter) -> Self {
        let parser = Parser { counter, ..(*self.parser).clone() };
        Self { inner: Arc::clone(&self.inner), parser: Arc::new(parser) }
    }

    /// Returns the number of samples; at least one.
    pub fn len(&self) -> u64 {
        self.inner.index.len() as u64
    }

    /// Returns false: opening a set without samples fails.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads the sample with a number below [`Self::len`]. Fails if the file has changed since it was opened.
    pub fn get(&self, id: u64) -> Result<Sample> {
        let rows = usize::try_from(id).ok().and_then(|k| self.inner.index.rows(k));
        let rows = rows.with_context(|| format!("there is no sample {id} of {}", self.len()))?;
        let line = rows.first().map_or(0, |r| r.line);
        let changed = || format!("line {line}: has the file changed since it was opened?");
        let turns = conversation(&self.parser, &self.inner.files, rows).with_context(changed)?;
        let conversation = self.parser.finish(turns).map_err(|e| anyhow!(e.reason)).with_context(changed)?;
        Ok(Sample { id, line, conversation })
    }

    /// Returns the order in which samples are used: the plan's sampling, under a key derived from the seed.
    pub fn order(&self, key: [u8; 32]) -> Order {
        Order::new(self.inner.source.order, self.len(), key)
    }

    /// Returns the summary.
    pub fn summary(&self) -> &Summary {
        &self.inner.summary
    }

    /// Returns the plan's table.
    pub fn source(&self) -> &DataSource {
        &self.inner.source
    }

    /// Returns the memory of the index in bytes, which is all that grows with the number of rows.
    #[cfg(test)]
    pub(super) fn index_bytes(&self) -> usize {
        self.inner.index.bytes()
    }

    /// Returns the name of the only file, or the number of files.
    pub fn files(&self) -> String {
        match self.inner.files.as_slice() {
            [one] => one.stored.path().file_name().unwrap_or_default().to_string_lossy().into_owned(),
            many => format!("{} files", many.len()),
        }
    }

    /// Describes the set: `1,024 prompts of sharegpt.json (ShareGPT, first turns)`.
    pub fn title(&self) -> String {
        let s = &self.inner.source;
        let what = if self.inner.summary.turns_max > 1 { "conversations" } else { "prompts" };
        let name = self.files();
        let turns = if s.turns == Turns::First { ", first turns" } else { "" };
        format!("{} {what} of {name} ({}{turns})", thousands(self.len() as f64), s.format)
    }
}

#[cfg(test)]
mod tests;
