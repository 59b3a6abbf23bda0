use super::*;
use crate::units::Span;
use proptest::prelude::*;
use std::fs;
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> TraceSource {
    TraceSource::of(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/traces").join(name))
}

fn open(source: &TraceSource) -> Trace {
    Trace::describe(source, None).unwrap()
}

fn error(source: &TraceSource) -> String {
    format!("{:#}", Trace::open(source).unwrap_err())
}

fn rows(trace: &Trace) -> Vec<TraceRow> {
    trace.replay().take(trace.summary().rows as usize).map(|r| r.row).collect()
}

/// A file of its own folder, which goes when the first is dropped.
fn file(name: &str, text: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    fs::write(&path, text).unwrap();
    (dir, path)
}

fn with(source: TraceSource, toml: &str) -> TraceSource {
    let path = source.file.to_str().unwrap().replace('\\', "/");
    toml::from_str(&format!("file = \"{path}\"\n{toml}")).unwrap()
}

/// Row: fixture, what else is said, format, requests, failures, tokens of a block, conversations.
#[test]
fn every_format_is_told_from_its_first_row() {
    let csv = "unit = \"ms\"\ncolumns = { timestamp = \"when\", input-tokens = \"prompt_len\", \
               output-tokens = \"gen_len\", session = \"user\", failed = \"err\" }";
    let jsonl = "columns = { timestamp = \"ts\", input-tokens = \"prompt_tokens\", output-tokens = \"output_tokens\" }";
    for (name, said, format, n, failures, block, sessions) in [
        ("mooncake.jsonl", "", Format::Mooncake, 36, 0, Some(512), false),
        ("aiperf.jsonl", "", Format::Mooncake, 24, 0, Some(512), false),
        ("azure-2023.csv", "", Format::Azure, 30, 0, None, false),
        ("azure-2024.csv", "", Format::Azure, 30, 0, None, false),
        ("azure-2025.csv.gz", "", Format::Azure, 30, 0, None, false),
        ("burstgpt-1.csv", "", Format::Burstgpt, 29, 3, None, false),
        ("burstgpt-3.csv", "", Format::Burstgpt, 28, 2, None, true),
        ("vllm.jsonl.zst", "", Format::Vllm, 30, 0, Some(16), true),
        ("weka.jsonl", "", Format::Weka, 30, 0, Some(64), true),
        ("copilot.jsonl.gz", "", Format::Copilot, 44, 1, None, true),
        ("generic.csv", csv, Format::Csv, 23, 2, None, true),
        ("generic.jsonl", jsonl, Format::Jsonl, 25, 0, None, false),
        ("requests.jsonl", "", Format::Requests, 24, 0, None, true),
    ] {
        let trace = open(&with(fixture(name), said));
        let s = trace.summary();
        assert_eq!((trace.format(), s.rows, s.failures), (format, n, failures), "{name}");
        assert_eq!((trace.block_tokens(), s.sessions.is_some()), (block, sessions), "{name}");
        let rows = rows(&trace);
        assert_eq!(rows[0].at, Duration::ZERO, "{name}: the first row is time 0");
        assert!(rows.is_sorted_by_key(|r| r.at), "{name}");
        let last = rows[rows.len() - 1].at.as_secs_f64();
        assert!((last - s.span_s).abs() < 1e-6 && (2.0..900.0).contains(&last), "{name}: {last}");
        assert!(trace.title().contains(format.name()), "{}", trace.title());
    }
}

#[test]
fn rows_are_read_as_they_stand() {
    let trace = open(&fixture("azure-2023.csv"));
    let text = fs::read_to_string(&trace.source().file).unwrap();
    let second: Vec<&str> = text.lines().nth(2).unwrap().split(',').collect();
    let row = &rows(&trace)[1];
    assert_eq!(
        (row.input_tokens.to_string(), row.output_tokens.unwrap().to_string()),
        (second[1].into(), second[2].into())
    );
    assert_eq!(row.at.as_nanos() % 1_000_000_000 % 100, 0, "seven digits of a second");
    let mooncake = rows(&open(&fixture("mooncake.jsonl")));
    assert_eq!(mooncake[0].blocks[..3], [0, 1, 2]);
    let weka = rows(&open(&fixture("weka.jsonl")));
    let (a, b) = (&weka[0], weka.iter().find(|r| r.session != weka[0].session).unwrap());
    assert_ne!(a.blocks[0], b.blocks[0], "block 1 of one conversation is not that of another");
}

#[test]
fn sessions_of_agents_are_sorted_by_their_calls() {
    let trace = open(&fixture("copilot.jsonl.gz"));
    let s = trace.summary();
    assert!(s.out_of_order > 10 && s.out_of_order_s > 20.0, "{} {}", s.out_of_order, s.out_of_order_s);
    assert_eq!(s.sessions, Some(6));
    assert!((s.recorded_cached.unwrap() - 0.85).abs() < 0.01);
    assert!(trace.prefix_note().contains("generator's choice") && trace.prefix_note().contains("85 %"));
    let third = trace.replay().nth(2).unwrap();
    let mut replay = trace.replay();
    replay.by_ref().take(2).for_each(drop);
    assert_eq!(replay.clone().next(), Some(third), "sorted rows are replayed as well");
}

/// Row: file name, text, what else is said, and what the error says.
#[test]
fn bad_rows_are_named_by_line_and_field() {
    let mooncake = "{\"timestamp\":0,\"input_length\":600,\"output_length\":5,\"hash_ids\":[0,1]}\n";
    let azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n";
    let burst = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n";
    for (name, text, says) in [
        (
            "a.jsonl",
            format!("{mooncake}\n{{\"timestamp\":1,\"input_length\":-3}}"),
            "line 3, input_length: \"-3\" is no",
        ),
        (
            "a.jsonl",
            format!("{mooncake}{{\"timestamp\":1,\"input_length\":0}}"),
            "line 2, input_length: is 0",
        ),
        ("a.jsonl", format!("{mooncake}{{\"timestamp\":1}}"), "line 2, input_length: is missing"),
        ("a.jsonl", format!("{mooncake}{{\"input_length\":1}}"), "line 2, timestamp: is missing"),
        ("a.jsonl", format!("{mooncake}{{\"timestamp\":1,"), "line 2: is no such JSON object at column"),
        ("a.jsonl", format!("{mooncake}[1]"), "line 2: is no such JSON object"),
        ("a.jsonl", format!("{mooncake}{{\"timestamp\":1,\"input_length\":1}} x"), "line 2: is no such JSON"),
        (
            "a.jsonl",
            format!("{mooncake}{{\"timestamp\":1,\"input_length\":9,\"hash_ids\":[1,2,3]}}"),
            "line 2, hash_ids: 3 blocks of 512 tokens hold more than the 9 tokens",
        ),
        (
            "a.jsonl",
            format!("{mooncake}{{\"timestamp\":1,\"input_length\":9,\"hash_ids\":[\"a\"]}}"),
            "no list of whole",
        ),
        (
            "a.jsonl",
            format!("{mooncake}{{\"timestamp\":1,\"input_length\":9,\"output_length\":1.5}}"),
            "output_length: \"1.5\"",
        ),
        ("a.csv", format!("{azure}2023-11-16 18:15:50,396"), "line 3: has 2 cells where the head has 3"),
        ("a.csv", format!("{azure}2023-11-16 18:15:50,396,"), "line 3, GeneratedTokens: is missing"),
        ("a.csv", format!("{azure}yesterday,396,1"), "line 3, TIMESTAMP: \"yesterday\" is no time"),
        ("a.csv", format!("{azure}2023-11-16 18:15:50,396,0"), "is it a failed request"),
        (
            "a.csv",
            format!("{burst}5,ChatGPT,x,18,490,Conversation log"),
            "line 2, Request tokens: \"x\" is no number",
        ),
    ] {
        let (_dir, path) = file(name, &text);
        let said = error(&TraceSource::of(&path));
        assert!(
            said.contains(says) && said.contains(name) && said.contains("skip-bad-rows"),
            "{text}: {said}"
        );
    }
}

/// Row: text, what else is said, and what the error says.
#[test]
fn files_that_are_no_traces_are_refused_with_what_to_do() {
    let one = "{\"timestamp\":0,\"input_length\":6,\"output_length\":5}";
    for (text, said, says) in [
        ("", "", "holds no rows"),
        ("\n\n", "", "holds no rows"),
        ("a,b,c\n1,2,3", "", "cannot be told from the first row (a, b, c); set the format (mooncake, azure"),
        ("{\"a\":1}", "", "cannot be told"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n", "", "holds no requests"),
        (
            "a,b\n1,2",
            "format = \"mooncake\"",
            "its first line is no JSON object, not one, as mooncake has it",
        ),
        (one, "format = \"azure\"", "not the head of a CSV"),
        ("a,b\n1,2", "columns = { timestamp = \"a\", input-tokens = \"c\" }", "no column c; there are a, b"),
        (
            "a,b\n1,2",
            "columns = { timestamp = \"a\", input-tokens = \"b\", output-tokens = \"c\" }",
            "no column c",
        ),
        (
            "a,b\n1,2",
            "columns = { timestamp = \"a\", input-tokens = \"b\" }",
            "do not tell the length of their answer",
        ),
        ("{\"id\":1,\"requests\":[]}", "", "a whole conversation"),
        (one, "window = { from = \"1s\" }", "the window holds no requests"),
        (
            "{\"timestamp\":0,\"input_length\":6,\"output_length\":5}\n{\"timestamp\":8e12,\"input_length\":6,\"output_length\":5}",
            "",
            "more than a century",
        ),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,1,1", "unit = \"ms\"", "are dates"),
        ("Timestamp,Model,Request tokens,Response tokens\n1,a,1,0", "", "1 failed where they were recorded"),
    ] {
        let (_dir, path) = file("trace", text);
        let error = error(&with(TraceSource::of(&path), said));
        assert!(error.contains(says) && error.contains("trace"), "{text}: {error}");
    }
    assert!(error(&TraceSource::of("/nowhere/trace.csv")).contains("cannot open /nowhere/trace.csv"));
}

#[test]
fn bad_rows_can_be_skipped_and_are_counted() {
    let row = |t: u32| format!("{{\"timestamp\":{t},\"input_length\":6,\"output_length\":5}}\n");
    let text = format!(
        "{}not json\n{}{}",
        row(0),
        "{\"timestamp\":\"x\",\"input_length\":6}\n".repeat(9),
        row(1000)
    );
    let (_dir, path) = file("a.jsonl", &text);
    let trace = open(&with(TraceSource::of(&path), "skip-bad-rows = true"));
    let s = trace.summary();
    assert_eq!((s.rows, s.bad_rows, s.first_bad_rows.len()), (2, 10, 5));
    assert_eq!((s.first_bad_rows[0].line, s.first_bad_rows[1].field.as_str()), (2, "timestamp"));
    assert_eq!(trace.replay().take(4).count(), 4, "they are skipped in every round");
}

#[test]
fn a_row_may_stay_long_and_a_quote_open() {
    let open = format!("TIMESTAMP,ContextTokens,GeneratedTokens\n\"{}", "x".repeat(20 << 20));
    let (_dir, path) = file("a.csv", &open);
    assert!(error(&TraceSource::of(&path)).contains("is a quote not closed"));
}

#[test]
fn replays_begin_anew_and_keep_the_rate() {
    let text: String = [0, 1000, 4000]
        .map(|t| format!("{{\"timestamp\":{t},\"input_length\":6,\"output_length\":5}}\n"))
        .concat();
    let (_dir, path) = file("a.jsonl", &text);
    let trace = Trace::open(&TraceSource::of(&path)).unwrap();
    assert_eq!(trace.period(), Duration::from_secs(6), "four seconds and a mean gap of two");
    assert!((trace.summary().rate - 0.5).abs() < 1e-12);
    let times: Vec<(u32, u64)> = trace.replay().take(7).map(|r| (r.round, r.row.at.as_secs())).collect();
    assert_eq!(times, [(0, 0), (0, 1), (0, 4), (1, 6), (1, 7), (1, 10), (2, 12)]);
    let single = with(TraceSource::of(&path), "window = { from = \"3s\" }");
    let times: Vec<u64> =
        Trace::open(&single).unwrap().replay().take(3).map(|r| r.row.at.as_secs()).collect();
    assert_eq!(times, [0, 1, 2], "one request comes every second");
}

#[test]
fn a_clone_goes_on_where_it_was_taken() {
    let trace = Trace::open(&fixture("mooncake.jsonl")).unwrap();
    for at in [0, 1, 35, 36, 50] {
        let mut replay = trace.replay();
        replay.by_ref().take(at).for_each(drop);
        let cloned: Vec<Replayed> = replay.clone().take(40).collect();
        assert_eq!(cloned, replay.take(40).collect::<Vec<_>>(), "after {at}");
    }
    fn sendable(_: impl Send + Clone) {}
    sendable(trace.replay());
}

#[test]
fn windows_are_counted_from_the_first_row() {
    let all = rows(&open(&fixture("mooncake.jsonl")));
    let source = TraceSource {
        window: Some(Window::new(Some(Span::secs(6)), Some(Span::secs(15))).unwrap()),
        ..fixture("mooncake.jsonl")
    };
    let trace = Trace::open(&source).unwrap();
    let want: Vec<&TraceRow> = all.iter().filter(|r| (6..15).contains(&r.at.as_secs())).collect();
    let got = rows(&trace);
    assert_eq!((trace.summary().rows, trace.summary().rows_in_file), (want.len() as u64, 36));
    assert!(got.iter().zip(&want).all(|(g, w)| g.blocks == w.blocks && g.at + want[0].at == w.at));
    assert_eq!(
        trace.replay().nth(want.len()).map(|r| (r.round, r.row.blocks)),
        Some((1, want[0].blocks.clone()))
    );
    assert!(trace.title().contains("in a window"), "{}", trace.title());
}

#[test]
fn a_file_that_changes_ends_the_replay_with_a_reason() {
    let row = "{\"timestamp\":0,\"input_length\":6,\"output_length\":5}\n";
    let (_dir, path) = file("a.jsonl", &row.repeat(3));
    let trace = Trace::open(&TraceSource::of(&path)).unwrap();
    let mut replay = trace.replay();
    replay.next().unwrap();
    fs::write(&path, row).unwrap();
    let mut other = replay.clone();
    assert!(other.next().is_none() && other.next().is_none());
    assert!(format!("{:#}", other.error().unwrap()).contains("was changed"));
    fs::remove_file(&path).unwrap();
    let mut third = replay.clone();
    assert!(third.next().is_none() && format!("{:#}", third.error().unwrap()).contains("cannot open"));
}

#[test]
fn what_prefixes_tell_is_said() {
    let mooncake = open(&fixture("mooncake.jsonl"));
    assert_eq!(
        mooncake.title(),
        "36 requests of mooncake.jsonl (mooncake), 27 s, prefix blocks of 512 tokens"
    );
    let p = mooncake.summary().prefix.unwrap();
    assert!(p.repetition > 0.5 && p.repetition < 0.9 && p.covered > 0.999, "{p:?}");
    assert!(mooncake.prefix_note().contains("a cache that forgets nothing would hold"));
    let some = open(&fixture("aiperf.jsonl"));
    assert!(some.prefix_note().contains("have no identity"), "{}", some.prefix_note());
    let none = open(&fixture("azure-2023.csv"));
    assert!(none.prefix_note().contains("the cache hit rate of a replay is the generator's choice"));
}

#[test]
fn anonymised_traces_read_back_and_hold_no_text() {
    let dir = tempfile::tempdir().unwrap();
    let (plain, packed) = (dir.path().join("out.jsonl"), dir.path().join("out.jsonl.gz"));
    for name in ["mooncake.jsonl", "azure-2023.csv", "copilot.jsonl.gz", "aiperf.jsonl"] {
        let trace = open(&fixture(name));
        for out in [&plain, &packed] {
            anonymise(&trace, None, out).unwrap();
            let again = open(&TraceSource::of(out));
            let bare = |t: &Trace| {
                rows(t).into_iter().map(|r| (r.at, r.input_tokens, r.output_tokens)).collect::<Vec<_>>()
            };
            assert_eq!(bare(&again), bare(&trace), "{name}");
            assert_eq!(
                (again.format(), again.summary().sessions, again.block_tokens()),
                (Format::Jsonl, None, None)
            );
        }
    }
    let hashing = Hashing::new(512, b"salt");
    let trace = open(&fixture("mooncake.jsonl"));
    anonymise(&trace, Some(&hashing), &plain).unwrap();
    let again = open(&TraceSource::of(&plain));
    assert_eq!(again.summary().prefix, trace.summary().prefix, "who begins like whom is kept");
    assert_ne!(rows(&again)[0].blocks, rows(&trace)[0].blocks, "under other names");
    let refused = |hashing: &Hashing, trace: &Trace, out: &Path| {
        format!("{:#}", anonymise(trace, Some(hashing), out).unwrap_err())
    };
    assert!(refused(&Hashing::new(16, b""), &trace, &plain).contains("--prefix-blocks 512"));
    assert!(refused(&hashing, &open(&fixture("azure-2023.csv")), &plain).contains("no text"));
    let own = format!("{:#}", anonymise(&again, None, &plain).unwrap_err());
    assert!(own.contains("is the trace itself"), "{own}");
}

#[test]
fn logs_of_requests_keep_their_prefixes_only() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.jsonl");
    let hashing = Hashing::new(16, b"pepper");
    let trace = Trace::describe(&fixture("requests.jsonl"), Some(hashing.clone())).unwrap();
    assert_eq!((trace.summary().estimated, trace.summary().rows), (12, 24));
    anonymise(&trace, Some(&hashing), &out).unwrap();
    let text = fs::read_to_string(&out).unwrap();
    for word in ["garden", "carrots", "shop", "example", "system", "1765", "2025", "time\"", "customer"] {
        assert!(!text.contains(word), "{word} is text of the log");
    }
    let keys = ["timestamp", "unit", "input_length", "output_length", "block_tokens", "hash_ids"];
    for line in text.lines() {
        let row: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).unwrap();
        assert!(row.keys().all(|k| keys.contains(&k.as_str())), "{line}");
        assert!(row.iter().all(|(k, v)| k == "unit" || v.is_number() || v.is_array()), "{line}");
    }
    let again = open(&TraceSource::of(&out));
    assert_eq!(again.block_tokens(), Some(16));
    assert!(
        again.summary().prefix.unwrap().repetition > 0.5,
        "one system prompt for all: {:?}",
        again.summary().prefix
    );
    assert_eq!(
        rows(&again),
        rows(&trace).into_iter().map(|r| TraceRow { session: None, ..r }).collect::<Vec<_>>()
    );
}

#[derive(Debug, Clone)]
struct Made {
    at: u32,
    input: u32,
    output: Option<u32>,
    blocks: usize,
}

fn made() -> impl Strategy<Value = Vec<Made>> {
    let row = (0..100_000u32, 1..9_000u32, proptest::option::weighted(0.8, 1..2_000u32), 0..18usize);
    let row = row.prop_map(|(at, input, output, blocks)| Made {
        at,
        input,
        output,
        blocks: blocks.min(input.div_ceil(512) as usize),
    });
    proptest::collection::vec(row, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// What is written as JSONL or as CSV, in any order, reads back in the order of time.
    #[test]
    fn traces_read_back_as_written(rows in made(), csv in any::<bool>()) {
        let text = if csv {
            let line = |r: &Made| {
                let ids: Vec<String> = (0..r.blocks).map(|b| b.to_string()).collect();
                format!("{},{},{},\"[{}]\"\n", r.at, r.input, r.output.map(|n| n.to_string()).unwrap_or_default(), ids.join(", "))
            };
            format!("timestamp,input_length,output_length,hash_ids\n{}", rows.iter().map(line).collect::<String>())
        } else {
            let line = |r: &Made| {
                let output = r.output.map(|n| format!(",\"output_length\":{n}")).unwrap_or_default();
                let ids: Vec<usize> = (0..r.blocks).collect();
                format!("{{\"x\":{{\"timestamp\":3}},\"hash_ids\":{ids:?},\"input_length\":{}{output},\"timestamp\":\"{}\"}}\n", r.input, r.at)
            };
            rows.iter().map(line).collect()
        };
        let (_dir, path) = file("trace", &text);
        let said = if csv { "format = \"csv\"\nunit = \"ms\"" } else { "format = \"mooncake\"" };
        let trace = open(&with(TraceSource::of(&path), said));
        let mut want = rows;
        want.sort_by_key(|r| r.at);
        let got = self::rows(&trace);
        prop_assert_eq!(got.len(), want.len());
        for (g, w) in got.iter().zip(&want) {
            prop_assert_eq!(g.at, Duration::from_millis(u64::from(w.at - want[0].at)));
            prop_assert_eq!((g.input_tokens, g.output_tokens, g.blocks.len()), (w.input, w.output, w.blocks));
        }
    }

    /// Whatever stands in a file, it is read or refused.
    #[test]
    fn no_file_panics(head in "(TIMESTAMP,ContextTokens,GeneratedTokens\n|\\{\"timestamp\":0,\"input_length\":3\\}\n|)", tail in "[\\PC\n\"{},:0-9]{0,200}", skip in any::<bool>()) {
        let (_dir, path) = file("trace", &format!("{head}{tail}"));
        let _ = Trace::open(&TraceSource { skip_bad_rows: skip, ..TraceSource::of(&path) });
    }
}
