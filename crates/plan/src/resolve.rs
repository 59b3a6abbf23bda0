//! Resolution of a plan: fills in profiles and defaults, and checks that its keys fit together.

use super::{Plan, Series, classes, extra, row};
use crate::server::PromptForm;
use crate::server::extras::ExtraBody;
use goodput_core::check::Check;
use goodput_core::slo::{AnswerPart, LimitGroup, Slo};
use goodput_core::tokens::Tokenizer;
use goodput_core::units::{Fraction, Span};
use goodput_stats::search::config::{Mode, Over};
use goodput_workload::config::Class;
use goodput_workload::kind::{Kind, RequestSource};
use goodput_workload::sources::Prompts;
use std::time::Duration;

/// Minimum default of `step.max-error-share`.
const MIN_ERROR_SHARE: f64 = 0.1;

impl Plan {
    /// Returns the problem with the first name that has a control character, which would break tables and terminals.
    fn name_problem(&self) -> Option<String> {
        let tiers = self.slo.as_slice().iter().filter_map(|s| s.name.as_deref()).map(|n| ("[[slo]]", n));
        let rows = self.rows.iter().map(|r| ("[[row]]", r.name.as_str()));
        let checks = self.check.iter().map(|c| ("[[check]]", c.name.as_str()));
        let pages = self.extra.iter().filter_map(|e| e.name.as_deref()).map(|n| ("[[metrics]]", n));
        let all = tiers.chain(rows).chain(checks).chain(pages);
        let odd = all.into_iter().find(|(_, name)| name.chars().any(char::is_control));
        odd.map(|(table, name)| {
            format!("{table} name = {name:?}: write one line of plain text, without control characters")
        })
    }

    /// Fills in profiles and defaults, and checks that the keys fit together.
    pub(super) fn resolve(mut self) -> Result<Self, String> {
        self.slo = self.slo.resolve();
        self.workload.resolve_classes();
        self.apply_class_limits();
        let slo_optional = self.slo.is_none() && (!self.rows.is_empty() || !self.purpose.is_goodput());
        let of_slo = if slo_optional { None } else { self.slo.problem() };
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
            return Err("name is empty: name the sweep".into());
        }
        if let Some(problem) = self.name_problem() {
            return Err(problem);
        }
        if self.server.tokenizer.is_some() && !Tokenizer::BUILT_IN {
            return Err(Tokenizer::MISSING.into());
        }
        self.check = self.check.into_iter().map(Check::resolve).collect::<Result<_, _>>()?;
        let names: Vec<&str> = self.check.iter().map(|c| c.name.as_str()).collect();
        if let Some(twice) = names.iter().enumerate().find(|(i, name)| names[..*i].contains(name)) {
            return Err(format!("two [[check]] are named \"{}\": give each its own name", twice.1));
        }
        if let Some(problem) = self.turns_problem().or_else(|| self.recovery_problem()) {
            return Err(problem);
        }
        let of_answers = self.items_problem().or_else(|| self.stream_problem());
        if let Some(problem) = of_answers.or_else(|| extra::problem(&self.extra)) {
            return Err(problem);
        }
        let series = self.try_series()?;
        self.fill_error_share(&series)?;
        self.fill_timeout(&series)?;
        let is_text = |k: &Kind<'_>| {
            k.conversation.is_some() || matches!(k.source, RequestSource::Prompts(Prompts::Data(_)))
        };
        if self.server.prompts == PromptForm::TokenIds && self.workload.kinds().iter().any(is_text) {
            return Err("[server] prompts = \"token-ids\" sends single prompts of exact lengths, but conversations and data sets are \
                        text: leave prompts out"
                .into());
        }
        for class in self.workload.classes() {
            let body = ExtraBody::try_from(class.body.clone()).map(drop);
            body.and_then(|()| self.class_fits_template(class))
                .map_err(|problem| format!("[[workload.class]] {}: {problem}", class.name))?;
        }
        if let Some(problem) = self.sensitivity.as_ref().and_then(|s| s.problem(&self)) {
            return Err(problem);
        }
        // The search itself rejects what it cannot do.
        for series in self.try_series()? {
            let wrong = series.plan.items_problem().or_else(|| series.plan.concurrency_problem());
            let problem = wrong.map_or_else(|| series.plan.searcher().map(drop), Err);
            let prefix = match &series.variant {
                Some(variant) => format!("{}: ", variant.title()),
                None if self.rows.is_empty() => String::new(),
                None => format!("[[row]] {}: ", series.name),
            };
            problem.map_err(|e| format!("{prefix}{e}"))?;
        }
        Ok(self)
    }

    /// Checks that a class differs from the plan only in what a template can express.
    fn class_fits_template(&self, class: &Class) -> Result<(), String> {
        let Some(template) = &self.server.template else { return Ok(()) };
        if !class.body.is_empty() {
            return Err(
                "body has no effect with api = \"template\": write its fields into server.template.body"
                    .into(),
            );
        }
        if class.model.is_some() && !template.names_model() {
            return Err("model has no effect, since server.template.body has no {{model}}: add it there, or leave it out".into());
        }
        Ok(())
    }

    /// Fills in the timeout of a request: the longest default of the series.
    fn fill_timeout(&mut self, series: &[Series]) -> Result<(), String> {
        if let Some(given) = self.step.timeout.filter(|_| !self.step.timeout_by_default) {
            return match series.iter().find_map(|s| s.plan.limit_above(given.0)) {
                Some((tier, limit)) => Err(format!(
                    "[step] timeout ({given}) is below the limit {limit} of {tier}, so no request could miss that limit: raise the timeout, or \
                     leave it out"
                )),
                None => Ok(()),
            };
        }
        let longest = series.iter().map(|s| s.plan.default_timeout().0).max().unwrap_or_default();
        // The timeout of a variant is at least that of the base plan, which its `step.timeout` holds here.
        let timeout = self.step.timeout.map_or(longest, |base| base.0.max(longest));
        (self.step.timeout, self.step.timeout_by_default) = (Some(Span(timeout)), true);
        Ok(())
    }

    /// Fills in `step.max-error-share`, twice the error rate that the SLO allows.
    fn fill_error_share(&mut self, series: &[Series]) -> Result<(), String> {
        let parts = series.iter().flat_map(|s| s.plan.slo.as_slice()).flat_map(Slo::limit_groups);
        let rate = parts.filter_map(|part| part.slo.error_rate).map(Fraction::get).fold(0.0, f64::max);
        match self.step.max_error_share.map(Fraction::get) {
            None => {
                let share = (2.0 * rate).clamp(MIN_ERROR_SHARE, 1.0);
                self.step.max_error_share = Some(Fraction::try_from(share)?);
                Ok(())
            }
            Some(most) if most < rate => Err(format!(
                "[step] max-error-share ({most}) is below the SLO's error-rate ({rate}), so steps would stop for errors that the SLO \
                 allows: raise it, or leave it out"
            )),
            Some(_) => Ok(()),
        }
    }

    /// Returns the problem if a closed loop needs more requests in flight than `step.max-in-flight` allows.
    fn concurrency_problem(&self) -> Option<String> {
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
                "[search] {key} {high} is above [step] max-in-flight ({most}): lower the one, or raise the other"
            )
        })
    }

    /// Returns the reason why the plan cannot have a `[recovery]` step.
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
                "[recovery] needs the safe rate of an open-loop search for the goodput: leave it out with closed loops, [[row]] or another \
                 purpose"
                    .into(),
            );
        }
        let lowest = match &self.search.mode {
            Mode::Rates(rates) => rates.iter().map(|r| r.get()).reduce(f64::min)?,
            Mode::Ramp(ramp) => ramp.start.get(),
            Mode::Adaptive(_) | Mode::Concurrency(_) | Mode::Ladder(_) | Mode::Burst(_) => return None,
        };
        let (surge, max) = (lowest * recovery.factor.get(), self.search.max_rate?.get());
        (surge > max).then(|| {
            format!(
                "[recovery] factor {} of the lowest level, {lowest}, is a surge of {surge}, above [search] max-rate ({max}): raise max-rate, \
                 or lower the factor",
                recovery.factor
            )
        })
    }

    /// Returns the problem if a limit needs streaming, but the plan turns it off.
    fn stream_problem(&self) -> Option<String> {
        let mut limits = self.slo.as_slice().iter().flat_map(Slo::limits);
        let limit = limits.find(|l| !self.server.stream && l.metric.part() != AnswerPart::Whole)?;
        Some(format!(
            "[server] stream = false: {limit} cannot be judged, since an answer in one piece has no first token and no gaps between \
             tokens: write limits on e2e instead, such as slo.e2e.p99 = \"5s\", or leave stream out"
        ))
    }

    /// Returns the first limit above a timeout, as the names of its tier and of itself.
    fn limit_above(&self, timeout: Duration) -> Option<(String, String)> {
        self.slo.as_slice().iter().find_map(|slo| {
            let above = |part: LimitGroup<'_>| {
                let limit = part.slo.limits().into_iter().find(|l| l.limit > timeout)?;
                Some((format!("tier {}", slo.tier()), part.title(&limit.to_string())))
            };
            slo.limit_groups().into_iter().find_map(above)
        })
    }
}
