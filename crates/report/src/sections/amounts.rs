//! The capacity of an answer: requests, tokens and cost at the rates that are shown to be served.

use crate::document::{Block, Cell, Column, Section, Table, Text, plain, strong};
use crate::escape::clip;
use crate::words;
use goodput_run::rundir::Run;
use goodput_stats::capacity::Capacity;
use goodput_stats::search::answer::Answer;

/// Returns the blocks of the section of the report; empty if no level is shown to meet.
pub(super) fn section(run: &Run) -> Vec<Block> {
    let price = words::price(run).map_or_else(
        || " Cost is not known: the plan has no price (hardware.price-per-hour).".to_owned(),
        |p| format!(" Cost {p}."),
    );
    let mut blocks = Vec::new();
    for (a, c) in run.answers.iter().filter_map(|a| run.capacity(a).map(|c| (a, c))) {
        let whose = words::whose(run, a);
        let within = if whose.is_empty() { whose } else { format!(" within the SLO of {whose}") };
        let basis = words::basis(a, &c);
        let Some(safe) = run.capacity_at_safe_rate(a) else {
            let said = format!("Held all the time{within} {basis}, with nothing in reserve.{price}");
            blocks.extend([Block::paragraph(said), table(run, &c).into()]);
            continue;
        };
        if is_alike(&safe, &c) {
            let said = format!(
                "Held all the time{within} {}.{price} Tokens per request as in step {}.",
                words::safe_basis(a, &safe),
                safe.step,
            );
            blocks.extend([Block::paragraph(said), table(run, &safe).into()]);
            continue;
        }
        let said = format!(
            "Held all the time{within} {}, and beside it {basis}, with nothing in reserve.{price} Tokens per request as in step {}.",
            words::safe_basis(a, &safe),
            safe.step,
        );
        blocks.extend([Block::paragraph(said), table_at_both(run, &safe, &c).into()]);
    }
    for a in &run.answers {
        let whose = words::whose(run, a);
        let of = if whose.is_empty() { whose } else { format!(" of {whose}") };
        blocks.extend(
            words::cost_limit(run, a)
                .map(|said| Block::Paragraph(Text::of([plain(format!("Cost limit{of}: ")), strong(said)]))),
        );
    }
    blocks
}

/// Returns true if both capacities are at the same rate, as where nothing but a safe rate is known.
fn is_alike(safe: &Capacity, other: &Capacity) -> bool {
    (safe.requests_per_s - other.requests_per_s).abs() < 1e-9
}

/// Returns the capacity at a level: the server's figures, and those of one GPU if it has several.
fn table(run: &Run, c: &Capacity) -> Table {
    let several = has_several_gpus(run);
    let mut columns = vec![Column::text(""), Column::number(clip(&words::subject(&run.meta), 60))];
    columns.extend(several.then(|| Column::number("per GPU")));
    let row = |r: words::Amount| {
        let mut cells = vec![Cell::text(r.name), Cell::known(r.all)];
        cells.extend(several.then(|| Cell::known(r.per_gpu)));
        cells
    };
    Table::new(columns, words::capacity(run, c).into_iter().map(row).collect())
}

/// Returns the capacity of an estimate: at its safe rate and at its median.
fn table_at_both(run: &Run, safe: &Capacity, median: &Capacity) -> Table {
    let several = has_several_gpus(run);
    let mut columns = vec![Column::text(""), Column::number("at the safe rate")];
    columns.extend(several.then(|| Column::number("per GPU")));
    columns.push(Column::number("at the goodput"));
    let beside = words::capacity(run, median);
    let row = |r: words::Amount| {
        let other = beside.iter().find(|other| other.name == r.name).map(|other| other.all.clone());
        let mut cells = vec![Cell::text(r.name), Cell::known(r.all)];
        cells.extend(several.then(|| Cell::known(r.per_gpu)));
        cells.push(Cell::known(other.unwrap_or_default()));
        cells
    };
    Table::new(columns, words::capacity(run, safe).into_iter().map(row).collect())
}

fn has_several_gpus(run: &Run) -> bool {
    run.meta.gpus.is_some_and(|n| n > 1)
}

/// Returns a figure after its name; requests need no name.
fn named((name, text): (&str, String)) -> String {
    if name == words::REQUESTS { text } else { format!("{name} {text}") }
}

/// Returns the capacity at an answer, in one line.
pub(super) fn in_a_line(run: &Run, a: &Answer) -> String {
    let Some(c) = run.capacity(a) else {
        return format!("goodput {}", words::goodput_cell(a.control, &a.goodput));
    };
    // If there is a safe rate, it is the one to plan with.
    let (c, basis) = match run.capacity_at_safe_rate(a) {
        Some(safe) => (safe.clone(), words::safe_basis(a, &safe)),
        None => (c.clone(), words::basis(a, &c)),
    };
    let parts: Vec<String> = words::in_short(run, &c).into_iter().map(named).collect();
    format!("held all the time {basis}: {}", parts.join("; "))
}

/// Returns the capacity at the first answer, for a terminal: a title with figures below it; `None` if no level is shown
/// to meet.
pub(super) fn brief(run: &Run, a: &Answer) -> Option<Section> {
    let c = run.capacity(a)?;
    let within = if words::several_tiers(run) {
        format!("within {} ", words::slo_name(run, a))
    } else {
        String::new()
    };
    let facts = |c: &Capacity| Block::facts(words::in_short(run, c));
    let Some(safe) = run.capacity_at_safe_rate(a) else {
        let title = format!("Held all the time {within}{}, with nothing in reserve", words::basis(a, &c));
        return Some(Section::titled(title, vec![facts(&c)]));
    };
    let title = format!("Held all the time {within}{}", words::safe_basis(a, &safe));
    if is_alike(&safe, &c) {
        return Some(Section::titled(title, vec![facts(&safe)]));
    }
    let beside = words::in_short(run, &c).into_iter().filter(|(name, _)| *name != words::PER_GPU);
    let beside: Vec<String> = beside.map(named).collect();
    let more = format!("And {}, with nothing in reserve: {}", words::basis(a, &c), beside.join("; "));
    Some(Section::titled(title, vec![facts(&safe), Block::paragraph(more)]))
}
