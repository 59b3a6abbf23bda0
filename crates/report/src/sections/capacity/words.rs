//! Words shared by table, Markdown and chart: the headline, the demand, amounts of money, and caveats.

use super::answer::Capacity;
use super::slide;
use crate::escape::{clip, plain};
use crate::sections::trace::bursts_warning;
use crate::words::{capital, figure, precise};
use goodput_core::units::{short, thousands};
use goodput_stats::capacity::demand::{Busiest, Demand, Peak, Source};
use goodput_stats::capacity::fleet::{Fleet, Replica, Reserve};
use goodput_stats::capacity::sizing::{
    Basis, Candidate, Sizing, basis, currencies, differences, same_server,
};
use goodput_workload::trace::duration_text;

impl Capacity {
    /// Returns the headline of a report or a chart.
    pub(crate) fn headline(&self) -> String {
        headline(self)
    }

    /// Returns a headline that fits above a chart.
    pub(crate) fn chart_headline(&self) -> String {
        slide::headline(self)
    }

    /// Returns the rate of each GPU, for a line below that headline.
    pub(crate) fn chart_rate(&self) -> Option<String> {
        slide::rate(self)
    }

    /// Returns the demand in one line.
    pub(crate) fn about(&self) -> String {
        demand(&self.demand, &self.reserve)
    }

    /// Returns the price below a chart of one candidate; `None` for several, and without a price.
    pub(crate) fn chart_price(&self) -> Option<String> {
        slide::price(self)
    }

    /// Returns the parts of [`Self::about`]: the volume, the mean rate, and what the legend of a chart has as well.
    pub(crate) fn about_in_parts(&self) -> Vec<String> {
        demand_in_parts(&self.demand, &self.reserve)
    }
}

/// Maximum number of cases in the headline.
const CASES: usize = 4;

/// Returns true if a number equals one, up to rounding.
pub(super) fn is_one(x: f64) -> bool {
    (x - 1.0).abs() < 1e-9
}

/// Returns a count with its noun: `1 GPU`, `4 GPUs`.
pub(super) fn counted(n: u64, what: &str) -> String {
    format!("{} {what}{}", thousands(n as f64), if n == 1 { "" } else { "s" })
}

/// Formats an amount of money for people: `0.125 USD`, `37.44 USD`, `13,666 USD`.
pub(super) fn money(x: f64, currency: Option<&str>) -> String {
    let number = match x.abs() {
        a if a < 1.0 => short(x),
        a if a < 999.995 => format!("{x:.2}"),
        _ => thousands(x),
    };
    format!("{number}{}", currency.map(|c| format!(" {}", clip(c, 12))).unwrap_or_default())
}

/// Formats requests per day: `5,000,000`.
pub(super) fn volume(per_day: f64) -> String {
    if per_day < 999.5 { short(per_day) } else { thousands(per_day) }
}

/// Returns the unit for a number of GPUs: `A40`, `GPU`.
fn unit(replica: &Replica, gpu: Option<&str>) -> String {
    let gpu = gpu.map_or("GPU".into(), |g| clip(g, 40));
    if replica.gpus == 1 { gpu } else { format!("replica of {} × {gpu}", replica.gpus) }
}

/// Returns the fleet of a candidate in one line: `5,000,000 requests a day at 35 requests/s per GPU: 57.87 requests/s,
/// 2 GPUs; with headroom 2: 4 GPUs`.
pub(super) fn takes(demand: &Demand, reserve: &Reserve, s: &Sizing) -> String {
    let f = s.planned();
    let gpus = |replicas: u64| counted(replicas.saturating_mul(u64::from(f.replica.gpus)), "GPU");
    let what = match (s.at_safe_rate.is_some(), s.candidate.measured.is_some()) {
        (true, _) => ", the safe rate",
        (false, true) if s.candidate.basis == "the goodput" => ", the goodput",
        (false, true) => ", shown to meet the SLO",
        (false, false) => "",
    };
    let at = if is_one(demand.peak_to_mean) { "" } else { " at the peak" };
    let mut out = format!(
        "{} requests a day at {} requests/s per {}{what}: {} requests/s{at}, {}",
        volume(demand.per_day),
        precise(f.replica.rate),
        unit(&f.replica, s.candidate.gpu.as_deref()),
        precise(demand.peak_rate),
        gpus(f.replicas_for_peak)
    );
    if !is_one(reserve.headroom) {
        out.push_str(&format!(
            "; with headroom {}: {}",
            short(reserve.headroom),
            gpus(f.replicas_with_headroom)
        ));
    }
    if reserve.spares > 0 {
        let and = if is_one(reserve.headroom) { "with" } else { "and" };
        out.push_str(&format!(
            "; {and} {}: {}",
            counted(u64::from(reserve.spares), "spare replica"),
            gpus(f.replicas)
        ));
    }
    out
}

/// Returns the name of a candidate as a prefix, if its run has several: `grid, max-num-seqs=8: `.
pub(super) fn named(candidate: &Candidate) -> String {
    let several = candidate.measured.as_ref().is_some_and(|m| m.run != candidate.name);
    if several { format!("{}: ", clip(&candidate.name, 80)) } else { String::new() }
}

/// Returns the answer in one line.
pub(super) fn headline(c: &Capacity) -> String {
    match &c.all[..] {
        [] => "No capacity: no rate is shown to meet the SLO".into(),
        [one] => format!("{}{}", named(&one.candidate), takes(&c.demand, &c.reserve, one)),
        all => ranking(c, all),
    }
}

/// Returns which of several candidates serves the most for its cost.
fn ranking(c: &Capacity, all: &[Sizing]) -> String {
    let by = basis(all);
    let worth = |s: &Sizing| by.fleet(s).replica.rate_per_cost();
    let (first, second) = (&all[0], &all[1]);
    let apart = planned_apart(all);
    let needs = |s: &Sizing| {
        let f = s.planned();
        let cost = f.cost.map(|x| format!(", {} a day", money(x.per_day, s.candidate.currency.as_deref())));
        let at = if apart { planned_at(s) } else { String::new() };
        format!("{}{}{at}", counted(f.gpus, "GPU"), cost.unwrap_or_default())
    };
    let beside = |s: &Sizing| format!("{} takes {}", s.candidate.name, needs(s));
    let volume = volume(c.demand.per_day);
    if let Some([one, other]) = same_server(all) {
        let each: Vec<String> = all.iter().take(CASES).map(beside).collect();
        let more = all.len().saturating_sub(CASES);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        return format!(
            "{volume} requests a day: {}{more}; {one} and {other} are cases of one server, not rivals",
            each.join("; ")
        );
    }
    if currencies(all).len() > 1 || worth(second).is_none() {
        return format!("{volume} requests a day: {}; {}", beside(first), beside(second));
    }
    // A large candidate may be the best at its full rate and yet be mostly idle at low demand.
    let cost = |f: &Fleet| f.cost.map_or(f64::INFINITY, |x| x.per_day);
    let less = |a: f64, b: f64| a < b * (1.0 - 1e-9);
    // By the rate that all have, and by the planned rate.
    let cheaper = |s: &&Sizing| {
        less(cost(by.fleet(s)), cost(by.fleet(first))) && less(cost(s.planned()), cost(first.planned()))
    };
    let cheapest = all.iter().filter(cheaper).min_by(|a, b| cost(a.planned()).total_cmp(&cost(b.planned())));
    let cheaper = cheapest.map(|s| {
        let cost = money(cost(s.planned()), s.candidate.currency.as_deref());
        format!("; for this demand {} is the cheapest ({cost} a day)", s.candidate.name)
    });
    format!(
        "{volume} requests a day: {} takes the most for its money{} ({}), before {} ({}){}",
        first.candidate.name,
        if apart { " at the goodput" } else { "" },
        needs(first),
        second.candidate.name,
        needs(second),
        cheaper.unwrap_or_default()
    )
}

/// Returns true if some candidates are planned at another rate than the one that ranks all: some have a safe rate and
/// others do not.
pub(super) fn planned_apart(all: &[Sizing]) -> bool {
    basis(all) == Basis::Goodput && all.iter().any(|s| s.at_safe_rate.is_some())
}

/// Returns the rate at which the GPUs of a candidate are counted.
fn planned_at(s: &Sizing) -> String {
    match s.at_safe_rate {
        Some(_) => " at the safe rate".into(),
        None => format!(" at {}, it has no safe rate", s.candidate.basis),
    }
}

/// Returns the demand in one line, with the reserve.
pub(super) fn demand(d: &Demand, r: &Reserve) -> String {
    demand_in_parts(d, r).join(", ")
}

fn demand_in_parts(d: &Demand, r: &Reserve) -> Vec<String> {
    let mut parts = vec![
        format!("{} requests a day", volume(d.per_day)),
        format!("{} requests/s in the mean", precise(d.mean_rate)),
    ];
    if !is_one(d.peak_to_mean) {
        parts.push(format!("peak {} × the mean", precise(d.peak_to_mean)));
    }
    parts.push(format!("headroom {}", short(r.headroom)));
    if r.spares > 0 {
        parts.push(counted(u64::from(r.spares), "spare replica"));
    }
    parts
}

/// Returns the source of a demand, as the end of its sentence; empty for a volume.
fn origin(d: &Demand) -> String {
    match &d.source {
        Source::Volume => String::new(),
        Source::Rate => ", from the rate".into(),
        Source::Profile { file, shape_only } => {
            let days = d.hours.len() / 24;
            let days = if days == 1 { String::new() } else { format!(", {days} days") };
            format!(", {} of {}{days}", if *shape_only { "in the shape" } else { "the mean" }, clip(file, 60))
        }
        Source::Trace { title, shape_only, .. } => {
            format!(
                ", {}: {}",
                if *shape_only {
                    "in the shape of the trace"
                } else {
                    "held all day at the mean of the trace"
                },
                clip(title, 140)
            )
        }
    }
}

/// Returns the peak of a demand and its source.
fn peak(d: &Demand) -> String {
    let peak = format!("{} requests/s, {} × the mean", precise(d.peak_rate), precise(d.peak_to_mean));
    match &d.peak {
        Peak::Given if is_one(d.peak_to_mean) => {
            "taken to be the mean: no --peak-to-mean, --profile or --trace is given".into()
        }
        Peak::Given => peak,
        Peak::Hour(place) => {
            let name = d.hours.get(*place).map_or("", |h| h.name.as_str());
            format!("{peak}: the hour {}", clip(name, 30))
        }
        Peak::Busiest(b) => format!("{peak}: {}", window(b)),
    }
}

/// Returns the demand as rows of names and values.
pub(super) fn demand_rows(d: &Demand, r: &Reserve) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        (
            "demand",
            format!(
                "{} requests a day, {} requests/s in the mean{}",
                volume(d.per_day),
                precise(d.mean_rate),
                origin(d)
            ),
        ),
        ("peak", peak(d)),
    ];
    if d.busiest.len() > 1 {
        let all = d
            .busiest
            .iter()
            .skip(1)
            .map(|b| format!("{} × in {}", precise(b.peak_to_mean), duration_text(b.width_s)));
        rows.push((
            "shorter peaks",
            format!("{} (more of it is chance, the shorter)", all.collect::<Vec<_>>().join(", ")),
        ));
    }
    if !is_one(r.headroom) {
        rows.push((
            "to plan for",
            format!("{} requests/s, with headroom {}", precise(d.peak_rate * r.headroom), short(r.headroom)),
        ));
    }
    rows
}

/// Returns the measurement conditions of a single candidate, as rows like those of the demand.
pub(super) fn measured_rows(c: &Capacity) -> Vec<(&'static str, String)> {
    let [s] = &c.all[..] else { return Vec::new() };
    let Some(m) = &s.candidate.measured else { return Vec::new() };
    vec![
        ("SLO", plain(&m.slo)),
        ("measured", format!("{}: {}", clip(&s.candidate.name, 80), clip(&m.workload, 120))),
    ]
}

/// Returns the busiest interval of a trace: `the busiest 10 min, from 20 min on`.
fn window(b: &Busiest) -> String {
    let from = if b.from_s < 1.0 {
        "from the first request on".into()
    } else {
        format!("from {} after the first request on", duration_text(b.from_s))
    };
    format!("its busiest {}, {from}", duration_text(b.width_s))
}

/// Returns warnings, to be shown first, if candidates are not comparable: differing conditions, and prices in several
/// currencies.
pub(super) fn warnings(c: &Capacity) -> Vec<String> {
    let mut all: Vec<String> = differences(&c.all)
        .into_iter()
        .map(|what| format!("These runs are not alike, so neither are their figures. {}.", capital(&what)))
        .collect();
    let labels = currencies(&c.all);
    if labels.len() > 1 {
        let names: Vec<String> =
            labels.iter().map(|l| l.as_deref().map_or("no label".into(), |l| clip(l, 12))).collect();
        all.push(format!(
            "Prices are in {}: nothing is converted, so costs are compared only within each.",
            names.join(" and ")
        ));
    }
    all
}

/// Returns the effect of a changed workload on the number of GPUs, a sentence each.
pub(super) fn bands(s: &Sizing) -> Vec<String> {
    let gpus = s.planned().gpus;
    s.bands.iter().map(|b| format!("{}.", capital(&crate::sections::sensitivity::band(b, gpus)))).collect()
}

/// Returns the caveats.
pub(super) fn notes(c: &Capacity) -> Vec<String> {
    let mut all = Vec::new();
    let several = c.all.len() > 1;
    for s in &c.all {
        let whose = if several { format!("{}: ", s.candidate.name) } else { String::new() };
        all.extend(s.candidate.notes.iter().map(|n| format!("{whose}{n}")));
        if let Some(said) = one_lost(c, s.planned()) {
            all.push(format!("{whose}{said}"));
        }
        if s.planned().energy.is_some() {
            all.push(format!("{whose}Energy is that of GPUs under load all day, and of GPUs alone: an upper bound for them, without host, network and cooling."));
        }
    }
    let within = match &c.demand.peak {
        Peak::Busiest(b) => format!("the busiest {}", duration_text(b.width_s)),
        Peak::Hour(_) | Peak::Given => "an hour".into(),
    };
    all.push(format!(
        "Rates are means within {within}. Where a goodput was found with Poisson arrivals, their scatter from second to second is in it; a mean \
         that moves within {within} is not: that is what headroom is for."
    ));
    if c.all.iter().any(|s| s.planned().replicas > 1) {
        all.push("Replicas are taken to add up: each gets an even share of the requests, and its cache hits stay what they were.".into());
    }
    if c.all.iter().any(|s| !s.bands.is_empty()) {
        all.push("GPUs for another workload are reckoned from elasticities that were measured near the goodput, for as many requests: the rate of a replica times the change to that power.".into());
    }
    if c.all.iter().any(|s| s.planned().autoscaled.is_some()) {
        all.push("Autoscaled: as many replicas in each hour as it needs, with peaks as far above its mean as those of the busiest hour, and one at the least; the time that one takes to start is not in it.".into());
    }
    if let Source::Trace { dispersion: Some(d), .. } = &c.demand.source {
        all.extend(bursts_warning(d));
    }
    if matches!(c.demand.source, Source::Trace { shape_only: false, .. }) {
        all.push("The mean of the trace is taken for that of every hour of a day; --daily-volume gives the day's own.".into());
    }
    let mut seen: Vec<String> = Vec::new();
    all.retain(|n| {
        let new = !seen.contains(n);
        seen.push(n.clone());
        new
    });
    all
}

/// Returns the effect of losing one replica at peak, if the rest cannot serve it.
fn one_lost(c: &Capacity, f: &Fleet) -> Option<String> {
    if f.survives_one_lost() {
        return None;
    }
    Some(match f.utilisation_peak_one_lost {
        None => "There is one replica: when it fails, nothing is served. --spare-replicas 1 adds one.".into(),
        Some(u) => {
            let more = if c.reserve.spares == 0 { " --spare-replicas 1 adds one." } else { "" };
            format!(
                "With one replica lost, the peak is {} of what the others can take, beyond the SLO.{more}",
                percent(u)
            )
        }
    })
}

/// Formats a share in per cent.
pub(super) fn percent(share: f64) -> String {
    format!("{} %", figure((1_000.0 * share).round() / 10.0))
}
