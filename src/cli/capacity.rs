//! Arguments of `capacity`.

use crate::capacity::Volume;
use crate::units::{Positive, Rate, Span};
use crate::workload::trace::{Format, Unit, Window};
use clap::{ArgGroup, Args};
use std::num::NonZeroU32;
use std::path::PathBuf;

/// Arguments of `capacity`.
#[derive(Debug, Args)]
#[command(
    group(ArgGroup::new("offered").args(["runs", "goodput"]).required(true)),
    group(ArgGroup::new("asked").args(["daily_volume", "rate", "profile", "trace"]).required(true).multiple(true)),
    after_help = "Exit codes:
  0    there is an answer, and a limit on the cost is kept
  1    error
  2    no candidate keeps the limit on the cost at this demand
  3    no run has a rate to plan with

Examples:
  goodput capacity runs/a40 --daily-volume 5M --peak-to-mean 3 --headroom 2 --spare-replicas 1
  goodput capacity runs/a40 runs/h100 runs/grid#fp8 --daily-volume 5M       several, the best for its money first
  goodput capacity --goodput 35 --daily-volume 5M --headroom 2 --explain    no run: a rate as given, every formula shown
  goodput capacity runs/a40 --profile hourly.csv --out capacity             by the hour; Markdown, JSON and chart in a folder
  goodput capacity runs/a40 --trace azure.csv.gz --daily-volume 2M --max-cost-per-mtok 0.4"
)]
pub struct CapacityArgs {
    /// Run folders; RUN#SERIES, RUN#TIER or RUN#SERIES/TIER name one of several answers. Without that each variant counts, with its mix and not the classes alone, its cold cache and not the warm one, within the first SLO.
    #[arg(value_name = "RUN")]
    pub runs: Vec<String>,
    /// Requests per second that one replica can take, in place of a run.
    #[arg(long, value_name = "R", value_parser = rate)]
    pub goodput: Option<Rate>,
    /// The rate that is safe beside it; at most as high.
    #[arg(long, value_name = "R", requires = "goodput", value_parser = rate)]
    pub safe_rate: Option<Rate>,
    /// Output tokens of a request, the mean; by default as measured.
    #[arg(long, value_name = "N", value_parser = positive)]
    pub output_tokens: Option<Positive>,
    /// Requests of a day: 5M, 5,000,000 or 5e6. Beside a profile or a trace: the volume that its shape is scaled to.
    #[arg(long, value_name = "VOLUME")]
    pub daily_volume: Option<Volume>,
    /// Requests per second, the mean of a day, in place of a volume.
    #[arg(long, value_name = "R", conflicts_with_all = ["daily_volume", "profile", "trace"], value_parser = rate)]
    pub rate: Option<Rate>,
    /// An hourly profile: CSV with the head hour,requests and a row for each hour of one or several whole days.
    #[arg(long, value_name = "FILE", conflicts_with = "trace")]
    pub profile: Option<PathBuf>,
    /// A recorded trace, as `goodput trace` reads it: its busiest stretch gives the peak.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// How long the busiest stretch of the trace is [default: 1h, 10m, 1m, 10s or 1s, the longest of which it has five].
    #[arg(long, value_name = "TIME", requires = "trace")]
    pub peak_window: Option<Span>,
    /// Format of the trace, where its first row does not tell.
    #[arg(long, value_name = "FORMAT", requires = "trace")]
    pub trace_format: Option<Format>,
    /// The part of the trace that counts, from the first row on: 10m..40m, 10m.. or ..40m.
    #[arg(long, value_name = "FROM..TO", requires = "trace")]
    pub trace_window: Option<Window>,
    /// Name of a column of the trace, as in `goodput trace --column`. May be repeated.
    #[arg(long = "trace-column", value_name = "KEY=NAME", requires = "trace")]
    pub trace_columns: Vec<String>,
    /// Unit of its timestamps that are plain numbers: s, ms, us or ns.
    #[arg(long, value_name = "UNIT", requires = "trace")]
    pub trace_unit: Option<Unit>,
    /// Leave out rows of the trace that cannot be read, in place of an error.
    #[arg(long, requires = "trace")]
    pub skip_bad_rows: bool,
    /// The peak rate over the mean rate of a day.
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = at_least_one, conflicts_with_all = ["profile", "trace"])]
    pub peak_to_mean: f64,
    /// The peak is multiplied by this: room for growth, and for what the peak does not show.
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = at_least_one)]
    pub headroom: f64,
    /// Replicas beyond those that are needed: 1 for one failure.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub spare_replicas: u32,
    /// GPUs of one copy of the model [default: tensor-parallel of the run's `[hardware]`, else all of its GPUs].
    #[arg(long, value_name = "N")]
    pub gpus_per_replica: Option<NonZeroU32>,
    /// Price of one GPU for an hour; this and the next ones by default as in the run's `[hardware]`.
    #[arg(long, value_name = "X", value_parser = positive)]
    pub price_per_hour: Option<Positive>,
    /// Label of prices; nothing is converted.
    #[arg(long, value_name = "TEXT")]
    pub currency: Option<String>,
    /// What one GPU draws under load, in watts [default: also as the run's `[[metrics]]` measured it].
    #[arg(long, value_name = "W", value_parser = positive)]
    pub watts: Option<Positive>,
    /// Price of a kilowatt-hour, where the price of a GPU does not include it.
    #[arg(long, value_name = "X", value_parser = positive)]
    pub energy_price: Option<Positive>,
    /// The most that a million output tokens may cost at this demand; exit code 2 where no candidate keeps it.
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
}

fn number(text: &str) -> Result<f64, String> {
    text.trim().parse().map_err(|_| format!("{text:?} is no number"))
}

fn rate(text: &str) -> Result<Rate, String> {
    number(text)?.try_into()
}

fn positive(text: &str) -> Result<Positive, String> {
    number(text)?.try_into()
}

/// A factor that makes nothing smaller.
fn at_least_one(text: &str) -> Result<f64, String> {
    let x = number(text)?;
    if (1.0..=1e6).contains(&x) { Ok(x) } else { Err(format!("a factor of 1 or more is needed, got {x}")) }
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
