//! The measurement that would settle a finding, in English.

use super::value::flag;
use goodput_stats::diagnosis::{Measurement, SetBy};

/// Returns the measurement and its expected result, as a clause without a full stop.
pub(crate) fn next(measurement: &Measurement) -> String {
    match measurement {
        Measurement::OtherSequences { sequences, set } => sequences_text(*sequences, set),
        Measurement::WithAdvice => "The same sweep with the first advice followed: the goodput must rise".into(),
        Measurement::TryAdvice => {
            "Try it: the server is started with the first advice that names a value, and measured with the same requests".into()
        }
        Measurement::TriedAdvice => {
            "What was tried, as a sweep of its own with more time (--budget): that narrows its interval".into()
        }
        Measurement::Calibration => "See what this machine can send before the next sweep".into(),
        Measurement::ColdAndWarm => "The same sweep cold and warm shows what the cache is worth".into(),
        Measurement::HalfTheGpus => {
            "The same sweep with half as many GPUs to a copy of the model: where TPOT hardly grows, they waited for one another".into()
        }
        Measurement::HalfThePrompts => {
            "With prompts half as long TTFT must fall by about that share, and the goodput rise".into()
        }
        Measurement::OneRequestAlone => {
            "One request alone, without load: no setting of batching makes its TTFT and TPOT shorter".into()
        }
        Measurement::BesideTheServer => {
            "The same sweep from the server's own machine or rack: what TTFT loses there was spent on the way".into()
        }
        Measurement::WithoutErrors => {
            "The same sweep once the failures are mended; failures.csv has their kinds, and one response of each".into()
        }
        Measurement::ClosedLoop => {
            "A closed loop with fewer and more in flight shows where TPOT passes its limit, and what that costs in tokens/s".into()
        }
        Measurement::EvenArrivals => {
            "The same with evenly spaced arrivals: where the tail falls to the median, it is requests that come together".into()
        }
        Measurement::LowerLevels => {
            "Lower levels show how much of the latency remains without the backlog".into()
        }
        Measurement::RowOfHalfThePrompt => {
            "Add a row to plan.toml that is like this one with half of its input-tokens: TTFT must fall by about that share".into()
        }
        Measurement::RowsOfSmallerWeights => {
            "Measure the same rows with weights of fewer bits: TPOT must fall about as the bytes do".into()
        }
        Measurement::RowOfHalfTheLoad => {
            "Add a row to plan.toml that is like this one with half of its load: it tells how much of this is the load's".into()
        }
        Measurement::LengthsAroundTheMean => {
            "Prompts of different lengths around the same mean: the unloaded step then shows what each token costs".into()
        }
        Measurement::UnloadedStep => {
            "An unloaded step before the others gives a baseline to compare them with".into()
        }
        Measurement::ClassesAlone => {
            "Each class of the mix alone as well: that tells how many GPUs a pool for long prompts needs, and what it gains".into()
        }
        Measurement::Again => "Measure again: this must show once more".into(),
    }
}

fn sequences_text(sequences: u32, set: &SetBy) -> String {
    let shows = "the wait must fall and TPOT stay within its limit";
    match set {
        SetBy::Plan => format!("The same with {sequences} sequences at a time: {shows}"),
        SetBy::Flag(name) => {
            format!("Start the server with {} at {sequences} and measure again: {shows}", flag(*name))
        }
        SetBy::Unknown => format!("Measure again with {sequences} sequences at a time: {shows}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_number_of_sequences_is_set_where_it_can_be() {
        let said = |set| next(&Measurement::OtherSequences { sequences: 16, set });
        let flag = goodput_stats::diagnosis::Flag { name: "--max-num-seqs", is_guess: false };
        assert!(
            said(SetBy::Flag(flag)).starts_with("Start the server with --max-num-seqs at 16 and measure")
        );
        assert!(said(SetBy::Plan).starts_with("The same with 16 sequences at a time: the wait must fall"));
        assert!(said(SetBy::Unknown).starts_with("Measure again with 16 sequences"));
    }
}
