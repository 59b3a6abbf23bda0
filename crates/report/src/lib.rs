//! Reports and charts of a run folder, made only from [`goodput_run::rundir::Run`].
//!
//! Facts become words ([`words`]), words become blocks ([`sections`]), blocks form a document ([`document`]), and a
//! renderer ([`render`]) converts it into Markdown, HTML or text for a terminal. Charts ([`charts`]) are drawn
//! separately, and [`mod@write`] stores everything in a folder.

pub mod charts;
pub mod document;
pub mod escape;
pub mod render;
pub mod result;
pub mod runs;
pub mod sections;
pub mod watch;
pub mod words;
pub mod write;

pub use write::{ChartFiles, write_all};
