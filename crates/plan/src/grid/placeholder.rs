//! Placeholders in the texts of a grid: `{knob}`, or `{2*knob}` for a multiple of a whole number.

use super::{Point, text};
use toml::Value;

/// A placeholder in a text.
pub(super) struct Placeholder<'a> {
    pub(super) knob: &'a str,
    /// Multiplier of the value.
    factor: Option<f64>,
    /// The texts around it; `before` begins at the previous placeholder.
    before: &'a str,
    after: &'a str,
}

impl Placeholder<'_> {
    /// Returns the problem if a value cannot be multiplied by the factor.
    pub(super) fn factor_problem(&self, values: &[Value]) -> Option<String> {
        let (factor, knob) = (self.factor?, self.knob);
        if factor.fract() != 0.0 || !(1.0..=1e6).contains(&factor) {
            return Some(format!(
                "multiplies {knob} by {factor}: the factor must be a whole number, as in \"{{2*{knob}}}\"; for other numbers, write a \
                 [[variant]] for each value"
            ));
        }
        let whole = values.iter().all(Value::is_integer);
        (!whole).then(|| format!("multiplies {knob}, but not all of its values are whole numbers"))
    }

    /// Returns the value that the placeholder stands for; [`Placeholder::factor_problem`] has checked that there is one.
    fn value(&self, point: &Point<'_>) -> Option<Value> {
        let value = point.iter().find(|(name, _)| *name == self.knob)?.1;
        match self.factor {
            None => Some(value.clone()),
            Some(factor) => Some(Value::Integer(value.as_integer()?.saturating_mul(factor as i64))),
        }
    }
}

/// Returns the placeholders in a text. Braces with other content, such as JSON, are not placeholders.
pub(super) fn placeholders(text: &str) -> impl Iterator<Item = Placeholder<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let found = first(rest)?;
        rest = found.after;
        Some(found)
    })
}

fn first(text: &str) -> Option<Placeholder<'_>> {
    text.match_indices('{').find_map(|(open, _)| {
        let (before, inner) = (&text[..open], &text[open + 1..]);
        let close = inner.find('}')?;
        let (factor, knob) = match inner[..close].split_once('*') {
            Some((factor, knob)) => (Some(factor.trim().parse().ok()?), knob.trim()),
            None => (None, &inner[..close]),
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        // `${NAME}` is an environment variable.
        let is_knob = knob.starts_with(|c: char| c.is_ascii_alphabetic()) && !before.ends_with('$');
        (is_knob && knob.chars().all(is_name)).then(|| Placeholder {
            knob,
            factor,
            before,
            after: &inner[close + 1..],
        })
    })
}

/// Replaces all placeholders in a text.
pub(super) fn fill(template: &str, point: &Point<'_>) -> String {
    let (mut out, mut rest) = (String::new(), template);
    for found in placeholders(template) {
        out.push_str(found.before);
        out.extend(found.value(point).map(|value| text(&value)));
        rest = found.after;
    }
    out + rest
}

/// Fills in a value of `set`. A text that is only a placeholder becomes the value itself, with its type.
pub(super) fn fill_value(value: &Value, point: &Point<'_>) -> Value {
    let Some(text) = value.as_str() else { return value.clone() };
    let whole = first(text).filter(|found| found.before.is_empty() && found.after.is_empty());
    whole.and_then(|found| found.value(point)).unwrap_or_else(|| Value::String(fill(text, point)))
}
