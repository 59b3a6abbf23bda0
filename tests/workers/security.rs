//! Who may use the bus, and what crosses it.

use crate::common::goodput;
use crate::common::process::Process;
use crate::fleet::{Fleet, has_broker};
use goodput_cluster::about::about;
use goodput_cluster::bus::{Bus, BusAddress, Credentials};
use goodput_cluster::message::WorkerInfo;
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::time::Instant;

fn worker(arguments: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut command = Command::new(goodput().get_program());
    command.arg("worker").args(arguments).envs(variables.iter().copied());
    let out = command.stdin(Stdio::null()).output().unwrap();
    (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
}

#[test]
fn what_a_bus_refuses_is_told_at_once() {
    if !has_broker() {
        return;
    }
    let fleet = Fleet::start(0);
    let began = Instant::now();
    for (arguments, variables, words) in [
        (
            vec!["--bus", &fleet.url()],
            vec![("GOODPUT_BUS_USER", "goodput"), ("GOODPUT_BUS_PASSWORD", "wrong")],
            "refuses the credentials",
        ),
        (vec!["--bus", &fleet.url()], vec![], "refuses the credentials"),
        (vec!["--bus", &fleet.url()], vec![("GOODPUT_BUS_USER", "goodput")], "belong together"),
        (vec!["--bus", "nats://127.0.0.1:1"], vec![], "is nats-server running there?"),
        (vec!["--bus", "nats://192.0.2.1:4222"], vec![], "--insecure-bus"),
        (vec!["--bus", "nats://a:b@127.0.0.1:4222"], vec![], "GOODPUT_BUS_USER"),
        (vec!["--bus", &fleet.url(), "--bus-ca", "/nowhere.pem"], vec![], "no file /nowhere.pem"),
        (vec!["--bus", &fleet.url(), "--name", "a b"], vec![], "letters, digits"),
    ] {
        let (code, said) = worker(&arguments, &variables);
        assert_eq!(code, Some(1), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
        assert!(!said.contains("wrong"), "the password is told: {said}");
    }
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}

/// A worker of another version, and one of the same version with another binary.
#[test]
fn other_programs_are_refused_before_the_first_step() {
    if !has_broker() {
        return;
    }
    let fleet = Fleet::start(0);
    let address = BusAddress { url: fleet.url(), ca: None, insecure: false };
    let credentials = Credentials::Password("goodput".into(), "p4ss".into());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _offers = runtime.block_on(async {
        let bus = Bus::connect(&address, &credentials, "test").await.unwrap();
        let own = about(None, "0.0.1", None).unwrap();
        let old = WorkerInfo { id: "old".parse().unwrap(), ..own.clone() };
        let other =
            WorkerInfo { id: "other".parse().unwrap(), version: env!("CARGO_PKG_VERSION").into(), ..own };
        (bus.offer(&old).await.unwrap(), bus.offer(&other).await.unwrap(), bus)
    });
    let plan = fleet.plan("refused", "rates = [5]", 1);
    let out = fleet.command(&plan, "refused", (1, "1s")).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(
        said.contains("old: it is goodput 0.0.1") && said.contains("other: its program is another build"),
        "{said}"
    );
    assert!(!fleet.dir.path().join("refused").exists(), "nothing was measured");
}

#[test]
fn without_a_broker_the_sweep_says_what_to_install() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(goodput().get_program());
    command
        .args(["sweep", "demo", "--workers", "2", "--out"])
        .arg(dir.path().join("run"))
        .env("PATH", dir.path());
    let out = command.output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("apt install nats-server") && said.contains("--bus"), "{said}");
    assert!(!dir.path().join("run").exists());
}

/// The broker with TLS, by the test authority: trusted with `--bus-ca`, and by nothing else.
#[test]
fn the_bus_is_encrypted() {
    if !has_broker() {
        return;
    }
    let tls = |name: &str| format!("{}/tests/fixtures/tls/{name}", env!("CARGO_MANIFEST_DIR"));
    let port = crate::common::free_port();
    let mut command = Command::new("nats-server");
    command.args(["-a", "127.0.0.1", "-p", &port.to_string(), "--tls", "--tlscert", &tls("server.pem")]);
    command.args(["--tlskey", &tls("server.key")]).stdout(Stdio::null()).stderr(Stdio::null());
    let _broker = Process(command.spawn().unwrap());
    crate::common::wait_until("the broker listens", || {
        std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    let (code, said) = worker(&["--bus", &format!("tls://127.0.0.1:{port}")], &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("--bus-ca"), "{said}");
    let (url, ca) = (format!("tls://127.0.0.1:{port}"), tls("ca.pem"));
    let mut command = Command::new(goodput().get_program());
    command.args(["worker", "--bus", &url, "--bus-ca", &ca]).stderr(Stdio::null());
    let _worker = Process(command.spawn().unwrap());
    let (fleet, mut sweep) = (Fleet::start(0), Command::new(goodput().get_program()));
    let plan = fleet.plan("tls", "rates = [50]", 3);
    sweep.args(["sweep", "--no-charts"]).arg(&plan).arg("--out").arg(fleet.dir.path().join("run"));
    let out = sweep.args(["--bus", &url, "--bus-ca", &ca, "--expect", "1"]).output().unwrap();
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
}
