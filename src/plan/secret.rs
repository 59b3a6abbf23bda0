//! Secrets in the command and the environment of a variant: found by their names, and kept out of every file.

use std::collections::BTreeMap;

/// What stands in the place of a secret.
pub(super) const HIDDEN: &str = "***";

/// The last word of the names of options and variables that hold secrets, and in variables any word.
const WORDS: [&str; 9] =
    ["key", "apikey", "token", "secret", "password", "passwd", "credential", "credentials", "bearer"];

fn words(name: &str) -> impl DoubleEndedIterator<Item = String> + '_ {
    name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty()).map(str::to_ascii_lowercase)
}

fn is(word: &str) -> bool {
    WORDS.contains(&word)
}

/// Whether the value of a variable of this name is taken for a secret.
fn variable(name: &str) -> bool {
    words(name).any(|w| is(&w))
}

/// Whether what follows an argument like `--api-key` is taken for a secret. Of an option the last word counts: that is not so of
/// `--tokenizer`, `--max-num-batched-tokens` or `--eos-token-id`.
fn option(name: &str) -> bool {
    name.starts_with('-') && words(name).next_back().is_some_and(|w| is(&w))
}

/// Whether a text says where a value is to be found, and is none itself: `${HF_TOKEN}`.
fn refers(value: &str) -> bool {
    value.starts_with("${") && value.ends_with('}')
}

/// The place of the value within an argument `--api-key=VALUE` or `NAME=VALUE` that holds a secret.
fn within(argument: &str) -> Option<usize> {
    let (name, value) = argument.split_once('=')?;
    let secret = if name.starts_with('-') {
        option(name)
    } else {
        !name.contains(char::is_whitespace) && variable(name)
    };
    (secret && !value.is_empty() && !refers(value)).then_some(name.len() + 1)
}

/// The password within an argument that is a URL with `user:password@`.
fn in_url(argument: &str) -> Option<(usize, usize)> {
    let after = argument.find("://")? + 3;
    let rest = &argument[after..];
    let host = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let at = rest[..host].rfind('@')?;
    let colon = rest[..at].find(':')?;
    (colon + 1 < at).then_some((after + colon + 1, after + at))
}

/// The secret of each argument of a command, as a part of it, where it has one.
fn in_command(command: &[String]) -> Vec<Option<(usize, usize)>> {
    let mut follows = false;
    let one = |argument: &String| {
        let is_value = std::mem::replace(&mut follows, option(argument) && !argument.contains('='));
        let whole =
            (is_value && !argument.starts_with('-') && !refers(argument)).then_some((0, argument.len()));
        let part = || within(argument).map(|at| (at, argument.len()));
        whole.or_else(part).or_else(|| in_url(argument))
    };
    command.iter().map(one).collect()
}

/// A command as it may be written down.
pub(super) fn hidden_command(command: &[String]) -> Vec<String> {
    let hide = |(argument, part): (&String, Option<(usize, usize)>)| match part {
        Some((from, to)) => format!("{}{HIDDEN}{}", &argument[..from], &argument[to..]),
        None => argument.clone(),
    };
    command.iter().zip(in_command(command)).map(hide).collect()
}

/// Variables as they may be written down.
pub(super) fn hidden_env(env: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let hide = |(name, value): (&String, &String)| {
        let secret = variable(name) && !refers(value) && !value.is_empty();
        (name.clone(), if secret { HIDDEN.to_owned() } else { value.clone() })
    };
    env.iter().map(hide).collect()
}

/// The secrets themselves.
pub(super) fn all(command: &[String], env: &BTreeMap<String, String>) -> Vec<String> {
    let parts = command.iter().zip(in_command(command));
    let of_command =
        parts.filter_map(|(argument, part)| part.map(|(from, to)| argument[from..to].to_owned()));
    let of_env = env.iter().filter(|(name, value)| variable(name) && !refers(value)).map(|(_, v)| v.clone());
    let mut all: Vec<String> = of_command.chain(of_env).filter(|s| !s.is_empty() && s != HIDDEN).collect();
    all.sort();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn argv(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    /// Rows: a command, and as it may be written down.
    #[test]
    fn secrets_of_a_command_are_hidden() {
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
            ("serve http://u:pw@host:1/x?a=b@c", "serve http://u:***@host:1/x?a=b@c"),
            ("serve http://host:1/x@y", "serve http://host:1/x@y"),
        ] {
            assert_eq!(hidden_command(&argv(line)), argv(want), "{line}");
        }
        assert_eq!(all(&argv("vllm --api-key sk-1 http://u:pw@h"), &BTreeMap::new()), ["pw", "sk-1"]);
    }

    #[test]
    fn secrets_of_the_environment_are_hidden() {
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
        let hidden = hidden_env(&env);
        let shown: Vec<&str> = hidden.values().map(String::as_str).collect();
        assert_eq!(shown, ["***", "***", "${OTHER}", "false", "4"]);
        assert_eq!(all(&[], &env), ["a", "hf_1"]);
    }

    proptest! {
        #[test]
        fn nothing_that_was_found_is_left(words in prop::collection::vec("(--api-key|--api-key=[a-z]{4}|[a-zé:/@=-]{0,12}|s[0-9]{6})", 0..8)) {
            let shown = hidden_command(&words);
            prop_assert_eq!(shown.len(), words.len());
            prop_assert_eq!(hidden_command(&shown), shown.clone(), "once is enough");
        }
    }
}
