//! The panels of a chart of latencies: one for each metric, and in a mix one for each class that has limits of its own. A percentile over
//! the requests of several classes is compared with the limit of none of them.

use super::draw::{Across, charted, metric_title, steady};
use crate::words::class_limit::{class_quantiles, of_class};
use goodput_core::slo::{ALL, Limit, LimitGroup, Metric, Slo, limit_key};
use goodput_plan::measured_alone;
use goodput_run::rundir::{Latencies, Run, Trace};
use goodput_stats::stats::step::{Quantiles, Step, StepKind};

/// Maximum number of panels on a page.
const MOST: usize = 5;
/// Number of panels up to which a metric without a limit is shown as well.
const FEW: usize = 3;

/// A metric of the requests that some limits judge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Panel<'a> {
    pub(super) metric: Metric,
    /// Name of the class, or [`ALL`].
    class: &'a str,
    /// True to place steps by the rate of its own requests, not by that of all.
    is_by_own_rate: bool,
}

impl<'a> Panel<'a> {
    /// Returns the panel of a metric of the requests without limits of their class.
    pub(super) const fn of_all(metric: Metric) -> Self {
        Self { metric, class: ALL, is_by_own_rate: false }
    }

    /// Returns the panels of a run: of each class with limits of its own every metric that it limits, and of all requests TTFT, TPOT and
    /// every metric that is limited. Those with the limit that binds come first, then those with limits.
    pub(super) fn all(run: &'a Run) -> Vec<Self> {
        let mut panels: Vec<Self> = Vec::new();
        for group in run.tiers.iter().flat_map(Slo::limit_groups).filter(|g| g.class() != ALL) {
            for limit in group.slo.limits() {
                let panel = Self { class: group.class(), ..Self::of_all(limit.metric) };
                if !panels.contains(&panel) {
                    panels.push(panel);
                }
            }
        }
        panels.truncate(MOST);
        let of_all = Metric::ALL.into_iter().map(Self::of_all);
        let is_wanted = |p: &Self| matches!(p.metric, Metric::Ttft | Metric::Tpot) || p.is_limited(run);
        for panel in of_all.filter(|p| is_wanted(p) && p.has_values(run)) {
            let is_shown = panels.iter().any(|p| p.metric == panel.metric);
            if panel.is_limited(run) || (!is_shown && panels.len() < FEW) {
                panels.push(panel);
            }
        }
        if panels.is_empty() {
            let whole = charted(run).any(|s| s.response_metric() == Metric::E2e);
            panels.push(Self::of_all(if whole { Metric::E2e } else { Metric::Ttft }));
        }
        if has_class_limits(run) {
            panels.sort_by_key(|p| (!p.binds(run), !p.is_limited(run)));
        }
        panels.truncate(MOST);
        panels
    }

    /// Returns true if any step has values. A metric that is zero in every step is no property of the server: all tokens of a response
    /// arrived in one piece.
    fn has_values(&self, run: &Run) -> bool {
        let counts = |v: f64| v > 0.0 || self.is_limited(run);
        charted(run).any(|s| self.quantiles(s).p50.is_some_and(counts))
    }

    /// Returns true if the limit that binds is one of this panel.
    fn binds(&self, run: &Run) -> bool {
        let binding = run.answers.first().and_then(|a| a.goodput.binding.as_deref());
        self.limits(run).iter().any(|(_, l)| binding == Some(self.key(l).as_str()))
    }

    /// Returns its limits, with their tiers.
    pub(super) fn limits(&self, run: &'a Run) -> Vec<(&'a Slo, Limit)> {
        let own = |g: &LimitGroup<'_>| g.class() == self.class;
        let of = |t: &'a Slo| t.limit_groups().into_iter().filter(own).flat_map(|g| g.slo.limits());
        let all = run.tiers.iter().flat_map(|t| of(t).map(move |l| (t, l)));
        all.filter(|(_, l)| l.metric == self.metric).collect()
    }

    /// Returns true if it has a limit.
    pub(super) fn is_limited(&self, run: &Run) -> bool {
        !self.limits(run).is_empty()
    }

    /// Returns the percentiles in a step; empty if it has no such requests.
    pub(super) fn quantiles(&self, step: &Step) -> Quantiles {
        class_quantiles(step, self.class, self.metric)
    }

    /// Returns this panel with steps placed by the rate of its own requests, so that a mix and a class alone can be compared.
    pub(super) const fn by_own_rate(self) -> Self {
        Self { is_by_own_rate: true, ..self }
    }

    /// Returns the place of a step on the horizontal axis.
    pub(super) fn place(&self, step: &Step, across: Across) -> f64 {
        let own = step.class(self.class).filter(|_| self.is_by_own_rate && across == Across::Achieved);
        own.map_or_else(|| across.of(step), |group| group.achieved_rate)
    }

    /// Returns the title of an axis of the rate of its own requests.
    pub(super) fn own_rate_title(&self) -> String {
        of_class("achieved throughput", self.class) + ", requests/s"
    }

    /// Returns true if a step sends such requests: not if its series measures another class alone.
    pub(super) fn is_sent_in(&self, step: &Step) -> bool {
        self.class == ALL || measured_alone(&step.series).is_none_or(|class| class == self.class)
    }

    /// Returns the latencies of the unloaded server: of the baseline step with the most such requests.
    pub(super) fn unloaded(&self, run: &Run) -> Option<Quantiles> {
        let steps = run.steps.iter().filter(|s| s.kind == StepKind::Baseline && steady(s));
        let quantiles = steps.map(|s| self.quantiles(s)).filter(|q| q.p50.is_some());
        quantiles.max_by_key(|q| q.n)
    }

    /// Returns the latencies of its requests in the trace of a step.
    pub(super) fn traced<'t>(&self, trace: &'t Trace) -> Option<&'t Latencies> {
        if self.class == ALL { Some(&trace.all) } else { trace.classes.get(self.class) }
    }

    /// Returns the name of one of its limits that is unique within the tier.
    pub(super) fn key(&self, limit: &Limit) -> String {
        limit_key(self.class, &limit.name())
    }

    /// Returns its title, without a unit.
    pub(super) fn title(&self) -> String {
        of_class(metric_title(self.metric), self.class)
    }
}

/// Returns true if any class has limits of its own.
pub(super) fn has_class_limits(run: &Run) -> bool {
    run.tiers.iter().any(Slo::has_class_limits)
}

/// Keeps as many panels as fit on a slide; those with a limit are more informative.
pub(super) fn for_slide(run: &Run, panels: &mut Vec<Panel<'_>>, count: usize) {
    let order = panels.clone();
    panels.sort_by_key(|p| !p.is_limited(run));
    panels.truncate(count);
    panels.sort_by_key(|p| order.iter().position(|o| o == p));
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_run::fixture;
    use goodput_stats::stats::groups::{Group, GroupBy};
    use goodput_stats::stats::step::Verdict;

    /// A mix of two classes, of which `chat` has a limit of its own that binds.
    fn mix() -> Run {
        let mut run = fixture::found();
        let own: Slo = toml::from_str("ttft.p99 = \"100ms\"").unwrap();
        let class = goodput_core::slo::ClassSlo { class: 0, name: "chat".into(), slo: own };
        run.tiers[0] = Slo { classes: vec![class], ..run.tiers[0].clone() };
        run.answers[0].goodput.binding = Some("chat/ttft.p99".into());
        for step in &mut run.steps {
            let mut row = step.limits[0].clone();
            (row.class, row.limit, row.verdict) = ("chat".into(), "ttft.p99".into(), Verdict::Fails);
            step.limits.push(row);
            let q = Quantiles { p50: Some(7.0), p99: Some(70.0), n: 500, ..Quantiles::default() };
            step.groups = ["chat", "documents"]
                .map(|name| Group {
                    by: GroupBy::Class,
                    name: name.into(),
                    n: 500,
                    failed: 0,
                    cut: 0,
                    failed_timeout: 0,
                    latency: [(Metric::Ttft, q)].into(),
                    input_tokens_mean: None,
                    output_tokens_mean: None,
                    achieved_rate: 1.0,
                })
                .into();
        }
        run
    }

    #[test]
    fn a_class_with_limits_has_a_panel_of_its_own() {
        let run = mix();
        let panels = Panel::all(&run);
        let titles: Vec<String> = panels.iter().map(Panel::title).collect();
        assert_eq!(titles[0], "Time to first token (TTFT) of chat", "the limit that binds comes first");
        assert_eq!(titles.len(), 2, "and what the other class limits and measures: {titles:?}");
        let limits: Vec<f64> = panels[0].limits(&run).iter().map(|(_, l)| l.limit_ms()).collect();
        assert_eq!(limits, [100.0]);
        let step = &run.steps[0];
        assert_eq!(panels[0].quantiles(step).p99, Some(70.0));
        let plain = fixture::found();
        let plain: Vec<String> = Panel::all(&plain).iter().map(Panel::title).collect();
        assert_eq!(plain, ["Time to first token (TTFT)", "Time per output token (TPOT)"]);
    }

    #[test]
    fn a_class_measured_alone_is_in_its_own_panel() {
        let run = mix();
        let panel = Panel::all(&run)[0];
        let mut step = run.steps[0].clone();
        step.limits.retain(|r| r.class == ALL);
        for (series, is_sent) in
            [("only chat, cold", true), ("only documents, cold", false), ("mix, cold", true)]
        {
            step.series = series.into();
            assert_eq!(panel.is_sent_in(&step), is_sent, "{series}");
            assert_eq!(panel.quantiles(&step).p50.is_some(), is_sent, "{series}");
        }
        step.series = "only chat".into();
        assert_eq!(panel.quantiles(&step), step.quantiles(Metric::Ttft), "all that it sends is of the class");
    }
}
