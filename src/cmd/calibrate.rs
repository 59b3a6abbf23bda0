//! `calibrate`: what this machine's client can do.

use crate::calibrate::{self, Calibration, Servers};
use crate::cli::CalibrateArgs;
use crate::client::Proxy;
use crate::cmd::sweep::INTERRUPTED;
use crate::cmd::{consent, say};
use crate::load::host::machine;
use crate::load::own::OwnLimits;
use crate::report::calibration;
use crate::rundir;
use anyhow::{Context, Result, anyhow};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// How long the streams that are to be open at once are held: longer than it takes to open them all.
const HELD: Duration = Duration::from_secs(10);

/// Measures, prints, and keeps what is asked for.
pub(crate) fn calibrate(args: &CalibrateArgs) -> Result<ExitCode> {
    if let Some(path) = &args.save {
        check_writable(path)?;
    }
    let (servers, _running) = servers(args.url.as_deref(), args.yes)?;
    let own = OwnLimits { threads: args.threads, ..OwnLimits::default() };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("failed to start a runtime")?;
    let interrupt = CancellationToken::new();
    let measured = runtime.block_on(async {
        // By SIGTERM as well: the servers that were started end with this process only if it ends in order.
        let mut term = signal(SignalKind::terminate()).context("failed to watch for SIGTERM")?;
        let stop = interrupt.clone();
        tokio::spawn(async move {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = term.recv() => {}
            }
            stop.cancel();
        });
        calibrate::calibrate(&servers, &own, &interrupt, |what| tracing::info!("{what} …")).await
    });
    if interrupt.is_cancelled() {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    let measured = measured?;
    let json = serde_json::to_string_pretty(&measured).context("failed to write the figures as JSON")?;
    if let Some(path) = &args.save {
        rundir::replace(path, json.as_bytes())?;
        tracing::info!("kept in {}: goodput sweep … --calibration {0}", path.display());
    }
    say(&if args.json { json } else { calibration::table(&measured) })?;
    Ok(ExitCode::SUCCESS)
}

/// A file that cannot be written shall not be known only after minutes; a new one is not left behind empty.
fn check_writable(path: &Path) -> Result<()> {
    let there = path.exists();
    let opened = std::fs::File::options().append(true).create(true).open(path);
    opened.with_context(|| format!("failed to write {}", path.display()))?;
    if !there {
        std::fs::remove_file(path).with_context(|| format!("failed to remove {}", path.display()))?;
    }
    Ok(())
}

/// Reads what `--save` wrote, and says where it is not of this machine.
///
/// # Errors
/// The file cannot be read, or is no calibration.
pub(crate) fn read(path: &Path) -> Result<Calibration> {
    let text = std::fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?;
    let calibration: Calibration = serde_json::from_str(&text).map_err(|e| {
        anyhow!("{} is no calibration: {e}; make one with `goodput calibrate --save {0}`", path.display())
    })?;
    if calibration.host != machine() {
        tracing::warn!(
            "warning: {} was taken on another kind of machine ({}; this is {}): take one here with `goodput calibrate --save`",
            path.display(),
            calibration.host,
            machine()
        );
    }
    Ok(calibration)
}

/// A null server that ends with this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Gone already is as good.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The servers to measure against: the one that is named, or three of our own, each in a process with descriptors of its own.
fn servers(url: Option<&str>, yes: bool) -> Result<(Servers, Vec<Running>)> {
    if let Some(url) = url {
        let base: crate::client::BaseUrl = url.parse().map_err(|e| anyhow!("--url: {e}"))?;
        let most = "as many requests as this machine can send".to_owned();
        consent::of_urls(&[(base.clone(), Proxy::default(), most)], yes)?;
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
    let held = start(&[&format!("first={}s", HELD.as_secs())])?;
    Ok((Servers { instant, paced, held: Some((held, HELD)), foreign: false }, running))
}

/// Starts this program as a null server on a free port, and waits until it says where it listens.
fn null_server(sets: &[&str]) -> Result<(Running, String)> {
    let program =
        std::env::current_exe().context("failed to find this program, to start it as a null server")?;
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
    let mut running = Running(child);
    let said = running.0.stderr.take().context("the null server has no standard error")?;
    let mut first = String::new();
    BufReader::new(said).read_line(&mut first).context("the null server said nothing")?;
    let url = first.split_whitespace().find(|word| word.starts_with("http://"));
    let url = url.ok_or_else(|| anyhow!("the null server did not start: {}", first.trim()))?.to_owned();
    Ok((running, url))
}
