use super::*;
use crate::client::Encoder;
use axum::{Router, http::StatusCode, response::IntoResponse, routing::post};
use goodput_core::endpoint::Api;
use goodput_core::record::{Outcome, TokenSource};
use goodput_plan::server::{Server, Target};
use serde_json::{Map, Value};
use std::sync::{Arc, Mutex};

const OK: &str =
    "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

type Asked = Arc<Mutex<Vec<Vec<&'static str>>>>;

/// Makes a server that refuses the fields picked by `refuse`, with its error; and a log of the fields of each request.
fn server(refuse: fn(&[&str]) -> Option<(u16, &'static str)>) -> (Client, Asked) {
    let asked = Asked::default();
    let note = asked.clone();
    let answer = move |body: String| async move {
        let body: Map<String, Value> = serde_json::from_str(&body).unwrap();
        let fields: Vec<_> = ["ignore_eos", "min_tokens", "stream_options"]
            .into_iter()
            .filter(|f| body.contains_key(*f))
            .collect();
        let refused = refuse(&fields);
        note.lock().unwrap().push(fields);
        match refused {
            Some((200, words)) => ([("content-type", "text/event-stream")], words).into_response(),
            Some((status, words)) => (StatusCode::from_u16(status).unwrap(), words).into_response(),
            None => ([("content-type", "text/event-stream")], OK).into_response(),
        }
    };
    let router = Router::new().route("/v1/chat/completions", post(answer));
    (Client::in_process(router, &Server::new(Target::Simulated(toml::Table::new()))), asked)
}

/// Rows: the API, the fields that pin lengths in it, and the number of requests to a server that refuses everything.
#[tokio::test(start_paused = true)]
async fn only_fields_that_the_api_has_are_negotiated() {
    let eos = Pinning { ignore_eos: true, min_tokens: false };
    for (api, pinning, requests) in [(Api::Responses, eos, 2), (Api::Messages, Pinning::NONE, 1)] {
        let asked = Asked::default();
        let note = asked.clone();
        let refuse = move |body: String| async move {
            let body: Map<String, Value> = serde_json::from_str(&body).unwrap();
            let fields = ["ignore_eos", "min_tokens", "stream_options"].into_iter();
            note.lock().unwrap().push(fields.filter(|f| body.contains_key(*f)).collect());
            (StatusCode::BAD_REQUEST, "bad request")
        };
        let router = Router::new().route(api.path().unwrap(), post(refuse));
        let server = Server { api, ..Server::new(Target::Simulated(toml::Table::new())) };
        let client = Client::in_process(router, &server);
        let got = negotiate(&client, Duration::from_secs(5), |pinning, usage| {
            let e = Encoder::new(api, "m", &Map::new(), pinning, usage);
            e.request(&e.prefix(None), "hello", 4)
        });
        assert!(got.await.is_err());
        let asked = asked.lock().unwrap();
        assert_eq!(
            (asked.len(), asked[0].contains(&"ignore_eos")),
            (requests, pinning.ignore_eos),
            "{api:?}"
        );
        assert!(!asked[0].contains(&"min_tokens") && !asked[0].contains(&"stream_options"), "{api:?}");
    }
}

async fn ask(client: &Client) -> anyhow::Result<Negotiated> {
    negotiate(client, Duration::from_secs(5), |pinning, usage| {
        let e = Encoder::new(Api::Chat, "m", &Map::new(), pinning, usage);
        e.request(&e.prefix(None), "hello", 4)
    })
    .await
}

const ALL: [&str; 3] = ["ignore_eos", "min_tokens", "stream_options"];

#[tokio::test(start_paused = true)]
async fn a_server_that_takes_everything_is_asked_once() {
    let (client, asked) = server(|_| None);
    let got = ask(&client).await.unwrap();
    assert_eq!((got.pinning, got.usage, got.caveats.len()), (Pinning::FULL, true, 0));
    assert_eq!(
        (got.probe.record.outcome, got.probe.record.token_source),
        (Outcome::Ok, Some(TokenSource::Events))
    );
    assert_eq!(*asked.lock().unwrap(), [ALL.to_vec()]);
}

#[tokio::test(start_paused = true)]
async fn what_the_message_names_goes_first() {
    let (client, asked) = server(|f| {
        f.contains(&"stream_options")
            .then_some((422, r#"{"error":{"message":"stream_options: extra inputs"}}"#))
    });
    let got = ask(&client).await.unwrap();
    assert_eq!((got.pinning, got.usage), (Pinning::FULL, false));
    assert_eq!(
        got.caveats,
        [Caveat::Lengths(LengthsCaveat::UsageRefused { message: "stream_options: extra inputs".into() })]
    );
    assert_eq!(*asked.lock().unwrap(), [ALL.to_vec(), vec!["ignore_eos", "min_tokens"]]);
}

#[tokio::test(start_paused = true)]
async fn one_of_the_two_fields_still_pins() {
    let (client, asked) = server(|f| f.contains(&"min_tokens").then_some((400, "unknown field min_tokens")));
    let got = ask(&client).await.unwrap();
    assert_eq!((got.pinning, got.usage), (Pinning { ignore_eos: true, min_tokens: false }, true));
    let message = "unknown field min_tokens".to_owned();
    assert_eq!(
        got.caveats,
        [Caveat::Lengths(LengthsCaveat::PinningRefused { field: "min_tokens".into(), message, held: true })]
    );
    assert_eq!(asked.lock().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_unexplained_refusal_drops_one_thing_after_the_other() {
    let (client, asked) = server(|f| (!f.is_empty()).then_some((400, "bad request")));
    let got = ask(&client).await.unwrap();
    assert_eq!((got.pinning, got.usage), (Pinning::NONE, false));
    let message = || "bad request".to_owned();
    let expected = [
        Caveat::Lengths(LengthsCaveat::PinningRefused {
            field: "ignore_eos and min_tokens".into(),
            message: message(),
            held: false,
        }),
        Caveat::Lengths(LengthsCaveat::UsageRefused { message: message() }),
    ];
    assert_eq!(got.caveats, expected);
    assert_eq!(*asked.lock().unwrap(), [ALL.to_vec(), vec!["stream_options"], vec![]]);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_in_the_stream_counts_too() {
    let (client, asked) = server(|f| {
        let said =
            "data: {\"error\":{\"message\":\"ignore_eos and min_tokens unsupported\"}}\n\ndata: [DONE]\n\n";
        f.contains(&"ignore_eos").then_some((200, said))
    });
    let got = ask(&client).await.unwrap();
    assert_eq!((got.pinning, got.usage), (Pinning::NONE, true));
    let message = "ignore_eos and min_tokens unsupported".to_owned();
    assert_eq!(
        got.caveats,
        [Caveat::Lengths(LengthsCaveat::PinningRefused {
            field: "ignore_eos and min_tokens".into(),
            message,
            held: false
        })]
    );
    assert_eq!(asked.lock().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn other_failures_are_errors() {
    for (refuse, requests, says) in [
        (
            (|_| Some((400, r#"{"error":"prompt too long"}"#))) as fn(&[&str]) -> Option<(u16, &'static str)>,
            3,
            vec!["client-error", "HTTP 400", "prompt too long"],
        ),
        (|_| Some((500, "oops")), 1, vec!["server-error", "HTTP 500", "oops"]),
        (|_| Some((401, "who?")), 1, vec!["wants an API key", "api-key-env", "who?"]),
        (|_| Some((429, "later")), 1, vec!["rate-limited", "HTTP 429"]),
        (|_| Some((200, "data: [DONE]\n\n")), 1, vec!["empty"]),
    ] {
        let (client, asked) = server(refuse);
        let said = ask(&client).await.unwrap_err().to_string();
        assert!(says.iter().all(|part| said.contains(part)), "{said}");
        assert_eq!(asked.lock().unwrap().len(), requests, "{said}");
    }
}
