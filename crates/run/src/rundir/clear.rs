//! Makes a folder free for a run: checks its contents, and removes the files of an earlier run.

use super::files::{is_link, is_there, remains, text, unfinished};
use super::resume::KEPT;
use super::run_lock::{LOCK, RunLock};
use super::write::OURS;
use super::{FAILURES, HISTOGRAMS, LIMITS, LOGS, METRICS, PLAN, RESULT, STEPS};
use anyhow::{Context, Result, bail};
use goodput_plan::Plan;
use std::fs;
use std::path::{Path, PathBuf};

/// Returns true if the folder is not empty. Fails if it is not empty and `force` is not set, or if a running sweep
/// writes into it.
pub fn check_free(dir: &Path, force: bool) -> Result<bool> {
    let occupied = check_empty(dir, force)?;
    if occupied {
        RunLock::take(dir)?;
    }
    Ok(occupied)
}

/// Checks the contents like [`check_free`], but not the run lock.
pub(super) fn check_empty(dir: &Path, force: bool) -> Result<bool> {
    let occupied = match fs::read_dir(dir) {
        Ok(mut entries) => entries.any(|e| e.map_or(true, |e| e.file_name() != LOCK)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => false,
        Err(e) => {
            return Err(e)
                .with_context(|| format!("failed to look into the output folder {}", dir.display()));
        }
    };
    if occupied && !force {
        bail!(
            "the output folder {} is not empty: choose another with --out, or replace what is there with --force",
            dir.display()
        );
    }
    Ok(occupied)
}

/// Removes the files of an earlier run. Fails if the folder has files with the names of run files but is not a run.
pub(super) fn clear(dir: &Path) -> Result<()> {
    // Charts of the reports, and those of `report --theme dark`.
    let charts = ["charts", "charts-dark"].map(|name| dir.join(name));
    let is_run = match is_there(&dir.join(RESULT)) {
        Ok(true) => text(&dir.join(RESULT)).is_ok_and(|text| text.contains("\"goodput/1\"")),
        // Killed before the first result was written, so nothing was measured.
        Ok(false) => is_begun(dir),
        Err(_) => false,
    };
    if !is_run
        && (charts.iter().any(|c| c.exists() || is_link(c))
            || OURS.iter().any(|name| dir.join(name).exists()))
    {
        bail!(
            "{} holds files that a run would replace, but is no run folder: --force replaces earlier runs only",
            dir.display()
        );
    }
    for within in [super::sensitivity::FOLDER, super::tried::FOLDER].map(|name| dir.join(name)) {
        if is_run && within.is_dir() && !is_link(&within) {
            clear(&within)?;
            // A folder with other contents stays.
            let _ = fs::remove_file(within.join(LOCK));
            let _ = fs::remove_dir(&within);
        }
    }
    let logs = dir.join(LOGS);
    // The target of a link belongs to someone else, so only the link is removed.
    for link in charts.iter().chain(is_run.then_some(&logs)).filter(|folder| is_link(folder)) {
        fs::remove_file(link).with_context(|| format!("failed to remove {}", link.display()))?;
    }
    let within =
        |folder: &Path| fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok).map(|e| e.path());
    // Folders of charts for slides, and of each series.
    let folders = |dir: &Path| within(dir).filter(|p| p.is_dir() && !is_link(p)).collect::<Vec<_>>();
    let inner: Vec<PathBuf> = charts.iter().flat_map(|c| folders(c)).collect();
    let innermost: Vec<PathBuf> = inner.iter().flat_map(|f| folders(f)).collect();
    let all = || innermost.iter().chain(&inner).chain(&charts).map(PathBuf::as_path);
    let pictures = all().flat_map(within);
    let pictures = pictures.filter(|p| p.extension().is_some_and(|e| e == "png" || e == "svg"));
    for path in OURS.iter().map(|name| dir.join(name)).chain(pictures) {
        match fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(e).with_context(|| format!("failed to remove {}", path.display()));
            }
            _ => {}
        }
    }
    if is_run {
        remove_remains(dir)?;
    }
    for log in within(&logs).filter(|p| is_run && p.extension().is_some_and(|e| e == "log" || e == "pid")) {
        fs::remove_file(&log).with_context(|| format!("failed to remove {}", log.display()))?;
    }
    for folder in all().chain([logs.as_path()]).filter(|folder| !is_link(folder)) {
        // A folder with other contents stays, as do these contents.
        let _ = fs::remove_dir(folder);
    }
    Ok(())
}

/// Returns true if a folder is that of a run that has only created its files: each has at most a header line. If the
/// run was killed while creating them, the missing ones are the last in order, and the plan is in the form that a run
/// writes.
fn is_begun(dir: &Path) -> bool {
    let made = [STEPS, LIMITS, FAILURES, HISTOGRAMS, METRICS];
    let is_there = |name: &str| dir.join(name).exists();
    let head_at_most = |name: &str| {
        fs::metadata(dir.join(name)).is_ok_and(|m| m.len() < 1 << 10)
            && text(&dir.join(name)).is_ok_and(|text| text.lines().count() <= 1)
    };
    let made_first = made.iter().take_while(|name| is_there(name)).count();
    let (there, missing) = made.split_at(made_first);
    if !dir.join(PLAN).is_file() || !there.iter().all(|name| head_at_most(name)) {
        return false;
    }
    let later = OURS.iter().filter(|name| **name != PLAN && !there.contains(name));
    missing.is_empty() || (later.copied().all(|name| !is_there(name)) && is_written(&dir.join(PLAN)))
}

/// Returns true if a plan file is in the form that a run writes, with every key.
fn is_written(plan: &Path) -> bool {
    let written =
        |text: String| Plan::from_text(&text).and_then(|plan| plan.to_toml()).map(|own| own == text);
    text(plan).is_ok_and(|text| written(text).unwrap_or(false))
}

/// Removes temporary files that a killed sweep left behind while it replaced one of its files. Does nothing while a sweep writes into the folder, and
/// where files cannot be removed. Rows that a killed resume was moving stay: the next resume completes the move.
pub fn remove_unfinished(dir: &Path) {
    let ours =
        |stem: &str| OURS.iter().any(|name| Path::new(name).file_stem().is_some_and(|own| own == stem));
    let left = unfinished(dir, ours);
    if left.is_empty() {
        return;
    }
    // Held until they are gone, so that no sweep begins meanwhile.
    let Ok(_lock) = RunLock::take(dir) else { return };
    for path in left {
        let _ = fs::remove_file(path);
    }
}

/// Removes temporary files that a killed writer left behind.
pub(super) fn remove_remains(dir: &Path) -> Result<()> {
    let ours =
        |stem: &str| OURS.iter().any(|name| Path::new(name).file_stem().is_some_and(|own| own == stem));
    for path in remains(dir, ours).into_iter().chain([dir.join(KEPT)]) {
        match fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(e).with_context(|| format!("failed to remove {}", path.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_is_replaced_leaves_none_of_its_charts() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for folder in ["charts/slides", "charts-dark/main/slides", "mine"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        fs::write(at(RESULT), "{\"schema\": \"goodput/1\"}").unwrap();
        let theirs =
            ["charts/a.png", "charts/slides/a.png", "charts-dark/a.svg", "charts-dark/main/slides/a.png"];
        let kept = ["mine/a.png", "charts-dark/notes.txt"];
        for name in theirs.iter().chain(&kept) {
            fs::write(at(name), "x").unwrap();
        }
        clear(dir.path()).unwrap();
        assert!(theirs.iter().all(|name| !at(name).exists()) && kept.iter().all(|name| at(name).exists()));
        assert!(!at("charts").exists() && !at("charts-dark/main").exists(), "empty folders go");
        let e = clear(dir.path()).unwrap_err().to_string();
        assert!(e.contains("is no run folder"), "charts alone are no run: {e}");
    }

    #[test]
    fn a_run_that_was_killed_before_it_had_a_result_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        for name in [PLAN, STEPS, LIMITS, FAILURES, HISTOGRAMS, METRICS] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        clear(dir.path()).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        for (name, text) in [(PLAN, "name"), (STEPS, "series,step\nmain,1\n"), (LIMITS, "")] {
            fs::write(dir.path().join(name), text).unwrap();
        }
        let e = clear(dir.path()).unwrap_err().to_string();
        assert!(e.contains("is no run folder"), "it has rows: {e}");
    }

    /// Rows: files that a run had created when it was killed, other files, and true if the folder is recognised as a
    /// run's.
    #[test]
    fn a_run_that_was_killed_while_it_made_its_files_is_replaced() {
        let plan = "name = \"x\"\nserver.url = \"http://127.0.0.1:1\"\nslo.ttft.p99 = \"200ms\"\nsearch.rates = [1]\n\
                    workload.prompts.synthetic = { input-tokens.fixed = 5, output-tokens.fixed = 3 }";
        let written = Plan::from_text(plan).unwrap().to_toml().unwrap();
        for (plan, files, is_run) in [
            (&*written, &[][..], true),
            (&written, &[STEPS, LIMITS], true),
            (&written, &[STEPS, METRICS], false), // not in this order
            (&written, &[STEPS, "report.md"], false),
            (plan, &[STEPS, LIMITS], false),
            (plan, &[], false),
        ] {
            let dir = tempfile::tempdir().unwrap();
            fs::write(dir.path().join(PLAN), plan).unwrap();
            files.iter().for_each(|name| fs::write(dir.path().join(name), "").unwrap());
            assert_eq!(clear(dir.path()).is_ok(), is_run, "{files:?} beside {plan}");
            assert_eq!(dir.path().join(PLAN).exists(), !is_run);
        }
    }

    /// Leftovers of a killed move would become rows of the next run.
    #[test]
    fn nothing_of_a_killed_writer_is_left() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(RESULT), "{\"schema\": \"goodput/1\"}").unwrap();
        for name in [KEPT, "report.a1B2c3.tmp", "requests-partial.tmp", "requests.tmp", "plan.tmp"] {
            fs::write(dir.path().join(name), "x").unwrap();
        }
        clear(dir.path()).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_a_killed_sweep_was_replacing_goes_unless_a_sweep_is_running() {
        let dir = tempfile::tempdir().unwrap();
        let (left, kept) = (
            ["result.a1B2c3.tmp", "plan.000000.tmp"],
            [KEPT, "requests-partial.tmp", "mine.a1B2c3.tmp", RESULT],
        );
        let count = || fs::read_dir(dir.path()).unwrap().count();
        for name in left.iter().chain(&kept) {
            fs::write(dir.path().join(name), "x").unwrap();
        }
        let lock = RunLock::take(dir.path()).unwrap();
        remove_unfinished(dir.path());
        assert_eq!(count(), 6, "a sweep is running");
        drop(lock);
        remove_unfinished(dir.path());
        assert!(count() == 4 && kept.iter().all(|name| dir.path().join(name).exists()));
        remove_unfinished(&dir.path().join("nothing"));
    }

    /// A folder made by someone else: the targets of its links stay untouched.
    #[cfg(unix)]
    #[test]
    fn links_are_not_followed() {
        use std::os::unix::fs::symlink;
        let (dir, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |name: &str| dir.path().join(name);
        for name in ["a.png", "b.svg", "c.log", "steps.csv"] {
            fs::write(theirs.path().join(name), "theirs").unwrap();
        }
        fs::create_dir(at("charts-dark")).unwrap();
        for link in ["charts", "charts-dark/slides", "logs"] {
            symlink(theirs.path(), at(link)).unwrap();
        }
        symlink(theirs.path().join("steps.csv"), at(STEPS)).unwrap();
        fs::write(at(RESULT), "{\"schema\": \"goodput/1\"}").unwrap();
        clear(dir.path()).unwrap();
        assert_eq!(fs::read_dir(theirs.path()).unwrap().count(), 4);
        assert_eq!(fs::read(theirs.path().join("steps.csv")).unwrap(), b"theirs");
        assert!(!is_link(&at("charts")) && !is_link(&at("logs")) && !is_link(&at(STEPS)));
    }
}
