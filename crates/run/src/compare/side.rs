//! Sides of a comparison: each is a series of a run folder under one tier of its SLO.

use super::requests::{Requests, read};
use super::{SideSummary, common_levels};
use crate::rundir::{self, Run};
use anyhow::{Context, Result, bail};
use goodput_core::caveat::{Caveat, ServerCaveat};
use goodput_core::level::Control;
use goodput_core::slo::Slo;
use goodput_plan::Plan;
use goodput_stats::search::answer::Answer;
use std::path::{Path, PathBuf};

/// One side of a comparison.
#[derive(Debug, Clone)]
pub struct Side {
    /// Label shown to the user.
    pub label: String,
    /// Path of the run folder.
    pub dir: PathBuf,
    /// Run with only this series.
    pub run: Run,
    /// Plan as resolved for this series.
    pub plan: Plan,
    /// Name of the SLO tier.
    pub tier: String,
    /// True if the run measured all of its series in turns.
    pub alternating: bool,
}

impl Side {
    /// Returns the answer of the side's tier, if there is one.
    pub fn answer(&self) -> Option<&Answer> {
        self.run.answers.iter().find(|a| a.tier == self.tier)
    }

    /// Returns the side's tier, if the plan has limits.
    pub fn slo(&self) -> Option<&Slo> {
        self.run.tiers.iter().find(|t| t.tier() == self.tier)
    }

    /// Returns the step in which the server stopped answering, if it did.
    pub fn gone(&self) -> Option<u32> {
        self.run.caveats.iter().find_map(|c| match c {
            Caveat::Server(ServerCaveat::ServerGone { step }) => Some(*step),
            _ => None,
        })
    }

    /// Returns the name of the series.
    pub fn series(&self) -> &str {
        let of_steps = self.run.steps.first().map(|s| s.series.as_str());
        self.run.answers.first().map(|a| a.series.as_str()).or(of_steps).unwrap_or(goodput_plan::MAIN)
    }

    pub(super) fn summary(&self) -> SideSummary {
        let meta = &self.run.meta;
        SideSummary {
            label: self.label.clone(),
            run: self.dir.display().to_string(),
            series: self.series().to_owned(),
            tier: self.tier.clone(),
            started: meta.started.clone(),
            server: self.plan.measured_server().to_string(),
            model: self.model(),
            workload: self.plan.measured_workload().to_string(),
            slo: self.slo().map(Slo::summary).unwrap_or_default(),
        }
    }

    /// Returns the requested model: the variant's if it has its own.
    pub fn model(&self) -> String {
        let own =
            self.run.meta.variants.iter().find(|v| v.name == self.series()).and_then(|v| v.model.clone());
        own.unwrap_or_else(|| self.run.meta.model.clone())
    }
}

/// Returns the controlled quantity of a side's steps.
pub(super) fn control(side: &Side) -> Control {
    let of_steps = || side.run.steps.iter().find(|s| !s.kind.is_outside_search()).map(|s| s.level.control);
    side.answer().map(|a| a.control).or_else(of_steps).unwrap_or(Control::Rate)
}

/// Returns true if these are series of one run that measured them in turns.
pub(super) fn alternating(sides: &[Side]) -> bool {
    sides.iter().all(|s| s.alternating && s.dir == sides[0].dir)
}

/// Returns true if these are tiers that are judged on the same steps.
pub(super) fn one_series(sides: &[Side]) -> bool {
    let one = sides.iter().all(|s| s.dir == sides[0].dir && s.series() == sides[0].series());
    one && sides.iter().any(|s| s.tier != sides[0].tier)
}

/// Reads the requests of all comparable steps of every side.
pub(super) fn requests(sides: &[Side]) -> Result<Vec<Requests>> {
    let wanted = |side: &Side| -> Vec<(String, u32)> {
        common_levels::usable(side).iter().map(|s| (s.series.clone(), s.step)).collect()
    };
    sides.iter().map(|side| read(&side.dir, &wanted(side))).collect()
}

/// Resolves the command-line arguments: `RUN`, or `RUN#NAME` for one series or tier of it. For a single run, compares
/// its series with one another, or its tiers if it has only one series.
///
/// # Errors
/// Fails if a folder is not a run, a name matches none of its series and tiers, or there are fewer than two sides.
pub fn sides(arguments: &[String]) -> Result<Vec<Side>> {
    let mut all = Vec::new();
    let single = arguments.len() == 1;
    for argument in arguments {
        let (dir, name) = rundir::folder_and_part(argument);
        all.extend(read_sides(&dir, name, single)?);
    }
    if all.len() < 2 {
        bail!(
            "{} has one series and one tier, so there is nothing to compare it with: name a second run, as in `goodput compare {0} RUN`",
            arguments.first().map(String::as_str).unwrap_or_default()
        );
    }
    label(&mut all);
    Ok(all)
}

/// Reads the selected sides of a run folder: those with the given name, or all of them if it is the only folder.
fn read_sides(dir: &Path, name: Option<&str>, single: bool) -> Result<Vec<Side>> {
    let run = rundir::read(dir)?;
    if !run.matrix.is_empty() {
        bail!(
            "{} is the run of a matrix, whose rows are questions of their own: there is no curve to compare",
            dir.display()
        );
    }
    chosen(of_run(dir, &run)?, name, dir, single)
}

/// Reads the one side that represents a run folder among other runs: its only series, or the one with the given name.
///
/// # Errors
/// Fails if the folder is not a run, has no such series, or has several and no name is given.
pub(super) fn of_folder(dir: &Path, name: Option<&str>) -> Result<Side> {
    let found = read_sides(dir, name, false)?;
    found.into_iter().next().with_context(|| format!("{} has no series", dir.display()))
}

/// Returns every series of a run under each of its tiers.
fn of_run(dir: &Path, run: &Run) -> Result<Vec<Side>> {
    let plan = Plan::parse(&run.plan_toml).with_context(|| format!("in the plan of {}", dir.display()))?;
    let series = plan.try_series().map_err(anyhow::Error::msg)?;
    let alone = std::slice::from_ref(run);
    let parts = if run.parts.is_empty() { alone } else { &run.parts[..] };
    let mut all = Vec::new();
    for (part, one) in parts.iter().zip(&series) {
        let tiers: Vec<String> = part.tiers.iter().map(|t| t.tier().to_owned()).collect();
        let tiers = if tiers.is_empty() { vec![String::new()] } else { tiers };
        for tier in tiers {
            all.push(Side {
                label: String::new(),
                dir: dir.to_owned(),
                run: part.clone(),
                plan: one.plan.clone(),
                tier,
                alternating: plan.alternate.is_some(),
            });
        }
    }
    // A series without measurements has no answer that carries its name.
    for (side, one) in
        all.iter_mut().zip(series.iter().flat_map(|s| s.plan.slo.as_slice().iter().map(move |_| s)))
    {
        if side.run.answers.is_empty() && side.run.steps.is_empty() {
            side.label.clone_from(&one.name);
        }
    }
    Ok(all)
}

/// Selects the sides with the given name from those of a run.
fn chosen(own: Vec<Side>, name: Option<&str>, dir: &Path, single: bool) -> Result<Vec<Side>> {
    let mut series: Vec<String> = own.iter().map(|s| s.series().to_owned()).collect();
    series.dedup();
    let mut tiers: Vec<String> = own.iter().map(|s| s.tier.clone()).collect();
    tiers.dedup();
    let first_tier = tiers.first().cloned().unwrap_or_default();
    let quoted = |names: &[String]| names.join(", ");
    match name {
        Some(name) if series.iter().any(|s| s == name) => {
            Ok(own.into_iter().filter(|s| s.series() == name).take(1).collect())
        }
        Some(name) if tiers.iter().any(|t| t == name) && series.len() == 1 => {
            Ok(own.into_iter().filter(|s| s.tier == name).collect())
        }
        Some(name) => bail!(
            "{} has no series and no tier called {name:?}; it has the series {} and the tiers {}",
            dir.display(),
            quoted(&series),
            quoted(&tiers)
        ),
        None if single && series.len() > 1 => Ok(own.into_iter().filter(|s| s.tier == first_tier).collect()),
        None if single => Ok(own),
        None if series.len() > 1 => bail!(
            "{0} has several series ({1}): say which is meant, as in {0}#{2}; alone, `goodput compare {0}` compares them with one another",
            dir.display(),
            quoted(&series),
            series[0]
        ),
        None => Ok(own.into_iter().take(1).collect()),
    }
}

/// Assigns distinct labels: within one folder the series or tier; otherwise the folder name, then the full path, then
/// a number.
fn label(sides: &mut [Side]) {
    let one_folder = sides.iter().all(|s| s.dir == sides[0].dir);
    let one_series = sides.iter().all(|s| s.series() == sides[0].series());
    let short = |dir: &Path| {
        dir.file_name().map_or_else(|| dir.display().to_string(), |n| n.to_string_lossy().into_owned())
    };
    let mut labels: Vec<String> = sides
        .iter()
        .map(|s| match (one_folder, one_series) {
            (true, true) => s.tier.clone(),
            (true, false) => s.series().to_owned(),
            (false, _) if s.series() == goodput_plan::MAIN => short(&s.dir),
            (false, _) => format!("{}#{}", short(&s.dir), s.series()),
        })
        .collect();
    let twice = |all: &[String]| all.iter().enumerate().any(|(i, l)| all[..i].contains(l));
    if twice(&labels) {
        labels = sides.iter().map(|s| s.dir.display().to_string()).collect();
    }
    if twice(&labels) {
        labels = labels.iter().enumerate().map(|(i, l)| format!("{l} ({})", i + 1)).collect();
    }
    for (side, label) in sides.iter_mut().zip(labels) {
        side.label = label;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_behind_the_last_hash() {
        for (text, dir, name) in [
            ("runs/a", "runs/a", None),
            ("runs/a#fp8", "runs/a", Some("fp8")),
            ("runs/a#b#c", "runs/a#b", Some("c")),
        ] {
            assert_eq!(rundir::folder_and_part(text), (PathBuf::from(dir), name), "{text}");
        }
        let dir = tempfile::tempdir().unwrap();
        let odd = dir.path().join("a#b");
        std::fs::create_dir(&odd).unwrap();
        assert_eq!(
            rundir::folder_and_part(odd.to_str().unwrap()),
            (odd.clone(), None),
            "a folder is a folder"
        );
    }

    #[test]
    fn a_folder_that_is_no_run_is_named() {
        let e = format!("{:#}", sides(&["/nowhere".into(), "/else".into()]).unwrap_err());
        assert!(e.contains("/nowhere is not a run folder"), "{e}");
    }
}
