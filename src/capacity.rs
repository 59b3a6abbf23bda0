//! Goodput and hardware → volumes, figures per GPU, and cost.

use crate::roofline::{Bandwidth, FlopRate, Gpu, Machine, Model};
use crate::stats::step::Step;
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
    /// How many of them hold one copy of the model together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensor_parallel: Option<std::num::NonZeroU32>,
    /// What the memory of one of them delivers; that of its data sheet where it is left out and `gpu` is a known one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bandwidth: Option<Bandwidth>,
    /// What one of them computes in the precision that is served, dense; likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flops: Option<FlopRate>,
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

    /// How many GPUs hold one copy of the model: as the plan has it, one where it has one; `None` where it does not tell.
    pub fn tensor_parallel(&self) -> Option<u32> {
        let declared = self.tensor_parallel.map(std::num::NonZeroU32::get);
        declared.or_else(|| (self.gpu_count().unwrap_or(1) == 1).then_some(1))
    }

    /// How many copies of the model there are, where that is known.
    pub fn replicas(&self) -> Option<u32> {
        self.tensor_parallel().map(|each| self.gpu_count().unwrap_or(each) / each)
    }

    /// The GPUs of one copy of a model, where the plan or the table of data sheets tells enough of them.
    pub fn machine(&self, model: &Model) -> Option<Machine> {
        let each = self.tensor_parallel()?;
        Machine::of(self.gpu.as_deref(), self.memory_bandwidth, self.flops, each, model)
    }

    /// What is wrong with the table, or with it beside a `[model]`, if anything.
    pub(crate) fn problem(&self, model: Option<&Model>) -> Option<String> {
        let declared = self.tensor_parallel.map(std::num::NonZeroU32::get);
        if let (Some(each), Some(all)) = (declared, self.gpu_count())
            && all % each != 0
        {
            return Some(format!(
                "[hardware] tensor-parallel ({each}) does not divide gpus ({all}): it is how many GPUs hold one copy of the model, and gpus \
                 those of all copies together"
            ));
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

    /// Price of all GPUs together for an hour.
    pub fn total_price_per_hour(&self) -> Option<f64> {
        self.price_per_hour.map(|p| p.get() * f64::from(self.gpu_count().unwrap_or(1)))
    }
}

/// What a measured level amounts to, held all the time and with nothing in reserve.
///
/// Every figure comes from one step and is based on one rate, so that they add up and none is more than what was
/// measured; what that step does not know is `None`, never a guess.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Capacity {
    /// The step that the figures come from.
    pub step: u32,
    /// Requests per second: what was achieved at the step, and no more than its level where that is a rate. Poisson
    /// arrivals may be fewer than the level says.
    pub requests_per_s: f64,
    /// 60 × requests per second.
    pub requests_per_minute: f64,
    /// 3,600 × requests per second.
    pub requests_per_hour: f64,
    /// 86,400 × requests per second.
    pub requests_per_day: f64,
    /// Output tokens per second at that rate: those of the step's window × requests per second / achieved rate.
    pub output_tokens_per_s: Option<f64>,
    /// Prompt tokens per second at that rate, likewise.
    pub prompt_tokens_per_s: Option<f64>,
    /// The rates divided by the number of GPUs, where that is declared.
    pub per_gpu: Option<PerGpu>,
    /// Cost of a million output tokens: price of all GPUs for an hour / 3,600 / output tokens per second × 1,000,000.
    pub cost_per_mtok: Option<f64>,
    /// Cost of a thousand requests: price of all GPUs for an hour / 3,600 / requests per second × 1,000.
    pub cost_per_1000_requests: Option<f64>,
}

/// Rates of one GPU: those of the server divided by the number of its GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PerGpu {
    /// Requests per second.
    pub requests_per_s: f64,
    /// Output tokens per second.
    pub output_tokens_per_s: Option<f64>,
    /// Prompt tokens per second.
    pub prompt_tokens_per_s: Option<f64>,
}

impl Capacity {
    /// The figures of a step. `gpus` is how many the server uses; `price_per_hour` is that of all of them together, in
    /// any currency. `None` where nothing was completed: then there is no rate to speak of.
    pub fn of(step: &Step, gpus: Option<u32>, price_per_hour: Option<f64>) -> Option<Self> {
        let achieved = step.achieved_rate;
        Self::at(step, step.level.per_s().map_or(achieved, |level| level.min(achieved)), gpus, price_per_hour)
    }

    /// The figures at a rate, in requests per second, that lies between the steps: what a request brings is that of `step`, the one
    /// nearest to it. As [`Capacity::of`] otherwise.
    pub fn at(step: &Step, rate: f64, gpus: Option<u32>, price_per_hour: Option<f64>) -> Option<Self> {
        let achieved = positive(step.achieved_rate).filter(|_| step.completed > 0)?;
        let rate = positive(rate)?;
        let scaled = |tokens: f64| positive(tokens).map(|t| t * (rate / achieved));
        let (output, prompt) = (scaled(step.output_tokens_per_s), scaled(step.prompt_tokens_per_s));
        let share = |gpus: u32| {
            let each = |x: f64| x / f64::from(gpus);
            PerGpu {
                requests_per_s: each(rate),
                output_tokens_per_s: output.map(each),
                prompt_tokens_per_s: prompt.map(each),
            }
        };
        let per_second = price_per_hour.and_then(positive).map(|p| p / 3_600.0);
        Some(Self {
            step: step.step,
            requests_per_s: rate,
            requests_per_minute: rate * 60.0,
            requests_per_hour: rate * 3_600.0,
            requests_per_day: rate * 86_400.0,
            output_tokens_per_s: output,
            prompt_tokens_per_s: prompt,
            per_gpu: gpus.filter(|g| *g > 0).map(share),
            cost_per_mtok: per_second.zip(output).map(|(p, tokens)| p / tokens * 1e6),
            cost_per_1000_requests: per_second.map(|p| p / rate * 1e3),
        })
    }
}

/// A rate or price that is known: finite and above zero.
fn positive(x: f64) -> Option<f64> {
    (x.is_finite() && x > 0.0).then_some(x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::Level;
    use crate::report::fixture;

    fn step() -> Step {
        let step = fixture::cases().swap_remove(0).1.steps.swap_remove(3);
        Step {
            level: Level::rate(20.0),
            achieved_rate: 20.8,
            output_tokens_per_s: 624.0,
            prompt_tokens_per_s: 12_480.0,
            ..step
        }
    }

    fn near(a: Option<f64>, b: f64) -> bool {
        a.is_some_and(|a| (a - b).abs() <= 1e-9 * b)
    }

    #[test]
    fn a_rate_by_the_minute_hour_and_day() {
        let c = Capacity::of(&step(), Some(4), Some(1.56)).unwrap();
        assert_eq!(c.step, 4);
        for (what, got, want) in [
            ("requests/s, the level: more came by chance", c.requests_per_s, 20.0),
            ("a minute", c.requests_per_minute, 1_200.0),
            ("an hour", c.requests_per_hour, 72_000.0),
            ("a day", c.requests_per_day, 1_728_000.0),
        ] {
            assert!(near(Some(got), want), "{what}: {got}");
        }
        let each = c.per_gpu.unwrap();
        assert!(near(Some(each.requests_per_s), 5.0));
        assert!(near(each.output_tokens_per_s, 150.0) && near(each.prompt_tokens_per_s, 3_000.0));
        // Tokens scaled from 20.8 to 20 requests/s: 1.56 an hour buys 600 × 3,600 = 2.16 million tokens and 72,000 requests.
        assert!(near(c.cost_per_mtok, 1.56 / 2.16), "{c:?}");
        assert!(near(c.cost_per_1000_requests, 1.56 / 72.0), "{c:?}");
    }

    #[test]
    fn what_is_not_known_stays_unknown() {
        let bare = Capacity::of(&step(), None, None).unwrap();
        assert!(bare.per_gpu.is_none() && bare.cost_per_mtok.is_none());
        assert!(bare.cost_per_1000_requests.is_none() && bare.output_tokens_per_s.is_some());
        let silent = Step { output_tokens_per_s: 0.0, prompt_tokens_per_s: f64::NAN, ..step() };
        let c = Capacity::of(&silent, Some(2), Some(1.0)).unwrap();
        assert_eq!((c.output_tokens_per_s, c.prompt_tokens_per_s, c.cost_per_mtok), (None, None, None));
        assert!(c.per_gpu.is_some_and(|g| g.output_tokens_per_s.is_none()));
        assert!(near(c.cost_per_1000_requests, 1_000.0 / 72_000.0), "requests are known without tokens");
        assert!(
            Capacity::of(&Step { completed: 0, ..step() }, None, None).is_none(),
            "nothing was completed"
        );
    }

    /// Rows: level, achieved, tokens at what was achieved; then the rate and the tokens that may be promised.
    #[test]
    fn no_figure_exceeds_what_was_measured() {
        for (level, achieved, tokens, rate, scaled) in [
            (504.0, 496.3, 14_889.0, 496.3, 14_889.0), // fewer arrivals than the level says
            (500.0, 505.0, 15_150.0, 500.0, 15_000.0), // more of them
            (2.0, 2.0, 60.0, 2.0, 60.0),
        ] {
            let step = Step {
                level: Level::rate(level),
                achieved_rate: achieved,
                output_tokens_per_s: tokens,
                ..step()
            };
            let c = Capacity::of(&step, Some(2), Some(3.6)).unwrap();
            assert!(near(Some(c.requests_per_s), rate) && near(c.output_tokens_per_s, scaled), "{c:?}");
            assert!(near(Some(c.requests_per_day), rate * 86_400.0));
            assert!(
                near(c.cost_per_1000_requests, 1.0 / rate) && near(c.cost_per_mtok, 1e3 / scaled),
                "{c:?}"
            );
        }
    }

    #[test]
    fn a_closed_loop_counts_what_it_achieved() {
        let closed = Step { level: Level::concurrency(64), achieved_rate: 19.5, ..step() };
        let c = Capacity::of(&closed, Some(1), None).unwrap();
        assert!(near(Some(c.requests_per_hour), 19.5 * 3_600.0), "{c:?}");
        let idle = Step { achieved_rate: 0.0, ..closed };
        assert!(Capacity::of(&idle, None, None).is_none());
    }

    #[test]
    fn figures_between_steps_scale_with_the_rate() {
        let c = Capacity::at(&step(), 26.0, Some(2), Some(1.0)).unwrap();
        assert!(near(Some(c.requests_per_s), 26.0) && near(c.output_tokens_per_s, 26.0 * 30.0), "{c:?}");
        assert!(near(c.per_gpu.map(|g| g.requests_per_s), 13.0));
        assert!(Capacity::at(&step(), 0.0, None, None).is_none(), "no rate");
    }

    /// Rows: the table, whether there is a `[model]`, and what is said.
    #[test]
    fn mistakes_say_what_to_write() {
        let model: Model = toml::from_str("parameters = \"8B\"\nprecision = \"fp16\"").unwrap();
        for (table, with_model, says) in [
            ("", false, None),
            ("gpu = \"abacus\"", false, None),
            ("gpus = 4", false, None),
            ("gpus = 4\ntensor-parallel = 3", false, Some("does not divide gpus (4)")),
            ("gpu = \"A40\"", true, None),
            ("gpu = \"abacus\"\nmemory-bandwidth = \"10 GB/s\"", true, None),
            ("gpu = \"abacus\"", true, Some("\"abacus\" is not among the known ones")),
            ("", true, Some("it names no gpu")),
            ("gpu = \"A100\"\ngpus = 4", true, Some("4: one copy over all of them; 1: 4 replicas")),
            ("gpu = \"A100\"\ngpus = 4\ntensor-parallel = 2", true, None),
        ] {
            let h: Hardware = toml::from_str(table).unwrap();
            let said = h.problem(with_model.then_some(&model));
            assert_eq!(said.is_some(), says.is_some(), "{table}: {said:?}");
            assert!(said.unwrap_or_default().contains(says.unwrap_or_default()), "{table}");
        }
        let two: Hardware = toml::from_str("gpu = \"A100\"\ngpus = 4\ntensor-parallel = 2").unwrap();
        assert_eq!((two.tensor_parallel(), two.replicas()), (Some(2), Some(2)));
        assert_eq!(two.machine(&model).map(|m| m.tensor_parallel), Some(2));
        assert_eq!(Hardware::default().replicas(), Some(1));
        assert_eq!(toml::from_str::<Hardware>("gpus = 4").unwrap().replicas(), None);
    }

    #[test]
    fn prices_are_per_gpu() {
        let h: Hardware = toml::from_str("gpus = 4\nprice-per-hour = 0.39").unwrap();
        assert!(h.total_price_per_hour().is_some_and(|p| (p - 1.56).abs() < 1e-12));
        assert!(toml::from_str::<Hardware>("gpus = 0").is_err());
        assert!(Hardware::default().total_price_per_hour().is_none());
    }
}
