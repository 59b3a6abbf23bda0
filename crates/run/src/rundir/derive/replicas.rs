//! Caveats on the replicas of a service.

use goodput_core::caveat::{Caveat, ReplicasCaveat, SlowMetric};
use goodput_core::slo::Metric;
use goodput_stats::stats::step::{OutlierMetric, Replica, Step, Verdict};
use std::collections::BTreeMap;

/// A replica is slow if it is so in at least one in this many steps, and in two if there are two: queues differ by
/// chance.
const RECURS: u32 = 4;

/// Returns a caveat for every replica that is far worse than the others, from the step with the most requests that
/// was not overloaded. Steps with a growing backlog have no comparable latencies.
pub(super) fn replicas(steps: &[Step]) -> Vec<Caveat> {
    let told: Vec<&Step> =
        steps.iter().filter(|s| !s.replicas.is_empty() && s.verdict != Verdict::Invalid).collect();
    let mut apart: BTreeMap<(u16, bool), Vec<(&Step, &Replica)>> = BTreeMap::new();
    for step in &told {
        let counts = |r: &&Replica| match r.outlier {
            Some(OutlierMetric::Failures) => true,
            Some(OutlierMetric::Ttft | OutlierMetric::Tpot) => step.stable != Some(false),
            None => false,
        };
        for r in step.replicas.iter().filter(counts) {
            apart.entry((r.target, r.outlier == Some(OutlierMetric::Failures))).or_default().push((step, r));
        }
    }
    let of = told.len() as u32;
    let one = |seen: Vec<(&Step, &Replica)>| {
        let steps = seen.len() as u32;
        let (s, r) = seen.into_iter().max_by_key(|(s, _)| (!s.overloaded(), s.due_n))?;
        let (url, step, others) = (r.url.clone(), s.step, r.others?);
        let slow = |latency: Metric, metric: SlowMetric| {
            let p99_ms = r.quantiles(latency).p99?;
            Some(Caveat::Replicas(ReplicasCaveat::SlowReplica {
                url: url.clone(),
                metric,
                p99_ms,
                others_ms: others,
                step,
                steps,
                of,
            }))
        };
        match r.outlier? {
            OutlierMetric::Ttft => slow(Metric::Ttft, SlowMetric::Ttft),
            OutlierMetric::Tpot => slow(Metric::Tpot, SlowMetric::Tpot),
            OutlierMetric::Failures => Some(Caveat::Replicas(ReplicasCaveat::FailingReplica {
                url: url.clone(),
                share: r.failed_share(),
                others,
                step,
                steps,
                of,
            })),
        }
    };
    let recurs = |seen: &[(&Step, &Replica)]| {
        let n = seen.len() as u32;
        n >= of.min(2) && n * RECURS >= of
    };
    let sure = apart.into_iter().filter(|((_, failing), seen)| *failing || recurs(seen));
    sure.filter_map(|(_, seen)| one(seen)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use goodput_stats::stats::step::Abort;

    fn steps() -> Vec<Step> {
        fixture::cases().into_iter().find(|(name, _)| *name == "replicas").unwrap().1.steps
    }

    #[test]
    fn the_calm_step_with_the_most_requests_speaks_for_all() {
        let mut steps = steps();
        let [
            Caveat::Replicas(ReplicasCaveat::SlowReplica {
                url,
                metric,
                p99_ms,
                others_ms,
                step,
                steps: in_steps,
                of,
            }),
        ] = &*replicas(&steps)
        else {
            panic!("{:?}", replicas(&steps))
        };
        assert_eq!(
            (url.as_str(), metric.name(), *step, *in_steps, *of),
            ("http://b:8000", "TTFT", 10, 6, 11)
        );
        assert!((p99_ms / others_ms - 2.5).abs() < 1e-3, "{p99_ms} {others_ms}");
        steps[9].abort = Some(Abort::Gross);
        assert!(
            matches!(&*replicas(&steps), [Caveat::Replicas(ReplicasCaveat::SlowReplica { step: 9, .. })]),
            "a step broken off tells less"
        );
        let mut few = steps.clone();
        few.iter_mut().skip(5).for_each(|s| s.replicas[1].outlier = None);
        assert_eq!(replicas(&few), [], "one of eleven is chance");
        let growing = |s: &mut Step| s.stable = Some(false);
        few = steps.clone();
        few.iter_mut().for_each(growing);
        assert_eq!(replicas(&few), [], "nothing is steady");
        assert_eq!(replicas(&steps[5..6]).len(), 1, "the only step");
        steps.iter_mut().for_each(|s| s.verdict = Verdict::Invalid);
        assert_eq!(replicas(&steps), [], "the client was the limit");
    }

    #[test]
    fn failures_are_named_with_their_shares() {
        let mut one = steps().swap_remove(0);
        let r = &mut one.replicas[2];
        (r.n, r.failed, r.outlier, r.others) = (200, 50, Some(OutlierMetric::Failures), Some(0.01));
        let found = replicas(&[one]);
        let url = "unix:/run/c.sock".into();
        let want =
            ReplicasCaveat::FailingReplica { url, share: 0.25, others: 0.01, step: 1, steps: 1, of: 1 };
        assert_eq!(found, [want.into()]);
    }
}
