use super::*;
use crate::sim::request::StreamOptions;
use axum::http::Method;
use goodput_engine::Emission;
use http_body_util::BodyExt;
use serde_json::Value;
use std::time::Duration;
use tokio::time::sleep_until;
use tower::ServiceExt;

mod agreement;
mod limits;

const MS: Duration = Duration::from_millis(1);

fn server(toml: &str) -> Router {
    router(&toml::from_str(toml).unwrap())
}

async fn call(router: &Router, method: Method, path: &str, body: impl Into<Body>) -> Response {
    let call = http::Request::builder().method(method).uri(path).body(body.into()).unwrap();
    router.clone().oneshot(call).await.unwrap()
}

async fn post(router: &Router, path: &str, body: &str) -> Response {
    call(router, Method::POST, path, body.to_owned()).await
}

async fn text(response: Response) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

async fn metric(router: &Router, line: &str) -> f64 {
    let metrics = text(call(router, Method::GET, "/metrics", "").await).await;
    let found =
        metrics.lines().find_map(|l| l.strip_prefix(line)).unwrap_or_else(|| panic!("{line} in {metrics}"));
    found.rsplit(' ').next().unwrap().parse().unwrap()
}

/// Returns the `data:` lines of a stream, each with the arrival time of its frame.
async fn events(response: Response) -> Vec<(Instant, String)> {
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()[CONTENT_TYPE], "text/event-stream; charset=utf-8");
    let (mut body, mut all) = (response.into_body(), vec![]);
    while let Some(frame) = body.frame().await {
        let frame = frame.unwrap().into_data().unwrap();
        for event in std::str::from_utf8(&frame).unwrap().split_terminator("\n\n") {
            all.push((Instant::now(), event.strip_prefix("data: ").unwrap().to_owned()));
        }
    }
    all
}

/// Returns the times of the events with text since `from`.
fn token_times(events: &[(Instant, String)], from: Instant) -> Vec<Duration> {
    let parsed = events
        .iter()
        .filter(|(_, e)| e != "[DONE]")
        .map(|(t, e)| (t, serde_json::from_str::<Value>(e).unwrap()));
    let with_text = parsed.filter(|(_, e)| {
        let choice = &e["choices"][0];
        [&choice["delta"]["content"], &choice["text"]]
            .iter()
            .any(|t| t.as_str().is_some_and(|t| !t.is_empty()))
    });
    with_text.map(|(t, _)| *t - from).collect()
}

const CHAT: &str = "/v1/chat/completions";
const COMPLETIONS: &str = "/v1/completions";
const ASK: &str =
    r#"{"messages": [{"role": "user", "content": "one two"}], "stream": true, "max_tokens": 3}"#;

#[tokio::test(start_paused = true)]
async fn chat_streams_as_vllm_does() {
    let router = server("preset = \"fixed\"");
    let start = Instant::now();
    let body = r#"{"model": "simulated", "messages": [{"role": "system", "content": "one two"},
        {"role": "user", "content": [{"type": "text", "text": "three"}]}], "stream": true, "max_completion_tokens": 3,
        "temperature": 0, "ignore_eos": true, "min_tokens": 3, "stream_options": {"include_usage": true}}"#;
    let response = post(&router, CHAT, body).await;
    assert_eq!(Instant::now(), start, "the head comes at once");
    let events = events(response).await;
    assert_eq!(token_times(&events, start), [20 * MS, 25 * MS, 30 * MS]);
    let created = format!("{}", serde_json::from_str::<Value>(&events[0].1).unwrap()["created"]);
    let all: Vec<String> = events.into_iter().map(|(_, e)| e.replace(&created, "TIME")).collect();
    let all = all.join("\n").replace(env!("CARGO_PKG_VERSION"), "VERSION");
    insta::assert_snapshot!(all, @r#"
    {"id":"chatcmpl-0000000000000000","object":"chat.completion.chunk","created":TIME,"model":"simulated","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":null,"prompt_text":null}
    {"id":"chatcmpl-0000000000000000","object":"chat.completion.chunk","created":TIME,"model":"simulated","choices":[{"index":0,"delta":{"content":" the"},"logprobs":null,"finish_reason":null,"token_ids":null}]}
    {"id":"chatcmpl-0000000000000000","object":"chat.completion.chunk","created":TIME,"model":"simulated","choices":[{"index":0,"delta":{"content":" rate"},"logprobs":null,"finish_reason":null,"token_ids":null}]}
    {"id":"chatcmpl-0000000000000000","object":"chat.completion.chunk","created":TIME,"model":"simulated","choices":[{"index":0,"delta":{"content":" of"},"logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null}]}
    {"id":"chatcmpl-0000000000000000","object":"chat.completion.chunk","created":TIME,"model":"simulated","choices":[],"usage":{"prompt_tokens":11,"total_tokens":14,"completion_tokens":3},"system_fingerprint":"goodput-VERSION"}
    [DONE]
    "#);
}

#[tokio::test(start_paused = true)]
async fn completions_stream_with_continuous_usage() {
    let router = server("preset = \"fixed\"\nmodel = 'a \"quoted\" name'");
    let start = Instant::now();
    let body = r#"{"prompt": [1, 2, 3, 4, 5], "stream": true, "max_tokens": 2,
        "stream_options": {"include_usage": true, "continuous_usage_stats": true}}"#;
    let events = events(post(&router, COMPLETIONS, body).await).await;
    assert_eq!(token_times(&events, start), [20 * MS, 25 * MS]);
    let usage = |i: usize| {
        let event: Value = serde_json::from_str(&events[i].1).unwrap();
        assert_eq!(event["model"], "a \"quoted\" name");
        let u = &event["usage"];
        [&u["prompt_tokens"], &u["completion_tokens"], &u["total_tokens"]].map(|x| x.as_u64().unwrap())
    };
    assert_eq!([usage(0), usage(1), usage(2)], [[5, 1, 6], [5, 2, 7], [5, 2, 7]]);
    assert_eq!((events.len(), events[3].1.as_str()), (4, "[DONE]"));
}

#[tokio::test(start_paused = true)]
async fn whole_answers_come_at_the_end() {
    let router = server("preset = \"fixed\"");
    let start = Instant::now();
    for (path, ask, prompt) in [
        (CHAT, r#""messages": [{"content": "x y"}], "max_tokens": 16"#, 10),
        (COMPLETIONS, r#""prompt": "x y""#, 2),
    ] {
        let begun = Instant::now();
        let response = post(&router, path, &format!("{{{ask}}}")).await;
        assert_eq!(
            begun.elapsed(),
            (20 + 15 * 5) * MS,
            "sixteen tokens for a completion that asks for no number"
        );
        assert_eq!(response.headers()[CONTENT_TYPE], "application/json");
        let body: Value = serde_json::from_str(&text(response).await).unwrap();
        let choice = &body["choices"][0];
        let words = choice["text"].as_str().or(choice["message"]["content"].as_str()).unwrap();
        assert_eq!(words.split_whitespace().count(), 16);
        assert_eq!(
            (&body["usage"]["prompt_tokens"], &body["usage"]["total_tokens"]),
            (&prompt.into(), &(prompt + 16).into())
        );
        assert_eq!(choice["finish_reason"], "length");
    }
    assert_eq!(start.elapsed(), 190 * MS);
}

#[tokio::test(start_paused = true)]
async fn the_network_delays_the_client_and_not_the_server() {
    let router = server("preset = \"fixed\"\nttft = \"20ms\"\ntpot = \"5ms\"\nnetwork = \"60ms\"");
    let start = Instant::now();
    let body = r#"{"model":"simulated","prompt":"a","max_tokens":3,"stream":true}"#;
    let events = events(post(&router, COMPLETIONS, body).await).await;
    assert_eq!(token_times(&events, start), [140 * MS, 145 * MS, 150 * MS]);
    let ttft = metric(&router, "vllm:time_to_first_token_seconds_sum").await;
    assert!((ttft - 0.02).abs() < 1e-9, "the server's clock knows nothing of it: {ttft}");
    let whole = r#"{"model":"simulated","prompt":"a","max_tokens":3}"#;
    let start = Instant::now();
    text(post(&router, COMPLETIONS, whole).await).await;
    assert_eq!(start.elapsed(), 150 * MS);
}

#[tokio::test(start_paused = true)]
async fn a_queue_is_a_queue() {
    let router = server("preset = \"md1\"\ndecode = \"2ms\"");
    let start = Instant::now();
    let ask = async |at: u32, first: u32| {
        sleep_until(start + at * MS).await;
        let times = token_times(&events(post(&router, CHAT, ASK).await).await, start);
        assert_eq!(times, [first * MS, (first + 2) * MS, (first + 4) * MS], "sent at {at} ms");
    };
    tokio::join!(ask(0, 50), ask(10, 100), ask(30, 150), ask(500, 550));
}

/// Tokio's timers count whole milliseconds; times in between are late by less than one, and the error does not add up.
#[tokio::test(start_paused = true)]
async fn in_process_and_model_agree_to_the_millisecond() {
    let sim: Simulated =
        toml::from_str("preset = \"mmc\"\nservers = 2\nservice = \"31400us\"\nprefill = \"7300us\"").unwrap();
    let router = router(&sim);
    let start = Instant::now();
    let due = |i: u64| Duration::from_micros(i * i * 137 % 90_000 + i * 9_000);
    let mut sent: Vec<u64> = (0..300).collect();
    sent.sort_by_key(|i| due(*i));
    let (mut model, mut tasks) = (sim.build(), tokio::task::JoinSet::new());
    for (n, i) in sent.iter().enumerate() {
        sleep_until(start + due(*i)).await;
        let now = Instant::now();
        model.arrive(now - start, Request::new(n as u64, 10, 3));
        let router = router.clone();
        tasks.spawn(
            async move { (n as u64, token_times(&events(post(&router, CHAT, ASK).await).await, start)) },
        );
    }
    let expected = model.advance(Duration::MAX);
    for (id, times) in tasks.join_all().await {
        let exact: Vec<&Emission> = expected.iter().filter(|e| e.id == id).collect();
        assert_eq!(times.len(), exact.len());
        for (time, exact) in times.iter().zip(exact) {
            assert!(*time >= exact.at && *time - exact.at < MS, "{id}: {time:?}, exactly {:?}", exact.at);
        }
    }
}

#[expect(clippy::too_many_lines, reason = "a page of metrics is long")]
#[tokio::test(start_paused = true)]
async fn metrics_count() {
    let router = server("preset = \"md1\"\nmodel = \"m\"");
    let (first, second) = (post(&router, CHAT, ASK).await, post(&router, CHAT, ASK).await);
    let gauges = async || {
        let all =
            ["running", "waiting"].map(async |g| metric(&router, &format!("vllm:num_requests_{g}{{")).await);
        let [running, waiting] = all;
        (running.await as u32, waiting.await as u32)
    };
    assert_eq!(gauges().await, (1, 1));
    events(first).await;
    assert_eq!(gauges().await, (1, 0));
    assert!(
        (metric(&router, "vllm:prompt_tokens_total{").await - 10.0).abs() < 1e-9,
        "counted with the first token"
    );
    events(second).await;
    assert_eq!(gauges().await, (0, 0));
    // The buckets are in the tests of the module.
    let metrics = text(call(&router, Method::GET, "/metrics", "").await).await;
    let lines: Vec<&str> = metrics.lines().filter(|line| !line.contains("_bucket{")).collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    # HELP vllm:num_requests_running Number of requests in model execution batches.
    # TYPE vllm:num_requests_running gauge
    vllm:num_requests_running{engine="0",model_name="m"} 0.0
    # HELP vllm:num_requests_waiting Number of requests waiting to be processed.
    # TYPE vllm:num_requests_waiting gauge
    vllm:num_requests_waiting{engine="0",model_name="m"} 0.0
    # HELP vllm:kv_cache_usage_perc KV-cache usage. 1 means 100 percent usage.
    # TYPE vllm:kv_cache_usage_perc gauge
    vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.0
    # HELP vllm:prefix_cache_queries_total Prefix cache queries, in terms of number of queried tokens.
    # TYPE vllm:prefix_cache_queries_total counter
    vllm:prefix_cache_queries_total{engine="0",model_name="m"} 0.0
    # HELP vllm:prefix_cache_hits_total Prefix cache hits, in terms of number of cached tokens.
    # TYPE vllm:prefix_cache_hits_total counter
    vllm:prefix_cache_hits_total{engine="0",model_name="m"} 0.0
    # HELP vllm:num_preemptions_total Cumulative number of preemption from the engine.
    # TYPE vllm:num_preemptions_total counter
    vllm:num_preemptions_total{engine="0",model_name="m"} 0.0
    # HELP vllm:prompt_tokens_total Number of prefill tokens processed.
    # TYPE vllm:prompt_tokens_total counter
    vllm:prompt_tokens_total{engine="0",model_name="m"} 20.0
    # HELP vllm:generation_tokens_total Number of generation tokens processed.
    # TYPE vllm:generation_tokens_total counter
    vllm:generation_tokens_total{engine="0",model_name="m"} 6.0
    # HELP vllm:request_success_total Count of successfully processed requests.
    # TYPE vllm:request_success_total counter
    vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} 0.0
    vllm:request_success_total{engine="0",finished_reason="length",model_name="m"} 2.0
    vllm:request_success_total{engine="0",finished_reason="abort",model_name="m"} 0.0
    vllm:request_success_total{engine="0",finished_reason="error",model_name="m"} 0.0
    vllm:request_success_total{engine="0",finished_reason="repetition",model_name="m"} 0.0
    # HELP vllm:time_to_first_token_seconds Histogram of time to first token in seconds.
    # TYPE vllm:time_to_first_token_seconds histogram
    vllm:time_to_first_token_seconds_count{engine="0",model_name="m"} 2.0
    vllm:time_to_first_token_seconds_sum{engine="0",model_name="m"} 0.15
    # HELP vllm:inter_token_latency_seconds Histogram of inter-token latency in seconds.
    # TYPE vllm:inter_token_latency_seconds histogram
    vllm:inter_token_latency_seconds_count{engine="0",model_name="m"} 4.0
    vllm:inter_token_latency_seconds_sum{engine="0",model_name="m"} 0.0
    # HELP vllm:e2e_request_latency_seconds Histogram of e2e request latency in seconds.
    # TYPE vllm:e2e_request_latency_seconds histogram
    vllm:e2e_request_latency_seconds_count{engine="0",model_name="m"} 2.0
    vllm:e2e_request_latency_seconds_sum{engine="0",model_name="m"} 0.15
    # HELP vllm:request_time_per_output_token_seconds Histogram of time_per_output_token_seconds per request.
    # TYPE vllm:request_time_per_output_token_seconds histogram
    vllm:request_time_per_output_token_seconds_count{engine="0",model_name="m"} 2.0
    vllm:request_time_per_output_token_seconds_sum{engine="0",model_name="m"} 0.0
    # HELP vllm:request_queue_time_seconds Histogram of time spent in WAITING phase for request.
    # TYPE vllm:request_queue_time_seconds histogram
    vllm:request_queue_time_seconds_count{engine="0",model_name="m"} 2.0
    vllm:request_queue_time_seconds_sum{engine="0",model_name="m"} 0.05
    # HELP vllm:request_prefill_time_seconds Histogram of time spent in PREFILL phase for request.
    # TYPE vllm:request_prefill_time_seconds histogram
    vllm:request_prefill_time_seconds_count{engine="0",model_name="m"} 2.0
    vllm:request_prefill_time_seconds_sum{engine="0",model_name="m"} 0.1
    # HELP vllm:request_decode_time_seconds Histogram of time spent in DECODE phase for request.
    # TYPE vllm:request_decode_time_seconds histogram
    vllm:request_decode_time_seconds_count{engine="0",model_name="m"} 2.0
    vllm:request_decode_time_seconds_sum{engine="0",model_name="m"} 0.0
    "#);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_away_frees_its_place() {
    let router = server("preset = \"md1\"");
    let start = Instant::now();
    let served = post(&router, CHAT, ASK).await;
    let waiting = post(&router, CHAT, ASK).await;
    let last = post(&router, CHAT, ASK).await;
    sleep_until(start + 10 * MS).await;
    drop((waiting, served));
    assert_eq!(token_times(&events(last).await, start)[0], 60 * MS, "served from 10 ms on");
    assert!(
        (metric(&router, "vllm:request_success_total{engine=\"0\",finished_reason=\"abort\"").await - 2.0)
            .abs()
            < 1e-9
    );

    // A request without a stream, whose call itself is dropped, is cancelled too.
    let start = Instant::now();
    let ask = r#"{"prompt": "x", "max_tokens": 1}"#;
    let cut = tokio::time::timeout(20 * MS, post(&router, COMPLETIONS, ask)).await;
    assert!(cut.is_err());
    post(&router, COMPLETIONS, ask).await;
    assert_eq!(start.elapsed(), 70 * MS);

    // An answer that was complete, even if unread, is not aborted.
    let unread = post(&router, CHAT, ASK).await;
    tokio::time::sleep(100 * MS).await;
    drop(unread);
    tokio::time::sleep(MS).await;
    assert!(
        (metric(&router, "vllm:request_success_total{engine=\"0\",finished_reason=\"abort\"").await - 3.0)
            .abs()
            < 1e-9
    );
    assert!((metric(&router, "vllm:num_requests_running{").await).abs() < 1e-9);
}

#[tokio::test(start_paused = true)]
async fn the_rest_answers() {
    let router = server("preset = \"null\"\nmodel = \"m\"\nmax-model-len = 64");
    let models: Value =
        serde_json::from_str(&text(call(&router, Method::GET, "/v1/models", "").await).await).unwrap();
    assert_eq!((&models["object"], &models["data"][0]["id"]), (&"list".into(), &"m".into()));
    assert_eq!(models["data"][0]["max_model_len"], 64);
    let health = call(&router, Method::GET, "/health", "").await;
    assert_eq!((health.status().as_u16(), text(health).await.as_str()), (200, ""));
    let version: Value =
        serde_json::from_str(&text(call(&router, Method::GET, "/version", "").await).await).unwrap();
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    // `null` sends every token as a separate event, all at once.
    let start = Instant::now();
    assert_eq!(token_times(&events(post(&router, CHAT, ASK).await).await, start), [Duration::ZERO; 3]);
}

/// A stream whose engine is gone must not look complete.
#[tokio::test(start_paused = true)]
async fn an_engine_that_stops_breaks_the_stream() {
    let runtime = std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let sim = Simulated::named("md1").unwrap();
        let handle = runtime.block_on(async { Handle::start(sim.build(), Duration::ZERO, Clock::Paused) });
        let answer = handle.submit(Instant::now(), Request::new(0, 1, 1));
        runtime.shutdown_background();
        (handle, answer)
    });
    let (handle, answer) = runtime.join().unwrap();
    let writers = ChoiceWriters::new(1, || Writer::new(TextApi::Chat, "", 1, StreamOptions::default()));
    assert!(Body::new(Stream { events: vec![answer], writers }).collect().await.is_err());
    assert_eq!(handle.counters().await, None);
}
