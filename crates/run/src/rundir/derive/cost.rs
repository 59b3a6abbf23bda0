//! Checks an answer against the plan's limit on cost.

use crate::rundir::Run;
use goodput_stats::capacity::{AboveGoodput, CostRange};
use goodput_stats::search::answer::{Answer, Status};

impl Run {
    /// Returns the lowest rate that keeps the plan's `max-cost-per-mtok`, and the highest that keeps the SLO; `None`
    /// if the plan has no such limit, no rate is shown to meet the SLO, or its tokens are unknown.
    pub fn cost_range(&self, answer: &Answer) -> Option<CostRange> {
        let max = self.hardware.max_cost_per_mtok?.get();
        let g = &answer.goodput;
        let above = match g.status() {
            Status::Found | Status::None => AboveGoodput::Missed,
            Status::NotReached => AboveGoodput::NotTried,
            Status::Undecided | Status::Invalid => {
                AboveGoodput::Open(g.bracket.failed.and_then(|level| self.throughput(answer, level)))
            }
        };
        CostRange::of(max, &self.capacity(answer)?, self.capacity_at_safe_rate(answer).as_ref(), above)
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture;
    use goodput_stats::capacity::CostVerdict;
    use goodput_stats::fixture::conclusion;
    use goodput_stats::search::answer::Status;

    #[test]
    fn a_limit_on_the_cost_bounds_the_answer_from_below() {
        let (_, mut run) = fixture::cases().into_iter().find(|(n, _)| *n == "interval").unwrap();
        run.price_per_hour = Some(0.39);
        assert_eq!(run.cost_range(&run.answers[0]), None, "no limit");
        let mut of = |limit: f64| {
            run.hardware.max_cost_per_mtok = Some(limit.try_into().unwrap());
            run.cost_range(&run.answers[0]).map(|r| (r.verdict, (10.0 * r.from_rate).round() / 10.0))
        };
        // 0.39 an hour, 30 tokens a request: at 31.6 requests/s, the safe rate, 0.1143; at 33.4, the goodput, 0.1081.
        assert_eq!(of(0.2), Some((CostVerdict::Accepted, 18.1)));
        assert_eq!(of(0.11), Some((CostVerdict::Undecided, 32.8)));
        assert_eq!(of(0.1), Some((CostVerdict::Rejected, 36.1)));
        run.price_per_hour = None;
        assert_eq!(run.cost_range(&run.answers[0]), None);
    }

    /// 36.1 requests/s would keep the cost limit, but the plan ended the search below, so the SLO there is unknown.
    #[test]
    fn an_open_answer_does_not_reject_what_it_did_not_try() {
        let (_, mut run) = fixture::cases().into_iter().find(|(n, _)| *n == "interval").unwrap();
        run.price_per_hour = Some(0.39);
        run.hardware.max_cost_per_mtok = Some(0.1.try_into().unwrap());
        let (found, safe) = (run.answers[0].goodput.conclusion, Some(31.6));
        let reached = conclusion(Status::NotReached, Some(33.4), None, safe);
        let undecided = conclusion(Status::Undecided, None, None, safe);
        for (conclusion, failed, kept) in [
            (found, None, CostVerdict::Rejected),
            (reached, None, CostVerdict::Undecided),
            (undecided, None, CostVerdict::Undecided),
            (undecided, Some(36.0), CostVerdict::Rejected),
        ] {
            let g = &mut run.answers[0].goodput;
            (g.conclusion, g.bracket.failed) = (conclusion, failed);
            assert_eq!(
                run.cost_range(&run.answers[0]).map(|r| r.verdict),
                Some(kept),
                "{conclusion:?}, {failed:?}"
            );
        }
    }
}
