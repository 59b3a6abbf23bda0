//! Sensitivity of the answer: elasticities of the goodput from the pairs of steps in the folder `sensitivity` of a
//! run.

use super::requests::each_record;
use super::{PLAN, RESULT, files, read};
use anyhow::{Context, Result};
use goodput_core::record::{Outcome, Phase, Record};
use goodput_core::slo::{Judged, Limit, LimitGroup, Slo};
use goodput_core::units::ms;
use goodput_plan::Plan;
use goodput_plan::sensitivity::{Immovable, Side, factor_series, rate_series};
use goodput_stats::stats::elasticity::{Elasticity, elasticity, mean, tail_log};
use goodput_stats::stats::step::Step;
use goodput_workload::config::Workload;
use goodput_workload::factors::{Factor, FactorKind};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Folder of the pairs within a run folder; it is itself a run folder.
pub const FOLDER: &str = "sensitivity";

/// The sensitivity of a run's answer to its factors.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Sensitivity {
    /// Level at the centre of all variations.
    pub centre: f64,
    /// Share by which the rate was moved in each direction.
    pub rate_move: f64,
    /// Number of complete turns: each has one step of every series.
    pub turns: usize,
    /// Number of requested turns.
    pub of_turns: usize,
    /// Mean number of requests per step.
    pub requests: f64,
    /// Limit whose tail was closest to it in most steps, named as in `limits.csv`.
    pub limit: Option<String>,
    /// Tail latency divided by its limit at the centre: near 1 if the centre is the boundary.
    pub tail_over_limit: Option<f64>,
    /// Slope d ln tail/d ln rate at the centre: steepness of the tail over the rate.
    pub slope: Option<f64>,
    /// Effects of the factors, the largest first.
    pub effects: Vec<Effect>,
    /// Factors that this workload does not have, or that cannot be varied on it.
    pub immovable: Vec<Immovable>,
}

/// The effect of one factor on the goodput.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "FactorEffect")]
pub struct Effect {
    /// The factor.
    #[serde(flatten)]
    pub factor: Factor,
    /// Value in the plan: mean tokens, a share, or a coefficient of variation.
    pub value: f64,
    /// Value in the steps where the factor was moved down.
    pub down: f64,
    /// Value in the steps where the factor was moved up.
    pub up: f64,
    /// Number of usable turns: in the others so many requests failed that the tail is unknown.
    pub turns: usize,
    /// Elasticity d ln r\*/d ln x with its interval; `None` if no turn is usable.
    pub elasticity: Option<Elasticity>,
}

impl Effect {
    /// Returns the factor by^e on the goodput if this factor is multiplied by `by`, with its 90 % interval.
    pub fn goodput_times(&self, by: f64) -> Option<(f64, Option<[f64; 2]>)> {
        let e = self.elasticity?;
        let times = |e: f64| by.powf(e);
        let bounds = e.interval90.map(|[low, high]| {
            let [a, b] = [times(low), times(high)];
            [a.min(b), a.max(b)]
        });
        Some((times(e.value), bounds))
    }
}

/// Latencies of one step in milliseconds, for each limit.
type Tails = Vec<Vec<f64>>;

impl Sensitivity {
    /// Reads the sensitivity of a run from its pairs; `None` if none were measured, or if they belong to another
    /// plan.
    ///
    /// # Errors
    /// Fails if a file exists but cannot be read.
    pub(super) fn read(dir: &Path, plan: &Plan) -> Result<Option<Self>> {
        let folder = dir.join(FOLDER);
        files::is_own_folder(&folder)?;
        if !folder.join(PLAN).is_file() || !folder.join(RESULT).is_file() {
            return Ok(None);
        }
        let path = folder.join(PLAN);
        let paired = Plan::parse_explained(&files::plan_text(&path)?)
            .with_context(|| format!("in {}", path.display()))?;
        if paired.slo != plan.slo {
            return Ok(None);
        }
        let steps = read::read_steps(&folder, &mut Vec::new())?;
        let Some(slo) = paired.slo.as_slice().first() else { return Ok(None) };
        let tails = tails(&folder, &paired, slo, &steps)?;
        Ok(Some(Self::of(plan, &paired, slo, &steps, tails)))
    }

    fn of(
        plan: &Plan,
        paired: &Plan,
        slo: &Slo,
        steps: &[Step],
        tails: BTreeMap<(String, u32), Tails>,
    ) -> Self {
        let cells = Cells::new(slo, steps, tails);
        let series = paired.series();
        let workload = |name: &str| series.iter().find(|s| s.name == name).map(|s| &s.plan.workload);
        let rates = Side::BOTH.map(|side| cells.level(&rate_series(side)));
        let span = match rates {
            [Some(down), Some(up)] => (up / down).ln(),
            _ => f64::NAN,
        };
        let of_rate = cells.slopes(Side::BOTH.map(rate_series), span);
        let factors = Factor::of_kinds(&FactorKind::ALL, &paired.workload);
        let mut effects: Vec<Effect> =
            factors.iter().filter_map(|factor| effect(factor, paired, workload, &cells, &of_rate)).collect();
        let size = |e: &Effect| e.elasticity.map_or(-1.0, |e| e.value.abs());
        effects.sort_by(|a, b| size(b).total_cmp(&size(a)));
        let asked = plan.sensitivity.clone().unwrap_or_default();
        let (binding, over) = cells.binding(Side::BOTH.map(rate_series));
        let own: Vec<f64> = of_rate.iter().copied().flatten().collect();
        Self {
            centre: rates[0].zip(rates[1]).map_or(0.0, |(down, up)| (down * up).sqrt()),
            rate_move: (span / 2.0).exp() - 1.0,
            turns: series.iter().map(|s| cells.turns(&s.name)).min().unwrap_or(0),
            of_turns: paired.alternate.map_or(0, |n| n.get() as usize),
            requests: mean(&steps.iter().map(|s| s.due_n as f64).collect::<Vec<_>>()).unwrap_or(0.0),
            limit: binding,
            tail_over_limit: over,
            slope: mean(&own),
            effects,
            immovable: asked.factors(plan).1,
        }
    }
}

/// Returns the effect of a factor; `None` if it was not varied.
fn effect<'a>(
    factor: &Factor,
    paired: &Plan,
    workload: impl Fn(&str) -> Option<&'a Workload>,
    cells: &Cells,
    of_rate: &[Option<f64>],
) -> Option<Effect> {
    let names = Side::BOTH.map(|side| factor_series(factor, side));
    let value = |w: &Workload| factor.value(w).ok();
    let (down, up) = (value(workload(&names[0])?)?, value(workload(&names[1])?)?);
    let slopes = cells.slopes(names, (up / down).ln());
    let both: Vec<(f64, f64)> =
        of_rate.iter().zip(&slopes).filter_map(|(b, a)| Some(((*b)?, (*a)?))).collect();
    let (rate, own): (Vec<f64>, Vec<f64>) = both.into_iter().unzip();
    Some(Effect {
        factor: factor.clone(),
        value: value(&paired.workload)?,
        down,
        up,
        turns: own.len(),
        elasticity: elasticity(&rate, &own),
    })
}

/// Returns the limits on latencies that every request has, each with the requests it applies to.
fn limits(slo: &Slo) -> Vec<(LimitGroup<'_>, Limit)> {
    let mut all = Vec::new();
    for part in slo.limit_groups() {
        let own = part.slo.limits().into_iter().filter(|l| l.metric.is_per_request());
        all.extend(own.map(|limit| (part, limit)));
    }
    all
}

/// Returns the latencies of every step's measured requests in milliseconds, by limit.
fn tails(dir: &Path, plan: &Plan, slo: &Slo, steps: &[Step]) -> Result<BTreeMap<(String, u32), Tails>> {
    let classes: Vec<&str> = plan.workload.classes().iter().map(|c| c.name.as_str()).collect();
    let limits = limits(slo);
    let whole = |s: &&Step| !s.broken_off();
    let mut all: BTreeMap<(String, u32), Tails> = steps
        .iter()
        .filter(whole)
        .map(|s| ((s.series.clone(), s.step), vec![Vec::new(); limits.len()]))
        .collect();
    each_record(dir, &classes, |series, step, r| {
        if r.phase != Phase::Measure {
            return;
        }
        let Some(tails) = all.get_mut(&(series.to_owned(), step)) else { return };
        for ((part, limit), tail) in limits.iter().zip(tails) {
            tail.extend(part.judges(r.class).then(|| latency(limit, r)).flatten());
        }
    })?;
    Ok(all)
}

/// Returns a latency in milliseconds: infinite if the request failed or was cut off before it was known, `None` if it
/// is undefined.
fn latency(limit: &Limit, r: &Record) -> Option<f64> {
    match (limit.metric.of(r).filter(|_| r.outcome != Outcome::Failed), limit.judge(r)) {
        (Some(value), _) => Some(ms(value)),
        (None, Judged::NotApplicable) => None,
        (None, _) => Some(f64::INFINITY),
    }
}

/// The tail of each step relative to the limits, by series and turn.
struct Cells {
    /// Limit closest to being missed, and logarithm of its tail over the limit; `None` if the tail is unknown.
    tails: BTreeMap<String, Vec<Option<(String, f64)>>>,
    levels: BTreeMap<String, f64>,
}

impl Cells {
    fn new(slo: &Slo, steps: &[Step], mut latencies: BTreeMap<(String, u32), Tails>) -> Self {
        let (mut tails, mut levels) = (BTreeMap::<String, Vec<_>>::new(), BTreeMap::new());
        let limits = limits(slo);
        for step in steps {
            let Some(own) = latencies.get_mut(&(step.series.clone(), step.step)) else { continue };
            let over = |((part, limit), tail): (&(LimitGroup<'_>, Limit), &mut Vec<f64>)| {
                if tail.is_empty() {
                    // The class has no request in this step.
                    return Some((part.key(&limit.name()), f64::NEG_INFINITY));
                }
                let log = tail_log(tail, limit.percentile.miss_share())?;
                Some((part.key(&limit.name()), log - limit.limit_ms().ln()))
            };
            let each: Option<Vec<(String, f64)>> = limits.iter().zip(own).map(over).collect();
            let worst = each.and_then(|all| all.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)));
            tails.entry(step.series.clone()).or_default().push(worst.filter(|w| w.1.is_finite()));
            levels.insert(step.series.clone(), step.level.value);
        }
        Self { tails, levels }
    }

    fn level(&self, series: &str) -> Option<f64> {
        self.levels.get(series).copied()
    }

    fn turns(&self, series: &str) -> usize {
        self.tails.get(series).map_or(0, Vec::len)
    }

    /// Returns the slope of each turn between two series whose logarithms differ by `span`; `None` for a turn with an
    /// unknown tail.
    fn slopes(&self, [down, up]: [String; 2], span: f64) -> Vec<Option<f64>> {
        let of = |name: &str| self.tails.get(name).map(Vec::as_slice).unwrap_or_default();
        let tails = of(&down).iter().zip(of(&up));
        let slope = tails.map(|(low, high)| Some((high.as_ref()?.1 - low.as_ref()?.1) / span));
        slope.map(|s| s.filter(|s| s.is_finite())).collect()
    }

    /// Returns the limit that was closest in most steps of these series, and the geometric mean of the tail over the
    /// limit.
    fn binding(&self, series: [String; 2]) -> (Option<String>, Option<f64>) {
        let all: Vec<&(String, f64)> =
            series.iter().filter_map(|s| self.tails.get(s)).flatten().flatten().collect();
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        all.iter().for_each(|(limit, _)| *counts.entry(limit).or_default() += 1);
        let most = counts.into_iter().max_by_key(|(_, n)| *n).map(|(limit, _)| limit.to_owned());
        let logs: Vec<f64> = all.iter().map(|(_, log)| *log).collect();
        (most, mean(&logs).map(f64::exp))
    }
}
