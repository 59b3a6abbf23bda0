//! Caveats on how answers ended and what they held, in words.

use super::Caveat;
use crate::units::short;

pub(super) fn text(caveat: &Caveat) -> String {
    match caveat {
        Caveat::TimedOut { requests, of, after_s, is_error: true } => format!(
            "{requests} of {of} requests were not over after {} s, the plan's step.timeout: each counts as an error. Limits that were met by then \
             count as met.",
            short(*after_s)
        ),
        Caveat::TimedOut { requests, of, after_s, is_error: false } => format!(
            "{requests} of {of} requests were cut off by goodput's default timeout, after {} s or more. A metric that was known by then counts as \
             it is, one past its limit is a miss; all else is unknown. They are no errors, and not completed.",
            short(*after_s)
        ),
        Caveat::NoContent { requests, of } => format!(
            "{requests} of {of} answers ended before any content came, all of their tokens being reasoning. They miss limits on TTFC."
        ),
        Caveat::HiddenReasoning { requests, of, share } => format!(
            "In {requests} of {of} answers the server counted reasoning that it never sent, {} % of their output tokens. TPOT leaves it out; \
             output tokens/s and output lengths include it.",
            short((share * 1000.0).round() / 10.0)
        ),
        _ => String::new(),
    }
}

pub(super) const fn advice(caveat: &Caveat) -> &'static str {
    match caveat {
        Caveat::TimedOut { .. } => "Set step.timeout to the longest that an answer may take.",
        Caveat::NoContent { .. } => {
            "Ask for longer answers (output-tokens), or for less reasoning (server.body)."
        }
        Caveat::HiddenReasoning { .. } => {
            "Compare output tokens/s only with servers that count reasoning too; server.body may have it streamed."
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_say_what_counts() {
        let timed = |is_error| text(&Caveat::TimedOut { requests: 3, of: 400, after_s: 60.0, is_error });
        assert!(timed(true).starts_with(
            "3 of 400 requests were not over after 60 s, the plan's step.timeout: each counts as an error"
        ));
        assert!(
            timed(false).contains("default timeout, after 60 s or more")
                && timed(false).contains("no errors")
        );
        let hidden = text(&Caveat::HiddenReasoning { requests: 9, of: 10, share: 0.8987 });
        assert!(
            hidden.contains("9 of 10 answers") && hidden.contains("89.9 % of their output tokens"),
            "{hidden}"
        );
    }
}
