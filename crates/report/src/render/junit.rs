//! The gates of a comparison as JUnit's XML, which most CI servers show as tests.
//!
//! Each gate is a test case for each figure and side that it was judged on. A gate that is undecided is an *error*: the test gave no
//! answer. It is neither a success nor skipped, as the exit code is not 0 either.

use crate::escape::plain;
use crate::words;
use anyhow::{Context, Result};
use askama::Template;
use goodput_run::compare::gate::{GateResult, Outcome};
use goodput_run::compare::{Comparison, Side};

#[derive(Template)]
#[template(path = "junit.xml")]
struct Page {
    cases: Vec<Case>,
    failures: usize,
    errors: usize,
}

/// A test case.
struct Case {
    side: String,
    name: String,
    result: GateResult,
    reason: String,
}

/// Returns the gates of a comparison as XML. A side whose server stopped answering has a test case of its own, since gates hold
/// only on the steps before that.
///
/// # Errors
/// The template cannot be filled in.
pub fn junit(c: &Comparison, sides: &[Side]) -> Result<String> {
    let cases: Vec<Case> = c.gates.iter().map(of_gate).chain(sides.iter().filter_map(of_server)).collect();
    let count = |result| cases.iter().filter(|case| case.result == result).count();
    let (failures, errors) = (count(GateResult::Fails), count(GateResult::Undecided));
    Page { cases, failures, errors }.render().context("failed to fill in the JUnit template")
}

fn of_gate(gate: &Outcome) -> Case {
    Case {
        side: plain(&gate.side),
        name: plain(&format!("{} ({})", gate.gate, gate.row)),
        result: gate.result,
        reason: plain(&words::gate_reason(gate)),
    }
}

fn of_server(side: &Side) -> Option<Case> {
    let step = side.gone()?;
    Some(Case {
        side: plain(&side.label),
        name: "the server answers to the end".into(),
        result: GateResult::Undecided,
        reason: format!("it stopped answering in step {step}: gates are about the steps before"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_core::caveat::{Caveat, ServerCaveat};
    use goodput_run::compare::compare;
    use goodput_run::compare::gate::Gate;
    use goodput_run::fixture;

    #[test]
    fn each_gate_is_a_test_case_and_so_is_a_server_that_is_gone() {
        let mut sides = fixture::pair_sides();
        let mut c = compare(&sides, true).unwrap();
        let gates = ["goodput >= -99%", "goodput <= +1%", "ttft.p99@77 <= +5%"];
        c.gates = gates.iter().flat_map(|g| Gate::parse(g).unwrap().judge(&c)).collect();
        sides[1].label = "<new> & \"old\"\u{1}".into();
        sides[1].run.caveats.push(Caveat::Server(ServerCaveat::ServerGone { step: 7 }));
        insta::assert_snapshot!(junit(&c, &sides).unwrap());
    }
}
