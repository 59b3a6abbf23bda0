//! Starts and stops the command of a server, in a new process group that is completely gone afterwards.
//!
//! A server like vLLM consists of several processes. Its child processes stay in its group unless they leave it on
//! purpose, so the group is signalled as a whole: SIGTERM first, then SIGKILL if a process is left after the grace
//! period. The group is also stopped when its [`Launched`] is dropped, by an error or a panic, and by [`Groups::kill`]
//! if this process must exit at once.

pub mod cores;
mod group;
pub mod log;
pub mod port;
mod process;
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

/// Polling interval while processes terminate.
const LOOK: Duration = Duration::from_millis(50);
/// Time that a group may take to disappear after SIGKILL.
const KILLED: Duration = Duration::from_secs(10);
/// Grace period when a command is dropped without being stopped: this process is exiting.
const HURRY: Duration = Duration::from_secs(3);

/// A command to start.
#[derive(Clone, PartialEq, Eq)]
pub struct Launch {
    /// The program and its arguments; never empty.
    pub argv: Vec<String>,
    /// Environment variables in addition to those of this process.
    pub env: BTreeMap<String, String>,
    /// Working directory; that of this process if `None`.
    pub folder: Option<PathBuf>,
    /// File to which standard output and standard error are appended.
    pub log: PathBuf,
    /// Secrets, which are removed from the log.
    pub secrets: Vec<String>,
    /// Addresses to serve, if the command is a server.
    pub serves: Vec<BaseUrl>,
}

/// A started command, with all the processes of its group.
#[derive(Debug)]
pub struct Launched {
    child: Child,
    group: Group,
    groups: Groups,
    /// Its standard output and standard error.
    pub log: Log,
    /// File that records the process while it runs.
    note: PathBuf,
    /// Exit status, once known.
    ended: Option<ExitStatus>,
    stopped: bool,
}

impl fmt::Debug for Launch {
    /// Omits arguments and variables, which may contain secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let program = self.argv.first().map_or("", String::as_str);
        write!(f, "Launch({program}, its log {})", self.log.display())
    }
}

impl Launch {
    /// Starts the command in a new process group, which it registers in `groups`.
    ///
    /// # Errors
    /// The log cannot be written, or the program cannot be started; the error names
    /// the program.
    pub fn start(&self, groups: &Groups) -> Result<Launched> {
        let (program, arguments) = self.argv.split_first().context("the command is empty")?;
        let log = Log::open(&self.log, &self.secrets)?;
        let (out, err) = (log.writer()?, log.writer()?);
        let mut command = Command::new(self.program(program));
        command
            .args(arguments)
            .envs(stale::environment_of(&self.log, &self.serves))
            .envs(&self.env)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err);
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        group::in_new_group(&mut command);
        let child = command.spawn().with_context(|| match &self.folder {
            Some(folder) => format!("{program} cannot be started in {}", folder.display()),
            None => format!("{program} cannot be started"),
        })?;
        let group = groups.list(&child, &log);
        let note = self.log.with_extension("pid");
        let mark = i32::try_from(child.id())
            .ok()
            .and_then(|pid| stale::ProcessMark::started(pid, &self.argv, log.secrets()));
        if let Some(Err(e)) = mark.map(|mark| mark.write(&note)) {
            // The process runs, and will be stopped, even without the record.
            tracing::warn!(
                "warning: {e:#}: should this process be killed, the next run cannot name what it leaves"
            );
        }
        Ok(Launched { note, child, group, groups: groups.clone(), log, ended: None, stopped: false })
    }

    /// Resolves a program that is given as a path against the working directory.
    fn program(&self, name: &str) -> PathBuf {
        match &self.folder {
            Some(folder) if name.contains('/') => folder.join(name),
            _ => Path::new(name).to_owned(),
        }
    }
}

impl Launched {
    /// Returns the ID of the started process, which is also that of its group.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the exit status of the started process, if it has exited: `exit status: 1`, `signal: 9 (SIGKILL)`.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended
    }

    /// Removes the secrets from everything written to the log so far.
    pub fn clean_log(&mut self) {
        self.log.clean();
    }

    /// Returns true if any process of the group is running.
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

    /// Stops the whole group: sends SIGTERM, then SIGKILL if a process is left after `grace`. Returns true if SIGTERM
    /// was enough.
    ///
    /// # Errors
    /// A process is left even after SIGKILL.
    pub async fn stop(mut self, grace: Duration) -> Result<bool> {
        let mut kindly = true;
        if self.alive() {
            self.group.terminate();
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

    /// Cleans up after the last process of the group.
    fn over(&mut self) {
        self.stopped = true;
        self.groups.forget(&self.group);
        // A file that cannot be removed is harmless: the process it names is not running.
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
