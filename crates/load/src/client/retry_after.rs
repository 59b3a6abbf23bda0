//! Parses `Retry-After`: the time that a server asks to wait.

use http::{HeaderMap, header};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use std::time::Duration;

/// Returns how long from `now` a response asks the client to wait (RFC 9110 §10.2.3: whole seconds, or a date). Zero
/// for a date that has passed; `None` without a header in either form. This is the only place where the wall clock
/// decides anything, because the date is the server's.
pub(crate) fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let value = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse::<u32>() {
        return Some(Duration::from_secs(u64::from(seconds)));
    }
    let date = DateTimeParser::new().parse_timestamp(value).ok()?;
    Some(Duration::try_from(date.duration_since(now)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_dates() {
        let now: Timestamp = "2026-11-22T08:49:30Z".parse().unwrap();
        for (value, want) in [
            (Some("120"), Some(120)),
            (Some(" 0 "), Some(0)),
            (Some("Sun, 22 Nov 2026 08:49:37 GMT"), Some(7)),
            (Some("Sat, 21 Nov 2026 08:49:37 GMT"), Some(0)),
            (Some("-5"), None),
            (Some("1.5"), None),
            (Some("99999999999999999999"), None),
            (Some("soon"), None),
            (Some(""), None),
            (None, None),
        ] {
            let mut headers = HeaderMap::new();
            headers.extend(value.map(|v| (header::RETRY_AFTER, v.parse().unwrap())));
            assert_eq!(retry_after(&headers, now), want.map(Duration::from_secs), "{value:?}");
        }
    }
}
