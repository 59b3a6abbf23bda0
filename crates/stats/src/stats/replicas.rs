//! Replicas of a service without a load balancer: splits the requests of a step by server, and names a replica that is much worse
//! than the others.

use super::compact_record::CompactRecord;
use super::percentile::order_statistic;
use super::step::{OutlierMetric, Replica};
use super::tail::{ClusterPrior, quantiles_by_due};
use super::verdict::{GROSS, GROSS_INFLATION, gross};
use goodput_core::endpoint::BaseUrl;
use goodput_core::record::{Failure, Outcome, Phase};
use goodput_core::slo::{AnswerPart, Judged, Metric};
use goodput_core::units::ms;
use std::collections::BTreeMap;

/// A replica is much slower if more than [`ALLOWED_SHARE`] of its requests take longer than this multiple of the others' p99, and if its best
/// part of the step is slower than their worst by this factor.
const SLOW_FACTOR: f64 = 1.5;
/// Share of slow requests that is tolerated, and of failed requests beyond the others' share.
const ALLOWED_SHARE: f64 = 0.01;
/// Number of parts of a step whose 90th percentiles are compared.
const PARTS: usize = 10;
/// A replica that answered less than this share of its requests is no reference for the others.
const MIN_ANSWERED_SHARE: f64 = 0.5;

/// Returns the measured requests of a step by server, in the order of `urls`. Empty for fewer than two servers, and for more than
/// 256, which the records cannot tell apart.
///
/// A replica is an outlier if [`gross`], which detects overload and nothing less, finds it far beyond the others (the lower
/// median of their p99s, or of their shares of failed requests), and, if slow, is so throughout the step: at its best it is 1.5 times as slow
/// as they are at their worst. Queues of identical servers have busy periods of their own that may be as long as a step: of two (four)
/// simulated M/M/1 queues with 1,500 requests together, one was named in 0 (1) of 400 steps at 0.95 and in 0 (1) at 0.97 of their capacity,
/// where a rule of slower parts, nine of ten, named one in 16 (38) and 21 (48). A server of twice the service time beside one was named in 27,
/// 78 and 93 % of such steps at 0.3, 0.5 and 0.6 of the other's capacity, by the other rule in 88, 100 and 100 %. A sweep names a
/// replica if it is an outlier in enough steps.
pub fn replicas(records: &[CompactRecord], urls: &[BaseUrl]) -> Vec<Replica> {
    if !(2..=256).contains(&urls.len()) {
        return Vec::new();
    }
    let mut dealt: Vec<Vec<&CompactRecord>> = vec![Vec::new(); urls.len()];
    let mut measured: Vec<&CompactRecord> = records.iter().filter(|r| r.phase == Phase::Measure).collect();
    measured.sort_unstable_by_key(|r| (r.due, r.id));
    for r in measured {
        // Requests that the client could not send belong to no server.
        if r.failure != Some(Failure::ClientLimit)
            && let Some(own) = dealt.get_mut(usize::from(r.target))
        {
            own.push(r);
        }
    }
    let mut all: Vec<Replica> =
        (0..).zip(urls).zip(&dealt).map(|((target, url), own)| replica(target, url, own)).collect();
    let outliers: Vec<_> = (0..all.len()).map(|i| outlier(&all, i, &dealt)).collect();
    for (replica, outlier) in all.iter_mut().zip(outliers) {
        (replica.outlier, replica.others) = outlier.unzip();
    }
    all
}

/// Summarises the requests of one server, given in order of `due`.
fn replica(target: u16, url: &BaseUrl, own: &[&CompactRecord]) -> Replica {
    let count = |outcome| own.iter().filter(|r| r.outcome == outcome).count() as u64;
    let mut buffer = Vec::with_capacity(own.len());
    let mut of = |metric: Metric| {
        let values = own.iter().filter(|r| r.counts_for(metric));
        let values = values.filter_map(|r| metric.of(&r.record())).map(ms);
        quantiles_by_due(values, &mut buffer, ClusterPrior::default())
    };
    let latency: BTreeMap<_, _> =
        Metric::PRINCIPAL.into_iter().map(|m| (m, of(m))).filter(|(_, q)| q.n > 0).collect();
    Replica {
        target,
        url: url.to_string(),
        n: own.len() as u64,
        failed: count(Outcome::Failed),
        cut: count(Outcome::Cut),
        latency,
        outlier: None,
        others: None,
    }
}

/// Returns the metric in which the `i`-th replica is much worse than the others, and the others' value of it.
fn outlier(all: &[Replica], i: usize, dealt: &[Vec<&CompactRecord>]) -> Option<(OutlierMetric, f64)> {
    let others = || all.iter().enumerate().filter(|(at, _)| *at != i).map(|(_, r)| r).filter(|r| r.n > 0);
    let me = &all[i];
    let usual = median(others().map(Replica::failed_share).collect())?;
    if gross(me.failed, me.n - me.cut, usual.max(0.0) + ALLOWED_SHARE, GROSS_INFLATION) > GROSS {
        return Some((OutlierMetric::Failures, usual));
    }
    [(Metric::Ttft, OutlierMetric::Ttft), (Metric::Tpot, OutlierMetric::Tpot)].into_iter().find_map(
        |(metric, what)| {
            let known = others().filter(|r| r.quantiles(metric).n as f64 >= MIN_ANSWERED_SHARE * r.n as f64);
            let usual = median(known.filter_map(|r| r.quantiles(metric).p99).collect())?;
            let judged: Vec<Judged> =
                dealt[i].iter().map(|r| beyond(metric, r, SLOW_FACTOR * usual)).collect();
            let count = |what| judged.iter().filter(|j| **j == what).count() as u64;
            let (over, within) = (count(Judged::Missed), count(Judged::Met));
            let far = gross(over, over + within, ALLOWED_SHARE, GROSS_INFLATION) > GROSS;
            (far && is_slower_throughout(metric, i, dealt)).then_some((what, usual))
        },
    )
}

/// Returns true if the `i`-th replica is slower by [`SLOW_FACTOR`] in its best part of the step than the others in their worst; of several
/// others their median counts in each part.
fn is_slower_throughout(metric: Metric, i: usize, dealt: &[Vec<&CompactRecord>]) -> bool {
    let parts: Vec<[Option<f64>; PARTS]> = dealt.iter().map(|own| p90_by_part(metric, own)).collect();
    let of_others = |part: usize| {
        let others = parts.iter().enumerate().filter(|(at, _)| *at != i);
        median(others.filter_map(|(_, p)| p[part]).collect())
    };
    let worst = (0..PARTS).filter_map(of_others).max_by(f64::total_cmp);
    let is_whole = parts[i].iter().all(Option::is_some);
    let best = parts[i].iter().copied().flatten().min_by(f64::total_cmp);
    is_whole && best.zip(worst).is_some_and(|(own, others)| own > SLOW_FACTOR * others)
}

/// Returns the 90th percentile of a metric in each part of the step, in milliseconds; infinite for a part of whose requests none was answered,
/// as in the last part of an overloaded step, and `None` without requests.
fn p90_by_part(metric: Metric, own: &[&CompactRecord]) -> [Option<f64>; PARTS] {
    let of = |part: &[&CompactRecord]| {
        let answered = part.iter().filter(|r| r.counts_for(metric));
        let mut values: Vec<f64> = answered.filter_map(|r| metric.of(&r.record())).map(ms).collect();
        values.sort_unstable_by(f64::total_cmp);
        let unanswered = (!part.is_empty()).then_some(f64::INFINITY);
        order_statistic(&values, 900).or(unanswered)
    };
    let end = |part: usize| part * own.len() / PARTS;
    std::array::from_fn(|part| of(&own[end(part)..end(part + 1)]))
}

/// Judges a request against a latency in milliseconds. Failed requests are counted elsewhere; the latency of requests that were
/// cut off early is unknown.
fn beyond(metric: Metric, r: &CompactRecord, limit_ms: f64) -> Judged {
    let waited = ms(r.end.get().saturating_sub(r.due.get()));
    let value = metric.of(&r.record()).filter(|_| r.counts_for(metric)).map(ms);
    match value {
        Some(value) if value > limit_ms => Judged::Missed,
        Some(_) => Judged::Met,
        None if metric.part() == AnswerPart::First && r.outcome == Outcome::Cut && waited > limit_ms => {
            Judged::Missed
        }
        None => Judged::Unknown,
    }
}

/// Returns the lower median: of two values the smaller one.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied()
}

#[cfg(test)]
mod tests;
