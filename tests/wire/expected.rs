//! The expected results of each recording, counted by a script that shares no code with the code under test.

use goodput::record::{
    Failure,
    TokenSource::{self, Continuous, Events, Usage},
};

/// A streamed answer.
pub(crate) struct Stream {
    pub(crate) name: &'static str,
    pub(crate) tokens: Option<u32>,
    pub(crate) source: Option<TokenSource>,
    pub(crate) input: Option<u32>,
    pub(crate) cached: Option<u32>,
    pub(crate) events: u32,
    pub(crate) first_ms: f64,
    pub(crate) last_ms: f64,
    pub(crate) finish: Option<&'static str>,
    pub(crate) first_tokens: Option<u32>,
}

/// An answer that is not streamed.
pub(crate) struct Refused {
    pub(crate) name: &'static str,
    pub(crate) status: u16,
    pub(crate) failure: Failure,
    pub(crate) says: &'static str,
}

#[rustfmt::skip]
pub(crate) const STREAMS: &[Stream] = &[
    Stream { name: "llamacpp/abort-midflight", tokens: None, source: None, input: None, cached: None, events: 9, first_ms: 0.751, last_ms: 2.475, finish: None, first_tokens: None },
    Stream { name: "llamacpp/chat-stream-continuous-usage", tokens: Some(12), source: Some(Usage), input: Some(52), cached: Some(51), events: 12, first_ms: 2.053, last_ms: 8.975, finish: Some("length"), first_tokens: None },
    Stream { name: "llamacpp/chat-stream-max_completion_tokens", tokens: Some(5), source: Some(Usage), input: Some(52), cached: Some(51), events: 5, first_ms: 2.386, last_ms: 4.38, finish: Some("length"), first_tokens: None },
    Stream { name: "llamacpp/chat-stream-nousage", tokens: Some(12), source: Some(Events), input: None, cached: None, events: 12, first_ms: 2.432, last_ms: 10.682, finish: Some("length"), first_tokens: None },
    Stream { name: "llamacpp/chat-stream-one-token", tokens: Some(1), source: Some(Usage), input: Some(52), cached: Some(51), events: 1, first_ms: 1.981, last_ms: 1.981, finish: Some("length"), first_tokens: Some(1) },
    Stream { name: "llamacpp/chat-stream-usage", tokens: Some(12), source: Some(Usage), input: Some(52), cached: Some(51), events: 12, first_ms: 3.397, last_ms: 13.325, finish: Some("length"), first_tokens: None },
    Stream { name: "llamacpp/completions-stream-continuous-usage", tokens: Some(12), source: Some(Usage), input: Some(40), cached: Some(39), events: 12, first_ms: 2.275, last_ms: 9.608, finish: Some("length"), first_tokens: None },
    Stream { name: "llamacpp/completions-stream-logprobs", tokens: Some(3), source: Some(Usage), input: Some(40), cached: Some(39), events: 3, first_ms: 14.561, last_ms: 123.913, finish: Some("length"), first_tokens: None },
    Stream { name: "llamacpp/completions-stream-n2", tokens: Some(4), source: Some(Usage), input: Some(40), cached: Some(39), events: 8, first_ms: 1.77, last_ms: 6.253, finish: Some("length"), first_tokens: None },
    Stream { name: "llamacpp/completions-stream-nousage", tokens: Some(12), source: Some(Usage), input: Some(40), cached: Some(39), events: 12, first_ms: 1.146, last_ms: 16.428, finish: Some("length"), first_tokens: None },
    Stream { name: "llamacpp/completions-stream-return-token-ids", tokens: Some(12), source: Some(Usage), input: Some(40), cached: Some(39), events: 12, first_ms: 2.056, last_ms: 35.938, finish: Some("length"), first_tokens: None },
    Stream { name: "llamacpp/completions-stream-sampled", tokens: Some(48), source: Some(Usage), input: Some(40), cached: Some(39), events: 48, first_ms: 1.224, last_ms: 82.02, finish: Some("length"), first_tokens: None },
    Stream { name: "llamacpp/completions-stream-token-ids", tokens: Some(12), source: Some(Usage), input: Some(32), cached: Some(31), events: 12, first_ms: 1.554, last_ms: 24.266, finish: Some("length"), first_tokens: None },
    Stream { name: "llamacpp/completions-stream-usage", tokens: Some(12), source: Some(Usage), input: Some(40), cached: Some(39), events: 12, first_ms: 3.691, last_ms: 33.844, finish: Some("length"), first_tokens: None },
    Stream { name: "llamacpp/error-bad-model", tokens: Some(12), source: Some(Usage), input: Some(52), cached: Some(51), events: 12, first_ms: 16.07, last_ms: 27.509, finish: Some("length"), first_tokens: None },
    Stream { name: "llamacpp/error-min-over-max", tokens: Some(4), source: Some(Usage), input: Some(40), cached: Some(39), events: 4, first_ms: 0.788, last_ms: 1.523, finish: Some("length"), first_tokens: None },
    Stream { name: "llamacpp/error-too-many-new-tokens", tokens: Some(2008), source: Some(Usage), input: Some(40), cached: Some(39), events: 15, first_ms: 5.503, last_ms: 1594.043, finish: Some("length"), first_tokens: None },
    Stream { name: "llamacpp/error-unknown-field", tokens: Some(12), source: Some(Usage), input: Some(40), cached: Some(39), events: 12, first_ms: 3.198, last_ms: 5.912, finish: Some("length"), first_tokens: None },
    Stream { name: "llamacpp/messages-stream", tokens: Some(12), source: Some(Usage), input: Some(52), cached: Some(51), events: 12, first_ms: 3.622, last_ms: 60.786, finish: Some("max_tokens"), first_tokens: None },
    // llama-server does not tell that an answer reached its length: its status is the same.
    Stream { name: "llamacpp/responses-stream", tokens: Some(12), source: Some(Usage), input: Some(52), cached: Some(51), events: 12, first_ms: 5.491, last_ms: 61.062, finish: Some("stop"), first_tokens: None },
    Stream { name: "vllm/abort-midflight", tokens: None, source: None, input: None, cached: None, events: 9, first_ms: 7.619, last_ms: 20.485, finish: None, first_tokens: None },
    Stream { name: "vllm/chat-image-stream", tokens: Some(12), source: Some(Usage), input: Some(26), cached: None, events: 12, first_ms: 43.063, last_ms: 343.795, finish: Some("length"), first_tokens: None },
    Stream { name: "vllm/chat-stream-continuous-usage", tokens: Some(12), source: Some(Continuous), input: Some(52), cached: None, events: 11, first_ms: 7.111, last_ms: 26.078, finish: Some("length"), first_tokens: Some(1) },
    Stream { name: "vllm/chat-stream-max_completion_tokens", tokens: Some(5), source: Some(Usage), input: Some(52), cached: None, events: 5, first_ms: 6.809, last_ms: 13.403, finish: Some("length"), first_tokens: None },
    Stream { name: "vllm/chat-stream-nousage", tokens: Some(12), source: Some(Events), input: None, cached: None, events: 12, first_ms: 7.478, last_ms: 26.097, finish: Some("length"), first_tokens: None },
    Stream { name: "vllm/chat-stream-one-token", tokens: Some(1), source: Some(Usage), input: Some(52), cached: None, events: 1, first_ms: 7.052, last_ms: 7.052, finish: Some("length"), first_tokens: Some(1) },
    Stream { name: "vllm/chat-stream-usage", tokens: Some(12), source: Some(Usage), input: Some(52), cached: None, events: 11, first_ms: 8.582, last_ms: 28.686, finish: Some("length"), first_tokens: None },
    Stream { name: "vllm/completions-stream-continuous-usage", tokens: Some(12), source: Some(Continuous), input: Some(40), cached: None, events: 12, first_ms: 6.219, last_ms: 25.41, finish: Some("length"), first_tokens: Some(1) },
    Stream { name: "vllm/completions-stream-logprobs", tokens: Some(3), source: Some(Usage), input: Some(40), cached: None, events: 3, first_ms: 7.116, last_ms: 11.402, finish: Some("length"), first_tokens: None },
    Stream { name: "vllm/completions-stream-n2", tokens: Some(8), source: Some(Usage), input: Some(40), cached: None, events: 8, first_ms: 7.416, last_ms: 13.606, finish: Some("length"), first_tokens: None },
    Stream { name: "vllm/completions-stream-nousage", tokens: Some(12), source: Some(Events), input: None, cached: None, events: 12, first_ms: 9.04, last_ms: 26.424, finish: Some("length"), first_tokens: None },
    Stream { name: "vllm/completions-stream-return-token-ids", tokens: Some(12), source: Some(Usage), input: Some(40), cached: None, events: 12, first_ms: 7.179, last_ms: 26.692, finish: Some("length"), first_tokens: None },
    Stream { name: "vllm/completions-stream-sampled", tokens: Some(48), source: Some(Usage), input: Some(40), cached: None, events: 44, first_ms: 6.529, last_ms: 86.252, finish: Some("length"), first_tokens: None },
    Stream { name: "vllm/completions-stream-token-ids", tokens: Some(12), source: Some(Usage), input: Some(32), cached: None, events: 12, first_ms: 6.352, last_ms: 24.128, finish: Some("length"), first_tokens: None },
    Stream { name: "vllm/completions-stream-usage", tokens: Some(12), source: Some(Usage), input: Some(40), cached: None, events: 12, first_ms: 11.916, last_ms: 38.24, finish: Some("length"), first_tokens: None },
    Stream { name: "vllm/messages-stream", tokens: Some(12), source: Some(Usage), input: Some(52), cached: None, events: 12, first_ms: 16.389, last_ms: 40.567, finish: Some("max_tokens"), first_tokens: None },
    Stream { name: "vllm/messages-stream-one-token", tokens: Some(1), source: Some(Usage), input: Some(52), cached: None, events: 1, first_ms: 10.606, last_ms: 10.606, finish: Some("max_tokens"), first_tokens: Some(1) },
    Stream { name: "vllm/responses-stream", tokens: Some(12), source: Some(Usage), input: Some(52), cached: Some(0), events: 10, first_ms: 131.629, last_ms: 173.305, finish: Some("length"), first_tokens: None },
    Stream { name: "vllm/responses-stream-one-token", tokens: Some(1), source: Some(Usage), input: Some(52), cached: Some(0), events: 1, first_ms: 9.648, last_ms: 9.648, finish: Some("length"), first_tokens: Some(1) },
    Stream { name: "vllm/responses-stream-stop", tokens: Some(1), source: Some(Usage), input: Some(52), cached: Some(0), events: 1, first_ms: 10.55, last_ms: 10.55, finish: Some("stop"), first_tokens: Some(1) },
    Stream { name: "vllm/error-unknown-field", tokens: Some(12), source: Some(Usage), input: Some(40), cached: None, events: 12, first_ms: 15.117, last_ms: 35.076, finish: Some("length"), first_tokens: None },
];

#[rustfmt::skip]
pub(crate) const REFUSED: &[Refused] = &[
    Refused { name: "llamacpp/chat-nostream", status: 200, failure: Failure::Malformed, says: "removesuffix" },
    Refused { name: "llamacpp/completions-nostream", status: 200, failure: Failure::Malformed, says: "descriptor" },
    Refused { name: "llamacpp/error-bad-json", status: 500, failure: Failure::ServerError, says: "parse error at line 1" },
    Refused { name: "llamacpp/error-missing-field", status: 400, failure: Failure::ClientError, says: "'messages' is required" },
    Refused { name: "llamacpp/error-too-long", status: 400, failure: Failure::ClientError, says: "exceeds the available context size" },
    Refused { name: "llamacpp/embeddings-error-too-long", status: 500, failure: Failure::ServerError, says: "is too large to process" },
    Refused { name: "llamacpp/rerank-error-too-long", status: 500, failure: Failure::ServerError, says: "is too large to process" },
    Refused { name: "vllm/chat-nostream", status: 200, failure: Failure::Malformed, says: "leadong" },
    Refused { name: "vllm/completions-nostream", status: 200, failure: Failure::Malformed, says: "optional the" },
    Refused { name: "vllm/error-bad-json", status: 400, failure: Failure::ClientError, says: "JSON decode error" },
    Refused { name: "vllm/error-bad-model", status: 404, failure: Failure::ClientError, says: "no-such-model" },
    Refused { name: "vllm/error-min-over-max", status: 400, failure: Failure::ClientError, says: "min_tokens must be less" },
    Refused { name: "vllm/error-missing-field", status: 400, failure: Failure::ClientError, says: "Field required" },
    Refused { name: "vllm/error-too-long", status: 400, failure: Failure::ClientError, says: "maximum context length is 2048" },
    Refused { name: "vllm/messages-error-bad-model", status: 404, failure: Failure::ClientError, says: "no-such" },
    Refused { name: "vllm/messages-error-too-long", status: 400, failure: Failure::ClientError, says: "maximum context length is 2048" },
    Refused { name: "vllm/messages-nostream", status: 200, failure: Failure::Malformed, says: "leadong" },
    Refused { name: "vllm/responses-error-missing-field", status: 400, failure: Failure::ClientError, says: "Field required" },
    Refused { name: "vllm/responses-nostream", status: 200, failure: Failure::Malformed, says: "leadong" },
    Refused { name: "vllm/classify-error-bad-model", status: 404, failure: Failure::ClientError, says: "`no-such-model` does not exist" },
    Refused { name: "vllm/classify-error-empty", status: 400, failure: Failure::ClientError, says: "at least one prompt" },
    Refused { name: "vllm/classify-error-not-served", status: 404, failure: Failure::ClientError, says: "Not Found" },
    Refused { name: "vllm/classify-error-too-long", status: 400, failure: Failure::ClientError, says: "maximum context length is 512 tokens" },
    Refused { name: "vllm/embeddings-error-bad-model", status: 404, failure: Failure::ClientError, says: "`no-such-model` does not exist" },
    Refused { name: "vllm/embeddings-error-empty", status: 400, failure: Failure::ClientError, says: "at least one prompt" },
    Refused { name: "vllm/embeddings-error-too-long", status: 400, failure: Failure::ClientError, says: "maximum context length is 512 tokens" },
    Refused { name: "vllm/pooling-error-bad-model", status: 404, failure: Failure::ClientError, says: "`no-such-model` does not exist" },
    Refused { name: "vllm/pooling-error-empty", status: 400, failure: Failure::ClientError, says: "at least one prompt" },
    Refused { name: "vllm/pooling-error-task", status: 400, failure: Failure::ClientError, says: "--pooler-config.task token_embed" },
    Refused { name: "vllm/pooling-error-too-long", status: 400, failure: Failure::ClientError, says: "maximum context length is 512 tokens" },
    Refused { name: "vllm/rerank-error-bad-model", status: 404, failure: Failure::ClientError, says: "`no-such-model` does not exist" },
    Refused { name: "vllm/rerank-error-empty", status: 400, failure: Failure::ClientError, says: "At least one text_pair" },
    Refused { name: "vllm/rerank-error-too-long", status: 400, failure: Failure::ClientError, says: "at least 513 input tokens" },
    Refused { name: "vllm/score-error-bad-model", status: 404, failure: Failure::ClientError, says: "`no-such-model` does not exist" },
    Refused { name: "vllm/score-error-empty", status: 400, failure: Failure::ClientError, says: "At least one text_pair" },
    Refused { name: "vllm/score-error-too-long", status: 400, failure: Failure::ClientError, says: "at least 513 input tokens" },
    Refused { name: "vllm/error-too-many-new-tokens", status: 400, failure: Failure::ClientError, says: "max_tokens=5000" },
    Refused { name: "vllm/transcriptions-error-bad-model", status: 404, failure: Failure::ClientError, says: "`no-such-model` does not exist" },
    Refused { name: "vllm/transcriptions-error-no-audio", status: 400, failure: Failure::ClientError, says: "Invalid or corrupted audio data" },
    Refused { name: "vllm/transcriptions-error-no-file", status: 400, failure: Failure::ClientError, says: "Field required" },
];

/// Pages fetched with `GET`, with their status.
pub(crate) const PAGES: &[(&str, u16)] = &[
    ("llamacpp/error-not-found", 404),
    ("llamacpp/health", 200),
    ("llamacpp/models", 200),
    ("vllm/error-not-found", 404),
    ("vllm/health", 200),
    ("vllm/models", 200),
];
