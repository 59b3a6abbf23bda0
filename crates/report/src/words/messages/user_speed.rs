//! How fast one user gets tokens, and what the server gives all of them together.

use super::{Run, answer_step, level};
use crate::escape::clip;
use crate::words::names::{lower, subject};
use crate::words::units::figure;
use goodput_core::level::Control;
use goodput_core::slo::{Limit, Metric};
use goodput_core::units::short;
use goodput_stats::stats::step::{Quantiles, Step};

/// Longest name of a series in a sentence, in characters.
const NAME: usize = 24;

/// The output tokens per second that one user gets after the first token: the inverse of a percentile of TPOT.
///
/// If the SLO limits TPOT at p99, it is the speed that 99 % of requests reach, so that the limit is a speed as well; without such a limit it
/// is the median.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct UserSpeed {
    /// The limit on the TPOT of all requests of the first tier, if it has one.
    limit: Option<Limit>,
}

impl UserSpeed {
    /// Returns the speed that a run is about.
    pub(crate) fn of(run: &Run) -> Self {
        let tier = run.answers.first().and_then(|a| crate::words::tier_of(run, a)).or(run.tiers.first());
        let limits = tier.map(goodput_core::slo::Slo::limits).unwrap_or_default();
        let tpot = limits.into_iter().filter(|l| l.metric == Metric::Tpot);
        let known = tpot.filter(|l| Quantiles::keeps(l.percentile.share()));
        Self { limit: known.max_by(|a, b| a.percentile.share().total_cmp(&b.percentile.share())) }
    }

    /// Returns the speed in a step, in tokens per second.
    pub(crate) fn in_step(&self, s: &Step) -> Option<f64> {
        let share = self.limit.map_or(0.5, |l| l.percentile.share());
        let tpot = s.quantiles(Metric::Tpot).at(share)?;
        (tpot > 0.0).then(|| 1e3 / tpot)
    }

    /// Returns the least speed that the SLO allows.
    pub(crate) fn least(&self) -> Option<f64> {
        self.limit.map(|l| l.limit_ms()).filter(|ms| *ms > 0.0).map(|ms| 1e3 / ms)
    }

    /// Returns the title of its axis.
    pub(crate) fn axis(&self) -> String {
        match self.limit.map(|l| l.percentile.share()) {
            Some(share) if share > 0.5 => {
                let share = short(100.0 * share);
                format!("tokens/s per user, reached by {share} % of requests (1 / p{share} TPOT)")
            }
            _ => "tokens/s per user, median (1 / p50 TPOT)".into(),
        }
    }

    /// Returns the limit as a speed: `SLO: at least 20 tokens/s (p99 TPOT ≤ 50 ms)`.
    pub(crate) fn limit_words(&self) -> String {
        let words = |l: Limit| {
            let least = figure(1e3 / l.limit_ms());
            format!("SLO: at least {least} tokens/s ({})", crate::words::limit(&l))
        };
        self.limit.map(words).unwrap_or_default()
    }
}

/// Returns a rate of the server per GPU; the rate itself if no number of GPUs is declared.
pub(crate) fn per_gpu(run: &Run, rate: f64) -> f64 {
    rate / f64::from(run.meta.gpus.unwrap_or(1).max(1))
}

/// Returns the output tokens per second and GPU at the goodput.
pub(crate) fn tokens_at_goodput(run: &Run) -> Option<f64> {
    let a = run.answers.first()?;
    let tokens = run.capacity(a)?.output_tokens_per_s?;
    Some(per_gpu(run, tokens))
}

/// Returns what users and the server get: at the step of the answer, or of several series within the SLO.
pub(crate) fn pareto(run: &Run) -> Option<String> {
    let of_gpu = if run.meta.gpus.unwrap_or(1) > 1 { " per GPU" } else { "" };
    if !run.parts.is_empty() {
        let known = run.parts.iter().filter_map(|p| Some((tokens_at_goodput(p)?, p.series())));
        let mut known: Vec<(f64, &str)> = known.collect();
        known.sort_by(|a, b| b.0.total_cmp(&a.0));
        let ((most, best), (least, worst)) = (known.first()?, known.last()?);
        return (known.len() > 1).then(|| {
            format!(
                "Within the SLO {} gives {} output tokens/s{of_gpu}, {} gives {}",
                clip(best, NAME),
                figure(*most),
                clip(worst, NAME),
                figure(*least)
            )
        });
    }
    let (a, speed) = (run.answers.first()?, UserSpeed::of(run));
    let (step, _) = answer_step(run, a, |s| speed.in_step(s).is_some())?;
    let own = figure(speed.in_step(step)?);
    // The rate that was asked for: more or less may have come due by chance.
    let per_request = match (a.control, step.achieved_rate) {
        (Control::Rate, achieved) if achieved > 0.0 => step.level.value / achieved,
        _ => 1.0,
    };
    let all = figure(per_gpu(run, per_request * step.output_tokens_per_s));
    let who = match speed.limit.map(|l| l.percentile.share()) {
        Some(share) if share > 0.5 => {
            format!("{} % of requests get {own} tokens/s or more", short(100.0 * share))
        }
        _ => format!("half of the requests get {own} tokens/s or more"),
    };
    let server = if of_gpu.is_empty() { lower(&subject(&run.meta)) } else { "each GPU".into() };
    let least = speed.least().map(|l| format!("; the SLO asks for {}", figure(l))).unwrap_or_default();
    let at = level(a.control, step.level.value);
    Some(format!("At {at} {who}{least}; {server} gives {all} output tokens/s"))
}
