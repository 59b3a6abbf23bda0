//! Result files: plain or compressed JSON as written by Python.

use anyhow::{Context, Result, anyhow, bail};
use goodput_workload::open_packed;
use serde::de::{DeserializeOwned, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

/// Maximum uncompressed size in bytes of a file that is one JSON value, because it is held in memory.
const LARGEST: u64 = 256 << 20;
/// Maximum uncompressed size in bytes of a file with figures of a run but no requests.
const LARGEST_SUMMARY: u64 = 16 << 20;
/// Maximum size in bytes of figures with arbitrary names among the requests.
const LARGEST_FIGURES: usize = 4 << 20;
/// Maximum number of requests in a list: an entry may take as little as two bytes of text.
const MOST: usize = 3_000_000;
/// Maximum number of keys of an object that are examined.
const MOST_KEYS: usize = 1_000;

/// The text of a file, with its path.
#[derive(Debug)]
pub(crate) struct Text {
    path: PathBuf,
    text: String,
}

impl Text {
    /// Reads a file and decompresses it if needed.
    ///
    /// # Errors
    /// Fails if the file cannot be read, is not UTF-8, or is too large; the message names it.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        Self::up_to(LARGEST, path)
    }

    /// Reads a file with the figures of a run, which must be small.
    ///
    /// # Errors
    /// Fails like [`Text::read`].
    pub(crate) fn summary(path: &Path) -> Result<Self> {
        Self::up_to(LARGEST_SUMMARY, path)
    }

    fn up_to(most: u64, path: &Path) -> Result<Self> {
        let mut text = String::new();
        let input = open_packed(path)?;
        let read = input.take(most + 1).read_to_string(&mut text);
        read.with_context(|| format!("cannot read {}", path.display()))?;
        if text.len() as u64 > most {
            bail!(
                "{} is one JSON value of more than {} MiB unpacked, which would have to be in memory as a whole: import its parts, or \
                 measure with fewer requests a file",
                path.display(),
                most >> 20
            );
        }
        Ok(Self { path: path.to_owned(), text })
    }

    /// Makes a text without a file, for tests.
    #[cfg(test)]
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self { path: path.into(), text: text.to_owned() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Parses the text as JSON. Python writes `NaN` and `Infinity`, which are not JSON: they are read as unknown.
    pub(crate) fn parse<T: DeserializeOwned>(&self, as_what: &str) -> Result<T> {
        let unread =
            |e: serde_json::Error| anyhow!("{} cannot be read as {as_what}: {e}", self.path.display());
        match serde_json::from_str(&self.text) {
            Ok(value) => Ok(value),
            Err(e) => match without_nan(&self.text) {
                Some(cleaned) => serde_json::from_str(&cleaned).map_err(unread),
                None => Err(unread(e)),
            },
        }
    }
}

/// Returns the text with `null` in place of `NaN`, `Infinity` and `-Infinity`; `None` if it contains none of them.
fn without_nan(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let (mut in_string, mut escaped, mut found) = (false, false, false);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if in_string {
            (in_string, escaped) = (escaped || c != '"', !escaped && c == '\\');
        } else if let Some(word) = ["-Infinity", "Infinity", "NaN"].into_iter().find(|w| rest.starts_with(w))
        {
            out.push_str("null");
            found = true;
            rest = &rest[word.len()..];
            continue;
        } else {
            in_string = c == '"';
        }
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    found.then_some(out)
}

/// The keys of a JSON object, without their values.
struct Keys(Vec<String>);

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Names;
        impl<'de> Visitor<'de> for Names {
            type Value = Keys;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Keys, A::Error> {
                let mut keys = Vec::new();
                while let Some((key, _)) = map.next_entry::<String, IgnoredAny>()? {
                    if keys.len() < MOST_KEYS {
                        keys.push(key);
                    }
                }
                Ok(Keys(keys))
            }
        }
        from.deserialize_map(Names)
    }
}

/// The first object of a list; the others are skipped.
struct First(Option<Keys>);

impl<'de> Deserialize<'de> for First {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = First;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of JSON objects")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<First, A::Error> {
                let first = seq.next_element()?;
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(First(first))
            }
        }
        from.deserialize_seq(Entries)
    }
}

/// A list with an entry for each request: at most [`MOST`], because an entry takes far more memory than text.
pub(super) struct List<T>(pub(super) Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Entries<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = List<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list with an entry for each request")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<List<T>, A::Error> {
                let mut all = Vec::new();
                while let Some(one) = seq.next_element()? {
                    if all.len() == MOST {
                        return Err(A::Error::custom("a list has more than three million entries"));
                    }
                    all.push(one);
                }
                Ok(List(all))
            }
        }
        from.deserialize_seq(Entries(PhantomData))
    }
}

/// Figures with arbitrary names, limited in size whatever the file contains.
#[derive(Default)]
pub(super) struct Figures(pub(super) Value);

impl<'de> Deserialize<'de> for Figures {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(from)?;
        if raw.get().len() > LARGEST_FIGURES {
            return Err(D::Error::custom("more than 4 MiB stand where a few figures are expected"));
        }
        serde_json::from_str(raw.get()).map(Self).map_err(D::Error::custom)
    }
}

/// Returns the keys of the file's object, or of the first object of the file's list.
///
/// # Errors
/// Fails if the file is neither.
pub(crate) fn keys(text: &Text) -> Result<(Vec<String>, bool)> {
    if text.text().trim_start().starts_with('[') {
        let first: First = text.parse("results of a benchmark")?;
        return Ok((first.0.map(|k| k.0).unwrap_or_default(), true));
    }
    Ok((text.parse::<Keys>("a result of a benchmark")?.0, false))
}

/// A number, or another value that is skipped.
#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Some(f64),
    Other(IgnoredAny),
}

/// Returns the numbers under the wanted top-level keys.
pub(crate) fn numbers(text: &Text, wanted: impl Fn(&str) -> bool) -> Result<BTreeMap<String, f64>> {
    struct All<F>(F);
    impl<'de, F: Fn(&str) -> bool> Visitor<'de> for All<F> {
        type Value = BTreeMap<String, f64>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a JSON object")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut found = BTreeMap::new();
            while let Some(key) = map.next_key::<String>()? {
                if !(self.0)(&key) {
                    map.next_value::<IgnoredAny>()?;
                } else if let Number::Some(x) = map.next_value()?
                    && found.len() < MOST_KEYS
                {
                    found.insert(key, x);
                }
            }
            Ok(found)
        }
    }
    let read = |text: &str| serde_json::Deserializer::from_str(text).deserialize_map(All(&wanted));
    let first = read(text.text());
    first
        .or_else(|e| without_nan(text.text()).map_or(Err(e), |cleaned| read(&cleaned)))
        .with_context(|| format!("cannot read {}", text.path().display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_python_writes_is_read() {
        let text =
            Text::new("x.json", r#"{"a": NaN, "b": "NaN \" Infinity", "c": [-Infinity, 1.5], "d": 2}"#);
        let value: serde_json::Value = text.parse("it").unwrap();
        assert_eq!(value, serde_json::json!({"a": null, "b": "NaN \" Infinity", "c": [null, 1.5], "d": 2}));
        assert_eq!(keys(&text).unwrap(), (["a", "b", "c", "d"].map(str::to_owned).to_vec(), false));
        assert_eq!(numbers(&text, |k| k != "b").unwrap(), [("d".to_owned(), 2.0)].into());
    }

    /// Row: content that compresses well, and the error; parsed, it would take many times its length in memory.
    #[test]
    fn a_small_file_does_not_fill_the_memory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.json.gz");
        let packed = |head: &str, piece: &str, times: usize, tail: &str| {
            let file = std::fs::File::create(&path).unwrap();
            let mut out = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
            let many = piece.repeat(1 << 16);
            out.write_all(head.as_bytes()).unwrap();
            (0..times >> 16).for_each(|_| out.write_all(many.as_bytes()).unwrap());
            out.write_all(tail.as_bytes()).unwrap();
            out.finish().unwrap();
        };
        packed("[", "                ", 1 << 24, "1]");
        let e = Text::read(&path).unwrap_err().to_string();
        assert!(e.contains("more than 256 MiB unpacked") && e.contains("x.json.gz"), "{e}");
        let e = Text::summary(&path).unwrap_err().to_string();
        assert!(e.contains("more than 16 MiB"), "{e}");
        packed("[{\"start_time\":1}", ",{}", 1 << 22, "]");
        let text = Text::read(&path).unwrap();
        assert_eq!(keys(&text).unwrap(), (vec!["start_time".into()], true), "the first one alone is kept");
        #[derive(Deserialize)]
        struct Any {}
        let e = text.parse::<List<Any>>("it").err().unwrap().to_string();
        assert!(e.contains("three million"), "{e}");
        packed("[1", ",1", 1 << 22, "]");
        let e = Text::read(&path).unwrap().parse::<Figures>("it").err().unwrap().to_string();
        assert!(e.contains("4 MiB"), "{e}");
        let few = Text::new("x", "{\"a\": [1, NaN]}").parse::<Figures>("it").unwrap();
        assert_eq!(few.0, serde_json::json!({"a": [1, null]}));
    }

    #[test]
    fn mistakes_name_the_file() {
        for bad in ["", "[1]", "\"x\"", "{\"a\": ", "{\"a\": NaN"] {
            let e = format!("{:#}", keys(&Text::new("dir/x.json", bad)).unwrap_err());
            assert!(e.contains("dir/x.json"), "{bad}: {e}");
        }
    }
}
