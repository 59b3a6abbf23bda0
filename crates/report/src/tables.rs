//! The tables of `report.md`. Cells from outside are escaped here.

use super::charts::thousands;
use super::escape::{clip, markdown};
use super::words;
use goodput_core::slo::Metric;
use goodput_run::rundir::Run;
use goodput_run::rundir::derive::interval;
use goodput_stats::capacity::Capacity;
use goodput_stats::stats::step::{LimitRow, Quantiles, Step, StepKind, Verdict};

/// What a table says where nothing is known.
pub const UNKNOWN: &str = "–";
/// Of so many steps every one has its percentiles in the report.
const FEW: usize = 8;

/// A Markdown table; all columns but the named ones hold numbers and are set to the right.
pub(super) fn table(head: &[&str], left: &[&str], rows: Vec<Vec<String>>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let rule =
        head.iter().map(|h| if left.contains(h) { "---" } else { "---:" }).collect::<Vec<_>>().join(" | ");
    let mut out = format!("| {} |\n| {rule} |\n", head.join(" | "));
    for row in rows {
        out.push_str(&format!("| {} |\n", row.join(" | ")));
    }
    out
}

pub(super) fn number(x: Option<f64>) -> String {
    x.filter(|x| x.is_finite()).map_or(UNKNOWN.into(), words::figure)
}

/// A share in percent; 99.97 must not read as 100.
pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or(UNKNOWN.into(), |s| {
        let digits = if s > 0.99 && s < 1.0 { 2 } else { 1 };
        let text = format!("{:.digits$}", s * 100.0);
        let text = text.strip_suffix(".0").unwrap_or(&text).to_owned();
        let rounded_up = s < 1.0 && (text == "100" || text == "100.00");
        format!("{} %", if rounded_up { "> 99.99".into() } else { text })
    })
}

/// A latency of a step in milliseconds. Where the backlog grows there is none: the longer the step, the larger it is.
pub fn latency(s: &Step, ms: Option<f64>) -> String {
    number(ms.filter(|_| s.stable != Some(false)))
}

/// The level of a step, with its series where there are several.
pub(super) fn name(run: &Run, s: &Step) -> String {
    let several = run.steps.iter().any(|other| other.series != s.series);
    let series = if several { format!("{}: ", markdown(&clip(&s.series, 40))) } else { String::new() };
    format!("{series}{}", words::step_level(s))
}

/// The step's number: several steps may have one level.
pub(super) fn number_of(s: &Step) -> String {
    s.step.to_string()
}

/// The sign and word of a step's verdict: never told by colour alone. The unloaded server meets nothing, it can only miss.
pub fn verdict(s: &Step) -> &'static str {
    match s.verdict {
        Verdict::Meets | Verdict::Undecided if s.kind == StepKind::Baseline => UNKNOWN,
        // They are not measured for a verdict, unless they tell nothing at all.
        Verdict::Meets | Verdict::Undecided | Verdict::Fails if s.kind.is_auxiliary() => UNKNOWN,
        v => sign(v),
    }
}

/// The sign and word of a verdict.
const fn sign(v: Verdict) -> &'static str {
    match v {
        Verdict::Meets => "● meets",
        Verdict::Fails => "✕ fails",
        Verdict::Undecided => "○ undecided",
        Verdict::Invalid => "△ invalid",
    }
}

/// Steps that are worth a row for every metric: all of a few; of many, the unloaded server, the ends of the answer and
/// what lies between them.
pub fn telling(run: &Run) -> Vec<&Step> {
    if run.steps.len() > FEW
        && let Some((_, [low, high])) = run.answers.first().and_then(|a| interval(&a.goodput))
    {
        // A little more than the interval, for the steps that hem it in.
        let near = |s: &&Step| (low * 0.9..=high * 1.1).contains(&s.level.value);
        let unloaded_or_soak = |s: &&Step| s.kind.is_outside_search() || s.kind == StepKind::Confirm;
        return run.steps.iter().filter(|s| near(s) || unloaded_or_soak(s)).collect();
    }
    let ends = run.answers.first().map(|a| (a.goodput.met, a.goodput.failed));
    let (met, failed) = match ends {
        Some((met, failed)) if run.steps.len() > FEW && (met.is_some() || failed.is_some()) => (met, failed),
        _ => return run.steps.iter().collect(),
    };
    let from = met.or(failed).unwrap_or(0.0) * (1.0 - 1e-9);
    let to = failed.or(met).unwrap_or(f64::INFINITY) * (1.0 + 1e-9);
    let between = |s: &&Step| s.kind.is_outside_search() || (from..=to).contains(&s.level.value);
    run.steps.iter().filter(between).collect()
}

/// What a level amounts to: the server's figures, and those of one GPU where it has several.
pub fn capacity(run: &Run, c: &Capacity) -> String {
    let several = run.meta.gpus.is_some_and(|n| n > 1);
    let who = markdown(&clip(&words::subject(&run.meta), 60));
    let mut head = vec!["", who.as_str()];
    if several {
        head.push("per GPU");
    }
    let cell = |text: String| if text.is_empty() { UNKNOWN.to_owned() } else { markdown(&text) };
    let row = |(name, all, each): (String, String, String)| {
        let mut cells = vec![name, cell(all)];
        if several {
            cells.push(cell(each));
        }
        cells
    };
    table(&head, &[""], words::capacity(run, c).into_iter().map(row).collect())
}

/// What an estimate amounts to: at its safe rate, and beside it at its median.
pub fn capacity_at_both(run: &Run, safe: &Capacity, median: &Capacity) -> String {
    let several = run.meta.gpus.is_some_and(|n| n > 1);
    let mut head = vec!["", "at the safe rate", "at the goodput"];
    if several {
        head.insert(2, "per GPU");
    }
    let beside = words::capacity(run, median);
    let cell = |text: &str| if text.is_empty() { UNKNOWN.to_owned() } else { markdown(text) };
    let row = |(name, all, each): (String, String, String)| {
        let other = beside.iter().find(|(n, ..)| *n == name).map_or("", |(_, text, _)| text);
        let mut cells = vec![name, cell(&all), cell(other)];
        if several {
            cells.insert(2, cell(&each));
        }
        cells
    };
    table(&head, &[""], words::capacity(run, safe).into_iter().map(row).collect())
}

/// The steps: rates, the latencies that mostly decide, and the verdict.
pub fn steps(run: &Run) -> String {
    let mixed = words::mixed(run);
    let mut head = vec!["#", "level"];
    head.extend(mixed.then_some("step for"));
    let verdict_of = match run.tiers.first() {
        Some(t) if words::several_tiers(run) => format!("verdict ({})", markdown(&clip(t.tier(), 40))),
        _ => "verdict".into(),
    };
    // Where answers came in one piece there is no other latency.
    let whole = run.steps.iter().any(|s| s.response_metric() == Metric::E2e);
    let (other, other_head) = if whole { (Metric::E2e, "e2e p99 ms") } else { (Metric::Tpot, "TPOT p99 ms") };
    head.extend(["requests", "offered req/s", "achieved req/s", "good req/s", "TTFT p99 ms", other_head]);
    let hits = run.steps.iter().any(|s| s.server.hit_rate.is_some());
    head.extend(hits.then_some("cache hits"));
    head.push(&verdict_of);
    let row = |s: &Step| {
        let grows = if s.stable == Some(false) { " ↗" } else { "" };
        let mut cells = vec![number_of(s), name(run, s)];
        cells.extend(mixed.then(|| s.kind.name().to_owned()));
        cells.extend([
            thousands(s.due_n as f64),
            number(Some(s.offered_rate)),
            number(Some(s.achieved_rate)),
            number(Some(s.good_rate)),
            latency(s, s.quantiles(Metric::Ttft).p99),
            latency(s, s.quantiles(other).p99),
        ]);
        cells.extend(hits.then(|| percent(s.server.hit_rate)));
        cells.push(format!("{}{grows}", verdict(s)));
        cells
    };
    table(&head, &["level", "step for", &verdict_of], run.steps.iter().map(row).collect())
}

/// How many independent values a latency is worth in the bounds of its p99: `1,340`.
pub(super) fn effective(q: &Quantiles) -> String {
    match q.effective() {
        Some(n) if n < 1.0 => "< 1".into(),
        Some(n) => thousands(n.floor()),
        None => UNKNOWN.into(),
    }
}

/// Returns true if the report shows steps whose bounds take into account how slow requests cluster; folders of earlier versions have
/// none.
pub(super) fn has_effective(run: &Run) -> bool {
    telling(run).iter().any(|s| s.latency.values().any(|q| q.inflation.is_some()))
}

/// Percentiles of every metric of every step, with n, what it is worth, and the bounds of the p99 by rank.
pub fn percentiles(run: &Run) -> String {
    let clustered = has_effective(run);
    let mut head = vec!["#", "level", "metric", "n"];
    head.extend(clustered.then_some("effective n"));
    head.extend(["p50", "p90", "p95", "p99", "p99 from", "p99 to"]);
    let row = |s: &Step, m: Metric, q: Quantiles| {
        let mut cells = vec![number_of(s), name(run, s), m.title().into(), thousands(q.n as f64)];
        cells.extend(clustered.then(|| effective(&q)));
        cells.extend([q.p50, q.p90, q.p95, q.p99, q.p99_low, q.p99_high].map(|x| latency(s, x)));
        cells
    };
    let rows = telling(run).into_iter().flat_map(|s| {
        Metric::ALL.into_iter().map(move |m| (s, m, s.quantiles(m))).filter(|(_, _, q)| q.n > 0)
    });
    table(&head, &["level", "metric"], rows.map(|(s, m, q)| row(s, m, q)).collect())
}

/// Tier, class and limit of a column.
type Key = (String, String, String);

/// Misses of each limit at each step.
pub fn limits(run: &Run) -> String {
    let key = |l: &LimitRow| (l.tier.clone(), l.class.clone(), l.limit.clone());
    let mut keys = Vec::new();
    for l in run.steps.iter().flat_map(|s| &s.limits) {
        if !keys.contains(&key(l)) {
            keys.push(key(l));
        }
    }
    let several = keys.iter().any(|k| (&k.0, &k.1) != (&keys[0].0, &keys[0].1));
    let several = several.then_some(keys.as_slice());
    let titles: Vec<String> = keys.iter().map(|k| limit_title(k, several)).collect();
    let mut head = vec!["#", "level"];
    head.extend(titles.iter().map(String::as_str));
    let row = |s: &Step| {
        let cell = |k: &Key| s.limits.iter().find(|l| key(l) == *k).map_or(UNKNOWN.into(), limit_cell);
        [number_of(s), name(run, s)].into_iter().chain(keys.iter().map(cell)).collect()
    };
    if keys.is_empty() {
        return String::new();
    }
    table(&head, &["level"], run.steps.iter().map(row).collect())
}

/// The name of a limit, behind its tier and class where there are several: the numbers stand in the SLO.
fn limit_title((tier, class, limit): &Key, all: Option<&[Key]>) -> String {
    let all = all.unwrap_or_default();
    let mut whose = Vec::new();
    whose.extend(all.iter().any(|k| k.0 != *tier).then(|| clip(tier, 40)));
    whose.extend(all.iter().any(|k| k.1 != *class).then(|| clip(class, 40)));
    let whose = if whose.is_empty() { String::new() } else { format!("{}: ", whose.join(", ")) };
    markdown(&format!("{whose}{}", words::binding(limit)))
}

fn limit_cell(l: &LimitRow) -> String {
    let mark = sign(l.verdict).split(' ').next().unwrap_or_default();
    if l.limit == "stability" {
        return sign(l.verdict).into();
    }
    if l.n == 0 {
        let why = if l.verdict == Verdict::Meets { "does not apply" } else { "no answer to judge" };
        return format!("{mark} {why}");
    }
    let unknown = if l.censored > 0 { format!(" (+{} unknown)", l.censored) } else { String::new() };
    format!("{mark} {} of {}{unknown}", thousands(l.misses as f64), thousands(l.n as f64))
}

/// Throughput as three numbers, never only their sum, with the mean lengths; cost where there is a price.
pub fn throughput(run: &Run) -> String {
    let priced = run.steps.iter().any(|s| s.cost_per_mtok.is_some());
    let cost = format!("{} per million output tokens", markdown(run.currency.as_deref().unwrap_or("cost")));
    let mut head = vec![
        "#",
        "level",
        "achieved req/s",
        "output tokens/s",
        "prompt tokens/s",
        "mean in flight",
        "input tokens, mean",
        "output tokens, mean",
    ];
    if priced {
        head.push(&cost);
    }
    let row = |s: &Step| {
        let mut cells = vec![
            number_of(s),
            name(run, s),
            number(Some(s.achieved_rate)),
            number(Some(s.output_tokens_per_s)),
            number(Some(s.prompt_tokens_per_s)),
            number(Some(s.in_flight_mean)),
            number(s.input_tokens_mean),
            number(s.output_tokens_mean),
        ];
        if priced {
            cells.push(words::step_cost(run, s));
        }
        cells
    };
    table(&head, &["level"], run.steps.iter().map(row).collect())
}

/// The client's own lateness, and what else tells whether it was the limit.
pub fn client(run: &Run) -> String {
    let head = [
        "#",
        "level",
        "lateness p50 ms",
        "lateness p99 ms",
        "receive lag p99 ms",
        "threads busy",
        "waiting for a core",
        "new connections",
        "sent again",
    ];
    let row = |s: &Step| {
        let mut cells = vec![number_of(s), name(run, s)];
        cells.extend([s.lateness_p50_ms, s.lateness_p99_ms, s.receive_lag_p99_ms].map(number));
        cells.extend([s.client_busy, s.client_waiting].map(percent));
        cells.extend([s.conn_new.to_string(), s.retried.to_string()]);
        cells
    };
    table(&head, &["level"], run.steps.iter().map(row).collect())
}

/// Failures by kind with one escaped sample each.
pub fn failures(run: &Run) -> String {
    let head = ["step", "kind", "status", "count", "sample"];
    let rows = run.failures.iter().map(|f| {
        vec![
            if f.step == 0 { "before the first".into() } else { f.step.to_string() },
            markdown(&f.kind),
            f.status.map_or(UNKNOWN.into(), |s| s.to_string()),
            thousands(f.count as f64),
            markdown(&clip(&f.sample, 160)),
        ]
    });
    table(&head, &["kind", "sample"], rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_run::fixture;

    #[test]
    fn shares_do_not_round_up_to_all() {
        for (share, text) in
            [(1.0, "100 %"), (0.99999, "> 99.99 %"), (0.9912, "99.12 %"), (0.5, "50 %"), (0.0, "0 %")]
        {
            assert_eq!(percent(Some(share)), text);
        }
    }

    #[test]
    fn limits_that_judged_nothing_say_so() {
        let (_, run) = fixture::cases().into_iter().find(|(n, _)| *n == "found").unwrap();
        let row = |n, verdict| LimitRow { n, misses: 0, verdict, ..run.steps[0].limits[0].clone() };
        for (n, v, want) in [
            (9, Verdict::Meets, "● 0 of 9"),
            (0, Verdict::Meets, "● does not apply"),
            (0, Verdict::Undecided, "○ no answer to judge"),
        ] {
            assert_eq!(limit_cell(&row(n, v)), want);
        }
    }

    #[test]
    fn every_row_has_the_cells_of_its_head() {
        for (case, run) in fixture::cases() {
            for t in
                [steps(&run), percentiles(&run), limits(&run), throughput(&run), client(&run), failures(&run)]
            {
                let cells = |l: &str| l.replace("\\|", "").matches('|').count();
                let counts: Vec<usize> = t.lines().map(cells).collect();
                assert!(counts.windows(2).all(|w| w[0] == w[1]), "{case}: {t}");
            }
        }
    }

    #[test]
    fn samples_are_harmless() {
        let (_, run) = fixture::cases().into_iter().find(|(n, _)| *n == "all-failed").unwrap();
        insta::assert_snapshot!(failures(&run), @r#"
        | step | kind | status | count | sample |
        | ---: | --- | ---: | ---: | --- |
        | 1 | server-error | 500 | 240 | {"error": "boom \| \`x\` &lt;b&gt;␛\[31m"} second line |
        "#);
    }
}
