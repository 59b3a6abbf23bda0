//! A Grafana dashboard of the service, with what the run measured as lines: safe rate, goodput, limits and unloaded latencies.

use super::early::Signals;
use super::figures::Figures;
use super::objective::{Objectives, latency};
use super::promql::{finished, finished_each, gauge, quantile, share_above};
use super::text::{known, line};
use anyhow::{Context, Result};
use goodput_core::units::short;
use serde_json::{Value, json};

/// Version of Grafana's dashboards that the file is written for: that of Grafana 11.
const SCHEMA_VERSION: u32 = 39;
/// Width and height of a panel, in Grafana's grid of 24 columns.
const PANEL: [usize; 2] = [12, 8];
/// Colours of a level that is safe, of the goodput, and of a limit.
const SAFE: &str = "green";
const GOODPUT: &str = "orange";
const LIMIT: &str = "red";

/// A measured value that is drawn as a line.
struct Line {
    value: f64,
    colour: &'static str,
}

/// A panel: a metric over time, with lines.
struct Panel {
    title: String,
    said: String,
    unit: &'static str,
    /// Expressions with their legends.
    queries: Vec<(String, String)>,
    lines: Vec<Line>,
}

/// Returns the dashboard; `None` if the server reports nothing that could be shown.
pub(crate) fn grafana(f: &Figures<'_>, objectives: &Objectives, early: &Signals) -> Result<Option<String>> {
    let panels: Vec<Panel> = rate(f)
        .into_iter()
        .chain(latencies(f))
        .chain(budgets(f, objectives))
        .chain(gauges(f, early))
        .collect();
    if panels.is_empty() {
        return Ok(None);
    }
    let panels: Vec<Value> = panels.iter().enumerate().map(|(i, p)| p.json(i)).collect();
    let dashboard = json!({
        "title": format!("goodput: {}", f.title()),
        "uid": format!("goodput-{}", f.service()).chars().take(40).collect::<String>(),
        "description": super::alerts::source(f).join(" "),
        "tags": ["goodput", "llm"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": true,
        "timezone": "browser",
        "refresh": "30s",
        "time": { "from": "now-6h", "to": "now" },
        "templating": { "list": [{
            "name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus", "hide": 0,
        }] },
        "panels": panels,
    });
    serde_json::to_string_pretty(&dashboard)
        .map(|text| Some(text + "\n"))
        .context("failed to write the dashboard")
}

impl Panel {
    fn json(&self, i: usize) -> Value {
        let [w, h] = PANEL;
        let steps: Vec<Value> = [json!({ "color": "transparent", "value": null })]
            .into_iter()
            .chain(self.lines.iter().map(|l| json!({ "color": l.colour, "value": l.value })))
            .collect();
        let source = json!({ "type": "prometheus", "uid": "${datasource}" });
        let targets: Vec<Value> = self
            .queries
            .iter()
            .enumerate()
            .map(|(at, (expr, legend))| {
                let id = char::from(b'A' + (at % 26) as u8).to_string();
                json!({ "refId": id, "datasource": source, "expr": expr, "legendFormat": legend, "range": true })
            })
            .collect();
        json!({
            "id": i + 1,
            "type": "timeseries",
            "title": self.title,
            "description": line(&self.said),
            "datasource": source,
            "gridPos": { "x": (i % 2) * w, "y": (i / 2) * h, "w": w, "h": h },
            "targets": targets,
            "options": { "legend": { "displayMode": "list", "placement": "bottom" }, "tooltip": { "mode": "multi" } },
            "fieldConfig": { "overrides": [], "defaults": {
                "unit": self.unit,
                "min": 0,
                "custom": { "lineWidth": 2, "fillOpacity": 0, "thresholdsStyle": { "mode": "line" } },
                "thresholds": { "mode": "absolute", "steps": steps },
            } },
        })
    }
}

/// Returns the requests per second of one server, against the safe rate and the goodput.
fn rate(f: &Figures<'_>) -> Option<Panel> {
    let (each, all) = (finished_each(f)?, finished(f)?);
    let mut lines = vec![Line { value: f.safe_each(), colour: SAFE }];
    if !f.not_reached {
        lines.push(Line { value: f.each(f.goodput), colour: GOODPUT });
    }
    Some(Panel {
        title: "Requests per second".into(),
        said: format!(
            "Green: the safe rate of a server, {}. Orange: its goodput, {}.",
            short(f.safe_each()),
            if f.not_reached { "which the run did not reach".into() } else { short(f.each(f.goodput)) },
        ),
        unit: "reqps",
        queries: vec![(each, "per server".into()), (all, "all servers".into())],
        lines,
    })
}

/// Returns a panel for each limited latency: its percentile, the limit, and the unloaded percentile.
fn latencies<'a>(f: &'a Figures<'_>) -> impl Iterator<Item = Panel> + 'a {
    f.slo.limits().into_iter().filter_map(|limit| {
        let expr = quantile(f, latency(limit.metric)?, limit.percentile.share())?;
        let unloaded = f.unloaded.and_then(|s| s.quantiles(limit.metric).p50).map(|ms| ms / 1e3);
        let lines = unloaded.map(|value| Line { value, colour: SAFE }).into_iter();
        let lines = lines.chain([Line { value: limit.limit.as_secs_f64(), colour: LIMIT }]).collect();
        Some(Panel {
            title: format!("{} {}", limit.percentile, limit.metric.title()),
            said: format!(
                "Red: the limit, {limit}. {}By the server's own clock, and as coarse as its buckets.",
                unloaded.map_or_else(String::new, |s| format!(
                    "Green: the median with one request at a time, {} ms. ",
                    short(s * 1e3)
                )),
            ),
            unit: "s",
            queries: vec![(expr, format!("{}", limit.percentile))],
            lines,
        })
    })
}

/// Returns the shares of requests above the limits, against the budgets.
fn budgets<'a>(f: &'a Figures<'_>, objectives: &'a Objectives) -> impl Iterator<Item = Panel> + 'a {
    objectives.told.iter().map(|o| Panel {
        title: format!("Above {} s {}", o.bound_s, o.limit.metric.title()),
        said: format!("Share of the requests. Red: the share that {} permits.", o.limit),
        unit: "percentunit",
        queries: vec![
            (share_above(f, &o.histogram, o.bound_s, "5m"), "5 minutes".into()),
            (share_above(f, &o.histogram, o.bound_s, "1h"), "1 hour".into()),
        ],
        lines: vec![Line { value: o.budget(), colour: LIMIT }],
    })
}

/// Returns the signals per server, against their values at the safe rate and at the goodput.
fn gauges<'a>(f: &'a Figures<'_>, early: &'a Signals) -> impl Iterator<Item = Panel> + 'a {
    early.0.iter().filter_map(|s| {
        let title = s.title();
        let lines = [(s.at_safe, SAFE), (s.at_goodput, GOODPUT)];
        let lines =
            lines.into_iter().filter_map(|(value, colour)| Some(Line { value: value?, colour })).collect();
        Some(Panel {
            title: title.to_owned(),
            said: format!(
                "Green: {} at the safe rate. Orange: {} at the goodput. Means over steps of the run{}.",
                known(s.at_safe),
                known(s.at_goodput),
                if s.signal.is_share() { "" } else { ", per server" },
            ),
            unit: if s.signal.is_share() { "percentunit" } else { "short" },
            queries: vec![(gauge(f, s.signal, "1m")?, "now".into())],
            lines,
        })
    })
}
