//! Audio as an engine reads it, after Whisper: the encoder makes 1,500 tokens of each window of 30 seconds, which is padded if it is shorter,
//! and the decoder writes the text of each window token by token. As in vLLM, the windows of a file are prompts of their own, and its text is
//! there with the last of them.

use super::Request;
use std::sync::Arc;
use std::time::Duration;

/// Length of a window.
const WINDOW: Duration = Duration::from_secs(30);
/// Encoder tokens of a window: 3,000 frames of 10 ms, two of which become one token.
pub const WINDOW_TOKENS: u32 = 1_500;
/// Tokens of text for each second of audio: about 150 spoken words a minute, of 1.2 tokens each.
const TEXT_PER_S: f64 = 3.0;

/// The work to transcribe an audio file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transcription {
    /// Number of windows.
    pub windows: u32,
    /// Tokens of the text of each window.
    pub text_tokens: u32,
}

impl Transcription {
    /// Returns the work for audio of this length. The text is spread evenly over the windows.
    pub fn of(audio: Duration) -> Self {
        let windows =
            audio.as_nanos().div_ceil(WINDOW.as_nanos()).clamp(1, u32::from(u16::MAX).into()) as u32;
        let text = TEXT_PER_S * audio.as_secs_f64() / f64::from(windows);
        Self { windows, text_tokens: (text.ceil() as u32).max(1) }
    }

    /// Returns the request for an engine [with items](super::Model::with_items).
    pub fn request(self, id: u64) -> Request {
        let items: Arc<[u32]> = std::iter::repeat_n(WINDOW_TOKENS, self.windows as usize).collect();
        Request::new(id, WINDOW_TOKENS.saturating_mul(self.windows), self.text_tokens).with_items(items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Simulated;

    #[test]
    fn windows_are_padded_and_text_follows_the_length() {
        for (ms, windows, text_tokens) in
            [(100, 1, 1), (10_000, 1, 30), (30_000, 1, 90), (30_001, 2, 46), (90_000, 3, 90), (0, 1, 1)]
        {
            let work = Transcription::of(Duration::from_millis(ms));
            assert_eq!(work, Transcription { windows, text_tokens }, "{ms} ms");
            let request = work.request(7);
            assert_eq!(
                (request.items.len() as u32, request.input_tokens),
                (windows, 1_500 * windows),
                "{ms} ms"
            );
        }
    }

    /// A first token after 20 ms and one every 5 ms, at any load: both windows are written at once.
    #[test]
    fn a_transcript_is_there_with_the_last_token() {
        let sim: Simulated = toml::from_str("preset = \"fixed\"\nttft = \"20ms\"\ntpot = \"5ms\"").unwrap();
        let mut model = sim.build().with_items();
        model.arrive(Duration::ZERO, Transcription::of(Duration::from_secs(40)).request(7));
        let all = model.advance(Duration::MAX);
        let [end] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!((end.at, end.tokens, end.finished), (Duration::from_millis(20 + 5 * 59), 120, true));
    }
}
