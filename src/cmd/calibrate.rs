//! `calibrate`: measures the accuracy and the maximum load of this machine's client.

use crate::calibrate::{self, Calibration, Servers};
use crate::cli::CalibrateArgs;
use crate::client::Proxy;
use crate::cmd::consent::{self, LoadTarget};
use crate::cmd::sweep::INTERRUPTED;
use crate::cmd::{pretty, print_result, warn_if_unprinted};
use crate::load::ClientLimits;
use crate::load::host::machine;
use crate::report::sections::calibration;
use crate::rundir;
use anyhow::{Context, Result, anyhow};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Time that the concurrency test keeps each stream open; longer than it takes to open all of them.
const STREAM_HOLD: Duration = Duration::from_secs(10);

/// Calibrates the client, prints the figures and saves them if asked to.
pub(crate) fn calibrate(args: &CalibrateArgs) -> Result<ExitCode> {
    if let Some(path) = &args.save {
        check_writable(path)?;
    }
    let (servers, _running) = servers(args.url.as_deref(), args.yes)?;
    let limits = ClientLimits { threads: args.threads, ..ClientLimits::default() };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("failed to start a runtime")?;
    let interrupt = CancellationToken::new();
    let measured = runtime.block_on(async {
        // Handles SIGTERM too: the null servers are killed only if this process exits normally.
        let mut term = signal(SignalKind::terminate()).context("failed to watch for SIGTERM")?;
        let stop = interrupt.clone();
        tokio::spawn(async move {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = term.recv() => {}
            }
            stop.cancel();
        });
        calibrate::calibrate(&servers, &limits, &interrupt, |what| tracing::info!("{what} …")).await
    });
    if interrupt.is_cancelled() {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    let measured = measured?;
    if let Some(path) = &args.save {
        rundir::replace(path, pretty(&measured)?.as_bytes())?;
        tracing::info!("saved; use it with: goodput sweep … --calibration {}", path.display());
    }
    let printed = print_result(args.json, &measured, || calibration::brief(&measured));
    match &args.save {
        Some(_) => warn_if_unprinted(printed),
        None => printed?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Checks that a file can be written before minutes of measurement. Leaves no empty file behind.
fn check_writable(path: &Path) -> Result<()> {
    let existed = path.exists();
    let opened = std::fs::File::options().append(true).create(true).open(path);
    opened.with_context(|| format!("failed to write {}", path.display()))?;
    if !existed {
        std::fs::remove_file(path).with_context(|| format!("failed to remove {}", path.display()))?;
    }
    Ok(())
}

/// Reads a calibration file, and warns if it is from another machine.
///
/// # Errors
/// The file cannot be read or is not a calibration.
pub(crate) fn read(path: &Path) -> Result<Calibration> {
    let text = std::fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?;
    let calibration: Calibration = serde_json::from_str(&text).map_err(|e| {
        anyhow!(
            "{} is not a calibration file: write one with `goodput calibrate --save {0}` ({e})",
            path.display()
        )
    })?;
    if calibration.host != machine() {
        tracing::warn!(
            "warning: {} was measured on another machine ({}; this one is {}): calibrate this machine with `goodput calibrate --save`",
            path.display(),
            calibration.host,
            machine()
        );
    }
    Ok(calibration)
}

/// A null server process, killed on drop.
struct NullServer(Child);

impl Drop for NullServer {
    fn drop(&mut self) {
        // Fails only if the process has already exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the servers to measure against: the one at `url`, or three null servers, each in its own process with its own file descriptors.
fn servers(url: Option<&str>, yes: bool) -> Result<(Servers, Vec<NullServer>)> {
    if let Some(url) = url {
        let base: crate::client::BaseUrl = url.parse().map_err(|e| anyhow!("--url: {e}"))?;
        let load = "as many requests as this machine can send".to_owned();
        consent::ask_for(&[LoadTarget { url: base.clone(), proxy: Proxy::default(), load }], yes)?;
        let servers = Servers { instant: base.clone(), paced: base, held: None, foreign: true };
        return Ok((servers, Vec::new()));
    }
    let mut running = Vec::new();
    let mut start = |sets: &[&str]| -> Result<crate::client::BaseUrl> {
        let (child, url) = null_server(sets)?;
        running.push(child);
        url.parse().map_err(anyhow::Error::msg)
    };
    let instant = start(&[])?;
    let paced = start(&["first=20ms", "gap=2ms"])?;
    let held = start(&[&format!("first={}s", STREAM_HOLD.as_secs())])?;
    Ok((Servers { instant, paced, held: Some((held, STREAM_HOLD)), foreign: false }, running))
}

/// Starts this program as a null server on a free port, and waits until it logs its URL.
fn null_server(sets: &[&str]) -> Result<(NullServer, String)> {
    let program =
        std::env::current_exe().context("failed to find the goodput binary to start a null server")?;
    let mut command = Command::new(program);
    command.args(["simulate", "--preset", "null", "--port", "0"]);
    for set in sets {
        command.args(["--set", set]);
    }
    let child = command
        .env("GOODPUT_LOG", "goodput=info")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("failed to start the null server")?;
    let mut server = NullServer(child);
    let log = server.0.stderr.take().context("the null server has no standard error")?;
    let mut first_line = String::new();
    BufReader::new(log).read_line(&mut first_line).context("failed to read the log of the null server")?;
    let url = first_line.split_whitespace().find(|word| word.starts_with("http://"));
    let url = url.ok_or_else(|| anyhow!("the null server did not start: {}", first_line.trim()))?.to_owned();
    Ok((server, url))
}
