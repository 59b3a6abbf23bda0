//! The source of the API key.

use std::path::{Path, PathBuf};
use std::{fmt, fs};

/// Source of the API key; the plan never contains the key itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// An environment variable.
    Env(String),
    /// A file that contains only the key.
    File(PathBuf),
}

impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(f, "the environment variable {name}"),
            Self::File(path) => write!(f, "the file {}", path.display()),
        }
    }
}

/// Returns true if users other than the owner may read a file; always false where permissions are unknown.
pub fn open_to_others(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o077 != 0)
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        false
    }
}

impl KeySource {
    /// Returns a warning if others can read the key file.
    pub fn warning(&self) -> Option<String> {
        let Self::File(path) = self else { return None };
        open_to_others(path).then(|| {
            format!(
                "{} contains the API key, and other users of this machine may read it: run chmod 600 {0}",
                path.display()
            )
        })
    }

    /// Returns `env` or `file`, as in the names of the plan's keys `api-key-env` and `api-key-file`.
    pub fn suffix(&self) -> &'static str {
        match self {
            Self::Env(_) => "env",
            Self::File(_) => "file",
        }
    }
}
