//! Demand of a recorded trace: its mean rate, and its busiest interval.

use super::demand::{Busiest, Demand, Hour, Peak, Source};
use anyhow::{Result, bail};
use goodput_workload::trace::{Begin, Trace, duration_text};
use std::collections::VecDeque;

/// Widths of intervals that are examined, in seconds, the widest first.
const WIDTHS_S: [f64; 5] = [3_600.0, 600.0, 60.0, 10.0, 1.0];
/// Smallest ratio of a recording's length to an interval: in a shorter one the interval is most of it and no peak.
const MIN_LENGTH_RATIO: f64 = 5.0;

/// Returns the demand of a recording: its mean rate, and the rate of its busiest interval. The interval is `width_s` seconds
/// long, by default the longest of an hour, ten minutes, one minute, ten seconds and one second that fits five times into the
/// recording.
///
/// # Errors
///
/// The recording is too short for such an interval, or cannot be read again.
pub fn of(trace: &Trace, width_s: Option<f64>) -> Result<Demand> {
    let s = trace.summary();
    let rows = s.arrivals();
    let mut times = Vec::new();
    let mut replay = trace.replay(Begin::First);
    for arrival in replay.by_ref().take(usize::try_from(rows)?) {
        // A request that follows an answer has no time of its own: it counts with the request that it follows.
        times.extend(std::iter::repeat_n(arrival.row.at.as_secs_f64(), 1 + arrival.follow_ups.len()));
    }
    if let Some(error) = replay.error() {
        bail!("{error:#}");
    }
    let mut demand = demand(&times, s.span_s, s.rate, trace.title(), width_s)?;
    if let Source::Trace { dispersion, .. } = &mut demand.source {
        *dispersion = s.telling_dispersion().cloned();
    }
    Ok(demand)
}

fn demand(times: &[f64], span_s: f64, mean_rate: f64, title: String, width_s: Option<f64>) -> Result<Demand> {
    let fits = |w: f64| span_s >= MIN_LENGTH_RATIO * w;
    let own = WIDTHS_S.into_iter().filter(|w| fits(*w));
    let Some(chosen) = width_s.or_else(|| own.clone().next()) else {
        bail!(
            "the trace is {} long, too short to tell its peak from its mean: give --peak-to-mean with a --daily-volume or --rate",
            duration_text(span_s)
        );
    };
    if chosen > span_s {
        bail!("--peak-window {}: the trace is only {} long", duration_text(chosen), duration_text(span_s));
    }
    let widths = own.filter(|w| *w < chosen);
    let busiest: Vec<Busiest> =
        [chosen].into_iter().chain(widths).filter_map(|w| busiest(times, w, mean_rate)).collect();
    let Some(peak) = busiest.first().copied() else { bail!("the trace holds no requests") };
    let per_day = mean_rate * super::demand::DAY_S;
    Ok(Demand {
        per_day,
        mean_rate,
        peak_to_mean: peak.peak_to_mean,
        peak_rate: peak.rate,
        source: Source::Trace {
            title,
            requests: times.len() as u64,
            span_s,
            shape_only: false,
            dispersion: None,
        },
        peak: Peak::Busiest(peak),
        hours: hours(times, span_s, mean_rate),
        busiest,
    })
}

/// Finds the interval of this width with the most requests, the first if there are several; `times` ascend.
fn busiest(times: &[f64], width_s: f64, mean_rate: f64) -> Option<Busiest> {
    let mut inside: VecDeque<f64> = VecDeque::new();
    let mut best: Option<(usize, f64)> = None;
    for t in times {
        inside.push_back(*t);
        while inside.front().is_some_and(|first| t - first >= width_s) {
            inside.pop_front();
        }
        if best.is_none_or(|(n, _)| inside.len() > n) {
            best = inside.front().map(|first| (inside.len(), *first));
        }
    }
    let (requests, from_s) = best?;
    let rate = requests as f64 / width_s;
    Some(Busiest { width_s, from_s, requests: requests as u64, rate, peak_to_mean: rate / mean_rate })
}

/// Shortest gap between the last request of a recording and its end, if the mean gap is not longer: an hour that lacks no more
/// than that is complete.
const LAST_GAP_S: f64 = 60.0;

/// Returns the hours of the whole days of a recording; empty if it is shorter than a day.
fn hours(times: &[f64], span_s: f64, mean_rate: f64) -> Vec<Hour> {
    let last = mean_rate.recip().max(LAST_GAP_S);
    let days = ((span_s + last) / super::demand::DAY_S).floor() as usize;
    let mut counts = vec![0_u64; 24 * days];
    for t in times {
        if let Some(n) = counts.get_mut((t / 3_600.0) as usize) {
            *n += 1;
        }
    }
    let hour = |(i, n): (usize, &u64)| Hour { name: i.to_string(), rate: *n as f64 / 3_600.0 };
    counts.iter().enumerate().map(hour).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_workload::trace::TraceSource;
    use proptest::prelude::*;
    use std::path::Path;

    fn every(gap: f64, from: f64, to: f64) -> Vec<f64> {
        let n = ((to - from) / gap).round() as u32;
        (0..n).map(|i| from + f64::from(i) * gap).collect()
    }

    #[test]
    fn the_busiest_interval_may_begin_anywhere() {
        // One request per second for an hour, and five per second for two minutes from 1,030 s on.
        let mut times = every(1.0, 0.0, 3_600.0);
        times.extend(every(0.25, 1_030.0, 1_150.0));
        times.sort_by(f64::total_cmp);
        let mean = times.len() as f64 / 3_600.0;
        let d = demand(&times, 3_600.0, mean, "t".into(), Some(60.0)).unwrap();
        let Peak::Busiest(b) = d.peak else { panic!("{d:?}") };
        assert!((b.rate - 5.0).abs() < 1e-9 && (1_029.0..1_091.0).contains(&b.from_s), "{b:?}");
        assert!((d.peak_to_mean - 5.0 / mean).abs() < 1e-9);
        assert_eq!(d.busiest.iter().map(|b| b.width_s).collect::<Vec<_>>(), [60.0, 10.0, 1.0]);
        let d = demand(&times, 3_600.0, mean, "t".into(), None).unwrap();
        assert!((d.busiest[0].width_s - 600.0).abs() < 1e-9, "the longest of which it has five");
        assert!(d.hours.is_empty(), "not a whole day");
    }

    #[test]
    fn a_recording_of_days_has_hours() {
        let mut times = every(10.0, 0.0, 86_400.0);
        times.extend(every(1.0, 7_200.0, 10_800.0));
        times.sort_by(f64::total_cmp);
        let d = demand(&times, 86_390.0, times.len() as f64 / 86_400.0, "t".into(), None).unwrap();
        assert_eq!(d.hours.len(), 24);
        assert!((d.hours[2].rate - 1.1).abs() < 1e-9 && (d.hours[3].rate - 0.1).abs() < 1e-9);
        assert!((d.busiest[0].width_s - 3_600.0).abs() < 1e-9 && (d.peak_rate - 1.1).abs() < 1e-3);
    }

    /// Rows: seconds between requests, hours of the recording, and whole days in it.
    #[test]
    fn unrecorded_hours_are_not_idle_hours() {
        for (gap, hours, days) in [
            (10.0, 23.0, 0),
            (10.0, 23.9, 0),
            (10.0, 24.0, 1),
            (3_600.0, 24.0, 1), // the last one comes an hour before the end
            (10.0, 47.0, 1),
            (10.0, 48.0, 2),
        ] {
            let times = every(gap, 0.0, hours * 3_600.0);
            let span = times.last().unwrap() - times[0];
            let d = demand(&times, span, 1.0 / gap, "t".into(), Some(3_600.0)).unwrap();
            assert_eq!(d.hours.len(), 24 * days, "{gap} s, {hours} h");
            assert!(d.hours.iter().all(|h| h.rate > 0.0), "{gap} s, {hours} h");
        }
    }

    #[test]
    fn a_recording_that_is_too_short_is_an_error() {
        let times = every(0.1, 0.0, 3.0);
        let e = demand(&times, 2.9, 10.0, "t".into(), None).unwrap_err().to_string();
        assert!(e.contains("2.9 s long, too short") && e.contains("--peak-to-mean"), "{e}");
        let e = demand(&times, 2.9, 10.0, "t".into(), Some(60.0)).unwrap_err().to_string();
        assert!(e.contains("--peak-window 1 min") || e.contains("--peak-window 60 s"), "{e}");
    }

    #[test]
    fn every_request_of_a_trace_on_disk_counts() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/traces");
        for name in ["mooncake.jsonl", "azure-2023.csv", "aiperf-sessions.jsonl"] {
            let trace = Trace::open_for_rewrite(&TraceSource::of(folder.join(name)), None).unwrap();
            let span = trace.summary().span_s;
            let d = of(&trace, Some(span)).unwrap();
            let Peak::Busiest(b) = d.peak else { panic!("{d:?}") };
            let rows = trace.summary().rows;
            assert!(b.requests <= rows && b.requests + 1 >= rows, "{name}: {} of {rows}", b.requests);
            assert!((d.mean_rate - trace.summary().rate).abs() < 1e-12);
        }
    }

    proptest! {
        #[test]
        fn no_interval_has_more_requests(mut times in prop::collection::vec(0.0f64..1_000.0, 1..200), width in 1.0f64..500.0) {
            times.sort_by(f64::total_cmp);
            let b = busiest(&times, width, 1.0).unwrap();
            let most = times.iter().map(|from| times.iter().filter(|t| **t >= *from && **t - from < width).count()).max();
            prop_assert_eq!(Some(b.requests as usize), most);
        }
    }
}
