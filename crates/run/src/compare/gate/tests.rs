use super::super::noise::Estimate;
use super::*;

fn change(ratio: f64, error: f64) -> Change {
    Change::of_ratio(Some(100.0), Some(100.0 * ratio), Estimate::normal(ratio.ln(), error), Basis::Blocks)
}

#[test]
fn gates_hold_fail_or_are_undecided() {
    for (gate, ratio, error, held) in [
        ("goodput >= -5%", 1.02, 0.01, GateResult::Holds),
        ("goodput >= -5%", 0.97, 0.01, GateResult::Holds), // within the threshold
        ("goodput >= -5%", 0.97, 0.10, GateResult::Holds), // as it was measured; the noise is told
        ("goodput >= -5%", 0.93, 0.05, GateResult::Undecided), // beyond it, and within the noise
        ("goodput >= -5%", 0.93, 0.005, GateResult::Fails),
        ("ttft.p99 <= +10%", 1.2, 0.02, GateResult::Fails),
        ("ttft.p99 <= +10%", 0.5, 0.02, GateResult::Holds), // better is never wrong
        ("ttft.p99 <= +30ms", 1.2, 0.02, GateResult::Holds),
        ("ttft.p99 <= +10ms", 1.2, 0.02, GateResult::Fails),
        ("ttft.p99≤0.01s", 1.2, 0.02, GateResult::Fails),
        ("cost-per-mtok <= 0%", 1.01, 0.02, GateResult::Undecided),
    ] {
        let (got, why) = Gate::parse(gate).unwrap().judge_change(&change(ratio, error));
        assert_eq!(got, held, "{gate} with {ratio}: {why:?}");
    }
    for (gate, infinite, held) in [
        ("ttft.p99 <= +10%", Infinite::New, GateResult::Fails),
        ("ttft.p99 <= +10ms", Infinite::Old, GateResult::Holds),
        ("ttft.p99@20 >= -10%", Infinite::New, GateResult::Holds),
        ("ttft.p99@20 >= -10%", Infinite::Old, GateResult::Fails),
    ] {
        let (got, why) =
            Gate::parse(gate).unwrap().judge_change(&Change::of_failing(infinite, Basis::Blocks));
        assert_eq!(got, held, "{gate}: {why:?}");
    }
    for (old, new, held) in [
        ((8.0, [8.0, 10.0]), (0.0, [0.0, 5.0]), GateResult::Fails),
        ((0.0, [0.0, 5.0]), (8.0, [8.0, 10.0]), GateResult::Holds),
        ((0.0, [0.0, 5.0]), (0.0, [0.0, 5.0]), GateResult::Undecided),
        ((20.0, [20.0, f64::INFINITY]), (20.0, [20.0, f64::INFINITY]), GateResult::Holds),
        ((20.0, [20.0, f64::INFINITY]), (10.0, [10.0, f64::INFINITY]), GateResult::Undecided),
        ((20.0, [20.0, f64::INFINITY]), (10.0, [10.0, 15.0]), GateResult::Fails),
        // The baseline may sustain 60, so 19.5 on the other side is not a change of a fortieth.
        ((20.0, [20.0, f64::INFINITY]), (19.5, [19.0, 21.0]), GateResult::Undecided),
        ((20.0, [20.0, f64::INFINITY]), (19.5, [19.5, f64::INFINITY]), GateResult::Undecided),
    ] {
        let (got, why) = Gate::parse("goodput >= -5%").unwrap().judge_change(&Change::of_brackets(old, new));
        assert_eq!(got, held, "{old:?} {new:?}: {why:?}");
    }
    // Costs likewise, with an upper bound.
    let change = Change::of_brackets((1.0, [0.0, 1.0]), (1.02, [0.9, 1.1]));
    let (held, why) = Gate::parse("cost-per-mtok <= +5%").unwrap().judge_change(&change);
    assert_eq!(held, GateResult::Undecided, "{why:?}");
    let (held, why) = Gate::parse("knee >= 0%").unwrap().judge_change(&Change::bare(Some(1.0), Some(2.0)));
    let no_noise = matches!(why, GateReason::Change { interval: None, .. });
    assert!(held == GateResult::Undecided && no_noise, "{why:?}");
}

/// However large the difference is, the part caused by the unequal levels is unknown.
#[test]
fn levels_that_are_not_the_same_decide_no_gate() {
    let row = |ratio: f64| ComparedFigure {
        name: "tpot.p50@56".into(),
        column: Column::Latency(goodput_core::slo::Metric::Tpot, 500),
        unit: "ms".into(),
        place: Scope::At(goodput_core::level::Level::rate(56.0)),
        values: vec![Some(100.0), Some(100.0 * ratio)],
        intervals: vec![None; 2],
        changes: vec![change(ratio, 0.005).unclaimed([56.0, 56.8])],
        each: Vec::new(),
    };
    for ratio in [1.5, 1.0, 0.5] {
        let (held, why) = Gate::parse("tpot.p50 <= +1%").unwrap().judge_row(&row(ratio), 0);
        let control = Some(Control::Rate);
        let want = GateReason::LevelsDiffer { level: 56.8, baseline: 56.0, control };
        assert_eq!((held, why), (GateResult::Undecided, want));
    }
    let exact = ComparedFigure { changes: vec![change(1.5, 0.005)], ..row(1.5) };
    assert_eq!(Gate::parse("tpot.p50 <= +1%").unwrap().judge_row(&exact, 0).0, GateResult::Fails);
}
