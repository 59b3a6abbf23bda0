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
    let three = HardwareOverrides { gpus_per_replica: NonZeroU32::new(3), ..HardwareOverrides::default() };
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
    let e = of_run(&run, named("r"), Some("lead"), &HardwareOverrides::default()).unwrap_err().to_string();
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
        found[0]
            .notes
            .iter()
            .any(|n| n
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
    assert!(refused[0].advice.ends_with("RUN#SERIES plans with another of its series: warm"), "{refused:?}");
}

/// The rate of an unfinished sweep is marked as such; a variant that was measured before the end is complete.
#[test]
fn a_sweep_that_was_broken_off_is_told() {
    let told = |run: &Run| -> Vec<bool> {
        let found = of_run(run, ("r", Path::new("runs/r")), None, &HardwareOverrides::default()).unwrap().0;
        let says =
            |n: &String| n.starts_with("Its sweep was broken off") && n.contains("--resume runs/r measures");
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
