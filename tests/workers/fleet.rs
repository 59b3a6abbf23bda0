//! A broker, workers and a server for one test, all on 127.0.0.1.

use crate::common::process::Process;
use crate::common::{free_port, goodput, result, rows, until, wait_until};
use goodput::sim::config::Simulated;
use goodput::sim::serve::Embedded;
use serde_json::Value;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::Instant;

/// Longest time of one sweep of a test.
const LONGEST: Duration = Duration::from_secs(90);

/// Returns true if the broker is installed; says so if not.
pub(crate) fn has_broker() -> bool {
    let found = Command::new("nats-server").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !found {
        eprintln!("no nats-server: sweeps with workers were not tested");
    }
    found
}

/// The test's broker, server and workers.
pub(crate) struct Fleet {
    pub(crate) dir: TempDir,
    port: u16,
    pub(crate) broker: Process,
    pub(crate) workers: Vec<Process>,
    server: Embedded,
}

/// Returns the variables of the broker's user.
pub(crate) const USER: [(&str, &str); 2] =
    [("GOODPUT_BUS_USER", "goodput"), ("GOODPUT_BUS_PASSWORD", "p4ss")];

impl Fleet {
    /// Starts a broker, and `n` workers with it.
    pub(crate) fn start(n: usize) -> Self {
        let sim: Simulated =
            toml::from_str("preset = \"fixed\"\nttft = \"20ms\"\ntpot = \"2ms\"\nmodel = \"tiny\"").unwrap();
        let (dir, port) = (tempfile::tempdir().unwrap(), free_port());
        let broker = broker(dir.path(), port);
        let mut fleet =
            Self { dir, port, broker, workers: Vec::new(), server: Embedded::start(&sim).unwrap() };
        (1..=n).for_each(|i| fleet.add_worker(&format!("w{i}")));
        fleet
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Starts a worker.
    pub(crate) fn add_worker(&mut self, name: &str) {
        let mut command = Command::new(goodput().get_program());
        let log = fs::File::create(self.dir.path().join(format!("{name}.log"))).unwrap();
        command.args(["worker", "--bus", &self.url(), "--name", name]).envs(USER).stderr(log);
        self.workers.push(Process(command.stdout(Stdio::null()).spawn().unwrap()));
        let log = self.dir.path().join(format!("{name}.log"));
        wait_until("the worker is there", || fs::read_to_string(&log).unwrap().contains("waits for sweeps"));
    }

    /// Starts the broker again, on the same port.
    pub(crate) fn restart_broker(&mut self) {
        self.broker = broker(self.dir.path(), self.port);
    }

    /// Writes a plan at these levels: `rate` requests per second of 20 tokens for `measure` seconds, after one of settling.
    pub(crate) fn plan(&self, name: &str, search: &str, measure: u32) -> PathBuf {
        let path = self.dir.path().join(format!("{name}.toml"));
        let url = &self.server.url;
        let text = format!(
            "name = \"{name}\"\nseed = 7\n[server]\nurl = \"{url}\"\nwarmup-requests = 0\n[slo]\ne2e.p50 = \"5s\"\n\
             [workload.prompts.synthetic]\ninput-tokens = {{ uniform = {{ min = 4, max = 40 }} }}\n\
             output-tokens = {{ uniform = {{ min = 2, max = 20 }} }}\n[step]\nsettle = \"1s\"\nmeasure = \"{measure}s\"\n\
             min-requests = 1\ndrain = \"5s\"\n[client]\nmax-lateness = 0.5\nmax-receive-lag = 0.5\n[search]\n{search}\n"
        );
        fs::write(&path, text).unwrap();
        path
    }

    /// Returns the command of a sweep with `n` of the workers, for which it waits as long as this.
    pub(crate) fn command(&self, plan: &Path, run: &str, (n, wait): (usize, &str)) -> Command {
        let mut command = Command::new(goodput().get_program());
        command.args(["sweep", "--no-charts"]).arg(plan).arg("--out").arg(self.dir.path().join(run));
        command.args(["--bus", &self.url(), "--expect", &n.to_string(), "--wait", wait]).envs(USER);
        command.env_remove("OPENAI_API_KEY");
        command
    }

    /// Starts a sweep with `n` of the workers.
    pub(crate) fn begin(&self, plan: &Path, run: &str, n: usize) -> Sweep {
        let mut command = self.command(plan, run, (n, "20s"));
        let log = self.dir.path().join(format!("{run}.log"));
        let child = command.stdout(Stdio::null()).stderr(fs::File::create(&log).unwrap()).spawn().unwrap();
        Sweep { process: Process(child), run: self.dir.path().join(run), log }
    }
}

fn broker(dir: &Path, port: u16) -> Process {
    let log = fs::File::create(dir.join("nats.log")).unwrap();
    let mut command = Command::new("nats-server");
    command.args(["-a", "127.0.0.1", "-p", &port.to_string(), "--user", USER[0].1, "--pass", USER[1].1]);
    let child = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
    let began = Instant::now();
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(began.elapsed() < Duration::from_secs(20), "the broker has not started");
        std::thread::sleep(Duration::from_millis(10));
    }
    Process(child)
}

/// A sweep that runs.
pub(crate) struct Sweep {
    pub(crate) process: Process,
    pub(crate) run: PathBuf,
    pub(crate) log: PathBuf,
}

impl Sweep {
    /// Waits until so many requests are in the run folder: a step is in its middle.
    pub(crate) fn wait_for(&mut self, requests: usize) {
        let (run, log) = (self.run.clone(), self.log.clone());
        let written = || fs::read_to_string(run.join("requests.csv")).unwrap_or_default().lines().count();
        let what = format!("requests are written; {}", fs::read_to_string(log).unwrap_or_default());
        until(&mut self.process.0, &what, || written() > requests);
    }

    /// Waits for the end. Returns the exit code and what the sweep said.
    pub(crate) fn end(mut self) -> Ended {
        let began = Instant::now();
        let code = loop {
            if let Some(status) = self.process.0.try_wait().unwrap() {
                break status.code();
            }
            assert!(began.elapsed() < LONGEST, "{}", fs::read_to_string(&self.log).unwrap());
            std::thread::sleep(Duration::from_millis(20));
        };
        Ended { code, said: fs::read_to_string(&self.log).unwrap(), run: self.run.clone() }
    }
}

/// A sweep that has ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) said: String,
    pub(crate) run: PathBuf,
}

impl Ended {
    pub(crate) fn steps(&self) -> Vec<Value> {
        result(&self.run)["steps"].as_array().unwrap().clone()
    }

    /// Returns the rows of a file of the run folder.
    pub(crate) fn rows(&self, file: &str) -> Vec<HashMap<String, String>> {
        rows(&self.run.join(file))
    }

    /// Checks that the measured requests of a step add up, in the step's row and in `requests.csv`.
    pub(crate) fn check_counts(&self, step: &Value) {
        let count = |column: &str| step[column].as_u64().unwrap();
        assert_eq!(count("due_n"), count("completed") + count("failed") + count("cut"), "{step}");
        let number = step["step"].to_string();
        let own = self
            .rows("requests.csv")
            .iter()
            .filter(|r| r["step"] == number && r["phase"] == "measure")
            .count();
        assert_eq!(own as u64, count("due_n"), "a row each: {step}");
    }
}
