//! The architecture of a transformer, its parameters counted layer by layer, and what a token takes in the KV cache.

use serde::Serialize;

/// Attention of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Attention {
    /// Multi-head, grouped-query or multi-query attention: a key and a value for each KV head.
    Heads {
        /// Query heads.
        heads: u32,
        /// Key-value heads.
        kv_heads: u32,
        /// Dimension of a head.
        head_size: u32,
    },
    /// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, §2.1): one compressed vector for all heads.
    Latent {
        /// Query heads.
        heads: u32,
        /// Rank of the compressed query; `None` if queries are not compressed.
        q_rank: Option<u32>,
        /// Rank of the compressed keys and values, which are cached.
        kv_rank: u32,
        /// Dimensions of a key with a rotary position, which are cached too, once for all heads.
        rope: u32,
        /// Dimensions of a key without a position.
        nope: u32,
        /// Dimensions of a value.
        value: u32,
    },
}

/// The experts of a mixture of experts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Experts {
    /// Number of experts in a layer.
    pub count: u32,
    /// Number of them that one token uses.
    pub per_token: u32,
    /// Intermediate size of one expert.
    pub intermediate: u32,
    /// Number of experts of this size that every token uses as well.
    pub shared: u32,
    /// Number of first layers that have one dense network instead.
    pub dense_layers: u32,
    /// True if the experts and the router have biases.
    pub biased: bool,
}

/// Biases and norms of attention, where models of one shape differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Details {
    /// True if the projections of queries, keys and values have biases.
    pub qkv_bias: bool,
    /// True if the output projection has a bias.
    pub out_bias: bool,
    /// True if queries and keys are normalised.
    pub qk_norm: bool,
    /// True if each head has a learned attention sink.
    pub sinks: bool,
}

/// Layers that keep only the latest tokens in the KV cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Sliding {
    /// Number of these layers.
    pub layers: u32,
    /// Tokens that they keep.
    pub window: u32,
}

/// The shape of a decoder-only transformer with gated feed-forward networks, as its `config.json` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Architecture {
    /// Hidden size.
    pub hidden: u32,
    /// Number of layers, those with a sliding window included.
    pub layers: u32,
    /// Intermediate size of a dense feed-forward network.
    pub intermediate: u32,
    /// Size of the vocabulary.
    pub vocabulary: u32,
    /// True if input and output embeddings are one matrix.
    pub tied: bool,
    /// Attention.
    pub attention: Attention,
    /// Biases and norms of attention.
    pub details: Details,
    /// Experts; `None` for a dense model.
    pub experts: Option<Experts>,
    /// Layers with a sliding window, if any.
    pub sliding: Option<Sliding>,
    /// Longest sequence, in tokens; `None` if the configuration has none.
    pub max_len: Option<u32>,
}

/// Parameters of a model by their place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Input and output embeddings.
    pub embeddings: u64,
    /// Attention of all layers.
    pub attention: u64,
    /// Dense feed-forward networks, shared experts and routers of all layers.
    pub feed_forward: u64,
    /// Routed experts of all layers.
    pub experts: u64,
    /// Norms.
    pub norms: u64,
    /// Parameters that one token uses: without the experts that it is not routed to, and in a mixture of experts without the
    /// input embedding, of which it reads one row.
    pub active: u64,
    /// Routed experts among the active parameters.
    pub active_experts: u64,
}

impl Count {
    /// Returns all parameters.
    pub const fn total(&self) -> u64 {
        self.embeddings + self.attention + self.feed_forward + self.experts + self.norms
    }
}

impl Architecture {
    /// Counts the parameters.
    pub fn count(&self) -> Count {
        let [hidden, layers, vocabulary] = [self.hidden, self.layers, self.vocabulary].map(u64::from);
        let table = vocabulary * hidden;
        let embeddings = if self.tied { table } else { 2 * table };
        let gated = |intermediate: u32| 3 * hidden * u64::from(intermediate);
        let dense_layers = self.experts.map_or(layers, |e| u64::from(e.dense_layers));
        let sparse_layers = layers.saturating_sub(dense_layers);
        let mut feed_forward = dense_layers * gated(self.intermediate);
        let (mut experts, mut active_experts) = (0, 0);
        if let Some(e) = self.experts {
            let count = u64::from(e.count);
            let bias = |n: u64| if e.biased { n } else { 0 };
            feed_forward +=
                sparse_layers * (u64::from(e.shared) * gated(e.intermediate) + hidden * count + bias(count));
            let one = gated(e.intermediate) + bias(2 * u64::from(e.intermediate) + hidden);
            experts = sparse_layers * count * one;
            active_experts = sparse_layers * u64::from(e.per_token.min(e.count)) * one;
        }
        let (projections, inner_norms) = self.attention_of_layer();
        let norms = layers * (2 * hidden + inner_norms) + hidden;
        let mut of = Count {
            embeddings,
            attention: layers * projections,
            feed_forward,
            experts,
            norms,
            active: 0,
            active_experts,
        };
        let unread = if self.experts.is_some() && !self.tied { table } else { 0 };
        of.active = of.total() - experts + active_experts - unread;
        of
    }

    /// Returns the parameters of the projections of one layer, and those of the norms within its attention.
    fn attention_of_layer(&self) -> (u64, u64) {
        let hidden = u64::from(self.hidden);
        let d = self.details;
        let when = |on: bool, n: u64| if on { n } else { 0 };
        match self.attention {
            Attention::Heads { heads, kv_heads, head_size } => {
                let [heads, kv_heads, size] = [heads, kv_heads, head_size].map(u64::from);
                let (q, kv) = (heads * size, kv_heads * size);
                let weights = hidden * (q + 2 * kv) + q * hidden;
                let biases = when(d.qkv_bias, q + 2 * kv) + when(d.out_bias, hidden) + when(d.sinks, heads);
                (weights + biases, when(d.qk_norm, 2 * size))
            }
            Attention::Latent { heads, q_rank, kv_rank, rope, nope, value } => {
                let [heads, kv_rank, rope, nope, value] = [heads, kv_rank, rope, nope, value].map(u64::from);
                let q_out = heads * (nope + rope);
                let (q, q_norm) = q_rank.map_or((hidden * q_out, 0), |r| {
                    let r = u64::from(r);
                    (hidden * r + r * q_out, r)
                });
                let kv = hidden * (kv_rank + rope) + kv_rank * heads * (nope + value);
                (q + kv + heads * value * hidden, q_norm + kv_rank)
            }
        }
    }

    /// Returns what a token takes in the KV cache.
    pub const fn cache(&self) -> Cache {
        let layers = self.layers;
        match self.attention {
            Attention::Heads { kv_heads, head_size, .. } => {
                Cache { layers, entry: Entry::Heads { kv_heads, head_size }, sliding: self.sliding }
            }
            Attention::Latent { kv_rank, rope, .. } => {
                Cache { layers, entry: Entry::Latent { size: kv_rank + rope }, sliding: self.sliding }
            }
        }
    }

    /// Returns the number of query heads.
    pub const fn heads(&self) -> u32 {
        match self.attention {
            Attention::Heads { heads, .. } | Attention::Latent { heads, .. } => heads,
        }
    }
}

/// Entry of a token in the KV cache of one layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Entry {
    /// A key and a value of each KV head. Tensor parallelism divides the heads.
    Heads {
        /// Key-value heads.
        kv_heads: u32,
        /// Dimension of a head.
        head_size: u32,
    },
    /// One vector, which every GPU keeps whole.
    Latent {
        /// Its dimension.
        size: u32,
    },
}

/// The KV cache of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Cache {
    /// Number of layers, those with a sliding window included.
    pub layers: u32,
    /// Entry of a token in one layer.
    pub entry: Entry,
    /// Layers with a sliding window, if any.
    pub sliding: Option<Sliding>,
}

impl Cache {
    /// Returns the KV heads on each of this many GPUs, and how many GPUs keep a copy of each head. vLLM divides the heads among
    /// the GPUs, and where there are more GPUs than heads it keeps each head on several (`ModelConfig.get_num_kv_heads`).
    ///
    /// # Errors
    /// This number of GPUs cannot share the heads evenly; the error has the numbers up to 64 that can.
    pub fn share(&self, gpus: u32) -> Result<Share, Vec<u32>> {
        let share_of = |gpus: u32| match self.entry {
            Entry::Latent { .. } => Some(Share { kv_heads: 1, copies: gpus }),
            Entry::Heads { kv_heads, .. } if gpus > 0 && kv_heads % gpus == 0 => {
                Some(Share { kv_heads: kv_heads / gpus, copies: 1 })
            }
            Entry::Heads { kv_heads, .. } if gpus > 0 && gpus.is_multiple_of(kv_heads) => {
                Some(Share { kv_heads: 1, copies: gpus / kv_heads })
            }
            Entry::Heads { .. } => None,
        };
        share_of(gpus).ok_or_else(|| (1..=64).filter(|n| share_of(*n).is_some()).collect())
    }

    /// Returns the numbers that a token adds on one GPU in one layer.
    pub fn numbers_per_layer(&self, share: Share) -> f64 {
        match self.entry {
            Entry::Heads { head_size, .. } => 2.0 * f64::from(share.kv_heads) * f64::from(head_size),
            Entry::Latent { size } => f64::from(size),
        }
    }

    /// Returns the layers that keep every token.
    pub fn full_layers(&self) -> u32 {
        self.layers.saturating_sub(self.sliding.map_or(0, |s| s.layers))
    }

    /// Returns the layers that one block spans, and the number of groups of so many layers that keep only a window. vLLM divides
    /// the layers into groups of equal size, which share one pool of blocks (its hybrid KV cache manager).
    pub fn groups(&self) -> (u32, u32) {
        let full = self.full_layers();
        match self.sliding {
            Some(s) if full > 0 => (full.min(s.layers).max(1), s.layers.div_ceil(full.min(s.layers).max(1))),
            Some(_) | None => (self.layers, 0),
        }
    }

    /// Returns the blocks of `block_tokens` tokens that a sequence of `tokens` tokens occupies.
    pub fn blocks(&self, tokens: u64, block_tokens: u64) -> u64 {
        let (layers, windowed) = self.groups();
        let all = tokens.div_ceil(block_tokens);
        let Some(sliding) = self.sliding.filter(|_| windowed > 0) else { return all };
        let full_groups = u64::from(self.full_layers().div_ceil(layers));
        // A window that does not begin with a block touches one more.
        let window = all.min(u64::from(sliding.window).div_ceil(block_tokens) + 1);
        full_groups * all + u64::from(windowed) * window
    }

    /// Returns the layers that are read for a token of a context of this length, on average over its tokens.
    pub fn layers_read(&self, context: f64) -> f64 {
        let windowed = self
            .sliding
            .map_or(0.0, |s| f64::from(s.layers) * (f64::from(s.window) / context.max(1.0)).min(1.0));
        f64::from(self.full_layers()) + windowed
    }
}

/// One GPU's part of the KV cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Share {
    /// KV heads on each GPU.
    pub kv_heads: u32,
    /// GPUs that keep the same heads.
    pub copies: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_divided_or_copied() {
        let of =
            |kv_heads| Cache { layers: 1, entry: Entry::Heads { kv_heads, head_size: 128 }, sliding: None };
        for (kv_heads, gpus, want) in [
            (8, 1, Some((8, 1))),
            (8, 4, Some((2, 1))),
            (8, 8, Some((1, 1))),
            (8, 16, Some((1, 2))),
            (4, 8, Some((1, 2))),
            (1, 4, Some((1, 4))),
            (8, 3, None),
            (8, 12, None),
            (8, 0, None),
        ] {
            let share = of(kv_heads).share(gpus);
            assert_eq!(
                share.clone().ok().map(|s| (s.kv_heads, s.copies)),
                want,
                "{kv_heads} on {gpus}: {share:?}"
            );
        }
        assert_eq!(of(8).share(3), Err(vec![1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64]));
        let latent = Cache { entry: Entry::Latent { size: 576 }, ..of(1) };
        assert_eq!(latent.share(8), Ok(Share { kv_heads: 1, copies: 8 }));
        assert!((latent.numbers_per_layer(latent.share(8).unwrap()) - 576.0).abs() < 1e-9, "not divided");
    }

    /// Rows: layers, sliding layers, window, tokens; layers of a block, blocks of a sequence.
    #[test]
    fn a_window_bounds_what_its_layers_keep() {
        for (layers, sliding, window, tokens, block_layers, blocks) in [
            (32, 0, 0, 1000, 32, 63),
            (24, 12, 128, 1000, 12, 63 + 9),
            (24, 12, 128, 50, 12, 4 + 4),
            (48, 40, 1024, 4096, 8, 256 + 5 * 65), // five of six
        ] {
            let sliding = (sliding > 0).then_some(Sliding { layers: sliding, window });
            let cache = Cache { layers, entry: Entry::Heads { kv_heads: 8, head_size: 64 }, sliding };
            assert_eq!((cache.groups().0, cache.blocks(tokens, 16)), (block_layers, blocks), "{cache:?}");
        }
    }
}
