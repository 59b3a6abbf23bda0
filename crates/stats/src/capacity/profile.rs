//! Hourly profile of demand: a CSV file of hours and requests.

use super::demand::{Demand, Hour};
use jiff::civil::DateTime;

/// Largest number of requests per hour: as many as a daily volume may have.
const MAX_PER_HOUR: f64 = 1e15;

/// Parses a profile into a demand.
///
/// The file has a header `hour,requests` and a row for each hour of one or more whole days, in order. `hour` is a number that
/// may restart after 24 hours, or a time such as `2026-11-20T13:00`; `requests` is the number of requests in that hour. Empty lines
/// and lines that begin with `#` are skipped.
///
/// # Errors
///
/// Names the line, what is wrong with it, and what to write.
pub fn read(text: &str, file: &str) -> Result<Demand, String> {
    let lines = (1..).zip(text.trim_start_matches('\u{feff}').lines().map(str::trim));
    let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let heads = "the first line is hour,requests";
    let (number, head) =
        lines.next().ok_or_else(|| format!("{file} is empty: {heads}, and a row for each hour follows"))?;
    let head: Vec<String> = cells(head).iter().map(|c| c.to_ascii_lowercase()).collect();
    let (Some(hour), Some(requests)) =
        (head.iter().position(|c| c == "hour"), head.iter().position(|c| c == "requests"))
    else {
        return Err(format!("{file}, line {number}: {heads}, and not {:?}", head.join(",")));
    };
    let mut hours = Vec::new();
    let mut last: Option<HourName> = None;
    let mut first: Option<HourName> = None;
    for (number, line) in lines {
        let at = |what: String| format!("{file}, line {number}: {what}");
        let cells = cells(line);
        if cells.len() != head.len() {
            return Err(at(format!("{} cells, where the first line has {}", cells.len(), head.len())));
        }
        let time = HourName::read(cells[hour]).map_err(at)?;
        if let (Some(first), Some(last)) = (first, last) {
            time.follows(last, first).map_err(at)?;
        }
        first = first.or(Some(time));
        last = Some(time);
        let count: f64 =
            cells[requests].parse().ok().filter(|n| (0.0..=MAX_PER_HOUR).contains(n)).ok_or_else(|| {
                at(format!("{:?} is no number of requests: write 0 or more, without commas", cells[requests]))
            })?;
        hours.push(Hour { name: cells[hour].to_owned(), rate: count / 3_600.0 });
    }
    if hours.is_empty() || hours.len() % 24 != 0 {
        return Err(format!(
            "{file} has {} hours: a profile has those of whole days, 24 of one or 168 of a week",
            hours.len()
        ));
    }
    if hours.iter().all(|h| h.rate <= 0.0) {
        return Err(format!("{file} has no requests in any hour: there is nothing to plan for"));
    }
    Ok(Demand::of_hours(hours, file.to_owned()))
}

fn cells(line: &str) -> Vec<&str> {
    line.split(',').map(|c| c.trim().trim_matches('"')).collect()
}

/// Name of an hour.
#[derive(Debug, Clone, Copy, PartialEq)]
enum HourName {
    Number(u32),
    Date(DateTime),
}

impl HourName {
    fn read(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is no hour: write 0, 1, 2 … or a time such as 2026-11-20T13:00");
        if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
            return text.parse().map(Self::Number).map_err(|_| bad());
        }
        text.trim_end_matches('Z').parse().map(Self::Date).map_err(|_| bad())
    }

    /// Checks that this hour directly follows another; numbers may restart after 24 hours.
    fn follows(self, last: Self, first: Self) -> Result<(), String> {
        let next = match (self, last, first) {
            (Self::Number(n), Self::Number(l), Self::Number(f)) => {
                n.checked_sub(1) == Some(l) || (n == f && l.checked_sub(f) == Some(23))
            }
            (Self::Date(n), Self::Date(l), _) => n.duration_since(l).as_secs() == 3_600,
            _ => return Err("hours are numbers or times, and not both in one file".into()),
        };
        if next {
            Ok(())
        } else {
            Err(format!("the hour {self} does not follow {last}: every hour has a row, in order"))
        }
    }
}

impl std::fmt::Display for HourName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(n) => n.fmt(f),
            Self::Date(d) => d.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn day(name: impl Fn(u32) -> String, requests: impl Fn(u32) -> f64, hours: u32) -> String {
        let rows: String = (0..hours).map(|h| format!("{},{}\n", name(h), requests(h))).collect();
        format!("hour,requests\n{rows}")
    }

    #[test]
    fn hours_are_numbers_or_times() {
        let requests = |h: u32| if h % 24 == 14 { 7_200.0 } else { 3_600.0 };
        for (name, text) in [
            ("from 0", day(|h| h.to_string(), requests, 24)),
            ("from 1", day(|h| (h + 1).to_string(), requests, 24)),
            ("a week, each day anew", day(|h| (h % 24).to_string(), requests, 168)),
            ("a week, counted through", day(|h| h.to_string(), requests, 168)),
            ("dated", day(|h| format!("2026-11-{:02}T{:02}:00", 20 + h / 24, h % 24), requests, 48)),
            (
                "other columns",
                day(|h| h.to_string(), requests, 24).replace("\n", ",x\n").replacen(
                    "requests,x",
                    "Requests, \"what\"",
                    1,
                ),
            ),
            ("remarks", format!("\u{feff}# of last week\n\n{}", day(|h| h.to_string(), requests, 24))),
        ] {
            let d = read(&text, "hourly.csv").unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(
                (d.peak_rate - 2.0).abs() < 1e-12 && (d.mean_rate - 25.0 / 24.0).abs() < 1e-12,
                "{name}: {d:?}"
            );
        }
    }

    #[test]
    fn error_messages_name_the_line() {
        let good = day(|h| h.to_string(), |_| 10.0, 24);
        for (text, says) in [
            (String::new(), "is empty"),
            ("a,b\n1,2\n".into(), "line 1: the first line is hour,requests, and not \"a,b\""),
            (good.replace("\n13,10", ""), "line 15: the hour 14 does not follow 12"),
            (good.replace("\n13,10", "\n13,-1"), "line 15: \"-1\" is no number of requests"),
            (good.replace("\n13,10", "\n13,NaN"), "line 15: \"NaN\" is no number of requests"),
            (good.replace("\n13,10", "\n13,inf"), "line 15: \"inf\""),
            (good.replace("\n13,10", "\n13"), "line 15: 1 cells, where the first line has 2"),
            (good.replace("\n13,10", "\nnoon,10"), "line 15: \"noon\" is no hour"),
            (good.replace("\n13,10", "\n2026-11-20T13:00,10"), "line 15: hours are numbers or times"),
            (day(|h| h.to_string(), |_| 10.0, 23), "has 23 hours: a profile has those of whole days"),
            ("hour,requests\n".into(), "has 0 hours"),
            (day(|h| h.to_string(), |_| 0.0, 24), "no requests in any hour"),
        ] {
            let error = read(&text, "h.csv").unwrap_err();
            assert!(error.contains(says) && error.starts_with("h.csv"), "{says}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(hour,requests\n)?([0-9a-z,.:T\\-\n]{0,60})") {
            let _ = read(&text, "x");
        }
    }
}
