use super::*;
use goodput_core::units::Span;
use proptest::prelude::*;
use std::fs;
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> TraceSource {
    TraceSource::of(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/traces").join(name))
}

fn open_for_rewrite(source: &TraceSource) -> Trace {
    Trace::open_for_rewrite(source, None).unwrap()
}

fn error(source: &TraceSource) -> String {
    format!("{:#}", Trace::open(source).unwrap_err())
}

fn rows(trace: &Trace) -> Vec<TraceRow> {
    trace.replay(Begin::First).take(trace.summary().arrivals() as usize).map(|r| r.row).collect()
}

/// Writes a file in its own temporary directory, which is deleted when the guard is dropped.
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

/// Cases: fixture, settings, format, requests, failures, tokens per block, conversations.
#[test]
fn formats_are_recognised_from_the_first_row() {
    let csv = "unit = \"ms\"\ncolumns = { timestamp = \"when\", input-tokens = \"prompt_len\", \
               output-tokens = \"gen_len\", session = \"user\", failed = \"err\" }";
    let jsonl = "columns = { timestamp = \"ts\", input-tokens = \"prompt_tokens\", output-tokens = \"output_tokens\" }";
    for (name, settings, format, n, failures, block, sessions) in [
        ("mooncake.jsonl", "", Format::Mooncake, 36, 0, Some(512), false),
        ("aiperf.jsonl", "", Format::Mooncake, 24, 0, Some(512), false),
        ("aiperf-sessions.jsonl", "", Format::Mooncake, 24, 0, Some(512), true),
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
        let trace = open_for_rewrite(&with(fixture(name), settings));
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
fn rows_have_the_recorded_values() {
    let trace = open_for_rewrite(&fixture("azure-2023.csv"));
    let text = fs::read_to_string(&trace.source().file).unwrap();
    let second: Vec<&str> = text.lines().nth(2).unwrap().split(',').collect();
    let row = &rows(&trace)[1];
    assert_eq!(
        (row.input_tokens.to_string(), row.output_tokens.unwrap().to_string()),
        (second[1].into(), second[2].into())
    );
    assert_eq!(row.at.as_nanos() % 1_000_000_000 % 100, 0, "seven digits of a second");
    let mooncake = rows(&open_for_rewrite(&fixture("mooncake.jsonl")));
    assert_eq!(mooncake[0].blocks[..3], [0, 1, 2]);
    let weka = rows(&open_for_rewrite(&fixture("weka.jsonl")));
    let (a, b) = (&weka[0], weka.iter().find(|r| r.session != weka[0].session).unwrap());
    assert_ne!(a.blocks[0], b.blocks[0], "block 1 of one conversation differs from that of another");
}

#[test]
fn agent_sessions_are_sorted_by_call() {
    let trace = open_for_rewrite(&fixture("copilot.jsonl.gz"));
    let s = trace.summary();
    assert!(s.out_of_order > 10 && s.out_of_order_s > 20.0, "{} {}", s.out_of_order, s.out_of_order_s);
    assert_eq!(s.sessions, Some(6));
    assert!((s.recorded_cached.unwrap() - 0.85).abs() < 0.01);
    assert!(trace.prefix_note().contains("generator's choice") && trace.prefix_note().contains("85 %"));
    let third = trace.replay(Begin::First).nth(2).unwrap();
    let mut replay = trace.replay(Begin::First);
    replay.by_ref().take(2).for_each(drop);
    assert_eq!(replay.clone().next(), Some(third), "sorted rows are replayed as well");
}

/// Cases: file name, text, and a part of the error message.
#[test]
fn bad_rows_are_reported_by_line_and_field() {
    let mooncake = "{\"timestamp\":0,\"input_length\":600,\"output_length\":5,\"hash_ids\":[0,1]}\n";
    let azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n";
    let burst = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n";
    for (name, text, message) in [
        (
            "a.jsonl",
            format!("{mooncake}\n{{\"timestamp\":1,\"input_length\":-3}}"),
            "line 3, input_length: \"-3\" is not",
        ),
        (
            "a.jsonl",
            format!("{mooncake}{{\"timestamp\":1,\"input_length\":0}}"),
            "line 2, input_length: is 0",
        ),
        ("a.jsonl", format!("{mooncake}{{\"timestamp\":1}}"), "line 2, input_length: is missing"),
        ("a.jsonl", format!("{mooncake}{{\"input_length\":1}}"), "line 2, timestamp: is missing"),
        ("a.jsonl", format!("{mooncake}{{\"timestamp\":1,"), "line 2: is not a valid JSON object at column"),
        ("a.jsonl", format!("{mooncake}[1]"), "line 2: is not a valid JSON object"),
        (
            "a.jsonl",
            format!("{mooncake}{{\"timestamp\":1,\"input_length\":1}} x"),
            "line 2: is not a valid JSON",
        ),
        (
            "a.jsonl",
            format!("{mooncake}{{\"timestamp\":1,\"input_length\":9,\"hash_ids\":[1,2,3]}}"),
            "line 2, hash_ids: 3 blocks of 512 tokens hold more than the 9 tokens",
        ),
        (
            "a.jsonl",
            format!("{mooncake}{{\"timestamp\":1,\"input_length\":9,\"hash_ids\":[\"a\"]}}"),
            "not a list of whole",
        ),
        (
            "a.jsonl",
            format!("{mooncake}{{\"timestamp\":1,\"input_length\":9,\"output_length\":1.5}}"),
            "output_length: \"1.5\"",
        ),
        ("a.csv", format!("{azure}2023-11-16 18:15:50,396"), "line 3: has 2 cells, but the header has 3"),
        ("a.csv", format!("{azure}2023-11-16 18:15:50,396,"), "line 3, GeneratedTokens: is missing"),
        ("a.csv", format!("{azure}yesterday,396,1"), "line 3, TIMESTAMP: \"yesterday\" is not a time"),
        ("a.csv", format!("{azure}2023-11-16 18:15:50,396,0"), "did the request fail"),
        (
            "a.csv",
            format!("{burst}5,ChatGPT,x,18,490,Conversation log"),
            "line 2, Request tokens: \"x\" is not a number",
        ),
    ] {
        let (_dir, path) = file(name, &text);
        let error = error(&TraceSource::of(&path));
        assert!(
            error.contains(message) && error.contains(name) && error.contains("skip-bad-rows"),
            "{text}: {error}"
        );
    }
}

/// Cases: text, settings, and a part of the error message.
#[test]
fn unusable_files_are_rejected_with_advice() {
    let one = "{\"timestamp\":0,\"input_length\":6,\"output_length\":5}";
    for (text, settings, message) in [
        ("", "", "contains no rows"),
        ("\n\n", "", "contains no rows"),
        (
            "a,b,c\n1,2,3",
            "",
            "is not recognised from the first row (a, b, c); set the format (mooncake, azure",
        ),
        ("{\"a\":1}", "", "is not recognised"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n", "", "contains no requests"),
        ("a,b\n1,2", "format = \"mooncake\"", "its first line is not a JSON object, but mooncake is JSONL"),
        (one, "format = \"azure\"", "its first line is a JSON object, but azure is CSV with a header"),
        (
            "a,b\n1,2",
            "columns = { timestamp = \"a\", input-tokens = \"c\" }",
            "no column c; the columns are a, b",
        ),
        (
            "a,b\n1,2",
            "columns = { timestamp = \"a\", input-tokens = \"b\", output-tokens = \"c\" }",
            "no column c",
        ),
        ("a,b\n1,2", "columns = { timestamp = \"a\", input-tokens = \"b\" }", "have no answer length"),
        ("{\"id\":1,\"requests\":[]}", "", "a whole conversation"),
        ("{\"spans\":[],\"name\":\"x\"}", "", "OpenTelemetry spans are not supported"),
        (one, "window = { from = \"1s\" }", "the window contains no requests"),
        (
            "{\"timestamp\":0,\"input_length\":6,\"output_length\":5}\n{\"timestamp\":8e12,\"input_length\":6,\"output_length\":5}",
            "",
            "more than a century",
        ),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,1,1", "unit = \"ms\"", "are dates"),
        ("Timestamp,Model,Request tokens,Response tokens\n1,a,1,0", "", "1 had failed when recorded"),
    ] {
        let (_dir, path) = file("trace", text);
        let error = error(&with(TraceSource::of(&path), settings));
        assert!(error.contains(message) && error.contains("trace"), "{text}: {error}");
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
    let trace = open_for_rewrite(&with(TraceSource::of(&path), "skip-bad-rows = true"));
    let s = trace.summary();
    assert_eq!((s.rows, s.bad_rows, s.first_bad_rows.len()), (2, 10, 5));
    assert_eq!((s.first_bad_rows[0].line, s.first_bad_rows[1].field.as_str()), (2, "timestamp"));
    assert_eq!(trace.replay(Begin::First).take(4).count(), 4, "skipped in every round");
}

#[test]
fn an_unclosed_quote_is_an_error() {
    let open = format!("TIMESTAMP,ContextTokens,GeneratedTokens\n\"{}", "x".repeat(20 << 20));
    let (_dir, path) = file("a.csv", &open);
    assert!(
        error(&TraceSource::of(&path))
            .contains("line 2: a quoted value begins on this line and is never closed")
    );
}

#[test]
fn replays_repeat_and_preserve_the_rate() {
    let text: String = [0, 1000, 4000]
        .map(|t| format!("{{\"timestamp\":{t},\"input_length\":6,\"output_length\":5}}\n"))
        .concat();
    let (_dir, path) = file("a.jsonl", &text);
    let trace = Trace::open(&TraceSource::of(&path)).unwrap();
    assert_eq!(trace.period(), Duration::from_secs(6), "four seconds and a mean gap of two");
    assert!((trace.summary().rate - 0.5).abs() < 1e-12);
    let times: Vec<(u32, u64)> =
        trace.replay(Begin::First).take(7).map(|r| (r.round, r.row.at.as_secs())).collect();
    assert_eq!(times, [(0, 0), (0, 1), (0, 4), (1, 6), (1, 7), (1, 10), (2, 12)]);
    let single = with(TraceSource::of(&path), "window = { from = \"3s\" }");
    let times: Vec<u64> =
        Trace::open(&single).unwrap().replay(Begin::First).take(3).map(|r| r.row.at.as_secs()).collect();
    assert_eq!(times, [0, 1, 2], "one request comes every second");
}

#[test]
fn a_clone_continues_at_the_same_request() {
    let trace = Trace::open(&fixture("mooncake.jsonl")).unwrap();
    for at in [0, 1, 35, 36, 50] {
        let mut replay = trace.replay(Begin::First);
        replay.by_ref().take(at).for_each(drop);
        let cloned: Vec<Replayed> = replay.clone().take(40).collect();
        assert_eq!(cloned, replay.take(40).collect::<Vec<_>>(), "after {at}");
    }
    fn sendable(_: impl Send + Clone) {}
    sendable(trace.replay(Begin::First));
}

#[test]
fn windows_are_counted_from_the_first_row() {
    let all = rows(&open_for_rewrite(&fixture("mooncake.jsonl")));
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
        trace.replay(Begin::First).nth(want.len()).map(|r| (r.round, r.row.blocks)),
        Some((1, want[0].blocks.clone()))
    );
    assert!(trace.title().contains("in a window"), "{}", trace.title());
}

#[test]
fn a_replay_does_not_depend_on_the_file() {
    let row = "{\"timestamp\":0,\"input_length\":6,\"output_length\":5}\n";
    let (_dir, path) = file("a.jsonl", &row.repeat(3));
    let trace = Trace::open(&TraceSource::of(&path)).unwrap();
    let mut replay = trace.replay(Begin::First);
    replay.next().unwrap();
    fs::remove_file(&path).unwrap();
    assert_eq!(replay.take(7).count(), 7);
    let described = Trace::describe(&fixture("mooncake.jsonl"), None).unwrap();
    let mut none = described.replay(Begin::First);
    assert!(none.next().is_none() && format!("{:#}", none.error().unwrap()).contains("for a description"));
}

/// Opens a trace with rows at these milliseconds; row `i` has a prompt of `i + 1` tokens.
fn at(times: &[u64]) -> (tempfile::TempDir, Trace) {
    let row = |(i, t): (usize, &u64)| {
        format!("{{\"timestamp\":{t},\"input_length\":{},\"output_length\":5}}\n", i + 1)
    };
    let (dir, path) = file("a.jsonl", &times.iter().enumerate().map(row).collect::<String>());
    let trace = Trace::open(&TraceSource::of(&path)).unwrap();
    (dir, trace)
}

#[test]
fn a_replay_begins_anywhere_and_wraps_around() {
    // Four seconds and a mean gap of two.
    let (_dir, trace) = at(&[0, 1_000, 4_000]);
    for (begin, position, want) in [
        (Begin::First, 0, vec![(0, 1, 0), (0, 2, 1_000), (0, 3, 4_000), (1, 1, 6_000)]),
        (Begin::Moment(0.0), 0, vec![(0, 1, 0), (0, 2, 1_000), (0, 3, 4_000), (1, 1, 6_000)]),
        // Starts at 3 s: the third request follows after 1 s, then the next round.
        (Begin::Moment(0.5), 2, vec![(0, 3, 1_000), (0, 1, 3_000), (0, 2, 4_000), (1, 3, 7_000)]),
        // Starts at 5.4 s, after the last request of the round.
        (Begin::Moment(0.9), 0, vec![(0, 1, 600), (0, 2, 1_600), (0, 3, 4_600), (1, 1, 6_600)]),
        (Begin::Request(0.4), 1, vec![(0, 2, 0), (0, 3, 3_000), (0, 1, 5_000), (1, 2, 6_000)]),
        (Begin::Request(0.99), 2, vec![(0, 3, 0), (0, 1, 2_000), (0, 2, 3_000), (1, 3, 6_000)]),
    ] {
        let mut replay = trace.replay(begin);
        assert_eq!(replay.start_index(), position, "{begin:?}");
        let got: Vec<(u32, u32, u128)> =
            replay.by_ref().take(4).map(|r| (r.round, r.row.input_tokens, r.row.at.as_millis())).collect();
        assert_eq!(got, want, "{begin:?}");
        assert_eq!(replay.clone().next(), replay.next(), "{begin:?}");
    }
}

const TALK: &str =
    "{\"session_id\":\"a\",\"timestamp\":0,\"input_length\":600,\"output_length\":40,\"hash_ids\":[1,2]}
{\"session_id\":\"b\",\"timestamp\":500,\"input_length\":90,\"output_length\":20,\"hash_ids\":[3]}
{\"session_id\":\"a\",\"delay\":1500,\"input_length\":50,\"output_length\":10,\"hash_ids\":[1]}
{\"timestamp\":9000,\"input_length\":700,\"output_length\":40,\"hash_ids\":[1,2]}
{\"session_id\":\"b\",\"input_length\":30,\"output_length\":10}
{\"session_id\":\"a\",\"delay\":2.5,\"input_length\":20,\"output_length\":10}
";

#[test]
fn rows_of_a_session_follow_the_previous_answer() {
    let (_dir, path) = file("a.jsonl", TALK);
    let trace = Trace::open(&TraceSource::of(&path)).unwrap();
    let s = trace.summary();
    assert_eq!((s.rows, s.arrivals(), s.following, s.turns_max, s.out_of_order), (6, 3, 3, 3, 0));
    assert_eq!(s.longest, 740, "700 and 40; the conversation reaches 730");
    assert_eq!(s.input.max, 720, "includes history");
    let p = s.prefix.unwrap();
    let histories = 640.0 + 700.0 + 110.0;
    assert!(
        (p.repetition - (700.0 + histories) / (600.0 + 90.0 + 690.0 + 700.0 + 140.0 + 720.0)).abs() < 1e-9,
        "{p:?}"
    );
    type Turns = (u128, u32, Vec<(u128, u32)>);
    let turns: Vec<Turns> = trace
        .replay(Begin::First)
        .take(4)
        .map(|r| {
            let follow_ups = r.follow_ups.iter().map(|f| (f.at.as_micros(), f.input_tokens)).collect();
            (r.row.at.as_millis(), r.row.input_tokens, follow_ups)
        })
        .collect();
    let talk = |at| (at, 600, vec![(1_500_000, 50), (2_500, 20)]);
    assert_eq!(turns, [talk(0), (500, 90, vec![(0, 30)]), (9_000, 700, vec![]), talk(13_500)]);
    let out = path.with_extension("out.jsonl");
    anonymise(&trace, None, &out).unwrap();
    let again = Trace::open(&TraceSource::of(&out)).unwrap();
    let bare = |t: &Trace| -> Vec<_> {
        let row = |r: &TraceRow| (r.at, r.input_tokens, r.output_tokens);
        let all = |r: Replayed| [&r.row].into_iter().chain(&r.follow_ups).map(row).collect::<Vec<_>>();
        t.replay(Begin::First).take(3).map(all).collect()
    };
    assert_eq!(bare(&again), bare(&trace), "preserves lengths, times and follow-ups");
    assert!(!fs::read_to_string(&out).unwrap().contains("\"a\""));
}

#[test]
fn a_follow_up_without_predecessor_is_bad() {
    let (_dir, path) =
        file("a.jsonl", &format!("{TALK}{{\"session_id\":\"c\",\"delay\":3,\"input_length\":3}}\n"));
    let missing = error(&TraceSource::of(&path));
    assert!(
        missing.contains(
            "line 7, timestamp: is missing: only a follow-up, a row after another of its session_id"
        ),
        "{missing}"
    );
    let text = TALK.replace("\"delay\":1500", "\"delay\":-1");
    let (_dir, path) = file("a.jsonl", &text);
    assert!(error(&TraceSource::of(&path)).contains("line 3, delay: is negative"));
}

/// vLLM's rows without chat_id look like Mooncake's: recognised by the number of blocks, else an explicit format is
/// needed.
#[test]
fn the_number_of_blocks_distinguishes_vllm_from_mooncake() {
    let row = |blocks: usize| {
        let ids: Vec<usize> = (0..blocks).collect();
        format!("{{\"timestamp\":1.5,\"input_length\":100,\"output_length\":5,\"hash_ids\":{ids:?}}}\n")
    };
    for (text, settings, format, tokens) in [
        (row(7), "", Format::Vllm, 16),
        (row(1), "", Format::Mooncake, 512),
        (row(4), "format = \"mooncake\"\nblock-tokens = 32", Format::Mooncake, 32),
        (row(4), "format = \"vllm\"\nblock-tokens = 32", Format::Vllm, 32),
    ] {
        let (_dir, path) = file("a.jsonl", &text);
        let trace = open_for_rewrite(&with(TraceSource::of(&path), settings));
        assert_eq!((trace.format(), trace.block_tokens()), (format, Some(tokens)), "{text}{settings}");
    }
    for (text, settings, message) in [
        (row(4), "", "set format = \"vllm\" (--format vllm)"),
        (row(1) + &row(7), "", "line 2, hash_ids: 7 blocks of 512 tokens hold more than the 100"),
        (row(4), "block-tokens = 32", "add format = \"mooncake\" or \"vllm\""),
    ] {
        let (_dir, path) = file("a.jsonl", &text);
        let error = error(&with(TraceSource::of(&path), settings));
        assert!(error.contains(message), "{text}{settings}: {error}");
    }
}

#[test]
fn the_prefix_note_describes_identification_and_hit_rate() {
    let mooncake = open_for_rewrite(&fixture("mooncake.jsonl"));
    assert_eq!(
        mooncake.title(),
        "36 requests of mooncake.jsonl (mooncake), 27 s, prefix blocks of 512 tokens"
    );
    let p = mooncake.summary().prefix.unwrap();
    assert!(p.repetition > 0.5 && p.repetition < 0.9 && p.covered > 0.999, "{p:?}");
    assert!(mooncake.prefix_note().contains("a cache without eviction would hold"));
    let some = open_for_rewrite(&fixture("aiperf.jsonl"));
    assert!(some.prefix_note().contains("are not identified"), "{}", some.prefix_note());
    let none = open_for_rewrite(&fixture("azure-2023.csv"));
    assert!(none.prefix_note().contains("the cache hit rate of a replay is the generator's choice"));
}

#[test]
fn anonymised_traces_round_trip() {
    let dir = tempfile::tempdir().unwrap();
    let (plain, packed) = (dir.path().join("out.jsonl"), dir.path().join("out.jsonl.gz"));
    for name in ["mooncake.jsonl", "azure-2023.csv", "copilot.jsonl.gz", "aiperf.jsonl"] {
        let trace = open_for_rewrite(&fixture(name));
        for out in [&plain, &packed] {
            anonymise(&trace, None, out).unwrap();
            let again = open_for_rewrite(&TraceSource::of(out));
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
    let trace = open_for_rewrite(&fixture("mooncake.jsonl"));
    anonymise(&trace, Some(&hashing), &plain).unwrap();
    let again = open_for_rewrite(&TraceSource::of(&plain));
    assert_eq!(again.summary().prefix, trace.summary().prefix, "preserves shared prefixes");
    assert_ne!(rows(&again)[0].blocks, rows(&trace)[0].blocks, "with salted ids");
    let error = |hashing: &Hashing, trace: &Trace, out: &Path| {
        format!("{:#}", anonymise(trace, Some(hashing), out).unwrap_err())
    };
    assert!(error(&Hashing::new(16, b""), &trace, &plain).contains("--prefix-blocks 512"));
    assert!(error(&hashing, &open_for_rewrite(&fixture("azure-2023.csv")), &plain).contains("no text"));
    let same_file = format!("{:#}", anonymise(&again, None, &plain).unwrap_err());
    assert!(same_file.contains("is the trace itself"), "{same_file}");
}

#[test]
fn anonymised_logs_contain_prefixes_but_no_text() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.jsonl");
    let hashing = Hashing::new(16, b"pepper");
    let trace = Trace::open_for_rewrite(&fixture("requests.jsonl"), Some(hashing.clone())).unwrap();
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
    let again = open_for_rewrite(&TraceSource::of(&out));
    assert_eq!(again.block_tokens(), Some(16));
    assert!(
        again.summary().prefix.unwrap().repetition > 0.5,
        "all share a system prompt: {:?}",
        again.summary().prefix
    );
    assert_eq!(
        rows(&again),
        rows(&trace).into_iter().map(|r| TraceRow { session: None, ..r }).collect::<Vec<_>>()
    );
}

#[derive(Debug, Clone)]
struct RandomRow {
    at: u32,
    input: u32,
    output: Option<u32>,
    blocks: usize,
}

fn random_rows() -> impl Strategy<Value = Vec<RandomRow>> {
    let row = (0..100_000u32, 1..9_000u32, proptest::option::weighted(0.8, 1..2_000u32), 0..18usize);
    let row = row.prop_map(|(at, input, output, blocks)| RandomRow {
        at,
        input,
        output,
        blocks: blocks.min(input.div_ceil(512) as usize),
    });
    proptest::collection::vec(row, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// JSONL or CSV in any order is read in order of time.
    #[test]
    fn rows_are_read_back_in_order_of_time(rows in random_rows(), csv in any::<bool>()) {
        let text = if csv {
            let line = |r: &RandomRow| {
                let ids: Vec<String> = (0..r.blocks).map(|b| b.to_string()).collect();
                format!("{},{},{},\"[{}]\"\n", r.at, r.input, r.output.map(|n| n.to_string()).unwrap_or_default(), ids.join(", "))
            };
            format!("timestamp,input_length,output_length,hash_ids\n{}", rows.iter().map(line).collect::<String>())
        } else {
            let line = |r: &RandomRow| {
                let output = r.output.map(|n| format!(",\"output_length\":{n}")).unwrap_or_default();
                let ids: Vec<usize> = (0..r.blocks).collect();
                format!("{{\"x\":{{\"timestamp\":3}},\"hash_ids\":{ids:?},\"input_length\":{}{output},\"timestamp\":\"{}\"}}\n", r.input, r.at)
            };
            rows.iter().map(line).collect()
        };
        let (_dir, path) = file("trace", &text);
        let settings = if csv { "format = \"csv\"\nunit = \"ms\"" } else { "format = \"mooncake\"" };
        let trace = open_for_rewrite(&with(TraceSource::of(&path), settings));
        let mut want = rows;
        want.sort_by_key(|r| r.at);
        let got = self::rows(&trace);
        prop_assert_eq!(got.len(), want.len());
        for (g, w) in got.iter().zip(&want) {
            prop_assert_eq!(g.at, Duration::from_millis(u64::from(w.at - want[0].at)));
            prop_assert_eq!((g.input_tokens, g.output_tokens, g.blocks.len()), (w.input, w.output, w.blocks));
        }
    }

    /// Any file is read or rejected.
    #[test]
    fn no_file_panics(head in "(TIMESTAMP,ContextTokens,GeneratedTokens\n|\\{\"timestamp\":0,\"input_length\":3\\}\n|)", tail in "[\\PC\n\"{},:0-9]{0,200}", skip in any::<bool>()) {
        let (_dir, path) = file("trace", &format!("{head}{tail}"));
        let _ = Trace::open(&TraceSource { skip_bad_rows: skip, ..TraceSource::of(&path) });
    }
}
