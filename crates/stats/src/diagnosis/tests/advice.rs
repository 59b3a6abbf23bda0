//! Advice: the server's own flags, values, and what is not advised.

use super::*;
use crate::diagnosis::change::Change as Advised;

#[test]
fn advice_names_the_servers_own_flags_and_the_values_to_set() {
    let advice = |flags: Option<Flags>, command: &str| {
        let (mut steps, mut facts) = usual();
        (steps[2].server.preemptions, steps[2].server.running_mean) = (Some(50.0), Some(80.0));
        let curve = &mut facts.curves[0];
        curve.flags = flags;
        curve.settings.read_command_line(command, Origin::CommandLine);
        let advice = diagnose(&steps, &facts).findings.remove(0).advice;
        let said = |a: &Advice| (a.flag.map(|f| (f.name, f.is_guess)), a.to.clone().map(|to| to.value));
        advice.iter().map(said).collect::<Vec<_>>()
    };
    let vllm = advice(Some(Flags::Vllm), "vllm serve m --max-num-seqs 128 --gpu-memory-utilization 0.92");
    assert_eq!(vllm[0], (Some(("--gpu-memory-utilization", false)), Some(Value::Share(0.95))));
    let bound = advice(Some(Flags::Vllm), "vllm serve m --gpu-memory-utilization 0.95 --kv-cache-dtype fp8");
    let names: Vec<_> = bound.iter().filter_map(|(flag, _)| Some(flag.as_ref()?.0)).collect();
    assert_eq!(names, ["--tensor-parallel-size"], "what is set cannot be advised");
    let sglang = advice(Some(Flags::Sglang), "");
    assert_eq!(sglang[0], (Some(("--mem-fraction-static", false)), None), "the present share is not known");
    assert_eq!(advice(None, "")[0].0, Some(("--gpu-memory-utilization", true)), "no engine");
}

#[test]
fn what_holds_a_clock_down_decides_what_is_advised() {
    let advice = |further: &[(&str, f64)]| -> Vec<Advised> {
        let (mut steps, facts) = usual();
        clock(&mut steps, 1000.0, further);
        let found = diagnose(&steps, &facts).findings.remove(0);
        found.advice.iter().map(|advice| advice.change).collect::<Vec<_>>()
    };
    let of = |change: DeploymentChange| Advised::from(change);
    let limit = |watts, most| {
        [
            ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", 4.0),
            ("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", watts),
            ("DCGM_FI_DEV_POWER_MGMT_LIMIT_MAX", most),
        ]
    };
    assert_eq!(advice(&limit(300.0, 400.0)), [of(DeploymentChange::RaisePowerLimit)]);
    assert_eq!(advice(&limit(400.0, 400.0)), [of(DeploymentChange::FasterCompute)]);
    let heat = advice(&[("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", 32.0)]);
    assert_eq!(heat, [of(DeploymentChange::CoolGpus), of(DeploymentChange::FasterCompute)]);
    let set = advice(&[("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", 2.0)]);
    assert_eq!(set, [of(DeploymentChange::FreeClocks)]);
}

/// Rows: the use of the GPUs in percent, the requests in flight, and whether their host is found to be the limit.
#[test]
fn gpus_that_wait_for_their_host_are_not_to_be_faster() {
    for (percent, in_flight, idle) in [(22.0, 8.0, true), (95.0, 8.0, false), (22.0, 1.0, false)] {
        let (mut steps, mut facts) = usual();
        on_tpot(&mut steps, &mut facts, 7.0);
        clock(&mut steps, 1410.0, &[("DCGM_FI_DEV_GPU_UTIL", percent)]);
        steps[2].in_flight_mean = in_flight;
        let found = diagnose(&steps, &facts).findings;
        let faster = [DeploymentChange::FasterMemory, DeploymentChange::FasterCompute].map(Advised::from);
        let advised = found.iter().flat_map(|f| &f.advice).any(|a| faster.contains(&a.change));
        assert_eq!((found[0].kind == Kind::IdleGpus, advised), (idle, !idle), "{percent} %, {in_flight}");
    }
}

#[test]
fn drafting_is_not_advised_where_it_is_on() {
    let advised = |change: Change| {
        let (mut steps, mut facts) = usual();
        on_tpot(&mut steps, &mut facts, 7.0);
        change(&mut steps, &mut facts);
        let all = diagnose(&steps, &facts).findings;
        let drafting = Advised::from(DeploymentChange::SpeculativeDecoding);
        all.iter().flat_map(|f| &f.advice).any(|advice| advice.change == drafting)
    };
    assert!(advised(|_, _| ()));
    assert!(!advised(|s, _| (s[2].server.drafted_mean, s[2].server.accepted_mean) = (Some(4.0), Some(2.5))));
    assert!(!advised(|_, f| f.curves[0].settings.set(
        Knob::Speculative,
        Value::Switch(true),
        Origin::CommandLine
    )));
}
