//! Demand: a volume or a rate, its peak, and the source of both.

use goodput_core::units::plain_number;
use goodput_workload::trace::Dispersion;
use serde::Serialize;
use std::str::FromStr;

/// Seconds per day.
pub const DAY_S: f64 = 86_400.0;
/// Largest daily volume that is accepted: a hundred thousand requests for every person.
const MAX_PER_DAY: f64 = 1e15;

/// Requests per day: positive and finite. Written `5M`, `5,000,000` or `5e6`; k, M and G stand for 10³, 10⁶ and 10⁹.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct Volume(f64);

impl Volume {
    /// Returns the number of requests per day.
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Volume {
    type Error = String;
    fn try_from(x: f64) -> Result<Self, String> {
        // The comparison is also false for NaN.
        if x > 0.0 && x <= MAX_PER_DAY {
            Ok(Self(x))
        } else {
            Err(format!(
                "a daily volume is a positive number of requests, at most 1e15, got {}",
                plain_number(x)
            ))
        }
    }
}

impl FromStr for Volume {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            format!(
                "{text:?} is no daily volume: write 5M, 5,000,000 or 5e6 (k, M and G: thousands, millions, thousand millions)"
            )
        };
        let trimmed = text.trim();
        let unit = trimmed.chars().next_back().and_then(|c| match c {
            'k' | 'K' => Some(1e3),
            'M' => Some(1e6),
            'G' => Some(1e9),
            _ => None,
        });
        let number = if unit.is_some() { trimmed[..trimmed.len() - 1].trim_end() } else { trimmed };
        let number = grouped(number).ok_or_else(bad)?;
        let plain = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | 'e' | 'E');
        if !number.chars().all(plain) {
            return Err(bad());
        }
        Self::try_from(number.parse::<f64>().map_err(|_| bad())? * unit.unwrap_or(1.0))
    }
}

/// Removes the commas or underscores between groups of three digits; `None` if they stand elsewhere.
fn grouped(text: &str) -> Option<String> {
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    for mark in [',', '_'] {
        let mut groups = whole.split(mark);
        let first = groups.next().unwrap_or_default().len();
        let rest: Vec<&str> = groups.collect();
        let valid = (1..=3).contains(&first) && rest.iter().all(|g| g.len() == 3);
        if !rest.is_empty() && !valid {
            return None;
        }
    }
    (!rest.contains([',', '_'])).then(|| format!("{}{rest}", whole.replace([',', '_'], "")))
}

/// Demand in one hour of a profile.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Hour {
    /// Name of the hour in the profile.
    pub name: String,
    /// Mean rate in requests per second.
    pub rate: f64,
}

/// The interval of a recording with the most requests.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Busiest {
    /// Length in seconds.
    pub width_s: f64,
    /// Start, in seconds since the first request.
    pub from_s: f64,
    /// Number of requests in it.
    pub requests: u64,
    /// Mean rate in requests per second: requests / width.
    pub rate: f64,
    /// Rate divided by the mean rate of the recording.
    pub peak_to_mean: f64,
}

/// Source of the peak.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Peak {
    /// A given ratio; 1 if none was given.
    Given,
    /// The busiest hour of a profile, by its index.
    Hour(usize),
    /// The busiest interval of a recording.
    Busiest(Busiest),
}

/// Source of the demand.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// A given number of requests per day.
    Volume,
    /// A given number of requests per second.
    Rate,
    /// An hourly profile.
    Profile {
        /// Path of the file.
        file: String,
        /// True if it gives only the shape, and the volume was given separately.
        shape_only: bool,
    },
    /// A recorded trace.
    Trace {
        /// Description in one line.
        title: String,
        /// Number of requests.
        requests: u64,
        /// Length in seconds.
        span_s: f64,
        /// True if it gives only the shape, and the volume was given separately.
        shape_only: bool,
        /// Variation of its counts in intervals that tell of bursts, if it has enough requests.
        #[serde(skip_serializing_if = "Option::is_none")]
        dispersion: Option<Dispersion>,
    },
}

/// Requests that have to be served.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Demand {
    /// Requests per day, averaged over the days.
    pub per_day: f64,
    /// Mean rate in requests per second: requests per day / 86,400.
    pub mean_rate: f64,
    /// Peak rate divided by the mean rate.
    pub peak_to_mean: f64,
    /// Rate at the peak in requests per second: mean × peak-to-mean.
    pub peak_rate: f64,
    /// Source of the volume.
    pub source: Source,
    /// Source of the peak.
    pub peak: Peak,
    /// Hours of a profile, or of a recording of whole days; empty if not known.
    pub hours: Vec<Hour>,
    /// Busiest intervals of a recording, one per width, the widest first.
    pub busiest: Vec<Busiest>,
}

impl Demand {
    /// Creates the demand of a daily volume with this ratio of peak to mean.
    pub fn of_volume(volume: Volume, peak_to_mean: f64) -> Self {
        Self::flat(volume.get() / DAY_S, peak_to_mean, Source::Volume)
    }

    /// Creates the demand of a mean rate in requests per second with this ratio of peak to mean.
    pub fn of_rate(rate: f64, peak_to_mean: f64) -> Self {
        Self::flat(rate, peak_to_mean, Source::Rate)
    }

    fn flat(mean_rate: f64, peak_to_mean: f64, source: Source) -> Self {
        Self {
            per_day: mean_rate * DAY_S,
            mean_rate,
            peak_to_mean,
            peak_rate: mean_rate * peak_to_mean,
            source,
            peak: Peak::Given,
            hours: Vec::new(),
            busiest: Vec::new(),
        }
    }

    /// Creates the demand of the hours of whole days; at least one of them must have requests.
    pub fn of_hours(hours: Vec<Hour>, file: String) -> Self {
        let mean_rate = hours.iter().map(|h| h.rate).sum::<f64>() / hours.len().max(1) as f64;
        let busiest = (0..hours.len()).rev().max_by(|a, b| hours[*a].rate.total_cmp(&hours[*b].rate));
        let place = busiest.unwrap_or(0);
        let peak_rate = hours.get(place).map_or(0.0, |h| h.rate);
        Self {
            peak_to_mean: peak_rate / mean_rate,
            peak_rate,
            peak: Peak::Hour(place),
            hours,
            ..Self::flat(mean_rate, 1.0, Source::Profile { file, shape_only: false })
        }
    }

    /// Scales the demand to another volume, keeping its shape.
    pub fn scaled_to(mut self, volume: Volume) -> Self {
        let factor = volume.get() / self.per_day;
        self.per_day = volume.get();
        self.mean_rate = volume.get() / DAY_S;
        self.peak_rate = self.mean_rate * self.peak_to_mean;
        self.hours.iter_mut().for_each(|h| h.rate *= factor);
        if let Source::Profile { shape_only, .. } | Source::Trace { shape_only, .. } = &mut self.source {
            *shape_only = true;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn volumes_are_parsed_as_people_write_them() {
        for (text, want) in [
            ("5M", 5e6),
            (" 5 M ", 5e6),
            ("5,000,000", 5e6),
            ("5_000_000", 5e6),
            ("5e6", 5e6),
            ("5000000", 5e6),
            ("2.5k", 2_500.0),
            ("1,250.5K", 1_250_500.0),
            ("1G", 1e9),
            ("0.5", 0.5),
        ] {
            assert_eq!(text.parse::<Volume>().map(Volume::get), Ok(want), "{text}");
        }
        for (text, says) in [
            ("", "is no daily volume"),
            ("M", "is no daily volume"),
            ("5m", "write 5M"), // minutes, or a milli?
            ("5,0", "is no daily volume"),
            ("50,00,000", "is no daily volume"),
            ("1.000,5", "is no daily volume"),
            ("five", "is no daily volume"),
            ("inf", "is no daily volume"),
            ("NaN", "is no daily volume"),
            ("0", "positive"),
            ("-5M", "positive"),
            ("1e300", "at most 1e15"),
        ] {
            let error = text.parse::<Volume>().unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn rates_follow_from_the_volume() {
        let d = Demand::of_volume("5M".parse().unwrap(), 3.0);
        assert!((d.mean_rate - 57.870_37).abs() < 1e-5 && (d.peak_rate - 173.611_11).abs() < 1e-4, "{d:?}");
        let d = Demand::of_rate(57.870_370_370_370_37, 1.0);
        assert!((d.per_day - 5e6).abs() < 1e-6);
    }

    #[test]
    fn the_busiest_hour_is_the_peak_and_a_volume_keeps_the_shape() {
        let hour = |name: u32, rate| Hour { name: name.to_string(), rate };
        let hours = (0..24).map(|h| hour(h, if h == 14 || h == 16 { 9.0 } else { 3.0 })).collect();
        let d = Demand::of_hours(hours, "hourly.csv".into());
        assert_eq!(d.peak, Peak::Hour(14), "the first of those that are alike");
        assert!((d.mean_rate - 3.5).abs() < 1e-12 && (d.peak_to_mean - 9.0 / 3.5).abs() < 1e-12);
        let twice = d.clone().scaled_to(Volume::try_from(2.0 * d.per_day).unwrap());
        assert!((twice.peak_rate - 18.0).abs() < 1e-9 && (twice.hours[14].rate - 18.0).abs() < 1e-9);
        assert!(matches!(twice.source, Source::Profile { shape_only: true, .. }));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,20}") {
            let _ = text.parse::<Volume>();
        }

        #[test]
        fn whole_volumes_round_trip(n in 1..10_u64.pow(15)) {
            let plain: Volume = n.to_string().parse().unwrap();
            let grouped: Volume = goodput_core::units::thousands(n as f64).parse().unwrap();
            prop_assert!((plain.get() - n as f64).abs() < 0.5);
            prop_assert!((plain.get() - grouped.get()).abs() < 0.5);
        }
    }
}
