//! Headline and subtitle of a chart, fitted to its width.

use super::canvas::Type;
use super::hue::{GREY, INK};
use crate::escape::{clip, plain};
use crate::words;
use goodput_core::units::thousands;
use goodput_run::rundir::Run;

/// Returns the subtitle on one line if it fits at a readable size, else on two, broken between its parts.
pub(crate) fn about(run: &Run, width: f64) -> (Type, Vec<String>) {
    let parts = subtitle(run);
    let line = parts.join(" · ");
    for size in [11.5, 11.0, 10.5] {
        let face = Type::book(size, GREY);
        if face.width(&line) <= width {
            return (face, vec![line]);
        }
    }
    let face = Type::book(11.0, GREY);
    let fits = (1..parts.len()).rev().find(|n| face.width(&parts[..*n].join(" · ")) <= width);
    let (first, rest) = parts.split_at(fits.unwrap_or(1));
    (face, [first, rest].map(|p| shortened(&face, p.to_vec(), width)).to_vec())
}

/// Returns the subtitle of a slide, on one line: the longest variant that fits, clipped only if none does.
pub(crate) fn brief(run: &Run, width: f64) -> (Type, Vec<String>) {
    let face = Type::book(11.5, GREY);
    let all = subtitle(run);
    // Drops the count of steps first, then the date: they come last.
    let shorter = |drop: usize| {
        let keep = |i: &usize| i + 1 != all.len().saturating_sub(1) && (drop < 2 || i + 1 != all.len());
        (0..all.len()).filter(|i| drop == 0 || keep(i)).map(|i| all[i].clone()).collect::<Vec<_>>()
    };
    let mut name = shorter(2);
    if let Some(server) = name.iter_mut().find(|p| p.starts_with("simulated") && p.contains(" (")) {
        // The report lists the differences from the preset.
        *server = server.split(" (").next().unwrap_or_default().to_owned() + " (…)";
    }
    let fits = [shorter(0), shorter(1), shorter(2), name.clone()];
    let line = fits.iter().map(|p| p.join(" · ")).find(|line| face.width(line) <= width);
    (face, vec![line.unwrap_or_else(|| shortened(&face, name, width))])
}

/// Joins parts, clipping the longest of them until all fit.
pub(crate) fn shortened(face: &Type, mut parts: Vec<String>, width: f64) -> String {
    loop {
        let line = parts.join(" · ");
        let longest = parts.iter_mut().max_by_key(|p| p.chars().count());
        match longest {
            Some(p) if face.width(&line) > width && p.chars().count() > 8 => {
                *p = clip(p, p.chars().count() - 2)
            }
            _ => return line,
        }
    }
}

/// Returns the parts of the subtitle: model, server, workload and so on.
pub(crate) fn subtitle(run: &Run) -> Vec<String> {
    let m = &run.meta;
    let title = m.server.to_string();
    let server = if m.server.is_simulated() { clip(&title, 80) } else { address(&title) };
    let mut parts = vec![clip(&m.model, 44), server, clip(&words::workload(run), 90)];
    if !m.model.is_empty() && title.starts_with(&m.model) {
        parts.remove(0); // `simulated · simulated mmc (…)` says it twice
    }
    parts.retain(|p| !p.is_empty());
    let steps = run.steps.len();
    let count = thousands(words::requests(run) as f64);
    parts.push(format!("{steps} step{}, {count} requests", if steps == 1 { "" } else { "s" }));
    parts.push(words::date(&m.started));
    parts
}

fn address(url: &str) -> String {
    let bare = url.split_once("://").map_or(url, |(_, rest)| rest);
    clip(bare.trim_end_matches('/'), 44)
}

/// Returns the headline on one line if it fits at a readable size, else on two.
pub(crate) fn fitted(text: &str, width: f64) -> (Type, Vec<String>) {
    // Keeps a number and its unit on one line.
    let text = plain(text)
        .replace(" requests", "\u{a0}requests")
        .replace(" ms", "\u{a0}ms")
        .replace(" req/s", "\u{a0}req/s");
    let face = Type::bold(19.0, INK);
    for size in [19.0, 18.0, 17.0, 16.5] {
        if face.sized(size).width(&text) <= width {
            return (face.sized(size), vec![text]);
        }
    }
    let face = face.sized(17.0);
    // Lines of similar length: a single last word on a line is ugly.
    let even = |share: f64| wrap(&face, &text, (face.width(&text) * share).min(width), usize::MAX);
    let two = [0.52, 0.56, 0.6, 0.65, 0.7].into_iter().map(even).find(|lines| lines.len() <= 2);
    let lines = two.unwrap_or_else(|| wrap(&face, &text, width, 2));
    (face, lines.into_iter().map(|l| ellipsis(&face, &l, width)).collect())
}

/// Breaks a text at spaces into at most `most` lines; cuts the rest with an ellipsis.
pub(crate) fn wrap(face: &Type, text: &str, width: f64, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("it starts with one line");
        let longer = if line.is_empty() { word.to_owned() } else { format!("{line} {word}") };
        if face.width(&longer) <= width || line.is_empty() {
            *line = longer;
        } else {
            lines.push(word.to_owned());
        }
    }
    if lines.len() > most {
        let rest = lines.split_off(most - 1).join(" ");
        lines.push(rest);
    }
    lines.into_iter().map(|l| ellipsis(face, &l, width)).collect()
}

pub(crate) fn ellipsis(face: &Type, text: &str, width: f64) -> String {
    let mut kept = text.to_owned();
    while face.width(&kept) > width && !kept.is_empty() {
        kept.truncate(kept.trim_end_matches('…').char_indices().next_back().map_or(0, |(i, _)| i));
        kept.push('…');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_plan::MeasuredServer;
    use goodput_run::fixture;

    #[test]
    fn the_subtitle_says_nothing_twice() {
        let mut run = fixture::found();
        assert_eq!(subtitle(&run)[..2], ["qwen3-0.6b", "127.0.0.1:8000"]);
        run.meta.model = "simulated".into();
        run.meta.server = MeasuredServer::Legacy("simulated mmc (4 servers)".into());
        assert_eq!(subtitle(&run)[0], "simulated mmc (4 servers)");
        run.meta.model = "qwen3-0.6b".into();
        assert_eq!(subtitle(&run)[0], "qwen3-0.6b", "a name that the plan gave");
    }
}
