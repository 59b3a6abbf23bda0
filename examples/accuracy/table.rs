//! The Markdown tables.

use crate::cases::{Case, Right};
use crate::run::{Run, Setting};
use crate::score::{Score, Told, mean, median};

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
        "| {}{mark} | {:.4} | {:.1} | {:+.1} | {:.1} | {} | {} | {} | {:.0} % | {} | {} | {} |",
        case.name,
        case.truth.rate.unwrap_or(0.0),
        100.0 * case.truth.bound(budget_s).unwrap_or(f64::NAN),
        s.bias,
        s.rmse,
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
