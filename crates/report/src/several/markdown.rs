//! `report.md` of a run of several series: the comparison first, then a section for each.

use super::super::charts::Chart;
use super::super::document::{Document, Section};
use super::super::escape::{clip, markdown};
use super::super::{decision, markdown as one, mixing, pair, server, tables, variants, words};
use super::{Table, own_caveats, table};
use goodput_run::rundir::{Pair, Run};

/// The report of several series: what compares them, then a section for each. `over` are the charts that compare them; `parts` has the
/// folder and the charts of each.
pub(crate) fn document(run: &Run, over: &[&Chart], parts: &[(String, Vec<&Chart>)]) -> Document {
    let variants = if variants::any(run) { variants::section(run) } else { String::new() };
    let mut all = vec![
        Section::new("Question", question(run)),
        Section::new("Variants", variants),
        Section::new("Accepted and rejected", decision::variants(run)),
        Section::new("Comparison", format!("{}\n{}", comparison(run), one::charts(run, over, "charts"))),
        Section::new("Cold and warm caches", pairs(run)),
        Section::new("What mixing costs", mixing::section(run)),
        Section::new("Caveats", caveats(run)),
    ];
    all.extend(run.parts.iter().zip(parts).map(|(part, (folder, made))| of_series(run, part, folder, made)));
    all.extend([
        Section::new("The server", server::facts(run)),
        Section::new("How to reproduce", one::reproduce(run)),
        Section::new("Notes", one::notes(run)),
    ]);
    Document { title: markdown(&words::headline(run)), name: markdown(&run.name), sections: all }
}

/// What is said of one of several series.
fn of_series(run: &Run, part: &Run, folder: &str, made: &[&Chart]) -> Section {
    let title = format!("Series {}", markdown(part.series()));
    let failed = variants::failed(run, part.series());
    if part.steps.is_empty() && variants::any(run) {
        return Section::new(title, failed.unwrap_or_else(|| "Not measured.".into()));
    }
    let own = Run { caveats: own_caveats(run, part), ..part.clone() };
    let parts = one::sections(&own, made, &format!("charts/{folder}"));
    Section { title, body: failed.unwrap_or_default(), parts }
}

fn question(run: &Run) -> String {
    let names: Vec<String> = run.parts.iter().map(|p| clip(p.series(), 40)).collect();
    format!("{}- series: {}\n", one::question(run), markdown(&words::list(&names)))
}

fn comparison(run: &Run) -> String {
    let Table { level, rows, notes } = table(run);
    let at = level.map(|l| format!(" at {l}, ms")).unwrap_or_else(|| " ms".into());
    let (p50, p99) = (format!("TTFT p50{at}"), format!("TTFT p99{at}"));
    let head = [
        "series",
        "goodput",
        "90 % interval",
        "safe rate",
        "limit that binds",
        &p50,
        &p99,
        "prefix cache hits",
    ];
    let cell = |text: String| if text.is_empty() { tables::UNKNOWN.to_owned() } else { markdown(&text) };
    let rows = rows.into_iter().map(|r| {
        let [p50, p99] = r.ttft;
        [r.name, r.goodput, r.interval, r.safe, r.binding, p50, p99, r.hit_rate].map(cell).to_vec()
    });
    let table = tables::table(&head, &["series", "goodput", "limit that binds"], rows.collect());
    format!("{table}\n{}\n", notes.iter().map(|n| markdown(n)).collect::<Vec<_>>().join(" "))
}

fn pairs(run: &Run) -> String {
    let one = |p: &Pair| {
        let said = pair::sentences(run, p).iter().map(|s| markdown(s)).collect::<Vec<_>>().join(" ");
        format!("{said}\n\n{}\n", pair::table(p, run))
    };
    Pair::all(run).iter().map(one).collect()
}

/// What is to be known of the run as a whole; what is of one series stands there.
fn caveats(run: &Run) -> String {
    let of_all = run.caveats.iter().filter(|c| run.series_of(c).is_empty()).cloned().collect();
    one::caveats(&Run { caveats: of_all, ..run.clone() })
}
