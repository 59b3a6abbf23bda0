use super::*;

#[test]
fn the_server_may_tell_its_own_ttft() {
    for (field, ms, why) in [
        ("ttft;dur=12.5", Some(12.5), "alone"),
        ("cache;desc=hit, ttft;desc=\"first\"; dur=3", Some(3.0), "among others"),
        ("total;dur=9", None, "another metric"),
        ("ttft", None, "no duration"),
        ("ttft;dur=-1", None, "no time"),
    ] {
        let headers = HeaderMap::from_iter([("server-timing".parse().unwrap(), field.parse().unwrap())]);
        assert_eq!(server_ttft(&headers).map(goodput_core::units::ms), ms, "{why}");
    }
    assert_eq!(server_ttft(&HeaderMap::new()), None);
}

/// Rows: the status, the target of the redirect, and the part of it that is shown.
#[test]
fn a_redirect_tells_where_to_and_no_more() {
    for (status, to, want) in [
        (307, "https://me:hunter2@other.test:8443/v1?key=hunter2", Some("https://other.test:8443")),
        (301, "https://here.test/v1/chat/completions", Some("https://here.test")),
        (308, "/v1/chat/completions/?key=hunter2", Some("/v1/chat/completions/")),
        (302, "//other.test/x", Some("http://other.test")),
        (200, "https://other.test", None),
        (307, "http://[", None),
        (307, "data:text/plain,hunter2", None),
    ] {
        let headers = HeaderMap::from_iter([(LOCATION, to.parse().unwrap())]);
        let status = StatusCode::from_u16(status).unwrap();
        let asked = "http://here.test/v1/chat/completions".parse().unwrap();
        assert_eq!(location(status, &headers, &asked).as_deref(), want, "{to}");
    }
}
