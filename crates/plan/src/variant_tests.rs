use crate::Plan;
use goodput_stats::search::config::Mode;

const PLAN: &str = "name = \"x\"\nserver.url = \"http://127.0.0.1:8000\"\nslo.ttft.p99 = \"200ms\"\n\
                    workload.prompts.synthetic = { input-tokens = { fixed = 9 }, output-tokens = { fixed = 3 } }\n";

fn plan(rest: &str) -> Result<Plan, String> {
    Plan::from_text(&format!("{PLAN}{rest}")).map_err(|e| format!("{e:#}"))
}

#[test]
fn each_variant_is_a_series_with_its_own_plan() {
    let whole = plan(
        "[[variant]]\nname = \"fp16\"\n[[variant]]\nname = \"fp8\"\nset = { \"server.model\" = \"m-fp8\", \"search.rates\" = [1, 2], \
         \"hardware.gpu\" = \"L4\", slo = { profile = \"batch\" } }\nurl = \"http://10.0.0.1:9\"\n",
    )
    .unwrap();
    let all = whole.series();
    assert_eq!(all.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["fp16", "fp8"]);
    let [base, other] = &all[..] else { panic!("two series") };
    assert_eq!(base.plan.measured_server().to_string(), "http://127.0.0.1:8000");
    assert_eq!(other.plan.measured_server().to_string(), "http://10.0.0.1:9");
    assert_eq!(other.plan.server.model.as_deref(), Some("m-fp8"));
    assert!(matches!(&other.plan.search.mode, Mode::Rates(r) if r.len() == 2));
    assert!(
        other.plan.slo.summary() != base.plan.slo.summary()
            && other.plan.hardware.gpu.as_deref() == Some("L4")
    );
    assert!(all.iter().all(|s| s.plan.series().len() == 1 && s.plan.variants.is_empty()));
    let again = Plan::from_text(&whole.to_toml().unwrap()).unwrap();
    assert_eq!((&again, again.series()), (&whole, all), "it reads back from the run folder");
}

#[test]
fn variants_combine_with_cache_pairs() {
    let whole = plan("workload.cache = \"pair\"\n[[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"\nset = { \"workload.cache\" = \"cold\" }\n").unwrap();
    let names: Vec<String> = whole.series().into_iter().map(|s| s.name).collect();
    assert_eq!(names, ["a, cold", "a, warm", "b"]);
    assert!(whole.series().iter().all(|s| s.variant.is_some()));
}

/// Cases: the rest of a plan, and a part of the error message, which also names the line.
#[test]
fn errors_name_variant_key_and_line() {
    for (rest, message) in [
        ("[[variant]]\nname = \"a/b\"\n", "[[variant]] a/b: the name is also a file name"),
        ("[[variant]]\nname = \"main\"\n", "a variant needs a name"),
        ("[[variant]]\nname = \"A\"\n[[variant]]\nname = \"a\"\n", "two variants are named \"a\""),
        (
            "[[variant]]\nname = \"a\"\nset = { \"server.modle\" = \"x\" }\n",
            "set \"server.modle\": unknown key `modle`: did you mean `model`?",
        ),
        (
            "[[variant]]\nname = \"a\"\nset = { server = { model = \"x\" } }\n",
            "a key without a dot sets the whole table",
        ),
        ("[[variant]]\nname = \"a\"\nset = { \"slo.profile\" = \"rag\" }\n", "set the whole table"),
        ("[[variant]]\nname = \"a\"\nset = { \"variant\" = 1 }\n", "cannot change this key"),
        ("[[variant]]\nname = \"a\"\nset = { \"search.rates\" = [-1] }\n", "a rate must be positive"),
        ("[[variant]]\nname = \"a\"\ncommand = []\n", "command is empty"),
        ("[[variant]]\nname = \"a\"\ntimeout = \"1m\"\n", "timeout needs a command"),
        ("[[variant]]\nname = \"a\"\ncommand = [\"x\"]\ntimeout = \"0s\"\n", "timeout is zero"),
        (
            "[[variant]]\nname = \"a\"\ncommand = [\"x\"]\nready-url = \"health\"\n",
            "ready-url is a path on the server",
        ),
        (
            "[[variant]]\nname = \"a\"\ncommand = [\"x\"]\nenv = { \"A=B\" = \"c\" }\n",
            "must not be empty or contain =",
        ),
        ("[[variant]]\nname = \"a\"\ncomand = [\"x\"]\n", "unknown key `comand`: did you mean `command`?"),
        (
            "[[variant]]\nname = \"a\"\ncommand = [\"x\"]\nset = { \"server.simulated\" = { preset = \"md1\" } }\n",
            "the simulated server is the target",
        ),
    ] {
        let e = plan(rest).unwrap_err();
        assert!(e.contains(message), "{rest}: {e}");
        assert!(e.contains("line "), "{rest}: {e}");
    }
    let rows = "[[variant]]\nname = \"v\"\n[[row]]\nname = \"r\"\nrate = 1\n";
    assert!(plan(rows).unwrap_err().contains("cannot be combined with [[row]]"));
    let low = "step.timeout = \"70s\"\n[[variant]]\nname = \"slow\"\nset = { \"slo.ttft.p99\" = \"90s\" }\n";
    let e = plan(low).unwrap_err();
    assert!(e.contains("[[variant]] slow: ") && e.contains("timeout"), "{e}");
    let latency = "purpose = \"latency\"\nsearch.concurrency = [1]\n[[variant]]\nname = \"v\"\n";
    assert!(
        plan(&latency.replace("purpose", "notes = \"n\"\npurpose"))
            .unwrap_err()
            .contains("measures a single series")
    );
}

#[test]
fn secrets_are_masked_in_the_written_plan() {
    let text = "[[variant]]\nname = \"a\"\ncommand = [\"vllm\", \"--api-key\", \"sk-123456\", \"--hf-token=${T}\"]\nenv = { HF_TOKEN = \"hf_abcdef\", A = \"b\" }\n";
    let written = plan(text).unwrap().to_toml().unwrap();
    assert!(!written.contains("sk-123456") && !written.contains("hf_abcdef"), "{written}");
    assert!(written.contains("${T}") && written.contains("A = \"b\""), "{written}");
    let start = plan(text).unwrap().variants[0].start().unwrap();
    let ready = start.expand(|name| (name == "T").then(|| "t-654321".to_owned())).unwrap();
    assert_eq!(ready.command, ["vllm", "--api-key", "sk-123456", "--hf-token=t-654321"]);
    assert!(["sk-123456", "hf_abcdef", "t-654321"].iter().all(|s| ready.secrets.contains(&(*s).to_owned())));
    assert!(start.expand(|_| None).unwrap_err().contains("${T}, which is not set"));
    let masked = Plan::from_text(&written).unwrap().variants[0].start().unwrap();
    let e = masked.expand(|_| Some("t".into())).unwrap_err();
    assert!(e.contains("in place of a secret"), "{e}");
}
