//! The words of caveats on the outcome of requests and the content of their answers.

use super::{CaveatWords, percent};
use goodput_core::caveat::AnswersCaveat;
use goodput_core::units::short;

pub(super) fn words(caveat: &AnswersCaveat) -> CaveatWords {
    match caveat {
        AnswersCaveat::NoFinishReason { requests } => CaveatWords::new(
            format!(
                "{requests} streams ended with [DONE] but without a finish reason; they count as answered."
            ),
            "Look at the server or the proxy in front of it: answers may have been cut short.",
        ),
        AnswersCaveat::TimedOut { requests, of, after_s, is_error } => CaveatWords::new(
            timed_out(*requests, *of, *after_s, *is_error),
            "Set step.timeout to the longest that an answer may take.",
        ),
        AnswersCaveat::NoContent { requests, of } => CaveatWords::new(
            format!("{requests} of {of} answers had reasoning but no content. They miss limits on TTFC."),
            "Ask for longer answers (output-tokens), or for less reasoning (server.body).",
        ),
        AnswersCaveat::HiddenReasoning { requests, of, share } => CaveatWords::new(
            format!(
                "In {requests} of {of} answers the server counted reasoning that it never sent, {} % of their output tokens. TPOT leaves it out; \
                 output tokens/s and output lengths include it.",
                short((share * 1000.0).round() / 10.0)
            ),
            "Compare output tokens/s only with servers that count reasoning too; server.body may have it streamed.",
        ),
        AnswersCaveat::Failures { requests, of, kind, most } => CaveatWords::new(
            format!(
                "{requests} of {of} measured requests failed, {} {}; failures count as misses.",
                if *most { "most of them as" } else { "most often as" },
                kind.name()
            ),
            "See failures.csv for the kinds and one body of each.",
        ),
        AnswersCaveat::Resets { resets, attempts, retried } => CaveatWords::new(
            format!(
                "Connections closed or were reset under {resets} of {attempts} attempts to send a measured request ({}){}.",
                percent(*resets as f64 / (*attempts).max(1) as f64),
                match retried {
                    0 => String::new(),
                    n => format!(
                        "; {n} requests were sent again for it, and count as answered where the second attempt was"
                    ),
                }
            ),
            "Find out who closes connections: the server under load, or a balancer that closes idle ones. client.retries = 0 counts each as a \
             failure, slo.count-retries = true counts retried requests in the error rate; server.connections = \"cold\" avoids idle connections.",
        ),
    }
}

fn timed_out(requests: u64, of: u64, after_s: f64, is_error: bool) -> String {
    let after = short(after_s);
    if is_error {
        format!(
            "{requests} of all {of} requests did not finish within {after} s, the plan's step.timeout: each counts as a failure and as a miss, but for the limits that it \
             had met by then."
        )
    } else {
        format!(
            "{requests} of {of} requests were cancelled by goodput's default timeout, after {after} s or more. A metric that was known by then counts as \
             measured, one that was past its limit as a miss; the rest is unknown. They count neither as errors nor as completed."
        )
    }
}
