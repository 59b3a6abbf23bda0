//! Encodes requests with an audio file as forms (`multipart/form-data`, RFC 7578).

use crate::client::dialect::Dialect;
use crate::client::encoder::Pinning;
use crate::client::payload::{Expected, Payload};
use bytes::Bytes;
use goodput_core::endpoint::Api;
use goodput_workload::audio::Clip;
use serde_json::{Map, Value};

/// The boundary between the parts of a form. It is all letters, which generated audio has no two of in a row, and too long to occur in
/// recordings or in fields by chance.
macro_rules! boundary {
    () => {
        "goodputFormBoundaryQwZrTkVbNxLmHsJcPdFg"
    };
}

/// Content type of a form.
pub(crate) const FORM_TYPE: &str = concat!("multipart/form-data; boundary=", boundary!());
/// The end of a form, after its last part.
const END: &str = concat!("\r\n--", boundary!(), "--\r\n");

/// Encoder of forms for one model.
#[derive(Debug, Clone)]
pub(super) struct FormEncoder {
    /// Fields of all requests.
    fields: Map<String, Value>,
    /// The form up to the contents of the file.
    prefix: Bytes,
}

impl FormEncoder {
    /// Makes an encoder. Fields of `extra` replace those that goodput sets.
    pub(super) fn new(api: Api, model: &str, extra: &Map<String, Value>) -> Self {
        let mut fields = (Dialect::of(api).fields)(model, Pinning::NONE, false);
        fields.extend(extra.iter().map(|(k, v)| (k.clone(), v.clone())));
        Self::of(fields)
    }

    fn of(fields: Map<String, Value>) -> Self {
        let mut out = String::new();
        for (name, value) in &fields {
            match value {
                Value::Array(values) => {
                    values.iter().for_each(|value| field(&mut out, &list_name(name), value))
                }
                value => field(&mut out, name, value),
            }
        }
        part(&mut out, "file", "; filename=\"audio.wav\"\r\nContent-Type: audio/wav");
        Self { fields, prefix: out.into() }
    }

    /// Returns an encoder for another model, with further fields.
    pub(super) fn varied(&self, model: Option<&str>, extra: &Map<String, Value>) -> Self {
        let mut fields = self.fields.clone();
        fields.extend(model.map(|model| ("model".into(), model.into())));
        fields.extend(extra.iter().map(|(k, v)| (k.clone(), v.clone())));
        Self::of(fields)
    }

    /// Returns the form up to the contents of the file.
    pub(super) fn prefix(&self) -> Bytes {
        self.prefix.clone()
    }

    /// Writes a request.
    pub(super) fn request(&self, clip: &Clip) -> Payload {
        let mut tail = Vec::with_capacity(clip.wav.len() + END.len());
        tail.extend_from_slice(&clip.wav);
        tail.extend_from_slice(END.as_bytes());
        Payload::new(self.prefix(), tail.into(), None, Some(Expected::Audio(clip.length)))
    }
}

/// Returns the name of a field that occurs once for each value of a list, as OpenAI's clients write it.
fn list_name(name: &str) -> String {
    if name.ends_with("[]") { name.to_owned() } else { format!("{name}[]") }
}

/// Appends a field with a value: text as it is, and anything else as JSON. A null is left out.
fn field(out: &mut String, name: &str, value: &Value) {
    let text = match value {
        Value::Null => return,
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    part(out, name, "");
    out.push_str(&text);
}

/// Appends the head of a part, after the end of the one before.
fn part(out: &mut String, name: &str, more: &str) {
    // As browsers escape names (HTML, "multipart/form-data encoding algorithm").
    let name = name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A");
    let before = if out.is_empty() { "" } else { "\r\n" };
    out.push_str(&format!(
        "{before}--{}\r\nContent-Disposition: form-data; name=\"{name}\"{more}\r\n\r\n",
        boundary!()
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn encoder(extra: Value) -> FormEncoder {
        FormEncoder::new(Api::Transcriptions, "m", extra.as_object().unwrap())
    }

    fn body(payload: &Payload) -> Vec<u8> {
        [&payload.head[..], &payload.tail].concat()
    }

    #[test]
    fn a_form_has_the_fields_and_the_file() {
        let clip = Clip { wav: b"RIFF\r\n\0\xff".to_vec(), length: std::time::Duration::from_secs(3) };
        let form = encoder(json!({ "language": "en", "temperature": 0.5, "skip": null }));
        let payload = form.request(&clip);
        let b = boundary!();
        let expected = [
            format!("--{b}\r\nContent-Disposition: form-data; name=\"language\"\r\n\r\nen\r\n"),
            format!("--{b}\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n"),
            format!("--{b}\r\nContent-Disposition: form-data; name=\"response_format\"\r\n\r\njson\r\n"),
            format!("--{b}\r\nContent-Disposition: form-data; name=\"temperature\"\r\n\r\n0.5\r\n"),
            format!("--{b}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"audio.wav\"\r\n"),
            "Content-Type: audio/wav\r\n\r\n".to_owned(),
        ];
        let expected =
            [expected.concat().as_bytes(), &clip.wav, format!("\r\n--{b}--\r\n").as_bytes()].concat();
        assert_eq!(String::from_utf8_lossy(&body(&payload)), String::from_utf8_lossy(&expected));
        assert_eq!(payload.expected, Some(Expected::Audio(clip.length)));
        assert_eq!(payload.head, form.prefix(), "requests share the beginning");
        assert!(FORM_TYPE.ends_with(&format!("boundary={b}")) && b.len() <= 70, "as RFC 2046 limits it");
        assert!(b.bytes().all(|byte| byte.is_ascii_alphabetic()));
    }

    #[test]
    fn lists_and_names_are_written_as_clients_write_them() {
        let form =
            encoder(json!({ "timestamp_granularities": ["word", "segment"], "x[]": [1], "a\"\r\nb": true }));
        let text = String::from_utf8(form.prefix.to_vec()).unwrap();
        for (part, times) in [
            ("name=\"timestamp_granularities[]\"\r\n\r\nword\r\n", 1),
            ("name=\"timestamp_granularities[]\"\r\n\r\nsegment\r\n", 1),
            ("name=\"x[]\"\r\n\r\n1\r\n", 1),
            ("name=\"a%22%0D%0Ab\"\r\n\r\ntrue\r\n", 1),
            ("[][]", 0),
        ] {
            assert_eq!(text.matches(part).count(), times, "{part}: {text}");
        }
    }

    #[test]
    fn a_class_has_its_own_model_and_fields() {
        let form = encoder(json!({ "language": "en" }))
            .varied(Some("lora"), json!({ "language": "de" }).as_object().unwrap());
        let text = String::from_utf8(form.prefix.to_vec()).unwrap();
        for (name, value) in [("language", "de"), ("model", "lora"), ("response_format", "json")] {
            assert_eq!(text.matches(&format!("name=\"{name}\"\r\n\r\n{value}\r\n")).count(), 1, "{text}");
        }
    }
}
