//! The sensitivity of the answer, in words and tables: the elasticity of the goodput in each property of the workload.

use crate::document::{Block, Cell, Column, Field, Section, Setting, Table, UNKNOWN};
use crate::escape::clip;
use crate::words;
use goodput_core::level::Control;
use goodput_run::rundir::Run;
use goodput_run::rundir::sensitivity::{Effect, Sensitivity};
use goodput_stats::capacity::workload_change::{CHANGE, FleetBand};
use goodput_workload::factors::{Factor, FactorKind};

/// Returns the name of a factor for people: `prompt length`, `share of class chat`.
pub(crate) fn title(factor: &Factor) -> String {
    match (factor.kind, &factor.class) {
        (FactorKind::PromptLength, _) => "prompt length".into(),
        (FactorKind::AnswerLength, _) => "answer length".into(),
        (FactorKind::CacheShare, _) => "cached share of the prompts".into(),
        (FactorKind::Burstiness, _) => "burstiness of arrivals".into(),
        (FactorKind::Mix, Some(class)) => format!("share of class {}", clip(class, 24)),
        (FactorKind::Mix, None) => "mix".into(),
    }
}

/// Returns a change of a factor in words: `prompts 20 % longer`.
pub(crate) fn change(factor: &Factor, times: f64) -> String {
    let by = format!("{:.0} %", 100.0 * (times - 1.0).abs());
    let more = times > 1.0;
    let pick = |up: &'static str, down: &'static str| if more { up } else { down };
    match (factor.kind, &factor.class) {
        (FactorKind::PromptLength, _) => format!("prompts {by} {}", pick("longer", "shorter")),
        (FactorKind::AnswerLength, _) => format!("answers {by} {}", pick("longer", "shorter")),
        (FactorKind::CacheShare, _) => format!("{by} {} of the prompts cached", pick("more", "less")),
        (FactorKind::Burstiness, _) => format!("arrivals {by} {}", pick("burstier", "smoother")),
        (FactorKind::Mix, class) => {
            let class = class.as_deref().map_or_else(|| "a class".into(), |c| clip(c, 24));
            format!("{by} {} of class {class}", pick("more", "less"))
        }
    }
}

/// Formats a value of a factor with its unit: `600 tokens`, `40 %`, `cv 1`.
pub(crate) fn value(kind: FactorKind, value: f64) -> String {
    match kind {
        FactorKind::PromptLength | FactorKind::AnswerLength => format!("{} tokens", words::figure(value)),
        FactorKind::CacheShare | FactorKind::Mix => format!("{} %", words::figure(100.0 * value)),
        FactorKind::Burstiness => format!("cv {}", words::precise(value)),
    }
}

/// Formats a signed number with this many decimals and a true minus sign.
fn signed(x: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", x.abs());
    // −0.00 has no sign.
    let zero = text.chars().all(|c| matches!(c, '0' | '.'));
    format!(
        "{}{text}",
        if zero {
            ""
        } else if x < 0.0 {
            "−"
        } else {
            "+"
        }
    )
}

/// Formats a relative change in per cent: `−17 %`.
pub(crate) fn percent(times: f64) -> String {
    let change = 100.0 * (times - 1.0);
    format!("{} %", signed(change, usize::from(change.abs() < 9.95)))
}

/// Formats an elasticity: `−0.82`.
fn elasticity(effect: &Effect) -> String {
    effect.elasticity.map_or(UNKNOWN.into(), |e| signed(e.value, 2))
}

/// Formats the 90 % interval of an elasticity: `−0.95 to −0.70`.
fn interval(effect: &Effect) -> String {
    match effect.elasticity.map(|e| e.interval90) {
        Some(Some([low, high])) => format!("{} to {}", signed(low, 2), signed(high, 2)),
        Some(None) => "not bounded".into(),
        None => UNKNOWN.into(),
    }
}

/// Returns the change of the goodput if a factor is 20 % larger: `−14 % (−16 % to −12 %)`.
fn more(effect: &Effect) -> String {
    let Some((times, bounds)) = effect.goodput_times(1.0 + CHANGE) else { return UNKNOWN.into() };
    match bounds {
        Some([low, high]) => format!("{} ({} to {})", percent(times), percent(low), percent(high)),
        None => percent(times),
    }
}

/// Returns the factors with their effects.
fn table(s: &Sensitivity) -> Table {
    let text = |head: &str, short: &str, of: fn(&Effect) -> String| {
        Field::new(Column::text(head).short(short), move |e: &Effect| Cell::text(of(e)))
    };
    let figure = |head: &str, short: &str, of: fn(&Effect) -> String| {
        Field::new(Column::number(head).short(short), move |e: &Effect| Cell::figure(of(e), None))
    };
    let fields = vec![
        text("factor", "", |e| title(&e.factor)),
        Field::new(Column::quantity("in the plan"), |e: &Effect| Cell::text(value(e.factor.kind, e.value))),
        figure("d ln r*/d ln x", "elasticity", elasticity),
        figure("90 % interval", "90 % interval", interval),
        figure("goodput with 20 % more of it", "with 20 % more", more),
    ];
    Table::of(fields, &s.effects).set(Setting::Bare)
}

/// Returns the largest effect whose interval excludes zero, in a sentence, or a sentence that there is none.
pub(crate) fn headline(s: &Sensitivity) -> String {
    let shown = |e: &&Effect| {
        e.elasticity.and_then(|e| e.interval90).is_some_and(|[low, high]| low > 0.0 || high < 0.0)
    };
    let Some(effect) = s.effects.iter().find(shown) else {
        return "No factor is shown to move the goodput: the intervals of all include none.".into();
    };
    let Some((times, _)) = effect.goodput_times(1.0 + CHANGE) else { return String::new() };
    let what = change(&effect.factor, 1.0 + CHANGE);
    format!("What moves the goodput most: with {what} it changes by {}.", percent(times))
}

/// Returns the method and its assumptions.
fn basis(run: &Run, s: &Sensitivity) -> Vec<String> {
    let control = run.answers.first().map_or(Control::Rate, |a| a.control);
    let mut all = vec![format!(
        "Paired steps at {}, in {} of {} turns, with the same arrivals and lengths in each turn: the rate moved by ±{} and each factor by itself; {} \
         requests a step.",
        words::level(control, s.centre),
        s.turns,
        s.of_turns,
        percent(1.0 + s.rate_move).trim_start_matches('+'),
        words::figure(s.requests.round())
    )];
    if let (Some(limit), Some(over), Some(slope)) = (&s.limit, s.tail_over_limit, s.slope) {
        all.push(format!(
            "Measured by the tail of {}, {} of its limit there; it grows by {} % for 1 % more load.",
            words::binding_in_short(limit),
            words::figure((100.0 * over).round() / 100.0),
            words::figure(slope)
        ));
    }
    all.push(
        "An elasticity is local: 20 % is an extrapolation of smaller changes, and the limit that binds is taken to stay the same.".into(),
    );
    if s.effects.iter().any(|e| e.turns < s.of_turns) {
        all.push(
            "Turns that are missing, or in which too many requests failed to know the tail, do not count."
                .into(),
        );
    }
    for i in &s.immovable {
        all.push(format!("Not moved: {} ({}).", title(&i.factor), i.why));
    }
    all
}

/// Returns the blocks of the section of the report; empty if no factor was varied.
pub(super) fn section(run: &Run) -> Vec<Block> {
    let Some(s) = &run.view.sensitivity else { return Vec::new() };
    vec![Block::paragraph(headline(s)), table(s).into(), Block::list(basis(run, s))]
}

/// Returns the lines for a terminal; empty if no factor was varied.
pub(super) fn brief(run: &Run) -> Section {
    let Some(s) = &run.view.sensitivity else { return Section::untitled(Vec::new()) };
    let mut blocks = vec![Block::paragraph(headline(s)), table(s).into()];
    let immovable: Vec<String> = s.immovable.iter().map(|i| title(&i.factor)).collect();
    if !immovable.is_empty() {
        blocks.push(Block::list([format!("not moved: {}", immovable.join(", "))]));
    }
    Section::untitled(blocks)
}

/// Returns the effect of a changed workload on the GPUs: `with prompts 20 % longer: 5 GPUs instead of 4 (90 % interval
/// 5 to 6)`.
pub(crate) fn band(band: &FleetBand, planned: u64) -> String {
    let what = change(&band.moved.factor, band.moved.times);
    let gpus =
        |n: u64| format!("{} GPU{}", goodput_core::units::thousands(n as f64), if n == 1 { "" } else { "s" });
    let said = if band.gpus == planned {
        format!("still {}", gpus(planned))
    } else {
        format!("{} instead of {}", gpus(band.gpus), goodput_core::units::thousands(planned as f64))
    };
    match band.gpus90 {
        Some([low, high]) if low != high => format!("with {what}: {said} (90 % interval {low} to {high})"),
        Some(_) => format!("with {what}: {said}"),
        None => format!("with {what}: {said}, with no interval"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;
    use crate::render::{markdown, terminal};
    use goodput_run::fixture::{self, moved};

    #[test]
    fn effects_are_told_with_their_intervals() {
        let run = moved();
        let text = markdown::blocks(&section(&run), 3);
        for part in [
            "with prompts 20 % longer it changes by −18 %",
            "| prompt length | 600 tokens | −1.10 | −1.30 to −0.90 | −18 % (−21 % to −15 %) |",
            "not bounded",
            "cv 1",
            "Not moved: cached share of the prompts (no prompts share a prefix)",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let document = Document { sections: vec![brief(&run)], ..Document::default() };
        let text = terminal::render(&document, &terminal::Screen::default());
        assert!(text.contains("prompt length") && text.lines().all(|l| l.chars().count() <= 100), "{text}");
        assert!(section(&fixture::found()).is_empty() && brief(&fixture::found()).is_empty());
    }

    #[test]
    fn bands_say_what_changes() {
        let moved = goodput_stats::capacity::workload_change::WorkloadChange {
            factor: Factor { kind: FactorKind::CacheShare, class: None },
            times: 0.8,
            rate_times: 0.9,
            rate_times90: None,
        };
        let of = |gpus, gpus90| band(&FleetBand { moved: moved.clone(), gpus, gpus90 }, 4);
        assert_eq!(
            of(5, Some([5, 6])),
            "with 20 % less of the prompts cached: 5 GPUs instead of 4 (90 % interval 5 to 6)"
        );
        assert_eq!(of(4, Some([4, 4])), "with 20 % less of the prompts cached: still 4 GPUs");
        assert_eq!(of(4, None), "with 20 % less of the prompts cached: still 4 GPUs, with no interval");
    }
}
