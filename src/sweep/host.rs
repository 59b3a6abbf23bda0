//! Where the load runs: a thread of its own on the real clock, the caller's runtime under the paused one.

use crate::load::pacer::Pacer;
use crate::load::source::{Builder, Source};
use anyhow::{Context, Result};
use std::future::Future;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

/// The runtime that sends requests and receives answers; it does nothing else.
pub(crate) struct Host {
    handle: Handle,
    clock: Clock,
    end: CancellationToken,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clock {
    Real,
    Paused,
}

impl Host {
    /// A thread with a runtime of its own: connections live there from one step to the next.
    pub(crate) fn real() -> Result<Self> {
        let end = CancellationToken::new();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("failed to start the runtime that sends requests")?;
        let (handle, ended) = (runtime.handle().clone(), end.clone());
        let thread = std::thread::Builder::new()
            .name("load".into())
            .spawn(move || {
                runtime.block_on(ended.cancelled());
                // A name that is still being looked up must not hold the program back.
                runtime.shutdown_background();
            })
            .context("failed to start the thread that sends requests")?;
        Ok(Self { handle, clock: Clock::Real, end, thread: Some(thread) })
    }

    /// The caller's runtime, whose clock is paused.
    pub(crate) fn paused() -> Self {
        Self { handle: Handle::current(), clock: Clock::Paused, end: CancellationToken::new(), thread: None }
    }

    /// Whether time is simulated.
    pub(crate) fn is_paused(&self) -> bool {
        self.clock == Clock::Paused
    }

    /// Starts `future` there.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        self.handle.spawn(future)
    }

    /// Runs `future` there and waits for it. A panic of the future is an error here.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<T> {
        self.spawn(future).await.context("the runtime that sends requests has failed")
    }

    /// A pacer for this clock.
    pub(crate) fn pacer(&self) -> Result<Pacer> {
        match self.clock {
            Clock::Real => Pacer::thread().context("failed to start the pacer's thread"),
            Clock::Paused => Ok(Pacer::clock()),
        }
    }

    /// A source of bodies for this clock.
    pub(crate) fn source(&self, builder: Builder, rate: Option<f64>) -> Result<Source> {
        match self.clock {
            Clock::Real => {
                Source::ahead(builder, rate).context("failed to start the thread that builds bodies")
            }
            Clock::Paused => Ok(Source::Inline(Box::new(builder))),
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.end.cancel();
        if let Some(thread) = self.thread.take() {
            // It has nothing left to do; a panic in it has been reported by `run` already.
            let _ = thread.join();
        }
    }
}
