//! Finding out whether connections stay open after an answer, which the head of an answer may promise in vain.
//!
//! llama-server closes each connection after a streamed answer that said `keep-alive`. A request sent at once over the same connection breaks,
//! and none of its clients would be to blame: under load, a third of all requests failed.

use super::calibrate::Probe;
use anyhow::Result;
use goodput_core::record::Conn;
use goodput_load::client::payload::Payload;
use std::time::Duration;
use tokio::time::sleep;

/// Time after an answer within which a server that closes connections has closed this one.
const CLOSING: Duration = Duration::from_millis(100);

/// Returns true if the server closes the connection after each of two answers. The first has just come, from the `target`-th URL; `payload` is
/// the request for the second.
pub(crate) async fn closes_after_answers(probe: Probe<'_>, target: usize, payload: Payload) -> Result<bool> {
    if !is_closed(probe, target).await? {
        return Ok(false);
    }
    let second = probe.send(payload).await?.record;
    Ok(second.failure.is_none() && is_closed(probe, second.target.into()).await?)
}

/// Returns true if the connection of the answer that has just come is closed after a moment.
async fn is_closed(probe: Probe<'_>, target: usize) -> Result<bool> {
    let client = probe.client.clone();
    let conn = probe.host.run(async move {
        sleep(CLOSING).await;
        client.connection(target).await
    });
    Ok(conn.await? == Some(Conn::New))
}
