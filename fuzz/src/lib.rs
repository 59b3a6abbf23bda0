//! The parsers that the targets feed are those of `tests/hostile.rs`.

#[path = "../../tests/common/parsers.rs"]
pub mod parsers;
