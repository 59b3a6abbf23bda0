//! The classes of a mix, in it and alone, as far as their answers tell.

use crate::rundir::Run;
use goodput_stats::diagnosis::{Mix, MixedClass};
use goodput_stats::search::answer::{Answer, Status};
use goodput_stats::stats::groups::GroupBy;
use goodput_stats::stats::step::Step;

/// Returns the mix of an answer by the classes of one of its steps; `None` if that has not several, or does not tell their
/// prompts.
pub(super) fn of(run: &Run, a: &Answer, step: &Step) -> Option<Mix> {
    let classes: Vec<_> = step.groups.iter().filter(|g| g.by == GroupBy::Class).collect();
    let all: f64 = classes.iter().map(|g| g.n as f64).sum();
    if classes.len() < 2 || all <= 0.0 {
        return None;
    }
    let class = |name: &str, n: u64, input_tokens: f64| {
        let alone = run.answer_alone(a, name).and_then(|alone| estimate(run, alone));
        MixedClass { name: name.to_owned(), share: n as f64 / all, input_tokens, alone }
    };
    let classes = classes.into_iter().map(|g| Some(class(&g.name, g.n, g.input_tokens_mean?)));
    Some(Mix { classes: classes.collect::<Option<_>>()?, goodput: estimate(run, a) })
}

/// Returns the goodput of an answer in requests per second; `None` if the boundary was not found.
fn estimate(run: &Run, a: &Answer) -> Option<f64> {
    let rate = a.goodput.rate().filter(|_| a.goodput.status() == Status::Found)?;
    run.throughput(a, rate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use goodput_stats::stats::groups::Group;

    #[test]
    fn classes_have_their_share_and_their_goodput_alone() {
        let mut run = fixture::found();
        let group = |name: &str, n, input_tokens| Group {
            by: GroupBy::Class,
            name: name.into(),
            n,
            failed: 0,
            cut: 0,
            failed_timeout: 0,
            latency: Default::default(),
            input_tokens_mean: Some(input_tokens),
            output_tokens_mean: None,
            achieved_rate: 1.0,
        };
        let mut answer = run.answers[0].clone();
        answer.series = "only chat".into();
        run.answers.push(answer);
        run.answers[0].series = "mix".into();
        let mut step = run.steps[0].clone();
        step.groups = vec![group("chat", 900, 300.0), group("documents", 100, 8000.0)];
        let mix = of(&run, &run.answers[0], &step).unwrap();
        let told: Vec<_> =
            mix.classes.iter().map(|c| (c.name.as_str(), c.share, c.alone.is_some())).collect();
        assert_eq!(told, [("chat", 0.9, true), ("documents", 0.1, false)]);
        assert_eq!(mix.goodput, mix.classes[0].alone);
        step.groups.truncate(1);
        assert_eq!(of(&run, &run.answers[0], &step), None, "one class");
    }
}
