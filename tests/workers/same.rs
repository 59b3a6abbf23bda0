//! Workers send what one machine sends.

use crate::common::{goodput, rows};
use crate::fleet::{Fleet, has_broker};
use axum::extract::Request;
use axum::middleware::{self, Next};
use goodput::sim::config::Simulated;
use goodput::sim::router::router;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

type Bodies = Arc<Mutex<Vec<Vec<u8>>>>;

/// Starts a simulated server that keeps the bodies of all requests for tokens.
fn recorder() -> (SocketAddr, Bodies) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let (address, bodies) = (listener.local_addr().unwrap(), Bodies::default());
    let kept = bodies.clone();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let sim: Simulated =
                toml::from_str("preset = \"fixed\"\nttft = \"5ms\"\ntpot = \"1ms\"\nmodel = \"tiny\"")
                    .unwrap();
            let app = router(&sim).layer(middleware::from_fn(move |request: Request, next: Next| {
                let kept = kept.clone();
                async move {
                    let (parts, body) = request.into_parts();
                    let bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
                    if !bytes.is_empty() {
                        kept.lock().unwrap().push(bytes.to_vec());
                    }
                    next.run(Request::from_parts(parts, bytes.into())).await
                }
            }));
            axum::serve(tokio::net::TcpListener::from_std(listener).unwrap(), app).await.unwrap();
        });
    });
    (address, bodies)
}

/// A request of a step: its number, when it was due, and its lengths.
type Sent = BTreeMap<(String, String), (String, String, String, String)>;

/// Returns the requests of the settling time and the window, by step and number.
fn sent(run: &Path) -> Sent {
    let counted = rows(&run.join("requests.csv"))
        .into_iter()
        .filter(|r| r["phase"] != "tail" && r["phase"] != "warmup");
    let cell = |r: &std::collections::HashMap<String, String>, name: &str| r[name].clone();
    counted
        .map(|r| {
            let what =
                (cell(&r, "due_ms"), cell(&r, "input_asked"), cell(&r, "output_asked"), cell(&r, "phase"));
            ((cell(&r, "step"), cell(&r, "id")), what)
        })
        .collect()
}

fn sweep(dir: &Path, plan: &Path, workers: usize, bodies: &Bodies) -> (Sent, BTreeSet<String>) {
    let run = dir.join(format!("run-{workers}"));
    // On a busy machine a worker may start late: the step is then measured again, under another number.
    for attempt in 1.. {
        bodies.lock().unwrap().clear();
        let mut command = Command::new(goodput().get_program());
        command.args(["sweep", "--no-charts", "--force"]).arg(plan).arg("--out").arg(&run);
        if workers > 0 {
            command.args(["--workers", &workers.to_string()]);
        }
        let out = command.stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(run.join("result.json").is_file(), "{workers} workers: {said}");
        if !said.contains("measured again") {
            break;
        }
        assert!(attempt < 10, "{workers} workers: {said}");
    }
    let by = rows(&run.join("requests.csv")).into_iter().map(|r| r["worker"].clone()).collect();
    (sent(&run), by)
}

/// One plan with 0, 1, 4 and 16 workers: the same requests at the same times, and bodies equal to the last byte. The arrivals come in
/// bursts, which superposed streams would smooth.
#[test]
fn any_number_of_workers_sends_the_same_requests() {
    if !has_broker() {
        return;
    }
    let ((server, bodies), dir) = (recorder(), tempfile::tempdir().unwrap());
    let plan = dir.path().join("plan.toml");
    let text = format!(
        "name = \"same\"\nseed = 11\n[server]\nurl = \"http://{server}\"\nwarmup-requests = 0\n[slo]\ne2e.p90 = \"9s\"\n[workload]\n\
         arrivals.gamma = {{ cv = 2.5 }}\n[workload.prompts.synthetic]\ninput-tokens = {{ uniform = {{ min = 4, max = 40 }} }}\n\
         output-tokens = {{ uniform = {{ min = 2, max = 9 }} }}\n[step]\nsettle = \"500ms\"\nmeasure = \"1500ms\"\nmin-requests = 1\n\
         [client]\nmax-lateness = 0.5\nmax-receive-lag = 0.5\n[search]\nrates = [40, 80]\n"
    );
    std::fs::write(&plan, text).unwrap();
    let mut all = Vec::new();
    for workers in [0, 1, 4, 16] {
        let (sent, by) = sweep(dir.path(), &plan, workers, &bodies);
        let bodies: BTreeSet<Vec<u8>> = bodies.lock().unwrap().iter().cloned().collect();
        assert_eq!(by.len(), workers.max(1), "{by:?}");
        all.push((workers, sent, bodies));
    }
    let (_, alone, alone_bodies) = &all[0];
    assert!(alone.len() > 100, "{}", alone.len());
    for (workers, sent, bodies) in &all[1..] {
        assert_eq!(sent, alone, "{workers} workers");
        // A few more or fewer are sent after the window, until the last measured one has finished.
        let common = bodies.intersection(alone_bodies).count();
        assert!(common >= alone.len(), "{workers} workers: {common} of {} bodies", alone.len());
    }
}

/// A burst on several workers: all requests at once, each of them once.
#[test]
fn a_burst_is_sent_once() {
    if !has_broker() {
        return;
    }
    let fleet = Fleet::start(3);
    let plan = fleet.plan("burst", "burst = 60", 3);
    let ended = fleet.begin(&plan, "burst", 3).end();
    let (steps, requests) = (ended.steps(), ended.rows("requests.csv"));
    assert_eq!((steps.len(), steps[0]["completed"].as_u64()), (1, Some(60)), "{}", ended.said);
    let ids: BTreeSet<&str> = requests.iter().map(|r| r["id"].as_str()).collect();
    assert_eq!((ids.len(), requests.len()), (60, 60));
    let workers = ended.rows("workers.csv");
    assert_eq!(workers.iter().map(|w| w["n"].parse::<u64>().unwrap()).sum::<u64>(), 60);
    assert!(workers.iter().all(|w| w["n"] != "0"), "{workers:?}");
}

/// A closed loop: the slots are dealt, and the step ends by itself.
#[test]
fn a_closed_loop_is_shared() {
    if !has_broker() {
        return;
    }
    let fleet = Fleet::start(2);
    let plan = fleet.plan("closed", "concurrency = [5]", 2);
    let ended = fleet.begin(&plan, "closed", 2).end();
    let step = &ended.steps()[0];
    assert_eq!(step["in_flight_max"], 5, "{step}");
    ended.check_counts(step);
    assert!(step["measure_s"].as_f64().unwrap() > 1.9 && step["completed"].as_u64() > Some(50), "{step}");
}
