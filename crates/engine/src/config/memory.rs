//! The KV cache that fits into a share of GPU memory, and the check whether a server starts with that share.

/// Model of vLLM's `--gpu-memory-utilization` on some hardware. vLLM fills the share with the weights, the peak memory
/// of activations, and as many KV blocks as fit into the rest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Memory {
    /// Share of each GPU's memory that the server takes, from 0 to 1.
    pub utilization: f64,
    /// Memory of one GPU, in GB.
    pub gpu_gb: f64,
    /// Memory that must stay free on each GPU for what vLLM does not count in its share, in GB.
    pub outside_gb: f64,
    /// A utilization and its number of blocks, one point of the line.
    pub reference: (f64, u32),
    /// Slope of the line: blocks per unit of utilization.
    pub blocks_per_utilization: f64,
}

impl Memory {
    /// Returns the number of KV blocks, even if the server would not start; none if the weights alone fill the share.
    pub fn blocks(&self) -> u32 {
        let (share, blocks) = self.reference;
        let blocks = f64::from(blocks) + self.blocks_per_utilization * (self.utilization - share);
        // The cast saturates at zero.
        blocks.round() as u32
    }

    /// Checks that a server with this share starts.
    ///
    /// # Errors
    /// Too little memory is left outside the share, or within it for the KV cache; the message says what to change.
    pub fn check_startup(&self) -> Result<(), String> {
        let Self { utilization, gpu_gb, outside_gb, .. } = *self;
        let taken = utilization * gpu_gb;
        let most = gpu_gb - outside_gb;
        if taken > most + 1e-9 {
            let advice = (most / gpu_gb * 100.0 + 1e-9).floor() / 100.0;
            return Err(format!(
                "CUDA out of memory: gpu-memory-utilization {utilization} takes {taken:.1} of the {gpu_gb} GB of each GPU and leaves \
                 {:.1} GB, but CUDA graphs, NCCL's buffers and other memory that vLLM does not count need {outside_gb} GB; lower \
                 gpu-memory-utilization to {advice} or less",
                gpu_gb - taken
            ));
        }
        // vLLM reserves one block.
        if self.blocks() < 2 {
            return Err(format!(
                "no memory is left for the cache blocks: gpu-memory-utilization {utilization} takes {taken:.1} of the {gpu_gb} GB of each GPU, \
                 which weights and activations fill ({:.0} GB); raise gpu-memory-utilization",
                self.zero_blocks_share() * gpu_gb
            ));
        }
        Ok(())
    }

    /// Returns the smallest and the largest share, in whole percent, with which a server starts that needs this many
    /// blocks.
    pub fn startup_range(&self, blocks: u32) -> (f64, f64) {
        let percent = |share: f64| share * 100.0;
        let least = self.zero_blocks_share() + f64::from(blocks.max(2)) / self.blocks_per_utilization;
        let most = (self.gpu_gb - self.outside_gb) / self.gpu_gb;
        (percent(least).ceil() / 100.0, (percent(most) + 1e-9).floor() / 100.0)
    }

    /// Returns the utilization at which weights and activations leave no blocks.
    fn zero_blocks_share(&self) -> f64 {
        self.reference.0 - f64::from(self.reference.1) / self.blocks_per_utilization
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Deployment, Engine, Simulated};

    #[test]
    fn too_large_or_too_small_a_share_does_not_start() {
        for (share, message) in [
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
                    "CUDA out of memory: gpu-memory-utilization 0.95 takes 76.0 of the 80 GB of each GPU and leaves 4.0 GB, but \
                     CUDA graphs, NCCL's buffers and other memory that vLLM does not count need 5.2 GB; lower \
                     gpu-memory-utilization to 0.93 or less",
                ),
            ),
            (1.0, Some("leaves 0.0 GB")),
        ] {
            let text = format!("preset = \"4xa100-llama-70b-util\"\ngpu-memory-utilization = {share:?}");
            let sim: Simulated = toml::from_str(&text).unwrap();
            match (sim.check_startup(), message) {
                (Ok(()), None) => {}
                (Err(why), Some(message)) => {
                    assert!(
                        why.starts_with("the simulated server did not start: ") && why.contains(message),
                        "{share}: {why}"
                    );
                }
                (started, _) => panic!("{share}: {started:?}"),
            }
        }
        assert_eq!(Simulated::named("demo").unwrap().check_startup(), Ok(()));
    }

    #[test]
    fn the_range_of_shares_is_where_a_server_starts() {
        let Engine::Batch { deployment: Deployment { memory: Some(memory), .. }, .. } =
            Simulated::named("4xa100-llama-70b-util").unwrap().engine
        else {
            panic!("it has a share")
        };
        let (min, max) = memory.startup_range(2);
        assert_eq!((format!("{min:.2}"), format!("{max:.2}")), ("0.46".to_owned(), "0.93".to_owned()));
        for (share, starts) in [(min - 0.01, false), (min, true), (max, true), (max + 0.01, false)] {
            let memory = super::Memory { utilization: share, ..memory };
            assert_eq!(memory.check_startup().is_ok(), starts, "{share}");
        }
    }

    /// Rows: `max-model-len`, the default of `max-num-seqs`, and whether a server with 2,368 blocks of 16 tokens starts.
    #[test]
    fn max_model_len_sets_the_number_of_sequences() {
        for (longest, seats, starts) in [
            (256, 147, true),
            (512, 73, true),
            (1024, 36, true),
            (4096, 9, true),
            (37_872, 1, true),
            (37_873, 1, false),
        ] {
            let text = format!("preset = \"4xa100-llama-70b-util\"\nmax-model-len = {longest}");
            let sim: Simulated = toml::from_str(&text).unwrap();
            let Engine::Batch { deployment, .. } = &sim.engine else { panic!("it is one") };
            assert_eq!(deployment.limits.max_num_seqs.get(), seats, "{longest}");
            match sim.check_startup() {
                Ok(()) => assert!(starts, "{longest}"),
                Err(why) => {
                    assert!(!starts && why.contains("max-model-len (37873 tokens) does not fit"), "{why}")
                }
            }
        }
    }
}
