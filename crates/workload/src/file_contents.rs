//! Contents of a workload's files, shown to users before a sweep.

use super::data::Summary;
use super::traffic::{OpenedSource, Traffic};
use goodput_core::distribution::Distribution;
use goodput_core::units::{short, thousands};
use serde::Serialize;

/// Contents of the files of one kind of request.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FileContents {
    /// Name of the class, in a mix.
    pub class: Option<String>,
    /// One-line description.
    pub title: String,
    /// Prompt lengths in tokens, including recorded history.
    pub input: Distribution,
    /// Answer lengths in tokens, as far as recorded.
    pub output: Option<Distribution>,
    /// True if lengths are estimated from characters, until the server's counts are calibrated.
    pub estimated: bool,
    /// Further notes, in sentences.
    pub notes: Vec<String>,
}

impl Traffic {
    /// Returns the contents of data sets and traces, in the order of the classes. Skips prompts with lengths from the
    /// plan.
    pub fn file_contents(&self) -> Vec<FileContents> {
        let summaries = self.file_summaries();
        let classes = self.workload().classes();
        let contents = |(i, source): (usize, &OpenedSource)| {
            let (input, output, estimated, mut notes) = match source {
                OpenedSource::Data(set) => {
                    let s = set.summary();
                    let output = (s.output.n > 0).then(|| s.output.clone());
                    (s.input.clone(), output, !s.exact, data_set_notes(s))
                }
                OpenedSource::Trace(trace) => {
                    let s = trace.summary();
                    let rate = format!(
                        "{} requests/s as recorded, for {}.",
                        short(s.rate),
                        super::trace::duration_text(trace.period().as_secs_f64())
                    );
                    (s.input.clone(), s.output.clone(), s.estimated > 0, vec![rate])
                }
                OpenedSource::Synthetic(_)
                | OpenedSource::Items(_)
                | OpenedSource::Text(..)
                | OpenedSource::Audio(_)
                | OpenedSource::Recordings(_) => return None,
            };
            let summary = summaries.get(i)?;
            notes.extend(summary.note.clone());
            let class = classes.get(i).map(|c| c.name.clone());
            Some(FileContents { class, title: summary.title.clone(), input, output, estimated, notes })
        };
        self.kinds().iter().map(|k| &k.source).enumerate().filter_map(contents).collect()
    }
}

fn data_set_notes(s: &Summary) -> Vec<String> {
    let n = |n: u64| thousands(n as f64);
    let mut notes = Vec::new();
    if s.turns_max > 1 {
        notes.push(format!("{} turns on average, {} at most.", short(s.turns_mean()), n(s.turns_max)));
    }
    if s.output_from_plan > 0 {
        notes.push(format!("{} answers take the plan's length.", n(s.output_from_plan)));
    }
    if let Some((file, line)) = &s.longest {
        notes.push(format!("The longest prompt is in {}, line {line}.", super::sources::name(file)));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Counter;

    fn contents(text: &str) -> Vec<FileContents> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/");
        let text = text.replace("@", folder);
        Traffic::open(&toml::from_str(&text).unwrap(), &Counter::default()).unwrap().file_contents()
    }

    #[test]
    fn file_contents_are_summarised_without_sending() {
        let all = contents(
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
        let trace = contents("trace.file = \"@traces/mooncake.jsonl\"");
        assert!(trace[0].input.n == 36 && trace[0].notes[0].contains("1.3"), "{:?}", trace[0].notes);
    }
}
