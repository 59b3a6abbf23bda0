//! The words on a server on this machine that did not have the cores to itself.

use super::number::number;
use serde::{Deserialize, Serialize};

/// Neighbours of a server on this machine: work of others on its cores. Shares are of the time of all cores.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Neighbours {
    /// Other processes of this machine.
    Processes {
        /// Share that they had.
        #[serde(deserialize_with = "number")]
        share: f64,
        /// Share of the time in which something that could run had no core, where the system tells.
        waiting: Option<f64>,
    },
    /// Other processes, or the server itself: its own cannot be told from the others.
    Unknown {
        /// Share that was busy.
        #[serde(deserialize_with = "number")]
        busy: f64,
        /// Share of the time in which something that could run had no core.
        #[serde(deserialize_with = "number")]
        waiting: f64,
    },
    /// Other virtual machines of the same host.
    Machines {
        /// Share that the hypervisor gave to them (steal).
        #[serde(deserialize_with = "number")]
        steal: f64,
    },
}

impl Neighbours {
    /// Returns what is the case in a step, as a sentence.
    pub(super) fn text(&self, step: u32, steps: u32, of: u32) -> String {
        let percent = |share: f64| format!("{:.0} %", 100.0 * share);
        let what = match self {
            Self::Processes { share, waiting } => {
                let waited = waiting.map_or(String::new(), |w| {
                    format!(", and something that could run had no core for {} of the time", percent(w))
                });
                format!(
                    "other processes had {} of this machine's cores in step {step} while the server ran here{waited}",
                    percent(*share)
                )
            }
            Self::Unknown { busy, waiting } => format!(
                "this machine's cores were {} busy in step {step} while the server ran here, and something that could run had no core for {} of \
                 the time; whether the server itself or a neighbour had them cannot be told, since its processes are not to be seen from here",
                percent(*busy),
                percent(*waiting)
            ),
            Self::Machines { steal } => format!(
                "the hypervisor gave {} of this machine's cores to other machines (steal) in step {step} while the server ran here",
                percent(*steal)
            ),
        };
        let mut text = what;
        if let Some(first) = text.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        let among = if of > 1 {
            format!(" So it was, or less so, in {steps} of the {of} steps near the answer.")
        } else {
            String::new()
        };
        format!("{text}.{among}")
    }

    /// Returns what to do about it, as a sentence.
    pub(super) const fn advice(&self) -> &'static str {
        match self {
            Self::Processes { .. } => {
                "The server may take more by itself: stop the other programs, or give the server cores that nobody else uses (taskset, a \
                 container's cpuset), and measure again; host_others in steps.csv has every step, and --repeat shows how much the answer moves."
            }
            Self::Unknown { .. } => {
                "Look at what else runs (top): if it is not the server alone, stop it and measure again; run goodput as the server's user, outside of \
                 its container, to have its share told."
            }
            Self::Machines { .. } => {
                "The server may take more on a machine of its own: use a dedicated host or one without burst credits, and repeat the sweep \
                 (--repeat) to see how much the answer moves."
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_neighbour_is_told_with_its_share() {
        for (neighbours, say, advice) in [
            (
                Neighbours::Processes { share: 0.6, waiting: Some(0.8) },
                "Other processes had 60 % of this machine's cores in step 7 while the server ran here, and something that could run had no core for 80 % of the time. So it was, or less so, in 2 of the 3 steps near the answer.",
                "host_others",
            ),
            (
                Neighbours::Processes { share: 0.6, waiting: None },
                "in step 7 while the server ran here. So",
                "taskset",
            ),
            (Neighbours::Unknown { busy: 0.97, waiting: 0.6 }, "97 % busy in step 7", "top"),
            (
                Neighbours::Machines { steal: 0.12 },
                "gave 12 % of this machine's cores to other machines (steal)",
                "dedicated",
            ),
        ] {
            let text = neighbours.text(7, 2, 3);
            assert!(text.contains(say) && neighbours.advice().contains(advice), "{text}");
        }
        assert!(!Neighbours::Machines { steal: 0.1 }.text(1, 1, 1).contains("near the answer"));
    }
}
