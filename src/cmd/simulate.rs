//! `simulate`: the simulated server on a port.

use crate::cli::SimulateArgs;
use crate::sim::config::Simulated;
use crate::sim::serve;
use anyhow::{Context, Result, anyhow};

/// Serves until interrupted.
pub(crate) fn simulate(args: &SimulateArgs) -> Result<()> {
    let mut table = toml::Table::new();
    table.insert("preset".into(), args.preset.clone().into());
    for set in &args.set {
        crate::plan::apply_set(&mut table, set)?;
    }
    let sim: Simulated = table
        .to_string()
        .parse::<toml::Table>()?
        .try_into()
        .map_err(|e: toml::de::Error| anyhow!("{}", e.message()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("failed to start a runtime")?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind((args.host, args.port)).await.with_context(|| {
            format!("failed to listen on {}:{}; is the port taken?", args.host, args.port)
        })?;
        let address = listener.local_addr().context("the socket has no address")?;
        if !args.host.is_loopback() {
            tracing::warn!(
                "warning: listening on {address}: anyone who reaches this machine can use the server"
            );
        }
        tracing::info!("{sim} on http://{address}/v1 (Ctrl-C stops it)");
        let stop = async {
            // Without a handler there is only the default: to end, which is what is wanted.
            let _ = tokio::signal::ctrl_c().await;
        };
        serve::serve(&sim, listener, stop).await
    })
}
