//! The figures of a candidate as rows: a name, and each of its fleets.

use super::words::{is_one, money, percent, planned_apart};
use crate::escape::clip;
use crate::words::{figure, precise};
use goodput_core::units::{short, thousands};
use goodput_stats::capacity::demand::Demand;
use goodput_stats::capacity::fleet::{Fleet, MONTH_DAYS, Reserve};
use goodput_stats::capacity::limit::CostVerdict;
use goodput_stats::capacity::sizing::{Basis, Sizing};

/// What nothing is known of.
const UNKNOWN: &str = "–";

/// The heads of the columns behind the name, and the rows.
pub(super) struct Rows {
    pub(super) heads: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

/// A row: its name, and its cell for a fleet; `None` where it has none.
type Row<'a> = (String, Box<dyn Fn(&Fleet) -> Option<String> + 'a>);

/// The figures of one candidate: at the safe rate where there is one, and at the goodput beside it.
pub(super) fn of_one(demand: &Demand, reserve: &Reserve, s: &Sizing) -> Rows {
    let mut fleets: Vec<&Fleet> = s.at_safe_rate.iter().collect();
    fleets.push(&s.at_goodput);
    let at = match (s.candidate.measured.is_some(), s.candidate.basis.as_str()) {
        (_, "the goodput") => "at the goodput",
        (true, _) => "at the rate shown to meet",
        (false, _) => "at the given rate",
    };
    let mut heads: Vec<String> = s.at_safe_rate.iter().map(|_| "at the safe rate".to_owned()).collect();
    heads.push(at.into());
    let currency = s.candidate.currency.as_deref();
    let mut all = replicas(demand, reserve, s);
    all.extend(money_rows(currency, s));
    let cells = |(name, cell): Row<'_>| {
        let known: Vec<Option<String>> = fleets.iter().map(|f| cell(f)).collect();
        let any = known.iter().any(Option::is_some);
        any.then(|| {
            [name].into_iter().chain(known.into_iter().map(|c| c.unwrap_or(UNKNOWN.into()))).collect()
        })
    };
    Rows { heads, rows: all.into_iter().filter_map(cells).collect() }
}

fn replicas<'a>(demand: &Demand, reserve: &Reserve, s: &Sizing) -> Vec<Row<'a>> {
    let gpu = s.candidate.gpu.as_deref().map_or("GPU".into(), |g| clip(g, 24));
    let each = s.candidate.goodput.gpus;
    let of = if each == 1 { gpu.clone() } else { format!("{each} × {gpu}") };
    let (headroom, spares) = (!is_one(reserve.headroom), reserve.spares > 0);
    let whole = |n: u64| Some(thousands(n as f64));
    let lost = |f: &Fleet| match f.utilisation_peak_one_lost {
        None => Some("none left".into()),
        Some(u) if f.survives_one_lost() => Some(percent(u)),
        Some(u) => Some(format!("✕ {}", percent(u))),
    };
    let mut rows: Vec<Row<'a>> = vec![(
        format!("one replica ({of}) takes, requests/s"),
        Box::new(|f: &Fleet| Some(precise(f.replica.rate))),
    )];
    let plain = if is_one(demand.peak_to_mean) { "replicas for the mean" } else { "replicas for the peak" };
    rows.push((plain.into(), Box::new(move |f: &Fleet| whole(f.replicas_for_peak))));
    if headroom {
        let name = format!("… with headroom {}", short(reserve.headroom));
        rows.push((name, Box::new(move |f: &Fleet| whole(f.replicas_with_headroom))));
    }
    if spares {
        let name = format!("… and {} spare", reserve.spares);
        rows.push((name, Box::new(move |f: &Fleet| whole(f.replicas))));
    }
    rows.push(("GPUs".into(), Box::new(move |f: &Fleet| whole(f.gpus))));
    rows.push(("utilisation in the mean".into(), Box::new(|f: &Fleet| Some(percent(f.utilisation_mean)))));
    if !is_one(demand.peak_to_mean) {
        rows.push(("… at the peak".into(), Box::new(|f: &Fleet| Some(percent(f.utilisation_peak)))));
    }
    rows.push(("… at the peak, one replica lost".into(), Box::new(lost)));
    rows
}

fn money_rows<'a>(currency: Option<&'a str>, s: &Sizing) -> Vec<Row<'a>> {
    let pay = move |x: f64| money(x, currency);
    let limit = s.candidate.max_cost_per_mtok;
    let judged = move |x: f64| match limit {
        Some(max) if x > max * (1.0 + 1e-9) => format!("✕ {}", pay(x)),
        _ => pay(x),
    };
    vec![
        ("power under load, kW".into(), Box::new(|f: &Fleet| f.energy.map(|e| figure(e.watts / 1e3)))),
        ("energy of a day, kWh".into(), Box::new(|f: &Fleet| f.energy.map(|e| figure(e.kwh_per_day)))),
        ("cost of a day".into(), Box::new(move |f: &Fleet| f.cost.map(|c| pay(c.per_day)))),
        ("… of it energy".into(), Box::new(move |f: &Fleet| f.cost.and_then(|c| c.energy_per_day).map(pay))),
        (
            format!("cost of a month of {} days", precise(MONTH_DAYS)),
            Box::new(move |f: &Fleet| f.cost.map(|c| pay(c.per_month))),
        ),
        (
            "cost of a million output tokens, at this demand".into(),
            Box::new(move |f: &Fleet| f.cost.and_then(|c| c.per_mtok).map(judged)),
        ),
        (
            "… at full load, at its rate all day".into(),
            Box::new(move |f: &Fleet| f.cost.and_then(|c| c.full_load_per_mtok).map(pay)),
        ),
        (
            "cost of 1,000 requests, at this demand".into(),
            Box::new(move |f: &Fleet| f.cost.map(|c| pay(c.per_1000_requests))),
        ),
        (
            "… at full load, at its rate all day".into(),
            Box::new(move |f: &Fleet| f.cost.and_then(|c| c.full_load_per_1000_requests).map(pay)),
        ),
        (
            "autoscaled by the hour, replicas".into(),
            Box::new(|f: &Fleet| autoscaled(f).map(|a| format!("{} to {}", a.least, a.most))),
        ),
        (
            "… GPU-hours of a day, of the fixed ones".into(),
            Box::new(|f: &Fleet| {
                autoscaled(f).map(|a| {
                    format!("{} of {}", figure(a.gpu_hours_per_day), figure(a.fixed_gpu_hours_per_day))
                })
            }),
        ),
        (
            "… cost of a day".into(),
            Box::new(move |f: &Fleet| autoscaled(f).and_then(|a| a.cost_per_day).map(pay)),
        ),
    ]
}

fn autoscaled(f: &Fleet) -> Option<&goodput_stats::capacity::fleet::Autoscaled> {
    f.autoscaled.as_ref()
}

/// Several candidates, a row each: the rate that all of them have, and what each takes at the rate that it is planned with.
pub(super) fn of_several(by: Basis, all: &[Sizing]) -> Rows {
    let any = |of: fn(&Fleet) -> bool| all.iter().any(|s| of(s.planned()));
    let priced = any(|f| f.cost.is_some());
    let limited = all.iter().any(|s| s.cost_limit.is_some());
    let rate = match by {
        Basis::SafeRate => "safe rate of a replica, req/s",
        Basis::Goodput => "goodput of a replica, req/s",
    };
    let mut heads = vec!["GPU".to_owned(), rate.into()];
    heads.extend(priced.then(|| "req/s for 1 an hour".into()));
    let apart = planned_apart(all);
    heads.extend(apart.then(|| "planned with, req/s".into()));
    heads.extend(["GPUs", "peak use"].map(Into::into));
    heads.extend(
        priced.then(|| ["cost of a day", "a million tokens"].map(String::from)).into_iter().flatten(),
    );
    heads.extend(limited.then(|| "cost limit".into()));
    let row = |s: &Sizing| {
        let (ranked, f) = (by.fleet(s), s.planned());
        let currency = s.candidate.currency.as_deref();
        let pay = |x: Option<f64>| x.map_or(UNKNOWN.into(), |x| money(x, currency));
        let gpu = s.candidate.gpu.as_deref().map_or(UNKNOWN.into(), |g| clip(g, 24));
        let gpu = if f.replica.gpus == 1 { gpu } else { format!("{} × {gpu}", f.replica.gpus) };
        let mut cells = vec![clip(&s.candidate.name, 40), gpu, precise(ranked.replica.rate)];
        cells.extend(priced.then(|| ranked.replica.rate_per_cost().map_or(UNKNOWN.into(), precise)));
        cells.extend(apart.then(|| precise(f.replica.rate)));
        cells.extend([thousands(f.gpus as f64), percent(f.utilisation_peak)]);
        if priced {
            cells.extend([pay(f.cost.map(|c| c.per_day)), pay(f.cost.and_then(|c| c.per_mtok))]);
        }
        cells.extend(limited.then(|| s.cost_limit.map_or(UNKNOWN, CostVerdict::name).to_owned()));
        cells
    };
    Rows { heads, rows: all.iter().map(row).collect() }
}
