//! Lines of the Prometheus text format, as far as gauges and counters need it.

/// One sample: its name, its labels as written, its value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample<'a> {
    /// The metric.
    pub name: &'a str,
    /// What stands between the braces; empty where there are none.
    pub labels: &'a str,
    /// The value; may be NaN or infinite.
    pub value: f64,
}

/// Every sample of a page. Comments, blank lines and lines that are no sample are passed over.
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

/// Where the labels end: the first brace that no quotes enclose.
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

/// The sum of a metric over all its labels; `None` where the page does not have it. Samples that are no number count for
/// nothing.
pub fn sum(text: &str, name: &str) -> Option<f64> {
    samples(text)
        .filter(|s| s.name == name && s.value.is_finite())
        .fold(None, |sum: Option<f64>, s| Some(sum.unwrap_or(0.0) + s.value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_samples_or_not() {
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
    fn sums_go_over_labels() {
        let text = "a{e=\"0\"} 1\na{e=\"1\"} 2\na{e=\"2\"} NaN\nab 9\n";
        assert!((sum(text, "a").unwrap() - 3.0).abs() < 1e-12);
        assert_eq!(sum(text, "b"), None);
    }
}
