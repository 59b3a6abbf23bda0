//! Faults of the simulated server, at the level of a response: each replaces, or alters, a sound answer.

mod stream;

use crate::sim::rules::LINES;
use crate::sim::socket::ConnectionHandle;
use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use goodput_engine::fault::Fault;
use std::future::{Future, pending};
use stream::Framing;

/// Error page as a reverse proxy sends it, without any JSON.
const PAGE: &str = "<html>\n<head><title>Bad Gateway</title></head>\n<body><center><h1>Bad Gateway</h1></center></body>\n</html>\n";

/// Injects a fault into a request. `sound` is the answer without the fault; `connection` is `None` in process.
pub(super) async fn play(
    fault: Fault,
    connection: Option<ConnectionHandle>,
    sound: impl Future<Output = Response>,
) -> Response {
    match fault {
        Fault::Silent => pending().await,
        // A refused connection carries no request, so this one was accepted.
        Fault::Refused => sound.await,
        Fault::Closed => gone(fault, connection.as_ref(), ConnectionHandle::close),
        Fault::Reset => gone(fault, connection.as_ref(), ConnectionHandle::reset),
        Fault::Status400 => error(StatusCode::BAD_REQUEST),
        Fault::Status401 => error(StatusCode::UNAUTHORIZED),
        Fault::Status404 => error(StatusCode::NOT_FOUND),
        Fault::Status408 => error(StatusCode::REQUEST_TIMEOUT),
        Fault::Status413 => error(StatusCode::PAYLOAD_TOO_LARGE),
        Fault::Status429 => later(StatusCode::TOO_MANY_REQUESTS),
        Fault::Status500 => error(StatusCode::INTERNAL_SERVER_ERROR),
        Fault::Status502 => page(StatusCode::BAD_GATEWAY),
        Fault::Status503 => later(StatusCode::SERVICE_UNAVAILABLE),
        Fault::Status504 => page(StatusCode::GATEWAY_TIMEOUT),
        Fault::Html => page(StatusCode::OK),
        Fault::Redirect => {
            let elsewhere = [(header::LOCATION, HeaderValue::from_static("/v2/elsewhere"))];
            (StatusCode::TEMPORARY_REDIRECT, elsewhere).into_response()
        }
        Fault::Goaway => {
            if let Some(connection) = &connection {
                connection.leave();
            }
            sound.await
        }
        Fault::ResetMidstream
        | Fault::Stall
        | Fault::HeadersOnly
        | Fault::SlowDrip
        | Fault::Truncated
        | Fault::NoFinish
        | Fault::CutShort
        | Fault::UsageOwn
        | Fault::UsageFalling
        | Fault::UsageHuge
        | Fault::BadJson
        | Fault::ErrorEvent
        | Fault::Endless
        | Fault::LongLine
        | Fault::HugeBody
        | Fault::ByteByByte
        | Fault::SplitUtf8
        | Fault::Crlf
        | Fault::Comments
        | Fault::Bundled
        | Fault::StreamReset
        | Fault::OneChoice => within(fault, connection, sound.await),
        Fault::WrongType => {
            let text = HeaderValue::from_static("text/plain");
            with_header(sound.await, header::CONTENT_TYPE, text)
        }
        Fault::Compressed => {
            let gzip = HeaderValue::from_static("gzip");
            within(fault, connection, with_header(sound.await, header::CONTENT_ENCODING, gzip))
        }
    }
}

/// Sets a header of an answer. A refusal is returned unchanged.
fn with_header(mut sound: Response, name: HeaderName, value: HeaderValue) -> Response {
    if sound.status() == StatusCode::OK {
        sound.headers_mut().insert(name, value);
    }
    sound
}

/// Applies a fault to the stream or document of an answer. A refusal is returned unchanged.
fn within(fault: Fault, connection: Option<ConnectionHandle>, sound: Response) -> Response {
    if sound.status() != StatusCode::OK {
        return sound;
    }
    let (mut head, body) = sound.into_parts();
    head.headers.remove(header::CONTENT_LENGTH);
    let content_type = head.headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let framing = if content_type.starts_with(b"text/event-stream") {
        Framing::Events
    } else if content_type.starts_with(LINES.as_bytes()) {
        Framing::Lines
    } else {
        Framing::Document
    };
    Response::from_parts(head, Body::from_stream(stream::faulty(fault, connection, body, framing)))
}

/// Closes the connection before any byte is written; the placeholder response is never sent.
fn gone(
    fault: Fault,
    connection: Option<&ConnectionHandle>,
    how: impl FnOnce(&ConnectionHandle),
) -> Response {
    match connection {
        Some(connection) => {
            how(connection);
            StatusCode::NO_CONTENT.into_response()
        }
        None => {
            let problem =
                format!("the fault {} needs a connection, and there is none in process", fault.name());
            (StatusCode::NOT_IMPLEMENTED, problem).into_response()
        }
    }
}

/// Makes an error response in vLLM's format.
fn error(status: StatusCode) -> Response {
    let (code, why) = (status.as_u16(), status.canonical_reason().unwrap_or("error"));
    let body =
        format!(r#"{{"error":{{"message":"a fault: {why}","type":"{why}","param":null,"code":{code}}}}}"#);
    (status, [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response()
}

/// Makes an error response with a `Retry-After` header.
fn later(status: StatusCode) -> Response {
    let mut response = error(status);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

fn page(status: StatusCode) -> Response {
    (status, [(header::CONTENT_TYPE, HeaderValue::from_static("text/html"))], PAGE).into_response()
}
