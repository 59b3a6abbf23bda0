//! Parser errors that quote the line of the plan, unless it may contain a secret.

use super::parser_message::reworded;
use goodput_core::secrets;
use std::ops::Range;

/// Byte offset beyond which an error is shown without its line, because finding the start of the entry parses all text before it.
const MAX_OFFSET: usize = 64 * 1024;
/// Maximum number of lines between the start of an entry and the error.
const MAX_LINES: usize = 200;
/// Size in bytes above which an entry is neither searched for secrets nor quoted.
const MAX_ENTRY: usize = 4 * 1024;
/// Size in characters to which a message is cut, because it may quote a long value.
const MAX_MESSAGE: usize = 400;

/// Formats a parser error with its position. It quotes the line unless the entry may contain a secret, or the message refuses one (it then
/// mentions `api-key-env`); in these cases the values that the message quotes are removed too.
pub(super) fn shown(text: &str, error: &toml::de::Error) -> String {
    let message = error.message();
    let Some(span) = error.span() else { return reworded(&without_values(message)) };
    let harmless = |entry: &str| entry.len() <= MAX_ENTRY && !secrets::suspicious(entry);
    if !message.contains("api-key-env") && entry(text, &span).is_some_and(harmless) {
        let text = error.to_string();
        return match text.trim_end().strip_suffix(message.trim_end()) {
            Some(quoted) => format!("{quoted}{}", reworded(message)),
            None => text,
        };
    }
    let before = text.get(..span.start).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("line {line}, column {column}: {}", truncated(&reworded(&without_values(message)), MAX_MESSAGE))
}

/// Cuts a text after `max` characters.
fn truncated(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns the lines from the start of the entry that contains `span` to the end of the span: in an entry of several lines, a key in one line
/// may mark the value in another as a secret. `None` if the start is too far away.
fn entry<'a>(text: &'a str, span: &Range<usize>) -> Option<&'a str> {
    let before = text.get(..span.start).filter(|before| before.len() <= MAX_OFFSET)?;
    let to = text.get(span.end..)?.find('\n').map_or(text.len(), |at| span.end + at);
    // The text before an entry parses as TOML by itself.
    let line = before.rfind('\n').map_or(0, |at| at + 1);
    let begins = before[..line].rmatch_indices('\n').map(|(at, _)| at + 1).chain([0]);
    let from = begins.take(MAX_LINES).find(|from| toml::from_str::<toml::Table>(&text[..*from]).is_ok())?;
    text.get(from..to)
}

/// Replaces the strings that a message quotes: `invalid type: string "…", expected a map`.
fn without_values(message: &str) -> String {
    let (mut out, mut rest) = (String::new(), message);
    while let Some(at) = rest.find("string \"") {
        let from = at + "string \"".len();
        let ends = |(i, _): &(usize, _)| {
            let slashes = rest[from..from + i].bytes().rev().take_while(|b| *b == b'\\').count();
            slashes % 2 == 0
        };
        let Some((length, _)) = rest[from..].match_indices('"').find(ends) else {
            out.push_str(&rest[..from]);
            return out + "…";
        };
        out.push_str(&rest[..from]);
        out.push('…');
        rest = &rest[from + length..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plan;

    const HEAD: &str = "name = \"x\"\nslo.ttft.p99 = \"200ms\"\n\
                        workload.prompts.synthetic = { input-tokens = { fixed = 9 }, output-tokens = { fixed = 3 } }\n";

    fn error(rest: &str) -> String {
        let text = format!("{HEAD}{rest}");
        shown(&text, &Plan::parse(&text).unwrap_err())
    }

    /// Cases: the start of a plan, the rest with a secret and a mistake, and the line that the error names.
    #[test]
    fn an_entry_with_a_secret_is_not_quoted() {
        let server = "[server]\nurl = \"http://127.0.0.1:1\"\n";
        let variant = "[server]\nurl = \"http://127.0.0.1:1\"\n[[variant]]\nname = \"v\"\n";
        for (start, rest, line) in [
            (variant, "command = [\"vllm\", \"--api-key\",\n\"hunter2\", 7]\n", "line 9,"),
            (variant, "command = [\n  \"vllm\",\n  \"--api-key\",\n  \"hunter2\" 7\n]\n", "line 11,"),
            (variant, "command = [\n\"curl\", \"-u\",\n\"me:hunter2\", 7]\n", ""),
            (variant, "env = \"HF_TOKEN=hunter2\"\n", "line 8,"),
            (variant, "command = \"vllm --api-key hunter2\"\n", "line 8,"),
            (variant, "env = {\n  HF_TOKEN =\n    \"hunter2\" \"x\" }\n", ""),
            (server, "headers = { x-api-key = \"\"\"\nhunter2\nhunter2", ""),
            (server, "headers = { x-api-key = \"\"\"\nhunter2\n\n[search]\nrates = [1]\n", ""),
            (server, "body = { api_key =\n[\n\"hunter2\",,\n] }\n", ""),
        ] {
            let message = error(&format!("{start}{rest}"));
            assert!(!message.contains("hunter2"), "{rest}: {message}");
            assert!(message.contains("line ") && message.contains(line), "{rest}: {message}");
        }
    }

    #[test]
    fn an_entry_without_secrets_is_quoted() {
        let key = "[server]\nurl = \"http://127.0.0.1:1\"\napi-key-env = \"A_KEY\"\n";
        for (rest, quoted) in [
            ("[[variant]]\nname = \"v\"\ncommand = [\n  \"vllm\",\n  \"serve\", 7]\n", "|   \"serve\", 7]"),
            ("[step]\nsettle = \"ten\"\n", "| settle = \"ten\""),
            ("[search]\nrates = [\n  1,\n  -2,\n]\n", "| "),
        ] {
            let message = error(&format!("{key}{rest}"));
            assert!(message.contains(quoted) && message.contains('^'), "{rest}: {message}");
        }
    }

    #[test]
    fn long_entries_are_not_quoted() {
        let long = "\"key\":b".repeat(200_000);
        for rest in [
            format!("[step]\nsettle = '{long}'"),
            format!("notes = '{long}'\n[step]\nsettle = 1"),
            "x = [\n".repeat(50_000),
        ] {
            let message = error(&rest);
            assert!(message.contains("line ") && message.len() < 1000, "{message}");
        }
    }

    #[test]
    fn quoted_values_are_removed_from_messages() {
        for (message, want) in [
            ("invalid type: string \"a\\\"b\", expected a map", "invalid type: string \"…\", expected a map"),
            ("string \"a\" and string \"b\\\\\".", "string \"…\" and string \"…\"."),
            ("string \"never closed", "string \"…"),
            ("missing field `x`", "missing field `x`"),
        ] {
            assert_eq!(without_values(message), want);
        }
    }
}
