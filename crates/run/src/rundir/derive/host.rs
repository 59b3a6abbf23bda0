//! Caveat for a server on this machine that shared its cores with other processes in the steps behind its answer.

use goodput_core::caveat::{Caveat, HostCaveat, Neighbours};
use goodput_stats::search::answer::Answer;
use goodput_stats::stats::step::{HostLoad, Step};

/// Largest factor between the level of a step and of the answer for the step to count as near.
const NEAR: f64 = 1.3;
/// Smallest share of the cores used by other processes that is reported: an idle machine has some load of its own.
const OTHERS: f64 = 0.2;
/// Smallest share of time without a core at which other processes slow a server.
const WAITING: f64 = 0.1;
/// Smallest share of time without a core at which other processes are suspected if the server's own processes, which
/// also wait for one another, cannot be distinguished.
const WAITING_UNKNOWN: f64 = 0.3;
/// Utilisation of the cores below which there is room for everybody, used if the waiting processes are unknown.
const BUSY: f64 = 0.7;
/// Smallest share of time taken by a hypervisor that matters.
const STEAL: f64 = 0.05;

/// Returns the caveat on the steps near the answers, if the server did not have the cores to itself in any of them.
pub(super) fn shared_cores(steps: &[Step], answers: &[Answer]) -> Option<Caveat> {
    let near: Vec<&Step> = steps.iter().filter(|s| is_near(s, answers)).collect();
    let of = near.iter().filter(|s| s.host.is_some()).count() as u32;
    let crowded: Vec<(u32, f64, Neighbours)> = near
        .iter()
        .filter_map(|s| neighbours(&s.host?).map(|(weight, neighbours)| (s.step, weight, neighbours)))
        .collect();
    let (step, _, neighbours) = crowded.iter().copied().reduce(|a, b| if b.1 > a.1 { b } else { a })?;
    Some(Caveat::Host(HostCaveat::SharedCores { step, steps: crowded.len() as u32, of, neighbours }))
}

/// Returns true for a step under load at a level near an answer, or for every step under load if no answer has a
/// level.
fn is_near(step: &Step, answers: &[Answer]) -> bool {
    let levels = |a: &Answer| {
        [a.goodput.rate(), a.goodput.bracket.met, a.goodput.bracket.failed].into_iter().flatten().next()
    };
    let mut own = answers.iter().filter(|a| a.control == step.level.control).filter_map(levels).peekable();
    if step.kind.is_outside_search() {
        return false;
    }
    own.peek().is_none() || own.any(|level| (step.level.value / level).ln().abs() <= NEAR.ln())
}

/// Returns the users of the cores in a step and their share, if it is large enough to matter.
fn neighbours(host: &HostLoad) -> Option<(f64, Neighbours)> {
    let crowded = host.waiting.map_or(host.busy >= BUSY, |w| w >= WAITING);
    let processes = host.others.filter(|share| *share >= OTHERS && crowded);
    let unknown =
        host.waiting.filter(|w| host.others.is_none() && host.busy >= BUSY && *w >= WAITING_UNKNOWN);
    let found = [
        processes.map(|share| (share, Neighbours::Processes { share, waiting: host.waiting })),
        (host.steal >= STEAL).then_some((host.steal, Neighbours::Machines { steal: host.steal })),
        unknown.map(|waiting| (0.0, Neighbours::Unknown { busy: host.busy, waiting })),
    ];
    // Certain findings come before suspected ones.
    found.into_iter().flatten().reduce(|a, b| if b.0 > a.0 { b } else { a })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    const ALONE: HostLoad = HostLoad {
        cores: 2,
        busy: 0.6,
        server: Some(0.55),
        others: Some(0.02),
        steal: 0.0,
        waiting: Some(0.4),
    };

    /// Row: load of the cores in a step, and the reported users.
    #[test]
    fn neighbours_are_told_where_they_matter() {
        use Neighbours::{Machines, Processes, Unknown};
        for (what, host, want) in [
            ("a server that waits for itself alone", ALONE, None),
            (
                "a compiler beside it",
                HostLoad { busy: 0.98, others: Some(0.6), waiting: Some(0.8), ..ALONE },
                Some(Processes { share: 0.6, waiting: Some(0.8) }),
            ),
            ("cores to spare", HostLoad { others: Some(0.3), waiting: Some(0.02), ..ALONE }, None),
            (
                "no pressure is told, and no core is free",
                HostLoad { busy: 0.95, others: Some(0.4), waiting: None, ..ALONE },
                Some(Processes { share: 0.4, waiting: None }),
            ),
            (
                "no pressure is told, and cores are free",
                HostLoad { others: Some(0.4), waiting: None, ..ALONE },
                None,
            ),
            (
                "whose they are is not told",
                HostLoad { busy: 0.97, server: None, others: None, waiting: Some(0.6), ..ALONE },
                Some(Unknown { busy: 0.97, waiting: 0.6 }),
            ),
            (
                "as little as nothing is told",
                HostLoad { server: None, others: None, waiting: None, ..ALONE },
                None,
            ),
            ("taken away", HostLoad { steal: 0.12, ..ALONE }, Some(Machines { steal: 0.12 })),
        ] {
            assert_eq!(neighbours(&host).map(|(_, n)| n), want, "{what}");
        }
    }

    #[test]
    fn only_steps_near_the_answer_count() {
        let (_, mut run) = fixture::cases().into_iter().find(|(name, _)| *name == "found").unwrap();
        assert_eq!(shared_cores(&run.steps, &run.answers), None, "nothing is known");
        let crowded = HostLoad { busy: 1.0, others: Some(0.7), waiting: Some(0.9), ..ALONE };
        let level = run.answers[0].goodput.rate().unwrap();
        for step in &mut run.steps {
            let near = (step.level.value / level).ln().abs() <= NEAR.ln();
            step.host = Some(if near { ALONE } else { crowded });
        }
        assert_eq!(shared_cores(&run.steps, &run.answers), None, "far from the answer");
        let at = run.steps.iter().position(|s| (s.level.value / level).ln().abs() < 1e-9).unwrap();
        run.steps[at].host = Some(crowded);
        let Some(Caveat::Host(HostCaveat::SharedCores { step, steps, .. })) =
            shared_cores(&run.steps, &run.answers)
        else {
            panic!()
        };
        assert_eq!((step, steps), (run.steps[at].step, 1));
        run.answers.clear();
        let all = run.steps.iter().filter(|s| !s.kind.is_outside_search()).count() as u32;
        assert!(
            matches!(shared_cores(&run.steps, &[]), Some(Caveat::Host(HostCaveat::SharedCores { of, .. })) if of == all),
            "without an answer every step"
        );
    }
}
