//! Simulated queues with known capacity, for tests: the records that an ideal client would take.

use goodput_core::record::{Outcome, Phase, Record};
use rand::SeedableRng;
use rand_distr::{Distribution, Exp};
use std::time::Duration;

/// Distribution of the service time.
#[derive(Debug, Clone, Copy)]
pub(super) enum Service {
    /// Constant, equal to the mean.
    Fixed,
    /// Exponential.
    Exponential,
}

/// A queue in front of `servers` parallel servers; a request occupies one for `mean_s` on average. Capacity: servers / `mean_s`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Queue {
    pub(super) servers: usize,
    pub(super) mean_s: f64,
    pub(super) service: Service,
}

impl Queue {
    /// Returns the capacity in requests per second.
    pub(super) fn capacity(self) -> f64 {
        self.servers as f64 / self.mean_s
    }

    /// Simulates Poisson arrivals at `rate` over `settle_s`, then `measure_s`, then a tail of a third of `measure_s`. Requests
    /// unfinished by then are cut off. The first token comes when service begins, the last when it ends.
    pub(super) fn records(self, rate: f64, settle_s: f64, measure_s: f64, seed: u64) -> Vec<Record> {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        let gaps = Exp::new(rate).unwrap();
        let holding = Exp::new(1.0 / self.mean_s).unwrap();
        let measured = settle_s..settle_s + measure_s;
        let cut_at = measured.end + measure_s / 3.0;
        let mut free = vec![0.0_f64; self.servers];
        let (mut now, mut records) = (gaps.sample(&mut rng), vec![]);
        while now < cut_at {
            let server = (0..self.servers).min_by(|a, b| free[*a].total_cmp(&free[*b])).unwrap();
            let begins = free[server].max(now);
            free[server] = begins
                + match self.service {
                    Service::Fixed => self.mean_s,
                    Service::Exponential => holding.sample(&mut rng),
                };
            let phase = match now {
                t if t < measured.start => Phase::Settle,
                t if t < measured.end => Phase::Measure,
                _ => Phase::Tail,
            };
            records.push(record(records.len() as u64, phase, now, begins, free[server], cut_at));
            now += gaps.sample(&mut rng);
        }
        records
    }
}

/// A minimal batching engine: every iteration gives each running request a token and takes `base_s`, plus `per_s` per running
/// request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Engine {
    pub(super) base_s: f64,
    pub(super) per_s: f64,
    pub(super) slots: usize,
    /// Mean output length in tokens; exponentially distributed.
    pub(super) tokens: f64,
}

impl Engine {
    /// Returns the capacity in requests per second.
    pub(super) fn capacity(self) -> f64 {
        let n = self.slots as f64;
        n / (self.base_s + self.per_s * n) / self.tokens
    }

    /// Simulates arrivals as [`Queue::records`] does.
    pub(super) fn records(self, rate: f64, settle_s: f64, measure_s: f64, seed: u64) -> Vec<Record> {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        let (gaps, lengths) = (Exp::new(rate).unwrap(), Exp::new(1.0 / self.tokens).unwrap());
        let end = settle_s + measure_s;
        let cut_at = end + measure_s / 3.0;
        let (mut dues, mut t) = (vec![], gaps.sample(&mut rng));
        while t < cut_at {
            dues.push(t);
            t += gaps.sample(&mut rng);
        }
        let mut times = vec![(f64::MAX, f64::MAX); dues.len()];
        // Index and remaining tokens of the running requests.
        let (mut running, mut next, mut now) = (Vec::<(usize, u32)>::new(), 0, 0.0_f64);
        while now < cut_at && (next < dues.len() || !running.is_empty()) {
            if running.is_empty() && next < dues.len() {
                now = now.max(dues[next]);
            }
            while running.len() < self.slots && dues.get(next).is_some_and(|d| *d <= now) {
                running.push((next, lengths.sample(&mut rng).ceil() as u32));
                next += 1;
            }
            now += self.base_s + self.per_s * running.len() as f64;
            running.retain_mut(|(i, left)| {
                times[*i].0 = times[*i].0.min(now);
                *left = left.saturating_sub(1);
                if *left == 0 {
                    times[*i].1 = now;
                }
                *left > 0
            });
        }
        let phase = |t| match t {
            t if t < settle_s => Phase::Settle,
            t if t < end => Phase::Measure,
            _ => Phase::Tail,
        };
        let numbered = dues.iter().zip(times).enumerate();
        numbered
            .map(|(i, (due, (first, last)))| record(i as u64, phase(*due), *due, first, last, cut_at))
            .collect()
    }
}

fn record(id: u64, phase: Phase, due: f64, begins: f64, ends: f64, cut_at: f64) -> Record {
    let at = Duration::from_secs_f64;
    let mut r = Record::due(id, phase, at(due));
    r.sent = Some(at(due));
    r.attempts = 1;
    r.output_asked = 2;
    r.first_token = (begins < cut_at).then(|| at(begins));
    r.end = at(ends.min(cut_at));
    if ends < cut_at {
        (r.outcome, r.last_token, r.output_tokens) = (Outcome::Ok, Some(at(ends)), Some(2));
    }
    r
}
