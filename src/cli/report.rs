//! Chart options of `report`.

use crate::report::charts::{Look, Theme};
use crate::report::write::pictures::{Format, Wanted, folder};
use clap::Args;
use std::path::{Path, PathBuf};

/// Options that make `report` draw only charts and leave report.md and result.json as they are.
#[derive(Debug, Args)]
#[command(next_help_heading = "Charts only")]
pub struct ChartArgs {
    /// Draw only the chart of this name, as in the name of its file in charts/. Repeatable.
    #[arg(long, value_name = "NAME")]
    pub chart: Vec<String>,
    /// Draw the charts of this tier of the SLO: its answer and its verdicts.
    #[arg(long, value_name = "NAME")]
    pub tier: Option<String>,
    /// Headline in the place of what the chart shows, as for a slide. Needs a single --chart.
    #[arg(long, value_name = "TEXT", requires = "chart", value_parser = title)]
    pub title: Option<String>,
    /// File format [default: both; slides are always PNG].
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// Colour theme [default: light].
    #[arg(long, value_enum)]
    pub theme: Option<Theme>,
    /// Width with its unit (in, mm, cm, pt, or px of 1/96 inch), such as 180mm or 1200px [default: 7.5in]. The font size stays the same,
    /// and slides stay 16:9.
    #[arg(long, value_name = "LENGTH", value_parser = width)]
    pub width: Option<u32>,
    /// PNG pixels per px of width: 1 is 96 dpi, 3 is 288 dpi [default: 3].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8))]
    pub scale: Option<u32>,
    /// Folder for the charts; created if missing [default: charts/ in the run folder, charts-dark/ for the dark theme, charts-NAME/ for a
    /// tier].
    #[arg(long, value_name = "DIR")]
    pub charts_dir: Option<PathBuf>,
}

/// Allowed widths of a chart, in px.
const WIDTHS: std::ops::RangeInclusive<f64> = 600.0..=2000.0;

/// Parses a length with its unit into px (1/96 inch).
fn width(text: &str) -> Result<u32, String> {
    let text = text.trim();
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let per_inch = match unit {
        "in" => 1.0,
        "cm" => 2.54,
        "mm" => 25.4,
        "pt" => 72.0,
        "px" => 96.0,
        "" => return Err("it needs a unit: in, mm, cm, pt or px".into()),
        other => return Err(format!("{other:?} is not a unit: use in, mm, cm, pt or px")),
    };
    let number: f64 = number.trim().parse().map_err(|_| format!("{number:?} is not a number"))?;
    let px = number / per_inch * 96.0;
    if !WIDTHS.contains(&px) {
        return Err("a chart is from 6.25in (159mm, 600px) to 20.8in (529mm, 2000px) wide".into());
    }
    Ok(px.round() as u32)
}

/// Longest headline, in characters: two lines of a chart.
const LONGEST: usize = 120;

/// Checks a headline.
fn title(text: &str) -> Result<String, String> {
    let text = text.trim();
    match text.chars().count() {
        0 => Err("it is empty".into()),
        n if n > LONGEST => Err(format!("it has {n} characters: a headline has at most {LONGEST}")),
        _ => Ok(text.to_owned()),
    }
}

impl ChartArgs {
    /// Returns the charts to draw and their folder; `None` if no option asks for charts only.
    pub fn wanted(&self, run: &Path) -> Option<(Wanted, PathBuf)> {
        let none = self.chart.is_empty()
            && self.tier.is_none()
            && self.format.is_none()
            && self.theme.is_none()
            && self.width.is_none()
            && self.scale.is_none()
            && self.charts_dir.is_none();
        if none {
            return None;
        }
        let usual = Look::default();
        let theme = self.theme.unwrap_or_default();
        let look = Look {
            theme,
            width: self.width.unwrap_or(usual.width),
            scale: self.scale.unwrap_or(usual.scale),
        };
        let folder = folder(self.tier.as_deref(), theme);
        let dir = self.charts_dir.clone().unwrap_or_else(|| run.join(folder));
        let title = self.title.clone();
        Some((Wanted { only: self.chart.clone(), title, format: self.format, look }, dir))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_have_units() {
        for (text, px) in [("7.5in", 720), ("180mm", 680), ("18 cm", 680), ("1200px", 1200), ("540pt", 720)] {
            assert_eq!(width(text), Ok(px), "{text}");
        }
        for (text, part) in [
            ("720", "needs a unit"),
            ("7em", "is not a unit"),
            ("widemm", "is not a unit"),
            ("1in", "from 6.25in"),
            ("9000px", "from 6.25in"),
            ("-7in", "from 6.25in"),
            ("1.2.3in", "not a number"),
            ("mm", "not a number"),
        ] {
            assert!(width(text).unwrap_err().contains(part), "{text}: {:?}", width(text));
        }
    }
}
