//! What the client itself did wrong in a step: which limit of its own it reached, by how much, and what to do about it.

use super::number::number;
use crate::units::short;
use serde::{Deserialize, Serialize};

/// A limit of the client's own.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OwnFault {
    /// `max-in-flight` was reached.
    MaxInFlight {
        /// The plan's `max-in-flight`.
        allowed: u32,
        /// Requests that were not sent for it.
        held: u64,
    },
    /// The process had no descriptor, or the machine no port, left.
    Exhausted {
        /// Requests that were not sent for it.
        held: u64,
    },
    /// Fewer requests were sent in the measured window than were due.
    Behind {
        /// How many were sent.
        sent: u64,
        /// How many were due.
        due: u64,
        /// Why, by what the threads did.
        cause: Cause,
    },
    /// Requests were sent late.
    Late(Excess),
    /// Answers lay unread.
    Lagging(Excess),
    /// The sending threads got no core.
    Starved {
        /// Share of the window in which one waited for a core.
        #[serde(deserialize_with = "number")]
        waiting: f64,
        /// The share that is allowed.
        #[serde(deserialize_with = "number")]
        allowed: f64,
    },
    /// The client as a whole stood still: stopped, suspended, or paused with its machine.
    Halted {
        /// How often.
        times: u64,
        /// For how long in all, in milliseconds.
        #[serde(deserialize_with = "number")]
        total_ms: f64,
    },
}

/// A delay of the client's own that is larger than allowed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Excess {
    /// Its p99 in milliseconds.
    #[serde(deserialize_with = "number")]
    pub p99_ms: f64,
    /// The largest that is allowed, in milliseconds.
    #[serde(deserialize_with = "number")]
    pub allowed_ms: f64,
    /// The limit of which that is a share, in milliseconds.
    #[serde(deserialize_with = "number")]
    pub limit_ms: f64,
    /// Why, by what the threads did.
    pub cause: Cause,
}

/// Why the client was slow, by the clocks of its sending threads.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// A thread waited for a core for more than the allowed share of the time, or for longer than it had one.
    Starved {
        /// Share of the time that it waited.
        #[serde(deserialize_with = "number")]
        waiting: f64,
        /// Share of the time that it had one, where known.
        busy: Option<f64>,
    },
    /// A thread was on a core for most of the time: this share.
    Busy(#[serde(deserialize_with = "number")] f64),
    /// Neither; or the system does not tell.
    Unknown,
}

impl OwnFault {
    /// What is the case, as a part of a sentence: which limit, and by how much.
    pub fn text(&self) -> String {
        match self {
            Self::MaxInFlight { allowed, held } => {
                format!(
                    "the client reached its max-in-flight of {allowed} and did not send {}",
                    requests(*held)
                )
            }
            Self::Exhausted { held } => {
                format!("the client ran out of descriptors or ports and could not send {}", requests(*held))
            }
            Self::Behind { sent, due, cause } => {
                format!("the client sent {sent} of {due} requests that were due{}", cause.text())
            }
            Self::Late(e) => format!("the client sent late, {}", e.text("lateness")),
            Self::Lagging(e) => format!("the client read answers late, {}", e.text("receive lag")),
            Self::Starved { waiting, allowed } => format!(
                "the client's sending threads waited for a core {} of the time, where {} is allowed",
                percent(*waiting),
                percent(*allowed)
            ),
            Self::Halted { times: 1, total_ms } => {
                format!("the client stood still for {} ms, and so did every request", short(*total_ms))
            }
            Self::Halted { times, total_ms } => format!(
                "the client stood still {times} times, for {} ms in all, and so did every request",
                short(*total_ms)
            ),
        }
    }

    /// What to do about it, as a sentence.
    pub const fn advice(&self) -> &'static str {
        match self {
            Self::MaxInFlight { .. } => {
                "Raise step.max-in-flight, and ulimit -n with it; if the server holds that many because it is too slow, measure lower levels."
            }
            Self::Exhausted { .. } => {
                "Raise the limit of open files (ulimit -n); if it is ports that ran out, name several addresses of the server (server.urls) or spread the load over several machines."
            }
            Self::Starved { .. } => STARVED,
            Self::Halted { .. } => {
                "Let nothing stop or suspend the client while it measures: no sleep of its machine, no snapshot of its virtual machine, no quota of CPU time."
            }
            Self::Behind { cause, .. }
            | Self::Late(Excess { cause, .. })
            | Self::Lagging(Excess { cause, .. }) => match cause {
                Cause::Starved { .. } => STARVED,
                Cause::Busy(_) => {
                    "Let more threads send (client.threads) on more cores, use a faster machine, or spread the load over several machines."
                }
                Cause::Unknown => {
                    "Run the client on an idle machine, with more cores or faster ones; client.threads says how many threads send."
                }
            },
        }
    }

    /// The reason of a step that is invalid for it: what is the case, and what to do.
    pub fn reason(&self) -> String {
        format!("{}. {}", self.text(), self.advice().trim_end_matches('.'))
    }

    /// How bad it is among its like: the more, the worse.
    pub fn excess(&self) -> f64 {
        let over = |x: f64, allowed: f64| x / allowed.max(1e-9);
        match self {
            Self::MaxInFlight { held, .. } | Self::Exhausted { held } => *held as f64,
            Self::Behind { sent, due, .. } => over(*due as f64, *sent as f64),
            Self::Late(e) | Self::Lagging(e) => over(e.p99_ms, e.allowed_ms),
            Self::Starved { waiting, allowed } => over(*waiting, *allowed),
            Self::Halted { total_ms, .. } => *total_ms,
        }
    }

    /// Whether it is about the same limit.
    pub fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

const STARVED: &str = "Stop other programs on this machine, give the client more cores, or give it a machine of its own; more sending threads than cores (client.threads) only wait for one another.";

impl Excess {
    fn text(&self, what: &str) -> String {
        format!(
            "p99 {what} of {} ms where {} ms is allowed ({} of the tightest limit of {} ms){}",
            short(self.p99_ms),
            short(self.allowed_ms),
            percent(self.allowed_ms / self.limit_ms),
            short(self.limit_ms),
            self.cause.text()
        )
    }
}

impl Cause {
    fn text(self) -> String {
        match self {
            Self::Starved { waiting, busy } => {
                let had = busy.map(|b| format!(" and had one {}", percent(b))).unwrap_or_default();
                format!("; a sending thread waited for a core {} of the time{had}", percent(waiting))
            }
            Self::Busy(share) => format!("; a sending thread was busy {} of the time", percent(share)),
            Self::Unknown => String::new(),
        }
    }
}

fn requests(n: u64) -> String {
    if n == 1 { "1 request".into() } else { format!("{n} requests") }
}

fn percent(share: f64) -> String {
    format!("{} %", short(share * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows: the fault, what is said of it, and a word of the advice.
    #[test]
    fn each_fault_says_which_limit_by_how_much_and_what_to_do() {
        let excess = |cause| Excess { p99_ms: 12.0, allowed_ms: 5.0, limit_ms: 100.0, cause };
        for (fault, say, advice) in [
            (
                OwnFault::MaxInFlight { allowed: 4096, held: 37 },
                "the client reached its max-in-flight of 4096 and did not send 37 requests",
                "step.max-in-flight",
            ),
            (
                OwnFault::Exhausted { held: 1 },
                "the client ran out of descriptors or ports and could not send 1 request",
                "ulimit -n",
            ),
            (
                OwnFault::Behind { sent: 900, due: 1000, cause: Cause::Busy(0.97) },
                "the client sent 900 of 1000 requests that were due; a sending thread was busy 97 % of the time",
                "client.threads",
            ),
            (
                OwnFault::Late(excess(Cause::Starved { waiting: 0.23, busy: Some(0.05) })),
                "the client sent late, p99 lateness of 12 ms where 5 ms is allowed (5 % of the tightest limit of 100 ms); a sending thread waited for a core 23 % of the time and had one 5 %",
                "other programs",
            ),
            (
                OwnFault::Lagging(excess(Cause::Unknown)),
                "the client read answers late, p99 receive lag of 12 ms where 5 ms is allowed (5 % of the tightest limit of 100 ms)",
                "idle machine",
            ),
            (
                OwnFault::Starved { waiting: 0.234, allowed: 0.1 },
                "the client's sending threads waited for a core 23.4 % of the time, where 10 % is allowed",
                "more cores",
            ),
            (
                OwnFault::Halted { times: 1, total_ms: 3000.0 },
                "the client stood still for 3000 ms, and so did every request",
                "suspend",
            ),
            (
                OwnFault::Halted { times: 2, total_ms: 700.0 },
                "the client stood still 2 times, for 700 ms in all, and so did every request",
                "CPU time",
            ),
        ] {
            assert_eq!(fault.text(), say);
            assert!(fault.advice().contains(advice) && fault.reason().starts_with(say), "{}", fault.reason());
        }
    }
}
