//! Secrets in the plan, in the commands that start servers: they appear in no file and no message, however they were
//! written.

use super::leak::{everything, lacks};
use super::serve::{http, model};
use crate::common::{goodput, loose, plan, result};
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Output;

/// Secrets in a script, in named variables, in a URL, within the value of a variable, and in the arguments of a grid.
const SECRETS: [&str; 5] =
    ["hunter2hunter2", "my-t0ken-in-one-word", "pw0fTheDatabase", "extra5ecret", "0fTheGrid77"];

fn search(name: &str, bytes: &[u8]) {
    SECRETS.iter().for_each(|secret| lacks(secret, name, bytes));
}

fn run(command: &mut assert_cmd::Command) -> Output {
    let out = command.output().unwrap();
    search("standard output", &out.stdout);
    search("standard error", &out.stderr);
    out
}

#[test]
fn secrets_of_scripts_and_variables_are_in_no_file() {
    let [script, token, database, extra, grid] = SECRETS;
    let dir = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let bin = assert_cmd::cargo::cargo_bin!("goodput").display().to_string();
    let serves = format!("exec '{bin}' simulate --preset fixed --set ttft=5ms --set tpot=1ms --port {port}");
    let says =
        format!("echo with --api-key {script} and $MYAPITOKEN, $DATABASE_URL, $EXTRA; echo just {script}");
    let env = format!(
        "{{ MYAPITOKEN = \"{token}\", DATABASE_URL = \"postgres://u:{database}@h/db\", EXTRA = \"--api-key {extra}\", MAX_TOKENS = \"2048\" }}"
    );
    let rest = format!(
        "rates = [20]\n[[variant]]\nname = \"script\"\ncommand = [\"sh\", \"-c\", '''{says}; {serves}''', \"--header\", \
         \"Authorization: Bearer {script}\"]\nenv = {env}\n[grid]\nknobs.mode = {{ values = [\"a\"], args.a = [\"--api-key\", \"{grid}\"] }}\n\
         command = [\"sh\", \"-c\", '''echo \"my arguments are $0 $*\"; {serves}''', \"{{mode}}\"]\n"
    );
    let file = plan(dir.path(), &format!("url = \"http://127.0.0.1:{port}\""), &rest);
    let out = dir.path().join("run");
    run(goodput().arg("check").arg(&file));
    run(goodput().arg("check").arg(&file).arg("--json"));
    let sweep = run(goodput().arg("sweep").arg(&file).arg("--out").arg(&out).env("GOODPUT_LOG", "trace"));
    let said = String::from_utf8_lossy(&sweep.stderr).into_owned();
    assert!(sweep.status.code() != Some(1), "{}", &said[said.len().saturating_sub(2000)..]);
    assert!(said.contains("holds a secret, and every user"), "a script is an argument");
    run(goodput().arg("report").arg(&out));
    run(goodput().arg("report").arg(&out).arg("--json"));
    for (name, bytes) in everything(&out) {
        search(&name, &bytes);
    }
    // The secrets were masked, and everything else is still there.
    let kept = fs::read_to_string(out.join("plan.toml")).unwrap();
    for shown in
        ["--api-key ***", "postgres://***@h/db", "Authorization: Bearer ***", "2048", "--preset fixed"]
    {
        assert!(kept.contains(shown), "{shown}: {kept}");
    }
    for (log, says) in [("script", "just ****"), ("mode=a", "my arguments are --api-key ****")] {
        let text = fs::read_to_string(out.join("logs").join(format!("{log}.log"))).unwrap();
        assert!(text.contains(says), "{log}: {text}");
    }
}

/// Rows: lines of `[server]` or of a variant that would write a key into the plan. They are refused, and the key is not
/// quoted.
#[test]
fn keys_are_refused_wherever_a_plan_would_keep_them() {
    let dir = tempfile::tempdir().unwrap();
    let ready = |url: &str| format!("[[variant]]\nname = \"v\"\ncommand = [\"true\"]\nready-url = \"{url}\"");
    for (server, rest, says) in [
        ("headers = { x-foo = \"Bearer hunter2hunter2\" }", String::new(), "headers.x-foo"),
        ("headers = { x-foo = \"sk-hunter2hunter2\" }", String::new(), "headers.x-foo"),
        (
            "body = { extra_body = { api_key = \"hunter2hunter2\" } }",
            String::new(),
            "body.extra_body.api_key",
        ),
        (
            "body = { headers = { Authorization = \"hunter2hunter2\" } }",
            String::new(),
            "body.headers.Authorization",
        ),
        (
            "body = { a = [{ b = [{ auth_token = \"hunter2hunter2\" }] }] }",
            String::new(),
            "body.a.b.auth_token",
        ),
        ("body = { extra = \"Bearer hunter2hunter2\" }", String::new(), "body.extra"),
        ("metrics-url = \"http://h/m?a=1&token=hunter2hunter2\"", String::new(), "key or a token"),
        ("", ready("http://h/r?a=1&token=hunter2hunter2"), "key or a token"),
        ("", ready("http://h/r?token=hunter2hunter2&m=a@b"), "key or a token"),
        ("", ready("/r?token=hunter2hunter2@"), "key or a token"),
    ] {
        let file = plan(
            dir.path(),
            &format!("url = \"http://127.0.0.1:1\"\n{server}"),
            &format!("rates = [1]\n{rest}"),
        );
        let out = run(goodput().arg("check").arg(&file).arg("--json"));
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.code() == Some(1) && said.contains(says), "{server} {rest}: {said}");
    }
}

/// Rows: invalid arguments. The error does not quote their secrets.
#[test]
fn mistakes_on_the_command_line_quote_no_secret() {
    let dir = tempfile::tempdir().unwrap();
    let file = plan(dir.path(), "url = \"http://127.0.0.1:1\"", "rates = [1]").display().to_string();
    for args in [
        &["compare", "--measure", "http://me:hunter2hunter2@h:1", "http://b:1"][..],
        &["compare", "--measure", "http://b:1", "http://me:hunter2hunter2@h:1"],
        &["compare", "--measure", "me:hunter2hunter2@h:1", "http://b:1"],
        &["sweep", "http://me:hunter2hunter2@h:1"],
        &["check", &file, "--set", "server api-key=hunter2hunter2"],
        &["check", &file, "--set", "name.x=hunter2hunter2"],
        &["check", &file, "--set", "server.api-key hunter2hunter2"],
        &["check", &file, "--set", "server.url=http://me:hunter2hunter2@h"],
        &["check", &file, "--set", "server.api-key-env=hunter2hunter2/"],
    ] {
        let out = run(goodput().args(args).current_dir(dir.path()));
        assert_ne!(out.status.code(), Some(0), "{args:?}");
    }
}

/// A run folder from elsewhere cannot vouch for itself, so resuming it asks for confirmation.
#[test]
fn a_sweep_that_goes_on_asks_before_load_is_sent_to_a_public_address() {
    let dir = tempfile::tempdir().unwrap();
    let (server, seen) = http(model);
    let file = plan(dir.path(), &format!("url = \"http://{server}\""), "rates = [20, 30]");
    loose(&file);
    let out = dir.path().join("run");
    goodput().arg("sweep").arg(&file).arg("--out").arg(&out).assert().code(predicates::ord::ne(1));
    // Make the folder look interrupted after the first of its two steps, on another server.
    let elsewhere = |name: &str| {
        let text = fs::read_to_string(out.join(name)).unwrap();
        fs::write(out.join(name), text.replace(&server.to_string(), "203.0.113.7")).unwrap();
    };
    ["plan.toml", "result.json"].into_iter().for_each(elsewhere);
    let steps = fs::read_to_string(out.join("steps.csv")).unwrap();
    assert_eq!(result(&out)["steps"].as_array().unwrap().len(), 2, "two steps");
    let first: Vec<&str> = steps.lines().take(2).collect();
    fs::write(out.join("steps.csv"), first.join("\n") + "\n").unwrap();
    let (before, asked) = (everything(Path::new(&out)), seen.lock().unwrap().len());
    // Without a terminal, there is nobody to ask.
    let on = goodput().arg("sweep").arg("--resume").arg(&out).write_stdin("").assert().code(1);
    let said = String::from_utf8_lossy(&on.get_output().stderr).into_owned();
    assert!(said.contains("--yes") && said.contains("203.0.113.7"), "{said}");
    assert!(everything(Path::new(&out)) == before, "nothing was changed");
    assert_eq!(seen.lock().unwrap().len(), asked, "nothing was sent");
}
