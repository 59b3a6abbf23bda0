//! The processes of a fleet: broker, workers and server. And the memory and the CPU time of an idle worker.

use super::leader::Leader;
use super::print_row;
use super::process::Process;
use goodput_cluster::bus::{Bus, BusAddress, Credentials};
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The program that is measured.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_goodput");
/// Time for which an idle worker is watched.
const WATCHED: Duration = Duration::from_secs(10);
/// Units of CPU time in `/proc/PID/stat`, per second.
const TICKS_PER_S: f64 = 100.0;

impl Process {
    /// Returns a figure of `/proc/PID/status`.
    fn status(&self, name: &str) -> f64 {
        let text = fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// Returns the CPU time so far, in seconds.
    fn cpu(&self) -> f64 {
        cpu_fields(&self.0.id().to_string())[..2].iter().sum()
    }
}

/// Returns the CPU time of a process in seconds: user and system, its own and those of the children that it has waited for.
pub(crate) fn cpu_fields(process: &str) -> [f64; 4] {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // After the name, which may contain spaces.
    let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
    std::array::from_fn(|i| fields[11 + i].parse::<f64>().unwrap() / TICKS_PER_S)
}

/// A broker on a free port.
pub(crate) struct Broker {
    pub(crate) address: BusAddress,
    _process: Process,
}

impl Broker {
    pub(crate) fn start(tls: bool) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let file = |name: &str| format!("{}/tests/fixtures/tls/{name}", env!("CARGO_MANIFEST_DIR"));
        let mut command = Command::new("nats-server");
        command
            .args(["-a", "127.0.0.1", "-p", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if tls {
            command.args(["--tls", "--tlscert", &file("server.pem"), "--tlskey", &file("server.key")]);
        }
        let process = Process(command.spawn().unwrap());
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            std::thread::sleep(Duration::from_millis(10));
        }
        let (scheme, ca) = if tls { ("tls", Some(file("ca.pem").into())) } else { ("nats", None) };
        let address = BusAddress { url: format!("{scheme}://127.0.0.1:{port}"), ca, insecure: false };
        Self { address, _process: process }
    }

    pub(crate) async fn connect(&self) -> Bus {
        Bus::connect(&self.address, &Credentials::None, "bench").await.unwrap()
    }

    /// Starts a worker, and waits until it can be found.
    pub(crate) fn worker(&self, name: &str) -> Process {
        let mut command = Command::new(PROGRAM);
        command.args(["worker", "--bus", &self.address.url, "--name", name]);
        started(command, "waits for sweeps").0
    }
}

/// Starts the null server in a process. Returns its URL.
pub(crate) fn null_server() -> (Process, String) {
    let mut command = Command::new(PROGRAM);
    command.args(["simulate", "--preset", "null", "--port", "0"]);
    let (process, line) = started(command, "http://");
    let url = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap();
    (process, url.trim_end_matches(['/', '.', ',']).trim_end_matches("/v1").to_owned())
}

/// Starts a process and waits for a line of its standard error. Returns that line.
fn started(mut command: Command, words: &str) -> (Process, String) {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let process = Process(child);
    let found = lines.by_ref().find(|line| line.contains(words)).unwrap();
    // What it says later must not block it.
    std::thread::spawn(move || lines.for_each(drop));
    (process, found)
}

/// Measures an idle worker, before its first load and after one.
pub(crate) fn idle() {
    let broker = Broker::start(false);
    let worker = broker.worker("w1");
    watch(&worker, "new worker");
    let mut leader = Leader::start(&broker, 1);
    leader.fire(2_000.0, Duration::from_secs(5));
    drop(leader);
    watch(&worker, "worker after 10,000 requests and the end of its leader");
}

fn watch(worker: &Process, which: &str) {
    // The lease of a leader ends within 5 s.
    std::thread::sleep(Duration::from_secs(6));
    let before = worker.cpu();
    std::thread::sleep(WATCHED);
    let cpu = worker.cpu() - before;
    print_row(&format!("{which}: memory"), "MB", vec![worker.status("VmRSS") * 1024.0 / 1e6]);
    print_row(&format!("{which}: threads"), "", vec![worker.status("Threads")]);
    print_row(&format!("{which}: CPU time in 10 s"), "s", vec![cpu]);
}
