//! The rules of the simulated server: its pages, the requests that it accepts, and its errors for the others, in
//! vLLM's words. The two front ends, [`super::router`] and [`super::null`], only transport
//! them.

use crate::sim::adapters::{AdapterCall, AdapterStore};
use crate::sim::dialect::{self, Dialect, TextApi, openai_error};
use crate::sim::metrics::{Counters, prometheus};
use crate::sim::request::{ApiRequest, StreamOptions, Words};
use goodput_core::endpoint::Api;
use goodput_core::record::MOST_CHOICES;
use goodput_engine::config::{Adapters, Vision};
use goodput_engine::{EncodedImage, KvCache};
use http::StatusCode;
use std::borrow::Cow;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;
use std::time::{SystemTime, UNIX_EPOCH};

/// Maximum size of a request body, in bytes; a prompt as long as the default `max-model-len` takes about 1 MiB.
pub(super) const MAX_BODY: usize = 32 << 20;
/// Content types of answers and pages.
pub(super) const JSON: &str = "application/json";
pub(super) const EVENTS: &str = "text/event-stream; charset=utf-8";
pub(super) const LINES: &str = "application/x-ndjson";
pub(super) const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The part of the server that a request is addressed to.
#[derive(Debug)]
pub(super) enum Route {
    /// An answer of generated tokens.
    Answer(TextApi),
    /// A result for each of several items.
    Items(Api),
    /// Loading or unloading of an adapter.
    Adapter(AdapterCall),
    /// The text of an audio file.
    Audio,
    /// The page of metrics.
    Metrics,
    /// Another page, or an error.
    Page(Page),
}

/// A response other than a model's answer.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) status: StatusCode,
    pub(super) content_type: &'static str,
    pub(super) body: Cow<'static, str>,
    /// The header `Allow` of a path that has other methods.
    pub(super) allow: Option<&'static str>,
}

impl Page {
    pub(super) fn new(
        status: StatusCode,
        content_type: &'static str,
        body: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { status, content_type, body: body.into(), allow: None }
    }

    /// The page of a path that is not served.
    pub(super) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, JSON, r#"{"detail":"Not Found"}"#)
    }
}

/// The model that a server serves.
#[derive(Debug)]
pub(super) struct ServedModel {
    name: String,
    /// The name as a JSON string.
    name_json: String,
    max_model_len: u32,
    /// The vision encoder; `None` if the model takes no images.
    vision: Option<Vision>,
    /// LoRA adapters, which requests name in place of the model.
    pub(super) adapters: AdapterStore,
    /// Unix time of the server's start, in seconds.
    pub(super) created: u64,
}

/// The answer that an accepted request asks for.
#[derive(Debug, Clone)]
pub(super) struct Order {
    pub(super) api: TextApi,
    pub(super) stream: bool,
    /// Number of input tokens.
    pub(super) input: u32,
    /// Number of output tokens of each choice.
    pub(super) output: u32,
    /// Number of choices.
    pub(super) choices: u32,
    pub(super) options: StreamOptions,
    /// Images to encode.
    pub(super) images: Arc<[EncodedImage]>,
}

impl ServedModel {
    pub(super) fn new(name: &str, max_model_len: NonZeroU32) -> Self {
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        Self {
            name: name.to_owned(),
            name_json: json_string(name),
            max_model_len: max_model_len.get(),
            vision: None,
            adapters: AdapterStore::default(),
            created,
        }
    }

    /// Makes the model take images, if there is an encoder.
    pub(super) fn with_vision(self, vision: Option<Vision>) -> Self {
        Self { vision, ..self }
    }

    /// Gives the model LoRA adapters.
    pub(super) fn with_adapters(self, adapters: Option<&Adapters>) -> Self {
        Self { adapters: adapters.map(AdapterStore::new).unwrap_or_default(), ..self }
    }

    /// Returns the images to encode in a prompt of these parts, which `before` tokens precede.
    fn encoded_images<'a, T: 'a>(
        &self,
        parts: impl Iterator<Item = &'a Words<T>>,
        before: usize,
    ) -> Result<Arc<[EncodedImage]>, Refusal> {
        let (mut images, mut at) = (Vec::new(), before);
        for words in parts {
            if words.unreadable_images > 0 || (self.vision.is_none() && !words.images.is_empty()) {
                return Err(Refusal::bad(
                    None,
                    match self.vision {
                        None => "At most 0 image(s) may be provided in one prompt.".into(),
                        Some(_) => "the simulated server reads PNG and JPEG in data URLs".into(),
                    },
                ));
            }
            for (start, tokens) in &words.images {
                let time = self.vision.map_or(Duration::ZERO, |vision| vision.encode_time(*tokens));
                let start = u32::try_from(at + start).unwrap_or(u32::MAX);
                images.push(EncodedImage { start, time });
            }
            at += words.count;
        }
        Ok(images.into())
    }

    /// Returns the route of a request; `path` has no query.
    pub(super) fn route(&self, method: &str, path: &str) -> Route {
        let found = match path {
            "/v1/models" => Route::Page(Page::new(StatusCode::OK, JSON, self.models())),
            "/health" => Route::Page(Page::new(StatusCode::OK, TEXT, "")),
            "/version" => {
                let version = concat!(r#"{"version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);
                Route::Page(Page::new(StatusCode::OK, JSON, version))
            }
            "/metrics" => Route::Metrics,
            _ => match (Api::of_path(path), TextApi::of_path(path), AdapterCall::of_path(path)) {
                (Some(Api::Transcriptions), _, _) => Route::Audio,
                (Some(api), _, _) => TextApi::of(api).map_or(Route::Items(api), Route::Answer),
                (None, Some(api), _) => Route::Answer(api),
                (None, None, Some(call)) => Route::Adapter(call),
                (None, None, None) => return Route::Page(Page::not_found()),
            },
        };
        let is_posted =
            matches!(found, Route::Answer(_) | Route::Items(_) | Route::Audio | Route::Adapter(_));
        let methods = if is_posted { "POST" } else { "GET,HEAD" };
        if methods.split(',').any(|allowed| allowed == method) {
            return found;
        }
        let page = Page::new(StatusCode::METHOD_NOT_ALLOWED, JSON, r#"{"detail":"Method Not Allowed"}"#);
        Route::Page(Page { allow: Some(methods), ..page })
    }

    /// Formats the list of models: its own, and its adapters.
    fn models(&self) -> String {
        let Self { name_json: name, max_model_len, created, .. } = self;
        let adapters = self.adapters.cards(name, *created);
        format!(
            r#"{{"object":"list","data":[{{"id":{name},"object":"model","created":{created},"owned_by":"goodput","root":{name},"parent":null,"max_model_len":{max_model_len},"permission":[]}}{adapters}]}}"#
        )
    }

    /// Returns the page of metrics.
    pub(super) fn metrics(&self, counters: &Counters, kv_cache: Option<KvCache>) -> Page {
        Page::new(StatusCode::OK, TEXT, prometheus(counters, kv_cache, &self.name))
    }

    /// Formats the beginning of an answer, or of its events, at a Unix time in seconds.
    pub(super) fn head(&self, api: TextApi, id: u64, stream: bool, created: u64) -> String {
        (Dialect::of(api).head)(id, stream, created, &self.name_json)
    }

    /// Parses and checks a request.
    pub(super) fn accept<T: Default + Extend<u64>>(
        &self,
        api: TextApi,
        body: &[u8],
    ) -> Result<(ApiRequest<T>, Order), Refusal> {
        let request: ApiRequest<T> = serde_json::from_slice(body).map_err(|e| Refusal::unreadable(&e))?;
        let (parts, texts) = dialect::prompt(api, &request).map_err(Refusal::missing)?;
        let template = dialect::own_template_tokens(api);
        let images = self.encoded_images(parts.clone(), template)?;
        let tokens = template + parts.map(|words| words.count).sum::<usize>();
        let input = u32::try_from(tokens).unwrap_or(u32::MAX);
        let output = self.output_tokens(api, &request, input, texts)?;
        let choices = choices(api, request.n)?;
        let stream = (Dialect::of(api).streams)(request.stream);
        let options = request.stream_options.unwrap_or_default();
        Ok((request, Order { api, stream, input, output, choices, options, images }))
    }

    /// Returns the longest prompt with its answer, in tokens.
    pub(super) const fn max_model_len(&self) -> u32 {
        self.max_model_len
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name as a JSON string.
    pub(super) fn name_json(&self) -> &str {
        &self.name_json
    }

    /// Checks the name of the model that a request names.
    pub(super) fn check_name(&self, model: Option<&str>) -> Result<(), Refusal> {
        let unknown = |name: &&str| *name != self.name && !self.adapters.has(name);
        let Some(model) = model.filter(unknown) else { return Ok(()) };
        let message = format!("The model `{model}` does not exist. Valid aliases: {}.", self.name);
        Err(Refusal {
            status: StatusCode::NOT_FOUND,
            kind: "NotFoundError",
            param: Some("model".into()),
            message,
        })
    }

    /// Returns the number of output tokens of a request with `input` tokens in a number of texts, or the refusal of
    /// vLLM, which checks in this order.
    fn output_tokens<T>(
        &self,
        api: TextApi,
        request: &ApiRequest<T>,
        input: u32,
        texts: u32,
    ) -> Result<u32, Refusal> {
        self.check_name(request.model.as_deref())?;
        if texts > 1 {
            return Err(Refusal::bad(None, "the simulated server answers one prompt".into()));
        }
        let limit = self.max_model_len;
        if input == 0 {
            return Err(Refusal::bad(Some("prompt"), "The prompt cannot be empty".into()));
        }
        if input > limit {
            return Err(Refusal::too_long(limit, input));
        }
        // At least one, so that a prompt that leaves no room is refused below.
        let left = (limit - input).max(1);
        let default = Dialect::of(api).default_output.map_or(left, |tokens| left.min(tokens));
        let (asked, field) = dialect::asked_tokens(api, request);
        let output = asked.unwrap_or(default);
        if output == 0 {
            return Err(Refusal::bad(Some(field), format!("{field} must be at least 1, got 0.")));
        }
        if output > limit {
            return Err(Refusal::bad(
                Some(field),
                format!(
                    "{field}={output} cannot be greater than max_model_len={limit}. Please request fewer output tokens. (parameter={field}, value={output})"
                ),
            ));
        }
        if let Some(least) = request.min_tokens.filter(|least| *least > output) {
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
        Ok(output)
    }
}

/// Returns the number of choices that a request asks for.
fn choices(api: TextApi, n: Option<u32>) -> Result<u32, Refusal> {
    let most = match api {
        TextApi::Chat | TextApi::Completions => u32::from(MOST_CHOICES),
        TextApi::Responses | TextApi::Messages | TextApi::Tgi | TextApi::TgiStream | TextApi::Ollama => 1,
    };
    match n.unwrap_or(1) {
        0 => Err(Refusal::bad(Some("n"), "n must be at least 1, got 0.".into())),
        n if n > most => Err(Refusal::bad(
            Some("n"),
            format!("the simulated server answers with at most {most} choices here, got {n}."),
        )),
        n => Ok(n),
    }
}

/// An error in vLLM's format.
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) kind: &'static str,
    pub(super) param: Option<String>,
    pub(super) message: String,
}

/// The kind of a request that cannot be parsed. vLLM refuses it in the same words in every API.
const INVALID: &str = "Bad Request";

impl Refusal {
    /// Formats the error in the words of an API.
    pub(super) fn page(self, api: TextApi) -> Page {
        match self.kind {
            INVALID => self.into(),
            _ => Page::new(self.status, JSON, (Dialect::of(api).error)(&self)),
        }
    }

    pub(super) fn bad(param: Option<&str>, message: String) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            kind: "BadRequestError",
            param: param.map(str::to_owned),
            message,
        }
    }

    /// A prompt of `input` tokens that does not fit into a context of `limit` tokens.
    pub(super) fn too_long(limit: u32, input: u32) -> Self {
        let message = format!(
            "This model's maximum context length is {limit} tokens. However, your prompt contains {input} input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value={input})"
        );
        Self::bad(Some("input_tokens"), message)
    }

    pub(super) fn missing(field: &str) -> Self {
        let param = format!("body.{field}");
        let message = format!(
            "1 validation error:\n  {{'type': 'missing', 'loc': '{param}', 'msg': 'Field required'}}"
        );
        Self { kind: INVALID, ..Self::bad(Some(&param), message) }
    }

    pub(super) fn unreadable(error: &serde_json::Error) -> Self {
        let (kind, problem) = match error.classify() {
            serde_json::error::Category::Data => ("type_error", "Input has the wrong type"),
            _ => ("json_invalid", "JSON decode error"),
        };
        let param = format!("body.{}", error.column());
        let message = format!(
            "1 validation error:\n  {{'type': '{kind}', 'loc': '{param}', 'msg': '{problem}', 'ctx': {{'error': '{error}'}}}}"
        );
        Self { kind: INVALID, ..Self::bad(Some(&param), message) }
    }

    pub(super) fn gone() -> Self {
        let message = "the engine stopped".into();
        Self { status: StatusCode::INTERNAL_SERVER_ERROR, kind: "InternalServerError", param: None, message }
    }
}

impl From<Refusal> for Page {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.status, JSON, openai_error(&refusal))
    }
}

/// Formats a text as a JSON string.
pub(super) fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
