//! The goodput under tighter and looser limits, computed from the recorded requests, in words.

use crate::document::{Block, Cell, Column, Field, Table, Text, plain, strong};
use crate::words;
use goodput_core::level::Control;
use goodput_core::slo::Limit;
use goodput_core::units::ms;
use goodput_run::rundir::{Reach, Run, Scaled, SloScale};

/// Returns a table of the goodput by the factor on every latency limit; empty if the requests are not known.
pub(super) fn section(run: &Run) -> Vec<Block> {
    let (Some(scale), Some(answer)) = (&run.view.scale, run.answers.first()) else { return Vec::new() };
    let said = format!(
        "The requests already recorded, judged by limits that are all so many times as large; nothing was sent for it, so nothing is known \
         beyond the levels that were measured ({} to {}).",
        words::level_number(scale.measured[0]),
        words::level(answer.control, scale.measured[1]),
    );
    let limits: Vec<Limit> = run.tiers.first().map(|t| t.scaled(1.0, "").limits()).unwrap_or_default();
    let factor = |p: &Scaled| {
        let words = p.factor.to_string();
        Cell::Text(Text::of([if (p.factor - 1.0).abs() < 1e-9 { strong(words) } else { plain(words) }]))
    };
    let mut fields = vec![Field::new(Column::number("limits ×"), factor)];
    fields.extend(limits.iter().map(|l| {
        let (metric, limit) = (l.metric, ms(l.limit));
        let head = format!("{} {} ≤", l.percentile, l.metric.title());
        Field::new(Column::number(head), move |p: &Scaled| {
            Cell::figure(words::value_of(metric, limit * p.factor), Some(limit * p.factor))
        })
    }));
    fields.push(Field::new(Column::text("goodput"), |p: &Scaled| {
        Cell::text(goodput_at(answer.control, p, scale))
    }));
    let mut blocks = vec![Block::paragraph(said), Table::of(fields, &scale.points).into()];
    if !scale.without.is_empty() {
        blocks.push(Block::paragraph(format!(
            "Without {}: of gaps between tokens a histogram is kept and not which request had them, so at × 1 this may differ from the answer.",
            scale.without.join(", ")
        )));
    }
    if scale.untold > 0 {
        let steps = if scale.untold == 1 { "One step".to_owned() } else { format!("{} steps", scale.untold) };
        blocks.push(Block::paragraph(format!(
            "{steps} under load had no requests here to judge anew: whether their backlog grew counts, and nothing else of them."
        )));
    }
    blocks
}

/// Returns the result for one factor: `33.4 requests/s, 90 % interval 31.6 – 35.3, safe 31.2`.
pub(crate) fn goodput_at(control: Control, p: &Scaled, scale: &SloScale) -> String {
    let (n, level) = (words::level_number, |v: f64| words::level(control, v));
    let most = scale.measured[1];
    match scale.reach(p) {
        Reach::Between { rate, low, high, open } => {
            let safe = p.goodput.safe_rate().filter(|_| low > 0.0);
            let safe = safe.map_or("no level is shown to be safe".into(), |s| format!("safe {}", n(s)));
            let open = if open {
                format!("; above {} by the fit alone, since nothing was measured there", n(most))
            } else {
                String::new()
            };
            format!("{}, 90 % interval {} – {}, {safe}{open}", level(rate), n(low), n(high))
        }
        Reach::Bracket { met, failed } => format!("met at {}, failed at {}", level(met), n(failed)),
        Reach::AtLeast(v) => format!("at least {}; above nothing is shown", level(v)),
        Reach::Below(v) => format!("fails at {}; below nothing is shown to meet", level(v)),
        Reach::Nothing => "no level meets it".into(),
        Reach::Unknown => "the steps say nothing of it".into(),
    }
}
