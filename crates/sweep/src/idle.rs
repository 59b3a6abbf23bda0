//! Between steps: whether the server is empty, and whether anybody is there.

use super::Sweep;
use super::ending::Ending;
use super::looks::TICK;
use anyhow::Result;
use goodput_core::caveat::{Caveat, Refusal, ServerCaveat};
use goodput_core::units::{Fraction, Span};
use goodput_load::client::Client;
use goodput_run::rundir::{LeftAlone, Meta};
use goodput_stats::server::Reading;
use goodput_stats::stats::step::{Abort, Step};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long a server may take to say that it is empty.
const IDLE_WAIT: Duration = Duration::from_secs(10);

/// The longest that a server is left alone for its `Retry-After`: one that asks for more is not to be waited for within a sweep.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

impl Sweep<'_> {
    /// What the server of a series goes by in `left_alone`: there is one at a time, unless variants are measured in turns.
    pub(super) fn server_of(&self, series: &str) -> String {
        if self.whole.alternate.is_some() { series.to_owned() } else { String::new() }
    }

    /// For how long the server of a series is still to be left alone before its next step.
    pub(super) fn still_alone(&self, series: &str) -> Duration {
        let until = self.left_alone.get(&self.server_of(series));
        until
            .map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()).min(LONGEST_WAIT))
    }

    /// Waits for as long as a server that refused the last step asked to be left alone, five minutes at most; `false` where the sweep was
    /// interrupted meanwhile.
    pub(super) async fn leave_alone(&mut self, number: u32) -> bool {
        let server = self.server_of(&self.series);
        let Some(until) = self.left_alone.get(&server).copied() else {
            return true;
        };
        let asked = until.saturating_duration_since(Instant::now());
        let wait = asked.min(LONGEST_WAIT);
        if wait.is_zero() {
            return true;
        }
        let (asked_s, waited_s) = (asked.as_secs_f64(), wait.as_secs_f64());
        self.progress.say(&format!(
            "the server asks to be left alone for {} (Retry-After): step {number} begins {} later",
            whole_seconds(asked),
            whole_seconds(wait),
        ));
        self.note(ServerCaveat::Refused { step: number, how: Refusal::AskedToWait { asked_s, waited_s } });
        tokio::select! {
            biased;
            // What is left of it is waited for when the sweep goes on.
            () = self.interrupt.cancelled() => return false,
            () = sleep(wait) => {}
        }
        self.left_alone.remove(&server);
        true
    }

    /// Takes down until when the server of a step asked to be left alone, if it did and its refusals stopped the step, or were more than the
    /// failures that the plan puts up with.
    pub(super) fn asked_to_wait(&mut self, step: &Step, until: Option<Instant>) {
        let most = self.plan.step.max_error_share.map_or(1.0, Fraction::get);
        let stopped = step.unanswered() || matches!(step.abort, Some(Abort::Errors | Abort::Gross));
        if let Some(until) = until.filter(|_| stopped || step.refused_beyond(most)) {
            self.left_alone.insert(self.server_of(&self.series), until);
        }
    }

    /// Until when servers are to be left alone, for a sweep that is resumed.
    pub(super) fn until(&self) -> BTreeMap<String, LeftAlone> {
        let at = |until: &Instant| {
            let left = until.saturating_duration_since(Instant::now()).min(LONGEST_WAIT);
            let moment = Timestamp::now().checked_add(left).ok().filter(|_| !left.is_zero())?;
            Some(LeftAlone { until: moment.to_string(), left_s: left.as_secs_f64() })
        };
        self.left_alone.iter().filter_map(|(server, until)| Some((server.clone(), at(until)?))).collect()
    }

    /// Waits until the server says that it has no requests, where it has metrics; notes it where it does not get there.
    pub(super) async fn wait_idle(&mut self, number: u32) -> Result<()> {
        let deadline = Instant::now() + IDLE_WAIT;
        loop {
            let now = self.ready.scraper.read().await?;
            let left: f64 = now.iter().flatten().filter_map(Reading::in_server).sum();
            if left <= 0.0 || self.ending.why().is_some() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                self.note(ServerCaveat::NotDrained { step: number, left });
                return Ok(());
            }
            sleep(TICK).await;
        }
    }
}

/// What is left of the time for which servers asked to be left alone, now that the sweep goes on: five minutes at most, whatever became of
/// the wall clock. In simulated time no time has passed.
pub(super) fn still(asked: &BTreeMap<String, LeftAlone>, virtual_time: bool) -> BTreeMap<String, Instant> {
    let left = |asked: &LeftAlone| {
        if virtual_time {
            return Duration::try_from_secs_f64(asked.left_s).ok();
        }
        let until: Timestamp = asked.until.parse().ok()?;
        Duration::try_from(until.duration_since(Timestamp::now())).ok()
    };
    let now = Instant::now();
    let until = |asked: &LeftAlone| left(asked).map(|left| now + left.min(LONGEST_WAIT));
    asked.iter().filter_map(|(server, asked)| Some((server.clone(), until(asked)?))).collect()
}

/// Waits for what is left of the time for which the server of a sweep that goes on asked to be left alone, before anything is sent to it. Says
/// so, where it waited. In simulated time, which has not gone on, the next step waits.
///
/// # Errors
/// The sweep was ended meanwhile.
pub(super) async fn leave_alone_still(earlier: &Meta, step: u32, ending: &Ending) -> Result<Option<Caveat>> {
    let until = still(&earlier.left_alone, earlier.virtual_time);
    let Some(until) = until.get("").filter(|_| !earlier.virtual_time) else { return Ok(None) };
    let left = until.saturating_duration_since(Instant::now());
    tracing::info!("the server asked to be left alone (Retry-After): {} more", whole_seconds(left));
    let interrupt = ending.token();
    tokio::select! {
        biased;
        () = interrupt.cancelled() => return Err(ending.too_early()),
        () = sleep(left) => {}
    }
    let waited_s = left.as_secs_f64();
    Ok(Some(Caveat::Server(ServerCaveat::Refused {
        step,
        how: Refusal::AskedToWait { asked_s: waited_s, waited_s },
    })))
}

fn whole_seconds(d: Duration) -> Span {
    Span::secs(d.as_secs_f64().ceil() as u64)
}

/// Whether not one of the servers answers any more.
pub(super) async fn nobody_answers(client: &Client) -> bool {
    for target in 0..client.urls().len().max(1) {
        if client.get_from(target, "/v1/models").await.is_ok() {
            return false;
        }
    }
    true
}
