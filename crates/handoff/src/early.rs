//! Signals of the server that rise before a limit is missed: their values at the safe rate and at the goodput, and how well each
//! told the steps up to the safe rate from those beyond the goodput.

use super::figures::Figures;
use super::rising::{at, rising};
use super::scatter::scatter;
use goodput_stats::server::Signal;
use goodput_stats::stats::step::Step;

/// Largest share of the steps up to the safe rate in which a signal may be above its threshold.
const MOST_FALSE: f64 = 0.1;
/// Smallest share of the steps at loads where it must be above in which it is.
const LEAST_DETECTED: f64 = 0.8;
/// Smallest ratio of a threshold to the signal's value at the safe rate.
const LEAST_RISE: f64 = 1.05;
/// Windows that a signal may be averaged over, in minutes.
const WINDOWS_MIN: [u32; 4] = [5, 10, 20, 30];
/// The window where none tells the safe rate from the goodput, in minutes.
const COARSE_MIN: u32 = 10;
/// Seconds between two scrapes of Prometheus that the windows are chosen for.
pub(crate) const SCRAPE_S: u32 = 15;
/// Standard deviations of a window's mean between the value at the safe rate and a threshold.
const SIGMAS: f64 = 3.0;

/// A signal over the steps of a run; running and waiting requests are per server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EarlySignal {
    pub(crate) signal: Signal,
    /// Value at the safe rate, between the means of steps.
    pub(crate) at_safe: Option<f64>,
    /// Value at the goodput; `None` if the goodput is above every step.
    pub(crate) at_goodput: Option<f64>,
    /// Means of the steps up to the safe rate, and of those beyond the goodput.
    pub(crate) safe: Vec<f64>,
    /// The latter with the level, in multiples of the goodput.
    pub(crate) beyond: Vec<(f64, f64)>,
    /// Standard deviation of one scrape at the safe rate, by which the mean of n scrapes has this over √n; `None` if there are
    /// too few samples.
    pub(crate) scatter: Option<f64>,
    /// Value over the level in multiples of the goodput, rising.
    curve: Vec<(f64, f64)>,
}

/// An early alert on a signal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct EarlyAlert {
    /// Threshold: half way between the safe rate and the goodput, or as far above the safe rate as scatter demands.
    pub(crate) threshold: f64,
    /// Window that the signal is averaged over, in minutes.
    pub(crate) window_min: u32,
    /// Load from which the signal is above the threshold, in multiples of the goodput.
    pub(crate) from: f64,
}

/// Why there is no early alert on a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoAlert {
    /// Its value at the safe rate or at the goodput is not known.
    Unknown,
    /// It does not rise above what it scatters at the safe rate, at no load that was measured.
    Level,
    /// It does not tell the steps apart.
    NotApart,
    /// There are too few samples to tell how it scatters.
    FewSamples,
}

/// The signals that the server reports.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Signals(pub(crate) Vec<EarlySignal>);

impl Signals {
    pub(crate) fn of(f: &Figures<'_>) -> Self {
        let all = [Signal::Waiting, Signal::Running, Signal::KvUse];
        Self(all.into_iter().filter_map(|signal| EarlySignal::of(f, signal)).collect())
    }

    /// Returns the signals that alerts are made of.
    pub(crate) fn alerting(&self) -> impl Iterator<Item = (&EarlySignal, EarlyAlert)> {
        self.0.iter().filter_map(|s| Some((s, s.alert().ok()?)))
    }

    /// Returns the signal to scale by, with its value at the safe rate: the one of running and waiting requests that told steps
    /// apart best, since only these grow with the load of a server and add up over servers.
    pub(crate) fn scaling(&self) -> Option<(&EarlySignal, f64)> {
        let additive = self.0.iter().filter(|s| s.signal != Signal::KvUse && s.alert().is_ok());
        let known = additive.filter_map(|s| Some((s, s.at_safe.filter(|v| *v >= 1.0)?)));
        known.max_by(|a, b| a.0.separation().total_cmp(&b.0.separation()))
    }
}

impl EarlySignal {
    fn of(f: &Figures<'_>, signal: Signal) -> Option<Self> {
        f.exposed.get(signal.name())?;
        let each = |total: f64| if signal.is_share() { total } else { f.each(total) };
        let value = |s: &Step| mean(s, signal).map(each);
        let points: Vec<(f64, f64)> =
            f.loaded.iter().filter_map(|s| Some((s.level.value, value(s)?))).collect();
        let curve = rising(&points);
        let g = &f.answer.goodput;
        let goodput = g.rate().filter(|level| *level > 0.0 && !f.not_reached);
        let relative = |level: f64| goodput.map(|g| level / g);
        Some(Self {
            signal,
            at_safe: g.safe_rate().and_then(|level| at(&curve, level)),
            at_goodput: goodput.and_then(|level| at(&curve, level)),
            safe: f.safe_steps().filter_map(value).collect(),
            beyond: f.steps_beyond().filter_map(|s| Some((relative(s.level.value)?, value(s)?))).collect(),
            scatter: f
                .at_safe()
                .and_then(|s| scatter(&f.window_of(s, signal), f64::from(SCRAPE_S)))
                .map(each),
            curve: curve.iter().filter_map(|(level, y)| Some((relative(*level)?, *y))).collect(),
        })
    }

    /// Returns the early alert on the signal: the most sensitive one that is silent at the safe rate.
    ///
    /// # Errors
    /// No alert would be silent at the safe rate and fire beyond the goodput.
    pub(crate) fn alert(&self) -> Result<EarlyAlert, NoAlert> {
        let (low, high) = self.at_safe.zip(self.at_goodput).ok_or(NoAlert::Unknown)?;
        let scatter = self.scatter.ok_or(NoAlert::FewSamples)?;
        let least = |minutes: u32| {
            let scrapes = f64::from(minutes * 60 / SCRAPE_S);
            (low + SIGMAS * scatter / scrapes.sqrt()).max(LEAST_RISE * low)
        };
        let window_min = WINDOWS_MIN.into_iter().find(|w| least(*w) <= high).unwrap_or(COARSE_MIN);
        let threshold = least(window_min).max(low.midpoint(high));
        let from = self.curve.iter().find(|(_, y)| *y > threshold).map(|(level, _)| *level);
        let alert = EarlyAlert { threshold, window_min, from: from.ok_or(NoAlert::Level)? };
        if threshold > 0.0 && self.tells_apart(alert) { Ok(alert) } else { Err(NoAlert::NotApart) }
    }

    /// Returns in how many steps up to the safe rate and in how many beyond the goodput the signal was above a threshold.
    pub(crate) fn counts_above(&self, threshold: f64) -> [usize; 2] {
        let above = |y: f64| y > threshold;
        [
            self.safe.iter().filter(|y| above(**y)).count(),
            self.beyond.iter().filter(|(_, y)| above(*y)).count(),
        ]
    }

    fn tells_apart(&self, alert: EarlyAlert) -> bool {
        let [safe, _] = self.counts_above(alert.threshold);
        let due: Vec<f64> =
            self.beyond.iter().filter(|(level, _)| *level >= alert.from).map(|b| b.1).collect();
        let detected = due.iter().filter(|y| **y > alert.threshold).count();
        let share = |n: usize, all: usize| n as f64 / all.max(1) as f64;
        !self.safe.is_empty()
            && !due.is_empty()
            && share(safe, self.safe.len()) <= MOST_FALSE
            && share(detected, due.len()) >= LEAST_DETECTED
    }

    /// Returns the probability that a step beyond the goodput has a higher value than one up to the safe rate, ties counting half:
    /// the area under the ROC curve (Mann and Whitney's statistic over the number of pairs). 0.5 without either kind.
    pub(crate) fn separation(&self) -> f64 {
        let pairs = self.safe.iter().flat_map(|low| self.beyond.iter().map(move |(_, high)| (low, high)));
        let (mut sum, mut n) = (0.0, 0.0);
        for (low, high) in pairs {
            n += 1.0;
            sum += match high.total_cmp(low) {
                std::cmp::Ordering::Greater => 1.0,
                std::cmp::Ordering::Equal => 0.5,
                std::cmp::Ordering::Less => 0.0,
            };
        }
        if n > 0.0 { sum / n } else { 0.5 }
    }

    /// Returns the name of the signal for people.
    pub(crate) const fn title(&self) -> &'static str {
        match self.signal {
            Signal::Waiting => "Waiting requests",
            Signal::Running => "Running requests",
            _ => "KV cache in use",
        }
    }

    /// Returns the name within alerts.
    pub(crate) const fn camel(&self) -> &'static str {
        match self.signal {
            Signal::Waiting => "Waiting",
            Signal::Running => "Running",
            _ => "KvCache",
        }
    }

    /// Returns the unit after the name: running and waiting requests are per server.
    pub(crate) const fn per(&self) -> &'static str {
        if self.signal.is_share() { "" } else { " per server" }
    }
}

/// Returns the mean of a gauge in a step, of all servers together.
const fn mean(step: &Step, signal: Signal) -> Option<f64> {
    match signal {
        Signal::Waiting => step.server.waiting_mean,
        Signal::Running => step.server.running_mean,
        _ => step.server.kv_mean,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a signal from its values up to the safe rate and beyond the goodput, at 1, 1.1, 1.2 … times that.
    fn signal(safe: &[f64], beyond: &[f64], scatter: Option<f64>) -> EarlySignal {
        let beyond: Vec<(f64, f64)> =
            beyond.iter().enumerate().map(|(i, y)| (1.0 + 0.1 * i as f64, *y)).collect();
        EarlySignal {
            signal: Signal::Waiting,
            at_safe: safe.iter().copied().reduce(f64::max),
            at_goodput: beyond.first().map(|b| b.1),
            safe: safe.to_vec(),
            curve: beyond.clone(),
            beyond,
            scatter,
        }
    }

    #[test]
    fn separation_is_the_area_under_the_roc_curve() {
        let apart = |safe: &[f64], beyond: &[f64]| signal(safe, beyond, None).separation();
        assert!((apart(&[1.0, 2.0], &[3.0, 4.0]) - 1.0).abs() < 1e-12);
        assert!((apart(&[1.0, 3.0], &[3.0, 2.0]) - 0.625).abs() < 1e-12);
        assert!((apart(&[], &[3.0]) - 0.5).abs() < 1e-12);
    }

    /// Rows: means up to the safe rate, means beyond the goodput, scatter of a scrape, and the window, threshold and first load of
    /// the alert, or why there is none.
    #[test]
    fn an_alert_is_silent_at_the_safe_rate_and_fires_beyond_the_goodput() {
        for (safe, beyond, scatter, wanted) in [
            (&[1.0, 2.0][..], &[4.0, 9.0][..], Some(1.0), Ok((5, 3.0, 1.0))),
            // 2 + 3 · 4 / √40 = 3.9 after ten minutes.
            (&[1.0, 2.0], &[4.0, 9.0], Some(4.0), Ok((10, 3.897, 1.0))),
            // Not within half an hour: 2 + 3 · 12 / √40 = 7.7 is reached at a higher load.
            (&[1.0, 2.0], &[4.0, 9.0], Some(12.0), Ok((10, 7.692, 1.1))),
            (&[1.0, 2.0], &[4.0, 9.0], Some(40.0), Err(NoAlert::Level)),
            (&[1.0, 2.0], &[4.0, 9.0], None, Err(NoAlert::FewSamples)),
            (&[1.0, 2.0], &[], Some(1.0), Err(NoAlert::Unknown)),
        ] {
            let got = signal(safe, beyond, scatter).alert();
            match (got, wanted) {
                (Ok(a), Ok((window, threshold, from))) => {
                    assert_eq!(a.window_min, window, "{scatter:?}");
                    assert!((a.threshold - threshold).abs() < 1e-3 && (a.from - from).abs() < 1e-9, "{a:?}");
                }
                (got, wanted) => {
                    assert_eq!(got.map(|_| (0, 0.0, 0.0)), wanted.map(|_| (0, 0.0, 0.0)), "{scatter:?}")
                }
            }
        }
        let mixed = EarlySignal { safe: vec![1.0, 5.0], ..signal(&[1.0, 2.0], &[4.0, 9.0], Some(1.0)) };
        assert_eq!(mixed.alert(), Err(NoAlert::NotApart));
    }
}
