//! The posterior for known curves, and in extreme cases.

use super::evidence::Evidence;
use super::fit::{Fit, LimitPrior, Range, WeightedCounts};
use super::prior::{Clearance, Prior, floors, infeasible_floors, shapes};
use super::stability::stability_boundary;
use super::{Posterior, limits, quantile};
use crate::search::series::tests::step;
use crate::stats::step::{LimitRow, Step, StepKind, Verdict};
use goodput_core::level::Level;
use goodput_core::slo::Slo;
use proptest::prelude::*;

const P0: f64 = 0.01;
const FAR: Clearance = Clearance { alone: 8.0, pair: 8.0 };

fn known(clearance: Clearance) -> LimitPrior {
    LimitPrior { dispersion: 1.0, clearance, share: 1.0 }
}

fn flat(low: f64, high: f64) -> Prior {
    Prior { low: low.ln(), high: high.ln(), ln_capacity: None }
}

/// Counts of a curve with boundary 10 and rise b = 9 without a floor: L = C0·(e^(9x) − 1)/(e^9 − 1).
fn share(rate: f64) -> f64 {
    let g = (9.0 * rate / 10.0).exp_m1() / 9.0_f64.exp_m1();
    -((-P0).ln_1p() * g).exp_m1()
}

fn row(rate: f64, n: f64) -> WeightedCounts {
    WeightedCounts { rate, n, misses: n * share(rate), weight: 1.0, undetected: 0.0 }
}

#[test]
fn priors_add_up_to_one() {
    let sum = |ln: &mut dyn Iterator<Item = f64>| ln.map(f64::exp).sum::<f64>();
    for clearance in [Clearance::UNKNOWN, FAR, Clearance { alone: 4.0, pair: 3.5 }] {
        assert!((sum(&mut floors(clearance).iter().map(|f| f.ln_mass)) - 1.0).abs() < 1e-9);
        for dispersion in [0.0, 1.0, 6.25] {
            for kind in [0, 1] {
                let all = shapes(dispersion, clearance, None).all;
                let total = sum(&mut all.iter().map(|s| s.ln_mass[kind]));
                assert!(
                    (total - 1.0).abs() < 1e-9,
                    "{clearance:?}, dispersion {dispersion}, kind {kind}: {total}"
                );
            }
        }
    }
    assert!((sum(&mut infeasible_floors().iter().map(|f| f.ln_mass)) - 1.0).abs() < 1e-9);
    for ln_capacity in [None, Some(14_f64.ln()), Some(0.7_f64.ln()), Some(350_f64.ln())] {
        let prior = Prior { ln_capacity, ..flat(0.2, 300.0) };
        let parts = 20_000;
        let width = (prior.high - prior.low) / f64::from(parts);
        let at = |i: i32| prior.density(prior.low + (f64::from(i) + 0.5) * width) * width;
        let total: f64 = (0..parts).map(at).sum();
        assert!((total - 1.0).abs() < 1e-3, "{ln_capacity:?}: {total}");
    }
}

/// With much evidence on a curve of the family, its boundary and slope are recovered, b·e^b/(e^b − 1) at x = 1.
#[test]
fn a_known_curve_is_recovered() {
    let rows: Vec<WeightedCounts> = [5.0, 8.0, 9.5, 10.5, 12.0].map(|r| row(r, 2e5)).to_vec();
    let wide = Fit::of(&rows, P0, Range::wide(flat(1.0, 100.0)), known(Clearance::UNKNOWN));
    let around = Range { low: 9_f64.ln(), high: 11_f64.ln(), prior: flat(1.0, 100.0) };
    let fit = Fit::of(&rows, P0, around, known(Clearance::UNKNOWN));
    assert!((fit.boundary.centre() - 10_f64.ln()).abs() < 0.01, "{}", fit.boundary.centre().exp());
    assert!((fit.slope / 9.0 - 1.0).abs() < 0.12, "{}", fit.slope);
    assert!(fit.infeasible < 1e-6 && wide.infeasible < 1e-6);
    let [low, median, high] = fit.shares(&[10.0], [0.05, 0.5, 0.95])[0];
    assert!(low <= median && median <= high && (median / P0 - 1.0).abs() < 0.1, "{low} {median} {high}");
}

/// With little evidence, many cells have mass; still a curve does not show that the lightest are left out.
#[test]
fn a_curve_without_its_lightest_cells_is_the_same_curve() {
    let rows: Vec<WeightedCounts> = [5.0, 8.0, 10.5, 12.0].map(|r| row(r, 300.0)).to_vec();
    let fit = Fit::of(&rows, P0, Range::wide(flat(1.0, 100.0)), known(Clearance::UNKNOWN));
    let (rates, quantiles) = ([4.0, 9.0, 10.0, 14.0], [0.05, 0.5, 0.95]);
    for (rate, drawn) in rates.iter().zip(fit.shares(&rates, quantiles)) {
        for (drawn, all) in drawn.iter().zip(fit.shares_at(*rate, quantiles, 0.0)) {
            assert!((drawn / all - 1.0).abs() < 0.005, "{rate}: {drawn} of {all}");
        }
    }
}

#[test]
fn a_weighted_quantile_is_the_value_at_which_the_masses_reach_it() {
    for (mass, want) in [(0.0, 1.0), (0.1, 1.0), (0.25, 2.0), (0.5, 2.0), (0.7, 4.0), (0.9, 4.0), (2.0, 4.0)]
    {
        let mut all = [(4.0, 0.4), (1.0, 0.1), (2.0, 0.2), (2.0, 0.2)];
        let got = super::fit::weighted_quantile(&mut all, mass);
        assert!((got - want).abs() < 1e-12, "{mass}: {got}");
    }
    assert!(super::fit::weighted_quantile(&mut [], 0.5).abs() < 1e-12);
}

/// The odds of an infeasible limit do not depend on the part of the range that the grid covers.
#[test]
fn a_narrow_grid_keeps_the_odds() {
    let rows = [row(6.0, 300.0), row(9.0, 400.0), row(12.0, 400.0), row(0.0, 150.0)];
    for ln_capacity in [None, Some(17_f64.ln())] {
        let prior = Prior { ln_capacity, ..flat(0.2, 60.0) };
        let wide = Fit::of(&rows, P0, Range::wide(prior), known(Clearance::UNKNOWN));
        let narrow = super::narrow(&wide, prior, 1.0);
        assert!(narrow.high - narrow.low < 0.8 * (prior.high - prior.low), "{narrow:?}");
        let fit = Fit::of(&rows, P0, narrow, known(Clearance::UNKNOWN));
        let odds = |f: &Fit| (f.infeasible / (1.0 - f.infeasible)).ln();
        assert!((odds(&wide) - odds(&fit)).abs() < 0.15, "{} and {}", wide.infeasible, fit.infeasible);
        assert!((wide.boundary.centre() - fit.boundary.centre()).abs() < 0.05);
    }
}

#[test]
fn an_unloaded_server_that_misses_is_infeasible() {
    let fit = |n: f64, misses: f64, clearance| {
        let rows = [WeightedCounts { rate: 0.0, n, misses, weight: 1.0, undetected: 0.0 }];
        Fit::of(&rows, P0, Range::wide(flat(0.3, 60.0)), known(clearance)).infeasible
    };
    assert!((fit(0.0, 0.0, Clearance::UNKNOWN) - 0.15).abs() < 1e-6, "nothing but the prior");
    assert!((fit(0.0, 0.0, FAR) - 0.02).abs() < 1e-6, "whose latencies lie far below the limit");
    assert!(fit(1000.0, 300.0, Clearance::UNKNOWN) > 0.999);
    assert!(fit(1000.0, 0.0, Clearance::UNKNOWN) < 0.001);
    let near = fit(1000.0, 11.0, Clearance::UNKNOWN);
    assert!(near > 0.2 && near < 0.8, "1.1 % of a thousand may be either: {near}");
    // Overwhelming evidence on either side causes no overflow.
    assert!(fit(1e7, 5e6, Clearance::UNKNOWN) > 0.999 && fit(1e7, 0.0, Clearance::UNKNOWN) < 0.001);
}

fn counted(kind: StepKind, rate: f64, n: u64, misses: u64, cluster_sq: u64) -> Step {
    let mut s = step(Level::rate(rate), Verdict::Undecided);
    s.kind = kind;
    s.offered_rate = rate;
    s.limits[0] = LimitRow { n, misses, cluster_sq, ..s.limits[0].clone() };
    s
}

#[test]
fn distant_and_lucky_steps_are_weighted_down() {
    let rows = |steps: &[Step]| {
        let all: Vec<&Step> = steps.iter().collect();
        Evidence::of(&all, "main", "ttft.p99", P0, 0.5, 1.0, None).rows(10_f64.ln(), 5.0)
    };
    let refine = |rate, misses| counted(StepKind::Refine, rate, 2000, misses, misses * 5);
    let [at, far] = [rows(&[refine(10.0, 20)])[0].weight, rows(&[refine(20.0, 20)])[0].weight];
    assert!(far < 0.3 * at, "a step at twice the boundary: {far} and {at}");
    // Clusters that a lucky step does not show are assumed: it weighs no more than one with the expected misses.
    let [lucky, due] = [rows(&[refine(10.0, 0)])[0].weight, at];
    assert!(lucky <= due * 1.01, "{lucky} and {due}");
    assert!((rows(&[counted(StepKind::Baseline, 1.0, 50, 0, 0)])[0].weight - 1.0).abs() < 1e-9);
    // A ramp step too short to be steady is no evidence if it holds.
    let mut short = counted(StepKind::Ramp, 8.0, 64, 0, 0);
    short.measure_s = 2.0;
    assert!(rows(&[short]).is_empty());
}

/// Two steps at each of three rates around a boundary of 10, which agree or scatter.
#[test]
fn scatter_widens_the_interval() {
    let of = |misses: [u64; 6]| {
        let rates = [9.0, 9.0, 10.0, 10.0, 11.0, 11.0];
        let steps: Vec<Step> =
            rates.iter().zip(misses).map(|(r, k)| counted(StepKind::Refine, *r, 2000, k, 2 * k)).collect();
        let all: Vec<&Step> = steps.iter().collect();
        Posterior::of(&all, "main", &[("ttft.p99".into(), P0)], 1.0, None).unwrap()
    };
    let (even, scattered) = (of([8, 12, 18, 22, 36, 44]), of([0, 20, 2, 38, 4, 76]));
    assert_eq!(even.widened(), None);
    let by = scattered.widened().unwrap();
    assert!(
        by > 1.3 && scattered.spread() > 1.2 * even.spread(),
        "{by}: {} and {}",
        scattered.spread(),
        even.spread()
    );
    let fitted = scattered.fitted(&[10.0])[0].points[0];
    assert!(fitted.low < P0 && fitted.high > P0, "{fitted:?}");
}

#[test]
fn the_boundary_of_stability_lies_between_stable_and_unstable_steps() {
    let of = |rate: f64, stable| Step { due_n: 4000, stable, ..counted(StepKind::Refine, rate, 4000, 0, 0) };
    let steps = [of(10.0, Some(true)), of(18.0, Some(true)), of(19.0, None), of(22.0, Some(false))];
    let all: Vec<&Step> = steps.iter().collect();
    let boundary_of = |steps: &[&Step]| stability_boundary(steps, (1_f64.ln(), 44_f64.ln()), 1.0);
    let spread = boundary_of(&all).unwrap();
    assert!(
        spread.below(17_f64.ln()) < 0.1 && spread.below(22.5_f64.ln()) > 0.85,
        "{}",
        spread.centre().exp()
    );
    assert!((18.0..22.0).contains(&spread.centre().exp()), "{}", spread.centre().exp());
    assert_eq!(boundary_of(&all[2..3]), None, "a step that cannot tell");
}

#[test]
fn the_limits_of_a_tier_are_those_of_its_rows() {
    let slo: Slo = toml::from_str("ttft.p99 = \"1s\"\ntpot.p90 = \"50ms\"\nerror-rate = 0.02").unwrap();
    let named: Vec<(String, f64)> = limits(&slo);
    let of = |name: &str| named.iter().find(|(n, _)| n == name).map(|(_, p)| (p * 1e6).round() / 1e6);
    assert_eq!((of("ttft.p99"), of("tpot.p90"), of("error-rate")), (Some(0.01), Some(0.1), Some(0.02)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// For any counts, masses add up, probabilities lie in [0, 1] and rise with the level, and quantiles invert them.
    #[test]
    fn a_posterior_is_a_distribution(
        counts in proptest::collection::vec((0.1_f64..90.0, 1_u32..5000, 0.0_f64..1.0), 1..5),
        p0 in prop_oneof![Just(0.001), Just(0.01), Just(0.5)],
    ) {
        let rows: Vec<WeightedCounts> = counts
            .into_iter()
            .map(|(rate, n, share)| WeightedCounts { rate, n: f64::from(n), misses: (f64::from(n) * share).floor(), weight: 0.2, undetected: 0.05 })
            .collect();
        let prior = flat(0.05, 200.0);
        let fit = Fit::of(&rows, p0, Range::wide(prior), known(Clearance::UNKNOWN));
        prop_assert!((fit.boundary.mass.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        prop_assert!((0.0..=1.0).contains(&fit.infeasible) && fit.slope.is_finite());
        let below: Vec<f64> = (0..50).map(|i| fit.boundary.below(prior.low + f64::from(i) * 0.2)).collect();
        prop_assert!(below.is_sorted() && below.iter().all(|b| (0.0..=1.0 + 1e-9).contains(b)));
        let median = quantile((prior.low, prior.high), 0.5, |x| fit.boundary.below(x));
        prop_assert!((fit.boundary.below(median) - 0.5).abs() < 0.01 || fit.boundary.mass.iter().any(|m| *m > 0.4));
    }
}
