//! One case: what the program advises, and what that and every other change gains.

use crate::advised::{contradict, meant};
use crate::case::Case;
use crate::knob::{Intervention, Knob, Price};
use crate::store::Store;
use anyhow::{Context, Result};
use goodput::diagnosis::Finding;
use goodput::rundir::{self, Run};
use goodput::sweep::{self, Options};
use std::path::Path;
use tokio_util::sync::CancellationToken;

/// A change that gains less than this share of the goodput is not worth naming.
pub(crate) const WORTH: f64 = 0.2;
/// A change that loses more than this share of the goodput is harmful.
const HARM: f64 = 0.03;
/// A lower goodput is none, in requests per second.
const LEAST: f64 = 0.05;
/// Share of the best gain that a good first advice reaches.
pub(crate) const GOOD: f64 = 0.8;

/// A case with its truths and the advice that it got.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Trial {
    pub(crate) case: Case,
    /// The model's own goodput.
    pub(crate) base: f64,
    /// The changes that are worth it, each with the goodput that it gives.
    pub(crate) worthy: Vec<(Intervention, f64)>,
    /// The answer of the sweep, in requests per second.
    pub(crate) answer: Option<f64>,
    /// The kinds of all findings, in order.
    pub(crate) findings: Vec<&'static str>,
    /// The kinds that were not decided.
    pub(crate) untold: Vec<&'static str>,
    /// The first advice, as the report says it.
    pub(crate) said: Option<String>,
    /// The change that the first advice means; `None` if it means none.
    pub(crate) advised: Option<(Intervention, f64)>,
    /// True if two findings of the report advise opposite changes of one knob.
    pub(crate) contradicts: bool,
}

/// How a first advice fared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// It reaches most of the best gain.
    Good,
    /// It gains something, or nothing.
    Poor,
    /// It makes the goodput worse.
    Harmful,
    /// A change was worth naming, and none was named.
    Silent,
    /// No change is worth naming, and the first advice does no harm.
    Fine,
}

impl Mark {
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Poor => "poor",
            Self::Harmful => "HARMFUL",
            Self::Silent => "silent",
            Self::Fine => "–",
        }
    }
}

impl Trial {
    pub(crate) fn of(case: &Case, store: &Store, keep: Option<&Path>) -> Result<Self> {
        let base = store.goodput(case, 1.0)?;
        let worthy = worthy(case, store, base)?;
        let run = swept(case, keep)?;
        let answer = run.answers.first().and_then(|a| a.goodput.rate());
        let findings: Vec<&Finding> = run.why.findings.iter().collect();
        let first = findings.iter().find_map(|f| f.advice.first());
        let advised = match first.and_then(|advice| meant(advice, case).transpose()) {
            Some(change) => {
                let change = change?;
                let goodput = store.goodput(&change.case, base)?;
                Some((change, goodput))
            }
            None => None,
        };
        let contradicts = contradict(&findings);
        Ok(Self {
            case: case.clone(),
            base,
            worthy,
            answer,
            findings: findings.iter().map(|f| f.kind.name()).collect(),
            untold: run.why.untold.iter().map(|u| u.kind.name()).collect(),
            said: first.map(goodput::report::words::advice),
            advised,
            contradicts,
        })
    }

    /// Returns the best change: of those that cost nothing, if one of them is worth it, else of other hardware, else of
    /// other requests. What was advised counts too: it may be a value that is not among those tried.
    pub(crate) fn best_change(&self) -> Option<&(Intervention, f64)> {
        let most = |price: Price| {
            let advised = self.advised.iter().filter(|(_, goodput)| *goodput >= least_worth(self.base));
            let of =
                self.worthy.iter().chain(advised).filter(move |(change, _)| change.knob.price() == price);
            of.max_by(|a, b| a.1.total_cmp(&b.1))
        };
        most(Price::Free).or_else(|| most(Price::Hardware)).or_else(|| most(Price::Requests))
    }

    /// Returns the gain of the first advice as a share of the best gain.
    pub(crate) fn share(&self) -> Option<f64> {
        let (_, best) = self.best_change()?;
        let (_, advised) = self.advised.as_ref()?;
        Some((advised - self.base) / (best - self.base))
    }

    pub(crate) fn mark(&self) -> Mark {
        let harmful = self.advised.as_ref().is_some_and(|(_, goodput)| *goodput < (1.0 - HARM) * self.base);
        match (self.best_change(), &self.advised) {
            _ if harmful => Mark::Harmful,
            (None, _) => Mark::Fine,
            (Some(_), None) => Mark::Silent,
            (Some(_), Some(_)) if self.share().is_some_and(|share| share >= GOOD) => Mark::Good,
            (Some(_), Some(_)) => Mark::Poor,
        }
    }
}

/// Returns the goodput from which a change is worth it, where there is one of `base` without it.
fn least_worth(base: f64) -> f64 {
    f64::max((1.0 + WORTH) * base, LEAST)
}

/// Returns the changes of a case that are worth it, each with the goodput that it gives. How much less others give does not
/// matter.
fn worthy(case: &Case, store: &Store, base: f64) -> Result<Vec<(Intervention, f64)>> {
    let least = least_worth(base);
    let mut all: Vec<(Intervention, f64)> = Vec::new();
    for knob in Knob::ALL {
        for change in knob.interventions(case)? {
            if store.reaches(&change.case, least)? {
                let goodput = store.goodput(&change.case, least)?;
                all.extend((goodput >= least).then_some((change, goodput)));
            }
        }
    }
    Ok(all)
}

/// Sweeps a case in virtual time, as a user would, in a folder to `keep`. A finished run that is there already is taken, and
/// gets its forecast anew.
fn swept(case: &Case, keep: Option<&Path>) -> Result<Run> {
    let plan = case.plan(&[])?;
    let temporary = tempfile::tempdir()?;
    let out = keep.unwrap_or(temporary.path()).join(&case.name);
    if !out.join(rundir::RESULT).exists() {
        let options = Options { out: out.clone(), virtual_time: true, ..Options::default() };
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
        runtime
            .block_on(sweep::run(&plan, &options, CancellationToken::new()))
            .with_context(|| format!("sweep of {}", case.name))?;
    }
    let (run, _) = rundir::answered(&out)?;
    sweep::forecast::write(&out, &plan, &run)?;
    rundir::read(&out)
}
