//! Figures of a whole run: goodput and figures derived from it.
//!
//! The noise of a goodput follows from its 90 % interval, each half of which is treated as that of a log-normal
//! distribution; runs are assumed to be independent. Figures that are the goodput times a known factor (per GPU,
//! cost) have the same relative noise; the safe rate, a quantile of the same posterior, is assumed to have it as
//! well. Answers with a bracket but no interval differ only if the brackets share no rate.

use super::noise::{Change, log_deviations, of_deviations};
use super::{Column, ComparedFigure, Scope, Side};
use crate::rundir::derive::{interval, usable_safe_rate};
use goodput_stats::search::answer::{Goodput, Status};

use goodput_stats::stats::step::{Step, StepKind};

/// Returns the rows with at least one known value.
pub fn rows(sides: &[Side]) -> Vec<ComparedFigure> {
    Column::WHOLE.into_iter().filter_map(|column| row(column, sides)).collect()
}

fn row(column: Column, sides: &[Side]) -> Option<ComparedFigure> {
    // Rates of a list that all sides share are no boundary, because they were not searched.
    let figures: Vec<Option<Figure>> = sides.iter().map(|side| Figure::of(column, side)).collect();
    if figures.iter().all(Option::is_none) {
        return None;
    }
    let change = |i: usize| match (&figures[0], &figures[i]) {
        // Costs in different currencies have no difference.
        _ if matches!(column, Column::CostPerMtok | Column::CostPer1000Items)
            && !one_currency(&sides[0], &sides[i]) =>
        {
            Change::bare(None, None)
        }
        (Some(old), Some(new)) => new.against(old),
        (old, new) => Change::bare(old.as_ref().map(|f| f.value), new.as_ref().map(|f| f.value)),
    };
    let unit = super::side::control(&sides[0]).unit();
    let mut currencies: Vec<&str> = sides.iter().filter_map(|s| s.run.currency.as_deref()).collect();
    currencies.dedup();
    let currency = currencies.join(" / ");
    Some(ComparedFigure {
        name: column.name(),
        column,
        unit: match sides[0].run.item() {
            Some(item) if column == Column::Items => format!("{}/s", item.plural()),
            Some(_) | None => column.unit(unit.trim(), &currency),
        },
        place: Scope::Whole,
        values: figures.iter().map(|f| f.as_ref().map(|f| f.value)).collect(),
        intervals: figures.iter().map(|f| f.as_ref().and_then(|f| f.shown)).collect(),
        changes: (1..sides.len()).map(change).collect(),
        each: Vec::new(),
    })
}

/// Returns the change between two goodputs; `None` if one of them has no rate. For the study in `docs/compare.md`.
pub fn change(old: &Goodput, new: &Goodput, lowest: Option<f64>) -> Option<Change> {
    Some(Figure::of_goodput(new, lowest)?.against(&Figure::of_goodput(old, lowest)?))
}

/// Returns true if both sides give costs in one currency.
pub(super) fn one_currency(a: &Side, b: &Side) -> bool {
    a.run.currency == b.run.currency
}

/// A figure with its noise.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Figure {
    value: f64,
    /// Interval displayed with the value.
    shown: Option<[f64; 2]>,
    noise: Noise,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Noise {
    /// Standard deviations of the logarithm below and above the value.
    Deviations([f64; 2]),
    /// Ends of a bracket.
    Bracket([f64; 2]),
    Unknown,
}

impl Figure {
    fn of(column: Column, side: &Side) -> Option<Self> {
        let answer = side.answer();
        let plain = |value: f64| Self { value, shown: None, noise: Noise::Unknown };
        let lowest = side.run.terms.map(|t| t.lowest);
        let goodput = || answer.and_then(|a| Self::of_goodput(&a.goodput, lowest));
        let scaled = |value: f64| goodput().map_or(plain(value), |g| g.times(value));
        let capacity = || answer.and_then(|a| side.run.capacity(a));
        match column {
            Column::Goodput => goodput(),
            Column::JointGoodput => answer.and_then(|a| Self::of_goodput(&a.joint_goodput, lowest)),
            Column::SafeRate => {
                answer.and_then(|a| usable_safe_rate(&a.goodput)).map(|v| scaled(v).unshown())
            }
            Column::Knee => answer.and_then(|a| a.knee).map(|k| plain(k.rate)),
            Column::PerGpu => {
                let gpus = f64::from(side.run.meta.gpus.filter(|g| *g > 0)?);
                goodput().map(|g| g.by(1.0 / gpus))
            }
            Column::OutputTokens => capacity()?.output_tokens_per_s.map(|v| scaled(v).unshown()),
            Column::Items => capacity()?.items_per_s.map(|v| scaled(v).unshown()),
            Column::CostPerMtok => capacity()?.cost_per_mtok.map(|v| scaled(v).unshown().turned()),
            Column::CostPer1000Items => capacity()?.cost_per_1000_items.map(|v| scaled(v).unshown().turned()),
            Column::GoodRate => {
                let answer = answer?;
                side.run.good_step(answer).map(|s| plain(s.good_rate_of(&answer.tier)))
            }
            Column::Preemptions => {
                let told: Vec<f64> = loaded(side).filter_map(|s| s.server.preemptions).collect();
                (!told.is_empty()).then(|| plain(told.iter().sum()))
            }
            Column::HitRate => {
                let told: Vec<f64> = loaded(side).filter_map(|s| s.server.hit_rate).collect();
                (!told.is_empty()).then(|| plain(told.iter().sum::<f64>() / told.len() as f64))
            }
            Column::Attainment | Column::Failures | Column::AchievedRate | Column::Latency(..) => None,
        }
    }

    /// Makes the figure of a goodput that was found, or of the highest level that met the SLO. If the plan's highest
    /// rate ended the search, the goodput is at least that. If no level met the SLO, it lies below the lowest level
    /// that failed and below the lowest level of the search: if the unloaded server already misses, no load was
    /// offered that could fail.
    fn of_goodput(g: &Goodput, lowest: Option<f64>) -> Option<Self> {
        if g.status() == Status::None {
            let high = [g.bracket.failed, lowest].into_iter().flatten().filter(|f| *f > 0.0).reduce(f64::min);
            let ends = [0.0, high.unwrap_or(0.0)];
            return Some(Self { value: 0.0, shown: Some(ends), noise: Noise::Bracket(ends) });
        }
        if !matches!(g.status(), Status::Found | Status::NotReached | Status::Undecided) {
            return None;
        }
        if let Some((value, shown)) = interval(g) {
            let noise = log_deviations(value, shown).map_or(Noise::Unknown, Noise::Deviations);
            return Some(Self { value, shown: Some(shown), noise });
        }
        let value = g.rate().or(g.bracket.met)?;
        let noise = match (g.bracket.met, g.bracket.failed) {
            (Some(met), Some(failed)) if g.status() == Status::Found && met < failed => {
                Noise::Bracket([met, failed])
            }
            (Some(met), _) if g.status() == Status::NotReached => Noise::Bracket([met, f64::INFINITY]),
            _ => Noise::Unknown,
        };
        let shown = if let Noise::Bracket(ends) = noise { Some(ends) } else { None };
        let shown = shown.filter(|ends| ends[1].is_finite());
        Some(Self { value, shown, noise })
    }

    /// Swaps the deviations, for a figure that falls as the goodput rises.
    fn turned(self) -> Self {
        let noise = match self.noise {
            Noise::Deviations([below, above]) => Noise::Deviations([above, below]),
            other => other,
        };
        Self { noise, ..self }
    }

    /// Makes a figure derived from the goodput with this value and proportional noise; the noise is unknown if the
    /// goodput is zero.
    fn times(self, value: f64) -> Self {
        if self.value > 0.0 {
            Self { value, ..self.by(value / self.value) }
        } else {
            Self { value, shown: None, noise: Noise::Unknown }
        }
    }

    /// Multiplies the goodput by a known factor.
    fn by(self, factor: f64) -> Self {
        let scaled = |ends: [f64; 2]| ends.map(|e| e * factor);
        let noise = match self.noise {
            Noise::Bracket(ends) => Noise::Bracket(scaled(ends)),
            other => other,
        };
        Self { value: self.value * factor, shown: self.shown.map(scaled), noise }
    }

    /// Returns both ends of the range of the value.
    fn ends(&self) -> Option<[f64; 2]> {
        match self.noise {
            Noise::Bracket(ends) => Some(ends),
            Noise::Deviations(_) => self.shown,
            Noise::Unknown => None,
        }
    }

    fn unshown(self) -> Self {
        let noise = if matches!(self.noise, Noise::Bracket(_)) { Noise::Unknown } else { self.noise };
        Self { shown: None, noise, ..self }
    }

    fn against(&self, old: &Self) -> Change {
        let bare = Change::bare(Some(old.value), Some(self.value));
        match (old.noise, self.noise) {
            (Noise::Deviations(a), Noise::Deviations(b)) if old.value > 0.0 && self.value > 0.0 => {
                of_deviations((old.value, a), (self.value, b))
            }
            // Compared with a bracket, an interval is treated as a bracket too.
            _ => match (old.ends(), self.ends()) {
                (Some(a), Some(b)) => Change::of_brackets((old.value, a), (self.value, b)),
                _ => bare,
            },
        }
    }
}

fn loaded(side: &Side) -> impl Iterator<Item = &Step> {
    side.run.steps.iter().filter(|s| !matches!(s.kind, StepKind::Baseline | StepKind::Profile))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Basis, Beyond};
    use goodput_stats::fixture::{answered, conclusion};
    use goodput_stats::search::answer::Conclusion;

    fn goodput(status: Status, rate: f64, interval90: Option<[f64; 2]>, ends: Option<[f64; 2]>) -> Goodput {
        let conclusion = conclusion(status, Some(rate), interval90, interval90.map(|[low, _]| low));
        answered(conclusion, ends.map(|e| e[0]), ends.map(|e| e[1]))
    }

    fn change(a: &Goodput, b: &Goodput) -> Change {
        super::change(a, b, None).unwrap()
    }

    #[test]
    fn intervals_tell_apart_what_lies_far_enough_apart() {
        let a = goodput(Status::Found, 10.0, Some([9.5, 10.5]), None);
        let near = change(&a, &goodput(Status::Found, 9.8, Some([9.3, 10.3]), None));
        let far = change(&a, &goodput(Status::Found, 8.0, Some([7.6, 8.4]), None));
        assert!(near.p.unwrap() > 0.5 && far.p.unwrap() < 0.001, "{near:?} {far:?}");
        assert!(far.interval.is_some_and(|[l, h]| l < -0.2 && h > -0.2 && h < -0.1), "{far:?}");
        let none = change(&a, &goodput(Status::Found, 8.0, Some([0.0, 9.0]), None));
        assert!(none.p.is_none() && none.beyond == Beyond::Unknown, "an interval that begins at zero");
    }

    #[test]
    fn brackets_differ_where_they_have_nothing_in_common() {
        let a = goodput(Status::Found, 8.0, None, Some([8.0, 10.0]));
        for (ends, beyond) in [
            ([8.0, 10.0], Beyond::No),
            ([9.0, 12.0], Beyond::No),
            ([10.0, 12.0], Beyond::Yes),
            ([4.0, 8.0], Beyond::Yes),
        ] {
            let c = change(&a, &goodput(Status::Found, ends[0], None, Some(ends)));
            assert_eq!((c.beyond, c.basis), (beyond, Basis::Brackets), "{ends:?}: {c:?}");
        }
        let reached = goodput(Status::NotReached, 8.0, None, Some([8.0, 10.0]));
        assert_eq!(change(&a, &reached).beyond, Beyond::Unknown, "it may be any higher");
    }

    #[test]
    fn ends_that_are_open_tell_apart_what_lies_beyond_them() {
        let found = goodput(Status::Found, 8.0, None, Some([8.0, 10.0]));
        let close = goodput(Status::Found, 8.0, Some([7.0, 9.0]), None);
        let none = answered(Conclusion::None, None, Some(5.0));
        let reached = |met| answered(conclusion(Status::NotReached, Some(met), None, None), Some(met), None);
        for (old, new, beyond, low, high) in [
            (&found, &none, Beyond::Yes, -1.0, 5.0 / 8.0 - 1.0),
            (&close, &none, Beyond::Yes, -1.0, 5.0 / 7.0 - 1.0),
            (&none, &found, Beyond::Yes, 8.0 / 5.0 - 1.0, f64::INFINITY),
            (&none, &none, Beyond::Unknown, -1.0, f64::INFINITY),
            (&found, &reached(20.0), Beyond::Yes, 1.0, f64::INFINITY),
            (&reached(20.0), &found, Beyond::Yes, -1.0, -0.5),
            (&reached(20.0), &reached(20.0), Beyond::Unknown, -1.0, f64::INFINITY),
        ] {
            let c = change(old, new);
            assert_eq!((c.beyond, c.interval), (beyond, Some([low, high])), "{old:?} {new:?}");
        }
        let by_two = Figure::of_goodput(&none, None).unwrap().by(0.5);
        assert_eq!((by_two.value, by_two.noise), (0.0, Noise::Bracket([0.0, 2.5])));
    }

    /// No load was offered, so no level failed: the goodput lies below the lowest level of the search.
    #[test]
    fn an_unloaded_server_that_misses_has_a_goodput_of_zero() {
        let found = goodput(Status::Found, 35.0, Some([34.0, 37.0]), None);
        let hopeless = answered(Conclusion::None, None, None);
        for (lowest, high) in [(Some(0.5), 0.5), (None, 0.0)] {
            let none = Figure::of_goodput(&hopeless, lowest).unwrap();
            assert_eq!((none.value, none.noise), (0.0, Noise::Bracket([0.0, high])));
            let c = none.against(&Figure::of_goodput(&found, lowest).unwrap());
            assert_eq!(
                (c.share, c.beyond, c.interval),
                (Some(-1.0), Beyond::Yes, Some([-1.0, high / 34.0 - 1.0]))
            );
        }
        let failed = answered(Conclusion::None, None, Some(5.0));
        assert_eq!(Figure::of_goodput(&failed, Some(0.5)).unwrap().noise, Noise::Bracket([0.0, 0.5]));
        assert_eq!(Figure::of_goodput(&failed, Some(8.0)).unwrap().noise, Noise::Bracket([0.0, 5.0]));
    }
}
