//! The plan: the TOML file as types, checked, with profiles and defaults filled in.

mod classes;
mod grid;
mod overlay;
mod purpose;
mod row;
mod secret;
mod series;
mod set;
mod tiers;
mod variant;

pub use grid::Grid;
pub use purpose::Purpose;
pub use row::{Bottleneck, Row};
pub use series::{MAIN, Series};
pub use set::apply as apply_set;
pub use tiers::Tiers;
pub use variant::{Filled, ReadyUrl, Start, Variant};

use crate::capacity::Hardware;
use crate::check::Check;
use crate::client::config::{PromptForm, Server, Target};
use crate::client::extras::ExtraBody;
use crate::load::config::StepTimes;
use crate::load::own::OwnLimits;
use crate::search::Search;
use crate::search::config::{Mode, Open, Over, SearchPlan};
use crate::sim::config::Simulated;
use crate::slo::{Metric, Part, Slo};
use crate::stats::own::Allowed;
use crate::tokens::Tokenizer;
use crate::units::Span;
use crate::workload;
use crate::workload::arrivals::Arrivals;
use crate::workload::config::{Cache, Workload};
use crate::workload::data::Counter;
use crate::workload::kind::{Kind, Of};
use crate::workload::lengths::{Lengths, TokenCount};
use crate::workload::sources::Prompts;
use crate::workload::synthetic::Synthetic;
use crate::workload::traffic::Traffic;
use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A sweep plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Plan {
    /// Name of the sweep: in reports, and in the name of the run folder.
    pub name: String,
    /// Seed of every random number.
    #[serde(default = "Plan::first_seed")]
    pub seed: u32,
    /// Free text, carried into the report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    /// What is asked of the server.
    #[serde(default, skip_serializing_if = "Purpose::is_goodput")]
    pub purpose: Purpose,
    /// Who is asked, and how.
    pub server: Server,
    /// What must hold; no limit at all only in a matrix, where the purpose is not the goodput, and where every class of a mix has
    /// limits of its own.
    #[serde(default, skip_serializing_if = "Tiers::is_left_out")]
    pub slo: Tiers,
    /// What is sent. Where every row of a matrix says it for itself: what the first one sends.
    #[serde(default = "Plan::no_workload")]
    pub workload: Workload,
    /// How long a step takes.
    #[serde(default)]
    pub step: StepTimes,
    /// What the client may use, and how much delay of its own it may have.
    #[serde(default)]
    pub client: OwnLimits,
    /// Which levels are measured.
    #[serde(default)]
    pub search: SearchPlan,
    /// What the server runs on.
    #[serde(default)]
    pub hardware: Hardware,
    /// What answers must be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub check: Vec<Check>,
    /// The rows of the matrix: each is a series with one level.
    #[serde(default, rename = "row", skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<Row>,
    /// The variants that it names: each is a series of its own, on a server of its own.
    #[serde(default, rename = "variant", skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<Variant>,
    /// Variants that differ in a knob.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grid: Option<Grid>,
}

macro_rules! sweeps {
    ($($name:literal),+ $(,)?) => {
        /// The plans of `sweeps/`, built into the binary: name and TOML text.
        pub const SWEEPS: &[(&str, &str)] = &[$(($name, include_str!(concat!("../../sweeps/", $name, ".toml")))),+];
    };
}
sweeps!(
    "default",
    "demo",
    "demo-virtual",
    "a40-qwen3-0.6b",
    "chat",
    "rag",
    "cache-pair",
    "cache-pair-local",
    "llamacpp-local",
    "mix",
    "conversation",
    "vllm-local",
    "vllm-variants-local",
    "llama-70b-max-num-seqs",
    "llama-70b-gpu-memory-utilization",
    "matrix"
);

/// Where a plan's text comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file.
    File(PathBuf),
    /// A plan of `sweeps/`, by name.
    Builtin(&'static str, &'static str),
}

impl Source {
    /// A path to a file, or else the name of a built-in plan. Fails, naming the plans that exist, where it is neither.
    pub fn find(what: &Path) -> Result<Self> {
        if what.is_file() {
            return Ok(Self::File(what.to_owned()));
        }
        let by_name = SWEEPS.iter().find(|(name, _)| Path::new(name) == what);
        by_name.map(|(name, text)| Self::Builtin(name, text)).ok_or_else(|| {
            anyhow!(
                "there is no plan {}: neither a file nor one of the built-in plans ({}); `goodput init {0}` writes one to start from",
                what.display(),
                SWEEPS.iter().map(|(n, _)| *n).collect::<Vec<_>>().join(", ")
            )
        })
    }

    /// The plan for a sweep without one.
    pub fn fallback() -> Self {
        let (name, text) = SWEEPS[0];
        Self::Builtin(name, text)
    }

    fn title(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Builtin(name, _) => format!("the built-in plan {name}"),
        }
    }

    fn text(&self) -> Result<String> {
        match self {
            Self::File(path) => std::fs::read_to_string(path)
                .with_context(|| format!("failed to read the plan {}", path.display())),
            Self::Builtin(_, text) => Ok((*text).to_owned()),
        }
    }
}

/// An error of the parser with its place. It quotes the line, except where that line may hold a secret: those messages
/// say what to write instead, and name `api-key-env`.
fn shown(text: &str, error: &toml::de::Error) -> String {
    let may_hold_secret = error.message().contains("api-key-env");
    match error.span().filter(|_| may_hold_secret) {
        None => error.to_string(),
        Some(span) => {
            let before = &text[..span.start.min(text.len())];
            let line = before.matches('\n').count() + 1;
            let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
            format!("line {line}, column {column}: {}", error.message())
        }
    }
}

/// Where only a file knows how long answers are: longer than nearly all.
const UNKNOWN_OUTPUT: u32 = 2048;

impl Plan {
    fn first_seed() -> u32 {
        1
    }

    /// Reads a plan, applies `sets` (`key=value`, in order), and resolves it: profiles and defaults filled in, everything
    /// checked that can be checked without a server.
    ///
    /// Errors name the file and, for what is wrong in the file itself, line and column.
    pub fn load(source: &Source, sets: &[String]) -> Result<Self> {
        let text = source.text()?;
        let title = source.title();
        let plan = if sets.is_empty() {
            Self::parse(&text).map_err(|e| anyhow!("in {title}: {}", shown(&text, &e)))?
        } else {
            let mut table: toml::Table = toml::from_str(&text).map_err(|e| anyhow!("in {title}: {e}"))?;
            for set in sets {
                set::apply(&mut table, set)?;
            }
            let merged = table.to_string();
            Self::parse(&merged).map_err(|e| match Self::parse(&text) {
                // The same mistake stands in the file itself: show it there.
                Err(own) if own.message() == e.message() => anyhow!("in {title}: {}", shown(&text, &own)),
                _ => {
                    let keys: Vec<&str> =
                        sets.iter().filter_map(|s| Some(s.split_once('=')?.0.trim())).collect();
                    anyhow!("in {title} with {} changed: {}", keys.join(", "), shown(&merged, &e))
                }
            })?
        };
        let mut plan = plan.resolve().map_err(|problem| anyhow!("in {title}: {problem}"))?;
        if let Source::File(path) = source {
            plan.find_files(path.parent().unwrap_or(Path::new("")))?;
        }
        Ok(plan)
    }

    /// Files are named as seen from the plan's own folder; one that is not there is looked for from here. They are known by their
    /// whole paths from then on, so that a run can be resumed from anywhere.
    fn find_files(&mut self, folder: &Path) -> Result<()> {
        let mut problem = None;
        self.workload.each_file(|file| {
            let beside = folder.join(&*file);
            let found = if beside.exists() || !file.exists() { beside } else { file.clone() };
            match std::path::absolute(&found) {
                Ok(whole) => *file = whole,
                Err(e) => problem = Some(anyhow!("the file {} cannot be found: {e}", found.display())),
            }
        });
        let named = self.variants.iter_mut().filter_map(|v| v.start.as_mut());
        for start in named.chain(self.grid.as_mut().and_then(Grid::start_mut)) {
            if let Some(place) = &mut start.working_directory {
                *place = std::path::absolute(folder.join(&*place))
                    .with_context(|| format!("the folder {} cannot be found", place.display()))?;
            }
        }
        problem.map_or(Ok(()), Err)
    }

    /// What counts the tokens of texts: the plan's tokenizer, else an estimate.
    pub(crate) fn counter(&self) -> Result<Counter> {
        let Some(file) = &self.server.tokenizer else { return Ok(Counter::default()) };
        let tokenizer = Tokenizer::open(file)?;
        Ok(Counter::Exact(Arc::new(move |text| tokenizer.count(text))))
    }

    /// Opens the files of the workload, and notes what they hold.
    ///
    /// # Errors
    /// A file cannot be read, or holds something that it should not: the message names file, line and field.
    pub fn open_files(&mut self) -> Result<Traffic> {
        let traffic = Traffic::open(&self.workload, &self.counter()?)?;
        if self.server.prompts == PromptForm::TokenIds && traffic.follows() {
            bail!(
                "[server] prompts = \"token-ids\" makes single prompts of exact lengths, and rows of {} follow the answers to others: \
                 leave it out",
                self.workload
            );
        }
        self.workload.found = traffic.found();
        Ok(traffic)
    }

    /// Reads and resolves a plan from its text.
    ///
    /// # Errors
    /// As [`Plan::load`], without a file's name.
    pub fn from_text(text: &str) -> Result<Self> {
        let plan = Self::parse(text).map_err(|e| anyhow!("{}", shown(text, &e)))?;
        plan.resolve().map_err(|problem| anyhow!("{problem}"))
    }

    /// Parses the text of a plan; the error shows line and column.
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        // First the simulated server alone: its own types know where in the file a mistake stands.
        #[derive(Deserialize)]
        struct Outer {
            server: Option<Inner>,
            workload: Option<serde::de::IgnoredAny>,
        }
        #[derive(Deserialize)]
        struct Inner {
            #[serde(rename = "simulated")]
            _simulated: Option<Simulated>,
        }
        let mut plan: Self = toml::from_str(text)?;
        plan.settle_classes();
        let outer: Outer = toml::from_str(text)?;
        debug_assert!(outer.server.is_some());
        if outer.workload.is_none() {
            let Some(first) = plan.rows.first().cloned() else {
                return Err(serde::de::Error::missing_field("workload"));
            };
            if let Some(problem) = Row::lengths_missing(&plan.rows) {
                return Err(serde::de::Error::custom(problem));
            }
            let mut own = plan.clone();
            first.apply(&mut own);
            plan.workload = own.workload;
            plan.workload.pace = None;
        }
        if let Some(fault) = plan.variant_fault() {
            return Err(serde::de::Error::custom(fault.words(text)));
        }
        Ok(plan)
    }

    /// Stands where the plan has no `[workload]`, until [`Plan::parse`] has put something in its place.
    fn no_workload() -> Workload {
        let one = TokenCount::try_from(1).expect("one is at least one");
        let one = Lengths::Fixed(one);
        let prompts = Synthetic { input_tokens: one, output_tokens: one, shared_prefix: None };
        Workload {
            arrivals: Arrivals::Poisson,
            cache: Cache::Cold,
            source: workload::config::Source::Prompts(Prompts::Synthetic(prompts)),
            conversation: None,
            pace: None,
            alone: false,
            found: Vec::new(),
            only: None,
        }
    }

    /// Fills in profiles and defaults and checks what no single value can know.
    fn resolve(mut self) -> Result<Self, String> {
        self.slo = self.slo.resolve();
        self.workload.resolve_classes();
        self.settle_classes();
        let free = self.slo.is_none() && (!self.rows.is_empty() || !self.purpose.is_goodput());
        let of_slo = if free { None } else { self.slo.problem() };
        let of_classes = || classes::problem(&self.slo, self.workload.classes());
        if let Some(problem) =
            of_classes().or(of_slo).or_else(|| self.step.problem()).or_else(|| row::problem(&self))
        {
            return Err(problem);
        }
        if let Some(problem) = self.purpose.problem(&self) {
            return Err(problem);
        }
        if self.name.trim().is_empty() {
            return Err("name is empty".into());
        }
        if self.server.tokenizer.is_some() && !Tokenizer::BUILT_IN {
            return Err(Tokenizer::MISSING.into());
        }
        self.check = self.check.into_iter().map(Check::resolve).collect::<Result<_, _>>()?;
        let names: Vec<&str> = self.check.iter().map(|c| c.name.as_str()).collect();
        if let Some(twice) = names.iter().enumerate().find(|(i, name)| names[..*i].contains(name)) {
            return Err(format!("two [[check]] are called \"{}\": give each a name of its own", twice.1));
        }
        if let Some(problem) = self.unseen() {
            return Err(problem);
        }
        let series = self.try_series()?;
        let least = series.iter().map(|s| s.plan.least_timeout()).max().unwrap_or_default();
        match self.step.timeout {
            None => self.step.timeout = Some(Span((least * 2).max(Duration::from_secs(60)))),
            Some(t) => {
                if let Some((tier, limit)) = series.iter().find_map(|s| s.plan.limit_above(t.0)) {
                    return Err(format!(
                        "[step] timeout ({t}) is below the limit {limit} of {tier}: no request could be seen to miss it"
                    ));
                }
            }
        }
        let said = |k: &Kind<'_>| k.conversation.is_some() || matches!(k.of, Of::Prompts(Prompts::Data(_)));
        if self.server.prompts == PromptForm::TokenIds && self.workload.kinds().iter().any(said) {
            return Err("[server] prompts = \"token-ids\" makes single prompts of exact lengths: conversations and the rows of \
                        a data set are texts; leave it out"
                .into());
        }
        for class in self.workload.classes() {
            if let Err(problem) = ExtraBody::try_from(class.body.clone()) {
                return Err(format!("[[workload.class]] {}: {problem}", class.name));
            }
        }
        // The search says itself what it cannot do.
        for series in self.try_series()? {
            let problem = series.plan.above_in_flight().map_or_else(|| series.plan.searcher().map(drop), Err);
            let whose = match &series.variant {
                Some(variant) => format!("{}: ", variant.title()),
                None if self.rows.is_empty() => String::new(),
                None => format!("[[row]] {}: ", series.name),
            };
            problem.map_err(|e| format!("{whose}{e}"))?;
        }
        Ok(self)
    }

    /// What is wrong where a closed loop is to have more in flight than the step allows.
    fn above_in_flight(&self) -> Option<String> {
        let most = self.step.max_in_flight;
        let peak = self.search.peak.map(|peak| ("peak.concurrency", peak.concurrency.get()));
        let levels = match &self.search.mode {
            Mode::Concurrency(levels) => levels.iter().max().map(|n| ("concurrency", n.get())),
            Mode::Ladder(ladder) => Some(("ladder.max", ladder.max.get())),
            Mode::Burst(n) => Some(("burst", n.get())),
            Mode::Adaptive(_) | Mode::Rates(_) | Mode::Ramp(_) => None,
        };
        levels.into_iter().chain(peak).find(|(_, high)| *high > most).map(|(key, high)| {
            format!(
                "[search] {key} {high} is above [step] max-in-flight ({most}): raise the one or lower the other"
            )
        })
    }

    /// The search that the plan describes.
    ///
    /// # Errors
    /// What the search cannot do, with what to write instead.
    pub fn searcher(&self) -> Result<Search, String> {
        let (tiers, gpus) = (self.slo.as_slice(), self.hardware.gpu_count());
        Search::new(&self.search, &self.step, tiers, self.open(), gpus)
    }

    /// What an open loop steps through.
    fn open(&self) -> Open {
        let w = &self.workload;
        Open { control: w.control(), arrivals: w.shape(), per_level: w.per_level(), think_s: w.think_s() }
    }

    /// What a request may take within the SLO (where there is none, half of the longest step): the largest TTFT limit and the longest answer at the TPOT limit, or e2e.
    fn least_timeout(&self) -> Duration {
        if self.slo.is_none() {
            return self.step.max_duration.0 / 2;
        }
        let longest = self.workload.longest_output().unwrap_or(UNKNOWN_OUTPUT);
        self.slo
            .as_slice()
            .iter()
            .flat_map(Slo::parts)
            .map(|part| {
                let slo = part.slo;
                let largest = |m| slo.largest(m).unwrap_or_default();
                let per_token = largest(Metric::Tpot).max(largest(Metric::Itl));
                let steps =
                    largest(Metric::Ttft).max(largest(Metric::Ttfc)) + per_token.saturating_mul(longest);
                steps.max(largest(Metric::E2e))
            })
            .max()
            .unwrap_or_default()
    }

    /// A limit on what an answer in one piece does not show, with what to write instead.
    fn unseen(&self) -> Option<String> {
        let mut limits = self.slo.as_slice().iter().flat_map(Slo::limits);
        let limit = limits.find(|l| !self.server.stream && l.metric != Metric::E2e)?;
        Some(format!(
            "[server] stream = false: an answer in one piece has no first token and no gaps between tokens, so {limit} cannot \
             be judged: write limits on e2e instead, such as slo.e2e.p99 = \"5s\", or leave stream out"
        ))
    }

    fn limit_above(&self, timeout: Duration) -> Option<(String, String)> {
        self.slo.as_slice().iter().find_map(|slo| {
            let above = |part: Part<'_>| {
                let limit = part.slo.limits().into_iter().find(|l| l.limit > timeout)?;
                Some((format!("tier {}", slo.tier()), part.title(&limit.to_string())))
            };
            slo.parts().into_iter().find_map(above)
        })
    }

    /// How much delay of its own the client may have.
    pub fn allowed(&self) -> Allowed {
        let own = &self.client;
        Allowed {
            lateness: own.max_lateness.get(),
            receive_lag: own.max_receive_lag.get(),
            starved: own.max_starved.get(),
        }
    }

    /// The timeout of a request.
    pub fn timeout(&self) -> Duration {
        self.step.longest_request()
    }

    /// The simulated server, where the plan asks for one. Fails where its table does not parse (checked on loading).
    pub fn simulated(&self) -> Result<Option<Simulated>> {
        match &self.server.target {
            Target::Simulated(table) => Ok(Some(table.clone().try_into().context("in [server.simulated]")?)),
            Target::Url(_) | Target::Urls(_) => Ok(None),
        }
    }

    /// Who is asked, in words: the URLs, or what is simulated.
    pub fn server_title(&self) -> String {
        match self.simulated() {
            Ok(Some(sim)) => sim.to_string(),
            Ok(None) | Err(_) => {
                self.server.target.urls().iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
            }
        }
    }

    /// The plan as TOML, everything filled in; carries no secret, as the plan itself cannot.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(self).context("failed to write the plan as TOML")
    }

    /// Refuses what contradicts `--virtual-time`: a real server has its own clock.
    pub fn check_virtual(&self) -> Result<()> {
        if matches!(self.server.target, Target::Simulated(_)) {
            // On the real clock the client's own limits end such a ramp; simulated time has none.
            // A closed loop ends at max-in-flight.
            let endless = |plan: &Self| match &plan.search.mode {
                Mode::Ramp(_) => true,
                Mode::Adaptive(adaptive) => adaptive.over == Over::Rate,
                Mode::Rates(_) | Mode::Concurrency(_) | Mode::Ladder(_) | Mode::Burst(_) => false,
            };
            if self.search.max_rate.is_none() && self.series().iter().any(|s| endless(&s.plan)) {
                bail!(
                    "--virtual-time needs [search] max-rate unless the levels are listed: a simulated server may have no knee"
                );
            }
            return Ok(());
        }
        bail!("--virtual-time needs [server] simulated: a server behind a URL keeps its own time")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = include_str!("../../tests/fixtures/plans/design.toml");

    fn changed(from: &str, to: &str) -> Result<Plan, String> {
        assert!(EXAMPLE.contains(from), "{from}");
        Plan::parse(&EXAMPLE.replacen(from, to, 1)).map_err(|e| e.to_string())
    }

    #[test]
    fn the_example_of_the_design_parses_and_reads_back_the_same() {
        let plan = Plan::parse(EXAMPLE).unwrap();
        let again = Plan::parse(&plan.to_toml().unwrap()).unwrap();
        assert_eq!(plan, again);
        assert_eq!(plan.hardware.gpu.as_deref(), Some("A40"));
    }

    /// Row: what is edited, what the message must say, and the line it must point at.
    #[test]
    fn mistakes_point_at_their_place() {
        for (from, to, say) in [
            ("seed = 1", "sede = 1", "unknown field `sede`"),
            ("ttft.p99 = \"200ms\"", "ttft.p199 = \"200ms\"", "a percentile is written"),
            ("profile = \"chat\"", "profile = \"chatty\"", "the profiles are batch, chat"),
            ("adaptive = {", "rates = []\n# {", "the list is empty"),
            ("adaptive = {", "rates = [-1]\n# {", "a rate must be positive"),
            ("adaptive = {", "rates = [1]\nconcurrency = [1]\n# {", "only one of"),
            ("url = ", "urls = [\"http://127.0.0.1:1\"]\nurl = ", "only one of"),
            ("settle = \"10s\"", "settle = \"ten\"", "settle = \"ten\""),
            ("{ fixed = 30 }", "{ fixed = 0 }", "at least 1 token"),
            ("error-rate = 0.01", "error-rate = 1.5", "between 0 and 1"),
            ("cache = \"cold\"", "cache = \"cool\"", "unknown variant"),
            ("[search]", "[client]\nmax-lateness = 5\n[search]", "between 0 and 1"),
            ("[search]", "[client]\nthreads = 0\n[search]", "nonzero"),
            ("[search]", "[client]\nmax-late = 0.1\n[search]", "unknown field `max-late`"),
        ] {
            let e = changed(from, to).unwrap_err();
            assert!(e.contains(say), "{to}: {e}");
            assert!(e.contains("line "), "{to} points at its line: {e}");
        }
    }

    #[test]
    fn what_is_allowed_is_the_plans() {
        let plan =
            changed("[search]", "[client]\nmax-lateness = 0.1\nmax-starved = 0.3\nthreads = 4\n[search]")
                .unwrap();
        let want = Allowed { lateness: 0.1, starved: 0.3, ..Allowed::default() };
        assert_eq!((plan.allowed(), plan.client.threads.map(std::num::NonZeroU32::get)), (want, Some(4)));
        assert_eq!(Plan::parse(EXAMPLE).unwrap().allowed(), Allowed::default(), "one default, not two");
    }

    #[test]
    fn a_timeout_below_a_limit_is_refused() {
        let plan = changed("drain = \"30s\"", "drain = \"30s\"\ntimeout = \"5s\"").unwrap();
        assert!(plan.resolve().unwrap_err().contains("timeout"));
    }

    #[test]
    fn the_timeout_follows_the_slo() {
        let toml = "name = \"x\"\nserver.url = \"http://127.0.0.1:1\"\nslo.ttft.p99 = \"10s\"\nslo.tpot.p99 = \"1s\"\n\
                    search.rates = [1]\n\
                    workload.prompts.synthetic = { input-tokens.fixed = 5, output-tokens.fixed = 100 }";
        let plan = Plan::parse(toml).unwrap().resolve().unwrap();
        assert_eq!(plan.timeout(), Duration::from_secs(220), "2 × (10 s + 100 × 1 s)");
    }
}
