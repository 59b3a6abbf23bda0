//! `simulate`: serves the simulated server on a port.

mod fault;

use crate::cli::SimulateArgs;
use crate::load::descriptors::Descriptors;
use crate::plan::reworded;
use crate::sim::config::{Preset, Simulated};
use crate::sim::null::{self, Listener};
use crate::sim::serve;
use anyhow::{Context, Result, anyhow, ensure};
use serde::de::DeserializeOwned;

/// Serves until Ctrl-C.
pub(crate) fn simulate(args: &SimulateArgs) -> Result<()> {
    Descriptors::raise();
    let faulty = !args.fault.is_empty();
    if args.preset.parse() == Ok(Preset::Null) && !faulty {
        return null(args);
    }
    ensure!(args.unix.is_none(), "--unix works only with the preset null and without --fault: use --port");
    let mut settings = table(&args.set)?;
    fault::add(&mut settings, &args.fault)?;
    let sim = read(&args.preset, settings)?;
    // Checked before the server logs that it listens.
    sim.check_startup().map_err(anyhow::Error::msg)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("failed to start a runtime")?;
    runtime.block_on(async {
        let listener = listen(args, &sim)?;
        serve::serve(&sim, listener, interrupted()).await
    })
}

/// Serves the null server on one thread, which leaves the other cores to the client.
fn null(args: &SimulateArgs) -> Result<()> {
    let settings = null_settings(&args.set)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("failed to start a runtime")?;
    runtime.block_on(async {
        let listener = match &args.unix {
            None => Listener::Tcp(listen(args, &settings)?),
            Some(path) => {
                let listener = tokio::net::UnixListener::bind(path)
                    .with_context(|| format!("failed to listen on {}", path.display()))?;
                tracing::info!("{settings} on unix:{} (Ctrl-C stops it)", path.display());
                Listener::Unix(listener)
            }
        };
        null::serve(settings, listener, interrupted()).await;
        if let Some(path) = &args.unix {
            std::fs::remove_file(path).with_context(|| format!("failed to remove {}", path.display()))?;
        }
        Ok(())
    })
}

/// Listens on the port and logs the address.
fn listen(args: &SimulateArgs, what: &impl std::fmt::Display) -> Result<tokio::net::TcpListener> {
    let listener = serve::listen((args.host, args.port).into()).with_context(|| {
        format!("failed to listen on {}:{}: choose another port if this one is in use", args.host, args.port)
    })?;
    let address = listener.local_addr().context("the socket has no address")?;
    if !args.host.is_loopback() {
        tracing::warn!(
            "warning: listening on {address}: anyone who can reach this address can use the server without a key; --host 127.0.0.1, the \
             default, limits it to this machine"
        );
    }
    tracing::info!("{what} on http://{address}/v1 (Ctrl-C stops it)");
    Ok(listener)
}

/// Waits for Ctrl-C.
async fn interrupted() {
    // If no handler can be installed, the default action ends the process, which serves as well.
    let _ = tokio::signal::ctrl_c().await;
}

/// Parses the settings of the null server, which over a socket also has delays.
fn null_settings(sets: &[String]) -> Result<null::Settings> {
    let text = table(sets)?.to_string();
    let settings: null::Settings = parse(&text)?;
    ensure!(!settings.model.trim().is_empty(), "model is empty");
    Ok(settings)
}

/// Parses a preset with its settings.
fn read(preset: &str, mut table: toml::Table) -> Result<Simulated> {
    table.insert("preset".into(), preset.into());
    parse(&table.to_string())
}

fn table(sets: &[String]) -> Result<toml::Table> {
    let mut table = toml::Table::new();
    for set in sets {
        crate::plan::apply_set(&mut table, set)?;
    }
    ensure!(!table.contains_key("preset"), "--set preset: choose the preset with --preset");
    Ok(table)
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T> {
    toml::from_str(text).map_err(|e| match key(text, &e) {
        Some(key) => anyhow!("{key}: {}", reworded(e.message())),
        None => anyhow!("{}", reworded(e.message())),
    })
}

/// Returns the key whose value is wrong; `None` if the error is not in the value of one key.
fn key<'a>(text: &'a str, error: &toml::de::Error) -> Option<&'a str> {
    let start = error.span()?.start;
    let line = text.get(..start)?.rsplit('\n').next()?;
    line.split_once('=').map(|(key, _)| key.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_key() {
        for (sets, message) in [
            (&["max-num-seqs=0"][..], "max-num-seqs: a whole number from 1 to 4294967295, got 0"),
            (
                &["kv-blocks=99", "max-num-batched-tokens=many"],
                "max-num-batched-tokens: a whole number from 1 to 4294967295 is needed, not the text \"many\"",
            ),
            (&["prefix-cache=on"], "prefix-cache: true or false is needed, not the text \"on\""),
            (&["seed=-1"], "seed: "),
            (&["seats=1"], "unknown key `seats`"),
            (&["model="], "model is empty"),
            (&["preset=md1"], "choose the preset with --preset"),
            (&["service=1ms"], "the preset \"demo\" does not use service"),
            (&["max-num-seqs"], "write key=value"),
        ] {
            let sets: Vec<String> = sets.iter().map(|s| (*s).to_owned()).collect();
            let error = format!("{:#}", table(&sets).and_then(|t| read("demo", t)).unwrap_err());
            assert!(
                error.starts_with(message) || (!message.contains(':') && error.contains(message)),
                "{sets:?}: {error}"
            );
        }
        assert!(read("md2", toml::Table::new()).unwrap_err().to_string().starts_with("preset: "));
        let sim = read("demo", table(&["max-num-seqs=3".into(), "model=\"m\"".into()]).unwrap()).unwrap();
        assert_eq!((sim.to_string().as_str(), sim.model.as_str()), ("simulated demo (max-num-seqs 3)", "m"));
    }

    #[test]
    fn the_null_server_has_settings_of_its_own() {
        let sets = ["first=20ms", "gap=5ms", "max-model-len=4096"].map(str::to_owned);
        let settings = null_settings(&sets).unwrap();
        assert_eq!(settings.to_string(), "simulated null (first 20ms, gap 5ms, max-model-len 4096)");
        assert_eq!(null_settings(&[]).unwrap(), null::Settings::default());
        for (set, message) in [
            ("first=soon", "first: "),
            ("ttft=20ms", "unknown key `ttft`"),
            ("model=", "model is empty"),
            ("max-model-len=0", "max-model-len: "),
            ("preset=md1", "--set preset"),
        ] {
            let error = format!("{:#}", null_settings(&[set.to_owned()]).unwrap_err());
            assert!(error.starts_with(message), "{set}: {error}");
        }
    }
}
