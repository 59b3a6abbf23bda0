//! The renderers: each makes one kind of file out of a document, and alone escapes what came from outside.

pub mod html;
pub mod markdown;
pub mod terminal;
