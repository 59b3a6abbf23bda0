//! Runs side by side, for people: the differences first, then the table, then the sentence that answers.

mod brief;
mod notes;
mod page;
mod parts;

pub use brief::brief;
pub use notes::{content, schema};
pub(crate) use page::page;
pub use page::summary;

#[cfg(test)]
mod schema_tests;
#[cfg(test)]
mod tests;
