//! A data set: checked and indexed once, then read row by row.

use super::build::{Builder, Part, conversation};
use super::config::{DataSource, Turns};
use super::estimate::Counter;
use super::formats::Parser;
use super::index::Index;
use super::open::{Blob, files};
use super::order::Order;
use super::sample::Sample;
use super::summary::Summary;
use anyhow::{Context, Result, anyhow};
use goodput_core::units::thousands;
use std::sync::Arc;

/// The prompts of a data set. Cheap to clone, and read from any thread.
#[derive(Debug, Clone)]
pub struct DataSet {
    inner: Arc<Inner>,
    parser: Arc<Parser>,
}

#[derive(Debug)]
struct Inner {
    source: DataSource,
    parts: Vec<Part>,
    index: Index,
    summary: Summary,
}

impl DataSet {
    /// Opens the files, checks every row and notes where it lies.
    ///
    /// Fails for a file that cannot be read, a row that cannot (unless the plan skips such), a field that the plan names and no
    /// row has, and where nothing is left to send.
    pub fn open(source: &DataSource, counter: Counter) -> Result<Self> {
        let parser = Parser::new(source, counter);
        let mut builder = Builder::new(source, &parser);
        let mut parts = Vec::new();
        let mut base = 0;
        for path in files(&source.files)? {
            let blob = Blob::open(&path)?;
            let end = base + blob.len();
            parts.push(builder.scan(base, blob)?);
            base = end;
        }
        let (index, summary) = builder.finish(&parts)?;
        let inner = Inner { source: source.clone(), parts, index, summary };
        Ok(Self { inner: Arc::new(inner), parser: Arc::new(parser) })
    }

    /// The same set whose reference answers are measured with another counter, such as one calibrated by the server. Filters and
    /// summary stay as they were.
    pub fn with_counter(&self, counter: Counter) -> Self {
        let parser = Parser { counter, ..(*self.parser).clone() };
        Self { inner: Arc::clone(&self.inner), parser: Arc::new(parser) }
    }

    /// How many samples there are; at least one.
    pub fn len(&self) -> u64 {
        self.inner.index.len() as u64
    }

    /// Never: a set without samples is an error when it is opened.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads a sample, by a number below [`Self::len`]. Fails where the file has changed since it was opened.
    pub fn get(&self, id: u64) -> Result<Sample> {
        let rows = usize::try_from(id).ok().and_then(|k| self.inner.index.rows(k));
        let rows = rows.with_context(|| format!("there is no sample {id} of {}", self.len()))?;
        let line = rows.first().map_or(0, |r| r.line);
        let changed = || format!("line {line}: has the file changed since it was opened?");
        let turns = conversation(&self.parser, &self.inner.parts, rows).with_context(changed)?;
        let conversation = self.parser.finish(turns).map_err(|f| anyhow!(f.reason)).with_context(changed)?;
        Ok(Sample { id, line, conversation })
    }

    /// The order in which samples are taken: the plan's sampling, under a key from the plan's seed.
    pub fn order(&self, key: [u8; 32]) -> Order {
        Order::new(self.inner.source.order, self.len(), key)
    }

    /// What it holds.
    pub fn summary(&self) -> &Summary {
        &self.inner.summary
    }

    /// The plan's table.
    pub fn source(&self) -> &DataSource {
        &self.inner.source
    }

    /// Memory of the index in bytes: all that grows with the number of rows.
    #[cfg(test)]
    pub(super) fn index_bytes(&self) -> usize {
        self.inner.index.bytes()
    }

    /// The name of its file, or how many it has.
    pub fn files(&self) -> String {
        match self.inner.parts.as_slice() {
            [one] => one.blob.path().file_name().unwrap_or_default().to_string_lossy().into_owned(),
            many => format!("{} files", many.len()),
        }
    }

    /// `1,024 prompts of sharegpt.json (ShareGPT, first turns)`.
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
