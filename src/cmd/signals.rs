//! Signals: the first one ends the sweep with a report of what was measured, the second one leaves at once, with no server left behind.
//! While reports are made, which takes a thread all of its time, the first leaves at once as well.

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

/// Words that have not come through in so many looks, [`LOOK`] each, are not waited for. Looks are counted and not the time that passes: while
/// the machine, or this process, is halted, nobody could have said them, so a halt takes one look at most.
const LOOKS: usize = 200;
/// How long a look lasts.
const LOOK: Duration = Duration::from_millis(5);

/// What a signal is about.
struct Watched {
    interrupt: CancellationToken,
    out: PathBuf,
    groups: Groups,
    /// Whether it is being measured; else its reports are made.
    measures: bool,
}

/// Signals are the process's, and so is this: the sweep that runs, or ran last.
static NOW: Mutex<Option<Watched>> = Mutex::new(None);
/// Whether they are watched for, which they are from the first sweep to the end of the process.
static WATCHES: OnceLock<()> = OnceLock::new();

fn now() -> MutexGuard<'static, Option<Watched>> {
    NOW.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Until it is dropped, the first signal is for what runs.
pub(crate) struct Measuring(());

impl Drop for Measuring {
    fn drop(&mut self) {
        if let Some(watched) = &mut *now() {
            watched.measures = false;
        }
    }
}

/// From now on the first signal cancels `interrupt`, and the second one ends all `groups` and leaves.
///
/// # Errors
/// The system gives no thread, or lets nobody watch for a signal.
pub(crate) fn watch(interrupt: CancellationToken, out: &Path, groups: &Groups) -> Result<Measuring> {
    *now() = Some(Watched { interrupt, out: out.to_owned(), groups: groups.clone(), measures: true });
    if WATCHES.get().is_none() {
        start()?;
        // Nobody else starts one: sweeps run one after the other.
        let _ = WATCHES.set(());
    }
    Ok(Measuring(()))
}

/// A thread of its own: whatever the others are busy with, a signal is heard.
fn start() -> Result<()> {
    let (tell, told) = mpsc::channel();
    let listen = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = match runtime.context("failed to start a runtime for signals") {
            Ok(runtime) => runtime,
            Err(e) => return drop(tell.send(Err(e))),
        };
        runtime.block_on(async {
            match heard().await {
                Ok(heard) => {
                    // Whoever started this thread waits for it.
                    let _ = tell.send(Ok(()));
                    heard.await;
                }
                Err(e) => drop(tell.send(Err(e))),
            }
        });
    };
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(listen)
        .context("failed to start a thread for signals")?;
    told.recv().context("the thread for signals has failed")?
}

/// Watches from now on; the future hears what comes. A terminal that is closed is a signal as well, since servers that were started do not
/// see it; under `nohup` it is none.
async fn heard() -> Result<impl Future<Output = ()>> {
    let mut int = signal(SignalKind::interrupt()).context("failed to watch for Ctrl-C")?;
    let mut term = signal(SignalKind::terminate()).context("failed to watch for SIGTERM")?;
    let heeded = !hangup_is_ignored();
    let hangup = heeded.then(|| signal(SignalKind::hangup())).transpose();
    let mut hangup = hangup.context("failed to watch for SIGHUP")?;
    // A limit on the size of files is then an error of whoever writes, and no sudden end.
    let mut size =
        signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).context("failed to watch for SIGXFSZ")?;
    Ok(async move {
        loop {
            tokio::select! {
                _ = int.recv() => came(),
                _ = term.recv() => came(),
                Some(_) = async { hangup.as_mut()?.recv().await } => came(),
                _ = size.recv() => {}
            }
        }
    })
}

/// A signal has come.
fn came() {
    let now = now();
    let Some(watched) = &*now else { std::process::exit(i32::from(INTERRUPTED)) };
    if watched.measures && !watched.interrupt.is_cancelled() {
        watched.interrupt.cancel();
        drop(now);
        say(|| {
            tracing::warn!(
                "interrupted: finishing what is in flight, then reporting; once more leaves at once"
            );
        });
        return;
    }
    watched.groups.kill();
    let out = watched.out.clone();
    drop(now);
    say(move || hint(&out));
    std::process::exit(i32::from(INTERRUPTED));
}

/// Says something on a thread that is waited for no longer than [`LOOKS`]: a terminal that is stopped, and a pager that reads no further,
/// take nothing, and the next signal is to be heard all the same.
fn say(words: impl FnOnce() + Send + 'static) {
    let (tell, told) = mpsc::channel();
    let said = std::thread::Builder::new().name("words".into()).spawn(move || {
        words();
        // Nobody listens any more where it took too long.
        let _ = tell.send(());
    });
    if said.is_ok() {
        come_through(|look| told.recv_timeout(look) != Err(RecvTimeoutError::Timeout));
    }
}

/// Waits until `heard`, which looks for so long, says so; whether it did.
fn come_through(mut heard: impl FnMut(Duration) -> bool) -> bool {
    (0..LOOKS).any(|_| heard(LOOK))
}

/// Whether this process was started to outlive its terminal, by the system's word; also where it does not say.
fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).is_none_or(|mask| mask & 1 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Row: in which looks the process is halted for a second each, after how much time of its own the words come through, if at all, and
    /// whether they are heard.
    #[test]
    fn a_halt_takes_no_words_away() {
        for (halts, said_after, is_heard) in [
            (0..0, Some(0.0), true),
            (1..3, Some(0.1), true),
            (0..50, Some(0.9), true),
            (0..0, Some(1.1), false), // a terminal that is stopped
            (0..0, None, false),
        ] {
            let (mut look, mut own, mut passed) = (0, 0.0, 0.0);
            let heard = come_through(|lasts| {
                own += lasts.as_secs_f64();
                passed += if halts.contains(&look) { 1.0 } else { lasts.as_secs_f64() };
                look += 1;
                said_after.is_some_and(|said| own > said)
            });
            assert_eq!(heard, is_heard, "{halts:?}, {said_after:?}: {passed} s");
        }
    }
}
