//! Every formula with its numbers filled in.

use super::answer::Capacity;
use super::words::{money, percent, volume};
use crate::words::{figure, precise};
use goodput_core::units::{short, thousands};
use goodput_stats::capacity::demand::{Demand, Peak, Source};
use goodput_stats::capacity::fleet::{Fleet, MONTH_DAYS, Replica, Reserve};
use goodput_stats::capacity::sizing::MeasurementConditions;
use serde::Serialize;

/// One figure: its name, its formula, the formula with numbers, and the result.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub(super) struct Formula {
    /// Name of the figure.
    pub(super) of: String,
    /// The formula in words.
    pub(super) formula: &'static str,
    /// The formula with numbers.
    pub(super) numbers: String,
    /// The result with its unit.
    pub(super) result: String,
}

fn formula(of: impl Into<String>, formula: &'static str, numbers: String, result: String) -> Formula {
    Formula { of: of.into(), formula, numbers, result }
}

/// Returns the formulas of the demand, then those of each fleet under its title.
pub(super) fn all(c: &Capacity) -> Vec<(String, Vec<Formula>)> {
    let mut parts = vec![("the demand".to_owned(), demand(&c.demand, &c.reserve))];
    for s in &c.all {
        let currency = s.candidate.currency.as_deref();
        let whose = &s.candidate.name;
        let mut part = |what: &str, f: &Fleet| {
            let title = format!("{whose}, {what}: {} requests/s for each replica", precise(f.replica.rate));
            let mut own = s.candidate.measured.as_ref().map_or_else(Vec::new, |m| of_copy(m, f));
            own.extend(replicas(&c.demand, &c.reserve, f));
            own.extend(energy(f));
            own.extend(costs(&c.demand, f, currency));
            own.extend(money_of_one(&f.replica, currency));
            own.extend(autoscaled(f, currency));
            parts.push((title, own));
        };
        if let Some(f) = &s.at_safe_rate {
            part("the safe rate", f);
        }
        part(&s.candidate.basis, &s.at_goodput);
    }
    parts
}

fn demand(d: &Demand, r: &Reserve) -> Vec<Formula> {
    let rate = |x: f64| format!("{} requests/s", precise(x));
    let mut out = vec![match (&d.source, &d.peak) {
        (Source::Profile { shape_only: false, .. }, _) => formula(
            "mean rate",
            "sum of the hours / (hours × 3,600 s)",
            format!("{} / ({} × 3,600)", volume(d.per_day * d.hours.len() as f64 / 24.0), d.hours.len()),
            rate(d.mean_rate),
        ),
        (Source::Trace { shape_only: false, requests, span_s, .. }, _) => formula(
            "mean rate",
            "requests of the trace / (its length + one mean gap)",
            format!(
                "{} / ({} s + {} s)",
                volume(*requests as f64),
                volume(*span_s),
                short((*requests as f64 / d.mean_rate - span_s).max(0.0))
            ),
            rate(d.mean_rate),
        ),
        (Source::Rate, _) => formula(
            "requests of a day",
            "rate × 86,400 s",
            format!("{} × 86,400", precise(d.mean_rate)),
            volume(d.per_day),
        ),
        _ => formula(
            "mean rate",
            "requests of a day / 86,400 s",
            format!("{} / 86,400", volume(d.per_day)),
            rate(d.mean_rate),
        ),
    }];
    match &d.peak {
        Peak::Hour(place) => out.push(formula(
            "peak-to-mean",
            "requests of the busiest hour / 3,600 s / mean rate",
            format!(
                "{} / 3,600 / {}",
                volume(d.hours.get(*place).map_or(0.0, |h| h.rate * 3_600.0)),
                precise(d.mean_rate)
            ),
            precise(d.peak_to_mean),
        )),
        Peak::Busiest(b) => out.push(formula(
            "peak-to-mean",
            "requests of the busiest stretch / its length / mean rate of the trace",
            format!(
                "{} / {} s / {}",
                volume(b.requests as f64),
                short(b.width_s),
                precise(b.rate / b.peak_to_mean)
            ),
            precise(d.peak_to_mean),
        )),
        Peak::Given => {}
    }
    out.push(formula(
        "peak rate",
        "mean rate × peak-to-mean",
        format!("{} × {}", precise(d.mean_rate), precise(d.peak_to_mean)),
        rate(d.peak_rate),
    ));
    out.push(formula(
        "required rate",
        "peak rate × headroom",
        format!("{} × {}", precise(d.peak_rate), short(r.headroom)),
        rate(d.peak_rate * r.headroom),
    ));
    out
}

/// Returns the formulas that derive one replica from the measured server.
fn of_copy(m: &MeasurementConditions, f: &Fleet) -> Vec<Formula> {
    let each = f.replica.rate;
    let all = each * f64::from(m.copies);
    let mut out = vec![formula(
        "rate of one",
        "rate of the measured server / copies of the model in it",
        format!("{} / {}", precise(all), m.copies),
        format!("{} requests/s", precise(each)),
    )];
    out.extend(f.replica.output_tokens.filter(|_| !m.tokens_given).map(|tokens| {
        formula(
            "output tokens of one",
            "output tokens/s of the measured server / its requests/s",
            format!("{} / {}", volume(tokens * all), precise(all)),
            precise(tokens),
        )
    }));
    out
}

fn replicas(d: &Demand, r: &Reserve, f: &Fleet) -> Vec<Formula> {
    let each = precise(f.replica.rate);
    let n = |x: u64| thousands(x as f64);
    let load = |rate: f64, of: u64| format!("{} / ({} × {each})", precise(rate), n(of));
    let mut out = vec![
        formula(
            "replicas",
            "⌈required rate / rate of one⌉ + spare replicas",
            format!(
                "⌈{} / {each}⌉ + {} = ⌈{}⌉ + {}",
                precise(f.required_rate),
                r.spares,
                precise(f.required_rate / f.replica.rate),
                r.spares
            ),
            n(f.replicas),
        ),
        formula(
            "GPUs",
            "replicas × GPUs per replica",
            format!("{} × {}", n(f.replicas), f.replica.gpus),
            n(f.gpus),
        ),
        formula(
            "utilisation in the mean",
            "mean rate / (replicas × rate of one)",
            load(d.mean_rate, f.replicas),
            percent(f.utilisation_mean),
        ),
        formula(
            "utilisation at the peak",
            "peak rate / (replicas × rate of one)",
            load(d.peak_rate, f.replicas),
            percent(f.utilisation_peak),
        ),
    ];
    out.extend(f.utilisation_peak_one_lost.map(|u| {
        formula(
            "utilisation at the peak, one lost",
            "peak rate / ((replicas − 1) × rate of one)",
            load(d.peak_rate, f.replicas - 1),
            percent(u),
        )
    }));
    if let Some(a) = &f.autoscaled {
        let sum = a.replicas.iter().sum::<u64>();
        out.push(formula(
            "GPU-hours of a day, autoscaled",
            "sum over the hours of (⌈rate of the hour × peak rate / rate of the busiest hour × headroom / rate of one⌉, at least 1, + spare replicas) × GPUs per replica / days",
            format!("{} × {} / {}", n(sum), f.replica.gpus, a.replicas.len() / 24),
            figure(a.gpu_hours_per_day),
        ));
        out.push(formula(
            "GPU-hours of a day, fixed",
            "GPUs × 24 h",
            format!("{} × 24", n(f.gpus)),
            figure(a.fixed_gpu_hours_per_day),
        ));
    }
    out
}

fn energy(f: &Fleet) -> Vec<Formula> {
    let (Some(e), Some(w)) = (f.energy, f.replica.watts) else { return Vec::new() };
    let power = format!("{} × {} / 1,000", thousands(f.gpus as f64), figure(w));
    vec![
        formula(
            "power under load",
            "GPUs × watts / 1,000",
            power.clone(),
            format!("{} kW", figure(e.watts / 1e3)),
        ),
        formula(
            "energy of a day",
            "GPUs × watts / 1,000 × 24 h",
            format!("{power} × 24"),
            format!("{} kWh", figure(e.kwh_per_day)),
        ),
    ]
}

/// Returns the formulas of the cost of the whole fleet at this demand.
fn costs(d: &Demand, f: &Fleet, currency: Option<&str>) -> Vec<Formula> {
    let r = &f.replica;
    let mut out = Vec::new();
    let Some(c) = f.cost else { return out };
    let pay = |x: f64| money(x, currency);
    let hour = r.cost_per_gpu_hour().unwrap_or(0.0);
    if let Some((w, price)) = r.watts.zip(r.energy_price) {
        out.push(formula(
            "cost of a GPU-hour",
            "price of an hour + watts / 1,000 × price of a kWh",
            format!("{} + {} / 1,000 × {}", short(r.price_per_hour.unwrap_or(0.0)), figure(w), short(price)),
            pay(hour),
        ));
    }
    out.push(formula(
        "cost of a day",
        "GPUs × cost of a GPU-hour × 24 h",
        format!("{} × {} × 24", thousands(f.gpus as f64), short(hour)),
        pay(c.per_day),
    ));
    if let (Some(cost), Some(e), Some(price)) = (c.energy_per_day, f.energy, r.energy_price) {
        out.push(formula(
            "cost of a day, of it energy",
            "energy of a day × price of a kWh",
            format!("{} × {}", figure(e.kwh_per_day), short(price)),
            pay(cost),
        ));
    }
    out.push(formula(
        "cost of a month",
        "cost of a day × 365 / 12 days",
        format!("{} × {}", money(c.per_day, None), precise(MONTH_DAYS)),
        pay(c.per_month),
    ));
    out.push(formula(
        "1,000 requests, at this demand",
        "cost of a day / requests of a day × 1,000",
        format!("{} / {} × 1,000", money(c.per_day, None), volume(d.per_day)),
        pay(c.per_1000_requests),
    ));
    if let (Some(tokens), Some(demand)) = (r.output_tokens, c.per_mtok) {
        out.push(formula(
            "a million output tokens, at this demand",
            "cost of a day / (requests of a day × output tokens of one) × 1,000,000",
            format!("{} / ({} × {}) × 1,000,000", money(c.per_day, None), volume(d.per_day), precise(tokens)),
            pay(demand),
        ));
    }
    out
}

/// Returns the formulas of the cost of one replica that always runs at its rate.
fn money_of_one(r: &Replica, currency: Option<&str>) -> Vec<Formula> {
    let pay = |x: f64| money(x, currency);
    let Some(hour) = r.cost_per_gpu_hour() else { return Vec::new() };
    let mut out = Vec::new();
    out.extend(r.full_load_per_1000_requests().map(|x| {
        formula(
            "1,000 requests, at full load",
            "GPUs per replica × cost of a GPU-hour / 3,600 s / rate of one × 1,000",
            format!("{} × {} / 3,600 / {} × 1,000", r.gpus, short(hour), precise(r.rate)),
            pay(x),
        )
    }));
    if let (Some(tokens), Some(full)) = (r.output_tokens, r.full_load_per_mtok()) {
        out.push(formula(
            "a million output tokens, at full load",
            "GPUs per replica × cost of a GPU-hour / 3,600 s / (rate of one × output tokens of a request) × 1,000,000",
            format!("{} × {} / 3,600 / ({} × {}) × 1,000,000", r.gpus, short(hour), precise(r.rate), precise(tokens)),
            pay(full),
        ));
    }
    out.extend(r.rate_per_cost().map(|x| {
        formula(
            "requests/s for 1 an hour",
            "rate of one / (GPUs per replica × cost of a GPU-hour)",
            format!("{} / ({} × {})", precise(r.rate), r.gpus, short(hour)),
            precise(x),
        )
    }));
    out
}

/// Returns the formula of the cost of an autoscaled fleet, whose size follows the hourly demand.
fn autoscaled(f: &Fleet, currency: Option<&str>) -> Option<Formula> {
    let a = f.autoscaled.as_ref()?;
    let hour = f.replica.cost_per_gpu_hour()?;
    Some(formula(
        "cost of a day, autoscaled",
        "GPU-hours of a day, autoscaled × cost of a GPU-hour",
        format!("{} × {}", figure(a.gpu_hours_per_day), short(hour)),
        money(a.cost_per_day?, currency),
    ))
}
