//! The answer of `goodput capacity`: the fleet for a demand, for one candidate or several side by side, as a page, for
//! a terminal and as JSON, and every formula with its numbers.

mod answer;
mod brief;
pub mod candidate;
mod conditions;
mod explain;
mod json;
mod page;
mod pick;
pub mod refused;
mod rows;
mod slide;
mod words;

pub use answer::Capacity;
pub use brief::brief;
pub use json::{json, schema};
pub use page::page;

#[cfg(test)]
mod tests;

#[cfg(test)]
mod schema_tests;
