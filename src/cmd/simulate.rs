//! `simulate`: the simulated server on a port.

use crate::cli::SimulateArgs;
use crate::sim::config::Simulated;
use crate::sim::serve;
use anyhow::{Context, Result, anyhow, ensure};

/// Serves until interrupted.
pub(crate) fn simulate(args: &SimulateArgs) -> Result<()> {
    let sim = read(&args.preset, &args.set)?;
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

/// The server of a preset and what is set beside it.
fn read(preset: &str, sets: &[String]) -> Result<Simulated> {
    let mut table = toml::Table::new();
    for set in sets {
        crate::plan::apply_set(&mut table, set)?;
    }
    ensure!(!table.contains_key("preset"), "--set preset=…: choose the preset with --preset");
    table.insert("preset".into(), preset.into());
    let text = table.to_string();
    toml::from_str(&text).map_err(|e| match key(&text, &e) {
        Some(key) => anyhow!("{key}: {}", e.message()),
        None => anyhow!("{}", e.message()),
    })
}

/// The key whose value is wrong, where it is a single one that has a mistake.
fn key<'a>(text: &'a str, error: &toml::de::Error) -> Option<&'a str> {
    let start = error.span()?.start;
    let line = text.get(..start)?.rsplit('\n').next()?;
    line.split_once('=').map(|(key, _)| key.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_name_their_key() {
        for (sets, said) in [
            (&["max-num-seqs=0"][..], "max-num-seqs: a whole number from 1 to 4294967295, got 0"),
            (
                &["kv-blocks=99", "max-num-batched-tokens=many"],
                "max-num-batched-tokens: invalid type: string \"many\"",
            ),
            (&["prefix-cache=on"], "prefix-cache: invalid type: string \"on\", expected a boolean"),
            (&["seed=-1"], "seed: "),
            (&["seats=1"], "unknown field `seats`"),
            (&["model="], "model is empty"),
            (&["preset=md1"], "choose the preset with --preset"),
            (&["service=1ms"], "the preset \"demo\" has no use for service"),
            (&["max-num-seqs"], "write key=value"),
        ] {
            let sets: Vec<String> = sets.iter().map(|s| (*s).to_owned()).collect();
            let error = format!("{:#}", read("demo", &sets).unwrap_err());
            assert!(
                error.starts_with(said) || (!said.contains(':') && error.contains(said)),
                "{sets:?}: {error}"
            );
        }
        assert!(read("md2", &[]).unwrap_err().to_string().starts_with("preset: "));
        let sim = read("demo", &["max-num-seqs=3".into(), "model=\"m\"".into()]).unwrap();
        assert_eq!((sim.to_string().as_str(), sim.model.as_str()), ("simulated demo (max-num-seqs 3)", "m"));
    }
}
