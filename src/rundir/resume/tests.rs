use super::*;
use crate::record::Finished;
use crate::report::fixture;
use crate::rundir::{RESULT, Run, Writer, json};
use std::path::PathBuf;
use tempfile::{TempDir, tempdir};

const PLAN_TOML: &str = "name = \"x\"\nserver.url = \"http://127.0.0.1:1\"\nslo.ttft.p99 = \"200ms\"\nsearch.rates = [1, 2, 3, 4]\n\
                         workload.prompts.synthetic = { input-tokens.fixed = 5, output-tokens.fixed = 3 }";

fn request(id: u64) -> Finished {
    let mut record = Record::due(id, Phase::Measure, Duration::from_millis(id));
    (record.outcome, record.input_asked, record.input_tokens) = (Outcome::Ok, 5, Some(6));
    record.finish = Some("a, \"quoted\"\nreason".into());
    Finished::new(record, vec![])
}

/// A folder with two warm-up requests, steps of three requests each, and as many requests of the step after them.
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

fn append(dir: &Path, name: &str, text: &str) {
    let path = dir.join(name);
    let old = fs::read_to_string(&path).unwrap();
    fs::write(path, old + text).unwrap();
}

/// Row: what is done to a folder of three steps, how many of them count, and what is found.
#[test]
fn what_counts_is_what_was_finished() {
    let torn = |file: &str| Caveat::TornRow { file: file.into() };
    let apart = |step, requests| Caveat::BrokenOff { step, requests };
    let cut_limits = |dir: &Path| {
        let text = fs::read_to_string(dir.join(LIMITS)).unwrap();
        fs::write(dir.join(LIMITS), &text[..text.len() - 8]).unwrap();
    };
    let abort = |why: Abort| move |s: &mut Step| s.abort = Some(why).filter(|_| s.step == 3);
    type Edit<'a> = &'a dyn Fn(&Path);
    let none: Edit<'_> = &|_| ();
    type Case<'a> = (&'a dyn Fn(&mut Step), Edit<'a>, usize, Vec<Caveat>);
    let cases: [Case<'_>; 7] = [
        (&|_| (), none, 3, vec![apart(4, 3)]),
        (&abort(Abort::Gross), none, 3, vec![apart(4, 3)]), // it ended early, but of itself
        (&abort(Abort::Interrupted), none, 2, vec![apart(3, 3), apart(4, 3)]),
        (&abort(Abort::ServerGone), none, 2, vec![apart(3, 3), apart(4, 3)]),
        (&|_| (), &|d| append(d, STEPS, "main,4,list,ra"), 3, vec![torn(STEPS), apart(4, 3)]),
        // The last limit of a step is lost: the step is not whole.
        (&|_| (), &cut_limits, 2, vec![torn(LIMITS), apart(3, 3), apart(4, 3)]),
        (&|_| (), &|d| append(d, REQUESTS, "main,4,3,meas"), 3, vec![torn(REQUESTS), apart(4, 3)]),
    ];
    for (i, (change, edit, steps, found)) in cases.into_iter().enumerate() {
        let (_tmp, dir) = folder(3, change);
        edit(&dir);
        let mut tokens = 0;
        let what =
            left(&dir, |_, _, r| tokens += u64::from(r.ok()) * u64::from(r.input_tokens.unwrap())).unwrap();
        assert_eq!((what.steps.len(), &what.found, what.warmups), (steps, &found, 2), "case {i}");
        assert_eq!(tokens, 6 * 3 * steps as u64, "case {i}: of the steps that count");
        tidy(&dir, steps).unwrap();
        let again = left(&dir, |_, _, _| ()).unwrap();
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

/// Killed and resumed twice: what stands apart already stays.
#[test]
fn tries_are_kept_apart_each_time() {
    let (_tmp, dir) = folder(1, |_| ());
    for times in 1..=3 {
        tidy(&dir, 1).unwrap();
        let partial = fs::read_to_string(dir.join(PARTIAL)).unwrap();
        assert_eq!(partial.matches("main,2,").count(), 3 * times);
        assert_eq!(partial.matches("series,step").count(), 1);
        let mut writer = Writer::open(&dir).unwrap();
        (0..3).for_each(|id| writer.request("main", 2, "all", &request(id)).unwrap());
        writer.flush().unwrap();
        let all = fs::read_to_string(dir.join(REQUESTS)).unwrap();
        assert_eq!((all.matches("main,2,").count(), all.matches("series,step").count()), (3, 1));
    }
}

/// Killed before any file had a row: torn heads are written again.
#[test]
fn torn_heads_are_made_again() {
    let (_tmp, dir) = folder(0, |_| ());
    for (name, head) in [(REQUESTS, "series,ste"), (HISTOGRAMS, "series,step,cl"), (FAILURES, "se")] {
        fs::write(dir.join(name), head).unwrap();
    }
    assert_eq!(left(&dir, |_, _, _| ()).unwrap().found.len(), 3);
    tidy(&dir, 0).unwrap();
    let mut writer = Writer::open(&dir).unwrap();
    writer.request("main", 1, "all", &request(0)).unwrap();
    drop(writer);
    assert!(left(&dir, |_, _, _| ()).unwrap().found == [Caveat::BrokenOff { step: 1, requests: 1 }]);
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
        let error = format!("{:#}", left(&dir, |_, _, _| ()).unwrap_err());
        assert!(error.contains(says), "{says}: {error}");
    }
    let (_tmp, dir) = folder(1, |_| ());
    let writer = Writer::open(&dir).unwrap();
    assert!(left(&dir, |_, _, _| ()).unwrap_err().to_string().contains("is still writing into"));
    assert!(Writer::open(&dir).is_err(), "nor may a second one write");
    drop(writer);
    assert!(left(&dir, |_, _, _| ()).is_ok());
}
