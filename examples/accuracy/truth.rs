//! The truth of a case by long direct simulation of its server: no steps, no client, only requests and their latencies.

use crate::cases::{Case, Truth};
use anyhow::{Context, Result};
use goodput::level::Level;
use goodput::plan::Plan;
use goodput::sim::engine::{Emission, Model, Request};
use goodput::slo::{Limit, Metric};
use goodput::workload::chain::{Recipe, Start};
use goodput::workload::data::Counter;
use goodput::workload::draw::{Chains, StepKey};
use goodput::workload::traffic::Traffic;
use std::collections::VecDeque;
use std::time::Duration;

/// Requests of a block, for the variance of the count of misses.
const BLOCK: usize = 3000;
/// The share of misses that a p99 allows.
const ALLOWED: f64 = 0.01;
/// Requests of each simulation that only brackets the truth.
const COARSE: usize = 60_000;
/// Runs of a case from here on belong to its truth, so that no sweep has the same random numbers.
const FIRST_RUN: u32 = 1 << 24;

/// Misses of one limit in a long run at one rate.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Share {
    p: f64,
    inflation: f64,
    /// The same from forty long blocks: where misses come in clusters longer than a block, it is larger. For the error.
    long_inflation: f64,
    n: f64,
}

impl Share {
    /// From whether each request missed, in order of arrival.
    fn of(missed: &[bool]) -> Self {
        let n = missed.len() as f64;
        let count = |part: &[bool]| part.iter().filter(|m| **m).count() as f64;
        let p = count(missed) / n;
        let inflation = |block: usize| {
            let blocks: Vec<f64> = missed.chunks_exact(block).map(count).collect();
            let mean = blocks.iter().sum::<f64>() / blocks.len() as f64;
            let squares: f64 = blocks.iter().map(|k| (k - mean).powi(2)).sum();
            let variance = squares / (blocks.len() as f64 - 1.0);
            if p > 0.0 && blocks.len() > 1 { variance / (block as f64 * p * (1.0 - p)) } else { 1.0 }
        };
        Self { p, inflation: inflation(BLOCK), long_inflation: inflation((missed.len() / 40).max(BLOCK)), n }
    }

    /// Variance of ln p.
    fn variance(&self) -> f64 {
        self.inflation.max(self.long_inflation).max(1.0) * (1.0 - self.p) / (self.p * self.n)
    }
}

/// A request that is open.
struct Open {
    due: Duration,
    first: Option<Duration>,
    tokens: u32,
}

/// What became of the requests of a long run.
struct Tally<'a> {
    limits: &'a [Limit],
    open: VecDeque<Option<Open>>,
    /// Id of the first of `open`.
    base: u64,
    missed: Vec<Vec<bool>>,
    finished: usize,
    last: Duration,
}

impl<'a> Tally<'a> {
    fn new(limits: &'a [Limit], n: usize) -> Self {
        let missed = vec![vec![true; n]; limits.len()];
        Self { limits, open: VecDeque::new(), base: 0, missed, finished: 0, last: Duration::ZERO }
    }

    fn sent(&mut self, due: Duration) {
        self.open.push_back(Some(Open { due, first: None, tokens: 0 }));
    }

    fn token(&mut self, emission: &Emission) {
        let Some(slot) = emission.id.checked_sub(self.base).and_then(|i| self.open.get_mut(i as usize))
        else {
            return;
        };
        let Some(open) = slot.as_mut() else { return };
        let first = *open.first.get_or_insert(emission.at);
        open.tokens += emission.tokens;
        if !emission.finished {
            return;
        }
        for (limit, missed) in self.limits.iter().zip(&mut self.missed) {
            let value = match limit.metric {
                Metric::Ttft | Metric::Ttfc => first - open.due,
                Metric::E2e => emission.at - open.due,
                Metric::Tpot | Metric::Itl => (emission.at - first) / open.tokens.saturating_sub(1).max(1),
            };
            // Refused ones have no tokens, and stay missed. A TPOT of one token is none, and met: too few answers are so short to matter.
            if let Some(missed) = missed.get_mut(emission.id as usize) {
                *missed = value > limit.limit || open.tokens == 0;
            }
        }
        *slot = None;
        self.finished += 1;
        self.last = emission.at;
        while matches!(self.open.front(), Some(None)) {
            self.open.pop_front();
            self.base += 1;
        }
    }
}

/// A case's plan and limits, for its long runs.
struct Long {
    plan: Plan,
    limits: Vec<Limit>,
    runs: u32,
    /// Preemptions a request in the last run.
    preemptions: f64,
}

impl Long {
    fn new(case: &Case) -> Result<Self> {
        let (plan, _) = case.build(FIRST_RUN, 900.0, 0.1)?;
        let limits = plan.slo.as_slice().first().context("a case has limits")?.limits();
        Ok(Self { plan, limits, runs: FIRST_RUN, preemptions: 0.0 })
    }

    fn chains(&self, case: &Case, level: Level) -> Result<Chains> {
        let key = StepKey { seed: case.seed(self.runs), series: "truth".into(), step: 1 };
        Chains::new(&Traffic::open(&self.plan.workload, &Counter::default())?, &key, level)
            .map_err(anyhow::Error::msg)
    }

    fn server(&mut self, case: &Case) -> Model {
        self.runs += 1;
        case.engine.model(u64::from(case.seed(self.runs)))
    }

    /// The shares of misses of the limits, in steady state at `rate`, over `n` requests.
    fn open(&mut self, case: &Case, rate: f64, n: usize) -> Result<Vec<Share>> {
        let mut model = self.server(case);
        let warm_up = n / 20;
        let mut tally = Tally::new(&self.limits, n + warm_up);
        for chain in self.chains(case, Level::rate(rate))?.take(n + warm_up) {
            let Start::At(due) = chain.start else { continue };
            for emission in model.advance(due) {
                tally.token(&emission);
            }
            tally.sent(due);
            model.arrive(due, request(&chain.turns[0].request));
        }
        // The last ones are served as if nothing came behind them: too few to matter.
        for emission in model.advance(Duration::MAX) {
            tally.token(&emission);
        }
        let shares = tally.missed.iter().map(|missed| Share::of(&missed[warm_up..])).collect();
        self.preemptions = model.preemptions() as f64 / (n + warm_up) as f64;
        Ok(shares)
    }

    /// With so many requests in flight all the time: requests/s, and the shares of misses.
    fn closed(&mut self, case: &Case, in_flight: u32, n: usize) -> Result<(f64, Vec<Share>)> {
        let mut model = self.server(case);
        let mut tally = Tally::new(&self.limits, n);
        let mut chains = self.chains(case, Level::concurrency(in_flight))?.take(n);
        let mut waiting: Vec<Duration> = vec![Duration::ZERO; in_flight as usize];
        loop {
            for at in waiting.drain(..) {
                let Some(chain) = chains.next() else { break };
                tally.sent(at);
                model.arrive(at, request(&chain.turns[0].request));
            }
            let Some(next) = model.next_event() else { break };
            for emission in model.advance(next) {
                tally.token(&emission);
                if emission.finished {
                    waiting.push(emission.at);
                }
            }
        }
        let rate = tally.finished as f64 / tally.last.as_secs_f64();
        Ok((rate, tally.missed.iter().map(|missed| Share::of(missed)).collect()))
    }
}

fn request(recipe: &Recipe) -> Request {
    Request::new(recipe.id, recipe.input_tokens, recipe.output_tokens)
}

/// Finds the truth of a case with about `n` requests, and what else there is to say about it.
pub(crate) fn find(case: &Case, n: usize) -> Result<(Truth, String)> {
    let mut long = Long::new(case)?;
    let worst = |shares: &[Share]| shares.iter().map(|s| s.p).fold(0.0, f64::max);
    let unloaded = worst(&long.closed(case, 1, (n / 10).max(COARSE))?.1);
    let (capacity, _) = long.closed(case, 1024, COARSE)?;
    let mut truth = Truth { rate: None, error: 0.0, slope: 0.0, inflation: 1.0, capacity, unloaded };
    let (mut low, mut high) = (capacity / 4096.0, capacity);
    if unloaded > ALLOWED && worst(&long.open(case, low, COARSE)?) > ALLOWED {
        return Ok((truth, "misses unloaded".into()));
    }
    while high / low > 1.02 {
        let middle = (low * high).sqrt();
        let misses = worst(&long.open(case, middle, COARSE)?);
        (low, high) = if misses > ALLOWED { (low, middle) } else { (middle, high) };
    }
    // Twice: the first pass says where, and how far apart the rates of the second are to be.
    let (mut center, mut slope, mut said) = ((low * high).sqrt(), 5.0, String::new());
    for n in [n / 5, n] {
        let spread = 0.15 / f64::max(slope, 0.3);
        let rates: Vec<f64> = (-2..=2).map(|k| center * (f64::from(k) * spread).exp()).collect();
        let shares: Vec<Vec<Share>> =
            rates.iter().map(|rate| long.open(case, *rate, n / 5)).collect::<Result<_>>()?;
        let binding = (0..long.limits.len())
            .max_by(|a, b| shares[2][*a].p.total_cmp(&shares[2][*b].p))
            .context("a case has limits")?;
        let of_binding: Vec<Share> = shares.iter().map(|s| s[binding]).collect();
        let fit = Fit::of(&of_binding, spread);
        let inflation = of_binding.iter().map(|s| s.inflation).sum::<f64>() / 5.0;
        let rate = center * fit.root.exp();
        truth = Truth { rate: Some(rate), error: fit.error, slope: fit.slope, inflation, ..truth };
        let all: Vec<String> = long
            .limits
            .iter()
            .zip(&shares[2])
            .map(|(l, s)| format!("{} {:.2} %", l.name(), 100.0 * s.p))
            .collect();
        said =
            format!("{} at {:.4}, {:.3} preemptions a request", all.join(", "), rates[2], long.preemptions);
        (center, slope) = (rate, fit.slope);
    }
    Ok((truth, said))
}

/// ln p as a parabola of x = ln(rate / center) through five points that lie `spread` apart.
#[derive(Debug, Clone, Copy)]
struct Fit {
    /// Where p is what is allowed.
    root: f64,
    /// Its standard error.
    error: f64,
    slope: f64,
}

impl Fit {
    /// By the least-squares weights of a parabola on five equal distances (Savitzky and Golay 1964): (−3, 12, 17, 12, −3) / 35 for
    /// the value in the middle, (−2 … 2) / 10 for the slope, (2, −1, −2, −1, 2) / 7 for the curvature.
    fn of(shares: &[Share], spread: f64) -> Self {
        let y: Vec<f64> = shares.iter().map(|s| (s.p.max(1e-9) / ALLOWED).ln()).collect();
        let sum = |weights: [f64; 5]| weights.iter().zip(&y).map(|(w, y)| w * y).sum::<f64>();
        let value = [-3.0, 12.0, 17.0, 12.0, -3.0].map(|w| w / 35.0);
        let (at_center, slope) = (sum(value), sum([-0.2, -0.1, 0.0, 0.1, 0.2]) / spread);
        let curvature = sum([2.0, -1.0, -2.0, -1.0, 2.0].map(|w| w / 7.0)) / spread.powi(2);
        let mut root = 0.0;
        for _ in 0..20 {
            let tangent = slope + curvature * root;
            root -= (at_center + slope * root + curvature / 2.0 * root * root) / tangent;
        }
        // Far from the center the parabola is not to be trusted: the next pass starts nearer.
        let root = root.clamp(-2.0 * spread, 2.0 * spread);
        let variance: f64 = value.iter().zip(shares).map(|(w, s)| w * w * s.variance()).sum();
        // Nor is a curvature that turns the slope over: then it is noise.
        let at_root = slope + curvature * root;
        let slope = if (0.5..2.0).contains(&(at_root / slope)) { at_root } else { slope };
        Self { root, error: variance.sqrt() / slope, slope }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parabola_is_read_back() {
        // ln(p / 1 %) = 4·(x − 0.01) + 6·(x − 0.01)² at the five points.
        let spread = 0.03;
        let shares: Vec<Share> = (-2..=2)
            .map(|k| {
                let x = f64::from(k) * spread - 0.01;
                Share {
                    p: ALLOWED * (4.0 * x + 6.0 * x * x).exp(),
                    inflation: 2.0,
                    long_inflation: 1.0,
                    n: 1e6,
                }
            })
            .collect();
        let fit = Fit::of(&shares, spread);
        assert!((fit.root - 0.01).abs() < 1e-9 && (fit.slope - 4.0).abs() < 1e-6, "{fit:?}");
        // sqrt(17/35 · 2 · .99 / (.01 · 10⁶)) / 4, the shares differing a little.
        assert!((fit.error / (17.0 / 35.0 * 1.98e-4_f64).sqrt() * 4.0 - 1.0).abs() < 0.05, "{fit:?}");
    }

    #[test]
    fn inflation_is_one_where_misses_are_independent_and_the_size_of_clusters_where_not() {
        // A hundredth of the requests misses, one by one and in runs of ten.
        let mut rng = <rand_chacha::ChaCha8Rng as rand::SeedableRng>::seed_from_u64(1);
        let single: Vec<bool> = (0..900_000).map(|_| rand::RngExt::random::<f64>(&mut rng) < 0.01).collect();
        let runs: Vec<bool> = single[..90_000].iter().flat_map(|m| [*m; 10]).collect();
        let (single, runs) = (Share::of(&single), Share::of(&runs));
        // 300 blocks: a variance is known to 8 %.
        assert!((single.p - 0.01).abs() < 5e-4 && (single.inflation - 1.0).abs() < 0.33, "{single:?}");
        assert!((runs.inflation - 10.0).abs() < 3.3, "{runs:?}");
    }
}
