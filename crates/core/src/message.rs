//! Chat messages, as workloads make them and requests carry them.

use crate::named_enum;

named_enum! {
    /// Author of a chat message.
    #[derive(Hash)]
    pub enum Role {
        /// Instructions for the whole conversation.
        System = "system",
        /// The person or program that asks.
        User = "user",
        /// The model.
        Assistant = "assistant",
        /// The output of a tool call.
        Tool = "tool",
    }
}

/// One chat message.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Message {
    /// Author of the message.
    pub role: Role,
    /// Text of the message.
    pub content: String,
    /// Its part in calls of tools; `None` for most messages.
    pub tools: Option<Box<Tools>>,
}

/// The part of a message in calls of tools.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Tools {
    /// The calls that an assistant's message asks for, at least one.
    Calls(Vec<ToolCall>),
    /// The id of the call whose output a tool's message is.
    OutputOf(String),
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ToolCall {
    /// Id by which the output names the call.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments as the text of a JSON object.
    pub arguments: String,
}

impl Message {
    /// Creates a message without calls of tools.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self { role, content: content.into(), tools: None }
    }

    /// Iterates over all texts that the model reads: the content, and the names and arguments of calls.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let calls = match self.tools.as_deref() {
            Some(Tools::Calls(calls)) => calls.as_slice(),
            Some(Tools::OutputOf(_)) | None => &[],
        };
        let calls = calls.iter().flat_map(|call| [call.name.as_str(), &call.arguments]);
        std::iter::once(self.content.as_str()).chain(calls)
    }

    /// Creates a user message.
    pub fn user(content: impl Into<String>) -> Self {
        Self::new(Role::User, content)
    }

    /// Creates a system message.
    pub fn system(content: impl Into<String>) -> Self {
        Self::new(Role::System, content)
    }
}

/// Returns true if the messages that follow an answer begin with a recorded answer that calls tools. It stands in for the answer of
/// the server, since the outputs after it belong to its calls.
pub fn begins_with_calls(messages: &[Message]) -> bool {
    let mut answers = messages.iter().take_while(|m| m.role == Role::Assistant);
    answers.any(|m| matches!(m.tools.as_deref(), Some(Tools::Calls(_))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_by_the_model() {
        let call = |n: u32| ToolCall { id: n.to_string(), name: format!("f{n}"), arguments: "{}".into() };
        for (tools, texts) in [
            (None, &["text"][..]),
            (Some(Tools::Calls(vec![call(1), call(2)])), &["text", "f1", "{}", "f2", "{}"]),
            (Some(Tools::OutputOf("1".into())), &["text"]),
        ] {
            let message = Message { tools: tools.map(Box::new), ..Message::new(Role::Assistant, "text") };
            assert_eq!(message.texts().collect::<Vec<_>>(), texts);
        }
    }
}
