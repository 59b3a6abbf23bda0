//! Estimates against closed forms, and what changes are made of them.

use super::*;

#[test]
fn holm_is_the_textbook_one() {
    assert_eq!(holm(&[0.01, 0.04, 0.03, 0.005]), [true, false, false, true]);
    assert_eq!(holm(&[0.04]), [true]);
    assert_eq!(holm(&[0.06]), [false]);
    assert_eq!(holm(&[]), Vec::<bool>::new());
    assert_eq!(holm(&[0.02, 0.02, 0.02]), [false; 3], "none is below a third of 0.05");
}

#[test]
fn students_distribution_has_its_tails() {
    let e = Estimate { difference: 2.262_157, error: 1.0, freedom: 9.0 };
    assert!((e.p() - 0.05).abs() < 1e-5 && (e.interval()[0]).abs() < 1e-4, "{e:?} {}", e.p());
    assert!((Estimate::normal(1.959_964, 1.0).p() - 0.05).abs() < 1e-6);
    assert!((Estimate::normal(0.0, 1.0).detectable(1) - (1.959_964 + 1.281_552)).abs() < 1e-4);
    assert!(Estimate::normal(0.1, 0.0).p() < 1e-12 && (Estimate::normal(0.0, 0.0).p() - 1.0).abs() < 1e-12);
}

#[test]
fn ratios_and_differences_become_changes() {
    let c = Change::of_ratio(Some(100.0), Some(110.0), Estimate::normal(1.1_f64.ln(), 0.02), Basis::Blocks);
    let [low, high] = c.interval.unwrap();
    assert!((c.share.unwrap() - 0.1).abs() < 1e-9 && low > 0.05 && high < 0.15, "{c:?}");
    assert!(c.absolute_interval.is_some_and(|[l, h]| l > 5.0 && h < 15.0));
    let c = Change::of_difference(0.98, 0.96, Estimate::normal(-0.02, 0.005));
    assert!(c.absolute_interval.is_some_and(|[l, h]| (l + 0.0298).abs() < 1e-3 && (h + 0.0102).abs() < 1e-3));
    let c = Change::bare(Some(0.0), Some(3.0));
    assert!(c.share.is_none() && c.absolute == Some(3.0) && c.beyond == Beyond::Unknown);
    let c = Change::bare(Some(1.0), Some(f64::INFINITY));
    assert!(c.absolute.is_none() && c.infinite == Some(Infinite::New), "{c:?}");
}

/// Rows: the difference of logarithms, its error and the correction, and the share and the error afterwards.
#[test]
fn a_change_is_carried_to_the_level_of_the_baseline() {
    for (difference, error, correction, share, wide) in
        [(0.10, 0.03, 0.04, 0.06_f64.exp_m1(), 0.05), (0.0, 0.03, -0.04, 0.04_f64.exp_m1(), 0.05)]
    {
        let e = Estimate { difference, error, freedom: 40.0 };
        let new = 100.0 * f64::exp(difference);
        let change = Change::of_ratio(Some(100.0), Some(new), e, Basis::Blocks);
        let moved = change.carried(Some(100.0), correction, [10.0, 10.1]).unwrap();
        assert!((moved.share.unwrap() - share).abs() < 1e-9 && moved.apart.is_none(), "{moved:?}");
        assert!((moved.estimate.unwrap().error - wide).abs() < 1e-9 && moved.carried.is_some());
        assert!(moved.p.unwrap() > 0.0 && moved.estimate.unwrap().freedom < 41.0);
    }
    let change = Change::of_difference(0.99, 0.97, Estimate::normal(-0.02, 0.003));
    let moved = change.carried(Some(0.99), -0.004, [10.0, 10.1]).unwrap();
    assert!((moved.absolute.unwrap() + 0.016).abs() < 1e-9, "{moved:?}");
    assert!((moved.estimate.unwrap().error - 0.005).abs() < 1e-9);
    assert!(Change::bare(Some(1.0), Some(2.0)).carried(Some(1.0), 0.1, [10.0, 10.1]).is_none());
}

#[test]
fn intervals_become_deviations() {
    let [below, above] = log_deviations(10.0, [10.0 / 1.1, 12.0]).unwrap();
    assert!((below - 1.1_f64.ln() / 1.644_853_6).abs() < 1e-6 && above > below);
    assert!(log_deviations(10.0, [0.0, 12.0]).is_none() && log_deviations(10.0, [11.0, 12.0]).is_none());
}

#[test]
fn the_halves_that_face_each_other_count() {
    // The upper half of the old rate's interval says nothing about whether it is lower than the new one.
    let skewed = of_deviations((50.0, [0.05, 0.3]), (40.0, [0.05, 0.05]));
    let even = of_deviations((50.0, [0.05, 0.05]), (40.0, [0.05, 0.05]));
    assert!((skewed.p.unwrap() - even.p.unwrap()).abs() < 1e-12 && even.p.unwrap() < 0.01);
    let ([wide, high], [narrow, same]) = (skewed.interval.unwrap(), even.interval.unwrap());
    assert!(wide < narrow - 0.1 && (high - same).abs() < 1e-12, "{skewed:?} {even:?}");
}
