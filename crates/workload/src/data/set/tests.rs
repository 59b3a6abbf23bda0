use super::*;
use crate::data::config::*;
use goodput_core::message::Role;
use proptest::prelude::*;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/data").join(name)
}

fn source(format: &str, file: &Path, keys: &str) -> DataSource {
    let text = format!("file = {file:?}\n{keys}");
    let table = toml::Deserializer::parse(&text).unwrap();
    match format {
        "sharegpt" => *sharegpt(table).unwrap(),
        "jsonl" => *jsonl(table).unwrap(),
        "csv" => *csv(table).unwrap(),
        "aiperf" => *aiperf(table).unwrap(),
        _ => *spec_bench(table).unwrap(),
    }
}

fn open(format: &str, name: &str, keys: &str) -> DataSet {
    DataSet::open(&source(format, &fixture(name), keys), Counter::default()).unwrap()
}

/// Opens a set written to a temporary file.
fn open_text(format: &str, text: &str, keys: &str) -> Result<DataSet> {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    DataSet::open(&source(format, file.path(), keys), Counter::default())
}

fn error(format: &str, text: &str, keys: &str) -> String {
    format!("{:#}", open_text(format, text, keys).unwrap_err())
}

const PLAN: &str = "output-tokens = { fixed = 30 }";

/// Cases: format, fixture, keys, title, turns of all samples, and those without a recorded length.
#[test]
fn every_fixture_is_read() {
    for (format, name, keys, title, turns, plan) in [
        ("sharegpt", "sharegpt.json", "", "13 prompts of sharegpt.json (ShareGPT, first turns)", 13, 0),
        (
            "sharegpt",
            "sharegpt.json",
            "turns = \"all\"",
            "13 conversations of sharegpt.json (ShareGPT)",
            17,
            0,
        ),
        ("jsonl", "prompts.jsonl", PLAN, "11 prompts of prompts.jsonl (JSONL)", 11, 5),
        ("jsonl", "alpaca.json", "", "10 prompts of alpaca.json (JSONL)", 10, 0),
        (
            "jsonl",
            "messages.jsonl",
            "fields = { messages = \"request.messages\", output-tokens = \"usage.completion_tokens\" }",
            "10 prompts of messages.jsonl (JSONL)",
            10,
            0,
        ),
        (
            "csv",
            "news.csv",
            "fields = { prompt = \"article\", output = \"highlights\" }",
            "10 prompts of news.csv (CSV)",
            10,
            0,
        ),
        ("aiperf", "single_turn.jsonl", PLAN, "9 prompts of single_turn.jsonl (AIPerf)", 9, 7),
        ("aiperf", "multi_turn.jsonl", PLAN, "3 conversations of multi_turn.jsonl (AIPerf)", 7, 2),
        (
            "aiperf",
            "pool",
            "order = \"random\"\noutput-tokens = { fixed = 9 }",
            "8 prompts of 2 files (AIPerf)",
            8,
            8,
        ),
        (
            "spec-bench",
            "spec_bench.jsonl",
            PLAN,
            "4 prompts of spec_bench.jsonl (Spec-Bench, first turns)",
            4,
            3,
        ),
    ] {
        let set = open(format, name, keys);
        assert_eq!(set.title(), title);
        let s = set.summary();
        assert_eq!((s.turns, s.output_from_plan, s.bad), (turns, plan, 0), "{title}");
        assert_eq!((s.samples, s.input.n), (set.len(), turns), "{title}");
        for id in 0..set.len() {
            let sample = set.get(id).unwrap();
            assert_eq!(sample.id, id);
            let ends_with_user = sample
                .conversation
                .iter()
                .all(|t| t.messages.last().is_some_and(|m| m.role == Role::User && !m.content.is_empty()));
            assert!(ends_with_user, "{title}: {sample:?}");
        }
        assert!(set.get(set.len()).is_err());
    }
}

#[test]
fn samples_have_the_contents_of_the_files() {
    let talks = open("sharegpt", "sharegpt.json", "turns = \"all\"");
    let s = talks.get(4).unwrap();
    assert_eq!(s.conversation[0].messages[0].content, "You are a patient teacher.");
    assert_eq!(s.conversation[0].messages[1].content, "Tell me about how a sundial tells the time.");
    let finnish = talks.get(11).unwrap();
    assert_eq!(finnish.conversation[0].reference.as_deref(), Some("Hyvää huomenta."));
    assert_eq!(finnish.conversation[0].output_tokens, Some(4), "15 characters");
    assert_eq!(talks.summary().nothing, 3);

    let news = open("csv", "news.csv", "fields = { prompt = \"article\", output = \"highlights\" }");
    let second = news.get(1).unwrap();
    assert!(second.conversation[0].messages[0].content.ends_with("disagreed.\nA second paragraph followed."));
    assert_eq!((second.line, news.get(2).unwrap().line), (3, 5));

    let talks = open("aiperf", "multi_turn.jsonl", PLAN);
    let chat_2: Vec<_> = talks.get(1).unwrap().conversation;
    assert_eq!(
        chat_2.iter().map(|t| t.messages[0].content.as_str()).collect::<Vec<_>>(),
        ["Name a grey cat.", "Another.", "One more."]
    );
    assert_eq!(chat_2[1].delay, Some(Duration::from_millis(300)));
    assert_eq!(talks.get(0).unwrap().conversation[0].messages[0].role, Role::System);
}

#[test]
fn the_summary_counts_rows_and_turns() {
    let set = open("sharegpt", "sharegpt.json", "turns = \"all\"\nmax-input-tokens = 35");
    let s = set.summary();
    assert_eq!((s.rows, s.nothing, s.filtered, s.samples), (16, 3, 1, 12));
    assert_eq!((s.turns, s.turns_max, s.input.n, s.exact), (15, 2, 15, false));
    let counted = Counter::Exact(Arc::new(|t| t.split_whitespace().count()));
    let exact = DataSet::open(set.source(), counted.clone()).unwrap();
    assert!(exact.summary().exact && exact.summary().input.n > 0);
    let (a, b) = (set.get(1).unwrap(), set.with_counter(counted).get(1).unwrap());
    assert_eq!((a.conversation[0].output_tokens, b.conversation[0].output_tokens), (Some(14), Some(11)));
}

/// Cases: format, text, and a part of the error message.
#[test]
fn bad_rows_are_reported_with_their_position() {
    let one = "{\"prompt\": \"a\"}\n";
    let good = "{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}, {\"from\": \"gpt\", \"value\": \"b\"}]}";
    for (format, text, message) in [
        ("jsonl", format!("{one}\n{{\"prompt\": 3}}\n"), ", line 3: `prompt` is 3, a text is needed"),
        ("jsonl", format!("{one}{{\"prompt\" 3}}\n"), ", line 2, column 11: invalid JSON: expected `:`"),
        ("jsonl", format!("{one}\u{feff}{one}"), ", line 2, column 1: invalid JSON: expected value"),
        (
            "sharegpt",
            format!("[{good},\n{good},\n\n{{\"a\":\n 1 2}}]"),
            ", element 3, line 5, column 4: invalid JSON",
        ),
        ("sharegpt", format!("[{good},\n{{\"id\": 7}}]"), ", element 2, line 2: `conversations` is missing"),
        (
            "sharegpt",
            format!("[{good},\n{{\"id\": 7"),
            ", element 2, line 2: the file ends inside the element",
        ),
        ("sharegpt", format!("[{good},\n"), ", element 2, line 2: the file ends inside the array"),
        ("csv", "prompt,n\nHi,1\n\"a\nb\",2,3\n".into(), ", line 3: has 3 values, but the header has 2"),
        ("csv", "prompt\nHi\n\"a\n\nb".into(), ", line 3: a quoted value begins on this line"),
    ] {
        let got = error(format, &text, PLAN);
        assert!(got.contains(message) && got.contains("skip-bad-rows = true"), "{text}: {got}");
        let set = open_text(format, &text, &format!("{PLAN}\nskip-bad-rows = true")).unwrap();
        let s = set.summary();
        assert_eq!((s.bad, s.bad_rows.len()), (1, 1), "{text}");
        assert!(s.samples >= 1 && s.bad_rows[0].to_string().contains(message), "{text}");
    }
}

#[test]
fn unusable_sets_are_rejected() {
    for (format, keys, text, message) in [
        ("jsonl", PLAN, "", "nothing to send: 0 rows"),
        ("csv", PLAN, "", "is empty: the first line must name the columns"),
        ("csv", PLAN, "prompt\n", "nothing to send: 0 rows"),
        ("csv", "fields.prompt = \"question\"", "prompt\nHi", "line 1: there is no column \"question\""),
        ("sharegpt", "", "[]", "nothing to send: 0 rows"),
        (
            "jsonl",
            "output-tokens.fixed = 3\nmin-input-tokens = 900",
            "{\"prompt\": \"a\"}",
            "1 outside the length limits",
        ),
        ("jsonl", "output-tokens.fixed = 3\nskip-bad-rows = true", "a\nb", "2 bad, 0 with nothing to send"),
        (
            "jsonl",
            "output-tokens.fixed = 3\nfields.output = \"anwser\"",
            "{\"prompt\": \"a\", \"answer\": \"b\"}",
            "fields.output = \"anwser\": no row has this field",
        ),
    ] {
        let got = error(format, text, keys);
        assert!(got.contains(message), "{text}: {got}");
    }
    let none = DataSet::open(&source("jsonl", Path::new("/nowhere/x.jsonl"), ""), Counter::default());
    assert!(format!("{:#}", none.unwrap_err()).contains("cannot open /nowhere/x.jsonl"));
}

#[test]
fn rows_of_a_session_form_a_conversation() {
    let text = "id,q,n,wait\nx,a,3,\ny,b,4,\nx,c,5,2500\n";
    let keys = "fields = { session = \"id\", prompt = \"q\", output-tokens = \"n\", delay = \"wait\" }";
    let set = open_text("csv", text, keys).unwrap();
    assert_eq!((set.len(), set.summary().turns, set.summary().turns_max), (2, 3, 2));
    let x = set.get(0).unwrap().conversation;
    assert_eq!((x[1].messages[0].content.as_str(), x[1].output_tokens), ("c", Some(5)));
    assert_eq!(x[1].delay, Some(Duration::from_millis(2500)));
    let first = open_text("csv", text, &format!("{keys}\nturns = \"first\"")).unwrap();
    assert_eq!((first.len(), first.summary().turns), (2, 2));
    let long = open_text("csv", text, &format!("{keys}\nmax-output-tokens = 4")).unwrap();
    assert_eq!((long.len(), long.summary().filtered, long.get(0).unwrap().line), (1, 1, 3));
    // A conversation without an answer length is bad as a whole, and reported at its first row.
    let got = error(
        "csv",
        "id,q,n\nx,a,3\ny,b,\n",
        "fields = { session = \"id\", prompt = \"q\", output-tokens = \"n\" }",
    );
    assert!(got.contains("line 3: has no answer length"), "{got}");
}

#[test]
fn a_file_that_changed_is_an_error() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "{\"prompt\": \"a\"}\n{\"prompt\": \"b\"}\n").unwrap();
    let set = DataSet::open(&source("jsonl", file.path(), PLAN), Counter::default()).unwrap();
    fs::write(file.path(), "{\"prompt\": \"a\"}\n{\"prom").unwrap();
    assert!(set.get(0).is_ok());
    assert!(format!("{:#}", set.get(1).unwrap_err()).starts_with("line 2: has the file changed"));
}

#[test]
fn memory_is_limited_to_the_index() {
    let mut text = String::new();
    for i in 0..200_000 {
        writeln!(
            text,
            "{{\"prompt\": \"number {i} of very many prompts\", \"output_tokens\": {}}}",
            1 + i % 400
        )
        .unwrap();
    }
    let set = open_text("jsonl", &text, "").unwrap();
    assert_eq!((set.len(), set.index_bytes()), (200_000, 200_000 * 16));
    let prompt = |id| set.get(id).unwrap().conversation[0].messages[0].content.clone();
    assert_eq!(prompt(123_456), "number 123456 of very many prompts");
    assert!((set.summary().output.mean - 200.5).abs() < 0.5, "{}", set.summary().output);
    // Several threads read at once, each in another order.
    std::thread::scope(|scope| {
        for k in 0..3 {
            let set = set.clone();
            scope.spawn(move || {
                for id in set.order([k; 32]).take(50) {
                    assert!(
                        set.get(id).unwrap().conversation[0].messages[0].content.contains(&id.to_string())
                    );
                }
            });
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Rows written by csv and serde_json are read back unchanged.
    #[test]
    fn rows_round_trip(
        rows in proptest::collection::vec(("\\PC{0,20}[a-z\"\n,;]{1,6}\\PC{0,9}", 1u32..5000), 1..20), bom: bool,
    ) {
        // A blank prompt is an error, and a lone carriage return does not end a line.
        let rows: Vec<_> = rows.into_iter().filter(|(p, _)| !p.trim().is_empty() && !p.contains('\r')).collect();
        prop_assume!(!rows.is_empty());
        let mark = if bom { "\u{feff}" } else { "" };
        let mut lines = mark.to_owned();
        let mut csv = csv::Writer::from_writer(mark.as_bytes().to_vec());
        csv.write_record(["prompt", "output_tokens"]).unwrap();
        let mut array = Vec::new();
        for (prompt, n) in &rows {
            let row = serde_json::json!({ "prompt": prompt, "output_tokens": n });
            writeln!(lines, "{row}").unwrap();
            array.push(row);
            csv.write_record([prompt, &n.to_string()]).unwrap();
        }
        let csv = String::from_utf8(csv.into_inner().unwrap()).unwrap();
        let array = format!("{mark}{}", serde_json::to_string_pretty(&array).unwrap());
        for (format, text) in [("jsonl", lines), ("jsonl", array), ("csv", csv)] {
            let set = open_text(format, &text, "").unwrap();
            prop_assert_eq!(set.len(), rows.len() as u64);
            for (id, (prompt, n)) in rows.iter().enumerate() {
                let turn = set.get(id as u64).unwrap().conversation.remove(0);
                prop_assert_eq!(&turn.messages[0].content, prompt);
                prop_assert_eq!(turn.output_tokens, Some(*n));
            }
        }
    }
}
