use super::*;
use crate::Plan;

const PLAN: &str = "name = \"x\"\nserver.url = \"http://127.0.0.1:8000\"\nslo.ttft.p99 = \"200ms\"\n\
                    workload.prompts.synthetic = { input-tokens = { fixed = 9 }, output-tokens = { fixed = 3 } }\n";

fn plan(rest: &str) -> Result<Plan, String> {
    Plan::from_text(&format!("{PLAN}{rest}")).map_err(|e| format!("{e:#}"))
}

/// Cases: the command, the environment, the values that are secrets, and whether the process list shows one.
#[test]
fn values_of_harmless_variables_are_not_secrets() {
    let values = |name: &str| Some(format!("value-of-{}", name.to_lowercase()));
    for (command, env, secrets, exposed) in [
        ("\"vllm\", \"serve\", \"${MODEL}\", \"--port\", \"${PORT}\"", "", &[][..], false),
        ("\"sh\", \"-c\", \"serve ${MODEL} --api-key ${MINE}\"", "", &["value-of-mine"], true),
        ("\"sh\", \"-c\", \"echo ${HF_TOKEN} | serve\"", "", &["value-of-hf_token"], true),
        ("\"serve\", \"${OPENAIKEY}\"", "", &["value-of-openaikey"], true),
        ("\"serve\"", "A = \"${HF_TOKEN}\", HF_HOME = \"${HOME}\"", &["value-of-hf_token"], false),
        ("\"serve\"", "HF_TOKEN = \"${A}\"", &["value-of-a"], false),
    ] {
        let text = format!("[[variant]]\nname = \"a\"\ncommand = [{command}]\nenv = {{ {env} }}\n");
        let start = plan(&text).unwrap().variants[0].start().unwrap();
        let ready = start.expand(values).unwrap();
        assert_eq!(
            (&ready.secrets[..], ready.exposed),
            (&secrets.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>()[..], exposed),
            "{command} {env}"
        );
    }
}

#[test]
fn only_variables_are_expanded() {
    let of = |text: &str| expand(text, &|name| (name == "A").then(|| "1".to_owned()), &mut Vec::new());
    for (text, want) in [
        ("a${A}b${A}", "a1b1"),
        ("{\"x\": ${A}}", "{\"x\": 1}"),
        ("$A ${} ${a b} ${9} ${A", "$A ${} ${a b} ${9} ${A"),
    ] {
        assert_eq!(of(text).unwrap(), want);
    }
    assert!(of("${B}").is_err());
}

#[test]
fn ready_urls_are_paths_or_whole_urls() {
    for (text, base, path) in [
        ("/ready?x=1", None, "/ready?x=1"),
        ("http://127.0.0.1:9/a/b", Some("http://127.0.0.1:9"), "/a/b"),
        ("https://h", Some("https://h"), "/"),
        ("http://h/r?m=a@b", Some("http://h"), "/r?m=a@b"),
        ("/r?max_tokens=9&page=2", None, "/r?max_tokens=9&page=2"),
    ] {
        let url = ReadyUrl::try_from(text.to_owned()).unwrap();
        let (got, rest) = url.parts();
        assert_eq!((got.map(|b| b.to_string()).as_deref(), rest.as_str()), (base, path), "{text}");
    }
    for text in
        ["", "health", "ftp://h/x", "http://u:pw@h/x", "http://", "/ready?token=pw", "http://h/x?api_key=pw"]
            .into_iter()
            .chain([
                "http://h/r?a=1&token=pw",
                "http://h/r?token=pw&m=a@b",
                "/r?token=pw@",
                "/r?api%5Fkey=pw",
            ])
            .chain(["/r#access_token=pw", "http://u:pw@h/r?m=a@b", "/r?sv=1&sig=pw", "/r?x=Bearer%20pw"])
    {
        let e = ReadyUrl::try_from(text.to_owned()).unwrap_err();
        assert!(!e.contains("pw"), "{e}");
    }
}
