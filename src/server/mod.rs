//! What the server tells about itself, read from the text of its `/metrics`. Whoever has a client fetches the text.

pub mod idle;
pub mod prefix;
pub mod prometheus;

pub use idle::{InServer, in_server};
pub use prefix::PrefixCache;
