//! The simulated server: pure models of an engine, and an OpenAI-compatible server over them.
//!
//! Used in three ways, by the same models: over a loopback socket ([`serve`]), in process on tokio's paused clock
//! ([`router`]), and bare, without HTTP ([`goodput_engine::Model`]).

mod actor;
mod adapters;
mod audio;
mod choice_writers;
pub mod dialect;
mod fault;
mod form;
mod image;
mod items;
mod metrics;
pub mod null;
mod request;
pub mod router;
mod rules;
pub mod serve;
mod socket;
mod writer;
