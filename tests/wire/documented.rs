//! Checks that `docs/faults.md` has a row for every fault, made from the expectations that
//! [`simulated`](crate::simulated) verifies.

use crate::simulated::expected;
use goodput::record::Failure;
use goodput::sim::fault::Fault;
use std::path::Path;

const BEGIN: &str = "<!-- begin: made by a test -->\n";
const END: &str = "<!-- end -->\n";

/// Returns the description of a fault from the doc comments of the enum.
fn said(schema: &serde_json::Value, fault: Fault) -> String {
    let all = schema["oneOf"].as_array().unwrap();
    let one = all.iter().find(|v| v["const"] == fault.name()).unwrap();
    one["description"].as_str().unwrap().replace('\n', " ").replace("[`", "`").replace("`]", "`")
}

fn table() -> String {
    let schema = schemars::schema_for!(Fault).to_value();
    let mut out = String::from(
        "| fault | what the server does | outcome | status | sent | counts as | in virtual time |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for fault in Fault::ALL {
        let want = expected(fault);
        let kinds: Vec<&str> = want.failures.iter().map(|f: &Failure| f.name()).collect();
        let outcome = match &kinds[..] {
            [] => "ok".to_owned(),
            kinds => format!("failed: `{}`", kinds.join("` or `")),
        };
        let status = want.status.map_or("–".to_owned(), |s| s.to_string());
        let sent = if want.attempts == 1 { "once" } else { "twice" };
        let counts = match want.failures {
            [] => "what its times say",
            [Failure::Timeout] => "what is known by then; an error where the plan sets the timeout",
            _ => "a miss of every limit, and an error",
        };
        let virtual_time = if fault.needs_socket() { "no" } else { "yes" };
        out += &format!(
            "| `{}` | {} | {outcome} | {status} | {sent} | {counts} | {virtual_time} |\n",
            fault.name(),
            said(&schema, fault)
        );
    }
    out
}

#[test]
fn every_fault_has_its_row() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/faults.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the page has a place for the table");
    let (_, after) = rest.split_once(END).expect("the place has an end");
    let new = [before, BEGIN, &table(), END, after].concat();
    if std::env::var_os("GOODPUT_WRITE_DOCS").is_some() {
        std::fs::write(&path, &new).unwrap();
    } else {
        assert!(
            new == text,
            "docs/faults.md is not what the tests see: GOODPUT_WRITE_DOCS=1 cargo test --test wire documented"
        );
    }
}

/// Every test named on the page exists.
#[test]
fn the_tests_that_are_named_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("docs/faults.md")).unwrap();
    let mut found = 0;
    for name in page.split('`').filter_map(|word| word.split_once("::")) {
        let (file, test) = name;
        let path = root.join(format!("{file}.rs"));
        let Ok(source) = std::fs::read_to_string(&path) else {
            panic!("{} is named and not there", path.display())
        };
        assert!(source.contains(&format!("fn {test}(")), "{file} has no test {test}");
        found += 1;
    }
    assert!(found >= 15, "{found}");
}
