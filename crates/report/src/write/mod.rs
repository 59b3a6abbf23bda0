//! Reports, comparisons and charts as files.

mod comparison;
mod file;
pub mod pictures;
mod report;

pub use comparison::write_comparison;
pub use report::write_all;
