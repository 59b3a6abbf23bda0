//! Statistics of a step: pure functions from records to counts, percentiles and what they show.
//!
//! `summary` is the way in: a step's records, as they are `kept`, become one [`step::Step`]. It rests on `percentile` (order statistics with
//! bounds), `tail` (how many values such a bound may count), `itl` (the pooled gaps), `limits` (a row of counts per limit, guarded against the client's own faults),
//! `own` (what the client may do wrong), `verdict` (what counts show), `needed` (how many requests would decide what they leave open), `cluster` (how misses come together), `co_misses` (how far two limits are missed together) and `steady` (whether
//! the backlog grows). `meta` pools the answers of several runs. `replicas` has the same requests by the server that they were dealt to, `groups` by class and turn; `server` is what its own counters say.

pub(crate) mod binomial;
pub mod client_fault;
pub mod cluster;
pub mod co_misses;
pub mod elasticity;
mod fault;
pub mod groups;
mod halt;
pub mod itl;
pub mod kept;
mod limits;
pub mod meta;
pub mod needed;
pub mod own;
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
