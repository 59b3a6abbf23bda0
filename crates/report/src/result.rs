//! `result.json` with its words: the facts of the run folder, each caveat with its text and advice.

use crate::words::{Context, caveat};
use goodput_run::rundir::{Run, json};
use serde_json::Value;

/// Returns the result of a run as JSON, schema `goodput/1`. Every number is finite or null.
///
/// A sweep that is running writes the facts alone; the words come with the reports.
pub fn result(run: &Run) -> Value {
    let mut result = json::result(run);
    let context = Context::of(run);
    let values = result["caveats"].as_array_mut().into_iter().flatten();
    for (value, fact) in values.zip(&run.caveats) {
        let words = caveat(fact, context);
        value["text"] = words.text.into();
        value["advice"] = words.advice.into();
    }
    result
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
