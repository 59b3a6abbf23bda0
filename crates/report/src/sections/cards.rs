//! The summary cards at the head of the page: each answer as one figure with its status in words, and key facts.

use crate::document::{Card, Mark};
use crate::words;
use goodput_core::level::Control;
use goodput_core::slo::Metric;
use goodput_plan::Purpose;
use goodput_run::rundir::Run;
use goodput_run::rundir::derive::{interval, usable_safe_rate};
use goodput_run::rundir::matrix::RowAnswer;
use goodput_run::rundir::offline::{LevelFigures, is_burst, levels, most};
use goodput_run::rundir::variants::Best;
use goodput_stats::search::answer::{Answer, Goodput, Status};

/// Maximum number of cards; the comparison has all answers.
const MOST: usize = 8;

/// Returns the cards of a run, the first answer first.
pub(super) fn cards(run: &Run) -> Vec<Card> {
    if !run.matrix.is_empty() {
        return vec![of_matrix(run)];
    }
    if !run.purpose.is_goodput() {
        return of_levels(run);
    }
    let best = Best::of(&run.variants).at_slo.and_then(|i| run.variants.get(i)).map(|v| v.series.as_str());
    let mut answers: Vec<&Answer> = run.answers.iter().collect();
    // The best variant first, then the others in order.
    answers.sort_by_key(|a| best != Some(a.series.as_str()));
    let mut all: Vec<Card> = answers.into_iter().take(MOST).map(|a| of_answer(run, a)).collect();
    if let (Some(_), Some(first)) = (best, all.first_mut()) {
        first.whose.push_str(", the best");
    }
    all
}

/// Returns a status in words with its mark, so that it does not depend on colour alone.
fn status(g: &Goodput) -> (Mark, &'static str) {
    match g.status() {
        Status::Found => (Mark::Good, "● found"),
        Status::None => (Mark::Bad, "✕ none: no level keeps the SLO"),
        Status::NotReached => (Mark::Good, "● kept up to the highest level: the limit was not reached"),
        Status::Undecided => (Mark::Open, "○ undecided: too little was measured to tell"),
        Status::Invalid => {
            (Mark::Invalid, "△ invalid: the client was the limit, or the server was started anew")
        }
    }
}

fn unit(control: Control) -> &'static str {
    match control {
        Control::Rate => "requests/s",
        Control::Concurrency => "requests in flight",
        Control::Sessions => "sessions/s",
        Control::TraceScale => "× the trace's speed",
    }
}

fn of_answer(run: &Run, a: &Answer) -> Card {
    let g = &a.goodput;
    let (mark, status) = status(g);
    let (value, shown) = figure(a);
    Card {
        whose: words::whose(run, a),
        status: status.into(),
        mark,
        label: "goodput".into(),
        value,
        unit: if shown { unit(a.control).into() } else { String::new() },
        facts: facts(run, a),
    }
}

/// Returns the goodput as a figure, and true if it takes a unit.
fn figure(a: &Answer) -> (String, bool) {
    let g = &a.goodput;
    let known = g.rate().or(g.bracket.met);
    match (g.status(), words::ends(a.control, g)) {
        (Status::None, _) => ("none".into(), false),
        (Status::Undecided, Some(([rate, ..], _))) => (format!("about {rate}"), true),
        (_, Some(([rate, ..], _))) => (rate, true),
        (Status::Undecided | Status::Invalid, None) if known.or(usable_safe_rate(g)).is_none() => {
            ("not known".into(), false)
        }
        (_, None) => {
            let least = known.or(usable_safe_rate(g)).map(words::level_number);
            least.map_or(("not known".into(), false), |rate| (format!("at least {rate}"), true))
        }
    }
}

fn facts(run: &Run, a: &Answer) -> Vec<(String, String)> {
    let g = &a.goodput;
    let mut out: Vec<(&str, String)> = Vec::new();
    let ends = words::ends(a.control, g);
    match (&ends, g.bracket.met, g.bracket.failed) {
        (Some(([_, low, high], _)), ..) => out.push(("90 % interval", format!("{low} to {high}"))),
        (None, Some(met), Some(failed)) => {
            let [met, failed] = [met, failed].map(words::level_number);
            out.push(("bracket", format!("{met} meets, {failed} fails; no interval")));
        }
        (None, None, Some(failed)) => out.push(("fails at", words::level_number(failed))),
        (None, Some(met), None) => out.push(("meets", format!("{}; none fails", words::level_number(met)))),
        (None, None, None) => {}
    }
    let safe = ends.and_then(|e| e.1).or_else(|| usable_safe_rate(g).map(words::level_number));
    // With several cards there is no room for common facts.
    let alone = run.answers.len() == 1;
    let note = if alone { format!(" ({})", words::chance_clause(run, g)) } else { String::new() };
    let safe = safe.map_or_else(|| "none is shown".to_owned(), |s| format!("{s}{note}"));
    // A closed loop has a safe concurrency instead of a safe rate.
    out.push((if a.control == Control::Concurrency { "safe concurrency" } else { "safe rate" }, safe));
    out.extend(per_gpu(run, a).map(|each| ("per GPU", each)));
    let binding = g.binding.as_deref().map_or("none was reached".to_owned(), words::binding);
    out.push(("limit that binds", binding));
    // A class alone has its limits, not those of the mix.
    let part = run.part(&a.series);
    let tier = words::tier_of(part, a).map_or_else(|| part.meta.slo.clone(), words::slo);
    out.push(("SLO", tier));
    let cost = run
        .capacity_at_safe_rate(a)
        .map(|c| (c, "safe rate"))
        .or_else(|| run.capacity(a).map(|c| (c, "goodput")));
    out.extend(cost.and_then(|(c, at)| {
        let currency = run.currency.as_deref().unwrap_or_default();
        c.cost_per_mtok.map(|x| {
            ("cost", format!("{} {currency} per million output tokens at the {at}", words::figure(x)))
        })
    }));
    // The exit code depends on the cost limit, whatever the status of the SLO.
    out.extend(words::cost_verdict(run, a).map(|said| ("cost limit", said)));
    out.into_iter().map(|(name, text)| (name.to_owned(), text)).collect()
}

/// Returns the goodput per GPU, if the number of GPUs is known.
fn per_gpu(run: &Run, a: &Answer) -> Option<String> {
    let g = &a.goodput;
    let gpus = run.meta.gpus.filter(|n| *n > 0)?;
    let of = interval(g)
        .map(|(rate, _)| rate)
        .or(g.rate())
        .or(g.bracket.met)
        .filter(|_| g.status() != Status::None)?;
    let each = words::figure(of / f64::from(gpus));
    if run.answers.len() > 1 {
        return Some(each);
    }
    let name = run.meta.gpu.as_deref().unwrap_or("GPU");
    Some(format!("{each} {} ({gpus} × {name})", unit(a.control)))
}

fn of_matrix(run: &Run) -> Card {
    let stated = run.matrix.iter().filter(|r| r.expected.is_some()).count();
    let held = run.matrix.iter().filter(|r| r.held == Some(true)).count();
    let failed = run.matrix.iter().filter(|r| r.held == Some(false)).count();
    let (mark, status) = match (failed, stated - held - failed) {
        (0, 0) => (Mark::Good, "● all expectations held"),
        (0, _) => (Mark::Open, "○ some expectations are undecided"),
        _ => (Mark::Bad, "✕ some expectations did not hold"),
    };
    let fact = |r: &RowAnswer| {
        let measured = r.measured.map_or("undecided", |b| b.name());
        (r.row.clone(), format!("{} is set by {measured}", r.metric.title()))
    };
    Card {
        status: if stated > 0 { status.into() } else { "● measured".into() },
        mark,
        label: if stated > 0 { "expectations held".into() } else { "rows measured".into() },
        value: if stated > 0 { format!("{held} of {stated}") } else { run.matrix.len().to_string() },
        unit: String::new(),
        facts: run.matrix.iter().map(fact).collect(),
        whose: String::new(),
    }
}

/// Returns the cards of a run without a limit: the first and the last level of latencies, the maximum of throughput.
fn of_levels(run: &Run) -> Vec<Card> {
    let all = levels(run);
    let (Some(first), Some(last)) = (all.first(), all.last()) else { return Vec::new() };
    match run.purpose {
        Purpose::Goodput | Purpose::Sensitivity => Vec::new(),
        Purpose::Latency if last.in_flight > first.in_flight => vec![latency(first), latency(last)],
        Purpose::Latency => vec![latency(first)],
        Purpose::Throughput => most(&all).map(|best| throughput(run, best)).into_iter().collect(),
    }
}

fn latency(l: &LevelFigures) -> Card {
    let time = |ms: Option<f64>| ms.map_or_else(|| "–".to_owned(), words::latency);
    let both = |m: Metric| {
        let q = l.quantiles(m);
        (m.title().to_owned(), format!("p50 {}, p99 {}", time(q.p50), time(q.p99)))
    };
    let requests = goodput_core::units::thousands(l.requests as f64);
    Card {
        whose: format!("{} in flight", words::level_number(l.in_flight)),
        status: "● measured: no SLO was judged".into(),
        mark: Mark::Good,
        label: "median time to the whole answer".into(),
        value: time(l.quantiles(Metric::E2e).p50),
        facts: Metric::PRINCIPAL.into_iter().map(both).chain([("requests".to_owned(), requests)]).collect(),
        unit: String::new(),
    }
}

fn throughput(run: &Run, l: &LevelFigures) -> Card {
    let at = if is_burst(run) { "sent at once" } else { "in flight" };
    let mut facts = vec![
        ("requests/s".to_owned(), words::figure(l.requests_per_s)),
        (at.to_owned(), words::level_number(l.in_flight)),
        ("total tokens/s".to_owned(), words::figure(l.total_tokens_per_s)),
        ("time".to_owned(), words::latency(1e3 * l.seconds)),
    ];
    facts.extend(l.per_gpu.map(|[_, tokens]| ("output tokens/s per GPU".to_owned(), words::figure(tokens))));
    Card {
        status: "● measured: no SLO was judged".into(),
        mark: Mark::Good,
        label: "throughput, the most that was measured".into(),
        value: words::figure(l.output_tokens_per_s),
        unit: "output tokens/s".into(),
        facts,
        whose: String::new(),
    }
}
