//! Tests of redaction.

use super::*;
use proptest::prelude::*;

const KEY: &str = "sk-ab/cd+ef=\"gh&1234";

fn redactor(secret: &str) -> Redactor {
    Redactor::new([(secret, "[API key]")])
}

/// Cases: a key, a text, and the redacted text.
#[test]
fn a_secret_is_redacted_in_every_form() {
    for (key, text, want) in [
        ("sk-abcdef", "bad key sk-abcdef, twice sk-abcdef!", "bad key [API key], twice [API key]!"),
        ("sk-abcdef", "a task", "a task"),
        ("EMPTY", "the key EMPTY of NONEMPTY", "the key [API key] of NONEMPTY"),
        ("x-1", "x-1 is no secret", "x-1 is no secret"),
        (KEY, r#"{"k":"sk-ab/cd+ef=\"gh&1234"}"#, r#"{"k":"[API key]"}"#),
        (KEY, r#"{"k":"sk-ab/cd\u002Bef=\u0022gh\u00261234"}"#, r#"{"k":"[API key]"}"#),
        (KEY, r#"{"k":"sk-ab\u002fcd\u002bef\u003d\u0022gh\u00261234"}"#, r#"{"k":"[API key]"}"#),
        (KEY, r#"{"k":"sk-ab\/cd+ef=\"gh\u00261234"}"#, r#"{"k":"[API key]"}"#),
        ("sk-<it's>-1", r"sk-\u003cit\u0027s\u003e-1", "[API key]"),
        ("sk-<it's>-1", r"sk-\u003Cit's\u003E-1", "[API key]"),
        (KEY, "<b>sk-ab/cd+ef=&quot;gh&amp;1234</b>", "<b>[API key]</b>"),
        (KEY, "<b>sk-ab/cd+ef=\"gh&amp;1234</b>", "<b>[API key]</b>"),
        (KEY, "?k=sk-ab%2Fcd%2Bef%3D%22gh%261234&x", "?k=[API key]&x"),
        (KEY, "?k=sk-ab%2fcd%2bef%3d%22gh%261234", "?k=[API key]"),
    ] {
        assert_eq!(redactor(key).redact(text), want);
    }
    let shown = format!("{:?}", redactor("sk-abcdef"));
    assert!(!shown.contains("abcdef"), "{shown}");
    assert_eq!(Redactor::default().redact("anything"), "anything");
}

/// Each character of the key in an escape of its own, in other letters, and within other encodings.
#[test]
fn a_secret_is_redacted_however_its_characters_are_written() {
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
    let each = |escape: fn(char) -> String| KEY.chars().map(escape).collect::<String>();
    let json = serde_json::json!({ "authorization": format!("Bearer {KEY}") }).to_string();
    let unicode = each(|c| format!("\\u{:04x}", u32::from(c)));
    let all = [
        each(|c| format!("&#{};", u32::from(c))),
        each(|c| format!("&#x{:X};", u32::from(c))),
        each(|c| format!("&#x{:06x}", u32::from(c))),
        each(|c| format!("%{:02X}", u32::from(c))),
        each(|c| format!("%25{:02x}", u32::from(c))),
        each(|c| format!("\\x{:02x}", u32::from(c))),
        unicode.clone(),
        unicode.replace('\\', "\\\\"), // JSON in JSON
        KEY.to_lowercase(),
        KEY.to_uppercase(),
        STANDARD.encode(&json),
        STANDARD.encode(&json).replace('/', "\\/"),
        STANDARD.encode(&json).replace('+', "%2B").replace('=', "%3D"),
        URL_SAFE_NO_PAD.encode(format!("xx{json}")),
        STANDARD.encode(format!("{{\"key\":\"{unicode}\"}}")),
    ];
    let key = redactor(KEY);
    for text in all {
        for (before, after) in [("", ""), ("{\"error\":\"bad key ", "\"}"), ("<p>", "</p>")] {
            let shown = key.redact(&format!("{before}{text}{after}")).into_owned();
            let kept = shown.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
            assert_eq!(kept.map(|kept| kept.trim_end_matches('=')), Some("[API key]"), "{text}");
        }
        let (bytes, tail) = (text.len(), "; and some text behind it");
        assert!(bytes <= key.longest(), "{text}");
        assert_eq!(key.places(format!("{text}{tail}").as_bytes()).first().map(|p| p.0), Some(0), "{text}");
    }
}

/// A stream that sends the key in pieces, one in each event.
#[test]
fn a_secret_in_several_events_is_redacted() {
    let event = |text: &str| {
        format!("data: {{\"choices\":[{{\"delta\":{{\"role\":\"a\",\"content\":\"{text}\"}}}}]}}\n\n")
    };
    let stream = |pieces: &[&str]| pieces.iter().map(|piece| event(piece)).collect::<String>();
    let key = redactor("sk-abcdefgh");
    for (pieces, want) in [
        (
            &["your key is sk-ab", "cdefgh, is it not"][..],
            &["your key is [API key]", "[API key], is it not"][..],
        ),
        (&["s", "k", "-", "a", "b", "c", "d", "e", "f", "g", "h"], &["[API key]"; 11]),
        (&["SK-AB", "CDEFGH"], &["[API key]"; 2]),
        (&["\\u0073\\u006b-ab", "%63defgh"], &["[API key]"; 2]),
        (&["sk-ab", "and nothing more"], &["sk-ab", "and nothing more"]),
    ] {
        assert_eq!(key.redact(&stream(pieces)), stream(want), "{pieces:?}");
    }
    // Cut off before the second piece.
    let torn = format!("{}data: {{\"cho", stream(&["your key", " is sk-abcd"]));
    let shown = key.redact_truncated(&torn);
    assert!(shown.contains(" is [API key]") && !shown.contains("sk-a"), "{shown}");
}

#[test]
fn a_truncated_secret_is_redacted() {
    let key = redactor("sk-abcdef");
    assert_eq!(key.redact_truncated("in the middle of sk-abc"), "in the middle of [API key]");
    assert_eq!(key.redact_truncated("in the middle of sk-"), "in the middle of sk-");
    assert_eq!(key.redact_truncated("sk-a"), "[API key]");
    assert_eq!(redactor("EMPTY").redact_truncated("EMPT"), "EMPT", "short secrets match whole words only");
    assert_eq!(key.redact_truncated(""), "");
}

#[test]
fn secrets_are_added_and_the_longest_matches_first() {
    let both = redactor("sk-abcdef").with([("sk-abcdef-more", "***")]);
    assert_eq!(both.redact("sk-abcdef and sk-abcdef-more"), "[API key] and ***");
    assert_eq!(both.places(b"- sk-abcdef-more").iter().map(|p| p.0).collect::<Vec<_>>(), [2, 2]);
    assert!(
        contains_mask(&both.redact("org/sk-abcdef"))
            && contains_mask("***/m")
            && !contains_mask("org/m [int8] *")
    );
    register_secret("sk-of-this-process", "[API key]");
    assert_eq!(registered().redact("sk-of-this-process"), "[API key]");
    assert_eq!(
        *redacted(b"panicked at \xff sk-of-this-process"),
        *"panicked at \u{fffd} [API key]".as_bytes()
    );
    assert_eq!(*redacted(b"bytes \xff"), *b"bytes \xff", "unchanged without a secret");
}

proptest! {
    /// The text before and after the secret.
    #[test]
    fn base64_is_redacted_at_every_alignment(key in "[ -~]{12,40}", before in prop::collection::vec(any::<u8>(), 0..8), after in prop::collection::vec(any::<u8>(), 0..8)) {
        use base64::Engine as _;
        let whole = [&before[..], key.as_bytes(), &after[..]].concat();
        for text in [
            base64::engine::general_purpose::STANDARD.encode(&whole),
            base64::engine::general_purpose::URL_SAFE.encode(&whole),
        ] {
            let shown = redactor(&key).redact(&text).into_owned();
            // At most two letters of the key are left at each end.
            prop_assert!(shown.contains("[API key]"), "{shown}");
            prop_assert!(shown.len() <= text.len() - key.len() + 4 + "[API key]".len(), "{shown}");
        }
    }

    #[test]
    fn any_text_can_be_redacted(key in ".{0,12}", text in ".{0,80}") {
        let _ = redactor(&key).redact_truncated(&text);
        let shown = redactor(&key).redact(&text).into_owned();
        prop_assert!(key.len() < LONG || key.contains("[API key]") || !shown.contains(&key) || "[API key]".contains(&key) || shown.contains("[API key]"));
    }
}
