//! Command lines without what they hold of secrets.

use super::extras::is_secret_header;
use std::ops::Range;

/// What stands in place of a secret.
const MASK: &str = "***";

/// A command line, or any other text, in which keys, tokens and passwords are masked: the value of an option or variable whose name says
/// so, what follows `Bearer`, keys that begin as those of well-known services do, and passwords in URLs.
pub fn masked(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut end, mut next) = (0, false);
    for range in words(text) {
        let word = &text[range.clone()];
        out.push_str(&text[end..range.start]);
        end = range.end;
        let bare = word.trim_matches(['"', '\'']);
        if std::mem::take(&mut next) && !bare.starts_with('-') {
            // `authorization: Bearer key`: the key is still to come.
            next = bare == "Bearer";
            out.push_str(if next { word } else { MASK });
            continue;
        }
        out.push_str(&one(word));
        let option = bare.starts_with('-') && !bare.contains('=') && secret(bare);
        next = option || bare == "Bearer" || (bare.ends_with(':') && secret(bare));
    }
    out.push_str(&text[end..]);
    out
}

/// A word that stands for itself.
fn one(word: &str) -> String {
    let bare = word.trim_matches(['"', '\'']);
    if let Some((name, value)) =
        word.split_once('=').filter(|(name, value)| secret(name) && !value.is_empty())
    {
        // The name of a variable that holds the key is none.
        let whole = if value.starts_with('$') { value } else { MASK };
        return format!("{name}={whole}");
    }
    let known = ["sk-", "hf_", "nvapi-", "ghp_", "AKIA"].iter().any(|start| bare.starts_with(start));
    // A header in quotes.
    let header = bare.split_once(':').is_some_and(|(name, _)| !name.contains('/') && secret(name))
        && bare.contains(' ');
    if header || (known && bare.len() >= 16) {
        return MASK.into();
    }
    // What quotes enclose may be a command line itself.
    if bare.contains(char::is_whitespace) && bare.len() + 2 == word.len() {
        return format!("{}{}{}", &word[..1], masked(bare), &word[word.len() - 1..]);
    }
    let Some((scheme, rest)) = word.split_once("://") else { return word.to_owned() };
    match rest.split_once('@') {
        Some((user, host)) if !user.contains('/') => format!("{scheme}://{MASK}@{host}"),
        _ => word.to_owned(),
    }
}

/// Whether an option, a variable or a header of this name carries a secret.
fn secret(name: &str) -> bool {
    let name = name.trim_matches(['"', '\'', ':']);
    // Flags that name a file or a variable, and a count of tokens.
    is_secret_header(name) && !name.ends_with("-env") && !name.ends_with("-file")
}

/// Where the words are; white space within quotes belongs to its word. A quote begins a word or a value, and ends: an apostrophe is none.
fn words(text: &str) -> Vec<Range<usize>> {
    let (mut all, mut from, mut quote, mut before) = (Vec::new(), None, None, ' ');
    for (i, c) in text.char_indices() {
        match quote {
            Some(q) => quote = (c != q).then_some(q),
            None if c.is_whitespace() => {
                all.extend(from.take().map(|from| from..i));
                before = c;
                continue;
            }
            None => {
                let begins = from.is_none() || before == '=';
                quote = (begins && matches!(c, '"' | '\'') && text[i + 1..].contains(c)).then_some(c);
            }
        }
        from.get_or_insert(i);
        before = c;
    }
    all.extend(from.map(|from| from..text.len()));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_and_nothing_else() {
        for (text, want) in [
            ("vllm serve m --api-key hunter2 --port 8000", "vllm serve m --api-key *** --port 8000"),
            ("vllm serve m --api-key=hunter2", "vllm serve m --api-key=***"),
            ("serve --api-key \"two words\" -x", "serve --api-key *** -x"),
            ("HF_TOKEN=hf_abc VLLM_API_KEY=x serve", "HF_TOKEN=*** VLLM_API_KEY=*** serve"),
            ("serve --api-key $KEY", "serve --api-key ***"),
            ("OPENAI_API_KEY=$KEY serve", "OPENAI_API_KEY=$KEY serve"),
            (
                "serve --hf-token abc --max-num-batched-tokens 8192",
                "serve --hf-token *** --max-num-batched-tokens 8192",
            ),
            ("curl -H 'authorization: Bearer abc'", "curl -H ***"),
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
}
