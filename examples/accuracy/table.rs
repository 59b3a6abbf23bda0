//! The Markdown tables.

use crate::cases::{Arrivals, Case, Engine, Right};
use crate::run::{Run, Setting};
use crate::score::{Score, Told, mean, median};
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
        "| case | r* | bound | bias | RMSE | named a rate | cov90 | P(viol) | shortfall | no safe rate | said none | time | CPU |".into(),
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|".into(),
    ];
    let scored: Vec<(&Case, Score)> =
        rows.iter().filter_map(|(c, runs)| Some((*c, Score::of(c, runs)?))).collect();
    for (case, runs) in rows {
        lines.extend(Score::of(case, runs).map(|score| rated(case, &score, runs, setting.budget_s)));
    }
    lines.push(String::new());
    let told = rows.iter().filter_map(|(case, runs)| Some(untold(case, &Told::of(case, runs)?, runs)));
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
    lines.push("| cases | RMSE median / mean / worst | bias median | cov90 mean / min | P(viol) mean / worst | shortfall median | named a rate | said none |".into());
    lines.push("|---|---|---|---|---|---|---|---|".into());
    let resolvable: Vec<Score> =
        scored.iter().filter(|(c, _)| c.resolvable(setting.budget_s)).map(|s| s.1).collect();
    let all: Vec<Score> = scored.iter().map(|s| s.1).collect();
    lines.push(summary("resolvable", &resolvable));
    lines.push(summary("all", &all));
    lines.push(String::new());
    lines.join("\n")
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
        "| {}{mark} | {:.4} | {:.1} | {} | {} | {} | {} | {:.0} % | {} | {} | {} |",
        case.name,
        case.truth.rate.unwrap_or(0.0),
        100.0 * case.truth.bound(budget_s).unwrap_or(f64::NAN),
        // Nobody named a rate: there is nothing to be wrong.
        if s.rated > 0.0 { format!("{:+.1} | {:.1}", s.bias, s.rmse) } else { "– | –".into() },
        percent(s.rated),
        s.coverage.map_or("–".into(), percent),
        percent(s.violates),
        s.shortfall,
        percent(s.unsafe_share),
        percent(s.denied),
        times(runs)
    )
}

fn untold(case: &Case, t: &Told, runs: &[Run]) -> String {
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
    let violates = of(|s| s.violates);
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
        "| {name} {} | {:.1} / {:.1} / {:.1} | {:+.1} | {coverage} | {:.1} % / {} | {:.0} % | {} | {} |",
        scores.len(),
        median(&rmse),
        mean(&rmse),
        worst(&rmse),
        median(&of(|s| s.bias)),
        100.0 * mean(&violates),
        percent(worst(&violates)),
        median(&of(|s| s.shortfall)),
        percent(mean(&of(|s| s.rated))),
        percent(mean(&of(|s| s.denied)))
    )
}

/// The cases with their truths.
pub(crate) fn cases(cases: &[Case]) -> String {
    let mut lines = vec![
        "| case | server | requests | limits on p99 | r* | s.e. | r*/capacity | β | IF | unloaded misses | bound 300 / 900 / 2700 s |".to_owned(),
        "|---|---|---|---|---|---|---|---|---|---|---|".to_owned(),
    ];
    lines.extend(cases.iter().map(case));
    lines.join("\n")
}

fn case(case: &Case) -> String {
    let limits: Vec<String> =
        case.limits.iter().map(|(metric, ms)| format!("{} {} ms", metric.title(), short(*ms))).collect();
    let t = &case.truth;
    let known = t.rate.map_or("none | – | – | – | –".to_owned(), |rate| {
        let error = if t.error > 0.0 { format!("{:.2} %", 100.0 * t.error) } else { "exact".into() };
        let share = rate / t.capacity;
        format!("{rate:.4} | {error} | {share:.2} | {:.1} | {:.1}", t.slope, t.inflation)
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
        server(&case.engine),
        requests(case),
        limits.join(", "),
        100.0 * t.unloaded
    )
}

fn server(engine: &Engine) -> String {
    let ms = |d: std::time::Duration| short(d.as_secs_f64() * 1e3);
    match engine {
        Engine::Queue(queue::Settings { servers, service, .. }) => {
            let service = match service {
                Dist::Fixed(d) => format!("{} ms", ms(*d)),
                Dist::Exponential(d) => format!("exponential {} ms", ms(*d)),
                Dist::Lognormal { mean, cv } => format!("lognormal {} ms cv {cv}", ms(*mean)),
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
    }
}

/// Arrivals and lengths; a queue does not look at the latter.
fn requests(case: &Case) -> String {
    let arrivals = match case.arrivals {
        Arrivals::Poisson => "Poisson".to_owned(),
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
    match case.engine {
        Engine::Queue(_) => arrivals,
        Engine::Batch(_) => format!("{arrivals}; {} in, {} out", words(&case.input), words(&case.output)),
    }
}
