//! `--listen`: a running sweep shows itself to Prometheus, and no port stops it.

use crate::common::{Manner, goodput, loose, plan, result, serve};
use goodput::server::prometheus::samples;
use predicates::str::contains;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::tempdir;

/// Returns the sum of a metric over its labels; `None` if the page does not have it.
fn sum(text: &str, name: &str) -> Option<f64> {
    samples(text).filter(|s| s.name == name).map(|s| s.value).reduce(|a, b| a + b)
}

fn page(address: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

#[test]
fn a_running_sweep_shows_itself() {
    let dir = tempdir().unwrap();
    let url = format!("url = \"http://{}\"", serve(Manner::Plain));
    let file = plan(dir.path(), &url, "rates = [50, 60]");
    loose(&file);
    // Long enough that the second one is seen; it is ended then.
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("measure = \"1s\"", "measure = \"4s\"")).unwrap();
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
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let line = said.find(|l| l.contains("metrics of the sweep: ")).unwrap();
    let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
    let drain = std::thread::spawn(move || said.count());
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
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drain.join().unwrap();
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
