//! The comparison as Markdown: a page with charts, and a summary for a CI run.

use super::sections;
use crate::escape::markdown as plain;
use crate::repeats::lines;
use crate::words::date;
use goodput_run::compare::Comparison;
use goodput_run::compare::gate::{self, Held};
use std::fmt::Write;

/// The page: `charts` are the names and captions of those beside it.
pub fn page(c: &Comparison, charts: &[(&str, &str)]) -> String {
    let mut out = format!("# {}\n\n", title(c));
    answers(&mut out, c);
    gates(&mut out, c);
    differs(&mut out, c);
    for (name, caption) in charts {
        let _ = write!(out, "![{caption}](compare-charts/{name}.png)\n\n*{caption}.*\n\n");
    }
    tables(&mut out, c, usize::MAX);
    runs(&mut out, c);
    notes(&mut out, c);
    sides(&mut out, c);
    out
}

/// A summary for a CI run, in GitHub's Markdown: verdict, answer, what differs, the table; without charts, which it cannot show.
pub fn summary(c: &Comparison) -> String {
    let verdict = match gate::all(&c.gates) {
        _ if c.gates.is_empty() => "",
        Held::Holds => ": the gate holds",
        Held::Fails => ": **the gate fails**",
        Held::Undecided => ": the gate is undecided",
    };
    let mut out = format!("## {}{verdict}\n\n", title(c));
    answers(&mut out, c);
    gates(&mut out, c);
    differs(&mut out, c);
    out.push_str("<details><summary>Figures</summary>\n\n");
    // A summary may have a megabyte; three levels tell the story.
    tables(&mut out, c, 4);
    runs(&mut out, c);
    notes(&mut out, c);
    out.push_str("</details>\n");
    out
}

fn title(c: &Comparison) -> String {
    let labels: Vec<String> = c.sides.iter().skip(1).map(|s| plain(&s.label)).collect();
    let first = c.sides.first().map(|s| plain(&s.label)).unwrap_or_default();
    format!("{} against {first}", labels.join(", "))
}

fn answers(out: &mut String, c: &Comparison) {
    for answer in &c.answers {
        let _ = write!(out, "**{}**\n\n", plain(&answer.text));
    }
}

fn gates(out: &mut String, c: &Comparison) {
    if c.gates.is_empty() {
        return;
    }
    out.push_str("| gate | of | figure | came to | why |\n|---|---|---|---|---|\n");
    for g in &c.gates {
        let held = match g.held {
            Held::Holds => "holds",
            Held::Fails => "**fails**",
            Held::Undecided => "undecided",
        };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {held} | {} |",
            plain(&g.gate),
            plain(&g.side),
            plain(&g.row),
            plain(&g.why)
        );
    }
    out.push('\n');
}

fn differs(out: &mut String, c: &Comparison) {
    out.push_str("### What differs\n\n");
    if c.differs.is_empty() {
        out.push_str("Nothing of plan, server, client or version.\n\n");
        return;
    }
    if c.unlike {
        out.push_str(
            "**They did not measure the same thing** (marked !): compared because it was insisted on.\n\n",
        );
    }
    let heads: Vec<String> = c.sides.iter().map(|s| plain(&s.label)).collect();
    let _ = writeln!(out, "| about | key | {} |\n|---|---|{}", heads.join(" | "), "---|".repeat(heads.len()));
    for d in &c.differs {
        let values: Vec<String> =
            d.values.iter().map(|v| if v.is_empty() { "–".to_owned() } else { plain(v) }).collect();
        let mark = if d.unlike { "! " } else { "" };
        let _ = writeln!(out, "| {mark}{} | {} | {} |", d.about.title(), plain(&d.key), values.join(" | "));
    }
    out.push('\n');
}

fn tables(out: &mut String, c: &Comparison, most: usize) {
    let all = sections(c);
    let left = all.len().saturating_sub(most);
    for (heading, rows) in all.into_iter().take(most) {
        let _ = write!(out, "### {heading}\n\n");
        let pooled = rows.iter().all(|r| r.values.iter().all(|v| v == "–"));
        let mut heads = vec![String::new()];
        if !pooled {
            heads.extend(c.sides.iter().map(|s| plain(&s.label)));
        }
        for side in c.sides.iter().skip(1) {
            let whose = if c.sides.len() > 2 { format!(", {}", plain(&side.label)) } else { String::new() };
            heads.extend([format!("change{whose}"), "beyond noise".to_owned()]);
        }
        let _ = writeln!(out, "| {} |\n|---|{}", heads.join(" | "), "--:|".repeat(heads.len() - 1));
        for row in rows {
            let mut cells = vec![plain(&row.title)];
            if !pooled {
                cells.extend(row.values);
            }
            for (change, noise) in row.changes {
                cells.push(if noise.starts_with("yes") { format!("**{change}**") } else { change });
                cells.push(noise.to_owned());
            }
            let _ = writeln!(out, "| {} |", cells.join(" | "));
        }
        out.push('\n');
    }
    if left > 0 {
        let _ = write!(out, "{left} more levels stand in compare.md and compare.json.\n\n");
    }
}

/// The runs of each side and what they come to together, where sides are several runs.
fn runs(out: &mut String, c: &Comparison) {
    if c.runs.is_empty() {
        return;
    }
    out.push_str("### The runs\n\n| | | |\n|---|---|---|\n");
    for group in &c.runs {
        let _ = writeln!(out, "| {} | runs | {} |", plain(&group.label), plain(&group.runs.join(", ")));
        for (name, text) in group.pooled.iter().filter(|p| p.runs > 1).flat_map(lines) {
            let _ = writeln!(out, "| | {name} | {} |", plain(&text));
        }
    }
    out.push('\n');
}

fn notes(out: &mut String, c: &Comparison) {
    out.push_str(
        "Changes are from the first, with 95 % intervals. *Beyond noise*: the change is more than chance makes of two alike servers, at a \
         chance of about 5 % that any of the table's is wrongly called so (Holm); `?`: nothing tells the noise.\n\n",
    );
    for note in super::notes(c) {
        let _ = writeln!(out, "- {}", plain(&note));
    }
    if !c.notes.is_empty() {
        out.push('\n');
    }
}

fn sides(out: &mut String, c: &Comparison) {
    out.push_str("### The sides\n\n| | run | measured | server | model | workload | SLO |\n|---|---|---|---|---|---|---|\n");
    for s in &c.sides {
        let cells =
            [&s.label, &s.run, &date(&s.started), &s.server, &s.model, &s.workload, &s.slo].map(|t| plain(t));
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    let runs: Vec<String> = c.sides.iter().map(|s| s.run.clone()).collect();
    let one = runs.iter().all(|r| *r == runs[0]);
    let made_from = if one { runs[..1].to_vec() } else { runs };
    let asked = if c.asked.is_empty() { made_from } else { c.asked.clone() };
    let shown: Vec<String> = asked.iter().map(|a| quoted(a)).collect();
    let _ = write!(out, "\nMade by goodput {}: `goodput compare {}`\n", c.goodput_version, shown.join(" "));
}

/// An argument as a shell takes it.
pub(crate) fn quoted(text: &str) -> String {
    let simple = |c: char| c.is_ascii_alphanumeric() || "/._-=:@%+,".contains(c);
    if !text.is_empty() && text.chars().all(simple) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}
