//! The description of this process, as a leader or as a worker.

use super::message::{PROTOCOL, WorkerId, WorkerInfo};
use anyhow::{Context, Result};
use goodput_load::load::descriptors::{Descriptors, ports};
use sha2::{Digest, Sha256};

/// Returns what this process is. `id` is its name; by default that of the machine and the process. `version` is that of
/// the program.
///
/// # Errors
/// The program cannot be read.
pub fn about(id: Option<WorkerId>, version: &str, max_rate: Option<u64>) -> Result<WorkerInfo> {
    let host = host();
    // A number that JSON holds exactly in every program.
    let unlimited = |limit: Option<u64>| limit.unwrap_or(u64::from(u32::MAX));
    Ok(WorkerInfo {
        id: id.unwrap_or_else(|| WorkerId::from_text(&format!("{host}-{}", std::process::id()))),
        incarnation: rand::random(),
        protocol: PROTOCOL,
        version: version.to_owned(),
        binary: binary()?,
        host,
        cores: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
        streams: unlimited(Descriptors::raise().soft),
        ports: ports().and_then(|n| u32::try_from(n).ok()).unwrap_or(u32::MAX),
        max_rate,
    })
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Returns the SHA-256 of the program of this process.
fn binary() -> Result<String> {
    let path = std::env::current_exe().context("the program of this process is not known")?;
    let bytes = std::fs::read(&path).with_context(|| format!("failed to read {}", path.display()))?;
    Ok(Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect())
}
