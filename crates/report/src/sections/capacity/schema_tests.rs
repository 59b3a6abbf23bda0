use super::tests::{given, measured, of};
use super::{Capacity, json, refused::Refused, schema};
use goodput_run::fixture::json_schema::{Mutation, Output, Validator, numbered, open_places};
use goodput_stats::capacity::Demand;
use goodput_stats::capacity::demand::{Busiest, Hour, Peak, Source};
use goodput_stats::capacity::fleet::Reserve;
use goodput_stats::capacity::sizing::{Candidate, Sizing, ranked};
use goodput_stats::capacity::workload_change::WorkloadChange;
use goodput_stats::stats::elasticity::Elasticity;
use goodput_workload::factors::{Factor, FactorKind};
use goodput_workload::trace::Dispersion;

/// Returns the capacity of a candidate with every rare part for a demand.
fn everything(demand: Demand) -> Capacity {
    let reserve = Reserve { headroom: 2.0, spares: 1 };
    let mut candidate = measured(reserve, 1.0).all.swap_remove(0).candidate;
    for replica in [Some(&mut candidate.goodput), candidate.safe.as_mut()].into_iter().flatten() {
        (replica.watts, replica.energy_price) = (Some(300.0), Some(0.25));
    }
    candidate.max_cost_per_mtok = Some(0.13);
    candidate.notes = vec!["a note".into()];
    let factor = Factor { kind: FactorKind::PromptLength, class: Some("short".into()) };
    let elasticity = Elasticity { value: -1.0, interval90: Some([-1.3, -0.7]) };
    candidate.moved = vec![WorkloadChange::of(&factor, &elasticity)];
    let refused = Refused { name: "b".into(), why: "undecided".into(), advice: "measure".into() };
    let all = ranked(vec![Sizing::of(candidate, &demand, &reserve)]);
    Capacity { demand, reserve, all, refused: vec![refused], explain: true }
}

/// Returns the demand of a day with one busy hour.
fn hours() -> Demand {
    let hours = (0..24).map(|h| Hour { name: h.to_string(), rate: if h == 14 { 100.0 } else { 10.0 } });
    Demand::of_hours(hours.collect(), "hours.csv".into())
}

/// Returns the demand of a trace.
fn trace() -> Demand {
    let busiest = Busiest { width_s: 60.0, from_s: 120.0, requests: 600, rate: 10.0, peak_to_mean: 2.0 };
    let source = Source::Trace {
        title: "trace.csv".into(),
        requests: 3000,
        span_s: 600.0,
        shape_only: false,
        dispersion: Some(Dispersion { width_s: 10.0, intervals: 60, index: Some(4.0), peak_rate: 9.0 }),
    };
    Demand { source, peak: Peak::Busiest(busiest), ..Demand::of_rate(5.0, 2.0) }
}

fn capacities() -> Vec<(&'static str, Capacity)> {
    let reserve = Reserve { headroom: 2.0, spares: 1 };
    let open = |c: Candidate| Candidate { safe: None, ..c };
    let bare = of(vec![open(measured(reserve, 3.0).all.swap_remove(0).candidate)], reserve, 3.0);
    vec![
        ("given", given(reserve, 1.0)),
        ("measured", measured(reserve, 3.0)),
        ("brief", Capacity { explain: false, ..measured(reserve, 3.0) }),
        ("without a safe rate", bare),
        ("without a candidate", of(Vec::new(), reserve, 1.0)),
        ("hours", everything(hours())),
        ("scaled hours", everything(hours().scaled_to("5M".parse().unwrap()))),
        ("trace", everything(trace())),
        ("rate", everything(Demand::of_rate(100.0, 1.0))),
    ]
}

#[test]
fn every_capacity_is_described_in_full() {
    let output = Output::new(&schema());
    for (case, capacity) in capacities() {
        output.check(case, &json(&capacity));
    }
}

/// The snapshot has the keys that may be absent; all others are required.
#[test]
fn what_is_not_as_described_is_not_valid() {
    let schema = schema();
    let (open, closed) = (Validator::new(&schema), Validator::closed(&schema));
    let value = json(&everything(hours()));
    assert!(Mutation::WrongType.unnoticed(&open, &value).is_empty());
    assert!(Mutation::Added.unnoticed(&closed, &value).is_empty());
    insta::assert_snapshot!(Mutation::Removed.unnoticed(&open, &value).join("\n"), @r"
    /candidates/*/bands/*/class
    /candidates/*/candidate/moved/*/class
    /formulas
    ");
}

#[test]
fn the_schema_says_of_every_part_what_it_is() {
    let schema = schema();
    assert_eq!(schema["title"], "A capacity of goodput");
    assert!(open_places(&schema).is_empty(), "{:?}", open_places(&schema));
    assert!(numbered(&schema).is_empty(), "two types of one name: {:?}", numbered(&schema));
}
