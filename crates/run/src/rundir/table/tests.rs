//! Tests of every file of rows: its columns, which are a contract with other programs, and reading back rows, also
//! from files of other versions.

mod values;

use super::decode::NamedRow;
use super::error::CellError;
use super::repeats::RepeatColumns;
use super::variants::VariantColumns;
use super::*;
use crate::fixture;
use crate::rundir::requests::RequestRow;
use crate::rundir::{FailureRow, REQUESTS, STEPS, Sample};
use goodput_core::caveat::{Caveat, SweepCaveat};
use goodput_core::record::{Failure, Outcome, Phase, Record};
use goodput_core::slo::Metric;
use goodput_stats::stats::groups::{Group, GroupBy};
use goodput_stats::stats::step::{CheckRow, MetricRow, Quantiles, Step};
use std::fmt::Debug;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Reads a row by its column names.
fn read<T: DeserializeOwned>(row: &NamedCells) -> Result<T, CellError> {
    let texts = |all: &'static [String]| all.iter().map(String::as_str);
    // Rows borrow static strings here; the leak is acceptable in a test.
    let (names, cells) = (row.names.clone().leak(), row.cells.clone().leak());
    T::deserialize(NamedRow::new(texts(names), texts(cells)))
}

/// Puts a text into a column.
fn with(row: &NamedCells, column: &str, cell: &str) -> NamedCells {
    let mut row = row.clone();
    let at = row.names.iter().position(|name| name == column).unwrap_or_else(|| panic!("no column {column}"));
    row.cells[at] = cell.to_owned();
    row
}

/// Removes the columns for which `is` returns true.
fn without(row: &NamedCells, is: impl Fn(&str) -> bool) -> NamedCells {
    let kept = row.names.iter().zip(&row.cells).filter(|(name, _)| !is(name));
    let (names, cells) = kept.map(|(name, cell)| (name.clone(), cell.clone())).unzip();
    NamedCells { names, cells }
}

/// Checks a row type: rows read back unchanged, also next to a column of a later version; and each column may be
/// missing except those in `required`, whose error names the column.
fn check<T: TableRow + PartialEq + Debug>(rows: &[T], required: &str) {
    assert!(!rows.is_empty(), "{} has no row to check", T::FILE);
    let required: Vec<&str> = required.split(',').collect();
    for row in rows {
        let cells = NamedCells::of(row).unwrap();
        assert_eq!(&read::<T>(&cells).unwrap(), row);
        let mut later = cells.clone();
        later.names.insert(1, "later".into());
        later.cells.insert(1, "=x\"".into());
        assert_eq!(&read::<T>(&later).unwrap(), row, "{}: a column of a later version", T::FILE);
        for column in &cells.names {
            match read::<T>(&without(&cells, |name| name == column)) {
                Ok(_) => assert!(!required.contains(&column.as_str()), "{} needs {column}", T::FILE),
                Err(e) => {
                    assert!(required.contains(&column.as_str()), "{} reads without {column}: {e}", T::FILE);
                    assert_eq!(e.to_string(), format!("column {column} is missing"));
                }
            }
        }
    }
}

/// Checks that a file starts with the columns of its first published version. New ones come after them.
fn check_columns(file: &str, names: &[String]) {
    let published = include_str!("columns.txt").lines().find_map(|l| l.strip_prefix(&format!("{file}: ")));
    let published: Vec<&str> =
        published.unwrap_or_else(|| panic!("{file} is not published")).split(',').collect();
    assert!(names.len() >= published.len() && names[..published.len()] == published, "{file}: {names:?}");
}

fn check_file<T: TableRow + PartialEq + Debug>(rows: &[T], required: &str) {
    check(rows, required);
    check_columns(T::FILE, &NamedCells::of(&rows[0]).unwrap().names);
}

/// The steps of all runs of the fixtures.
fn steps() -> Vec<Step> {
    fixture::cases().into_iter().flat_map(|(_, run)| run.steps).collect()
}

/// Groups of a step: with latencies, and without any.
fn groups(step: &Step) -> [Group; 2] {
    let latency = [(Metric::Ttft, Metric::Ttft), (Metric::E2e, Metric::E2e), (Metric::Itl, Metric::Tpot)];
    let whole = Group {
        by: GroupBy::Class,
        name: "chat, long".into(),
        n: 120,
        failed: 2,
        cut: 1,
        failed_timeout: 1,
        latency: latency.map(|(metric, of)| (metric, step.quantiles(of))).into(),
        input_tokens_mean: Some(612.5),
        output_tokens_mean: None,
        achieved_rate: 1.95,
    };
    let empty =
        Group { by: GroupBy::Turn, name: "10-19".into(), latency: Default::default(), ..whole.clone() };
    [whole, empty]
}

const STEP_NEEDS: &str = "series,step,kind,control,level,started_s,ended_s,settle_s,measure_s,tail_s,drain_s,due_n,offered_rate,\
    sent_rate,achieved_rate,good_rate,completed,failed,cut,output_tokens_per_s,prompt_tokens_per_s,in_flight_mean,in_flight_max,verdict";

#[test]
fn files_of_steps_keep_their_columns_and_read_back() {
    let steps = steps();
    check_file(&steps.iter().map(StepColumns::from).collect::<Vec<_>>(), STEP_NEEDS);
    let limits: Vec<_> =
        steps.iter().flat_map(|s| s.limits.iter().map(|l| LimitColumns::new(s, l))).collect();
    check_file(&limits, "series,step,tier,class,limit,n,misses,censored,clusters,cluster_sq,verdict");
    let of_groups: Vec<_> = groups(&steps[0]).iter().map(|g| GroupColumns::new(&steps[0], g)).collect();
    check_file(&of_groups, "series,step,by,name,n,failed,cut,achieved_rate");
    let replicas: Vec<_> =
        steps.iter().flat_map(|s| s.replicas.iter().map(|r| ReplicaColumns::new(s, r))).collect();
    check_file(&replicas, "series,step,target,url,n,failed,cut");
    let served: Vec<_> = fixture::served().steps.iter().filter_map(ServerColumns::new).collect();
    check_file(&served, "series,step");
    let row =
        CheckRow { class: "all".into(), check: "json".into(), n: 9, failed: 1, sample: "=1\n\"x\"".into() };
    check_file(&[CheckColumns::new(&steps[0], &row)], "series,step,class,check,n,failed");
    let row = MetricRow {
        source: "gpu".into(),
        name: "7".into(),
        labels: "x=\"1, 2\"".into(),
        n: 2,
        min: Some(-0.5),
        mean: None,
        max: Some(1e-9),
        per_s: None,
    };
    check_file(&[MetricColumns::new(&steps[0], &row)], "series,step,source,name,n");
}

#[test]
fn other_files_keep_their_columns_and_read_back() {
    let series = || "main".to_owned();
    let failure = FailureRow {
        series: series(),
        step: 3,
        class: "-x".into(),
        kind: "connect".into(),
        status: None,
        count: 7,
        sample: "=x".into(),
    };
    let refused = FailureRow { status: Some(429), sample: String::new(), ..failure.clone() };
    check_file(&[failure, refused], "series,step,class,kind,count");
    let (class, metric) = ("all".into(), "itl".into());
    let bucket =
        HistogramColumns { series: series(), step: 3, class, metric, low_us: 9, high_us: 10, count: 4 };
    check_file(&[bucket], "series,step,class,metric,low_us,high_us,count");
    let sample = Sample { time_s: 1.25, name: "running".into(), value: 3.0, source: "0".into() };
    check_file(&[SampleColumns::new("main", 3, &sample)], "series,step,time_s,name,value");
    check_file(&[CountedColumns { step: 1, id: 2, output_tokens: 3 }], "step,id,output_tokens");
}

#[test]
fn tables_of_answers_keep_their_columns_and_read_back() {
    let run = fixture::variants();
    let rows: Vec<VariantColumns> = rows_of(&variants_table(&run).unwrap());
    assert_eq!(rows.len(), run.variants.len());
    check_file(&rows, "variant,series,knobs,state,out_of_memory");
    let repeat = |run: u32, answers| crate::rundir::repeats::RepeatedRun {
        run,
        folder: format!("run-{run:02}"),
        seed: 7,
        started: Some("2026-11-20T10:15:00Z".into()),
        state: crate::rundir::repeats::State::Done,
        answers,
    };
    let runs = [repeat(1, fixture::found().answers), repeat(2, Vec::new())];
    let rows: Vec<RepeatColumns> = rows_of(&repeats_table(&runs).unwrap());
    assert_eq!(rows.len(), 1 + runs[0].answers.len());
    check_file(&rows, "run,folder,seed,state");
}

/// Reads a whole table.
fn rows_of<T: TableRow>(text: &[u8]) -> Vec<T> {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(T::FILE), text).unwrap();
    read_rows(dir.path(), &mut Vec::new()).unwrap()
}

#[test]
fn facts_read_back_the_same() {
    for step in steps().iter().chain(&fixture::served().steps) {
        let back =
            Step::from(read::<StepColumns>(&NamedCells::of(&StepColumns::from(step)).unwrap()).unwrap());
        let bare = Step {
            limits: Vec::new(),
            groups: Vec::new(),
            replicas: Vec::new(),
            checks: Vec::new(),
            metrics: Vec::new(),
            server: back.server,
            ..step.clone()
        };
        assert_eq!(back, bare);
        let key = (step.series.clone(), step.step);
        for limit in &step.limits {
            assert_eq!(LimitColumns::new(step, limit).into_limit(), (key.clone(), limit.clone()));
        }
        for replica in &step.replicas {
            assert_eq!(ReplicaColumns::new(step, replica).into_replica(), (key.clone(), replica.clone()));
        }
        if let Some(row) = ServerColumns::new(step) {
            let cells = NamedCells::of(&row).unwrap();
            assert_eq!(read::<ServerColumns>(&cells).unwrap().into_server(), (key.clone(), step.server));
        }
    }
    let step = fixture::found().steps.swap_remove(0);
    for group in groups(&step) {
        let row = NamedCells::of(&GroupColumns::new(&step, &group)).unwrap();
        assert_eq!(read::<GroupColumns>(&row).unwrap().into_group(), (("main".to_owned(), 1), group));
    }
}

/// A folder of an earlier version has fewer columns: rows appended to it still read back.
#[test]
fn a_file_keeps_the_columns_that_it_began_with() {
    let run = fixture::found();
    let dir = tempfile::tempdir().unwrap();
    let first = NamedCells::of(&StepColumns::from(&run.steps[0])).unwrap();
    // Columns of a version before `client_busy`.
    let fewer = first.names.iter().position(|name| name == "client_busy").unwrap();
    let text = format!("{}\n{}\n", first.names[..fewer].join(","), quoted(&first.cells[..fewer]));
    fs::write(dir.path().join(STEPS), text).unwrap();
    append_rows(dir.path(), [StepColumns::from(&run.steps[1])]).unwrap();
    let rows: Vec<StepColumns> = read_rows(dir.path(), &mut Vec::new()).unwrap();
    let steps: Vec<Step> = rows.into_iter().map(Step::from).collect();
    assert_eq!(heads_of(&dir.path().join(STEPS)).unwrap().len(), fewer);
    assert_eq!((steps[1].step, steps[1].client_busy, steps.len()), (2, None, 2));
}

fn quoted(cells: &[String]) -> String {
    cells.iter().map(|cell| format!("\"{cell}\"")).collect::<Vec<_>>().join(",")
}

#[test]
fn an_error_names_the_file_the_line_and_the_column() {
    let dir = tempfile::tempdir().unwrap();
    let read = |text: &str| {
        fs::write(dir.path().join("checks.csv"), text).unwrap();
        let mut caveats = Vec::new();
        (read_rows::<CheckColumns>(dir.path(), &mut caveats), caveats)
    };
    let head = "series,step,class,check,n,failed,sample\n";
    let whole = "main,1,all,json,9,0,\"a\nb\"\n";
    for (text, want) in [
        (
            format!("{head}{whole}main,x,all,json,9,0,\n"),
            "line 4 of CHECKS: column step holds \"x\", which is no count",
        ),
        (format!("{head}{whole}main,2,all,json,,0,\n"), "line 4 of CHECKS: column n is empty"),
        (format!("{head}{whole}main,2,all\n"), "line 4 of CHECKS: 3 cells instead of 7"),
        (
            "series,step,class,check,n\nmain,1,all,json,9\n".into(),
            "line 2 of CHECKS: column failed is missing",
        ),
    ] {
        let want = want.replace("CHECKS", &dir.path().join("checks.csv").display().to_string());
        assert_eq!(format!("{:#}", read(&text).0.unwrap_err()), format!("failed to read {want}"));
    }
    // Remains of a killed writer.
    for torn in ["main,2,all,json,9,0,ab", "main,2,al", "main,2,all,json,9,0,\"a\nb"] {
        let (rows, caveats) = read(&format!("{head}{whole}{torn}"));
        assert_eq!(rows.unwrap().len(), 1, "{torn}");
        assert_eq!(caveats, [Caveat::Sweep(SweepCaveat::TornRow { file: "checks.csv".into() })]);
    }
    for empty in ["", head] {
        assert!(read(empty).0.unwrap().is_empty());
    }
}

/// A request with a value in every field of a record.
fn whole_record() -> Record {
    let at = |us: u64| Some(Duration::from_nanos(us * 1_000 + 1));
    Record {
        session: Some(4),
        turn: 2,
        target: 1,
        conn: Some(goodput_core::record::Conn::Reused),
        attempts: 2,
        sent: at(1_234_568),
        headers: at(1_234_569),
        first_event: at(1_234_570),
        first_token: at(1_234_571),
        first_content: at(1_234_572),
        last_token: at(2_000_000),
        end: Duration::from_micros(2_000_001),
        input_asked: 600,
        input_tokens: Some(601),
        cached_tokens: Some(64),
        output_asked: 30,
        output_tokens: Some(29),
        reasoning_tokens: Some(3),
        token_source: Some(goodput_core::record::TokenSource::Usage),
        first_event_tokens: Some(1),
        events: 28,
        itl_max: at(90_000),
        itl_over: 2,
        output_bytes: 4_321,
        outcome: Outcome::Failed,
        failure: Some(Failure::RateLimited),
        status: Some(429),
        finish: Some("=a,\"b\"\n".into()),
        check: Some(false),
        ..Record::due(7, Phase::Measure, Duration::from_nanos(1_234_567_891))
    }
}

fn requests(dir: &Path) -> Vec<(String, u32, Record)> {
    let mut found = Vec::new();
    crate::rundir::requests::each_record(dir, &["long", "-chat"], |series, step, r| {
        found.push((series.to_owned(), step, r.clone()));
    })
    .unwrap();
    found
}

#[test]
fn requests_keep_their_columns_and_read_back() {
    check_columns(REQUESTS, &RequestRow::columns());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(REQUESTS);
    let records = [
        Record { class: 1, ..whole_record() },
        Record { class: 1, ..Record::due(8, Phase::Tail, Duration::ZERO) },
    ];
    let mut to = csv::Writer::from_writer(Vec::new());
    for record in &records {
        to.serialize(RequestRow::new("=main", 3, "-chat", record)).unwrap();
    }
    let text = String::from_utf8(to.into_inner().unwrap()).unwrap();
    fs::write(&path, &text).unwrap();
    let want = records.clone().map(|record| ("=main".to_owned(), 3, record));
    assert_eq!(requests(dir.path()), want);
    let mut whole = csv::Reader::from_reader(text.as_bytes());
    let heads: Vec<String> = whole.headers().unwrap().iter().map(str::to_owned).collect();
    let rows: Vec<csv::StringRecord> = whole.records().map(Result::unwrap).collect();
    let required = ["series", "step", "phase", "due_ms", "end_ms", "outcome"];
    for (place, column) in heads.iter().enumerate() {
        let mut to = csv::Writer::from_path(&path).unwrap();
        let fewer = |all: Vec<&str>| {
            let kept = all
                .into_iter()
                .enumerate()
                .filter(move |(i, _)| *i != place)
                .map(|(_, cell)| cell.to_owned());
            kept.chain(["later".to_owned()]).collect::<Vec<_>>()
        };
        to.write_record(fewer(heads.iter().map(String::as_str).collect())).unwrap();
        rows.iter().for_each(|row| to.write_record(fewer(row.iter().collect())).unwrap());
        drop(to);
        assert_eq!(requests(dir.path()).is_empty(), required.contains(&column.as_str()), "without {column}");
    }
}

/// A resumed sweep writes the columns of the file that an earlier version started.
#[test]
fn requests_are_added_in_the_columns_of_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let old = "outcome,series,step,phase,class,due_ms,end_ms,elsewhere\n";
    fs::write(dir.path().join(REQUESTS), old).unwrap();
    let mut to = crate::rundir::requests::RequestsWriter::open(dir.path()).unwrap();
    to.add(&RequestRow::new("=main", 3, "long", &whole_record())).unwrap();
    to.flush().unwrap();
    let text = fs::read_to_string(dir.path().join(REQUESTS)).unwrap();
    assert_eq!(text, format!("{old}failed,'=main,3,measure,long,1234.567891,2000.001,\n"));
    assert_eq!(requests(dir.path())[0].2.end, whole_record().end);
}
