//! The replicas of a service behind no balancer: a step's requests by the server that they were dealt to, and which of the
//! servers is far worse than the others.

use super::kept::Kept;
use super::percentile::order_statistic;
use super::step::{Apart, Replica};
use super::tail::{Known, quantiles_by_due};
use super::verdict::{GROSS, GROSS_INFLATION, gross};
use goodput_core::endpoint::BaseUrl;
use goodput_core::record::{Failure, Outcome, Phase};
use goodput_core::slo::{Judged, Metric};
use goodput_core::units::ms;
use std::collections::BTreeMap;

/// A replica is far slower where more than a hundredth of its requests takes longer than so many times the others' p99 …
const FAR: f64 = 1.5;
/// … and failing where more fail than in the others, by this share of its requests.
const ALLOWED: f64 = 0.01;
/// So it has to be in this many parts of the step, of [`PARTS`], by their 90th percentiles.
const NEARLY_ALL: usize = 9;
const PARTS: usize = 10;
/// A replica that answered less than this share of what it was dealt is no measure for the others.
const TELLING: f64 = 0.5;

/// The measured requests of a step by server, in the order of `urls`; none where there are not several, and none of more than
/// 256, which are not told apart.
///
/// A replica stands *apart* where [`gross`], which sees overload and nothing less, says so of what it does beyond the others
/// (the lower median of their p99s, or of their shares of failed requests), and a slow one is so throughout the step. Queues of
/// servers that are alike have long busy times of their own: of two simulated M/M/1 queues with 1,500 requests each one was
/// named in 1 of 200 steps at 0.9 of their capacity and in 5 at 0.95, by the p99 alone in 34 and 62. So one step alone is not
/// enough where there are more.
pub fn replicas(records: &[Kept], urls: &[BaseUrl]) -> Vec<Replica> {
    if !(2..=256).contains(&urls.len()) {
        return Vec::new();
    }
    let mut dealt: Vec<Vec<&Kept>> = vec![Vec::new(); urls.len()];
    let mut measured: Vec<&Kept> = records.iter().filter(|r| r.phase == Phase::Measure).collect();
    measured.sort_unstable_by_key(|r| (r.due, r.id));
    for r in measured {
        // What the client could not send is no server's.
        if r.failure != Some(Failure::ClientLimit)
            && let Some(own) = dealt.get_mut(usize::from(r.target))
        {
            own.push(r);
        }
    }
    let mut all: Vec<Replica> =
        (0..).zip(urls).zip(&dealt).map(|((target, url), own)| replica(target, url, own)).collect();
    let apart: Vec<_> = (0..all.len()).map(|i| apart(&all, i, &dealt)).collect();
    for (replica, apart) in all.iter_mut().zip(apart) {
        (replica.apart, replica.others) = apart.unzip();
    }
    all
}

/// `own` in order of `due`.
fn replica(target: u16, url: &BaseUrl, own: &[&Kept]) -> Replica {
    let count = |outcome| own.iter().filter(|r| r.outcome == outcome).count() as u64;
    let mut room = Vec::with_capacity(own.len());
    let mut of = |metric: Metric| {
        let told = own.iter().filter(|r| r.tells(metric));
        let values = told.filter_map(|r| metric.of(&r.record())).map(ms);
        quantiles_by_due(values, &mut room, Known::default())
    };
    let latency: BTreeMap<_, _> =
        Replica::METRICS.into_iter().map(|m| (m, of(m))).filter(|(_, q)| q.n > 0).collect();
    Replica {
        target,
        url: url.to_string(),
        n: own.len() as u64,
        failed: count(Outcome::Failed),
        cut: count(Outcome::Cut),
        latency,
        apart: None,
        others: None,
    }
}

/// In what the `i`-th is far worse than the others, and what it is in those.
fn apart(all: &[Replica], i: usize, dealt: &[Vec<&Kept>]) -> Option<(Apart, f64)> {
    let others = || all.iter().enumerate().filter(|(at, _)| *at != i).map(|(_, r)| r).filter(|r| r.n > 0);
    let me = &all[i];
    let usual = median(others().map(Replica::failed_share).collect())?;
    if gross(me.failed, me.n - me.cut, usual.max(0.0) + ALLOWED, GROSS_INFLATION) > GROSS {
        return Some((Apart::Failures, usual));
    }
    [(Metric::Ttft, Apart::Ttft), (Metric::Tpot, Apart::Tpot)].into_iter().find_map(|(metric, what)| {
        let known = others().filter(|r| r.quantiles(metric).n as f64 >= TELLING * r.n as f64);
        let usual = median(known.filter_map(|r| r.quantiles(metric).p99).collect())?;
        let judged: Vec<Judged> = dealt[i].iter().map(|r| beyond(metric, r, FAR * usual)).collect();
        let count = |what| judged.iter().filter(|j| **j == what).count() as u64;
        let (over, within) = (count(Judged::Missed), count(Judged::Met));
        let far = gross(over, over + within, ALLOWED, GROSS_INFLATION) > GROSS;
        (far && throughout(metric, i, dealt)).then_some((what, usual))
    })
}

/// Whether the `i`-th is the slower one in nearly every part of the step. One long queue fills a part or two, whatever the server.
fn throughout(metric: Metric, i: usize, dealt: &[Vec<&Kept>]) -> bool {
    let parts: Vec<Vec<Option<f64>>> = dealt.iter().map(|own| slow_ends(metric, own)).collect();
    let slower = |part: &usize| {
        let others = parts.iter().enumerate().filter(|(at, _)| *at != i);
        let usual = median(others.filter_map(|(_, p)| p.get(*part).copied().flatten()).collect());
        let own = parts[i].get(*part).copied().flatten();
        own.zip(usual).is_some_and(|(own, usual)| own > FAR * usual)
    };
    (0..PARTS).filter(slower).count() >= NEARLY_ALL
}

/// The 90th percentile of a metric in each of the parts of a step, in milliseconds.
fn slow_ends(metric: Metric, own: &[&Kept]) -> Vec<Option<f64>> {
    let each = own.len().div_ceil(PARTS).max(1);
    let of = |part: &[&Kept]| {
        let answered = part.iter().filter(|r| r.tells(metric));
        let mut values: Vec<f64> = answered.filter_map(|r| metric.of(&r.record())).map(ms).collect();
        values.sort_unstable_by(f64::total_cmp);
        order_statistic(&values, 900)
    };
    own.chunks(each).map(of).collect()
}

/// Whether a request took longer than this; what failed is counted elsewhere, and what was cut off before it could be told is
/// not known.
fn beyond(metric: Metric, r: &Kept, limit_ms: f64) -> Judged {
    let waited = ms(r.end.get().saturating_sub(r.due.get()));
    let value = metric.of(&r.record()).filter(|_| r.tells(metric)).map(ms);
    match value {
        Some(value) if value > limit_ms => Judged::Missed,
        Some(_) => Judged::Met,
        None if metric == Metric::Ttft && r.outcome == Outcome::Cut && waited > limit_ms => Judged::Missed,
        None => Judged::Unknown,
    }
}

/// The lower median: of two the smaller one.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied()
}

#[cfg(test)]
mod tests;
