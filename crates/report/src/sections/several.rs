//! Several series side by side: the table that compares them, and a summary of each.

use super::{amounts, answer, pair, variants, why};
use crate::document::{Block, Bullet, Cell, Column, Entry, Field, Place, Priority, Section, Table, Text};
use crate::words::{self, ends, tenths};
use goodput_core::level::Control;
use goodput_run::rundir::derive::usable_safe_rate;
use goodput_run::rundir::{At, Pair, Run, common_level};
use goodput_stats::search::answer::{Answer, Status};
use goodput_stats::stats::step::StepKind;

/// Difference of hit rates above which series are not comparable without regard to their caches.
const ALIKE: f64 = 0.05;
/// Width below which a terminal omits the limits that bind.
const NARROW: u16 = 96;

/// A row: an answer of a series, or a series that has none.
struct ComparedSeries<'a> {
    /// The series, with the tier or class if there are several.
    name: String,
    part: &'a Run,
    answer: Option<&'a Answer>,
    /// Latencies of the series at the common level.
    at: Option<At>,
}

/// The series side by side.
struct Compared<'a> {
    /// The level at which latencies are compared, if any.
    level: Option<f64>,
    control: Control,
    rows: Vec<ComparedSeries<'a>>,
    /// Notes that the reader needs to compare them.
    notes: Vec<String>,
}

/// Compares the series of a run.
fn compared(run: &Run) -> Compared<'_> {
    let parts: Vec<&Run> = run.parts.iter().collect();
    let level = common_level(&parts);
    let at = |part: &Run| level.and_then(|level| part.at(level));
    let mut rows = Vec::new();
    for part in &run.parts {
        if part.answers.is_empty() {
            rows.push(ComparedSeries { name: part.series().to_owned(), part, answer: None, at: at(part) });
        }
        let own = |a| ComparedSeries { name: words::whose(run, a), part, answer: Some(a), at: at(part) };
        rows.extend(part.answers.iter().map(own));
    }
    let control = run.answers.first().map_or(Control::Rate, |a| a.control);
    let between = parts.iter().filter_map(|p| at(p)).any(|a| a.steps.len() > 1);
    Compared { level, control, rows, notes: notes(run, level, between) }
}

impl ComparedSeries<'_> {
    fn goodput(&self) -> Cell {
        let Some(a) = self.answer else { return Cell::text("not measured") };
        let g = &a.goodput;
        let value = g.rate().or(g.bracket.met).or(g.safe_rate());
        Cell::figure(
            match ends(a.control, g) {
                Some(([rate, ..], _)) => {
                    let open = if g.status() == Status::Undecided { "undecided: " } else { "" };
                    format!("{open}{rate}{}", a.control.unit())
                }
                None => words::goodput_cell(a.control, g),
            },
            value,
        )
    }

    fn interval(&self) -> Cell {
        let ends = self.answer.and_then(|a| ends(a.control, &a.goodput));
        let low = self.answer.and_then(|a| a.goodput.interval90()).map(|[low, _]| low);
        ends.map_or(Cell::Unknown, |([_, l, h], _)| Cell::figure(format!("{l} – {h}"), low))
    }

    fn safe(&self) -> Cell {
        let Some(a) = self.answer else { return Cell::Unknown };
        let usable = usable_safe_rate(&a.goodput);
        match ends(a.control, &a.goodput) {
            Some((_, safe)) => Cell::figure(safe.unwrap_or_else(|| "none".into()), usable),
            None => usable.map_or(Cell::Unknown, |s| Cell::figure(words::level_number(s), Some(s))),
        }
    }

    fn binding(&self) -> Cell {
        let binding = self.answer.and_then(|a| a.goodput.binding.as_deref());
        binding.map_or(Cell::Unknown, |b| Cell::text(words::binding(b)))
    }

    /// Returns a TTFT at the common level, with `≈` if that lies between two steps.
    fn ttft(&self, of: fn(&At) -> Option<f64>) -> Cell {
        let about = if self.at.as_ref().is_some_and(|a| a.steps.len() > 1) { "≈ " } else { "" };
        let ms = self.at.as_ref().and_then(of);
        ms.map_or(Cell::Unknown, |ms| Cell::figure(format!("{about}{}", words::figure(ms)), Some(ms)))
    }

    /// Returns the share of the prompt tokens served from the server's prefix cache.
    fn hit_rate(&self) -> Cell {
        let rate = self.at.as_ref().and_then(|a| a.hit_rate).or_else(|| mean_hit_rate(self.part));
        rate.map_or(Cell::Unknown, |r| Cell::figure(tenths(r), Some(100.0 * r)))
    }
}

/// Returns the table. Terminals omit columns without any known value.
fn table<'a>(c: &Compared<'a>) -> Table {
    let at = c.level.map(|l| words::level(c.control, l));
    let page = at.as_ref().map_or(" ms".to_owned(), |l| format!(" at {l}, ms"));
    let short = c.level.map_or("ms".to_owned(), |l| match c.control {
        Control::Rate => format!("at {}{}", words::level_number(l), Control::Rate.unit()),
        Control::Concurrency | Control::Sessions | Control::TraceScale => {
            format!("at {}", words::level(c.control, l))
        }
    });
    let ttft = |p: &str| Column::number(format!("TTFT {p}{page}")).short(format!("TTFT {p}\n{short}"));
    let fields: Vec<Field<'_, ComparedSeries<'a>>> = vec![
        Field::new(Column::text("series"), |r: &ComparedSeries<'a>| Cell::text(r.name.as_str())),
        Field::new(Column::text("goodput"), ComparedSeries::goodput),
        Field::new(Column::number("90 % interval").short("90 %\ninterval"), ComparedSeries::interval),
        Field::new(Column::number("safe rate").short("safe\nrate"), ComparedSeries::safe),
        Field::new(
            Column::text("limit that binds").short("limit\nthat binds").with(Priority::From(NARROW)),
            ComparedSeries::binding,
        ),
        Field::new(ttft("p50"), |r: &ComparedSeries<'a>| r.ttft(|a| Some(a.p50))),
        Field::new(ttft("p99"), |r: &ComparedSeries<'a>| r.ttft(|a| a.p99)),
        Field::new(Column::number("prefix cache hits").short("cache\nhits"), ComparedSeries::hit_rate),
    ];
    let known = |f: &Field<'_, ComparedSeries<'a>>| c.rows.iter().any(|r| f.cell(r) != Cell::Unknown);
    let fields = fields.into_iter().map(|f| if known(&f) { f } else { f.only(Place::Page) }).collect();
    Table::of(fields, &c.rows).sorted_by_readers(0)
}

/// Returns the comparison in the report; empty for a single answer, which has nothing to be compared with.
pub(super) fn section(run: &Run) -> Vec<Block> {
    let c = compared(run);
    if c.rows.len() < 2 {
        return Vec::new();
    }
    vec![table(&c).into(), Block::paragraph(c.notes.join(" "))]
}

/// Returns the comparison for a terminal, a line for each note.
pub(super) fn brief_table(run: &Run) -> Vec<Block> {
    let c = compared(run);
    let notes = c.notes.iter().map(|n| Block::paragraph(n.as_str()));
    std::iter::once(table(&c).into()).chain(notes).collect()
}

/// Returns each series in short, for a terminal.
pub(super) fn brief(run: &Run) -> Vec<Section> {
    let pairs = Section::untitled(pair::brief(run));
    std::iter::once(pairs).chain(run.parts.iter().flat_map(|part| of_part(run, part))).collect()
}

fn of_part(run: &Run, part: &Run) -> Vec<Section> {
    let mut lines: Vec<Entry> = Vec::new();
    match (unmeasured(run, part), part.answers.first()) {
        (Some(state), _) => lines.push(Entry::line(state)),
        (None, None) => lines.push(Entry::line("not measured")),
        (None, Some(a)) => {
            let s = words::sentences(part, a);
            let said = [s.answer, s.plan, s.soak, s.evidence].into_iter().filter(|s| !s.is_empty());
            lines.extend(said.map(Entry::line));
            lines.push(Entry::line(amounts::in_a_line(part, a)));
        }
    }
    let measured = unmeasured(run, part).is_none();
    if measured {
        lines.extend(why::of_part(part));
    }
    let title = format!("{} ({})", part.series(), words::workload(part));
    let first = Block::Outline(vec![Entry::new(Bullet::None, title).over(lines)]);
    let others = part.answers.iter().skip(1).filter(|_| measured);
    let others = others.map(|a| Section::untitled(vec![answer::other(part, a)]));
    std::iter::once(Section::untitled(vec![first])).chain(others).collect()
}

/// Returns the state of the variant of a part, if nothing was measured on it.
fn unmeasured(run: &Run, part: &Run) -> Option<&'static str> {
    let v = run.variants.iter().find(|v| v.series == part.series())?;
    part.steps.is_empty().then(|| v.state.name())
}

/// Returns the blocks that replace the sections of a series without measurements; `None` if its sections are to be
/// shown.
pub(super) fn unmeasured_part(run: &Run, part: &Run) -> Option<Vec<Block>> {
    let failed = || variants::failed(run, part.series());
    (part.steps.is_empty() && variants::any(run))
        .then(|| failed().unwrap_or_else(|| vec![Block::paragraph("Not measured.")]))
}

/// Returns the title of the section of a series.
pub(super) fn title(part: &Run) -> Text {
    format!("Series {}", part.series()).into()
}

fn notes(run: &Run, level: Option<f64>, between: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let control = run.answers.first().map_or(Control::Rate, |a| a.control);
    match level {
        Some(level) => notes.push(format!(
            "TTFT is compared at {}, the highest {} that was measured and that every series can take{}.",
            words::level(control, level),
            words::noun(control),
            if between { "; ≈ lies between two steps, in proportion" } else { "" }
        )),
        None => notes.push(
            "There is no level that every series was measured at and can take, so no latencies are compared."
                .into(),
        ),
    }
    let rates: Vec<f64> = run.parts.iter().filter_map(mean_hit_rate).collect();
    let ends = rates.iter().fold((1.0_f64, 0.0_f64), |(l, h), r| (l.min(*r), h.max(*r)));
    // A run that consists of one pair has a section about it.
    let pair_alone = run.parts.len() == 2 && Pair::all(run).len() == 1;
    if !pair_alone && rates.len() > 1 && ends.1 - ends.0 > ALIKE {
        notes.push(format!(
            "The server had between {} and {} of the prompt tokens in its prefix cache: part of what differs between series is the cache's.",
            tenths(ends.0),
            tenths(ends.1)
        ));
    }
    notes
}

/// Returns the mean hit rate of a series over the steps under load that have one.
fn mean_hit_rate(part: &Run) -> Option<f64> {
    let known: Vec<f64> = part
        .steps
        .iter()
        .filter(|s| s.kind != StepKind::Baseline)
        .filter_map(|s| s.server.hit_rate)
        .collect();
    (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
}

/// Returns folder names for the series, each unique: `mix-cold`.
pub(crate) fn slugs(run: &Run) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for part in &run.parts {
        let own = match folder_name(part.series()) {
            name if name.is_empty() || name == "slides" => "series".to_owned(),
            name => name,
        };
        let free = |name: &String| !out.contains(name);
        let name = std::iter::once(own.clone()).chain((2..).map(|i| format!("{own}-{i}"))).find(free);
        out.extend(name);
    }
    out
}

/// Converts a name into one for a folder: lower-case letters and digits of ASCII, with hyphens between words. Empty if it has none.
pub(crate) fn folder_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let text: String = name.chars().map(plain).collect();
    text.split('-').filter(|w| !w.is_empty()).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_run::fixture;

    #[test]
    fn series_stand_beside_one_another() {
        let run = fixture::pair();
        let found = compared(&run);
        let rows: Vec<Vec<String>> =
            table(&found).rows.iter().map(|r| r.iter().map(Cell::words).collect()).collect();
        assert_eq!((rows[0][0].as_str(), rows[1][0].as_str()), ("cold", "warm"));
        assert_eq!((rows[0][7].as_str(), rows[1][7].as_str()), ("0.4 %", "66.0 %"));
        assert!(rows[0][1].starts_with("33.6 req/s"), "{rows:?}");
        assert!(found.level.is_some());
        assert!(
            !found.notes.iter().any(|n| n.contains("prefix cache")),
            "the pair says it: {:?}",
            found.notes
        );
        let mut named = run.clone();
        named.parts[1].answers[0].series = "only chat".into();
        let notes = compared(&named).notes.join(" ");
        assert!(notes.contains("between 0.4 % and 66.0 % of the prompt tokens"), "{notes}");
    }

    #[test]
    fn the_hit_rate_of_a_series_is_that_under_load() {
        let run = fixture::pair();
        let mut part = run.parts[1].clone();
        (part.steps[0].kind, part.steps[0].server.hit_rate) = (StepKind::Baseline, Some(0.0));
        assert!(mean_hit_rate(&part).is_some_and(|rate| (rate - 0.66).abs() < 1e-9));
    }

    #[test]
    fn names_become_folders() {
        let mut run = fixture::pair();
        let (one, two) = (run.parts[0].clone(), run.parts[1].clone());
        run.parts = vec![one.clone(), two, one];
        run.parts[0].answers[0].series = "mix, Cold/..".into();
        run.parts[1].answers[0].series = "slides".into();
        run.parts[2].answers[0].series = "mix cold".into();
        assert_eq!(slugs(&run), ["mix-cold", "series", "mix-cold-2"]);
    }
}
