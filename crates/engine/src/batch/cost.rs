//! Duration of iterations as a function of their load.

use std::{borrow::Cow, time::Duration};

/// Work of one iteration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Number of tokens computed, of prompts and of answers.
    pub tokens: u64,
    /// Number of them that are computed for the first token of an answer: those of prompts, without those computed
    /// again after the answer was preempted.
    pub prompt_tokens: u64,
    /// Number of sequences that take part.
    pub sequences: u32,
    /// Tokens whose keys and values attention reads, over all sequences: for a decode its context including the new
    /// token, for a chunk of a prompt the context before it, whether computed earlier or found in the prefix cache.
    pub kv_tokens: u64,
    /// Twice the sum of the context before each prompt token: n·(2c + n) for n tokens after c. Doubled to stay an
    /// integer.
    pub attended: u64,
    /// Time to encode the images of prompts that begin, in ns.
    pub encode_ns: u64,
}

impl Load {
    /// Adds a sequence that decodes one token, with `context` tokens including it.
    pub(super) fn decode(&mut self, context: u32) {
        self.tokens += 1;
        self.sequences += 1;
        self.kv_tokens += u64::from(context);
    }

    /// Adds a sequence that computes `tokens` tokens of its prompt after `context` others.
    pub(super) fn prefill(&mut self, tokens: u32, context: u32) {
        self.prompt_tokens += u64::from(tokens);
        self.recompute(tokens, context);
    }

    /// Adds the encoding of a prompt's images.
    pub(super) fn encode(&mut self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.encode_ns = self.encode_ns.saturating_add(nanos);
    }

    /// Adds a sequence that was preempted after its first token and computes `tokens` tokens again, after `context`
    /// others.
    pub(super) fn recompute(&mut self, tokens: u32, context: u32) {
        let (n, c) = (u64::from(tokens), u64::from(context));
        self.tokens += n;
        self.sequences += 1;
        self.kv_tokens += c;
        self.attended = self.attended.saturating_add(n.saturating_mul(2 * c + n));
    }
}

/// Model of an iteration's duration.
#[derive(Debug, Clone, PartialEq)]
pub enum Cost {
    /// A function of the number of sequences: points (sequences, time) in ascending order with linear interpolation.
    /// Constant before the first point; after the last, the last line continues (constant if there is only one point or
    /// the line falls). No points: no time.
    Table(Cow<'static, [(u32, Duration)]>),
    /// A function of the work on a GPU.
    Formula(Formula),
}

/// t0 + max(w, a·tokens) + b·sequences + c·KV tokens + q·Σ context of prefill tokens (see [`Load`]), plus e for more
/// sequences than CUDA graphs were captured for. If prompt tokens have a cost of their own, a·tokens is
/// a·other tokens + a′·prompt tokens, and an iteration with any of the latter takes p longer.
///
/// The weights are read once per iteration, however few tokens there are: a floor, not a slope (the roofline of
/// Williams, Waterman and Patterson, CACM 52, 2009). Reads per sequence and attention are added.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Formula {
    /// t0: fixed cost of an iteration, mostly host work, in ns.
    pub base_ns: f64,
    /// w: time to read the weights, in ns.
    pub weights_ns: f64,
    /// a: matrix products per token, in ns.
    pub token_ns: f64,
    /// Cost of prompt tokens; `None` if they cost as much as all others.
    pub prompt: Option<PromptCost>,
    /// b: cost per sequence in addition to its tokens, in ns.
    pub sequence_ns: f64,
    /// c: time to read the keys and values of one token, in ns.
    pub kv_token_ns: f64,
    /// q: attention of one prompt token to one preceding token, in ns.
    pub attention_ns: f64,
    /// Cost of batches beyond the captured sizes; `None` if all are captured.
    pub eager: Option<Eager>,
}

/// Cost of prompt tokens where it differs from that of decoded ones: long prompts fill the matrix units that batches of
/// single tokens leave idle, and vLLM runs the attention of an iteration with a prompt outside its CUDA graphs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PromptCost {
    /// a′: matrix products per prompt token, in ns.
    pub token_ns: f64,
    /// p: additional cost of an iteration that computes prompt tokens, in ns.
    pub iteration_ns: f64,
}

/// Cost of batches larger than any captured CUDA graph: the host launches every kernel of every layer itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Eager {
    /// Largest batch with a CUDA graph, in sequences.
    pub captured: u32,
    /// e: launch cost of an iteration without a graph, in ns.
    pub launch_ns: f64,
}

impl Formula {
    fn nanos(&self, load: &Load) -> f64 {
        let launch = self.eager.filter(|e| load.sequences > e.captured).map_or(0.0, |e| e.launch_ns);
        let (products, prompts) = match self.prompt {
            Some(prompt) if load.prompt_tokens > 0 => {
                let others = load.tokens - load.prompt_tokens;
                let products = self.token_ns * others as f64 + prompt.token_ns * load.prompt_tokens as f64;
                (products, prompt.iteration_ns)
            }
            Some(_) | None => (self.token_ns * load.tokens as f64, 0.0),
        };
        self.base_ns
            + launch
            + prompts
            + self.weights_ns.max(products)
            + self.sequence_ns * f64::from(load.sequences)
            + self.kv_token_ns * load.kv_tokens as f64
            + self.attention_ns * load.attended as f64 / 2.0
    }
}

impl Cost {
    /// Returns this cost with all times multiplied by `factor`.
    #[must_use]
    pub fn times(&self, factor: f64) -> Self {
        match self {
            Self::Table(points) => {
                Self::Table(points.iter().map(|(n, time)| (*n, time.mul_f64(factor))).collect())
            }
            Self::Formula(f) => Self::Formula(Formula {
                base_ns: f.base_ns * factor,
                weights_ns: f.weights_ns * factor,
                token_ns: f.token_ns * factor,
                prompt: f.prompt.map(|p| PromptCost {
                    token_ns: p.token_ns * factor,
                    iteration_ns: p.iteration_ns * factor,
                }),
                sequence_ns: f.sequence_ns * factor,
                kv_token_ns: f.kv_token_ns * factor,
                attention_ns: f.attention_ns * factor,
                eager: f.eager.map(|e| Eager { launch_ns: e.launch_ns * factor, ..e }),
            }),
        }
    }

    /// Returns the duration of an iteration without noise, in ns; not negative.
    fn nanos(&self, load: &Load) -> f64 {
        match self {
            Self::Table(points) => table(points, load.sequences),
            Self::Formula(formula) => formula.nanos(load),
        }
    }

    /// Returns the duration of an iteration, multiplied by `noise` and rounded to nanoseconds.
    pub(super) fn time(&self, load: &Load, noise: f64) -> Duration {
        // The cast saturates at zero and at centuries.
        Duration::from_nanos(((self.nanos(load) + load.encode_ns as f64) * noise).round() as u64)
    }
}

fn table(points: &[(u32, Duration)], sequences: u32) -> f64 {
    let ns = |point: &(u32, Duration)| point.1.as_nanos() as f64;
    let above = points.partition_point(|p| p.0 < sequences);
    let (a, b) = match (points, above) {
        ([], _) => return 0.0,
        ([only], _) => return ns(only),
        ([first, ..], 0) => return ns(first),
        ([.., a, b], _) if sequences > b.0 => (a, b),
        _ => (&points[above - 1], &points[above]),
    };
    let slope = (ns(b) - ns(a)) / f64::from(b.0.saturating_sub(a.0).max(1));
    let beyond = sequences.saturating_sub(b.0);
    if beyond > 0 {
        ns(b) + slope.max(0.0) * f64::from(beyond)
    } else {
        ns(a) + slope * f64::from(sequences - a.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Engine, Preset};

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_table_is_linear_between_its_points() {
        let cost = |points: &[(u32, u32)], n| {
            let points: Vec<_> = points.iter().map(|(n, ms)| (*n, *ms * MS)).collect();
            Cost::Table(points.into()).time(&Load { sequences: n, ..Load::default() }, 1.0).as_secs_f64()
                * 1e3
        };
        let two = [(2, 10), (4, 12), (8, 20)];
        for (points, n, ms) in [
            (&two[..], 1, 10.0), // before the first
            (&two, 2, 10.0),
            (&two, 3, 11.0),
            (&two, 4, 12.0),
            (&two, 6, 16.0),
            (&two, 8, 20.0),
            (&two, 10, 24.0),            // the last line continues
            (&[(4, 7)], 9, 7.0),         // a single point
            (&[(1, 9), (2, 7)], 4, 7.0), // a falling last line does not
            (&[], 3, 0.0),
        ] {
            assert!((cost(points, n) - ms).abs() < 1e-9, "{points:?} at {n}: {}", cost(points, n));
        }
    }

    #[test]
    fn times_scales_the_duration() {
        let mut load = Load::default();
        (0..40).for_each(|_| load.decode(300));
        load.prefill(500, 20);
        for preset in [Preset::A40Qwen3, Preset::Demo] {
            let Engine::Batch { deployment, .. } = preset.engine() else { panic!("it is one") };
            let (as_is, slower) = (deployment.cost.nanos(&load), deployment.cost.times(1.15).nanos(&load));
            assert!((slower / as_is - 1.15).abs() < 1e-6, "{slower} {as_is}");
        }
    }

    #[test]
    fn the_formula_has_a_floor() {
        let cost = Cost::Formula(Formula {
            base_ns: 1000.0,
            weights_ns: 500.0,
            token_ns: 10.0,
            prompt: None,
            sequence_ns: 3.0,
            kv_token_ns: 0.5,
            attention_ns: 0.1,
            eager: Some(Eager { captured: 4, launch_ns: 7000.0 }),
        });
        let mut decode = Load::default();
        (0..4).for_each(|_| decode.decode(100));
        assert_eq!(cost.time(&decode, 1.0).as_nanos(), 1000 + 500 + 4 * 3 + 200, "four tokens: the floor");
        let mut prefill = Load::default();
        prefill.prefill(60, 0);
        prefill.prefill(40, 60);
        // Attention over the chunks of a prompt adds up to that over the whole prompt.
        assert_eq!(prefill.attended, 100 * 100);
        // The second chunk reads the first.
        assert_eq!(prefill.kv_tokens, 60);
        assert_eq!(cost.time(&prefill, 1.0).as_nanos(), 1000 + 100 * 10 + 2 * 3 + 500 + 30);
        assert_eq!(cost.time(&prefill, 2.0).as_nanos(), 5072);
        // Prompt tokens with a cost of their own; recomputed ones cost as much as decoded ones.
        let Cost::Formula(formula) = &cost else { panic!("it is one") };
        let prompt = Some(PromptCost { token_ns: 4.0, iteration_ns: 200.0 });
        let own = Cost::Formula(Formula { prompt, weights_ns: 0.0, ..*formula });
        assert_eq!(own.time(&prefill, 1.0).as_nanos(), 1000 + 200 + 100 * 4 + 2 * 3 + 500 + 30);
        assert_eq!(own.times(2.0).time(&prefill, 1.0).as_nanos(), 2 * 2136);
        let mut again = Load::default();
        again.recompute(100, 0);
        assert_eq!(own.time(&again, 1.0).as_nanos(), 1000 + 100 * 10 + 3 + 500);
        decode.decode(100);
        assert_eq!(cost.time(&decode, 1.0).as_nanos(), 1000 + 7000 + 500 + 5 * 3 + 250, "five have no graph");
    }

    /// However short a chunk is, the context before it has to be read: a hit in the prefix cache is not free.
    #[test]
    fn a_chunk_is_no_cheaper_than_a_decode() {
        let Engine::Batch { deployment, .. } = Preset::A40Qwen3.engine() else { panic!("it is one") };
        for context in [100, 3000, 30_000] {
            let (mut chunk, mut decode) = (Load::default(), Load::default());
            chunk.prefill(1, context);
            decode.decode(context + 1);
            let [chunk, decode] = [chunk, decode].map(|load| deployment.cost.nanos(&load));
            assert!(chunk >= decode && chunk < 1.1 * decode, "{context}: {chunk}, {decode}");
        }
    }

    #[test]
    fn the_load_of_the_longest_prompt_saturates() {
        let mut load = Load::default();
        for _ in 0..3 {
            load.prefill(u32::MAX, u32::MAX);
        }
        assert_eq!(load.attended, u64::MAX);
    }
}
