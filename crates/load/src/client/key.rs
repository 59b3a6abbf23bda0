//! The API key: reads it, and masks it in everything that is printed or written.

use anyhow::{Context, bail};
use goodput_core::redact;
use goodput_core::secrets::API_KEY_MASK;
use goodput_plan::server::key::KeySource;
use http::HeaderValue;
use std::{env, fmt, fs};

/// A key, sent as `authorization: Bearer …`, and in the messages API as `x-api-key` too. Neither `Debug` nor `Display`
/// shows it.
#[derive(Clone)]
pub struct ApiKey {
    header: HeaderValue,
    plain: HeaderValue,
    source: KeySource,
}

impl ApiKey {
    /// Reads the key, without surrounding white space.
    ///
    /// # Errors
    /// The variable or file is missing or empty, or contains characters that no header can carry. The error names the
    /// source, never its contents.
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
        // The error of the header type is dropped on purpose: it could quote the key.
        let (Ok(mut header), Ok(mut plain)) =
            (HeaderValue::from_str(&format!("Bearer {value}")), HeaderValue::from_str(value))
        else {
            bail!(
                "{source} holds characters that no HTTP header can carry: expected one line with the API key"
            );
        };
        header.set_sensitive(true);
        plain.set_sensitive(true);
        redact::register_secret(value, API_KEY_MASK);
        Ok(Self { header, plain, source: source.clone() })
    }

    /// Returns the source of the key.
    pub fn source(&self) -> &KeySource {
        &self.source
    }

    /// Returns the value of the `authorization` header, marked sensitive.
    pub(crate) fn header(&self) -> HeaderValue {
        self.header.clone()
    }

    /// Returns the key alone as the value of a header, marked sensitive.
    pub(crate) fn plain(&self) -> HeaderValue {
        self.plain.clone()
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
        assert_eq!(key.plain().to_str().unwrap(), "sk-secret-123");
        assert!(key.header().is_sensitive() && key.plain().is_sensitive());
        for shown in [format!("{key:?}"), format!("{key}"), format!("{:?} {:?}", key.header(), key.plain())] {
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
    fn whoever_reads_a_key_keeps_it_out_of_everything() {
        from_env(Some("sk-read-in-a-test")).unwrap();
        assert_eq!(redact::registered().redact("bad key sk-read-in-a-test"), "bad key [API key]");
    }
}
