//! Checks `docs/reports.md` against the files that are written.

use super::imported::COUNTED;
use super::json::result;
use super::requests::RequestRow;
use super::table::{Bucket, StepRow, TableRow, column_names};
use super::{FailureRow, Sample};
use crate::fixture;
use goodput_stats::stats::groups::Group;
use goodput_stats::stats::step::{CheckRow, LimitRow, MetricRow, Replica, ServerSide, Step};
use goodput_stats::stats::workers::StepWorker;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const PAGE: &str = include_str!("../../../../../docs/reports.md");

/// Expands braces: `{a,b}_x` to `a_x` and `b_x`, for any number of braces.
fn expanded(name: &str) -> Vec<String> {
    let Some((before, rest)) = name.split_once('{') else { return vec![name.to_owned()] };
    let (choices, after) = rest.split_once('}').unwrap_or((rest, ""));
    choices.split(',').flat_map(|c| expanded(&format!("{before}{c}{after}"))).collect()
}

/// Returns the texts between backticks.
fn names(text: &str) -> BTreeSet<String> {
    text.split('`').skip(1).step_by(2).flat_map(expanded).collect()
}

/// Returns the text of a section, or the line of a file in the other tables.
fn section(title: &str) -> String {
    let head = format!("## `{title}`\n");
    match PAGE.split_once(&head) {
        Some((_, rest)) => rest.split("\n## ").next().unwrap_or(rest).to_owned(),
        None => {
            let others = PAGE.split("## The other tables").nth(1).unwrap_or_default();
            let row = others.lines().find(|l| l.starts_with(&format!("| `{title}` |")));
            row.unwrap_or_else(|| panic!("docs/reports.md has nothing on {title}")).to_owned()
        }
    }
}

/// Returns the columns of every file with rows of steps.
fn columns() -> BTreeMap<&'static str, Vec<String>> {
    fn of<T: TableRow>() -> (&'static str, Vec<String>) {
        (T::FILE, column_names::<T>())
    }
    BTreeMap::from([
        of::<Step>(),
        of::<StepRow<LimitRow>>(),
        of::<StepRow<Group>>(),
        of::<StepRow<Replica>>(),
        of::<StepRow<StepWorker>>(),
        of::<StepRow<CheckRow>>(),
        of::<StepRow<MetricRow>>(),
        of::<StepRow<ServerSide>>(),
        of::<StepRow<Bucket>>(),
        of::<StepRow<Sample>>(),
        of::<FailureRow>(),
    ])
}

#[test]
fn every_column_is_documented() {
    // Latencies are documented once, under `steps.csv`.
    let of_latency = |n: &String| n.ends_with("_ms") || n.ends_with("_inflation");
    let latencies: BTreeSet<String> = names(&section("steps.csv")).into_iter().filter(of_latency).collect();
    for (file, heads) in columns() {
        let known = names(&section(file));
        let missing: Vec<&String> =
            heads.iter().filter(|h| !known.contains(*h) && !latencies.contains(*h)).collect();
        assert!(missing.is_empty(), "docs/reports.md lacks columns of {file}: {missing:?}");
    }
}

/// Every name in the first cell of a table row is a column.
#[test]
fn no_column_is_documented_that_is_not_there() {
    let columns = columns();
    for file in ["steps.csv", "limits.csv"] {
        for row in section(file).lines().filter(|l| l.starts_with("| `")) {
            let cell = row.split(" | ").next().unwrap_or_default();
            for name in names(cell) {
                assert!(columns[file].contains(&name), "{file} has no {name}");
            }
        }
    }
}

/// Covers files whose columns are not those of a table of steps.
#[test]
fn requests_and_what_was_imported_are_documented() {
    let requests = names(&section("requests.csv"));
    for column in column_names::<RequestRow>() {
        assert!(requests.contains(&column), "docs/reports.md lacks {column} of requests.csv");
    }
    assert!(["step", "id", "output_tokens"].iter().all(|c| names(&section(COUNTED)).contains(*c)));
}

#[test]
fn every_field_of_the_result_is_documented() {
    let known = names(&section("result.json"));
    let told = |path: &str| known.contains(path) || known.iter().any(|k| k.ends_with(&format!(".{path}")));
    let check = |value: &Value, what: &str| {
        for key in value.as_object().into_iter().flat_map(|o| o.keys()) {
            let of_step = what == "steps" && names(&section("steps.csv")).contains(key);
            let latency = what == "steps" && key.ends_with("_ms");
            assert!(told(key) || of_step || latency, "docs/reports.md lacks {what}.{key} of result.json");
        }
    };
    for (case, run) in fixture::cases().into_iter().chain([("everything", fixture::everything())]) {
        let value = result(&run);
        check(&value, case);
        check(&value["meta"]["imported"], "meta.imported");
        check(&value["capacity"]["cost_limit"], "capacity.cost_limit");
        check(&value["answers"][0]["slo_scale"], "answers.slo_scale");
        check(&value["meta"], "meta");
        check(&value["goodput"], "goodput");
        check(&value["capacity"], "capacity");
        check(&value["sensitivity"], "sensitivity");
        for effect in value["sensitivity"]["effects"].as_array().into_iter().flatten() {
            check(effect, "sensitivity.effects");
        }
        for recovery in value["recovery"].as_array().into_iter().flatten() {
            check(recovery, "recovery");
            check(&recovery["outcome"], "recovery.outcome");
        }
        for list in ["answers", "steps", "findings", "untold", "pairs", "matrix"] {
            for one in value[list].as_array().into_iter().flatten() {
                check(one, list);
            }
        }
    }
}
