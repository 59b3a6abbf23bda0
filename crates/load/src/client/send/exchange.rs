//! The exchange of one request: sends it and reads the answer, to the last byte or the first reason to stop.

use super::Inner;
use crate::client::answer_text::AnswerText;
use crate::client::broken::Broken;
use crate::client::event::{EventReader, Parsed, error_message};
use crate::client::payload::{Payload, Upload};
use crate::client::protocol::Protocol;
use crate::client::sample::{keep, sample, without_echo};
use crate::client::splitter::Splitter;
use crate::client::tally::{End, SEEN_MAX, Tally};
use crate::client::transport::{Answer, Call, Format, Route};
use goodput_core::record::{Failure, Finished, Record};
use goodput_core::redact::Redactor;
use goodput_plan::client::Retries;
use goodput_plan::server::Http;
use http::StatusCode;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Maximum body size of one answer, in bytes.
const BODY_MAX: u64 = 64 << 20;
/// Maximum size in bytes of a document that arrives instead of a stream: only its error message is needed.
const INSTEAD_MAX: usize = 1 << 20;
/// Time to read the rest of a body that no longer matters. Reading it to its end keeps the connection reusable.
const GRACE: Duration = Duration::from_secs(1);

/// The exchange of one request.
pub(super) struct Exchange {
    protocol: Protocol,
    record: Record,
    began: Instant,
    tally: Tally,
    /// The beginning of the body.
    head: Vec<u8>,
    head_max: usize,
    /// The raw body, if the text is wanted. It is parsed after all timestamps are taken.
    body: Option<Vec<u8>>,
    stream: bool,
    server_ttft: Option<Duration>,
    retry_after: Option<Duration>,
    /// The end of the upload, if the request is large.
    upload: Option<Upload>,
    /// True if reading must stop, even at the cost of the connection.
    given_up: bool,
}

/// The way in which the body is read.
enum Reading {
    /// As a stream of events, as it arrives.
    Events(Splitter, EventReader),
    /// As the requested JSON document, parsed at its end: the bytes so far, and the arrival of the last one.
    Whole(Vec<u8>, Duration),
    /// As a JSON document instead of a stream, parsed at its end: an error, or something unexpected.
    Json(Vec<u8>),
    /// Skipped, except for its beginning: the status, encoding or content type already is the failure.
    Skip,
}

impl Exchange {
    pub(super) fn new(
        inner: &Inner,
        mut record: Record,
        began: Instant,
        itl_limit: Option<Duration>,
        keep_text: bool,
    ) -> Self {
        // Round robin per client: by request number, a thread that sends every other request would use only every other
        // server.
        let target = inner.turn.fetch_add(1, Relaxed) % inner.targets.len() as u64;
        record.target = u16::try_from(target).unwrap_or(0);
        let head_max = keep(&inner.secrets);
        Self {
            protocol: inner.protocol.clone(),
            record,
            began,
            tally: inner.protocol.tally(itl_limit),
            head: Vec::new(),
            head_max,
            body: keep_text.then(Vec::new),
            stream: inner.stream,
            server_ttft: None,
            retry_after: None,
            upload: None,
            given_up: false,
        }
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Returns the time at which what was just returned of an answer arrived: that of the last read from its socket, if it is known, or now.
    fn read_at(&self, answer: &Answer) -> Duration {
        answer.last_read().map_or_else(|| self.now(), |read| read.saturating_duration_since(self.began))
    }

    pub(super) async fn run(&mut self, inner: &Inner, retries: Retries, mut payload: Payload) -> End {
        self.upload = payload.time_upload(inner.http != Http::One);
        let target = usize::from(self.record.target);
        let url = &inner.targets[target].generate;
        self.tally.expect(payload.asked);
        self.tally.expect_contents(payload.expected);
        self.tally.expect_choices(payload.choices);
        let mut answer = loop {
            self.record.attempts += 1;
            self.record.sent.get_or_insert(self.began.elapsed());
            // From the pool, a retry might get the next connection that its server has closed.
            let route = if self.record.attempts == 1 { Route::Pooled } else { Route::Fresh };
            let call = Call { target, route, method: inner.method.clone(), url, headers: &inner.headers };
            match inner.transport.send(call, payload.clone()).await {
                Ok(answer) => break answer,
                Err(e) if self.record.attempts == 1 && e.resend.applies(retries) => {}
                Err(e) => return self.broken(&e),
            }
        };
        if let Some(opened) =
            self.upload.as_ref().filter(|_| answer.may_have_waited()).and_then(Upload::began)
        {
            self.record.sent = Some(opened.saturating_duration_since(self.began));
        }
        let at = self.read_at(&answer);
        self.record.headers = Some(at);
        self.record.status = Some(answer.status.as_u16());
        self.record.conn = answer.conn;
        (self.server_ttft, self.retry_after) = (answer.server_ttft, answer.retry_after);
        if let Some(to) = &answer.location {
            self.tally.fail(at, Failure::UnexpectedStatus, elsewhere(to).as_bytes());
        }
        let mut reading = self.reading(at, &answer);
        loop {
            let next = match self.tally.sealed_at() {
                Some(at) => timeout_at(self.began + at + GRACE, answer.chunk()).await.unwrap_or(Ok(None)),
                None => answer.chunk().await,
            };
            let at = self.read_at(&answer);
            match next {
                Ok(Some(bytes)) => self.take(at, &bytes, &mut reading),
                Ok(None) => break,
                Err(e) => return self.broken(&e),
            }
            if self.given_up {
                return End::Broken;
            }
            if self.record.output_bytes > BODY_MAX {
                self.tally.fail(at, Failure::Malformed, b"the body is larger than 64 MiB");
                return End::Broken;
            }
        }
        self.end_of_body(reading, answer.format);
        End::Eof
    }

    /// Decides from the response head how to read the body. Records a failure for a status other than success.
    fn reading(&mut self, at: Duration, answer: &Answer) -> Reading {
        if let Some(failure) = failure_of(answer.status) {
            self.tally.fail(at, failure, b"");
            return Reading::Skip;
        }
        if let Some(encoding) = &answer.encoding {
            let problem =
                [b"the body is encoded, which nobody asked for: content-encoding: ", encoding.as_bytes()];
            self.tally.fail(at, Failure::Malformed, &problem.concat());
            return Reading::Skip;
        }
        match (self.stream, answer.format) {
            (true, format) => match self.protocol.splitter() {
                // Lines of JSON may come under any type.
                Splitter::Events(_) if format == Format::Json => Reading::Json(Vec::new()),
                splitter => Reading::Events(splitter, self.protocol.event_reader()),
            },
            (false, Format::Json | Format::Other) => Reading::Whole(Vec::new(), at),
            (false, Format::Events) => {
                self.tally.fail(at, Failure::Malformed, b"a stream came where one document was asked for");
                Reading::Skip
            }
        }
    }

    fn take(&mut self, at: Duration, bytes: &[u8], reading: &mut Reading) {
        self.record.output_bytes += bytes.len() as u64;
        let room = self.head_max.saturating_sub(self.head.len());
        self.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
        // A document is retained in `Reading::Whole` already.
        if let (Some(body), Reading::Events(..)) = (&mut self.body, &*reading) {
            body.extend_from_slice(bytes);
        }
        match reading {
            Reading::Events(parser, reader) => {
                let (protocol, tally) = (&self.protocol, &mut self.tally);
                let fed = parser.feed(bytes, |item| {
                    let parsed = reader.read(item, |item| protocol.event(item));
                    tally.feed(at, parsed, item.data);
                });
                if let Err(e) = fed {
                    self.tally.fail(at, Failure::Malformed, e.to_string().as_bytes());
                    (*reading, self.given_up) = (Reading::Skip, true);
                } else if let Some(most) = self.tally.overrun() {
                    let problem = format!("the answer went on beyond {most} tokens, and was given up");
                    self.tally.fail(at, Failure::Overrun, problem.as_bytes());
                    self.given_up = true;
                }
            }
            Reading::Whole(whole, last) => {
                whole.extend_from_slice(bytes);
                *last = at;
            }
            Reading::Json(whole) if whole.len() + bytes.len() > INSTEAD_MAX => {
                let problem = b"a document of more than 1 MiB came in place of a stream";
                self.tally.fail(at, Failure::Malformed, problem);
                (*reading, self.given_up) = (Reading::Skip, true);
            }
            Reading::Json(whole) => whole.extend_from_slice(bytes),
            Reading::Skip => {}
        }
    }

    fn end_of_body(&mut self, reading: Reading, format: Format) {
        let at = self.now();
        match reading {
            Reading::Events(parser, _) => {
                let (protocol, tally) = (&self.protocol, &mut self.tally);
                parser.finish(|item| match protocol.event(item) {
                    // Half an event: the stream was truncated, which its missing end reveals.
                    Parsed::Malformed => tally.torn(),
                    parsed => tally.feed(at, parsed, item.data),
                });
                if !self.tally.started() && format != Format::Events {
                    self.tally.fail(at, Failure::Malformed, b"");
                }
            }
            Reading::Whole(whole, last) => {
                self.tally.document(last, self.protocol.document(&whole), &whole);
                if let Some(body) = &mut self.body {
                    *body = whole;
                }
            }
            Reading::Json(whole) => {
                let error = error_message(&whole).is_some();
                let failure = if error { Failure::StreamError } else { Failure::Malformed };
                self.tally.fail(at, failure, b"");
            }
            Reading::Skip => {}
        }
    }

    fn broken(&mut self, e: &Broken) -> End {
        if !self.tally.whole() {
            let at = self.now();
            self.tally.fail(at, e.failure, e.text.as_bytes());
        }
        End::Broken
    }

    pub(super) fn finish(mut self, end: End, sent: &Payload, secrets: &Redactor) -> Finished {
        let at = self.now();
        let uploaded = self.upload.as_ref().filter(|_| sent.is_large()).and_then(Upload::ended);
        self.record.uploaded = uploaded.map(|uploaded| uploaded.saturating_duration_since(self.began));
        let tallied = self.tally.finish(end, at, &mut self.record);
        // The offending payload; or else the beginning of the body, or the error of the transport.
        let seen = tallied.seen.filter(|s| !s.is_empty());
        let (shown, whole) = match seen.as_deref() {
            Some(seen) => (seen, seen.len() < SEEN_MAX),
            None => (&*self.head, end == End::Eof && self.record.output_bytes == self.head.len() as u64),
        };
        // Removing text quoted from the request makes room for what follows it.
        let most = 2 * keep(secrets);
        let (shown, whole) = (&shown[..shown.len().min(most)], whole && shown.len() <= most);
        let sample = self.record.failure.map(|_| sample(&without_echo(shown, sent), whole, secrets));
        // Normally one of a few words, but the server may send anything, even a secret.
        let finish = self.record.finish.take();
        self.record.finish = finish.map(|reason| secrets.redact(&reason).into());
        let answer =
            self.body.filter(|_| self.record.ok()).map(|body| self.protocol.answer_text(&body, self.stream));
        let (text, other_texts) = answer.map(AnswerText::into_texts).unzip();
        Finished {
            record: self.record,
            gaps_us: tallied.gaps_us,
            sample,
            server_ttft: self.server_ttft,
            retry_after: self.retry_after,
            text,
            other_texts: other_texts.unwrap_or_default(),
        }
    }
}

/// Formats the error for an answer that redirects.
pub(super) fn elsewhere(to: &str) -> String {
    if to.starts_with('/') {
        return format!(
            "it redirects to {to}, which is not followed: the API is to be at its usual path; check server.url and server.api"
        );
    }
    format!(
        "it redirects to {to}, which is not followed, and is sent nothing: write that address into server.url"
    )
}

fn failure_of(status: StatusCode) -> Option<Failure> {
    match status.as_u16() {
        200..=299 => None,
        401 | 403 => Some(Failure::Unauthorized),
        429 => Some(Failure::RateLimited),
        400..=499 => Some(Failure::ClientError),
        500..=599 => Some(Failure::ServerError),
        _ => Some(Failure::UnexpectedStatus),
    }
}
