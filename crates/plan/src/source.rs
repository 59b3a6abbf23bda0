//! Sources of a plan's text: files, and the plans built into the binary.

use anyhow::{Context, Result, anyhow, bail};
use goodput_core::secrets::masked;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

macro_rules! sweeps {
    ($($name:literal),+ $(,)?) => {
        /// Name and TOML text of the built-in plans, which are the files of `sweeps/`.
        pub const SWEEPS: &[(&str, &str)] = &[$(($name, include_str!(concat!("../../../sweeps/", $name, ".toml")))),+];
    };
}
sweeps!(
    "default",
    "demo",
    "demo-virtual",
    "a40-qwen3-0.6b",
    "chat",
    "rag",
    "cache-pair",
    "cache-pair-local",
    "llamacpp-local",
    "mix",
    "adapters",
    "conversation",
    "responses",
    "messages",
    "embedder",
    "reranker",
    "transcriptions",
    "vision",
    "template",
    "vllm-local",
    "vllm-variants-local",
    "llama-70b-max-num-seqs",
    "llama-70b-gpu-memory-utilization",
    "llama-70b-max-model-len",
    "matrix"
);

/// Source of a plan's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file.
    File(PathBuf),
    /// A built-in plan: its name and text.
    Builtin(&'static str, &'static str),
}

impl Source {
    /// Finds a plan by its path or, if there is no such file, by the name of a built-in plan.
    ///
    /// # Errors
    /// It is neither; the message lists the built-in plans.
    pub fn find(what: &Path) -> Result<Self> {
        if what.is_file() {
            return Ok(Self::File(what.to_owned()));
        }
        let by_name = SWEEPS.iter().find(|(name, _)| Path::new(name) == what);
        by_name.map(|(name, text)| Self::Builtin(name, text)).ok_or_else(|| {
            anyhow!(
                "there is no plan {}: name a file, or one of the built-in plans ({}); `goodput init {0}` writes a plan to start from",
                without_password(&what.display().to_string()),
                SWEEPS.iter().map(|(n, _)| *n).collect::<Vec<_>>().join(", ")
            )
        })
    }

    /// Returns the built-in plan for a sweep that names none.
    pub fn fallback() -> Self {
        let (name, text) = SWEEPS[0];
        Self::Builtin(name, text)
    }

    pub(super) fn title(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Builtin(name, _) => format!("the built-in plan {name}"),
        }
    }

    pub(super) fn text(&self) -> Result<String> {
        match self {
            Self::File(path) => {
                read(path).with_context(|| format!("failed to read the plan {}", path.display()))
            }
            Self::Builtin(_, text) => Ok((*text).to_owned()),
        }
    }
}

/// Maximum size of a plan, in bytes: a thousand times that of a long one.
pub const LARGEST_PLAN: u64 = 4 << 20;

fn read(path: &Path) -> Result<String> {
    let file = File::open(path)?;
    let mut text = String::new();
    // A sparse file takes no space on disk, but would take all memory.
    file.take(LARGEST_PLAN + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LARGEST_PLAN {
        bail!("it is larger than {} MiB, which is no plan", LARGEST_PLAN >> 20);
    }
    Ok(text)
}

/// Removes user and password from a URL that was given instead of a plan.
fn without_password(what: &str) -> String {
    match what.rsplit_once('@').filter(|(user, _)| user.contains(':')) {
        Some((_, host)) => format!("***@{}", masked(host)),
        None => masked(what),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_huge_file_is_no_plan() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(3 << 30).unwrap();
        let e = format!("{:#}", Source::File(file.path().to_owned()).text().unwrap_err());
        assert!(e.contains("larger than 4 MiB"), "{e}");
    }

    #[test]
    fn a_url_given_as_a_plan_is_quoted_without_its_password() {
        for what in ["http://me:hunter2@h:1", "me:hunter2@h:1", "HTTP://me:hunter2@h:1/?token=hunter2"] {
            let e = Source::find(Path::new(what)).unwrap_err().to_string();
            assert!(!e.contains("hunter2") && e.contains("there is no plan "), "{e}");
        }
        assert!(Source::find(Path::new("no/such.toml")).unwrap_err().to_string().contains("no/such.toml"));
    }
}
