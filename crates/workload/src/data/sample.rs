//! Contents of one row of a data set.

use goodput_core::message::{Message, Role};
use std::time::Duration;

/// One conversation of a data set; a single prompt has one turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Number in the data set, accepted by `DataSet::get`.
    pub id: u64,
    /// Line on which it begins in its file, from 1.
    pub line: u32,
    /// Turns in order; at least one.
    pub conversation: Vec<TurnSample>,
}

/// One turn: the messages before an answer, and its length.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TurnSample {
    /// Messages since the previous answer; at least one. Those of the first turn include the system message.
    pub messages: Vec<Message>,
    /// Length of the answer to ask for; `None` for the plan's `output-tokens`. For a reference answer an estimate,
    /// unless the set was opened with a tokenizer.
    pub output_tokens: Option<u32>,
    /// Reference answer, if the data has one.
    pub reference: Option<String>,
    /// Time that the user waited after the previous answer, if recorded; `None` for the first turn.
    pub delay: Option<Duration>,
}

/// Splits a list of messages into turns, each ended by an answer. Assistant messages before the first question belong
/// to the first turn; consecutive answers are joined. An answer that calls tools is the reference of its turn, and the next turn
/// begins with it, so that the outputs of its calls follow it.
pub(super) fn turns(messages: Vec<Message>) -> Vec<TurnSample> {
    let mut turns: Vec<TurnSample> = Vec::new();
    let mut open = TurnSample::default();
    for m in messages {
        let asked = open.messages.iter().any(|m| matches!(m.role, Role::User | Role::Tool));
        match turns.last_mut() {
            _ if m.role == Role::Assistant && asked => {
                open.reference = Some(answer(&m));
                turns.push(std::mem::take(&mut open));
                if m.tools.is_some() {
                    open.messages.push(m);
                }
            }
            Some(last) if m.role == Role::Assistant && open.messages.is_empty() => {
                let reference = last.reference.get_or_insert_default();
                if m.tools.is_some() {
                    open.messages.extend([Message::new(Role::Assistant, reference.clone()), m.clone()]);
                }
                reference.push('\n');
                reference.push_str(&answer(&m));
            }
            _ => open.messages.push(m),
        }
    }
    if open.messages.iter().any(|m| matches!(m.role, Role::User | Role::Tool)) {
        turns.push(open);
    }
    turns
}

/// Returns what the model wrote for a message: its text and its calls.
fn answer(message: &Message) -> String {
    message.texts().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_core::message::{ToolCall, Tools};

    fn messages(text: &str) -> Vec<Message> {
        text.split_whitespace()
            .map(|w| {
                let role = match &w[..1] {
                    "s" => Role::System,
                    "u" => Role::User,
                    "a" | "c" => Role::Assistant,
                    _ => Role::Tool,
                };
                let call = ToolCall { id: w.into(), name: "f".into(), arguments: "{}".into() };
                let tools = w.starts_with('c').then(|| Box::new(Tools::Calls(vec![call])));
                Message { tools, ..Message::new(role, w) }
            })
            .collect()
    }

    /// Cases: messages by their first letter; the turns, each with question and answer.
    #[test]
    fn an_answer_ends_a_turn() {
        for (text, expected) in [
            ("u1", "u1>-"),
            ("s u1 a1", "s,u1>a1"),
            ("s u1 a1 u2 a2", "s,u1>a1 u2>a2"),
            ("u1 a1 u2", "u1>a1 u2>-"),
            ("a0 u1 a1", "a0,u1>a1"),
            ("u1 a1 a2 u2", "u1>a1|a2 u2>-"),
            ("u1 u2 a1", "u1,u2>a1"),
            ("u1 a1 t1 a2", "u1>a1 t1>a2"),
            ("u1 c1 t1 a2", "u1>c1|f|{} c1,t1>a2"),
            ("u1 c1 t1 t2 c2 t3", "u1>c1|f|{} c1,t1,t2>c2|f|{} c2,t3>-"),
            ("u1 a1 c1 t1 a2", "u1>a1|c1|f|{} a1,c1,t1>a2"),
            ("u1 c1", "u1>c1|f|{}"),
            ("s", ""),
            ("", ""),
            ("a0", ""),
            ("u1 a1 s", "u1>a1"),
        ] {
            let got: Vec<String> = turns(messages(text))
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
            assert_eq!(got.join(" "), expected, "{text}");
        }
    }
}
