//! The plan's `[workload]` table.

use super::arrivals::{Arrivals, GammaShape};
use super::audio::Audio;
use super::conversation::{Conversation, Think};
use super::images::Images;
use super::kind::{FileSummary, Kind, RequestSource};
use super::models::ModelChoices;
use super::sources::Prompts;
use super::summary::{Pacing, RequestKind, WorkloadSummary};
use super::synthetic::SharedPrefix;
use super::trace::TraceSource;
use goodput_core::level::Control;
use goodput_core::slo::{ALL, Slo};
use goodput_core::units::{NonEmpty, Positive, Rate};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Contents and arrival shape of the load; its rate is set by the search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "RawWorkload", into = "RawWorkload")]
pub struct Workload {
    /// Shape of the arrivals; a trace has recorded times instead.
    pub arrivals: Arrivals,
    /// State of the server's prefix cache for the prompts.
    pub cache: Cache,
    /// Contents of the requests.
    pub source: Source,
    /// Turns that follow a request; in a mix each class has its own table.
    pub conversation: Option<Conversation>,
    /// Largest send rate of a closed loop, in requests (conversations) per second.
    pub pace: Option<Rate>,
    /// Measures each class of a mix alone as well.
    pub alone: bool,
    /// Summaries of the files for each kind of request; empty until the files are read.
    pub file_summaries: Vec<FileSummary>,
    /// The class of a mix, in a series that measures that class alone. Not a key of a plan.
    pub only: Option<String>,
}

/// Contents of the requests.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// Prompts of one kind.
    Prompts(Prompts),
    /// A recording of requests, replayed.
    Trace(TraceSource),
    /// Several kinds of request, drawn at random by weight.
    Mix(NonEmpty<Class>),
}

/// One kind of request in a mix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Class {
    /// Name in reports.
    pub name: String,
    /// Weight; the class's share of the arrivals is its weight divided by the sum of all.
    pub weight: Positive,
    /// Model or LoRA adapter, if not the plan's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Contents of its prompts.
    pub prompts: Prompts,
    /// Turns that follow a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<Conversation>,
    /// Limits that replace the plan's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slo: Option<Slo>,
    /// Request fields in addition to those of `server.body`, such as sampling settings.
    #[serde(default, skip_serializing_if = "toml::Table::is_empty")]
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    pub body: toml::Table,
}

/// State of the server's prefix cache that a workload asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cache {
    /// No prompt shares a prefix with an earlier one: each begins with a nonce.
    #[default]
    Cold,
    /// Shared prefixes are sent unchanged, and warmed before each step.
    Warm,
    /// The whole sweep runs twice, cold and warm, to show the effect of the cache.
    Pair,
}

impl Cache {
    /// Returns the name in plans, which is also that of the series.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Warm => "warm",
            Self::Pair => "pair",
        }
    }
}

/// The `[workload]` table as written.
// A mirror of `Workload`: three keys, of which one is set, become its source. `#[serde(flatten)]` would lose the position of a mistake in
// the plan.
#[derive(Clone, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct RawWorkload {
    /// Shape of the arrivals; a trace has recorded times instead.
    #[serde(default = "RawWorkload::poisson")]
    arrivals: Arrivals,
    /// State of the server's prefix cache for the prompts.
    #[serde(default)]
    cache: Cache,
    /// Largest send rate of a closed loop, in requests (conversations) per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pace: Option<Rate>,
    /// Measures each class of a mix alone as well, to show the cost of mixing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    alone: bool,
    /// Models or LoRA adapters of the server that requests (conversations) are spread over at random. Each is a class of its name, with
    /// statistics of its own; the plan of a run folder lists these classes instead. In a mix, classes without a model are spread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<ModelChoices>,
    /// Source of prompts. Exactly one of `prompts`, `trace` and `[[workload.class]]` is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prompts: Option<Prompts>,
    /// Turns that follow a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    conversation: Option<Conversation>,
    /// A recording of requests, replayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trace: Option<TraceSource>,
    /// Several kinds of request, drawn at random by weight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    class: Option<NonEmpty<Class>>,
    /// Summaries of the files; written by a sweep, not by users.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    found: Vec<FileSummary>,
}

/// Error for a table of conversations beside classes.
const NOT_OF_CLASSES: &str = "[workload.conversation] does not apply to [[workload.class]]: give each class that has turns its own \
                              [workload.class.conversation]";

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
        let (source, conversation) = match (&r.model, r.conversation) {
            (Some(_), Some(_)) if matches!(source, Source::Mix(_)) => return Err(NOT_OF_CLASSES.into()),
            (Some(models), conversation) => (models.spread(source, conversation)?, None),
            (None, conversation) => (source, conversation),
        };
        let w = Workload {
            arrivals: r.arrivals,
            cache: r.cache,
            source,
            conversation,
            pace: r.pace,
            alone: r.alone,
            file_summaries: r.found,
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
            model: None,
            prompts,
            conversation: w.conversation,
            trace,
            class,
            found: w.file_summaries,
        }
    }
}

impl Workload {
    /// Returns the kinds of request, in the order of the classes.
    pub fn kinds<'a>(&'a self) -> Vec<Kind<'a>> {
        match &self.source {
            Source::Prompts(prompts) => vec![self.single_kind(RequestSource::Prompts(prompts))],
            Source::Trace(trace) => vec![self.single_kind(RequestSource::Trace(trace))],
            Source::Mix(classes) => {
                let sum: f64 = classes.iter().map(|c| c.weight.get()).sum();
                let kind = |(i, c): (usize, &'a Class)| Kind {
                    name: Some(&c.name),
                    class_key: &c.name,
                    share: c.weight.get() / sum,
                    source: RequestSource::Prompts(&c.prompts),
                    conversation: c.conversation.as_ref(),
                    file_summary: self.file_summaries.get(i),
                };
                classes.iter().enumerate().map(kind).collect()
            }
        }
    }

    fn single_kind<'a>(&'a self, source: RequestSource<'a>) -> Kind<'a> {
        let (conversation, file_summary) = (self.conversation.as_ref(), self.file_summaries.first());
        Kind {
            name: None,
            class_key: self.only.as_deref().unwrap_or(ALL),
            share: 1.0,
            source,
            conversation,
            file_summary,
        }
    }

    /// Returns true if any prompts have images.
    pub fn has_images(&self) -> bool {
        let images = |k: &Kind<'_>| match k.source {
            RequestSource::Prompts(Prompts::Synthetic(s)) => s.images.is_some(),
            RequestSource::Prompts(_) | RequestSource::Trace(_) => false,
        };
        self.kinds().iter().any(images)
    }

    /// Returns the shared prefix of each kind that has one, with the name of its class.
    pub fn prefixes(&self) -> Vec<(&str, SharedPrefix)> {
        let prefix = |k: &Kind<'_>| match k.source {
            RequestSource::Prompts(Prompts::Synthetic(s)) => s.shared_prefix,
            RequestSource::Prompts(_) | RequestSource::Trace(_) => None,
        };
        self.kinds().into_iter().filter_map(|k| Some((k.class_key, prefix(&k)?))).collect()
    }

    /// Returns the classes of the mix; empty if there is one kind of request.
    pub fn classes(&self) -> &[Class] {
        match &self.source {
            Source::Mix(classes) => classes,
            Source::Prompts(_) | Source::Trace(_) => &[],
        }
    }

    /// Returns the name of a class in files, by its index; [`ALL`] if there is one kind of request.
    pub fn class_name(&self, class: u16) -> &str {
        self.classes().get(usize::from(class)).map_or(ALL, |c| &c.name)
    }

    /// Fills in the SLO profiles of the classes.
    pub fn resolve_classes(&mut self) {
        if let Source::Mix(classes) = &mut self.source {
            for class in classes.iter_mut() {
                class.slo = class.slo.take().map(Slo::resolve);
            }
        }
    }

    /// Returns the control of an open loop: requests per second, conversations per second, or the speed of a trace.
    pub fn control(&self) -> Control {
        match self.source {
            Source::Trace(_) => Control::TraceScale,
            Source::Prompts(_) | Source::Mix(_) if self.kinds().iter().any(Kind::makes_conversations) => {
                Control::Sessions
            }
            Source::Prompts(_) | Source::Mix(_) => Control::Rate,
        }
    }

    /// Returns the shape of the arrivals; for a trace whose file was read, gamma gaps of its coefficient of variation.
    pub fn shape(&self) -> Arrivals {
        match (&self.source, self.file_summaries.first().and_then(|f| f.cv)) {
            (Source::Trace(_), Some(cv)) => Arrivals::Gamma(GammaShape { cv }),
            (Source::Trace(_), None) | (Source::Prompts(_) | Source::Mix(_), _) => self.arrivals,
        }
    }

    /// Applies a change to the path of every file.
    pub fn each_file(&mut self, mut change: impl FnMut(&mut PathBuf)) {
        let mut in_prompts = |p: &mut Prompts| match p {
            Prompts::Synthetic(s) => {
                s.images.iter_mut().flat_map(Images::files_mut).for_each(&mut change);
            }
            Prompts::Items(_) | Prompts::Audio(Audio::Generated(_)) => {}
            Prompts::Audio(Audio::Recordings(files)) => files.iter_mut().for_each(&mut change),
            Prompts::Data(d) => d.files.iter_mut().for_each(&mut change),
            Prompts::Text(t) => change(&mut t.file),
        };
        match &mut self.source {
            Source::Prompts(p) => in_prompts(p),
            Source::Mix(classes) => classes.iter_mut().for_each(|c| in_prompts(&mut c.prompts)),
            Source::Trace(t) => change(&mut t.file),
        }
    }

    /// Returns the requests per second at level 1 of an open loop: mean turns of a conversation, or mean rate of a
    /// trace.
    pub fn per_level(&self) -> f64 {
        self.kinds().iter().map(|k| k.share * k.per_level()).sum()
    }

    /// Returns the mean total think time of a conversation in seconds, as far as the plan sets it.
    pub fn think_s(&self) -> f64 {
        // The turns of a data set's conversations are known once its files are read.
        let think = |k: &Kind<'_>, c: &Conversation| {
            c.think.mean().unwrap_or_default().as_secs_f64() * (k.per_level() - 1.0)
        };
        self.kinds().iter().map(|k| k.share * k.conversation.map_or(0.0, |c| think(k, c))).sum()
    }

    /// Returns true if some think times are those of a data set, which the plan does not know.
    pub fn thinks_as_recorded(&self) -> bool {
        let recorded = |c: Option<&Conversation>| c.is_none_or(|c| c.think == Think::Recorded);
        self.kinds().iter().any(|k| k.makes_conversations() && recorded(k.conversation))
    }

    /// Returns the share of all input tokens in shared prefixes, which a warm cache holds; 0 if there are none. `None`
    /// if the plan does not determine it: conversations also share their history, and traces and data sets whatever
    /// they contain.
    pub fn shared_share(&self) -> Option<f64> {
        if self.control() == Control::Sessions {
            return None;
        }
        let tokens = |k: &Kind<'_>| match k.source {
            RequestSource::Prompts(Prompts::Synthetic(s)) => {
                Some((s.shared_tokens(), s.input_tokens.mean_of(|n| n)))
            }
            RequestSource::Prompts(_) | RequestSource::Trace(_) => None,
        };
        let (mut shared, mut all) = (0.0, 0.0);
        for kind in self.kinds() {
            let (kind_shared, kind_all) = tokens(&kind)?;
            shared += kind.share * kind_shared;
            all += kind.share * kind_all;
        }
        Some(shared / all.max(1.0))
    }

    /// Returns true if requests share prefixes by design even with a cold cache: conversation history, or the blocks of
    /// a trace.
    pub fn repeats(&self) -> bool {
        self.kinds().iter().any(|k| k.makes_conversations() || k.file_summary.is_some_and(|f| f.blocks))
    }

    /// Returns the longest answer that the plan asks for, if it sets one.
    pub fn longest_output(&self) -> Option<u32> {
        self.kinds().iter().map(Kind::longest_output).reduce(|a, b| Some(a?.max(b?))).flatten()
    }

    /// Returns the length of the longest audio of a request, as far as the plan sets it; zero if there is none.
    pub fn longest_audio(&self) -> Duration {
        self.kinds().iter().map(Kind::longest_audio).max().unwrap_or_default()
    }

    /// Describes the workload in a closed loop, which has no arrival shape: `600 in / 30 out tokens, closed loop, cold
    /// cache`.
    pub fn closed(&self) -> String {
        self.summary(Pacing::ClosedLoop { max_rate: self.pace }).to_string()
    }

    /// Returns the first mistake of the table as a whole, as an error message.
    fn problem(&self) -> Option<String> {
        let mut names = HashSet::new();
        for class in self.classes() {
            let plain = |c: char| c.is_alphanumeric() || "-_.".contains(c);
            if !class.name.chars().all(plain) {
                return Some(format!(
                    "[[workload.class]] name = {:?}: a class name may contain only letters, digits, -, _ and .",
                    class.name
                ));
            }
            if class.name.trim().is_empty() || class.name == "all" {
                return Some(format!(
                    "[[workload.class]] name = {:?}: a class needs a name other than \"all\", which means the whole mix",
                    class.name
                ));
            }
            if !names.insert(&class.name) {
                return Some(format!(
                    "[[workload.class]] two classes are called {:?}: rename one",
                    class.name
                ));
            }
        }
        if self.alone && self.classes().len() < 2 {
            return Some(
                "[workload] alone = true measures each class alone: it needs two [[workload.class]]".into(),
            );
        }
        if self.conversation.is_some() && !self.classes().is_empty() {
            return Some(NOT_OF_CLASSES.into());
        }
        self.kinds().iter().find_map(|k| {
            let class = k.name.map(|n| format!(" of class {n}")).unwrap_or_default();
            let conversation =
                k.conversation_problem().map(|e| format!("[workload.conversation]{class}: {e}"));
            let images =
                || k.images_problem().map(|e| format!("[workload.prompts.synthetic.images]{class}: {e}"));
            conversation.or_else(images)
        })
    }

    /// Returns what a result keeps of the workload, sent at this pace.
    pub fn summary(&self, pacing: Pacing) -> WorkloadSummary {
        let kind = |k: &Kind<'_>| RequestKind {
            class: k.name.map(str::to_owned),
            share: k.share,
            prompts: k.prompts(),
            conversation: k.conversation.cloned(),
            // The body of the requests says so, which is not of the workload.
            choices: None,
        };
        WorkloadSummary { requests: self.kinds().iter().map(kind).collect(), pacing, cache: Some(self.cache) }
    }

    /// Returns when an open loop sends requests.
    pub const fn pacing(&self) -> Pacing {
        match self.source {
            Source::Trace(_) => Pacing::AsRecorded,
            Source::Prompts(_) | Source::Mix(_) => Pacing::Arrivals(self.arrivals),
        }
    }
}

impl fmt::Display for Workload {
    /// Formats `600 in / 30 out tokens, Poisson arrivals, cold cache`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.summary(self.pacing()).fmt(f)
    }
}
