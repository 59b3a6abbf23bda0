//! The figures of a candidate as rows: a name, and a cell for each of its fleets.

use super::words::{is_one, money, percent, planned_apart};
use crate::document::{Cell, Column, Field, Mark, Table, UNKNOWN};
use crate::escape::clip;
use crate::words::{figure, precise};
use goodput_core::units::short;
use goodput_stats::capacity::demand::Demand;
use goodput_stats::capacity::fleet::{Fleet, MONTH_DAYS, Reserve};
use goodput_stats::capacity::limit::CostVerdict;
use goodput_stats::capacity::sizing::{Basis, Sizing};

/// A row: its name, and its cell for a fleet; `None` if the fleet has none.
type FleetFigure<'a> = (String, Box<dyn Fn(&Fleet) -> Option<Cell> + 'a>);

/// Returns the figures of one candidate: at the safe rate, if any, and at the goodput.
pub(super) fn of_one(demand: &Demand, reserve: &Reserve, s: &Sizing) -> Table {
    let mut fleets: Vec<&Fleet> = s.at_safe_rate.iter().collect();
    fleets.push(&s.at_goodput);
    let at = match (s.candidate.measured.is_some(), s.candidate.basis.as_str()) {
        (_, "the goodput") => "at the goodput",
        (true, _) => "at the rate shown to meet",
        (false, _) => "at the given rate",
    };
    let mut columns = vec![Column::text("")];
    columns.extend(s.at_safe_rate.iter().map(|_| Column::number("at the safe rate")));
    columns.push(Column::number(at));
    let currency = s.candidate.currency.as_deref();
    let mut all = replicas(demand, reserve, s);
    all.extend(money_rows(currency, s));
    let cells = |(name, cell): FleetFigure<'_>| {
        let known: Vec<Option<Cell>> = fleets.iter().map(|f| cell(f)).collect();
        let any = known.iter().any(Option::is_some);
        any.then(|| {
            let cells = known.into_iter().map(|c| c.unwrap_or(Cell::Unknown));
            std::iter::once(Cell::text(name)).chain(cells).collect()
        })
    };
    Table::new(columns, all.into_iter().filter_map(cells).collect())
}

fn replicas<'a>(demand: &Demand, reserve: &Reserve, s: &Sizing) -> Vec<FleetFigure<'a>> {
    let gpu = s.candidate.gpu.as_deref().map_or("GPU".into(), |g| clip(g, 24));
    let each = s.candidate.goodput.gpus;
    let of = if each == 1 { gpu.clone() } else { format!("{each} × {gpu}") };
    let (headroom, spares) = (!is_one(reserve.headroom), reserve.spares > 0);
    let whole = |n: u64| Some(Cell::Count(n as f64));
    let lost = |f: &Fleet| match f.utilisation_peak_one_lost {
        None => Some(Cell::text("none left")),
        Some(u) if f.survives_one_lost() => Some(share(u)),
        Some(u) => Some(Cell::marked(Mark::Bad, percent(u))),
    };
    let mut rows: Vec<FleetFigure<'a>> = vec![(
        format!("one replica ({of}) takes, requests/s"),
        Box::new(|f: &Fleet| Some(Cell::Precise(f.replica.rate))),
    )];
    if let Some(items) = s.candidate.items {
        let takes = move |f: &Fleet| Some(Cell::Precise(f.replica.rate * items.per_request));
        rows.push((format!("… {}/s", items.item.plural()), Box::new(takes)));
    }
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
    rows.push(("utilisation in the mean".into(), Box::new(|f: &Fleet| Some(share(f.utilisation_mean)))));
    if !is_one(demand.peak_to_mean) {
        rows.push(("… at the peak".into(), Box::new(|f: &Fleet| Some(share(f.utilisation_peak)))));
    }
    rows.push(("… at the peak, one replica lost".into(), Box::new(lost)));
    rows
}

fn share(x: f64) -> Cell {
    Cell::figure(percent(x), Some(x))
}

fn money_rows<'a>(currency: Option<&'a str>, s: &Sizing) -> Vec<FleetFigure<'a>> {
    let pay = move |x: f64| Cell::figure(money(x, currency), Some(x));
    let items = s.candidate.items;
    let of_items = move |of_requests: f64| items.map(|items| pay(of_requests / items.per_request));
    let thousand =
        format!("cost of 1,000 {}, at this demand", items.map_or("items", |items| items.item.plural()));
    let limit = s.candidate.max_cost_per_mtok;
    let judged = move |x: f64| match limit {
        Some(max) if x > max * (1.0 + 1e-9) => Cell::marked(Mark::Bad, money(x, currency)),
        _ => pay(x),
    };
    vec![
        ("power under load, kW".into(), Box::new(|f: &Fleet| f.energy.map(|e| Cell::Number(e.watts / 1e3)))),
        ("energy of a day, kWh".into(), Box::new(|f: &Fleet| f.energy.map(|e| Cell::Number(e.kwh_per_day)))),
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
            format!("output tokens for 1 {}, at this demand", unit(currency)),
            Box::new(move |f: &Fleet| f.cost.and_then(|c| c.per_mtok).map(tokens_for_one)),
        ),
        (
            "… at full load, at its rate all day".into(),
            Box::new(move |f: &Fleet| f.cost.and_then(|c| c.full_load_per_mtok).map(tokens_for_one)),
        ),
        (
            "cost of 1,000 requests, at this demand".into(),
            Box::new(move |f: &Fleet| f.cost.map(|c| pay(c.per_1000_requests))),
        ),
        (
            "… at full load, at its rate all day".into(),
            Box::new(move |f: &Fleet| f.cost.and_then(|c| c.full_load_per_1000_requests).map(pay)),
        ),
        (thousand, Box::new(move |f: &Fleet| f.cost.and_then(|c| of_items(c.per_1000_requests)))),
        (
            "… at full load, at its rate all day".into(),
            Box::new(move |f: &Fleet| f.cost.and_then(|c| c.full_load_per_1000_requests).and_then(of_items)),
        ),
        (
            "autoscaled by the hour, replicas".into(),
            Box::new(|f: &Fleet| autoscaled(f).map(|a| Cell::text(format!("{} to {}", a.least, a.most)))),
        ),
        (
            "… GPU-hours of a day, of the fixed ones".into(),
            Box::new(|f: &Fleet| {
                autoscaled(f).map(|a| {
                    let (own, fixed) = (figure(a.gpu_hours_per_day), figure(a.fixed_gpu_hours_per_day));
                    Cell::text(format!("{own} of {fixed}"))
                })
            }),
        ),
        (
            "… cost of a day".into(),
            Box::new(move |f: &Fleet| autoscaled(f).and_then(|a| a.cost_per_day).map(pay)),
        ),
    ]
}

/// Returns the number of output tokens for one unit of the currency, from the cost of a million.
fn tokens_for_one(per_mtok: f64) -> Cell {
    if per_mtok > 0.0 { Cell::Number(1e6 / per_mtok) } else { Cell::Unknown }
}

/// Returns the name of one unit of the currency of several candidates, if they have one in common.
fn one_unit(all: &[Sizing]) -> String {
    let mut labels = all.iter().map(|s| s.candidate.currency.as_deref());
    let first = labels.next().flatten();
    unit(first.filter(|_| labels.all(|l| l == first)))
}

/// Returns the name of one unit of a currency.
fn unit(currency: Option<&str>) -> String {
    currency.map_or_else(|| "of the price".into(), |label| clip(label, 12))
}

fn autoscaled(f: &Fleet) -> Option<&goodput_stats::capacity::fleet::Autoscaled> {
    f.autoscaled.as_ref()
}

/// Returns a row for each of several candidates: the rate that all of them have, and the fleet at the rate planned for
/// each.
pub(super) fn of_several(by: Basis, all: &[Sizing]) -> Table {
    let any = |of: fn(&Fleet) -> bool| all.iter().any(|s| of(s.planned()));
    let priced = any(|f| f.cost.is_some());
    let limited = all.iter().any(|s| s.cost_limit.is_some());
    let rate = match by {
        Basis::SafeRate => "safe rate of a replica, req/s",
        Basis::Goodput => "goodput of a replica, req/s",
    };
    let pay = |s: &Sizing, x: Option<f64>| {
        let currency = s.candidate.currency.as_deref();
        x.map_or(Cell::Unknown, |x| Cell::figure(money(x, currency), Some(x)))
    };
    let mut fields = vec![
        Field::new(Column::text(""), |s: &Sizing| Cell::text(clip(&s.candidate.name, 40))),
        Field::new(Column::quantity("GPU"), gpus),
        Field::new(Column::number(rate), |s: &Sizing| Cell::Precise(by.fleet(s).replica.rate)),
    ];
    fields.extend(priced.then(|| {
        Field::new(Column::number("req/s for 1 an hour"), |s: &Sizing| {
            by.fleet(s).replica.rate_per_cost().map_or(Cell::Unknown, Cell::Precise)
        })
    }));
    fields.extend(planned_apart(all).then(|| {
        Field::new(Column::number("planned with, req/s"), |s: &Sizing| {
            Cell::Precise(s.planned().replica.rate)
        })
    }));
    fields.push(Field::new(Column::number("GPUs"), |s: &Sizing| Cell::Count(s.planned().gpus as f64)));
    fields.push(Field::new(Column::number("peak use"), |s: &Sizing| share(s.planned().utilisation_peak)));
    if priced {
        fields.extend([
            Field::new(Column::number("cost of a day"), |s: &Sizing| {
                pay(s, s.planned().cost.map(|c| c.per_day))
            }),
            Field::new(Column::number("a million tokens"), |s: &Sizing| {
                pay(s, s.planned().cost.and_then(|c| c.per_mtok))
            }),
            Field::new(Column::number(format!("tokens for 1 {}", one_unit(all))), |s: &Sizing| {
                s.planned().cost.and_then(|c| c.per_mtok).map_or(Cell::Unknown, tokens_for_one)
            }),
        ]);
    }
    let kept = |s: &Sizing| s.cost_limit.map_or(Cell::Unknown, |kept| Cell::text(CostVerdict::name(kept)));
    fields.extend(limited.then(|| Field::new(Column::number("cost limit"), kept)));
    Table::of(fields, all)
}

fn gpus(s: &Sizing) -> Cell {
    let each = s.planned().replica.gpus;
    match s.candidate.gpu.as_deref().map(|g| clip(g, 24)) {
        None if each == 1 => Cell::Unknown,
        gpu if each == 1 => Cell::text(gpu.unwrap_or_default()),
        gpu => Cell::text(format!("{each} × {}", gpu.as_deref().unwrap_or(UNKNOWN))),
    }
}
