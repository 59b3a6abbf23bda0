//! TTFT by prompt length, from steps with one request at a time.

use super::{deployment, one_at_a_time};
use crate::rundir::table::{CellError, Columns, TableRow, each_row};
use crate::rundir::{REQUESTS, Run};
use anyhow::Result;
use goodput_core::record::{Outcome, Phase};
use goodput_core::slo::Metric;
use goodput_plan::Series;
use goodput_stats::diagnosis::LengthPoint;
use goodput_stats::stats::step::Step;
use goodput_workload::config::Cache;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// Minimum number of requests for a usable median.
const LEAST: usize = 20;
/// Maximum number of groups per step.
const GROUPS: usize = 4;
/// Smallest ratio between the mean lengths of separate groups.
const ALIKE: f64 = 1.3;
/// Smallest share of a prompt that must be computed for its TTFT to depend on its length rather than on the cache.
const LEAST_READ: f64 = 0.25;
/// Number of requests per step beyond which the medians no longer improve.
const ENOUGH: usize = 20_000;

/// A request with a TTFT that may depend on its length.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Request {
    input: f64,
    cached: Option<f64>,
    ttft_ms: f64,
}

/// The prompt tokens and the TTFT, in milliseconds, of the requests of a step.
type Times = Vec<(f64, f64)>;

/// The columns of `requests.csv` that concern the TTFT.
struct TtftRow {
    series: String,
    step: u32,
    phase: Phase,
    due_ms: f64,
    first_token_ms: Option<f64>,
    input_tokens: Option<u32>,
    cached_tokens: Option<u32>,
    outcome: Outcome,
}

impl TableRow for TtftRow {
    const FILE: &'static str = REQUESTS;

    fn empty() -> Self {
        Self {
            series: String::new(),
            step: 0,
            phase: Phase::Measure,
            due_ms: 0.0,
            first_token_ms: None,
            input_tokens: None,
            cached_tokens: None,
            outcome: Outcome::Cut,
        }
    }

    fn columns(&mut self, c: &mut impl Columns) -> Result<(), CellError> {
        c.cell("series", &mut self.series)?;
        c.cell("step", &mut self.step)?;
        c.cell("phase", &mut self.phase)?;
        c.within("due_ms", &mut self.due_ms, |ms| ms >= 0.0)?;
        c.within("first_token_ms", &mut self.first_token_ms, |ms| ms >= 0.0)?;
        c.cell("input_tokens", &mut self.input_tokens)?;
        c.cell("cached_tokens", &mut self.cached_tokens)?;
        c.cell("outcome", &mut self.outcome)
    }
}

/// Returns the points of all steps that had one request at a time; a step with different prompt lengths gives
/// several, and so do several steps together that each have too few requests.
pub(super) fn points(dir: &Path, run: &Run, series: &[Series]) -> Result<Vec<LengthPoint>> {
    let one: Vec<&Step> = run.steps.iter().filter(|s| one_at_a_time(s)).collect();
    let requests = read(dir, &one)?;
    let mut all = Vec::new();
    let mut together: BTreeMap<String, Vec<(u32, Times)>> = BTreeMap::new();
    for step in one {
        let Some(plan) = series.iter().find(|x| x.name == step.series).map(|x| &x.plan) else { continue };
        // Cached prompt tokens are not computed: if neither plan nor server tells how many, the prompt length is not
        // informative.
        let cold = plan.workload.cache == Cache::Cold && plan.workload.shared_share().is_some();
        let share = if cold { Some(1.0) } else { step.server.hit_rate.map(|hit| 1.0 - hit) };
        let read = |r: &Request| {
            let left = match (r.cached, share) {
                (Some(cached), _) => (r.input - cached).max(1.0),
                (None, Some(share)) => r.input * share,
                (None, None) => return None,
            };
            (left >= LEAST_READ * r.input).then_some((left, r.ttft_ms))
        };
        let own = requests.get(&(step.series.clone(), step.step)).map(Vec::as_slice).unwrap_or_default();
        let own_times: Times = own.iter().filter_map(read).collect();
        let mut found = groups(own_times.clone());
        let q = step.quantiles(Metric::Ttft);
        if let (true, Some(input), Some(share), Some(p50)) =
            (found.is_empty(), step.input_tokens_mean, share, q.p50)
            && q.n >= LEAST as u64
            && own.is_empty()
            && share >= LEAST_READ
        {
            found.push((input * share, p50, q.n));
        }
        let deployment = deployment(plan);
        together.entry(deployment.clone()).or_default().push((step.step, own_times));
        all.extend(found.into_iter().map(|(tokens, ttft_ms, n)| LengthPoint {
            deployment: deployment.clone(),
            step: step.step,
            tokens,
            ttft_ms,
            n,
        }));
    }
    for (deployment, steps) in together {
        pool(&mut all, &deployment, steps);
    }
    Ok(all)
}

/// Replaces the points of a deployment by those of the requests of all its steps together, if only these have several lengths.
fn pool(all: &mut Vec<LengthPoint>, deployment: &str, steps: Vec<(u32, Times)>) {
    let own = || all.iter().filter(|p| p.deployment == deployment).map(|p| p.tokens);
    let (least, most) = (own().fold(f64::INFINITY, f64::min), own().fold(0.0, f64::max));
    let Some(step) = steps.iter().max_by_key(|(_, times)| times.len()).map(|(step, _)| *step) else { return };
    let pooled = groups(steps.into_iter().flat_map(|(_, times)| times).collect());
    if most >= ALIKE * least || pooled.len() < 2 {
        return;
    }
    all.retain(|p| p.deployment != deployment);
    let point =
        |(tokens, ttft_ms, n)| LengthPoint { deployment: deployment.to_owned(), step, tokens, ttft_ms, n };
    all.extend(pooled.into_iter().map(point));
}

/// Groups requests by length: mean tokens, median TTFT, count. Returns one group if the lengths are similar, none if
/// there are too few requests.
fn groups(mut all: Vec<(f64, f64)>) -> Vec<(f64, f64, u64)> {
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let group = |part: &[(f64, f64)]| {
        let mut times: Vec<f64> = part.iter().map(|r| r.1).collect();
        times.sort_by(f64::total_cmp);
        let median = times.get(times.len().saturating_sub(1) / 2).copied().unwrap_or_default();
        (part.iter().map(|r| r.0).sum::<f64>() / part.len().max(1) as f64, median, part.len() as u64)
    };
    let parts = (all.len() / LEAST).min(GROUPS);
    if parts == 0 {
        return Vec::new();
    }
    let cut = |i: usize| i * all.len() / parts;
    let found: Vec<_> = (0..parts).map(|i| group(&all[cut(i)..cut(i + 1)])).collect();
    match (found.first(), found.last()) {
        (Some(first), Some(last)) if last.0 >= ALIKE * first.0 => found,
        _ => vec![group(&all)],
    }
}

/// Reads the measured requests of these steps that had a first token; a missing file counts as empty.
fn read(dir: &Path, steps: &[&Step]) -> Result<HashMap<(String, u32), Vec<Request>>> {
    let mut all: HashMap<(String, u32), Vec<Request>> =
        steps.iter().map(|s| ((s.series.clone(), s.step), Vec::new())).collect();
    if steps.is_empty() {
        return Ok(all);
    }
    each_row(dir, |row: &mut TtftRow| {
        if row.phase != Phase::Measure || row.outcome != Outcome::Ok {
            return;
        }
        let (Some(own), Some(first_token_ms), Some(input)) = (
            steps.iter().find(|s| s.step == row.step && s.series == row.series),
            row.first_token_ms,
            row.input_tokens,
        ) else {
            return;
        };
        let own = all.entry((own.series.clone(), own.step)).or_default();
        if own.len() < ENOUGH {
            own.push(Request {
                input: f64::from(input),
                cached: row.cached_tokens.map(f64::from),
                ttft_ms: (first_token_ms - row.due_ms).max(0.0),
            });
        }
    })?;
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows: the requests of each step, and the mean lengths of the groups.
    #[test]
    fn steps_with_few_requests_count_together() {
        let times = |tokens: &[f64], n: usize| -> Vec<(f64, f64)> {
            tokens.iter().flat_map(|t| vec![(*t, 10.0); n]).collect()
        };
        for (steps, want) in [
            (vec![times(&[100.0, 400.0], 10), times(&[100.0, 400.0], 10)], vec![100.0, 400.0]),
            (vec![times(&[100.0, 400.0], 5), times(&[100.0, 400.0], 5)], vec![]), // 20 requests are one group
            (vec![times(&[100.0], 30), times(&[110.0], 30)], vec![]),
        ] {
            let mut all = Vec::new();
            pool(&mut all, "a", (1..).zip(steps).collect());
            assert_eq!(all.iter().map(|p| p.tokens).collect::<Vec<_>>(), want);
        }
        let point = |tokens| LengthPoint { deployment: "a".into(), step: 1, tokens, ttft_ms: 9.0, n: 50 };
        let mut known = vec![point(100.0), point(400.0)];
        pool(&mut known, "a", vec![(1, times(&[100.0, 900.0], 40))]);
        assert_eq!(known.len(), 2, "what single steps tell stays");
        assert!((known[1].tokens - 400.0).abs() < 1e-9);
    }

    #[test]
    fn requests_of_different_lengths_make_groups() {
        let alike: Vec<(f64, f64)> = (0..60).map(|i| (600.0 + f64::from(i % 3), 14.0)).collect();
        assert_eq!(groups(alike), [(601.0, 14.0, 60)]);
        let spread: Vec<(f64, f64)> =
            (0..100).map(|i| (100.0 + 10.0 * f64::from(i), 5.0 + f64::from(i))).collect();
        let found = groups(spread);
        assert_eq!(found.iter().map(|g| g.2).collect::<Vec<_>>(), [25, 25, 25, 25]);
        assert!((found[0].0 - 220.0).abs() < 1e-9 && (found[0].1 - 17.0).abs() < 1e-9, "{found:?}");
        assert!(found.windows(2).all(|w| w[1].0 > w[0].0 && w[1].1 > w[0].1));
        assert_eq!(
            groups((0..45).map(|i| (f64::from(i + 1), 1.0)).collect()).len(),
            2,
            "two groups of twenty"
        );
        assert_eq!(groups(vec![(600.0, 14.0); 19]), [], "too few");
        assert_eq!(groups(vec![]), []);
    }

    #[test]
    fn rows_of_one_request_at_a_time_are_read() {
        let run = crate::fixture::adaptive();
        let dir = tempfile::tempdir().unwrap();
        let head = "series,step,phase,due_ms,end_ms,first_token_ms,input_tokens,cached_tokens,outcome";
        let rows = "main,1,measure,10,90,24.5,600,,ok\nmain,1,settle,0,90,9,600,,ok\n\
                    main,1,measure,20,90,30,500,400,ok\nmain,2,measure,0,90,9,600,,ok\n\
                    main,1,measure,9,90,,600,,failed\nmain,1,measure,1,90,2,7,,o";
        std::fs::write(dir.path().join(REQUESTS), format!("{head}\n{rows}")).unwrap();
        let steps = [&run.steps[0]];
        let got = read(dir.path(), &steps).unwrap();
        let want = [
            Request { input: 600.0, cached: None, ttft_ms: 14.5 },
            Request { input: 500.0, cached: Some(400.0), ttft_ms: 10.0 },
        ];
        assert_eq!(got[&("main".to_owned(), 1)], want, "measured, of that step, answered, and not torn");
        assert!(read(tempfile::tempdir().unwrap().path(), &steps).unwrap().values().all(Vec::is_empty));
    }
}
