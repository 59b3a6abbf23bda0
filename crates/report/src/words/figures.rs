//! The figures of the answer in words: the three goodputs, capacity and cost, and caveats.

use super::caveat::{CaveatWords, Context, caveat};
use super::estimate::ends;
use super::estimate::numbers;
use super::levels::{level, noun, step_level};
use super::names::tier_of;
use super::units::{count, figure, level_number, precise};
use crate::escape::clip;
use goodput_core::caveat::{Caveat, ClientCaveat, OriginCaveat, OwnFault};
use goodput_core::endpoint::Item;
use goodput_core::level::Control;
use goodput_core::units::{Positive, short};
use goodput_run::rundir::Run;
use goodput_run::rundir::derive::{interval, usable_safe_rate};
use goodput_stats::capacity::Capacity;
use goodput_stats::search::answer::{Answer, Goodput, KneeBasis, Status};
use goodput_stats::stats::step::Step;

/// Returns a goodput for a table cell: `at least 30 req/s, fails at 34.6`; the low end of a bracket never appears
/// alone.
pub(crate) fn goodput_cell(control: Control, g: &Goodput) -> String {
    let unit = control.unit();
    let status = g.status().name();
    if let Some(([rate, low, high], safe)) = ends(control, g) {
        let safe = safe.map_or("no safe one".to_owned(), |s| format!("safe {s}"));
        let open = if g.status() == Status::Undecided { "undecided: about " } else { "" };
        return format!("{open}{rate}{unit} (90 % interval {low} – {high}, {safe})");
    }
    let rate = g.rate().filter(|_| !matches!(g.status(), Status::None | Status::Undecided));
    let safe = usable_safe_rate(g).map(level_number);
    match (rate, safe, g.bracket.met, g.bracket.failed) {
        (Some(rate), Some(safe), ..) => format!("at least {}{unit}, safe {safe}", level_number(rate)),
        (None, Some(safe), ..) => format!("{status} ({safe}{unit} is safe)"),
        (Some(rate), None, _, Some(failed)) => {
            format!("at least {}{unit}, fails at {}", level_number(rate), level_number(failed))
        }
        (Some(rate), None, _, None) => format!("at least {}{unit}, none fails", level_number(rate)),
        (None, _, Some(met), Some(failed)) => {
            format!("{status} ({}{unit} meets, {} fails)", level_number(met), level_number(failed))
        }
        (None, _, Some(met), None) => format!("{status} ({}{unit} meets, none fails)", level_number(met)),
        (None, _, None, Some(failed)) => {
            format!("{status} (none meets, {}{unit} fails)", level_number(failed))
        }
        (None, _, None, None) => status.to_owned(),
    }
}

/// Returns the share of requests that the joint goodput requires, in per cent: `99 %`.
pub(crate) fn joint_target(run: &Run, a: &Answer) -> String {
    let target = tier_of(run, a).map_or(0.99, goodput_core::slo::Slo::joint_target);
    format!("{} %", short(target * 100.0))
}

/// Returns the requests per second within all limits together at the answer's step; without an answer, the most of any
/// step.
pub(crate) fn good_requests(run: &Run, a: &Answer) -> String {
    let good = |s: &Step| s.good_rate_of(&a.tier);
    let say = |s: &Step| format!("{} req/s at {}", figure(good(s)), step_level(s));
    match run.good_step(a) {
        None => "not measured".into(),
        Some(s) if run.answering_step(a).is_some() => say(s),
        Some(s) if good(s) <= 0.0 => "0 req/s".into(),
        Some(s) => format!("best step {}", say(s)),
    }
}

/// Returns the knee, the rate at which more load stops adding throughput or latency turns up, with its evidence. An
/// untested knee is omitted if the answer itself is open, since a reader would take it for the answer.
pub(crate) fn knee(a: &Answer) -> Option<String> {
    let known = matches!(a.goodput.status(), Status::Found | Status::NotReached);
    let k = a.knee.as_ref().filter(|k| known || k.basis.is_tested())?;
    let [low, high] = k.interval90.unwrap_or([k.rate; 2]);
    let [rate, low, high] = numbers([k.rate, low, high]);
    let at = level(a.control, k.rate).replacen(&level_number(k.rate), &rate, 1);
    let interval = format!("90 % interval {low}–{high}, {} req/s achieved", figure(k.throughput));
    let said = match k.basis {
        KneeBasis::Throughput => format!("beyond {at} more load buys hardly any throughput ({interval})"),
        KneeBasis::Backlog => format!("beyond {at} the backlog grows ({interval})"),
        KneeBasis::Latency => format!("latency begins to grow faster than the load at {at} ({interval})"),
        KneeBasis::Kneedle => {
            format!(
                "latency turns up at {at} ({} req/s achieved), Kneedle's mark, not tested",
                figure(k.throughput)
            )
        }
    };
    Some(format!("{said} · not the SLO answer"))
}

/// One figure derived from a rate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Amount {
    /// The quantity that it counts.
    pub(crate) name: String,
    /// The figure of the whole server.
    pub(crate) all: String,
    /// The figure of one GPU; empty if there is one, or none is declared, or the figure is the same for both.
    pub(crate) per_gpu: String,
}

/// Short name of a request rate.
pub(crate) const REQUESTS: &str = "requests";
/// Short name of the figures of one GPU.
pub(crate) const PER_GPU: &str = "per GPU";

/// Returns the capacity at the level shown to meet.
pub(crate) fn capacity(run: &Run, c: &Capacity) -> Vec<Amount> {
    let several = c.per_gpu.filter(|_| run.meta.gpus.is_some_and(|n| n > 1));
    let each = |of: fn(&goodput_stats::capacity::PerGpu) -> Option<f64>| several.as_ref().and_then(of);
    let per_gpu = each(|g| Some(g.requests_per_s));
    let money = currency(run);
    let (items_per_s, cost_of_items) =
        (format!("{} per second", items(run)), format!("cost per 1,000 {}", items(run)));
    let rows = [
        ("requests per second", Some(c.requests_per_s), per_gpu),
        ("requests per minute", Some(c.requests_per_minute), per_gpu.map(|x| x * 60.0)),
        ("requests per hour", Some(c.requests_per_hour), per_gpu.map(|x| x * 3_600.0)),
        ("requests per day", Some(c.requests_per_day), per_gpu.map(|x| x * 86_400.0)),
        ("output tokens per second", c.output_tokens_per_s, each(|g| g.output_tokens_per_s)),
        ("prompt tokens per second", c.prompt_tokens_per_s, each(|g| g.prompt_tokens_per_s)),
        (&*items_per_s, c.items_per_s, each(|g| g.items_per_s)),
    ];
    let cell = |x: Option<f64>| x.map(count).unwrap_or_default();
    let mut all: Vec<Amount> = rows
        .into_iter()
        .filter(|(_, x, _)| x.is_some())
        .map(|(name, x, each)| Amount { name: name.to_owned(), all: cell(x), per_gpu: cell(each) })
        .collect();
    all[0].all = precise(c.requests_per_s);
    let costs = [
        ("cost per million output tokens", c.cost_per_mtok),
        ("cost per 1,000 requests", c.cost_per_1000_requests),
        (&*cost_of_items, c.cost_per_1000_items),
    ];
    for (name, x) in costs {
        all.extend(x.map(|x| Amount {
            name: name.to_owned(),
            all: format!("{}{money}", figure(x)),
            per_gpu: String::new(),
        }));
    }
    all
}

/// Returns the name of several items of a run; no figure has it where there are none.
fn items(run: &Run) -> &'static str {
    run.item().map_or("", Item::plural)
}

/// Returns the capacity in a few lines, for a terminal.
pub(crate) fn in_short(run: &Run, c: &Capacity) -> Vec<(&'static str, String)> {
    let money = currency(run);
    let tokens = [(c.output_tokens_per_s, "output"), (c.prompt_tokens_per_s, "prompt")];
    let tokens: Vec<String> =
        tokens.into_iter().filter_map(|(x, what)| Some(format!("{} {what} a second", count(x?)))).collect();
    let thousand_items = format!("1,000 {}", items(run));
    let costs = [
        (c.cost_per_mtok, "a million output tokens"),
        (c.cost_per_1000_items, &thousand_items),
        (c.cost_per_1000_requests, "1,000 requests"),
    ];
    let costs: Vec<String> =
        costs.into_iter().filter_map(|(x, what)| Some(format!("{}{money} for {what}", figure(x?)))).collect();
    let costs = match price(run) {
        Some(price) if !costs.is_empty() => format!("{}, {price}", costs.join(", ")),
        _ => costs.join(", "),
    };
    let per_gpu = c.per_gpu.filter(|_| run.meta.gpus.is_some_and(|n| n > 1)).map(|g| {
        let tokens = g.output_tokens_per_s.map(|t| format!(", {} output tokens/s", count(t)));
        format!("{} requests/s{}", count(g.requests_per_s), tokens.unwrap_or_default())
    });
    let requests = format!(
        "{} a minute, {} an hour, {} a day",
        count(c.requests_per_minute),
        count(c.requests_per_hour),
        count(c.requests_per_day)
    );
    [
        (REQUESTS, requests),
        (items(run), c.items_per_s.map(|x| format!("{} a second", count(x))).unwrap_or_default()),
        ("tokens", tokens.join(", ")),
        ("cost", costs),
        (PER_GPU, per_gpu.unwrap_or_default()),
    ]
    .into_iter()
    .filter(|(_, text)| !text.is_empty())
    .collect()
}

/// Returns the currency to follow an amount, with a leading space.
fn currency(run: &Run) -> String {
    run.currency.as_deref().map(|c| format!(" {}", clip(c, 12))).unwrap_or_default()
}

/// Formats an amount with its currency: `0.39 USD`.
pub(super) fn number_and_currency(run: &Run, amount: f64) -> String {
    format!("{}{}", figure(amount), currency(run))
}

/// Returns the price behind the costs, `at 0.39 USD an hour` or `at 2 × 0.39 USD an hour`, with its share of energy:
/// `at 0.465 USD an hour, 0.075 USD of it energy (300 W at 0.25 USD a kWh)`.
pub(crate) fn price(run: &Run) -> Option<String> {
    let own = &run.hardware;
    let gpus = run.meta.gpus.or(own.gpu_count()).unwrap_or(1).max(1);
    let each = figure(run.price_per_hour? / f64::from(gpus));
    let times = if gpus > 1 { format!("{gpus} × ") } else { String::new() };
    let energy = match (own.watts.map(Positive::get), own.energy_price.map(Positive::get)) {
        (Some(watts), Some(kwh)) => format!(
            ", {} of it energy ({} W at {} a kWh)",
            number_and_currency(run, watts / 1e3 * kwh),
            figure(watts),
            number_and_currency(run, kwh)
        ),
        (None, Some(_)) => ", without energy: what a GPU draws is not declared (hardware.watts)".into(),
        (_, None) => String::new(),
    };
    Some(format!("at {times}{each}{} an hour{energy}", currency(run)))
}

/// Returns the rate that the figures of the capacity are based on: `at 496 requests/s, as achieved in step 10`, `at
/// 33.4 requests/s, the goodput`.
pub(crate) fn basis(a: &Answer, c: &Capacity) -> String {
    let g = &a.goodput;
    let rate = precise(c.requests_per_s);
    if let (Some(_), Some(value)) = (usable_safe_rate(g), g.rate()) {
        let [number, _] = numbers([value, g.safe_rate().unwrap_or(value)]);
        let what = if interval(g).is_some() { "the goodput" } else { "the highest of the plan" };
        return match a.control {
            Control::Rate => format!("at {number} requests/s, {what}"),
            _ => format!("at {}, {rate} requests/s, {what}", level(a.control, value)),
        };
    }
    if usable_safe_rate(g)
        .is_some_and(|safe| a.control == Control::Rate && (safe - c.requests_per_s).abs() < 1e-9)
    {
        return safe_basis(a, c);
    }
    match g.bracket.met {
        Some(met) if a.control != Control::Rate => {
            format!("at {}, {rate} requests/s as achieved in step {}", level(a.control, met), c.step)
        }
        Some(met) if c.requests_per_s >= met * (1.0 - 1e-9) => {
            format!("at {rate} requests/s, the level of step {}", c.step)
        }
        _ => format!("at {rate} requests/s, as achieved in step {}", c.step),
    }
}

/// Returns the basis of the figures at the safe rate: `at 31.6 requests/s, the safe rate`.
pub(crate) fn safe_basis(a: &Answer, c: &Capacity) -> String {
    let g = &a.goodput;
    let safe = g.safe_rate().unwrap_or(c.requests_per_s);
    let [number, _] = numbers([safe, g.rate().unwrap_or(safe)]);
    match a.control {
        Control::Rate => format!("at {number} requests/s, the safe rate"),
        _ => format!(
            "at {}, {} requests/s, the safe {}",
            level(a.control, safe),
            precise(c.requests_per_s),
            noun(a.control)
        ),
    }
}

/// Returns the caveats of a run in English, each once. If the client reached one limit in several steps, only the worst
/// is included; for a simulated clock and a simulated server, only the clock. A simulated server has no GPUs: its
/// figures per GPU are as declared.
pub(crate) fn caveats(run: &Run) -> Vec<CaveatWords> {
    let mut all: Vec<CaveatWords> = Vec::new();
    let context = Context::of(run);
    for c in &run.caveats {
        let series = run.series_of(c);
        let whose = if series.is_empty() { String::new() } else { format!("{}: ", series.join(", ")) };
        let said = caveat(c, context);
        let mut text = format!("{whose}{}", said.text);
        let like: Vec<&Caveat> = run.caveats.iter().filter(|other| is_like(c, other)).collect();
        if like.iter().max_by(|a, b| excess(a).total_cmp(&excess(b))).is_some_and(|worst| *worst != c) {
            continue;
        }
        match like.len() {
            0 | 1 => {}
            2 => text.push_str(" The same happened in another step."),
            n => text.push_str(&format!(" The same happened in {} other steps.", n - 1)),
        }
        let simulated = matches!(c, Caveat::Origin(OriginCaveat::Simulated | OriginCaveat::VirtualTime));
        if let Some(n) = run.meta.gpus.filter(|n| simulated && *n > 1) {
            text.push_str(&format!(
                " The simulated server knows no GPUs: a figure per GPU is the server's divided by the {n} that the plan declares."
            ));
        }
        let virtual_too = *c == Caveat::Origin(OriginCaveat::Simulated)
            && run.caveats.contains(&Caveat::Origin(OriginCaveat::VirtualTime));
        if !virtual_too && !all.iter().any(|known| known.text == text) {
            all.push(CaveatWords { text, ..said });
        }
    }
    all
}

/// Returns the limit of the client that a caveat is about, and true if it makes the step invalid.
fn own_limit(caveat: &Caveat) -> Option<(&OwnFault, bool)> {
    match caveat {
        Caveat::Client(ClientCaveat::OwnLimit { fault, invalid, .. }) => Some((fault, *invalid)),
        _ => None,
    }
}

/// Returns true if two caveats are about one limit of the client with equal severity.
fn is_like(a: &Caveat, b: &Caveat) -> bool {
    own_limit(a).zip(own_limit(b)).is_some_and(|((f, i), (g, j))| f.is_like(g) && i == j)
}

/// Returns how far the client exceeded its limit.
fn excess(c: &Caveat) -> f64 {
    own_limit(c).map_or(0.0, |(fault, _)| fault.excess())
}

#[cfg(test)]
mod tests;
