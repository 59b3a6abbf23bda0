//! The headers of requests.

use super::dialect::Dialect;
use super::key::ApiKey;
use goodput_plan::server::Server;
use http::{HeaderMap, HeaderValue, header};

/// Returns the headers of a `POST`: those of the plan, those of the API unless the plan has them, and the key.
pub(super) fn of_requests(server: &Server, key: Option<&ApiKey>) -> HeaderMap {
    let dialect = Dialect::of(server.api);
    let mut headers: HeaderMap = server.headers.iter().collect();
    // Parsing the plan has checked the type of a template.
    let described = server.template.as_ref().and_then(|template| template.content_type.parse().ok());
    headers.insert(header::CONTENT_TYPE, described.unwrap_or(HeaderValue::from_static(dialect.content_type)));
    for (name, value) in dialect.headers {
        headers.entry(*name).or_insert(HeaderValue::from_static(value));
    }
    if let Some(key) = key {
        headers.insert(header::AUTHORIZATION, key.header());
        if let Some(name) = dialect.key_header {
            headers.insert(name, key.plain());
        }
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_core::endpoint::Api;
    use goodput_plan::server::key::KeySource;
    use std::io::Write;

    /// Rows: the API, a header of the plan, and the expected values of three headers.
    #[test]
    fn an_api_has_headers_of_its_own() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "sk-of-headers").unwrap();
        let key = ApiKey::read(&KeySource::File(file.path().into())).unwrap();
        let version = Some("2023-06-01");
        for (api, own, key, expected) in [
            (Api::Chat, "", Some(&key), [Some("Bearer sk-of-headers"), None, None]),
            (Api::Responses, "", Some(&key), [Some("Bearer sk-of-headers"), None, None]),
            (Api::Messages, "", Some(&key), [Some("Bearer sk-of-headers"), Some("sk-of-headers"), version]),
            (Api::Messages, "", None, [None, None, version]),
            (
                Api::Messages,
                "headers = { anthropic-version = \"2024-01-01\" }",
                None,
                [None, None, Some("2024-01-01")],
            ),
        ] {
            let server: Server = toml::from_str(&format!("url = \"http://127.0.0.1:1\"\n{own}")).unwrap();
            let headers = of_requests(&Server { api, ..server }, key);
            let names = ["authorization", "x-api-key", "anthropic-version"];
            let got = names.map(|name| headers.get(name).map(|value| value.to_str().unwrap()));
            assert_eq!(got, expected, "{api:?} {own}");
            assert!(names[..2].iter().filter_map(|n| headers.get(*n)).all(HeaderValue::is_sensitive));
            assert!(!format!("{headers:?}").contains("sk-of"), "{headers:?}");
        }
    }
}
