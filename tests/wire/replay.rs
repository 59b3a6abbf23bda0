//! The recordings over a real socket: a server writes the recorded reads, the real client reads them.

use crate::expected::{PAGES, REFUSED, STREAMS};
use crate::pure::check;
use crate::recording::Recording;
use crate::serve::{Act, Script, client, serve, shot};
use goodput::client::Api;
use goodput::record::{Conn, Failure, Outcome};

fn script(recording: &Recording) -> Script {
    recording.reads.iter().map(|(_, bytes)| Act::Write(bytes.clone())).chain([Act::Close]).collect()
}

fn api(recording: &Recording) -> Api {
    Api::of_path(&recording.path).unwrap()
}

#[tokio::test]
async fn every_stream_is_read() {
    for s in STREAMS {
        let recording = Recording::load(s.name);
        let server = serve(vec![script(&recording)]).await;
        let mut shot = shot();
        shot.payload.asked = recording.asked;
        let got = client(&server.url, api(&recording)).send(shot).await;
        let r = got.record;
        check(s, &r);
        let expected =
            if s.finish.is_some() { (Outcome::Ok, None) } else { (Outcome::Failed, Some(Failure::Reset)) };
        assert_eq!((r.outcome, r.failure), expected, "{}", s.name);
        assert_eq!((r.status, r.attempts, r.conn), (Some(200), 1, Some(Conn::New)), "{}", s.name);
        assert_eq!(got.gaps_us.len() as u32, s.events - 1, "{}", s.name);
        let body: usize = recording.body_reads().iter().map(|(_, b)| b.len()).sum();
        assert_eq!(r.output_bytes, body as u64, "{}", s.name);
        let order = [r.sent, r.headers, r.first_event, r.first_token, r.last_token, Some(r.end)];
        assert!(order.is_sorted() && order[0].is_some(), "{}: {r:?}", s.name);
    }
}

#[tokio::test]
async fn every_refusal_is_told_apart() {
    for e in REFUSED {
        let recording = Recording::load(e.name);
        assert_eq!(recording.status(), e.status, "{}", e.name);
        let server = serve(vec![script(&recording)]).await;
        let got = client(&server.url, api(&recording)).send(shot()).await;
        let r = got.record;
        assert_eq!(
            (r.outcome, r.failure, r.status),
            (Outcome::Failed, Some(e.failure), Some(e.status)),
            "{}",
            e.name
        );
        let sample = got.sample.expect("a failed request has a sample");
        assert!(sample.contains(e.says), "{}: {sample}", e.name);
    }
}

#[tokio::test]
async fn every_page_is_fetched() {
    for (name, status) in PAGES {
        let recording = Recording::load(name);
        assert_eq!(recording.method, "GET", "{name}");
        let server = serve(vec![script(&recording)]).await;
        let (got, body) = client(&server.url, Api::Chat).get(&recording.path).await.unwrap();
        let expected: Vec<u8> = recording.body_reads().into_iter().flat_map(|(_, b)| b).collect();
        assert_eq!((got, &body[..]), (*status, &expected[..]), "{name}");
        let asked = server.requests.lock().unwrap();
        assert!(asked[0].starts_with(&format!("GET {} HTTP/1.1\r\n", recording.path)), "{asked:?}");
    }
}
