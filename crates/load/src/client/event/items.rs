//! Parses answers with a result for each item of a request.

use super::wire::{IsError, WireUsage, error_of};
use super::{Event, Parsed};
use serde::de::{DeserializeOwned, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::fmt;

/// A document with results of one kind.
#[derive(serde::Deserialize)]
struct Document<T> {
    #[serde(alias = "results")]
    data: Option<Vec<Option<T>>>,
    usage: Option<WireUsage>,
    error: Option<Value>,
    #[serde(default)]
    object: IsError,
    message: Option<Value>,
}

/// The number of values in a vector: of numbers in nested lists, or of bytes in base64. Nothing is retained of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::client) struct VectorSize(pub(in crate::client) u64);

/// Parses a complete answer, whose results are in `data` or `results` and satisfy `is_result`. It is malformed if it is
/// not a JSON object, or has neither results nor an error.
pub(in crate::client) fn parse_items<T: DeserializeOwned>(body: &[u8], is_result: fn(&T) -> bool) -> Parsed {
    let Ok(document) = serde_json::from_slice::<Document<T>>(body) else { return Parsed::Malformed };
    let error = error_of(document.error.as_ref(), &document.object, document.message.as_ref());
    let usage = document.usage.map(WireUsage::usage);
    let Some(results) = document.data else {
        return error.map_or(Parsed::Malformed, |error| {
            Parsed::Event(Event { error: Some(error), usage, ..Event::default() })
        });
    };
    let results = results.iter().flatten().filter(|result| is_result(result)).count() as u32;
    Parsed::Event(Event { results, error, usage, ..Event::default() })
}

impl<'de> serde::Deserialize<'de> for VectorSize {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(SizeVisitor)
    }
}

struct SizeVisitor;

impl<'de> Visitor<'de> for SizeVisitor {
    type Value = VectorSize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a vector")
    }

    fn visit_f64<E>(self, _: f64) -> Result<VectorSize, E> {
        Ok(VectorSize(1))
    }

    fn visit_u64<E>(self, _: u64) -> Result<VectorSize, E> {
        Ok(VectorSize(1))
    }

    fn visit_i64<E>(self, _: i64) -> Result<VectorSize, E> {
        Ok(VectorSize(1))
    }

    fn visit_str<E>(self, base64: &str) -> Result<VectorSize, E> {
        Ok(VectorSize(base64.len() as u64 / 4 * 3))
    }

    fn visit_bool<E>(self, _: bool) -> Result<VectorSize, E> {
        Ok(VectorSize(0))
    }

    fn visit_unit<E>(self) -> Result<VectorSize, E> {
        Ok(VectorSize(0))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<VectorSize, A::Error> {
        let mut size = 0;
        while let Some(VectorSize(n)) = list.next_element()? {
            size += n;
        }
        Ok(VectorSize(size))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<VectorSize, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(VectorSize(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(body: &str) -> Parsed {
        parse_items(body.as_bytes(), |size: &VectorSize| size.0 > 0)
    }

    #[test]
    fn results_are_counted() {
        for (body, results) in [
            (r#"{"data":[[0.5,-1],[1]]}"#, 2),
            (r#"{"results":["AAAA",[[1,2],[3]]],"meta":{"billed_units":{"search_units":1}}}"#, 2),
            (r#"{"data":[null,[],"",{},true,[null]]}"#, 0),
            (r#"{"data":[]}"#, 0),
        ] {
            let Parsed::Event(event) = parse(body) else { panic!("{body}") };
            assert_eq!((event.results, event.error, event.has_choice), (results, None, false), "{body}");
        }
        let Parsed::Event(event) =
            parse(r#"{"data":[[1]],"usage":{"prompt_tokens":7,"total_tokens":7,"completion_tokens":0}}"#)
        else {
            panic!("usage")
        };
        assert_eq!(event.usage.and_then(|u| u.prompt), Some(7));
    }

    #[test]
    fn errors_and_other_documents_are_told_apart() {
        for (body, error) in [
            (r#"{"error":{"message":"too long"}}"#, "too long"),
            (r#"{"object":"error","message":"no such model"}"#, "no such model"),
        ] {
            let Parsed::Event(event) = parse(body) else { panic!("{body}") };
            assert_eq!(event.error.as_deref(), Some(error));
        }
        for body in ["", "[]", "7", r#"{"data":null}"#, r#"{"choices":[{"text":"a"}]}"#, r#"{"data":[[1]}"#] {
            assert_eq!(parse(body), Parsed::Malformed, "{body}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed(body in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = parse_items(&body, |size: &VectorSize| size.0 > 0);
        }
    }
}
