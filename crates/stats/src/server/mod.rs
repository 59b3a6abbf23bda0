//! What the server tells about itself, read from the text of its `/metrics`. Whoever has a client fetches the text.

pub mod engine;
pub mod facts;
pub mod histogram;
pub mod prometheus;
pub mod reading;
pub mod selected;
pub mod watch;

pub use engine::{Counts, Engine, Latency, Signal};
pub use histogram::Histogram;
pub use reading::{Reading, Restarted};
