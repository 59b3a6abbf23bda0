//! The plan's `[workload]` table.

use super::arrivals::Arrivals;
use super::conversation::Conversation;
use super::lengths::{Lengths, TokenCount};
use crate::level::Control;
use crate::slo::{ALL, Slo};
use crate::units::{NonEmpty, Positive, Rate};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt;

/// What is sent, and in which rhythm; the rate is the search's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawWorkload", into = "RawWorkload")]
pub struct Workload {
    /// Shape of the arrivals; a trace has its own.
    pub arrivals: Arrivals,
    /// Whether prompts may find anything in the server's prefix cache.
    pub cache: Cache,
    /// What is sent.
    pub source: Source,
    /// Turns that follow a request; in a mix each class has its own.
    pub conversation: Option<Conversation>,
    /// A closed loop sends no faster than this, in requests (conversations) per second.
    pub pace: Option<Rate>,
    /// Whether each class of a mix is measured by itself as well.
    pub alone: bool,
}

/// What is sent.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// Prompts of one kind.
    Prompts(Prompts),
    /// Several kinds, drawn jointly.
    Mix(NonEmpty<Class>),
}

/// One kind of request in a mix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Class {
    /// Its name, in reports.
    pub name: String,
    /// Its share of the arrivals: its weight over the sum of all.
    pub weight: Positive,
    /// Another model or LoRA adapter than the plan's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Its prompts.
    pub prompts: Prompts,
    /// Turns that follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<Conversation>,
    /// Limits of its own in the place of the plan's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slo: Option<Slo>,
    /// Fields of its requests besides those of `server.body`, as sampling settings.
    #[serde(default, skip_serializing_if = "toml::Table::is_empty")]
    pub body: toml::Table,
}

/// State of the prefix cache that a workload asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cache {
    /// No prompt shares a beginning with an earlier one: a nonce comes first.
    #[default]
    Cold,
    /// Shared prefixes are sent as they are, and warmed before each step.
    Warm,
    /// The whole sweep twice, cold and warm: what the cache buys.
    Pair,
}

impl Cache {
    /// The name in plans and of a series.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Warm => "warm",
            Self::Pair => "pair",
        }
    }
}

/// Sources of prompts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Prompts {
    /// Made from a recipe.
    Synthetic(Synthetic),
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct RawWorkload {
    #[serde(default = "RawWorkload::poisson")]
    arrivals: Arrivals,
    #[serde(default)]
    cache: Cache,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pace: Option<Rate>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    alone: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prompts: Option<Prompts>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    conversation: Option<Conversation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    class: Option<NonEmpty<Class>>,
}

impl RawWorkload {
    fn poisson() -> Arrivals {
        Arrivals::Poisson
    }
}

impl TryFrom<RawWorkload> for Workload {
    type Error = String;
    fn try_from(r: RawWorkload) -> Result<Self, String> {
        let sources = [r.prompts.map(Source::Prompts), r.class.map(Source::Mix)];
        let mut sources: Vec<Source> = sources.into_iter().flatten().collect();
        let source = match (sources.pop(), sources.is_empty()) {
            (Some(source), true) => source,
            (None, _) => return Err("[workload] needs one of prompts, [[workload.class]]".into()),
            (Some(_), false) => return Err("[workload] takes only one of prompts, [[workload.class]]".into()),
        };
        let w = Workload {
            arrivals: r.arrivals,
            cache: r.cache,
            source,
            conversation: r.conversation,
            pace: r.pace,
            alone: r.alone,
        };
        w.problem().map_or(Ok(w), Err)
    }
}

impl From<Workload> for RawWorkload {
    fn from(w: Workload) -> Self {
        let (mut prompts, mut class) = (None, None);
        match w.source {
            Source::Prompts(p) => prompts = Some(p),
            Source::Mix(c) => class = Some(c),
        }
        Self {
            arrivals: w.arrivals,
            cache: w.cache,
            pace: w.pace,
            alone: w.alone,
            prompts,
            conversation: w.conversation,
            class,
        }
    }
}

/// Prompts made from a recipe: lengths, and what they share.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawSynthetic", into = "RawSynthetic")]
pub struct Synthetic {
    /// Input tokens, shared prefix included, as the server counts them.
    pub input_tokens: Lengths,
    /// Output tokens.
    pub output_tokens: Lengths,
    /// A beginning that requests have in common.
    pub shared_prefix: Option<SharedPrefix>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct RawSynthetic {
    input_tokens: Lengths,
    output_tokens: Lengths,
    #[serde(skip_serializing_if = "Option::is_none")]
    shared_prefix: Option<SharedPrefix>,
}

/// A beginning that requests have in common, sent as the system message.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SharedPrefix {
    /// Its length.
    pub tokens: TokenCount,
    /// How many different ones there are; each request takes one at random.
    #[serde(default = "SharedPrefix::one")]
    pub groups: TokenCount,
}

impl SharedPrefix {
    fn one() -> TokenCount {
        TokenCount::try_from(1).expect("one is at least one")
    }
}

impl TryFrom<RawSynthetic> for Synthetic {
    type Error = String;
    fn try_from(r: RawSynthetic) -> Result<Self, String> {
        if let Some(p) = r.shared_prefix
            && f64::from(p.tokens.get()) >= r.input_tokens.mean()
        {
            return Err(format!(
                "shared-prefix.tokens ({}) is part of input-tokens and must be below their mean ({})",
                p.tokens.get(),
                r.input_tokens.mean()
            ));
        }
        Ok(Self {
            input_tokens: r.input_tokens,
            output_tokens: r.output_tokens,
            shared_prefix: r.shared_prefix,
        })
    }
}

impl From<Synthetic> for RawSynthetic {
    fn from(s: Synthetic) -> Self {
        Self { input_tokens: s.input_tokens, output_tokens: s.output_tokens, shared_prefix: s.shared_prefix }
    }
}

impl fmt::Display for Synthetic {
    /// `600 in / 30 out tokens, 400 shared`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in / {} out tokens", self.input_tokens, self.output_tokens)?;
        match self.shared_prefix {
            Some(p) => write!(f, ", {} shared", p.tokens.get()),
            None => Ok(()),
        }
    }
}

impl Prompts {
    /// The longest answer that the plan asks for, where the plan says it.
    pub fn longest_output(&self) -> Option<u32> {
        match self {
            Self::Synthetic(s) => Some(s.output_tokens.longest()),
        }
    }
}

impl fmt::Display for Prompts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Synthetic(s) => s.fmt(f),
        }
    }
}

/// The requests of one kind: a class of a mix, or all of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Kind<'a> {
    /// The class, where there are several.
    pub name: Option<&'a str>,
    /// Its share of the arrivals.
    pub share: f64,
    /// Its prompts.
    pub prompts: &'a Prompts,
    /// Turns that follow.
    pub conversation: Option<&'a Conversation>,
}

impl Workload {
    /// The kinds of request, in the order of their classes.
    pub fn kinds(&self) -> Vec<Kind<'_>> {
        match &self.source {
            Source::Prompts(prompts) => {
                vec![Kind { name: None, share: 1.0, prompts, conversation: self.conversation.as_ref() }]
            }
            Source::Mix(classes) => {
                let sum: f64 = classes.iter().map(|c| c.weight.get()).sum();
                let kind = |c: &'_ Class| -> f64 { c.weight.get() / sum };
                classes
                    .iter()
                    .map(|c| Kind {
                        name: Some(&c.name),
                        share: kind(c),
                        prompts: &c.prompts,
                        conversation: c.conversation.as_ref(),
                    })
                    .collect()
            }
        }
    }

    /// The classes of the mix; none where there is one kind of request.
    pub fn classes(&self) -> &[Class] {
        match &self.source {
            Source::Mix(classes) => classes,
            Source::Prompts(_) => &[],
        }
    }

    /// The name of a class in files, by its index: [`ALL`] where there is one kind of request.
    pub fn class_name(&self, class: u16) -> &str {
        self.classes().get(usize::from(class)).map_or(ALL, |c| &c.name)
    }

    /// Fills in the profiles of the classes' own limits.
    pub(crate) fn resolve_classes(&mut self) {
        if let Source::Mix(classes) = &mut self.source {
            for class in classes.iter_mut() {
                class.slo = class.slo.take().map(Slo::resolve);
            }
        }
    }

    /// What an open loop steps through: requests, conversations.
    pub fn control(&self) -> Control {
        if self.kinds().iter().any(|k| k.conversation.is_some()) { Control::Sessions } else { Control::Rate }
    }

    /// Requests per second at level 1 of an open loop: the turns of a conversation on average.
    pub fn per_level(&self) -> f64 {
        self.kinds().iter().map(|k| k.share * k.conversation.map_or(1.0, Conversation::mean_turns)).sum()
    }

    /// How long the users of a conversation think in all, on average and in seconds, as far as the plan tells.
    pub fn think_s(&self) -> f64 {
        let think =
            |c: &Conversation| c.think.mean().unwrap_or_default().as_secs_f64() * (c.mean_turns() - 1.0);
        self.kinds().iter().map(|k| k.share * k.conversation.map_or(0.0, think)).sum()
    }

    /// The longest answer that the plan asks for, where it says one.
    pub fn longest_output(&self) -> Option<u32> {
        self.kinds().iter().map(|k| k.prompts.longest_output()).max().flatten()
    }

    /// What a closed loop sends: `600 in / 30 out tokens, closed loop, cold cache`. It has no arrivals of its own.
    pub fn closed(&self) -> String {
        let pace = self.pace.map(|r| format!(", no faster than {r} per second")).unwrap_or_default();
        self.described(&format!("closed loop{pace}"))
    }

    /// What is wrong with the table as a whole, if anything.
    fn problem(&self) -> Option<String> {
        let mut names = HashSet::new();
        for class in self.classes() {
            let plain = |c: char| c.is_alphanumeric() || "-_.".contains(c);
            if !class.name.chars().all(plain) {
                return Some(format!(
                    "[[workload.class]] name = {:?}: the name of a class is made of letters, digits, -, _ and .",
                    class.name
                ));
            }
            if class.name.trim().is_empty() || class.name == "all" {
                return Some(format!(
                    "[[workload.class]] name = {:?}: a class needs a name, and not \"all\", which stands for the whole mix",
                    class.name
                ));
            }
            if !names.insert(&class.name) {
                return Some(format!("[[workload.class]] two classes are called {:?}", class.name));
            }
        }
        if self.alone && self.classes().len() < 2 {
            return Some(
                "[workload] alone = true runs each class by itself: it needs two [[workload.class]]".into(),
            );
        }
        if self.conversation.is_some() && !self.classes().is_empty() {
            return Some(
                "[workload.conversation] beside [[workload.class]]: give each class that has turns its own \
                 [workload.class.conversation]"
                    .into(),
            );
        }
        self.kinds().iter().find_map(|k| {
            let Prompts::Synthetic(_) = k.prompts;
            let c = k.conversation?;
            let class = k.name.map(|n| format!(" of class {n}")).unwrap_or_default();
            c.problem_of_synthetic().map(|e| format!("[workload.conversation]{class}: {e}"))
        })
    }

    fn described(&self, rhythm: &str) -> String {
        let what: Vec<String> = self
            .kinds()
            .iter()
            .map(|k| {
                let turns = k.conversation.map(|c| format!(", {c}")).unwrap_or_default();
                match k.name {
                    Some(name) => {
                        format!("{} % {name} ({}{turns})", crate::units::short(100.0 * k.share), k.prompts)
                    }
                    None => format!("{}{turns}", k.prompts),
                }
            })
            .collect();
        let cache = match self.cache {
            Cache::Pair => "cold and warm",
            cache => cache.name(),
        };
        format!("{}, {rhythm}, {cache} cache", what.join(" + "))
    }
}

impl fmt::Display for Workload {
    /// `600 in / 30 out tokens, Poisson arrivals, cold cache`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.described(&self.arrivals.to_string()))
    }
}
