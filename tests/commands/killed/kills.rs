//! Sweeps that are killed (`kill -9`) repeatedly at random moments until they finish: no file is ever corrupt, no step
//! that was in `steps.csv` is lost or changes, and in simulated time the answer is that of an undisturbed sweep.

use crate::common::{goodput, result};
use goodput::plan::Plan;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use tempfile::tempdir;

/// Maximum number of kills per sweep.
const MOST: u32 = 12;
/// Maximum number of kills after all steps are measured: otherwise, most would hit the reports, which take longer than
/// a sweep in simulated time.
const MOST_AT_THE_END: u32 = 2;
/// Number of steps of a sweep in real time.
const REAL_STEPS: usize = 4;

/// The moment of a kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Moment {
    /// Right after the start.
    Start,
    /// Any time.
    Within,
    /// Just after a step was written.
    StepEnd,
    /// While reports are written.
    Report,
}

/// A reproducible random number generator (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        for shift in [13_i32, -7, 17] {
            self.0 ^= if shift > 0 { self.0 << shift } else { self.0 >> -shift };
        }
        self.0 % n
    }

    fn wait(&mut self, most_ms: u64) {
        std::thread::sleep(Duration::from_millis(self.below(most_ms + 1)));
    }

    fn moment(&mut self) -> Moment {
        [Moment::Start, Moment::Within, Moment::Within, Moment::StepEnd, Moment::Report]
            [self.below(5) as usize]
    }
}

/// Counts of kills and their effects.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Number of kills.
    pub(crate) kills: u32,
    /// Number of sweeps that finished.
    pub(crate) sweeps: u32,
    /// Number of kills by phase of the sweep, judged by the files on disk.
    pub(crate) fell: BTreeMap<String, u32>,
    /// Number of torn last rows that `report` reported, by file.
    pub(crate) torn: BTreeMap<String, u32>,
    /// Number of kills that left a temporary file of an incomplete replacement.
    pub(crate) half_replaced: u32,
}

/// A plan, and the result of its undisturbed sweep.
struct Case {
    plan: PathBuf,
    virtual_time: bool,
    steps: usize,
    whole: Option<Value>,
}

impl Case {
    /// A sweep in simulated time on a deterministic queue, so that results are identical to the last request.
    fn simulated(dir: &Path) -> Self {
        let plan = dir.join("virtual.toml");
        let text = "name = \"md1\"\nseed = 3\n[server]\nsimulated = { preset = \"md1\", service = \"5ms\" }\nwarmup-requests = 3\n\
                    [slo]\nttft.p99 = \"20ms\"\n[workload.prompts.synthetic]\ninput-tokens = { uniform = { min = 20, max = 60 } }\n\
                    output-tokens = { fixed = 2 }\n[step]\nsettle = \"1s\"\nmeasure = \"5s\"\n[search]\nmax-rate = 500\n\
                    adaptive = { budget = \"150s\" }\n";
        fs::write(&plan, text).unwrap();
        let run = dir.join("whole");
        let mut command = goodput();
        command
            .timeout(Duration::from_secs(600))
            .args(["sweep", "--no-charts", "--virtual-time", "--out"])
            .arg(&run)
            .arg(&plan);
        command.assert().code(0);
        let whole = result(&run);
        assert_eq!(whole["goodput"]["status"], "found");
        Self { plan, virtual_time: true, steps: whole["steps"].as_array().unwrap().len(), whole: Some(whole) }
    }

    /// A sweep in real time.
    fn real(dir: &Path) -> Self {
        let plan = dir.join("real.toml");
        let text = "name = \"real\"\n[server]\nsimulated = { preset = \"fixed\", ttft = \"5ms\", tpot = \"1ms\" }\nwarmup-requests = 2\n\
                    [slo]\nttft.p90 = \"100ms\"\n[workload.prompts.synthetic]\ninput-tokens = { fixed = 40 }\noutput-tokens = { fixed = 6 }\n\
                    [step]\nsettle = \"100ms\"\nmeasure = \"600ms\"\ndrain = \"1s\"\n[search]\nrates = [50, 60, 70, 80]\n";
        fs::write(&plan, text).unwrap();
        Self { plan, virtual_time: false, steps: REAL_STEPS, whole: None }
    }

    fn begin(&self, run: &Path) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("goodput"));
        command.args(["sweep", "--no-charts"]);
        if run.join("result.json").is_file() {
            command.arg("--resume").arg(run);
        } else {
            // There is no result yet, so there is nothing to resume.
            command.arg("--force").arg("--out").arg(run).arg(&self.plan);
            command.args(self.virtual_time.then_some("--virtual-time"));
        }
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}

/// Returns the complete rows of `steps.csv`.
fn rows(run: &Path) -> Vec<String> {
    let text = fs::read_to_string(run.join("steps.csv")).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |at| &text[..=at]);
    whole.lines().skip(1).map(str::to_owned).collect()
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().map(|e| e.unwrap().path());
    entries.flat_map(|p| if p.is_dir() { files(&p) } else { vec![p] }).collect()
}

fn half_replaced(run: &Path) -> Vec<PathBuf> {
    files(run).into_iter().filter(|p| p.extension().is_some_and(|e| e == "tmp")).collect()
}

/// Waits for the moment of the kill, or until the sweep exits by itself.
fn wait(dice: &mut Dice, moment: Moment, child: &mut Child, run: &Path, steps: usize) -> Option<ExitStatus> {
    let had = rows(run).len();
    let over = |child: &mut Child| child.try_wait().unwrap();
    match moment {
        Moment::Start => dice.wait(80),
        Moment::Within => dice.wait(3_000),
        Moment::StepEnd | Moment::Report => {
            let wanted = if moment == Moment::Report { steps } else { (had + 1).min(steps) };
            while rows(run).len() < wanted {
                if let Some(status) = over(child) {
                    return Some(status);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            dice.wait(if moment == Moment::Report { 1_500 } else { 6 });
        }
    }
    over(child)
}

/// Checks that every file of a run is complete: JSON parses, table rows have all cells, and pictures are valid.
fn is_whole(run: &Path) {
    for path in files(run) {
        let bytes = fs::read(&path).unwrap();
        match path.extension().and_then(|e| e.to_str()) {
            Some("json") => drop(serde_json::from_slice::<Value>(&bytes).unwrap()),
            Some("csv") => {
                assert!(bytes.is_empty() || bytes.ends_with(b"\n"), "{}", path.display());
                csv::Reader::from_reader(&*bytes).records().for_each(|r| drop(r.unwrap()));
            }
            Some("png") => assert!(bytes.starts_with(b"\x89PNG") && bytes.windows(4).any(|w| w == b"IEND")),
            Some("svg") => assert!(bytes.trim_ascii_end().ends_with(b"</svg>")),
            Some("html") => assert!(bytes.trim_ascii_end().ends_with(b"</html>")),
            Some("toml") => drop(Plan::from_text(std::str::from_utf8(&bytes).unwrap()).unwrap()),
            Some("md") => assert!(!bytes.is_empty()),
            _ => panic!("{} has no business here", path.display()),
        }
    }
    assert_eq!(half_replaced(run), Vec::<PathBuf>::new());
}

/// Checks the folder of a sweep that was just killed: `report` makes a report of it, and no earlier step is lost.
fn is_sound(run: &Path, kept: &[String], tally: &mut Tally) {
    let now = rows(run);
    assert!(now.starts_with(kept), "no step that was written is lost, or changes: {kept:?}, {now:?}");
    if !run.join("result.json").is_file() {
        goodput()
            .arg("report")
            .arg(run)
            .assert()
            .code(1)
            .stderr(predicates::str::contains("is not a run folder"));
        return;
    }
    result(run);
    goodput().timeout(Duration::from_secs(600)).arg("report").arg(run).assert().success();
    let result = result(run);
    assert_eq!(result["schema"], "goodput/1");
    assert_eq!(result["steps"].as_array().unwrap().len(), now.len(), "every step that stands is reported");
    assert_eq!(rows(run), now, "a report changes no table");
    for caveat in result["caveats"].as_array().unwrap() {
        if let Some(file) = caveat["caveat"]["torn-row"]["file"].as_str() {
            *tally.torn.entry(file.to_owned()).or_default() += 1;
        }
    }
}

/// Returns the steps without the time of day.
fn steps(result: &Value) -> Vec<Value> {
    let mut steps = result["steps"].as_array().unwrap().clone();
    steps.iter_mut().for_each(|s| drop(s.as_object_mut().unwrap().remove("started_at")));
    steps
}

/// Returns the phase of the sweep at a kill, judged by the files it left.
fn fell(run: &Path, case: &Case) -> String {
    let now = rows(run).len();
    match (run.join("result.json").is_file(), now) {
        (false, _) if !run.is_dir() => "before the folder was made".into(),
        (false, _) => "before there was a result".into(),
        (true, 0) => "before the first step was written".into(),
        (true, n) if n < case.steps => "between the first and the last step".into(),
        (true, _) => "after the last step".into(),
    }
}

/// Runs one sweep to its end, with at most this number of kills.
fn one(case: &Case, run: &Path, kills: u32, dice: &mut Dice, tally: &mut Tally) {
    let mut kept: Vec<String> = Vec::new();
    let (mut left, mut at_the_end) = (kills.min(MOST), 0);
    while left > 0 && at_the_end < MOST_AT_THE_END {
        let mut child = case.begin(run).spawn().unwrap();
        let moment = dice.moment();
        let over = wait(dice, moment, &mut child, run, case.steps);
        if over.is_none() {
            // Killing a process that has just exited does nothing.
            let _ = child.kill();
            child.wait().unwrap();
            (tally.kills, left) = (tally.kills + 1, left - 1);
            *tally.fell.entry(format!("{}, {moment:?}", fell(run, case))).or_default() += 1;
            tally.half_replaced += u32::from(!half_replaced(run).is_empty());
        }
        is_sound(run, &kept, tally);
        kept = rows(run);
        at_the_end += u32::from(kept.len() == case.steps);
        if over.is_some() {
            break;
        }
    }
    let status = case.begin(run).status().unwrap();
    assert!(!matches!(status.code(), None | Some(1 | 130)), "{status}");
    assert!(rows(run).starts_with(&kept), "no step that was written is lost, or changes");
    is_whole(run);
    let result = result(run);
    let numbers: Vec<u64> =
        result["steps"].as_array().unwrap().iter().map(|s| s["step"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=case.steps as u64).collect::<Vec<_>>());
    if let Some(whole) = &case.whole {
        assert_eq!(steps(whole), steps(&result), "each step is what it would have been");
        assert_eq!(whole["answers"], result["answers"], "and so is the answer");
    }
    tally.sweeps += 1;
}

/// Performs `n` kills on sweeps in simulated time and, with `real`, as many in real time.
pub(crate) fn kills(n: u32, real: bool, seed: u64) -> Tally {
    let dir = tempdir().unwrap();
    let mut cases = vec![Case::simulated(dir.path())];
    cases.extend(real.then(|| Case::real(dir.path())));
    let (mut dice, mut tally) = (Dice(seed | 1), Tally::default());
    for round in 0.. {
        if tally.kills >= n {
            break;
        }
        let run = dir.path().join(format!("run-{round}"));
        let left = n - tally.kills;
        one(&cases[round % cases.len()], &run, left, &mut dice, &mut tally);
        fs::remove_dir_all(&run).unwrap();
    }
    tally
}
