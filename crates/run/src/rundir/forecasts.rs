//! Forecasts of a run: the goodput of models of its servers under single changes, simulated after the sweep.

use super::files;
use anyhow::{Context, Result};
use goodput_stats::diagnosis::{Forecast, WithoutForecast};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// File of a run folder with the forecasts of its series.
pub const FILE: &str = "forecast.json";

/// The forecast of a series, or the reason why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Attempt {
    /// There is one.
    Made(Forecast),
    /// There is none.
    NotMade(WithoutForecast),
}

impl Attempt {
    /// Returns the name of the series.
    pub fn series(&self) -> &str {
        match self {
            Self::Made(forecast) => &forecast.series,
            Self::NotMade(without) => &without.series,
        }
    }

    /// Returns the forecast, if there is one.
    pub const fn forecast(&self) -> Option<&Forecast> {
        match self {
            Self::Made(forecast) => Some(forecast),
            Self::NotMade(_) => None,
        }
    }
}

/// Writes the forecasts into a run folder.
///
/// # Errors
/// The file cannot be written.
pub fn write(dir: &Path, attempts: &[Attempt]) -> Result<()> {
    let text = serde_json::to_string_pretty(attempts).context("failed to write the forecasts as JSON")?;
    files::replace(&dir.join(FILE), text.as_bytes())
}

/// Reads the forecasts of a run folder; empty if there are none.
///
/// # Errors
/// The file exists but cannot be read.
pub(super) fn read(dir: &Path) -> Result<Vec<Attempt>> {
    let file = dir.join(FILE);
    if !file.is_file() {
        return Ok(Vec::new());
    }
    serde_json::from_str(&files::text(&file)?).with_context(|| {
        format!("{} does not hold forecasts; remove it to read the run without", file.display())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_stats::diagnosis::{Altered, Assumed, Effect, NoForecast};

    #[test]
    fn attempts_are_read_as_they_were_written() {
        let made = |assumed| {
            let effects = vec![Effect { altered: Altered::MoreSequences(64), goodput: 9.0 }];
            let (series, measured, present) = ("main".into(), Some(5.0), 5.5);
            Attempt::Made(Forecast { series, measured, present, effects, assumed })
        };
        let without = |reason| Attempt::NotMade(WithoutForecast { series: "b".into(), reason });
        let all = vec![
            made(Assumed::default()),
            made(Assumed { sequences: Some(256), tokens: None }),
            without(NoForecast::ClosedLoop),
            without(NoForecast::FewUnloaded { requests: 3, least: 6 }),
            without(NoForecast::Goodput { model: 0.5, low: 0.9, high: 2.0 }),
        ];
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &all).unwrap();
        assert_eq!(read(dir.path()).unwrap(), all);
        let earlier = r#"[{"series":"main","measured":5.0,"present":5.5,"effects":[{"altered":{"more-sequences":64},"goodput":9.0}]}]"#;
        std::fs::write(dir.path().join(FILE), earlier).unwrap();
        assert_eq!(read(dir.path()).unwrap(), all[..1]);
    }
}
