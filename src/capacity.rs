//! Goodput and hardware → figures per GPU and cost.

use crate::units::Positive;
use serde::{Deserialize, Serialize};

/// The plan's `[hardware]` table: what the server runs on, as declared. Carried into the report.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Hardware {
    /// Model of the GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// How many the server uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<std::num::NonZeroU32>,
    /// Price of one GPU for an hour, in `currency`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_per_hour: Option<Positive>,
    /// A label; nothing is converted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
}

impl Hardware {
    /// Number of GPUs, where declared.
    pub fn gpu_count(&self) -> Option<u32> {
        self.gpus.map(std::num::NonZeroU32::get)
    }

    /// Price of all GPUs together for an hour.
    pub fn total_price_per_hour(&self) -> Option<f64> {
        self.price_per_hour.map(|p| p.get() * f64::from(self.gpu_count().unwrap_or(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_per_gpu() {
        let h: Hardware = toml::from_str("gpus = 4\nprice-per-hour = 0.39").unwrap();
        assert!(h.total_price_per_hour().is_some_and(|p| (p - 1.56).abs() < 1e-12));
        assert!(toml::from_str::<Hardware>("gpus = 0").is_err());
        assert!(Hardware::default().total_price_per_hour().is_none());
    }
}
