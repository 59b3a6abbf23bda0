//! Every rule fires in the cases in which it must, and in no other.

use super::*;
use crate::diagnosis::rules::RULES;

fn all() -> impl Iterator<Item = &'static Case> {
    latency_cases::CASES.iter().chain(server_cases::CASES)
}

#[test]
fn each_rule_fires_where_it_must_and_nowhere_else() {
    let wrong: Vec<String> = all()
        .map(|(what, change, want)| (what, found(*change), *want))
        .filter(|(_, got, want)| got != want)
        .map(|(what, got, want)| format!("{what}: {got:?}, not {want:?}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_rule_is_in_the_table_of_cases() {
    for kind in Kind::ALL {
        let cases = all().filter(|(.., want)| want.contains(kind.name())).count();
        assert!(cases > 0, "{kind:?}");
        assert!(all().any(|(.., want)| !want.contains(kind.name())), "{kind:?}");
    }
    assert!(RULES.len() >= Kind::ALL.len());
}

/// The threshold of queueing: in M/D/1, where waiting is the only effect, the tail grows more than twice as much as the
/// median.
#[test]
fn a_queue_without_anything_else_is_told() {
    for load in [0.3, 0.5, 0.7, 0.9, 0.95] {
        let mut seed = 7_u64;
        let mut gap = || {
            // Knuth's MMIX.
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            -(((seed >> 11) as f64 + 0.5) / (1u64 << 53) as f64).ln() / load
        };
        // Lindley's recursion, service of 1.
        let mut wait = 0.0_f64;
        let mut times: Vec<f64> = (0..200_000)
            .map(|_| {
                let time = wait + 1.0;
                wait = (time - gap()).max(0.0);
                time
            })
            .collect();
        times.sort_by(f64::total_cmp);
        let (p50, p99) = (times[100_000], times[198_000]);
        assert!(p99 > 2.0 && p99 / p50 > 2.4, "{load}: {p50} {p99}");
    }
}
