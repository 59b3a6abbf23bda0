//! Servers that outlive the sweep that started them: repeated sweeps of one plan reuse the server without a restart.

use anyhow::Result;
use goodput_core::endpoint::BaseUrl;
use goodput_load::launch::{Launched, port};
use goodput_plan::Start;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Time after which to warn that a port of a stopped server is still open.
const CLOSE: Duration = Duration::from_secs(15);

/// A started server, with the settings for stopping it.
#[derive(Debug)]
pub(super) struct StartedServer {
    /// Name of its variant.
    pub(super) name: String,
    pub(super) launched: Launched,
    pub(super) start: Start,
    pub(super) urls: Vec<BaseUrl>,
}

/// Storage for a started server between sweeps. By default, or without [`ServerStore::between_sweeps`], it stores nothing, and
/// each sweep stops the servers that it started. Clones share the stored server, which is stopped at once if the last
/// clone is dropped.
#[derive(Debug, Clone, Default)]
pub struct ServerStore(Option<Arc<Mutex<Option<StartedServer>>>>);

impl ServerStore {
    /// Returns a storage that keeps servers between sweeps.
    pub fn between_sweeps() -> Self {
        Self(Some(Arc::default()))
    }

    /// Returns true if servers are kept.
    pub(super) const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Keeps a server for the next sweep.
    pub(super) fn put(&self, started: StartedServer) {
        if let Some(slot) = &self.0 {
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(started);
        }
    }

    /// Takes the server that is kept, if there is one.
    pub(super) fn take(&self) -> Option<StartedServer> {
        self.0.as_ref().and_then(|slot| slot.lock().unwrap_or_else(PoisonError::into_inner).take())
    }

    /// Stops the server that is kept, if there is one.
    ///
    /// # Errors
    /// Processes of the server are still alive after they were killed.
    pub async fn stop(&self) -> Result<()> {
        match self.take() {
            Some(started) => started.stop().await,
            None => Ok(()),
        }
    }
}

impl StartedServer {
    /// Stops the server and waits until its port is free.
    ///
    /// # Errors
    /// Processes of the server are still alive after they were killed.
    pub(super) async fn stop(self) -> Result<()> {
        let Self { name, launched, start, urls } = self;
        if !launched.stop(start.stop_timeout.0).await? {
            tracing::warn!(
                "warning: {name} did not exit within {} and was killed (stop-timeout)",
                start.stop_timeout
            );
        }
        if let Err(url) = port::closed(&urls, CLOSE).await {
            tracing::warn!(
                "warning: {name} was stopped, but a process outside its process group still answers at {url}"
            );
        }
        Ok(())
    }
}
