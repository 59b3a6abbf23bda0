//! Classification of connection errors, by walking the chain of causes.

use super::consent::NotAllowed;
use super::dns::Unresolved;
use super::tls;
use goodput_core::record::Failure;
use goodput_plan::client::Retries;
use std::{error::Error, io};

/// The error of a request without an answer, or of a body that broke off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Broken {
    /// The kind of failure.
    pub(crate) failure: Failure,
    /// The root cause, as the library or system that reported it words it.
    pub(crate) text: String,
    /// The condition on which the request may be sent again.
    pub(crate) resend: Resend,
}

/// The condition on which a request may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resend {
    /// Never: it was answered, or never reached a server.
    Never,
    /// If the plan asks for retries: the connection was open, and closed before any answer.
    Unanswered,
    /// Once in any case: the server said that it did not take the request (HTTP/2: REFUSED_STREAM, or a GOAWAY without an error).
    NotTaken,
}

impl Resend {
    /// Returns true if a request that was sent once is sent again under the plan's number of retries.
    pub(crate) const fn applies(self, retries: Retries) -> bool {
        match self {
            Self::Never => false,
            Self::Unanswered => matches!(retries, Retries::One),
            Self::NotTaken => true,
        }
    }
}

impl Broken {
    /// Makes the error of a failure that the client itself detects.
    pub(crate) fn new(failure: Failure, text: impl Into<String>) -> Self {
        Self { failure, text: text.into(), resend: Resend::Never }
    }

    /// Makes the error of a connection that the server closed while it was idle, with a 408 that answers no request.
    pub(crate) fn closed_idle() -> Self {
        let text = "the server closed an idle connection (HTTP 408)".to_owned();
        Self { failure: Failure::Reset, text, resend: Resend::Unanswered }
    }

    /// Classifies the error of a request that has no response head.
    pub(crate) fn sending(err: &reqwest::Error) -> Self {
        Self::without_head(err, err.is_connect(), err.is_timeout())
    }

    /// Classifies the error of opening a connection.
    pub(crate) fn connecting(err: &(dyn Error + 'static)) -> Self {
        Self::without_head(err, true, false)
    }

    /// Classifies the error of a request that was sent over an open connection and has no response head.
    pub(crate) fn unanswered(err: &hyper::Error) -> Self {
        let io = err.source().and_then(|e| e.downcast_ref::<io::Error>());
        Self::without_head(err, false, io.is_some_and(|e| e.kind() == io::ErrorKind::TimedOut))
    }

    fn without_head(err: &(dyn Error + 'static), connecting: bool, timed_out: bool) -> Self {
        let cause = Cause::of(err);
        let failure = match cause.kind {
            Some(kind @ (Failure::ClientLimit | Failure::Dns | Failure::Tls)) => kind,
            _ if connecting => Failure::Connect,
            Some(kind) => kind,
            None => Failure::Reset,
        };
        // A response that does not parse was an answer; one truncated within its head is indistinguishable from none. A
        // connection that timed out in the kernel is as dead as a reset one, but is not retried: the request has waited
        // long enough.
        let unanswered = failure == Failure::Reset && !connecting && !timed_out;
        let resend = match unanswered {
            false => Resend::Never,
            true if cause.not_taken => Resend::NotTaken,
            true => Resend::Unanswered,
        };
        Self { failure, text: cause.text, resend }
    }

    /// Classifies the error of a body that broke off.
    pub(crate) fn reading(err: &(dyn Error + 'static)) -> Self {
        let cause = Cause::of(err);
        Self { failure: cause.kind.unwrap_or(Failure::Reset), text: cause.text, resend: Resend::Never }
    }
}

struct Cause {
    kind: Option<Failure>,
    text: String,
    /// True if the server said that it did not take the request.
    not_taken: bool,
}

impl Cause {
    /// Walks the chain of errors. The deepest error of a known kind decides, and the deepest text is retained.
    fn of(err: &(dyn Error + 'static)) -> Self {
        let mut found = Self { kind: None, text: err.to_string(), not_taken: false };
        let mut next = Some(err);
        while let Some(e) = next {
            found.kind = kind(e).or(found.kind);
            found.not_taken |= e.downcast_ref().is_some_and(not_taken);
            found.text = e.to_string();
            if let Some(remedy) = e.downcast_ref::<rustls::Error>().and_then(tls::remedy) {
                found.text = remedy;
                break;
            }
            // An io::Error that wraps another error skips it in `source`.
            let wrapped = e.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
            next = wrapped.map(|e| e as &(dyn Error + 'static)).or_else(|| e.source());
        }
        if found.text == "tls handshake eof" {
            found.kind = Some(Failure::Tls);
        }
        found
    }
}

/// Returns true if the server refused a stream before it did anything with it (RFC 9113, section 8.7). Such a request is no failure of the
/// server: it is how a server says goodbye while it restarts.
fn not_taken(e: &h2::Error) -> bool {
    let reason = e.reason();
    e.is_remote()
        && ((e.is_go_away() && reason == Some(h2::Reason::NO_ERROR))
            || (e.is_reset() && reason == Some(h2::Reason::REFUSED_STREAM)))
}

fn kind(e: &(dyn Error + 'static)) -> Option<Failure> {
    if e.is::<Unresolved>() {
        Some(Failure::Dns)
    } else if e.is::<NotAllowed>() {
        // Not sent, by our own decision.
        Some(Failure::ClientLimit)
    } else if e.is::<rustls::Error>() {
        Some(Failure::Tls)
    } else if let Some(e) = e.downcast_ref::<hyper::Error>() {
        if e.is_parse() || e.is_parse_too_large() { Some(Failure::Malformed) } else { None }
    } else if let Some(e) = e.downcast_ref::<io::Error>() {
        io_kind(e)
    } else {
        None
    }
}

fn io_kind(e: &io::Error) -> Option<Failure> {
    // Too many open files, in this process or on this machine. Linux and macOS use the same numbers.
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    match e.kind() {
        _ if matches!(e.raw_os_error(), Some(ENFILE | EMFILE)) => Some(Failure::ClientLimit),
        io::ErrorKind::AddrNotAvailable => Some(Failure::ClientLimit),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::consent::Gate;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] io::Error);

    #[test]
    fn causes_are_found_in_the_chain() {
        let tls = || rustls::Error::General("bad".into());
        let not_allowed = || Gate::of_load([]).check("gpu.lan", [[203, 0, 113, 7].into()]).unwrap_err();
        for (cause, kind, why) in [
            (io::Error::from_raw_os_error(24), Some(Failure::ClientLimit), "descriptors of the process"),
            (io::Error::from_raw_os_error(23), Some(Failure::ClientLimit), "descriptors of the machine"),
            (io::ErrorKind::AddrNotAvailable.into(), Some(Failure::ClientLimit), "ports"),
            (io::ErrorKind::ConnectionRefused.into(), None, "left to the caller"),
            (
                io::Error::new(io::ErrorKind::InvalidData, tls()),
                Some(Failure::Tls),
                "TLS inside an io::Error",
            ),
            (
                io::Error::new(io::ErrorKind::UnexpectedEof, "tls handshake eof"),
                Some(Failure::Tls),
                "closed in TLS",
            ),
            (io::Error::other(Unresolved(io::Error::other("no such name"))), Some(Failure::Dns), "name"),
            (io::Error::other(not_allowed()), Some(Failure::ClientLimit), "a public address without consent"),
        ] {
            assert_eq!(Cause::of(&Outer(cause)).kind, kind, "{why}");
        }
        assert_eq!(Cause::of(&Outer(io::Error::other("deep"))).text, "deep");
    }
}
