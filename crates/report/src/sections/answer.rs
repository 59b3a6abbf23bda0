//! The answer: in words, and as the three numbers that are called goodput.

use crate::document::{Block, Bullet, Entry, Text, emphasis, plain, strong};
use crate::words::{self, AnswerSentences};
use goodput_run::rundir::Run;
use goodput_stats::search::answer::Answer;

/// Returns the blocks of the section of the report.
pub(super) fn section(run: &Run) -> Vec<Block> {
    let Some(first) = run.answers.first() else {
        return vec![Block::paragraph("There is none: no step was finished.")];
    };
    let mut blocks = Vec::new();
    for (i, a) in run.answers.iter().enumerate() {
        let AnswerSentences { answer, plan, soak, with, evidence } = words::sentences(run, a);
        let mut text = Text::from(strong(answer));
        let with = if i > 0 { String::new() } else { with };
        for more in [plan, soak, with].iter().filter(|s| !s.is_empty()) {
            text.push_str(&format!(" {}", more.trim()));
        }
        blocks.extend([Block::Paragraph(text), Block::paragraph(evidence)]);
    }
    let assumed = words::assumptions(run);
    if !assumed.is_empty() {
        blocks.push(Block::paragraph(emphasis(assumed)));
    }
    blocks.push(Block::paragraph("Three numbers are called goodput; these are all of them:"));
    blocks.push(Block::List(run.answers.iter().flat_map(|a| three(run, a)).collect()));
    let counted = run.steps.iter().any(|s| s.good_rate > s.achieved_rate);
    if first.goodput.bracket.met.is_some() || counted {
        blocks.push(Block::Paragraph(Text::of([
            emphasis("Good"),
            plain(" counts requests due in the measured window, "),
            emphasis("achieved"),
            plain(" those completed in it: by chance the one can be a little above the other."),
        ])));
    }
    blocks
}

/// Returns a suffix that identifies an answer: ` of gold`; empty if there is one answer.
fn suffix(run: &Run, a: &Answer) -> String {
    let whose = words::whose(run, a);
    if whose.is_empty() { whose } else { format!(" of {whose}") }
}

fn three(run: &Run, a: &Answer) -> Vec<Text> {
    let of = suffix(run, a);
    let line = |name: &str, rest: String| Text::of([strong(name), plain(rest)]);
    let mut all = vec![
        line(
            "goodput",
            format!("{of}, each limit at its own percentile: {}", words::goodput_cell(a.control, &a.goodput)),
        ),
        line(
            "joint goodput",
            format!(
                "{of}, at least {} of the requests within all limits together: {}",
                words::joint_target(run, a),
                words::goodput_cell(a.control, &a.joint_goodput)
            ),
        ),
        line(
            "good requests/s",
            format!("{of}, those within all limits together: {}", words::good_requests(run, a)),
        ),
    ];
    all.extend(words::knee(a).map(|k| format!("knee{of}: {k}").into()));
    all
}

/// Returns the first answer for a terminal, and the rate to plan with: a line each.
pub(super) fn brief(run: &Run) -> Vec<Block> {
    let Some(a) = run.answers.first() else {
        return vec![Block::paragraph("No answer: no step was finished.")];
    };
    let s = words::sentences(run, a);
    Block::paragraphs([s.answer, s.plan])
}

/// Returns what the first answer rests on, for a terminal: a line for each sentence.
pub(super) fn details(run: &Run) -> Vec<Block> {
    let Some(a) = run.answers.first() else { return Vec::new() };
    let s = words::sentences(run, a);
    Block::paragraphs([s.with, s.evidence, s.soak])
}

/// Returns a further answer for a terminal: the answer, and its capacity.
pub(super) fn other(run: &Run, a: &Answer) -> Block {
    let AnswerSentences { answer, plan, .. } = words::sentences(run, a);
    let limit = words::cost_limit(run, a).map(|c| format!("; cost limit {c}")).unwrap_or_default();
    let amounts = format!("{}: {}{limit}", words::whose(run, a), super::amounts::in_a_line(run, a));
    let said = format!("{answer} {plan}");
    Block::Outline(vec![Entry::new(Bullet::None, said.trim_end()).over(vec![Entry::line(amounts)])])
}
