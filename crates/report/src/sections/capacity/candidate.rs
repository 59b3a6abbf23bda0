//! Candidates for a fleet: one for each answer of a run that has a rate, and the reasons for the others.

use super::conditions::{measured, notes};
use super::pick::{left_out, picked, variant};
use super::refused::{Refused, no_answer, refusal, resume};
use crate::escape::clip;
use crate::words;
use anyhow::{Result, bail};
use goodput_core::caveat::Caveat;
use goodput_core::units::Positive;
use goodput_run::rundir::Run;
use goodput_run::rundir::derive::usable_safe_rate;
use goodput_run::rundir::variants::State;
use goodput_stats::capacity::fleet::Replica;
use goodput_stats::capacity::sizing::{Candidate, ItemsOfRequest, MeasurementConditions};
use goodput_stats::capacity::workload_change::WorkloadChange;
use goodput_stats::capacity::{Capacity, Hardware};
use goodput_stats::search::answer::{Answer, Status};
use goodput_stats::stats::gpu::mean_watts_per_gpu;
use std::num::NonZeroU32;
use std::path::Path;

/// Values from the command line that replace those declared in the plan of a run.
#[derive(Debug, Clone, Default)]
pub struct HardwareOverrides {
    /// GPUs per copy of the model.
    pub gpus_per_replica: Option<NonZeroU32>,
    /// Price of a GPU per hour.
    pub price_per_hour: Option<Positive>,
    /// Currency of prices.
    pub currency: Option<String>,
    /// Power of a GPU, in watts.
    pub watts: Option<Positive>,
    /// Price of a kilowatt-hour.
    pub energy_price: Option<Positive>,
    /// Maximum cost of a million output tokens.
    pub max_cost_per_mtok: Option<Positive>,
    /// Output tokens per request.
    pub output_tokens: Option<Positive>,
}

impl HardwareOverrides {
    /// Returns the declared hardware with these values in its place.
    pub fn over(&self, declared: &Hardware) -> Hardware {
        let own = declared.clone();
        Hardware {
            gpus: own.gpus.or(own.tensor_parallel).or(self.gpus_per_replica),
            tensor_parallel: self.gpus_per_replica.or(own.tensor_parallel),
            price_per_hour: self.price_per_hour.or(own.price_per_hour),
            currency: self.currency.clone().or(own.currency),
            watts: self.watts.or(own.watts),
            energy_price: self.energy_price.or(own.energy_price),
            max_cost_per_mtok: self.max_cost_per_mtok.or(own.max_cost_per_mtok),
            ..own
        }
    }
}

/// Returns the candidates of a run called `name` in `folder`: for each main series the answer of the first tier, or
/// those that `select` names by series, tier, or `series/tier`.
///
/// # Errors
///
/// `select` names something that does not exist, or a given value contradicts the measurement.
pub fn of_run(
    run: &Run,
    (name, folder): (&str, &Path),
    select: Option<&str>,
    given: &HardwareOverrides,
) -> Result<(Vec<Candidate>, Vec<Refused>)> {
    let mut refused = Vec::new();
    if run.answers.is_empty() {
        return Ok((Vec::new(), vec![no_answer(run, name)]));
    }
    let mut found = Vec::new();
    for answer in picked(run, name, select)? {
        let part = run.part(&answer.series);
        let own = whose(run, answer, name);
        match candidate(part, answer, &own, given)? {
            Some(mut c) => {
                let variant = variant(run, &answer.series).map(str::to_owned);
                c.measured =
                    measured(part, answer, name, given).map(|m| MeasurementConditions { variant, ..m });
                c.notes.extend(
                    left_out(run, answer).map(|said| {
                        format!("Planned with is its series {}; {said}.", clip(&answer.series, 80))
                    }),
                );
                c.notes.extend(broken_off(run, answer, folder));
                found.push(c);
            }
            None => refused.push(refusal(run, answer, own, folder)),
        }
    }
    Ok((found, refused))
}

/// Returns a note that the sweep ended before its search was done; none for a variant that was measured completely.
fn broken_off(run: &Run, answer: &Answer, folder: &Path) -> Option<String> {
    let whole = run.variants.iter().any(|v| v.series == answer.series && v.state == State::Done);
    let ended = run.part(&answer.series).caveats.iter().any(Caveat::ends_sweep);
    (ended && !whole).then(|| {
        format!(
            "Its sweep was broken off before it was done: the rate rests on the steps measured until then. {} measures the rest.",
            resume(folder)
        )
    })
}

/// Returns the name of a run, with the part that distinguishes its answer from the others.
fn whose(run: &Run, answer: &Answer, name: &str) -> String {
    match words::whose(run, answer) {
        whose if whose.is_empty() => name.to_owned(),
        whose => format!("{name}, {whose}"),
    }
}

/// Returns one replica of the measured server, at the goodput and at the safe rate; `None` if no rate is shown to meet
/// the SLO.
///
/// # Errors
///
/// The GPUs of a replica do not divide the measured GPUs.
pub(crate) fn candidate(
    run: &Run,
    answer: &Answer,
    name: &str,
    given: &HardwareOverrides,
) -> Result<Option<Candidate>> {
    let hardware = given.over(&run.hardware);
    if let (Some(each), Some(all)) = (given.gpus_per_replica, hardware.gpu_count())
        && all % each.get() != 0
    {
        bail!(
            "--gpus-per-replica {each}: {name} was measured on {all} GPUs by its plan, which so many do not divide: replicas are copies of the \
             model, and the measured server is one or several of them"
        );
    }
    let Some(goodput) = run.capacity(answer) else { return Ok(None) };
    let safe = run.capacity_at_safe_rate(answer);
    let (watts, told) = watts(run, answer, &hardware, &goodput);
    let replica = |c: &Capacity| {
        let gpus = hardware.gpus_per_replica();
        let copies = f64::from(copies(&hardware));
        let tokens = c.output_tokens_per_s.map(|t| t / c.requests_per_s);
        Replica {
            rate: c.requests_per_s / copies,
            gpus,
            output_tokens: given.output_tokens.map(Positive::get).or(tokens),
            price_per_hour: hardware.price_per_hour.map(Positive::get),
            watts,
            energy_price: hardware.energy_price.map(Positive::get),
        }
    };
    let g = &answer.goodput;
    let estimate = usable_safe_rate(g).is_some() && g.rate().is_some();
    Ok(Some(Candidate {
        name: name.to_owned(),
        gpu: hardware.gpu.clone(),
        goodput: replica(&goodput),
        safe: safe.as_ref().map(replica),
        basis: if estimate && g.status() != Status::NotReached {
            "the goodput"
        } else {
            "the highest rate shown to meet"
        }
        .into(),
        currency: hardware.currency.clone(),
        max_cost_per_mtok: hardware.max_cost_per_mtok.map(Positive::get),
        measured: None,
        notes: notes(run, answer, &hardware).into_iter().chain(told).collect(),
        moved: moved(run),
        items: run
            .item()
            .zip(goodput.items_per_s)
            .map(|(item, rate)| ItemsOfRequest { item, per_request: rate / goodput.requests_per_s }),
    }))
}

/// Returns the effect of workload changes on the rate, if the run measured it.
fn moved(run: &Run) -> Vec<WorkloadChange> {
    let effects = run.view.sensitivity.iter().flat_map(|s| &s.effects);
    effects.filter_map(|e| Some(WorkloadChange::of(&e.factor, &e.elasticity?))).collect()
}

/// Returns the number of copies of the model that were measured together.
pub(super) fn copies(hardware: &Hardware) -> u32 {
    let each = hardware.gpus_per_replica();
    (hardware.gpu_count().unwrap_or(each) / each).max(1)
}

/// Returns the power of a GPU in watts: as declared, else as measured by `[[metrics]]` at the answer, if these cover
/// every GPU; and a note on the source.
fn watts(run: &Run, answer: &Answer, hardware: &Hardware, c: &Capacity) -> (Option<f64>, Option<String>) {
    if let Some(watts) = hardware.watts {
        return (Some(watts.get()), None);
    }
    let own = run.steps.iter().find(|s| s.step == c.step && s.series == answer.series);
    let measured = own.and_then(|s| mean_watts_per_gpu(&s.metrics));
    let all = hardware.gpu_count().map(|n| n as usize);
    match measured.filter(|(_, n)| Some(*n) == all) {
        Some((watts, _)) => {
            let said =
                format!("A GPU drew {} W in step {}, as its metrics had it.", words::figure(watts), c.step);
            (Some(watts), Some(said))
        }
        None => {
            let said = "Its plan has a price of energy, and what a GPU draws is told neither by hardware.watts nor by [[metrics]]: energy is \
                        in none of its costs; --watts says it.";
            (None, hardware.energy_price.map(|_| said.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_core::caveat::SweepCaveat;
    use goodput_run::fixture;
    use goodput_stats::search::answer::Conclusion;

    fn case(name: &str) -> Run {
        fixture::cases().into_iter().find(|(n, _)| *n == name).map(|(_, r)| r).unwrap()
    }

    fn named(path: &str) -> (&str, &Path) {
        (path, Path::new(path))
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-6 * b.abs()
    }

    #[test]
    fn an_estimate_offers_both_its_rates() {
        let mut run = case("interval");
        run.hardware = toml::from_str(
            "gpu = \"A40\"\ngpus = 4\ntensor-parallel = 2\nprice-per-hour = 0.39\ncurrency = \"USD\"",
        )
        .unwrap();
        let (all, refused) = of_run(&run, named("runs/a"), None, &HardwareOverrides::default()).unwrap();
        let c = &all[0];
        assert!(refused.is_empty() && c.basis == "the goodput" && c.currency.as_deref() == Some("USD"));
        assert!(
            near(c.goodput.rate, 33.4 / 2.0) && near(c.safe.unwrap().rate, 31.6 / 2.0),
            "{c:?}: two replicas"
        );
        assert!(c.goodput.gpus == 2 && near(c.goodput.output_tokens.unwrap(), 30.0));
        assert!(c.notes.iter().any(|n| n.starts_with("2 replicas were measured together")), "{:?}", c.notes);
        let given = HardwareOverrides {
            gpus_per_replica: NonZeroU32::new(4),
            output_tokens: Some(60.0.try_into().unwrap()),
            ..HardwareOverrides::default()
        };
        let c = of_run(&run, named("runs/a"), None, &given).unwrap().0.swap_remove(0);
        assert!(
            near(c.goodput.rate, 33.4) && c.goodput.gpus == 4 && near(c.goodput.output_tokens.unwrap(), 60.0)
        );
        let three =
            HardwareOverrides { gpus_per_replica: NonZeroU32::new(3), ..HardwareOverrides::default() };
        let e = of_run(&run, named("runs/a"), None, &three).unwrap_err().to_string();
        assert!(e.contains("--gpus-per-replica 3: runs/a was measured on 4 GPUs"), "{e}");
    }

    #[test]
    fn a_copy_is_as_large_as_the_plan_says() {
        let mut run = case("interval");
        run.hardware = toml::from_str("tensor-parallel = 8\nprice-per-hour = 2\nenergy-price = 0.2").unwrap();
        let c = of_run(&run, named("r"), None, &HardwareOverrides::default()).unwrap().0.swap_remove(0);
        assert!(c.goodput.gpus == 8 && near(c.goodput.rate, 33.4), "{c:?}");
        assert!(!c.notes.iter().any(|n| n.contains("on one GPU")), "{:?}", c.notes);
        assert!(c.notes.iter().any(|n| n.contains("energy is in none of its costs")), "{:?}", c.notes);
        let four = HardwareOverrides {
            gpus_per_replica: NonZeroU32::new(4),
            watts: Some(500.0.try_into().unwrap()),
            ..HardwareOverrides::default()
        };
        let c = of_run(&run, named("r"), None, &four).unwrap().0.swap_remove(0);
        assert!(c.goodput.gpus == 4 && near(c.goodput.rate, 16.7), "two copies on its eight GPUs: {c:?}");
        assert_eq!(c.measured.map(|m| (m.copies, m.tokens_given)), Some((2, false)));
        assert!(!c.notes.iter().any(|n| n.contains("energy")), "{:?}", c.notes);
        run.hardware = Hardware::default();
        let c = of_run(&run, named("r"), None, &HardwareOverrides::default()).unwrap().0.swap_remove(0);
        assert!(c.notes.iter().any(|n| n.contains("on one GPU")), "{:?}", c.notes);
    }

    /// Rows: case; the name of its rate, or why it has none; and a note.
    #[test]
    fn every_answer_says_what_it_is_worth() {
        for (name, says, note) in [
            ("found", "the highest rate shown to meet", ""),
            ("not-reached", "the highest rate shown to meet", "More was not tried"),
            ("concurrency", "the highest rate shown to meet", "closed loop"),
            ("none", "no rate meets its SLO", ""),
            ("undecided", "is undecided", ""),
            ("no-step", "no step was finished", ""),
        ] {
            let run = case(name);
            let (found, refused) = of_run(&run, named("r"), None, &HardwareOverrides::default()).unwrap();
            let said = found.first().map(|c| (c.basis.clone(), c.notes.join(" ")));
            let (what, notes) =
                said.unwrap_or_else(|| refused.first().map(|r| (r.why.clone(), r.advice.clone())).unwrap());
            assert!(what.contains(says) && notes.contains(note), "{name}: {what}; {notes}");
            assert!(refused.iter().all(|r| r.advice.contains("goodput")), "{refused:?}");
        }
    }

    #[test]
    fn one_of_several_answers_is_named() {
        let run = case("tiers");
        let tier = run.answers[1].tier.clone();
        let (first, _) = of_run(&run, named("r"), None, &HardwareOverrides::default()).unwrap();
        assert!(
            first.len() == 1 && first[0].notes.iter().any(|n| n.contains(&format!("RUN#{tier}"))),
            "{first:?}"
        );
        for select in [tier.clone(), format!("main/{tier}")] {
            let (found, _) = of_run(&run, named("r"), Some(&select), &HardwareOverrides::default()).unwrap();
            assert_eq!(found[0].measured.as_ref().map(|m| m.tier.clone()), Some(tier.clone()), "{select}");
        }
        let e =
            of_run(&run, named("r"), Some("lead"), &HardwareOverrides::default()).unwrap_err().to_string();
        assert!(e.contains("r has no answer \"lead\"") && e.contains(&format!("main/{tier}")), "{e}");
    }

    #[test]
    fn variants_are_candidates_and_those_without_an_answer_say_why() {
        let run = fixture::variants();
        let (found, refused) = of_run(&run, named("r"), None, &HardwareOverrides::default()).unwrap();
        let names: Vec<&str> = found.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["r, small", "r, large"]);
        assert_eq!(refused.len(), 1, "{refused:?}");
        assert!(refused[0].name == "r, huge" && refused[0].why.contains("out of memory"), "{refused:?}");
    }

    /// The warm cache is another case of the same server: it is planned with only if named, but mentioned otherwise.
    #[test]
    fn a_pair_is_planned_with_its_cold_cache() {
        let mut run = fixture::pair();
        let (found, refused) = of_run(&run, named("r"), None, &HardwareOverrides::default()).unwrap();
        assert!(found.len() == 1 && refused.is_empty() && found[0].name == "r, cold", "{found:?}");
        assert!(
            found[0].notes.iter().any(|n| n
                == "Planned with is its series cold; RUN#SERIES plans with another of its series: warm."),
            "{:?}",
            found[0].notes
        );
        let (found, _) = of_run(&run, named("r"), Some("warm"), &HardwareOverrides::default()).unwrap();
        assert_eq!(found[0].name, "r, warm");
        let cold = run.answers.iter_mut().chain(&mut run.parts[0].answers).filter(|a| a.series == "cold");
        for a in cold {
            (a.goodput.conclusion, a.goodput.bracket.met) = (Conclusion::OPEN, None);
        }
        let (found, refused) = of_run(&run, named("r"), None, &HardwareOverrides::default()).unwrap();
        assert!(found.is_empty() && refused[0].name == "r, cold", "{found:?}");
        assert!(
            refused[0].advice.ends_with("RUN#SERIES plans with another of its series: warm"),
            "{refused:?}"
        );
    }

    /// The rate of an unfinished sweep is marked as such; a variant that was measured before the end is complete.
    #[test]
    fn a_sweep_that_was_broken_off_is_told() {
        let told = |run: &Run| -> Vec<bool> {
            let found =
                of_run(run, ("r", Path::new("runs/r")), None, &HardwareOverrides::default()).unwrap().0;
            let says = |n: &String| {
                n.starts_with("Its sweep was broken off") && n.contains("--resume runs/r measures")
            };
            found.iter().map(|c| c.notes.iter().any(says)).collect()
        };
        let mut run = case("interval");
        assert_eq!(told(&run), [false]);
        run.caveats.push(Caveat::Sweep(SweepCaveat::Interrupted));
        assert_eq!(told(&run), [true]);
        let mut several = fixture::variants();
        several.variants[1].state = State::Running;
        for part in &mut several.parts {
            part.caveats.push(Caveat::Sweep(SweepCaveat::Interrupted));
        }
        assert_eq!(told(&several), [false, true]);
    }

    #[test]
    fn measured_power_is_used_where_none_is_declared() {
        let mut run = fixture::served();
        run.hardware = toml::from_str("gpus = 2").unwrap();
        let c = of_run(&run, named("r"), None, &HardwareOverrides::default()).unwrap().0.swap_remove(0);
        assert!(
            c.goodput.watts.is_some_and(|w| w > 90.0) && c.notes.iter().any(|n| n.contains(" W in step ")),
            "{c:?}"
        );
        run.hardware.watts = Some(300.0.try_into().unwrap());
        assert_eq!(
            of_run(&run, named("r"), None, &HardwareOverrides::default()).unwrap().0[0].goodput.watts,
            Some(300.0)
        );
        run.hardware = toml::from_str("gpus = 1").unwrap();
        assert_eq!(
            of_run(&run, named("r"), None, &HardwareOverrides::default()).unwrap().0[0].goodput.watts,
            None,
            "of which GPU?"
        );
    }
}
