//! The validation rules of vLLM: the requests it accepts, and its error messages for the others.

use crate::sim::wire::{Api, Ask, json_string};
use http::StatusCode;

/// Default number of output tokens of a completion, if the context has room for them. A chat defaults to all the room
/// that is left.
const DEFAULT_MAX_TOKENS: u32 = 16;
/// Maximum size of a request body, in bytes; a prompt as long as the default `max-model-len` takes about 1 MiB.
pub(super) const MAX_BODY: usize = 32 << 20;

/// The model that a server serves, and its context length.
#[derive(Debug)]
pub(super) struct Limits<'a> {
    pub(super) model: &'a str,
    pub(super) max_model_len: u32,
}

impl Limits<'_> {
    /// Returns the input and output tokens of a request with `input` tokens in a number of texts, or the refusal of
    /// vLLM, which checks in this order.
    pub(super) fn check<T>(
        &self,
        api: Api,
        ask: &Ask<T>,
        input: u32,
        texts: u32,
    ) -> Result<(u32, u32), Refusal> {
        if let Some(model) = ask.model.as_ref().filter(|m| *m != self.model) {
            let message = format!("The model `{model}` does not exist. Valid aliases: {}.", self.model);
            return Err(Refusal {
                status: StatusCode::NOT_FOUND,
                kind: "NotFoundError",
                param: Some("model".into()),
                message,
            });
        }
        if texts > 1 || ask.n.is_some_and(|n| n != 1) {
            return Err(Refusal::bad(None, "the simulated server answers one prompt with one choice".into()));
        }
        let limit = self.max_model_len;
        if input == 0 {
            return Err(Refusal::bad(Some("prompt"), "The prompt cannot be empty".into()));
        }
        if input > limit {
            return Err(Refusal::bad(
                Some("input_tokens"),
                format!(
                    "This model's maximum context length is {limit} tokens. However, your prompt contains {input} input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value={input})"
                ),
            ));
        }
        // At least one, so that a prompt that leaves no room is refused below.
        let left = (limit - input).max(1);
        let usual = if api == Api::Chat { left } else { left.min(DEFAULT_MAX_TOKENS) };
        let output = ask.max_completion_tokens.or(ask.max_tokens).unwrap_or(usual);
        if output == 0 {
            let message = "max_tokens must be at least 1, got 0.".into();
            return Err(Refusal::bad(Some("max_tokens"), message));
        }
        if output > limit {
            return Err(Refusal::bad(
                Some("max_tokens"),
                format!(
                    "max_tokens={output} cannot be greater than max_model_len={limit}. Please request fewer output tokens. (parameter=max_tokens, value={output})"
                ),
            ));
        }
        if let Some(least) = ask.min_tokens.filter(|least| *least > output) {
            return Err(Refusal::bad(
                None,
                format!("min_tokens must be less than or equal to max_tokens={output}, got {least}."),
            ));
        }
        if output > limit - input {
            return Err(Refusal::bad(
                Some("input_tokens"),
                format!(
                    "This model's maximum context length is {limit} tokens. However, you requested {output} output tokens and your prompt contains {input} input tokens. Please reduce the length of the input prompt or the number of requested output tokens. (parameter=input_tokens, value={input})"
                ),
            ));
        }
        Ok((input, output))
    }
}

/// An error in vLLM's format.
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    kind: &'static str,
    param: Option<String>,
    message: String,
}

impl Refusal {
    pub(super) fn bad(param: Option<&str>, message: String) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            kind: "BadRequestError",
            param: param.map(str::to_owned),
            message,
        }
    }

    pub(super) fn missing(field: &str) -> Self {
        let param = format!("body.{field}");
        let message = format!(
            "1 validation error:\n  {{'type': 'missing', 'loc': '{param}', 'msg': 'Field required'}}"
        );
        Self { kind: "Bad Request", ..Self::bad(Some(&param), message) }
    }

    pub(super) fn unreadable(error: &serde_json::Error) -> Self {
        let (kind, said) = match error.classify() {
            serde_json::error::Category::Data => ("type_error", "Input has the wrong type"),
            _ => ("json_invalid", "JSON decode error"),
        };
        let param = format!("body.{}", error.column());
        let message = format!(
            "1 validation error:\n  {{'type': '{kind}', 'loc': '{param}', 'msg': '{said}', 'ctx': {{'error': '{error}'}}}}"
        );
        Self { kind: "Bad Request", ..Self::bad(Some(&param), message) }
    }

    pub(super) fn gone() -> Self {
        let message = "the engine stopped".into();
        Self { status: StatusCode::INTERNAL_SERVER_ERROR, kind: "InternalServerError", param: None, message }
    }

    /// Formats the response body.
    pub(super) fn body(&self) -> String {
        let param = self.param.as_deref().map_or("null".into(), json_string);
        let (message, kind, code) = (json_string(&self.message), self.kind, self.status.as_u16());
        format!(r#"{{"error":{{"message":{message},"type":"{kind}","param":{param},"code":{code}}}}}"#)
    }
}
