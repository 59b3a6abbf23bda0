//! Removes known secrets from texts that others wrote: a server may echo the key it received, plain or encoded.
//!
//! A text is decoded first, as often as it takes, and then compared without regard to case: so a secret is found however its characters are written, and in a
//! stream that sends it in pieces.
//!
//! Secrets are global to the process: whoever reads one registers it ([`register_secret`]), and from then on clients,
//! logs, messages and panics leave it out.

mod encoded;
mod fields;
mod view;

use crate::secrets::{API_KEY_MASK, MASK};
use memchr::memmem::Finder;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};
use view::View;

/// Shorter strings are words or numbers that occur anywhere, and are not treated as secrets.
const SHORTEST: usize = 4;
/// From this length on, a secret is also matched within words, in its encoded forms, and without regard to case.
const LONG: usize = 8;
/// Length of a byte in the longest of its usual escapes: `&#x0000041;`, or `\u0041` with two or three backslashes before it.
const LONGEST_ESCAPE: usize = 12;

/// Set of secrets in every form in which they are matched. Cheap to clone; `Debug` shows none of them.
#[derive(Clone, Default)]
pub struct Redactor(Arc<[Form]>);

/// One form of one secret.
#[derive(Clone)]
struct Form {
    finder: Finder<'static>,
    /// Replacement for the secret.
    mask: &'static str,
    /// How a text is compared with it.
    matching: Matching,
}

/// How a text is compared with a form of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Matching {
    /// In the text as it is, where it is a word by itself.
    Word,
    /// In the decoded text, without regard to case. The form is in lower case.
    AnyCase,
    /// In the decoded text, as it is written: digits of base64.
    Exact,
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

/// A secret in a text.
struct Hit {
    /// The places of its pieces; one, unless a stream sent it in several.
    pieces: Vec<Range<usize>>,
    mask: &'static str,
}

impl Redactor {
    /// Creates a redactor of secrets, each with its replacement.
    pub fn new<'a>(secrets: impl IntoIterator<Item = (&'a str, &'static str)>) -> Self {
        let mut all: Vec<(Vec<u8>, &'static str, Matching)> = Vec::new();
        for (secret, mask) in secrets {
            for (form, matching) in forms(secret) {
                if !all.iter().any(|(known, ..)| *known == form) {
                    all.push((form, mask, matching));
                }
            }
        }
        // The longest first: one may be part of another.
        all.sort_by_key(|(form, ..)| std::cmp::Reverse(form.len()));
        let form = |(form, mask, matching): (Vec<u8>, _, _)| Form {
            finder: Finder::new(&form).into_owned(),
            mask,
            matching,
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

    /// Returns the length in bytes up to which a secret is found in pieces of a text: a truncated text may end within one.
    pub fn longest(&self) -> usize {
        let written = |form: &Form| match form.matching {
            Matching::Word | Matching::Exact => form.finder.needle().len(),
            Matching::AnyCase => form.finder.needle().len() * LONGEST_ESCAPE,
        };
        self.0.iter().map(written).max().unwrap_or(0)
    }

    /// Replaces every secret in a text.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let hits = self.hits(text.as_bytes());
        if hits.is_empty() {
            return Cow::Borrowed(text);
        }
        Cow::Owned(masked(text, hits))
    }

    /// Replaces every secret in a text that may have been truncated within one.
    pub fn redact_truncated(&self, text: &str) -> String {
        let mut hits = self.hits(text.as_bytes());
        hits.extend(self.torn(text.as_bytes()));
        masked(text, hits)
    }

    /// Returns start and length of every secret in `bytes`.
    pub fn places(&self, bytes: &[u8]) -> Vec<(usize, usize)> {
        let pieces = self.hits(bytes).into_iter().flat_map(|hit| hit.pieces);
        let mut all: Vec<(usize, usize)> = pieces.map(|piece| (piece.start, piece.len())).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Returns every secret in a text.
    fn hits(&self, text: &[u8]) -> Vec<Hit> {
        // An encoded secret is never shorter than itself. This also spares short texts, such as finish reasons, all further work.
        let least = self.0.iter().map(|form| form.finder.needle().len()).min();
        if least.is_none_or(|least| text.len() < least) {
            return Vec::new();
        }
        views(text).iter().flat_map(|view| self.hits_in(view)).collect()
    }

    fn hits_in(&self, view: &View) -> Vec<Hit> {
        let lower = view.bytes.to_ascii_lowercase();
        let mut hits = Vec::new();
        for form in &*self.0 {
            let length = form.finder.needle().len();
            let within = if form.matching == Matching::AnyCase { &lower } else { &view.bytes };
            if form.matching == Matching::Word && !view.is_raw() {
                continue;
            }
            let found =
                form.places(within).map(|at| Hit { pieces: view.source(at..at + length), mask: form.mask });
            hits.extend(found);
        }
        for run in encoded::runs(&view.bytes) {
            if let Some(mask) = self.encoded(&view.bytes[run.clone()]) {
                hits.push(Hit { pieces: view.source(run), mask });
            }
        }
        hits
    }

    /// Returns the mask of a secret within digits of base64, which may begin at any of them.
    fn encoded(&self, digits: &[u8]) -> Option<&'static str> {
        let secrets = self.0.iter().filter(|form| form.matching == Matching::AnyCase);
        let least = secrets.map(|form| form.finder.needle().len()).min()?;
        if digits.len() * 3 / 4 < least {
            return None;
        }
        let texts = (0..4).map(|skipped| encoded::decoded(digits.get(skipped..).unwrap_or_default()));
        texts.flat_map(|text| View::of(&text).decoded()).find_map(|view| {
            let lower = view.bytes.to_ascii_lowercase();
            let mut all = self.0.iter().filter(|form| form.matching == Matching::AnyCase);
            all.find(|form| form.finder.find(&lower).is_some()).map(|form| form.mask)
        })
    }

    /// Returns the first part of a secret at the end of a text.
    fn torn(&self, text: &[u8]) -> Option<Hit> {
        let part = |view: &View, form: &Form| {
            let (needle, bytes) = (form.finder.needle(), &view.bytes);
            let most = needle.len().min(bytes.len() + 1);
            let ends = |n: &usize| match form.matching {
                Matching::AnyCase => bytes[bytes.len() - n..].eq_ignore_ascii_case(&needle[..*n]),
                Matching::Word | Matching::Exact => bytes.ends_with(&needle[..*n]),
            };
            let n = (SHORTEST..most).rev().find(ends)?;
            Some((n, Hit { pieces: view.source(bytes.len() - n..bytes.len()), mask: form.mask }))
        };
        let views = views(text);
        let parts = views.iter().flat_map(|view| {
            let forms = self.0.iter().filter(|form| form.matching != Matching::Word);
            forms.filter_map(move |form| part(view, form))
        });
        parts.max_by_key(|(n, _)| *n).map(|(_, hit)| hit)
    }
}

/// Returns a text as it is, as it reads once it is decoded, and the joined values of the fields of a stream.
fn views(text: &[u8]) -> Vec<View> {
    let mut all = View::of(text).decoded();
    let pieces = all
        .iter()
        .flat_map(|view| fields::values(&view.bytes).into_iter().map(|ranges| view.joined(&ranges)));
    let joined: Vec<View> = pieces.flat_map(View::decoded).collect();
    all.extend(joined);
    all
}

/// Replaces the pieces of secrets in a text, overlapping ones by the mask of the longest.
fn masked(text: &str, hits: Vec<Hit>) -> String {
    let mut pieces: Vec<(Range<usize>, &'static str)> =
        hits.into_iter().flat_map(|hit| hit.pieces.into_iter().map(move |piece| (piece, hit.mask))).collect();
    pieces.sort_by_key(|(piece, _)| (piece.start, std::cmp::Reverse(piece.end)));
    let mut merged: Vec<(Range<usize>, &'static str)> = Vec::new();
    for (piece, mask) in pieces {
        match merged.last_mut() {
            Some((last, known)) if piece.start < last.end => {
                if piece.len() > last.len() {
                    *known = mask;
                }
                last.end = last.end.max(piece.end);
            }
            _ => merged.push((piece, mask)),
        }
    }
    let (mut out, mut rest) = (String::with_capacity(text.len()), 0);
    for (piece, mask) in merged {
        // An encoded secret is ASCII, and a plain one consists of whole characters; the end of a truncated one may not.
        let is_boundary = |i: &usize| text.is_char_boundary(*i);
        let start = (rest..=piece.start).rev().find(is_boundary).unwrap_or(rest);
        out.push_str(&text[rest..start]);
        out.push_str(mask);
        rest = (piece.end..=text.len()).find(is_boundary).unwrap_or(text.len()).max(rest);
    }
    out.push_str(&text[rest..]);
    out
}

impl Form {
    /// Returns the index of each match.
    fn places<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
        let length = self.finder.needle().len();
        let is_word_char = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
        let matches = move |at: &usize| {
            let before = at.checked_sub(1).and_then(|i| bytes.get(i));
            self.matching != Matching::Word || !(is_word_char(before) || is_word_char(bytes.get(at + length)))
        };
        self.finder.find_iter(bytes).filter(matches)
    }
}

/// Returns the forms of a secret: as it is, and in base64 and hexadecimal digits. Other escapes are decoded before a text is searched.
fn forms(secret: &str) -> Vec<(Vec<u8>, Matching)> {
    match secret.len() {
        ..SHORTEST => Vec::new(),
        SHORTEST..LONG => vec![(secret.into(), Matching::Word)],
        LONG.. => {
            let hex: String = secret.bytes().fold(String::new(), |mut hex, b| {
                let _ = write!(hex, "{b:02x}");
                hex
            });
            let mut all = vec![
                (secret.as_bytes().to_ascii_lowercase(), Matching::AnyCase),
                (hex.into_bytes(), Matching::AnyCase),
            ];
            let digits = base64(secret.as_bytes()).into_iter().filter(|form| form.len() >= SHORTEST);
            all.extend(digits.map(|form| (form.into_bytes(), Matching::Exact)));
            all
        }
    }
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
mod tests;
