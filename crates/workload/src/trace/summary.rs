//! Summary of a trace, measured in one pass over its rows.

use super::counts::{ArrivalStats, Bin, Dispersion, OverTime};
use super::id_set::IdSet;
use super::row::{BadRow, UncheckedRow};
use super::rows::Skipped;
use goodput_core::distribution::LengthHistogram;
pub use goodput_core::distribution::{Bar, Distribution};
use serde::Serialize;

/// Summary of the replayed part of a trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Name of the format.
    pub format: &'static str,
    /// Number of requests in the window.
    pub rows: u64,
    /// Number of requests in the whole file.
    pub rows_in_file: u64,
    /// Number of rows of the file that could not be read and were skipped.
    pub bad_rows: u64,
    /// The first few bad rows.
    pub first_bad_rows: Vec<BadRow>,
    /// Number of requests of the file that had failed when recorded; they are skipped.
    pub failures: u64,
    /// Number of rows of the file that come after a row with a later time; the trace is replayed in order of time.
    pub out_of_order: u64,
    /// Largest such difference in time, in seconds.
    pub out_of_order_s: f64,
    /// Time from the window's first request to its last, in seconds.
    pub span_s: f64,
    /// Mean requests per second: one per mean gap.
    pub rate: f64,
    /// Prompt tokens per second.
    pub input_tokens_per_s: f64,
    /// Output tokens per second, over requests with a recorded answer length.
    pub output_tokens_per_s: f64,
    /// Prompt lengths in tokens.
    pub input: Distribution,
    /// Answer lengths in tokens, if recorded.
    pub output: Option<Distribution>,
    /// Number of requests without a recorded answer length.
    pub without_output: u64,
    /// Number of requests with a length estimated from text.
    pub estimated: u64,
    /// Largest sum of prompt and answer tokens of one request.
    pub longest: u64,
    /// Coefficient of variation of the gaps between requests: 1 for Poisson arrivals; `None` if all came at once.
    pub gap_cv: Option<f64>,
    /// Share of requests with exactly the time of the previous one.
    pub same_moment: f64,
    /// Resolution of the timestamps in seconds, if it is 10 ms or coarser.
    pub grid_s: Option<f64>,
    /// Variation of the counts, by width of the interval.
    pub dispersion: Vec<Dispersion>,
    /// Shared prefixes, if the trace identifies them.
    pub prefix: Option<Prefix>,
    /// Share of the prompt tokens that the recorded server had cached, if recorded.
    pub recorded_cached: Option<f64>,
    /// Number of conversations, if the trace identifies them.
    pub sessions: Option<u64>,
    /// Number of follow-ups: requests sent after an answer rather than at a time.
    pub following: u64,
    /// Number of turns of the longest conversation with follow-ups.
    pub turns_max: u32,
    /// Load over time.
    pub over_time: OverTime,
}

/// Summary of the prompts' prefix blocks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Prefix {
    /// Tokens per block.
    pub block_tokens: u32,
    /// Share of the prompt tokens in blocks; the rest is not identified.
    pub covered: f64,
    /// Share of the prompt tokens in leading blocks that occurred earlier in the window: the hit rate of a cache
    /// without eviction.
    pub repetition: f64,
    /// False if hash collisions make the repetition slightly too high.
    pub exact: bool,
}

/// Accumulator of a [`Summary`].
#[derive(Default)]
pub(super) struct Builder {
    block_tokens: u32,
    arrival_stats: ArrivalStats,
    input: LengthHistogram,
    output: LengthHistogram,
    base: i64,
    last: i64,
    rows: u64,
    without_output: u64,
    estimated: u64,
    longest: u64,
    cached: Option<u64>,
    blocks: IdSet,
    in_blocks: u64,
    repeated: u64,
    sessions: IdSet,
    session_count: u64,
    following: u64,
    turns: u32,
    turns_max: u32,
    /// Tokens of the current conversation so far, prompts and answers; the prefix of its next turn.
    history: u64,
    /// Total of the histories before all follow-ups.
    histories: u64,
}

/// Facts about the whole file, beyond the rows of the window.
#[derive(Debug, Clone, Default)]
pub(super) struct File {
    pub(super) format: &'static str,
    pub(super) rows: u64,
    pub(super) skipped: Skipped,
    pub(super) out_of_order: u64,
    pub(super) out_of_order_s: f64,
}

impl Builder {
    pub(super) fn new(block_tokens: u32) -> Self {
        Self {
            block_tokens,
            arrival_stats: ArrivalStats::new(),
            blocks: IdSet::new(28),
            sessions: IdSet::new(27),
            turns_max: 1,
            ..Self::default()
        }
    }

    /// Adds a row of the window, in order of time.
    pub(super) fn push(&mut self, row: &UncheckedRow) {
        let first = self.rows == 0;
        if first {
            self.base = row.at;
        }
        self.last = row.at;
        self.rows += 1;
        let (added, output) = (u64::from(row.input), u64::from(row.output.unwrap_or(0)));
        if row.after.is_some() {
            self.following += 1;
            self.turns += 1;
        } else {
            (self.turns, self.history) = (1, 0);
        }
        self.turns_max = self.turns_max.max(self.turns);
        self.histories += self.history;
        let input = self.history + added;
        self.history = input + output;
        let bin = Bin { requests: 1, input_tokens: input, output_tokens: output };
        match row.after {
            None => self.arrival_stats.push(row.at.abs_diff(self.base), first, bin),
            Some(_) => self.arrival_stats.add_follow_up(bin),
        }
        self.input.push(u32::try_from(input).unwrap_or(u32::MAX));
        match row.output {
            Some(n) => self.output.push(n),
            None => self.without_output += 1,
        }
        self.estimated += u64::from(row.estimated);
        self.longest = self.longest.max(input + output);
        if let Some(cached) = row.cached {
            self.cached = Some(self.cached.unwrap_or(0) + u64::from(cached).min(input));
        }
        if let Some(session) = row.session {
            self.session_count += u64::from(self.sessions.insert(session));
        }
        let size = u64::from(self.block_tokens);
        let repeated = row.blocks.iter().take_while(|b| self.blocks.contains(**b)).count() as u64;
        if row.after.is_none() {
            self.repeated += (repeated * size).min(added);
            self.in_blocks += (row.blocks.len() as u64 * size).min(added);
            for block in &row.blocks {
                self.blocks.insert(*block);
            }
        }
    }

    /// Returns the number of requests that are not follow-ups.
    pub(super) fn arrivals(&self) -> u64 {
        self.rows - self.following
    }

    /// Returns the time of the first row and of the last, in ns.
    pub(super) fn ends(&self) -> (i64, i64) {
        (self.base, self.last)
    }

    /// Returns the summary; `None` if there were no rows.
    pub(super) fn finish(self, file: File) -> Option<Summary> {
        let input = self.input.finish()?;
        let span_s = self.last.abs_diff(self.base) as f64 / 1e9;
        let gaps = self.arrival_stats.gaps();
        // Duration of one round of the replay.
        let period = span_s + gaps.map_or(1.0, |g| g.0);
        let tokens = self.input.sum() as f64;
        let prefix = (self.in_blocks > 0).then(|| Prefix {
            block_tokens: self.block_tokens,
            // History was sent before, and is repeated exactly.
            covered: (self.in_blocks + self.histories) as f64 / tokens,
            repetition: (self.repeated + self.histories) as f64 / tokens,
            exact: self.blocks.is_exact(),
        });
        let grid_s = self.arrival_stats.grid_s();
        let (dispersion, over_time) = self.arrival_stats.finish();
        Some(Summary {
            format: file.format,
            rows: self.rows,
            rows_in_file: file.rows,
            bad_rows: file.skipped.bad,
            first_bad_rows: file.skipped.examples,
            failures: file.skipped.failed,
            out_of_order: file.out_of_order,
            out_of_order_s: file.out_of_order_s,
            span_s,
            rate: self.rows as f64 / period,
            input_tokens_per_s: tokens / period,
            output_tokens_per_s: self.output.sum() as f64 / period,
            input,
            output: self.output.finish(),
            without_output: self.without_output,
            estimated: self.estimated,
            longest: self.longest,
            gap_cv: gaps.map(|g| g.1),
            same_moment: gaps.map_or(1.0, |g| g.2),
            grid_s,
            dispersion,
            prefix,
            recorded_cached: self.cached.map(|c| c as f64 / tokens),
            sessions: (self.session_count > 0).then_some(self.session_count),
            following: self.following,
            turns_max: self.turns_max,
            over_time,
        })
    }
}

impl Summary {
    /// Returns the number of requests that are not follow-ups.
    pub fn arrivals(&self) -> u64 {
        self.rows - self.following
    }

    /// Returns the dispersion of counts over ten seconds, if there are enough of them and the clock is fine enough; else of the widest or
    /// finest usable intervals.
    pub fn telling_dispersion(&self) -> Option<&Dispersion> {
        let fine = |d: &&Dispersion| d.index.is_some() && self.grid_s.is_none_or(|g| d.width_s >= 2.0 * g);
        let known: Vec<&Dispersion> = self.dispersion.iter().filter(fine).collect();
        known.iter().find(|d| d.width_s > 9.0).or(known.last()).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(at_s: i64, input: u32, blocks: &[u64]) -> UncheckedRow {
        UncheckedRow {
            at: at_s * 1_000_000_000,
            input,
            output: Some(5),
            blocks: blocks.into(),
            ..UncheckedRow::default()
        }
    }

    #[test]
    fn a_block_repeats_only_after_repeated_blocks() {
        let mut builder = Builder::new(10);
        for r in [row(0, 30, &[1, 2, 3]), row(1, 25, &[1, 2, 4]), row(2, 20, &[9, 2]), row(3, 15, &[1, 2])] {
            builder.push(&r);
        }
        let s = builder.finish(File::default()).unwrap();
        let p = s.prefix.unwrap();
        assert!(
            (p.repetition - (20.0 + 15.0) / 90.0).abs() < 1e-12,
            "{p:?}: two blocks, none after block 9, all of the last 15 tokens"
        );
        assert!((p.covered - 1.0).abs() < 1e-12 && p.exact);
        assert!((s.span_s - 3.0).abs() < 1e-12 && (s.rate - 1.0).abs() < 1e-12, "{}", s.rate);
        assert_eq!((s.longest, s.input.max, s.input.p50), (35, 30, 20));
    }

    #[test]
    fn bars_count_every_length_once() {
        let mut lengths = LengthHistogram::default();
        (1..=50_000).step_by(7).for_each(|n| lengths.push(n));
        let d = lengths.finish().unwrap();
        assert_eq!(d.bars.iter().map(|b| b.n).sum::<u64>(), d.n);
        assert!(d.bars.windows(2).all(|w| w[0].to <= w[1].from && w[0].from < w[0].to), "{:?}", d.bars);
        assert!(d.bars.len() < 50 && d.p99 > 49_000 && d.p99 < 50_000);
    }

    #[test]
    fn a_summary_needs_rows() {
        assert!(Builder::new(16).finish(File::default()).is_none());
    }
}
