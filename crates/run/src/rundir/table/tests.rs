//! Tests of every file of rows: its columns, which are a contract with other programs, and reading back rows, also
//! from files of other versions.

mod values;

use super::columns::{Places, RowCells, column_names};
use super::*;
use crate::fixture;
use crate::rundir::requests::RequestRow;
use crate::rundir::{FailureRow, REQUESTS, STEPS, Sample};
use csv::ByteRecord;
use goodput_core::caveat::{Caveat, SweepCaveat};
use goodput_core::record::{Failure, Outcome, Phase, Record};
use goodput_core::slo::Metric;
use goodput_stats::stats::groups::{Group, GroupBy};
use goodput_stats::stats::step::{CheckRow, MetricRow, Quantiles, Step};
use std::fmt::Debug;
use std::fs;
use std::num::NonZeroU8;
use std::path::Path;
use std::time::Duration;

/// The columns of a row with their cells.
type NamedCells = Vec<(String, String)>;

fn cells_of<T: TableRow + Clone>(row: &T) -> NamedCells {
    let mut cells = RowCells::default();
    let cells = cells.of(&mut row.clone()).unwrap();
    let texts = cells.iter().map(|cell| String::from_utf8(cell.to_vec()).unwrap());
    column_names::<T>().into_iter().zip(texts).collect()
}

/// Reads a row by its column names.
fn read<T: TableRow>(row: &[(String, String)]) -> Result<T, CellError> {
    let heads: ByteRecord = row.iter().map(|(name, _)| name.as_bytes()).collect();
    let cells: ByteRecord = row.iter().map(|(_, cell)| cell.as_bytes()).collect();
    let mut row = T::empty();
    Places::of::<T>(&heads).read(&mut row, &cells)?;
    Ok(row)
}

/// Puts a text into a column.
fn with(row: &[(String, String)], column: &str, cell: &str) -> NamedCells {
    let mut row = row.to_vec();
    let at = row.iter().position(|(name, _)| name == column).unwrap_or_else(|| panic!("no column {column}"));
    row[at].1 = cell.to_owned();
    row
}

/// Removes the columns for which `is` returns true.
fn without(row: &[(String, String)], is: impl Fn(&str) -> bool) -> NamedCells {
    row.iter().filter(|(name, _)| !is(name)).cloned().collect()
}

/// Checks a row type: rows read back unchanged, also next to a column of a later version; and each column may be
/// missing except those in `required`, whose error names the column.
fn check<T: TableRow + Clone + PartialEq + Debug>(rows: &[T], required: &str) {
    assert!(!rows.is_empty(), "{} has no row to check", T::FILE);
    let required: Vec<&str> = required.split(',').collect();
    for row in rows {
        let cells = cells_of(row);
        assert_eq!(&read::<T>(&cells).unwrap(), row);
        let mut later = cells.clone();
        later.insert(1, ("later".into(), "=x\"".into()));
        assert_eq!(&read::<T>(&later).unwrap(), row, "{}: a column of a later version", T::FILE);
        for (column, _) in &cells {
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

fn check_file<T: TableRow + Clone + PartialEq + Debug>(rows: &[T], required: &str) {
    check(rows, required);
    check_columns(T::FILE, &column_names::<T>());
}

/// Puts rows under a step.
fn of_step<T: Clone>(step: &Step, rows: &[T]) -> Vec<StepRow<T>> {
    let one = |row: &T| StepRow { series: step.series.clone(), step: step.step, row: row.clone() };
    rows.iter().map(one).collect()
}

/// Returns the step without the facts of other files.
fn bare(step: &Step) -> Step {
    let server = goodput_stats::stats::step::ServerSide {
        waiting_max: step.server.waiting_max,
        kv_max: step.server.kv_max,
        preemptions: step.server.preemptions,
        hit_rate: step.server.hit_rate,
        ..Default::default()
    };
    Step {
        limits: Vec::new(),
        groups: Vec::new(),
        replicas: Vec::new(),
        workers: Vec::new(),
        checks: Vec::new(),
        metrics: Vec::new(),
        server,
        ..step.clone()
    }
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
    let served = fixture::served().steps;
    let steps: Vec<Step> = steps();
    check_file(&steps.iter().chain(&served).map(bare).collect::<Vec<_>>(), STEP_NEEDS);
    let limits: Vec<_> = steps.iter().flat_map(|s| of_step(s, &s.limits)).collect();
    check_file(&limits, "series,step,tier,class,limit,n,misses,censored,clusters,cluster_sq,verdict");
    check_file(&of_step(&steps[0], &groups(&steps[0])), "series,step,by,name,n,failed,cut,achieved_rate");
    let replicas: Vec<_> = steps.iter().flat_map(|s| of_step(s, &s.replicas)).collect();
    check_file(&replicas, "series,step,target,url,n,failed,cut");
    let of_workers = fixture::workers();
    let workers: Vec<_> = of_workers.all_steps().into_iter().flat_map(|s| of_step(s, &s.workers)).collect();
    check_file(&workers, "series,step,worker,id,n,failed,start_late_ms,clock_offset_ms,clock_drift_ms");
    let servers: Vec<_> = served.iter().flat_map(|s| of_step(s, std::slice::from_ref(&s.server))).collect();
    check_file(&servers, "series,step");
    let row =
        CheckRow { class: "all".into(), check: "json".into(), n: 9, failed: 1, sample: "=1\n\"x\"".into() };
    check_file(&of_step(&steps[0], &[row]), "series,step,class,check,n,failed");
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
    check_file(&of_step(&steps[0], &[row]), "series,step,source,name,n");
}

#[test]
fn other_files_keep_their_columns_and_read_back() {
    let failure = FailureRow {
        series: "main".into(),
        step: 3,
        class: "-x".into(),
        kind: "connect".into(),
        status: None,
        count: 7,
        sample: "=x".into(),
    };
    let refused = FailureRow { status: Some(429), sample: String::new(), ..failure.clone() };
    check_file(&[failure, refused], "series,step,class,kind,count");
    let step = fixture::found().steps.swap_remove(0);
    let bucket = Bucket { class: "all".into(), metric: "itl".into(), low_us: 9, high_us: 10, count: 4 };
    check_file(&of_step(&step, &[bucket]), "series,step,class,metric,low_us,high_us,count");
    let sample = Sample { time_s: 1.25, name: "running".into(), value: 3.0, source: "0".into() };
    check_file(&of_step(&step, &[sample]), "series,step,time_s,name,value");
    check_file(&[OwnTokenCount { step: 1, id: 2, output_tokens: 3 }], "step,id,output_tokens");
}

#[test]
fn tables_of_answers_keep_their_columns() {
    let run = fixture::variants();
    let check = |file: &str, text: &[u8], rows: usize| {
        let mut table = csv::Reader::from_reader(text);
        let heads: Vec<String> = table.headers().unwrap().iter().map(str::to_owned).collect();
        check_columns(file, &heads);
        assert_eq!(table.records().map(Result::unwrap).count(), rows);
    };
    check("variants.csv", &variants_table(&run).unwrap(), run.variants.len());
    let repeat = |run: u32, answers| crate::rundir::repeats::RepeatedRun {
        run,
        folder: format!("run-{run:02}"),
        seed: 7,
        started: Some("2026-11-20T10:15:00Z".into()),
        state: crate::rundir::repeats::State::Done,
        answers,
    };
    let runs = [repeat(1, fixture::found().answers), repeat(2, Vec::new())];
    check("repeats.csv", &repeats_table(&runs).unwrap(), 1 + runs[0].answers.len());
    check("repeats.csv", &repeats_table(&[]).unwrap(), 0);
}

/// A folder of an earlier version has fewer columns: rows appended to it still read back.
#[test]
fn a_file_keeps_the_columns_that_it_began_with() {
    let run = fixture::found();
    let dir = tempfile::tempdir().unwrap();
    let first = cells_of(&run.steps[0]);
    // Columns of a version before `client_busy`.
    let fewer = first.iter().position(|(name, _)| name == "client_busy").unwrap();
    let names: Vec<&str> = first[..fewer].iter().map(|(name, _)| name.as_str()).collect();
    let cells: Vec<String> = first[..fewer].iter().map(|(_, cell)| format!("\"{cell}\"")).collect();
    let text = format!("{}\n{}\n", names.join(","), cells.join(","));
    fs::write(dir.path().join(STEPS), &text).unwrap();
    append_rows(dir.path(), [run.steps[1].clone()]).unwrap();
    let steps: Vec<Step> = read_rows(dir.path(), &mut Vec::new()).unwrap();
    assert!(fs::read_to_string(dir.path().join(STEPS)).unwrap().starts_with(&text));
    assert_eq!((steps[1].step, steps[1].client_busy, steps.len()), (2, None, 2));
}

#[test]
fn an_error_names_the_file_the_line_and_the_column() {
    let dir = tempfile::tempdir().unwrap();
    let read = |text: &str| {
        fs::write(dir.path().join("checks.csv"), text).unwrap();
        let mut caveats = Vec::new();
        (read_rows::<StepRow<CheckRow>>(dir.path(), &mut caveats), caveats)
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
        worker: Some(3),
        choices: NonZeroU8::new(4),
        decoding: Some(Duration::from_micros(3_061_230)),
        ..Record::due(7, Phase::Measure, Duration::from_nanos(1_234_567_891))
    }
}

fn request(class: &str, record: &Record) -> RequestRow {
    RequestRow { series: "=main".into(), step: 3, class: class.into(), record: record.clone() }
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
    check_columns(REQUESTS, &column_names::<RequestRow>());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(REQUESTS);
    let records = [
        Record { class: 1, ..whole_record() },
        Record { class: 1, ..Record::due(8, Phase::Tail, Duration::ZERO) },
    ];
    append_rows(dir.path(), records.iter().map(|r| request("-chat", r))).unwrap();
    let text = fs::read_to_string(&path).unwrap();
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
    let mut to = RowsWriter::open(dir.path()).unwrap();
    to.add(&mut request("long", &whole_record())).unwrap();
    to.flush().unwrap();
    let text = fs::read_to_string(dir.path().join(REQUESTS)).unwrap();
    assert_eq!(text, format!("{old}failed,'=main,3,measure,long,1234.567891,2000.001,\n"));
    assert_eq!(requests(dir.path())[0].2.end, whole_record().end);
}

/// Writing the rows of a file again gives the file, whichever version began it.
#[test]
fn rows_of_earlier_versions_are_written_byte_for_byte() {
    fn check<T: TableRow>(run: &Path) -> usize {
        let Ok(text) = fs::read_to_string(run.join(T::FILE)) else { return 0 };
        let again = tempfile::tempdir().unwrap();
        let Some(heads) = text.lines().next() else { return 0 };
        fs::write(again.path().join(T::FILE), format!("{heads}\n")).unwrap();
        let rows: Vec<T> = read_rows(run, &mut Vec::new()).unwrap();
        let n = rows.len();
        append_rows(again.path(), rows).unwrap();
        let got = fs::read_to_string(again.path().join(T::FILE)).unwrap();
        assert!(got == text, "{} of {}", T::FILE, run.display());
        n
    }
    use goodput_stats::stats::step::{LimitRow, ServerSide};
    let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/runs");
    for run in ["seats", "tiers"].map(|run| runs.join(run)) {
        assert!(check::<Step>(&run) > 0 && check::<StepRow<LimitRow>>(&run) > 0);
        assert!(check::<RequestRow>(&run) > 0 && check::<StepRow<Bucket>>(&run) > 0);
        check::<StepRow<ServerSide>>(&run);
        check::<StepRow<Group>>(&run);
        check::<StepRow<Sample>>(&run);
        check::<FailureRow>(&run);
    }
}
