//! The reason for an answer: the evidence and the stop rule of a search as sentences.

use super::limits::binding;
use super::units::{latency, level_number, thousands};
use goodput_core::level::{Control, Level};
use goodput_core::units::{Span, short, three_digits};
use goodput_stats::search::answer::{Knee, KneeBasis};
use goodput_stats::search::change::{Change, Shows};
use goodput_stats::search::reason::{
    Ended, Evidence, FitEvidence, LevelEvidence, LevelsEvidence, NotSafe, Reason, SearchEvidence,
    StepEvidence,
};
use goodput_stats::search::stop::{HighestKey, MissedUnloaded, Stop};
use std::time::Duration;

/// Returns the evidence of an answer and why its search ended: `2 req/s meets, 8 req/s fails (p99 TTFT: 41 of 1,200
/// missed); ended because …`.
pub fn reason(reason: &Reason) -> String {
    let parts = reason.evidence().iter().map(evidence).chain([ended(reason.ended())]);
    parts.collect::<Vec<_>>().join("; ")
}

/// Returns why a search ended: `ended because the budget of 15m is spent`.
pub(crate) fn ended(ended: &Ended) -> String {
    match ended {
        Ended::Stopped(rule) => format!("ended because {}", stop(rule)),
        Ended::LevelsLeft => "ended early: levels were left to measure".into(),
        Ended::NotSearched => "no further step was measured for it".into(),
        Ended::NotAsked => "no goodput was asked for".into(),
        Ended::NoSlo => "the rows of the matrix have no SLO".into(),
        Ended::NoStep => "no step was finished".into(),
    }
}

fn evidence(evidence: &Evidence) -> String {
    match evidence {
        Evidence::Levels(of) => levels(of),
        Evidence::Search(of) => search(of),
        Evidence::Fit(of) => fit(of),
        Evidence::ServerChanged(change) => changed(change),
        Evidence::NotSafe(NotSafe::StepFailed { level }) => {
            format!("no level is safe, since {} is shown to fail", name(*level))
        }
        Evidence::NotSafe(NotSafe::SoakFailed { level }) => {
            format!("no level is safe, since the soak at {} failed", name(*level))
        }
        Evidence::Refused { refused, due, level } => format!(
            "the server refused {} of {} requests at {} (429, or 503 with Retry-After), which is a limit of requests and not of its \
             speed: raise the limit, or stay below it (search.max-rate, step.max-in-flight)",
            thousands(*refused as f64),
            thousands(*due as f64),
            name(*level)
        ),
        Evidence::MissedUnloaded(missed) => missed_unloaded(missed),
        Evidence::Saturated { level } => {
            format!("kept full, the server completes {}, and the limit is no higher", name(*level))
        }
    }
}

fn levels(of: &LevelsEvidence) -> String {
    let open = |verdict: &str, levels: &[LevelEvidence]| {
        let last = levels.last().map(|l| format!(" ({})", counts(&l.counts))).unwrap_or_default();
        format!("{verdict}: {}{last}", names(levels))
    };
    match of {
        LevelsEvidence::Unmeasured => "no level was measured".into(),
        LevelsEvidence::Bracket { met, failed } => {
            format!("{} meets, {} fails ({})", achieved(met), achieved(failed), counts(&failed.counts))
        }
        LevelsEvidence::MetUpTo(met) => {
            format!("met up to {} ({}), and no level is shown to fail", achieved(met), counts(&met.counts))
        }
        LevelsEvidence::LowestFails(failed) => {
            format!("the lowest level, {}, already fails ({})", achieved(failed), counts(&failed.counts))
        }
        LevelsEvidence::LowestOverloaded(failed) => format!(
            "fails at {}, the lowest level tried: try lower levels ({})",
            achieved(failed),
            counts(&failed.counts)
        ),
        LevelsEvidence::NoneMeetsBelow(failed) => format!(
            "{} fails ({}), and no level below it is shown to meet",
            achieved(failed),
            counts(&failed.counts)
        ),
        LevelsEvidence::NothingShown => "no level is shown to meet or to fail".into(),
        LevelsEvidence::Undecided(levels) => open("undecided", levels),
        LevelsEvidence::Invalid(levels) => open("invalid", levels),
        LevelsEvidence::MetAboveFailed(levels) => {
            format!("{} met above a level that fails, and is not trusted", names(levels))
        }
        LevelsEvidence::Decided { met, failed } => {
            let say = |level: &Option<LevelEvidence>, verb: &str| match level {
                Some(l) => format!("{} is shown to {verb} ({})", achieved(l), counts(&l.counts)),
                None => format!("no level alone is shown to {verb}"),
            };
            format!("{}; {}", say(met, "meet"), say(failed, "fail"))
        }
    }
}

fn search(of: &SearchEvidence) -> String {
    match of {
        SearchEvidence::FarFromBoundary => "hardly anything was measured near the boundary".into(),
        SearchEvidence::NoneFrom { level } => {
            format!("no level at or above {} meets the SLO, with a chance of 90 % or more", name(*level))
        }
        SearchEvidence::HighestMeets { level } => {
            format!("{} meets the SLO, with a chance of 90 % or more", name(*level))
        }
        SearchEvidence::ClientLimit => "the client was the limit below where the boundary may lie".into(),
        SearchEvidence::Between { low, high } => {
            format!("the boundary lies between {} and {}, with a chance of 90 %", name(*low), name(*high))
        }
        SearchEvidence::Below { high } => format!(
            "no level is shown to be safe; the boundary lies below {}, with a chance of 95 %",
            name(*high)
        ),
        SearchEvidence::AboveFailed { failed } => format!(
            "the fitted curve puts the boundary above {}, which is shown to fail, so the bracket of decided steps is given instead",
            name(*failed)
        ),
        SearchEvidence::BelowMet { met } => format!(
            "the fitted curve puts the boundary below {}, which is shown to meet, so the bracket of decided steps is given instead",
            name(*met)
        ),
    }
}

fn fit(of: &FitEvidence) -> String {
    match of {
        FitEvidence::HighestMeets { level, chance } => {
            format!(
                "by a fit to all levels {} meets the SLO, with a chance of {}",
                name(*level),
                percent(*chance)
            )
        }
        FitEvidence::HighestMayMeet { level, chance } => format!(
            "by a fit to all levels {}, the highest, meets the SLO with a chance of {} only: list higher ones, or measure longer",
            name(*level),
            percent(*chance)
        ),
        FitEvidence::BelowLowest { level } => format!(
            "by a fit to all levels the boundary lies below {}, the lowest: list lower ones",
            name(*level)
        ),
        FitEvidence::Contradicted { about } => format!(
            "the fit to all levels, about {}, does not agree with the verdicts of single ones, so these alone count",
            name(*about)
        ),
        FitEvidence::Between { low, high, above_highest } => format!(
            "by a fit to all levels the boundary lies between {} and {}, with a chance of 90 %{}",
            name(*low),
            name(*high),
            if *above_highest { ", partly above the highest level" } else { "" }
        ),
        FitEvidence::Below { high } => format!(
            "no level is shown to be safe; by a fit to all levels the boundary lies below {}, with a chance of 95 %",
            name(*high)
        ),
    }
}

fn changed(change: &Change) -> String {
    let shows = match change.shows {
        Shows::Unloaded => "of one request at a time",
        Shows::Loaded => "under load",
    };
    format!(
        "the server changed between {} and {}: the median {} {shows} went from {} to {}, and only what was measured since then counts",
        seconds(change.after_s),
        seconds(change.before_s),
        change.metric.title(),
        latency(change.from_ms),
        latency(change.to_ms)
    )
}

/// Returns `one request at a time already misses p99 TTFT: 30 of 1,000 requests`.
fn missed_unloaded(missed: &MissedUnloaded) -> String {
    let (misses, n) = (thousands(missed.misses as f64), thousands(missed.n as f64));
    format!("one request at a time already misses {}: {misses} of {n} requests", binding(&missed.limit))
}

/// Returns the counts behind a verdict: `p99 TTFT: 41 of 1,200 missed`.
fn counts(of: &StepEvidence) -> String {
    match of {
        StepEvidence::ClientLimit => "the client was the limit".into(),
        StepEvidence::Restarted => "the server was started anew".into(),
        StepEvidence::AllFailed => "every request failed".into(),
        StepEvidence::Failed { failed, due } => {
            format!("{} of {} requests failed", thousands(*failed as f64), thousands(*due as f64))
        }
        StepEvidence::Unstable => "stability: the backlog grew".into(),
        StepEvidence::StabilityUnknown => "stability: not known".into(),
        StepEvidence::Misses { limit, misses, n } => {
            format!("{}: {} of {} missed", binding(limit), thousands(*misses as f64), thousands(*n as f64))
        }
        StepEvidence::NoCounts => "no counts".into(),
    }
}

/// Returns the stop rule that ended a search, as a clause.
fn stop(stop: &Stop) -> String {
    match stop {
        Stop::ListDone { levels: 1 } => "the one level of the list is measured".into(),
        Stop::ListDone { levels } => format!("all {levels} levels of the list are measured"),
        Stop::AllFailed { level } => format!("every request failed at {}", name(*level)),
        Stop::Errors { level } => {
            format!("too many requests failed at {}, more than step.max-error-share", name(*level))
        }
        Stop::Refused { level } => format!("the server refused requests at {} (429 or 503)", name(*level)),
        Stop::ServerGone { level } => format!("the server went away at {}", name(*level)),
        Stop::ClientLimit { level } => format!("the client was the limit at {}", name(*level)),
        Stop::Restarted { level } => format!("the server was started anew at {}", name(*level)),
        Stop::Highest { key, level } => {
            format!("{}, {}, is as far as the plan goes", highest_key(*key), name(*level))
        }
        Stop::NoCurve => "no limit of the SLO allows a miss, so that no curve can be fitted".into(),
        Stop::Soaked { level } => format!("the soak at {} is over", name(*level)),
        Stop::SloMissed { level } => format!("the SLO is missed at {}", name(*level)),
        Stop::Unstable { level } => format!("the backlog grew at {}", name(*level)),
        Stop::Gross { level } => format!("misses were far beyond what is allowed at {}", name(*level)),
        Stop::Unloaded(_) => "no load makes an unloaded server faster".into(),
        Stop::NothingHolds { level } => format!("every rate failed, down to {}", name(*level)),
        Stop::Width { low, high } => {
            format!("the interval is narrow enough: {} to {}", name(*low), name(*high))
        }
        Stop::Budget { budget_s } => format!("the budget of {} is spent", seconds(*budget_s)),
        Stop::Infeasible { level } => format!("no level from {} on meets the SLO", name(*level)),
        Stop::Flat { level, growth } => format!(
            "{} changed the throughput by {} %, less than what the ladder goes on for",
            name(*level),
            short((1000.0 * growth).round() / 10.0)
        ),
        Stop::Knee { knee, control } => knee_found(knee, *control),
        Stop::Plateau { achieved, offered } => format!(
            "throughput levelled off: {} req/s achieved of {} offered",
            short(*achieved),
            short(*offered)
        ),
    }
}

/// Returns the name of the plan key, as used in the sentence about it.
const fn highest_key(key: HighestKey) -> &'static str {
    match key {
        HighestKey::MaxRate => "max-rate",
        HighestKey::MaxInFlight => "max-in-flight",
        HighestKey::LadderMax => "ladder.max",
    }
}

/// Returns `the knee is found: beyond 19.8 req/s more load buys hardly any throughput (90 % interval 18.9–20.3)`.
fn knee_found(knee: &Knee, control: Control) -> String {
    let digits = |x: f64| short(three_digits(x, f64::round));
    let effect = match knee.basis {
        KneeBasis::Backlog => "the backlog grows",
        KneeBasis::Throughput | KneeBasis::Latency | KneeBasis::Kneedle => {
            "more load buys hardly any throughput"
        }
    };
    let interval =
        knee.interval90.map(|[low, high]| format!(" (90 % interval {}–{})", digits(low), digits(high)));
    format!(
        "the knee is found: beyond {}{} {effect}{}",
        digits(knee.rate),
        control.unit(),
        interval.unwrap_or_default()
    )
}

/// Returns a level with its short unit: `8 req/s`, `1,253 in flight`.
fn name(level: Level) -> String {
    format!("{}{}", level_number(level.value), level.control.unit())
}

/// Returns a level, with the achieved requests per second if the level is not a rate: `8 in flight (12.3 req/s)`.
fn achieved(of: &LevelEvidence) -> String {
    match of.level.control {
        Control::Rate => name(of.level),
        Control::Concurrency | Control::Sessions | Control::TraceScale => {
            format!("{} ({} req/s)", name(of.level), short(of.achieved_rate))
        }
    }
}

fn names(levels: &[LevelEvidence]) -> String {
    levels.iter().map(achieved).collect::<Vec<_>>().join(", ")
}

/// Formats whole seconds as in a plan: `15m`, `1m 30s`.
fn seconds(s: f64) -> String {
    Span(Duration::from_secs(s.max(0.0).round() as u64)).to_string()
}

/// Formats a chance: `93 %`; never 0 or 100, since no chance is a certainty.
fn percent(chance: f64) -> String {
    format!("{:.0} %", (100.0 * chance).clamp(1.0, 99.0))
}
