//! The contents of a plan's data files: lengths of prompts and answers.

use crate::distribution::Distribution;
use crate::workload::file_contents::FileContents;

/// Bars of a histogram, from low to high.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Describes the data sets and traces of a plan; empty if it has none.
pub(super) fn text(contents: &[FileContents]) -> String {
    let mut out = String::new();
    for (i, h) in contents.iter().enumerate() {
        let head = if i == 0 { "files" } else { "" };
        let class = h.class.as_ref().map_or(String::new(), |c| format!("class {c}: "));
        out += &format!("\n  {head:9} {class}{}", h.title);
        let basis = if h.estimated { ", estimated from characters" } else { "" };
        out += &format!("\n            prompts  {} tokens{basis}  {}", h.input, histogram(&h.input));
        if let Some(output) = &h.output {
            out += &format!("\n            answers  {output} tokens{basis}  {}", histogram(output));
        }
        out.extend(h.notes.iter().map(|note| format!("\n            {note}")));
    }
    out
}

/// Draws a histogram of lengths, one character per bar from the shortest to the longest, with a blank for a gap between bars.
fn histogram(d: &Distribution) -> String {
    let most = d.bars.iter().map(|b| b.n).max().unwrap_or(1).max(1);
    let mut out = String::new();
    let mut end = None;
    for bar in &d.bars {
        if end.is_some_and(|end| end < bar.from) {
            out.push(' ');
        }
        out.push(BLOCKS[((bar.n * 8).div_ceil(most) as usize).clamp(1, 8) - 1]);
        end = Some(bar.to);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::LengthHistogram;

    #[test]
    fn lengths_are_shown_with_their_histogram() {
        let mut lengths = LengthHistogram::default();
        [10, 10, 10, 10, 13, 500].into_iter().for_each(|n| lengths.push(n));
        let h = FileContents {
            class: Some("chat".into()),
            title: "6 prompts of a.jsonl".into(),
            input: lengths.finish().unwrap(),
            output: None,
            estimated: true,
            notes: vec!["Of 9 rows, 3 could not be read.".into()],
        };
        assert_eq!(
            text(&[h]),
            "\n  files     class chat: 6 prompts of a.jsonl\
             \n            prompts  mean 92, p50 10, p90 500, p99 500, longest 500 tokens, estimated from characters  █ ▂ ▂\
             \n            Of 9 rows, 3 could not be read."
        );
        assert_eq!(text(&[]), "");
    }
}
