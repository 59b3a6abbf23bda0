//! Shared part of `latency` and `throughput`: turns their options into a plan and measures it.

use crate::cli::OfflineArgs;
use crate::cmd::consent;
use crate::cmd::sweep::{After, measure as run, options};
use crate::plan::{Plan, apply_set};
use anyhow::{Context, Result, bail};
use std::process::ExitCode;

/// Formats `key="value"`, as in `--set`.
pub(super) fn quoted(key: &str, value: &str) -> String {
    format!("{key}={}", toml::Value::String(value.to_owned()))
}

/// Measures a plan made from a purpose (`latency` or `throughput`), `sets` and the common options, and prints the figures.
pub(super) fn measure(purpose: &str, sets: &[String], args: &OfflineArgs) -> Result<ExitCode> {
    let plan = plan(purpose, sets, args)?;
    consent::ask(&[&plan], args.measure.yes)?;
    run(&plan, &options(&plan, &args.measure, &args.folder), After::only(&args.folder))
}

/// Returns the plan made from the options.
fn plan(purpose: &str, sets: &[String], args: &OfflineArgs) -> Result<Plan> {
    let (input, output) = (args.input_tokens, args.output_tokens);
    let mut all = vec![
        quoted("name", &format!("{purpose}, {input} in / {output} out")),
        quoted("purpose", purpose),
        format!("workload.prompts.synthetic.input-tokens.fixed={input}"),
        format!("workload.prompts.synthetic.output-tokens.fixed={output}"),
        quoted("step.settle", "5s"),
    ];
    all.extend(args.url.as_deref().map(|url| quoted("server.url", url)));
    all.extend(args.simulated.as_deref().map(|preset| quoted("server.simulated.preset", preset)));
    all.extend(args.model.as_deref().map(|model| quoted("server.model", model)));
    all.extend(sets.iter().chain(&args.measure.set).cloned());
    let mut table = toml::Table::new();
    for set in &all {
        apply_set(&mut table, set)?;
    }
    if !table.contains_key("server") {
        bail!(
            "no server to measure: name one with --url URL, or simulate one with --simulated a40-qwen3-0.6b"
        );
    }
    Plan::from_text(&table.to_string()).context("in the plan made from the options")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use crate::search::config::Mode;
    use clap::Parser;

    fn plan_of(line: &[&str]) -> Result<Plan> {
        match Cli::try_parse_from(line)?.command {
            Command::Latency(args) => plan("latency", &["search.concurrency=[1, 4]".into()], &args.common),
            Command::Throughput(args) => plan("throughput", &["search.burst=9".into()], &args.common),
            _ => panic!("neither latency nor throughput"),
        }
    }

    #[test]
    fn options_make_a_plan() {
        let plan = plan_of(&[
            "goodput",
            "latency",
            "--url",
            "http://h:1/v1",
            "--input-tokens",
            "64",
            "--set",
            "server.api=completions",
        ]);
        let plan = plan.unwrap();
        assert_eq!(
            (plan.name.as_str(), plan.measured_server().to_string().as_str()),
            ("latency, 64 in / 128 out", "http://h:1")
        );
        assert!(plan.slo.is_none() && matches!(plan.search.mode, Mode::Concurrency(_)));
        let plan = plan_of(&["goodput", "throughput", "--simulated", "demo"]).unwrap();
        assert!(matches!(plan.search.mode, Mode::Burst(n) if n.get() == 9));
    }

    #[test]
    fn errors_name_the_mistake() {
        for (line, message) in [
            (&["goodput", "latency"][..], "--url URL"),
            (&["goodput", "latency", "--simulated", "demon"], "there is no preset"),
            (&["goodput", "latency", "--simulated", "demo", "--set", "search.rates=[1]"], "closed loop"),
        ] {
            let e = format!("{:#}", plan_of(line).unwrap_err());
            assert!(e.contains(message) || e.contains("demon"), "{line:?}: {e}");
        }
    }
}
