//! The Markdown tables.

use crate::cases::{Arrivals, Case, Change, Engine, Group, Rare, Right, Target};
use crate::run::{Run, Setting};
use crate::score::{Score, StatusScore, mean, median};
use goodput::sim::engine::batch::{self, cost::Cost};
use goodput::sim::engine::queue::{self, Dist};
use goodput::units::short;

/// A case with its runs under one setting.
pub(crate) type Row<'a> = (&'a Case, Vec<Run>);

/// The tables of one setting: cases with a rate, cases without, and the summary.
pub(crate) fn tables(rows: &[Row<'_>], setting: Setting) -> String {
    let mut lines = vec![
        format!("### {}, {:.0} s", setting.strategy.title(), setting.budget_s),
        String::new(),
        "| case | r* | bound | bias | RMSE | named a rate | cov90 | held | P(viol) | shortfall | no safe rate | said none | named a change | time | CPU |".into(),
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|".into(),
    ];
    let scored: Vec<(&Case, Score)> =
        rows.iter().filter_map(|(c, runs)| Some((*c, Score::of(c, runs)?))).collect();
    for (case, runs) in rows {
        lines.extend(Score::of(case, runs).map(|score| rated(case, &score, runs, setting.budget_s)));
    }
    lines.push(String::new());
    let told = rows.iter().filter_map(|(case, runs)| Some(untold(case, &StatusScore::of(case, runs)?, runs)));
    let told: Vec<String> = told.collect();
    if !told.is_empty() {
        lines.push(
            "| case | right answer | said | right | safe rate violates | names a safe rate | time | CPU |"
                .into(),
        );
        lines.push("|---|---|---|---|---|---|---|---|".into());
        lines.extend(told);
        lines.push(String::new());
    }
    lines.push("| cases | RMSE median / mean / worst | bias median | cov90 mean / min | held mean / min | P(viol) mean / worst | shortfall median | named a rate | said none |".into());
    lines.push("|---|---|---|---|---|---|---|---|---|".into());
    let resolvable: Vec<Score> =
        scored.iter().filter(|(c, _)| c.resolvable(setting.budget_s)).map(|s| s.1).collect();
    let all: Vec<Score> = scored.iter().map(|s| s.1).collect();
    lines.push(summary("resolvable", &resolvable));
    lines.push(summary("all", &all));
    for group in Group::ALL {
        let of_group: Vec<Score> = scored.iter().filter(|(c, _)| c.group == group).map(|s| s.1).collect();
        if !of_group.is_empty() && of_group.len() < all.len() {
            lines.push(summary(group.title(), &of_group));
        }
    }
    lines.push(String::new());
    lines.extend(changes(rows));
    lines.join("\n")
}

/// Returns how often runs reported a change of the server: on servers with a change, and on those without.
fn changes(rows: &[Row<'_>]) -> Vec<String> {
    let named = |of: &dyn Fn(Group) -> bool| {
        let runs: Vec<&Run> = rows.iter().filter(|(c, _)| of(c.group)).flat_map(|(_, runs)| runs).collect();
        let named = runs.iter().filter(|r| r.answer.names_change).count();
        (named, runs.len())
    };
    let all: [(&str, &dyn Fn(Group) -> bool); 5] = [
        ("breaks", &|g| g == Group::Break),
        ("drift", &|g| g == Group::Drift),
        ("scatter", &|g| g == Group::Scatter),
        ("stalls", &|g| g == Group::Stall),
        ("steady", &Group::is_steady),
    ];
    let mut lines = vec!["| server | runs | named a change |".to_owned(), "|---|---|---|".to_owned()];
    for (title, of) in all {
        let (named, n) = named(of);
        if n > 0 {
            lines.push(format!("| {title} | {n} | {:.1} % |", 100.0 * named as f64 / n as f64));
        }
    }
    lines.push(String::new());
    lines
}

fn percent(x: f64) -> String {
    format!("{:.0} %", 100.0 * x)
}

fn times(runs: &[Run]) -> String {
    let spent: Vec<f64> = runs.iter().map(|r| r.spent_s).collect();
    let cpu: Vec<f64> = runs.iter().filter_map(|r| r.cpu_s).collect();
    let cpu = if cpu.is_empty() { "–".to_owned() } else { format!("{:.2} s", mean(&cpu)) };
    format!("{:.0} s | {cpu}", mean(&spent))
}

fn rated(case: &Case, s: &Score, runs: &[Run], budget_s: f64) -> String {
    let mark = if case.resolvable(budget_s) { "" } else { " †" };
    format!(
        "| {}{mark} | {:.4} | {:.1} | {} | {} | {} | {} | {} | {:.0} % | {} | {} | {} | {} |",
        case.name,
        case.truth.rate.unwrap_or(0.0),
        100.0 * case.truth.bound(budget_s).unwrap_or(f64::NAN),
        // No run reported a rate, so there is no error.
        if s.rated > 0.0 { format!("{:+.1} | {:.1}", s.bias, s.rmse) } else { "– | –".into() },
        percent(s.rated),
        s.coverage.map_or("–".into(), percent),
        percent(s.held),
        percent(s.violates),
        s.shortfall,
        percent(s.unsafe_share),
        percent(s.denied),
        percent(s.named),
        times(runs)
    )
}

fn untold(case: &Case, t: &StatusScore, runs: &[Run]) -> String {
    let right = if case.right() == Right::None { "none" } else { "not-reached" };
    let mut said: Vec<(&str, usize)> = Vec::new();
    for run in runs {
        let name = run.answer.status.name();
        match said.iter_mut().find(|(n, _)| *n == name) {
            Some((_, count)) => *count += 1,
            None => said.push((name, 1)),
        }
    }
    said.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let said: Vec<String> = said.iter().map(|(name, count)| format!("{name} {count}")).collect();
    format!(
        "| {} | {right} | {} | {} | {} | {} | {} |",
        case.name,
        said.join(", "),
        percent(t.right),
        percent(t.violates),
        percent(t.positive),
        times(runs)
    )
}

fn summary(name: &str, scores: &[Score]) -> String {
    let of = |f: fn(&Score) -> f64| -> Vec<f64> { scores.iter().map(f).filter(|x| !x.is_nan()).collect() };
    let worst = |xs: &[f64]| xs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let rmse = of(|s| s.rmse);
    let (violates, held) = (of(|s| s.violates), of(|s| s.held));
    let coverage: Vec<f64> = scores.iter().filter_map(|s| s.coverage).collect();
    let coverage = if coverage.is_empty() {
        "–".to_owned()
    } else {
        format!(
            "{} / {}",
            percent(mean(&coverage)),
            percent(-worst(&coverage.iter().map(|c| -c).collect::<Vec<_>>()))
        )
    };
    format!(
        "| {name} {} | {:.1} / {:.1} / {:.1} | {:+.1} | {coverage} | {} / {} | {:.1} % / {} | {:.0} % | {} | {} |",
        scores.len(),
        median(&rmse),
        mean(&rmse),
        worst(&rmse),
        median(&of(|s| s.bias)),
        percent(mean(&held)),
        percent(held.iter().copied().fold(f64::INFINITY, f64::min)),
        100.0 * mean(&violates),
        percent(worst(&violates)),
        median(&of(|s| s.shortfall)),
        percent(mean(&of(|s| s.rated))),
        percent(mean(&of(|s| s.denied)))
    )
}

/// Returns the table of cases with their truths.
pub(crate) fn cases(cases: &[Case]) -> String {
    let mut lines = vec![
        "| case | server | requests | limits | r* | s.e. | r*/capacity | β | IF | unloaded misses | bound 300 / 900 / 2700 s |".to_owned(),
        "|---|---|---|---|---|---|---|---|---|---|---|".to_owned(),
    ];
    lines.extend(cases.iter().map(case));
    lines.join("\n")
}

fn case(case: &Case) -> String {
    let t = &case.truth;
    let known = t.rate.map_or("none | – | – | – | –".to_owned(), |rate| {
        let error = if t.error > 0.0 { format!("{:.2} %", 100.0 * t.error) } else { "exact".into() };
        let share = rate / t.capacity;
        let slope = if t.slope.is_finite() { format!("{:.1}", t.slope) } else { "∞".into() };
        format!("{rate:.4} | {error} | {share:.2} | {slope} | {:.1}", t.inflation)
    });
    let bounds: Vec<String> = [300.0, 900.0, 2700.0]
        .iter()
        .filter_map(|budget| Some(format!("{:.1}", 100.0 * t.bound(*budget)?)))
        .collect();
    let bounds = if bounds.is_empty() { "–".to_owned() } else { format!("{} %", bounds.join(" / ")) };
    let cap = case.cap.map_or(String::new(), |ratio| format!("; max-rate r*/{ratio}"));
    format!(
        "| {} | {} | {} | {}{cap} | {known} | {:.2} % | {bounds} |",
        case.name,
        server(case),
        requests(case),
        limits(case),
        100.0 * t.unloaded
    )
}

/// Describes the limits, including those on the share of failures and on the share of requests that meet all limits.
fn limits(case: &Case) -> String {
    let mut all: Vec<String> = case.targets.iter().map(limit).collect();
    all.extend(case.error_rate.map(|share| format!("errors {} %", short(100.0 * share))));
    all.extend(case.joint.map(|share| format!("{} % together", short(100.0 * share))));
    all.extend(case.timeout_s.map(|s| format!("timeout {} s", short(s))));
    all.join(", ")
}

fn limit(target: &Target) -> String {
    format!("p{} {} {} ms", target.percentile, target.metric.title(), short(target.ms))
}

fn server(case: &Case) -> String {
    let change = case.change.map_or(String::new(), |change| match change {
        Change::Pause { kind, nth, length_s } => format!("; pauses {length_s} s in {kind} step {nth}"),
        Change::Break { speed } => format!("; {} × as fast after half of the time", short(speed)),
        Change::Drift { by } => format!("; speed from {} to {}", short(1.0 - by), short(1.0 + by)),
        Change::Scatter { by } => {
            format!("; another speed from {} to {} each twelfth", short(1.0 - by), short(1.0 + by))
        }
    });
    format!("{}{change}", engine(&case.engine))
}

fn engine(engine: &Engine) -> String {
    let ms = |d: std::time::Duration| short(d.as_secs_f64() * 1e3);
    match engine {
        Engine::Queue(queue::Settings { servers, service, .. }) => {
            let service = match service {
                Dist::Fixed(d) => format!("{} ms", ms(*d)),
                Dist::Exponential(d) => format!("exponential {} ms", ms(*d)),
                Dist::Lognormal { mean, cv } => format!("lognormal {} ms cv {cv}", ms(*mean)),
                Dist::TwoSizes { short: usual, long, share } => {
                    format!("{} ms, {} % {} ms", ms(*usual), short(100.0 * share), ms(*long))
                }
            };
            format!("{servers} × {service}")
        }
        Engine::Batch(batch::Settings { cost, limits, block_size, .. }) => {
            let time = match cost {
                Cost::Formula(f) => format!(
                    "{} + {} ms, {} µs a token",
                    short(f.base_ns / 1e6),
                    short(f.weights_ns / 1e6),
                    short(f.token_ns / 1e3)
                ),
                Cost::Table(points) => format!("{} times", points.len()),
            };
            let kv = (limits.kv_blocks.get() - 1) * block_size.get() / 1000;
            format!("{time}; {} seats, {kv}k KV tokens", limits.max_num_seqs)
        }
        Engine::Preset(name) => (*name).to_owned(),
    }
}

/// Describes arrivals and lengths; the latter do not affect a queue.
fn requests(case: &Case) -> String {
    let arrivals = match case.arrivals {
        Arrivals::Poisson => "Poisson".to_owned(),
        Arrivals::Constant => "constant".to_owned(),
        Arrivals::Gamma(cv) => format!("gamma cv {cv}"),
    };
    let words = |lengths: &str| -> String {
        lengths
            .chars()
            .filter(|c| !matches!(c, '{' | '}' | '=' | ','))
            .collect::<String>()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    let load = if case.closed_loop { "closed loop".to_owned() } else { arrivals };
    if matches!(case.engine, Engine::Queue(_)) {
        return load;
    }
    let rare = case.rare.as_ref().map_or(String::new(), |Rare { share, input, output }| {
        format!("; {} % {} in, {} out", short(100.0 * share), words(input), words(output))
    });
    let turns = case.conversation.as_ref().map_or(String::new(), |turns| {
        format!("; {}", words(&turns.replace('"', "").lines().collect::<Vec<_>>().join("; ")))
    });
    if let Some(contents) = case.items.as_ref().or(case.audio.as_ref()) {
        return format!("{load}; {}", words(contents));
    }
    let images = case.images.as_ref().map_or(String::new(), |images| format!("; images: {}", words(images)));
    format!("{load}; {} in, {} out{images}{rare}{turns}", words(&case.input), words(&case.output))
}
