//! Findings that a forecast weighs.

use super::*;

/// Returns a forecast of these effects, which has the measured goodput at present; 0 if no rate met the SLO.
pub(super) fn forecast(present: f64, effects: &[(Altered, f64)]) -> Forecast {
    let effects = effects.iter().map(|(altered, goodput)| Effect { altered: *altered, goodput: *goodput });
    Forecast {
        series: "main".into(),
        measured: Some(present).filter(|rate| *rate > 0.0),
        present,
        effects: effects.collect(),
        assumed: Assumed::default(),
    }
}

/// Returns the kinds of the findings of full seats and a forecast of these effects.
fn weighed(present: f64, effects: &[(Altered, f64)]) -> Vec<Kind> {
    let (mut steps, mut facts) = usual();
    next::started(&mut steps, &mut facts);
    facts.forecasts = vec![forecast(present, effects)];
    diagnose(&steps, &facts).findings.iter().map(|f| f.kind).collect()
}

#[test]
fn a_finding_whose_remedies_gain_nothing_is_no_cause() {
    let seats = |goodput| [(Altered::MoreSequences(16), goodput), (Altered::FasterCompute, 60.0)];
    let helps = weighed(30.0, &seats(50.0));
    assert_eq!(helps[0], Kind::BatchTooSmall);
    let useless = weighed(30.0, &seats(31.0));
    assert_eq!(useless[0], Kind::PrefillBound);
    assert!(!useless.contains(&Kind::BatchTooSmall), "{useless:?}");
    assert!(useless.contains(&Kind::Queueing), "its remedies were not simulated: {useless:?}");
}

/// Rows: the goodput with more tokens an iteration, of 30 req/s at present and 60 with faster compute, and whether that
/// setting is advised second. No rule names it.
#[test]
fn a_setting_that_gains_something_comes_after_the_hardware_that_gains_more() {
    for (goodput, second) in [(34.5, true), (31.5, false)] {
        let more = Altered::MoreTokens(2048);
        let (mut steps, mut facts) = usual();
        next::started(&mut steps, &mut facts);
        facts.forecasts = vec![forecast(30.0, &[(more, goodput), (Altered::FasterCompute, 60.0)])];
        let findings = diagnose(&steps, &facts).findings;
        assert_eq!(findings[0].kind, Kind::PrefillBound);
        assert_eq!(findings[1].kind == Kind::SmallIterations, second, "{goodput}: {findings:?}");
        if second {
            let (advice, evidence) = (&findings[1].advice[0], &findings[1].evidence);
            assert!((advice.expected.unwrap().changed - goodput).abs() < 1e-9);
            assert!((evidence[0].value - 0.15).abs() < 1e-9, "its own gain: {evidence:?}");
        }
    }
}

#[test]
fn a_model_that_meets_no_rate_under_any_change_weighs_nothing() {
    let unknown = weighed(0.0, &[(Altered::MoreSequences(16), 0.0), (Altered::FasterCompute, 0.0)]);
    assert_eq!(unknown, weighed(0.0, &[]));
    assert!(unknown.contains(&Kind::BatchTooSmall), "{unknown:?}");
}

#[test]
fn more_replicas_are_no_advice_for_one_request_alone() {
    let advised = |step| {
        let (steps, mut facts) = usual();
        facts.lengths = lengths(&[(200.0, 8.0), (600.0, 15.0), (1200.0, 25.5)]);
        facts.curves[0].step = step;
        diagnose(&steps, &facts).findings.remove(0).advice
    };
    let replicas =
        |advice: &[Advice]| advice.iter().any(|a| a.change == DeploymentChange::MoreReplicas.into());
    assert!(replicas(&advised(3)));
    let alone = advised(1);
    assert!(!alone.is_empty() && !replicas(&alone), "{alone:?}");
}
