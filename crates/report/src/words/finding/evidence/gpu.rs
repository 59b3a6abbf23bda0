//! Clocks, power and heat of GPUs in English.

use super::{percent, place};
use goodput_core::units::{short, thousands};
use goodput_stats::diagnosis::GpuFact;

/// Returns a fact about a GPU, as a clause without a full stop.
pub(super) fn gpu(fact: &GpuFact) -> String {
    match fact {
        GpuFact::Idle { busy, gpus, in_flight, at } => format!(
            "{} busy {} of the time, with {} requests in flight on average, {}",
            if *gpus == 1 { "the GPU is" } else { "the GPUs are" },
            percent(*busy),
            short(*in_flight),
            place(at)
        ),
        GpuFact::Clock { gpu, mean_mhz, highest_mhz, at } => {
            let gpu = gpu.map_or("a GPU".to_owned(), |n| format!("GPU {n}"));
            format!(
                "the SM clock of {gpu} is {} MHz on average {}, {} below its highest of {} MHz",
                thousands(mean_mhz.round()),
                place(at),
                percent(1.0 - mean_mhz / highest_mhz),
                thousands(highest_mhz.round())
            )
        }
        GpuFact::HeldByPower => "by its counters, its power held it down".into(),
        GpuFact::HeldByHeat { celsius } => {
            let at = celsius.map(|c| format!(", at {} °C", short(c))).unwrap_or_default();
            format!("by its counters, its temperature held it down{at}")
        }
        GpuFact::HeldBySetting => "by its counters, clocks that were set hold it down".into(),
        GpuFact::Power { watts, limit_watts } => {
            format!("it draws {} W of the {} W that its limit allows", short(*watts), short(*limit_watts))
        }
        GpuFact::PowerLimit { limit_watts, most_watts } if limit_watts < most_watts => {
            format!(
                "the board accepts a limit of {} W, and has {} W",
                short(*most_watts),
                short(*limit_watts)
            )
        }
        GpuFact::PowerLimit { most_watts, .. } => {
            format!("that limit of {} W is the highest that the board accepts", short(*most_watts))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_core::level::Level;
    use goodput_stats::diagnosis::Place;

    #[test]
    fn what_holds_a_clock_down_is_told() {
        let at = Place { step: 4, level: Some(Level::rate(20.0)) };
        for (fact, says) in [
            (
                GpuFact::Idle { busy: 0.22, gpus: 1, in_flight: 8.1, at },
                "the GPU is busy 22 % of the time, with 8.1 requests in flight on average, at 20 req/s (step 4)",
            ),
            (
                GpuFact::Clock { gpu: Some(0), mean_mhz: 1095.0, highest_mhz: 1410.0, at },
                "the SM clock of GPU 0 is 1,095 MHz on average at 20 req/s (step 4), 22.3 % below its highest of 1,410 MHz",
            ),
            (
                GpuFact::HeldByHeat { celsius: Some(88.0) },
                "by its counters, its temperature held it down, at 88 °C",
            ),
            (
                GpuFact::Power { watts: 298.4, limit_watts: 300.0 },
                "it draws 298 W of the 300 W that its limit allows",
            ),
            (
                GpuFact::PowerLimit { limit_watts: 300.0, most_watts: 400.0 },
                "the board accepts a limit of 400 W, and has 300 W",
            ),
            (
                GpuFact::PowerLimit { limit_watts: 400.0, most_watts: 400.0 },
                "that limit of 400 W is the highest that the board accepts",
            ),
        ] {
            assert_eq!(gpu(&fact), says);
        }
    }
}
