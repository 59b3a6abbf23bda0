//! Tests against a server whose tokens are pieces of four letters, so that prompts with equal numbers of words differ
//! in tokens.

use super::*;
use axum::Router;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use goodput_core::endpoint::Api;
use goodput_load::client::encoder::Pinning;
use goodput_plan::Plan;
use goodput_plan::server::{Server, Target};
use goodput_workload::prompts::Prompt;
use serde_json::{Value, json};
use std::io::Write;

/// Returns the server's number of tokens in a text: natural text with long words has more of them than synthetic
/// prompts.
fn pieces(text: &str) -> usize {
    text.split_whitespace().map(|word| word.chars().count().div_ceil(4)).sum()
}

fn counted(messages: &[Message]) -> usize {
    3 + messages.iter().map(|m| 4 + pieces(&m.content)).sum::<usize>()
}

/// Answers prompts within a context of this many tokens.
async fn answer(context: usize, axum::Json(asked): axum::Json<Value>) -> Response {
    let content = |m: &Value| Message::user(m["content"].as_str().unwrap());
    let messages: Vec<Message> = asked["messages"].as_array().unwrap().iter().map(content).collect();
    if counted(&messages) > context {
        return (StatusCode::BAD_REQUEST, "the prompt is longer than the context").into_response();
    }
    let said = json!({ "choices": [{ "index": 0, "delta": { "content": "a" }, "finish_reason": "length" }] });
    let usage =
        json!({ "choices": [], "usage": { "prompt_tokens": counted(&messages), "completion_tokens": 1 } });
    let events = format!("data: {said}\n\ndata: {usage}\n\ndata: [DONE]\n\n");
    ([("content-type", "text/event-stream")], events).into_response()
}

/// Calibrates for a plan. Also returns the mean requested and counted tokens of its prompts by series and class.
async fn lengths(plan: &str) -> (WordRates, Vec<Caveat>, Vec<(String, String, f64, f64)>) {
    lengths_within(usize::MAX, plan).await
}

async fn lengths_within(
    context: usize,
    plan: &str,
) -> (WordRates, Vec<Caveat>, Vec<(String, String, f64, f64)>) {
    let mut plan = Plan::from_text(plan).unwrap();
    let traffic = plan.open_files().unwrap();
    let series = plan.series();
    let host = Host::of(&plan.client, true).unwrap();
    let router = Router::new().route("/v1/chat/completions", post(move |asked| answer(context, asked)));
    let client = Client::in_process(router, &Server::new(Target::Simulated(toml::Table::new())));
    let pinning = Pinning { ignore_eos: false, min_tokens: false };
    let encoder = Encoder::new(Api::Chat, "m", &serde_json::Map::new(), pinning, true);
    let timeout = Duration::from_secs(60);
    let all = PlanSeries { series: &series, traffic: &traffic };
    let probe = Probe { host: &host, client: &client, encoder: &encoder, timeout };
    let (rates, noted) = calibrate(&probe, all, plan.seed).await.unwrap();
    let mut found = Vec::new();
    for one in &series {
        let traffic = Traffic::open(&one.plan.workload, &plan.counter().unwrap()).unwrap();
        let key = StepKey { seed: plan.seed, series: one.name.clone(), step: 1 };
        let chains = Chains::new(&traffic, &key, Level::concurrency(1)).unwrap();
        let prompter = Prompter::new(&traffic, key, rates.clone());
        let mut sums = std::collections::BTreeMap::<String, (f64, f64, f64)>::new();
        for mut chain in chains.take(600) {
            prompter.measure(&mut chain);
            let (turn, prompt) = (&chain.turns[0], prompter.prompt(&chain.turns[0]));
            let sum = sums.entry(one.plan.workload.class_name(turn.class).to_owned()).or_default();
            let tokens = counted(&prompt.messages()) as f64;
            *sum = (sum.0 + 1.0, sum.1 + f64::from(turn.request.input_tokens), sum.2 + tokens);
            assert!(!matches!(prompt, Prompt::Messages(m) if m.is_empty()));
        }
        found.extend(
            sums.into_iter().map(|(class, (n, asked, got))| (one.name.clone(), class, asked / n, got / n)),
        );
    }
    (rates, noted, found)
}

fn assert_as_asked(found: &[(String, String, f64, f64)], share: f64) {
    for (series, class, asked, got) in found {
        assert!(
            (got - asked).abs() <= (share * asked).max(0.6),
            "{series}/{class}: {got} for {asked}; {found:?}"
        );
    }
}

const HEAD: &str = "name = \"x\"\nserver.url = \"http://127.0.0.1:1\"\n";

#[tokio::test(start_paused = true)]
async fn every_row_of_a_matrix_has_the_lengths_that_it_asks_for() {
    for seed in 1..4 {
        let row = |name: &str, input: u32, more: &str| {
            format!(
                "[[row]]\nname = \"{name}\"\ninput-tokens.fixed = {input}\noutput-tokens.fixed = 9\nconcurrency = 1\n{more}\n"
            )
        };
        let rows = row("long", 3300, "prefix-reuse = 0.909")
            + &row("short", 60, "")
            + &row("half", 90, "prefix-reuse = 0.5");
        let (rates, noted, found) = lengths(&format!("{HEAD}seed = {seed}\n{rows}")).await;
        assert_eq!((noted, rates.overhead, rates.system), (vec![], 7.0, 4.0));
        assert_eq!(rates.shared.len(), 2, "{rates:?}");
        assert_eq!(found.len(), 3);
        assert_as_asked(&found, 0.002);
    }
}

/// Rows: the context, and whether lengths can be calibrated in it. The whole list takes more than 300 tokens.
#[tokio::test(start_paused = true)]
async fn a_short_context_takes_the_list_in_parts() {
    let plan = format!(
        "{HEAD}slo.ttft.p99 = \"1s\"\nsearch.rates = [1]\n[workload.prompts.synthetic]\ninput-tokens.fixed = 60\n\
         output-tokens.fixed = 9\nshared-prefix = {{ tokens = 20, groups = 2 }}\n"
    );
    let (whole, noted, _) = lengths(&plan).await;
    assert_eq!(noted, []);
    let (parts, noted, found) = lengths_within(300, &plan).await;
    assert_eq!(noted, [], "{parts:?}");
    assert!((parts.overhead, parts.system) == (7.0, 4.0) && parts == whole, "{parts:?} {whole:?}");
    assert_as_asked(&found, 0.01);
    let (_, noted, _) = lengths_within(30, &plan).await;
    assert!(
        matches!(noted[..], [Caveat::Lengths(LengthsCaveat::InputNotCalibrated { .. })]),
        "not even a part of it: {noted:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_class_alone_and_a_pair_of_caches_count_as_the_mix_does() {
    let class = |name: &str, input: u32, shared: u32| {
        format!(
            "[[workload.class]]\nname = \"{name}\"\nweight = 1\n[workload.class.prompts.synthetic]\ninput-tokens.fixed = {input}\n\
             output-tokens.fixed = 9\nshared-prefix = {{ tokens = {shared}, groups = 2 }}\n"
        )
    };
    let mix = class("chat", 300, 200) + &class("rag", 1500, 1400);
    let plan = format!(
        "{HEAD}slo.ttft.p99 = \"1s\"\nsearch.rates = [1]\n[workload]\nalone = true\ncache = \"pair\"\n{mix}"
    );
    let (rates, _, found) = lengths(&plan).await;
    assert_eq!((rates.shared.len(), found.len()), (2, 8), "{found:?}");
    assert_as_asked(&found, 0.003);
}

/// Texts after many prefixes, in two classes with different kinds of text.
#[tokio::test(start_paused = true)]
async fn the_texts_of_each_class_count_for_themselves() {
    let rows = |words: [&str; 2]| {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        for i in 0..60_usize {
            let text: Vec<&str> = (0..20 + i % 40).map(|k| words[(i + k * k) % 2]).collect();
            writeln!(file, "{}", json!({ "prompt": text.join(" "), "output_tokens": 5 })).unwrap();
        }
        file
    };
    let (short, long) = (rows(["a", "is"]), rows(["internationalisation", "notwithstanding"]));
    let class =
        |name: &str, prompts: &str| format!("[[workload.class]]\nname = \"{name}\"\nweight = 1\n{prompts}\n");
    let file = |f: &tempfile::NamedTempFile| {
        format!("prompts.jsonl = {{ files = [{:?}], output-from = \"field\" }}", f.path())
    };
    let mix = class(
        "prefixed",
        "prompts.synthetic = { input-tokens.fixed = 300, output-tokens.fixed = 9, shared-prefix = { tokens = 100, groups = 12 } }",
    ) + &class("short", &file(&short))
        + &class("long", &file(&long));
    let (rates, noted, found) =
        lengths(&format!("{HEAD}slo.ttft.p99 = \"1s\"\nsearch.rates = [1]\n{mix}")).await;
    assert_eq!(noted, []);
    let per_char = |class| rates.of(class).per_char.unwrap();
    assert!(per_char("short") > 1.5 * per_char("long"), "{rates:?}");
    assert_as_asked(&found, 0.02);
}

/// Counts the tokens of a rerank request as a cross-encoder reads it: each document with the query and three special tokens.
async fn rerank(axum::Json(asked): axum::Json<Value>) -> Response {
    let query = pieces(asked["query"].as_str().unwrap());
    let documents = asked["documents"].as_array().unwrap();
    let tokens: usize = documents.iter().map(|d| 3 + query + pieces(d.as_str().unwrap())).sum();
    let results: Vec<Value> = documents.iter().map(|_| json!({ "relevance_score": 0.5 })).collect();
    axum::Json(json!({ "results": results, "usage": { "prompt_tokens": tokens } })).into_response()
}

/// The query of the calibration has two tokens, more than a mean word.
#[tokio::test(start_paused = true)]
async fn special_tokens_of_a_pair_are_counted_without_the_query() {
    let plan = "name = \"x\"\n[server]\nurl = \"http://127.0.0.1:1\"\napi = \"rerank\"\n[workload.prompts.items]\n\
                query-tokens.fixed = 9\ninput-tokens.fixed = 60\n[slo]\ne2e.p99 = \"1s\"\n";
    let mut plan = Plan::from_text(plan).unwrap();
    let traffic = plan.open_files().unwrap();
    let host = Host::of(&plan.client, true).unwrap();
    let router = Router::new().route("/v1/rerank", post(rerank));
    let server = Server { api: Api::Rerank, ..Server::new(Target::Simulated(toml::Table::new())) };
    let client = Client::in_process(router, &server);
    let encoder = Encoder::new(Api::Rerank, "m", &serde_json::Map::new(), Pinning::NONE, true);
    let probe = Probe { host: &host, client: &client, encoder: &encoder, timeout: Duration::from_secs(60) };
    let series = plan.series();
    let all = PlanSeries { series: &series, traffic: &traffic };
    let (rates, noted) = calibrate(&probe, all, plan.seed).await.unwrap();
    assert_eq!((noted, rates.overhead), (vec![], 3.0));
}
