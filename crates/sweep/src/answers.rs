//! Processing of answer texts by the director: counting tokens if the server did not, and evaluating the plan's checks.
//! Runs on the director's thread, never on one that sends.

use anyhow::Result;
use goodput_core::check::Checks;
use goodput_core::record::{Finished, Phase, TokenSource};
use goodput_core::slo::ALL;
use goodput_core::tokens::Tokenizer;
use goodput_load::client::Client;
use goodput_plan::Plan;
use goodput_stats::stats::step::CheckRow;
use goodput_workload::config::Workload;
use std::collections::BTreeMap;

/// Reads the answers of a sweep, and counts the results of checks in one step.
pub(crate) struct Reader {
    checks: Checks,
    /// The tokenizer, if the client has to count tokens.
    tokenizer: Option<Tokenizer>,
    /// One count per check, for each class that had answers.
    counts: BTreeMap<u16, Vec<Count>>,
}

/// Results of one check in a step.
#[derive(Debug, Clone, Default)]
struct Count {
    asked: u64,
    failed: u64,
    /// The beginning of the first answer that failed the check.
    sample: Option<Box<str>>,
}

impl Count {
    /// Adds the count of another class.
    fn add(&mut self, other: &Self) {
        self.asked += other.asked;
        self.failed += other.failed;
        if self.sample.is_none() {
            self.sample.clone_from(&other.sample);
        }
    }
}

impl Reader {
    /// Makes a reader for a plan. `told` is true if the server counts tokens; the tokenizer is then not used.
    pub(crate) fn new(plan: &Plan, tokenizer: Option<&Tokenizer>, told: bool) -> Result<Self> {
        let checks = Checks::new(&plan.check).map_err(anyhow::Error::msg)?;
        Ok(Self { checks, tokenizer: tokenizer.filter(|_| !told).cloned(), counts: BTreeMap::new() })
    }

    /// Returns true if the text of answers is needed.
    pub(crate) fn wants_text(&self) -> bool {
        !self.checks.is_empty() || self.tokenizer.is_some()
    }

    /// Processes the text of a finished answer, and writes the results into its record.
    pub(crate) fn read(&mut self, finished: &mut Finished, client: &Client) {
        let Some(text) = finished.text.take() else { return };
        if let Some(tokenizer) = &self.tokenizer {
            count(tokenizer, finished, &text);
        }
        if self.checks.is_empty() {
            return;
        }
        let passed = self.checks.evaluate(&text);
        finished.record.check = Some(passed.iter().all(|p| *p));
        if finished.record.phase != Phase::Measure {
            return;
        }
        let counts = self.counts.entry(finished.record.class);
        let counts = counts.or_insert_with(|| vec![Count::default(); passed.len()]);
        for (count, passed) in counts.iter_mut().zip(passed) {
            count.asked += 1;
            if !passed {
                count.failed += 1;
                count.sample.get_or_insert_with(|| client.sample(text.as_bytes()));
            }
        }
    }

    /// Returns the results of each check since the last call: over all answers and, in a mix, per class. Empty if the
    /// plan has no checks.
    pub(crate) fn rows(&mut self, workload: &Workload) -> Vec<CheckRow> {
        let counts = std::mem::take(&mut self.counts);
        let names: Vec<&str> = self.checks.names().collect();
        let mut all = vec![Count::default(); names.len()];
        for own in counts.values() {
            all.iter_mut().zip(own).for_each(|(sum, count)| sum.add(count));
        }
        let rows = |class: &str, counts: Vec<Count>| -> Vec<CheckRow> {
            let row = |(name, count): (&&str, Count)| CheckRow {
                class: class.to_owned(),
                check: (*name).to_owned(),
                n: count.asked,
                failed: count.failed,
                sample: count.sample.unwrap_or_default().into(),
            };
            names.iter().zip(counts).map(row).collect()
        };
        let mut found = rows(ALL, all);
        for (class, _) in (0_u16..).zip(workload.classes()) {
            let none = || vec![Count::default(); names.len()];
            found.extend(rows(workload.class_name(class), counts.get(&class).cloned().unwrap_or_else(none)));
        }
        found
    }
}

/// Counts the tokens of an answer, including reasoning and tool calls, if its server did not.
fn count(tokenizer: &Tokenizer, finished: &mut Finished, text: &str) {
    let record = &mut finished.record;
    if matches!(record.token_source, Some(TokenSource::Usage | TokenSource::Continuous)) {
        return;
    }
    let others: usize = finished.other_texts.iter().map(|text| tokenizer.count(text)).sum();
    let Some(n) = u32::try_from(tokenizer.count(text) + others).ok().filter(|n| *n > 0) else {
        return;
    };
    (record.output_tokens, record.token_source) = (Some(n), Some(TokenSource::Tokenizer));
    // All of them came with the first event, or with the first ones of all choices.
    let first_events = record.choices.map_or(Some(1), |_| record.first_event_tokens);
    if Some(record.events) == first_events && record.first_token.is_some() {
        record.first_event_tokens = Some(n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_core::record::{Outcome, Record};
    use goodput_plan::server::{Server, Target};
    use std::time::Duration;

    fn plan(checks: &str) -> Plan {
        let text = format!(
            "name = \"x\"\nserver.simulated = {{ preset = \"md1\" }}\nslo.ttft.p99 = \"1s\"\nsearch.rates = [1]\n\
             workload.prompts.synthetic = {{ input-tokens.fixed = 5, output-tokens.fixed = 2 }}\n{checks}"
        );
        Plan::from_text(&text).unwrap()
    }

    fn answer(text: Option<&str>, phase: Phase) -> Finished {
        let mut record = Record::due(0, phase, Duration::ZERO);
        (record.outcome, record.events, record.first_token) = (Outcome::Ok, 1, Some(Duration::ZERO));
        (record.output_tokens, record.token_source) = (Some(1), Some(TokenSource::Events));
        Finished { text: text.map(Into::into), ..Finished::new(record, vec![]) }
    }

    fn client() -> Client {
        Client::in_process(axum::Router::new(), &Server::new(Target::Simulated(toml::Table::new())))
    }

    #[test]
    fn checks_are_counted_by_step_and_apart_from_the_outcome() {
        let plan = plan(
            "[[check]]\nname = \"digits\"\nregex = '^\\d+$'\n[[check]]\nname = \"said\"\nnon-empty = true",
        );
        let mut reader = Reader::new(&plan, None, true).unwrap();
        assert!(reader.wants_text());
        for (text, phase, check) in [
            (Some("12"), Phase::Measure, Some(true)),
            (Some("a\nb"), Phase::Measure, Some(false)),
            (Some(""), Phase::Measure, Some(false)),
            (Some("a"), Phase::Settle, Some(false)),
            (None, Phase::Measure, None),
        ] {
            let mut finished = answer(text, phase);
            reader.read(&mut finished, &client());
            let r = &finished.record;
            assert_eq!((r.check, r.outcome, r.output_tokens), (check, Outcome::Ok, Some(1)), "{text:?}");
        }
        let rows: Vec<_> =
            reader.rows(&plan.workload).into_iter().map(|r| (r.check, r.n, r.failed, r.sample)).collect();
        let row = |name: &str, n, failed, sample: &str| (name.to_owned(), n, failed, sample.to_owned());
        assert_eq!(rows, [row("digits", 3, 2, "a\\nb"), row("said", 3, 1, "")]);
        assert!(reader.rows(&plan.workload).iter().all(|r| r.n == 0), "the next step begins anew");
        assert!(!Reader::new(&self::plan(""), None, false).unwrap().wants_text());
    }

    #[test]
    fn each_class_has_its_own_checks() {
        let class = |name: &str| {
            format!(
                "[[workload.class]]\nname = \"{name}\"\nweight = 1\nprompts.synthetic = {{ input-tokens.fixed = 5, output-tokens.fixed = 2 }}\n"
            )
        };
        let text = format!(
            "name = \"x\"\nserver.simulated = {{ preset = \"md1\" }}\nslo.ttft.p99 = \"1s\"\nsearch.rates = [1]\n{}{}{}\
             [[check]]\nname = \"digits\"\nregex = '^\\d+$'",
            class("a"),
            class("b"),
            class("idle")
        );
        let plan = Plan::from_text(&text).unwrap();
        let mut reader = Reader::new(&plan, None, true).unwrap();
        for (class, text) in [(0, "1"), (1, "x"), (1, "2"), (0, "3")] {
            let mut finished = answer(Some(text), Phase::Measure);
            finished.record.class = class;
            reader.read(&mut finished, &client());
        }
        let rows: Vec<_> =
            reader.rows(&plan.workload).into_iter().map(|r| (r.class, r.n, r.failed, r.sample)).collect();
        let row = |class: &str, n, failed, sample: &str| (class.to_owned(), n, failed, sample.to_owned());
        assert_eq!(
            rows,
            [row("all", 4, 1, "x"), row("a", 2, 0, ""), row("b", 2, 1, "x"), row("idle", 0, 0, "")]
        );
    }

    #[cfg(feature = "tokenizer")]
    #[test]
    fn tokens_are_counted_where_the_server_does_not() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/tokenizer.json");
        let tokenizer = Tokenizer::open(path.as_ref()).unwrap();
        let mut reader = Reader::new(&plan(""), Some(&tokenizer), false).unwrap();
        let mut finished = Finished {
            other_texts: vec!["about".into(), "it".into()],
            ..answer(Some("the rate of a"), Phase::Measure)
        };
        reader.read(&mut finished, &client());
        let r = &finished.record;
        let counted = (Some(6), Some(TokenSource::Tokenizer), Some(6));
        assert_eq!((r.output_tokens, r.token_source, r.first_event_tokens), counted);
        let mut told = answer(Some("the rate of a"), Phase::Measure);
        told.record.token_source = Some(TokenSource::Usage);
        reader.read(&mut told, &client());
        assert_eq!(told.record.output_tokens, Some(1), "the server knows better");
        assert!(!Reader::new(&plan(""), Some(&tokenizer), true).unwrap().wants_text());
    }
}
