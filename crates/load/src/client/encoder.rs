//! Encodes requests: what is common to a series is written once, the rest per request.

mod fields;
mod form;
mod template;

use super::dialect::{Dialect, PromptWriter};
use super::payload::Payload;
use bytes::Bytes;
use fields::FieldsEncoder;
pub(crate) use form::FORM_TYPE;
use form::FormEncoder;
use goodput_core::endpoint::Api;
use goodput_core::message::Message;
use goodput_plan::server::template::Template;
use goodput_workload::audio::Clip;
use goodput_workload::images::Image;
use goodput_workload::items::ItemTexts;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use template::TemplateEncoder;

/// The request fields that fix the output at its planned length. Servers support different ones; either suffices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pinning {
    /// `ignore_eos`: continue after an end-of-sequence token.
    pub ignore_eos: bool,
    /// `min_tokens`: do not end before this many tokens.
    pub min_tokens: bool,
}

impl Pinning {
    /// Both fields.
    pub const FULL: Self = Self { ignore_eos: true, min_tokens: true };
    /// Neither.
    pub const NONE: Self = Self { ignore_eos: false, min_tokens: false };

    /// Returns the fields that both have.
    pub(super) const fn and(self, other: Self) -> Self {
        Self {
            ignore_eos: self.ignore_eos && other.ignore_eos,
            min_tokens: self.min_tokens && other.min_tokens,
        }
    }

    /// Returns true if the output length is fixed by any field.
    pub const fn holds(self) -> bool {
        self.ignore_eos || self.min_tokens
    }
}

/// Encoder of requests to one endpoint for one model.
#[derive(Debug, Clone)]
pub struct Encoder(Form);

/// The form of the requests.
#[derive(Debug, Clone)]
enum Form {
    /// An object with the fields of a built-in API.
    Fields(FieldsEncoder),
    /// The plan's template, filled in.
    Template(TemplateEncoder),
    /// A form with an audio file.
    Audio(FormEncoder),
}

impl Encoder {
    /// Makes an encoder for a built-in API. Fields of `extra` replace those that goodput sets, as a whole. Fields of `pinning` that the API
    /// does not have are left out.
    pub fn new(api: Api, model: &str, extra: &Map<String, Value>, pinning: Pinning, usage: bool) -> Self {
        Self(match Dialect::of(api).prompt {
            PromptWriter::Audio => Form::Audio(FormEncoder::new(api, model, extra)),
            PromptWriter::Text { .. } | PromptWriter::Items { .. } => {
                Form::Fields(FieldsEncoder::new(api, model, extra, pinning, usage))
            }
        })
    }

    /// Makes an encoder for the plan's own endpoint.
    pub fn of_template(template: &Template, model: &str) -> Self {
        Self(Form::Template(TemplateEncoder::new(template, model)))
    }

    /// Returns an encoder for another model, or for a LoRA by its name, with further fields. Those of `extra` replace
    /// existing ones as a whole. Fields that goodput writes itself (`stream`, the output length) stay unchanged. A template has no
    /// further fields.
    pub fn varied(&self, model: Option<&str>, extra: &Map<String, Value>) -> Self {
        Self(match &self.0 {
            Form::Fields(fields) => Form::Fields(fields.varied(model, extra)),
            Form::Template(template) => Form::Template(template.varied(model)),
            Form::Audio(form) => Form::Audio(form.varied(model, extra)),
        })
    }

    /// Returns an encoder that asks for the answer as one document instead of a stream. A template stays as it is, and so does a form, whose
    /// answer is always one.
    pub fn whole(&self) -> Self {
        Self(match &self.0 {
            Form::Fields(fields) => Form::Fields(fields.whole()),
            form @ (Form::Template(_) | Form::Audio(_)) => form.clone(),
        })
    }

    /// Writes the part of a request that precedes the user's text, as far as many requests can share it. `system` is text that they share:
    /// a system message, or the beginning of the prompt.
    pub fn prefix(&self, system: Option<&str>) -> Bytes {
        match &self.0 {
            Form::Fields(fields) => fields.prefix(system),
            Form::Template(template) => template.prefix(system),
            Form::Audio(form) => form.prefix(),
        }
    }

    /// Writes a request from a prefix of this encoder, the user's text, and the number of tokens to answer with. Where audio is transcribed,
    /// the request has a second of noise in place of the text.
    pub fn request(&self, prefix: &Bytes, user: &str, output_tokens: u32) -> Payload {
        match &self.0 {
            Form::Fields(fields) => fields.request(prefix, user, output_tokens),
            Form::Template(template) => template.request(prefix, user, output_tokens),
            Form::Audio(form) => form.request(&Clip::second()),
        }
    }

    /// Returns images as the API writes them before the text of a message. Empty in an API without images; a plan that asks for them there
    /// is refused.
    pub fn images(&self, images: &[Image]) -> Bytes {
        match &self.0 {
            Form::Fields(fields) => fields.images(images),
            Form::Template(_) | Form::Audio(_) => Bytes::new(),
        }
    }

    /// Writes a request with a whole conversation and the number of tokens to answer with. `images` has those of each message, by its index,
    /// as [`Encoder::images`] returns them; messages beyond its end have none.
    pub fn illustrated(&self, messages: &[Message], images: &[Bytes], output_tokens: u32) -> Payload {
        match &self.0 {
            Form::Fields(fields) => fields.illustrated(messages, images, output_tokens),
            form @ (Form::Template(_) | Form::Audio(_)) => {
                Self(form.clone()).messages(messages, output_tokens)
            }
        }
    }

    /// Writes a request with a whole conversation and the number of tokens to answer with.
    pub fn messages(&self, messages: &[Message], output_tokens: u32) -> Payload {
        match &self.0 {
            Form::Fields(fields) => fields.illustrated(messages, &[], output_tokens),
            Form::Template(template) => template.messages(messages, output_tokens),
            Form::Audio(form) => form.request(&Clip::second()),
        }
    }

    /// Writes a request whose prompt is a list of token ids, with the number of tokens to answer with. Only completions
    /// accepts such a prompt; a plan that asks for it in another API is refused.
    pub fn tokens(&self, ids: &[u32], output_tokens: u32) -> Payload {
        match &self.0 {
            Form::Fields(fields) => fields.tokens(ids, output_tokens),
            Form::Template(template) => template.request(&template.prefix(None), "", output_tokens),
            Form::Audio(form) => form.request(&Clip::second()),
        }
    }

    /// Writes a request of items. Where answers are generated, it has the first text as its prompt.
    pub fn items(&self, items: &ItemTexts) -> Payload {
        match &self.0 {
            Form::Fields(fields) => fields.items(items),
            Form::Template(template) => template.items(items),
            Form::Audio(form) => form.request(&Clip::second()),
        }
    }

    /// Writes a request to transcribe audio. A plan that asks for it in another API is refused.
    pub fn audio(&self, clip: &Clip) -> Payload {
        match &self.0 {
            Form::Fields(fields) => fields.request(&fields.prefix(None), "", 1),
            Form::Template(template) => template.request(&template.prefix(None), "", 1),
            Form::Audio(form) => form.request(clip),
        }
    }

    /// Returns true if a request has a text, so that its tokens can be counted.
    pub const fn takes_text(&self) -> bool {
        !matches!(self.0, Form::Audio(_))
    }

    /// Returns true if a request has a query. [`Encoder::request`] adds one of its own.
    pub const fn needs_query(&self) -> bool {
        match &self.0 {
            Form::Fields(fields) => fields.needs_query(),
            Form::Template(template) => template.needs_query(),
            Form::Audio(_) => false,
        }
    }
}

/// Query of a request that measures something else.
const QUERY: &str = "about";

/// Returns the items of plain texts, with a query of one word if the requests need one.
fn plain_items<'a>(needs_query: bool, texts: impl IntoIterator<Item = &'a str>) -> ItemTexts {
    let query = needs_query.then(|| QUERY.to_owned());
    ItemTexts { query, texts: texts.into_iter().map(str::to_owned).collect() }
}

#[cfg(test)]
mod tests;
