//! The load of a forecast: the requests of a plan, drawn for an engine at any rate, and the limits that judge it.

use super::model::Modelled;
use crate::bare::boundary::bracket;
use crate::bare::{Bare, traffic};
use anyhow::Result;
use goodput_plan::Plan;
use goodput_workload::traffic::Traffic;
use std::ops::Range;
use std::time::Duration;

/// Requests of a simulated step: fifteen misses of a p99.
const REQUESTS: f64 = 1500.0;
/// Rates that are simulated, in requests per second.
pub(super) const RATES: Range<f64> = 0.02..4000.0;
/// Ratio of the ends of a bracket that is narrow enough.
const NARROW: f64 = 1.03;

/// The requests of a plan, and a tier of its SLO.
pub(super) struct Load<'a> {
    pub(super) plan: &'a Plan,
    traffic: Traffic,
    tier: &'a str,
}

impl<'a> Load<'a> {
    /// Opens the files of a plan's workload.
    ///
    /// # Errors
    /// The requests cannot be drawn without their text, or a file cannot be read.
    pub(super) fn of(plan: &'a Plan, tier: &'a str) -> Result<Self> {
        Ok(Self { plan, traffic: traffic(plan)?, tier })
    }

    /// Returns a sweep on an engine that nothing has run on.
    pub(super) fn sweep(&self, server: &Modelled) -> Bare<'a> {
        Bare::drawing(self.plan, self.traffic.clone(), server.lengths, server.model())
    }

    /// Returns true if an engine meets the SLO at a rate of all copies together.
    pub(super) fn meets(&self, server: &Modelled, rate: f64) -> Result<bool> {
        let rate = rate / server.engine.copies;
        let times = [0.1, 1.0].map(|part| Duration::from_secs_f64(part * REQUESTS / rate));
        self.sweep(server).meets(rate, times, Some(self.tier), 0.0)
    }

    /// Returns the goodput of an engine in requests per second, of all copies together; 0 if no rate meets the SLO. The
    /// search begins `near` a rate.
    pub(super) fn goodput(&self, server: &Modelled, near: f64) -> Result<f64> {
        let [low, high] = bracket(near, &RATES, NARROW, |rate| self.meets(server, rate))?;
        Ok((low * high).sqrt())
    }
}
