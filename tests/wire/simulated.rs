//! Every fault of the simulated server, with the client's expected reaction. `docs/faults.md` is made from these
//! expectations, and the tests compare them with the actual results. Set `GOODPUT_WRITE_DOCS` to write the page again.

use crate::serve::{retrying, retrying_at, shot_for, shot_to};
use goodput::client::{Api, Client, Http, Server, Shot, Target};
use goodput::record::{Failure, Finished, Outcome};
use goodput::sim::config::Simulated;
use goodput::sim::fault::Fault;
use goodput::sim::{router::router, serve::Embedded};
use goodput::slo::{Judged, Slo};
use std::time::Duration;

/// The expected outcome of a request with the fault, and of its retry if there is one.
pub(crate) struct Expected {
    /// The possible failures; empty if the request succeeds.
    pub(crate) failures: &'static [Failure],
    pub(crate) status: Option<u16>,
    pub(crate) attempts: u8,
}

const fn ok() -> Expected {
    Expected { failures: &[], status: Some(200), attempts: 1 }
}

const fn fails(failures: &'static [Failure], status: u16) -> Expected {
    Expected { failures, status: Some(status), attempts: 1 }
}

/// Expects no answer. A request whose connection broke is sent `attempts` times with `client.retries = 1`, and once without.
const fn unanswered(failures: &'static [Failure], attempts: u8) -> Expected {
    Expected { failures, status: None, attempts }
}

pub(crate) const fn expected(fault: Fault) -> Expected {
    use Failure as F;
    match fault {
        // The reset may arrive before the client knows that it is connected.
        Fault::Refused => unanswered(&[F::Reset, F::Connect], 2),
        Fault::Closed | Fault::Reset => unanswered(&[F::Reset], 2),
        Fault::Silent => unanswered(&[F::Timeout], 1),
        Fault::ResetMidstream | Fault::StreamReset => fails(&[F::Reset], 200),
        Fault::Stall | Fault::HeadersOnly | Fault::SlowDrip => fails(&[F::Timeout], 200),
        Fault::Truncated | Fault::CutShort => fails(&[F::Truncated], 200),
        Fault::BadJson | Fault::Html | Fault::LongLine | Fault::HugeBody | Fault::Compressed => {
            fails(&[F::Malformed], 200)
        }
        Fault::ErrorEvent => fails(&[F::StreamError], 200),
        Fault::Status400 => fails(&[F::ClientError], 400),
        Fault::Status401 => fails(&[F::Unauthorized], 401),
        Fault::Status404 => fails(&[F::ClientError], 404),
        Fault::Status408 => fails(&[F::ClientError], 408),
        Fault::Status413 => fails(&[F::ClientError], 413),
        Fault::Status429 => fails(&[F::RateLimited], 429),
        Fault::Status500 => fails(&[F::ServerError], 500),
        Fault::Status502 => fails(&[F::ServerError], 502),
        Fault::Status503 => fails(&[F::ServerError], 503),
        Fault::Status504 => fails(&[F::ServerError], 504),
        Fault::Redirect => fails(&[F::UnexpectedStatus], 307),
        Fault::Endless | Fault::UsageHuge => fails(&[F::Overrun], 200),
        Fault::NoFinish
        | Fault::UsageOwn
        | Fault::UsageFalling
        | Fault::ByteByByte
        | Fault::SplitUtf8
        | Fault::Crlf
        | Fault::Comments
        | Fault::Bundled
        | Fault::WrongType
        | Fault::Goaway
        | Fault::OneChoice => ok(),
    }
}

/// Returns a fixed server with the fault on this share of the requests.
fn server(fault: Fault, p: f64) -> Simulated {
    let name = fault.name();
    toml::from_str(&format!(
        "preset = \"fixed\"\nttft = \"20ms\"\ntpot = \"10ms\"\nfault = {{ {name} = {p:?} }}"
    ))
    .unwrap()
}

/// The APIs whose events differ.
const EVENTS: [Api; 4] = [Api::Chat, Api::Completions, Api::Responses, Api::Messages];

/// Returns true if an answer takes until its timeout.
fn hangs(fault: Fault) -> bool {
    expected(fault).failures == [Failure::Timeout]
}

fn check(fault: Fault, got: &Finished, timeout: Duration) {
    let (want, r) = (expected(fault), &got.record);
    let said = format!("{fault:?}: {got:?}");
    match r.failure {
        None => assert!(want.failures.is_empty() && r.outcome == Outcome::Ok, "{said}"),
        Some(kind) => assert!(want.failures.contains(&kind) && r.outcome == Outcome::Failed, "{said}"),
    }
    assert_eq!(r.status, want.status, "{said}");
    assert_eq!(got.sample.is_some(), r.failure.is_some(), "a failure shows what it was seen in: {said}");
    if r.failure.is_none() {
        assert_eq!((r.output_tokens, r.events > 0), (Some(4), true), "{said}");
    }
    // A failure misses every limit, however long it took. A complete answer is judged by its times, and one that the
    // client's timeout ended by the times known until then.
    let slo: Slo = toml::from_str("ttft.p99 = \"1h\"\ne2e.p99 = \"1h\"").unwrap();
    let judged: Vec<Judged> = slo.limits().iter().map(|l| l.judge(r)).collect();
    let want = match r.failure {
        None => [Judged::Met; 2],
        Some(Failure::Timeout) if r.first_token.is_some() => [Judged::Met, Judged::Unknown],
        Some(Failure::Timeout) => [Judged::Unknown; 2],
        Some(_) => [Judged::Missed; 2],
    };
    assert_eq!(judged, want, "{said}");
    // The limit on memory is that of one event, plus the last read.
    assert!(r.output_bytes < (16 << 20) + (1 << 20), "{} bytes: {fault:?}", r.output_bytes);
    if hangs(fault) {
        assert!(r.end >= timeout, "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_fault_in_process_and_in_time() {
    let faults = || Fault::ALL.into_iter().filter(|f| !f.needs_socket());
    for (api, fault) in EVENTS.into_iter().flat_map(|api| faults().map(move |fault| (api, fault))) {
        let sim = server(fault, 1.0);
        let server = Server { api, ..Server::new(Target::Simulated(toml::Table::new())) };
        let client = Client::in_process(router(&sim), &server);
        let shot = shot_to(api, "simulated");
        let timeout = shot.timeout;
        let got = client.send(shot).await;
        check(fault, &got, timeout);
        let r = got.record;
        assert_eq!(r.attempts, 1, "{api:?} {fault:?}");
        assert!(r.end <= timeout, "bounded: {api:?} {fault:?} took {:?}", r.end);
        if hangs(fault) {
            assert_eq!(r.end, timeout, "{api:?} {fault:?}");
        }
    }
}

#[tokio::test]
async fn every_fault_over_a_socket() {
    // Those that take all the time that they are given have little of it, and all others more than they could need. An
    // endless stream is as long as its tokens take.
    let each = Fault::ALL.into_iter().filter(|f| *f != Fault::Endless).map(|fault| async move {
        let embedded = Embedded::start(&server(fault, 1.0)).unwrap();
        let client = retrying_at(&embedded.url);
        let timeout = if hangs(fault) { Duration::from_secs(1) } else { Duration::from_secs(300) };
        let got = client.send(Shot { timeout, ..shot_for("simulated") }).await;
        if hangs(fault) {
            // On a machine that is halted meanwhile, not even the head may have come.
            assert_eq!(got.record.failure, Some(Failure::Timeout), "{got:?}");
        } else {
            check(fault, &got, timeout);
            // Where it was not even connected at the second attempt, or at the first, after which there is no other.
            let sent = got.record.attempts;
            let refused = got.record.failure == Some(Failure::Connect) && sent == 1;
            assert!(refused || sent == expected(fault).attempts, "{got:?}");
        }
        // The server goes on: its list of models is there for the asking, save where it takes no connection.
        if fault != Fault::Refused {
            assert_eq!(client.get("/v1/models").await.unwrap().0, 200, "{fault:?}");
        }
    });
    futures_util::future::join_all(each).await;
}

#[tokio::test]
async fn faults_of_connections_under_http_2() {
    for fault in [Fault::Goaway, Fault::StreamReset, Fault::ResetMidstream, Fault::Reset, Fault::Closed] {
        let embedded = Embedded::start(&server(fault, 1.0)).unwrap();
        let target = Target::Url(embedded.url.parse().unwrap());
        let client = retrying(&Server { http: Http::Two, ..Server::new(target) });
        let timeout = Duration::from_secs(300);
        for _ in 0..2 {
            let got = client.send(Shot { timeout, ..shot_for("simulated") }).await;
            check(fault, &got, timeout);
            assert_eq!(got.record.attempts, expected(fault).attempts, "{got:?}");
        }
    }
}

/// A connection that closes before the first byte is a failure; with `client.retries = 1` the request is sent again, and has failed if that fails too.
#[tokio::test]
async fn one_repetition_where_nothing_was_received() {
    for fault in [Fault::Closed, Fault::Reset] {
        let embedded = Embedded::start(&server(fault, 0.5)).unwrap();
        let (mut first, mut second, mut failed) = (0, 0, 0);
        let client = retrying_at(&embedded.url);
        for _ in 0..40 {
            let r =
                client.send(Shot { timeout: Duration::from_secs(300), ..shot_for("simulated") }).await.record;
            match (r.outcome, r.attempts) {
                (Outcome::Ok, 1) => first += 1,
                (Outcome::Ok, 2) => second += 1,
                (Outcome::Failed, 2) => failed += 1,
                _ => panic!("{r:?}"),
            }
        }
        assert!(first > 0 && second > 0 && failed > 0, "{first} {second} {failed}: by the seed");
        let client = Client::http(&Server::new(Target::Url(embedded.url.parse().unwrap())), None).unwrap();
        let mut failed = 0;
        for _ in 0..40 {
            let r =
                client.send(Shot { timeout: Duration::from_secs(300), ..shot_for("simulated") }).await.record;
            assert_eq!((r.attempts, r.ok()), (1, r.failure != Some(Failure::Reset)), "{r:?}");
            failed += u32::from(!r.ok());
        }
        assert!((5..=35).contains(&failed), "about half: {failed}");
    }
}

#[tokio::test(start_paused = true)]
async fn documents_have_faults_as_well() {
    let faults = || Fault::ALL.into_iter().filter(|f| !f.needs_socket());
    for (api, fault) in EVENTS.into_iter().flat_map(|api| faults().map(move |fault| (api, fault))) {
        let server = Server { api, stream: false, ..Server::new(Target::Simulated(toml::Table::new())) };
        let client = Client::in_process(router(&self::server(fault, 1.0)), &server);
        let encoder = goodput::client::Encoder::new(
            server.api,
            "simulated",
            &serde_json::Map::new(),
            goodput::client::Pinning::FULL,
            true,
        );
        let encoder = encoder.whole();
        let payload = encoder.request(&encoder.prefix(None), "hello", 4);
        let timeout = Duration::from_secs(600);
        let got = client.send(Shot { payload, timeout, ..shot_for("simulated") }).await.record;
        let expected = match fault {
            Fault::Truncated => Some(Failure::Malformed),
            // A byte each 50 ms is slow, and a document of 700 bytes has an end; tokens past the last, and what events say of
            // their tokens, are no matter of documents.
            Fault::SlowDrip | Fault::Endless | Fault::CutShort | Fault::UsageHuge => None,
            _ => expected(fault).failures.first().copied(),
        };
        assert_eq!(got.failure, expected, "{api:?} {fault:?}: {got:?}");
        assert!(
            got.end <= timeout && got.output_bytes <= (64 << 20) + (1 << 20),
            "{api:?} {fault:?}: {got:?}"
        );
    }
}
