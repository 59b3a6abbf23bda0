//! What a row of a data set says.

use goodput_core::message::{Message, Role};
use std::time::Duration;

/// One conversation of a data set; a single prompt is one of one turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Its number in the data set: `get(id)` gives it again.
    pub id: u64,
    /// The line on which it begins in its file, from 1.
    pub line: u32,
    /// The turns in their order; at least one.
    pub conversation: Vec<TurnSample>,
}

/// One turn: what is said before an answer is asked for.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TurnSample {
    /// The messages since the answer before; at least one. The first turn's hold the system message.
    pub messages: Vec<Message>,
    /// Length of the answer to ask for; `None`: the plan's `output-tokens`. Of a reference answer it is an estimate, unless the
    /// set was opened with a tokenizer.
    pub output_tokens: Option<u32>,
    /// The answer in the data, where there is one.
    pub reference: Option<String>,
    /// How long the user waited after the answer before, where the data says so; `None` of the first turn.
    pub delay: Option<Duration>,
}

/// Cuts a list of messages into turns: each answer ends one. What an assistant says before anybody asked is part of the first
/// turn; answers in a row are one.
pub(super) fn turns(messages: Vec<Message>) -> Vec<TurnSample> {
    let mut turns: Vec<TurnSample> = Vec::new();
    let mut open = TurnSample::default();
    for m in messages {
        let asked = open.messages.iter().any(|m| matches!(m.role, Role::User | Role::Tool));
        match turns.last_mut() {
            _ if m.role == Role::Assistant && asked => {
                open.reference = Some(m.content);
                turns.push(std::mem::take(&mut open));
            }
            Some(last) if m.role == Role::Assistant && open.messages.is_empty() => {
                let said = last.reference.get_or_insert_default();
                said.push('\n');
                said.push_str(&m.content);
            }
            _ => open.messages.push(m),
        }
    }
    if open.messages.iter().any(|m| matches!(m.role, Role::User | Role::Tool)) {
        turns.push(open);
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Vec<Message> {
        text.split_whitespace()
            .map(|w| Message {
                role: match &w[..1] {
                    "s" => Role::System,
                    "u" => Role::User,
                    "a" => Role::Assistant,
                    _ => Role::Tool,
                },
                content: w.into(),
            })
            .collect()
    }

    /// Row: messages by their first letter; the turns, each with what is asked and the answer.
    #[test]
    fn an_answer_ends_a_turn() {
        for (messages, expected) in [
            ("u1", "u1>-"),
            ("s u1 a1", "s,u1>a1"),
            ("s u1 a1 u2 a2", "s,u1>a1 u2>a2"),
            ("u1 a1 u2", "u1>a1 u2>-"),
            ("a0 u1 a1", "a0,u1>a1"),
            ("u1 a1 a2 u2", "u1>a1|a2 u2>-"),
            ("u1 u2 a1", "u1,u2>a1"),
            ("u1 a1 t1 a2", "u1>a1 t1>a2"),
            ("s", ""),
            ("", ""),
            ("a0", ""),
            ("u1 a1 s", "u1>a1"),
        ] {
            let got: Vec<String> = turns(said(messages))
                .into_iter()
                .map(|t| {
                    let asked: Vec<_> = t.messages.into_iter().map(|m| m.content).collect();
                    format!(
                        "{}>{}",
                        asked.join(","),
                        t.reference.as_deref().unwrap_or("-").replace('\n', "|")
                    )
                })
                .collect();
            assert_eq!(got.join(" "), expected, "{messages}");
        }
    }
}
