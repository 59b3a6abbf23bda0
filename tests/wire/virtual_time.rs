//! The client and a router in this process under tokio's paused clock: times are exact.

use crate::serve::shot;
use axum::{Router, body::Body, response::IntoResponse, routing::post};
use bytes::Bytes;
use futures_util::stream;
use goodput::client::{Client, Server, Shot, Target};
use goodput::record::{Conn, Failure, Outcome, Record};
use std::{convert::Infallible, time::Duration};
use tokio::time::{Instant, sleep_until};

const MS: Duration = Duration::from_millis(1);

/// Sends `tokens` events, 20 ms apart from 100 ms on; then the end, unless it goes silent.
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
