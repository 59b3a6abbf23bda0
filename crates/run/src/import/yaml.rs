//! Minimal parser of configuration files as Python writes them: block YAML of maps, lists and plain values. No
//! anchors, no flow style beyond `[]` and `{}`, no multi-line texts: anything else is skipped, so that a wanted key
//! is either found or missing.

use serde_json::{Map, Value};

/// The indentation of a line and its remaining text.
type Line<'a> = (usize, &'a str);

/// Maximum nesting depth.
const DEEPEST: usize = 32;

/// Parses a file; leaves out anything that cannot be parsed.
pub(super) fn read(text: &str) -> Value {
    let shown =
        |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#') && line.trim() != "---";
    let lines: Vec<Line<'_>> = text
        .lines()
        .filter(|line| shown(line))
        .map(|line| (line.len() - line.trim_start_matches(' ').len(), line.trim()))
        .collect();
    let mut rest = lines.as_slice();
    block(&mut rest, 0, 0)
}

/// Parses the map or list whose lines are indented by at least `least`.
fn block(rest: &mut &[Line<'_>], least: usize, depth: usize) -> Value {
    let Some((indent, first)) = rest.first().copied().filter(|(indent, _)| *indent >= least) else {
        return Value::Null;
    };
    if depth > DEEPEST {
        skip(rest, indent);
        return Value::Null;
    }
    if is_entry(first) { list(rest, indent, depth) } else { map(rest, indent, depth) }
}

fn is_entry(line: &str) -> bool {
    line == "-" || line.starts_with("- ")
}

/// Skips all lines indented by at least `indent`.
fn skip(rest: &mut &[Line<'_>], indent: usize) {
    let n = rest.iter().take_while(|(own, _)| *own >= indent).count();
    *rest = &rest[n..];
}

fn list(rest: &mut &[Line<'_>], indent: usize, depth: usize) -> Value {
    let mut entries = Vec::new();
    while let Some((own, line)) = rest.first().copied().filter(|(own, _)| *own >= indent) {
        if own > indent || !is_entry(line) {
            if own == indent {
                break;
            }
            skip(rest, own);
            continue;
        }
        let inner = line[1..].trim_start();
        *rest = &rest[1..];
        if pair(inner).is_none() {
            entries.push(if inner.is_empty() { block(rest, indent + 1, depth + 1) } else { plain(inner) });
            continue;
        }
        // The first key follows the dash on its line, the others are on the lines below.
        let n = rest.iter().take_while(|(own, _)| *own > indent).count();
        let (below, after) = rest.split_at(n);
        let at = indent + line.len() - inner.len();
        let own: Vec<Line<'_>> = std::iter::once((at, inner)).chain(below.iter().copied()).collect();
        entries.push(map(&mut own.as_slice(), at, depth + 1));
        *rest = after;
    }
    Value::Array(entries)
}

fn map(rest: &mut &[Line<'_>], indent: usize, depth: usize) -> Value {
    let mut map = Map::new();
    while let Some((own, line)) = rest.first().copied().filter(|(own, _)| *own >= indent) {
        if own == indent && is_entry(line) {
            break;
        }
        *rest = &rest[1..];
        let Some((key, value)) = pair(line).filter(|_| own == indent) else { continue };
        let value = if !value.is_empty() {
            plain(value)
        } else if rest.first().is_some_and(|(below, line)| *below == indent && is_entry(line)) {
            // A list may have the same indentation as its key.
            list(rest, indent, depth + 1)
        } else {
            block(rest, indent + 1, depth + 1)
        };
        map.insert(key.to_owned(), value);
    }
    Value::Object(map)
}

/// Returns key and value of a line.
fn pair(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(": ").or_else(|| Some((line.strip_suffix(':')?, "")))?;
    let plain = |key: &str| !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || "_-.".contains(c));
    plain(key).then(|| (key, value.trim()))
}

fn plain(text: &str) -> Value {
    match text {
        "null" | "~" => return Value::Null,
        "true" => return Value::Bool(true),
        "false" => return Value::Bool(false),
        "[]" => return Value::Array(Vec::new()),
        "{}" => return Value::Object(Map::new()),
        _ => {}
    }
    let quoted = |q: char| text.strip_prefix(q).and_then(|t| t.strip_suffix(q));
    if let Some(inner) = quoted('"').or_else(|| quoted('\'')) {
        return Value::String(inner.to_owned());
    }
    let number = text.parse::<f64>().ok().filter(|x| x.is_finite()).map(Value::from);
    number.unwrap_or_else(|| Value::String(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn what_python_writes_is_read() {
        let text = "load:\n  type: poisson\n  stages:\n  - rate: 10.0\n    duration: 6\n  - rate: 30.0\n    concurrency_level: null\n  sweep: null\n\
                    # a remark\nserver:\n  base_url: http://127.0.0.1:9102\n  ignore_eos: true\nreport:\n  percentiles:\n  - 0.1\n  - 99\n  empty: {}\n";
        let v = read(text);
        assert_eq!(
            v["load"]["stages"],
            json!([{"rate": 10.0, "duration": 6.0}, {"rate": 30.0, "concurrency_level": null}])
        );
        assert_eq!((&v["load"]["type"], &v["load"]["sweep"]), (&json!("poisson"), &Value::Null));
        assert_eq!(v["server"], json!({"base_url": "http://127.0.0.1:9102", "ignore_eos": true}));
        assert_eq!(v["report"]["percentiles"], json!([0.1, 99.0]));
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "([ ]{0,4}(- )?[a-c]{0,2}:?[ ]?[x0-9\\[\\]{}é\"']{0,3}\n){0,20}") {
            read(&text);
        }

        #[test]
        fn depth_is_bounded(n in 1_usize..400) {
            let text: String = (0..n).map(|i| format!("{}a:\n", " ".repeat(i))).collect();
            read(&text);
            read(&"- ".repeat(n));
        }
    }
}
