use super::*;
use axum::{Router, routing::get};
use goodput_core::endpoint::Api;
use goodput_plan::server::{Server, Target};

fn client(status: u16, body: &'static str) -> Client {
    let status = http::StatusCode::from_u16(status).unwrap();
    let router = Router::new().route(MODELS, get(move || async move { (status, body) }));
    Client::in_process(router, &Server::new(Target::Simulated(toml::Table::new())))
}

async fn said(client: &Client, wanted: Option<&str>) -> String {
    format!("{:#}", check_models(client, wanted).await.unwrap_err())
}

const VLLM: &str =
    r#"{"object":"list","data":[{"id":"qwen","object":"model","max_model_len":2048,"root":"x"}]}"#;
const TWO: &str = r#"{"data":[{"id":"a"},{"id":"b","aliases":["beta"],"meta":{"n_ctx":512}}]}"#;

#[tokio::test]
async fn the_model_is_found() {
    for (body, wanted, id, len, why) in [
        (VLLM, None, "qwen", Some(2048), "the only one"),
        (VLLM, Some("qwen"), "qwen", Some(2048), "the wanted one"),
        (TWO, Some("b"), "b", Some(512), "one of two"),
        (TWO, Some("beta"), "beta", Some(512), "by its alias"),
    ] {
        let got = check_models(&client(200, body), wanted).await.expect(why);
        assert_eq!(got, ServedModel { id: id.into(), max_model_len: len }, "{why}");
    }
    for status in [404, 405] {
        let got = check_models(&client(status, "{}"), Some("m")).await.unwrap();
        assert_eq!(
            got,
            ServedModel { id: "m".into(), max_model_len: None },
            "no list: the plan's word counts"
        );
    }
}

#[tokio::test]
async fn what_is_wrong_is_said_with_its_remedy() {
    for (status, body, wanted, says) in [
        (200, VLLM, Some("llama"), vec!["does not serve the model \"llama\"", "qwen"]),
        (200, TWO, None, vec!["a, b", "--model"]),
        (200, r#"{"data":[]}"#, None, vec!["no model", "loaded"]),
        (200, "<html>hi</html>", Some("m"), vec!["not with a list of models", "<html>hi</html>"]),
        (404, "", None, vec!["HTTP 404", "set model"]),
        (401, r#"{"error":"who?"}"#, None, vec!["wants an API key", "api-key-env = ", "who?"]),
        (403, "", Some("m"), vec!["HTTP 403", "api-key-file = ", "(empty body)"]),
        (503, "loading\n", Some("m"), vec!["HTTP 503", "loading\\n"]),
    ] {
        let said = said(&client(status, body), wanted).await;
        for part in says.iter().chain(&["http://simulated"]) {
            assert!(said.contains(part), "{status} {body}: {said}");
        }
    }
}

#[test]
fn an_unreachable_server_is_explained() {
    let base: BaseUrl = "http://h:1".parse().unwrap();
    for (failure, says) in [
        (Failure::Connect, "nobody answers at http://h:1"),
        (Failure::Dns, "does not resolve"),
        (Failure::Tls, "TLS handshake"),
        (Failure::ClientLimit, "ulimit -n"),
        (Failure::Reset, "gave no whole answer"),
    ] {
        let said = unreachable(Http::One, &base, &Broken::new(failure, "the cause")).to_string();
        assert!(said.contains(says) && said.contains("the cause"), "{said}");
    }
}

/// Rows: the status and body of the list, the model that the plan names, and the one found with its context.
#[tokio::test(start_paused = true)]
async fn a_template_needs_no_list_of_models() {
    let listed = r#"{"data":[{"id":"m","max_model_len":512}]}"#;
    let template = "path = \"/x\"\nbody = '{\"a\": \"{{prompt}}\"}'\ntext = \"$.t\"";
    for (status, body, wanted, name, context) in [
        (200, listed, None, "m", Some(512)),
        (200, listed, Some("m"), "m", Some(512)),
        (200, listed, Some("ensemble"), "ensemble", None),
        (404, "{}", None, UNNAMED, None),
        (500, "no json", Some("m"), "m", None),
        (200, "<html>", None, UNNAMED, None),
    ] {
        let status = http::StatusCode::from_u16(status).unwrap();
        let router = Router::new().route(MODELS, get(move || async move { (status, body) }));
        let server = Server {
            api: Api::Template,
            template: Some(toml::from_str(template).unwrap()),
            ..Server::new(Target::Simulated(toml::Table::new()))
        };
        let got = find_model(&Client::in_process(router, &server), wanted).await.unwrap();
        assert_eq!((&*got.id, got.max_model_len), (name, context), "{status} {body} {wanted:?}");
    }
}
