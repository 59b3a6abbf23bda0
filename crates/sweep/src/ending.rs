//! Reasons that end a sweep before its search is done, other than its budget and its server: the user, the deadline, or
//! a disk that is nearly full.
//!
//! All of them end the sweep in the same manner: the load stops, requests in flight drain, and the steps measured so
//! far are reported.
//! They differ in the caveat and in the error message.

use super::bounds::Deadline;
use anyhow::{Error, anyhow};
use goodput_core::caveat::SweepCaveat;
use goodput_core::units::{Span, bytes};
use goodput_run::rundir::RESULT;
use goodput_run::rundir::space::Low;
use goodput_stats::stats::step::{Abort, Step};
use std::future::Future;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// The reason that ends a sweep early.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Why {
    Interrupted,
    Deadline(Deadline),
    Disk(Low),
}

/// The signal that ends a sweep early, and its reason. Clones share the state.
#[derive(Clone)]
pub(super) struct Ending {
    token: CancellationToken,
    why: Arc<OnceLock<Why>>,
    /// Waits for the user and the deadline.
    _waits: Arc<AbortOnDropHandle<()>>,
}

impl Ending {
    /// Starts to wait for `user` and for the deadline, which counts from now.
    pub(super) fn begin(user: CancellationToken, deadline: Deadline) -> Self {
        let (token, why) = (CancellationToken::new(), Arc::new(OnceLock::new()));
        let end = {
            let (token, why) = (token.clone(), why.clone());
            move |is: Why| set(&token, &why, is)
        };
        if user.is_cancelled() {
            end(Why::Interrupted);
        }
        let waits = tokio::spawn(async move {
            tokio::select! {
                biased;
                () = user.cancelled() => end(Why::Interrupted),
                () = sleep(deadline.after) => {
                    let from = if deadline.named { "search.deadline" } else { "reckoned from the plan" };
                    tracing::warn!(
                        "warning: the deadline of {} has come ({from}): finishing what is in flight, then reporting",
                        Span(deadline.after)
                    );
                    end(Why::Deadline(deadline));
                }
            }
        });
        Self { token, why, _waits: Arc::new(AbortOnDropHandle::new(waits)) }
    }

    /// Ends the sweep. Only the first reason counts.
    pub(super) fn end(&self, why: Why) {
        set(&self.token, &self.why, why);
    }

    /// Returns the token that is cancelled when the sweep must end.
    pub(super) fn token(&self) -> CancellationToken {
        self.token.clone()
    }

    /// Returns true once the sweep is to end.
    pub(super) fn has_come(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Returns the reason for the early end, if there is one.
    pub(super) fn why(&self) -> Option<Why> {
        self.why.get().copied()
    }

    /// Returns the abort reason for a step that this ending interrupts.
    pub(super) fn abort(&self) -> Abort {
        match self.why() {
            Some(Why::Deadline(_)) => Abort::Deadline,
            Some(Why::Disk(_)) => Abort::Disk,
            Some(Why::Interrupted) | None => Abort::Interrupted,
        }
    }

    /// Returns the caveat for reports, if the sweep ends early.
    pub(super) fn caveat(&self) -> Option<SweepCaveat> {
        Some(match self.why()? {
            Why::Interrupted => SweepCaveat::Interrupted,
            Why::Deadline(d) => SweepCaveat::Deadline { deadline_s: d.after.as_secs_f64(), named: d.named },
            Why::Disk(low) => SweepCaveat::DiskLow { free: low.free, reserve: low.reserve },
        })
    }

    /// Returns the error of a sweep that ends before it has measured anything.
    pub(super) fn too_early(&self) -> Error {
        match self.why() {
            None | Some(Why::Interrupted) => anyhow!("interrupted before anything was measured"),
            Some(Why::Deadline(deadline)) => anyhow!(
                "nothing was measured before the deadline of {}: the server did not get ready in that time; look at it, or give the sweep \
                 more (search.deadline)",
                Span(deadline.after)
            ),
            Some(Why::Disk(low)) => anyhow!(
                "nothing was measured: the disk is nearly full ({} free, and {} are kept for the reports)",
                bytes(low.free),
                bytes(low.reserve)
            ),
        }
    }

    /// Returns the output of `future`, or `None` if it is still pending `grace` after the sweep was ended.
    pub(super) async fn within<T>(&self, grace: Duration, future: impl Future<Output = T>) -> Option<T> {
        let late = async {
            self.token.cancelled().await;
            sleep(grace).await;
        };
        tokio::select! {
            biased;
            done = future => Some(done),
            () = late => None,
        }
    }
}

fn set(token: &CancellationToken, why: &OnceLock<Why>, is: Why) {
    // An earlier reason wins.
    let _ = why.set(is);
    token.cancel();
}

/// Returns the caveat of a sweep that was ended early. `steps` are the measured steps; `left` returns true if there is
/// anything left to measure.
pub(super) fn caveat(ending: &Ending, steps: &[Step], left: impl FnOnce() -> bool) -> Option<SweepCaveat> {
    let says = match ending.why()? {
        // An interrupted step has its own caveat.
        Why::Interrupted => !steps.iter().any(|s| s.abort == Some(Abort::Interrupted)),
        // A deadline or a full disk after the last step has cut nothing off.
        Why::Deadline(_) | Why::Disk(_) => left(),
    };
    ending.caveat().filter(|_| says)
}

/// Returns the message for a sweep that ended with an error.
pub(super) fn broke_off(dir: &Path) -> String {
    if dir.join(RESULT).is_file() {
        let dir = dir.display();
        return format!(
            "the sweep broke off; what was measured until then is kept, `goodput report {dir}` shows it, and once the cause is mended \
             `goodput sweep --resume {dir}` goes on"
        );
    }
    "the sweep broke off".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Deadline = Deadline { after: Duration::from_secs(5), named: true };

    #[tokio::test(start_paused = true)]
    async fn the_first_reason_stands() {
        let user = CancellationToken::new();
        let ending = Ending::begin(user.clone(), SOON);
        assert_eq!((ending.why(), ending.caveat()), (None, None));
        let began = tokio::time::Instant::now();
        ending.token().cancelled().await;
        assert_eq!((began.elapsed().as_secs(), ending.abort()), (5, Abort::Deadline));
        user.cancel();
        ending.end(Why::Disk(Low { free: 1, reserve: 2 }));
        assert_eq!(ending.why(), Some(Why::Deadline(SOON)));
        assert!(ending.too_early().to_string().contains("before the deadline of 5s"));
    }

    #[tokio::test(start_paused = true)]
    async fn the_user_is_heard_at_any_time() {
        let user = CancellationToken::new();
        user.cancel();
        assert_eq!(Ending::begin(user, SOON).abort(), Abort::Interrupted);
        let user = CancellationToken::new();
        let ending = Ending::begin(user.clone(), SOON);
        user.cancel();
        ending.token().cancelled().await;
        assert_eq!(ending.caveat(), Some(SweepCaveat::Interrupted));
    }

    #[tokio::test(start_paused = true)]
    async fn what_hangs_is_left_after_a_while() {
        let ending = Ending::begin(CancellationToken::new(), SOON);
        assert_eq!(ending.within(Duration::from_secs(2), sleep(Duration::from_secs(6))).await, Some(()));
        let hangs = ending.within(Duration::from_secs(2), std::future::pending::<()>());
        assert_eq!(hangs.await, None);
    }
}
