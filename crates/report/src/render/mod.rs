//! The renderers. Each converts a document into one format and escapes text from outside; nothing else does.

pub(crate) mod html;
pub mod junit;
pub mod markdown;
pub mod terminal;
