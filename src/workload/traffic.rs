//! A workload that is ready to be drawn from: its files are opened and checked.

use super::config::{Prompts, Synthetic, Workload};
use super::conversation::Conversation;
use anyhow::Result;
use std::sync::Arc;

/// A workload with its files opened. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Traffic(Arc<Loaded>);

#[derive(Debug)]
struct Loaded {
    workload: Workload,
    kinds: Vec<Kind>,
}

/// One kind of request: a class of a mix, or all there is.
#[derive(Debug)]
pub(super) struct Kind {
    /// Its share of the arrivals and that of all kinds before it.
    pub(super) up_to: f64,
    pub(super) share: f64,
    pub(super) what: What,
    pub(super) conversation: Option<Conversation>,
}

/// What a kind of request is made of.
#[derive(Debug)]
pub(super) enum What {
    Synthetic(Synthetic),
}

impl Traffic {
    /// Opens what the workload names.
    ///
    /// # Errors
    /// A file cannot be read, or holds something that it should not: the message names file, line and field.
    pub fn open(workload: &Workload) -> Result<Self> {
        let mut up_to = 0.0;
        let kind = |k: super::config::Kind<'_>| {
            up_to += k.share;
            let what = match k.prompts {
                Prompts::Synthetic(s) => What::Synthetic(*s),
            };
            Ok(Kind { up_to, share: k.share, what, conversation: k.conversation.copied() })
        };
        let kinds = workload.kinds().into_iter().map(kind).collect::<Result<_>>()?;
        Ok(Self(Arc::new(Loaded { workload: workload.clone(), kinds })))
    }

    /// The plan's table.
    pub fn workload(&self) -> &Workload {
        &self.0.workload
    }

    pub(super) fn kinds(&self) -> &[Kind] {
        &self.0.kinds
    }

    fn mean(&self, of: impl Fn(&Kind) -> f64) -> f64 {
        self.kinds().iter().map(|k| k.share * of(k)).sum()
    }

    /// Input tokens of a request on average, as far as the plan knows them.
    pub fn mean_input(&self) -> f64 {
        self.mean(Kind::mean_input)
    }

    /// Output tokens of a request on average.
    pub fn mean_output(&self) -> f64 {
        self.mean(|k| match &k.what {
            What::Synthetic(s) => s.output_tokens.mean(),
        })
    }

    /// Input and output tokens of the longest request: the longest prompt of a kind with its longest answer.
    pub fn longest(&self) -> (u64, u64) {
        let sum = |(input, output): (u64, u64)| input + output;
        self.kinds().iter().map(Kind::longest).max_by_key(|l| sum(*l)).unwrap_or_default()
    }

    /// How many different shared prefixes there are in all kinds together; a kind without any counts as one.
    pub fn groups(&self) -> u32 {
        self.kinds().iter().map(Kind::groups).sum()
    }

    /// How many kinds of request there are.
    pub fn kinds_n(&self) -> usize {
        self.kinds().len()
    }

    /// How many different shared prefixes the prompts begin with; 0 where they share none.
    pub fn shared(&self) -> u32 {
        (0..self.kinds_n()).map(|class| self.shared_of(class)).sum()
    }

    /// The same of the class with this index.
    pub fn shared_of(&self, class: usize) -> u32 {
        let shared = |k: &Kind| match &k.what {
            What::Synthetic(s) => s.shared_prefix.map_or(0, |p| p.groups.get()),
        };
        self.kinds().get(class).map_or(0, shared)
    }
}

impl Kind {
    /// The most turns.
    pub(super) fn most_turns(&self) -> u32 {
        self.conversation.and_then(|c| c.turns).map_or(1, |t| t.longest())
    }

    pub(super) fn groups(&self) -> u32 {
        match &self.what {
            What::Synthetic(s) => s.shared_prefix.map_or(1, |p| p.groups.get()),
        }
    }

    fn mean_input(&self) -> f64 {
        match &self.what {
            What::Synthetic(s) => {
                let further = self.conversation.and_then(|c| c.input_tokens).map_or(0.0, |t| t.mean());
                // Turn k of n has all before it in front: (k − 1) answers and k − 1 further messages.
                let turns = self.conversation.map_or(1.0, |c| c.mean_turns());
                let before = (turns - 1.0) / 2.0;
                s.input_tokens.mean() + before * (further + s.output_tokens.mean())
            }
        }
    }

    fn longest(&self) -> (u64, u64) {
        match &self.what {
            What::Synthetic(s) => {
                let (input, output) =
                    (u64::from(s.input_tokens.longest()), u64::from(s.output_tokens.longest()));
                let further =
                    self.conversation.and_then(|c| c.input_tokens).map_or(0, |t| u64::from(t.longest()));
                (input + u64::from(self.most_turns() - 1) * (output + further), output)
            }
        }
    }
}
