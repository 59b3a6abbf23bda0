//! Sentences on the goodput along the knobs of a grid: which neighbouring values are told apart, and where the estimate
//! goes against the rest.

use crate::escape::clip;
use crate::words;
use goodput_run::rundir::Run;
use goodput_run::rundir::knobs::{AlongKnob, Neighbours, along};
use std::cmp::Ordering;

/// Returns a sentence or two for each knob with at least two neighbouring values that have a goodput.
pub(super) fn sentences(run: &Run) -> Vec<String> {
    along(run).iter().map(sentence).collect()
}

fn sentence(line: &AlongKnob) -> String {
    let knob = clip(&line.knob, 40);
    let pair = |n: &Neighbours| format!("{} and {}", clip(&n.values[0], 20), clip(&n.values[1], 20));
    let overlapping: Vec<String> = line.neighbours.iter().filter(|n| n.overlap).map(pair).collect();
    let first = match overlapping.len() {
        0 => format!(
            "Along {knob} the 90 % intervals of neighbouring values do not overlap: each step of it is shown."
        ),
        n if n == line.neighbours.len() => format!(
            "Along {knob} the 90 % intervals of all neighbouring values overlap: these steps do not show which of two neighbours is \
             better; more time (--budget) tells."
        ),
        _ => format!(
            "Along {knob} the 90 % intervals of {} overlap: these steps do not show which is better; those of the others do not.",
            words::list(&overlapping)
        ),
    };
    let against: Vec<String> = line.against().into_iter().map(turn).collect();
    [vec![first], against].concat().join(" ")
}

/// Returns what is known of two neighbours between which the estimate goes against the rest.
fn turn(n: &Neighbours) -> String {
    let [low, high] = [clip(&n.values[0], 20), clip(&n.values[1], 20)];
    let what = if n.direction == Ordering::Less { "falls" } else { "rises" };
    let shown = if n.overlap {
        "which may be chance, as the intervals overlap"
    } else {
        "and the intervals do not overlap: the server does that"
    };
    format!("From {low} to {high} the goodput {what}, {shown}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(all: &[(Ordering, bool)]) -> AlongKnob {
        let one = |(i, (direction, overlap)): (usize, &(Ordering, bool))| Neighbours {
            values: [i.to_string(), (i + 1).to_string()],
            direction: *direction,
            overlap: *overlap,
        };
        AlongKnob { knob: "max-num-seqs".into(), neighbours: all.iter().enumerate().map(one).collect() }
    }

    #[test]
    fn neighbours_are_told_apart_or_not() {
        use Ordering::{Greater, Less};
        for (all, wanted) in [
            (&[(Greater, true), (Greater, true)][..], "intervals of all neighbouring values overlap"),
            (&[(Greater, false), (Greater, true)], "intervals of 1 and 2 overlap"),
            (&[(Greater, false)], "each step of it is shown."),
            (
                &[(Greater, true), (Less, true), (Greater, true)],
                "From 1 to 2 the goodput falls, which may be chance",
            ),
            (
                &[(Greater, false), (Greater, false), (Less, false)],
                "From 2 to 3 the goodput falls, and the intervals do not",
            ),
            (&[(Less, true), (Less, true), (Greater, true)], "From 2 to 3 the goodput rises"),
        ] {
            let said = sentence(&line(all));
            assert!(said.contains(wanted), "{said}");
        }
        assert!(!sentence(&line(&[(Greater, true)])).contains("From"));
    }
}
