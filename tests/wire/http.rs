//! The ways to speak HTTP that a plan can choose: versions, connections, sockets.

use super::serve::shot_for;
use goodput::client::{Client, Connections, Http, Server, Target};
use goodput::record::{Conn, Outcome};
use goodput::sim::config::Simulated;
use goodput::sim::{router::router, serve::Embedded};

/// A simulated server, and how the plan speaks to it.
fn simulated(http: Http, connections: Connections) -> (Embedded, Client) {
    let server = Embedded::start(&Simulated::named("fixed").unwrap()).unwrap();
    let target = Target::Url(server.url.parse().unwrap());
    let client = Client::http(&Server { http, connections, ..Server::new(target) }, None).unwrap();
    (server, client)
}

#[tokio::test]
async fn each_version_of_http_is_spoken() {
    for http in [Http::One, Http::Two, Http::Auto] {
        let (_server, client) = simulated(http, Connections::Warm);
        let sent = futures_util::future::join_all((0..8).map(|_| client.send(shot_for("simulated")))).await;
        let new = sent.iter().filter(|f| f.record.conn == Some(Conn::New)).count();
        assert!(sent.iter().all(|f| f.record.outcome == Outcome::Ok && f.record.output_tokens == Some(4)));
        if http == Http::Two {
            assert_eq!(new, 1, "one connection for all");
        } else {
            assert!(new > 1, "a connection for each request in flight: {new}");
        }
    }
}

#[tokio::test]
async fn cold_connections_are_opened_for_every_request() {
    for http in [Http::One, Http::Two] {
        let (_server, client) = simulated(http, Connections::Cold);
        client.warm(4).await;
        for _ in 0..3 {
            let got = client.send(shot_for("simulated")).await.record;
            assert_eq!((got.outcome, got.conn), (Outcome::Ok, Some(Conn::New)), "{http:?}");
        }
    }
}

#[tokio::test]
async fn a_server_without_http_2_is_named_as_such() {
    let models = super::serve::status("200 OK", r#"{"data":[]}"#);
    let server = super::serve::serve(vec![vec![super::serve::Act::Write(models)]]).await;
    let target = Target::Url(server.url.parse().unwrap());
    let client = Client::http(&Server { http: Http::Two, ..Server::new(target) }, None).unwrap();
    let said = goodput::client::preflight::check_models(&client, None).await.unwrap_err().to_string();
    assert!(said.contains("http = \"2\"") && said.contains("leave http out"), "{said}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_unix_socket_is_a_server_like_another() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("server.sock");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let router = router(&Simulated::named("fixed").unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    for url in [format!("unix:{}", path.display()), format!("unix://{}", path.display())] {
        let client = Client::http(&Server::new(Target::Url(url.parse().unwrap())), None).unwrap();
        assert_eq!(client.get("/health").await.unwrap().0, 200);
        let got = client.send(shot_for("simulated")).await.record;
        assert_eq!((got.outcome, got.output_tokens, got.conn), (Outcome::Ok, Some(4), Some(Conn::Reused)));
    }
}
