//! Types that all other crates share: units, levels, SLOs, records, messages and caveats.

pub mod bidi;
pub mod caveat;
pub mod check;
mod checked;
pub mod distribution;
pub mod endpoint;
pub mod hash;
pub mod key;
pub mod level;
pub mod message;
mod named;
pub mod output_schema;
pub mod record;
pub mod redact;
pub mod secrets;
pub mod slo;
pub mod times;
pub mod tokens;
pub mod units;
