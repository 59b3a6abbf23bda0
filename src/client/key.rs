//! The API key: where it is read from, and how it stays out of everything that is printed or written.

use anyhow::{Context, bail};
use http::HeaderValue;
use std::{env, fmt, fs, path::PathBuf, sync::Arc};

/// Where the key is read from; the plan never holds the key itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// An environment variable.
    Env(String),
    /// A file that holds nothing else.
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

/// A key, sent as `authorization: Bearer …`. Neither `Debug` nor `Display` shows it.
#[derive(Clone)]
pub struct ApiKey {
    value: Arc<str>,
    header: HeaderValue,
    source: KeySource,
}

impl ApiKey {
    /// Reads the key; surrounding white space does not belong to it.
    ///
    /// # Errors
    /// Where the variable or file is missing or empty, or holds what no header can carry. The error names the place, never
    /// what was read.
    pub fn read(source: &KeySource) -> anyhow::Result<Self> {
        Self::read_with(source, |name| env::var(name).ok())
    }

    fn read_with(source: &KeySource, var: impl Fn(&str) -> Option<String>) -> anyhow::Result<Self> {
        let text = match source {
            KeySource::Env(name) => var(name).with_context(|| {
                format!("server.api-key-env names {name}, which is not set: export {name}=… before the start")
            })?,
            KeySource::File(path) => fs::read_to_string(path).with_context(|| {
                format!("failed to read the API key from {} (server.api-key-file)", path.display())
            })?,
        };
        let value = text.trim();
        if value.is_empty() {
            bail!("{source} is empty, where server.api-key-{} expects the API key", source.suffix());
        }
        // The error of the header type is dropped on purpose: a message about the value could quote it.
        let Ok(mut header) = HeaderValue::from_str(&format!("Bearer {value}")) else {
            bail!(
                "{source} holds characters that no HTTP header can carry: expected one line with the API key"
            );
        };
        header.set_sensitive(true);
        Ok(Self { value: value.into(), header, source: source.clone() })
    }

    /// Where it was read from.
    pub fn source(&self) -> &KeySource {
        &self.source
    }

    /// The value of the `authorization` header, marked sensitive.
    pub(crate) fn header(&self) -> HeaderValue {
        self.header.clone()
    }

    /// Length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.value.len()
    }

    /// `text` without the key, and without the beginning of a key at its very end, where `text` was cut off.
    pub(crate) fn redact(&self, text: &str) -> String {
        let mut text = text.replace(&*self.value, "[API key]");
        let longest = (1..self.value.len())
            .rev()
            .filter_map(|n| self.value.get(..n))
            .find(|start| start.len() >= 4 && text.ends_with(start));
        if let Some(start) = longest {
            text.truncate(text.len() - start.len());
            text.push_str("[API key]");
        }
        text
    }
}

impl KeySource {
    fn suffix(&self) -> &'static str {
        match self {
            Self::Env(_) => "env",
            Self::File(_) => "file",
        }
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKey(from {})", self.source)
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the API key from {}", self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn from_env(value: Option<&str>) -> anyhow::Result<ApiKey> {
        ApiKey::read_with(&KeySource::Env("MY_KEY".into()), |name| {
            assert_eq!(name, "MY_KEY");
            value.map(str::to_owned)
        })
    }

    #[test]
    fn a_key_is_trimmed_and_never_shown() {
        let key = from_env(Some("  sk-secret-123\n")).unwrap();
        assert_eq!(key.header().to_str().unwrap(), "Bearer sk-secret-123");
        assert!(key.header().is_sensitive());
        for shown in [format!("{key:?}"), format!("{key}"), format!("{:?}", key.header())] {
            assert!(!shown.contains("secret"), "{shown}");
        }
        assert!(format!("{key}").contains("MY_KEY"));
    }

    #[test]
    fn a_missing_or_empty_key_names_its_place() {
        for (value, what) in [(None, "not set"), (Some(""), "empty"), (Some(" \n"), "empty")] {
            let said = format!("{:#}", from_env(value).unwrap_err());
            assert!(said.contains("MY_KEY") && said.contains(what), "{said}");
        }
        let said = format!("{:#}", from_env(Some("sk-one\nsk-two")).unwrap_err());
        assert!(said.contains("MY_KEY") && !said.contains("sk-"), "{said}");
    }

    #[test]
    fn a_key_file_is_read() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "sk-from-file").unwrap();
        let key = ApiKey::read(&KeySource::File(file.path().into())).unwrap();
        assert_eq!(key.header().to_str().unwrap(), "Bearer sk-from-file");
        let said = format!("{:#}", ApiKey::read(&KeySource::File("no/such/file".into())).unwrap_err());
        assert!(said.contains("no/such/file") && said.contains("api-key-file"), "{said}");
    }

    #[test]
    fn echoes_are_redacted() {
        let key = from_env(Some("sk-abcdef")).unwrap();
        assert_eq!(key.redact("bad key sk-abcdef, twice sk-abcdef!"), "bad key [API key], twice [API key]!");
        assert_eq!(key.redact("cut off in the middle of sk-abc"), "cut off in the middle of [API key]");
        assert_eq!(key.redact("a task"), "a task");
    }
}
