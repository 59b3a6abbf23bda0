use super::{content, schema};
use goodput_core::caveat::ServerCaveat;
use goodput_run::compare::gate::Gate;
use goodput_run::compare::{Comparison, Group, Side, compare, compare_groups};
use goodput_run::fixture;
use goodput_run::fixture::json_schema::{Mutation, Output, Validator, numbered, open_places};
use serde_json::Value;

/// Adds the outcome of gates on a figure of the run, on a latency and on one that was not measured.
fn with_gates(mut comparison: Comparison) -> Comparison {
    let gates = ["goodput >= -5%", "ttft.p99 <= +10%", "ttft.p99@pooled <= +10%", "cost-per-mtok <= 0%"];
    let gates = gates.map(|text| Gate::parse(text).unwrap());
    comparison.gates = gates.iter().flat_map(|gate| gate.judge(&comparison)).collect();
    comparison.asked = vec!["runs/a".into(), "runs/b".into()];
    comparison
}

/// Two groups of two runs.
fn groups() -> Comparison {
    let sides = fixture::pair_sides();
    let group = |side: &Side| Group { label: side.label.clone(), runs: vec![side.clone(), side.clone()] };
    compare_groups(&sides.iter().map(group).collect::<Vec<_>>(), true).unwrap()
}

fn comparisons() -> Vec<(&'static str, Comparison)> {
    let sides = fixture::pair_sides();
    let compared = |sides: &[Side]| with_gates(compare(sides, true).unwrap());
    let changed = |change: fn(&mut Side)| {
        let mut sides = sides.clone();
        change(&mut sides[1]);
        compared(&sides)
    };
    let mut turns = sides.clone();
    turns.iter_mut().for_each(|side| side.alternating = true);
    vec![
        ("pair", compared(&sides)),
        ("turns", compared(&turns)),
        ("groups", with_gates(groups())),
        ("three sides", compared(&[sides[0].clone(), sides[1].clone(), sides[0].clone()])),
        ("gone", changed(|side| side.run.caveats.push(ServerCaveat::ServerGone { step: 3 }.into()))),
        ("unlike", changed(|side| side.run.meta.slo = "p99 TTFT ≤ 1 s".into())),
        ("no steps", changed(|side| side.run.steps.clear())),
    ]
}

#[test]
fn every_comparison_is_described_in_full() {
    let output = Output::new(&schema());
    for (case, comparison) in comparisons() {
        output.check(case, &content(&comparison));
    }
}

/// The snapshot has the keys that may be absent; all others are required.
#[test]
fn what_is_not_as_described_is_not_valid() {
    let schema = schema();
    let (open, closed) = (Validator::new(&schema), Validator::closed(&schema));
    let value: Value =
        serde_json::from_str(&serde_json::to_string(&content(&with_gates(groups()))).unwrap()).unwrap();
    assert!(Mutation::WrongType.unnoticed(&open, &value).is_empty());
    assert!(Mutation::Added.unnoticed(&closed, &value).is_empty());
    insta::assert_snapshot!(Mutation::Removed.unnoticed(&open, &value).join("\n"), @r"
    /rows/*/each
    /runs
    ");
}

#[test]
fn the_schema_says_of_every_part_what_it_is() {
    let schema = schema();
    assert_eq!(schema["title"], "A comparison of goodput");
    assert!(open_places(&schema).is_empty(), "{:?}", open_places(&schema));
    assert!(numbered(&schema).is_empty(), "two types of one name: {:?}", numbered(&schema));
}
