//! Parsing of gates, such as `ttft.p99@20 <= +10%`.

use super::{At, Bound, Gate, Threshold};
use crate::compare::Column;

/// Returns the factor from a unit of absolute changes to the column's own unit; `None` if the column does not take
/// this unit.
fn unit(column: Column, unit: &str) -> Option<f64> {
    match (column, unit) {
        (Column::Latency(..), "ms") => Some(1.0),
        (Column::Latency(..), "s") => Some(1e3),
        (Column::Latency(..), "us" | "µs") => Some(1e-3),
        (
            Column::Goodput | Column::SafeRate | Column::JointGoodput | Column::Knee | Column::PerGpu,
            "req/s" | "/s",
        ) => Some(1.0),
        (Column::GoodRate | Column::AchievedRate, "req/s" | "/s") => Some(1.0),
        (Column::OutputTokens, "tok/s" | "/s") => Some(1.0),
        (Column::Attainment | Column::Failures | Column::HitRate, "pp" | "points") => Some(0.01),
        (Column::Items, "items/s" | "/s") => Some(1.0),
        (Column::CostPerMtok | Column::CostPer1000Items | Column::Preemptions, "") => Some(1.0),
        _ => None,
    }
}

/// Returns the units that a column takes, in words.
fn units(column: Column) -> &'static str {
    match column {
        Column::Latency(..) => "%, ms, s",
        Column::OutputTokens => "%, tok/s",
        Column::Attainment | Column::Failures | Column::HitRate => "%, pp (percentage points)",
        Column::Items => "%, items/s",
        Column::CostPerMtok | Column::CostPer1000Items | Column::Preemptions => {
            "%, or none for the unit itself"
        }
        _ => "%, req/s",
    }
}

impl Gate {
    /// Parses `COLUMN[@LEVEL] >= CHANGE` or `<=`. The level is a number or `pooled`; the change is a share (`-5%`) or
    /// in the unit of the column (`+20ms`).
    ///
    /// # Errors
    /// The message names the problem, its place in the text, and the valid choices.
    pub fn parse(text: &str) -> Result<Self, String> {
        let at = |place: usize, problem: String| {
            let column = text[..place.min(text.len())].chars().count();
            format!("{problem}\n  {text}\n  {}^", " ".repeat(column))
        };
        let sign = text.find(['<', '>', '=', '≥', '≤']).ok_or_else(|| {
            at(
                text.len(),
                "there is no >= or <= in it: write a gate as 'goodput >= -5%' or 'ttft.p99 <= +10%'".into(),
            )
        })?;
        let (bound, width) = match &text[sign..] {
            rest if rest.starts_with(">=") => (Bound::AtLeast, 2),
            rest if rest.starts_with("<=") => (Bound::AtMost, 2),
            rest if rest.starts_with('≥') => (Bound::AtLeast, '≥'.len_utf8()),
            rest if rest.starts_with('≤') => (Bound::AtMost, '≤'.len_utf8()),
            _ => return Err(at(sign, "only >= and <= are understood here".into())),
        };
        let whole = text[..sign].trim();
        let start = text.len() - text.trim_start().len();
        let (name, level) = match whole.split_once('@') {
            Some((name, level)) => (name.trim(), Some((level.trim(), start + name.len() + 1))),
            None => (whole, None),
        };
        let column = Column::named(name)
            .ok_or_else(|| at(start, format!("there is no column {name:?}; the columns are {}", names())))?;
        let level = match level {
            None => None,
            Some(("pooled", _)) => Some(At::Pooled),
            Some((text_of, place)) => {
                let number = text_of.parse::<f64>().ok().filter(|l| *l > 0.0 && l.is_finite());
                Some(number.map(At::Level).ok_or_else(|| {
                    at(
                        place,
                        format!(
                            "{text_of:?} is no level: write the number behind the @, as in {name}@20, or {name}@pooled for all together"
                        ),
                    )
                })?)
            }
        };
        if level.is_some() && !Column::LEVEL.contains(&column) && !matches!(column, Column::Latency(..)) {
            return Err(at(start, format!("{name} is a figure of the whole run: leave out the @")));
        }
        let threshold =
            threshold(column, &text[sign + width..], |offset, problem| at(sign + width + offset, problem))?;
        Ok(Self { text: text.trim().to_owned(), column, at: level, bound, threshold })
    }
}

/// Returns the names of all columns.
fn names() -> String {
    let mut all: Vec<String> = Column::WHOLE.into_iter().chain(Column::LEVEL).map(Column::name).collect();
    all.extend(Column::latencies().into_iter().map(Column::name));
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|n| seen.insert(n.clone()));
    all.join(", ")
}

fn threshold(column: Column, text: &str, at: impl Fn(usize, String) -> String) -> Result<Threshold, String> {
    let skipped = text.len() - text.trim_start().len();
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || "+-−.eE".contains(c))).unwrap_or(text.len());
    let number =
        text[..end].replace('−', "-").parse::<f64>().ok().filter(|x| x.is_finite()).ok_or_else(|| {
            at(
                skipped,
                format!("{text:?} is no change: write a number and a unit ({}), as in -5%", units(column)),
            )
        })?;
    match text[end..].trim() {
        "%" => Ok(Threshold::Share(number / 100.0)),
        other => unit(column, other).map(|times| Threshold::Absolute(number * times)).ok_or_else(|| {
            let said = if other.is_empty() {
                "a unit is missing".to_owned()
            } else {
                format!("{other:?} is no unit of {}", column.name())
            };
            at(skipped + end, format!("{said}: it takes {}", units(column)))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn mistakes_show_where_they_stand() {
        for (gate, says, place) in [
            ("goodput", "no >= or <=", 7),
            ("goodput => -5%", "only >= and <=", 8),
            ("goodputt >= -5%", "there is no column \"goodputt\"; the columns are goodput, safe-rate", 0),
            ("goodput >= five", "is no change", 11),
            ("goodput >= -5", "a unit is missing: it takes %, req/s", 13),
            ("ttft.p99 <= −6", "a unit is missing", 14),
            ("goodput >= -5ms", "\"ms\" is no unit of goodput", 13),
            ("ttft.p99@x <= 5%", "\"x\" is no level", 9),
            ("goodput@5 >= 5%", "leave out the @", 0),
        ] {
            let e = Gate::parse(gate).unwrap_err();
            assert!(e.contains(says), "{gate}: {e}");
            let pointer = e.lines().last().unwrap();
            assert_eq!(pointer.find('^'), Some(place + 2), "{e}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,40}") {
            let _ = Gate::parse(&text);
        }

        #[test]
        fn nor_one_that_is_nearly_right(text in "(goodput|ttft\\.p99|é)?@?[0-9.]{0,3} ?(>=|<=|≥|=)? ?[-+−]?[0-9.e]{0,4} ?(%|ms|µs|é)?") {
            let _ = Gate::parse(&text);
        }
    }
}
