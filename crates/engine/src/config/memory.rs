//! The KV cache that a share of a GPU's memory leaves room for, and whether a server with it starts.

/// vLLM's `--gpu-memory-utilization` on some hardware: it fills the share with the weights, the most that activations need, and as many
/// blocks of the KV cache as fit into the rest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Memory {
    /// The share of each GPU's memory that the server takes, from 0 to 1.
    pub utilization: f64,
    /// Memory of a GPU, in GB.
    pub gpu_gb: f64,
    /// What has to stay free on each GPU for all that vLLM does not count in its share, in GB.
    pub outside_gb: f64,
    /// A share, and the blocks there.
    pub known: (f64, u32),
    /// Blocks for the whole of the memory: blocks are a straight line over the share.
    pub blocks_of_all: f64,
}

impl Memory {
    /// Blocks of the KV cache, whether or not the server starts with them; none where the weights alone fill the share.
    pub fn blocks(&self) -> u32 {
        let (share, blocks) = self.known;
        let blocks = f64::from(blocks) + self.blocks_of_all * (self.utilization - share);
        // The cast saturates at zero.
        blocks.round() as u32
    }

    /// Why a server with this share does not start.
    ///
    /// # Errors
    /// Too little is left beside the share, or nothing in it for the KV cache; the message says what to change.
    pub fn start(&self) -> Result<(), String> {
        let Self { utilization, gpu_gb, outside_gb, .. } = *self;
        let taken = utilization * gpu_gb;
        let most = gpu_gb - outside_gb;
        if taken > most + 1e-9 {
            let advice = (most / gpu_gb * 100.0 + 1e-9).floor() / 100.0;
            return Err(format!(
                "CUDA out of memory: gpu-memory-utilization {utilization} takes {taken:.1} of the {gpu_gb} GB of each GPU and leaves \
                 {:.1} GB, where CUDA graphs, NCCL's buffers and all else that vLLM does not count in it need {outside_gb} GB; lower \
                 gpu-memory-utilization to {advice} or less",
                gpu_gb - taken
            ));
        }
        // vLLM keeps one block for itself.
        if self.blocks() < 2 {
            return Err(format!(
                "no memory is left for the cache blocks: gpu-memory-utilization {utilization} takes {taken:.1} of the {gpu_gb} GB of each GPU, \
                 which weights and activations fill ({:.0} GB); raise gpu-memory-utilization",
                self.empty() * gpu_gb
            ));
        }
        Ok(())
    }

    /// The share that weights and activations fill.
    fn empty(&self) -> f64 {
        self.known.0 - f64::from(self.known.1) / self.blocks_of_all
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Simulated;

    #[test]
    fn a_share_that_is_too_large_or_too_small_does_not_start() {
        for (share, said) in [
            (
                0.0,
                Some(
                    "no memory is left for the cache blocks: gpu-memory-utilization 0 takes 0.0 of the 80 GB",
                ),
            ),
            (0.449, Some("which weights and activations fill (36 GB); raise gpu-memory-utilization")),
            (0.46, None),
            (0.8, None),
            (0.92, None),
            (0.935, None),
            (0.94, Some("CUDA out of memory")),
            (
                0.95,
                Some(
                    "CUDA out of memory: gpu-memory-utilization 0.95 takes 76.0 of the 80 GB of each GPU and leaves 4.0 GB, where \
                     CUDA graphs, NCCL's buffers and all else that vLLM does not count in it need 5.2 GB; lower \
                     gpu-memory-utilization to 0.93 or less",
                ),
            ),
            (1.0, Some("leaves 0.0 GB")),
        ] {
            let text = format!("preset = \"4xa100-llama-70b-util\"\ngpu-memory-utilization = {share:?}");
            let sim: Simulated = toml::from_str(&text).unwrap();
            match (sim.starts(), said) {
                (Ok(()), None) => {}
                (Err(why), Some(said)) => {
                    assert!(
                        why.starts_with("the simulated server did not start: ") && why.contains(said),
                        "{share}: {why}"
                    );
                }
                (started, _) => panic!("{share}: {started:?}"),
            }
        }
        assert_eq!(Simulated::named("demo").unwrap().starts(), Ok(()));
    }
}
