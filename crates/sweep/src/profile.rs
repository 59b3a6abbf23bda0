//! The step under the profiler: it is begun before the load and ended when the step has drained. What fails is a caveat: the
//! sweep has its answer by then.

use super::Sweep;
use anyhow::{Result, anyhow, bail};
use goodput_core::caveat::ServerCaveat;
use goodput_core::level::Level;
use goodput_core::units::Span;
use goodput_load::client::Client;
use goodput_load::launch::Launch;
use goodput_run::rundir::LOGS;
use goodput_stats::search::profile::By;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a command or the server may take. Ending a profile writes it out, and that may be gigabytes.
const PATIENCE: Duration = Duration::from_secs(300);
/// How often it is looked whether it has ended.
const LOOK: Duration = Duration::from_millis(20);

/// When something is to be done about the profiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// Before the load.
    Before,
    /// When all requests are over.
    After,
}

impl Sweep<'_> {
    /// Begins or ends the profile of a step; whether it did.
    pub(super) async fn profiler(&mut self, step: u32, level: Level, moment: Moment) -> Result<bool> {
        let Some(profile) = &self.plan.profile else { return Ok(false) };
        let (tried, done) = match &profile.by {
            By::Server { start, stop } => {
                let path = if moment == Moment::Before { start } else { stop }.clone();
                let client = self.ready.client().clone();
                let tried = format!("POST {path} failed");
                let asked = self.host.run(async move { ask(&client, &path).await });
                match self.ending.within(self.plan.step.drain.0, asked).await {
                    Some(done) => (tried, done?),
                    None => (tried, Err(anyhow!("the sweep was ended meanwhile"))),
                }
            }
            By::Commands { before, after } => {
                let argv = if moment == Moment::Before { before } else { after };
                if argv.is_empty() {
                    return Ok(true);
                }
                (format!("`{}` failed", argv.join(" ")), self.command(argv, level).await?)
            }
        };
        let Err(why) = done else { return Ok(true) };
        self.note(ServerCaveat::Profiler { step, tried, why: format!("{why:#}") });
        Ok(false)
    }

    /// Runs a command to its end, its output in the folder of logs. It is told what the step is by its environment.
    async fn command(&self, argv: &[String], level: Level) -> Result<Result<()>> {
        let env = BTreeMap::from([
            ("GOODPUT_SERIES".to_owned(), self.series.clone()),
            ("GOODPUT_LEVEL".to_owned(), level.value.to_string()),
            ("GOODPUT_CONTROL".to_owned(), level.control.name().to_owned()),
        ]);
        let log = self.writer.dir().join(LOGS).join("profile.log");
        let launch =
            Launch { argv: argv.to_vec(), env, folder: None, log, secrets: Vec::new(), serves: Vec::new() };
        let (groups, end, grace) = (self.servers.groups(), self.interrupt.clone(), self.plan.step.drain.0);
        // A thread of its own: simulated time does not go on meanwhile.
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

/// Asks every server.
async fn ask(client: &Client, path: &str) -> Result<()> {
    for target in 0..client.urls().len().max(1) {
        match client.post_within(target, path, PATIENCE).await? {
            200..=299 => {}
            status => bail!("HTTP {status}"),
        }
    }
    Ok(())
}
