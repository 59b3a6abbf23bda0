//! Tests of all files together, on plausible runs.

use super::*;
use goodput_core::slo::Slo;
use goodput_run::fixture;
use goodput_run::rundir::{GaugeSamples, Run};
use goodput_stats::fixture::conclusion;
use goodput_stats::search::answer::Status;
use serde_json::Value;
use std::fmt::Write;
use std::fs;
use std::time::Duration;

/// A run with the server's metrics and a safe rate.
fn served() -> Run {
    let mut run = fixture::served();
    run.answers[0].goodput.conclusion = conclusion(Status::Found, Some(34.1), Some([33.0, 35.3]), Some(33.0));
    run
}

/// Samples of the gauges of a run around the means of its steps.
fn samples(run: &Run) -> GaugeSamples {
    let mut text = String::from("series,step,time_s,name,value,source\n");
    for s in &run.steps {
        let means = [
            ("running", s.server.running_mean),
            ("waiting", s.server.waiting_mean),
            ("kv_use", s.server.kv_mean),
        ];
        for i in 0..120_u32 {
            let at = s.settle_s + f64::from(i) * s.measure_s / 120.0;
            for (name, mean) in means {
                let value = mean.unwrap_or(0.0) * if i % 2 == 0 { 0.9 } else { 1.1 };
                writeln!(text, "{},{},{at},{name},{value},0", s.series, s.step).unwrap();
            }
        }
    }
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("server-metrics.csv"), text).unwrap();
    GaugeSamples::read(dir.path()).unwrap()
}

fn options(run: &Run) -> Options {
    let rate = run.capacity_at_safe_rate(&run.answers[0]).unwrap().requests_per_s;
    Options {
        labels: vec![("job".into(), "llm \"a\"".into())],
        replicas: Some(Replicas { least: 2, most: 6, rate, summary: "5M requests a day:\n6 GPUs".into() }),
        start_up: Some(Duration::from_secs(90)),
        growth: 0.1,
        deployment: Some("llm".into()),
        ..Options::default()
    }
}

fn made(run: &Run, options: Options) -> Handoff {
    let figures = Figures::of(run, samples(run), options).map_err(|e| format!("{e:?}")).unwrap();
    figures.check().unwrap();
    handoff(&figures).unwrap()
}

fn text<'a>(made: &'a Handoff, path: &str) -> &'a str {
    &made.files.iter().find(|f| f.path == path).unwrap().text
}

#[test]
fn every_file_of_a_run() {
    let run = served();
    let made = made(&run, options(&run));
    let mut all = String::new();
    for file in
        made.files.iter().filter(|f| f.path != "ci/plan.toml" && f.path != "alerts/goodput.rules.test.yaml")
    {
        writeln!(all, "==== {}\n{}", file.path, file.text).unwrap();
    }
    insta::assert_snapshot!(all);
}

/// A name that would be YAML, a template, a second line or a closing quote elsewhere.
#[test]
fn hostile_names_stay_text() {
    let mut run = served();
    run.name = "x\"\n- evil: {{ $value }} \u{202e}'".into();
    run.meta.model = "m\" | `rm`\n".into();
    run.meta.facts[0].exposed.insert("waiting".into(), "a\n  - evil: 1".into());
    let made = made(&run, options(&run));
    for file in made.files.iter().filter(|f| f.path.ends_with(".yaml")) {
        let values: Vec<Value> =
            serde_saphyr::from_multiple(&file.text).unwrap_or_else(|e| panic!("{}: {e}", file.path));
        assert!(
            !values.is_empty()
                && !file.text.contains("- evil: 1")
                && !file.text.contains("\n- evil")
                && !file.text.contains("{{")
                && !file.text.contains('\u{202e}'),
            "{}",
            file.path
        );
    }
    serde_json::from_str::<Value>(text(&made, "dashboard/grafana.json")).unwrap();
}

/// The schemas hold the fields and types of KEDA's resource definition and of Kubernetes' API, as far as they are used.
#[test]
fn scaling_is_what_kubernetes_takes() {
    let run = served();
    let made = made(&run, options(&run));
    for (path, schema) in [
        ("scaling/keda-scaledobject.yaml", include_str!("schemas/keda.json")),
        ("scaling/hpa.yaml", include_str!("schemas/hpa.json")),
    ] {
        let value: Value = serde_saphyr::from_str(text(&made, path)).unwrap();
        let mut compiler = boon::Compiler::new();
        compiler.add_resource("schema.json", serde_json::from_str(schema).unwrap()).unwrap();
        let mut schemas = boon::Schemas::new();
        let index = compiler.compile("schema.json", &mut schemas).unwrap();
        schemas.validate(&value, index).unwrap_or_else(|e| panic!("{path}: {e:#}"));
    }
}

#[test]
fn what_is_not_known_is_not_made() {
    let mut run = served();
    let whole = made(&run, Options::default());
    assert!(!whole.files.iter().any(|f| f.path.starts_with("scaling/")), "no replicas were planned");
    assert!(whole.missing.iter().any(|m| m.contains("--capacity")), "{:?}", whole.missing);

    run.tiers = vec![Slo { error_rate: Some(0.01.try_into().unwrap()), ..run.tiers[0].clone() }];
    let errors = made(&run, Options::default());
    assert!(errors.missing.iter().any(|m| m.contains("errors ≤ 1 %")), "{:?}", errors.missing);

    run.meta.facts.clear();
    let blind = made(&run, options(&run));
    let paths: Vec<&str> = blind.files.iter().map(|f| f.path).collect();
    assert_eq!(
        paths,
        [
            "README.md",
            "admission/envoy.yaml",
            "admission/nginx.conf",
            "admission/litellm.yaml",
            "ci/goodput.yaml",
            "ci/plan.toml"
        ]
    );
    assert!(blind.missing.iter().any(|m| m.contains("no metrics of the server")), "{:?}", blind.missing);
}

#[test]
fn a_run_without_a_safe_rate_has_nothing_to_hand_over() {
    let run = served();
    let unknown = Options { part: Some("fp8".into()), ..Options::default() };
    assert!(matches!(Figures::of(&run, samples(&run), unknown), Err(NoFigures::NoSuchPart { .. })));
    let mut none = run.clone();
    none.answers.clear();
    assert!(matches!(Figures::of(&none, samples(&run), Options::default()), Err(NoFigures::NoAnswer)));
    let other = Options {
        replicas: Some(Replicas { rate: 1.0, least: 1, most: 2, summary: String::new() }),
        ..Options::default()
    };
    let figures = Figures::of(&run, samples(&run), other).map_err(|e| format!("{e:?}")).unwrap();
    assert!(figures.check().unwrap_err().contains("goodput capacity"));
    let fast = Options { growth: 0.1, ..Options::default() };
    let figures = Figures::of(&run, samples(&run), fast).map_err(|e| format!("{e:?}")).unwrap();
    assert!(figures.check().unwrap_err().contains("--start-up"));
}
