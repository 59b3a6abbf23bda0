//! Excerpts of a plain text as prompts, with the token statistics of natural language.

use crate::files::StoredFile;
use crate::lengths::Lengths;
use anyhow::{Context, Result, bail};
use goodput_core::units::thousands;
use serde::{Deserialize, Serialize};
use std::io::BufRead;
use std::path::PathBuf;
use std::sync::Arc;

/// The plan's `[workload.prompts.text]` table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct TextTable {
    /// Path of a text in UTF-8.
    pub file: PathBuf,
    /// Lengths of the prompts.
    pub input_tokens: Lengths,
    /// Lengths of the answers.
    pub output_tokens: Lengths,
}

/// A text from which excerpts are taken. Cheap to clone; can be read from any thread, with only the excerpt in memory.
#[derive(Debug, Clone)]
pub struct TextCorpus {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    file: StoredFile,
    words: u64,
}

/// Longest UTF-8 encoding of a character, in bytes.
const MAX_CHAR_BYTES: usize = 4;
/// Longest run without white space that is treated as a word, in characters; longer ones may be cut anywhere.
const MAX_WORD_CHARS: usize = 64;

impl TextCorpus {
    /// Opens a text, checks that it is UTF-8, and counts its words.
    pub fn open(table: &TextTable) -> Result<Self> {
        let file = StoredFile::open(&table.file)?;
        let path = table.file.display();
        let mut input = file.reader();
        let (mut line, mut words) = (1u64, 0u64);
        let mut between = true;
        let mut rest: Vec<u8> = Vec::new();
        loop {
            let buf = input.fill_buf().with_context(|| format!("cannot read {path}"))?;
            let (n, end) = (buf.len(), buf.is_empty());
            rest.extend_from_slice(buf);
            let (valid, broken) = match std::str::from_utf8(&rest) {
                Ok(text) => (text.len(), false),
                // A character may continue in the next chunk.
                Err(e) => (e.valid_up_to(), e.error_len().is_some() || end),
            };
            for c in std::str::from_utf8(&rest[..valid]).unwrap_or_default().chars() {
                let blank = c.is_whitespace();
                words += u64::from(between && !blank);
                between = blank;
                line += u64::from(c == '\n');
            }
            if broken {
                bail!("{path}, line {line}: the text is not UTF-8");
            }
            if end {
                break;
            }
            rest.drain(..valid);
            input.consume(n);
        }
        drop(input);
        if words == 0 {
            bail!("{path} contains no words");
        }
        Ok(Self { inner: Arc::new(Inner { file, words }) })
    }

    /// Returns the number of words.
    pub fn words(&self) -> u64 {
        self.inner.words
    }

    /// Describes the text: `12,345 words of book.txt (text)`.
    pub fn title(&self) -> String {
        let name = self.inner.file.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        format!("{} words of {name} (text)", thousands(self.words() as f64))
    }

    /// Returns an excerpt from the first word that begins at or after byte `at` (modulo the length of the text, so that
    /// any random number works), of whole words with a total length as close as possible to `chars` characters. Scripts
    /// without spaces are cut between characters. Continues at the start of the text after its end; never empty.
    ///
    /// Fails if the file has changed since it was opened.
    pub fn excerpt(&self, at: u64, chars: usize) -> Result<String> {
        let (begin, length) = (self.inner.file.start(), self.inner.file.len() - self.inner.file.start());
        let mut at = at % length;
        let wanted = chars.saturating_mul(2);
        let mut excerpt = Excerpt { wanted: chars, after_blank: at == 0, ..Excerpt::default() };
        // One byte earlier, to know if a word begins at `at`.
        at = at.saturating_sub(1);
        let mut bytes = Vec::new();
        while !excerpt.full {
            let n = (wanted.clamp(4096, 1 << 20) as u64).min(length - at) as usize;
            let kept = bytes.len();
            bytes.resize(kept + n, 0);
            let read = self.inner.file.read_at(begin + at, &mut bytes[kept..]);
            read.with_context(|| format!("cannot read {}", self.inner.file.path().display()))?;
            at = (at + n as u64) % length;
            let text = take_valid_utf8(&mut bytes)?;
            excerpt.push(&text);
            if at == 0 {
                // The end of the text also ends its last word.
                excerpt.push("\n");
            }
        }
        Ok(excerpt.text)
    }
}

/// Takes the complete characters from the front of `bytes`. Drops the rest of a character that began earlier, and
/// leaves the start of one that ends later.
fn take_valid_utf8(bytes: &mut Vec<u8>) -> Result<String> {
    let torn = bytes.iter().take(MAX_CHAR_BYTES - 1).take_while(|b| **b & 0xc0 == 0x80).count();
    bytes.drain(..torn);
    let end = match std::str::from_utf8(bytes) {
        Ok(text) => text.len(),
        Err(e) if e.error_len().is_none() => e.valid_up_to(),
        Err(_) => bail!("the text is no longer UTF-8: has the file changed since it was opened?"),
    };
    let rest = bytes.split_off(end);
    Ok(String::from_utf8(std::mem::replace(bytes, rest))?)
}

/// An excerpt under construction.
#[derive(Default)]
struct Excerpt {
    /// Requested number of characters.
    wanted: usize,
    text: String,
    chars: usize,
    /// Bytes and characters of the text up to the end of the last complete word.
    complete: (usize, usize),
    /// Characters skipped before the first word.
    skipped: usize,
    begun: bool,
    /// True at the start of the text and after white space.
    after_blank: bool,
    full: bool,
}

impl Excerpt {
    fn push(&mut self, text: &str) {
        for c in text.chars() {
            if self.full {
                return;
            }
            let blank = c.is_whitespace();
            if !self.begun {
                self.skipped += 1;
                self.begun = !blank && (self.after_blank || self.skipped > MAX_WORD_CHARS);
                self.after_blank = blank;
                if !self.begun {
                    continue;
                }
            } else if !self.after_blank && blank {
                self.end_word();
            }
            self.after_blank = blank;
            if !self.full {
                self.text.push(c);
                self.chars += 1;
                self.end_long_word();
            }
        }
    }

    /// Ends a word. If the excerpt is long enough, finishes it after this word or the one before, whichever is closer
    /// to the requested length.
    fn end_word(&mut self) {
        let n = self.wanted;
        if self.chars >= n {
            let (end, before) = self.complete;
            if end > 0 && n - before.min(n) < self.chars - n {
                self.text.truncate(end);
            }
            self.full = true;
        }
        self.complete = (self.text.len(), self.chars);
    }

    /// Cuts a very long word far beyond the requested length: at the previous word if that is near, else inside it.
    fn end_long_word(&mut self) {
        let n = self.wanted;
        let (end, before) = self.complete;
        if self.chars < n.saturating_add(MAX_WORD_CHARS) {
            return;
        }
        // Trailing white space is cut too.
        if end > 0 && n - before.min(n) < MAX_WORD_CHARS {
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
        // Read through its handle even after the file is deleted.
        TextCorpus::open(&table(file.path())).unwrap()
    }

    fn table(path: &std::path::Path) -> TextTable {
        let text =
            format!("file = {path:?}\ninput-tokens = {{ fixed = 9 }}\noutput-tokens = {{ fixed = 3 }}");
        toml::from_str(&text).unwrap()
    }

    #[test]
    fn excerpts_begin_and_end_with_words() {
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
            assert_eq!(c.excerpt(at, chars).unwrap(), expected, "{at} {chars}");
        }
    }

    #[test]
    fn scripts_without_spaces_are_cut_between_characters() {
        let c = corpus(&"东京大学法学部".repeat(300));
        for n in [1, 10, 500] {
            let excerpt = c.excerpt(7, n).unwrap();
            assert_eq!(excerpt.chars().count(), n);
        }
        let mixed = corpus(&format!("short {}", "é".repeat(2000)));
        let excerpt = mixed.excerpt(0, 1000).unwrap();
        assert!(
            excerpt.starts_with("short éé") && excerpt.chars().count() == 1000,
            "{}",
            excerpt.chars().count()
        );
    }

    #[test]
    fn unusable_texts_are_rejected() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (bytes, message) in [
            (&b"one\ntwo \xff three"[..], "line 2: the text is not UTF-8"),
            (b"cut \xe4\xb8", "line 1: the text is not UTF-8"),
            (b" \n ", "contains no words"),
            (b"", "contains no words"),
        ] {
            std::fs::write(file.path(), bytes).unwrap();
            let error = format!("{:#}", TextCorpus::open(&table(file.path())).unwrap_err());
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn excerpts_of_a_long_text_have_the_requested_length() {
        let text: String = (0..20_000)
            .map(|i| ["the", "lamp", "étude", "harbour", "a"][i * 7 % 5])
            .collect::<Vec<_>>()
            .join(" ");
        let c = corpus(&text);
        for at in [0, 999, 50_000, text.len() as u64 - 3] {
            let excerpt = c.excerpt(at, 4_000).unwrap();
            assert!(excerpt.chars().count().abs_diff(4_000) < 8, "{}", excerpt.chars().count());
        }
    }

    proptest! {
        #[test]
        fn excerpts_consist_of_words_of_the_text(
            words in proptest::collection::vec("[a-zé中]{1,9}", 1..40), at: u64, n in 1usize..300,
        ) {
            let text = words.join(" ");
            let c = corpus(&text);
            let excerpt = c.excerpt(at, n).unwrap();
            let got: Vec<&str> = excerpt.split_whitespace().collect();
            prop_assert!(!got.is_empty() && got.iter().all(|w| words.iter().any(|x| x == w)), "{}", excerpt);
            // No word exceeds nine characters, so none is cut.
            prop_assert!(excerpt.chars().count().abs_diff(n) <= 9, "{} for {}", excerpt, n);
        }
    }
}
