//! What the files of a workload hold, for a reader who has sent nothing yet.

use super::data::Summary;
use super::traffic::{Traffic, What};
use goodput_core::distribution::Distribution;
use goodput_core::units::{short, thousands};
use serde::Serialize;

/// What the files of one kind of request hold.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Holds {
    /// The class, where there are several.
    pub class: Option<String>,
    /// In one line.
    pub title: String,
    /// Tokens of prompts, with the recorded history before them.
    pub input: Distribution,
    /// Tokens of answers, as far as the files tell.
    pub output: Option<Distribution>,
    /// Whether lengths are estimated from characters, until a server counts.
    pub estimated: bool,
    /// What else is to be known, a sentence each.
    pub notes: Vec<String>,
}

impl Traffic {
    /// What its data sets and traces hold, in the order of the classes; nothing of prompts that are made from the plan's own lengths.
    pub fn holds(&self) -> Vec<Holds> {
        let found = self.found();
        let classes = self.workload().classes();
        let one = |(i, what): (usize, &What)| {
            let (input, output, estimated, mut notes) = match what {
                What::Data(set) => {
                    let s = set.summary();
                    let output = (s.output.n > 0).then(|| s.output.clone());
                    (s.input.clone(), output, !s.exact, notes_of_set(s))
                }
                What::Trace(trace) => {
                    let s = trace.summary();
                    let rate = format!(
                        "{} requests/s as recorded, for {}.",
                        short(s.rate),
                        super::trace::long(trace.period().as_secs_f64())
                    );
                    (s.input.clone(), s.output.clone(), s.estimated > 0, vec![rate])
                }
                What::Synthetic(_) | What::Text(..) => return None,
            };
            let found = found.get(i)?;
            notes.extend(found.note.clone());
            let class = classes.get(i).map(|c| c.name.clone());
            Some(Holds { class, title: found.title.clone(), input, output, estimated, notes })
        };
        self.kinds().iter().map(|k| &k.what).enumerate().filter_map(one).collect()
    }
}

fn notes_of_set(s: &Summary) -> Vec<String> {
    let n = |n: u64| thousands(n as f64);
    let mut notes = Vec::new();
    if s.turns_max > 1 {
        notes.push(format!("{} turns on average, {} at most.", short(s.turns_mean()), n(s.turns_max)));
    }
    if s.output_from_plan > 0 {
        notes.push(format!("{} answers have the plan's length.", n(s.output_from_plan)));
    }
    if let Some((file, line)) = &s.longest {
        notes.push(format!("The longest prompt is that of {}, line {line}.", super::sources::name(file)));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Counter;

    fn holds(text: &str) -> Vec<Holds> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/");
        let text = text.replace("@", folder);
        Traffic::open(&toml::from_str(&text).unwrap(), &Counter::default()).unwrap().holds()
    }

    #[test]
    fn lengths_are_known_before_anything_is_sent() {
        let all = holds(
            "class = [
                { name = \"talk\", weight = 1, prompts.sharegpt = { file = \"@data/sharegpt.json\", turns = \"all\" } },
                { name = \"made\", weight = 1, prompts.synthetic = { input-tokens = { fixed = 9 }, output-tokens = { fixed = 3 } } },
            ]",
        );
        let [talk] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!((talk.class.as_deref(), talk.estimated), (Some("talk"), true));
        assert!(talk.title.contains("conversations of sharegpt.json"), "{}", talk.title);
        assert!(talk.input.n > 10 && talk.input.max >= talk.input.p50 && talk.output.is_some());
        assert!(talk.notes[0].contains("turns on average, 2 at most"), "{:?}", talk.notes);
        assert!(talk.notes.iter().any(|n| n.contains("sharegpt.json, line ")), "{:?}", talk.notes);
        let trace = holds("trace.file = \"@traces/mooncake.jsonl\"");
        assert!(trace[0].input.n == 36 && trace[0].notes[0].contains("1.3"), "{:?}", trace[0].notes);
    }
}
