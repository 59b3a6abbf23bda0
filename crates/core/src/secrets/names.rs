//! Names of options, variables, headers and fields whose values are secrets.

/// Words that mark a secret: as the last word of an option, or any word of a variable.
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

/// Words before `token` that mean a token of a vocabulary or a price per token: `--eos-token`, `cost-per-token`.
const VOCABULARY: [&str; 18] = [
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

/// Returns true if a header or body field of this name carries a secret.
pub fn is_secret(name: &str) -> bool {
    let plain = normalized(name);
    ["authorization", "apikey", "secret", "password", "credential"].iter().any(|part| plain.contains(part))
}

/// Returns true if a header of this name usually carries a secret. Not for body fields, where such endings are harmless
/// (`prompt_cache_key`).
pub fn is_secret_header(name: &str) -> bool {
    let plain = normalized(name);
    is_secret(name)
        || plain.contains("cookie")
        || ["key", "token", "auth"].iter().any(|end| plain.ends_with(end))
}

/// Returns the letters and digits of a name, in lower case.
pub fn normalized(name: &str) -> String {
    name.to_ascii_lowercase().chars().filter(char::is_ascii_alphanumeric).collect()
}

/// Splits a name into lower-case words.
fn words(name: &str) -> impl DoubleEndedIterator<Item = String> + '_ {
    name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty()).map(str::to_ascii_lowercase)
}

fn is_secret_word(word: &str) -> bool {
    WORDS.contains(&word)
}

/// Returns true if an option or field of this name carries a secret. For a variable (`is_variable`) any of its words
/// may say so.
pub fn is_named(name: &str) -> bool {
    let name = name.trim_matches(['"', '\'', ':', '\\']);
    // Options that take the name of a file or variable, not the secret itself.
    if name.ends_with("-env") || name.ends_with("-file") {
        return false;
    }
    let last = || words(name).next_back().is_some_and(|w| is_secret_word(&w));
    !is_vocabulary_token(name) && (is_variable(name) || last() || is_secret_header(name) || name == "-hft")
}

fn is_vocabulary_token(name: &str) -> bool {
    let mut last = words(name).rev();
    last.next().as_deref() == Some("token") && last.next().is_some_and(|w| VOCABULARY.contains(&w.as_str()))
}

/// Returns true for names that end in `pass` or `pwd`, which may be a secret (`PGPASS`) or not (`TWO_PASS`).
pub(super) fn is_likely(name: &str) -> bool {
    let plain = normalized(name);
    let other = ["bypass", "compass", "askpass", "oldpwd"].iter().any(|end| plain.ends_with(end));
    !other && plain != "pwd" && ["pass", "pwd"].iter().any(|end| plain.ends_with(end))
}

/// Returns true for the name of an environment variable with a secret word: `AWS_ACCESS_KEY_ID`.
fn is_variable(name: &str) -> bool {
    let form = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    name.chars().all(form) && words(name).any(|w| is_secret_word(&w))
}

/// Returns true if the value given to `name` is a secret. Switches and small numbers are not.
pub(super) fn holds_secret(name: &str, value: &str) -> bool {
    let value = value.trim_matches(['"', '\'']);
    !value.is_empty() && (is_named(name) || (is_likely(name) && value.len() >= 4)) && !is_switch(value)
}

/// Returns true if the value of an environment variable is a secret; its name may be in any case.
pub(super) fn variable_holds(name: &str, value: &str) -> bool {
    let named = !is_vocabulary_token(name) && words(name).any(|w| is_secret_word(&w));
    holds_secret(name, value) || (named && !value.is_empty() && !is_switch(value))
}

/// Returns true if the value of a URL query parameter is a secret, including signatures of signed URLs.
pub(super) fn parameter_holds(name: &str, value: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    holds_secret(name, value) || (!value.is_empty() && (lower == "sig" || lower.ends_with("signature")))
}

/// Returns true if a secret is unlikely to occur with another meaning, unlike a switch, a port number or a few letters.
pub fn is_distinctive(secret: &str) -> bool {
    let number = secret.len() < 8 && secret.bytes().all(|b| b.is_ascii_digit());
    secret.len() >= 4 && !number && !is_switch(secret)
}

/// Returns true for a boolean-like word or a number below four digits.
fn is_switch(value: &str) -> bool {
    let number = value.len() < 4 && value.bytes().all(|b| b.is_ascii_digit());
    let words = ["true", "false", "yes", "no", "on", "off", "none", "null", "auto"];
    number || words.contains(&&*value.to_ascii_lowercase())
}

/// Returns true if a text only refers to a value stored elsewhere: `${HF_TOKEN}`, `Bearer $KEY`, `$(cat key)`.
pub(super) fn is_reference(value: &str) -> bool {
    let value = value.trim_matches(['"', '\'', '\\', ';', ' ']);
    if let Some(command) = value.strip_prefix("$(").or_else(|| value.strip_prefix('`')) {
        return !["echo", "printf"].iter().any(|prints| command.trim_start().starts_with(prints));
    }
    let (mut left, mut rest, mut any_variable) = (String::new(), value, false);
    while let Some(at) = rest.find('$') {
        left.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let Some(length) = variable_length(after) else {
            left.push('$');
            rest = after;
            continue;
        };
        (any_variable, rest) = (true, &after[length..]);
    }
    left.push_str(rest);
    // Besides variables only a scheme such as `Bearer` and short separators may remain.
    let word = |w: &&str| !w.is_empty() && !is_scheme(w);
    let letters: usize = left.split(|c: char| !c.is_alphanumeric()).filter(word).map(str::len).sum();
    any_variable && letters < 4
}

/// Returns the length of the variable name after a dollar sign: `{NAME}`, `NAME` in capital letters, or a digit.
fn variable_length(text: &str) -> Option<usize> {
    if let Some(inner) = text.strip_prefix('{') {
        let end = inner.find('}')?;
        let name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        return (end > 0 && inner[..end].chars().all(name)).then_some(end + 2);
    }
    let name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let length = text.find(|c| !name(c)).unwrap_or(text.len());
    let continues = text[length..].starts_with(|c: char| c.is_alphanumeric());
    (length > 0 && !continues).then_some(length)
}

/// Returns true for an authentication scheme, which the key follows.
pub(super) fn is_scheme(word: &str) -> bool {
    ["bearer", "basic", "digest", "token", "negotiate"].contains(&&*word.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Arguments of real servers: if one were masked, the report and a resumed sweep would lack it.
    #[test]
    fn harmless_names_are_not_secrets() {
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
            assert!(!holds_secret(name, "some-value"), "{name}");
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
            assert!(!variable_holds(name, "some-value") && !holds_secret(name, "some-value"), "{name}");
        }
        for name in ["USE_AUTH", "TWO_PASS", "HF_HUB_DISABLE_IMPLICIT_TOKEN"] {
            assert!(!variable_holds(name, "1") && !variable_holds(name, "true"), "{name} is a switch");
        }
    }

    #[test]
    fn names_of_secrets_are_detected() {
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
    fn references_to_variables_are_not_secrets() {
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
            assert_eq!(is_reference(text), want, "{text}");
        }
    }
}
