//! `--fault NAME=PROBABILITY`, parsed into the `fault` table of a simulated server.

use crate::sim::fault::Fault;
use anyhow::{Context, Result, anyhow, bail};

/// Name that stands for every fault.
const ALL: &str = "all";

/// Adds the faults of the command line to those of `--set`.
///
/// # Errors
/// A fault does not exist or is given twice, or its probability is not a number from 0 to 1.
pub(super) fn add(settings: &mut toml::Table, faults: &[String]) -> Result<()> {
    if faults.is_empty() {
        return Ok(());
    }
    let mut every = None;
    let mut named = toml::Table::new();
    for text in faults {
        let (name, p) =
            text.split_once('=').with_context(|| format!("--fault {text}: write NAME=PROBABILITY"))?;
        let p: f64 = p.parse().ok().filter(|p| (0.0..=1.0).contains(p)).with_context(|| {
            format!("--fault {text}: a probability is a number from 0 to 1, such as 0.02")
        })?;
        let twice = if name == ALL {
            every.replace(p).is_some()
        } else {
            let fault: Fault = name.parse().map_err(|e: String| anyhow!("--fault: {e}, and {ALL}"))?;
            named.insert(fault.name().into(), p.into()).is_some()
        };
        if twice {
            bail!("--fault {name} is given twice");
        }
    }
    for (fault, p) in Fault::ALL.into_iter().zip(every.into_iter().cycle()) {
        named.entry(fault.name()).or_insert_with(|| p.into());
    }
    match settings.entry("fault").or_insert_with(|| toml::Table::new().into()) {
        toml::Value::Table(table) => table.extend(named),
        _ => bail!("--set fault=…: give each fault with --fault NAME=PROBABILITY"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(faults: &[&str]) -> Result<toml::Table> {
        let mut settings = toml::Table::new();
        let faults: Vec<String> = faults.iter().map(|f| (*f).to_owned()).collect();
        add(&mut settings, &faults)?;
        Ok(settings)
    }

    #[test]
    fn faults_become_the_table_of_a_plan() {
        assert!(added(&[]).unwrap().is_empty());
        let got = added(&["stall=0.02", "status-500=1"]).unwrap();
        assert_eq!(got["fault"].as_table().unwrap().len(), 2);
        assert_eq!(got["fault"]["stall"].as_float(), Some(0.02));
        let all = added(&["all=0.02", "huge-body=0"]).unwrap();
        assert_eq!(all["fault"].as_table().unwrap().len(), Fault::ALL.len());
        assert_eq!(
            (all["fault"]["refused"].as_float(), all["fault"]["huge-body"].as_float()),
            (Some(0.02), Some(0.0))
        );
    }

    #[test]
    fn errors_say_what_to_write() {
        for (faults, message) in [
            (&["stall"][..], "write NAME=PROBABILITY"),
            (&["stall=often"], "a number from 0 to 1"),
            (&["stall=2"], "a number from 0 to 1"),
            (&["stall=NaN"], "a number from 0 to 1"),
            (&["teapot=0.1"], "there is no fault \"teapot\"; the faults are refused, "),
            (&["stall=0.1", "stall=0.2"], "--fault stall is given twice"),
            (&["all=0.1", "all=0.2"], "--fault all is given twice"),
        ] {
            let error = format!("{:#}", added(faults).unwrap_err());
            assert!(error.contains(message), "{faults:?}: {error}");
        }
    }
}
