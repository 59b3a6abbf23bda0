//! Candidates beside one another: each with the fleet that it takes, the best for its money first.

use super::demand::Demand;
use super::fleet::{Fleet, Replica, Reserve};
use super::limit::Kept;
use super::moved::{Band, Moved};
use serde::Serialize;

/// Something that may serve the demand: a server that was measured, or a rate that was given.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Candidate {
    /// What it is called.
    pub name: String,
    /// Its GPU, where known.
    pub gpu: Option<String>,
    /// One replica at the goodput, or at the highest rate shown to meet.
    pub goodput: Replica,
    /// One replica at the safe rate, where there is one.
    pub safe: Option<Replica>,
    /// What the rates are, in words: `the goodput`, `the highest rate shown to meet`.
    pub basis: String,
    /// Label of its prices.
    pub currency: Option<String>,
    /// The most that a million output tokens may cost, where there is a limit.
    pub max_cost_per_mtok: Option<f64>,
    /// What it was measured with; `None` of a rate that was given.
    pub measured: Option<Measured>,
    /// What the reader must know of it.
    pub notes: Vec<String>,
    /// What a changed workload does to its rate, where that was measured; the largest effect first.
    pub moved: Vec<Moved>,
}

/// What a candidate was measured with: candidates that differ in it are not alike.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// The run folder.
    pub run: String,
    /// Which of its variants, where it has any.
    pub variant: Option<String>,
    /// Which of its series.
    pub series: String,
    /// Which of its tiers.
    pub tier: String,
    /// The limits of that tier, in words.
    pub slo: String,
    /// The workload, in words.
    pub workload: String,
    /// The model.
    pub model: String,
    /// Copies of it that were measured together: each is taken to have its even share of the rate.
    pub copies: u32,
    /// Whether the output tokens of a request that costs are reckoned with were given, in place of those that were measured.
    pub tokens_given: bool,
    /// Prompt tokens of a request, the mean, where known.
    pub prompt_tokens: Option<f64>,
    /// Output tokens of a request as measured, the mean, where known.
    pub output_tokens: Option<f64>,
    /// Whether time was simulated.
    pub virtual_time: bool,
}

/// A candidate with its fleets.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sizing {
    /// The candidate.
    pub candidate: Candidate,
    /// What it takes, each replica at the goodput.
    pub at_goodput: Fleet,
    /// What it takes, each replica at the safe rate.
    pub at_safe_rate: Option<Fleet>,
    /// Whether the limit on the cost is kept at this demand, where there is one.
    pub cost_limit: Option<Kept>,
    /// What a changed workload does to the fleet that is planned with, where that was measured.
    pub bands: Vec<Band>,
}

impl Sizing {
    /// A candidate at a demand.
    pub fn of(candidate: Candidate, demand: &Demand, reserve: &Reserve) -> Self {
        let at_goodput = Fleet::of(&candidate.goodput, demand, reserve);
        let at_safe_rate = candidate.safe.map(|safe| Fleet::of(&safe, demand, reserve));
        let planned = at_safe_rate.as_ref().unwrap_or(&at_goodput);
        let cost = planned.cost.and_then(|c| c.per_mtok);
        let keeps = |(cost, max): (f64, f64)| {
            if cost <= max * (1.0 + 1e-9) { Kept::Accepted } else { Kept::Rejected }
        };
        let cost_limit = cost.zip(candidate.max_cost_per_mtok).map(keeps);
        let bands = candidate.moved.iter().map(|m| Band::of(m, &planned.replica, demand, reserve)).collect();
        Self { candidate, at_goodput, at_safe_rate, cost_limit, bands }
    }

    /// The fleet to plan with: at the safe rate, or at the goodput where there is no safe one.
    pub fn planned(&self) -> &Fleet {
        self.at_safe_rate.as_ref().unwrap_or(&self.at_goodput)
    }
}

/// Which rate candidates are ranked by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// Every one of them has a safe rate.
    SafeRate,
    /// One of them has none.
    Goodput,
}

/// The rate that all candidates have.
pub fn basis(all: &[Sizing]) -> Basis {
    if all.iter().all(|s| s.at_safe_rate.is_some()) { Basis::SafeRate } else { Basis::Goodput }
}

impl Basis {
    /// The fleet of a candidate at it.
    pub fn fleet(self, sizing: &Sizing) -> &Fleet {
        match self {
            Self::SafeRate => sizing.planned(),
            Self::Goodput => &sizing.at_goodput,
        }
    }
}

/// Candidates by what they are paid in, the first one's currency first, those without a price last; within each, those that take the
/// most requests for their money first, and where there is no price those with the fewest GPUs.
pub fn ranked(mut all: Vec<Sizing>) -> Vec<Sizing> {
    let by = basis(&all);
    let mut labels: Vec<Option<String>> = Vec::new();
    for s in &all {
        let label = paid_in(s);
        if s.at_goodput.cost.is_some() && !labels.contains(&label) {
            labels.push(label);
        }
    }
    let key = |s: &Sizing| match s.at_goodput.cost {
        Some(_) => labels.iter().position(|l| *l == paid_in(s)).unwrap_or(labels.len()),
        None => labels.len(),
    };
    all.sort_by(|a, b| {
        let worth = |s: &Sizing| by.fleet(s).replica.rate_per_cost().unwrap_or(0.0);
        let gpus = |s: &Sizing| by.fleet(s).gpus;
        key(a).cmp(&key(b)).then(worth(b).total_cmp(&worth(a))).then(gpus(a).cmp(&gpus(b)))
    });
    all
}

/// The label of a candidate's prices; those without one count as the same.
pub fn paid_in(s: &Sizing) -> Option<String> {
    s.candidate.currency.clone()
}

/// The currencies that candidates have prices in, in their order; more than one are not compared.
pub fn currencies(all: &[Sizing]) -> Vec<Option<String>> {
    let mut found: Vec<Option<String>> = Vec::new();
    for label in all.iter().filter(|s| s.at_goodput.cost.is_some()).map(paid_in) {
        if !found.contains(&label) {
            found.push(label);
        }
    }
    found
}

/// Candidates that may stand in one table: those whose prices have the same label; where there are several labels, those without a price
/// by themselves, last.
pub fn by_currency(all: &[Sizing]) -> Vec<Vec<Sizing>> {
    let labels = currencies(all);
    if labels.len() < 2 {
        return vec![all.to_vec()];
    }
    let mut groups: Vec<Vec<Sizing>> = vec![Vec::new(); labels.len() + 1];
    for s in all {
        let priced = labels.iter().position(|l| s.at_goodput.cost.is_some() && *l == paid_in(s));
        groups[priced.unwrap_or(labels.len())].push(s.clone());
    }
    groups.retain(|g| !g.is_empty());
    groups
}

/// Two candidates that are one server under other traffic, by their names, where there are such: they are cases, and no rivals for
/// money.
pub fn one_server(all: &[Sizing]) -> Option<[&str; 2]> {
    let measured = |s: &Sizing| s.candidate.measured.as_ref().map(|m| (m.run.clone(), m.variant.clone()));
    all.iter().enumerate().find_map(|(i, s)| {
        let own = measured(s)?;
        let other = all.iter().skip(i + 1).find(|other| measured(other).as_ref() == Some(&own))?;
        Some([s.candidate.name.as_str(), other.candidate.name.as_str()])
    })
}

/// Tokens of a request that differ by more than this share make workloads unlike.
const ALIKE: f64 = 0.05;

type Text = fn(&Measured) -> &str;
type Tokens = fn(&Measured) -> Option<f64>;

/// In what candidates were measured unlike one another, in words; each names the two that differ first.
pub fn unlike(all: &[Sizing]) -> Vec<String> {
    let measured: Vec<(&str, &Measured)> = all
        .iter()
        .filter_map(|s| Some((s.candidate.name.as_str(), s.candidate.measured.as_ref()?)))
        .collect();
    let Some(((first, one), others)) = measured.split_first() else { return Vec::new() };
    let mut found = Vec::new();
    let texts: [(&str, Text); 3] =
        [("SLO", |m| &m.slo), ("workload", |m| &m.workload), ("model", |m| &m.model)];
    for (what, of) in texts {
        if let Some((name, other)) = others.iter().find(|(_, m)| of(m) != of(one)) {
            found.push(format!("{what}: {first} has \"{}\", {name} has \"{}\"", of(one), of(other)));
        }
    }
    let tokens: [(&str, Tokens); 2] = [
        ("prompt tokens of a request", |m| m.prompt_tokens),
        ("output tokens of a request", |m| m.output_tokens),
    ];
    for (what, of) in tokens {
        let far = |m: &Measured| of(one).zip(of(m)).filter(|(a, b)| (a / b - 1.0).abs() > ALIKE);
        if let Some((name, (a, b))) = others.iter().find_map(|(name, m)| Some((name, far(m)?))) {
            let say = goodput_core::units::short;
            found.push(format!("{what}: {first} has {} in the mean, {name} has {}", say(a), say(b)));
        }
    }
    if let Some((name, _)) = others.iter().find(|(_, m)| m.virtual_time != one.virtual_time) {
        let (simulated, real) = if one.virtual_time { (first, name) } else { (name, first) };
        found.push(format!("clock: {simulated} was measured in simulated time, {real} was not"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(name: &str, rate: f64, price: Option<f64>, currency: Option<&str>) -> Candidate {
        let goodput = Replica {
            rate,
            gpus: 1,
            output_tokens: Some(30.0),
            price_per_hour: price,
            watts: None,
            energy_price: None,
        };
        Candidate {
            name: name.into(),
            gpu: None,
            goodput,
            safe: Some(Replica { rate: rate * 0.9, ..goodput }),
            basis: "the goodput".into(),
            currency: currency.map(Into::into),
            max_cost_per_mtok: None,
            measured: None,
            notes: Vec::new(),
            moved: Vec::new(),
        }
    }

    fn sized(all: Vec<Candidate>) -> Vec<Sizing> {
        let demand = Demand::of_volume("5M".parse().unwrap(), 1.0);
        all.into_iter().map(|c| Sizing::of(c, &demand, &Reserve::default())).collect()
    }

    #[test]
    fn the_most_requests_for_the_money_come_first() {
        let all = sized(vec![
            candidate("a40", 35.0, Some(0.39), Some("USD")), // 90 for a dollar
            candidate("untold", 500.0, None, None),
            candidate("h100", 240.0, Some(2.0), Some("USD")), // 120
            candidate("lent", 90.0, Some(0.5), Some("EUR")),
            candidate("l4", 20.0, Some(0.5), Some("USD")), // 40
        ]);
        let all = ranked(all);
        let names: Vec<&str> = all.iter().map(|s| s.candidate.name.as_str()).collect();
        assert_eq!(names, ["h100", "a40", "l4", "lent", "untold"]);
        assert_eq!(currencies(&all), [Some("USD".to_owned()), Some("EUR".into())]);
        assert_eq!(basis(&all), Basis::SafeRate);
        let free =
            ranked(sized(vec![candidate("slow", 20.0, None, None), candidate("fast", 40.0, None, None)]));
        assert_eq!(free[0].candidate.name, "fast", "fewer GPUs");
    }

    #[test]
    fn one_without_a_safe_rate_has_all_ranked_by_the_goodput() {
        let mut open = candidate("a", 35.0, Some(1.0), None);
        open.safe = None;
        let all = sized(vec![open, candidate("b", 36.0, Some(1.0), None)]);
        assert_eq!(basis(&all), Basis::Goodput);
        assert_eq!(ranked(all)[0].candidate.name, "b");
    }

    /// The limit is judged at the fleet to plan with, at its real utilisation.
    #[test]
    fn a_cost_limit_holds_at_the_demand() {
        let limited =
            |max| Candidate { max_cost_per_mtok: Some(max), ..candidate("a", 35.0, Some(0.39), None) };
        // 2 × 0.39 × 24 for 150 million tokens: 0.125. At full load it would be 0.115 at the safe rate.
        let kept: Vec<_> = sized(vec![limited(0.13), limited(0.12)]).iter().map(|s| s.cost_limit).collect();
        assert_eq!(kept, [Some(Kept::Accepted), Some(Kept::Rejected)]);
        assert_eq!(sized(vec![candidate("a", 1.0, None, None)])[0].cost_limit, None);
    }

    #[test]
    fn unlike_runs_are_told() {
        let measured = Measured {
            run: "r".into(),
            variant: None,
            series: "main".into(),
            tier: "main".into(),
            slo: "p99 TTFT ≤ 200 ms".into(),
            workload: "600 in / 30 out".into(),
            model: "m".into(),
            copies: 1,
            tokens_given: false,
            prompt_tokens: Some(600.0),
            output_tokens: Some(30.0),
            virtual_time: false,
        };
        let with = |name: &str, measured: Measured| Candidate {
            measured: Some(measured),
            ..candidate(name, 1.0, None, None)
        };
        let of = |other: Measured| unlike(&sized(vec![with("a", measured.clone()), with("b", other)]));
        assert!(of(Measured { output_tokens: Some(30.5), ..measured.clone() }).is_empty());
        let all = of(Measured {
            slo: "p99 TTFT ≤ 80 ms".into(),
            workload: "x".into(),
            model: "n".into(),
            output_tokens: Some(60.0),
            virtual_time: true,
            ..measured.clone()
        });
        assert_eq!(all.len(), 5, "{all:?}");
        assert!(all[0].contains("a has \"p99 TTFT ≤ 200 ms\", b has \"p99 TTFT ≤ 80 ms\""), "{all:?}");
        assert!(
            all[3].contains("a has 30 in the mean, b has 60")
                && all[4].contains("b was measured in simulated time, a was not")
        );
    }
}
