//! The step under the profiler: the profile starts before the load and stops after the drain. A failure is only a
//! caveat, since the answer of the sweep is known by then.

use super::runner::{Runner, Task};
use super::termination::Termination;
use anyhow::{Result, anyhow, bail};
use goodput_core::caveat::{ProfilerCall, ServerCaveat};
use goodput_core::units::Span;
use goodput_load::client::Client;
use goodput_load::launch::Launch;
use goodput_run::rundir::LOGS;
use goodput_stats::search::profile::By;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Timeout of a command or of the server. Stopping a profile may write gigabytes.
const PATIENCE: Duration = Duration::from_secs(300);
/// Interval at which to poll a running command.
const LOOK: Duration = Duration::from_millis(20);

/// The moment at which the profiler is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// Before the load.
    Before,
    /// After all requests have finished.
    After,
}

/// The result of calling the profiler.
#[derive(Debug)]
pub(super) enum Profiled {
    /// The plan has no profiler, or the step is not profiled.
    Not,
    Done,
    Failed(ServerCaveat),
}

impl Profiled {
    /// Returns the caveat of a call that failed.
    pub(super) fn caveat(self) -> Option<ServerCaveat> {
        match self {
            Self::Failed(caveat) => Some(caveat),
            Self::Not | Self::Done => None,
        }
    }
}

impl Runner {
    /// Starts or stops the profile of a step. The output of commands goes into the logs of the run folder `dir`.
    pub(super) async fn profiler(
        &self,
        task: Task<'_>,
        moment: Moment,
        dir: &Path,
        termination: &Termination,
    ) -> Result<Profiled> {
        let Some(profile) = &task.plan().profile else { return Ok(Profiled::Not) };
        let (tried, done) = match &profile.by() {
            By::Server { start, stop } => {
                let path = if moment == Moment::Before { start } else { stop }.clone();
                let client = self.ready.client().clone();
                let tried = ProfilerCall::Post(path.clone());
                let asked = self.host.run(async move { ask(&client, &path).await });
                match termination.within(task.plan().step.drain.0, asked).await {
                    Some(done) => (tried, done?),
                    None => (tried, Err(anyhow!("the sweep was ended meanwhile"))),
                }
            }
            By::Commands { before, after } => {
                let argv = if moment == Moment::Before { before } else { after };
                if argv.is_empty() {
                    return Ok(Profiled::Done);
                }
                (ProfilerCall::Command(argv.clone()), self.command(argv, task, dir, termination).await?)
            }
        };
        Ok(match done {
            Ok(()) => Profiled::Done,
            Err(why) => {
                Profiled::Failed(ServerCaveat::Profiler { step: task.number, tried, why: format!("{why:#}") })
            }
        })
    }

    /// Runs a command to its end. Its environment contains the series and the level of the step.
    async fn command(
        &self,
        argv: &[String],
        task: Task<'_>,
        dir: &Path,
        termination: &Termination,
    ) -> Result<Result<()>> {
        let level = task.ask.level;
        let env = BTreeMap::from([
            ("GOODPUT_SERIES".to_owned(), task.series.name.clone()),
            ("GOODPUT_LEVEL".to_owned(), level.value.to_string()),
            ("GOODPUT_CONTROL".to_owned(), level.control.name().to_owned()),
        ]);
        let log = dir.join(LOGS).join("profile.log");
        let launch =
            Launch { argv: argv.to_vec(), env, folder: None, log, secrets: Vec::new(), serves: Vec::new() };
        let (groups, end, grace) = (self.servers.groups(), termination.token(), task.plan().step.drain.0);
        // On a blocking thread, so that simulated time stands still.
        let run = tokio::task::spawn_blocking(move || -> Result<()> {
            let mut launched = launch.start(&groups)?;
            let (looks, mut late) = (|time: Duration| time.as_millis() / LOOK.as_millis(), 0);
            for _ in 0..looks(PATIENCE) {
                late += u128::from(end.is_cancelled());
                if late > looks(grace) {
                    bail!("it was still there {} after the sweep was ended", Span(grace));
                }
                match launched.exited() {
                    Some(status) if status.success() => return Ok(()),
                    Some(status) => {
                        let last = launched.log.last_lines().pop().map(|l| format!(", its last words {l:?}"));
                        bail!("{status}{}", last.unwrap_or_default());
                    }
                    None => std::thread::sleep(LOOK),
                }
            }
            bail!("it was still there after {} s, and was ended", PATIENCE.as_secs());
        });
        Ok(run.await?)
    }
}

/// Calls the endpoint on every server.
async fn ask(client: &Client, path: &str) -> Result<()> {
    for target in 0..client.urls().len().max(1) {
        match client.post(target, path, PATIENCE).await? {
            200..=299 => {}
            status => bail!("HTTP {status}"),
        }
    }
    Ok(())
}
