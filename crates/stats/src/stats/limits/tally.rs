//! Counts the requests, or the gaps, of a view that miss a limit.

use super::Judge;
use crate::stats::client_faults::is_unsent;
use crate::stats::compact_record::CompactRecord;
use crate::stats::verdict::Counts;
use goodput_core::slo::{Judged, Limit, LimitGroup};
use std::collections::HashSet;
use std::time::Duration;

/// Selection of the measured records that a count covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct View {
    /// Only requests due before the client reached a limit of its own.
    pub(super) before_limit: bool,
    /// Records as a client without any delay would have seen them. Leaves out requests that were never sent, and those sent while
    /// the server worked off the burst after a halt of the client, or in flight during the halt.
    pub(super) ideal: bool,
}

/// Counts over one view, with the misses of each request in order of `due`.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) counts: Counts,
    pub(super) by_request: Vec<u64>,
    /// Positions, within the view, of the requests that missed.
    pub(super) missed: Vec<u32>,
    /// Number of counted values that belong to one request; 1 except for gaps between tokens.
    pub(super) inflation: f64,
}

impl<'a> Judge<'a> {
    fn records(&self, view: View) -> impl Iterator<Item = &'a CompactRecord> {
        let within = if view.before_limit { self.before_limit } else { self.measured.len() };
        let usable = |r: &CompactRecord| !is_unsent(r) && self.client.halts.spared(r);
        self.measured[..within].iter().copied().filter(move |r| !view.ideal || usable(r))
    }

    /// Judges one request by a limit, in a view.
    pub(super) fn judged(&self, limit: &Limit, view: View, r: &CompactRecord) -> Judged {
        if view.ideal {
            limit.judge(&self.client.ideal(r, self.client.lag(), limit.metric).record())
        } else {
            limit.judge(&r.record())
        }
    }

    pub(super) fn requests(
        &self,
        part: Option<LimitGroup<'a>>,
        view: View,
        judge: impl Fn(&CompactRecord) -> Judged,
    ) -> Tally {
        let mut tally = Tally { inflation: 1.0, ..Tally::default() };
        let own = |r: &CompactRecord| part.is_none_or(|part| part.judges(r.class));
        for (at, r) in (0_u32..).zip(self.records(view)).filter(|(_, r)| own(r)) {
            let judged = judge(r);
            tally.missed.extend((judged == Judged::Missed).then_some(at));
            if judged != Judged::NotApplicable {
                tally.counts.n += 1;
                tally.counts.misses += u64::from(judged == Judged::Missed);
                tally.counts.censored += u64::from(judged == Judged::Unknown);
                tally.by_request.push(u64::from(judged == Judged::Missed));
            }
        }
        tally
    }

    /// Counts gaps against an ITL limit. All gaps of a request count as one, since an iteration that stalls delays many at once.
    pub(super) fn gaps(&self, part: LimitGroup<'a>, limit: &Limit, view: View) -> Tally {
        // A set, since ids are not in order of `due` in a closed loop over several threads.
        let all = !view.before_limit && part.judges_all();
        let within = if view.before_limit { self.before_limit } else { self.measured.len() };
        let own = self.measured[..if all { 0 } else { within }].iter().filter(|r| part.judges(r.class));
        let own: HashSet<u64> = own.map(|r| r.id.into()).collect();
        let itl = self.input.itl;
        let mut counted = itl.counts(limit, |id| all || own.contains(&id));
        if view.ideal {
            // The slack is known only for the whole step; what came before the client's limit has no more misses than that.
            let slack = itl.misses_with_slack(limit, self.client.lag());
            let misses = counted.counts.misses;
            counted.counts.misses = if part.judges_all() {
                misses.min(slack)
            } else {
                // The pool mixes all classes: scale this class's misses in proportion.
                let pooled = itl.misses_with_slack(limit, Duration::ZERO).max(1);
                (misses as f64 * (slack as f64 / pooled as f64).min(1.0)).round() as u64
            };
        }
        let inflation = counted.counts.n as f64 / counted.requests.max(1) as f64;
        Tally { counts: counted.counts, by_request: counted.by_request, missed: Vec::new(), inflation }
    }

    /// Returns the positions of the requests that miss an ITL limit by their own gaps.
    pub(super) fn missed_gaps(&self, part: LimitGroup<'a>, limit: &Limit) -> Vec<u32> {
        let by_request = self.input.itl.judged(limit, Duration::ZERO);
        let missed =
            |r: &CompactRecord| part.judges(r.class) && by_request.get(r.id.into()) == Some(Judged::Missed);
        (0..).zip(&self.measured).filter(|(_, r)| missed(r)).map(|(at, _)| at).collect()
    }
}
