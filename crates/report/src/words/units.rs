//! Numbers with their units, for people.

use goodput_core::slo::Metric;
use goodput_core::units::short;
pub(crate) use goodput_core::units::thousands;

/// Returns a latency, from milliseconds: `18.2 ms`, `1.28 s`, `12.5 min`.
pub(crate) fn latency(ms: f64) -> String {
    match ms.abs() {
        a if a < 999.5 => format!("{} ms", short(ms)),
        a if a < 600_000.0 => format!("{} s", short(ms / 1e3)),
        _ => format!("{} min", short(ms / 60_000.0)),
    }
}

/// Returns a value of a metric, from milliseconds: a [`latency`], or a bare number if it is a ratio.
pub(crate) fn value_of(metric: Metric, ms: f64) -> String {
    if metric.is_ratio() { figure(ms / 1e3) } else { latency(ms) }
}

/// Returns a measured number with three significant figures and thousands separators: `0.333`, `31.5`, `18,200`.
pub(crate) fn figure(x: f64) -> String {
    if !x.is_finite() || x.abs() < 999.5 {
        return short(x);
    }
    let unit = 10_f64.powf(x.abs().log10().floor() - 2.0);
    thousands((x / unit).round() * unit)
}

/// Returns a number with four significant figures, so that figures derived from it can be checked: `19.96`, `496.3`.
pub(crate) fn precise(x: f64) -> String {
    if !x.is_finite() || x <= 0.0 || x >= 999.95 {
        return figure(x);
    }
    let decimals = (3 - x.log10().floor() as i32).clamp(0, 9) as usize;
    format!("{x:.decimals$}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Returns a [`figure`] that may be in the millions: `31.5`, `1,920`, `2.76 million`.
pub(crate) fn count(x: f64) -> String {
    if x.abs() < 999_500.0 { figure(x) } else { format!("{} million", figure(x / 1e6)) }
}

/// Returns the number of a level, as requested: `12.5`, `1,253`.
pub(crate) fn level_number(x: f64) -> String {
    if x.abs() < 999.5 { short(x) } else { thousands(x) }
}

/// Returns a share in per cent; 99.97 must not be shown as 100.
pub(crate) fn percent(share: f64) -> String {
    let digits = if share > 0.99 && share < 1.0 { 2 } else { 1 };
    let text = format!("{:.digits$}", share * 100.0);
    let text = text.strip_suffix(".0").unwrap_or(&text).to_owned();
    let rounded_up = share < 1.0 && (text == "100" || text == "100.00");
    format!("{} %", if rounded_up { "> 99.99".into() } else { text })
}

/// Returns a share in per cent with one decimal: `66.6 %`.
pub(crate) fn tenths(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Returns a duration: `45 s`, `12 min`, `1.5 h`.
pub(crate) fn span(s: f64) -> String {
    match s {
        s if s < 120.0 => format!("{} s", short(s.round())),
        s if s < 7_200.0 => format!("{} min", short((s / 60.0).round())),
        s => format!("{} h", short((s / 360.0).round() / 10.0)),
    }
}

/// Returns `a, b and c`.
pub(crate) fn list(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Returns the text with a capital first letter; a percentile keeps its name.
pub(crate) fn capital(text: &str) -> String {
    if text.starts_with("p99") {
        return text.to_owned();
    }
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |c| c.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_do_not_round_up_to_all() {
        for (share, text) in
            [(1.0, "100 %"), (0.99999, "> 99.99 %"), (0.9912, "99.12 %"), (0.5, "50 %"), (0.0, "0 %")]
        {
            assert_eq!(percent(share), text);
        }
    }

    #[test]
    fn counts_are_short() {
        for (x, text) in [
            (0.5, "0.5"),
            (31.52, "31.5"),
            (999.6, "1,000"),
            (115_212.0, "115,000"),
            (999_600.0, "1 million"),
            (2_764_800.0, "2.76 million"),
        ] {
            assert_eq!(count(x), text);
        }
    }

    #[test]
    fn times_are_for_people() {
        for (s, want) in [(45.2, "45 s"), (600.0, "10 min"), (2_700.0, "45 min"), (9_000.0, "2.5 h")] {
            assert_eq!(span(s), want);
        }
    }
}
