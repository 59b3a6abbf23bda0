//! Data sets: prompts and conversations read from files, checked row by row, in memory that grows by 16 bytes a row.
//!
//! ```text
//! DataSource (plan) ─ Blob (open, spool) ─ Rows (scan) ─ formats ─ build ─ index + Summary
//!                                                                     DataSet::order ─ get ─ Sample
//! ```
//!
//! [`DataSet::open`] reads every row once and keeps where it lies; [`DataSet::get`] reads a row again when it is needed. A new
//! format is a variant of [`Format`] and a file beside `sharegpt.rs`.

mod build;
pub mod config;
pub mod estimate;
mod fields;
mod formats;
mod index;
pub mod open;
pub mod order;
pub mod sample;
mod scan;
pub mod set;
pub mod summary;
pub mod text;

pub use config::{DataSource, Format};
pub use estimate::{Counter, TokenEstimate};
pub use order::Order;
pub use sample::{Sample, TurnSample};
pub use set::DataSet;
pub use summary::Summary;
pub use text::TextCorpus;
