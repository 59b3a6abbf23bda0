//! Numbers of caveats as JSON has them.

use serde::{Deserialize, Deserializer};

/// Reads a number, and `null` as one that is not known: JSON has no other way to write what is infinite or none, and one such number must
/// not make all of a run folder unreadable.
pub(super) fn number<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(from)?.unwrap_or(f64::NAN))
}

#[cfg(test)]
mod tests {
    use super::super::{
        Cause, Caveat, ClientCaveat, CountersCaveat, Excess, LengthsCaveat, LengthsOf, OwnFault, Refusal,
        ServerCaveat,
    };

    /// Each way in which a number stands in a caveat: by itself, beside what is flattened, within a fault and within its cause.
    #[test]
    fn a_caveat_reads_back_whatever_its_numbers_are() {
        for x in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e308, 0.5] {
            let cause = [Cause::Busy(x), Cause::Starved { waiting: x, busy: Some(x) }];
            let late = cause.map(|cause| {
                let excess = Excess { p99_ms: x, allowed_ms: x, limit_ms: x, cause };
                Caveat::from(ClientCaveat::OwnLimit {
                    step: 1,
                    fault: OwnFault::Late(excess),
                    invalid: true,
                    judged: true,
                })
            });
            let mut all: Vec<Caveat> = vec![
                ServerCaveat::NotDrained { step: 3, left: x }.into(),
                LengthsCaveat::LengthsNotPinned { asked: x, got: x, of: LengthsOf::default() }.into(),
                CountersCaveat::TtftDiffers {
                    step: 1,
                    steps: 1,
                    client_ms: x,
                    server_ms: x,
                    queue_ms: Some(x),
                }
                .into(),
                ServerCaveat::Refused { step: 1, how: Refusal::AskedToWait { asked_s: x, waited_s: x } }
                    .into(),
                ClientCaveat::OwnLimit {
                    step: 1,
                    fault: OwnFault::Halted { times: 1, total_ms: x },
                    invalid: false,
                    judged: true,
                }
                .into(),
            ];
            all.extend(late);
            let text = serde_json::to_string(&all).unwrap();
            let read: Vec<Caveat> =
                serde_json::from_str(&text).unwrap_or_else(|e| panic!("{x}: {e}: {text}"));
            assert_eq!(read.len(), all.len());
            if x.is_finite() {
                assert_eq!(read, all);
            }
            // `null` may also be written by a program between.
            let again = serde_json::to_value(&read).and_then(serde_json::from_value::<Vec<Caveat>>);
            assert!(again.is_ok_and(|again| again.len() == all.len()), "{x}");
        }
    }
}
