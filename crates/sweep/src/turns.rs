//! Variants in turns: at each rate ABBA…, each step of one beside a step of the others with the same arrivals and lengths, on servers that are up
//! at once.
//!
//! While one is measured the others are idle: a step ends when its server has drained, and the next begins when the next server says that it is
//! empty.

use super::prepare::Prepared;
use super::{After, Sweep};
use anyhow::{Context, Result, bail};
use goodput_core::caveat::SweepCaveat;
use goodput_plan::Series;
use goodput_stats::search::config::Mode;
use goodput_stats::search::{Next, Search};
use goodput_stats::stats::step::{Abort, Step};

/// The name under which the random numbers of all variants are drawn, so that they are the same.
pub(super) const TOGETHER: &str = "in turns";

/// The server of each variant, while another one's turn is.
type Waiting = Vec<Option<(Prepared, bool)>>;

/// Steps of a series that were measured to an end of their own.
pub(super) fn measured(series: &str, steps: &[Step]) -> usize {
    steps.iter().filter(|s| s.series == series && !s.broken_off()).count()
}

/// Whose turn it is, by the steps that each has: of those with the fewest the first, or the last in every other round. The order turns from one
/// round of a rate to the next round of the same rate, and from one rate to the next: were it to turn with each step alone, an even number of rates
/// would have each rate in one order for good.
pub(super) fn turn(done: &[usize], rates: usize) -> usize {
    let rates = rates.max(1);
    let fewest = done.iter().copied().min().unwrap_or(0);
    let theirs = |i: &usize| done[*i] == fewest;
    let all = 0..done.len();
    let forth = (fewest / rates + fewest % rates).is_multiple_of(2);
    let next = if forth { all.clone().find(theirs) } else { all.clone().rev().find(theirs) };
    next.unwrap_or(0)
}

/// How many rates there are, each counted once.
fn rates(one: &Series) -> usize {
    let Mode::Rates(listed) = &one.plan.search.mode else { return 1 };
    let mut all: Vec<f64> = listed.iter().map(|r| r.get()).collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    all.len()
}

impl<'a> Sweep<'a> {
    /// The steps of all variants, in turns.
    pub(super) async fn in_turns(&mut self, series: &'a [Series]) -> Result<After> {
        let searches: Vec<Search> = series
            .iter()
            .map(|one| one.plan.searcher().map_err(anyhow::Error::msg))
            .collect::<Result<_>>()?;
        let (mut waiting, mut now) = self.all_ready(series).await?;
        let rates = series.first().map_or(1, rates);
        loop {
            let done: Vec<usize> = series.iter().map(|one| measured(&one.name, &self.steps)).collect();
            let next = turn(&done, rates);
            let one = &series[next];
            let Next::Measure(ask) = searches[next].next(&one.name, &self.steps) else {
                return Ok(After::Next);
            };
            if self.interrupt.is_cancelled() {
                return Ok(After::Nothing);
            }
            // Both of a pair or neither.
            let begins = done.iter().all(|n| *n == done[0]);
            if begins && self.no_time_for_all(series) {
                self.note(SweepCaveat::BudgetSpent { next: ask.level.value });
                self.write_result()?;
                return Ok(After::Nothing);
            }
            if next != now {
                let (ready, resets) = waiting[next].take().context("every server waits for its turn")?;
                let before = std::mem::replace(&mut self.ready, ready);
                waiting[now] = Some((before, std::mem::replace(&mut self.resets, resets)));
                now = next;
            }
            (self.plan, self.series) = (&one.plan, one.name.clone());
            self.own = self.steps.iter().filter(|s| s.series == one.name).cloned().collect();
            self.measure(ask).await?;
            match self.steps.last().and_then(|s| s.abort) {
                Some(why) if why.is_broken_off() => return Ok(After::Nothing),
                Some(Abort::ServerGone) => return Ok(After::Gone),
                _ => {}
            }
        }
    }

    /// Whether another step of every variant, as long as they were so far, would end after the budget.
    fn no_time_for_all(&self, series: &[Series]) -> bool {
        let took: f64 = self.steps.iter().map(|s| s.ended_s - s.started_s).sum();
        let each = took / self.steps.len().max(1) as f64;
        // One is left alone while another is measured: the longest wait is the most that is lost.
        let alone = series.iter().map(|one| self.still_alone(&one.name)).max().unwrap_or_default();
        let end = (self.now() + alone).as_secs_f64() + each * series.len() as f64;
        self.meta.budget.is_some_and(|budget| end > budget.0.as_secs_f64())
    }

    /// Makes every server ready and warms it up; the one that is ready stands in the sweep, the others wait.
    async fn all_ready(&mut self, series: &'a [Series]) -> Result<(Waiting, usize)> {
        let spent = self.now();
        let first = series.iter().position(|one| self.servers.serves(one)).context("a server is ready")?;
        let mut waiting: Waiting = Vec::new();
        waiting.resize_with(series.len(), || None);
        let mut now = first;
        for at in std::iter::once(first).chain((0..series.len()).filter(|i| *i != first)) {
            let one = &series[at];
            if at != first {
                self.servers.end(false).await?;
                let begun =
                    self.servers.begin(one, (&self.traffic, series), &self.host, &self.interrupt).await?;
                let Some(ready) = begun else {
                    self.write_result()?;
                    if self.ending.why().is_some() {
                        return Err(self.ending.too_early());
                    }
                    bail!(
                        "{} is not ready, and variants that are measured in turns need every server",
                        one.name
                    );
                };
                let before = std::mem::replace(&mut self.ready, ready);
                waiting[now] = Some((before, std::mem::replace(&mut self.resets, true)));
                now = at;
            }
            (self.plan, self.series) = (&one.plan, one.name.clone());
            self.ready.turn_to(&one.plan).with_context(|| format!("in the series {}", one.name))?;
            self.warm_up().await?;
        }
        (self.before, self.began) = (spent, tokio::time::Instant::now());
        self.write_result()?;
        Ok((waiting, now))
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
