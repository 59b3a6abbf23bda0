//! `view`: the index of a folder of runs, reports and comparisons, and nothing else of the disk.

use crate::common::process::Process;
use crate::common::{address_said, goodput};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::tempdir;

/// A `view` that is ended when it is dropped.
struct Viewed {
    _process: Process,
    address: String,
}

impl Viewed {
    fn start(dir: &Path) -> Self {
        let mut child = Command::new(assert_cmd::cargo::cargo_bin!("goodput"))
            .arg("view")
            .arg(dir)
            .args(["--listen", "127.0.0.1:0"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (address, _) = address_said(&mut child, "the runs of ");
        Self { _process: Process(child), address }
    }

    /// Returns the head, in small letters, and the body of an answer.
    fn get(&self, path: &str) -> (String, String) {
        self.ask(&self.address, path)
    }

    fn ask(&self, host: &str, path: &str) -> (String, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.to_lowercase(), body.to_owned())
    }
}

/// A short run in simulated time, whose server needs this long for a request.
fn run(dir: &Path, name: &str, service: &str) {
    let plan = dir.join("plan.toml");
    let text = format!(
        "name = \"<i>builds\"\nslo.ttft.p90 = \"200ms\"\n[server.simulated]\npreset = \"md1\"\nservice = \"{service}\"\n\
         [workload.prompts.synthetic]\ninput-tokens = {{ fixed = 40 }}\noutput-tokens = {{ fixed = 6 }}\n\
         [search]\nmax-rate = 100\nadaptive.budget = \"4m\"\n"
    );
    fs::write(&plan, text).unwrap();
    let mut sweep = goodput();
    sweep
        .arg("sweep")
        .arg(&plan)
        .args(["--no-charts", "--virtual-time", "--out"])
        .arg(dir.join("runs").join(name));
    sweep.assert().code(0);
}

#[test]
fn runs_are_listed_read_and_compared_and_nothing_else_is_served() {
    let dir = tempdir().unwrap();
    run(dir.path(), "a", "50ms");
    run(dir.path(), "b & c", "20ms");
    let (runs, secret) = (dir.path().join("runs"), dir.path().join("secret"));
    // Links lead out of the folder: one to a run, one in the place of a report, one to any file.
    fs::rename(runs.join("b & c"), &secret).unwrap();
    symlink(&secret, runs.join("linked")).unwrap();
    run(dir.path(), "b & c", "20ms");
    fs::create_dir(runs.join("bad")).unwrap();
    fs::copy(runs.join("a/plan.toml"), runs.join("bad/plan.toml")).unwrap();
    fs::write(runs.join("bad/result.json"), "{").unwrap();
    symlink(secret.join("report.html"), runs.join("bad/report.html")).unwrap();
    symlink("/etc/passwd", runs.join("passwd")).unwrap();
    let viewed = Viewed::start(&runs);

    let (head, index) = viewed.get("/");
    assert!(head.contains("200 ok") && head.contains("default-src 'none'; style-src"), "{head}");
    assert!(index.contains("href=\"/run/a\"") && index.contains("href=\"/run/b%20%26%20c\""), "{index}");
    assert!(!index.contains("linked") && !index.contains("passwd") && !index.contains("<i>"), "{index}");
    assert!(index.contains("do not overlap") && index.contains("<svg"), "the servers differ: {index}");

    let (head, report) = viewed.get("/run/b%20%26%20c");
    assert!(head.contains("200 ok") && head.contains("sandbox allow-scripts; default-src 'none'"), "{head}");
    assert_eq!(report, fs::read_to_string(runs.join("b & c/report.html")).unwrap());

    let (_, compared) = viewed.get("/compare?a=a&b=b+%26+c&force=true");
    assert!(compared.contains("goodput") && compared.contains("What differs"), "{compared}");
    let (head, same) = viewed.get("/compare?a=a&b=a");
    assert!(head.contains("422") && same.contains("two different runs"), "{same}");

    for path in [
        "/run/linked",
        "/run/../secret",
        "/run/%2e%2e/secret",
        "/run/a/%2e%2e/%2e%2e/secret",
        "/run/a/report.html",
        "/run/a/../../secret/report.html",
        "/run/%2Fetc%2Fpasswd",
        "/run//etc/passwd",
        "/run/passwd",
        "/run/a%00",
        "/compare?a=a&b=../secret",
        "/compare?a=a&b=linked",
        "/compare?a=a",
        "/plan.toml",
    ] {
        let (head, body) = viewed.get(path);
        assert!(head.starts_with("http/1.1 404"), "{path}: {head}\n{body}");
    }
    let (head, body) = viewed.get("/run/bad");
    assert!(head.starts_with("http/1.1 422") && body.contains("it is a link"), "{head}\n{body}");
    assert!(viewed.ask("rebound.example", "/").0.starts_with("http/1.1 403"));
}

#[test]
fn a_file_is_no_folder_of_runs() {
    let dir = tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    goodput().arg("view").arg(&file).assert().code(1).stderr(predicates::str::contains("is no folder"));
}
