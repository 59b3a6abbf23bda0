//! The director, which joins all parts of a sweep: it gets a level from the search, has it measured, and writes the
//! results, until the search is done.

mod adapters;
mod alternate;
mod answers;
pub mod bare;
mod bounds;
mod cache;
mod calibrate;
mod changes;
mod clock;
pub mod cores;
mod director;
mod disk;
mod early_stop;
mod fleet;
pub mod forecast;
mod host;
mod idle;
mod journal;
mod keep_alive;
mod listen;
mod live;
mod machine;
mod metadata;
mod next;
mod prepare;
mod profile;
mod progress;
mod resume;
mod retry_after;
mod runner;
mod scrape;
mod server_store;
mod servers;
mod start;
mod step;
mod step_context;
mod step_load;
mod tally;
mod termination;
mod watch;

pub use bounds::{Deadline, deadline, longest_step, written};
pub use fleet::Workers;
pub use listen::Served;
pub use resume::{Resumption, resume};
pub use server_store::ServerStore;
pub use watch::LivePage;

use anyhow::Result;
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
use termination::Termination;
use tokio_util::sync::CancellationToken;

/// The options of a sweep, other than its plan.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The run folder.
    pub out: PathBuf,
    /// Replace an earlier run in that folder. When resuming, continue even if plan or server have changed.
    pub force: bool,
    /// Simulate time; the plan's server must be simulated.
    pub virtual_time: bool,
    /// Time budget: no step begins that could end later than this after the start.
    pub budget: Option<Duration>,
    /// Show a progress bar.
    pub progress: bool,
    /// The measured limits of this machine's client.
    pub calibration: Option<Calibration>,
    /// Address on which to serve the running sweep, and the page to serve there.
    pub listen: Option<(SocketAddr, LivePage)>,
    /// The server of the running sweep, which outlives it so that it can hand out the report.
    pub served: Served,
    /// Source of the free space of the run folder.
    pub disk: Disk,
    /// List of process groups started for variants, so that they can be killed if this process exits abruptly.
    pub groups: Groups,
    /// Keeps the started server for the next sweep of the same plan.
    pub server_store: ServerStore,
    /// The workers that send the load; `None` if this machine does.
    pub workers: Option<Workers>,
}

/// Runs a sweep into its folder and returns its results; the caller writes the reports.
///
/// With the real clock, call it on any runtime; with `virtual_time`, on a current-thread runtime whose clock is paused.
/// `interrupt`, the deadline ([`deadline`]) and a nearly full disk end the sweep early, and the results so far are
/// returned.
///
/// # Errors
/// An error before the first request leaves no folder behind; a later one leaves the results so far on disk.
pub async fn run(plan: &Plan, options: &Options, interrupt: CancellationToken) -> Result<Run> {
    if options.virtual_time {
        plan.check_virtual()?;
    }
    rundir::check_free(&options.out, options.force)?;
    disk::check_left(&options.out)?;
    options.disk.check(&options.out, written(plan).unwrap_or(0), "the requests of this sweep")?;
    let termination = Termination::begin(interrupt, deadline(plan, options.budget));
    let (plan, dir, groups) = (plan.clone(), options.out.clone(), options.groups.clone());
    let virtual_time = options.virtual_time;
    Box::pin(conduct(Setup { plan, dir, options, virtual_time, groups, termination, origin: Origin::New }))
        .await
}

/// Returns the budget that the director enforces: none for an adaptive search, which plans its steps to fit its budget.
fn own_budget(plan: &Plan, budget: Option<Duration>) -> Option<Span> {
    budget.filter(|_| !plan.rows.is_empty() || !matches!(plan.search.mode, Mode::Adaptive(_))).map(Span)
}
