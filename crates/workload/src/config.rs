//! The plan's `[workload]` table.

use super::arrivals::{Arrivals, GammaShape};
use super::conversation::{Conversation, Think};
use super::kind::{Found, Kind, Of};
use super::sources::Prompts;
use super::synthetic::SharedPrefix;
use super::trace::TraceSource;
use goodput_core::level::Control;
use goodput_core::slo::{ALL, Slo};
use goodput_core::units::{NonEmpty, Positive, Rate, short};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;

/// What is sent, and in which rhythm; the rate is the search's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
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
    /// What its files were found to hold, for each kind of request; empty until they were read.
    pub found: Vec<Found>,
    /// The class of a mix that it is by itself. No key of a plan: a series that measures a class alone has it.
    pub only: Option<String>,
}

/// What is sent.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// Prompts of one kind.
    Prompts(Prompts),
    /// A recording of requests, replayed.
    Trace(TraceSource),
    /// Several kinds, drawn jointly.
    Mix(NonEmpty<Class>),
}

/// One kind of request in a mix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
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
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    pub body: toml::Table,
}

/// State of the prefix cache that a workload asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
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

#[derive(Clone, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct RawWorkload {
    /// The shape of the arrivals; a trace has its own.
    #[serde(default = "RawWorkload::poisson")]
    arrivals: Arrivals,
    /// What prompts may find in the server's prefix cache.
    #[serde(default)]
    cache: Cache,
    /// A closed loop sends no faster than this, in requests (conversations) per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pace: Option<Rate>,
    /// Each class of a mix is measured by itself as well: what mixing costs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    alone: bool,
    /// Where prompts come from. Exactly one of `prompts`, `trace`, `[[workload.class]]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prompts: Option<Prompts>,
    /// Turns that follow a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    conversation: Option<Conversation>,
    /// A recording of requests, replayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trace: Option<TraceSource>,
    /// Several kinds of request, drawn jointly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    class: Option<NonEmpty<Class>>,
    /// What the files were found to hold; written by a sweep, not by people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    found: Vec<Found>,
}

impl RawWorkload {
    fn poisson() -> Arrivals {
        Arrivals::Poisson
    }
}

impl TryFrom<RawWorkload> for Workload {
    type Error = String;
    fn try_from(r: RawWorkload) -> Result<Self, String> {
        let sources = [r.prompts.map(Source::Prompts), r.trace.map(Source::Trace), r.class.map(Source::Mix)];
        let mut sources: Vec<Source> = sources.into_iter().flatten().collect();
        let source = match (sources.pop(), sources.is_empty()) {
            (Some(source), true) => source,
            (None, _) => return Err("[workload] needs one of prompts, trace, [[workload.class]]".into()),
            (Some(_), false) => {
                return Err("[workload] takes only one of prompts, trace, [[workload.class]]".into());
            }
        };
        let w = Workload {
            arrivals: r.arrivals,
            cache: r.cache,
            source,
            conversation: r.conversation,
            pace: r.pace,
            alone: r.alone,
            found: r.found,
            only: None,
        };
        w.problem().map_or(Ok(w), Err)
    }
}

impl From<Workload> for RawWorkload {
    fn from(w: Workload) -> Self {
        let (mut prompts, mut trace, mut class) = (None, None, None);
        match w.source {
            Source::Prompts(p) => prompts = Some(p),
            Source::Trace(t) => trace = Some(t),
            Source::Mix(c) => class = Some(c),
        }
        Self {
            arrivals: w.arrivals,
            cache: w.cache,
            pace: w.pace,
            alone: w.alone,
            prompts,
            conversation: w.conversation,
            trace,
            class,
            found: w.found,
        }
    }
}

impl Workload {
    /// The kinds of request, in the order of their classes.
    pub fn kinds<'a>(&'a self) -> Vec<Kind<'a>> {
        match &self.source {
            Source::Prompts(prompts) => vec![self.only_kind(Of::Prompts(prompts))],
            Source::Trace(trace) => vec![self.only_kind(Of::Trace(trace))],
            Source::Mix(classes) => {
                let sum: f64 = classes.iter().map(|c| c.weight.get()).sum();
                let kind = |(i, c): (usize, &'a Class)| Kind {
                    name: Some(&c.name),
                    known_as: &c.name,
                    share: c.weight.get() / sum,
                    of: Of::Prompts(&c.prompts),
                    conversation: c.conversation.as_ref(),
                    found: self.found.get(i),
                };
                classes.iter().enumerate().map(kind).collect()
            }
        }
    }

    fn only_kind<'a>(&'a self, of: Of<'a>) -> Kind<'a> {
        let (conversation, found) = (self.conversation.as_ref(), self.found.first());
        Kind {
            name: None,
            known_as: self.only.as_deref().unwrap_or(ALL),
            share: 1.0,
            of,
            conversation,
            found,
        }
    }

    /// The shared prefixes of each kind, by what it is known as.
    pub fn prefixes(&self) -> Vec<(&str, SharedPrefix)> {
        let of = |k: Kind<'_>| match k.of {
            Of::Prompts(Prompts::Synthetic(s)) => s.shared_prefix,
            Of::Prompts(_) | Of::Trace(_) => None,
        };
        self.kinds().into_iter().filter_map(|k| Some((k.known_as, of(k)?))).collect()
    }

    /// The classes of the mix; none where there is one kind of request.
    pub fn classes(&self) -> &[Class] {
        match &self.source {
            Source::Mix(classes) => classes,
            Source::Prompts(_) | Source::Trace(_) => &[],
        }
    }

    /// The name of a class in files, by its index: [`ALL`] where there is one kind of request.
    pub fn class_name(&self, class: u16) -> &str {
        self.classes().get(usize::from(class)).map_or(ALL, |c| &c.name)
    }

    /// Fills in the profiles of the classes' own limits.
    pub fn resolve_classes(&mut self) {
        if let Source::Mix(classes) = &mut self.source {
            for class in classes.iter_mut() {
                class.slo = class.slo.take().map(Slo::resolve);
            }
        }
    }

    /// What an open loop steps through: requests, conversations, or the speed of a trace.
    pub fn control(&self) -> Control {
        match self.source {
            Source::Trace(_) => Control::TraceScale,
            _ if self.kinds().iter().any(Kind::talks) => Control::Sessions,
            _ => Control::Rate,
        }
    }

    /// The shape of the arrivals, as far as it is known: a trace's own, as gamma gaps of the same spread.
    pub fn shape(&self) -> Arrivals {
        match (&self.source, self.found.first().and_then(|f| f.cv)) {
            (Source::Trace(_), Some(cv)) => Arrivals::Gamma(GammaShape { cv }),
            _ => self.arrivals,
        }
    }

    /// Every file that it names, to be found from somewhere else.
    pub fn each_file(&mut self, mut change: impl FnMut(&mut PathBuf)) {
        let mut of_prompts = |p: &mut Prompts| match p {
            Prompts::Synthetic(_) => {}
            Prompts::Data(d) => d.files.iter_mut().for_each(&mut change),
            Prompts::Text(t) => change(&mut t.file),
        };
        match &mut self.source {
            Source::Prompts(p) => of_prompts(p),
            Source::Mix(classes) => classes.iter_mut().for_each(|c| of_prompts(&mut c.prompts)),
            Source::Trace(t) => change(&mut t.file),
        }
    }

    /// Requests per second at level 1 of an open loop: the turns of a conversation on average, the mean rate of a trace.
    pub fn per_level(&self) -> f64 {
        self.kinds().iter().map(|k| k.share * k.per_level()).sum()
    }

    /// How long the users of a conversation think in all, on average and in seconds, as far as the plan tells.
    pub fn think_s(&self) -> f64 {
        // A data set knows how many turns its conversations have once it is read.
        let think = |k: &Kind<'_>, c: &Conversation| {
            c.think.mean().unwrap_or_default().as_secs_f64() * (k.per_level() - 1.0)
        };
        self.kinds().iter().map(|k| k.share * k.conversation.map_or(0.0, |c| think(k, c))).sum()
    }

    /// Whether some of its users think as long as a data set recorded, which the plan does not tell.
    pub fn thinks_as_recorded(&self) -> bool {
        let recorded = |c: Option<&Conversation>| c.is_none_or(|c| c.think == Think::Recorded);
        self.kinds().iter().any(|k| k.talks() && recorded(k.conversation))
    }

    /// The share of all input tokens that lies in shared prefixes, which a warm cache has; 0 where nothing is shared. `None` where
    /// the plan does not tell: the turns of a conversation share their history as well, and a trace or a data set what it has.
    pub fn shared_share(&self) -> Option<f64> {
        if self.control() == Control::Sessions {
            return None;
        }
        let tokens = |k: &Kind<'_>| match k.of {
            Of::Prompts(Prompts::Synthetic(s)) => Some((s.shared_tokens(), s.input_tokens.mean_of(|n| n))),
            // What these share is theirs.
            Of::Prompts(_) | Of::Trace(_) => None,
        };
        let (mut shared, mut all) = (0.0, 0.0);
        for kind in self.kinds() {
            let (own_shared, own) = tokens(&kind)?;
            shared += kind.share * own_shared;
            all += kind.share * own;
        }
        Some(shared / all.max(1.0))
    }

    /// Whether requests find beginnings of their own in a cold cache, by right: what was said before, or a trace's blocks.
    pub fn repeats(&self) -> bool {
        self.kinds().iter().any(|k| k.talks() || k.found.is_some_and(|f| f.blocks))
    }

    /// The longest answer that the plan asks for, where it says one.
    pub fn longest_output(&self) -> Option<u32> {
        self.kinds().iter().map(Kind::longest_output).reduce(|a, b| Some(a?.max(b?))).flatten()
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
            let class = k.name.map(|n| format!(" of class {n}")).unwrap_or_default();
            k.problem_of_turns().map(|e| format!("[workload.conversation]{class}: {e}"))
        })
    }

    fn described(&self, rhythm: &str) -> String {
        let what: Vec<String> = self
            .kinds()
            .iter()
            .map(|k| {
                let turns = k.conversation.map(|c| format!(", {c}")).unwrap_or_default();
                match k.name {
                    Some(name) => format!("{} % {name} ({k}{turns})", short(100.0 * k.share)),
                    None => format!("{k}{turns}"),
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
        let rhythm = match self.source {
            Source::Trace(_) => "arrivals as recorded".to_owned(),
            _ => self.arrivals.to_string(),
        };
        f.write_str(&self.described(&rhythm))
    }
}
