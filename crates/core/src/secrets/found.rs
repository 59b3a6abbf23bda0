//! Where the secrets of a text are: of a command line, of one argument, of a header, of JSON, of a URL.

use super::MASK;
use super::is_secret_header;
use super::names::{holds, is_likely, is_named, is_scheme, parameter_holds, refers};
use std::ops::Range;

/// Keys of well-known services begin so.
const KNOWN: [&str; 13] = [
    "sk-",
    "hf_",
    "nvapi-",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "gsk_",
    "xai-",
    "xoxb-",
    "AIza",
    "AKIA",
];

/// What the next word of a command line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Awaited {
    /// Nothing in particular.
    #[default]
    Any,
    /// A secret, unless it is an option.
    Secret,
    /// The same, unless it is a switch or short: the option may be called otherwise.
    Likely,
    /// `user:password`.
    Password,
}

/// A command line, read word by word or argument by argument.
#[derive(Debug, Clone, Default)]
pub struct Line {
    awaited: Awaited,
    /// Whether `curl` was named, whose `-u` is followed by a password.
    curl: bool,
    /// Whether the next argument is a script: `sh -c`.
    script: bool,
}

impl Line {
    /// Where in the next argument of a command the secrets are: a header, a script, a value that may hold white space. They may overlap.
    pub fn argument(&mut self, argument: &str) -> Vec<Range<usize>> {
        let script = std::mem::take(&mut self.script);
        self.script = argument.starts_with('-')
            && argument.ends_with('c')
            && argument[1..].bytes().all(|b| b.is_ascii_lowercase());
        if script {
            self.awaited = Awaited::Any;
            return found(argument);
        }
        let free = self.awaited == Awaited::Any && argument.contains(char::is_whitespace);
        let mut all = if free { whole(argument) } else { self.word(argument) };
        if let Some((name, value)) = argument.split_once('=') {
            let plain = name.starts_with('-') || !name.contains(char::is_whitespace);
            if plain && holds(name, value) && !refers(value) {
                all.push(name.len() + 1..argument.len());
            }
        }
        all.extend(fields(argument));
        all
    }

    /// Where in the next word the secrets are.
    fn word(&mut self, word: &str) -> Vec<Range<usize>> {
        let bare = word.trim_matches(['"', '\'']);
        match std::mem::take(&mut self.awaited) {
            // `authorization: Bearer key`: the key is still to come.
            Awaited::Secret if is_scheme(bare) => {
                self.awaited = Awaited::Secret;
                return Vec::new();
            }
            Awaited::Secret if !bare.starts_with('-') => return unless_refers(word, 0..word.len()),
            Awaited::Likely if !bare.starts_with('-') && holds("pass", bare) => {
                return unless_refers(word, 0..word.len());
            }
            Awaited::Password => {
                let password = word.find(':').map(|at| at + 1..word.len()).filter(|p| !p.is_empty());
                return password.map_or_else(Vec::new, |range| unless_refers(word, range));
            }
            Awaited::Any | Awaited::Secret | Awaited::Likely => {}
        }
        self.curl |= bare == "curl" || bare.ends_with("/curl");
        let option = bare.starts_with('-') && !bare.contains(['=', ':']) && is_named(bare);
        self.awaited = match bare {
            "-u" | "--user" | "-U" if self.curl => Awaited::Password,
            "--proxy-user" => Awaited::Password,
            _ if option || bare == "Bearer" || is_header(bare) => Awaited::Secret,
            _ if bare.starts_with('-') && is_likely(bare) => Awaited::Likely,
            _ => Awaited::Any,
        };
        one(word)
    }
}

/// Whether a word begins a header. What follows a name in quotes is a field ([`fields`]).
fn is_header(word: &str) -> bool {
    word.strip_suffix(':').is_some_and(|name| !name.ends_with(['"', '\'']) && is_named(name))
}

fn unless_refers(word: &str, range: Range<usize>) -> Vec<Range<usize>> {
    if refers(&word[range.clone()]) { Vec::new() } else { vec![range] }
}

/// Where in a text the secrets are, as far as its form tells; they may overlap.
pub(super) fn found(text: &str) -> Vec<Range<usize>> {
    let mut line = Line::default();
    let mut all = fields(text);
    for range in words(text) {
        all.extend(line.word(&text[range.clone()]).into_iter().map(|r| shifted(&r, range.start)));
    }
    all
}

/// The same of a text that is a whole: it may be one header.
pub fn whole(text: &str) -> Vec<Range<usize>> {
    header(text).into_iter().chain(found(text)).collect()
}

/// In order; those that overlap are one.
fn merged(mut all: Vec<Range<usize>>) -> Vec<Range<usize>> {
    all.sort_by_key(|r| (r.start, r.end));
    let mut out: Vec<Range<usize>> = Vec::with_capacity(all.len());
    for range in all.into_iter().filter(|r| !r.is_empty()) {
        match out.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => out.push(range),
        }
    }
    out
}

/// A text with `***` in the place of its secrets.
pub fn hidden(text: &str, ranges: Vec<Range<usize>>) -> String {
    let (mut out, mut end) = (String::with_capacity(text.len()), 0);
    for range in merged(ranges) {
        out.push_str(&text[end..range.start]);
        out.push_str(MASK);
        end = range.end;
    }
    out.push_str(&text[end..]);
    out
}

/// The secrets themselves, in each way in which they may be said again: without quotes, as a shell takes them, a password without its user.
pub fn values(text: &str, ranges: &[Range<usize>]) -> Vec<String> {
    let mut all = Vec::new();
    for range in ranges {
        let value = text[range.clone()].trim_matches(['"', '\'', '\\']);
        all.push(value.to_owned());
        let in_shell = value.split([';', '|', '&', ')', '`', '<', '>', '"', '\'']).next().unwrap_or_default();
        all.extend(
            Some(in_shell.trim_end_matches(['\\', ',', '.', ':', '}', ']']).to_owned())
                .filter(|v| v.len() >= 4),
        );
        if let Some((_, password)) = value.split_once(':').filter(|_| text[range.end..].starts_with('@')) {
            all.push(password.to_owned());
            all.extend(decoded(password));
        }
    }
    all.retain(|v| !v.is_empty() && !v.contains(MASK) && !refers(v));
    all.sort();
    all.dedup();
    all
}

/// What `%40` and the like stand for, where there are any.
fn decoded(text: &str) -> Option<String> {
    let url = url::Url::parse(&format!("http://x/?p={}", text.replace('+', "%2B"))).ok()?;
    let (_, value) = url.query_pairs().next()?;
    text.contains('%').then(|| value.into_owned())
}

fn shifted(range: &Range<usize>, by: usize) -> Range<usize> {
    range.start + by..range.end + by
}

/// A word that stands for itself.
fn one(word: &str) -> Vec<Range<usize>> {
    let inner = within_quotes(word);
    let bare = &word[inner.clone()];
    if let Some(value) = header(bare) {
        return vec![shifted(&value, inner.start)];
    }
    // What quotes enclose may be a command line itself.
    if inner.len() < word.len() && bare.contains(char::is_whitespace) {
        return found(bare).iter().map(|r| shifted(r, inner.start)).collect();
    }
    let mut all = assigned(word);
    all.extend(users(word));
    all.extend(keys(word));
    if let Some(at) = word.find("=\"").or_else(|| word.find("='")) {
        let value = at + 1..word.len();
        let inner = within_quotes(&word[value.clone()]);
        if inner.len() < value.len() {
            let from = value.start + inner.start;
            all.extend(found(&word[value][inner]).iter().map(|r| shifted(r, from)));
        }
    }
    all
}

/// A word without the quotes that enclose it.
fn within_quotes(word: &str) -> Range<usize> {
    let enclosed = |q: char| word.len() >= 2 && word.starts_with(q) && word.ends_with(q);
    if enclosed('"') || enclosed('\'') { 1..word.len() - 1 } else { 0..word.len() }
}

/// The value of a text that is a header whole, `authorization: Bearer key`, behind how it is handed over.
fn header(text: &str) -> Option<Range<usize>> {
    let (name, rest) = text.split_once(':')?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || !name.chars().all(plain) || !is_named(name) {
        return None;
    }
    let value = rest.trim();
    // Without white space it may be an image and its version, or a host and its port.
    let surely = name.starts_with("-H") || name.to_ascii_lowercase().starts_with("x-");
    let surely = surely
        || ["authorization", "api-key", "api_key", "apikey", "cookie"]
            .iter()
            .any(|n| name.to_ascii_lowercase().ends_with(n));
    if value.is_empty() || refers(value) || !(surely || text.contains(char::is_whitespace)) {
        return None;
    }
    let skipped = value.split_once(char::is_whitespace).filter(|(first, _)| is_scheme(first));
    let key = skipped.map_or(value, |(_, key)| key.trim_start());
    let from = text.len() - rest.len() + rest.find(key)?;
    Some(from..from + key.len())
}

/// Values that are given to names within a word: `HF_TOKEN=…`, `--api-key=…`, `?a=1&token=…`.
fn assigned(word: &str) -> Vec<Range<usize>> {
    let (mut all, mut at) = (Vec::new(), 0);
    while let Some(sign) = word[at..].find('=').map(|i| at + i) {
        let head = word[..sign].trim_end_matches(['"', '\'']);
        let part = |c: char| c.is_ascii_alphanumeric() || "_-.%[]".contains(c);
        let begin = head.trim_end_matches(part).len().max(at).min(head.len());
        let (before, name) = head.split_at(begin);
        let asks = before.ends_with(['?', '&', '#']);
        let value = &word[sign + 1..];
        let length = match () {
            () if asks => value.find(['&', '#', '"', '\'']).unwrap_or(value.len()),
            () if word.starts_with(['"', '\'']) && value.ends_with(&word[..1]) => value.len() - 1,
            () => value.len(),
        };
        let value = &value[..length];
        let secret = if asks { parameter_holds(name, value) } else { holds(name, value) };
        at = sign + 1;
        if secret && !refers(value) {
            all.push(at..at + length);
            at += length;
        }
    }
    all
}

/// Users and passwords of the URLs within a word. A user alone is one where a web server is asked, which takes tokens so.
fn users(word: &str) -> Vec<Range<usize>> {
    let mut all = Vec::new();
    for (at, sign) in word.match_indices("://") {
        let from = at + sign.len();
        let rest = &word[from..];
        let host = &rest[..rest.find(['/', '?', '#', '"', '\'']).unwrap_or(rest.len())];
        // A password with a slash looks like a port that is no number.
        let slashed = || {
            let (_, port) = host.split_once(':')?;
            let odd = !port.bytes().all(|b| b.is_ascii_digit())
                && !host.starts_with('[')
                && !port.contains(['{', '$']);
            rest.find('@').filter(|_| odd)
        };
        let Some(end) = host.rfind('@').or_else(slashed) else { continue };
        let user = &rest[..end];
        let password = user.split_once(':').map(|(_, password)| password);
        let own = password.is_none() && (user == "git" || word[..at].ends_with("ssh"));
        if !user.is_empty() && !own && !refers(password.unwrap_or(user)) {
            all.push(from..from + end);
        }
    }
    all
}

/// Keys that begin as those of well-known services do: as the word, or behind a sign in it.
fn keys(word: &str) -> Option<Range<usize>> {
    let signs = word.match_indices(['=', ':', ',', '(', '"', '\'']).map(|(i, _)| i + 1);
    let mut from = std::iter::once(0).chain(signs);
    let end = word.trim_end_matches(['"', '\'']).len();
    let key = |at: &usize| {
        let rest = &word[*at..end.max(*at)];
        rest.len() >= 16 && KNOWN.iter().any(|start| rest.starts_with(start))
    };
    // With the quotes around it.
    let at = from.find(key)?;
    let at = if word[..at].len() == 1 && word.starts_with(['"', '\'']) { 0 } else { at };
    Some(at..word.len())
}

/// Values of fields of JSON, with or without escapes: `{"api_key": "…"}`.
fn fields(text: &str) -> Vec<Range<usize>> {
    let mut all = Vec::new();
    for (colon, _) in text.match_indices(':') {
        let Some(before) = text[..colon].trim_end().strip_suffix(['"', '\'']) else { continue };
        let before = before.trim_end_matches('\\');
        let name = before.rfind(['"', '\'']).map_or(before, |at| &before[at + 1..]);
        let rest = text[colon + 1..].trim_start();
        let escapes = rest.len() - rest.trim_start_matches('\\').len();
        let value = &rest[escapes..];
        let (skip, length) = match value.chars().next() {
            Some(quote @ ('"' | '\'')) => {
                let ends = |(i, _): &(usize, _)| escapes > 0 || !value[..*i].ends_with('\\');
                let end = value[1..].match_indices(quote).map(|(i, q)| (i + 1, q)).find(ends);
                (1, end.map_or(value.len(), |(i, _)| i) - 1)
            }
            Some('{' | '[') | None => continue,
            Some(_) => {
                (0, value.find(|c: char| c.is_whitespace() || ",}]".contains(c)).unwrap_or(value.len()))
            }
        };
        let value = value[skip..skip + length].trim_end_matches('\\');
        if holds(name, value) && !refers(value) {
            let from = text.len() - rest.len() + escapes + skip;
            all.push(from..from + value.len());
        }
    }
    all
}

/// Whether a value is a key by its own form, whatever its name: `Bearer …`, `sk-…`.
pub fn is_key(value: &str) -> bool {
    let value = value.trim();
    let handed = value.split_once(' ').is_some_and(|(scheme, key)| {
        ["bearer", "basic"].contains(&&*scheme.to_ascii_lowercase()) && !key.trim().contains(' ')
    });
    handed || (!value.contains(char::is_whitespace) && keys(value).is_some_and(|range| range.start == 0))
}

/// Whether the query of a URL holds a secret; `text` is the URL as it is written.
pub fn in_query(url: &url::Url, text: &str) -> bool {
    url.query_pairs()
        .any(|(name, value)| is_secret_header(&name) || parameter_holds(&name, &value) || is_key(&value))
        || !found(text).is_empty()
}

/// Where the words are; white space within quotes belongs to its word. A quote begins a word or a value, and ends: an apostrophe is none.
fn words(text: &str) -> Vec<Range<usize>> {
    let (mut all, mut from, mut quote, mut before) = (Vec::new(), None, None, ' ');
    for (i, c) in text.char_indices() {
        match quote {
            Some(q) => quote = (c != q).then_some(q),
            None if c.is_whitespace() => {
                all.extend(from.take().map(|from| from..i));
                before = c;
                continue;
            }
            None => {
                let begins = from.is_none() || before == '=';
                quote = (begins && matches!(c, '"' | '\'') && text[i + 1..].contains(c)).then_some(c);
            }
        }
        from.get_or_insert(i);
        before = c;
    }
    all.extend(from.map(|from| from..text.len()));
    all
}
