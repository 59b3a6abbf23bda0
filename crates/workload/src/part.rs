//! A part of a step's chains, for a load that several machines share.

use super::draw::StepKey;
use super::seed::{Purpose, hash, stream};
use rand::Rng;
use serde::{Deserialize, Serialize};

/// One of several parts of a step. The parts are disjoint, and together they are the step: each chain falls to the part that the hash of its
/// number names, so that a conversation stays with one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "[u32; 2]", into = "[u32; 2]")]
pub struct StepPart {
    index: u32,
    of: u32,
}

impl StepPart {
    /// The whole step.
    pub const WHOLE: Self = Self { index: 0, of: 1 };

    /// Returns part `index`, counted from 0, of so many.
    ///
    /// # Errors
    /// There is no such part.
    pub fn new(index: u32, of: u32) -> Result<Self, String> {
        if index < of { Ok(Self { index, of }) } else { Err(format!("there is no part {index} of {of}")) }
    }

    /// Index of the part, from 0.
    pub const fn index(self) -> u32 {
        self.index
    }

    /// Number of parts.
    pub const fn of(self) -> u32 {
        self.of
    }

    /// Returns true if there are no other parts.
    pub const fn is_whole(self) -> bool {
        self.of == 1
    }

    /// Returns this part's share of `n` things that are dealt out evenly.
    pub const fn share_of(self, n: usize) -> usize {
        let (index, of) = (self.index as usize, self.of as usize);
        n / of + (index < n % of) as usize
    }
}

impl TryFrom<[u32; 2]> for StepPart {
    type Error = String;

    fn try_from([index, of]: [u32; 2]) -> Result<Self, String> {
        Self::new(index, of)
    }
}

impl From<StepPart> for [u32; 2] {
    fn from(part: StepPart) -> Self {
        [part.index, part.of]
    }
}

/// The parts that the chains of one step are divided into.
#[derive(Debug, Clone, Copy)]
pub struct Parts {
    of: u32,
    key: u64,
}

impl Parts {
    /// Returns the index of the part that the chain of this number falls to.
    pub fn part_of(&self, chain: u64) -> u32 {
        (hash(self.key, chain) % u64::from(self.of)) as u32
    }
}

/// Tells which chains of one step fall to a part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PartFilter {
    part: StepPart,
    parts: Parts,
}

impl PartFilter {
    /// For a part of the step with this key.
    pub(crate) fn new(key: &StepKey, part: StepPart) -> Self {
        let key = stream(key.seed, &key.series, key.step, Purpose::Part).next_u64();
        Self { part, parts: Parts { of: part.of, key } }
    }

    /// Divides the same step into another number of parts.
    pub(crate) const fn parts(&self, of: u32) -> Parts {
        Parts { of, ..self.parts }
    }

    /// Returns true if the chain of this number falls to the part.
    pub(crate) fn includes(&self, chain: u64) -> bool {
        self.part.is_whole() || self.parts.part_of(chain) == self.part.index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(step: u32) -> StepKey {
        StepKey { seed: 1, series: "main".into(), step }
    }

    #[test]
    fn every_chain_falls_to_one_part() {
        for of in [1, 2, 3, 7, 64] {
            let part_filters: Vec<PartFilter> =
                (0..of).map(|i| PartFilter::new(&key(1), StepPart::new(i, of).unwrap())).collect();
            let mut counts = vec![0u32; of as usize];
            for chain in 0..64_000 {
                let own: Vec<usize> =
                    (0..part_filters.len()).filter(|i| part_filters[*i].includes(chain)).collect();
                assert_eq!(own.len(), 1, "chain {chain} of {of} parts");
                counts[own[0]] += 1;
            }
            let mean = 64_000.0 / f64::from(of);
            let even = |n: &u32| (f64::from(*n) - mean).abs() < 5.0 * mean.sqrt();
            assert!(counts.iter().all(even), "{of}: {counts:?}");
        }
    }

    #[test]
    fn the_parts_of_two_steps_differ() {
        let part = StepPart::new(0, 2).unwrap();
        let [a, b] = [1, 2].map(|step| PartFilter::new(&key(step), part));
        assert!((0..100).any(|chain| a.includes(chain) != b.includes(chain)));
    }

    #[test]
    fn a_part_that_does_not_exist_is_refused() {
        assert!(StepPart::new(2, 2).is_err() && StepPart::new(0, 0).is_err());
        assert_eq!(serde_json::to_string(&StepPart::new(1, 3).unwrap()).unwrap(), "[1,3]");
        assert!(serde_json::from_str::<StepPart>("[3,3]").is_err());
        assert_eq!((0..3).map(|i| StepPart::new(i, 3).unwrap().share_of(11)).sum::<usize>(), 11);
    }
}
