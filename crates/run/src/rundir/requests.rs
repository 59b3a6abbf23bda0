//! `requests.csv`: a row per request. Column names and their order are a contract with users.

use super::cell;
use goodput_core::record::{Conn, Failure, Outcome, Phase, Record, TokenSource};
use goodput_core::units::ms;
use serde::Serialize;
use std::time::Duration;

/// A row; empty cells are "not known". Times in milliseconds from the start of the step.
#[derive(Debug, Serialize)]
pub(crate) struct RequestRow<'a> {
    #[serde(serialize_with = "cell::text")]
    series: &'a str,
    step: u32,
    id: u64,
    phase: Phase,
    #[serde(serialize_with = "cell::text")]
    class: &'a str,
    session: Option<u64>,
    turn: u16,
    target: u16,
    conn: Option<Conn>,
    attempts: u8,
    due_ms: f64,
    sent_ms: Option<f64>,
    headers_ms: Option<f64>,
    first_event_ms: Option<f64>,
    first_token_ms: Option<f64>,
    first_content_ms: Option<f64>,
    last_token_ms: Option<f64>,
    end_ms: f64,
    input_asked: u32,
    input_tokens: Option<u32>,
    cached_tokens: Option<u32>,
    output_asked: u32,
    output_tokens: Option<u32>,
    reasoning_tokens: Option<u32>,
    token_source: Option<TokenSource>,
    first_event_tokens: Option<u32>,
    events: u32,
    itl_max_ms: Option<f64>,
    itl_over: u32,
    output_bytes: u64,
    outcome: Outcome,
    failure: Option<Failure>,
    status: Option<u16>,
    #[serde(serialize_with = "cell::opt_text")]
    finish: Option<&'a str>,
    check: Option<bool>,
}

impl<'a> RequestRow<'a> {
    /// The row of a record.
    pub(crate) fn new(series: &'a str, step: u32, class: &'a str, r: &'a Record) -> Self {
        let opt = |d: Option<Duration>| d.map(ms);
        Self {
            series,
            step,
            id: r.id,
            phase: r.phase,
            class,
            session: r.session,
            turn: r.turn,
            target: r.target,
            conn: r.conn,
            attempts: r.attempts,
            due_ms: ms(r.due),
            sent_ms: opt(r.sent),
            headers_ms: opt(r.headers),
            first_event_ms: opt(r.first_event),
            first_token_ms: opt(r.first_token),
            first_content_ms: opt(r.first_content),
            last_token_ms: opt(r.last_token),
            end_ms: ms(r.end),
            input_asked: r.input_asked,
            input_tokens: r.input_tokens,
            cached_tokens: r.cached_tokens,
            output_asked: r.output_asked,
            output_tokens: r.output_tokens,
            reasoning_tokens: r.reasoning_tokens,
            token_source: r.token_source,
            first_event_tokens: r.first_event_tokens,
            events: r.events,
            itl_max_ms: opt(r.itl_max),
            itl_over: r.itl_over,
            output_bytes: r.output_bytes,
            outcome: r.outcome,
            failure: r.failure,
            status: r.status,
            finish: r.finish.as_deref(),
            check: r.check,
        }
    }
}

/// The columns of `requests.csv`: a contract with other programs.
#[cfg(test)]
pub(super) const REQUEST_COLUMNS: &str = "series,step,id,phase,class,session,turn,target,conn,attempts,due_ms,sent_ms,headers_ms,first_event_ms,\
             first_token_ms,first_content_ms,last_token_ms,end_ms,input_asked,input_tokens,cached_tokens,output_asked,\
             output_tokens,reasoning_tokens,token_source,first_event_tokens,events,itl_max_ms,itl_over,output_bytes,outcome,\
             failure,status,finish,check";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_are_the_contract() {
        let mut w = csv::Writer::from_writer(vec![]);
        let mut record = Record::due(7, Phase::Measure, Duration::from_micros(1_234_567));
        record.failure = Some(Failure::RateLimited);
        record.outcome = Outcome::Failed;
        record.finish = Some("a,\"b\"\n".into());
        w.serialize(RequestRow::new("main", 3, "all", &record)).unwrap();
        let text = String::from_utf8(w.into_inner().unwrap()).unwrap();
        let (head, row) = text.split_once('\n').unwrap();
        assert_eq!(head, REQUEST_COLUMNS);
        assert!(row.starts_with("main,3,7,measure,all,,0,0,,0,1234.567,,"), "{row}");
        assert!(row.contains("failed,rate-limited,,\"a,\"\"b\"\"\n\""), "{row}");
    }
}
