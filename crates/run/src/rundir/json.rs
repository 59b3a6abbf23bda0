//! `result.json`, schema `goodput/1`: the answers, all steps, and the caveats.

mod parts;

pub use parts::{ResultFile, schema};

use crate::rundir::Run;
use goodput_stats::search::answer::{Basis, Bracket, Conclusion, Goodput, Support};
use goodput_stats::search::reason::{Ended, Reason};
use serde_json::{Value, json};

/// Name and version of the schema.
pub const SCHEMA: &str = "goodput/1";

/// Returns the result of a run as JSON facts without prose. Every number is finite or null.
pub fn result(run: &Run) -> Value {
    json!(ResultFile::of(run))
}

/// Returns the placeholder for a run without an answer.
fn nothing(run: &Run) -> Goodput {
    let ended = if !run.purpose.is_goodput() {
        Ended::NotAsked
    } else if !run.matrix.is_empty() && !run.steps.is_empty() {
        Ended::NoSlo
    } else {
        Ended::NoStep
    };
    Goodput {
        conclusion: Conclusion::OPEN,
        bracket: Bracket::default(),
        binding: None,
        support: Support::default(),
        reason: Reason::new([], ended),
        basis: Basis::Bracket,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::rundir::table::column_names;
    use goodput_core::slo::Metric;
    use goodput_stats::stats::step::Step;

    /// The result of the one-step case.
    fn one_step() -> Value {
        let (_, mut run) = fixture::cases().into_iter().find(|(n, _)| *n == "one-step").unwrap();
        run.steps[0].little_residual = Some(f64::NAN);
        result(&run)
    }

    fn lines(v: &Value) -> String {
        v.as_object().unwrap().iter().map(|(k, v)| format!("{k}: {v}\n")).collect()
    }

    #[test]
    fn the_answers_in_full() {
        let mut v = one_step();
        v["steps"] = json!(v["steps"].as_array().map(Vec::len));
        insta::assert_snapshot!(lines(&v), @r#"
        answers: [{"capacity":{"at_safe_rate":null,"cost_per_1000_requests":null,"cost_per_mtok":null,"output_tokens_per_s":598.8000000000001,"per_gpu":{"output_tokens_per_s":598.8000000000001,"prompt_tokens_per_s":11976.0,"requests_per_s":19.96},"prompt_tokens_per_s":11976.0,"requests_per_day":1724544.0,"requests_per_hour":71856.0,"requests_per_minute":1197.6000000000001,"requests_per_s":19.96,"step":1},"class":"all","control":"rate","goodput":{"basis":"bracket","binding":null,"failed":null,"halve_s":null,"interval90":null,"met":20.0,"per_gpu":20.0,"rate":20.0,"reason":{"ended":{"stopped":{"list-done":{"levels":1}}},"evidence":[{"levels":{"met-up-to":{"achieved_rate":19.96,"counts":{"misses":{"limit":"ttft.p99","misses":0,"n":2400}},"level":{"control":"rate","value":20.0}}}}]},"safe_rate":null,"status":"not-reached","support":{"change":null,"flat":null,"held":null,"misfit":null,"scatter":null},"throughput":null},"joint_goodput":{"basis":"bracket","binding":null,"failed":null,"halve_s":null,"interval90":null,"met":20.0,"per_gpu":20.0,"rate":20.0,"reason":{"ended":{"stopped":{"list-done":{"levels":1}}},"evidence":[{"levels":{"met-up-to":{"achieved_rate":19.96,"counts":{"misses":{"limit":"ttft.p99","misses":0,"n":2400}},"level":{"control":"rate","value":20.0}}}}]},"safe_rate":null,"status":"not-reached","support":{"change":null,"flat":null,"held":null,"misfit":null,"scatter":null},"throughput":null},"knee":null,"series":"main","tier":"main"}]
        capacity: {"at_safe_rate":null,"cost_per_1000_requests":null,"cost_per_mtok":null,"output_tokens_per_s":598.8000000000001,"per_gpu":{"output_tokens_per_s":598.8000000000001,"prompt_tokens_per_s":11976.0,"requests_per_s":19.96},"prompt_tokens_per_s":11976.0,"requests_per_day":1724544.0,"requests_per_hour":71856.0,"requests_per_minute":1197.6000000000001,"requests_per_s":19.96,"step":1}
        caveats: []
        client: {"busy":{"allowed":null,"most":0.08,"step":1},"in_flight":{"allowed":4096.0,"most":25.0,"step":1},"lateness_p99_ms":{"allowed":10.0,"most":0.31,"step":1},"receive_lag_p99_ms":null,"waiting":{"allowed":0.1,"most":0.002,"step":1}}
        control: "rate"
        findings: []
        goodput: {"basis":"bracket","binding":null,"failed":null,"halve_s":null,"interval90":null,"met":20.0,"per_gpu":20.0,"rate":20.0,"reason":{"ended":{"stopped":{"list-done":{"levels":1}}},"evidence":[{"levels":{"met-up-to":{"achieved_rate":19.96,"counts":{"misses":{"limit":"ttft.p99","misses":0,"n":2400}},"level":{"control":"rate","value":20.0}}}}]},"safe_rate":null,"status":"not-reached","support":{"change":null,"flat":null,"held":null,"misfit":null,"scatter":null},"throughput":null}
        joint_goodput: {"basis":"bracket","binding":null,"failed":null,"halve_s":null,"interval90":null,"met":20.0,"per_gpu":20.0,"rate":20.0,"reason":{"ended":{"stopped":{"list-done":{"levels":1}}},"evidence":[{"levels":{"met-up-to":{"achieved_rate":19.96,"counts":{"misses":{"limit":"ttft.p99","misses":0,"n":2400}},"level":{"control":"rate","value":20.0}}}}]},"safe_rate":null,"status":"not-reached","support":{"change":null,"flat":null,"held":null,"misfit":null,"scatter":null},"throughput":null}
        knee: null
        meta: {"goodput_version":"0.1.0","gpu":"A40","gpus":1,"host":"linux x86_64, 2 cores","model":"qwen3-0.6b","noted":[],"notes":"hypothesis: prefill bound","seed":1,"server":{"urls":["http://127.0.0.1:8000"]},"slo":"p99 TTFT ≤ 200 ms, p99 TPOT ≤ 20 ms","started":"2026-11-20T10:15:00Z","virtual_time":false,"workload":{"traffic":{"cache":"cold","pacing":{"arrivals":"poisson"},"requests":[{"prompts":{"synthetic":{"input-tokens":{"fixed":600},"output-tokens":{"fixed":30}}},"share":1.0}]}}}
        name: "A40, Qwen3-0.6B, 600 in / 30 out"
        schema: "goodput/1"
        steps: 1
        "#);
    }

    #[test]
    fn one_step_in_full() {
        let mut step = one_step()["steps"][0].take();
        let limits = step["limits"].take();
        assert_eq!(limits.as_array().map(Vec::len), Some(3));
        insta::assert_snapshot!(limits[0], @r#"
        {"attainment":1.0,"censored":0,"class":"all","cluster_sq":0,"clusters":0,"co_misses":[],"high":1.0,"limit":"ttft.p99","limit_ms":200.0,"low":0.996,"misses":0,"n":2400,"tier":"main","verdict":"meets"}
        "#);
        // The columns of steps.csv have their own test; here is only what else a step has.
        let columns = column_names::<Step>();
        step.as_object_mut().unwrap().retain(|key, _| !columns.contains(key));
        for metric in Metric::ALL {
            let latency = step.as_object_mut().unwrap().remove(&format!("{}_ms", metric.name()));
            let latency = latency.as_ref().and_then(Value::as_object).unwrap();
            let keys = ["inflation", "n", "p50", "p90", "p95", "p99", "p99_high", "p99_low"];
            assert!(latency.keys().eq(keys), "{metric:?}: {latency:?}");
        }
        insta::assert_snapshot!(lines(&step), @r#"
        client: {"busy":0.08,"waiting":0.002}
        limits: null
        server: {"accepted_mean":null,"decode":null,"drafted_mean":null,"e2e":null,"finished":null,"generation_tokens":null,"hit_rate":null,"itl":null,"kv_max":null,"kv_mean":null,"preemptions":null,"prefill":null,"prompt_tokens":null,"queue":null,"restarted":false,"running_max":null,"running_mean":null,"samples":null,"seconds":null,"tpot":null,"ttft":null,"waiting_max":null,"waiting_mean":null}
        "#);
    }

    /// Rows: case, requests per day, output tokens per second, cost per million output tokens.
    #[test]
    fn capacity_is_null_where_it_is_not_known() {
        for (case, day, tokens, cost) in [
            ("adaptive", Some(2_586_816.0), Some(898.2), Some(0.39 / 3600.0 / 898.2 * 1e6)),
            ("one-step", Some(1_724_544.0), Some(598.8), None), // no price
            ("none", None, None, None),                         // nothing is shown to meet
            ("unloaded-misses", None, None, None),
            ("no-step", None, None, None),
        ] {
            let (_, run) = fixture::cases().into_iter().find(|(n, _)| *n == case).unwrap();
            let v = result(&run);
            for (key, want) in
                [("requests_per_day", day), ("output_tokens_per_s", tokens), ("cost_per_mtok", cost)]
            {
                let got = v["capacity"][key].as_f64();
                let same = match (got, want) {
                    (Some(g), Some(w)) => (g - w).abs() <= 1e-9 * w,
                    (g, w) => g == w,
                };
                assert!(same, "{case}: {key} {got:?}");
                if !run.answers.is_empty() {
                    assert_eq!(v["answers"][0]["capacity"], v["capacity"], "{case}");
                }
            }
        }
    }

    #[test]
    fn a_run_without_steps_has_an_answer() {
        let (_, run) = fixture::cases().into_iter().find(|(n, _)| *n == "no-step").unwrap();
        let v = result(&run);
        assert_eq!(
            (v["goodput"]["status"].as_str(), v["steps"].as_array().map(Vec::len)),
            (Some("undecided"), Some(0))
        );
    }

    #[test]
    fn answers_read_back() {
        for (case, run) in fixture::cases() {
            let text = serde_json::to_string(&result(&run)).unwrap();
            let v: Value = serde_json::from_str(&text).unwrap();
            let answers: Vec<goodput_stats::search::answer::Answer> =
                serde_json::from_value(v["answers"].clone()).unwrap();
            assert_eq!(answers, run.answers, "{case}");
            let caveats: Vec<goodput_core::caveat::Caveat> = v["caveats"]
                .as_array()
                .unwrap()
                .iter()
                .map(|c| serde_json::from_value(c["caveat"].clone()).unwrap())
                .collect();
            assert_eq!(caveats, run.caveats, "{case}");
        }
    }
}
