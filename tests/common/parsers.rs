//! All readers of external data in this program, each fed with arbitrary bytes: a few by `tests/hostile.rs`, and by the
//! fuzz targets as many as time permits. A reader may refuse its input; it may not panic, hang, or contradict itself.
//! Each function returns true if the input was accepted.

use goodput::client::config::Api;
use goodput::client::event::{self, Parsed};
use goodput::client::sse::Parser;
use goodput::client::tally::{End, Tally};
use goodput::client::template::Template;
use goodput::client::{Encoder, TemplateReader, parse_document, parse_event};
use goodput::import;
use goodput::plan::Plan;
use goodput::record::{Phase, Record};
use goodput::report;
use goodput::rundir::{self, Tool};
use goodput::server::facts::Facts;
use goodput::server::prometheus;
use goodput::server::selected::{Selector, missing, select};
use goodput::server::{Latency, Reading};
use goodput::units::Span;
use goodput::workload::data::config::{Delimiter, Fields, Sampling, Turns};
use goodput::workload::data::text::TextTable;
use goodput::workload::data::{self, Counter, DataSet, DataSource, TextCorpus};
use goodput::workload::trace::{self, Begin, Hashing, Trace, TraceSource, Window};
use std::cell::OnceCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Lowest second byte for which the report of a run folder is made.
const DRAWN: usize = 0xe0;

/// Separator between the files of an input that consists of several.
pub const BETWEEN: &[u8] = b"\n%%%%\n";

thread_local! {
    static FOLDER: OnceCell<TempDir> = const { OnceCell::new() };
    static RUN: OnceCell<Vec<(PathBuf, Vec<u8>)>> = const { OnceCell::new() };
}

/// Returns a temporary folder of this thread, empty at its first use.
fn folder() -> PathBuf {
    FOLDER.with(|f| f.get_or_init(|| tempfile::tempdir().expect("a temporary folder")).path().to_owned())
}

/// Writes a file with these bytes.
fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder().join(name);
    fs::write(&path, bytes).expect("room for a temporary file");
    path
}

/// Splits off the first byte, which selects how the others are read.
fn choice(bytes: &[u8]) -> (usize, &[u8]) {
    bytes.split_first().map_or((0, bytes), |(first, rest)| (usize::from(*first), rest))
}

/// Reads a plan: parses and resolves it, prints it as `check` does, writes it and reads it again.
pub fn plan(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let Ok(plan) = Plan::from_text(text) else { return false };
    for json in [false, true] {
        let _ = goodput::fuzzing::check_plan(&plan, &[], json);
    }
    let _ = plan.searcher();
    let Ok(written) = plan.to_toml() else { return true };
    let again = Plan::from_text(&written).expect("a plan that was written reads back");
    assert_eq!(again, plan, "written as\n{written}");
    true
}

/// The APIs whose streams are read, in the order of the first byte.
const STREAMED: [Api; 4] = [Api::Chat, Api::Completions, Api::Responses, Api::Messages];

/// Reads a stream, split into reads at the places given by the input. The record must not depend on them.
pub fn sse(bytes: &[u8]) -> bool {
    let (first, rest) = choice(bytes);
    let api = STREAMED[first & 3];
    let piece = (first >> 2) + 1;
    let read = |size: usize| {
        let mut tally = Tally::new(api, Some(Duration::from_millis(50)));
        let (mut parser, mut events) = (Parser::new(), Vec::new());
        let mut reader = event::EventReader::default();
        let mut each = |item: goodput::client::sse::Item<'_>| {
            let parsed = parse_event(api, item);
            assert_eq!(
                reader.read(item, |item| parse_event(api, item)),
                parsed,
                "an event like an earlier one"
            );
            if let Parsed::Event(event) = &parsed {
                assert!(event.error.is_none() || !item.data.is_empty() || item.error);
            }
            events.push(parsed.clone());
            tally.feed(Duration::from_millis(events.len() as u64), parsed, item.data);
        };
        if rest.chunks(size).all(|piece| parser.feed(piece, &mut each).is_ok()) {
            parser.finish(&mut each);
        }
        let mut record = Record::due(0, Phase::Measure, Duration::ZERO);
        let tallied = tally.finish(End::Eof, Duration::from_secs(9), &mut record);
        (events, format!("{record:?} {tallied:?}"))
    };
    let whole = read(rest.len().max(1));
    assert_eq!(whole, read(piece), "cut into reads of {piece}");
    let _ = event::error_message(rest);
    let mut tally = Tally::new(api, None);
    tally.document(Duration::from_millis(1), parse_document(api, rest), rest);
    tally.finish(End::Eof, Duration::from_millis(2), &mut Record::due(0, Phase::Measure, Duration::ZERO));
    whole.0.iter().any(|parsed| matches!(parsed, Parsed::Event(_)))
}

/// Paths of templates: of TGI, Ollama and Triton, and paths of which one is the beginning of another.
const TEMPLATES: [&str; 4] = [
    "text = \"$.token.text\"\ntokens = \"$.details.generated_tokens\"\nfinish = \"$.details.finish_reason\"",
    "text = \"$.response\"\ntokens = \"$.eval_count\"\nfinish = \"$.done_reason\"\nstream-format = \"lines\"",
    "text = \"$.text_output\"",
    "text = \"$.token.text\"\nerror = \"$.token\"\ntokens = \"$[0].n\"\ndone = \"<END>\"",
];

/// Reads a template, and a stream and a document that it describes. The record must not depend on how the stream is split into reads.
pub fn template(bytes: &[u8]) -> bool {
    let (first, rest) = choice(bytes);
    let fixed = format!("path = \"/x\"\nbody = '{{\"a\": \"{{{{prompt}}}}\"}}'\n{}", TEMPLATES[first & 3]);
    let separator = rest.windows(BETWEEN.len()).position(|window| window == BETWEEN);
    let (table, stream) = match separator {
        Some(at) => (String::from_utf8_lossy(&rest[..at]).into_owned(), &rest[at + BETWEEN.len()..]),
        None => (fixed, rest),
    };
    let Ok(template) = toml::from_str::<Template>(&table) else { return false };
    let written = toml::to_string(&template).expect("a template can be written");
    assert_eq!(toml::from_str::<Template>(&written).as_ref(), Ok(&template), "written as\n{written}");
    let encoder = Encoder::of_template(&template, "m");
    let _ = encoder.request(&encoder.prefix(Some("s")), "u", 3);
    let reader = TemplateReader::new(&template);
    let read = |size: usize| {
        let mut tally = Tally::of_template(&reader, None);
        let (mut splitter, mut events, mut is_event) = (reader.splitter(), 0, false);
        let mut each = |item: goodput::client::sse::Item<'_>| {
            let parsed = reader.event(item);
            events += 1;
            is_event |= matches!(parsed, Parsed::Event(_));
            tally.feed(Duration::from_millis(events), parsed, item.data);
        };
        if stream.chunks(size).all(|piece| splitter.feed(piece, &mut each).is_ok()) {
            splitter.finish(&mut each);
        }
        let mut record = Record::due(0, Phase::Measure, Duration::ZERO);
        let tallied = tally.finish(End::Eof, Duration::from_secs(9), &mut record);
        (is_event, format!("{record:?} {tallied:?}"))
    };
    let (piece, whole) = ((first >> 2) + 1, read(stream.len().max(1)));
    assert_eq!(whole, read(piece), "cut into reads of {piece}");
    matches!(reader.document(stream), Parsed::Event(_)) || whole.0
}

/// Reads a page of metrics, and facts about a server.
pub fn metrics(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let mut selectors: Vec<Selector> = Vec::new();
    for sample in prometheus::samples(&text) {
        for (name, value) in prometheus::labels(sample.labels) {
            assert!(prometheus::label(sample.labels, name).is_some(), "{name:?} {value:?}");
        }
        if selectors.len() < 4 {
            selectors.extend(format!("{}{{{}}}", sample.name, sample.labels).parse::<Selector>());
            selectors.extend(sample.name.parse::<Selector>());
        }
    }
    for selector in &selectors {
        let again: Selector = selector.to_string().parse().expect("a selector that was written reads back");
        assert_eq!(&again, selector);
    }
    let _ = (select(&text, &selectors), missing(&text, &selectors));
    let mut facts = Facts::default();
    facts.read_metrics(&text);
    facts.read_page(&text);
    // Two consecutive pages, as in successive scrapes.
    let (a, b) = text.split_at((text.len() / 2..).find(|at| text.is_char_boundary(*at)).unwrap_or(0));
    let readings = [&*text, a, b].map(Reading::read);
    for from in readings.iter().flatten() {
        for to in readings.iter().flatten() {
            let sum = from.and(to);
            let _ = (sum.in_server(), sum.hit_rate());
            let Ok(grown) = to.since(from) else { continue };
            for latency in Latency::ALL {
                if let Some(h) = grown.histogram(latency) {
                    let _ = (h.mean(), h.quantile(0.5), h.quantile(0.99));
                }
            }
        }
    }
    readings[0].is_some()
}

/// Reads a trace of any format: describes, opens, replays and anonymises it.
pub fn trace(bytes: &[u8]) -> bool {
    let (first, rest) = choice(bytes);
    let mut source = TraceSource::of(file("trace", rest));
    let formats = trace::Format::ALL;
    source.format = formats.get(first % 16).copied();
    source.skip_bad_rows = first & 16 != 0;
    if first & 32 != 0 {
        source.window = Window::new(None, Some(Span::secs(60))).ok();
    }
    if matches!(source.format, Some(trace::Format::Csv | trace::Format::Jsonl | trace::Format::Vllm)) {
        source.columns.timestamp = Some("timestamp".into());
        source.columns.input_tokens = Some("input_length".into());
        source.columns.output_tokens = Some("output_length".into());
        source.columns.hash_ids = Some("hash_ids".into());
        source.columns.session = Some("session_id".into());
    }
    if source.check().is_err() {
        return false;
    }
    let hashing = Hashing::new(16, b"salt");
    if let Ok(kept) = Trace::open_for_rewrite(&source, (first & 64 != 0).then(|| hashing.clone())) {
        let _ = (kept.title(), kept.prefix_note());
        let out = folder().join("anonymised.jsonl");
        if trace::anonymise(&kept, None, &out).is_ok() {
            Trace::describe(&TraceSource::of(&out), None).expect("what was written anew is read");
        }
    }
    let Ok(trace) = Trace::open(&source) else { return false };
    for begin in [Begin::First, Begin::Moment(0.5), Begin::Request(0.9)] {
        let mut last = Duration::ZERO;
        for replayed in trace.replay(begin).take(40) {
            assert!(replayed.row.at >= last && replayed.row.input_tokens > 0);
            last = replayed.row.at;
        }
    }
    true
}

/// Reads a data set of any format, and a text.
pub fn data(bytes: &[u8]) -> bool {
    let (first, rest) = choice(bytes);
    let path = file("data", rest);
    let fields = Fields {
        prompt: (first & 8 == 0).then(|| "prompt".into()),
        output: Some("output".into()),
        session: (first & 16 != 0).then(|| "session".into()),
        ..Fields::default()
    };
    let format = match first & 7 {
        0 => data::Format::ShareGpt,
        1 => data::Format::Jsonl(fields),
        2 => data::Format::Jsonl(Fields::default()),
        3 => data::Format::Csv(fields, Delimiter::Comma),
        4 => data::Format::Csv(Fields::default(), Delimiter::Tab),
        5 => data::Format::Aiperf,
        6 => data::Format::SpecBench,
        _ => return text(path, first),
    };
    let source = DataSource {
        format,
        files: vec![path],
        turns: [Turns::First, Turns::All, Turns::Last, Turns::All][first >> 5 & 3],
        output_tokens: toml::from_str::<TextTable>(TEXT).ok().map(|t| t.output_tokens),
        output_from: None,
        order: Sampling::File,
        limits: data::config::LengthLimits::default(),
        skip_bad_rows: first & 128 != 0,
    };
    let Ok(set) = DataSet::open(&source, Counter::default()) else { return false };
    let _ = (set.title(), set.summary());
    for id in 0..set.len().min(40) {
        let sample = set.get(id).expect("what was checked when it was opened can be read");
        assert!(!sample.conversation.is_empty());
    }
    true
}

const TEXT: &str = "file = \"text\"\ninput-tokens = { fixed = 9 }\noutput-tokens = { fixed = 3 }";

fn text(path: PathBuf, first: usize) -> bool {
    let mut table: TextTable = toml::from_str(TEXT).expect("a table");
    table.file = path;
    let Ok(corpus) = TextCorpus::open(&table) else { return false };
    for at in [0, 1, first as u64, u64::MAX] {
        assert!(!corpus.excerpt(at, first).expect("the text is UTF-8").is_empty());
    }
    true
}

/// Imports results of another tool into a run folder, which must be readable.
pub fn import(bytes: &[u8]) -> bool {
    let (first, rest) = choice(bytes);
    let folder = folder().join("results");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a temporary folder");
    let (tool, names): (_, &[&str]) = match first & 3 {
        0 => (Tool::Vllm, &["vllm.json"]),
        1 => (Tool::Guidellm, &["guidellm.json"]),
        2 => (Tool::Aiperf, &["profile_export.jsonl", "profile_export_aiperf.json"]),
        _ => (
            Tool::InferencePerf,
            &["per_request_lifecycle_metrics.json", "stage_0_lifecycle_metrics.json", "config.yaml"],
        ),
    };
    let mut rest = rest;
    for name in names {
        let end = rest.windows(BETWEEN.len()).position(|w| w == BETWEEN);
        let (own, further) = end.map_or((rest, &[][..]), |at| (&rest[..at], &rest[at + BETWEEN.len()..]));
        fs::write(folder.join(name), own).expect("room for a temporary file");
        rest = further;
    }
    imported(vec![folder.join(names[0])], (first & 4 == 0).then_some(tool)).is_some()
}

fn imported(files: Vec<PathBuf>, from: Option<Tool>) -> Option<PathBuf> {
    let out = folder().join("imported");
    let options = import::Options {
        files,
        from,
        sets: vec!["slo.ttft.p99=\"300ms\"".into()],
        force: true,
        ..import::Options::default()
    };
    import::import(&options, &out).ok()?;
    rundir::read(&out).expect("what was imported can be read");
    Some(out)
}

/// Reads a run folder with one damaged file. Makes the report with charts only for some inputs, since this takes far
/// longer than reading.
pub fn run(bytes: &[u8]) -> bool {
    let (which, rest) = choice(bytes);
    let (how, rest) = choice(rest);
    let whole = RUN.with(|r| r.get_or_init(run_folder).clone());
    let folder = folder().join("run");
    fs::create_dir_all(&folder).expect("a temporary folder");
    let mangled = which % whole.len();
    for (i, (name, content)) in whole.iter().enumerate() {
        let content = if i == mangled { &mangle(content, how, rest)[..] } else { content };
        fs::write(folder.join(name), content).expect("room for a temporary file");
    }
    if let Ok(hold) = rundir::RunLock::of_run(&folder) {
        let _ = rundir::read_interrupted(&hold, |_, _, _| ());
    }
    let Ok(run) = rundir::read_with_scale(&folder) else { return false };
    if how >= DRAWN {
        // It may fail on a damaged row.
        let _ = report::write_all(&run, &folder, report::ChartFiles::Drawn);
    }
    true
}

/// Replaces the content, truncates it, or inserts or overwrites bytes.
fn mangle(content: &[u8], how: usize, rest: &[u8]) -> Vec<u8> {
    let (at, own) = match rest {
        [a, b, own @ ..] => (usize::from(u16::from_le_bytes([*a, *b])), own),
        own => (0, own),
    };
    let at = at % (content.len() + 1);
    match how % 4 {
        0 => rest.to_vec(),
        1 => content[..at].to_vec(),
        2 => [&content[..at], own, &content[at..]].concat(),
        _ => [&content[..at], own, content.get(at + own.len()..).unwrap_or_default()].concat(),
    }
}

/// Returns the text files of a small run by name, imported from a result of another tool, which is fast.
pub fn run_folder() -> Vec<(PathBuf, Vec<u8>)> {
    let result = file("vllm.json", include_bytes!("../fixtures/peers/vllm/rate-2.5.json"));
    let out = imported(vec![result], Some(Tool::Vllm)).expect("a result that is imported elsewhere");
    let mut files = Vec::new();
    for entry in fs::read_dir(&out).expect("a folder") {
        let path = entry.expect("an entry").path();
        let read = path.extension().is_some_and(|e| e == "csv" || e == "json" || e == "toml" || e == "jsonl");
        if read && path.is_file() {
            let name = Path::new(path.file_name().expect("a name")).to_owned();
            files.push((name, fs::read(&path).expect("a file of the run")));
        }
    }
    files.sort();
    files
}

/// The name of a fuzz target, with its function above.
pub type Target = (&'static str, fn(&[u8]) -> bool);

/// All fuzz targets.
pub const TARGETS: [Target; 8] = [
    ("plan", plan),
    ("sse", sse),
    ("template", template),
    ("metrics", metrics),
    ("trace", trace),
    ("data", data),
    ("import", import),
    ("run", run),
];

/// Returns valid inputs as seeds, made from the fixtures of the other tests.
pub fn seeds(target: &str, root: &Path) -> Vec<Vec<u8>> {
    let fixtures = root.join("tests/fixtures");
    let of = |folder: &str, first: &dyn Fn(&str) -> Vec<u8>| -> Vec<Vec<u8>> {
        let firsts = |(name, bytes): (String, Vec<u8>)| {
            first(&name).into_iter().map(|b| [&[b], &*bytes].concat()).collect::<Vec<_>>()
        };
        files(&fixtures.join(folder)).into_iter().flat_map(firsts).collect()
    };
    let named =
        |names: &[&str], name: &str| (0..).zip(names).find(|(_, n)| name.starts_with(**n)).map(|(i, _)| i);
    match target {
        "plan" => ["tests/fixtures/plans", "sweeps", "examples", "src/cmd"]
            .iter()
            .flat_map(|folder| files(&root.join(folder)))
            .filter(|(name, _)| name.ends_with(".toml"))
            .map(|(_, bytes)| bytes)
            .collect(),
        "sse" => ["wire/vllm", "wire/llamacpp"]
            .iter()
            .flat_map(|folder| {
                of(folder, &|name| {
                    let api = STREAMED.iter().position(|api| name.starts_with(api.name()));
                    vec![api.unwrap_or(0) as u8]
                })
            })
            .map(|seed| [&seed[..1], &body(&seed[1..])].concat())
            .collect(),
        "template" => template_seeds(),
        "metrics" => files(&fixtures.join("metrics"))
            .into_iter()
            .map(|(_, bytes)| bytes[..bytes.len().min(8_000)].to_vec())
            .collect(),
        "trace" => of("traces", &|name| {
            let known = [
                "mooncake",
                "azure",
                "burstgpt",
                "vllm",
                "weka",
                "copilot",
                "requests",
                "generic.csv",
                "generic.jsonl",
            ];
            named(&known, name).map_or(vec![15], |format| vec![format, 15 | 64])
        }),
        "data" => [("data", None), ("data/pool", Some(5))]
            .iter()
            .flat_map(|(folder, given)| {
                of(folder, &|name| {
                    let known = [
                        "sharegpt",
                        "prompts",
                        "messages",
                        "news",
                        "alpaca",
                        "multi_turn",
                        "spec_bench",
                        "lighthouse",
                    ];
                    given
                        .or(named(&known, name))
                        .or(name.starts_with("single").then_some(5))
                        .into_iter()
                        .collect()
                })
            })
            .collect(),
        "import" => files(&root.join("fuzz/seeds/import")).into_iter().map(|(_, bytes)| bytes).collect(),
        _ => (0..24).map(damage).collect(),
    }
}

/// Returns answers of endpoints that a template describes, each after the number of its template.
fn template_seeds() -> Vec<Vec<u8>> {
    let tgi = "data:{\"token\":{\"text\":\" a\"},\"details\":null}\n\ndata:{\"token\":{\"text\":\" b\"},\"details\":{\"finish_reason\":\"length\",\"generated_tokens\":2}}\n\n";
    let ollama = "{\"response\":\"a\"}\n{\"response\":\"\",\"done_reason\":\"stop\",\"eval_count\":1}\n";
    let triton = "data: {\"text_output\":\"a\"}\n\ndata: {\"text_output\":\"b\"}\n\n";
    let own = "path = \"/x\"\nbody = '{\"q\": \"{{query}}\", \"t\": {{texts}}}'\nresults = \"$.data[0]\"\n%%%%\n{\"data\":[[1,2]]}";
    [(0, tgi), (1, ollama), (2, triton), (3, tgi), (0, own)]
        .map(|(first, text)| [&[first], text.as_bytes()].concat())
        .into()
}

/// Returns an input that selects which file of a run folder to damage, how, where, and with which bytes.
fn damage(i: u8) -> Vec<u8> {
    let how = (i % 4) | if i % 8 == 2 { 0xe0 } else { 0 };
    [&[i, how, i.wrapping_mul(40), i / 8], b"nan,-1,\"".as_slice()].concat()
}

/// Returns the body of a recorded answer, whose reads are written as Python byte strings.
fn body(recorded: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(recorded);
    let reads = text.lines().filter(|line| line.starts_with('+')).filter_map(|line| line.split_once("b'"));
    let bytes: String = reads.map(|(_, read)| read.strip_suffix('\'').unwrap_or(read)).collect();
    let plain = bytes.replace("\\r", "\r").replace("\\n", "\n").replace("\\'", "'").replace("\\\\", "\\");
    let pieces = plain
        .split("\r\n")
        .filter(|piece| ["data:", "event:", "{"].iter().any(|begin| piece.starts_with(begin)));
    pieces.collect::<String>().into_bytes()
}

/// Returns the names and contents of the files in a folder, sorted by name.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let paths = entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_file());
    let read = |path: PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        (name, fs::read(&path).expect("a file"))
    };
    let mut all: Vec<_> = paths.map(read).collect();
    all.sort();
    all
}
