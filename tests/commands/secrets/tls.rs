//! TLS: which servers the client trusts, and how it authenticates itself.

use super::serve::{pem, tls};
use crate::common::{goodput, plan, result};
use goodput::client::preflight::check_models;
use goodput::client::{Client, Server};
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use std::fs;
use std::path::Path;

/// Runs the preflight of such a `[server]` table. Returns the model, or the reason why there is none.
async fn asked(url: &str, rest: &str) -> Result<String, String> {
    let text = format!("url = \"{url}\"\nproxy = \"none\"\n{rest}");
    let server: Server = toml::from_str(&text).map_err(|e| e.to_string())?;
    let client = Client::http(&server, None).map_err(|e| format!("{e:#}"))?;
    check_models(&client, None).await.map(|m| m.id).map_err(|e| format!("{e:#}"))
}

fn ca(name: &str) -> String {
    format!("tls.ca = {:?}\n", pem(name))
}

/// Returns true if this machine has any certificate authorities. A bare container has none, and gets another error.
fn has_authorities() -> bool {
    let server: Server = toml::from_str("url = \"https://127.0.0.1:1\"\nproxy = \"none\"").unwrap();
    Client::http(&server, None).is_ok()
}

/// Rows: the server's certificate, true if it requires one of the client, the table, and the expected error; empty if
/// the server is trusted.
#[tokio::test]
async fn who_is_believed_and_who_is_not() {
    let client = |cert: &str, key: &str| {
        let key = if key.is_empty() { String::new() } else { format!("tls.client-key = {:?}\n", pem(key)) };
        format!("{}tls.client-cert = {:?}\n{key}", ca("ca.pem"), pem(cert))
    };
    let mut rows: Vec<(&str, bool, String, &[&str])> = vec![
        ("server.pem", false, ca("ca.pem"), &[]),
        ("server.pem", false, ca("other-ca.pem"), &["authority that this machine does not know"]),
        ("server.pem", false, "tls.insecure = true".into(), &[]),
        ("expired.pem", false, ca("ca.pem"), &["expired on 2021-01-01", "renew it"]),
        ("expired.pem", false, "tls.insecure = true".into(), &[]),
        ("elsewhere.pem", false, ca("ca.pem"), &["is not for 127.0.0.1", "elsewhere.test", "server.url"]),
        ("elsewhere.pem", false, "tls.insecure = true".into(), &[]),
        ("server.pem", true, client("client.pem", "client.key"), &[]),
        ("server.pem", true, client("both.pem", ""), &[]),
        ("server.pem", true, ca("ca.pem"), &["wants one of the client", "client-cert ="]),
    ];
    if has_authorities() {
        let says = &["authority that this machine does not know", "ca = \"ca.pem\""];
        rows.push(("server.pem", false, String::new(), says));
    }
    for (certificate, wants, table, says) in rows {
        let (address, seen) = tls(certificate, wants);
        match asked(&format!("https://{address}"), &table).await {
            Ok(model) => assert!(says.is_empty() && model == "tiny", "{certificate} {table}: {model}"),
            Err(said) => {
                assert!(!says.is_empty(), "{certificate} {table}: {said}");
                for part in says {
                    assert!(said.contains(part), "{certificate} {table}: {said}");
                }
                assert!(seen.lock().unwrap().is_empty(), "nothing was sent to it: {said}");
            }
        }
    }
}

/// Rows: the table, and the expected error about its files. `KEY` and `CERT` stand for a key and a certificate that do
/// not match.
#[test]
fn files_that_cannot_be_used_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let secret = fs::read_to_string(pem("client.key")).unwrap();
    let secret = secret.lines().nth(1).unwrap().to_owned();
    let key = |cert: &Path, key: &Path| format!("client-cert = {cert:?}, client-key = {key:?}");
    let cert = pem("client.pem");
    let rows: Vec<(String, &[&str])> = vec![
        (
            format!("ca = {:?}", dir.path().join("missing.pem")),
            &["server.tls.ca", "missing.pem", "cannot be read", "No such file"],
        ),
        (format!("ca = {:?}", dir.path()), &["server.tls.ca", "no file"]),
        (format!("ca = {:?}", file("empty.pem", "")), &["the file is empty"]),
        (format!("ca = {:?}", file("text.pem", "hello")), &["not PEM", "-----BEGIN"]),
        (format!("ca = {:?}", pem("ca.der")), &["not PEM", "openssl x509 -inform der"]),
        (format!("ca = {:?}", pem("client.key")), &["has no certificate, only a key"]),
        (
            format!("ca = {:?}", file("torn.pem", "-----BEGIN CERTIFICATE-----\nMIIB")),
            &["no whole PEM", "-----END"],
        ),
        (
            format!(
                "ca = {:?}",
                file("odd.pem", "-----BEGIN CERTIFICATE-----\nMII?\n-----END CERTIFICATE-----\n")
            ),
            &["no base64"],
        ),
        (
            format!(
                "ca = {:?}",
                file("none.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
            ),
            &["certificate number 1", "X.509"],
        ),
        (
            key(&cert, &pem("other.key")),
            &["server.tls.client-key", "other.key", "does not fit the certificate in", "client.pem"],
        ),
        (key(&cert, &pem("ca.pem")), &["has no key, only certificates"]),
        (key(&cert, &pem("encrypted.key")), &["encrypted with a passphrase", "openssl pkey"]),
        (key(&pem("both.pem"), &pem("client.key")), &["holds a key as well"]),
        (format!("client-cert = {cert:?}"), &["server.tls.client-cert", "has no key", "client-key ="]),
        (format!("client-key = {:?}", pem("client.key")), &["[server.tls]", "client-cert ="]),
        (format!("insecure = true, ca = {:?}", pem("ca.pem")), &["[server.tls]", "verifies no certificate"]),
        ("cacert = \"x\"".into(), &["unknown key `cacert`", "`ca`"]),
    ];
    for (table, says) in rows {
        let file =
            plan(dir.path(), &format!("url = \"https://127.0.0.1:1\"\ntls = {{ {table} }}"), "rates = [1]");
        let out = goodput().arg("check").arg(&file).assert().code(1);
        let said = String::from_utf8_lossy(&out.get_output().stderr).into_owned();
        for part in says {
            assert!(said.contains(part), "{table}: {said}");
        }
        assert!(!said.contains(&secret), "a key is quoted: {said}");
    }
}

/// A whole sweep: without verification there is a warning at once, in `check`, and in every report; with it there is
/// none.
#[test]
fn what_nobody_verified_is_said_in_every_report() {
    let dir = tempfile::tempdir().unwrap();
    let (address, _) = tls("server.pem", false);
    for (table, caveat) in [(ca("ca.pem"), false), ("tls.insecure = true".into(), true)] {
        let file = plan(dir.path(), &format!("url = \"https://{address}\"\n{table}"), "rates = [20]");
        let out = dir.path().join(if caveat { "unverified" } else { "verified" });
        let check = goodput().arg("check").arg(&file).assert().success();
        let said = String::from_utf8_lossy(&check.get_output().stdout).into_owned();
        assert_eq!(said.contains("WITHOUT VERIFICATION"), caveat, "{said}");
        assert_eq!(said.contains("trusting "), !caveat, "{said}");
        let sweep =
            goodput().arg("sweep").arg(&file).arg("--out").arg(&out).assert().code(predicates::ord::ne(1));
        let said = String::from_utf8_lossy(&sweep.get_output().stderr).into_owned();
        assert_eq!(said.contains("warning: The server's certificate is not verified"), caveat, "{said}");
        let told = result(&out)["caveats"].to_string().contains("is not verified");
        assert_eq!(told, caveat, "{}", result(&out)["caveats"]);
        fs::remove_file(out.join("report.md")).unwrap();
        goodput().arg("report").arg(&out).assert().success();
        let report = fs::read_to_string(out.join("report.md")).unwrap();
        assert_eq!(
            report.contains("certificate is not verified") && report.contains("server.tls.ca"),
            caveat
        );
    }
}

/// A sweep of an untrusted server ends before any request, and its error is the first message.
#[test]
fn a_sweep_does_not_begin_with_a_stranger() {
    let dir = tempfile::tempdir().unwrap();
    let (address, seen) = tls("server.pem", false);
    let table = format!("url = \"https://{address}\"\n{}", ca("other-ca.pem"));
    let file = plan(dir.path(), &table, "rates = [20]");
    let out = dir.path().join("run");
    let says = contains("TLS handshake").and(contains("authority that this machine does not know"));
    goodput().arg("sweep").arg(&file).arg("--out").arg(&out).assert().code(1).stderr(says);
    assert!(!out.exists() && seen.lock().unwrap().is_empty());
}
