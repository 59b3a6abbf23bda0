//! Tests of single cells: floats keep every bit, and impossible values are rejected.

use super::*;
use goodput_stats::stats::co_misses::CoMisses;
use goodput_stats::stats::step::{
    Buckets, ClientSide, HostLoad, LimitRow, ServerLatency, ServerSide, TracePart,
};
use proptest::prelude::*;
use serde_json::Value;

fn step_of(row: &[(String, String)]) -> Step {
    read(row).unwrap()
}

/// Returns the row as it reads back.
fn back<T: TableRow + Clone>(row: &T) -> T {
    read(&cells_of(row)).unwrap()
}

proptest! {
    /// Every measurable float is restored bit by bit.
    #[test]
    fn steps_read_back_the_same(x in any::<[f64; 8]>()) {
        let x = x.map(|x| if x.is_finite() { x % 1e30 } else { 0.1 + 0.2 });
        let seconds = x.map(|x| x.abs() % 1e8);
        let mut step = fixture::found().steps.swap_remove(0);
        (step.started_s, step.ended_s, step.in_flight_mean) = (seconds[0], seconds[1], x[3]);
        step.level.value = seconds[2].max(f64::MIN_POSITIVE);
        (step.ttft_slope, step.joint_attainment) = (Some(x[4]), Some(x[5]));
        (step.client_busy, step.client_waiting) = (Some(x[1]), None);
        (step.refused, step.failed_timeout, step.cut_timeout) = (7, 3, 2);
        step.trace = (x[2] > 0.0).then_some(TracePart { from: 3, n: 7, of: 40 });
        let q = Quantiles { n: 7, p99: Some(x[6]), inflation: Some(1.0 + x[7].abs()), ..Quantiles::default() };
        step.latency.insert(Metric::Ttft, q);
        let mut limit = step.limits[0].clone();
        (limit.low, limit.limit_ms) = (Some(x[7]), Some(x[0]));
        prop_assert_eq!(back(&limit), limit);
        step.limits.clear();
        prop_assert_eq!(back(&step), step);
    }

    #[test]
    fn the_servers_side_reads_back_the_same(x in any::<[Option<f64>; 6]>(), restarted: bool) {
        let x = x.map(|x| x.filter(|x| x.is_finite()).map(|x| x % 1e30));
        let latency = x[0].map(|mean_ms| ServerLatency { n: 3.0, mean_ms, p50_ms: x[1], p99_ms: x[2] });
        let server = ServerSide {
            samples: Some(9), seconds: x[3], running_mean: x[4], waiting_max: x[5], hit_rate: x[0], preemptions: x[1],
            ttft: latency, e2e: latency, tpot: latency, restarted,
            ttft_buckets: Buckets(vec![(0.001, 3.0), (2.5, 3.0), (f64::INFINITY, 7.0)]),
            client: x[2].map(|tokens| ClientSide {
                first_tokens: 4, ttft_mean_ms: x[3], prompt_tokens: tokens, output_tokens: 0.1 + 0.2, in_flight_mean: x[4],
            }),
            ..ServerSide::default()
        };
        prop_assert_eq!(back(&server), server);
        let row = MetricRow {
            source: "gpu".into(), name: "a".into(), labels: "x=\"1, 2\"".into(), n: 2, min: x[0], mean: x[1], max: x[2], per_s: x[3],
        };
        prop_assert_eq!(back(&row), row);
    }
}

/// Times are written as the shortest float that is equal, as the csv crate does.
#[test]
fn times_are_written_as_floats() {
    let tens = (0..19).map(|power| 10_u64.pow(power));
    let near =
        tens.flat_map(|ten| [1, 2, 3, 7, 9].map(|n| n * ten)).flat_map(|ns| [ns - 1, ns, ns + 1, ns + 17]);
    for ns in near {
        let time = Duration::from_nanos(ns);
        let mut text = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
        text.serialize(goodput_core::units::ms(time)).unwrap();
        let want = String::from_utf8(text.into_inner().unwrap()).unwrap();
        let mut got = String::new();
        time.write(&mut got);
        assert_eq!(got, want.trim_end(), "{ns}");
        if ns < 1_000_000_000_000_000 {
            assert_eq!(Duration::parse(&got).unwrap(), time);
        }
    }
}

#[test]
fn what_is_not_finite_is_not_known() {
    let mut step = fixture::found().steps.swap_remove(0);
    (step.joint_attainment, step.ttft_slope) = (Some(f64::NAN), Some(f64::INFINITY));
    let back = step_of(&cells_of(&step));
    assert_eq!((back.joint_attainment, back.ttft_slope), (None, None));
}

#[test]
fn folders_without_inflation_assume_independent_requests() {
    let step = fixture::found().steps.swap_remove(0);
    let row = cells_of(&step);
    assert_eq!(step_of(&row).quantiles(Metric::Ttft), step.quantiles(Metric::Ttft));
    let q = step_of(&without(&row, |name| name.ends_with("_inflation"))).quantiles(Metric::Ttft);
    assert_eq!(q, Quantiles { inflation: None, ..step.quantiles(Metric::Ttft) });
    assert_eq!(q.effective(), None);
    let none = step_of(&with(&row, "ttft_inflation", "0")).quantiles(Metric::Ttft).inflation;
    assert_eq!(none, None, "no request is worth two");
}

/// A folder of a version without a metric lacks all columns of that metric.
#[test]
fn a_metric_without_columns_was_not_measured() {
    let step = fixture::found().steps.swap_remove(0);
    let read = step_of(&without(&cells_of(&step), |name| name.starts_with("ttfc_")));
    assert!(!read.latency.contains_key(&Metric::Ttfc) && read.latency.contains_key(&Metric::Ttft));
}

/// Rows: column, cell, and true if the value is accepted.
#[test]
fn what_cannot_be_measured_is_refused() {
    let row = cells_of(&fixture::found().steps[0]);
    for (column, cell, taken) in [
        ("level", "0", false),
        ("level", "-1", false),
        ("level", "2e9", false),
        ("level", "0.001", true),
        ("measure_s", "1e308", false),
        ("settle_s", "-1", false),
        ("tail_s", "inf", false),
        ("drain_s", "NaN", false),
        ("ended_s", "1e8", true),
        ("good_rate", "inf", false),
        ("receive_lag_p99_ms", "1e29", false),
        ("receive_lag_p99_ms", "-1", false),
        ("ttft_p99_ms", "nan", false),
        ("ttft_slope", "-1e308", false),
        ("ttft_slope", "-1e29", true),
        ("due_n", "99999999999999999", false),
        ("kind", "other", false),
        ("stable", "maybe", false),
    ] {
        match read::<Step>(&with(&row, column, cell)) {
            Ok(_) => assert!(taken, "{column} = {cell}"),
            Err(e) => {
                assert!(!taken && e.to_string().starts_with(&format!("column {column} ")), "{cell}: {e}");
                assert!(
                    e.to_string().to_lowercase().contains(&cell.to_lowercase()) || cell.contains('e'),
                    "{e}"
                );
            }
        }
    }
}

#[test]
fn the_load_of_this_machine_reads_back_the_same() {
    let whole = HostLoad {
        cores: 2,
        busy: 0.97,
        server: Some(0.3),
        others: Some(0.6),
        steal: 0.01,
        waiting: Some(0.8),
    };
    let unknown = HostLoad { server: None, others: None, waiting: None, ..whole };
    for host in [None, Some(whole), Some(unknown)] {
        let step = Step { host, ..fixture::found().steps.swap_remove(0) };
        assert_eq!(step_of(&cells_of(&step)).host, host);
    }
}

#[test]
fn co_misses_read_back_the_same() {
    let step = fixture::found().steps.swap_remove(0);
    let one = |limit: &str, requests| CoMisses {
        limit: limit.into(),
        requests,
        clusters: 4,
        product: 310,
        own_sq: 402,
        other_sq: 288,
    };
    for co_misses in [vec![], vec![one("ttft.p99", 9)], vec![one("ttft.p99", 0), one("long.v2/tpot.p99", 3)]]
    {
        let mut limit = step.limits[0].clone();
        limit.co_misses = co_misses;
        assert_eq!(back(&limit), limit);
    }
}

#[test]
fn what_is_no_count_is_an_error_that_shows_it() {
    let step = fixture::found().steps.swap_remove(0);
    let row = cells_of(&step.limits[0]);
    for wrong in [
        "ttft.p99",
        "ttft.p99=1/2/3/4",
        "ttft.p99=1/2/3/4/5/6",
        "a=1/2/-3/4/5",
        "a=1/2/3/4/99999999999999999",
    ] {
        let error = read::<LimitRow>(&with(&row, "co_misses", wrong)).unwrap_err().to_string();
        assert_eq!(error, format!("column co_misses holds {wrong:?}"));
    }
}

/// Returns the value of a column of `steps.csv` in a step of `result.json`: under its own name, or in an object, as
/// `client_busy` is in `client` and `ttft_p50_ms` in `ttft_ms`.
fn in_result<'a>(step: &'a Value, column: &str) -> &'a Value {
    let of_object = |(at, _): (usize, &str)| {
        let (object, key) = (&column[..at], &column[at + 1..]);
        let latency = || step.get(format!("{object}_ms"))?.get(key.trim_end_matches("_ms"));
        step.get(object).and_then(|o| o.get(key)).or_else(latency)
    };
    let nested = || column.match_indices('_').find_map(of_object);
    step.get(column).or_else(nested).unwrap_or(&Value::Null)
}

#[test]
fn every_cell_of_a_step_is_in_the_result() {
    for (case, run) in fixture::cases() {
        let result = crate::rundir::json::result(&run);
        for (step, json) in run.steps.iter().zip(result["steps"].as_array().unwrap()) {
            for (column, cell) in cells_of(step) {
                let same = match in_result(json, &column) {
                    Value::Null => cell.is_empty() || cell == "NaN",
                    Value::Bool(value) => cell == value.to_string(),
                    Value::Number(value) => cell.parse::<f64>().ok() == value.as_f64(),
                    Value::String(value) => cell == *value,
                    Value::Array(_) | Value::Object(_) => false,
                };
                assert!(same, "{case}: {column} {cell:?}, {:?}", in_result(json, &column));
            }
        }
    }
}
