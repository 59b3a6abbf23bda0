//! Comparison of candidates: each with the fleet it needs, ranked by requests per cost.

use super::demand::Demand;
use super::fleet::{Fleet, Replica, Reserve};
use super::limit::CostVerdict;
use super::workload_change::{FleetBand, WorkloadChange};
use goodput_core::endpoint::Item;
use serde::Serialize;

/// A server that may serve the demand: either measured, or given by its rate.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Candidate {
    /// Name of the candidate.
    pub name: String,
    /// Model of its GPU, if known.
    pub gpu: Option<String>,
    /// One replica at the goodput, or at the highest rate shown to meet.
    pub goodput: Replica,
    /// One replica at the safe rate, if there is one.
    pub safe: Option<Replica>,
    /// Meaning of the rates, in words: `the goodput`, `the highest rate shown to meet`.
    pub basis: String,
    /// Currency label of its prices.
    pub currency: Option<String>,
    /// Largest accepted cost of a million output tokens; `None` without a limit.
    pub max_cost_per_mtok: Option<f64>,
    /// Conditions of the measurement; `None` for a given rate.
    pub measured: Option<MeasurementConditions>,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// Effect of changes of the workload on the rate, as far as measured; the largest effect first.
    pub moved: Vec<WorkloadChange>,
    /// The items of its requests; `None` if rates are told in requests alone.
    pub items: Option<ItemsOfRequest>,
}

/// The texts, documents or images of a request.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ItemsOfRequest {
    /// Their kind.
    pub item: Item,
    /// Mean number of them in a request, as measured.
    pub per_request: f64,
}

/// Conditions of a measurement. Candidates that differ in them are not comparable.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct MeasurementConditions {
    /// Path of the run folder.
    pub run: String,
    /// Name of the variant, if the run has variants.
    pub variant: Option<String>,
    /// Name of the series.
    pub series: String,
    /// Name of the SLO tier.
    pub tier: String,
    /// The limits of that tier, in words.
    pub slo: String,
    /// The workload, in words.
    pub workload: String,
    /// Name of the model.
    pub model: String,
    /// Number of copies of the model measured together; each is assumed to serve an even share of the rate.
    pub copies: u32,
    /// True if costs use a given number of output tokens per request in place of the measured one.
    pub tokens_given: bool,
    /// Mean prompt tokens per request, if known.
    pub prompt_tokens: Option<f64>,
    /// Mean measured output tokens per request, if known.
    pub output_tokens: Option<f64>,
    /// True if time was simulated.
    pub virtual_time: bool,
    /// True if the server was simulated.
    pub simulated: bool,
}

/// A candidate with its fleets.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Sizing {
    /// The candidate.
    pub candidate: Candidate,
    /// Fleet with each replica at the goodput.
    pub at_goodput: Fleet,
    /// Fleet with each replica at the safe rate; `None` without one.
    pub at_safe_rate: Option<Fleet>,
    /// Verdict on the cost limit at this demand; `None` without a limit or a cost.
    pub cost_limit: Option<CostVerdict>,
    /// Size of the planned fleet under changed workloads, as far as measured.
    pub bands: Vec<FleetBand>,
}

impl Sizing {
    /// Sizes a candidate for a demand.
    pub fn of(candidate: Candidate, demand: &Demand, reserve: &Reserve) -> Self {
        let at_goodput = Fleet::of(&candidate.goodput, demand, reserve);
        let at_safe_rate = candidate.safe.map(|safe| Fleet::of(&safe, demand, reserve));
        let planned = at_safe_rate.as_ref().unwrap_or(&at_goodput);
        let cost = planned.cost.and_then(|c| c.per_mtok);
        let judge = |(cost, max): (f64, f64)| {
            if cost <= max * (1.0 + 1e-9) { CostVerdict::Accepted } else { CostVerdict::Rejected }
        };
        let cost_limit = cost.zip(candidate.max_cost_per_mtok).map(judge);
        let bands =
            candidate.moved.iter().map(|m| FleetBand::of(m, &planned.replica, demand, reserve)).collect();
        Self { candidate, at_goodput, at_safe_rate, cost_limit, bands }
    }

    /// Returns the fleet to plan with: at the safe rate, or at the goodput if there is no safe rate.
    pub fn planned(&self) -> &Fleet {
        self.at_safe_rate.as_ref().unwrap_or(&self.at_goodput)
    }
}

/// The rate by which candidates are ranked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The safe rate, since every candidate has one.
    SafeRate,
    /// The goodput, since a candidate lacks a safe rate.
    Goodput,
}

/// Returns the rate that all candidates have.
pub fn basis(all: &[Sizing]) -> Basis {
    if all.iter().all(|s| s.at_safe_rate.is_some()) { Basis::SafeRate } else { Basis::Goodput }
}

impl Basis {
    /// Returns the fleet of a candidate at this rate.
    pub fn fleet(self, sizing: &Sizing) -> &Fleet {
        match self {
            Self::SafeRate => sizing.planned(),
            Self::Goodput => &sizing.at_goodput,
        }
    }
}

/// Sorts candidates by currency (in order of first appearance, those without a price last), and within a currency by requests per
/// cost, the most first; without prices by number of GPUs, the fewest first.
pub fn ranked(mut all: Vec<Sizing>) -> Vec<Sizing> {
    let by = basis(&all);
    let mut labels: Vec<Option<String>> = Vec::new();
    for s in &all {
        let label = currency_of(s);
        if s.at_goodput.cost.is_some() && !labels.contains(&label) {
            labels.push(label);
        }
    }
    let key = |s: &Sizing| match s.at_goodput.cost {
        Some(_) => labels.iter().position(|l| *l == currency_of(s)).unwrap_or(labels.len()),
        None => labels.len(),
    };
    all.sort_by(|a, b| {
        let worth = |s: &Sizing| by.fleet(s).replica.rate_per_cost().unwrap_or(0.0);
        let gpus = |s: &Sizing| by.fleet(s).gpus;
        key(a).cmp(&key(b)).then(worth(b).total_cmp(&worth(a))).then(gpus(a).cmp(&gpus(b)))
    });
    all
}

/// Returns the currency label of a candidate's prices; `None` counts as a currency of its own.
pub fn currency_of(s: &Sizing) -> Option<String> {
    s.candidate.currency.clone()
}

/// Returns the currencies of the candidates' prices, in order; prices in different currencies are not compared.
pub fn currencies(all: &[Sizing]) -> Vec<Option<String>> {
    let mut labels: Vec<Option<String>> = Vec::new();
    for label in all.iter().filter(|s| s.at_goodput.cost.is_some()).map(currency_of) {
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    labels
}

/// Groups candidates whose prices have the same currency label, for one table each. With several currencies, candidates without a
/// price form the last group.
pub fn by_currency(all: &[Sizing]) -> Vec<Vec<Sizing>> {
    let labels = currencies(all);
    if labels.len() < 2 {
        return vec![all.to_vec()];
    }
    let mut groups: Vec<Vec<Sizing>> = vec![Vec::new(); labels.len() + 1];
    for s in all {
        let priced = labels.iter().position(|l| s.at_goodput.cost.is_some() && *l == currency_of(s));
        groups[priced.unwrap_or(labels.len())].push(s.clone());
    }
    groups.retain(|g| !g.is_empty());
    groups
}

/// Returns the names of two candidates that are the same server under different traffic, if there are any: alternatives of
/// workload, not of cost.
pub fn same_server(all: &[Sizing]) -> Option<[&str; 2]> {
    let measured = |s: &Sizing| s.candidate.measured.as_ref().map(|m| (m.run.clone(), m.variant.clone()));
    all.iter().enumerate().find_map(|(i, s)| {
        let own = measured(s)?;
        let other = all.iter().skip(i + 1).find(|other| measured(other).as_ref() == Some(&own))?;
        Some([s.candidate.name.as_str(), other.candidate.name.as_str()])
    })
}

/// Relative difference of tokens per request above which workloads are not comparable.
const TOKEN_TOLERANCE: f64 = 0.05;

type Text = fn(&MeasurementConditions) -> &str;
type Tokens = fn(&MeasurementConditions) -> Option<f64>;

/// Describes in what the candidates' measurements differ; each entry names the first two that differ.
pub fn differences(all: &[Sizing]) -> Vec<String> {
    let measured: Vec<(&str, &MeasurementConditions)> = all
        .iter()
        .filter_map(|s| Some((s.candidate.name.as_str(), s.candidate.measured.as_ref()?)))
        .collect();
    let Some(((first, one), others)) = measured.split_first() else { return Vec::new() };
    let mut differences = Vec::new();
    let texts: [(&str, Text); 3] =
        [("SLO", |m| &m.slo), ("workload", |m| &m.workload), ("model", |m| &m.model)];
    for (what, of) in texts {
        if let Some((name, other)) = others.iter().find(|(_, m)| of(m) != of(one)) {
            differences.push(format!("{what}: {first} has \"{}\", {name} has \"{}\"", of(one), of(other)));
        }
    }
    let tokens: [(&str, Tokens); 2] = [
        ("prompt tokens of a request", |m| m.prompt_tokens),
        ("output tokens of a request", |m| m.output_tokens),
    ];
    for (what, of) in tokens {
        let far = |m: &MeasurementConditions| {
            of(one).zip(of(m)).filter(|(a, b)| (a / b - 1.0).abs() > TOKEN_TOLERANCE)
        };
        if let Some((name, (a, b))) = others.iter().find_map(|(name, m)| Some((name, far(m)?))) {
            let short = goodput_core::units::short;
            differences.push(format!(
                "{what}: {first} has {} in the mean, {name} has {}",
                short(a),
                short(b)
            ));
        }
    }
    if let Some((name, _)) = others.iter().find(|(_, m)| m.virtual_time != one.virtual_time) {
        let (simulated, real) = if one.virtual_time { (first, name) } else { (name, first) };
        differences.push(format!("clock: {simulated} was measured in simulated time, {real} was not"));
    }
    differences
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
            items: None,
        }
    }

    fn sized(all: Vec<Candidate>) -> Vec<Sizing> {
        let demand = Demand::of_volume("5M".parse().unwrap(), 1.0);
        all.into_iter().map(|c| Sizing::of(c, &demand, &Reserve::default())).collect()
    }

    #[test]
    fn candidates_are_ranked_by_requests_per_cost() {
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
    fn candidates_are_ranked_by_the_goodput_if_one_lacks_a_safe_rate() {
        let mut open = candidate("a", 35.0, Some(1.0), None);
        open.safe = None;
        let all = sized(vec![open, candidate("b", 36.0, Some(1.0), None)]);
        assert_eq!(basis(&all), Basis::Goodput);
        assert_eq!(ranked(all)[0].candidate.name, "b");
    }

    /// The limit is judged for the fleet to plan with, at its actual utilisation.
    #[test]
    fn a_cost_limit_is_judged_at_the_demand() {
        let limited =
            |max| Candidate { max_cost_per_mtok: Some(max), ..candidate("a", 35.0, Some(0.39), None) };
        // 2 × 0.39 × 24 for 150 million tokens: 0.125. At full load it would be 0.115 at the safe rate.
        let verdicts: Vec<_> =
            sized(vec![limited(0.13), limited(0.12)]).iter().map(|s| s.cost_limit).collect();
        assert_eq!(verdicts, [Some(CostVerdict::Accepted), Some(CostVerdict::Rejected)]);
        assert_eq!(sized(vec![candidate("a", 1.0, None, None)])[0].cost_limit, None);
    }

    #[test]
    fn differences_between_runs_are_described() {
        let measured = MeasurementConditions {
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
            simulated: false,
        };
        let with = |name: &str, measured: MeasurementConditions| Candidate {
            measured: Some(measured),
            ..candidate(name, 1.0, None, None)
        };
        let of = |other: MeasurementConditions| {
            differences(&sized(vec![with("a", measured.clone()), with("b", other)]))
        };
        assert!(of(MeasurementConditions { output_tokens: Some(30.5), ..measured.clone() }).is_empty());
        let all = of(MeasurementConditions {
            slo: "p99 TTFT ≤ 80 ms".into(),
            workload: "x".into(),
            model: "n".into(),
            output_tokens: Some(60.0),
            virtual_time: true,
            simulated: true,
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
