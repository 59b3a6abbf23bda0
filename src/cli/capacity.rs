//! Arguments of `capacity`.

use super::shared::{number, positive, rate};
use crate::capacity::Volume;
use crate::units::{Positive, Rate, Span, plain_number};
use crate::workload::trace::{Format, Unit, Window};
use clap::{ArgGroup, Args};
use std::num::NonZeroU32;
use std::path::PathBuf;

/// Arguments of `capacity`.
#[derive(Debug, Args)]
#[command(
    group(ArgGroup::new("offered").args(["runs", "goodput", "schema"]).required(true)),
    group(ArgGroup::new("asked").args(["daily_volume", "daily_items", "rate", "profile", "trace", "schema"]).required(true).multiple(true)),
    after_help = "Exit codes:
  0    sized, within the cost limit if there is one
  1    error
  2    no candidate stays within the cost limit at this demand
  3    no run has a rate to plan with

Examples:
  goodput capacity runs/a40 --daily-volume 5M --peak-to-mean 3 --headroom 2 --spare-replicas 1
  goodput capacity runs/a40 runs/h100 runs/grid#fp8 --daily-volume 5M    several candidates
  goodput capacity --goodput 35 --daily-volume 5M --explain              a known rate; formulas
  goodput capacity runs/a40 --profile hourly.csv --out capacity          an hourly profile
  goodput capacity runs/a40 --trace azure.csv.gz --daily-volume 2M --max-cost-per-mtok 0.4"
)]
pub struct CapacityArgs {
    /// Run folders. RUN#SERIES, RUN#TIER or RUN#SERIES/TIER selects one answer of a run [default: every variant, with the mix of all
    /// classes, the cold cache and the first SLO tier].
    #[arg(value_name = "RUN")]
    pub runs: Vec<String>,
    /// Goodput of one replica in requests/s, instead of a run.
    #[arg(long, value_name = "R", value_parser = rate)]
    pub goodput: Option<Rate>,
    /// Safe rate of one replica in requests/s; not above --goodput.
    #[arg(long, value_name = "R", requires = "goodput", value_parser = rate)]
    pub safe_rate: Option<Rate>,
    /// Mean output tokens per request [default: as measured].
    #[arg(long, value_name = "N", value_parser = positive)]
    pub output_tokens: Option<Positive>,
    /// Requests per day: 5M, 5,000,000 or 5e6. With a profile or a trace: scale its shape to this volume.
    #[arg(long, value_name = "VOLUME")]
    pub daily_volume: Option<Volume>,
    /// Texts, documents or images per day, instead of requests: the run tells how many of them a request has.
    #[arg(long, value_name = "VOLUME", conflicts_with_all = ["daily_volume", "goodput"])]
    pub daily_items: Option<Volume>,
    /// Mean requests/s over a day, instead of a volume.
    #[arg(long, value_name = "R", conflicts_with_all = ["daily_volume", "daily_items", "profile", "trace"], value_parser = rate)]
    pub rate: Option<Rate>,
    /// Hourly profile: a CSV file with the header hour,requests and one row per hour, for one or more whole days.
    #[arg(long, value_name = "FILE", conflicts_with = "trace")]
    pub profile: Option<PathBuf>,
    /// Recorded trace, in any format that `goodput trace` reads. Its busiest window sets the peak.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Length of the busiest window of the trace [default: the longest of 1h, 10m, 1m, 10s and 1s that fits into the trace five times].
    #[arg(long, value_name = "TIME", requires = "trace")]
    pub peak_window: Option<Span>,
    /// Format of the trace [default: detected from the first row].
    #[arg(long, value_name = "FORMAT", requires = "trace")]
    pub trace_format: Option<Format>,
    /// Part of the trace to use, counted from its first row: 10m..40m, 10m.. or ..40m.
    #[arg(long, value_name = "FROM..TO", requires = "trace")]
    pub trace_window: Option<Window>,
    /// Name of a column of the trace, as in `goodput trace --column`. Repeatable.
    #[arg(long = "trace-column", value_name = "KEY=NAME", requires = "trace")]
    pub trace_columns: Vec<String>,
    /// Unit of numeric timestamps in the trace: s, ms, us or ns [default: that of the format].
    #[arg(long, value_name = "UNIT", requires = "trace")]
    pub trace_unit: Option<Unit>,
    /// Skip unreadable rows of the trace instead of stopping with an error.
    #[arg(long, requires = "trace")]
    pub skip_bad_rows: bool,
    /// Peak rate divided by the mean rate of the day.
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = at_least_one, conflicts_with_all = ["profile", "trace"])]
    pub peak_to_mean: f64,
    /// Factor on the peak rate: room for growth and for bursts that the peak does not show.
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = at_least_one)]
    pub headroom: f64,
    /// Replicas beyond those needed; 1 tolerates the failure of one replica.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub spare_replicas: u32,
    /// GPUs per replica [default: tensor-parallel in the run's `[hardware]`, else all of its GPUs].
    #[arg(long, value_name = "N")]
    pub gpus_per_replica: Option<NonZeroU32>,
    /// Price of one GPU per hour [default: from the run's `[hardware]`, as for the next options].
    #[arg(long, value_name = "X", value_parser = positive)]
    pub price_per_hour: Option<Positive>,
    /// Currency label of the prices; nothing is converted.
    #[arg(long, value_name = "TEXT")]
    pub currency: Option<String>,
    /// Power of one GPU under load, in watts [default: from the run's `[hardware]`, else as its `[[metrics]]` measured it].
    #[arg(long, value_name = "W", value_parser = positive)]
    pub watts: Option<Positive>,
    /// Price per kWh, if the price of a GPU does not include energy.
    #[arg(long, value_name = "X", value_parser = positive)]
    pub energy_price: Option<Positive>,
    /// Cost limit per million output tokens at this demand; exit code 2 if no candidate stays within it.
    #[arg(long, value_name = "X", value_parser = positive)]
    pub max_cost_per_mtok: Option<Positive>,
    /// Show every formula with its numbers.
    #[arg(long)]
    pub explain: bool,
    /// Write capacity.md, capacity.json and capacity-charts/capacity.png and .svg into this folder.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print the answer as JSON.
    #[arg(long)]
    pub json: bool,
    /// Print the JSON Schema of capacity.json, which --json prints, and exit.
    #[arg(long, exclusive = true)]
    pub schema: bool,
}

/// Parses a factor from 1 to 1,000,000.
fn at_least_one(text: &str) -> Result<f64, String> {
    let x = number(text)?;
    if (1.0..=1e6).contains(&x) {
        Ok(x)
    } else {
        Err(format!("write a factor of 1 or more, at most 1000000; got {}", plain_number(x)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_checked() {
        assert!(at_least_one("2").is_ok() && at_least_one("1").is_ok());
        for bad in ["0.5", "-1", "NaN", "inf", "two", ""] {
            assert!(at_least_one(bad).is_err(), "{bad}");
        }
        for bad in ["0", "-35", "NaN", "inf", "35req"] {
            assert!(rate(bad).is_err() && positive(bad).is_err(), "{bad}");
        }
    }
}
