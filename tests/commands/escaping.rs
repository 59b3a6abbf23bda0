//! Escaping: texts with active content in every place of a plan, a server and a result that can hold a text. They must
//! be shown without taking effect.

use crate::common::{goodput, result};
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A text that, unescaped, would be a formula, an element, an attribute, a link, a table cell, code, colours, a line,
/// or reversed text.
const EVIL: &str = "=cmd|' /C calc'!A0 <script>alert(1)</script> \"onload=\"alert(2) ](javascript:alert(3)) [x](javascript:alert(3)) ``` `x` | <img src=x \
                    onerror=alert(4)> \u{1b}[31m\u{1b}]0;t\u{7} \u{9b}31m \u{202e}gpj.exe\r\n# head\n@SUM(1)\t{{7*7}} ${x} $(x) &lt;b&gt;";

/// Returns [`EVIL`] after a first character, which makes it another kind of formula.
fn evil(first: char) -> String {
    format!("{first}{EVIL}")
}

/// Returns the text as the name of a plan, which may have no control characters.
fn titled(first: char) -> String {
    quoted(&evil(first).replace(char::is_control, " "))
}

/// Quotes a key or a value for TOML, whose strings support all escapes of JSON.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

/// Starts a server with such texts everywhere in its answers. One request in four fails, each in a different manner.
fn serve() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let app = Router::new().fallback(move |request: Request| {
        let asked = asked.clone();
        async move { answer(&request, &asked) }
    });
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            axum::serve(tokio::net::TcpListener::from_std(listener).unwrap(), app).await.unwrap();
        });
    });
    address
}

fn answer(request: &Request, asked: &AtomicUsize) -> Response {
    let path = request.uri().path();
    if request.method() != Method::POST {
        return match path {
            "/v1/models" => {
                let model = serde_json::json!({"id": evil('+'), "owned_by": EVIL, "max_model_len": 4096});
                axum::Json(serde_json::json!({"object": "list", "data": [model]})).into_response()
            }
            "/version" | "/get_server_info" | "/info" | "/props" => {
                let said = serde_json::json!({"version": evil('='), "dtype": evil('='), "quantization": "<script>alert(5)</script>"});
                axum::Json(said).into_response()
            }
            "/metrics" => metrics().into_response(),
            _ => (StatusCode::NOT_FOUND, EVIL).into_response(),
        };
    }
    let n = asked.fetch_add(1, Ordering::SeqCst);
    let header = |response: Response| {
        let mut response = response;
        response.headers_mut().insert("server", "<script>alert(6)</script>".parse().unwrap());
        response
    };
    header(match n % 12 {
        3 => (StatusCode::BAD_REQUEST, axum::Json(serde_json::json!({"error": {"message": evil('-')}})))
            .into_response(),
        7 => (StatusCode::INTERNAL_SERVER_ERROR, format!("<html>{EVIL}</html>")).into_response(),
        11 => (StatusCode::BAD_GATEWAY, evil('=')).into_response(),
        _ => stream(),
    })
}

fn metrics() -> String {
    let label = EVIL.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\r', "");
    format!(
        "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{{model_name=\"{label}\"}} 0\n\
         # TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{{model_name=\"{label}\"}} 0\n\
         vllm:cache_config_info{{block_size=\"=1+1\",cache_dtype=\"{label}\"}} 1\nevil{{a=\"{label}\"}} 3\n"
    )
}

fn stream() -> Response {
    let model = evil('@');
    let event = |delta: serde_json::Value, finish: Option<&str>| {
        let choice = serde_json::json!({"index": 0, "delta": delta, "finish_reason": finish});
        format!("data: {}\n\n", serde_json::json!({"id": EVIL, "model": model, "choices": [choice]}))
    };
    let usage = serde_json::json!({"prompt_tokens": 40, "completion_tokens": 2, "total_tokens": 42});
    let text = [
        event(serde_json::json!({"role": "assistant", "content": EVIL}), None),
        event(serde_json::json!({"content": EVIL}), Some(&evil('='))),
        format!("data: {}\n\ndata: [DONE]\n\n", serde_json::json!({"choices": [], "usage": usage})),
    ];
    let head = [("content-type", "text/event-stream"), ("x-evil", "=cmd|<script>")];
    (head, Body::from(text.concat())).into_response()
}

/// Writes a plan with such texts in every free-text key.
fn plan(dir: &Path, address: SocketAddr, name: &str, more: &str) -> PathBuf {
    let path = dir.join(format!("{name}.toml"));
    let text = format!(
        "name = {name}\nnotes = {notes}\n[server]\nurl = \"http://{address}\"\nmodel = {model}\nwarmup-requests = 0\n\
         headers = {{ x-evil = \"=1 <script>alert(7)</script>\" }}\n\
         [environment]\n{key} = {value}\n[hardware]\ngpu = {value}\ngpus = 1\nprice-per-hour = 1\ncurrency = {value}\n\
         [[check]]\nname = {check}\nregex = \"nothing of that kind\"\n\
         [[metrics]]\nname = {source}\nurl = \"http://{address}/metrics\"\nseries = [\"evil\"]\n\
         [step]\nsettle = \"100ms\"\nmeasure = \"600ms\"\ndrain = \"1s\"\n{more}",
        name = quoted(&evil('=')),
        notes = quoted(EVIL),
        model = quoted(&evil('+')),
        key = quoted(EVIL),
        value = quoted(&evil('-')),
        check = titled('@'),
        source = titled('+'),
    );
    fs::write(&path, text).unwrap();
    path
}

const PROMPTS: &str = "prompts.synthetic = { input-tokens = { fixed = 40 }, output-tokens = { fixed = 2 } }";

/// Returns the output of a command, after checking that it has no terminal control sequences.
fn said(out: &Output) -> String {
    let text = [&out.stdout[..], &out.stderr[..]].map(|b| String::from_utf8(b.to_vec()).unwrap()).concat();
    assert!(!text.contains("panicked"), "{text}");
    obeyed(&text, "what was said");
    text
}

fn obeyed(text: &str, place: &str) {
    let bad = text.chars().find(|c| (c.is_control() && !matches!(c, '\n' | '\t')) || *c == '\u{202e}');
    let around = bad.and_then(|c| text.lines().find(|line| line.contains(c)));
    assert!(bad.is_none(), "{place} holds {bad:?}: {around:?}");
}

fn sweep(plan: &Path, run: &Path) {
    let out = goodput().arg("sweep").arg(plan).arg("--out").arg(run).output().unwrap();
    let text = said(&out);
    assert!(matches!(out.status.code(), Some(0 | 2 | 3)), "{text}");
}

/// Checks every file below a folder and returns their number.
fn harmless(dir: &Path) -> usize {
    let mut seen = 0;
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            seen += harmless(&path);
            continue;
        }
        let place = path.display().to_string();
        let bytes = fs::read(&path).unwrap();
        seen += 1;
        // The other TOML files are the test's own.
        if path.ends_with("plan.toml") || path.extension().is_some_and(|e| e == "csv") {
            assert!(!String::from_utf8_lossy(&bytes).contains('\u{202e}'), "{place} holds reversed text");
        }
        match path.extension().and_then(|e| e.to_str()) {
            Some("png") => assert!(!bytes.windows(6).any(|w| w == b"script"), "{place}"),
            Some("csv") => no_formulas(&bytes, &place),
            Some("md") => plain_markdown(&String::from_utf8(bytes).unwrap(), &place),
            Some("html" | "svg") => plain_page(&String::from_utf8(bytes).unwrap(), &place),
            _ => assert!(!bytes.contains(&0x1b), "{place} holds an escape"),
        }
    }
    seen
}

fn no_formulas(bytes: &[u8], place: &str) {
    assert!(!bytes.contains(&0x1b), "{place} holds an escape");
    let mut reader = csv::ReaderBuilder::new().flexible(true).has_headers(false).from_reader(bytes);
    for record in reader.records() {
        for cell in &record.unwrap() {
            let formula =
                cell.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']) && cell.parse::<f64>().is_err();
            assert!(!formula, "{place}: {cell}");
        }
    }
}

/// Checks that Markdown has no HTML, headline or link from the texts.
fn plain_markdown(text: &str, place: &str) {
    obeyed(text, place);
    let mut fence: Option<&str> = None;
    for line in text.lines() {
        let ticks = &line[..line.len() - line.trim_start_matches('`').len()];
        match fence {
            Some(open) if line == open => fence = None,
            Some(_) => {}
            None if ticks.len() >= 3 => fence = Some(ticks),
            None => plain_line(line, place),
        }
    }
    assert_eq!(fence, None, "{place}: a fence stays open");
}

/// Checks that all active Markdown in a line outside fences is ours.
fn plain_line(line: &str, place: &str) {
    let headline = line.trim_start_matches('#').trim_start();
    assert!(!line.starts_with('#') || !headline.starts_with("head"), "{place} has a headline of theirs");
    let (mut in_code, mut escaped) = (false, false);
    for (i, c) in line.char_indices() {
        let rest = &line[i..];
        match c {
            _ if escaped => escaped = false,
            '\\' if !in_code => escaped = true,
            '`' => in_code = !in_code,
            // Followed by a space, it opens no tag.
            '<' if !in_code && !rest.starts_with("< ") => {
                let own = ["<details>", "</details>", "<summary>", "</summary>"];
                assert!(own.iter().any(|o| rest.starts_with(o)), "{place}: {rest}");
            }
            ']' if !in_code && rest.starts_with("](") => {
                let own = ["](charts/", "](compare-charts/", "](capacity-charts/"];
                assert!(own.iter().any(|o| rest.starts_with(o)), "{place}: {rest}");
            }
            _ => {}
        }
    }
    assert!(!in_code, "{place}: code stays open: {line}");
}

/// Checks that a page has every `<` and every quote of the texts as an entity.
fn plain_page(text: &str, place: &str) {
    obeyed(text, place);
    for bad in ["<script>alert", "<img src=x", "\"onload=", "href=\"javascript", "<b>"] {
        assert!(!text.contains(bad), "{place} holds {bad}");
    }
}

fn failures_are_told(run: &Path) {
    let failures = fs::read_to_string(run.join("failures.csv")).unwrap();
    // The model's name is one of these texts, and repetitions of the request are masked.
    let told = ["<html>[as sent]", "'=[as sent]", "@SUM(1)"].iter().all(|part| failures.contains(part));
    assert!(told, "what the server said is there: {failures}");
}

#[test]
fn texts_that_would_do_something_are_shown_and_do_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let address = serve();
    let at = |name: &str| dir.path().join(name);
    let class = |name: &str| format!("[[workload.class]]\nname = \"{name}\"\nweight = 1\n{PROMPTS}\n");
    let mix = plan(
        dir.path(),
        address,
        "mix",
        &format!(
            "[[slo]]\nname = {}\nttft.p90 = \"500ms\"\n[[slo]]\nname = {}\ne2e.p90 = \"2s\"\n{}{}[search]\nrates = [20, 40]\n",
            titled('='),
            titled('@'),
            class("-a"),
            class("b"),
        ),
    );
    let rows: String = ['=', '+']
        .iter()
        .map(|c| format!("[[row]]\nname = {}\nrate = 30\nexpect = \"decode\"\n", titled(*c)))
        .collect();
    let matrix = plan(
        dir.path(),
        address,
        "matrix",
        &format!("[workload]\n{PROMPTS}\n[slo]\nttft.p90 = \"500ms\"\n{rows}"),
    );
    said(&goodput().arg("check").arg(&mix).output().unwrap());
    sweep(&mix, &at("mix"));
    sweep(&mix, &at("again"));
    sweep(&matrix, &at("matrix"));
    for run in ["mix", "matrix"] {
        let before = result(&at(run));
        said(&goodput().arg("report").arg(at(run)).output().unwrap());
        assert_eq!(result(&at(run)), before, "the run reads back as it was written");
        let json = goodput().arg("report").arg(at(run)).arg("--json").output().unwrap();
        said(&json);
        assert_eq!(
            serde_json::from_slice::<serde_json::Value>(&json.stdout).unwrap(),
            before,
            "and is told as it was"
        );
    }
    failures_are_told(&at("mix"));
    let side = format!("{}#{}", at("mix").display(), evil('=').replace(char::is_control, " "));
    let compared = goodput()
        .arg("compare")
        .args([at("mix"), at("again")])
        .arg("--out")
        .arg(at("compared"))
        .arg("--summary")
        .arg(at("summary.md"))
        .output()
        .unwrap();
    assert!(said(&compared).contains("req/s") && at("summary.md").is_file());
    said(&goodput().args(["compare", &side]).arg(at("again")).output().unwrap());
    for args in [vec!["--rate", "100"], vec!["--rate", "100", "--explain"]] {
        let sized = goodput()
            .arg("capacity")
            .arg(at("mix"))
            .args(args)
            .arg("--out")
            .arg(at("capacity"))
            .output()
            .unwrap();
        said(&sized);
    }
    let seen = harmless(dir.path());
    assert!(seen > 60, "{seen} files");
}

/// An error in the first answer of a server ends the sweep and appears in the message on the terminal.
#[test]
fn an_error_of_the_server_is_told_without_what_a_terminal_obeys() {
    let dir = tempfile::tempdir().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        let app = Router::new().fallback(async || (StatusCode::UNAUTHORIZED, EVIL));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            axum::serve(tokio::net::TcpListener::from_std(listener).unwrap(), app).await.unwrap();
        });
    });
    let server = format!("url = \"http://{address}\"\nmodel = {}", quoted(&evil('=')));
    let plan = crate::common::plan(dir.path(), &server, "rates = [5]");
    let out = goodput().arg("sweep").arg(&plan).arg("--out").arg(dir.path().join("run")).output().unwrap();
    let text = said(&out);
    assert!(out.status.code() == Some(1) && text.contains("401") && text.contains("alert(1)"), "{text}");
}

/// Imports results of another tool with such texts.
#[test]
fn what_another_tool_wrote_is_no_better() {
    let dir = tempfile::tempdir().unwrap();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/peers/vllm/rate-2.5.json");
    let mut found: serde_json::Value = serde_json::from_slice(&fs::read(fixture).unwrap()).unwrap();
    found["model_id"] = evil('=').into();
    found["backend"] = evil('+').into();
    let failed = found["errors"].as_array_mut().unwrap();
    failed[0] = evil('-').into();
    let file = dir.path().join(format!("{}.json", EVIL.replace(['/', '\r', '\n', '\t'], "_")));
    fs::write(&file, found.to_string()).unwrap();
    let run = dir.path().join("run");
    let out = goodput()
        .arg("import")
        .arg(&file)
        .args(["--set", "slo.ttft.p99=300ms", "--out"])
        .arg(&run)
        .output()
        .unwrap();
    let text = said(&out);
    assert!(matches!(out.status.code(), Some(0 | 2 | 3)), "{text}");
    said(&goodput().arg("report").arg(&run).args(["--as", "vllm"]).output().unwrap());
    fs::remove_file(file).unwrap();
    assert!(harmless(&run) > 20);
}
