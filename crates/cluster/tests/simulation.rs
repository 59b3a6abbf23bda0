//! The two state machines over a simulated bus in virtual time, through thousands of random schedules.
//!
//! `GOODPUT_SIMULATION_SEED` sets the first seed, and `GOODPUT_SIMULATION_RUNS` the number of schedules. A schedule that
//! fails is printed; it is run again, alone, with its seed and one run.

#[cfg(test)]
#[path = "../src/fixture.rs"]
mod fixture;
#[cfg(test)]
mod simulation {
    pub(crate) mod leader;
    pub(crate) mod load;
    pub(crate) mod net;
    pub(crate) mod schedule;
    pub(crate) mod step;
    pub(crate) mod worker;
    pub(crate) mod world;
}

#[cfg(test)]
mod tests {
    use crate::simulation::schedule::{Profile, Schedule};
    use crate::simulation::world::{Seen, World};
    use std::collections::BTreeMap;

    const RUNS: u64 = 3000;

    /// Prints the schedule of a simulation that fails.
    struct Printed<'a>(&'a Schedule);

    impl Drop for Printed<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("GOODPUT_SIMULATION_SEED={} GOODPUT_SIMULATION_RUNS=1\n{:?}", self.0.seed, self.0);
            }
        }
    }

    fn run(seed: u64, workers: Option<usize>) -> (Profile, Seen) {
        let schedule = Schedule::draw(seed, workers);
        let _printed = Printed(&schedule);
        (schedule.profile, World::run(&schedule))
    }

    fn variable(name: &str, default: u64) -> u64 {
        std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
    }

    #[test]
    fn the_rules_hold_in_every_schedule() {
        let first = variable("GOODPUT_SIMULATION_SEED", 1);
        let runs = variable("GOODPUT_SIMULATION_RUNS", RUNS);
        let mut seen: BTreeMap<String, Seen> = BTreeMap::new();
        for seed in first..first + runs {
            let (profile, one) = run(seed, None);
            let all = seen.entry(format!("{profile:?}")).or_default();
            all.valid += one.valid;
            all.invalid += one.invalid;
            all.records += one.records;
        }
        println!("{seen:#?}");
        // A simulation in which everything fails before it starts would show nothing.
        let is_rich = |all: &Seen| u64::from(all.valid) * 40 > runs && all.records > runs;
        assert!(runs < RUNS || seen.values().all(is_rich), "{seen:#?}");
    }

    #[test]
    fn the_rules_hold_for_64_workers() {
        for seed in 0..14 {
            run(seed, Some(64));
        }
    }

    #[test]
    fn the_rules_hold_for_1000_workers() {
        for seed in [0, 1, 2] {
            run(seed, Some(1000));
        }
    }
}
