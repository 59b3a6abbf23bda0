//! The clients that are compared, and what they say of the server.

use goodput::stats::percentile::order_statistic;
use serde_json::Value;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How a client loads the server.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Load {
    /// A number of streams of 100 tokens at once; as soon as one ends, the next begins.
    Streams(usize),
    /// A number of requests for 16 tokens per second, at random times.
    Rate(usize),
}

impl Load {
    pub(crate) const fn tokens(self) -> usize {
        match self {
            Self::Streams(_) => 100,
            Self::Rate(_) => 16,
        }
    }

    /// Returns the number of requests of about five seconds.
    pub(crate) const fn requests(self) -> usize {
        match self {
            Self::Streams(n) | Self::Rate(n) => 5 * n,
        }
    }

    pub(crate) fn name(self) -> String {
        match self {
            Self::Streams(n) => format!("{n} streams"),
            Self::Rate(n) => format!("{n} req/s"),
        }
    }
}

/// Median and 99th percentile, in ms.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quantiles {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

impl Quantiles {
    pub(crate) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_unstable_by(f64::total_cmp);
        Some(Self { p50: order_statistic(&values, 500)?, p99: order_statistic(&values, 990)? })
    }

    fn of_step(step: &Value, metric: &str) -> Option<Self> {
        let figure = |name: &str| step[metric][name].as_f64();
        Some(Self { p50: figure("p50")?, p99: figure("p99")? })
    }
}

/// The figures that a client reports.
pub(crate) struct Said {
    pub(crate) requests: usize,
    /// TTFT as the client reports it: from `due` for goodput, from when a request was sent for all others.
    pub(crate) ttft: Quantiles,
    /// TTFT from when a request was sent.
    pub(crate) from_sent: Quantiles,
    pub(crate) itl: Quantiles,
}

/// A client.
pub(crate) enum Client {
    /// A thread for each connection, which writes a request, reads, and does nothing else.
    Ideal,
    /// This program.
    Goodput,
    /// vLLM's client in Rust, or another with its options and its file of results.
    Bench { path: PathBuf, tokenizer: PathBuf },
    /// `vllm bench serve`.
    Vllm { path: PathBuf, tokenizer: PathBuf },
}

impl Client {
    /// Returns the clients that there are.
    pub(crate) fn all() -> Vec<Self> {
        let set = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let tokenizer = set("TOKENIZER");
        let bench = set("VLLM_BENCH").zip(tokenizer.clone());
        let vllm = set("VLLM").zip(tokenizer);
        [Self::Ideal, Self::Goodput]
            .into_iter()
            .chain(bench.map(|(path, tokenizer)| Self::Bench { path, tokenizer }))
            .chain(vllm.map(|(path, tokenizer)| Self::Vllm { path, tokenizer }))
            .collect()
    }

    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Ideal => "a thread for each connection",
            Self::Goodput => "goodput",
            Self::Bench { .. } => "vllm-bench",
            Self::Vllm { .. } => "vllm bench serve",
        }
    }

    /// Returns true if the client can make this load.
    pub(crate) const fn can(&self, load: Load) -> bool {
        match (self, load) {
            // More threads than that are no ideal.
            (Self::Ideal, Load::Streams(n)) => n <= 100,
            (Self::Vllm { .. }, Load::Streams(n)) => n <= 1_000,
            _ => true,
        }
    }

    /// Loads the server, and returns what the client says of it.
    pub(crate) fn run(&self, url: &str, load: Load, dir: &Path) -> Result<Said, Box<dyn Error>> {
        match self {
            Self::Ideal => super::ideal::run(url, load),
            Self::Goodput => goodput(url, load, dir),
            Self::Bench { path, tokenizer } => bench(Command::new(path), tokenizer, url, load, dir),
            Self::Vllm { path, tokenizer } => {
                let mut command = Command::new(path);
                command.args(["bench", "serve"]).env("HF_HUB_OFFLINE", "1").env("VLLM_NO_USAGE_STATS", "1");
                bench(command, tokenizer, url, load, dir)
            }
        }
    }
}

/// Runs a command to its end.
fn finish(command: &mut Command) -> Result<(), Box<dyn Error>> {
    let done = command.stdin(Stdio::null()).output()?;
    if done.status.success() {
        return Ok(());
    }
    Err(format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr)).into())
}

fn goodput(url: &str, load: Load, dir: &Path) -> Result<Said, Box<dyn Error>> {
    let search = match load {
        Load::Streams(n) => format!("concurrency = [{n}]"),
        Load::Rate(n) => format!("rates = [{n}]"),
    };
    let plan = format!(
        "name = \"overhead\"\n[server]\nurl = \"{url}\"\napi = \"completions\"\n[slo]\nttft.p99 = \"10s\"\n\
         [workload.prompts.synthetic]\ninput-tokens = {{ fixed = 32 }}\noutput-tokens = {{ fixed = {} }}\n\
         [step]\nsettle = \"0s\"\nmeasure = \"5s\"\nmax-in-flight = 8192\n[search]\n{search}\n",
        load.tokens()
    );
    let (file, run) = (dir.join("plan.toml"), dir.join("run"));
    std::fs::write(&file, plan)?;
    let _ = std::fs::remove_dir_all(&run);
    let mut command = Command::new(env!("CARGO_BIN_EXE_goodput"));
    // A verdict is not asked for: the SLO holds.
    let done = command.arg("sweep").arg(&file).arg("--no-charts").arg("--out").arg(&run).output()?;
    let text = std::fs::read(run.join("result.json"))
        .map_err(|e| format!("{e}: {}", String::from_utf8_lossy(&done.stderr)))?;
    let result: Value = serde_json::from_slice(&text)?;
    let step = result["steps"].as_array().into_iter().flatten().last().ok_or("no step")?;
    let said = Quantiles::of_step(step, "ttft_ms").zip(Quantiles::of_step(step, "itl_ms"));
    let (ttft, itl) = said.ok_or_else(|| format!("no quantiles: {step}"))?;
    let from_sent = Quantiles::of(from_sent(&run)?).ok_or("no request was answered")?;
    Ok(Said { requests: step["completed"].as_u64().unwrap_or(0) as usize, ttft, from_sent, itl })
}

/// Returns the TTFT from `sent` of the measured requests of a run, in ms.
fn from_sent(run: &Path) -> Result<Vec<f64>, Box<dyn Error>> {
    let mut file = csv::Reader::from_path(run.join("requests.csv"))?;
    let heads = file.headers()?.clone();
    let at = |name: &str| heads.iter().position(|head| head == name).ok_or(format!("no {name}"));
    let (phase, sent, first) = (at("phase")?, at("sent_ms")?, at("first_token_ms")?);
    let mut all = Vec::new();
    for row in file.records() {
        let row = row?;
        if &row[phase] == "measure" && !row[first].is_empty() {
            all.push(row[first].parse::<f64>()? - row[sent].parse::<f64>()?);
        }
    }
    Ok(all)
}

/// Runs a client with the options of `vllm bench serve`.
fn bench(
    mut command: Command,
    tokenizer: &Path,
    url: &str,
    load: Load,
    dir: &Path,
) -> Result<Said, Box<dyn Error>> {
    let (tokens, requests) = (load.tokens().to_string(), load.requests().to_string());
    command.args(["--backend", "openai", "--base-url", url, "--endpoint", "/v1/completions"]);
    command.args(["--model", "overhead", "--dataset-name", "random", "--random-input-len", "32"]);
    command.args(["--random-output-len", &tokens, "--num-prompts", &requests, "--disable-tqdm"]);
    command.args(["--save-result", "--save-detailed", "--result-filename", "peer.json", "--ignore-eos"]);
    command.arg("--tokenizer").arg(tokenizer).arg("--result-dir").arg(dir);
    match load {
        Load::Streams(n) => command.args(["--max-concurrency", &n.to_string()]),
        Load::Rate(n) => command.args(["--request-rate", &n.to_string()]),
    };
    finish(&mut command)?;
    let file: Value = serde_json::from_slice(&std::fs::read(dir.join("peer.json"))?)?;
    let ms = |list: &Value| -> Vec<f64> {
        list.as_array().into_iter().flatten().filter_map(Value::as_f64).map(|s| 1e3 * s).collect()
    };
    let ttft = ms(&file["ttfts"]);
    let itl = file["itls"].as_array().into_iter().flatten().flat_map(ms).collect();
    let requests = ttft.len();
    let (ttft, itl) = Quantiles::of(ttft).zip(Quantiles::of(itl)).ok_or("no times in the file of results")?;
    Ok(Said { requests, ttft, from_sent: ttft, itl })
}
