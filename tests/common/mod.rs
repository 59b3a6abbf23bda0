//! What the tests of the command line share: a simulated server with manners of its own, and plans that are over quickly.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "every test binary uses its own part")]

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use goodput::sim::config::Simulated;
use goodput::sim::router::router;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a server does that ours does not.
#[derive(Debug, Clone, Copy)]
pub enum Manner {
    /// Nothing: the plain simulated server.
    Plain,
    /// Keeps prompts in a prefix cache.
    Caches,
    /// Wants a key; answers 401 with the header it got in the body, as careless servers do.
    Locked,
    /// Forbids everything.
    Forbidden,
    /// Fails every request for tokens after the first so many.
    FailsAfter(usize),
    /// Refuses a body that holds any of these words, and names those that it holds.
    Refuses(&'static [&'static str]),
    /// Answers with three tokens, whatever was asked.
    ThreeTokens,
}

/// A server on a free port of 127.0.0.1, for as long as the process lives.
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
        Manner::Caches => "preset = \"demo\"",
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
        Manner::ThreeTokens if post => {
            let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
            json["max_tokens"] = 3.min(json["max_tokens"].as_u64().unwrap_or(3)).into();
            json.as_object_mut().unwrap().remove("min_tokens");
            next.run(again(json.to_string())).await
        }
        _ => next.run(again(text)).await,
    }
}

/// A plan against `server` (the lines of its `[server]` table), over in about two seconds.
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

/// The command under test, with no key in its environment.
pub fn goodput() -> assert_cmd::Command {
    let mut command = assert_cmd::Command::new(assert_cmd::cargo::cargo_bin!("goodput"));
    command.env_remove("OPENAI_API_KEY").timeout(std::time::Duration::from_secs(60));
    command
}

/// The steps of a run, by `result.json`.
pub fn result(dir: &Path) -> serde_json::Value {
    serde_json::from_str(&std::fs::read_to_string(dir.join("result.json")).unwrap()).unwrap()
}
