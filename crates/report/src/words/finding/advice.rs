//! The advice of a finding in English.

use super::evidence::{percent, time};
use super::value::flag_with_values;
use crate::words::level_number;
use goodput_stats::diagnosis::{
    Advice, BatchChange, Change, ComputeChange, DeploymentChange, MemoryChange, PoolShare, PoolSize,
};
use goodput_stats::stats::client_fault;

/// Returns a change that would help, as a sentence.
pub fn advice(advice: &Advice) -> String {
    let flag = flag_with_values(advice);
    let change = match &advice.change {
        Change::Client { fault: None, .. } => {
            return "Measure from a machine with more cores, or split the load over several.".into();
        }
        Change::Client { fault: Some(_), imported: true } => return client_fault::OTHER_TOOL.into(),
        Change::Client { fault: Some(fault), imported: false } => return client_fault::advice(fault).into(),
        Change::Deployment(change) => return deployment(*change).into(),
        Change::Pool(size) => pool(size),
        Change::Batch(change) => batch(*change, &flag),
        Change::Memory(change) => memory(*change, &flag),
        Change::Compute(change) => compute(change, &flag),
    };
    format!("{change}.")
}

fn batch(change: BatchChange, flag: &str) -> String {
    match change {
        BatchChange::Cap => format!(
            "Cap the sequences that are written at a time at what the limit allows: lower {flag}, until TPOT holds"
        ),
        BatchChange::AdmitMore => {
            format!("All places of the batch are taken while requests wait: raise {flag}")
        }
        BatchChange::MoreTokens => {
            format!(
                "Read more prompt tokens in an iteration, so that its fixed part counts less: raise {flag}"
            )
        }
        BatchChange::ChunkedPrefill => {
            format!("Read prompts in chunks, beside the decoding of other requests: {flag}")
        }
        BatchChange::SmallerPrefillChunks => {
            format!(
                "Let prompts take less of each iteration: lower {flag} (TTFT of long prompts grows in return)"
            )
        }
    }
}

fn memory(change: MemoryChange, flag: &str) -> String {
    match change {
        MemoryChange::MoreKvCache => format!("Give the KV cache more memory: raise {flag}"),
        MemoryChange::RoomForPrefixes => {
            format!("Give the prefix cache room beside the running requests: raise {flag}")
        }
        MemoryChange::SmallerKvType => format!("Halve the KV cache that a token takes: {flag}"),
        MemoryChange::MoreGpus => {
            format!(
                "Or put the weights on more GPUs, so that each has more memory left for the KV cache: {flag}"
            )
        }
        MemoryChange::PrefixCacheOn => format!("Turn the prefix cache on: {flag}"),
    }
}

fn compute(change: &ComputeChange, flag: &str) -> String {
    match change {
        ComputeChange::FewerGpusPerCopy => {
            format!("Use fewer GPUs for a copy of the model and more copies: {flag}")
        }
        ComputeChange::MoreGpusForPrefill => format!("Or let more GPUs read a prompt together: {flag}"),
        ComputeChange::MoreGpusForDecode => format!("Let more GPUs read the weights together: {flag}"),
        ComputeChange::EightBits => {
            format!(
                "Compute in 8 bits where the GPU can ({flag} fp8): at best that halves the time to read a prompt"
            )
        }
        ComputeChange::SmallerWeights { floor_ms } => {
            let least = floor_ms.map(|ms| format!(" (the least would then be {})", time(ms)));
            format!(
                "Read fewer bytes for a token: weights of 8 or 4 bits, {flag}{}",
                least.unwrap_or_default()
            )
        }
        ComputeChange::NoDrafting => format!("Serve without drafting tokens: leave out {flag}"),
        ComputeChange::CaptureGraphs { share } => format!(
            "{} of a token's time is not reading memory: see that kernels are not launched one by one, {flag}",
            percent(*share)
        ),
    }
}

fn pool(size: &PoolSize) -> String {
    let change = "Or let long prompts be read by servers of their own";
    match size {
        PoolSize::Unknown => change.into(),
        PoolSize::Measurable => {
            format!("{change}: each class measured alone tells how many (--set workload.alone=true)")
        }
        PoolSize::Known(PoolShare { gpus: Some(gpus), .. }) => format!(
            "{change}: of {} GPUs, {} for long prompts; the two pools then take about {} requests/s of this mix",
            gpus.all,
            gpus.long,
            level_number(gpus.rate)
        ),
        PoolSize::Known(PoolShare { share, gpus: None }) => {
            format!("{change}: about {} of the GPUs for long prompts", percent(*share))
        }
    }
}

const fn deployment(change: DeploymentChange) -> &'static str {
    match change {
        DeploymentChange::MoreReplicas => "Spread the load over more replicas.",
        DeploymentChange::RouteByPrefix => {
            "Send requests with the same prefix to the same replica: each has a cache of its own."
        }
        DeploymentChange::CheckInterconnect => {
            "See that the GPUs are joined by NVLink and not by PCIe (nvidia-smi topo -m)."
        }
        DeploymentChange::CheckHost => {
            "Look at the host: a slow core, tokenising and sampling in the engine's loop cost every token the same."
        }
        DeploymentChange::MendErrors => {
            "Find out why requests fail: until then no latency says what the server can do."
        }
        DeploymentChange::NearerClient => {
            "Measure, and serve, from nearer to the server: look at proxies, gateways and TLS in between."
        }
        DeploymentChange::FasterCompute => "Take a GPU that computes faster.",
        DeploymentChange::FasterMemory => "Take a GPU with more memory bandwidth.",
        DeploymentChange::LimitAdmission => {
            "Refuse requests beyond the safe rate (429) in front of the server, rather than let all of them wait."
        }
        DeploymentChange::ShorterAnswers => {
            "Ask for shorter answers (max_tokens, or the prompt): tokens that are not written take no time."
        }
        DeploymentChange::ShorterPrompts => "Send shorter prompts: tokens that are not sent cost nothing.",
        DeploymentChange::SpeculativeDecoding => "Write several tokens at a time (speculative decoding).",
        DeploymentChange::RaisePowerLimit => {
            "Raise the power limit of the GPUs as far as the board and its power supply allow: nvidia-smi -pl WATTS (nvidia-smi -q -d POWER has the range)."
        }
        DeploymentChange::CoolGpus => {
            "Cool the GPUs better: look at fans, air flow and the temperature at the inlet (nvidia-smi -q -d TEMPERATURE has the slowdown temperature)."
        }
        DeploymentChange::FreeClocks => {
            "Take back the clocks that were set: nvidia-smi -rgc (locked clocks) and -rac (application clocks), or lock higher ones with -lgc."
        }
        DeploymentChange::FewerDrafts => {
            "Or draft fewer tokens at a time (num_speculative_tokens), with a draft model that is nearer to this one, or only under little load."
        }
        DeploymentChange::Capacity => {
            "This is the capacity of the server as it is: a queue in front of it only hides that for a while."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_stats::diagnosis::{Basis, Current, Flag, Origin, PoolGpus, Target, Value};

    #[test]
    fn a_pool_is_told_with_its_gpus() {
        let of = |size: PoolSize| {
            advice(&Advice { change: size.into(), flag: None, from: None, to: None, expected: None })
        };
        let gpus = Some(PoolGpus { long: 5, all: 8, rate: 31.0 });
        for (size, says) in [
            (PoolSize::Unknown, "."),
            (PoolSize::Measurable, ": each class measured alone tells how many (--set workload.alone=true)."),
            (
                PoolSize::Known(PoolShare { share: 0.64, gpus }),
                ": of 8 GPUs, 5 for long prompts; the two pools then take about 31 requests/s of this mix.",
            ),
            (
                PoolSize::Known(PoolShare { share: 0.64, gpus: None }),
                ": about 64 % of the GPUs for long prompts.",
            ),
        ] {
            assert_eq!(of(size), format!("Or let long prompts be read by servers of their own{says}"));
        }
    }

    #[test]
    fn advice_names_the_flag_and_its_values() {
        let name = "--max-num-seqs";
        let of = |change: Change, is_guess, from, to| {
            advice(&Advice { change, flag: Some(Flag { name, is_guess }), from, to, expected: None })
        };
        let from = Some(Current { value: Value::Count(128), origin: Origin::CommandLine });
        let basis = Basis::TpotLimit { limit_ms: 12.0 };
        let to = Some(Target { value: Value::Count(64), basis, with: None });
        assert_eq!(
            of(BatchChange::Cap.into(), false, from, to),
            "Cap the sequences that are written at a time at what the limit allows: lower --max-num-seqs from 128 (its command line) to 64 (as far as TPOT may be 12 ms), until TPOT holds."
        );
        assert_eq!(
            of(BatchChange::AdmitMore.into(), true, None, None),
            "All places of the batch are taken while requests wait: raise --max-num-seqs (as vLLM calls it)."
        );
        let chunked = Target {
            value: Value::Switch(true),
            basis: Basis::Only,
            with: Some((Flag { name: "--max-num-batched-tokens", is_guess: false }, Value::Count(512))),
        };
        assert_eq!(
            of(BatchChange::ChunkedPrefill.into(), false, None, Some(chunked)),
            "Read prompts in chunks, beside the decoding of other requests: --max-num-seqs, and set --max-num-batched-tokens to 512."
        );
        let change = Change::Client { fault: None, imported: false };
        let client = advice(&Advice { change, flag: None, from: None, to: None, expected: None });
        assert_eq!(client, "Measure from a machine with more cores, or split the load over several.");
    }
}
