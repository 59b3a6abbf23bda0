//! What it costs to serve several kinds of request together: the mix beside each of its classes alone.

use super::escape::{clip, markdown};
use super::{tables, words};
use crate::rundir::Run;
use crate::rundir::derive::usable_safe_rate;
use crate::search::answer::{Answer, Status};
use crate::stats::groups::By;

/// A class in the mix and by itself.
#[derive(Debug, Clone, PartialEq)]
struct Part {
    name: String,
    /// Its share of the mix's requests.
    share: f64,
    /// Requests per second that the server takes of it alone.
    alone: Option<f64>,
    /// Whether it may take more than that: no level was shown to be too much.
    at_least: bool,
}

/// The mix of a tier beside its classes.
#[derive(Debug, Clone, PartialEq)]
struct Mixing {
    tier: String,
    /// What sets it apart from other mixes of the run: the state of the cache.
    under: String,
    /// Requests per second of the mix.
    mixed: f64,
    parts: Vec<Part>,
}

impl Mixing {
    /// Requests per second and server of as many servers shared out among the classes, none of them mixed: 1 / Σ(share / alone).
    fn apart(&self) -> Option<f64> {
        let taken: Option<f64> = self.parts.iter().map(|p| Some(p.share / p.alone?)).sum();
        taken.map(|t| 1.0 / t).filter(|r| r.is_finite())
    }

    fn at_least(&self) -> bool {
        self.parts.iter().any(|p| p.at_least)
    }
}

/// Requests per second at an answer: its estimate, or the highest level shown to meet.
fn rate(run: &Run, a: &Answer) -> Option<f64> {
    let g = &a.goodput;
    let level = match usable_safe_rate(g) {
        Some(safe) => g.rate.unwrap_or(safe),
        None => g.met.filter(|_| g.status != Status::None)?,
    };
    run.throughput(a, level)
}

/// Every mix of the run whose classes were measured alone as well.
fn mixings(run: &Run) -> Vec<Mixing> {
    run.answers.iter().filter_map(|a| mixing(run, a)).collect()
}

fn mixing(run: &Run, a: &Answer) -> Option<Mixing> {
    let under = match a.series.strip_prefix("mix")? {
        "" => "",
        rest => rest.strip_prefix(", ")?,
    };
    let mixed = rate(run, a)?;
    let at = a.goodput.rate.or(a.goodput.met)?;
    let step = run.nearest(a, at)?;
    let classes: Vec<_> = step.groups.iter().filter(|g| g.by == By::Class).collect();
    let all: f64 = classes.iter().map(|g| g.n as f64).sum();
    let part = |name: &str, n: u64| {
        let series = if under.is_empty() { format!("only {name}") } else { format!("only {name}, {under}") };
        let own = || run.answers.iter().filter(|other| other.series == series);
        let answer = own().find(|other| other.tier == a.tier).or_else(|| own().next());
        Part {
            name: name.to_owned(),
            share: n as f64 / all.max(1.0),
            alone: answer.and_then(|x| rate(run, x)),
            at_least: answer
                .is_some_and(|x| matches!(x.goodput.status, Status::NotReached | Status::Undecided)),
        }
    };
    let parts: Vec<Part> = classes.iter().map(|g| part(&g.name, g.n)).collect();
    let measured = run.answers.iter().any(|other| other.series.starts_with("only "));
    (measured && !parts.is_empty()).then(|| Mixing {
        tier: a.tier.clone(),
        under: under.to_owned(),
        mixed,
        parts,
    })
}

/// What mixing comes to, in a sentence or two.
fn said(run: &Run, m: &Mixing) -> String {
    let whose = [(words::several_tiers(run), &m.tier), (!m.under.is_empty(), &m.under)];
    let whose: Vec<String> =
        whose.into_iter().filter(|(is, _)| *is).map(|(_, name)| clip(name, 40)).collect();
    let whose = if whose.is_empty() { String::new() } else { format!(" ({})", whose.join(", ")) };
    let mixed = words::figure(m.mixed);
    let Some(apart) = m.apart() else {
        let open: Vec<String> =
            m.parts.iter().filter(|p| p.alone.is_none()).map(|p| clip(&p.name, 40)).collect();
        return format!(
            "What mixing costs{whose} is not known: of {} alone no rate is shown to meet its limits.",
            words::list(&open)
        );
    };
    let rate = words::figure(apart);
    let least = if m.at_least() { "at least " } else { "" };
    let change = 100.0 * (m.mixed / apart - 1.0);
    let verdict = match change {
        c if c < -2.0 => format!("mixing costs {least}{} % of the throughput", words::figure(-c)),
        c if c > 2.0 && !m.at_least() => format!("mixing buys {} % more throughput", words::figure(c)),
        _ if m.at_least() => {
            "what mixing costs is not known, since a class alone may take more than was shown".into()
        }
        _ => "mixing costs next to nothing".into(),
    };
    format!(
        "Mixed{whose}, a server takes {mixed} requests/s; the same servers shared out among the classes, each with its own, would take \
         {least}{rate} requests/s apiece: {verdict}."
    )
}

/// The mix beside its classes, for `report.md`; empty where no class was measured alone.
pub fn section(run: &Run) -> String {
    let one = |m: &Mixing| {
        let head =
            ["class", "share of requests", "in the mix req/s", "alone req/s", "servers it takes apart"];
        let row = |p: &Part| {
            let least = if p.at_least { "≥ " } else { "" };
            let most = if p.at_least { "≤ " } else { "" };
            let share = m.mixed * p.share;
            let alone = p.alone.map_or("–".to_owned(), |x| format!("{least}{}", words::figure(x)));
            let servers = p.alone.map_or("–".to_owned(), |x| format!("{most}{}", words::figure(share / x)));
            let percent = format!("{} %", words::figure(100.0 * p.share));
            vec![markdown(&clip(&p.name, 40)), percent, words::figure(share), alone, servers]
        };
        let table = tables::table(&head, &["class"], m.parts.iter().map(row).collect());
        format!(
            "{}\n\n{}\n\nServers apart: how many servers that serve this class alone take what one server serves of it in the mix; the sum is \
             what one mixed server stands for. Each is reckoned at its own goodput.\n\n",
            markdown(&said(run, m)),
            table.trim_end()
        )
    };
    mixings(run).iter().map(one).collect()
}

/// The same in a line for a terminal.
pub fn in_short(run: &Run) -> String {
    mixings(run).iter().map(|m| said(run, m)).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mixing(mixed: f64, parts: &[(f64, Option<f64>)]) -> Mixing {
        let part = |(share, alone): &(f64, Option<f64>)| Part {
            name: format!("c{share}"),
            share: *share,
            alone: *alone,
            at_least: false,
        };
        Mixing { tier: "main".into(), under: String::new(), mixed, parts: parts.iter().map(part).collect() }
    }

    /// Rows: the mix, share and rate alone of its classes, and the rate apart.
    #[test]
    fn pools_apart_take_the_harmonic_mean() {
        for (mixed, parts, want) in [
            (10.0, vec![(0.5, Some(10.0)), (0.5, Some(10.0))], Some(10.0)),
            (10.0, vec![(0.9, Some(90.0)), (0.1, Some(1.0))], Some(1.0 / 0.11)), // a tenth takes nearly all
            (10.0, vec![(0.9, Some(90.0)), (0.1, None)], None),
        ] {
            let got = mixing(mixed, &parts).apart();
            assert!(got.zip(want).map_or(got == want, |(a, b)| (a - b).abs() < 1e-9), "{parts:?}: {got:?}");
        }
    }

    #[test]
    fn a_sentence_says_what_mixing_comes_to() {
        let (_, run) = crate::report::fixture::cases().into_iter().find(|(n, _)| *n == "found").unwrap();
        let say = |mixed| said(&run, &mixing(mixed, &[(0.5, Some(10.0)), (0.5, Some(10.0))]));
        assert!(
            say(7.0).ends_with("10 requests/s apiece: mixing costs 30 % of the throughput."),
            "{}",
            say(7.0)
        );
        assert!(say(10.1).ends_with("next to nothing."), "{}", say(10.1));
        assert!(say(12.0).ends_with("mixing buys 20 % more throughput."), "{}", say(12.0));
        let open = said(&run, &mixing(7.0, &[(0.5, None), (0.5, Some(10.0))]));
        assert!(open.contains("is not known: of c0.5 alone"), "{open}");
        assert_eq!(section(&run), "", "no class was measured alone");
    }
}
