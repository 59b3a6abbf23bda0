//! What is said of the server's prefix cache: it was not as cold, as warm or as steady as the plan has it.

use super::Caveat;

/// What is the case, as a sentence; empty for a caveat about anything else.
pub(super) fn text(caveat: &Caveat) -> String {
    match caveat {
        Caveat::ColdCacheHits { share } => format!(
            "{:.1} % of the prompt tokens came from the server's prefix cache although the workload is cold.",
            share * 100.0
        ),
        Caveat::ColdHits { step, steps, hit_rate } => format!(
            "In step {step} {} of the prompt tokens came from the server's prefix cache although the workload is cold{}.",
            percent(*hit_rate),
            and_others(*steps)
        ),
        Caveat::WarmMisses { step, steps, hit_rate, shared } => format!(
            "In step {step} only {} of the prompt tokens came from the server's prefix cache, though {} of them are shared{}.",
            percent(*hit_rate),
            percent(*shared),
            and_others(*steps)
        ),
        Caveat::HitRatesDiffer { low, low_step, high, high_step } => format!(
            "Steps are not alike: {} of the prompt tokens came from the server's prefix cache in step {low_step}, {} in step {high_step}.",
            percent(*low),
            percent(*high)
        ),
        Caveat::OtherClients { step, asked, own, steps } => format!(
            "Somebody else used the server in step {step}: it counted {asked:.0} prompt tokens where the step's own requests have at most {own:.0}{}.",
            and_others(*steps)
        ),
        _ => String::new(),
    }
}

/// What to do about it.
pub(super) const fn advice(caveat: &Caveat) -> &'static str {
    match caveat {
        Caveat::ColdCacheHits { .. } => {
            "An earlier run with the same seed left its prompts in the cache: restart the server or change the seed (--set seed=2)."
        }
        Caveat::ColdHits { .. } => {
            "What was sent before with the same seed is still in the cache: restart the server, run vLLM with VLLM_SERVER_DEV_MODE=1 so that it can be emptied before each step, or change the seed (--set seed=2)."
        }
        Caveat::WarmMisses { .. } => {
            "The cache does not keep the prefixes: it may be off, too small for so many groups (shared-prefix.groups) beside the running requests, or the requests go to replicas that do not share it."
        }
        Caveat::HitRatesDiffer { .. } => {
            "Part of the difference between these steps is the cache's, not the load's: see server_hit_rate in steps.csv."
        }
        Caveat::OtherClients { .. } => {
            "Its load is not in the plan: measure while nobody else uses the server. Hit rates are those of all clients together."
        }
        _ => "",
    }
}

/// A share, to a tenth of a per cent.
fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Whether it is not the only step.
fn and_others(steps: u32) -> String {
    match steps {
        0 | 1 => String::new(),
        2 => " (and in one more step)".into(),
        n => format!(" (and in {} more steps)", n - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_says_which_step_and_what_to_do() {
        let cold = Caveat::ColdHits { step: 3, steps: 1, hit_rate: 0.31 };
        let warm = Caveat::WarmMisses { step: 4, steps: 3, hit_rate: 0.02, shared: 2.0 / 3.0 };
        let differ = Caveat::HitRatesDiffer { low: 0.1, low_step: 5, high: 0.6, high_step: 2 };
        let others = Caveat::OtherClients { step: 7, asked: 9_000.0, own: 4_000.0, steps: 2 };
        for (caveat, says) in [
            (Caveat::ColdCacheHits { share: 0.125 }, "12.5 % of the prompt tokens"),
            (
                cold,
                "In step 3 31.0 % of the prompt tokens came from the server's prefix cache although the workload is cold.",
            ),
            (warm, "though 66.7 % of them are shared (and in 2 more steps)."),
            (
                differ,
                "10.0 % of the prompt tokens came from the server's prefix cache in step 5, 60.0 % in step 2.",
            ),
            (
                others,
                "it counted 9000 prompt tokens where the step's own requests have at most 4000 (and in one more step).",
            ),
        ] {
            assert!(caveat.text().contains(says), "{}", caveat.text());
            assert!(!caveat.advice(true).is_empty() && caveat.advice(true) == caveat.advice(false));
        }
        assert!(text(&Caveat::ClosedLoop).is_empty() && advice(&Caveat::ClosedLoop).is_empty());
    }
}
