//! The run folder: its file formats, and the analyses that read one run folder or several.

pub mod compare;
#[cfg(any(test, feature = "fixture"))]
pub mod fixture;
pub mod import;
pub mod peers;
pub mod rundir;
pub mod trend;
