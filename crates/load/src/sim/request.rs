//! Requests to the simulated server: typed structs that retain a number for each word.

use super::image::ImageTokens;
use goodput_engine::blocks::token_of;
use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use std::fmt;

/// The fields of a request that the simulated server uses; like vLLM, it ignores any other. `T` collects the tokens.
#[derive(Debug, Deserialize)]
#[serde(bound = "T: Default + Extend<u64>")]
pub(super) struct ApiRequest<T = Vec<u64>> {
    pub(super) model: Option<String>,
    pub(super) messages: Option<Vec<Message<T>>>,
    pub(super) prompt: Option<Words<T>>,
    pub(super) input: Option<Words<T>>,
    pub(super) instructions: Option<Words<T>>,
    pub(super) system: Option<Words<T>>,
    pub(super) stream: Option<bool>,
    pub(super) stream_options: Option<StreamOptions>,
    pub(super) max_tokens: Option<u32>,
    pub(super) max_completion_tokens: Option<u32>,
    pub(super) max_output_tokens: Option<u32>,
    pub(super) min_tokens: Option<u32>,
    pub(super) n: Option<u32>,
    /// The prompt at TGI.
    pub(super) inputs: Option<Words<T>>,
    /// Settings at TGI.
    pub(super) parameters: Option<TgiParameters>,
    /// Settings at Ollama.
    pub(super) options: Option<OllamaOptions>,
}

/// The settings of a request to TGI.
#[derive(Debug, Deserialize)]
pub(super) struct TgiParameters {
    pub(super) max_new_tokens: Option<u32>,
}

/// The settings of a request to Ollama.
#[derive(Debug, Deserialize)]
pub(super) struct OllamaOptions {
    pub(super) num_predict: Option<u32>,
}

/// A message of a chat.
#[derive(Debug, Deserialize)]
#[serde(bound = "T: Default + Extend<u64>")]
pub(super) struct Message<T> {
    pub(super) content: Option<Words<T>>,
    pub(super) tool_calls: Option<Words<T>>,
}

/// The stream options of a request.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(super) struct StreamOptions {
    #[serde(default)]
    pub(super) include_usage: bool,
    #[serde(default)]
    pub(super) continuous_usage_stats: bool,
}

/// A prompt, or the content of a message: a text; a list of texts, parts, messages or token ids; or a list of such
/// lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Words<T = Vec<u64>> {
    /// The tokens: words separated by white space, and token ids.
    pub(super) tokens: T,
    /// Number of tokens.
    pub(super) count: usize,
    /// Number of texts and of id lists within a list.
    pub(super) texts: u32,
    /// Images: the index of the first token, and the number of tokens, which `count` includes.
    pub(super) images: Vec<(usize, u32)>,
    /// Number of images whose size cannot be told: without their file, or of another format than PNG and JPEG.
    pub(super) unreadable_images: u32,
}

/// Tokens that are counted and not kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Discarded;

impl Extend<u64> for Discarded {
    fn extend<I: IntoIterator<Item = u64>>(&mut self, tokens: I) {
        tokens.into_iter().for_each(drop);
    }
}

impl<'de, T: Default + Extend<u64>> Deserialize<'de> for Words<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let mut words = Self::default();
        Gather(&mut words).deserialize(d)?;
        Ok(words)
    }
}

/// Deserializer that adds all texts and ids to `Words`.
struct Gather<'a, T>(&'a mut Words<T>);

impl<'de, T: Extend<u64>> DeserializeSeed<'de> for Gather<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de, T: Extend<u64>> Visitor<'de> for Gather<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, token ids, or a list of them")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<(), E> {
        let Words { tokens, count, .. } = &mut *self.0;
        tokens.extend(text.split_ascii_whitespace().inspect(|_| *count += 1).map(token_of));
        self.0.texts = self.0.texts.saturating_add(1);
        Ok(())
    }

    fn visit_u64<E: de::Error>(self, token: u64) -> Result<(), E> {
        self.0.tokens.extend([token]);
        self.0.count += 1;
        Ok(())
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let before = self.0.texts;
        while list.next_element_seed(Gather(self.0))?.is_some() {}
        self.0.texts = self.0.texts.max(before.saturating_add(1));
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut part: A) -> Result<(), A::Error> {
        while let Some(key) = part.next_key::<String>()? {
            match key.as_str() {
                "text" | "content" | "output" | "function" | "name" | "arguments" => {
                    part.next_value_seed(Gather(self.0))?;
                }
                // The arguments of a call, which a model reads as JSON.
                "input" => {
                    let arguments: Box<RawValue> = part.next_value()?;
                    Gather(self.0).visit_str(arguments.get())?;
                }
                "image_url" | "source" => part.next_value_seed(GatherImage(self.0))?,
                _ => drop(part.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// Deserializer that adds the tokens of an image: a data URL, a map with one as its `url`, or a map with base64 as its `data`.
struct GatherImage<'a, T>(&'a mut Words<T>);

impl<'de, T: Extend<u64>> DeserializeSeed<'de> for GatherImage<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de, T: Extend<u64>> Visitor<'de> for GatherImage<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an image")
    }

    fn visit_str<E: de::Error>(self, image: &str) -> Result<(), E> {
        let words = self.0;
        match ImageTokens::of(image) {
            Some(ImageTokens { id, count }) => {
                words.tokens.extend(std::iter::repeat_n(id, count as usize));
                words.images.push((words.count, count));
                words.count += count as usize;
            }
            None => words.unreadable_images += 1,
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut part: A) -> Result<(), A::Error> {
        while let Some(key) = part.next_key::<String>()? {
            match key.as_str() {
                "url" | "data" => part.next_value_seed(GatherImage(self.0))?,
                _ => drop(part.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_counted() {
        for (json, tokens, texts) in [
            (r#""one two\n three""#, 3, 1),
            (r#""""#, 0, 1),
            ("[1, 22, 333]", 3, 1),
            (r#"["one two", "three"]"#, 3, 2),
            ("[[1, 2], [3]]", 3, 2),
            (
                r#"[{"type": "text", "text": "one two"}, {"type": "image_url", "image_url": {"url": "x y"}}]"#,
                2,
                1,
            ),
            (
                r#"[{"role": "user", "content": "one two"}, {"role": "assistant", "content": [{"type": "output_text", "text": "three"}]}]"#,
                3,
                2,
            ),
            (
                r#"[{"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1, "y": "b c"}}, {"type": "tool_result", "tool_use_id": "a", "content": "one"}]"#,
                7,
                3,
            ),
            (
                r#"[{"type": "function_call", "call_id": "a", "name": "f", "arguments": "{\"x\": 1}"}, {"type": "function_call_output", "call_id": "a", "output": "one"}]"#,
                4,
                3,
            ),
            ("[]", 0, 1),
        ] {
            let words: Words = serde_json::from_str(json).unwrap();
            assert_eq!((words.tokens.len(), words.count, words.texts), (tokens, tokens, texts), "{json}");
        }
        for json in ["true", "[-1]", r#"{"text": 1.5}"#] {
            assert!(serde_json::from_str::<Words>(json).is_err(), "{json}");
        }
    }
}
