use super::*;
use crate::compare::noise::Beyond;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Normal};

fn pooled(values: &[f64], variance: f64) -> Figure {
    let studies: Vec<Study> = values.iter().map(|value| Study { value: *value, variance }).collect();
    Figure::Runs(Pooled::of(&studies).unwrap())
}

/// Welch's example with equal and unequal scatter: the estimate is the textbook's if runs have no error of their own.
#[test]
fn two_samples_are_compared_as_welch_has_it() {
    let (a, b) = ([3.0, 4.0, 1.0, 2.1], [490.2, 340.0, 433.9]);
    let e = estimate(&pooled(&a, 0.0), &pooled(&b, 0.0)).unwrap();
    // t = 9.5595 with 2.0009 degrees of freedom, as any statistics program gives.
    assert!((e.difference / e.error - 9.559_5).abs() < 1e-3, "{e:?}");
    assert!((e.freedom - 2.000_9).abs() < 1e-3, "{e:?}");
}

#[test]
fn a_single_run_is_held_against_a_prediction() {
    let history = [3.0, 3.1, 2.9, 3.05, 2.95];
    let Figure::Runs(p) = pooled(&history, 0.001) else { panic!() };
    let one = Study { value: 2.5, variance: 0.002 };
    let e = estimate(&pooled(&history, 0.001), &Figure::One(one)).unwrap();
    assert!((e.difference + 0.5).abs() < 1e-9 && (e.freedom - 3.0).abs() < 1e-12, "{e:?}");
    assert!((e.error.powi(2) - p.predicted_error().powi(2) - 0.002).abs() < 1e-12);
    assert_eq!(estimate(&pooled(&history[..2], 0.001), &Figure::One(one)), None, "two runs predict nothing");
    let back = estimate(&Figure::One(one), &pooled(&history, 0.001)).unwrap();
    assert!((back.difference - 0.5).abs() < 1e-9);
}

/// Counts false alarms for two groups of equal runs: claims at 5 %, and gates at zero change. Runs scatter by 5 % and
/// have errors of 4 %.
#[test]
fn equal_groups_are_seldom_told_apart() {
    const SETS: usize = 2_000;
    for runs in [(3, 3), (2, 4), (5, 5), (5, 1), (3, 1)] {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let normal = Normal::new(0.0, 1.0).unwrap();
        let (mut apart, mut below) = (0, 0);
        for _ in 0..SETS {
            let mut figure = |n: usize| {
                let all: Vec<Study> = (0..n)
                    .map(|_| Study {
                        value: 0.05 * normal.sample(&mut rng) + 0.04 * normal.sample(&mut rng),
                        variance: 0.0016,
                    })
                    .collect();
                if n == 1 { Figure::One(all[0]) } else { Figure::Runs(Pooled::of(&all).unwrap()) }
            };
            let e = estimate(&figure(runs.0), &figure(runs.1)).unwrap();
            let change = Change::of_ratio(Some(1.0), Some(e.difference.exp()), e, Basis::Runs);
            apart += usize::from(change.p.unwrap() < 0.05);
            below += usize::from(change.interval.unwrap()[1] < 0.0);
        }
        let (apart, below) = (apart as f64 / SETS as f64, below as f64 / SETS as f64);
        assert!(apart < 0.065 && below < 0.035, "{runs:?}: {apart}, {below}");
        let change = Change::bare(Some(1.0), Some(2.0));
        assert_eq!(change.beyond, Beyond::Unknown);
    }
}
