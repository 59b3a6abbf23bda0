//! Generates the plan that describes the measurement of another tool, as far as its files allow.

use super::Options;
use super::results::ToolResults;
use anyhow::{Context, Result, bail};
use goodput_core::distribution::Distribution;
use goodput_core::endpoint::{Api, BaseUrl};
use goodput_core::level::Control;
use goodput_plan::{MeasuredServer, Plan, apply_set};
use goodput_workload::arrivals::Arrivals;
use goodput_workload::summary::Pacing;
use toml::{Table, Value};
use url::Url;

/// Placeholder for an unknown server: a host name that no server can have.
const NOWHERE: &str = "http://not-recorded.invalid";
/// SLO profile if none is given, the default of `sweep --url`.
const PROFILE: &str = "chat";

/// Returns the URL of a server without parts that must not be stored: user, password, query, and the path of an
/// endpoint.
pub(super) fn shown(url: &str) -> String {
    let parsed = Url::parse(url.trim()).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let Some(mut parsed) = parsed else {
        // It may be a plain name, such as that of a model; anything with an `@` may contain a password.
        return if url.contains('@') { "not shown".into() } else { url.to_owned() };
    };
    let _ = parsed.set_username("");
    let _ = parsed.set_password(None);
    parsed.set_query(None);
    parsed.set_fragment(None);
    let text = parsed.as_str().trim_end_matches('/');
    let text =
        Api::ALL.into_iter().filter_map(Api::path).find_map(|path| text.strip_suffix(path)).unwrap_or(text);
    text.trim_end_matches('/').to_owned()
}

/// Returns the server for the plan: the given URL, else the one from the files.
fn server(found: &ToolResults, options: &Options) -> Option<BaseUrl> {
    let told = options.url.clone().or_else(|| found.server.as_deref().map(shown))?;
    told.parse().ok()
}

/// Returns the server, if it is known.
pub(super) fn measured_server(found: &ToolResults, options: &Options) -> MeasuredServer {
    server(found, options)
        .map_or(MeasuredServer::NotRecorded, |url| MeasuredServer::Urls(vec![url.to_string()]))
}

/// Returns the measured lengths as a distribution: fixed if all are equal, else a lognormal through median and 90th
/// percentile.
fn lengths(of: Option<&Distribution>) -> Value {
    let number = |n: u64| Value::Integer(n.clamp(1, u64::from(u32::MAX)) as i64);
    let table =
        |pairs: Vec<(&str, Value)>| Value::Table(pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect());
    match of {
        Some(d) if d.p50.max(1) < d.max => {
            let (p50, p90) = (d.p50.max(1), d.p90.max(d.p50).max(1));
            table(vec![(
                "quantiles",
                table(vec![("p50", number(p50)), ("p90", number(p90)), ("max", number(d.max))]),
            )])
        }
        _ => table(vec![("fixed", number(of.map_or(1, |d| d.max)))]),
    }
}

/// Returns the levels in the order of the steps, with their key.
fn levels(found: &ToolResults) -> (&'static str, Value) {
    let key = match found.steps.first().map(|s| s.level.control) {
        Some(Control::Concurrency) => "concurrency",
        _ => "rates",
    };
    let level = |x: f64| if key == "rates" { Value::Float(x) } else { Value::Integer(x as i64) };
    (key, Value::Array(found.steps.iter().map(|s| level(s.level.value)).collect()))
}

/// Returns the arrival process if all steps share one.
fn arrivals(found: &ToolResults) -> Result<Option<Value>> {
    let Some(first) = found.steps.first().and_then(|s| s.arrivals) else { return Ok(None) };
    Ok(Some(Value::try_from(first).context("the arrivals")?))
}

/// Returns the pacing of the requests. A closed loop has no arrivals.
pub(super) fn pacing(found: &ToolResults) -> Pacing {
    let shapes: Vec<Arrivals> = found.steps.iter().filter_map(|s| s.arrivals).collect();
    match shapes.first() {
        Some(one) if shapes.len() == found.steps.len() && shapes.iter().all(|s| s == one) => {
            Pacing::Arrivals(*one)
        }
        _ if found.steps.iter().any(|s| s.level.control == Control::Concurrency) => {
            Pacing::ClosedLoop { max_rate: None }
        }
        _ => Pacing::Unknown,
    }
}

/// Keys that may be set in a plan of a finished measurement.
const OPEN: [&str; 6] = ["slo", "hardware", "environment", "notes", "model", "client"];

/// Returns a key that would contradict the measurement, if there is one.
fn closed(sets: &[String]) -> Option<&str> {
    let open = |set: &&String| {
        let key = set.split(['=', '.']).next().unwrap_or_default().trim();
        OPEN.contains(&key)
    };
    sets.iter().find(|set| !open(set)).map(String::as_str)
}

/// Generates the plan. `longest` is the longest duration of a step, in seconds.
pub(super) fn describe(
    found: &ToolResults,
    options: &Options,
    input: Option<&Distribution>,
    output: Option<&Distribution>,
    longest: f64,
) -> Result<Plan> {
    if let Some(set) = closed(&options.sets) {
        bail!("--set {set}: what was measured cannot be changed any more; of {} it can", OPEN.join(", "));
    }
    let mut table = Table::new();
    let mut set =
        |key: &str, value: Value| -> Result<()> { apply_set(&mut table, &format!("{key}={value}")) };
    let text = |s: &str| Value::String(s.to_owned());
    let title = format!("{}, imported", found.model.as_deref().unwrap_or(found.tool.title()));
    set("name", text(options.name.as_deref().unwrap_or(&title)))?;
    if let Some(url) = &options.url {
        url.parse::<BaseUrl>().map_err(anyhow::Error::msg).context("--url")?;
    }
    let url = server(found, options).map_or_else(|| NOWHERE.to_owned(), |url| url.to_string());
    set("server.url", text(&url))?;
    set("server.api", text(found.api.name()))?;
    for model in found.model.iter().filter(|m| !m.is_empty()) {
        set("server.model", text(model))?;
    }
    if let Some(shape) = arrivals(found)? {
        set("workload.arrivals", shape)?;
    }
    set("workload.prompts.synthetic.input-tokens", lengths(input))?;
    set("workload.prompts.synthetic.output-tokens", lengths(output))?;
    let (key, list) = levels(found);
    set(&format!("search.{key}"), list)?;
    let settle = options.settle.map_or_else(|| "0s".into(), |s| s.to_string());
    set("step.settle", text(&settle))?;
    set("step.measure", text(&format!("{}s", longest.ceil().max(1.0))))?;
    // Each imported step is complete, so the window covers the longest one.
    set("step.window", text(&format!("{}s", longest.ceil().max(1.0))))?;
    set("step.max-duration", text(&format!("{}s", longest.ceil().max(600.0))))?;
    let most = found.steps.iter().map(|s| s.level.value).fold(4096.0, f64::max);
    set("step.max-in-flight", Value::Integer(most as i64))?;
    let own_limits = options.sets.iter().any(|s| s.trim_start().starts_with("slo"));
    if let Some(profile) = options.slo.as_deref().or((!own_limits).then_some(PROFILE)) {
        set("slo.profile", text(profile))?;
    }
    for own in &options.sets {
        apply_set(&mut table, own)?;
    }
    Plan::from_text(&table.to_string()).context("in the plan that describes what is imported")
}
