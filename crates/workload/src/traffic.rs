//! A workload that is ready to be drawn from: its files are opened and checked.

use super::config::Workload;
use super::conversation::Conversation;
use super::data::{Counter, DataSet, TextCorpus, TokenEstimate};
use super::kind::{Found, Of};
use super::lengths::Lengths;
use super::rate::WordRates;
use super::sources::Prompts;
use super::synthetic::{SharedPrefix, Synthetic};
use super::trace::Trace;
use anyhow::Result;
use goodput_core::slo::ALL;
use goodput_core::units::Positive;
use std::sync::{Arc, OnceLock};

/// Answers of a data set that gives them no length, where the plan does not either, would have no end.
const NO_OUTPUT: &str =
    "the data set does not tell how long answers are: set output-tokens, such as { fixed = 200 }";

/// A workload with its files opened. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Traffic {
    workload: Arc<Workload>,
    kinds: Arc<[Kind]>,
    /// Why a file could not be read on, once that has happened.
    failure: Arc<OnceLock<String>>,
}

/// One kind of request: a class of a mix, or all there is.
#[derive(Debug, Clone)]
pub(super) struct Kind {
    /// The class, as its shared prefixes and the server's counts go by it.
    pub(super) name: String,
    /// Its share of the arrivals and that of all kinds before it.
    pub(super) up_to: f64,
    pub(super) share: f64,
    pub(super) what: What,
    pub(super) conversation: Option<Conversation>,
}

/// What a kind of request is made of.
#[derive(Debug, Clone)]
pub(super) enum What {
    Synthetic(Synthetic),
    Data(DataSet),
    Text(TextCorpus, Lengths, Lengths),
    Trace(Trace),
}

impl Traffic {
    /// Opens what the workload names. Lengths of texts are counted by `counter`: estimated, or by a tokenizer.
    ///
    /// # Errors
    /// A file cannot be read, or holds something that it should not: the message names file, line and field.
    pub fn open(workload: &Workload, counter: &Counter) -> Result<Self> {
        let mut up_to = 0.0;
        let mut kinds = Vec::new();
        for k in workload.kinds() {
            up_to += k.share;
            let what = match k.of {
                Of::Prompts(Prompts::Synthetic(s)) => What::Synthetic(*s),
                Of::Prompts(Prompts::Text(t)) => {
                    What::Text(TextCorpus::open(t)?, t.input_tokens, t.output_tokens)
                }
                Of::Prompts(Prompts::Data(d)) => {
                    let set = DataSet::open(d, counter.clone())?;
                    let summary = set.summary();
                    if summary.output_from_plan > 0 && d.output_tokens.is_none() {
                        anyhow::bail!("{}: {NO_OUTPUT}", set.title());
                    }
                    What::Data(set)
                }
                Of::Trace(t) => What::Trace(Trace::open(t)?),
            };
            let (name, conversation) = (k.known_as.to_owned(), k.conversation.copied());
            kinds.push(Kind { name, up_to, share: k.share, what, conversation });
        }
        Ok(Self { workload: Arc::new(workload.clone()), kinds: kinds.into(), failure: Arc::default() })
    }

    /// The same files under another table of the plan, where it names no others.
    pub fn under(&self, workload: &Workload) -> Option<Self> {
        let same =
            |other: &Workload| (other.source == self.workload.source, other.only == self.workload.only);
        (same(workload) == (true, true) && self.workload.conversation == workload.conversation)
            .then(|| Self { workload: Arc::new(workload.clone()), ..self.clone() })
    }

    /// The same with the lengths of reference answers counted as the server counts the texts of their class.
    pub fn counted(&self, rates: &WordRates) -> Self {
        let kinds = self.kinds.iter().map(|k| {
            let what = match (&k.what, rates.of(&k.name).per_char) {
                (What::Data(set), Some(per_char)) if !set.summary().exact => {
                    let estimate = TokenEstimate { chars: 1.0 / per_char, ..TokenEstimate::default() };
                    What::Data(set.with_counter(Counter::Estimate(estimate)))
                }
                (other, _) => other.clone(),
            };
            Kind { what, ..k.clone() }
        });
        Self { kinds: kinds.collect(), ..self.clone() }
    }

    /// The plan's table.
    pub fn workload(&self) -> &Workload {
        &self.workload
    }

    pub(super) fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// The most turns that a chain of any kind has.
    fn most_turns(&self) -> u64 {
        u64::from(self.kinds.iter().map(Kind::most_turns).max().unwrap_or(1))
    }

    /// Whether some requests follow the answer to another.
    pub fn follows(&self) -> bool {
        self.most_turns() > 1
    }

    /// Number of the first request of a chain, whatever those before it have turned out to be.
    pub(super) fn first_id(&self, chain: u64) -> u64 {
        chain * self.most_turns()
    }

    /// Whether a number is that of the first turn of a chain.
    pub(super) fn is_first(&self, id: u64) -> bool {
        id.is_multiple_of(self.most_turns())
    }

    /// Number of the chain that a request belongs to.
    pub fn chain(&self, request: u64) -> u64 {
        request / self.most_turns()
    }

    /// Remembers why a file could not be read on.
    pub(super) fn fail(&self, why: String) {
        // The first reason stands.
        let _ = self.failure.set(why);
    }

    /// Why a file could not be read on, if that has happened: its chains have ended then.
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// What its files were found to hold, for each kind; empty where it has none.
    pub fn found(&self) -> Vec<Found> {
        let files = self.kinds.iter().any(|k| !matches!(k.what, What::Synthetic(_)));
        if files { self.kinds.iter().map(Kind::found).collect() } else { Vec::new() }
    }

    fn mean(&self, of: impl Fn(&Kind) -> f64) -> f64 {
        self.kinds.iter().map(|k| k.share * of(k)).sum()
    }

    /// Input tokens of a request on average, as far as they are known.
    pub fn mean_input(&self) -> f64 {
        self.mean(Kind::mean_input)
    }

    /// Output tokens of a request on average.
    pub fn mean_output(&self) -> f64 {
        self.mean(Kind::mean_output)
    }

    /// Input and output tokens of the longest request: the longest prompt of a kind with its longest answer.
    pub fn longest(&self) -> (u64, u64) {
        let sum = |(input, output): (u64, u64)| input + output;
        self.kinds.iter().map(Kind::longest).max_by_key(|l| sum(*l)).unwrap_or_default()
    }

    /// How many different shared prefixes there are in all kinds together; a kind without any counts as one.
    pub fn groups(&self) -> u32 {
        self.kinds.iter().map(Kind::groups).sum()
    }

    /// How many different shared prefixes the prompts begin with; 0 where they share none.
    pub fn shared(&self) -> u32 {
        self.kinds.iter().map(Kind::shared).sum()
    }

    /// The classes whose prompts are texts of people, whose tokens are another count of characters than words of ours: index and name.
    pub fn natural(&self) -> Vec<(usize, &str)> {
        let natural = |k: &&Kind| matches!(k.what, What::Data(_) | What::Text(..));
        let all = self.kinds.iter().enumerate().filter(|(_, k)| natural(k));
        all.map(|(i, k)| (i, k.name.as_str())).collect()
    }
}

impl Kind {
    fn synthetic(&self) -> Option<&Synthetic> {
        match &self.what {
            What::Synthetic(s) => Some(s),
            _ => None,
        }
    }

    /// The most turns.
    pub(super) fn most_turns(&self) -> u32 {
        match &self.what {
            What::Data(set) => u32::try_from(set.summary().turns_max).unwrap_or(u32::MAX).max(1),
            What::Trace(trace) => trace.summary().turns_max,
            _ => self.conversation.and_then(|c| c.turns).map_or(1, |t| t.longest()),
        }
    }

    /// What its prompts begin with.
    pub(super) fn prefix(&self) -> Option<SharedPrefix> {
        self.synthetic().and_then(|s| s.shared_prefix)
    }

    /// How many different beginnings its prompts have, and one where they share none.
    pub(super) fn groups(&self) -> u32 {
        self.prefix().map_or(1, |p| p.groups.get())
    }

    /// How many different shared prefixes its prompts begin with; 0 where they share none.
    pub(super) fn shared(&self) -> u32 {
        self.prefix().map_or(0, |p| p.groups.get())
    }

    fn mean_input(&self) -> f64 {
        match &self.what {
            What::Synthetic(s) => {
                let further = self.conversation.and_then(|c| c.input_tokens).map_or(0.0, |t| t.mean());
                let turns = self.conversation.map_or(1.0, |c| c.mean_turns());
                // Turn k of n has all before it in front: (k − 1) answers and k − 1 further messages.
                let before = (turns - 1.0) / 2.0;
                s.input_tokens.mean() + before * (further + s.output_tokens.mean())
            }
            What::Data(set) => set.summary().input.mean,
            What::Text(_, input, _) => input.mean(),
            What::Trace(trace) => trace.summary().input.mean,
        }
    }

    fn mean_output(&self) -> f64 {
        let or_plan = |known: Option<(f64, f64)>, plan: Option<Lengths>| {
            let (n, mean) = known.unwrap_or_default();
            let plan = plan.map_or(mean, |l| l.mean());
            n * mean + (1.0 - n) * plan
        };
        match &self.what {
            What::Synthetic(s) => s.output_tokens.mean(),
            What::Text(_, _, output) => output.mean(),
            What::Data(set) => {
                let s = set.summary();
                let share = s.output.n as f64 / s.turns.max(1) as f64;
                or_plan(Some((share, s.output.mean)), set.source().output_tokens)
            }
            What::Trace(trace) => {
                let s = trace.summary();
                let known = s.output.as_ref().map(|o| (o.n as f64 / s.rows.max(1) as f64, o.mean));
                or_plan(known, trace.source().output_tokens)
            }
        }
    }

    fn longest(&self) -> (u64, u64) {
        let planned =
            |known: u64, plan: Option<Lengths>| known.max(plan.map_or(0, |l| u64::from(l.longest())));
        match &self.what {
            What::Synthetic(s) => {
                let (input, output) =
                    (u64::from(s.input_tokens.longest()), u64::from(s.output_tokens.longest()));
                let further =
                    self.conversation.and_then(|c| c.input_tokens).map_or(0, |t| u64::from(t.longest()));
                (input + u64::from(self.most_turns() - 1) * (output + further), output)
            }
            What::Text(_, input, output) => (u64::from(input.longest()), u64::from(output.longest())),
            What::Data(set) => {
                let s = set.summary();
                (
                    s.input.max,
                    planned(s.output.max, set.source().output_tokens.filter(|_| s.output_from_plan > 0)),
                )
            }
            // Both together: a long prompt need not have the longest answer.
            What::Trace(trace) => (trace.summary().longest, 0),
        }
    }

    /// ` (class chat)`, or nothing where there is one kind of request.
    fn of_class(&self) -> String {
        if self.name == ALL { String::new() } else { format!(" (class {})", self.name) }
    }

    fn found(&self) -> Found {
        let known = |x: f64| Positive::try_from(x).ok();
        let one = Positive::try_from(1.0).expect("one is positive");
        match &self.what {
            What::Synthetic(s) => {
                let turns = self.conversation.map_or(1.0, |c| c.mean_turns());
                Found {
                    title: s.to_string(),
                    requests_per_level: known(turns).unwrap_or(one),
                    cv: None,
                    blocks: false,
                    note: None,
                }
            }
            What::Text(text, input, output) => {
                let title = format!("{}, {input} in / {output} out tokens", text.title());
                Found { title, requests_per_level: one, cv: None, blocks: false, note: None }
            }
            What::Data(set) => {
                let per = known(set.summary().turns_mean()).unwrap_or(one);
                let s = set.summary();
                let left = s.bad + s.filtered + s.nothing;
                let note = (left > 0).then(|| {
                    format!(
                        "Of the {} rows of {}{}, {} could not be read, {} held nothing to send, and {} were left out for their length.",
                        s.rows,
                        set.files(),
                        self.of_class(),
                        s.bad,
                        s.nothing,
                        s.filtered
                    )
                });
                Found { title: set.title(), requests_per_level: per, cv: None, blocks: false, note }
            }
            What::Trace(trace) => {
                let s = trace.summary();
                let rate = s.rows as f64 / trace.period().as_secs_f64().max(1e-9);
                let mut note = trace.prefix_note();
                if s.bad_rows + s.failures > 0 {
                    let whole = if trace.source().window.is_some() { " of the whole file" } else { "" };
                    note += &format!(
                        " {} rows{whole} could not be read, and {} failed where they were recorded: both are left out.",
                        s.bad_rows, s.failures
                    );
                }
                let cv = s.gap_cv.and_then(known);
                Found {
                    title: trace.title(),
                    requests_per_level: known(rate).unwrap_or(one),
                    cv,
                    // What follows an answer begins with what was said before, by right as well.
                    blocks: s.prefix.is_some() || s.following > 0,
                    note: Some(note),
                }
            }
        }
    }
}
