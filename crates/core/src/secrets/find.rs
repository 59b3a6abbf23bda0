//! Finds the byte ranges of secrets in command lines, arguments, headers, JSON and URLs.

use super::MASK;
use super::is_secret_header;
use super::names::{holds_secret, is_likely, is_named, is_reference, is_scheme, parameter_holds};
use std::ops::Range;

/// Prefixes of the keys of well-known services.
const KEY_PREFIXES: [&str; 13] = [
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

/// The meaning that the previous word gives to the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Expected {
    /// Nothing in particular.
    #[default]
    Any,
    /// A secret, unless it is an option.
    Secret,
    /// Probably a secret, unless it is an option, a switch or short: the option's name is ambiguous.
    Likely,
    /// `user:password`.
    Password,
}

/// Scanner of a command line, word by word or argument by argument.
#[derive(Debug, Clone, Default)]
pub(super) struct ArgumentScanner {
    expected: Expected,
    /// True after `curl`, whose `-u` takes `user:password`.
    curl: bool,
    /// True if the next argument is a shell script: `sh -c`.
    script: bool,
}

impl ArgumentScanner {
    /// Returns the secrets in the next argument of a command, which may be a header, a script or a value with white
    /// space. Ranges may overlap.
    pub(super) fn argument(&mut self, argument: &str) -> Vec<Range<usize>> {
        let script = std::mem::take(&mut self.script);
        self.script = argument.starts_with('-')
            && argument.ends_with('c')
            && argument[1..].bytes().all(|b| b.is_ascii_lowercase());
        if script {
            self.expected = Expected::Any;
            return find_in_text(argument);
        }
        let is_value = self.expected == Expected::Any && argument.contains(char::is_whitespace);
        let mut all = if is_value { find_in_value(argument) } else { self.word(argument) };
        if let Some((name, value)) = argument.split_once('=') {
            let plain = name.starts_with('-') || !name.contains(char::is_whitespace);
            if plain && holds_secret(name, value) && !is_reference(value) {
                all.push(name.len() + 1..argument.len());
            }
        }
        all.extend(find_in_json_fields(argument));
        all
    }

    /// Returns the secrets in the next word.
    fn word(&mut self, word: &str) -> Vec<Range<usize>> {
        let bare = word.trim_matches(['"', '\'']);
        match std::mem::take(&mut self.expected) {
            // `authorization: Bearer key`: the key is still to come.
            Expected::Secret if is_scheme(bare) => {
                self.expected = Expected::Secret;
                return Vec::new();
            }
            Expected::Secret if !bare.starts_with('-') => return unless_reference(word, 0..word.len()),
            Expected::Likely if !bare.starts_with('-') && holds_secret("pass", bare) => {
                return unless_reference(word, 0..word.len());
            }
            Expected::Password => {
                let password = word.find(':').map(|at| at + 1..word.len()).filter(|p| !p.is_empty());
                return password.map_or_else(Vec::new, |range| unless_reference(word, range));
            }
            Expected::Any | Expected::Secret | Expected::Likely => {}
        }
        self.curl |= bare == "curl" || bare.ends_with("/curl");
        let option = bare.starts_with('-') && !bare.contains(['=', ':']) && is_named(bare);
        self.expected = match bare {
            "-u" | "--user" | "-U" if self.curl => Expected::Password,
            "--proxy-user" => Expected::Password,
            _ if option || bare == "Bearer" || is_header(bare) => Expected::Secret,
            _ if bare.starts_with('-') && is_likely(bare) => Expected::Likely,
            _ => Expected::Any,
        };
        find_in_word(word)
    }
}

/// Returns true if a word begins a header. A quoted name begins a JSON field instead: see [`find_in_json_fields`].
fn is_header(word: &str) -> bool {
    word.strip_suffix(':').is_some_and(|name| !name.ends_with(['"', '\'']) && is_named(name))
}

fn unless_reference(word: &str, range: Range<usize>) -> Vec<Range<usize>> {
    if is_reference(&word[range.clone()]) { Vec::new() } else { vec![range] }
}

/// Returns the secrets in a text, read as a command line; ranges may overlap.
pub(super) fn find_in_text(text: &str) -> Vec<Range<usize>> {
    let mut line = ArgumentScanner::default();
    let mut all = find_in_json_fields(text);
    for range in words(text) {
        all.extend(line.word(&text[range.clone()]).into_iter().map(|r| shifted(&r, range.start)));
    }
    all
}

/// Returns the secrets in a complete value, which may be a single header; ranges may overlap.
pub(super) fn find_in_value(text: &str) -> Vec<Range<usize>> {
    find_in_header(text).into_iter().chain(find_in_text(text)).collect()
}

/// Sorts ranges and merges those that overlap.
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

/// Replaces the given ranges of a text, which may overlap, by [`MASK`].
pub(super) fn mask(text: &str, ranges: Vec<Range<usize>>) -> String {
    let (mut out, mut end) = (String::with_capacity(text.len()), 0);
    for range in merged(ranges) {
        out.push_str(&text[end..range.start]);
        out.push_str(MASK);
        end = range.end;
    }
    out.push_str(&text[end..]);
    out
}

/// Returns the secrets at these ranges, in each form in which other output may repeat them: without quotes, as a shell
/// parses them, a password without its user.
pub(super) fn secret_values(text: &str, ranges: &[Range<usize>]) -> Vec<String> {
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
            all.extend(percent_decoded(password));
        }
    }
    all.retain(|v| !v.is_empty() && !v.contains(MASK) && !is_reference(v));
    all.sort();
    all.dedup();
    all
}

/// Decodes percent escapes; `None` if there are none.
fn percent_decoded(text: &str) -> Option<String> {
    let url = url::Url::parse(&format!("http://x/?p={}", text.replace('+', "%2B"))).ok()?;
    let (_, value) = url.query_pairs().next()?;
    text.contains('%').then(|| value.into_owned())
}

fn shifted(range: &Range<usize>, by: usize) -> Range<usize> {
    range.start + by..range.end + by
}

/// Returns the secrets in a single word, whatever precedes it.
fn find_in_word(word: &str) -> Vec<Range<usize>> {
    let inner = within_quotes(word);
    let bare = &word[inner.clone()];
    if let Some(value) = find_in_header(bare) {
        return vec![shifted(&value, inner.start)];
    }
    // A quoted word may itself be a command line.
    if inner.len() < word.len() && bare.contains(char::is_whitespace) {
        return find_in_text(bare).iter().map(|r| shifted(r, inner.start)).collect();
    }
    let mut all = find_in_assignments(word);
    all.extend(find_in_urls(word));
    all.extend(find_known_key(word));
    if let Some(at) = word.find("=\"").or_else(|| word.find("='")) {
        let value = at + 1..word.len();
        let inner = within_quotes(&word[value.clone()]);
        if inner.len() < value.len() {
            let from = value.start + inner.start;
            all.extend(find_in_text(&word[value][inner]).iter().map(|r| shifted(r, from)));
        }
    }
    all
}

/// Returns the range of a word without enclosing quotes.
fn within_quotes(word: &str) -> Range<usize> {
    let enclosed = |q: char| word.len() >= 2 && word.starts_with(q) && word.ends_with(q);
    if enclosed('"') || enclosed('\'') { 1..word.len() - 1 } else { 0..word.len() }
}

/// Returns the secret of a text that is one whole header, after its scheme: `key` in `authorization: Bearer key`.
fn find_in_header(text: &str) -> Option<Range<usize>> {
    let (name, rest) = text.split_once(':')?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || !name.chars().all(plain) || !is_named(name) {
        return None;
    }
    let value = rest.trim();
    // Without white space the text may also be an image with its tag, or a host with its port.
    let surely = name.starts_with("-H") || name.to_ascii_lowercase().starts_with("x-");
    let surely = surely
        || ["authorization", "api-key", "api_key", "apikey", "cookie"]
            .iter()
            .any(|n| name.to_ascii_lowercase().ends_with(n));
    if value.is_empty() || is_reference(value) || !(surely || text.contains(char::is_whitespace)) {
        return None;
    }
    let skipped = value.split_once(char::is_whitespace).filter(|(first, _)| is_scheme(first));
    let key = skipped.map_or(value, |(_, key)| key.trim_start());
    let from = text.len() - rest.len() + rest.find(key)?;
    Some(from..from + key.len())
}

/// Returns the secrets assigned to names within a word: `HF_TOKEN=…`, `--api-key=…`, `?a=1&token=…`.
fn find_in_assignments(word: &str) -> Vec<Range<usize>> {
    let (mut all, mut at) = (Vec::new(), 0);
    while let Some(sign) = word[at..].find('=').map(|i| at + i) {
        let head = word[..sign].trim_end_matches(['"', '\'']);
        let part = |c: char| c.is_ascii_alphanumeric() || "_-.%[]".contains(c);
        let begin = head.trim_end_matches(part).len().max(at).min(head.len());
        let (before, name) = head.split_at(begin);
        let in_query = before.ends_with(['?', '&', '#']);
        let value = &word[sign + 1..];
        let length = match () {
            () if in_query => value.find(['&', '#', '"', '\'']).unwrap_or(value.len()),
            () if word.starts_with(['"', '\'']) && value.ends_with(&word[..1]) => value.len() - 1,
            () => value.len(),
        };
        let value = &value[..length];
        let secret = if in_query { parameter_holds(name, value) } else { holds_secret(name, value) };
        at = sign + 1;
        if secret && !is_reference(value) {
            all.push(at..at + length);
            at += length;
        }
    }
    all
}

/// Returns users and passwords of the URLs within a word. A user without password counts as a secret, since web servers
/// accept tokens there; not for SSH.
fn find_in_urls(word: &str) -> Vec<Range<usize>> {
    let mut all = Vec::new();
    for (at, sign) in word.match_indices("://") {
        let from = at + sign.len();
        let rest = &word[from..];
        let host = &rest[..rest.find(['/', '?', '#', '"', '\'']).unwrap_or(rest.len())];
        // A password with a slash looks like a port that is not a number.
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
        let is_ssh_user = password.is_none() && (user == "git" || word[..at].ends_with("ssh"));
        if !user.is_empty() && !is_ssh_user && !is_reference(password.unwrap_or(user)) {
            all.push(from..from + end);
        }
    }
    all
}

/// Finds a key with the prefix of a well-known service, at the start of the word or after a separator in it.
fn find_known_key(word: &str) -> Option<Range<usize>> {
    let signs = word.match_indices(['=', ':', ',', '(', '"', '\'']).map(|(i, _)| i + 1);
    let mut from = std::iter::once(0).chain(signs);
    let end = word.trim_end_matches(['"', '\'']).len();
    let key = |at: &usize| {
        let rest = &word[*at..end.max(*at)];
        rest.len() >= 16 && KEY_PREFIXES.iter().any(|start| rest.starts_with(start))
    };
    // Includes the quotes around the word.
    let at = from.find(key)?;
    let at = if word[..at].len() == 1 && word.starts_with(['"', '\'']) { 0 } else { at };
    Some(at..word.len())
}

/// Returns the secrets in JSON fields, with or without escapes: `{"api_key": "…"}`.
fn find_in_json_fields(text: &str) -> Vec<Range<usize>> {
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
        if holds_secret(name, value) && !is_reference(value) {
            let from = text.len() - rest.len() + escapes + skip;
            all.push(from..from + value.len());
        }
    }
    all
}

/// Returns true if a value looks like a key, whatever its name: `Bearer …`, `sk-…`.
pub fn is_key(value: &str) -> bool {
    let value = value.trim();
    let has_scheme = value.split_once(' ').is_some_and(|(scheme, key)| {
        ["bearer", "basic"].contains(&&*scheme.to_ascii_lowercase()) && !key.trim().contains(' ')
    });
    has_scheme
        || (!value.contains(char::is_whitespace)
            && find_known_key(value).is_some_and(|range| range.start == 0))
}

/// Returns true if the query of a URL holds a secret; `text` is the URL as written.
pub fn query_holds_secret(url: &url::Url, text: &str) -> bool {
    url.query_pairs()
        .any(|(name, value)| is_secret_header(&name) || parameter_holds(&name, &value) || is_key(&value))
        || !find_in_text(text).is_empty()
}

/// Returns the words of a text, keeping quoted white space. A quote only opens at the start of a word or value, so that
/// an apostrophe does not.
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
                let opens = from.is_none() || before == '=';
                quote = (opens && matches!(c, '"' | '\'') && text[i + 1..].contains(c)).then_some(c);
            }
        }
        from.get_or_insert(i);
        before = c;
    }
    all.extend(from.map(|from| from..text.len()));
    all
}
