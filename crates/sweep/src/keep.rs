//! A server that outlives the sweep that started it: repeated sweeps of one plan measure it again without a restart.

use anyhow::Result;
use goodput_core::endpoint::BaseUrl;
use goodput_load::launch::{Launched, port};
use goodput_plan::Start;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The time after which a port of a stopped server that is still open is warned of.
const CLOSE: Duration = Duration::from_secs(15);

/// A server that was started, and how it is stopped.
#[derive(Debug)]
pub(super) struct Started {
    /// The variant whose server it is.
    pub(super) name: String,
    pub(super) launched: Launched,
    pub(super) start: Start,
    pub(super) urls: Vec<BaseUrl>,
}

/// Keeps the server of a sweep that has ended for the next one. Without [`Keep::between_sweeps`] nothing is kept: each sweep stops what it
/// started. Clones share what is kept; a server that is still there when the last of them is dropped is stopped in a hurry.
#[derive(Debug, Clone, Default)]
pub struct Keep(Option<Arc<Mutex<Option<Started>>>>);

impl Keep {
    /// Returns one that keeps servers between sweeps.
    pub fn between_sweeps() -> Self {
        Self(Some(Arc::default()))
    }

    /// Returns true if servers are kept.
    pub(super) const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Keeps a server for the next sweep.
    pub(super) fn put(&self, started: Started) {
        if let Some(slot) = &self.0 {
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(started);
        }
    }

    /// Takes the server that is kept, if there is one.
    pub(super) fn take(&self) -> Option<Started> {
        self.0.as_ref().and_then(|slot| slot.lock().unwrap_or_else(PoisonError::into_inner).take())
    }

    /// Stops the server that is kept, if there is one.
    ///
    /// # Errors
    /// Processes of it are still there after they were killed.
    pub async fn stop(&self) -> Result<()> {
        match self.take() {
            Some(started) => started.stop().await,
            None => Ok(()),
        }
    }
}

impl Started {
    /// Stops it and waits until its port is free.
    ///
    /// # Errors
    /// Processes of it are still there after they were killed.
    pub(super) async fn stop(self) -> Result<()> {
        let Self { name, launched, start, urls } = self;
        if !launched.stop(start.stop_timeout.0).await? {
            tracing::warn!(
                "warning: {name} did not end within {} and was killed (stop-timeout)",
                start.stop_timeout
            );
        }
        if let Err(url) = port::closed(&urls, CLOSE).await {
            tracing::warn!(
                "warning: {name} was stopped, and something still answers at {url}: it is none of its process group"
            );
        }
        Ok(())
    }
}
