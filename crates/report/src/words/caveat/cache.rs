//! The words of caveats on the server's prefix cache.

use super::{CaveatWords, and_other_steps, percent};
use goodput_core::caveat::CacheCaveat;

pub(super) fn words(caveat: &CacheCaveat) -> CaveatWords {
    match caveat {
        CacheCaveat::ColdCacheHits { share } => CaveatWords::new(
            format!(
                "{} of the prompt tokens came from the server's prefix cache although the workload is cold.",
                percent(*share)
            ),
            "An earlier run with the same seed left its prompts in the cache: restart the server or change the seed (--set seed=2).",
        ),
        CacheCaveat::ColdHits { step, steps, hit_rate } => CaveatWords::new(
            format!(
                "In step {step} {} of the prompt tokens came from the server's prefix cache although the workload is cold{}.",
                percent(*hit_rate),
                and_other_steps(*steps)
            ),
            "What was sent before with the same seed is still in the cache: restart the server, run vLLM with VLLM_SERVER_DEV_MODE=1 so that it can be emptied before each step, or change the seed (--set seed=2).",
        ),
        CacheCaveat::WarmMisses { step, steps, hit_rate, shared } => CaveatWords::new(
            format!(
                "In step {step} only {} of the prompt tokens came from the server's prefix cache, though {} of them are shared{}.",
                percent(*hit_rate),
                percent(*shared),
                and_other_steps(*steps)
            ),
            "The cache does not keep the prefixes: it may be off, too small for so many groups (shared-prefix.groups) beside the running requests, or the requests go to replicas that do not share it.",
        ),
        CacheCaveat::HitRatesDiffer { low, low_step, high, high_step } => CaveatWords::new(
            format!(
                "Steps differ in their cache hits: {} of the prompt tokens came from the server's prefix cache in step {low_step}, {} in step {high_step}.",
                percent(*low),
                percent(*high)
            ),
            "Part of the difference between these steps is the cache's, not the load's: see server_hit_rate in steps.csv.",
        ),
    }
}
