use super::*;
use crate::server::Server;
use proptest::prelude::*;

const TGI: &str = r#"
path = "/generate_stream"
body = '{"inputs": "{{prompt}}", "parameters": {"max_new_tokens": {{max_tokens}}, "details": true}}'
text = "$.token.text"
"#;

fn server(template: &str) -> Result<Server, String> {
    of_server("", template)
}

fn of_server(more: &str, template: &str) -> Result<Server, String> {
    let text = format!("url = \"http://127.0.0.1:1\"\napi = \"template\"\n{more}\n[template]\n{template}");
    toml::from_str(&text).map_err(|e| e.message().to_owned())
}

fn with_body(body: &str) -> String {
    format!("path = \"/x\"\ntext = \"$.t\"\nbody = '''{body}'''")
}

#[test]
fn a_template_has_defaults_and_reads_back() {
    let got = server(TGI).unwrap();
    let template = got.template.clone().unwrap();
    assert_eq!((template.method, template.stream_format), (Method::Post, StreamFormat::Sse));
    assert_eq!((&*template.content_type, template.error.as_str()), ("application/json", "$.error"));
    assert_eq!((got.path(), got.answer(), got.streams()), ("/generate_stream", Answer::Tokens, true));
    let written = toml::to_string(&got).unwrap();
    assert!(!written.contains("content-type") && !written.contains("$.error"), "{written}");
    assert_eq!(toml::from_str::<Server>(&written).unwrap(), got);
}

#[test]
fn results_make_a_request_of_items() {
    for (body, item) in [
        (r#"{"inputs": {{texts}}}"#, Item::Text),
        (r#"{"query": "{{query}}", "texts": {{ texts }}}"#, Item::Document),
    ] {
        let got = server(&format!("path = \"/x\"\nresults = \"$\"\nbody = '{body}'")).unwrap();
        assert_eq!((got.item(), got.streams()), (Some(item), false), "{body}");
    }
}

#[test]
fn pieces_are_text_and_placeholders() {
    use Placeholder as P;
    let body = Body::parse(r#"{"a":{{messages}},"n":{"m":{{max_tokens}}}}"#).unwrap();
    let text = |text: &str| Piece::Text(text.into());
    let expected = [
        text(r#"{"a":"#),
        Piece::Slot(P::Messages),
        text(r#","n":{"m":"#),
        Piece::Slot(P::MaxTokens),
        text("}}"),
    ];
    assert_eq!(body.pieces(), expected);
}

/// Rows: the template, and parts of its error.
#[test]
fn a_mistake_names_its_key_and_what_to_do() {
    let more = |line: &str| format!("{TGI}{line}\n");
    for (template, parts) in [
        (TGI.replace("{{prompt}}", "{{promt}}"), &["{{promt}}: did you mean {{prompt}}?"][..]),
        (TGI.replace("{{prompt}}", "{{zzz}}"), &["{{zzz}}", "the placeholders are {{prompt}}, {{messages}}"]),
        (TGI.replace("{{prompt}}\"", "{{prompt"), &["{{promp", "unknown placeholder"]),
        (with_body("{\"a\": \"{{prompt"), &["not closed"]),
        (
            with_body("{\"a\": {{prompt}}}"),
            &["template.body is not JSON", "{{prompt}} needs quotes around it"],
        ),
        (with_body("{\"a\": \"{{messages}}\"}"), &["{{messages}} needs no quotes"]),
        (with_body("{\"a\": \"{{prompt}}\",\n \"b\": x}"), &["line 2, column 7 of the body"]),
        (with_body("{\"a\": \"{{prompt}}\", \"b\": x}"), &["line 1, column 26 of the body"]),
        (with_body("{\"a\": \"{{prompt}}\""), &["EOF", "of the body"]),
        (with_body("{\"a\": 1}"), &["exactly one {{prompt}}"]),
        (with_body("{\"a\": \"{{prompt}}\", \"b\": {{messages}}}"), &["exactly one {{prompt}}"]),
        (with_body("{\"a\": {{texts}}}"), &["{{texts}}, which needs results"]),
        (TGI.replace("text = \"$.token.text\"", ""), &["needs text", "$.token.text", "results"]),
        (more("results = \"$\""), &["only one of text"]),
        (TGI.replace("$.token.text", "$.token["), &["character 9 of the path \"$.token[\""]),
        (TGI.replace("$.token.text", "token.text"), &["begins with $"]),
        (TGI.replace("/generate_stream", "generate"), &["template.path", "slash"]),
        (TGI.replace("/generate_stream", "/v2/{{model}}"), &["template.path", "template.body"]),
        (TGI.replace("/generate_stream", "/x?api_key=hunter2hunter2"), &["template.path", "api-key-env"]),
        (more("done = \"\""), &["template.done is empty"]),
        (more("content-type = \"\""), &["template.content-type"]),
        (more("method = \"GET\""), &["POST"]),
        (
            with_body("{\"a\": \"{{prompt}}\", \"b\": {\"api_key\": \"hunter2\"}}"),
            &["template.body.b.api_key"],
        ),
        (
            with_body("{\"a\": \"{{prompt}}\", \"b\": [\"sk-hunter2hunter2\"]}"),
            &["template.body.b ", "api-key-env"],
        ),
        (
            "path = \"/x\"\nresults = \"$\"\nbody = '{\"a\": {{texts}}}'\ndone = \"x\"".into(),
            &["template.done has no effect"],
        ),
        (
            "path = \"/x\"\nresults = \"$\"\nbody = '{\"a\": \"{{prompt}}\"}'".into(),
            &["{{prompt}}", "{{texts}}"],
        ),
        ("path = \"/x\"\nresults = \"$\"\nbody = '{}'".into(), &["exactly one {{texts}}"]),
    ] {
        let got = server(&template).unwrap_err();
        assert!(parts.iter().all(|part| got.contains(part)), "{template}\n{got}");
        assert!(!got.contains("hunter2"), "{got}");
    }
}

#[test]
fn a_template_fits_its_server() {
    let named = TGI.replace("\"details\"", "\"model\": \"{{model}}\", \"details\"");
    assert!(of_server("model = \"m\"", &named).is_ok());
    for (more, template, part) in [
        ("", &*named, "model is not set"),
        ("body = { temperature = 0.5 }", TGI, "[server.body] cannot be combined"),
        ("prompts = \"token-ids\"", TGI, "token-ids"),
    ] {
        let got = of_server(more, template).unwrap_err();
        assert!(got.contains(part), "{more}: {got}");
    }
    let without = toml::from_str::<Server>("url = \"http://127.0.0.1:1\"\napi = \"template\"").unwrap_err();
    assert!(without.to_string().contains("[server.template]"), "{without}");
    let other = format!("url = \"http://127.0.0.1:1\"\n[template]\n{TGI}");
    let other = toml::from_str::<Server>(&other).unwrap_err();
    assert!(other.to_string().contains("no effect with api = \"chat\""), "{other}");
}

proptest! {
    #[test]
    fn any_body_parses_or_is_refused(body in "([{}\" a:,\\[\\]\n]|\\{\\{|\\}\\}|prompt|messages|max_tokens|é){0,16}") {
        if let Ok(parsed) = Body::parse(&body) {
            let written: String = parsed.pieces().iter().map(|piece| match piece {
                Piece::Text(text) => text.clone(),
                Piece::Slot(slot) => format!("{{{{{}}}}}", slot.name()),
            }).collect();
            // Blanks within a placeholder are lost.
            prop_assert_eq!(written.replace([' ', '\n'], ""), body.replace([' ', '\n'], ""));
            let _ = parsed.example();
        }
        let _ = server(&with_body(&body));
    }
}
