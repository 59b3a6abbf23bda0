use super::*;
use crate::Plan;
use proptest::prelude::*;

const PLAN: &str = "name = \"x\"\nserver.simulated = { preset = \"a40-qwen3-0.6b\" }\nslo.ttft.p99 = \"200ms\"\n\
                    workload.prompts.synthetic = { input-tokens = { fixed = 9 }, output-tokens = { fixed = 3 } }\n\
                    search = { rates = [1], peak = { concurrency = 4 } }\n[grid]\n";

fn plan(rest: &str) -> Result<Plan, String> {
    Plan::from_text(&format!("{PLAN}{rest}")).map_err(|e| format!("{e:#}"))
}

fn names(rest: &str) -> Vec<String> {
    plan(rest).unwrap().series().into_iter().map(|s| s.name).collect()
}

#[test]
fn one_knob_has_a_point_per_value() {
    let text = "set = { \"server.simulated.max-num-seqs\" = \"{max-num-seqs}\", \"search.peak.concurrency\" = \"{2*max-num-seqs}\" }\n\
                knobs.max-num-seqs = [8, 16]\n";
    let whole = plan(text).unwrap();
    let all = whole.series();
    assert_eq!(
        all.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(),
        ["max-num-seqs=8", "max-num-seqs=16"]
    );
    assert!(
        all[1].plan.measured_server().to_string().contains("max-num-seqs 16"),
        "{}",
        all[1].plan.measured_server().to_string()
    );
    assert_eq!(all[1].plan.search.peak.map(|p| p.concurrency.get()), Some(32));
    assert_eq!(all[1].variant.as_ref().unwrap().knobs, [("max-num-seqs".to_owned(), "16".to_owned())]);
    let again = Plan::from_text(&whole.to_toml().unwrap()).unwrap();
    assert_eq!((again.series(), &again), (all, &whole));
}

#[test]
fn several_knobs_are_varied_one_at_a_time_or_in_full() {
    let text = "set = { \"server.simulated.max-num-seqs\" = \"{s}\", \"server.simulated.max-num-batched-tokens\" = \"{t}\" }\n\
                knobs.s = { values = [8, 16, 32], baseline = 16 }\nknobs.t = [2048, 4096]\n";
    assert_eq!(names(text), ["baseline", "s=8", "s=32", "t=4096"]);
    assert_eq!(names(&format!("full = true\n{text}")).len(), 6);
    assert_eq!(names(&format!("full = true\n{text}"))[1], "s=8 t=4096");
    let all = plan(text).unwrap().series();
    assert!(
        all[3].plan.measured_server().to_string().contains("max-num-seqs 16, max-num-batched-tokens 4096"),
        "{}",
        all[3].plan.measured_server().to_string()
    );
}

#[test]
fn args_replace_the_placeholder_in_the_command() {
    let text = "url = \"http://127.0.0.1:1\"\ncommand = [\"serve\", \"{chunked}\", \"--n={n}\", '{\"level\": 3}', \"${HOME}\"]\nenv = { N = \"{n}\" }\n\
                full = true\nknobs.n = [1]\nknobs.chunked = { values = [true, false], args = { true = [], false = [\"--no-chunks\", \"x\"] } }\n";
    let whole = plan(text).unwrap();
    let argv: Vec<Vec<String>> = whole.variants().into_iter().map(|v| v.start().unwrap().command).collect();
    assert_eq!(argv[0], ["serve", "--n=1", "{\"level\": 3}", "${HOME}"]);
    assert_eq!(argv[1], ["serve", "--no-chunks", "x", "--n=1", "{\"level\": 3}", "${HOME}"]);
    assert_eq!(whole.variants()[0].start().unwrap().env["N"], "1");
    assert_eq!(whole.variants()[1].name, "chunked=false n=1");
    let again = Plan::from_text(&whole.to_toml().unwrap()).unwrap();
    assert_eq!(again.variants(), whole.variants());
}

/// Cases: the table, and a part of the error message, which also names the line.
#[test]
fn errors_name_knob_and_line() {
    let set = "set = { \"server.simulated.max-num-seqs\" = \"{n}\" }\n";
    for (rest, message) in [
        ("knobs = {}\n".to_owned(), "has no knobs"),
        (format!("{set}knobs.n = []\n"), "the knob has no values"),
        (format!("{set}knobs.n = [1, 1]\n"), "the value 1 is listed twice"),
        (format!("{set}knobs.n = [[1]]\n"), "cannot be the value of a knob"),
        (format!("{set}knobs.n = {{ values = [1], baseline = 2 }}\n"), "the baseline 2 is not one of the values (1)"),
        (format!("{set}knobs.n = {{ value = [1] }}\n"), "unknown key `value`: did you mean `values`?"),
        (format!("{set}knobs.n = [1]\nknobs.m = [1]\n"), "does not use the knob m"),
        ("set = { \"step.measure\" = \"{x}\" }\nknobs.n = [1]\n".to_owned(), "uses {x}, which is not one of its knobs (n)"),
        ("set = { \"server.model\" = \"{2*n}\" }\nknobs.n = [\"a\"]\n".to_owned(), "multiplies n, but not all of its values are whole numbers"),
        (
            "set = { \"server.model\" = \"a{0.5*n}\" }\nknobs.n = [2]\n".to_owned(),
            "multiplies n by 0.5: the factor must be a whole number, as in \"{2*n}\"; for other numbers, write a [[variant]] for each value",
        ),
        (format!("{set}knobs.n = {{ values = [1, 2], args = {{ 1 = [\"x\"] }} }}\n"), "args has no entry for the value 2"),
        (
            "url = \"http://h\"\ncommand = [\"x\", \"-n={n}\"]\nknobs.n = { values = [1], args = { 1 = [\"x\"] } }\n".to_owned(),
            "as its own word in command",
        ),
        ("command = [\"x\", \"{n}\"]\nknobs.n = [1]\n".to_owned(), "the simulated server is the target"),
        ("set = { \"server.simulated.max-num-seq\" = \"{n}\" }\nknobs.n = [1]\n".to_owned(), "[grid] at n=1: set \"server.simulated.max-num-seq\""),
        ("set = { \"server.model\" = \"{n}\" }\nknobs.n = [\"a/b\"]\n".to_owned(), "at n=a/b: the name"),
        (format!("timeout = \"1m\"\n{set}knobs.n = [1]\n"), "timeout needs a command"),
    ] {
        let e = plan(&rest).unwrap_err();
        assert!(e.contains(message), "{rest}: {e}");
        assert!(e.contains("line "), "{rest}: {e}");
    }
    let many: Vec<String> = (0..40).map(|n| n.to_string()).collect();
    let e = plan(&format!(
        "full = true\nset = {{ \"server.model\" = \"{{a}}{{b}}\" }}\nknobs.a = [{0}]\nknobs.b = [{0}]\n",
        many.join(", ")
    ));
    assert!(e.unwrap_err().contains("1600 points"));
}

proptest! {
    #[test]
    fn texts_without_placeholders_are_unchanged(text in "[ -~é]{0,40}") {
        let value = Value::Integer(7);
        let point: Vec<(&str, &Value)> = placeholders(&text).map(|p| (p.knob, &value)).collect();
        let out = fill(&text, &point);
        if point.is_empty() {
            prop_assert_eq!(out, text);
        } else {
            prop_assert!(out.contains('7') || text.contains('*'));
        }
    }
}
