//! Every manifest has the fields of its kind, and no others. `tests/fixtures/k8s` has a schema for each kind with the fields that `deploy/`
//! uses: a new field belongs there first, with its type from the Kubernetes API reference.

use crate::{BASE, Manifest, manifests, read, root};
use goodput_run::fixture::json_schema::{Mutation, Validator};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;

const SCHEMAS: &str = "tests/fixtures/k8s";

/// The definitions that the schemas of all kinds share.
const COMMON: &str = "common";

fn validator(kind: &str) -> Validator {
    let parse = |name: &str| -> Value {
        serde_json::from_str(&read(&format!("{SCHEMAS}/{name}.json")))
            .unwrap_or_else(|e| panic!("{name}: {e}"))
    };
    let mut schema = parse(&kind.to_lowercase());
    schema["$defs"] = parse(COMMON)["$defs"].clone();
    Validator::new(&schema)
}

#[test]
fn every_manifest_has_the_fields_of_its_kind() {
    let all = manifests("deploy");
    for Manifest { file, value } in &all {
        assert_eq!(validator(value["kind"].as_str().unwrap()).error(value), None, "{file}");
    }
    let used: BTreeSet<String> = all.iter().map(|manifest| manifest.kind().to_lowercase()).collect();
    let names = fs::read_dir(root().join(SCHEMAS)).unwrap();
    let mut known: BTreeSet<String> =
        names.map(|e| e.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    assert!(known.remove(COMMON));
    assert_eq!(used, known, "the kinds of deploy/ (left) are not those of {SCHEMAS} (right)");
}

#[test]
fn unknown_keys_and_wrong_types_are_refused_everywhere() {
    for manifest in manifests("deploy") {
        let validator = validator(manifest.kind());
        for mutation in [Mutation::Added, Mutation::WrongType] {
            let unnoticed = mutation.unnoticed(&validator, &manifest.value);
            assert!(unnoticed.is_empty(), "{}: {unnoticed:?}", manifest.file);
        }
    }
}

#[test]
fn a_misspelt_key_is_refused_by_name() {
    let job = read(&format!("{BASE}/worker-job.yaml"));
    let validator = validator("Job");
    for (right, wrong) in [
        ("backoffLimitPerIndex", "backoffLimitPerIndx"),
        ("terminationGracePeriodSeconds", "terminationGracePeriod"),
        ("topologySpreadConstraints", "topologySpreadConstraint"),
        ("sysctls", "sysctl"),
        ("mountPath", "mountpath"),
        ("secretKeyRef", "secretKeyref"),
    ] {
        let misspelt: Value = serde_saphyr::from_str(&job.replace(right, wrong)).unwrap();
        let error = validator.error(&misspelt).unwrap_or_else(|| panic!("{wrong} was not noticed"));
        assert!(error.contains(wrong), "{wrong}: {error}");
    }
}

#[test]
fn values_that_the_api_refuses_are_refused() {
    let job = read(&format!("{BASE}/worker-job.yaml"));
    let validator = validator("Job");
    for (right, wrong) in [
        ("completionMode: Indexed", "completionMode: NonIndexed"),
        ("restartPolicy: Never", "restartPolicy: Always"),
        ("operator: DoesNotExist", "operator: DoesNotExist\n                    values: [\"true\"]"),
        ("cpu: \"4\"", "cpu: 4 cores"),
        ("value: 1024 65535", "value: 1024"),
        ("name: goodput-worker\n", "name: goodput_worker\n"),
    ] {
        assert!(job.contains(right), "{right}");
        let value: Value = serde_saphyr::from_str(&job.replace(right, wrong)).unwrap();
        assert!(validator.error(&value).is_some(), "{wrong}");
    }
}
