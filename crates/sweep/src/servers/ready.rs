//! Waits until a server that was started is ready.

use goodput_load::client::Client;
use goodput_load::client::key::ApiKey;
use goodput_load::client::preflight::{self, NoModelListed};
use goodput_load::launch::Launched;
use goodput_plan::Start;
use goodput_plan::server::Server;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// Interval between readiness checks.
const ASK: Duration = Duration::from_millis(250);
/// Timeout of one readiness check.
const ANSWER: Duration = Duration::from_secs(10);
/// Reasons why a server did not become ready.
pub(super) enum NotReady {
    Failed(String),
    Interrupted,
}

impl From<anyhow::Error> for NotReady {
    fn from(e: anyhow::Error) -> Self {
        Self::Failed(format!("{e:#}"))
    }
}

/// Waits until a started server answers on its readiness page and lists a model, if it has a model list.
pub(super) async fn wait_until_ready(
    server: &Server,
    start: &Start,
    launched: &mut Launched,
) -> Result<(), NotReady> {
    let key = server.key.as_ref().map(ApiKey::read).transpose()?;
    let client = Client::http(server, key.clone())?;
    let (elsewhere, path) = match start.ready_url.as_ref().map(|url| url.parts()) {
        Some((base, path)) => (base, Some(path)),
        None => (None, None),
    };
    let other = match elsewhere {
        // The API key must not be sent to another host.
        Some(base) => Some(Client::http(&server.for_other_host(base), None)?),
        None => None,
    };
    let deadline = Instant::now() + start.timeout.0;
    loop {
        let asked = async {
            is_ready(other.as_ref().unwrap_or(&client), path.as_deref()).await?;
            lists_models(&client, server.model.as_deref()).await
        };
        let said = match timeout(ANSWER, asked).await {
            Ok(Ok(())) => {
                launched.clean_log();
                return Ok(());
            }
            Ok(Err(said)) => said,
            Err(_) => format!("it did not answer within {} s", ANSWER.as_secs()),
        };
        launched.clean_log();
        if launched.exited().is_some() {
            return Err(NotReady::Failed("it ended before it was ready".into()));
        }
        if Instant::now() >= deadline {
            return Err(NotReady::Failed(format!(
                "it was not ready within {} (timeout): {said}",
                start.timeout
            )));
        }
        sleep(ASK).await;
    }
}

/// Requests the readiness page of every address: `path`, or by default `/health` and then `/v1/models`. The error
/// describes the answer.
async fn is_ready(client: &Client, path: Option<&str>) -> Result<(), String> {
    let ask = async |target: usize, path: &str| client.get_from(target, path).await.map(|(status, _)| status);
    for target in 0..client.urls().len().max(1) {
        let (asked, status) = match path {
            Some(path) => (path, ask(target, path).await),
            None => match ask(target, "/health").await {
                Ok(404 | 405 | 501) => ("/v1/models", ask(target, "/v1/models").await),
                other => ("/health", other),
            },
        };
        match status {
            Ok(200..=299) => {}
            Ok(status) => return Err(format!("{asked} answers with HTTP {status}")),
            Err(e) => return Err(format!("{e:#}")),
        }
    }
    Ok(())
}

/// Checks that the server lists a model. A wrong model is not worth waiting for: preparing the server reports it.
async fn lists_models(client: &Client, wanted: Option<&str>) -> Result<(), String> {
    match client.get("/v1/models").await {
        Ok((404 | 405, _)) => Ok(()),
        Ok((200..=299, _)) => match preflight::find_model(client, wanted).await {
            Err(e) if e.is::<NoModelListed>() => Err(format!("{e:#}")),
            _ => Ok(()),
        },
        // Preparing the server reports this error in full.
        Ok((401 | 403, _)) => Ok(()),
        Ok((status, _)) => Err(format!("/v1/models answers with HTTP {status}")),
        Err(e) => Err(format!("{e:#}")),
    }
}
