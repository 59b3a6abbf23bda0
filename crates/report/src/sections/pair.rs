//! The benefit of a warm cache, in words and as a table: goodput and median TTFT, cold and warm.

use crate::document::{Block, Cell, Column, Field, Table};
use crate::words::{self, tenths};
use goodput_core::level::Control;
use goodput_run::rundir::{At, Gain, Medians, Pair, Run};
use goodput_stats::search::answer::{Answer, Status};

/// Returns the blocks of the section of the report; empty if the run has no pair.
pub(super) fn section(run: &Run) -> Vec<Block> {
    let mut blocks = Vec::new();
    for p in &Pair::all(run) {
        blocks.push(Block::paragraph(sentences(run, p).join(" ")));
        blocks.extend(table(p, run));
    }
    blocks
}

/// Returns the pairs for a terminal, a line for each sentence.
pub(super) fn brief(run: &Run) -> Vec<Block> {
    Block::paragraphs(Pair::all(run).iter().flat_map(|pair| sentences(run, pair)))
}

/// Returns the results of a pair: the goodput, and the median TTFT unloaded and at a load that both can serve.
fn sentences(run: &Run, pair: &Pair) -> Vec<String> {
    let answer = |name: &str| run.answers.iter().find(|a| a.series == name);
    let (Some(cold), Some(warm)) = (answer(&pair.cold), answer(&pair.warm)) else { return Vec::new() };
    let mut out = vec![goodput(pair, cold, warm)];
    out.extend(pair.loaded.as_ref().map(|m| loaded(m, cold.control)));
    out.extend(pair.unloaded.as_ref().map(|m| format!("Unloaded {}.", medians(m))));
    if pair.loaded.is_none() {
        out.push("There is no load at which both were measured and that both can take.".into());
    }
    out
}

fn goodput(pair: &Pair, cold: &Answer, warm: &Answer) -> String {
    let cell = |a: &Answer| words::goodput_cell(a.control, &a.goodput);
    let both = format!("Goodput cold: {}. Goodput warm: {}", cell(cold), cell(warm));
    match &pair.goodput {
        Some(gain) => {
            let what = if gain.share < 0.0 { "lower" } else { "higher" };
            let least = if gain.at_least { "at least " } else { "" };
            format!("{both}: {least}{} {what}{}.", tenths(gain.share.abs()), range(gain))
        }
        None if [cold, warm].iter().any(|a| a.goodput.status() == Status::NotReached) => {
            format!(
                "{both}. The plan ended the search before the limit, so the gain in goodput is not known; a higher max-rate tells."
            )
        }
        None => format!("{both}."),
    }
}

/// Returns the range of a share, given the bounds of both figures.
fn range(gain: &Gain) -> String {
    gain.bounds
        .map(|[low, high]| format!(" (between {} and {})", tenths(low), tenths(high)))
        .unwrap_or_default()
}

fn loaded(m: &Medians, control: Control) -> String {
    let level = m.cold.level.map(|l| words::level(control, l)).unwrap_or_default();
    let between = |at: &At, name: &str| match at.levels.as_slice() {
        [a, b] => {
            let [a, b] = [*a, *b].map(words::level_number);
            format!(" The {name} figure lies between steps at {a} and {b}, in proportion.")
        }
        _ => String::new(),
    };
    let notes = between(&m.cold, "cold") + &between(&m.warm, "warm");
    let hits = |at: &At| at.hit_rate.map(tenths);
    let hits = match (hits(&m.cold), hits(&m.warm)) {
        (Some(cold), Some(warm)) => {
            format!(" The server had {cold} of the prompt tokens in its prefix cache cold, and {warm} warm.")
        }
        _ => " The server does not tell how much it had in its prefix cache: that the one was cold and the other warm is not verified.".into(),
    };
    format!("At {level} {}.{notes}{hits}", medians(m))
}

fn medians(m: &Medians) -> String {
    let what = if m.lower.share < 0.0 { "higher" } else { "lower" };
    format!(
        "the median TTFT is {} cold and {} warm: {} {what}{}",
        words::latency(m.cold.p50),
        words::latency(m.warm.p50),
        tenths(m.lower.share.abs()),
        m.lower
            .bounds
            .map(|[l, h]| format!(" (95 % bounds {} and {})", tenths(l), tenths(h)))
            .unwrap_or_default()
    )
}

/// Returns median TTFT and hit rate, cold and warm, unloaded and under the common load.
fn table(pair: &Pair, run: &Run) -> Vec<Block> {
    // For a list, every level that both measured; else the one that both can take.
    let loaded = pair.loaded.iter().filter(|_| pair.listed.is_empty());
    let rows: Vec<&Medians> = pair.unloaded.iter().chain(&pair.listed).chain(loaded).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let control = run.answers.first().map_or(Control::Rate, |a| a.control);
    let ms = |at: &At| {
        let bounds = at.p50_bounds.map(|[l, h]| format!(" ({} – {})", words::figure(l), words::figure(h)));
        Cell::figure(format!("{}{}", words::figure(at.p50), bounds.unwrap_or_default()), Some(at.p50))
    };
    let hits = |at: &At| at.hit_rate.map_or(Cell::Unknown, |r| Cell::figure(tenths(r), Some(r)));
    let fields = vec![
        Field::new(Column::text("load"), |m: &&Medians| {
            Cell::text(m.cold.level.map_or("unloaded".into(), |l| words::level(control, l)))
        }),
        Field::new(Column::number("cold, TTFT p50 ms"), |m: &&Medians| ms(&m.cold)),
        Field::new(Column::number("warm, TTFT p50 ms"), |m: &&Medians| ms(&m.warm)),
        Field::new(Column::number("lower by"), |m: &&Medians| {
            Cell::figure(format!("{}{}", tenths(m.lower.share), range(&m.lower)), Some(m.lower.share))
        }),
        Field::new(Column::number("cache hits, cold"), |m: &&Medians| hits(&m.cold)),
        Field::new(Column::number("cache hits, warm"), |m: &&Medians| hits(&m.warm)),
    ];
    let how = "In brackets 95 % bounds by rank, assuming independent requests; those of a difference take both medians at their worst.";
    vec![Table::of(fields, &rows).into(), Block::paragraph(how)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_run::fixture;
    use goodput_stats::fixture::conclusion;

    #[test]
    fn a_pair_says_what_the_cache_is_worth() {
        let mut run = fixture::pair();
        for part in &mut run.parts {
            let p50 = |s: &goodput_stats::stats::step::Step| s.latency.values().next().and_then(|q| q.p50);
            let bounds = part.steps.iter().filter_map(|s| p50(s).map(|p| (s.step, [0.97 * p, 1.03 * p])));
            part.view.medians = bounds.collect();
        }
        let pair = Pair::all(&run).remove(0);
        let said = sentences(&run, &pair).join("\n");
        for want in [
            "Goodput cold: 33.6 req/s (90 % interval",
            ": at least 41.0 % higher",
            "the median TTFT is",
            " lower (95 % bounds",
            "0.4 % of the prompt",
            "66.0 % warm",
        ] {
            assert!(said.contains(want), "{want}: {said}");
        }
        let table = crate::render::markdown::blocks(&table(&pair, &run), 3);
        assert!(table.lines().count() >= 4 && table.contains(" – "), "{table}");
    }

    #[test]
    fn what_is_not_known_is_said() {
        let mut run = fixture::pair();
        let reached = conclusion(Status::NotReached, run.answers[0].goodput.rate(), None, None);
        run.parts[0].answers[0].goodput.conclusion = reached;
        run.answers[0].goodput.conclusion = reached;
        let said = sentences(&run, &Pair::all(&run).remove(0)).join(" ");
        assert!(said.contains("gain in goodput is not known") && !said.contains("% higher"), "{said}");
        for part in &mut run.parts {
            part.steps.iter_mut().for_each(|s| s.server.hit_rate = None);
        }
        let said = sentences(&run, &Pair::all(&run).remove(0)).join(" ");
        assert!(said.contains("is not verified"), "{said}");
        run.parts[0].steps.truncate(1);
        run.parts[1].steps.drain(..3);
        let said = sentences(&run, &Pair::all(&run).remove(0)).join(" ");
        assert!(said.contains("no load at which both"), "{said}");
    }
}
