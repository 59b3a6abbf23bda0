//! The server's own metrics: parses the text of its `/metrics` page. Fetching the text is left to the client.

pub mod engine;
pub mod exposed;
pub mod facts;
pub mod histogram;
pub mod latency;
pub mod prometheus;
pub mod reading;
pub mod selected;
pub mod watch;

pub use engine::{Engine, Signal, TokenCounting};
pub use histogram::Histogram;
pub use latency::Latency;
pub use reading::{Reading, Restarted};
