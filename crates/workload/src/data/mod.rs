//! Data sets: prompts and conversations read from files and checked row by row, with 16 bytes of memory per row.
//!
//! ```text
//! DataSource (plan) ─ StoredFile ─ Scanner ─ formats ─ build ─ index + Summary
//!                                                                     DataSet::order ─ get ─ Sample
//! ```
//!
//! [`DataSet::open`] reads every row once and stores its position; [`DataSet::get`] reads a row again when it is
//! needed. A new format is a variant of [`Format`] and a file next to `sharegpt.rs`.

mod build;
mod calls;
pub mod config;
mod estimate;
mod fields;
mod formats;
mod index;
mod order;
mod sample;
mod set;
mod summary;
pub mod text;

pub use config::{DataSource, Format};
pub use estimate::{Counter, TokenEstimate};
pub use order::Order;
pub use sample::{Sample, TurnSample};
pub use set::DataSet;
pub use summary::Summary;
pub use text::TextCorpus;
