//! Endpoints that the plan describes itself: whole sweeps of TGI's and Ollama's, played by the simulated server.

use crate::common::{column, goodput, result, simulate};
use goodput::plan::Plan;

const TGI: &str = r#"path = "/generate_stream"
body = '{"inputs": "{{prompt}}", "parameters": {"max_new_tokens": {{max_tokens}}, "details": true}}'
text = "$.token.text"
tokens = "$.details.generated_tokens"
input-tokens = "$.details.input_length"
finish = "$.details.finish_reason""#;
const TGI_WHOLE: &str = r#"path = "/generate"
body = '{"inputs": "{{prompt}}", "parameters": {"max_new_tokens": {{max_tokens}}}}'
text = "$.generated_text"
tokens = "$.details.generated_tokens"
finish = "$.details.finish_reason""#;
const OLLAMA: &str = r#"path = "/api/generate"
body = '{"model": "{{model}}", "prompt": "{{prompt}}", "options": {"num_predict": {{max_tokens}}}}'
stream-format = "lines"
text = "$.response"
tokens = "$.eval_count"
input-tokens = "$.prompt_eval_count"
finish = "$.done_reason""#;
/// As Triton's: no counts, and no end but that of the body.
const BARE: &str = r#"path = "/generate_stream"
body = '{"parameters": {"max_new_tokens": {{max_tokens}}}, "inputs": "{{prompt}}"}'
text = "$.token.text""#;
/// The embeddings of the simulated server, as if no API had them.
const ITEMS: &str = r#"path = "/v1/embeddings"
body = '{"input": {{texts}}}'
results = "$.data"
input-tokens = "$.usage.prompt_tokens""#;

const SYNTHETIC: &str = "synthetic = { input-tokens = { fixed = 40 }, output-tokens = { fixed = 6 }, shared-prefix = { tokens = 16 } }";

fn plan(server: &str, template: &str, slo: &str, prompts: &str) -> String {
    format!(
        "name = \"own\"\nslo.{slo} = \"1s\"\n[server]\napi = \"template\"\n{server}\nwarmup-requests = 2\n[server.template]\n{template}\n\
         [workload]\nprompts.{prompts}\n[step]\nsettle = \"5s\"\nmeasure = \"60s\"\n[search]\nrates = [5]\n"
    )
}

fn demo(more: &str) -> String {
    format!("simulated = {{ preset = \"demo\", model = \"m\" }}\n{more}")
}

#[test]
fn generated_answers_are_measured_like_those_of_an_api() {
    let dir = tempfile::tempdir().unwrap();
    for (name, server, template, slo, source, input) in [
        ("tgi", demo(""), TGI, "ttft.p99", "usage", true),
        ("whole", demo("stream = false"), TGI_WHOLE, "e2e.p99", "usage", false),
        ("ollama", demo("model = \"m\""), OLLAMA, "ttft.p99", "usage", true),
        ("bare", demo(""), BARE, "ttft.p99", "events", false),
    ] {
        let dir = dir.path().join(name);
        std::fs::create_dir(&dir).unwrap();
        let (folder, text) = simulate(&dir, &plan(&server, template, slo, SYNTHETIC));
        let step = &result(&folder)["steps"][0];
        assert_eq!(step["failed"], 0, "{name}: {text}");
        assert_eq!(step["output_tokens_mean"], 6.0, "{name}: {step}");
        let has_ttft = step["ttft_ms"]["n"].as_u64().unwrap() > 100;
        assert_eq!(has_ttft, slo == "ttft.p99", "{name}: {step}");
        let requests = folder.join("requests.csv");
        assert!(column(&requests, "token_source").iter().all(|s| s == source), "{name}");
        // Calibrated to the planned length where the server counts.
        let counted = |tokens: &String| if input { tokens == "40" } else { tokens.is_empty() };
        assert!(column(&requests, "input_tokens").iter().all(counted), "{name}");
        let finish = if name == "bare" { "done" } else { "length" };
        assert!(column(&requests, "finish").iter().all(|f| f == finish), "{name}");
    }
}

#[test]
fn conversations_go_into_one_prompt() {
    let dir = tempfile::tempdir().unwrap();
    let plan = plan(&demo(""), TGI, "ttft.p99", SYNTHETIC).replace(
        "[step]",
        "[workload.conversation]\nturns = { fixed = 2 }\ninput-tokens = { fixed = 8 }\n[step]",
    );
    let (folder, text) = simulate(dir.path(), &plan);
    assert_eq!(result(&folder)["steps"][0]["failed"], 0, "{text}");
    let inputs = column(&folder.join("requests.csv"), "input_tokens");
    // The second turn has the first one's prompt and answer, and its own words.
    assert!(inputs.iter().any(|n| n.parse::<u32>().unwrap() >= 40 + 6 + 8), "{inputs:?}");
}

#[test]
fn a_template_may_have_items() {
    let dir = tempfile::tempdir().unwrap();
    let items = "items = { input-tokens = { fixed = 30 }, count = { fixed = 4 } }";
    let (folder, text) = simulate(dir.path(), &plan(&demo(""), ITEMS, "e2e.p99", items));
    let step = &result(&folder)["steps"][0];
    assert_eq!(step["failed"], 0, "{text}");
    let (items, rate) = (step["items_per_s"].as_f64().unwrap(), step["completed"].as_f64().unwrap() / 60.0);
    assert!((items / rate - 4.0).abs() < 0.5, "{step}");
    assert!(text.contains("texts"), "{text}");
}

/// The first request shows what the server says, or what the template overlooks.
#[test]
fn a_template_that_does_not_fit_is_shown_the_answer() {
    let dir = tempfile::tempdir().unwrap();
    for (name, template, parts) in [
        ("body", TGI.replace("\"inputs\"", "\"text\""), &["HTTP 400", "body.inputs"][..]),
        ("path", TGI.replace("/generate_stream", "/v2/generate_stream"), &["HTTP 404", "Not Found"]),
        (
            "text",
            TGI.replace("$.token.text", "$.text"),
            &["empty", "generated_text", "paths of [server.template]"],
        ),
        ("finish", TGI.replace("finish_reason", "end"), &["truncated", "paths of [server.template]"]),
        ("format", format!("{TGI}\nstream-format = \"lines\""), &["malformed", "stream-format"]),
        ("whole", TGI.replace("_stream", ""), &["generated_text", "paths of [server.template]"]),
    ] {
        let file = dir.path().join(format!("{name}.toml"));
        std::fs::write(&file, plan(&demo(""), &template, "ttft.p99", SYNTHETIC)).unwrap();
        let out = goodput()
            .arg("sweep")
            .arg(&file)
            .args(["--virtual-time", "--no-charts", "--out"])
            .arg(dir.path().join(name))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(!out.status.success() && parts.iter().all(|part| said.contains(part)), "{name}: {said}");
    }
}

/// Faults end answers of a template as they do those of an API.
#[test]
fn faults_are_failures() {
    let dir = tempfile::tempdir().unwrap();
    for (fault, failure) in [
        ("truncated", "truncated"),
        ("cut-short", "truncated"),
        ("no-finish", "truncated"),
        ("bad-json", "malformed"),
        ("error-event", "stream_error"),
        ("status-503", "server_error"),
        ("usage-huge", "overrun"),
    ] {
        for (kind, template, more) in [("tgi", TGI, ""), ("ollama", OLLAMA, "\nmodel = \"m\"")] {
            if kind == "ollama" && fault == "usage-huge" {
                continue;
            }
            let server = format!(
                "simulated = {{ preset = \"demo\", model = \"m\", fault = {{ {fault} = 0.5 }}, fault-after = 60 }}{more}"
            );
            let dir = dir.path().join(format!("{kind}-{fault}"));
            std::fs::create_dir(&dir).unwrap();
            let text = plan(&server, template, "ttft.p99", SYNTHETIC).replace("60s", "20s");
            let (folder, said) = simulate(&dir, &text);
            let failures = column(&folder.join("requests.csv"), "failure");
            let found: Vec<&String> = failures.iter().filter(|f| !f.is_empty()).collect();
            assert!(
                !found.is_empty() && found.iter().all(|f| f.replace('-', "_") == failure),
                "{kind} {fault}: {found:?}\n{said}"
            );
        }
    }
}

#[test]
fn a_class_differs_in_what_the_template_has() {
    let class =
        |more: &str| format!("[[workload.class]]\nname = \"a\"\nweight = 1\n{more}\nprompts.{SYNTHETIC}\n");
    let with = |template: &str, more: &str| {
        let text = plan(&demo("model = \"m\""), template, "ttft.p99", SYNTHETIC);
        let (before, rest) = text.split_once("[workload]").unwrap();
        let (_, after) = rest.split_once("[step]").unwrap();
        Plan::from_text(&format!("{before}{}[step]{after}", class(more))).map_err(|e| e.to_string())
    };
    assert!(with(OLLAMA, "model = \"lora\"").is_ok());
    for (template, more, part) in [
        (TGI, "model = \"lora\"", "no {{model}}"),
        (OLLAMA, "body = { temperature = 0.5 }", "server.template.body"),
    ] {
        let got = with(template, more).unwrap_err();
        assert!(got.contains(part), "{more}: {got}");
    }
}
