//! What to measure next: the one change that would settle a finding.

use super::advice::{Flags, Knob, flag, flags};
use super::subject::Subject;
use super::{Kind, Next};
use goodput_core::level::Control;
use goodput_core::units::short;

/// The plan's own key for lengths, where there is one.
const LENGTHS: &str = "workload.prompts.synthetic.input-tokens";

/// What would settle a finding.
pub(super) fn of(kind: Kind, s: &Subject<'_>) -> Next {
    if s.curve.question.is_some()
        && let Some(text) = row(kind)
    {
        return Next { text: text.into(), command: command(s, &[]) };
    }
    let again = |sets: &[String]| command(s, sets);
    match kind {
        Kind::ClientLimited => Next {
            text: "See what this machine can send before the next sweep".into(),
            command: "goodput calibrate --save client.json".into(),
        },
        Kind::Preemption | Kind::KvExhaustion => {
            let fewer = s.at.server.running_mean.map_or(1, |n| ((0.75 * n) as u32).max(1));
            restarted(s, Knob::Sequences, fewer, "preemptions and waits must go, and the goodput rise or hold")
        }
        Kind::BatchTooSmall => {
            let more = super::figure::seats(s).map_or(2, |n| 2 * n as u32).max(2);
            restarted(s, Knob::Sequences, more, "the wait must fall and TPOT stay within its limit")
        }
        Kind::CacheMisses => Next {
            text: "The same sweep cold and warm shows what the cache is worth".into(),
            command: again(&["workload.cache=pair".into()]),
        },
        Kind::CommunicationBound => Next {
            text: "The same sweep with half as many GPUs to a copy of the model: where TPOT hardly grows, they waited for one another".into(),
            command: again(&[format!("hardware.tensor-parallel={}", (s.curve.tensor_parallel.unwrap_or(2) / 2).max(1))]),
        },
        Kind::PrefillBound => match s.curve.fixed_input {
            Some(n) if n > 1 => Next {
                text: "With prompts half as long TTFT must fall by about that share, and the goodput rise".into(),
                command: again(&[format!("{LENGTHS}={{fixed={}}}", n / 2)]),
            },
            _ => Next {
                text: "A matrix with a short and a long prompt tells overhead from prefill".into(),
                command: "goodput sweep matrix --url URL".into(),
            },
        },
        Kind::DecodeBound => Next {
            text: "One request alone, without load: its TPOT is what no flag for batches can better".into(),
            command: latency(s),
        },
        Kind::BatchingTradeOff => {
            let levels = ladder(s);
            Next {
                text: "A closed loop with fewer and more in flight shows where TPOT passes its limit, and what that costs in tokens/s".into(),
                command: again(&[format!("search.concurrency=[{levels}]")]),
            }
        }
        Kind::Queueing if s.is_open() => Next {
            text: "The same with evenly spaced arrivals: where the tail falls to the median, it is requests that come together".into(),
            command: again(&["workload.arrivals=constant".into()]),
        },
        Kind::Queueing | Kind::Unstable => Next {
            text: "Levels below this one show how much of it is there without the backlog".into(),
            command: again(&[format!("search.{}=[{}]", list(s), below(s))]),
        },
    }
}

/// What another row of the matrix would settle.
const fn row(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::PrefillBound => Some(
            "Add a row to plan.toml that is like this one with half of its input-tokens: TTFT must fall by about that share",
        ),
        Kind::DecodeBound => {
            Some("Measure the same rows with weights of fewer bits: TPOT must fall about as the bytes do")
        }
        Kind::BatchingTradeOff | Kind::Queueing | Kind::Unstable => Some(
            "Add a row to plan.toml that is like this one with half of its load: it tells how much of this is the load's",
        ),
        _ => None,
    }
}

/// What would tell where a kind could not be decided, if a command can.
pub(super) fn to_tell(kind: Kind, s: &Subject<'_>) -> Option<Next> {
    match kind {
        Kind::PrefillBound => {
            let n = s.curve.fixed_input?;
            let ends =
                format!("{LENGTHS}={{uniform={{min={},max={}}}}}", (n / 3).max(1), n.saturating_mul(5) / 3);
            Some(Next {
                text: "Prompts of different lengths around the same mean: the unloaded step then tells what each token costs".into(),
                command: command(s, &[ends]),
            })
        }
        Kind::CommunicationBound => Some(of(kind, s)),
        Kind::DecodeBound | Kind::Queueing | Kind::BatchingTradeOff if s.alone.is_none() => Some(Next {
            text: "With an unloaded step before the others there is something to hold them against".into(),
            command: command(s, &["search.baseline=true".into()]),
        }),
        _ => None,
    }
}

/// The plan once more with some of it set otherwise. The rows of a matrix are levels and prompts of their own, which nothing sets from outside.
fn command(s: &Subject<'_>, sets: &[String]) -> String {
    let free = |set: &&String| {
        s.curve.question.is_none() || !(set.starts_with("search.") || set.starts_with("workload.prompts"))
    };
    let sets: String = sets.iter().filter(free).map(|set| format!(" --set '{set}'")).collect();
    // Behind the plan, before what the first run had.
    s.facts.again.replacen("plan.toml", &format!("plan.toml{sets}"), 1)
}

/// The same against a server with another value; of the simulated one that is a key of the plan.
fn restarted(s: &Subject<'_>, knob: Knob, value: u32, shows: &str) -> Next {
    match (flags(s), flag(s, knob)) {
        (Flags::Simulated, Some(key)) => Next {
            text: format!("The same with {value} sequences at a time: {shows}"),
            command: command(s, &[format!("{key}={value}")]),
        },
        (_, Some(flag)) => Next {
            text: format!("Start the server with {flag} at {value} and measure again: {shows}"),
            command: command(s, &[]),
        },
        (_, None) => Next {
            text: format!("Measure again with {value} sequences at a time: {shows}"),
            command: command(s, &[]),
        },
    }
}

/// One request alone against the same server.
fn latency(s: &Subject<'_>) -> String {
    if flags(s) == Flags::Simulated {
        command(s, &["search.concurrency=[1]".into()])
    } else {
        "goodput latency --url URL".into()
    }
}

/// Numbers in flight around what was in flight.
fn ladder(s: &Subject<'_>) -> String {
    let most = s.at.in_flight_mean.max(4.0);
    let mut all: Vec<u32> =
        [0.125, 0.25, 0.5, 1.0].iter().map(|x| ((most * x).round() as u32).max(1)).collect();
    all.dedup();
    all.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

const fn list(s: &Subject<'_>) -> &'static str {
    match s.at.level.control {
        Control::Concurrency => "concurrency",
        _ => "rates",
    }
}

/// Three levels below the step's.
fn below(s: &Subject<'_>) -> String {
    let level = s.at.level;
    let of = |share: f64| match level.control {
        Control::Concurrency => (level.value * share).round().max(1.0),
        _ => level.value * share,
    };
    let mut all = [0.5, 0.7, 0.85].map(|share| short(of(share))).to_vec();
    all.dedup();
    all.join(", ")
}
