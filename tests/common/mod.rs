//! Shared helpers of the command-line tests: a simulated server with special behaviours, and short plans.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "every test binary uses its own part")]

pub(crate) mod process;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use goodput::sim::config::Simulated;
use goodput::sim::router::router;
use goodput_run::fixture::json_schema::Output;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::time::Instant;

/// A behaviour of the test server that the simulated server lacks.
#[derive(Debug, Clone, Copy)]
pub enum Manner {
    /// Nothing: the plain simulated server.
    Plain,
    /// Keeps prompts in a prefix cache.
    Caches,
    /// Requires an API key; otherwise answers 401 with the received header in the body, as careless servers do.
    Locked,
    /// Answers every request with 403.
    Forbidden,
    /// Fails every request for tokens after this number of them.
    FailsAfter(usize),
    /// Refuses a body that contains any of these words, and names those that it contains.
    Refuses(&'static [&'static str]),
    /// Always answers with three tokens.
    ThreeTokens,
    /// Never answers a request for tokens after this number of them.
    HangsAfter(usize),
    /// Keeps prompts in a prefix cache. Answers as many requests for tokens, and no further one until the number rises.
    HoldsAfter(&'static AtomicUsize),
}

/// Starts a server on a free port of 127.0.0.1, which runs until the process exits.
pub fn serve(manner: Manner) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            axum::serve(listener, app(manner)).await.unwrap();
        });
    });
    address
}

fn app(manner: Manner) -> Router {
    let engine = match manner {
        Manner::Caches | Manner::HoldsAfter(..) => "preset = \"demo\"",
        _ => "preset = \"fixed\"\nttft = \"5ms\"\ntpot = \"1ms\"",
    };
    let sim: Simulated = toml::from_str(&format!("{engine}\nmodel = \"tiny\"")).unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    router(&sim).layer(middleware::from_fn(move |request: Request, next: Next| {
        let asked = asked.clone();
        async move { answer(manner, &asked, request, next).await }
    }))
}

async fn answer(manner: Manner, asked: &AtomicUsize, request: Request, next: Next) -> Response {
    let post = request.method() == Method::POST;
    let nth = if post { asked.fetch_add(1, Ordering::SeqCst) } else { 0 };
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, 1 << 20).await.unwrap();
    let text = String::from_utf8_lossy(&body).into_owned();
    let again = |body: String| {
        let mut request = Request::from_parts(parts.clone(), Body::from(body.clone()));
        request.headers_mut().insert("content-length", body.len().into());
        request
    };
    match manner {
        Manner::Locked => {
            let got = parts
                .headers
                .get("authorization")
                .map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned());
            (StatusCode::UNAUTHORIZED, format!("bad credentials: {}", got.unwrap_or_default()))
                .into_response()
        }
        Manner::Forbidden => (StatusCode::FORBIDDEN, "no").into_response(),
        Manner::FailsAfter(n) if post && nth >= n => {
            (StatusCode::INTERNAL_SERVER_ERROR, "{\"error\":{\"message\":\"CUDA out of memory\"}}")
                .into_response()
        }
        Manner::Refuses(words) if post && words.iter().any(|w| text.contains(w)) => {
            let held: Vec<&str> = words.iter().copied().filter(|w| text.contains(w)).collect();
            let message =
                format!("{{\"error\":{{\"message\":\"not permitted: {}\",\"code\":400}}}}", held.join(", "));
            (StatusCode::BAD_REQUEST, message).into_response()
        }
        Manner::HangsAfter(n) if post && nth >= n => std::future::pending().await,
        Manner::HoldsAfter(answered) if post => {
            while nth >= answered.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            next.run(again(text)).await
        }
        Manner::ThreeTokens if post => {
            let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
            json["max_tokens"] = 3.min(json["max_tokens"].as_u64().unwrap_or(3)).into();
            json.as_object_mut().unwrap().remove("min_tokens");
            next.run(again(json.to_string())).await
        }
        _ => next.run(again(text)).await,
    }
}

/// Writes a plan for `server` (the lines of its `[server]` table) that takes about two seconds.
pub fn plan(dir: &Path, server: &str, search: &str) -> PathBuf {
    let path = dir.join("plan.toml");
    let text = format!(
        "name = \"test\"\n\n[server]\n{server}\nwarmup-requests = 2\n\n[slo]\nttft.p90 = \"100ms\"\n\n\
         [workload.prompts.synthetic]\ninput-tokens = {{ fixed = 40 }}\noutput-tokens = {{ fixed = 6 }}\n\n\
         [step]\nsettle = \"200ms\"\nmeasure = \"1s\"\ndrain = \"1s\"\n\n[search]\n{search}\n"
    );
    std::fs::write(&path, text).unwrap();
    path
}

/// Loosens the SLO of a plan, so that a machine that halts for seconds still meets it, and extends its drain. Few
/// requests show that a tenth of all meets a limit: a step is not measured again because the others were halted.
pub fn loose(path: &Path) {
    let mut text = std::fs::read_to_string(path).unwrap();
    for (was, is) in [("p90 = \"100ms\"", "p10 = \"30s\""), ("drain = \"1s\"", "drain = \"10m\"")] {
        assert!(text.contains(was), "{text}");
        text = text.replace(was, is);
    }
    std::fs::write(path, text).unwrap();
}

/// Returns a free port of 127.0.0.1 for a server that is started later. Avoids the ephemeral ports: in the meantime,
/// another test could get it for a client connection.
pub fn free_port() -> u16 {
    /// Lowest port to use: services are below it.
    const FIRST: u32 = 10_000;
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let clients = range.split_whitespace().next().and_then(|low| low.parse().ok()).unwrap_or(32_768);
    let is_free = |port: u16| std::net::TcpListener::bind(("127.0.0.1", port)).is_ok();
    // Each process starts in a different range, as far as there are enough.
    let own = std::process::id().wrapping_mul(64);
    let span = u32::saturating_sub(clients, FIRST);
    let next = || FIRST + own.wrapping_add(GIVEN.fetch_add(1, Ordering::SeqCst)) % span;
    let found = (0..span).find_map(|_| u16::try_from(next()).ok().filter(|port| is_free(*port)));
    // If the ephemeral range covers all ports, use any.
    found.unwrap_or_else(|| std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port())
}

/// Returns the command that sweeps the A40 within a budget, in simulated time and without charts.
pub fn a40_without_charts(budget: &str) -> assert_cmd::Command {
    let mut command = goodput();
    let budget = format!("search.adaptive.budget=\"{budget}\"");
    command.args(["sweep", "--no-charts", "a40-qwen3-0.6b", "--virtual-time", "--set", &budget]);
    command
}

/// Returns the command under test, without an API key in its environment.
pub fn goodput() -> assert_cmd::Command {
    let mut command = assert_cmd::Command::new(assert_cmd::cargo::cargo_bin!("goodput"));
    command.env_remove("OPENAI_API_KEY").timeout(std::time::Duration::from_secs(300));
    command
}

/// Reads the standard error of a process until a line that has this text and an URL. Returns the address in the URL, and a thread that reads
/// the rest, so that the process can go on writing.
pub fn address_said(child: &mut Child, text: &str) -> (String, JoinHandle<usize>) {
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let line = said.find(|line| line.contains(text)).unwrap();
    let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
    (address, std::thread::spawn(move || said.count()))
}

/// Timeout of a wait. The awaited events take seconds.
const NEVER: Duration = Duration::from_secs(600);

/// Waits until `holds` returns true.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < NEVER, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until `holds` returns true through the work of a process. Fails with its output if it exits first.
pub fn until(child: &mut Child, what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        let ended = child.try_wait().unwrap();
        // The process may have reached it just before its exit.
        if ended.is_some() && holds() {
            return;
        }
        if ended.is_some() || begun.elapsed() > NEVER {
            let _ = child.kill();
            let (mut out, mut err) = (String::new(), String::new());
            child.stdout.take().map(|mut pipe| pipe.read_to_string(&mut out));
            child.stderr.take().map(|mut pipe| pipe.read_to_string(&mut err));
            panic!("waited in vain until {what}: {ended:?}\n{out}\n{err}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sweeps a plan into `dir/run`, which must not end with an error, without charts. Returns the run folder and standard output.
pub fn sweep(dir: &Path, plan: &str, flags: &[&str]) -> (PathBuf, String) {
    sweep_with_charts(dir, plan, &[&["--no-charts"], flags].concat())
}

/// Sweeps a plan as [`sweep`] does, with charts, which take most of the time of a report.
pub fn sweep_with_charts(dir: &Path, plan: &str, flags: &[&str]) -> (PathBuf, String) {
    let (path, run) = (dir.join("plan.toml"), dir.join("run"));
    std::fs::write(&path, plan).unwrap();
    let mut command = goodput();
    let done = command.arg("sweep").arg(&path).arg("--out").arg(&run).args(flags).assert();
    let done = done.code(predicates::ord::ne(1));
    (run, String::from_utf8_lossy(&done.get_output().stdout).into_owned())
}

/// Sweeps a plan as [`sweep`] does, in simulated time.
pub fn simulate(dir: &Path, plan: &str) -> (PathBuf, String) {
    sweep(dir, plan, &["--virtual-time"])
}

/// Returns the rows of a CSV file by column.
pub fn rows(path: &Path) -> Vec<HashMap<String, String>> {
    csv::Reader::from_path(path).unwrap().deserialize().map(Result::unwrap).collect()
}

/// Returns the cells of a column of a CSV file.
pub fn column(path: &Path, name: &str) -> Vec<String> {
    rows(path).into_iter().map(|mut row| row.remove(name).unwrap()).collect()
}

/// Returns the parsed `result.json` of a run, which its JSON Schema describes in full.
pub fn result(dir: &Path) -> serde_json::Value {
    static SCHEMA: LazyLock<Output> = LazyLock::new(|| Output::new(&goodput::report::result::schema()));
    let result: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(dir.join("result.json")).unwrap()).unwrap();
    SCHEMA.check(&dir.display().to_string(), &result);
    result
}
