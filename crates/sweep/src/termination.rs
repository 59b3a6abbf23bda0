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
pub(super) enum TerminationReason {
    Interrupted,
    Deadline(Deadline),
    Disk(Low),
}

/// The signal that ends a sweep early, and its reason. Clones share the state.
#[derive(Clone)]
pub(super) struct Termination {
    token: CancellationToken,
    reason: Arc<OnceLock<TerminationReason>>,
    /// Waits for the user and the deadline.
    _waits: Arc<AbortOnDropHandle<()>>,
}

impl Termination {
    /// Starts to wait for `user` and for the deadline, which counts from now.
    pub(super) fn begin(user: CancellationToken, deadline: Deadline) -> Self {
        let (token, reason) = (CancellationToken::new(), Arc::new(OnceLock::new()));
        let end = {
            let (token, reason) = (token.clone(), reason.clone());
            move |is: TerminationReason| set(&token, &reason, is)
        };
        if user.is_cancelled() {
            end(TerminationReason::Interrupted);
        }
        let waits = tokio::spawn(async move {
            tokio::select! {
                biased;
                () = user.cancelled() => end(TerminationReason::Interrupted),
                () = sleep(deadline.after) => {
                    let from = if deadline.named { "search.deadline" } else { "computed from the plan" };
                    tracing::warn!(
                        "warning: the deadline of {} is reached ({from}): finishing the requests in flight, then reporting",
                        Span(deadline.after)
                    );
                    end(TerminationReason::Deadline(deadline));
                }
            }
        });
        Self { token, reason, _waits: Arc::new(AbortOnDropHandle::new(waits)) }
    }

    /// Ends the sweep. Only the first reason counts.
    pub(super) fn end(&self, reason: TerminationReason) {
        set(&self.token, &self.reason, reason);
    }

    /// Returns the token that is cancelled when the sweep must end.
    pub(super) fn token(&self) -> CancellationToken {
        self.token.clone()
    }

    /// Returns true once the sweep is to end.
    pub(super) fn is_requested(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Returns the reason for the early end, if there is one.
    pub(super) fn reason(&self) -> Option<TerminationReason> {
        self.reason.get().copied()
    }

    /// Returns the abort reason for a step that this termination interrupts.
    pub(super) fn abort(&self) -> Abort {
        match self.reason() {
            Some(TerminationReason::Deadline(_)) => Abort::Deadline,
            Some(TerminationReason::Disk(_)) => Abort::Disk,
            Some(TerminationReason::Interrupted) | None => Abort::Interrupted,
        }
    }

    /// Returns the caveat for reports, if the sweep ends early.
    pub(super) fn caveat(&self) -> Option<SweepCaveat> {
        Some(match self.reason()? {
            TerminationReason::Interrupted => SweepCaveat::Interrupted,
            TerminationReason::Deadline(d) => {
                SweepCaveat::Deadline { deadline_s: d.after.as_secs_f64(), named: d.named }
            }
            TerminationReason::Disk(low) => SweepCaveat::DiskLow { free: low.free, reserve: low.reserve },
        })
    }

    /// Returns the error of a sweep that ends before it has measured anything.
    pub(super) fn too_early(&self) -> Error {
        match self.reason() {
            None | Some(TerminationReason::Interrupted) => {
                anyhow!("interrupted before anything was measured")
            }
            Some(TerminationReason::Deadline(deadline)) => anyhow!(
                "nothing was measured before the deadline of {}: the server was not ready in time; look at it, or set a later search.deadline",
                Span(deadline.after)
            ),
            Some(TerminationReason::Disk(low)) => anyhow!(
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

fn set(token: &CancellationToken, reason: &OnceLock<TerminationReason>, is: TerminationReason) {
    // An earlier reason wins.
    let _ = reason.set(is);
    token.cancel();
}

/// Returns the caveat of a sweep that was ended early. `steps` are the measured steps; `left` returns true if there is
/// anything left to measure.
pub(super) fn caveat(
    termination: &Termination,
    steps: &[Step],
    left: impl FnOnce() -> bool,
) -> Option<SweepCaveat> {
    let says = match termination.reason()? {
        // An interrupted step has its own caveat.
        TerminationReason::Interrupted => !steps.iter().any(|s| s.abort == Some(Abort::Interrupted)),
        // A deadline or a full disk after the last step has cut nothing off.
        TerminationReason::Deadline(_) | TerminationReason::Disk(_) => left(),
    };
    termination.caveat().filter(|_| says)
}

/// Returns the message for a sweep that ended with an error.
pub(super) fn broke_off(dir: &Path) -> String {
    if dir.join(RESULT).is_file() {
        let dir = dir.display();
        return format!(
            "the sweep failed; the steps before are kept: `goodput report {dir}` shows them, and `goodput sweep --resume {dir}` continues once \
             the cause is fixed"
        );
    }
    "the sweep failed".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Deadline = Deadline { after: Duration::from_secs(5), named: true };

    #[tokio::test(start_paused = true)]
    async fn the_first_reason_stands() {
        let user = CancellationToken::new();
        let termination = Termination::begin(user.clone(), SOON);
        assert_eq!((termination.reason(), termination.caveat()), (None, None));
        let began = tokio::time::Instant::now();
        termination.token().cancelled().await;
        assert_eq!((began.elapsed().as_secs(), termination.abort()), (5, Abort::Deadline));
        user.cancel();
        termination.end(TerminationReason::Disk(Low { free: 1, reserve: 2 }));
        assert_eq!(termination.reason(), Some(TerminationReason::Deadline(SOON)));
        assert!(termination.too_early().to_string().contains("before the deadline of 5s"));
    }

    #[tokio::test(start_paused = true)]
    async fn the_user_is_heard_at_any_time() {
        let user = CancellationToken::new();
        user.cancel();
        assert_eq!(Termination::begin(user, SOON).abort(), Abort::Interrupted);
        let user = CancellationToken::new();
        let termination = Termination::begin(user.clone(), SOON);
        user.cancel();
        termination.token().cancelled().await;
        assert_eq!(termination.caveat(), Some(SweepCaveat::Interrupted));
    }

    #[tokio::test(start_paused = true)]
    async fn what_hangs_is_left_after_a_while() {
        let termination = Termination::begin(CancellationToken::new(), SOON);
        assert_eq!(termination.within(Duration::from_secs(2), sleep(Duration::from_secs(6))).await, Some(()));
        let hangs = termination.within(Duration::from_secs(2), std::future::pending::<()>());
        assert_eq!(hangs.await, None);
    }
}
