//! The request timeout and its defaults.

use super::Plan;
use goodput_core::slo::{AnswerPart, LimitGroup, Metric, Slo};
use goodput_stats::stats::step::Step;
use std::time::Duration;

/// Shortest default timeout.
const LEAST: Duration = Duration::from_secs(60);
/// Longest default timeout that is derived from measured times.
const MOST: Duration = Duration::from_secs(3600);
/// Default timeout divided by the longest expected answer.
const ROOM: u32 = 2;
/// Expected time per output token if no limit bounds it. Times `ROOM` it is 200 ms, the slowest TPOT that a server scenario of MLPerf Inference
/// allows (llama2-70b, `mlperf.conf`).
pub const PER_TOKEN: Duration = Duration::from_millis(100);
/// Expected length of the longest answer, in tokens, if only a data file has the lengths; longer than nearly all answers.
const UNKNOWN_OUTPUT: u32 = 2048;

/// The longest time from `due` to the last byte of a request, and how a request that takes longer counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Timeout {
    /// Time from `due` until the client cancels the request.
    pub after: Duration,
    /// True if a timed-out request is an error, as for a timeout from the plan; false for a default timeout.
    pub is_error: bool,
}

/// Basis of a timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeoutBasis {
    /// `step.timeout` of the plan.
    Given,
    /// The longest answer that meets the SLO.
    Limits,
    /// The number of tokens in the longest answer, because a class or tier has no limit on the duration of answers.
    Tokens {
        /// Output tokens of the longest answer.
        tokens: u32,
        /// True if the plan sets the length of answers, false if it is unknown until the data is read.
        known: bool,
    },
    /// The longest duration of a step, because the plan has no SLO.
    Step,
    /// The shortest default timeout.
    Least,
}

/// Returns the default timeout for requests with these limits, answers of at most `longest` tokens, and at most so much audio.
///
/// It is twice the longest expected answer, and at least a minute. A limit on e2e, TPOT or ITL bounds the duration of an answer that meets the SLO;
/// without one, each token is expected to take [`PER_TOKEN`].
fn by_default<'a>(
    parts: impl Iterator<Item = &'a Slo>,
    longest: Option<u32>,
    audio: Duration,
) -> (Duration, TimeoutBasis) {
    let tokens = longest.unwrap_or(UNKNOWN_OUTPUT);
    let of_part = |slo: &Slo| {
        let first = largest(slo, AnswerPart::First).unwrap_or_default();
        let per_token = largest(slo, AnswerPart::Pace);
        let whole = slo.limits().into_iter().filter(|l| l.metric.part() == AnswerPart::Whole);
        let e2e = whole.map(|l| l.longest(audio)).max();
        let answer = |each: Duration| first.saturating_add(each.saturating_mul(tokens));
        if is_bounded(slo) {
            (answer(per_token.unwrap_or_default()).max(e2e.unwrap_or_default()), TimeoutBasis::Limits)
        } else {
            (answer(PER_TOKEN), TimeoutBasis::Tokens { tokens, known: longest.is_some() })
        }
    };
    let longest_part = parts.map(of_part).max_by_key(|(expected, _)| *expected);
    let (expected, basis) = longest_part.unwrap_or((Duration::ZERO, TimeoutBasis::Least));
    let after = expected.saturating_mul(ROOM);
    if after > LEAST { (after, basis) } else { (LEAST, TimeoutBasis::Least) }
}

/// Returns true if a limit bounds the duration of an answer.
fn is_bounded(slo: &Slo) -> bool {
    [AnswerPart::Pace, AnswerPart::Whole].into_iter().any(|part| largest(slo, part).is_some())
}

/// Returns the largest limit on this part of an answer, without those of classes.
fn largest(slo: &Slo, part: AnswerPart) -> Option<Duration> {
    slo.limits().iter().filter(|l| l.metric.part() == part).map(|l| l.limit).max()
}

/// Returns the default timeout after measured steps: twice the longest answer at the slowest p99 of TTFT and TPOT of any step without overload.
/// `None` if no step has both.
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
    /// Returns the default timeout and its basis.
    pub(super) fn default_timeout(&self) -> (Duration, TimeoutBasis) {
        if self.slo.is_none() {
            return (self.step.max_duration.0.max(LEAST), TimeoutBasis::Step);
        }
        by_default(
            self.parts().map(|part| part.slo),
            self.workload.longest_output(),
            self.workload.longest_audio(),
        )
    }

    fn parts(&self) -> impl Iterator<Item = LimitGroup<'_>> {
        self.slo.as_slice().iter().flat_map(Slo::limit_groups)
    }

    /// Returns the timeout of a request before anything is measured.
    pub fn timeout(&self) -> Duration {
        self.step.longest_request()
    }

    /// Returns the basis of [`Plan::timeout`]; with several series, that of the longest.
    pub fn timeout_basis(&self) -> TimeoutBasis {
        if !self.step.timeout_by_default {
            return TimeoutBasis::Given;
        }
        let series = self.series();
        let defaults = series.iter().map(|one| one.plan.default_timeout());
        defaults.max_by_key(|(after, _)| *after).map_or(TimeoutBasis::Least, |(_, basis)| basis)
    }

    /// Returns the timeout of the next step after `steps` of the same series. A timeout from the plan stays. A default grows if the steps show
    /// longer answers and no limit bounds their duration.
    pub fn step_timeout(&self, steps: &[Step]) -> Timeout {
        let (planned, is_error) = (self.timeout(), !self.step.timeout_by_default);
        let unbounded = self.parts().any(|part| !is_bounded(part.slo));
        let longer = || by_steps(steps, self.workload.longest_output()).filter(|_| unbounded);
        let after = if is_error { planned } else { planned.max(longer().unwrap_or_default()) };
        Timeout { after, is_error }
    }

    /// Returns the timeout of probe requests, which are sent before anything is measured and have short answers.
    pub fn probe_timeout(&self) -> Duration {
        if !self.step.timeout_by_default || self.parts().all(|part| is_bounded(part.slo)) {
            return self.timeout();
        }
        let first = self.parts().filter_map(|part| largest(part.slo, AnswerPart::First)).max();
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

    /// Cases: limits of one or several parts, the longest answer in tokens, the default timeout in seconds, and its basis.
    #[test]
    fn the_default_is_twice_the_longest_answer() {
        use TimeoutBasis as Basis;
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
            (&["rtf.p99 = 0.5"], None, 300, Basis::Limits), // 300 s of audio in 150 s
            (&["error-rate = 0.01"], Some(2000), 400, tokens(2000, true)),
            // The class without a limit on the duration of answers decides.
            (&["tpot.p99 = \"20ms\"", "ttft.p99 = \"1s\""], Some(1000), 202, tokens(1000, true)),
            (&["tpot.p99 = \"500ms\"", "ttft.p99 = \"1s\""], Some(1000), 1000, Basis::Limits),
            (&[], Some(1000), 60, Basis::Least),
        ] {
            let slos: Vec<Slo> = parts.iter().map(|text| toml::from_str(text).unwrap()).collect();
            let (after, got) = by_default(slos.iter(), longest, secs(300));
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

    /// Cases: the plan, whether a timed-out request is an error, the timeout and that of a probe in seconds.
    #[test]
    fn only_a_timeout_from_the_plan_is_an_error() {
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
            assert_eq!(plan.timeout_basis() == TimeoutBasis::Given, is_error, "{more}");
            let again = Plan::from_text(&plan.to_toml().unwrap()).unwrap();
            assert_eq!(again, plan, "a resolved plan records whether its timeout is a default");
        }
    }

    /// Cases: the plan, the p99 TPOT of a step in ms, whether the step was overloaded, and the timeout of the next step in seconds.
    #[test]
    fn the_default_grows_if_the_server_is_slow() {
        let (ttft, given) = ("slo.ttft.p99 = \"1s\"", "slo.ttft.p99 = \"1s\"\nstep.timeout = \"30s\"");
        let both = "slo.ttft.p99 = \"1s\"\nslo.tpot.p99 = \"50ms\"";
        for (more, tpot_ms, overloaded, want) in [
            (ttft, 80.0, false, 202),
            (ttft, 300.0, false, 602), // 2 × (1 s + 1000 × 0.3 s)
            (ttft, 300.0, true, 202),
            (ttft, 9_000.0, false, 3600),
            (given, 300.0, false, 30),
            (both, 300.0, false, 102), // a longer request misses a limit in any case
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
