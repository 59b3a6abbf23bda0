use super::*;

fn parse(text: &str) -> Result<Server, String> {
    toml::from_str(text).map_err(|e| e.to_string())
}

const FULL: &str = r#"
url = "http://127.0.0.1:8000/v1/"
api = "completions"
model = "qwen"
api-key-env = "OPENAI_API_KEY"
headers = { x-team = "serving" }
body = { temperature = 0.0, stop = ["a"], stream_options = { include_usage = true } }
connect-timeout = "2s"
warmup-requests = 3
"#;

#[test]
fn a_full_table_parses_and_reads_back() {
    let s = parse(FULL).unwrap();
    assert_eq!(s.target.urls()[0].to_string(), "http://127.0.0.1:8000");
    assert_eq!((s.api, s.model.as_deref(), s.warmup_requests), (Api::Completions, Some("qwen"), 3));
    assert_eq!(s.key, Some(KeySource::Env("OPENAI_API_KEY".into())));
    assert_eq!(s.body.json()["stream_options"]["include_usage"], true);
    for text in [
        FULL,
        "urls = [\"http://a\", \"https://b:1/x\"]\napi-key-file = \"k\"",
        "simulated = { preset = \"demo\" }",
    ] {
        let s = parse(text).unwrap();
        let again = toml::to_string(&s).unwrap();
        assert_eq!(parse(&again).unwrap(), s, "{again}");
    }
}

#[test]
fn defaults() {
    let s = parse("url = \"http://h\"").unwrap();
    assert_eq!(s, Server::new(Target::Url("http://h".parse().unwrap())));
    assert_eq!((s.api, s.connect_timeout, s.warmup_requests), (Api::Chat, Span::secs(5), 20));
}

/// Sampling, tools and response formats are sent to the server unchanged.
#[test]
fn extra_body_fields_are_sent_unchanged() {
    let text = r#"
url = "http://h"
[body]
temperature = 0.7
top_p = 1
seed = 7
n = 1
stop = ["a", "b"]
tool_choice = { type = "function", function = { name = "f" } }
[body.response_format]
type = "json_schema"
json_schema = { name = "c", strict = true, schema = { type = "object", properties = { a = { type = "integer" } } } }
[[body.tools]]
type = "function"
function = { name = "f", parameters = { type = "object", properties = { city = { enum = ["x", "y"] } } } }
[[body.tools]]
type = "function"
function = { name = "g" }
"#;
    let expected = serde_json::json!({
        "temperature": 0.7, "top_p": 1, "seed": 7, "n": 1, "stop": ["a", "b"],
        "tool_choice": { "type": "function", "function": { "name": "f" } },
        "response_format": { "type": "json_schema", "json_schema": {
            "name": "c", "strict": true,
            "schema": { "type": "object", "properties": { "a": { "type": "integer" } } }
        } },
        "tools": [
            { "type": "function", "function": { "name": "f", "parameters":
                { "type": "object", "properties": { "city": { "enum": ["x", "y"] } } } } },
            { "type": "function", "function": { "name": "g" } }
        ]
    });
    let server = parse(text).unwrap();
    assert_eq!(serde_json::Value::Object(server.body.json()), expected);
    let again = parse(&toml::to_string(&server).unwrap()).unwrap();
    assert_eq!(again, server, "it reads back from the run folder");
}

#[test]
fn urls_are_normalised() {
    for (text, base) in [
        ("http://h:8000", "http://h:8000"),
        ("http://h:8000/", "http://h:8000"),
        ("http://h:8000/v1", "http://h:8000"),
        ("http://h:8000/v1/", "http://h:8000"),
        ("https://gw/openai/v1", "https://gw/openai"),
        ("http://[::1]:80/v1", "http://[::1]"),
        ("http://h/v1beta", "http://h/v1beta"),
    ] {
        let url: BaseUrl = text.parse().unwrap();
        assert_eq!(url.to_string(), base, "{text}");
        assert_eq!(url.join("/v1/models").as_str(), format!("{base}/v1/models"));
    }
    for (text, loopback) in [
        ("http://localhost:1", true),
        ("http://127.3.0.1", true),
        ("http://[::1]:2", true),
        ("http://h", false),
        ("unix:/run/x.sock", true),
    ] {
        assert_eq!(text.parse::<BaseUrl>().unwrap().is_loopback(), loopback, "{text}");
    }
    for text in ["unix:/run/x.sock", "unix:///run/x.sock"] {
        let url: BaseUrl = text.parse().unwrap();
        assert_eq!(
            (url.to_string().as_str(), url.socket()),
            ("unix:/run/x.sock", Some("/run/x.sock".as_ref()))
        );
        assert_eq!(url.join("/v1/models").as_str(), "http://localhost/v1/models");
    }
}

#[test]
fn http_version_and_connections_are_parsed() {
    let read = |more: &str| toml::from_str::<Server>(&format!("url = \"http://h\"\n{more}"));
    let plain = read("").unwrap();
    assert_eq!((plain.http, plain.connections), (Http::One, Connections::Warm));
    let other = read("http = \"2\"\nconnections = \"cold\"").unwrap();
    assert_eq!((other.http, other.connections), (Http::Two, Connections::Cold));
    assert_eq!(toml::from_str::<Server>(&toml::to_string(&other).unwrap()).unwrap(), other);
    let error = read("http = \"3\"").unwrap_err().to_string();
    assert!(error.contains("1.1") && error.contains("auto"), "the message lists the versions: {error}");
}

#[test]
fn errors_say_what_to_write() {
    for (text, message, case) in [
        ("", "needs one of url, urls, simulated", "no target"),
        ("url = \"http://h\"\nurls = [\"http://h\"]", "only one of", "two targets"),
        ("urls = []", "at least one", "no URL"),
        ("url = \"localhost:8000\"", "must begin with http://", "no scheme"),
        ("url = \"h\"", "this is not a URL", "no URL"),
        ("url = \"unix:run.sock\"", "absolute path of a socket", "a relative path"),
        ("url = \"ftp://h\"", "must begin with http://", "other scheme"),
        ("url = \"http://u:hunter2@h\"", "api-key-env", "password in the URL"),
        ("url = \"http://token@h\"", "api-key-env", "user in the URL"),
        ("url = \"http://h/?api=1\"", "?query", "query"),
        ("url = \"http://h/#x\"", "#fragment", "fragment"),
        ("url = \"http://h/v1/chat/completions\"", "write only the part before", "whole endpoint"),
        ("url = \"http://h\"\nkey = \"x\"", "unknown field `key`", "unknown key"),
        ("url = \"http://h\"\napi = \"batches\"", "unknown variant `batches`", "unknown API"),
        ("url = \"http://h\"\nconnect-timeout = \"0s\"", "zero", "no time to connect"),
        ("url = \"http://h\"\nmodel = \"\"", "model is empty", "empty model"),
        (
            "url = \"http://h\"\napi-key-env = \"A\"\napi-key-file = \"b\"",
            "only one of api-key-env",
            "two keys",
        ),
        ("url = \"http://h\"\napi-key-env = \"sk-abc\"", "name of an environment variable", "the key itself"),
        ("url = \"http://h\"\nheaders = { Authorization = \"Bearer x\" }", "api-key-env", "secret header"),
        ("url = \"http://h\"\nheaders = { cookie = \"x\" }", "api-key-file", "secret header"),
        ("url = \"http://h\"\nheaders = { api-key = \"x\" }", "api-key-env = ", "secret header"),
        ("url = \"http://h\"\nheaders = { X-Api-Key = \"x\" }", "api-key-env = ", "secret header"),
        ("url = \"http://h\"\nheaders = { x-auth-token = \"x\" }", "api-key-env = ", "secret header"),
        ("url = \"http://h\"\nheaders = { ApiKey = \"x\" }", "api-key-env = ", "secret header"),
        ("url = \"http://h\"\nheaders = { x-auth = \"x\" }", "api-key-env = ", "secret header"),
        ("url = \"http://h\"\nbody = { api_key = \"x\" }", "api-key-env = ", "secret in the body"),
        ("url = \"http://h\"\nbody = { n = 33 }", "from 1 to 32", "too many choices"),
        ("url = \"http://h\"\nbody = { n = \"1\" }", "from 1 to 32", "no number"),
        ("url = \"http://h\"\nbody = { stream = true }", "stream = false in [server]", "a key of its own"),
        ("url = \"http://h\"\nbody = { echo = true }", "first token", "the prompt again"),
        (
            "url = \"http://h\"\nheaders = { \"a b\" = \"x\" }",
            "not a valid name of an HTTP header",
            "bad name",
        ),
        ("url = \"http://h\"\nheaders = { a = \"x\\ny\" }", "an HTTP header cannot contain", "bad value"),
        ("url = \"http://h\"\nheaders = { content-length = \"1\" }", "set by goodput itself", "framing"),
        ("url = \"http://h\"\nbody = { stream = false }", "leave it out", "our own field"),
        ("url = \"http://h\"\nbody = { model = \"m\" }", "server.model", "our own field"),
        ("url = \"http://h\"\nbody = { x = { y = [inf] } }", "JSON does not have", "infinity"),
        ("url = \"http://h\"\nbody = { x = 2026-01-01 }", "JSON does not have", "date"),
    ] {
        let error = parse(text).expect_err(case);
        assert!(error.contains(message), "{case}: {error}");
    }
}

#[test]
fn errors_never_quote_a_refused_secret() {
    let error = "http://u:hunter2@h".parse::<BaseUrl>().unwrap_err();
    assert!(!error.contains("hunter2"), "{error}");
    let error =
        toml::from_str::<Server>("url = \"http://h\"\nheaders = { x-key = \"hunter2\" }").unwrap_err();
    assert!(!error.message().contains("hunter2"), "{error}");
}
