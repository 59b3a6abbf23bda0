//! Checks that a run folder accounts for every request: each one due is completed, failed with a kind, or cancelled,
//! consistently in all files.
//!
//! Also for a soak: `GOODPUT_ACCOUNT=runs/soak cargo test --test wire accounts -- --ignored --nocapture`.

use std::collections::BTreeMap;
use std::path::Path;

/// The outcomes of the requests of a step.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) due: u64,
    pub(crate) completed: u64,
    pub(crate) cut: u64,
    /// Cancelled requests that reached the default timeout, by kind and status.
    pub(crate) cut_by: BTreeMap<(String, String), u64>,
    /// Failed requests, by kind and status.
    pub(crate) failed: BTreeMap<(String, String), u64>,
}

impl Account {
    pub(crate) fn failures(&self) -> u64 {
        self.failed.values().sum()
    }

    /// Returns the number of failures of a kind.
    pub(crate) fn of(&self, kind: &str) -> u64 {
        self.failed.iter().filter(|((k, _), _)| k == kind).map(|(_, n)| n).sum()
    }
}

/// Returns the rows of a file as maps from column to cell.
fn rows(run: &Path, file: &str) -> impl Iterator<Item = BTreeMap<String, String>> {
    csv::Reader::from_path(run.join(file)).unwrap().into_deserialize().map(|row| row.unwrap())
}

/// Returns the accounts of the steps of a run by step number, over all phases.
///
/// # Panics
/// The files contradict each other.
pub(crate) fn accounts(run: &Path) -> BTreeMap<u64, Account> {
    let number = |text: &str| text.parse::<u64>().unwrap();
    let (mut all, mut measured) = (BTreeMap::<u64, Account>::new(), BTreeMap::<u64, [u64; 4]>::new());
    for row in rows(run, "requests.csv") {
        let step = number(&row["step"]);
        let account = all.entry(step).or_default();
        account.due += 1;
        let at = match row["outcome"].as_str() {
            "ok" => {
                account.completed += 1;
                1
            }
            "failed" => {
                assert!(!row["failure"].is_empty(), "a failure has a kind: {row:?}");
                *account.failed.entry((row["failure"].clone(), row["status"].clone())).or_default() += 1;
                2
            }
            "cut" => {
                account.cut += 1;
                if !row["failure"].is_empty() {
                    *account.cut_by.entry((row["failure"].clone(), row["status"].clone())).or_default() += 1;
                }
                3
            }
            other => panic!("{other} is no outcome: {row:?}"),
        };
        if row["phase"] == "measure" {
            let counts = measured.entry(step).or_default();
            counts[0] += 1;
            counts[at] += 1;
        }
    }
    let mut failures = BTreeMap::<u64, BTreeMap<(String, String), u64>>::new();
    for row in rows(run, "failures.csv") {
        let kinds = failures.entry(number(&row["step"])).or_default();
        *kinds.entry((row["kind"].clone(), row["status"].clone())).or_default() += number(&row["count"]);
    }
    let mut steps = 0;
    for row in rows(run, "steps.csv") {
        let step = number(&row["step"]);
        let told = ["due_n", "completed", "failed", "cut"].map(|column| number(&row[column]));
        assert_eq!(told[0], told[1] + told[2] + told[3], "step {step}: due = completed + failed + cut");
        assert_eq!(Some(&told), measured.get(&step), "step {step}: steps.csv and requests.csv");
        let account = &all[&step];
        assert_eq!(account.due, account.completed + account.failures() + account.cut, "step {step}");
        let mut kinds = account.failed.clone();
        for (kind, n) in &account.cut_by {
            *kinds.entry(kind.clone()).or_default() += n;
        }
        assert_eq!(failures.get(&step).unwrap_or(&BTreeMap::new()), &kinds, "step {step}: failures.csv");
        steps += 1;
    }
    assert!(steps > 0, "no step was measured");
    all
}

#[test]
#[ignore = "looks at a run that GOODPUT_ACCOUNT names"]
fn every_request_of_a_run_is_accounted_for() {
    let Some(run) = std::env::var_os("GOODPUT_ACCOUNT") else { return };
    for (step, account) in accounts(Path::new(&run)) {
        let Account { due, completed, cut, .. } = account;
        println!(
            "step {step}: {due} due = {completed} completed + {} failed + {cut} cut",
            account.failures()
        );
        for ((kind, status), n) in &account.failed {
            println!("    {n} {kind} {status}");
        }
    }
}
