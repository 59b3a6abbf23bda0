//! Sends equal requests to the bare model, to the router in process, and to a real socket, and compares tokens and
//! times.

use super::*;
use crate::sim::serve::Embedded;
use goodput_engine::batch::cost::Cost;
use goodput_engine::config::{Engine, Simulated};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};

/// A chat request whose prompt shares its first words with others of its family.
#[derive(Debug, Clone, Copy)]
struct Chat {
    id: u64,
    family: u64,
    shared: u64,
    own: u64,
    output: u32,
}

impl Chat {
    fn body(&self) -> String {
        let words =
            |name: char, of: u64, n| (0..n).map(|i| format!("{name}{of}-{i}")).collect::<Vec<_>>().join(" ");
        let (system, user) = (words('f', self.family, self.shared), words('r', self.id, self.own));
        let output = self.output;
        format!(
            r#"{{"messages": [{{"role": "system", "content": "{system}"}}, {{"role": "user", "content": "{user}"}}],
            "stream": true, "max_tokens": {output}, "stream_options": {{"include_usage": true}}}}"#
        )
    }

    /// Returns the request without HTTP: other token ids, but equal structure.
    fn request(&self) -> Request {
        let family = (0..self.shared).map(|i| 1_000_000 * (self.family + 1) + i);
        let own = (0..self.own).map(|i| 1_000_000_000 * (self.id + 1) + i);
        let answer = (0..u64::from(self.output)).map(|i| 500 + i);
        let tokens = (0..8).chain(family).chain(own).chain(answer);
        let input = u32::try_from(8 + self.shared + self.own).unwrap();
        Request::new(self.id, input, self.output).with_blocks(blocks_of(tokens, 16))
    }
}

/// Returns the times of a request's tokens, and how many of its prompt tokens were cached.
fn tokens_of(emissions: &[Emission], id: u64) -> (Vec<Duration>, Option<u32>) {
    let mine: Vec<&Emission> = emissions.iter().filter(|e| e.id == id).collect();
    (mine.iter().map(|e| e.at).collect(), mine[0].cached_tokens)
}

#[tokio::test(start_paused = true)]
async fn a_batching_engine_in_process_and_bare() {
    // Chunks of 96 tokens, six seats, and blocks for about four of the requests: what there is, occurs.
    let sim: Simulated = toml::from_str(
        "preset = \"demo\"\nmax-num-seqs = 6\nmax-num-batched-tokens = 96\nkv-blocks = 41\nseed = 3",
    )
    .unwrap();
    let router = router(&sim);
    let start = Instant::now();
    let (mut model, mut tasks) = (sim.build(), JoinSet::new());
    for id in 0..400_u64 {
        let x = id * id;
        let output = 1 + u32::try_from(x * 11 % 90).unwrap();
        let chat = Chat { id, family: x % 3, shared: 20 + x % 5 * 30, own: 1 + x * 7 % 120, output };
        sleep_until(start + Duration::from_micros(30_000 * id + x * 137 % 90_000)).await;
        model.arrive(Instant::now() - start, chat.request());
        let router = router.clone();
        tasks.spawn(async move {
            let events = events(post(&router, CHAT, &chat.body()).await).await;
            let usage: Value = serde_json::from_str(&events[events.len() - 2].1).unwrap();
            let cached = usage["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
            (id, token_times(&events, start), cached)
        });
    }
    let expected = model.advance(Duration::MAX);
    for (id, times, cached) in tasks.join_all().await {
        let (exact, known) = tokens_of(&expected, id);
        assert_eq!((times.len(), Some(cached)), (exact.len(), known.map(u64::from)), "{id}");
        for (time, exact) in times.iter().zip(exact) {
            assert!(*time >= exact && *time - exact < MS, "{id}: {time:?}, exactly {exact:?}");
        }
    }
    let prefix = model.prefix_counts();
    assert!(prefix.hits > prefix.queries / 10, "{prefix:?}");
    assert!(model.preemptions() > 20, "{}", model.preemptions());
    for (name, value) in [
        ("prefix_cache_queries_total{", prefix.queries as f64),
        ("prefix_cache_hits_total{", prefix.hits as f64),
        ("num_preemptions_total{", model.preemptions() as f64),
        ("kv_cache_usage_perc{", 0.0),
        ("generation_tokens_total{", expected.len() as f64),
        (
            "cache_config_info{block_size=\"16\",enable_prefix_caching=\"True\",engine=\"0\",num_gpu_blocks=\"41\"}",
            1.0,
        ),
    ] {
        let got = metric(&router, &format!("vllm:{name}")).await;
        assert!((got - value).abs() < 1e-9, "{name}: {got}, not {value}");
    }
}

/// Sends a request. Returns when its first token came and when its stream ended, since `start`.
async fn over_the_socket(address: String, body: String, start: Instant) -> (Duration, Duration) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let text = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: sim\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes()).await.unwrap();
    let (mut seen, mut first) = (String::new(), None);
    while !seen.contains("[DONE]") {
        let mut part = [0; 4096];
        let n = stream.read(&mut part).await.unwrap();
        assert!(n > 0, "{seen}");
        seen.push_str(std::str::from_utf8(&part[..n]).unwrap());
        if first.is_none() && seen.contains("\"content\":\" ") {
            first = Some(start.elapsed());
        }
    }
    (first.unwrap(), start.elapsed())
}

/// Three requests within the first iteration of the first, so that it does not matter when exactly they come. The
/// engine is eight times slower than the preset: a model off by one iteration would be off by 50 ms and more in every
/// round, and a machine that is busy with other things is not late by half of that in each.
#[tokio::test]
async fn a_batching_engine_over_a_socket_and_bare() {
    const TOLERANCE: Duration = Duration::from_millis(25);
    let mut sim = Simulated::named("a40-qwen3-0.6b").unwrap();
    let Engine::Batch { deployment, .. } = &mut sim.engine else { panic!("it is a batching engine") };
    let Cost::Formula(formula) = &mut deployment.cost else { panic!("it has a formula") };
    for term in [&mut formula.base_ns, &mut formula.token_ns, &mut formula.sequence_ns] {
        *term *= 8.0;
    }
    deployment.cv = 0.0;
    let server = Embedded::start(&sim).unwrap();
    let address = server.url.strip_prefix("http://").unwrap();
    let mut errors = vec![];
    for round in 0..8 {
        let chats = [(0, 0, 2500, 4), (1, 800, 300, 3), (2, 800, 300, 2)]
            .map(|(i, shared, own, output)| Chat { id: 3 * round + i, family: round, shared, own, output });
        let mut model = sim.build();
        for (i, chat) in (0..).zip(&chats) {
            model.arrive(i * 5 * MS, chat.request());
        }
        let exact = model.advance(Duration::MAX);
        // The shared part of the last prompt is cached: 808 tokens are fifty full blocks.
        assert_eq!(tokens_of(&exact, chats[2].id).1, Some(800));
        let start = Instant::now();
        let mut tasks = JoinSet::new();
        for (i, chat) in (0..).zip(chats) {
            tokio::time::sleep_until(start + i * 5 * MS).await;
            tasks.spawn({
                let (address, body) = (address.to_owned(), chat.body());
                async move { (chat.id, over_the_socket(address, body, start).await) }
            });
        }
        let off = |(id, (first, last)): (u64, (Duration, Duration))| {
            let (times, _) = tokens_of(&exact, id);
            first.abs_diff(times[0]).max(last.abs_diff(times[times.len() - 1]))
        };
        let worst = tasks.join_all().await.into_iter().map(off).max().unwrap();
        if worst <= TOLERANCE {
            return;
        }
        errors.push(worst);
    }
    panic!("no round within {TOLERANCE:?}: {errors:?}");
}

#[tokio::test(start_paused = true)]
async fn a_conversation_finds_its_past_and_too_long_a_one_is_refused() {
    let router = server("preset = \"demo\"\nkv-blocks = 10");
    let ask = |messages: &str| format!(r#"{{"messages": [{messages}], "max_tokens": 32}}"#);
    let user = format!(r#"{{"role": "user", "content": "{}"}}"#, "word ".repeat(40));
    let answer: Value = serde_json::from_str(&text(post(&router, CHAT, &ask(&user)).await).await).unwrap();
    let cached = |answer: &Value| answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64();
    assert_eq!(cached(&answer), Some(0));
    let said = &answer["choices"][0]["message"]["content"];
    let next = format!(
        r#"{user}, {{"role": "assistant", "content": {said}}}, {{"role": "user", "content": "and"}}"#
    );
    let answer: Value = serde_json::from_str(&text(post(&router, CHAT, &ask(&next)).await).await).unwrap();
    // The template, the first message and the answer but its last token were computed: 8 + 40 + 31 tokens are four
    // blocks.
    assert_eq!((cached(&answer), &answer["usage"]["prompt_tokens"]), (Some(64), &81.into()));

    // Nine blocks of 16 hold 144 tokens; the tenth is the null block.
    let long = format!("{next}, {next}");
    let refused = post(&router, CHAT, &ask(&long)).await;
    assert_eq!(refused.status(), 400);
    let refused = text(refused).await;
    assert!(refused.contains("maximum context length is 144 tokens"), "{refused}");

    // Without a prefix cache, the usage has no cached tokens.
    let router = server("preset = \"demo\"\nprefix-cache = false");
    for _ in 0..2 {
        let answer: Value =
            serde_json::from_str(&text(post(&router, CHAT, &ask(&user)).await).await).unwrap();
        assert_eq!(answer["usage"]["prompt_tokens_details"], Value::Null);
    }
    assert!(metric(&router, "vllm:prefix_cache_queries_total{").await.abs() < 1e-9);
}
