//! Arguments of `handoff`.

use clap::Args;
use goodput_core::units::Span;
use std::path::PathBuf;

/// Arguments of `handoff`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  goodput handoff runs/a40 --out ops
  goodput handoff runs/a40 --out ops --label job=llm --capacity capacity/capacity.json --start-up 90s --growth 10
  promtool test rules ops/alerts/goodput.rules.test.yaml

Exit codes:
  0    the files are written; README.md lists them, and what could not be made
  1    error
  3    the run has no safe rate to hand over")]
pub struct HandoffArgs {
    /// Run folder. RUN#SERIES, RUN#TIER or RUN#SERIES/TIER selects one answer of it [default: the main answer].
    #[arg(value_name = "RUN")]
    pub run: String,
    /// Folder to write the files into. Files of an earlier handoff are replaced.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Label that the metrics of the service have in Prometheus, such as job=llm. Repeatable [default: every server counts].
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    pub labels: Vec<(String, String)>,
    /// The capacity.json of `goodput capacity --out`: the least and the largest number of replicas for autoscaling.
    #[arg(long, value_name = "FILE")]
    pub capacity: Option<PathBuf>,
    /// Time that a replica takes to start [default: as measured, if the plan starts the server].
    #[arg(long, value_name = "TIME")]
    pub start_up: Option<Span>,
    /// Largest growth of the load in percent a minute: autoscaling keeps room for it until a new replica has started.
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = growth)]
    pub growth: f64,
    /// Name of the Kubernetes Deployment to scale [default: made from the name of the model].
    #[arg(long, value_name = "NAME")]
    pub deployment: Option<String>,
    /// URL at which KEDA finds Prometheus [default: that of its usual service within a cluster].
    #[arg(long, value_name = "URL")]
    pub prometheus: Option<String>,
}

/// Parses a label of Prometheus.
fn label(text: &str) -> Result<(String, String), String> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| format!("write NAME=VALUE, such as job=llm; got {text}"))?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(plain) {
        return Err(format!(
            "{name:?} is no name of a label: letters, digits and _, not beginning with a digit"
        ));
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// Parses a growth in percent a minute.
fn growth(text: &str) -> Result<f64, String> {
    let percent: f64 = text
        .trim_end_matches('%')
        .trim()
        .parse()
        .map_err(|_| format!("write percent a minute, such as 10; got {text}"))?;
    if (0.0..=1000.0).contains(&percent) {
        Ok(percent)
    } else {
        Err(format!("a growth is from 0 to 1000 percent a minute, got {text}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_growth_are_checked() {
        assert_eq!(label("job=a=b"), Ok(("job".into(), "a=b".into())));
        for bad in ["job", "=x", "1a=x", "a-b=x", "a{}=x"] {
            assert!(label(bad).is_err(), "{bad}");
        }
        assert_eq!(growth("10%"), Ok(10.0));
        for bad in ["-1", "NaN", "x", "1e9"] {
            assert!(growth(bad).is_err(), "{bad}");
        }
    }
}
