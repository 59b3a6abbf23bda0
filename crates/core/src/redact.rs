//! Removes known secrets from texts that others wrote: a server may echo the key it received, plain or encoded.
//!
//! Secrets are global to the process: whoever reads one registers it ([`register_secret`]), and from then on clients,
//! logs, messages and panics leave it out.

use crate::secrets::{API_KEY_MASK, MASK};
use memchr::memmem::Finder;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::{Arc, PoisonError, RwLock};

/// Shorter strings are words or numbers that occur anywhere, and are not treated as secrets.
const SHORTEST: usize = 4;
/// From this length on, a secret is also matched within words and in its encoded forms.
const LONG: usize = 8;

/// Set of secrets in every form in which they are matched. Cheap to clone; `Debug` shows none of them.
#[derive(Clone, Default)]
pub struct Redactor(Arc<[Form]>);

/// One form of one secret.
#[derive(Clone)]
struct Form {
    finder: Finder<'static>,
    /// Replacement for the secret.
    mask: &'static str,
    /// True if it matches whole words only.
    whole_word: bool,
}

impl PartialEq for Redactor {
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len()
            && self.0.iter().zip(&*other.0).all(|(a, b)| a.finder.needle() == b.finder.needle())
    }
}

impl Eq for Redactor {}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redactor({} forms)", self.0.len())
    }
}

impl Redactor {
    /// Creates a redactor of secrets, each with its replacement.
    pub fn new<'a>(secrets: impl IntoIterator<Item = (&'a str, &'static str)>) -> Self {
        let mut all: Vec<(Vec<u8>, &'static str, bool)> = Vec::new();
        for (secret, mask) in secrets {
            let whole_word = secret.len() < LONG;
            for form in forms(secret) {
                if !all.iter().any(|(known, _, _)| *known == form) {
                    all.push((form, mask, whole_word));
                }
            }
        }
        // The longest first: one may be part of another.
        all.sort_by_key(|(form, _, _)| std::cmp::Reverse(form.len()));
        let form = |(form, mask, whole_word): (Vec<u8>, _, _)| Form {
            finder: Finder::new(&form).into_owned(),
            mask,
            whole_word,
        };
        Self(all.into_iter().map(form).collect())
    }

    /// Returns a redactor of these secrets and the given ones.
    pub fn with<'a>(&self, secrets: impl IntoIterator<Item = (&'a str, &'static str)>) -> Self {
        let more = Self::new(secrets);
        let mut all: Vec<Form> = self.0.iter().chain(&*more.0).cloned().collect();
        all.sort_by_key(|form| std::cmp::Reverse(form.finder.needle().len()));
        Self(all.into())
    }

    /// Returns the length of the longest form, in bytes: a truncated text may end within one.
    pub fn longest(&self) -> usize {
        self.0.first().map_or(0, |form| form.finder.needle().len())
    }

    /// Replaces every secret in a text.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        for form in &*self.0 {
            let places = form.places(text.as_bytes());
            if places.is_empty() {
                continue;
            }
            let (mut out, mut rest) = (String::with_capacity(text.len()), 0);
            for at in places {
                out.push_str(&text[rest..at]);
                out.push_str(form.mask);
                rest = at + form.finder.needle().len();
            }
            out.push_str(&text[rest..]);
            text = Cow::Owned(out);
        }
        text
    }

    /// Replaces every secret in a text that may have been truncated within one.
    pub fn redact_truncated(&self, text: &str) -> String {
        let mut text = self.redact(text).into_owned();
        let partial = self.0.iter().filter(|form| !form.whole_word).filter_map(|form| {
            let needle = form.finder.needle();
            let most = needle.len().min(text.len() + 1);
            let n = (SHORTEST..most).rev().find(|n| text.as_bytes().ends_with(&needle[..*n]))?;
            Some((n, form.mask))
        });
        if let Some((n, mask)) = partial.max_by_key(|(n, _)| *n) {
            text.truncate(text.len() - n);
            text.push_str(mask);
        }
        text
    }

    /// Returns start and length of every secret in `bytes`.
    pub fn places(&self, bytes: &[u8]) -> Vec<(usize, usize)> {
        let places = |form: &Form| {
            let length = form.finder.needle().len();
            form.places(bytes).into_iter().map(move |at| (at, length)).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(places).collect()
    }
}

impl Form {
    fn places(&self, bytes: &[u8]) -> Vec<usize> {
        let length = self.finder.needle().len();
        let is_word_char = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
        let matches = |at: &usize| {
            let before = at.checked_sub(1).and_then(|i| bytes.get(i));
            !self.whole_word || !(is_word_char(before) || is_word_char(bytes.get(at + length)))
        };
        self.finder.find_iter(bytes).filter(matches).collect()
    }
}

/// Returns the forms of a secret: plain, and as encoded in JSON, HTML, URLs, base64 and hexadecimal.
fn forms(secret: &str) -> Vec<Vec<u8>> {
    if secret.len() < SHORTEST {
        return Vec::new();
    }
    let mut all = vec![secret.to_owned()];
    if secret.len() >= LONG {
        let json = serde_json::Value::from(secret).to_string();
        let json = json.trim_start_matches('"').strip_suffix('"').unwrap_or_default().to_owned();
        all.push(json.replace('/', "\\/"));
        all.push(json);
        all.extend(json_escaped(secret));
        all.extend(html_escaped(secret));
        all.extend(percent_encoded(secret));
        all.extend(base64(secret.as_bytes()));
        let hex: String = secret.bytes().fold(String::new(), |mut hex, b| {
            let _ = write!(hex, "{b:02x}");
            hex
        });
        all.push(hex.to_uppercase());
        all.push(hex);
    }
    all.retain(|form| form.len() >= SHORTEST);
    all.into_iter().map(String::into_bytes).collect()
}

/// Returns the JSON forms in which characters special in HTML or URLs are `\u` escapes, as the libraries of Go, .NET,
/// PHP and others write them.
fn json_escaped(secret: &str) -> Vec<String> {
    const ESCAPED: [&str; 5] = ["<>&", "<>&'", "<>&'\"", "<>&'\"+`", "<>&'\"+`="];
    let escape = |out: &mut String, c: char, upper: bool| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = if upper { write!(out, "\\u{unit:04X}") } else { write!(out, "\\u{unit:04x}") };
        }
    };
    let written = |escaped: &str, slash: Option<&str>, upper: bool| {
        secret.chars().fold(String::new(), |mut out, c| {
            match (c, slash) {
                ('/', Some(slash)) => out.push_str(slash),
                ('/', None) => escape(&mut out, c, upper),
                (c, _) if !c.is_ascii() || escaped.contains(c) => escape(&mut out, c, upper),
                ('"' | '\\', _) => out.extend(['\\', c]),
                (c, _) => out.push(c),
            }
            out
        })
    };
    let mut all = Vec::new();
    for escaped in ESCAPED {
        for slash in [Some("/"), Some("\\/"), None] {
            all.extend([true, false].map(|upper| written(escaped, slash, upper)));
        }
    }
    all
}

/// Returns the HTML forms: in attributes, and in text.
fn html_escaped(secret: &str) -> [String; 3] {
    let plain = secret.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    [
        plain.replace('"', "&quot;").replace('\'', "&#x27;"),
        plain.replace('"', "&#34;").replace('\'', "&#39;"),
        plain,
    ]
}

/// Returns the URL forms: in paths and in queries, with hexadecimal digits of either case.
fn percent_encoded(secret: &str) -> Vec<String> {
    let encoded = |plain: &str, upper: bool| {
        secret.bytes().fold(String::new(), |mut out, b| {
            if b.is_ascii_alphanumeric() || plain.as_bytes().contains(&b) {
                out.push(char::from(b));
            } else if upper {
                let _ = write!(out, "%{b:02X}");
            } else {
                let _ = write!(out, "%{b:02x}");
            }
            out
        })
    };
    let plain = ["-._~", "-._*", "-._~!$&'()*+,;=:@/?", "-._!~*'()"];
    plain.iter().flat_map(|plain| [true, false].map(|upper| encoded(plain, upper))).collect()
}

/// Returns the base64 digits that depend on the secret alone, for each of its three alignments.
fn base64(secret: &[u8]) -> Vec<String> {
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
    let at = |before: usize, url: bool| {
        let whole = [&[0; 2][..before], secret].concat();
        // The last digit may hold bits of what follows, the first of what precedes.
        let complete = whole.len() * 8 / 6;
        let text = if url { URL_SAFE_NO_PAD.encode(&whole) } else { STANDARD_NO_PAD.encode(&whole) };
        text[(before * 8).div_ceil(6)..complete].to_owned()
    };
    (0..3).flat_map(|before| [true, false].map(|url| at(before, url))).collect()
}

/// Returns true if a text was redacted, so that it differs from the original.
pub fn contains_mask(text: &str) -> bool {
    [API_KEY_MASK, MASK].iter().any(|mask| text.contains(mask))
}

/// The secrets registered in this process, and their redactor.
struct Registered {
    secrets: Vec<String>,
    redactor: Option<Redactor>,
}

static REGISTERED: RwLock<Registered> = RwLock::new(Registered { secrets: Vec::new(), redactor: None });

/// Registers a secret of the process, which all output replaces by `mask` from now on.
pub fn register_secret(secret: &str, mask: &'static str) {
    let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
    if secret.len() >= SHORTEST && !registered.secrets.iter().any(|one| one == secret) {
        registered.secrets.push(secret.to_owned());
        registered.redactor = Some(registered.redactor.clone().unwrap_or_default().with([(secret, mask)]));
    }
}

/// Returns a redactor of every secret registered so far.
pub fn registered() -> Redactor {
    REGISTERED.read().unwrap_or_else(PoisonError::into_inner).redactor.clone().unwrap_or_default()
}

/// Standard error without registered secrets, for our own messages and those of libraries.
#[derive(Debug, Clone, Copy)]
pub struct Stderr;

impl Write for Stderr {
    /// Writes a message, which must arrive in one piece.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::stderr().lock().write_all(&redacted(bytes))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Redacts a message; returns it unchanged, even if not UTF-8, if it holds no secret.
fn redacted(message: &[u8]) -> Cow<'_, [u8]> {
    let registered = registered();
    if registered.places(message).is_empty() {
        return Cow::Borrowed(message);
    }
    Cow::Owned(registered.redact(&String::from_utf8_lossy(message)).into_owned().into_bytes())
}

/// Installs a panic hook that redacts messages.
pub fn install_panic_hook() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current().name().unwrap_or("unnamed").to_owned();
        let trace = std::backtrace::Backtrace::capture();
        let trace = match trace.status() {
            std::backtrace::BacktraceStatus::Captured => format!("\n{trace}"),
            _ => String::new(),
        };
        // A closed standard error leaves nowhere to report to.
        let _ = Stderr.write_all(format!("thread '{thread}': {panic}{trace}\n").as_bytes());
    }));
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn a_truncated_secret_is_redacted() {
        let key = redactor("sk-abcdef");
        assert_eq!(key.redact_truncated("in the middle of sk-abc"), "in the middle of [API key]");
        assert_eq!(key.redact_truncated("in the middle of sk-"), "in the middle of sk-");
        assert_eq!(key.redact_truncated("sk-a"), "[API key]");
        assert_eq!(
            redactor("EMPTY").redact_truncated("EMPT"),
            "EMPT",
            "short secrets match whole words only"
        );
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
}
