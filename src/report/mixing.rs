//! What it costs to serve several kinds of request together: the mix beside each of its classes alone.

use super::escape::{clip, markdown};
use super::{tables, words};
use crate::rundir::Run;
use crate::rundir::derive::{interval, usable_safe_rate};
use crate::search::answer::{Answer, Status};
use crate::stats::groups::By;

/// A change of the throughput within this, in per cent, is next to nothing.
const LITTLE: f64 = 2.0;

/// Requests per second that a server takes: as far as the sweep can tell them apart.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Takes {
    /// Shown to be met, or the lower end of an interval.
    low: f64,
    /// Its most likely value, where there is one.
    middle: Option<f64>,
    /// Shown to fail, or the upper end; `None` where no level was shown to be too much.
    high: Option<f64>,
}

/// A class in the mix and by itself.
#[derive(Debug, Clone, PartialEq)]
struct Part {
    name: String,
    /// Its share of the mix's requests.
    share: f64,
    /// What the server takes of it alone.
    alone: Option<Takes>,
}

/// The mix of a tier beside its classes.
#[derive(Debug, Clone, PartialEq)]
struct Mixing {
    tier: String,
    /// What sets it apart from other mixes of the run: the state of the cache.
    under: String,
    /// What the server takes of the mix.
    mixed: Takes,
    parts: Vec<Part>,
}

impl Takes {
    /// So much of each.
    fn times(self, share: f64) -> Self {
        let of = |x: f64| x * share;
        Self { low: of(self.low), middle: self.middle.map(of), high: self.high.map(of) }
    }

    /// How many such servers take what another figure stands for.
    fn of(self, other: Self) -> Self {
        Self {
            low: other.high.map_or(0.0, |most| self.low / most),
            middle: self.middle.zip(other.middle).map(|(a, b)| a / b),
            high: self.high.filter(|_| other.low > 0.0).map(|high| high / other.low),
        }
    }
}

impl std::fmt::Display for Takes {
    /// `8 – 16`, `12 (10 – 14)`, `at least 8`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let low = words::figure(self.low);
        match (self.middle, self.high) {
            (_, None) => write!(f, "at least {low}"),
            (Some(middle), Some(high)) => {
                write!(f, "{} ({low} – {})", words::figure(middle), words::figure(high))
            }
            (None, Some(high)) => write!(f, "{low} – {}", words::figure(high)),
        }
    }
}

impl Mixing {
    /// Requests per second and server of as many servers shared out among the classes, none of them mixed: 1 / Σ(share / alone).
    fn apart(&self) -> Option<Takes> {
        let sum = |of: &dyn Fn(&Takes) -> Option<f64>| -> Option<f64> {
            let terms: Option<f64> =
                self.parts.iter().map(|p| p.alone.as_ref().map(|a| of(a).map_or(0.0, |x| p.share / x))).sum();
            terms.map(|t| 1.0 / t).filter(|r| r.is_finite())
        };
        let middles = self.parts.iter().all(|p| p.alone.is_some_and(|a| a.middle.is_some()));
        Some(Takes {
            low: sum(&|a| Some(a.low))?,
            middle: if middles { sum(&|a| a.middle) } else { None },
            high: sum(&|a| a.high),
        })
    }
}

/// What the server takes by an answer: the 90 % interval of the boundary, or the levels shown to meet and to fail around it.
fn takes(run: &Run, a: &Answer) -> Option<Takes> {
    let g = &a.goodput;
    let rate = |level: f64| run.throughput(a, level);
    if let Some((middle, [low, high])) = interval(g) {
        return Some(Takes { low: rate(low)?, middle: rate(middle), high: rate(high) });
    }
    let met = g.met.or(usable_safe_rate(g)).filter(|_| g.status != Status::None)?;
    Some(Takes { low: rate(met)?, middle: None, high: g.failed.and_then(rate) })
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
    let mixed = takes(run, a)?;
    let at = a.goodput.rate.or(a.goodput.met)?;
    let step = run.nearest(a, at)?;
    let classes: Vec<_> = step.groups.iter().filter(|g| g.by == By::Class).collect();
    let all: f64 = classes.iter().map(|g| g.n as f64).sum();
    let part = |name: &str, n: u64| {
        let series = if under.is_empty() { format!("only {name}") } else { format!("only {name}, {under}") };
        let own = || run.answers.iter().filter(|other| other.series == series);
        let answer = own().find(|other| other.tier == a.tier).or_else(|| own().next());
        let alone = answer.and_then(|x| takes(run, x));
        Part { name: name.to_owned(), share: n as f64 / all.max(1.0), alone }
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

/// What the throughput changes by when classes are mixed, in per cent: least, most likely, most.
fn verdict(mixed: Takes, apart: Takes) -> String {
    let change = |of: f64, to: f64| 100.0 * (of / to - 1.0);
    let least = apart.high.map(|most| change(mixed.low, most));
    let most = mixed.high.filter(|_| apart.low > 0.0).map(|high| change(high, apart.low));
    let likely = mixed.middle.zip(apart.middle).map(|(m, a)| change(m, a));
    let figure = |x: f64| words::figure(x.abs());
    let about = |low: f64, high: f64| match likely {
        Some(x) => format!("{} % ({} – {} %)", figure(x), figure(low), figure(high)),
        None => format!("{} – {} %", figure(low), figure(high)),
    };
    match (least, most) {
        (Some(low), Some(high)) if low.abs() <= LITTLE && high.abs() <= LITTLE => {
            "mixing costs next to nothing".into()
        }
        (Some(low), Some(high)) if high < 0.0 => format!("mixing costs {} of the throughput", about(high, low)),
        (None, Some(high)) if high < 0.0 => format!("mixing costs at least {} % of the throughput", figure(high)),
        (Some(low), Some(high)) if low > 0.0 => format!("mixing buys {} more throughput", about(low, high)),
        (Some(low), None) if low > 0.0 => format!("mixing buys at least {} % more throughput", figure(low)),
        _ => {
            let side = |x: Option<f64>, open: &str| match x {
                Some(x) if x < 0.0 => format!("{} % less", figure(x)),
                Some(x) => format!("{} % more", figure(x)),
                None => open.to_owned(),
            };
            format!(
                "what mixing costs cannot be told: from {} to {} throughput is possible. Levels that lie closer together around the \
                 answers, or a longer search, tell more",
                side(least, "far less"),
                side(most, "far more")
            )
        }
    }
}

/// What mixing comes to, in a sentence or two.
fn said(run: &Run, m: &Mixing) -> String {
    let whose = [(words::several_tiers(run), &m.tier), (!m.under.is_empty(), &m.under)];
    let whose: Vec<String> =
        whose.into_iter().filter(|(is, _)| *is).map(|(_, name)| clip(name, 40)).collect();
    let whose = if whose.is_empty() { String::new() } else { format!(" ({})", whose.join(", ")) };
    let Some(apart) = m.apart() else {
        let open: Vec<String> = m
            .parts
            .iter()
            .filter(|p| p.alone.is_none_or(|a| a.low <= 0.0))
            .map(|p| clip(&p.name, 40))
            .collect();
        return format!(
            "What mixing costs{whose} is not known: of {} alone no rate is shown to meet its limits.",
            words::list(&open)
        );
    };
    format!(
        "Mixed{whose}, a server takes {} requests/s; the same servers shared out among the classes, each with its own, would take {apart} \
         requests/s apiece: {}.",
        m.mixed,
        verdict(m.mixed, apart)
    )
}

/// The mix beside its classes, for `report.md`; empty where no class was measured alone.
pub fn section(run: &Run) -> String {
    let one = |m: &Mixing| {
        let head =
            ["class", "share of requests", "in the mix req/s", "alone req/s", "servers it takes apart"];
        let row = |p: &Part| {
            let share = m.mixed.times(p.share);
            let alone = p.alone.map_or("–".to_owned(), |x| x.to_string());
            let servers = p.alone.map_or("–".to_owned(), |x| share.of(x).to_string());
            let percent = format!("{} %", words::figure(100.0 * p.share));
            vec![markdown(&clip(&p.name, 40)), percent, share.to_string(), alone, servers]
        };
        let table = tables::table(&head, &["class"], m.parts.iter().map(row).collect());
        format!(
            "{}\n\n{}\n\nServers apart: how many servers that serve this class alone take what one server serves of it in the mix; the sum is \
             what one mixed server stands for. Each is reckoned at its own goodput: from the level shown to meet up to that shown to fail, \
             or the 90 % interval.\n\n",
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

    fn takes(low: f64, high: Option<f64>) -> Takes {
        Takes { low, middle: None, high }
    }

    fn mixing(mixed: Takes, parts: &[(f64, Option<Takes>)]) -> Mixing {
        let part = |(share, alone): &(f64, Option<Takes>)| Part {
            name: format!("c{share}"),
            share: *share,
            alone: *alone,
        };
        Mixing { tier: "main".into(), under: String::new(), mixed, parts: parts.iter().map(part).collect() }
    }

    /// Rows: share and rates alone of the classes, and the rates apart.
    #[test]
    fn pools_apart_take_the_harmonic_mean() {
        let ten = takes(10.0, Some(12.0));
        for (parts, want) in [
            (vec![(0.5, Some(ten)), (0.5, Some(ten))], Some(ten)),
            // A tenth takes nearly all.
            (
                vec![(0.9, Some(takes(90.0, Some(90.0)))), (0.1, Some(takes(1.0, Some(1.0))))],
                Some(takes(1.0 / 0.11, Some(1.0 / 0.11))),
            ),
            // Of one class no rate was too much: the other still bounds what both take.
            (vec![(0.5, Some(takes(10.0, None))), (0.5, Some(ten))], Some(takes(10.0, Some(24.0)))),
            (vec![(1.0, Some(takes(10.0, None)))], Some(takes(10.0, None))),
            (vec![(0.9, Some(ten)), (0.1, None)], None),
        ] {
            let got = mixing(ten, &parts).apart();
            let near = |a: Option<f64>, b: Option<f64>| a.zip(b).map_or(a == b, |(a, b)| (a - b).abs() < 1e-9);
            let same = got
                .zip(want)
                .map_or(got == want, |(a, b)| near(Some(a.low), Some(b.low)) && near(a.high, b.high));
            assert!(same, "{parts:?}: {got:?}");
        }
    }

    /// Rows: the mix, its classes alone, and what is said.
    #[test]
    fn a_sentence_says_what_mixing_comes_to_and_how_sure_that_is() {
        let (_, run) = crate::report::fixture::cases().into_iter().find(|(n, _)| *n == "found").unwrap();
        let exact = |x| takes(x, Some(x));
        let interval = |low, middle, high| Takes { low, middle: Some(middle), high: Some(high) };
        for (mixed, alone, want) in [
            (exact(7.0), exact(10.0), "10 – 10 requests/s apiece: mixing costs 30 – 30 % of the throughput."),
            (exact(10.1), exact(10.0), "mixing costs next to nothing."),
            (takes(12.0, Some(14.0)), takes(8.0, Some(10.0)), "mixing buys 20 – 75 % more throughput."),
            // Brackets of one list of rates tell nothing: each lies between the same two.
            (takes(8.0, Some(16.0)), takes(8.0, Some(16.0)), "cannot be told: from 50 % less to 100 % more throughput"),
            (interval(6.0, 7.0, 8.0), interval(9.0, 10.0, 11.0), "mixing costs 30 % (11.1 – 45.5 %) of the throughput."),
            (takes(4.0, Some(5.0)), takes(10.0, None), "mixing costs at least 50 % of the throughput."),
            (takes(8.0, None), takes(10.0, Some(12.0)), "cannot be told: from 33.3 % less to far more throughput"),
            (takes(15.0, None), takes(10.0, Some(12.0)), "at least 15 requests/s;"),
            (takes(15.0, None), takes(10.0, Some(12.0)), "mixing buys at least 25 % more throughput."),
        ] {
            let text = said(&run, &mixing(mixed, &[(0.5, Some(alone)), (0.5, Some(alone))]));
            assert!(text.contains(want), "{text}\n{want}");
        }
        let ten = Some(exact(10.0));
        let open = said(&run, &mixing(exact(7.0), &[(0.5, None), (0.25, ten), (0.25, Some(takes(0.0, Some(3.0))))]));
        assert!(open.contains("is not known: of c0.5 and c0.25 alone"), "{open}");
        assert_eq!(section(&run), "", "no class was measured alone");
    }

    #[test]
    fn servers_apart_have_a_range() {
        let mix = takes(8.0, Some(10.0)).times(0.5);
        assert_eq!(mix.of(takes(10.0, Some(20.0))).to_string(), "0.2 – 0.5");
        assert_eq!(mix.of(takes(10.0, None)), takes(0.0, Some(0.5)));
    }
}
