//! The cost of serving several kinds of request together: the mix compared with each of its classes alone.

use crate::document::{Block, Cell, Column, Field, Section, Table};
use crate::escape::clip;
use crate::words;
use goodput_run::rundir::Run;
use goodput_run::rundir::derive::{interval, usable_safe_rate};
use goodput_stats::search::answer::{Answer, Status};
use goodput_stats::stats::groups::GroupBy;

/// A change smaller than this, in per cent, counts as no change.
const NOTHING: f64 = 2.0;

/// The known range of a rate: between two ends, or above one.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Range {
    low: f64,
    /// `None` if no level was shown to be too high.
    high: Option<f64>,
}

impl Range {
    fn times(self, x: f64) -> Self {
        Self { low: self.low * x, high: self.high.map(|h| h * x) }
    }

    /// Formats the range for a table cell: `8`, `8–16`, `≥ 8`.
    fn cell(self) -> String {
        let low = words::figure(self.low);
        match self.high.map(words::figure) {
            None => format!("≥ {low}"),
            Some(high) if high == low => low,
            Some(high) => format!("{low}–{high}"),
        }
    }

    /// Formats the range for a sentence: `8`, `8 to 16`, `at least 8`.
    fn words(self) -> String {
        let low = words::figure(self.low);
        match self.high.map(words::figure) {
            None => format!("at least {low}"),
            Some(high) if high == low => low,
            Some(high) => format!("{low} to {high}"),
        }
    }
}

/// A class in the mix and alone.
#[derive(Debug, Clone, PartialEq)]
struct MixedClass {
    name: String,
    /// Its share of the mix's requests, 0 to 1.
    share: f64,
    /// Requests per second that the server can serve of this class alone.
    alone: Option<Range>,
}

/// The mix of a tier compared with its classes.
#[derive(Debug, Clone, PartialEq)]
struct Mixing {
    tier: String,
    /// The state of the cache, which distinguishes it from other mixes of the run.
    under: String,
    /// Requests per second of the mix.
    mixed: Range,
    parts: Vec<MixedClass>,
}

impl Mixing {
    /// Returns the requests per second per server if the servers were divided among the classes, unmixed: 1 / Σ(share /
    /// alone). The result lies between the values for the lower and for the upper ends of all classes.
    fn unmixed(&self) -> Option<Range> {
        let sum = |of: fn(Range) -> f64| -> Option<f64> {
            self.parts.iter().map(|p| Some(p.share / of(p.alone?))).sum::<Option<f64>>()
        };
        let low = 1.0 / sum(|r| r.low)?;
        // A class without an upper bound needs no share of a server.
        let high = 1.0 / sum(|r| r.high.unwrap_or(f64::INFINITY))?;
        low.is_finite().then_some(Range { low, high: Some(high).filter(|h| h.is_finite()) })
    }

    /// Returns the change by mixing, in per cent of the unmixed rate: the least and the most that the ends allow,
    /// negative if mixing costs throughput.
    fn change(&self) -> Option<(f64, f64)> {
        let apart = self.unmixed()?;
        let least = apart.high.map_or(-100.0, |high| 100.0 * (self.mixed.low / high - 1.0));
        let most = self.mixed.high.map_or(f64::INFINITY, |high| 100.0 * (high / apart.low - 1.0));
        Some((least, most))
    }
}

/// Returns the requests per second at an answer: its interval, or from the highest level shown to meet to the lowest
/// shown to fail.
fn range(run: &Run, a: &Answer) -> Option<Range> {
    let g = &a.goodput;
    let (low, high) = match (interval(g), usable_safe_rate(g)) {
        (Some((_, [low, high])), _) => (low, Some(high)),
        (None, safe) => (safe.or(g.bracket.met).filter(|_| g.status() != Status::None)?, g.bracket.failed),
    };
    let low = run.throughput(a, low).filter(|_| low > 0.0)?;
    Some(Range { low, high: high.and_then(|high| run.throughput(a, high)).map(|high| high.max(low)) })
}

/// Returns every mix of the run whose classes were also measured alone.
fn mixings(run: &Run) -> Vec<Mixing> {
    run.answers.iter().filter_map(|a| mixing(run, a)).collect()
}

fn mixing(run: &Run, a: &Answer) -> Option<Mixing> {
    let under = match a.series.strip_prefix("mix")? {
        "" => "",
        rest => rest.strip_prefix(", ")?,
    };
    let mixed = range(run, a)?;
    let at = a.goodput.rate().or(a.goodput.bracket.met)?;
    let step = run.nearest(a, at)?;
    let classes: Vec<_> = step.groups.iter().filter(|g| g.by == GroupBy::Class).collect();
    let all: f64 = classes.iter().map(|g| g.n as f64).sum();
    let part = |name: &str, n: u64| {
        let alone = run.answer_alone(a, name).and_then(|alone| range(run, alone));
        MixedClass { name: name.to_owned(), share: n as f64 / all.max(1.0), alone }
    };
    let parts: Vec<MixedClass> = classes.iter().map(|g| part(&g.name, g.n)).collect();
    let measured = run.answers.iter().any(|other| other.series.starts_with("only "));
    (measured && !parts.is_empty()).then(|| Mixing {
        tier: a.tier.clone(),
        under: under.to_owned(),
        mixed,
        parts,
    })
}

/// Returns the effect of mixing, in a sentence or two.
fn sentence(run: &Run, m: &Mixing) -> String {
    let whose = [(words::several_tiers(run), &m.tier), (!m.under.is_empty(), &m.under)];
    let whose: Vec<String> =
        whose.into_iter().filter(|(is, _)| *is).map(|(_, name)| clip(name, 40)).collect();
    let whose = if whose.is_empty() { String::new() } else { format!(" ({})", whose.join(", ")) };
    let (Some(apart), Some(change)) = (m.unmixed(), m.change()) else {
        let open: Vec<String> =
            m.parts.iter().filter(|p| p.alone.is_none()).map(|p| clip(&p.name, 40)).collect();
        return format!(
            "What mixing costs{whose} is not known: of {} alone no rate is shown to meet its limits.",
            words::list(&open)
        );
    };
    format!(
        "Mixed{whose}, a server takes {} requests/s; the same servers shared out among the classes, each with its own, would take {} \
         requests/s apiece: {}.",
        m.mixed.words(),
        apart.words(),
        verdict(change)
    )
}

/// Returns the effect of mixing for the headline of a chart; `None` if it is not known.
pub(crate) fn message(run: &Run) -> Option<String> {
    let all = mixings(run);
    let m = all.first()?;
    let (apart, change) = (m.unmixed()?, m.change()?);
    Some(format!(
        "Mixed, a server takes {} requests/s, apart {}: {}",
        m.mixed.words(),
        apart.words(),
        verdict(change)
    ))
}

/// Returns the verdict on a change between two ends, in per cent. It does not state a sign if both are possible.
fn verdict((least, most): (f64, f64)) -> String {
    let percent = |low: f64, high: Option<f64>| Range { low, high }.words();
    if least >= -NOTHING && most <= NOTHING {
        return "mixing costs next to nothing".into();
    }
    if most <= 0.0 {
        let high = Some(-least).filter(|cost| *cost < 100.0);
        return format!("mixing costs {} % of the throughput", percent(0.0 - most, high));
    }
    if least >= 0.0 {
        return format!(
            "mixing buys {} % more throughput",
            percent(least, Some(most).filter(|m| m.is_finite()))
        );
    }
    let cost =
        if least > -100.0 { format!("a cost of {} %", words::figure(-least)) } else { "any cost".into() };
    let gain =
        if most.is_finite() { format!("a gain of {} %", words::figure(most)) } else { "any gain".into() };
    format!("what mixing costs cannot be told, anything from {cost} to {gain} is possible")
}

/// Returns the mix compared with its classes; empty if no class was measured alone.
pub(super) fn section(run: &Run) -> Vec<Block> {
    let how = "Servers apart: how many servers that serve this class alone take what one server serves of it in the mix; the sum is \
               what one mixed server stands for. Two figures are the ends of an interval, or the highest rate shown to meet and the lowest shown \
               to fail: what mixing costs is reckoned from the ends that are furthest apart.";
    let one = |m: &Mixing| [Block::paragraph(sentence(run, m)), table(m).into(), Block::paragraph(how)];
    mixings(run).iter().flat_map(one).collect()
}

fn table(m: &Mixing) -> Table {
    let range = |head: &str, of: fn(&Mixing, &MixedClass) -> Option<Range>| {
        Field::new(Column::number(head), move |p: &MixedClass| {
            of(m, p).map_or(Cell::Unknown, |r| Cell::figure(r.cell(), Some(r.low)))
        })
    };
    let fields = vec![
        Field::new(Column::text("class"), |p: &MixedClass| Cell::text(clip(&p.name, 40))),
        Field::new(Column::number("share of requests"), |p: &MixedClass| {
            Cell::figure(format!("{} %", words::figure(100.0 * p.share)), Some(p.share))
        }),
        range("in the mix req/s", |m, p| Some(m.mixed.times(p.share))),
        range("alone req/s", |_, p| p.alone),
        range("servers it takes apart", |m, p| Some(servers(m.mixed.times(p.share), p.alone?))),
    ];
    Table::of(fields, &m.parts)
}

/// Returns the number of single-class servers that would serve a class's share of the mix.
fn servers(share: Range, alone: Range) -> Range {
    let low = alone.high.map_or(0.0, |high| share.low / high);
    Range { low, high: share.high.map(|high| high / alone.low) }
}

/// Returns the effect of mixing, for a terminal.
pub(super) fn brief(run: &Run) -> Section {
    let all: Vec<String> = mixings(run).iter().map(|m| sentence(run, m)).collect();
    Section::untitled(vec![Block::paragraph(all.join(" "))])
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_stats::fixture::conclusion;
    use goodput_stats::search::answer::{Bracket, Conclusion};

    fn range(low: f64, high: f64) -> Range {
        Range { low, high: Some(high).filter(|h| h.is_finite()) }
    }

    fn mixing(mixed: Range, parts: &[(f64, Option<Range>)]) -> Mixing {
        let part = |(share, alone): &(f64, Option<Range>)| MixedClass {
            name: format!("c{share}"),
            share: *share,
            alone: *alone,
        };
        Mixing { tier: "main".into(), under: String::new(), mixed, parts: parts.iter().map(part).collect() }
    }

    /// Rows: share and rate alone of each class, and the unmixed rate.
    #[test]
    fn pools_apart_take_the_harmonic_mean() {
        let at = |x: f64| Some(range(x, x));
        let open = Some(range(10.0, f64::INFINITY));
        for (parts, want) in [
            (vec![(0.5, at(10.0)), (0.5, at(10.0))], at(10.0)),
            (vec![(0.9, at(90.0)), (0.1, at(1.0))], at(1.0 / 0.11)), // a tenth takes nearly all
            (vec![(0.5, Some(range(8.0, 16.0))), (0.5, at(16.0))], Some(range(32.0 / 3.0, 16.0))),
            (vec![(0.5, open), (0.5, at(10.0))], Some(range(10.0, 20.0))), // of the first any number may be taken
            (vec![(0.5, open), (0.5, open)], open),
            (vec![(0.9, at(90.0)), (0.1, None)], None),
        ] {
            let got = mixing(range(1.0, 1.0), &parts).unmixed();
            let near =
                |a: Option<f64>, b: Option<f64>| a.zip(b).map_or(a == b, |(a, b)| (a - b).abs() < 1e-9);
            let same = near(got.map(|r| r.low), want.map(|r| r.low))
                && near(got.and_then(|r| r.high), want.and_then(|r| r.high));
            assert!(same, "{parts:?}: {got:?}");
        }
    }

    #[test]
    fn a_sentence_says_what_mixing_comes_to() {
        let (_, run) = goodput_run::fixture::cases().into_iter().find(|(n, _)| *n == "found").unwrap();
        let known = range(10.0, 10.0);
        let bracket = range(8.0, 16.0);
        let open = range(8.0, f64::INFINITY);
        for (mixed, alone, says) in [
            (range(7.0, 7.0), known, "10 requests/s apiece: mixing costs 30 % of the throughput."),
            (range(7.0, 8.0), known, "a server takes 7 to 8 requests/s"),
            (range(7.0, 8.0), known, "mixing costs 20 to 30 % of the throughput."),
            (range(9.9, 10.1), known, "mixing costs next to nothing."),
            (range(12.0, 12.0), known, "mixing buys 20 % more throughput."),
            // An equal bracket of coarse steps does not prove that nothing is lost.
            (
                bracket,
                bracket,
                "cannot be told, anything from a cost of 50 % to a gain of 100 % is possible.",
            ),
            (
                range(9.0, 10.5),
                known,
                "cannot be told, anything from a cost of 10 % to a gain of 5 % is possible.",
            ),
            (
                range(4.0, 6.0),
                open,
                "at least 8 requests/s apiece: mixing costs at least 25 % of the throughput.",
            ),
            (open, known, "cannot be told, anything from a cost of 20 % to any gain is possible."),
            (open, open, "cannot be told, anything from any cost to any gain is possible."),
        ] {
            let got = sentence(&run, &mixing(mixed, &[(0.5, Some(alone)), (0.5, Some(alone))]));
            assert!(got.contains(says), "{mixed:?} {alone:?}: {got}");
        }
        let none = sentence(&run, &mixing(known, &[(0.5, None), (0.5, Some(known))]));
        assert!(none.contains("is not known: of c0.5 alone"), "{none}");
        assert!(section(&run).is_empty(), "no class was measured alone");
        assert_eq!(servers(range(4.0, 8.0), range(8.0, 16.0)).cell(), "0.25–1");
        assert_eq!(servers(range(4.0, 8.0), open).cell(), "0–1");
    }

    /// The ends are those of the answer: its interval if it has one, else the bracket.
    #[test]
    fn what_is_known_of_an_answer_are_both_its_ends() {
        let (_, mut run) = goodput_run::fixture::cases().into_iter().find(|(n, _)| *n == "found").unwrap();
        let fitted = conclusion(Status::Found, Some(10.0), Some([9.0, 11.0]), Some(9.0));
        let bracketed = conclusion(Status::Found, Some(8.0), None, None);
        let reached = conclusion(Status::NotReached, Some(8.0), None, None);
        for (conclusion, met, failed, want) in [
            (bracketed, Some(8.0), Some(16.0), Some(range(8.0, 16.0))),
            (fitted, Some(8.0), Some(16.0), Some(range(9.0, 11.0))),
            (reached, Some(8.0), None, Some(range(8.0, f64::INFINITY))),
            (Conclusion::OPEN, Some(8.0), None, Some(range(8.0, f64::INFINITY))), // nothing above was shown
            (Conclusion::None, None, Some(4.0), None),
        ] {
            let g = &mut run.answers[0].goodput;
            (g.conclusion, g.bracket) = (conclusion, Bracket { met, failed });
            assert_eq!(super::range(&run, &run.answers[0]), want, "{conclusion:?}");
        }
    }
}
