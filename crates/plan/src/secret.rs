//! Detection and masking of secrets in the command and the environment of a variant.

use goodput_core::redact::{self, Redactor};
use goodput_core::secrets::{
    self, ArgumentScanner, find_in_value, is_reference, is_switch, masked, variable_holds,
};
use std::collections::BTreeMap;
use std::ops::Range;

/// Mask that replaces a secret.
pub(super) const HIDDEN: &str = secrets::MASK;

/// Returns true if the value of `${name}` counts as a secret, by its name or by its context in `text`.
pub(super) fn is_secret_value(name: &str, value: &str, text: &str) -> bool {
    !value.is_empty() && (variable_holds(name, value) || !masked(text).contains(value))
}

/// Returns each argument of a command with the ranges of its secrets.
fn in_command(command: &[String]) -> impl Iterator<Item = (&str, Vec<Range<usize>>)> {
    let mut line = ArgumentScanner::default();
    command.iter().map(move |argument| (argument.as_str(), line.argument(argument)))
}

/// Returns the ranges of secrets in the value of a variable: the whole value because of the name, or parts because of their form.
fn in_variable(name: &str, value: &str) -> Vec<Range<usize>> {
    let all = variable_holds(name, value) && !is_reference(value);
    if all { std::iter::once(0..value.len()).collect() } else { find_in_value(value) }
}

/// Masks the secrets in a command, including those of its variables `env`.
pub(super) fn hidden_command(command: &[String], env: &BTreeMap<String, String>) -> Vec<String> {
    let known = known(command, env);
    let hide = |(argument, ranges)| known.redact(&secrets::mask(argument, ranges)).into_owned();
    in_command(command).map(hide).collect()
}

/// Masks the secrets in the variables of a command.
pub(super) fn hidden_env(command: &[String], env: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let known = known(command, env);
    let hide = |(name, value): (&String, &String)| {
        let shown = secrets::mask(value, in_variable(name, value));
        (name.clone(), known.redact(&shown).into_owned())
    };
    env.iter().map(hide).collect()
}

/// Returns a redactor that masks each detected secret wherever it occurs in the command and its variables.
fn known(command: &[String], env: &BTreeMap<String, String>) -> Redactor {
    let all = all(command, env);
    Redactor::new(all.iter().filter(|secret| is_rare(secret)).map(|secret| (secret.as_str(), HIDDEN)))
}

/// Returns true if a secret is unlikely to occur with another meaning, unlike a switch, a port number or a few letters.
fn is_rare(secret: &str) -> bool {
    let number = secret.len() < 8 && secret.bytes().all(|b| b.is_ascii_digit());
    secret.len() >= 4 && !number && !is_switch(secret)
}

/// Returns the secrets of a command and its variables, sorted and without duplicates.
pub(super) fn all(command: &[String], env: &BTreeMap<String, String>) -> Vec<String> {
    let of_env = env.iter().map(|(name, value)| (value.as_str(), in_variable(name, value)));
    let mut all: Vec<String> = in_command(command)
        .chain(of_env)
        .flat_map(|(text, ranges)| secrets::secret_values(text, &ranges))
        .collect();
    all.sort();
    all.dedup();
    all
}

/// Registers the secrets of a command and its variables for redaction in every message and file.
pub(super) fn redact(command: &[String], env: &BTreeMap<String, String>) {
    for secret in all(command, env).into_iter().filter(|secret| is_rare(secret)) {
        redact::register_secret(&secret, HIDDEN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn argv(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    /// Cases: a command, and its masked form.
    #[test]
    fn secrets_in_a_command_are_masked() {
        for (line, want) in [
            ("vllm serve m --api-key sk-1 --port 1", "vllm serve m --api-key *** --port 1"),
            ("vllm serve m --api-key=sk-1", "vllm serve m --api-key=***"),
            ("env HF_TOKEN=hf_1 vllm", "env HF_TOKEN=*** vllm"),
            ("serve --api-key ${KEY} --hf-token=${T}", "serve --api-key ${KEY} --hf-token=${T}"),
            ("serve --api-key --port 1", "serve --api-key --port 1"),
            (
                "serve --max-num-batched-tokens 4096 --tokenizer t",
                "serve --max-num-batched-tokens 4096 --tokenizer t",
            ),
            ("serve --eos-token-id 2 --kv-cache-dtype fp8", "serve --eos-token-id 2 --kv-cache-dtype fp8"),
            ("serve http://u:pw@host:1/x?a=b@c", "serve http://***@host:1/x?a=b@c"),
            ("serve http://host:1/x@y", "serve http://host:1/x@y"),
        ] {
            assert_eq!(hidden_command(&argv(line), &BTreeMap::new()), argv(want), "{line}");
        }
        assert_eq!(all(&argv("vllm --api-key sk-1 http://u:pw@h"), &BTreeMap::new()), ["pw", "sk-1", "u:pw"]);
    }

    /// Cases: the arguments, their masked form, and a secret in them.
    #[test]
    fn secrets_in_headers_and_scripts_are_masked() {
        for (command, want, secret) in [
            (
                &["sh", "-c", "exec vllm serve m --api-key hunter2hunter2 --port 8000"][..],
                &["sh", "-c", "exec vllm serve m --api-key *** --port 8000"][..],
                "hunter2hunter2",
            ),
            (
                &["bash", "-lc", "export API_KEY=hunter2;exec vllm serve m"],
                &["bash", "-lc", "export API_KEY=*** vllm serve m"],
                "hunter2",
            ),
            (&["sh", "-c", "vllm --api-key=hunter2 -x"], &["sh", "-c", "vllm --api-key=*** -x"], "hunter2"),
            (
                &["curl", "-H", "Authorization: Bearer hunter2"],
                &["curl", "-H", "Authorization: Bearer ***"],
                "hunter2",
            ),
            (&["curl", "-H", "Authorization:hunter2"], &["curl", "-H", "Authorization:***"], "hunter2"),
            (&["curl", "-H", "x-api-key: two words"], &["curl", "-H", "x-api-key: ***"], "two words"),
            (&["curl", "-u", "me:hunter2", "http://h"], &["curl", "-u", "me:***", "http://h"], "hunter2"),
            (
                &["sh", "-c", "echo hunter2; vllm --api-key hunter2 $HOME"],
                &["sh", "-c", "echo ***; vllm --api-key *** $HOME"],
                "hunter2",
            ),
            (&["vllm", "--api-key", "two words"], &["vllm", "--api-key", "***"], "two words"),
            (&["env", "API_KEY=two words", "vllm"], &["env", "API_KEY=***", "vllm"], "two words"),
            (&["docker", "run", "-e", "HF_TOKEN=a1b2c3"], &["docker", "run", "-e", "HF_TOKEN=***"], "a1b2c3"),
            (
                &["x", "--config", "{\"api_key\":\"a1b2\"}"],
                &["x", "--config", "{\"api_key\":\"***\"}"],
                "a1b2",
            ),
            (&["x", "https://a1b2c3@host/x"], &["x", "https://***@host/x"], "a1b2c3"),
        ] {
            let command: Vec<String> = command.iter().map(|&a| a.to_owned()).collect();
            assert_eq!(hidden_command(&command, &BTreeMap::new()), want, "{command:?}");
            let found = all(&command, &BTreeMap::new());
            assert!(found.iter().any(|s| s == secret), "{command:?}: {found:?}");
        }
    }

    /// A false positive would make the report less useful and a sweep impossible to resume.
    #[test]
    fn harmless_commands_are_not_masked() {
        for line in [
            "vllm serve m --max-num-seqs 64 --max-num-batched-tokens 2048 --served-model-name n --tokenizer t/t",
            "vllm serve m --eos-token </s> --kv-cache-dtype fp8 --ssl-keyfile k.pem --api-key ${KEY}",
            "docker run -u 1000:1000 -p 8000:8000 -v /a:/b --env CUDA_VISIBLE_DEVICES=0,1 vllm/vllm-openai:latest",
            "llama-server --override-kv tokenizer.ggml.add_bos_token=bool:false --hf-repo a/b:Q4_K_M",
            "python -u serve.py --host 0.0.0.0 --dist-init-addr 10.0.0.1:5000 --lora a=b/c",
            "pip install git+ssh://git@host/x http://h:8000/x@y?a=1&page=2",
        ] {
            assert_eq!(hidden_command(&argv(line), &BTreeMap::new()), argv(line));
            let script = vec!["sh".to_owned(), "-c".to_owned(), format!("exec {line} --api-key \"$KEY\"")];
            assert_eq!(hidden_command(&script, &BTreeMap::new()), script);
            assert!(all(&script, &BTreeMap::new()).is_empty(), "{line}");
        }
        let json = "{\"method\":\"ngram\",\"num_speculative_tokens\":4,\"eos_token\":\"</s>\"}";
        let command = ["vllm", "--speculative-config", json].map(str::to_owned);
        assert_eq!(hidden_command(&command, &BTreeMap::new()), command);
    }

    /// Cases: a variable, its value, and the masked value.
    #[test]
    fn secrets_in_variables_are_found_by_name_and_by_form() {
        for (name, value, want) in [
            ("MYAPITOKEN", "hunter2", "***"),
            ("HFTOKEN", "hunter2", "***"),
            ("BASIC_AUTH", "hunter2", "***"),
            ("PGPASS", "hunter2", "***"),
            ("DATABASE_URL", "postgres://u:hunter2@h/db", "postgres://***@h/db"),
            ("EXTRA", "--api-key hunter2 --port 1", "--api-key *** --port 1"),
            ("EXTRA", "--api-key=hunter2 --port 1", "--api-key=*** --port 1"),
            ("HEADER", "x-api-key: hunter2 two", "x-api-key: ***"),
            ("OPENAI", "sk-hunter2hunter2", "***"),
            ("DATABASE_URL", "postgres://u:${PW}@h/db", "postgres://u:${PW}@h/db"),
            ("BASIC_AUTH", "Bearer ${KEY}", "Bearer ${KEY}"),
            ("HF_HOME", "/models", "/models"),
            ("CUDA_VISIBLE_DEVICES", "0,1", "0,1"),
            ("VLLM_ATTENTION_BACKEND", "FLASHINFER", "FLASHINFER"),
            ("TOKENIZERS_PARALLELISM", "false", "false"),
            ("MAX_TOKENS", "2048", "2048"),
            (
                "VLLM_ARGS",
                "--max-num-batched-tokens 2048 --tokenizer t",
                "--max-num-batched-tokens 2048 --tokenizer t",
            ),
            ("USE_AUTH", "true", "true"),
        ] {
            let env = BTreeMap::from([(name.to_owned(), value.to_owned())]);
            assert_eq!(hidden_env(&[], &env)[name], want, "{name}");
            assert_eq!(all(&[], &env).is_empty(), value == want, "{name}: {:?}", all(&[], &env));
        }
    }

    #[test]
    fn secrets_in_several_variables_are_masked() {
        let of = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect::<BTreeMap<_, _>>()
        };
        let env = of(&[
            ("HF_TOKEN", "hf_1"),
            ("AWS_ACCESS_KEY_ID", "a"),
            ("VLLM_CPU_KVCACHE_SPACE", "4"),
            ("TOKENIZERS_PARALLELISM", "false"),
            ("MY_SECRET", "${OTHER}"),
        ]);
        let hidden = hidden_env(&[], &env);
        let shown: Vec<&str> = hidden.values().map(String::as_str).collect();
        assert_eq!(shown, ["***", "***", "${OTHER}", "false", "4"]);
        assert_eq!(all(&[], &env), ["a", "hf_1"]);
    }

    proptest! {
        #[test]
        fn masking_twice_changes_nothing(words in prop::collection::vec("(--api-key|--api-key=[a-z]{4}|[a-zé:/@=-]{0,12}|s[0-9]{6})", 0..8)) {
            let shown = hidden_command(&words, &BTreeMap::new());
            prop_assert_eq!(shown.len(), words.len());
            prop_assert_eq!(hidden_command(&shown, &BTreeMap::new()), shown.clone());
        }
    }
}
