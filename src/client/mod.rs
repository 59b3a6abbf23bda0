//! One request becomes one [`Finished`](crate::record::Finished): the target, the API's dialect, and the stream.
//!
//! [`Server`] is the plan's table; [`Client`] sends over HTTP/1.1 (TLS or not) or into a router in this process, so that
//! the whole path runs under tokio's paused clock. [`sse`] cuts bytes into payloads, [`event`] reads one payload, and
//! [`Tally`] turns events and their times into a record. [`preflight`] is what is asked before anything is measured.

mod broken;
pub mod config;
pub mod dialect;
mod dns;
pub mod event;
pub mod extras;
pub mod key;
pub mod negotiate;
pub mod pages;
pub mod payload;
pub mod preflight;
pub mod proxy;
pub mod public;
mod retry_after;
mod said;
mod sample;
pub mod secrets;
mod send;
pub mod sse;
pub mod tally;
pub mod tls;
mod transport;
mod way;

pub use config::{Api, BaseUrl, Connections, Http, PromptForm, Server, Target};
pub use dialect::{Encoder, Pinning};
pub use key::{ApiKey, KeySource};
pub use pages::{OwnMetrics, PageUrl};
pub use payload::Payload;
pub use proxy::Proxy;
pub use send::{Client, Shot};
pub use tally::Tally;
pub use tls::Tls;
