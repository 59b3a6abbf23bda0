//! Plain text cut to lengths: prompts of natural words, whose tokens are as in real text.

use super::open::Blob;
use crate::lengths::Lengths;
use anyhow::{Context, Result, bail};
use goodput_core::units::thousands;
use serde::{Deserialize, Serialize};
use std::io::BufRead;
use std::path::PathBuf;
use std::sync::Arc;

/// `[workload.prompts.text]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct TextTable {
    /// A text in UTF-8.
    pub file: PathBuf,
    /// Lengths of the prompts.
    pub input_tokens: Lengths,
    /// Lengths of the answers.
    pub output_tokens: Lengths,
}

/// A text from which prompts are cut. Cheap to clone, and read from any thread; only what is cut is in memory.
#[derive(Debug, Clone)]
pub struct TextCorpus {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    blob: Blob,
    words: u64,
}

/// Bytes of a character at most.
const WIDEST: usize = 4;
/// What goes on for longer without a blank is no word, and may be cut anywhere.
const LONGEST_WORD: usize = 64;

impl TextCorpus {
    /// Opens a text, checks that it is UTF-8 and counts its words.
    pub fn open(table: &TextTable) -> Result<Self> {
        let blob = Blob::open(&table.file)?;
        let path = table.file.display();
        let mut input = blob.reader();
        let (mut line, mut words) = (1u64, 0u64);
        let mut between = true;
        let mut rest: Vec<u8> = Vec::new();
        loop {
            let buf = input.fill_buf().with_context(|| format!("cannot read {path}"))?;
            let (n, end) = (buf.len(), buf.is_empty());
            rest.extend_from_slice(buf);
            let (valid, broken) = match std::str::from_utf8(&rest) {
                Ok(text) => (text.len(), false),
                // A character may go on in the next piece.
                Err(e) => (e.valid_up_to(), e.error_len().is_some() || end),
            };
            for c in std::str::from_utf8(&rest[..valid]).unwrap_or_default().chars() {
                let blank = c.is_whitespace();
                words += u64::from(between && !blank);
                between = blank;
                line += u64::from(c == '\n');
            }
            if broken {
                bail!("{path}, line {line}: the text is no UTF-8");
            }
            if end {
                break;
            }
            rest.drain(..valid);
            input.consume(n);
        }
        drop(input);
        if words == 0 {
            bail!("{path} holds no words");
        }
        Ok(Self { inner: Arc::new(Inner { blob, words }) })
    }

    /// Words of the text.
    pub fn words(&self) -> u64 {
        self.inner.words
    }

    /// `12,345 words of book.txt (text)`.
    pub fn title(&self) -> String {
        let name = self.inner.blob.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        format!("{} words of {name} (text)", thousands(self.words() as f64))
    }

    /// Cuts a piece out of the text: from the first word that begins at or behind byte `at` (taken modulo the length, so that any random
    /// number will do), as many whole words as come closest to so many characters. Scripts without blanks are cut between
    /// characters. It goes on at the beginning where the text ends; never empty.
    ///
    /// Fails where the file has changed since it was opened.
    pub fn cut(&self, at: u64, chars: usize) -> Result<String> {
        let (begin, length) = (self.inner.blob.start(), self.inner.blob.len() - self.inner.blob.start());
        let mut at = at % length;
        let wanted = chars.saturating_mul(2);
        let mut piece = Piece::new(chars, at == 0);
        // One byte before, to see whether a word begins at `at`.
        at = at.saturating_sub(1);
        let mut bytes = Vec::new();
        while !piece.full {
            let n = (wanted.clamp(4096, 1 << 20) as u64).min(length - at) as usize;
            let kept = bytes.len();
            bytes.resize(kept + n, 0);
            let read = self.inner.blob.read_at(begin + at, &mut bytes[kept..]);
            read.with_context(|| format!("cannot read {}", self.inner.blob.path().display()))?;
            at = (at + n as u64) % length;
            let text = valid(&mut bytes)?;
            piece.push(&text);
            if at == 0 {
                // The last word of the text ends where the text does.
                piece.push("\n");
            }
        }
        Ok(piece.text)
    }
}

/// Takes the whole characters off the front; bytes of a character that began before the piece are dropped, those of one that
/// ends behind it stay.
fn valid(bytes: &mut Vec<u8>) -> Result<String> {
    let torn = bytes.iter().take(WIDEST - 1).take_while(|b| **b & 0xc0 == 0x80).count();
    bytes.drain(..torn);
    let end = match std::str::from_utf8(bytes) {
        Ok(text) => text.len(),
        Err(e) if e.error_len().is_none() => e.valid_up_to(),
        Err(_) => bail!("the text is no UTF-8 any more: has the file changed since it was opened?"),
    };
    let rest = bytes.split_off(end);
    Ok(String::from_utf8(std::mem::replace(bytes, rest))?)
}

/// A piece as it grows.
struct Piece {
    /// Characters that it is to have.
    wanted: usize,
    text: String,
    chars: usize,
    /// Length and characters of the text up to the end of the last whole word.
    whole: (usize, usize),
    /// Characters passed over before the first word.
    skipped: usize,
    begun: bool,
    /// Whether what came last is a blank, or the beginning of the text.
    blank: bool,
    full: bool,
}

impl Piece {
    const fn new(wanted: usize, first: bool) -> Self {
        Self {
            wanted,
            text: String::new(),
            chars: 0,
            whole: (0, 0),
            skipped: 0,
            begun: false,
            blank: first,
            full: false,
        }
    }

    fn push(&mut self, text: &str) {
        for c in text.chars() {
            if self.full {
                return;
            }
            let blank = c.is_whitespace();
            if !self.begun {
                self.skipped += 1;
                self.begun = !blank && (self.blank || self.skipped > LONGEST_WORD);
                self.blank = blank;
                if !self.begun {
                    continue;
                }
            } else if !self.blank && blank {
                self.end_word();
            }
            self.blank = blank;
            if !self.full {
                self.text.push(c);
                self.chars += 1;
                self.end_long_word();
            }
        }
    }

    /// A word is whole: it is the last, or the one before was, if that comes closer.
    fn end_word(&mut self) {
        let n = self.wanted;
        if self.chars >= n {
            let (end, before) = self.whole;
            if end > 0 && n - before.min(n) < self.chars - n {
                self.text.truncate(end);
            }
            self.full = true;
        }
        self.whole = (self.text.len(), self.chars);
    }

    /// What goes on without a blank far past the end is cut, at the word before if that is near.
    fn end_long_word(&mut self) {
        let n = self.wanted;
        let (end, before) = self.whole;
        if self.chars < n.saturating_add(LONGEST_WORD) {
            return;
        }
        // Blanks before the word are part of what is cut.
        if end > 0 && n - before.min(n) < LONGEST_WORD {
            self.text.truncate(end);
        } else {
            let cut = self.text.char_indices().nth(n.max(1)).map_or(self.text.len(), |(i, _)| i);
            self.text.truncate(cut);
            let trimmed = self.text.trim_end().len();
            self.text.truncate(trimmed);
        }
        self.full = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn corpus(text: &str) -> TextCorpus {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        // The file is read through its handle: it may be gone by then.
        TextCorpus::open(&table(file.path())).unwrap()
    }

    fn table(path: &std::path::Path) -> TextTable {
        let text =
            format!("file = {path:?}\ninput-tokens = {{ fixed = 9 }}\noutput-tokens = {{ fixed = 3 }}");
        toml::from_str(&text).unwrap()
    }

    #[test]
    fn pieces_begin_and_end_with_words() {
        let c = corpus("one two  three\nfour five");
        assert_eq!(c.words(), 5);
        for (at, chars, expected) in [
            (0, 7, "one two"),
            (0, 9, "one two"),
            (0, 12, "one two  three"),
            (0, 1, "one"),
            (0, 0, "one"),
            (1, 3, "two"),
            (4, 15, "two  three\nfour"),
            (21, 8, "one two"),
            (20, 8, "five\none"),
            (24, 3, "one"),
            (0, 32, "one two  three\nfour five\none two"),
            (u64::MAX, 4, "four"),
        ] {
            assert_eq!(c.cut(at, chars).unwrap(), expected, "{at} {chars}");
        }
    }

    #[test]
    fn scripts_without_blanks_are_cut_between_characters() {
        let c = corpus(&"东京大学法学部".repeat(300));
        for n in [1, 10, 500] {
            let piece = c.cut(7, n).unwrap();
            assert_eq!(piece.chars().count(), n);
        }
        let mixed = corpus(&format!("short {}", "é".repeat(2000)));
        let piece = mixed.cut(0, 1000).unwrap();
        assert!(piece.starts_with("short éé") && piece.chars().count() == 1000, "{}", piece.chars().count());
    }

    #[test]
    fn texts_that_cannot_be_used() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (bytes, say) in [
            (&b"one\ntwo \xff three"[..], "line 2: the text is no UTF-8"),
            (b"cut \xe4\xb8", "line 1: the text is no UTF-8"),
            (b" \n ", "holds no words"),
            (b"", "holds no words"),
        ] {
            std::fs::write(file.path(), bytes).unwrap();
            let error = format!("{:#}", TextCorpus::open(&table(file.path())).unwrap_err());
            assert!(error.contains(say), "{error}");
        }
    }

    #[test]
    fn pieces_of_a_long_text_have_the_length_asked_for() {
        let text: String = (0..20_000)
            .map(|i| ["the", "lamp", "étude", "harbour", "a"][i * 7 % 5])
            .collect::<Vec<_>>()
            .join(" ");
        let c = corpus(&text);
        for at in [0, 999, 50_000, text.len() as u64 - 3] {
            let piece = c.cut(at, 4_000).unwrap();
            assert!(piece.chars().count().abs_diff(4_000) < 8, "{}", piece.chars().count());
        }
    }

    proptest! {
        #[test]
        fn any_place_and_size_gives_words_of_the_text(
            words in proptest::collection::vec("[a-zé中]{1,9}", 1..40), at: u64, n in 1usize..300,
        ) {
            let text = words.join(" ");
            let c = corpus(&text);
            let piece = c.cut(at, n).unwrap();
            let got: Vec<&str> = piece.split_whitespace().collect();
            prop_assert!(!got.is_empty() && got.iter().all(|w| words.iter().any(|x| x == w)), "{}", piece);
            // No word is longer than nine, so none is cut.
            prop_assert!(piece.chars().count().abs_diff(n) <= 9, "{} for {}", piece, n);
        }
    }
}
