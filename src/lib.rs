//! How many requests per second can an LLM server take while p99 TTFT and p99 TPOT still meet the SLO?

pub mod capacity;
pub mod caveat;
pub mod cli;
pub mod client;
pub mod cmd;
pub mod level;
pub mod load;
pub mod plan;
pub mod record;
pub mod report;
pub mod rundir;
pub mod search;
pub mod server;
pub mod sim;
pub mod slo;
pub mod stats;
pub mod sweep;
pub mod units;
pub mod workload;
