//! The client and a router in one process under tokio's paused clock, so that times are exact.

use crate::serve::shot;
use axum::{Router, body::Body, response::IntoResponse, routing::post};
use bytes::Bytes;
use futures_util::stream;
use goodput::client::{Client, Server, Shot, Target};
use goodput::record::{Conn, Failure, Outcome, Record};
use std::{convert::Infallible, time::Duration};
use tokio::time::{Instant, sleep_until};

const MS: Duration = Duration::from_millis(1);

/// Sends `tokens` events at intervals of 20 ms, starting at 100 ms, and then the end, unless `silent`.
fn router(tokens: u32, silent: bool) -> Router {
    let answer = move || async move {
        let began = Instant::now();
        let events = stream::unfold(0, move |n| async move {
            let at = began + 100 * MS + 20 * MS * n.min(tokens - 1);
            sleep_until(at).await;
            if n == tokens && silent {
                std::future::pending::<()>().await;
            }
            let text = match n {
                _ if n < tokens => {
                    "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":null}]}\n\n"
                }
                _ if n == tokens => {
                    "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
                }
                _ => return None,
            };
            Some((Ok::<_, Infallible>(Bytes::from(text)), n + 1))
        });
        ([("content-type", "text/event-stream")], Body::from_stream(events)).into_response()
    };
    Router::new().route("/v1/chat/completions", post(answer))
}

/// Sends a non-streaming answer after 180 ms, with head and body in separate writes.
fn whole(body: &'static str) -> Client {
    let answer = move || async move {
        tokio::time::sleep(100 * MS).await;
        let pieces = [&body[..4.min(body.len())], &body[4.min(body.len())..]];
        let body = stream::unfold(0, move |n| async move {
            let piece = pieces.get(n)?;
            tokio::time::sleep(40 * MS).await;
            Some((Ok::<_, Infallible>(Bytes::from(*piece)), n + 1))
        });
        ([("content-type", "application/json")], Body::from_stream(body)).into_response()
    };
    let server = Server { stream: false, ..Server::new(Target::Simulated(toml::Table::new())) };
    Client::in_process(Router::new().route("/v1/chat/completions", post(answer)), &server)
}

fn client(tokens: u32, silent: bool) -> Client {
    Client::in_process(router(tokens, silent), &Server::new(Target::Simulated(toml::Table::new())))
}

/// A request due 1 s after the start of its step, sent on time.
async fn due() -> Shot {
    let shot = shot();
    tokio::time::sleep(1000 * MS).await;
    let record = Record { due: 1000 * MS, ..shot.record };
    Shot { record, itl_limit: Some(19 * MS), ..shot }
}

#[tokio::test(start_paused = true)]
async fn every_time_is_exact() {
    let got = client(5, false).send(due().await).await;
    let r = got.record;
    assert_eq!((r.outcome, r.events, r.conn, r.attempts), (Outcome::Ok, 5, Some(Conn::Reused), 1));
    assert_eq!((r.lateness(), r.ttft(), r.e2e()), (Some(Duration::ZERO), Some(100 * MS), Some(180 * MS)));
    assert_eq!((r.tpot(), r.end), (Some(20 * MS), 1180 * MS));
    assert_eq!((got.gaps_us, r.itl_max, r.itl_over), (vec![20_000; 4], Some(20 * MS), 4));
}

#[tokio::test(start_paused = true)]
async fn the_timeout_counts_from_due() {
    let shot = Shot { timeout: 500 * MS, ..due().await };
    let r = client(3, true).send(shot).await.record;
    assert_eq!((r.outcome, r.failure, r.end), (Outcome::Failed, Some(Failure::Timeout), 1500 * MS));
    assert_eq!((r.first_token, r.events), (Some(1100 * MS), 3));
    let shot = Shot { timeout: 500 * MS, timeout_is_error: false, ..due().await };
    let r = client(3, true).send(shot).await.record;
    assert_eq!(
        (r.outcome, r.failure),
        (Outcome::Cut, Some(Failure::Timeout)),
        "no error where nobody set it"
    );
}

#[tokio::test(start_paused = true)]
async fn a_cut_is_immediate() {
    let shot = due().await;
    let cut = shot.cut.clone();
    tokio::spawn(async move {
        tokio::time::sleep(130 * MS).await;
        cut.cancel();
    });
    let r = client(5, false).send(shot).await.record;
    assert_eq!((r.outcome, r.failure, r.end, r.events), (Outcome::Cut, None, 1130 * MS, 2));
}

#[tokio::test(start_paused = true)]
async fn no_timeout_is_too_long() {
    let shot = Shot { timeout: Duration::MAX, ..due().await };
    assert!(client(2, false).send(shot).await.record.ok());
}

/// A non-streaming answer has only the time of its last byte.
#[tokio::test(start_paused = true)]
async fn one_piece_is_as_late_as_its_last_byte() {
    let answer = r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],
        "usage":{"prompt_tokens":3,"completion_tokens":2}}"#;
    let got = whole(answer).send(Shot { keep_text: true, ..due().await }).await;
    let r = got.record;
    assert_eq!(
        (r.outcome, r.e2e(), r.end, r.finish.as_deref()),
        (Outcome::Ok, Some(180 * MS), 1180 * MS, Some("stop"))
    );
    assert_eq!((r.ttft(), r.ttfc(), r.tpot(), r.first_event_tokens), (None, None, None, None));
    assert_eq!((r.input_tokens, r.output_tokens, got.text.as_deref()), (Some(3), Some(2), Some("hi")));
    for (answer, failure) in [
        (r#"{"error":{"message":"out of memory"}}"#, Failure::StreamError),
        ("<html>", Failure::Malformed),
        (r#"{"choices":[{"message":{"content":""},"finish_reason":"stop"}]}"#, Failure::Empty),
        (r#"{"choices":[{"message":{"content":"x"},"finish_reason":"abort"}]}"#, Failure::Aborted),
    ] {
        let got = whole(answer).send(Shot { keep_text: true, ..due().await }).await;
        assert_eq!((got.record.failure, got.text), (Some(failure), None), "{answer}");
    }
    let untold = r#"{"choices":[{"message":{"content":"hi"}}]}"#;
    let r = whole(untold).send(due().await).await.record;
    assert_eq!((r.outcome, r.output_tokens, r.token_source), (Outcome::Ok, None, None), "nobody counted");
}

/// Collecting the text does not change any time.
#[tokio::test(start_paused = true)]
async fn the_text_is_kept_where_it_is_wanted() {
    for (keep_text, text) in [(true, Some("aaaaa")), (false, None)] {
        let got = client(5, false).send(Shot { keep_text, ..due().await }).await;
        assert_eq!((got.text.as_deref(), got.record.e2e()), (text, Some(180 * MS)));
    }
    let shot = Shot { timeout: 500 * MS, keep_text: true, ..due().await };
    assert_eq!(client(3, true).send(shot).await.text, None, "of a whole answer alone");
}
