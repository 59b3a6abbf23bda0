//! Parser of the Prometheus text format, as far as gauges and counters need it.

/// One sample of a page.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample<'a> {
    /// Name of the metric.
    pub name: &'a str,
    /// Labels as written between the braces; empty if there are none.
    pub labels: &'a str,
    /// Value; may be NaN or infinite.
    pub value: f64,
}

/// Iterates over the samples of a page. Skips comments, blank lines and malformed lines.
pub fn samples(text: &str) -> impl Iterator<Item = Sample<'_>> {
    text.lines().filter_map(sample)
}

fn sample(line: &str) -> Option<Sample<'_>> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let end = line.find(|c: char| c == '{' || c.is_ascii_whitespace())?;
    let (name, rest) = line.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(inner) => {
            let close = closing_brace(inner)?;
            (&inner[..close], &inner[close + 1..])
        }
        None => ("", rest),
    };
    // A timestamp may follow.
    let value = rest.split_ascii_whitespace().next()?.parse().ok()?;
    Some(Sample { name, labels, value })
}

/// Returns the position of the closing brace: the first one outside quotes.
fn closing_brace(text: &str) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, c) in text.bytes().enumerate() {
        match c {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'}' if !quoted => return Some(at),
            _ => {}
        }
    }
    None
}

/// Iterates over names and values of labels, as written, with escapes.
pub fn labels(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (name, after) = rest.split_once('=')?;
        let inner = after.trim_start().strip_prefix('"')?;
        let mut escaped = false;
        let end = inner.bytes().position(|c| match c {
            _ if escaped => {
                escaped = false;
                false
            }
            b'\\' => {
                escaped = true;
                false
            }
            c => c == b'"',
        })?;
        rest = inner[end + 1..].trim_start().trim_start_matches(',');
        Some((name.trim(), &inner[..end]))
    })
}

/// Returns the value of one label, as written.
pub fn label<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    // A quick check first, since most pages have thousands of labels that are not needed.
    if !text.contains(name) {
        return None;
    }
    labels(text).find(|(n, _)| *n == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_parsed_from_lines() {
        let s = |name, labels, value| Some(Sample { name, labels, value });
        for (line, expected, why) in [
            ("a 1", s("a", "", 1.0), "plain"),
            (
                "a:b_total{x=\"y\"} 2.5e3 1700000000",
                s("a:b_total", "x=\"y\"", 2500.0),
                "labels and timestamp",
            ),
            (r#"a{x="}\" {",y="z w"} 3"#, s("a", r#"x="}\" {",y="z w""#, 3.0), "braces within quotes"),
            ("a{} +Inf", s("a", "", f64::INFINITY), "infinite"),
            ("# TYPE a gauge", None, "comment"),
            ("", None, "blank"),
            ("a", None, "no value"),
            ("a{x=\"y\" 1", None, "braces do not close"),
            ("a one", None, "no number"),
        ] {
            assert_eq!(sample(line), expected, "{why}");
        }
    }

    #[test]
    fn labels_are_parsed() {
        let all = |text| labels(text).collect::<Vec<_>>();
        assert_eq!(all(r#"a="1",b="x, y=\"z\"", c = "3""#), [("a", "1"), ("b", r#"x, y=\"z\""#), ("c", "3")]);
        for none in ["", "a", "a=1", "a=\"x"] {
            assert_eq!(all(none), [], "{none}");
        }
        assert_eq!(label("le=\"0.5\",engine=\"1\"", "engine"), Some("1"));
        assert_eq!(label("myengine=\"1\"", "engine"), None, "the whole name");
    }
}
