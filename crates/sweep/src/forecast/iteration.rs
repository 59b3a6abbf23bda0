//! The time of an engine's iteration.
//!
//! A time is a fixed part, a part for each sequence and a part for each prompt token; while the weights are read, some
//! products are free (Williams, Waterman and Patterson, *Roofline*, CACM 52, 2009).

/// Share of a sequence's time, without its products and its keys and values, that is at least the host's work.
const HOST_OF_SEQUENCE: f64 = 0.5;

/// The parts of the time of an iteration, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Iteration {
    /// Work of the host.
    pub(super) host_ms: f64,
    /// Reading the weights; prompt tokens that take no longer are free.
    pub(super) weights_ms: f64,
    /// More for an iteration with prompt tokens.
    pub(super) prompt_ms: f64,
    /// For each prompt token.
    pub(super) prompt_token_ms: f64,
    /// For each pair of a prompt token and a token before it: attention.
    pub(super) attention_ms: f64,
    /// For each token of an answer, beside the reading of the weights: its products.
    pub(super) token_ms: f64,
    /// For each sequence.
    pub(super) sequence_ms: f64,
    /// Part of it that is compute: products that the reading of the weights does not hide.
    pub(super) products_ms: f64,
    /// For each token whose keys and values are read.
    pub(super) kv_token_ms: f64,
    /// Share of the fixed part that is memory, and not the host's work: the least and the most that it can be.
    pub(super) memory: [f64; 2],
    /// Share of the time for each prompt token that is computing, at most; the rest is the host's work.
    pub(super) computing: f64,
}

impl Iteration {
    /// Returns the times with compute that is faster by a factor.
    pub(super) fn with_compute(&self, factor: f64) -> Self {
        Self {
            prompt_token_ms: faster(self.prompt_token_ms, self.computing, factor),
            attention_ms: faster(self.attention_ms, self.computing, factor),
            token_ms: faster(self.token_ms, self.computing, factor),
            sequence_ms: self.sequence_ms - self.computing * self.products_ms * (1.0 - 1.0 / factor),
            ..*self
        }
    }

    /// Returns the times with memory that is faster by a factor: what is gained at least.
    pub(super) fn with_memory(&self, factor: f64) -> Self {
        let [memory, _] = self.memory;
        Self {
            host_ms: faster(self.host_ms, memory, factor),
            weights_ms: faster(self.weights_ms, memory, factor),
            kv_token_ms: self.kv_token_ms / factor,
            ..*self
        }
    }

    /// Returns the times with a host that is faster by a factor: what is gained at least. What an iteration with prompts takes
    /// besides may be launches or attention, and what a sequence takes besides its products may be sampling or memory.
    pub(super) fn with_host(&self, factor: f64) -> Self {
        let [_, memory] = self.memory;
        let host = 1.0 - memory;
        let products = self.products_ms;
        Self {
            host_ms: faster(self.host_ms, host, factor),
            weights_ms: faster(self.weights_ms, host, factor),
            sequence_ms: faster(products, 1.0 - self.computing, factor)
                + faster(self.sequence_ms - products, HOST_OF_SEQUENCE, factor),
            prompt_token_ms: faster(self.prompt_token_ms, 1.0 - self.computing, factor),
            ..*self
        }
    }
}

/// Returns a time of which a share becomes faster by a factor.
fn faster(time: f64, share: f64, factor: f64) -> f64 {
    time * (1.0 - share + share / factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: Iteration = Iteration {
        host_ms: 4.0,
        weights_ms: 2.0,
        prompt_ms: 0.5,
        prompt_token_ms: 0.02,
        attention_ms: 1e-6,
        token_ms: 0.0,
        sequence_ms: 0.1,
        products_ms: 0.02,
        kv_token_ms: 0.001,
        memory: [0.25, 0.25],
        computing: 1.0,
    };

    #[test]
    fn faster_parts_shorten_their_own_times_alone() {
        let compute = TIMES.with_compute(2.0);
        assert!((compute.prompt_token_ms - 0.01).abs() < 1e-12 && (compute.sequence_ms - 0.09).abs() < 1e-12);
        assert!((compute.attention_ms - 5e-7).abs() < 1e-15, "attention is products too");
        assert!((compute.host_ms - 4.0).abs() < 1e-12 && (compute.kv_token_ms - 0.001).abs() < 1e-12);
        let memory = TIMES.with_memory(2.0);
        assert!((memory.host_ms + memory.weights_ms - 6.0 * 0.875).abs() < 1e-12, "an eighth of six");
        assert!((memory.kv_token_ms - 0.0005).abs() < 1e-12 && (memory.sequence_ms - 0.1).abs() < 1e-12);
        let host = TIMES.with_host(2.0);
        assert!((host.host_ms + host.weights_ms - 6.0 * 0.625).abs() < 1e-12);
        assert!((host.sequence_ms - 0.08).abs() < 1e-12, "a quarter of what is not products");
        assert!((host.prompt_ms - 0.5).abs() < 1e-12, "it may not be the host's");
        assert!((host.prompt_token_ms - 0.02).abs() < 1e-12, "prompts are computed");
        let slow = Iteration { computing: 0.25, ..TIMES };
        assert!((slow.with_compute(2.0).prompt_token_ms - 0.0175).abs() < 1e-12, "an eighth of it");
        assert!((slow.with_host(2.0).prompt_token_ms - 0.0125).abs() < 1e-12, "half of three quarters");
    }
}
