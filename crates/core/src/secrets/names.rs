//! Names of options, variables, headers and fields whose values are secrets.

/// Words that name a secret: as the last one of an option, and as any one of a variable.
const WORDS: [&str; 10] = [
    "key",
    "apikey",
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "credential",
    "credentials",
    "bearer",
];

/// What stands before `token` where one of a vocabulary is meant, or what one costs: `--eos-token`, `cost-per-token`.
const NO_SECRET: [&str; 18] = [
    "eos",
    "bos",
    "pad",
    "unk",
    "sep",
    "cls",
    "mask",
    "image",
    "stop",
    "start",
    "end",
    "special",
    "per",
    "next",
    "think",
    "reasoning",
    "tool",
    "begin",
];

/// Whether anything of this name, a header or a field of the body, carries a secret.
pub fn is_secret(name: &str) -> bool {
    let plain = plain(name);
    ["authorization", "apikey", "secret", "password", "credential"].iter().any(|part| plain.contains(part))
}

/// Whether a header of this name usually carries a secret. Fields of the body may well end alike (`prompt_cache_key`).
pub fn is_secret_header(name: &str) -> bool {
    let plain = plain(name);
    is_secret(name)
        || plain.contains("cookie")
        || ["key", "token", "auth"].iter().any(|end| plain.ends_with(end))
}

/// The letters and digits of a name, in lower case.
pub fn plain(name: &str) -> String {
    name.to_ascii_lowercase().chars().filter(char::is_ascii_alphanumeric).collect()
}

/// The words of a name, in small letters.
fn words(name: &str) -> impl DoubleEndedIterator<Item = String> + '_ {
    name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty()).map(str::to_ascii_lowercase)
}

fn is(word: &str) -> bool {
    WORDS.contains(&word)
}

/// Whether an option or a field of this name carries a secret; of a variable (`is_variable`) any of its words says so.
pub fn is_named(name: &str) -> bool {
    let name = name.trim_matches(['"', '\'', ':', '\\']);
    // Flags that name a file or a variable.
    if name.ends_with("-env") || name.ends_with("-file") {
        return false;
    }
    let last = || words(name).next_back().is_some_and(|w| is(&w));
    !of_vocabulary(name) && (is_variable(name) || last() || is_secret_header(name) || name == "-hft")
}

fn of_vocabulary(name: &str) -> bool {
    let mut last = words(name).rev();
    last.next().as_deref() == Some("token") && last.next().is_some_and(|w| NO_SECRET.contains(&w.as_str()))
}

/// Whether only the end of a name says so, and it may well be another word: `PGPASS`, but `TWO_PASS`, too.
pub(super) fn is_likely(name: &str) -> bool {
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    let other = ["bypass", "compass", "askpass", "oldpwd"].iter().any(|end| plain.ends_with(end));
    !other && plain != "pwd" && ["pass", "pwd"].iter().any(|end| plain.ends_with(end))
}

/// Whether a name is that of a variable of the environment, and one of its words names a secret: `AWS_ACCESS_KEY_ID`.
fn is_variable(name: &str) -> bool {
    let form = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    name.chars().all(form) && words(name).any(|w| is(&w))
}

/// Whether a value that is given to a name is a secret: a switch or a small number is none.
pub(super) fn holds(name: &str, value: &str) -> bool {
    let value = value.trim_matches(['"', '\'']);
    !value.is_empty() && (is_named(name) || (is_likely(name) && value.len() >= 4)) && !is_switch(value)
}

/// The same of a variable of the environment, whatever its letters.
pub fn variable_holds(name: &str, value: &str) -> bool {
    let named = !of_vocabulary(name) && words(name).any(|w| is(&w));
    holds(name, value) || (named && !value.is_empty() && !is_switch(value))
}

/// The same of a parameter in the query of a URL, which may be signed.
pub(super) fn parameter_holds(name: &str, value: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    holds(name, value) || (!value.is_empty() && (lower == "sig" || lower.ends_with("signature")))
}

/// What switches something, or counts.
pub fn is_switch(value: &str) -> bool {
    let number = value.len() < 4 && value.bytes().all(|b| b.is_ascii_digit());
    let words = ["true", "false", "yes", "no", "on", "off", "none", "null", "auto"];
    number || words.contains(&&*value.to_ascii_lowercase())
}

/// Whether a text says where a value is to be found, and is none itself: `${HF_TOKEN}`, `Bearer $KEY`, `$(cat key)`.
pub fn refers(value: &str) -> bool {
    let value = value.trim_matches(['"', '\'', '\\', ';', ' ']);
    if let Some(command) = value.strip_prefix("$(").or_else(|| value.strip_prefix('`')) {
        return !["echo", "printf"].iter().any(|says| command.trim_start().starts_with(says));
    }
    let (mut left, mut rest, mut named) = (String::new(), value, false);
    while let Some(at) = rest.find('$') {
        left.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let Some(length) = variable(after) else {
            left.push('$');
            rest = after;
            continue;
        };
        (named, rest) = (true, &after[length..]);
    }
    left.push_str(rest);
    // What stands beside it is no more than `Bearer` and what holds two of them together.
    let word = |w: &&str| !w.is_empty() && !is_scheme(w);
    let letters: usize = left.split(|c: char| !c.is_alphanumeric()).filter(word).map(str::len).sum();
    named && letters < 4
}

/// The length of the name that follows a dollar: `{NAME}`, `NAME` in capital letters, or a digit.
fn variable(text: &str) -> Option<usize> {
    if let Some(inner) = text.strip_prefix('{') {
        let end = inner.find('}')?;
        let name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        return (end > 0 && inner[..end].chars().all(name)).then_some(end + 2);
    }
    let name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let length = text.find(|c| !name(c)).unwrap_or(text.len());
    let goes_on = text[length..].starts_with(|c: char| c.is_alphanumeric());
    (length > 0 && !goes_on).then_some(length)
}

/// Whether a word says how a key is handed over, which comes after it.
pub(super) fn is_scheme(word: &str) -> bool {
    ["bearer", "basic", "digest", "token", "negotiate"].contains(&&*word.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What servers are really started with: none of it is masked, or the report and a resumed sweep would miss it.
    #[test]
    fn names_of_harmless_flags_and_variables_are_none() {
        for name in [
            "--max-num-seqs",
            "--max-num-batched-tokens",
            "--served-model-name",
            "--tokenizer",
            "--tokenizer-mode",
            "--skip-tokenizer-init",
            "--max-tokens",
            "--eos-token",
            "--eos-token-id",
            "--image-token-id",
            "--kv-cache-dtype",
            "--ssl-keyfile",
            "--api-key-file",
            "--api-key-env",
            "--return-tokens-as-token-ids",
            "--long-prefill-token-threshold",
            "--kv-transfer-config",
            "tokenizer.ggml.add_bos_token",
        ] {
            assert!(!holds(name, "some-value"), "{name}");
        }
        for name in [
            "EOS_TOKEN",
            "HF_HOME",
            "CUDA_VISIBLE_DEVICES",
            "VLLM_ATTENTION_BACKEND",
            "TOKENIZERS_PARALLELISM",
            "MAX_TOKENS",
            "NCCL_DEBUG",
            "SSH_AUTH_SOCK",
            "XAUTHORITY",
            "GIT_ASKPASS",
            "PGPASSFILE",
            "PWD",
            "OLDPWD",
            "PYTHONHASHSEED",
        ] {
            assert!(!variable_holds(name, "some-value") && !holds(name, "some-value"), "{name}");
        }
        for name in ["USE_AUTH", "TWO_PASS", "HF_HUB_DISABLE_IMPLICIT_TOKEN"] {
            assert!(!variable_holds(name, "1") && !variable_holds(name, "true"), "{name} switches something");
        }
    }

    #[test]
    fn names_of_secrets_are_known() {
        for name in [
            "HF_TOKEN",
            "HFTOKEN",
            "MYAPITOKEN",
            "OPENAIKEY",
            "BASIC_AUTH",
            "PGPASS",
            "PGPASSWORD",
            "DB_PASS",
            "MYSQL_PWD",
            "AWS_ACCESS_KEY_ID",
            "VLLM_API_KEY",
            "--api-key",
            "--hf-token",
            "-hft",
            "--admin-api-key",
            "x-api-key",
            "Cookie",
        ] {
            assert!(variable_holds(name, "hunter2"), "{name}");
        }
        assert!(parameter_holds("sig", "x") && parameter_holds("X-Amz-Signature", "x"));
        assert!(!parameter_holds("collect[]", "cpu"));
    }

    #[test]
    fn what_names_a_variable_is_no_secret() {
        for (text, want) in [
            ("${HF_TOKEN}", true),
            ("$KEY", true),
            ("\"$0\"", true),
            ("Bearer ${KEY}", true),
            ("${A}:${B}", true),
            ("$(cat /run/key)", true),
            ("$(echo hunter2", false),
            ("${KEY:-hunter2}", false),
            ("$ecret", false),
            ("$Secret", false),
            ("hunter2${A}", false),
            ("hunter2", false),
            ("", false),
        ] {
            assert_eq!(refers(text), want, "{text}");
        }
    }
}
