//! What a trace holds, measured in one pass over its rows.

use super::counts::{Bin, Dispersion, OverTime, Spread};
use super::row::{BadRow, RawRow};
use super::seen::Seen;
use goodput_core::distribution::Lengths;
pub use goodput_core::distribution::{Bar, Distribution};
use serde::Serialize;

/// What the replayed part of a trace holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Name of the format.
    pub format: &'static str,
    /// Requests in the window.
    pub rows: u64,
    /// Requests in the whole file.
    pub rows_in_file: u64,
    /// Rows of the file that could not be read and were left out.
    pub bad_rows: u64,
    /// The first few of them.
    pub first_bad_rows: Vec<BadRow>,
    /// Requests of the file that failed where they were recorded; they are left out.
    pub failures: u64,
    /// Rows of the file that stood later than one with a later time; the trace is read in the order of time.
    pub out_of_order: u64,
    /// How far at most, in seconds.
    pub out_of_order_s: f64,
    /// From the first request of the window to its last, in seconds.
    pub span_s: f64,
    /// Requests per second: one for each mean gap.
    pub rate: f64,
    /// Prompt tokens per second.
    pub input_tokens_per_s: f64,
    /// Output tokens per second, of requests whose answer is known.
    pub output_tokens_per_s: f64,
    /// Lengths of prompts in tokens.
    pub input: Distribution,
    /// Lengths of answers in tokens, where they are known.
    pub output: Option<Distribution>,
    /// Requests that do not tell the length of their answer.
    pub without_output: u64,
    /// Requests with a length that was estimated from its text.
    pub estimated: u64,
    /// Tokens of prompt and answer together, at most.
    pub longest: u64,
    /// Coefficient of variation of the gaps between requests: 1 for Poisson arrivals; `None` where all came at once.
    pub gap_cv: Option<f64>,
    /// Share of requests that came at the very moment of the one before.
    pub same_moment: f64,
    /// The step of which all times are multiples, in seconds, where it is so coarse that it tells.
    pub grid_s: Option<f64>,
    /// How much counts vary, by the width of the intervals.
    pub dispersion: Vec<Dispersion>,
    /// What is known of the beginnings of prompts.
    pub prefix: Option<Prefix>,
    /// Share of the prompt tokens that the recorded server had in its cache, where the trace tells.
    pub recorded_cached: Option<f64>,
    /// Conversations, where the trace tells them apart.
    pub sessions: Option<u64>,
    /// Requests that follow the answer to another: they have no time of their own.
    pub following: u64,
    /// Requests that come after one another in the longest such conversation, the first included.
    pub turns_max: u32,
    /// What came when.
    pub over_time: OverTime,
}

/// The blocks that prompts are made of.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Prefix {
    /// Tokens in a block.
    pub block_tokens: u32,
    /// Share of the prompt tokens that lie in blocks; the rest has no identity.
    pub covered: f64,
    /// Share of the prompt tokens in leading blocks that came before in the window: what a cache that forgets nothing
    /// would have held.
    pub repetition: f64,
    /// Whether every block was told from every other; else the repetition is slightly too high.
    pub exact: bool,
}

/// A summary while rows come in.
pub(super) struct Builder {
    block_tokens: u32,
    spread: Spread,
    input: Lengths,
    output: Lengths,
    base: i64,
    last: i64,
    rows: u64,
    without_output: u64,
    estimated: u64,
    longest: u64,
    cached: Option<u64>,
    blocks: Seen,
    in_blocks: u64,
    repeated: u64,
    sessions: Seen,
    session_count: u64,
    following: u64,
    turns: u32,
    turns_max: u32,
    /// Tokens of the conversation so far, prompts and answers: they come before what follows.
    history: u64,
    histories: u64,
}

/// What the pass over the file tells beyond the rows of the window.
#[derive(Debug, Clone, Default)]
pub(super) struct File {
    pub(super) format: &'static str,
    pub(super) rows: u64,
    pub(super) bad: u64,
    pub(super) first_bad: Vec<BadRow>,
    pub(super) failures: u64,
    pub(super) out_of_order: u64,
    pub(super) out_of_order_s: f64,
}

impl Builder {
    pub(super) fn new(block_tokens: u32) -> Self {
        Self {
            block_tokens,
            spread: Spread::new(),
            input: Lengths::default(),
            output: Lengths::default(),
            base: 0,
            last: 0,
            rows: 0,
            without_output: 0,
            estimated: 0,
            longest: 0,
            cached: None,
            blocks: Seen::new(28),
            in_blocks: 0,
            repeated: 0,
            sessions: Seen::new(27),
            session_count: 0,
            following: 0,
            turns: 0,
            turns_max: 1,
            history: 0,
            histories: 0,
        }
    }

    /// Adds a row of the window; they come in the order of time.
    pub(super) fn push(&mut self, row: &RawRow) {
        let first = self.rows == 0;
        if first {
            self.base = row.at;
        }
        self.last = row.at;
        self.rows += 1;
        let (own, output) = (u64::from(row.input), u64::from(row.output.unwrap_or(0)));
        if row.after.is_some() {
            self.following += 1;
            self.turns += 1;
        } else {
            (self.turns, self.history) = (1, 0);
        }
        self.turns_max = self.turns_max.max(self.turns);
        self.histories += self.history;
        let input = self.history + own;
        self.history = input + output;
        let bin = Bin { requests: 1, input_tokens: input, output_tokens: output };
        match row.after {
            None => self.spread.push(row.at.abs_diff(self.base), first, bin),
            Some(_) => self.spread.follow(bin),
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
            self.session_count += u64::from(self.sessions.put(session));
        }
        let size = u64::from(self.block_tokens);
        let held = row.blocks.iter().take_while(|b| self.blocks.has(**b)).count() as u64;
        if row.after.is_none() {
            self.repeated += (held * size).min(own);
            self.in_blocks += (row.blocks.len() as u64 * size).min(own);
            for block in &row.blocks {
                self.blocks.put(*block);
            }
        }
    }

    /// Requests that come at a time of their own.
    pub(super) fn arrivals(&self) -> u64 {
        self.rows - self.following
    }

    /// Time of the first row and of the last.
    pub(super) fn ends(&self) -> (i64, i64) {
        (self.base, self.last)
    }

    /// The summary; `None` where there was no row.
    pub(super) fn finish(self, file: File) -> Option<Summary> {
        let input = self.input.finish()?;
        let span_s = self.last.abs_diff(self.base) as f64 / 1e9;
        let gaps = self.spread.gaps();
        // As long as the replay takes until it begins anew.
        let period = span_s + gaps.map_or(1.0, |g| g.0);
        let tokens = self.input.sum() as f64;
        let prefix = (self.in_blocks > 0).then(|| Prefix {
            block_tokens: self.block_tokens,
            // What a conversation said so far came before, and comes again as it was.
            covered: (self.in_blocks + self.histories) as f64 / tokens,
            repetition: (self.repeated + self.histories) as f64 / tokens,
            exact: self.blocks.exact(),
        });
        let grid_s = self.spread.grid_s();
        let (dispersion, over_time) = self.spread.finish();
        Some(Summary {
            format: file.format,
            rows: self.rows,
            rows_in_file: file.rows,
            bad_rows: file.bad,
            first_bad_rows: file.first_bad,
            failures: file.failures,
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
    /// Requests that come at a time of their own.
    pub fn arrivals(&self) -> u64 {
        self.rows - self.following
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(at_s: i64, input: u32, blocks: &[u64]) -> RawRow {
        RawRow {
            at: at_s * 1_000_000_000,
            input,
            output: Some(5),
            blocks: blocks.into(),
            ..RawRow::default()
        }
    }

    #[test]
    fn a_block_counts_as_held_only_behind_held_ones() {
        let mut builder = Builder::new(10);
        for r in [row(0, 30, &[1, 2, 3]), row(1, 25, &[1, 2, 4]), row(2, 20, &[9, 2]), row(3, 15, &[1, 2])] {
            builder.push(&r);
        }
        let s = builder.finish(File::default()).unwrap();
        let p = s.prefix.unwrap();
        assert!(
            (p.repetition - (20.0 + 15.0) / 90.0).abs() < 1e-12,
            "{p:?}: two blocks, none behind 9, all of 15"
        );
        assert!((p.covered - 1.0).abs() < 1e-12 && p.exact);
        assert!((s.span_s - 3.0).abs() < 1e-12 && (s.rate - 1.0).abs() < 1e-12, "{}", s.rate);
        assert_eq!((s.longest, s.input.max, s.input.p50), (35, 30, 20));
    }

    #[test]
    fn bars_hold_every_length_once() {
        let mut lengths = Lengths::default();
        (1..=50_000).step_by(7).for_each(|n| lengths.push(n));
        let d = lengths.finish().unwrap();
        assert_eq!(d.bars.iter().map(|b| b.n).sum::<u64>(), d.n);
        assert!(d.bars.windows(2).all(|w| w[0].to <= w[1].from && w[0].from < w[0].to), "{:?}", d.bars);
        assert!(d.bars.len() < 50 && d.p99 > 49_000 && d.p99 < 50_000);
    }

    #[test]
    fn no_rows_no_summary() {
        assert!(Builder::new(16).finish(File::default()).is_none());
    }
}
