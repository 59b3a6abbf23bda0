//! Temporary file of a trace's rows in replay order, so that a replay can begin at any of them without decompressing
//! and parsing the trace again.

use super::row::UncheckedRow;
use crate::files::{FileRange, temporary};
use anyhow::{Context, Result};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::sync::Arc;

/// Largest number of index entries, of 24 bytes each.
const MAX_MARKS: usize = 4096;
/// Initial number of arrivals per index entry; doubled whenever there are too many entries.
const FIRST_INTERVAL: u64 = 16;

/// Index entry: the position of an arrival.
#[derive(Debug, Clone, Copy)]
struct Mark {
    /// Number of the arrival, from 0.
    arrival: u64,
    at: i64,
    byte: u64,
}

/// Rows in order of time, on disk. Each arrival is followed by its follow-ups.
#[derive(Debug, Clone)]
pub(super) struct Spool {
    file: Arc<File>,
    marks: Arc<[Mark]>,
}

/// Writer of a [`Spool`].
pub(super) struct Spooler {
    out: BufWriter<File>,
    marks: Vec<Mark>,
    interval: u64,
    arrivals: u64,
    byte: u64,
}

impl Spooler {
    /// Creates an empty spool.
    ///
    /// # Errors
    ///
    /// The temporary file cannot be created.
    pub(super) fn new() -> Result<Self> {
        let out = BufWriter::with_capacity(1 << 18, temporary().with_context(no_room)?);
        Ok(Self { out, marks: Vec::new(), interval: FIRST_INTERVAL, arrivals: 0, byte: 0 })
    }

    /// Appends a row.
    ///
    /// # Errors
    ///
    /// The temporary file cannot be written.
    pub(super) fn push(&mut self, row: &UncheckedRow) -> Result<()> {
        if row.after.is_none() {
            if self.arrivals.is_multiple_of(self.interval) {
                self.marks.push(Mark { arrival: self.arrivals, at: row.at, byte: self.byte });
            }
            if self.marks.len() > MAX_MARKS {
                self.interval *= 2;
                self.marks.retain(|m| m.arrival.is_multiple_of(self.interval));
            }
            self.arrivals += 1;
        }
        self.byte += write(&mut self.out, row).with_context(no_room)?;
        Ok(())
    }

    /// Finishes writing.
    ///
    /// # Errors
    ///
    /// The temporary file cannot be written.
    pub(super) fn finish(mut self) -> Result<Spool> {
        self.out.flush().with_context(no_room)?;
        let file = self.out.into_inner().map_err(io::IntoInnerError::into_error).with_context(no_room)?;
        Ok(Spool { file: Arc::new(file), marks: self.marks.into() })
    }
}

impl Spool {
    /// Reads from an arrival on, given by its number.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub(super) fn from(&self, arrival: u64) -> Result<SpoolRows> {
        let known = self.marks.partition_point(|m| m.arrival <= arrival);
        let mark = self.marks.get(known.saturating_sub(1));
        let mut rows = self.rows_at(mark);
        let mut left = arrival - mark.map_or(0, |m| m.arrival);
        while let Some(row) = rows.next()? {
            if row.after.is_none() {
                if left == 0 {
                    rows.put_back(row);
                    break;
                }
                left -= 1;
            }
        }
        Ok(rows)
    }

    /// Returns the number of the first arrival at or after a time; 0 if there is none.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub(super) fn first_at(&self, at: i64) -> Result<u64> {
        let known = self.marks.partition_point(|m| m.at < at);
        let mark = self.marks.get(known.saturating_sub(1));
        let mut rows = self.rows_at(mark);
        let mut arrival = mark.map_or(0, |m| m.arrival);
        while let Some(row) = rows.next()? {
            if row.after.is_none() {
                if row.at >= at {
                    return Ok(arrival);
                }
                arrival += 1;
            }
        }
        Ok(0)
    }

    fn rows_at(&self, mark: Option<&Mark>) -> SpoolRows {
        SpoolRows::between(&self.file, mark.map_or(0, |m| m.byte), u64::MAX)
    }
}

/// Reader of rows on disk.
pub(super) struct SpoolRows {
    from: BufReader<FileRange>,
    /// A row that was read ahead.
    peeked: Option<UncheckedRow>,
}

impl SpoolRows {
    /// Reads the part of a file between two byte offsets.
    pub(super) fn between(file: &Arc<File>, at: u64, end: u64) -> Self {
        Self { from: FileRange::reader(file, at, end), peeked: None }
    }

    /// Returns the next row; `None` at the end.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub(super) fn next(&mut self) -> Result<Option<UncheckedRow>> {
        match self.peeked.take() {
            Some(row) => Ok(Some(row)),
            None => read(&mut self.from).context("failed to read the rows of a trace back"),
        }
    }

    /// Puts a row back, to be returned next.
    pub(super) fn put_back(&mut self, row: UncheckedRow) {
        self.peeked = Some(row);
    }
}

fn no_room() -> String {
    format!(
        "failed to store the rows of the trace in a file in {}: make room there, or set TMPDIR to another directory",
        std::env::temp_dir().display()
    )
}

const NONE: u32 = u32::MAX;
const NO_TIME: u64 = u64::MAX;

/// Writes a row; returns its size in bytes.
pub(super) fn write(out: &mut impl Write, row: &UncheckedRow) -> io::Result<u64> {
    out.write_all(&row.at.to_le_bytes())?;
    for n in [row.conversation_line, row.after.unwrap_or(NO_TIME)] {
        out.write_all(&n.to_le_bytes())?;
    }
    let blocks = row.blocks.len() as u32;
    for n in [row.input, row.output.unwrap_or(NONE), row.cached.unwrap_or(NONE), blocks] {
        out.write_all(&n.to_le_bytes())?;
    }
    out.write_all(&[u8::from(row.session.is_some()), u8::from(row.estimated)])?;
    for n in row.session.iter().chain(&row.blocks) {
        out.write_all(&n.to_le_bytes())?;
    }
    Ok(42 + 8 * (row.blocks.len() + usize::from(row.session.is_some())) as u64)
}

fn read(from: &mut impl Read) -> io::Result<Option<UncheckedRow>> {
    let mut eight = [0; 8];
    match from.read(&mut eight[..1])? {
        0 => return Ok(None),
        _ => from.read_exact(&mut eight[1..])?,
    }
    let at = i64::from_le_bytes(eight);
    let mut long = |from: &mut dyn Read| {
        from.read_exact(&mut eight)?;
        io::Result::Ok(u64::from_le_bytes(eight))
    };
    let (conversation_line, after) = (long(from)?, Some(long(from)?).filter(|n| *n != NO_TIME));
    let mut four = [0; 4];
    let mut numbers = [0; 4];
    for n in &mut numbers {
        from.read_exact(&mut four)?;
        *n = u32::from_le_bytes(four);
    }
    let [input, output, cached, count] = numbers;
    let mut flags = [0; 2];
    from.read_exact(&mut flags)?;
    let session = if flags[0] == 1 { Some(long(from)?) } else { None };
    let blocks = (0..count).map(|_| long(from)).collect::<io::Result<_>>()?;
    let some = |n: u32| Some(n).filter(|n| *n != NONE);
    let (output, cached) = (some(output), some(cached));
    Ok(Some(UncheckedRow {
        at,
        conversation_line,
        after,
        input,
        output,
        blocks,
        session,
        cached,
        estimated: flags[1] == 1,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spool(arrivals: i64) -> Spool {
        let mut spooler = Spooler::new().unwrap();
        for i in 0..arrivals {
            // Two at each moment; every third has two follow-ups.
            let row = UncheckedRow {
                at: i / 2 * 10,
                conversation_line: i as u64,
                input: i as u32 + 1,
                ..UncheckedRow::default()
            };
            spooler.push(&row).unwrap();
            for k in 0..if i % 3 == 0 { 2 } else { 0 } {
                spooler.push(&UncheckedRow { after: Some(k), ..row.clone() }).unwrap();
            }
        }
        spooler.finish().unwrap()
    }

    #[test]
    fn a_replay_begins_at_any_arrival() {
        for n in [1, 40, 3 * FIRST_INTERVAL as i64 * MAX_MARKS as i64] {
            let spool = spool(n);
            assert!(spool.marks.len() <= MAX_MARKS, "{n}: {}", spool.marks.len());
            for at in [0, 1, n / 3, n / 2, n - 1].map(|at| at.clamp(0, n - 1)) {
                let first = spool.from(at as u64).unwrap().next().unwrap().unwrap();
                assert_eq!((first.input, first.after), (at as u32 + 1, None), "{at} of {n}");
                let same = spool.first_at(first.at).unwrap();
                assert_eq!(same, at as u64 / 2 * 2, "the first of its moment");
                assert_eq!(spool.first_at(first.at - 5).unwrap(), same);
            }
            assert_eq!(spool.first_at(i64::MAX).unwrap(), 0, "wraps around after the last");
        }
    }
}
