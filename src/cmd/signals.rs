//! Signals: the first one ends the sweep with a report of what was measured; the second one kills the started servers and exits at once.
//! While reports are made, which keeps the main thread busy, the first signal exits at once too.

use super::sweep::{INTERRUPTED, hint};
use crate::launch::Groups;
use anyhow::{Context, Result};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Maximum number of polls, [`POLL`] each, to wait for a message to be written. Polls are counted instead of elapsed time: if the machine or
/// the process is suspended, the suspension uses up at most one poll.
const MAX_POLLS: usize = 200;
/// Duration of one poll.
const POLL: Duration = Duration::from_millis(5);

/// The sweep that signals apply to.
struct Watched {
    interrupt: CancellationToken,
    out: PathBuf,
    groups: Groups,
    /// True while the sweep is measured, false while its reports are made.
    measuring: bool,
}

/// The sweep that runs or ran last; global because signals are.
static CURRENT: Mutex<Option<Watched>> = Mutex::new(None);
/// Set once the signal thread runs, which it does from the first sweep to the end of the process.
static STARTED: OnceLock<()> = OnceLock::new();

fn current() -> MutexGuard<'static, Option<Watched>> {
    CURRENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Guard of a running measurement: until it is dropped, the first signal interrupts the sweep.
pub(crate) struct Measuring(());

impl Drop for Measuring {
    fn drop(&mut self) {
        if let Some(watched) = &mut *current() {
            watched.measuring = false;
        }
    }
}

/// Makes the first signal cancel `interrupt`, and the second one kill all `groups` and exit.
///
/// # Errors
/// The operating system refuses a thread or a signal handler.
pub(crate) fn watch(interrupt: CancellationToken, out: &Path, groups: &Groups) -> Result<Measuring> {
    *current() = Some(Watched { interrupt, out: out.to_owned(), groups: groups.clone(), measuring: true });
    if STARTED.get().is_none() {
        start()?;
        // Cannot fail: sweeps run one after the other, so no other caller has set it.
        let _ = STARTED.set(());
    }
    Ok(Measuring(()))
}

/// Starts the signal thread, separate so that signals are handled however busy the other threads are.
fn start() -> Result<()> {
    let (ready, started) = mpsc::channel();
    let listen = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = match runtime.context("failed to start a runtime for signals") {
            Ok(runtime) => runtime,
            Err(e) => return drop(ready.send(Err(e))),
        };
        runtime.block_on(async {
            match handler().await {
                Ok(handler) => {
                    // The receiver cannot be gone: `start` waits for this.
                    let _ = ready.send(Ok(()));
                    handler.await;
                }
                Err(e) => drop(ready.send(Err(e))),
            }
        });
    };
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(listen)
        .context("failed to start a thread for signals")?;
    started.recv().context("the thread for signals has failed")?
}

/// Installs the signal handlers, and returns a future that handles the signals.
///
/// Handles SIGHUP too, because started servers do not notice that the terminal closed; not under `nohup`, which ignores it.
async fn handler() -> Result<impl Future<Output = ()>> {
    let mut int = signal(SignalKind::interrupt()).context("failed to watch for Ctrl-C")?;
    let mut term = signal(SignalKind::terminate()).context("failed to watch for SIGTERM")?;
    let handle_hangup = !hangup_is_ignored();
    let hangup = handle_hangup.then(|| signal(SignalKind::hangup())).transpose();
    let mut hangup = hangup.context("failed to watch for SIGHUP")?;
    // With a handler for SIGXFSZ, exceeding the file size limit is a write error instead of the end of the process.
    let mut size =
        signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).context("failed to watch for SIGXFSZ")?;
    Ok(async move {
        loop {
            tokio::select! {
                _ = int.recv() => on_signal(),
                _ = term.recv() => on_signal(),
                Some(_) = async { hangup.as_mut()?.recv().await } => on_signal(),
                _ = size.recv() => {}
            }
        }
    })
}

/// Handles a signal: the first one interrupts the measurement, any other exits.
fn on_signal() {
    let current = current();
    let Some(watched) = &*current else { std::process::exit(i32::from(INTERRUPTED)) };
    if watched.measuring && !watched.interrupt.is_cancelled() {
        watched.interrupt.cancel();
        drop(current);
        log_with_timeout(|| {
            tracing::warn!(
                "interrupted: finishing the requests in flight, then reporting; interrupt again to exit at once"
            );
        });
        return;
    }
    watched.groups.kill();
    let out = watched.out.clone();
    drop(current);
    log_with_timeout(move || hint(&out));
    std::process::exit(i32::from(INTERRUPTED));
}

/// Logs a message on a separate thread and waits at most [`MAX_POLLS`] for it: a stopped terminal or a stalled pager blocks the write, and
/// must not block the next signal.
fn log_with_timeout(log: impl FnOnce() + Send + 'static) {
    let (done, finished) = mpsc::channel();
    let thread = std::thread::Builder::new().name("log".into()).spawn(move || {
        log();
        // Fails if the receiver has stopped waiting.
        let _ = done.send(());
    });
    if thread.is_ok() {
        poll_until_done(|wait| finished.recv_timeout(wait) != Err(RecvTimeoutError::Timeout));
    }
}

/// Polls `is_done`, which may block for the time given, at most [`MAX_POLLS`] times. Returns true if it is done.
fn poll_until_done(mut is_done: impl FnMut(Duration) -> bool) -> bool {
    (0..MAX_POLLS).any(|_| is_done(POLL))
}

/// Returns true if the process ignores SIGHUP, as under `nohup`, or if /proc does not tell.
fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).is_none_or(|mask| mask & 1 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cases: the polls during which the process is suspended for a second, the running time after which the message is written (if ever), and
    /// whether the wait sees it.
    #[test]
    fn a_suspended_process_does_not_use_up_the_timeout() {
        for (halts, written_after, is_seen) in [
            (0..0, Some(0.0), true),
            (1..3, Some(0.1), true),
            (0..50, Some(0.9), true),
            (0..0, Some(1.1), false), // a terminal that is stopped
            (0..0, None, false),
        ] {
            let (mut poll, mut running, mut passed) = (0, 0.0, 0.0);
            let seen = poll_until_done(|wait| {
                running += wait.as_secs_f64();
                passed += if halts.contains(&poll) { 1.0 } else { wait.as_secs_f64() };
                poll += 1;
                written_after.is_some_and(|time| running > time)
            });
            assert_eq!(seen, is_seen, "{halts:?}, {written_after:?}: {passed} s");
        }
    }
}
