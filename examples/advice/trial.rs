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
/// Factor by which a change must raise the goodput for a larger one to be tried.
const HELPS: f64 = 1.01;
/// Share of the best gain that a good first advice reaches.
pub(crate) const GOOD: f64 = 0.8;

/// A case with its truths and the advice that it got.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Trial {
    pub(crate) case: Case,
    /// The model's own goodput.
    pub(crate) base: f64,
    /// The changes that were tried, each with the goodput that it gives.
    pub(crate) tried: Vec<(Intervention, f64)>,
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
        let mut tried: Vec<(Intervention, f64)> = Vec::new();
        for knob in Knob::ALL {
            for ladder in knob.ladders(case)? {
                let mut before = base;
                for change in ladder {
                    let goodput = store.goodput(&change.case, before)?;
                    tried.push((change, goodput));
                    if goodput <= before * HELPS {
                        break;
                    }
                    before = goodput;
                }
            }
        }
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
            tried,
            answer,
            findings: findings.iter().map(|f| f.kind.name()).collect(),
            untold: run.why.untold.iter().map(|u| u.kind.name()).collect(),
            said: first.map(goodput::report::words::advice),
            advised,
            contradicts,
        })
    }

    /// Returns the best change: of those that cost nothing, if one of them is worth it, else of other hardware, else of
    /// other requests.
    pub(crate) fn best_change(&self) -> Option<&(Intervention, f64)> {
        let most = |price: Price| {
            let of = self.tried.iter().filter(move |(change, _)| change.knob.price() == price);
            of.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, goodput)| self.is_worth(*goodput))
        };
        most(Price::Free).or_else(|| most(Price::Hardware)).or_else(|| most(Price::Requests))
    }

    fn is_worth(&self, goodput: f64) -> bool {
        goodput > 0.05 && goodput >= (1.0 + WORTH) * self.base
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

/// Sweeps a case in virtual time, as a user would, in a folder to `keep`.
fn swept(case: &Case, keep: Option<&Path>) -> Result<Run> {
    let plan = case.plan(&[])?;
    let temporary = tempfile::tempdir()?;
    let out = keep.unwrap_or(temporary.path()).join(&case.name);
    let options = Options { out, virtual_time: true, ..Options::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
    let run = runtime
        .block_on(sweep::run(&plan, &options, CancellationToken::new()))
        .with_context(|| format!("sweep of {}", case.name))?;
    sweep::forecast::write(&options.out, &plan, &run)?;
    rundir::read(&options.out)
}
