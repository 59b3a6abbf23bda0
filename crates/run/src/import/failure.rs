//! Classifies error messages. Tools record only the text, so the kind of failure is derived from it; *unknown* if no
//! word matches.

use goodput_core::record::{Failure, Finished, Outcome};

/// Words in messages and their kind of failure; the first match counts.
const WORDS: [(&[&str], Failure); 10] = [
    (&["too many requests", "rate limit", "ratelimit"], Failure::RateLimited),
    (&["unauthorized", "forbidden"], Failure::Unauthorized),
    (&["name or service not known", "name resolution", "nodename nor servname", "getaddrinfo"], Failure::Dns),
    (
        &[
            "cannot connect",
            "connection refused",
            "connect call failed",
            "connecterror",
            "connect timeout",
            "all connection attempts failed",
        ],
        Failure::Connect,
    ),
    (&["certificate", "sslerror", "ssl handshake", "tls handshake", "wrong_version_number"], Failure::Tls),
    (&["timeout", "timed out", "deadline exceeded"], Failure::Timeout),
    (
        &[
            "reset by peer",
            "disconnected",
            "connection closed",
            "broken pipe",
            "clientoserror",
            "payload is not completed",
            "incomplete read",
        ],
        Failure::Reset,
    ),
    (&["internal server error", "service unavailable", "bad gateway", "gateway time"], Failure::ServerError),
    (&["bad request", "not found", "unprocessable", "payload too large"], Failure::ClientError),
    (&["no valid chunk", "never received a valid chunk", "empty response", "no content"], Failure::Empty),
];

/// Maximum length of a stored message.
const LONGEST_SAMPLE: usize = 300;

/// Returns the kind of failure of an HTTP status; `None` if it is no failure.
fn of_status(status: u16) -> Option<Failure> {
    Some(match status {
        401 | 403 => Failure::Unauthorized,
        429 => Failure::RateLimited,
        400..=499 => Failure::ClientError,
        500..=599 => Failure::ServerError,
        _ => return None,
    })
}

/// Returns the kind of failure of a message.
fn of_text(text: &str) -> Failure {
    let text = text.to_lowercase();
    let named = WORDS.iter().find(|(words, _)| words.iter().any(|w| text.contains(w)));
    named.map_or(Failure::Unknown, |(_, kind)| *kind)
}

/// Marks a request as failed, with the kind from its status if known, else from its message.
pub(super) fn fail(finished: &mut Finished, status: Option<u16>, message: &str) {
    let record = &mut finished.record;
    record.outcome = Outcome::Failed;
    record.status = status.filter(|s| (100..600).contains(s));
    record.failure = Some(record.status.and_then(of_status).unwrap_or_else(|| of_text(message)));
    // The last line of a traceback contains the error.
    let line = message.lines().rev().map(str::trim).find(|l| !l.is_empty()).unwrap_or_default();
    finished.sample = Some(line.chars().take(LONGEST_SAMPLE).flat_map(shown).collect::<String>().into());
}

fn shown(c: char) -> Vec<char> {
    if c.is_control() { c.escape_default().collect() } else { vec![c] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_core::record::{Phase, Record};
    use std::time::Duration;

    /// Rows: status, message, kind.
    #[test]
    fn messages_tell_kinds() {
        for (status, message, kind) in [
            (
                None,
                "Traceback …\n  aiohttp.client_exceptions.ClientConnectorError: Cannot connect to host",
                Failure::Connect,
            ),
            (None, "Cannot connect to host 127.0.0.1:1 ssl:default [Connect call failed]", Failure::Connect),
            (None, "SSLError: certificate verify failed", Failure::Tls),
            (None, "asyncio.exceptions.TimeoutError", Failure::Timeout),
            (None, "Too Many Requests", Failure::RateLimited),
            (Some(503), "whatever", Failure::ServerError),
            (Some(429), "timeout", Failure::RateLimited),
            (Some(499), "Request was cancelled", Failure::ClientError),
            (None, "Never received a valid chunk to calculate TTFT.", Failure::Empty),
            (None, "ServerDisconnectedError", Failure::Reset),
            (None, "KeyError: 'x'", Failure::Unknown),
            (Some(7), "", Failure::Unknown),
        ] {
            let mut f = Finished::new(Record::due(0, Phase::Measure, Duration::ZERO), vec![]);
            fail(&mut f, status, message);
            assert_eq!(f.record.failure, Some(kind), "{message}");
            assert_eq!(f.record.outcome, Outcome::Failed);
        }
        let mut f = Finished::new(Record::due(0, Phase::Measure, Duration::ZERO), vec![]);
        fail(&mut f, None, "first\nlast \u{1b}[1m line\n\n");
        assert_eq!(f.sample.as_deref(), Some("last \\u{1b}[1m line"));
    }
}
