//! The first token of the rows of a matrix, against a reference.

use super::Run;
use crate::escape::clip;
use crate::words::units::figure;
use crate::words::units::latency;
use goodput_run::rundir::matrix::RowAnswer;

/// Factor within which a TTFT counts as that of its reference.
const SAME: f64 = 1.1;
/// Longest name of a row in a sentence, in characters.
const NAME: usize = 24;

/// The TTFT of a row in milliseconds, and that of its reference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FirstToken<'a> {
    /// Name of the row.
    pub(crate) row: &'a str,
    /// Median.
    pub(crate) p50: f64,
    /// 99th percentile; `None` if it is not known.
    pub(crate) p99: Option<f64>,
    /// Median of the reference.
    pub(crate) reference: f64,
    /// True if the reference is the same load with a cold cache, false if it is one request alone.
    is_cold: bool,
}

impl<'a> FirstToken<'a> {
    /// Returns those of all rows with a reference other than themselves, in the order of the matrix.
    pub(crate) fn all(run: &'a Run) -> Vec<Self> {
        run.matrix.iter().filter_map(|row| Self::of(run, row)).collect()
    }

    fn of(run: &Run, row: &'a RowAnswer) -> Option<Self> {
        let figures = row.figures?;
        let alone = figures.reference.and_then(|number| run.steps.iter().find(|s| s.step == number));
        let alone = alone.and_then(|s| s.quantiles(goodput_core::slo::Metric::Ttft).p50);
        let cold = row.parts.and_then(|p| p.cold_twin);
        let reference = cold.or(alone).filter(|ms| *ms > 0.0)?;
        let p50 = figures.ttft_p50_ms.filter(|ms| *ms > 0.0)?;
        Some(Self { row: &row.row, p50, p99: figures.ttft_p99_ms, reference, is_cold: cold.is_some() })
    }

    /// Returns how many times the TTFT of the reference it is.
    fn ratio(&self) -> f64 {
        self.p50 / self.reference
    }

    /// Returns it against its reference: `1.89 s · 203 times one request alone (9.3 ms)`.
    pub(crate) fn words(&self) -> String {
        let reference = if self.is_cold { "a cold cache" } else { "one request alone" };
        let against = match self.ratio() {
            r if r > SAME => format!("{} times {reference}", figure(r)),
            r if r < 1.0 / SAME => format!("{} of {reference}", super::percent(r)),
            _ => format!("as {reference}"),
        };
        format!("{} · {against} ({})", latency(self.p50), latency(self.reference))
    }
}

/// Returns the row whose first token is furthest above its reference.
pub(crate) fn first_tokens(run: &Run) -> Option<String> {
    let all = FirstToken::all(run);
    let worst = all.iter().max_by(|a, b| a.ratio().total_cmp(&b.ratio()))?;
    let saved = all.iter().filter(|t| t.is_cold && t.ratio() < 1.0 / SAME);
    let saved = saved.min_by(|a, b| a.ratio().total_cmp(&b.ratio()));
    let saved = saved
        .map(|t| format!("; the cache saves {} with {}", latency(t.reference - t.p50), clip(t.row, NAME)));
    let saved = saved.unwrap_or_default();
    Some(match worst.ratio() > SAME {
        true => format!(
            "With {} the first token takes {}, {} times that of one request alone{saved}",
            clip(worst.row, NAME),
            latency(worst.p50),
            figure(worst.ratio())
        ),
        false => format!("No row waits longer for its first token than one request alone{saved}"),
    })
}
