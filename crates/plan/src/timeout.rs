//! How long a request may take before the client stops waiting for it.

use super::Plan;
use goodput_core::slo::{Metric, Part, Slo};
use goodput_stats::stats::step::Step;
use std::time::Duration;

/// No default is shorter.
const LEAST: Duration = Duration::from_secs(60);
/// No default that follows measured times is longer.
const MOST: Duration = Duration::from_secs(3600);
/// The default over the longest answer that is expected.
const ROOM: u32 = 2;
/// The time per output token that is expected where no limit bounds it. With `ROOM` that is 200 ms, the slowest TPOT that a server
/// scenario of MLPerf Inference allows (llama2-70b, `mlperf.conf`).
pub const PER_TOKEN: Duration = Duration::from_millis(100);
/// The longest answer, in tokens, that is expected where only a file knows: longer than nearly all.
const UNKNOWN_OUTPUT: u32 = 2048;

/// The longest time from `due` to the last byte of a request, and how one that takes longer counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Timeout {
    /// How long after `due` the client stops waiting.
    pub after: Duration,
    /// Whether such a request is an error. Where the plan gives the timeout it is; where goodput chose it the request was cut off.
    pub is_error: bool,
}

/// What a timeout rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// The plan gives it.
    Given,
    /// The longest answer that meets the limits of the SLO.
    Limits,
    /// The longest answer by its tokens, since a class or tier has no limit that bounds how long its answers take.
    Tokens {
        /// Output tokens of the longest answer.
        tokens: u32,
        /// Whether the plan says so; else only a file knows.
        known: bool,
    },
    /// The longest that a step may last, since the plan has no SLO.
    Step,
    /// The least default.
    Least,
}

/// The default timeout for requests with these limits, each about some of the requests, and answers of at most `longest` tokens.
///
/// Twice the longest answer that is expected, and at least a minute. A limit on e2e, or on TPOT or ITL, bounds how long an answer may take
/// that meets the SLO; requests without such a limit are expected to need [`PER_TOKEN`] for each token.
fn by_default<'a>(parts: impl Iterator<Item = &'a Slo>, longest: Option<u32>) -> (Duration, Basis) {
    let tokens = longest.unwrap_or(UNKNOWN_OUTPUT);
    let of_part = |slo: &Slo| {
        let first = largest(slo, &[Metric::Ttft, Metric::Ttfc]).unwrap_or_default();
        let per_token = largest(slo, &[Metric::Tpot, Metric::Itl]);
        let e2e = largest(slo, &[Metric::E2e]);
        let answer = |each: Duration| first.saturating_add(each.saturating_mul(tokens));
        if is_bounded(slo) {
            (answer(per_token.unwrap_or_default()).max(e2e.unwrap_or_default()), Basis::Limits)
        } else {
            (answer(PER_TOKEN), Basis::Tokens { tokens, known: longest.is_some() })
        }
    };
    let (expected, basis) =
        parts.map(of_part).max_by_key(|(expected, _)| *expected).unwrap_or((Duration::ZERO, Basis::Least));
    let after = expected.saturating_mul(ROOM);
    if after > LEAST { (after, basis) } else { (LEAST, Basis::Least) }
}

/// Returns true if a limit bounds how long an answer may take that meets these limits.
fn is_bounded(slo: &Slo) -> bool {
    largest(slo, &[Metric::Tpot, Metric::Itl, Metric::E2e]).is_some()
}

/// The largest limit of its own on any of these metrics.
fn largest(slo: &Slo, metrics: &[Metric]) -> Option<Duration> {
    slo.limits().iter().filter(|l| metrics.contains(&l.metric)).map(|l| l.limit).max()
}

/// The default timeout after steps that show how long answers take: twice the longest answer at the slowest p99 of TTFT and TPOT that any of
/// them had without an overload. `None` where none tells.
fn by_steps(steps: &[Step], longest: Option<u32>) -> Option<Duration> {
    let tokens = f64::from(longest.unwrap_or(UNKNOWN_OUTPUT));
    let seconds = |s: &Step| {
        let p99 = |metric| s.quantiles(metric).p99;
        Some((p99(Metric::Ttft)? + p99(Metric::Tpot)? * tokens) / 1e3)
    };
    let longest = steps.iter().filter(|s| !s.overloaded()).filter_map(seconds).reduce(f64::max)?;
    Some(Duration::from_secs_f64((f64::from(ROOM) * longest).clamp(0.0, MOST.as_secs_f64())))
}

impl Plan {
    /// The default timeout, and what it rests on.
    pub(super) fn default_timeout(&self) -> (Duration, Basis) {
        if self.slo.is_none() {
            return (self.step.max_duration.0.max(LEAST), Basis::Step);
        }
        by_default(self.parts().map(|part| part.slo), self.workload.longest_output())
    }

    fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        self.slo.as_slice().iter().flat_map(Slo::parts)
    }

    /// The timeout of a request, before anything was measured.
    pub fn timeout(&self) -> Duration {
        self.step.longest_request()
    }

    /// What that rests on; of several series what the longest of them does.
    pub fn timeout_basis(&self) -> Basis {
        if !self.step.timeout_by_default {
            return Basis::Given;
        }
        let series = self.series();
        let defaults = series.iter().map(|one| one.plan.default_timeout());
        defaults.max_by_key(|(after, _)| *after).map_or(Basis::Least, |(_, basis)| basis)
    }

    /// The timeout of a step after these steps of the same series. One that the plan gives stays; the default is lengthened where they show
    /// that answers take longer, and no limit bounds how long they may.
    pub fn step_timeout(&self, steps: &[Step]) -> Timeout {
        let (planned, is_error) = (self.timeout(), !self.step.timeout_by_default);
        let unbounded = self.parts().any(|part| !is_bounded(part.slo));
        let longer = || by_steps(steps, self.workload.longest_output()).filter(|_| unbounded);
        let after = if is_error { planned } else { planned.max(longer().unwrap_or_default()) };
        Timeout { after, is_error }
    }

    /// The timeout of the requests that are sent before anything is measured, whose answers are short.
    pub fn probe_timeout(&self) -> Duration {
        if !self.step.timeout_by_default || self.parts().all(|part| is_bounded(part.slo)) {
            return self.timeout();
        }
        let first = self.parts().filter_map(|part| largest(part.slo, &[Metric::Ttft, Metric::Ttfc])).max();
        LEAST.max(first.unwrap_or_default() * ROOM).min(self.timeout())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_stats::stats::step::Abort;

    fn secs(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    /// Rows: limits of one or several parts, the longest answer in tokens, the default in seconds, and what it rests on.
    #[test]
    fn the_default_follows_the_longest_answer() {
        let tokens = |tokens, known| Basis::Tokens { tokens, known };
        for (parts, longest, want, basis) in [
            (&["ttft.p99 = \"200ms\""][..], Some(30), 60, Basis::Least),
            (&["ttft.p99 = \"1s\""], Some(1000), 202, tokens(1000, true)),
            (&["ttfc.p99 = \"10s\""], Some(1000), 220, tokens(1000, true)),
            (&["ttft.p99 = \"1s\""], None, 411, tokens(2048, false)), // 2 × (1 + 204.8), cut to seconds
            (&["ttft.p99 = \"10s\"\ntpot.p99 = \"1s\""], Some(100), 220, Basis::Limits),
            (&["ttft.p99 = \"10s\"\ntpot.p99 = \"1s\"\ne2e.p99 = \"300s\""], Some(100), 600, Basis::Limits),
            (&["itl.p99 = \"200ms\""], Some(1000), 400, Basis::Limits),
            (&["e2e.p99 = \"40s\""], Some(100_000), 80, Basis::Limits),
            (&["error-rate = 0.01"], Some(2000), 400, tokens(2000, true)),
            // The class without a limit on its answers decides.
            (&["tpot.p99 = \"20ms\"", "ttft.p99 = \"1s\""], Some(1000), 202, tokens(1000, true)),
            (&["tpot.p99 = \"500ms\"", "ttft.p99 = \"1s\""], Some(1000), 1000, Basis::Limits),
            (&[], Some(1000), 60, Basis::Least),
        ] {
            let slos: Vec<Slo> = parts.iter().map(|text| toml::from_str(text).unwrap()).collect();
            let (after, got) = by_default(slos.iter(), longest);
            assert_eq!((after.as_secs(), got), (want, basis), "{parts:?} {longest:?}");
        }
    }

    fn plan(more: &str) -> Plan {
        Plan::from_text(&format!(
            "name = \"x\"\nserver.url = \"http://127.0.0.1:1\"\nsearch.rates = [1]\n{more}\n\
             workload.prompts.synthetic = {{ input-tokens.fixed = 5, output-tokens.fixed = 1000 }}"
        ))
        .unwrap()
    }

    /// Rows: the plan, whether what its timeout ends is an error, its timeout, and that of a probe, in seconds.
    #[test]
    fn a_timeout_that_is_given_stays_and_makes_errors() {
        for (more, is_error, after, probe) in [
            ("slo.ttft.p99 = \"1s\"", false, 202, 60),
            ("slo.ttft.p99 = \"40s\"", false, 280, 80),
            ("slo.ttft.p99 = \"1s\"\nstep.timeout = \"30s\"", true, 30, 30),
            ("slo.ttft.p99 = \"1s\"\nslo.tpot.p99 = \"50ms\"", false, 102, 102),
        ] {
            let plan = plan(more);
            let got = plan.step_timeout(&[]);
            assert_eq!((got.is_error, got.after), (is_error, secs(after)), "{more}");
            assert_eq!(plan.probe_timeout(), secs(probe), "{more}");
            assert_eq!(plan.timeout_basis() == Basis::Given, is_error, "{more}");
            let again = Plan::from_text(&plan.to_toml().unwrap()).unwrap();
            assert_eq!(again, plan, "a resolved plan knows which of the two it has");
        }
    }

    /// Rows: the plan, p99 of TPOT in ms of a step, whether it was overloaded, and the timeout of the next step in seconds.
    #[test]
    fn the_default_follows_a_server_that_is_slower() {
        let (ttft, given) = ("slo.ttft.p99 = \"1s\"", "slo.ttft.p99 = \"1s\"\nstep.timeout = \"30s\"");
        let both = "slo.ttft.p99 = \"1s\"\nslo.tpot.p99 = \"50ms\"";
        for (more, tpot_ms, overloaded, want) in [
            (ttft, 80.0, false, 202),
            (ttft, 300.0, false, 602), // 2 × (1 s + 1000 × 0.3 s)
            (ttft, 300.0, true, 202),
            (ttft, 9_000.0, false, 3600),
            (given, 300.0, false, 30),
            (both, 300.0, false, 102), // beyond that it is a miss in any case
        ] {
            let mut step = goodput_stats::fixture::found().swap_remove(0);
            (step.stable, step.abort) = (Some(true), overloaded.then_some(Abort::Gross));
            for (metric, p99) in [(Metric::Ttft, 1_000.0), (Metric::Tpot, tpot_ms)] {
                step.latency.entry(metric).or_default().p99 = Some(p99);
            }
            let got = plan(more).step_timeout(&[step]).after;
            assert_eq!(got, secs(want), "{more}, {tpot_ms} ms, {overloaded}");
        }
    }
}
