//! Requests to transcribe audio at the simulated server, and their answers in vLLM's format. The engine reads the audio as Whisper does (see
//! [`goodput_engine::audio`]), whatever is to be heard in it.

use crate::sim::form::Form;
use crate::sim::rules::{Refusal, ServedModel, json_string};
use crate::sim::writer;
use goodput_engine::audio::{Transcription, WINDOW_TOKENS};
use goodput_workload::wav;
use std::io::Cursor;
use std::time::Duration;

/// Largest file in bytes, as vLLM takes by default.
const MOST_BYTES: usize = 25 << 20;

/// An accepted request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AudioOrder {
    /// Length of the audio.
    length: Duration,
    /// Work for the engine.
    pub(super) work: Transcription,
}

impl AudioOrder {
    /// Parses and checks a request. The fields of a form that are not used here are ignored, as vLLM ignores them.
    pub(super) fn accept(
        model: &ServedModel,
        content_type: Option<&str>,
        body: &[u8],
    ) -> Result<Self, Refusal> {
        let form = Form::parse(content_type, body).ok_or_else(|| Refusal::missing("file"))?;
        let file = form.bytes("file").ok_or_else(|| Refusal::missing("file"))?;
        model.check_name(form.text("model"))?;
        if form.text("stream").is_some_and(|stream| stream != "false") {
            return Err(Refusal::bad(None, "the simulated server does not stream transcripts".into()));
        }
        if form.text("response_format").is_some_and(|format| !["json", "verbose_json"].contains(&format)) {
            return Err(Refusal::bad(None, "the simulated server answers in JSON".into()));
        }
        if file.len() > MOST_BYTES {
            return Err(Refusal::bad(Some("audio_filesize_mb"), "Maximum file size exceeded".into()));
        }
        let length = wav::length(Cursor::new(file)).map_err(|problem| {
            Refusal::bad(None, format!("Invalid or corrupted audio data: it {problem}."))
        })?;
        let work = Transcription::of(length);
        let tokens = WINDOW_TOKENS.saturating_add(work.text_tokens);
        if tokens > model.max_model_len() {
            return Err(Refusal::too_long(model.max_model_len(), tokens));
        }
        Ok(Self { length, work })
    }

    /// Formats the answer.
    pub(super) fn document(&self) -> String {
        let mut text = String::new();
        writer::words(&mut text, 0, self.work.windows.saturating_mul(self.work.text_tokens));
        let seconds = self.length.as_secs_f64().ceil();
        format!(r#"{{"text":{},"usage":{{"type":"duration","seconds":{seconds}}}}}"#, json_string(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::encoder::{Encoder, Pinning};
    use crate::sim::rules::Page;
    use goodput_core::endpoint::Api;
    use goodput_workload::audio::Clip;
    use serde_json::{Value, json};
    use std::num::NonZeroU32;

    fn accept(fields: Value, wav: &[u8]) -> Result<AudioOrder, String> {
        let model = ServedModel::new("m", NonZeroU32::new(1_590).unwrap());
        let clip = Clip { wav: wav.to_vec(), length: Duration::ZERO };
        let encoder =
            Encoder::new(Api::Transcriptions, "m", fields.as_object().unwrap(), Pinning::NONE, false);
        let payload = encoder.audio(&clip);
        let body = [&payload.head[..], &payload.tail].concat();
        AudioOrder::accept(&model, Some(crate::client::encoder::FORM_TYPE), &body)
            .map_err(|refusal| Page::from(refusal).body.into_owned())
    }

    fn recording(samples: u32) -> Vec<u8> {
        [&wav::header(samples, 8_000)[..], &vec![0; 2 * samples as usize]].concat()
    }

    #[test]
    fn audio_is_measured_and_answered() {
        let order =
            accept(json!({ "language": "en", "response_format": "verbose_json" }), &recording(82_000))
                .unwrap();
        assert_eq!(order.length, Duration::from_millis(10_250));
        let document: Value = serde_json::from_str(&order.document()).unwrap();
        assert_eq!(document["usage"], json!({ "type": "duration", "seconds": 11 }));
        assert_eq!(document["text"].as_str().unwrap().split_whitespace().count(), 31, "3 tokens a second");
    }

    #[test]
    fn what_cannot_be_transcribed_is_refused() {
        for (fields, wav, part) in [
            (json!({}), b"ID3".to_vec(), "it is not a WAV file"),
            (json!({}), recording(0), "without samples"),
            (json!({ "model": "other" }), recording(9_000), "does not exist"),
            (json!({ "stream": true }), recording(9_000), "does not stream"),
            (json!({ "response_format": "srt" }), recording(9_000), "answers in JSON"),
            (json!({}), recording(14_000_000), "Maximum file size exceeded"),
        ] {
            let refusal = accept(fields, &wav).unwrap_err();
            assert!(refusal.contains(part), "{refusal}");
        }
        let small = ServedModel::new("m", NonZeroU32::new(512).unwrap());
        let clip = Clip::second();
        let encoder = Encoder::new(Api::Transcriptions, "m", &serde_json::Map::new(), Pinning::NONE, false);
        let payload = encoder.audio(&clip);
        let body = [&payload.head[..], &payload.tail].concat();
        for (content_type, body, part) in [
            (Some(crate::client::encoder::FORM_TYPE), &body[..], "maximum context length is 512"),
            (Some(crate::client::encoder::FORM_TYPE), b"{}", "body.file"),
            (Some("application/json"), &body, "body.file"),
            (None, &body, "body.file"),
        ] {
            let refusal = AudioOrder::accept(&small, content_type, body).unwrap_err();
            assert!(refusal.message.contains(part), "{}", refusal.message);
        }
    }
}
