//! The client, which turns one request into one [`Finished`](goodput_core::record::Finished).
//!
//! [`Server`](goodput_plan::server::Server) is the plan's table; [`Client`] sends over HTTP (with or without TLS) or
//! into a router in this process, so that the whole path runs under tokio's paused clock. [`sse`] splits bytes into
//! payloads, [`event`] parses one payload, and [`Tally`] turns events and their times into a record. [`preflight`]
//! checks the server before the first request.

mod answer_text;
mod broken;
pub mod consent;
mod dialect;
mod dns;
pub mod encoder;
pub mod event;
mod headers;
pub mod key;
mod lines;
pub mod negotiate;
pub mod payload;
pub mod preflight;
mod protocol;
mod proxy;
pub mod public;
mod retry_after;
pub mod route;
mod sample;
mod send;
pub mod splitter;
pub mod sse;
pub mod tally;
mod tls;
mod transport;

pub use dialect::{TemplateReader, parse_document, parse_event};
pub use encoder::{Encoder, Pinning};
pub use key::ApiKey;
pub use payload::Payload;
pub use send::{Client, Shot};
pub use tally::Tally;
