//! Workers on this machine, with a broker of their own: the rehearsal of a distributed sweep.

use super::bus::{BusAddress, Credentials};
use super::fleet::ConnectedBus;
use anyhow::{Context, Result, bail};
use goodput_load::launch::{Groups, Launch, Launched};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The broker's program.
const BROKER: &str = "nats-server";
/// Time that the broker may take to start.
const STARTED: Duration = Duration::from_secs(10);
/// Time that a worker and the broker have to end by themselves.
const GRACE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(20);
/// User of the broker.
const USER: &str = "goodput";

/// A broker and workers on this machine. They end when this is stopped or dropped, and soon after this process dies.
pub struct LocalWorkers {
    folder: PathBuf,
    broker: Launched,
    workers: Vec<Launched>,
    address: BusAddress,
    credentials: Credentials,
}

/// The file in which the broker tells its ports.
#[derive(Deserialize)]
struct Ports {
    nats: Vec<String>,
}

impl LocalWorkers {
    /// Starts a broker on a free port of 127.0.0.1, and `n` workers, which are `program`. Connecting to the bus and finding
    /// the workers is up to the caller.
    ///
    /// # Errors
    /// `nats-server` is not installed or does not start, or a worker cannot be started.
    pub async fn start(program: &Path, n: u32, groups: &Groups) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("goodput-workers-{:016x}", rand::random::<u64>()));
        private_folder(&folder)?;
        let started = Self::start_in(&folder, program, n, groups).await;
        if started.is_err() {
            // What is left of a failed start is of no use.
            let _ = std::fs::remove_dir_all(&folder);
        }
        started
    }

    async fn start_in(folder: &Path, program: &Path, n: u32, groups: &Groups) -> Result<Self> {
        // The broker takes a password that begins with a digit for a number.
        let password = format!("p{:016x}{:016x}", rand::random::<u64>(), rand::random::<u64>());
        let config = folder.join("nats.conf");
        std::fs::write(&config, configuration(folder, &password))
            .context("failed to write the broker's settings")?;
        let launch = |argv: Vec<String>, env: BTreeMap<String, String>, log: &str| Launch {
            argv,
            env,
            folder: None,
            log: folder.join(log),
            secrets: vec![password.clone()],
            serves: Vec::new(),
        };
        let argv = vec![BROKER.to_owned(), "-c".to_owned(), config.display().to_string()];
        let mut broker =
            launch(argv, BTreeMap::new(), "nats-server.log").start(groups).map_err(not_installed)?;
        let url = wait_for_port(&mut broker, folder).await?;
        let address = BusAddress { url, ca: None, insecure: false };
        let credentials = Credentials::Password(USER.into(), password.clone());
        let variables = credentials.variables().into_iter().map(|(name, value)| (name.to_owned(), value));
        let variables: BTreeMap<String, String> = variables.collect();
        let worker = |i: u32| {
            let argv = [
                program.display().to_string(),
                "worker".into(),
                format!("--bus={}", address.url),
                format!("--name=worker-{i}"),
                format!("--until-gone={}", std::process::id()),
                format!("--with={}", broker.id()),
            ];
            launch(argv.into(), variables.clone(), &format!("worker-{i}.log")).start(groups)
        };
        let workers = (1..=n).map(worker).collect::<Result<_>>()?;
        Ok(Self { folder: folder.to_owned(), broker, workers, address, credentials })
    }

    /// Connects to the bus of these workers.
    ///
    /// # Errors
    /// The broker has died.
    pub async fn connect(&self, name: &str) -> Result<ConnectedBus> {
        ConnectedBus::connect(&self.address, &self.credentials, name).await
    }

    /// Returns the last lines of the workers that have ended, to tell why.
    pub fn last_words(&mut self) -> Option<String> {
        let ended = self.workers.iter_mut().position(|worker| worker.exited().is_some())?;
        let log = self.folder.join(format!("worker-{}.log", ended + 1));
        let text = std::fs::read_to_string(log).unwrap_or_default();
        Some(text.lines().rev().take(3).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("\n"))
    }

    /// Ends the workers and the broker.
    ///
    /// # Errors
    /// A process is left.
    pub async fn stop(self) -> Result<()> {
        for worker in self.workers {
            worker.stop(GRACE).await?;
        }
        self.broker.stop(GRACE).await?;
        std::fs::remove_dir_all(&self.folder).context("failed to remove the folder of the workers' logs")
    }
}

/// Makes a folder that only this user can read.
fn private_folder(folder: &Path) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(folder)
        .with_context(|| format!("failed to make the folder {}", folder.display()))
}

/// Returns the broker's settings.
fn configuration(folder: &Path, password: &str) -> String {
    format!(
        "host: 127.0.0.1\nport: -1\nports_file_dir: {folder:?}\npid_file: {pid:?}\nauthorization {{ user: {USER}, password: {password:?} }}\n",
        folder = folder.display().to_string(),
        pid = folder.join("nats.pid").display().to_string(),
    )
}

fn not_installed(e: anyhow::Error) -> anyhow::Error {
    let io = e.root_cause().downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    if io == Some(std::io::ErrorKind::NotFound) {
        return anyhow::anyhow!(
            "--workers needs the broker {BROKER}, which is not installed here: apt install nats-server, brew install nats-server, or \
             the binary from https://nats.io. A broker that runs already is given by --bus"
        );
    }
    e.context(format!("failed to start {BROKER}"))
}

/// Waits until the broker has told its port, and returns its URL.
async fn wait_for_port(broker: &mut Launched, folder: &Path) -> Result<String> {
    let file = folder.join(format!("{BROKER}_{}.ports", broker.id()));
    let until = Instant::now() + STARTED;
    loop {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        if let Some(url) =
            serde_json::from_str::<Ports>(&text).ok().and_then(|ports| ports.nats.into_iter().next())
        {
            return Ok(url);
        }
        if let Some(status) = broker.exited() {
            bail!("{BROKER} ended at once ({status})");
        }
        if Instant::now() >= until {
            bail!("{BROKER} has not started within {} s", STARTED.as_secs());
        }
        sleep(LOOK).await;
    }
}
