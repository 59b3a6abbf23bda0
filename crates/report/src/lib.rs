//! Reports and charts of a run folder, made from [`goodput_run::rundir::Run`] alone.
//!
//! Facts become words ([`words`]), words become blocks ([`sections`]), blocks are a document ([`document`]), and a renderer ([`render`]) turns it
//! into Markdown, HTML or text for a terminal. Charts ([`charts`]) are drawn apart, and [`write`] puts all of it into a folder.

pub mod charts;
pub mod document;
pub mod escape;
pub mod render;
pub mod result;
pub mod sections;
pub mod words;
pub mod write;

pub use write::write_all;
