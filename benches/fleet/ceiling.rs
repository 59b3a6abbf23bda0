//! The highest rate of a sweep with one worker, and of one without.

use super::print_row;
use super::processes::{PROGRAM, cpu_fields, null_server};
use std::path::Path;
use std::process::{Command, Stdio};

/// Number of sweeps of each kind; they alternate.
const SWEEPS: usize = 3;
/// Rates, in requests per second.
const RATES: [u32; 8] = [2_000, 4_000, 6_000, 8_000, 10_000, 12_000, 15_000, 18_000];
/// A rate is too high if the p99 of the lateness of its requests reaches this.
const LATE_MS: f64 = 1.0;

/// Measures the ceilings of both kinds of sweep, by lateness and in a closed loop.
pub(crate) fn ceiling() {
    let (_server, url) = null_server();
    let folder = tempfile::tempdir().unwrap();
    let rates = format!("rates = {RATES:?}");
    let (mut open, mut closed) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    let mut cpu = [Vec::new(), Vec::new()];
    for i in 0..SWEEPS {
        for (kind, options) in [&[][..], &["--workers", "1"]].into_iter().enumerate() {
            let run = folder.path().join(format!("open-{i}-{kind}"));
            sweep(&url, &rates, &run, options);
            let in_time = steps(&run).into_iter().filter(|step| step.lateness_ms < LATE_MS);
            open[kind].push(in_time.map(|step| step.rate).fold(0.0, f64::max));
            let run = folder.path().join(format!("closed-{i}-{kind}"));
            let before = children_cpu_ms();
            sweep(&url, "concurrency = [32]", &run, options);
            let step = steps(&run).remove(0);
            closed[kind].push(step.completed_rate);
            cpu[kind].push((children_cpu_ms() - before) / step.requests);
        }
    }
    let figures = [
        ("highest rate with a p99 lateness below 1 ms", "req/s", open),
        ("closed loop of 32", "req/s", closed),
        ("closed loop of 32: CPU time of a request, without the server", "ms", cpu),
    ];
    for (figure, unit, [without, with]) in figures {
        let ratios = with.iter().zip(&without).map(|(with, without)| with / without);
        // Where no rate is sent in time, there is no ratio.
        let ratios = ratios.filter(|ratio| ratio.is_finite()).collect();
        print_row(&format!("{figure}: no workers"), unit, without);
        print_row(&format!("{figure}: `--workers 1`"), unit, with);
        print_row(&format!("{figure}: ratio"), "", ratios);
    }
}

fn sweep(url: &str, search: &str, run: &Path, options: &[&str]) {
    let plan = run.with_extension("toml");
    let text = format!(
        "name = \"ceiling\"\n[server]\nurl = \"{url}\"\n[slo]\ne2e.p50 = \"10s\"\n\
         [workload.prompts.synthetic]\ninput-tokens = {{ fixed = 8 }}\noutput-tokens = {{ fixed = 32 }}\n\
         [step]\nsettle = \"500ms\"\nmeasure = \"2s\"\n[client]\nmax-lateness = 1.0\nmax-receive-lag = 1.0\n\
         [search]\n{search}\n"
    );
    std::fs::write(&plan, text).unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(["sweep", "--no-charts"]).arg(&plan).arg("--out").arg(run).args(options);
    let output = command.stdout(Stdio::null()).output().unwrap();
    assert!(run.join("result.json").is_file(), "{}", String::from_utf8_lossy(&output.stderr));
}

struct Step {
    rate: f64,
    lateness_ms: f64,
    completed_rate: f64,
    requests: f64,
}

fn steps(run: &Path) -> Vec<Step> {
    let result: serde_json::Value =
        serde_json::from_slice(&std::fs::read(run.join("result.json")).unwrap()).unwrap();
    let number = |value: &serde_json::Value| value.as_f64().unwrap_or(f64::INFINITY);
    let rows = |step: &serde_json::Value| {
        let mut rows = csv::Reader::from_path(run.join("requests.csv")).unwrap();
        let at = rows.headers().unwrap().iter().position(|name| name == "step").unwrap();
        let own = step["step"].to_string();
        rows.records().filter(|row| row.as_ref().unwrap()[at] == *own).count() as f64
    };
    let step = |step: &serde_json::Value| Step {
        rate: number(&step["level"]),
        lateness_ms: number(&step["lateness_p99_ms"]),
        completed_rate: number(&step["achieved_rate"]),
        requests: rows(step),
    };
    result["steps"].as_array().unwrap().iter().map(step).collect()
}

/// Returns the CPU time of all processes that this one has started and waited for, in milliseconds.
fn children_cpu_ms() -> f64 {
    cpu_fields("self")[2..].iter().sum::<f64>() * 1e3
}
