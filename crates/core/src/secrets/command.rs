//! Detection and masking of secrets in the command that starts a server, and in its environment variables.

use super::find::{ArgumentScanner, find_in_value, mask, secret_values};
use super::names::{is_distinctive, is_reference, variable_holds};
use super::{MASK, masked};
use crate::redact::{Redactor, register_secret};
use std::collections::BTreeMap;
use std::ops::Range;

/// Returns true if the value of `${name}` counts as a secret, by its name or by its context in `text`.
pub fn is_secret_value(name: &str, value: &str, text: &str) -> bool {
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
pub fn masked_command(command: &[String], env: &BTreeMap<String, String>) -> Vec<String> {
    let known = detected(command, env);
    let hide = |(argument, ranges)| known.redact(&mask(argument, ranges)).into_owned();
    in_command(command).map(hide).collect()
}

/// Masks the secrets in the variables of a command.
pub fn masked_env(command: &[String], env: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let known = detected(command, env);
    let hide = |(name, value): (&String, &String)| {
        let shown = mask(value, in_variable(name, value));
        (name.clone(), known.redact(&shown).into_owned())
    };
    env.iter().map(hide).collect()
}

/// Returns a redactor that masks each detected secret wherever it occurs in the command and its variables.
fn detected(command: &[String], env: &BTreeMap<String, String>) -> Redactor {
    let all = secrets_in_command(command, env);
    Redactor::new(all.iter().filter(|secret| is_distinctive(secret)).map(|secret| (secret.as_str(), MASK)))
}

/// Returns the secrets of a command and its variables, sorted and without duplicates.
pub fn secrets_in_command(command: &[String], env: &BTreeMap<String, String>) -> Vec<String> {
    let of_env = env.iter().map(|(name, value)| (value.as_str(), in_variable(name, value)));
    let mut all: Vec<String> =
        in_command(command).chain(of_env).flat_map(|(text, ranges)| secret_values(text, &ranges)).collect();
    all.sort();
    all.dedup();
    all
}

/// Registers the secrets of a command and its variables for redaction in every message and file.
pub fn register_command(command: &[String], env: &BTreeMap<String, String>) {
    for secret in secrets_in_command(command, env).into_iter().filter(|secret| is_distinctive(secret)) {
        register_secret(&secret, MASK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn argv(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
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
            assert_eq!(masked_command(&command, &BTreeMap::new()), want, "{command:?}");
            let found = secrets_in_command(&command, &BTreeMap::new());
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
            assert_eq!(masked_command(&argv(line), &BTreeMap::new()), argv(line));
            let script = vec!["sh".to_owned(), "-c".to_owned(), format!("exec {line} --api-key \"$KEY\"")];
            assert_eq!(masked_command(&script, &BTreeMap::new()), script);
            assert!(secrets_in_command(&script, &BTreeMap::new()).is_empty(), "{line}");
        }
        let json = "{\"method\":\"ngram\",\"num_speculative_tokens\":4,\"eos_token\":\"</s>\"}";
        let command = ["vllm", "--speculative-config", json].map(str::to_owned);
        assert_eq!(masked_command(&command, &BTreeMap::new()), command);
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
            assert_eq!(masked_env(&[], &env)[name], want, "{name}");
            assert_eq!(
                secrets_in_command(&[], &env).is_empty(),
                value == want,
                "{name}: {:?}",
                secrets_in_command(&[], &env)
            );
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
        let hidden = masked_env(&[], &env);
        let shown: Vec<&str> = hidden.values().map(String::as_str).collect();
        assert_eq!(shown, ["***", "***", "${OTHER}", "false", "4"]);
        assert_eq!(secrets_in_command(&[], &env), ["a", "hf_1"]);
    }

    proptest! {
        #[test]
        fn masking_twice_changes_nothing(words in prop::collection::vec("(--api-key|--api-key=[a-z]{4}|[a-zé:/@=-]{0,12}|s[0-9]{6})", 0..8)) {
            let shown = masked_command(&words, &BTreeMap::new());
            prop_assert_eq!(shown.len(), words.len());
            prop_assert_eq!(masked_command(&shown, &BTreeMap::new()), shown.clone());
        }
    }
}
