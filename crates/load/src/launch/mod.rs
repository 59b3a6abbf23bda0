//! Starting the command of a server and stopping it: in a process group of its own, all of which is gone afterwards.
//!
//! A server like vLLM is several processes. All that it starts stay in its group unless they leave it on purpose, so the group is
//! what is told to end, what is watched until nothing of it is left, and what is killed where it does not go by itself. It is
//! stopped as well when its [`Launched`] is dropped, by an error or a panic, and by [`Groups::kill`] where this process leaves at once.

pub mod cores;
mod group;
pub mod log;
pub mod port;
pub mod stale;

pub use group::Groups;

use anyhow::{Context, Result, bail};
use goodput_core::endpoint::BaseUrl;
use group::Group;
use log::Log;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How often it is looked whether processes are still there.
const LOOK: Duration = Duration::from_millis(50);
/// How long a group may take to be gone once it was killed.
const KILLED: Duration = Duration::from_secs(10);
/// How long a group has where there is no time to wait: this process is on its way out.
const HURRY: Duration = Duration::from_secs(3);

/// A command to start.
#[derive(Clone, PartialEq, Eq)]
pub struct Launch {
    /// The program and its arguments; at least the program.
    pub argv: Vec<String>,
    /// Variables beside those of this process.
    pub env: BTreeMap<String, String>,
    /// Where it runs, if not here.
    pub folder: Option<PathBuf>,
    /// What it writes to standard output and error goes to the end of this file.
    pub log: PathBuf,
    /// What may stand in no file: it is taken out of the log.
    pub secrets: Vec<String>,
    /// Where it is to serve, if it is a server.
    pub serves: Vec<BaseUrl>,
}

/// A command that was started, and all the processes of its group.
#[derive(Debug)]
pub struct Launched {
    child: Child,
    group: Group,
    groups: Groups,
    /// Its output.
    pub log: Log,
    /// Where it is written down while it is there.
    note: PathBuf,
    /// How it ended, once that is known.
    ended: Option<ExitStatus>,
    stopped: bool,
}

impl fmt::Debug for Launch {
    /// Arguments and variables may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let program = self.argv.first().map_or("", String::as_str);
        write!(f, "Launch({program}, its log {})", self.log.display())
    }
}

impl Launch {
    /// Starts it, in a process group of its own that is listed in `groups`.
    ///
    /// # Errors
    /// Where there are no process groups, the log cannot be written, or the program cannot be started; with its name.
    pub fn start(&self, groups: &Groups) -> Result<Launched> {
        let (program, arguments) = self.argv.split_first().context("the command is empty")?;
        if cfg!(not(unix)) {
            bail!(
                "commands can be started and stopped on Linux and macOS only: start the server yourself and give its url"
            );
        }
        let log = Log::open(&self.log, &self.secrets)?;
        let (out, err) = (log.writer()?, log.writer()?);
        let mut command = Command::new(self.program(program));
        command
            .args(arguments)
            .envs(stale::told(&self.log, &self.serves))
            .envs(&self.env)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err);
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        group::apart(&mut command);
        let child = command.spawn().with_context(|| match &self.folder {
            Some(folder) => format!("{program} cannot be started in {}", folder.display()),
            None => format!("{program} cannot be started"),
        })?;
        let group = groups.list(&child, &log);
        let note = self.log.with_extension("pid");
        let mark = i32::try_from(child.id())
            .ok()
            .and_then(|pid| stale::Mark::started(pid, &self.argv, log.secrets()));
        if let Some(Err(e)) = mark.map(|mark| mark.write(&note)) {
            // It runs, and is stopped, all the same.
            tracing::warn!(
                "warning: {e:#}: should this process be killed, the next run cannot name what it leaves"
            );
        }
        Ok(Launched { note, child, group, groups: groups.clone(), log, ended: None, stopped: false })
    }

    /// A program that is named by a path is looked for from where it runs.
    fn program(&self, name: &str) -> PathBuf {
        match &self.folder {
            Some(folder) if name.contains('/') => folder.join(name),
            _ => Path::new(name).to_owned(),
        }
    }
}

impl Launched {
    /// The number of the process that was started, and of its group.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How the process that was started ended, if it did: `exit status: 1`, `signal: 9 (SIGKILL)`.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended
    }

    /// Takes out of its log what may stand in no file, of all that it has written until now.
    pub fn clean_log(&mut self) {
        self.log.clean();
    }

    /// Whether any process of the group is left.
    fn alive(&mut self) -> bool {
        self.exited().is_none() || self.group.alive()
    }

    async fn gone_within(&mut self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        while self.alive() {
            if Instant::now() >= deadline {
                return false;
            }
            sleep(LOOK).await;
        }
        true
    }

    /// Stops the whole group: it is asked to end, and killed where something of it is left after `grace`. Whether it went by itself.
    ///
    /// # Errors
    /// Something of it is there even after it was killed.
    pub async fn stop(mut self, grace: Duration) -> Result<bool> {
        let mut kindly = true;
        if self.alive() {
            self.group.ask();
            kindly = self.gone_within(grace).await;
        }
        if !kindly {
            self.group.kill();
            if !self.gone_within(KILLED).await {
                bail!("processes of group {} are still there after they were killed", self.id());
            }
        }
        self.over();
        Ok(kindly)
    }

    /// Nothing of it is left.
    fn over(&mut self) {
        self.stopped = true;
        self.groups.forget(&self.group);
        // One that stays names a process that is gone: it is not taken for there.
        let _ = std::fs::remove_file(&self.note);
        self.log.clean();
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        if self.stopped {
            return;
        }
        if self.alive() {
            self.group.end(HURRY, || self.child.try_wait().ok().flatten().is_some());
        }
        self.over();
    }
}

#[cfg(test)]
mod tests;
