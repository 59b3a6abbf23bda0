use super::*;
use crate::data::config::*;
use goodput_core::message::Message;
use proptest::prelude::*;

/// Returns a parser from the keys of a table, without `file`.
fn parser(format: &str, keys: &str) -> Parser {
    let text = format!("file = \"x\"\n{keys}");
    let table = toml::Deserializer::parse(&text).unwrap();
    let source = match format {
        "sharegpt" => *sharegpt(table).unwrap(),
        "jsonl" => *jsonl(table).unwrap(),
        "csv" => *csv(table).unwrap(),
        "aiperf" => *aiperf(table).unwrap(),
        _ => *spec_bench(table).unwrap(),
    };
    Parser::new(&source, Counter::Exact(std::sync::Arc::new(|t| t.split_whitespace().count())))
}

/// Formats `role:text … → tokens` for each turn; the error of a bad row; or `nothing`.
fn describe(parser: &Parser, row: &str, header: &[String]) -> String {
    let read = parser.object(row.as_bytes(), header).and_then(|object| parser.read(&object));
    let turns = match read {
        Ok(Parsed::Turns(turns, _)) => parser.finish(turns),
        Ok(Parsed::Empty) => return "nothing".into(),
        Err(error) => Err(error),
    };
    match turns {
        Ok(turns) => turns.iter().map(turn).collect::<Vec<_>>().join(" | "),
        Err(f) => format!("{}: {}", f.field.unwrap_or_default(), f.reason),
    }
}

fn turn(t: &TurnSample) -> String {
    let messages: Vec<_> =
        t.messages.iter().map(|m| format!("{}:{}", &m.role.name()[..1], m.content)).collect();
    let n = t.output_tokens.map_or("plan".into(), |n| n.to_string());
    let delay = t.delay.map(|d| format!(" after {d:?}")).unwrap_or_default();
    format!("{} → {n}{delay}", messages.join(" "))
}

/// Cases: format, keys, a row, and the turns or the error.
fn check(rows: &[(&str, &str, &str, &str)]) {
    for (format, keys, row, expected) in rows {
        let got = describe(&parser(format, keys), row, &[]);
        assert!(
            got == *expected || (got.starts_with(expected) && expected.contains(": ")),
            "{keys} {row}\n{got}"
        );
    }
}

const ALL: &str = "turns = \"all\"";
const LAST: &str = "turns = \"last\"";

#[test]
fn sharegpt_rows() {
    let s = |conversation: &str| format!("{{\"id\": \"x\", \"conversations\": [{conversation}]}}");
    let h = |text: &str| format!("{{\"from\": \"human\", \"value\": \"{text}\"}}");
    let g = |text: &str| format!("{{\"from\": \"gpt\", \"value\": \"{text}\"}}");
    let two = s(&[h("q one"), g("a one"), h("q two"), g("b")].join(","));
    let system = s(&format!("{{\"from\": \"system\", \"value\": \"S\"}},{},{}", h("q"), g("a")));
    check(&[
        ("sharegpt", "", &two, "u:q one → 2"),
        ("sharegpt", ALL, &two, "u:q one → 2 | u:q two → 1"),
        ("sharegpt", LAST, &two, "u:q one a:a one u:q two → 1"),
        ("sharegpt", "output-tokens = { fixed = 9 }\noutput-from = \"plan\"", &two, "u:q one → plan"),
        ("sharegpt", "output-from = \"field\"", &two, ": has no field with the length"),
        ("sharegpt", "", &system, "s:S u:q → 1"),
        ("sharegpt", "", &s(""), "nothing"),
        ("sharegpt", "", &s(&h("alone")), "nothing"),
        ("sharegpt", "", &s(&g("alone")), "nothing"),
        ("sharegpt", "", &s(&[h(""), g("a")].join(",")), "nothing"),
        ("sharegpt", "", &s(&[h("q"), g(" ")].join(",")), "nothing"),
        ("sharegpt", ALL, &s(&[g("early"), h("q"), g("a"), h("end")].join(",")), "u:q → 1"),
        ("sharegpt", ALL, &s(&[h("q"), g("a"), h(""), g("b"), h("r"), g("c")].join(",")), "u:q → 1"),
        ("sharegpt", ALL, &s(&[h("q"), g("a"), g("b")].join(",")), "u:q → 2"),
        ("sharegpt", "", "{\"id\": 1}", "conversations: is missing"),
        ("sharegpt", "", "{\"conversations\": {}}", "conversations: is an object, a list"),
        ("sharegpt", "", &s("[]"), "conversations[0]: is a list, an object"),
        (
            "sharegpt",
            "",
            &s("{\"from\": \"x\", \"value\": \"\"}"),
            "conversations[0].from: \"x\" is not human",
        ),
        ("sharegpt", "", &s("{\"from\": \"gpt\"}"), "conversations[0].value: is missing"),
        ("sharegpt", "", &s("{\"from\": \"gpt\", \"value\": 3}"), "conversations[0].value: is 3, a text"),
        ("sharegpt", "", "[]", ": is a list, an object is needed"),
    ]);
}

#[test]
fn rows_with_named_fields() {
    let chat = r#"{"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "q one"},
        {"role": "assistant", "content": "a"}, {"role": "user", "content": "r"}]}"#;
    let plan = "output-tokens = { fixed = 9 }\n";
    check(&[
        ("jsonl", plan, r#"{"prompt": "Hi", "output_tokens": 7}"#, "u:Hi → 7"),
        ("jsonl", plan, r#"{"prompt": "Hi", "output": "one two"}"#, "u:Hi → 2"),
        ("jsonl", plan, r#"{"prompt": "Hi"}"#, "u:Hi → plan"),
        ("jsonl", plan, r#"{"prompt": "Hi", "output": ""}"#, "u:Hi → plan"),
        ("jsonl", "", r#"{"prompt": "Hi"}"#, ": has no answer length: set output-tokens"),
        (
            "jsonl",
            "output-from = \"reference\"",
            r#"{"prompt": "Hi", "output_tokens": 7}"#,
            ": has no reference answer",
        ),
        (
            "jsonl",
            "output-from = \"reference\"",
            r#"{"prompt": "Hi", "output_tokens": 7, "output": "a"}"#,
            "u:Hi → 1",
        ),
        ("jsonl", plan, r#"{"instruction": "Do", "input": "this"}"#, "u:Do\n\nthis → plan"),
        ("jsonl", plan, r#"{"instruction": "Do", "input": " ", "system": "S"}"#, "s:S u:Do → plan"),
        ("jsonl", plan, chat, "s:S u:q one a:a u:r → plan"),
        ("jsonl", "turns = \"all\"", chat, "s:S u:q one → 1"),
        ("jsonl", "turns = \"all\"\noutput-tokens = { fixed = 9 }", chat, "s:S u:q one → 1 | u:r → plan"),
        ("jsonl", "turns = \"first\"", chat, "s:S u:q one → 1"),
        ("jsonl", "", chat, ": has no answer length"),
        (
            "jsonl",
            "fields = { prompt = \"a.q\", output-tokens = \"n\", delay = \"wait\", system = \"a.s\" }",
            r#"{"a": {"q": "Hi", "s": "S"}, "n": 3, "wait": 1500}"#,
            "s:S u:Hi → 3",
        ),
        ("jsonl", "fields.prompt = \"q\"", r#"{"prompt": "Hi"}"#, "q: is missing"),
        ("jsonl", plan, r#"{"prompt": " "}"#, "prompt: is empty"),
        ("jsonl", plan, r#"{"prompt": 3}"#, "prompt: is 3, a text is needed"),
        ("jsonl", plan, r#"{"prompt": "Hi", "output_tokens": 0}"#, "output_tokens: is 0, a whole number"),
        ("jsonl", plan, r#"{"question": "Hi"}"#, ": has none of the fields prompt, messages, instruction"),
        ("jsonl", plan, r#"{"messages": []}"#, ": has no text of a user"),
        ("jsonl", plan, r#"{"messages": [{"role": "system", "content": "S"}]}"#, ": has no text of a user"),
        ("jsonl", plan, r#"{"messages": "Hi"}"#, "messages: is \"Hi\", a list is needed"),
        ("jsonl", plan, r#"{"messages": "[1"}"#, "messages: invalid JSON: EOF"),
        ("jsonl", plan, r#"{"prompt": "Hi""#, ": invalid JSON: EOF while parsing an object"),
        ("jsonl", "fields.session = \"s\"", r#"{"prompt": "Hi"}"#, "s: is missing"),
    ]);
}

#[test]
fn csv_records() {
    let header = ["prompt", "messages", "output_tokens"].map(str::to_owned);
    for (row, expected) in [
        ("Hi,,5\r\n", "u:Hi → 5"),
        ("\"He said \"\"no\"\",\nthen left\",,", "u:He said \"no\",\nthen left → plan"),
        (",\"[{\"\"role\"\": \"\"user\"\", \"\"content\"\": \"\"Hi\"\"}]\",2", "u:Hi → 2"),
        ("Hi,", ": has 2 values, but the header has 3"),
        (",,5", "messages: is missing or empty"),
        ("Hi,,many", "output_tokens: is \"many\", a number is needed"),
        ("Hi,,5\rHo,,6", ": has carriage returns without line feeds"),
    ] {
        let got = describe(&parser("csv", "output-tokens = { fixed = 9 }"), row, &header);
        assert!(got == expected || got.starts_with(expected), "{row}: {got}");
    }
    let p = parser("csv", "delimiter = \"semicolon\"");
    assert_eq!(describe(&p, "a,b;;3", &header), "u:a,b → 3");
    let broken = p.object(b"\xff;;3", &header).unwrap_err();
    assert_eq!(broken.reason, "value 1 is not UTF-8");
}

#[test]
fn aiperf_rows() {
    let plan = "output-tokens = { fixed = 9 }";
    check(&[
        ("aiperf", plan, r#"{"text": "Hi"}"#, "u:Hi → plan"),
        ("aiperf", plan, r#"{"texts": ["a", "b"], "output_length": 4, "type": "random_pool"}"#, "u:a\nb → 4"),
        ("aiperf", plan, r#"{"texts": [{"name": "n", "contents": ["a", "b"]}]}"#, "u:a\nb → plan"),
        (
            "aiperf",
            plan,
            r#"{"session_id": "x", "turns": [{"role": "system", "text": "S"}, {"text": "a"}, {"text": "b", "delay": 1000}]}"#,
            "s:S u:a → plan | u:b → plan after 1s",
        ),
        ("aiperf", "", r#"{"text": "Hi"}"#, ": has no answer length"),
        ("aiperf", plan, r#"{"text": ""}"#, "text: is empty"),
        ("aiperf", plan, r#"{"text": "a", "texts": ["b"]}"#, "texts: cannot be sent together with text"),
        ("aiperf", plan, r#"{"texts": [3]}"#, "texts[0]: is neither a text"),
        ("aiperf", plan, r#"{"input_length": 3}"#, "text: is missing"),
        ("aiperf", plan, r#"{"type": "mooncake_trace"}"#, "type: \"mooncake_trace\" is not"),
        ("aiperf", plan, r#"{"text": "a", "image": "x.png"}"#, "image: cannot be sent"),
        ("aiperf", plan, r#"{"text": "a", "images": []}"#, "u:a → plan"),
        ("aiperf", plan, r#"{"text": "a", "extra": {"top_p": 1}}"#, "extra: cannot differ by row"),
        ("aiperf", plan, r#"{"turns": []}"#, "turns: has no turn of a user"),
        (
            "aiperf",
            plan,
            r#"{"turns": [{"text": "a"}, {"text": "b", "output_length": 0}]}"#,
            "turns[1].output_length: is 0",
        ),
        ("aiperf", plan, r#"{"turns": ["a"]}"#, "turns[0]: is \"a\", an object"),
        (
            "aiperf",
            plan,
            r#"{"turns": [{"text": "a", "role": "assistant"}]}"#,
            "turns[0].role: \"assistant\" is not",
        ),
        ("aiperf", plan, r#"{"text": "a", "role": "system"}"#, "role: is system"),
    ]);
}

#[test]
fn spec_bench_rows() {
    let plan = "turns = \"all\"\noutput-tokens = { fixed = 9 }";
    check(&[
        ("spec-bench", plan, r#"{"turns": ["a", "b"], "reference": ["one two"]}"#, "u:a → 2 | u:b → plan"),
        ("spec-bench", "output-tokens = { fixed = 9 }", r#"{"turns": ["a", "b"]}"#, "u:a → plan"),
        ("spec-bench", plan, r#"{"question_id": 1}"#, "turns: is missing"),
        ("spec-bench", plan, r#"{"turns": []}"#, "turns: is empty"),
        ("spec-bench", plan, r#"{"turns": ["a", ""]}"#, "turns[1]: is empty"),
        ("spec-bench", plan, r#"{"turns": [{}]}"#, "turns[0]: is an object, a text"),
    ]);
}

#[test]
fn rows_of_one_conversation_are_joined() {
    let t = |question: &str, answer: Option<&str>| TurnSample {
        messages: question
            .split(' ')
            .map(|w| if w == "S" { Message::system(w) } else { Message::user(w) })
            .collect(),
        reference: answer.map(str::to_owned),
        ..TurnSample::default()
    };
    let mut new = vec![t("S a", None)];
    join(&mut new, vec![t("S b", None)]);
    assert_eq!(new, [t("S a", None), t("b", None)], "no repeated system message");
    let mut log = vec![t("S a", None)];
    join(&mut log, vec![t("S a", Some("x")), t("b", None)]);
    join(&mut log, vec![t("S a", Some("x")), t("b", Some("y")), t("c", Some("z"))]);
    assert_eq!(log, [t("S a", Some("x")), t("b", Some("y")), t("c", Some("z"))], "no repeated history");
}

#[test]
fn the_header_must_have_the_named_columns() {
    let fields = Fields { prompt: Some("q".into()), output_tokens: Some("n".into()), ..Fields::default() };
    assert_eq!(header(b"q, n\r\n", &fields, Delimiter::Comma).unwrap(), ["q", "n"]);
    for (line, message) in [
        ("q,m", "there is no column \"n\"; the columns are q, m"),
        ("q,n,q", "column 3 has the same name as an earlier one, \"q\""),
    ] {
        assert_eq!(header(line.as_bytes(), &fields, Delimiter::Comma).unwrap_err().reason, message);
    }
    assert!(optional(&fields).contains(&("output-tokens", "n")));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_rejected(bytes: Vec<u8>) {
        for (format, header) in [("csv", vec!["prompt".to_owned()]), ("jsonl", vec![]), ("sharegpt", vec![]), ("aiperf", vec![])] {
            let parser = parser(format, "");
            let _ = parser.object(&bytes, &header).and_then(|o| parser.read(&o));
        }
    }
}
