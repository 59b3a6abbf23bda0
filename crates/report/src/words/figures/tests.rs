use super::*;
use goodput_core::caveat::{Cause, Excess};
use goodput_run::fixture;

#[test]
fn good_requests_are_those_of_the_tier() {
    let (_, mut run) = fixture::cases().into_iter().find(|(n, _)| *n == "two-steps").unwrap();
    let joint = |tier: &str, misses| goodput_stats::stats::step::LimitRow {
        tier: tier.into(),
        limit: "joint".into(),
        n: 2400,
        misses,
        ..run.steps[0].limits[0].clone()
    };
    let rows = [joint("main", 0), joint("bulk", 1200)];
    run.steps[0].limits.extend(rows);
    for (tier, want) in [("main", 20.0), ("bulk", 10.0)] {
        let good = run.steps[0].good_rate_of(tier);
        assert!((good - want).abs() < 1e-9, "{tier}: {good}");
    }
    let bulk = Answer { tier: "bulk".into(), ..run.answers[0].clone() };
    assert_eq!(good_requests(&run, &bulk), "10 req/s at 20 req/s", "at the answer's step");
    let mut open = bulk;
    open.goodput.bracket.met = None;
    assert_eq!(good_requests(&run, &open), "best step 10 req/s at 20 req/s", "the most of any step");
}

/// Rows: the hardware table, and the price described for it.
#[test]
fn a_price_says_what_is_in_it() {
    let mut run = fixture::found();
    for (table, says) in [
        ("price-per-hour = 0.39", "at 0.39 USD an hour"),
        ("gpus = 2\nprice-per-hour = 0.39", "at 2 × 0.39 USD an hour"),
        ("tensor-parallel = 8\nprice-per-hour = 2", "at 8 × 2 USD an hour"),
        (
            "price-per-hour = 0.39\nwatts = 300\nenergy-price = 0.25",
            "at 0.465 USD an hour, 0.075 USD of it energy (300 W at 0.25 USD a kWh)",
        ),
        (
            "price-per-hour = 0.39\nenergy-price = 0.25",
            "at 0.39 USD an hour, without energy: what a GPU draws is not declared (hardware.watts)",
        ),
    ] {
        run.hardware = toml::from_str(table).unwrap();
        run.meta.gpus = run.hardware.gpu_count();
        (run.price_per_hour, run.currency) = (run.hardware.total_price_per_hour(), Some("USD".into()));
        assert_eq!(price(&run).as_deref(), Some(says), "{table}");
    }
}

#[test]
fn caveats_are_said_once() {
    let (_, mut run) = fixture::cases().into_iter().find(|(n, _)| *n == "found").unwrap();
    let excess = |p99_ms| Excess { p99_ms, allowed_ms: 10.0, limit_ms: 200.0, cause: Cause::Unknown };
    let late = |step, p99_ms, invalid| {
        Caveat::Client(ClientCaveat::OwnLimit {
            step,
            fault: OwnFault::Late(excess(p99_ms)),
            invalid,
            judged: true,
        })
    };
    run.caveats = vec![
        Caveat::Origin(OriginCaveat::VirtualTime),
        Caveat::Origin(OriginCaveat::Simulated),
        late(1, 11.0, false),
        late(2, 30.0, false),
        late(3, 12.0, false),
    ];
    let said = caveats(&run);
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(
        said[1].text.starts_with("In step 2 the client sent late")
            && said[1].text.ends_with("The same happened in 2 other steps."),
        "{said:?}"
    );
    run.caveats = vec![
        Caveat::Origin(OriginCaveat::Simulated),
        late(4, 11.0, false),
        Caveat::Origin(OriginCaveat::Simulated),
    ];
    assert_eq!(caveats(&run).len(), 2);
    assert!(!caveats(&run)[1].text.contains("other"));
    run.caveats = vec![late(4, 11.0, false), late(5, 30.0, true)];
    assert_eq!(caveats(&run).len(), 2, "that a step is invalid is said of its own");
}
