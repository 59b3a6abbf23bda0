//! The replicas of a service beside one another, for `report.md`.

use super::charts::thousands;
use super::escape::{clip, markdown};
use super::{tables, words};
use goodput_core::caveat::Caveat;
use goodput_core::slo::Metric;
use goodput_run::rundir::Run;
use goodput_run::rundir::derive::usable_safe_rate;
use goodput_stats::stats::step::{OutlierMetric, Quantiles, Replica, Step, Verdict};

/// So many replicas are shown at most; of more, those with the longest TTFT.
const MOST: usize = 16;

/// Each replica at the step of the answer, and which is far worse than the others; empty where there are not several.
pub fn section(run: &Run) -> String {
    let Some(step) = chosen(run) else { return String::new() };
    let context = words::Context::of(run);
    let of_replicas = run.caveats.iter().filter(|c| named(c).is_some());
    let mut said: Vec<String> = of_replicas.map(|c| words::caveat(c, context).text).collect();
    said.push(match said.len() {
        0 => "No replica is far worse than the others.".into(),
        _ => "The service can take no more than its worst replica while requests are dealt in turn.".into(),
    });
    let left = step.replicas.len().saturating_sub(MOST);
    let left =
        if left > 0 { format!(" The {left} with the shortest TTFT are left out.") } else { String::new() };
    format!(
        "{}\n\nStep {} at {}, milliseconds; all steps stand in replicas.csv.{left}\n\n{}",
        markdown(&said.join(" ")),
        step.step,
        words::step_level(step),
        table(run, step)
    )
}

/// The URL of the replica that a caveat names, where it does.
fn named(caveat: &Caveat) -> Option<&str> {
    match caveat {
        Caveat::Replicas(caveat) => Some(caveat.url()),
        _ => None,
    }
}

/// The step at the answer of those that have replicas.
fn chosen(run: &Run) -> Option<&Step> {
    at_the_answer(run, |s| !s.replicas.is_empty())
}

/// Of the steps that tell something the one at the answer; where there is none, the highest that was not overloaded, else the last.
pub(super) fn at_the_answer(run: &Run, tells: impl Fn(&Step) -> bool) -> Option<&Step> {
    let told = |s: &&Step| tells(s);
    let answer = run.answers.first();
    let at_answer = answer.and_then(|a| {
        let g = &a.goodput;
        let estimate = usable_safe_rate(g).and_then(|safe| run.nearest(a, g.rate.unwrap_or(safe)));
        estimate.or_else(|| run.step_at(a, g.met?, Verdict::Meets))
    });
    let calm = |s: &&Step| !s.kind.is_outside_search() && !s.overloaded();
    let highest = || {
        let calm = run.steps.iter().filter(told).filter(calm);
        calm.max_by(|a, b| a.level.value.total_cmp(&b.level.value))
    };
    at_answer.filter(told).or_else(highest).or_else(|| run.steps.iter().rfind(told))
}

fn table(run: &Run, step: &Step) -> String {
    let head = [
        "replica",
        "requests",
        "failed",
        "TTFT p50",
        "TTFT p99",
        "TPOT p50",
        "TPOT p99",
        "e2e p99",
        "far worse by",
    ];
    let slowness = |r: &Replica| r.quantiles(Metric::Ttft).p99.unwrap_or(f64::INFINITY);
    let mut shown: Vec<&Replica> = step.replicas.iter().collect();
    if shown.len() > MOST {
        shown.sort_by(|a, b| slowness(b).total_cmp(&slowness(a)));
        shown.truncate(MOST);
    }
    let row = |name: String, n: u64, failed: u64, of: &dyn Fn(Metric) -> Quantiles, apart: &str| {
        let (ttft, tpot, e2e) = (of(Metric::Ttft), of(Metric::Tpot), of(Metric::E2e));
        let mut cells = vec![name, thousands(n as f64), thousands(failed as f64)];
        let values = [ttft.p50, ttft.p99, tpot.p50, tpot.p99, e2e.p99];
        cells.extend(values.map(|ms| tables::latency(step, ms)));
        cells.push(apart.to_owned());
        cells
    };
    let mut rows: Vec<Vec<String>> = shown
        .iter()
        .map(|r| {
            let of = |m: Metric| r.quantiles(m);
            // What one step shows may be chance; it stands in replicas.csv.
            let sure = run.caveats.iter().any(|c| named(c) == Some(&r.url));
            let apart = r.outlier.filter(|_| sure).map_or("", OutlierMetric::title);
            row(markdown(&clip(&r.url, 80)), r.n, r.failed, &of, apart)
        })
        .collect();
    rows.push(row("all together".into(), step.due_n, step.failed, &|m| step.quantiles(m), ""));
    tables::table(&head, &["replica", "far worse by"], rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_run::fixture;

    fn case(name: &str) -> Run {
        fixture::cases().into_iter().find(|(n, _)| *n == name).unwrap().1
    }

    #[test]
    fn replicas_stand_beside_the_pooled_figures() {
        let run = case("replicas");
        insta::assert_snapshot!(section(&run), @r"
        Replica http&#58;//b:8000 is slower than the others: in step 8 its p99 TTFT was 318 ms, theirs 127 ms (as in 6 of 11 steps). The service can take no more than its worst replica while requests are dealt in turn.

        Step 8 at 32 req/s, milliseconds; all steps stand in replicas.csv.

        | replica | requests | failed | TTFT p50 | TTFT p99 | TPOT p50 | TPOT p99 | e2e p99 | far worse by |
        | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |
        | http&#58;//a:8000 | 1,280 | 0 | 40.6 | 127 | 9.19 | 16.1 | 1,030 |  |
        | http&#58;//b:8000 | 1,280 | 0 | 81.2 | 318 | 9.19 | 16.1 | 1,030 | TTFT |
        | unix:/run/c.sock | 1,280 | 3 | 40.6 | 127 | 9.19 | 16.1 | 1,030 |  |
        | all together | 3,840 | 3 | 40.6 | 127 | 9.19 | 16.1 | 1,030 |  |
        ");
    }

    #[test]
    fn one_server_has_no_section() {
        for name in ["found", "adaptive", "no-step"] {
            assert_eq!(section(&case(name)), "", "{name}");
        }
    }

    #[test]
    fn an_answer_of_none_shows_the_highest_calm_step_and_many_replicas_are_cut() {
        let mut run = case("replicas");
        let many = |s: &mut Step| {
            let one = s.replicas[0].clone();
            s.replicas =
                (0..40).map(|i| Replica { target: i, url: format!("http://r{i}"), ..one.clone() }).collect();
        };
        run.steps.iter_mut().for_each(many);
        (run.answers, run.caveats) = (vec![], vec![]);
        let text = section(&run);
        assert!(text.starts_with("No replica is far worse"), "{text}");
        assert!(text.contains("Step 10 at 36 req/s") && text.contains("The 24 with the shortest"), "{text}");
        assert_eq!(text.matches("//r").count(), MOST, "{text}");
    }
}
