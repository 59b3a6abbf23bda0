//! Recorded traces: what came when, how long it was, and which prompts begin alike.
//!
//! ```text
//! file ─ bytes ─ csv | json | copilot | requests ─ row::check ─ Rows ─┬─ Builder ─ Summary
//!        (gzip, zstd)                                   (sort, if need)└─ Spool ─ Replay
//! ```
//!
//! A file is read and never held: [`Trace::open`] checks every row, measures, and writes the window's into a temporary file, from
//! which each [`Replay`] reads, beginning wherever it is to. Rows must come in the order of time; where they do not, they are
//! sorted through another temporary file first.

mod anonymise;
mod copilot;
mod counts;
mod csv;
mod format;
mod json;
mod replay;
mod requests;
mod row;
mod rows;
mod scan;
mod seen;
mod sort;
mod source;
mod spool;
mod summary;
mod time;

#[cfg(test)]
mod tests;

pub use anonymise::anonymise;
pub use counts::{Bin, Dispersion, OverTime};
pub use format::Format;
pub use replay::{Begin, Replay, Replayed, TraceRow};
pub use requests::Hashing;
pub use row::BadRow;
pub(crate) use row::shown;
pub use source::{Columns, Start, TraceSource, Unit, Window};
pub use summary::{Bar, Distribution, Prefix, Summary};

use anyhow::{Context, Result, bail};
use goodput_core::units::{short, thousands};
use scan::Input;
use spool::Spool;
use std::sync::Arc;
use std::time::Duration;

/// A trace that was read through once: every row is checked, and it is known what it holds.
#[derive(Debug, Clone)]
pub struct Trace(Arc<Inner>);

struct Inner {
    input: Input,
    /// Time of the window's first row, and of its last.
    base: i64,
    last: i64,
    period: Duration,
    /// The window's rows; none of a trace that is only described.
    spool: Option<Spool>,
    summary: Summary,
}

impl Inner {
    fn spool(&self) -> Result<&Spool> {
        self.spool.as_ref().context("the trace was opened to be described, not to be replayed")
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trace").field("source", &self.input.source).finish_non_exhaustive()
    }
}

impl Trace {
    /// Reads a trace through once, in bounded memory, to be replayed.
    ///
    /// # Errors
    ///
    /// The file cannot be read, its format not be told, a row is bad and they are not skipped, the window holds no request, or
    /// rows lack the length of their answer and the source has no `output-tokens`. Messages name file, line and field.
    pub fn open(source: &TraceSource) -> Result<Self> {
        let trace = Self::read(source, None, true)?;
        let without = trace.summary().without_output;
        if without > 0 && source.output_tokens.is_none() {
            bail!(
                "{}: {without} requests do not tell the length of their answer: set output-tokens, such as {{ fixed = 100 }}{}",
                source.file.display(),
                if without == trace.summary().rows {
                    ", or name their column in columns.output-tokens"
                } else {
                    ""
                }
            );
        }
        Ok(trace)
    }

    /// Reads a trace through once to be described: lengths of answers may be missing. A log of requests gets block ids where
    /// `hashing` is given. It cannot be replayed.
    ///
    /// # Errors
    ///
    /// As [`Trace::open`], but for missing lengths.
    pub fn describe(source: &TraceSource, hashing: Option<Hashing>) -> Result<Self> {
        Self::read(source, hashing, false)
    }

    /// The same of a trace that is written anew: its rows are kept.
    ///
    /// # Errors
    ///
    /// As [`Trace::describe`]; or there is no room for them.
    pub fn keep(source: &TraceSource, hashing: Option<Hashing>) -> Result<Self> {
        Self::read(source, hashing, true)
    }

    fn read(source: &TraceSource, hashing: Option<Hashing>, keep: bool) -> Result<Self> {
        let input = Input::new(source, hashing)?;
        let scanned = input.scan(keep)?;
        let (base, last) = scanned.builder.ends();
        let arrivals = scanned.builder.arrivals();
        let span = Duration::from_nanos(last.abs_diff(base));
        // One mean gap more than the span, so that the rate stays what it is; a second where there is no gap.
        let gap = (arrivals > 1 && !span.is_zero()).then(|| last.abs_diff(base) / (arrivals - 1));
        let period = span + gap.map_or(Duration::from_secs(1), Duration::from_nanos);
        let spool = scanned.spool;
        match scanned.builder.finish(scanned.file) {
            Some(summary) => Ok(Self(Arc::new(Inner { input, base, last, period, spool, summary }))),
            None => bail!("{}: the window holds no requests: make it larger", source.file.display()),
        }
    }

    /// What the window holds.
    pub fn summary(&self) -> &Summary {
        &self.0.summary
    }

    /// Where it was read from.
    pub fn source(&self) -> &TraceSource {
        &self.0.input.source
    }

    /// Its format, as given or told from its rows.
    pub fn format(&self) -> Format {
        self.0.input.how.format
    }

    /// Tokens in a prefix block, where rows name theirs.
    pub fn block_tokens(&self) -> Option<u32> {
        self.summary().prefix.map(|p| p.block_tokens)
    }

    /// How long one round of the replay takes: from the first request to the last, and one mean gap.
    pub fn period(&self) -> Duration {
        self.0.period
    }

    /// The requests again and again, from a place on. A trace that was only described has none.
    pub fn replay(&self, begin: Begin) -> Replay {
        Replay::new(self.clone(), begin)
    }

    /// What it is, in one line: `12,031 requests of mooncake.jsonl (mooncake), 58.9 min, prefix blocks of 512 tokens`.
    pub fn title(&self) -> String {
        let s = self.summary();
        let name = self.source().file.file_name().unwrap_or(self.source().file.as_os_str()).to_string_lossy();
        let window = if self.source().window.is_some() { " in a window" } else { "" };
        let prefix = match s.prefix {
            Some(p) => format!("prefix blocks of {} tokens", p.block_tokens),
            None => "no prefix identity".into(),
        };
        let requests = if s.rows == 1 { "request" } else { "requests" };
        format!(
            "{} {requests}{window} of {name} ({}), {}, {prefix}",
            thousands(s.rows as f64),
            s.format,
            long(s.span_s)
        )
    }

    /// What identity the beginnings of prompts have, and where the cache hit rate is the generator's choice.
    pub fn prefix_note(&self) -> String {
        let s = self.summary();
        let percent = |x: f64| format!("{} %", short((x * 1000.0).round() / 10.0));
        let recorded = s.recorded_cached.map_or(String::new(), |c| {
            format!("; where it was recorded, {} of the prompt tokens were cached", percent(c))
        });
        let Some(p) = s.prefix else {
            return format!(
                "The trace does not say which prompts begin alike, so the cache hit rate of a replay is the generator's choice, \
                 not the trace's{recorded}."
            );
        };
        let rest = if p.covered < 0.995 {
            format!(
                " The other {} of the prompt tokens have no identity; whether they hit is the generator's choice.",
                percent(1.0 - p.covered)
            )
        } else {
            String::new()
        };
        format!(
            "Prompts are told apart by blocks of {} tokens: a cache that forgets nothing would hold {}{} of the prompt \
             tokens{recorded}.{rest}",
            p.block_tokens,
            if p.exact { "" } else { "about " },
            percent(p.repetition)
        )
    }
}

/// A length of time as people say it.
pub fn long(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => format!("{} ms", short(s * 1e3)),
        s if s < 60.0 => format!("{} s", short(s)),
        s if s < 5_400.0 => format!("{} min", short(s / 60.0)),
        s if s < 172_800.0 => format!("{} h", short(s / 3_600.0)),
        s => format!("{} days", short(s / 86_400.0)),
    }
}
