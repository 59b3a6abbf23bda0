use super::schema;
use crate::fixture;
use crate::fixture::json_schema::{Mutation, Output, Validator, numbered, open_places};
use crate::rundir::json::result;
use goodput_core::output_schema;
use serde_json::Value;

fn of_result() -> Value {
    schema(output_schema::generator())
}

/// The result of the run with all rare parts, with its first step alone.
fn everything() -> Value {
    let mut run = fixture::everything();
    run.steps.truncate(1);
    serde_json::from_str(&result(&run).to_string()).unwrap()
}

#[test]
fn every_result_is_described_in_full() {
    let output = Output::new(&of_result());
    for (case, run) in fixture::every_kind() {
        output.check(&case, &result(&run));
    }
}

/// Only the plan may be of any type.
#[test]
fn a_part_of_another_type_is_not_valid() {
    let validator = Validator::new(&of_result());
    insta::assert_snapshot!(Mutation::WrongType.unnoticed(&validator, &everything()).join("\n"), @r"
    /meta/plan
    /meta/plan/name
    ");
}

/// The snapshot has the keys that may be absent; all others are required.
#[test]
fn a_result_without_a_required_key_is_not_valid() {
    let validator = Validator::new(&of_result());
    insta::assert_snapshot!(Mutation::Removed.unnoticed(&validator, &everything()).join("\n"), @r"
    /answers/*/capacity/cost_limit
    /answers/*/slo_scale
    /capacity/cost_limit
    /caveats/*/caveat/input-length-off/class
    /caveats/*/caveat/input-length-off/series
    /caveats/*/caveat/lengths-not-pinned/class
    /caveats/*/caveat/lengths-not-pinned/series
    /meta/budget
    /meta/calibration
    /meta/calibration/streams
    /meta/environment
    /meta/environment/driver
    /meta/facts
    /meta/facts/*/engine
    /meta/facts/*/engines
    /meta/facts/*/exposed
    /meta/facts/*/exposed/finished
    /meta/facts/*/exposed/kv_use
    /meta/facts/*/exposed/running
    /meta/facts/*/exposed/tpot
    /meta/facts/*/exposed/ttft
    /meta/facts/*/exposed/waiting
    /meta/facts/*/flags
    /meta/facts/*/flags/block_size
    /meta/facts/*/flags/max_num_seqs
    /meta/facts/*/max_model_len
    /meta/facts/*/servers
    /meta/facts/*/version
    /meta/imported
    /meta/imported/left_out
    /meta/imported/settle
    /meta/imported/steps/*/reported/request_throughput
    /meta/imported/version
    /meta/left_alone
    /meta/left_alone/main
    /meta/plan
    /meta/plan/name
    /meta/resumed
    /meta/sent
    /meta/traffic
    /meta/variants
    /meta/variants/*/command
    /meta/variants/*/knobs
    /meta/variants/*/last_lines
    /meta/variants/*/log
    /meta/variants/*/model
    /meta/variants/*/noted
    /meta/variants/*/out_of_memory
    /meta/variants/*/ready_s
    /meta/variants/*/reason
    /meta/variants/*/server/simulated/faults
    /meta/variants/*/server/simulated/faults/stall
    /meta/variants/*/server/simulated/reasoning
    /meta/variants/*/server/simulated/settings
    /meta/words
    /meta/words/shared
    /meta/words/texts
    /meta/workers
    /recovery
    /roofline
    /sensitivity
    /steps/*/checks
    /steps/*/groups
    /steps/*/groups/*/e2e_ms
    /steps/*/groups/*/tpot_ms
    /steps/*/groups/*/ttft_ms
    /steps/*/host
    /steps/*/metrics
    /steps/*/server/client
    /steps/*/trace
    /steps/*/workers
    /tried
    /untold
    ");
}

/// Only the plan may have any key: its schema is that of `check --schema`.
#[test]
fn a_key_that_is_not_described_is_found() {
    let validator = Validator::closed(&of_result());
    insta::assert_snapshot!(Mutation::Added.unnoticed(&validator, &everything()).join("\n"), @"/meta/plan");
}

#[test]
fn the_schema_says_of_every_part_what_it_is() {
    let schema = of_result();
    assert_eq!(schema["title"], "A result of goodput");
    assert_eq!(open_places(&schema), ["Meta/properties/plan"]);
    assert!(numbered(&schema).is_empty(), "two types of one name: {:?}", numbered(&schema));
}
