//! Caveats: reasons to read a result with care, as data. The crate `goodput-report` puts them into words.
//!
//! A new caveat is a variant of one of the families here, and its sentences are an arm of the file of the same name in `words/caveat` of
//! `goodput-report`: the compiler asks for both.

mod answers;
mod cache;
mod client;
mod counters;
mod fault;
mod host;
mod lengths;
mod number;
mod origin;
mod refusal;
mod replicas;
mod route;
mod scope;
mod search;
mod server;
mod sweep;
mod trace;
mod worker;

pub use answers::AnswersCaveat;
pub use cache::CacheCaveat;
pub use client::{CalibratedUnit, ClientCaveat};
pub use counters::CountersCaveat;
pub use fault::{Cause, Excess, OwnFault};
pub use host::{HostCaveat, Neighbours};
pub use lengths::{CalibrationFailure, LengthsCaveat, LengthsOf};
pub use origin::{ImportedCount, OriginCaveat};
pub use refusal::Refusal;
pub use replicas::{ReplicasCaveat, SlowMetric};
pub use route::RouteCaveat;
pub use scope::{OnResume, Scope};
pub use search::SearchCaveat;
pub use server::{MetricsGap, ProfilerCall, ServerCaveat};
pub use sweep::{PlanDifference, SweepCaveat};
pub use trace::TraceCaveat;
pub use worker::WorkerFault;

use serde::{Deserialize, Serialize};

/// Makes [`Caveat`] of its families, with a `From` of each.
macro_rules! families {
    ($(#[$meta:meta])* pub enum Caveat { $($(#[$doc:meta])* $family:ident($caveat:ident)),+ $(,)? }) => {
        $(#[$meta])*
        pub enum Caveat {
            $($(#[$doc])* $family($caveat)),+
        }

        $(impl From<$caveat> for Caveat {
            fn from(caveat: $caveat) -> Self {
                Self::$family(caveat)
            }
        })+

        impl Caveat {
            /// Returns what the caveat applies to.
            pub const fn scope(&self) -> Scope {
                match self {
                    $(Self::$family(caveat) => caveat.scope()),+
                }
            }
        }
    };
}

families! {
    /// A reason to read a result with care, by what it is about. Every report shows it and `result.json` keeps it.
    ///
    /// In JSON the family is left out: a caveat is its own name in kebab case, with its figures where it has any. The names are unique among
    /// all families.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
    #[serde(untagged, expecting = "not a caveat that this version of goodput knows")]
    pub enum Caveat {
        /// The search, and how sure its answer is.
        Search(SearchCaveat),
        /// The sweep as a whole: how it ended, was resumed, or left files incomplete.
        Sweep(SweepCaveat),
        /// Who measured, and whether a real server was measured.
        Origin(OriginCaveat),
        /// Limits of the client.
        Client(ClientCaveat),
        /// The machine that both client and server ran on.
        Host(HostCaveat),
        /// The state of the server, and what it refused.
        Server(ServerCaveat),
        /// The server's counters compared with the client's.
        Counters(CountersCaveat),
        /// The prefix cache.
        Cache(CacheCaveat),
        /// Several replicas compared with one another.
        Replicas(ReplicasCaveat),
        /// The network route to the server.
        Route(RouteCaveat),
        /// Token counts and the lengths of prompts and answers.
        Lengths(LengthsCaveat),
        /// How requests ended.
        Answers(AnswersCaveat),
        /// The replayed trace.
        Trace(TraceCaveat),
    }
}

impl Caveat {
    /// Returns true if the sweep was ended from outside before its search was done.
    pub const fn ends_sweep(&self) -> bool {
        match self {
            Self::Sweep(caveat) => caveat.ends_sweep(),
            Self::Search(_)
            | Self::Origin(_)
            | Self::Client(_)
            | Self::Host(_)
            | Self::Server(_)
            | Self::Counters(_)
            | Self::Cache(_)
            | Self::Replicas(_)
            | Self::Route(_)
            | Self::Lengths(_)
            | Self::Answers(_)
            | Self::Trace(_) => false,
        }
    }

    /// Returns the step that the caveat is about, if it is about one.
    pub const fn step(&self) -> Option<u32> {
        self.scope().step
    }

    /// Returns the name of the series that the caveat is about, if it names one.
    pub fn series(&self) -> Option<&str> {
        match self {
            Self::Lengths(caveat) => caveat.of().and_then(|of| of.series.as_deref()),
            Self::Search(_)
            | Self::Sweep(_)
            | Self::Origin(_)
            | Self::Client(_)
            | Self::Host(_)
            | Self::Server(_)
            | Self::Counters(_)
            | Self::Cache(_)
            | Self::Replicas(_)
            | Self::Route(_)
            | Self::Answers(_)
            | Self::Trace(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// Every caveat as result.json has it, written by the version before the families.
    const WRITTEN: &str = include_str!("../tests/fixtures/caveats.json");

    #[test]
    fn caveats_keep_their_form_in_json() {
        let written: Vec<Value> = serde_json::from_str(WRITTEN).unwrap();
        let mut names: Vec<String> = Vec::new();
        for value in written {
            let read: Caveat =
                serde_json::from_value(value.clone()).unwrap_or_else(|e| panic!("{value}: {e}"));
            assert_eq!(json!(read), value, "{read:?}");
            // Also as text, which has no numbers of its own.
            assert_eq!(serde_json::from_str::<Caveat>(&value.to_string()).unwrap(), read);
            let name = value.as_str().map(str::to_owned);
            names.push(name.unwrap_or_else(|| value.as_object().unwrap().keys().next().unwrap().clone()));
        }
        names.dedup();
        assert_eq!(names.len(), 57, "{names:?}");
    }

    /// Rows: the reason in JSON, and its text. A plain text is the form of earlier versions.
    #[test]
    fn reasons_are_facts_and_read_as_text_too() {
        for (written, text) in [
            (json!("HTTP 404"), "HTTP 404"),
            (json!({"no-series": ["a", "b"]}), "the page has no a, b"),
            (json!({"no-engine": "/metrics"}), "GET /metrics names no metric of a known engine"),
            (json!({"unread": {"path": "/metrics", "why": "HTTP 404"}}), "GET /metrics: HTTP 404"),
            (json!({"unread": {"path": null, "why": "HTTP 404"}}), "HTTP 404"),
        ] {
            let gap: MetricsGap = serde_json::from_value(written.clone()).unwrap();
            assert_eq!((json!(gap), gap.to_string().as_str()), (written, text));
        }
        for (written, text) in [
            (json!("seed was 1 and is 2"), "seed was 1 and is 2"),
            (json!({"key": {"key": "seed", "was": "1", "is": "2"}}), "seed was 1 and is 2"),
            (json!({"key": {"key": "seed", "was": null, "is": "2"}}), "seed was not there and is 2"),
        ] {
            let difference: PlanDifference = serde_json::from_value(written.clone()).unwrap();
            assert_eq!((json!(difference), difference.to_string().as_str()), (written, text));
        }
    }

    #[test]
    fn fields_that_were_added_later_may_be_missing() {
        for (text, want) in [
            (
                r#"{"failures":{"requests":1,"of":2,"kind":"timeout"}}"#,
                AnswersCaveat::Failures {
                    requests: 1,
                    of: 2,
                    kind: crate::record::Failure::Timeout,
                    most: false,
                }
                .into(),
            ),
            (
                r#"{"few-requests":{"steps":3}}"#,
                Caveat::from(SearchCaveat::FewRequests {
                    steps: 3,
                    refine: None,
                    percentile: crate::units::Percentile::P99,
                    least: 368,
                }),
            ),
        ] {
            assert_eq!(serde_json::from_str::<Caveat>(text).unwrap(), want);
        }
        let unknown = serde_json::from_str::<Caveat>(r#"{"of-tomorrow":{"steps":3}}"#).unwrap_err();
        assert!(unknown.to_string().contains("not a caveat that this version of goodput knows"), "{unknown}");
    }

    #[test]
    fn a_resumed_sweep_drops_what_its_end_and_its_counts_had_noted() {
        let next = 4;
        for (caveat, kept) in [
            (Caveat::from(SweepCaveat::Interrupted), false),
            (SweepCaveat::BudgetSpent { next: 3.0 }.into(), false),
            (LengthsCaveat::TokensUnknown { requests: 1 }.into(), false),
            (ServerCaveat::NotDrained { step: 3, left: 1.0 }.into(), true),
            (ServerCaveat::NotDrained { step: 4, left: 1.0 }.into(), false),
            (RouteCaveat::NotVerified.into(), true),
        ] {
            assert_eq!(caveat.scope().on_resume.keeps(next), kept, "{caveat:?}");
        }
    }
}
