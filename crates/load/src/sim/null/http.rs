//! Parser of HTTP/1.1 requests from the bytes read so far.

use crate::sim::rules::MAX_BODY;
use http::StatusCode;
use std::borrow::Cow;

/// Maximum size of a request head, in bytes.
const MAX_HEAD: usize = 64 << 10;
/// Maximum number of header fields of a request.
const MAX_FIELDS: usize = 64;
/// Maximum size of a request including head and chunked coding, in bytes.
pub(super) const MAX_REQUEST: usize = MAX_HEAD + 2 * MAX_BODY;

/// A complete request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request<'a> {
    pub(super) method: &'a str,
    /// Path without the query.
    pub(super) path: &'a str,
    pub(super) body: Cow<'a, [u8]>,
    /// True if the client sends no further request on this connection.
    pub(super) close: bool,
}

/// The result of parsing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Parsed<'a> {
    /// The beginning of a request, or nothing.
    Incomplete {
        /// Minimum number of bytes of the complete request.
        least: usize,
        /// True if the head is complete and the client expects `100 Continue` before it sends the body.
        expects: bool,
    },
    /// A request, and its length in bytes.
    Complete(Request<'a>, usize),
}

/// The error for a request that cannot be parsed, after which the connection is unusable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ParseError {
    pub(super) status: StatusCode,
    pub(super) why: &'static str,
}

const fn bad_request(why: &'static str) -> ParseError {
    ParseError { status: StatusCode::BAD_REQUEST, why }
}

const TOO_LARGE: ParseError =
    ParseError { status: StatusCode::PAYLOAD_TOO_LARGE, why: "the body is larger than 32 MiB" };
const HEAD_TOO_LARGE: ParseError = ParseError {
    status: StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
    why: "the head is larger than 64 KiB or has more than 64 fields",
};

/// Parses a request at the beginning of `bytes`.
pub(super) fn parse(bytes: &[u8]) -> Result<Parsed<'_>, ParseError> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut head = httparse::Request::new(&mut fields);
    let start = match head.parse(bytes) {
        Ok(httparse::Status::Complete(start)) if start <= MAX_HEAD => start,
        Ok(httparse::Status::Partial) if bytes.len() <= MAX_HEAD => {
            return Ok(Parsed::Incomplete { least: bytes.len() + 1, expects: false });
        }
        Ok(_) | Err(httparse::Error::TooManyHeaders) => return Err(HEAD_TOO_LARGE),
        Err(_) => return Err(bad_request("the head is not that of a request of HTTP/1.1")),
    };
    let (Some(method), Some(target), Some(1)) = (head.method, head.path, head.version) else {
        return Err(ParseError {
            status: StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            why: "only HTTP/1.1 is spoken here",
        });
    };
    let facts = Facts::of(head.headers)?;
    let path = target.split('?').next().unwrap_or(target);
    let close = facts.close;
    let request = |body| Request { method, path, body, close };
    let rest = &bytes[start..];
    match facts.body {
        Body::None if method == "POST" => Err(ParseError {
            status: StatusCode::LENGTH_REQUIRED,
            why: "content-length or chunked coding is needed",
        }),
        Body::None => Ok(Parsed::Complete(request(Cow::Borrowed(&[])), start)),
        Body::Length(length) => Ok(match rest.get(..length) {
            Some(body) => Parsed::Complete(request(Cow::Borrowed(body)), start + length),
            None => Parsed::Incomplete { least: start + length, expects: facts.expects },
        }),
        Body::Chunked => Ok(match chunked(rest)? {
            Chunked::Complete(body, taken) => Parsed::Complete(request(body), start + taken),
            Chunked::Incomplete(least) => Parsed::Incomplete { least: start + least, expects: facts.expects },
        }),
    }
}

/// The framing of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    None,
    Length(usize),
    Chunked,
}

/// The header fields that matter here.
struct Facts {
    body: Body,
    close: bool,
    expects: bool,
}

impl Facts {
    fn of(fields: &[httparse::Header<'_>]) -> Result<Self, ParseError> {
        let mut facts = Self { body: Body::None, close: false, expects: false };
        for field in fields {
            let value = field.value.trim_ascii();
            let is = |name: &str| field.name.eq_ignore_ascii_case(name);
            // Comparing lengths first: five string comparisons for each field would cost more than the parser.
            match field.name.len() {
                14 if is("content-length") => facts.take(Body::Length(length(value)?))?,
                17 if is("transfer-encoding") => {
                    if !value.eq_ignore_ascii_case(b"chunked") {
                        let why = "of the transfer codings only chunked is known";
                        return Err(ParseError { status: StatusCode::NOT_IMPLEMENTED, why });
                    }
                    facts.take(Body::Chunked)?;
                }
                10 if is("connection") => {
                    let mut words = value.split(|b| *b == b',');
                    facts.close |= words.any(|w| w.trim_ascii().eq_ignore_ascii_case(b"close"));
                }
                6 if is("expect") => {
                    if !value.eq_ignore_ascii_case(b"100-continue") {
                        let why = "only 100-continue may be expected";
                        return Err(ParseError { status: StatusCode::EXPECTATION_FAILED, why });
                    }
                    facts.expects = true;
                }
                _ => {}
            }
        }
        Ok(facts)
    }

    /// Sets the framing. Refuses two different lengths, or a length with chunked coding: both are used for request
    /// smuggling.
    fn take(&mut self, body: Body) -> Result<(), ParseError> {
        if self.body != Body::None && self.body != body {
            return Err(bad_request("the length of the body is given in two ways"));
        }
        self.body = body;
        Ok(())
    }
}

fn length(value: &[u8]) -> Result<usize, ParseError> {
    const WHY: ParseError = bad_request("content-length is not a number");
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(WHY);
    }
    // A number that does not fit is too large in any case.
    let length = std::str::from_utf8(value).map_err(|_| WHY)?.parse().unwrap_or(usize::MAX);
    if length > MAX_BODY { Err(TOO_LARGE) } else { Ok(length) }
}

/// The result of parsing a body in chunked coding.
enum Chunked<'a> {
    /// The body, and its encoded length in bytes.
    Complete(Cow<'a, [u8]>, usize),
    /// The minimum number of bytes of the complete body.
    Incomplete(usize),
}

fn chunked(bytes: &[u8]) -> Result<Chunked<'_>, ParseError> {
    const BAD: ParseError = bad_request("the chunked coding of the body is broken");
    let mut body = Cow::Borrowed(&bytes[..0]);
    let mut at = 0;
    loop {
        let (line, size) = match httparse::parse_chunk_size(&bytes[at..]) {
            Ok(httparse::Status::Complete(found)) => found,
            Ok(httparse::Status::Partial) if bytes.len() - at <= MAX_HEAD => {
                return Ok(Chunked::Incomplete(bytes.len() + 1));
            }
            Ok(httparse::Status::Partial) | Err(_) => return Err(BAD),
        };
        at += line;
        if size == 0 {
            return match trailer(&bytes[at..])? {
                Some(taken) => Ok(Chunked::Complete(body, at + taken)),
                None => Ok(Chunked::Incomplete(bytes.len() + 1)),
            };
        }
        let size =
            usize::try_from(size).ok().filter(|size| *size <= MAX_BODY - body.len()).ok_or(TOO_LARGE)?;
        let Some(data) = bytes.get(at..at + size + 2) else { return Ok(Chunked::Incomplete(at + size + 2)) };
        let data = data.strip_suffix(b"\r\n").ok_or(BAD)?;
        if body.is_empty() {
            body = Cow::Borrowed(data);
        } else {
            body.to_mut().extend_from_slice(data);
        }
        at += size + 2;
        if at > MAX_REQUEST - MAX_HEAD {
            return Err(TOO_LARGE);
        }
    }
}

/// Returns the length of the trailer fields after the last chunk, including the empty line that ends them; `None` if
/// incomplete.
fn trailer(bytes: &[u8]) -> Result<Option<usize>, ParseError> {
    if bytes.starts_with(b"\r\n") {
        return Ok(Some(2));
    }
    if let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
        return Ok(Some(end + 4));
    }
    if bytes.len() > MAX_HEAD { Err(HEAD_TOO_LARGE) } else { Ok(None) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str) -> (Request<'_>, usize) {
        match parse(text.as_bytes()) {
            Ok(Parsed::Complete(request, taken)) => (request, taken),
            other => panic!("{text:?}: {other:?}"),
        }
    }

    #[test]
    fn requests_are_whole_only_at_their_last_byte() {
        for (text, method, path, body, close) in [
            ("GET /health HTTP/1.1\r\nhost: x\r\n\r\n", "GET", "/health", "", false),
            ("GET /v1/models?a=b HTTP/1.1\r\nConnection: Close\r\n\r\n", "GET", "/v1/models", "", true),
            ("GET / HTTP/1.1\r\nconnection: te, close\r\n\r\n", "GET", "/", "", true),
            ("POST /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "POST", "/a", "abc", false),
            ("POST /a HTTP/1.1\r\ncontent-length:  0 \r\n\r\n", "POST", "/a", "", false),
            (
                "POST /a HTTP/1.1\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\nab",
                "POST",
                "/a",
                "ab",
                false,
            ),
            (
                "POST /a HTTP/1.1\r\ntransfer-encoding: Chunked\r\n\r\n3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n",
                "POST",
                "/a",
                "abc0123456789",
                false,
            ),
            // Trailer fields after the last chunk.
            (
                "POST /a HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\nx: y\r\n\r\n",
                "POST",
                "/a",
                "a",
                false,
            ),
        ] {
            let (request, taken) = whole(text);
            assert_eq!((request.method, request.path, request.close), (method, path, close), "{text}");
            assert_eq!((request.body.as_ref(), taken), (body.as_bytes(), text.len()), "{text}");
            for end in 0..text.len() {
                match parse(&text.as_bytes()[..end]) {
                    Ok(Parsed::Incomplete { least, .. }) => {
                        assert!((end + 1..=text.len()).contains(&least), "{text}")
                    }
                    other => panic!("{end} of {text}: {other:?}"),
                }
            }
            // The next request is not consumed.
            let two = text.repeat(2);
            assert_eq!(whole(&two).1, text.len());
        }
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for (text, status) in [
            ("hello\r\n\r\n", "400"),
            ("\x16\x03\x01\x02", "400"), // TLS
            ("GET / HTTP/1.0\r\n\r\n", "505"),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "400"),
            ("POST / HTTP/1.1\r\n\r\n", "411"),
            ("POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n", "400"),
            ("POST / HTTP/1.1\r\ncontent-length: +1\r\n\r\n", "400"),
            ("POST / HTTP/1.1\r\ncontent-length: \r\n\r\n", "400"),
            ("POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", "400"),
            ("POST / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n", "400"),
            ("POST / HTTP/1.1\r\ncontent-length: 33554433\r\n\r\n", "413"),
            ("POST / HTTP/1.1\r\ncontent-length: 99999999999999999999999\r\n\r\n", "413"),
            ("POST / HTTP/1.1\r\ntransfer-encoding: gzip\r\n\r\n", "501"),
            ("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n", "400"),
            ("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\nabc", "400"),
            ("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n2000001\r\n", "413"),
            ("POST / HTTP/1.1\r\nexpect: more\r\n\r\n", "417"),
        ] {
            let error = parse(text.as_bytes()).unwrap_err();
            assert!(error.status.as_str() == status, "{text:?}: {error:?}");
        }
        let fields = "a: b\r\n".repeat(MAX_FIELDS + 1);
        for head in
            [format!("GET / HTTP/1.1\r\n{fields}"), format!("GET / HTTP/1.1\r\na: {}", "b".repeat(MAX_HEAD))]
        {
            assert_eq!(parse(head.as_bytes()), Err(HEAD_TOO_LARGE));
        }
    }

    #[test]
    fn a_client_that_waits_for_a_word_is_noticed() {
        let head = "POST / HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 4\r\n\r\n";
        assert_eq!(parse(head.as_bytes()), Ok(Parsed::Incomplete { least: head.len() + 4, expects: true }));
    }
}
