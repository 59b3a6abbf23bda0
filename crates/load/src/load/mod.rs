//! Load: the threads that send, the pacer, the bodies built ahead, and the loop that fires a step's chains and sends Records
//! home.

pub mod descriptors;
pub mod host;
pub mod job;
pub mod lag;
pub mod pacer;
pub mod source;
pub mod thread_clock;
pub mod worker;
