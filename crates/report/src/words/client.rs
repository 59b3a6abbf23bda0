//! The client's margins to its limits, in words.

use super::units::{figure, precise, thousands};
use crate::document::{Text, code, plain};
use goodput_core::units::short;
use goodput_run::rundir::Run;
use goodput_stats::stats::client::Maximum;

/// Returns the largest mean of output tokens per request of any step, at least 1.
fn tokens(run: &Run) -> f64 {
    run.steps.iter().filter_map(|s| s.output_tokens_mean).fold(1.0, f64::max)
}

/// Returns one line for a terminal: `p99 lateness 0.31 of 10 ms allowed · threads busy 8 % · 61 of 4,096 in flight`;
/// each figure is the worst of any step. `None` if no step was measured.
pub(crate) fn client_in_short(run: &Run) -> Option<String> {
    let m = run.margin();
    let of = |m: Maximum| match m.allowed {
        Some(allowed) => format!("{} of {} ms allowed", figure(m.most), precise(allowed)),
        None => format!("{} ms", figure(m.most)),
    };
    let delays = [(m.lateness_p99_ms, "p99 lateness"), (m.receive_lag_p99_ms, "receive lag")];
    let mut parts: Vec<String> = Vec::new();
    if run.meta.virtual_time {
        parts.push("no delay of its own in simulated time".into());
    } else {
        parts.extend(delays.into_iter().filter_map(|(m, what)| Some(format!("{what} {}", of(m?)))));
        parts.extend(m.busy.map(|m| format!("threads busy {}", percent(m.most))));
        parts.extend(
            m.waiting.filter(Maximum::is_over).map(|m| format!("without a core {}", percent(m.most))),
        );
    }
    parts.extend(
        run.meta
            .calibration
            .as_ref()
            .map(|c| format!("calibrated for {} req/s", thousands(c.ceiling_for(tokens(run))))),
    );
    parts.extend(
        in_flight(run)
            .and_then(|m| Some(format!("{} of {} in flight", thousands(m.most), thousands(m.allowed?)))),
    );
    let any = m.in_flight.is_some() && !parts.is_empty();
    any.then(|| parts.join(" · "))
}

/// Returns the most requests in flight and their limit; `None` for an imported run, whose client had no limit from our
/// plan.
fn in_flight(run: &Run) -> Option<Maximum> {
    run.margin().in_flight.filter(|_| run.meta.imported.is_none())
}

/// Returns the margins for a report: a line for each limit, with the step that came nearest to it.
pub(crate) fn client_lines(run: &Run) -> Vec<Text> {
    let m = run.margin();
    let over = |m: &Maximum| if m.is_over() { ": above it" } else { "" };
    let delay = |m: Option<Maximum>, what: &str, share: f64, limit: &str| -> Option<Text> {
        m.map(|m| {
            let allowed = m.allowed.map_or_else(
                || "; no limit of the SLO is touched".into(),
                |a| format!("; {} ms is allowed, {} of {limit}{}", precise(a), percent(share), over(&m)),
            );
            format!("{what}: at most {} ms (step {}){allowed}", figure(m.most), m.step).into()
        })
    };
    let mut lines: Vec<Text> = Vec::new();
    if run.meta.virtual_time {
        lines.push("delay: none, the clock is simulated".into());
    } else {
        let due = "the tightest limit that counts from due";
        lines.extend(delay(m.lateness_p99_ms, "p99 lateness", run.allowed.lateness, due));
        lines.extend(delay(
            m.receive_lag_p99_ms,
            "p99 receive lag",
            run.allowed.receive_lag,
            "the tightest limit",
        ));
        lines.extend(m.busy.map(|m| {
            format!("sending threads, busy: at most {} of the time (step {})", percent(m.most), m.step).into()
        }));
        lines.extend(m.waiting.map(|m| {
            let allowed = percent(m.allowed.unwrap_or(1.0));
            let most = percent(m.most);
            format!("sending threads, waiting for a core: at most {most} of the time (step {}); {allowed} is allowed{}", m.step, over(&m)).into()
        }));
    }
    lines.extend(run.meta.calibration.as_ref().map(|c| {
        let asked = run.steps.iter().map(|s| s.offered_rate).fold(0.0, f64::max);
        Text::of([
            plain(format!(
                "calibration: p99 lateness stays below 1 ms up to about {} req/s of {} tokens (",
                thousands(c.ceiling_for(tokens(run))),
                figure(tokens(run)),
            )),
            code("goodput calibrate"),
            plain(format!(", {}); offered at most {} req/s", c.at.get(..10).unwrap_or(&c.at), figure(asked))),
        ])
    }));
    lines.extend(in_flight(run).map(|m| {
        let allowed = m.allowed.map(thousands).unwrap_or_default();
        format!(
            "in flight: at most {} (step {}); {allowed} is allowed (step.max-in-flight)",
            thousands(m.most),
            m.step
        )
        .into()
    }));
    lines
}

/// Formats a share with two significant figures: `8 %`, `0.23 %`.
fn percent(share: f64) -> String {
    let x = share * 100.0;
    if x <= 0.0 {
        return "0 %".into();
    }
    let unit = 10_f64.powf(x.log10().floor() - 1.0);
    format!("{} %", short((x / unit).round() * unit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_run::fixture;

    fn said(run: &Run) -> Vec<String> {
        client_lines(run).iter().map(Text::words).collect()
    }

    fn case() -> Run {
        fixture::cases().into_iter().find(|(n, _)| *n == "two-steps").map(|(_, r)| r).unwrap()
    }

    #[test]
    fn a_report_says_how_far_the_client_was_from_its_limits() {
        let mut run = case();
        run.steps[1].receive_lag_p99_ms = Some(0.2);
        run.steps[1].in_flight_max = 1_500;
        assert_eq!(
            client_in_short(&run).unwrap(),
            "p99 lateness 0.31 of 10 ms allowed · receive lag 0.2 of 1 ms allowed · threads busy 8 % · 1,500 of 4,096 in flight"
        );
        insta::assert_snapshot!(said(&run).join("\n"), @r#"
        p99 lateness: at most 0.31 ms (step 1); 10 ms is allowed, 5 % of the tightest limit that counts from due
        p99 receive lag: at most 0.2 ms (step 2); 1 ms is allowed, 5 % of the tightest limit
        sending threads, busy: at most 8 % of the time (step 1)
        sending threads, waiting for a core: at most 0.2 % of the time (step 1); 10 % is allowed
        in flight: at most 1,500 (step 2); 4,096 is allowed (step.max-in-flight)
        "#);
    }

    /// Our plan does not limit the requests in flight of another tool.
    #[test]
    fn another_tools_client_has_no_bound_of_ours() {
        let mut run = case();
        let imported =
            r#"{ "tool": "vllm", "at": "2026-11-20T10:15:00Z", "files": [], "missing": [], "steps": [] }"#;
        run.meta.imported = serde_json::from_str(imported).unwrap();
        let short = client_in_short(&run).unwrap();
        assert!(short.starts_with("p99 lateness ") && !short.contains("in flight"), "{short}");
        assert!(!said(&run).iter().any(|l| l.contains("max-in-flight")), "{:?}", said(&run));
        for s in &mut run.steps {
            (s.lateness_p99_ms, s.receive_lag_p99_ms, s.client_busy) = (None, None, None);
        }
        assert_eq!(client_in_short(&run), None, "nothing is known of it");
    }

    #[test]
    fn what_is_over_or_not_known_is_told() {
        let mut run = case();
        for s in &mut run.steps {
            (s.client_waiting, s.lateness_p99_ms, s.client_busy) = (Some(0.234), Some(25.0), None);
        }
        let short = client_in_short(&run).unwrap();
        assert!(short.starts_with("p99 lateness 25 of 10 ms allowed · without a core 23 % · "), "{short}");
        let lines = said(&run);
        assert!(
            lines[0].ends_with("from due: above it") && lines[1].ends_with("10 % is allowed: above it"),
            "{lines:?}"
        );
        run.tiers = vec![toml::from_str("tpot.p99 = \"20ms\"").unwrap()];
        assert!(said(&run)[0].ends_with("(step 1); no limit of the SLO is touched"), "{:?}", said(&run));
        run.meta.virtual_time = true;
        assert!(client_in_short(&run).unwrap().starts_with("no delay of its own in simulated time · "));
        run.steps.clear();
        assert_eq!(client_in_short(&run), None);
    }
}
