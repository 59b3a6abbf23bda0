//! Load: fires the chains of a step and sends a record of each request to the director.
//!
//! The director uses three parts of it: [`spec::Spec`] describes the load, [`local::Load::fire`] fires it, and
//! [`firing::Firing`] is the load while it runs. A `Spec` and the results of its load can be sent to another machine.
//! The other modules implement the load on this machine: the threads that send ([`host`], `sending_loop`), the pacer, and
//! the bodies built ahead (`source`).

pub mod descriptors;
pub mod finished;
pub mod firing;
pub mod host;
pub(crate) mod job;
pub mod lag;
pub mod local;
pub mod pacer;
mod sending_loop;
pub(crate) mod source;
pub mod spec;
mod thread_clock;
