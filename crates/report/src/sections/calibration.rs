//! The report of a calibration, for a reader who must decide if this machine is fit to measure.

use crate::document::{Block, Cell, Column, Document, Field, Section, Setting, Table};
use goodput_core::units::{short, thousands};
use goodput_stats::calibration::{AtRate, Calibration, ERROR_TOKENS, EXACT_MS, Streams, TOKENS};

/// Returns the whole calibration: figures, and advice if they are low.
pub fn brief(c: &Calibration) -> Document {
    let server = match &c.url {
        Some(url) => format!("against the null server at {url}"),
        None => "the null server beside it on the same cores".into(),
    };
    let threads = if c.threads == 1 { "thread" } else { "threads" };
    let about = format!("{}, {} sending {threads}, {server}", c.host, c.threads);
    let mut figures = vec![
        format!(
            "Highest rate with a p99 lateness below {} ms: {} req/s where {TOKENS} tokens come in one write, {} where {ERROR_TOKENS} come \
             one by one",
            short(EXACT_MS),
            thousands(c.ceiling),
            thousands(c.ceiling_streamed)
        ),
        format!(
            "Closed loop of {}: {} req/s, {} tokens/s, {} ms of CPU time a request",
            c.closed.slots,
            thousands(c.closed.rate),
            thousands(c.closed.rate * f64::from(TOKENS)),
            short(c.closed.cpu_ms)
        ),
    ];
    figures.extend(c.streams.as_ref().map(streams));
    if c.ttft_error.is_empty() {
        figures.push(
            "TTFT error: not known, since the server does not tell its own time (Server-Timing: ttft)".into(),
        );
    }
    figures.extend(advice(c));
    let sections = vec![
        Section::untitled(vec![Block::paragraph(about)]),
        Section::untitled(vec![table(c).into()]),
        Section::untitled(Block::paragraphs(figures)),
    ];
    Document::of(sections)
}

/// The measurement at one rate.
struct RateRow<'a> {
    what: &'static str,
    at: &'a AtRate,
}

fn table(c: &Calibration) -> Table {
    let lateness = c.lateness.iter().map(|at| RateRow { what: "lateness", at });
    let error = c.ttft_error.iter().map(|at| RateRow { what: "TTFT error", at });
    let rows: Vec<RateRow<'_>> = lateness.chain(error).collect();
    let time = |head: &str, of: fn(&AtRate) -> f64| {
        Field::new(Column::number(head), move |r: &RateRow<'_>| {
            Cell::figure(format!("{:.3}", of(r.at)), Some(of(r.at)))
        })
    };
    let fields = vec![
        Field::new(Column::text(""), |r: &RateRow<'_>| Cell::text(r.what)),
        Field::new(Column::number("req/s"), |r: &RateRow<'_>| Cell::Count(r.at.rate)),
        Field::new(Column::number("requests"), |r: &RateRow<'_>| Cell::Count(r.at.n as f64)),
        Field::new(Column::number("failed"), |r: &RateRow<'_>| Cell::figure(r.at.failed.to_string(), None)),
        time("p50 ms", |at| at.quantiles.p50_ms),
        time("p99 ms", |at| at.quantiles.p99_ms),
    ];
    Table::of(fields, &rows).set(Setting::Whole)
}

fn streams(s: &Streams) -> String {
    let lost = if s.lost == 0 { "none lost".into() } else { format!("{} lost", thousands(s.lost as f64)) };
    let memory = s.rss_mib.map(|m| format!(", {} MiB", thousands(m))).unwrap_or_default();
    let descriptors = s.descriptors.map_or("any number of".into(), |n| thousands(n as f64));
    let ports =
        s.ports.map(|n| format!(", {} ports to one address", thousands(n as f64))).unwrap_or_default();
    format!(
        "Streams open at once: {} of {} tried, {lost}{memory}; the system allows {descriptors} open files{ports}",
        thousands(s.open as f64),
        thousands(s.tried as f64)
    )
}

/// Returns advice on how to raise the limits that were reached.
fn advice(c: &Calibration) -> Vec<String> {
    let mut told: Vec<String> = c.streams.as_ref().map(for_more_streams).unwrap_or_default();
    let late = c.lateness.iter().find(|a| a.rate >= 1_000.0 && a.quantiles.p99_ms > EXACT_MS);
    if let Some(at) = late {
        told.push(format!(
            "→ At {} req/s one request in a hundred is sent more than {} ms late: stop other programs on this machine, or \
             measure from one with more cores",
            thousands(at.rate),
            short(EXACT_MS)
        ));
    }
    told
}

fn for_more_streams(s: &Streams) -> Vec<String> {
    let mut told = Vec::new();
    if s.descriptors.is_some_and(|n| n < s.tried + 1_000) {
        told.push(
            "→ More streams: raise the hard limit of open files (`ulimit -Hn`, LimitNOFILE= of a service, \
             /etc/security/limits.conf); goodput raises the soft one itself"
                .into(),
        );
    }
    if s.ports.is_some_and(|n| n < s.tried + 1_000) {
        told.push(
            "→ More streams to one address: widen net.ipv4.ip_local_port_range, or give the service several addresses \
             (urls)"
                .into(),
        );
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::terminal::{Screen, render};
    use goodput_stats::calibration::example;

    #[test]
    fn the_figures_are_told_with_what_to_do() {
        let text = render(&brief(&example()), &Screen::default());
        for says in [
            "Highest rate with a p99 lateness below 1 ms: 12,000 req/s",
            "29,000 req/s",
            "none lost",
            "ulimit -Hn",
        ] {
            assert!(text.contains(says), "{says}: {text}");
        }
        let mut late = example();
        late.lateness[2].quantiles.p99_ms = 4.0;
        late.ttft_error.clear();
        late.streams.as_mut().unwrap().descriptors = None;
        let text = render(&brief(&late), &Screen::default());
        assert!(text.contains("stop other programs") && text.contains("Server-Timing"), "{text}");
        assert!(!text.contains("ulimit"), "there is no limit to raise: {text}");
    }
}
