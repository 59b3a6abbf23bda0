//! Limits of the client itself in English: the `reason` of an invalid step in `steps.csv`.
//!
//! These words stand below the reports because `steps.csv` keeps the reason of a verdict as text.

use goodput_core::caveat::{Cause, Excess, OwnFault};
use goodput_core::units::{short, thousands};

/// Advice where the sending threads waited for a core.
const STARVED: &str = "Stop other programs on this machine, give the client more cores, or give it a machine of its own; more sending threads than cores (client.threads) only wait for one another.";

/// Advice about a limit of another tool's client, which no setting of goodput changes.
pub const OTHER_TOOL: &str = "That was the other tool's client: run it on an idle machine, with more cores or faster ones, or measure with goodput sweep.";

/// Returns the limit that was reached and by how much, as a clause without a full stop.
pub fn text(fault: &OwnFault) -> String {
    match fault {
        OwnFault::MaxInFlight { allowed, held } => {
            let allowed = thousands(f64::from(*allowed));
            format!("the client reached its max-in-flight of {allowed} and did not send {}", requests(*held))
        }
        OwnFault::Exhausted { held } => {
            format!("the client ran out of descriptors or ports and could not send {}", requests(*held))
        }
        OwnFault::Behind { sent, due, cause } => {
            let (sent, due) = (thousands(*sent as f64), thousands(*due as f64));
            format!("the client sent {sent} of {due} requests that were due{}", cause_text(*cause))
        }
        OwnFault::Late(e) => format!("the client sent late, {}", excess_text(e, "lateness")),
        OwnFault::Lagging(e) => format!("the client read answers late, {}", excess_text(e, "receive lag")),
        OwnFault::Starved { waiting, allowed } => format!(
            "the client's sending threads waited for a core {} of the time, where {} is allowed",
            percent(*waiting),
            percent(*allowed)
        ),
        OwnFault::Halted { times: 1, total_ms } => {
            format!("the client stood still for {} ms, and so did every request", milliseconds(*total_ms))
        }
        OwnFault::Halted { times, total_ms } => format!(
            "the client stood still {times} times, for {} ms in all, and so did every request",
            milliseconds(*total_ms)
        ),
    }
}

/// Returns what to do about it, as a sentence.
pub const fn advice(fault: &OwnFault) -> &'static str {
    match fault {
        OwnFault::MaxInFlight { .. } => {
            "Raise step.max-in-flight, and ulimit -n with it; if the server holds that many because it is too slow, measure lower levels."
        }
        OwnFault::Exhausted { .. } => {
            "Raise the limit of open files (ulimit -n); if it is ports that ran out, name several addresses of the server (server.urls) or spread the load over several machines."
        }
        OwnFault::Starved { .. } => STARVED,
        OwnFault::Halted { .. } => {
            "Let nothing stop or suspend the client while it measures: no sleep of its machine, no snapshot of its virtual machine, no quota of CPU time."
        }
        OwnFault::Behind { cause, .. }
        | OwnFault::Late(Excess { cause, .. })
        | OwnFault::Lagging(Excess { cause, .. }) => match cause {
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

/// Returns the reason of a step that is invalid for it: the limit, and what to do.
pub(super) fn reason(fault: &OwnFault) -> String {
    format!("{}. {}", text(fault), advice(fault).trim_end_matches('.'))
}

fn excess_text(excess: &Excess, what: &str) -> String {
    format!(
        "p99 {what} of {} ms where {} ms is allowed ({} of the tightest limit of {} ms){}",
        short(excess.p99_ms),
        short(excess.allowed_ms),
        percent(excess.allowed_ms / excess.limit_ms),
        short(excess.limit_ms),
        cause_text(excess.cause)
    )
}

fn cause_text(cause: Cause) -> String {
    match cause {
        Cause::Starved { waiting, busy } => {
            let had = busy.map(|b| format!(" and had one {}", percent(b))).unwrap_or_default();
            format!("; a sending thread waited for a core {} of the time{had}", percent(waiting))
        }
        Cause::Busy(share) => format!("; a sending thread was busy {} of the time", percent(share)),
        Cause::Unknown => String::new(),
    }
}

fn milliseconds(ms: f64) -> String {
    if ms < 999.5 { short(ms) } else { thousands(ms) }
}

fn requests(n: u64) -> String {
    if n == 1 { "1 request".into() } else { format!("{} requests", thousands(n as f64)) }
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
        for (fault, say, to_do) in [
            (
                OwnFault::MaxInFlight { allowed: 4096, held: 37 },
                "the client reached its max-in-flight of 4,096 and did not send 37 requests",
                "step.max-in-flight",
            ),
            (
                OwnFault::Exhausted { held: 1 },
                "the client ran out of descriptors or ports and could not send 1 request",
                "ulimit -n",
            ),
            (
                OwnFault::Behind { sent: 900, due: 1000, cause: Cause::Busy(0.97) },
                "the client sent 900 of 1,000 requests that were due; a sending thread was busy 97 % of the time",
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
                "the client stood still for 3,000 ms, and so did every request",
                "suspend",
            ),
            (
                OwnFault::Halted { times: 2, total_ms: 700.0 },
                "the client stood still 2 times, for 700 ms in all, and so did every request",
                "CPU time",
            ),
        ] {
            assert_eq!(text(&fault), say);
            assert!(advice(&fault).contains(to_do) && reason(&fault).starts_with(say), "{}", reason(&fault));
        }
    }
}
