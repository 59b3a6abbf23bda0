//! GPUs as `[[metrics]]` shows them over a step: their use, power and clocks.
//!
//! Sources of the names: `etc/default-counters.csv` of NVIDIA's dcgm-exporter, and the field identifiers of DCGM, which renamed
//! some of them in version 4.6 (`DCGM_FI_DEV_POWER_USAGE` to `DCGM_FI_DEV_BOARD_POWER_WATTS`); exporters keep the old names as
//! long as their tables have them. Clock limits, violations and reasons are not among the default counters.

use super::step::MetricRow;
use crate::server::prometheus::label;
use std::collections::{BTreeMap, BTreeSet};

/// Metrics of GPU utilisation, with the factor that turns them into a share.
const GPU_USE: [(&str, f64); 4] = [
    // NVIDIA's DCGM exporter: percent of the time in which a kernel ran.
    ("DCGM_FI_DEV_GPU_UTIL", 0.01),
    // nvidia_gpu_exporter, which reads the same from nvidia-smi.
    ("nvidia_smi_utilization_gpu_ratio", 1.0),
    // Exporters over NVML.
    ("nvidia_gpu_duty_cycle", 0.01),
    ("nvidia_gpu_utilization_gpu", 0.01),
];

/// Metrics of GPU power, with the factor that turns them into watts.
const GPU_POWER: [(&str, f64); 5] = [
    ("DCGM_FI_DEV_POWER_USAGE", 1.0),
    ("DCGM_FI_DEV_BOARD_POWER_WATTS", 1.0),
    ("nvidia_smi_power_draw_watts", 1.0),
    ("nvidia_smi_power_draw_instant_watts", 1.0),
    ("nvidia_gpu_power_usage_milliwatts", 1e-3),
];

/// Least number of readings of a page that tell whether it was renewed.
const READINGS: u64 = 4;

/// Returns the pages of GPU metrics that were not renewed during a step: the power of every GPU, which varies by milliwatts even
/// when idle, was the same in each reading. What such a page shows is of an earlier time.
pub fn stale_sources(rows: &[MetricRow]) -> BTreeSet<&str> {
    let power = |row: &&MetricRow| GPU_POWER.iter().any(|(name, _)| row.name == *name);
    let same =
        |row: &MetricRow| row.n >= READINGS && row.min.zip(row.max).is_some_and(|(min, max)| max <= min);
    let renewed: BTreeSet<&str> =
        rows.iter().filter(power).filter(|row| !same(row)).map(|row| row.source.as_str()).collect();
    let all = rows.iter().filter(power).map(|row| row.source.as_str());
    all.filter(|source| !renewed.contains(source)).collect()
}

/// Returns the rows of the pages that were renewed.
fn fresh(rows: &[MetricRow]) -> Vec<&MetricRow> {
    let stale = stale_sources(rows);
    rows.iter().filter(|row| !stale.contains(row.source.as_str())).collect()
}

/// Returns the mean utilisation over the GPUs, as a share, and their number; `None` if `[[metrics]]` has none.
pub fn gpu_use(rows: &[MetricRow]) -> Option<(f64, usize)> {
    let all = gpu_means(rows, &GPU_USE)?;
    Some((all.iter().sum::<f64>() / all.len() as f64, all.len()))
}

/// Returns the mean power of all GPUs together, in watts; `None` if `[[metrics]]` has none.
pub fn gpu_watts(rows: &[MetricRow]) -> Option<f64> {
    Some(gpu_means(rows, &GPU_POWER)?.iter().sum())
}

/// Returns the mean power per GPU, in watts, and the number of GPUs; `None` if `[[metrics]]` has none.
pub fn mean_watts_per_gpu(rows: &[MetricRow]) -> Option<(f64, usize)> {
    let all = gpu_means(rows, &GPU_POWER)?;
    Some((all.iter().sum::<f64>() / all.len() as f64, all.len()))
}

/// Returns the means, one per GPU, of the first known metric that is present, times its factor.
fn gpu_means(rows: &[MetricRow], known: &[(&str, f64)]) -> Option<Vec<f64>> {
    let rows = fresh(rows);
    known.iter().find_map(|(name, factor)| {
        let own = rows.iter().filter(|r| r.name == *name).filter_map(|r| Some(r.mean? * factor));
        Some(own.collect::<Vec<f64>>()).filter(|all| !all.is_empty())
    })
}

/// Metrics of the clock of the streaming multiprocessors, with the factor that turns them into MHz.
const SM_CLOCK: [(&str, f64); 3] = [
    ("DCGM_FI_DEV_SM_CLOCK", 1.0),
    ("DCGM_FI_DEV_SM_CLOCK_HERTZ", 1e-6),
    ("nvidia_smi_clocks_current_sm_clock_hz", 1e-6),
];
/// Metrics of the highest clock that the board supports.
const MAX_SM_CLOCK: [(&str, f64); 2] =
    [("DCGM_FI_DEV_MAX_SM_CLOCK", 1.0), ("nvidia_smi_clocks_max_sm_clock_hz", 1e-6)];
/// Metrics of the power limit in force, with the factor that turns them into watts.
const POWER_LIMIT: [(&str, f64); 4] = [
    ("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", 1.0),
    ("DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS", 1.0),
    ("nvidia_smi_enforced_power_limit_watts", 1.0),
    ("DCGM_FI_DEV_POWER_MGMT_LIMIT", 1.0),
];
/// Metrics of the highest power limit that the board accepts.
const MOST_POWER_LIMIT: [(&str, f64); 3] = [
    ("DCGM_FI_DEV_POWER_MGMT_LIMIT_MAX", 1.0),
    ("DCGM_FI_DEV_BOARD_POWER_LIMIT_MAX_WATTS", 1.0),
    ("nvidia_smi_power_max_limit_watts", 1.0),
];
/// Metrics of the temperature of the GPU, in °C.
const TEMPERATURE: [(&str, f64); 3] = [
    ("DCGM_FI_DEV_GPU_TEMP", 1.0),
    ("DCGM_FI_DEV_GPU_TEMP_CELSIUS", 1.0),
    ("nvidia_smi_temperature_gpu", 1.0),
];
/// Bit masks of the reasons for which clocks are held down; the second name is that of versions before DCGM 3.3.
const REASONS: [&str; 2] = ["DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"];
/// Counters of the time for which power held the clocks down. Its unit differs between versions (µs, ns).
const POWER_VIOLATION: &str = "DCGM_FI_DEV_POWER_VIOLATION";
/// Counters of the time for which temperature held the clocks down.
const THERMAL_VIOLATION: &str = "DCGM_FI_DEV_THERMAL_VIOLATION";

/// Bits of the reasons, from NVML's `nvmlClocksEventReasons`: set clocks; the power limit and the power brake; the thermal
/// slowdowns of driver and hardware.
const CLOCKS_SET: u64 = 0x2;
const POWER: u64 = 0x4 | 0x80;
const THERMAL: u64 = 0x20 | 0x40;

/// One GPU over a step. Values are means over the measured window, unless they say otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct GpuState {
    /// Index of the GPU on its machine, if the labels have it.
    pub index: Option<u32>,
    /// Clock of its streaming multiprocessors, in MHz.
    pub clock_mhz: Option<f64>,
    /// Largest sample of that clock, in MHz.
    pub clock_most_mhz: Option<f64>,
    /// Highest clock that the board supports, in MHz.
    pub clock_max_mhz: Option<f64>,
    /// Power draw in watts.
    pub watts: Option<f64>,
    /// Power limit in force, in watts.
    pub limit_watts: Option<f64>,
    /// Highest power limit that the board accepts, in watts.
    pub limit_max_watts: Option<f64>,
    /// Largest sample of its temperature, in °C.
    pub celsius: Option<f64>,
    /// True if power held the clocks down for a part of the step; `None` if no counter or reason tells.
    pub held_by_power: Option<bool>,
    /// True if temperature held the clocks down for a part of the step.
    pub held_by_heat: Option<bool>,
    /// True if clocks that were set held them down.
    pub held_by_setting: Option<bool>,
}

/// Returns the GPUs of a step whose clock is known, by the labels that identify them.
pub fn gpu_states(rows: &[MetricRow]) -> BTreeMap<String, GpuState> {
    let mut by_gpu: BTreeMap<String, Vec<&MetricRow>> = BTreeMap::new();
    for row in fresh(rows) {
        if let Some(gpu) = identity(row) {
            by_gpu.entry(gpu).or_default().push(row);
        }
    }
    let states = by_gpu.into_iter().map(|(gpu, rows)| (gpu, GpuState::of(&rows)));
    states.filter(|(_, state)| state.clock_mhz.is_some()).collect()
}

/// Returns the labels that tell a GPU from others, over all pages: its UUID, or else its page and index.
fn identity(row: &MetricRow) -> Option<String> {
    let of = |names: &[&str]| names.iter().find_map(|name| label(&row.labels, name));
    let uuid = of(&["UUID", "uuid"]).map(str::to_owned);
    uuid.or_else(|| Some(format!("{} {}", row.source, of(&["gpu", "minor_number"])?)))
}

impl GpuState {
    fn of(rows: &[&MetricRow]) -> Self {
        let of = |known: &[(&str, f64)], part: fn(&MetricRow) -> Option<f64>| {
            known.iter().find_map(|(name, factor)| {
                let own = rows.iter().find(|row| row.name == *name)?;
                Some(part(own)? * factor)
            })
        };
        let reasons = REASONS.iter().find_map(|name| rows.iter().find(|row| row.name == *name)?.max);
        // The largest sample is one that was read: its bits were set together.
        let reason = |bits: u64| reasons.map(|mask| mask as u64 & bits != 0);
        let grew = |name: &str| {
            let row = rows.iter().find(|row| row.name == name)?;
            // Some tables declare these counters as gauges.
            row.per_s.map(|per_s| per_s > 0.0).or_else(|| row.min.zip(row.max).map(|(min, max)| max > min))
        };
        let any = |a: Option<bool>, b: Option<bool>| a.zip(b).map(|(a, b)| a || b).or(a).or(b);
        Self {
            index: rows.iter().find_map(|row| label(&row.labels, "gpu")?.parse().ok()),
            clock_mhz: of(&SM_CLOCK, |row| row.mean),
            clock_most_mhz: of(&SM_CLOCK, |row| row.max),
            clock_max_mhz: of(&MAX_SM_CLOCK, |row| row.max),
            watts: of(&GPU_POWER, |row| row.mean),
            limit_watts: of(&POWER_LIMIT, |row| row.min).filter(|watts| *watts > 0.0),
            limit_max_watts: of(&MOST_POWER_LIMIT, |row| row.max).filter(|watts| *watts > 0.0),
            celsius: of(&TEMPERATURE, |row| row.max),
            held_by_power: any(grew(POWER_VIOLATION), reason(POWER)),
            held_by_heat: any(grew(THERMAL_VIOLATION), reason(THERMAL)),
            held_by_setting: reason(CLOCKS_SET),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::selected::{Selector, SeriesSums, select};
    use std::time::Duration;

    #[test]
    fn gpu_metrics_are_recognised_by_name() {
        let row = |name: &str, mean| MetricRow {
            source: "gpu".into(),
            name: name.into(),
            labels: String::new(),
            n: 3,
            min: None,
            mean: Some(mean),
            max: None,
            per_s: None,
        };
        let rows = [
            row("DCGM_FI_DEV_GPU_UTIL", 90.0),
            row("DCGM_FI_DEV_GPU_UTIL", 70.0),
            row("DCGM_FI_DEV_POWER_USAGE", 300.0),
            row("DCGM_FI_DEV_POWER_USAGE", 250.0),
        ];
        assert!(gpu_use(&rows).is_some_and(|(share, n)| (share - 0.8).abs() < 1e-12 && n == 2));
        assert_eq!((gpu_watts(&rows), gpu_watts(&rows[..2]), gpu_use(&[])), (Some(550.0), None, None));
        assert_eq!(gpu_use(&[row("nvidia_smi_utilization_gpu_ratio", 0.5)]), Some((0.5, 1)));
    }

    /// Rows: readings, least and most power, and whether the page counts.
    #[test]
    fn a_page_that_was_not_renewed_tells_nothing() {
        for (n, min, max, counts) in
            [(8, 137.2, 137.2, false), (8, 137.2, 140.0, true), (3, 137.2, 137.2, true)]
        {
            let row = |name: &str, mean| MetricRow {
                source: "gpus".into(),
                name: name.into(),
                labels: String::new(),
                n,
                min: Some(min),
                mean: Some(mean),
                max: Some(max),
                per_s: None,
            };
            let rows = [row("DCGM_FI_DEV_POWER_USAGE", min), row("DCGM_FI_DEV_GPU_UTIL", 90.0)];
            assert_eq!((gpu_watts(&rows).is_some(), gpu_use(&rows).is_some()), (counts, counts), "{n} {max}");
            assert_eq!(stale_sources(&rows).len(), usize::from(!counts));
        }
    }

    /// Returns the rows of a page that was read at the start and at the end of a step of ten seconds.
    fn rows(pages: [&str; 2]) -> Vec<MetricRow> {
        let names: Vec<&str> =
            pages[0].lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
        let wanted: Vec<Selector> = names.iter().map(|name| name.parse().unwrap()).collect();
        let mut sums = SeriesSums::default();
        for (at, page) in [0, 10].into_iter().zip(pages) {
            sums.add(Duration::from_secs(at), &select(page, &wanted));
        }
        let row = |(name, labels, s): (&str, &str, crate::server::selected::SeriesSummary)| {
            let of = |i: usize| (!s.counter).then_some(s.range[i]);
            MetricRow {
                source: "gpus".into(),
                name: name.into(),
                labels: labels.into(),
                n: u64::from(s.n),
                min: of(0),
                mean: of(1),
                max: of(2),
                per_s: s.per_s,
            }
        };
        sums.summaries().map(row).collect()
    }

    #[test]
    fn a_page_of_dcgm_tells_what_holds_the_clocks_down() {
        let page = include_str!("../../../../tests/fixtures/metrics/dcgm-throttled.txt");
        let later = page.replace("} 1200000", "} 8700000").replace("} 1095", "} 1125");
        let states: Vec<GpuState> = gpu_states(&rows([page, &later])).into_values().collect();
        let [first, second] = states[..] else { panic!("two GPUs: {states:?}") };
        assert_eq!(
            (first.index, first.clock_mhz, first.clock_max_mhz),
            (Some(0), Some(1110.0), Some(1410.0))
        );
        assert_eq!(
            (first.watts, first.limit_watts, first.limit_max_watts),
            (Some(298.4), Some(300.0), Some(400.0))
        );
        assert_eq!(
            (first.held_by_power, first.held_by_heat, first.held_by_setting),
            (Some(true), Some(false), Some(false))
        );
        assert_eq!((second.index, second.clock_mhz, second.celsius), (Some(1), Some(1410.0), Some(52.0)));
        assert_eq!(
            (second.held_by_power, second.held_by_heat),
            (Some(false), Some(false)),
            "idle is no reason"
        );
        let hot = page.replace("} 4\n", "} 96\n");
        let state = gpu_states(&rows([&hot, &hot])).into_values().next().unwrap();
        assert_eq!((state.held_by_power, state.held_by_heat), (Some(false), Some(true)), "{state:?}");
        assert!(gpu_states(&rows([page, page])[..0]).is_empty());
    }
}
