//! Detection and masking of secrets in command lines, headers, variables and URLs.

mod command;
mod find;
mod names;

pub use command::{is_secret_value, masked_command, masked_env, register_command, secrets_in_command};
pub use find::{is_key, query_holds_secret};
pub use names::{is_distinctive, is_named, is_secret, is_secret_header, normalized};

use find::{find_in_text, mask};
use names::variable_holds;

/// Replacement for a secret.
pub const MASK: &str = "***";
/// Replacement for the API key of the measured server.
pub const API_KEY_MASK: &str = "[API key]";

/// Largest number of masking passes over a text: masking one secret may reveal another that was read as part of it.
const MAX_PASSES: usize = 8;

/// Masks the keys, tokens and passwords in a command line or other text: values of options, variables, headers, fields
/// and parameters with a secret's name, the word after `Bearer`, keys with the prefix of a well-known service, and
/// users and passwords in URLs. References to a variable (`$KEY`) stay.
pub fn masked(text: &str) -> String {
    let mut text = text.to_owned();
    for _ in 0..MAX_PASSES {
        let next = mask(&text, find_in_text(&text));
        if next == text {
            break;
        }
        text = next;
    }
    text
}

/// Returns true if lines of a plan may hold a secret, so that an error message must not quote them. Prefers false
/// positives.
pub fn suspicious(text: &str) -> bool {
    let names = text.split(|c: char| !c.is_ascii_alphanumeric() && !"-_".contains(c));
    let url = text.split_once("://").is_some_and(|(_, rest)| rest.contains('@'));
    // Arguments in a list read as a command line.
    let plain = text.replace(['[', ']', ',', '"', '\''], " ");
    let found = [text, &plain].iter().any(|text| !find_in_text(text).is_empty());
    url || found || names.into_iter().any(|name| is_secret_header(name) || variable_holds(name, "some-value"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn suspicious_lines_are_detected() {
        for (line, want) in [
            ("api-key = \"hunter2\"", true),
            ("url = \"http://me:hunter2@host\"", true),
            ("command = [\"vllm\", \"--api-key\", \"hunter2\"", true),
            ("env = { HF_TOKEN = \"hunter2\" }", true),
            ("headers = { authorization = 7 }", true),
            ("notes = \"sk-abcdefghijklmnop\"", true),
            ("mesure = \"3s\"", false),
            ("url = \"ftp://host\"", false),
            ("input-tokens = { fixed = 0 }", false),
            ("", false),
        ] {
            assert_eq!(suspicious(line), want, "{line}");
        }
    }

    #[test]
    fn secrets_are_masked_and_other_text_stays() {
        for (text, want) in [
            ("vllm serve m --api-key hunter2 --port 8000", "vllm serve m --api-key *** --port 8000"),
            ("vllm serve m --api-key=hunter2", "vllm serve m --api-key=***"),
            ("serve --api-key \"two words\" -x", "serve --api-key *** -x"),
            ("HF_TOKEN=hf_abc VLLM_API_KEY=x serve", "HF_TOKEN=*** VLLM_API_KEY=*** serve"),
            ("serve --api-key $KEY", "serve --api-key $KEY"),
            ("serve --api-key $ecret1", "serve --api-key ***"),
            ("OPENAI_API_KEY=$KEY serve", "OPENAI_API_KEY=$KEY serve"),
            (
                "serve --hf-token abc --max-num-batched-tokens 8192",
                "serve --hf-token *** --max-num-batched-tokens 8192",
            ),
            ("curl -H 'authorization: Bearer abc'", "curl -H 'authorization: Bearer ***'"),
            ("curl -H \"Authorization: Basic abc def\" x", "curl -H \"Authorization: Basic ***\" x"),
            ("curl -H 'X-Api-Key: a b' x", "curl -H 'X-Api-Key: ***' x"),
            ("curl -HX-Api-Key:abc x", "curl -HX-Api-Key:*** x"),
            ("mysql --pass hunter2 -x", "mysql --pass *** -x"),
            (
                "serve --single-pass 3 --two-pass --bypass hunter2",
                "serve --single-pass 3 --two-pass --bypass hunter2",
            ),
            ("curl -u me:pw http://h", "curl -u me:*** http://h"),
            ("docker run -u 1000:1000 -p 80:80 my/img:tag", "docker run -u 1000:1000 -p 80:80 my/img:tag"),
            ("curl http://h/?a=1&token=abc&b=2", "curl http://h/?a=1&token=***&b=2"),
            ("curl http://h/r?token=abc@", "curl http://h/r?token=***"),
            ("mail http://h/r?m=a@b", "mail http://h/r?m=a@b"),
            ("get http://h:80/x@y redis://:a/b@h", "get http://h:80/x@y redis://***@h"),
            ("pip install git+ssh://git@host/x", "pip install git+ssh://git@host/x"),
            ("DB=postgres://u:$PW@h serve", "DB=postgres://u:$PW@h serve"),
            ("docker run -e API_KEY=abc -e MODE=x", "docker run -e API_KEY=*** -e MODE=x"),
            ("docker run --env=API_KEY=abc", "docker run --env=API_KEY=***"),
            (
                "serve --config '{\"api_key\": \"abc\", \"n\": 1}'",
                "serve --config '{\"api_key\": \"***\", \"n\": 1}'",
            ),
            ("EXTRA='--api-key abc -x' serve", "EXTRA='--api-key *** -x' serve"),
            (
                "serve --x '{\"rope_scaling\":{\"factor\":4.0},\"eos_token\":\"</s>\"}'",
                "serve --x '{\"rope_scaling\":{\"factor\":4.0},\"eos_token\":\"</s>\"}'",
            ),
            ("authorization: Bearer abc def", "authorization: Bearer *** def"),
            ("use sk-abcdefghijklmnopqrst here", "use *** here"),
            ("pull https://me:pass@host/x@y", "pull https://***@host/x@y"),
            ("it's run with --api-key hunter2", "it's run with --api-key ***"),
            ("run 'serve --api-key hunter2 -x'", "run 'serve --api-key *** -x'"),
            ("\"unclosed --api-key hunter2", "\"unclosed --api-key ***"),
            ("--tokenizer t --tensor-parallel-size 4", "--tokenizer t --tensor-parallel-size 4"),
            ("--api-key --port 8000", "--api-key --port 8000"),
            ("  spaces   stay ", "  spaces   stay "),
            ("", ""),
        ] {
            assert_eq!(masked(text), want, "{text}");
        }
    }

    proptest! {
        #[test]
        fn masking_is_idempotent(words in prop::collection::vec(
            "(--api-key|-u|curl|Bearer|authorization:|[a-zé\"'=:/@?&;-]{0,14}|HF_TOKEN=[a-z\"' ]{0,6}|\"token\":|http://[a-z:@/]{0,9}|\\$\\{A\\})", 0..9
        )) {
            let text = words.join(" ");
            let shown = masked(&text);
            prop_assert_eq!(masked(&shown), shown.clone(), "{}", text);
        }
    }
}
