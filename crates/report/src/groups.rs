//! The classes of a mix, and the turns of conversations, beside one another.

use super::charts::thousands;
use super::escape::{clip, markdown};
use super::replicas::at_the_answer;
use super::{tables, words};
use goodput_core::slo::Metric;
use goodput_run::rundir::Run;
use goodput_stats::stats::groups::{Group, GroupBy};
use goodput_stats::stats::step::{Quantiles, Step, StepKind};

/// The groups of one kind of a step.
fn of(step: &Step, by: GroupBy) -> Vec<&Group> {
    step.groups.iter().filter(|g| g.by == by).collect()
}

/// What stands at the head of the column with their names.
const fn noun(by: GroupBy) -> &'static str {
    match by {
        GroupBy::Class => "class",
        GroupBy::Turn => "turn",
    }
}

/// Each group at the step of the answer, and the p99 TTFT of each over all levels; empty where requests are all of one kind.
pub fn section(run: &Run, by: GroupBy) -> String {
    let Some(step) = at_the_answer(run, |s| !of(s, by).is_empty()) else { return String::new() };
    let counted = match by {
        GroupBy::Class => "",
        GroupBy::Turn => {
            " Turn 1 is the first message of a conversation; later ones carry the history with the server's own answers."
        }
    };
    let over = over_levels(run, step, by);
    let over = if over.is_empty() {
        over
    } else {
        format!("\n\nTTFT over the levels, p50 / p99 in milliseconds:\n\n{}", over.trim_end())
    };
    format!(
        "Step {} at {}, milliseconds; all steps stand in groups.csv.{counted}\n\n{}{over}",
        step.step,
        words::step_level(step),
        table(step, by).trim_end(),
    )
}

fn table(step: &Step, by: GroupBy) -> String {
    // Of turns no gaps are pooled.
    let gaps = of(step, by).iter().any(|g| g.quantiles(Metric::Itl).n > 0);
    let mut head = vec![
        noun(by),
        "requests",
        "failed",
        "req/s",
        "TTFT p50",
        "TTFT p99",
        "TPOT p50",
        "TPOT p99",
        "e2e p99",
        "input tokens, mean",
        "output tokens, mean",
    ];
    if gaps {
        head.insert(8, "ITL p99");
    }
    let row = |name: String,
               (n, failed, rate): (u64, u64, f64),
               of: &dyn Fn(Metric) -> Quantiles,
               tokens: [Option<f64>; 2]| {
        let (ttft, tpot, e2e) = (of(Metric::Ttft), of(Metric::Tpot), of(Metric::E2e));
        let mut cells = vec![name, thousands(n as f64), thousands(failed as f64), words::figure(rate)];
        let mut values = vec![ttft.p50, ttft.p99, tpot.p50, tpot.p99, e2e.p99];
        if gaps {
            values.insert(4, of(Metric::Itl).p99);
        }
        cells.extend(values.into_iter().map(|ms| tables::latency(step, ms)));
        cells.extend(tokens.map(tables::number));
        cells
    };
    let mut rows: Vec<Vec<String>> = of(step, by)
        .into_iter()
        .map(|g| {
            let tokens = [g.input_tokens_mean, g.output_tokens_mean];
            let counts = (g.n, g.failed, g.achieved_rate);
            row(markdown(&clip(&g.name, 40)), counts, &|m| g.quantiles(m), tokens)
        })
        .collect();
    let all = (step.due_n, step.failed, step.achieved_rate);
    let tokens = [step.input_tokens_mean, step.output_tokens_mean];
    rows.push(row("all together".into(), all, &|m| step.quantiles(m), tokens));
    tables::table(&head, &[noun(by)], rows)
}

/// TTFT of each group at every step of the series; empty where there is one step.
fn over_levels(run: &Run, chosen: &Step, by: GroupBy) -> String {
    let mut steps: Vec<&Step> =
        run.steps.iter().filter(|s| s.series == chosen.series && !of(s, by).is_empty()).collect();
    if steps.len() < 2 {
        return String::new();
    }
    steps.sort_by(|a, b| {
        let key = |s: &Step| s.kind != StepKind::Baseline;
        key(a).cmp(&key(b)).then(a.level.value.total_cmp(&b.level.value)).then(a.step.cmp(&b.step))
    });
    let mut names: Vec<&str> = Vec::new();
    for g in steps.iter().flat_map(|s| of(s, by)) {
        if !names.contains(&g.name.as_str()) {
            names.push(&g.name);
        }
    }
    if by == GroupBy::Turn {
        let first = |name: &str| {
            name.split(['-', '+']).next().and_then(|n| n.parse::<u16>().ok()).unwrap_or(u16::MAX)
        };
        names.sort_by_key(|name| first(name));
    }
    let titles: Vec<String> = names
        .iter()
        .map(|n| if by == GroupBy::Turn { format!("turn {n}") } else { markdown(&clip(n, 40)) })
        .collect();
    let mut head = vec!["#", "level"];
    head.extend(titles.iter().map(String::as_str));
    let row = |s: &&Step| {
        let cell = |name: &&str| {
            let group = s.groups.iter().find(|g| g.by == by && g.name == **name);
            let q = group.map(|g| g.quantiles(Metric::Ttft)).unwrap_or_default();
            format!("{} / {}", tables::latency(s, q.p50), tables::latency(s, q.p99))
        };
        [s.step.to_string(), words::step_level(s)].into_iter().chain(names.iter().map(cell)).collect()
    };
    tables::table(&head, &["level"], steps.iter().map(row).collect())
}

/// The same in a line for a terminal: `TTFT p99 by class at 8 req/s: short 180 ms, long 1.2 s`; empty where requests are all of one kind.
pub fn in_short(run: &Run, by: GroupBy) -> String {
    let Some(step) = at_the_answer(run, |s| !of(s, by).is_empty()) else { return String::new() };
    let said = |g: &Group| {
        let value = g.quantiles(Metric::Ttft).p99.map_or("–".to_owned(), words::latency);
        format!("{} {value}", clip(&g.name, 24))
    };
    let all: Vec<String> = of(step, by).into_iter().map(said).collect();
    format!("p99 TTFT by {} at {}: {}.", noun(by), words::step_level(step), all.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_run::fixture;

    /// A run whose steps have classes, or turns.
    fn with(by: GroupBy, names: &[&str]) -> Run {
        let (_, mut run) = fixture::cases().into_iter().find(|(n, _)| *n == "found").unwrap();
        for s in &mut run.steps {
            let share = 1.0 / names.len() as f64;
            let group = |name: &&str| Group {
                by,
                name: (*name).to_owned(),
                n: s.due_n / names.len() as u64,
                failed: 0,
                cut: 0,
                failed_timeout: 0,
                latency: s.latency.clone(),
                input_tokens_mean: s.input_tokens_mean,
                output_tokens_mean: s.output_tokens_mean,
                achieved_rate: share * s.achieved_rate,
            };
            s.groups = names.iter().map(group).collect();
        }
        run
    }

    #[test]
    fn classes_and_turns_stand_beside_all_requests() {
        let run = with(GroupBy::Class, &["short", "long"]);
        let text = section(&run, GroupBy::Class);
        assert!(
            text.contains("| short |") && text.contains("| long |") && text.contains("| all together |"),
            "{text}"
        );
        assert!(
            text.contains("TTFT over the levels") && text.contains("| # | level | short | long |"),
            "{text}"
        );
        assert_eq!(section(&run, GroupBy::Turn), "");
        assert!(
            in_short(&run, GroupBy::Class).starts_with("p99 TTFT by class at "),
            "{}",
            in_short(&run, GroupBy::Class)
        );
        let run = with(GroupBy::Turn, &["1", "2", "10-19"]);
        let text = section(&run, GroupBy::Turn);
        assert!(
            text.contains("turn 1 | turn 2 | turn 10-19 |") && text.contains("server's own answers"),
            "{text}"
        );
    }

    #[test]
    fn requests_of_one_kind_have_no_section() {
        let (_, run) = fixture::cases().into_iter().find(|(n, _)| *n == "found").unwrap();
        assert_eq!(
            (section(&run, GroupBy::Class), in_short(&run, GroupBy::Turn)),
            (String::new(), String::new())
        );
    }
}
