//! A pool of servers for long prompts: how many of the GPUs it needs, from the goodput of each class of a mix alone.
//!
//! At a rate R of the mix, a class with the share p of the requests takes the part R·p / g of all servers, if these serve g requests
//! per second of that class alone. Two pools with k and C − k of C copies of the model then take
//! min(k / Σ p/g over the classes with long prompts, (C − k) / Σ p/g over the others) / C requests per second of the mix.

use super::facts::{Mix, MixedClass};
use super::subject::Subject;

/// Least ratio of the longest to the shortest mean prompt of the classes from which on they tell long prompts from short ones.
const APART: f64 = 2.0;

/// Override of the plan that measures each class of a mix alone as well.
pub(super) const CLASSES_ALONE: &str = "workload.alone=true";

/// The size of a pool for long prompts, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PoolSize {
    /// Nothing: the plan has no classes with long and with short prompts.
    Unknown,
    /// Nothing yet: each class has to be measured alone.
    Measurable,
    /// Its share of the GPUs.
    Known(PoolShare),
}

/// The share of the GPUs that long prompts need.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PoolShare {
    /// Part of the GPUs for the classes with long prompts, from 0 to 1.
    pub share: f64,
    /// The share in GPUs, by whole copies of the model; `None` if the number of GPUs is not known, or they hold a single copy.
    pub gpus: Option<PoolGpus>,
}

/// A division of the GPUs into two pools.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PoolGpus {
    /// GPUs for the classes with long prompts.
    pub long: u32,
    /// All GPUs.
    pub all: u32,
    /// Requests per second of the mix that the two pools take together.
    pub rate: f64,
}

/// Returns what is known of the size of a pool for long prompts; `None` if two pools are known to take less of the mix than the
/// servers do together.
pub(super) fn size(s: &Subject<'_>) -> Option<PoolSize> {
    let Some((mix, limit)) = s.curve.mix.as_ref().and_then(|mix| Some((mix, longest_short(mix)?))) else {
        return Some(PoolSize::Unknown);
    };
    if mix.classes.iter().all(|class| class.alone.is_none()) {
        let asked = s.curve.question.is_none() && s.facts.accepts.all(&[CLASSES_ALONE.to_owned()]);
        return Some(if asked { PoolSize::Measurable } else { PoolSize::Unknown });
    }
    let (long, short): (Vec<&MixedClass>, Vec<&MixedClass>) =
        mix.classes.iter().partition(|class| class.input_tokens > limit);
    let Some((long, short)) = servers(&long).zip(servers(&short)) else { return Some(PoolSize::Unknown) };
    let gpus = pools(s, long, short);
    // Undivided, both pools together are as many servers as there are.
    let rate = gpus.map_or(1.0 / (long + short), |gpus| gpus.rate);
    let loses = mix.goodput.is_some_and(|mixed| rate <= mixed);
    (!loses).then_some(PoolSize::Known(PoolShare { share: long / (long + short), gpus }))
}

/// Returns the mean prompt above which a class counts as one with long prompts: that of the mix. `None` if the classes are alike.
fn longest_short(mix: &Mix) -> Option<f64> {
    let tokens = mix.classes.iter().map(|class| class.input_tokens);
    let (low, high) = tokens.fold((f64::INFINITY, 0.0_f64), |(l, h), n| (l.min(n), h.max(n)));
    let shares: f64 = mix.classes.iter().map(|class| class.share).sum();
    let mean = mix.classes.iter().map(|class| class.share * class.input_tokens).sum::<f64>() / shares;
    (high >= APART * low.max(1.0) && mean.is_finite()).then_some(mean)
}

/// Returns the part of all servers that the classes take for each request per second of the mix.
fn servers(classes: &[&MixedClass]) -> Option<f64> {
    classes.iter().map(|class| Some(class.share / class.alone.filter(|rate| *rate > 0.0)?)).sum()
}

/// Returns the division into whole copies of the model that takes the most of the mix.
fn pools(s: &Subject<'_>, long: f64, short: f64) -> Option<PoolGpus> {
    let (copies, each) = (s.curve.replicas.filter(|n| *n > 1)?, s.curve.tensor_parallel?);
    let rate = |k: u32| {
        let of = |k: u32, servers: f64| f64::from(k) / f64::from(copies) / servers;
        of(k, long).min(of(copies - k, short))
    };
    let best = (1..copies).max_by(|a, b| rate(*a).total_cmp(&rate(*b)))?;
    Some(PoolGpus { long: best * each, all: copies * each, rate: rate(best) })
}

#[cfg(test)]
mod tests {
    use super::super::facts::{Accepts, Curve, Facts};
    use super::*;
    use crate::fixture;

    fn class(name: &str, share: f64, input_tokens: f64, alone: Option<f64>) -> MixedClass {
        MixedClass { name: name.into(), share, input_tokens, alone }
    }

    /// Returns the size for a mix on eight GPUs, one for each copy of the model.
    fn of(classes: Vec<MixedClass>, goodput: Option<f64>, accepted: bool) -> Option<PoolSize> {
        let step = fixture::found()[0].clone();
        let curve = Curve {
            series: step.series.clone(),
            step: step.step,
            replicas: Some(8),
            tensor_parallel: Some(1),
            mix: Some(Mix { classes, goodput }),
            ..Curve::default()
        };
        let facts = Facts { accepts: Accepts::new(move |_| accepted), ..Facts::default() };
        let steps = [step];
        size(&Subject::of(&steps, &facts, &curve).unwrap())
    }

    #[test]
    fn pools_are_sized_by_what_each_class_takes_alone() {
        let known = |share, long, rate| {
            Some(PoolSize::Known(PoolShare { share, gpus: Some(PoolGpus { long, all: 8, rate }) }))
        };
        let (chat, documents) =
            (class("chat", 0.9, 300.0, Some(80.0)), class("documents", 0.1, 8000.0, Some(5.0)));
        // 0.9 / 80 = 0.01125 and 0.1 / 5 = 0.02 of all servers for each request/s: 5.12 of 8 for documents.
        let got = of(vec![chat.clone(), documents.clone()], Some(20.0), true);
        assert_eq!(got, known(0.02 / 0.03125, 5, (5.0 / 8.0 / 0.02_f64).min(3.0 / 8.0 / 0.01125)));
        assert_eq!(of(vec![chat.clone(), documents.clone()], Some(40.0), true), None, "mixed they take more");
        let open = |class: &MixedClass| MixedClass { alone: None, ..class.clone() };
        let unmeasured = vec![open(&chat), open(&documents)];
        assert_eq!(of(unmeasured.clone(), None, true), Some(PoolSize::Measurable));
        assert_eq!(of(unmeasured, None, false), Some(PoolSize::Unknown), "the plan takes no override");
        assert_eq!(of(vec![chat.clone(), open(&documents)], None, true), Some(PoolSize::Unknown));
        let alike = class("more", 0.1, 400.0, Some(60.0));
        assert_eq!(of(vec![chat, alike], None, true), Some(PoolSize::Unknown), "no class is the long one");
    }
}
