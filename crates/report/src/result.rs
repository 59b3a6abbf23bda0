//! `result.json` in English: the facts of the run folder, with a text for each caveat and each finding.

mod english;

pub use english::schema;

use crate::words::{self, Context, caveat, finding};
use english::{
    CaveatEnglish, EvidenceEnglish, FindingEnglish, NextEnglish, OfflineEnglish, RowEnglish, SettingChange,
    UntoldEnglish, add,
};
use goodput_run::rundir::{Run, json as facts};
use goodput_stats::diagnosis::{Advice, Finding, Next};
use serde_json::Value;

/// Returns the result of a run as JSON, schema `goodput/1`. Every number is finite or null.
///
/// A running sweep writes only the facts; the words come with the reports.
pub fn result(run: &Run) -> Value {
    let mut result = facts::result(run);
    let context = Context::of(run);
    for (value, fact) in items(&mut result, "caveats").zip(&run.caveats) {
        let words = caveat(fact, context);
        add(value, &CaveatEnglish { text: words.text, advice: words.advice });
    }
    for (value, fact) in items(&mut result, "findings").zip(&run.why.findings) {
        add_words(value, fact);
    }
    for (value, fact) in items(&mut result, "untold").zip(&run.why.untold) {
        let missing = fact.missing.iter().map(|source| finding::source(*source)).collect();
        add(value, &UntoldEnglish { missing });
        if let Some(next) = &fact.next {
            add(&mut value["next"], &next_words(next));
        }
    }
    for (value, row) in items(&mut result, "matrix").zip(&run.matrix) {
        add(value, &RowEnglish { evidence: words::bottleneck(&row.evidence) });
    }
    if let Some(figures) = result.get_mut(run.purpose.name()).filter(|of| of.get("how").is_some()) {
        add(figures, &OfflineEnglish { not_capacity: words::not_capacity(run) });
    }
    result
}

/// Returns the items of a list of an object; none if it is absent, and then adds no null, as indexing would.
fn items<'a>(of: &'a mut Value, key: &str) -> impl Iterator<Item = &'a mut Value> {
    of.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten()
}

/// Adds the English text to a finding.
fn add_words(value: &mut Value, fact: &Finding) {
    let english = FindingEnglish {
        title: finding::title(fact),
        advice: fact.advice.iter().map(finding::advice).collect(),
        changes: fact.advice.iter().map(change).collect(),
    };
    add(value, &english);
    add(&mut value["next"], &next_words(&fact.next));
    for (value, one) in items(value, "evidence").zip(&fact.evidence) {
        add(value, &EvidenceEnglish { text: finding::evidence(&one.fact) });
    }
}

/// Returns the English of the next measurement.
fn next_words(next: &Next) -> NextEnglish {
    NextEnglish { text: finding::next(&next.measurement) }
}

/// Returns an advice as data: the flag, the present value with its source, the value to set.
fn change(advice: &Advice) -> SettingChange<'_> {
    let to = advice.to.as_ref();
    SettingChange {
        flag: advice.flag.map(|flag| flag.name),
        from: advice.from.as_ref().map(|from| &from.value),
        source: advice.from.as_ref().map(|from| from.origin),
        to: to.map(|to| &to.value),
        basis: to.map(|to| to.basis),
        expected: advice.expected,
    }
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
