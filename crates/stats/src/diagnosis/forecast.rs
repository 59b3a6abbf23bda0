//! Forecasts: the goodput of a model of the server, fitted to a run, under single changes. A rule tells what looks like a
//! cause; a forecast tells what removing it gains.

use super::advice::{self, Advice, Target};
use super::altered::{Altered, Price};
use super::change::Change;
use super::fact::Fact;
use super::figure::{Figure, Reading};
use super::kind::Rank;
use super::settings::Value;
use super::subject::Subject;
use super::suggestion::Basis;
use super::{Assumed, Confidence, Finding, Kind, next};
use serde::{Deserialize, Serialize};

/// Smallest gain, as a share of the goodput, that is worth a change.
pub const WORTH: f64 = 0.2;
/// Smallest gain with which a change is advised at all: the goodput of a short simulation scatters by some per cent, and a
/// change that gains less removes no cause.
const LEAST_GAIN: f64 = 0.1;
/// Share of the largest gain of a setting with which a smaller change of it is preferred: it has as good as the same gain, with
/// less of what the change costs (memory, other latencies).
const NEARLY_ALL: f64 = 0.95;
/// Factor by which twice as fast a host must gain more than faster GPUs to be what is short: models share the time of an
/// iteration among host, sequences and compute, and give the host what they cannot place.
const SURELY_THE_HOST: f64 = 1.5;

/// The goodput of a model of one server, with its present settings and under single changes. Rates are in requests per
/// second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Forecast {
    /// Name of the series.
    pub series: String,
    /// The measured goodput; `None` if there is no estimate, or no rate met the SLO.
    pub measured: Option<f64>,
    /// Goodput of the model with the present settings; 0 if no rate meets the SLO.
    pub present: f64,
    /// The changes that were simulated.
    pub effects: Vec<Effect>,
    /// Settings of the server that were not known.
    #[serde(default, skip_serializing_if = "Assumed::is_nothing")]
    pub assumed: Assumed,
}

/// The goodput of the model under one change.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// The change.
    pub altered: Altered,
    /// Goodput with it, in requests per second; the present one if it gains next to nothing, 0 if no rate meets the SLO.
    pub goodput: f64,
}

/// The gain that a model of the server foresees for an advice.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "ExpectedGoodput")]
pub struct Expected {
    /// Goodput of the model with the present settings, in requests per second.
    pub present: f64,
    /// Goodput of the model with the change.
    pub changed: f64,
}

impl Forecast {
    /// Returns the gain of a goodput over the present one as a share of it; infinite if there is none at present.
    fn gain(&self, goodput: f64) -> f64 {
        if goodput <= 0.0 { -1.0 } else { goodput / self.present - 1.0 }
    }

    /// Returns true if a goodput is so much above the present one of the model, and above the measured one, that the change is
    /// worth it. Where no rate meets the SLO at present, a change that lets through next to nothing is not: a model does not tell
    /// it from none.
    fn is_worth(&self, goodput: f64) -> bool {
        let most = self.effects.iter().map(|e| e.goodput).fold(0.0, f64::max);
        let now = self.present.max(self.measured.unwrap_or(0.0));
        let least = if self.present > 0.0 { (1.0 + WORTH) * now } else { WORTH * most };
        goodput > 0.0 && goodput >= least
    }

    /// Combines forecasts of a server by models that reproduce it about equally well: each change gains the median of what it gains
    /// in them, the lesser of two. `None` of none.
    ///
    /// Each model is wrong about some change: it denies one that gains, or foresees one that does not; most of them are right
    /// (on 77 simulated servers, the median advised well 65 times, the least gain 60 times).
    pub fn median(all: &[Self]) -> Option<Self> {
        let first = all.first()?;
        let effects = first.effects.iter().filter_map(|effect| {
            let mut gains: Vec<f64> = all.iter().filter_map(|f| f.gain_of(effect.altered)).collect();
            gains.sort_by(f64::total_cmp);
            let goodput = match *gains.get(gains.len().checked_sub(1)? / 2)? {
                gain if gain.is_finite() => first.present * (1.0 + gain),
                _ => effect.goodput,
            };
            Some(Effect { goodput, ..*effect })
        });
        Some(Self { effects: effects.collect(), ..first.clone() })
    }

    /// Returns the gain of a change; of a value that was not tried, since smaller changes of the setting gained no more, the
    /// most that these gained.
    fn gain_of(&self, altered: Altered) -> Option<f64> {
        let same = self.effects.iter().find(|e| e.altered == altered).copied();
        same.or_else(|| self.highest(|e| e.altered.is_alike(altered))).map(|e| self.gain(e.goodput))
    }

    /// Returns the effect with the highest goodput of those that a test holds for.
    fn highest(&self, holds: impl Fn(&Effect) -> bool) -> Option<Effect> {
        let all = self.effects.iter().copied().filter(holds);
        all.max_by(|a, b| a.goodput.total_cmp(&b.goodput))
    }

    /// Returns the best of the cheapest changes of which one is worth it: settings first, then hardware, then other requests.
    pub fn best(&self) -> Option<Effect> {
        let of = |price: Price| self.highest(|e| e.altered.price() == price && self.is_worth(e.goodput));
        let best = Price::ALL.into_iter().find_map(of)?;
        Some(self.smallest_as_good(self.faster_gpus_instead(best).unwrap_or(best)))
    }

    /// Returns the best effect of faster GPUs if the given one is of a faster host and does not gain clearly more.
    fn faster_gpus_instead(&self, best: Effect) -> Option<Effect> {
        let more = |effect: Effect| effect.goodput - self.present;
        let other = self.highest(|e| e.altered.is_of_gpus())?;
        let is_host = best.altered == Altered::FasterHost;
        (is_host && SURELY_THE_HOST * more(other) >= more(best)).then_some(other)
    }

    /// Returns the best change of a setting that is advised at all, whether or not it is worth it.
    fn best_setting(&self) -> Option<Effect> {
        let best = self.highest(|e| e.altered.price() == Price::Setting)?;
        (self.gain(best.goodput) >= LEAST_GAIN).then(|| self.smallest_as_good(best))
    }

    /// Returns the best effect of changes like this one; `None` if none was simulated.
    fn like(&self, altered: Altered) -> Option<Effect> {
        self.highest(|e| e.altered.is_alike(altered)).map(|best| self.smallest_as_good(best))
    }

    /// Returns the smallest change of the same setting that gains nearly as much ([`NEARLY_ALL`]) and is worth it if this one is.
    fn smallest_as_good(&self, best: Effect) -> Effect {
        let least = best.goodput - (1.0 - NEARLY_ALL) * (best.goodput - self.present).max(0.0);
        let as_good =
            |e: &&Effect| e.goodput >= least && (self.is_worth(e.goodput) || !self.is_worth(best.goodput));
        let smaller = |smallest: Effect, e: &Effect| {
            if e.altered.is_smaller(smallest.altered) { *e } else { smallest }
        };
        self.effects.iter().filter(as_good).fold(best, smaller)
    }

    fn expected(&self, effect: Effect) -> Expected {
        Expected { present: self.present, changed: effect.goodput }
    }
}

/// Weighs the findings of a curve by a forecast: the best change comes first, with the value that was best; changes that
/// gain nothing are not advised, and findings all of whose simulated remedies gain nothing are no causes. What broke the
/// measurement stays before all.
pub(super) fn weigh(findings: &mut Vec<Finding>, subject: &Subject<'_>, forecast: &Forecast) {
    let own = |f: &Finding| f.series == subject.curve.series;
    if findings.iter().any(|f| own(f) && (f.kind.rank() == Rank::Broken || f.kind == Kind::Network)) {
        return;
    }
    let idle = findings.iter().any(|f| own(f) && f.kind == Kind::IdleGpus);
    let best = forecast.best().filter(|e| !(idle && e.altered.is_of_gpus()));
    // A model that meets the SLO at no rate, whatever is changed, does not weigh one change against another.
    if forecast.present <= 0.0 && best.is_none() {
        return;
    }
    let mut refuted: Vec<Kind> = Vec::new();
    for finding in findings.iter_mut().filter(|f| own(f)) {
        let advised = finding.advice.len();
        finding.advice.retain_mut(|advice| expect(advice, forecast));
        let is_left = finding.advice.iter().any(|advice| advice.expected.is_some());
        refuted.extend((finding.advice.len() < advised && !is_left).then_some(finding.kind));
    }
    let Some(best) = best else { return };
    if promote(findings, subject, forecast, best, 0) {
        let is_advised = |f: &Finding| f.advice.iter().any(|a| is_alike(a, best.altered));
        findings.retain(|f| !own(f) || !refuted.contains(&f.kind) || is_advised(f));
    }
    // A setting costs less than hardware, and the gain is the least that models foresee: it is there to be tried.
    if best.altered.price() != Price::Setting
        && let Some(setting) = forecast.best_setting()
    {
        promote(findings, subject, forecast, setting, 1);
    }
}

/// Moves the finding that advises a change to this place among those of its curve, with that advice first; makes it if there
/// is none. Returns false if the server has no setting for the change.
fn promote(
    findings: &mut Vec<Finding>,
    subject: &Subject<'_>,
    forecast: &Forecast,
    effect: Effect,
    place: usize,
) -> bool {
    let own = |f: &Finding| f.series == subject.curve.series;
    let (kind, change) = effect.altered.remedy();
    let Some(first) = first_advice(findings, subject, forecast, effect, change) else { return false };
    let names = |f: &Finding| f.advice.iter().any(|a| is_alike(a, effect.altered));
    let known = findings
        .iter()
        .position(|f| own(f) && names(f))
        .or_else(|| findings.iter().position(|f| own(f) && f.kind == kind));
    let mut finding = match known {
        Some(i) => findings.remove(i),
        None => foreseen(kind, subject, forecast, effect),
    };
    finding.advice.retain(|a| a.change != first.change);
    finding.advice.insert(0, first);
    let at = findings.iter().enumerate().filter(|(_, f)| own(f)).map(|(i, _)| i).nth(place);
    findings.insert(at.unwrap_or(findings.len()), finding);
    true
}

/// Adds the expected gain to an advice, with the best value. Returns false if the change gains nothing.
fn expect(advice: &mut Advice, forecast: &Forecast) -> bool {
    let Some(effect) = Altered::of(&advice.change).and_then(|altered| forecast.like(altered)) else {
        return true;
    };
    if forecast.gain(effect.goodput) < LEAST_GAIN {
        return false;
    }
    set_value(advice, forecast, effect);
    true
}

/// Sets the value and the expected gain of an advice to those of a simulated change.
fn set_value(advice: &mut Advice, forecast: &Forecast, effect: Effect) {
    if let Some(n) = effect.altered.count().filter(|_| advice.from.is_some()) {
        let with = advice.to.take().and_then(|to| to.with);
        advice.to = Some(Target { value: Value::Count(n.into()), basis: Basis::Forecast, with });
    }
    advice.expected = Some(forecast.expected(effect));
}

/// Returns true if an advice is a change like this one.
fn is_alike(advice: &Advice, altered: Altered) -> bool {
    Altered::of(&advice.change).is_some_and(|its| its.is_alike(altered))
}

/// Returns the advice for the best change: that of a finding, or a new one; `None` if the server has no setting for it.
fn first_advice(
    findings: &[Finding],
    subject: &Subject<'_>,
    forecast: &Forecast,
    best: Effect,
    change: Change,
) -> Option<Advice> {
    let own = findings.iter().filter(|f| f.series == subject.curve.series);
    if let Some(known) = own.flat_map(|f| &f.advice).find(|a| is_alike(a, best.altered)) {
        return Some(known.clone());
    }
    let mut new = advice::advice(subject, change)?;
    set_value(&mut new, forecast, best);
    Some(new)
}

/// Returns a finding that no rule made, but a simulated change shows.
fn foreseen(kind: Kind, subject: &Subject<'_>, forecast: &Forecast, effect: Effect) -> Finding {
    let reading = reading(forecast, effect, subject);
    Finding {
        kind,
        series: subject.curve.series.clone(),
        limit: subject.curve.limit.clone(),
        step: subject.at.step,
        weight: 1.0,
        confidence: Confidence::Medium,
        evidence: super::told(Figure::ForecastGain, reading).into_iter().collect(),
        advice: Vec::new(),
        next: next::of(kind, &[], subject),
    }
}

/// Returns the gain of the best change, as a share of the present goodput.
pub(super) fn gain(s: &Subject<'_>) -> Option<Reading> {
    let forecast = s.facts.forecasts.iter().find(|f| f.series == s.curve.series)?;
    Some(reading(forecast, forecast.best()?, s))
}

fn reading(forecast: &Forecast, effect: Effect, s: &Subject<'_>) -> Reading {
    let fact = Fact::Forecast { altered: effect.altered, expected: forecast.expected(effect) };
    Reading::new(forecast.gain(effect.goodput), [s.at.step], fact)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forecast(present: f64, effects: &[(Altered, f64)]) -> Forecast {
        let effects =
            effects.iter().map(|(altered, goodput)| Effect { altered: *altered, goodput: *goodput });
        Forecast {
            series: "main".into(),
            measured: Some(present),
            present,
            effects: effects.collect(),
            assumed: Assumed::default(),
        }
    }

    fn best(of: &Forecast) -> Option<(Altered, f64)> {
        of.best().map(|e| (e.altered, e.goodput))
    }

    #[test]
    fn settings_that_are_worth_it_come_before_faster_hardware() {
        let seats = |goodput| {
            forecast(10.0, &[(Altered::MoreSequences(64), goodput), (Altered::FasterCompute, 40.0)])
        };
        assert_eq!(best(&seats(12.5)), Some((Altered::MoreSequences(64), 12.5)));
        assert_eq!(best(&seats(11.0)), Some((Altered::FasterCompute, 40.0)));
        assert_eq!(best(&forecast(10.0, &[(Altered::FasterHost, 11.0)])), None);
        let hosts =
            |goodput| forecast(10.0, &[(Altered::FasterHost, goodput), (Altered::FasterCompute, 20.0)]);
        assert_eq!(best(&hosts(26.0)), Some((Altered::FasterHost, 26.0)));
        assert_eq!(best(&hosts(24.0)), Some((Altered::FasterCompute, 20.0)), "not surely the host");
        assert_eq!(
            best(&forecast(0.0, &[(Altered::FewerTokens(128), 3.0)])),
            Some((Altered::FewerTokens(128), 3.0))
        );
        assert_eq!(best(&forecast(0.0, &[(Altered::FewerTokens(128), 0.0)])), None);
    }

    #[test]
    fn other_requests_come_last_and_next_to_nothing_is_not_worth_it() {
        let half = (Altered::HalfTheAnswers, 60.0);
        assert_eq!(
            best(&forecast(0.0, &[half, (Altered::FasterCompute, 20.0)])),
            Some((Altered::FasterCompute, 20.0))
        );
        assert_eq!(
            best(&forecast(0.0, &[half, (Altered::FewerTokens(128), 2.0)])),
            Some(half),
            "a thirtieth"
        );
        let low =
            Forecast { measured: Some(12.0), ..forecast(10.0, &[(Altered::MoreSequences(64), 13.0), half]) };
        assert_eq!(best(&low), Some(half), "less than a fifth above what was measured");
    }

    /// Rows: the goodput with each number of sequences, and the number that is advised, of 10 req/s at present.
    #[test]
    fn of_values_that_gain_nearly_the_same_the_smallest_change_is_advised() {
        for (goodputs, advised) in [
            ([30.0, 39.2, 40.0], 64),  // 29.2 of a gain of 30
            ([30.0, 38.0, 40.0], 128), // 28 of it
            ([40.0, 39.9, 39.8], 32),
            ([11.95, 11.96, 12.0], 128), // only this one is worth it
        ] {
            let more = [32, 64, 128].map(Altered::MoreSequences);
            let effects: Vec<_> = more.into_iter().zip(goodputs).collect();
            let of = forecast(10.0, &effects);
            assert_eq!(best(&of).map(|(a, _)| a), Some(Altered::MoreSequences(advised)), "{goodputs:?}");
        }
        let fewer = [(Altered::FewerSequences(16), 39.9), (Altered::FewerSequences(8), 40.0)];
        assert_eq!(best(&forecast(10.0, &fewer)), Some(fewer[0]), "the least that is taken away");
    }

    #[test]
    fn of_several_forecasts_the_median_gain_counts() {
        let of = |present: f64, kv, host| {
            forecast(
                present,
                &[(Altered::TwiceTheKvCache, present * kv), (Altered::FasterHost, present * host)],
            )
        };
        let goodputs = |all: &[Forecast]| -> Vec<f64> {
            Forecast::median(all).unwrap().effects.iter().map(|e| e.goodput).collect()
        };
        let near = |got: Vec<f64>, want: [f64; 2]| {
            assert!(got.iter().zip(want).all(|(got, want)| (got - want).abs() < 1e-9), "{got:?} {want:?}");
        };
        let [one, other, third] = [of(10.0, 2.0, 1.5), of(8.0, 1.5, 1.6), of(9.0, 1.0, 3.0)];
        near(goodputs(std::slice::from_ref(&one)), [20.0, 15.0]);
        near(goodputs(&[one.clone(), other.clone()]), [15.0, 15.0]);
        near(goodputs(&[one, other, third]), [15.0, 16.0]);
        assert_eq!(Forecast::median(&[]), None);
    }

    #[test]
    fn a_value_that_a_model_did_not_try_gains_what_a_smaller_change_gained() {
        let long = [(Altered::MoreSequences(16), 15.0), (Altered::MoreSequences(32), 30.0)];
        let short = [(Altered::MoreSequences(16), 14.0)];
        let all = [forecast(10.0, &long), forecast(10.0, &short)];
        assert_eq!(Forecast::median(&all).unwrap().effects.len(), 2);
        assert!((Forecast::median(&all).unwrap().effects[1].goodput - 14.0).abs() < 1e-9);
    }
}
