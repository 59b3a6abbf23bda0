//! Flags with their present and their suggested values, in English.

use super::evidence::time;
use goodput_core::units::{short, thousands};
use goodput_stats::diagnosis::{Advice, Basis, Current, Flag, Origin, Target, Value};

/// Returns the flag of an advice with its values, as part of a sentence: `--max-num-seqs from 8 (its command line) to
/// 32`. Empty if the advice has no flag.
pub(super) fn flag_with_values(advice: &Advice) -> String {
    let Some(name) = advice.flag.map(flag) else { return String::new() };
    match (&advice.from, &advice.to) {
        (None, None) => name,
        (Some(from), None) => format!("{name} (now {})", current(from)),
        (from, Some(to)) => format!("{name}{}", change(from.as_ref(), to)),
    }
}

/// Returns the name of a flag; vLLM's if the engine is not known.
pub(super) fn flag(flag: Flag) -> String {
    if flag.is_guess { format!("{} (as vLLM calls it)", flag.name) } else { flag.name.to_owned() }
}

fn change(from: Option<&Current>, to: &Target) -> String {
    match &to.value {
        // The name of the flag says it.
        Value::Switch(_) | Value::Word(_) => {
            let now = from.map(|from| format!(" (now {})", current(from))).unwrap_or_default();
            let with =
                to.with.as_ref().map(|(name, to)| format!(", and set {} to {}", flag(*name), value(to)));
            now + &with.unwrap_or_default()
        }
        Value::Count(_) | Value::Share(_) => {
            let from =
                from.map(|c| format!(" from {} ({})", value(&c.value), origin(c.origin))).unwrap_or_default();
            let with = to.with.as_ref().map(|(name, value_)| {
                format!(" and {} to {}, which its slots divide", flag(*name), value(value_))
            });
            format!("{from} to {}{}{}", value(&to.value), with.unwrap_or_default(), basis(&to.basis))
        }
    }
}

/// Returns a present value with its source: `8, by its command line`.
fn current(current: &Current) -> String {
    format!("{}, {}", value(&current.value), by(current.origin))
}

fn value(value: &Value) -> String {
    match value {
        Value::Count(n) => n.to_string(),
        Value::Share(share) => format!("{share:.2}"),
        Value::Switch(true) => "on".into(),
        Value::Switch(false) => "off".into(),
        Value::Word(word) => word.to_string(),
    }
}

/// Returns the source of a value, in parentheses behind it.
const fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::CommandLine => "its command line",
        Origin::Plan => "the plan",
        Origin::Preset => "the preset's default",
        Origin::Server => "as the server reports",
        Origin::Declared => "declared in the plan",
        Origin::Default => "the engine's default",
        Origin::Seen => "inferred from the counters",
    }
}

/// Returns the source of a value, as part of a sentence.
pub(super) const fn by(origin: Origin) -> &'static str {
    match origin {
        Origin::CommandLine => "by its command line",
        Origin::Plan => "by the plan",
        Origin::Preset => "the preset's default",
        Origin::Server => "as the server reports",
        Origin::Declared => "as the plan declares",
        Origin::Default => "the engine's default",
        Origin::Seen => "as the counters show",
    }
}

/// Returns what a value follows from, if that says more than the value.
fn basis(basis: &Basis) -> String {
    match basis {
        Basis::KvRoom { requests, tokens, block_tokens } => {
            let blocks = block_tokens.map(|n| format!(", in blocks of {n}")).unwrap_or_default();
            format!(
                " (the KV cache has room for {} requests of {} tokens{blocks})",
                thousands(requests.floor()),
                thousands(tokens.round())
            )
        }
        Basis::Running { running } => format!(" (below the {} that ran on average)", short(running.ceil())),
        Basis::TpotLimit { limit_ms } => format!(" (as far as TPOT may be {})", time(*limit_ms)),
        Basis::LongestRequest { tokens } => {
            format!(" (the longest request had {} tokens)", thousands(*tokens as f64))
        }
        Basis::HalfIteration => " (half of an iteration)".into(),
        Basis::Multiple | Basis::Step | Basis::Only | Basis::Forecast => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_stats::diagnosis::BatchChange;

    const SEATS: Flag = Flag { name: "--max-num-seqs", is_guess: false };

    fn said(from: Option<(Value, Origin)>, to: Option<(Value, Basis)>) -> String {
        flag_with_values(&Advice {
            change: BatchChange::AdmitMore.into(),
            flag: Some(SEATS),
            from: from.map(|(value, origin)| Current { value, origin }),
            to: to.map(|(value, basis)| Target { value, basis, with: None }),
            expected: None,
        })
    }

    #[test]
    fn values_name_their_source_and_what_they_follow_from() {
        let (eight, more) = (|origin| Some((Value::Count(8), origin)), Value::Count(32));
        assert_eq!(
            said(eight(Origin::CommandLine), Some((more.clone(), Basis::Multiple))),
            "--max-num-seqs from 8 (its command line) to 32"
        );
        assert_eq!(
            said(
                eight(Origin::Seen),
                Some((more, Basis::KvRoom { requests: 33.4, tokens: 2990.0, block_tokens: Some(16) }))
            ),
            "--max-num-seqs from 8 (inferred from the counters) to 32 (the KV cache has room for 33 requests of 2,990 tokens, in blocks of 16)"
        );
        assert_eq!(said(eight(Origin::Server), None), "--max-num-seqs (now 8, as the server reports)");
        assert_eq!(said(None, None), "--max-num-seqs");
        let off = Some((Value::Switch(false), Origin::Plan));
        let on = Some((Value::Switch(true), Basis::Only));
        assert_eq!(said(off, on), "--max-num-seqs (now off, by the plan)");
        assert_eq!(said(None, Some((Value::Share(0.9), Basis::Step))), "--max-num-seqs to 0.90");
    }

    #[test]
    fn a_flag_that_must_follow_is_named() {
        let context = Flag { name: "--ctx-size", is_guess: false };
        let to = Target {
            value: Value::Count(8),
            basis: Basis::Multiple,
            with: Some((context, Value::Count(16_384))),
        };
        let slots = Some(Current { value: Value::Count(4), origin: Origin::CommandLine });
        let advice = Advice {
            change: BatchChange::AdmitMore.into(),
            flag: Some(Flag { name: "--parallel", is_guess: false }),
            from: slots,
            to: Some(to),
            expected: None,
        };
        assert_eq!(
            flag_with_values(&advice),
            "--parallel from 4 (its command line) to 8 and --ctx-size to 16384, which its slots divide"
        );
    }
}
