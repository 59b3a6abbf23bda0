//! Proxies: those of the environment are used and reported without their passwords, and loopback addresses need none.

use super::leak::{everything, lacks};
use super::serve::{http, listen, model, pem, tls};
use crate::common::{goodput, plan, result};
use goodput::client::preflight::check_models;
use goodput::client::{Client, Server};
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;

const PASSWORD: &str = "hunter2-of-the-proxy";

/// Returns the command without the proxy variables of the test machine.
fn clean() -> assert_cmd::Command {
    let mut command = goodput();
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"] {
        command.env_remove(name).env_remove(name.to_lowercase());
    }
    command
}

#[test]
fn the_proxy_of_the_environment_is_used_and_told_without_its_password() {
    let dir = tempfile::tempdir().unwrap();
    let (proxy, seen) = http(model);
    let named = format!("http://me:{PASSWORD}@{proxy}");
    let file = plan(dir.path(), "url = \"http://server.test:8000\"", "rates = [20]");
    let through = format!("through the proxy http://{proxy}, which the environment names");
    let check = clean().arg("check").arg(&file).env("HTTP_PROXY", &named).assert().success();
    let check = check.get_output().clone();
    let shown = String::from_utf8_lossy(&check.stdout);
    assert!(shown.contains(&format!("through the proxy http://{proxy}, set in the environment")), "{shown}");
    let out = dir.path().join("run");
    let mut sweep = clean();
    sweep
        .arg("sweep")
        .arg(&file)
        .arg("--out")
        .arg(&out)
        // Only the proxy can tell where the name leads.
        .arg("--yes")
        .env("HTTP_PROXY", &named)
        .env("GOODPUT_LOG", "trace");
    let sweep = sweep.assert().code(predicates::ord::ne(1)).get_output().clone();
    let said = String::from_utf8_lossy(&sweep.stderr);
    assert!(said.contains(&format!("warning: Requests go {through}")), "{said}");
    assert!(result(&out)["caveats"].to_string().contains(&through), "{}", result(&out)["caveats"]);
    let heads = seen.lock().unwrap().clone();
    let whole = heads
        .iter()
        .filter(|head| head.contains("POST http://server.test:8000/v1/chat/completions HTTP/1.1"));
    assert!(whole.count() > 10, "the proxy is told the whole URL: {:?}", heads.first());
    assert!(
        heads.iter().all(|h| h.to_lowercase().contains("proxy-authorization: basic ")),
        "and the password"
    );
    let mut written = everything(dir.path());
    written.extend(
        [
            ("stdout", sweep.stdout),
            ("stderr", sweep.stderr),
            ("check", check.stdout),
            ("check's stderr", check.stderr),
        ]
        .map(|(n, b)| (n.to_owned(), b)),
    );
    for (name, bytes) in written {
        lacks(PASSWORD, &name, &bytes);
        lacks(&format!("me:{PASSWORD}"), &name, &bytes);
    }
}

/// Rows: the server, further lines of its table, `NO_PROXY`, and the expected proxy.
#[test]
fn what_goes_past_the_proxy_is_known() {
    let dir = tempfile::tempdir().unwrap();
    let named = [("HTTP_PROXY", "http://one.test:1"), ("https_proxy", "http://two.test:2")];
    for (url, rest, no_proxy, want) in [
        ("http://server.test", "", "", Some("http://one.test:1")),
        ("https://server.test", "", "", Some("http://two.test:2")),
        ("http://server.test", "", "other.test,.test", None),
        ("http://server.test", "proxy = \"none\"", "", None),
        ("http://server.test", "proxy = \"http://three.test:3\"", "*", Some("http://three.test:3")),
        ("http://127.0.0.1:8000", "", "", None),
        ("http://localhost:8000", "", "", None),
    ] {
        let file = plan(dir.path(), &format!("url = \"{url}\"\n{rest}"), "rates = [1]");
        let out = clean().arg("check").arg(&file).envs(named).env("NO_PROXY", no_proxy).assert().success();
        let said = String::from_utf8_lossy(&out.get_output().stdout).into_owned();
        let told = said.lines().find_map(|line| line.trim().strip_prefix("through the proxy "));
        assert_eq!(told.map(|t| t.split(',').next().unwrap()), want, "{url} {rest}: {said}");
    }
    let file = plan(dir.path(), "url = \"http://server.test\"", "rates = [1]");
    let says = contains("socks5://socks.test:1080").and(contains("speak HTTP")).and(contains(PASSWORD).not());
    let socks = format!("socks5://me:{PASSWORD}@socks.test:1080");
    clean().arg("check").arg(&file).env("ALL_PROXY", socks).assert().code(1).stderr(says);
    let with_password = format!("url = \"http://server.test\"\nproxy = \"http://me:{PASSWORD}@proxy.test\"");
    let file = plan(dir.path(), &with_password, "rates = [1]");
    let said = clean().arg("check").arg(&file).assert().code(1).get_output().stderr.clone();
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("user:password@") && said.contains("HTTPS_PROXY"), "{said}");
}

/// The error names a proxy that is unreachable, or that requires a password.
#[test]
fn a_proxy_that_does_not_let_through_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (strict, _) = http(|_| super::serve::answer("407 Proxy Authentication Required", "", "who?"));
    for (proxy, says) in
        [(closed, "it is the one that has to be reached"), (strict, "wants a user and a password")]
    {
        let table = format!("url = \"http://server.test\"\nproxy = \"http://{proxy}\"");
        let file = plan(dir.path(), &table, "rates = [1]");
        let named = contains(format!("proxy http://{proxy}")).and(contains(says));
        clean()
            .arg("sweep")
            .arg(&file)
            .arg("--out")
            .arg(dir.path().join("run"))
            .assert()
            .code(1)
            .stderr(named);
    }
}

/// For a server over TLS, the proxy is a tunnel: it sees neither requests nor keys, and the certificate is the
/// server's.
#[tokio::test]
async fn tls_is_spoken_through_the_proxy() {
    let (server, _) = tls("server.pem", false);
    let (told, heads) = std::sync::mpsc::channel();
    let proxy = listen(move |mut client| {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            if client.read(&mut byte).unwrap_or(0) == 0 {
                return;
            }
            head.push(byte[0]);
        }
        let _ = told.send(String::from_utf8_lossy(&head).into_owned());
        let mut behind = TcpStream::connect(server).unwrap();
        client.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").unwrap();
        let (mut to, mut from) = (behind.try_clone().unwrap(), client.try_clone().unwrap());
        thread::spawn(move || std::io::copy(&mut from, &mut to));
        let _ = std::io::copy(&mut behind, &mut client);
    });
    for (ca, believed) in [("ca.pem", true), ("other-ca.pem", false)] {
        let text =
            format!("url = \"https://server.test\"\nproxy = \"http://{proxy}\"\ntls.ca = {:?}", pem(ca));
        let table: Server = toml::from_str(&text).unwrap();
        let asked = check_models(&Client::http(&table, None).unwrap(), None).await;
        assert_eq!(asked.is_ok(), believed, "{asked:?}");
        let head = heads.recv().unwrap();
        assert!(head.starts_with("CONNECT server.test:443 HTTP/1.1\r\n"), "{head}");
    }
}
