//! `--listen`: a running sweep shows itself to Prometheus and to whoever watches its page, and no port stops it.

use crate::common::{Manner, address_said, goodput, loose, plan, result, serve};
use goodput::server::prometheus::samples;
use goodput::stats::step::Verdict;
use predicates::str::contains;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;
use tempfile::tempdir;

/// Sends a request that names a host, and returns the whole answer.
fn ask(address: &str, host: &str, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

/// Returns the sum of a metric over its labels; `None` if the page does not have it.
fn sum(text: &str, name: &str) -> Option<f64> {
    samples(text).filter(|s| s.name == name).map(|s| s.value).reduce(|a, b| a + b)
}

fn page(address: &str) -> std::io::Result<String> {
    ask(address, address, "/metrics")
}

/// A name that would be a script in a page that did not escape it.
const HOSTILE: &str = "<script>alert(1)</script>";

/// Reads the events of a sweep.
struct Events(BufReader<TcpStream>);

impl Events {
    fn open(address: &str) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET /events HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
        Self(BufReader::new(stream))
    }

    /// Returns the name and the data of the next event; `None` at the end of the stream.
    fn next(&mut self) -> Option<(String, Value)> {
        let mut name = String::new();
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).is_ok_and(|n| n == 0) {
                return None;
            }
            if let Some(event) = line.strip_prefix("event: ") {
                name = event.trim().to_owned();
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Some((name, serde_json::from_str(data).unwrap()));
            }
        }
    }
}

/// The page runs only its own script, is for this machine alone, and has no text of the sweep in it.
fn is_guarded(address: &str) {
    let page = ask(address, address, "/").unwrap();
    let (head, body) = page.split_once("\r\n\r\n").unwrap();
    let head = head.to_lowercase();
    for part in [
        "200 ok",
        "default-src 'none'; script-src 'sha256-",
        "connect-src 'self'",
        "frame-ancestors 'none'",
        "nosniff",
    ] {
        assert!(head.contains(part), "{part}: {head}");
    }
    assert!(body.contains("new EventSource(") && !body.contains("alert(1)"), "texts arrive as data");
    for path in ["/", "/events", "/report.html"] {
        let answer = ask(address, "rebound.example", path).unwrap();
        assert!(answer.starts_with("HTTP/1.1 403"), "{path}: {answer}");
    }
    assert!(
        ask(address, "localhost:80", "/report.html").unwrap().starts_with("HTTP/1.1 404"),
        "not written yet"
    );
    assert!(ask(address, address, "/../etc/passwd").unwrap().starts_with("HTTP/1.1 404"));
}

/// Reads the events of a connection that is made in the second step: everything first, then the running step alone, and the report at the end.
fn watch(address: &str) -> JoinHandle<String> {
    let (mut events, address) = (Events::open(address), address.to_owned());
    let (name, state) = events.next().unwrap();
    assert_eq!((name.as_str(), &state["name"]), ("state", &HOSTILE.into()), "{state}");
    assert_eq!(state["limits"][0]["limit"], "ttft.p50", "{state}");
    let steps = state["steps"].as_array().unwrap();
    assert_eq!((steps.len(), &steps[0]["level"]), (1, &50.0.into()), "{state}");
    assert!(Verdict::ALL.iter().any(|v| steps[0]["verdict"] == v.name()), "{state}");
    assert!(steps[0]["limits"][0]["ms"].as_f64().is_some_and(|ms| ms > 0.0), "{state}");
    assert_eq!((&state["running"]["step"], &state["phase"]), (&2.into(), &"step".into()), "{state}");
    assert_eq!(
        (&state["estimates"][0]["step"], &state["estimates"][0]["rate"]),
        (&1.into(), &50.0.into()),
        "{state}"
    );
    assert!(state["words"]["headline"].as_str().is_some_and(|h| h.contains("50")), "{state}");
    let (name, now) = events.next().unwrap();
    assert!(
        name == "now" && now["running"]["elapsed_s"].as_f64() > Some(0.0) && now["steps"].is_null(),
        "{now}"
    );
    assert_eq!(now["running"]["misses"][0]["limit"], "ttft.p50", "{now}");
    std::thread::spawn(move || {
        while let Some((_, event)) = events.next() {
            if event["phase"] == "report" {
                return ask(&address, &address, "/report.html").unwrap();
            }
        }
        "the stream ended without a report".into()
    })
}

#[test]
fn a_running_sweep_shows_itself() {
    let dir = tempdir().unwrap();
    let url = format!("url = \"http://{}\"", serve(Manner::Plain));
    let file = plan(dir.path(), &url, "rates = [50, 60]");
    loose(&file);
    // Long enough that the second one is seen; it is ended then.
    let text = std::fs::read_to_string(&file).unwrap();
    let name = format!("name = \"{HOSTILE}\"");
    std::fs::write(
        &file,
        // Reports have the p50, and four seconds of requests tell it.
        text.replace("measure = \"1s\"", "measure = \"4s\"")
            .replace("p10", "p50")
            .replace("name = \"test\"", &name),
    )
    .unwrap();
    let out = dir.path().join("run");
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("goodput"))
        .args(["sweep", "--no-charts"])
        .arg(file)
        .args(["--listen", "127.0.0.1:0", "--out"])
        .arg(&out)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (address, drain) = address_said(&mut child, "metrics of the sweep: ");
    // Until the second step runs: what the first one came to is on the page then.
    let mut looks = 0;
    let text = loop {
        let text = page(&address).unwrap_or_default();
        if sum(&text, "goodput_step") == Some(2.0) && sum(&text, "goodput_in_flight").is_some() {
            break text;
        }
        looks += 1;
        assert!(looks < 3_000, "the second step is never shown: {text}");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(text.starts_with("HTTP/1.1 200") && text.contains("openmetrics-text"), "{text}");
    assert_eq!(sum(&text, "goodput_level"), Some(60.0), "{text}");
    assert_eq!(sum(&text, "goodput_steps_total"), Some(1.0), "{text}");
    assert!(sum(&text, "goodput_ttft_seconds_count") > Some(20.0), "{text}");
    is_guarded(&address);
    // Who connects later, or again after a cut, gets everything.
    drop(watch(&address));
    let watching = watch(&address);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drain.join().unwrap();
    let report = watching.join().unwrap();
    assert!(
        report.starts_with("HTTP/1.1 200") && report.contains("<h1>") && !report.contains(HOSTILE),
        "{report}"
    );
    assert!(TcpStream::connect(&address).is_err(), "nothing listens after the sweep");
    assert_eq!(result(&out)["steps"].as_array().map(Vec::len), Some(2));
}

#[test]
fn an_address_that_is_taken_is_named_before_anything_is_sent() {
    let dir = tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let out = dir.path().join("run");
    let mut command = goodput();
    command.args(["sweep", "--no-charts", "demo", "--listen", &address, "--out"]).arg(&out);
    command.assert().code(1).stderr(contains(format!("--listen {address}: cannot listen there")));
    assert!(!out.exists());
}
