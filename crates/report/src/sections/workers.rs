//! The workers: the load machines of a sweep, side by side.

use super::at_the_answer::at_the_answer;
use super::cells::latency;
use crate::document::{Block, Cell, Column, Field, Table};
use crate::escape::clip;
use crate::words;
use goodput_core::caveat::{Caveat, ClientCaveat};
use goodput_run::rundir::{Run, WorkerMachine};
use goodput_stats::stats::step::Step;
use goodput_stats::stats::workers::StepWorker;

/// Maximum number of workers shown: those that sent latest.
const MOST: usize = 32;
/// Maximum number of spoilt steps that are listed.
const MOST_SPOILT: usize = 10;

/// Returns each worker over the whole sweep, and the steps that one of them spoilt; empty with a single machine.
pub(super) fn section(run: &Run) -> Vec<Block> {
    let all = rows(run);
    if all.is_empty() {
        return Vec::new();
    }
    let mut shown: Vec<&WorkerRow<'_>> = all.iter().collect();
    if shown.len() > MOST {
        shown.sort_by(|a, b| b.lateness_ms.unwrap_or(0.0).total_cmp(&a.lateness_ms.unwrap_or(0.0)));
        shown.truncate(MOST);
    }
    let left = match all.len() - shown.len() {
        0 => String::new(),
        left => format!(" The {left} that sent least late are left out."),
    };
    let answering = at_the_answer(run, |s| !s.workers.is_empty());
    let at = answering
        .map(|s| format!(" The table has the TTFT of step {}, at {}.", s.step, words::step_level(s)));
    let said = format!(
        "The requests of every step were dealt to {} workers, each with its part of one sequence of arrivals. No latency depends on \
         the clock of another machine: offset and drift, against the leader's clock, only place requests on a common time.",
        all.len(),
    );
    let rest = format!("{}{} workers.csv has every step.{left}", apart(run), at.unwrap_or_default());
    let mut blocks = vec![Block::paragraph(said), Block::paragraph(rest), table(answering, &shown).into()];
    blocks.extend(spoilt(run));
    blocks
}

/// Returns the sentence on a worker whose TTFT is above that of the others.
fn apart(run: &Run) -> String {
    let is_apart = |c: &&Caveat| matches!(c, Caveat::Client(ClientCaveat::WorkerApart { .. }));
    let found: Vec<String> =
        run.caveats.iter().filter(is_apart).map(|c| words::caveat(c, words::Context::of(run)).text).collect();
    if found.is_empty() {
        "No worker's TTFT is materially above that of the others.".into()
    } else {
        found.join(" ")
    }
}

/// Returns the list of the steps that a worker spoilt, with its heading; empty if there is none.
fn spoilt(run: &Run) -> Vec<Block> {
    if run.spoilt.is_empty() {
        return Vec::new();
    }
    let line = |s: &Step| format!("step {}, {}: {}", s.step, words::step_level(s), s.reason);
    let mut lines: Vec<String> = run.spoilt.iter().take(MOST_SPOILT).map(line).collect();
    let more = run.spoilt.len().saturating_sub(MOST_SPOILT);
    lines.extend((more > 0).then(|| format!("and {more} more")));
    vec![
        Block::paragraph(
            "These steps do not count, because a worker spoilt them; their levels were measured again:",
        ),
        Block::list(lines),
    ]
}

/// A worker over the whole sweep.
struct WorkerRow<'a> {
    id: &'a str,
    machine: Option<&'a WorkerMachine>,
    requests: u64,
    /// Median and highest delay of its starts, in milliseconds.
    start_late_ms: [Option<f64>; 2],
    /// Highest p99 of its lateness in any step, in milliseconds.
    lateness_ms: Option<f64>,
    /// Median offset of its clock, in milliseconds.
    offset_ms: Option<f64>,
    /// Largest drift of its clock in any step, in milliseconds, whichever the direction.
    drift_ms: Option<f64>,
    /// Its part of the step of the answer.
    answering: Option<&'a StepWorker>,
    /// Number of steps that it spoilt.
    spoilt: u64,
}

/// Returns the workers in the order of their numbers.
fn rows(run: &Run) -> Vec<WorkerRow<'_>> {
    let steps = run.all_steps();
    let answering = at_the_answer(run, |s| !s.workers.is_empty());
    let mut numbers: Vec<(u16, &str)> =
        steps.iter().flat_map(|s| &s.workers).map(|w| (w.worker, w.id.as_str())).collect();
    numbers.sort_unstable();
    numbers.dedup_by_key(|(worker, _)| *worker);
    let row = |(worker, id): (u16, &'_ str)| {
        let own: Vec<&StepWorker> =
            steps.iter().flat_map(|s| &s.workers).filter(|w| w.worker == worker).collect();
        let of = |value: fn(&StepWorker) -> Option<f64>| {
            let mut values: Vec<f64> = own.iter().filter_map(|w| value(w)).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let (late, offset) = (of(|w| Some(w.start_late_ms)), of(|w| Some(w.clock_offset_ms)));
        WorkerRow {
            id: own.first().map_or("", |w| w.id.as_str()),
            machine: run.meta.workers.iter().find(|m| m.id == id),
            requests: own.iter().map(|w| w.n).sum(),
            start_late_ms: [median(&late), late.last().copied()],
            lateness_ms: of(|w| w.lateness_p99_ms).last().copied(),
            offset_ms: median(&offset),
            drift_ms: of(|w| Some(w.clock_drift_ms.abs())).last().copied(),
            answering: answering.and_then(|s| s.workers.iter().find(|w| w.worker == worker)),
            spoilt: own.iter().filter(|w| w.fault.is_some()).count() as u64,
        }
    };
    numbers.into_iter().map(row).collect()
}

/// Returns the lower median of ascending values.
fn median(sorted: &[f64]) -> Option<f64> {
    sorted.get(sorted.len().saturating_sub(1) / 2).copied()
}

fn table(answering: Option<&Step>, rows: &[&WorkerRow<'_>]) -> Table {
    let number = |head: &str, of: fn(&WorkerRow<'_>) -> Option<f64>| {
        Field::new(Column::number(head), move |r: &&WorkerRow<'_>| Cell::number(of(r)))
    };
    let ttft = move |r: &&WorkerRow<'_>| {
        let of = r.answering.and_then(|w| w.ttft_p50_ms);
        answering.map_or(Cell::Unknown, |s| latency(s, of))
    };
    let fields = vec![
        Field::new(Column::text("worker"), |r: &&WorkerRow<'_>| Cell::text(clip(r.id, 60))),
        Field::new(Column::text("machine"), |r: &&WorkerRow<'_>| {
            Cell::known(r.machine.map(machine).unwrap_or_default())
        }),
        Field::new(Column::number("calibrated req/s"), |r: &&WorkerRow<'_>| {
            Cell::count(r.machine.and_then(|m| m.max_rate))
        }),
        Field::new(Column::number("requests"), |r: &&WorkerRow<'_>| Cell::Count(r.requests as f64)),
        number("start late p50 ms", |r| r.start_late_ms[0]),
        number("start late max ms", |r| r.start_late_ms[1]),
        number("lateness p99 max ms", |r| r.lateness_ms),
        number("clock offset ms", |r| r.offset_ms),
        number("clock drift max ms", |r| r.drift_ms),
        Field::new(Column::number("TTFT p50 ms"), ttft),
        Field::new(Column::number("steps spoilt"), |r: &&WorkerRow<'_>| Cell::Count(r.spoilt as f64)),
    ];
    Table::of(fields, rows)
}

/// Returns a machine in short: `linux x86_64, 8 cores`.
fn machine(m: &WorkerMachine) -> String {
    format!("{}, {} {}", clip(&m.host, 60), m.cores, if m.cores == 1 { "core" } else { "cores" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::markdown::blocks;
    use goodput_run::fixture;

    #[test]
    fn workers_stand_side_by_side() {
        insta::assert_snapshot!(blocks(&section(&fixture::workers()), 3), @r"
        The requests of every step were dealt to 4 workers, each with its part of one sequence of arrivals. No latency depends on the clock of another machine: offset and drift, against the leader's clock, only place requests on a common time.

        The worker node-3 gets its first tokens later than the others: in step 9 its median TTFT was 59.6 ms, theirs 40.8 ms. The percentiles are those of all workers together. The table has the TTFT of step 9, at 32 req/s. workers.csv has every step.

        | worker | machine | calibrated req/s | requests | start late p50 ms | start late max ms | lateness p99 max ms | clock offset ms | clock drift max ms | TTFT p50 ms | steps spoilt |
        | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
        | node-1 | linux x86_64, 8 cores | 21,500 | 9,390 | 0.08 | 0.13 | 0.31 | 0.5 | 0.01 | 40.7 | 0 |
        | node-2 | linux x86_64, 8 cores | 21,500 | 8,490 | 0.1 | 0.15 | 0.31 | -0.5 | 0 | 40.8 | 1 |
        | node-3 | linux x86_64, 8 cores | 21,500 | 9,390 | 0.12 | 0.17 | 0.31 | -1.5 | 0.01 | 59.6 | 0 |
        | node-4 | linux x86_64, 8 cores | – | 9,390 | 0.14 | 0.19 | 0.31 | -2.5 | 0.02 | 41 | 0 |

        These steps do not count, because a worker spoilt them; their levels were measured again:

        - step 7, 30 req/s: the worker node-2 was lost
        ");
    }

    #[test]
    fn the_report_tells_how_the_load_was_made() {
        let run = fixture::workers();
        let text = crate::render::markdown::render(&crate::sections::report::document(&run, &[]));
        for line in [
            "- load: 4 workers: node-1, node-2, node-3 and node-4\n",
            "goodput sweep plan.toml --bus URL --expect 4\n",
            "## Load machines\n",
            "1 step does not count and was measured again, because the worker node-2 stopped answering.",
            "- measured: 11 steps,",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        let alone = fixture::found();
        let text = crate::render::markdown::render(&crate::sections::report::document(&alone, &[]));
        assert!(!text.contains("orker") && !text.contains("--bus"), "{text}");
    }

    #[test]
    fn a_single_machine_has_no_section() {
        assert!(section(&fixture::found()).is_empty());
    }

    #[test]
    fn of_many_workers_the_latest_are_shown() {
        let mut run = fixture::workers();
        for step in run.steps.iter_mut().chain(&mut run.spoilt) {
            let one = step.workers[0].clone();
            step.workers = (1..=40)
                .map(|worker| StepWorker {
                    worker,
                    id: format!("pod-{worker:02}"),
                    lateness_p99_ms: Some(f64::from(worker)),
                    ..one.clone()
                })
                .collect();
        }
        run.caveats.clear();
        let text = blocks(&section(&run), 3);
        assert!(text.contains("No worker's TTFT is materially above"), "{text}");
        assert!(
            text.contains("dealt to 40 workers") && text.contains("The 8 that sent least late"),
            "{text}"
        );
        assert_eq!(text.matches("| pod-").count(), MOST);
        assert!(!text.contains("pod-08") && text.contains("pod-09"), "{text}");
    }
}
