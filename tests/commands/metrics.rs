//! The server's metrics: read while steps run, however their page behaves, and shown in files, report and caveats.

use crate::common::{goodput, loose, plan, result, rows};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use goodput::sim::serve::Embedded;
use serde_json::Value;
use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;
use tempfile::tempdir;

fn number(row: &HashMap<String, String>, column: &str) -> f64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column} is {:?}", row[column]))
}

/// A plan for a server whose KV cache is too small for its load.
const CRAMPED: &str = "name = \"cramped\"\nseed = 3\n[server]\nwarmup-requests = 4\n\
    simulated = { preset = \"a40-qwen3-0.6b\", kv-blocks = 700, max-model-len = 4096 }\n\
    [slo]\nttft.p90 = \"1s\"\n[workload.prompts.synthetic]\ninput-tokens = { fixed = 600 }\noutput-tokens = { fixed = 120 }\n\
    [step]\nsettle = \"5s\"\nmeasure = \"20s\"\n[search]\nconcurrency = [4, 40]\n";

fn virtual_run(dir: &Path, name: &str, text: &str) -> std::path::PathBuf {
    let (plan, run) = (dir.join("plan.toml"), dir.join(name));
    fs::write(&plan, text).unwrap();
    let args = ["sweep", plan.to_str().unwrap(), "--virtual-time", "--out", run.to_str().unwrap()];
    goodput().args(args).assert().code(predicates::ord::ne(1));
    run
}

/// Compares one step's row of `server.csv` with the requests of that step.
fn agrees(side: &HashMap<String, String>, requests: &[HashMap<String, String>], level: f64) {
    let own = requests.iter().filter(|r| r["step"] == side["step"] && r["outcome"] == "ok");
    let (from, to) = (5_000.0, 25_000.0);
    let within = |r: &&HashMap<String, String>, column: &str| (from..to).contains(&number(r, column));
    let first: Vec<_> = own.clone().filter(|r| within(r, "first_token_ms")).collect();
    let over = own.clone().filter(|r| within(r, "end_ms")).count() as f64;
    let near = |got: f64, want: f64, tolerance: f64, what: &str| {
        assert!((got - want).abs() <= tolerance, "{what} at {level}: {got} instead of {want}");
    };
    let seconds = number(side, "seconds");
    near(seconds, 20.0, 0.01, "seconds");
    near(number(side, "samples"), 20.5, 0.5, "samples");
    near(number(side, "finished"), over, 4.0, "finished");
    let prompt: f64 = first.iter().map(|r| number(r, "input_tokens")).sum();
    near(number(side, "prompt_tokens"), prompt, 4.0 * 620.0, "prompt tokens");
    near(
        number(side, "generation_tokens"),
        number(side, "client_output_tokens"),
        0.02 * over * 120.0 + 120.0,
        "output",
    );
    // Simulated time has a resolution of a millisecond.
    let ttft = number(side, "ttft_mean_ms");
    near(number(side, "client_ttft_mean_ms"), ttft, 1.5 + 0.02 * ttft, "TTFT");
    let parts = number(side, "queue_mean_ms") + number(side, "prefill_mean_ms");
    near(parts, ttft, 0.25 * ttft + 2.0, "queue and prefill");
    let inside = number(side, "running_mean") + number(side, "waiting_mean");
    near(inside, level, 1.0, "Little: a closed loop keeps so many in the server");
    near(number(side, "client_in_flight_mean"), level, 0.5, "in flight");
    let crowded = level > 10.0;
    assert_eq!(number(side, "waiting_max") > 5.0, crowded, "{side:?}");
    assert_eq!(number(side, "preemptions") > 0.0, crowded, "{side:?}");
    assert_eq!(number(side, "kv_max") > 0.95, crowded, "{side:?}");
    assert_eq!(side["restarted"], "false");
}

/// The engine's metrics follow from its answers: its time is exact, and it has no other clients.
#[test]
fn the_servers_side_is_what_the_simulated_server_did() {
    let dir = tempdir().unwrap();
    let run = virtual_run(dir.path(), "run", CRAMPED);
    let (server, requests) = (rows(&run.join("server.csv")), rows(&run.join("requests.csv")));
    assert_eq!(server.len(), 2);
    for (side, level) in server.iter().zip([4.0, 40.0]) {
        agrees(side, &requests, level);
    }
    let json = result(&run);
    let (steps, caveats) = (&json["steps"], json["caveats"].to_string());
    let preempted = steps[1]["server"]["preemptions"].as_f64();
    assert_eq!(preempted.map(|n| n.to_string()), Some(server[1]["preemptions"].clone()));
    assert!(
        !["ttft-differs", "tokens-differ", "in-flight-differs"].iter().any(|c| caveats.contains(c)),
        "{caveats}"
    );
    let facts = &json["meta"]["facts"][0];
    assert_eq!(
        (&facts["engine"], &facts["flags"]["num_gpu_blocks"]),
        (&"vllm".into(), &"700".into()),
        "{facts}"
    );
    let report = fs::read_to_string(run.join("report.md")).unwrap();
    for want in [
        "## The server's own view",
        "## The server\n",
        "charts/server.png",
        "num_gpu_blocks = 700",
        "preemptions",
    ] {
        assert!(report.contains(want), "{want}: {report}");
    }
    let samples = rows(&run.join("server-metrics.csv"));
    let of = |name: &str| samples.iter().filter(|s| s["name"] == name && s["step"] == "2").count();
    assert!((25..60).contains(&of("waiting")) && of("ttft_count") == of("waiting"), "{}", of("waiting"));
    assert!(samples.iter().all(|s| s["source"] == "0"));
    // A second run is identical to the last bit, and so is a report made from the files alone.
    let again = virtual_run(dir.path(), "again", CRAMPED);
    assert_eq!(fs::read(again.join("server.csv")).unwrap(), fs::read(run.join("server.csv")).unwrap());
    goodput().args(["report", run.to_str().unwrap()]).assert().code(predicates::ord::ne(1));
    assert_eq!(result(&run)["steps"], json["steps"]);
}

#[test]
fn a_resumed_sweep_keeps_what_the_server_said() {
    let dir = tempdir().unwrap();
    let run = virtual_run(dir.path(), "run", CRAMPED);
    let whole = fs::read_to_string(run.join("server.csv")).unwrap();
    let steps = run.join("steps.csv");
    let text = fs::read_to_string(&steps).unwrap();
    fs::write(&steps, text.lines().take(2).map(|l| format!("{l}\n")).collect::<String>()).unwrap();
    goodput()
        .args(["sweep", "--no-charts", "--resume", run.to_str().unwrap()])
        .assert()
        .code(predicates::ord::ne(1));
    let resumed = fs::read_to_string(run.join("server.csv")).unwrap();
    let head = |text: &str| text.lines().take(2).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(
        (head(&resumed), resumed.lines().count()),
        (head(&whole), 3),
        "the first step's row, and one of the second"
    );
    // Folders of earlier versions do not have this file.
    fs::remove_file(run.join("server.csv")).unwrap();
    goodput().args(["report", run.to_str().unwrap()]).assert().code(predicates::ord::ne(1));
    assert!(
        result(&run)["steps"][0]["server"]["waiting_max"].is_number(),
        "steps.csv has four columns of it"
    );
}

/// Response time of a page that hangs.
const HANGS: Duration = Duration::from_secs(60);

/// The behaviour of a page of metrics.
#[derive(Clone, Copy, PartialEq)]
enum Page {
    /// Increases its counters every time.
    Well,
    /// Hangs after this number of answers.
    Hangs(u32),
    /// After this number of answers, returns HTML, then binary data, then an endless body, in turn.
    Lies(u32),
    /// Stops listening after this number of answers.
    Dies(u32),
    /// A GPU exporter.
    Gpu,
}

fn text_of(page: Page, n: u32) -> String {
    let count = 1000 + n;
    match page {
        Page::Gpu => format!(
            "# TYPE DCGM_FI_DEV_GPU_UTIL gauge\nDCGM_FI_DEV_GPU_UTIL{{gpu=\"0\"}} 80\nDCGM_FI_DEV_GPU_UTIL{{gpu=\"1\"}} 60\n\
             DCGM_FI_DEV_POWER_USAGE{{gpu=\"0\"}} 250.{}\n# TYPE node_energy counter\nnode_energy {count}\n",
            // A power that never varies is that of a page that is not renewed.
            if count.is_multiple_of(2) { 5 } else { 4 }
        ),
        _ => format!(
            "vllm:num_requests_running 0\nvllm:num_requests_waiting {}\nvllm:kv_cache_usage_perc 0.5\n\
             vllm:prompt_tokens_total {count}\nvllm:num_preemptions_total {count}\n",
            // Zero until the step begins.
            if n < 3 { 0 } else { 3 }
        ),
    }
}

/// Serves a page of metrics on a separate port.
fn page(page: Page) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(AtomicU32::new(0));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let n = asked.fetch_add(1, Ordering::SeqCst);
            if matches!(page, Page::Dies(after) if n >= after) {
                return;
            }
            thread::spawn(move || answer(stream.unwrap(), page, n));
        }
    });
    url
}

fn answer(mut stream: TcpStream, page: Page, n: u32) {
    let mut head = [0; 2048];
    let _ = stream.read(&mut head);
    let whole = |text: &str| {
        format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{text}", text.len())
    };
    let sent = match page {
        Page::Hangs(after) if n >= after => {
            thread::sleep(HANGS);
            return;
        }
        Page::Lies(after) if n >= after => match n % 3 {
            0 => whole("<html><body>vllm:num_requests_running 7</body></html>"),
            1 => whole("vllm:num_requests_running NaN\nvllm:prompt_tokens_total -Inf\n\u{0}\u{1}{{{{"),
            _ => {
                // An endless body, written as fast as it is read.
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n");
                while stream.write_all(&[b'a'; 1 << 16]).is_ok() {}
                return;
            }
        },
        _ => whole(&text_of(page, n)),
    };
    let _ = stream.write_all(sent.as_bytes());
}

/// Sweeps a fast server for two seconds, with these lines in `[server]` and these further tables. Returns the run
/// folder.
fn sweep(dir: &Path, server: &str, tables: &str) -> (std::path::PathBuf, String) {
    let text = "preset = \"fixed\"\nttft = \"5ms\"\ntpot = \"1ms\"\nmodel = \"tiny\"";
    let embedded = Embedded::start(&toml::from_str(text).unwrap()).unwrap();
    sweep_of(dir, &embedded.url, "2s", (server, tables))
}

/// Sweeps the server at `url` with this measured window, as [`sweep`] does.
fn sweep_of(
    dir: &Path,
    url: &str,
    measure: &str,
    (server, tables): (&str, &str),
) -> (std::path::PathBuf, String) {
    let run = dir.join("run");
    let plan = plan(dir, &format!("url = \"{url}\"\n{server}"), &format!("rates = [60]\n{tables}"));
    loose(&plan);
    let text = fs::read_to_string(&plan).unwrap();
    fs::write(&plan, text.replace("measure = \"1s\"", &format!("measure = \"{measure}\""))).unwrap();
    let args = ["sweep", "--no-charts", plan.to_str().unwrap(), "--out", run.to_str().unwrap()];
    let out = goodput().args(args).assert().code(predicates::ord::ne(1));
    (run, String::from_utf8_lossy(&out.get_output().stdout).into_owned())
}

/// Checks that every request is sent and answered, however the page behaves, and that no step waits for the page: for
/// one that hangs, the wait would be longer than any halt of this machine.
fn undisturbed(run: &Path, what: &str) -> Value {
    let json = result(run);
    let step = json["steps"][0].clone();
    let f = |key: &str| step[key].as_f64().unwrap();
    assert!(f("due_n") > 20.0 && step["failed"] == 0 && step["cut"] == 0, "{what}: {step}");
    let requests = rows(&run.join("requests.csv"));
    let measured = requests.iter().filter(|r| r["step"] == "1" && r["phase"] == "measure");
    let answered = measured.clone().filter(|r| !r["sent_ms"].is_empty() && r["outcome"] == "ok").count();
    assert_eq!((answered, measured.count()), (f("due_n") as usize, f("due_n") as usize), "{what}: {step}");
    assert!(f("ended_s") - f("started_s") < HANGS.as_secs_f64() / 2.0, "{what}: {step}");
    step
}

/// Returns the possible preemption counts of a step's two seconds, for a server that counts one more in every reading.
/// Uses the readings on disk nearest to the beginning and to the end; two readings may be equally near in milliseconds,
/// the resolution of the file.
fn counted(samples: &[HashMap<String, String>]) -> Vec<f64> {
    let read: Vec<(f64, f64)> = samples
        .iter()
        .filter(|s| s["name"] == "preemptions" && s["step"] == "1")
        .map(|s| (number(s, "time_s"), number(s, "value")))
        .collect();
    assert!(read.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 < w[1].1), "{read:?}");
    let near = |to: f64| {
        let off = move |at: f64| (at - to).abs();
        let least = read.iter().map(|r| off(r.0)).fold(f64::MAX, f64::min);
        read.iter().filter(move |r| off(r.0) <= least + 0.002).map(|r| r.1)
    };
    near(2.2).flat_map(|to| near(0.2).map(move |from| to - from)).collect()
}

#[test]
fn a_page_that_hangs_lies_or_dies_disturbs_nothing() {
    let interval = "metrics-interval = \"100ms\"";
    for (page_does, told, what) in [
        (Page::Well, true, "well"),
        (Page::Hangs(6), true, "hangs"),
        (Page::Lies(6), true, "lies"),
        (Page::Dies(6), true, "dies"),
        (Page::Dies(0), false, "dead from the start"),
    ] {
        let dir = tempdir().unwrap();
        let (run, said) =
            sweep(dir.path(), &format!("metrics-url = \"{}\"\n{interval}", page(page_does)), "");
        let step = undisturbed(&run, what);
        assert_eq!(step["server"]["restarted"], false, "{what}");
        let samples = rows(&run.join("server-metrics.csv"));
        let waiting = samples.iter().filter(|s| s["name"] == "waiting").count();
        assert_eq!(waiting > 0, told, "{what}: {waiting} samples");
        assert!(samples.iter().all(|s| number(s, "value").is_finite()), "{what}");
        assert_eq!(said.contains("are missing or incomplete"), !told, "{what}: {said}");
        if page_does == Page::Well {
            let server = &step["server"];
            assert_eq!(
                (server["waiting_max"].as_f64(), server["kv_max"].as_f64()),
                (Some(3.0), Some(0.5)),
                "{server}"
            );
            let preemptions = server["preemptions"].as_f64().unwrap();
            let expected = counted(&samples);
            assert!(expected.contains(&preemptions), "{preemptions} of {expected:?}");
            assert_eq!(waiting, samples.iter().filter(|s| s["name"] == "preemptions").count());
            let last = samples.iter().map(|s| number(s, "time_s")).fold(0.0, f64::max);
            assert!(waiting >= 2 && waiting as f64 <= last * 10.0 + 3.0, "ten a second at most: {waiting}");
        }
    }
}

#[test]
fn a_server_that_is_started_anew_makes_its_step_invalid() {
    let dir = tempdir().unwrap();
    // The server restarts after the first requests of the step, seconds before its end.
    let (posts, read, again) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
    let url = served(move |request| {
        if !request.uri().path().contains("metrics") {
            posts.fetch_add(u32::from(request.method() == "POST"), Ordering::SeqCst);
            return None;
        }
        let count = match posts.load(Ordering::SeqCst) {
            0..40 => 1000 + read.fetch_add(1, Ordering::SeqCst),
            _ => again.fetch_add(1, Ordering::SeqCst),
        };
        let text = format!(
            "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\nvllm:prompt_tokens_total {count}\n\
             vllm:num_preemptions_total {count}\n"
        );
        Some(text.into_response())
    });
    let (run, said) = sweep_of(dir.path(), &url, "4s", ("metrics-interval = \"100ms\"", ""));
    let json = result(&run);
    let step = &json["steps"][0];
    assert_eq!((&step["verdict"], &step["server"]["restarted"]), (&"invalid".into(), &true.into()), "{step}");
    assert!(
        step["server"]["preemptions"].is_null() && step["reason"].as_str().unwrap().contains("started anew")
    );
    assert!(
        said.contains("Step 1 is invalid: the server restarted during it")
            && !said.contains("the client was"),
        "{said}"
    );
    goodput().args(["report", run.to_str().unwrap()]).assert().code(predicates::ord::ne(1));
    assert_eq!(result(&run)["steps"][0], *step, "the folder alone says so");
}

/// Starts a fast server whose answers `own` may override. Returns its URL.
fn served(own: impl Fn(&Request) -> Option<Response> + Send + Sync + 'static) -> String {
    let own = Arc::new(own);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        let sim =
            toml::from_str("preset = \"fixed\"\nttft = \"5ms\"\ntpot = \"1ms\"\nmodel = \"tiny\"").unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let first = axum::middleware::from_fn(move |request: Request, next: axum::middleware::Next| {
                let own = own.clone();
                async move {
                    match own(&request) {
                        Some(answer) => answer,
                        None => next.run(request).await,
                    }
                }
            });
            let app = goodput::sim::router::router(&sim).layer(first);
            axum::serve(tokio::net::TcpListener::from_std(listener).unwrap(), app).await.unwrap();
        });
    });
    url
}

#[test]
fn a_server_without_metrics_is_asked_once() {
    let asked = Arc::new(AtomicU32::new(0));
    let counted = asked.clone();
    let url = served(move |request| {
        request.uri().path().contains("metrics").then(|| {
            counted.fetch_add(1, Ordering::SeqCst);
            StatusCode::NOT_FOUND.into_response()
        })
    });
    let dir = tempdir().unwrap();
    for (more, times) in [("", 2), ("metrics = false", 0)] {
        asked.store(0, Ordering::SeqCst);
        let run = dir.path().join(format!("run-{times}"));
        let plan = plan(dir.path(), &format!("url = \"{url}\"\n{more}"), "rates = [40]");
        loose(&plan);
        let args = ["sweep", "--no-charts", plan.to_str().unwrap(), "--out", run.to_str().unwrap()];
        let out = goodput().args(args).assert().code(predicates::ord::ne(1));
        assert_eq!(asked.load(Ordering::SeqCst), times, "both places, once");
        let said = String::from_utf8_lossy(&out.get_output().stderr).into_owned();
        assert_eq!(said.contains("gives no metrics"), times > 0, "{said}");
        let metrics = result(&run)["meta"]["facts"][0]["metrics"].as_str().unwrap().to_owned();
        assert!(metrics.contains(if times > 0 { "HTTP 404" } else { "metrics = false" }), "{metrics}");
        assert!(!run.join("server.csv").exists() && !run.join("charts/server.png").exists());
        undisturbed(&run, more);
    }
}

#[test]
fn series_of_other_pages_are_summed_up() {
    let dir = tempdir().unwrap();
    let tables = format!(
        "[[metrics]]\nname = \"gpus\"\nurl = \"{}\"\ninterval = \"100ms\"\nseries = [\"DCGM_FI_DEV_GPU_UTIL\", \"DCGM_FI_DEV_POWER_USAGE\", \
         \"node_energy\", \"absent\"]\n[[metrics]]\nurl = \"http://127.0.0.1:9/metrics\"\nseries = [\"a\"]\n\
         [environment]\ndriver = \"560.35\"\ncommand = [\"serve\", \"--api-key\", \"hunter2\"]\n",
        page(Page::Gpu)
    );
    let (run, said) = sweep(dir.path(), "", &tables);
    let step = undisturbed(&run, "two exporters, one of them dead");
    let rows = rows(&run.join("metrics.csv"));
    let row = |name: &str, labels: &str| {
        rows.iter()
            .find(|r| r["name"] == name && r["labels"].contains(labels))
            .unwrap_or_else(|| panic!("{name}: {rows:?}"))
    };
    assert_eq!(rows.len(), 4);
    assert!((number(row("DCGM_FI_DEV_GPU_UTIL", "gpu=\"1\""), "mean") - 60.0).abs() < 1e-9);
    assert!((number(row("DCGM_FI_DEV_POWER_USAGE", ""), "max") - 250.5).abs() < 1e-9);
    let energy = row("node_energy", "");
    assert!(energy["mean"].is_empty(), "a counter: {energy:?}");
    let (per_s, samples) = (number(energy, "per_s"), self::rows(&run.join("server-metrics.csv")));
    let read = samples.iter().filter(|s| s["name"].contains("node_energy"));
    let read: Vec<(f64, f64)> = read.map(|s| (number(s, "time_s"), number(s, "value"))).collect();
    // Times have a resolution of a millisecond.
    let is_of = |a: &(f64, f64), b: &(f64, f64)| (per_s * (b.0 - a.0) - (b.1 - a.1)).abs() <= 0.002 * per_s;
    let pairs = read.iter().enumerate().flat_map(|(i, a)| read[i + 1..].iter().map(move |b| (a, b)));
    assert!(per_s > 0.0 && pairs.into_iter().any(|(a, b)| is_of(a, b)), "{per_s} a second: {read:?}");
    assert_eq!(step["metrics"].as_array().map(Vec::len), Some(4));
    for want in
        ["the page has no absent", "127.0.0.1:9 are missing or incomplete", "2 GPUs 70 % busy", "250 W"]
    {
        assert!(said.contains(want) || said.contains(&want.replace("250 W", "251 W")), "{want}: {said}");
    }
    let all = [
        fs::read_to_string(run.join("report.md")),
        fs::read_to_string(run.join("plan.toml")),
        fs::read_to_string(run.join("result.json")),
    ];
    for text in all {
        let text = text.unwrap();
        assert!(text.contains("560.35") && text.contains("--api-key") && !text.contains("hunter2"), "{text}");
    }
}

/// Rows: a mistake in a plan, and the expected message.
#[test]
fn mistakes_in_the_plan_are_told() {
    let dir = tempdir().unwrap();
    for (server, tables, says) in [
        ("metrics-url = \"gpu:9400\"", "", "does not begin with http"),
        ("metrics-interval = \"1ms\"", "", "must be between 100ms and 60s"),
        ("metrics = \"no\"", "", "true or false is needed"),
        ("", "[[metrics]]\nurl = \"http://a\"\nseries = []", "the list is empty"),
        ("", "[[metrics]]\nurl = \"http://a\"\nseries = [\"rate(a[5m])\"]", "names no series"),
        ("", "[[metrics]]\nseries = [\"a\"]", "url"),
        (
            "",
            "[[metrics]]\nname = \"x\"\nurl = \"http://a\"\nseries = [\"a\"]\n[[metrics]]\nname = \"x\"\nurl = \"http://b\"\nseries = [\"a\"]",
            "two [[metrics]]",
        ),
        ("", "[environment]\napi-key = \"x\"", "a secret"),
    ] {
        let plan = plan(
            dir.path(),
            &format!("url = \"http://127.0.0.1:1\"\n{server}"),
            &format!("rates = [1]\n{tables}"),
        );
        let out = goodput().args(["check", plan.to_str().unwrap()]).assert().code(1);
        let said = String::from_utf8_lossy(&out.get_output().stderr).into_owned();
        assert!(said.contains(says), "{says}: {said}");
    }
}
