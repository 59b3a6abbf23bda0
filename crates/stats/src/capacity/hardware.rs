//! The plan's `[hardware]` table.

use super::gpu_hour;
use crate::roofline::{Bandwidth, FlopRate, Gpu, Machine, Model};
use goodput_core::units::Positive;
use serde::{Deserialize, Serialize};

/// The plan's `[hardware]` table: what the server runs on, as declared. Copied into the report.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Hardware {
    /// Model of the GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// Number of GPUs that the server uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<std::num::NonZeroU32>,
    /// Number of GPUs that hold one copy of the model together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensor_parallel: Option<std::num::NonZeroU32>,
    /// Memory bandwidth of one GPU; by default that of its data sheet, if `gpu` is a known one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bandwidth: Option<Bandwidth>,
    /// Dense compute rate of one GPU in the precision that is served; by default that of its data sheet, if `gpu` is a known one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flops: Option<FlopRate>,
    /// Price of one GPU for an hour, in `currency`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_per_hour: Option<Positive>,
    /// A label for prices; nothing is converted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    /// Power of one GPU under load, in watts; by default as measured by `[[metrics]]`, if these include it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watts: Option<Positive>,
    /// Price of a kilowatt-hour, in `currency`, unless `price-per-hour` includes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_price: Option<Positive>,
    /// Acceptance limit on the cost of a million output tokens, in `currency`. Cost falls with the rate, so it bounds the rate
    /// from below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost_per_mtok: Option<Positive>,
}

impl Hardware {
    /// Returns the declared number of GPUs, by default those of one copy of the model.
    pub fn gpu_count(&self) -> Option<u32> {
        self.gpus.or(self.tensor_parallel).map(std::num::NonZeroU32::get)
    }

    /// Returns how many GPUs hold one copy of the model: as declared, or one if there is only one GPU; `None` if not known.
    pub fn tensor_parallel(&self) -> Option<u32> {
        let declared = self.tensor_parallel.map(std::num::NonZeroU32::get);
        declared.or_else(|| (self.gpu_count().unwrap_or(1) == 1).then_some(1))
    }

    /// Returns the number of copies of the model, if known.
    pub fn replicas(&self) -> Option<u32> {
        self.tensor_parallel().map(|each| self.gpu_count().unwrap_or(each) / each)
    }

    /// Returns the GPUs of one copy of a model, if the plan or the table of data sheets has enough figures.
    pub fn machine(&self, model: &Model) -> Option<Machine> {
        let each = self.tensor_parallel()?;
        Machine::of(self.gpu.as_deref(), self.memory_bandwidth, self.flops, each, model)
    }

    /// Returns the number of GPUs of one replica: those of one copy of the model if declared, else all GPUs.
    pub fn gpus_per_replica(&self) -> u32 {
        self.tensor_parallel().or(self.gpu_count()).unwrap_or(1)
    }

    /// Returns what is wrong with the table, by itself or together with a `[model]`; `None` if nothing is.
    pub fn problem(&self, model: Option<&Model>) -> Option<String> {
        let declared = self.tensor_parallel.map(std::num::NonZeroU32::get);
        if let (Some(each), Some(all)) = (declared, self.gpu_count())
            && all % each != 0
        {
            return Some(format!(
                "[hardware] tensor-parallel ({each}) does not divide gpus ({all}): it is how many GPUs hold one copy of the model, and gpus \
                 those of all copies together"
            ));
        }
        if self.max_cost_per_mtok.is_some() && self.cost_per_gpu_hour().is_none() {
            return Some(
                "[hardware] max-cost-per-mtok needs price-per-hour, what one GPU costs for an hour (or watts and energy-price, where only \
                 energy is paid for): without it no cost is known"
                    .into(),
            );
        }
        let model = model?;
        if self.tensor_parallel().is_none() {
            let all = self.gpu_count().unwrap_or(1);
            return Some(format!(
                "[hardware] gpus = {all} beside [model]: say with tensor-parallel how many of them hold one copy of the model ({all}: one copy \
                 over all of them; 1: {all} replicas)"
            ));
        }
        if self.machine(model).is_some() {
            return None;
        }
        let named = self
            .gpu
            .as_ref()
            .map_or("it names no gpu".into(), |gpu| format!("\"{gpu}\" is not among the known ones"));
        Some(format!(
            "[model] says what a token must read, and [hardware] not how fast: {named}; write memory-bandwidth = \"600 GB/s\", or as gpu one \
             of {}",
            Gpu::names()
        ))
    }

    /// Returns the cost of one GPU for an hour: its price, plus its energy if both `watts` and `energy-price` are declared;
    /// `None` if neither is.
    pub fn cost_per_gpu_hour(&self) -> Option<f64> {
        let [price, watts, kwh] =
            [self.price_per_hour, self.watts, self.energy_price].map(|x| x.map(Positive::get));
        gpu_hour(price, watts, kwh)
    }

    /// Returns the cost of all GPUs for an hour, energy included as in [`Self::cost_per_gpu_hour`].
    pub fn total_price_per_hour(&self) -> Option<f64> {
        self.cost_per_gpu_hour().map(|each| each * f64::from(self.gpu_count().unwrap_or(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows: the table, whether there is a `[model]`, and part of the message.
    #[test]
    fn error_messages_say_what_to_write() {
        let model: Model = toml::from_str("parameters = \"8B\"\nprecision = \"fp16\"").unwrap();
        for (table, with_model, says) in [
            ("", false, None),
            ("gpu = \"abacus\"", false, None),
            ("gpus = 4", false, None),
            ("gpus = 4\ntensor-parallel = 3", false, Some("does not divide gpus (4)")),
            ("max-cost-per-mtok = 0.4", false, Some("needs price-per-hour")),
            ("max-cost-per-mtok = 0.4\nenergy-price = 0.3", false, Some("needs price-per-hour")),
            ("max-cost-per-mtok = 0.4\nwatts = 300\nenergy-price = 0.3", false, None),
            ("max-cost-per-mtok = 0.4\nprice-per-hour = 0.39\nwatts = 300\nenergy-price = 0.3", false, None),
            ("gpu = \"A40\"", true, None),
            ("gpu = \"abacus\"\nmemory-bandwidth = \"10 GB/s\"", true, None),
            ("gpu = \"abacus\"", true, Some("\"abacus\" is not among the known ones")),
            ("", true, Some("it names no gpu")),
            ("gpu = \"A100\"\ngpus = 4", true, Some("4: one copy over all of them; 1: 4 replicas")),
            ("gpu = \"A100\"\ngpus = 4\ntensor-parallel = 2", true, None),
        ] {
            let h: Hardware = toml::from_str(table).unwrap();
            let problem = h.problem(with_model.then_some(&model));
            assert_eq!(problem.is_some(), says.is_some(), "{table}: {problem:?}");
            assert!(problem.unwrap_or_default().contains(says.unwrap_or_default()), "{table}");
        }
        let two: Hardware = toml::from_str("gpu = \"A100\"\ngpus = 4\ntensor-parallel = 2").unwrap();
        assert_eq!((two.tensor_parallel(), two.replicas()), (Some(2), Some(2)));
        assert_eq!(two.machine(&model).map(|m| m.tensor_parallel), Some(2));
        assert_eq!(Hardware::default().replicas(), Some(1));
        assert_eq!((two.gpus_per_replica(), Hardware::default().gpus_per_replica()), (2, 1));
        assert_eq!(toml::from_str::<Hardware>("gpus = 4").unwrap().replicas(), None);
    }

    #[test]
    fn prices_are_per_gpu() {
        for (table, gpus, total) in [
            ("price-per-hour = 0.39", None, Some(0.39)),
            ("gpus = 4\nprice-per-hour = 0.39", Some(4), Some(1.56)),
            ("tensor-parallel = 8\nprice-per-hour = 2", Some(8), Some(16.0)), // one copy, on eight
            ("gpus = 8\ntensor-parallel = 4\nprice-per-hour = 2", Some(8), Some(16.0)),
            ("gpus = 2\nprice-per-hour = 2\nwatts = 500\nenergy-price = 0.2", Some(2), Some(4.2)),
            ("gpus = 2\nprice-per-hour = 2\nenergy-price = 0.2", Some(2), Some(4.0)), // what it draws is not known
            ("gpus = 2\nwatts = 500\nenergy-price = 0.2", Some(2), Some(0.2)),        // bought: energy alone
            ("gpus = 2\nwatts = 500", Some(2), None),
        ] {
            let h: Hardware = toml::from_str(table).unwrap();
            let got = h.total_price_per_hour();
            assert_eq!((h.gpu_count(), got.is_some()), (gpus, total.is_some()), "{table}");
            assert!(got.zip(total).is_none_or(|(got, want)| (got - want).abs() < 1e-12), "{table}: {got:?}");
        }
        assert!(toml::from_str::<Hardware>("gpus = 0").is_err());
        assert!(Hardware::default().total_price_per_hour().is_none());
    }
}
