//! Recordings of transcripts, and the forms that they answered.

use crate::recording::Recording;
use crate::serve::{Act, client, serve, shot_to};
use goodput::client::{Api, Encoder, Pinning};
use goodput::record::{Failure, Outcome};
use goodput::workload::audio::Clip;
use std::time::Duration;

/// A recorded transcript.
pub(crate) struct Transcript {
    pub(crate) name: &'static str,
    /// Length of the file in milliseconds.
    sent_ms: u64,
    /// True if the answer counts it.
    is_counted: bool,
}

#[rustfmt::skip]
pub(crate) const TRANSCRIPTS: &[Transcript] = &[
    Transcript { name: "vllm/transcriptions", sent_ms: 3_250, is_counted: true },
    Transcript { name: "vllm/transcriptions-two-windows", sent_ms: 40_000, is_counted: true },
    Transcript { name: "vllm/transcriptions-verbose", sent_ms: 3_250, is_counted: false },
];

/// The server has accepted a form with every field that goodput writes for the same body.
#[test]
fn forms_are_written_as_the_server_took_them() {
    for t in TRANSCRIPTS {
        let mut fields = Recording::load(t.name).body.unwrap().as_object().unwrap().clone();
        let model = fields.remove("model").unwrap();
        fields.remove("file");
        let encoder =
            Encoder::new(Api::Transcriptions, model.as_str().unwrap(), &fields, Pinning::FULL, true);
        let head = encoder.audio(&Clip::second()).head;
        let text = String::from_utf8_lossy(&head);
        for (name, value) in fields.iter().chain([(&"model".to_owned(), &model)]) {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let part = format!("Content-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
            assert_eq!(text.matches(&part).count(), 1, "{}: {part} in {text}", t.name);
        }
        assert!(
            text.contains("name=\"file\"; filename=\"audio.wav\"\r\nContent-Type: audio/wav\r\n\r\n"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn transcripts_complete_their_requests() {
    for t in TRANSCRIPTS {
        let recording = Recording::load(t.name);
        assert_eq!(Api::of_path(&recording.path), Some(Api::Transcriptions));
        // With other audio than the server counts, the answer is not that of the request.
        for (sent_ms, is_other) in [(t.sent_ms, false), (t.sent_ms + 3_000, true)] {
            let failure = (is_other && t.is_counted).then_some(Failure::Miscounted);
            let script = recording.reads.iter().map(|(_, bytes)| Act::Write(bytes.clone()));
            let server = serve(vec![script.chain([Act::Close]).collect()]).await;
            let mut shot = shot_to(Api::Transcriptions, "m");
            let clip = Clip { length: Duration::from_millis(sent_ms), ..Clip::second() };
            shot.payload =
                Encoder::new(Api::Transcriptions, "m", &serde_json::Map::new(), Pinning::FULL, true)
                    .audio(&clip);
            shot.record.output_asked = 0;
            shot.record.audio = Some(clip.length);
            let r = client(&server.url, Api::Transcriptions).send(shot).await.record;
            let outcome = if failure.is_some() { Outcome::Failed } else { Outcome::Ok };
            assert_eq!(
                (r.outcome, r.failure, r.status),
                (outcome, failure, Some(200)),
                "{} {sent_ms}",
                t.name
            );
            assert_eq!((r.first_token, r.e2e().is_some()), (None, failure.is_none()), "{}", t.name);
            let asked = server.requests.lock().unwrap();
            let head = asked[0].to_ascii_lowercase();
            assert!(head.contains("content-type: multipart/form-data; boundary="), "{head}");
        }
    }
}
