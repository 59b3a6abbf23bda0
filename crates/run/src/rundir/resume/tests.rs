use super::*;
use crate::fixture;
use crate::rundir::{PLAN, RESULT, Run, Writer, check_free, json};
use goodput_core::record::Finished;
use goodput_core::record::{Outcome, Phase};
use std::path::PathBuf;
use std::time::Duration;
use tempfile::{TempDir, tempdir};

const PLAN_TOML: &str = "name = \"x\"\nserver.url = \"http://127.0.0.1:1\"\nslo.ttft.p99 = \"200ms\"\nsearch.rates = [1, 2, 3, 4]\n\
                         workload.prompts.synthetic = { input-tokens.fixed = 5, output-tokens.fixed = 3 }";

fn request(id: u64) -> Finished {
    let mut record = Record::due(id, Phase::Measure, Duration::from_millis(id));
    (record.outcome, record.input_asked, record.input_tokens) = (Outcome::Ok, 5, Some(6));
    record.finish = Some("a, \"quoted\"\nreason".into());
    Finished::new(record, vec![])
}

/// A folder with two warm-up requests, steps of three requests each, and three requests of an unfinished next step.
fn folder(steps: u32, change: impl Fn(&mut Step)) -> (TempDir, PathBuf) {
    let tmp = tempdir().unwrap();
    let dir = tmp.path().join("run");
    let (_, run) = fixture::cases().into_iter().find(|(name, _)| *name == "found").unwrap();
    let plan = Plan::from_text(PLAN_TOML).unwrap();
    let plan_toml = plan.to_toml().unwrap();
    let mut writer = Writer::create(&dir, &plan_toml, false).unwrap();
    let first = Run::assemble(&plan, plan_toml, run.meta, vec![], vec![], vec![]).unwrap();
    writer.result(&json::result(&first)).unwrap();
    for number in 0..=steps + 1 {
        for id in 0..if number == 0 { 2 } else { 3 } {
            writer.request("main", number, "all", &request(id)).unwrap();
        }
        if (1..=steps).contains(&number) {
            let mut step = Step { step: number, ..run.steps[0].clone() };
            change(&mut step);
            writer.step(&step, &[("all", "itl", vec![(1, 2, 3)])]).unwrap();
        }
    }
    writer.flush().unwrap();
    (tmp, dir)
}

/// Reads the state as a resume does, then releases the lock.
fn left_in(dir: &Path) -> Result<InterruptedSweep> {
    read_interrupted(&RunLock::of_run(dir)?, |_, _, _| ())
}

fn tidied(dir: &Path, steps: usize) -> RunLock {
    let lock = RunLock::of_run(dir).unwrap();
    tidy(&lock, steps).unwrap();
    lock
}

fn append(dir: &Path, name: &str, text: &str) {
    let path = dir.join(name);
    let old = fs::read_to_string(&path).unwrap();
    fs::write(path, old + text).unwrap();
}

/// Row: damage to a folder of three steps, number of steps that count, and the caveats.
#[test]
fn what_counts_is_what_was_finished() {
    let torn = |file: &str| Caveat::Sweep(SweepCaveat::TornRow { file: file.into() });
    let apart = |step, requests| Caveat::Sweep(SweepCaveat::BrokenOff { step, requests });
    let cut_limits = |dir: &Path| {
        let text = fs::read_to_string(dir.join(LIMITS)).unwrap();
        fs::write(dir.join(LIMITS), &text[..text.len() - 8]).unwrap();
    };
    let abort = |why: Abort| move |s: &mut Step| s.abort = Some(why).filter(|_| s.step == 3);
    type Edit<'a> = &'a dyn Fn(&Path);
    let none: Edit<'_> = &|_| ();
    type Case<'a> = (&'a dyn Fn(&mut Step), Edit<'a>, usize, Vec<Caveat>);
    let cases: [Case<'_>; 8] = [
        (&|_| (), none, 3, vec![apart(4, 3)]),
        (&abort(Abort::Gross), none, 3, vec![apart(4, 3)]), // it ended early, but of itself
        (&abort(Abort::WorkerLost), none, 3, vec![apart(4, 3)]), // it stays, and its level is measured again
        (&abort(Abort::Interrupted), none, 2, vec![apart(3, 3), apart(4, 3)]),
        (&abort(Abort::ServerGone), none, 2, vec![apart(3, 3), apart(4, 3)]),
        (&|_| (), &|d| append(d, STEPS, "main,4,list,ra"), 3, vec![torn(STEPS), apart(4, 3)]),
        // The last limit of a step is missing, so the step is incomplete.
        (&|_| (), &cut_limits, 2, vec![torn(LIMITS), apart(3, 3), apart(4, 3)]),
        (&|_| (), &|d| append(d, REQUESTS, "main,4,3,meas"), 3, vec![torn(REQUESTS), apart(4, 3)]),
    ];
    for (i, (change, edit, steps, found)) in cases.into_iter().enumerate() {
        let (_tmp, dir) = folder(3, change);
        edit(&dir);
        let mut tokens = 0;
        let what = read_interrupted(&RunLock::of_run(&dir).unwrap(), |_, _, r| {
            tokens += u64::from(r.ok()) * u64::from(r.input_tokens.unwrap())
        })
        .unwrap();
        assert_eq!((what.steps.len(), &what.found, what.warmups), (steps, &found, 2), "case {i}");
        assert_eq!(tokens, 6 * 3 * steps as u64, "case {i}: of the steps that count");
        drop(tidied(&dir, steps));
        let again = left_in(&dir).unwrap();
        assert_eq!((again.steps, again.found), (what.steps, vec![]), "case {i}: in order now");
        let moved = (1 + 3 - steps) * 3;
        let mut rows = 0;
        walk(&dir.join(PARTIAL), |_, _, step| {
            rows += usize::from(step as usize > steps);
            Ok(())
        })
        .unwrap();
        assert_eq!(rows, moved, "case {i}");
        for file in [LIMITS, HISTOGRAMS] {
            let mut last = 0;
            walk(&dir.join(file), |_, _, step| {
                last = step;
                Ok(())
            })
            .unwrap();
            assert_eq!(last as usize, steps, "case {i}: {file}");
        }
    }
}

/// Killed and resumed twice: requests that were moved before stay in place.
#[test]
fn tries_are_kept_apart_each_time() {
    let (_tmp, dir) = folder(1, |_| ());
    for times in 1..=3 {
        let lock = tidied(&dir, 1);
        let partial = fs::read_to_string(dir.join(PARTIAL)).unwrap();
        assert_eq!(partial.matches("main,2,").count(), 3 * times);
        assert_eq!(partial.matches("series,step").count(), 1);
        let mut writer = Writer::open(lock).unwrap();
        (0..3).for_each(|id| writer.request("main", 2, "all", &request(id)).unwrap());
        writer.flush().unwrap();
        let all = fs::read_to_string(dir.join(REQUESTS)).unwrap();
        assert_eq!((all.matches("main,2,").count(), all.matches("series,step").count()), (3, 1));
    }
}

/// Killed while rows were moved, before or between the two renames: each row is moved once, and no temporary file
/// remains.
#[test]
fn a_move_that_was_killed_is_ended() {
    let (_tmp, dir) = folder(1, |_| ());
    let before = fs::read(dir.join(REQUESTS)).unwrap();
    drop(tidied(&dir, 1));
    let after = [fs::read(dir.join(REQUESTS)).unwrap(), fs::read(dir.join(PARTIAL)).unwrap()];
    for moved in [true, false] {
        fs::write(dir.join(REQUESTS), &before).unwrap();
        if moved {
            fs::write(dir.join(KEPT), &after[0]).unwrap();
        } else {
            fs::remove_file(dir.join(PARTIAL)).unwrap();
            fs::write(dir.join(KEPT), "half a fi").unwrap();
            fs::write(dir.join(MOVED), "half a fi").unwrap();
        }
        drop(tidied(&dir, 1));
        let now = [fs::read(dir.join(REQUESTS)).unwrap(), fs::read(dir.join(PARTIAL)).unwrap()];
        assert!(now == after, "moved: {moved}");
        let left = fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path());
        assert_eq!(left.filter(|p| p.extension().is_some_and(|e| e == "tmp")).count(), 0);
    }
}

/// Killed before any file had a row: torn headers are rewritten.
#[test]
fn torn_heads_are_made_again() {
    let (_tmp, dir) = folder(0, |_| ());
    for (name, head) in [(REQUESTS, "series,ste"), (HISTOGRAMS, "series,step,cl"), (FAILURES, "se")] {
        fs::write(dir.join(name), head).unwrap();
    }
    assert_eq!(left_in(&dir).unwrap().found.len(), 3);
    let mut writer = Writer::open(tidied(&dir, 0)).unwrap();
    writer.request("main", 1, "all", &request(0)).unwrap();
    drop(writer);
    assert!(left_in(&dir).unwrap().found == [Caveat::Sweep(SweepCaveat::BrokenOff { step: 1, requests: 1 })]);
    assert!(fs::read_to_string(dir.join(HISTOGRAMS)).unwrap().starts_with("series,step,class,metric"));
}

#[test]
fn folders_that_cannot_go_on_say_why() {
    type Edit<'a> = &'a dyn Fn(&Path);
    let cases: [(Edit<'_>, &str); 5] = [
        (&|d| fs::remove_file(d.join(PLAN)).unwrap(), "name the folder that the sweep was writing into"),
        (
            &|d| append(d, PLAN, "\n[search]\nconfirm = 3"),
            "put its files back as they were, or start a new sweep",
        ),
        (&|d| append(d, REQUESTS, "main,1,\nmain,1,\n"), "is damaged"),
        (
            &|d| fs::write(d.join(RESULT), "{\"schema\":\"goodput/2\",\"meta\":{}}").unwrap(),
            "reads \"goodput/1\"",
        ),
        (&|d| fs::write(d.join(RESULT), "{\"sche").unwrap(), "is not JSON"),
    ];
    for (edit, says) in cases {
        let (_tmp, dir) = folder(1, |_| ());
        edit(&dir);
        let error = format!("{:#}", left_in(&dir).unwrap_err());
        assert!(error.contains(says), "{says}: {error}");
    }
}

/// A resume locks the folder before it reads it; otherwise a second resume could discard steps of the first as
/// unfinished.
#[test]
fn one_at_a_time_goes_on_with_a_folder() {
    let (_tmp, dir) = folder(1, |_| ());
    let taken = |dir: &Path| {
        let error = RunLock::of_run(dir).unwrap_err().to_string();
        assert!(error.contains("is still writing into"), "{error}");
        let replaces = Writer::create(dir, "", true).err().unwrap().to_string();
        assert!(replaces.contains("is still writing into"), "{replaces}");
        assert!(check_free(dir, true).is_err());
    };
    let lock = RunLock::of_run(&dir).unwrap();
    taken(&dir);
    assert_eq!(read_interrupted(&lock, |_, _, _| ()).unwrap().steps.len(), 1);
    taken(&dir);
    // Files are replaced here, so a lock on an open file would be lost.
    tidy(&lock, 1).unwrap();
    taken(&dir);
    let mut writer = Writer::open(lock).unwrap();
    taken(&dir);
    (0..3).for_each(|id| writer.request("main", 2, "all", &request(id)).unwrap());
    writer.flush().unwrap();
    taken(&dir);
    drop(writer);
    assert_eq!(
        left_in(&dir).unwrap().found,
        [Caveat::Sweep(SweepCaveat::BrokenOff { step: 2, requests: 3 })]
    );
}

/// A sweep that is still writing can be neither resumed nor replaced.
#[test]
fn a_sweep_that_runs_is_let_be() {
    let tmp = tempdir().unwrap();
    let dir = tmp.path().join("run");
    let plan = Plan::from_text(PLAN_TOML).unwrap().to_toml().unwrap();
    let writer = Writer::create(&dir, &plan, false).unwrap();
    assert!(left_in(&dir).unwrap_err().to_string().contains("is still writing into"));
    assert!(Writer::create(&dir, &plan, true).is_err() && dir.join(STEPS).is_file());
    drop(writer);
    Writer::create(&dir, &plan, true).unwrap();
}
