//! The director: the only place that joins the parts. It asks the search for a level, has it measured, and writes what came
//! of it, until the search is done.

mod about;
mod alternate;
mod answers;
pub mod bare;
mod bounds;
mod cache;
mod calibrate;
mod clock;
mod director;
mod disk;
mod ended;
mod ending;
mod host;
mod idle;
mod journal;
mod keep;
mod listen;
mod live;
mod looks;
mod machine;
mod next;
mod prepare;
mod profile;
mod progress;
mod resume;
mod retry_after;
mod runner;
mod same;
mod scrape;
mod start;
mod step;
mod tally;
mod variant;

pub use bounds::{Deadline, deadline, longest_step, written};
pub use keep::Keep;
pub use resume::{Resumption, resume};

use anyhow::Result;
use ending::Ending;
use goodput_core::units::Span;
use goodput_load::launch::Groups;
use goodput_plan::Plan;
use goodput_run::rundir::{self, Disk, Run};
use goodput_stats::calibration::Calibration;
use goodput_stats::search::config::Mode;
use start::{Origin, Setup, conduct};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How to run a sweep, besides its plan.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The run folder.
    pub out: PathBuf,
    /// Replace an earlier run in that folder; of a run that is resumed, go on though plan or server are not what they were.
    pub force: bool,
    /// Simulate time; the plan's server must be simulated.
    pub virtual_time: bool,
    /// No step is begun that could end later than this after the start.
    pub budget: Option<Duration>,
    /// Show a progress bar.
    pub progress: bool,
    /// What this machine's client can do.
    pub calibration: Option<Calibration>,
    /// Where the metrics of the running sweep are served.
    pub listen: Option<SocketAddr>,
    /// Who tells how much room the run folder has.
    pub disk: Disk,
    /// Lists what is started for the variants, so that it can be ended where this process leaves at once.
    pub groups: Groups,
    /// Keeps the server that is started for the next sweep of the same plan.
    pub keep: Keep,
}

/// Runs a sweep into its folder and returns what was measured; the caller writes the reports.
///
/// On the real clock call it on any runtime; with `virtual_time` on a current-thread runtime whose clock is paused.
/// `interrupt` ends it early, with everything measured until then kept, and so do its deadline ([`deadline`]) and a disk that is nearly
/// full. Errors before the first request leave no folder
/// behind; later ones leave what was measured on disk.
pub async fn run(plan: &Plan, options: &Options, interrupt: CancellationToken) -> Result<Run> {
    if options.virtual_time {
        plan.check_virtual()?;
    }
    rundir::check_free(&options.out, options.force)?;
    disk::check_left(&options.out)?;
    options.disk.check(&options.out, written(plan).unwrap_or(0), "the requests of this sweep")?;
    let ending = Ending::begin(interrupt, deadline(plan, options.budget));
    let (plan, dir, groups) = (plan.clone(), options.out.clone(), options.groups.clone());
    let virtual_time = options.virtual_time;
    conduct(Setup { plan, dir, options, virtual_time, groups, ending, origin: Origin::New }).await
}

/// The adaptive search reckons with its budget itself; other modes only end by one.
fn own_budget(plan: &Plan, budget: Option<Duration>) -> Option<Span> {
    budget.filter(|_| !plan.rows.is_empty() || !matches!(plan.search.mode, Mode::Adaptive(_))).map(Span)
}
