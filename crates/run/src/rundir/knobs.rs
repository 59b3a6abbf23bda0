//! The goodput along a knob of a grid: whether neighbouring values are told apart, and in which direction it goes.

use super::Run;
use super::variants::{VariantAnswer, VariantRun};
use serde::Serialize;
use std::cmp::Ordering;

/// The variants along one knob, all other knobs at the values of the first variant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AlongKnob {
    /// Name of the knob.
    pub knob: String,
    /// Neighbouring values, ascending, as far as both have a goodput.
    pub neighbours: Vec<Neighbours>,
}

/// Two neighbouring values of a knob.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Neighbours {
    /// The two values, as in the plan, the lower one first.
    pub values: [String; 2],
    /// Direction of the estimate from the lower value to the higher one.
    #[serde(skip)]
    pub direction: Ordering,
    /// True if the 90 % intervals overlap, so that the two are not told apart.
    pub overlap: bool,
}

/// Returns the neighbours along each knob whose values are numbers. Empty if a variant has several series.
pub fn along(run: &Run) -> Vec<AlongKnob> {
    let all = &run.meta.variants;
    let Some(first) = all.first().filter(|_| all.len() == run.variants.len()) else { return Vec::new() };
    let line = |knob: &String| {
        let mut points: Vec<(f64, &str, &VariantAnswer)> = all
            .iter()
            .filter(|v| others(v, knob) == others(first, knob))
            .filter_map(|v| {
                let (_, value) = v.knobs.iter().find(|(name, _)| name == knob)?;
                let answer = run.variants.iter().find(|a| a.variant == v.name)?;
                Some((value.parse().ok()?, value.as_str(), answer))
            })
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let neighbours = points.windows(2).filter_map(|pair| neighbours(&pair[0], &pair[1])).collect();
        AlongKnob { knob: knob.clone(), neighbours }
    };
    let lines = first.knobs.iter().map(|(knob, _)| line(knob));
    lines.filter(|line| !line.neighbours.is_empty()).collect()
}

fn others<'a>(variant: &'a VariantRun, knob: &str) -> Vec<&'a (String, String)> {
    variant.knobs.iter().filter(|(name, _)| name != knob).collect()
}

fn neighbours(low: &(f64, &str, &VariantAnswer), high: &(f64, &str, &VariantAnswer)) -> Option<Neighbours> {
    let ((from, a), (to, b)) = (low.2.goodput()?, high.2.goodput()?);
    Some(Neighbours {
        values: [low.1.to_owned(), high.1.to_owned()],
        direction: to.total_cmp(&from),
        overlap: a[0] <= b[1] && b[0] <= a[1],
    })
}

impl AlongKnob {
    /// Returns the neighbours between which the estimate goes against the direction of most others; empty if all go in
    /// one direction.
    pub fn against(&self) -> Vec<&Neighbours> {
        let of = |direction| self.neighbours.iter().filter(move |n| n.direction == direction);
        let (rises, falls) = (of(Ordering::Greater).count(), of(Ordering::Less).count());
        match (rises, falls) {
            (0, _) | (_, 0) => Vec::new(),
            _ if falls <= rises => of(Ordering::Less).collect(),
            _ => of(Ordering::Greater).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use goodput_stats::fixture::conclusion;
    use goodput_stats::search::answer::Status;

    /// A value of the knob, with its goodput and interval.
    type Row<'a> = (&'a str, Option<(f64, [f64; 2])>);

    /// Returns a run over `max-num-seqs` with these goodputs and intervals.
    fn run(rows: &[Row<'_>]) -> Run {
        let mut run = fixture::variants();
        let (answer, variant) = (run.variants[0].clone(), run.meta.variants[0].clone());
        run.variants = Vec::new();
        run.meta.variants = Vec::new();
        for (value, goodput) in rows {
            let name = format!("max-num-seqs={value}");
            let mut a = VariantAnswer { variant: name.clone(), series: name.clone(), ..answer.clone() };
            a.answer.as_mut().unwrap().goodput.conclusion = match goodput {
                Some((rate, ends)) => conclusion(Status::Found, Some(*rate), Some(*ends), Some(ends[0])),
                None => conclusion(Status::Undecided, None, None, None),
            };
            run.variants.push(a);
            let knobs = vec![("max-num-seqs".to_owned(), (*value).to_owned())];
            run.meta.variants.push(VariantRun { name, knobs, ..variant.clone() });
        }
        run
    }

    /// Rows out of order, with one that has no goodput.
    #[test]
    fn neighbours_are_those_of_the_values_in_order() {
        let run = run(&[
            ("128", Some((9.0, [8.0, 10.0]))),
            ("16", Some((4.0, [3.0, 5.0]))),
            ("64", Some((12.0, [11.0, 13.0]))),
            ("32", Some((4.5, [4.0, 5.0]))),
            ("256", None),
        ]);
        let along = along(&run).remove(0);
        let got: Vec<_> =
            along.neighbours.iter().map(|n| (n.values[0].as_str(), n.direction, n.overlap)).collect();
        let want = [
            ("16", Ordering::Greater, true),
            ("32", Ordering::Greater, false),
            ("64", Ordering::Less, false),
        ];
        assert_eq!(got, want);
        assert_eq!(along.against().iter().map(|n| n.values[1].as_str()).collect::<Vec<_>>(), ["128"]);
    }

    #[test]
    fn one_direction_has_nothing_against_it() {
        let rows = [("1", Some((4.0, [3.0, 5.0]))), ("2", Some((5.0, [4.0, 6.0])))];
        assert!(along(&run(&rows))[0].against().is_empty());
        assert!(along(&fixture::variants()).is_empty(), "its variants have no knobs");
    }
}
