//! Closed-form results of queueing theory: the ground truth that tests compare the simulated server and the search
//! with.
//!
//! For Poisson arrivals at `rate` per second, first come first served, in steady state. Sums have positive terms only,
//! so that no digits cancel.

use std::time::Duration;

/// Returns P(W ≤ t), the share of requests that wait at most `t` for service in an M/D/1 queue; 0 if the queue has no
/// steady state.
///
/// Published by Erlang (1909) as an alternating series and by Crommelin (1932) for several servers. Computed in the
/// form of G. J. Franx, "A simple solution for the M/D/c waiting time distribution", Operations Research Letters 29
/// (2001): with k the integer for which (k−1)·D ≤ t < k·D and u = k·D − t, P(W ≤ t) = e^(−λu) · Σ_(j<k) Q(k−1−j) ·
/// (λu)^j / j!, where Q(m) is the probability that at most m requests wait.
pub fn md1_wait_cdf(rate: f64, service: Duration, t: Duration) -> f64 {
    let d = service.as_secs_f64();
    if service.is_zero() || rate * d >= 1.0 {
        return if service.is_zero() { 1.0 } else { 0.0 };
    }
    let periods = (t.as_secs_f64() / d).floor();
    let k = periods as usize + 1;
    let lambda_u = rate * ((periods + 1.0) * d - t.as_secs_f64());
    let at_most = md1_at_most_waiting(rate * d, k);
    let mut weight = (-lambda_u).exp();
    let mut share = 0.0;
    for j in 0..k {
        share += at_most[k - 1 - j] * weight;
        weight *= lambda_u / (j + 1) as f64;
    }
    share.min(1.0)
}

/// Returns the mean wait of an M/D/1 queue (Pollaczek–Khinchine), λ·D² / (2·(1 − λ·D)); `None` without a steady state.
pub fn md1_mean_wait(rate: f64, service: Duration) -> Option<Duration> {
    let d = service.as_secs_f64();
    let rho = rate * d;
    (rho < 1.0).then(|| Duration::from_secs_f64(rho * d / (2.0 * (1.0 - rho))))
}

/// Returns P(T ≤ t), the share of requests finished within `t` of their arrival (wait and service) in an M/M/1 queue. T
/// is exponential with rate μ − λ (Kleinrock, Queueing Systems I, §5.12). 0 without a steady state.
pub fn mm1_sojourn_cdf(rate: f64, mean_service: Duration, t: Duration) -> f64 {
    let spare = 1.0 / mean_service.as_secs_f64() - rate;
    if spare <= 0.0 { 0.0 } else { -(-spare * t.as_secs_f64()).exp_m1() }
}

/// Returns Erlang's C, the probability that a request has to wait in an M/M/c queue; 1 without a steady state.
///
/// Uses the recursion of Erlang's B, B(0) = 1, B(k) = a·B(k−1) / (k + a·B(k−1)), and C = B / (1 − ρ·(1 − B)) (Cooper,
/// Introduction to Queueing Theory, §3.4), with offered load a = λ/μ and ρ = a/c.
pub fn erlang_c(rate: f64, mean_service: Duration, servers: u32) -> f64 {
    let load = rate * mean_service.as_secs_f64();
    let rho = load / f64::from(servers);
    if rho >= 1.0 {
        return 1.0;
    }
    let b = (1..=servers).fold(1.0, |b, k| load * b / (f64::from(k) + load * b));
    b / (1.0 - rho * (1.0 - b))
}

/// Returns P(W ≤ t), the share of requests that wait at most `t` in an M/M/c queue, 1 − C·e^(−(cμ−λ)t) (Erlang 1917;
/// Cooper §3.4); 0 without a steady state.
pub fn mmc_wait_cdf(rate: f64, mean_service: Duration, servers: u32, t: Duration) -> f64 {
    let spare = f64::from(servers) / mean_service.as_secs_f64() - rate;
    if spare <= 0.0 {
        0.0
    } else {
        1.0 - erlang_c(rate, mean_service, servers) * (-spare * t.as_secs_f64()).exp()
    }
}

/// Returns the highest rate below `capacity` at which `within(rate)`, the share of requests that meet a limit, is still
/// at least `share`: the true goodput. `within` must fall with the rate. Found by bisection to the last bit; 0 if no
/// rate qualifies.
pub fn boundary(capacity: f64, share: f64, within: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, capacity);
    // 52 halvings reach the last bit for a boundary within a factor of two of the capacity; 100 also reach zero.
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if within(middle) >= share { low = middle } else { high = middle }
    }
    low
}

/// Returns P(at most m requests wait) for m = 0 … n−1 in an M/D/1 queue.
///
/// The numbers of requests left behind by departures form a Markov chain that moves down one at a time. Flows up and
/// down across a level balance: π(n+1)·P(A = 0) = π(0)·P(A > n) + Σ_(i=1..n) π(i)·P(A > n+1−i), where A is the Poisson
/// arrivals in one service.
fn md1_at_most_waiting(rho: f64, n: usize) -> Vec<f64> {
    let above = poisson_tails(rho, n + 1);
    let mut p = vec![1.0 - rho];
    for level in 0..n {
        let up = p[0] * above[level] + (1..=level).map(|i| p[i] * above[level + 1 - i]).sum::<f64>();
        p.push(up * rho.exp());
    }
    // One of the requests in the system is in service.
    let mut total = p[0];
    p[1..]
        .iter()
        .map(|x| {
            total += x;
            total
        })
        .collect()
}

/// Returns P(A > m) for m = 0 … n−1 and a Poisson A, each summed from its far end.
fn poisson_tails(mean: f64, n: usize) -> Vec<f64> {
    // For means below one, the mass beyond twenty more terms is below the last bit.
    let mut mass = vec![(-mean).exp()];
    for k in 1..n + 20 {
        mass.push(mass[k - 1] * mean / k as f64);
    }
    let mut tail = 0.0;
    let mut tails: Vec<f64> = mass
        .iter()
        .rev()
        .map(|m| {
            let above = tail;
            tail += m;
            above
        })
        .collect();
    tails.reverse();
    tails.truncate(n);
    tails
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn close(a: f64, b: f64, tolerance: f64) -> bool {
        (a - b).abs() <= tolerance
    }

    /// Erlang's original series; loses about ρ·t/D / ln 10 digits to cancellation.
    fn erlang_1909(rate: f64, service: Duration, t: Duration) -> f64 {
        let (d, t) = (service.as_secs_f64(), t.as_secs_f64());
        let mut sum = 0.0;
        for k in 0..=(t / d).floor() as i32 {
            let x = rate * (t - f64::from(k) * d);
            let factorial: f64 = (1..=k).map(f64::from).product();
            sum += (-x).powi(k) / factorial * x.exp();
        }
        (1.0 - rate * d) * sum
    }

    #[test]
    fn boundaries_match_the_known_values() {
        let d = 50 * MS;
        // p99 TTFT limits of the design: M/D/1 200 ms, M/M/1 500 ms, M/M/32 with 2 s service and 50 ms prefill 200 ms.
        let md1 = boundary(20.0, 0.99, |r| md1_wait_cdf(r, d, 150 * MS));
        let mm1 = boundary(20.0, 0.99, |r| mm1_sojourn_cdf(r, d, 500 * MS));
        let mmc = boundary(16.0, 0.99, |r| mmc_wait_cdf(r, 2000 * MS, 32, 150 * MS));
        assert!(close(md1, 9.2576, 5e-5), "{md1}");
        assert!(close(mm1, 10.7897, 5e-5), "{mm1}");
        assert!(close(mmc, 10.713, 5e-4), "{mmc}");
        assert!(boundary(20.0, 0.99, |r| if r > 0.0 { 0.5 } else { 1.0 }) < 1e-9, "no rate qualifies");
    }

    #[test]
    fn md1_agrees_with_erlang_and_pollaczek() {
        let d = 50 * MS;
        for rate in [0.1, 4.0, 10.0, 15.9] {
            for t in [0, 20, 50, 99, 100, 333, 700] {
                let (a, b) = (md1_wait_cdf(rate, d, t * MS), erlang_1909(rate, d, t * MS));
                assert!(close(a, b, 1e-8), "rate {rate}, {t} ms: {a} against {b}");
            }
            // E W = ∫ P(W > t) dt, by the midpoint rule in steps of 0.1 ms up to where 1e-9 remains.
            let step = MS / 10;
            let sum: f64 = (0..30_000).map(|i| 1.0 - md1_wait_cdf(rate, d, i * step + step / 2)).sum();
            let mean = md1_mean_wait(rate, d).unwrap().as_secs_f64();
            assert!(close(sum * step.as_secs_f64(), mean, 1e-6), "rate {rate}");
        }
        // The probability of no wait is 1 − ρ.
        assert!(close(md1_wait_cdf(12.0, d, Duration::ZERO), 0.4, 1e-12));
        // Stable close to saturation, where Erlang's series has lost every digit; the tail falls by e^(−η·D) per
        // period.
        let far = 1.0 - md1_wait_cdf(19.0, d, 2000 * MS);
        let further = 1.0 - md1_wait_cdf(19.0, d, 2050 * MS);
        // x = η·D is the positive root of ρ·(e^x − 1) = x (Cramér–Lundberg).
        let x = (far / further).ln();
        assert!(x > 0.05 && close(0.95 * x.exp_m1(), x, 1e-8), "{far} {further}");
    }

    #[test]
    fn one_server_is_a_special_case_of_several() {
        let d = 50 * MS;
        for rate in [1.0, 10.0, 19.0] {
            assert!(close(erlang_c(rate, d, 1), rate * 0.05, 1e-12), "one server: C = ρ");
        }
        // Published value: C(c = 5, a = 3) = 0.2362 (every Erlang table).
        assert!(close(erlang_c(3.0, Duration::from_secs(1), 5), 0.2362, 5e-5));
    }

    #[test]
    fn overload_has_no_steady_state() {
        let d = 50 * MS;
        assert!(close(
            md1_wait_cdf(20.0, d, d) + mm1_sojourn_cdf(20.0, d, d) + mmc_wait_cdf(40.0, d, 2, d),
            0.0,
            0.0
        ));
        assert_eq!(md1_mean_wait(20.0, d), None);
        assert!(close(erlang_c(40.0, d, 2), 1.0, 0.0));
    }
}
