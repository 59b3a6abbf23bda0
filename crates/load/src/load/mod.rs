//! Load: fires the chains of a step and sends a record of each request home.
//!
//! The director uses three parts of it: [`spec::Spec`] describes the load, [`local::Load::fire`] fires it, and
//! [`firing::Firing`] is the load while it runs. What is in a `Spec` and what comes back can be sent to another
//! machine. The rest is how this machine does it: the threads that send ([`host`], [`worker`]), the pacer, and the
//! bodies built ahead ([`source`]).

pub mod descriptors;
pub mod firing;
pub mod host;
pub mod job;
pub mod lag;
pub mod local;
pub mod pacer;
pub mod source;
pub mod spec;
pub mod thread_clock;
pub mod worker;
