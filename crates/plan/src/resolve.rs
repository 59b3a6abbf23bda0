//! From a plan as it was written to one that can run: profiles and defaults filled in, and what no single value can know checked.

use super::{Plan, Series, classes, extra, row};
use crate::server::PromptForm;
use crate::server::extras::ExtraBody;
use goodput_core::check::Check;
use goodput_core::slo::{Metric, Part, Slo};
use goodput_core::tokens::Tokenizer;
use goodput_core::units::{Fraction, Span};
use goodput_stats::search::config::{Mode, Over};
use goodput_workload::kind::{Kind, RequestSource};
use goodput_workload::sources::Prompts;
use std::time::Duration;

/// So large a share of failed requests is put up with at the least, where the plan does not say.
const LEAST_ERROR_SHARE: f64 = 0.1;

impl Plan {
    /// The first name with a control character in it: names stand in tables, which are read line by line and shown on terminals.
    fn odd_name(&self) -> Option<String> {
        let tiers = self.slo.as_slice().iter().filter_map(|s| s.name.as_deref()).map(|n| ("[[slo]]", n));
        let rows = self.rows.iter().map(|r| ("[[row]]", r.name.as_str()));
        let checks = self.check.iter().map(|c| ("[[check]]", c.name.as_str()));
        let pages = self.extra.iter().filter_map(|e| e.name.as_deref()).map(|n| ("[[metrics]]", n));
        let all = tiers.chain(rows).chain(checks).chain(pages);
        let odd = all.into_iter().find(|(_, name)| name.chars().any(char::is_control));
        odd.map(|(table, name)| {
            format!("{table} name = {name:?}: a name is one line of plain text, without control characters")
        })
    }

    /// Fills in profiles and defaults and checks what no single value can know.
    pub(super) fn resolve(mut self) -> Result<Self, String> {
        self.slo = self.slo.resolve();
        self.workload.resolve_classes();
        self.settle_classes();
        let free = self.slo.is_none() && (!self.rows.is_empty() || !self.purpose.is_goodput());
        let of_slo = if free { None } else { self.slo.problem() };
        let of_classes = || classes::problem(&self.slo, self.workload.classes());
        if let Some(problem) =
            of_classes().or(of_slo).or_else(|| self.step.problem()).or_else(|| row::problem(&self))
        {
            return Err(problem);
        }
        if let Some(problem) =
            self.purpose.problem(&self).or_else(|| self.hardware.problem(self.model.as_ref()))
        {
            return Err(problem);
        }
        if self.name.trim().is_empty() {
            return Err("name is empty".into());
        }
        if let Some(problem) = self.odd_name() {
            return Err(problem);
        }
        if self.server.tokenizer.is_some() && !Tokenizer::BUILT_IN {
            return Err(Tokenizer::MISSING.into());
        }
        self.check = self.check.into_iter().map(Check::resolve).collect::<Result<_, _>>()?;
        let names: Vec<&str> = self.check.iter().map(|c| c.name.as_str()).collect();
        if let Some(twice) = names.iter().enumerate().find(|(i, name)| names[..*i].contains(name)) {
            return Err(format!("two [[check]] are called \"{}\": give each a name of its own", twice.1));
        }
        if let Some(problem) = self.turns_problem().or_else(|| self.recovery_problem()) {
            return Err(problem);
        }
        if let Some(problem) = self.unseen().or_else(|| extra::problem(&self.extra)) {
            return Err(problem);
        }
        let series = self.try_series()?;
        self.settle_error_share(&series)?;
        self.settle_timeout(&series)?;
        let said = |k: &Kind<'_>| {
            k.conversation.is_some() || matches!(k.source, RequestSource::Prompts(Prompts::Data(_)))
        };
        if self.server.prompts == PromptForm::TokenIds && self.workload.kinds().iter().any(said) {
            return Err("[server] prompts = \"token-ids\" makes single prompts of exact lengths: conversations and the rows of \
                        a data set are texts; leave it out"
                .into());
        }
        for class in self.workload.classes() {
            if let Err(problem) = ExtraBody::try_from(class.body.clone()) {
                return Err(format!("[[workload.class]] {}: {problem}", class.name));
            }
        }
        if let Some(problem) = self.sensitivity.as_ref().and_then(|s| s.problem(&self)) {
            return Err(problem);
        }
        // The search says itself what it cannot do.
        for series in self.try_series()? {
            let problem = series.plan.above_in_flight().map_or_else(|| series.plan.searcher().map(drop), Err);
            let whose = match &series.variant {
                Some(variant) => format!("{}: ", variant.title()),
                None if self.rows.is_empty() => String::new(),
                None => format!("[[row]] {}: ", series.name),
            };
            problem.map_err(|e| format!("{whose}{e}"))?;
        }
        Ok(self)
    }

    /// Fills in the timeout of a request: the longest default of the series.
    fn settle_timeout(&mut self, series: &[Series]) -> Result<(), String> {
        if let Some(given) = self.step.timeout.filter(|_| !self.step.timeout_by_default) {
            return match series.iter().find_map(|s| s.plan.limit_above(given.0)) {
                Some((tier, limit)) => Err(format!(
                    "[step] timeout ({given}) is below the limit {limit} of {tier}: no request could be seen to miss it"
                )),
                None => Ok(()),
            };
        }
        let longest = series.iter().map(|s| s.plan.default_timeout().0).max().unwrap_or_default();
        // A variant has at least the timeout of the plan that it is a variant of.
        let timeout = self.step.timeout.map_or(longest, |of_plan| of_plan.0.max(longest));
        (self.step.timeout, self.step.timeout_by_default) = (Some(Span(timeout)), true);
        Ok(())
    }

    /// Fills in how many failures are put up with, by the SLO's own error rate.
    fn settle_error_share(&mut self, series: &[Series]) -> Result<(), String> {
        let parts = series.iter().flat_map(|s| s.plan.slo.as_slice()).flat_map(Slo::parts);
        let rate = parts.filter_map(|part| part.slo.error_rate).map(Fraction::get).fold(0.0, f64::max);
        match self.step.max_error_share.map(Fraction::get) {
            None => {
                let share = (2.0 * rate).clamp(LEAST_ERROR_SHARE, 1.0);
                self.step.max_error_share = Some(Fraction::try_from(share)?);
                Ok(())
            }
            Some(most) if most < rate => Err(format!(
                "[step] max-error-share ({most}) is below the SLO's error-rate ({rate}): steps would be stopped for errors that the SLO \
                 allows; raise it, or leave it out"
            )),
            Some(_) => Ok(()),
        }
    }

    /// What is wrong where a closed loop is to have more in flight than the step allows.
    fn above_in_flight(&self) -> Option<String> {
        let most = self.step.max_in_flight;
        let peak = self.search.peak.map(|peak| ("peak.concurrency", peak.concurrency.get()));
        let levels = match &self.search.mode {
            Mode::Concurrency(levels) => levels.iter().max().map(|n| ("concurrency", n.get())),
            Mode::Ladder(ladder) => Some(("ladder.max", ladder.max.get())),
            Mode::Burst(n) => Some(("burst", n.get())),
            Mode::Adaptive(_) | Mode::Rates(_) | Mode::Ramp(_) => None,
        };
        levels.into_iter().chain(peak).find(|(_, high)| *high > most).map(|(key, high)| {
            format!(
                "[search] {key} {high} is above [step] max-in-flight ({most}): raise the one or lower the other"
            )
        })
    }

    /// Returns why the plan cannot have a `[recovery]` step, if so.
    fn recovery_problem(&self) -> Option<String> {
        let recovery = self.recovery?;
        if let Some(problem) = recovery.problem() {
            return Some(problem);
        }
        let open = match &self.search.mode {
            Mode::Adaptive(adaptive) => adaptive.over == Over::Rate,
            Mode::Rates(_) | Mode::Ramp(_) => true,
            Mode::Concurrency(_) | Mode::Ladder(_) | Mode::Burst(_) => false,
        };
        if !open || !self.rows.is_empty() || !self.purpose.is_goodput() {
            return Some(
                "[recovery] holds the safe rate of a search in an open loop: leave it out of closed loops, of [[row]] and of \
                 other purposes"
                    .into(),
            );
        }
        let lowest = match &self.search.mode {
            Mode::Rates(rates) => rates.iter().map(|r| r.get()).reduce(f64::min)?,
            Mode::Ramp(ramp) => ramp.start.get(),
            _ => return None,
        };
        let (surge, max) = (lowest * recovery.factor.get(), self.search.max_rate?.get());
        (surge > max).then(|| {
            format!(
                "[recovery] factor {} of the lowest level, {lowest}, is a surge of {surge}, above [search] max-rate ({max}): nothing is sent \
                 above max-rate; raise it, or lower the factor",
                recovery.factor
            )
        })
    }

    /// A limit on what an answer in one piece does not show, with what to write instead.
    fn unseen(&self) -> Option<String> {
        let mut limits = self.slo.as_slice().iter().flat_map(Slo::limits);
        let limit = limits.find(|l| !self.server.stream && l.metric != Metric::E2e)?;
        Some(format!(
            "[server] stream = false: an answer in one piece has no first token and no gaps between tokens, so {limit} cannot \
             be judged: write limits on e2e instead, such as slo.e2e.p99 = \"5s\", or leave stream out"
        ))
    }

    fn limit_above(&self, timeout: Duration) -> Option<(String, String)> {
        self.slo.as_slice().iter().find_map(|slo| {
            let above = |part: Part<'_>| {
                let limit = part.slo.limits().into_iter().find(|l| l.limit > timeout)?;
                Some((format!("tier {}", slo.tier()), part.title(&limit.to_string())))
            };
            slo.parts().into_iter().find_map(above)
        })
    }
}
