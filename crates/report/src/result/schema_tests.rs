use super::schema;
use crate::result::result;
use goodput_run::fixture;
use goodput_run::fixture::json_schema::{Mutation, Output, Validator, numbered, open_places};
use goodput_run::rundir::json as facts;
use serde_json::Value;
use std::collections::BTreeSet;

#[test]
fn every_result_is_described_with_and_without_its_english() {
    let output = Output::new(&schema());
    for (case, run) in fixture::every_kind() {
        output.check(&case, &result(&run));
        output.check(&case, &facts::result(&run));
    }
}

/// Returns the paths at which a change goes unnoticed in a result with English, but not in one without.
fn unnoticed(mutation: Mutation) -> String {
    let validator = Validator::new(&schema());
    let mut run = fixture::everything();
    run.steps.truncate(1);
    let paths = |value: Value| BTreeSet::from_iter(mutation.unnoticed(&validator, &value));
    let facts = paths(facts::result(&run));
    paths(result(&run)).difference(&facts).cloned().collect::<Vec<_>>().join("\n")
}

/// The snapshot has the English of caveats and findings, which a running sweep has not written yet.
#[test]
fn all_english_may_be_absent() {
    insta::assert_snapshot!(unnoticed(Mutation::Removed), @r"
    /caveats/*/advice
    /caveats/*/text
    /findings/*/advice
    /findings/*/changes
    /findings/*/evidence/*/text
    /findings/*/next/text
    /findings/*/title
    ");
}

#[test]
fn english_of_another_type_is_not_valid() {
    assert_eq!(unnoticed(Mutation::WrongType), "");
}

#[test]
fn the_schema_says_of_every_part_what_it_is() {
    let schema = schema();
    assert_eq!(schema["title"], "A result of goodput");
    assert_eq!(open_places(&schema), ["Meta/properties/plan"]);
    assert!(numbered(&schema).is_empty(), "two types of one name: {:?}", numbered(&schema));
    let is_english = |name: &&String| name.ends_with("English");
    assert_eq!(schema["$defs"].as_object().unwrap().keys().find(is_english), None);
}
