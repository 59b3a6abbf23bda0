//! Workload factors: the properties of a workload that a sensitivity run moves one at a time, and the moved workloads.

use super::arrivals::{Arrivals, GammaShape};
use super::config::{Cache, Source, Workload};
use super::kind::Of;
use super::lengths::Lengths;
use super::sources::Prompts;
use super::synthetic::{SharedPrefix, Synthetic, prefix_of_share};
use goodput_core::units::{NonEmpty, Positive};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A kind of workload property that can be moved.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum FactorKind {
    /// Input tokens of every request, shared prefixes in proportion.
    PromptLength,
    /// Output tokens of every request.
    AnswerLength,
    /// Share of the input tokens that lies in shared prefixes, which a warm prefix cache holds.
    CacheShare,
    /// Coefficient of variation of the gaps between arrivals; 1 for Poisson arrivals.
    Burstiness,
    /// Share of each class of a mix among the arrivals.
    Mix,
}

impl FactorKind {
    /// All kinds, in the order of reports.
    pub const ALL: [Self; 5] =
        [Self::PromptLength, Self::AnswerLength, Self::CacheShare, Self::Burstiness, Self::Mix];

    /// The name in plans and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PromptLength => "prompt-length",
            Self::AnswerLength => "answer-length",
            Self::CacheShare => "cache-share",
            Self::Burstiness => "burstiness",
            Self::Mix => "mix",
        }
    }
}

/// One property to move: a kind, and for a mix the class whose share moves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Factor {
    /// The kind.
    pub kind: FactorKind,
    /// The class, for [`FactorKind::Mix`] alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
}

impl fmt::Display for Factor {
    /// Formats `prompt-length` or `mix chat`, the name in series and files.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.class {
            Some(class) => write!(f, "{} {class}", self.kind.name()),
            None => f.write_str(self.kind.name()),
        }
    }
}

impl Factor {
    /// Returns the factors of these kinds: one each, and of a mix one for each class.
    pub fn of_kinds(kinds: &[FactorKind], workload: &Workload) -> Vec<Self> {
        let one = |kind: FactorKind| match kind {
            // With two classes the share of one is that of the other.
            FactorKind::Mix if !workload.classes().is_empty() => {
                let classes = workload.classes();
                let shown = if classes.len() == 2 { 1 } else { classes.len() };
                classes[..shown].iter().map(|c| Self { kind, class: Some(c.name.clone()) }).collect()
            }
            _ => vec![Self { kind, class: None }],
        };
        kinds.iter().copied().flat_map(one).collect()
    }

    /// Returns the value of this factor: mean tokens, a share, or a coefficient of variation.
    ///
    /// # Errors
    /// The workload does not have this property, in words.
    pub fn value(&self, workload: &Workload) -> Result<f64, String> {
        self.moved(workload, 1.0)?;
        Ok(match self.kind {
            FactorKind::PromptLength => mean(workload, |prompts| lengths(prompts).map(|l| l.0)),
            FactorKind::AnswerLength => mean(workload, answer),
            FactorKind::CacheShare => workload.shared_share().unwrap_or(0.0),
            FactorKind::Burstiness => cv(workload)?,
            FactorKind::Mix => {
                let all: f64 = workload.classes().iter().map(|c| c.weight.get()).sum();
                let own = workload.classes().iter().find(|c| Some(&c.name) == self.class.as_ref());
                own.map_or(0.0, |c| c.weight.get() / all)
            }
        })
    }

    /// Returns the workload with this factor `by` times as large and everything else as it was.
    ///
    /// # Errors
    /// The factor cannot be moved on this workload, in words.
    pub fn moved(&self, workload: &Workload, by: f64) -> Result<Workload, String> {
        let mut moved = workload.clone();
        match self.kind {
            FactorKind::PromptLength => each(&mut moved, |p| longer_prompts(p, by))?,
            FactorKind::AnswerLength => each(&mut moved, |p| longer_answers(p, by))?,
            FactorKind::CacheShare => share_more(&mut moved, by)?,
            FactorKind::Burstiness => {
                let cv = Positive::try_from(cv(workload)? * by)?;
                moved.arrivals = Arrivals::Gamma(GammaShape { cv });
            }
            FactorKind::Mix => self.weigh(&mut moved, by)?,
        }
        if self.kind == FactorKind::PromptLength {
            let mut conversations: Vec<_> = moved.conversation.iter_mut().collect();
            if let Source::Mix(classes) = &mut moved.source {
                conversations.extend(classes.iter_mut().filter_map(|c| c.conversation.as_mut()));
            }
            for conversation in conversations {
                conversation.input_tokens = conversation.input_tokens.map(|l| l.scaled(by));
            }
        }
        // Notes on the files' contents hold for the workload as planned.
        moved.found = Vec::new();
        Ok(moved)
    }

    /// Sets the weight of the class so that its share is `by` times as large; the others keep their proportions.
    fn weigh(&self, workload: &mut Workload, by: f64) -> Result<(), String> {
        let Source::Mix(classes) = &mut workload.source else {
            return Err("the workload has one kind of request, and no mix of classes".into());
        };
        let all: f64 = classes.iter().map(|c| c.weight.get()).sum();
        let own = classes.iter_mut().find(|c| Some(&c.name) == self.class.as_ref());
        let own = own.ok_or("the workload has no such class")?;
        let others = all - own.weight.get();
        let share = own.weight.get() / all * by;
        if others <= 0.0 || share >= 1.0 {
            return Err(format!("the class {} cannot have a share of {:.0} %", own.name, 100.0 * share));
        }
        own.weight = Positive::try_from(share / (1.0 - share) * others)?;
        Ok(())
    }
}

/// Applies a change to the prompts of every kind of request.
fn each(
    workload: &mut Workload,
    mut change: impl FnMut(&mut Prompts) -> Result<(), String>,
) -> Result<(), String> {
    match &mut workload.source {
        Source::Prompts(prompts) => change(prompts),
        Source::Mix(classes) => classes.iter_mut().try_for_each(|c| change(&mut c.prompts)),
        Source::Trace(_) => Err("a trace is replayed as it was recorded".into()),
    }
}

/// Input and output lengths of prompts that are made to measure.
fn lengths(prompts: &Prompts) -> Option<(Lengths, Lengths)> {
    match prompts {
        Prompts::Synthetic(s) => Some((s.input_tokens, s.output_tokens)),
        Prompts::Text(t) => Some((t.input_tokens, t.output_tokens)),
        Prompts::Data(_) => None,
    }
}

/// Output lengths, where the plan sets them.
fn answer(prompts: &Prompts) -> Option<Lengths> {
    match prompts {
        Prompts::Data(d) => d.output_tokens,
        other => lengths(other).map(|l| l.1),
    }
}

/// Mean length over the kinds of request, weighted by their shares; cuts included.
fn mean(workload: &Workload, of: impl Fn(&Prompts) -> Option<Lengths>) -> f64 {
    let one = |kind: &super::kind::Kind<'_>| match kind.of {
        Of::Prompts(prompts) => of(prompts).map_or(0.0, |l| l.mean_of(|n| n)),
        Of::Trace(_) => 0.0,
    };
    workload.kinds().iter().map(|kind| kind.share * one(kind)).sum()
}

fn longer_prompts(prompts: &mut Prompts, by: f64) -> Result<(), String> {
    match prompts {
        Prompts::Synthetic(s) => {
            s.input_tokens = s.input_tokens.scaled(by);
            if let Some(prefix) = &mut s.shared_prefix
                && let Lengths::Fixed(tokens) = Lengths::Fixed(prefix.tokens).scaled(by)
            {
                prefix.tokens = tokens;
            }
        }
        Prompts::Text(t) => t.input_tokens = t.input_tokens.scaled(by),
        Prompts::Data(_) => return Err("the prompts of a data set have the lengths that they have".into()),
    }
    Ok(())
}

fn longer_answers(prompts: &mut Prompts, by: f64) -> Result<(), String> {
    use super::data::config::OutputFrom;
    match prompts {
        Prompts::Synthetic(s) => s.output_tokens = s.output_tokens.scaled(by),
        Prompts::Text(t) => t.output_tokens = t.output_tokens.scaled(by),
        Prompts::Data(d) => match (d.output_from, d.output_tokens) {
            (Some(OutputFrom::Plan), Some(tokens)) => d.output_tokens = Some(tokens.scaled(by)),
            _ => {
                return Err(
                    "the answers of a data set have their recorded lengths; output-from = \"plan\" sets them"
                        .into(),
                );
            }
        },
    }
    Ok(())
}

/// Makes the shared prefixes longer or shorter so that the share of shared tokens is `by` times as large.
fn share_more(workload: &mut Workload, by: f64) -> Result<(), String> {
    if workload.cache != Cache::Warm {
        return Err("the prefix cache is cold: only [workload] cache = \"warm\" has hits to move".into());
    }
    let mut any = false;
    each(workload, |prompts| {
        let Prompts::Synthetic(Synthetic { input_tokens, shared_prefix: Some(prefix), .. }) = prompts else {
            return Ok(());
        };
        any = true;
        let shared = |tokens: u32| input_tokens.mean_of(|n| f64::from(tokens).min(n - 1.0));
        let share = by * shared(prefix.tokens.get()) / input_tokens.mean_of(|n| n);
        if share >= 0.99 {
            return Err(format!("{:.0} % of the input tokens cannot be shared", 100.0 * share));
        }
        let tokens = prefix_of_share(input_tokens, share).max(1);
        *prefix = SharedPrefix { tokens: tokens.try_into()?, ..*prefix };
        Ok(())
    })?;
    if any { Ok(()) } else { Err("no prompts share a prefix".into()) }
}

/// Coefficient of variation of the gaps between arrivals.
fn cv(workload: &Workload) -> Result<f64, String> {
    match (&workload.source, workload.arrivals) {
        (Source::Trace(_), _) => Err("a trace has arrival times of its own".into()),
        (_, Arrivals::Poisson) => Ok(1.0),
        (_, Arrivals::Gamma(gamma)) => Ok(gamma.cv.get()),
        (_, Arrivals::Constant) => Err("constant arrivals have no spread that could be scaled".into()),
    }
}

/// The kinds of factor to move: a list without duplicates.
pub type Kinds = NonEmpty<FactorKind>;

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(text: &str) -> Workload {
        toml::from_str(text).unwrap()
    }

    fn factor(kind: FactorKind) -> Factor {
        Factor { kind, class: None }
    }

    const RAG: &str = "cache = \"warm\"\nprompts.synthetic = { input-tokens = { fixed = 1000 }, output-tokens = { lognormal = { mean = 200, cv = 0.5 } }, \
                       shared-prefix = { tokens = 400, groups = 3 } }";

    #[test]
    fn a_factor_moves_alone() {
        let base = workload(RAG);
        for (kind, at, up) in [
            (FactorKind::PromptLength, 1000.0, 1.2),
            (FactorKind::AnswerLength, 200.0, 1.2),
            (FactorKind::CacheShare, 0.4, 1.2),
            (FactorKind::Burstiness, 1.0, 1.2),
        ] {
            let f = factor(kind);
            assert!((f.value(&base).unwrap() / at - 1.0).abs() < 0.01, "{f}: {:?}", f.value(&base));
            for by in [up, 1.0 / up] {
                let moved = f.moved(&base, by).unwrap();
                let got = f.value(&moved).unwrap() / f.value(&base).unwrap();
                assert!((got / by - 1.0).abs() < 0.01, "{f} by {by}: {got}");
                for other in FactorKind::ALL.into_iter().filter(|k| *k != kind && *k != FactorKind::Mix) {
                    let other = factor(other);
                    let [a, b] = [&base, &moved].map(|w| other.value(w).unwrap());
                    assert!((a / b - 1.0).abs() < 1e-3, "{f} moved {other} from {a} to {b}");
                }
            }
        }
    }

    #[test]
    fn classes_trade_shares() {
        let base = workload(
            "class = [
            { name = \"a\", weight = 6, prompts.synthetic = { input-tokens = { fixed = 9 }, output-tokens = { fixed = 3 } } },
            { name = \"b\", weight = 3, prompts.synthetic = { input-tokens = { fixed = 9 }, output-tokens = { fixed = 3 } } },
            { name = \"c\", weight = 1, prompts.synthetic = { input-tokens = { fixed = 9 }, output-tokens = { fixed = 3 } } },
            ]",
        );
        let all = Factor::of_kinds(&[FactorKind::Mix], &base);
        assert_eq!(all.iter().map(ToString::to_string).collect::<Vec<_>>(), ["mix a", "mix b", "mix c"]);
        let moved = all[1].moved(&base, 1.2).unwrap();
        let shares: Vec<f64> = all.iter().map(|f| f.value(&moved).unwrap()).collect();
        assert!((shares[1] - 0.36).abs() < 1e-9 && (shares[0] / shares[2] - 6.0).abs() < 1e-9, "{shares:?}");
        let most = all[0].moved(&base, 1.7).unwrap_err();
        assert!(most.contains("cannot have a share of 102 %"), "{most}");
    }

    #[test]
    fn immovable_factors_are_explained() {
        let cold = "prompts.synthetic = { input-tokens = { fixed = 9 }, output-tokens = { fixed = 3 } }";
        for (text, kind, says) in [
            (cold, FactorKind::CacheShare, "is cold"),
            (&format!("cache = \"warm\"\n{cold}"), FactorKind::CacheShare, "no prompts share"),
            (&format!("arrivals = \"constant\"\n{cold}"), FactorKind::Burstiness, "no spread"),
            (cold, FactorKind::Mix, "no mix of classes"),
            ("trace.file = \"x\"", FactorKind::PromptLength, "as it was recorded"),
            ("prompts.sharegpt.file = \"x\"", FactorKind::PromptLength, "the lengths that they have"),
            ("prompts.sharegpt.file = \"x\"", FactorKind::AnswerLength, "recorded lengths"),
        ] {
            let said = factor(kind).value(&workload(text)).unwrap_err();
            assert!(said.contains(says), "{text}: {said}");
        }
    }

    #[test]
    fn scaled_lengths_keep_their_shape() {
        for text in [
            "{ fixed = 100 }",
            "{ uniform = { min = 50, max = 150 } }",
            "{ normal = { mean = 100, cv = 0.3, max = 180 } }",
            "{ lognormal = { mean = 100, cv = 1.5, max = 900 } }",
            "{ quantiles = { p50 = 80, p90 = 300, max = 1000 } }",
        ] {
            #[derive(Deserialize)]
            struct T {
                x: Lengths,
            }
            let base = toml::from_str::<T>(&format!("x = {text}")).unwrap().x;
            let moved = base.scaled(1.3);
            for u in [0.05, 0.3, 0.5, 0.9, 0.999] {
                let [a, b] = [base, moved].map(|l| f64::from(l.quantile(u)));
                assert!((b / a - 1.3).abs() < 0.05, "{text} at {u}: {a} and {b}");
            }
        }
    }
}
