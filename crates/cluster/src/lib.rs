//! Load from several machines. A *leader* (the process of the sweep) has *workers* fire their parts of each step, and takes
//! their finished requests as if one machine had sent them.
//!
//! Two state machines decide everything, without a clock or a network of their own: [`worker::WorkerMachine`] and
//! [`step::StepMachine`]. [`serve`] runs the first in a process that fires load, [`fleet`] the second in the leader, and
//! [`bus`] carries their messages over NATS. All messages are requests of the leader and replies of a worker. A request
//! states what is wanted, so that it may be lost, come late, or be repeated.

pub mod about;
pub mod bus;
pub mod chunk;
pub mod clock;
pub mod firing;
#[cfg(test)]
mod fixture;
pub mod fleet;
mod ledger;
mod line;
pub mod local;
pub mod message;
pub mod needed;
pub mod serve;
pub mod step;
pub mod worker;
