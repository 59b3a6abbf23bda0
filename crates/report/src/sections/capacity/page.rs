//! `capacity.md`: the capacity on one page.

use super::answer::Capacity;
use super::rows::{of_one, of_several};
use super::{explain, words};
use crate::document::{
    Advice, Block, Cell, Column, Document, Field, Picture, Section, Table, Text, plain, strong,
};
use goodput_stats::capacity::sizing::{Basis, Sizing, basis, by_currency};

/// Returns the capacity as a page; `chart` is true if `capacity-charts/` contains a chart.
pub fn page(c: &Capacity, chart: bool) -> Document {
    let demand = words::demand_rows(&c.demand, &c.reserve);
    let mut sections = vec![Section::titled("Demand", vec![Block::facts(demand)])];
    if c.all.len() > 1 {
        sections.push(beside_one_another(c));
    }
    sections.extend(c.all.iter().map(|s| candidate(c, s)));
    let refused = c.refused.iter().map(|r| Advice::new(format!("{}: {}.", r.name, r.why), r.advice.as_str()));
    sections.push(Section::titled("Without a rate to plan with", vec![Block::Caveats(refused.collect())]));
    if chart {
        let picture = Picture {
            path: "capacity-charts/capacity.png".into(),
            caption: "GPUs against daily volume".into(),
            alternative: c.headline(),
        };
        sections.push(Section::titled("Chart", vec![Block::Picture(picture)]));
    }
    sections.push(Section::titled("Caveats", vec![Block::list(words::notes(c))]));
    sections.push(formulas(c));
    Document {
        title: c.headline().into(),
        lead: words::warnings(c).into_iter().map(|said| Block::Warning(said.into())).collect(),
        sections,
        ..Document::default()
    }
}

/// Returns the section of one candidate.
fn candidate(c: &Capacity, s: &Sizing) -> Section {
    let mut blocks = Vec::new();
    if c.all.len() > 1 {
        blocks.push(Block::paragraph(format!("{}.", words::takes(&c.demand, &c.reserve, s))));
    }
    if let (Some(kept), Some(max)) = (s.cost_limit, s.candidate.max_cost_per_mtok) {
        let max = words::money(max, s.candidate.currency.as_deref());
        blocks.push(Block::Paragraph(Text::of([
            plain("Cost limit "),
            strong(kept.name()),
            plain(format!(": at most {max} for a million output tokens at this demand.")),
        ])));
    }
    blocks.push(of_one(&c.demand, &c.reserve, s).into());
    blocks.push(Block::list(words::bands(s)));
    blocks.extend(s.candidate.measured.as_ref().map(|m| {
        Block::paragraph(format!(
            "Measured in {}: SLO {}; workload {}; model {}.",
            m.run, m.slo, m.workload, m.model
        ))
    }));
    Section::titled(s.candidate.name.as_str(), blocks)
}

/// Returns candidates in a table, or in one table per currency, since prices in different ones cannot be compared.
fn beside_one_another(c: &Capacity) -> Section {
    let by = basis(&c.all);
    let at = match by {
        Basis::SafeRate => "the safe rate of each",
        Basis::Goodput => {
            "the goodput of each: not every one has a safe rate. GPUs and costs are those of the rate to plan with, the safe one where there is one"
        }
    };
    let said = Block::paragraph(format!("The most requests for the money first, at {at}."));
    let tables = by_currency(&c.all).into_iter().map(|group| of_several(by, &group).into());
    Section::titled("Beside one another", std::iter::once(said).chain(tables).collect())
}

/// Returns every formula with its numbers.
fn formulas(c: &Capacity) -> Section {
    let mut blocks = Vec::new();
    for (title, all) in explain::all(c) {
        let text = |of: fn(&explain::Formula) -> &str| move |f: &explain::Formula| Cell::text(of(f));
        let fields: Vec<Field<'_, explain::Formula>> = vec![
            Field::new(Column::text("figure"), text(|f| f.of.as_str())),
            Field::new(Column::text("formula"), text(|f| f.formula)),
            Field::new(Column::text("with numbers"), text(|f| f.numbers.as_str())),
            Field::new(Column::number("result"), text(|f| f.result.as_str())),
        ];
        blocks.extend([Block::paragraph(format!("{title}:")), Table::of(fields, &all).into()]);
    }
    Section::titled("How it is reckoned", blocks)
}
