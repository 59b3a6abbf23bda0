//! Answers in one piece: only e2e is known of them, and a whole sweep makes do with it.

use crate::common::{column, result, sweep, sweep_with_charts};
use goodput::plan::Plan;
use goodput::slo::Metric;
use goodput::sweep::bare;

const MD1: &str = "simulated = { preset = \"md1\" }\nwarmup-requests = 2";
const ENGINE: &str = "simulated = { preset = \"demo\" }\nwarmup-requests = 4";

fn text(server: &str, slo: &str, search: &str) -> String {
    format!(
        "name = \"whole\"\n[server]\nstream = false\n{server}\n[slo]\n{slo}\n[workload.prompts.synthetic]\n\
         input-tokens = {{ fixed = 40 }}\noutput-tokens = {{ fixed = 6 }}\n[step]\nsettle = \"5s\"\nmeasure = \"60s\"\n\
         [search]\n{search}\n"
    )
}

#[test]
fn a_whole_sweep_rests_on_e2e() {
    let dir = tempfile::tempdir().unwrap();
    let plan = text(MD1, "e2e.p99 = \"200ms\"", "adaptive = { budget = \"1h\" }\nmax-rate = 1000");
    let result = result(&sweep_with_charts(dir.path(), &plan, &["--virtual-time"]).0);
    let steps = result["steps"].as_array().unwrap();
    assert!(steps.len() > 4, "{}", result["goodput"]);
    for step in steps {
        assert_eq!(step["ttft_ms"]["n"], 0, "{step}");
        assert_eq!((&step["tpot_ms"]["n"], &step["itl_ms"]["n"]), (&0.into(), &0.into()));
        assert!(step["e2e_ms"]["n"].as_u64().unwrap() > 0 || step["completed"] == 0, "{step}");
        assert_eq!(step["output_tokens_mean"], 6.0);
    }
    let goodput = &result["goodput"];
    assert_eq!((&goodput["status"], &goodput["binding"]), (&"found".into(), &"e2e.p99".into()), "{goodput}");
    let requests = dir.path().join("run/requests.csv");
    assert!(column(&requests, "first_token_ms").iter().all(String::is_empty));
    assert!(column(&requests, "last_token_ms").iter().any(|t| !t.is_empty()));
    assert!(column(&requests, "token_source").iter().all(|t| t.is_empty() || t == "usage"));
    let report = std::fs::read_to_string(dir.path().join("run/report.md")).unwrap();
    let row = report.lines().find(|l| l.contains("e2e p99 ms")).unwrap();
    assert!(row.contains("TTFT p99 ms"), "{row}");
    assert!(!report.contains("TPOT p99 ms") && !report.contains("NaN"), "{report}");
    for chart in ["latency", "timelines", "attainment"] {
        assert!(dir.path().join(format!("run/charts/{chart}.svg")).exists(), "{chart}");
    }
    let timelines = std::fs::read_to_string(dir.path().join("run/charts/timelines.svg")).unwrap();
    assert!(timelines.contains("Below: e2e"), "what is drawn is named");
}

#[test]
fn over_http_answers_come_in_one_piece_too() {
    let dir = tempfile::tempdir().unwrap();
    let search = "rates = [20]";
    let slo = "e2e.p99 = \"800ms\"\nerror-rate = 0.01";
    let plan = text(ENGINE, slo, search).replace("60s", "1s").replace("5s\"", "200ms\"");
    for (api, plan) in
        [("chat", plan.clone()), ("completions", plan.replace("stream =", "api = \"completions\"\nstream ="))]
    {
        let dir = dir.path().join(api);
        std::fs::create_dir(&dir).unwrap();
        let result = result(&sweep(&dir, &plan, &[]).0);
        let step = &result["steps"][0];
        assert_eq!((&step["ttft_ms"]["n"], &step["failed"]), (&0.into(), &0.into()), "{api}: {step}");
        assert!(step["e2e_ms"]["n"].as_u64().unwrap() > 5, "{api}: {step}");
        assert_eq!(step["output_tokens_mean"], 6.0, "{api}");
    }
}

/// Without HTTP and with it, the same is known.
#[test]
fn the_bare_model_has_no_first_token_either() {
    let plan = Plan::from_text(&text(MD1, "e2e.p99 = \"200ms\"", "rates = [5, 9, 14]")).unwrap();
    let steps = bare::steps(&plan).unwrap();
    assert!(steps.iter().all(|s| s.quantiles(Metric::Ttft).n == 0 && s.quantiles(Metric::E2e).n > 0));
    let verdicts: Vec<&str> = steps.iter().map(|s| s.verdict.name()).collect();
    assert!(verdicts[0] != "fails" && verdicts[2] == "fails", "{verdicts:?}");
}

#[test]
fn a_limit_on_what_is_not_seen_is_refused() {
    for limit in ["ttft.p99", "ttfc.p50", "tpot.p99", "itl.p95"] {
        let slo = format!("e2e.p99 = \"1s\"\n{limit} = \"1s\"");
        let e = Plan::from_text(&text(MD1, &slo, "rates = [1]")).unwrap_err().to_string();
        assert!(e.contains("stream = false") && e.contains("slo.e2e.p99"), "{limit}: {e}");
    }
    let body = "body = { stream_options = { include_usage = true } }\n";
    let both = text(&format!("{body}{MD1}"), "e2e.p99 = \"1s\"", "rates = [1]");
    let e = Plan::from_text(&both).unwrap_err().to_string();
    assert!(e.contains("stream_options"), "{e}");
    let plan = Plan::from_text(&text(MD1, "e2e.p99 = \"1s\"", "rates = [1]")).unwrap();
    assert!(Plan::parse(&plan.to_toml().unwrap()).unwrap() == plan && !plan.server.stream);
}
