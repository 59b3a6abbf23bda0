//! Checks of answers: counted apart in every file of a run, and read back from them.

use crate::common::{goodput, result};
use goodput::plan::Plan;
use std::fs;
use std::path::Path;

/// The simulated server answers with words: ` the rate of a server is`.
const CHECKS: &str = "[[check]]\nname = \"says something\"\nnon-empty = true\n[[check]]\nname = \"begins well\"\nregex = '^ the rate'\n\
                      [[check]]\nname = \"is json\"\njson-schema = \"schema.json\"\n";

fn plan(server: &str, more: &str) -> String {
    format!(
        "name = \"checked\"\n[server]\nsimulated = {{ preset = \"demo\" }}\nwarmup-requests = 2\n{server}\n[slo]\n\
         ttft.p90 = \"500ms\"\n[workload.prompts.synthetic]\ninput-tokens = {{ fixed = 40 }}\n\
         output-tokens = {{ fixed = 6 }}\n[step]\nsettle = \"1s\"\nmeasure = \"10s\"\n[search]\nrates = [5, 10]\n{more}"
    )
}

fn sweep(dir: &Path, plan: &str) -> (String, serde_json::Value) {
    fs::write(dir.join("plan.toml"), plan).unwrap();
    fs::write(dir.join("schema.json"), "{\"type\": [\"object\", \"null\"]}").unwrap();
    let done =
        goodput().current_dir(dir).args(["sweep", "plan.toml", "--out", "run", "--virtual-time"]).assert();
    let said = String::from_utf8_lossy(&done.get_output().stdout).into_owned();
    (said, result(&dir.join("run")))
}

#[test]
fn checks_are_counted_apart_and_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let (said, first) = sweep(dir.path(), &plan("", CHECKS));
    let run = dir.path().join("run");
    let steps = first["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 2);
    for step in steps {
        let n = step["completed"].as_u64().unwrap();
        assert!(n > 30 && step["failed"] == 0, "{step}");
        let checks = step["checks"].as_array().unwrap();
        let told: Vec<_> = checks
            .iter()
            .map(|c| (c["check"].as_str().unwrap(), c["n"].as_u64(), c["failed"].as_u64()))
            .collect();
        assert_eq!(
            told,
            [
                ("says something", Some(n), Some(0)),
                ("begins well", Some(n), Some(0)),
                ("is json", Some(n), Some(n))
            ]
        );
        assert_eq!(checks[2]["sample"], " the rate of a server is");
    }
    assert!(said.contains("begins well: 100 % of") && said.contains("is json: 0 % of"), "{said}");
    let rows = fs::read_to_string(run.join("checks.csv")).unwrap();
    assert!(
        rows.starts_with("series,step,class,check,n,failed,sample\nmain,1,all,says something,"),
        "{rows}"
    );
    let requests = fs::read_to_string(run.join("requests.csv")).unwrap();
    assert!(requests.lines().any(|l| l.contains(",measure,") && l.ends_with(",false,,0,,,,")));
    let report = fs::read_to_string(run.join("report.md")).unwrap();
    assert!(report.contains("## Answer checks") && report.contains("came all the same"), "{report}");
    // All of it again from the files alone; the schema stands in the plan of the run.
    fs::remove_file(dir.path().join("schema.json")).unwrap();
    goodput().current_dir(dir.path()).args(["report", "run"]).assert().success();
    assert_eq!(result(&run)["steps"], first["steps"]);
    assert_eq!(fs::read_to_string(run.join("report.md")).unwrap(), report);
    // A folder of a version that knew no checks.
    fs::remove_file(run.join("checks.csv")).unwrap();
    goodput().current_dir(dir.path()).args(["report", "run"]).assert().success();
    assert!(!fs::read_to_string(run.join("report.md")).unwrap().contains("Answer checks"));
}

#[test]
fn a_plan_without_checks_has_no_file_of_them() {
    let dir = tempfile::tempdir().unwrap();
    sweep(dir.path(), &plan("", ""));
    assert!(!dir.path().join("run/checks.csv").exists());
}

/// Row: what is added to the plan, and what the message must say.
#[test]
fn mistakes_are_told_before_anything_is_sent() {
    let twice = "[[check]]\nname = \"a\"\nnon-empty = true\n[[check]]\nname = \"a\"\nregex = 'x'\n";
    for (server, more, say) in [
        ("", twice, "two [[check]] are named \"a\""),
        ("", "[[check]]\nname = \"a\"\nregex = '('\n", "does not parse"),
        ("", "[[check]]\nname = \"a\"\njson-schema = 'nowhere.json'\n", "nowhere.json"),
        ("prompts = \"token-ids\"", "", "api = \"completions\""),
        ("prompts = \"token-ids\"\ntokenizer = \"t.json\"", "", "api = \"completions\""),
        ("api = \"completions\"\nprompts = \"token-ids\"", "", "tokenizer = \"tokenizer.json\""),
    ] {
        let e = Plan::from_text(&plan(server, more)).unwrap_err().to_string();
        assert!(e.contains(say), "{server} {more}: {e}");
    }
}

#[cfg(not(feature = "tokenizer"))]
#[test]
fn a_build_without_the_tokenizer_says_so() {
    let e = Plan::from_text(&plan("tokenizer = \"tokenizer.json\"", "")).unwrap_err().to_string();
    assert!(e.contains("--features tokenizer"), "{e}");
}

/// Prompts of token ids have exactly the length asked for, by the server's own count.
#[cfg(feature = "tokenizer")]
#[test]
fn prompts_of_token_ids_are_exact() {
    let dir = tempfile::tempdir().unwrap();
    let tokenizer = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/tokenizer.json");
    let server = format!("api = \"completions\"\nprompts = \"token-ids\"\ntokenizer = \"{tokenizer}\"");
    let plan = plan(&server, "")
        .replace("input-tokens = { fixed = 40 }", "input-tokens = { uniform = { min = 3, max = 90 } }");
    let (_, result) = sweep(dir.path(), &plan);
    assert_eq!(result["steps"][0]["failed"], 0, "{result}");
    let mut reader = csv::Reader::from_path(dir.path().join("run/requests.csv")).unwrap();
    let heads = reader.headers().unwrap().clone();
    let at = |name: &str| heads.iter().position(|h| h == name).unwrap();
    let (asked, got) = (at("input_asked"), at("input_tokens"));
    let mut different = std::collections::HashSet::new();
    for row in reader.records().map(Result::unwrap).filter(|r| !r[got].is_empty()) {
        assert_eq!(row[asked], row[got]);
        different.insert(row[got].to_owned());
    }
    assert!(different.len() > 10, "{different:?}");
}
