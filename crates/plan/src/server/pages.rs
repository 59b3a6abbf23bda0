//! URLs of metrics pages, and the settings for the server's own metrics.

use goodput_core::endpoint::BaseUrl;
use goodput_core::secrets::query_holds_secret;
use goodput_core::units::{NonEmpty, Span};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use url::Url;

/// URL of a metrics page, such as `http://127.0.0.1:9400/metrics`; the path defaults to `/metrics`. Contains no secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct PageUrl {
    base: BaseUrl,
    /// Path and query.
    path: String,
}

impl PageUrl {
    /// Returns the address of the server.
    pub fn base(&self) -> &BaseUrl {
        &self.base
    }

    /// Returns path and query.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns host and port.
    pub fn host(&self) -> String {
        let url = self.base.join("/");
        let port = url.port_or_known_default().map(|p| format!(":{p}")).unwrap_or_default();
        format!("{}{port}", url.host_str().unwrap_or_default())
    }
}

impl FromStr for PageUrl {
    type Err = String;
    // Messages never quote the URL, which may contain a password.
    fn from_str(text: &str) -> Result<Self, String> {
        const LIKE: &str = "write the URL of a metrics page, such as \"http://127.0.0.1:9400/metrics\"";
        let url = Url::parse(text.trim()).map_err(|e| format!("this is not a URL ({e}): {LIKE}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("the URL does not begin with http:// or https://: {LIKE}"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(
                "the URL contains user:password@, which would end up in files and reports: leave it out, and serve the metrics \
                 where no password is needed"
                    .into(),
            );
        }
        if query_holds_secret(&url, url.as_str()) {
            return Err(
                "the query of the URL seems to contain a key or a token, which would end up in files and reports: leave it out"
                    .into(),
            );
        }
        let base = url.origin().ascii_serialization().parse()?;
        let path = match (url.path(), url.query()) {
            ("" | "/", None) => "/metrics".to_owned(),
            (path, None) => path.to_owned(),
            (path, Some(query)) => format!("{path}?{query}"),
        };
        Ok(Self { base, path })
    }
}

impl TryFrom<String> for PageUrl {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<PageUrl> for String {
    fn from(url: PageUrl) -> Self {
        url.to_string()
    }
}

impl fmt::Display for PageUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.base, self.path)
    }
}

/// Settings for reading the server's own metrics during a step.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerMetrics {
    /// True if they are read.
    pub read: bool,
    /// URLs of the pages; empty for `/metrics` of every server of the plan.
    pub pages: Vec<PageUrl>,
    /// Time between two readings.
    pub interval: Span,
}

impl Default for ServerMetrics {
    fn default() -> Self {
        Self { read: true, pages: Vec::new(), interval: Self::INTERVAL }
    }
}

impl ServerMetrics {
    const INTERVAL: Span = Span::secs(1);

    /// Returns the problem with a time between two readings, to follow its key in a message.
    pub fn problem(interval: Span) -> Option<&'static str> {
        let range = Duration::from_millis(100)..=Duration::from_secs(60);
        (!range.contains(&interval.0)).then_some(
            "must be between 100ms and 60s: shorter times disturb the server, longer ones miss what happens in a step",
        )
    }

    /// Builds the settings from the keys `metrics`, `metrics-url`, `metrics-urls` and `metrics-interval`.
    pub(super) fn of(
        read: Option<bool>,
        one: Option<PageUrl>,
        several: Option<NonEmpty<PageUrl>>,
        interval: Option<Span>,
    ) -> Result<Self, String> {
        if one.is_some() && several.is_some() {
            return Err("[server] takes only one of metrics-url, metrics-urls".into());
        }
        let several = several.into_iter().flat_map(|s| s.to_vec());
        let pages: Vec<PageUrl> = one.into_iter().chain(several).collect();
        let read = read.unwrap_or(true);
        if !read && (!pages.is_empty() || interval.is_some()) {
            return Err(
                "[server] metrics = false turns metrics off: leave out metrics-url, metrics-urls and metrics-interval".into()
            );
        }
        let interval = interval.unwrap_or(Self::INTERVAL);
        if let Some(problem) = Self::problem(interval) {
            return Err(format!("[server] metrics-interval {problem}"));
        }
        Ok(Self { read, pages, interval })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_get_a_default_path_and_secrets_are_refused() {
        for (text, shown) in [
            ("http://127.0.0.1:9400", "http://127.0.0.1:9400/metrics"),
            (" http://gpu:9400/ ", "http://gpu:9400/metrics"),
            ("https://a/b/prometheus?collect[]=cpu", "https://a/b/prometheus?collect[]=cpu"),
            ("http://[::1]:8002/v1/metrics", "http://[::1]:8002/v1/metrics"),
        ] {
            let url: PageUrl = text.parse().unwrap();
            assert_eq!(url.to_string(), shown);
            assert_eq!(url.to_string().parse(), Ok(url), "it reads back");
        }
        assert_eq!("http://gpu".parse::<PageUrl>().unwrap().host(), "gpu:80");
        for (text, message) in [
            ("gpu:9400", "http"),
            ("", "not a URL"),
            ("ftp://gpu/metrics", "http://"),
            ("http://me:hunter2@gpu/", "user:password@"),
            ("http://gpu/metrics?api_key=hunter2", "key or a token"),
            ("http://gpu/metrics?a=1&api%5Fkey=hunter2", "key or a token"),
            ("http://gpu/metrics?a=Bearer%20hunter2", "key or a token"),
        ] {
            let error = text.parse::<PageUrl>().unwrap_err();
            assert!(error.contains(message) && !error.contains("hunter2"), "{text}: {error}");
        }
    }

    #[test]
    fn metrics_settings_are_checked() {
        let server =
            |text: &str| toml::from_str::<crate::server::Server>(&format!("url = \"http://a\"\n{text}"));
        let read = |text: &str| server(text).unwrap().metrics;
        assert_eq!(read(""), ServerMetrics::default());
        assert!(!read("metrics = false").read);
        let pages =
            read("metrics-urls = [\"http://a:8002\", \"http://b:8002\"]\nmetrics-interval = \"500ms\"");
        assert_eq!((pages.pages.len(), pages.interval.0), (2, Duration::from_millis(500)));
        for (text, message) in [
            ("metrics-url = \"http://a\"\nmetrics-urls = [\"http://b\"]", "only one of"),
            ("metrics = false\nmetrics-url = \"http://a\"", "turns metrics off"),
            ("metrics-interval = \"1ms\"", "100ms"),
            ("metrics-urls = []", "empty"),
            ("metrics-url = \"http://me:hunter2@a\"", "user:password@"),
        ] {
            let error = server(text).unwrap_err().to_string();
            assert!(error.contains(message) && !error.contains("hunter2@a\" "), "{text}: {error}");
        }
        for text in
            ["metrics = false", "metrics-url = \"http://a:8002/metrics\"", "metrics-interval = \"2s\""]
        {
            let once = server(text).unwrap();
            assert_eq!(toml::from_str(&toml::to_string(&once).unwrap()), Ok(once), "{text} reads back");
        }
    }
}
