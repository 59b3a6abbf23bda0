//! The headline of the chart of a capacity, and the line below it.

use super::answer::Capacity;
use super::words::{self, counted, is_one, money, named};
use crate::escape::clip;
use crate::words::{count, figure};
use goodput_core::units::thousands;

/// Returns the answer for a chart: `5 million requests a day need 4 × A40 (2 without headroom), 37.44 USD a day`.
pub(super) fn headline(c: &Capacity) -> String {
    let [s] = &c.all[..] else { return words::headline(c) };
    let f = s.planned();
    let gpus = match s.candidate.gpu.as_deref() {
        // What is planned by a rehearsal is not to be bought by.
        Some(gpu) if s.candidate.measured.as_ref().is_some_and(|m| m.simulated) => {
            format!("{} × simulated {}", thousands(f.gpus as f64), clip(gpu, 24))
        }
        Some(gpu) => format!("{} × {}", thousands(f.gpus as f64), clip(gpu, 24)),
        None => counted(f.gpus, "GPU"),
    };
    let bare = f.replicas_for_peak.saturating_mul(u64::from(f.replica.gpus));
    let reserve = match (is_one(c.reserve.headroom), c.reserve.spares) {
        _ if bare == f.gpus => String::new(),
        (true, _) => format!(" ({} without a spare)", thousands(bare as f64)),
        (false, 0) => format!(" ({} without headroom)", thousands(bare as f64)),
        (false, _) => format!(" ({} without reserve)", thousands(bare as f64)),
    };
    let cost = f.cost.map(|x| format!(", {} a day", money(x.per_day, s.candidate.currency.as_deref())));
    format!(
        "{}{} requests a day need {gpus}{reserve}{}",
        named(&s.candidate),
        count(c.demand.per_day),
        cost.unwrap_or_default()
    )
}

/// Returns the rate that a chart of one candidate is drawn for: `each at 34.2 requests/s, the safe rate`; `None` for
/// several.
pub(super) fn rate(c: &Capacity) -> Option<String> {
    let [s] = &c.all[..] else { return None };
    let f = s.planned();
    let each = if f.replica.gpus == 1 { "each".into() } else { format!("each {} of them", f.replica.gpus) };
    let safe = if s.at_safe_rate.is_some() { ", the safe rate" } else { "" };
    Some(format!("{each} at {} requests/s{safe}", figure(f.replica.rate)))
}

/// Returns the price that the cost of a chart of one candidate is made from: `0.39 USD for a GPU-hour`; `None` without one.
pub(super) fn price(c: &Capacity) -> Option<String> {
    let [s] = &c.all[..] else { return None };
    let f = s.planned();
    let per_day = f.cost?.per_day - f.cost?.energy_per_day.unwrap_or(0.0);
    let hours = 24.0 * f.gpus as f64;
    (hours > 0.0)
        .then(|| format!("{} for a GPU-hour", money(per_day / hours, s.candidate.currency.as_deref())))
}
