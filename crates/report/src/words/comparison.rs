//! Comparisons as sentences: answers, gates, remarks, and the titles of figures.

use super::caveat::{Context, caveat};
use goodput_core::units::short;
use goodput_run::compare::answer::{Answer, Differences, Finding, NamedChange, Reason, Undecided};
use goodput_run::compare::gate::{GateReason, GateResult, Outcome};
use goodput_run::compare::lost_turns::LostTurns;
use goodput_run::compare::{Column, Infinite, Remark, Scope};

/// Returns the title of a figure.
pub fn figure_title(column: Column) -> String {
    let title = match column {
        Column::Goodput => "goodput",
        Column::SafeRate => "safe rate",
        Column::JointGoodput => "joint goodput",
        Column::Knee => "knee",
        Column::GoodRate => "good requests",
        Column::PerGpu => "goodput per GPU",
        Column::OutputTokens => "output tokens",
        Column::Items => "goodput",
        Column::CostPerMtok => "cost per million output tokens",
        Column::CostPer1000Items => "cost per 1,000 items",
        Column::Preemptions => "preemptions",
        Column::HitRate => "prefix cache hits",
        Column::Attainment => "attainment",
        Column::Failures => "failed requests",
        Column::AchievedRate => "achieved",
        Column::Latency(metric, permille) => return format!("p{} {}", permille / 10, metric.title()),
    };
    title.to_owned()
}

/// Formats a share in per cent without a plus sign, with two digits or more if it is small.
pub(crate) fn unsigned_percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent.is_infinite() {
        return if percent > 0.0 { "∞" } else { "−∞" }.to_owned();
    }
    let text = match percent.abs() {
        p if p >= 9.95 => format!("{percent:.0}"),
        p if p >= 0.095 => format!("{percent:.1}"),
        0.0 => "0".to_owned(),
        _ => format!("{percent:.2}"),
    };
    if text.trim_start_matches('-').chars().all(|c| c == '0' || c == '.') {
        "0".to_owned()
    } else {
        text.replace('-', "−")
    }
}

/// Formats a share in per cent with its sign: `+15 %`.
pub fn signed_percent(share: f64) -> String {
    let text = unsigned_percent(share);
    let sign = if share > 0.0 && text != "0" { "+" } else { "" };
    format!("{sign}{text} %")
}

/// Returns the answer for a side of a comparison as a sentence.
pub(crate) fn comparison(answer: &Answer) -> String {
    let Answer { side, against, finding, reason } = answer;
    let together = |levels: usize| if levels > 1 { format!(" over {levels} rates") } else { String::new() };
    match reason {
        Reason::Undecided(why) => {
            format!("{side} against {against}: undecided, {}.", undecided(*why, against))
        }
        Reason::Same { levels, detectable } => {
            let would = |(column, share): &(Column, f64)| {
                format!("{} % in {}", unsigned_percent(*share), figure_title(*column))
            };
            let would: Vec<String> = detectable.iter().map(would).collect();
            let would = if would.is_empty() {
                String::new()
            } else {
                format!("; a change of {} or more would have been, nine times in ten", would.join(", "))
            };
            format!(
                "{side} against {against}: no difference beyond noise was found{}{would}.",
                together(*levels)
            )
        }
        Reason::Differs(differences) => {
            let (how, together) = (direction(*finding, differences), together(differences.levels));
            format!("{side} is {how} than {against}{together}: {}.", reasons(differences))
        }
    }
}

fn undecided(why: Undecided, against: &str) -> String {
    let why = match why {
        Undecided::BaselineGone => return format!("since the server of {against} stopped answering"),
        Undecided::NoCommonLevel => {
            "since there is no interval for its goodput, and no level that both measured and could take"
        }
        Undecided::FewPairs => {
            "since too few pairs of steps were measured: at least four are needed; give it more time with --budget"
        }
        Undecided::FewRequests => {
            "since too few requests were measured at the levels that both measured, and no interval tells the noise of the goodput"
        }
        Undecided::OneRunAgainstTwo => "since one run can be held against three or more, and not against two",
        Undecided::FewRuns => "since too few of the runs have a rate with an interval, or the same levels",
    };
    why.to_owned()
}

const fn direction(finding: Finding, differences: &Differences) -> &'static str {
    match (finding, differences.only_speed) {
        (Finding::Better, true) => "faster",
        (Finding::Worse, true) => "slower",
        (Finding::Better, false) => "better",
        (Finding::Worse, false) => "worse",
        (Finding::Mixed | Finding::Same | Finding::Undecided, _) => "better in some and worse in some",
    }
}

fn reasons(d: &Differences) -> String {
    let gone = d.server_gone.map(|step| format!("its server stopped answering in step {step}"));
    let lost = d.lost.iter().map(lost_turns);
    let named = d.named.iter().map(|c| {
        let fewer = c.change.levels.filter(|n| *n < d.levels);
        let at = fewer.map_or(String::new(), |n| format!(" at {n} of the {} rates", d.levels));
        format!("{}{at}", named_change(c))
    });
    let all: Vec<String> = gone.into_iter().chain(lost).chain(named).collect();
    let more = if d.more > 0 { format!("; {} more in the table", d.more) } else { String::new() };
    format!("{}{more}", all.join("; "))
}

/// Formats a change: `p99 TTFT at 20 req/s is 15 % [12, 18] higher`.
fn named_change(c: &NamedChange) -> String {
    let at = match c.scope {
        Scope::At(level) => format!(" at {level}"),
        Scope::Whole | Scope::Pooled => String::new(),
    };
    let title = figure_title(c.column);
    match c.change.infinite {
        Some(Infinite::New) => return format!("{title}{at} is now that of requests that failed"),
        Some(Infinite::Old) => return format!("{title}{at} no longer is that of requests that failed"),
        None => {}
    }
    let (change, interval, unit) = if c.column.is_share() {
        (c.change.absolute, c.change.absolute_interval, "pp")
    } else {
        (c.change.share, c.change.interval, "%")
    };
    let Some(share) = change else {
        return format!("{title}{at} is there now, and the baseline has none");
    };
    let rises = share >= 0.0;
    let interval = interval.map_or(String::new(), |[low, high]| {
        let [low, high] = if rises { [low, high] } else { [-high, -low] };
        format!(" [{}, {}]", unsigned_percent(low), unsigned_percent(high))
    });
    let verb = if c.column == Column::Failures { "are" } else { "is" };
    let direction = if rises { "higher" } else { "lower" };
    format!("{title}{at} {verb} {} {unit}{interval} {direction}", unsigned_percent(share.abs()))
}

/// Formats the turns that a side could not sustain: `b could not take 20 req/s in 8 of 10 turns (a: 0 of 10)`.
fn lost_turns(l: &LostTurns) -> String {
    let [old, new] = [0, 1].map(|i| format!("{} of {}", l.lost[i], l.turns[i]));
    let at = format!("{} {}", short(l.level.value), l.level.control.unit().trim());
    let (side, against) = (&l.side, &l.against);
    if l.worse() == Some(false) {
        format!("{against} could not take {at} in {old} turns ({side}: {new})")
    } else {
        format!("{side} could not take {at} in {new} turns ({against}: {old})")
    }
}

/// Returns the reason for the result of a gate.
pub(crate) fn gate_reason(outcome: &Outcome) -> String {
    match &outcome.reason {
        GateReason::TooLittlePooled(column) => {
            format!("too little was measured to take {} of all levels together", column.name())
        }
        GateReason::NotInTurns => {
            "only sides that were measured in turns have their levels taken together".into()
        }
        GateReason::NoLevels(level) => format!("no level was compared, so none at {}", short(*level)),
        GateReason::LevelNotCompared { column, level, compared } => {
            let compared: Vec<String> = compared.iter().map(|level| short(*level)).collect();
            let (name, level) = (column.name(), short(*level));
            format!("{name} was not compared at {level}; the levels compared are {}", compared.join(", "))
        }
        GateReason::NoCommonLevel => "there is no level that both measured and could take".into(),
        GateReason::NoFigure(column) => format!("neither side has a figure for {}", column.name()),
        GateReason::LostTurns(lost) => lost_turns(lost),
        GateReason::NoGoodput => "it has none, since no level keeps the SLO, beyond noise".into(),
        GateReason::LevelsDiffer { level, baseline, control } => format!(
            "it was measured at {} against {}{}, and no difference is claimed between levels that are not the same",
            short(*level),
            short(*baseline),
            control.map_or("", |control| control.unit())
        ),
        GateReason::Infinite(Infinite::New) => "it is now that of requests that failed, beyond noise".into(),
        GateReason::Infinite(Infinite::Old) => {
            "it no longer is that of requests that failed, beyond noise".into()
        }
        GateReason::UnknownValue => "one side has no figure for it".into(),
        GateReason::Change { is_share, value, interval } => {
            gate_change(outcome.result, *is_share, *value, *interval)
        }
    }
}

fn gate_change(result: GateResult, is_share: bool, value: Option<f64>, interval: Option<[f64; 2]>) -> String {
    let shown = |x: f64| {
        let sign = if x > 0.0 { "+" } else { "" };
        if is_share { signed_percent(x) } else { format!("{sign}{}", short(x)) }
    };
    let value = value.map_or_else(|| "anything in".to_owned(), shown);
    let Some([low, high]) = interval else {
        return format!("it changed by {value}, and nothing tells how much of that is noise");
    };
    let changed = format!("it changed by {value} [{}, {}]", shown(low), shown(high));
    match result {
        GateResult::Holds => changed,
        GateResult::Fails => format!("{changed}, all of it beyond the threshold"),
        GateResult::Undecided => format!("{changed}: beyond the threshold, and within the noise"),
    }
}

/// Returns a remark on a comparison.
pub(crate) fn remark(remark: &Remark) -> String {
    let text = match remark {
        Remark::OneSeries => {
            "The tiers are judged on the same steps: their latencies are the same, and only what each allows differs."
        }
        Remark::NoCommonLevel => {
            "There is no level that both measured and could take, so no latencies are compared: `goodput compare --measure` measures both in \
             turns at equal rates, or let both plans list the same rates (search.rates)."
        }
        Remark::SeparateRuns => {
            "Intervals of latencies are for the chance of the requests that came, by blocks of them; near saturation, where slow requests come in \
             long clusters, they are too narrow (docs/compare.md has by how much). That a server is slower on one day than on another is in the \
             difference as well: `goodput compare --measure` measures both in turns, and several runs a side show how much runs differ."
        }
        Remark::InfinitePercentiles => {
            "∞: so many requests failed that the percentile is theirs; a request that failed is later than any other."
        }
        Remark::Brackets => {
            "Goodputs with a bracket and no interval differ only where the brackets have no rate in common."
        }
        Remark::PooledRuns => {
            "Changes are between the means over runs, and their intervals hold what differs from run to run; a single run is held against what the next \
             run of the other side would be."
        }
        Remark::MissingInRuns(rows) => {
            return format!(
                "Not every run has a figure for {}: `each` in compare.json has those of every run.",
                rows.join(", ")
            );
        }
        Remark::Caveat { side, caveat: of } => {
            let text = caveat(of, Context::default()).text;
            return side.as_ref().map_or_else(|| text.clone(), |side| format!("{side}: {text}"));
        }
        Remark::LostTurns(lost) => {
            return format!(
                "{}: those turns are left out, so that the figures of that rate are of the others.",
                lost_turns(lost)
            );
        }
        Remark::LevelsDiffer { is_carried, side, level, baseline, baseline_level } => {
            let how = match is_carried {
                true => {
                    "changes are told at the level of the baseline, along the steps around it, with what that moves them as additional noise"
                }
                false => "their figures stand side by side, and no difference is claimed",
            };
            let level = short(*level);
            return format!(
                "{side} was measured at {level} where {baseline} was at {baseline_level}: {how}."
            );
        }
        Remark::Currencies => {
            return format!(
                "The sides have their prices in different currencies: no change of {} is told.",
                figure_title(Column::CostPerMtok)
            );
        }
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_short() {
        for (share, text) in [
            (0.15, "+15 %"),
            (-0.052, "−5.2 %"),
            (0.0004, "+0.04 %"),
            (0.0, "0 %"),
            (-0.996, "−100 %"),
            (0.0000001, "0 %"),
            (f64::INFINITY, "+∞ %"),
        ] {
            assert_eq!(signed_percent(share), text);
        }
    }
}
