//! Finished requests as bytes: rows of little-endian values, each followed by its gaps and texts.
//!
//! A worker keeps its chunks until the leader has them. The layout belongs to [`PROTOCOL`](super::message::PROTOCOL):
//! leader and workers run the same program.

use super::message::ChunkHead;
use bytes::Bytes;
use goodput_core::record::{Conn, Failure, Finished, Outcome, Phase, Record, TokenSource};
use std::collections::VecDeque;
use std::num::NonZeroU8;
use std::time::Duration;

/// Size at which a chunk is closed. It must arrive within the time that a reply may take, also over a link that many workers share: 64 of
/// them at once take 0.15 s of 1 Gbit/s.
const CHUNK: usize = 300_000;
/// Longest text of a row. A longer one is cut, so that every row fits into the default largest message of NATS, 1 MiB.
const LONGEST_TEXT: usize = 120_000;
/// The longest that all other texts of a row are together.
const LONGEST_OTHER_TEXTS: usize = 2 * LONGEST_TEXT;

/// The chunks of a load that the leader does not have yet.
#[derive(Debug, Default)]
pub struct Chunks {
    /// Number of the first chunk that is kept.
    first: u64,
    kept: VecDeque<(ChunkHead, Bytes)>,
    /// Rows that are in no chunk yet.
    open: Vec<u8>,
    records: u64,
}

impl Chunks {
    /// Adds a request.
    pub fn add(&mut self, finished: &Finished) {
        let before = self.open.len();
        write(finished, &mut self.open);
        self.records += 1;
        if self.open.len() > CHUNK && before > 0 {
            let row = self.open.split_off(before);
            self.close();
            self.open = row;
        }
    }

    /// Returns the number of requests that were added.
    pub const fn records(&self) -> u64 {
        self.records
    }

    /// Returns the size of all rows that are kept.
    pub fn bytes(&self) -> usize {
        self.open.len() + self.kept.iter().map(|(_, bytes)| bytes.len()).sum::<usize>()
    }

    /// Returns the number of chunks so far; closes the open one.
    pub fn count(&mut self) -> u64 {
        self.close();
        self.first + self.kept.len() as u64
    }

    /// Forgets the chunks before `from`, which the leader has, and returns that one if there is any. Asking again for a
    /// chunk returns the same bytes.
    pub fn pull(&mut self, from: u64) -> Option<(ChunkHead, Bytes)> {
        while self.first < from && self.kept.pop_front().is_some() {
            self.first += 1;
        }
        if self.kept.is_empty() {
            self.close();
        }
        self.kept.front().filter(|(head, _)| head.number == from).cloned()
    }

    fn close(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let bytes = Bytes::from(std::mem::take(&mut self.open));
        let number = self.first + self.kept.len() as u64;
        self.kept.push_back((ChunkHead { number, checksum: checksum(&bytes) }, bytes));
    }
}

/// Returns the checksum of a chunk (CRC-32) with its length, so that a cut chunk is seen even if it is empty.
pub fn checksum(bytes: &[u8]) -> u64 {
    (bytes.len() as u64) << 32 | u64::from(crc32fast::hash(bytes))
}

/// Reads the requests of a chunk.
///
/// # Errors
/// The bytes are no rows.
pub fn read(mut bytes: &[u8]) -> Result<Vec<Finished>, String> {
    let mut all = Vec::with_capacity(bytes.len() / ROW);
    while !bytes.is_empty() {
        all.push(Reader(&mut bytes).finished().ok_or("a chunk of records is not made of rows")?);
    }
    Ok(all)
}

/// Length of the shortest row: one without optional values, gaps and texts.
const ROW: usize = 67;

/// Number of optional values of a row.
const OPTIONS: usize = 27;

/// Writes the values of a row. A bit of the row says for each optional value if it is there.
struct Writer<'a> {
    to: &'a mut Vec<u8>,
    present: u32,
    options: u32,
}

impl Writer<'_> {
    fn option<const N: usize>(&mut self, value: Option<[u8; N]>) {
        self.present |= u32::from(value.is_some()) << self.options;
        self.options += 1;
        self.to.extend(value.iter().flatten());
    }

    fn time(&mut self, time: Duration) {
        self.to.extend(nanos(time).to_le_bytes());
    }

    fn maybe_time(&mut self, time: Option<Duration>) {
        self.option(time.map(|t| nanos(t).to_le_bytes()));
    }

    fn text_length(&mut self, text: Option<&str>) {
        self.option(text.map(|t| (cut(t, LONGEST_TEXT).len() as u32).to_le_bytes()));
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the beginning of a text.
fn cut(text: &str, longest: usize) -> &str {
    let mut end = text.len().min(longest);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Returns the place of a value in the list of all.
fn place<T: PartialEq>(all: &[T], value: &T) -> u8 {
    all.iter().position(|one| one == value).unwrap_or_default() as u8
}

const PHASES: [Phase; 4] = [Phase::Warmup, Phase::Settle, Phase::Measure, Phase::Tail];
const CONNECTIONS: [Conn; 2] = [Conn::New, Conn::Reused];
const SOURCES: [TokenSource; 4] =
    [TokenSource::Continuous, TokenSource::Usage, TokenSource::Tokenizer, TokenSource::Events];

/// Appends a request. The fields are taken apart, so that a new one is not forgotten here.
fn write(finished: &Finished, to: &mut Vec<u8>) {
    let Finished { record, gaps_us, sample, server_ttft, retry_after, text, other_texts } = finished;
    let start = to.len();
    to.extend([0; 4]);
    let mut w = Writer { to, present: 0, options: 0 };
    write_record(record, &mut w);
    w.maybe_time(*server_ttft);
    w.maybe_time(*retry_after);
    w.to.extend((gaps_us.len() as u32).to_le_bytes());
    let texts = [&record.finish, sample, text];
    texts.iter().for_each(|t| w.text_length(t.as_deref()));
    debug_assert_eq!(w.options as usize, OPTIONS);
    let present = w.present;
    to[start..start + 4].copy_from_slice(&present.to_le_bytes());
    to.extend(gaps_us.iter().flat_map(|gap| gap.to_le_bytes()));
    texts.iter().filter_map(|t| t.as_deref()).for_each(|t| to.extend(cut(t, LONGEST_TEXT).as_bytes()));
    write_other_texts(other_texts, to);
}

/// Appends the number of other texts, and each with its length.
fn write_other_texts(texts: &[Box<str>], to: &mut Vec<u8>) {
    to.extend((texts.len() as u16).to_le_bytes());
    let mut left = LONGEST_OTHER_TEXTS;
    for text in texts.iter().take(usize::from(u16::MAX)) {
        let text = cut(text, left);
        left -= text.len();
        to.extend((text.len() as u32).to_le_bytes());
        to.extend(text.as_bytes());
    }
}

/// Appends the fixed part of a record. [`Record::worker`] is not in it: the leader knows whose chunk it is, and
/// [`Record::finish`] follows with the texts.
fn write_record(record: &Record, w: &mut Writer<'_>) {
    let Record { id, phase, class, session, turn, target, conn, attempts, .. } = record;
    w.to.extend(id.to_le_bytes());
    w.to.extend([place(&PHASES, phase), *attempts]);
    w.to.extend(class.to_le_bytes());
    w.to.extend(turn.to_le_bytes());
    w.to.extend(target.to_le_bytes());
    w.option(session.map(u64::to_le_bytes));
    w.option(conn.map(|c| [place(&CONNECTIONS, &c)]));
    let Record { due, sent, headers, first_event, first_token, first_content, last_token, end, .. } = record;
    w.time(*due);
    [sent, headers, first_event, first_token, first_content, last_token]
        .into_iter()
        .for_each(|t| w.maybe_time(*t));
    w.time(*end);
    let Record { input_asked, input_tokens, cached_tokens, output_asked, output_tokens, .. } = record;
    let Record { reasoning_tokens, first_event_tokens, events, itl_over, .. } = record;
    for count in [input_asked, output_asked, events, itl_over] {
        w.to.extend(count.to_le_bytes());
    }
    for count in [input_tokens, cached_tokens, output_tokens, reasoning_tokens, first_event_tokens] {
        w.option(count.map(u32::to_le_bytes));
    }
    let Record { token_source, itl_max, output_bytes, outcome, failure, status, check, .. } = record;
    w.option(token_source.map(|s| [place(&SOURCES, &s)]));
    w.maybe_time(*itl_max);
    w.to.extend(output_bytes.to_le_bytes());
    w.option((record.items > 0).then_some(record.items.to_le_bytes()));
    w.maybe_time(record.audio);
    w.to.extend([place(&Outcome::ALL, outcome)]);
    w.option(failure.map(|f| [place(&Failure::ALL, &f)]));
    w.option(status.map(u16::to_le_bytes));
    w.maybe_time(record.uploaded);
    w.option(record.choices.map(|n| [n.get()]));
    w.maybe_time(record.decoding);
    // Whether the checks passed is found out by the leader, from the text.
    debug_assert_eq!(*check, None);
}

/// Reads what [`Writer`] wrote, in the same order. `None` where the bytes end.
struct Reader<'a, 'b>(&'a mut &'b [u8]);

/// Says which optional values of a row are there.
struct Present {
    bits: u32,
    at: u32,
}

impl Reader<'_, '_> {
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        *self.0 = rest;
        Some(*first)
    }

    fn u8(&mut self) -> Option<u8> {
        self.bytes().map(u8::from_le_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.bytes().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_le_bytes)
    }

    fn time(&mut self) -> Option<Duration> {
        self.u64().map(Duration::from_nanos)
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        all.get(usize::from(self.u8()?)).copied()
    }

    fn option<T>(
        &mut self,
        present: &mut Present,
        read: impl FnOnce(&mut Self) -> Option<T>,
    ) -> Option<Option<T>> {
        let is_there = present.bits >> present.at & 1 == 1;
        present.at += 1;
        if is_there { read(self).map(Some) } else { Some(None) }
    }

    fn text(&mut self, length: Option<u32>) -> Option<Option<Box<str>>> {
        let Some(length) = length else { return Some(None) };
        let (text, rest) = self.0.split_at_checked(length as usize)?;
        *self.0 = rest;
        Some(Some(std::str::from_utf8(text).ok()?.into()))
    }

    fn finished(&mut self) -> Option<Finished> {
        let mut present = Present { bits: self.u32()?, at: 0 };
        let p = &mut present;
        let mut record = self.record(p)?;
        let server_ttft = self.option(p, Self::time)?;
        let retry_after = self.option(p, Self::time)?;
        let gaps = self.u32()?;
        let mut lengths = [None; 3];
        for length in &mut lengths {
            *length = self.option(p, Self::u32)?;
        }
        let (gaps, rest) = self.0.split_at_checked(4 * gaps as usize)?;
        *self.0 = rest;
        let gaps_us = gaps.as_chunks().0.iter().map(|gap| u32::from_le_bytes(*gap)).collect();
        record.finish = self.text(lengths[0])?;
        let sample = self.text(lengths[1])?;
        let text = self.text(lengths[2])?;
        let other_texts = self.other_texts()?;
        Some(Finished { record, gaps_us, sample, server_ttft, retry_after, text, other_texts })
    }

    fn other_texts(&mut self) -> Option<Vec<Box<str>>> {
        let count = self.u16()?;
        let text = |_| {
            let length = self.u32()?;
            self.text(Some(length))?
        };
        (0..count).map(text).collect()
    }

    fn record(&mut self, p: &mut Present) -> Option<Record> {
        let id = self.u64()?;
        let mut r = Record::due(id, self.of(&PHASES)?, Duration::ZERO);
        r.attempts = self.u8()?;
        (r.class, r.turn, r.target) = (self.u16()?, self.u16()?, self.u16()?);
        r.session = self.option(p, Self::u64)?;
        r.conn = self.option(p, |s| s.u8())?.map(|i| CONNECTIONS[usize::from(i) % CONNECTIONS.len()]);
        r.due = self.time()?;
        let times = [
            &mut r.sent,
            &mut r.headers,
            &mut r.first_event,
            &mut r.first_token,
            &mut r.first_content,
            &mut r.last_token,
        ];
        for time in times {
            *time = self.option(p, Self::time)?;
        }
        r.end = self.time()?;
        for count in [&mut r.input_asked, &mut r.output_asked, &mut r.events, &mut r.itl_over] {
            *count = self.u32()?;
        }
        let counts = [
            &mut r.input_tokens,
            &mut r.cached_tokens,
            &mut r.output_tokens,
            &mut r.reasoning_tokens,
            &mut r.first_event_tokens,
        ];
        for count in counts {
            *count = self.option(p, Self::u32)?;
        }
        r.token_source = self.option(p, |s| s.of(&SOURCES))?;
        r.itl_max = self.option(p, Self::time)?;
        r.output_bytes = self.u64()?;
        r.items = self.option(p, Self::u16)?.unwrap_or(0);
        r.audio = self.option(p, Self::time)?;
        r.outcome = self.of(&Outcome::ALL)?;
        r.failure = self.option(p, |s| s.of(&Failure::ALL))?;
        r.status = self.option(p, Self::u16)?;
        r.uploaded = self.option(p, Self::time)?;
        r.choices = self.option(p, |s| NonZeroU8::new(s.u8()?))?;
        r.decoding = self.option(p, Self::time)?;
        Some(r)
    }
}

#[cfg(test)]
mod tests;
