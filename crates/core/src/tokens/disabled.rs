//! Stand-in for the tokenizer in builds without the feature; never constructed.

use super::Tokenizer;
use anyhow::{Result, bail};
use std::convert::Infallible;
use std::path::Path;

pub(super) struct Inner(Infallible);

impl Inner {
    pub(super) fn open(_: &Path) -> Result<Self> {
        bail!(Tokenizer::MISSING)
    }

    pub(super) fn encode(&self, _: &str) -> Vec<u32> {
        match self.0 {}
    }

    pub(super) fn decode(&self, _: &[u32]) -> String {
        match self.0 {}
    }

    pub(super) fn vocabulary(&self) -> usize {
        match self.0 {}
    }

    pub(super) fn is_special(&self, _: u32) -> bool {
        match self.0 {}
    }
}
