//! The rights of leader and workers on the bus: the same in the manifests, in the script for Slurm and in the documentation, and held by a
//! real broker where `nats-server` is installed.

use crate::{BASE, SLURM, read, root};
use clap::Parser;
use goodput::cli::Cli;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// The subjects of a user.
#[derive(Debug, Default, PartialEq)]
struct Rights {
    publish: Vec<String>,
    subscribe: Vec<String>,
}

/// Returns what stands between marks of this kind.
fn marked(line: &str, mark: char) -> Vec<String> {
    line.split(mark).skip(1).step_by(2).map(str::to_owned).collect()
}

/// Returns the rights of each user in a configuration of the broker.
fn configured(config: &str) -> BTreeMap<String, Rights> {
    let mut users: BTreeMap<String, Rights> = BTreeMap::new();
    let mut user = String::new();
    for line in config.lines() {
        match line.trim().split_once(": ") {
            Some(("user", name)) => user = marked(name, '"').remove(0),
            Some(("publish", subjects)) => {
                users.entry(user.clone()).or_default().publish = marked(subjects, '"');
            }
            Some(("subscribe", subjects)) => {
                users.entry(user.clone()).or_default().subscribe = marked(subjects, '"');
            }
            _ => {}
        }
    }
    users
}

/// Returns the rights in the table of the documentation: `| leader | publishes | subscribes |`.
fn documented() -> BTreeMap<String, Rights> {
    let page = read("docs/scale-out.md");
    let rows = page.lines().filter_map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [user @ ("leader" | "worker"), publish, subscribe] = cells[..] else { return None };
        Some((user.to_owned(), Rights { publish: marked(publish, '`'), subscribe: marked(subscribe, '`') }))
    });
    rows.collect()
}

#[test]
fn rights_are_those_of_the_documentation() {
    let documented = documented();
    assert_eq!(documented.len(), 2, "{documented:?}");
    for file in [&format!("{BASE}/nats.conf"), SLURM] {
        assert_eq!(configured(&read(file)), documented, "{file}");
    }
}

#[test]
fn the_script_for_slurm_runs_what_the_command_takes() {
    let parses = Command::new("bash").arg("-n").arg(root().join(SLURM)).output().unwrap();
    assert!(parses.status.success(), "{}", String::from_utf8_lossy(&parses.stderr));
    let script = read(SLURM).replace("\\\n", " ");
    let mut commands = Vec::new();
    for line in script.lines().filter(|line| !line.starts_with('#')) {
        let Some(at) = ["goodput sweep ", "goodput worker "].iter().find_map(|command| line.find(*command))
        else {
            continue;
        };
        let mut command = line[at..].trim_end_matches(" &").replace('"', "");
        for (variable, value) in [
            ("$plan", "plan.toml"),
            ("$host", "node1"),
            ("$port", "4222"),
            ("$dir", "/tmp"),
            ("$workers", "16"),
        ] {
            command = command.replace(variable, value);
        }
        let words: Vec<&str> = command.split_whitespace().collect();
        if let Err(e) = Cli::try_parse_from(&words) {
            panic!("{command}: {e}");
        }
        commands.push(words[1].to_owned());
    }
    assert_eq!(commands, ["worker", "sweep"]);
}

/// A broker that is killed with the test.
struct Broker(Child);

impl Drop for Broker {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Returns the command with the configuration of the manifests, and the passwords of the tests in its environment.
fn nats_server() -> Command {
    let mut command = Command::new("nats-server");
    command.arg("--config").arg(root().join(BASE).join("nats.conf")).stdout(Stdio::null());
    command.env("LEADER_PASSWORD", "of-leader").env("WORKER_PASSWORD", "of-worker");
    command
}

/// Returns true if there is a broker to test with.
fn is_installed() -> bool {
    Command::new("nats-server").arg("--version").output().is_ok()
}

#[test]
fn the_broker_accepts_the_configuration() {
    if !is_installed() {
        eprintln!("no nats-server: the configuration of the bus was not checked by it");
        return;
    }
    let tls = root().join("tests/fixtures/tls");
    let mut command = nats_server();
    command.arg("-t").arg("--tls");
    command.arg("--tlscert").arg(tls.join("server.pem")).arg("--tlskey").arg(tls.join("server.key"));
    let out = command.output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

/// Starts a broker without TLS, and returns it with its address.
fn start() -> (Broker, String) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let mut command = nats_server();
    command.args(["--addr", "127.0.0.1", "--port", &port.to_string()]).stderr(Stdio::null());
    let broker = Broker(command.spawn().unwrap());
    for _ in 0..200 {
        if TcpStream::connect(&address).is_ok() {
            return (broker, address);
        }
        sleep(Duration::from_millis(50));
    }
    panic!("the broker does not listen");
}

/// Sends one line of the protocol as this user, and returns what the broker objects to.
fn objection(address: &str, user: &str, password: &str, line: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let credentials = serde_json::json!({ "verbose": false, "user": user, "pass": password });
    write!(stream, "CONNECT {credentials}\r\n{line}PING\r\n").unwrap();
    for answer in BufReader::new(stream).lines() {
        let answer = answer.unwrap();
        if answer.starts_with("-ERR") {
            return Some(answer);
        }
        if answer == "PONG" {
            return None;
        }
    }
    panic!("the broker closed the connection of {user}");
}

#[test]
fn a_broker_holds_leader_and_workers_to_their_rights() {
    if !is_installed() {
        eprintln!("no nats-server: the configuration of the bus was not checked by it");
        return;
    }
    let (_broker, address) = start();
    for (user, allowed, denied) in [
        (
            "leader",
            ["PUB goodput.w.x 0\r\n\r\n", "PUB $SRV.INFO.goodput-worker 0\r\n\r\n", "SUB _INBOX.a.* 1\r\n"],
            ["PUB _INBOX.a.1 0\r\n\r\n", "SUB goodput.w.* 1\r\n", "SUB $SRV.> 1\r\n", "SUB > 1\r\n"],
        ),
        (
            "worker",
            ["PUB _INBOX.a.1 0\r\n\r\n", "SUB goodput.w.x 1\r\n", "SUB $SRV.PING.goodput-worker 1\r\n"],
            ["PUB goodput.w.x 0\r\n\r\n", "PUB $SRV.PING 0\r\n\r\n", "SUB _INBOX.> 1\r\n", "SUB > 1\r\n"],
        ),
    ] {
        let password = format!("of-{user}");
        for line in allowed {
            assert_eq!(objection(&address, user, &password, line), None, "{user}: {line}");
        }
        for line in denied {
            let objection = objection(&address, user, &password, line);
            assert!(objection.is_some_and(|e| e.contains("Permissions Violation")), "{user}: {line}");
        }
        let wrong = objection(&address, user, "wrong", "");
        assert!(wrong.is_some_and(|e| e.contains("Authorization Violation")), "{user}");
    }
}
