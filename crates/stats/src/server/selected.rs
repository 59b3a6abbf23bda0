//! Series of any Prometheus page that the plan names: selected by name and labels, and summarised over a step.

use super::prometheus::{labels, samples};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Largest number of series kept per page, in the order of the page.
pub const MAX_SERIES: usize = 256;
/// Largest size of a series' labels in bytes; they are repeated in every row of the series.
const MAX_LABEL_BYTES: usize = 1 << 10;
/// Largest absolute value, so that a sum over a step stays finite.
const MAX_ABS_VALUE: f64 = 1e20;

/// Selects series by name, and optionally by labels, as in PromQL: `node_cpu_seconds_total{mode="idle"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct Selector {
    name: String,
    labels: Vec<(String, String)>,
}

impl Selector {
    fn matches(&self, name: &str, own: &str) -> bool {
        self.name == name
            && own.len() <= MAX_LABEL_BYTES
            && self.labels.iter().all(|(n, v)| labels(own).any(|l| l == (n.as_str(), v.as_str())))
    }
}

impl FromStr for Selector {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} names no series: write a name as the page has it, and labels where there are several, such as \
                 \"DCGM_FI_DEV_GPU_UTIL\" or \"node_cpu_seconds_total{{mode=\\\"idle\\\"}}\""
            )
        };
        let text = text.trim();
        let (name, inner) = match text.split_once('{') {
            Some((name, rest)) => (name.trim(), Some(rest.strip_suffix('}').ok_or_else(wrong)?)),
            None => (text, None),
        };
        let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '.');
        if name.is_empty() || !name.chars().all(letter) || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(wrong());
        }
        let inner = inner.unwrap_or_default().trim();
        let found: Vec<(String, String)> = labels(inner).map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
        // Operators other than `=` would be read as part of a name, or not at all.
        let plain = |n: &str| !n.is_empty() && n.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if (found.is_empty() && !inner.is_empty())
            || !found.iter().all(|(n, _)| plain(n))
            || inner.contains("=~")
        {
            return Err(wrong());
        }
        Ok(Self { name: name.to_owned(), labels: found })
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if self.labels.is_empty() {
            return Ok(());
        }
        let inner: Vec<String> = self.labels.iter().map(|(n, v)| format!("{n}=\"{v}\"")).collect();
        write!(f, "{{{}}}", inner.join(","))
    }
}

impl TryFrom<String> for Selector {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Selector> for String {
    fn from(s: Selector) -> Self {
        s.to_string()
    }
}

/// Value of one series at one moment. Each set of labels is a series of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Selected {
    /// Name of the metric.
    pub name: String,
    /// Labels as written between the braces.
    pub labels: String,
    /// Its value.
    pub value: f64,
    /// True if the page declares it a counter, or its name ends in `_total`.
    pub counter: bool,
}

/// Returns the selected series of a page, at most [`MAX_SERIES`]. Leaves out values that are not a number or above 10^20, and
/// series whose labels are longer than a kibibyte.
pub fn select(page: &str, wanted: &[Selector]) -> Vec<Selected> {
    let counters: Vec<&str> = page
        .lines()
        .filter_map(|l| l.strip_prefix("# TYPE ")?.trim_end().strip_suffix(" counter"))
        .filter(|name| wanted.iter().any(|w| w.name == *name))
        .collect();
    let found = samples(page)
        .filter(|s| s.value.abs() <= MAX_ABS_VALUE && wanted.iter().any(|w| w.matches(s.name, s.labels)));
    found
        .take(MAX_SERIES)
        .map(|s| Selected {
            name: s.name.to_owned(),
            // Labels are shown in tables and on terminals: no control characters.
            labels: s.labels.replace(char::is_control, "\u{fffd}"),
            value: s.value,
            counter: counters.contains(&s.name) || s.name.ends_with("_total"),
        })
        .collect()
}

/// Returns the selectors that match no series on a page which could be kept.
pub fn missing<'a>(page: &str, wanted: &'a [Selector]) -> Vec<&'a Selector> {
    wanted.iter().filter(|w| !samples(page).any(|s| w.matches(s.name, s.labels))).collect()
}

/// Summary of a series over a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SeriesSummary {
    /// Number of values.
    pub n: u32,
    /// Smallest, mean and largest value.
    pub range: [f64; 3],
    /// Growth per second; `None` unless it is a counter that did not go back and was read at least twice.
    pub per_s: Option<f64>,
    /// True if it is a counter.
    pub counter: bool,
}

/// Summarises series as they are read. Memory grows only with the number of series.
#[derive(Debug, Clone, Default)]
pub struct SeriesSums(BTreeMap<(String, String), Sum>);

#[derive(Debug, Clone, Copy)]
struct Sum {
    n: u32,
    min: f64,
    max: f64,
    sum: f64,
    first: (Duration, f64),
    last: (Duration, f64),
    counter: bool,
    back: bool,
}

impl SeriesSums {
    /// Adds the values read at one moment.
    pub fn add(&mut self, at: Duration, all: &[Selected]) {
        for one in all {
            let key = (one.name.clone(), one.labels.clone());
            let v = one.value;
            if self.0.len() >= MAX_SERIES && !self.0.contains_key(&key) {
                continue;
            }
            let sum = self.0.entry(key).or_insert(Sum {
                n: 0,
                min: v,
                max: v,
                sum: 0.0,
                first: (at, v),
                last: (at, v),
                counter: one.counter,
                back: false,
            });
            sum.back |= v < sum.last.1;
            (sum.n, sum.sum, sum.last) = (sum.n + 1, sum.sum + v, (at, v));
            (sum.min, sum.max) = (sum.min.min(v), sum.max.max(v));
        }
    }

    /// Iterates over name, labels and summary of every series.
    pub fn summaries(&self) -> impl Iterator<Item = (&str, &str, SeriesSummary)> {
        self.0.iter().map(|((name, labels), s)| {
            let seconds = s.last.0.saturating_sub(s.first.0).as_secs_f64();
            let grew = s.counter && !s.back && seconds > 0.0;
            let summary = SeriesSummary {
                n: s.n,
                range: [s.min, s.sum / f64::from(s.n.max(1)), s.max],
                per_s: grew.then(|| (s.last.1 - s.first.1) / seconds),
                counter: s.counter,
            };
            (name.as_str(), labels.as_str(), summary)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).\n# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n\
        DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",modelName=\"A100, 80GB\"} 91\nDCGM_FI_DEV_GPU_UTIL{gpu=\"1\",modelName=\"A100, 80GB\"} 73\n\
        # TYPE node_cpu_seconds counter\nnode_cpu_seconds{cpu=\"0\",mode=\"idle\"} 100\nnode_cpu_seconds{cpu=\"0\",mode=\"user\"} 7\n\
        broken NaN\n";

    fn selectors(texts: &[&str]) -> Vec<Selector> {
        texts.iter().map(|t| t.parse().unwrap()).collect()
    }

    #[test]
    fn each_set_of_labels_is_a_series() {
        let all =
            select(PAGE, &selectors(&["DCGM_FI_DEV_GPU_UTIL", "node_cpu_seconds{mode=\"idle\"}", "broken"]));
        let values: Vec<(&str, f64, bool)> = all.iter().map(|s| (&s.name[..4], s.value, s.counter)).collect();
        assert_eq!(values, [("DCGM", 91.0, false), ("DCGM", 73.0, false), ("node", 100.0, true)]);
        assert_eq!(all[1].labels, "gpu=\"1\",modelName=\"A100, 80GB\"");
        let absent = selectors(&["DCGM_FI_DEV_GPU_UTIL{gpu=\"7\"}", "nothing"]);
        assert_eq!(missing(PAGE, &absent).len(), 2);
        let many: String = (0..1000).map(|i| format!("a{{i=\"{i}\"}} 1\n")).collect();
        assert_eq!(select(&many, &selectors(&["a"])).len(), MAX_SERIES);
        let long = |n| format!("a{{i=\"{}\"}} 1\na 1e300\n", "x".repeat(n));
        let found = |n| {
            (select(&long(n), &selectors(&["a"])).len(), missing(&long(n), &selectors(&["a{i=\"x\"}"])).len())
        };
        assert_eq!((found(1), found(1000).0, found(1 << 10)), ((1, 0), 1, (0, 1)), "labels of a kibibyte");
    }

    #[test]
    fn selectors_round_trip_and_invalid_ones_are_rejected() {
        for text in ["a", "a:b_total{x=\"1\",y=\"2, 3\"}"] {
            assert_eq!(text.parse::<Selector>().unwrap().to_string(), text);
        }
        for text in ["", "{}", "a b", "rate(a[5m])", "a{x=~\"y\"}", "a{x!=\"y\"}", "a{x", "a{x}", "9a"] {
            assert!(text.parse::<Selector>().is_err(), "{text}");
        }
    }

    #[test]
    fn series_are_summarised() {
        let mut sums = SeriesSums::default();
        let one = |name: &str, value, counter| Selected {
            name: name.into(),
            labels: String::new(),
            value,
            counter,
        };
        for (s, gauge, counter, reset) in [(0, 3.0, 10.0, 10.0), (1, 1.0, 12.0, 2.0), (4, 5.0, 18.0, 5.0)] {
            let all = [one("gauge", gauge, false), one("grows", counter, true), one("resets", reset, true)];
            sums.add(Duration::from_secs(s), &all);
        }
        let all: Vec<_> =
            sums.summaries().map(|(name, _, s)| (name.to_owned(), s.n, s.range, s.per_s)).collect();
        assert_eq!(all[0], ("gauge".into(), 3, [1.0, 3.0, 5.0], None));
        assert_eq!(all[1].3, Some(2.0), "from 10 to 18 in four seconds");
        assert_eq!(all[2].3, None, "it went back");
    }
}
