//! Splits a run of several series into one run per series, so that reports on a single series work for each of them.

use super::{FailureRow, Meta, Run, View, Why, derive, spoilt};
use anyhow::Result;
use goodput_core::caveat::Caveat;
use goodput_plan::{Plan, Series, class_alone};
use goodput_stats::search::Search;
use goodput_stats::search::answer::Answer;
use goodput_stats::stats::step::Step;
use goodput_workload::rate::WordRates;

/// Data read from a run folder, or collected so far by a running sweep.
pub(super) struct RunFiles {
    pub(super) plan_toml: String,
    pub(super) meta: Meta,
    /// The steps that count.
    pub(super) steps: Vec<Step>,
    /// The steps that a worker spoilt.
    pub(super) spoilt: Vec<Step>,
    pub(super) failures: Vec<FailureRow>,
    /// Caveats from the files and from the sweep itself.
    pub(super) noted: Vec<Caveat>,
}

pub(super) fn searcher(plan: &Plan) -> Result<Search> {
    plan.searcher().map_err(|e| anyhow::anyhow!("in the plan of the run: {e}"))
}

impl Run {
    /// Returns the run of a series if there are several, else the run itself.
    pub fn part(&self, series: &str) -> &Self {
        let own = |part: &&Self| part.answers.iter().any(|a| a.series == series);
        self.parts.iter().find(own).unwrap_or(self)
    }

    /// Returns the answer for a class of a mix alone: for the tier of the mix's answer, or the first one if the class has limits of
    /// its own. `None` if it was not measured alone.
    pub fn answer_alone(&self, mixed: &Answer, class: &str) -> Option<&Answer> {
        let series = class_alone(&mixed.series, class)?;
        let own = || self.answers.iter().filter(|a| a.series == series);
        own().find(|a| a.tier == mixed.tier).or_else(|| own().next())
    }

    /// Returns the name of the series of a part, or of a run with one series.
    pub fn series(&self) -> &str {
        self.answers.first().map_or(goodput_plan::MAIN, |a| a.series.as_str())
    }

    /// Returns the series that a caveat is about; empty if it is about all of them or about the run as a whole.
    pub fn series_of(&self, caveat: &Caveat) -> Vec<&str> {
        let own: Vec<&Self> = self.parts.iter().filter(|p| p.caveats.contains(caveat)).collect();
        if own.len() == self.parts.len() { Vec::new() } else { own.into_iter().map(Self::series).collect() }
    }

    /// Builds the run of one series and derives answers and caveats from its steps.
    pub(super) fn of_series(plan: &Plan, series: &str, found: RunFiles) -> Result<Self> {
        let RunFiles { plan_toml, meta, steps, spoilt, failures, noted } = found;
        let search = searcher(plan)?;
        // Without a limit there is no goodput.
        let judged = plan.purpose.is_goodput() && !plan.slo.is_none();
        let answers = if judged { search.answers(series, &steps) } else { Vec::new() };
        let derived = derive::caveats(
            plan,
            meta.words.as_ref().map(WordRates::base),
            &steps,
            &failures,
            &answers,
            &noted,
        );
        let of_workers = spoilt::caveats(&steps, &spoilt, answers.first());
        let caveats = noted.into_iter().chain(derived).chain(of_workers).collect();
        Ok(Self {
            name: plan.name.clone(),
            meta,
            tiers: plan.slo.as_slice().to_vec(),
            is_of_tier: false,
            plan_toml,
            answers,
            steps,
            spoilt,
            caveats,
            currency: plan.hardware.currency.clone(),
            price_per_hour: plan.hardware.total_price_per_hour(),
            hardware: plan.hardware.clone(),
            allowed: plan.allowed(),
            max_in_flight: plan.step.max_in_flight,
            failures,
            terms: search.terms(),
            purpose: plan.purpose,
            matrix: Vec::new(),
            variants: Vec::new(),
            view: View::default(),
            why: Why::default(),
            parts: Vec::new(),
        })
    }

    /// Builds the run of a matrix: its rows are independent questions, and none has a curve.
    pub(super) fn of_rows(plan: &Plan, rows: &[Series], found: RunFiles) -> Result<Self> {
        let matrix = super::matrix::answers(plan, rows, &found.steps);
        let all = Self::of_all(plan, rows, found)?;
        Ok(Self { matrix, parts: Vec::new(), ..all })
    }

    /// Builds the run of variants: each series separately, all together, and the results of the servers.
    pub(super) fn of_variants(plan: &Plan, series: &[Series], found: RunFiles) -> Result<Self> {
        let all = Self::of_all(plan, series, found)?;
        Ok(Self { variants: super::variants::answers(&all, series), ..all })
    }

    /// Builds the run of several series: each separately, and all together.
    pub(super) fn of_all(plan: &Plan, series: &[Series], found: RunFiles) -> Result<Self> {
        let mut parts = Vec::with_capacity(series.len());
        for one in series {
            parts.push(Self::of_series(&one.plan, &one.name, found.of(one))?);
        }
        for (part, one) in parts.iter_mut().zip(series) {
            part.name = format!("{}: {}", plan.name, one.name);
        }
        let mut caveats = found.noted;
        for caveat in parts.iter().flat_map(|p| &p.caveats) {
            if !caveats.contains(caveat) {
                caveats.push(caveat.clone());
            }
        }
        Ok(Self {
            name: plan.name.clone(),
            meta: found.meta,
            tiers: plan.slo.as_slice().to_vec(),
            is_of_tier: false,
            plan_toml: found.plan_toml,
            answers: parts.iter().flat_map(|p| p.answers.clone()).collect(),
            steps: found.steps,
            spoilt: found.spoilt,
            caveats,
            currency: plan.hardware.currency.clone(),
            price_per_hour: plan.hardware.total_price_per_hour(),
            hardware: plan.hardware.clone(),
            allowed: plan.allowed(),
            max_in_flight: plan.step.max_in_flight,
            failures: found.failures,
            terms: parts.first().and_then(|p| p.terms),
            purpose: plan.purpose,
            matrix: Vec::new(),
            variants: Vec::new(),
            view: View::default(),
            why: Why::default(),
            parts,
        })
    }
}

impl RunFiles {
    /// Returns the data of one of several series.
    fn of(&self, one: &Series) -> Self {
        let of = |steps: &[Step]| -> Vec<Step> {
            steps.iter().filter(|s| s.series == one.name).cloned().collect()
        };
        let (steps, spoilt) = (of(&self.steps), of(&self.spoilt));
        let own = |c: &&Caveat| {
            c.step().is_none_or(|step| steps.iter().chain(&spoilt).any(|s| s.step == step))
                && c.series().is_none_or(|series| series == one.name)
        };
        // Earlier versions pooled all series.
        let sent = self.meta.sent.iter().filter(|s| s.series == one.name || s.series.is_empty());
        let plan = &one.plan;
        let mut noted: Vec<Caveat> = self.noted.iter().filter(own).cloned().collect();
        let mut meta = Meta {
            workload: plan.measured_workload(),
            slo: plan.slo.summary(),
            sent: sent.cloned().collect(),
            model: plan.server.model.clone().unwrap_or_else(|| self.meta.model.clone()),
            ..self.meta.clone()
        };
        if let Some(variant) = &one.variant {
            // A variant has its own server, possibly on other hardware.
            let run = self.meta.variants.iter().find(|v| v.name == variant.name);
            let run = run.cloned().unwrap_or_default();
            meta.server = plan.measured_server();
            meta.model = run.model.unwrap_or(meta.model);
            (meta.gpu, meta.gpus) = (plan.hardware.gpu.clone(), plan.hardware.gpu_count());
            (meta.words, meta.facts) = (run.words, run.facts);
            noted.extend(run.noted);
        }
        Self {
            plan_toml: self.plan_toml.clone(),
            meta,
            failures: self.failures.iter().filter(|f| f.series == one.name).cloned().collect(),
            noted,
            steps,
            spoilt,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::rundir::Sent;
    use goodput_core::caveat::{LengthsCaveat, LengthsOf, OriginCaveat, ServerCaveat};

    #[test]
    fn every_series_is_a_run_of_its_own() {
        let run = fixture::pair();
        assert_eq!(run.parts.iter().map(Run::series).collect::<Vec<_>>(), ["cold", "warm"]);
        for part in &run.parts {
            assert!(part.steps.iter().all(|s| s.series == part.series()) && part.parts.is_empty());
            assert_eq!(part.answers.len(), 1);
            assert!(
                part.meta.workload.to_string().ends_with(&format!("{} cache", part.series())),
                "{}",
                part.meta.workload
            );
            assert_eq!(run.part(part.series()), part);
        }
        assert_eq!(run.answers.len(), 2);
        assert_eq!(run.steps.len(), run.parts.iter().map(|p| p.steps.len()).sum::<usize>());
    }

    #[test]
    fn a_series_has_its_own_lengths() {
        let mut lengths = goodput_core::distribution::LengthHistogram::default();
        lengths.push(600);
        let sent = |series: &str| Sent {
            series: series.into(),
            class: "all".into(),
            input: lengths.finish(),
            output: None,
        };
        let of = |sent: Vec<Sent>| fixture::pair_of(Meta { sent, ..fixture::meta() }, vec![]);
        let own = |run: &Run| run.parts.iter().map(|p| p.meta.sent.len()).collect::<Vec<_>>();
        assert_eq!(own(&of(vec![sent("cold"), sent("warm"), sent("warm")])), [1, 2]);
        assert_eq!(own(&of(vec![sent("")])), [1, 1], "as earlier versions have it");
        let mut value = serde_json::to_value(Meta { sent: vec![sent("cold")], ..fixture::meta() }).unwrap();
        let read = |v: &serde_json::Value| serde_json::from_value::<Meta>(v.clone()).unwrap().sent;
        assert_eq!(read(&value), [sent("cold")]);
        value["sent"] = serde_json::json!({ "input": lengths.finish(), "output": null });
        assert_eq!(read(&value), [sent("")], "as earlier versions wrote it");
    }

    #[test]
    fn a_caveat_belongs_to_the_series_of_its_step() {
        let late = Caveat::Server(ServerCaveat::NotDrained { step: 2, left: 1.0 });
        let of = LengthsOf { series: Some("warm".into()), class: None };
        let long = Caveat::Lengths(LengthsCaveat::InputLengthOff { asked: 60.0, got: 84.0, of });
        let run =
            fixture::pair_with(vec![Caveat::Origin(OriginCaveat::VirtualTime), late.clone(), long.clone()]);
        assert_eq!(run.series_of(&late), ["cold"]);
        assert_eq!(run.series_of(&long), ["warm"]);
        assert!(run.series_of(&Caveat::Origin(OriginCaveat::VirtualTime)).is_empty(), "of the whole run");
        let twice = run.caveats.iter().filter(|c| **c == Caveat::Origin(OriginCaveat::VirtualTime)).count();
        assert_eq!(twice, 1, "said once though it is of both");
    }
}
