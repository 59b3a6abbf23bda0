//! The sampled gauges of steps, from `server-metrics.csv`.

use super::Sample;
use super::table::{StepRow, each_row};
use anyhow::Result;
use goodput_stats::server::Signal;
use std::collections::BTreeMap;
use std::path::Path;

/// The gauges that are read.
const GAUGES: [Signal; 3] = [Signal::Running, Signal::Waiting, Signal::KvUse];
/// Largest number of samples that are kept.
const MAX_SAMPLES: usize = 1_000_000;

/// Series, number of the step, and name of the signal.
type Key = (String, u32, &'static str);
/// Seconds from the start of the step, and values.
type Samples = Vec<(f64, f64)>;

/// Samples of gauges, by series, step and name of the signal: seconds from the start of the step, and the value of all servers
/// together (of a share the largest).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GaugeSamples(BTreeMap<Key, Samples>);

impl GaugeSamples {
    /// Reads the samples of a run folder; none if it has no file of them.
    ///
    /// # Errors
    /// The file exists but cannot be read.
    pub fn read(dir: &Path) -> Result<Self> {
        let mut all: BTreeMap<Key, BTreeMap<String, Samples>> = BTreeMap::new();
        let mut n = 0;
        each_row(dir, |row: &mut StepRow<Sample>| {
            let own = row.row.source.parse::<u32>().is_ok();
            let Some(signal) = GAUGES.iter().find(|g| own && g.name() == row.row.name) else { return };
            if n < MAX_SAMPLES {
                let of_step = all.entry((row.series.clone(), row.step, signal.name())).or_default();
                of_step.entry(row.row.source.clone()).or_default().push((row.row.time_s, row.row.value));
                n += 1;
            }
        })?;
        Ok(Self(all.into_iter().map(|(key, servers)| (key.clone(), together(&key, servers))).collect()))
    }

    /// Returns the samples of one gauge in a step, in order of time.
    pub fn of(&self, series: &str, step: u32, signal: Signal) -> &[(f64, f64)] {
        let key = (series.to_owned(), step, signal.name());
        self.0.get(&key).map_or(&[], Vec::as_slice)
    }
}

/// Adds up the servers, reading by reading; of a share it takes the largest.
fn together(key: &Key, servers: BTreeMap<String, Samples>) -> Samples {
    let share = key.2 == Signal::KvUse.name();
    let mut servers = servers.into_values();
    let mut sum = servers.next().unwrap_or_default();
    for other in servers {
        sum.truncate(other.len());
        for (at, (_, value)) in sum.iter_mut().zip(other) {
            at.1 = if share { at.1.max(value) } else { at.1 + value };
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn servers_are_added_up() {
        let dir = tempfile::tempdir().unwrap();
        let rows = "series,step,time_s,name,value,source\n\
            main,1,0.5,running,2,0\nmain,1,0.5,running,3,1\nmain,1,0.5,kv_use,0.2,0\nmain,1,0.5,kv_use,0.7,1\n\
            main,1,1.5,running,4,0\nmain,1,1.5,running,5,1\nmain,1,1.5,running,9,gpu\nmain,1,1.5,finished,9,0\n";
        fs::write(dir.path().join("server-metrics.csv"), rows).unwrap();
        let samples = GaugeSamples::read(dir.path()).unwrap();
        assert_eq!(samples.of("main", 1, Signal::Running), [(0.5, 5.0), (1.5, 9.0)]);
        assert_eq!(samples.of("main", 1, Signal::KvUse), [(0.5, 0.7)]);
        assert!(samples.of("main", 2, Signal::Running).is_empty());
        assert_eq!(GaugeSamples::read(tempfile::tempdir().unwrap().path()).unwrap(), GaugeSamples::default());
    }
}
