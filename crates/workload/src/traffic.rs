//! A workload with its files opened and checked, ready to draw from.

use super::audio::{Audio, GeneratedAudio};
use super::config::Workload;
use super::conversation::Conversation;
use super::data::{Counter, DataSet, TextCorpus, TokenEstimate};
use super::images::OpenedImages;
use super::items::Items;
use super::kind::{FileSummary, RequestSource};
use super::lengths::Lengths;
use super::rate::WordRates;
use super::recordings::Recordings;
use super::sources::Prompts;
use super::synthetic::{SharedPrefix, Synthetic};
use super::trace::Trace;
use anyhow::Result;
use goodput_core::slo::ALL;
use goodput_core::units::Positive;
use std::sync::{Arc, OnceLock};

/// Error for a data set without answer lengths: such answers would never end.
const NO_OUTPUT: &str = "the data set has no answer lengths: set output-tokens, such as { fixed = 200 }";

/// A workload with its files opened. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Traffic {
    workload: Arc<Workload>,
    kinds: Arc<[Kind]>,
    /// First error of reading a file on, once one has occurred.
    failure: Arc<OnceLock<String>>,
}

/// One kind of request: a class of a mix, or all requests.
#[derive(Debug, Clone)]
pub(super) struct Kind {
    /// Name of the class; shared prefixes and calibrated token rates are keyed by it.
    pub(super) class_key: String,
    /// Cumulative share of the arrivals, up to and including this kind.
    pub(super) cumulative_share: f64,
    pub(super) share: f64,
    pub(super) source: OpenedSource,
    pub(super) conversation: Option<Conversation>,
    /// The images of its prompts.
    pub(super) images: Option<OpenedImages>,
}

/// Contents of a kind of request, opened.
#[derive(Debug, Clone)]
pub(super) enum OpenedSource {
    Synthetic(Synthetic),
    Items(Items),
    Audio(GeneratedAudio),
    Recordings(Recordings),
    Data(DataSet),
    Text(TextCorpus, Lengths, Lengths),
    Trace(Trace),
}

impl Traffic {
    /// Opens the files of the workload. `counter` counts the tokens of texts: by estimate, or with a tokenizer.
    ///
    /// # Errors
    /// A file cannot be read or has invalid contents; the message names file, line and field.
    pub fn open(workload: &Workload, counter: &Counter) -> Result<Self> {
        let mut cumulative_share = 0.0;
        let mut kinds = Vec::new();
        for k in workload.kinds() {
            cumulative_share += k.share;
            let source = match k.source {
                RequestSource::Prompts(Prompts::Synthetic(s)) => OpenedSource::Synthetic(s.clone()),
                RequestSource::Prompts(Prompts::Items(items)) => OpenedSource::Items(*items),
                RequestSource::Prompts(Prompts::Audio(Audio::Generated(audio))) => {
                    OpenedSource::Audio(*audio)
                }
                RequestSource::Prompts(Prompts::Audio(Audio::Recordings(files))) => {
                    OpenedSource::Recordings(Recordings::open(files)?)
                }
                RequestSource::Prompts(Prompts::Text(t)) => {
                    OpenedSource::Text(TextCorpus::open(t)?, t.input_tokens, t.output_tokens)
                }
                RequestSource::Prompts(Prompts::Data(d)) => {
                    let set = DataSet::open(d, counter.clone())?;
                    let summary = set.summary();
                    if summary.output_from_plan > 0 && d.output_tokens.is_none() {
                        anyhow::bail!("{}: {NO_OUTPUT}", set.title());
                    }
                    OpenedSource::Data(set)
                }
                RequestSource::Trace(t) => OpenedSource::Trace(Trace::open(t)?),
            };
            let images = match &source {
                OpenedSource::Synthetic(s) => s.images.as_ref().map(OpenedImages::open).transpose()?,
                _ => None,
            };
            let (class_key, conversation) = (k.class_key.to_owned(), k.conversation.copied());
            kinds.push(Kind { class_key, cumulative_share, share: k.share, source, conversation, images });
        }
        Ok(Self { workload: Arc::new(workload.clone()), kinds: kinds.into(), failure: Arc::default() })
    }

    /// Returns these files under another workload table; `None` if that table names other files or turns.
    pub fn with_workload(&self, workload: &Workload) -> Option<Self> {
        let same =
            |other: &Workload| (other.source == self.workload.source, other.only == self.workload.only);
        (same(workload) == (true, true) && self.workload.conversation == workload.conversation)
            .then(|| Self { workload: Arc::new(workload.clone()), ..self.clone() })
    }

    /// Returns this traffic with the lengths of recorded answers counted at the server's calibrated rates.
    pub fn with_rates(&self, rates: &WordRates) -> Self {
        let kinds = self.kinds.iter().map(|k| {
            let source = match (&k.source, rates.of(&k.class_key).per_char) {
                (OpenedSource::Data(set), Some(per_char)) if !set.summary().exact => {
                    let estimate = TokenEstimate { chars: 1.0 / per_char, ..TokenEstimate::default() };
                    OpenedSource::Data(set.with_counter(Counter::Estimate(estimate)))
                }
                (other, _) => other.clone(),
            };
            Kind { source, ..k.clone() }
        });
        Self { kinds: kinds.collect(), ..self.clone() }
    }

    /// Returns the plan's table.
    pub fn workload(&self) -> &Workload {
        &self.workload
    }

    pub(super) fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// Returns the largest number of turns of any chain.
    fn max_turns(&self) -> u64 {
        u64::from(self.kinds.iter().map(Kind::max_turns).max().unwrap_or(1))
    }

    /// Returns true if some requests follow the answer to another.
    pub fn has_follow_ups(&self) -> bool {
        self.max_turns() > 1
    }

    /// Returns the number of the first request of a chain, which does not depend on the lengths of earlier chains.
    pub(super) fn first_id(&self, chain: u64) -> u64 {
        chain * self.max_turns()
    }

    /// Returns true for the number of the first turn of a chain.
    pub(super) fn is_first(&self, id: u64) -> bool {
        id.is_multiple_of(self.max_turns())
    }

    /// Returns the number of the chain that a request belongs to.
    pub fn chain(&self, request: u64) -> u64 {
        request / self.max_turns()
    }

    /// Records that a file cannot be read on; the first error is kept.
    pub(super) fn fail(&self, why: String) {
        let _ = self.failure.set(why);
    }

    /// Returns why a file could not be read on; its chains have then ended.
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// Returns the summaries of the files, one per kind of request; empty if no kind has files.
    pub fn file_summaries(&self) -> Vec<FileSummary> {
        let is_drawn = |k: &Kind| match &k.source {
            OpenedSource::Synthetic(_) => !k.images.as_ref().is_some_and(OpenedImages::are_files),
            OpenedSource::Items(_) | OpenedSource::Audio(_) => true,
            OpenedSource::Recordings(_)
            | OpenedSource::Data(_)
            | OpenedSource::Text(..)
            | OpenedSource::Trace(_) => false,
        };
        let files = !self.kinds.iter().all(is_drawn);
        if files { self.kinds.iter().map(Kind::file_summary).collect() } else { Vec::new() }
    }

    fn mean(&self, of: impl Fn(&Kind) -> f64) -> f64 {
        self.kinds.iter().map(|k| k.share * of(k)).sum()
    }

    /// Returns the mean input tokens of a request, as far as known.
    pub fn mean_input(&self) -> f64 {
        self.mean(Kind::mean_input)
    }

    /// Returns the mean output tokens of a request.
    pub fn mean_output(&self) -> f64 {
        self.mean(Kind::mean_output)
    }

    /// Returns input and output tokens of the longest request: the longest prompt of a kind with its longest answer.
    pub fn longest(&self) -> (u64, u64) {
        let sum = |(input, output): (u64, u64)| input + output;
        self.kinds.iter().map(Kind::longest).max_by_key(|l| sum(*l)).unwrap_or_default()
    }

    /// Returns the number of shared prefixes of all kinds; a kind without any counts as one.
    pub fn groups(&self) -> u32 {
        self.kinds.iter().map(Kind::groups).sum()
    }

    /// Returns the number of shared prefixes of all kinds; 0 if there are none.
    pub fn shared_prefixes(&self) -> u32 {
        self.kinds.iter().map(Kind::shared_prefixes).sum()
    }

    /// Returns index and name of the classes with natural text, whose ratio of tokens to characters differs from that
    /// of generated words.
    pub fn natural_text_classes(&self) -> Vec<(usize, &str)> {
        let natural = |k: &&Kind| matches!(k.source, OpenedSource::Data(_) | OpenedSource::Text(..));
        let all = self.kinds.iter().enumerate().filter(|(_, k)| natural(k));
        all.map(|(i, k)| (i, k.class_key.as_str())).collect()
    }
}

impl Kind {
    fn synthetic(&self) -> Option<&Synthetic> {
        match &self.source {
            OpenedSource::Synthetic(s) => Some(s),
            OpenedSource::Items(_)
            | OpenedSource::Audio(_)
            | OpenedSource::Recordings(_)
            | OpenedSource::Data(_)
            | OpenedSource::Text(..)
            | OpenedSource::Trace(_) => None,
        }
    }

    /// Returns the largest number of turns.
    pub(super) fn max_turns(&self) -> u32 {
        match &self.source {
            OpenedSource::Data(set) => u32::try_from(set.summary().turns_max).unwrap_or(u32::MAX).max(1),
            OpenedSource::Trace(trace) => trace.summary().turns_max,
            OpenedSource::Items(_) | OpenedSource::Audio(_) | OpenedSource::Recordings(_) => 1,
            OpenedSource::Synthetic(_) | OpenedSource::Text(..) => {
                self.conversation.and_then(|c| c.turns).map_or(1, |t| t.longest())
            }
        }
    }

    /// Returns the shared prefix of its prompts.
    pub(super) fn prefix(&self) -> Option<SharedPrefix> {
        self.synthetic().and_then(|s| s.shared_prefix)
    }

    /// Returns the number of its shared prefixes; 1 if it has none.
    pub(super) fn groups(&self) -> u32 {
        self.prefix().map_or(1, |p| p.groups.get())
    }

    /// Returns the number of its shared prefixes; 0 if it has none.
    pub(super) fn shared_prefixes(&self) -> u32 {
        self.prefix().map_or(0, |p| p.groups.get())
    }

    fn mean_input(&self) -> f64 {
        match &self.source {
            OpenedSource::Synthetic(s) => {
                let follow_up = self.conversation.and_then(|c| c.input_tokens).map_or(0.0, |t| t.mean());
                let turns = self.conversation.map_or(1.0, |c| c.mean_turns());
                // Turn k of n follows k − 1 answers and k − 1 messages.
                let before = (turns - 1.0) / 2.0;
                s.input_tokens.mean() + before * (follow_up + s.output_tokens.mean())
            }
            OpenedSource::Items(items) => items.mean_input(),
            // Only the server knows how many tokens audio is.
            OpenedSource::Audio(_) | OpenedSource::Recordings(_) => 0.0,
            OpenedSource::Data(set) => set.summary().input.mean,
            OpenedSource::Text(_, input, _) => input.mean(),
            OpenedSource::Trace(trace) => trace.summary().input.mean,
        }
    }

    fn mean_output(&self) -> f64 {
        let or_plan = |known: Option<(f64, f64)>, plan: Option<Lengths>| {
            let (n, mean) = known.unwrap_or_default();
            let plan = plan.map_or(mean, |l| l.mean());
            n * mean + (1.0 - n) * plan
        };
        match &self.source {
            OpenedSource::Items(_) | OpenedSource::Audio(_) | OpenedSource::Recordings(_) => 0.0,
            OpenedSource::Synthetic(s) => s.output_tokens.mean(),
            OpenedSource::Text(_, _, output) => output.mean(),
            OpenedSource::Data(set) => {
                let s = set.summary();
                let share = s.output.n as f64 / s.turns.max(1) as f64;
                or_plan(Some((share, s.output.mean)), set.source().output_tokens)
            }
            OpenedSource::Trace(trace) => {
                let s = trace.summary();
                let known = s.output.as_ref().map(|o| (o.n as f64 / s.rows.max(1) as f64, o.mean));
                or_plan(known, trace.source().output_tokens)
            }
        }
    }

    fn longest(&self) -> (u64, u64) {
        let planned =
            |known: u64, plan: Option<Lengths>| known.max(plan.map_or(0, |l| u64::from(l.longest())));
        match &self.source {
            OpenedSource::Synthetic(s) => {
                let (input, output) =
                    (u64::from(s.input_tokens.longest()), u64::from(s.output_tokens.longest()));
                let follow_up =
                    self.conversation.and_then(|c| c.input_tokens).map_or(0, |t| u64::from(t.longest()));
                (input + u64::from(self.max_turns() - 1) * (output + follow_up), output)
            }
            OpenedSource::Items(items) => (items.longest_item(), 0),
            OpenedSource::Audio(_) | OpenedSource::Recordings(_) => (0, 0),
            OpenedSource::Text(_, input, output) => (u64::from(input.longest()), u64::from(output.longest())),
            OpenedSource::Data(set) => {
                let s = set.summary();
                (
                    s.input.max,
                    planned(s.output.max, set.source().output_tokens.filter(|_| s.output_from_plan > 0)),
                )
            }
            // The sum, since the longest prompt need not have the longest answer.
            OpenedSource::Trace(trace) => (trace.summary().longest, 0),
        }
    }

    /// Returns ` (class chat)`; empty if there is one kind of request.
    fn of_class(&self) -> String {
        if self.class_key == ALL { String::new() } else { format!(" (class {})", self.class_key) }
    }

    fn file_summary(&self) -> FileSummary {
        let known = |x: f64| Positive::try_from(x).ok();
        let one = Positive::try_from(1.0).expect("one is positive");
        let single = |title: String| FileSummary {
            title,
            requests_per_level: one,
            cv: None,
            blocks: false,
            note: None,
        };
        match &self.source {
            OpenedSource::Items(items) => single(items.to_string()),
            OpenedSource::Audio(audio) => single(audio.to_string()),
            OpenedSource::Recordings(all) => single(all.title()),
            OpenedSource::Synthetic(s) => {
                let turns = self.conversation.map_or(1.0, |c| c.mean_turns());
                FileSummary {
                    title: self.images.as_ref().map_or_else(|| s.to_string(), |images| s.title(images)),
                    requests_per_level: known(turns).unwrap_or(one),
                    cv: None,
                    blocks: false,
                    note: None,
                }
            }
            OpenedSource::Text(text, input, output) => {
                single(format!("{}, {input} in / {output} out tokens", text.title()))
            }
            OpenedSource::Data(set) => {
                let per = known(set.summary().turns_mean()).unwrap_or(one);
                let s = set.summary();
                let skipped = s.bad + s.filtered + s.nothing;
                let note = (skipped > 0).then(|| {
                    format!(
                        "Of the {} rows of {}{}, {} could not be read, {} had nothing to send, and {} were skipped for their length.",
                        s.rows,
                        set.files(),
                        self.of_class(),
                        s.bad,
                        s.nothing,
                        s.filtered
                    )
                });
                FileSummary { title: set.title(), requests_per_level: per, cv: None, blocks: false, note }
            }
            OpenedSource::Trace(trace) => {
                let s = trace.summary();
                let rate = s.rows as f64 / trace.period().as_secs_f64().max(1e-9);
                let mut note = trace.prefix_note();
                if s.bad_rows + s.failures > 0 {
                    let whole = if trace.source().window.is_some() { " of the whole file" } else { "" };
                    note += &format!(
                        " {} rows{whole} could not be read, and {} had failed when recorded; both are skipped.",
                        s.bad_rows, s.failures
                    );
                }
                let cv = s.gap_cv.and_then(known);
                FileSummary {
                    title: trace.title(),
                    requests_per_level: known(rate).unwrap_or(one),
                    cv,
                    // Follow-ups begin with the history as well.
                    blocks: s.prefix.is_some() || s.following > 0,
                    note: Some(note),
                }
            }
        }
    }
}
