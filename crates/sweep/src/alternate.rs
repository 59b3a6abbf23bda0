//! Alternating variants: at each rate in the order ABBA…, where each step of one variant is next to a step of the
//! others with equal arrivals and lengths. Their servers run at the same time.
//!
//! While one server is measured, the others are idle: a step ends when its server has drained, and the next one begins
//! when the next server reports that it is empty.

use super::clock::SweepClock;
use super::director::Sweep;
use super::next::{After, after};
use super::prepare::Prepared;
use super::retry_after::server_key;
use super::runner::Runner;
use anyhow::{Context, Result, bail};
use goodput_core::caveat::SweepCaveat;
use goodput_plan::Series;
use goodput_stats::search::config::Mode;
use goodput_stats::search::{Next, Search};
use goodput_stats::stats::step::Step;

/// The series name that seeds the random numbers of all variants, so that they are equal.
pub(super) const TOGETHER: &str = "in turns";

/// The servers of the variants, by series. The entry of the server that the runner holds is empty.
struct ReadyServers {
    waiting: Vec<Option<Prepared>>,
    /// Index of the series whose server the runner holds.
    current: usize,
}

impl ReadyServers {
    /// Passes the server of another series to the runner.
    fn turn_to(&mut self, runner: &mut Runner, next: usize) -> Result<()> {
        if next != self.current {
            let ready = self.waiting[next].take().context("every server waits for its turn")?;
            self.seat(runner, next, ready);
        }
        Ok(())
    }

    /// Passes a server to the runner and puts the previous one back.
    fn seat(&mut self, runner: &mut Runner, at: usize, ready: Prepared) {
        self.waiting[self.current] = Some(std::mem::replace(&mut runner.ready, ready));
        self.current = at;
    }
}

/// Returns the number of steps of a series that were neither interrupted nor spoilt by a worker.
fn measured(series: &str, steps: &[Step]) -> usize {
    steps.iter().filter(|s| s.series == series && !s.is_void()).count()
}

/// Returns the index of the variant to measure next, given the number of steps of each: the first of those with the
/// fewest steps, or the last of them in every other round. The order reverses from one round of a rate to the next
/// round of that rate, and from one rate to the next: if it reversed with every step, an even number of rates would
/// always have each rate in one order.
fn turn(done: &[usize], rates: usize) -> usize {
    let rates = rates.max(1);
    let fewest = done.iter().copied().min().unwrap_or(0);
    let is_next = |i: &usize| done[*i] == fewest;
    let all = 0..done.len();
    let forth = (fewest / rates + fewest % rates).is_multiple_of(2);
    let next = if forth { all.clone().find(is_next) } else { all.clone().rev().find(is_next) };
    next.unwrap_or(0)
}

/// Returns the number of different rates that a series lists.
fn rates(one: &Series) -> usize {
    let Mode::Rates(listed) = &one.plan.search.mode else { return 1 };
    let mut all: Vec<f64> = listed.iter().map(|r| r.get()).collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    all.len()
}

impl Sweep<'_> {
    /// Measures the steps of all variants, alternating between them.
    pub(super) async fn alternating(&mut self, runner: &mut Runner) -> Result<()> {
        let series = self.all.series;
        let searches: Vec<Search> = series
            .iter()
            .map(|one| one.plan.searcher().map_err(anyhow::Error::msg))
            .collect::<Result<_>>()?;
        let mut servers = self.all_ready(runner).await?;
        let rates = series.first().map_or(1, rates);
        loop {
            let done: Vec<usize> = series.iter().map(|one| measured(&one.name, &self.steps)).collect();
            let next = turn(&done, rates);
            let one = &series[next];
            let Next::Measure(ask) = searches[next].next(&one.name, &self.steps) else { return Ok(()) };
            if self.termination.is_requested() {
                return Ok(());
            }
            // Measure complete rounds only, so that the variants can be compared in pairs.
            let begins_round = done.iter().all(|n| *n == done[0]);
            if begins_round && self.is_round_over_budget() {
                self.note(SweepCaveat::BudgetSpent { next: ask.level.value });
                return self.write_result(&runner.servers);
            }
            servers.turn_to(runner, next)?;
            self.measure(runner, one, ask, Some(done[next] as u32 + 1)).await?;
            match after(&self.steps) {
                After::Continue => {}
                After::ServerGone | After::Stop => return Ok(()),
            }
        }
    }

    /// Returns true if another step of every variant, as long as the average so far, would end after the budget.
    fn is_round_over_budget(&self) -> bool {
        let took: f64 = self.steps.iter().map(|s| s.ended_s - s.started_s).sum();
        let each = took / self.steps.len().max(1) as f64;
        // Waits overlap: while one server must be left alone, another one is measured. So at most the longest wait is
        // lost.
        let series = self.all.series;
        let waits = series.iter().map(|one| self.waits.left(&server_key(self.plan, &one.name)));
        let wait = waits.max().unwrap_or_default();
        let end = (self.clock.now() + wait).as_secs_f64() + each * series.len() as f64;
        self.meta.budget.is_some_and(|budget| end > budget.0.as_secs_f64())
    }

    /// Prepares every server and warms it up. The time for this does not count against the sweep.
    async fn all_ready(&mut self, runner: &mut Runner) -> Result<ReadyServers> {
        let (spent, series) = (self.clock.now(), self.all.series);
        let first = series.iter().position(|one| runner.servers.serves(one)).context("a server is ready")?;
        let mut servers = ReadyServers { waiting: Vec::new(), current: first };
        servers.waiting.resize_with(series.len(), || None);
        for at in std::iter::once(first).chain((0..series.len()).filter(|i| *i != first)) {
            let one = &series[at];
            if at != first {
                runner.servers.end(false).await?;
                let begun =
                    runner.servers.begin(one, self.all, &runner.host, &self.termination.token()).await?;
                let Some(ready) = begun else {
                    self.write_result(&runner.servers)?;
                    if self.termination.reason().is_some() {
                        return Err(self.termination.too_early());
                    }
                    bail!(
                        "{} is not ready, and variants that are measured in turns need every server",
                        one.name
                    );
                };
                servers.seat(runner, at, ready);
            }
            runner.ready.turn_to(&one.plan).with_context(|| format!("in the series {}", one.name))?;
            runner.warm_up(one, &mut self.journal, &self.termination).await?;
        }
        self.clock = SweepClock::at(spent);
        self.write_result(&runner.servers)?;
        Ok(servers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_go_there_and_back() {
        let order = |n: usize, rates: usize, steps: usize| -> String {
            let mut done = vec![0; n];
            (0..steps)
                .map(|_| {
                    let next = turn(&done, rates);
                    done[next] += 1;
                    char::from(b'A' + next as u8)
                })
                .collect()
        };
        assert_eq!(order(2, 1, 8), "ABBAABBA");
        assert_eq!(order(3, 1, 7), "ABCCBAA");
        assert_eq!(turn(&[2, 1], 1), 1, "resumed in the middle of a pair");
        assert_eq!(turn(&[1, 2], 1), 0);
        for rates in 1..6 {
            let all = order(2, rates, 2 * 4 * rates);
            for rate in 0..rates {
                let own: String = (0..4).map(|k| &all[2 * (k * rates + rate)..][..2]).collect();
                let is = if rate.is_multiple_of(2) { "ABBAABBA" } else { "BAABBAAB" };
                assert_eq!(own, is, "rate {rate} of {rates}");
            }
        }
    }
}
