//! Servers listen only on the loopback interface by default, and warn if configured otherwise.

use crate::common::Manner;
use crate::common::{plan, serve};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// Returns the output of a command up to the line that contains `until`, and then stops it.
fn said(arguments: &[&str], until: &str) -> String {
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("goodput"))
        .args(arguments)
        .env_remove("OPENAI_API_KEY")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    for line in BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok) {
        said += &format!("{line}\n");
        if line.contains(until) {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    said
}

/// Rows: arguments, the resulting address, and true if there is a warning.
#[test]
fn the_simulated_server_is_alone_with_this_machine() {
    // On systems other than Linux, the loopback interface has only one address.
    let other = if cfg!(target_os = "linux") { "127.0.0.2" } else { "127.0.0.1" };
    for (rest, at, warned) in [
        (&[][..], "http://127.0.0.1:", false),
        (&["--host", other], &format!("http://{other}:"), false),
        (&["--host", "0.0.0.0"], "http://0.0.0.0:", true),
        (&["--preset", "null", "--host", "0.0.0.0"], "http://0.0.0.0:", true),
    ] {
        let said = said(&[&["simulate", "--port", "0"], rest].concat(), "Ctrl-C");
        assert!(said.contains(at), "{rest:?}: {said}");
        let told = said.contains("anyone who can reach this address can use the server without a key");
        assert_eq!(told, warned, "{rest:?}: {said}");
    }
}

#[test]
fn the_metrics_of_a_sweep_are_too() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("url = \"http://{}\"", serve(Manner::Plain));
    let file = plan(dir.path(), &url, "rates = [20]");
    for (listen, warned) in [("127.0.0.1:0", false), ("0.0.0.0:0", true)] {
        let out = dir.path().join(listen);
        let arguments = ["sweep", file.to_str().unwrap(), "--listen", listen, "--out", out.to_str().unwrap()];
        // The warning precedes the address.
        let said = said(&arguments, "metrics of the sweep");
        assert_eq!(
            said.contains("can read the sweep's page and metrics, without a password"),
            warned,
            "{said}"
        );
    }
}
