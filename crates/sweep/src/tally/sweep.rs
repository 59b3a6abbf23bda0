//! Counts over the whole sweep, and the buffers that its steps share.

use super::StepTally;
use goodput_core::caveat::{AnswersCaveat, Caveat, LengthsCaveat, LengthsOf};
use goodput_core::distribution::LengthHistogram;
use goodput_core::record::{Outcome, Record, TokenSource};
use goodput_core::slo::{ALL, Slo};
use goodput_plan::MAIN;
use goodput_run::rundir::Sent;
use goodput_stats::search::Ask;
use goodput_stats::stats::compact_record::CompactRecord;
use goodput_stats::stats::itl::ItlTally;
use std::time::Duration;

/// Maximum number of requests to reserve memory for before a step (192 MB); with more requests, the memory grows during
/// the step.
const ROOM: usize = 2_000_000;
/// The part of the tail that a step is likely to need: measured requests finish within it, unless the server is
/// overloaded.
const LIKELY_TAIL: Duration = Duration::from_secs(10);

/// The buffers for the requests of a step, reused by the next step.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    pub(super) kept: Vec<CompactRecord>,
    pub(super) itl: Option<ItlTally>,
}

/// Returns an estimate of the number of requests of a step, with a margin: rate × (settle + window + tail). The window
/// in `ask` is already long enough for its rate on average. Returns zero if the rate is not known in advance.
fn expected_requests(ask: &Ask) -> usize {
    let Some(rate) = ask.level.per_s() else { return 0 };
    let load = ask.settle + ask.measure + ask.tail.min(LIKELY_TAIL);
    // The margin covers bursts and an extension of the window.
    (1.05 * rate * load.as_secs_f64() + 1000.0).min(ROOM as f64) as usize
}

/// Counts over the whole sweep that no file contains.
#[derive(Debug, Default)]
pub(crate) struct SweepTally {
    estimated: u64,
    uncounted: u64,
    unfinished: u64,
    /// Number of finished requests, and of those that were answered.
    requests: u64,
    answers: u64,
    timed_out: TimedOut,
    without_content: u64,
    hidden: HiddenReasoning,
    /// In the order in which their first answers arrived.
    classes: Vec<ClassTokens>,
    buffers: Buffers,
}

/// Requests that the client's timeout ended.
#[derive(Debug, Default)]
struct TimedOut {
    requests: u64,
    /// The shortest time after which any of them timed out.
    after: Option<Duration>,
    is_error: bool,
}

/// Answers that include reasoning tokens that were never sent.
#[derive(Debug, Default)]
struct HiddenReasoning {
    answers: u64,
    /// Number of tokens that were not sent, and of all output tokens of these answers.
    tokens: u64,
    of: u64,
}

/// Token counts of the answered requests of one class in one series.
#[derive(Debug)]
struct ClassTokens {
    series: String,
    class: String,
    input: TokenSums,
    output: TokenSums,
    /// True if the output tokens of any answer are estimated.
    estimated: bool,
    /// Distribution of prompt tokens and of output tokens, as the server counts them.
    sent: (LengthHistogram, LengthHistogram),
}

/// Sums of requested and actual tokens, over the requests for which both are known.
#[derive(Debug, Default)]
struct TokenSums {
    requests: u64,
    asked: u64,
    got: u64,
}

impl TokenSums {
    fn add(&mut self, asked: u32, got: Option<u32>) {
        if let Some(got) = got {
            self.requests += 1;
            self.asked += u64::from(asked);
            self.got += u64::from(got);
        }
    }

    /// Returns the requested and the actual mean if they differ by more than max(2 %, `tokens`).
    fn off(&self, tokens: f64) -> Option<(f64, f64)> {
        let mean = |sum: u64| sum as f64 / self.requests.max(1) as f64;
        let (asked, got) = (mean(self.asked), mean(self.got));
        ((got - asked).abs() > (0.02 * asked).max(tokens)).then_some((asked, got))
    }
}

impl ClassTokens {
    fn new(series: &str, class: &str) -> Self {
        let (series, class) = (series.to_owned(), class.to_owned());
        let (input, output) = (TokenSums::default(), TokenSums::default());
        Self {
            series,
            class,
            input,
            output,
            estimated: false,
            sent: (LengthHistogram::default(), LengthHistogram::default()),
        }
    }

    fn add(&mut self, r: &Record) {
        self.estimated |= r.token_source == Some(TokenSource::Events);
        // The plan does not say how many tokens an image is.
        if r.items == 0 || r.output_asked == 0 {
            self.input.add(r.input_asked, r.input_tokens);
        }
        self.output.add(r.output_asked, r.output_tokens);
        for (lengths, tokens) in [(&mut self.sent.0, r.input_tokens), (&mut self.sent.1, r.output_tokens)] {
            tokens.into_iter().for_each(|n| lengths.push(n));
        }
    }

    /// Returns caveats about input and output lengths that differ from the requested ones.
    fn off(&self) -> impl Iterator<Item = Caveat> {
        let series = (self.series != MAIN).then(|| self.series.clone());
        let of = LengthsOf { series, class: (self.class != ALL).then(|| self.class.clone()) };
        let input = self.input.off(2.0);
        // Rule 5 of the design allows inputs a deviation of 2 tokens; outputs are exact to the token. Estimates are not
        // compared.
        let output = self.output.off(0.5).filter(|_| !self.estimated);
        let input = input.map(|(asked, got)| {
            Caveat::Lengths(LengthsCaveat::InputLengthOff { asked, got, of: of.clone() })
        });
        input.into_iter().chain(
            output.map(|(asked, got)| Caveat::Lengths(LengthsCaveat::LengthsNotPinned { asked, got, of })),
        )
    }
}

impl SweepTally {
    /// Returns an empty tally for a step with these tiers and this number of classes. Reserves memory for the expected
    /// number of requests, so that buffers are neither grown nor copied during the step: a client that waits for memory
    /// sends late.
    ///
    /// Takes some 50 ms for a million requests, so call it before the load starts.
    pub(crate) fn begin(&mut self, tiers: &[Slo], classes: usize, ask: &Ask) -> StepTally {
        let (mut buffers, n) = (std::mem::take(&mut self.buffers), expected_requests(ask));
        CompactRecord::reserve(&mut buffers.kept, n);
        // Another series may have other limits and other classes.
        let itl = buffers.itl.filter(|itl| itl.counts_for(tiers, classes));
        let mut itl = itl.unwrap_or_else(|| ItlTally::new(tiers).of_classes(classes));
        itl.begin(n);
        StepTally::with_buffers(tiers, Buffers { kept: buffers.kept, itl: Some(itl) })
    }

    /// Takes back the buffers of a step after it was summarized.
    pub(crate) fn end(&mut self, step: StepTally) {
        self.buffers = Buffers { kept: step.kept, itl: Some(step.itl) };
    }

    /// Counts a request of a step, for its series and its class.
    pub(crate) fn add(&mut self, series: &str, class: &str, r: &Record) {
        self.requests += 1;
        if r.is_timed_out() {
            let own = &mut self.timed_out;
            let after = r.end.saturating_sub(r.due);
            (own.requests, own.is_error) = (own.requests + 1, r.outcome == Outcome::Failed);
            own.after = Some(own.after.map_or(after, |shortest| shortest.min(after)));
        }
        if !r.ok() {
            return;
        }
        self.answers += 1;
        self.without_content += u64::from(r.lacks_content());
        if let (Some(hidden), Some(of)) = (r.hidden_tokens(), r.output_tokens) {
            self.hidden.answers += 1;
            self.hidden.tokens += u64::from(hidden);
            self.hidden.of += u64::from(of);
        }
        self.estimated += u64::from(r.token_source == Some(TokenSource::Events));
        self.uncounted += u64::from(r.output_tokens.is_none() && r.output_asked > 0);
        self.unfinished += u64::from(r.finish.as_deref() == Some("done"));
        // The current series is the last, so searching from the end is fast.
        let at = self.classes.iter().rposition(|p| p.class == class && p.series == series);
        let at = at.unwrap_or_else(|| {
            self.classes.push(ClassTokens::new(series, class));
            self.classes.len() - 1
        });
        self.classes[at].add(r);
    }

    /// Returns the lengths of prompts and answers as the server counts them: per series, and per class if a series has
    /// several.
    pub(crate) fn sent(&self) -> Vec<Sent> {
        let of =
            |part: &ClassTokens, (input, output): (&LengthHistogram, &LengthHistogram), class: &str| Sent {
                series: part.series.clone(),
                class: class.to_owned(),
                input: input.finish(),
                output: output.finish(),
            };
        let mut all = Vec::new();
        for (i, first) in self.classes.iter().enumerate() {
            if self.classes[..i].iter().any(|p| p.series == first.series) {
                continue;
            }
            let own = || self.classes.iter().filter(|p| p.series == first.series);
            if own().count() > 1 {
                let mut sum = (LengthHistogram::default(), LengthHistogram::default());
                for part in own() {
                    sum.0.merge(&part.sent.0);
                    sum.1.merge(&part.sent.1);
                }
                all.push(of(first, (&sum.0, &sum.1), ALL));
            }
            all.extend(own().map(|p| of(p, (&p.sent.0, &p.sent.1), &p.class)));
        }
        all.retain(|s| s.input.is_some() || s.output.is_some());
        all
    }

    /// Returns the caveats that follow from the counts.
    pub(crate) fn caveats(&self) -> Vec<Caveat> {
        let mut found = Vec::new();
        if self.estimated > 0 {
            found.push(Caveat::Lengths(LengthsCaveat::TokensEstimated { requests: self.estimated }));
        }
        if self.uncounted > 0 {
            found.push(Caveat::Lengths(LengthsCaveat::TokensUnknown { requests: self.uncounted }));
        }
        if self.unfinished > 0 {
            found.push(Caveat::Answers(AnswersCaveat::NoFinishReason { requests: self.unfinished }));
        }
        let TimedOut { requests, after, is_error } = self.timed_out;
        if requests > 0 {
            let after_s = (after.unwrap_or_default().as_secs_f64() * 1e3).round() / 1e3;
            found.push(Caveat::Answers(AnswersCaveat::TimedOut {
                requests,
                of: self.requests,
                after_s,
                is_error,
            }));
        }
        if self.without_content > 0 {
            found.push(Caveat::Answers(AnswersCaveat::NoContent {
                requests: self.without_content,
                of: self.answers,
            }));
        }
        if self.hidden.answers > 0 {
            let share = self.hidden.tokens as f64 / self.hidden.of.max(1) as f64;
            found.push(Caveat::Answers(AnswersCaveat::HiddenReasoning {
                requests: self.hidden.answers,
                of: self.answers,
                share,
            }));
        }
        found.extend(self.classes.iter().flat_map(ClassTokens::off));
        found
    }
}

#[cfg(test)]
mod tests;
