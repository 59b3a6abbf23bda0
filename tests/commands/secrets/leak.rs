//! Whole commands with an API key against servers that echo it wherever they can; all output is searched for it.

use super::serve::{Request, answer, http, stream};
use crate::common::{free_port, goodput, plan, result};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// A key with all characters that JSON, HTML and URLs escape.
const KEY: &str = "sk-s3cr3t/K+ey=q&12345<x>\"z'";

/// Returns the encodings in which a server may write a secret, except base64.
fn ways(secret: &str) -> Vec<String> {
    let json = serde_json::Value::from(secret).to_string();
    let html = |quote: &str, apostrophe: &str| {
        let text = secret.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        text.replace('"', quote).replace('\'', apostrophe)
    };
    let percent = |upper: bool| {
        secret.bytes().fold(String::new(), |out, b| match b {
            b if b.is_ascii_alphanumeric() || b"-._~".contains(&b) => out + &char::from(b).to_string(),
            b if upper => out + &format!("%{b:02X}"),
            b => out + &format!("%{b:02x}"),
        })
    };
    let each = |escape: fn(char) -> String| secret.chars().map(escape).collect::<String>();
    vec![
        secret.to_owned(),
        secret.to_lowercase(),
        secret.to_uppercase(),
        each(|c| format!("&#{};", u32::from(c))),
        each(|c| format!("&#x{:x};", u32::from(c))),
        each(|c| format!("%{:02X}", u32::from(c))),
        each(|c| format!("\\u{:04x}", u32::from(c))),
        json.trim_matches('"').to_owned(),
        html("&quot;", "&#x27;"),
        html("&#34;", "&#39;"),
        html("\"", "'"),
        percent(true),
        percent(false),
        secret.bytes().map(|b| format!("{b:02x}")).collect(),
    ]
}

/// Returns all encodings in which a secret could appear in output.
fn forms(secret: &str) -> Vec<String> {
    // The base64 form depends on the offset of the secret modulo 3: for each offset, the letters that depend only on
    // the secret.
    let base64 = |before: usize| {
        let text = STANDARD_NO_PAD.encode(["x".repeat(before).as_bytes(), secret.as_bytes()].concat());
        text[if before == 0 { 0 } else { before + 1 }..text.len() - 1].to_owned()
    };
    let mut all = ways(secret);
    all.extend((0..3).map(base64));
    all.extend((0..3).map(base64).map(|text| text.replace('+', "-").replace('/', "_")));
    // CSV doubles quotes.
    let doubled: Vec<String> = all.iter().map(|form| form.replace('"', "\"\"")).collect();
    all.extend(doubled);
    all.sort();
    all.dedup();
    all
}

/// Returns every file below a folder.
pub(super) fn everything(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(everything(&path));
        } else {
            all.push((path.display().to_string(), fs::read(&path).unwrap()));
        }
    }
    all
}

/// Checks that a piece of output has a secret in none of its encodings.
pub(super) fn lacks(secret: &str, name: &str, bytes: &[u8]) {
    for form in forms(secret) {
        if let Some(at) = memchr::memmem::find(bytes, form.as_bytes()) {
            let around = String::from_utf8_lossy(&bytes[at.saturating_sub(120)..bytes.len().min(at + 120)]);
            panic!("{name} has {secret} as {form}:\n{around}");
        }
    }
}

fn search(name: &str, bytes: &[u8]) {
    lacks(KEY, name, bytes);
    let half = halves(KEY).0;
    assert!(memchr::memmem::find(bytes, half.as_bytes()).is_none(), "{name} has a half of the key");
}

/// Returns the key in two parts, as a stream may send it.
fn halves(key: &str) -> (&str, &str) {
    key.split_at(key.len() / 2)
}

/// Returns a stream that sends the key in two events.
fn in_events(key: &str) -> String {
    let (first, second) = halves(key);
    [first, second]
        .map(|part| {
            format!("data: {}\n\n", serde_json::json!({ "choices": [{ "delta": { "content": part } }] }))
        })
        .concat()
}

/// Returns a page with the key in the encodings that occur on pages.
fn page(key: &str) -> String {
    let within = ["", "Bearer ", "user:", "key="].map(|before| format!("{before}{key}"));
    let encoded =
        within.map(|text| format!("{}; {}", STANDARD.encode(&text), URL_SAFE.encode(format!("{text}\n"))));
    format!("<html>refused: {}{}; {}</html>", in_events(key), encoded.join("; "), ways(key).join("; "))
}

/// Returns an answer that echoes the received key, in a manner that depends on the number of the request.
fn echo(nth: usize, request: &Request) -> Vec<u8> {
    let key = request.header("authorization").and_then(|v| v.strip_prefix("Bearer ")).unwrap_or("no key");
    let json = serde_json::Value::from(key).to_string();
    let header =
        format!("x-echo: {key}\r\nset-cookie: session={key}\r\nserver-timing: ttft;dur=2;desc={json}\r\n");
    let as_json = format!("{header}content-type: application/json\r\n");
    if !request.line().starts_with("POST") {
        return match request.line().split('?').next().unwrap_or_default() {
            "GET /v1/models" => answer(
                "200 OK",
                &as_json,
                &format!("{{\"data\":[{{\"id\":{json},\"max_model_len\":4096}}]}}"),
            ),
            "GET /version" => answer("200 OK", &as_json, &format!("{{\"version\":{json}}}")),
            "GET /server_info" | "GET /get_server_info" => answer(
                "200 OK",
                &as_json,
                &format!(
                    "{{\"model_path\":{json},\"api_key\":{json},\"dtype\":{json},\"config\":\"quantization={key}\"}}"
                ),
            ),
            "GET /metrics" => {
                let label = key.replace('\\', "\\\\").replace('"', "\\\"");
                let text = format!(
                    "vllm:num_requests_running{{model_name=\"{label}\"}} 1\nvllm:num_requests_waiting{{model_name=\"{label}\"}} 0\n\
                     vllm:cache_config_info{{block_size=\"16\",cache_dtype=\"{label}\"}} 1\nown_gauge{{of=\"{label}\",plain=\"yes\"}} 7\n"
                );
                answer("200 OK", &header, &text)
            }
            _ => answer("404 Not Found", &header, &page(key)),
        };
    }
    let fields = format!("\"id\":{json},\"model\":{json},\"system_fingerprint\":{json},");
    // Requests before the load, and some of the load, get proper answers.
    match if nth < 8 { 0 } else { nth % 10 } {
        0 | 1 => stream(&fields, "\"stop\""),
        2 => stream(&fields, &json),
        3 => answer("500 Internal Server Error", &header, &page(key)),
        4 => answer("401 Unauthorized", &as_json, &format!("{{\"error\":{{\"message\":{json}}}}}")),
        5 => answer(
            "200 OK",
            &format!("{header}content-type: text/event-stream\r\n"),
            &format!("data: {{\"error\":{{\"message\":{json},\"code\":500}}}}\n\n"),
        ),
        6 => answer(
            "307 Temporary Redirect",
            &format!("{header}location: http://127.0.0.1:9/{}\r\n", percent(key)),
            key,
        ),
        7 => answer(
            "200 OK",
            &format!("{header}content-type: text/event-stream\r\n"),
            &format!("data: {{\"oops\": {key}\n\n"),
        ),
        8 => answer("429 Too Many Requests", &header, &format!("{}{key}", "x".repeat(2040))),
        _ => answer("418 I'm a teapot", &header, &String::from_utf8_lossy(&request.body)),
    }
}

fn percent(key: &str) -> String {
    key.bytes().map(|b| format!("%{b:02X}")).collect()
}

/// Starts a server that echoes the key, and that answers nothing before the gate is open.
fn echoing(gate: &Arc<AtomicBool>) -> SocketAddr {
    let (posts, gate) = (AtomicUsize::new(0), gate.clone());
    let count = move |request: &Request| {
        let asked = tokio::time::Instant::now();
        while !gate.load(Ordering::SeqCst) && asked.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let post = request.line().starts_with("POST");
        echo(if post { posts.fetch_add(1, Ordering::SeqCst) } else { 0 }, request)
    };
    http(count).0
}

/// Runs a command with the key in its environment, and searches its output.
fn run(command: &mut assert_cmd::Command) -> Output {
    let out = command.env("A_KEY", KEY).output().unwrap();
    search("standard output", &out.stdout);
    search("standard error", &out.stderr);
    out
}

/// Runs a sweep and inspects its live metrics and arguments. The gate of its server opens after the metrics were read.
fn watched(file: &Path, out: &Path, gate: &Arc<AtomicBool>) {
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("goodput"))
        .arg("sweep")
        .arg(file)
        .args(["--listen", "127.0.0.1:0", "--out"])
        .arg(out)
        .env("A_KEY", KEY)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let mut said = String::new();
    let address = lines.by_ref().find_map(|line| {
        said += &line;
        Some(line.split("metrics of the sweep: http://").nth(1)?.split('/').next()?.to_owned())
    });
    let address = address.unwrap();
    if let Ok(arguments) = fs::read(format!("/proc/{}/cmdline", child.id())) {
        search("its arguments", &arguments);
    }
    let (over, open) = (Arc::new(AtomicBool::new(false)), gate.clone());
    let ended = over.clone();
    let pages = std::thread::spawn(move || {
        let mut all = Vec::new();
        while !ended.load(Ordering::SeqCst) {
            if let Ok(mut stream) = TcpStream::connect(&address) {
                stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
                let _ = write!(stream, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
                let _ = stream.read_to_end(&mut all);
                open.store(true, Ordering::SeqCst);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        all
    });
    lines.for_each(|line| said += &line);
    let mut stdout = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut stdout).unwrap();
    child.wait().unwrap();
    over.store(true, Ordering::SeqCst);
    let pages = pages.join().unwrap();
    assert!(memchr::memmem::find(&pages, b"goodput_").is_some(), "the page was read");
    for (name, bytes) in
        [("its metrics", &pages), ("standard error", &said.into_bytes()), ("standard output", &stdout)]
    {
        search(name, bytes);
    }
}

#[test]
fn no_byte_that_is_written_has_the_key() {
    let dir = tempfile::tempdir().unwrap();
    let runs = dir.path().join("runs");
    let out = |name: &str| runs.join(name);
    let (open, gate) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)));
    let url = |rest: &str, gate: &Arc<AtomicBool>| {
        format!("url = \"http://{}\"\nmetrics-interval = \"100ms\"\n{rest}", echoing(gate))
    };
    let extra = |address: SocketAddr| {
        format!(
            "rates = [40, 60]\n[[metrics]]\nurl = \"http://{address}/metrics\"\nname = \"own\"\nseries = [\"own_gauge\"]"
        )
    };
    // The key from a variable, with a page of metrics on another host that contains it as well, and with all log levels
    // on.
    let (elsewhere, _) = http(|_| answer("200 OK", "", &format!("own_gauge{{of={KEY:?}}} 3\n")));
    let from_env = plan(dir.path(), &url("api-key-env = \"A_KEY\"", &open), &extra(elsewhere));
    run(goodput().arg("check").arg(&from_env));
    run(goodput().arg("check").arg(&from_env).arg("--json"));
    let sweep =
        run(goodput().arg("sweep").arg(&from_env).arg("--out").arg(out("env")).env("GOODPUT_LOG", "trace"));
    let said = String::from_utf8_lossy(&sweep.stderr).into_owned();
    assert!(sweep.status.code() != Some(1), "{}", &said[said.len().saturating_sub(2000)..]);
    // The key from a file, with live metrics.
    let file = dir.path().join("key.txt");
    fs::write(&file, format!("{KEY}\n")).unwrap();
    let from_file = plan(dir.path(), &url(&format!("api-key-file = {file:?}"), &gate), "rates = [40]");
    watched(&from_file, &out("file"), &gate);
    // Outputs made from the run folders.
    for rest in [vec![], vec!["--json"]] {
        run(goodput().arg("report").arg(out("env")).args(rest));
    }
    run(goodput()
        .arg("compare")
        .arg(out("env"))
        .arg(out("file"))
        .arg("--force")
        .arg("--out")
        .arg(out("compared")));
    run(goodput().args(["capacity", "--daily-volume", "1M"]).arg(out("env")));
    run(goodput().arg("sweep").arg("--resume").arg(out("file")));
    let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/peers/vllm");
    run(goodput().arg("import").arg(peers).arg("--out").arg(out("imported")));

    let written = everything(&runs);
    assert!(written.len() > 40, "{} files", written.len());
    for (name, bytes) in &written {
        search(name, bytes);
    }
    // Check that the key would have occurred without masking.
    let failures = fs::read_to_string(out("env").join("failures.csv")).unwrap();
    for kind in
        ["server-error", "unauthorized", "stream-error", "unexpected-status", "malformed", "rate-limited"]
    {
        assert!(failures.contains(kind), "{kind}: {failures}");
    }
    // The model is named like the key, so some occurrences are masked as parts of the request.
    assert!(failures.matches("[API key]").count() > 12, "{failures}");
    assert_eq!(result(&out("env"))["meta"]["model"], "[API key]");
    let requests = fs::read_to_string(out("env").join("requests.csv")).unwrap();
    assert!(requests.contains("[API key]"), "a finish reason");
    let metrics = fs::read_to_string(out("env").join("metrics.csv")).unwrap();
    assert!(metrics.contains("own_gauge") && metrics.contains("[API key]"), "{metrics}");
    // No file contains the request either: the 418 answer echoes the whole of it.
    let sent_back = failures.lines().find(|line| line.contains("418")).unwrap();
    assert!(sent_back.contains("[as sent]") && !sent_back.contains("messages"), "{sent_back}");
}

/// A started server receives the key, writes it into its log repeatedly, and finally dies.
#[test]
fn no_log_of_a_server_that_was_started_has_the_key() {
    let dir = tempfile::tempdir().unwrap();
    let port = free_port();
    let bin = assert_cmd::cargo::cargo_bin!("goodput").display().to_string();
    let says =
        "echo \"my key is $0, or $HANDED_OVER\"; printf %s \"Bearer $A_KEY\" | base64 | tr -d '\\n'; echo";
    let serves = format!("'{bin}' simulate --preset fixed --set ttft=5ms --set tpot=1ms --port {port}");
    let variant = |name: &str, script: &str| {
        format!(
            "[[variant]]\nname = \"{name}\"\ncommand = [\"sh\", \"-c\", '''{script}''', \"${{A_KEY}}\"]\nenv = {{ HANDED_OVER = \"${{A_KEY}}\" }}\n"
        )
    };
    let variants = [
        variant("sound", &format!("{says}; exec {serves}")),
        variant(
            "dies",
            &format!("{says}; {serves} & sleep 1; kill -9 $!; {says}; echo 'out of memory, said '$0; exit 7"),
        ),
        variant("never", &format!("{says}; exit 3")),
    ]
    .concat();
    let server = format!("url = \"http://127.0.0.1:{port}\"\napi-key-env = \"A_KEY\"");
    let file = plan(dir.path(), &server, &format!("rates = [20]\n{variants}"));
    let out = dir.path().join("run");
    let sweep = run(goodput().arg("sweep").arg(&file).arg("--out").arg(&out));
    let said = String::from_utf8_lossy(&sweep.stderr).into_owned();
    assert!(said.contains("never is not measured"), "{said}");
    run(goodput().arg("report").arg(&out));
    run(goodput().arg("check").arg(&file));
    for (name, bytes) in everything(&out) {
        search(&name, &bytes);
    }
    for log in ["sound", "dies", "never"] {
        let text = fs::read_to_string(out.join("logs").join(format!("{log}.log"))).unwrap();
        assert!(text.contains("my key is ****"), "{log}: {text}");
    }
}

/// Rows: an invalid line of the plan. Its value is not quoted, whether it is in a file or in `--set`.
#[test]
fn a_mistake_in_a_plan_quotes_no_secret() {
    let dir = tempfile::tempdir().unwrap();
    for line in [
        "api-key = \"hunter2hunter2\"",
        "api-key-env = \"hunter2hunter2/\"",
        "proxy = \"http://me:hunter2hunter2@proxy:1\"",
        "metrics-url = \"http://me:hunter2hunter2@gpu\"",
        "headers = { x-api-key = \"hunter2hunter2\" }",
        "tls = { client-key-password = \"hunter2hunter2\" }",
        "api-key-file = hunter2hunter2",
        "headers = { x-api-key = \"\"\"\nhunter2hunter2\nhunter2hunter2",
        "[[variant]]\nname = \"v\"\ncommand = [\"vllm\", \"--api-key\",\n\"hunter2hunter2\", 7]\n[variant.set]",
        "[[variant]]\nname = \"v\"\ncommand = [\"vllm\", \"--api-key\",\n\"hunter2hunter2\" 7]\n[variant.set]",
        "[[variant]]\nname = \"v\"\nenv = \"HF_TOKEN=hunter2hunter2\"\n[variant.set]",
    ] {
        let file = plan(dir.path(), &format!("url = \"http://127.0.0.1:1\"\n{line}"), "rates = [1]");
        for set in [vec![], vec!["--set", "seed=2"]] {
            let out = goodput().arg("check").arg(&file).args(&set).assert().code(1);
            let said = String::from_utf8_lossy(&out.get_output().stderr).into_owned();
            assert!(!said.contains("hunter2hunter2"), "{line} {set:?}: {said}");
        }
    }
}
