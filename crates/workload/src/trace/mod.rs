//! Recorded traces: arrival times, lengths and shared prefixes of requests, for replay.
//!
//! ```text
//! file ─ Scanner ─ csv | json | copilot | requests ─ row::check ─ Rows ─┬─ Builder ─ Summary
//!        (gzip, zstd)                                   (sort, if need)└─ Spool ─ Replay
//! ```
//!
//! Memory stays bounded: [`Trace::open`] reads the file once, checks and measures every row, and writes those of the
//! window into a temporary file, which each [`Replay`] reads from any position. Rows must be in order of time;
//! otherwise they are first sorted through another temporary file.

mod anonymise;
mod copilot;
mod counts;
mod csv;
mod format;
mod id_set;
mod json;
mod replay;
mod requests;
mod row;
mod rows;
mod scan;
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

/// A trace whose rows have been checked and measured.
#[derive(Debug, Clone)]
pub struct Trace(Arc<Inner>);

struct Inner {
    input: Input,
    /// Time of the window's first and last row, in ns.
    base: i64,
    last: i64,
    period: Duration,
    /// Rows of the window; `None` for a trace that is only described.
    spool: Option<Spool>,
    summary: Summary,
}

impl Inner {
    fn spool(&self) -> Result<&Spool> {
        self.spool.as_ref().context("the trace was opened for a description, not for replay")
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trace").field("source", &self.input.source).finish_non_exhaustive()
    }
}

impl Trace {
    /// Reads a trace for replay, in bounded memory.
    ///
    /// # Errors
    ///
    /// The file cannot be read, its format is not recognised, a row is bad and bad rows are not skipped, the window
    /// contains no request, or rows lack answer lengths and the source has no `output-tokens`. Messages name file, line
    /// and field.
    pub fn open(source: &TraceSource) -> Result<Self> {
        let trace = Self::read(source, None, true)?;
        let without = trace.summary().without_output;
        if without > 0 && source.output_tokens.is_none() {
            bail!(
                "{}: {without} requests have no answer length: set output-tokens, such as {{ fixed = 100 }}{}",
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

    /// Reads a trace for a description. Answer lengths may be missing, and it cannot be replayed. With `hashing`, a log
    /// of requests gets block ids.
    ///
    /// # Errors
    ///
    /// As for [`Trace::open`], except missing answer lengths.
    pub fn describe(source: &TraceSource, hashing: Option<Hashing>) -> Result<Self> {
        Self::read(source, hashing, false)
    }

    /// Reads a trace as [`Trace::describe`] does, but keeps its rows, so that they can be written to a new file.
    ///
    /// # Errors
    ///
    /// As for [`Trace::describe`]; or the temporary file cannot be written.
    pub fn open_for_rewrite(source: &TraceSource, hashing: Option<Hashing>) -> Result<Self> {
        Self::read(source, hashing, true)
    }

    fn read(source: &TraceSource, hashing: Option<Hashing>, keep: bool) -> Result<Self> {
        let input = Input::new(source, hashing)?;
        let scanned = input.scan(keep)?;
        let (base, last) = scanned.builder.ends();
        let arrivals = scanned.builder.arrivals();
        let span = Duration::from_nanos(last.abs_diff(base));
        // One mean gap more than the span, which preserves the mean rate; one second if there is no gap.
        let gap = (arrivals > 1 && !span.is_zero()).then(|| last.abs_diff(base) / (arrivals - 1));
        let period = span + gap.map_or(Duration::from_secs(1), Duration::from_nanos);
        let spool = scanned.spool;
        match scanned.builder.finish(scanned.file) {
            Some(summary) => Ok(Self(Arc::new(Inner { input, base, last, period, spool, summary }))),
            None => bail!("{}: the window contains no requests: make it larger", source.file.display()),
        }
    }

    /// Returns the summary of the window.
    pub fn summary(&self) -> &Summary {
        &self.0.summary
    }

    /// Returns the source that it was read from.
    pub fn source(&self) -> &TraceSource {
        &self.0.input.source
    }

    /// Returns the format, as given or recognised.
    pub fn format(&self) -> Format {
        self.0.input.layout.format
    }

    /// Returns the tokens per prefix block, if the trace identifies blocks.
    pub fn block_tokens(&self) -> Option<u32> {
        self.summary().prefix.map(|p| p.block_tokens)
    }

    /// Returns the duration of one round of the replay: from the first request to the last, plus one mean gap.
    pub fn period(&self) -> Duration {
        self.0.period
    }

    /// Starts an endless replay. A trace opened only for a description yields none.
    pub fn replay(&self, begin: Begin) -> Replay {
        Replay::new(self.clone(), begin)
    }

    /// Describes the trace in one line: `12,031 requests of mooncake.jsonl (mooncake), 58.9 min, prefix blocks of 512
    /// tokens`.
    pub fn title(&self) -> String {
        let s = self.summary();
        let name = self.source().file.file_name().unwrap_or(self.source().file.as_os_str()).to_string_lossy();
        let window = if self.source().window.is_some() { " in a window" } else { "" };
        let prefix = match s.prefix {
            Some(p) => format!("prefix blocks of {} tokens", p.block_tokens),
            None => "no prefix identification".into(),
        };
        let requests = if s.rows == 1 { "request" } else { "requests" };
        format!(
            "{} {requests}{window} of {name} ({}), {}, {prefix}",
            thousands(s.rows as f64),
            s.format,
            duration_text(s.span_s)
        )
    }

    /// Describes which prefixes the trace identifies, and how the cache hit rate of a replay relates to the recording.
    pub fn prefix_note(&self) -> String {
        let s = self.summary();
        let percent = |x: f64| format!("{} %", short((x * 1000.0).round() / 10.0));
        let recorded = s.recorded_cached.map_or(String::new(), |c| {
            format!("; when it was recorded, {} of the prompt tokens were cached", percent(c))
        });
        let Some(p) = s.prefix else {
            return format!(
                "The trace does not identify shared prefixes, so the cache hit rate of a replay is the generator's choice, \
                 not the trace's{recorded}."
            );
        };
        let rest = if p.covered < 0.995 {
            format!(
                " The other {} of the prompt tokens are not identified; whether they hit is the generator's choice.",
                percent(1.0 - p.covered)
            )
        } else {
            String::new()
        };
        format!(
            "Prompts are identified by blocks of {} tokens: a cache without eviction would hold {}{} of the prompt \
             tokens{recorded}.{rest}",
            p.block_tokens,
            if p.exact { "" } else { "about " },
            percent(p.repetition)
        )
    }
}

/// Formats a duration with a suitable unit: `27 s`, `58.9 min`.
pub fn duration_text(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => format!("{} ms", short(s * 1e3)),
        s if s < 60.0 => format!("{} s", short(s)),
        s if s < 5_400.0 => format!("{} min", short(s / 60.0)),
        s if s < 172_800.0 => format!("{} h", short(s / 3_600.0)),
        s => format!("{} days", short(s / 86_400.0)),
    }
}
