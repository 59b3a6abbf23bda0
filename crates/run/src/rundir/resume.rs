//! Resuming the folder of an interrupted sweep: finds the steps that count, and cleans up the files accordingly.
//!
//! A step counts if its row is in `steps.csv`, all of its limits are in `limits.csv`, and it was not aborted. Rows of
//! later steps in the other files belong to an attempt that does not count.

use super::clear::remove_remains;
use super::files::beside;
use super::requests::RequestRow;
use super::run_lock::RunLock;
use super::table::{Places, RowStream, TableRow};
use super::variants::State;
use super::{
    CHECKS, FAILURES, GROUPS, HISTOGRAMS, LIMITS, METRICS, Meta, PARTIAL, REPLICAS, REQUESTS, SERVER, STEPS,
    SUMMARIES, WORKERS, changed, read,
};
use anyhow::{Context, Result, anyhow, bail};
use csv::ByteRecord;
use goodput_core::caveat::{Caveat, SweepCaveat};
use goodput_core::record::Record;
use goodput_plan::{Plan, Series};
use goodput_stats::stats::step::{Abort, Step};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

/// All files with rows of steps. `steps.csv` comes last, because its rows make those of the others count.
const FILES: [&str; 12] = [
    REQUESTS, FAILURES, HISTOGRAMS, METRICS, GROUPS, REPLICAS, WORKERS, CHECKS, SERVER, SUMMARIES, LIMITS,
    STEPS,
];

/// State of an interrupted sweep, read from its folder.
#[derive(Debug, Clone, PartialEq)]
pub struct InterruptedSweep {
    /// The resolved plan of that sweep.
    pub plan: Plan,
    /// Text of the plan.
    pub plan_toml: String,
    /// Metadata of the sweep.
    pub meta: Meta,
    /// The steps that count, numbered from 1 without a gap.
    pub steps: Vec<Step>,
    /// Number of warm-up requests in `requests.csv`.
    pub warmups: u64,
    /// Caveats on torn rows and aborted attempts, which [`tidy`] drops and moves.
    pub found: Vec<Caveat>,
}

/// Reads the state of an interrupted sweep without changing any file. Calls `each` with series, class and record of
/// every request of a step that counts.
///
/// Fails if the folder was written in another format by another version, or edited by hand.
pub fn read_interrupted(
    lock: &RunLock,
    mut each: impl FnMut(&str, &str, &Record),
) -> Result<InterruptedSweep> {
    let dir = lock.dir();
    let unusable = || {
        format!("cannot go on with {}: put its files back as they were, or start a new sweep", dir.display())
    };
    let run = read(dir).with_context(unusable)?;
    let plan = Plan::from_text(&run.plan_toml).with_context(unusable)?;
    let mut steps: Vec<Step> = run.all_steps().into_iter().cloned().collect();
    if let Some(odd) = steps.iter().zip(1..).find(|(s, n)| s.step != *n).map(|(s, _)| s.step) {
        bail!(
            "the steps in {} are not numbered 1, 2, 3, … (there is a {odd} out of place), so what comes next is not known: start a new sweep",
            dir.join(STEPS).display()
        );
    }
    let series = plan.series();
    let whole = steps.iter().take_while(|s| has_limits(&series, s)).count();
    none_lost(dir, &plan, &run.meta, &steps, whole)?;
    steps.truncate(whole);
    let died = |s: &Step| {
        let own = series.iter().find(|one| one.name == s.series).and_then(|one| one.variant.as_ref());
        own.is_some_and(|v| {
            run.meta.variants.iter().any(|run| run.name == v.name && run.state == State::Died)
        })
    };
    // The death of a variant during a step is a result of that variant, so the step counts.
    let dropped = |s: &&Step| broken_off(s) && !(s.abort == Some(Abort::ServerGone) && died(s));
    steps.truncate(steps.len() - steps.iter().rev().take_while(dropped).count());
    let counts = |step: u32| step as usize <= steps.len();
    let (mut found, mut apart, mut warmups) = (Vec::new(), BTreeMap::new(), 0);
    for name in FILES {
        let path = dir.join(name);
        let mut request = RequestRow::empty();
        let mut places = None;
        let torn = walk(&path, |heads, row, step| {
            match step {
                _ if name != REQUESTS => {}
                0 => warmups += 1,
                step if counts(step) => {
                    let line = || format!("row {}", row.position().map_or(0, |p| p.line()));
                    let places = places.get_or_insert_with(|| Places::of::<RequestRow>(heads));
                    places.read(&mut request, row).with_context(line)?;
                    each(&request.series, &request.class, &request.record);
                }
                step => *apart.entry(step).or_default() += 1,
            }
            Ok(())
        })?;
        if torn {
            found.push(Caveat::Sweep(SweepCaveat::TornRow { file: name.into() }));
        }
    }
    found.extend(
        apart.into_iter().map(|(step, requests)| Caveat::Sweep(SweepCaveat::BrokenOff { step, requests })),
    );
    Ok(InterruptedSweep { plan, plan_toml: run.plan_toml, meta: run.meta, steps, warmups, found })
}

/// Refuses a plan under which completely measured steps would no longer count, because a resume would discard them.
/// `whole` is the number of steps that count under it.
fn none_lost(dir: &Path, plan: &Plan, meta: &Meta, steps: &[Step], whole: usize) -> Result<()> {
    let Some(first) = steps.get(whole) else { return Ok(()) };
    let then = meta.plan.as_ref().map(changed::plan).transpose()?;
    let series = then.as_ref().unwrap_or(plan).series();
    let counted = steps.iter().take_while(|s| has_limits(&series, s)).count();
    let known = plan.series().iter().any(|one| one.name == first.series);
    if counted <= whole && known {
        return Ok(());
    }
    let differences = match &meta.plan {
        Some(then) => changed::differences(then, plan)?,
        None => Vec::new(),
    };
    let lines: String = differences.iter().map(|line| format!("\n  {line}")).collect();
    bail!(
        "the plan of {} has no place for step {} (series {}), which was measured, or for its verdicts: that step and all after it would be \
         thrown away, with --force too; put names of series, variants and SLO tiers in plan.toml back, or start a new sweep{lines}",
        dir.display(),
        first.step,
        first.series
    )
}

/// Returns true if all limits of a step are present: the last row of a tier is its stability.
fn has_limits(series: &[Series], step: &Step) -> bool {
    let own = series.iter().find(|one| one.name == step.series);
    own.is_some_and(|one| {
        one.plan.slo.as_slice().iter().all(|slo| step.row(slo.tier(), "stability").is_some())
    })
}

/// Returns true if a step was cut short by the end of the sweep, so that it shows nothing of the server.
fn broken_off(step: &Step) -> bool {
    step.broken_off() || step.abort == Some(Abort::ServerGone)
}

/// Drops torn rows and all rows beyond the first `steps` steps from every file; requests of such steps move to
/// `requests-partial.csv`. Each file is replaced atomically.
pub fn tidy(lock: &RunLock, steps: usize) -> Result<()> {
    let dir = lock.dir();
    end_move(dir)?;
    remove_remains(dir)?;
    for name in FILES {
        let path = dir.join(name);
        let mut all_count = true;
        let torn = walk(&path, |_, _, step| {
            all_count &= step as usize <= steps;
            Ok(())
        })?;
        if !torn && all_count {
            continue;
        }
        let spare = beside(&path).with_context(|| format!("failed to write beside {}", path.display()))?;
        let (mut kept, set_apart) = (spare.path().to_owned(), dir.join(MOVED));
        let mut apart = None;
        if name == REQUESTS && !all_count {
            kept = dir.join(KEPT);
            if dir.join(PARTIAL).is_file() {
                fs::copy(dir.join(PARTIAL), &set_apart)
                    .with_context(|| format!("failed to write {}", set_apart.display()))?;
            }
            apart = Some(rows_to(&set_apart, false)?);
        }
        let mut kept_rows = rows_to(&kept, true)?;
        let mut first = (true, fs::metadata(&set_apart).map_or(true, |m| m.len() == 0));
        walk(&path, |heads, row, step| {
            let (rows, first) = match (&mut apart, step as usize <= steps) {
                (_, true) => (&mut kept_rows, &mut first.0),
                (Some(apart), false) => (apart, &mut first.1),
                (None, false) => return Ok(()),
            };
            if std::mem::take(first) {
                rows.write_byte_record(heads)?;
            }
            Ok(rows.write_byte_record(row)?)
        })?;
        to_disk(kept_rows, &kept)?;
        if let Some(apart) = apart {
            to_disk(apart, &set_apart)?;
            in_place(&set_apart, &dir.join(PARTIAL))?;
        }
        in_place(&kept, &path)?;
    }
    Ok(())
}

/// Temporary names of the new `requests.csv` and `requests-partial.csv` while rows move from one to the other.
pub(super) const KEPT: &str = "requests-kept.tmp";
const MOVED: &str = "requests-partial.tmp";

/// Completes a move that was killed between the two renames: either the second file is in place and the first is not,
/// or neither is.
fn end_move(dir: &Path) -> Result<()> {
    let kept = dir.join(KEPT);
    match (kept.is_file(), dir.join(MOVED).is_file()) {
        (true, false) => in_place(&kept, &dir.join(REQUESTS)),
        (true, true) => {
            fs::remove_file(&kept).with_context(|| format!("failed to remove {}", kept.display()))
        }
        (false, _) => Ok(()),
    }
}

type Rows = csv::Writer<BufWriter<File>>;

/// Opens a writer of rows that adds no header; truncates the file if `anew`, else appends.
fn rows_to(path: &Path, anew: bool) -> Result<Rows> {
    let file = File::options().create(true).write(true).append(!anew).truncate(anew).open(path);
    let file = file.with_context(|| format!("failed to write {}", path.display()))?;
    Ok(csv::WriterBuilder::new().has_headers(false).from_writer(BufWriter::new(file)))
}

/// Flushes the rows and syncs them to disk.
fn to_disk(rows: Rows, path: &Path) -> Result<()> {
    let write = || -> Result<()> {
        let mut file = rows.into_inner().context("the rows cannot be written")?;
        file.flush()?;
        Ok(file.get_ref().sync_data()?)
    };
    write().with_context(|| format!("failed to write {}", path.display()))
}

fn in_place(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to).with_context(|| format!("failed to write {}", to.display()))
}

/// Reads a file row by row, passing column names, cells and step number. Skips a torn last row or header, and returns
/// true if there was one.
///
/// Fails if the file cannot be read, or if a row other than the last is damaged.
fn walk(path: &Path, mut each: impl FnMut(&ByteRecord, &ByteRecord, u32) -> Result<()>) -> Result<bool> {
    let Some(mut rows) = RowStream::open(path)? else { return Ok(false) };
    let heads = rows.heads().clone();
    let mut torn = rows.is_torn_header();
    while let Some(row) = rows.next_row()? {
        let done = match row.step {
            _ if row.is_last && !row.is_whole => {
                torn = true;
                Ok(())
            }
            Some(step) if row.is_whole => each(&heads, row.cells, step),
            _ => Err(anyhow!("row {} is damaged", row.cells.position().map_or(0, |p| p.line()))),
        };
        done.with_context(|| format!("failed to read {}", path.display()))?;
    }
    Ok(torn)
}

#[cfg(test)]
mod tests;
