//! The search: a pure function from the steps measured so far to what to do next.

pub mod answer;
