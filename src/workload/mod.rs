//! What is sent and when: seeded, lazily drawn chains of requests, and the text of their prompts.

pub mod arrivals;
pub mod chain;
pub mod config;
pub mod draw;
pub mod lengths;
pub mod prompts;
pub mod seed;
pub mod trace;
pub mod words;
