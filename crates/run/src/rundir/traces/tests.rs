//! Tests with files as the writer leaves them: finished, killed within a row, and with phases and steps that do not
//! count.

use super::*;
use crate::fixture;
use crate::rundir::REQUESTS;

const HEAD: &str = "series,step,id,phase,due_ms,sent_ms,first_token_ms,last_token_ms,end_ms,output_tokens,first_event_tokens,outcome,finish\n";

/// Rows of a step with `per_s` requests per second for ten seconds, the first two settling; each takes 0.5 s.
fn rows(step: u32, per_s: u32) -> String {
    let row = |i: u32| {
        let due = f64::from(i) * 1e3 / f64::from(per_s);
        let phase = if due < 2_000.0 { "settle" } else { "measure" };
        let (first, last) = (due + 100.0, due + 500.0);
        format!("main,{step},{i},{phase},{due},{due},{first},{last},{last},11,,ok,\"a,\n\"\n")
    };
    (0..10 * per_s).map(row).collect()
}

fn step(number: u32, per_s: u32) -> Step {
    let mut step = fixture::cases().swap_remove(0).1.steps.swap_remove(0);
    (step.step, step.due_n) = (number, u64::from(8 * per_s));
    (step.settle_s, step.measure_s, step.tail_s, step.drain_s) = (2.0, 8.0, 0.0, 2.0);
    step
}

fn read(text: &str, steps: &[Step]) -> Traces {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(REQUESTS), text).unwrap();
    Traces::read(dir.path(), steps).unwrap()
}

#[test]
fn a_step_is_seen_over_time() {
    let steps = [step(1, 20), step(2, 200)];
    let warmup = "main,0,0,warmup,0,0,1,2,2,4,,ok,\n";
    let traces = read(&format!("{HEAD}{warmup}{}{}", rows(1, 20), rows(2, 200)), &steps);
    let (few, many) = (traces.of(&steps[0]).unwrap(), traces.of(&steps[1]).unwrap());
    // 20 per second for half a second are ten in flight; none are left after 10.5 of twelve seconds.
    let middle = few.in_flight[PARTS / 2];
    assert!((middle - 10.0).abs() < 0.6, "{middle}");
    assert!(few.in_flight.last().is_some_and(|n| n.abs() < 1e-9), "{:?}", few.in_flight.last());
    let mean = few.in_flight.iter().sum::<f64>() / few.in_flight.len() as f64;
    assert!((mean * 12.0 - 200.0 * 0.5).abs() < 1e-6, "200 requests of half a second, whole: {mean}");
    let Ttft::Points(points) = &few.ttft else { panic!("200 requests are shown one by one") };
    assert_eq!(points.len(), 200);
    let Ttft::Spans(spans) = &many.ttft else { panic!("2000 requests need percentiles") };
    assert!(spans.len() >= 8, "{} spans", spans.len());
    assert!(spans.iter().all(|s| (s.p50 - 100.0).abs() < 1.0 && (s.p99 - 100.0).abs() < 1.0));
    assert_eq!(many.all.of[&Metric::Ttft].n(), 1600, "of the measured window alone");
    let tpot = many.all.of[&Metric::Tpot].quantile(0.5).unwrap();
    assert!((tpot - 40.0).abs() < 0.3, "400 ms over the ten tokens after the first: {tpot}");
    assert!((many.all.of[&Metric::E2e].quantile(0.99).unwrap() - 500.0).abs() < 3.0);
}

#[test]
fn torn_and_strange_rows_are_passed_over() {
    let steps = [step(1, 20)];
    let whole = format!("{HEAD}{}", rows(1, 20));
    for (text, why) in [
        (format!("{whole}main,1,99,measure,30"), "torn in the middle of a cell"),
        (format!("{whole}main,1,99,measure,3000,3000,3100,3500,3500,11,,ok,len"), "torn in its last cell"),
        (format!("{whole}main,2,0,measure,1,1,2,3,3,4,,ok,\n"), "a step that has no row"),
        (format!("{whole}main,x,0,measure,1,1,2,3,3,4,,ok,\n"), "no number of a step"),
        (format!("{whole}main,1,0,measure,1,1,2,3,3,4,,who knows,\n"), "an outcome that is not known"),
    ] {
        let traces = read(&text, &steps);
        let trace = traces.of(&steps[0]).unwrap_or_else(|| panic!("{why}"));
        assert_eq!(trace.all.of[&Metric::Ttft].n(), 160, "{why}");
    }
    let mut bytes = whole.into_bytes();
    bytes.extend_from_slice(b"main,1,99,measure,\xff\xfe,3000,3100,3500,3500,11,,ok,\n");
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(REQUESTS), bytes).unwrap();
    assert!(Traces::read(dir.path(), &steps).unwrap().of(&steps[0]).is_some(), "no text at all");
}

#[test]
fn what_is_not_covered_has_no_trace() {
    let steps = [step(1, 20), step(2, 20)];
    assert_eq!(Traces::read(Path::new("/nowhere"), &steps).unwrap(), Traces::default());
    for (text, why) in [
        (String::new(), "empty"),
        (HEAD.to_owned(), "no row"),
        ("a,b\n1,2\n".into(), "another file"),
        (format!("{HEAD}{}{}", rows(2, 20), rows(2, 20)), "measured twice under one number"),
        (format!("{HEAD}{}", rows(2, 10)), "half of it lost"),
    ] {
        assert_eq!(read(&text, &steps), Traces::default(), "{why}");
    }
    let traces = read(&format!("{HEAD}{}", rows(2, 20)), &steps);
    assert!(traces.of(&steps[0]).is_none() && traces.of(&steps[1]).is_some());
}

#[test]
fn failed_and_cut_requests_are_counted() {
    let mut s = step(1, 20);
    s.due_n = 3;
    let text = format!(
        "{HEAD}main,1,0,measure,2000,2000,2100,2500,2500,5,,ok,\nmain,1,1,measure,2000,2000,2050,,2060,,,failed,\n\
         main,1,2,measure,2000,2000,2300,,9000,,,cut,\n"
    );
    let traces = read(&text, std::slice::from_ref(&s));
    let t = traces.of(&s).unwrap();
    assert_eq!(
        (t.all.failed, t.cut, t.all.of[&Metric::Ttft].n()),
        (1, 1, 2),
        "a cut one had its first token"
    );
    assert_eq!(t.all.of[&Metric::E2e].n(), 1);
}
