//! What an error of the parser shows of a plan: the line, unless it may hold a secret.

use goodput_core::secrets;
use std::ops::Range;

/// A mistake further down than this many bytes is shown by its place alone: to find where its entry begins takes a look at all before it.
const FURTHEST: usize = 64 * 1024;
/// An entry may begin so many lines above the mistake.
const MOST_LINES: usize = 200;
/// Longer entries are quoted by nobody, and not searched for secrets.
const LONGEST: usize = 4 * 1024;
/// What a message quotes besides may be as long as what it is about: the rest of it is left out.
const LONGEST_MESSAGE: usize = 400;

/// An error of the parser with its place. It quotes the line, except where that may hold a secret: by what the entry says up to there, or
/// since the message tells what to write instead of one, and names `api-key-env`. Then the message is without the values that it quotes, too.
pub(super) fn shown(text: &str, error: &toml::de::Error) -> String {
    let message = error.message();
    let Some(span) = error.span() else { return without_values(message) };
    let harmless = |entry: &str| entry.len() <= LONGEST && !secrets::suspicious(entry);
    if !message.contains("api-key-env") && entry(text, &span).is_some_and(harmless) {
        return error.to_string();
    }
    let before = text.get(..span.start).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("line {line}, column {column}: {}", within(&without_values(message), LONGEST_MESSAGE))
}

/// The first so many characters of a text.
fn within(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The lines of a text from where the entry begins that a span lies in, to where the span ends. An entry may have several lines, and the
/// name of what one of them holds may stand in another. `None` where it begins too far away to be looked for.
fn entry<'a>(text: &'a str, span: &Range<usize>) -> Option<&'a str> {
    let before = text.get(..span.start).filter(|before| before.len() <= FURTHEST)?;
    let to = text.get(span.end..)?.find('\n').map_or(text.len(), |at| span.end + at);
    // Before an entry nothing is open: all of it is a plan by itself.
    let line = before.rfind('\n').map_or(0, |at| at + 1);
    let begins = before[..line].rmatch_indices('\n').map(|(at, _)| at + 1).chain([0]);
    let from = begins.take(MOST_LINES).find(|from| toml::from_str::<toml::Table>(&text[..*from]).is_ok())?;
    text.get(from..to)
}

/// A message without the texts that it quotes: `invalid type: string "…", expected a map`.
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

    /// Rows: the rest of a plan that holds a secret and a mistake, and the line that is named.
    #[test]
    fn nothing_of_an_entry_that_holds_a_secret_is_quoted() {
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
            let said = error(&format!("{start}{rest}"));
            assert!(!said.contains("hunter2"), "{rest}: {said}");
            assert!(said.contains("line ") && said.contains(line), "{rest}: {said}");
        }
    }

    #[test]
    fn everything_else_is_quoted() {
        let key = "[server]\nurl = \"http://127.0.0.1:1\"\napi-key-env = \"A_KEY\"\n";
        for (rest, quoted) in [
            ("[[variant]]\nname = \"v\"\ncommand = [\n  \"vllm\",\n  \"serve\", 7]\n", "|   \"serve\", 7]"),
            ("[step]\nsettle = \"ten\"\n", "| settle = \"ten\""),
            ("[search]\nrates = [\n  1,\n  -2,\n]\n", "| "),
        ] {
            let said = error(&format!("{key}{rest}"));
            assert!(said.contains(quoted) && said.contains('^'), "{rest}: {said}");
        }
    }

    #[test]
    fn what_is_long_is_not_searched() {
        let long = "\"key\":b".repeat(200_000);
        for rest in [
            format!("[step]\nsettle = '{long}'"),
            format!("notes = '{long}'\n[step]\nsettle = 1"),
            "x = [\n".repeat(50_000),
        ] {
            let said = error(&rest);
            assert!(said.contains("line ") && said.len() < 1000, "{said}");
        }
    }

    #[test]
    fn values_are_left_out_of_messages() {
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
