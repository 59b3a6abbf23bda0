//! `capacity.md`: the decision in a page.

use super::rows::{Rows, of_one, of_several};
use super::{Capacity, explain, words};
use crate::escape::markdown;
use crate::tables::table;
use goodput_stats::capacity::sizing::{Basis, basis, by_currency};

/// The capacity as Markdown; `chart` is whether one lies beside it, in `capacity-charts/`.
pub fn render(c: &Capacity, chart: bool) -> String {
    let mut out = format!("# {}\n\n", markdown(&c.headline()));
    for said in words::warnings(c) {
        out.push_str(&format!("> **{}**\n\n", markdown(&said)));
    }
    out.push_str("## Demand\n\n");
    for (name, text) in words::demand_rows(&c.demand, &c.reserve) {
        out.push_str(&format!("- {name}: {}\n", markdown(&text)));
    }
    if c.all.len() > 1 {
        out.push_str(&beside_one_another(c));
    }
    for s in &c.all {
        out.push_str(&format!("\n## {}\n\n", markdown(&s.candidate.name)));
        if c.all.len() > 1 {
            out.push_str(&format!("{}.\n\n", markdown(&words::takes(&c.demand, &c.reserve, s))));
        }
        if let (Some(kept), Some(max)) = (s.cost_limit, s.candidate.max_cost_per_mtok) {
            let max = words::money(max, s.candidate.currency.as_deref());
            out.push_str(&format!(
                "Cost limit **{}**: at most {} for a million output tokens at this demand.\n\n",
                kept.name(),
                markdown(&max)
            ));
        }
        out.push_str(&rendered("", &of_one(&c.demand, &c.reserve, s), 1));
        let bands = words::bands(s);
        if !bands.is_empty() {
            out.push('\n');
            out.extend(bands.iter().map(|b| format!("- {}\n", markdown(b))));
        }
        if let Some(m) = &s.candidate.measured {
            out.push_str(&format!(
                "\nMeasured in {}: SLO {}; workload {}; model {}.\n",
                markdown(&m.run),
                markdown(&m.slo),
                markdown(&m.workload),
                markdown(&m.model)
            ));
        }
    }
    if !c.refused.is_empty() {
        out.push_str("\n## Without a rate to plan with\n\n");
        for r in &c.refused {
            out.push_str(&format!(
                "- {}: {}. *{}*\n",
                markdown(&r.name),
                markdown(&r.why),
                markdown(&r.advice)
            ));
        }
    }
    if chart {
        out.push_str(&format!(
            "\n## Chart\n\n![GPUs against daily volume: {}](capacity-charts/capacity.png)\n",
            markdown(&c.headline())
        ));
    }
    out.push_str("\n## Caveats\n\n");
    out.extend(words::notes(c).iter().map(|n| format!("- {}\n", markdown(n))));
    out.push_str(&reckoned(c));
    out
}

/// Candidates in a table, or in one for each currency: what is paid for in different ones is not compared.
fn beside_one_another(c: &Capacity) -> String {
    let by = basis(&c.all);
    let at = match by {
        Basis::SafeRate => "the safe rate of each",
        Basis::Goodput => {
            "the goodput of each: not every one has a safe rate. GPUs and costs are those of the rate to plan with, the safe one where there is one"
        }
    };
    let tables: Vec<String> =
        by_currency(&c.all).iter().map(|group| rendered("", &of_several(by, group), 2)).collect();
    format!(
        "\n## Beside one another\n\nThe most requests for the money first, at {at}.\n\n{}",
        tables.join("\n")
    )
}

/// Every formula with its numbers.
fn reckoned(c: &Capacity) -> String {
    let mut out = String::from("\n## How it is reckoned\n");
    for (title, all) in explain::all(c) {
        let rows = all
            .iter()
            .map(|f| vec![markdown(&f.of), markdown(f.formula), markdown(&f.numbers), markdown(&f.result)]);
        let head = ["figure", "formula", "with numbers", "result"];
        out.push_str(&format!(
            "\n{}:\n\n{}",
            markdown(&title),
            table(&head, &["figure", "formula", "with numbers"], rows.collect())
        ));
    }
    out
}

/// A table whose first columns are text.
fn rendered(corner: &str, rows: &Rows, text: usize) -> String {
    let head: Vec<&str> = [corner].into_iter().chain(rows.heads.iter().map(String::as_str)).collect();
    let left: Vec<&str> = head.iter().take(text).copied().collect();
    let cells = rows.rows.iter().map(|r| r.iter().map(|c| markdown(c)).collect());
    table(&head, &left, cells.collect())
}
