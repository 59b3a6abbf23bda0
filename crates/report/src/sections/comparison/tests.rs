use super::notes::notes;
use super::*;
use crate::render::markdown;
use crate::words;
use goodput_core::caveat::{Caveat, ServerCaveat};
use goodput_core::level::Level;
use goodput_run::compare::Side;
use goodput_run::compare::answer::Finding;
use goodput_run::compare::{Column, Comparison, Scope, common_levels, compare};
use goodput_run::fixture;

#[test]
fn a_server_that_went_away_is_no_pass() {
    for (side, finding) in [(1, [Finding::Worse, Finding::Mixed]), (0, [Finding::Undecided; 2])] {
        let mut sides = fixture::pair_sides();
        sides[side].run.caveats.push(Caveat::Server(ServerCaveat::ServerGone { step: 3 }));
        let c = compare(&sides, true).unwrap();
        assert!(finding.contains(&c.answers[0].finding), "{:?}", c.answers);
        assert!(words::comparison(&c.answers[0]).contains("stopped answering"), "{:?}", c.answers);
        let note = format!("{}: The server stopped answering in step 3", sides[side].label);
        assert!(notes(&c).iter().any(|n| n.starts_with(&note)), "{:?}", c.remarks);
    }
}

#[test]
fn costs_in_two_currencies_have_no_change() {
    let mut sides = fixture::pair_sides();
    for (side, currency) in sides.iter_mut().zip(["USD", "EUR | x"]) {
        (side.run.currency, side.run.price_per_hour) = (Some(currency.into()), Some(0.4));
    }
    let c = compare(&sides, true).unwrap();
    let cost = c.rows.iter().find(|r| r.column == Column::CostPerMtok).unwrap();
    assert!(cost.changes[0].share.is_none() && cost.values.iter().all(Option::is_some), "{cost:?}");
    assert!(notes(&c).iter().any(|n| n.contains("different currencies")));
    let text = markdown::render(&page(&c, &[]));
    assert!(text.contains("USD / EUR \\| x"), "a bar breaks no table: {text}");
    sides[1].run.currency = Some("USD".into());
    let c = compare(&sides, true).unwrap();
    let cost = c.rows.iter().find(|r| r.column == Column::CostPerMtok).unwrap();
    assert!(cost.changes[0].share.is_some());
}

#[test]
fn a_step_is_at_one_level_and_near_ones_claim_nothing() {
    let mut sides = fixture::pair_sides();
    for side in &mut sides {
        let like = common_levels::usable(side)[0].clone();
        let at = |value: f64| {
            let mut step = like.clone();
            step.level.value = value;
            step
        };
        side.run.steps = [10.0, 10.1, 10.2, 20.0].map(at).to_vec();
    }
    let of = |sides: &[Side], side: usize| -> Vec<Vec<f64>> {
        let levels = common_levels::levels(sides);
        levels.iter().map(|l| l.steps[side].iter().map(|s| s.level.value).collect()).collect()
    };
    for side in 0..2 {
        assert_eq!(of(&sides, side), [vec![10.0], vec![10.1, 10.2], vec![20.0]], "each once");
    }
    for (i, side) in sides.iter_mut().enumerate() {
        side.run.steps.retain(|s| s.level == Level::rate([10.0, 10.1][i]) || s.level == Level::rate(20.0));
    }
    let c = compare(&sides, true).unwrap();
    assert!(
        notes(&c).iter().any(|n| n.contains("new was measured at 10.1 where old was at 10 req/s")),
        "{:?}",
        c.remarks
    );
    let claims = |c: &Comparison, level: f64| {
        let own = c.rows.iter().filter(|r| matches!(r.place, Scope::At(l) if l == Level::rate(level)));
        own.filter(|r| r.changes[0].p.is_some()).count()
    };
    assert!(claims(&c, 10.0) > 0 && claims(&c, 20.0) > 0, "along the step at 20: {:?}", c.rows);
    sides.iter_mut().for_each(|side| side.run.steps.retain(|s| s.level != Level::rate(20.0)));
    let c = compare(&sides, true).unwrap();
    assert_eq!(claims(&c, 10.0), 0, "{:?}", c.rows);
    assert!(notes(&c).iter().any(|n| n.contains("no difference is claimed")), "{:?}", c.remarks);
}

#[test]
fn good_requests_are_no_surer_than_how_many_are_good() {
    let width = |misses: u64| {
        let mut sides = fixture::pair_sides();
        for side in &mut sides {
            for step in &mut side.run.steps {
                let mut row = step.limits[0].clone();
                row.limit = "joint".into();
                (row.misses, row.cluster_sq) = (misses, misses * misses);
                row.attainment = Some(1.0 - misses as f64 / row.n as f64);
                step.limits.push(row);
            }
        }
        let c = compare(&sides, true).unwrap();
        let [low, high] =
            c.rows.iter().find(|r| r.name == "good-rate@20").unwrap().changes[0].interval.unwrap();
        high - low
    };
    assert!(width(200) > 1.5 * width(0), "{} {}", width(200), width(0));
}

#[test]
fn the_page_says_how_it_was_made() {
    let mut c = compare(&fixture::pair_sides(), true).unwrap();
    c.asked = ["runs/a#x", "runs/b", "--force", "--gate", "goodput >= -5%"].map(str::to_owned).to_vec();
    let text = markdown::render(&page(&c, &[]));
    assert!(text.contains("`goodput compare 'runs/a#x' runs/b --force --gate 'goodput >= -5%'`"), "{text}");
}
