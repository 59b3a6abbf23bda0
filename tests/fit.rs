#![allow(clippy::all, missing_docs)]
use goodput::sim::engine::Request;
use goodput::sim::engine::batch::{Batch, Limits, Settings, cost::*};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::num::NonZeroU32;
use std::time::Duration;

fn n(x: u32) -> NonZeroU32 {
    NonZeroU32::new(x).unwrap()
}
pub fn ttfts(
    settings: &Settings,
    rate: f64,
    count: usize,
    input: u32,
    output: u32,
    seed: u64,
) -> (Vec<f64>, f64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut b = Batch::new(Settings { seed, ..settings.clone() });
    let mut at = 0.0;
    let mut due = Vec::with_capacity(count);
    let mut out = vec![0.0; count];
    let mut seen = vec![false; count];
    let mut tpot = 0.0;
    let mut take = |b: &mut Batch, to, due: &Vec<f64>| {
        for e in b.advance(to) {
            let i = e.id as usize;
            if !seen[i] {
                seen[i] = true;
                out[i] = e.at.as_secs_f64() - due[i];
            }
            if e.finished {
                tpot += (e.at.as_secs_f64() - due[i] - out[i]) / (output as f64 - 1.0);
            }
        }
    };
    for i in 0..count {
        let u: f64 = rng.random();
        at += -(-u).ln_1p() / rate;
        let t = Duration::from_secs_f64(at);
        take(&mut b, t, &due);
        due.push(t.as_secs_f64());
        b.arrive(t, Request::new(i as u64, input, output));
    }
    take(&mut b, Duration::MAX, &due);
    (out, tpot / count as f64)
}
fn show(name: &str, s: &Settings, rates: &[f64], count: usize, input: u32, output: u32, limit: f64) {
    for r in rates {
        let t0 = std::time::Instant::now();
        let (mut x, tpot) = ttfts(s, *r, count, input, output, 7);
        let miss: Vec<bool> = x.iter().map(|v| *v > limit).collect();
        let k = miss.iter().filter(|m| **m).count();
        // batch means
        let m = 2000;
        let p = k as f64 / count as f64;
        let var = miss
            .chunks(m)
            .map(|c| (c.iter().filter(|m| **m).count() as f64 - p * m as f64).powi(2))
            .sum::<f64>()
            / (count / m) as f64;
        let infl = var / (p * (1.0 - p) * m as f64);
        x.sort_by(f64::total_cmp);
        println!(
            "{name} r {r}: p50 {:.1} p90 {:.1} p99 {:.1} ms, miss {p:.5}, IF {infl:.1}, tpot {:.2} ms, {:.2} s",
            1e3 * x[count / 2],
            1e3 * x[count * 9 / 10],
            1e3 * x[count * 99 / 100],
            1e3 * tpot,
            t0.elapsed().as_secs_f64()
        );
    }
}
#[test]
fn a40() {
    let v: Vec<f64> =
        std::env::var("A40").unwrap_or_default().split(',').filter_map(|x| x.parse().ok()).collect();
    if v.is_empty() {
        return;
    }
    let s = Settings {
        limits: Limits {
            max_num_seqs: n(256),
            max_num_batched_tokens: n(v[0] as u32),
            kv_blocks: n(21000),
            prefix_cache: true,
            chunked_prefill: true,
        },
        block_size: n(16),
        cv: v[1],
        seed: 1,
        cost: Cost::Formula(Formula {
            base_ns: v[2] * 1e6,
            weights_ns: 1.7e6,
            token_ns: v[3] * 1e3,
            sequence_ns: v[4] * 1e3,
            kv_token_ns: 165.0,
            attention_ns: v[5],
        }),
    };
    show("a40", &s, &[5.0, 30.0, 33.0, 35.0, 36.0, 38.0, 42.0, 50.0], 100_000, 600, 30, 0.080);
}
#[test]
fn demo() {
    let v: Vec<f64> =
        std::env::var("DEMO").unwrap_or_default().split(',').filter_map(|x| x.parse().ok()).collect();
    if v.is_empty() {
        return;
    }
    let d = |us: f64| Duration::from_micros(us as u64);
    let s = Settings {
        limits: Limits {
            max_num_seqs: n(v[0] as u32),
            max_num_batched_tokens: n(2048),
            kv_blocks: n(4096),
            prefix_cache: true,
            chunked_prefill: true,
        },
        block_size: n(16),
        cv: v[1],
        seed: 1,
        cost: Cost::Table(vec![(1, d(v[2])), (v[0] as u32, d(v[3]))].into()),
    };
    let r: Vec<f64> = v[4..].to_vec();
    show("demo", &s, &r, 200_000, 50, 4, 0.050);
}
