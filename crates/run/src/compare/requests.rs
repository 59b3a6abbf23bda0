//! Latencies of single requests from `requests.csv`, for the compared steps only.

use crate::rundir::requests::RequestRow;
use crate::rundir::table::each_row;
use anyhow::Result;
use goodput_core::record::{Phase, Record};
use goodput_core::slo::{AnswerPart, Metric};
use std::collections::BTreeMap;
use std::path::Path;

/// The compared values of a request, times in milliseconds: infinite if it failed, NaN if undefined or unknown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timed {
    /// Due time from the start of its step.
    pub due: f64,
    /// See [`Metric::Ttft`].
    pub ttft: f64,
    /// See [`Metric::Tpot`].
    pub tpot: f64,
    /// See [`Metric::E2e`].
    pub e2e: f64,
    /// Output tokens; zero if unknown.
    pub tokens: f64,
}

impl Timed {
    /// Returns the values of a measured record.
    ///
    /// A failed request has infinite latencies. One that was cut off, by the end of its step or by our own timeout,
    /// has the latencies known by then, and an infinite e2e.
    pub fn of(r: &Record) -> Self {
        let ms = |m: Metric| m.of(r).map(goodput_core::units::ms);
        let or = |v: Option<f64>| v.unwrap_or(if r.ok() { f64::NAN } else { f64::INFINITY });
        let failed = r.is_broken();
        let tpot =
            if failed { f64::INFINITY } else { ms(Metric::Tpot).filter(|_| r.ok()).unwrap_or(f64::NAN) };
        Self {
            due: goodput_core::units::ms(r.due),
            ttft: or(ms(Metric::Ttft).filter(|_| !failed)),
            tpot,
            e2e: or(ms(Metric::E2e).filter(|_| r.ok())),
            tokens: r.output_tokens.map_or(0.0, f64::from),
        }
    }

    /// Returns the latency of a part of the answer. Only the principal metrics are compared request by request.
    pub fn get(&self, part: AnswerPart) -> f64 {
        match part {
            AnswerPart::First => self.ttft,
            AnswerPart::Pace => self.tpot,
            AnswerPart::Whole => self.e2e,
        }
    }
}

/// The measured requests of steps, by series and number, in order of `due`.
pub type Requests = BTreeMap<(String, u32), Vec<Timed>>;

/// Reads the measured requests of the named steps. Skips torn rows; a missing file counts as empty.
///
/// # Errors
/// Fails if the file exists but cannot be read.
pub fn read(dir: &Path, wanted: &[(String, u32)]) -> Result<Requests> {
    let mut all: Requests = wanted.iter().map(|key| (key.clone(), Vec::new())).collect();
    let mut key = (String::new(), 0);
    each_row(dir, |row: &mut RequestRow| {
        if row.record.phase != Phase::Measure {
            return;
        }
        // Requests of one step are adjacent.
        if (&key.0, key.1) != (&row.series, row.step) {
            key = (row.series.clone(), row.step);
        }
        if let Some(requests) = all.get_mut(&key) {
            requests.push(Timed::of(&row.record));
        }
    })?;
    for requests in all.values_mut() {
        requests.sort_by(|a, b| a.due.total_cmp(&b.due));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rundir::REQUESTS;

    const CSV: &str = "series,step,phase,outcome,due_ms,first_token_ms,last_token_ms,output_tokens,first_event_tokens,end_ms\n\
        a,1,measure,ok,200,250,350,11,1,350\n\
        a,1,measure,ok,100,110,110,1,1,110\n\
        a,1,settle,ok,10,110,110,1,1,110\n\
        a,1,measure,failed,300,,,,,400\n\
        a,1,measure,cut,350,390,,,,900\n\
        a,2,measure,ok,1,2,3,3,1,3\n\
        a,1,measure,ok,400,45";

    #[test]
    fn rows_become_latencies() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(REQUESTS), CSV).unwrap();
        let key = ("a".to_owned(), 1);
        let all = read(dir.path(), std::slice::from_ref(&key)).unwrap();
        let of = &all[&key];
        assert_eq!((all.len(), of.len()), (1, 4), "one step, measured and whole rows alone");
        assert!(
            (of[0].ttft - 10.0).abs() < 1e-9 && of[0].tpot.is_nan(),
            "one token has no TPOT: {:?}",
            of[0]
        );
        assert!((of[1].tpot - 10.0).abs() < 1e-9 && (of[1].e2e - 150.0).abs() < 1e-9, "{:?}", of[1]);
        assert!(of[2].ttft.is_infinite() && of[2].tpot.is_infinite() && of[2].e2e.is_infinite());
        assert!((of[3].ttft - 40.0).abs() < 1e-9 && of[3].tpot.is_nan() && of[3].e2e.is_infinite());
    }

    #[test]
    fn what_was_known_when_our_own_timeout_ended_a_request_counts() {
        let dir = tempfile::tempdir().unwrap();
        let heads = CSV.lines().next().unwrap();
        let row = "a,1,measure,failed,300,340,,,,400";
        let text =
            format!("{heads},failure,output_asked\n{row},timeout,30\n{row},reset,30\n{row},timeout,0\n");
        std::fs::write(dir.path().join(REQUESTS), text).unwrap();
        let key = ("a".to_owned(), 1);
        let all = read(dir.path(), std::slice::from_ref(&key)).unwrap();
        let ttfts: Vec<bool> = all[&key].iter().map(|t| t.ttft.is_finite()).collect();
        assert_eq!(ttfts, [true, false, false], "not of what broke, nor of another tool's timeout");
        assert!(all[&key].iter().all(|t| t.e2e.is_infinite()));
    }

    #[test]
    fn without_the_file_there_are_none() {
        let dir = tempfile::tempdir().unwrap();
        let key = ("a".to_owned(), 1);
        assert!(read(dir.path(), std::slice::from_ref(&key)).unwrap()[&key].is_empty());
    }
}
