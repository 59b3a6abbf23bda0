//! Redirects are not followed: only the server of the plan receives requests.

use super::serve::{Request, answer, http, model};
use crate::common::{goodput, plan, result};
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use std::fs;

const KEY: &str = "sk-for-one-server-only";

#[test]
fn another_host_is_sent_nothing_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let (other, others) = http(model);
    // Before the measurement: every request is redirected.
    let to = format!("location: http://user:{KEY}@{other}/v1/models?key={KEY}\r\n");
    // On the same host the path is shown, here with the key in other letters.
    let here = format!("location: /{}\r\n", KEY.to_uppercase());
    let (address, _) = http(move |_: &Request| answer("307 Temporary Redirect", &here, "moved"));
    let file =
        plan(dir.path(), &format!("url = \"http://{address}\"\napi-key-env = \"A_KEY\""), "rates = [20]");
    let masked = contains("redirects to /[API key]").and(contains(KEY.to_uppercase()).not());
    let out = dir.path().join("none");
    goodput().arg("sweep").arg(&file).arg("--out").arg(out).env("A_KEY", KEY).assert().code(1).stderr(masked);
    let (address, _) = http(move |_: &Request| answer("307 Temporary Redirect", &to, "moved"));
    let server = format!("url = \"http://{address}\"\napi-key-env = \"A_KEY\"");
    let file = plan(dir.path(), &server, "rates = [20]");
    let says = contains("HTTP 307")
        .and(contains(format!("redirects to http://{other}")))
        .and(contains("write that address into server.url"))
        .and(contains(KEY).not());
    let out = dir.path().join("run");
    goodput().arg("sweep").arg(&file).arg("--out").arg(&out).env("A_KEY", KEY).assert().code(1).stderr(says);
    assert!(others.lock().unwrap().is_empty(), "{others:?}");

    // During the measurement: only requests for tokens are redirected, and not the first of them.
    let to = format!("location: //{other}/?key={KEY}\r\n");
    let posts = std::sync::atomic::AtomicUsize::new(0);
    let (address, seen) = http(move |request: &Request| {
        let post = request.line().starts_with("POST");
        let nth = if post { posts.fetch_add(1, std::sync::atomic::Ordering::SeqCst) } else { 0 };
        if nth < 10 { model(request) } else { answer("302 Found", &to, "moved") }
    });
    let server = format!("url = \"http://{address}\"\napi-key-env = \"A_KEY\"\nwarmup-requests = 0");
    let text = fs::read_to_string(plan(dir.path(), &server, "rates = [30]")).unwrap();
    fs::write(&file, text.replace("warmup-requests = 2\n", "")).unwrap();
    goodput()
        .arg("sweep")
        .arg(&file)
        .arg("--out")
        .arg(&out)
        .env("A_KEY", KEY)
        .assert()
        .code(predicates::ord::ne(1));
    let failures = fs::read_to_string(out.join("failures.csv")).unwrap();
    assert!(
        failures.contains("unexpected-status")
            && failures.contains(&format!("redirects to http://{other}, which is not followed")),
        "{failures}"
    );
    assert!(result(&out)["steps"][0]["failed"].as_u64() > Some(0));
    assert!(others.lock().unwrap().is_empty(), "{others:?}");
    assert!(seen.lock().unwrap().iter().all(|head| head.contains(KEY)), "the server of the plan has the key");
}
