//! A simulated server with a workload and an SLO, as a plan.

use anyhow::{Context, Result};
use goodput::plan::{Plan, apply_set};
use std::fmt::Write;

/// A server with a workload and an SLO.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Case {
    pub(crate) name: String,
    /// Settings under `server.simulated`, without the preset.
    pub(crate) preset: &'static str,
    pub(crate) settings: Vec<(&'static str, String)>,
    pub(crate) workload: Workload,
    /// Limits in milliseconds, by key: `ttft.p99`.
    pub(crate) limits: Vec<(&'static str, f64)>,
    /// Largest share of requests that may fail.
    pub(crate) error_rate: Option<f64>,
    /// Share of requests that the server fails.
    pub(crate) failed: f64,
    /// Time between client and server, one way, in milliseconds.
    pub(crate) network_ms: f64,
    /// Factors by which memory, compute and host are faster than the preset's.
    pub(crate) speed: [f64; 3],
    /// True if the plan declares its hardware and its model.
    pub(crate) declared: bool,
}

/// The requests of a case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Workload {
    /// Mean tokens of a prompt, shared prefix included, and of an answer.
    pub(crate) input: f64,
    pub(crate) output: f64,
    /// Coefficient of variation of both lengths; zero for fixed ones.
    pub(crate) cv: f64,
    /// Rare requests with long prompts: their share, and the tokens of their prompts.
    pub(crate) long: Option<(f64, u32)>,
    /// Tokens at the beginning of every prompt that all share.
    pub(crate) shared: Option<u32>,
    /// Coefficient of variation of the gaps between arrivals; 1 for Poisson.
    pub(crate) arrivals_cv: f64,
}

impl Workload {
    pub(crate) const fn fixed(input: f64, output: f64) -> Self {
        Self { input, output, cv: 0.0, long: None, shared: None, arrivals_cv: 1.0 }
    }

    pub(crate) const fn spread(self, cv: f64) -> Self {
        Self { cv, ..self }
    }

    fn lengths(&self, mean: f64) -> String {
        if self.cv > 0.0 {
            let most = (6.0 * mean).round();
            format!("{{ lognormal = {{ mean = {mean:.1}, cv = {}, max = {most} }} }}", self.cv)
        } else {
            format!("{{ fixed = {} }}", mean.round().max(1.0))
        }
    }

    fn synthetic(&self, input: &str) -> String {
        let shared = self.shared.map(|n| format!(", shared-prefix = {{ tokens = {n} }}")).unwrap_or_default();
        format!("{{ input-tokens = {input}, output-tokens = {}{shared} }}", self.lengths(self.output))
    }

    fn table(&self) -> String {
        let mut text = String::from("[workload]\n");
        if (self.arrivals_cv - 1.0).abs() > 1e-9 {
            let _ = writeln!(text, "arrivals = {{ gamma = {{ cv = {} }} }}", self.arrivals_cv);
        }
        if self.shared.is_some() {
            text.push_str("cache = \"warm\"\n");
        }
        let usual = self.synthetic(&self.lengths(self.input));
        match self.long {
            None => {
                let _ = writeln!(text, "prompts.synthetic = {usual}");
            }
            Some((share, tokens)) => {
                let long = self.synthetic(&format!("{{ fixed = {tokens} }}"));
                let _ = writeln!(
                    text,
                    "[[workload.class]]\nname = \"usual\"\nweight = {}\nprompts.synthetic = {usual}\n\
                     [[workload.class]]\nname = \"long\"\nweight = {share}\nprompts.synthetic = {long}",
                    1.0 - share
                );
            }
        }
        text
    }
}

impl Case {
    pub(crate) fn new(name: impl Into<String>, preset: &'static str, workload: Workload) -> Self {
        Self {
            name: name.into(),
            preset,
            settings: Vec::new(),
            workload,
            limits: Vec::new(),
            error_rate: None,
            failed: 0.0,
            network_ms: 0.0,
            speed: [1.0; 3],
            declared: false,
        }
    }

    /// Limits the percentile of a metric, by key.
    pub(crate) fn limit(mut self, key: &'static str, ms: f64) -> Self {
        self.limits.push((key, ms));
        self
    }

    /// Returns the case without its faults and its network: the engine by itself, with the time that is left to it.
    pub(crate) fn engine_alone(&self) -> Self {
        let both_ways = 2.0 * self.network_ms;
        let left = |(key, ms): &(&'static str, f64)| {
            let counts = key.starts_with("ttft") || key.starts_with("e2e");
            (*key, if counts { (ms - both_ways).max(0.001) } else { *ms })
        };
        let limits = self.limits.iter().map(left).collect();
        Self { limits, error_rate: None, failed: 0.0, network_ms: 0.0, declared: false, ..self.clone() }
    }

    /// Returns the tables that declare the model and its hardware, with the figures of the preset's data sheet at this speed.
    fn hardware(&self) -> String {
        let [memory, compute, _] = self.speed;
        if self.preset.starts_with("a40") {
            format!(
                "[hardware]\ngpu = \"A40\"\ngpus = 1\nmemory-bandwidth = \"{:.1} GB/s\"\nflops = \"{:.1} TFLOP/s\"\n\
                 [model]\nparameters = \"0.6B\"\nprecision = \"bf16\"\nlayers = 28\nkv-heads = 8\nhead-size = 128\n",
                696.0 * memory,
                149.7 * compute
            )
        } else {
            format!(
                "[hardware]\ngpu = \"A100 80GB\"\ngpus = 4\ntensor-parallel = 4\nmemory-bandwidth = \"{:.1} GB/s\"\n\
                 flops = \"{:.1} TFLOP/s\"\n[model]\nparameters = \"70B\"\nprecision = \"bf16\"\nlayers = 80\nkv-heads = 8\n\
                 head-size = 128\n",
                2039.0 * memory,
                312.0 * compute
            )
        }
    }

    pub(crate) fn set(mut self, key: &'static str, value: impl ToString) -> Self {
        self.settings.retain(|(k, _)| *k != key);
        self.settings.push((key, value.to_string()));
        self
    }

    /// Returns the plan with these further settings, `key=value` as on the command line.
    pub(crate) fn plan(&self, sets: &[String]) -> Result<Plan> {
        let mut text =
            format!("name = \"{}\"\nseed = 1\n[server.simulated]\npreset = \"{}\"\n", self.name, self.preset);
        for (key, value) in &self.settings {
            let _ = writeln!(text, "{key} = {value}");
        }
        let [memory, compute, host] = self.speed;
        if self.speed.iter().any(|factor| (factor - 1.0).abs() > 1e-9) {
            let _ = writeln!(
                text,
                "speed = {{ memory = {memory:.4}, compute = {compute:.4}, host = {host:.4} }}"
            );
        }
        if self.failed > 0.0 {
            let _ = writeln!(text, "fault = {{ status-500 = {} }}\nfault-after = 30", self.failed);
        }
        if self.network_ms > 0.0 {
            let _ = writeln!(text, "network = \"{}us\"", (self.network_ms * 1e3).round());
        }
        text.push_str("[slo]\n");
        for (key, ms) in &self.limits {
            let _ = writeln!(text, "{key} = \"{}us\"", (ms * 1e3).round());
        }
        if let Some(share) = self.error_rate {
            let _ = writeln!(text, "error-rate = {share}");
        }
        let search = "[search]\nadaptive = { budget = \"15m\" }\nmax-rate = 2000\n";
        text.push_str(&self.workload.table());
        text.push_str(search);
        if self.declared {
            text.push_str(&self.hardware());
        }
        let mut table: toml::Table = text.parse().context("a case is a plan")?;
        for set in sets {
            apply_set(&mut table, set).with_context(|| format!("{}: {set}", self.name))?;
        }
        Plan::from_text(&toml::to_string(&table)?).with_context(|| format!("{} with {sets:?}", self.name))
    }
}
