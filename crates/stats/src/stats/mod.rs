//! Statistics of a step: pure functions from request records to counts, percentiles and verdicts.
//!
//! Entry point: `summary` turns the compact records of a step (`compact_record`) into one [`step::Step`]. It uses
//!
//! - `percentile` (order statistics with confidence bounds) and `tail` (how many values such a bound may count as independent),
//! - `itl` (pooled gaps between tokens),
//! - `limits` (one row of counts per limit, guarded against faults of the client: `client`, `client_faults`, `halt`),
//! - `verdict` (what counts show) and `needed` (how many more requests would decide an undecided limit),
//! - `cluster` (how misses cluster) and `co_misses` (how often two limits are missed by the same requests),
//! - `steady` (whether the backlog grows).
//!
//! `meta` pools the answers of several runs. `replicas` splits the requests of a step by server, `groups` by class and turn;
//! `workers` splits them by load machine. `server` summarises the server's own counters, and `gpu` what `[[metrics]]` tells of
//! the GPUs.

pub(crate) mod binomial;
pub mod client;
pub mod client_fault;
mod client_faults;
pub mod cluster;
pub mod co_misses;
pub mod compact_record;
pub mod elasticity;
pub mod gpu;
pub mod groups;
mod halt;
pub mod isotonic;
pub mod itl;
mod kruskal_wallis;
mod latency_columns;
mod limits;
pub mod meta;
pub mod needed;
pub mod percentile;
#[cfg(test)]
mod queues;
pub mod reason;
pub mod recovery;
pub mod replicas;
pub mod server;
pub mod steady;
pub mod step;
pub mod summary;
mod tail;
pub mod verdict;
pub mod workers;
