//! The replicas of a service side by side.

use super::at_the_answer::at_the_answer;
use super::cells::latency;
use crate::document::{Block, Cell, Column, Field, Table};
use crate::escape::clip;
use crate::words;
use goodput_core::caveat::Caveat;
use goodput_core::slo::Metric;
use goodput_run::rundir::Run;
use goodput_stats::stats::step::{OutlierMetric, Quantiles, Replica, Step};

/// Maximum number of replicas shown: those with the longest TTFT.
const MOST: usize = 16;

/// Returns each replica at the step of the answer, and which is far worse than the others; empty unless there are
/// several.
pub(super) fn section(run: &Run) -> Vec<Block> {
    let Some(step) = at_the_answer(run, |s| !s.replicas.is_empty()) else { return Vec::new() };
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
    let at = format!(
        "Step {} at {}, milliseconds; all steps stand in replicas.csv.{left}",
        step.step,
        words::step_level(step)
    );
    let blocks = vec![Block::paragraph(said.join(" ")), Block::paragraph(at), table(run, step).into()];
    blocks
}

/// Returns the URL of the replica that a caveat names, if any.
fn named(caveat: &Caveat) -> Option<&str> {
    match caveat {
        Caveat::Replicas(caveat) => Some(caveat.url()),
        _ => None,
    }
}

/// A replica, or the total of all.
struct ReplicaRow<'a> {
    name: String,
    requests: u64,
    failed: u64,
    apart: &'static str,
    quantiles: Box<dyn Fn(Metric) -> Quantiles + 'a>,
}

fn table(run: &Run, step: &Step) -> Table {
    let slowness = |r: &Replica| r.quantiles(Metric::Ttft).p99.unwrap_or(f64::INFINITY);
    let mut shown: Vec<&Replica> = step.replicas.iter().collect();
    if shown.len() > MOST {
        shown.sort_by(|a, b| slowness(b).total_cmp(&slowness(a)));
        shown.truncate(MOST);
    }
    let row = |r: &&'_ Replica| {
        // A difference in one step may be chance; it is listed in replicas.csv.
        let sure = run.caveats.iter().any(|c| named(c) == Some(&r.url));
        let one = (*r).clone();
        ReplicaRow {
            name: clip(&r.url, 80),
            requests: r.n,
            failed: r.failed,
            apart: r.outlier.filter(|_| sure).map_or("", OutlierMetric::title),
            quantiles: Box::new(move |m| one.quantiles(m)),
        }
    };
    let mut rows: Vec<ReplicaRow<'_>> = shown.iter().map(row).collect();
    rows.push(ReplicaRow {
        name: "all together".into(),
        requests: step.due_n,
        failed: step.failed,
        apart: "",
        quantiles: Box::new(|m| step.quantiles(m)),
    });
    let time = |head: &str, metric: Metric, of: fn(&Quantiles) -> Option<f64>| {
        Field::new(Column::number(head), move |r: &ReplicaRow<'_>| latency(step, of(&(r.quantiles)(metric))))
    };
    let fields = vec![
        Field::new(Column::text("replica"), |r: &ReplicaRow<'_>| Cell::text(r.name.as_str())),
        Field::new(Column::number("requests"), |r: &ReplicaRow<'_>| Cell::Count(r.requests as f64)),
        Field::new(Column::number("failed"), |r: &ReplicaRow<'_>| Cell::Count(r.failed as f64)),
        time("TTFT p50", Metric::Ttft, |q| q.p50),
        time("TTFT p99", Metric::Ttft, |q| q.p99),
        time("TPOT p50", Metric::Tpot, |q| q.p50),
        time("TPOT p99", Metric::Tpot, |q| q.p99),
        time("e2e p99", Metric::E2e, |q| q.p99),
        Field::new(Column::text("far worse by"), |r: &ReplicaRow<'_>| Cell::text(r.apart)),
    ];
    Table::of(fields, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::markdown::blocks;
    use goodput_run::fixture;

    fn case(name: &str) -> Run {
        fixture::cases().into_iter().find(|(n, _)| *n == name).unwrap().1
    }

    #[test]
    fn replicas_stand_beside_the_pooled_figures() {
        let run = case("replicas");
        insta::assert_snapshot!(blocks(&section(&run), 3), @r"
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
            assert!(section(&case(name)).is_empty(), "{name}");
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
        let text = blocks(&section(&run), 3);
        assert!(text.starts_with("No replica is far worse"), "{text}");
        assert!(text.contains("Step 10 at 36 req/s") && text.contains("The 24 with the shortest"), "{text}");
        assert_eq!(text.matches("//r").count(), MOST, "{text}");
    }
}
