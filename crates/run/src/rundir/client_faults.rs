//! Faults of the client in the steps of a run, and its distance from its limits.

use super::{FailureRow, Run};
use goodput_core::caveat::{ClientCaveat, OwnFault};
use goodput_core::record::Failure;
use goodput_core::slo::Slo;
use goodput_plan::Plan;
use goodput_stats::stats::client::{ClientTiming, Margin, tightest_of};
use goodput_stats::stats::step::{Step, Verdict};
use goodput_stats::stats::summary::tier_verdict;

impl Run {
    /// Returns the distance of the client from its own limits.
    pub fn margin(&self) -> Margin {
        Margin::of(&self.steps, &self.tiers, self.allowed, self.max_in_flight)
    }
}

/// Returns a caveat for each step in which the client reached one of its own limits, with the limit; `invalid` is set
/// if the step is invalid.
pub(super) fn faults(plan: &Plan, steps: &[Step], failures: &[FailureRow]) -> Vec<ClientCaveat> {
    let tiers = plan.slo.as_slice();
    let found = steps.iter().filter_map(|s| {
        let fault = fault(plan, s, failures)?;
        let invalid = |t: &Slo| tier_verdict(&s.limits, t.tier()).0 == Verdict::Invalid;
        let invalid = s.verdict == Verdict::Invalid || tiers.iter().any(invalid);
        let judged = !s.kind.is_outside_search();
        Some(ClientCaveat::OwnLimit { step: s.step, fault, invalid, judged })
    });
    found.collect()
}

/// Checks in order of precedence: requests not sent, requests sent too late to count, delayed requests.
fn fault(plan: &Plan, s: &Step, failures: &[FailureRow]) -> Option<OwnFault> {
    let held = failures
        .iter()
        .filter(|f| f.series == s.series && f.step == s.step && f.kind == Failure::ClientLimit.name());
    let (held, told) = held.fold((0, false), |(n, told), f| (n + f.count, told || !f.sample.is_empty()));
    if held > 0 {
        // The system gives a reason for a missing descriptor or port; requests that the client itself holds back have
        // no such text.
        let allowed = plan.step.max_in_flight;
        return Some(if told {
            OwnFault::Exhausted { held }
        } else {
            OwnFault::MaxInFlight { allowed, held }
        });
    }
    let (from_due, any) = tightest_of(plan.slo.as_slice());
    let own = ClientTiming::of(s, plan.allowed());
    own.behind().or_else(|| own.doubt(from_due, any))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use goodput_core::caveat::{Cause, Excess};

    /// Rows: changes to a step whose tightest limits are 200 ms from `due` and 50 ms by lag, and the resulting
    /// caveat.
    #[test]
    fn a_step_tells_what_its_client_did() {
        let plan = Plan::from_text(include_str!("../../../../tests/fixtures/plans/design.toml")).unwrap();
        let (_, run) = fixture::cases().into_iter().find(|(n, _)| *n == "one-step").unwrap();
        let row = |sample: &str| FailureRow {
            series: "main".into(),
            step: 1,
            class: "all".into(),
            kind: "client-limit".into(),
            status: None,
            count: 40,
            sample: sample.into(),
        };
        let said = |change: fn(&mut Step), failures: &[FailureRow]| {
            let mut s = run.steps[0].clone();
            change(&mut s);
            let all = faults(&plan, &[s], failures);
            all.into_iter().next().map(|c| match c {
                ClientCaveat::OwnLimit { step: 1, fault, invalid, judged: true } => (fault, invalid),
                other => panic!("{other:?}"),
            })
        };
        let excess = |p99_ms, allowed_ms, limit_ms| {
            let cause = Cause::Unknown;
            Excess { p99_ms, allowed_ms, limit_ms, cause }
        };
        for (what, change, failures, fault) in [
            (
                "late",
                (|s| s.lateness_p99_ms = Some(12.0)) as fn(&mut Step),
                vec![],
                OwnFault::Late(excess(12.0, 10.0, 200.0)),
            ),
            (
                "lagging",
                |s| s.receive_lag_p99_ms = Some(3.0),
                vec![],
                OwnFault::Lagging(excess(3.0, 2.5, 50.0)),
            ),
            (
                "starved",
                |s| s.client_waiting = Some(0.2),
                vec![],
                OwnFault::Starved { waiting: 0.2, allowed: 0.1 },
            ),
            (
                "behind",
                |s| s.sent_rate *= 0.9,
                vec![],
                OwnFault::Behind { sent: 2160, due: 2400, cause: Cause::Unknown },
            ),
            ("held", |_| (), vec![row("")], OwnFault::MaxInFlight { allowed: 4096, held: 40 }),
            ("exhausted", |_| (), vec![row("too many open files")], OwnFault::Exhausted { held: 40 }),
            (
                "of several, what was not sent",
                |s| (s.sent_rate, s.lateness_p99_ms) = (1.0, Some(99.0)),
                vec![row("")],
                OwnFault::MaxInFlight { allowed: 4096, held: 40 },
            ),
        ] {
            assert_eq!(said(change, &failures), Some((fault, false)), "{what}");
        }
        assert_eq!(said(|_| (), &[]), None, "all is well");
        assert_eq!(said(|s| s.lateness_p99_ms = Some(10.0), &[]), None, "as much as is allowed");
        let other = FailureRow { step: 2, ..row("") };
        assert_eq!(said(|_| (), &[other]), None, "of another step");
        let invalid = |s: &mut Step| (s.verdict, s.lateness_p99_ms) = (Verdict::Invalid, Some(12.0));
        assert!(said(invalid, &[]).is_some_and(|(_, invalid)| invalid));
    }

    #[test]
    fn the_margin_is_that_of_the_worst_step() {
        let (_, mut run) = fixture::cases().into_iter().find(|(n, _)| *n == "found").unwrap();
        let most = |m: Option<goodput_stats::stats::client::Maximum>| {
            m.map(|m| (m.most, m.step, m.allowed, m.is_over()))
        };
        run.steps[3].lateness_p99_ms = Some(12.0);
        (run.steps[1].receive_lag_p99_ms, run.steps[4].receive_lag_p99_ms) = (Some(0.2), Some(0.1));
        run.steps[5].client_busy = Some(0.97);
        let margin = run.margin();
        // Limits of 200 ms and 20 ms.
        assert_eq!(most(margin.lateness_p99_ms), Some((12.0, 4, Some(10.0), true)));
        assert_eq!(most(margin.receive_lag_p99_ms), Some((0.2, 2, Some(1.0), false)));
        assert_eq!(most(margin.busy), Some((0.97, 6, None, false)));
        assert_eq!(most(margin.waiting), Some((0.002, 1, Some(0.1), false)));
        assert_eq!(margin.in_flight.map(|m| m.allowed), Some(Some(4096.0)));
        for s in &mut run.steps {
            (s.client_busy, s.client_waiting, s.receive_lag_p99_ms) = (None, None, None);
        }
        let margin = run.margin();
        assert_eq!((margin.busy, margin.waiting, margin.receive_lag_p99_ms), (None, None, None), "not known");
        run.tiers = vec![toml::from_str("tpot.p99 = \"20ms\"").unwrap()];
        assert_eq!(
            most(run.margin().lateness_p99_ms),
            Some((12.0, 4, None, false)),
            "no limit counts from due"
        );
        run.steps.clear();
        assert_eq!(run.margin().in_flight, None);
    }
}
