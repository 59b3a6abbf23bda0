//! Caveats from the hit rates of the prefix cache: hits in a cold cache, misses in a warm one, and steps with
//! different rates.

use goodput_core::caveat::{CacheCaveat, Caveat};
use goodput_stats::stats::step::Step;
use goodput_workload::config::{Cache, Workload};
use goodput_workload::rate::WordRate;

/// Largest share of prompt tokens, besides those of the chat template, that may hit a cold cache by accident.
const COLD: f64 = 0.02;
/// Smallest hit rate of a warm cache as a share of the shared prompt tokens: a prefix ends within a block, and the
/// last block is always computed.
const WARM: f64 = 0.7;
/// Largest difference between the hit rates of comparable steps.
const ALIKE: f64 = 0.05;
/// Minimum number of answers for a usable hit rate.
const LEAST: u64 = 20;

/// A step with its hit rate.
type Known<'a> = (&'a Step, f64);

/// Returns the caveats on the hit rates of one series. `words` gives the number of tokens of the chat template. If requests ask for several
/// choices, each finds the prompt that the first has left in the cache, which no cold cache could avoid.
pub(super) fn hits(
    workload: &Workload,
    has_choices: bool,
    words: Option<WordRate>,
    steps: &[Step],
) -> Vec<Caveat> {
    let enough = |s: &&Step| s.completed >= LEAST;
    let known: Vec<Known<'_>> =
        steps.iter().filter(enough).filter_map(|s| Some((s, s.server.hit_rate?))).collect();
    let state = match workload.cache {
        Cache::Cold if workload.repeats() || has_choices => None,
        Cache::Cold => cold(&known, words),
        Cache::Warm => warm(&known, workload.shared_share()),
        Cache::Pair => None,
    };
    state.into_iter().chain(unlike(&known)).collect()
}

fn cold(known: &[Known<'_>], words: Option<WordRate>) -> Option<Caveat> {
    let template = words.map_or(0.0, |w| w.overhead.max(0.0));
    let allowed =
        |s: &Step| COLD + template / s.input_tokens_mean.unwrap_or(f64::INFINITY).max(template).max(1.0);
    let over: Vec<&Known<'_>> = known.iter().filter(|(s, hit)| *hit > allowed(s)).collect();
    let (worst, hit_rate) = over.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(Caveat::Cache(CacheCaveat::ColdHits {
        step: worst.step,
        steps: over.len() as u32,
        hit_rate: *hit_rate,
    }))
}

fn warm(known: &[Known<'_>], shared: Option<f64>) -> Option<Caveat> {
    let shared = shared.filter(|s| *s > COLD)?;
    let under: Vec<&Known<'_>> = known.iter().filter(|(_, hit)| *hit < WARM * shared).collect();
    let (worst, hit_rate) = under.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(Caveat::Cache(CacheCaveat::WarmMisses {
        step: worst.step,
        steps: under.len() as u32,
        hit_rate: *hit_rate,
        shared,
    }))
}

fn unlike(known: &[Known<'_>]) -> Option<Caveat> {
    let low = known.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let high = known.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let caveat = Caveat::Cache(CacheCaveat::HitRatesDiffer {
        low: low.1,
        low_step: low.0.step,
        high: high.1,
        high_step: high.0.step,
    });
    (high.1 - low.1 > ALIKE).then_some(caveat)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    /// Rows: cache state in the plan, hit rates of the steps in per cent, and the first step of each caveat in turn.
    #[test]
    fn hit_rates_are_held_against_what_was_asked_for() {
        let steps = &fixture::found().steps;
        let said = |cache: &str, rates: &[Option<f64>]| {
            let text = format!(
                "cache = \"{cache}\"\nprompts.synthetic = {{ input-tokens = {{ fixed = 600 }}, output-tokens = {{ fixed = 30 }}, \
                 shared-prefix = {{ tokens = 400 }} }}"
            );
            let mut steps = steps.clone();
            for (s, rate) in steps.iter_mut().zip(rates) {
                s.server.hit_rate = rate.map(|r| r / 100.0);
            }
            let words = Some(WordRate { overhead: 12.0, per_word: 1.0, per_char: None });
            let all = hits(&toml::from_str(&text).unwrap(), false, words, &steps);
            let say = |c: Caveat| match c {
                Caveat::Cache(CacheCaveat::ColdHits { step, steps, .. }) => format!("cold {step} of {steps}"),
                Caveat::Cache(CacheCaveat::WarmMisses { step, steps, .. }) => {
                    format!("warm {step} of {steps}")
                }
                Caveat::Cache(CacheCaveat::HitRatesDiffer { low_step, high_step, .. }) => {
                    format!("differ {low_step} {high_step}")
                }
                other => panic!("{other:?}"),
            };
            all.into_iter().map(say).collect::<Vec<_>>().join(", ")
        };
        for (cache, rates, want) in [
            ("cold", &[Some(0.0), Some(1.9), Some(3.9)][..], ""), // 2 %, and 12 of 601 tokens
            ("cold", &[Some(0.0), Some(4.5), Some(4.2)], "cold 2 of 2"),
            ("cold", &[Some(0.0), Some(30.0)], "cold 2 of 1, differ 1 2"),
            ("cold", &[None, None], ""),
            ("warm", &[Some(66.0), Some(64.0), None], ""),
            ("warm", &[Some(66.0), Some(2.0), Some(40.0)], "warm 2 of 2, differ 2 1"),
        ] {
            assert_eq!(said(cache, rates), want, "{cache} {rates:?}");
        }
    }

    /// Row: the workload, and true if a hit is a fault of the cold cache.
    #[test]
    fn only_what_repeats_by_right_may_hit_a_cold_cache() {
        let mut steps = fixture::found().steps;
        steps.iter_mut().for_each(|s| s.server.hit_rate = Some(0.9));
        for (text, blocks, fault) in [
            ("prompts.jsonl = { file = \"rows.jsonl\" }", false, true),
            (
                "prompts.text = { file = \"book.txt\", input-tokens.fixed = 9, output-tokens.fixed = 9 }",
                false,
                true,
            ),
            ("trace.file = \"azure.csv\"", false, true),
            ("trace.file = \"mooncake.jsonl\"", true, false),
            ("prompts.sharegpt = { file = \"x.json\", turns = \"all\" }", false, false),
        ] {
            let mut workload: Workload = toml::from_str(text).unwrap();
            if blocks {
                let found = "title = \"x\"\nrequests-per-level = 1\nblocks = true";
                workload.file_summaries = vec![toml::from_str(found).unwrap()];
            }
            for has_choices in [false, true] {
                let said = hits(&workload, has_choices, None, &steps);
                assert_eq!(
                    said.iter().any(|c| matches!(c, Caveat::Cache(CacheCaveat::ColdHits { .. }))),
                    fault && !has_choices,
                    "{text}: {said:?}"
                );
            }
        }
    }
}
