//! `compare --measure`: merges two plans into one that measures their servers in turns, and schedules its time.

use super::setup;
use anyhow::{Context, Result, bail};
use goodput_core::units::{Fraction, NonEmpty, Rate, Span, short};
use goodput_engine::config::DEFAULT_SEED;
use goodput_plan::server::Target;
use goodput_plan::{Plan, Variant};
use goodput_stats::search::config::{Mode, SearchPlan};
use std::num::NonZeroU32;
use std::time::Duration;

/// Plan tables that may differ between the two servers; everything else must be equal.
const OWN: [&str; 3] = ["server", "hardware", "environment"];
/// Plan keys that are not compared, because they do not matter or are set for both.
const IGNORED: [&str; 5] = ["name", "notes", "seed", "search", "step"];

/// The key of a simulated server's seed.
const SEED: &str = "seed";

/// Minimum measured window: in shorter ones the tails depend on single requests.
const LEAST_MEASURE: Duration = Duration::from_secs(8);
/// Maximum measured window: more turns cancel more drift than longer ones.
const MOST_MEASURE: Duration = Duration::from_secs(60);
/// Target number of turns of each server at each rate: with more, Student's t is practically normal.
const TURNS: u32 = 10;
/// Minimum number of turns that the answer needs.
const LEAST_TURNS: u32 = super::paired::LEAST_PAIRS as u32;
/// Minimum time to connect, to drain and to check that a server is idle.
const BETWEEN: Duration = Duration::from_secs(1);

/// Time schedule of an alternating run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// Load time before the measured window.
    pub settle: Duration,
    /// The measured window.
    pub measure: Duration,
    /// Number of steps of each server at each rate.
    pub turns: NonZeroU32,
}

impl Schedule {
    /// Divides a budget between two servers at `rates` rates. `request` is the approximate duration of the longest
    /// requests: each step waits that long for its last requests, and settles for at least half of it (the duration
    /// of most requests), so that the server is full when the measurement starts.
    ///
    /// # Errors
    /// Fails if the budget is too small for the minimum number of turns; the message gives the needed budget.
    pub fn of(budget: Duration, rates: usize, request: Duration) -> Result<Self> {
        let steps = |turns: u32| f64::from(turns) * 2.0 * rates.max(1) as f64;
        let each = |turns: u32| budget.as_secs_f64() / steps(turns);
        let full = request.as_secs_f64() / 2.0;
        let settle = |each: f64| (each / 6.0).clamp(2.0, 10.0).max(full);
        let beside = |each: f64| settle(each) + BETWEEN.as_secs_f64() + request.as_secs_f64();
        let least = LEAST_MEASURE.as_secs_f64();
        let fits = |turns: u32| each(turns) - beside(each(turns)) >= least;
        let Some(turns) = (LEAST_TURNS..=TURNS).rev().find(|n| fits(*n)) else {
            let needed = steps(LEAST_TURNS)
                * (least + full.max(2.0) + BETWEEN.as_secs_f64() + request.as_secs_f64())
                * 1.1;
            bail!(
                "a budget of {} is too little for {rates} rates: {LEAST_TURNS} turns of each server at each rate take {} at the least, with requests of up \
                 to {} s; give it more, or fewer rates",
                Span::secs(budget.as_secs()),
                Span::secs(needed.ceil() as u64),
                short(request.as_secs_f64())
            );
        };
        // Time left beyond the maximum window goes into more turns.
        let mut turns = turns;
        let window = |n: u32| each(n) - beside(each(n));
        while window(turns) > MOST_MEASURE.as_secs_f64() {
            turns += 1;
        }
        let turns_of = NonZeroU32::new(turns).unwrap_or(NonZeroU32::MIN);
        let whole = |s: f64| Duration::from_secs(s.max(1.0) as u64);
        Ok(Self { settle: whole(settle(each(turns))), measure: whole(window(turns)), turns: turns_of })
    }
}

/// Checks that two plans can be measured in turns.
///
/// # Errors
/// Fails like [`plan`].
pub fn check(sides: &[(String, Plan); 2]) -> Result<()> {
    for (label, plan) in sides {
        alone(plan).with_context(|| format!("{label} cannot be measured in turns with another"))?;
    }
    alike(sides)
}

/// Returns one plan that measures the servers of two plans in turns at these rates.
///
/// # Errors
/// Fails if the plans send different requests, or ask for something that cannot be done for both; the message lists
/// the differences.
pub fn plan(sides: &[(String, Plan); 2], rates: NonEmpty<Rate>, schedule: &Schedule) -> Result<Plan> {
    check(sides)?;
    let [(label, a), (_, b)] = sides;
    let variant = |(name, plan): &(String, Plan)| -> Result<Variant> {
        let mut set = toml::Table::new();
        let table = toml::Table::try_from(plan).context("failed to write the plan as TOML")?;
        for key in OWN {
            if let Some(value) = table.get(key).filter(|v| v.as_table().is_some_and(|t| !t.is_empty())) {
                set.insert(key.to_owned(), value.clone());
            }
        }
        Ok(Variant::new(name.clone(), set))
    };
    let mut both = a.clone();
    // Each variant sets its own tables: one that is missing in the second plan must not come from the first.
    (both.hardware, both.environment) = Default::default();
    both.name = if a.name == b.name {
        format!("{} in turns: {label}, {}", a.name, sides[1].0)
    } else {
        format!("{} against {}", b.name, a.name)
    };
    let mut sides = sides.clone();
    separate_seeds(&mut sides);
    both.variants = sides.iter().map(variant).collect::<Result<_>>()?;
    both.alternate = Some(schedule.turns);
    // A failing side is reported by its failures: a step that was left out would have no partner.
    both.step.max_error_share = Fraction::try_from(1.0).ok();
    both.search =
        SearchPlan { mode: Mode::Rates(rates), max_rate: a.search.max_rate, ..SearchPlan::default() };
    both.step.settle = Span(schedule.settle);
    both.step.measure = Span(schedule.measure);
    both.step.min_requests = 0;
    both.profile = None;
    let text = both.to_toml()?;
    Plan::from_text(&text).context("the two plans make no plan together")
}

/// Gives one of two simulated servers another seed. With equal seeds both would draw the same random numbers, and a
/// rehearsal of a server against itself would show exact zeros without noise. A plan without an explicit seed gets
/// the next one.
fn separate_seeds([(_, a), (_, b)]: &mut [(String, Plan); 2]) {
    let (Target::Simulated(a), Target::Simulated(b)) = (&mut a.server.target, &mut b.server.target) else {
        return;
    };
    let seed = |t: &toml::Table| t.get(SEED).map_or(Some(DEFAULT_SEED as i64), toml::Value::as_integer);
    let (Some(x), Some(y)) = (seed(a), seed(b)) else { return };
    let unset = [b, a].into_iter().find(|t| !t.contains_key(SEED));
    if let Some(table) = unset.filter(|_| x == y) {
        table.insert(SEED.to_owned(), toml::Value::Integer(x.saturating_add(1)));
    }
}

/// Refuses a plan that cannot be one half of a pair.
fn alone(plan: &Plan) -> Result<()> {
    if !plan.variants().is_empty() || !plan.rows.is_empty() || plan.alternate.is_some() {
        bail!(
            "the plan {} has variants, a grid or a matrix of its own: give a plan of one server, or `goodput sweep` it",
            plan.name
        );
    }
    if plan.series().len() > 1 {
        bail!(
            "the plan {} asks for several curves (cache = \"pair\" or alone = true): choose one of them with --set",
            plan.name
        );
    }
    if !plan.purpose.is_goodput() {
        bail!("the plan {} asks for no goodput", plan.name);
    }
    Ok(())
}

/// Checks that both plans send the same requests under the same limits.
fn alike(sides: &[(String, Plan); 2]) -> Result<()> {
    let [a, b] = sides.each_ref().map(|(_, plan)| setup::keys(plan));
    let top = |key: &str| key.split('.').next().unwrap_or_default().to_owned();
    let mut keys: Vec<&String> = a.keys().chain(b.keys()).collect();
    keys.sort();
    keys.dedup();
    let shown = |v: Option<&String>| v.map_or("–".to_owned(), Clone::clone);
    // Timeouts follow from the limits, and both use the longer one.
    let differ: Vec<String> = keys
        .into_iter()
        .filter(|key| a.get(*key) != b.get(*key))
        .filter(|key| !OWN.contains(&top(key).as_str()) && !IGNORED.contains(&top(key).as_str()))
        .map(|key| format!("  {key}: {} → {}", shown(a.get(key)), shown(b.get(key))))
        .collect();
    if differ.is_empty() {
        return Ok(());
    }
    bail!(
        "{} and {} are sent the same requests and judged by the same limits, and their plans differ in:\n{}\nchange it for both with --set or --slo, or \
         name two servers by URL and one plan with --plan",
        sides[0].0,
        sides[1].0,
        differ.join("\n")
    )
}

/// Returns the default rates: a third and two thirds of the highest rate that both servers sustained.
///
/// At the lower rate requests hardly overlap, so that the raw speed of the servers is compared. At the higher rate
/// queues begin, which amplifies a difference in speed.
pub fn rates(highest: f64) -> Vec<f64> {
    let tidy = |x: f64| {
        let digits = 10f64.powf(1.0 - x.log10().floor());
        (x * digits).round() / digits
    };
    [highest / 3.0, highest * 2.0 / 3.0].map(tidy).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: u64 = 60;

    fn of(budget: u64, rates: usize) -> Schedule {
        Schedule::of(Duration::from_secs(budget), rates, Duration::from_secs(1)).unwrap()
    }

    #[test]
    fn budgets_become_turns() {
        for (budget, rates) in [(3 * MIN, 1), (5 * MIN, 2), (10 * MIN, 2), (60 * MIN, 2), (600 * MIN, 1)] {
            let s = of(budget, rates);
            let spent =
                (s.settle + s.measure + BETWEEN + Duration::from_secs(1)) * s.turns.get() * 2 * rates as u32;
            assert!(spent <= Duration::from_secs(budget), "{budget}: {s:?} takes {spent:?}");
            assert!(spent.as_secs_f64() > 0.75 * budget as f64, "{budget}: {s:?} takes {spent:?}");
            assert!(s.measure >= Duration::from_secs(7) && s.measure <= MOST_MEASURE, "{s:?}");
        }
        assert_eq!(of(10 * MIN, 2).turns.get(), 10);
        let e = Schedule::of(Duration::from_secs(30), 2, Duration::from_secs(1)).unwrap_err().to_string();
        assert!(e.contains("a budget of 30s is too little for 2 rates"), "{e}");
    }

    #[test]
    fn rates_are_round() {
        assert_eq!(rates(100.0), [33.0, 67.0]);
        assert_eq!(rates(7.0), [2.3, 4.7]);
        assert_eq!(rates(0.03), [0.01, 0.02]);
    }

    fn side(label: &str, text: &str) -> (String, Plan) {
        let plan = format!(
            "name = \"x\"\nslo.ttft.p99 = \"200ms\"\nsearch.rates = [1]\n[workload]\n\
             prompts.synthetic = {{ input-tokens = {{ fixed = 9 }}, output-tokens = {{ fixed = 3 }} }}\n{text}"
        );
        (label.to_owned(), Plan::from_text(&plan).unwrap())
    }

    fn two() -> NonEmpty<Rate> {
        NonEmpty::try_from([1.0, 2.0].map(|r| Rate::try_from(r).unwrap()).to_vec()).unwrap()
    }

    #[test]
    fn two_plans_become_one_of_two_variants() {
        let sides = [
            side("A", "[server.simulated]\npreset = \"md1\""),
            side("B", "[server.simulated]\npreset = \"md1\"\nslow-down = 1.15\n[hardware]\ngpu = \"A40\""),
        ];
        let plan = plan(&sides, two(), &of(300, 2)).unwrap();
        let series = plan.series();
        assert_eq!(series.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["A", "B"]);
        assert!(
            series[1].plan.measured_server().to_string().contains("1.15")
                && !series[0].plan.measured_server().to_string().contains("1.15")
        );
        assert_eq!(series[1].plan.hardware.gpu.as_deref(), Some("A40"));
        let Mode::Rates(rates) = &series[0].plan.search.mode else { panic!("a list") };
        assert_eq!(rates.iter().count() as u32, 2 * plan.alternate.unwrap().get());
        assert_eq!(Plan::parse(&plan.to_toml().unwrap()).unwrap(), plan, "it can be written and read");
    }

    #[test]
    fn the_second_has_nothing_of_the_first_and_random_numbers_of_its_own() {
        let server = "[server.simulated]\npreset = \"md1\"\n";
        let own = "[hardware]\ngpu = \"A40\"\nprice-per-hour = 0.4\n[environment]\ncommit = \"abc\"\n";
        let sides = [side("A", &format!("{server}{own}")), side("B", server)];
        let series = plan(&sides, two(), &of(300, 2)).unwrap().series();
        assert_eq!(series[0].plan.hardware.gpu.as_deref(), Some("A40"));
        assert_eq!(series[1].plan.hardware, sides[1].1.hardware, "no GPU and no price");
        assert_eq!(series[1].plan.environment, sides[1].1.environment);
        assert_ne!(series[0].plan.environment, series[1].plan.environment);
        let seeds = |plan: &Plan| {
            plan.series()
                .iter()
                .map(|s| match &s.plan.server.target {
                    Target::Simulated(sim) => sim.get(SEED).and_then(toml::Value::as_integer),
                    _ => None,
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(seeds(&plan(&sides, two(), &of(300, 2)).unwrap()), [None, Some(2)]);
        let seeded = format!("{server}seed = 7\n");
        let sides = [side("A", &seeded), side("B", &seeded)];
        assert_eq!(seeds(&plan(&sides, two(), &of(300, 2)).unwrap()), [Some(7); 2], "as they say");
    }

    #[test]
    fn long_requests_are_waited_for() {
        let minutes = |m: u64| Duration::from_secs(60 * m);
        let s = Schedule::of(minutes(20), 2, Duration::from_secs(30)).unwrap();
        assert!(s.settle >= Duration::from_secs(15) && s.turns.get() >= 4, "{s:?}");
        let spent = (s.settle + s.measure + BETWEEN + Duration::from_secs(30)) * s.turns.get() * 4;
        assert!(spent <= minutes(20), "{s:?} takes {spent:?}");
        let e = Schedule::of(minutes(10), 2, Duration::from_secs(30)).unwrap_err().to_string();
        assert!(e.contains("with requests of up to 30 s"), "{e}");
    }

    #[test]
    fn what_is_sent_must_be_the_same() {
        let server = "[server.simulated]\npreset = \"md1\"\n";
        let mut other = side("B", server);
        other.1.workload.arrivals = goodput_workload::arrivals::Arrivals::Constant;
        let e = plan(&[side("A", server), other], two(), &of(300, 2)).unwrap_err().to_string();
        assert!(e.contains("workload.arrivals: poisson → constant"), "{e}");
    }
}
