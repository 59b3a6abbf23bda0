//! Workload factors: properties of a workload that a sensitivity run varies one at a time.

use super::arrivals::{Arrivals, GammaShape};
use super::audio::Audio;
use super::config::{Cache, Source, Workload};
use super::kind::RequestSource;
use super::lengths::Lengths;
use super::sources::Prompts;
use super::synthetic::{SharedPrefix, Synthetic, mean_shared, prefix_of_share};
use goodput_core::named_enum;
use goodput_core::units::Positive;
use serde::{Deserialize, Serialize};
use std::fmt;

named_enum! {
    /// Kind of workload property that can be varied, in the order of reports.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum FactorKind {
        /// Input tokens of every request; shared prefixes scale with them.
        PromptLength = "prompt-length",
        /// Output tokens of every request.
        AnswerLength = "answer-length",
        /// Share of the input tokens in shared prefixes, which a warm prefix cache holds.
        CacheShare = "cache-share",
        /// Coefficient of variation of the gaps between arrivals; 1 for Poisson arrivals.
        Burstiness = "burstiness",
        /// Share of each class of a mix among the arrivals.
        Mix = "mix",
    }
}

/// One property to vary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Factor {
    /// Kind of property.
    pub kind: FactorKind,
    /// Class whose share varies, for [`FactorKind::Mix`] only.
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
    /// Returns the factors of these kinds: one each, and for a mix one per class.
    pub fn of_kinds(kinds: &[FactorKind], workload: &Workload) -> Vec<Self> {
        let one = |kind: FactorKind| match kind {
            // With two classes one share determines the other.
            FactorKind::Mix if !workload.classes().is_empty() => {
                let classes = workload.classes();
                let varied = if classes.len() == 2 { 1 } else { classes.len() };
                classes[..varied].iter().map(|c| Self { kind, class: Some(c.name.clone()) }).collect()
            }
            FactorKind::PromptLength
            | FactorKind::AnswerLength
            | FactorKind::CacheShare
            | FactorKind::Burstiness
            | FactorKind::Mix => vec![Self { kind, class: None }],
        };
        kinds.iter().copied().flat_map(one).collect()
    }

    /// Returns the current value of this factor: mean tokens, a share, or a coefficient of variation.
    ///
    /// # Errors
    /// The workload does not have this property; the message says why.
    pub fn value(&self, workload: &Workload) -> Result<f64, String> {
        self.scaled(workload, 1.0)?;
        Ok(match self.kind {
            FactorKind::PromptLength => mean(workload, |prompts| lengths(prompts).map(|l| l.0)),
            FactorKind::AnswerLength => mean(workload, answer_lengths),
            FactorKind::CacheShare => workload.shared_share().unwrap_or(0.0),
            FactorKind::Burstiness => cv(workload)?,
            FactorKind::Mix => {
                let all: f64 = workload.classes().iter().map(|c| c.weight.get()).sum();
                let class = workload.classes().iter().find(|c| Some(&c.name) == self.class.as_ref());
                class.map_or(0.0, |c| c.weight.get() / all)
            }
        })
    }

    /// Returns the workload with this factor multiplied by `by` and everything else unchanged.
    ///
    /// # Errors
    /// The factor cannot be varied in this workload; the message says why.
    pub fn scaled(&self, workload: &Workload, by: f64) -> Result<Workload, String> {
        let mut scaled = workload.clone();
        match self.kind {
            FactorKind::PromptLength => each_prompts(&mut scaled, |p| scale_prompts(p, by))?,
            FactorKind::AnswerLength => each_prompts(&mut scaled, |p| scale_answers(p, by))?,
            FactorKind::CacheShare => scale_shared_prefixes(&mut scaled, by)?,
            FactorKind::Burstiness => {
                let cv = Positive::try_from(cv(workload)? * by)?;
                scaled.arrivals = Arrivals::Gamma(GammaShape { cv });
            }
            FactorKind::Mix => self.scale_class_share(&mut scaled, by)?,
        }
        if self.kind == FactorKind::PromptLength {
            let mut conversations: Vec<_> = scaled.conversation.iter_mut().collect();
            if let Source::Mix(classes) = &mut scaled.source {
                conversations.extend(classes.iter_mut().filter_map(|c| c.conversation.as_mut()));
            }
            for conversation in conversations {
                conversation.input_tokens = conversation.input_tokens.map(|l| l.scaled(by));
            }
        }
        // The summaries describe the workload as planned.
        scaled.file_summaries = Vec::new();
        Ok(scaled)
    }

    /// Sets the weight of the class so that its share is multiplied by `by`; the others keep their proportions.
    fn scale_class_share(&self, workload: &mut Workload, by: f64) -> Result<(), String> {
        let Source::Mix(classes) = &mut workload.source else {
            return Err("the workload has one kind of request and no classes to mix".into());
        };
        let all: f64 = classes.iter().map(|c| c.weight.get()).sum();
        let class = classes.iter_mut().find(|c| Some(&c.name) == self.class.as_ref());
        let class = class.ok_or("the workload has no such class")?;
        let others = all - class.weight.get();
        let share = class.weight.get() / all * by;
        if others <= 0.0 || share >= 1.0 {
            return Err(format!("the class {} cannot have a share of {:.0} %", class.name, 100.0 * share));
        }
        class.weight = Positive::try_from(share / (1.0 - share) * others)?;
        Ok(())
    }
}

/// Applies a change to the prompts of every kind of request.
fn each_prompts(
    workload: &mut Workload,
    mut change: impl FnMut(&mut Prompts) -> Result<(), String>,
) -> Result<(), String> {
    match &mut workload.source {
        Source::Prompts(prompts) => change(prompts),
        Source::Mix(classes) => classes.iter_mut().try_for_each(|c| change(&mut c.prompts)),
        Source::Trace(_) => Err("a trace is replayed with its recorded lengths".into()),
    }
}

/// Returns input and output lengths, if the plan sets both.
fn lengths(prompts: &Prompts) -> Option<(Lengths, Lengths)> {
    match prompts {
        Prompts::Synthetic(s) => Some((s.input_tokens, s.output_tokens)),
        Prompts::Text(t) => Some((t.input_tokens, t.output_tokens)),
        Prompts::Data(_) | Prompts::Items(_) | Prompts::Audio(_) => None,
    }
}

/// Returns output lengths, if the plan sets them.
fn answer_lengths(prompts: &Prompts) -> Option<Lengths> {
    match prompts {
        Prompts::Data(data) => data.output_tokens,
        Prompts::Synthetic(_) | Prompts::Text(_) | Prompts::Items(_) | Prompts::Audio(_) => {
            lengths(prompts).map(|l| l.1)
        }
    }
}

/// Returns the mean length over the kinds of request, weighted by their shares, after clamping to min and max.
fn mean(workload: &Workload, lengths: impl Fn(&Prompts) -> Option<Lengths>) -> f64 {
    let one = |kind: &super::kind::Kind<'_>| match kind.source {
        RequestSource::Prompts(prompts) => lengths(prompts).map_or(0.0, |l| l.mean_of(|n| n)),
        RequestSource::Trace(_) => 0.0,
    };
    workload.kinds().iter().map(|kind| kind.share * one(kind)).sum()
}

fn scale_prompts(prompts: &mut Prompts, by: f64) -> Result<(), String> {
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
        Prompts::Items(items) => items.input_tokens = items.input_tokens.scaled(by),
        Prompts::Audio(Audio::Generated(audio)) => *audio = audio.scaled(by)?,
        Prompts::Audio(Audio::Recordings(_)) => return Err("recordings have fixed lengths".into()),
        Prompts::Data(_) => return Err("the prompts of a data set have fixed lengths".into()),
    }
    Ok(())
}

fn scale_answers(prompts: &mut Prompts, by: f64) -> Result<(), String> {
    use super::data::config::OutputFrom;
    match prompts {
        Prompts::Synthetic(s) => s.output_tokens = s.output_tokens.scaled(by),
        Prompts::Items(_) => return Err("requests of items have no generated answers".into()),
        Prompts::Audio(_) => return Err("the length of a transcript follows from the audio".into()),
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

/// Changes the lengths of the shared prefixes so that the share of shared tokens is multiplied by `by`.
fn scale_shared_prefixes(workload: &mut Workload, by: f64) -> Result<(), String> {
    if workload.cache != Cache::Warm {
        return Err("the prefix cache is cold: only [workload] cache = \"warm\" has cache hits".into());
    }
    let mut any = false;
    each_prompts(workload, |prompts| {
        let Prompts::Synthetic(Synthetic { input_tokens, shared_prefix: Some(prefix), .. }) = prompts else {
            return Ok(());
        };
        any = true;
        let share = by * mean_shared(input_tokens, prefix.tokens.get()) / input_tokens.mean_of(|n| n);
        if share >= 0.99 {
            return Err(format!("{:.0} % of the input tokens cannot be shared", 100.0 * share));
        }
        let tokens = prefix_of_share(input_tokens, share).max(1);
        *prefix = SharedPrefix { tokens: tokens.try_into()?, ..*prefix };
        Ok(())
    })?;
    if any { Ok(()) } else { Err("no prompts share a prefix".into()) }
}

/// Returns the coefficient of variation of the gaps between arrivals.
fn cv(workload: &Workload) -> Result<f64, String> {
    if matches!(workload.source, Source::Trace(_)) {
        return Err("a trace has recorded arrival times".into());
    }
    let cv = workload.arrivals.cv();
    if cv > 0.0 { Ok(cv) } else { Err(format!("{} have no variation to scale", workload.arrivals)) }
}

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
    fn scaling_a_factor_changes_no_other() {
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
                let scaled = f.scaled(&base, by).unwrap();
                let got = f.value(&scaled).unwrap() / f.value(&base).unwrap();
                assert!((got / by - 1.0).abs() < 0.01, "{f} by {by}: {got}");
                for other in FactorKind::ALL.into_iter().filter(|k| *k != kind && *k != FactorKind::Mix) {
                    let other = factor(other);
                    let [a, b] = [&base, &scaled].map(|w| other.value(w).unwrap());
                    assert!((a / b - 1.0).abs() < 1e-3, "{f} changed {other} from {a} to {b}");
                }
            }
        }
    }

    #[test]
    fn scaling_a_class_keeps_the_proportions_of_the_others() {
        let base = workload(
            "class = [
            { name = \"a\", weight = 6, prompts.synthetic = { input-tokens = { fixed = 9 }, output-tokens = { fixed = 3 } } },
            { name = \"b\", weight = 3, prompts.synthetic = { input-tokens = { fixed = 9 }, output-tokens = { fixed = 3 } } },
            { name = \"c\", weight = 1, prompts.synthetic = { input-tokens = { fixed = 9 }, output-tokens = { fixed = 3 } } },
            ]",
        );
        let all = Factor::of_kinds(&[FactorKind::Mix], &base);
        assert_eq!(all.iter().map(ToString::to_string).collect::<Vec<_>>(), ["mix a", "mix b", "mix c"]);
        let scaled = all[1].scaled(&base, 1.2).unwrap();
        let shares: Vec<f64> = all.iter().map(|f| f.value(&scaled).unwrap()).collect();
        assert!((shares[1] - 0.36).abs() < 1e-9 && (shares[0] / shares[2] - 6.0).abs() < 1e-9, "{shares:?}");
        let error = all[0].scaled(&base, 1.7).unwrap_err();
        assert!(error.contains("cannot have a share of 102 %"), "{error}");
    }

    #[test]
    fn factors_that_cannot_be_varied_are_explained() {
        let cold = "prompts.synthetic = { input-tokens = { fixed = 9 }, output-tokens = { fixed = 3 } }";
        for (text, kind, message) in [
            (cold, FactorKind::CacheShare, "is cold"),
            (&format!("cache = \"warm\"\n{cold}"), FactorKind::CacheShare, "no prompts share"),
            (&format!("arrivals = \"constant\"\n{cold}"), FactorKind::Burstiness, "no variation"),
            (cold, FactorKind::Mix, "no classes to mix"),
            ("trace.file = \"x\"", FactorKind::PromptLength, "recorded lengths"),
            ("prompts.sharegpt.file = \"x\"", FactorKind::PromptLength, "fixed lengths"),
            ("prompts.sharegpt.file = \"x\"", FactorKind::AnswerLength, "recorded lengths"),
        ] {
            let error = factor(kind).value(&workload(text)).unwrap_err();
            assert!(error.contains(message), "{text}: {error}");
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
            let scaled = base.scaled(1.3);
            for u in [0.05, 0.3, 0.5, 0.9, 0.999] {
                let [a, b] = [base, scaled].map(|l| f64::from(l.quantile(u)));
                assert!((b / a - 1.3).abs() < 0.05, "{text} at {u}: {a} and {b}");
            }
        }
    }
}
