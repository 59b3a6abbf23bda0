//! `result.json` in English: the facts of the run folder, with a text for each caveat and each finding.

use crate::words::{self, Context, caveat, finding};
use goodput_run::rundir::{Run, json as facts};
use goodput_stats::diagnosis::{Advice, Finding};
use serde_json::{Value, json};

/// Returns the result of a run as JSON, schema `goodput/1`. Every number is finite or null.
///
/// A running sweep writes only the facts; the words come with the reports.
pub fn result(run: &Run) -> Value {
    let mut result = facts::result(run);
    let context = Context::of(run);
    let values = result["caveats"].as_array_mut().into_iter().flatten();
    for (value, fact) in values.zip(&run.caveats) {
        let words = caveat(fact, context);
        value["text"] = words.text.into();
        value["advice"] = words.advice.into();
    }
    let values = result["findings"].as_array_mut().into_iter().flatten();
    for (value, fact) in values.zip(&run.why.findings) {
        add_words(value, fact);
    }
    let values = result["untold"].as_array_mut().into_iter().flatten();
    for (value, fact) in values.zip(&run.why.untold) {
        value["missing"] = fact.missing.iter().map(|source| finding::source(*source)).collect();
        if let Some(next) = &fact.next {
            value["next"]["text"] = finding::next(&next.measurement).into();
        }
    }
    let values = result["matrix"].as_array_mut().into_iter().flatten();
    for (value, row) in values.zip(&run.matrix) {
        value["evidence"] = words::bottleneck(&row.evidence).into();
    }
    if let Some(figures) = result.get_mut(run.purpose.name()).filter(|of| of.get("how").is_some()) {
        figures["not_capacity"] = words::not_capacity(run).into();
    }
    result
}

/// Adds the English text to a finding.
fn add_words(value: &mut Value, fact: &Finding) {
    value["title"] = finding::title(fact).into();
    value["advice"] = fact.advice.iter().map(finding::advice).collect();
    value["changes"] = fact.advice.iter().map(change).collect();
    value["next"]["text"] = finding::next(&fact.next.measurement).into();
    let evidence = value["evidence"].as_array_mut().into_iter().flatten();
    for (value, one) in evidence.zip(&fact.evidence) {
        value["text"] = finding::evidence(&one.fact).into();
    }
}

/// Returns an advice as data: the flag, the present value with its source, the value to set. All are null for a change
/// that is no setting of the server.
fn change(advice: &Advice) -> Value {
    let to = advice.to.as_ref();
    json!({
        "flag": advice.flag.map(|flag| flag.name),
        "from": advice.from.as_ref().map(|from| &from.value),
        "source": advice.from.as_ref().map(|from| from.origin),
        "to": to.map(|to| &to.value),
        "basis": to.map(|to| to.basis),
        "expected": advice.expected,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_run::fixture;

    #[test]
    fn every_caveat_has_its_words() {
        for (case, run) in fixture::cases() {
            let result = result(&run);
            let caveats = result["caveats"].as_array().unwrap();
            assert_eq!(caveats.len(), run.caveats.len(), "{case}");
            for value in caveats {
                for key in ["text", "advice"] {
                    assert!(value[key].as_str().is_some_and(|text| !text.is_empty()), "{case}: {value}");
                }
            }
        }
    }
}
