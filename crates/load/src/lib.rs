//! Sends requests and measures the answers: the client, the threads that send, the processes of servers, and the
//! simulated server.

pub mod calibrate;
pub mod client;
pub mod launch;
pub mod load;
pub mod pages;
pub mod sim;
