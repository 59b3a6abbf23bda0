//! Requests beside the load: pages, and actions of the server.

use super::Client;
use super::exchange::elsewhere;
use crate::client::broken::Broken;
use crate::client::payload::Payload;
use crate::client::transport::{Call, Route};
use anyhow::anyhow;
use bytes::Bytes;
use goodput_core::record::{Conn, Failure};
use goodput_core::units::short;
use goodput_plan::client::Retries;
use http::{HeaderValue, Method, header};
use std::time::Duration;
use tokio::time::timeout;

/// Maximum body size of a `GET` (list of models, page of metrics), in bytes.
const GET_MAX: usize = 16 << 20;
/// Time that a `GET` may take beyond the connect timeout.
const GET_TIMEOUT: Duration = Duration::from_secs(30);

/// A request beside the load.
struct Aside<'a> {
    method: Method,
    /// Index of the URL.
    target: usize,
    path: &'a str,
    /// The body, if it has one.
    json: Option<&'a serde_json::Value>,
    /// Limit on the total time.
    limit: Duration,
    /// Maximum size of the answer in bytes.
    most: usize,
}

impl<'a> Aside<'a> {
    const fn get(target: usize, path: &'a str, limit: Duration, most: usize) -> Self {
        Self { method: Method::GET, target, path, json: None, limit, most }
    }
}

impl Client {
    /// Fetches a page (`/v1/models`, `/metrics`) of the first URL. Returns its status and body.
    ///
    /// # Errors
    /// No complete answer of at most 16 MiB arrives within the connect timeout plus 30 s.
    pub async fn get(&self, path: &str) -> anyhow::Result<(u16, Bytes)> {
        self.get_from(0, path).await
    }

    /// Fetches a page of the `target`-th URL, like [`Client::get`]. Returns its status and body.
    ///
    /// # Errors
    /// As [`Client::get`], or there is no such URL.
    pub async fn get_from(&self, target: usize, path: &str) -> anyhow::Result<(u16, Bytes)> {
        let base = self.urls().nth(target).ok_or_else(|| anyhow!("there is no server number {target}"))?;
        self.fetch(target, path).await.map_err(|e| anyhow!("GET {base}{path} failed: {}", e.text))
    }

    /// Sends a `POST` without a body to the `target`-th URL, to trigger an action that may take `time`. Returns its status.
    ///
    /// # Errors
    /// As [`Client::get_from`], with `time` in place of 30 s.
    pub async fn post(&self, target: usize, path: &str, time: Duration) -> anyhow::Result<u16> {
        self.posted(target, path, None, time).await.map(|(status, _)| status)
    }

    /// Sends a `POST` with a document, like [`Client::post`]. Returns its status and body.
    ///
    /// # Errors
    /// As [`Client::post`].
    pub async fn post_json(
        &self,
        target: usize,
        path: &str,
        json: &serde_json::Value,
        time: Duration,
    ) -> anyhow::Result<(u16, Bytes)> {
        self.posted(target, path, Some(json), time).await
    }

    async fn posted(
        &self,
        target: usize,
        path: &str,
        json: Option<&serde_json::Value>,
        time: Duration,
    ) -> anyhow::Result<(u16, Bytes)> {
        let base = self.urls().nth(target).ok_or_else(|| anyhow!("there is no server number {target}"))?;
        let limit = self.0.connect_timeout + time;
        let aside = Aside { method: Method::POST, target, path, json, limit, most: GET_MAX };
        let (status, body, _) =
            self.answered(aside).await.map_err(|e| anyhow!("POST {base}{path} failed: {}", e.text))?;
        Ok((status, body))
    }

    /// Fetches a page of the `target`-th URL, with a limit on the total time and a maximum size in bytes (`most`).
    ///
    /// # Errors
    /// No complete answer arrives in time, it is too large, or its status is not 2xx. The error is the cause as text.
    pub async fn page(
        &self,
        target: usize,
        path: &str,
        limit: Duration,
        most: usize,
    ) -> Result<Bytes, String> {
        match self.answered(Aside::get(target, path, limit, most)).await {
            Ok((200..=299, body, _)) => Ok(body),
            Ok((status, ..)) => Err(format!("HTTP {status}")),
            Err(e) => Err(e.text),
        }
    }

    pub(crate) async fn fetch(&self, target: usize, path: &str) -> Result<(u16, Bytes), Broken> {
        let get = Aside::get(target, path, self.0.connect_timeout + GET_TIMEOUT, GET_MAX);
        self.answered(get).await.map(|(status, body, _)| (status, body))
    }

    /// Fetches the list of models from the `target`-th URL and returns the state of the connection that it came over; `None` if it did not
    /// come or the connection has no address.
    pub async fn connection(&self, target: usize) -> Option<Conn> {
        let limit = self.0.connect_timeout + GET_TIMEOUT;
        self.answered(Aside::get(target, "/v1/models", limit, GET_MAX)).await.ok()?.2
    }

    /// Returns the status and the body of an answer, and the state of its connection. A `GET` whose connection the server closed before any
    /// answer is sent once more, as HTTP allows for a method without effects (RFC 9110, section 9.2.2).
    async fn answered(&self, aside: Aside<'_>) -> Result<(u16, Bytes, Option<Conn>), Broken> {
        let Aside { method, target, path, json, limit, most } = aside;
        let inner = &*self.0;
        let url = inner.targets[target].base.join(path);
        let mut headers = inner.headers.clone();
        headers.remove(header::CONTENT_TYPE);
        let mut payload = Payload::default();
        if let Some(json) = json {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            payload.tail = json.to_string().into();
        }
        let send = || {
            let call =
                Call { target, route: Route::Pooled, method: method.clone(), url: &url, headers: &headers };
            inner.transport.send(call, payload.clone())
        };
        let retries = if method == Method::GET { Retries::One } else { Retries::None };
        let get = async {
            let answer = match send().await {
                Err(e) if e.resend.applies(retries) => send().await?,
                first => first?,
            };
            let status = answer.status.as_u16();
            let (conn, location) = (answer.conn, answer.location.clone());
            // Read in any case, so that the connection can be used again.
            let body = answer.body(most).await?;
            // The body of a redirect says less than its target.
            Ok((status, location.map_or(body, |to| Bytes::from(elsewhere(&to))), conn))
        };
        let unsaid = |e: Broken| Broken { text: inner.secrets.redact(&e.text).into_owned(), ..e };
        let late =
            || Broken::new(Failure::Timeout, format!("no answer within {} s", short(limit.as_secs_f64())));
        timeout(limit, get).await.unwrap_or_else(|_| Err(late())).map_err(unsaid)
    }
}
