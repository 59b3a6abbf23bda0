//! Figures of a measured level: volumes, rates per GPU, and cost.

use super::positive;
use crate::stats::step::Step;
use serde::Serialize;

/// Figures of a measured level, sustained all the time and without a reserve.
///
/// Every figure comes from one step and is based on one rate, so that they are consistent and none exceeds what was measured.
/// Anything the step does not show is `None`, never a guess.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Capacity {
    /// Number of the step that the figures come from.
    pub step: u32,
    /// Requests per second: the achieved rate of the step, but at most its level if that is a rate, since Poisson arrivals may by
    /// chance be more than the level says.
    pub requests_per_s: f64,
    /// 60 × requests per second.
    pub requests_per_minute: f64,
    /// 3,600 × requests per second.
    pub requests_per_hour: f64,
    /// 86,400 × requests per second.
    pub requests_per_day: f64,
    /// Output tokens per second at that rate: tokens per second of the step × requests per second / achieved rate.
    pub output_tokens_per_s: Option<f64>,
    /// Prompt tokens per second at that rate, scaled like the output tokens.
    pub prompt_tokens_per_s: Option<f64>,
    /// Items per second at that rate, scaled like the output tokens; `None` if requests are plain text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items_per_s: Option<f64>,
    /// The rates divided by the number of GPUs; `None` if that is not declared.
    pub per_gpu: Option<PerGpu>,
    /// Cost of a million output tokens: price of all GPUs per hour / 3,600 / output tokens per second × 1,000,000.
    pub cost_per_mtok: Option<f64>,
    /// Cost of a thousand requests: price of all GPUs per hour / 3,600 / requests per second × 1,000.
    pub cost_per_1000_requests: Option<f64>,
    /// Cost of a thousand items: price of all GPUs per hour / 3,600 / items per second × 1,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_per_1000_items: Option<f64>,
}

/// Rates per GPU: those of the server divided by its number of GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct PerGpu {
    /// Requests per second.
    pub requests_per_s: f64,
    /// Output tokens per second.
    pub output_tokens_per_s: Option<f64>,
    /// Prompt tokens per second.
    pub prompt_tokens_per_s: Option<f64>,
    /// Items per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items_per_s: Option<f64>,
}

impl Capacity {
    /// Computes the figures of a step. `gpus` is the number of GPUs of the server, `price_per_hour` the price of all of them
    /// together, in any currency. `None` if nothing was completed.
    pub fn of(step: &Step, gpus: Option<u32>, price_per_hour: Option<f64>) -> Option<Self> {
        let achieved = step.achieved_rate;
        Self::at(step, step.level.per_s().map_or(achieved, |level| level.min(achieved)), gpus, price_per_hour)
    }

    /// Computes the figures at a rate (requests per second) between the steps; the tokens per request are those of `step`, the
    /// nearest one. Otherwise as [`Capacity::of`].
    pub fn at(step: &Step, rate: f64, gpus: Option<u32>, price_per_hour: Option<f64>) -> Option<Self> {
        let achieved = positive(step.achieved_rate).filter(|_| step.completed > 0)?;
        let rate = positive(rate)?;
        let scaled = |tokens: f64| positive(tokens).map(|t| t * (rate / achieved));
        let (output, prompt) = (scaled(step.output_tokens_per_s), scaled(step.prompt_tokens_per_s));
        let items = scaled(step.items_per_s);
        let share = |gpus: u32| {
            let each = |x: f64| x / f64::from(gpus);
            PerGpu {
                requests_per_s: each(rate),
                output_tokens_per_s: output.map(each),
                prompt_tokens_per_s: prompt.map(each),
                items_per_s: items.map(each),
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
            items_per_s: items,
            per_gpu: gpus.filter(|g| *g > 0).map(share),
            cost_per_mtok: per_second.zip(output).map(|(p, tokens)| p / tokens * 1e6),
            cost_per_1000_requests: per_second.map(|p| p / rate * 1e3),
            cost_per_1000_items: per_second.zip(items).map(|(p, items)| p / items * 1e3),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use goodput_core::level::Level;

    fn step() -> Step {
        let step = fixture::found().swap_remove(3);
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
    fn rates_per_minute_hour_and_day_agree() {
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
    fn unknown_figures_stay_unknown() {
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

    /// Rows: level, achieved rate, tokens at the achieved rate; then the rate and the tokens of the figures.
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
    fn a_closed_loop_counts_its_achieved_rate() {
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
}
