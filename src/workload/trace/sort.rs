//! Rows that do not stand in the order of time: sorted through a temporary file, in bounded memory.
//!
//! Runs are sorted in memory and written one after the other into a file without a name, then merged into a second. Such
//! a file is gone when the last of its readers is, also where the program is killed.

use super::row::RawRow;
use anyhow::{Context, Result};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Memory of one run.
const RUN_BYTES: usize = 24 << 20;

/// Rows in the order of time, on disk.
#[derive(Debug, Clone)]
pub(super) struct Sorted {
    file: Arc<File>,
}

/// Takes rows in any order.
pub(super) struct Sorter {
    run: Vec<RawRow>,
    bytes: usize,
    most: usize,
    file: File,
    /// Where each run ends.
    ends: Vec<u64>,
}

impl Sorter {
    /// An empty one.
    ///
    /// # Errors
    ///
    /// There can be no temporary file.
    pub(super) fn new() -> Result<Self> {
        Self::with_runs_of(RUN_BYTES)
    }

    fn with_runs_of(most: usize) -> Result<Self> {
        Ok(Self { run: Vec::new(), bytes: 0, most, file: temporary()?, ends: Vec::new() })
    }

    /// Adds a row.
    ///
    /// # Errors
    ///
    /// The temporary file cannot be written.
    pub(super) fn push(&mut self, row: RawRow) -> Result<()> {
        self.bytes += size_of::<RawRow>() + 8 * row.blocks.capacity();
        self.run.push(row);
        if self.bytes >= self.most { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        self.run.sort_by_key(|r| r.at); // stable: rows of one moment stay as they were
        let mut out = BufWriter::with_capacity(1 << 20, &self.file);
        let mut end = self.ends.last().copied().unwrap_or(0);
        for row in self.run.drain(..) {
            end += write(&mut out, &row).with_context(spoilt)?;
        }
        out.flush().with_context(spoilt)?;
        drop(out);
        self.ends.push(end);
        self.bytes = 0;
        Ok(())
    }

    /// All rows in order.
    ///
    /// # Errors
    ///
    /// A temporary file cannot be written or read.
    pub(super) fn finish(mut self) -> Result<Sorted> {
        self.flush()?;
        self.run = Vec::new();
        if self.ends.len() == 1 {
            return Ok(Sorted { file: Arc::new(self.file) });
        }
        let file = Arc::new(self.file);
        let (mut from, mut runs) = (0, Vec::new());
        for to in &self.ends {
            runs.push(SortedRows::between(&file, from, *to));
            from = *to;
        }
        let merged = temporary()?;
        let mut out = BufWriter::with_capacity(1 << 20, &merged);
        let mut heads = BinaryHeap::new();
        let mut rows: Vec<Option<RawRow>> = Vec::new();
        for (i, run) in runs.iter_mut().enumerate() {
            let row = run.next()?;
            heads.extend(row.as_ref().map(|r| Reverse((r.at, i))));
            rows.push(row);
        }
        while let Some(Reverse((_, i))) = heads.pop() {
            if let Some(row) = rows[i].take() {
                write(&mut out, &row).with_context(spoilt)?;
            }
            rows[i] = runs[i].next()?;
            heads.extend(rows[i].as_ref().map(|r| Reverse((r.at, i))));
        }
        out.flush().with_context(spoilt)?;
        drop(out);
        Ok(Sorted { file: Arc::new(merged) })
    }
}

fn temporary() -> Result<File> {
    tempfile::tempfile().with_context(spoilt)
}

fn spoilt() -> String {
    format!(
        "the rows are not in the order of time, and failed to be sorted through a file in {}: make room there, or name \
         another folder in TMPDIR",
        std::env::temp_dir().display()
    )
}

const NONE: u32 = u32::MAX;

/// Writes a row and says how many bytes it took.
fn write(out: &mut impl Write, row: &RawRow) -> io::Result<u64> {
    out.write_all(&row.at.to_le_bytes())?;
    let blocks = row.blocks.len() as u32;
    for n in [row.input, row.output.unwrap_or(NONE), row.cached.unwrap_or(NONE), blocks] {
        out.write_all(&n.to_le_bytes())?;
    }
    out.write_all(&[u8::from(row.session.is_some()), u8::from(row.estimated)])?;
    for n in row.session.iter().chain(&row.blocks) {
        out.write_all(&n.to_le_bytes())?;
    }
    Ok(26 + 8 * (row.blocks.len() + usize::from(row.session.is_some())) as u64)
}

impl Sorted {
    /// Reads from the first row.
    pub(super) fn rows(&self) -> SortedRows {
        SortedRows::between(&self.file, 0, u64::MAX)
    }
}

/// Rows being read from disk.
pub(super) struct SortedRows(BufReader<Piece>);

impl SortedRows {
    fn between(file: &Arc<File>, at: u64, end: u64) -> Self {
        Self(BufReader::with_capacity(64 << 10, Piece { file: Arc::clone(file), at, end }))
    }

    /// The next row; `None` at the end.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub(super) fn next(&mut self) -> Result<Option<RawRow>> {
        read(&mut self.0).context("failed to read the sorted rows back")
    }
}

fn read(from: &mut impl Read) -> io::Result<Option<RawRow>> {
    let mut eight = [0; 8];
    match from.read(&mut eight[..1])? {
        0 => return Ok(None),
        _ => from.read_exact(&mut eight[1..])?,
    }
    let at = i64::from_le_bytes(eight);
    let mut four = [0; 4];
    let mut numbers = [0; 4];
    for n in &mut numbers {
        from.read_exact(&mut four)?;
        *n = u32::from_le_bytes(four);
    }
    let [input, output, cached, count] = numbers;
    let mut flags = [0; 2];
    from.read_exact(&mut flags)?;
    let mut long = || {
        from.read_exact(&mut eight)?;
        io::Result::Ok(u64::from_le_bytes(eight))
    };
    let session = if flags[0] == 1 { Some(long()?) } else { None };
    let blocks = (0..count).map(|_| long()).collect::<io::Result<_>>()?;
    let some = |n: u32| Some(n).filter(|n| *n != NONE);
    let (output, cached) = (some(output), some(cached));
    Ok(Some(RawRow { at, input, output, blocks, session, cached, estimated: flags[1] == 1 }))
}

/// A part of a file that many read at once, each from its own place.
struct Piece {
    file: Arc<File>,
    at: u64,
    end: u64,
}

impl Read for Piece {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX).min(into.len());
        let n = self.file.read_at(&mut into[..left], self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(mut rows: SortedRows) -> Vec<RawRow> {
        std::iter::from_fn(|| rows.next().unwrap()).collect()
    }

    fn row() -> impl Strategy<Value = RawRow> {
        let lengths =
            (any::<i64>(), any::<u32>(), proptest::option::of(0..NONE), proptest::option::of(0..NONE));
        let rest = (proptest::collection::vec(any::<u64>(), 0..5), any::<Option<u64>>(), any::<bool>());
        (lengths, rest).prop_map(|((at, input, output, cached), (blocks, session, estimated))| RawRow {
            at: at / 1_000_000_000_000_000_000, // many of one moment
            input,
            output,
            blocks,
            session,
            cached,
            estimated,
        })
    }

    proptest! {
        #[test]
        fn rows_come_back_in_order(rows in proptest::collection::vec(row(), 0..60), run in 1..2_000usize) {
            let mut sorter = Sorter::with_runs_of(run).unwrap();
            for row in rows.clone() {
                sorter.push(row).unwrap();
            }
            let sorted = sorter.finish().unwrap();
            let mut want = rows;
            want.sort_by_key(|r| r.at);
            prop_assert_eq!(&all(sorted.rows()), &want, "rows of one moment keep their order");
            prop_assert_eq!(&all(sorted.rows()), &want, "and can be read twice");
        }
    }
}
