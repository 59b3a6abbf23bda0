//! What may be written nowhere, and how it is taken out of texts that others wrote: a server may send back the key that it was
//! sent, as it is or encoded.
//!
//! Secrets are the business of the process, not of one part of it: whoever reads one says so ([`keep_out`]), and from then on
//! clients, logs, messages and panics leave it out.

use memchr::memmem::Finder;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::{Arc, PoisonError, RwLock};

/// Shorter ones are words or numbers that may stand anywhere, and no secrets.
const SHORTEST: usize = 4;
/// From this length on a secret is looked for within words as well, and in its encoded forms.
const LONG: usize = 8;

/// Secrets, in every form in which they are looked for. Cheap to clone; shows none of them.
#[derive(Clone, Default)]
pub struct Redactor(Arc<[Form]>);

/// One form of one secret.
struct Form {
    finder: Finder<'static>,
    /// What stands in its place.
    mask: &'static str,
    /// Whether it is only looked for as a word of its own.
    word: bool,
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
    /// Of secrets, each with what stands in its place.
    pub fn of<'a>(secrets: impl IntoIterator<Item = (&'a str, &'static str)>) -> Self {
        let mut all: Vec<(Vec<u8>, &'static str, bool)> = Vec::new();
        for (secret, mask) in secrets {
            let word = secret.len() < LONG;
            for form in forms(secret) {
                if !all.iter().any(|(known, _, _)| *known == form) {
                    all.push((form, mask, word));
                }
            }
        }
        // The longest first: one may be a part of another.
        all.sort_by_key(|(form, _, _)| std::cmp::Reverse(form.len()));
        let form = |(form, mask, word): (Vec<u8>, _, _)| Form {
            finder: Finder::new(&form).into_owned(),
            mask,
            word,
        };
        Self(all.into_iter().map(form).collect())
    }

    /// These secrets, and more of them.
    pub fn with<'a>(&self, secrets: impl IntoIterator<Item = (&'a str, &'static str)>) -> Self {
        let more = Self::of(secrets);
        let mut all: Vec<Form> = self.0.iter().map(Form::again).collect();
        all.extend(more.0.iter().map(Form::again));
        all.sort_by_key(|form| std::cmp::Reverse(form.finder.needle().len()));
        Self(all.into())
    }

    /// Length of the longest form, in bytes: a text that is cut off may end within one.
    pub fn longest(&self) -> usize {
        self.0.first().map_or(0, |form| form.finder.needle().len())
    }

    /// A text without any of them.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
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

    /// A text without any of them, and without the beginning of one at its very end, where the text was cut off.
    pub fn cut_off(&self, text: &str) -> String {
        let mut text = self.text(text).into_owned();
        let begun = self.0.iter().filter(|form| !form.word).filter_map(|form| {
            let needle = form.finder.needle();
            let most = needle.len().min(text.len() + 1);
            let n = (SHORTEST..most).rev().find(|n| text.as_bytes().ends_with(&needle[..*n]))?;
            Some((n, form.mask))
        });
        if let Some((n, mask)) = begun.max_by_key(|(n, _)| *n) {
            text.truncate(text.len() - n);
            text.push_str(mask);
        }
        text
    }

    /// Where in some bytes one of them stands: start and length.
    pub fn places(&self, bytes: &[u8]) -> Vec<(usize, usize)> {
        let of = |form: &Form| {
            let length = form.finder.needle().len();
            form.places(bytes).into_iter().map(move |at| (at, length)).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(of).collect()
    }
}

impl Form {
    fn again(&self) -> Self {
        Self { finder: self.finder.clone(), mask: self.mask, word: self.word }
    }

    fn places(&self, bytes: &[u8]) -> Vec<usize> {
        let length = self.finder.needle().len();
        let part = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
        let apart = |at: &usize| {
            let before = at.checked_sub(1).and_then(|i| bytes.get(i));
            !self.word || !(part(before) || part(bytes.get(at + length)))
        };
        self.finder.find_iter(bytes).filter(apart).collect()
    }
}

/// The forms of a secret: as it is, and as JSON, HTML, URLs, base64 and hexadecimal numbers have it.
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
        all.extend(unicode(secret));
        all.extend(html(secret));
        all.extend(percent(secret));
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

/// As JSON has it where characters that HTML or URLs would read are written as numbers: by the libraries of Go, .NET, PHP and others.
fn unicode(secret: &str) -> Vec<String> {
    const NUMBERS: [&str; 5] = ["<>&", "<>&'", "<>&'\"", "<>&'\"+`", "<>&'\"+`="];
    let number = |out: &mut String, c: char, upper: bool| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = if upper { write!(out, "\\u{unit:04X}") } else { write!(out, "\\u{unit:04x}") };
        }
    };
    let written = |numbers: &str, slash: Option<&str>, upper: bool| {
        secret.chars().fold(String::new(), |mut out, c| {
            match (c, slash) {
                ('/', Some(slash)) => out.push_str(slash),
                ('/', None) => number(&mut out, c, upper),
                (c, _) if !c.is_ascii() || numbers.contains(c) => number(&mut out, c, upper),
                ('"' | '\\', _) => out.extend(['\\', c]),
                (c, _) => out.push(c),
            }
            out
        })
    };
    let mut all = Vec::new();
    for numbers in NUMBERS {
        for slash in [Some("/"), Some("\\/"), None] {
            all.extend([true, false].map(|upper| written(numbers, slash, upper)));
        }
    }
    all
}

/// As a part of an attribute, and of a text.
fn html(secret: &str) -> [String; 3] {
    let plain = secret.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    [
        plain.replace('"', "&quot;").replace('\'', "&#x27;"),
        plain.replace('"', "&#34;").replace('\'', "&#39;"),
        plain,
    ]
}

/// As a part of a URL, and as a part of a query, with either case of the numbers.
fn percent(secret: &str) -> Vec<String> {
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

/// What of a secret stands in base64 whatever comes before and after it: one text for each place within three bytes.
fn base64(secret: &[u8]) -> Vec<String> {
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
    let at = |before: usize, url: bool| {
        let whole = [&[0; 2][..before], secret].concat();
        // The last digit may hold bits of what follows.
        let sure = whole.len() * 8 / 6;
        let text = if url { URL_SAFE_NO_PAD.encode(&whole) } else { STANDARD_NO_PAD.encode(&whole) };
        // As the first does those of what comes before.
        text[(before * 8).div_ceil(6)..sure].to_owned()
    };
    (0..3).flat_map(|before| [true, false].map(|url| at(before, url))).collect()
}

/// What stands in the place of secrets: of the key, and of all others.
const MASKS: [&str; 2] = ["[API key]", "***"];

/// Whether a secret was taken out of a text, so that it is not what it was.
pub fn holds_mask(text: &str) -> bool {
    MASKS.iter().any(|mask| text.contains(mask))
}

/// The secrets of this process, and all of them as one.
struct Known {
    secrets: Vec<String>,
    redactor: Option<Redactor>,
}

static KNOWN: RwLock<Known> = RwLock::new(Known { secrets: Vec::new(), redactor: None });

/// From now on a secret is left out of everything; `mask` stands in its place.
pub fn keep_out(secret: &str, mask: &'static str) {
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    if secret.len() >= SHORTEST && !known.secrets.iter().any(|one| one == secret) {
        known.secrets.push(secret.to_owned());
        known.redactor = Some(known.redactor.clone().unwrap_or_default().with([(secret, mask)]));
    }
}

/// Every secret that this process has read so far.
pub fn known() -> Redactor {
    KNOWN.read().unwrap_or_else(PoisonError::into_inner).redactor.clone().unwrap_or_default()
}

/// Standard error without secrets: for messages of our own and of libraries, which know of none.
#[derive(Debug, Clone, Copy)]
pub struct Stderr;

impl Write for Stderr {
    /// A message comes in one piece.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::stderr().lock().write_all(&fit(bytes))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// A message as it may be written.
fn fit(message: &[u8]) -> Cow<'_, [u8]> {
    let known = known();
    if known.places(message).is_empty() {
        return Cow::Borrowed(message);
    }
    Cow::Owned(known.text(&String::from_utf8_lossy(message)).into_owned().into_bytes())
}

/// Panics tell what they are about without secrets.
pub fn in_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current().name().unwrap_or("unnamed").to_owned();
        let trace = std::backtrace::Backtrace::capture();
        let trace = match trace.status() {
            std::backtrace::BacktraceStatus::Captured => format!("\n{trace}"),
            _ => String::new(),
        };
        // Nobody is left to tell where standard error is closed.
        let _ = Stderr.write_all(format!("thread '{thread}': {panic}{trace}\n").as_bytes());
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: &str = "sk-ab/cd+ef=\"gh&1234";

    fn of(secret: &str) -> Redactor {
        Redactor::of([(secret, "[API key]")])
    }

    /// Rows: a key, a text, and what may be written.
    #[test]
    fn a_secret_is_left_out_in_every_form() {
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
            assert_eq!(of(key).text(text), want);
        }
        let shown = format!("{:?}", of("sk-abcdef"));
        assert!(!shown.contains("abcdef"), "{shown}");
        assert_eq!(Redactor::default().text("anything"), "anything");
    }

    #[test]
    fn what_was_cut_off_within_a_secret_ends_before_it() {
        let key = of("sk-abcdef");
        assert_eq!(key.cut_off("in the middle of sk-abc"), "in the middle of [API key]");
        assert_eq!(key.cut_off("in the middle of sk-"), "in the middle of sk-");
        assert_eq!(key.cut_off("sk-a"), "[API key]");
        assert_eq!(of("EMPTY").cut_off("EMPT"), "EMPT", "a word");
        assert_eq!(key.cut_off(""), "");
    }

    #[test]
    fn more_secrets_come_on_top_and_the_longest_goes_first() {
        let both = of("sk-abcdef").with([("sk-abcdef-more", "***")]);
        assert_eq!(both.text("sk-abcdef and sk-abcdef-more"), "[API key] and ***");
        assert_eq!(both.places(b"- sk-abcdef-more").iter().map(|p| p.0).collect::<Vec<_>>(), [2, 2]);
        assert!(
            holds_mask(&both.text("org/sk-abcdef")) && holds_mask("***/m") && !holds_mask("org/m [int8] *")
        );
        keep_out("sk-of-this-process", "[API key]");
        assert_eq!(known().text("sk-of-this-process"), "[API key]");
        assert_eq!(
            *fit(b"panicked at \xff sk-of-this-process"),
            *"panicked at \u{fffd} [API key]".as_bytes()
        );
        assert_eq!(*fit(b"bytes \xff"), *b"bytes \xff", "as they are where there is no secret");
    }

    proptest! {
        /// Whatever stands before and after it.
        #[test]
        fn base64_hides_nothing(key in "[ -~]{12,40}", before in prop::collection::vec(any::<u8>(), 0..8), after in prop::collection::vec(any::<u8>(), 0..8)) {
            use base64::Engine as _;
            let whole = [&before[..], key.as_bytes(), &after[..]].concat();
            for text in [
                base64::engine::general_purpose::STANDARD.encode(&whole),
                base64::engine::general_purpose::URL_SAFE.encode(&whole),
            ] {
                let shown = of(&key).text(&text).into_owned();
                // Of the key two letters at each end are left at most.
                prop_assert!(shown.contains("[API key]"), "{shown}");
                prop_assert!(shown.len() <= text.len() - key.len() + 4 + "[API key]".len(), "{shown}");
            }
        }

        #[test]
        fn any_text_can_be_looked_through(key in ".{0,12}", text in ".{0,80}") {
            let _ = of(&key).cut_off(&text);
            let shown = of(&key).text(&text).into_owned();
            prop_assert!(key.len() < LONG || key.contains("[API key]") || !shown.contains(&key) || "[API key]".contains(&key) || shown.contains("[API key]"));
        }
    }
}
